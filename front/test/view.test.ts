import { describe, expect, it } from "vitest";
import {
  around, atOf, cellAt, coarsest, deepest, fit, held, levelFor, middleOf, nearestFirst, ringOf, seen, tilesIn, turnOf,
  viewOf, zoomed,
} from "../src/view";

const whole = (T: number, S: number, width = 600, height = 600) => {
  const laid = fit(T, S, width, height);
  return { laid, view: viewOf(laid, turnOf(laid, null)) };
};

describe("tiles of a view", () => {
  it.each([
    [1, 1, 0],
    [255, 256, 0],
    [257, 10, 1],
    [10, 513, 2],
    [32768, 32768, 7],
    [32769, 1, 8],
  ])("%i x %i fits into one tile from level %i on", (T, S, z) => {
    expect(coarsest(T, S)).toBe(z);
    expect(Math.max(T, S) / 2 ** z).toBeLessThanOrEqual(256);
    if (z) expect(Math.max(T, S) / 2 ** (z - 1)).toBeGreaterThan(256);
  });

  it("asks for one tile where the pattern is smaller than a tile", () => {
    const { view } = whole(5, 9);
    expect(tilesIn(view, 0)).toEqual({ z: 0, r0: 0, r1: 1, c0: 0, c1: 1 });
    expect(levelFor(view, 1)).toBe(0);
  });

  it("covers odd lengths to their last, cut off tile", () => {
    const { view } = whole(513, 769);
    expect(tilesIn(view, 0)).toEqual({ z: 0, r0: 0, r1: 3, c0: 0, c1: 4 });
    expect(tilesIn(view, 1)).toEqual({ z: 1, r0: 0, r1: 2, c0: 0, c1: 2 });
  });

  it("covers exactly what is seen, for every place", () => {
    const laid = fit(5000, 3001, 600, 500);
    for (const at of [[10, 4990, 700], [1500, 2500, 64.5], [3000.9, 0, 300]] as [number, number, number][]) {
      const view = viewOf(laid, turnOf(laid, at));
      const part = seen(view);
      for (const z of [0, 1, 3]) {
        const side = 256 * 2 ** z;
        const span = tilesIn(view, z);
        expect(span.r0 * side).toBeLessThanOrEqual(part.i0);
        expect((span.r0 + 1) * side).toBeGreaterThan(part.i0);
        expect(span.r1 * side).toBeGreaterThanOrEqual(part.i1);
        expect((span.r1 - 1) * side).toBeLessThan(part.i1);
        expect(span.c0).toBe(Math.floor(part.j0 / side));
        expect(span.c1).toBe(Math.floor((part.j1 - 1) / side) + 1);
      }
    }
  });

  it("draws the level whose pooled cells are one to two device pixels", () => {
    for (const ratio of [1, 1.5, 2]) {
      for (const keys of [32768, 20000, 9000, 1300]) {
        const laid = fit(32768, 32768, 600, 600);
        const view = viewOf(laid, turnOf(laid, [16000, 16000, keys]));
        const pixels = view.kx * ratio * 2 ** levelFor(view, ratio);
        expect(pixels).toBeGreaterThanOrEqual(1 - 1e-6);
        expect(pixels).toBeLessThan(2);
      }
    }
    expect(levelFor(whole(256, 256).view, 1)).toBe(0);
  });

  it("takes a coarser level rather than hundreds of tiles", () => {
    const laid = fit(32768, 32768, 5000, 5000);
    const view = viewOf(laid, turnOf(laid, [16384, 16384, 5000]));
    const { r0, r1, c0, c1 } = tilesIn(view, levelFor(view, 1));
    expect((r1 - r0) * (c1 - c0)).toBeLessThanOrEqual(96);
  });

  it("asks for the middle first and rings the span inside of the pattern", () => {
    const laid = fit(2560, 2560, 600, 600);
    const view = viewOf(laid, turnOf(laid, [1300, 1300, 600]));
    const span = tilesIn(view, 0);
    const order = nearestFirst(span, middleOf(view, 0));
    expect(order[0]).toEqual([5, 5]);
    expect(order).toHaveLength((span.r1 - span.r0) * (span.c1 - span.c0));
    expect(ringOf({ z: 0, r0: 0, r1: 1, c0: 0, c1: 1 }, 300, 900)).toEqual([[0, 1], [1, 0], [1, 1]]);
    expect(ringOf({ z: 0, r0: 0, r1: 2, c0: 0, c1: 4 }, 300, 900)).toEqual([]);
  });
});

describe("the place in the store", () => {
  it.each([[32768, 32768], [700, 300], [24, 24], [1, 9000], [9000, 3]])("of %i x %i comes back from its transform", (T, S) => {
    const laid = fit(T, S, 640, 480);
    const keys = 640 / laid.fx / Math.min(8, Math.max(1.5, deepest(laid) / 2));
    const turn = turnOf(laid, [S * 0.4, T * 0.6, keys]);
    const at = atOf(laid, turn);
    const again = turnOf(laid, at);
    if (!at) return expect(turn.k).toBe(1);
    expect(again.k).toBeCloseTo(turn.k, 9);
    expect(again.x).toBeCloseTo(turn.x, 6);
    expect(again.y).toBeCloseTo(turn.y, 6);
  });

  it("is null for the whole, and the whole is seen", () => {
    const { laid, view } = whole(500, 400);
    expect(atOf(laid, turnOf(laid, null))).toBeNull();
    expect(seen(view)).toEqual({ i0: 0, i1: 500, j0: 0, j1: 400 });
  });

  it("says the key and the query that are in the middle", () => {
    const laid = fit(1000, 1000, 600, 600);
    const view = viewOf(laid, turnOf(laid, [300, 700, 100]));
    expect(cellAt(view, 300.1, 300.1)).toEqual([700, 300]);
    expect(view.width / view.kx).toBeCloseTo(100);
  });

  it("leaves no empty edge", () => {
    const laid = fit(1000, 1000, 600, 600);
    expect(held(laid, { k: 2, x: 50, y: -5000 })).toEqual({ k: 2, x: 0, y: -600 });
  });

  it("keeps the cell under the crosshair where it is while zooming", () => {
    const laid = fit(1000, 1000, 600, 600);
    const from = turnOf(laid, [500, 500, 200]);
    const before = viewOf(laid, from);
    const after = viewOf(laid, zoomed(laid, from, 1.5, [520, 470]));
    expect(after.x + 470.5 * after.kx).toBeCloseTo(before.x + 470.5 * before.kx);
    expect(after.y + 520.5 * after.ky).toBeCloseTo(before.y + 520.5 * before.ky);
    expect(after.kx / before.kx).toBeCloseTo(1.5);
  });

  it("fills the plot with a box", () => {
    const laid = fit(1000, 1000, 600, 600);
    const view = viewOf(laid, around(laid, [100, 200], [300, 350]));
    const part = seen(view);
    expect([part.i0, part.i1]).toEqual([100, 200]);
    expect(part.j0).toBeLessThanOrEqual(300);
    expect(part.j1).toBeGreaterThanOrEqual(350);
  });

  it("stretches a thin pattern and brings its cells back to squares by zooming", () => {
    const laid = fit(2, 30000, 600, 600);
    expect(viewOf(laid, turnOf(laid, null)).ky).toBeGreaterThan(20);
    const near = viewOf(laid, turnOf(laid, [15000, 1, 600 / 90]));
    expect(near.ky / near.kx).toBeCloseTo(1);
    expect(near.ky).toBeLessThanOrEqual(96);
  });
});

it("finds no cell beside the pattern", () => {
  const { view } = whole(10, 3);
  expect(view.x).toBeGreaterThan(0);
  expect(cellAt(view, view.x - 1, 5)).toBeNull();
  expect(cellAt(view, view.x + 1, 5)).toEqual([0, 0]);
  expect(cellAt(view, view.x + view.kx * 3 + 1, 5)).toBeNull();
});
