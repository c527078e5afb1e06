// What a pointer does to a plot: wheel, pinch, drag and double click through d3-zoom, boxes, pointing and clicking.

import { select } from "d3-selection";
import { zoom, zoomIdentity } from "d3-zoom";
import type { D3ZoomEvent, ZoomTransform } from "d3-zoom";
import { deepest, held } from "./view";
import type { Fit, Turn } from "./view";

export interface Moves {
  /** The reader zoomed or panned. */
  turned(turn: Turn): void;
  /** The pointer is over the plot; null: it left. */
  pointed(event: PointerEvent | null): void;
  /** Returns what a click on a point does, unless it becomes a double click. */
  clicked(at: [number, number]): () => void;
  /** A box is drawn between two points; null: it was given up. */
  boxed(from: [number, number], to: [number, number] | null, done: boolean): void;
  /** Whether dragging draws a box, without shift too. */
  isBoxing(): boolean;
}

const HARDLY = 4;
/** Milliseconds that a click waits for a second one. */
const DOUBLE = 220;

export class Zoom {
  private readonly zoom = zoom<HTMLElement, unknown>();
  private readonly ended = new AbortController();
  private fit: Fit | null = null;
  /** A transform that was set from here is no news to the panel. */
  private quiet = false;
  private box: { from: [number, number]; pointer: number } | null = null;
  private boxedNow = false;
  private click: ReturnType<typeof setTimeout> | undefined;
  private whole = true;

  constructor(
    private readonly plot: HTMLElement,
    private readonly moves: Moves,
  ) {
    const still = typeof matchMedia === "function" && matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.zoom
      .duration(still ? 0 : 220)
      .filter((event: MouseEvent | TouchEvent) => event.type === "wheel" || this.isMine(event))
      .constrain((turn) => (this.fit ? transform(held(this.fit, turn)) : turn))
      .on("start", (event: D3ZoomEvent<HTMLElement, unknown>) => {
        if (event.sourceEvent?.type === "mousedown") plot.classList.add("held");
      })
      .on("end", () => plot.classList.remove("held"))
      .on("zoom", (event: D3ZoomEvent<HTMLElement, unknown>) => {
        if (this.quiet) return;
        const { k, x, y } = event.transform;
        this.mark(k);
        moves.turned({ k, x, y });
      });
    select(plot).call(this.zoom);
    this.listen();
  }

  /** Sets the size of the plot, the largest zoom and the current transform. */
  set(fit: Fit, turn: Turn): void {
    this.fit = fit;
    this.zoom.extent([
      [0, 0],
      [fit.width, fit.height],
    ]);
    this.zoom.scaleExtent([1, deepest(fit)]);
    this.quiet = true;
    this.zoom.transform(select(this.plot), transform(turn));
    this.quiet = false;
    this.mark(turn.k);
  }

  destroy(): void {
    this.ended.abort();
    clearTimeout(this.click);
    select(this.plot).on(".zoom", null);
    this.zoom.on("start", null).on("zoom", null).on("end", null);
  }

  /** One finger on the whole pattern scrolls the page: there is nothing to pan. */
  private isMine(event: MouseEvent | TouchEvent): boolean {
    if ("touches" in event && this.whole && event.touches.length < 2) return false;
    return !(event as MouseEvent).button && !event.shiftKey && !this.moves.isBoxing();
  }

  private mark(k: number): void {
    this.whole = k <= 1 + 1e-9;
    this.plot.classList.toggle("whole", this.whole);
  }

  private listen(): void {
    const { plot, moves } = this;
    const { signal } = this.ended;
    const on = <K extends keyof HTMLElementEventMap>(type: K, then: (event: HTMLElementEventMap[K]) => void) =>
      plot.addEventListener(type, then, { signal });
    const at = (event: MouseEvent): [number, number] => [event.offsetX, event.offsetY];
    on("pointermove", (event) => {
      if (this.box?.pointer === event.pointerId) moves.boxed(this.box.from, at(event), false);
      moves.pointed(event);
    });
    // A finger leaves when it is lifted; what it touched is still spoken of.
    on("pointerleave", (event) => event.pointerType !== "touch" && moves.pointed(null));
    on("pointerdown", (event) => {
      this.boxedNow = false;
      if (event.pointerType === "touch") moves.pointed(event);
      if (event.button || !(event.shiftKey || moves.isBoxing())) return;
      this.box = { from: at(event), pointer: event.pointerId };
      plot.setPointerCapture(event.pointerId);
      // Without this the browser would start to select text.
      event.preventDefault();
      plot.focus({ preventScroll: true });
    });
    on("pointerup", (event) => {
      if (!this.box) return;
      const { from } = this.box;
      const to = at(event);
      this.box = null;
      this.boxedNow = true;
      const hardly = Math.hypot(to[0] - from[0], to[1] - from[1]) < HARDLY;
      moves.boxed(from, hardly ? null : to, true);
    });
    on("pointercancel", () => {
      if (this.box) moves.boxed(this.box.from, null, true);
      this.box = null;
    });
    on("click", (event) => {
      clearTimeout(this.click);
      if (!this.boxedNow && event.detail < 2) this.click = setTimeout(moves.clicked(at(event)), DOUBLE);
    });
    on("dblclick", () => clearTimeout(this.click));
  }
}

function transform({ k, x, y }: Turn): ZoomTransform {
  return zoomIdentity.translate(x, y).scale(k);
}
