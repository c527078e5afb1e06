const data = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);

// Everything that comes out of the data goes through textContent or setAttribute: a text cannot become markup.
function make(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

function bytes(base64) {
  const raw = atob(base64);
  const out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out;
}

function floats(base64) {
  const view = new DataView(bytes(base64).buffer);
  return Float32Array.from({ length: view.byteLength / 4 }, (_, i) => view.getFloat32(4 * i, true));
}

const { heads, tokens } = data;
const T = tokens.length;
const kinds = new Map([...data.kinds, data.mixed].map((kind) => [kind.name, kind]));
const maps = { ...data.map, codes: bytes(data.map.codes) };
const offsets = { ...data.offsets, values: floats(data.offsets.values) };
const top = { ...data.top, codes: bytes(data.top.codes), keys: bytes(data.top.keys) };
if (top.width === 2) {
  const pairs = top.keys;
  top.keys = Uint16Array.from({ length: pairs.length / 2 }, (_, i) => pairs[2 * i] + 256 * pairs[2 * i + 1]);
}
const uncode = (code) => (code / 255) ** 2;

const state = { head: data.open, scale: "sqrt", filter: new Set(), query: null, pinned: false, cell: null };

// -- colours ---------------------------------------------------------------------------------------------------------

const wantsDark = matchMedia("(prefers-color-scheme: dark)");
const hex = (c) => [1, 3, 5].map((i) => parseInt(c.slice(i, i + 2), 16));
const mix = (a, b, t) => a.map((x, i) => Math.round(x + (b[i] - x) * t));
const css = (c) => `rgb(${c.join(" ")})`;
const lightness = ([r, g, b]) => 0.2126 * (r / 255) ** 2.2 + 0.7152 * (g / 255) ** 2.2 + 0.0722 * (b / 255) ** 2.2;
const surface = () => hex(wantsDark.matches ? "#171b22" : "#ffffff");
// Lightness rises or falls all the way, so the maps read without colour vision and in grey.
const RAMPS = {
  light: ["#ffffff", "#d6e6f4", "#8bbfdc", "#3787c0", "#155a9c", "#082a5c"].map(hex),
  dark: ["#10141b", "#173a5e", "#1f6f8b", "#46a68f", "#b5cf6b", "#fff3b0"].map(hex),
};
function ramp(t) {
  const stops = RAMPS[wantsDark.matches ? "dark" : "light"];
  const x = Math.min(1, Math.max(0, t)) * (stops.length - 1);
  const i = Math.min(stops.length - 2, Math.floor(x));
  return mix(stops[i], stops[i + 1], x - i);
}
const inkOn = (c) => (lightness(c) > 0.3 ? "#10141b" : "#ffffff");

// -- numbers and words -----------------------------------------------------------------------------------------------

const share = (p) => (p >= 0.0995 ? p.toFixed(2) : p >= 0.00095 ? p.toFixed(3) : p > 0 ? p.toExponential(1) : "0");
const visibleSpace = (text) => text.replace(/\n/g, "⏎").replace(/\t/g, "⇥");
const shown = (i) => (tokens[i].trim() ? visibleSpace(tokens[i]) : tokens[i] ? "␣" + visibleSpace(tokens[i]).trim() : "◌");
const lift = (head, kind) => {
  const score = head.scores[kind], chance = head.chance[kind];
  if (score === undefined) return 0;
  return kind === "broad" ? score : Math.max(0, (score - chance) / (1 - chance || 1));
};
// A head that clears its margin four times over has its kind's full colour.
const strength = (head) => (head.kind === "broad" ? head.scores.broad : lift(head, head.kind) / (4 * (kinds.get(head.kind).margin || 1)));
const away = (d) => (d === 0 ? "itself" : d > 0 ? `${d} back` : `${-d} ahead`);

// -- the grid --------------------------------------------------------------------------------------------------------

const place = new Map(heads.map((head, n) => [`${head.layer}.${head.head}`, n]));
const layers = 1 + Math.max(...heads.map((head) => head.layer));
const columns = 1 + Math.max(...heads.map((head) => head.head));
const cells = [];

function paintBadge(node, kind, strength = 1) {
  const mixed = kind === "mixed";
  node.classList.toggle("mixed", mixed);
  const colour = mixed ? null : mix(surface(), hex(kinds.get(kind).colour), 0.22 + 0.78 * Math.min(1, strength));
  node.style.background = colour ? css(colour) : "";
  node.style.color = colour ? inkOn(colour) : "";
}

function buildGrid() {
  const grid = at("grid");
  grid.style.gridTemplateColumns = `22px repeat(${columns}, minmax(${columns > 24 ? 12 : 14}px, 1fr))`;
  grid.append(make("span"));
  for (let h = 0; h < columns; h++) grid.append(make("span", "mark", String(h)));
  for (let l = 0; l < layers; l++) {
    grid.append(make("span", "mark", String(l)));
    for (let h = 0; h < columns; h++) {
      const n = place.get(`${l}.${h}`);
      if (n === undefined) { grid.append(make("span")); continue; }
      const head = heads[n];
      const cell = make("button", "cell", kinds.get(head.kind).letter);
      cell.type = "button";
      const score = head.kind === "mixed" ? "" : `, ${share(head.scores[head.kind])}, chance ${share(head.chance[head.kind])}`;
      cell.setAttribute("aria-label", `layer ${l} head ${h}: ${kinds.get(head.kind).title}${score}`);
      cell.title = cell.getAttribute("aria-label");
      cell.dataset.head = String(n);
      cell.addEventListener("click", () => {
        choose(n);
        // In one column the head's cards are below the grid, out of sight.
        if (at("name").getBoundingClientRect().top > innerHeight) at("letter").scrollIntoView({ behavior: "smooth" });
      });
      cells[n] = cell;
      grid.append(cell);
    }
  }
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  grid.addEventListener("keydown", (event) => {
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    let { layer, head } = heads[state.head];
    // Layers may differ in their number of heads, so a step up or down lands on the nearest one there is.
    layer += step[0]; head += step[1];
    while (head > 0 && step[0] && place.get(`${layer}.${head}`) === undefined) head--;
    const n = place.get(`${layer}.${head}`);
    if (n !== undefined) { choose(n); cells[n].focus(); }
  });
}

function paintGrid() {
  heads.forEach((head, n) => {
    paintBadge(cells[n], head.kind, strength(head));
    cells[n].classList.toggle("off", state.filter.size > 0 && !state.filter.has(head.kind));
    cells[n].setAttribute("aria-current", String(n === state.head));
    cells[n].tabIndex = n === state.head ? 0 : -1;
  });
}

function buildKinds() {
  for (const kind of kinds.values()) {
    const count = heads.filter((head) => head.kind === kind.name).length;
    if (!count) continue;
    const chip = make("button", "chip");
    chip.type = "button";
    chip.title = kind.means + (kind.source ? ` (${kind.source})` : "");
    chip.dataset.kind = kind.name;
    chip.setAttribute("aria-pressed", "false");
    chip.append(make("b", "", kind.letter), kind.title, make("span", "", String(count)));
    chip.addEventListener("click", () => {
      const on = !state.filter.delete(kind.name);
      if (on) state.filter.add(kind.name);
      chip.setAttribute("aria-pressed", String(on));
      paintGrid();
    });
    at("kinds").append(chip);
  }
}

function paintKinds() {
  for (const chip of at("kinds").children) paintBadge(chip.firstChild, chip.dataset.kind);
}

// -- scores ----------------------------------------------------------------------------------------------------------

function paintScores() {
  const head = heads[state.head];
  const kind = kinds.get(head.kind);
  at("name").textContent = `Layer ${head.layer}, head ${head.head}: ${kind.title}`;
  at("letter").textContent = kind.letter;
  paintBadge(at("letter"), head.kind);
  const rows = data.kinds.filter(({ name }) => head.scores[name] !== undefined).map(({ name, title, means, colour }) => {
    const few = head.few.includes(name);
    const row = make("div", "score" + (name === head.kind ? " own" : "") + (few ? " few" : ""));
    row.title = few ? `${means}\n${data.too_few}` : means;
    const value = make("span", "value");
    value.append(make("b", "", share(head.scores[name])), name === "broad" ? " of its maximum" : ` / ${share(head.chance[name])}`);
    const bar = make("div", "bar"), fill = make("i"), tick = make("u");
    fill.style.width = `${100 * head.scores[name]}%`;
    if (!few) fill.style.background = colour;
    tick.style.left = `${100 * head.chance[name]}%`;
    bar.append(fill, ...(name === "broad" ? [] : [tick])); // an even head has 1: no chance level to clear
    row.append(make("span", "name", few ? `${title} *` : title), value, bar);
    return row;
  });
  const entropy = make("p", "hint", `Mean entropy ${head.entropy.toFixed(2)} nats. Chance is the score of a head that spreads evenly over the keys it may see.`);
  const marked = head.few.length ? [make("p", "hint few", data.too_few)] : [];
  at("scores").replaceChildren(...rows, ...marked, entropy);
}

// -- the pooled map --------------------------------------------------------------------------------------------------

const mapValue = (n, r, c) => maps.scales[n] * uncode(maps.codes[(n * maps.height + r) * maps.width + c]);
const SCALES = {
  linear: (x) => x,
  sqrt: (x) => Math.sqrt(x),
  log: (x) => (x > 0 ? Math.max(0, 1 + Math.log10(x) / 4) : 0), // four decades
};
const edges = (length, parts, i) => [Math.floor((i * length) / parts), Math.floor(((i + 1) * length) / parts)];

function paintMap() {
  const canvas = at("map"), n = state.head, scale = SCALES[state.scale];
  const { width, height } = maps;
  // A few screen pixels for each cell, so that the marked cell's frame can be thinner than a cell.
  const zoom = Math.max(1, Math.round(640 / Math.max(width, height)));
  canvas.width = width * zoom; canvas.height = height * zoom;
  const pen = canvas.getContext("2d"), image = pen.createImageData(width, height);
  const largest = maps.scales[n] || 1;
  for (let i = 0; i < width * height; i++) {
    const colour = ramp(scale(mapValue(n, Math.floor(i / width), i % width) / largest));
    image.data.set([...colour, 255], 4 * i);
  }
  const small = document.createElement("canvas");
  small.width = width; small.height = height;
  small.getContext("2d").putImageData(image, 0, 0);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(small, 0, 0, canvas.width, canvas.height);
  if (state.cell) {
    pen.strokeStyle = wantsDark.matches ? "#ffffff" : "#d55e00";
    pen.lineWidth = 2;
    pen.strokeRect(state.cell[1] * zoom, state.cell[0] * zoom, zoom, zoom);
  }
  const bar = at("ramp"), barPen = bar.getContext("2d"), strip = barPen.createImageData(128, 1);
  for (let x = 0; x < 128; x++) strip.data.set([...ramp(scale(x / 127)), 255], 4 * x);
  barPen.putImageData(strip, 0, 0);
  at("low").textContent = "0";
  at("high").textContent = share(maps.scales[n]);
  sayMap();
}

const stretch = ([a, b], what) => (b - a <= 1 ? `${what} ${a} “${shown(a)}”` : `${what} ${a}–${b - 1} “${shown(a)} … ${shown(b - 1)}”`);

function sayMap() {
  const out = at("map-value");
  if (!state.cell) { out.textContent = "Point at the map, or focus it and use the arrow keys."; return; }
  const [r, c] = state.cell;
  const rows = edges(T, maps.height, r), cols = edges(T, maps.width, c);
  out.replaceChildren(make("b", "", share(mapValue(state.head, r, c))), ` mean attention from ${stretch(rows, "query")} to ${stretch(cols, "key")}`);
}

function buildMap() {
  const canvas = at("map");
  const tall = T / maps.height, wide = T / maps.width;
  at("pooled").textContent = tall === 1 && wide === 1 ? "single cells" : `${Math.ceil(tall)}×${Math.ceil(wide)} cells`;
  const mark = (r, c) => {
    state.cell = [Math.min(maps.height - 1, Math.max(0, r)), Math.min(maps.width - 1, Math.max(0, c))];
    paintMap();
  };
  const point = (event) => {
    const box = canvas.getBoundingClientRect();
    mark(Math.floor(((event.clientY - box.top) / box.height) * maps.height), Math.floor(((event.clientX - box.left) / box.width) * maps.width));
  };
  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("pointerdown", point);
  canvas.addEventListener("pointerleave", () => { state.cell = null; paintMap(); });
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  canvas.addEventListener("keydown", (event) => {
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    const [r, c] = state.cell ?? [maps.height - 1, 0];
    mark(r + step[0], c + step[1]);
  });
  for (const name of Object.keys(SCALES)) {
    const button = make("button", "", name);
    button.type = "button";
    button.setAttribute("role", "radio");
    button.addEventListener("click", () => { state.scale = name; paintScale(); paintMap(); });
    at("scale").append(button);
  }
}

function paintScale() {
  for (const button of at("scale").children) button.setAttribute("aria-checked", String(button.textContent === state.scale));
}

// -- the profile over distances --------------------------------------------------------------------------------------

function svg(tag, attributes, text) {
  const node = document.createElementNS(at("offsets").namespaceURI, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  if (text !== undefined) node.textContent = text;
  return node;
}

function paintOffsets() {
  const chart = at("offsets"), box = chart.getBoundingClientRect();
  const W = Math.max(180, box.width), H = Math.max(120, box.height), left = 34, bottom = 30, above = 8;
  const { limit, after, count } = offsets;
  const values = offsets.values.subarray(state.head * count, (state.head + 1) * count);
  const most = Math.max(...values) || 1;
  const step = (W - left - 4) / count, y = (v) => above + (H - above - bottom) * (1 - v / most);
  const parts = [];
  for (const part of [0, 0.5, 1]) {
    parts.push(svg("line", { class: "axis", x1: left, x2: W, y1: y(part * most), y2: y(part * most) }));
    parts.push(svg("text", { x: left - 4, y: y(part * most) + 3, "text-anchor": "end" }, share(part * most)));
  }
  // Left to right as on the page: keys far behind first, then the query itself, then keys ahead.
  const kind = heads[state.head].kind;
  const colour = kind === "mixed" ? css(mix(hex("#7a869a"), surface(), 0.1)) : kinds.get(kind).colour;
  values.forEach((value, e) => {
    const d = e - after, x = left + (count - 1 - e) * step;
    const bar = svg("rect", { x: x + step * 0.1, width: Math.max(1, step * 0.8), y: y(value), height: Math.max(0, H - bottom - y(value)), fill: colour });
    const hit = svg("rect", { x, width: step, y: 0, height: H - bottom, fill: "transparent" });
    hit.addEventListener("pointerenter", () => {
      at("offset-value").replaceChildren(make("b", "", share(value)), ` mean attention to the key ${d === 0 ? "at the query itself" : away(d)}`);
    });
    parts.push(bar, hit);
  });
  const marks = new Set([limit, 0, -after, Math.round(limit / 2)]);
  for (const d of marks) {
    const x = left + (count - 0.5 - (d + after)) * step;
    parts.push(svg("text", { x, y: H - bottom + 13, "text-anchor": d === limit ? "start" : d === -after ? "end" : "middle" }, d > 0 ? `−${d}` : d < 0 ? `+${-d}` : "0"));
  }
  parts.push(svg("text", { x: left + (W - left) / 2, y: H - 4, "text-anchor": "middle" }, after ? "key behind ← query → key ahead" : "distance of the key behind the query"));
  chart.setAttribute("viewBox", `0 0 ${W} ${H}`);
  chart.replaceChildren(...parts);
  const peak = values.indexOf(Math.max(...values)) - after;
  at("offset-value").replaceChildren("Most: ", make("b", "", share(Math.max(...values))), ` to the key ${d0(peak)}`);
}
const d0 = (d) => (d === 0 ? "at the query itself" : away(d));

// -- the text --------------------------------------------------------------------------------------------------------

const spans = [];

function buildText() {
  const special = new Set(data.special), box = at("text");
  tokens.forEach((token, i) => {
    const span = make("span", "token" + (special.has(i) ? " special" : "") + (i < top.first ? " mute" : ""), token || "◌");
    span.dataset.token = String(i);
    spans.push(span);
    box.append(span);
  });
  const of = (event) => event.target.closest?.(".token")?.dataset.token;
  box.addEventListener("pointerover", (event) => {
    const i = of(event);
    if (i !== undefined && !state.pinned) ask(Number(i));
  });
  box.addEventListener("click", (event) => {
    const i = of(event);
    if (i === undefined) return;
    state.pinned = !(state.pinned && state.query === Number(i));
    ask(Number(i));
  });
  box.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -T, End: T }[event.key];
    if (event.key === "Escape") state.pinned = false;
    if (!step) return;
    event.preventDefault();
    state.pinned = true;
    ask(Math.min(T - 1, Math.max(top.first, (state.query ?? top.first) + step)));
    spans[state.query].scrollIntoView({ block: "nearest" });
  });
  at("text-hint").textContent = top.first > 0
    ? `point at a token: the keys it attends to most are shaded; kept for the last ${T - top.first} of ${T} tokens`
    : "point at a token: the keys it attends to most are shaded; click to hold it";
}

function topOf(n, query) {
  const found = [], base = ((n * (T - top.first)) + query - top.first) * top.k;
  for (let i = 0; i < top.k; i++) {
    const p = uncode(top.codes[base + i]);
    if (p > 0) found.push({ key: top.keys[base + i], p });
  }
  return found;
}

function ask(query) {
  state.query = query;
  paintText();
}

function paintText() {
  for (const span of spans) {
    span.style.background = span.style.color = "";
    span.classList.remove("query");
  }
  const query = state.query, out = at("text-value");
  if (query === null) { out.textContent = ""; return; }
  spans[query].classList.add("query");
  if (query < top.first) { out.textContent = `Top keys are kept for the last ${T - top.first} tokens; this is token ${query}.`; return; }
  const found = topOf(state.head, query), parts = [make("span", "", `Token ${query} “${shown(query)}” attends to`)];
  for (const { key, p } of found) {
    const colour = ramp(0.12 + 0.8 * Math.sqrt(p));
    spans[key].style.background = css(colour);
    spans[key].style.color = inkOn(colour);
    const chip = make("span", "key");
    chip.append(make("span", "", shown(key)), make("i", "", away(query - key)), make("b", "", share(p)));
    parts.push(chip);
  }
  out.replaceChildren(...parts);
}

// -- together --------------------------------------------------------------------------------------------------------

function choose(n) {
  state.head = n;
  paintGrid();
  paintScores();
  paintMap();
  paintOffsets();
  paintText();
}

function paint() {
  paintKinds();
  paintScale();
  choose(state.head);
}

document.title = at("title").textContent = data.title;
at("subtitle").textContent = data.subtitle;
for (const [label, value] of data.facts) {
  const pair = make("div");
  pair.append(make("dt", "", label), make("dd", "", value));
  at("facts").append(pair);
}
buildKinds();
buildGrid();
buildMap();
buildText();
state.query = Math.min(T - 1, Math.max(top.first, data.query));
paint();
at("text").scrollTop = spans[state.query].offsetTop - at("text").clientHeight / 2;
wantsDark.addEventListener("change", paint);
addEventListener("resize", paintOffsets);
