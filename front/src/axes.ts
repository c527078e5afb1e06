// What stands around a pattern: tokens or positions along both axes and their titles, as marks that a canvas and an SVG
// draw alike. Coordinates are CSS pixels from the corner of the picture.

import type { Axis, Layer } from "./protocol";
import { Recent } from "./recent";
import { fit, seen } from "./view";
import type { Fit, View } from "./view";
import { count, shownToken } from "./words";

export interface Mark {
  x: number;
  y: number;
  text: string;
  /** Degrees, clockwise. */
  angle: 0 | -45 | -90 | 90;
  anchor: "start" | "middle" | "end";
  tone: "ink" | "soft";
}

export type Line = [number, number, number, number];

export interface Axes {
  marks: Mark[];
  ticks: Line[];
  title: Title;
}

/** The line of the keys' title, and where it ends. */
export interface Title {
  y: number;
  end: number;
}

/** Room around the plot, and which of it the colour bar takes. */
export interface Margins {
  left: number;
  top: number;
  right: number;
  bottom: number;
  bar: "right" | "below";
}

export type Measure = (text: string) => number;

export const FONT = 11;
/** Rows of this many pixels and more have their own label. */
const NAMED = 11.5;
/** Columns of this many pixels and more have room for a slanted label. */
const SLANTED = 16;
/** How much a slanted label is as high as it is long. */
const SLANT = 0.75;
/** Most room for labels, to the left and above: where the whole has tokens, and where only a close look shows them. */
const NEAR = { left: 92, top: 70 };
const CLOSE = { left: 54, top: 34, more: 10 };
const GAP = 6;
const TITLE = 18;
/** How far above the plot the label of a crosshair reaches. */
export const TAGGED = 22;
/** Room to the right of the plot and below it, for the colour bar at either of them. */
const ROOM = { right: { right: 64, bottom: 8 }, below: { right: 5, bottom: 36 } };
/** Only a plot with less room than this to the right may have its colour bar below. */
const NARROW = 400;
const QUERIES = "queries ↓";
const LEAST = { width: 80, height: 160 };

/** Room for the labels of a pattern whose cells are fx x fy pixels when the whole is seen. */
function marginsOf({ T }: Size, queries: Axis, keys: Axis, fx: number, fy: number, measure: Measure): Pick<Margins, "left" | "top"> {
  const numbers = Math.max(measure(QUERIES), measure(count(T - 1)));
  const left = Math.max(numbers, Math.min(isNamed(fy) ? NEAR.left : CLOSE.left, widest(queries, measure)));
  const across = widest(keys, measure);
  const high = fx >= SLANTED || !isNamed(fx) ? SLANT * across + 3 : across;
  const top = across <= fx - 6 ? 0 : Math.min(isNamed(fx) ? NEAR.top : CLOSE.top, high);
  return { left: Math.ceil(left + GAP + 2), top: Math.ceil(TITLE + Math.max(FONT + 4, top) + GAP + 3) };
}

/** Where the colour bar leaves more to the plot. */
function barPlace(width: number, height: number): Margins["bar"] {
  const side = (bar: Margins["bar"]) => Math.min(width - ROOM[bar].right, height - ROOM[bar].bottom);
  return width < NARROW && side("below") > side("right") ? "below" : "right";
}

type Size = Pick<Layer, "T" | "S">;

/** Margins of a picture and the pattern in what they leave of a width and a height, but not less than some room. */
export function layOut(
  size: Size,
  queries: Axis,
  keys: Axis,
  width: number,
  height: number,
  measure: Measure,
): { fit: Fit; margins: Margins } {
  const { T, S } = size;
  // Whether labels fit decides about the margins, and those about the size of cells: a guess goes first.
  const rough = fit(T, S, width - 124, height - 70);
  const labels = marginsOf(size, queries, keys, rough.fx, rough.fy, measure);
  const bar = barPlace(width - labels.left, height - labels.top);
  const margins: Margins = { ...labels, ...ROOM[bar], bar };
  const across = Math.max(LEAST.width, width - margins.left - margins.right);
  const laid = fit(T, S, across, Math.max(LEAST.height, height - margins.top - margins.bottom));
  // Where the plot leaves some height, labels above it are longer.
  const spare = height - margins.top - laid.height - margins.bottom;
  const longer = isNamed(rough.fx) ? 0 : widest(keys, measure) - CLOSE.top;
  margins.top += Math.ceil(Math.max(0, Math.min(CLOSE.more, spare, longer)));
  return { fit: laid, margins };
}

/** The least height that a map needs. */
export function leastHeight({ top, bottom }: Margins): number {
  return top + LEAST.height + bottom;
}

/** The same without the room that only a closer look would need, for a picture that will not be zoomed. */
export function trimmed(view: View, margins: Margins, measure: Measure): Margins {
  const left = Math.max(measure(QUERIES), measure(count(seen(view).i1 - 1)));
  return {
    ...margins,
    left: isNamed(view.ky) ? margins.left : Math.min(margins.left, left + GAP + 2),
    // Two lines above the colour bar.
    top: isNamed(view.kx) ? margins.top : Math.min(margins.top, TITLE + FONT + 4 + GAP + 3 + 13),
  };
}

/** The widest label, of some hundreds: all of a long text need not be measured. */
function widest(axis: Axis, measure: Measure): number {
  const n = axis.labels.length || (axis.height ?? 0) * (axis.width ?? 0) + (axis.before ?? 0);
  const step = Math.max(1, Math.floor(n / 300));
  let most = 0;
  for (let i = 0; i < n; i += step) most = Math.max(most, measure(shownToken(axis, i)));
  return most;
}

const cuts = new Recent<string>(4096);

/** The text, cut to a width, with "…" where something is missing. */
export function cut(text: string, width: number, measure: Measure): string {
  const name = `${width}|${text}`;
  let kept = cuts.get(name);
  if (kept === undefined) {
    kept = cutNow(text, width, measure);
    cuts.set(name, kept);
  }
  return kept;
}

function cutNow(text: string, width: number, measure: Measure): string {
  // A token of a thousand characters is cut before it is measured.
  const letters = Array.from(text.slice(0, 400));
  if (letters.length < 400 && measure(text) <= width) return text;
  let low = 0;
  let high = letters.length;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (measure(`${letters.slice(0, middle).join("")}…`) <= width) low = middle;
    else high = middle - 1;
  }
  return `${letters.slice(0, low).join("")}…`;
}

/** The part of the plot that the pattern fills. */
export function filled(view: View): { x0: number; x1: number; y0: number; y1: number } {
  return {
    x0: Math.max(0, view.x),
    x1: Math.min(view.width, view.x + view.S * view.kx),
    y0: Math.max(0, view.y),
    y1: Math.min(view.height, view.y + view.T * view.ky),
  };
}

/** The least of 1, 2 and 5 times a power of ten that is not below a number. */
export function roundAbove(x: number): number {
  const decade = 10 ** Math.floor(Math.log10(x));
  return [1, 2, 5, 10].find((step) => step * decade >= x * (1 - 1e-9))! * decade;
}

/** The distance of round numbers that stand at least `least` pixels apart. */
export function stepOf(k: number, least: number): number {
  return roundAbove(Math.max(1, least / k));
}

export function isNamed(k: number): boolean {
  return k >= NAMED;
}

/** Labels and ticks of both axes, and their titles: of the queries in the corner, of the keys above their labels. */
export function axesOf(view: View, margins: Margins, queries: Axis, keys: Axis, cross: boolean, measure: Measure): Axes {
  const out: Axes = { marks: [], ticks: [], title: { y: 0, end: 0 } };
  queryAxis(out, view, margins, queries, measure);
  const top = keyAxis(out, view, margins, keys, measure);
  const left = margins.left + filled(view).x0;
  const edge = margins.top + filled(view).y0;
  // The labels of a crosshair at the first query and key reach as far as this.
  const clear = edge - TAGGED;
  const y = Math.min(top - 8, clear - 7);
  // Of two texts, which one it is; beside the words of the queries, the keys' keep some distance.
  const two = cross && queries.name !== keys.name;
  const x = left + (two ? 16 : 0);
  const room = Math.max(60, 0.6 * (margins.left + view.width - x));
  const text = cut(two && keys.name ? `keys · ${keys.name} →` : "keys →", room, measure);
  out.marks.push({ x, y, text, angle: 0, anchor: "start", tone: "soft" });
  out.title = { y, end: x + measure(text) };
  const word = (words: string, at: number): Mark => {
    return { x: left - GAP, y: at, text: cut(words, left - GAP, measure), angle: 0, anchor: "end", tone: "soft" };
  };
  if (two && queries.name) out.marks.push(word("queries", edge - 29), word(`${queries.name} ↓`, edge - 16));
  else out.marks.push(word(QUERIES, edge - 16));
  return out;
}

function queryAxis(out: Axes, view: View, margins: Margins, axis: Axis, measure: Measure): void {
  const { i0, i1 } = seen(view);
  const edge = margins.left + filled(view).x0;
  const named = isNamed(view.ky);
  const step = named ? 1 : stepOf(view.ky, 34);
  for (let i = Math.ceil(i0 / step) * step; i < i1; i += step) {
    const y = margins.top + view.y + (i + 0.5) * view.ky;
    if (y < margins.top || y > margins.top + view.height) continue;
    const text = named ? cut(shownToken(axis, i), margins.left - GAP - 2, measure) : count(i);
    out.marks.push({ x: edge - GAP, y, text, angle: 0, anchor: "end", tone: toneOf(axis, i, named) });
    if (!named) out.ticks.push([edge - 4, y, edge, y]);
  }
}

/** Returns the y above which there is nothing yet. */
function keyAxis(out: Axes, view: View, margins: Margins, axis: Axis, measure: Measure): number {
  const { j0, j1 } = seen(view);
  const edge = margins.top + filled(view).y0;
  const named = isNamed(view.kx);
  const step = named ? 1 : stepOf(view.kx, 60);
  const angle = named ? angleOf(view, axis, measure) : 0;
  const room = angle === 0 ? Infinity : (margins.top - TITLE - GAP - 3 - (angle === -45 ? 3 : 0)) / (angle === -45 ? SLANT : 1);
  let most = FONT;
  for (let j = Math.ceil(j0 / step) * step; j < j1; j += step) {
    const x = margins.left + view.x + (j + 0.5) * view.kx;
    const text = named ? cut(shownToken(axis, j), room, measure) : count(j);
    // Of a column that is seen in part, a level label may reach out of the plot.
    const half = named && angle === 0 ? measure(text) / 2 : 0;
    if (x - half < margins.left || x + half > margins.left + view.width + 6) continue;
    if (angle !== 0) most = Math.max(most, measure(text) * (angle === -45 ? 0.71 : 1) + 3);
    const anchor = angle === 0 ? "middle" : "start";
    const up = angle === 0 ? FONT / 2 + 1 : 0;
    // The last number stays inside of the picture.
    const last = margins.left + view.width + margins.right - 1 - measure(text) / 2;
    out.marks.push({ x: named ? x : Math.min(x, last), y: edge - GAP - up, text, angle, anchor, tone: toneOf(axis, j, named) });
    if (!named) out.ticks.push([x, edge - 4, x, edge]);
  }
  return edge - GAP - most;
}

function toneOf(axis: Axis, at: number, named: boolean): Mark["tone"] {
  return named && !axis.special.includes(at) ? "ink" : "soft";
}

function angleOf(view: View, axis: Axis, measure: Measure): 0 | -45 | -90 {
  const { j0, j1 } = seen(view);
  let fits = true;
  for (let j = j0; j < j1 && fits; j++) fits = measure(shownToken(axis, j)) <= view.kx - 6;
  if (fits) return 0;
  return view.kx >= SLANTED ? -45 : -90;
}
