// What one head does over the whole text, or two heads side by side: by distance, along the queries, along the keys.

import { Chart } from "./chart";
import type { Curve, Series } from "./chart";
import { kindOf, layerOf, placeName, title } from "./choosing";
import type { Place } from "./choosing";
import { button, make } from "./dom";
import { fixed, isBare, named, NO_NUMBER, numeric, plural, signed, sum } from "./numbers";
import type { Axis, ProfileMeta, Scene, Transport } from "./protocol";
import type { State, Store } from "./state";
import { away, count, share, shownToken } from "./words";

/** Keys that the map shows around a link that was asked for. */
const AROUND = 24;
/** Rows of a table. */
const ROWS = 10;

interface Known {
  place: Place;
  meta: ProfileMeta;
  offsets: number[];
  entropy: Float32Array;
  received: Float32Array;
}

type Line = "offsets" | "entropy" | "received";

/** Entries of a profile by distance, from the farthest ahead that either has to the farthest behind. */
function aligned({ meta, offsets }: Known, after: number, limit: number): number[] {
  return Array.from({ length: after + limit + 1 }, (_, at) => offsets[at - after + meta.after] ?? NaN);
}

export class ProfilePanel {
  private readonly scene: Scene;
  private readonly store: Store;
  private readonly transport: Transport;
  private readonly host: HTMLElement;
  private readonly status = make("p", { class: "hint", role: "status" });
  private readonly legend = make("p", { class: "legend" });
  private readonly body = make("div", { class: "profile" });
  private readonly charts: Record<Line, Chart> = { offsets: new Chart(150), entropy: new Chart(140), received: new Chart(140) };
  private readonly log = make("input", { type: "checkbox" });
  private readonly near = make("small");
  private readonly distances: HTMLElement;
  private readonly keys = make("div");
  private readonly links = make("div");
  private readonly linked: HTMLElement;
  private readonly most = make("h3");
  private readonly unsubscribe: () => void;
  private readonly watcher: ResizeObserver;
  /** Of the head on the map, and of the one beside it. */
  private known: Known[] = [];
  private loaded = "";
  private loading = new AbortController();
  private asked = "";
  private refused = false;

  constructor(host: HTMLElement, scene: Scene, store: Store, transport: Transport) {
    this.scene = scene;
    this.store = store;
    this.transport = transport;
    this.host = host;
    this.log.addEventListener("change", () => store.set({ log: this.log.checked }));
    const part = (name: string, node: HTMLElement, head: HTMLElement = make("h3", {}, name), extra: HTMLElement | null = null) =>
      make("section", { "aria-label": name }, make("div", { class: "part-head" }, head, extra), node);
    const heading = (name: string) => make("h3", {}, name);
    this.distances = part("Attention by distance", this.charts.offsets.node, heading("Attention by distance"), this.near);
    this.linked = part("Strongest links", this.links);
    this.body.append(
      this.distances,
      part("Entropy along the queries", this.charts.entropy.node),
      part("Attention received along the keys", this.charts.received.node, heading("Attention received along the keys"), make("label", {}, this.log, " logarithmic")),
      part("Keys", this.keys, this.most),
      this.linked,
    );
    this.body.hidden = true;
    host.classList.add("scroll");
    host.append(this.status, this.legend, this.body);
    this.watcher = new ResizeObserver(() => this.draw());
    this.watcher.observe(this.body);
    this.unsubscribe = store.subscribe((now, before) => {
      // What was refused is asked again when it is looked at again.
      if (this.refused && now.panel !== before.panel) this.asked = "";
      if (now.panel === "profile") this.load();
      if (now.query !== before.query || now.key !== before.key || now.theme !== before.theme || now.log !== before.log) this.draw();
    });
    this.load();
  }

  destroy(): void {
    this.unsubscribe();
    this.watcher.disconnect();
    this.loading.abort();
  }

  /** The head on the map, and the other one where there is one beside it. */
  private places({ layer, head, beside }: State): Place[] {
    const here: Place = [layer, head];
    return beside && placeName(beside) !== placeName(here) ? [here, beside] : [here];
  }

  /** Asked when it is looked at: it goes over the whole pattern. */
  private load(): void {
    const state = this.store.get();
    if (state.panel !== "profile") return;
    const { run, minus, b } = state;
    const places = this.places(state);
    const words = JSON.stringify([run, minus, b, places]);
    if (words === this.asked) return;
    this.asked = words;
    this.loading.abort();
    const { signal } = (this.loading = new AbortController());
    this.status.textContent = `Reading the whole pattern of ${places.map((place) => title(this.scene, place)).join(" and ")} …`;
    this.host.removeAttribute("data-ready");
    const ask = async ([layer, head]: Place): Promise<Known> => {
      const { meta, data } = await this.transport.ask("profile", { run, ...(minus === null ? {} : { minus }), layer, head, b }, signal);
      const all = new Float32Array(data);
      const { T } = layerOf(this.scene, [layer, head]);
      return { place: [layer, head], meta, offsets: meta.offsets.map(numeric), entropy: all.subarray(0, T), received: all.subarray(T) };
    };
    void Promise.allSettled(places.map(ask)).then(([here, beside]) => {
      if (signal.aborted || !here) return;
      const refused = [here, beside].find((one) => one?.status === "rejected");
      const says: unknown = refused?.status === "rejected" ? refused.reason : "";
      this.status.textContent = says instanceof Error ? says.message : String(says);
      this.status.hidden = says === "";
      this.refused = refused !== undefined;
      this.body.hidden = here.status === "rejected";
      this.loaded = words;
      this.known = [here, beside].flatMap((one) => (one?.status === "fulfilled" ? [one.value] : []));
      this.draw();
      this.host.toggleAttribute("data-ready", here.status === "fulfilled");
    });
    this.status.hidden = false;
  }

  private axes([layer, head]: Place): [queries: Axis, keys: Axis] {
    const { b } = this.store.get();
    const { rows, cols } = layerOf(this.scene, [layer, head]);
    return [this.scene.axes[rows[b] as number] as Axis, this.scene.axes[cols[b] as number] as Axis];
  }

  /** Whether a line of the other head lies along the same tokens. */
  private comparable(line: Line, here: Known, other: Known): boolean {
    const [a, b] = [this.axes(here.place), this.axes(other.place)];
    if (line === "offsets") return layerOf(this.scene, other.place).kind === "self";
    return line === "entropy" ? a[0] === b[0] : a[1] === b[1];
  }

  private draw(): void {
    // What is known is of the run and row that were asked for: while others are on their way it stays as it is drawn.
    if (this.loaded !== this.asked) return;
    const [here, beside] = this.known;
    if (!here || this.body.hidden || this.body.clientWidth === 0) return;
    this.sayLegend(here, beside);
    this.drawOffsets(here, beside);
    this.drawEntropy(here, beside);
    this.drawReceived(here, beside);
    this.tables(here);
  }

  private sayLegend(here: Known, beside: Known | undefined): void {
    this.legend.hidden = !beside;
    if (!beside) return;
    const name = ({ place }: Known, sign: string, way: string) => make("span", {}, make("i", { class: way, "aria-hidden": "true" }, sign), ` ${title(this.scene, place)}`);
    const alone = (["offsets", "entropy", "received"] as const).every((line) => !this.comparable(line, here, beside));
    const other = alone ? make("span", {}, `${title(this.scene, beside.place)} is over other tokens`) : name(beside, "╌", "second");
    this.legend.replaceChildren(name(here, "■", "first"), other);
  }

  /** One head in its own colour, two in the first and the second. */
  private curves(line: Line, values: (of: Known) => ArrayLike<number>, colour: string, here: Known, beside: Known | undefined): Pick<Series, "curves" | "most" | "nothing"> & { other: ArrayLike<number> | null } {
    const other = beside && this.comparable(line, here, beside) ? values(beside) : null;
    const curves: [Curve, ...Curve[]] = [{ values: values(here), colour: other ? "var(--cool)" : colour }];
    if (other) curves.push({ values: other, colour: "var(--warm)" });
    const apart = this.apart;
    return { curves, other, most: apart ? "Most changed" : "Most", nothing: apart ? "nothing that differs" : "nothing" };
  }

  private get apart(): boolean {
    return this.store.get().minus !== null;
  }

  private said(how: (x: number) => string, x: number | undefined): string {
    if (x === undefined || !Number.isFinite(x)) return NO_NUMBER;
    return this.apart ? signed(how(x), x) : how(x);
  }

  private drawOffsets(here: Known, beside: Known | undefined): void {
    const { kind, T, S } = layerOf(this.scene, here.place);
    this.distances.hidden = kind === "cross";
    if (kind === "cross") return;
    const both = [here, ...(beside && this.comparable("offsets", here, beside) ? [beside] : [])];
    const after = Math.max(...both.map(({ meta }) => meta.after));
    const limit = Math.max(...both.map(({ meta }) => meta.limit));
    this.near.textContent = limit < Math.max(T, S) - 1 ? `first ${plural(limit, "distance")}` : "";
    const colour = kindOf(this.scene, here.place)?.colour ?? "var(--bar)";
    const { other, ...drawn } = this.curves("offsets", (of) => aligned(of, after, limit), colour, here, beside);
    const values = drawn.curves[0].values;
    const distance = (d: number) => (d === 0 ? "at the query itself" : away(d));
    this.charts.offsets.show({
      ...drawn,
      name: "Mean probability by distance of the key",
      first: -after,
      backwards: true,
      bars: true,
      across: after > 0 ? "tokens behind the query (negative: ahead)" : "tokens behind the query",
      say: (at) => `${this.said(share, values[at])}${other ? ` and ${this.said(share, other[at])}` : ""} mean probability, ${distance(at - after)}`,
    });
  }

  private drawEntropy(here: Known, beside: Known | undefined): void {
    const { other, ...drawn } = this.curves("entropy", ({ entropy }) => entropy, "var(--cool)", here, beside);
    const values = drawn.curves[0].values;
    const [queries] = this.axes(here.place);
    const nats = (x: number) => fixed(x, 2);
    const even = (x: number | undefined) => (this.apart || x === undefined || !Number.isFinite(x) ? "" : `, as over ${plural(Math.round(Math.exp(x)), "even key")},`);
    const means = [here, ...(other && beside ? [beside] : [])].map(({ meta }) => this.said(nats, numeric(meta.entropy)));
    this.charts.entropy.show({
      ...drawn,
      name: "Entropy of each query's probabilities",
      first: 0,
      across: `query position; mean ${means.join(" and ")} nats`,
      say: (at) => `${this.said(nats, values[at])}${other ? ` and ${this.said(nats, other[at])}` : ""} nats${other ? "" : even(values[at])} at query ${named(queries, at)}`,
      pick: (at) => this.store.set({ query: at }),
      mark: this.store.get().query,
    });
  }

  private drawReceived(here: Known, beside: Known | undefined): void {
    const { other, ...drawn } = this.curves("received", ({ received }) => received, "var(--warm)", here, beside);
    const values = drawn.curves[0].values;
    const [, keys] = this.axes(here.place);
    const { log, key } = this.store.get();
    this.log.disabled = this.apart;
    this.log.checked = log && !this.apart;
    this.charts.received.show({
      ...drawn,
      name: "Attention that each key received, summed over queries",
      first: 0,
      log: log && !this.apart,
      bars: true,
      across: "key position; sum over queries",
      say: (at) => `${this.said(sum, values[at])}${other ? ` and ${this.said(sum, other[at])}` : ""} in all, by key ${named(keys, at)}`,
      pick: (at) => this.go(null, at),
      mark: key,
    });
  }

  /** Of the head on the map. */
  private tables({ place, meta }: Known): void {
    const { b } = this.store.get();
    const [queries, keys] = this.axes(place);
    const { T, kind, start } = layerOf(this.scene, place);
    const { apart } = this;
    const most = Math.abs(meta.received[0]?.p ?? 1) || 1;
    const received = meta.received.slice(0, ROWS).map(({ at, p }) => {
      const bar = make("span", { class: `fill${apart && p < 0 ? " less" : ""}` });
      bar.style.width = `${Math.max(1, (100 * Math.abs(p)) / most)}%`;
      return make("tr", {}, make("td", {}, this.token(keys, at, () => this.go(null, at))), make("td", { class: "wide" }, bar), number(this.said(sum, p)), number(this.said(share, p / T)));
    });
    this.most.textContent = apart ? "Keys that changed most" : "Keys that received most";
    this.keys.replaceChildren(table(["key", "relative", apart ? "change" : "received", "per query"], received, apart ? "nothing that differs" : "nothing"));
    // Each run's strongest links need not be those of a difference.
    this.linked.hidden = apart;
    const far = kind === "self";
    const links = meta.links.slice(0, ROWS).map(({ i, j, p }) => {
      const goes = () => this.go(i, j);
      const cells = [make("td", {}, this.token(queries, i, goes)), make("td", {}, this.token(keys, j, goes))];
      return make("tr", {}, ...cells, far ? number(away(i + (start[b] ?? 0) - j)) : null, number(share(p)));
    });
    this.links.replaceChildren(table(["query", "key", ...(far ? ["distance"] : []), "p"], links, "nothing"));
  }

  private token(axis: Axis, at: number, goes: () => void): HTMLElement {
    const node = button("", goes, { class: "key" });
    node.append(make("i", {}, count(at)), isBare(axis) ? "" : make("span", {}, shownToken(axis, at)));
    return node;
  }

  /** Shows a key, or a link, on the map and in the text. A key alone: near the queries that come right after it. */
  private go(query: number | null, key: number): void {
    const state = this.store.get();
    const { T, S, kind, start } = layerOf(this.scene, [state.layer, state.head]);
    const span = Math.min(S, AROUND);
    const near = kind === "self" ? key - (start[state.b] ?? 0) + span / 4 : (state.query ?? T / 2);
    const to = Math.min(T - 1, Math.max(0, query ?? near));
    this.store.go({ key, ...(query === null ? {} : { query }), at: [key + 0.5, to + 0.5, span] });
  }
}

const number = (says: string): HTMLElement => make("td", { class: "n" }, says);

function table(columns: string[], rows: HTMLElement[], nothing: string): HTMLElement {
  if (rows.length === 0) return make("p", { class: "hint" }, nothing);
  return make("table", {}, make("thead", {}, make("tr", {}, ...columns.map((name) => make("th", { scope: "col" }, name)))), make("tbody", {}, ...rows));
}
