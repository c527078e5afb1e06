// What is shown and how: which run and row, the scale, what is pooled and hidden, theme.

import { every } from "./arrange";
import { layerOf, neighbour } from "./choosing";
import { button, make } from "./dom";
import { check, pick, segments } from "./fields";
import type { Field } from "./fields";
import type { Axis, Scene } from "./protocol";
import type { State, Store } from "./state";
import { count, shownToken } from "./words";

/** One field and the part of the state that it stands for. */
type Bound = (state: State) => void;

function bind<V>(field: Field<V>, of: (state: State) => V, bound: Bound[]): HTMLElement {
  bound.push((state) => field.show(of(state)));
  return field.node;
}

function follow(store: Store, bound: Bound[]): () => void {
  const all = (state: State) => bound.forEach((show) => show(state));
  all(store.get());
  return store.subscribe(all);
}

/** Runs, row of the batch, theme: what concerns the whole page. */
export function pageControls(host: HTMLElement, scene: Scene, store: Store, does: { link: (() => void) | null; keys: () => void }): () => void {
  const bound: Bound[] = [];
  const runs = scene.runs.map((name, at): [string, string] => [String(at), name]);
  if (runs.length > 1) {
    const run = pick("run", runs, (value) => {
      const now = Number(value);
      store.set({ run: now, ...(store.get().minus === now ? { minus: null } : {}) });
    });
    const minus = pick("minus", [["none", "nothing"], ...runs], (value) => {
      // A run minus itself is 0 everywhere: the other one takes its place.
      const { run: now } = store.get();
      const taken = value === "none" ? null : Number(value);
      store.set({ minus: taken, ...(taken === now ? { run: (now + 1) % runs.length } : {}) });
    });
    host.append(bind(run, ({ run: now }) => String(now), bound), bind(minus, ({ minus: now }) => String(now ?? "none"), bound));
  }
  if (scene.batch > 1) {
    const rows = Array.from({ length: scene.batch }, (_, b): [string, string] => [String(b), String(b)]);
    host.append(bind(pick("batch row", rows, (value) => store.set({ b: Number(value) })), ({ b }) => String(b), bound));
  }
  const theme = segments<State["theme"]>("Theme", [["auto", "◐", "Theme of the system"], ["light", "☀︎", "Light theme"], ["dark", "☾", "Dark theme"]], (value) => store.set({ theme: value }));
  host.append(bind(theme, (state) => state.theme, bound));
  if (does.link) host.append(button("Copy link", does.link, { class: "small", title: "Copies an address that opens with just this" }));
  host.append(button("?", does.keys, { class: "icon", "aria-label": "Keys", title: "Keys" }));
  return follow(store, bound);
}

/** The key that "hide sink" hides, by its token. */
function sinkTitle(scene: Scene, { layer, head, b }: State): string {
  const { sink, cols } = layerOf(scene, [layer, head]);
  const at = sink[b] ?? 0;
  const axis = scene.axes[cols[b] ?? 0] as Axis;
  return `Leaves out key ${count(at)} “${shownToken(axis, at)}”, the first that any query may attend to`;
}

/** What concerns the map; `end` says where its colour bar ends. */
export function mapControls(host: HTMLElement, scene: Scene, store: Store, end: () => number): () => void {
  const bound: Bound[] = [];
  const scale = segments<State["scale"]>("Colour scale", [["linear", "linear"], ["sqrt", "√", "square root"], ["log", "log", "logarithm"]], (value) => store.set({ scale: value }));
  const lock = check("lock", "Locks the colours: the bar ends where it ends now, whatever is looked at next", (on) => store.set({ range: on ? end() : null }));
  const pool = segments<State["pool"]>("One pixel of many cells", [["mean", "mean"], ["max", "max"]], (value) => store.set({ pool: value }));
  const hide = check("hide sink", "", (on) => store.set({ hide: on }));
  bound.push((state) => (hide.node.title = sinkTitle(scene, state)));
  const norm = check("row max = 1", "Divides each row by its largest probability", (on) => store.set({ norm: on }));
  const beside = button("Side by side", () => {
    const state = store.get();
    store.set({ beside: state.beside ? null : neighbour(scene, [state.layer, state.head]) });
  }, { class: "small", title: "A second head beside; Shift click on a head chooses it" });
  beside.disabled = every(scene).length < 2;
  bound.push((state) => beside.setAttribute("aria-pressed", String(state.beside !== null)));
  const group = (name: string, node: HTMLElement) => make("span", { class: "pick" }, make("span", { "aria-hidden": "true" }, name), node);
  const colours = group("colour", bind(scale, (state) => state.scale, bound));
  colours.append(bind(lock, (state) => state.range !== null, bound));
  const pools = group("pool", bind(pool, (state) => state.pool, bound));
  // Where there is too little room for one line, half of them go to the next: never one alone. A saved file holds
  // probabilities as they are, and so has fewer.
  const halves = scene.saved
    ? [[colours], [pools, beside]]
    : [[colours, pools], [bind(hide, (state) => state.hide, bound), bind(norm, (state) => state.norm, bound), beside]];
  host.append(...halves.map((half) => make("div", {}, ...half)));
  return follow(store, bound);
}
