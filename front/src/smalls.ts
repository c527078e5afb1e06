// Draws the small maps of the overview: each in the frame of its kind, with the kind's letter where there is room.

import type { Arrangement, Cell } from "./arrange";
import { kindOf, placeName, scoresOf } from "./choosing";
import { hex, inkOn } from "./colour";
import { fixed } from "./numbers";
import type { Scene } from "./protocol";
import type { Thumbs } from "./thumbs";

/** Below this side a letter would hide the map. */
const LETTERED = 22;

export interface Smalls {
  scene: Scene;
  thumbs: Thumbs;
  arrangement: Arrangement;
  /** Heads with a dot: those that a saved file holds in full, where it does not hold all. */
  full: Set<string>;
}

type Inks = Record<"ink" | "soft" | "line", string>;

/** Fills a canvas that lies over `grid`, whose colours and letters it takes. */
export function drawSmalls(canvas: HTMLCanvasElement, grid: HTMLElement, smalls: Smalls): void {
  const pen = canvas.getContext("2d");
  if (!pen) return;
  const { width, height, size, cells, sorted, step } = smalls.arrangement;
  const dense = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * dense);
  canvas.height = Math.round(height * dense);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  pen.scale(dense, dense);
  pen.imageSmoothingQuality = "high";
  const style = getComputedStyle(grid);
  const inks: Inks = { ink: style.getPropertyValue("--ink"), soft: style.getPropertyValue("--soft"), line: style.getPropertyValue("--line") };
  const letters = `700 11px ${style.fontFamily}`;
  pen.font = letters;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  for (const cell of cells) {
    const x = cell.x + (sorted ? Math.floor((step[0] - 2 - size) / 2) : 0);
    pen.globalAlpha = cell.faint ? 0.16 : 1;
    one(pen, smalls, cell, x, cell.y + (sorted ? 1 : 0), inks);
    if (smalls.arrangement.wrapped) {
      pen.fillStyle = inks.soft;
      pen.font = `11px ${style.fontFamily}`;
      pen.fillText(placeName(cell.place), cell.x + size / 2, cell.y + size + 8);
      pen.font = letters;
    }
    if (cell.score === null) continue;
    const middle = cell.x + (step[0] - 2) / 2;
    pen.fillStyle = inks.soft;
    pen.font = `11px ${style.fontFamily}`;
    pen.fillText(placeName(cell.place), middle, cell.y + size + 9);
    pen.fillStyle = inks.ink;
    pen.font = letters;
    pen.fillText(`${fixed(cell.score, 2)}${cell.few ? "*" : ""}`, middle, cell.y + size + 22);
  }
}

function one(pen: CanvasRenderingContext2D, { scene, thumbs, arrangement, full }: Smalls, cell: Cell, x: number, y: number, inks: Inks): void {
  const { size } = arrangement;
  const kind = kindOf(scene, cell.place);
  const colour = kind?.colour ?? null;
  const known = thumbs.isKnown(cell.n);
  if (known) thumbs.draw(pen, cell.n, x + 1, y + 1, size - 2);
  pen.strokeStyle = colour ?? inks.line;
  pen.lineWidth = colour ? 2 : 1;
  pen.strokeRect(x + 1, y + 1, size - 2, size - 2);
  if (known && !thumbs.isExact(cell.n)) unsure(pen, x + 2, y + size - 2, Math.min(9, size / 3), inks.soft);
  if (full.has(placeName(cell.place))) {
    pen.fillStyle = inks.ink;
    pen.beginPath();
    pen.arc(x + size - 5, y + size - 5, 2.5, 0, 2 * Math.PI);
    pen.fill();
  }
  const mixed = scoresOf(scene, cell.place) && !colour;
  if (!kind || mixed || size < LETTERED) return;
  // At the upper right, where causal maps are empty anyway.
  const box = Math.min(14, size * 0.45);
  pen.fillStyle = colour ?? inks.line;
  pen.fillRect(x + size - box, y, box, box);
  pen.fillStyle = colour ? inkOn(hex(colour)) : inks.ink;
  pen.fillText(kind.letter, x + size - box / 2, y + box / 2 + 0.5);
}

/** Strokes across the lower left corner: sampled, not exact. */
function unsure(pen: CanvasRenderingContext2D, x: number, y: number, size: number, colour: string): void {
  pen.strokeStyle = colour;
  pen.lineWidth = 1;
  pen.beginPath();
  for (let at = 3; at <= size; at += 3) {
    pen.moveTo(x, y - at);
    pen.lineTo(x + at, y);
  }
  pen.stroke();
}
