// What one head does over the whole text: by distance, along the queries, along the keys.

import { Chart } from "./chart";
import { kindOf, layerOf, title } from "./choosing";
import { button, make } from "./dom";
import type { Axis, ProfileMeta, Scene, Transport } from "./protocol";
import type { State, Store } from "./state";
import { away, count, share, shownToken } from "./words";

/** A sum of probabilities: "0.42", "12,345". */
const sum = (p: number): string => (Math.abs(p) >= 100 ? count(Math.round(p)) : p.toFixed(2));

/** Keys that the map shows around a link that was asked for. */
const AROUND = 24;

interface Known {
  meta: ProfileMeta;
  entropy: Float32Array;
  received: Float32Array;
}

export class ProfilePanel {
  private readonly scene: Scene;
  private readonly store: Store;
  private readonly transport: Transport;
  private readonly host: HTMLElement;
  private readonly status = make("p", { class: "hint", role: "status" });
  private readonly body = make("div", { class: "profile" });
  private readonly offsets = new Chart(150);
  private readonly entropy = new Chart(140);
  private readonly received = new Chart(140);
  private readonly log = make("input", { type: "checkbox" });
  private readonly keys = make("tbody");
  private readonly links = make("tbody");
  private readonly unsubscribe: () => void;
  private readonly watcher: ResizeObserver;
  private known: Known | null = null;
  private loading = new AbortController();
  private asked = "";

  constructor(host: HTMLElement, scene: Scene, store: Store, transport: Transport) {
    this.scene = scene;
    this.store = store;
    this.transport = transport;
    this.host = host;
    this.log.addEventListener("change", () => this.draw());
    this.body.append(
      this.part("Attention by distance", this.offsets.node),
      this.part("Entropy along the queries", this.entropy.node),
      this.part("Attention received along the keys", this.received.node, make("label", {}, this.log, " logarithmic")),
      this.part("Keys that received most", table(["key", "relative", "received", "per query"], this.keys)),
      this.part("Strongest links", table(["query", "key", "distance", "p"], this.links)),
    );
    this.body.hidden = true;
    host.classList.add("scroll");
    host.append(this.status, this.body);
    this.watcher = new ResizeObserver(() => this.draw());
    this.watcher.observe(this.body);
    this.unsubscribe = store.subscribe((now, before) => {
      if (now.panel === "profile") this.load();
      if (now.query !== before.query || now.key !== before.key || now.theme !== before.theme) this.draw();
    });
    this.load();
  }

  destroy(): void {
    this.unsubscribe();
    this.watcher.disconnect();
    this.loading.abort();
  }

  private part(name: string, node: HTMLElement, extra: HTMLElement | null = null): HTMLElement {
    return make("section", { "aria-label": name }, make("div", { class: "part-head" }, make("h3", {}, name), extra), node);
  }

  /** Asked when it is looked at: it goes over the whole pattern. */
  private load(): void {
    const { panel, run, minus, layer, head, b } = this.store.get();
    if (panel !== "profile") return;
    const params = { run, ...(minus === null ? {} : { minus }), layer, head, b };
    const words = JSON.stringify(params);
    if (words === this.asked) return;
    this.asked = words;
    this.loading.abort();
    const { signal } = (this.loading = new AbortController());
    this.status.textContent = `Reading the whole pattern of ${title(this.scene, [layer, head]).toLowerCase()} …`;
    this.host.removeAttribute("data-ready");
    this.transport.ask("profile", params, signal).then(
      ({ meta, data }) => {
        if (signal.aborted) return;
        const all = new Float32Array(data);
        const { T } = layerOf(this.scene, [layer, head]);
        this.known = { meta, entropy: all.subarray(0, T), received: all.subarray(T) };
        this.status.textContent = "";
        this.body.hidden = false;
        this.draw();
        this.host.toggleAttribute("data-ready", true);
      },
      (error: unknown) => {
        if (signal.aborted) return;
        this.asked = "";
        this.body.hidden = true;
        this.status.textContent = error instanceof Error ? error.message : String(error);
      },
    );
  }

  private axes(state: State): [queries: Axis, keys: Axis] {
    const layer = layerOf(this.scene, [state.layer, state.head]);
    return [this.scene.axes[layer.rows[state.b] as number] as Axis, this.scene.axes[layer.cols[state.b] as number] as Axis];
  }

  private draw(): void {
    if (!this.known || this.body.clientWidth === 0) return;
    const state = this.store.get();
    const { meta, entropy, received } = this.known;
    const [queries, keys] = this.axes(state);
    const colour = kindOf(this.scene, [state.layer, state.head])?.colour ?? "var(--bar)";
    const apart = state.minus !== null;
    const signed = (said: string, x: number) => (apart && x > 0 ? `+${said}` : said);
    const even = (nats: number) => (apart ? "" : `, as over ${count(Math.round(Math.exp(nats)))} even keys,`);
    this.log.disabled = apart;
    const distance = (d: number) => (d === 0 ? "at the query itself" : away(d));
    this.offsets.show({
      name: "Mean probability by distance of the key",
      values: meta.offsets,
      first: -meta.after,
      backwards: true,
      bars: true,
      colour,
      across: meta.after > 0 ? "tokens behind the query (negative: ahead)" : "tokens behind the query",
      say: (at, p) => `${signed(share(p), p)} mean probability, ${distance(at - meta.after)}`,
    });
    this.entropy.show({
      name: "Entropy of each query's probabilities",
      values: entropy,
      first: 0,
      colour: "var(--cool)",
      across: `query position; mean ${signed(String(Number(meta.entropy.toFixed(2))), meta.entropy)} nats`,
      say: (at, nats) => `${signed(nats.toFixed(2), nats)} nats${even(nats)} at query ${count(at)} ${shownToken(queries, at)}`,
      pick: (at) => this.store.set({ query: at }),
      mark: state.query,
    });
    this.received.show({
      name: "Attention that each key received, summed over queries",
      values: received,
      first: 0,
      log: this.log.checked && !apart,
      bars: true,
      colour: "var(--warm)",
      across: "key position; sum over queries",
      say: (at, mass) => `${signed(sum(mass), mass)} in all, by key ${count(at)} ${shownToken(keys, at)}`,
      pick: (at) => this.go(null, at),
      mark: state.key,
    });
    this.tables(meta, queries, keys);
  }

  private tables(meta: ProfileMeta, queries: Axis, keys: Axis): void {
    const { layer, head, b } = this.store.get();
    const { T, kind, start } = layerOf(this.scene, [layer, head]);
    const most = Math.abs(meta.received[0]?.p ?? 1) || 1;
    this.keys.replaceChildren(
      ...meta.received.slice(0, 10).map(({ at, p }) => {
        const bar = make("span", { class: "fill" });
        bar.style.width = `${Math.max(1, (100 * Math.abs(p)) / most)}%`;
        return make("tr", {}, make("td", {}, this.token(keys, at, () => this.go(null, at))), make("td", { class: "wide" }, bar), make("td", { class: "n" }, sum(p)), make("td", { class: "n" }, share(p / T)));
      }),
    );
    this.links.replaceChildren(
      ...meta.links.slice(0, 10).map(({ i, j, p }) => {
        const goes = () => this.go(i, j);
        const far = kind === "self" ? away(i + (start[b] ?? 0) - j) : "";
        return make("tr", {}, make("td", {}, this.token(queries, i, goes)), make("td", {}, this.token(keys, j, goes)), make("td", { class: "n" }, far), make("td", { class: "n" }, share(p)));
      }),
    );
  }

  private token(axis: Axis, at: number, goes: () => void): HTMLElement {
    const node = button("", goes, { class: "key" });
    node.append(make("i", {}, String(at)), make("span", {}, shownToken(axis, at)));
    return node;
  }

  /** Shows a key, or a link, on the map and in the text. A key alone: near the queries that come right after it. */
  private go(query: number | null, key: number): void {
    const state = this.store.get();
    const { T, S, kind, start } = layerOf(this.scene, [state.layer, state.head]);
    const span = Math.min(S, AROUND);
    const near = kind === "self" ? key - (start[state.b] ?? 0) + span / 4 : (state.query ?? T / 2);
    const to = Math.min(T - 1, Math.max(0, query ?? near));
    this.store.set({ key, ...(query === null ? {} : { query }), at: [key + 0.5, to + 0.5, span] });
  }
}

function table(columns: string[], body: HTMLTableSectionElement): HTMLTableElement {
  return make("table", {}, make("thead", {}, make("tr", {}, ...columns.map((name) => make("th", { scope: "col" }, name)))), body);
}
