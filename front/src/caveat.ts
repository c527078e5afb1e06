import type { Pieces } from "./cells";
import type { Shown } from "./protocol";
import type { Tiles } from "./tiles";

/** What is not exact for less than this many milliseconds is not spoken of. */
const PATIENCE = 300;

/** Why a map does not become what it should be; null where it does, or where that is still to be seen. */
export function lackOf(tiles: Tiles, map: object, shown: Shown, pieces: Pieces, z: number, wanted: number): string | null {
  if (pieces.exact && z <= wanted) return null;
  if (tiles.lost) return "not loaded";
  const coming = tiles.isComing(map);
  if (tiles.saved && pieces.list.length) {
    const drawn = Math.max(z, ...pieces.list.map(({ tile }) => tile.z));
    return !coming && drawn > wanted ? "as fine as this file has it" : null;
  }
  const lack = z > wanted ? tiles.lack(shown, wanted) : null;
  return lack ?? (!coming || pieces.gaps || z > wanted ? tiles.refusal : null);
}

/** Says in a corner of the map what is wrong with the picture: not there yet, sampled, coarser than it should be. */
export class Caveat {
  private since: number | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly node: HTMLElement,
    /** Draws again, when patience has run out. */
    private readonly again: () => void,
  ) {}

  /** `lack`: why the picture will not become what it should be; `coming`: whether it will be more than it is. */
  show(pieces: Pieces, lack: string | null, coming: boolean): void {
    if (pieces.exact || !coming) this.since = null;
    else this.since ??= performance.now();
    const late = this.since !== null && performance.now() - this.since >= PATIENCE;
    if (this.since !== null && !late) {
      clearTimeout(this.timer);
      this.timer = setTimeout(this.again, PATIENCE);
    }
    const waiting = late ? (pieces.gaps ? "loading" : "coarser for now") : "";
    const text = lack ?? (pieces.sampled ? "sampled" : waiting);
    if (this.node.textContent !== text) this.node.textContent = text;
    this.node.hidden = text === "";
  }

  destroy(): void {
    clearTimeout(this.timer);
  }
}
