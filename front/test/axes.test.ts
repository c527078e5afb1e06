import { describe, expect, it } from "vitest";
import { axesOf, barOf, cut, layOut, stepOf } from "../src/axes";
import { turnOf, viewOf } from "../src/view";
import { axis, sceneOf } from "./patterns";

const measure = (text: string) => 6 * text.length;

function drawn(T: number, S: number, queries = sceneOf(T, S).axes[0]!, keys = sceneOf(T, S).axes[1]!) {
  const { fit, margins } = layOut({ T, S }, queries, keys, 800, 700, measure);
  const view = viewOf(fit, turnOf(fit, null));
  return { view, margins, axes: axesOf(view, margins, queries, keys, false, measure) };
}

describe("axes", () => {
  it("name every token where a cell has room, beside its cell", () => {
    const { axes, view, margins } = drawn(5, 9);
    const rows = axes.marks.filter(({ anchor }) => anchor === "end");
    expect(rows.map(({ text }) => text)).toEqual(["w0", "w1", "w2", "w3", "w4"]);
    rows.forEach(({ y }, i) => expect(y).toBeCloseTo(margins.top + view.y + (i + 0.5) * view.ky));
    expect(axes.marks.filter(({ text }) => text.startsWith("w"))).toHaveLength(14);
  });

  it("number round positions where it has none, a bounded number of them", () => {
    const { axes } = drawn(32768, 32768);
    const texts = axes.marks.map(({ text }) => text);
    expect(texts).toContain("10,000");
    expect(texts.some((text) => text.startsWith("w"))).toBe(false);
    expect(texts.length).toBeLessThan(60);
  });

  it("keep labels inside of the picture", () => {
    const long = axis(Array.from({ length: 30 }, () => "x".repeat(500)));
    const { axes, margins } = drawn(30, 30, long, long);
    for (const { x, y, text, angle, anchor } of axes.marks) {
      if (anchor === "end") expect(x - measure(text)).toBeGreaterThanOrEqual(0);
      if (angle === -90 && anchor === "start") expect(y - measure(text)).toBeGreaterThanOrEqual(0);
      if (angle === -45) expect(y - 0.71 * measure(text)).toBeGreaterThanOrEqual(0);
    }
    expect(margins.left).toBeLessThan(140);
  });

  it("set what is no text apart", () => {
    const tokens = axis(["[CLS]", "a", "b"], [0]);
    const { axes } = drawn(3, 3, tokens, tokens);
    expect(axes.marks.filter(({ text }) => text === "[CLS]").every(({ tone }) => tone === "soft")).toBe(true);
    expect(axes.marks.filter(({ text }) => text === "a").every(({ tone }) => tone === "ink")).toBe(true);
  });
});

it("steps are 1, 2 or 5 times a power of ten and far enough apart", () => {
  for (let k = 0.001; k < 50; k *= 1.37) {
    const step = stepOf(k, 40);
    expect(["1", "2", "5"]).toContain(String(step)[0]);
    expect(step * k).toBeGreaterThanOrEqual(Math.min(40, k) * (1 - 1e-9));
  }
});

it("cuts texts to their room, whole characters at a time", () => {
  expect(cut("short", 100, measure)).toBe("short");
  expect(cut("abcdefghij", 30, measure)).toBe("abcd…");
  const faces = cut("😀".repeat(50), 50, (text) => 10 * Array.from(text).length);
  expect(faces).toBe(`${"😀".repeat(4)}…`);
});

it("the colour bar names its ends where they are", () => {
  const { view, margins } = drawn(24, 24);
  const bar = barOf(view, margins, { range: 0.25, scale: "sqrt", dark: false, diverging: false }, "probability", measure);
  const numbers = bar.marks.filter(({ angle }) => angle === 0);
  expect(numbers.map(({ text }) => text)).toEqual(["0.25", "0.05", "0"]);
  expect(numbers[0]!.y).toBeCloseTo(bar.y);
  expect(numbers[1]!.y).toBeCloseTo(bar.y + bar.height * (1 - Math.sqrt(0.2)));
  expect(numbers[2]!.y).toBeCloseTo(bar.y + bar.height);
  const apart = barOf(view, margins, { range: 0.4, scale: "linear", dark: false, diverging: true }, "difference", measure);
  expect(apart.marks.filter(({ angle }) => angle === 0).map(({ text }) => text)).toEqual(["+0.4", "+0.2", "0", "−0.2", "−0.4"]);
});
