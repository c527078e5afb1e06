import { describe, expect, it } from "vitest";
import { ceiling, colours, css, inkOn, isDark, oklab, ramp, SCALES } from "../src/colour";
import type { Colour } from "../src/colour";
import { opening } from "../src/state";
import { sceneOf } from "./patterns";

const lightness = (c: Colour) => oklab(c)[0];

function contrast(a: Colour, b: Colour): number {
  const linear = (x: number) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
  const luminance = (c: Colour) => {
    const [r, g, b] = c.map((x) => linear(x / 255)) as Colour;
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

describe.each([false, true])("ramps, dark: %s", (dark) => {
  // Rounding to bytes may move a colour by half a step.
  const slack = 0.004;

  it("go one way in lightness", () => {
    const way = dark ? 1 : -1;
    const steps = colours(dark, false).map(lightness);
    for (let n = 1; n < steps.length; n++) expect(way * (steps[n]! - steps[n - 1]!)).toBeGreaterThan(-slack);
    expect(Math.abs(steps[steps.length - 1]! - steps[0]!)).toBeGreaterThan(0.6);
  });

  it("go the same way from no difference to both ends", () => {
    const way = dark ? 1 : -1;
    const steps = colours(dark, true).map(lightness);
    const middle = (steps.length - 1) / 2;
    for (let n = Math.ceil(middle) + 1; n < steps.length; n++) {
      expect(way * (steps[n]! - steps[n - 1]!)).toBeGreaterThan(-slack);
      const mirror = steps.length - 1 - n;
      expect(way * (steps[mirror]! - steps[mirror + 1]!)).toBeGreaterThan(-slack);
    }
    expect(way * (steps[0]! - steps[512]!)).toBeGreaterThan(0.4);
    expect(way * (steps[1023]! - steps[512]!)).toBeGreaterThan(0.4);
  });

  it("tell both signs of a difference apart without red and green", () => {
    const of = ramp(dark, true);
    for (const t of [0.1, 0.25]) {
      // The blue to yellow axis of OKLab: what is left to those who do not tell red from green.
      expect(oklab(of(0.5 + t))[2] - oklab(of(0.5 - t))[2]).toBeGreaterThan(0.08);
    }
  });

  it("carry ink that can be read", () => {
    for (const apart of [false, true]) {
      for (const colour of colours(dark, apart)) {
        const ink: Colour = inkOn(colour) === "#000000" ? [0, 0, 0] : [255, 255, 255];
        expect(contrast(colour, ink)).toBeGreaterThanOrEqual(4.5);
      }
    }
  });
});

it("clamps what is no place on a ramp", () => {
  const of = ramp(false, false);
  expect(of(-1)).toEqual(of(0));
  expect(of(2)).toEqual(of(1));
  expect(of(NaN)).toEqual(of(0));
  expect(css(of(0))).toBe("rgb(255 255 255)");
});

it("scales keep 0, 1 and the order, and show small values more and more", () => {
  for (const scale of Object.values(SCALES)) {
    expect(scale(0)).toBe(0);
    expect(scale(1)).toBeCloseTo(1, 12);
    for (let x = 0; x < 1; x += 0.01) expect(scale(x + 0.01)).toBeGreaterThan(scale(x));
  }
  expect(SCALES.sqrt(0.01)).toBeCloseTo(0.1);
  expect(SCALES.log(0.01)).toBeGreaterThan(SCALES.sqrt(0.01));
});

it("ends the colour bar at a round number close above the largest value", () => {
  expect(ceiling(1)).toBe(1);
  expect(ceiling(0.81)).toBe(1);
  expect(ceiling(Math.fround(0.8))).toBe(0.8);
  expect(ceiling(0.0131)).toBe(0.015);
  expect(ceiling(0)).toBe(1);
  for (let most = 1e-6; most < 1; most *= 1.03) {
    expect(ceiling(most)).toBeGreaterThanOrEqual(most * (1 - 1e-5));
    expect(ceiling(most)).toBeLessThanOrEqual(most * 1.34);
  }
});

it("takes the theme that was chosen", () => {
  const state = opening(sceneOf(4, 4));
  expect(isDark({ ...state, theme: "dark" })).toBe(true);
  expect(isDark({ ...state, theme: "light" })).toBe(false);
  expect(isDark(state)).toBe(false);
});
