// One pattern on the screen: its tiles, axes, crosshair and readout, and what pointer and keys do to it.

import { layOut, trimmed } from "./axes";
import type { Margins, Measure } from "./axes";
import { Caveat } from "./caveat";
import { Cells, piecesOf, reading } from "./cells";
import type { Reading } from "./cells";
import { commandOf } from "./commands";
import type { Command } from "./commands";
import { composed, levelOf, wishesOf } from "./compose";
import { measurer, paintCross, paintFigure, paintFocus, sizeOf } from "./figure";
import type { Figure } from "./figure";
import { pngOf, svgOf } from "./picture";
import type { Layer, Scene, Shown } from "./protocol";
import { axesIn, hint, sayReading } from "./readout";
import type { Said } from "./readout";
import { buildStage, placeBox, say } from "./stage";
import type { Stage } from "./stage";
import { shown as shownIn } from "./state";
import type { State, Store } from "./state";
import type { Tiles } from "./tiles";
import { around, atOf, cellAt, held, levelFor, tilesIn, turnOf, viewOf, zoomed } from "./view";
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
    this.dom = buildStage(host);
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
      pointed: (at) => this.point(at),
      clicked: (at) => this.select(this.cellAt(at)),
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
    return { ...this.figure, margins: trimmed(view, margins) };
  }

  private listen(): void {
    const { plot, tools } = this.dom;
    const { signal } = this.ended;
    const on = (node: EventTarget, type: string, then: (event: Event) => void) =>
      node.addEventListener(type, then, { signal });
    on(tools.in, "click", () => this.obey({ name: "zoom", by: 2 }));
    on(tools.out, "click", () => this.obey({ name: "zoom", by: 0.5 }));
    on(tools.whole, "click", () => this.obey({ name: "whole" }));
    on(tools.box, "click", () => this.setBoxing(!this.boxing));
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
    if (state.at !== before.at && state.at !== this.told && this.laid) {
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

  /** Moves the view; `tell` puts the new place into the store. */
  private go(turn: Turn, tell = true): void {
    if (!this.laid) return;
    this.turn = held(this.laid.fit, turn);
    this.zoom.set(this.laid.fit, this.turn);
    this.moved ||= tell;
    this.redraw();
  }

  private point(at: [number, number] | null): void {
    this.dom.output.setAttribute("aria-live", "off");
    this.cross = at && this.cellAt(at);
    this.paint();
  }

  private cellAt([x, y]: [number, number]): Cell | null {
    return this.figure && cellAt(this.figure.view, x, y);
  }

  private select(cell: Cell | null): void {
    if (cell) this.store.set({ query: cell[0], key: cell[1] });
  }

  private setBoxing(boxing: boolean): void {
    this.boxing = boxing;
    this.box = null;
    this.dom.tools.box.setAttribute("aria-pressed", String(boxing));
    this.paint();
  }

  private drag(from: [number, number], to: [number, number] | null, done: boolean): void {
    const view = this.figure?.view;
    if (!view) return;
    const inside = ([x, y]: [number, number]): Cell => [
      Math.min(view.T - 1, Math.max(0, Math.floor((y - view.y) / view.ky))),
      Math.min(view.S - 1, Math.max(0, Math.floor((x - view.x) / view.kx))),
    ];
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
    if (this.box) this.box = { ...this.box, to: this.cross };
    this.dom.output.setAttribute("aria-live", "polite");
    this.keepInSight(view, this.cross);
    this.paint();
  }

  private keepInSight(view: View, [i, j]: Cell): void {
    const lack = (from: number, size: number, room: number) =>
      from < 0 ? -from : from + size > room ? Math.max(room - from - size, -from) : 0;
    const x = lack(view.x + j * view.kx, view.kx, view.width);
    const y = lack(view.y + i * view.ky, view.ky, view.height);
    if (x || y) this.go({ k: this.turn.k, x: this.turn.x + x, y: this.turn.y + y });
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

  private giveUp(): boolean {
    if (!this.boxing && !this.box && !this.cross) return false;
    this.cross = null;
    this.setBoxing(false);
    return true;
  }

  private draw(): void {
    const state = this.store.get();
    const place = this.place(state);
    if (!place || !this.scene.layers[place[0]]) return this.blank();
    const ratio = window.devicePixelRatio || 1;
    const shown = shownIn(state, place);
    const layer = this.scene.layers[shown.layer]!;
    this.lay(state, shown, layer);
    if (this.moved) this.tell();
    const view = viewOf(this.laid!.fit, this.turn);
    const z = levelOf(this.tiles, shown, view, ratio);
    this.ask(shown, view, z);
    const pieces = piecesOf(this.tiles, shown, view, z);
    this.figure = composed(this.scene, state, shown, { view, z, margins: this.laid!.margins, pieces });
    const whole = this.put(this.figure, ratio);
    if (!whole) this.paint();
    this.host.dataset.ready = pieces.exact && whole ? "1" : "0";
    this.host.dataset.drawn = pieces.gaps ? "0" : "1";
    this.host.dataset.z = String(z);
    this.speak(shown, z);
    this.label(shown, layer);
    const wanted = levelFor(view, ratio);
    const lack = z > wanted ? this.tiles.lack(shown, wanted) : null;
    this.caveat.show(pieces, lack ?? (pieces.gaps || z > wanted ? this.tiles.refusal : null));
    placeBox(this.dom.box, view, this.box);
  }

  private blank(): void {
    this.figure = null;
    this.tiles.want(this, []);
    this.asked = "";
    this.pen?.clearRect(0, 0, this.dom.canvas.width, this.dom.canvas.height);
    this.host.dataset.ready = "0";
  }

  /** Lays the pattern out anew when it or the room for it has another size. */
  private lay(state: State, shown: Shown, layer: Layer): void {
    const name = `${shown.layer} ${shown.b} ${this.width} ${this.height || window.innerHeight}`;
    if (this.laid?.name === name) return;
    const [queries, keys] = axesIn(this.scene, layer, shown.b);
    const tall = this.height || Math.min(900, Math.max(300, 0.78 * window.innerHeight));
    const { fit: laid, margins } = layOut(layer, queries, keys, Math.max(NARROWEST, this.width), tall, this.measure);
    this.laid = { name, fit: laid, margins };
    const { stage, plot } = this.dom;
    stage.style.height = `${margins.top + laid.height + margins.bottom}px`;
    plot.style.left = `${margins.left}px`;
    plot.style.top = `${margins.top}px`;
    plot.style.width = `${laid.width}px`;
    plot.style.height = `${laid.height}px`;
    this.turn = turnOf(laid, state.at);
    this.zoom.set(laid, this.turn);
    this.dom.badge.style.left = `${margins.left + 8}px`;
    this.dom.badge.style.bottom = `${margins.bottom + 8}px`;
  }

  private tell(): void {
    this.moved = false;
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
    const { canvas } = this.dom;
    const { width, height } = sizeOf(figure);
    const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== w || canvas.height !== h) {
      canvas.width = w;
      canvas.height = h;
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    if (!this.pen) return true;
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.pen.clearRect(0, 0, width, height);
    const whole = paintFigure(this.pen, figure, this.tiles, this.cells, this.measure, ratio, COLOURING);
    const cell = this.readout() ?? (this.cross && cellOf(this.cross));
    if (cell) paintCross(this.pen, figure, cell, this.measure);
    if (this.dom.plot.matches(":focus-visible")) paintFocus(this.pen, figure);
    return whole;
  }

  /** Says in words what is under the crosshair. */
  private speak(shown: Shown, z: number): void {
    const cell = this.readout();
    const said: Said[] = cell ? sayReading(this.scene, shown, cell) : [{ kind: "words", text: hint(z, this.cross !== null) }];
    const name = said.map(({ text }) => text).join("");
    if (name === this.said) return;
    this.said = name;
    say(this.dom.output, said);
  }

  private label(shown: Shown, layer: Layer): void {
    const text = `Attention of layer ${layer.label}, head ${shown.head}: ${layer.T} queries by ${layer.S} keys`;
    if (this.dom.plot.getAttribute("aria-label") !== text) this.dom.plot.setAttribute("aria-label", text);
  }
}

function cellOf([i, j]: Cell): { i0: number; i1: number; j0: number; j1: number } {
  return { i0: i, i1: i + 1, j0: j, j1: j + 1 };
}
