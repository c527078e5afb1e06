import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Busy, Failed, Lost } from "../src/http";
import { Refusal } from "../src/protocol";
import type { Shown } from "../src/protocol";
import { Tiles } from "../src/tiles";
import type { Wish } from "../src/tiles";
import { Hand, sceneOf, settle } from "./patterns";

const shown: Shown = { run: 0, layer: 0, head: 0, b: 0, pool: "mean", hide: 0, norm: 0 };
const wish = (r: number, c: number, idle = false, z: number | null = 0): Wish => ({ shown, z, r, c, idle });

function start(kept?: number) {
  const scene = sceneOf(2560, 2560);
  const hand = new Hand(scene);
  const changed = vi.fn();
  return { hand, changed, tiles: new Tiles(hand, scene, changed, kept) };
}

describe("tiles", () => {
  it("are asked for in the order of the wishes, six at a time", async () => {
    const { hand, tiles, changed } = start();
    tiles.want(tiles, Array.from({ length: 9 }, (_, c) => wish(0, c)));
    expect(hand.open.map(({ params }) => params.c)).toEqual([0, 1, 2, 3, 4, 5]);
    hand.open[0]!.answer();
    await settle();
    expect(hand.open.map(({ params }) => params.c)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(changed).toHaveBeenCalledTimes(1);
    await hand.answerAll();
    expect(tiles.size).toBe(9);
    expect(hand.all).toHaveLength(9);
  });

  it("hold what was answered, and are not asked for twice", async () => {
    const { hand, tiles } = start();
    tiles.want(tiles, [wish(1, 2)]);
    await hand.answerAll();
    const tile = tiles.get(shown, 0, 1, 2)!;
    expect([tile.h, tile.w, tile.exact]).toEqual([256, 256, true]);
    expect(tile.data[5 * 256 + 7]).toBe(Math.fround(1 / (2 + 261 + 3 * 519)));
    expect(tile.most).toBe(Math.fround(1 / (2 + 256 + 3 * 512)));
    tiles.want(tiles, [wish(1, 2)]);
    expect(hand.all).toHaveLength(1);
    expect(tiles.get({ ...shown, head: 1 }, 0, 1, 2)).toBeUndefined();
    expect(tiles.get({ ...shown, hide: 1 }, 0, 1, 2)).toBeUndefined();
    expect(tiles.get({ ...shown, minus: 1 }, 0, 1, 2)).toBeUndefined();
  });

  it("that nobody wants any more are aborted and do not land", async () => {
    const { hand, tiles, changed } = start();
    tiles.want(tiles, [wish(0, 0), wish(0, 1)]);
    const [gone] = hand.open;
    tiles.want(tiles, [wish(0, 1), wish(0, 2)]);
    expect(gone!.signal!.aborted).toBe(true);
    expect(tiles.asked).toHaveLength(2);
    gone!.answer();
    await settle();
    expect(tiles.get(shown, 0, 0, 0)).toBeUndefined();
    expect(changed).not.toHaveBeenCalled();
    expect(tiles.refusal).toBeNull();
  });

  it("that were let go and are wanted again land once, from the second question", async () => {
    const { hand, tiles } = start();
    tiles.want(tiles, [wish(0, 0)]);
    tiles.want(tiles, []);
    tiles.want(tiles, [wish(0, 0)]);
    const [first, second] = [...hand.open];
    first!.fail(new DOMException("gone", "AbortError") as unknown as Error);
    await settle();
    expect(tiles.refusal).toBeNull();
    expect(tiles.asked).toHaveLength(1);
    second!.answer();
    await settle();
    expect(tiles.get(shown, 0, 0, 0)).toBeDefined();
  });

  it("of two maps are shared, and stay while one of them wants them", async () => {
    const { hand, tiles } = start();
    const [a, b] = [{}, {}];
    tiles.want(a, [wish(0, 0), wish(0, 1)]);
    tiles.want(b, [wish(0, 0)]);
    expect(hand.all).toHaveLength(2);
    tiles.want(a, []);
    expect(hand.all.map(({ signal }) => signal!.aborted)).toEqual([false, true]);
  });

  it("around the view are asked for only when nothing else is missing, two at a time", async () => {
    const { hand, tiles } = start();
    tiles.want(tiles, [wish(0, 0), wish(5, 0, true), wish(5, 1, true), wish(5, 2, true)]);
    expect(hand.open).toHaveLength(1);
    await (hand.open[0]!.answer(), settle());
    expect(hand.open.map(({ params }) => params.c)).toEqual([0, 1]);
  });

  it("never are more than the bound; those used last stay", async () => {
    const { hand, tiles } = start(4);
    tiles.want(tiles, Array.from({ length: 4 }, (_, c) => wish(0, c)));
    await hand.answerAll();
    tiles.get(shown, 0, 0, 0);
    tiles.want(tiles, [wish(1, 0)]);
    await hand.answerAll();
    expect(tiles.size).toBe(4);
    expect(tiles.get(shown, 0, 0, 0)).toBeDefined();
    expect(tiles.get(shown, 0, 0, 1)).toBeUndefined();
    for (let r = 2; r < 9; r++) {
      tiles.want(tiles, [wish(r, 0), wish(r, 1)]);
      await hand.answerAll();
      expect(tiles.size).toBeLessThanOrEqual(4);
    }
  });

  it("that are refused are not asked for again, and say why", async () => {
    const { hand, tiles, changed } = start();
    tiles.want(tiles, [wish(0, 0)]);
    hand.refuse(hand.open[0]!, "This file holds no tiles of that head.");
    await settle();
    expect(tiles.refusal).toBe("This file holds no tiles of that head.");
    expect(tiles.isRefused(shown, 0, 0, 0)).toBe(true);
    expect(tiles.lack(shown, 0)).toBe("This file holds no tiles of that head.");
    expect(tiles.lack(shown, 1)).toBeNull();
    expect(changed).toHaveBeenCalledTimes(1);
    tiles.want(tiles, [wish(0, 0)]);
    expect(hand.all).toHaveLength(1);
  });

  describe("that did not come", () => {
    beforeEach(() => void vi.useFakeTimers());
    afterEach(() => void vi.useRealTimers());

    async function failed(error: Error) {
      const made = start();
      made.tiles.want(made.tiles, [wish(0, 0)]);
      made.hand.open[0]!.fail(error);
      await settle();
      return made;
    }

    it.each([
      ["nobody had time", new Busy("Too much at once."), false],
      ["nobody is there", new Lost("Gone."), true],
      ["the connection broke", new TypeError("Failed to fetch"), true],
    ])("as %s are asked for again after a while, by themselves", async (_, error, lost) => {
      const { hand, tiles, changed } = await failed(error);
      expect([tiles.lost, tiles.refusal, tiles.isComing(tiles)]).toEqual([lost, null, true]);
      expect([tiles.isRefused(shown, 0, 0, 0), tiles.lack(shown, 0)]).toEqual([false, null]);
      tiles.want(tiles, [wish(0, 0)]);
      expect(hand.all).toHaveLength(1);
      vi.advanceTimersByTime(3000);
      expect(changed).toHaveBeenCalledTimes(2);
      expect(hand.all).toHaveLength(2);
      await hand.answerAll();
      expect([tiles.lost, tiles.isComing(tiles)]).toEqual([false, false]);
      expect(tiles.get(shown, 0, 0, 0)).toBeDefined();
    });

    it("as the other side failed at them are told, and asked for when they are wanted anew", async () => {
      const { hand, tiles } = await failed(new Failed("This question has failed."));
      expect(tiles.refusal).toBe("This question has failed.");
      expect([tiles.isRefused(shown, 0, 0, 0), tiles.lack(shown, 0), tiles.isComing(tiles)]).toEqual([false, null, false]);
      vi.advanceTimersByTime(60000);
      expect(hand.all).toHaveLength(1);
      tiles.want(tiles, [wish(0, 0)]);
      expect(hand.all).toHaveLength(2);
      await hand.answerAll();
      expect(tiles.refusal).toBeNull();
    });

    it("as they are refused stay away", async () => {
      const { hand, tiles } = await failed(new Refusal("There is no head 9.9."));
      vi.advanceTimersByTime(60000);
      tiles.want(tiles, [wish(0, 0)]);
      expect(hand.all).toHaveLength(1);
      expect([tiles.isRefused(shown, 0, 0, 0), tiles.lost, tiles.isComing(tiles)]).toEqual([true, false, false]);
    });
  });

  it("of the preview are no exact ones", async () => {
    const { hand, tiles } = start();
    tiles.want(tiles, [wish(0, 0, false, null)]);
    expect(hand.open[0]!.name).toBe("preview");
    await hand.answerAll();
    expect(tiles.get(shown, null, 0, 0)).toMatchObject({ z: 4, h: 160, w: 160, exact: false });
    expect(tiles.get(shown, 4, 0, 0)).toBeUndefined();
  });
});
