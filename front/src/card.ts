// A map with its head's name above it, and ways to take the picture along.

import { kindOf, layerOf, placeName, title } from "./choosing";
import { button, make } from "./dom";
import { earned } from "./earned";
import { MapPanel } from "./map";
import { letterOf } from "./letter";
import type { Scene } from "./protocol";
import type { State, Store } from "./state";
import type { Tiles } from "./tiles";

/** Hands a file to the browser. */
export function download(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  make("a", { href: url, download: name }).click();
  // The browser has to have begun with it.
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export class MapCard {
  readonly node: HTMLElement;
  readonly map: MapPanel;
  private readonly scene: Scene;
  private readonly store: Store;
  private readonly place: (state: State) => [number, number] | null;
  private readonly name = make("div", { class: "map-name" });
  private readonly unsubscribe: () => void;
  private named = "";

  /** `extra`: more buttons. The map is built in `host`, where it has a size and the styles. */
  constructor(host: HTMLElement, scene: Scene, store: Store, tiles: Tiles, place: (state: State) => [number, number] | null, tell: (says: string) => void, extra: HTMLElement[] = []) {
    this.scene = scene;
    this.store = store;
    this.place = place;
    const stage = make("div", { class: "map-host", "data-fill": true });
    const save = (kind: "png" | "svg") => () => void this.save(kind).catch((error: unknown) => tell(`The picture could not be made: ${error instanceof Error ? error.message : String(error)}`));
    const buttons = make("div", { class: "map-buttons" },
      button("PNG", save("png"), { class: "small", title: "Download this map as PNG" }),
      button("SVG", save("svg"), { class: "small", title: "Download this map as SVG" }),
      ...extra,
    );
    this.node = make("div", { class: "map-card" }, make("div", { class: "map-head" }, this.name, buttons), stage);
    host.append(this.node);
    this.map = new MapPanel(stage, scene, store, tiles, place);
    this.unsubscribe = store.subscribe(() => this.paint());
    this.paint();
  }

  destroy(): void {
    this.unsubscribe();
    this.map.destroy();
    this.node.remove();
  }

  private paint(): void {
    const state = this.store.get();
    const place = this.place(state);
    if (!place) return;
    const run = this.scene.runs.length > 1 ? (this.scene.runs[state.run] ?? "") : "";
    const minus = state.minus === null ? "" : ` − ${this.scene.runs[state.minus]}`;
    const named = `${placeName(place)} ${run}${minus}`;
    if (named === this.named) return;
    this.named = named;
    const kind = kindOf(this.scene, place);
    const layer = layerOf(this.scene, place);
    const how = earned(this.scene, place);
    const parts = [["earned", how], ["run", `${run}${minus}`], ["site", layer.name]].filter(([, text]) => text);
    this.name.replaceChildren(
      ...(kind ? [letterOf(kind)] : []),
      make("h2", {}, title(this.scene, place), kind ? make("span", {}, `: ${kind.title}`) : null),
      make("small", { title: kind ? `${kind.means}: ${how}` : "" }, ...parts.map(([name, text]) => make("span", { class: name as string }, text as string))),
    );
  }

  private async save(kind: "png" | "svg"): Promise<void> {
    const place = this.place(this.store.get());
    const name = `layer-${place?.[0]}-head-${place?.[1]}.${kind}`;
    const blob = kind === "png" ? await this.map.png() : new Blob([this.map.svg()], { type: "image/svg+xml" });
    download(blob, name);
  }
}
