// Form fields, small and labelled; native ones, so that keys and screen readers know them.

import { make } from "./dom";

export interface Field<V> {
  node: HTMLElement;
  show: (value: V) => void;
}

let groups = 0;

/** One of a few, side by side. */
export function segments<V extends string>(label: string, options: [value: V, face: string, title?: string][], set: (value: V) => void): Field<V> {
  const name = `segments${++groups}`;
  const node = make("div", { class: "segments", role: "radiogroup", "aria-label": label });
  const inputs = new Map<string, HTMLInputElement>();
  for (const [value, face, title] of options) {
    const input = make("input", { type: "radio", name, value, "aria-label": title ?? face });
    input.addEventListener("change", () => set(value));
    inputs.set(value, input);
    node.append(make("label", { title: title ?? label }, input, make("span", { "aria-hidden": "true" }, face)));
  }
  return {
    node,
    show: (value) => {
      for (const [own, input] of inputs) input.checked = own === value;
    },
  };
}

export function check(face: string, title: string, set: (on: boolean) => void): Field<boolean> {
  const input = make("input", { type: "checkbox" });
  input.addEventListener("change", () => set(input.checked));
  const node = make("label", { class: "check", title }, input, face);
  return { node, show: (on) => (input.checked = on) };
}

export function pick(face: string, options: [value: string, says: string][], set: (value: string) => void): Field<string> {
  const select = make("select", {}, ...options.map(([value, says]) => make("option", { value }, says)));
  select.addEventListener("change", () => set(select.value));
  const node = make("label", { class: "pick" }, make("span", {}, face), select);
  return { node, show: (value) => (select.value = value) };
}
