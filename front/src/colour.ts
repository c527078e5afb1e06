// Colours of probabilities and of the paper they are drawn on.

import type { State } from "./state";

export type Colour = [number, number, number];

/** How many colours a ramp is made of. */
export const STEPS = 1024;

// Lightness rises or falls all the way, so that a map reads without colour vision and in grey print. A difference is blue
// and orange, which no common colour blindness confuses; its middle is the paper.
const STOPS = {
  light: ["#ffffff", "#dbe9f6", "#9ecae1", "#4a98c9", "#1f6cb0", "#123f85", "#0a1c4a"],
  dark: ["#10141b", "#152f55", "#1a567f", "#2b8089", "#5aab82", "#b5cf6b", "#fff3b0"],
  lightApart: ["#0b2f66", "#2166ac", "#7fb2d6", "#ffffff", "#f2b36b", "#b85c07", "#6b2f00"],
  darkApart: ["#c9e6ff", "#6cb4ff", "#235a94", "#10141b", "#8a4a0c", "#f39a3c", "#ffe3bd"],
};

export interface Paper {
  ink: string;
  soft: string;
  line: string;
  surface: string;
  accent: string;
  focus: string;
  /** Text on ink. */
  onInk: string;
  /** Lies over keys that a query can not attend to. */
  veil: string;
  hatch: string;
  /** Between cells that are large enough to be seen one by one. */
  grid: string;
}

const PAPERS: Record<"light" | "dark", Paper> = {
  light: {
    ink: "#1a1f27",
    soft: "#5b6675",
    line: "#aab3c0",
    surface: "#ffffff",
    accent: "#c2410c",
    focus: "#0b62b8",
    onInk: "#ffffff",
    veil: "rgba(120, 130, 145, 0.10)",
    hatch: "rgba(100, 112, 130, 0.17)",
    grid: "rgba(90, 102, 117, 0.14)",
  },
  dark: {
    ink: "#e8ecf2",
    soft: "#98a4b3",
    line: "#4a5462",
    surface: "#171b22",
    accent: "#ff9d6b",
    focus: "#6cb4ff",
    onInk: "#0e1116",
    veil: "rgba(150, 165, 185, 0.08)",
    hatch: "rgba(150, 165, 185, 0.16)",
    grid: "rgba(160, 175, 195, 0.16)",
  },
};

export function paper(dark: boolean): Paper {
  return PAPERS[dark ? "dark" : "light"];
}

const linear = (x: number) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
const gamma = (x: number) => (x <= 0.0031308 ? 12.92 * x : 1.055 * x ** (1 / 2.4) - 0.055);

/** OKLab lightness and the two opponent axes: equal steps look equal. */
export function oklab(c: Colour): Colour {
  const [r, g, b] = c.map((x) => linear(x / 255)) as Colour;
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

function fromOklab([L, a, b]: Colour): Colour {
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const rgb: Colour = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  return rgb.map((x) => Math.round(255 * Math.min(1, Math.max(0, gamma(Math.max(0, x)))))) as Colour;
}

export const hex = (text: string): Colour => [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16)) as Colour;

const made = new Map<string, Colour[]>();

/** The colours of a ramp, from t = 0 to t = 1. */
export function colours(dark: boolean, diverging: boolean): readonly Colour[] {
  const name = `${dark ? "dark" : "light"}${diverging ? "Apart" : ""}` as keyof typeof STOPS;
  let table = made.get(name);
  if (!table) {
    const stops = STOPS[name].map((stop) => oklab(hex(stop)));
    table = Array.from({ length: STEPS }, (_, n) => {
      const x = (n / (STEPS - 1)) * (stops.length - 1);
      const at = Math.min(stops.length - 2, Math.floor(x));
      const from = stops[at]!;
      const to = stops[at + 1]!;
      return fromOklab(from.map((value, axis) => value + (to[axis]! - value) * (x - at)) as Colour);
    });
    made.set(name, table);
  }
  return table;
}

/** The colour of t in 0..1; in a diverging ramp 0.5 is no difference. */
export function ramp(dark: boolean, diverging: boolean): (t: number) => Colour {
  const table = colours(dark, diverging);
  return (t) => table[Math.round(Math.min(1, Math.max(0, t || 0)) * (STEPS - 1))]!;
}

// Four decades fit into the logarithm; it passes through 0, where a logarithm has none.
const DECADES = 1e4;

/** From a share of the largest value, 0..1, to a place on the ramp, 0..1. */
export const SCALES: Record<State["scale"], (x: number) => number> = {
  linear: (x) => x,
  sqrt: (x) => Math.sqrt(Math.max(0, x)),
  log: (x) => Math.log1p(DECADES * Math.max(0, x)) / Math.log1p(DECADES),
};

export function css(c: Colour): string {
  return `rgb(${c[0]} ${c[1]} ${c[2]})`;
}

/** Black or white, whichever can be read better on the colour; the contrast is 4.5 at least. */
export function inkOn(c: Colour): string {
  const luminance = 0.2126 * linear(c[0] / 255) + 0.7152 * linear(c[1] / 255) + 0.0722 * linear(c[2] / 255);
  return luminance > 0.179 ? "#000000" : "#ffffff";
}

export function isDark(state: State): boolean {
  if (state.theme !== "auto") return state.theme === "dark";
  return typeof matchMedia === "function" && matchMedia("(prefers-color-scheme: dark)").matches;
}

// Each is about 1.25 times the one before, and all are round.
const ROUND = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10];

/** The end of the colour bar: the least round number that is not below the largest value. */
export function ceiling(most: number): number {
  if (!(most > 0) || !Number.isFinite(most)) return 1;
  const decade = 10 ** Math.floor(Math.log10(most));
  // A float32 that stands for 0.8 may lie just above it.
  const step = ROUND.find((x) => x * decade >= most * (1 - 1e-6)) ?? 10;
  return Number((step * decade).toPrecision(3));
}
