// The map as a file: a PNG at twice its size, or an SVG whose axes and labels are vectors.

import { axesOf, cut, filled, FONT } from "./axes";
import type { Line, Mark, Measure, Title } from "./axes";
import { barOf } from "./bar";
import { Cells, colourOf, isLined, isNumbered, reading } from "./cells";
import { kindOf, title as nameOf } from "./choosing";
import { colours, css, paper } from "./colour";
import type { Paper } from "./colour";
import { earned } from "./earned";
import { hiddenIn } from "./edges";
import { FAMILY, gridLines, hatchLines, noteMark, numbersOf, paintFigure, selectionBoxes, sinkBox, sizeOf } from "./figure";
import type { Figure } from "./figure";
import type { Scene } from "./protocol";
import type { Tiles } from "./tiles";
import { seen } from "./view";

const HEAD = 46;
const PAD = 10;
const RATIO = 2;
/** More cells than these go into an SVG as an image. */
const FEW = 4096;

/** Title and second line of a picture. */
export function titlesOf({ shown, look }: Figure, scene: Scene): [string, string] {
  const place: [number, number] = [shown.layer, shown.head];
  const kind = kindOf(scene, place);
  const run = scene.runs.length > 1 && shown.minus === undefined ? scene.runs[shown.run] : undefined;
  const parts = [scene.title, earned(scene, place), run, scene.batch > 1 ? `row ${shown.b} of the batch` : undefined];
  if (shown.hide) parts.push("sink left out");
  if (look.scale !== "linear") parts.push(look.scale === "sqrt" ? "√ colour scale" : "log colour scale");
  return [`${nameOf(scene, place)}${kind ? `: ${kind.title}` : ""}`, parts.filter(Boolean).join(" · ")];
}

export function pngOf(figure: Figure, tiles: Tiles, scene: Scene, measure: Measure): Promise<Blob> {
  const { width, height } = sizeOf(figure);
  const canvas = document.createElement("canvas");
  canvas.width = Math.round((width + 2 * PAD) * RATIO);
  canvas.height = Math.round((height + HEAD + 2 * PAD) * RATIO);
  const pen = canvas.getContext("2d");
  if (!pen) return Promise.reject(new Error("This browser can not draw a picture of that size."));
  const ink = paper(figure.look.dark);
  pen.scale(RATIO, RATIO);
  pen.fillStyle = ink.surface;
  pen.fillRect(0, 0, width + 2 * PAD, height + HEAD + 2 * PAD);
  const [title, below] = titlesOf(figure, scene);
  const left = PAD + titleLeft(figure);
  pen.textBaseline = "alphabetic";
  pen.fillStyle = ink.ink;
  pen.font = `600 16px ${FAMILY}`;
  pen.fillText(title, left, PAD + 18);
  pen.fillStyle = ink.soft;
  pen.font = `12px ${FAMILY}`;
  pen.fillText(cut(below, (width - left) * 0.9, measure), left, PAD + 36);
  pen.translate(PAD, PAD + HEAD);
  paintFigure(pen, figure, tiles, new Cells(), measure, RATIO, Infinity);
  return new Promise((done, fail) => {
    canvas.toBlob((blob) => (blob ? done(blob) : fail(new Error("This browser can not draw a picture of that size."))));
  });
}

function titleLeft({ view, margins }: Figure): number {
  return margins.left + filled(view).x0;
}

export function escape(text: string): string {
  const marks: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
  // XML knows no control characters, not even escaped ones.
  return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd").replace(/[&<>"']/g, (mark) => marks[mark]!);
}

const n = (x: number) => String(Math.round(x * 100) / 100);

/** One element; its values are escaped. */
function element(name: string, values: Record<string, string | number>, inside?: string): string {
  const words = Object.entries(values).map(([key, value]) => ` ${key}="${typeof value === "number" ? n(value) : escape(value)}"`);
  return inside === undefined ? `<${name}${words.join("")}/>` : `<${name}${words.join("")}>${inside}</${name}>`;
}

function text(words: string, values: Record<string, string | number>): string {
  return element("text", values, escape(words));
}

function path(lines: Line[], colour: string, width = 1): string {
  if (!lines.length) return "";
  const d = lines.map(([x0, y0, x1, y1]) => `M${n(x0)} ${n(y0)}L${n(x1)} ${n(y1)}`).join("");
  return element("path", { d, fill: "none", stroke: colour, "stroke-width": width });
}

function marks(list: Mark[], ink: Paper): string {
  return list
    .map(({ x, y, text: words, angle, anchor, tone }) =>
      text(words, {
        "text-anchor": anchor,
        "dominant-baseline": "central",
        fill: ink[tone],
        ...(angle ? { transform: `translate(${n(x)} ${n(y)}) rotate(${angle})` } : { x, y }),
      }),
    )
    .join("");
}

export function svgOf(figure: Figure, tiles: Tiles, scene: Scene, measure: Measure): string {
  const { view, margins, look } = figure;
  const { width, height } = sizeOf(figure);
  const ink = paper(look.dark);
  const { x0, x1, y0, y1 } = filled(view);
  const [title, below] = titlesOf(figure, scene);
  const left = titleLeft(figure);
  const axes = axesOf(view, margins, figure.queries, figure.keys, figure.cross, measure);
  const box = { x: x0, y: y0, width: x1 - x0, height: y1 - y0 };
  const plot = [cells(figure, tiles), isLined(view) ? path(gridLines(view), ink.grid) : "", written(figure, tiles, measure)];
  plot.push(hidden(figure, ink));
  for (const [x, y, w, h] of selectionBoxes(figure)) {
    // A rectangle without height is not drawn.
    const box = { x, y, width: w, height: h, fill: "none", stroke: ink.accent, "stroke-width": 1.5 };
    plot.push(w && h ? element("rect", box) : path([[x, y, x + w, y + h]], ink.accent, 1.5));
  }
  const parts = [
    element("title", {}, escape(`${title} · ${below}`)),
    element("defs", {}, element("clipPath", { id: "plot" }, element("rect", box)) + fade(figure)),
    element("rect", { x: -PAD, y: -PAD - HEAD, width: width + 2 * PAD, height: height + HEAD + 2 * PAD, fill: ink.surface }),
    text(title, { x: left, y: 18 - HEAD, fill: ink.ink, "font-size": 16, "font-weight": 600 }),
    text(below, { x: left, y: 36 - HEAD, fill: ink.soft, "font-size": 12 }),
    element(
      "g",
      { transform: `translate(${margins.left} ${margins.top})` },
      element("g", { "clip-path": "url(#plot)" }, plot.join("")) +
        element("rect", { ...box, fill: "none", stroke: ink.line }),
    ),
    path(axes.ticks, ink.line),
    marks(axes.marks, ink),
    colourBar(figure, ink, axes.title, measure),
    note(figure, ink, measure),
  ];
  const values = {
    xmlns: "http://www.w3.org/2000/svg",
    width: width + 2 * PAD,
    height: height + HEAD + 2 * PAD,
    viewBox: `${-PAD} ${-PAD - HEAD} ${n(width + 2 * PAD)} ${n(height + HEAD + 2 * PAD)}`,
    "font-family": FAMILY,
    "font-size": FONT,
  };
  return `${element("svg", values, parts.join(""))}\n`;
}

/** Few cells are rectangles, many are an image. */
function cells(figure: Figure, tiles: Tiles): string {
  const { view, z } = figure;
  const { i0, i1, j0, j1 } = seen(view);
  const pool = 2 ** z;
  const rows = Math.ceil(i1 / pool) - Math.floor(i0 / pool);
  const columns = Math.ceil(j1 / pool) - Math.floor(j0 / pool);
  if (rows * columns > FEW) return image(figure);
  const out: string[] = [];
  for (let i = Math.floor(i0 / pool) * pool; i < i1; i += pool) {
    for (let j = Math.floor(j0 / pool) * pool; j < j1; j += pool) {
      const cell = reading(tiles, figure.shown, view, z, i, j);
      if (!cell) continue;
      out.push(
        element("rect", {
          x: view.x + j * view.kx,
          y: view.y + i * view.ky,
          width: Math.min(pool, view.S - j) * view.kx,
          height: Math.min(pool, view.T - i) * view.ky,
          fill: css(colourOf(cell.p, figure.look)),
        }),
      );
    }
  }
  // Without this a hair of the background shows between neighbours.
  return element("g", { "shape-rendering": "crispEdges" }, out.join(""));
}

/** The cells in view as a PNG with twice the plot's pixels. */
function image({ view, pieces, look }: Figure): string {
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(view.width * RATIO);
  canvas.height = Math.round(view.height * RATIO);
  const pen = canvas.getContext("2d");
  if (!pen) return "";
  pen.scale(RATIO, RATIO);
  new Cells().draw(pen, view, pieces, look, RATIO, Infinity);
  const values = { x: 0, y: 0, width: view.width, height: view.height, preserveAspectRatio: "none" };
  return element("image", { ...values, href: canvas.toDataURL("image/png") });
}

function written(figure: Figure, tiles: Tiles, measure: Measure): string {
  if (figure.z !== 0 || !isNumbered(figure.view)) return "";
  return numbersOf(figure, tiles, measure)
    .map(({ x, y, text: words, ink }) =>
      text(words, { x, y, "text-anchor": "middle", "dominant-baseline": "central", fill: ink }),
    )
    .join("");
}

function hidden(figure: Figure, ink: Paper): string {
  const { areas, borders } = hiddenIn(figure.view, figure.mask);
  const sink = sinkBox(figure);
  if (!areas.length && !sink) return "";
  const line = (points: [number, number][]) => points.map(([x, y], at) => `${at ? "L" : "M"}${n(x)} ${n(y)}`).join("");
  let d = areas.map((points) => `${line(points)}Z`).join("");
  if (sink) d += `M${n(sink[0])} ${n(sink[1])}h${n(sink[2])}v${n(sink[3])}h${n(-sink[2])}Z`;
  const border = borders.map(line).join("");
  return (
    element("clipPath", { id: "hidden" }, element("path", { d })) +
    element("path", { d, fill: ink.veil }) +
    element("g", { "clip-path": "url(#hidden)" }, path(hatchLines(figure.view), ink.hatch)) +
    (border && element("path", { d: border, fill: "none", stroke: ink.line }))
  );
}

function note(figure: Figure, ink: Paper, measure: Measure): string {
  if (!figure.note) return "";
  const mark = noteMark(figure);
  const half = measure(mark.text) / 2 + 8;
  const plate = element("rect", { x: mark.x - half, y: mark.y - 11, width: 2 * half, height: 22, fill: ink.surface });
  return plate + marks([mark], ink);
}

function fade({ look, margins }: Figure): string {
  const table = colours(look.dark, look.diverging);
  const stops = Array.from({ length: 33 }, (_, at) =>
    element("stop", { offset: at / 32, "stop-color": css(table[Math.round((at / 32) * (table.length - 1))]!) }),
  );
  const ends = margins.bar === "below" ? { x1: 0, x2: 1, y1: 0, y2: 0 } : { x1: 0, x2: 0, y1: 1, y2: 0 };
  return element("linearGradient", { id: "bar", ...ends }, stops.join(""));
}

function colourBar(figure: Figure, ink: Paper, title: Title, measure: Measure): string {
  const bar = barOf(figure.view, figure.margins, figure.look, figure.says, title, measure);
  const { x, y, width, height } = bar;
  return (
    element("rect", { x, y, width, height, fill: "url(#bar)", stroke: ink.line }) +
    path(bar.ticks, ink.line) +
    marks(bar.marks, ink)
  );
}
