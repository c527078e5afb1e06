// Draws the cells of tiles. A tile is coloured once for a range, a scale and a theme; a frame only copies it.

import { colours, inkOn, SCALES, STEPS } from "./colour";
import type { Colour } from "./colour";
import { TILE } from "./protocol";
import type { Shown } from "./protocol";
import { mostIn } from "./ranges";
import { Recent } from "./recent";
import type { State } from "./state";
import type { Tile, Tiles } from "./tiles";
import { seen, tilesIn } from "./view";
import type { View } from "./view";
import { brief, share } from "./words";

/** How values become colours. */
export interface Look {
  /** The value at the end of the colour bar. */
  range: number;
  /** Larger values are shown, in the colour of the end. */
  over?: boolean;
  scale: State["scale"];
  dark: boolean;
  diverging: boolean;
}

/** Part of the pattern, queries [i0, i1) and keys [j0, j1), and the tile that it is drawn from. */
export interface Piece {
  tile: Tile;
  i0: number;
  i1: number;
  j0: number;
  j1: number;
}

/** What there is to draw of a view. */
export interface Pieces {
  list: Piece[];
  /** All of it is of the level asked for, and exact. */
  exact: boolean;
  /** Some of it comes from the preview. */
  sampled: boolean;
  /** Nothing at all is drawn in some place. */
  gaps: boolean;
}

/** Coloured tiles that are kept: those of a view and some more. */
const COLOURED = 144;
/** Larger cells get a line between them. */
const LINED = 14;
/** Larger cells get their number. */
const NUMBERED = { width: 36, height: 16 };
const HALF_LINE = 6;

/** The best tiles that are loaded for a view: of level z, or else the next coarser, or else the preview. */
export function piecesOf(tiles: Tiles, shown: Shown, view: View, z: number): Pieces {
  const out: Pieces = { list: [], exact: true, sampled: false, gaps: false };
  const { r0, r1, c0, c1 } = tilesIn(view, z);
  const side = TILE * 2 ** z;
  for (let r = r0; r < r1; r++) {
    for (let c = c0; c < c1; c++) {
      const tile = bestTile(tiles, shown, z, r, c);
      if (!tile) {
        out.gaps = true;
        out.exact = false;
        continue;
      }
      if (tile.z !== z || !tile.exact) out.exact = false;
      if (!tile.exact) out.sampled = true;
      out.list.push({
        tile,
        i0: r * side,
        i1: Math.min(view.T, (r + 1) * side),
        j0: c * side,
        j1: Math.min(view.S, (c + 1) * side),
      });
    }
  }
  return out;
}

function bestTile(tiles: Tiles, shown: Shown, z: number, r: number, c: number): Tile | undefined {
  const last = tiles.coarsest(shown);
  for (let up = 0; z + up <= last; up++) {
    const tile = tiles.get(shown, z + up, r >> up, c >> up);
    if (tile) return tile;
  }
  return tiles.get(shown, null, 0, 0);
}

/** The largest size among the cells of a view, whatever its sign. */
export function mostOf(list: Piece[], view: View): number {
  const part = seen(view);
  let most = 0;
  for (const { tile, i0, i1, j0, j1 } of list) {
    if (tile.most <= most) continue;
    const pool = 2 ** tile.z;
    const row = (i: number) => i / pool - tile.r * TILE;
    const column = (j: number) => j / pool - tile.c * TILE;
    most = Math.max(
      most,
      mostIn(
        tile,
        Math.floor(row(Math.max(i0, part.i0))),
        Math.min(tile.h, Math.ceil(row(Math.min(i1, part.i1)))),
        Math.floor(column(Math.max(j0, part.j0))),
        Math.min(tile.w, Math.ceil(column(Math.min(j1, part.j1)))),
      ),
    );
  }
  return most;
}

/** The value drawn at query i and key j, with the queries [i0, i1) and keys [j0, j1) that it pools. */
export interface Reading {
  i0: number;
  i1: number;
  j0: number;
  j1: number;
  p: number;
  exact: boolean;
}

export function reading(tiles: Tiles, shown: Shown, view: View, z: number, i: number, j: number): Reading | null {
  const side = TILE * 2 ** z;
  const tile = bestTile(tiles, shown, z, Math.floor(i / side), Math.floor(j / side));
  if (!tile) return null;
  const pool = 2 ** tile.z;
  const row = Math.floor(i / pool);
  const column = Math.floor(j / pool);
  const p = tile.data[(row - tile.r * TILE) * tile.w + column - tile.c * TILE];
  if (p === undefined) return null;
  return {
    i0: row * pool,
    i1: Math.min(view.T, (row + 1) * pool),
    j0: column * pool,
    j1: Math.min(view.S, (column + 1) * pool),
    p,
    exact: tile.exact,
  };
}

/** From a value to an entry of the ramp. */
export function placeOf(p: number, { range, scale, diverging }: Look): number {
  const x = Math.min(1, Math.abs(p) / range);
  const t = SCALES[scale](x);
  return Math.round((diverging ? 0.5 + (Math.sign(p) * t) / 2 : p > 0 ? t : 0) * (STEPS - 1)) || 0;
}

export function colourOf(p: number, look: Look): Colour {
  return colours(look.dark, look.diverging)[placeOf(p, look)]!;
}

/** A ramp as pixels: red is the lowest byte. */
function pixels(look: Look): Uint32Array {
  return Uint32Array.from(colours(look.dark, look.diverging), ([r, g, b]) => 0xff000000 | (b << 16) | (g << 8) | r);
}

interface Coloured {
  canvas: HTMLCanvasElement;
  look: string;
}

export class Cells {
  private readonly coloured = new Recent<Coloured>(COLOURED);
  private readonly names = new WeakMap<Tile, string>();
  private made = 0;
  private table: { name: string; pixels: Uint32Array } | null = null;

  /**
   * Draws the pieces of a view, `ratio` device pixels a CSS pixel; the pen's origin is the plot's corner.
   *
   * Colouring stops after `budget` milliseconds, so that a frame stays short: tiles with no colours yet are left out and
   * others keep their former ones. Returns whether everything was drawn as it should be.
   */
  draw(pen: CanvasRenderingContext2D, view: View, pieces: Piece[], look: Look, ratio: number, budget: number): boolean {
    const until = performance.now() + budget;
    let whole = true;
    for (const piece of pieces) {
      const coloured = this.colour(piece.tile, look, performance.now() < until);
      if (!coloured || !coloured.current) whole = false;
      if (coloured) copy(pen, view, piece, coloured.canvas, ratio);
    }
    return whole;
  }

  private colour(tile: Tile, look: Look, may: boolean): { canvas: HTMLCanvasElement; current: boolean } | null {
    const wanted = `${look.range} ${look.scale} ${look.dark} ${look.diverging}`;
    let name = this.names.get(tile);
    if (!name) this.names.set(tile, (name = String(this.made++)));
    const kept = this.coloured.get(name);
    if (kept?.look === wanted) return { canvas: kept.canvas, current: true };
    if (!may) return kept ? { canvas: kept.canvas, current: false } : null;
    const canvas = kept?.canvas ?? document.createElement("canvas");
    if (this.table?.name !== `${look.dark} ${look.diverging}`) {
      this.table = { name: `${look.dark} ${look.diverging}`, pixels: pixels(look) };
    }
    colourInto(canvas, tile, look, this.table.pixels);
    this.coloured.set(name, { canvas, look: wanted });
    return { canvas, current: true };
  }
}

function colourInto(canvas: HTMLCanvasElement, tile: Tile, look: Look, table: Uint32Array): void {
  canvas.width = tile.w;
  canvas.height = tile.h;
  const pen = canvas.getContext("2d");
  if (!pen) return;
  const image = pen.createImageData(tile.w, tile.h);
  const out = new Uint32Array(image.data.buffer);
  const nothing = table[placeOf(0, look)]!;
  for (let n = 0; n < out.length; n++) {
    const p = tile.data[n]!;
    out[n] = p === 0 ? nothing : table[placeOf(p, look)]!;
  }
  pen.putImageData(image, 0, 0);
}

/** Copies the part of a piece that is seen. Its ends lie on device pixels, so that no seam shows between pieces. */
function copy(pen: CanvasRenderingContext2D, view: View, piece: Piece, canvas: HTMLCanvasElement, ratio: number): void {
  const { tile } = piece;
  const pool = 2 ** tile.z;
  const part = seen(view);
  const i0 = Math.max(piece.i0, Math.floor(part.i0 / pool) * pool);
  const i1 = Math.min(piece.i1, Math.ceil(part.i1 / pool) * pool);
  const j0 = Math.max(piece.j0, Math.floor(part.j0 / pool) * pool);
  const j1 = Math.min(piece.j1, Math.ceil(part.j1 / pool) * pool);
  if (i1 <= i0 || j1 <= j0) return;
  const x = (j: number) => Math.round((view.x + j * view.kx) * ratio) / ratio;
  const y = (i: number) => Math.round((view.y + i * view.ky) * ratio) / ratio;
  // Cells of whole and a half device pixels would come out one and two pixels wide in turn.
  pen.imageSmoothingEnabled = Math.max(view.kx, view.ky) * pool * ratio < 2;
  pen.drawImage(
    canvas,
    j0 / pool - tile.c * TILE,
    i0 / pool - tile.r * TILE,
    (j1 - j0) / pool,
    (i1 - i0) / pool,
    x(j0),
    y(i0),
    x(j1) - x(j0),
    y(i1) - y(i0),
  );
}

export function isLined(view: View): boolean {
  return Math.min(view.kx, view.ky) >= LINED;
}

export function isNumbered(view: View): boolean {
  return view.kx >= NUMBERED.width && view.ky >= NUMBERED.height;
}

/** A number in its cell. */
export interface Written {
  x: number;
  y: number;
  text: string;
  ink: string;
}

/**
 * The numbers of the cells in view, middles in plot pixels, where `value` knows them; `measure` gives widths. All have
 * one form, the longer one where it fits into every cell; none is cut off by the edge of the plot.
 */
export function numbers(
  view: View,
  look: Look,
  value: (i: number, j: number) => number | null,
  measure: (text: string) => number,
): Written[] {
  const found: { x: number; y: number; p: number }[] = [];
  const { i0, i1, j0, j1 } = seen(view);
  for (let i = i0; i < i1; i++) {
    for (let j = j0; j < j1; j++) {
      const p = value(i, j);
      if (p !== null) found.push({ x: view.x + (j + 0.5) * view.kx, y: view.y + (i + 0.5) * view.ky, p });
    }
  }
  const form = found.every(({ p }) => measure(share(p)) <= view.kx - 4) ? share : brief;
  const out: Written[] = [];
  for (const { x, y, p } of found) {
    const text = form(p);
    const half = measure(text) / 2 + 1;
    if (x < half || x > view.width - half || y < HALF_LINE || y > view.height - HALF_LINE) continue;
    out.push({ x, y, text, ink: inkOn(colourOf(p, look)) });
  }
  return out;
}
