// A kind's letter on its colour: the colour alone never says it.

import { inkOn } from "./colour";
import type { Colour } from "./colour";
import { make } from "./dom";
import type { Kind } from "./protocol";

export const rgb = (hex: string): Colour => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)) as Colour;

/** A kind without colour is an outline. */
export function letterOf(kind: Kind | null): HTMLElement {
  const node = make("b", { class: "letter", "aria-hidden": "true" }, kind?.letter ?? "");
  if (kind?.colour) {
    node.style.background = kind.colour;
    node.style.color = inkOn(rgb(kind.colour));
  } else node.classList.add("plain");
  return node;
}
