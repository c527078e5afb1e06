// The colour bar: beside the pattern, or below it where the map is narrow; what it is of stands above it.

import { cut, filled } from "./axes";
import type { Line, Margins, Mark, Measure, Title } from "./axes";
import type { Look } from "./cells";
import { SCALES } from "./colour";
import type { View } from "./view";
import { short } from "./words";

export interface Bar {
  x: number;
  y: number;
  width: number;
  height: number;
  marks: Mark[];
  ticks: Line[];
}

const THICK = 10;
const TICK = 3;
const SHORTEST = 120;
const LONGEST = 240;
/** Between the lines of what it is of. */
const LINE = 13;
/** Where round numbers are looked for between the ends, parts of the bar. */
const PLACES = [0.75, 0.5, 0.25];

/** `says`: what the colours are of, in a line or two. */
export function barOf(view: View, margins: Margins, look: Look, says: string[], title: Title, measure: Measure): Bar {
  return margins.bar === "below" ? below(view, margins, look, says, measure) : beside(view, margins, look, says, title, measure);
}

function beside(view: View, margins: Margins, look: Look, says: string[], title: Title, measure: Measure): Bar {
  const { x1, y0, y1 } = filled(view);
  // A pattern of one row still has a bar that can be read.
  const height = Math.max(Math.min(view.height, SHORTEST), Math.min(LONGEST, y1 - y0));
  const bar: Bar = { x: margins.left + x1 + 9, y: margins.top + y0, width: THICK, height, marks: [], ticks: [] };
  const right = bar.x + THICK;
  for (const { text, place } of numbersOf(look)) {
    const y = bar.y + height * (1 - place);
    bar.marks.push({ x: right + TICK + 2, y, text, angle: 0, anchor: "start", tone: "ink" });
    bar.ticks.push([right, y, right + TICK, y]);
  }
  // Lines grow upwards from that of the axis' title; where there is no room above it, there is one.
  const lines = title.y - (says.length - 1) * LINE < 7 ? [says.join(", ")] : says;
  const edge = margins.left + view.width + margins.right - 2;
  const widest = Math.max(...lines.map(measure));
  const fits = bar.x + widest <= edge;
  lines.forEach((line, n) =>
    bar.marks.push({
      x: fits ? bar.x : edge,
      y: title.y - (lines.length - 1 - n) * LINE,
      text: cut(line, edge - title.end - 12, measure),
      angle: 0,
      anchor: fits ? "start" : "end",
      tone: "soft",
    }),
  );
  return bar;
}

function below(view: View, margins: Margins, look: Look, says: string[], measure: Measure): Bar {
  const width = margins.left + view.width + margins.right;
  const words = Math.min(0.42 * width, Math.max(...says.map(measure)));
  const x = Math.max(margins.left, 2 + words + 14);
  const y = margins.top + filled(view).y1 + 9;
  const bar: Bar = { x, y, width: Math.min(LONGEST, width - 16 - x), height: THICK, marks: [], ticks: [] };
  for (const { text, place } of numbersOf(look)) {
    const at = x + bar.width * place;
    bar.marks.push({ x: at, y: y + THICK + TICK + 8, text, angle: 0, anchor: "middle", tone: "ink" });
    bar.ticks.push([at, y + THICK, at, y + THICK + TICK]);
  }
  says.forEach((line, n) =>
    bar.marks.push({ x: 2, y: y + 6 + n * LINE, text: cut(line, words, measure), angle: 0, anchor: "start", tone: "soft" }),
  );
  return bar;
}

/** Round numbers and where they stand on the bar, 0..1, the largest first. */
export function numbersOf(look: Pick<Look, "scale" | "range" | "over" | "diverging">): { text: string; place: number }[] {
  const { scale, range, diverging } = look;
  const along = (value: number) => SCALES[scale](value / range);
  const up = scale === "linear" && !diverging ? equal(range) : rounds(range, diverging ? [0.5] : PLACES, along);
  const ends = [range, ...up].map((value) => ({ text: short(value), place: along(value) }));
  const zero = { text: "0", place: 0 };
  // What lies beyond a locked end has the colour of the end.
  const beyond = (n: number, sign: string) => (look.over && n === 0 ? sign : "");
  if (!diverging) return [...ends.map(({ text, place }, n) => ({ text: beyond(n, "≥") + text, place })), zero];
  const half = (sign: string, way: number) =>
    ends.map(({ text, place }, n) => ({ text: `${beyond(n, way > 0 ? "≥" : "≤")}${sign}${text}`, place: 0.5 + (way * place) / 2 }));
  return [...half("+", 1), { text: "0", place: 0.5 }, ...half("−", -1).reverse()];
}

/** Into how many parts a range is cut that are round, too, by its first digits; 4 where nothing is said. */
const PARTS: Record<number, number> = { 1.5: 3, 2.5: 5, 3: 3, 5: 5, 6: 3 };

/** Numbers that cut a range into equal parts. */
function equal(range: number): number[] {
  const parts = PARTS[Number(range.toExponential(2).split("e")[0])] ?? 4;
  return Array.from({ length: parts - 1 }, (_, n) => (range * (parts - 1 - n)) / parts);
}

/** The numbers 1, 2 and 5 times a power of ten that stand nearest to some places. */
function rounds(range: number, places: number[], along: (value: number) => number): number[] {
  const found: number[] = [];
  const top = Math.floor(Math.log10(range));
  for (let power = top; power > top - 5; power--) {
    for (const step of [5, 2, 1]) if (step * 10 ** power < range * 0.999) found.push(Number(`${step}e${power}`));
  }
  const nearest = (place: number) =>
    found.reduce((best, value) => (Math.abs(along(value) - place) < Math.abs(along(best) - place) ? value : best));
  return [...new Set(places.map(nearest))];
}
