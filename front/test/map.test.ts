import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { commandOf } from "../src/commands";
import { inRoom } from "../src/cross";
import { Lost } from "../src/http";
import { MapPanel } from "../src/map";
import type { Layer, Scene } from "../src/protocol";
import { opening, Store } from "../src/state";
import { Tiles } from "../src/tiles";
import { axis, Hand, sceneOf, settle } from "./patterns";

// jsdom has no canvas: what is said, asked and written as SVG is tested here, what is painted in a browser.
beforeEach(() => {
  vi.spyOn(HTMLCanvasElement.prototype, "getContext").mockReturnValue(null);
  vi.useFakeTimers({ toFake: ["requestAnimationFrame", "cancelAnimationFrame", "performance", "setTimeout", "clearTimeout"] });
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  document.body.replaceChildren();
});

async function frame(): Promise<void> {
  vi.advanceTimersToNextFrame();
  await settle();
}

async function open(T: number, S: number, layer: Partial<Layer> = {}, words?: string[], change: (scene: Scene) => void = () => {}) {
  const tokens = words && axis(words);
  const scene = sceneOf(T, S, layer, tokens ? { rows: tokens, cols: tokens } : {});
  change(scene);
  const hand = new Hand(scene, (i, j) => (j > i ? 0 : Math.fround(1 / (2 + i + 3 * j))));
  const store = new Store(opening(scene));
  const host = document.createElement("div");
  document.body.append(host);
  const panels: MapPanel[] = [];
  const tiles = new Tiles(hand, scene, () => panels.forEach((panel) => panel.paint()));
  const panel = new MapPanel(host, scene, store, tiles, (state) => [state.layer, state.head]);
  panels.push(panel);
  await frame();
  const plot = host.querySelector<HTMLElement>(".map-plot")!;
  const press = async (key: string, shiftKey = false) => {
    const event = new KeyboardEvent("keydown", { key, shiftKey, cancelable: true });
    plot.dispatchEvent(event);
    await frame();
    return event.defaultPrevented;
  };
  const load = async () => {
    await hand.answerAll();
    await frame();
  };
  return { scene, hand, store, host, tiles, panel, plot, press, load };
}

describe("the map", () => {
  it("is ready when what is in view is exact, and says its level", async () => {
    const { host, load, store, hand } = await open(2048, 2048);
    expect(host.dataset.ready).toBe("0");
    await load();
    expect([host.dataset.ready, host.dataset.z]).toEqual(["1", "2"]);
    const before = hand.all.length;
    store.set({ pool: "max" });
    expect(host.dataset.ready).toBe("0");
    await frame();
    expect(host.dataset.ready).toBe("0");
    expect(hand.all.slice(before).every(({ params }) => params.pool === "max")).toBe(true);
    await load();
    expect(host.dataset.ready).toBe("1");
  });

  it("asks for what was chosen", async () => {
    const { store, hand } = await open(24, 24);
    store.set({ hide: true, norm: true, run: 1, minus: 0, head: 1 });
    await frame();
    expect(hand.all[hand.all.length - 1]!.params).toMatchObject({ hide: 1, norm: 1, run: 1, minus: 0, head: 1, z: 0 });
    expect(hand.all[0]!.signal!.aborted).toBe(true);
  });

  it("a crosshair is moved by keys, says the value of the tile and asks for nothing", async () => {
    const { press, load, panel, host, hand, tiles } = await open(24, 24, { start: [0] });
    await load();
    const asked = hand.all.length;
    await press("ArrowDown", true);
    await press("ArrowDown", true);
    await press("ArrowDown", true);
    const read = panel.readout()!;
    expect(read).toMatchObject({ i0: 2, i1: 3, j0: 12, j1: 13, exact: true });
    await press("ArrowLeft", true);
    for (let n = 0; n < 10; n++) await press("ArrowLeft", true);
    const tile = tiles.get({ run: 0, layer: 0, head: 0, b: 0, pool: "mean", hide: 0, norm: 0 }, 0, 0, 0)!;
    expect(panel.readout()!.p).toBe(tile.data[2 * 24 + 1]);
    expect(host.querySelector("output")!.textContent).toBe("0.143 probability · query 2 w2 → key 1 w1 · 1 back");
    expect(hand.all).toHaveLength(asked);
  });

  it("Enter selects the cell, Escape gives up the key, then the query, then the crosshair", async () => {
    const { press, load, store, panel } = await open(24, 24);
    await load();
    for (let n = 0; n < 4; n++) await press("ArrowDown", true);
    await press("Enter");
    expect([store.get().query, store.get().key]).toEqual([3, 12]);
    const left = async () => [await press("Escape"), store.get().query, store.get().key, panel.readout() !== null];
    expect(await left()).toEqual([true, 3, null, true]);
    expect(await left()).toEqual([true, null, null, true]);
    expect(await left()).toEqual([true, null, null, false]);
    expect((await left())[0]).toBe(false);
  });

  it("Escape gives up a box before anything else", async () => {
    const { press, load, store, host } = await open(24, 24);
    await load();
    store.set({ query: 3, key: 2 });
    await press("b");
    expect(host.querySelector<HTMLElement>(".map-box")!.hidden).toBe(false);
    expect(await press("Escape")).toBe(true);
    expect(host.querySelector<HTMLElement>(".map-box")!.hidden).toBe(true);
    expect([store.get().query, store.get().key]).toEqual([3, 2]);
  });

  it("of a pooled map a selection is the middle of the block", async () => {
    const { press, load, store, panel } = await open(2048, 2048);
    await load();
    await press("ArrowDown", true);
    const { i0, i1, j0, j1 } = panel.readout()!;
    await press("Enter");
    const { query, key } = store.get();
    expect([query, key]).toEqual([(i0 + i1) / 2 - 1, (j0 + j1) / 2 - 1]);
    expect(i1 - i0).toBe(4);
  });

  it("says ranges with their first and last token where cells are pooled", async () => {
    const { press, load, host } = await open(2048, 2048, { start: [0] });
    await load();
    await press("ArrowDown", true);
    expect(host.querySelector("output")!.textContent).toMatch(
      /^0 probability, mean of 4 × 4 cells · queries 0–3 w0 … w3 → keys 1,024–1,027 w1024 … w1027$/,
    );
  });

  it("keys zoom and pan, and the place follows in the store", async () => {
    const { press, load, store } = await open(2048, 2048);
    await load();
    await press("+");
    const [key, query, keys] = store.get().at!;
    expect(keys).toBeCloseTo(2048 / 1.5);
    expect([key, query]).toEqual([1024, 1024]);
    await press("ArrowRight");
    expect(store.get().at![0]).toBeGreaterThan(key);
    expect(store.get().at![1]).toBeCloseTo(query);
    await press("0");
    expect(store.get().at).toBeNull();
    expect(await press("x")).toBe(false);
  });

  it("b, arrows and Enter zoom to a box", async () => {
    const { press, load, store } = await open(64, 64);
    await load();
    await press("b");
    for (let n = 0; n < 9; n++) {
      await press("ArrowDown", true);
      await press("ArrowRight", true);
    }
    await press("Enter");
    const [key, query, keys] = store.get().at!;
    expect([key, query]).toEqual([37, 5]);
    expect(keys).toBeCloseTo(10);
  });

  it("follows the place that another map put into the store, again and again", async () => {
    const { store, hand, load, host } = await open(4096, 4096);
    await load();
    store.set({ at: [600, 600, 300] });
    await frame();
    expect(host.dataset.z).toBe("0");
    expect(hand.open[0]!.params).toMatchObject({ z: 0, r: 2, c: 2 });
    store.set({ at: null });
    await frame();
    expect(Number(host.dataset.z)).toBeGreaterThan(2);
  });

  it("stays on what can be had where finer tiles are refused, and says why", async () => {
    const { store, hand, load, host } = await open(4096, 4096);
    await load();
    store.set({ at: [600, 600, 300] });
    await frame();
    hand.refuse(hand.open[0]!, "This file holds that head in small only.");
    await settle();
    await frame();
    expect(host.dataset.z).toBe("1");
    expect(host.querySelector(".map-badge")!.textContent).toBe("This file holds that head in small only.");
  });

  it("has one word for what is hidden, and no number", async () => {
    const layer: Partial<Layer> = { causal: true, start: [0], keys: [[0, 20]], queries: [[2, 24]], sink: [0] };
    const { press, load, host, store, panel } = await open(24, 24, layer);
    await load();
    store.set({ query: 1, key: 0, hide: true });
    const says = async () => {
      await frame();
      await load();
      return host.querySelector("output")!.textContent;
    };
    await press("ArrowDown", true);
    expect(await says()).toBe("hidden by the mask · query 1 w1 → key 0 w0 · 1 back");
    await press("ArrowDown", true);
    expect(await says()).toBe("left out (sink) · query 2 w2 → key 0 w0 · 2 back");
    await press("ArrowRight", true);
    expect(await says()).toMatch(/^0\.143 probability · query 2 w2 → key 1 /);
    for (let n = 0; n < 2; n++) await press("ArrowRight", true);
    expect(await says()).toBe("hidden by the mask · query 2 w2 → key 3 w3 · 1 ahead");
    const tree = new DOMParser().parseFromString(panel.svg(), "image/svg+xml");
    // The key that is left out, keys ahead, keys 20 on and the queries 0 and 1.
    expect(tree.querySelector("#hidden path")!.getAttribute("d")!.match(/Z/g)).toHaveLength(4);
  });

  it("does not say that a mask hides what it may not", async () => {
    const { press, load, host } = await open(24, 24, { causal: true, start: [0], edged: false });
    await load();
    await press("ArrowDown", true);
    expect(host.querySelector("output")!.textContent).toMatch(/^0 probability/);
  });

  it("says what can be done while nothing is pointed at", async () => {
    const { host, load } = await open(2048, 2048);
    await load();
    expect(host.querySelector("output")!.textContent).toBe("4 × 4 cells a pixel · point for values · ? for keys");
    vi.stubGlobal("matchMedia", (text: string) => ({ matches: text === "(pointer: coarse)", addEventListener: () => {}, removeEventListener: () => {} }));
    const finger = await open(24, 24);
    expect(finger.host.querySelector("output")!.textContent).toBe("touch for values");
    vi.unstubAllGlobals();
  });

  it("two maps have one colour bar", async () => {
    const { scene, store, tiles, panel, load } = await open(24, 24, {}, undefined, (scene) => (scene.layers[1] = { ...scene.layers[0]!, S: 12, keys: [[0, 12]] }));
    const host = document.createElement("div");
    document.body.append(host);
    const second = new MapPanel(host, scene, store, tiles, () => [1, 0]);
    await load();
    await frame();
    const top = (text: string) =>
      [...new DOMParser().parseFromString(text, "image/svg+xml").querySelectorAll("text")].map((node) => node.textContent).filter((word) => /^0\.\d{1,2}$/.test(word!))[0];
    expect(top(panel.svg())).toBe("0.5");
    expect(top(second.svg())).toBe("0.5");
    second.destroy();
  });

  it("says so where nothing is attended to", async () => {
    const scene = sceneOf(24, 24);
    const hand = new Hand(scene, () => 0);
    const host = document.createElement("div");
    document.body.append(host);
    const panel: MapPanel = new MapPanel(host, scene, new Store(opening(scene)), new Tiles(hand, scene, () => panel?.paint()), () => [0, 0]);
    await frame();
    expect(panel.svg()).not.toContain("no query attends");
    await hand.answerAll();
    await frame();
    expect(panel.svg()).toContain("no query attends to anything here");
  });

  it("of a saved file says that it is as fine as the file has it, and only where finer cells would be shown", async () => {
    const { hand, host, store } = await open(4096, 4096, {}, undefined, (scene) => (scene.saved = { heads: [], says: "Only small maps are in this file." }));
    const badge = host.querySelector<HTMLElement>(".map-badge")!;
    const answer = async () => {
      while (hand.open.length) {
        for (const question of [...hand.open]) {
          if (question.name === "preview" || question.params.z > 2) question.answer();
          else hand.refuse(question, "Only small maps are in this file.");
        }
        await settle();
        await frame();
      }
    };
    await answer();
    expect([host.dataset.z, badge.hidden]).toEqual(["3", true]);
    store.set({ at: [600, 600, 300] });
    await frame();
    await answer();
    vi.advanceTimersByTime(1000);
    await frame();
    expect(badge.textContent).toBe("as fine as this file has it");
    store.set({ at: null });
    await frame();
    expect(badge.hidden).toBe(true);
  });

  it("keeps what is drawn when nobody answers any more, greyed", async () => {
    const { hand, host, store, load } = await open(4096, 4096);
    await load();
    const stage = host.querySelector(".map-stage")!;
    const badge = host.querySelector<HTMLElement>(".map-badge")!;
    expect(stage.classList.contains("lost")).toBe(false);
    store.set({ at: [600, 600, 300] });
    await frame();
    for (const question of [...hand.open]) question.fail(new Lost("Gone."));
    await settle();
    await frame();
    expect([stage.classList.contains("lost"), badge.textContent, host.dataset.drawn]).toEqual([true, "not loaded", "1"]);
    expect(host.dataset.z).toBe("0");
    vi.advanceTimersByTime(3000);
    await load();
    expect([stage.classList.contains("lost"), badge.hidden, host.dataset.ready]).toEqual([false, true, "1"]);
  });

  it("says that it is sampled until it is exact", async () => {
    const { hand, host, load } = await open(2048, 2048);
    hand.open.find(({ name }) => name === "preview")!.answer();
    await settle();
    await frame();
    const badge = host.querySelector<HTMLElement>(".map-badge")!;
    expect([badge.textContent, badge.hidden, host.dataset.ready]).toEqual(["sampled", false, "0"]);
    await load();
    expect(badge.hidden).toBe(true);
  });

  it("shows nothing, and asks for nothing, where it has no place", async () => {
    const scene = sceneOf(24, 24);
    const hand = new Hand(scene);
    const host = document.createElement("div");
    const panel = new MapPanel(host, scene, new Store(opening(scene)), new Tiles(hand, scene, () => {}), () => null);
    await frame();
    expect(hand.all).toEqual([]);
    expect(panel.readout()).toBeNull();
    expect(() => panel.svg()).toThrow("This map shows no pattern.");
  });

  it("destroyed, it listens to nothing and waits for nothing", async () => {
    const { panel, hand, store, host, plot, tiles } = await open(2048, 2048);
    panel.destroy();
    expect(hand.all.every(({ signal }) => signal!.aborted)).toBe(true);
    expect(tiles.asked).toEqual([]);
    expect(host.childElementCount).toBe(0);
    const asked = hand.all.length;
    store.set({ head: 1 });
    plot.dispatchEvent(new KeyboardEvent("keydown", { key: "+" }));
    plot.dispatchEvent(new WheelEvent("wheel", { deltaY: -100 }));
    await frame();
    expect(hand.all).toHaveLength(asked);
    expect(store.get().at).toBeNull();
  });
});

describe("a pointer on the map", () => {
  const event = (type: string, [x, y]: [number, number], more: object = {}) => {
    // The test DOM has no pointer events, and its mouse has no offsets.
    const values = { clientX: x, clientY: y, offsetX: x, offsetY: y, detail: 0, pointerId: 1, pointerType: "mouse", ...more };
    return Object.defineProperties(new MouseEvent(type, { cancelable: true }), Object.fromEntries(Object.entries(values).map(([name, value]) => [name, { value }])));
  };

  it("stays over what it points at when the view turns under it", async () => {
    const { plot, load, panel, store, press } = await open(64, 64);
    await load();
    plot.dispatchEvent(event("pointermove", [100, 100]));
    await frame();
    const before = panel.readout()!;
    store.set({ at: [50, 50, 16] });
    await frame();
    const after = panel.readout()!;
    expect([after.i0, after.j0]).not.toEqual([before.i0, before.j0]);
    expect(after.j0).toBeGreaterThan(40);
    // The keys move the crosshair away from the pointer.
    await press("ArrowDown", true);
    expect(panel.readout()!.i0).toBe(after.i0 + 1);
    plot.dispatchEvent(event("pointerleave", [0, 0]));
    await frame();
    expect(panel.readout()).toBeNull();
  });

  it("selects by a click after a moment, and not by a double click", async () => {
    const { plot, load, store, panel } = await open(24, 24);
    await load();
    store.set({ query: null, key: null });
    plot.dispatchEvent(event("click", [100, 150], { detail: 1 }));
    vi.advanceTimersByTime(100);
    plot.dispatchEvent(event("click", [100, 150], { detail: 2 }));
    plot.dispatchEvent(event("dblclick", [100, 150], { detail: 2 }));
    vi.advanceTimersByTime(1000);
    expect(store.get().query).toBeNull();
    store.set({ at: null });
    await frame();
    plot.dispatchEvent(event("pointermove", [100, 150]));
    await frame();
    const { i0, j0 } = panel.readout()!;
    plot.dispatchEvent(event("click", [100, 150], { detail: 1 }));
    expect(store.get().query).toBeNull();
    vi.advanceTimersByTime(250);
    expect([store.get().query, store.get().key]).toEqual([i0, j0]);
  });

  it("of a finger scrolls the page over the whole pattern, and pans it when it is zoomed", async () => {
    const { plot, load, press, host } = await open(64, 64);
    await load();
    expect(plot.classList.contains("whole")).toBe(true);
    await press("+");
    expect(plot.classList.contains("whole")).toBe(false);
    // A finger that is lifted leaves its value behind.
    plot.dispatchEvent(event("pointerdown", [100, 200], { pointerType: "touch" }));
    plot.dispatchEvent(event("pointerleave", [100, 200], { pointerType: "touch" }));
    await frame();
    expect(host.querySelector("output")!.textContent).toMatch(/^0/);
  });
});

describe("its SVG", () => {
  it("holds every text as text", async () => {
    const bad = ['<script>alert("x")</script>', "a&b", "\u0000", "'\"", "]]>"];
    const { load, panel } = await open(5, 5, { label: "<b>3</b>" }, bad, (scene) => (scene.title = "</svg><script>"));
    await load();
    const text = panel.svg();
    expect(text).not.toContain("<script");
    expect(text).toContain("&lt;script&gt;");
    const tree = new DOMParser().parseFromString(text, "image/svg+xml");
    expect(tree.querySelector("parsererror")).toBeNull();
    expect(tree.querySelectorAll("script, b")).toHaveLength(0);
    const said = [...tree.querySelectorAll("text")].map((node) => node.textContent);
    expect(said).toContain("a&b");
    expect(said).toContain("␀");
    expect(said).toContain("]]>");
    expect(said).toContain("Layer <b>3</b>, head 0");
  });

  it("says what the head is called and how it is coloured", async () => {
    const { load, panel, store } = await open(5, 5, {}, undefined, (scene) => {
      scene.kinds = [{ name: "induction", title: "induction", letter: "I", means: "", margin: 0.1, least: 0.1, colour: null }];
      scene.heads = [{ layer: 0, head: 0, kind: "induction", entropy: null, scores: { induction: 0.183 }, chance: { induction: 0.021 }, few: [] }];
    });
    await load();
    const title = () => /<title>(.*?)<\/title>/.exec(panel.svg())![1];
    const how = "score 0.183, chance 0.021, lift 0.165 (at least 0.1)";
    expect(title()).toBe(`Layer 0, head 0: induction · a model · ${how} · base · √ colour scale`);
    store.set({ scale: "log", hide: true });
    expect(title()).toBe(`Layer 0, head 0: induction · a model · ${how} · base · sink left out · log colour scale`);
    store.set({ scale: "linear", hide: false });
    expect(title()).toBe(`Layer 0, head 0: induction · a model · ${how} · base`);
  });

  it("locked colours stay when it is zoomed, and what lies beyond their end says so", async () => {
    const { load, panel, store, tiles } = await open(64, 64);
    await load();
    const bar = () => [...new DOMParser().parseFromString(panel.svg(), "image/svg+xml").querySelectorAll("text")].map((node) => node.textContent);
    expect(tiles.ranges.end).toBe(0.5);
    expect(bar()).toContain("0.5");
    const far = { at: [10, 50, 8] as [number, number, number] };
    store.set(far);
    await frame();
    await load();
    expect(bar()).not.toContain("0.5");
    store.set({ range: 0.5 });
    expect(bar()).toContain("0.5");
    store.set({ at: null, range: 0.1 });
    expect(bar()).toContain("≥0.1");
    store.set({ range: null });
    expect(bar()).toContain("0.5");
  });

  it("marks what is selected, by a line where it is thin", async () => {
    const { load, panel, store } = await open(300, 300);
    await load();
    store.set({ query: 100, key: 7, at: null });
    const drawn = () => [...new DOMParser().parseFromString(panel.svg(), "image/svg+xml").querySelectorAll('[stroke="#c2410c"]')];
    expect(drawn().map(({ tagName }) => tagName)).toEqual(["path", "path"]);
    store.set({ at: [7, 100, 10] });
    await frame();
    await load();
    const boxes = drawn();
    expect(boxes.map(({ tagName }) => tagName)).toEqual(["rect", "rect"]);
    for (const node of boxes) expect(Number(node.getAttribute("height")) * Number(node.getAttribute("width"))).toBeGreaterThan(0);
  });

  it("has a rectangle and a number for each of few cells", async () => {
    const { load, panel } = await open(5, 5, { causal: true, start: [0] });
    await load();
    const tree = new DOMParser().parseFromString(panel.svg(), "image/svg+xml");
    expect(tree.querySelectorAll('g[shape-rendering="crispEdges"] rect')).toHaveLength(25);
    const numbers = [...tree.querySelectorAll("text")].filter((node) => /^0\.\d{3}$/.test(node.textContent!));
    // 15 visible cells; hidden keys have no number.
    expect(numbers).toHaveLength(15);
    expect(numbers[0]!.textContent).toBe("0.500");
  });
});

it("keys are the map's only without Ctrl, Alt and Meta", () => {
  const key = { key: "0", shiftKey: false, ctrlKey: false, metaKey: false, altKey: false };
  expect(commandOf(key)).toEqual({ name: "whole" });
  expect(commandOf({ ...key, ctrlKey: true })).toBeNull();
  expect(commandOf({ ...key, key: "Tab" })).toBeNull();
});

it("labels of a crosshair break between position and token, or within a range, before they are cut", () => {
  const measure = (text: string) => 6 * text.length;
  expect(inRoom(["266", "r10 c5"], 60, measure)).toEqual(["266 r10 c5"]);
  expect(inRoom(["266", "r10 c20"], 46, measure)).toEqual(["266", "r10 c20"]);
  expect(inRoom(["1,268–1,271"], 46, measure)).toEqual(["1,268–", "1,271"]);
  expect(inRoom(["266", "representation"], 46, measure)).toEqual(["266", "repres…"]);
});
