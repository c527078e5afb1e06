// A scene and the parts of a browser that the test DOM lacks.

import { vi } from "vitest";
import type { Answer, Axis, HeadScores, Kind, Layer, Name, Questions, Scene, Transport } from "../src/protocol";

export const HOSTILE = '<img src=x onerror="globalThis.hacked = true">';

export function tokens(count: number, name = "text"): Axis {
  const labels = Array.from({ length: count }, (_, at) => (at === 0 ? "<s>" : at === 3 ? HOSTILE : ` t${at}`));
  return { kind: "tokens", name, labels, special: [0] };
}

function layer(at: number, change: Partial<Layer>): Layer {
  return {
    name: `model.layers.${at}.attn`,
    label: String(at),
    kind: "self",
    heads: 3,
    T: 40,
    S: 40,
    rows: [0, 0],
    cols: [0, 0],
    start: [0, 0],
    causal: true,
    before: null,
    after: null,
    keys: [[0, change.S ?? 40], [0, change.S ?? 40]],
    queries: [[0, 40], [0, 40]],
    edged: true,
    sink: [0, 0],
    ...change,
  };
}

const kind = (name: string, letter: string, colour: string | null): Kind => ({ name, title: name.replace("_", " "), letter, means: `is ${name}`, margin: 0.2, least: colour ? 0.2 : null, colour });

/** Two layers of self attention with 3 and 2 heads over 40 tokens, one of cross attention with 3 over 40 x 25. */
export function scene(change: Partial<Scene> = {}): Scene {
  const layers = [layer(0, {}), layer(1, { heads: 2 }), layer(2, { kind: "cross", S: 25, cols: [1, 1], causal: false })];
  const head = (at: number, h: number, called: string, induction: number): HeadScores => ({
    layer: at,
    head: h,
    kind: called,
    entropy: 1 + h,
    scores: { induction, first_token: 1 - induction },
    chance: { induction: 0.05, first_token: 0.1 },
    few: h === 1 ? ["induction"] : [],
  });
  return {
    title: "A model",
    subtitle: HOSTILE,
    facts: [["heads", "8"]],
    runs: ["base", "changed", "third"],
    batch: 2,
    layers,
    axes: [tokens(40), tokens(25, "source")],
    kinds: [kind("induction", "I", "#d55e00"), kind("first_token", "F", "#8793a6"), kind("mixed", "·", null)],
    heads: [
      head(0, 0, "mixed", 0.1),
      head(0, 1, "induction", 0.8),
      head(0, 2, "first_token", 0.2),
      head(1, 0, "induction", 0.9),
      head(1, 1, "first_token", 0.3),
      head(2, 0, "mixed", 0.1),
      head(2, 1, "mixed", 0.15),
      head(2, 2, "mixed", 0.12),
    ],
    tooFew: "* too few",
    open: [0, 1],
    query: 10,
    side: 4,
    saved: null,
    ...change,
  };
}

/** Rows that fall off with the distance, columns the same; every map of the overview known and exact. */
export class Fake implements Transport {
  readonly asked: { name: Name; params: Record<string, unknown> }[] = [];

  constructor(readonly what: Scene) {}

  async ask<N extends Name>(name: N, params: Questions[N]["params"], signal?: AbortSignal): Promise<Answer<N>> {
    this.asked.push({ name, params: params as Record<string, unknown> });
    await Promise.resolve();
    signal?.throwIfAborted();
    return this.answer(name, params as never) as Answer<N>;
  }

  private answer(name: Name, params: Record<string, number> & { heads: string }): { meta: unknown; data: ArrayBuffer } {
    const all = this.what.layers.flatMap(({ heads }, at) => Array.from({ length: heads }, (_, head) => ({ layer: at, head, exact: true, scale: 1 })));
    if (name === "scene") return { meta: this.what, data: new ArrayBuffer(0) };
    if (name === "overview") return { meta: { version: 1, done: true, exact: all.length, of: all.length, heads: all }, data: new ArrayBuffer(all.length * this.what.side ** 2) };
    if (name === "row" || name === "column") {
      const { T, S } = this.what.layers[Number(params.heads.split(".")[0])] as Layer;
      const at = (name === "row" ? params.i : params.j) as number;
      const values = Float32Array.from({ length: name === "row" ? S : T }, (_, n) => 1 / (2 + Math.abs(at - n)));
      const top = [...values].map((p, n) => ({ at: n, p })).sort((a, b) => b.p - a.p).slice(0, 8);
      return { meta: { top, whole: true }, data: values.buffer };
    }
    if (name === "profile") {
      const { T, S } = this.what.layers[params.layer as number] as Layer;
      const meta = { offsets: [0.5, 0.3, 0.2], limit: 2, after: 0, entropy: 1.5, received: [{ at: 4, p: 7 }], links: [{ i: 9, j: 3, p: 0.9 }] };
      return { meta, data: new Float32Array(T + S).fill(1).buffer };
    }
    return { meta: { z: 0, r: 0, c: 0, h: 1, w: 1, exact: true }, data: new Float32Array(1).buffer };
  }
}

/** What scrolls in and out of sight, at the test's word. */
export class Sight {
  static all: Sight[] = [];
  readonly watched = new Set<Element>();

  constructor(private readonly seen: (entries: { target: Element; isIntersecting: boolean; boundingClientRect: { height: number } }[]) => void) {
    Sight.all.push(this);
  }

  observe(node: Element): void {
    this.watched.add(node);
  }

  disconnect(): void {
    this.watched.clear();
  }

  tell(blocks: Element[], isIntersecting: boolean): void {
    this.seen(blocks.map((target) => ({ target, isIntersecting, boundingClientRect: { height: 100 } })));
  }
}

export function browser(): void {
  Sight.all = [];
  vi.stubGlobal("IntersectionObserver", Sight);
  vi.stubGlobal("ResizeObserver", class {
    observe(): void {}
    disconnect(): void {}
  });
  vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener: () => {}, removeEventListener: () => {} }));
  vi.stubGlobal("CSSStyleSheet", class {
    replaceSync(): void {}
  });
  HTMLCanvasElement.prototype.getContext = (() => null) as never;
  HTMLDialogElement.prototype.showModal = function (this: HTMLDialogElement) {
    this.open = true;
  };
}

/** Until what was asked is answered and drawn: in turns of the event loop, since a busy machine makes each take longer. */
export async function settled(ms = 120): Promise<void> {
  for (let turn = 0; turn < ms / 10; turn++) await new Promise((resolve) => setTimeout(resolve, 10));
}
