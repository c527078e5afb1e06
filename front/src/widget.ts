// Questions to the Python side over a notebook's comm channel.

import { Refusal } from "./protocol";
import type { Answer, Name, Questions, Transport } from "./protocol";

/** What a widget library hands to a view; only what is used here. */
export interface Model {
  send(content: unknown): void;
  on(event: "msg:custom", listener: (message: unknown, buffers: unknown) => void): void;
  off(event: "msg:custom", listener: (message: unknown, buffers: unknown) => void): void;
}

interface Waiting {
  resolve: (answer: Answer<Name>) => void;
  reject: (why: unknown) => void;
}

// Several views of one model hear each other's answers, so a question's name is drawn once for all of them.
let asked = 0;

/** A buffer of a message may be a view into a larger one. */
function bytesOf(buffers: unknown): ArrayBuffer {
  const first: unknown = Array.isArray(buffers) ? buffers[0] : undefined;
  if (first instanceof ArrayBuffer) return first;
  if (ArrayBuffer.isView(first)) {
    return new Uint8Array(first.buffer, first.byteOffset, first.byteLength).slice().buffer as ArrayBuffer;
  }
  return new ArrayBuffer(0);
}

export class Widget implements Transport {
  private readonly model: Model;
  private readonly waiting = new Map<string, Waiting>();

  constructor(model: Model) {
    this.model = model;
    model.on("msg:custom", this.heard);
  }

  ask<N extends Name>(name: N, params: Questions[N]["params"], signal?: AbortSignal): Promise<Answer<N>> {
    const id = `q${++asked}`;
    return new Promise<Answer<N>>((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      this.waiting.set(id, { resolve: resolve as (answer: Answer<Name>) => void, reject });
      signal?.addEventListener("abort", () => {
        if (this.waiting.delete(id)) reject(signal.reason);
      });
      this.model.send({ id, name, params });
    });
  }

  destroy(): void {
    this.model.off("msg:custom", this.heard);
    for (const { reject } of this.waiting.values()) reject(new DOMException("The view was closed.", "AbortError"));
    this.waiting.clear();
  }

  private readonly heard = (message: unknown, buffers: unknown): void => {
    const { id, meta, refusal } = message as { id?: string; meta?: never; refusal?: string };
    const one = id === undefined ? undefined : this.waiting.get(id);
    if (!one || id === undefined) return;
    this.waiting.delete(id);
    if (refusal !== undefined) one.reject(new Refusal(refusal));
    else one.resolve({ meta: meta as never, data: bytesOf(buffers) });
  };
}
