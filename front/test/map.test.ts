import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { commandOf } from "../src/commands";
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
    expect([host.dataset.ready, host.dataset.z]).toEqual(["1", "3"]);
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

  it("Enter selects the cell, Escape gives the crosshair up", async () => {
    const { press, load, store, panel } = await open(24, 24);
    await load();
    for (let n = 0; n < 4; n++) await press("ArrowDown", true);
    await press("Enter");
    expect([store.get().query, store.get().key]).toEqual([3, 12]);
    expect(await press("Escape")).toBe(true);
    expect(panel.readout()).toBeNull();
    expect(await press("Escape")).toBe(false);
  });

  it("says ranges with their first and last token where cells are pooled", async () => {
    const { press, load, host } = await open(2048, 2048, { start: [0] });
    await load();
    await press("ArrowDown", true);
    expect(host.querySelector("output")!.textContent).toMatch(
      /probability, mean of 8 × 8 cells · queries 0–7 w0 … w7 → keys 1,024–1,031 w1024 … w1031$/,
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
