import { describe, expect, it } from "vitest";
import { Cells, colourOf, numbers, piecesOf, placeOf, reading } from "../src/cells";
import type { Look } from "../src/cells";
import { SCALES, STEPS } from "../src/colour";
import { levelOf, wishesOf } from "../src/compose";
import type { Shown } from "../src/protocol";
import { Tiles } from "../src/tiles";
import { fit, tilesIn, turnOf, viewOf } from "../src/view";
import { share } from "../src/words";
import { Hand, sceneOf, settle } from "./patterns";

const shown: Shown = { run: 0, layer: 0, head: 0, b: 0, pool: "mean", hide: 0, norm: 0 };
const look: Look = { range: 0.5, scale: "linear", dark: false, diverging: false };

function start(T: number, S: number, at: [number, number, number] | null = null) {
  const scene = sceneOf(T, S);
  const hand = new Hand(scene);
  const tiles = new Tiles(hand, scene, () => {});
  const laid = fit(T, S, 600, 600);
  return { hand, tiles, view: viewOf(laid, turnOf(laid, at)) };
}

describe("numbers in cells", () => {
  it("are the values of the tile", async () => {
    const { hand, tiles, view } = start(5, 9);
    tiles.want(tiles, wishesOf(tiles, shown, view, tilesIn(view, 0)));
    await hand.answerAll();
    const written = numbers(view, look, (i, j) => reading(tiles, shown, view, 0, i, j)?.p ?? null, () => 10);
    expect(written).toHaveLength(45);
    const tile = tiles.get(shown, 0, 0, 0)!;
    for (const { x, y, text } of written) {
      const i = Math.floor((y - view.y) / view.ky);
      const j = Math.floor((x - view.x) / view.kx);
      expect(text).toBe(share(tile.data[9 * i + j]!));
      expect(Math.abs(Number(text) - 1 / (2 + i + 3 * j))).toBeLessThanOrEqual(0.0005 + 1e-9);
    }
  });

  it("all have the short form where one cell needs it, and are missing where the value is", () => {
    const { view } = start(5, 9);
    const values: Record<string, number> = { "0 0": 0.12345, "1 1": 0.0000123 };
    const written = (digit: number) =>
      numbers(view, look, (i, j) => values[`${i} ${j}`] ?? null, (text) => digit * text.length).map(({ text }) => text);
    expect(written(1)).toEqual(["0.123", "1.2e-5"]);
    expect(written((view.kx - 4) / 5.5)).toEqual(["0.12", "1e-5"]);
    expect(numbers(view, look, () => null, () => 1)).toEqual([]);
  });

  it("are not cut off by the edge of the plot", () => {
    const laid = fit(300, 300, 600, 600);
    const view = viewOf(laid, turnOf(laid, [150.5, 150.5, 600 / 90]));
    const written = numbers(view, look, () => 0.123, (text) => 6 * text.length);
    expect(written.length).toBeGreaterThan(20);
    for (const { x, y, text } of written) {
      expect(x - 3 * text.length).toBeGreaterThanOrEqual(0);
      expect(x + 3 * text.length).toBeLessThanOrEqual(600);
      expect(y).toBeGreaterThanOrEqual(6);
      expect(y).toBeLessThanOrEqual(594);
    }
  });
});

describe("a view", () => {
  it("is drawn from the tiles of its level, which cover it without overlap", async () => {
    const { hand, tiles, view } = start(513, 300);
    tiles.want(tiles, wishesOf(tiles, shown, view, tilesIn(view, 0)));
    expect(piecesOf(tiles, shown, view, 0)).toMatchObject({ exact: false, gaps: true, list: [] });
    await hand.answerAll();
    const { list, exact, gaps, sampled } = piecesOf(tiles, shown, view, 0);
    expect([exact, gaps, sampled]).toEqual([true, false, false]);
    expect(list.map(({ i0, i1, j0, j1 }) => [i0, i1, j0, j1])).toEqual([
      [0, 256, 0, 256],
      [0, 256, 256, 300],
      [256, 512, 0, 256],
      [256, 512, 256, 300],
      [512, 513, 0, 256],
      [512, 513, 256, 300],
    ]);
    expect(list[5]!.tile).toMatchObject({ h: 1, w: 44 });
  });

  it("falls back on the next coarser tile, and on the preview before that", async () => {
    const { hand, tiles, view } = start(4096, 4096, [600, 600, 500]);
    const ask = (z: number | null, r: number, c: number) => tiles.want(tiles, [{ shown, z, r, c, idle: false }]);
    ask(null, 0, 0);
    await hand.answerAll();
    expect(piecesOf(tiles, shown, view, 0)).toMatchObject({ exact: false, gaps: false, sampled: true });
    ask(4, 0, 0);
    await hand.answerAll();
    expect(piecesOf(tiles, shown, view, 0)).toMatchObject({ exact: false, gaps: false, sampled: false });
    ask(1, 1, 1);
    await hand.answerAll();
    const { list } = piecesOf(tiles, shown, view, 0);
    expect(new Set(list.map(({ tile }) => tile.z))).toEqual(new Set([1, 4]));
    const read = reading(tiles, shown, view, 0, 601, 605)!;
    expect(read).toMatchObject({ i0: 600, i1: 602, j0: 604, j1: 606, exact: true });
    expect(read.p).toBe(Math.fround(1 / (2 + 300 + 3 * 302)));
  });

  it("reads the cell at the end of an axis with the positions that it has", async () => {
    const { hand, tiles, view } = start(1001, 999);
    tiles.want(tiles, [{ shown, z: 2, r: 0, c: 0, idle: false }]);
    await hand.answerAll();
    expect(reading(tiles, shown, view, 2, 1000, 998)).toMatchObject({ i0: 1000, i1: 1001, j0: 996, j1: 999 });
  });

  it("stays on the coarser level where the finer one is refused", async () => {
    const { hand, tiles, view } = start(4096, 4096, [600, 600, 500]);
    expect(levelOf(tiles, shown, view, 1)).toBe(0);
    tiles.want(tiles, [{ shown, z: 0, r: 2, c: 2, idle: false }]);
    hand.refuse(hand.open[0]!, "Not in this file.");
    await settle();
    expect(levelOf(tiles, shown, view, 1)).toBe(1);
    expect(levelOf(tiles, { ...shown, head: 1 }, view, 1)).toBe(0);
  });

  it("asks for a quick whole, then for itself, and ahead for its neighbours", () => {
    const { tiles, view } = start(4096, 4096, [600, 600, 500]);
    const wishes = wishesOf(tiles, shown, view, tilesIn(view, 0));
    const needed = wishes.filter(({ idle }) => !idle);
    expect(needed[0]!.z).toBeNull();
    expect(needed.slice(1).every(({ z }) => z === 0)).toBe(true);
    expect(needed).toHaveLength(1 + 9);
    expect(wishes.filter(({ idle }) => idle)).toHaveLength(1 + 16);
  });
});

describe("colours", () => {
  it("lie where the scale puts them", () => {
    expect(placeOf(0, look)).toBe(0);
    expect(placeOf(0.5, look)).toBe(STEPS - 1);
    expect(placeOf(9, look)).toBe(STEPS - 1);
    expect(placeOf(0.125, { ...look, scale: "sqrt" })).toBe(Math.round(SCALES.sqrt(0.25) * (STEPS - 1)));
    expect(placeOf(NaN, look)).toBe(0);
  });

  it("of a difference are apart for more and for less", () => {
    const apart = { ...look, diverging: true };
    expect(placeOf(-0.5, apart)).toBe(0);
    expect(placeOf(0.5, apart)).toBe(STEPS - 1);
    expect(colourOf(0, apart).every((x) => x > 250)).toBe(true);
    expect(placeOf(0.2, apart) + placeOf(-0.2, apart)).toBeCloseTo(STEPS - 1, -1);
  });
});

it("nothing is drawn where there is nothing", () => {
  const { view } = start(4, 4);
  expect(new Cells().draw(null as never, view, [], look, 1, 5)).toBe(true);
});
