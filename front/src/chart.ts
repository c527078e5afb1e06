// Line and bar charts of one series, or of two over each other: the second one is dashed. A series longer than the chart
// is wide is drawn as the band between the smallest and the largest value under each pixel, so that no peak is lost.

import { roundAbove, stepOf } from "./axes";
import { make, svg } from "./dom";
import { count, short } from "./words";

export interface Curve {
  values: ArrayLike<number>;
  colour: string;
}

export interface Series {
  name: string;
  /** The one that is spoken of, and one to compare it with, of the same length. NaN is no number, and not drawn. */
  curves: [Curve, ...Curve[]];
  /** What stands at entry 0, and whether it grows to the right. */
  first: number;
  backwards?: boolean;
  /** A logarithmic scale of `decades` below the largest value. */
  log?: boolean;
  across: string;
  bars?: boolean;
  /** What is said of an entry. */
  say: (at: number) => string;
  /** What is said before the largest entry, and where all is 0. */
  most: string;
  nothing: string;
  pick?: (at: number) => void;
  /** An entry to mark. */
  mark?: number | null;
}

const LEFT = 52;
const RIGHT = 8;
const ABOVE = 8;
const BELOW = 32;
const DECADES = 5;
/** Lines across the chart, and pixels between what is written below it. */
const LINES = 4;
const WRITTEN = 60;

interface Scale {
  low: number;
  high: number;
  /** 0 at the bottom, 1 at the top. */
  of: (value: number) => number;
  ticks: number[];
}

export function scaleOf(curves: ArrayLike<number>[], log: boolean): Scale {
  let [low, high] = [0, 0];
  for (const values of curves) {
    for (let i = 0; i < values.length; i++) {
      const value = values[i] as number;
      if (Number.isFinite(value)) [low, high] = [Math.min(low, value), Math.max(high, value)];
    }
  }
  if (high === low) high = low + 1;
  if (log) {
    const decades = (value: number) => (value > 0 ? Math.max(0, 1 + Math.log10(value / high) / DECADES) : 0);
    const top = Math.floor(Math.log10(high));
    const ticks = [0, 1, 2, 3, 4].map((down) => 10 ** (top - down)).filter((tick) => decades(tick) > 0);
    return { low: 0, high, of: decades, ticks };
  }
  const step = roundAbove((high - low) / LINES);
  const ticks: number[] = [];
  for (let tick = Math.ceil(low / step - 1e-6); tick * step <= high + step * 1e-6; tick++) ticks.push(tick * step);
  return { low, high, of: (value) => (value - low) / (high - low), ticks };
}

/** Smallest and largest value under each of `pixels` columns; NaN where there is no number. */
export function envelope(values: ArrayLike<number>, pixels: number): { low: Float32Array; high: Float32Array } {
  const columns = Math.max(1, Math.min(pixels, values.length));
  const [low, high] = [new Float32Array(columns).fill(NaN), new Float32Array(columns).fill(NaN)];
  for (let column = 0; column < columns; column++) {
    const from = Math.floor((column * values.length) / columns);
    const to = Math.max(from + 1, Math.floor(((column + 1) * values.length) / columns));
    let [least, most] = [Infinity, -Infinity];
    for (let i = from; i < to; i++) {
      const value = values[i] as number;
      if (value < least) least = value;
      if (value > most) most = value;
    }
    if (least <= most) [low[column], high[column]] = [least, most];
  }
  return { low, high };
}

/** The entry of the largest size; null where all are 0 or no numbers. */
export function largestAt(values: ArrayLike<number>): number | null {
  let [at, most] = [null as number | null, 0];
  for (let i = 0; i < values.length; i++) {
    const size = Math.abs(values[i] as number);
    if (size > most) [at, most] = [i, size];
  }
  return at;
}

/** "1,500", "−0.25". */
function tickName(x: number): string {
  const whole = Math.abs(x) >= 1000 && Number.isInteger(x);
  return whole ? `${x < 0 ? "−" : ""}${count(Math.abs(x))}` : short(x);
}

/** Stretches of entries that are numbers. */
function stretches(values: ArrayLike<number>): [from: number, to: number][] {
  const found: [number, number][] = [];
  for (let i = 0; i < values.length; i++) {
    if (Number.isNaN(values[i])) continue;
    const last = found.at(-1);
    if (last && last[1] === i) last[1] = i + 1;
    else found.push([i, i + 1]);
  }
  return found;
}

interface Plot {
  width: number;
  /** Pixels of one entry. */
  step: number;
  x: (at: number) => number;
  y: (value: number) => number;
  zero: number;
}

export class Chart {
  readonly node = make("figure", { class: "chart" });
  private readonly plot = svg("svg", { role: "img" });
  private readonly out = make("output", {});
  private readonly cursor = svg("line", { class: "cursor" });
  private series: Series | null = null;
  private readonly height: number;

  constructor(height: number) {
    this.height = height;
    this.plot.style.height = `${height}px`;
    this.node.append(this.plot, this.out);
    this.plot.addEventListener("pointermove", (event) => this.point(event));
    this.plot.addEventListener("pointerleave", () => this.leave());
    this.plot.addEventListener("click", (event) => {
      const at = this.at(event);
      if (at !== null) this.series?.pick?.(at);
    });
  }

  show(series: Series): void {
    this.series = series;
    this.plot.setAttribute("aria-label", series.name);
    this.plot.classList.toggle("pickable", series.pick !== undefined);
    this.draw();
  }

  private get length(): number {
    return this.series?.curves[0].values.length ?? 0;
  }

  private draw(): void {
    const { series, length } = this;
    if (!series || length === 0) return;
    const width = Math.max(160, this.plot.clientWidth || 340);
    const scale = scaleOf(series.curves.map(({ values }) => values), series.log ?? false);
    const inner = this.height - ABOVE - BELOW;
    const y = (value: number) => ABOVE + inner * (1 - Math.min(1, Math.max(0, scale.of(value))));
    const step = (width - LEFT - RIGHT) / length;
    const x = (at: number) => LEFT + step * (series.backwards ? length - 1 - at : at);
    const plot: Plot = { width, step, x, y, zero: y(Math.max(0, scale.low)) };
    const parts: SVGElement[] = [];
    for (const tick of scale.ticks) {
      parts.push(svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(tick), y2: y(tick) }));
      parts.push(svg("text", { x: LEFT - 5, y: y(tick) + 4, "text-anchor": "end" }, tickName(tick)));
    }
    series.curves.forEach((curve, n) => parts.push(...this.curve(series, curve, n > 0, plot)));
    parts.push(...this.ticks(series, plot));
    parts.push(svg("text", { class: "what", x: LEFT + (width - LEFT - RIGHT) / 2, y: this.height - 3, "text-anchor": "middle" }, series.across));
    if (series.mark !== null && series.mark !== undefined) {
      const at = x(series.mark) + step / 2;
      parts.push(svg("line", { class: "mark", x1: at, x2: at, y1: ABOVE, y2: this.height - BELOW }));
    }
    this.plot.setAttribute("viewBox", `0 0 ${width} ${this.height}`);
    this.plot.replaceChildren(...parts, this.cursor);
    this.leave();
  }

  private curve(series: Series, { values, colour }: Curve, second: boolean, { width, step, x, y, zero }: Plot): SVGElement[] {
    if (!series.bars || step < 2) return [this.band(series, values, colour, second, width, y)];
    const parts: SVGElement[] = [];
    for (let at = 0; at < values.length; at++) {
      const value = values[at] as number;
      if (Number.isNaN(value)) continue;
      const top = y(value);
      const box = { x: x(at) + step * 0.1, width: Math.max(1, step * 0.8) };
      // The second one is the top of a bar that is not filled.
      if (second) parts.push(svg("path", { d: `M${box.x},${top}h${box.width}`, stroke: colour, "stroke-width": 2.5 }));
      else parts.push(svg("rect", { ...box, y: Math.min(top, zero), height: Math.max(0.5, Math.abs(zero - top)), fill: colour }));
    }
    return parts;
  }

  private band(series: Series, values: ArrayLike<number>, colour: string, second: boolean, width: number, y: (value: number) => number): SVGElement {
    const bars = series.bars ?? false;
    const { low, high } = envelope(series.backwards ? Array.from(values).reverse() : values, width - LEFT - RIGHT);
    const step = (width - LEFT - RIGHT) / low.length;
    const word = (column: number, value: number) => `${(LEFT + (column + 0.5) * step).toFixed(1)},${y(value).toFixed(1)}`;
    const d = stretches(high).map(([from, to]) => {
      // What is a sum or a share stands on its zero; a curve has none, and of two only the upper edge is drawn.
      const edge = (of: Float32Array, least: (a: number, b: number) => number) => Array.from(of.subarray(from, to), (value, n) => word(from + n, bars ? least(0, value) : value));
      const above = edge(high, Math.max);
      return second ? `M${above.join("L")}` : `M${[...above, ...edge(low, Math.min).reverse()].join("L")}Z`;
    });
    const line = { stroke: colour, "stroke-linejoin": "round" };
    return second
      ? svg("path", { d: d.join(""), ...line, fill: "none", "stroke-width": 1.6, "stroke-dasharray": "5 2" })
      : svg("path", { d: d.join(""), ...line, fill: colour, "stroke-width": 1.2 });
  }

  private ticks(series: Series, { step, x }: Plot): SVGElement[] {
    const every = stepOf(step, WRITTEN);
    const parts: SVGElement[] = [];
    const last = series.first + this.length - 1;
    for (let place = Math.ceil(series.first / every) * every; place <= last; place += every) {
      const at = x(place - series.first) + step / 2;
      parts.push(svg("line", { class: "grid", x1: at, x2: at, y1: this.height - BELOW, y2: this.height - BELOW + 3 }));
      parts.push(svg("text", { x: at, y: this.height - BELOW + 14, "text-anchor": "middle" }, tickName(place)));
    }
    return parts;
  }

  private at(event: MouseEvent): number | null {
    const { series, length } = this;
    if (!series) return null;
    const frame = this.plot.getBoundingClientRect();
    const part = (event.clientX - frame.left - LEFT) / (frame.width - LEFT - RIGHT);
    if (!(part >= 0 && part < 1)) return null;
    const at = Math.floor(part * length);
    return series.backwards ? length - 1 - at : at;
  }

  private point(event: MouseEvent): void {
    const at = this.at(event);
    if (at === null || !this.series) return this.leave();
    const x = event.clientX - this.plot.getBoundingClientRect().left;
    for (const [name, value] of Object.entries({ x1: x, x2: x, y1: ABOVE, y2: this.height - BELOW })) this.cursor.setAttribute(name, String(value));
    this.out.textContent = this.series.say(at);
  }

  /** Back to what is largest. */
  private leave(): void {
    this.cursor.setAttribute("y2", String(ABOVE));
    this.cursor.setAttribute("y1", String(ABOVE));
    const { series } = this;
    if (!series) return;
    const most = largestAt(series.curves[0].values);
    this.out.textContent = most === null ? series.nothing : `${series.most}: ${series.say(most)}`;
  }
}
