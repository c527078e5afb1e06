import { describe, expect, it, vi } from "vitest";
import { mostOf, piecesOf } from "../src/cells";
import { wishesOf } from "../src/compose";
import type { Shown } from "../src/protocol";
import { blocksOf, mostIn, Ranges } from "../src/ranges";
import { Tiles } from "../src/tiles";
import { fit, seen, tilesIn, turnOf, viewOf } from "../src/view";
import { Hand, sceneOf } from "./patterns";

const shown: Shown = { run: 0, layer: 0, head: 0, b: 0, pool: "mean", hide: 0, norm: 0 };

/** Numbers in no order, the same ones each time. */
const odd = (n: number) => Math.fround(Math.abs(Math.sin(12.9898 * n) * 43758.5453) % 1);

describe("the largest value", () => {
  it("of a part of a tile is that of its cells, whatever their sign", () => {
    const [h, w] = [53, 70];
    const data = Float32Array.from({ length: h * w }, (_, n) => (n % 3 ? odd(n) : -odd(n)));
    const tile = { h, w, data, blocks: blocksOf({ h, w, data }) };
    for (let n = 0; n < 60; n++) {
      const [i0, j0] = [Math.floor(odd(n) * h), Math.floor(odd(n + 100) * w)];
      const i1 = i0 + 1 + Math.floor(odd(n + 200) * (h - i0));
      const j1 = j0 + 1 + Math.floor(odd(n + 300) * (w - j0));
      let most = 0;
      for (let i = i0; i < i1; i++) for (let j = j0; j < j1; j++) most = Math.max(most, Math.abs(data[i * w + j]!));
      expect(mostIn(tile, i0, i1, j0, j1)).toBe(most);
    }
    expect(mostIn(tile, 0, h, 0, w)).toBe(Math.max(...data.map(Math.abs)));
  });

  it("of a view is that of the cells in it, not of its tiles", async () => {
    const scene = sceneOf(600, 600);
    const at = (i: number, j: number) => (i === 3 && j === 3 ? 1 : Math.fround(0.001 * odd(600 * i + j)));
    const hand = new Hand(scene, at);
    const tiles = new Tiles(hand, scene, () => {});
    const laid = fit(600, 600, 600, 600);
    const view = viewOf(laid, turnOf(laid, [240, 260, 60]));
    tiles.want(tiles, wishesOf(tiles, shown, view, tilesIn(view, 0)));
    await hand.answerAll();
    const { i0, i1, j0, j1 } = seen(view);
    let most = 0;
    for (let i = i0; i < i1; i++) for (let j = j0; j < j1; j++) most = Math.max(most, at(i, j));
    expect(tiles.get(shown, 0, 0, 0)!.most).toBe(1);
    expect(mostOf(piecesOf(tiles, shown, view, 0).list, view)).toBe(most);
    const whole = viewOf(laid, turnOf(laid, null));
    expect(mostOf(piecesOf(tiles, shown, whole, 0).list, whole)).toBe(1);
  });
});

describe("the end of the colour bar", () => {
  const again = () => {};
  const part = (most: number, name = "a", exact = true) => ({ name, most, exact, again });

  it("is above the largest value, and stays while that changes little", () => {
    const ranges = new Ranges();
    expect(ranges.of(ranges, part(0.28))).toBe(0.3);
    expect(ranges.of(ranges, part(0.24))).toBe(0.3);
    expect(ranges.of(ranges, part(0.33))).toBe(0.4);
    expect(ranges.of(ranges, part(0.29))).toBe(0.4);
    expect(ranges.of(ranges, part(0.001))).toBe(0.001);
  });

  it("does not follow coarser tiles down while the right ones are on their way", () => {
    const ranges = new Ranges();
    ranges.of(ranges, part(0.5));
    expect(ranges.of(ranges, part(0.01, "a", false))).toBe(0.5);
    expect(ranges.of(ranges, part(0.01))).toBe(0.01);
  });

  it("is that of another head at once, before and after its tiles came", () => {
    const ranges = new Ranges();
    ranges.of(ranges, part(0.5));
    expect(ranges.of(ranges, part(0, "b", false))).toBe(1);
    expect(ranges.of(ranges, part(0.02, "b", false))).toBe(0.02);
    expect(ranges.of(ranges, part(0.04, "b"))).toBe(0.04);
  });

  it("is one for two maps, and the other is drawn anew when it moves", () => {
    const ranges = new Ranges();
    const [a, b] = [{}, {}];
    const [first, second] = [vi.fn(), vi.fn()];
    ranges.of(a, { name: "a", most: 0.1, exact: true, again: first });
    expect(ranges.of(b, { name: "b", most: 0.8, exact: true, again: second })).toBe(0.8);
    expect([first.mock.calls.length, second.mock.calls.length]).toEqual([1, 0]);
    expect(ranges.of(a, { name: "a", most: 0.1, exact: true, again: first })).toBe(0.8);
    expect(first).toHaveBeenCalledTimes(1);
    ranges.leave(b);
    expect(first).toHaveBeenCalledTimes(2);
    expect(ranges.of(a, { name: "a", most: 0.1, exact: true, again: first })).toBe(0.1);
  });
});
