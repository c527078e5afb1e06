// Which part of a pattern is seen, and which tiles lie in it. Key j spans the x from j to j + 1, query i the y from i to
// i + 1; all lengths on the screen are CSS pixels from the corner of the plot.

import { TILE } from "./protocol";
import type { State } from "./state";

/** A pattern in its plot, as it lies when the whole of it is seen. */
export interface Fit {
  T: number;
  S: number;
  width: number;
  height: number;
  /** Pixels a key and a query. */
  fx: number;
  fy: number;
}

/** A zoom transform, as d3-zoom has it: a point of the fitted pattern lies at k * point + (x, y). */
export interface Turn {
  k: number;
  x: number;
  y: number;
}

/** What is seen: key j starts at x + j * kx, query i at y + i * ky. */
export interface View extends Fit {
  x: number;
  y: number;
  kx: number;
  ky: number;
}

/** Tiles of one level, rows [r0, r1) and columns [c0, c1). */
export interface Span {
  z: number;
  r0: number;
  r1: number;
  c0: number;
  c1: number;
}

/** A cell is never larger than this, in pixels. */
const LARGEST = 96;
/** Thin patterns are stretched to a quarter of the plot, up to this height of a cell. */
const STRETCHED = 48;
const LEAST_HEIGHT = 120;
/** More tiles than these are not kept in view: a coarser level is drawn instead. */
const MOST_TILES = 96;

/** Lays a pattern out: square cells, unless it is more than four times as long as wide. */
export function fit(T: number, S: number, width: number, most: number): Fit {
  const square = Math.min(width / S, most / T, LARGEST);
  const fx = Math.min(width / S, Math.max(square, Math.min(width / 4 / S, STRETCHED)));
  const fy = Math.min(most / T, Math.max(square, Math.min(most / 4 / T, STRETCHED)));
  return { T, S, width, height: Math.max(Math.min(LEAST_HEIGHT, most), Math.min(most, T * fy)), fx, fy };
}

/** The largest zoom: cells that hold a number with room to spare. */
export function deepest({ fx, fy }: Fit): number {
  return Math.max(1, LARGEST / Math.min(fx, fy));
}

function hold(offset: number, content: number, room: number, centred: boolean): number {
  if (content <= room) return centred ? (room - content) / 2 : 0;
  return Math.min(0, Math.max(room - content, offset));
}

/** The nearest transform that leaves no empty edge: a pattern smaller than the plot stands in the middle, at the top. */
export function held(fit: Fit, { k, x, y }: Turn): Turn {
  return {
    k,
    x: hold(x, fit.S * fit.fx * k, fit.width, true),
    y: hold(y, fit.T * fit.fy * k, fit.height, false),
  };
}

/** The view of a transform. A pattern that was stretched grows in its long direction first, until its cells are square. */
export function viewOf(fit: Fit, turn: Turn): View {
  const { fx, fy, width, height } = fit;
  const kx = fx > fy ? grown(fx, fy, turn.k) : fx * turn.k;
  const ky = fy > fx ? grown(fy, fx, turn.k) : fy * turn.k;
  const key = (width / 2 - turn.x) / (fx * turn.k);
  const query = (height / 2 - turn.y) / (fy * turn.k);
  return {
    ...fit,
    kx,
    ky,
    x: hold(width / 2 - key * kx, fit.S * kx, width, true),
    y: hold(height / 2 - query * ky, fit.T * ky, height, false),
  };
}

function grown(long: number, short: number, k: number): number {
  return Math.max(short * k, Math.min(long * k, Math.max(long, STRETCHED)));
}

/** The transform of a place in the store. */
export function turnOf(fit: Fit, at: State["at"]): Turn {
  if (!at) return held(fit, { k: 1, x: 0, y: 0 });
  const [key, query, keys] = at;
  const k = Math.min(deepest(fit), Math.max(1, fit.width / keys / fit.fx));
  return held(fit, { k, x: fit.width / 2 - key * fit.fx * k, y: fit.height / 2 - query * fit.fy * k });
}

/** The place of a transform: key and query in the middle and how many keys the plot spans; null for the whole. */
export function atOf(fit: Fit, { k, x, y }: Turn): State["at"] {
  if (k <= 1 + 1e-9) return null;
  return [(fit.width / 2 - x) / (fit.fx * k), (fit.height / 2 - y) / (fit.fy * k), fit.width / (fit.fx * k)];
}

/** The transform under which the keys [j0, j1) and the queries [i0, i1) fill the plot. */
export function around(fit: Fit, [i0, i1]: [number, number], [j0, j1]: [number, number]): Turn {
  const k = Math.min(fit.width / ((j1 - j0) * fit.fx), fit.height / ((i1 - i0) * fit.fy));
  return turnOf(fit, [(j0 + j1) / 2, (i0 + i1) / 2, fit.width / (fit.fx * Math.max(1, k))]);
}

/** The transform after zooming by a factor, which leaves a cell, [query, key], where it is, or else the middle. */
export function zoomed(fit: Fit, { k, x, y }: Turn, by: number, still: [number, number] | null): Turn {
  const to = Math.min(deepest(fit), Math.max(1, k * by));
  const px = still ? x + (still[1] + 0.5) * fit.fx * k : fit.width / 2;
  const py = still ? y + (still[0] + 0.5) * fit.fy * k : fit.height / 2;
  return held(fit, { k: to, x: px - ((px - x) * to) / k, y: py - ((py - y) * to) / k });
}

/** The level whose one tile holds the whole pattern. */
export function coarsest(T: number, S: number): number {
  return Math.max(0, Math.ceil(Math.log2(Math.max(T, S) / TILE)));
}

/** Keys and queries that are seen, at least in part: [j0, j1) and [i0, i1). */
export function seen(view: View): { i0: number; i1: number; j0: number; j1: number } {
  const from = (offset: number, k: number, n: number) => Math.min(n - 1, Math.max(0, Math.floor(-offset / k)));
  const to = (offset: number, k: number, n: number, room: number) =>
    Math.min(n, Math.max(1, Math.ceil((room - offset) / k - 1e-9)));
  return {
    i0: from(view.y, view.ky, view.T),
    i1: to(view.y, view.ky, view.T, view.height),
    j0: from(view.x, view.kx, view.S),
    j1: to(view.x, view.kx, view.S, view.width),
  };
}

export function tilesIn(view: View, z: number): Span {
  const { i0, i1, j0, j1 } = seen(view);
  const side = TILE * 2 ** z;
  return {
    z,
    r0: Math.floor(i0 / side),
    r1: Math.floor((i1 - 1) / side) + 1,
    c0: Math.floor(j0 / side),
    c1: Math.floor((j1 - 1) / side) + 1,
  };
}

/** The finest level whose pooled cells are a device pixel or more, so below two. */
export function levelFor(view: View, ratio: number): number {
  const last = coarsest(view.T, view.S);
  const pixel = Math.min(view.kx, view.ky) * ratio;
  let z = Math.min(last, Math.max(0, Math.ceil(-Math.log2(pixel) - 1e-9)));
  for (; z < last; z++) {
    const { r0, r1, c0, c1 } = tilesIn(view, z);
    if ((r1 - r0) * (c1 - c0) <= MOST_TILES) break;
  }
  return z;
}

/** The tiles of a span, those nearest its middle first. */
export function nearestFirst({ r0, r1, c0, c1 }: Span, middle: [number, number]): [number, number][] {
  const all: [number, number, number][] = [];
  for (let r = r0; r < r1; r++) {
    for (let c = c0; c < c1; c++) all.push([r, c, Math.hypot(r + 0.5 - middle[0], c + 0.5 - middle[1])]);
  }
  all.sort((a, b) => a[2] - b[2]);
  return all.map(([r, c]) => [r, c]);
}

/** Row and column of the middle of the view, in tiles of level z. */
export function middleOf(view: View, z: number): [number, number] {
  const side = TILE * 2 ** z;
  return [(view.height / 2 - view.y) / view.ky / side, (view.width / 2 - view.x) / view.kx / side];
}

/** The tiles around a span, one ring, where the pattern has any. */
export function ringOf(span: Span, T: number, S: number): [number, number][] {
  const side = TILE * 2 ** span.z;
  const rows = Math.ceil(T / side);
  const columns = Math.ceil(S / side);
  const ring: [number, number][] = [];
  for (let r = Math.max(0, span.r0 - 1); r < Math.min(rows, span.r1 + 1); r++) {
    for (let c = Math.max(0, span.c0 - 1); c < Math.min(columns, span.c1 + 1); c++) {
      if (r < span.r0 || r >= span.r1 || c < span.c0 || c >= span.c1) ring.push([r, c]);
    }
  }
  return ring;
}

/** The query and the key at a point of the plot; null outside of the pattern. */
export function cellAt(view: View, x: number, y: number): [number, number] | null {
  const i = Math.floor((y - view.y) / view.ky);
  const j = Math.floor((x - view.x) / view.kx);
  const inside = i >= 0 && i < view.T && j >= 0 && j < view.S && x >= 0 && y >= 0 && x < view.width && y < view.height;
  return inside ? [i, j] : null;
}

/** How far the view has to move, right and down, to show a cell, [query, key], in full. */
export function lackTo(view: View, [i, j]: [number, number]): [number, number] {
  const lack = (from: number, size: number, room: number) =>
    from < 0 ? -from : from + size > room ? Math.max(room - from - size, -from) : 0;
  return [lack(view.x + j * view.kx, view.kx, view.width), lack(view.y + i * view.ky, view.ky, view.height)];
}

/** The query and the key at a point, or those nearest to it. */
export function nearestCell(view: View, x: number, y: number): [number, number] {
  const inside = (at: number, n: number) => Math.min(n - 1, Math.max(0, Math.floor(at)));
  return [inside((y - view.y) / view.ky, view.T), inside((x - view.x) / view.kx, view.S)];
}
