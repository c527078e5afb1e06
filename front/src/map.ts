// One pattern on the screen: its tiles, axes, crosshair and readout, and what pointer and keys do to it.

import { layOut, trimmed } from "./axes";
import type { Margins, Measure } from "./axes";
import { Caveat, lackOf } from "./caveat";
import { Cells, piecesOf, reading } from "./cells";
import type { Reading } from "./cells";
import { sameShape, title } from "./choosing";
import { commandOf } from "./commands";
import type { Command } from "./commands";
import { composed, levelOf, mostShown, wishesOf } from "./compose";
import { paintCross, paintFocus } from "./cross";
import { blockOf } from "./edges";
import { measurer, paintFigure, sizeOf } from "./figure";
import type { Figure } from "./figure";
import { pngOf, svgOf } from "./picture";
import type { Layer, Scene, Shown } from "./protocol";
import { axesIn, hint, isTouched, sayReading } from "./readout";
import type { Said } from "./readout";
import { buildStage, clean, placeBox, placePlot, say } from "./stage";
import type { Stage } from "./stage";
import { shown as shownIn } from "./state";
import type { State, Store } from "./state";
import type { Tiles } from "./tiles";
import { around, atOf, cellAt, held, lackTo, levelFor, nearestCell, tilesIn, turnOf, viewOf, zoomed } from "./view";
import type { Fit, Turn, View } from "./view";
import { Zoom } from "./zoom";

/** Milliseconds of a frame that may go into colouring tiles. */
const COLOURING = 7;
const NARROWEST = 240;

/** A cell under the crosshair. */
type Cell = [number, number];

export class MapPanel {
  private readonly dom: Stage;
  private readonly pen: CanvasRenderingContext2D | null;
  private readonly measure: Measure;
  private readonly cells = new Cells();
  private readonly zoom: Zoom;
  private readonly ended = new AbortController();
  private readonly resized: ResizeObserver | null;
  private readonly unsubscribe: () => void;
  private frame = 0;
  private readonly caveat: Caveat;
  private width = NARROWEST;
  /** Height of the stage where the host decides it; 0 where the map does. */
  private height = 0;
  /** How the pattern is laid out, and the name of what it was laid out for. */
  private laid: { name: string; fit: Fit; margins: Margins } | null = null;
  private turn: Turn = { k: 1, x: 0, y: 0 };
  /** The place in the store that came from here. */
  private told: State["at"] = null;
  private moved = false;
  private cross: Cell | null = null;
  /** Where the pointer is, in the window and in the plot: what lies there changes when the view turns. */
  private pointer: { client: [number, number]; at: [number, number] } | null = null;
  private boxing = false;
  private box: { from: Cell; to: Cell } | null = null;
  private figure: Figure | null = null;
  private asked = "";
  private said = "";

  constructor(
    private readonly host: HTMLElement,
    private readonly scene: Scene,
    private readonly store: Store,
    private readonly tiles: Tiles,
    private readonly place: (state: State) => [number, number] | null,
  ) {
    this.dom = buildStage(host, {
      in: () => this.obey({ name: "zoom", by: 2 }),
      out: () => this.obey({ name: "zoom", by: 0.5 }),
      whole: () => this.obey({ name: "whole" }),
      box: () => this.setBoxing(!this.boxing),
    });
    this.caveat = new Caveat(this.dom.badge, () => this.paint());
    this.pen = this.dom.canvas.getContext("2d");
    this.measure = measurer(this.pen);
    host.dataset.ready = "0";
    this.zoom = new Zoom(this.dom.plot, {
      turned: (turn) => {
        this.turn = turn;
        this.moved = true;
        this.redraw();
      },
      pointed: (event) => this.point(event),
      clicked: (at) => {
        const cell = this.cellAt(at);
        return () => this.select(cell);
      },
      boxed: (from, to, done) => this.drag(from, to, done),
      isBoxing: () => this.boxing,
    });
    this.width = host.clientWidth || 640;
    this.resized = typeof ResizeObserver === "function" ? new ResizeObserver((seen) => this.resize(seen)) : null;
    this.resized?.observe(this.dom.stage);
    this.unsubscribe = store.subscribe((state, before) => this.follow(state, before));
    this.listen();
    this.paint();
  }

  /** Asks for a frame. */
  paint(): void {
    if (this.frame || this.ended.signal.aborted) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  destroy(): void {
    this.ended.abort();
    cancelAnimationFrame(this.frame);
    this.caveat.destroy();
    this.resized?.disconnect();
    this.unsubscribe();
    this.zoom.destroy();
    this.tiles.want(this, []);
    this.tiles.ranges.leave(this);
    this.host.replaceChildren();
  }

  /** The cells under the crosshair, queries [i0, i1) and keys [j0, j1), and their value; null where there is none. */
  readout(): Reading | null {
    if (!this.cross || !this.figure) return null;
    const { shown, view, z } = this.figure;
    return reading(this.tiles, shown, view, z, this.cross[0], this.cross[1]);
  }

  /** What the panel shows, at twice the size, with a title. */
  png(): Promise<Blob> {
    return pngOf(this.now(), this.tiles, this.scene, this.measure);
  }

  svg(): string {
    return svgOf(this.now(), this.tiles, this.scene, this.measure);
  }

  private now(): Figure {
    this.draw();
    if (!this.figure) throw new Error("This map shows no pattern.");
    const { view, margins } = this.figure;
    return { ...this.figure, margins: trimmed(view, margins, this.measure) };
  }

  private listen(): void {
    const { plot } = this.dom;
    const on = (node: EventTarget, type: string, then: (event: Event) => void) =>
      node.addEventListener(type, then, { signal: this.ended.signal });
    on(plot, "keydown", (event) => {
      const command = commandOf(event as KeyboardEvent);
      if (command && this.obey(command)) event.preventDefault();
    });
    for (const type of ["focus", "blur"]) on(plot, type, () => this.paint());
    if (typeof matchMedia !== "function") return;
    on(matchMedia("(prefers-color-scheme: dark)"), "change", () => this.paint());
  }

  private resize(seen: ResizeObserverEntry[]): void {
    const box = seen[seen.length - 1]!.contentRect;
    const width = Math.floor(box.width);
    // A host that says so gives the stage a height of its own, which the pattern keeps within.
    const height = this.host.dataset.fill === undefined ? 0 : Math.floor(box.height);
    if (!width || (width === this.width && height === this.height)) return;
    this.width = width;
    this.height = height;
    this.redraw();
  }

  private follow(state: State, before: State): void {
    if (state.at !== before.at && state.at !== this.told && this.laid && !this.isApart(state)) {
      this.told = state.at;
      this.go(turnOf(this.laid.fit, state.at), false);
    }
    this.redraw();
  }

  /** Asks for a frame that shows something else: until it is drawn, the map is not what it should be. */
  private redraw(): void {
    this.host.dataset.ready = "0";
    this.paint();
  }

  /** Whether this map is over other tokens than the first: where it looks is then its own, and it selects nothing. */
  private isApart(state: State): boolean {
    const place = this.place(state);
    return place !== null && !sameShape(this.scene, place, [state.layer, state.head]);
  }

  /** Moves the view; `tell` puts the new place into the store. */
  private go(turn: Turn, tell = true): void {
    if (!this.laid) return;
    this.turn = held(this.laid.fit, turn);
    this.zoom.set(this.laid.fit, this.turn);
    this.moved ||= tell;
    this.redraw();
  }

  private point(event: PointerEvent | null): void {
    this.dom.output.setAttribute("aria-live", "off");
    this.pointer = event && { client: [event.clientX, event.clientY], at: [event.offsetX, event.offsetY] };
    if (!event) this.cross = null;
    this.paint();
  }

  private cellAt([x, y]: [number, number]): Cell | null {
    return this.figure && cellAt(this.figure.view, x, y);
  }

  /** Selects the middle of what is drawn at a cell: of the cell itself, or of the block that it lies in. */
  private select(cell: Cell | null): void {
    if (!cell || !this.figure || this.isApart(this.store.get())) return;
    const { shown, view, z } = this.figure;
    const block = reading(this.tiles, shown, view, z, cell[0], cell[1]);
    const middle = (from: number, to: number) => Math.floor((from + to - 1) / 2);
    if (block) this.store.set({ query: middle(block.i0, block.i1), key: middle(block.j0, block.j1) });
    else this.store.set({ query: cell[0], key: cell[1] });
  }

  private setBoxing(boxing: boolean): void {
    this.boxing = boxing;
    this.box = null;
    this.dom.boxing.setAttribute("aria-pressed", String(boxing));
    this.dom.plot.classList.toggle("boxing", boxing);
    this.paint();
  }

  private drag(from: [number, number], to: [number, number] | null, done: boolean): void {
    const view = this.figure?.view;
    if (!view) return;
    const inside = (at: [number, number]) => nearestCell(view, ...at);
    this.box = to && { from: inside(from), to: inside(to) };
    if (done && this.box) this.zoomToBox();
    else if (done) this.setBoxing(false);
    this.paint();
  }

  private zoomToBox(): void {
    if (!this.box || !this.laid) return;
    const { from, to } = this.box;
    const ends = (axis: 0 | 1): [number, number] => [Math.min(from[axis], to[axis]), Math.max(from[axis], to[axis]) + 1];
    this.go(around(this.laid.fit, ends(0), ends(1)));
    this.setBoxing(false);
  }

  /** Does what a key or a button asks for; false where there was nothing to do. */
  private obey(command: Command): boolean {
    if (!this.figure || !this.laid) return false;
    const { view } = this.figure;
    if (command.name === "pan") {
      const { k, x, y } = this.turn;
      const by = (room: number) => Math.max(40, room / 8);
      this.go({ k, x: x - command.right * by(view.width), y: y - command.down * by(view.height) });
    } else if (command.name === "zoom") this.go(zoomed(this.laid.fit, this.turn, command.by, this.cross));
    else if (command.name === "whole") this.go({ k: 1, x: 0, y: 0 });
    else if (command.name === "step") this.step(command.right, command.down);
    else if (command.name === "enter") this.enter();
    else if (command.name === "box") this.startBox();
    else return this.giveUp();
    return true;
  }

  /** Moves the crosshair by drawn cells, and the view with it where it would be lost from sight. */
  private step(right: number, down: number): void {
    if (!this.figure) return;
    const { view, z } = this.figure;
    const { query, key } = this.store.get();
    const from = this.cross ?? [query ?? Math.floor(view.T / 2), key ?? Math.floor(view.S / 2)];
    const pool = 2 ** z;
    const inside = (at: number, n: number) => Math.min(n - 1, Math.max(0, at));
    this.cross = this.cross
      ? [inside(from[0] + down * pool, view.T), inside(from[1] + right * pool, view.S)]
      : [inside(from[0], view.T), inside(from[1], view.S)];
    this.pointer = null;
    if (this.box) this.box = { ...this.box, to: this.cross };
    this.dom.output.setAttribute("aria-live", "polite");
    const [x, y] = lackTo(view, this.cross);
    if (x || y) this.go({ k: this.turn.k, x: this.turn.x + x, y: this.turn.y + y });
    this.paint();
  }

  private enter(): void {
    if (this.box) this.zoomToBox();
    else this.select(this.cross);
  }

  private startBox(): void {
    if (this.box) return this.zoomToBox();
    this.setBoxing(true);
    if (!this.cross) this.step(0, 0);
    if (this.cross) this.box = { from: this.cross, to: this.cross };
    this.paint();
  }

  /** Gives up what was begun or selected last. */
  private giveUp(): boolean {
    const { query, key } = this.store.get();
    if (this.boxing || this.box) this.setBoxing(false);
    else if (key !== null) this.store.set({ key: null });
    else if (query !== null) this.store.set({ query: null });
    else if (this.cross && !this.pointer) this.cross = null;
    else return false;
    this.paint();
    return true;
  }

  private draw(): void {
    const state = this.store.get();
    const place = this.place(state);
    if (!place || !this.scene.layers[place[0]]) return this.blank();
    const ratio = window.devicePixelRatio || 1;
    const shown = shownIn(state, place);
    const layer = this.scene.layers[shown.layer]!;
    const margins = this.lay(state, shown, layer);
    if (this.moved) this.tell();
    const view = viewOf(this.laid!.fit, this.turn);
    const z = levelOf(this.tiles, shown, view, ratio);
    this.ask(shown, view, z);
    const pieces = piecesOf(this.tiles, shown, view, z);
    const most = mostShown(pieces, view, z);
    const name = JSON.stringify(shown);
    const own = this.tiles.ranges.of(this, { name, most, exact: pieces.exact, again: () => this.paint() });
    this.figure = composed(this.scene, state, shown, { view, z, margins, pieces, most, range: state.range ?? own });
    if (this.pointer) this.cross = cellAt(view, ...this.pointer.at);
    const whole = this.put(this.figure, ratio);
    if (!whole) this.paint();
    this.host.dataset.ready = pieces.exact && whole ? "1" : "0";
    this.host.dataset.drawn = pieces.gaps ? "0" : "1";
    this.host.dataset.z = String(z);
    this.speak(shown, z, view.kx * 2 ** z * ratio);
    const text = `Attention of ${title(this.scene, place)}: ${layer.T} queries by ${layer.S} keys`;
    if (this.dom.plot.getAttribute("aria-label") !== text) this.dom.plot.setAttribute("aria-label", text);
    this.dom.stage.classList.toggle("lost", this.tiles.lost && !pieces.exact);
    const lack = lackOf(this.tiles, this, shown, pieces, z, levelFor(view, ratio));
    this.caveat.show(pieces, lack, this.tiles.isComing(this));
    placeBox(this.dom.box, view, this.box);
  }

  private blank(): void {
    this.figure = null;
    this.tiles.want(this, []);
    this.tiles.ranges.leave(this);
    this.asked = "";
    this.pen?.clearRect(0, 0, this.dom.canvas.width, this.dom.canvas.height);
    this.host.dataset.ready = "0";
  }

  /** Lays the pattern out anew when it or the room for it has another size. */
  private lay(state: State, shown: Shown, layer: Layer): Margins {
    const name = `${shown.layer} ${shown.b} ${this.width} ${this.height || window.innerHeight}`;
    if (this.laid?.name === name) return this.laid.margins;
    const [queries, keys] = axesIn(this.scene, layer, shown.b);
    const tall = this.height || Math.min(900, Math.max(300, 0.78 * window.innerHeight));
    const { fit, margins } = layOut(layer, queries, keys, Math.max(NARROWEST, this.width), tall, this.measure);
    this.laid = { name, fit, margins };
    placePlot(this.dom, fit, margins);
    this.turn = turnOf(fit, this.isApart(state) ? null : state.at);
    this.zoom.set(fit, this.turn);
    if (this.pointer) {
      const { left, top } = this.dom.plot.getBoundingClientRect();
      const [x, y] = this.pointer.client;
      this.pointer.at = [x - left, y - top];
    }
    return margins;
  }

  private tell(): void {
    this.moved = false;
    if (this.isApart(this.store.get())) return;
    this.told = atOf(this.laid!.fit, this.turn);
    this.store.set({ at: this.told });
  }

  private ask(shown: Shown, view: View, z: number): void {
    const span = tilesIn(view, z);
    const name = JSON.stringify([shown, span]);
    if (name === this.asked) return;
    this.asked = name;
    this.tiles.want(this, wishesOf(this.tiles, shown, view, span));
  }

  /** Puts a figure onto the canvas; returns whether every tile had its colours. */
  private put(figure: Figure, ratio: number): boolean {
    const { width, height } = sizeOf(figure);
    clean(this.dom.canvas, this.pen, width, height, ratio);
    if (!this.pen) return true;
    const whole = paintFigure(this.pen, figure, this.tiles, this.cells, this.measure, ratio, COLOURING);
    const cell = this.readout() ?? (this.cross && blockOf(this.cross));
    if (cell) paintCross(this.pen, figure, cell, this.measure);
    if (this.dom.plot.matches(":focus-visible")) paintFocus(this.pen, figure);
    return whole;
  }

  /** Says in words what is under the crosshair; `cell` is how many device pixels a drawn cell has. */
  private speak(shown: Shown, z: number, cell: number): void {
    const read = this.readout();
    const words = this.cross ? "not loaded" : hint(z, cell, isTouched());
    const said: Said[] = read ? sayReading(this.scene, shown, read) : [{ kind: "words", text: words }];
    const name = said.map(({ text }) => text).join("");
    if (name === this.said) return;
    this.said = name;
    say(this.dom.output, said);
  }
}
