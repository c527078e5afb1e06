// Elements. Everything that comes out of data goes through textContent or setAttribute: a token can never be markup.

type Attributes = Record<string, string | number | boolean | null | undefined>;
type Child = Node | string | null | undefined;

function fill(node: Element, attributes: Attributes, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child !== null && child !== undefined) node.append(child);
}

export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  fill(node, attributes, children);
  return node;
}

export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  fill(node, attributes, children);
  return node;
}

/** A button that says its name to everybody: on its face, or, where the face is a sign, by label and tooltip. */
export function button(face: string, does: () => void, attributes: Attributes = {}): HTMLButtonElement {
  const node = make("button", { type: "button", ...attributes }, face);
  node.addEventListener("click", does);
  return node;
}

/** Calls `run` once, a while after the last call. */
export function later(ms: number, run: () => void): { soon: () => void; now: () => void; never: () => void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const never = () => clearTimeout(timer);
  return {
    never,
    now: () => {
      never();
      run();
    },
    soon: () => {
      never();
      timer = setTimeout(run, ms);
    },
  };
}
