// What a frame of the map is made of: the level it draws, the tiles it waits for, and the figure.

import type { Margins } from "./axes";
import { mostOf } from "./cells";
import type { Pieces } from "./cells";
import { isDark } from "./colour";
import { isHidden, maskOf } from "./edges";
import type { Figure } from "./figure";
import type { Scene, Shown } from "./protocol";
import { axesIn, measured, pooled } from "./readout";
import type { State } from "./state";
import type { Tiles, Wish } from "./tiles";
import { levelFor, middleOf, nearestFirst, ringOf, seen, tilesIn } from "./view";
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

/** The tiles that say what the colours span: those of the level, or while none is there, what stands in for them. */
function sharp({ list }: Pieces, z: number): Pieces["list"] {
  const found = list.filter(({ tile }) => tile.z === z && tile.exact);
  return found.length ? found : list;
}

/** The largest value that a map shows. */
export function mostShown(pieces: Pieces, view: View, z: number): number {
  return mostOf(sharp(pieces, z), view);
}

export function composed(
  scene: Scene,
  state: State,
  shown: Shown,
  { view, z, margins, pieces, most, range }: { view: View; z: number; margins: Margins; pieces: Pieces; most: number; range: number },
): Figure {
  const layer = scene.layers[shown.layer]!;
  const [queries, keys] = axesIn(scene, layer, shown.b);
  const mask = maskOf(layer, shown.b);
  const pool = 2 ** Math.max(z, ...sharp(pieces, z).map(({ tile }) => tile.z));
  const cells = pooled(shown, { i0: 0, i1: Math.min(layer.T, pool), j0: 0, j1: Math.min(layer.S, pool) });
  const empty = pieces.exact && most === 0 && !isHidden(mask, seen(view));
  return {
    shown,
    view,
    z,
    margins,
    pieces: pieces.list,
    look: { range, over: most > range * (1 + 1e-6), scale: state.scale, dark: isDark(state), diverging: shown.minus !== undefined },
    mask,
    queries,
    keys,
    cross: layer.kind === "cross",
    says: [measured(scene, shown), cells].filter(Boolean),
    note: empty ? nothingIn(shown) : "",
    pool,
    query: state.query,
    key: state.key,
    sink: shown.hide ? (layer.sink[shown.b] ?? null) : null,
  };
}

function nothingIn({ minus, hide }: Shown): string {
  if (minus !== undefined) return "no difference here";
  return hide ? "no query attends to anything else here" : "no query attends to anything here";
}
