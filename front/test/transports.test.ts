import { afterEach, describe, expect, it, vi } from "vitest";
import { Busy, Failed, Http, Lost } from "../src/http";
import { Watched } from "../src/notices";
import { Refusal } from "../src/protocol";
import { Widget } from "../src/widget";
import type { Model } from "../src/widget";

/** As the Python side frames an answer. */
function frame(meta: unknown, data: Float32Array): Uint8Array<ArrayBuffer> {
  const text = new TextEncoder().encode(JSON.stringify(meta));
  const padded = Math.ceil(text.length / 4) * 4;
  const out = new Uint8Array(4 + padded + data.byteLength);
  out.fill(32);
  new DataView(out.buffer).setUint32(0, padded, true);
  out.set(text, 4);
  out.set(new Uint8Array(data.buffer), 4 + padded);
  return out;
}

const ROW = { run: 0, heads: "0.1", b: 0, i: 3 };

describe("over HTTP", () => {
  afterEach(() => vi.unstubAllGlobals());
  const server = (answer: (url: string, init: RequestInit) => Promise<Response> | Response) => {
    const spy = vi.fn(async (url: string, init: RequestInit) => answer(url, init));
    vi.stubGlobal("fetch", spy);
    return spy;
  };

  it("asks with the token and takes the answer apart", async () => {
    const spy = server(() => new Response(frame({ top: [], whole: true }, Float32Array.of(0.25, 0.75))));
    const { meta, data } = await new Http("secret").ask("row", { ...ROW, minus: undefined as never });
    expect(spy.mock.calls[0]?.[0]).toBe("ask/row?run=0&heads=0.1&b=0&i=3");
    expect(new Headers(spy.mock.calls[0]?.[1].headers).get("X-Headwise-Token")).toBe("secret");
    expect(meta.whole).toBe(true);
    expect([...new Float32Array(data)]).toEqual([0.25, 0.75]);
  });

  it.each([400, 403, 404, 500])("makes a refusal of status %i and its sentence", async (status) => {
    server(() => new Response(JSON.stringify({ sentence: "There is no head 9.9." }), { status }));
    const asked = new Http("t").ask("row", ROW);
    await expect(asked).rejects.toThrow("There is no head 9.9.");
    await expect(asked).rejects.toBeInstanceOf(Refusal);
    await expect(asked).rejects.not.toBeInstanceOf(Lost);
  });

  it("tells a question that is wrong from one that may be asked again", async () => {
    const kinds: Record<number, string> = {};
    for (const status of [400, 403, 404, 500, 502, 503]) {
      server(() => new Response("{}", { status }));
      const error: unknown = await new Http("t").ask("row", ROW).catch((error: unknown) => error);
      kinds[status] = error instanceof Busy ? "busy" : error instanceof Failed ? "failed" : "wrong";
    }
    expect(kinds).toEqual({ 400: "wrong", 403: "failed", 404: "failed", 500: "failed", 502: "failed", 503: "busy" });
  });

  it("makes a refusal of an error page without a sentence", async () => {
    server(() => new Response("<h1>Bad gateway</h1>", { status: 502 }));
    await expect(new Http("t").ask("row", ROW)).rejects.toThrow("status 502");
  });

  it("tells a server that is gone from one that refuses", async () => {
    server(() => Promise.reject(new TypeError("Failed to fetch")));
    await expect(new Http("t").ask("row", ROW)).rejects.toBeInstanceOf(Lost);
  });

  it("gives up what is not wanted any more, which is no lost server", async () => {
    server((_, init) => new Promise((_resolve, reject) => init.signal?.addEventListener("abort", () => reject(init.signal?.reason as Error))));
    const wish = new AbortController();
    const asked = new Http("t").ask("row", ROW, wish.signal);
    wish.abort();
    await expect(asked).rejects.toMatchObject({ name: "AbortError" });
  });

  it("says once that nobody answers, and asks no more", async () => {
    const spy = server(() => Promise.reject(new TypeError("Failed to fetch")));
    const told = vi.fn();
    const watched = new Watched(new Http("t"), told);
    const all = await Promise.allSettled([1, 2, 3].map((i) => watched.ask("row", { ...ROW, i })));
    await expect(watched.ask("row", ROW)).rejects.toBeInstanceOf(Lost);
    expect(all.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
    expect(told).toHaveBeenCalledTimes(1);
    expect(spy).toHaveBeenCalledTimes(3);
  });
});

describe("over a notebook's channel", () => {
  function notebook() {
    const sent: { id: string; name: string; params: unknown }[] = [];
    const listeners = new Set<(message: unknown, buffers: unknown) => void>();
    const model: Model = {
      send: (content) => void sent.push(content as never),
      on: (_, listener) => void listeners.add(listener),
      off: (_, listener) => void listeners.delete(listener),
    };
    const hear = (message: unknown, buffers: unknown[] = []) => listeners.forEach((listener) => listener(message, buffers));
    return { sent, listeners, model, hear };
  }

  it("finds each answer's question by its id, in whatever order they come", async () => {
    const { sent, model, hear } = notebook();
    const widget = new Widget(model);
    const [one, two] = [widget.ask("row", ROW), widget.ask("row", { ...ROW, i: 4 })];
    expect(sent.map(({ name }) => name)).toEqual(["row", "row"]);
    expect(sent[0]?.id).not.toBe(sent[1]?.id);
    // A view that does not begin where its buffer begins, nor at a multiple of 4.
    const holder = new Uint8Array(11);
    holder.set(new Uint8Array(Float32Array.of(0.5).buffer), 3);
    hear({ id: "somebody else's" }, []);
    hear({ id: sent[1]?.id, meta: { whole: false } }, [new DataView(holder.buffer, 3, 4)]);
    hear({ id: sent[0]?.id, refusal: "No such query." });
    expect([...new Float32Array((await two).data)]).toEqual([0.5]);
    await expect(one).rejects.toThrow("No such query.");
    await expect(one).rejects.toBeInstanceOf(Refusal);
  });

  it("two views of one model do not take each other's answers", async () => {
    const { sent, model, hear } = notebook();
    const [a, b] = [new Widget(model).ask("row", ROW), new Widget(model).ask("row", ROW)];
    hear({ id: sent[1]?.id, meta: { whole: true } }, [new ArrayBuffer(8)]);
    expect((await b).data.byteLength).toBe(8);
    hear({ id: sent[0]?.id, meta: { whole: true } }, [new ArrayBuffer(4)]);
    expect((await a).data.byteLength).toBe(4);
  });

  it("gives up, and lets nobody wait when the view is closed", async () => {
    const { listeners, model } = notebook();
    const widget = new Widget(model);
    const wish = new AbortController();
    const [one, two] = [widget.ask("row", ROW, wish.signal), widget.ask("row", ROW)];
    wish.abort();
    await expect(one).rejects.toMatchObject({ name: "AbortError" });
    const other = expect(two).rejects.toMatchObject({ name: "AbortError" });
    widget.destroy();
    await other;
    expect(listeners.size).toBe(0);
  });
});
