// Paints a pattern with all that stands around it onto a canvas.

import { axesOf, filled, FONT } from "./axes";
import type { Line, Margins, Mark, Measure, Title } from "./axes";
import { barOf } from "./bar";
import { isLined, isNumbered, numbers, reading } from "./cells";
import type { Cells, Look, Piece } from "./cells";
import { colours, css, paper } from "./colour";
import type { Paper } from "./colour";
import { hiddenIn, isVisible } from "./edges";
import type { Mask } from "./edges";
import type { Axis, Shown } from "./protocol";
import type { Tiles } from "./tiles";
import { seen } from "./view";
import type { View } from "./view";

/** Everything that one picture of a pattern is made of. */
export interface Figure {
  shown: Shown;
  view: View;
  z: number;
  margins: Margins;
  pieces: Piece[];
  look: Look;
  mask: Mask;
  queries: Axis;
  keys: Axis;
  cross: boolean;
  /** What the colour bar is of, in a line or two. */
  says: string[];
  /** What is written over a plot with nothing in it. */
  note: string;
  /** Queries and keys that one drawn cell stands for. */
  pool: number;
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
  if (figure.note) paintNote(pen, figure, ink, measure);
  pen.strokeStyle = ink.line;
  pen.lineWidth = 1;
  pen.strokeRect(margins.left + x0 - 0.5, margins.top + y0 - 0.5, x1 - x0 + 1, y1 - y0 + 1);
  const axes = axesOf(view, margins, figure.queries, figure.keys, figure.cross, measure);
  stroke(pen, axes.ticks, ink.line, 1);
  paintMarks(pen, axes.marks, ink);
  paintBar(pen, figure, ink, axes.title, measure);
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
    if (!found?.exact || found.i1 - found.i0 > 1 || Number.isNaN(found.p) || j === figure.sink) return null;
    return found.p === 0 && !isVisible(figure.mask, i, j) ? null : found.p;
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
  const { areas, borders } = hiddenIn(view, figure.mask);
  const sink = sinkBox(figure);
  if (!areas.length && !sink) return;
  pen.beginPath();
  for (const area of areas) {
    area.forEach(([x, y], n) => (n ? pen.lineTo(x, y) : pen.moveTo(x, y)));
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
  for (const line of borders) line.forEach(([x, y], n) => (n ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.stroke();
}

/** What a plot with nothing in it says, in its middle. */
export function noteMark({ view, margins, note }: Figure): Mark {
  const { x0, x1, y0, y1 } = filled(view);
  return { x: margins.left + (x0 + x1) / 2, y: margins.top + (y0 + y1) / 2, text: note, angle: 0, anchor: "middle", tone: "ink" };
}

function paintNote(pen: CanvasRenderingContext2D, figure: Figure, ink: Paper, measure: Measure): void {
  const mark = noteMark(figure);
  const half = measure(mark.text) / 2 + 8;
  pen.fillStyle = ink.surface;
  pen.fillRect(mark.x - half, mark.y - 11, 2 * half, 22);
  paintMarks(pen, [mark], ink);
}

/**
 * Outlines of the drawn cells in the selected query's row and the selected key's column; a line where they are too thin
 * for one.
 */
export function selectionBoxes({ view, query, key, pool }: Figure): [number, number, number, number][] {
  const { x0, x1, y0, y1 } = filled(view);
  const boxes: [number, number, number, number][] = [];
  const thin = 5;
  if (query !== null && query < view.T) {
    const first = query - (query % pool);
    const y = view.y + first * view.ky;
    const height = Math.min(pool, view.T - first) * view.ky;
    boxes.push(height >= thin ? [x0 + 1, y, x1 - x0 - 2, height] : [x0, y + height / 2, x1 - x0, 0]);
  }
  if (key !== null && key < view.S) {
    const first = key - (key % pool);
    const x = view.x + first * view.kx;
    const width = Math.min(pool, view.S - first) * view.kx;
    boxes.push(width >= thin ? [x, y0 + 1, width, y1 - y0 - 2] : [x + width / 2, y0, 0, y1 - y0]);
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

export function stroke(pen: CanvasRenderingContext2D, lines: Line[], colour: string, width: number): void {
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

function paintBar(pen: CanvasRenderingContext2D, figure: Figure, ink: Paper, title: Title, measure: Measure): void {
  const { look } = figure;
  const bar = barOf(figure.view, figure.margins, look, figure.says, title, measure);
  const table = colours(look.dark, look.diverging);
  const fill = figure.margins.bar === "below"
    ? pen.createLinearGradient(bar.x, 0, bar.x + bar.width, 0)
    : pen.createLinearGradient(0, bar.y + bar.height, 0, bar.y);
  for (let n = 0; n <= 64; n++) fill.addColorStop(n / 64, css(table[Math.round((n / 64) * (table.length - 1))]!));
  pen.fillStyle = fill;
  pen.fillRect(bar.x, bar.y, bar.width, bar.height);
  pen.strokeStyle = ink.line;
  pen.lineWidth = 1;
  pen.strokeRect(bar.x - 0.5, bar.y - 0.5, bar.width + 1, bar.height + 1);
  stroke(pen, bar.ticks, ink.line, 1);
  paintMarks(pen, bar.marks, ink);
}
