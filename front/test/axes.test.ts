import { describe, expect, it } from "vitest";
import { axesOf, cut, layOut, leastHeight, roundAbove, stepOf, trimmed } from "../src/axes";
import { barOf } from "../src/bar";
import { ceiling } from "../src/colour";
import { turnOf, viewOf } from "../src/view";
import { axis, sceneOf } from "./patterns";

const measure = (text: string) => 6 * text.length;

function drawn(T: number, S: number, queries = sceneOf(T, S).axes[0]!, keys = sceneOf(T, S).axes[1]!, room = [800, 700], cross = false) {
  const { fit, margins } = layOut({ T, S }, queries, keys, room[0]!, room[1]!, measure);
  const view = viewOf(fit, turnOf(fit, null));
  return { view, margins, axes: axesOf(view, margins, queries, keys, cross, measure) };
}

describe("axes", () => {
  it("name every token where a cell has room, beside its cell", () => {
    const { axes, view, margins } = drawn(5, 9);
    const rows = axes.marks.filter(({ anchor, tone }) => anchor === "end" && tone === "ink");
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

  it("level labels of columns that are seen in part do not reach out of the plot", () => {
    const words = axis(Array.from({ length: 60 }, () => "a longer one"));
    const { fit, margins } = layOut({ T: 60, S: 60 }, words, words, 800, 700, measure);
    const view = viewOf(fit, turnOf(fit, [30, 30, fit.width / 96]));
    const labels = axesOf(view, margins, words, words, false, measure).marks.filter(({ angle, anchor }) => !angle && anchor === "middle");
    expect(labels.length).toBeGreaterThan(3);
    for (const { x, text } of labels) {
      expect(x - measure(text) / 2).toBeGreaterThanOrEqual(margins.left);
      expect(x + measure(text) / 2).toBeLessThanOrEqual(margins.left + view.width + 6);
    }
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

it("round numbers above a number are 1, 2 or 5 times a power of ten", () => {
  expect([0.3, 1, 1.1, 2, 7, 0.05, 1201].map(roundAbove)).toEqual([0.5, 1, 2, 2, 10, 0.05, 2000]);
});

describe("titles", () => {
  it("stand clear of the labels that a crosshair has at the first query and key", () => {
    for (const T of [5, 40, 700]) {
      const { axes, margins, view } = drawn(T, T);
      const [queries, keys] = ["queries ↓", "keys →"].map((text) => axes.marks.find((mark) => mark.text === text)!);
      // The label of a key ends 22 pixels above the plot, that of a query begins 4 pixels above it.
      expect(keys!.y + 6).toBeLessThanOrEqual(margins.top - 22);
      expect(queries!.y + 6).toBeLessThanOrEqual(margins.top - 4);
      expect(queries!.x).toBeLessThan(margins.left + view.x);
      for (const { x, y, text, anchor, angle } of axes.marks) {
        expect(y).toBeGreaterThanOrEqual(6);
        if (anchor === "end" && !angle) expect(x - measure(text)).toBeGreaterThanOrEqual(0);
      }
    }
  });

  it("of two texts say which one lies along each axis", () => {
    const [source, target] = ["source", "target"].map((name) => ({ ...axis(["a", "b", "c"]), name })) as [never, never];
    const { axes } = drawn(3, 3, target, source, [800, 700], true);
    expect(axes.marks.map(({ text }) => text)).toEqual(expect.arrayContaining(["keys · source →", "queries", "target ↓"]));
  });
});

describe("the plot", () => {
  const plot = (width: number, height: number) => {
    const words = axis(Array.from({ length: 256 }, (_, i) => `a long token ${i}`));
    const { view, margins } = drawn(256, 256, words, words, [width, height]);
    return { side: Math.min(view.width, view.height), margins };
  };

  it("uses its panel: in a window, in a small one and on a phone", () => {
    expect(plot(655, 692).side).toBeGreaterThanOrEqual(525);
    expect(plot(436, 462).side).toBeGreaterThanOrEqual(300);
    expect(plot(348, 390).side).toBeGreaterThanOrEqual(280);
  });

  it("never has more height than there is, but for the least", () => {
    for (const [width, height] of [[655, 692], [436, 300], [348, 390], [900, 240], [300, 900]] as const) {
      const { view, margins } = drawn(256, 256, undefined, undefined, [width, height]);
      const tall = margins.top + view.height + margins.bottom;
      expect(tall).toBeLessThanOrEqual(Math.max(height, leastHeight(margins)));
      expect(margins.left + view.width + margins.right).toBeLessThanOrEqual(width);
    }
  });

  it("is laid out by the pattern and its room, whatever part is seen", () => {
    const { margins, view } = drawn(700, 700);
    const picture = trimmed(view, margins, measure);
    expect(picture.top).toBeLessThanOrEqual(margins.top);
    expect(picture.left).toBeLessThanOrEqual(margins.left);
  });
});

describe("the colour bar", () => {
  const look = { range: 0.25, scale: "sqrt", dark: false, diverging: false } as const;
  const { view, margins, axes } = drawn(24, 24);
  const bar = (change: object, says = ["probability"]) => barOf(view, margins, { ...look, ...change }, says, axes.title, measure);
  const numbers = (change: object) => bar(change).marks.filter(({ tone }) => tone === "ink").map(({ text }) => text);

  it("names its ends and round numbers between them, where they are", () => {
    expect(numbers({})).toEqual(["0.25", "0.1", "0.05", "0.02", "0"]);
    const { marks, y, height } = bar({});
    expect(marks[0]!.y).toBeCloseTo(y);
    expect(marks[2]!.y).toBeCloseTo(y + height * (1 - Math.sqrt(0.2)));
    expect(marks[4]!.y).toBeCloseTo(y + height);
  });

  it("has four to six numbers, apart from each other, on every scale and for every range", () => {
    for (const scale of ["linear", "sqrt", "log"] as const) {
      for (let most = 1; most > 1e-5; most /= 1.3) {
        const found = bar({ scale, range: ceiling(most) }).marks.filter(({ tone }) => tone === "ink");
        expect(found.length).toBeGreaterThanOrEqual(4);
        expect(found.length).toBeLessThanOrEqual(6);
        for (const { x, text } of found) expect(x + measure(text)).toBeLessThanOrEqual(margins.left + view.width + margins.right + 3);
        for (let n = 1; n < found.length; n++) expect(found[n]!.y - found[n - 1]!.y).toBeGreaterThan(12);
      }
    }
  });

  it("of a difference has both signs", () => {
    expect(numbers({ range: 0.4, scale: "linear", diverging: true })).toEqual(["+0.4", "+0.2", "0", "−0.2", "−0.4"]);
    expect(numbers({ range: 0.0015, scale: "linear" })).toEqual(["0.0015", "0.001", "5e-4", "0"]);
  });

  it("says what it is of above itself, in one line or two, within the picture", () => {
    const says = ["share of the row’s largest, plain − a run with a very long name", "mean of 8 × 8 cells"];
    for (const [T, room] of [[700, [655, 692]], [700, [348, 390]], [24, [655, 692]], [1, [655, 692]]] as const) {
      const drawing = drawn(T, 700, undefined, undefined, [...room]);
      const { marks, y } = barOf(drawing.view, drawing.margins, look, says, drawing.axes.title, measure);
      const width = drawing.margins.left + drawing.view.width + drawing.margins.right;
      for (const mark of marks.filter(({ tone }) => tone === "soft")) {
        const [left, right] = mark.anchor === "end" ? [mark.x - measure(mark.text), mark.x] : [mark.x, mark.x + measure(mark.text)];
        expect(left).toBeGreaterThanOrEqual(0);
        expect(right).toBeLessThanOrEqual(width);
        if (drawing.margins.bar === "right") expect(left).toBeGreaterThan(drawing.axes.title.end);
        if (drawing.margins.bar === "right") expect(mark.y).toBeLessThan(y - 6);
      }
    }
  });
});
