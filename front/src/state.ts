// All that the reader has chosen, as one value; the address holds the whole of it.

import type { Scene, Shown } from "./protocol";

export interface State {
  run: number;
  minus: number | null;
  layer: number;
  head: number;
  /** Row of the batch. */
  b: number;
  /** A second head beside the first, [layer, head]. */
  beside: [number, number] | null;
  /** Key and query in the middle of the map, and how many keys it spans; null = the whole pattern. */
  at: [number, number, number] | null;
  scale: "linear" | "sqrt" | "log";
  /** The value at the end of the colour bar, where it is locked; null = the largest that is shown. */
  range: number | null;
  pool: "mean" | "max";
  hide: boolean;
  norm: boolean;
  /** Kinds of heads that the overview shows; empty = all. */
  kinds: string[];
  /** How the overview orders heads: "place", or a score's name. */
  sort: string;
  /** Selected query and key. */
  query: number | null;
  key: number | null;
  /** Heads whose mean the text shows, "layer.head"; empty = the one on the map. */
  chosen: string[];
  panel: "text" | "profile" | "scores";
  /** What the text is shaded by: what a token attends to, what attends to it, or both. */
  look: "to" | "from" | "both";
  /** Small maps are as large as they get. */
  large: boolean;
  /** The profile's received attention on a logarithmic scale. */
  log: boolean;
  theme: "auto" | "light" | "dark";
}

/** `step`: the reader went somewhere else, and may want to go back. */
type Listener = (state: State, before: State, step: boolean) => void;

export class Store {
  private state: State;
  private readonly listeners = new Set<Listener>();

  constructor(first: State) {
    this.state = first;
  }

  get(): State {
    return this.state;
  }

  /** Changes part of the state and tells everybody, unless nothing changed. */
  set(change: Partial<State>): void {
    this.put(change, false);
  }

  /** The same for another place: another head, a link that was followed. The way back leads to the state before. */
  go(change: Partial<State>): void {
    this.put(change, true);
  }

  private put(change: Partial<State>, step: boolean): void {
    const before = this.state;
    const after = { ...before, ...change };
    if ((Object.keys(after) as (keyof State)[]).every((key) => Object.is(after[key], before[key]))) return;
    this.state = after;
    for (const listener of [...this.listeners]) listener(after, before, step);
  }

  subscribe(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

export function opening(scene: Scene): State {
  // Of two runs one wants to know what the second changed.
  const two = scene.runs.length === 2;
  return {
    run: two ? 1 : 0,
    minus: two ? 0 : null,
    layer: scene.open[0],
    head: scene.open[1],
    b: 0,
    beside: null,
    at: null,
    scale: "sqrt",
    range: null,
    pool: "mean",
    hide: false,
    norm: false,
    kinds: [],
    sort: "place",
    query: scene.query,
    key: null,
    chosen: [],
    panel: "text",
    look: "to",
    large: false,
    log: false,
    theme: "auto",
  };
}

/** The pattern on the map, as a question's parameters. */
export function shown(state: State, place: [number, number] = [state.layer, state.head]): Shown {
  return {
    run: state.run,
    ...(state.minus === null ? {} : { minus: state.minus }),
    layer: place[0],
    head: place[1],
    b: state.b,
    pool: state.pool,
    hide: state.hide ? 1 : 0,
    norm: state.norm ? 1 : 0,
  };
}
