import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { arrange, gutterOf, LARGEST, largestIn, scoreOf, stepFrom } from "../src/arrange";
import { placeName, title } from "../src/choosing";
import { Overview } from "../src/overview";
import { progress } from "../src/progress";
import type { Scene } from "../src/protocol";
import { opening, Store } from "../src/state";
import { browser, Fake, scene, settled } from "./page";

const names = (of: Scene, change: object, width = 320) => arrange(of, { ...opening(of), ...change }, width, { largest: 34, height: null }).cells.map(({ place }) => placeName(place));

describe("where heads stand", () => {
  const SCENE = scene();

  it("one row a layer, whatever its number of heads", () => {
    const { cells, columns, rows } = arrange(SCENE, opening(SCENE), 320, { largest: 34, height: null });
    expect([columns, rows]).toEqual([3, 3]);
    expect(cells.map(({ row, column }) => `${row}.${column}`)).toEqual(["0.0", "0.1", "0.2", "1.0", "1.1", "2.0", "2.1", "2.2"]);
  });

  it("a filter leaves the grid a grid, and takes heads out of an order by score", () => {
    const kinds = ["induction"];
    const faint = arrange(SCENE, { ...opening(SCENE), kinds }, 320, { largest: 34, height: null }).cells.filter((cell) => !cell.faint);
    expect(faint.map(({ place }) => placeName(place))).toEqual(["0.1", "1.0"]);
    expect(names(SCENE, { kinds, sort: "induction" })).toEqual(["1.0", "0.1"]);
  });

  it("by a score: most first, equals in their places, heads without that score left out", () => {
    expect(names(SCENE, { sort: "induction" })).toEqual(["1.0", "0.1", "1.1", "0.2", "2.1", "2.2", "0.0", "2.0"]);
    const part = scene();
    delete (part.heads?.[1] as { scores: Record<string, number> }).scores.induction;
    expect(names(part, { sort: "induction" })).not.toContain("0.1");
    expect(scoreOf(SCENE, [1, 1], "entropy")).toBe(2);
  });

  it("32 x 32 heads overlap nowhere", () => {
    const layer = scene().layers[0] as Scene["layers"][number];
    const big = scene({ layers: Array.from({ length: 32 }, () => ({ ...layer, heads: 32 })), heads: null });
    const { cells, size, step } = arrange(big, opening(big), 320, { largest: 34, height: null });
    expect(cells.length).toBe(1024);
    expect(size).toBeGreaterThanOrEqual(16);
    expect(step[0]).toBeGreaterThan(size);
    expect(new Set(cells.map(({ x, y }) => `${x} ${y}`)).size).toBe(1024);
  });

  it("labels have the room they need, and maps stand beside them", () => {
    const named = scene();
    (named.layers[2] as { label: string }).label = "encoder 12";
    expect(gutterOf(named)).toBeGreaterThan(gutterOf(SCENE));
    expect(arrange(named, opening(named), 320, { largest: 34, height: null }).cells.every(({ x }) => x >= gutterOf(named))).toBe(true);
  });

  it("few heads have large maps and a narrow panel, many have neither", () => {
    const few = scene({ layers: SCENE.layers.slice(0, 1), heads: null });
    expect(largestIn(few, 600)).toBeGreaterThan(2 * LARGEST);
    const many = scene({ layers: Array.from({ length: 30 }, () => ({ ...(SCENE.layers[0] as Scene["layers"][number]), heads: 9 })), heads: null });
    expect(largestIn(many, 600)).toBe(34);
    const { step, size } = arrange(few, opening(few), 320, { largest: LARGEST, height: null });
    // The ring around the chosen head is 2 pixels wide.
    expect(step[0] - size).toBeGreaterThan(2);
  });

  it("few heads fill the height, a layer in several rows where its heads would be stamps in one", () => {
    const one = (heads: number, layers = 1) => scene({ layers: Array.from({ length: layers }, () => ({ ...(SCENE.layers[0] as Scene["layers"][number]), heads })), heads: null });
    const [width, height] = [290, 700];
    const room = (of: Scene) => ({ largest: largestIn(of, height), height });
    const four = arrange(one(4), opening(one(4)), width, room(one(4)));
    expect(four.wrapped).toBe(true);
    expect(four.size).toBeGreaterThan(120);
    expect(four.height).toBeGreaterThan(0.7 * height);
    expect(four.height).toBeLessThanOrEqual(height);
    const boxes = new Set(four.cells.map(({ x, y }) => `${x} ${y}`));
    expect(boxes.size).toBe(4);
    const two = arrange(one(6, 2), opening(one(6, 2)), width, room(one(6, 2)));
    expect(two.starts).toEqual([0, Math.ceil(6 / two.columns)]);
    expect(two.cells.filter(({ place }) => place[0] === 1).every(({ row }) => row >= (two.starts[1] as number))).toBe(true);
    expect(two.size).toBeGreaterThan(70);
    const many = arrange(one(9, 30), opening(one(9, 30)), width, room(one(9, 30)));
    expect([many.wrapped, many.columns, many.rows]).toEqual([false, 9, 30]);
    // Where the page decides the height, a layer is a row.
    expect(arrange(one(4), opening(one(4)), width, { largest: 96, height: null }).wrapped).toBe(false);
    // Arrow keys lead from row to row.
    const [first] = two.cells;
    expect(stepFrom(two, first!, "ArrowDown")?.place).toEqual([0, two.columns]);
  });

  it.each([["3", "self", "Layer 3, head 0"], ["encoder 0", "self", "Encoder layer 0, head 0"], ["cross 1", "cross", "Cross attention 1, head 0"], ["0", "cross", "Layer 0, head 0"]] as const)("%s (%s) is called %s", (label, kind, called) => {
    const it = scene();
    Object.assign(it.layers[0] as object, { label, kind });
    expect(title(it, [0, 0])).toBe(called);
  });

  it("says how far the maps are", () => {
    const all = { left: 8, of: 8, exact: 8, sampled: 0, done: true };
    expect(progress(all)).toBe("8 heads, all maps exact");
    expect(progress({ ...all, left: 1, of: 1, exact: 1 })).toBe("1 head, its map exact");
    expect(progress({ ...all, left: 5, exact: 3, sampled: 4, done: false })).toBe("5 of 8 heads, 3 exact, 4 sampled, 1 waiting");
    expect(progress({ ...all, exact: 0, done: false })).toBe("8 heads, 8 waiting");
    expect(progress({ ...all, exact: 6, sampled: 2 })).toBe("8 heads, 6 exact, 2 of 8 could not be made");
  });

  it("a step down from the third head of three lands on the last of two", () => {
    const arrangement = arrange(SCENE, opening(SCENE), 320, { largest: 34, height: null });
    const [, , third] = arrangement.cells;
    expect(placeName(stepFrom(arrangement, third!, "ArrowDown")!.place)).toBe("1.1");
    expect(stepFrom(arrangement, arrangement.cells[0]!, "ArrowLeft")).toBeNull();
  });
});

describe("the grid of heads", () => {
  let host: HTMLElement;
  let overview: Overview | null = null;
  const notice = vi.fn();
  beforeEach(() => {
    browser();
    notice.mockClear();
    document.body.replaceChildren((host = document.createElement("div")));
  });
  afterEach(() => overview?.destroy());

  function open(of = scene()) {
    const store = new Store(opening(of));
    const transport = new Fake(of);
    overview = new Overview(host, of, store, transport, notice);
    return { store, transport };
  }
  const head = (name: string) => host.querySelector<HTMLElement>(`[data-head="${name}"]`) as HTMLElement;
  const key = (node: HTMLElement, name: string, more: object = {}) => node.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true, ...more }));
  const stops = () => [...host.querySelectorAll('[data-head][tabindex="0"]')].map((node) => node.getAttribute("data-head"));

  it("is one stop of the tab key; arrow keys move it, Enter chooses", () => {
    const { store } = open();
    expect(stops()).toEqual(["0.1"]);
    head("0.1").focus();
    key(head("0.1"), "ArrowRight");
    expect(stops()).toEqual(["0.2"]);
    expect(document.activeElement).toBe(head("0.2"));
    expect([store.get().layer, store.get().head]).toEqual([0, 1]);
    key(head("0.2"), "ArrowDown");
    key(head("1.1"), "Enter");
    expect([store.get().layer, store.get().head]).toEqual([1, 1]);
    expect(host.querySelector("[data-here]")).toBe(head("1.1"));
  });

  it("shift and Enter puts a head beside, the space key takes it into the mean and out", () => {
    const { store } = open();
    key(head("1.0"), "Enter", { shiftKey: true });
    expect([store.get().beside, store.get().head]).toEqual([[1, 0], 1]);
    key(head("1.0"), " ");
    expect(store.get().chosen).toEqual(["1.0"]);
    key(head("1.0"), " ");
    expect(store.get().chosen).toEqual([]);
    key(head("2.0"), " ");
    expect(store.get().chosen).toEqual([]);
    expect(notice).toHaveBeenCalledTimes(1);
  });

  it("names every head, and says which layers are cross attention", () => {
    const named = scene();
    (named.layers[2] as { label: string }).label = "cross 0";
    open(named);
    expect(head("0.1").getAttribute("aria-label")).toBe("Layer 0, head 1, induction: score 0.800, chance 0.050, lift 0.789 (at least 0.2)");
    expect(head("2.1").getAttribute("aria-label")).toBe("Cross attention 0, head 1, mixed: no score clears its chance level by its margin");
    for (const node of host.querySelectorAll("[data-head]")) expect(node.getAttribute("role")).toBe("gridcell");
  });

  it("chips count their kinds and filter by them", () => {
    const { store } = open();
    const chip = host.querySelector<HTMLElement>('[data-kind="induction"]') as HTMLElement;
    expect(chip.textContent).toBe("Iinduction2");
    chip.click();
    expect(store.get().kinds).toEqual(["induction"]);
    expect(chip.getAttribute("aria-pressed")).toBe("true");
    store.set({ sort: "induction" });
    expect([...host.querySelectorAll("[data-head]")].map((node) => node.getAttribute("data-head"))).toEqual(["1.0", "0.1"]);
    expect(head("0.1").getAttribute("aria-label")).toContain("induction 0.80, by too few tokens");
  });

  it("asks on until all maps are exact, and anew for another run", async () => {
    const { store, transport } = open();
    const answers = [
      { version: 5, done: false, exact: 3, of: 8 },
      { version: 9, done: true, exact: 8, of: 8 },
    ];
    transport.ask = (async (name: string, params: { since: number }) => {
      transport.asked.push({ name: name as never, params: params as never });
      return { meta: { ...(params.since === 0 ? answers[0] : answers[1]), heads: [] }, data: new ArrayBuffer(0) };
    }) as never;
    store.set({ run: 1 });
    await settled(20);
    expect(host.querySelector("[role=status]")?.textContent).toBe("8 heads, 3 exact, 5 waiting");
    await settled(500);
    const since = () => transport.asked.filter(({ params }) => params.run === 1).map(({ params }) => params.since);
    expect(since()).toEqual([0, 5]);
    expect(host.querySelector("[role=status]")?.textContent).toContain("all maps exact");
    await settled(500);
    expect(since()).toEqual([0, 5]);
  });

  it("asks again after a refusal, and says it meanwhile", async () => {
    vi.useFakeTimers();
    const { store, transport } = open();
    const working = transport.ask.bind(transport);
    let refused = 0;
    transport.ask = (async () => {
      refused++;
      throw new Error("Not now.");
    }) as never;
    store.set({ run: 1 });
    await vi.advanceTimersByTimeAsync(50);
    expect(host.querySelector("[role=status]")?.textContent).toBe("Not now.");
    await vi.advanceTimersByTimeAsync(2100);
    expect(refused).toBe(2);
    transport.ask = working;
    await vi.advanceTimersByTimeAsync(4100);
    expect(host.querySelector("[role=status]")?.textContent).toBe("8 heads, all maps exact");
    vi.useRealTimers();
  });

  it("counts the heads that pass the filter", async () => {
    const { store } = open();
    await settled(20);
    store.set({ kinds: ["induction"] });
    expect(host.querySelector("[role=status]")?.textContent).toBe("2 of 8 heads, all maps exact");
  });
});
