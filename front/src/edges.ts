// What a mask hides: keys ahead of the query, keys out of its window, padding; as outlines and borders over the pattern.

import type { Layer } from "./protocol";
import { seen } from "./view";
import type { View } from "./view";

export interface Mask {
  /** Query i attends to the keys from i + first up to and without i + end; null where there is no edge. */
  first: number | null;
  end: number | null;
  /** Keys and queries [from, to); the others are padding. */
  keys: [number, number];
  queries: [number, number];
}

/** Queries [i0, i1) and keys [j0, j1). */
export interface Block {
  i0: number;
  i1: number;
  j0: number;
  j1: number;
}

/** One cell, [query, key], as a block. */
export function blockOf([i, j]: [number, number]): Block {
  return { i0: i, i1: i + 1, j0: j, j1: j + 1 };
}

type Points = [number, number][];

/** In plot pixels. Areas do not overlap, and all turn the same way. */
export interface Hidden {
  areas: Points[];
  borders: Points[];
}

/** Cells of this many pixels and more are drawn as stairs. */
const STAIRS = 3;

export function maskOf(layer: Layer, b: number): Mask {
  const start = layer.start[b] ?? 0;
  const ahead = layer.causal ? 0 : layer.after;
  return {
    first: layer.before === null ? null : start - layer.before,
    end: ahead === null ? null : start + ahead + 1,
    keys: layer.keys[b] ?? [0, layer.S],
    queries: layer.queries[b] ?? [0, layer.T],
  };
}

/** Whether query i may attend to key j. */
export function isVisible(mask: Mask, i: number, j: number): boolean {
  return !isHidden(mask, blockOf([i, j]));
}

/** Whether no query of a block may attend to any of its keys. */
export function isHidden({ first, end, keys, queries }: Mask, block: Block): boolean {
  const i0 = Math.max(block.i0, queries[0]);
  const i1 = Math.min(block.i1, queries[1]);
  const j0 = Math.max(block.j0, keys[0]);
  const j1 = Math.min(block.j1, keys[1]);
  if (i1 <= i0 || j1 <= j0) return true;
  // A window moves by one key a query: it can not pass a block without meeting it.
  return (end !== null && j0 >= i1 - 1 + end) || (first !== null && j1 <= i0 + first);
}

/** What is hidden in the view. Only rows that are seen are walked along, and only where their cells can be told apart. */
export function hiddenIn(view: View, mask: Mask): Hidden {
  const out: Hidden = { areas: [], borders: [] };
  const part = seen(view);
  const within: Block = {
    i0: Math.max(part.i0, mask.queries[0]),
    i1: Math.min(part.i1, mask.queries[1]),
    j0: Math.max(part.j0, mask.keys[0]),
    j1: Math.min(part.j1, mask.keys[1]),
  };
  padding(out, view, part, within);
  if (within.i1 <= within.i0 || within.j1 <= within.j0) return out;
  if (mask.end !== null && within.i0 + mask.end < within.j1) edge(out, view, within, mask.end, true);
  if (mask.first !== null && within.i1 - 1 + mask.first > within.j0) edge(out, view, within, mask.first, false);
  return out;
}

/** Columns beside the keys that are seen, and in the columns of those the rows above and below the queries. */
function padding({ areas, borders }: Hidden, view: View, part: Block, within: Block): void {
  const x = (j: number) => view.x + j * view.kx;
  const y = (i: number) => view.y + i * view.ky;
  const area = ({ i0, i1, j0, j1 }: Block) => {
    if (i1 > i0 && j1 > j0) areas.push([[x(j0), y(i0)], [x(j1), y(i0)], [x(j1), y(i1)], [x(j0), y(i1)]]);
  };
  const inside = (j: number) => Math.min(part.j1, Math.max(part.j0, j));
  const [j0, j1] = within.j1 > within.j0 ? [within.j0, within.j1] : [part.j1, part.j1];
  const [i0, i1] = within.i1 > within.i0 ? [within.i0, within.i1] : [part.i1, part.i1];
  area({ ...part, j1: inside(j0) });
  area({ ...part, j0: inside(j1) });
  area({ i0: part.i0, i1: i0, j0, j1 });
  area({ i0: i1, i1: part.i1, j0, j1 });
  for (const j of [j0, j1]) if (j > part.j0 && j < part.j1) borders.push([[x(j), y(i0)], [x(j), y(i1)]]);
  for (const i of [i0, i1]) if (i > part.i0 && i < part.i1) borders.push([[x(j0), y(i)], [x(j1), y(i)]]);
}

/** The end of what the queries see, `offset` keys from each. */
function edge({ areas, borders }: Hidden, view: View, { i0, i1, j0, j1 }: Block, offset: number, ahead: boolean): void {
  const stairs = Math.min(view.kx, view.ky) >= STAIRS;
  const x = (j: number) => view.x + Math.min(j1, Math.max(j0, j)) * view.kx;
  const y = (i: number) => view.y + i * view.ky;
  const line: Points = [];
  if (stairs) {
    for (let i = i0; i < i1; i++) line.push([x(i + offset), y(i)], [x(i + offset), y(i + 1)]);
  } else {
    // A straight line through the stairs; it bends where it leaves the pattern. It lies beside the last keys that are
    // seen, which may be the brightest.
    const bends = [i0, i1, j0 + 0.5 - offset, j1 + 0.5 - offset].filter((i) => i >= i0 && i <= i1);
    const beside = ahead ? 1 : -1;
    for (const i of bends.sort((a, b) => a - b)) line.push([x(i + offset - 0.5) + beside, y(i)]);
  }
  const side = ahead ? x(j1) : x(j0);
  const area: Points = [...line, [side, y(i1)], [side, y(i0)]];
  areas.push(ahead ? area.reverse() : area);
  borders.push(line);
}
