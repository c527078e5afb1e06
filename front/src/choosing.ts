// Heads by name, and what else changes when another one is chosen.

import type { HeadScores, Kind, Layer, Scene } from "./protocol";
import type { State } from "./state";

export type Place = [layer: number, head: number];

export const placeName = ([layer, head]: Place): string => `${layer}.${head}`;

/** "3.5" as a place, or null where the scene has no such head. */
export function placeOf(scene: Scene, name: string): Place | null {
  const found = /^(\d{1,6})\.(\d{1,6})$/.exec(name);
  if (!found) return null;
  const place: Place = [Number(found[1]), Number(found[2])];
  const layer = scene.layers[place[0]];
  return layer && place[1] < layer.heads ? place : null;
}

export const layerOf = (scene: Scene, place: Place): Layer => scene.layers[place[0]] as Layer;

/** "Layer 3", "Encoder layer 0", "Cross attention 1", as people say it. */
export function layerTitle({ label }: Layer): string {
  const [, stack, number] = /^(\S+) (\d.*)$/.exec(label) ?? [];
  if (!stack) return `Layer ${label}`;
  if (stack === "cross") return `Cross attention ${number}`;
  return `${stack.charAt(0).toUpperCase()}${stack.slice(1)} layer ${number}`;
}

export const title = (scene: Scene, place: Place): string => `${layerTitle(layerOf(scene, place))}, head ${place[1]}`;

const scored = new WeakMap<Scene, Map<string, HeadScores>>();

export function scoresOf(scene: Scene, place: Place): HeadScores | null {
  if (!scene.heads) return null;
  let known = scored.get(scene);
  if (!known) {
    known = new Map(scene.heads.map((head) => [placeName([head.layer, head.head]), head]));
    scored.set(scene, known);
  }
  return known.get(placeName(place)) ?? null;
}

/** The kind that a head was called; one that is called nothing is mixed. */
export function kindOf(scene: Scene, place: Place): Kind | null {
  const scores = scoresOf(scene, place);
  if (!scores) return null;
  return scene.kinds.find((kind) => kind.name === scores.kind) ?? null;
}

/** Only heads over the same queries and keys have a mean. */
export function sameShape(scene: Scene, a: Place, b: Place): boolean {
  const one = layerOf(scene, a);
  const other = layerOf(scene, b);
  const same = (x: number[], y: number[]) => x.every((axis, row) => axis === y[row]);
  return same(one.rows, other.rows) && same(one.cols, other.cols);
}

/** The state's chosen heads that go with the head on the map. */
export function meanOf(scene: Scene, state: State): Place[] {
  const here: Place = [state.layer, state.head];
  const places = state.chosen.map((name) => placeOf(scene, name)).filter((place) => place !== null);
  return places.filter((place) => sameShape(scene, place, here));
}

/** Puts a head on the map; what cannot be carried over from the one before is let go. */
export function choose(scene: Scene, state: State, place: Place): Partial<State> {
  const here: Place = [state.layer, state.head];
  const change: Partial<State> = { layer: place[0], head: place[1] };
  if (sameShape(scene, here, place)) return change;
  const { T, S } = layerOf(scene, place);
  return {
    ...change,
    at: null,
    query: state.query === null ? null : Math.min(state.query, T - 1),
    key: state.key === null || state.key >= S ? null : state.key,
    chosen: [],
  };
}

/** Takes a head into the mean of the text, or out of it. */
export function toggle(scene: Scene, state: State, place: Place): Partial<State> | null {
  const name = placeName(place);
  if (state.chosen.includes(name)) return { chosen: state.chosen.filter((other) => other !== name) };
  if (!sameShape(scene, place, [state.layer, state.head])) return null;
  return { chosen: [...state.chosen, name] };
}

/** The head that comes beside when none was named: the next one, from the last the one before. */
export function neighbour(scene: Scene, [layer, head]: Place): Place {
  const heads = layerOf(scene, [layer, head]).heads;
  if (head + 1 < heads) return [layer, head + 1];
  return head > 0 ? [layer, head - 1] : [layer, head];
}
