// Small scenes and a Python side that computes tiles from a formula.

import { Refusal } from "../src/protocol";
import type { Answer, Axis, Layer, Name, Questions, Scene, Transport } from "../src/protocol";
import { coarsest } from "../src/view";

export const axis = (labels: string[], special: number[] = []): Axis => ({ kind: "tokens", name: "text", labels, special });

export function sceneOf(T: number, S: number, layer: Partial<Layer> = {}, axes: Partial<Record<"rows" | "cols", Axis>> = {}): Scene {
  const words = (n: number) => axis(Array.from({ length: n }, (_, i) => `w${i}`));
  const whole: Layer = {
    name: "model.0", label: "0", kind: T === S ? "self" : "cross", heads: 2, T, S, rows: [0], cols: [1], start: [S - T],
    causal: false, before: null, after: null, keys: [[0, S]], queries: [[0, T]], edged: true, sink: [0], ...layer,
  };
  return {
    title: "a model", subtitle: "", facts: [], runs: ["base", "edited", "third"], batch: 1, layers: [whole],
    axes: [axes.rows ?? words(T), axes.cols ?? words(S)], kinds: [], heads: null, tooFew: "", open: [0, 0], query: 0,
    side: 32, saved: null,
  };
}

type Params = Questions["tile"]["params"];

/** One question on its way. */
export interface Question {
  name: Name;
  params: Params;
  signal: AbortSignal | undefined;
  answer(): void;
  fail(error: Error): void;
}

/** Answers questions when it is told to; `at` gives the value of a pooled cell. */
export class Hand implements Transport {
  readonly open: Question[] = [];
  readonly all: Question[] = [];

  constructor(
    private readonly scene: Scene,
    private readonly at: (i: number, j: number, z: number) => number = (i, j) => Math.fround(1 / (2 + i + 3 * j)),
  ) {}

  ask<N extends Name>(name: N, params: Questions[N]["params"], signal?: AbortSignal): Promise<Answer<N>> {
    return new Promise((done, failed) => {
      const question: Question = {
        name,
        params: params as Params,
        signal,
        answer: () => {
          this.open.splice(this.open.indexOf(question), 1);
          done(this.tile(name, params as Params) as unknown as Answer<N>);
        },
        fail: (error) => {
          this.open.splice(this.open.indexOf(question), 1);
          failed(error);
        },
      };
      this.open.push(question);
      this.all.push(question);
    });
  }

  /** Answers whatever is asked, until nothing more is. */
  async answerAll(): Promise<void> {
    while (this.open.length) {
      for (const question of [...this.open]) question.answer();
      await settle();
    }
  }

  refuse(question: Question, says: string): void {
    question.fail(new Refusal(says));
  }

  private tile(name: Name, params: Params): Answer<"tile"> {
    const { T, S } = this.scene.layers[params.layer]!;
    const [z, r, c] = name === "preview" ? [coarsest(T, S), 0, 0] : [params.z, params.r, params.c];
    const pool = 2 ** z;
    const h = Math.min(256, Math.ceil(T / pool) - 256 * r);
    const w = Math.min(256, Math.ceil(S / pool) - 256 * c);
    const data = new Float32Array(h * w);
    for (let n = 0; n < data.length; n++) data[n] = this.at(256 * r + Math.floor(n / w), 256 * c + (n % w), z);
    return { meta: { z, r, c, h, w, exact: name !== "preview" }, data: data.buffer };
  }
}

/** Lets what was promised happen. */
export async function settle(): Promise<void> {
  for (let n = 0; n < 8; n++) await Promise.resolve();
}
