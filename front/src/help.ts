// The list of keys, as a dialog.

import { button, make } from "./dom";

const KEYS: [where: string, keys: [string, string][]][] = [
  [
    "Anywhere",
    [
      ["?", "this list"],
      ["[ and ]", "head before, head after"],
      ["/", "find a token; Enter and Shift Enter: next, previous"],
      ["Tab", "from part to part"],
    ],
  ],
  [
    "Heads",
    [
      ["Arrows", "from head to head"],
      ["Enter", "show on the map"],
      ["Shift Enter, Shift click", "show beside"],
      ["Space, Ctrl click", "into the mean of the text, or out of it"],
    ],
  ],
  [
    "Map",
    [
      ["Arrows", "move the map"],
      ["Shift arrows", "move the crosshair by one cell"],
      ["+ and −", "zoom; or wheel, pinch, double click"],
      ["b", "a box: arrows with Shift, then Enter; or Shift drag"],
      ["Esc", "give up the box, the crosshair"],
      ["0", "the whole pattern"],
      ["Enter", "select query and key under the crosshair"],
    ],
  ],
  [
    "Text and patches",
    [
      ["Arrows", "from token to token"],
      ["Page Up, Page Down", "64 tokens on"],
      ["Home, End", "first and last token"],
      ["Esc", "release the held token; close the search"],
    ],
  ],
];

export function keysDialog(): HTMLDialogElement {
  const dialog = make("dialog", { class: "keys-dialog", "aria-label": "Keys" });
  const close = button("Close", () => dialog.close(), { class: "quiet" });
  dialog.append(make("div", { class: "panel-head" }, make("h2", {}, "Keys"), close));
  const lists = make("div", { class: "keys-lists" });
  for (const [where, keys] of KEYS) {
    const list = make("dl");
    for (const [key, does] of keys) list.append(make("div", {}, make("dt", {}, make("kbd", {}, key)), make("dd", {}, does)));
    lists.append(make("section", {}, make("h3", {}, where), list));
  }
  dialog.append(lists);
  // A click beside it, on the backdrop, closes it.
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  return dialog;
}
