// What a frame of the map is made of: the level it draws, the tiles it waits for, and the figure.

import type { Margins } from "./axes";
import type { Pieces } from "./cells";
import { ceiling, isDark } from "./colour";
import { bandOf } from "./edges";
import type { Figure } from "./figure";
import type { Scene, Shown } from "./protocol";
import { axesIn, measured, pooled } from "./readout";
import type { State } from "./state";
import type { Tiles, Wish } from "./tiles";
import { levelFor, middleOf, nearestFirst, ringOf, tilesIn } from "./view";
import type { Span, View } from "./view";

/** The level to draw: as fine as the screen shows, but not finer than what can be had. */
export function levelOf(tiles: Tiles, shown: Shown, view: View, ratio: number): number {
  const last = tiles.coarsest(shown);
  let z = levelFor(view, ratio);
  for (; z < last; z++) {
    const refused = nearestFirst(tilesIn(view, z), [0, 0]).some(([r, c]) => tiles.isRefused(shown, z, r, c));
    if (!refused && tiles.lack(shown, z) === null) break;
  }
  return z;
}

/** What is needed: a quick whole first, the view from its middle outwards, neighbours when there is time. */
export function wishesOf(tiles: Tiles, shown: Shown, view: View, span: Span): Wish[] {
  const last = tiles.coarsest(shown);
  const wishes: Wish[] = [];
  const wish = (z: number | null, r: number, c: number, idle: boolean) => wishes.push({ shown, z, r, c, idle });
  // A saved file may hold no tile of a head at all, and its preview instead.
  if ((last > 0 || tiles.saved) && !tiles.get(shown, last, 0, 0)) wish(null, 0, 0, false);
  for (const [r, c] of nearestFirst(span, middleOf(view, span.z))) wish(span.z, r, c, false);
  if (span.z < last) wish(last, 0, 0, true);
  for (const [r, c] of ringOf(span, view.T, view.S)) wish(span.z, r, c, true);
  return wishes;
}

export function composed(
  scene: Scene,
  state: State,
  shown: Shown,
  { view, z, margins, pieces }: { view: View; z: number; margins: Margins; pieces: Pieces },
): Figure {
  const layer = scene.layers[shown.layer]!;
  const [queries, keys] = axesIn(scene, layer, shown.b);
  const sharp = pieces.list.filter(({ tile }) => tile.z === z && tile.exact);
  const most = Math.max(0, ...(sharp.length ? sharp : pieces.list).map(({ tile }) => tile.most));
  // Until the tiles of the level are there, coarser ones may stand in for them.
  const pools = 2 ** Math.max(z, ...(sharp.length ? [] : pieces.list.map(({ tile }) => tile.z)));
  const pool = pooled(shown, { i0: 0, i1: Math.min(layer.T, pools), j0: 0, j1: Math.min(layer.S, pools) });
  return {
    shown,
    view,
    z,
    margins,
    pieces: pieces.list,
    look: { range: ceiling(most), scale: state.scale, dark: isDark(state), diverging: shown.minus !== undefined },
    band: bandOf(layer, shown.b),
    queries,
    keys,
    cross: layer.kind === "cross",
    says: [measured(scene, shown), pool].filter(Boolean).join(", "),
    query: state.query,
    key: state.key,
    sink: shown.hide ? (layer.sink[shown.b] ?? null) : null,
  };
}
