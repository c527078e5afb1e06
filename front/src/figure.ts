// Paints a pattern with all that stands around it onto a canvas.

import { axesOf, barOf, cut, filled, FONT } from "./axes";
import type { Line, Margins, Mark, Measure } from "./axes";
import { isLined, isNumbered, numbers, reading } from "./cells";
import type { Cells, Look, Piece } from "./cells";
import { colours, css, paper } from "./colour";
import type { Paper } from "./colour";
import { edgesOf, isVisible } from "./edges";
import type { Band } from "./edges";
import type { Axis, Shown } from "./protocol";
import type { Tiles } from "./tiles";
import { seen } from "./view";
import type { View } from "./view";
import { count, shownToken } from "./words";

/** Everything that one picture of a pattern is made of. */
export interface Figure {
  shown: Shown;
  view: View;
  z: number;
  margins: Margins;
  pieces: Piece[];
  look: Look;
  band: Band;
  queries: Axis;
  keys: Axis;
  cross: boolean;
  /** What the colour bar is of. */
  says: string;
  /** Selected query and key. */
  query: number | null;
  key: number | null;
  /** The key that was left out. */
  sink: number | null;
}

export const FAMILY = 'system-ui, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';

/** Lines between the hatch's strokes. */
const HATCH = 7;

export function sizeOf({ view, margins }: Figure): { width: number; height: number } {
  return { width: margins.left + view.width + margins.right, height: margins.top + view.height + margins.bottom };
}

/** Widths of texts in the labels' font, each measured once. */
export function measurer(pen: CanvasRenderingContext2D | null): Measure {
  const known = new Map<string, number>();
  return (text) => {
    let width = known.get(text);
    if (width === undefined) {
      if (pen) pen.font = `${FONT}px ${FAMILY}`;
      width = pen ? pen.measureText(text).width : 6.2 * text.length;
      if (known.size > 8192) known.clear();
      known.set(text, width);
    }
    return width;
  };
}

/** Paints everything but the crosshair; returns whether all tiles were drawn in their colours. */
export function paintFigure(
  pen: CanvasRenderingContext2D,
  figure: Figure,
  tiles: Tiles,
  cells: Cells,
  measure: Measure,
  ratio: number,
  budget: number,
): boolean {
  const { view, margins, look } = figure;
  const ink = paper(look.dark);
  pen.save();
  // The plot's corner lies on a device pixel, and so do the ends of its tiles.
  pen.translate(Math.round(margins.left * ratio) / ratio - margins.left, Math.round(margins.top * ratio) / ratio - margins.top);
  pen.save();
  pen.translate(margins.left, margins.top);
  pen.beginPath();
  const { x0, x1, y0, y1 } = filled(view);
  pen.rect(x0, y0, x1 - x0, y1 - y0);
  pen.clip();
  const whole = cells.draw(pen, view, figure.pieces, look, ratio, budget);
  if (isLined(view)) stroke(pen, gridLines(view), ink.grid, 1);
  if (figure.z === 0 && isNumbered(view)) paintNumbers(pen, figure, tiles, measure);
  paintHidden(pen, figure, ink, ratio);
  paintSelection(pen, figure, ink);
  pen.restore();
  pen.strokeStyle = ink.line;
  pen.lineWidth = 1;
  pen.strokeRect(margins.left + x0 - 0.5, margins.top + y0 - 0.5, x1 - x0 + 1, y1 - y0 + 1);
  const axes = axesOf(view, margins, figure.queries, figure.keys, figure.cross, measure);
  stroke(pen, axes.ticks, ink.line, 1);
  paintMarks(pen, axes.marks, ink);
  paintBar(pen, figure, ink, measure);
  pen.restore();
  return whole;
}

export function gridLines(view: View): Line[] {
  const { i0, i1, j0, j1 } = seen(view);
  const { x0, x1, y0, y1 } = filled(view);
  const lines: Line[] = [];
  for (let i = i0 + 1; i < i1; i++) lines.push([x0, view.y + i * view.ky, x1, view.y + i * view.ky]);
  for (let j = j0 + 1; j < j1; j++) lines.push([view.x + j * view.kx, y0, view.x + j * view.kx, y1]);
  return lines;
}

/** The numbers of a figure whose cells are single ones. */
export function numbersOf(figure: Figure, tiles: Tiles, measure: Measure): ReturnType<typeof numbers> {
  const value = (i: number, j: number) => {
    const found = reading(tiles, figure.shown, figure.view, 0, i, j);
    if (!found?.exact || found.i1 - found.i0 > 1) return null;
    return found.p === 0 && !isVisible(figure.band, i, j) ? null : found.p;
  };
  return numbers(figure.view, figure.look, value, measure);
}

function paintNumbers(pen: CanvasRenderingContext2D, figure: Figure, tiles: Tiles, measure: Measure): void {
  pen.font = `${FONT}px ${FAMILY}`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  for (const { x, y, text, ink } of numbersOf(figure, tiles, measure)) {
    pen.fillStyle = ink;
    pen.fillText(text, x, y + 0.5);
  }
}

/** Strokes of a hatch over the plot. They move with the pattern. */
export function hatchLines(view: View): Line[] {
  const lines: Line[] = [];
  const { width, height } = view;
  const first = (((view.x + view.y) % HATCH) + HATCH) % HATCH;
  for (let sum = first; sum < width + height; sum += HATCH) {
    lines.push([Math.max(0, sum - height), Math.min(sum, height), Math.min(sum, width), Math.max(0, sum - width)]);
  }
  return lines;
}

/** The column of the key that was left out, in the plot. */
export function sinkBox({ view, sink }: Figure): [number, number, number, number] | null {
  if (sink === null) return null;
  const width = Math.max(1, view.kx);
  const y = Math.max(0, view.y);
  return [view.x + sink * view.kx, y, width, Math.min(view.height, view.y + view.T * view.ky) - y];
}

/** The hatch as a pattern: filling with it is many times quicker than to clip strokes. One is kept a theme and ratio. */
const hatches = new Map<string, HTMLCanvasElement>();

function hatchOf(pen: CanvasRenderingContext2D, { view }: Figure, colour: string, ratio: number): CanvasPattern | null {
  const name = `${colour} ${ratio}`;
  let canvas = hatches.get(name);
  const side = Math.round(HATCH * ratio);
  if (!canvas) {
    hatches.set(name, (canvas = document.createElement("canvas")));
    canvas.width = canvas.height = side;
    const small = canvas.getContext("2d");
    // The strokes of the neighbours reach into the corners.
    if (small) stroke(small, [-side, 0, side].map((by): Line => [by - 1, side + 1, side + by + 1, -1]), colour, ratio);
  }
  const pattern = pen.createPattern(canvas, "repeat");
  pattern?.setTransform(new DOMMatrix().translate(view.x + view.y, 0).scale(HATCH / side));
  return pattern;
}

function paintHidden(pen: CanvasRenderingContext2D, figure: Figure, ink: Paper, ratio: number): void {
  const { view } = figure;
  const edges = edgesOf(view, figure.band);
  const sink = sinkBox(figure);
  if (!edges.length && !sink) return;
  pen.beginPath();
  for (const { hidden } of edges) {
    hidden.forEach(([x, y], n) => (n ? pen.lineTo(x, y) : pen.moveTo(x, y)));
    pen.closePath();
  }
  if (sink) pen.rect(...sink);
  pen.fillStyle = ink.veil;
  pen.fill();
  const hatch = hatchOf(pen, figure, ink.hatch, ratio);
  if (hatch) {
    pen.fillStyle = hatch;
    pen.fill();
  }
  pen.strokeStyle = ink.line;
  pen.lineWidth = 1;
  pen.beginPath();
  for (const { line } of edges) line.forEach(([x, y], n) => (n ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.stroke();
}

/** Outlines of the selected query's row and the selected key's column; a line where they are too thin for one. */
export function selectionBoxes({ view, query, key }: Figure): [number, number, number, number][] {
  const { x0, x1, y0, y1 } = filled(view);
  const boxes: [number, number, number, number][] = [];
  const thin = 5;
  if (query !== null && query < view.T) {
    const y = view.y + query * view.ky;
    boxes.push(view.ky >= thin ? [x0 + 1, y, x1 - x0 - 2, view.ky] : [x0, y + view.ky / 2, x1 - x0, 0]);
  }
  if (key !== null && key < view.S) {
    const x = view.x + key * view.kx;
    boxes.push(view.kx >= thin ? [x, y0 + 1, view.kx, y1 - y0 - 2] : [x + view.kx / 2, y0, 0, y1 - y0]);
  }
  return boxes;
}

function paintSelection(pen: CanvasRenderingContext2D, figure: Figure, ink: Paper): void {
  pen.strokeStyle = ink.accent;
  pen.lineWidth = 1.5;
  for (const [x, y, width, height] of selectionBoxes(figure)) {
    pen.beginPath();
    if (width && height) pen.rect(x, y, width, height);
    else {
      pen.moveTo(x, y);
      pen.lineTo(x + width, y + height);
    }
    pen.stroke();
  }
}

function stroke(pen: CanvasRenderingContext2D, lines: Line[], colour: string, width: number): void {
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.beginPath();
  for (const [x0, y0, x1, y1] of lines) {
    pen.moveTo(x0, y0);
    pen.lineTo(x1, y1);
  }
  pen.stroke();
}

function paintMarks(pen: CanvasRenderingContext2D, marks: Mark[], ink: Paper): void {
  pen.font = `${FONT}px ${FAMILY}`;
  pen.textBaseline = "middle";
  for (const { x, y, text, angle, anchor, tone } of marks) {
    pen.fillStyle = ink[tone];
    pen.textAlign = anchor === "middle" ? "center" : anchor === "end" ? "right" : "left";
    if (angle === 0) {
      pen.fillText(text, x, y + 0.5);
      continue;
    }
    pen.save();
    pen.translate(x, y);
    pen.rotate((angle * Math.PI) / 180);
    pen.fillText(text, 0, 0.5);
    pen.restore();
  }
}

function paintBar(pen: CanvasRenderingContext2D, figure: Figure, ink: Paper, measure: Measure): void {
  const { look } = figure;
  const bar = barOf(figure.view, figure.margins, look, figure.says, measure);
  const table = colours(look.dark, look.diverging);
  const fill = pen.createLinearGradient(0, bar.y + bar.height, 0, bar.y);
  for (let n = 0; n <= 64; n++) fill.addColorStop(n / 64, css(table[Math.round((n / 64) * (table.length - 1))]!));
  pen.fillStyle = fill;
  pen.fillRect(bar.x, bar.y, bar.width, bar.height);
  pen.strokeStyle = ink.line;
  pen.lineWidth = 1;
  pen.strokeRect(bar.x - 0.5, bar.y - 0.5, bar.width + 1, bar.height + 1);
  stroke(pen, bar.ticks, ink.line, 1);
  paintMarks(pen, bar.marks, ink);
}

/** Paints a ring around the pattern: the keys go to it. */
export function paintFocus(pen: CanvasRenderingContext2D, { view, margins, look }: Figure): void {
  const { x0, x1, y0, y1 } = filled(view);
  pen.strokeStyle = paper(look.dark).focus;
  pen.lineWidth = 2;
  pen.strokeRect(margins.left + x0 - 2, margins.top + y0 - 2, x1 - x0 + 4, y1 - y0 + 4);
}

/** Paints lines through the cells [i0, i1) x [j0, j1) and names their positions on both axes. */
export function paintCross(
  pen: CanvasRenderingContext2D,
  figure: Figure,
  at: { i0: number; i1: number; j0: number; j1: number },
  measure: Measure,
): void {
  const { view, margins } = figure;
  const ink = paper(figure.look.dark);
  const { x0, x1, y0, y1 } = filled(view);
  const x = margins.left + view.x + ((at.j0 + at.j1) / 2) * view.kx;
  const y = margins.top + view.y + ((at.i0 + at.i1) / 2) * view.ky;
  const width = (at.j1 - at.j0) * view.kx;
  const height = (at.i1 - at.i0) * view.ky;
  // Along large cells the lines keep to their sides, where no number stands.
  const sides = (size: number) => (size >= 12 ? [-size / 2, size / 2] : [0]);
  pen.save();
  pen.beginPath();
  pen.rect(margins.left + x0, margins.top + y0, x1 - x0, y1 - y0);
  pen.clip();
  pen.globalAlpha = Math.min(width, height) >= 12 ? 0.4 : 0.55;
  const down = sides(width).map((by): Line => [x + by, margins.top + y0, x + by, margins.top + y1]);
  const across = sides(height).map((by): Line => [margins.left + x0, y + by, margins.left + x1, y + by]);
  stroke(pen, [...down, ...across], ink.ink, 1);
  pen.globalAlpha = 1;
  if (Math.min(width, height) >= 4) {
    pen.strokeStyle = ink.ink;
    pen.lineWidth = 1.5;
    pen.strokeRect(x - width / 2, y - height / 2, width, height);
  }
  pen.restore();
  pen.save();
  const room = margins.left + x0 - 8;
  const left = cut(`${count(at.i0)} ${shownToken(figure.queries, at.i0)}`, room - 10, measure);
  tag(pen, left, margins.left + x0 - 4 - measure(left) / 2 - 5, y, ink, measure);
  const top = cut(`${count(at.j0)} ${shownToken(figure.keys, at.j0)}`, 160, measure);
  const half = measure(top) / 2 + 5;
  const from = Math.min(sizeOf(figure).width - half - 1, Math.max(half + 1, x));
  tag(pen, top, from, margins.top + y0 - 13, ink, measure);
  pen.restore();
}

function tag(pen: CanvasRenderingContext2D, text: string, x: number, y: number, ink: Paper, measure: Measure): void {
  const width = measure(text) + 10;
  pen.fillStyle = ink.ink;
  pen.beginPath();
  pen.roundRect(x - width / 2, y - 9, width, 18, 4);
  pen.fill();
  pen.fillStyle = ink.onInk;
  pen.font = `${FONT}px ${FAMILY}`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.fillText(text, x, y + 0.5);
}
