// What is said of a token: its largest keys or queries, as chips that mark them.

import { button, make } from "./dom";
import type { Known } from "./line";
import { isBare, signed } from "./numbers";
import type { Axis, Layer } from "./protocol";
import { away, count, share, shownToken } from "./words";

/** Rows of chips for which there is room, whatever is said, so that the text below stays where it is. */
const ROWS = 3;
/** Of the largest: what is less is no top key. */
const WORTH = 0.01;

/** "to": what a query attends to; "from": what attends to a key. */
export type Way = "to" | "from";

export interface Saying {
  way: Way;
  known: Known;
  /** Of what is spoken of, and of its keys or queries. */
  axis: Axis;
  others: Axis;
  layer: Layer;
  b: number;
  /** A key that is left out. */
  sink: number | null;
  held: boolean;
  /** The values are differences between runs. */
  apart: boolean;
  /** Marks one of them. */
  mark: (other: number) => void;
}

/** Where the other one stands: a key "6 back", a query "6 later". */
function standing({ way, known, layer, b }: Saying, other: number): string {
  const start = layer.start[b] ?? 0;
  if (way === "to") return away(known.at + start - other);
  const later = other + start - known.at;
  if (later === 0) return "itself";
  return later > 0 ? `${count(later)} later` : `${count(-later)} earlier`;
}

export function sayings(saying: Saying): HTMLElement {
  const { way, known, axis, others, layer, sink, held, apart, mark } = saying;
  const verb = way === "to" ? "attends to" : "is attended by";
  const what = axis.kind === "grid" ? "Patch" : isBare(axis) ? "Position" : "Token";
  const text = isBare(axis) ? null : make("q", {}, shownToken(axis, known.at));
  const head = make("p", { class: `from-${way}` }, `${what} ${count(known.at)} `, text, ` ${verb}`);
  if (!known.meta.whole) head.append(make("small", {}, " (the largest only)"));
  // Where there is no keyboard there is no Esc.
  if (held) head.append(make("small", {}, " held", make("span", { class: "esc" }, " · Esc releases")));
  const chips = make("div", { class: "keys-list" });
  const seen = known.meta.top.filter(({ at, p }) => at !== sink && p !== 0);
  const least = Math.abs(seen[0]?.p ?? 0) * WORTH;
  for (const { at, p } of seen.filter((one) => Math.abs(one.p) >= least)) {
    const chip = button("", () => mark(at), { class: "key", title: `position ${count(at)}` });
    chip.append(make("span", {}, shownToken(others, at)));
    if (layer.kind === "self" && others.kind === "tokens") chip.append(make("i", {}, standing(saying, at)));
    chip.append(make("b", {}, apart ? signed(share(p), p) : share(p)));
    chips.append(chip);
  }
  if (seen.length === 0) chips.append(make("p", { class: "hint" }, apart ? "nothing that differs" : "nothing"));
  return make("div", { class: "list" }, head, chips);
}

/** Leaves the chips that there is room for, and says how many there are besides. The list has to be on the screen. */
export function cutRows(list: HTMLElement): void {
  const chips = [...list.querySelectorAll<HTMLElement>(".key")];
  const tops = [...new Set(chips.map((chip) => chip.offsetTop))];
  const below = tops[ROWS];
  if (below === undefined) return;
  let left = chips.findIndex((chip) => chip.offsetTop >= below);
  const more = make("span", { class: "more" });
  chips.slice(left).forEach((chip) => (chip.hidden = true));
  list.append(more);
  do {
    more.textContent = `+${chips.length - left}`;
    if (more.offsetTop < below) return;
    (chips[--left] as HTMLElement).hidden = true;
  } while (left > 1);
}
