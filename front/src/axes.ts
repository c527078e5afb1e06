// What stands around a pattern: tokens or positions along both axes, titles and the colour bar, as marks that a canvas
// and an SVG draw alike. Coordinates are CSS pixels from the corner of the picture.

import { SCALES } from "./colour";
import type { Look } from "./cells";
import type { Axis, Layer } from "./protocol";
import { Recent } from "./recent";
import { fit, seen } from "./view";
import type { Fit, View } from "./view";
import { count, short, shownToken } from "./words";

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
}

/** Room around the plot. */
export interface Margins {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

export type Measure = (text: string) => number;

export const FONT = 11;
/** Rows of this many pixels and more have their own label. */
const NAMED = 11.5;
/** Columns of this many pixels and more have room for a slanted label. */
const SLANTED = 19;
const WIDEST = 92;
/** Where only a close look shows tokens, less room is kept for them. */
const WIDEST_CLOSE = 60;
const GAP = 6;
const TITLE = 16;
const BAR = { gap: 14, width: 12, numbers: 52, title: 16, shortest: 120, tallest: 240 };

/** Room for the labels of a pattern whose cells are fx x fy pixels when the whole is seen. */
function marginsOf(queries: Axis, keys: Axis, fx: number, fy: number, measure: Measure): Margins {
  const left = Math.min(fy >= NAMED ? WIDEST : WIDEST_CLOSE, Math.max(measure("00,000"), widest(queries, measure)));
  const across = widest(keys, measure);
  const long = Math.min(fx >= NAMED ? WIDEST : WIDEST_CLOSE, across);
  const top = across <= fx - 6 ? FONT + 4 : fx >= SLANTED ? 0.75 * long + 6 : Math.max(FONT + 4, long + 2);
  return {
    left: Math.ceil(TITLE + left + GAP + 2),
    top: Math.ceil(TITLE + top + GAP + 3),
    right: BAR.gap + BAR.width + 4 + BAR.numbers + BAR.title,
    bottom: 8,
  };
}

/** Margins of a picture and the pattern in what they leave of a width and a height. */
export function layOut(
  { T, S }: Pick<Layer, "T" | "S">,
  queries: Axis,
  keys: Axis,
  width: number,
  height: number,
  measure: Measure,
): { fit: Fit; margins: Margins } {
  // Whether labels fit decides about the margins, and those about the size of cells: a guess goes first.
  const rough = fit(T, S, width - 190, height - 80);
  const margins = marginsOf(queries, keys, rough.fx, rough.fy, measure);
  const across = Math.max(80, width - margins.left - margins.right);
  return { fit: fit(T, S, across, Math.max(160, height - margins.top - margins.bottom)), margins };
}

/** The same without the room that only a closer look would need, for a picture that will not be zoomed. */
export function trimmed(view: View, margins: Margins): Margins {
  return {
    ...margins,
    left: isNamed(view.ky) ? margins.left : Math.min(margins.left, TITLE + 46 + GAP + 2),
    top: isNamed(view.kx) ? margins.top : Math.min(margins.top, TITLE + FONT + 4 + GAP + 3),
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

/** The distance of round numbers that stand at least `least` pixels apart. */
export function stepOf(k: number, least: number): number {
  const raw = Math.max(1, least / k);
  const decade = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].find((x) => x * decade >= raw * (1 - 1e-9))! * decade;
}

export function isNamed(k: number): boolean {
  return k >= NAMED;
}

/** Labels and ticks of both axes, and their titles. */
export function axesOf(view: View, margins: Margins, queries: Axis, keys: Axis, cross: boolean, measure: Measure): Axes {
  const out: Axes = { marks: [], ticks: [] };
  const left = queryAxis(out, view, margins, queries, measure);
  const top = keyAxis(out, view, margins, keys, measure);
  const { x0, x1, y0, y1 } = filled(view);
  const titled = (what: string, axis: Axis) => (cross && axis.name ? `${what} · ${axis.name}` : what);
  const middle = margins.top + (y0 + y1) / 2;
  const across = margins.left + (x0 + x1) / 2;
  const title = (text: string, room: number) => cut(text, Math.max(60, room), measure);
  out.marks.push(
    { x: left - 8, y: middle, text: title(titled("queries", queries), y1 - y0), angle: -90, anchor: "middle", tone: "soft" },
    { x: across, y: top - 9, text: title(titled("keys", keys), x1 - x0), angle: 0, anchor: "middle", tone: "soft" },
  );
  return out;
}

/** Returns the x to the left of which there is nothing yet. */
function queryAxis(out: Axes, view: View, margins: Margins, axis: Axis, measure: Measure): number {
  const { i0, i1 } = seen(view);
  const edge = margins.left + filled(view).x0;
  const named = isNamed(view.ky);
  const step = named ? 1 : stepOf(view.ky, 34);
  let most = 0;
  for (let i = Math.ceil(i0 / step) * step; i < i1; i += step) {
    const y = margins.top + view.y + (i + 0.5) * view.ky;
    if (y < margins.top || y > margins.top + view.height) continue;
    const text = named ? cut(shownToken(axis, i), margins.left - TITLE - GAP - 2, measure) : count(i);
    most = Math.max(most, measure(text));
    out.marks.push({ x: edge - GAP, y, text, angle: 0, anchor: "end", tone: toneOf(axis, i, named) });
    if (!named) out.ticks.push([edge - 4, y, edge, y]);
  }
  return edge - GAP - most;
}

/** Returns the y above which there is nothing yet. */
function keyAxis(out: Axes, view: View, margins: Margins, axis: Axis, measure: Measure): number {
  const { j0, j1 } = seen(view);
  const edge = margins.top + filled(view).y0;
  const named = isNamed(view.kx);
  const step = named ? 1 : stepOf(view.kx, 60);
  const angle = named ? angleOf(view, axis, measure) : 0;
  const room = angle === 0 ? Infinity : (margins.top - TITLE - GAP - 3) / (angle === -45 ? 0.75 : 1);
  let most = FONT;
  for (let j = Math.ceil(j0 / step) * step; j < j1; j += step) {
    const x = margins.left + view.x + (j + 0.5) * view.kx;
    if (x < margins.left || x > margins.left + view.width) continue;
    const text = named ? cut(shownToken(axis, j), room, measure) : count(j);
    if (angle !== 0) most = Math.max(most, measure(text) * (angle === -45 ? 0.71 : 1) + 3);
    const anchor = angle === 0 ? "middle" : "start";
    const up = angle === 0 ? FONT / 2 + 1 : 0;
    out.marks.push({ x, y: edge - GAP - up, text, angle, anchor, tone: toneOf(axis, j, named) });
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

/** The colour bar: where it stands, its numbers and what it is of. */
export interface Bar extends Axes {
  x: number;
  y: number;
  width: number;
  height: number;
}

export function barOf(view: View, margins: Margins, look: Look, says: string, measure: Measure): Bar {
  const { x1, y0, y1 } = filled(view);
  // A pattern of one row still has a bar that can be read.
  const height = Math.max(Math.min(view.height, BAR.shortest), Math.min(BAR.tallest, y1 - y0));
  const bar: Bar = {
    x: margins.left + x1 + BAR.gap,
    y: margins.top + y0,
    width: BAR.width,
    height,
    marks: [],
    ticks: [],
  };
  const right = bar.x + bar.width;
  let most = 0;
  for (const value of barValues(look)) {
    const t = SCALES[look.scale](Math.abs(value) / look.range);
    const place = look.diverging ? 0.5 + (Math.sign(value) * t) / 2 : t;
    const y = bar.y + height * (1 - place);
    const text = look.diverging && value > 0 ? `+${short(value)}` : short(value);
    most = Math.max(most, measure(text));
    bar.marks.push({ x: right + 7, y, text, angle: 0, anchor: "start", tone: "ink" });
    bar.ticks.push([right, y, right + 4, y]);
  }
  bar.marks.push({
    x: right + 7 + most + 11,
    y: bar.y + height / 2,
    text: cut(says, height, measure),
    angle: 90,
    anchor: "middle",
    tone: "soft",
  });
  return bar;
}

/** Values that the bar names: the largest, and round ones that lie far enough apart on its scale. */
function barValues({ range, scale, diverging }: Look): number[] {
  const parts = { linear: [1, 0.5], sqrt: [1, 0.25], log: [1, 0.1, 0.01, 0.001] }[scale];
  const shown = diverging && scale === "log" ? [1, 0.01] : parts;
  const up = shown.map((part) => (part === 1 ? range : roundBelow(part * range)));
  return diverging ? [...up, 0, ...up.map((x) => -x).reverse()] : [...up, 0];
}

function roundBelow(x: number): number {
  const decade = 10 ** Math.floor(Math.log10(x) + 1e-9);
  return [5, 2, 1].find((step) => step * decade <= x * (1 + 1e-9))! * decade;
}
