// Where a mask ends: the causal diagonal and the edges of a window, as lines over the pattern.

import type { Layer } from "./protocol";
import { seen } from "./view";
import type { View } from "./view";

/** Query i attends to the keys from i + first up to and without i + end; null where there is no edge. */
export interface Band {
  first: number | null;
  end: number | null;
}

/** A line of corners in the plot, and the outline of what it hides. */
export interface Edge {
  line: [number, number][];
  hidden: [number, number][];
}

/** Cells of this many pixels and more are drawn as stairs. */
const STAIRS = 3;

export function bandOf(layer: Layer, b: number): Band {
  const start = layer.start[b] ?? 0;
  const ahead = layer.causal ? 0 : layer.after;
  return {
    first: layer.before === null ? null : start - layer.before,
    end: ahead === null ? null : start + ahead + 1,
  };
}

/** Whether query i may attend to key j. */
export function isVisible({ first, end }: Band, i: number, j: number): boolean {
  return (first === null || j >= i + first) && (end === null || j < i + end);
}

/** The edges in the view. Only rows that are seen are walked along, and only where their cells can be told apart. */
export function edgesOf(view: View, band: Band): Edge[] {
  const edges: Edge[] = [];
  if (band.end !== null) edges.push(edge(view, band.end, true));
  if (band.first !== null && band.first + view.T > 1) edges.push(edge(view, band.first, false));
  return edges.filter(({ line }) => line.length > 1);
}

function edge(view: View, offset: number, ahead: boolean): Edge {
  const { i0, i1 } = seen(view);
  const stairs = Math.min(view.kx, view.ky) >= STAIRS;
  const x = (j: number) => view.x + Math.min(view.S, Math.max(0, j)) * view.kx;
  const y = (i: number) => view.y + i * view.ky;
  const line: [number, number][] = [];
  if (stairs) {
    for (let i = i0; i < i1; i++) line.push([x(i + offset), y(i)], [x(i + offset), y(i + 1)]);
  } else {
    // A straight line through the stairs; it bends where it leaves the pattern.
    const bends = [i0, i1, 0.5 - offset, view.S + 0.5 - offset].filter((i) => i >= i0 && i <= i1);
    // It lies beside the last keys that are seen, which may be the brightest.
    const beside = ahead ? 1 : -1;
    for (const i of bends.sort((a, b) => a - b)) line.push([x(i + offset - 0.5) + beside, y(i)]);
  }
  const side = ahead ? x(view.S) : x(0);
  const hidden: [number, number][] = [...line, [side, y(i1)], [side, y(i0)]];
  return { line, hidden };
}
