// Loads the tiles of patterns, keeps those that were used last and lets go of what nobody waits for any more.

import { Busy, Failed, Lost } from "./http";
import { canonical, Refusal } from "./protocol";
import type { Scene, Shown, TileMeta, Transport } from "./protocol";
import { blocksOf, Ranges } from "./ranges";
import { Recent } from "./recent";
import { coarsest } from "./view";

export interface Tile extends TileMeta {
  /** Probabilities, [h, w]. */
  data: Float32Array;
  /** The largest of them, without its sign, and of each block of them. */
  most: number;
  blocks: Float32Array;
}

/** A tile that a map waits for; z = null asks for the preview. */
export interface Wish {
  shown: Shown;
  z: number | null;
  r: number;
  c: number;
  /** Asked for only while nothing else is missing. */
  idle: boolean;
}

interface Flight {
  abort: AbortController;
  idle: boolean;
}

/** 256 tiles of 256 KiB each. */
const KEPT = 256;
const AT_ONCE = 6;
const IDLE_AT_ONCE = 2;
/** Milliseconds after which a question is asked again for which nobody had time, or which reached nobody. */
const AGAIN = 3000;

/**
 * Why a tile is not asked for: it is refused for good; the server was busy, or is gone, for a while; or it failed at the
 * question, which it is asked again when the reader looks elsewhere and back.
 */
type Bar = "for good" | "for a while" | "until wanted anew";

export class Tiles {
  /** Where the colour bars of the maps end. */
  readonly ranges = new Ranges();
  /** Why the tile that was asked for last did not come, in a sentence; null once one came. */
  refusal: string | null = null;
  /** Nobody answered the last question. */
  lost = false;
  private readonly tiles: Recent<Tile>;
  private readonly flights = new Map<string, Flight>();
  private readonly wishes = new Map<object, Wish[]>();
  private readonly barred = new Recent<Bar>(4096);
  /** Levels of patterns: why none of their tiles came, or "" where one did. A saved file holds a level or does not. */
  private readonly levels = new Recent<string>(1024);

  constructor(
    private readonly transport: Transport,
    private readonly scene: Scene,
    private readonly changed: () => void,
    kept = KEPT,
  ) {
    this.tiles = new Recent(kept);
  }

  /** How many tiles are kept. */
  get size(): number {
    return this.tiles.size;
  }

  /** Whether a saved file answers, which holds some of the tiles only. */
  get saved(): boolean {
    return this.scene.saved !== null;
  }

  /** The questions that are on their way. */
  get asked(): string[] {
    return [...this.flights.keys()];
  }

  /** The coarsest level of a pattern: one tile. */
  coarsest(shown: Shown): number {
    const layer = this.scene.layers[shown.layer]!;
    return coarsest(layer.T, layer.S);
  }

  /** The tile, where it is loaded; z = null means the preview. */
  get(shown: Shown, z: number | null, r: number, c: number): Tile | undefined {
    return this.tiles.get(keyOf(shown, z, r, c));
  }

  /** Whether the tile was refused: it will not come. */
  isRefused(shown: Shown, z: number | null, r: number, c: number): boolean {
    return this.barred.get(keyOf(shown, z, r, c)) === "for good";
  }

  /** Whether anything that a map shows is still to come. */
  isComing(map: object): boolean {
    const comes = (key: string) => !this.tiles.has(key) && (!this.barred.has(key) || this.barred.get(key) === "for a while");
    return (this.wishes.get(map) ?? []).some((wish) => !wish.idle && comes(wishKey(wish)));
  }

  /** Why a level was refused wherever it was asked for, so that a coarser one has to do; null where it was not. */
  lack(shown: Shown, z: number): string | null {
    return this.levels.get(levelKey(shown, z)) || null;
  }

  /** Says what one map waits for, most wanted first. What no map wants any more is aborted. */
  want(map: object, wishes: Wish[]): void {
    if (wishes.length) this.wishes.set(map, wishes);
    else this.wishes.delete(map);
    for (const key of wishes.map(wishKey)) if (this.barred.get(key) === "until wanted anew") this.barred.delete(key);
    const wanted = new Set<string>();
    for (const list of this.wishes.values()) for (const wish of list) wanted.add(wishKey(wish));
    for (const [key, flight] of this.flights) {
      if (wanted.has(key)) continue;
      this.flights.delete(key);
      flight.abort.abort();
    }
    this.ask();
  }

  /** Starts what is missing, the maps in turn, as long as there is room. */
  private ask(): void {
    const missing = [...this.wishes.values()].map((list) => list.filter((wish) => this.isMissing(wish)));
    for (const idle of [false, true]) {
      const lists = missing.map((list) => list.filter((wish) => wish.idle === idle));
      const longest = Math.max(0, ...lists.map((list) => list.length));
      for (let n = 0; n < longest; n++) {
        for (const list of lists) if (n < list.length && this.hasRoom(idle)) this.start(list[n]!);
      }
    }
  }

  private isMissing(wish: Wish): boolean {
    const key = wishKey(wish);
    return !this.tiles.has(key) && !this.flights.has(key) && !this.barred.has(key);
  }

  private hasRoom(idle: boolean): boolean {
    if (!idle) return this.flights.size < AT_ONCE;
    return this.flights.size < IDLE_AT_ONCE && [...this.flights.values()].every((flight) => flight.idle);
  }

  private start({ shown, z, r, c, idle }: Wish): void {
    const key = keyOf(shown, z, r, c);
    // Both maps may want the same tile.
    if (this.flights.has(key)) return;
    const flight: Flight = { abort: new AbortController(), idle };
    this.flights.set(key, flight);
    const { signal } = flight.abort;
    const answer =
      z === null
        ? this.transport.ask("preview", shown, signal)
        : this.transport.ask("tile", { ...shown, z, r, c }, signal);
    answer.then(
      ({ meta, data }) => {
        if (!this.landed(key, flight)) return;
        this.tiles.set(key, tileOf(meta, data));
        if (z !== null) this.levels.set(levelKey(shown, z), "");
        this.refusal = null;
        this.lost = false;
        this.changed();
        this.ask();
      },
      (error: unknown) => {
        if (!this.landed(key, flight)) return;
        this.fail(key, error);
        if (this.barred.get(key) === "for good" && z !== null && !this.levels.has(levelKey(shown, z))) {
          this.levels.set(levelKey(shown, z), (error as Refusal).message);
        }
        // Nobody waits for a neighbour that is only fetched ahead: its refusal is no news.
        if (!idle && this.barred.get(key) !== "for a while") this.refusal = (error as Refusal).message;
        this.changed();
        this.ask();
      },
    );
  }

  private fail(key: string, error: unknown): void {
    this.lost = error instanceof Lost || !(error instanceof Refusal);
    const bar = this.lost || error instanceof Busy ? "for a while" : error instanceof Failed ? "until wanted anew" : "for good";
    this.barred.set(key, bar);
    if (bar !== "for a while") return;
    setTimeout(() => {
      this.barred.delete(key);
      this.ask();
      this.changed();
    }, AGAIN);
  }

  /** Whether an answer is still waited for; one that was let go, or asked for anew since, must not land. */
  private landed(key: string, flight: Flight): boolean {
    if (this.flights.get(key) !== flight) return false;
    this.flights.delete(key);
    return true;
  }
}

function keyOf(shown: Shown, z: number | null, r: number, c: number): string {
  return z === null ? canonical("preview", { ...shown }) : canonical("tile", { ...shown, z, r, c });
}

function levelKey(shown: Shown, z: number): string {
  return canonical("level", { ...shown, z });
}

function wishKey({ shown, z, r, c }: Wish): string {
  return keyOf(shown, z, r, c);
}

function tileOf(meta: TileMeta, data: ArrayBuffer): Tile {
  const values = new Float32Array(data);
  let most = 0;
  for (const value of values) {
    const size = Math.abs(value);
    if (size > most) most = size;
  }
  return { ...meta, data: values, most, blocks: blocksOf({ ...meta, data: values }) };
}
