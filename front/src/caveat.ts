import type { Pieces } from "./cells";

/** What is not exact for less than this many milliseconds is not spoken of. */
const PATIENCE = 300;

/** Says in a corner of the map what is wrong with the picture: not there yet, sampled, coarser than it should be. */
export class Caveat {
  private since: number | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly node: HTMLElement,
    /** Draws again, when patience has run out. */
    private readonly again: () => void,
  ) {}

  /** `lack`: why the picture will not become what it should be. */
  show(pieces: Pieces, lack: string | null): void {
    if (pieces.exact) this.since = null;
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
