// Line and bar charts of one series. A series longer than the chart is wide is drawn as the band between the smallest
// and the largest value under each pixel, so that no peak is lost.

import { make, svg } from "./dom";
import { short } from "./words";

export interface Series {
  name: string;
  values: Float32Array | number[];
  /** What stands at entry 0, and whether it grows to the right. */
  first: number;
  backwards?: boolean;
  /** A logarithmic scale of `decades` below the largest value. */
  log?: boolean;
  across: string;
  bars?: boolean;
  colour: string;
  /** What is said of an entry. */
  say: (at: number, value: number) => string;
  pick?: (at: number) => void;
  /** An entry to mark. */
  mark?: number | null;
}

const LEFT = 52;
const RIGHT = 8;
const ABOVE = 8;
const BELOW = 32;
const DECADES = 5;

interface Scale {
  low: number;
  high: number;
  /** 0 at the bottom, 1 at the top. */
  of: (value: number) => number;
  ticks: number[];
}

function round(x: number): number {
  const power = 10 ** Math.floor(Math.log10(x));
  return ([1, 2, 2.5, 5, 10].find((step) => step * power >= x * 0.999) ?? 10) * power;
}

export function scaleOf(values: ArrayLike<number>, log: boolean): Scale {
  let [low, high] = [0, 0];
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number;
    if (Number.isFinite(value)) [low, high] = [Math.min(low, value), Math.max(high, value)];
  }
  if (high === low) high = low + 1;
  if (log) {
    const decades = (value: number) => (value > 0 ? Math.max(0, 1 + Math.log10(value / high) / DECADES) : 0);
    const top = Math.floor(Math.log10(high));
    const ticks = [0, 1, 2, 3, 4].map((down) => 10 ** (top - down)).filter((tick) => decades(tick) > 0);
    return { low: 0, high, of: decades, ticks };
  }
  const step = round((high - low) / 3);
  const ticks: number[] = [];
  for (let tick = Math.ceil(low / step - 1e-6) * step; tick <= high + step * 1e-6; tick += step) ticks.push(tick);
  return { low, high, of: (value) => (value - low) / (high - low), ticks };
}

/** Smallest and largest value under each of `pixels` columns. */
export function envelope(values: ArrayLike<number>, pixels: number): { low: Float32Array; high: Float32Array } {
  const columns = Math.max(1, Math.min(pixels, values.length));
  const [low, high] = [new Float32Array(columns), new Float32Array(columns)];
  for (let column = 0; column < columns; column++) {
    const from = Math.floor((column * values.length) / columns);
    const to = Math.max(from + 1, Math.floor(((column + 1) * values.length) / columns));
    let [least, most] = [Infinity, -Infinity];
    for (let i = from; i < to; i++) [least, most] = [Math.min(least, values[i] as number), Math.max(most, values[i] as number)];
    [low[column], high[column]] = [least, most];
  }
  return { low, high };
}

const tickName = (x: number): string => (Math.abs(x) >= 1e4 ? `${x / 1000}k` : short(x));

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

  draw(): void {
    const { series } = this;
    if (!series || series.values.length === 0) return;
    const width = Math.max(160, this.plot.clientWidth || 340);
    const scale = scaleOf(series.values, series.log ?? false);
    const plotHeight = this.height - ABOVE - BELOW;
    const y = (value: number) => ABOVE + plotHeight * (1 - Math.min(1, Math.max(0, scale.of(value))));
    const parts: SVGElement[] = [];
    for (const tick of scale.ticks) {
      parts.push(svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(tick), y2: y(tick) }));
      parts.push(svg("text", { x: LEFT - 5, y: y(tick) + 4, "text-anchor": "end" }, tickName(tick)));
    }
    const count = series.values.length;
    const step = (width - LEFT - RIGHT) / count;
    const x = (at: number) => LEFT + step * (series.backwards ? count - 1 - at : at);
    const zero = y(Math.max(0, scale.low));
    if (series.bars && step >= 2) {
      for (let at = 0; at < count; at++) {
        const top = y(series.values[at] as number);
        parts.push(svg("rect", { x: x(at) + step * 0.1, width: Math.max(1, step * 0.8), y: Math.min(top, zero), height: Math.max(0.5, Math.abs(zero - top)), fill: series.colour }));
      }
    } else parts.push(this.band(series, width, y));
    parts.push(...this.ticks(series, x, step, width));
    parts.push(svg("text", { class: "what", x: LEFT + (width - LEFT - RIGHT) / 2, y: this.height - 3, "text-anchor": "middle" }, series.across));
    if (series.mark !== null && series.mark !== undefined) {
      const at = x(series.mark) + step / 2;
      parts.push(svg("line", { class: "mark", x1: at, x2: at, y1: ABOVE, y2: this.height - BELOW }));
    }
    this.plot.setAttribute("viewBox", `0 0 ${width} ${this.height}`);
    this.plot.replaceChildren(...parts, this.cursor);
    this.leave();
  }

  private band(series: Series, width: number, y: (value: number) => number): SVGElement {
    const bars = series.bars ?? false;
    const values = series.backwards ? Array.from(series.values).reverse() : series.values;
    const { low, high } = envelope(values, width - LEFT - RIGHT);
    const step = (width - LEFT - RIGHT) / low.length;
    const middle = (column: number) => LEFT + (column + 0.5) * step;
    const word = (column: number, value: number) => `${middle(column).toFixed(1)},${y(value).toFixed(1)}`;
    // What is a sum or a share stands on its zero; a curve has none.
    const above = Array.from(high, (value, column) => word(column, bars ? Math.max(0, value) : value));
    const below = Array.from(low, (value, column) => word(column, bars ? Math.min(0, value) : value)).reverse();
    return svg("path", { d: `M${[...above, ...below].join("L")}Z`, fill: series.colour, stroke: series.colour, "stroke-width": 1.2, "stroke-linejoin": "round" });
  }

  private ticks(series: Series, x: (at: number) => number, step: number, width: number): SVGElement[] {
    const count = series.values.length;
    const every = Math.max(1, round((count / (width - LEFT - RIGHT)) * 60));
    const parts: SVGElement[] = [];
    const last = series.first + count - 1;
    for (let place = Math.ceil(series.first / every) * every; place <= last; place += every) {
      const at = x(place - series.first) + step / 2;
      parts.push(svg("line", { class: "grid", x1: at, x2: at, y1: this.height - BELOW, y2: this.height - BELOW + 3 }));
      parts.push(svg("text", { x: at, y: this.height - BELOW + 14, "text-anchor": "middle" }, tickName(place)));
    }
    return parts;
  }

  private at(event: MouseEvent): number | null {
    const { series } = this;
    if (!series) return null;
    const frame = this.plot.getBoundingClientRect();
    const part = (event.clientX - frame.left - LEFT) / (frame.width - LEFT - RIGHT);
    if (part < 0 || part >= 1) return null;
    const at = Math.floor(part * series.values.length);
    return series.backwards ? series.values.length - 1 - at : at;
  }

  private point(event: MouseEvent): void {
    const at = this.at(event);
    if (at === null || !this.series) return this.leave();
    const x = event.clientX - this.plot.getBoundingClientRect().left;
    for (const [name, value] of Object.entries({ x1: x, x2: x, y1: ABOVE, y2: this.height - BELOW })) this.cursor.setAttribute(name, String(value));
    this.out.textContent = this.series.say(at, this.series.values[at] as number);
  }

  /** Back to what is largest. */
  private leave(): void {
    this.cursor.setAttribute("y2", String(ABOVE));
    this.cursor.setAttribute("y1", String(ABOVE));
    const { series } = this;
    if (!series) return;
    let most = 0;
    for (let i = 1; i < series.values.length; i++) if (Math.abs(series.values[i] as number) > Math.abs(series.values[most] as number)) most = i;
    this.out.textContent = `Most: ${series.say(most, series.values[most] as number)}`;
  }
}
