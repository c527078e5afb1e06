// Tokens as running text. A text of 32,768 tokens has as many elements as the eye can see, not as many as it has tokens.

import { css, inkOn } from "./colour";
import { make } from "./dom";
import { isBare } from "./numbers";
import type { Axis } from "./protocol";
import { shade } from "./shades";
import { stepAlong } from "./strip";
import type { Hands, Marks, Shading, Strip } from "./strip";
import { visible } from "./words";

/** Tokens of one block: it is filled while it is in sight or nearly, and empty, at the height it had, otherwise. */
export const BLOCK = 256;
/** How far back a block's end may move. */
const BACK = 32;

/** A token as it stands in the text: nothing that is there stays unseen, and lines end where they end. */
export function running(label: string): string {
  if (/^ +$/.test(label)) return label.replaceAll(" ", "·");
  const parts = label.split(/(\r\n?|\n|\t| +)/).filter((part) => part !== "");
  const seen = parts.map((part) => (/^[\r\n]/.test(part) ? "⏎\n" : part === "\t" ? "⇥\t" : part.startsWith(" ") ? part : visible(part)));
  return seen.join("") || "◌";
}

/** Where blocks begin: at a word or a line rather than within one. */
export function blocksOf(labels: string[]): number[] {
  const starts = [0];
  for (let next = BLOCK; next < labels.length; next = (starts.at(-1) as number) + BLOCK) {
    let at = next;
    const fits = () => /^\s/.test(labels[at] ?? "") || /\n$/.test(labels[at - 1] ?? "");
    while (at > next - BACK && !fits()) at--;
    starts.push(fits() ? at : next);
  }
  return starts;
}

// Two texts stand side by side in cross attention, and their tokens' ids must differ.
let texts = 0;

export class RunningText implements Strip {
  private readonly prefix = `text${++texts}-`;
  private readonly axis: Axis;
  private readonly special: Set<number>;
  /** Positions without tokens: numbers, which would run together. */
  private readonly numbers: boolean;
  private readonly hands: Hands;
  private readonly host: HTMLElement;
  private readonly starts: number[];
  private readonly blocks: HTMLElement[] = [];
  private readonly spans = new Map<number, HTMLElement>();
  private readonly sight: IntersectionObserver;
  private shading: Shading = { to: null, from: null, dark: false };
  private marks: Marks = { query: null, key: null };
  private here: number | null = null;

  constructor(host: HTMLElement, axis: Axis, name: string, hands: Hands) {
    this.host = host;
    this.axis = axis;
    this.hands = hands;
    this.special = new Set(axis.special);
    this.numbers = isBare(axis);
    host.classList.add("running", "scroll");
    host.tabIndex = 0;
    host.setAttribute("role", "listbox");
    host.setAttribute("aria-label", name);
    this.sight = new IntersectionObserver((seen) => this.seen(seen), { root: host, rootMargin: "400px 0px" });
    this.starts = blocksOf(axis.labels);
    for (const from of this.starts) {
      const block = make("div", { class: "block", role: "presentation", "data-from": from });
      block.style.minHeight = `${this.guess(from)}px`;
      this.blocks.push(block);
      host.append(block);
      this.sight.observe(block);
    }
    this.listen();
  }

  destroy(): void {
    this.sight.disconnect();
    this.host.replaceChildren();
  }

  shade(shading: Shading): void {
    this.shading = shading;
    for (const [at, span] of this.spans) this.colour(at, span);
  }

  mark(marks: Marks): void {
    const before = this.marks;
    this.marks = marks;
    for (const at of new Set([before.query, before.key, marks.query, marks.key])) {
      const span = at === null ? undefined : this.spans.get(at);
      if (at !== null && span) this.outline(at, span);
    }
    this.here = marks.query ?? marks.key ?? this.here;
    const active = this.here === null ? undefined : this.spans.get(this.here);
    if (active) this.host.setAttribute("aria-activedescendant", active.id);
    else this.host.removeAttribute("aria-activedescendant");
  }

  reveal(at: number, tries = 3): void {
    const block = this.blocks[this.starts.findLastIndex((start) => start <= at)];
    if (!block) return;
    this.fill(block);
    const span = this.spans.get(at);
    if (!span || this.host.clientHeight === 0) return;
    const [inner, outer] = [span.getBoundingClientRect(), this.host.getBoundingClientRect()];
    if (inner.top >= outer.top && inner.bottom <= outer.bottom) return;
    this.host.scrollTop += inner.top - outer.top - this.host.clientHeight / 2;
    // Blocks that come into sight take their real height, which moves what is below them.
    if (tries > 0) requestAnimationFrame(() => requestAnimationFrame(() => this.reveal(at, tries - 1)));
  }

  private listen(): void {
    const at = (event: Event): number | null => {
      const found = (event.target as Element | null)?.closest?.<HTMLElement>("[data-token]")?.dataset.token;
      return found === undefined ? null : Number(found);
    };
    this.host.addEventListener("pointerover", (event) => {
      const token = at(event);
      if (token !== null && event.pointerType !== "touch") this.hands.over(token);
    });
    this.host.addEventListener("pointerleave", () => this.hands.over(null));
    this.host.addEventListener("click", (event) => {
      const token = at(event);
      if (token === null) return;
      this.here = token;
      this.hands.pick(token, true);
    });
    this.host.addEventListener("keydown", (event) => {
      if (event.key === "Escape") return this.hands.free();
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      const rows = { ArrowUp: this.vertical(-1), ArrowDown: this.vertical(1) }[event.key as "ArrowUp" | "ArrowDown"];
      const next = rows ?? stepAlong(event.key, this.here, this.axis.labels.length, 0, this.first());
      if (next === null || next === undefined) return;
      event.preventDefault();
      this.here = next;
      this.reveal(next);
      this.hands.pick(next, true);
    });
  }

  /** The token above or below the one that is marked. */
  private vertical(way: number): number | null {
    const from = this.here === null ? undefined : this.spans.get(this.here);
    if (!from || this.here === null) return null;
    const box = from.getBoundingClientRect();
    const middle = box.left + box.width / 2;
    const line = parseFloat(getComputedStyle(this.host).lineHeight) || 22;
    for (let n = 1; n < 400; n++) {
      const span = this.spans.get(this.here + way * n);
      if (!span) return null;
      const there = span.getBoundingClientRect();
      const down = (there.top - box.top) * way;
      if (down > line * 0.6 && (way > 0 ? there.right >= middle : there.left <= middle)) return this.here + way * n;
      if (down > line * 1.6) return this.here + way * (n - 1);
    }
    return null;
  }

  /** The first token in sight. */
  private first(): number {
    return Number(this.blocks.find((block) => block.childElementCount > 0)?.dataset.from ?? 0);
  }

  private end(from: number): number {
    return this.starts[this.starts.indexOf(from) + 1] ?? this.axis.labels.length;
  }

  /** Height of a block that was never filled, from how much there is to write. */
  private guess(from: number): number {
    let signs = 0;
    for (let i = from; i < this.end(from); i++) signs += ((this.axis.labels[i] ?? "").length || 1) + (this.numbers ? 1 : 0);
    return Math.ceil(signs / 44) * 22;
  }

  private seen(entries: IntersectionObserverEntry[]): void {
    for (const { target, isIntersecting, boundingClientRect } of entries) {
      const block = target as HTMLElement;
      if (isIntersecting) this.fill(block);
      else if (block.childElementCount > 0) this.empty(block, boundingClientRect.height);
    }
  }

  private fill(block: HTMLElement): void {
    if (block.childElementCount > 0) return;
    const from = Number(block.dataset.from);
    const part = document.createDocumentFragment();
    const number = make("span", { class: "position", "aria-hidden": "true" }, String(from));
    part.append(number);
    for (let at = from; at < this.end(from); at++) {
      const seen = running(this.axis.labels[at] ?? "");
      // The break at a token's end stands behind its element, whose outline would reach into the next line.
      const text = seen.replace(/\n$/, "");
      const span = make("span", { class: "token", role: "option", id: `${this.prefix}${at}`, "data-token": at, "aria-selected": "false" }, text);
      if (this.special.has(at)) span.classList.add("special");
      this.spans.set(at, span);
      this.colour(at, span);
      this.outline(at, span);
      part.append(span, seen.slice(text.length) + (this.numbers ? " " : ""));
    }
    block.append(part);
    block.style.minHeight = "";
  }

  private empty(block: HTMLElement, height: number): void {
    const from = Number(block.dataset.from);
    for (let at = from; at < this.end(from); at++) this.spans.delete(at);
    if (height > 0) block.style.minHeight = `${height}px`;
    block.replaceChildren();
  }

  private colour(at: number, span: HTMLElement): void {
    const { to, from, dark } = this.shading;
    const [a, b] = [to?.[at] ?? 0, from?.[at] ?? 0];
    // Levels are whole numbers: a token whose shade stays is not touched.
    const name = `${a} ${b} ${dark}`;
    if (span.dataset.shade === name) return;
    span.dataset.shade = name;
    const way = b > a ? "from" : "to";
    const level = Math.max(a, b);
    const colour = shade(dark, way, level);
    span.style.background = level > 0 ? css(colour) : "";
    span.style.color = level > 0 ? inkOn(colour) : "";
    // Both at once: the weaker one is a bar below.
    span.style.boxShadow = a > 0 && b > 0 ? `inset 0 -3px ${css(shade(dark, way === "to" ? "from" : "to", Math.max(12, Math.min(a, b))))}` : "";
  }

  private outline(at: number, span: HTMLElement): void {
    span.classList.toggle("at-query", at === this.marks.query);
    span.classList.toggle("at-key", at === this.marks.key);
    span.setAttribute("aria-selected", String(at === this.marks.query || at === this.marks.key));
  }
}
