import { afterEach, describe, expect, it } from "vitest";
import { Address, read, write } from "../src/address";
import { opening } from "../src/state";
import type { State } from "../src/state";
import { scene, settled } from "./page";

const SCENE = scene();

describe("the address", () => {
  it("is empty for the opening state, and opens with it", () => {
    expect(write(opening(SCENE), SCENE)).toBe("");
    expect(read("", SCENE)).toEqual({ state: opening(SCENE), says: null });
  });

  it("holds every part of the state", () => {
    const state: State = {
      run: 1,
      minus: 0,
      layer: 1,
      head: 0,
      b: 1,
      beside: [2, 1],
      at: [12.5, -3.25, 8],
      scale: "log",
      range: 0.25,
      pool: "max",
      hide: true,
      norm: true,
      kinds: ["induction", "mixed"],
      sort: "first_token",
      query: 39,
      key: 0,
      chosen: ["0.2", "1.1"],
      panel: "profile",
      look: "both",
      large: true,
      log: true,
      theme: "dark",
    };
    const differs = Object.entries(state).every(([name, value]) => value !== opening(SCENE)[name as keyof State]);
    expect(differs).toBe(true);
    expect(read(`#${write(state, SCENE)}`, SCENE)).toEqual({ state, says: null });
  });

  it("can be read by people, and says what was let go", () => {
    expect(write({ ...opening(SCENE), layer: 1, head: 0, query: null, at: [3, 4, 10] }, SCENE)).toBe("head=1.0&at=3,4,10&query=none");
    expect(read("query=none", SCENE).state.query).toBeNull();
  });

  it("of two runs opens on the second minus the first, and says run and minus together", () => {
    const two = scene({ runs: ["plain", "cut"] });
    const first = opening(two);
    expect([first.run, first.minus, write(first, two)]).toEqual([1, 0, ""]);
    const ways: [run: number, minus: number | null, hash: string][] = [[0, null, "run=0"], [1, null, "run=1"], [0, 1, "minus=1"]];
    for (const [run, minus, hash] of ways) {
      expect(write({ ...first, run, minus }, two)).toBe(hash);
      expect(read(hash, two)).toEqual({ state: { ...first, run, minus }, says: null });
    }
    expect(read("run=1&minus=0", two).state).toEqual(first);
    expect(read("head=1.0", two).state).toMatchObject({ run: 1, minus: 0 });
    const many = opening(scene());
    expect([many.run, many.minus]).toEqual([0, null]);
  });

  const HOSTILE: [string, string][] = [
    ["head=7.0", "no such head"],
    ["head=0.3", "no such head"],
    ["head=1.2", "no such head"],
    ["head=-1.0", "no such head"],
    ["head=0.1e0", "no such head"],
    ["query=abc", "not a whole number"],
    ["query=1e3", "not a whole number"],
    ["query=-1", "not a whole number"],
    ["query=40", "the last query is 39"],
    ["head=2.0&key=25", "the last key is 24"],
    ["at=1,2", "not three numbers"],
    ["at=1,2,NaN", "not three numbers"],
    ["at=1,2,Infinity", "not three numbers"],
    ["at=1,2,0", "spans no key"],
    ["run=3", "the last run is 2"],
    ["range=0", "not a number above 0"],
    ["range=-1", "not a number above 0"],
    ["range=1e999", "not a number above 0"],
    ["range=NaN", "not a number above 0"],
    ["row=2", "the last row is 1"],
    ["minus=0", "a run minus itself"],
    ["kinds=nonsense", "no such choice"],
    ["sort=__proto__", "no such choice"],
    ["hide=yes", "no such choice"],
    ["look=away", "no such choice"],
    ["large=2", "no such choice"],
    ["theme=pink", "no such choice"],
    ["constructor=1", "not known here"],
    ["__proto__=1", "not known here"],
    ["scale=%zz", "broken % signs"],
  ];
  it.each(HOSTILE)("does not follow %s, says so, and follows the rest", (hash, why) => {
    const { state, says } = read(`#panel=profile&${hash}`, SCENE);
    expect(state.panel).toBe("profile");
    expect(says).toContain(why);
    const allowed = hash.startsWith("head=2.0") ? { layer: 2, head: 0 } : {};
    expect(state).toEqual({ ...opening(SCENE), panel: "profile", ...allowed });
  });

  it("says one short sentence, however much is wrong", () => {
    const { says } = read(Array.from({ length: 50 }, (_, n) => `w${n}=${"x".repeat(500)}`).join("&"), SCENE);
    expect(says?.length).toBeLessThan(260);
    expect(says).toContain("47 more");
  });

  it("keeps the query within a head that has fewer", () => {
    const small = scene();
    (small.layers[1] as { T: number }).T = 5;
    expect(read("head=1.0", small).state.query).toBe(4);
  });
});

describe("following the address", () => {
  afterEach(() => history.replaceState(null, "", location.pathname));

  it("writes without a step in the history unless told, and reads what the reader changed", async () => {
    const followed: State[] = [];
    const address = new Address(SCENE, (state) => followed.push(state));
    const before = history.length;
    address.put({ ...opening(SCENE), scale: "log" });
    expect(location.hash).toBe("#scale=log");
    expect(history.length).toBe(before);
    address.put({ ...opening(SCENE), layer: 1, head: 0, scale: "log" }, true);
    expect([location.hash, history.length]).toEqual(["#head=1.0&scale=log", before + 1]);
    location.hash = "#scale=linear&query=2";
    await settled();
    expect(followed.map(({ scale, query }) => [scale, query])).toEqual([["linear", 2]]);
    address.destroy();
    location.hash = "#scale=log";
    await settled();
    expect(followed.length).toBe(1);
  });
});
