import { expect, it } from "vitest";
import { bandOf, edgesOf, isVisible } from "../src/edges";
import { fit, turnOf, viewOf } from "../src/view";
import { sceneOf } from "./patterns";

const viewOfWhole = (T: number, S: number) => {
  const laid = fit(T, S, 600, 600);
  return viewOf(laid, turnOf(laid, null));
};
const layer = (T: number, S: number, change = {}) => sceneOf(T, S, change).layers[0]!;

it("a causal layer hides the keys ahead of the query, wherever the query stands", () => {
  const band = bandOf(layer(3, 5, { causal: true, start: [2] }), 0);
  const rows = [0, 1, 2].map((i) => [0, 1, 2, 3, 4].map((j) => Number(isVisible(band, i, j))).join(""));
  expect(rows).toEqual(["11100", "11110", "11111"]);
});

it("a window hides what is further behind and ahead than it reaches", () => {
  const band = bandOf(layer(4, 4, { before: 1, after: 1, start: [0] }), 0);
  const rows = [0, 1, 2, 3].map((i) => [0, 1, 2, 3].map((j) => Number(isVisible(band, i, j))).join(""));
  expect(rows).toEqual(["1100", "1110", "0111", "0011"]);
});

it("stairs run along the cells", () => {
  const view = viewOfWhole(4, 4);
  const [edge] = edgesOf(view, bandOf(layer(4, 4, { causal: true, start: [0] }), 0));
  const corners = edge!.line.map(([x, y]) => [(x - view.x) / view.kx, (y - view.y) / view.ky]);
  expect(corners).toEqual([[1, 0], [1, 1], [2, 1], [2, 2], [3, 2], [3, 3], [4, 3], [4, 4]]);
});

it("a long pattern has a line of few corners, inside of the pattern", () => {
  const view = viewOfWhole(32768, 32768);
  const edges = edgesOf(view, bandOf(layer(32768, 32768, { causal: true, before: 4095, start: [0] }), 0));
  expect(edges).toHaveLength(2);
  for (const { line } of edges) {
    expect(line.length).toBeLessThan(6);
    for (const [x] of line) {
      expect(x).toBeGreaterThanOrEqual(view.x - 1);
      expect(x).toBeLessThanOrEqual(view.x + view.S * view.kx + 1);
    }
  }
});

it("a layer without a mask has no edge", () => {
  expect(edgesOf(viewOfWhole(5, 9), bandOf(layer(5, 9), 0))).toEqual([]);
});
