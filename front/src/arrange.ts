// Where each head's small map stands in the overview.

import { placeName, scoresOf, title } from "./choosing";
import type { Place } from "./choosing";
import { earned } from "./earned";
import { fixed } from "./numbers";
import type { Scene } from "./protocol";
import type { State } from "./state";

export interface Cell {
  place: Place;
  /** Counts heads layer by layer, whatever the order on the screen. */
  n: number;
  row: number;
  column: number;
  x: number;
  y: number;
  /** Left out by the filter, yet drawn faintly, so that the grid stays a grid. */
  faint: boolean;
  /** The score that heads are ordered by. */
  score: number | null;
  /** Too few tokens could show that score. */
  few: boolean;
}

export interface Arrangement {
  sorted: boolean;
  cells: Cell[];
  /** Side of one map, without what is written below it. */
  size: number;
  /** From one map to the next. */
  step: [across: number, down: number];
  gutter: number;
  top: number;
  width: number;
  height: number;
  columns: number;
  rows: number;
  /** Layers take several rows, and each map has its head's name below. */
  wrapped: boolean;
  /** The first row of each layer, where heads stand by layer. */
  starts: number[];
}

/** What the maps may take: a largest side, and a height that they had better fill; null where the height is theirs. */
export interface Room {
  largest: number;
  height: number | null;
}

const LEAST = 16;
/** Room for the ring of the chosen head, which its neighbour is not to touch. */
const GAP = 3;
/** Room for the frame of a chosen head at the right edge. */
const MARGIN = 4;
/** Room for heads' numbers above. */
const TOP = 21;
/** Room at the left that every label needs, and that one letter of it does. */
const LABEL = { least: 34, letter: 6.6, around: 9 };
/** Sides of a map where there is room. */
const USUAL = 34;
export const LARGEST = 96;
/** And where few heads have a panel to themselves. */
const FILLING = 240;
/** A layer is broken into rows only where maps grow by this factor. */
const WORTH = 1.35;
/** A head's name below its map. */
const NAME = 15;
/** Height that heads are shown in, where they decide it. */
const HEIGHT = 560;
/** Two lines of writing below a map, where heads stand in the order of a score. */
const WRITING = 31;
const SORTED = 46;

export function every(scene: Scene): Place[] {
  return scene.layers.flatMap(({ heads }, layer) => Array.from({ length: heads }, (_, head): Place => [layer, head]));
}

/** Room for the layers' labels at the left, so that no map lies on them. */
export function gutterOf(scene: Scene): number {
  const longest = Math.max(...scene.layers.map(({ label }) => label.length));
  return Math.max(LABEL.least, Math.ceil(longest * LABEL.letter) + LABEL.around);
}

/** The largest side of a map with which all layers are seen in a height: few heads have large maps. */
export function largestIn(scene: Scene, height: number): number {
  return Math.min(FILLING, Math.max(USUAL, Math.floor((height - TOP) / scene.layers.length) - GAP));
}

/** How wide the grid of heads is when it has all the room it can use. */
export function widthOf(scene: Scene): number {
  const columns = Math.max(1, ...scene.layers.map(({ heads }) => heads));
  return gutterOf(scene) + columns * (largestIn(scene, HEIGHT) + GAP) + MARGIN;
}

/** The same where its height is its own. */
export const ownLargest = (scene: Scene): number => largestIn(scene, HEIGHT);

export function passes(scene: Scene, state: State, place: Place): boolean {
  return state.kinds.length === 0 || state.kinds.includes(scoresOf(scene, place)?.kind ?? "");
}

export function scoreOf(scene: Scene, place: Place, name: string): number | null {
  const scores = scoresOf(scene, place);
  if (!scores) return null;
  return name === "entropy" ? scores.entropy : (scores.scores[name] ?? null);
}

const writing = (cell: Omit<Cell, "x" | "y" | "row" | "column" | "faint">): Cell => ({ ...cell, x: 0, y: 0, row: 0, column: 0, faint: false });

function inOrder(scene: Scene, state: State): Cell[] {
  const found: Cell[] = [];
  every(scene).forEach((place, n) => {
    const score = scoreOf(scene, place, state.sort);
    if (score === null || !passes(scene, state, place)) return;
    const few = scoresOf(scene, place)?.few.includes(state.sort) ?? false;
    found.push(writing({ place, n, score, few }));
  });
  // Most first; heads that score the same stay in their order.
  return found.sort((a, b) => (b.score as number) - (a.score as number) || a.n - b.n);
}

/** Rows that all layers take, with so many heads in each. */
const rowsOf = (scene: Scene, columns: number): number => scene.layers.reduce((sum, { heads }) => sum + Math.ceil(heads / columns), 0);

/** How many heads stand in a row: all of a layer, or fewer where that leaves most of the height empty. */
function columnsIn(scene: Scene, width: number, { height }: Room): number {
  const whole = Math.max(1, ...scene.layers.map(({ heads }) => heads));
  const across = (columns: number) => Math.floor((width - gutterOf(scene) - MARGIN) / columns) - GAP;
  if (height === null || across(whole) >= LARGEST) return whole;
  let best = { columns: whole, side: across(whole) * WORTH };
  for (let columns = whole - 1; columns > 0; columns--) {
    const down = Math.floor((height - GAP) / rowsOf(scene, columns)) - NAME - GAP;
    const side = Math.min(FILLING, across(columns), down);
    if (side > best.side) best = { columns, side };
  }
  return best.columns;
}

/** Lays the overview out in `width` pixels. */
export function arrange(scene: Scene, state: State, width: number, room: Room): Arrangement {
  const { largest } = room;
  if (state.sort !== "place") {
    const cells = inOrder(scene, state);
    const across = Math.max(SORTED, Math.min(largest, SORTED + (largest > SORTED ? 16 : 0)));
    const columns = Math.max(1, Math.floor(width / across));
    const step: [number, number] = [Math.floor(width / columns), across - 8 + WRITING];
    cells.forEach((cell, at) => {
      cell.row = Math.floor(at / columns);
      cell.column = at % columns;
      cell.x = cell.column * step[0];
      cell.y = cell.row * step[1];
    });
    const rows = Math.ceil(cells.length / columns);
    const height = rows * step[1];
    return { sorted: true, cells, size: across - 8, step, gutter: 0, top: 0, width, height, columns, rows, wrapped: false, starts: [] };
  }
  return byLayer(scene, state, width, room);
}

function byLayer(scene: Scene, state: State, width: number, room: Room): Arrangement {
  const columns = columnsIn(scene, width, room);
  const wrapped = scene.layers.some(({ heads }) => heads > columns);
  const rows = rowsOf(scene, columns);
  const top = wrapped ? GAP : TOP;
  const below = wrapped ? NAME : 0;
  const gutter = gutterOf(scene);
  const high = wrapped && room.height !== null ? Math.floor((room.height - top) / rows) - below : Infinity;
  const most = wrapped ? FILLING : room.largest;
  const side = Math.max(LEAST + GAP, Math.min(most + GAP, high, Math.floor((width - gutter - MARGIN) / columns)));
  const step: [number, number] = [side, side + below];
  const starts: number[] = [];
  scene.layers.reduce((row, { heads }) => (starts.push(row), row + Math.ceil(heads / columns)), 0);
  const cells = every(scene).map(([layer, head], n) => {
    const [row, column] = [(starts[layer] as number) + Math.floor(head / columns), head % columns];
    return {
      ...writing({ place: [layer, head], n, score: null, few: false }),
      row,
      column,
      x: gutter + column * step[0],
      y: top + row * step[1],
      faint: !passes(scene, state, [layer, head]),
    };
  });
  const [across, down] = [gutter + columns * step[0], top + rows * step[1]];
  return { sorted: false, cells, size: side - GAP, step, gutter, top, width: across, height: down, columns, rows, wrapped, starts };
}

/** The cell that an arrow key leads to; layers differ in their number of heads, so the nearest there is. */
export function stepFrom(arrangement: Arrangement, from: Cell, key: string): Cell | null {
  const { cells } = arrangement;
  const at = cells.indexOf(from);
  if (key === "Home") return cells[0] ?? null;
  if (key === "End") return cells.at(-1) ?? null;
  if (key === "ArrowLeft") return cells[at - 1] ?? null;
  if (key === "ArrowRight") return cells[at + 1] ?? null;
  const down = { ArrowUp: -1, ArrowDown: 1, PageUp: -5, PageDown: 5 }[key];
  if (down === undefined) return null;
  const row = Math.min(arrangement.rows - 1, Math.max(0, from.row + down));
  const there = cells.filter((cell) => cell.row === row);
  return there.findLast((cell) => cell.column <= from.column) ?? there[0] ?? null;
}

/** How a cell is called by a screen reader and a tooltip. */
export function say(scene: Scene, cell: Cell, order: string): string {
  const scores = scoresOf(scene, cell.place);
  const kind = scores && scene.kinds.find(({ name }) => name === scores.kind);
  const words = [title(scene, cell.place)];
  if (kind) words.push(`${kind.title}: ${earned(scene, cell.place)}`);
  if (cell.score !== null) words.push(`${order.replaceAll("_", " ")} ${fixed(cell.score, 2)}${cell.few ? ", by too few tokens" : ""}`);
  return words.join(", ");
}

export const find = (arrangement: Arrangement, name: string): Cell | null =>
  arrangement.cells.find((cell) => placeName(cell.place) === name) ?? null;
