// Attention on the text: point at a token and see what it attends to, and what attends to it.

import { layerOf, meanOf, placeName } from "./choosing";
import { isDark, SCALES } from "./colour";
import { button, make } from "./dom";
import { segments } from "./fields";
import { Find } from "./find";
import type { Side } from "./find";
import { Line } from "./line";
import type { Known } from "./line";
import { plural } from "./numbers";
import { Patches } from "./patches";
import type { Axis, Layer, Scene, Transport } from "./protocol";
import { RunningText } from "./running";
import { cutRows, sayings } from "./said";
import type { Way } from "./said";
import { levels } from "./shades";
import type { Hands, Shading, Strip } from "./strip";
import type { State, Store } from "./state";

const LOOKS: [State["look"], string][] = [
  ["to", "attends to"],
  ["from", "attended by"],
  ["both", "both"],
];
/** What of the state the text depends on; not on where the map is zoomed to. */
const SHOWN = ["run", "minus", "layer", "head", "b", "scale", "hide", "query", "key", "chosen", "theme", "panel", "look"] as const;

export class TextPanel {
  private readonly scene: Scene;
  private readonly store: Store;
  private readonly host: HTMLElement;
  private readonly row: Line<"row">;
  private readonly column: Line<"column">;
  private readonly strips = make("div", { class: "strips" });
  private readonly looks = segments("What is shaded", LOOKS, (look) => this.turn(look));
  private readonly search = new Find(() => this.named(), () => this.mine().query ?? this.mine().key ?? 0, (side, at) => this.hold(side, at));
  private readonly mean = make("span", { class: "mean" });
  private readonly said = make("div", { class: "said" });
  private readonly unsubscribe: () => void;
  private readonly watcher: ResizeObserver;
  private queries: Strip | null = null;
  private keys: Strip | null = null;
  /** What the strips show; built anew when it changes. */
  private built = "";
  /** Where the pointer is, on the queries' or the keys' strip. */
  private over: { query: number | null; key: number | null } = { query: null, key: null };
  private held = false;
  private frame = 0;

  constructor(host: HTMLElement, scene: Scene, store: Store, transport: Transport) {
    this.host = host;
    this.scene = scene;
    this.store = store;
    this.row = new Line("row", transport, () => this.soon());
    this.column = new Line("column", transport, () => this.soon());
    host.append(make("div", { class: "bar" }, this.looks.node, this.search.opener, this.search.node, this.mean), this.said, this.strips);
    this.unsubscribe = store.subscribe((now, before) => this.changed(now, before));
    this.build();
    this.ask();
    this.paint();
    // Also when it is shown again, or has another width: what is held is to be seen.
    this.watcher = new ResizeObserver(() => {
      this.reveal(this.mine());
      this.soon();
    });
    this.watcher.observe(this.strips);
  }

  destroy(): void {
    this.unsubscribe();
    this.watcher.disconnect();
    this.row.destroy();
    this.column.destroy();
    this.queries?.destroy();
    this.keys?.destroy();
    cancelAnimationFrame(this.frame);
  }

  paint(): void {
    this.soon();
  }

  /** Opens the search for a token. */
  find(): void {
    this.search.open();
  }

  private layer(): Layer {
    const { layer, head } = this.store.get();
    return layerOf(this.scene, [layer, head]);
  }

  private axes(): [queries: Axis, keys: Axis] {
    const { b } = this.store.get();
    const layer = this.layer();
    return [this.scene.axes[layer.rows[b] as number] as Axis, this.scene.axes[layer.cols[b] as number] as Axis];
  }

  /** Queries and keys are the same tokens. */
  private get one(): boolean {
    return this.keys === null;
  }

  private build(): void {
    const [queries, keys] = this.axes();
    const { b } = this.store.get();
    const layer = this.layer();
    const name = `${layer.rows[b]} ${layer.cols[b]}`;
    if (name === this.built) return;
    this.built = name;
    this.queries?.destroy();
    this.keys?.destroy();
    this.strips.replaceChildren();
    this.over = { query: null, key: null };
    // What is known is of other tokens, and so is what was found.
    this.row.want(null);
    this.column.want(null);
    this.search.forget();
    const two = queries !== keys;
    this.strips.classList.toggle("two", two);
    this.looks.node.hidden = two;
    this.queries = this.strip(queries, two ? "Queries" : queries.kind === "grid" ? "Patches" : "Text", two, "query");
    this.keys = two ? this.strip(keys, "Keys", two, "key") : null;
  }

  private strip(axis: Axis, name: string, titled: boolean, side: "query" | "key"): Strip {
    const inner = make("div");
    const title = titled ? make("h3", {}, name, make("small", {}, ` ${axis.name}`)) : null;
    this.strips.append(make("div", { class: "strip", "data-side": side }, title, inner));
    const hands: Hands = {
      over: (at) => {
        if (this.held && this.over[side] === null) return;
        this.over = { ...this.over, [side]: at };
        this.ask();
        this.soon();
      },
      pick: (at, held) => this.pick(side, at, held),
      free: () => {
        this.held = false;
        this.over = { query: null, key: null };
        this.store.set({ query: null, key: null });
        this.ask();
        this.soon();
      },
    };
    const says = `${name}: ${axis.name}`;
    return axis.kind === "grid" ? new Patches(inner, axis, says, hands) : new RunningText(inner, axis, says, hands);
  }

  private get look(): State["look"] {
    return this.store.get().look;
  }

  /** Another way to look at the same token. */
  private turn(look: State["look"]): void {
    const { query, key } = this.mine();
    const held = query ?? key;
    const turns = held !== null && (look === "from") !== (this.look === "from");
    this.store.set({ look, ...(turns ? { query: held, key: null } : {}) });
  }

  private named(): [Side, Axis][] {
    const [queries, keys] = this.axes();
    return this.one ? [["query", queries]] : [["query", queries], ["key", keys]];
  }

  /** Holds a position that was looked for. */
  private hold(side: Side, at: number): void {
    const real = this.one && this.look === "from" ? "key" : side;
    this.over = { query: null, key: null };
    this.held = true;
    this.store.set({ [real]: at });
    this.ask();
    this.reveal({ query: null, key: null, [real]: at });
    this.soon();
  }

  private pick(side: Side, at: number, held: boolean): void {
    const real = this.one && this.look === "from" ? "key" : side;
    // A second click on what is held frees it.
    const again = this.held && this.store.get()[real] === at;
    this.held = held && !again;
    this.over = { query: null, key: null };
    this.store.set({ [real]: at });
    this.ask();
    this.soon();
  }

  private changed(now: State, before: State): void {
    if (!SHOWN.some((name) => now[name] !== before[name])) return;
    this.build();
    this.ask();
    this.soon();
    if (now.query === before.query && now.key === before.key) return;
    this.held = now.query !== null || now.key !== null;
    this.reveal({ query: now.query === before.query ? null : now.query, key: now.key === before.key ? null : now.key });
  }

  private reveal({ query, key }: { query: number | null; key: number | null }): void {
    if (query !== null) this.queries?.reveal(query);
    if (key !== null && (this.keys || query === null)) (this.keys ?? this.queries)?.reveal(key);
  }

  /** The query whose row is shown, and the key whose column is, while the pointer is elsewhere. */
  private mine(): { query: number | null; key: number | null } {
    const { query, key, look } = this.store.get();
    if (!this.one) return { query, key };
    return { query: look === "from" ? null : query, key: look === "to" ? null : look === "both" ? query : (key ?? query) };
  }

  /** The same where the pointer is. */
  private asked(): { query: number | null; key: number | null } {
    const { query, key } = this.mine();
    if (!this.one) return { query: this.over.query ?? query, key: this.over.key ?? key };
    const at = this.over.query;
    return { query: this.look === "from" ? null : (at ?? query), key: this.look === "to" ? null : (at ?? key) };
  }

  /** What the chips mark on one text. What is held stays what it is. */
  private marked(state: State): number | null {
    if (state.look !== "from") return state.key;
    return state.key === null ? null : state.query;
  }

  private mark(way: Way, known: Known, other: number): void {
    const both = this.one && this.look === "both";
    this.store.set(way === "to" || both ? { query: way === "to" ? known.at : this.store.get().query, key: other } : { query: other, key: known.at });
  }

  private ask(): void {
    const state = this.store.get();
    // Out of sight, it asks for nothing.
    if (state.panel === "profile" || (state.panel === "scores" && this.scene.heads)) return;
    const mean = meanOf(this.scene, state);
    const heads = (mean.length ? mean : [[state.layer, state.head] as [number, number]]).map(placeName).join(",");
    const lines = { run: state.run, ...(state.minus === null ? {} : { minus: state.minus }), heads, b: state.b };
    const { query, key } = this.asked();
    this.row.want(query === null ? null : { ...lines, i: query });
    this.column.want(key === null ? null : { ...lines, j: key });
  }

  private soon(): void {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.draw());
  }

  private draw(): void {
    const state = this.store.get();
    const [queries, keys] = this.axes();
    this.looks.show(state.look);
    this.sayMean(state);
    const sink = state.hide ? (this.layer().sink[state.b] ?? null) : null;
    const row = this.row.known;
    const column = this.column.known;
    const ofKeys = this.shading(row, keys.labels.length, sink, state, "to");
    const ofQueries = this.shading(column, queries.labels.length, null, state, "from");
    if (this.one) this.queries?.shade({ ...ofKeys, from: ofQueries.from ?? ofKeys.from, to: ofKeys.to ?? ofQueries.to });
    else {
      this.queries?.shade(ofQueries);
      this.keys?.shade(ofKeys);
    }
    const { query, key } = this.asked();
    const marked = this.marked(state);
    this.queries?.mark(!this.one ? { query, key: null } : state.look === "from" ? { query: marked, key } : { query, key: marked });
    this.keys?.mark({ query: null, key });
    this.say(row, column, query, key, sink);
    this.host.toggleAttribute("data-ready", row !== null || column !== null);
  }

  /** A difference has two signs: more in the warm hue, less in the cool one, as on the map. */
  private shading(known: Known | null, length: number, sink: number | null, state: State, way: "to" | "from"): Shading {
    const shading: Shading = { to: null, from: null, dark: isDark(state) };
    if (!known) return shading;
    let { values } = known;
    if (sink !== null) (values = values.slice())[sink] = 0;
    let most = 0;
    for (const value of values) most = Math.max(most, Math.abs(value));
    const scale = SCALES[state.scale];
    const level = (part: Float32Array) => {
      const into = new Uint8Array(length);
      levels(part, most, scale, into);
      return into;
    };
    if (state.minus === null || this.look === "both") return { ...shading, [way]: level(values) };
    return { ...shading, to: level(values.map((x) => Math.min(0, x))), from: level(values.map((x) => Math.max(0, x))) };
  }

  private sayMean(state: State): void {
    const mean = meanOf(this.scene, state);
    if (mean.length === 0) return this.mean.replaceChildren();
    const names = mean.map(placeName);
    const listed = names.length > 4 ? `${names.slice(0, 4).join(", ")} …` : names.join(", ");
    this.mean.replaceChildren(`mean of ${plural(mean.length, "head")}: ${listed} `, button("clear", () => this.store.set({ chosen: [] }), { class: "quiet" }));
  }

  /** Each list keeps its room while it waits, so that the text below it does not move. */
  private say(row: Known | null, column: Known | null, query: number | null, key: number | null, sink: number | null): void {
    const nothing = query === null && key === null;
    const hint = nothing ? "Point at a token, or click one to hold it." : "";
    const lists: HTMLElement[] = [];
    if (!this.one || this.look !== "from") lists.push(this.list("to", query === null ? null : row, query === null ? hint : this.row.refusal, sink));
    if (!this.one || this.look !== "to") lists.push(this.list("from", key === null ? null : column, key === null ? (lists.length ? "" : hint) : this.column.refusal, null));
    const chips = () => [...this.said.querySelectorAll<HTMLElement>(".key")];
    const focused = chips().indexOf((this.said.getRootNode() as Document | ShadowRoot).activeElement as HTMLElement);
    this.said.replaceChildren(...lists);
    if (focused >= 0) chips()[focused]?.focus();
    for (const list of this.said.querySelectorAll<HTMLElement>(".keys-list")) cutRows(list);
  }

  private list(way: Way, known: Known | null, instead: string | null, sink: number | null): HTMLElement {
    if (!known) return make("div", { class: "list" }, instead ? make("p", { class: "hint", role: "status" }, instead) : null);
    const { b, minus } = this.store.get();
    const [queries, keys] = this.axes();
    const [axis, others] = way === "to" ? [queries, keys] : [keys, queries];
    const mine = this.mine()[way === "to" ? "query" : "key"];
    const held = this.held && mine === known.at;
    return sayings({ way, known, axis, others, layer: this.layer(), b, sink, held, apart: minus !== null, mark: (other) => this.mark(way, known, other) });
  }
}
