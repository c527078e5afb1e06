// What the map says in words about the cells under the crosshair.

import type { Reading } from "./cells";
import { isHidden, maskOf } from "./edges";
import { isBare } from "./numbers";
import type { Axis, Layer, Scene, Shown } from "./protocol";
import { away, count, share, shownToken } from "./words";

/** Pieces of a sentence: plain words, and texts from the data, which keep their own direction of writing. */
export type Said = { kind: "number" | "words" | "token"; text: string };

export function axesIn(scene: Scene, layer: Layer, b: number): [Axis, Axis] {
  return [scene.axes[layer.rows[b] ?? 0]!, scene.axes[layer.cols[b] ?? 0]!];
}

/** "mean of 32 × 32 cells", for what one pooled cell is; nothing for single cells. */
export function pooled(shown: Shown, cell: { i0: number; i1: number; j0: number; j1: number }): string {
  const down = cell.i1 - cell.i0;
  const across = cell.j1 - cell.j0;
  if (down <= 1 && across <= 1) return "";
  return `${shown.pool === "mean" ? "mean" : "largest"} of ${count(down)} × ${count(across)} cells`;
}

/** What the values are: probabilities, shares of a row's largest, or differences between runs. */
export function measured(scene: Scene, shown: Shown): string {
  const what = shown.norm ? "share of the row’s largest" : "probability";
  if (shown.minus === undefined) return what;
  return `${what}, ${scene.runs[shown.run] ?? ""} − ${scene.runs[shown.minus] ?? ""}`;
}

export function sayReading(scene: Scene, shown: Shown, cell: Reading): Said[] {
  const layer = scene.layers[shown.layer]!;
  const [queries, keys] = axesIn(scene, layer, shown.b);
  const pool = pooled(shown, cell);
  const why = unseen(layer, shown, cell);
  const said: Said[] = [];
  const words = (text: string) => said.push({ kind: "words", text });
  if (why) words(`${why} · `);
  else {
    const sign = shown.minus !== undefined && cell.p > 0 ? "+" : "";
    said.push({ kind: "number", text: `${sign}${share(cell.p)}` });
    words(` ${[measured(scene, shown), pool].filter(Boolean).join(", ")}${cell.exact ? "" : ", sampled"} · `);
  }
  stretch(said, "query", "queries", queries, cell.i0, cell.i1);
  words(" → ");
  stretch(said, "key", "keys", keys, cell.j0, cell.j1);
  if (!pool && layer.kind === "self") words(` · ${away(cell.i0 + (layer.start[shown.b] ?? 0) - cell.j0)}`);
  return said;
}

/** Why cells have no probability to speak of; null where they have. */
function unseen(layer: Layer, shown: Shown, cell: Reading): string | null {
  if (layer.edged && isHidden(maskOf(layer, shown.b), cell)) return "hidden by the mask";
  if (shown.hide && cell.j0 === layer.sink[shown.b] && cell.j1 === cell.j0 + 1) return "left out (sink)";
  return Number.isNaN(cell.p) ? "no number" : null;
}

function stretch(said: Said[], one: string, many: string, axis: Axis, from: number, to: number): void {
  const last = to - 1;
  if (isBare(axis)) return void said.push({ kind: "words", text: from === last ? `${one} ${count(from)}` : `${many} ${count(from)}–${count(last)}` });
  said.push({ kind: "words", text: from === last ? `${one} ${count(from)} ` : `${many} ${count(from)}–${count(last)} ` });
  said.push({ kind: "token", text: shownToken(axis, from) });
  if (from === last) return;
  said.push({ kind: "words", text: " … " }, { kind: "token", text: shownToken(axis, last) });
}

/** What the reader can do: `cell` is how many pixels a drawn cell of 2^z x 2^z cells has, `touch` whether by touch. */
export function hint(z: number, cell: number, touch: boolean): string {
  const pool = z ? [`${2 ** z} × ${2 ** z} cells a ${cell < 3 ? "pixel" : "block"}`] : [];
  return [...pool, ...(touch ? ["touch for values"] : ["point for values", "? for keys"])].join(" · ");
}

/** Whether the reader has no pointer finer than a finger. */
export function isTouched(): boolean {
  return typeof matchMedia === "function" && matchMedia("(pointer: coarse)").matches;
}
