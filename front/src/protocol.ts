// What the page and its Python side say to each other. The same questions go over HTTP, over a notebook's comm channel,
// and to what a saved file carries; headwise/viewer/answers.py is the other end.

/** What lies along the queries or the keys of a pattern: tokens of a text, or the patches of an image. */
export interface Axis {
  kind: "tokens" | "grid";
  name: string;
  /** One string a position; a grid's are made of rows and columns. */
  labels: string[];
  /** Positions that are no text, such as [CLS]. */
  special: number[];
  /** A grid only: patches down and across, after `before` positions that are no patch (a class token). */
  height?: number;
  width?: number;
  before?: number;
  /** A grid only: the image that its patches were cut from, as a data URL. */
  image?: string;
}

/** One attention module that ran. */
export interface Layer {
  /** The site: "model.layers.3.self_attn". */
  name: string;
  /** What the grid calls it: "3". */
  label: string;
  /** "cross": queries and keys are of two texts, so there is no distance between them. */
  kind: "self" | "cross";
  heads: number;
  /** How many queries and keys. */
  T: number;
  S: number;
  /** Index into `axes` of the queries' and the keys' axis, one a batch row. */
  rows: number[];
  cols: number[];
  /** Where query 0 stands on the key axis, one a batch row. */
  start: number[];
  /** Keys ahead of the query are hidden. */
  causal: boolean;
  /** A window's keys behind and ahead; null = no end. */
  before: number | null;
  after: number | null;
  /** Keys [start, stop) outside which no query sees any, and queries likewise, one a batch row: the rest is padding. */
  keys: [number, number][];
  queries: [number, number][];
  /** Whether the last five say the mask exactly: a cell is hidden if and only if they hide it. */
  edged: boolean;
  /** The key that "hide the sink" hides, one a batch row: the first that any query may attend to. */
  sink: number[];
}

export interface Kind {
  name: string;
  title: string;
  letter: string;
  means: string;
  margin: number;
  /** The least lift over chance that it asks for, or score of a broad head; null of what is no kind. */
  least: number | null;
  colour: string | null;
  source?: string | null;
}

/** What a head does, where it was scored. */
export interface HeadScores {
  layer: number;
  head: number;
  kind: string;
  /** null: it is no number, as of a model whose weights hold NaN. */
  entropy: number | null;
  scores: Record<string, number | null>;
  chance: Record<string, number | null>;
  few: string[];
}

export interface Scene {
  title: string;
  subtitle: string;
  facts: [string, string][];
  /** Runs of the model, at least one; differences are taken between them. */
  runs: string[];
  batch: number;
  layers: Layer[];
  axes: Axis[];
  kinds: Kind[];
  /** One entry a head, layer by layer; null where heads were not scored. */
  heads: HeadScores[] | null;
  tooFew: string;
  /** The head that the page opens with, [layer, head], and its query. */
  open: [number, number];
  query: number;
  /** Height and width of the small maps of the overview. */
  side: number;
  /** A saved file only: which heads it holds in full, "layer.head", and what is left out, in one sentence. */
  saved: { heads: string[]; says: string } | null;
}

/** Which pattern, and what is shown of it. */
export interface Shown {
  run: number;
  /** The run that is taken away; absent where none is. */
  minus?: number;
  layer: number;
  head: number;
  b: number;
  pool: "mean" | "max";
  /** 1: the sink key is left out (its column is 0, nothing else changes). */
  hide: 0 | 1;
  /** 1: each row is divided by its largest shown probability. */
  norm: 0 | 1;
}

/** Side of a tile, in pooled cells. */
export const TILE = 256;

/**
 * The questions by name, their parameters and what comes back.
 *
 * `tile`: pooled by 2^z x 2^z cells; tile (r, c) covers queries from r * 256 * 2^z and keys from c * 256 * 2^z. The last
 *   tiles of an axis are cut off where it ends; a cell at the edge pools what there is. data: float32 [h, w].
 * `preview`: the tile (0, 0) of the coarsest z, from sampled queries: quick, not exact. data as of `tile`.
 * `overview`: small maps [side, side] of the heads that changed since `since`; data: uint8 codes,
 *   p = scale * (code / 255)^2, one map after the other in the order of `meta.heads`.
 * `row` / `column`: probabilities of query i over all keys, or of all queries on key j, mean over `heads`
 *   ("layer.head,layer.head"); data: float32 [S] or [T].
 * `profile`: data: float32, entropy [T] and then received mass [S].
 */
export interface Questions {
  scene: { params: Record<string, never>; meta: Scene };
  tile: { params: Shown & { z: number; r: number; c: number }; meta: TileMeta };
  preview: { params: Shown; meta: TileMeta };
  overview: { params: { run: number; minus?: number; b: number; since: number }; meta: OverviewMeta };
  row: { params: Lines & { i: number }; meta: LineMeta };
  column: { params: Lines & { j: number }; meta: LineMeta };
  profile: { params: Omit<Shown, "pool" | "hide" | "norm">; meta: ProfileMeta };
}

export interface TileMeta {
  z: number;
  r: number;
  c: number;
  h: number;
  w: number;
  exact: boolean;
}

export interface OverviewMeta {
  /** Handed back as `since` of the next question. */
  version: number;
  /** Nothing will change any more. */
  done: boolean;
  /** Heads that are exact, of all. */
  exact: number;
  of: number;
  heads: { layer: number; head: number; exact: boolean; scale: number }[];
}

export interface Lines {
  run: number;
  minus?: number;
  heads: string;
  b: number;
}

export interface LineMeta {
  /** The largest, most first. */
  top: { at: number; p: number }[];
  /** False where only the largest are known, as for most heads of a saved file. */
  whole: boolean;
}

export interface ProfileMeta {
  /** Mean probability at distance d = entry - after; behind the query is positive. */
  offsets: (number | null)[];
  limit: number;
  after: number;
  /** Mean of the entropy over queries that see a key, in nats. */
  entropy: number | null;
  /** Keys that received most, most first: sum over queries. */
  received: { at: number; p: number }[];
  /** The strongest links, most first. */
  links: { i: number; j: number; p: number }[];
}

export type Name = keyof Questions;

export interface Answer<N extends Name> {
  meta: Questions[N]["meta"];
  data: ArrayBuffer;
}

/** A sentence for the reader: what is wrong and what to do. */
export class Refusal extends Error {}

/** Asks the Python side. Rejects with Refusal (a sentence to show) or with an AbortError. */
export interface Transport {
  ask<N extends Name>(name: N, params: Questions[N]["params"], signal?: AbortSignal): Promise<Answer<N>>;
}

/** Splits a frame: length of the meta as uint32 (little endian), meta as JSON padded to a multiple of 4, data. */
export function unframe<N extends Name>(frame: ArrayBuffer): Answer<N> {
  const length = new DataView(frame).getUint32(0, true);
  const meta = JSON.parse(new TextDecoder().decode(new Uint8Array(frame, 4, length)));
  return { meta, data: frame.slice(4 + length) };
}

/** One name for one question: parameters in the order of the alphabet. What a saved file finds its answers by. */
export function canonical(name: string, params: Record<string, string | number | undefined>): string {
  const words = Object.entries(params).filter(([, value]) => value !== undefined);
  words.sort(([a], [b]) => (a < b ? -1 : 1));
  return `${name}?${words.map(([key, value]) => `${key}=${value}`).join("&")}`;
}
