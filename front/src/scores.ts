// What a head was called, and by how much: its scores against those of chance.

import { kindOf, layerOf, scoresOf, title } from "./choosing";
import { make } from "./dom";
import { earned, ruleOf } from "./earned";
import { letterOf } from "./letter";
import { fixed, NO_NUMBER, numeric } from "./numbers";
import type { HeadScores, Kind, Scene } from "./protocol";
import type { Store } from "./state";
import { share } from "./words";

const says = (x: number | null, how: (x: number) => string): string => (Number.isFinite(x) ? how(x as number) : NO_NUMBER);

export class ScoresPanel {
  private readonly scene: Scene;
  private readonly store: Store;
  private readonly host: HTMLElement;
  private readonly unsubscribe: () => void;

  constructor(host: HTMLElement, scene: Scene, store: Store) {
    this.host = host;
    this.scene = scene;
    this.store = store;
    host.classList.add("scroll");
    this.unsubscribe = store.subscribe((now, before) => {
      if (now.layer !== before.layer || now.head !== before.head) this.draw();
    });
    this.draw();
  }

  destroy(): void {
    this.unsubscribe();
  }

  private draw(): void {
    const { layer, head } = this.store.get();
    const scores = scoresOf(this.scene, [layer, head]);
    const name = make("p", { class: "name" }, title(this.scene, [layer, head]), make("small", {}, ` ${layerOf(this.scene, [layer, head]).name}`));
    if (!scores) {
      this.host.replaceChildren(name, make("p", { class: "hint" }, "This head was not scored."));
      return;
    }
    const kind = kindOf(this.scene, [layer, head]);
    const rows = this.scene.kinds.filter((one) => scores.scores[one.name] !== undefined).map((one) => this.row(one, scores));
    const chance = "The tick is chance: the score of a head that spreads evenly over the keys it may see. Lift over chance: (score − chance) / (1 − chance).";
    const entropy = make("p", { class: "hint" }, `Mean entropy ${says(scores.entropy, (x) => `${fixed(x, 2)} nats`)}. ${chance}`);
    const few = scores.few.length ? make("p", { class: "hint" }, this.scene.tooFew) : null;
    this.host.replaceChildren(...[name, this.means(kind), ...rows, entropy, few].filter((node) => node !== null));
    this.host.toggleAttribute("data-ready", true);
  }

  private means(kind: Kind | null): HTMLElement | null {
    if (!kind) return null;
    const source = kind.source ? make("small", {}, ` ${kind.source}`) : null;
    const here = earned(this.scene, [this.store.get().layer, this.store.get().head]);
    return make("div", { class: "means" }, letterOf(kind), make("p", {}, make("strong", {}, `${kind.title}. `), kind.means, source, make("br"), `Here: ${here}.`));
  }

  private row(kind: Kind, head: HeadScores): HTMLElement {
    const score = numeric(head.scores[kind.name]);
    const chance = numeric(head.chance[kind.name]);
    // An even head has all of its score: no chance to clear.
    const ticked = chance < 1;
    const few = head.few.includes(kind.name);
    const row = make("div", { class: `score${kind.name === head.kind ? " own" : ""}${few ? " few" : ""}`, title: `${kind.means}; ${ruleOf(kind)}` });
    const value = make("span", { class: "value" }, make("b", {}, says(score, share)), ticked ? ` · chance ${share(chance)}` : "");
    const fill = make("i");
    fill.style.width = `${100 * Math.min(1, Math.max(0, score || 0))}%`;
    if (kind.colour && !few) fill.style.background = kind.colour;
    const bar = make("div", { class: "score-bar" }, fill);
    if (ticked) {
      const tick = make("u");
      tick.style.left = `${100 * Math.min(1, Math.max(0, chance))}%`;
      bar.append(tick);
    }
    row.append(letterOf(kind), make("span", {}, few ? `${kind.title} *` : kind.title), value, bar);
    return row;
  }
}
