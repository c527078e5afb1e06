/** What a key asks the map to do. */
export type Command =
  | { name: "pan" | "step"; right: number; down: number }
  | { name: "zoom"; by: number }
  | { name: "whole" | "enter" | "box" | "escape" };

const WAYS: Record<string, [number, number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

/** The command of a key; null for keys that are none of the map's. */
export function commandOf(event: Pick<KeyboardEvent, "key" | "shiftKey" | "ctrlKey" | "metaKey" | "altKey">): Command | null {
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  const way = WAYS[event.key];
  if (way) return { name: event.shiftKey ? "step" : "pan", right: way[0], down: way[1] };
  switch (event.key) {
    case "+":
    case "=":
      return { name: "zoom", by: 1.5 };
    case "-":
    case "_":
      return { name: "zoom", by: 1 / 1.5 };
    case "0":
      return { name: "whole" };
    case "Enter":
      return { name: "enter" };
    case "b":
      return { name: "box" };
    case "Escape":
      return { name: "escape" };
    default:
      return null;
  }
}
