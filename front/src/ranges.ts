// Where the colour bar ends: above the largest value among the cells in view, and at the same value for all maps that are
// shown, so that equal colours mean equal values.

import { ceiling } from "./colour";

/** Cells of a tile whose largest is kept, along each side. */
const SIDE = 16;
/** The bar comes down only when it is more than one step too long: a view that is panned does not flicker. */
const TOO_LONG = 1.4;

interface Cells {
  h: number;
  w: number;
  data: Float32Array;
}

/** The largest size of each block of 16 x 16 cells, row by row. */
export function blocksOf({ h, w, data }: Cells): Float32Array {
  const across = Math.ceil(w / SIDE);
  const blocks = new Float32Array(across * Math.ceil(h / SIDE));
  for (let i = 0; i < h; i++) {
    const row = Math.floor(i / SIDE) * across;
    for (let j = 0; j < w; j++) {
      const size = Math.abs(data[i * w + j]!);
      if (size > blocks[row + (j >> 4)]!) blocks[row + (j >> 4)] = size;
    }
  }
  return blocks;
}

/** The largest size among the rows [i0, i1) and columns [j0, j1). Only blocks at their borders are looked into. */
export function mostIn(tile: Cells & { blocks: Float32Array }, i0: number, i1: number, j0: number, j1: number): number {
  const { h, w, data, blocks } = tile;
  const across = Math.ceil(w / SIDE);
  let most = 0;
  for (let top = i0 - (i0 % SIDE); top < i1; top += SIDE) {
    for (let left = j0 - (j0 % SIDE); left < j1; left += SIDE) {
      const block = blocks[(top / SIDE) * across + left / SIDE]!;
      if (block <= most) continue;
      const [bottom, right] = [Math.min(h, top + SIDE), Math.min(w, left + SIDE)];
      if (top >= i0 && bottom <= i1 && left >= j0 && right <= j1) {
        most = block;
        continue;
      }
      for (let i = Math.max(top, i0); i < Math.min(bottom, i1); i++) {
        for (let j = Math.max(left, j0); j < Math.min(right, j1); j++) {
          const size = Math.abs(data[i * w + j]!);
          if (size > most) most = size;
        }
      }
    }
  }
  return most;
}

interface Part {
  /** What the map shows: nothing is held on to when it shows something else. */
  name: string;
  most: number;
  exact: boolean;
  again: () => void;
}

/** The common end of the colour bars of some maps. */
export class Ranges {
  private readonly parts = new Map<object, Part>();
  private name = "";
  /** Where the bars end now. */
  end = 1;
  /** Every map was exact since it shows what it shows. */
  private known = false;

  /** The end for a map, given the largest value in its view; `again` draws it when another map changes the end. */
  of(map: object, part: Part): number {
    this.parts.set(map, part);
    return this.settle(map);
  }

  leave(map: object): void {
    if (this.parts.delete(map)) this.settle(map);
  }

  private settle(map: object): number {
    const parts = [...this.parts.values()];
    const name = parts.map((part) => part.name).join("\n");
    const exact = parts.every((part) => part.exact);
    const need = ceiling(Math.max(0, ...parts.map(({ most }) => most)));
    const before = this.end;
    if (name !== this.name) this.known = false;
    this.name = name;
    // Coarser tiles, which stand in for those that are on their way, are paler: they do not bring the bar down.
    if (!this.known || need > this.end || (exact && this.end > need * TOO_LONG)) this.end = need;
    this.known ||= exact;
    if (this.end !== before) for (const [other, { again }] of this.parts) if (other !== map) again();
    return this.end;
  }
}
