// What a view of one axis is to the panel: tokens as a text, or patches as an image.

export interface Shading {
  /** A level for each position, 0 to LEVELS; null: no such shading. */
  to: Uint8Array | null;
  from: Uint8Array | null;
  dark: boolean;
}

export interface Marks {
  query: number | null;
  key: number | null;
}

export interface Strip {
  shade(shading: Shading): void;
  mark(marks: Marks): void;
  /** Scrolls to a position. */
  reveal(at: number): void;
  destroy(): void;
}

/** What the reader does to a strip. */
export interface Hands {
  /** The pointer is at a position, or left. */
  over(at: number | null): void;
  /** A position is chosen; `held`: so that pointing at others does not change it. */
  pick(at: number, held: boolean): void;
  free(): void;
}

/** The position that a key leads to from `at`, in rows of `across` (a text: 0, no rows). */
export function stepAlong(key: string, at: number | null, length: number, across: number, start: number): number | null {
  const steps: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, PageUp: -64, PageDown: 64, Home: -length, End: length };
  if (across > 0) Object.assign(steps, { ArrowUp: -across, ArrowDown: across });
  const step = steps[key];
  if (step === undefined) return null;
  return Math.min(length - 1, Math.max(0, (at ?? start) + step));
}
