import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { fixed, plural, signed, sum } from "../src/numbers";
import { ProfilePanel } from "../src/profile";
import type { ProfileMeta, Scene } from "../src/protocol";
import { ScoresPanel } from "../src/scores";
import { opening, Store } from "../src/state";
import { browser, Fake, scene, settled } from "./page";

const META: ProfileMeta = { offsets: [0.5, 0.3, 0.2], limit: 2, after: 0, entropy: 1.5, received: [{ at: 4, p: 7 }], links: [{ i: 9, j: 3, p: 0.9 }] };

describe("numbers in sentences", () => {
  it("have their nouns and their signs", () => {
    expect([plural(1, "head"), plural(0, "head"), plural(1500, "token")]).toEqual(["1 head", "0 heads", "1,500 tokens"]);
    expect([fixed(-0.256, 2), fixed(-0.001, 2), fixed(NaN, 2)]).toEqual(["−0.26", "0.00", "no number"]);
    expect([sum(-12345.4), sum(3), sum(NaN)]).toEqual(["−12,345", "3.00", "no number"]);
    expect([signed("1", 1), signed("−1", -1), signed("0", 0)]).toEqual(["+1", "−1", "0"]);
  });
});

describe("the profile", () => {
  let host: HTMLElement;
  let panel: ProfilePanel | null = null;
  beforeEach(() => {
    browser();
    document.body.replaceChildren((host = document.createElement("div")));
    Object.defineProperty(HTMLElement.prototype, "clientWidth", { configurable: true, get: () => 400 });
  });
  afterEach(() => {
    panel?.destroy();
    delete (HTMLElement.prototype as { clientWidth?: number }).clientWidth;
  });

  async function open(change: object, meta: Partial<ProfileMeta> = {}, of: Scene = scene(), fill = 1) {
    const store = new Store({ ...opening(of), panel: "profile", ...change });
    const transport = new Fake(of);
    const ask = transport.ask.bind(transport);
    transport.ask = (async (name: never, params: { layer: number }, signal: never) => {
      const { data } = await ask(name, params as never, signal);
      return { meta: { ...META, ...meta }, data: new Float32Array(data.byteLength / 4).fill(fill).buffer };
    }) as never;
    panel = new ProfilePanel(host, of, store, transport);
    await settled(20);
    return { store, transport };
  }
  const part = (name: string) => host.querySelector<HTMLElement>(`[aria-label="${name}"]`) as HTMLElement;
  const says = (name: string) => part(name).querySelector("output")?.textContent;

  it("says what is most, in the singular where there is one", async () => {
    await open({}, {}, scene(), 0.1);
    expect(says("Entropy along the queries")).toBe("Most: 0.10 nats, as over 1 even key, at query 0 <s>");
    expect(says("Attention by distance")).toBe("Most: 0.500 mean probability, at the query itself");
    expect(part("Attention by distance").textContent).toContain("first 2 distances");
  });

  it("nothing is called nothing", async () => {
    await open({}, { offsets: [0, 0, 0], received: [], links: [] }, scene(), 0);
    for (const name of ["Attention by distance", "Entropy along the queries", "Attention received along the keys"]) expect(says(name)).toBe("nothing");
    expect([part("Keys").querySelector("table"), part("Strongest links").textContent]).toEqual([null, "Strongest linksnothing"]);
  });

  it("a difference says its signs, and no links, which it has none of", async () => {
    await open({ run: 1, minus: 0 }, { received: [{ at: 4, p: -7.5 }, { at: 5, p: 3 }], links: [] }, scene(), -0.5);
    expect(says("Entropy along the queries")).toBe("Most changed: −0.50 nats at query 0 <s>");
    expect(part("Keys").querySelector("h3")?.textContent).toBe("Keys that changed most");
    expect([...part("Keys").querySelectorAll("td.n")].map((node) => node.textContent)).toEqual(["−7.50", "−0.188", "+3.00", "+0.075"]);
    expect([...part("Keys").querySelectorAll(".fill")].map((node) => node.classList.contains("less"))).toEqual([true, false]);
    expect(part("Strongest links").hidden).toBe(true);
  });

  it("there is no distance between two texts", async () => {
    await open({ layer: 2, head: 0 });
    expect(part("Attention by distance").hidden).toBe(true);
    expect(part("Strongest links").textContent).not.toContain("distance");
  });

  it("two heads over the same tokens lie over each other, with a legend", async () => {
    const { transport } = await open({ beside: [1, 1] });
    expect(transport.asked.map(({ params }) => `${params.layer}.${params.head}`)).toEqual(["0.1", "1.1"]);
    expect(host.querySelector(".legend")?.textContent).toContain("Layer 0, head 1");
    expect(host.querySelector(".legend")?.textContent).toContain("Layer 1, head 1");
    expect(part("Entropy along the queries").querySelectorAll("path").length).toBe(2);
    expect(says("Attention by distance")).toBe("Most: 0.500 and 0.500 mean probability, at the query itself");
  });

  it("heads over other keys are compared where they can be", async () => {
    await open({ beside: [2, 1] });
    const seconds = (name: string) => part(name).querySelectorAll("path").length;
    expect([seconds("Entropy along the queries"), says("Attention received along the keys")?.includes(" and ")]).toEqual([2, false]);
    expect(says("Attention by distance")).toBe("Most: 0.500 mean probability, at the query itself");
  });

  it("what is no number is said so", async () => {
    await open({}, { offsets: [null, null, null], entropy: null }, scene(), NaN);
    expect(says("Attention by distance")).toBe("nothing");
    expect(part("Entropy along the queries").textContent).toContain("mean no number nats");
  });

  it("a link that is followed is a step", async () => {
    const { store } = await open({});
    const steps: boolean[] = [];
    store.subscribe((_, __, step) => steps.push(step));
    part("Strongest links").querySelector<HTMLElement>("button")?.click();
    expect([store.get().query, store.get().key, steps]).toEqual([9, 3, [true]]);
    store.set({ log: true });
    expect(steps).toEqual([true, false]);
    expect((host.querySelector("input[type=checkbox]") as HTMLInputElement).checked).toBe(true);
  });

  it("scores that are no numbers are said so", () => {
    const of = scene();
    Object.assign(of.heads?.[1] as object, { entropy: null, scores: { induction: null, first_token: 0.5 }, chance: { induction: null, first_token: 0.1 } });
    const scores = new ScoresPanel(host, of, new Store(opening(of)));
    expect(host.textContent).toContain("Mean entropy no number");
    expect([...host.querySelectorAll(".score .value")].map((node) => node.textContent)).toEqual(["no number", "0.500 · chance 0.100"]);
    scores.destroy();
  });
});
