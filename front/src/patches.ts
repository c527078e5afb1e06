// The patches of an image, in their places; patches that stand before the image (a class token) come first, by name.

import { css, inkOn } from "./colour";
import { make } from "./dom";
import type { Axis } from "./protocol";
import { LEVELS, shade } from "./shades";
import { stepAlong } from "./strip";
import type { Hands, Marks, Shading, Strip } from "./strip";

const EXTRA = 26;
/** How much of the image a shade leaves: of none all but a little, of the strongest a little. */
const VEIL = { least: 0.35, most: 0.85 };
/** Levels that are not worth a dot. */
const FAINT = 3;

export class Patches implements Strip {
  private readonly axis: Axis;
  private readonly hands: Hands;
  private readonly canvas: HTMLCanvasElement;
  private readonly host: HTMLElement;
  private readonly before: number;
  private readonly down: number;
  private readonly across: number;
  private readonly watcher: ResizeObserver;
  /** What the patches were cut from, once it is there. */
  private image: HTMLImageElement | null = null;
  private shading: Shading = { to: null, from: null, dark: false };
  private marks: Marks = { query: null, key: null };
  private here: number | null = null;
  private frame = 0;

  constructor(host: HTMLElement, axis: Axis, name: string, hands: Hands) {
    this.host = host;
    this.axis = axis;
    this.hands = hands;
    this.before = axis.before ?? 0;
    this.across = axis.width ?? 1;
    this.down = axis.height ?? 1;
    this.canvas = make("canvas", { tabindex: 0, role: "application", "aria-label": `${name}; arrow keys move`, "data-grid": `${this.down}x${this.across}` });
    if (axis.image) this.load(axis.image);
    host.classList.add("patches");
    host.append(this.canvas);
    this.listen();
    this.watcher = new ResizeObserver(() => this.soon());
    this.watcher.observe(host);
  }

  destroy(): void {
    this.watcher.disconnect();
    cancelAnimationFrame(this.frame);
    this.host.replaceChildren();
  }

  private load(from: string): void {
    const image = make("img", { alt: "" });
    image.addEventListener("load", () => {
      this.image = image;
      this.host.toggleAttribute("data-image", true);
      this.soon();
    });
    image.src = from;
  }

  shade(shading: Shading): void {
    this.shading = shading;
    this.soon();
  }

  mark(marks: Marks): void {
    this.marks = marks;
    this.here = marks.query ?? marks.key ?? this.here;
    this.soon();
  }

  reveal(): void {
    // All of it is in sight.
  }

  private soon(): void {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.draw());
  }

  private size(): { cell: number; top: number } {
    const top = this.before > 0 ? EXTRA + 6 : 0;
    const [w, h] = [this.host.clientWidth || 240, (this.host.clientHeight || 240) - top];
    return { cell: Math.max(4, Math.floor(Math.min(w / this.across, h / this.down, 40))), top };
  }

  private box(at: number): [number, number, number, number] {
    const { cell, top } = this.size();
    if (at < this.before) return [at * (2 * EXTRA + 4), 0, 2 * EXTRA, EXTRA];
    const n = at - this.before;
    return [(n % this.across) * cell, top + Math.floor(n / this.across) * cell, cell, cell];
  }

  private at(event: PointerEvent): number | null {
    const frame = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
    const { cell, top } = this.size();
    if (y < top) {
      const extra = Math.floor(x / (2 * EXTRA + 4));
      return extra < this.before ? extra : null;
    }
    const [r, c] = [Math.floor((y - top) / cell), Math.floor(x / cell)];
    return r >= 0 && r < this.down && c >= 0 && c < this.across ? this.before + r * this.across + c : null;
  }

  private listen(): void {
    this.canvas.addEventListener("pointermove", (event) => this.hands.over(this.at(event)));
    this.canvas.addEventListener("pointerleave", () => this.hands.over(null));
    this.canvas.addEventListener("click", (event) => {
      const patch = this.at(event as PointerEvent);
      if (patch === null) return;
      this.here = patch;
      this.hands.pick(patch, true);
    });
    this.canvas.addEventListener("keydown", (event) => {
      if (event.key === "Escape") return this.hands.free();
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      const next = stepAlong(event.key, this.here, this.axis.labels.length, this.across, this.before);
      if (next === null) return;
      event.preventDefault();
      this.here = next;
      this.hands.pick(next, true);
    });
  }

  private draw(): void {
    const pen = this.canvas.getContext("2d");
    if (!pen) return;
    const { cell, top } = this.size();
    const dense = window.devicePixelRatio || 1;
    const [width, height] = [Math.max(this.across * cell, this.before * (2 * EXTRA + 4)) + 1, top + this.down * cell + 1];
    this.canvas.width = Math.round(width * dense);
    this.canvas.height = Math.round(height * dense);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    pen.scale(dense, dense);
    const style = getComputedStyle(this.host);
    pen.font = `11px ${style.fontFamily}`;
    const line = style.getPropertyValue("--line") || "gray";
    if (this.image) pen.drawImage(this.image, 0, top, this.across * cell, this.down * cell);
    for (let at = 0; at < this.axis.labels.length; at++) this.one(pen, at, line);
    this.outline(pen, this.marks.key, style.getPropertyValue("--warm") || "#b85c00", 2);
    this.outline(pen, this.marks.query, style.getPropertyValue("--ink") || "#000", 2.5);
  }

  private one(pen: CanvasRenderingContext2D, at: number, line: string): void {
    const [x, y, w, h] = this.box(at);
    const { to, from, dark } = this.shading;
    const first = to ?? from;
    const ground = shade(dark, to || !from ? "to" : "from", first?.[at] ?? 0);
    pen.fillStyle = css(ground);
    const level = Math.min(1, (first?.[at] ?? 0) / LEVELS);
    pen.globalAlpha = this.image && at >= this.before ? VEIL.least + (VEIL.most - VEIL.least) * level : 1;
    pen.fillRect(x, y, w, h);
    pen.globalAlpha = 1;
    pen.strokeStyle = line;
    pen.lineWidth = 0.5;
    pen.strokeRect(x + 0.5, y + 0.5, w, h);
    const other = to && from ? (from[at] ?? 0) : 0;
    if (other > FAINT) this.other(pen, at, other);
    if (at >= this.before) return;
    pen.fillStyle = inkOn(ground);
    pen.fillText(this.axis.labels[at] ?? "", x + 5, y + 16, w - 8);
  }

  /** The other way of looking, where both are shown: a dot in a patch, a bar below a name. */
  private other(pen: CanvasRenderingContext2D, at: number, level: number): void {
    const [x, y, w, h] = this.box(at);
    pen.fillStyle = css(shade(this.shading.dark, "from", Math.max(14, level)));
    if (at < this.before) return pen.fillRect(x + 2, y + h - 4, ((w - 4) * level) / LEVELS, 3);
    pen.beginPath();
    pen.arc(x + w / 2, y + h / 2, Math.max(1, (Math.min(w, h) / 2.6) * Math.sqrt(level / LEVELS)), 0, 2 * Math.PI);
    pen.fill();
  }

  private outline(pen: CanvasRenderingContext2D, at: number | null, colour: string, width: number): void {
    if (at === null) return;
    const [x, y, w, h] = this.box(at);
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.strokeRect(x + 0.5, y + 0.5, w, h);
  }
}
