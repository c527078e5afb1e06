// Paints the crosshair with the labels of its cells, and the ring of the focus.

import { cut, filled, FONT, TAGGED } from "./axes";
import type { Line, Measure } from "./axes";
import { paper } from "./colour";
import type { Paper } from "./colour";
import type { Block } from "./edges";
import { FAMILY, sizeOf, stroke } from "./figure";
import type { Figure } from "./figure";
import { isBare } from "./numbers";
import { shownToken, span } from "./words";

const TAG = { pad: 5, line: 13, away: 4, widest: 160 };

/** Paints a ring around the pattern: the keys go to it. */
export function paintFocus(pen: CanvasRenderingContext2D, { view, margins, look }: Figure): void {
  const { x0, x1, y0, y1 } = filled(view);
  pen.strokeStyle = paper(look.dark).focus;
  pen.lineWidth = 2;
  pen.strokeRect(margins.left + x0 - 2, margins.top + y0 - 2, x1 - x0 + 4, y1 - y0 + 4);
}

/** Paints lines through a block of cells and names its positions on both axes. */
export function paintCross(pen: CanvasRenderingContext2D, figure: Figure, at: Block, measure: Measure): void {
  const { view, margins } = figure;
  const ink = paper(figure.look.dark);
  const x = margins.left + view.x + ((at.j0 + at.j1) / 2) * view.kx;
  const y = margins.top + view.y + ((at.i0 + at.i1) / 2) * view.ky;
  paintLines(pen, figure, ink, [x, y], [(at.j1 - at.j0) * view.kx, (at.i1 - at.i0) * view.ky]);
  const left = margins.left + filled(view).x0;
  const top = margins.top + filled(view).y0;
  const query = [span(at.i0, at.i1), at.i1 - at.i0 > 1 || isBare(figure.queries) ? "" : shownToken(figure.queries, at.i0)].filter(Boolean);
  const key = [span(at.j0, at.j1), at.j1 - at.j0 > 1 || isBare(figure.keys) ? "" : shownToken(figure.keys, at.j0)].filter(Boolean);
  const lines = inRoom(query, left - TAG.away - 2 * TAG.pad - 1, measure);
  const wide = Math.max(...lines.map(measure)) + 2 * TAG.pad;
  const high = lines.length * TAG.line + 5;
  // The words at the ends of the axes stay in sight.
  tag(pen, lines, left - TAG.away - wide / 2, Math.max(y, top + high / 2 - 4), ink, measure);
  const above = cut(key.join(" "), TAG.widest, measure);
  const half = measure(above) / 2 + TAG.pad;
  const middle = Math.max(left + half, Math.min(sizeOf(figure).width - half - 1, x));
  tag(pen, [above], middle, top - TAGGED + 9, ink, measure);
}

function paintLines(
  pen: CanvasRenderingContext2D,
  { view, margins }: Figure,
  ink: Paper,
  [x, y]: [number, number],
  [width, height]: [number, number],
): void {
  const { x0, x1, y0, y1 } = filled(view);
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
}

/** Words in one line, or where that is too long, one below the other; a range breaks after its dash. */
export function inRoom(words: string[], room: number, measure: Measure): string[] {
  const one = words.join(" ");
  if (measure(one) <= room) return [one];
  const lines = words.length > 1 ? words : one.split(/(?<=–)/);
  return lines.map((line) => cut(line, room, measure));
}

function tag(pen: CanvasRenderingContext2D, lines: string[], x: number, y: number, ink: Paper, measure: Measure): void {
  const width = Math.max(...lines.map(measure)) + 2 * TAG.pad;
  const height = lines.length * TAG.line + 5;
  pen.fillStyle = ink.ink;
  pen.beginPath();
  pen.roundRect(x - width / 2, y - height / 2, width, height, 4);
  pen.fill();
  pen.fillStyle = ink.onInk;
  pen.font = `${FONT}px ${FAMILY}`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  lines.forEach((line, n) => pen.fillText(line, x, y + 0.5 + (n - (lines.length - 1) / 2) * TAG.line));
}
