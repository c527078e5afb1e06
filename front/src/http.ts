// Questions to the Python side over HTTP.

import { Refusal, unframe } from "./protocol";
import type { Answer, Name, Questions, Transport } from "./protocol";

/** Nobody is there to answer: a state of the connection, not of one question. */
export class Lost extends Refusal {}

/** Nobody had time for the question: it may be asked again in a while. */
export class Busy extends Refusal {}

/** The other side failed at a question that may be right. */
export class Failed extends Refusal {}

const GONE = "The Python side no longer answers: its process was stopped, or the connection to it broke.";

/** What is wrong with the question itself has status 400; no other status says that it will not be answered later. */
async function refusalOf(answer: Response): Promise<Refusal> {
  const says = await sentenceOf(answer);
  if (answer.status === 400) return new Refusal(says);
  return answer.status === 503 ? new Busy(says) : new Failed(says);
}

/** The sentence of a refused question; a proxy's error page holds none. */
async function sentenceOf(answer: Response): Promise<string> {
  try {
    const said: unknown = await answer.json();
    if (said && typeof said === "object" && "sentence" in said && typeof said.sentence === "string") return said.sentence;
  } catch {
    // No JSON: said below.
  }
  return `The server refused the question with status ${answer.status}.`;
}

export class Http implements Transport {
  private readonly token: string;

  constructor(token: string) {
    this.token = token;
  }

  async ask<N extends Name>(name: N, params: Questions[N]["params"], signal?: AbortSignal): Promise<Answer<N>> {
    const query = new URLSearchParams();
    for (const [key, value] of Object.entries(params)) if (value !== undefined) query.set(key, String(value));
    let answer: Response;
    let frame: ArrayBuffer;
    try {
      answer = await fetch(`ask/${name}?${query}`, { headers: { "X-Headwise-Token": this.token }, signal: signal ?? null });
      if (!answer.ok) throw await refusalOf(answer);
      frame = await answer.arrayBuffer();
    } catch (error) {
      if (error instanceof Refusal || signal?.aborted) throw error;
      throw new Lost(GONE);
    }
    return unframe<N>(frame);
  }
}
