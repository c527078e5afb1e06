// How a head came by its letter, in words; headwise/viewer/earned.py says the same in Python's pictures.

import { kindOf, scoresOf } from "./choosing";
import type { Place } from "./choosing";
import { numeric } from "./numbers";
import type { Kind, Scene } from "./protocol";
import { share, short } from "./words";

/** What a kind asks of a head. */
export function ruleOf({ name, least }: Kind): string {
  if (least === null) return "no score clears its chance level by its margin";
  return `${name === "broad" ? "score" : "lift over chance"} at least ${short(least)}`;
}

/** The numbers that a head was called by; empty where it was not scored. */
export function earned(scene: Scene, place: Place): string {
  const kind = kindOf(scene, place);
  const head = scoresOf(scene, place);
  if (!kind || !head) return "";
  const score = numeric(head.scores[kind.name]);
  const chance = numeric(head.chance[kind.name]);
  if (kind.least === null || Number.isNaN(score)) return ruleOf(kind);
  const least = `(at least ${short(kind.least)})`;
  if (kind.name === "broad") return `score ${share(score)} ${least}`;
  const lift = chance < 1 ? (score - chance) / (1 - chance) : 0;
  return `score ${share(score)}, chance ${share(chance)}, lift ${share(lift)} ${least}`;
}
