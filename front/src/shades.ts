// Two hues for the two ways of looking: what a query attends to, and what attends to a key.

import type { Colour } from "./colour";

export type Way = "to" | "from";

/** Levels that a shade is rounded to: few enough that most tokens keep theirs from one query to the next. */
export const LEVELS = 32;

const STOPS: Record<"light" | "dark", Record<Way, [Colour, Colour, Colour]>> = {
  light: {
    to: [[255, 255, 255], [120, 178, 222], [12, 74, 140]],
    from: [[255, 255, 255], [240, 168, 90], [158, 66, 8]],
  },
  dark: {
    to: [[23, 27, 34], [30, 98, 156], [142, 208, 255]],
    from: [[23, 27, 34], [150, 82, 20], [255, 198, 128]],
  },
};

const known = new Map<string, Colour>();

/** The shade of a level, 0 (nothing) to LEVELS. */
export function shade(dark: boolean, way: Way, level: number): Colour {
  const name = `${dark}${way}${level}`;
  const found = known.get(name);
  if (found) return found;
  const [low, middle, high] = STOPS[dark ? "dark" : "light"][way];
  const t = (level / LEVELS) * 2;
  const [from, to, part] = t < 1 ? [low, middle, t] : [middle, high, t - 1];
  const colour = from.map((x, at) => Math.round(x + ((to[at] as number) - x) * part)) as Colour;
  known.set(name, colour);
  return colour;
}

/** The level of each value, as a share of `most`; whatever is not nothing is seen, if faintly. */
export function levels(values: Float32Array, most: number, scale: (x: number) => number, into: Uint8Array): void {
  for (let i = 0; i < into.length; i++) {
    const x = most > 0 ? Math.abs(values[i] ?? 0) / most : 0;
    into[i] = Math.round(LEVELS * Math.min(1, Math.max(0, scale(x))));
  }
}
