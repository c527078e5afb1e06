// What the reader is told: one sentence at a time, and a banner while nobody answers.

import { button, make } from "./dom";
import { Lost } from "./http";
import type { Answer, Name, Questions, Transport } from "./protocol";

export class Notices {
  readonly node = make("div", { class: "notices" });
  private readonly banner = make("div", { class: "banner", role: "alert" });
  private readonly notice = make("div", { class: "notice", role: "status" });

  constructor() {
    this.banner.hidden = this.notice.hidden = true;
    this.node.append(this.banner, this.notice);
  }

  tell(says: string): void {
    const close = button("×", () => this.quiet(), { class: "icon", "aria-label": "Dismiss" });
    this.notice.replaceChildren(make("span", {}, says), close);
    this.notice.hidden = false;
  }

  quiet(): void {
    this.notice.hidden = true;
    this.notice.replaceChildren();
  }

  /** `retry` takes this banner away with the whole page, unless nobody answers still. */
  lost(says: string, retry: () => Promise<void>): void {
    if (!this.banner.hidden) return;
    const again = button("Try again", () => {
      again.disabled = true;
      again.textContent = "Trying …";
      void retry().finally(() => {
        again.disabled = false;
        again.textContent = "Try again";
      });
    });
    this.banner.replaceChildren(make("span", {}, says), again);
    this.banner.hidden = false;
  }
}

/** What each part says of its own question while the banner says why. */
const SILENT = "No answer.";

/** Passes questions on until nobody answers; from then on none is sent, and that is told once. */
export class Watched implements Transport {
  private readonly inner: Transport;
  private readonly lost: (why: Lost) => void;
  private gone = false;

  constructor(inner: Transport, lost: (why: Lost) => void) {
    this.inner = inner;
    this.lost = lost;
  }

  async ask<N extends Name>(name: N, params: Questions[N]["params"], signal?: AbortSignal): Promise<Answer<N>> {
    if (this.gone) throw new Lost(SILENT);
    try {
      return await this.inner.ask(name, params, signal);
    } catch (error) {
      if (!(error instanceof Lost)) throw error;
      if (!this.gone) this.lost(error);
      this.gone = true;
      throw new Lost(SILENT);
    }
  }
}
