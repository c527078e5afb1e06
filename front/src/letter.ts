// A kind's letter on its colour: the colour alone never says it.

import { hex, inkOn } from "./colour";
import { make } from "./dom";
import type { Kind } from "./protocol";

/** A kind without colour is an outline. */
export function letterOf(kind: Kind | null): HTMLElement {
  const node = make("b", { class: "letter", "aria-hidden": "true" }, kind?.letter ?? "");
  if (kind?.colour) {
    node.style.background = kind.colour;
    node.style.color = inkOn(hex(kind.colour));
  } else node.classList.add("plain");
  return node;
}
