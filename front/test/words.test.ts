import { describe, expect, it } from "vitest";
import type { Axis } from "../src/protocol";
import { away, brief, count, share, short, shownToken, span, visible } from "../src/words";

describe("numbers", () => {
  it.each([
    [0, "0"],
    [1, "1.000"],
    [0.1234, "0.123"],
    [0.0995, "0.100"],
    [0.01, "0.010"],
    [0.00994, "0.0099"],
    [0.001, "0.0010"],
    [0.00012, "1.2e-4"],
    [1.2e-5, "1.2e-5"],
    [-0.25, "−0.250"],
    [-3e-7, "−3.0e-7"],
  ])("share(%f) is %s", (p, said) => expect(share(p)).toBe(said));

  it("neither form says 0 for what is more, and share has two digits at least", () => {
    for (let p = 1; p > 1e-9; p *= 0.93) {
      const said = Number(share(p));
      expect(said).toBeGreaterThan(0);
      expect(Math.abs(said - p)).toBeLessThanOrEqual(0.051 * p);
      expect(Number(brief(p))).toBeGreaterThan(0);
      expect(brief(p).length).toBeLessThanOrEqual(5);
    }
  });

  it("are short and grouped", () => {
    expect([short(0.25), short(5e-5), short(0), short(-0.0125)]).toEqual(["0.25", "5e-5", "0", "−0.0125"]);
    expect([count(7), count(32768), count(1234567)]).toEqual(["7", "32,768", "1,234,567"]);
    expect([brief(0.1234), brief(0.0071), brief(0.001), brief(0.00099), brief(-0.5)]).toEqual(["0.12", "0.007", "0.001", "1e-3", "−0.50"]);
    expect([span(7, 8), span(1268, 1272)]).toEqual(["7", "1,268–1,271"]);
    expect([away(0), away(3), away(-2000)]).toEqual(["itself", "3 back", "2,000 ahead"]);
  });
});

describe("tokens", () => {
  it.each([
    ["", "◌"],
    [" ", "␣"],
    ["   ", "␣␣␣"],
    [" the", "·the"],
    ["a b", "a b"],
    ["\n", "⏎"],
    ["\t\r", "⇥␍"],
    ["\u0000", "␀"],
    ["\u007f", "␡"],
    ["\u0085", "⟨85⟩"],
    ["a\u200bb", "a⟨200b⟩b"],
    ["\u202eabc", "⟨202e⟩abc"],
    ["\ufeff", "⟨feff⟩"],
    ["\u0301", "◌\u0301"],
    ["\ud83d", "\ufffd"],
    ["😀", "😀"],
    ["<script>", "<script>"],
  ])("%j is seen as %s", (text, said) => expect(visible(text)).toBe(said));

  it("of an image are rows and columns after what is no patch", () => {
    const axis: Axis = { kind: "grid", name: "image", labels: ["[CLS]"], special: [0], height: 2, width: 3, before: 1 };
    expect([0, 1, 3, 4, 6].map((i) => shownToken(axis, i))).toEqual(["[CLS]", "r0 c0", "r0 c2", "r1 c0", "r1 c2"]);
  });
});
