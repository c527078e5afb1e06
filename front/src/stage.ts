// The elements of a map: canvas, plot, badge, box, readout and buttons.

import { leastHeight } from "./axes";
import type { Margins } from "./axes";
import { button, make } from "./dom";
import mapStyle from "./map.css?inline";
import type { Said } from "./readout";
import type { Fit, View } from "./view";

export interface Stage {
  stage: HTMLElement;
  canvas: HTMLCanvasElement;
  /** Lies exactly over the cells, takes the pointer and the keys. */
  plot: HTMLElement;
  box: HTMLElement;
  badge: HTMLElement;
  output: HTMLOutputElement;
  boxing: HTMLButtonElement;
}

const HELP =
  "Arrow keys pan. Shift and arrow keys move the crosshair. Plus and minus zoom, 0 shows the whole. " +
  "Enter selects the cell under the crosshair. b starts a box, Enter zooms to it. Escape lets go of what was last begun.";

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

/** Fills an empty host; `does` is what the buttons do. */
export function buildStage(host: HTMLElement, does: Record<"in" | "out" | "whole" | "box", () => void>): Stage {
  adoptStyle(host);
  const canvas = make("canvas", { class: "map-canvas", "aria-hidden": "true" });
  const box = make("div", { class: "map-box" });
  const says = { role: "application", "aria-roledescription": "attention map", "aria-description": HELP };
  const plot = make("div", { class: "map-plot", tabindex: 0, ...says }, box);
  const badge = make("div", { class: "map-badge" });
  box.hidden = badge.hidden = true;
  const stage = make("div", { class: "map-stage" }, canvas, plot, badge);
  const output = make("output");
  const tool = (face: string, name: string, then: () => void, more = {}) =>
    button(face, then, { title: name, "aria-label": name, ...more });
  const boxing = tool("Box", "Box: drag over the part to zoom to", does.box, { "aria-pressed": "false" });
  const tools = make(
    "div",
    { class: "map-tools", role: "group", "aria-label": "Zoom" },
    tool("−", "Zoom out", does.out),
    tool("+", "Zoom in", does.in),
    tool("Whole", "Whole pattern", does.whole),
    boxing,
  );
  host.replaceChildren(stage, make("div", { class: "map-foot" }, output, tools));
  return { stage, canvas, plot, box, badge, output, boxing };
}

/** Puts the plot where the margins leave it, and the badge into its corner. */
export function placePlot({ stage, plot, badge }: Stage, fit: Fit, margins: Margins): void {
  const put = (node: HTMLElement, values: Partial<Record<"left" | "top" | "width" | "height" | "minHeight" | "maxWidth", number>>) => {
    for (const [name, value] of Object.entries(values)) node.style[name as "left"] = `${value}px`;
  };
  put(stage, { height: margins.top + fit.height + margins.bottom, minHeight: leastHeight(margins) });
  put(plot, { left: margins.left, top: margins.top, width: fit.width, height: fit.height });
  put(badge, { left: margins.left + 8, top: margins.top + fit.height - 8, maxWidth: fit.width - 16 });
}

/** Clears a canvas and gives it room for a picture of some CSS pixels, `ratio` device pixels each. */
export function clean(canvas: HTMLCanvasElement, pen: CanvasRenderingContext2D | null, width: number, height: number, ratio: number): void {
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  pen?.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen?.clearRect(0, 0, width, height);
}

/** Puts a sentence into the readout. Texts from the data keep to themselves, whichever way they are written. */
export function say(output: HTMLElement, said: Said[]): void {
  output.replaceChildren(
    ...said.map(({ kind, text }) => {
      if (kind === "words") return make("span", { class: "soft" }, text);
      return make(kind === "number" ? "b" : "bdi", {}, text.length > 80 ? `${text.slice(0, 80)}…` : text);
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
