// Numbers within sentences: counts with their nouns, values with true signs, and no number where there is none.

import type { Axis } from "./protocol";
import { count, shownToken } from "./words";

export const NO_NUMBER = "no number";

/** "1 head", "270 heads". */
export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** With so many decimals and a minus that is as wide as a plus. */
export function fixed(x: number, digits: number): string {
  return Number.isFinite(x) ? x.toFixed(digits).replace(/^-(?=.*[1-9])/, "−").replace(/^-/, "") : NO_NUMBER;
}

/** A sum of probabilities: "0.42", "12,345". */
export function sum(p: number): string {
  if (!(Math.abs(p) >= 100)) return fixed(p, 2);
  return `${p < 0 ? "−" : ""}${count(Math.round(Math.abs(p)))}`;
}

/** What is said of a difference says which way it goes. */
export function signed(said: string, x: number): string {
  return x > 0 ? `+${said}` : said;
}

/** Positions without tokens: their numbers are all they are called. */
export const isBare = (axis: Axis): boolean => axis.kind === "tokens" && axis.name === "positions";

/** "12 the", or "12" where there are no tokens. */
export function named(axis: Axis, at: number): string {
  return isBare(axis) ? count(at) : `${count(at)} ${shownToken(axis, at)}`;
}

/** What Python writes as null is no number. */
export function numeric(x: number | null | undefined): number {
  return x ?? NaN;
}
