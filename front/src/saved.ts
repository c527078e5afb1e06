// Answers that a saved file carries; no Python side is there.
//
// Rows and columns are not held as such: of a head held in full they are put together from its tiles of single cells,
// of every other head only the top keys of the last queries are known.

import { canonical, Refusal, TILE } from "./protocol";
import { inflate } from "./packed";
import type { Answer, LineMeta, Lines, Name, Questions, Scene, TileMeta, Transport } from "./protocol";

export interface TopKeys {
  k: number;
  /** The first query that has any. */
  first: number;
  /** int32 and float32 [heads, queries, k], heads layer by layer; raw deflate in base64. */
  keys: string;
  p: string;
}

export interface File {
  scene: Scene;
  answers: Record<string, { meta: unknown; type: "f32" | "u8"; size: number; data: string }>;
  topKeys?: Record<string, TopKeys>;
}

const KEEP = 32 * 2 ** 20;
const TOP = 12;

interface Top {
  k: number;
  first: number;
  queries: number;
  keys: Int32Array;
  p: Float32Array;
}

/** The largest values and where, most first; by size, whatever the sign. */
export function largest(values: Float32Array, count: number = TOP): LineMeta["top"] {
  const top: LineMeta["top"] = [];
  let least = 0;
  for (let at = 0; at < values.length; at++) {
    const p = values[at] as number;
    if (Math.abs(p) <= least) continue;
    let slot = top.length;
    while (slot > 0 && Math.abs((top[slot - 1] as { p: number }).p) < Math.abs(p)) slot--;
    top.splice(slot, 0, { at, p });
    if (top.length > count) top.pop();
    if (top.length === count) least = Math.abs((top[count - 1] as { p: number }).p);
  }
  return top;
}

export class Saved implements Transport {
  private readonly file: File;
  private readonly says: string;
  /** Decoded answers, the one used last at the end. */
  private readonly kept = new Map<string, Promise<ArrayBuffer>>();
  private readonly sizes = new Map<string, number>();
  private readonly tops = new Map<number, Promise<Top>>();
  private held = 0;

  constructor(file: File) {
    this.file = file;
    this.says = file.scene.saved?.says ?? "This saved file does not hold that.";
  }

  async ask<N extends Name>(name: N, params: Questions[N]["params"], signal?: AbortSignal): Promise<Answer<N>> {
    const answer = await this.find(name, params);
    signal?.throwIfAborted();
    return answer as Answer<N>;
  }

  private async find(name: Name, params: Questions[Name]["params"]): Promise<Answer<Name>> {
    if (name === "scene") return { meta: this.file.scene, data: new ArrayBuffer(0) };
    // Of single cells the mean and the maximum are the same, and held once.
    const once = name === "tile" && (params as Questions["tile"]["params"]).z === 0 ? { pool: "mean" } : {};
    const key = canonical(name, { ...(params as Record<string, number>), ...once });
    const found = this.file.answers[key];
    if (found) return { meta: found.meta as TileMeta, data: await this.decode(key) };
    if (name === "row") return this.line(params as Lines, "row", (params as { i: number }).i);
    if (name === "column") return this.line(params as Lines, "column", (params as { j: number }).j);
    throw new Refusal(this.says);
  }

  private decode(key: string): Promise<ArrayBuffer> {
    const known = this.kept.get(key);
    if (known) {
      this.kept.delete(key);
      this.kept.set(key, known);
      return known;
    }
    const { data, type } = this.file.answers[key] as File["answers"][string];
    const fresh = inflate(data, type === "u8" ? 1 : 4).then((buffer) => {
      this.sizes.set(key, buffer.byteLength);
      this.held += buffer.byteLength;
      this.forget();
      return buffer;
    });
    this.kept.set(key, fresh);
    return fresh;
  }

  private forget(): void {
    for (const key of [...this.kept.keys()]) {
      const size = this.sizes.get(key);
      if (this.held <= KEEP || this.kept.size === 1) return;
      if (size === undefined) continue; // still being decoded
      this.sizes.delete(key);
      this.kept.delete(key);
      this.held -= size;
    }
  }

  private async line(asked: Lines, way: "row" | "column", at: number): Promise<Answer<"row">> {
    const places = asked.heads.split(",");
    let sum: Float32Array<ArrayBuffer> | null = null;
    let whole = true;
    for (const place of places) {
      const [layer, head] = place.split(".").map(Number) as [number, number];
      const full = this.file.scene.saved?.heads.includes(place) ?? false;
      const one = (full && (await this.fromTiles(asked, layer, head, way, at))) || (await this.fromTop(asked, layer, head, way, at));
      if (!one.whole) whole = false;
      if (sum === null) sum = one.values;
      else for (let i = 0; i < sum.length; i++) sum[i] = (sum[i] as number) + (one.values[i] ?? 0);
    }
    if (sum === null) throw new Refusal(this.says);
    if (places.length > 1) for (let i = 0; i < sum.length; i++) sum[i] = (sum[i] as number) / places.length;
    return { meta: { top: largest(sum), whole }, data: sum.buffer };
  }

  /** Null where a tile is missing. */
  private async fromTiles(asked: Lines, layer: number, head: number, way: "row" | "column", at: number) {
    const { run, minus, b } = asked;
    const { T, S } = this.layer(layer);
    const length = way === "row" ? S : T;
    const values = new Float32Array(length);
    const line = Math.floor(at / TILE);
    for (let n = 0; n * TILE < length; n++) {
      const [r, c] = way === "row" ? [line, n] : [n, line];
      const key = canonical("tile", { run, minus, layer, head, b, pool: "mean", hide: 0, norm: 0, z: 0, r, c });
      if (!(key in this.file.answers)) return null;
      const { w, h } = this.file.answers[key]?.meta as TileMeta;
      const cells = new Float32Array(await this.decode(key));
      const inside = at % TILE;
      if (way === "row") values.set(cells.subarray(inside * w, (inside + 1) * w), n * TILE);
      else for (let i = 0; i < h; i++) values[n * TILE + i] = cells[i * w + inside] as number;
    }
    return { values, whole: true };
  }

  private async fromTop(asked: Lines, layer: number, head: number, way: "row" | "column", at: number) {
    const top = asked.run === 0 && asked.minus === undefined ? await this.top(asked.b) : null;
    if (!top || (way === "row" && at < top.first)) throw new Refusal(this.says);
    const { T, S } = this.layer(layer);
    const values = new Float32Array(way === "row" ? S : T);
    const before = this.file.scene.layers.slice(0, layer).reduce((n, { heads }) => n + heads, 0);
    const base = (before + head) * top.queries * top.k;
    if (way === "row") {
      const from = base + (at - top.first) * top.k;
      for (let n = from; n < from + top.k; n++) {
        const key = top.keys[n] ?? -1;
        if (key >= 0 && key < S) values[key] = Math.max(values[key] as number, top.p[n] as number);
      }
    } else {
      for (let n = 0; n < top.queries * top.k; n++) {
        const query = top.first + Math.floor(n / top.k);
        if (top.keys[base + n] === at && query < T) values[query] = Math.max(values[query] as number, top.p[base + n] as number);
      }
    }
    return { values, whole: false };
  }

  private top(b: number): Promise<Top> | null {
    const packed = this.file.topKeys?.[String(b)];
    if (!packed) return null;
    const known = this.tops.get(b);
    if (known) return known;
    const heads = this.file.scene.layers.reduce((n, layer) => n + layer.heads, 0);
    const fresh = Promise.all([inflate(packed.keys, 4), inflate(packed.p, 4)]).then(([keys, p]) => ({
      k: packed.k,
      first: packed.first,
      queries: Math.floor(keys.byteLength / 4 / (heads * packed.k)),
      keys: new Int32Array(keys),
      p: new Float32Array(p),
    }));
    // One batch row at a time is looked at.
    this.tops.clear();
    this.tops.set(b, fresh);
    return fresh;
  }

  private layer(layer: number): { T: number; S: number } {
    const one = this.file.scene.layers[layer];
    if (!one) throw new Refusal(this.says);
    return one;
  }
}
