// One row or one column of a pattern: asked a moment after the pointer stopped, given up when it moved on.

import { later } from "./dom";
import type { LineMeta, Questions, Transport } from "./protocol";

export interface Known {
  /** The query of a row, the key of a column. */
  at: number;
  values: Float32Array;
  meta: LineMeta;
}

const WAIT = 60;

export class Line<N extends "row" | "column"> {
  known: Known | null = null;
  refusal: string | null = null;
  private readonly name: N;
  private readonly transport: Transport;
  private readonly changed: () => void;
  private readonly soon = later(WAIT, () => void this.load());
  private wanted: Questions[N]["params"] | null = null;
  private asked = "";
  private loading = new AbortController();

  constructor(name: N, transport: Transport, changed: () => void) {
    this.name = name;
    this.transport = transport;
    this.changed = changed;
  }

  /** `null`: nothing is asked, nothing is shown. */
  want(params: Questions[N]["params"] | null): void {
    const words = JSON.stringify(params);
    if (words === this.asked) return;
    this.asked = words;
    this.loading.abort();
    this.wanted = params;
    if (params === null) {
      this.soon.never();
      this.known = this.refusal = null;
      this.changed();
    } else this.soon.soon();
  }

  destroy(): void {
    this.soon.never();
    this.loading.abort();
  }

  private async load(): Promise<void> {
    const { wanted } = this;
    if (wanted === null) return;
    const { signal } = (this.loading = new AbortController());
    try {
      const { meta, data } = await this.transport.ask(this.name, wanted, signal);
      if (signal.aborted) return;
      this.known = { at: "i" in wanted ? wanted.i : wanted.j, meta, values: new Float32Array(data) };
      this.refusal = null;
    } catch (error) {
      if (signal.aborted) return;
      this.known = null;
      this.refusal = error instanceof Error ? error.message : String(error);
    }
    this.changed();
  }
}
