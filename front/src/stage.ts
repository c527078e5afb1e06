// The elements of a map: canvas, plot, badge, box, readout and buttons.

import mapStyle from "./map.css?inline";
import type { Said } from "./readout";
import type { View } from "./view";

export interface Stage {
  stage: HTMLElement;
  canvas: HTMLCanvasElement;
  /** Lies exactly over the cells, takes the pointer and the keys. */
  plot: HTMLElement;
  box: HTMLElement;
  badge: HTMLElement;
  output: HTMLOutputElement;
  tools: Record<"in" | "out" | "whole" | "box", HTMLButtonElement>;
}

const HELP =
  "Arrow keys pan. Shift and arrow keys move the crosshair. Plus and minus zoom, 0 shows the whole. " +
  "Enter selects the cell under the crosshair. b starts a box, Enter zooms to it.";

let sheet: CSSStyleSheet | null = null;

/** Adds the map's styles to the tree that the host is in, once. */
function adoptStyle(host: HTMLElement): void {
  const root = host.getRootNode() as Document | ShadowRoot;
  if (!root.adoptedStyleSheets) return;
  if (!sheet) {
    sheet = new CSSStyleSheet();
    sheet.replaceSync(mapStyle);
  }
  if (!root.adoptedStyleSheets.includes(sheet)) root.adoptedStyleSheets = [...root.adoptedStyleSheets, sheet];
}

function make<K extends keyof HTMLElementTagNameMap>(name: K, className = ""): HTMLElementTagNameMap[K] {
  const node = document.createElement(name);
  if (className) node.className = className;
  return node;
}

function button(text: string, label: string): HTMLButtonElement {
  const node = make("button");
  node.type = "button";
  node.textContent = text;
  node.title = label;
  node.setAttribute("aria-label", label);
  return node;
}

export function buildStage(host: HTMLElement): Stage {
  adoptStyle(host);
  const stage = make("div", "map-stage");
  const canvas = make("canvas", "map-canvas");
  canvas.setAttribute("aria-hidden", "true");
  const plot = make("div", "map-plot");
  plot.tabIndex = 0;
  plot.setAttribute("role", "application");
  plot.setAttribute("aria-roledescription", "attention map");
  plot.setAttribute("aria-description", HELP);
  const box = make("div", "map-box");
  box.hidden = true;
  plot.append(box);
  const badge = make("div", "map-badge");
  badge.hidden = true;
  stage.append(canvas, plot, badge);
  const foot = make("div", "map-foot");
  const output = make("output");
  const tools = {
    in: button("+", "Zoom in"),
    out: button("−", "Zoom out"),
    whole: button("Whole", "Whole pattern"),
    box: button("Box", "Box: drag over the part to zoom to"),
  };
  tools.box.setAttribute("aria-pressed", "false");
  const bar = make("div", "map-tools");
  bar.setAttribute("role", "group");
  bar.setAttribute("aria-label", "Zoom");
  bar.append(tools.out, tools.in, tools.whole, tools.box);
  foot.append(output, bar);
  host.replaceChildren(stage, foot);
  return { stage, canvas, plot, box, badge, output, tools };
}

/** Puts a sentence into the readout. Texts from the data keep to themselves, whichever way they are written. */
export function say(output: HTMLElement, said: Said[]): void {
  output.replaceChildren(
    ...said.map(({ kind, text }) => {
      const node = make(kind === "number" ? "b" : kind === "token" ? "bdi" : "span", kind === "words" ? "soft" : "");
      node.textContent = kind === "token" && text.length > 80 ? `${text.slice(0, 80)}…` : text;
      return node;
    }),
  );
}

/** Shows the box between two cells, [query, key] each; null: there is none. */
export function placeBox(node: HTMLElement, view: View, box: { from: [number, number]; to: [number, number] } | null): void {
  node.hidden = !box;
  if (!box) return;
  const { from, to } = box;
  const put = (name: "left" | "top" | "width" | "height", value: number) => (node.style[name] = `${value}px`);
  put("left", view.x + Math.min(from[1], to[1]) * view.kx);
  put("top", view.y + Math.min(from[0], to[0]) * view.ky);
  put("width", (Math.abs(from[1] - to[1]) + 1) * view.kx);
  put("height", (Math.abs(from[0] - to[0]) + 1) * view.ky);
}
