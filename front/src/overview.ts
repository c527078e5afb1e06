// All heads at a glance: one canvas of small maps, and over it one focusable element a head.

import { arrange, every, find, passes, say, stepFrom } from "./arrange";
import type { Arrangement, Cell } from "./arrange";
import { orders } from "./address";
import { choose, kindOf, placeName, placeOf, scoresOf, toggle } from "./choosing";
import type { Place } from "./choosing";
import { letterOf, rgb } from "./letter";
import { css, inkOn, isDark } from "./colour";
import { button, later, make } from "./dom";
import type { Scene, Transport } from "./protocol";
import type { State, Store } from "./state";
import { Thumbs } from "./thumbs";

const POLL = 400;
const MAP = 34;
const LARGE = 76;
/** Below this side a letter on a ground would hide the map. */
const SMALL = 24;
/** Of the scrolled box, at both sides. */
const PADDING = 6;

export class Overview {
  private readonly scene: Scene;
  private readonly store: Store;
  private readonly transport: Transport;
  private readonly notice: (says: string) => void;
  private readonly thumbs: Thumbs;
  /** Heads that a saved file holds in full. */
  private readonly full: Set<string>;
  private readonly canvas = make("canvas", { "aria-hidden": "true" });
  private readonly grid = make("div", { class: "heads", role: "grid", "aria-label": "Heads", "aria-multiselectable": "true" });
  private readonly scroller = make("div", { class: "scroll heads-scroll" });
  private readonly status = make("p", { class: "hint", role: "status" });
  private readonly chips = new Map<string, HTMLButtonElement>();
  private readonly sort = make("select", { "aria-label": "Order of the heads" });
  private readonly nodes = new Map<string, HTMLElement>();
  private readonly unsubscribe: () => void;
  private readonly watcher: ResizeObserver;
  private readonly again = later(POLL, () => void this.load());
  private arrangement: Arrangement;
  /** The head that the tab key leads to. */
  private roving: string;
  private loading = new AbortController();
  private since = 0;
  private frame = 0;
  private large = false;

  constructor(host: HTMLElement, scene: Scene, store: Store, transport: Transport, notice: (says: string) => void) {
    this.scene = scene;
    this.store = store;
    this.transport = transport;
    this.notice = notice;
    this.thumbs = new Thumbs(scene);
    this.full = new Set(scene.saved?.heads);
    const state = store.get();
    this.roving = placeName([state.layer, state.head]);
    this.arrangement = arrange(scene, state, 320, MAP);
    this.grid.append(this.canvas);
    this.scroller.append(this.grid);
    host.append(this.head(), this.filter(), this.scroller, this.foot());
    this.listen();
    this.layOut();
    this.paintControls();
    this.watcher = new ResizeObserver(() => this.layOut());
    this.watcher.observe(this.scroller);
    this.unsubscribe = store.subscribe((now, before) => this.changed(now, before));
    void this.load();
  }

  destroy(): void {
    this.loading.abort();
    this.again.never();
    this.unsubscribe();
    this.watcher.disconnect();
    cancelAnimationFrame(this.frame);
  }

  /** The page's colours changed, or the state says so. */
  paint(): void {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.draw());
  }

  private head(): HTMLElement {
    const names = orders(this.scene);
    for (const name of names) {
      const kind = this.scene.kinds.find((one) => one.name === name);
      this.sort.append(make("option", { value: name }, name === "place" ? "by layer" : (kind?.title ?? name.replaceAll("_", " ")).toLowerCase()));
    }
    this.sort.addEventListener("change", () => this.store.set({ sort: this.sort.value }));
    const large = button("⤢", () => {
      this.large = !this.large;
      large.setAttribute("aria-pressed", String(this.large));
      large.closest(".app")?.classList.toggle("large", this.large);
      this.layOut();
    }, { class: "icon", "aria-label": "Large maps", title: "Large maps", "aria-pressed": "false" });
    const order = names.length > 1 ? make("label", { class: "pick" }, make("span", {}, "order"), this.sort) : null;
    return make("div", { class: "panel-head" }, make("h2", {}, "Heads"), order, large);
  }

  private filter(): HTMLElement {
    const row = make("div", { class: "chips", role: "group", "aria-label": "Kinds of heads" });
    for (const kind of this.scene.kinds) {
      const count = (this.scene.heads ?? []).filter((head) => head.kind === kind.name).length;
      if (count === 0) continue;
      const chip = button("", () => {
        const { kinds } = this.store.get();
        this.store.set({ kinds: kinds.includes(kind.name) ? kinds.filter((name) => name !== kind.name) : [...kinds, kind.name] });
      }, { class: "chip", "data-kind": kind.name, title: kind.means });
      chip.append(letterOf(kind), make("span", {}, kind.title), make("i", {}, String(count)));
      this.chips.set(kind.name, chip);
      row.append(chip);
    }
    row.hidden = this.chips.size === 0;
    return row;
  }

  private foot(): HTMLElement {
    const keys = (key: string, does: string) => make("span", {}, make("kbd", {}, key), ` ${does}`);
    const hint = make("p", { class: "hint keys" }, keys("Enter", "show"), keys("⇧ Enter", "beside"), keys("Space", "mean"));
    return make("div", { class: "foot" }, this.status, hint);
  }

  private listen(): void {
    const placeAt = (event: Event): Place | null => {
      const name = (event.target as Element | null)?.closest?.<HTMLElement>("[data-head]")?.dataset.head;
      return name === undefined ? null : placeOf(this.scene, name);
    };
    this.grid.addEventListener("click", (event) => {
      const place = placeAt(event);
      if (!place) return;
      this.rove(placeName(place));
      if (event.shiftKey) this.store.set({ beside: place });
      else if (event.ctrlKey || event.metaKey) this.mean(place);
      else this.show(place);
    });
    this.grid.addEventListener("keydown", (event) => {
      const place = placeAt(event);
      if (!place || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Enter") event.shiftKey ? this.store.set({ beside: place }) : this.show(place);
      else if (event.key === " ") this.mean(place);
      else {
        const from = find(this.arrangement, placeName(place));
        const to = from && stepFrom(this.arrangement, from, event.key);
        if (!to) return;
        this.rove(placeName(to.place));
        this.nodes.get(this.roving)?.focus();
      }
      event.preventDefault();
    });
  }

  private show(place: Place): void {
    this.store.set(choose(this.scene, this.store.get(), place));
  }

  private mean(place: Place): void {
    const change = toggle(this.scene, this.store.get(), place);
    if (change) this.store.set(change);
    else this.notice("Only heads over the same queries and keys have a mean; this one's differ from those of the head on the map.");
  }

  private rove(name: string): void {
    this.nodes.get(this.roving)?.setAttribute("tabindex", "-1");
    this.roving = name;
    this.nodes.get(name)?.setAttribute("tabindex", "0");
  }

  private changed(now: State, before: State): void {
    if (now.run !== before.run || now.minus !== before.minus || now.b !== before.b) {
      this.loading.abort();
      this.since = 0;
      this.thumbs.forget();
      void this.load();
    }
    if (now.sort !== before.sort || now.kinds !== before.kinds) this.layOut();
    if (now.layer !== before.layer || now.head !== before.head) this.rove(placeName([now.layer, now.head]));
    this.paintControls();
  }

  private async load(): Promise<void> {
    this.loading.abort();
    const { signal } = (this.loading = new AbortController());
    const { run, minus, b } = this.store.get();
    try {
      const asked = { run, ...(minus === null ? {} : { minus }), b, since: this.since };
      const { meta, data } = await this.transport.ask("overview", asked, signal);
      if (signal.aborted) return;
      this.since = meta.version;
      this.thumbs.put(meta, data);
      const known = meta.exact < meta.of ? `${meta.exact} of ${meta.of} maps exact, the others sampled` : `${meta.of} heads, all maps exact`;
      this.status.textContent = known + (minus === null ? "" : "; size of the difference");
      this.scroller.toggleAttribute("data-ready", true);
      this.paint();
      if (!meta.done) this.again.soon();
    } catch (error) {
      if (!signal.aborted) this.status.textContent = error instanceof Error ? error.message : String(error);
    }
  }

  /** Puts every head's element in its place; where the order stays, elements stay too. */
  private layOut(): void {
    const width = Math.max(200, (this.scroller.clientWidth || 320) - 2 * PADDING);
    const state = this.store.get();
    // Few heads have large maps: as large as all are in sight.
    const fits = state.sort === "place" ? Math.floor(this.scroller.clientHeight / (this.scene.layers.length + 1)) : 0;
    const next = arrange(this.scene, state, width, this.large ? LARGE : Math.min(LARGE, Math.max(MAP, fits)));
    this.arrangement = next;
    this.grid.style.width = `${next.width}px`;
    this.grid.style.height = `${next.height}px`;
    const rows: HTMLElement[] = [];
    if (!next.sorted) rows.push(this.numbers(next));
    for (let row = 0; row < next.rows; row++) rows.push(make("div", { role: "row" }));
    if (!next.sorted) {
      this.scene.layers.forEach((layer, at) => {
        const name = make("span", { role: "rowheader", class: "mark" }, layer.label, layer.kind === "cross" ? make("i", { title: "cross attention" }, "×") : null);
        name.title = `${layer.name}${layer.kind === "cross" ? ": cross attention" : ""}`;
        name.style.top = `${next.top + at * next.step[1]}px`;
        name.style.lineHeight = `${next.size}px`;
        rows[at + 1]?.append(name);
      });
    }
    this.nodes.clear();
    for (const cell of next.cells) rows[cell.row + (next.sorted ? 0 : 1)]?.append(this.cell(cell, next));
    const focused = this.grid.contains(this.grid.getRootNode() instanceof ShadowRoot ? (this.grid.getRootNode() as ShadowRoot).activeElement : null);
    this.grid.replaceChildren(this.canvas, ...rows);
    if (!this.nodes.has(this.roving)) this.roving = next.cells[0] ? placeName(next.cells[0].place) : "";
    this.rove(this.roving);
    if (focused) this.nodes.get(this.roving)?.focus();
    this.draw();
    this.paintControls();
  }

  private numbers(next: Arrangement): HTMLElement {
    const row = make("div", { role: "row", class: "numbers" });
    row.append(make("span", { role: "columnheader", class: "mark" }, make("i", {}, "layer")));
    for (let head = 0; head < next.columns; head++) {
      const node = make("span", { role: "columnheader", class: "mark" }, String(head));
      node.style.left = `${next.gutter + head * next.step[0]}px`;
      node.style.width = `${next.size}px`;
      row.append(node);
    }
    return row;
  }

  private cell(cell: Cell, next: Arrangement): HTMLElement {
    const name = placeName(cell.place);
    const label = say(this.scene, cell, this.store.get().sort) + (this.full.has(name) ? ", in full in this file" : "") + (cell.faint ? ", left out by the filter" : "");
    const node = make("div", { role: "gridcell", class: "head", tabindex: "-1", "data-head": name, "aria-label": label, title: label });
    node.toggleAttribute("data-faint", cell.faint);
    node.style.left = `${cell.x}px`;
    node.style.top = `${cell.y}px`;
    node.style.width = `${next.sorted ? next.step[0] - 2 : next.size}px`;
    node.style.height = `${next.sorted ? next.step[1] - 2 : next.size}px`;
    this.nodes.set(name, node);
    return node;
  }

  private paintControls(): void {
    const state = this.store.get();
    this.sort.value = state.sort;
    for (const [name, chip] of this.chips) chip.setAttribute("aria-pressed", String(state.kinds.includes(name)));
    const here = placeName([state.layer, state.head]);
    for (const [name, node] of this.nodes) {
      node.setAttribute("aria-selected", String(name === here || state.chosen.includes(name)));
      node.toggleAttribute("data-here", name === here);
      node.toggleAttribute("data-beside", state.beside !== null && name === placeName(state.beside));
      node.toggleAttribute("data-chosen", state.chosen.includes(name));
    }
    const left = every(this.scene).filter((place) => passes(this.scene, state, place)).length;
    this.grid.setAttribute("aria-label", state.kinds.length ? `Heads, ${left} of the kinds that are chosen` : "Heads");
  }

  private draw(): void {
    const pen = this.canvas.getContext("2d");
    if (!pen) return;
    const { width, height, size, cells, sorted, step } = this.arrangement;
    const state = this.store.get();
    const dense = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * dense);
    this.canvas.height = Math.round(height * dense);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    pen.scale(dense, dense);
    pen.imageSmoothingQuality = "high";
    this.thumbs.theme(isDark(state));
    const style = getComputedStyle(this.grid);
    const colours = { ink: style.getPropertyValue("--ink"), soft: style.getPropertyValue("--soft"), line: style.getPropertyValue("--line"), card: style.getPropertyValue("--card") };
    const letters = `700 11px ${style.fontFamily}`;
    pen.font = letters;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    for (const cell of cells) {
      const x = cell.x + (sorted ? Math.floor((step[0] - 2 - size) / 2) : 0);
      pen.globalAlpha = cell.faint ? 0.16 : 1;
      this.one(pen, cell, x, cell.y + (sorted ? 1 : 0), colours);
      if (cell.score === null) continue;
      const middle = cell.x + (step[0] - 2) / 2;
      pen.fillStyle = colours.soft;
      pen.font = `11px ${style.fontFamily}`;
      pen.fillText(placeName(cell.place), middle, cell.y + size + 9);
      pen.fillStyle = colours.ink;
      pen.font = letters;
      pen.fillText(`${cell.score.toFixed(2)}${cell.few ? "*" : ""}`, middle, cell.y + size + 22);
    }
  }

  private one(pen: CanvasRenderingContext2D, cell: Cell, x: number, y: number, colours: Record<"ink" | "soft" | "line" | "card", string>): void {
    const { size } = this.arrangement;
    const kind = kindOf(this.scene, cell.place);
    const colour = kind?.colour ?? null;
    if (this.thumbs.isKnown(cell.n)) this.thumbs.draw(pen, cell.n, x + 1, y + 1, size - 2);
    pen.strokeStyle = colour ?? colours.line;
    pen.lineWidth = colour ? 2 : 1;
    pen.strokeRect(x + 1, y + 1, size - 2, size - 2);
    if (this.thumbs.isKnown(cell.n) && !this.thumbs.isExact(cell.n)) hatch(pen, x + 2, y + size - 2, Math.min(9, size / 3), colours.soft);
    if (this.full.has(placeName(cell.place))) {
      pen.fillStyle = colours.ink;
      pen.beginPath();
      pen.arc(x + size - 5, y + size - 5, 2.5, 0, 2 * Math.PI);
      pen.fill();
    }
    const mixed = scoresOf(this.scene, cell.place) && !colour;
    if (!kind || mixed) return;
    // At the upper right, where causal maps are empty anyway; on a small map without a ground, which would hide it.
    const small = size < SMALL;
    const box = small ? 11 : Math.min(14, size * 0.4);
    if (!small) {
      pen.fillStyle = colour ?? colours.line;
      pen.fillRect(x + size - box, y, box, box);
    }
    const inset = small ? 2 : 0;
    if (small) {
      pen.strokeStyle = colours.card;
      pen.lineWidth = 3;
      pen.strokeText(kind.letter, x + size - inset - box / 2, y + inset + box / 2);
    }
    pen.fillStyle = colour && !small ? inkOn(rgb(colour)) : colours.ink;
    pen.fillText(kind.letter, x + size - inset - box / 2, y + inset + box / 2 + (small ? 0 : 0.5));
  }
}

/** Three strokes across the lower left corner: sampled, not exact. */
function hatch(pen: CanvasRenderingContext2D, x: number, y: number, size: number, colour: string): void {
  pen.strokeStyle = colour || css([128, 128, 128]);
  pen.lineWidth = 1;
  pen.beginPath();
  for (let at = 3; at <= size; at += 3) {
    pen.moveTo(x, y - at);
    pen.lineTo(x + at, y);
  }
  pen.stroke();
}
