// The page: heads at the left, maps in the middle, text and numbers beside or below.

import { Address, read, write } from "./address";
import { MapCard } from "./card";
import { every } from "./arrange";
import { choose, layerOf } from "./choosing";
import { isDark } from "./colour";
import { mapControls, pageControls } from "./controls";
import { button, later, make } from "./dom";
import { keysDialog } from "./help";
import { Notices, Watched } from "./notices";
import { Overview } from "./overview";
import { ProfilePanel } from "./profile";
import type { Scene, Transport } from "./protocol";
import { ScoresPanel } from "./scores";
import { opening, Store } from "./state";
import type { State } from "./state";
import { TextPanel } from "./text";
import { Tiles } from "./tiles";

const SETTLED = 200;

interface Part {
  destroy(): void;
  paint?(): void;
}

export interface Opened {
  address: boolean;
  /** What the page before showed, as an address says it. */
  hash: string;
  /** Opens the page anew, with what it shows now. */
  again: (hash: string) => Promise<void>;
}

export class App {
  readonly node = make("div", { class: "app" });
  private readonly scene: Scene;
  private readonly store: Store;
  private readonly notices = new Notices();
  private readonly parts: Part[] = [];
  private readonly undo: (() => void)[] = [];
  private readonly address: Address | null;
  /** The reader went somewhere else since the address was written. */
  private stepped = false;
  private readonly put = later(SETTLED, () => {
    this.address?.put(this.store.get(), this.stepped);
    this.stepped = false;
  });
  private readonly maps = make("div", { class: "maps" });
  private readonly transport: Transport;
  private readonly tiles: Tiles;
  private readonly tabs = new Map<State["panel"], { tab: HTMLButtonElement; panel: HTMLElement }>();
  private readonly keys = keysDialog();
  private text: TextPanel | null = null;
  private first: MapCard | null = null;
  private beside: MapCard | null = null;

  /** Takes the place of what `root` shows; parts are built inside it, where they have a size and its styles. */
  constructor(root: ShadowRoot, scene: Scene, transport: Transport, opened: Opened) {
    root.replaceChildren(this.node);
    this.scene = scene;
    const { state, says } = opened.hash ? read(opened.hash, scene) : { state: opening(scene), says: null };
    this.store = new Store(state);
    this.transport = new Watched(transport, (why) => this.notices.lost(why.message, () => opened.again(write(this.store.get(), scene))));
    this.tiles = new Tiles(this.transport, scene, () => this.paintMaps());
    this.address = opened.address ? new Address(scene, (next, wrong) => this.follow(next, wrong)) : null;
    this.build(opened.address);
    this.undo.push(this.store.subscribe((now, before, step) => this.changed(now, before, step)));
    const system = matchMedia("(prefers-color-scheme: dark)");
    const repaint = () => this.theme();
    system.addEventListener("change", repaint);
    this.undo.push(() => system.removeEventListener("change", repaint));
    if (says) this.wrong(says);
  }

  destroy(): void {
    this.put.never();
    this.address?.destroy();
    this.first?.destroy();
    this.beside?.destroy();
    for (const undo of this.undo) undo();
    for (const part of this.parts) part.destroy();
    this.node.remove();
  }

  private build(address: boolean): void {
    const { scene, store, transport } = this;
    const overview = make("section", { class: "panel overview", "aria-label": "Heads" });
    const middle = make("section", { class: "panel map", "aria-label": "Attention pattern" });
    const side = make("section", { class: "panel side", "aria-label": "Text and numbers" });
    const tools = make("div", { class: "toolbar", role: "group", "aria-label": "How the map is drawn" });
    middle.append(tools, this.maps);
    this.node.classList.toggle("large", store.get().large);
    this.theme();
    this.node.append(this.header(address), this.notices.node, make("div", { class: "panels" }, overview, middle, side), this.keys);
    this.parts.push(new Overview(overview, scene, store, transport, (says) => this.notices.tell(says)));
    this.undo.push(mapControls(tools, scene, store, () => store.get().range ?? this.tiles.ranges.end));
    this.first = new MapCard(this.maps, scene, store, this.tiles, ({ layer, head }) => [layer, head], (says) => this.notices.tell(says));
    this.side(side);
    this.besideOf(store.get());
    // A page of its own listens to all keys; in a notebook there are others who do.
    const hears: EventTarget = address ? document : this.node;
    const key = (event: Event) => this.key(event as KeyboardEvent);
    hears.addEventListener("keydown", key);
    this.undo.push(() => hears.removeEventListener("keydown", key));
  }

  private header(address: boolean): HTMLElement {
    const { scene } = this;
    const facts = make("dl", { class: "facts" });
    for (const [name, value] of scene.facts) facts.append(make("div", {}, make("dt", {}, name), make("dd", {}, value)));
    const controls = make("div", { class: "page-controls", role: "group", "aria-label": "Page" });
    this.undo.push(pageControls(controls, scene, this.store, { link: address ? () => void this.link() : null, keys: () => this.keys.showModal() }));
    const some = scene.saved && scene.saved.heads.length > 0 && scene.saved.heads.length < every(scene).length;
    const saved = scene.saved ? make("p", { class: "saved" }, scene.saved.says, ...(some ? [" In full: the heads with a dot ", make("i", { class: "dot" }), "."] : [])) : null;
    const title = make("div", { class: "title" }, make("h1", {}, scene.title), make("p", { class: "subtitle" }, scene.subtitle));
    return make("header", {}, title, facts, controls, saved);
  }

  private side(host: HTMLElement): void {
    const { scene, store, transport } = this;
    const names: [State["panel"], string][] = [["text", "Text"], ["profile", "Profile"]];
    if (scene.heads) names.push(["scores", "Scores"]);
    const list = make("div", { class: "tabs", role: "tablist", "aria-label": "Text and numbers" });
    host.append(list);
    for (const [name, face] of names) {
      const panel = make("div", { class: `tab-panel ${name}-panel`, role: "tabpanel", id: `panel-${name}`, "aria-labelledby": `tab-${name}` });
      const tab = button(face, () => store.set({ panel: name }), { role: "tab", id: `tab-${name}`, "aria-controls": `panel-${name}` });
      this.tabs.set(name, { tab, panel });
      list.append(tab);
      host.append(panel);
    }
    list.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step === undefined) return;
      const order = names.map(([name]) => name);
      const next = order[(order.indexOf(this.panel()) + step + order.length) % order.length] as State["panel"];
      store.set({ panel: next });
      this.tabs.get(next)?.tab.focus();
    });
    const panel = (name: State["panel"]) => this.tabs.get(name)?.panel as HTMLElement;
    this.text = new TextPanel(panel("text"), scene, store, transport);
    this.parts.push(this.text, new ProfilePanel(panel("profile"), scene, store, transport));
    if (scene.heads) this.parts.push(new ScoresPanel(panel("scores"), scene, store));
    this.showTab();
  }

  /** The panel that is shown: heads that were not scored have no scores to show. */
  private panel(): State["panel"] {
    const { panel } = this.store.get();
    return this.tabs.has(panel) ? panel : "text";
  }

  private showTab(): void {
    const { scene } = this;
    const shown = this.panel();
    const state = this.store.get();
    const axis = scene.axes[layerOf(scene, [state.layer, state.head]).rows[state.b] ?? 0];
    const text = this.tabs.get("text")?.tab;
    if (text) text.textContent = axis?.kind === "grid" ? "Patches" : "Text";
    for (const [name, { tab, panel }] of this.tabs) {
      tab.setAttribute("aria-selected", String(name === shown));
      tab.tabIndex = name === shown ? 0 : -1;
      panel.hidden = name !== shown;
    }
  }

  private changed(now: State, before: State, step: boolean): void {
    if (step && !this.stepped) {
      // What the reader left is what Back leads to, however soon it was left.
      this.address?.put(before);
      this.stepped = true;
    }
    this.put.soon();
    if (now.panel !== before.panel || now.layer !== before.layer || now.b !== before.b) this.showTab();
    if (now.large !== before.large) this.node.classList.toggle("large", now.large);
    if (now.theme !== before.theme) this.theme();
    if ((now.beside === null) !== (before.beside === null)) this.besideOf(now);
  }

  private besideOf(state: State): void {
    this.node.classList.toggle("two", state.beside !== null);
    if (state.beside === null) {
      this.beside?.destroy();
      this.beside = null;
      return;
    }
    if (this.beside) return;
    const swap = button("⇄", () => this.swap(), { class: "icon", "aria-label": "Swap the maps", title: "Swap the maps" });
    const close = button("×", () => this.store.set({ beside: null }), { class: "icon", "aria-label": "Close this map", title: "Close this map" });
    this.beside = new MapCard(this.maps, this.scene, this.store, this.tiles, (now) => now.beside, (says) => this.notices.tell(says), [swap, close]);
  }

  private swap(): void {
    const state = this.store.get();
    if (!state.beside) return;
    this.store.go({ ...choose(this.scene, state, state.beside), beside: [state.layer, state.head] });
  }

  private paintMaps(): void {
    // The first tiles may come before all parts are there.
    this.first?.map.paint();
    this.beside?.map.paint();
  }

  private theme(): void {
    this.node.toggleAttribute("data-dark", isDark(this.store.get()));
    for (const part of this.parts) part.paint?.();
    this.paintMaps();
  }

  private follow(next: State, says: string | null): void {
    this.stepped = false;
    this.store.set(next);
    if (says) this.wrong(says);
    else this.notices.quiet();
  }

  /** Tells what of an address could not be followed, and puts what is shown in its place. */
  private wrong(says: string): void {
    this.notices.tell(says);
    this.put.soon();
  }

  private async link(): Promise<void> {
    this.put.now();
    try {
      await navigator.clipboard.writeText(location.href);
      this.notices.tell("The link is on the clipboard; it opens with just this.");
    } catch {
      this.notices.tell("The browser keeps its clipboard to itself; the link is in the address bar.");
    }
  }

  private key(event: KeyboardEvent): void {
    const from = event.composedPath()[0];
    const typing = from instanceof HTMLSelectElement || (from instanceof HTMLInputElement && from.type === "text");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || this.keys.open) return;
    if (event.key === "?") this.keys.showModal();
    if (event.key === "/") {
      event.preventDefault();
      this.store.set({ panel: "text" });
      this.text?.find();
    }
    const step = { "[": -1, "]": 1 }[event.key];
    if (step === undefined) return;
    const state = this.store.get();
    const heads = every(this.scene);
    const at = heads.findIndex(([layer, head]) => layer === state.layer && head === state.head) + step;
    const next = heads[at];
    if (next) this.store.go(choose(this.scene, state, next));
  }
}
