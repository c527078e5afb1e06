// The whole state in the address, in words: "#head=3.5&query=12&scale=log". Only what differs from the opening state.

import { placeName, placeOf } from "./choosing";
import type { Place } from "./choosing";
import type { Scene } from "./protocol";
import { opening } from "./state";
import type { State } from "./state";

/** A value that cannot be followed, and why. */
class Wrong extends Error {}

const LONGEST = 32;

function whole(word: string, below: number, what: string): number {
  if (!/^\d{1,9}$/.test(word)) throw new Wrong("not a whole number");
  const value = Number(word);
  if (value >= below) throw new Wrong(`the last ${what} is ${below - 1}`);
  return value;
}

function oneOf<V extends string>(word: string, known: readonly V[]): V {
  const found = known.find((one) => one === word);
  if (found === undefined) throw new Wrong("no such choice");
  return found;
}

function head(scene: Scene, word: string): Place {
  const place = placeOf(scene, word);
  if (!place) throw new Wrong("no such head");
  return place;
}

function view(word: string): [number, number, number] {
  const parts = word.split(",");
  const numbers = parts.map((part) => (/^-?\d{1,9}(\.\d{1,6})?$/.test(part) ? Number(part) : NaN));
  const [key, query, span] = numbers;
  if (numbers.length !== 3 || numbers.some(Number.isNaN)) throw new Wrong("not three numbers");
  if ((span as number) <= 0) throw new Wrong("the view spans no key");
  return [key as number, query as number, span as number];
}

function range(word: string): number | null {
  if (word === "none") return null;
  const value = /^\d{0,9}(\.\d{1,12})?(e-?\d{1,2})?$/.test(word) ? Number(word) : NaN;
  if (!(value > 0) || !Number.isFinite(value)) throw new Wrong("not a number above 0");
  return value;
}

const flag = (word: string): boolean => oneOf(word, ["0", "1"]) === "1";
const some = (word: string): string[] => (word === "" ? [] : word.split(","));
const layerAt = (scene: Scene, state: State) => scene.layers[state.layer] as Scene["layers"][number];

/** The orders of the overview: by place, or by a score that heads have. */
export function orders(scene: Scene): string[] {
  const known = new Set<string>();
  for (const { scores } of scene.heads ?? []) for (const name of Object.keys(scores)) known.add(name);
  return ["place", ...(scene.heads ? ["entropy"] : []), ...known];
}

/** How each word of the address is read; in this order, since a query's range is a matter of the head. */
const READ: Record<string, (word: string, scene: Scene, state: State) => Partial<State>> = {
  run: (word, scene) => ({ run: whole(word, scene.runs.length, "run") }),
  minus: (word, scene) => ({ minus: whole(word, scene.runs.length, "run") }),
  head: (word, scene) => {
    const [layer, at] = head(scene, word);
    return { layer, head: at };
  },
  beside: (word, scene) => ({ beside: head(scene, word) }),
  row: (word, scene) => ({ b: whole(word, scene.batch, "row") }),
  at: (word) => ({ at: view(word) }),
  scale: (word) => ({ scale: oneOf(word, ["linear", "sqrt", "log"] as const) }),
  range: (word) => ({ range: range(word) }),
  pool: (word) => ({ pool: oneOf(word, ["mean", "max"] as const) }),
  hide: (word) => ({ hide: flag(word) }),
  norm: (word) => ({ norm: flag(word) }),
  kinds: (word, scene) => ({ kinds: some(word).map((kind) => oneOf(kind, scene.kinds.map(({ name }) => name))) }),
  sort: (word, scene) => ({ sort: oneOf(word, orders(scene)) }),
  query: (word, scene, state) => ({ query: word === "none" ? null : whole(word, layerAt(scene, state).T, "query") }),
  key: (word, scene, state) => ({ key: word === "none" ? null : whole(word, layerAt(scene, state).S, "key") }),
  chosen: (word, scene) => ({ chosen: [...new Set(some(word).map((name) => placeName(head(scene, name))))] }),
  panel: (word) => ({ panel: oneOf(word, ["text", "profile", "scores"] as const) }),
  look: (word) => ({ look: oneOf(word, ["to", "from", "both"] as const) }),
  large: (word) => ({ large: flag(word) }),
  log: (word) => ({ log: flag(word) }),
  theme: (word) => ({ theme: oneOf(word, ["auto", "light", "dark"] as const) }),
};

/** How each word is written; run and minus go together, see `runs`. */
const WRITE: Record<string, (state: State) => string> = {
  head: (state) => placeName([state.layer, state.head]),
  beside: ({ beside }) => (beside ? placeName(beside) : "none"),
  row: ({ b }) => String(b),
  at: ({ at }) => (at ? at.map((x) => String(Number(x.toFixed(2)))).join(",") : "none"),
  scale: ({ scale }) => scale,
  range: ({ range: end }) => String(end ?? "none"),
  pool: ({ pool }) => pool,
  hide: ({ hide }) => (hide ? "1" : "0"),
  norm: ({ norm }) => (norm ? "1" : "0"),
  kinds: ({ kinds }) => kinds.join(","),
  sort: ({ sort }) => sort,
  query: ({ query }) => String(query ?? "none"),
  key: ({ key }) => String(key ?? "none"),
  chosen: ({ chosen }) => chosen.join(","),
  panel: ({ panel }) => panel,
  look: ({ look }) => look,
  large: ({ large }) => (large ? "1" : "0"),
  log: ({ log }) => (log ? "1" : "0"),
  theme: ({ theme }) => theme,
};

/** An address that names a run or what is taken from it says both: what it leaves out is run 0, and nothing taken. */
function runs({ run, minus }: State, first: State): string[] {
  if (run === first.run && minus === first.minus) return [];
  return [...(run !== 0 || minus === null ? [`run=${run}`] : []), ...(minus === null ? [] : [`minus=${minus}`])];
}

/** The part of an address behind "#"; empty where nothing differs from the opening state. */
export function write(state: State, scene: Scene): string {
  const first = opening(scene);
  const words = runs(state, first);
  for (const [name, say] of Object.entries(WRITE)) {
    const word = say(state);
    // Commas stay as they are: they mean nothing in a fragment.
    if (word !== say(first)) words.push(`${name}=${encodeURIComponent(word).replaceAll("%2C", ",")}`);
  }
  return words.join("&");
}

/** Every word that can be followed is; the others are told in one sentence. */
export function read(hash: string, scene: Scene): { state: State; says: string | null } {
  let state = opening(scene);
  const words = new Map<string, string>();
  const wrong: string[] = [];
  const short = (word: string) => (word.length > LONGEST ? `${word.slice(0, LONGEST)}…` : word);
  for (const part of hash.replace(/^#/, "").split("&")) {
    if (part === "") continue;
    const [name, value] = [part.split("=", 1)[0] as string, part.slice(part.indexOf("=") + 1)];
    try {
      words.set(name, decodeURIComponent(part.includes("=") ? value : ""));
      if (!Object.hasOwn(READ, name)) throw new Wrong("not known here");
    } catch (error) {
      words.delete(name);
      wrong.push(`${short(part)} (${error instanceof Wrong ? error.message : "broken % signs"})`);
    }
  }
  if (words.has("run") || words.has("minus")) state = { ...state, run: 0, minus: null };
  for (const [name, follow] of Object.entries(READ)) {
    const word = words.get(name);
    if (word === undefined) continue;
    try {
      state = { ...state, ...follow(word, scene, state) };
    } catch (error) {
      if (!(error instanceof Wrong)) throw error;
      wrong.push(`${name}=${short(word)} (${error.message})`);
    }
  }
  // Values that are each right may not go together.
  const { T, S } = layerAt(scene, state);
  if (state.query !== null && state.query >= T) state.query = T - 1;
  if (state.key !== null && state.key >= S) state.key = null;
  if (state.minus === state.run) {
    state.minus = null;
    wrong.push("minus (a run minus itself is 0)");
  }
  if (wrong.length === 0) return { state, says: null };
  const some = wrong.length > 3 ? `${wrong.slice(0, 3).join(", ")} and ${wrong.length - 3} more` : wrong.join(", ");
  return { state, says: `This address could not be followed in ${some}; the rest of it was.` };
}

/** Keeps the address and the state together, both ways. */
export class Address {
  private readonly scene: Scene;
  private readonly follow: (state: State, says: string | null) => void;
  private written: string;

  constructor(scene: Scene, follow: (state: State, says: string | null) => void) {
    this.scene = scene;
    this.follow = follow;
    this.written = location.hash.replace(/^#/, "");
    addEventListener("hashchange", this.changed);
  }

  /** `step`: as a new entry of the history, so that Back leads to what the address said before. */
  put(state: State, step = false): void {
    const hash = write(state, this.scene);
    if (hash === this.written) return;
    this.written = hash;
    const where = location.pathname + location.search + (hash ? `#${hash}` : "");
    if (step) history.pushState(null, "", where);
    else history.replaceState(history.state, "", where);
  }

  destroy(): void {
    removeEventListener("hashchange", this.changed);
  }

  private readonly changed = (): void => {
    const hash = location.hash.replace(/^#/, "");
    if (hash === this.written) return;
    this.written = hash;
    const { state, says } = read(hash, this.scene);
    this.follow(state, says);
  };
}
