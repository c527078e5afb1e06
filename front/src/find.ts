// Finds tokens by their text: a small field that goes from one token to the next.

import { button, make } from "./dom";
import { isBare } from "./numbers";
import type { Axis } from "./protocol";
import { count } from "./words";

/** Numbers and places stand apart from each other; the tokens of a text run on. */
const apart = (axis: Axis): boolean => axis.kind === "grid" || isBare(axis);

/** Positions where the text begins, whatever its case. A word may be of several tokens. */
export function matches(axis: Axis, text: string): number[] {
  const wanted = text.toLowerCase();
  if (wanted === "") return [];
  const labels = axis.labels.map((label) => label.toLowerCase());
  if (apart(axis)) return labels.flatMap((label, at) => (label.includes(wanted) ? [at] : []));
  const whole = labels.join("");
  const found: number[] = [];
  let [token, end] = [0, (labels[0] ?? "").length];
  for (let place = whole.indexOf(wanted); place >= 0; place = whole.indexOf(wanted, place + 1)) {
    while (end <= place) end += (labels[++token] as string).length;
    if (found.at(-1) !== token) found.push(token);
  }
  return found;
}

export type Side = "query" | "key";
interface Hit {
  side: Side;
  at: number;
}

export class Find {
  readonly opener = button("Find", () => this.open(), { class: "small", title: "Find a token by its text (/)" });
  readonly node = make("div", { class: "find", role: "search" });
  private readonly field = make("input", { type: "text", "aria-label": "Find a token", placeholder: "find a token", spellcheck: "false", autocomplete: "off" });
  private readonly status = make("span", { class: "hint", role: "status" });
  private readonly axes: () => [Side, Axis][];
  private readonly from: () => number;
  private readonly go: (side: Side, at: number) => void;
  private hits: Hit[] = [];
  private n = 0;

  /** `from`: where the search begins, a query. */
  constructor(axes: () => [Side, Axis][], from: () => number, go: (side: Side, at: number) => void) {
    this.axes = axes;
    this.from = from;
    this.go = go;
    this.node.hidden = true;
    this.node.append(
      this.field,
      this.status,
      button("↑", () => this.step(-1), { class: "icon", "aria-label": "Previous", title: "Previous (Shift Enter)" }),
      button("↓", () => this.step(1), { class: "icon", "aria-label": "Next", title: "Next (Enter)" }),
      button("×", () => this.close(), { class: "icon", "aria-label": "Close the search", title: "Close (Esc)" }),
    );
    this.field.addEventListener("input", () => this.search());
    this.field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.step(event.shiftKey ? -1 : 1);
      else if (event.key === "Escape") this.close();
      else return;
      event.preventDefault();
    });
  }

  open(): void {
    this.node.hidden = false;
    this.opener.hidden = true;
    this.field.focus();
    this.field.select();
  }

  private close(): void {
    this.node.hidden = true;
    this.opener.hidden = false;
    this.opener.focus();
  }

  private search(): void {
    this.hits = this.axes().flatMap(([side, axis]) => matches(axis, this.field.value).map((at) => ({ side, at })));
    this.n = Math.max(0, this.hits.findIndex(({ side, at }) => side === "query" && at >= this.from()));
    this.show();
  }

  private step(by: number): void {
    if (this.hits.length === 0) return this.search();
    this.n = (this.n + by + this.hits.length) % this.hits.length;
    this.show();
  }

  /** The head on the map is of another text now. */
  forget(): void {
    this.hits = [];
    this.status.textContent = "";
  }

  private show(): void {
    const hit = this.hits[this.n];
    this.status.textContent = hit ? `${count(this.n + 1)} of ${count(this.hits.length)}` : this.field.value === "" ? "" : "none";
    if (hit) this.go(hit.side, hit.at);
  }
}
