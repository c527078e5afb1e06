import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Chart, envelope, scaleOf } from "../src/chart";
import { Lost } from "../src/http";
import viewer, { mount } from "../src/index";
import type { Scene } from "../src/protocol";
import { browser, Fake, HOSTILE, scene, settled } from "./page";

describe("the page", () => {
  let root: HTMLElement;
  let close: () => void = () => {};
  beforeEach(() => {
    browser();
    history.replaceState(null, "", location.pathname);
    document.body.replaceChildren((root = document.createElement("main")));
  });
  afterEach(() => close());

  async function open(of: Scene = scene(), address = true) {
    const transport = new Fake(of);
    close = await mount(root, transport, { address });
    return { transport, page: root.shadowRoot as ShadowRoot };
  }
  const find = (page: ShadowRoot, what: string) => page.querySelector<HTMLElement>(what) as HTMLElement;

  it("shows what the scene says, as text", async () => {
    const { page } = await open();
    expect(find(page, "h1").textContent).toBe("A model");
    expect(find(page, ".subtitle").textContent).toBe(HOSTILE);
    expect(page.querySelector("img")).toBeNull();
    expect(root.dataset.ready).toBe("1");
    expect(page.querySelectorAll("[style]:not(.app *)").length).toBe(0);
  });

  it("opens with what the address says, and tells once what it could not follow", async () => {
    history.replaceState(null, "", "#head=1.0&panel=scores&query=99");
    const { page } = await open();
    expect(find(page, "[data-here]").dataset.head).toBe("1.0");
    expect(find(page, "#tab-scores").getAttribute("aria-selected")).toBe("true");
    const notice = find(page, ".notice");
    expect(notice.textContent).toContain("query=99");
    find(page, ".notice button").click();
    expect(notice.hidden).toBe(true);
  });

  it("writes into the address what the reader chose, a moment later", async () => {
    const { page } = await open();
    find(page, '[data-head="1.1"]').click();
    expect(location.hash).toBe("");
    await settled(260);
    expect(location.hash).toBe("#head=1.1");
  });

  it("another head is a step in the history, once for many in a row, and Back leads to what was left", async () => {
    const { page } = await open();
    const before = history.length;
    find(page, 'input[value="log"]').click();
    find(page, '[data-head="1.0"]').click();
    // What is left is in the address at once; the head that stays comes after.
    expect(location.hash).toBe("#scale=log");
    find(page, '[data-head="1.1"]').click();
    await settled(260);
    expect([location.hash, history.length]).toEqual(["#head=1.1&scale=log", before + 1]);
    find(page, 'input[value="linear"]').click();
    await settled(260);
    expect(history.length).toBe(before + 1);
    history.back();
    await settled(260);
    expect([location.hash, find(page, "[data-here]").dataset.head]).toEqual(["#scale=log", "0.1"]);
    expect(history.length).toBe(before + 1);
  });

  it("keys work before anything is focused, but not while a text is typed", async () => {
    const { page } = await open();
    const press = (key: string, on: EventTarget = document.body) => on.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, composed: true, cancelable: true }));
    press("]");
    expect(find(page, "[data-here]").dataset.head).toBe("0.2");
    press("[");
    expect(find(page, "[data-here]").dataset.head).toBe("0.1");
    find(page, "#tab-profile").click();
    press("/");
    expect(find(page, "#panel-text").hidden).toBe(false);
    const field = find(page, ".find input");
    expect(page.activeElement).toBe(field);
    press("]", field);
    press("?", field);
    expect(find(page, "[data-here]").dataset.head).toBe("0.1");
    expect(find(page, "dialog").hasAttribute("open")).toBe(false);
    press("?");
    expect(find(page, "dialog").hasAttribute("open")).toBe(true);
  });

  it("in a notebook it hears only its own keys", async () => {
    const { page } = await open(scene(), false);
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "]", bubbles: true, composed: true }));
    expect(find(page, "[data-here]").dataset.head).toBe("0.1");
    find(page, ".toolbar").dispatchEvent(new KeyboardEvent("keydown", { key: "]", bubbles: true, composed: true }));
    expect(find(page, "[data-here]").dataset.head).toBe("0.2");
  });

  it("large maps are part of the address", async () => {
    history.replaceState(null, "", "#large=1");
    const { page } = await open();
    expect(find(page, ".app").classList.contains("large")).toBe(true);
    find(page, '[aria-label="Large maps"]').click();
    await settled(260);
    expect([location.hash, find(page, ".app").classList.contains("large")]).toEqual(["", false]);
  });

  it("patches are called that", async () => {
    const it = scene();
    it.axes[0] = { kind: "grid", name: "patches", labels: Array.from({ length: 40 }, (_, n) => `r${n}`), special: [], height: 5, width: 8 };
    const { page } = await open(it);
    expect(find(page, "#tab-text").textContent).toBe("Patches");
  });

  it("one head has no other beside it", async () => {
    const one = scene({ layers: [{ ...(scene().layers[0] as Scene["layers"][number]), heads: 1 }], heads: null, open: [0, 0] });
    const { page } = await open(one);
    const beside = [...page.querySelectorAll("button")].find((node) => node.textContent === "Side by side");
    expect(beside?.disabled).toBe(true);
    expect(find(page, ".foot [role=status]").textContent).toBe("1 head, its map exact");
  });

  it("names the key that is hidden by its token", async () => {
    const { page } = await open();
    const check = [...page.querySelectorAll<HTMLElement>(".check")].find((node) => node.textContent === "hide sink");
    expect(check?.title).toBe("Leaves out key 0 “<s>”, the first that any query may attend to");
  });

  it("leaves the address alone in a notebook", async () => {
    const { page } = await open(scene(), false);
    find(page, '[data-head="1.1"]').click();
    await settled(260);
    expect(location.hash).toBe("");
    expect([...page.querySelectorAll("button")].some((node) => node.textContent === "Copy link")).toBe(false);
  });

  it("has no scores where heads were not scored", async () => {
    history.replaceState(null, "", "#panel=scores");
    const { page } = await open(scene({ heads: null }));
    expect([...page.querySelectorAll("[role=tab]")].map((tab) => tab.textContent)).toEqual(["Text", "Profile"]);
    expect(find(page, "#panel-text").hidden).toBe(false);
    expect(page.querySelector("[data-kind]")).toBeNull();
  });

  it("says what is in a saved file", async () => {
    const { page } = await open(scene({ saved: { heads: ["0.1"], says: "One head of eight." } }));
    expect(find(page, ".saved").textContent).toContain("One head of eight.");
    expect(find(page, '[data-head="0.1"]').getAttribute("aria-label")).toContain("in full");
  });

  it("a dot tells nothing where all heads are held in full", async () => {
    const all = ["0.0", "0.1", "0.2", "1.0", "1.1", "2.0", "2.1", "2.2"];
    const { page } = await open(scene({ saved: { heads: all, says: "All heads." } }));
    expect(find(page, ".saved").textContent).toBe("All heads.");
    expect(find(page, '[data-head="0.1"]').getAttribute("aria-label")).not.toContain("in full");
  });

  it("opens and closes a second map", async () => {
    const { page } = await open();
    const beside = [...page.querySelectorAll("button")].find((node) => node.textContent === "Side by side") as HTMLElement;
    beside.click();
    expect([...page.querySelectorAll(".map-name h2")].map((node) => node.textContent)).toEqual(["Layer 0, head 1: induction", "Layer 0, head 2: first token"]);
    find(page, '[aria-label="Swap the maps"]').click();
    expect([...page.querySelectorAll(".map-name h2")].map((node) => node.textContent)).toEqual(["Layer 0, head 2: first token", "Layer 0, head 1: induction"]);
    find(page, '[aria-label="Close this map"]').click();
    expect(page.querySelectorAll(".map-card").length).toBe(1);
  });

  it("a run is never taken away from itself", async () => {
    const { page } = await open();
    const [run, minus] = [...page.querySelectorAll<HTMLSelectElement>(".page-controls select")] as [HTMLSelectElement, HTMLSelectElement];
    minus.value = "0";
    minus.dispatchEvent(new Event("change"));
    expect([run.value, minus.value]).toEqual(["1", "0"]);
    run.value = "0";
    run.dispatchEvent(new Event("change"));
    expect([run.value, minus.value]).toEqual(["0", "none"]);
  });

  it("one banner while nobody answers; trying again opens the page with what it showed", async () => {
    const { transport, page } = await open();
    const working = transport.ask.bind(transport);
    find(page, '[data-head="1.0"]').click();
    transport.ask = async () => Promise.reject(new Lost("Nobody answers."));
    find(page, "#tab-profile").click();
    find(page, '[data-head="1.1"]').click();
    await settled();
    expect(page.querySelectorAll(".banner:not([hidden])").length).toBe(1);
    expect(page.querySelector(".app")?.textContent?.split("Nobody answers.").length).toBe(2);
    const again = () => find(page, ".banner button").click();
    again();
    await settled(20);
    expect(find(page, ".banner").hidden).toBe(false);
    transport.ask = working;
    again();
    await settled(50);
    expect(page.querySelectorAll(".app").length).toBe(1);
    expect(find(page, ".banner").hidden).toBe(true);
    expect(find(page, "[data-here]").dataset.head).toBe("1.1");
    expect(find(page, "#tab-profile").getAttribute("aria-selected")).toBe("true");
  });

  it("says why where there is no scene, and tries again", async () => {
    const transport = new Fake(scene());
    const working = transport.ask.bind(transport);
    transport.ask = async () => Promise.reject(new Lost("Nobody answers."));
    close = await mount(root, transport, { address: false });
    const page = root.shadowRoot as ShadowRoot;
    expect(find(page, "[role=alert]").textContent).toContain("Nobody answers.");
    transport.ask = working;
    find(page, "button").click();
    await settled(20);
    expect(find(page, "h1").textContent).toBe("A model");
  });

  it("shows the profile of a head when its tab is opened", async () => {
    const { transport, page } = await open();
    expect(transport.asked.some(({ name }) => name === "profile")).toBe(false);
    find(page, "#tab-profile").click();
    await settled();
    expect(transport.asked.filter(({ name }) => name === "profile").length).toBe(1);
    expect(find(page, "#panel-profile").hidden).toBe(false);
  });

  it("a widget shows itself and goes away", async () => {
    const el = document.createElement("div");
    const listeners = new Set<(message: unknown, buffers: unknown) => void>();
    const model = {
      send: vi.fn((question: unknown) => {
        const { id, name } = question as { id: string; name: string };
        if (name === "scene") queueMicrotask(() => listeners.forEach((hear) => hear({ id, meta: scene() }, [])));
      }),
      on: (_: string, hear: (message: unknown, buffers: unknown) => void) => void listeners.add(hear),
      off: (_: string, hear: (message: unknown, buffers: unknown) => void) => void listeners.delete(hear),
    };
    const end = await viewer.render({ model: model as never, el });
    expect(el.firstElementChild?.shadowRoot?.querySelector("h1")?.textContent).toBe("A model");
    end();
    expect(el.childElementCount).toBe(0);
    expect(listeners.size).toBe(0);
  });
});

describe("charts", () => {
  it("no peak of a long series is lost", () => {
    const values = new Float32Array(32_768).fill(1);
    values[20_001] = 9;
    values[7] = -3;
    const { low, high } = envelope(values, 300);
    expect([low.length, Math.max(...high), Math.min(...low)]).toEqual([300, 9, -3]);
    expect(envelope([1, 2], 300).high).toEqual(Float32Array.of(1, 2));
  });

  it("ticks are round and within the scale, of two curves together", () => {
    expect(scaleOf([[0, 0.37]], false).ticks.map((tick) => Number(tick.toFixed(6)))).toEqual([0, 0.1, 0.2, 0.3]);
    const log = scaleOf([[1e-9, 40]], true);
    expect([log.of(40), log.of(0), log.of(1e-9)]).toEqual([1, 0, 0]);
    expect(log.ticks).toEqual([10, 1, 0.1, 0.01, 0.001]);
    expect(scaleOf([[0, 0, 0]], false).of(0)).toBe(0);
    expect(scaleOf([[1, NaN], [-4, 2]], false)).toMatchObject({ low: -4, high: 2 });
  });

  const series = { name: "x", first: 0, across: "", most: "Most", nothing: "nothing", say: (at: number) => `at ${at}` };
  it("what is no number is left out, and does not break the line", () => {
    const { low, high } = envelope([1, NaN, 3, NaN, NaN, NaN], 3);
    expect([[...low], [...high]]).toEqual([[1, 3, NaN], [1, 3, NaN]]);
    const chart = new Chart(140);
    chart.show({ ...series, curves: [{ values: [1, NaN, 3, 2], colour: "red" }] });
    const d = chart.node.querySelector("path")?.getAttribute("d") ?? "";
    expect([d.split("M").length, d.includes("NaN")]).toEqual([3, false]);
    expect(chart.node.querySelector("output")?.textContent).toBe("Most: at 2");
  });

  it("a chart of nothing says so, and a second curve is dashed", () => {
    const chart = new Chart(140);
    chart.show({ ...series, curves: [{ values: [0, NaN, 0], colour: "red" }, { values: [1, 2, 3], colour: "blue" }] });
    expect(chart.node.querySelector("output")?.textContent).toBe("nothing");
    expect([...chart.node.querySelectorAll("path")].map((path) => path.getAttribute("stroke-dasharray"))).toEqual([null, "5 2"]);
  });

  it("thousands are apart, and minus is a minus", () => {
    const chart = new Chart(140);
    chart.show({ ...series, curves: [{ values: Float32Array.from({ length: 4000 }, (_, at) => (at === 9 ? -2500 : at)), colour: "red" }] });
    const written = [...chart.node.querySelectorAll("text")].map((text) => text.textContent);
    expect(written).toContain("3,000");
    expect(written).toContain("−2,000");
  });
});
