// Numbers in the page, in its pictures and in Python's pictures have one form: both sides are held to the same table.
import { describe, expect, it } from "vitest";
import written from "./numbers.json?raw";
import { numbersOf } from "../src/bar";
import { ceiling } from "../src/colour";
import { earned } from "../src/earned";
import type { State } from "../src/state";
import { brief, share, short } from "../src/words";
import { scene } from "./page";

interface Table {
  numbers: [x: number, share: string, brief: string, short: string][];
  ceilings: [most: number, end: number][];
  earned: [kind: string, least: number | null, score: number, chance: number, said: string][];
  bars: { range: number; scale: State["scale"]; diverging: boolean; marks: [text: string, place: number][] }[];
}

const table = JSON.parse(written) as Table;

describe("numbers, as Python has them", () => {
  it("have three forms", () => {
    expect(table.numbers.length).toBeGreaterThan(100);
    for (const [x, ...said] of table.numbers) expect([share(x), brief(x), short(x)], String(x)).toEqual(said);
  });

  it("end the colour bar", () => {
    for (const [most, end] of table.ceilings) expect(ceiling(most)).toBe(end);
  });

  it("stand beside the colour bar", () => {
    for (const { marks, ...look } of table.bars) {
      const found = numbersOf(look);
      expect(found.map(({ text }) => text), JSON.stringify(look)).toEqual(marks.map(([text]) => text));
      found.forEach(({ place }, n) => expect(place).toBeCloseTo(marks[n]![1], 8));
    }
  });

  it("say how a head earned its letter", () => {
    for (const [name, least, score, chance, said] of table.earned) {
      const it = scene({ kinds: [{ name, title: name, letter: "X", means: "", margin: 0, least, colour: null }] });
      it.heads = [{ layer: 0, head: 0, kind: name, entropy: null, scores: { [name]: score }, chance: { [name]: chance }, few: [] }];
      expect(earned(it, [0, 0])).toBe(said);
    }
  });
});
