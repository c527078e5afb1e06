import { describe, expect, it } from "vitest";
import { canonical, Refusal, TILE } from "../src/protocol";
import type { Scene } from "../src/protocol";
import { largest, Saved } from "../src/saved";
import type { File } from "../src/saved";
import { scene } from "./page";

async function pack(data: Float32Array<ArrayBuffer> | Int32Array<ArrayBuffer> | Uint8Array<ArrayBuffer>): Promise<string> {
  const stream = new CompressionStream("deflate-raw");
  const writer = stream.writable.getWriter();
  const [bytes, width] = [new Uint8Array(data.buffer), data.BYTES_PER_ELEMENT];
  // All first bytes, then all second ones, as a file has them.
  void writer.write(bytes.map((_, at) => bytes[(at % data.length) * width + Math.floor(at / data.length)]!));
  void writer.close();
  const packed = new Uint8Array(await new Response(stream.readable).arrayBuffer());
  return btoa(Array.from(packed, (byte) => String.fromCharCode(byte)).join(""));
}

// 300 queries and keys: two tiles along each axis, the second one cut off.
const T = 300;
const LEFT_OUT = "The file holds head 0.1 in full; of the others the top keys.";
const value = (i: number, j: number) => Math.fround(((i * 7 + j * 13) % 101) / 128);

function long(): Scene {
  const it = scene({ saved: { heads: ["0.1"], says: LEFT_OUT } });
  for (const layer of it.layers.slice(0, 2)) layer.T = layer.S = T;
  return it;
}

async function file(): Promise<File> {
  const answers: File["answers"] = {};
  for (let r = 0; r < 2; r++) {
    for (let c = 0; c < 2; c++) {
      const [h, w] = [Math.min(TILE, T - r * TILE), Math.min(TILE, T - c * TILE)];
      const cells = Float32Array.from({ length: h * w }, (_, n) => value(r * TILE + Math.floor(n / w), c * TILE + (n % w)));
      const name = canonical("tile", { run: 0, layer: 0, head: 1, b: 0, pool: "mean", hide: 0, norm: 0, z: 0, r, c });
      answers[name] = { meta: { z: 0, r, c, h, w, exact: true }, type: "f32", size: h * w, data: await pack(cells) };
    }
  }
  const overview = canonical("overview", { run: 0, b: 0, since: 0 });
  answers[overview] = { meta: { version: 1, done: true, exact: 8, of: 8, heads: [] }, type: "u8", size: 3, data: await pack(Uint8Array.of(1, 2, 255)) };
  // 8 heads, 2 queries from 298 on, 2 keys each; head 1.0 is the fourth.
  const keys = new Int32Array(8 * 2 * 2);
  const p = new Float32Array(keys.length);
  keys.set([5, 17, 17, 299], 3 * 4);
  p.set([0.5, 0.25, 0.75, 0.125], 3 * 4);
  return { scene: long(), answers, topKeys: { "0": { k: 2, first: 298, keys: await pack(keys), p: await pack(p) } } };
}

const LINES = { run: 0, heads: "0.1", b: 0 };

describe("a line of a saved file", () => {
  it("the largest are found in order, by size", () => {
    expect(largest(Float32Array.of(0, 0.5, -0.75, 0.25, 0.5), 3)).toEqual([
      { at: 2, p: -0.75 },
      { at: 1, p: 0.5 },
      { at: 4, p: 0.5 },
    ]);
  });
});

describe("a saved file", () => {
  it("answers what it holds", async () => {
    const saved = new Saved(await file());
    expect((await saved.ask("scene", {})).meta.title).toBe("A model");
    const { meta, data } = await saved.ask("overview", { run: 0, b: 0, since: 0 });
    expect(meta.done).toBe(true);
    expect([...new Uint8Array(data)]).toEqual([1, 2, 255]);
  });

  it.each([3, 255, 256, 299])("puts row %i of a head in full together from its tiles", async (i) => {
    const { meta, data } = await new Saved(await file()).ask("row", { ...LINES, i });
    const expected = Float32Array.from({ length: T }, (_, j) => value(i, j));
    expect(new Float32Array(data)).toEqual(expected);
    expect(meta.whole).toBe(true);
    expect(meta.top[0]?.p).toBe(Math.max(...expected));
  });

  it.each([0, 255, 256, 299])("puts column %i of a head in full together from its tiles", async (j) => {
    const { data } = await new Saved(await file()).ask("column", { ...LINES, j });
    expect(new Float32Array(data)).toEqual(Float32Array.from({ length: T }, (_, i) => value(i, j)));
  });

  it("knows the top keys of the other heads, for the last queries", async () => {
    const saved = new Saved(await file());
    const { meta, data } = await saved.ask("row", { ...LINES, heads: "1.0", i: 299 });
    expect(meta).toEqual({ top: [{ at: 17, p: 0.75 }, { at: 299, p: 0.125 }], whole: false });
    expect(new Float32Array(data)[17]).toBe(0.75);
    const column = await saved.ask("column", { ...LINES, heads: "1.0", j: 17 });
    expect(column.meta).toEqual({ top: [{ at: 299, p: 0.75 }, { at: 298, p: 0.25 }], whole: false });
  });

  it("takes means over heads, and says when one is known in part only", async () => {
    const { meta, data } = await new Saved(await file()).ask("row", { ...LINES, heads: "0.1,1.0", i: 299 });
    expect(meta.whole).toBe(false);
    expect(new Float32Array(data)[17]).toBeCloseTo((value(299, 17) + 0.75) / 2, 6);
    expect(new Float32Array(data)[18]).toBeCloseTo(value(299, 18) / 2, 6);
  });

  it("refuses what it does not hold, in its own words", async () => {
    const saved = new Saved(await file());
    const shown = { run: 0, layer: 0, head: 1, b: 0, pool: "mean", hide: 1, norm: 0 } as const;
    for (const ask of [
      () => saved.ask("tile", { ...shown, z: 0, r: 0, c: 0 }),
      () => saved.ask("row", { ...LINES, heads: "1.0", i: 297 }),
      () => saved.ask("row", { ...LINES, heads: "1.0", run: 1, i: 299 }),
      () => saved.ask("row", { ...LINES, heads: "1.0", b: 1, i: 299 }),
      () => saved.ask("profile", { run: 0, layer: 0, head: 0, b: 0 }),
    ]) {
      await expect(ask()).rejects.toThrow(LEFT_OUT);
      await expect(ask()).rejects.toBeInstanceOf(Refusal);
    }
  });
});
