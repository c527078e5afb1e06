// How far the small maps are, in words.

import { plural } from "./numbers";

export interface Maps {
  /** Heads that pass the filter, of all. */
  left: number;
  of: number;
  exact: number;
  sampled: number;
  /** Nothing will change any more. */
  done: boolean;
}

/** "270 heads, all maps exact", "5 of 270 heads, 12 exact, 200 sampled, 58 waiting". */
export function progress({ left, of, exact, sampled, done }: Maps): string {
  const parts = [left < of ? `${left} of ${plural(of, "head")}` : plural(of, "head")];
  if (exact === of) parts.push(of === 1 ? "its map exact" : "all maps exact");
  else {
    if (exact > 0) parts.push(`${exact} exact`);
    if (done) parts.push(`${of - exact} of ${of} could not be made`);
    else {
      if (sampled > 0) parts.push(`${sampled} sampled`);
      if (of > exact + sampled) parts.push(`${of - exact - sampled} waiting`);
    }
  }
  return parts.join(", ");
}
