import { expect, it } from "vitest";
import { hiddenIn, isHidden, isVisible, maskOf } from "../src/edges";
import { fit, turnOf, viewOf } from "../src/view";
import { sceneOf } from "./patterns";

const viewOfWhole = (T: number, S: number) => {
  const laid = fit(T, S, 600, 600);
  return viewOf(laid, turnOf(laid, null));
};
const layer = (T: number, S: number, change = {}) => sceneOf(T, S, change).layers[0]!;

it("a causal layer hides the keys ahead of the query, wherever the query stands", () => {
  const mask = maskOf(layer(3, 5, { causal: true, start: [2] }), 0);
  const rows = [0, 1, 2].map((i) => [0, 1, 2, 3, 4].map((j) => Number(isVisible(mask, i, j))).join(""));
  expect(rows).toEqual(["11100", "11110", "11111"]);
});

it("a window hides what is further behind and ahead than it reaches", () => {
  const mask = maskOf(layer(4, 4, { before: 1, after: 1, start: [0] }), 0);
  const rows = [0, 1, 2, 3].map((i) => [0, 1, 2, 3].map((j) => Number(isVisible(mask, i, j))).join(""));
  expect(rows).toEqual(["1100", "1110", "0111", "0011"]);
});

it("stairs run along the cells", () => {
  const view = viewOfWhole(4, 4);
  const { borders } = hiddenIn(view, maskOf(layer(4, 4, { causal: true, start: [0] }), 0));
  const corners = borders[0]!.map(([x, y]) => [(x - view.x) / view.kx, (y - view.y) / view.ky]);
  expect(corners).toEqual([[1, 0], [1, 1], [2, 1], [2, 2], [3, 2], [3, 3], [4, 3], [4, 4]]);
});

it("a long pattern has a line of few corners, inside of the pattern", () => {
  const view = viewOfWhole(32768, 32768);
  const { borders } = hiddenIn(view, maskOf(layer(32768, 32768, { causal: true, before: 4095, start: [0] }), 0));
  expect(borders).toHaveLength(2);
  for (const line of borders) {
    expect(line.length).toBeLessThan(6);
    for (const [x] of line) {
      expect(x).toBeGreaterThanOrEqual(view.x - 1);
      expect(x).toBeLessThanOrEqual(view.x + view.S * view.kx + 1);
    }
  }
});

it("a layer without a mask hides nothing", () => {
  expect(hiddenIn(viewOfWhole(5, 9), maskOf(layer(5, 9), 0))).toEqual({ areas: [], borders: [] });
});

it("padding is hidden on both axes, one row of the batch apart from the other", () => {
  const padded = layer(4, 5, { keys: [[1, 4], [0, 5]], queries: [[1, 3], [0, 4]], start: [0, 0] });
  const rows = (b: number) => [0, 1, 2, 3].map((i) => [0, 1, 2, 3, 4].map((j) => Number(isVisible(maskOf(padded, b), i, j))).join(""));
  expect(rows(0)).toEqual(["00000", "01110", "01110", "00000"]);
  expect(rows(1)).toEqual(["11111", "11111", "11111", "11111"]);
});

/** Whether a point lies in a polygon, and which way it turns there. */
function winding(area: [number, number][], px: number, py: number): number {
  let turns = 0;
  area.forEach(([x0, y0], n) => {
    const [x1, y1] = area[(n + 1) % area.length]!;
    const right = x0 + ((py - y0) / (y1 - y0)) * (x1 - x0) > px;
    if (y0 <= py && y1 > py && right) turns++;
    if (y1 <= py && y0 > py && right) turns--;
  });
  return turns;
}

const MASKS = [
  { causal: true },
  { causal: true, before: 3 },
  { before: 2, after: 1 },
  { causal: true, keys: [[2, 9]], queries: [[2, 10]] },
  { keys: [[0, 4]], queries: [[0, 11]] },
  { causal: true, before: 1, start: [4], keys: [[5, 12]], queries: [[1, 8]] },
  { keys: [[0, 0]], queries: [[0, 0]] },
];

it.each(MASKS)("areas cover the hidden cells, each once and all turning one way: %j", (mask) => {
  const found = maskOf(layer(11, 12, { start: [0], ...mask }), 0);
  for (const at of [null, [5, 6, 5], [9, 3, 4]] as [number, number, number][]) {
    const laid = fit(11, 12, 600, 600);
    const view = viewOf(laid, turnOf(laid, at));
    const { areas } = hiddenIn(view, found);
    for (let i = 0; i < 11; i++) {
      for (let j = 0; j < 12; j++) {
        const [x, y] = [view.x + (j + 0.5) * view.kx, view.y + (i + 0.5) * view.ky];
        if (x < 0 || y < 0 || x > view.width || y > view.height) continue;
        const over = areas.map((area) => winding(area, x, y)).filter(Boolean);
        expect(over, `${i} ${j}`).toEqual(isVisible(found, i, j) ? [] : [over[0]]);
        if (over.length) expect(over[0]).toBe(winding([[0, 0], [9, 0], [9, 9], [0, 9]], 4, 4));
      }
    }
  }
});

it.each(MASKS)("a block is hidden when all of its cells are: %j", (mask) => {
  const found = maskOf(layer(11, 12, { start: [0], ...mask }), 0);
  for (const pool of [2, 3, 4]) {
    for (let i0 = 0; i0 < 11; i0 += pool) {
      for (let j0 = 0; j0 < 12; j0 += pool) {
        const block = { i0, i1: Math.min(11, i0 + pool), j0, j1: Math.min(12, j0 + pool) };
        let all = true;
        for (let i = i0; i < block.i1; i++) for (let j = j0; j < block.j1; j++) all &&= !isVisible(found, i, j);
        expect(isHidden(found, block)).toBe(all);
      }
    }
  }
});
