// The module's ways in: mount() for any page, render() for a notebook widget, and by itself where a page has a place for it.

import { App } from "./app";
import { button, make } from "./dom";
import { Http } from "./http";
import type { Transport } from "./protocol";
import { Saved } from "./saved";
import type { File } from "./saved";
import style from "./style.css?inline";
import { Widget } from "./widget";
import type { Model } from "./widget";

const WIDGET_HEIGHT = 780;

/** Shows what is asked of `transport` in `root`; the answer takes it away again. */
export async function mount(root: HTMLElement, transport: Transport, options: { address: boolean }): Promise<() => void> {
  const shadow = root.shadowRoot ?? root.attachShadow({ mode: "open" });
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(style);
  shadow.adoptedStyleSheets = [sheet];
  let app: App | null = null;
  let closed = false;
  const open = async (hash: string): Promise<void> => {
    const wait = make("p", { class: "wait", role: "status" }, "Loading …");
    if (!app) shadow.replaceChildren(wait);
    try {
      const { meta: scene } = await transport.ask("scene", {});
      if (closed) return;
      app?.destroy();
      app = new App(shadow, scene, transport, { address: options.address, hash, again: open });
      root.dataset.ready = "1";
    } catch (error) {
      // A page that is there stays, with its banner; one that never was says why.
      if (closed || app) return;
      const says = error instanceof Error ? error.message : String(error);
      shadow.replaceChildren(make("div", { class: "wait", role: "alert" }, make("p", {}, says), button("Try again", () => void open(hash))));
    }
  };
  await open(options.address ? location.hash : "");
  return () => {
    closed = true;
    app?.destroy();
    shadow.replaceChildren();
  };
}

async function render({ model, el }: { model: Model; el: HTMLElement }): Promise<() => void> {
  const root = make("div");
  root.style.height = `${WIDGET_HEIGHT}px`;
  el.append(root);
  const transport = new Widget(model);
  const close = await mount(root, transport, { address: false });
  return () => {
    close();
    transport.destroy();
    root.remove();
  };
}

/** Where a page has a place for the viewer, it is opened there. */
async function start(root: HTMLElement): Promise<void> {
  document.documentElement.style.height = document.body.style.height = root.style.height = "100%";
  document.body.style.margin = "0";
  const file = document.getElementById("headwise-saved")?.textContent;
  const token = new URLSearchParams(location.search).get("token") ?? "";
  await mount(root, file ? new Saved(JSON.parse(file) as File) : new Http(token), { address: true });
}

const place = document.querySelector<HTMLElement>("main#headwise");
if (place) void start(place);

export default { render };
