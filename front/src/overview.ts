// All heads at a glance: one canvas of small maps, and over it one focusable element a head.

import { arrange, every, find, largestIn, LARGEST, ownLargest, passes, say, stepFrom, widthOf } from "./arrange";
import type { Arrangement, Cell } from "./arrange";
import { orders } from "./address";
import { choose, layerTitle, placeName, placeOf, toggle } from "./choosing";
import type { Place } from "./choosing";
import { isDark } from "./colour";
import { button, make } from "./dom";
import { ruleOf } from "./earned";
import { Lost } from "./http";
import { letterOf } from "./letter";
import { progress } from "./progress";
import type { OverviewMeta, Scene, Transport } from "./protocol";
import { drawSmalls } from "./smalls";
import type { State, Store } from "./state";
import { Thumbs } from "./thumbs";

const POLL = 400;
/** A question that was refused is asked again, after twice the time each time. */
const AGAIN = 2000;
const SLOWEST = 30_000;
/** Of the scrolled box, at both sides. */
const PADDING = 6;
/** What stands around the grid in its panel: borders, padding, a bar to scroll. */
const AROUND = 38;
/** A page as narrow as this has its parts one below the other, each with its own height. */
const NARROW = 680;

export class Overview {
  readonly scene: Scene;
  private readonly store: Store;
  private readonly transport: Transport;
  private readonly notice: (says: string) => void;
  readonly thumbs: Thumbs;
  /** Heads that a saved file holds in full, where it does not hold all. */
  readonly full: Set<string>;
  private readonly canvas = make("canvas", { "aria-hidden": "true" });
  private readonly grid = make("div", { class: "heads", role: "grid", "aria-label": "Heads", "aria-multiselectable": "true" });
  private readonly scroller = make("div", { class: "scroll heads-scroll" });
  private readonly status = make("p", { class: "hint", role: "status" });
  private readonly chips = new Map<string, HTMLButtonElement>();
  private readonly sort = make("select", { "aria-label": "Order of the heads" });
  private readonly nodes = new Map<string, HTMLElement>();
  private readonly unsubscribe: () => void;
  private readonly watcher: ResizeObserver;
  private again: ReturnType<typeof setTimeout> | undefined;
  private patience = AGAIN;
  arrangement: Arrangement;
  /** The head that the tab key leads to. */
  private roving: string;
  private loading = new AbortController();
  private since = 0;
  private frame = 0;
  private meta: OverviewMeta | null = null;
  /** What went wrong with the last question. */
  private refusal: string | null = null;
  private readonly larger = button("⤢", () => this.store.set({ large: !this.store.get().large }), { class: "icon", "aria-label": "Large maps", title: "Large maps" });

  constructor(host: HTMLElement, scene: Scene, store: Store, transport: Transport, notice: (says: string) => void) {
    this.scene = scene;
    this.store = store;
    this.transport = transport;
    this.notice = notice;
    this.thumbs = new Thumbs(scene);
    const held = scene.saved?.heads ?? [];
    // Where all are held in full, that tells no head from another.
    this.full = new Set(held.length < every(scene).length ? held : []);
    const state = store.get();
    this.roving = placeName([state.layer, state.head]);
    this.arrangement = arrange(scene, state, 320, { largest: ownLargest(scene), height: null });
    this.grid.append(this.canvas);
    this.scroller.append(this.grid);
    host.append(this.head(), this.filter(), this.scroller, this.foot());
    // The panels beside it have what it leaves.
    host.parentElement?.style.setProperty("--heads", `${widthOf(scene) + AROUND}px`);
    this.listen();
    this.layOut();
    this.paintControls();
    this.watcher = new ResizeObserver(() => {
      this.layOut();
      this.reveal();
    });
    this.watcher.observe(this.scroller);
    this.unsubscribe = store.subscribe((now, before) => this.changed(now, before));
    void this.load();
  }

  destroy(): void {
    this.loading.abort();
    clearTimeout(this.again);
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
    const order = names.length > 1 ? make("label", { class: "pick" }, make("span", {}, "order"), this.sort) : null;
    return make("div", { class: "panel-head" }, make("h2", {}, "Heads"), order, this.larger);
  }

  private filter(): HTMLElement {
    const row = make("div", { class: "chips", role: "group", "aria-label": "Kinds of heads" });
    for (const kind of this.scene.kinds) {
      const count = (this.scene.heads ?? []).filter((head) => head.kind === kind.name).length;
      if (count === 0) continue;
      const chip = button("", () => {
        const { kinds } = this.store.get();
        this.store.set({ kinds: kinds.includes(kind.name) ? kinds.filter((name) => name !== kind.name) : [...kinds, kind.name] });
      }, { class: "chip", "data-kind": kind.name, title: `${kind.means}; ${ruleOf(kind)}` });
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
    this.store.go(choose(this.scene, this.store.get(), place));
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
      this.meta = this.refusal = null;
      this.thumbs.forget();
      void this.load();
    }
    if (now.sort !== before.sort || now.kinds !== before.kinds || now.large !== before.large) this.layOut();
    const another = now.layer !== before.layer || now.head !== before.head;
    if (another) this.rove(placeName([now.layer, now.head]));
    if (another || now.sort !== before.sort || now.large !== before.large) this.reveal();
    this.paintControls();
  }

  /** Scrolls the head on the map into sight. */
  private reveal(): void {
    const { layer, head } = this.store.get();
    const cell = find(this.arrangement, placeName([layer, head]));
    const { clientHeight, scrollTop } = this.scroller;
    if (!cell || clientHeight === 0) return;
    const { top, step } = this.arrangement;
    // Heads' numbers stay above what is scrolled.
    if (cell.y - top < scrollTop) this.scroller.scrollTop = cell.y - top;
    else if (cell.y + step[1] + PADDING > scrollTop + clientHeight) this.scroller.scrollTop = cell.y + step[1] + PADDING - clientHeight;
  }

  private async load(): Promise<void> {
    this.loading.abort();
    clearTimeout(this.again);
    const { signal } = (this.loading = new AbortController());
    const { run, minus, b } = this.store.get();
    const next = (ms: number) => (this.again = setTimeout(() => void this.load(), ms));
    try {
      const asked = { run, ...(minus === null ? {} : { minus }), b, since: this.since };
      const { meta, data } = await this.transport.ask("overview", asked, signal);
      if (signal.aborted) return;
      this.since = meta.version;
      this.thumbs.put(meta, data);
      this.meta = meta;
      this.refusal = null;
      this.patience = AGAIN;
      this.scroller.toggleAttribute("data-ready", true);
      this.paint();
      if (!meta.done) next(POLL);
    } catch (error) {
      if (signal.aborted) return;
      this.refusal = error instanceof Error ? error.message : String(error);
      // Where nobody is there to answer, the page says so, and is opened anew.
      if (!(error instanceof Lost)) next(this.patience);
      this.patience = Math.min(SLOWEST, 2 * this.patience);
    }
    this.say();
  }

  private say(): void {
    const state = this.store.get();
    const heads = every(this.scene);
    const left = heads.filter((place) => passes(this.scene, state, place)).length;
    this.grid.setAttribute("aria-label", state.kinds.length ? `Heads, ${left} of the kinds that are chosen` : "Heads");
    const { exact = 0, done = false } = this.meta ?? {};
    const says = progress({ left, of: heads.length, exact, sampled: this.thumbs.sampled, done });
    this.status.textContent = this.refusal ?? (state.minus === null ? says : `${says}; size of the difference`);
  }

  /** Puts every head's element in its place; where the order stays, elements stay too. */
  private layOut(): void {
    const width = Math.max(200, (this.scroller.clientWidth || 320) - 2 * PADDING);
    const state = this.store.get();
    const narrow = (this.scroller.closest(".app")?.clientWidth ?? 0) <= NARROW;
    const height = narrow ? null : this.scroller.clientHeight;
    const fits = height === null ? ownLargest(this.scene) : largestIn(this.scene, height);
    const next = arrange(this.scene, state, width, { largest: state.large ? Math.max(LARGEST, fits) : fits, height });
    this.arrangement = next;
    this.grid.style.width = `${next.width}px`;
    this.grid.style.height = `${next.height}px`;
    const rows: HTMLElement[] = [];
    if (!next.sorted) rows.push(next.wrapped ? make("div", { role: "row" }) : this.numbers(next));
    for (let row = 0; row < next.rows; row++) rows.push(make("div", { role: "row" }));
    if (!next.sorted) {
      this.scene.layers.forEach((layer, at) => {
        const name = make("span", { role: "rowheader", class: "mark", title: `${layerTitle(layer)}: ${layer.name}` }, layer.label);
        name.style.width = `${next.gutter - PADDING}px`;
        const row = next.starts[at] as number;
        name.style.top = `${next.top + row * next.step[1]}px`;
        name.style.lineHeight = `${next.size}px`;
        rows[row + 1]?.append(name);
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
    this.larger.setAttribute("aria-pressed", String(state.large));
    for (const [name, chip] of this.chips) chip.setAttribute("aria-pressed", String(state.kinds.includes(name)));
    const here = placeName([state.layer, state.head]);
    for (const [name, node] of this.nodes) {
      node.setAttribute("aria-selected", String(name === here || state.chosen.includes(name)));
      node.toggleAttribute("data-here", name === here);
      node.toggleAttribute("data-beside", state.beside !== null && name === placeName(state.beside));
      node.toggleAttribute("data-chosen", state.chosen.includes(name));
    }
    this.say();
  }

  private draw(): void {
    this.thumbs.theme(isDark(this.store.get()));
    drawSmalls(this.canvas, this.grid, this);
  }
}
