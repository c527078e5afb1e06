import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Scene } from "../src/protocol";
import { BLOCK, blocksOf, running } from "../src/running";
import { opening, Store } from "../src/state";
import { TextPanel } from "../src/text";
import { matches } from "../src/find";
import { browser, Fake, HOSTILE, scene, settled, Sight, tokens } from "./page";

describe("tokens as they are seen", () => {
  it.each([
    ["", "◌"],
    ["\n", "⏎\n"],
    ["a\r\nb", "a⏎\nb"],
    ["\t", "⇥\t"],
    ["   ", "···"],
    ["\u0000", "␀"],
    ["\u007f", "␡"],
    ["\u200b", "⟨200b⟩"],
    ["a\u202eb", "a⟨202e⟩b"],
    ["\n\n  if", "⏎\n⏎\n  if"],
    [" word", " word"],
    ["שלום", "שלום"],
  ])("%j becomes %j", (label, seen) => expect(running(label)).toBe(seen));

  it("blocks begin at words, hold each token once, and have an end in a text without words", () => {
    for (const labels of [tokens(2000).labels, Array.from({ length: 2000 }, () => "x"), Array.from({ length: 2000 }, (_, at) => (at % 7 ? "x" : " y"))]) {
      const starts = blocksOf(labels);
      expect(starts[0]).toBe(0);
      const lengths = starts.map((start, at) => (starts[at + 1] ?? labels.length) - start);
      expect(lengths.reduce((a, b) => a + b)).toBe(2000);
      expect(Math.max(...lengths)).toBeLessThanOrEqual(BLOCK);
      expect(Math.min(...lengths)).toBeGreaterThan(0);
    }
    const words = Array.from({ length: 2000 }, (_, at) => (at % 7 ? "x" : " y"));
    expect(blocksOf(words).every((start) => words[start] === " y")).toBe(true);
  });
});

describe("the text panel", () => {
  let host: HTMLElement;
  let panel: TextPanel | null = null;
  beforeEach(() => {
    browser();
    document.body.replaceChildren((host = document.createElement("div")));
  });
  afterEach(() => panel?.destroy());

  function open(of: Scene = scene(), change: object = {}) {
    const store = new Store({ ...opening(of), ...change });
    const transport = new Fake(of);
    panel = new TextPanel(host, of, store, transport);
    const sight = Sight.all.at(-1) as Sight;
    sight.tell([...sight.watched].slice(0, 4), true);
    return { store, transport, sight };
  }
  const token = (at: number) => host.querySelector<HTMLElement>(`[data-token="${at}"]`) as HTMLElement;
  const said = () => host.querySelector(".said")?.textContent ?? "";
  const point = (node: HTMLElement) => node.dispatchEvent(new MouseEvent("pointerover", { bubbles: true }));

  it("a token's text stays text", async () => {
    const { store } = open();
    store.set({ query: 3 });
    await settled();
    expect(token(3).textContent).toBe(HOSTILE);
    expect(said()).toContain(HOSTILE);
    expect(host.querySelector("img")).toBeNull();
    expect("hacked" in globalThis).toBe(false);
  });

  it("a line breaks behind its token, not within the token's frame", () => {
    const lines = scene({ axes: [{ ...tokens(40), labels: ["a", "b\n", "c", ...tokens(37).labels] }, tokens(25)] });
    open(lines);
    expect(token(1).textContent).toBe("b⏎");
    expect(token(1).nextSibling?.textContent).toBe("\n");
    expect(token(2).previousSibling?.textContent).toBe("\n");
  });

  it("32,768 tokens take few elements, before and after scrolling", () => {
    const long = scene({ axes: [tokens(32_768), tokens(25)] });
    for (const layer of long.layers) layer.T = 32_768;
    const { sight } = open(long);
    expect(host.querySelectorAll("[data-token]").length).toBeLessThanOrEqual(4 * BLOCK);
    expect(host.querySelectorAll("*").length).toBeLessThan(1400);
    const blocks = [...sight.watched];
    expect(blocks.length).toBeGreaterThan(100);
    for (const [from, to] of [[0, 40], [40, 80], [80, blocks.length - 4]] as const) {
      sight.tell(blocks.slice(from, from + 4), false);
      sight.tell(blocks.slice(to, to + 4), true);
    }
    // The last tokens, and the block of the query that the page opens with.
    expect(token(32_767)).not.toBeNull();
    expect(host.querySelectorAll("*").length).toBeLessThan(1800);
    expect((blocks[0] as HTMLElement).style.minHeight).not.toBe("");
  });

  it("pointing asks for one row, a moment later, and shades it", async () => {
    const { transport } = open();
    await settled();
    transport.asked.length = 0;
    for (let at = 20; at < 30; at++) point(token(at));
    await settled();
    expect(transport.asked).toEqual([{ name: "row", params: { run: 0, heads: "0.1", b: 0, i: 29 } }]);
    expect(said()).toContain("Token 29");
    expect(token(29).style.background).not.toBe("");
  });

  it("a click holds a token, pointing elsewhere changes nothing, Esc frees it", async () => {
    const { store } = open();
    token(7).click();
    expect(store.get().query).toBe(7);
    point(token(20));
    await settled();
    expect(said()).toContain("Token 7");
    expect(said()).toContain("held");
    token(7).parentElement?.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
    point(token(20));
    await settled();
    expect(said()).toContain("Token 20");
    expect([store.get().query, store.get().key]).toEqual([null, null]);
  });

  const chip = (n: number) => host.querySelectorAll<HTMLElement>(".key")[n] as HTMLElement;
  it.each([["to", "query"], ["from", "key"], ["both", "query"]] as const)("shaded by %s, a chip marks another token and what is held stays", async (look, held) => {
    const { store } = open(scene(), { look });
    token(7).click();
    await settled();
    const heads = () => [...host.querySelectorAll(".list p")].map((node) => node.textContent);
    const before = heads();
    expect(before[0]).toContain("Token 7");
    for (let n = 1; n < host.querySelectorAll(".key").length; n++) {
      chip(n).click();
      await settled(80);
      expect([heads(), store.get()[held]]).toEqual([before, 7]);
    }
    expect(host.querySelectorAll(".at-query").length + host.querySelectorAll(".at-key").length).toBe(2);
  });

  it("another look is at the same token", async () => {
    const { store } = open();
    token(7).click();
    await settled();
    chip(1).click();
    for (const look of ["from", "both", "to"]) {
      host.querySelector<HTMLElement>(`input[value=${look}]`)?.click();
      await settled();
      expect([store.get().look, said().includes("Token 7"), said().includes("Token 6 ")]).toEqual([look, true, false]);
    }
  });

  it("keys are back or ahead, queries later or earlier", async () => {
    const { store } = open(scene(), { query: 10 });
    await settled();
    expect([...host.querySelectorAll(".key i")].slice(0, 3).map((node) => node.textContent)).toEqual(["itself", "1 back", "1 ahead"]);
    store.set({ look: "from" });
    await settled();
    expect([...host.querySelectorAll(".key i")].slice(0, 3).map((node) => node.textContent)).toEqual(["itself", "1 earlier", "1 later"]);
  });

  it("there is no distance between two texts", async () => {
    open(scene(), { layer: 2, head: 0, key: 3 });
    await settled();
    expect(host.querySelectorAll(".key").length).toBeGreaterThan(3);
    expect(host.querySelector(".key i")).toBeNull();
  });

  it("three rows of chips, and how many there are besides", async () => {
    // Two chips a row, and what says how many more takes the place of one.
    const place = vi.spyOn(HTMLElement.prototype, "offsetTop", "get").mockImplementation(function (this: HTMLElement) {
      const before = [...(this.parentElement?.children ?? [])].filter((node) => !(node as HTMLElement).hidden);
      return 28 * Math.floor(before.indexOf(this) / 2);
    });
    open();
    await settled();
    const seen = [...host.querySelectorAll<HTMLElement>(".keys-list > *")].filter((node) => !node.hidden).map((node) => node.textContent);
    place.mockRestore();
    expect([seen.length, seen.at(-1)]).toEqual([6, "+3"]);
  });

  it("positions without tokens do not run together", () => {
    open(scene({ axes: [{ kind: "tokens", name: "positions", labels: Array.from({ length: 40 }, (_, n) => String(n)), special: [] }, tokens(25)] }));
    expect(host.querySelector(".block")?.textContent).toContain("10 11 12");
  });

  it("finds tokens: the next one, the one before, how many there are", async () => {
    const { store } = open(scene(), { query: 10 });
    panel?.find();
    const field = host.querySelector<HTMLInputElement>(".find input") as HTMLInputElement;
    const key = (name: string, more = {}) => field.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true, ...more }));
    field.value = "T1";
    field.dispatchEvent(new Event("input"));
    const state = () => [store.get().query, host.querySelector(".find [role=status]")?.textContent];
    expect(state()).toEqual([10, "2 of 11"]);
    key("Enter");
    expect(state()).toEqual([11, "3 of 11"]);
    for (let n = 0; n < 3; n++) key("Enter", { shiftKey: true });
    expect(state()).toEqual([19, "11 of 11"]);
    field.value = "nowhere";
    field.dispatchEvent(new Event("input"));
    expect(state()).toEqual([19, "none"]);
    key("Escape");
    expect(host.querySelector<HTMLElement>(".find")?.hidden).toBe(true);
    expect(store.get().query).toBe(19);
  });

  it("a word may be of several tokens; numbers stand alone", () => {
    const text = { kind: "tokens", name: "text", labels: [" To", "ken", "izer", "", " ken"], special: [] } as const;
    expect(matches(text as never, "tokeni")).toEqual([0]);
    expect(matches(text as never, "ken")).toEqual([1, 4]);
    expect(matches(text as never, "")).toEqual([]);
    expect(matches({ ...text, name: "positions", labels: ["1", "2", "12"] } as never, "12")).toEqual([2]);
  });

  it("arrow keys move the selection, within the text", () => {
    const { store } = open();
    const text = host.querySelector(".running") as HTMLElement;
    const press = (key: string) => text.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    press("Home");
    press("ArrowLeft");
    expect(store.get().query).toBe(0);
    press("ArrowRight");
    expect(store.get().query).toBe(1);
    press("End");
    press("ArrowRight");
    expect(store.get().query).toBe(39);
  });

  it("the other way round asks for a column, both ways for both", async () => {
    const { transport } = open();
    await settled();
    const looks = [...host.querySelectorAll<HTMLInputElement>("input[type=radio]")];
    transport.asked.length = 0;
    looks.find(({ value }) => value === "from")?.click();
    await settled();
    expect(transport.asked).toEqual([{ name: "column", params: { run: 0, heads: "0.1", b: 0, j: 10 } }]);
    looks.find(({ value }) => value === "both")?.click();
    await settled();
    expect(said()).toContain("attends to");
    expect(said()).toContain("is attended by");
  });

  it("shows the mean over the chosen heads", async () => {
    const { transport } = open(scene(), { chosen: ["0.1", "1.0"] });
    await settled();
    expect(transport.asked[0]?.params.heads).toBe("0.1,1.0");
    expect(host.textContent).toContain("mean of 2 heads");
  });

  it("cross attention has two texts: a query shades the keys, a key the queries", async () => {
    const { transport, store } = open(scene(), { layer: 2, head: 0 });
    for (const sight of Sight.all) sight.tell([...sight.watched], true);
    await settled();
    const [queries, keys] = [...host.querySelectorAll<HTMLElement>(".running")];
    expect([queries?.querySelectorAll("[data-token]").length, keys?.querySelectorAll("[data-token]").length]).toEqual([40, 25]);
    (keys?.querySelector('[data-token="4"]') as HTMLElement).click();
    await settled();
    expect(store.get().key).toBe(4);
    expect(transport.asked.map(({ name }) => name)).toEqual(["row", "column"]);
    expect((keys?.querySelector('[data-token="10"]') as HTMLElement).style.background).not.toBe("");
    expect((queries?.querySelector('[data-token="4"]') as HTMLElement).style.background).not.toBe("");
  });

  it("a refusal is shown as it is said", async () => {
    const { transport, store } = open();
    await settled();
    transport.ask = (async () => Promise.reject(new Error("The file does not hold this row."))) as never;
    store.set({ query: 12 });
    await settled();
    expect(said()).toContain("The file does not hold this row.");
  });
});
