// Attention on the text: point at a token and see what it attends to, and what attends to it.

import { layerOf, meanOf, placeName } from "./choosing";
import { isDark, SCALES } from "./colour";
import { button, make } from "./dom";
import { segments } from "./fields";
import { Line } from "./line";
import type { Known } from "./line";
import { Patches } from "./patches";
import type { Axis, Layer, Scene, Transport } from "./protocol";
import { RunningText } from "./running";
import { levels } from "./shades";
import type { Hands, Shading, Strip } from "./strip";
import type { State, Store } from "./state";
import { away, share, shownToken } from "./words";

type Look = "to" | "from" | "both";
const LOOKS: [Look, string][] = [
  ["to", "attends to"],
  ["from", "attended by"],
  ["both", "both"],
];
const CHIPS = 6;
/** Of the largest: what is less is no top key. */
const WORTH = 0.01;
/** What of the state the text depends on; not on where the map is zoomed to. */
const SHOWN = ["run", "minus", "layer", "head", "b", "scale", "hide", "query", "key", "chosen", "theme", "panel"] as const;

export class TextPanel {
  private readonly scene: Scene;
  private readonly store: Store;
  private readonly host: HTMLElement;
  private readonly row: Line<"row">;
  private readonly column: Line<"column">;
  private readonly strips = make("div", { class: "strips" });
  private readonly looks = segments<Look>("What is shaded", LOOKS, (look) => {
    this.look = look;
    this.ask();
    this.soon();
  });
  private readonly mean = make("span", { class: "mean" });
  private readonly said = make("div", { class: "said" });
  private readonly unsubscribe: () => void;
  private queries: Strip | null = null;
  private keys: Strip | null = null;
  /** What the strips show; built anew when it changes. */
  private built = "";
  private look: Look = "to";
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
    host.append(make("div", { class: "bar" }, this.looks.node, this.mean), this.said, this.strips);
    this.unsubscribe = store.subscribe((now, before) => this.changed(now, before));
    this.build();
    this.ask();
    this.paint();
    requestAnimationFrame(() => this.reveal(store.get()));
  }

  destroy(): void {
    this.unsubscribe();
    this.row.destroy();
    this.column.destroy();
    this.queries?.destroy();
    this.keys?.destroy();
    cancelAnimationFrame(this.frame);
  }

  paint(): void {
    this.soon();
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
        if (!this.one || this.look === "from") this.store.set({ key: null });
        this.held = false;
        this.over = { query: null, key: null };
        this.ask();
        this.soon();
      },
    };
    const says = `${name}: ${axis.name}`;
    return axis.kind === "grid" ? new Patches(inner, axis, says, hands) : new RunningText(inner, axis, says, hands);
  }

  private pick(side: "query" | "key", at: number, held: boolean): void {
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
    this.held = true;
    this.reveal({ query: now.query === before.query ? null : now.query, key: now.key === before.key ? null : now.key });
  }

  private reveal({ query, key }: { query: number | null; key: number | null }): void {
    if (query !== null) this.queries?.reveal(query);
    if (key !== null && (this.keys || query === null)) (this.keys ?? this.queries)?.reveal(key);
  }

  /** The query whose row is shown, and the key whose column is. */
  private asked(): { query: number | null; key: number | null } {
    const { query, key } = this.store.get();
    if (!this.one) return { query: this.over.query ?? query, key: this.over.key ?? key };
    const at = this.over.query;
    return {
      query: this.look === "from" ? null : (at ?? query),
      key: this.look === "to" ? null : this.look === "both" ? (at ?? query) : (at ?? key ?? query),
    };
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
    this.looks.show(this.look);
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
    this.queries?.mark({ query: query ?? (this.one ? null : state.query), key: this.one ? (this.look === "both" ? state.key : (key ?? state.key)) : null });
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
    this.mean.replaceChildren(`mean of ${mean.length} head${mean.length > 1 ? "s" : ""}: ${listed} `, button("clear", () => this.store.set({ chosen: [] }), { class: "quiet" }));
  }

  private say(row: Known | null, column: Known | null, query: number | null, key: number | null, sink: number | null): void {
    const [queries, keys] = this.axes();
    const parts: HTMLElement[] = [];
    const refused = (query !== null && this.row.refusal) || (key !== null && this.column.refusal) || null;
    if (row && query !== null) parts.push(this.list(row, queries, query, "attends to", keys, "to", query, sink));
    if (column && key !== null) parts.push(this.list(column, keys, key, "is attended by", queries, "from", key, null));
    if (refused) parts.push(make("p", { class: "hint", role: "status" }, refused));
    if (parts.length === 0 && query === null && key === null) parts.push(make("p", { class: "hint" }, "Point at a token, or click one to hold it."));
    if (parts.length > 0 || refused) this.said.replaceChildren(...parts);
  }

  private list(known: Known, axis: Axis, at: number, verb: string, others: Axis, way: "to" | "from", from: number, sink: number | null): HTMLElement {
    const what = axis.kind === "grid" ? "Patch" : "Token";
    const head = make("p", { class: `from-${way}` }, `${what} ${at} `, make("q", {}, shownToken(axis, at)), ` ${verb}`);
    if (!known.meta.whole) head.append(make("small", {}, " (the largest only)"));
    if (this.held && (way === "to" || this.look === "from" || !this.one)) head.append(make("small", {}, " held, Esc frees"));
    const chips = make("div", { class: "keys-list" });
    const { b } = this.store.get();
    const start = this.layer().start[b] ?? 0;
    const seen = known.meta.top.filter((one) => one.at !== sink && one.p !== 0);
    const least = Math.abs(seen[0]?.p ?? 0) * WORTH;
    const top = seen.filter((one) => Math.abs(one.p) >= least).slice(0, CHIPS);
    for (const { at: other, p } of top) {
      const distance = way === "to" ? from + start - other : other + start - from;
      const chip = button("", () => this.store.set(way === "to" ? { key: other } : { query: other }), { class: "key", title: `position ${other}` });
      chip.append(make("span", {}, shownToken(others, other)));
      if (this.layer().kind === "self" && others.kind === "tokens") chip.append(make("i", {}, away(distance)));
      chip.append(make("b", {}, this.store.get().minus !== null && p > 0 ? `+${share(p)}` : share(p)));
      chips.append(chip);
    }
    if (top.length === 0) chips.append(make("p", { class: "hint" }, this.store.get().minus === null ? "nothing" : "nothing that differs"));
    return make("div", { class: "list" }, head, chips);
  }
}
