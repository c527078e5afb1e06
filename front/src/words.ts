// Numbers and tokens as a reader sees them.

import type { Axis } from "./protocol";

/** A probability: "0.123", "0.0012", "1.2e-5". */
export function share(p: number): string {
  const size = Math.abs(p);
  if (size === 0) return "0";
  if (size >= 0.00995) return minus(p.toFixed(3));
  if (size >= 0.000995) return minus(p.toFixed(4));
  return minus(p.toExponential(1));
}

/** With a minus sign that is as wide as a plus. */
function minus(text: string): string {
  return text.replace(/^-/, "−");
}

/** The same where five characters must do: "0.12", "0.007", "1e-5". */
export function brief(p: number): string {
  const size = Math.abs(p);
  if (size === 0) return "0";
  if (size >= 0.00995) return minus(p.toFixed(2));
  return minus(size >= 0.0009995 ? p.toFixed(3) : p.toExponential(0));
}

/** A round number without zeros at its end: "0.4", "5e-5". */
export function short(x: number): string {
  const size = Math.abs(x);
  if (size === 0) return "0";
  const round = Number(x.toPrecision(3));
  return minus(size < 1e-3 ? round.toExponential() : String(round));
}

/** A position or a count: "12,345". */
export function count(n: number): string {
  return String(n).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** The positions [from, to): "7", "1,268–1,271". */
export function span(from: number, to: number): string {
  return to - from > 1 ? `${count(from)}–${count(to - 1)}` : count(from);
}

/** Where a key stands, seen from the query: "3 back", "2 ahead", "itself". */
export function away(d: number): string {
  if (d === 0) return "itself";
  return d > 0 ? `${count(d)} back` : `${count(-d)} ahead`;
}

// Marks that show nothing or turn the text around them: joiners, bidi controls, soft hyphen, byte order mark, tags.
const UNSEEN = /[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff]/g;
const CONTROLS = /[\u0000-\u001f\u007f-\u009f]/g;
const HALF = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
const NAMED: Record<string, string> = { "\n": "⏎", "\r": "␍", "\t": "⇥", "\u007f": "␡" };

function control(mark: string): string {
  const code = mark.charCodeAt(0);
  return NAMED[mark] ?? (code < 0x20 ? String.fromCharCode(0x2400 + code) : `⟨${code.toString(16)}⟩`);
}

/** A text in which everything can be seen: "⏎" for a new line, "·" for a space at an end, "◌" for nothing. */
export function visible(text: string): string {
  if (text === "") return "◌";
  if (/^ +$/.test(text)) return "␣".repeat(text.length);
  const seen = text
    .replace(/^ +| +$/g, (spaces) => "·".repeat(spaces.length))
    .replace(CONTROLS, control)
    .replace(UNSEEN, (mark) => `⟨${mark.charCodeAt(0).toString(16)}⟩`)
    .replace(HALF, "\ufffd")
    .replace(/\u00a0/g, "⍽");
  // A lone accent would sit on whatever is drawn before it.
  return /^\p{M}/u.test(seen) ? `◌${seen}` : seen;
}

/** The name of a position: its token in a form that can be seen, or a patch's row and column, "r3 c5". */
export function shownToken(axis: Axis, i: number): string {
  if (axis.kind === "grid" && axis.width) {
    const patch = i - (axis.before ?? 0);
    if (patch >= 0 && patch < axis.width * (axis.height ?? Infinity)) {
      return `r${Math.floor(patch / axis.width)} c${patch % axis.width}`;
    }
  }
  return visible(axis.labels[i] ?? "");
}
