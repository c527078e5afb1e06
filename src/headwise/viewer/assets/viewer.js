// src/choosing.ts
var e = ([e, t]) => `${e}.${t}`;
function t(e, t) {
	let n = /^(\d{1,6})\.(\d{1,6})$/.exec(t);
	if (!n) return null;
	let r = [Number(n[1]), Number(n[2])], i = e.layers[r[0]];
	return i && r[1] < i.heads ? r : null;
}
var n = (e, t) => e.layers[t[0]];
function r(e, t) {
	let r = n(e, t);
	return `Layer ${r.label}${r.kind === "cross" ? " (cross)" : ""}, head ${t[1]}`;
}
var i = /* @__PURE__ */ new WeakMap();
function a(t, n) {
	if (!t.heads) return null;
	let r = i.get(t);
	return r || (r = new Map(t.heads.map((t) => [e([t.layer, t.head]), t])), i.set(t, r)), r.get(e(n)) ?? null;
}
function o(e, t) {
	let n = a(e, t);
	return n ? e.kinds.find((e) => e.name === n.kind) ?? null : null;
}
function s(e, t, r) {
	let i = n(e, t), a = n(e, r), o = (e, t) => e.every((e, n) => e === t[n]);
	return o(i.rows, a.rows) && o(i.cols, a.cols);
}
function c(e, n) {
	let r = [n.layer, n.head];
	return n.chosen.map((n) => t(e, n)).filter((e) => e !== null).filter((t) => s(e, t, r));
}
function l(e, t, r) {
	let i = [t.layer, t.head], a = {
		layer: r[0],
		head: r[1]
	};
	if (s(e, i, r)) return a;
	let { T: o, S: c } = n(e, r);
	return {
		...a,
		at: null,
		query: t.query === null ? null : Math.min(t.query, o - 1),
		key: t.key === null || t.key >= c ? null : t.key,
		chosen: []
	};
}
function u(t, n, r) {
	let i = e(r);
	return n.chosen.includes(i) ? { chosen: n.chosen.filter((e) => e !== i) } : s(t, r, [n.layer, n.head]) ? { chosen: [...n.chosen, i] } : null;
}
function d(e, [t, r]) {
	let i = n(e, [t, r]).heads;
	return r + 1 < i ? [t, r + 1] : r > 0 ? [t, r - 1] : [t, r];
}
// src/state.ts
var f = class {
	state;
	listeners = /* @__PURE__ */ new Set();
	constructor(e) {
		this.state = e;
	}
	get() {
		return this.state;
	}
	set(e) {
		let t = this.state, n = {
			...t,
			...e
		};
		if (!Object.keys(n).every((e) => Object.is(n[e], t[e]))) {
			this.state = n;
			for (let e of [...this.listeners]) e(n, t);
		}
	}
	subscribe(e) {
		return this.listeners.add(e), () => this.listeners.delete(e);
	}
};
function p(e) {
	return {
		run: 0,
		minus: null,
		layer: e.open[0],
		head: e.open[1],
		b: 0,
		beside: null,
		at: null,
		scale: "sqrt",
		pool: "mean",
		hide: !1,
		norm: !1,
		kinds: [],
		sort: "place",
		query: e.query,
		key: null,
		chosen: [],
		panel: "text",
		theme: "auto"
	};
}
function m(e, t = [e.layer, e.head]) {
	return {
		run: e.run,
		...e.minus === null ? {} : { minus: e.minus },
		layer: t[0],
		head: t[1],
		b: e.b,
		pool: e.pool,
		hide: +!!e.hide,
		norm: +!!e.norm
	};
}
// src/address.ts
var h = class extends Error {}, g = 32;
function _(e, t, n) {
	if (!/^\d{1,9}$/.test(e)) throw new h("not a whole number");
	let r = Number(e);
	if (r >= t) throw new h(`the last ${n} is ${t - 1}`);
	return r;
}
function v(e, t) {
	let n = t.find((t) => t === e);
	if (n === void 0) throw new h("no such choice");
	return n;
}
function y(e, n) {
	let r = t(e, n);
	if (!r) throw new h("no such head");
	return r;
}
function b(e) {
	let t = e.split(",").map((e) => /^-?\d{1,9}(\.\d{1,6})?$/.test(e) ? Number(e) : NaN), [n, r, i] = t;
	if (t.length !== 3 || t.some(Number.isNaN)) throw new h("not three numbers");
	if (i <= 0) throw new h("the view spans no key");
	return [
		n,
		r,
		i
	];
}
var ee = (e) => v(e, ["0", "1"]) === "1", x = (e) => e === "" ? [] : e.split(","), te = (e, t) => e.layers[t.layer];
function ne(e) {
	let t = /* @__PURE__ */ new Set();
	for (let { scores: n } of e.heads ?? []) for (let e of Object.keys(n)) t.add(e);
	return [
		"place",
		...e.heads ? ["entropy"] : [],
		...t
	];
}
var re = {
	run: (e, t) => ({ run: _(e, t.runs.length, "run") }),
	minus: (e, t) => ({ minus: _(e, t.runs.length, "run") }),
	head: (e, t) => {
		let [n, r] = y(t, e);
		return {
			layer: n,
			head: r
		};
	},
	beside: (e, t) => ({ beside: y(t, e) }),
	row: (e, t) => ({ b: _(e, t.batch, "row") }),
	at: (e) => ({ at: b(e) }),
	scale: (e) => ({ scale: v(e, [
		"linear",
		"sqrt",
		"log"
	]) }),
	pool: (e) => ({ pool: v(e, ["mean", "max"]) }),
	hide: (e) => ({ hide: ee(e) }),
	norm: (e) => ({ norm: ee(e) }),
	kinds: (e, t) => ({ kinds: x(e).map((e) => v(e, t.kinds.map(({ name: e }) => e))) }),
	sort: (e, t) => ({ sort: v(e, ne(t)) }),
	query: (e, t, n) => ({ query: e === "none" ? null : _(e, te(t, n).T, "query") }),
	key: (e, t, n) => ({ key: e === "none" ? null : _(e, te(t, n).S, "key") }),
	chosen: (t, n) => ({ chosen: [...new Set(x(t).map((t) => e(y(n, t))))] }),
	panel: (e) => ({ panel: v(e, [
		"text",
		"profile",
		"scores"
	]) }),
	theme: (e) => ({ theme: v(e, [
		"auto",
		"light",
		"dark"
	]) })
}, ie = {
	run: ({ run: e }) => String(e),
	minus: ({ minus: e }) => String(e),
	head: (t) => e([t.layer, t.head]),
	beside: ({ beside: t }) => t ? e(t) : "none",
	row: ({ b: e }) => String(e),
	at: ({ at: e }) => e ? e.map((e) => String(Number(e.toFixed(2)))).join(",") : "none",
	scale: ({ scale: e }) => e,
	pool: ({ pool: e }) => e,
	hide: ({ hide: e }) => e ? "1" : "0",
	norm: ({ norm: e }) => e ? "1" : "0",
	kinds: ({ kinds: e }) => e.join(","),
	sort: ({ sort: e }) => e,
	query: ({ query: e }) => String(e ?? "none"),
	key: ({ key: e }) => String(e ?? "none"),
	chosen: ({ chosen: e }) => e.join(","),
	panel: ({ panel: e }) => e,
	theme: ({ theme: e }) => e
};
function ae(e, t) {
	let n = p(t), r = [];
	for (let [t, i] of Object.entries(ie)) {
		let a = i(e);
		a !== i(n) && r.push(`${t}=${encodeURIComponent(a).replaceAll("%2C", ",")}`);
	}
	return r.join("&");
}
function oe(e, t) {
	let n = p(t), r = /* @__PURE__ */ new Map(), i = [], a = (e) => e.length > g ? `${e.slice(0, g)}…` : e;
	for (let t of e.replace(/^#/, "").split("&")) {
		if (t === "") continue;
		let [e, n] = [t.split("=", 1)[0], t.slice(t.indexOf("=") + 1)];
		try {
			if (r.set(e, decodeURIComponent(t.includes("=") ? n : "")), !Object.hasOwn(re, e)) throw new h("not known here");
		} catch (n) {
			r.delete(e), i.push(`${a(t)} (${n instanceof h ? n.message : "broken % signs"})`);
		}
	}
	for (let [e, o] of Object.entries(re)) {
		let s = r.get(e);
		if (s !== void 0) try {
			n = {
				...n,
				...o(s, t, n)
			};
		} catch (t) {
			if (!(t instanceof h)) throw t;
			i.push(`${e}=${a(s)} (${t.message})`);
		}
	}
	let { T: o, S: s } = te(t, n);
	if (n.query !== null && n.query >= o && (n.query = o - 1), n.key !== null && n.key >= s && (n.key = null), n.minus === n.run && (n.minus = null, i.push("minus (a run minus itself is 0)")), i.length === 0) return {
		state: n,
		says: null
	};
	let c = i.length > 3 ? `${i.slice(0, 3).join(", ")} and ${i.length - 3} more` : i.join(", ");
	return {
		state: n,
		says: `This address could not be followed in ${c}; the rest of it was.`
	};
}
var se = class {
	scene;
	follow;
	written;
	constructor(e, t) {
		this.scene = e, this.follow = t, this.written = location.hash.replace(/^#/, ""), addEventListener("hashchange", this.changed);
	}
	put(e) {
		let t = ae(e, this.scene);
		t !== this.written && (this.written = t, history.replaceState(history.state, "", location.pathname + location.search + (t ? `#${t}` : "")));
	}
	destroy() {
		removeEventListener("hashchange", this.changed);
	}
	changed = () => {
		let e = location.hash.replace(/^#/, "");
		if (e === this.written) return;
		this.written = e;
		let { state: t, says: n } = oe(e, this.scene);
		this.follow(t, n);
	};
};
// src/dom.ts
function ce(e, t, n) {
	for (let [n, r] of Object.entries(t)) r != null && r !== !1 && e.setAttribute(n, r === !0 ? "" : String(r));
	for (let t of n) t != null && e.append(t);
}
function S(e, t = {}, ...n) {
	let r = document.createElement(e);
	return ce(r, t, n), r;
}
function C(e, t = {}, ...n) {
	let r = document.createElementNS("http://www.w3.org/2000/svg", e);
	return ce(r, t, n), r;
}
function w(e, t, n = {}) {
	let r = S("button", {
		type: "button",
		...n
	}, e);
	return r.addEventListener("click", t), r;
}
function le(e, t) {
	let n, r = () => clearTimeout(n);
	return {
		never: r,
		now: () => {
			r(), t();
		},
		soon: () => {
			r(), n = setTimeout(t, e);
		}
	};
}
// src/colour.ts
var ue = 1024, de = {
	light: [
		"#ffffff",
		"#dbe9f6",
		"#9ecae1",
		"#4a98c9",
		"#1f6cb0",
		"#123f85",
		"#0a1c4a"
	],
	dark: [
		"#10141b",
		"#152f55",
		"#1a567f",
		"#2b8089",
		"#5aab82",
		"#b5cf6b",
		"#fff3b0"
	],
	lightApart: [
		"#0b2f66",
		"#2166ac",
		"#7fb2d6",
		"#ffffff",
		"#f2b36b",
		"#b85c07",
		"#6b2f00"
	],
	darkApart: [
		"#c9e6ff",
		"#6cb4ff",
		"#235a94",
		"#10141b",
		"#8a4a0c",
		"#f39a3c",
		"#ffe3bd"
	]
}, fe = {
	light: {
		ink: "#1a1f27",
		soft: "#5b6675",
		line: "#aab3c0",
		surface: "#ffffff",
		accent: "#c2410c",
		focus: "#0b62b8",
		onInk: "#ffffff",
		veil: "rgba(120, 130, 145, 0.10)",
		hatch: "rgba(100, 112, 130, 0.17)",
		grid: "rgba(90, 102, 117, 0.14)"
	},
	dark: {
		ink: "#e8ecf2",
		soft: "#98a4b3",
		line: "#4a5462",
		surface: "#171b22",
		accent: "#ff9d6b",
		focus: "#6cb4ff",
		onInk: "#0e1116",
		veil: "rgba(150, 165, 185, 0.08)",
		hatch: "rgba(150, 165, 185, 0.16)",
		grid: "rgba(160, 175, 195, 0.16)"
	}
};
function pe(e) {
	return fe[e ? "dark" : "light"];
}
var me = (e) => e <= .04045 ? e / 12.92 : ((e + .055) / 1.055) ** 2.4, he = (e) => e <= .0031308 ? 12.92 * e : 1.055 * e ** (1 / 2.4) - .055;
function ge(e) {
	let [t, n, r] = e.map((e) => me(e / 255)), i = Math.cbrt(.4122214708 * t + .5363325363 * n + .0514459929 * r), a = Math.cbrt(.2119034982 * t + .6806995451 * n + .1073969566 * r), o = Math.cbrt(.0883024619 * t + .2817188376 * n + .6299787005 * r);
	return [
		.2104542553 * i + .793617785 * a - .0040720468 * o,
		1.9779984951 * i - 2.428592205 * a + .4505937099 * o,
		.0259040371 * i + .7827717662 * a - .808675766 * o
	];
}
function _e([e, t, n]) {
	let r = (e + .3963377774 * t + .2158037573 * n) ** 3, i = (e - .1055613458 * t - .0638541728 * n) ** 3, a = (e - .0894841775 * t - 1.291485548 * n) ** 3;
	return [
		4.0767416621 * r - 3.3077115913 * i + .2309699292 * a,
		-1.2684380046 * r + 2.6097574011 * i - .3413193965 * a,
		-.0041960863 * r - .7034186147 * i + 1.707614701 * a
	].map((e) => Math.round(255 * Math.min(1, Math.max(0, he(Math.max(0, e))))));
}
var ve = (e) => [
	1,
	3,
	5
].map((t) => parseInt(e.slice(t, t + 2), 16)), ye = /* @__PURE__ */ new Map();
function be(e, t) {
	let n = `${e ? "dark" : "light"}${t ? "Apart" : ""}`, r = ye.get(n);
	if (!r) {
		let e = de[n].map((e) => ge(ve(e)));
		r = Array.from({ length: ue }, (t, n) => {
			let r = n / 1023 * (e.length - 1), i = Math.min(e.length - 2, Math.floor(r)), a = e[i], o = e[i + 1];
			return _e(a.map((e, t) => e + (o[t] - e) * (r - i)));
		}), ye.set(n, r);
	}
	return r;
}
function xe(e, t) {
	let n = be(e, t);
	return (e) => n[Math.round(Math.min(1, Math.max(0, e || 0)) * 1023)];
}
var Se = 1e4, Ce = {
	linear: (e) => e,
	sqrt: (e) => Math.sqrt(Math.max(0, e)),
	log: (e) => Math.log1p(Se * Math.max(0, e)) / Math.log1p(Se)
};
function T(e) {
	return `rgb(${e[0]} ${e[1]} ${e[2]})`;
}
function we(e) {
	return .2126 * me(e[0] / 255) + .7152 * me(e[1] / 255) + .0722 * me(e[2] / 255) > .179 ? "#000000" : "#ffffff";
}
function Te(e) {
	return e.theme === "auto" ? typeof matchMedia == "function" && matchMedia("(prefers-color-scheme: dark)").matches : e.theme === "dark";
}
var Ee = [
	1,
	1.25,
	1.6,
	2,
	2.5,
	3.2,
	4,
	5,
	6.4,
	8,
	10
];
function De(e) {
	if (!(e > 0) || !Number.isFinite(e)) return 1;
	let t = 10 ** Math.floor(Math.log10(e)), n = Ee.find((n) => n * t >= e * (1 - 1e-6)) ?? 10;
	return Number((n * t).toPrecision(3));
}
// src/recent.ts
var Oe = class {
	limit;
	kept = /* @__PURE__ */ new Map();
	constructor(e) {
		this.limit = e;
	}
	get size() {
		return this.kept.size;
	}
	get(e) {
		let t = this.kept.get(e);
		return t !== void 0 && (this.kept.delete(e), this.kept.set(e, t)), t;
	}
	has(e) {
		return this.kept.has(e);
	}
	set(e, t) {
		this.kept.delete(e), this.kept.set(e, t);
		for (let e of this.kept.keys()) {
			if (this.kept.size <= this.limit) break;
			this.kept.delete(e);
		}
	}
	clear() {
		this.kept.clear();
	}
}, E = class extends Error {};
function ke(e) {
	let t = new DataView(e).getUint32(0, !0);
	return {
		meta: JSON.parse(new TextDecoder().decode(new Uint8Array(e, 4, t))),
		data: e.slice(4 + t)
	};
}
function Ae(e, t) {
	let n = Object.entries(t).filter(([, e]) => e !== void 0);
	return n.sort(([e], [t]) => e < t ? -1 : 1), `${e}?${n.map(([e, t]) => `${e}=${t}`).join("&")}`;
}
// src/view.ts
var je = 96, Me = 48, Ne = 120, Pe = 96;
function Fe(e, t, n, r) {
	let i = Math.min(n / t, r / e, je), a = Math.min(n / t, Math.max(i, Math.min(n / 4 / t, Me))), o = Math.min(r / e, Math.max(i, Math.min(r / 4 / e, Me)));
	return {
		T: e,
		S: t,
		width: n,
		height: Math.max(Math.min(Ne, r), Math.min(r, e * o)),
		fx: a,
		fy: o
	};
}
function Ie({ fx: e, fy: t }) {
	return Math.max(1, je / Math.min(e, t));
}
function Le(e, t, n, r) {
	return t <= n ? r ? (n - t) / 2 : 0 : Math.min(0, Math.max(n - t, e));
}
function Re(e, { k: t, x: n, y: r }) {
	return {
		k: t,
		x: Le(n, e.S * e.fx * t, e.width, !0),
		y: Le(r, e.T * e.fy * t, e.height, !1)
	};
}
function ze(e, t) {
	let { fx: n, fy: r, width: i, height: a } = e, o = n > r ? Be(n, r, t.k) : n * t.k, s = r > n ? Be(r, n, t.k) : r * t.k, c = (i / 2 - t.x) / (n * t.k), l = (a / 2 - t.y) / (r * t.k);
	return {
		...e,
		kx: o,
		ky: s,
		x: Le(i / 2 - c * o, e.S * o, i, !0),
		y: Le(a / 2 - l * s, e.T * s, a, !1)
	};
}
function Be(e, t, n) {
	return Math.max(t * n, Math.min(e * n, Math.max(e, Me)));
}
function Ve(e, t) {
	if (!t) return Re(e, {
		k: 1,
		x: 0,
		y: 0
	});
	let [n, r, i] = t, a = Math.min(Ie(e), Math.max(1, e.width / i / e.fx));
	return Re(e, {
		k: a,
		x: e.width / 2 - n * e.fx * a,
		y: e.height / 2 - r * e.fy * a
	});
}
function He(e, { k: t, x: n, y: r }) {
	return t <= 1 + 1e-9 ? null : [
		(e.width / 2 - n) / (e.fx * t),
		(e.height / 2 - r) / (e.fy * t),
		e.width / (e.fx * t)
	];
}
function Ue(e, [t, n], [r, i]) {
	let a = Math.min(e.width / ((i - r) * e.fx), e.height / ((n - t) * e.fy));
	return Ve(e, [
		(r + i) / 2,
		(t + n) / 2,
		e.width / (e.fx * Math.max(1, a))
	]);
}
function We(e, { k: t, x: n, y: r }, i, a) {
	let o = Math.min(Ie(e), Math.max(1, t * i)), s = a ? n + (a[1] + .5) * e.fx * t : e.width / 2, c = a ? r + (a[0] + .5) * e.fy * t : e.height / 2;
	return Re(e, {
		k: o,
		x: s - (s - n) * o / t,
		y: c - (c - r) * o / t
	});
}
function Ge(e, t) {
	return Math.max(0, Math.ceil(Math.log2(Math.max(e, t) / 256)));
}
function D(e) {
	let t = (e, t, n) => Math.min(n - 1, Math.max(0, Math.floor(-e / t))), n = (e, t, n, r) => Math.min(n, Math.max(1, Math.ceil((r - e) / t - 1e-9)));
	return {
		i0: t(e.y, e.ky, e.T),
		i1: n(e.y, e.ky, e.T, e.height),
		j0: t(e.x, e.kx, e.S),
		j1: n(e.x, e.kx, e.S, e.width)
	};
}
function Ke(e, t) {
	let { i0: n, i1: r, j0: i, j1: a } = D(e), o = 256 * 2 ** t;
	return {
		z: t,
		r0: Math.floor(n / o),
		r1: Math.floor((r - 1) / o) + 1,
		c0: Math.floor(i / o),
		c1: Math.floor((a - 1) / o) + 1
	};
}
function qe(e, t) {
	let n = Ge(e.T, e.S), r = Math.min(e.kx, e.ky) * t, i = Math.min(n, Math.max(0, Math.ceil(-Math.log2(r) - 1e-9)));
	for (; i < n; i++) {
		let { r0: t, r1: n, c0: r, c1: a } = Ke(e, i);
		if ((n - t) * (a - r) <= Pe) break;
	}
	return i;
}
function Je({ r0: e, r1: t, c0: n, c1: r }, i) {
	let a = [];
	for (let o = e; o < t; o++) for (let e = n; e < r; e++) a.push([
		o,
		e,
		Math.hypot(o + .5 - i[0], e + .5 - i[1])
	]);
	return a.sort((e, t) => e[2] - t[2]), a.map(([e, t]) => [e, t]);
}
function Ye(e, t) {
	let n = 256 * 2 ** t;
	return [(e.height / 2 - e.y) / e.ky / n, (e.width / 2 - e.x) / e.kx / n];
}
function Xe(e, t, n) {
	let r = 256 * 2 ** e.z, i = Math.ceil(t / r), a = Math.ceil(n / r), o = [];
	for (let t = Math.max(0, e.r0 - 1); t < Math.min(i, e.r1 + 1); t++) for (let n = Math.max(0, e.c0 - 1); n < Math.min(a, e.c1 + 1); n++) (t < e.r0 || t >= e.r1 || n < e.c0 || n >= e.c1) && o.push([t, n]);
	return o;
}
function Ze(e, t, n) {
	let r = Math.floor((n - e.y) / e.ky), i = Math.floor((t - e.x) / e.kx);
	return r >= 0 && r < e.T && i >= 0 && i < e.S && t >= 0 && n >= 0 && t < e.width && n < e.height ? [r, i] : null;
}
// src/words.ts
function O(e) {
	let t = Math.abs(e);
	return t === 0 ? "0" : Qe(t >= .00995 ? e.toFixed(3) : t >= 995e-6 ? e.toFixed(4) : e.toExponential(1));
}
function Qe(e) {
	return e.replace(/^-/, "−");
}
function $e(e) {
	let t = Math.abs(e);
	return t === 0 ? "0" : Qe(t >= .00995 ? e.toFixed(2) : e.toExponential(0));
}
function et(e) {
	let t = Math.abs(e);
	if (t === 0) return "0";
	let n = Number(e.toPrecision(3));
	return Qe(t < .001 ? n.toExponential() : String(n));
}
function k(e) {
	return String(e).replace(/\B(?=(\d{3})+$)/g, ",");
}
function tt(e) {
	return e === 0 ? "itself" : e > 0 ? `${k(e)} back` : `${k(-e)} ahead`;
}
var nt = /[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff]/g, rt = /[\u0000-\u001f\u007f-\u009f]/g, it = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, at = {
	"\n": "⏎",
	"\r": "␍",
	"	": "⇥",
	"": "␡"
};
function ot(e) {
	let t = e.charCodeAt(0);
	return at[e] ?? (t < 32 ? String.fromCharCode(9216 + t) : `⟨${t.toString(16)}⟩`);
}
function st(e) {
	if (e === "") return "◌";
	if (/^ +$/.test(e)) return "␣".repeat(e.length);
	let t = e.replace(/^ +| +$/g, (e) => "·".repeat(e.length)).replace(rt, ot).replace(nt, (e) => `⟨${e.charCodeAt(0).toString(16)}⟩`).replace(it, "�").replace(/\u00a0/g, "⍽");
	return /^\p{M}/u.test(t) ? `◌${t}` : t;
}
function A(e, t) {
	if (e.kind === "grid" && e.width) {
		let n = t - (e.before ?? 0);
		if (n >= 0 && n < e.width * (e.height ?? 1e400)) return `r${Math.floor(n / e.width)} c${n % e.width}`;
	}
	return st(e.labels[t] ?? "");
}
var ct = 11.5, lt = 19, ut = 92, dt = 60, j = 6, ft = 16, M = {
	gap: 14,
	width: 12,
	numbers: 52,
	title: 16,
	shortest: 120,
	tallest: 240
};
function pt(e, t, n, r, i) {
	let a = Math.min(r >= ct ? ut : dt, Math.max(i("00,000"), gt(e, i))), o = gt(t, i), s = Math.min(n >= ct ? ut : dt, o), c = o <= n - 6 ? 15 : n >= lt ? .75 * s + 6 : Math.max(15, s + 2);
	return {
		left: Math.ceil(ft + a + j + 2),
		top: Math.ceil(ft + c + j + 3),
		right: M.gap + M.width + 4 + M.numbers + M.title,
		bottom: 8
	};
}
function mt({ T: e, S: t }, n, r, i, a, o) {
	let s = Fe(e, t, i - 190, a - 80), c = pt(n, r, s.fx, s.fy, o);
	return {
		fit: Fe(e, t, Math.max(80, i - c.left - c.right), Math.max(160, a - c.top - c.bottom)),
		margins: c
	};
}
function ht(e, t) {
	return {
		...t,
		left: xt(e.ky) ? t.left : Math.min(t.left, 70),
		top: xt(e.kx) ? t.top : Math.min(t.top, 40)
	};
}
function gt(e, t) {
	let n = e.labels.length || (e.height ?? 0) * (e.width ?? 0) + (e.before ?? 0), r = Math.max(1, Math.floor(n / 300)), i = 0;
	for (let a = 0; a < n; a += r) i = Math.max(i, t(A(e, a)));
	return i;
}
var _t = new Oe(4096);
function vt(e, t, n) {
	let r = `${t}|${e}`, i = _t.get(r);
	return i === void 0 && (i = yt(e, t, n), _t.set(r, i)), i;
}
function yt(e, t, n) {
	let r = Array.from(e.slice(0, 400));
	if (r.length < 400 && n(e) <= t) return e;
	let i = 0, a = r.length;
	for (; i < a;) {
		let e = Math.ceil((i + a) / 2);
		n(`${r.slice(0, e).join("")}…`) <= t ? i = e : a = e - 1;
	}
	return `${r.slice(0, i).join("")}…`;
}
function N(e) {
	return {
		x0: Math.max(0, e.x),
		x1: Math.min(e.width, e.x + e.S * e.kx),
		y0: Math.max(0, e.y),
		y1: Math.min(e.height, e.y + e.T * e.ky)
	};
}
function bt(e, t) {
	let n = Math.max(1, t / e), r = 10 ** Math.floor(Math.log10(n));
	return [
		1,
		2,
		5,
		10
	].find((e) => e * r >= n * (1 - 1e-9)) * r;
}
function xt(e) {
	return e >= ct;
}
function St(e, t, n, r, i, a) {
	let o = {
		marks: [],
		ticks: []
	}, s = Ct(o, e, t, n, a), c = wt(o, e, t, r, a), { x0: l, x1: u, y0: d, y1: f } = N(e), p = (e, t) => i && t.name ? `${e} · ${t.name}` : e, m = t.top + (d + f) / 2, h = t.left + (l + u) / 2, g = (e, t) => vt(e, Math.max(60, t), a);
	return o.marks.push({
		x: s - 8,
		y: m,
		text: g(p("queries", n), f - d),
		angle: -90,
		anchor: "middle",
		tone: "soft"
	}, {
		x: h,
		y: c - 9,
		text: g(p("keys", r), u - l),
		angle: 0,
		anchor: "middle",
		tone: "soft"
	}), o;
}
function Ct(e, t, n, r, i) {
	let { i0: a, i1: o } = D(t), s = n.left + N(t).x0, c = xt(t.ky), l = c ? 1 : bt(t.ky, 34), u = 0;
	for (let d = Math.ceil(a / l) * l; d < o; d += l) {
		let a = n.top + t.y + (d + .5) * t.ky;
		if (a < n.top || a > n.top + t.height) continue;
		let o = c ? vt(A(r, d), n.left - ft - j - 2, i) : k(d);
		u = Math.max(u, i(o)), e.marks.push({
			x: s - j,
			y: a,
			text: o,
			angle: 0,
			anchor: "end",
			tone: Tt(r, d, c)
		}), c || e.ticks.push([
			s - 4,
			a,
			s,
			a
		]);
	}
	return s - j - u;
}
function wt(e, t, n, r, i) {
	let { j0: a, j1: o } = D(t), s = n.top + N(t).y0, c = xt(t.kx), l = c ? 1 : bt(t.kx, 60), u = c ? Et(t, r, i) : 0, d = u === 0 ? 1e400 : (n.top - ft - j - 3) / (u === -45 ? .75 : 1), f = 11;
	for (let p = Math.ceil(a / l) * l; p < o; p += l) {
		let a = n.left + t.x + (p + .5) * t.kx;
		if (a < n.left || a > n.left + t.width) continue;
		let o = c ? vt(A(r, p), d, i) : k(p);
		u !== 0 && (f = Math.max(f, i(o) * (u === -45 ? .71 : 1) + 3));
		let l = u === 0 ? "middle" : "start", m = u === 0 ? 6.5 : 0;
		e.marks.push({
			x: a,
			y: s - j - m,
			text: o,
			angle: u,
			anchor: l,
			tone: Tt(r, p, c)
		}), c || e.ticks.push([
			a,
			s - 4,
			a,
			s
		]);
	}
	return s - j - f;
}
function Tt(e, t, n) {
	return n && !e.special.includes(t) ? "ink" : "soft";
}
function Et(e, t, n) {
	let { j0: r, j1: i } = D(e), a = !0;
	for (let o = r; o < i && a; o++) a = n(A(t, o)) <= e.kx - 6;
	return a ? 0 : e.kx >= lt ? -45 : -90;
}
function Dt(e, t, n, r, i) {
	let { x1: a, y0: o, y1: s } = N(e), c = Math.max(Math.min(e.height, M.shortest), Math.min(M.tallest, s - o)), l = {
		x: t.left + a + M.gap,
		y: t.top + o,
		width: M.width,
		height: c,
		marks: [],
		ticks: []
	}, u = l.x + l.width, d = 0;
	for (let e of Ot(n)) {
		let t = Ce[n.scale](Math.abs(e) / n.range), r = n.diverging ? .5 + Math.sign(e) * t / 2 : t, a = l.y + c * (1 - r), o = n.diverging && e > 0 ? `+${et(e)}` : et(e);
		d = Math.max(d, i(o)), l.marks.push({
			x: u + 7,
			y: a,
			text: o,
			angle: 0,
			anchor: "start",
			tone: "ink"
		}), l.ticks.push([
			u,
			a,
			u + 4,
			a
		]);
	}
	return l.marks.push({
		x: u + 7 + d + 11,
		y: l.y + c / 2,
		text: vt(r, c, i),
		angle: 90,
		anchor: "middle",
		tone: "soft"
	}), l;
}
function Ot({ range: e, scale: t, diverging: n }) {
	let r = {
		linear: [1, .5],
		sqrt: [1, .25],
		log: [
			1,
			.1,
			.01,
			.001
		]
	}[t], i = (n && t === "log" ? [1, .01] : r).map((t) => t === 1 ? e : kt(t * e));
	return n ? [
		...i,
		0,
		...i.map((e) => -e).reverse()
	] : [...i, 0];
}
function kt(e) {
	let t = 10 ** Math.floor(Math.log10(e) + 1e-9);
	return [
		5,
		2,
		1
	].find((n) => n * t <= e * (1 + 1e-9)) * t;
}
// src/caveat.ts
var At = 300, jt = class {
	node;
	again;
	since = null;
	timer;
	constructor(e, t) {
		this.node = e, this.again = t;
	}
	show(e, t) {
		e.exact ? this.since = null : this.since ??= performance.now();
		let n = this.since !== null && performance.now() - this.since >= At;
		this.since !== null && !n && (clearTimeout(this.timer), this.timer = setTimeout(this.again, At));
		let r = n ? e.gaps ? "loading" : "coarser for now" : "", i = t ?? (e.sampled ? "sampled" : r);
		this.node.textContent !== i && (this.node.textContent = i), this.node.hidden = i === "";
	}
	destroy() {
		clearTimeout(this.timer);
	}
}, Mt = 144, Nt = 14, Pt = {
	width: 36,
	height: 16
};
function Ft(e, t, n, r) {
	let i = {
		list: [],
		exact: !0,
		sampled: !1,
		gaps: !1
	}, { r0: a, r1: o, c0: s, c1: c } = Ke(n, r), l = 256 * 2 ** r;
	for (let u = a; u < o; u++) for (let a = s; a < c; a++) {
		let o = It(e, t, r, u, a);
		o ? (o.z === r && o.exact || (i.exact = !1), o.exact || (i.sampled = !0), i.list.push({
			tile: o,
			i0: u * l,
			i1: Math.min(n.T, (u + 1) * l),
			j0: a * l,
			j1: Math.min(n.S, (a + 1) * l)
		})) : (i.gaps = !0, i.exact = !1);
	}
	return i;
}
function It(e, t, n, r, i) {
	let a = e.coarsest(t);
	for (let o = 0; n + o <= a; o++) {
		let a = e.get(t, n + o, r >> o, i >> o);
		if (a) return a;
	}
	return e.get(t, null, 0, 0);
}
function Lt(e, t, n, r, i, a) {
	let o = 256 * 2 ** r, s = It(e, t, r, Math.floor(i / o), Math.floor(a / o));
	if (!s) return null;
	let c = 2 ** s.z, l = Math.floor(i / c), u = Math.floor(a / c), d = s.data[(l - s.r * 256) * s.w + u - s.c * 256];
	return d === void 0 ? null : {
		i0: l * c,
		i1: Math.min(n.T, (l + 1) * c),
		j0: u * c,
		j1: Math.min(n.S, (u + 1) * c),
		p: d,
		exact: s.exact
	};
}
function Rt(e, { range: t, scale: n, diverging: r }) {
	let i = Math.min(1, Math.abs(e) / t), a = Ce[n](i);
	return Math.round((r ? .5 + Math.sign(e) * a / 2 : e > 0 ? a : 0) * 1023) || 0;
}
function zt(e, t) {
	return be(t.dark, t.diverging)[Rt(e, t)];
}
function Bt(e) {
	return Uint32Array.from(be(e.dark, e.diverging), ([e, t, n]) => 0xff000000 | n << 16 | t << 8 | e);
}
var Vt = class {
	coloured = new Oe(Mt);
	names = /* @__PURE__ */ new WeakMap();
	made = 0;
	table = null;
	draw(e, t, n, r, i, a) {
		let o = performance.now() + a, s = !0;
		for (let a of n) {
			let n = this.colour(a.tile, r, performance.now() < o);
			n && n.current || (s = !1), n && Ut(e, t, a, n.canvas, i);
		}
		return s;
	}
	colour(e, t, n) {
		let r = `${t.range} ${t.scale} ${t.dark} ${t.diverging}`, i = this.names.get(e);
		i || this.names.set(e, i = String(this.made++));
		let a = this.coloured.get(i);
		if (a?.look === r) return {
			canvas: a.canvas,
			current: !0
		};
		if (!n) return a ? {
			canvas: a.canvas,
			current: !1
		} : null;
		let o = a?.canvas ?? document.createElement("canvas");
		return this.table?.name !== `${t.dark} ${t.diverging}` && (this.table = {
			name: `${t.dark} ${t.diverging}`,
			pixels: Bt(t)
		}), Ht(o, e, t, this.table.pixels), this.coloured.set(i, {
			canvas: o,
			look: r
		}), {
			canvas: o,
			current: !0
		};
	}
};
function Ht(e, t, n, r) {
	e.width = t.w, e.height = t.h;
	let i = e.getContext("2d");
	if (!i) return;
	let a = i.createImageData(t.w, t.h), o = new Uint32Array(a.data.buffer), s = r[Rt(0, n)];
	for (let e = 0; e < o.length; e++) {
		let i = t.data[e];
		o[e] = i === 0 ? s : r[Rt(i, n)];
	}
	i.putImageData(a, 0, 0);
}
function Ut(e, t, n, r, i) {
	let { tile: a } = n, o = 2 ** a.z, s = D(t), c = Math.max(n.i0, Math.floor(s.i0 / o) * o), l = Math.min(n.i1, Math.ceil(s.i1 / o) * o), u = Math.max(n.j0, Math.floor(s.j0 / o) * o), d = Math.min(n.j1, Math.ceil(s.j1 / o) * o);
	if (l <= c || d <= u) return;
	let f = (e) => Math.round((t.x + e * t.kx) * i) / i, p = (e) => Math.round((t.y + e * t.ky) * i) / i;
	e.imageSmoothingEnabled = Math.max(t.kx, t.ky) * o * i < 2, e.drawImage(r, u / o - a.c * 256, c / o - a.r * 256, (d - u) / o, (l - c) / o, f(u), p(c), f(d) - f(u), p(l) - p(c));
}
function Wt(e) {
	return Math.min(e.kx, e.ky) >= Nt;
}
function Gt(e) {
	return e.kx >= Pt.width && e.ky >= Pt.height;
}
function Kt(e, t, n, r) {
	let i = [], { i0: a, i1: o, j0: s, j1: c } = D(e);
	for (let l = a; l < o; l++) for (let a = s; a < c; a++) {
		let o = n(l, a);
		if (o === null) continue;
		let s = O(o), c = r(s) <= e.kx - 4 ? s : $e(o);
		i.push({
			x: e.x + (a + .5) * e.kx,
			y: e.y + (l + .5) * e.ky,
			text: c,
			ink: we(zt(o, t))
		});
	}
	return i;
}
// src/commands.ts
var qt = {
	ArrowLeft: [-1, 0],
	ArrowRight: [1, 0],
	ArrowUp: [0, -1],
	ArrowDown: [0, 1]
};
function Jt(e) {
	if (e.ctrlKey || e.metaKey || e.altKey) return null;
	let t = qt[e.key];
	if (t) return {
		name: e.shiftKey ? "step" : "pan",
		right: t[0],
		down: t[1]
	};
	switch (e.key) {
		case "+":
		case "=": return {
			name: "zoom",
			by: 1.5
		};
		case "-":
		case "_": return {
			name: "zoom",
			by: 1 / 1.5
		};
		case "0": return { name: "whole" };
		case "Enter": return { name: "enter" };
		case "b": return { name: "box" };
		case "Escape": return { name: "escape" };
		default: return null;
	}
}
// src/edges.ts
var Yt = 3;
function Xt(e, t) {
	let n = e.start[t] ?? 0, r = e.causal ? 0 : e.after;
	return {
		first: e.before === null ? null : n - e.before,
		end: r === null ? null : n + r + 1
	};
}
function Zt({ first: e, end: t }, n, r) {
	return (e === null || r >= n + e) && (t === null || r < n + t);
}
function Qt(e, t) {
	let n = [];
	return t.end !== null && n.push($t(e, t.end, !0)), t.first !== null && t.first + e.T > 1 && n.push($t(e, t.first, !1)), n.filter(({ line: e }) => e.length > 1);
}
function $t(e, t, n) {
	let { i0: r, i1: i } = D(e), a = Math.min(e.kx, e.ky) >= Yt, o = (t) => e.x + Math.min(e.S, Math.max(0, t)) * e.kx, s = (t) => e.y + t * e.ky, c = [];
	if (a) for (let e = r; e < i; e++) c.push([o(e + t), s(e)], [o(e + t), s(e + 1)]);
	else {
		let a = [
			r,
			i,
			.5 - t,
			e.S + .5 - t
		].filter((e) => e >= r && e <= i), l = n ? 1 : -1;
		for (let e of a.sort((e, t) => e - t)) c.push([o(e + t - .5) + l, s(e)]);
	}
	let l = o(n ? e.S : 0);
	return {
		line: c,
		hidden: [
			...c,
			[l, s(i)],
			[l, s(r)]
		]
	};
}
// src/readout.ts
function en(e, t, n) {
	return [e.axes[t.rows[n] ?? 0], e.axes[t.cols[n] ?? 0]];
}
function tn(e, t) {
	let n = t.i1 - t.i0, r = t.j1 - t.j0;
	return n <= 1 && r <= 1 ? "" : `${e.pool === "mean" ? "mean" : "largest"} of ${k(n)} × ${k(r)} cells`;
}
function nn(e, t) {
	let n = t.norm ? "share of the row’s largest" : "probability";
	return t.minus === void 0 ? n : `${n}, ${e.runs[t.run] ?? ""} − ${e.runs[t.minus] ?? ""}`;
}
function rn(e, t, n) {
	let r = e.layers[t.layer], [i, a] = en(e, r, t.b), o = [{
		kind: "number",
		text: `${t.minus !== void 0 && n.p > 0 ? "+" : ""}${O(n.p)}`
	}], s = (e) => o.push({
		kind: "words",
		text: e
	}), c = tn(t, n);
	return s(` ${[nn(e, t), c].filter(Boolean).join(", ")}${n.exact ? "" : ", sampled"} · `), an(o, "query", "queries", i, n.i0, n.i1), s(" → "), an(o, "key", "keys", a, n.j0, n.j1), !c && r.kind === "self" && s(` · ${tt(n.i0 + (r.start[t.b] ?? 0) - n.j0)}`), o;
}
function an(e, t, n, r, i, a) {
	let o = a - 1;
	e.push({
		kind: "words",
		text: i === o ? `${t} ${k(i)} ` : `${n} ${k(i)}–${k(o)} `
	}), e.push({
		kind: "token",
		text: A(r, i)
	}), i !== o && e.push({
		kind: "words",
		text: " … "
	}, {
		kind: "token",
		text: A(r, o)
	});
}
function on(e, t) {
	return t ? "Not loaded yet." : `${e ? `Each drawn cell stands for ${2 ** e} × ${2 ** e}. ` : ""}Point at the map, or focus it and use the keys: arrows, + and −, shift and arrows for the crosshair.`;
}
// src/compose.ts
function sn(e, t, n, r) {
	let i = e.coarsest(t), a = qe(n, r);
	for (; a < i && (Je(Ke(n, a), [0, 0]).some(([n, r]) => e.isRefused(t, a, n, r)) || e.lack(t, a) !== null); a++);
	return a;
}
function cn(e, t, n, r) {
	let i = e.coarsest(t), a = [], o = (e, n, r, i) => a.push({
		shown: t,
		z: e,
		r: n,
		c: r,
		idle: i
	});
	(i > 0 || e.saved) && !e.get(t, i, 0, 0) && o(null, 0, 0, !1);
	for (let [e, t] of Je(r, Ye(n, r.z))) o(r.z, e, t, !1);
	r.z < i && o(i, 0, 0, !0);
	for (let [e, t] of Xe(r, n.T, n.S)) o(r.z, e, t, !0);
	return a;
}
function ln(e, t, n, { view: r, z: i, margins: a, pieces: o }) {
	let s = e.layers[n.layer], [c, l] = en(e, s, n.b), u = o.list.filter(({ tile: e }) => e.z === i && e.exact), d = Math.max(0, ...(u.length ? u : o.list).map(({ tile: e }) => e.most)), f = 2 ** Math.max(i, ...u.length ? [] : o.list.map(({ tile: e }) => e.z)), p = tn(n, {
		i0: 0,
		i1: Math.min(s.T, f),
		j0: 0,
		j1: Math.min(s.S, f)
	});
	return {
		shown: n,
		view: r,
		z: i,
		margins: a,
		pieces: o.list,
		look: {
			range: De(d),
			scale: t.scale,
			dark: Te(t),
			diverging: n.minus !== void 0
		},
		band: Xt(s, n.b),
		queries: c,
		keys: l,
		cross: s.kind === "cross",
		says: [nn(e, n), p].filter(Boolean).join(", "),
		query: t.query,
		key: t.key,
		sink: n.hide ? s.sink[n.b] ?? null : null
	};
}
// src/figure.ts
var un = "system-ui, \"Segoe UI\", Roboto, \"Noto Sans\", \"DejaVu Sans\", sans-serif", dn = 7;
function fn({ view: e, margins: t }) {
	return {
		width: t.left + e.width + t.right,
		height: t.top + e.height + t.bottom
	};
}
function pn(e) {
	let t = /* @__PURE__ */ new Map();
	return (n) => {
		let r = t.get(n);
		return r === void 0 && (e && (e.font = `11px ${un}`), r = e ? e.measureText(n).width : 6.2 * n.length, t.size > 8192 && t.clear(), t.set(n, r)), r;
	};
}
function mn(e, t, n, r, i, a, o) {
	let { view: s, margins: c, look: l } = t, u = pe(l.dark);
	e.save(), e.translate(Math.round(c.left * a) / a - c.left, Math.round(c.top * a) / a - c.top), e.save(), e.translate(c.left, c.top), e.beginPath();
	let { x0: d, x1: f, y0: p, y1: m } = N(s);
	e.rect(d, p, f - d, m - p), e.clip();
	let h = r.draw(e, s, t.pieces, l, a, o);
	Wt(s) && Tn(e, hn(s), u.grid, 1), t.z === 0 && Gt(s) && _n(e, t, n, i), Sn(e, t, u, a), wn(e, t, u), e.restore(), e.strokeStyle = u.line, e.lineWidth = 1, e.strokeRect(c.left + d - .5, c.top + p - .5, f - d + 1, m - p + 1);
	let g = St(s, c, t.queries, t.keys, t.cross, i);
	return Tn(e, g.ticks, u.line, 1), En(e, g.marks, u), Dn(e, t, u, i), e.restore(), h;
}
function hn(e) {
	let { i0: t, i1: n, j0: r, j1: i } = D(e), { x0: a, x1: o, y0: s, y1: c } = N(e), l = [];
	for (let r = t + 1; r < n; r++) l.push([
		a,
		e.y + r * e.ky,
		o,
		e.y + r * e.ky
	]);
	for (let t = r + 1; t < i; t++) l.push([
		e.x + t * e.kx,
		s,
		e.x + t * e.kx,
		c
	]);
	return l;
}
function gn(e, t, n) {
	return Kt(e.view, e.look, (n, r) => {
		let i = Lt(t, e.shown, e.view, 0, n, r);
		return !i?.exact || i.i1 - i.i0 > 1 || i.p === 0 && !Zt(e.band, n, r) ? null : i.p;
	}, n);
}
function _n(e, t, n, r) {
	e.font = `11px ${un}`, e.textAlign = "center", e.textBaseline = "middle";
	for (let { x: i, y: a, text: o, ink: s } of gn(t, n, r)) e.fillStyle = s, e.fillText(o, i, a + .5);
}
function vn(e) {
	let t = [], { width: n, height: r } = e, i = ((e.x + e.y) % dn + dn) % dn;
	for (let e = i; e < n + r; e += dn) t.push([
		Math.max(0, e - r),
		Math.min(e, r),
		Math.min(e, n),
		Math.max(0, e - n)
	]);
	return t;
}
function yn({ view: e, sink: t }) {
	if (t === null) return null;
	let n = Math.max(1, e.kx), r = Math.max(0, e.y);
	return [
		e.x + t * e.kx,
		r,
		n,
		Math.min(e.height, e.y + e.T * e.ky) - r
	];
}
var bn = /* @__PURE__ */ new Map();
function xn(e, { view: t }, n, r) {
	let i = `${n} ${r}`, a = bn.get(i), o = Math.round(dn * r);
	if (!a) {
		bn.set(i, a = document.createElement("canvas")), a.width = a.height = o;
		let e = a.getContext("2d");
		e && Tn(e, [
			-o,
			0,
			o
		].map((e) => [
			e - 1,
			o + 1,
			o + e + 1,
			-1
		]), n, r);
	}
	let s = e.createPattern(a, "repeat");
	return s?.setTransform(new DOMMatrix().translate(t.x + t.y, 0).scale(dn / o)), s;
}
function Sn(e, t, n, r) {
	let { view: i } = t, a = Qt(i, t.band), o = yn(t);
	if (!a.length && !o) return;
	e.beginPath();
	for (let { hidden: t } of a) t.forEach(([t, n], r) => r ? e.lineTo(t, n) : e.moveTo(t, n)), e.closePath();
	o && e.rect(...o), e.fillStyle = n.veil, e.fill();
	let s = xn(e, t, n.hatch, r);
	s && (e.fillStyle = s, e.fill()), e.strokeStyle = n.line, e.lineWidth = 1, e.beginPath();
	for (let { line: t } of a) t.forEach(([t, n], r) => r ? e.lineTo(t, n) : e.moveTo(t, n));
	e.stroke();
}
function Cn({ view: e, query: t, key: n }) {
	let { x0: r, x1: i, y0: a, y1: o } = N(e), s = [];
	if (t !== null && t < e.T) {
		let n = e.y + t * e.ky;
		s.push(e.ky >= 5 ? [
			r + 1,
			n,
			i - r - 2,
			e.ky
		] : [
			r,
			n + e.ky / 2,
			i - r,
			0
		]);
	}
	if (n !== null && n < e.S) {
		let t = e.x + n * e.kx;
		s.push(e.kx >= 5 ? [
			t,
			a + 1,
			e.kx,
			o - a - 2
		] : [
			t + e.kx / 2,
			a,
			0,
			o - a
		]);
	}
	return s;
}
function wn(e, t, n) {
	e.strokeStyle = n.accent, e.lineWidth = 1.5;
	for (let [n, r, i, a] of Cn(t)) e.beginPath(), i && a ? e.rect(n, r, i, a) : (e.moveTo(n, r), e.lineTo(n + i, r + a)), e.stroke();
}
function Tn(e, t, n, r) {
	e.strokeStyle = n, e.lineWidth = r, e.beginPath();
	for (let [n, r, i, a] of t) e.moveTo(n, r), e.lineTo(i, a);
	e.stroke();
}
function En(e, t, n) {
	e.font = `11px ${un}`, e.textBaseline = "middle";
	for (let { x: r, y: i, text: a, angle: o, anchor: s, tone: c } of t) e.fillStyle = n[c], e.textAlign = s === "middle" ? "center" : s === "end" ? "right" : "left", o === 0 ? e.fillText(a, r, i + .5) : (e.save(), e.translate(r, i), e.rotate(o * Math.PI / 180), e.fillText(a, 0, .5), e.restore());
}
function Dn(e, t, n, r) {
	let { look: i } = t, a = Dt(t.view, t.margins, i, t.says, r), o = be(i.dark, i.diverging), s = e.createLinearGradient(0, a.y + a.height, 0, a.y);
	for (let e = 0; e <= 64; e++) s.addColorStop(e / 64, T(o[Math.round(e / 64 * (o.length - 1))]));
	e.fillStyle = s, e.fillRect(a.x, a.y, a.width, a.height), e.strokeStyle = n.line, e.lineWidth = 1, e.strokeRect(a.x - .5, a.y - .5, a.width + 1, a.height + 1), Tn(e, a.ticks, n.line, 1), En(e, a.marks, n);
}
function On(e, { view: t, margins: n, look: r }) {
	let { x0: i, x1: a, y0: o, y1: s } = N(t);
	e.strokeStyle = pe(r.dark).focus, e.lineWidth = 2, e.strokeRect(n.left + i - 2, n.top + o - 2, a - i + 4, s - o + 4);
}
function kn(e, t, n, r) {
	let { view: i, margins: a } = t, o = pe(t.look.dark), { x0: s, x1: c, y0: l, y1: u } = N(i), d = a.left + i.x + (n.j0 + n.j1) / 2 * i.kx, f = a.top + i.y + (n.i0 + n.i1) / 2 * i.ky, p = (n.j1 - n.j0) * i.kx, m = (n.i1 - n.i0) * i.ky, h = (e) => e >= 12 ? [-e / 2, e / 2] : [0];
	e.save(), e.beginPath(), e.rect(a.left + s, a.top + l, c - s, u - l), e.clip(), e.globalAlpha = Math.min(p, m) >= 12 ? .4 : .55;
	let g = h(p).map((e) => [
		d + e,
		a.top + l,
		d + e,
		a.top + u
	]), _ = h(m).map((e) => [
		a.left + s,
		f + e,
		a.left + c,
		f + e
	]);
	Tn(e, [...g, ..._], o.ink, 1), e.globalAlpha = 1, Math.min(p, m) >= 4 && (e.strokeStyle = o.ink, e.lineWidth = 1.5, e.strokeRect(d - p / 2, f - m / 2, p, m)), e.restore(), e.save();
	let v = a.left + s - 8, y = vt(`${k(n.i0)} ${A(t.queries, n.i0)}`, v - 10, r);
	An(e, y, a.left + s - 4 - r(y) / 2 - 5, f, o, r);
	let b = vt(`${k(n.j0)} ${A(t.keys, n.j0)}`, 160, r), ee = r(b) / 2 + 5;
	An(e, b, Math.min(fn(t).width - ee - 1, Math.max(ee + 1, d)), a.top + l - 13, o, r), e.restore();
}
function An(e, t, n, r, i, a) {
	let o = a(t) + 10;
	e.fillStyle = i.ink, e.beginPath(), e.roundRect(n - o / 2, r - 9, o, 18, 4), e.fill(), e.fillStyle = i.onInk, e.font = `11px ${un}`, e.textAlign = "center", e.textBaseline = "middle", e.fillText(t, n, r + .5);
}
// src/picture.ts
var jn = 46, Mn = 10, P = 2, Nn = 4096;
function Pn({ shown: e }, t) {
	let n = t.layers[e.layer], r = t.runs.length > 1 && e.minus === void 0 ? t.runs[e.run] : void 0, i = [
		t.title,
		r,
		t.batch > 1 ? `row ${e.b} of the batch` : void 0
	];
	return e.hide && i.push("sink left out"), [`Layer ${n.label}, head ${e.head}`, i.filter(Boolean).join(" · ")];
}
function Fn(e, t, n, r) {
	let { width: i, height: a } = fn(e), o = document.createElement("canvas");
	o.width = Math.round((i + 20) * P), o.height = Math.round((a + jn + 20) * P);
	let s = o.getContext("2d");
	if (!s) return Promise.reject(/* @__PURE__ */ Error("This browser can not draw a picture of that size."));
	let c = pe(e.look.dark);
	s.scale(P, P), s.fillStyle = c.surface, s.fillRect(0, 0, i + 20, a + jn + 20);
	let [l, u] = Pn(e, n), d = Mn + In(e);
	return s.textBaseline = "alphabetic", s.fillStyle = c.ink, s.font = `600 16px ${un}`, s.fillText(l, d, 28), s.fillStyle = c.soft, s.font = `12px ${un}`, s.fillText(vt(u, (i - d) * .9, r), d, 46), s.translate(Mn, 56), mn(s, e, t, new Vt(), r, P, 1e400), new Promise((e, t) => {
		o.toBlob((n) => n ? e(n) : t(/* @__PURE__ */ Error("This browser can not draw a picture of that size.")));
	});
}
function In({ view: e, margins: t }) {
	return t.left + N(e).x0;
}
function Ln(e) {
	let t = {
		"&": "&amp;",
		"<": "&lt;",
		">": "&gt;",
		"\"": "&quot;",
		"'": "&#39;"
	};
	return e.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "�").replace(/[&<>"']/g, (e) => t[e]);
}
var F = (e) => String(Math.round(e * 100) / 100);
function I(e, t, n) {
	let r = Object.entries(t).map(([e, t]) => ` ${e}="${typeof t == "number" ? F(t) : Ln(t)}"`);
	return n === void 0 ? `<${e}${r.join("")}/>` : `<${e}${r.join("")}>${n}</${e}>`;
}
function Rn(e, t) {
	return I("text", t, Ln(e));
}
function zn(e, t, n = 1) {
	return e.length ? I("path", {
		d: e.map(([e, t, n, r]) => `M${F(e)} ${F(t)}L${F(n)} ${F(r)}`).join(""),
		fill: "none",
		stroke: t,
		"stroke-width": n
	}) : "";
}
function Bn(e, t) {
	return e.map(({ x: e, y: n, text: r, angle: i, anchor: a, tone: o }) => Rn(r, {
		"text-anchor": a,
		"dominant-baseline": "central",
		fill: t[o],
		...i ? { transform: `translate(${F(e)} ${F(n)}) rotate(${i})` } : {
			x: e,
			y: n
		}
	})).join("");
}
function Vn(e, t, n, r) {
	let { view: i, margins: a, look: o } = e, { width: s, height: c } = fn(e), l = pe(o.dark), { x0: u, x1: d, y0: f, y1: p } = N(i), [m, h] = Pn(e, n), g = In(e), _ = St(i, a, e.queries, e.keys, e.cross, r), v = {
		x: u,
		y: f,
		width: d - u,
		height: p - f
	}, y = [
		Hn(e, t),
		Wt(i) ? zn(hn(i), l.grid) : "",
		Wn(e, t, r)
	];
	y.push(Gn(e, l));
	for (let [t, n, r, i] of Cn(e)) y.push(I("rect", {
		x: t,
		y: n,
		width: r,
		height: i,
		fill: "none",
		stroke: l.accent,
		"stroke-width": 1.5
	}));
	let b = [
		I("title", {}, Ln(`${m} · ${h}`)),
		I("defs", {}, I("clipPath", { id: "plot" }, I("rect", v)) + Kn(e)),
		I("rect", {
			x: -10,
			y: -56,
			width: s + 20,
			height: c + jn + 20,
			fill: l.surface
		}),
		Rn(m, {
			x: g,
			y: -28,
			fill: l.ink,
			"font-size": 16,
			"font-weight": 600
		}),
		Rn(h, {
			x: g,
			y: -10,
			fill: l.soft,
			"font-size": 12
		}),
		I("g", { transform: `translate(${a.left} ${a.top})` }, I("g", { "clip-path": "url(#plot)" }, y.join("")) + I("rect", {
			...v,
			fill: "none",
			stroke: l.line
		})),
		zn(_.ticks, l.line),
		Bn(_.marks, l),
		qn(e, l, r)
	];
	return `${I("svg", {
		xmlns: "http://www.w3.org/2000/svg",
		width: s + 20,
		height: c + jn + 20,
		viewBox: `-10 -56 ${F(s + 20)} ${F(c + jn + 20)}`,
		"font-family": un,
		"font-size": 11
	}, b.join(""))}\n`;
}
function Hn(e, t) {
	let { view: n, z: r } = e, { i0: i, i1: a, j0: o, j1: s } = D(n), c = 2 ** r;
	if ((Math.ceil(a / c) - Math.floor(i / c)) * (Math.ceil(s / c) - Math.floor(o / c)) > Nn) return Un(e);
	let l = [];
	for (let u = Math.floor(i / c) * c; u < a; u += c) for (let i = Math.floor(o / c) * c; i < s; i += c) {
		let a = Lt(t, e.shown, n, r, u, i);
		a && l.push(I("rect", {
			x: n.x + i * n.kx,
			y: n.y + u * n.ky,
			width: Math.min(c, n.S - i) * n.kx,
			height: Math.min(c, n.T - u) * n.ky,
			fill: T(zt(a.p, e.look))
		}));
	}
	return I("g", { "shape-rendering": "crispEdges" }, l.join(""));
}
function Un({ view: e, pieces: t, look: n }) {
	let r = document.createElement("canvas");
	r.width = Math.round(e.width * P), r.height = Math.round(e.height * P);
	let i = r.getContext("2d");
	return i ? (i.scale(P, P), new Vt().draw(i, e, t, n, P, 1e400), I("image", {
		x: 0,
		y: 0,
		width: e.width,
		height: e.height,
		preserveAspectRatio: "none",
		href: r.toDataURL("image/png")
	})) : "";
}
function Wn(e, t, n) {
	return e.z !== 0 || !Gt(e.view) ? "" : gn(e, t, n).map(({ x: e, y: t, text: n, ink: r }) => Rn(n, {
		x: e,
		y: t,
		"text-anchor": "middle",
		"dominant-baseline": "central",
		fill: r
	})).join("");
}
function Gn(e, t) {
	let n = Qt(e.view, e.band), r = yn(e);
	if (!n.length && !r) return "";
	let i = (e) => e.map(([e, t], n) => `${n ? "L" : "M"}${F(e)} ${F(t)}`).join(""), a = n.map(({ hidden: e }) => `${i(e)}Z`).join("");
	r && (a += `M${F(r[0])} ${F(r[1])}h${F(r[2])}v${F(r[3])}h${F(-r[2])}Z`);
	let o = n.map(({ line: e }) => i(e)).join("");
	return I("clipPath", { id: "hidden" }, I("path", { d: a })) + I("path", {
		d: a,
		fill: t.veil
	}) + I("g", { "clip-path": "url(#hidden)" }, zn(vn(e.view), t.hatch)) + (o && I("path", {
		d: o,
		fill: "none",
		stroke: t.line
	}));
}
function Kn({ look: e }) {
	let t = be(e.dark, e.diverging);
	return I("linearGradient", {
		id: "bar",
		x1: 0,
		x2: 0,
		y1: 1,
		y2: 0
	}, Array.from({ length: 33 }, (e, n) => I("stop", {
		offset: n / 32,
		"stop-color": T(t[Math.round(n / 32 * (t.length - 1))])
	})).join(""));
}
function qn(e, t, n) {
	let r = Dt(e.view, e.margins, e.look, e.says, n), { x: i, y: a, width: o, height: s } = r;
	return I("rect", {
		x: i,
		y: a,
		width: o,
		height: s,
		fill: "url(#bar)",
		stroke: t.line
	}) + zn(r.ticks, t.line) + Bn(r.marks, t);
}
// src/map.css?inline
var Jn = ".map-stage{width:100%;min-height:160px;position:relative}.map-canvas{width:100%;height:100%;display:block;position:absolute;inset:0}.map-plot{cursor:crosshair;touch-action:none;-webkit-user-select:none;user-select:none;border-radius:2px;position:absolute}.map-plot:focus-visible{outline:2px solid #0000}.map-plot.held{cursor:grabbing}.map-box{background:color-mix(in srgb, currentColor 12%, transparent);pointer-events:none;border:1.5px dashed;position:absolute}.map-badge{pointer-events:none;background:var(--card,Canvas);max-width:60%;color:var(--soft,CanvasText);border:1px solid var(--line,GrayText);overflow-wrap:anywhere;border-radius:6px;padding:2px 8px;font-size:11px;line-height:1.5;position:absolute}.map-foot{justify-content:space-between;align-items:flex-start;gap:12px;margin-top:6px;display:flex}.map-foot output{overflow-wrap:anywhere;font-variant-numeric:tabular-nums;flex:1;min-width:0;min-height:3em;font-size:12px;line-height:1.5}.map-foot output b{font-weight:650}.map-foot output .soft{color:var(--soft,inherit)}.map-tools{flex:none;gap:4px;display:flex}.map-tools button{min-width:28px;height:28px;font:inherit;color:inherit;cursor:pointer;border:1px solid var(--line,GrayText);background:0 0;border-radius:7px;padding:0 8px;font-size:12px;line-height:1}.map-tools button:hover{border-color:var(--soft,currentColor)}.map-tools button[aria-pressed=true]{background:var(--accent,#0b62b8);border-color:var(--accent,#0b62b8);color:var(--on-accent,#fff)}.map-tools button:focus-visible{outline:2px solid var(--accent,#0b62b8);outline-offset:2px}", Yn = "Arrow keys pan. Shift and arrow keys move the crosshair. Plus and minus zoom, 0 shows the whole. Enter selects the cell under the crosshair. b starts a box, Enter zooms to it.", Xn = null;
function Zn(e) {
	let t = e.getRootNode();
	t.adoptedStyleSheets && (Xn || (Xn = new CSSStyleSheet(), Xn.replaceSync(Jn)), t.adoptedStyleSheets.includes(Xn) || (t.adoptedStyleSheets = [...t.adoptedStyleSheets, Xn]));
}
function L(e, t = "") {
	let n = document.createElement(e);
	return t && (n.className = t), n;
}
function Qn(e, t) {
	let n = L("button");
	return n.type = "button", n.textContent = e, n.title = t, n.setAttribute("aria-label", t), n;
}
function $n(e) {
	Zn(e);
	let t = L("div", "map-stage"), n = L("canvas", "map-canvas");
	n.setAttribute("aria-hidden", "true");
	let r = L("div", "map-plot");
	r.tabIndex = 0, r.setAttribute("role", "application"), r.setAttribute("aria-roledescription", "attention map"), r.setAttribute("aria-description", Yn);
	let i = L("div", "map-box");
	i.hidden = !0, r.append(i);
	let a = L("div", "map-badge");
	a.hidden = !0, t.append(n, r, a);
	let o = L("div", "map-foot"), s = L("output"), c = {
		in: Qn("+", "Zoom in"),
		out: Qn("−", "Zoom out"),
		whole: Qn("Whole", "Whole pattern"),
		box: Qn("Box", "Box: drag over the part to zoom to")
	};
	c.box.setAttribute("aria-pressed", "false");
	let l = L("div", "map-tools");
	return l.setAttribute("role", "group"), l.setAttribute("aria-label", "Zoom"), l.append(c.out, c.in, c.whole, c.box), o.append(s, l), e.replaceChildren(t, o), {
		stage: t,
		canvas: n,
		plot: r,
		box: i,
		badge: a,
		output: s,
		tools: c
	};
}
function er(e, t) {
	e.replaceChildren(...t.map(({ kind: e, text: t }) => {
		let n = L(e === "number" ? "b" : e === "token" ? "bdi" : "span", e === "words" ? "soft" : "");
		return n.textContent = e === "token" && t.length > 80 ? `${t.slice(0, 80)}…` : t, n;
	}));
}
function tr(e, t, n) {
	if (e.hidden = !n, !n) return;
	let { from: r, to: i } = n, a = (t, n) => e.style[t] = `${n}px`;
	a("left", t.x + Math.min(r[1], i[1]) * t.kx), a("top", t.y + Math.min(r[0], i[0]) * t.ky), a("width", (Math.abs(r[1] - i[1]) + 1) * t.kx), a("height", (Math.abs(r[0] - i[0]) + 1) * t.ky);
}
// node_modules/d3-selection/dist/d3-selection.mjs
var nr = "http://www.w3.org/1999/xhtml", rr = {
	svg: "http://www.w3.org/2000/svg",
	xhtml: nr,
	xlink: "http://www.w3.org/1999/xlink",
	xml: "http://www.w3.org/XML/1998/namespace",
	xmlns: "http://www.w3.org/2000/xmlns/"
};
function ir(e) {
	var t = e += "", n = t.indexOf(":");
	return n >= 0 && (t = e.slice(0, n)) !== "xmlns" && (e = e.slice(n + 1)), rr.hasOwnProperty(t) ? {
		space: rr[t],
		local: e
	} : e;
}
function ar(e) {
	return function() {
		var t = this.ownerDocument, n = this.namespaceURI;
		return n === nr && t.documentElement.namespaceURI === nr ? t.createElement(e) : t.createElementNS(n, e);
	};
}
function or(e) {
	return function() {
		return this.ownerDocument.createElementNS(e.space, e.local);
	};
}
function sr(e) {
	var t = ir(e);
	return (t.local ? or : ar)(t);
}
function cr() {}
function lr(e) {
	return e == null ? cr : function() {
		return this.querySelector(e);
	};
}
function ur(e) {
	typeof e != "function" && (e = lr(e));
	for (var t = this._groups, n = t.length, r = Array(n), i = 0; i < n; ++i) for (var a = t[i], o = a.length, s = r[i] = Array(o), c, l, u = 0; u < o; ++u) (c = a[u]) && (l = e.call(c, c.__data__, u, a)) && ("__data__" in c && (l.__data__ = c.__data__), s[u] = l);
	return new R(r, this._parents);
}
function dr(e) {
	return e == null ? [] : Array.isArray(e) ? e : Array.from(e);
}
function fr() {
	return [];
}
function pr(e) {
	return e == null ? fr : function() {
		return this.querySelectorAll(e);
	};
}
function mr(e) {
	return function() {
		return dr(e.apply(this, arguments));
	};
}
function hr(e) {
	e = typeof e == "function" ? mr(e) : pr(e);
	for (var t = this._groups, n = t.length, r = [], i = [], a = 0; a < n; ++a) for (var o = t[a], s = o.length, c, l = 0; l < s; ++l) (c = o[l]) && (r.push(e.call(c, c.__data__, l, o)), i.push(c));
	return new R(r, i);
}
function gr(e) {
	return function() {
		return this.matches(e);
	};
}
function _r(e) {
	return function(t) {
		return t.matches(e);
	};
}
var vr = Array.prototype.find;
function yr(e) {
	return function() {
		return vr.call(this.children, e);
	};
}
function br() {
	return this.firstElementChild;
}
function xr(e) {
	return this.select(e == null ? br : yr(typeof e == "function" ? e : _r(e)));
}
var Sr = Array.prototype.filter;
function Cr() {
	return Array.from(this.children);
}
function wr(e) {
	return function() {
		return Sr.call(this.children, e);
	};
}
function Tr(e) {
	return this.selectAll(e == null ? Cr : wr(typeof e == "function" ? e : _r(e)));
}
function Er(e) {
	typeof e != "function" && (e = gr(e));
	for (var t = this._groups, n = t.length, r = Array(n), i = 0; i < n; ++i) for (var a = t[i], o = a.length, s = r[i] = [], c, l = 0; l < o; ++l) (c = a[l]) && e.call(c, c.__data__, l, a) && s.push(c);
	return new R(r, this._parents);
}
function Dr(e) {
	return Array(e.length);
}
function Or() {
	return new R(this._enter || this._groups.map(Dr), this._parents);
}
function kr(e, t) {
	this.ownerDocument = e.ownerDocument, this.namespaceURI = e.namespaceURI, this._next = null, this._parent = e, this.__data__ = t;
}
kr.prototype = {
	constructor: kr,
	appendChild: function(e) {
		return this._parent.insertBefore(e, this._next);
	},
	insertBefore: function(e, t) {
		return this._parent.insertBefore(e, t);
	},
	querySelector: function(e) {
		return this._parent.querySelector(e);
	},
	querySelectorAll: function(e) {
		return this._parent.querySelectorAll(e);
	}
};
function Ar(e) {
	return function() {
		return e;
	};
}
function jr(e, t, n, r, i, a) {
	for (var o = 0, s, c = t.length, l = a.length; o < l; ++o) (s = t[o]) ? (s.__data__ = a[o], r[o] = s) : n[o] = new kr(e, a[o]);
	for (; o < c; ++o) (s = t[o]) && (i[o] = s);
}
function Mr(e, t, n, r, i, a, o) {
	var s, c, l = /* @__PURE__ */ new Map(), u = t.length, d = a.length, f = Array(u), p;
	for (s = 0; s < u; ++s) (c = t[s]) && (f[s] = p = o.call(c, c.__data__, s, t) + "", l.has(p) ? i[s] = c : l.set(p, c));
	for (s = 0; s < d; ++s) p = o.call(e, a[s], s, a) + "", (c = l.get(p)) ? (r[s] = c, c.__data__ = a[s], l.delete(p)) : n[s] = new kr(e, a[s]);
	for (s = 0; s < u; ++s) (c = t[s]) && l.get(f[s]) === c && (i[s] = c);
}
function Nr(e) {
	return e.__data__;
}
function Pr(e, t) {
	if (!arguments.length) return Array.from(this, Nr);
	var n = t ? Mr : jr, r = this._parents, i = this._groups;
	typeof e != "function" && (e = Ar(e));
	for (var a = i.length, o = Array(a), s = Array(a), c = Array(a), l = 0; l < a; ++l) {
		var u = r[l], d = i[l], f = d.length, p = Fr(e.call(u, u && u.__data__, l, r)), m = p.length, h = s[l] = Array(m), g = o[l] = Array(m);
		n(u, d, h, g, c[l] = Array(f), p, t);
		for (var _ = 0, v = 0, y, b; _ < m; ++_) if (y = h[_]) {
			for (_ >= v && (v = _ + 1); !(b = g[v]) && ++v < m;);
			y._next = b || null;
		}
	}
	return o = new R(o, r), o._enter = s, o._exit = c, o;
}
function Fr(e) {
	return typeof e == "object" && "length" in e ? e : Array.from(e);
}
function Ir() {
	return new R(this._exit || this._groups.map(Dr), this._parents);
}
function Lr(e, t, n) {
	var r = this.enter(), i = this, a = this.exit();
	return typeof e == "function" ? (r = e(r), r &&= r.selection()) : r = r.append(e + ""), t != null && (i = t(i), i &&= i.selection()), n == null ? a.remove() : n(a), r && i ? r.merge(i).order() : i;
}
function Rr(e) {
	for (var t = e.selection ? e.selection() : e, n = this._groups, r = t._groups, i = n.length, a = r.length, o = Math.min(i, a), s = Array(i), c = 0; c < o; ++c) for (var l = n[c], u = r[c], d = l.length, f = s[c] = Array(d), p, m = 0; m < d; ++m) (p = l[m] || u[m]) && (f[m] = p);
	for (; c < i; ++c) s[c] = n[c];
	return new R(s, this._parents);
}
function zr() {
	for (var e = this._groups, t = -1, n = e.length; ++t < n;) for (var r = e[t], i = r.length - 1, a = r[i], o; --i >= 0;) (o = r[i]) && (a && o.compareDocumentPosition(a) ^ 4 && a.parentNode.insertBefore(o, a), a = o);
	return this;
}
function Br(e) {
	e ||= Vr;
	function t(t, n) {
		return t && n ? e(t.__data__, n.__data__) : !t - !n;
	}
	for (var n = this._groups, r = n.length, i = Array(r), a = 0; a < r; ++a) {
		for (var o = n[a], s = o.length, c = i[a] = Array(s), l, u = 0; u < s; ++u) (l = o[u]) && (c[u] = l);
		c.sort(t);
	}
	return new R(i, this._parents).order();
}
function Vr(e, t) {
	return e < t ? -1 : e > t ? 1 : e >= t ? 0 : NaN;
}
function Hr() {
	var e = arguments[0];
	return arguments[0] = this, e.apply(null, arguments), this;
}
function Ur() {
	return Array.from(this);
}
function Wr() {
	for (var e = this._groups, t = 0, n = e.length; t < n; ++t) for (var r = e[t], i = 0, a = r.length; i < a; ++i) {
		var o = r[i];
		if (o) return o;
	}
	return null;
}
function Gr() {
	let e = 0;
	for (let t of this) ++e;
	return e;
}
function Kr() {
	return !this.node();
}
function qr(e) {
	for (var t = this._groups, n = 0, r = t.length; n < r; ++n) for (var i = t[n], a = 0, o = i.length, s; a < o; ++a) (s = i[a]) && e.call(s, s.__data__, a, i);
	return this;
}
function Jr(e) {
	return function() {
		this.removeAttribute(e);
	};
}
function Yr(e) {
	return function() {
		this.removeAttributeNS(e.space, e.local);
	};
}
function Xr(e, t) {
	return function() {
		this.setAttribute(e, t);
	};
}
function Zr(e, t) {
	return function() {
		this.setAttributeNS(e.space, e.local, t);
	};
}
function Qr(e, t) {
	return function() {
		var n = t.apply(this, arguments);
		n == null ? this.removeAttribute(e) : this.setAttribute(e, n);
	};
}
function $r(e, t) {
	return function() {
		var n = t.apply(this, arguments);
		n == null ? this.removeAttributeNS(e.space, e.local) : this.setAttributeNS(e.space, e.local, n);
	};
}
function ei(e, t) {
	var n = ir(e);
	if (arguments.length < 2) {
		var r = this.node();
		return n.local ? r.getAttributeNS(n.space, n.local) : r.getAttribute(n);
	}
	return this.each((t == null ? n.local ? Yr : Jr : typeof t == "function" ? n.local ? $r : Qr : n.local ? Zr : Xr)(n, t));
}
function ti(e) {
	return e.ownerDocument && e.ownerDocument.defaultView || e.document && e || e.defaultView;
}
function ni(e) {
	return function() {
		this.style.removeProperty(e);
	};
}
function ri(e, t, n) {
	return function() {
		this.style.setProperty(e, t, n);
	};
}
function ii(e, t, n) {
	return function() {
		var r = t.apply(this, arguments);
		r == null ? this.style.removeProperty(e) : this.style.setProperty(e, r, n);
	};
}
function ai(e, t, n) {
	return arguments.length > 1 ? this.each((t == null ? ni : typeof t == "function" ? ii : ri)(e, t, n ?? "")) : oi(this.node(), e);
}
function oi(e, t) {
	return e.style.getPropertyValue(t) || ti(e).getComputedStyle(e, null).getPropertyValue(t);
}
function si(e) {
	return function() {
		delete this[e];
	};
}
function ci(e, t) {
	return function() {
		this[e] = t;
	};
}
function li(e, t) {
	return function() {
		var n = t.apply(this, arguments);
		n == null ? delete this[e] : this[e] = n;
	};
}
function ui(e, t) {
	return arguments.length > 1 ? this.each((t == null ? si : typeof t == "function" ? li : ci)(e, t)) : this.node()[e];
}
function di(e) {
	return e.trim().split(/^|\s+/);
}
function fi(e) {
	return e.classList || new pi(e);
}
function pi(e) {
	this._node = e, this._names = di(e.getAttribute("class") || "");
}
pi.prototype = {
	add: function(e) {
		this._names.indexOf(e) < 0 && (this._names.push(e), this._node.setAttribute("class", this._names.join(" ")));
	},
	remove: function(e) {
		var t = this._names.indexOf(e);
		t >= 0 && (this._names.splice(t, 1), this._node.setAttribute("class", this._names.join(" ")));
	},
	contains: function(e) {
		return this._names.indexOf(e) >= 0;
	}
};
function mi(e, t) {
	for (var n = fi(e), r = -1, i = t.length; ++r < i;) n.add(t[r]);
}
function hi(e, t) {
	for (var n = fi(e), r = -1, i = t.length; ++r < i;) n.remove(t[r]);
}
function gi(e) {
	return function() {
		mi(this, e);
	};
}
function _i(e) {
	return function() {
		hi(this, e);
	};
}
function vi(e, t) {
	return function() {
		(t.apply(this, arguments) ? mi : hi)(this, e);
	};
}
function yi(e, t) {
	var n = di(e + "");
	if (arguments.length < 2) {
		for (var r = fi(this.node()), i = -1, a = n.length; ++i < a;) if (!r.contains(n[i])) return !1;
		return !0;
	}
	return this.each((typeof t == "function" ? vi : t ? gi : _i)(n, t));
}
function bi() {
	this.textContent = "";
}
function xi(e) {
	return function() {
		this.textContent = e;
	};
}
function Si(e) {
	return function() {
		var t = e.apply(this, arguments);
		this.textContent = t ?? "";
	};
}
function Ci(e) {
	return arguments.length ? this.each(e == null ? bi : (typeof e == "function" ? Si : xi)(e)) : this.node().textContent;
}
function wi() {
	this.innerHTML = "";
}
function Ti(e) {
	return function() {
		this.innerHTML = e;
	};
}
function Ei(e) {
	return function() {
		var t = e.apply(this, arguments);
		this.innerHTML = t ?? "";
	};
}
function Di(e) {
	return arguments.length ? this.each(e == null ? wi : (typeof e == "function" ? Ei : Ti)(e)) : this.node().innerHTML;
}
function Oi() {
	this.nextSibling && this.parentNode.appendChild(this);
}
function ki() {
	return this.each(Oi);
}
function Ai() {
	this.previousSibling && this.parentNode.insertBefore(this, this.parentNode.firstChild);
}
function ji() {
	return this.each(Ai);
}
function Mi(e) {
	var t = typeof e == "function" ? e : sr(e);
	return this.select(function() {
		return this.appendChild(t.apply(this, arguments));
	});
}
function Ni() {
	return null;
}
function Pi(e, t) {
	var n = typeof e == "function" ? e : sr(e), r = t == null ? Ni : typeof t == "function" ? t : lr(t);
	return this.select(function() {
		return this.insertBefore(n.apply(this, arguments), r.apply(this, arguments) || null);
	});
}
function Fi() {
	var e = this.parentNode;
	e && e.removeChild(this);
}
function Ii() {
	return this.each(Fi);
}
function Li() {
	var e = this.cloneNode(!1), t = this.parentNode;
	return t ? t.insertBefore(e, this.nextSibling) : e;
}
function Ri() {
	var e = this.cloneNode(!0), t = this.parentNode;
	return t ? t.insertBefore(e, this.nextSibling) : e;
}
function zi(e) {
	return this.select(e ? Ri : Li);
}
function Bi(e) {
	return arguments.length ? this.property("__data__", e) : this.node().__data__;
}
function Vi(e) {
	return function(t) {
		e.call(this, t, this.__data__);
	};
}
function Hi(e) {
	return e.trim().split(/^|\s+/).map(function(e) {
		var t = "", n = e.indexOf(".");
		return n >= 0 && (t = e.slice(n + 1), e = e.slice(0, n)), {
			type: e,
			name: t
		};
	});
}
function Ui(e) {
	return function() {
		var t = this.__on;
		if (t) {
			for (var n = 0, r = -1, i = t.length, a; n < i; ++n) a = t[n], (!e.type || a.type === e.type) && a.name === e.name ? this.removeEventListener(a.type, a.listener, a.options) : t[++r] = a;
			++r ? t.length = r : delete this.__on;
		}
	};
}
function Wi(e, t, n) {
	return function() {
		var r = this.__on, i, a = Vi(t);
		if (r) {
			for (var o = 0, s = r.length; o < s; ++o) if ((i = r[o]).type === e.type && i.name === e.name) {
				this.removeEventListener(i.type, i.listener, i.options), this.addEventListener(i.type, i.listener = a, i.options = n), i.value = t;
				return;
			}
		}
		this.addEventListener(e.type, a, n), i = {
			type: e.type,
			name: e.name,
			value: t,
			listener: a,
			options: n
		}, r ? r.push(i) : this.__on = [i];
	};
}
function Gi(e, t, n) {
	var r = Hi(e + ""), i, a = r.length, o;
	if (arguments.length < 2) {
		var s = this.node().__on;
		if (s) {
			for (var c = 0, l = s.length, u; c < l; ++c) for (i = 0, u = s[c]; i < a; ++i) if ((o = r[i]).type === u.type && o.name === u.name) return u.value;
		}
	} else {
		for (s = t ? Wi : Ui, i = 0; i < a; ++i) this.each(s(r[i], t, n));
		return this;
	}
}
function Ki(e, t, n) {
	var r = ti(e), i = r.CustomEvent;
	typeof i == "function" ? i = new i(t, n) : (i = r.document.createEvent("Event"), n ? (i.initEvent(t, n.bubbles, n.cancelable), i.detail = n.detail) : i.initEvent(t, !1, !1)), e.dispatchEvent(i);
}
function qi(e, t) {
	return function() {
		return Ki(this, e, t);
	};
}
function Ji(e, t) {
	return function() {
		return Ki(this, e, t.apply(this, arguments));
	};
}
function Yi(e, t) {
	return this.each((typeof t == "function" ? Ji : qi)(e, t));
}
function* Xi() {
	for (var e = this._groups, t = 0, n = e.length; t < n; ++t) for (var r = e[t], i = 0, a = r.length, o; i < a; ++i) (o = r[i]) && (yield o);
}
var Zi = [null];
function R(e, t) {
	this._groups = e, this._parents = t;
}
function Qi() {
	return new R([[document.documentElement]], Zi);
}
function $i() {
	return this;
}
R.prototype = Qi.prototype = {
	constructor: R,
	select: ur,
	selectAll: hr,
	selectChild: xr,
	selectChildren: Tr,
	filter: Er,
	data: Pr,
	enter: Or,
	exit: Ir,
	join: Lr,
	merge: Rr,
	selection: $i,
	order: zr,
	sort: Br,
	call: Hr,
	nodes: Ur,
	node: Wr,
	size: Gr,
	empty: Kr,
	each: qr,
	attr: ei,
	style: ai,
	property: ui,
	classed: yi,
	text: Ci,
	html: Di,
	raise: ki,
	lower: ji,
	append: Mi,
	insert: Pi,
	remove: Ii,
	clone: zi,
	datum: Bi,
	on: Gi,
	dispatch: Yi,
	[Symbol.iterator]: Xi
};
function z(e) {
	return typeof e == "string" ? new R([[document.querySelector(e)]], [document.documentElement]) : new R([[e]], Zi);
}
var ea = 0;
function ta() {
	return new na();
}
function na() {
	this._ = "@" + (++ea).toString(36);
}
na.prototype = ta.prototype = {
	constructor: na,
	get: function(e) {
		for (var t = this._; !(t in e);) if (!(e = e.parentNode)) return;
		return e[t];
	},
	set: function(e, t) {
		return e[this._] = t;
	},
	remove: function(e) {
		return this._ in e && delete e[this._];
	},
	toString: function() {
		return this._;
	}
};
function ra(e) {
	let t;
	for (; t = e.sourceEvent;) e = t;
	return e;
}
function ia(e, t) {
	if (e = ra(e), t === void 0 && (t = e.currentTarget), t) {
		var n = t.ownerSVGElement || t;
		if (n.createSVGPoint) {
			var r = n.createSVGPoint();
			return r.x = e.clientX, r.y = e.clientY, r = r.matrixTransform(t.getScreenCTM().inverse()), [r.x, r.y];
		}
		if (t.getBoundingClientRect) {
			var i = t.getBoundingClientRect();
			return [e.clientX - i.left - t.clientLeft, e.clientY - i.top - t.clientTop];
		}
	}
	return [e.pageX, e.pageY];
}
// node_modules/d3-dispatch/dist/d3-dispatch.mjs
var aa = { value: () => {} };
function oa() {
	for (var e = 0, t = arguments.length, n = {}, r; e < t; ++e) {
		if (!(r = arguments[e] + "") || r in n || /[\s.]/.test(r)) throw Error("illegal type: " + r);
		n[r] = [];
	}
	return new sa(n);
}
function sa(e) {
	this._ = e;
}
function ca(e, t) {
	return e.trim().split(/^|\s+/).map(function(e) {
		var n = "", r = e.indexOf(".");
		if (r >= 0 && (n = e.slice(r + 1), e = e.slice(0, r)), e && !t.hasOwnProperty(e)) throw Error("unknown type: " + e);
		return {
			type: e,
			name: n
		};
	});
}
sa.prototype = oa.prototype = {
	constructor: sa,
	on: function(e, t) {
		var n = this._, r = ca(e + "", n), i, a = -1, o = r.length;
		if (arguments.length < 2) {
			for (; ++a < o;) if ((i = (e = r[a]).type) && (i = la(n[i], e.name))) return i;
		} else {
			if (t != null && typeof t != "function") throw Error("invalid callback: " + t);
			for (; ++a < o;) if (i = (e = r[a]).type) n[i] = ua(n[i], e.name, t);
			else if (t == null) for (i in n) n[i] = ua(n[i], e.name, null);
			return this;
		}
	},
	copy: function() {
		var e = {}, t = this._;
		for (var n in t) e[n] = t[n].slice();
		return new sa(e);
	},
	call: function(e, t) {
		if ((i = arguments.length - 2) > 0) for (var n = Array(i), r = 0, i, a; r < i; ++r) n[r] = arguments[r + 2];
		if (!this._.hasOwnProperty(e)) throw Error("unknown type: " + e);
		for (a = this._[e], r = 0, i = a.length; r < i; ++r) a[r].value.apply(t, n);
	},
	apply: function(e, t, n) {
		if (!this._.hasOwnProperty(e)) throw Error("unknown type: " + e);
		for (var r = this._[e], i = 0, a = r.length; i < a; ++i) r[i].value.apply(t, n);
	}
};
function la(e, t) {
	for (var n = 0, r = e.length, i; n < r; ++n) if ((i = e[n]).name === t) return i.value;
}
function ua(e, t, n) {
	for (var r = 0, i = e.length; r < i; ++r) if (e[r].name === t) {
		e[r] = aa, e = e.slice(0, r).concat(e.slice(r + 1));
		break;
	}
	return n != null && e.push({
		name: t,
		value: n
	}), e;
}
// node_modules/d3-drag/dist/d3-drag.mjs
var da = {
	capture: !0,
	passive: !1
};
function fa(e) {
	e.preventDefault(), e.stopImmediatePropagation();
}
function pa(e) {
	var t = e.document.documentElement, n = z(e).on("dragstart.drag", fa, da);
	"onselectstart" in t ? n.on("selectstart.drag", fa, da) : (t.__noselect = t.style.MozUserSelect, t.style.MozUserSelect = "none");
}
function ma(e, t) {
	var n = e.document.documentElement, r = z(e).on("dragstart.drag", null);
	t && (r.on("click.drag", fa, da), setTimeout(function() {
		r.on("click.drag", null);
	}, 0)), "onselectstart" in n ? r.on("selectstart.drag", null) : (n.style.MozUserSelect = n.__noselect, delete n.__noselect);
}
function ha(e, { sourceEvent: t, subject: n, target: r, identifier: i, active: a, x: o, y: s, dx: c, dy: l, dispatch: u }) {
	Object.defineProperties(this, {
		type: {
			value: e,
			enumerable: !0,
			configurable: !0
		},
		sourceEvent: {
			value: t,
			enumerable: !0,
			configurable: !0
		},
		subject: {
			value: n,
			enumerable: !0,
			configurable: !0
		},
		target: {
			value: r,
			enumerable: !0,
			configurable: !0
		},
		identifier: {
			value: i,
			enumerable: !0,
			configurable: !0
		},
		active: {
			value: a,
			enumerable: !0,
			configurable: !0
		},
		x: {
			value: o,
			enumerable: !0,
			configurable: !0
		},
		y: {
			value: s,
			enumerable: !0,
			configurable: !0
		},
		dx: {
			value: c,
			enumerable: !0,
			configurable: !0
		},
		dy: {
			value: l,
			enumerable: !0,
			configurable: !0
		},
		_: { value: u }
	});
}
ha.prototype.on = function() {
	var e = this._.on.apply(this._, arguments);
	return e === this._ ? this : e;
};
// node_modules/d3-color/dist/d3-color.mjs
function ga(e, t, n) {
	e.prototype = t.prototype = n, n.constructor = e;
}
function _a(e, t) {
	var n = Object.create(e.prototype);
	for (var r in t) n[r] = t[r];
	return n;
}
function B() {}
var va = .7, ya = 1 / va, ba = "\\s*([+-]?\\d+)\\s*", xa = "\\s*([+-]?(?:\\d*\\.)?\\d+(?:[eE][+-]?\\d+)?)\\s*", V = "\\s*([+-]?(?:\\d*\\.)?\\d+(?:[eE][+-]?\\d+)?)%\\s*", Sa = /^#([0-9a-f]{3,8})$/, Ca = RegExp(`^rgb\\(${ba},${ba},${ba}\\)$`), wa = RegExp(`^rgb\\(${V},${V},${V}\\)$`), Ta = RegExp(`^rgba\\(${ba},${ba},${ba},${xa}\\)$`), Ea = RegExp(`^rgba\\(${V},${V},${V},${xa}\\)$`), Da = RegExp(`^hsl\\(${xa},${V},${V}\\)$`), Oa = RegExp(`^hsla\\(${xa},${V},${V},${xa}\\)$`), ka = {
	aliceblue: 0xf0f8ff,
	antiquewhite: 0xfaebd7,
	aqua: 65535,
	aquamarine: 8388564,
	azure: 0xf0ffff,
	beige: 0xf5f5dc,
	bisque: 0xffe4c4,
	black: 0,
	blanchedalmond: 0xffebcd,
	blue: 255,
	blueviolet: 9055202,
	brown: 0xa52a2a,
	burlywood: 0xdeb887,
	cadetblue: 6266528,
	chartreuse: 8388352,
	chocolate: 0xd2691e,
	coral: 0xff7f50,
	cornflowerblue: 6591981,
	cornsilk: 0xfff8dc,
	crimson: 0xdc143c,
	cyan: 65535,
	darkblue: 139,
	darkcyan: 35723,
	darkgoldenrod: 0xb8860b,
	darkgray: 0xa9a9a9,
	darkgreen: 25600,
	darkgrey: 0xa9a9a9,
	darkkhaki: 0xbdb76b,
	darkmagenta: 9109643,
	darkolivegreen: 5597999,
	darkorange: 0xff8c00,
	darkorchid: 0x9932cc,
	darkred: 9109504,
	darksalmon: 0xe9967a,
	darkseagreen: 9419919,
	darkslateblue: 4734347,
	darkslategray: 3100495,
	darkslategrey: 3100495,
	darkturquoise: 52945,
	darkviolet: 9699539,
	deeppink: 0xff1493,
	deepskyblue: 49151,
	dimgray: 6908265,
	dimgrey: 6908265,
	dodgerblue: 2003199,
	firebrick: 0xb22222,
	floralwhite: 0xfffaf0,
	forestgreen: 2263842,
	fuchsia: 0xff00ff,
	gainsboro: 0xdcdcdc,
	ghostwhite: 0xf8f8ff,
	gold: 0xffd700,
	goldenrod: 0xdaa520,
	gray: 8421504,
	green: 32768,
	greenyellow: 0xadff2f,
	grey: 8421504,
	honeydew: 0xf0fff0,
	hotpink: 0xff69b4,
	indianred: 0xcd5c5c,
	indigo: 4915330,
	ivory: 0xfffff0,
	khaki: 0xf0e68c,
	lavender: 0xe6e6fa,
	lavenderblush: 0xfff0f5,
	lawngreen: 8190976,
	lemonchiffon: 0xfffacd,
	lightblue: 0xadd8e6,
	lightcoral: 0xf08080,
	lightcyan: 0xe0ffff,
	lightgoldenrodyellow: 0xfafad2,
	lightgray: 0xd3d3d3,
	lightgreen: 9498256,
	lightgrey: 0xd3d3d3,
	lightpink: 0xffb6c1,
	lightsalmon: 0xffa07a,
	lightseagreen: 2142890,
	lightskyblue: 8900346,
	lightslategray: 7833753,
	lightslategrey: 7833753,
	lightsteelblue: 0xb0c4de,
	lightyellow: 0xffffe0,
	lime: 65280,
	limegreen: 3329330,
	linen: 0xfaf0e6,
	magenta: 0xff00ff,
	maroon: 8388608,
	mediumaquamarine: 6737322,
	mediumblue: 205,
	mediumorchid: 0xba55d3,
	mediumpurple: 9662683,
	mediumseagreen: 3978097,
	mediumslateblue: 8087790,
	mediumspringgreen: 64154,
	mediumturquoise: 4772300,
	mediumvioletred: 0xc71585,
	midnightblue: 1644912,
	mintcream: 0xf5fffa,
	mistyrose: 0xffe4e1,
	moccasin: 0xffe4b5,
	navajowhite: 0xffdead,
	navy: 128,
	oldlace: 0xfdf5e6,
	olive: 8421376,
	olivedrab: 7048739,
	orange: 0xffa500,
	orangered: 0xff4500,
	orchid: 0xda70d6,
	palegoldenrod: 0xeee8aa,
	palegreen: 0x98fb98,
	paleturquoise: 0xafeeee,
	palevioletred: 0xdb7093,
	papayawhip: 0xffefd5,
	peachpuff: 0xffdab9,
	peru: 0xcd853f,
	pink: 0xffc0cb,
	plum: 0xdda0dd,
	powderblue: 0xb0e0e6,
	purple: 8388736,
	rebeccapurple: 6697881,
	red: 0xff0000,
	rosybrown: 0xbc8f8f,
	royalblue: 4286945,
	saddlebrown: 9127187,
	salmon: 0xfa8072,
	sandybrown: 0xf4a460,
	seagreen: 3050327,
	seashell: 0xfff5ee,
	sienna: 0xa0522d,
	silver: 0xc0c0c0,
	skyblue: 8900331,
	slateblue: 6970061,
	slategray: 7372944,
	slategrey: 7372944,
	snow: 0xfffafa,
	springgreen: 65407,
	steelblue: 4620980,
	tan: 0xd2b48c,
	teal: 32896,
	thistle: 0xd8bfd8,
	tomato: 0xff6347,
	turquoise: 4251856,
	violet: 0xee82ee,
	wheat: 0xf5deb3,
	white: 0xffffff,
	whitesmoke: 0xf5f5f5,
	yellow: 0xffff00,
	yellowgreen: 0x9acd32
};
ga(B, Pa, {
	copy(e) {
		return Object.assign(new this.constructor(), this, e);
	},
	displayable() {
		return this.rgb().displayable();
	},
	hex: Aa,
	formatHex: Aa,
	formatHex8: ja,
	formatHsl: Ma,
	formatRgb: Na,
	toString: Na
});
function Aa() {
	return this.rgb().formatHex();
}
function ja() {
	return this.rgb().formatHex8();
}
function Ma() {
	return Ka(this).formatHsl();
}
function Na() {
	return this.rgb().formatRgb();
}
function Pa(e) {
	var t, n;
	return e = (e + "").trim().toLowerCase(), (t = Sa.exec(e)) ? (n = t[1].length, t = parseInt(t[1], 16), n === 6 ? Fa(t) : n === 3 ? new H(t >> 8 & 15 | t >> 4 & 240, t >> 4 & 15 | t & 240, (t & 15) << 4 | t & 15, 1) : n === 8 ? Ia(t >> 24 & 255, t >> 16 & 255, t >> 8 & 255, (t & 255) / 255) : n === 4 ? Ia(t >> 12 & 15 | t >> 8 & 240, t >> 8 & 15 | t >> 4 & 240, t >> 4 & 15 | t & 240, ((t & 15) << 4 | t & 15) / 255) : null) : (t = Ca.exec(e)) ? new H(t[1], t[2], t[3], 1) : (t = wa.exec(e)) ? new H(t[1] * 255 / 100, t[2] * 255 / 100, t[3] * 255 / 100, 1) : (t = Ta.exec(e)) ? Ia(t[1], t[2], t[3], t[4]) : (t = Ea.exec(e)) ? Ia(t[1] * 255 / 100, t[2] * 255 / 100, t[3] * 255 / 100, t[4]) : (t = Da.exec(e)) ? Ga(t[1], t[2] / 100, t[3] / 100, 1) : (t = Oa.exec(e)) ? Ga(t[1], t[2] / 100, t[3] / 100, t[4]) : ka.hasOwnProperty(e) ? Fa(ka[e]) : e === "transparent" ? new H(NaN, NaN, NaN, 0) : null;
}
function Fa(e) {
	return new H(e >> 16 & 255, e >> 8 & 255, e & 255, 1);
}
function Ia(e, t, n, r) {
	return r <= 0 && (e = t = n = NaN), new H(e, t, n, r);
}
function La(e) {
	return e instanceof B || (e = Pa(e)), e ? (e = e.rgb(), new H(e.r, e.g, e.b, e.opacity)) : new H();
}
function Ra(e, t, n, r) {
	return arguments.length === 1 ? La(e) : new H(e, t, n, r ?? 1);
}
function H(e, t, n, r) {
	this.r = +e, this.g = +t, this.b = +n, this.opacity = +r;
}
ga(H, Ra, _a(B, {
	brighter(e) {
		return e = e == null ? ya : ya ** +e, new H(this.r * e, this.g * e, this.b * e, this.opacity);
	},
	darker(e) {
		return e = e == null ? va : va ** +e, new H(this.r * e, this.g * e, this.b * e, this.opacity);
	},
	rgb() {
		return this;
	},
	clamp() {
		return new H(Ua(this.r), Ua(this.g), Ua(this.b), Ha(this.opacity));
	},
	displayable() {
		return -.5 <= this.r && this.r < 255.5 && -.5 <= this.g && this.g < 255.5 && -.5 <= this.b && this.b < 255.5 && 0 <= this.opacity && this.opacity <= 1;
	},
	hex: za,
	formatHex: za,
	formatHex8: Ba,
	formatRgb: Va,
	toString: Va
}));
function za() {
	return `#${Wa(this.r)}${Wa(this.g)}${Wa(this.b)}`;
}
function Ba() {
	return `#${Wa(this.r)}${Wa(this.g)}${Wa(this.b)}${Wa((isNaN(this.opacity) ? 1 : this.opacity) * 255)}`;
}
function Va() {
	let e = Ha(this.opacity);
	return `${e === 1 ? "rgb(" : "rgba("}${Ua(this.r)}, ${Ua(this.g)}, ${Ua(this.b)}${e === 1 ? ")" : `, ${e})`}`;
}
function Ha(e) {
	return isNaN(e) ? 1 : Math.max(0, Math.min(1, e));
}
function Ua(e) {
	return Math.max(0, Math.min(255, Math.round(e) || 0));
}
function Wa(e) {
	return e = Ua(e), (e < 16 ? "0" : "") + e.toString(16);
}
function Ga(e, t, n, r) {
	return r <= 0 ? e = t = n = NaN : n <= 0 || n >= 1 ? e = t = NaN : t <= 0 && (e = NaN), new U(e, t, n, r);
}
function Ka(e) {
	if (e instanceof U) return new U(e.h, e.s, e.l, e.opacity);
	if (e instanceof B || (e = Pa(e)), !e) return new U();
	if (e instanceof U) return e;
	e = e.rgb();
	var t = e.r / 255, n = e.g / 255, r = e.b / 255, i = Math.min(t, n, r), a = Math.max(t, n, r), o = NaN, s = a - i, c = (a + i) / 2;
	return s ? (o = t === a ? (n - r) / s + (n < r) * 6 : n === a ? (r - t) / s + 2 : (t - n) / s + 4, s /= c < .5 ? a + i : 2 - a - i, o *= 60) : s = c > 0 && c < 1 ? 0 : o, new U(o, s, c, e.opacity);
}
function qa(e, t, n, r) {
	return arguments.length === 1 ? Ka(e) : new U(e, t, n, r ?? 1);
}
function U(e, t, n, r) {
	this.h = +e, this.s = +t, this.l = +n, this.opacity = +r;
}
ga(U, qa, _a(B, {
	brighter(e) {
		return e = e == null ? ya : ya ** +e, new U(this.h, this.s, this.l * e, this.opacity);
	},
	darker(e) {
		return e = e == null ? va : va ** +e, new U(this.h, this.s, this.l * e, this.opacity);
	},
	rgb() {
		var e = this.h % 360 + (this.h < 0) * 360, t = isNaN(e) || isNaN(this.s) ? 0 : this.s, n = this.l, r = n + (n < .5 ? n : 1 - n) * t, i = 2 * n - r;
		return new H(Xa(e >= 240 ? e - 240 : e + 120, i, r), Xa(e, i, r), Xa(e < 120 ? e + 240 : e - 120, i, r), this.opacity);
	},
	clamp() {
		return new U(Ja(this.h), Ya(this.s), Ya(this.l), Ha(this.opacity));
	},
	displayable() {
		return (0 <= this.s && this.s <= 1 || isNaN(this.s)) && 0 <= this.l && this.l <= 1 && 0 <= this.opacity && this.opacity <= 1;
	},
	formatHsl() {
		let e = Ha(this.opacity);
		return `${e === 1 ? "hsl(" : "hsla("}${Ja(this.h)}, ${Ya(this.s) * 100}%, ${Ya(this.l) * 100}%${e === 1 ? ")" : `, ${e})`}`;
	}
}));
function Ja(e) {
	return e = (e || 0) % 360, e < 0 ? e + 360 : e;
}
function Ya(e) {
	return Math.max(0, Math.min(1, e || 0));
}
function Xa(e, t, n) {
	return (e < 60 ? t + (n - t) * e / 60 : e < 180 ? n : e < 240 ? t + (n - t) * (240 - e) / 60 : t) * 255;
}
var Za = Math.PI / 180, Qa = 180 / Math.PI, $a = 18, eo = .96422, to = 1, no = .82521, ro = 4 / 29, io = 6 / 29, ao = 3 * io * io, oo = io * io * io;
function so(e) {
	if (e instanceof W) return new W(e.l, e.a, e.b, e.opacity);
	if (e instanceof G) return go(e);
	e instanceof H || (e = La(e));
	var t = po(e.r), n = po(e.g), r = po(e.b), i = lo((.2225045 * t + .7168786 * n + .0606169 * r) / to), a, o;
	return t === n && n === r ? a = o = i : (a = lo((.4360747 * t + .3850649 * n + .1430804 * r) / eo), o = lo((.0139322 * t + .0971045 * n + .7141733 * r) / no)), new W(116 * i - 16, 500 * (a - i), 200 * (i - o), e.opacity);
}
function co(e, t, n, r) {
	return arguments.length === 1 ? so(e) : new W(e, t, n, r ?? 1);
}
function W(e, t, n, r) {
	this.l = +e, this.a = +t, this.b = +n, this.opacity = +r;
}
ga(W, co, _a(B, {
	brighter(e) {
		return new W(this.l + $a * (e ?? 1), this.a, this.b, this.opacity);
	},
	darker(e) {
		return new W(this.l - $a * (e ?? 1), this.a, this.b, this.opacity);
	},
	rgb() {
		var e = (this.l + 16) / 116, t = isNaN(this.a) ? e : e + this.a / 500, n = isNaN(this.b) ? e : e - this.b / 200;
		return t = eo * uo(t), e = to * uo(e), n = no * uo(n), new H(fo(3.1338561 * t - 1.6168667 * e - .4906146 * n), fo(-.9787684 * t + 1.9161415 * e + .033454 * n), fo(.0719453 * t - .2289914 * e + 1.4052427 * n), this.opacity);
	}
}));
function lo(e) {
	return e > oo ? e ** (1 / 3) : e / ao + ro;
}
function uo(e) {
	return e > io ? e * e * e : ao * (e - ro);
}
function fo(e) {
	return 255 * (e <= .0031308 ? 12.92 * e : 1.055 * e ** (1 / 2.4) - .055);
}
function po(e) {
	return (e /= 255) <= .04045 ? e / 12.92 : ((e + .055) / 1.055) ** 2.4;
}
function mo(e) {
	if (e instanceof G) return new G(e.h, e.c, e.l, e.opacity);
	if (e instanceof W || (e = so(e)), e.a === 0 && e.b === 0) return new G(NaN, 0 < e.l && e.l < 100 ? 0 : NaN, e.l, e.opacity);
	var t = Math.atan2(e.b, e.a) * Qa;
	return new G(t < 0 ? t + 360 : t, Math.sqrt(e.a * e.a + e.b * e.b), e.l, e.opacity);
}
function ho(e, t, n, r) {
	return arguments.length === 1 ? mo(e) : new G(e, t, n, r ?? 1);
}
function G(e, t, n, r) {
	this.h = +e, this.c = +t, this.l = +n, this.opacity = +r;
}
function go(e) {
	if (isNaN(e.h)) return new W(e.l, 0, 0, e.opacity);
	var t = e.h * Za;
	return new W(e.l, Math.cos(t) * e.c, Math.sin(t) * e.c, e.opacity);
}
ga(G, ho, _a(B, {
	brighter(e) {
		return new G(this.h, this.c, this.l + $a * (e ?? 1), this.opacity);
	},
	darker(e) {
		return new G(this.h, this.c, this.l - $a * (e ?? 1), this.opacity);
	},
	rgb() {
		return go(this).rgb();
	}
}));
var _o = -.14861, vo = 1.78277, yo = -.29227, bo = -.90649, xo = 1.97294, So = xo * bo, Co = xo * vo, wo = vo * yo - bo * _o;
function To(e) {
	if (e instanceof Do) return new Do(e.h, e.s, e.l, e.opacity);
	e instanceof H || (e = La(e));
	var t = e.r / 255, n = e.g / 255, r = e.b / 255, i = (wo * r + So * t - Co * n) / (wo + So - Co), a = r - i, o = (xo * (n - i) - yo * a) / bo, s = Math.sqrt(o * o + a * a) / (xo * i * (1 - i)), c = s ? Math.atan2(o, a) * Qa - 120 : NaN;
	return new Do(c < 0 ? c + 360 : c, s, i, e.opacity);
}
function Eo(e, t, n, r) {
	return arguments.length === 1 ? To(e) : new Do(e, t, n, r ?? 1);
}
function Do(e, t, n, r) {
	this.h = +e, this.s = +t, this.l = +n, this.opacity = +r;
}
ga(Do, Eo, _a(B, {
	brighter(e) {
		return e = e == null ? ya : ya ** +e, new Do(this.h, this.s, this.l * e, this.opacity);
	},
	darker(e) {
		return e = e == null ? va : va ** +e, new Do(this.h, this.s, this.l * e, this.opacity);
	},
	rgb() {
		var e = isNaN(this.h) ? 0 : (this.h + 120) * Za, t = +this.l, n = isNaN(this.s) ? 0 : this.s * t * (1 - t), r = Math.cos(e), i = Math.sin(e);
		return new H(255 * (t + n * (_o * r + vo * i)), 255 * (t + n * (yo * r + bo * i)), 255 * (t + xo * r * n), this.opacity);
	}
}));
var Oo = (e) => () => e;
function ko(e, t) {
	return function(n) {
		return e + n * t;
	};
}
function Ao(e, t, n) {
	return e **= +n, t = t ** +n - e, n = 1 / n, function(r) {
		return (e + r * t) ** +n;
	};
}
function jo(e, t) {
	var n = t - e;
	return n ? ko(e, n > 180 || n < -180 ? n - 360 * Math.round(n / 360) : n) : Oo(isNaN(e) ? t : e);
}
function Mo(e) {
	return (e = +e) == 1 ? No : function(t, n) {
		return n - t ? Ao(t, n, e) : Oo(isNaN(t) ? n : t);
	};
}
function No(e, t) {
	var n = t - e;
	return n ? ko(e, n) : Oo(isNaN(e) ? t : e);
}
var Po = (function e(t) {
	var n = Mo(t);
	function r(e, t) {
		var r = n((e = Ra(e)).r, (t = Ra(t)).r), i = n(e.g, t.g), a = n(e.b, t.b), o = No(e.opacity, t.opacity);
		return function(t) {
			return e.r = r(t), e.g = i(t), e.b = a(t), e.opacity = o(t), e + "";
		};
	}
	return r.gamma = e, r;
})(1);
function K(e, t) {
	return e = +e, t = +t, function(n) {
		return e * (1 - n) + t * n;
	};
}
var Fo = /[-+]?(?:\d+\.?\d*|\.?\d+)(?:[eE][-+]?\d+)?/g, Io = new RegExp(Fo.source, "g");
function Lo(e) {
	return function() {
		return e;
	};
}
function Ro(e) {
	return function(t) {
		return e(t) + "";
	};
}
function zo(e, t) {
	var n = Fo.lastIndex = Io.lastIndex = 0, r, i, a, o = -1, s = [], c = [];
	for (e += "", t += ""; (r = Fo.exec(e)) && (i = Io.exec(t));) (a = i.index) > n && (a = t.slice(n, a), s[o] ? s[o] += a : s[++o] = a), (r = r[0]) === (i = i[0]) ? s[o] ? s[o] += i : s[++o] = i : (s[++o] = null, c.push({
		i: o,
		x: K(r, i)
	})), n = Io.lastIndex;
	return n < t.length && (a = t.slice(n), s[o] ? s[o] += a : s[++o] = a), s.length < 2 ? c[0] ? Ro(c[0].x) : Lo(t) : (t = c.length, function(e) {
		for (var n = 0, r; n < t; ++n) s[(r = c[n]).i] = r.x(e);
		return s.join("");
	});
}
var Bo = 180 / Math.PI, Vo = {
	translateX: 0,
	translateY: 0,
	rotate: 0,
	skewX: 0,
	scaleX: 1,
	scaleY: 1
};
function Ho(e, t, n, r, i, a) {
	var o, s, c;
	return (o = Math.sqrt(e * e + t * t)) && (e /= o, t /= o), (c = e * n + t * r) && (n -= e * c, r -= t * c), (s = Math.sqrt(n * n + r * r)) && (n /= s, r /= s, c /= s), e * r < t * n && (e = -e, t = -t, c = -c, o = -o), {
		translateX: i,
		translateY: a,
		rotate: Math.atan2(t, e) * Bo,
		skewX: Math.atan(c) * Bo,
		scaleX: o,
		scaleY: s
	};
}
var Uo;
function Wo(e) {
	let t = new (typeof DOMMatrix == "function" ? DOMMatrix : WebKitCSSMatrix)(e + "");
	return t.isIdentity ? Vo : Ho(t.a, t.b, t.c, t.d, t.e, t.f);
}
function Go(e) {
	return e == null || (Uo ||= document.createElementNS("http://www.w3.org/2000/svg", "g"), Uo.setAttribute("transform", e), !(e = Uo.transform.baseVal.consolidate())) ? Vo : (e = e.matrix, Ho(e.a, e.b, e.c, e.d, e.e, e.f));
}
function Ko(e, t, n, r) {
	function i(e) {
		return e.length ? e.pop() + " " : "";
	}
	function a(e, r, i, a, o, s) {
		if (e !== i || r !== a) {
			var c = o.push("translate(", null, t, null, n);
			s.push({
				i: c - 4,
				x: K(e, i)
			}, {
				i: c - 2,
				x: K(r, a)
			});
		} else (i || a) && o.push("translate(" + i + t + a + n);
	}
	function o(e, t, n, a) {
		e === t ? t && n.push(i(n) + "rotate(" + t + r) : (e - t > 180 ? t += 360 : t - e > 180 && (e += 360), a.push({
			i: n.push(i(n) + "rotate(", null, r) - 2,
			x: K(e, t)
		}));
	}
	function s(e, t, n, a) {
		e === t ? t && n.push(i(n) + "skewX(" + t + r) : a.push({
			i: n.push(i(n) + "skewX(", null, r) - 2,
			x: K(e, t)
		});
	}
	function c(e, t, n, r, a, o) {
		if (e !== n || t !== r) {
			var s = a.push(i(a) + "scale(", null, ",", null, ")");
			o.push({
				i: s - 4,
				x: K(e, n)
			}, {
				i: s - 2,
				x: K(t, r)
			});
		} else (n !== 1 || r !== 1) && a.push(i(a) + "scale(" + n + "," + r + ")");
	}
	return function(t, n) {
		var r = [], i = [];
		return t = e(t), n = e(n), a(t.translateX, t.translateY, n.translateX, n.translateY, r, i), o(t.rotate, n.rotate, r, i), s(t.skewX, n.skewX, r, i), c(t.scaleX, t.scaleY, n.scaleX, n.scaleY, r, i), t = n = null, function(e) {
			for (var t = -1, n = i.length, a; ++t < n;) r[(a = i[t]).i] = a.x(e);
			return r.join("");
		};
	};
}
var qo = Ko(Wo, "px, ", "px)", "deg)"), Jo = Ko(Go, ", ", ")", ")"), Yo = 1e-12;
function Xo(e) {
	return ((e = Math.exp(e)) + 1 / e) / 2;
}
function Zo(e) {
	return ((e = Math.exp(e)) - 1 / e) / 2;
}
function Qo(e) {
	return ((e = Math.exp(2 * e)) - 1) / (e + 1);
}
var $o = (function e(t, n, r) {
	function i(e, i) {
		var a = e[0], o = e[1], s = e[2], c = i[0], l = i[1], u = i[2], d = c - a, f = l - o, p = d * d + f * f, m, h;
		if (p < Yo) h = Math.log(u / s) / t, m = function(e) {
			return [
				a + e * d,
				o + e * f,
				s * Math.exp(t * e * h)
			];
		};
		else {
			var g = Math.sqrt(p), _ = (u * u - s * s + r * p) / (2 * s * n * g), v = (u * u - s * s - r * p) / (2 * u * n * g), y = Math.log(Math.sqrt(_ * _ + 1) - _);
			h = (Math.log(Math.sqrt(v * v + 1) - v) - y) / t, m = function(e) {
				var r = e * h, i = Xo(y), c = s / (n * g) * (i * Qo(t * r + y) - Zo(y));
				return [
					a + c * d,
					o + c * f,
					s * i / Xo(t * r + y)
				];
			};
		}
		return m.duration = Math.abs(h) * 1e3 * t / Math.SQRT2, m;
	}
	return i.rho = function(t) {
		var n = Math.max(.001, +t), r = n * n;
		return e(n, r, r * r);
	}, i;
})(Math.SQRT2, 2, 4);
function es(e) {
	return (function t(n) {
		n = +n;
		function r(t, r) {
			var i = e((t = Eo(t)).h, (r = Eo(r)).h), a = No(t.s, r.s), o = No(t.l, r.l), s = No(t.opacity, r.opacity);
			return function(e) {
				return t.h = i(e), t.s = a(e), t.l = o(e ** +n), t.opacity = s(e), t + "";
			};
		}
		return r.gamma = t, r;
	})(1);
}
es(jo), es(No);
// node_modules/d3-timer/dist/d3-timer.mjs
var ts = 0, ns = 0, rs = 0, is = 1e3, as, os, ss = 0, cs = 0, ls = 0, us = typeof performance == "object" && performance.now ? performance : Date, ds = typeof window == "object" && window.requestAnimationFrame ? window.requestAnimationFrame.bind(window) : function(e) {
	setTimeout(e, 17);
};
function fs() {
	return cs ||= (ds(ps), us.now() + ls);
}
function ps() {
	cs = 0;
}
function ms() {
	this._call = this._time = this._next = null;
}
ms.prototype = hs.prototype = {
	constructor: ms,
	restart: function(e, t, n) {
		if (typeof e != "function") throw TypeError("callback is not a function");
		n = (n == null ? fs() : +n) + (t == null ? 0 : +t), !this._next && os !== this && (os ? os._next = this : as = this, os = this), this._call = e, this._time = n, bs();
	},
	stop: function() {
		this._call && (this._call = null, this._time = 1e400, bs());
	}
};
function hs(e, t, n) {
	var r = new ms();
	return r.restart(e, t, n), r;
}
function gs() {
	fs(), ++ts;
	for (var e = as, t; e;) (t = cs - e._time) >= 0 && e._call.call(void 0, t), e = e._next;
	--ts;
}
function _s() {
	cs = (ss = us.now()) + ls, ts = ns = 0;
	try {
		gs();
	} finally {
		ts = 0, ys(), cs = 0;
	}
}
function vs() {
	var e = us.now(), t = e - ss;
	t > is && (ls -= t, ss = e);
}
function ys() {
	for (var e, t = as, n, r = 1e400; t;) t._call ? (r > t._time && (r = t._time), e = t, t = t._next) : (n = t._next, t._next = null, t = e ? e._next = n : as = n);
	os = e, bs(r);
}
function bs(e) {
	ts || (ns &&= clearTimeout(ns), e - cs > 24 ? (e < 1e400 && (ns = setTimeout(_s, Math.ceil(e - us.now() - ls) + 1)), rs &&= clearInterval(rs)) : (rs ||= (ss = us.now(), setInterval(vs, is)), ts = 1, ds(_s)));
}
function xs(e, t, n) {
	var r = new ms();
	return t = t == null ? 0 : +t, r.restart((n) => {
		r.stop(), e(n + t);
	}, t, n), r;
}
// node_modules/d3-ease/dist/d3-ease.mjs
function Ss(e) {
	return ((e *= 2) <= 1 ? e * e * e : (e -= 2) * e * e + 2) / 2;
}
var Cs = 3;
(function e(t) {
	t = +t;
	function n(e) {
		return e ** +t;
	}
	return n.exponent = e, n;
})(Cs), (function e(t) {
	t = +t;
	function n(e) {
		return 1 - (1 - e) ** t;
	}
	return n.exponent = e, n;
})(Cs), (function e(t) {
	t = +t;
	function n(e) {
		return ((e *= 2) <= 1 ? e ** +t : 2 - (2 - e) ** t) / 2;
	}
	return n.exponent = e, n;
})(Cs);
function ws(e) {
	return (2 ** (-10 * e) - .0009765625) * 1.0009775171065494;
}
var Ts = 4 / 11;
1 / Ts / Ts;
var Es = 1.70158;
(function e(t) {
	t = +t;
	function n(e) {
		return (e = +e) * e * (t * (e - 1) + e);
	}
	return n.overshoot = e, n;
})(Es), (function e(t) {
	t = +t;
	function n(e) {
		return --e * e * ((e + 1) * t + e) + 1;
	}
	return n.overshoot = e, n;
})(Es), (function e(t) {
	t = +t;
	function n(e) {
		return ((e *= 2) < 1 ? e * e * ((t + 1) * e - t) : (e -= 2) * e * ((t + 1) * e + t) + 2) / 2;
	}
	return n.overshoot = e, n;
})(Es);
var Ds = 2 * Math.PI, Os = 1, ks = .3;
(function e(t, n) {
	var r = Math.asin(1 / (t = Math.max(1, t))) * (n /= Ds);
	function i(e) {
		return t * ws(- --e) * Math.sin((r - e) / n);
	}
	return i.amplitude = function(t) {
		return e(t, n * Ds);
	}, i.period = function(n) {
		return e(t, n);
	}, i;
})(Os, ks), (function e(t, n) {
	var r = Math.asin(1 / (t = Math.max(1, t))) * (n /= Ds);
	function i(e) {
		return 1 - t * ws(e = +e) * Math.sin((e + r) / n);
	}
	return i.amplitude = function(t) {
		return e(t, n * Ds);
	}, i.period = function(n) {
		return e(t, n);
	}, i;
})(Os, ks), (function e(t, n) {
	var r = Math.asin(1 / (t = Math.max(1, t))) * (n /= Ds);
	function i(e) {
		return ((e = e * 2 - 1) < 0 ? t * ws(-e) * Math.sin((r - e) / n) : 2 - t * ws(e) * Math.sin((r + e) / n)) / 2;
	}
	return i.amplitude = function(t) {
		return e(t, n * Ds);
	}, i.period = function(n) {
		return e(t, n);
	}, i;
})(Os, ks);
// node_modules/d3-transition/dist/d3-transition.mjs
var As = oa("start", "end", "cancel", "interrupt"), js = [], Ms = 0, Ns = 1, Ps = 2, Fs = 3, Is = 4, Ls = 5, Rs = 6;
function zs(e, t, n, r, i, a) {
	var o = e.__transition;
	if (!o) e.__transition = {};
	else if (n in o) return;
	Vs(e, n, {
		name: t,
		index: r,
		group: i,
		on: As,
		tween: js,
		time: a.time,
		delay: a.delay,
		duration: a.duration,
		ease: a.ease,
		timer: null,
		state: Ms
	});
}
function Bs(e, t) {
	var n = J(e, t);
	if (n.state > Ms) throw Error("too late; already scheduled");
	return n;
}
function q(e, t) {
	var n = J(e, t);
	if (n.state > Fs) throw Error("too late; already running");
	return n;
}
function J(e, t) {
	var n = e.__transition;
	if (!n || !(n = n[t])) throw Error("transition not found");
	return n;
}
function Vs(e, t, n) {
	var r = e.__transition, i;
	r[t] = n, n.timer = hs(a, 0, n.time);
	function a(e) {
		n.state = Ns, n.timer.restart(o, n.delay, n.time), n.delay <= e && o(e - n.delay);
	}
	function o(a) {
		var l, u, d, f;
		if (n.state !== Ns) return c();
		for (l in r) if (f = r[l], f.name === n.name) {
			if (f.state === Fs) return xs(o);
			f.state === Is ? (f.state = Rs, f.timer.stop(), f.on.call("interrupt", e, e.__data__, f.index, f.group), delete r[l]) : +l < t && (f.state = Rs, f.timer.stop(), f.on.call("cancel", e, e.__data__, f.index, f.group), delete r[l]);
		}
		if (xs(function() {
			n.state === Fs && (n.state = Is, n.timer.restart(s, n.delay, n.time), s(a));
		}), n.state = Ps, n.on.call("start", e, e.__data__, n.index, n.group), n.state === Ps) {
			for (n.state = Fs, i = Array(d = n.tween.length), l = 0, u = -1; l < d; ++l) (f = n.tween[l].value.call(e, e.__data__, n.index, n.group)) && (i[++u] = f);
			i.length = u + 1;
		}
	}
	function s(t) {
		for (var r = t < n.duration ? n.ease.call(null, t / n.duration) : (n.timer.restart(c), n.state = Ls, 1), a = -1, o = i.length; ++a < o;) i[a].call(e, r);
		n.state === Ls && (n.on.call("end", e, e.__data__, n.index, n.group), c());
	}
	function c() {
		for (var i in n.state = Rs, n.timer.stop(), delete r[t], r) return;
		delete e.__transition;
	}
}
function Hs(e, t) {
	var n = e.__transition, r, i, a = !0, o;
	if (n) {
		for (o in t = t == null ? null : t + "", n) (r = n[o]).name === t ? (i = r.state > Ps && r.state < Ls, r.state = Rs, r.timer.stop(), r.on.call(i ? "interrupt" : "cancel", e, e.__data__, r.index, r.group), delete n[o]) : a = !1;
		a && delete e.__transition;
	}
}
function Us(e, t) {
	var n, r;
	return function() {
		var i = q(this, e), a = i.tween;
		if (a !== n) {
			r = n = a;
			for (var o = 0, s = r.length; o < s; ++o) if (r[o].name === t) {
				r = r.slice(), r.splice(o, 1);
				break;
			}
		}
		i.tween = r;
	};
}
function Ws(e, t, n) {
	var r, i;
	if (typeof n != "function") throw Error();
	return function() {
		var a = q(this, e), o = a.tween;
		if (o !== r) {
			i = (r = o).slice();
			for (var s = {
				name: t,
				value: n
			}, c = 0, l = i.length; c < l; ++c) if (i[c].name === t) {
				i[c] = s;
				break;
			}
			c === l && i.push(s);
		}
		a.tween = i;
	};
}
function Gs(e, t) {
	var n = this._id;
	if (e += "", arguments.length < 2) {
		for (var r = J(this.node(), n).tween, i = 0, a = r.length, o; i < a; ++i) if ((o = r[i]).name === e) return o.value;
		return null;
	}
	return this.each((t == null ? Us : Ws)(n, e, t));
}
function Ks(e, t, n) {
	var r = e._id;
	return e.each(function() {
		var e = q(this, r);
		(e.value ||= {})[t] = n.apply(this, arguments);
	}), function(e) {
		return J(e, r).value[t];
	};
}
function qs(e, t) {
	var n;
	return (typeof t == "number" ? K : t instanceof Pa ? Po : (n = Pa(t)) ? (t = n, Po) : zo)(e, t);
}
function Js(e) {
	return function() {
		this.removeAttribute(e);
	};
}
function Ys(e) {
	return function() {
		this.removeAttributeNS(e.space, e.local);
	};
}
function Xs(e, t, n) {
	var r, i = n + "", a;
	return function() {
		var o = this.getAttribute(e);
		return o === i ? null : o === r ? a : a = t(r = o, n);
	};
}
function Zs(e, t, n) {
	var r, i = n + "", a;
	return function() {
		var o = this.getAttributeNS(e.space, e.local);
		return o === i ? null : o === r ? a : a = t(r = o, n);
	};
}
function Qs(e, t, n) {
	var r, i, a;
	return function() {
		var o, s = n(this), c;
		return s == null ? void this.removeAttribute(e) : (o = this.getAttribute(e), c = s + "", o === c ? null : o === r && c === i ? a : (i = c, a = t(r = o, s)));
	};
}
function $s(e, t, n) {
	var r, i, a;
	return function() {
		var o, s = n(this), c;
		return s == null ? void this.removeAttributeNS(e.space, e.local) : (o = this.getAttributeNS(e.space, e.local), c = s + "", o === c ? null : o === r && c === i ? a : (i = c, a = t(r = o, s)));
	};
}
function ec(e, t) {
	var n = ir(e), r = n === "transform" ? Jo : qs;
	return this.attrTween(e, typeof t == "function" ? (n.local ? $s : Qs)(n, r, Ks(this, "attr." + e, t)) : t == null ? (n.local ? Ys : Js)(n) : (n.local ? Zs : Xs)(n, r, t));
}
function tc(e, t) {
	return function(n) {
		this.setAttribute(e, t.call(this, n));
	};
}
function nc(e, t) {
	return function(n) {
		this.setAttributeNS(e.space, e.local, t.call(this, n));
	};
}
function rc(e, t) {
	var n, r;
	function i() {
		var i = t.apply(this, arguments);
		return i !== r && (n = (r = i) && nc(e, i)), n;
	}
	return i._value = t, i;
}
function ic(e, t) {
	var n, r;
	function i() {
		var i = t.apply(this, arguments);
		return i !== r && (n = (r = i) && tc(e, i)), n;
	}
	return i._value = t, i;
}
function ac(e, t) {
	var n = "attr." + e;
	if (arguments.length < 2) return (n = this.tween(n)) && n._value;
	if (t == null) return this.tween(n, null);
	if (typeof t != "function") throw Error();
	var r = ir(e);
	return this.tween(n, (r.local ? rc : ic)(r, t));
}
function oc(e, t) {
	return function() {
		Bs(this, e).delay = +t.apply(this, arguments);
	};
}
function sc(e, t) {
	return t = +t, function() {
		Bs(this, e).delay = t;
	};
}
function cc(e) {
	var t = this._id;
	return arguments.length ? this.each((typeof e == "function" ? oc : sc)(t, e)) : J(this.node(), t).delay;
}
function lc(e, t) {
	return function() {
		q(this, e).duration = +t.apply(this, arguments);
	};
}
function uc(e, t) {
	return t = +t, function() {
		q(this, e).duration = t;
	};
}
function dc(e) {
	var t = this._id;
	return arguments.length ? this.each((typeof e == "function" ? lc : uc)(t, e)) : J(this.node(), t).duration;
}
function fc(e, t) {
	if (typeof t != "function") throw Error();
	return function() {
		q(this, e).ease = t;
	};
}
function pc(e) {
	var t = this._id;
	return arguments.length ? this.each(fc(t, e)) : J(this.node(), t).ease;
}
function mc(e, t) {
	return function() {
		var n = t.apply(this, arguments);
		if (typeof n != "function") throw Error();
		q(this, e).ease = n;
	};
}
function hc(e) {
	if (typeof e != "function") throw Error();
	return this.each(mc(this._id, e));
}
function gc(e) {
	typeof e != "function" && (e = gr(e));
	for (var t = this._groups, n = t.length, r = Array(n), i = 0; i < n; ++i) for (var a = t[i], o = a.length, s = r[i] = [], c, l = 0; l < o; ++l) (c = a[l]) && e.call(c, c.__data__, l, a) && s.push(c);
	return new Y(r, this._parents, this._name, this._id);
}
function _c(e) {
	if (e._id !== this._id) throw Error();
	for (var t = this._groups, n = e._groups, r = t.length, i = n.length, a = Math.min(r, i), o = Array(r), s = 0; s < a; ++s) for (var c = t[s], l = n[s], u = c.length, d = o[s] = Array(u), f, p = 0; p < u; ++p) (f = c[p] || l[p]) && (d[p] = f);
	for (; s < r; ++s) o[s] = t[s];
	return new Y(o, this._parents, this._name, this._id);
}
function vc(e) {
	return (e + "").trim().split(/^|\s+/).every(function(e) {
		var t = e.indexOf(".");
		return t >= 0 && (e = e.slice(0, t)), !e || e === "start";
	});
}
function yc(e, t, n) {
	var r, i, a = vc(t) ? Bs : q;
	return function() {
		var o = a(this, e), s = o.on;
		s !== r && (i = (r = s).copy()).on(t, n), o.on = i;
	};
}
function bc(e, t) {
	var n = this._id;
	return arguments.length < 2 ? J(this.node(), n).on.on(e) : this.each(yc(n, e, t));
}
function xc(e) {
	return function() {
		var t = this.parentNode;
		for (var n in this.__transition) if (+n !== e) return;
		t && t.removeChild(this);
	};
}
function Sc() {
	return this.on("end.remove", xc(this._id));
}
function Cc(e) {
	var t = this._name, n = this._id;
	typeof e != "function" && (e = lr(e));
	for (var r = this._groups, i = r.length, a = Array(i), o = 0; o < i; ++o) for (var s = r[o], c = s.length, l = a[o] = Array(c), u, d, f = 0; f < c; ++f) (u = s[f]) && (d = e.call(u, u.__data__, f, s)) && ("__data__" in u && (d.__data__ = u.__data__), l[f] = d, zs(l[f], t, n, f, l, J(u, n)));
	return new Y(a, this._parents, t, n);
}
function wc(e) {
	var t = this._name, n = this._id;
	typeof e != "function" && (e = pr(e));
	for (var r = this._groups, i = r.length, a = [], o = [], s = 0; s < i; ++s) for (var c = r[s], l = c.length, u, d = 0; d < l; ++d) if (u = c[d]) {
		for (var f = e.call(u, u.__data__, d, c), p, m = J(u, n), h = 0, g = f.length; h < g; ++h) (p = f[h]) && zs(p, t, n, h, f, m);
		a.push(f), o.push(u);
	}
	return new Y(a, o, t, n);
}
var Tc = Qi.prototype.constructor;
function Ec() {
	return new Tc(this._groups, this._parents);
}
function Dc(e, t) {
	var n, r, i;
	return function() {
		var a = oi(this, e), o = (this.style.removeProperty(e), oi(this, e));
		return a === o ? null : a === n && o === r ? i : i = t(n = a, r = o);
	};
}
function Oc(e) {
	return function() {
		this.style.removeProperty(e);
	};
}
function kc(e, t, n) {
	var r, i = n + "", a;
	return function() {
		var o = oi(this, e);
		return o === i ? null : o === r ? a : a = t(r = o, n);
	};
}
function Ac(e, t, n) {
	var r, i, a;
	return function() {
		var o = oi(this, e), s = n(this), c = s + "";
		return s ?? (c = s = (this.style.removeProperty(e), oi(this, e))), o === c ? null : o === r && c === i ? a : (i = c, a = t(r = o, s));
	};
}
function jc(e, t) {
	var n, r, i, a = "style." + t, o = "end." + a, s;
	return function() {
		var c = q(this, e), l = c.on, u = c.value[a] == null ? s ||= Oc(t) : void 0;
		(l !== n || i !== u) && (r = (n = l).copy()).on(o, i = u), c.on = r;
	};
}
function Mc(e, t, n) {
	var r = (e += "") == "transform" ? qo : qs;
	return t == null ? this.styleTween(e, Dc(e, r)).on("end.style." + e, Oc(e)) : typeof t == "function" ? this.styleTween(e, Ac(e, r, Ks(this, "style." + e, t))).each(jc(this._id, e)) : this.styleTween(e, kc(e, r, t), n).on("end.style." + e, null);
}
function Nc(e, t, n) {
	return function(r) {
		this.style.setProperty(e, t.call(this, r), n);
	};
}
function Pc(e, t, n) {
	var r, i;
	function a() {
		var a = t.apply(this, arguments);
		return a !== i && (r = (i = a) && Nc(e, a, n)), r;
	}
	return a._value = t, a;
}
function Fc(e, t, n) {
	var r = "style." + (e += "");
	if (arguments.length < 2) return (r = this.tween(r)) && r._value;
	if (t == null) return this.tween(r, null);
	if (typeof t != "function") throw Error();
	return this.tween(r, Pc(e, t, n ?? ""));
}
function Ic(e) {
	return function() {
		this.textContent = e;
	};
}
function Lc(e) {
	return function() {
		var t = e(this);
		this.textContent = t ?? "";
	};
}
function Rc(e) {
	return this.tween("text", typeof e == "function" ? Lc(Ks(this, "text", e)) : Ic(e == null ? "" : e + ""));
}
function zc(e) {
	return function(t) {
		this.textContent = e.call(this, t);
	};
}
function Bc(e) {
	var t, n;
	function r() {
		var r = e.apply(this, arguments);
		return r !== n && (t = (n = r) && zc(r)), t;
	}
	return r._value = e, r;
}
function Vc(e) {
	var t = "text";
	if (arguments.length < 1) return (t = this.tween(t)) && t._value;
	if (e == null) return this.tween(t, null);
	if (typeof e != "function") throw Error();
	return this.tween(t, Bc(e));
}
function Hc() {
	for (var e = this._name, t = this._id, n = Gc(), r = this._groups, i = r.length, a = 0; a < i; ++a) for (var o = r[a], s = o.length, c, l = 0; l < s; ++l) if (c = o[l]) {
		var u = J(c, t);
		zs(c, e, n, l, o, {
			time: u.time + u.delay + u.duration,
			delay: 0,
			duration: u.duration,
			ease: u.ease
		});
	}
	return new Y(r, this._parents, e, n);
}
function Uc() {
	var e, t, n = this, r = n._id, i = n.size();
	return new Promise(function(a, o) {
		var s = { value: o }, c = { value: function() {
			--i === 0 && a();
		} };
		n.each(function() {
			var n = q(this, r), i = n.on;
			i !== e && (t = (e = i).copy(), t._.cancel.push(s), t._.interrupt.push(s), t._.end.push(c)), n.on = t;
		}), i === 0 && a();
	});
}
var Wc = 0;
function Y(e, t, n, r) {
	this._groups = e, this._parents = t, this._name = n, this._id = r;
}
function Gc() {
	return ++Wc;
}
var X = Qi.prototype;
Y.prototype = {
	constructor: Y,
	select: Cc,
	selectAll: wc,
	selectChild: X.selectChild,
	selectChildren: X.selectChildren,
	filter: gc,
	merge: _c,
	selection: Ec,
	transition: Hc,
	call: X.call,
	nodes: X.nodes,
	node: X.node,
	size: X.size,
	empty: X.empty,
	each: X.each,
	on: bc,
	attr: ec,
	attrTween: ac,
	style: Mc,
	styleTween: Fc,
	text: Rc,
	textTween: Vc,
	remove: Sc,
	tween: Gs,
	delay: cc,
	duration: dc,
	ease: pc,
	easeVarying: hc,
	end: Uc,
	[Symbol.iterator]: X[Symbol.iterator]
};
var Kc = {
	time: null,
	delay: 0,
	duration: 250,
	ease: Ss
};
function qc(e, t) {
	for (var n; !(n = e.__transition) || !(n = n[t]);) if (!(e = e.parentNode)) throw Error(`transition ${t} not found`);
	return n;
}
Qi.prototype.interrupt = function(e) {
	return this.each(function() {
		Hs(this, e);
	});
}, Qi.prototype.transition = function(e) {
	var t, n;
	e instanceof Y ? (t = e._id, e = e._name) : (t = Gc(), (n = Kc).time = fs(), e = e == null ? null : e + "");
	for (var r = this._groups, i = r.length, a = 0; a < i; ++a) for (var o = r[a], s = o.length, c, l = 0; l < s; ++l) (c = o[l]) && zs(c, e, t, l, o, n || qc(c, t));
	return new Y(r, this._parents, e, t);
};
// node_modules/d3-zoom/dist/d3-zoom.mjs
var Jc = (e) => () => e;
function Yc(e, { sourceEvent: t, target: n, transform: r, dispatch: i }) {
	Object.defineProperties(this, {
		type: {
			value: e,
			enumerable: !0,
			configurable: !0
		},
		sourceEvent: {
			value: t,
			enumerable: !0,
			configurable: !0
		},
		target: {
			value: n,
			enumerable: !0,
			configurable: !0
		},
		transform: {
			value: r,
			enumerable: !0,
			configurable: !0
		},
		_: { value: i }
	});
}
function Z(e, t, n) {
	this.k = e, this.x = t, this.y = n;
}
Z.prototype = {
	constructor: Z,
	scale: function(e) {
		return e === 1 ? this : new Z(this.k * e, this.x, this.y);
	},
	translate: function(e, t) {
		return e === 0 & t === 0 ? this : new Z(this.k, this.x + this.k * e, this.y + this.k * t);
	},
	apply: function(e) {
		return [e[0] * this.k + this.x, e[1] * this.k + this.y];
	},
	applyX: function(e) {
		return e * this.k + this.x;
	},
	applyY: function(e) {
		return e * this.k + this.y;
	},
	invert: function(e) {
		return [(e[0] - this.x) / this.k, (e[1] - this.y) / this.k];
	},
	invertX: function(e) {
		return (e - this.x) / this.k;
	},
	invertY: function(e) {
		return (e - this.y) / this.k;
	},
	rescaleX: function(e) {
		return e.copy().domain(e.range().map(this.invertX, this).map(e.invert, e));
	},
	rescaleY: function(e) {
		return e.copy().domain(e.range().map(this.invertY, this).map(e.invert, e));
	},
	toString: function() {
		return "translate(" + this.x + "," + this.y + ") scale(" + this.k + ")";
	}
};
var Xc = new Z(1, 0, 0);
Zc.prototype = Z.prototype;
function Zc(e) {
	for (; !e.__zoom;) if (!(e = e.parentNode)) return Xc;
	return e.__zoom;
}
function Qc(e) {
	e.stopImmediatePropagation();
}
function $c(e) {
	e.preventDefault(), e.stopImmediatePropagation();
}
function el(e) {
	return (!e.ctrlKey || e.type === "wheel") && !e.button;
}
function tl() {
	var e = this;
	return e instanceof SVGElement ? (e = e.ownerSVGElement || e, e.hasAttribute("viewBox") ? (e = e.viewBox.baseVal, [[e.x, e.y], [e.x + e.width, e.y + e.height]]) : [[0, 0], [e.width.baseVal.value, e.height.baseVal.value]]) : [[0, 0], [e.clientWidth, e.clientHeight]];
}
function nl() {
	return this.__zoom || Xc;
}
function rl(e) {
	return -e.deltaY * (e.deltaMode === 1 ? .05 : e.deltaMode ? 1 : .002) * (e.ctrlKey ? 10 : 1);
}
function il() {
	return navigator.maxTouchPoints || "ontouchstart" in this;
}
function al(e, t, n) {
	var r = e.invertX(t[0][0]) - n[0][0], i = e.invertX(t[1][0]) - n[1][0], a = e.invertY(t[0][1]) - n[0][1], o = e.invertY(t[1][1]) - n[1][1];
	return e.translate(i > r ? (r + i) / 2 : Math.min(0, r) || Math.max(0, i), o > a ? (a + o) / 2 : Math.min(0, a) || Math.max(0, o));
}
function ol() {
	var e = el, t = tl, n = al, r = rl, i = il, a = [0, 1e400], o = [[-1e400, -1e400], [1e400, 1e400]], s = 250, c = $o, l = oa("start", "zoom", "end"), u, d, f, p = 500, m = 150, h = 0, g = 10;
	function _(e) {
		e.property("__zoom", nl).on("wheel.zoom", ne, { passive: !1 }).on("mousedown.zoom", re).on("dblclick.zoom", ie).filter(i).on("touchstart.zoom", ae).on("touchmove.zoom", oe).on("touchend.zoom touchcancel.zoom", se).style("-webkit-tap-highlight-color", "rgba(0,0,0,0)");
	}
	_.transform = function(e, t, n, r) {
		var i = e.selection ? e.selection() : e;
		i.property("__zoom", nl), e === i ? i.interrupt().each(function() {
			x(this, arguments).event(r).start().zoom(null, typeof t == "function" ? t.apply(this, arguments) : t).end();
		}) : ee(e, t, n, r);
	}, _.scaleBy = function(e, t, n, r) {
		_.scaleTo(e, function() {
			return this.__zoom.k * (typeof t == "function" ? t.apply(this, arguments) : t);
		}, n, r);
	}, _.scaleTo = function(e, r, i, a) {
		_.transform(e, function() {
			var e = t.apply(this, arguments), a = this.__zoom, s = i == null ? b(e) : typeof i == "function" ? i.apply(this, arguments) : i, c = a.invert(s), l = typeof r == "function" ? r.apply(this, arguments) : r;
			return n(y(v(a, l), s, c), e, o);
		}, i, a);
	}, _.translateBy = function(e, r, i, a) {
		_.transform(e, function() {
			return n(this.__zoom.translate(typeof r == "function" ? r.apply(this, arguments) : r, typeof i == "function" ? i.apply(this, arguments) : i), t.apply(this, arguments), o);
		}, null, a);
	}, _.translateTo = function(e, r, i, a, s) {
		_.transform(e, function() {
			var e = t.apply(this, arguments), s = this.__zoom, c = a == null ? b(e) : typeof a == "function" ? a.apply(this, arguments) : a;
			return n(Xc.translate(c[0], c[1]).scale(s.k).translate(typeof r == "function" ? -r.apply(this, arguments) : -r, typeof i == "function" ? -i.apply(this, arguments) : -i), e, o);
		}, a, s);
	};
	function v(e, t) {
		return t = Math.max(a[0], Math.min(a[1], t)), t === e.k ? e : new Z(t, e.x, e.y);
	}
	function y(e, t, n) {
		var r = t[0] - n[0] * e.k, i = t[1] - n[1] * e.k;
		return r === e.x && i === e.y ? e : new Z(e.k, r, i);
	}
	function b(e) {
		return [(+e[0][0] + +e[1][0]) / 2, (+e[0][1] + +e[1][1]) / 2];
	}
	function ee(e, n, r, i) {
		e.on("start.zoom", function() {
			x(this, arguments).event(i).start();
		}).on("interrupt.zoom end.zoom", function() {
			x(this, arguments).event(i).end();
		}).tween("zoom", function() {
			var e = this, a = arguments, o = x(e, a).event(i), s = t.apply(e, a), l = r == null ? b(s) : typeof r == "function" ? r.apply(e, a) : r, u = Math.max(s[1][0] - s[0][0], s[1][1] - s[0][1]), d = e.__zoom, f = typeof n == "function" ? n.apply(e, a) : n, p = c(d.invert(l).concat(u / d.k), f.invert(l).concat(u / f.k));
			return function(e) {
				if (e === 1) e = f;
				else {
					var t = p(e), n = u / t[2];
					e = new Z(n, l[0] - t[0] * n, l[1] - t[1] * n);
				}
				o.zoom(null, e);
			};
		});
	}
	function x(e, t, n) {
		return !n && e.__zooming || new te(e, t);
	}
	function te(e, n) {
		this.that = e, this.args = n, this.active = 0, this.sourceEvent = null, this.extent = t.apply(e, n), this.taps = 0;
	}
	te.prototype = {
		event: function(e) {
			return e && (this.sourceEvent = e), this;
		},
		start: function() {
			return ++this.active === 1 && (this.that.__zooming = this, this.emit("start")), this;
		},
		zoom: function(e, t) {
			return this.mouse && e !== "mouse" && (this.mouse[1] = t.invert(this.mouse[0])), this.touch0 && e !== "touch" && (this.touch0[1] = t.invert(this.touch0[0])), this.touch1 && e !== "touch" && (this.touch1[1] = t.invert(this.touch1[0])), this.that.__zoom = t, this.emit("zoom"), this;
		},
		end: function() {
			return --this.active === 0 && (delete this.that.__zooming, this.emit("end")), this;
		},
		emit: function(e) {
			var t = z(this.that).datum();
			l.call(e, this.that, new Yc(e, {
				sourceEvent: this.sourceEvent,
				target: _,
				transform: this.that.__zoom,
				dispatch: l
			}), t);
		}
	};
	function ne(t, ...i) {
		if (!e.apply(this, arguments)) return;
		var s = x(this, i).event(t), c = this.__zoom, l = Math.max(a[0], Math.min(a[1], c.k * 2 ** r.apply(this, arguments))), u = ia(t);
		if (s.wheel) (s.mouse[0][0] !== u[0] || s.mouse[0][1] !== u[1]) && (s.mouse[1] = c.invert(s.mouse[0] = u)), clearTimeout(s.wheel);
		else if (c.k === l) return;
		else s.mouse = [u, c.invert(u)], Hs(this), s.start();
		$c(t), s.wheel = setTimeout(d, m), s.zoom("mouse", n(y(v(c, l), s.mouse[0], s.mouse[1]), s.extent, o));
		function d() {
			s.wheel = null, s.end();
		}
	}
	function re(t, ...r) {
		if (f || !e.apply(this, arguments)) return;
		var i = t.currentTarget, a = x(this, r, !0).event(t), s = z(t.view).on("mousemove.zoom", d, !0).on("mouseup.zoom", p, !0), c = ia(t, i), l = t.clientX, u = t.clientY;
		pa(t.view), Qc(t), a.mouse = [c, this.__zoom.invert(c)], Hs(this), a.start();
		function d(e) {
			if ($c(e), !a.moved) {
				var t = e.clientX - l, r = e.clientY - u;
				a.moved = t * t + r * r > h;
			}
			a.event(e).zoom("mouse", n(y(a.that.__zoom, a.mouse[0] = ia(e, i), a.mouse[1]), a.extent, o));
		}
		function p(e) {
			s.on("mousemove.zoom mouseup.zoom", null), ma(e.view, a.moved), $c(e), a.event(e).end();
		}
	}
	function ie(r, ...i) {
		if (e.apply(this, arguments)) {
			var a = this.__zoom, c = ia(r.changedTouches ? r.changedTouches[0] : r, this), l = a.invert(c), u = a.k * (r.shiftKey ? .5 : 2), d = n(y(v(a, u), c, l), t.apply(this, i), o);
			$c(r), s > 0 ? z(this).transition().duration(s).call(ee, d, c, r) : z(this).call(_.transform, d, c, r);
		}
	}
	function ae(t, ...n) {
		if (e.apply(this, arguments)) {
			var r = t.touches, i = r.length, a = x(this, n, t.changedTouches.length === i).event(t), o, s, c, l;
			for (Qc(t), s = 0; s < i; ++s) c = r[s], l = ia(c, this), l = [
				l,
				this.__zoom.invert(l),
				c.identifier
			], a.touch0 ? !a.touch1 && a.touch0[2] !== l[2] && (a.touch1 = l, a.taps = 0) : (a.touch0 = l, o = !0, a.taps = 1 + !!u);
			u &&= clearTimeout(u), o && (a.taps < 2 && (d = l[0], u = setTimeout(function() {
				u = null;
			}, p)), Hs(this), a.start());
		}
	}
	function oe(e, ...t) {
		if (this.__zooming) {
			var r = x(this, t).event(e), i = e.changedTouches, a = i.length, s, c, l, u;
			for ($c(e), s = 0; s < a; ++s) c = i[s], l = ia(c, this), r.touch0 && r.touch0[2] === c.identifier ? r.touch0[0] = l : r.touch1 && r.touch1[2] === c.identifier && (r.touch1[0] = l);
			if (c = r.that.__zoom, r.touch1) {
				var d = r.touch0[0], f = r.touch0[1], p = r.touch1[0], m = r.touch1[1], h = (h = p[0] - d[0]) * h + (h = p[1] - d[1]) * h, g = (g = m[0] - f[0]) * g + (g = m[1] - f[1]) * g;
				c = v(c, Math.sqrt(h / g)), l = [(d[0] + p[0]) / 2, (d[1] + p[1]) / 2], u = [(f[0] + m[0]) / 2, (f[1] + m[1]) / 2];
			} else if (r.touch0) l = r.touch0[0], u = r.touch0[1];
			else return;
			r.zoom("touch", n(y(c, l, u), r.extent, o));
		}
	}
	function se(e, ...t) {
		if (this.__zooming) {
			var n = x(this, t).event(e), r = e.changedTouches, i = r.length, a, o;
			for (Qc(e), f && clearTimeout(f), f = setTimeout(function() {
				f = null;
			}, p), a = 0; a < i; ++a) o = r[a], n.touch0 && n.touch0[2] === o.identifier ? delete n.touch0 : n.touch1 && n.touch1[2] === o.identifier && delete n.touch1;
			if (n.touch1 && !n.touch0 && (n.touch0 = n.touch1, delete n.touch1), n.touch0) n.touch0[1] = this.__zoom.invert(n.touch0[0]);
			else if (n.end(), n.taps === 2 && (o = ia(o, this), Math.hypot(d[0] - o[0], d[1] - o[1]) < g)) {
				var s = z(this).on("dblclick.zoom");
				s && s.apply(this, arguments);
			}
		}
	}
	return _.wheelDelta = function(e) {
		return arguments.length ? (r = typeof e == "function" ? e : Jc(+e), _) : r;
	}, _.filter = function(t) {
		return arguments.length ? (e = typeof t == "function" ? t : Jc(!!t), _) : e;
	}, _.touchable = function(e) {
		return arguments.length ? (i = typeof e == "function" ? e : Jc(!!e), _) : i;
	}, _.extent = function(e) {
		return arguments.length ? (t = typeof e == "function" ? e : Jc([[+e[0][0], +e[0][1]], [+e[1][0], +e[1][1]]]), _) : t;
	}, _.scaleExtent = function(e) {
		return arguments.length ? (a[0] = +e[0], a[1] = +e[1], _) : [a[0], a[1]];
	}, _.translateExtent = function(e) {
		return arguments.length ? (o[0][0] = +e[0][0], o[1][0] = +e[1][0], o[0][1] = +e[0][1], o[1][1] = +e[1][1], _) : [[o[0][0], o[0][1]], [o[1][0], o[1][1]]];
	}, _.constrain = function(e) {
		return arguments.length ? (n = e, _) : n;
	}, _.duration = function(e) {
		return arguments.length ? (s = +e, _) : s;
	}, _.interpolate = function(e) {
		return arguments.length ? (c = e, _) : c;
	}, _.on = function() {
		var e = l.on.apply(l, arguments);
		return e === l ? _ : e;
	}, _.clickDistance = function(e) {
		return arguments.length ? (h = (e = +e) * e, _) : Math.sqrt(h);
	}, _.tapDistance = function(e) {
		return arguments.length ? (g = +e, _) : g;
	}, _;
}
// src/zoom.ts
var sl = 4, cl = class {
	plot;
	moves;
	zoom = ol();
	ended = new AbortController();
	fit = null;
	quiet = !1;
	box = null;
	boxedNow = !1;
	constructor(e, t) {
		this.plot = e, this.moves = t;
		let n = typeof matchMedia == "function" && matchMedia("(prefers-reduced-motion: reduce)").matches;
		this.zoom.duration(n ? 0 : 220).filter((e) => e.type === "wheel" || !e.button && !e.shiftKey && !t.isBoxing()).constrain((e) => this.fit ? ll(Re(this.fit, e)) : e).on("start", (t) => {
			t.sourceEvent?.type === "mousedown" && e.classList.add("held");
		}).on("end", () => e.classList.remove("held")).on("zoom", (e) => {
			if (this.quiet) return;
			let { k: n, x: r, y: i } = e.transform;
			t.turned({
				k: n,
				x: r,
				y: i
			});
		}), z(e).call(this.zoom), this.listen();
	}
	set(e, t) {
		this.fit = e, this.zoom.extent([[0, 0], [e.width, e.height]]), this.zoom.scaleExtent([1, Ie(e)]), this.quiet = !0, this.zoom.transform(z(this.plot), ll(t)), this.quiet = !1;
	}
	destroy() {
		this.ended.abort(), z(this.plot).on(".zoom", null), this.zoom.on("start", null).on("zoom", null).on("end", null);
	}
	listen() {
		let { plot: e, moves: t } = this, { signal: n } = this.ended, r = (t, r) => e.addEventListener(t, r, { signal: n }), i = (e) => [e.offsetX, e.offsetY];
		r("pointermove", (e) => {
			this.box?.pointer === e.pointerId && t.boxed(this.box.from, i(e), !1), t.pointed(i(e));
		}), r("pointerleave", () => t.pointed(null)), r("pointerdown", (n) => {
			this.boxedNow = !1, !n.button && (n.shiftKey || t.isBoxing()) && (this.box = {
				from: i(n),
				pointer: n.pointerId
			}, e.setPointerCapture(n.pointerId), n.preventDefault(), e.focus({ preventScroll: !0 }));
		}), r("pointerup", (e) => {
			if (!this.box) return;
			let { from: n } = this.box, r = i(e);
			this.box = null, this.boxedNow = !0;
			let a = Math.hypot(r[0] - n[0], r[1] - n[1]) < sl;
			t.boxed(n, a ? null : r, !0);
		}), r("pointercancel", () => {
			this.box && t.boxed(this.box.from, null, !0), this.box = null;
		}), r("click", (e) => {
			this.boxedNow || t.clicked(i(e));
		});
	}
};
function ll({ k: e, x: t, y: n }) {
	return Xc.translate(t, n).scale(e);
}
// src/map.ts
var ul = 7, dl = 240, fl = class {
	host;
	scene;
	store;
	tiles;
	place;
	dom;
	pen;
	measure;
	cells = new Vt();
	zoom;
	ended = new AbortController();
	resized;
	unsubscribe;
	frame = 0;
	caveat;
	width = dl;
	height = 0;
	laid = null;
	turn = {
		k: 1,
		x: 0,
		y: 0
	};
	told = null;
	moved = !1;
	cross = null;
	boxing = !1;
	box = null;
	figure = null;
	asked = "";
	said = "";
	constructor(e, t, n, r, i) {
		this.host = e, this.scene = t, this.store = n, this.tiles = r, this.place = i, this.dom = $n(e), this.caveat = new jt(this.dom.badge, () => this.paint()), this.pen = this.dom.canvas.getContext("2d"), this.measure = pn(this.pen), e.dataset.ready = "0", this.zoom = new cl(this.dom.plot, {
			turned: (e) => {
				this.turn = e, this.moved = !0, this.redraw();
			},
			pointed: (e) => this.point(e),
			clicked: (e) => this.select(this.cellAt(e)),
			boxed: (e, t, n) => this.drag(e, t, n),
			isBoxing: () => this.boxing
		}), this.width = e.clientWidth || 640, this.resized = typeof ResizeObserver == "function" ? new ResizeObserver((e) => this.resize(e)) : null, this.resized?.observe(this.dom.stage), this.unsubscribe = n.subscribe((e, t) => this.follow(e, t)), this.listen(), this.paint();
	}
	paint() {
		this.frame || this.ended.signal.aborted || (this.frame = requestAnimationFrame(() => {
			this.frame = 0, this.draw();
		}));
	}
	destroy() {
		this.ended.abort(), cancelAnimationFrame(this.frame), this.caveat.destroy(), this.resized?.disconnect(), this.unsubscribe(), this.zoom.destroy(), this.tiles.want(this, []), this.host.replaceChildren();
	}
	readout() {
		if (!this.cross || !this.figure) return null;
		let { shown: e, view: t, z: n } = this.figure;
		return Lt(this.tiles, e, t, n, this.cross[0], this.cross[1]);
	}
	png() {
		return Fn(this.now(), this.tiles, this.scene, this.measure);
	}
	svg() {
		return Vn(this.now(), this.tiles, this.scene, this.measure);
	}
	now() {
		if (this.draw(), !this.figure) throw Error("This map shows no pattern.");
		let { view: e, margins: t } = this.figure;
		return {
			...this.figure,
			margins: ht(e, t)
		};
	}
	listen() {
		let { plot: e, tools: t } = this.dom, { signal: n } = this.ended, r = (e, t, r) => e.addEventListener(t, r, { signal: n });
		r(t.in, "click", () => this.obey({
			name: "zoom",
			by: 2
		})), r(t.out, "click", () => this.obey({
			name: "zoom",
			by: .5
		})), r(t.whole, "click", () => this.obey({ name: "whole" })), r(t.box, "click", () => this.setBoxing(!this.boxing)), r(e, "keydown", (e) => {
			let t = Jt(e);
			t && this.obey(t) && e.preventDefault();
		});
		for (let t of ["focus", "blur"]) r(e, t, () => this.paint());
		typeof matchMedia == "function" && r(matchMedia("(prefers-color-scheme: dark)"), "change", () => this.paint());
	}
	resize(e) {
		let t = e[e.length - 1].contentRect, n = Math.floor(t.width), r = this.host.dataset.fill === void 0 ? 0 : Math.floor(t.height);
		!n || n === this.width && r === this.height || (this.width = n, this.height = r, this.redraw());
	}
	follow(e, t) {
		e.at !== t.at && e.at !== this.told && this.laid && (this.told = e.at, this.go(Ve(this.laid.fit, e.at), !1)), this.redraw();
	}
	redraw() {
		this.host.dataset.ready = "0", this.paint();
	}
	go(e, t = !0) {
		this.laid && (this.turn = Re(this.laid.fit, e), this.zoom.set(this.laid.fit, this.turn), this.moved ||= t, this.redraw());
	}
	point(e) {
		this.dom.output.setAttribute("aria-live", "off"), this.cross = e && this.cellAt(e), this.paint();
	}
	cellAt([e, t]) {
		return this.figure && Ze(this.figure.view, e, t);
	}
	select(e) {
		e && this.store.set({
			query: e[0],
			key: e[1]
		});
	}
	setBoxing(e) {
		this.boxing = e, this.box = null, this.dom.tools.box.setAttribute("aria-pressed", String(e)), this.paint();
	}
	drag(e, t, n) {
		let r = this.figure?.view;
		if (!r) return;
		let i = ([e, t]) => [Math.min(r.T - 1, Math.max(0, Math.floor((t - r.y) / r.ky))), Math.min(r.S - 1, Math.max(0, Math.floor((e - r.x) / r.kx)))];
		this.box = t && {
			from: i(e),
			to: i(t)
		}, n && this.box ? this.zoomToBox() : n && this.setBoxing(!1), this.paint();
	}
	zoomToBox() {
		if (!this.box || !this.laid) return;
		let { from: e, to: t } = this.box, n = (n) => [Math.min(e[n], t[n]), Math.max(e[n], t[n]) + 1];
		this.go(Ue(this.laid.fit, n(0), n(1))), this.setBoxing(!1);
	}
	obey(e) {
		if (!this.figure || !this.laid) return !1;
		let { view: t } = this.figure;
		if (e.name === "pan") {
			let { k: n, x: r, y: i } = this.turn, a = (e) => Math.max(40, e / 8);
			this.go({
				k: n,
				x: r - e.right * a(t.width),
				y: i - e.down * a(t.height)
			});
		} else if (e.name === "zoom") this.go(We(this.laid.fit, this.turn, e.by, this.cross));
		else if (e.name === "whole") this.go({
			k: 1,
			x: 0,
			y: 0
		});
		else if (e.name === "step") this.step(e.right, e.down);
		else if (e.name === "enter") this.enter();
		else if (e.name === "box") this.startBox();
		else return this.giveUp();
		return !0;
	}
	step(e, t) {
		if (!this.figure) return;
		let { view: n, z: r } = this.figure, { query: i, key: a } = this.store.get(), o = this.cross ?? [i ?? Math.floor(n.T / 2), a ?? Math.floor(n.S / 2)], s = 2 ** r, c = (e, t) => Math.min(t - 1, Math.max(0, e));
		this.cross = this.cross ? [c(o[0] + t * s, n.T), c(o[1] + e * s, n.S)] : [c(o[0], n.T), c(o[1], n.S)], this.box &&= {
			...this.box,
			to: this.cross
		}, this.dom.output.setAttribute("aria-live", "polite"), this.keepInSight(n, this.cross), this.paint();
	}
	keepInSight(e, [t, n]) {
		let r = (e, t, n) => e < 0 ? -e : e + t > n ? Math.max(n - e - t, -e) : 0, i = r(e.x + n * e.kx, e.kx, e.width), a = r(e.y + t * e.ky, e.ky, e.height);
		(i || a) && this.go({
			k: this.turn.k,
			x: this.turn.x + i,
			y: this.turn.y + a
		});
	}
	enter() {
		this.box ? this.zoomToBox() : this.select(this.cross);
	}
	startBox() {
		if (this.box) return this.zoomToBox();
		this.setBoxing(!0), this.cross || this.step(0, 0), this.cross && (this.box = {
			from: this.cross,
			to: this.cross
		}), this.paint();
	}
	giveUp() {
		return !this.boxing && !this.box && !this.cross ? !1 : (this.cross = null, this.setBoxing(!1), !0);
	}
	draw() {
		let e = this.store.get(), t = this.place(e);
		if (!t || !this.scene.layers[t[0]]) return this.blank();
		let n = window.devicePixelRatio || 1, r = m(e, t), i = this.scene.layers[r.layer];
		this.lay(e, r, i), this.moved && this.tell();
		let a = ze(this.laid.fit, this.turn), o = sn(this.tiles, r, a, n);
		this.ask(r, a, o);
		let s = Ft(this.tiles, r, a, o);
		this.figure = ln(this.scene, e, r, {
			view: a,
			z: o,
			margins: this.laid.margins,
			pieces: s
		});
		let c = this.put(this.figure, n);
		c || this.paint(), this.host.dataset.ready = s.exact && c ? "1" : "0", this.host.dataset.drawn = s.gaps ? "0" : "1", this.host.dataset.z = String(o), this.speak(r, o), this.label(r, i);
		let l = qe(a, n), u = o > l ? this.tiles.lack(r, l) : null;
		this.caveat.show(s, u ?? (s.gaps || o > l ? this.tiles.refusal : null)), tr(this.dom.box, a, this.box);
	}
	blank() {
		this.figure = null, this.tiles.want(this, []), this.asked = "", this.pen?.clearRect(0, 0, this.dom.canvas.width, this.dom.canvas.height), this.host.dataset.ready = "0";
	}
	lay(e, t, n) {
		let r = `${t.layer} ${t.b} ${this.width} ${this.height || window.innerHeight}`;
		if (this.laid?.name === r) return;
		let [i, a] = en(this.scene, n, t.b), o = this.height || Math.min(900, Math.max(300, .78 * window.innerHeight)), { fit: s, margins: c } = mt(n, i, a, Math.max(dl, this.width), o, this.measure);
		this.laid = {
			name: r,
			fit: s,
			margins: c
		};
		let { stage: l, plot: u } = this.dom;
		l.style.height = `${c.top + s.height + c.bottom}px`, u.style.left = `${c.left}px`, u.style.top = `${c.top}px`, u.style.width = `${s.width}px`, u.style.height = `${s.height}px`, this.turn = Ve(s, e.at), this.zoom.set(s, this.turn), this.dom.badge.style.left = `${c.left + 8}px`, this.dom.badge.style.bottom = `${c.bottom + 8}px`;
	}
	tell() {
		this.moved = !1, this.told = He(this.laid.fit, this.turn), this.store.set({ at: this.told });
	}
	ask(e, t, n) {
		let r = Ke(t, n), i = JSON.stringify([e, r]);
		i !== this.asked && (this.asked = i, this.tiles.want(this, cn(this.tiles, e, t, r)));
	}
	put(e, t) {
		let { canvas: n } = this.dom, { width: r, height: i } = fn(e), [a, o] = [Math.round(r * t), Math.round(i * t)];
		if ((n.width !== a || n.height !== o) && (n.width = a, n.height = o, n.style.width = `${r}px`, n.style.height = `${i}px`), !this.pen) return !0;
		this.pen.setTransform(t, 0, 0, t, 0, 0), this.pen.clearRect(0, 0, r, i);
		let s = mn(this.pen, e, this.tiles, this.cells, this.measure, t, ul), c = this.readout() ?? (this.cross && pl(this.cross));
		return c && kn(this.pen, e, c, this.measure), this.dom.plot.matches(":focus-visible") && On(this.pen, e), s;
	}
	speak(e, t) {
		let n = this.readout(), r = n ? rn(this.scene, e, n) : [{
			kind: "words",
			text: on(t, this.cross !== null)
		}], i = r.map(({ text: e }) => e).join("");
		i !== this.said && (this.said = i, er(this.dom.output, r));
	}
	label(e, t) {
		let n = `Attention of layer ${t.label}, head ${e.head}: ${t.T} queries by ${t.S} keys`;
		this.dom.plot.getAttribute("aria-label") !== n && this.dom.plot.setAttribute("aria-label", n);
	}
};
function pl([e, t]) {
	return {
		i0: e,
		i1: e + 1,
		j0: t,
		j1: t + 1
	};
}
// src/letter.ts
var ml = (e) => [
	1,
	3,
	5
].map((t) => parseInt(e.slice(t, t + 2), 16));
function hl(e) {
	let t = S("b", {
		class: "letter",
		"aria-hidden": "true"
	}, e?.letter ?? "");
	return e?.colour ? (t.style.background = e.colour, t.style.color = we(ml(e.colour))) : t.classList.add("plain"), t;
}
// src/card.ts
function gl(e, t) {
	let n = URL.createObjectURL(e);
	S("a", {
		href: n,
		download: t
	}).click(), setTimeout(() => URL.revokeObjectURL(n), 1e4);
}
var _l = class {
	node;
	map;
	scene;
	store;
	place;
	name = S("div", { class: "map-name" });
	unsubscribe;
	named = "";
	constructor(e, t, n, r, i, a, o = []) {
		this.scene = t, this.store = n, this.place = i;
		let s = S("div", {
			class: "map-host",
			"data-fill": !0
		}), c = (e) => () => void this.save(e).catch((e) => a(`The picture could not be made: ${e instanceof Error ? e.message : String(e)}`)), l = S("div", { class: "map-buttons" }, w("PNG", c("png"), {
			class: "small",
			title: "Download this map as PNG"
		}), w("SVG", c("svg"), {
			class: "small",
			title: "Download this map as SVG"
		}), ...o);
		this.node = S("div", { class: "map-card" }, S("div", { class: "map-head" }, this.name, l), s), e.append(this.node), this.map = new fl(s, t, n, r, i), this.unsubscribe = n.subscribe(() => this.paint()), this.paint();
	}
	destroy() {
		this.unsubscribe(), this.map.destroy(), this.node.remove();
	}
	paint() {
		let t = this.store.get(), i = this.place(t);
		if (!i) return;
		let a = this.scene.runs.length > 1 ? this.scene.runs[t.run] ?? "" : "", s = t.minus === null ? "" : ` − ${this.scene.runs[t.minus]}`, c = `${e(i)} ${a}${s}`;
		if (c === this.named) return;
		this.named = c;
		let l = o(this.scene, i), u = n(this.scene, i);
		this.name.replaceChildren(...l ? [hl(l)] : [], S("h2", {}, r(this.scene, i), l ? S("span", {}, `: ${l.title}`) : null), S("small", {}, `${a}${s}${a ? " · " : ""}${u.name}`));
	}
	async save(e) {
		let t = this.place(this.store.get()), n = `layer-${t?.[0]}-head-${t?.[1]}.${e}`;
		gl(e === "png" ? await this.map.png() : new Blob([this.map.svg()], { type: "image/svg+xml" }), n);
	}
}, vl = 2, yl = 4, bl = 34, xl = 21, Sl = 31, Cl = 46;
function wl(e) {
	return e.layers.flatMap(({ heads: e }, t) => Array.from({ length: e }, (e, n) => [t, n]));
}
function Tl(e, t, n) {
	return t.kinds.length === 0 || t.kinds.includes(a(e, n)?.kind ?? "");
}
function El(e, t, n) {
	let r = a(e, t);
	return r ? n === "entropy" ? r.entropy : r.scores[n] ?? null : null;
}
var Dl = (e) => ({
	...e,
	x: 0,
	y: 0,
	row: 0,
	column: 0,
	faint: !1
});
function Ol(e, t) {
	let n = [];
	return wl(e).forEach((r, i) => {
		let o = El(e, r, t.sort);
		if (o === null || !Tl(e, t, r)) return;
		let s = a(e, r)?.few.includes(t.sort) ?? !1;
		n.push(Dl({
			place: r,
			n: i,
			score: o,
			few: s
		}));
	}), n.sort((e, t) => t.score - e.score || e.n - t.n);
}
function kl(e, t, n, r) {
	if (t.sort !== "place") {
		let i = Ol(e, t), a = Math.max(Cl, Math.min(r, Cl + (r > Cl ? 16 : 0))), o = Math.max(1, Math.floor(n / a)), s = [Math.floor(n / o), a - 8 + Sl];
		i.forEach((e, t) => {
			e.row = Math.floor(t / o), e.column = t % o, e.x = e.column * s[0], e.y = e.row * s[1];
		});
		let c = Math.ceil(i.length / o);
		return {
			sorted: !0,
			cells: i,
			size: a - 8,
			step: s,
			gutter: 0,
			top: 0,
			width: n,
			height: c * s[1],
			columns: o,
			rows: c
		};
	}
	let i = Math.max(1, ...e.layers.map(({ heads: e }) => e)), a = Math.max(18, Math.min(r + vl, Math.floor((n - bl - yl) / i))), o = wl(e).map((n, r) => ({
		...Dl({
			place: n,
			n: r,
			score: null,
			few: !1
		}),
		row: n[0],
		column: n[1],
		x: bl + n[1] * a,
		y: xl + n[0] * a,
		faint: !Tl(e, t, n)
	})), s = e.layers.length;
	return {
		sorted: !1,
		cells: o,
		size: a - vl,
		step: [a, a],
		gutter: bl,
		top: xl,
		width: bl + i * a,
		height: xl + s * a,
		columns: i,
		rows: s
	};
}
function Al(e, t, n) {
	let { cells: r } = e, i = r.indexOf(t);
	if (n === "Home") return r[0] ?? null;
	if (n === "End") return r.at(-1) ?? null;
	if (n === "ArrowLeft") return r[i - 1] ?? null;
	if (n === "ArrowRight") return r[i + 1] ?? null;
	let a = {
		ArrowUp: -1,
		ArrowDown: 1,
		PageUp: -5,
		PageDown: 5
	}[n];
	if (a === void 0) return null;
	let o = Math.min(e.rows - 1, Math.max(0, t.row + a)), s = r.filter((e) => e.row === o);
	return s.findLast((e) => e.column <= t.column) ?? s[0] ?? null;
}
function jl(e, t, r) {
	let i = n(e, t.place), o = a(e, t.place), s = o && e.kinds.find(({ name: e }) => e === o.kind), c = [`Layer ${i.label}${i.kind === "cross" ? ", cross attention" : ""}, head ${t.place[1]}`];
	return s && c.push(s.title), t.score !== null && c.push(`${r.replaceAll("_", " ")} ${t.score.toFixed(2)}${t.few ? ", by too few tokens" : ""}`), c.join(", ");
}
var Ml = (t, n) => t.cells.find((t) => e(t.place) === n) ?? null, Nl = 0;
function Pl(e, t, n) {
	let r = `segments${++Nl}`, i = S("div", {
		class: "segments",
		role: "radiogroup",
		"aria-label": e
	}), a = /* @__PURE__ */ new Map();
	for (let [o, s, c] of t) {
		let t = S("input", {
			type: "radio",
			name: r,
			value: o,
			"aria-label": c ?? s
		});
		t.addEventListener("change", () => n(o)), a.set(o, t), i.append(S("label", { title: c ?? e }, t, S("span", { "aria-hidden": "true" }, s)));
	}
	return {
		node: i,
		show: (e) => {
			for (let [t, n] of a) n.checked = t === e;
		}
	};
}
function Fl(e, t, n) {
	let r = S("input", { type: "checkbox" });
	return r.addEventListener("change", () => n(r.checked)), {
		node: S("label", {
			class: "check",
			title: t
		}, r, e),
		show: (e) => r.checked = e
	};
}
function Il(e, t, n) {
	let r = S("select", {}, ...t.map(([e, t]) => S("option", { value: e }, t)));
	return r.addEventListener("change", () => n(r.value)), {
		node: S("label", { class: "pick" }, S("span", {}, e), r),
		show: (e) => r.value = e
	};
}
// src/controls.ts
function Q(e, t, n) {
	return n.push((n) => e.show(t(n))), e.node;
}
function Ll(e, t) {
	let n = (e) => t.forEach((t) => t(e));
	return n(e.get()), e.subscribe(n);
}
function Rl(e, t, n, r) {
	let i = [], a = t.runs.map((e, t) => [String(t), e]);
	if (a.length > 1) {
		let t = Il("run", a, (e) => {
			let t = Number(e);
			n.set({
				run: t,
				...n.get().minus === t ? { minus: null } : {}
			});
		}), r = Il("minus", [["none", "nothing"], ...a], (e) => {
			let { run: t } = n.get(), r = e === "none" ? null : Number(e);
			n.set({
				minus: r,
				...r === t ? { run: (t + 1) % a.length } : {}
			});
		});
		e.append(Q(t, ({ run: e }) => String(e), i), Q(r, ({ minus: e }) => String(e ?? "none"), i));
	}
	if (t.batch > 1) {
		let r = Array.from({ length: t.batch }, (e, t) => [String(t), String(t)]);
		e.append(Q(Il("batch row", r, (e) => n.set({ b: Number(e) })), ({ b: e }) => String(e), i));
	}
	let o = Pl("Theme", [
		[
			"auto",
			"◐",
			"Theme of the system"
		],
		[
			"light",
			"☀︎",
			"Light theme"
		],
		[
			"dark",
			"☾",
			"Dark theme"
		]
	], (e) => n.set({ theme: e }));
	return e.append(Q(o, (e) => e.theme, i)), r.link && e.append(w("Copy link", r.link, {
		class: "small",
		title: "Copies an address that opens with just this"
	})), e.append(w("?", r.keys, {
		class: "icon",
		"aria-label": "Keys",
		title: "Keys"
	})), Ll(n, i);
}
function zl(e, t, n) {
	let r = [], i = Pl("Colour scale", [
		["linear", "linear"],
		[
			"sqrt",
			"√",
			"square root"
		],
		[
			"log",
			"log",
			"logarithm"
		]
	], (e) => n.set({ scale: e })), a = Pl("One pixel of many cells", [["mean", "mean"], ["max", "max"]], (e) => n.set({ pool: e })), o = Fl("hide sink", "Leaves the key out that the last query may attend to first", (e) => n.set({ hide: e })), s = Fl("scale rows", "Divides each row by its largest probability", (e) => n.set({ norm: e })), c = w("Side by side", () => {
		let e = n.get();
		n.set({ beside: e.beside ? null : d(t, [e.layer, e.head]) });
	}, {
		class: "small",
		title: "A second head beside; Shift click on a head chooses it"
	});
	r.push((e) => c.setAttribute("aria-pressed", String(e.beside !== null)));
	let l = (e, t) => S("span", { class: "pick" }, S("span", { "aria-hidden": "true" }, e), t);
	return e.append(l("colour", Q(i, (e) => e.scale, r)), l("pool", Q(a, (e) => e.pool, r)), Q(o, (e) => e.hide, r), Q(s, (e) => e.norm, r), c), Ll(n, r);
}
// src/help.ts
var Bl = [
	["Anywhere", [
		["?", "this list"],
		["[ and ]", "head before, head after"],
		["Tab", "from part to part"]
	]],
	["Heads", [
		["Arrows", "from head to head"],
		["Enter", "show on the map"],
		["Shift Enter", "show beside; or Shift click"],
		["Space", "into the mean of the text; or Ctrl click"]
	]],
	["Map", [
		["Arrows", "move the map"],
		["Shift arrows", "move the crosshair by one cell"],
		["+ and −", "zoom; or wheel, pinch, double click"],
		["Shift drag", "zoom to a box"],
		["0", "the whole pattern"],
		["Enter", "select query and key under the crosshair"]
	]],
	["Text and patches", [
		["Arrows", "from token to token"],
		["Page Up, Page Down", "64 tokens on"],
		["Home, End", "first and last token"],
		["Esc", "let go of the held token"]
	]]
];
function Vl() {
	let e = S("dialog", {
		class: "keys-dialog",
		"aria-label": "Keys"
	}), t = w("Close", () => e.close(), { class: "quiet" });
	e.append(S("div", { class: "panel-head" }, S("h2", {}, "Keys"), t));
	let n = S("div", { class: "keys-lists" });
	for (let [e, t] of Bl) {
		let r = S("dl");
		for (let [e, n] of t) r.append(S("div", {}, S("dt", {}, S("kbd", {}, e)), S("dd", {}, n)));
		n.append(S("section", {}, S("h3", {}, e), r));
	}
	return e.append(n), e.addEventListener("click", (t) => {
		t.target === e && e.close();
	}), e;
}
// src/http.ts
var Hl = class extends E {}, Ul = "The Python side no longer answers: its process was stopped, or the connection to it broke.";
async function Wl(e) {
	try {
		let t = await e.json();
		if (t && typeof t == "object" && "sentence" in t && typeof t.sentence == "string") return t.sentence;
	} catch {}
	return `The server refused the question with status ${e.status}.`;
}
var Gl = class {
	token;
	constructor(e) {
		this.token = e;
	}
	async ask(e, t, n) {
		let r = new URLSearchParams();
		for (let [e, n] of Object.entries(t)) n !== void 0 && r.set(e, String(n));
		let i, a;
		try {
			if (i = await fetch(`ask/${e}?${r}`, {
				headers: { "X-Headwise-Token": this.token },
				signal: n ?? null
			}), !i.ok) throw new E(await Wl(i));
			a = await i.arrayBuffer();
		} catch (e) {
			throw e instanceof E || n?.aborted ? e : new Hl(Ul);
		}
		return ke(a);
	}
}, Kl = class {
	node = S("div", { class: "notices" });
	banner = S("div", {
		class: "banner",
		role: "alert"
	});
	notice = S("div", {
		class: "notice",
		role: "status"
	});
	constructor() {
		this.banner.hidden = this.notice.hidden = !0, this.node.append(this.banner, this.notice);
	}
	tell(e) {
		let t = w("×", () => this.quiet(), {
			class: "icon",
			"aria-label": "Dismiss"
		});
		this.notice.replaceChildren(S("span", {}, e), t), this.notice.hidden = !1;
	}
	quiet() {
		this.notice.hidden = !0, this.notice.replaceChildren();
	}
	lost(e, t) {
		if (!this.banner.hidden) return;
		let n = w("Try again", () => {
			n.disabled = !0, n.textContent = "Trying …", t().finally(() => {
				n.disabled = !1, n.textContent = "Try again";
			});
		});
		this.banner.replaceChildren(S("span", {}, e), n), this.banner.hidden = !1;
	}
}, ql = class {
	inner;
	lost;
	why = null;
	constructor(e, t) {
		this.inner = e, this.lost = t;
	}
	async ask(e, t, n) {
		if (this.why) throw this.why;
		try {
			return await this.inner.ask(e, t, n);
		} catch (e) {
			throw e instanceof Hl && !this.why && (this.why = e, this.lost(e)), e;
		}
	}
}, Jl = 256, Yl = class {
	side;
	across;
	count;
	first;
	codes;
	exact;
	known;
	atlas = document.createElement("canvas");
	dark = null;
	shades = new Uint32Array(Jl);
	constructor(e) {
		this.side = e.side, this.first = [];
		let t = 0;
		for (let { heads: n } of e.layers) this.first.push(t), t += n;
		this.count = t, this.across = Math.max(1, Math.ceil(Math.sqrt(t))), this.codes = new Uint8Array(t * this.side ** 2), this.exact = new Uint8Array(t), this.known = new Uint8Array(t), this.atlas.width = this.across * this.side, this.atlas.height = Math.ceil(t / this.across) * this.side;
	}
	forget() {
		this.known.fill(0), this.exact.fill(0);
	}
	put(e, t) {
		let n = this.side ** 2, r = new Uint8Array(t);
		e.heads.forEach(({ layer: e, head: t, exact: i }, a) => {
			let o = (this.first[e] ?? 0) + t;
			this.codes.set(r.subarray(a * n, (a + 1) * n), o * n), this.known[o] = 1, this.exact[o] = +!!i, this.dark !== null && this.colour(o);
		});
	}
	isKnown(e) {
		return this.known[e] === 1;
	}
	isExact(e) {
		return this.exact[e] === 1;
	}
	theme(e) {
		if (this.dark === e) return;
		this.dark = e;
		let t = xe(e, !1), n = new Uint8Array(this.shades.buffer);
		for (let e = 0; e < Jl; e++) n.set([...t(e / 255), 255], 4 * e);
		for (let e = 0; e < this.count; e++) this.known[e] && this.colour(e);
	}
	colour(e) {
		let t = this.atlas.getContext("2d");
		if (!t) return;
		let n = t.createImageData(this.side, this.side), r = new Uint32Array(n.data.buffer), i = e * this.side ** 2;
		for (let e = 0; e < r.length; e++) r[e] = this.shades[this.codes[i + e]];
		t.putImageData(n, e % this.across * this.side, Math.floor(e / this.across) * this.side);
	}
	draw(e, t, n, r, i) {
		let a = [t % this.across * this.side, Math.floor(t / this.across) * this.side];
		e.drawImage(this.atlas, ...a, this.side, this.side, n, r, i, i);
	}
}, Xl = 400, Zl = 34, Ql = 76, $l = 24, eu = class {
	scene;
	store;
	transport;
	notice;
	thumbs;
	full;
	canvas = S("canvas", { "aria-hidden": "true" });
	grid = S("div", {
		class: "heads",
		role: "grid",
		"aria-label": "Heads",
		"aria-multiselectable": "true"
	});
	scroller = S("div", { class: "scroll heads-scroll" });
	status = S("p", {
		class: "hint",
		role: "status"
	});
	chips = /* @__PURE__ */ new Map();
	sort = S("select", { "aria-label": "Order of the heads" });
	nodes = /* @__PURE__ */ new Map();
	unsubscribe;
	watcher;
	again = le(Xl, () => void this.load());
	arrangement;
	roving;
	loading = new AbortController();
	since = 0;
	frame = 0;
	large = !1;
	constructor(t, n, r, i, a) {
		this.scene = n, this.store = r, this.transport = i, this.notice = a, this.thumbs = new Yl(n), this.full = new Set(n.saved?.heads);
		let o = r.get();
		this.roving = e([o.layer, o.head]), this.arrangement = kl(n, o, 320, Zl), this.grid.append(this.canvas), this.scroller.append(this.grid), t.append(this.head(), this.filter(), this.scroller, this.foot()), this.listen(), this.layOut(), this.paintControls(), this.watcher = new ResizeObserver(() => this.layOut()), this.watcher.observe(this.scroller), this.unsubscribe = r.subscribe((e, t) => this.changed(e, t)), this.load();
	}
	destroy() {
		this.loading.abort(), this.again.never(), this.unsubscribe(), this.watcher.disconnect(), cancelAnimationFrame(this.frame);
	}
	paint() {
		cancelAnimationFrame(this.frame), this.frame = requestAnimationFrame(() => this.draw());
	}
	head() {
		let e = ne(this.scene);
		for (let t of e) {
			let e = this.scene.kinds.find((e) => e.name === t);
			this.sort.append(S("option", { value: t }, t === "place" ? "by layer" : (e?.title ?? t.replaceAll("_", " ")).toLowerCase()));
		}
		this.sort.addEventListener("change", () => this.store.set({ sort: this.sort.value }));
		let t = w("⤢", () => {
			this.large = !this.large, t.setAttribute("aria-pressed", String(this.large)), t.closest(".app")?.classList.toggle("large", this.large), this.layOut();
		}, {
			class: "icon",
			"aria-label": "Large maps",
			title: "Large maps",
			"aria-pressed": "false"
		}), n = e.length > 1 ? S("label", { class: "pick" }, S("span", {}, "order"), this.sort) : null;
		return S("div", { class: "panel-head" }, S("h2", {}, "Heads"), n, t);
	}
	filter() {
		let e = S("div", {
			class: "chips",
			role: "group",
			"aria-label": "Kinds of heads"
		});
		for (let t of this.scene.kinds) {
			let n = (this.scene.heads ?? []).filter((e) => e.kind === t.name).length;
			if (n === 0) continue;
			let r = w("", () => {
				let { kinds: e } = this.store.get();
				this.store.set({ kinds: e.includes(t.name) ? e.filter((e) => e !== t.name) : [...e, t.name] });
			}, {
				class: "chip",
				"data-kind": t.name,
				title: t.means
			});
			r.append(hl(t), S("span", {}, t.title), S("i", {}, String(n))), this.chips.set(t.name, r), e.append(r);
		}
		return e.hidden = this.chips.size === 0, e;
	}
	foot() {
		let e = (e, t) => S("span", {}, S("kbd", {}, e), ` ${t}`), t = S("p", { class: "hint keys" }, e("Enter", "show"), e("⇧ Enter", "beside"), e("Space", "mean"));
		return S("div", { class: "foot" }, this.status, t);
	}
	listen() {
		let n = (e) => {
			let n = e.target?.closest?.("[data-head]")?.dataset.head;
			return n === void 0 ? null : t(this.scene, n);
		};
		this.grid.addEventListener("click", (t) => {
			let r = n(t);
			r && (this.rove(e(r)), t.shiftKey ? this.store.set({ beside: r }) : t.ctrlKey || t.metaKey ? this.mean(r) : this.show(r));
		}), this.grid.addEventListener("keydown", (t) => {
			let r = n(t);
			if (!(!r || t.ctrlKey || t.metaKey || t.altKey)) {
				if (t.key === "Enter") t.shiftKey ? this.store.set({ beside: r }) : this.show(r);
				else if (t.key === " ") this.mean(r);
				else {
					let n = Ml(this.arrangement, e(r)), i = n && Al(this.arrangement, n, t.key);
					if (!i) return;
					this.rove(e(i.place)), this.nodes.get(this.roving)?.focus();
				}
				t.preventDefault();
			}
		});
	}
	show(e) {
		this.store.set(l(this.scene, this.store.get(), e));
	}
	mean(e) {
		let t = u(this.scene, this.store.get(), e);
		t ? this.store.set(t) : this.notice("Only heads over the same queries and keys have a mean; this one's differ from those of the head on the map.");
	}
	rove(e) {
		this.nodes.get(this.roving)?.setAttribute("tabindex", "-1"), this.roving = e, this.nodes.get(e)?.setAttribute("tabindex", "0");
	}
	changed(t, n) {
		(t.run !== n.run || t.minus !== n.minus || t.b !== n.b) && (this.loading.abort(), this.since = 0, this.thumbs.forget(), this.load()), (t.sort !== n.sort || t.kinds !== n.kinds) && this.layOut(), (t.layer !== n.layer || t.head !== n.head) && this.rove(e([t.layer, t.head])), this.paintControls();
	}
	async load() {
		this.loading.abort();
		let { signal: e } = this.loading = new AbortController(), { run: t, minus: n, b: r } = this.store.get();
		try {
			let i = {
				run: t,
				...n === null ? {} : { minus: n },
				b: r,
				since: this.since
			}, { meta: a, data: o } = await this.transport.ask("overview", i, e);
			if (e.aborted) return;
			this.since = a.version, this.thumbs.put(a, o);
			let s = a.exact < a.of ? `${a.exact} of ${a.of} maps exact, the others sampled` : `${a.of} heads, all maps exact`;
			this.status.textContent = s + (n === null ? "" : "; size of the difference"), this.scroller.toggleAttribute("data-ready", !0), this.paint(), a.done || this.again.soon();
		} catch (t) {
			e.aborted || (this.status.textContent = t instanceof Error ? t.message : String(t));
		}
	}
	layOut() {
		let t = Math.max(200, (this.scroller.clientWidth || 320) - 12), n = this.store.get(), r = n.sort === "place" ? Math.floor(this.scroller.clientHeight / (this.scene.layers.length + 1)) : 0, i = kl(this.scene, n, t, this.large ? Ql : Math.min(Ql, Math.max(Zl, r)));
		this.arrangement = i, this.grid.style.width = `${i.width}px`, this.grid.style.height = `${i.height}px`;
		let a = [];
		i.sorted || a.push(this.numbers(i));
		for (let e = 0; e < i.rows; e++) a.push(S("div", { role: "row" }));
		i.sorted || this.scene.layers.forEach((e, t) => {
			let n = S("span", {
				role: "rowheader",
				class: "mark"
			}, e.label, e.kind === "cross" ? S("i", { title: "cross attention" }, "×") : null);
			n.title = `${e.name}${e.kind === "cross" ? ": cross attention" : ""}`, n.style.top = `${i.top + t * i.step[1]}px`, n.style.lineHeight = `${i.size}px`, a[t + 1]?.append(n);
		}), this.nodes.clear();
		for (let e of i.cells) a[e.row + +!i.sorted]?.append(this.cell(e, i));
		let o = this.grid.contains(this.grid.getRootNode() instanceof ShadowRoot ? this.grid.getRootNode().activeElement : null);
		this.grid.replaceChildren(this.canvas, ...a), this.nodes.has(this.roving) || (this.roving = i.cells[0] ? e(i.cells[0].place) : ""), this.rove(this.roving), o && this.nodes.get(this.roving)?.focus(), this.draw(), this.paintControls();
	}
	numbers(e) {
		let t = S("div", {
			role: "row",
			class: "numbers"
		});
		t.append(S("span", {
			role: "columnheader",
			class: "mark"
		}, S("i", {}, "layer")));
		for (let n = 0; n < e.columns; n++) {
			let r = S("span", {
				role: "columnheader",
				class: "mark"
			}, String(n));
			r.style.left = `${e.gutter + n * e.step[0]}px`, r.style.width = `${e.size}px`, t.append(r);
		}
		return t;
	}
	cell(t, n) {
		let r = e(t.place), i = jl(this.scene, t, this.store.get().sort) + (this.full.has(r) ? ", in full in this file" : "") + (t.faint ? ", left out by the filter" : ""), a = S("div", {
			role: "gridcell",
			class: "head",
			tabindex: "-1",
			"data-head": r,
			"aria-label": i,
			title: i
		});
		return a.toggleAttribute("data-faint", t.faint), a.style.left = `${t.x}px`, a.style.top = `${t.y}px`, a.style.width = `${n.sorted ? n.step[0] - 2 : n.size}px`, a.style.height = `${n.sorted ? n.step[1] - 2 : n.size}px`, this.nodes.set(r, a), a;
	}
	paintControls() {
		let t = this.store.get();
		this.sort.value = t.sort;
		for (let [e, n] of this.chips) n.setAttribute("aria-pressed", String(t.kinds.includes(e)));
		let n = e([t.layer, t.head]);
		for (let [r, i] of this.nodes) i.setAttribute("aria-selected", String(r === n || t.chosen.includes(r))), i.toggleAttribute("data-here", r === n), i.toggleAttribute("data-beside", t.beside !== null && r === e(t.beside)), i.toggleAttribute("data-chosen", t.chosen.includes(r));
		let r = wl(this.scene).filter((e) => Tl(this.scene, t, e)).length;
		this.grid.setAttribute("aria-label", t.kinds.length ? `Heads, ${r} of the kinds that are chosen` : "Heads");
	}
	draw() {
		let t = this.canvas.getContext("2d");
		if (!t) return;
		let { width: n, height: r, size: i, cells: a, sorted: o, step: s } = this.arrangement, c = this.store.get(), l = window.devicePixelRatio || 1;
		this.canvas.width = Math.round(n * l), this.canvas.height = Math.round(r * l), this.canvas.style.width = `${n}px`, this.canvas.style.height = `${r}px`, t.scale(l, l), t.imageSmoothingQuality = "high", this.thumbs.theme(Te(c));
		let u = getComputedStyle(this.grid), d = {
			ink: u.getPropertyValue("--ink"),
			soft: u.getPropertyValue("--soft"),
			line: u.getPropertyValue("--line"),
			card: u.getPropertyValue("--card")
		}, f = `700 11px ${u.fontFamily}`;
		t.font = f, t.textAlign = "center", t.textBaseline = "middle";
		for (let n of a) {
			let r = n.x + (o ? Math.floor((s[0] - 2 - i) / 2) : 0);
			if (t.globalAlpha = n.faint ? .16 : 1, this.one(t, n, r, n.y + +!!o, d), n.score === null) continue;
			let a = n.x + (s[0] - 2) / 2;
			t.fillStyle = d.soft, t.font = `11px ${u.fontFamily}`, t.fillText(e(n.place), a, n.y + i + 9), t.fillStyle = d.ink, t.font = f, t.fillText(`${n.score.toFixed(2)}${n.few ? "*" : ""}`, a, n.y + i + 22);
		}
	}
	one(t, n, r, i, s) {
		let { size: c } = this.arrangement, l = o(this.scene, n.place), u = l?.colour ?? null;
		this.thumbs.isKnown(n.n) && this.thumbs.draw(t, n.n, r + 1, i + 1, c - 2), t.strokeStyle = u ?? s.line, t.lineWidth = u ? 2 : 1, t.strokeRect(r + 1, i + 1, c - 2, c - 2), this.thumbs.isKnown(n.n) && !this.thumbs.isExact(n.n) && tu(t, r + 2, i + c - 2, Math.min(9, c / 3), s.soft), this.full.has(e(n.place)) && (t.fillStyle = s.ink, t.beginPath(), t.arc(r + c - 5, i + c - 5, 2.5, 0, 2 * Math.PI), t.fill());
		let d = a(this.scene, n.place) && !u;
		if (!l || d) return;
		let f = c < $l, p = f ? 11 : Math.min(14, c * .4);
		f || (t.fillStyle = u ?? s.line, t.fillRect(r + c - p, i, p, p));
		let m = f ? 2 : 0;
		f && (t.strokeStyle = s.card, t.lineWidth = 3, t.strokeText(l.letter, r + c - m - p / 2, i + m + p / 2)), t.fillStyle = u && !f ? we(ml(u)) : s.ink, t.fillText(l.letter, r + c - m - p / 2, i + m + p / 2 + (f ? 0 : .5));
	}
};
function tu(e, t, n, r, i) {
	e.strokeStyle = i || T([
		128,
		128,
		128
	]), e.lineWidth = 1, e.beginPath();
	for (let i = 3; i <= r; i += 3) e.moveTo(t, n - i), e.lineTo(t + i, n);
	e.stroke();
}
// src/chart.ts
var $ = 52, nu = 8, ru = 8, iu = 32, au = 5;
function ou(e) {
	let t = 10 ** Math.floor(Math.log10(e));
	return ([
		1,
		2,
		2.5,
		5,
		10
	].find((n) => n * t >= e * .999) ?? 10) * t;
}
function su(e, t) {
	let [n, r] = [0, 0];
	for (let t = 0; t < e.length; t++) {
		let i = e[t];
		Number.isFinite(i) && ([n, r] = [Math.min(n, i), Math.max(r, i)]);
	}
	if (r === n && (r = n + 1), t) {
		let e = (e) => e > 0 ? Math.max(0, 1 + Math.log10(e / r) / au) : 0, t = Math.floor(Math.log10(r)), n = [
			0,
			1,
			2,
			3,
			4
		].map((e) => 10 ** (t - e)).filter((t) => e(t) > 0);
		return {
			low: 0,
			high: r,
			of: e,
			ticks: n
		};
	}
	let i = ou((r - n) / 3), a = [];
	for (let e = Math.ceil(n / i - 1e-6) * i; e <= r + i * 1e-6; e += i) a.push(e);
	return {
		low: n,
		high: r,
		of: (e) => (e - n) / (r - n),
		ticks: a
	};
}
function cu(e, t) {
	let n = Math.max(1, Math.min(t, e.length)), [r, i] = [new Float32Array(n), new Float32Array(n)];
	for (let t = 0; t < n; t++) {
		let a = Math.floor(t * e.length / n), o = Math.max(a + 1, Math.floor((t + 1) * e.length / n)), [s, c] = [1e400, -1e400];
		for (let t = a; t < o; t++) [s, c] = [Math.min(s, e[t]), Math.max(c, e[t])];
		[r[t], i[t]] = [s, c];
	}
	return {
		low: r,
		high: i
	};
}
var lu = (e) => Math.abs(e) >= 1e4 ? `${e / 1e3}k` : et(e), uu = class {
	node = S("figure", { class: "chart" });
	plot = C("svg", { role: "img" });
	out = S("output", {});
	cursor = C("line", { class: "cursor" });
	series = null;
	height;
	constructor(e) {
		this.height = e, this.plot.style.height = `${e}px`, this.node.append(this.plot, this.out), this.plot.addEventListener("pointermove", (e) => this.point(e)), this.plot.addEventListener("pointerleave", () => this.leave()), this.plot.addEventListener("click", (e) => {
			let t = this.at(e);
			t !== null && this.series?.pick?.(t);
		});
	}
	show(e) {
		this.series = e, this.plot.setAttribute("aria-label", e.name), this.plot.classList.toggle("pickable", e.pick !== void 0), this.draw();
	}
	draw() {
		let { series: e } = this;
		if (!e || e.values.length === 0) return;
		let t = Math.max(160, this.plot.clientWidth || 340), n = su(e.values, e.log ?? !1), r = this.height - ru - iu, i = (e) => ru + r * (1 - Math.min(1, Math.max(0, n.of(e)))), a = [];
		for (let e of n.ticks) a.push(C("line", {
			class: "grid",
			x1: $,
			x2: t - nu,
			y1: i(e),
			y2: i(e)
		})), a.push(C("text", {
			x: 47,
			y: i(e) + 4,
			"text-anchor": "end"
		}, lu(e)));
		let o = e.values.length, s = (t - $ - nu) / o, c = (t) => $ + s * (e.backwards ? o - 1 - t : t), l = i(Math.max(0, n.low));
		if (e.bars && s >= 2) for (let t = 0; t < o; t++) {
			let n = i(e.values[t]);
			a.push(C("rect", {
				x: c(t) + s * .1,
				width: Math.max(1, s * .8),
				y: Math.min(n, l),
				height: Math.max(.5, Math.abs(l - n)),
				fill: e.colour
			}));
		}
		else a.push(this.band(e, t, i));
		if (a.push(...this.ticks(e, c, s, t)), a.push(C("text", {
			class: "what",
			x: $ + (t - $ - nu) / 2,
			y: this.height - 3,
			"text-anchor": "middle"
		}, e.across)), e.mark !== null && e.mark !== void 0) {
			let t = c(e.mark) + s / 2;
			a.push(C("line", {
				class: "mark",
				x1: t,
				x2: t,
				y1: ru,
				y2: this.height - iu
			}));
		}
		this.plot.setAttribute("viewBox", `0 0 ${t} ${this.height}`), this.plot.replaceChildren(...a, this.cursor), this.leave();
	}
	band(e, t, n) {
		let r = e.bars ?? !1, { low: i, high: a } = cu(e.backwards ? Array.from(e.values).reverse() : e.values, t - $ - nu), o = (t - $ - nu) / i.length, s = (e) => $ + (e + .5) * o, c = (e, t) => `${s(e).toFixed(1)},${n(t).toFixed(1)}`, l = Array.from(a, (e, t) => c(t, r ? Math.max(0, e) : e)), u = Array.from(i, (e, t) => c(t, r ? Math.min(0, e) : e)).reverse();
		return C("path", {
			d: `M${[...l, ...u].join("L")}Z`,
			fill: e.colour,
			stroke: e.colour,
			"stroke-width": 1.2,
			"stroke-linejoin": "round"
		});
	}
	ticks(e, t, n, r) {
		let i = e.values.length, a = Math.max(1, ou(i / (r - $ - nu) * 60)), o = [], s = e.first + i - 1;
		for (let r = Math.ceil(e.first / a) * a; r <= s; r += a) {
			let i = t(r - e.first) + n / 2;
			o.push(C("line", {
				class: "grid",
				x1: i,
				x2: i,
				y1: this.height - iu,
				y2: this.height - iu + 3
			})), o.push(C("text", {
				x: i,
				y: this.height - iu + 14,
				"text-anchor": "middle"
			}, lu(r)));
		}
		return o;
	}
	at(e) {
		let { series: t } = this;
		if (!t) return null;
		let n = this.plot.getBoundingClientRect(), r = (e.clientX - n.left - $) / (n.width - $ - nu);
		if (r < 0 || r >= 1) return null;
		let i = Math.floor(r * t.values.length);
		return t.backwards ? t.values.length - 1 - i : i;
	}
	point(e) {
		let t = this.at(e);
		if (t === null || !this.series) return this.leave();
		let n = e.clientX - this.plot.getBoundingClientRect().left;
		for (let [e, t] of Object.entries({
			x1: n,
			x2: n,
			y1: ru,
			y2: this.height - iu
		})) this.cursor.setAttribute(e, String(t));
		this.out.textContent = this.series.say(t, this.series.values[t]);
	}
	leave() {
		this.cursor.setAttribute("y2", String(ru)), this.cursor.setAttribute("y1", String(ru));
		let { series: e } = this;
		if (!e) return;
		let t = 0;
		for (let n = 1; n < e.values.length; n++) Math.abs(e.values[n]) > Math.abs(e.values[t]) && (t = n);
		this.out.textContent = `Most: ${e.say(t, e.values[t])}`;
	}
}, du = (e) => Math.abs(e) >= 100 ? k(Math.round(e)) : e.toFixed(2), fu = 24, pu = class {
	scene;
	store;
	transport;
	host;
	status = S("p", {
		class: "hint",
		role: "status"
	});
	body = S("div", { class: "profile" });
	offsets = new uu(150);
	entropy = new uu(140);
	received = new uu(140);
	log = S("input", { type: "checkbox" });
	keys = S("tbody");
	links = S("tbody");
	unsubscribe;
	watcher;
	known = null;
	loading = new AbortController();
	asked = "";
	constructor(e, t, n, r) {
		this.scene = t, this.store = n, this.transport = r, this.host = e, this.log.addEventListener("change", () => this.draw()), this.body.append(this.part("Attention by distance", this.offsets.node), this.part("Entropy along the queries", this.entropy.node), this.part("Attention received along the keys", this.received.node, S("label", {}, this.log, " logarithmic")), this.part("Keys that received most", mu([
			"key",
			"relative",
			"received",
			"per query"
		], this.keys)), this.part("Strongest links", mu([
			"query",
			"key",
			"distance",
			"p"
		], this.links))), this.body.hidden = !0, e.classList.add("scroll"), e.append(this.status, this.body), this.watcher = new ResizeObserver(() => this.draw()), this.watcher.observe(this.body), this.unsubscribe = n.subscribe((e, t) => {
			e.panel === "profile" && this.load(), (e.query !== t.query || e.key !== t.key || e.theme !== t.theme) && this.draw();
		}), this.load();
	}
	destroy() {
		this.unsubscribe(), this.watcher.disconnect(), this.loading.abort();
	}
	part(e, t, n = null) {
		return S("section", { "aria-label": e }, S("div", { class: "part-head" }, S("h3", {}, e), n), t);
	}
	load() {
		let { panel: e, run: t, minus: i, layer: a, head: o, b: s } = this.store.get();
		if (e !== "profile") return;
		let c = {
			run: t,
			...i === null ? {} : { minus: i },
			layer: a,
			head: o,
			b: s
		}, l = JSON.stringify(c);
		if (l === this.asked) return;
		this.asked = l, this.loading.abort();
		let { signal: u } = this.loading = new AbortController();
		this.status.textContent = `Reading the whole pattern of ${r(this.scene, [a, o]).toLowerCase()} …`, this.host.removeAttribute("data-ready"), this.transport.ask("profile", c, u).then(({ meta: e, data: t }) => {
			if (u.aborted) return;
			let r = new Float32Array(t), { T: i } = n(this.scene, [a, o]);
			this.known = {
				meta: e,
				entropy: r.subarray(0, i),
				received: r.subarray(i)
			}, this.status.textContent = "", this.body.hidden = !1, this.draw(), this.host.toggleAttribute("data-ready", !0);
		}, (e) => {
			u.aborted || (this.asked = "", this.body.hidden = !0, this.status.textContent = e instanceof Error ? e.message : String(e));
		});
	}
	axes(e) {
		let t = n(this.scene, [e.layer, e.head]);
		return [this.scene.axes[t.rows[e.b]], this.scene.axes[t.cols[e.b]]];
	}
	draw() {
		if (!this.known || this.body.clientWidth === 0) return;
		let e = this.store.get(), { meta: t, entropy: n, received: r } = this.known, [i, a] = this.axes(e), s = o(this.scene, [e.layer, e.head])?.colour ?? "var(--bar)", c = e.minus !== null, l = (e, t) => c && t > 0 ? `+${e}` : e, u = (e) => c ? "" : `, as over ${k(Math.round(Math.exp(e)))} even keys,`;
		this.log.disabled = c;
		let d = (e) => e === 0 ? "at the query itself" : tt(e);
		this.offsets.show({
			name: "Mean probability by distance of the key",
			values: t.offsets,
			first: -t.after,
			backwards: !0,
			bars: !0,
			colour: s,
			across: t.after > 0 ? "tokens behind the query (negative: ahead)" : "tokens behind the query",
			say: (e, n) => `${l(O(n), n)} mean probability, ${d(e - t.after)}`
		}), this.entropy.show({
			name: "Entropy of each query's probabilities",
			values: n,
			first: 0,
			colour: "var(--cool)",
			across: `query position; mean ${l(String(Number(t.entropy.toFixed(2))), t.entropy)} nats`,
			say: (e, t) => `${l(t.toFixed(2), t)} nats${u(t)} at query ${k(e)} ${A(i, e)}`,
			pick: (e) => this.store.set({ query: e }),
			mark: e.query
		}), this.received.show({
			name: "Attention that each key received, summed over queries",
			values: r,
			first: 0,
			log: this.log.checked && !c,
			bars: !0,
			colour: "var(--warm)",
			across: "key position; sum over queries",
			say: (e, t) => `${l(du(t), t)} in all, by key ${k(e)} ${A(a, e)}`,
			pick: (e) => this.go(null, e),
			mark: e.key
		}), this.tables(t, i, a);
	}
	tables(e, t, r) {
		let { layer: i, head: a, b: o } = this.store.get(), { T: s, kind: c, start: l } = n(this.scene, [i, a]), u = Math.abs(e.received[0]?.p ?? 1) || 1;
		this.keys.replaceChildren(...e.received.slice(0, 10).map(({ at: e, p: t }) => {
			let n = S("span", { class: "fill" });
			return n.style.width = `${Math.max(1, 100 * Math.abs(t) / u)}%`, S("tr", {}, S("td", {}, this.token(r, e, () => this.go(null, e))), S("td", { class: "wide" }, n), S("td", { class: "n" }, du(t)), S("td", { class: "n" }, O(t / s)));
		})), this.links.replaceChildren(...e.links.slice(0, 10).map(({ i: e, j: n, p: i }) => {
			let a = () => this.go(e, n), s = c === "self" ? tt(e + (l[o] ?? 0) - n) : "";
			return S("tr", {}, S("td", {}, this.token(t, e, a)), S("td", {}, this.token(r, n, a)), S("td", { class: "n" }, s), S("td", { class: "n" }, O(i)));
		}));
	}
	token(e, t, n) {
		let r = w("", n, { class: "key" });
		return r.append(S("i", {}, String(t)), S("span", {}, A(e, t))), r;
	}
	go(e, t) {
		let r = this.store.get(), { T: i, S: a, kind: o, start: s } = n(this.scene, [r.layer, r.head]), c = Math.min(a, fu), l = o === "self" ? t - (s[r.b] ?? 0) + c / 4 : r.query ?? i / 2, u = Math.min(i - 1, Math.max(0, e ?? l));
		this.store.set({
			key: t,
			...e === null ? {} : { query: e },
			at: [
				t + .5,
				u + .5,
				c
			]
		});
	}
};
function mu(e, t) {
	return S("table", {}, S("thead", {}, S("tr", {}, ...e.map((e) => S("th", { scope: "col" }, e)))), t);
}
// src/scores.ts
var hu = class {
	scene;
	store;
	host;
	unsubscribe;
	constructor(e, t, n) {
		this.host = e, this.scene = t, this.store = n, e.classList.add("scroll"), this.unsubscribe = n.subscribe((e, t) => {
			(e.layer !== t.layer || e.head !== t.head) && this.draw();
		}), this.draw();
	}
	destroy() {
		this.unsubscribe();
	}
	draw() {
		let { layer: e, head: t } = this.store.get(), i = a(this.scene, [e, t]), s = S("p", { class: "name" }, r(this.scene, [e, t]), S("small", {}, ` ${n(this.scene, [e, t]).name}`));
		if (!i) {
			this.host.replaceChildren(s, S("p", { class: "hint" }, "This head was not scored."));
			return;
		}
		let c = o(this.scene, [e, t]), l = this.scene.kinds.filter((e) => i.scores[e.name] !== void 0).map((e) => this.row(e, i)), u = S("p", { class: "hint" }, `Mean entropy ${i.entropy.toFixed(2)} nats. The tick is chance: the score of a head that spreads evenly over the keys it may see.`), d = i.few.length ? S("p", { class: "hint" }, this.scene.tooFew) : null;
		this.host.replaceChildren(...[
			s,
			this.means(c),
			...l,
			u,
			d
		].filter((e) => e !== null)), this.host.toggleAttribute("data-ready", !0);
	}
	means(e) {
		if (!e) return null;
		let t = e.source ? S("small", {}, ` ${e.source}`) : null;
		return S("div", { class: "means" }, hl(e), S("p", {}, S("strong", {}, `${e.title}. `), e.means, t));
	}
	row(e, t) {
		let n = t.scores[e.name] ?? 0, r = t.chance[e.name], i = t.few.includes(e.name), a = S("div", {
			class: `score${e.name === t.kind ? " own" : ""}${i ? " few" : ""}`,
			title: e.means
		}), o = S("span", { class: "value" }, S("b", {}, O(n)), r === void 0 || r >= 1 ? "" : ` · chance ${O(r)}`), s = S("i");
		s.style.width = `${100 * Math.min(1, Math.max(0, n))}%`, e.colour && !i && (s.style.background = e.colour);
		let c = S("div", { class: "score-bar" }, s);
		if (r !== void 0 && r < 1) {
			let e = S("u");
			e.style.left = `${100 * Math.min(1, Math.max(0, r))}%`, c.append(e);
		}
		return a.append(hl(e), S("span", {}, i ? `${e.title} *` : e.title), o, c), a;
	}
}, gu = 60, _u = class {
	known = null;
	refusal = null;
	name;
	transport;
	changed;
	soon = le(gu, () => void this.load());
	wanted = null;
	asked = "";
	loading = new AbortController();
	constructor(e, t, n) {
		this.name = e, this.transport = t, this.changed = n;
	}
	want(e) {
		let t = JSON.stringify(e);
		t !== this.asked && (this.asked = t, this.loading.abort(), this.wanted = e, e === null ? (this.soon.never(), this.known = this.refusal = null, this.changed()) : this.soon.soon());
	}
	destroy() {
		this.soon.never(), this.loading.abort();
	}
	async load() {
		if (this.wanted === null) return;
		let { signal: e } = this.loading = new AbortController();
		try {
			let { meta: t, data: n } = await this.transport.ask(this.name, this.wanted, e);
			if (e.aborted) return;
			this.known = {
				meta: t,
				values: new Float32Array(n)
			}, this.refusal = null;
		} catch (t) {
			if (e.aborted) return;
			this.known = null, this.refusal = t instanceof Error ? t.message : String(t);
		}
		this.changed();
	}
}, vu = {
	light: {
		to: [
			[
				255,
				255,
				255
			],
			[
				120,
				178,
				222
			],
			[
				12,
				74,
				140
			]
		],
		from: [
			[
				255,
				255,
				255
			],
			[
				240,
				168,
				90
			],
			[
				158,
				66,
				8
			]
		]
	},
	dark: {
		to: [
			[
				23,
				27,
				34
			],
			[
				30,
				98,
				156
			],
			[
				142,
				208,
				255
			]
		],
		from: [
			[
				23,
				27,
				34
			],
			[
				150,
				82,
				20
			],
			[
				255,
				198,
				128
			]
		]
	}
}, yu = /* @__PURE__ */ new Map();
function bu(e, t, n) {
	let r = `${e}${t}${n}`, i = yu.get(r);
	if (i) return i;
	let [a, o, s] = vu[e ? "dark" : "light"][t], c = n / 32 * 2, [l, u, d] = c < 1 ? [
		a,
		o,
		c
	] : [
		o,
		s,
		c - 1
	], f = l.map((e, t) => Math.round(e + (u[t] - e) * d));
	return yu.set(r, f), f;
}
function xu(e, t, n, r) {
	for (let i = 0; i < r.length; i++) {
		let a = t > 0 ? Math.abs(e[i] ?? 0) / t : 0;
		r[i] = Math.round(32 * Math.min(1, Math.max(0, n(a))));
	}
}
// src/strip.ts
function Su(e, t, n, r, i) {
	let a = {
		ArrowLeft: -1,
		ArrowRight: 1,
		PageUp: -64,
		PageDown: 64,
		Home: -n,
		End: n
	};
	r > 0 && Object.assign(a, {
		ArrowUp: -r,
		ArrowDown: r
	});
	let o = a[e];
	return o === void 0 ? null : Math.min(n - 1, Math.max(0, (t ?? i) + o));
}
// src/patches.ts
var Cu = 26, wu = 3, Tu = class {
	axis;
	hands;
	canvas;
	host;
	before;
	down;
	across;
	watcher;
	shading = {
		to: null,
		from: null,
		dark: !1
	};
	marks = {
		query: null,
		key: null
	};
	here = null;
	frame = 0;
	constructor(e, t, n, r) {
		this.host = e, this.axis = t, this.hands = r, this.before = t.before ?? 0, this.across = t.width ?? 1, this.down = t.height ?? 1, this.canvas = S("canvas", {
			tabindex: 0,
			role: "application",
			"aria-label": `${n}; arrow keys move`,
			"data-grid": `${this.down}x${this.across}`
		}), e.classList.add("patches"), e.append(this.canvas), this.listen(), this.watcher = new ResizeObserver(() => this.soon()), this.watcher.observe(e);
	}
	destroy() {
		this.watcher.disconnect(), cancelAnimationFrame(this.frame), this.host.replaceChildren();
	}
	shade(e) {
		this.shading = e, this.soon();
	}
	mark(e) {
		this.marks = e, this.here = e.query ?? e.key ?? this.here, this.soon();
	}
	reveal() {}
	soon() {
		cancelAnimationFrame(this.frame), this.frame = requestAnimationFrame(() => this.draw());
	}
	size() {
		let e = this.before > 0 ? 32 : 0, [t, n] = [this.host.clientWidth || 240, (this.host.clientHeight || 240) - e];
		return {
			cell: Math.max(4, Math.floor(Math.min(t / this.across, n / this.down, 40))),
			top: e
		};
	}
	box(e) {
		let { cell: t, top: n } = this.size();
		if (e < this.before) return [
			e * 56,
			0,
			52,
			Cu
		];
		let r = e - this.before;
		return [
			r % this.across * t,
			n + Math.floor(r / this.across) * t,
			t,
			t
		];
	}
	at(e) {
		let t = this.canvas.getBoundingClientRect(), [n, r] = [e.clientX - t.left, e.clientY - t.top], { cell: i, top: a } = this.size();
		if (r < a) {
			let e = Math.floor(n / 56);
			return e < this.before ? e : null;
		}
		let [o, s] = [Math.floor((r - a) / i), Math.floor(n / i)];
		return o >= 0 && o < this.down && s >= 0 && s < this.across ? this.before + o * this.across + s : null;
	}
	listen() {
		this.canvas.addEventListener("pointermove", (e) => this.hands.over(this.at(e))), this.canvas.addEventListener("pointerleave", () => this.hands.over(null)), this.canvas.addEventListener("click", (e) => {
			let t = this.at(e);
			t !== null && (this.here = t, this.hands.pick(t, !0));
		}), this.canvas.addEventListener("keydown", (e) => {
			if (e.key === "Escape") return this.hands.free();
			if (e.altKey || e.ctrlKey || e.metaKey) return;
			let t = Su(e.key, this.here, this.axis.labels.length, this.across, this.before);
			t !== null && (e.preventDefault(), this.here = t, this.hands.pick(t, !0));
		});
	}
	draw() {
		let e = this.canvas.getContext("2d");
		if (!e) return;
		let { cell: t, top: n } = this.size(), r = window.devicePixelRatio || 1, [i, a] = [Math.max(this.across * t, this.before * 56) + 1, n + this.down * t + 1];
		this.canvas.width = Math.round(i * r), this.canvas.height = Math.round(a * r), this.canvas.style.width = `${i}px`, this.canvas.style.height = `${a}px`, e.scale(r, r);
		let o = getComputedStyle(this.host);
		e.font = `11px ${o.fontFamily}`;
		let s = o.getPropertyValue("--line") || "gray";
		for (let t = 0; t < this.axis.labels.length; t++) this.one(e, t, s);
		this.outline(e, this.marks.key, o.getPropertyValue("--warm") || "#b85c00", 2), this.outline(e, this.marks.query, o.getPropertyValue("--ink") || "#000", 2.5);
	}
	one(e, t, n) {
		let [r, i, a, o] = this.box(t), { to: s, from: c, dark: l } = this.shading, u = bu(l, s || !c ? "to" : "from", (s ?? c)?.[t] ?? 0);
		e.fillStyle = T(u), e.fillRect(r, i, a, o), e.strokeStyle = n, e.lineWidth = .5, e.strokeRect(r + .5, i + .5, a, o);
		let d = s && c ? c[t] ?? 0 : 0;
		d > wu && this.other(e, t, d), t >= this.before || (e.fillStyle = we(u), e.fillText(this.axis.labels[t] ?? "", r + 5, i + 16, a - 8));
	}
	other(e, t, n) {
		let [r, i, a, o] = this.box(t);
		if (e.fillStyle = T(bu(this.shading.dark, "from", Math.max(14, n))), t < this.before) return e.fillRect(r + 2, i + o - 4, (a - 4) * n / 32, 3);
		e.beginPath(), e.arc(r + a / 2, i + o / 2, Math.max(1, Math.min(a, o) / 2.6 * Math.sqrt(n / 32)), 0, 2 * Math.PI), e.fill();
	}
	outline(e, t, n, r) {
		if (t === null) return;
		let [i, a, o, s] = this.box(t);
		e.strokeStyle = n, e.lineWidth = r, e.strokeRect(i + .5, a + .5, o, s);
	}
}, Eu = 32;
function Du(e) {
	return /^ +$/.test(e) ? e.replaceAll(" ", "·") : e.split(/(\r\n?|\n|\t| +)/).filter((e) => e !== "").map((e) => /^[\r\n]/.test(e) ? "⏎\n" : e === "	" ? "⇥	" : e.startsWith(" ") ? e : st(e)).join("") || "◌";
}
function Ou(e) {
	let t = [0];
	for (let n = 256; n < e.length; n = t.at(-1) + 256) {
		let r = n, i = () => /^\s/.test(e[r] ?? "") || /\n$/.test(e[r - 1] ?? "");
		for (; r > n - Eu && !i();) r--;
		t.push(i() ? r : n);
	}
	return t;
}
var ku = 0, Au = class {
	prefix = `text${++ku}-`;
	axis;
	special;
	hands;
	host;
	starts;
	blocks = [];
	spans = /* @__PURE__ */ new Map();
	sight;
	shading = {
		to: null,
		from: null,
		dark: !1
	};
	marks = {
		query: null,
		key: null
	};
	here = null;
	constructor(e, t, n, r) {
		this.host = e, this.axis = t, this.hands = r, this.special = new Set(t.special), e.classList.add("running", "scroll"), e.tabIndex = 0, e.setAttribute("role", "listbox"), e.setAttribute("aria-label", n), this.sight = new IntersectionObserver((e) => this.seen(e), {
			root: e,
			rootMargin: "400px 0px"
		}), this.starts = Ou(t.labels);
		for (let t of this.starts) {
			let n = S("div", {
				class: "block",
				role: "presentation",
				"data-from": t
			});
			n.style.minHeight = `${this.guess(t)}px`, this.blocks.push(n), e.append(n), this.sight.observe(n);
		}
		this.listen();
	}
	destroy() {
		this.sight.disconnect(), this.host.replaceChildren();
	}
	shade(e) {
		this.shading = e;
		for (let [e, t] of this.spans) this.colour(e, t);
	}
	mark(e) {
		let t = this.marks;
		this.marks = e;
		for (let n of /* @__PURE__ */ new Set([
			t.query,
			t.key,
			e.query,
			e.key
		])) {
			let e = n === null ? void 0 : this.spans.get(n);
			n !== null && e && this.outline(n, e);
		}
		this.here = e.query ?? e.key ?? this.here;
		let n = this.here === null ? void 0 : this.spans.get(this.here);
		n ? this.host.setAttribute("aria-activedescendant", n.id) : this.host.removeAttribute("aria-activedescendant");
	}
	reveal(e, t = 3) {
		let n = this.blocks[this.starts.findLastIndex((t) => t <= e)];
		if (!n) return;
		this.fill(n);
		let r = this.spans.get(e);
		if (!r || this.host.clientHeight === 0) return;
		let [i, a] = [r.getBoundingClientRect(), this.host.getBoundingClientRect()];
		i.top >= a.top && i.bottom <= a.bottom || (this.host.scrollTop += i.top - a.top - this.host.clientHeight / 2, t > 0 && requestAnimationFrame(() => requestAnimationFrame(() => this.reveal(e, t - 1))));
	}
	listen() {
		let e = (e) => {
			let t = e.target?.closest?.("[data-token]")?.dataset.token;
			return t === void 0 ? null : Number(t);
		};
		this.host.addEventListener("pointerover", (t) => {
			let n = e(t);
			n !== null && t.pointerType !== "touch" && this.hands.over(n);
		}), this.host.addEventListener("pointerleave", () => this.hands.over(null)), this.host.addEventListener("click", (t) => {
			let n = e(t);
			n !== null && (this.here = n, this.hands.pick(n, !0));
		}), this.host.addEventListener("keydown", (e) => {
			if (e.key === "Escape") return this.hands.free();
			if (e.altKey || e.ctrlKey || e.metaKey) return;
			let t = {
				ArrowUp: this.vertical(-1),
				ArrowDown: this.vertical(1)
			}[e.key] ?? Su(e.key, this.here, this.axis.labels.length, 0, this.first());
			t != null && (e.preventDefault(), this.here = t, this.reveal(t), this.hands.pick(t, !0));
		});
	}
	vertical(e) {
		let t = this.here === null ? void 0 : this.spans.get(this.here);
		if (!t || this.here === null) return null;
		let n = t.getBoundingClientRect(), r = n.left + n.width / 2, i = parseFloat(getComputedStyle(this.host).lineHeight) || 22;
		for (let t = 1; t < 400; t++) {
			let a = this.spans.get(this.here + e * t);
			if (!a) return null;
			let o = a.getBoundingClientRect(), s = (o.top - n.top) * e;
			if (s > i * .6 && (e > 0 ? o.right >= r : o.left <= r)) return this.here + e * t;
			if (s > i * 1.6) return this.here + e * (t - 1);
		}
		return null;
	}
	first() {
		return Number(this.blocks.find((e) => e.childElementCount > 0)?.dataset.from ?? 0);
	}
	end(e) {
		return this.starts[this.starts.indexOf(e) + 1] ?? this.axis.labels.length;
	}
	guess(e) {
		let t = 0;
		for (let n = e; n < this.end(e); n++) t += (this.axis.labels[n] ?? "").length || 1;
		return Math.ceil(t / 44) * 22;
	}
	seen(e) {
		for (let { target: t, isIntersecting: n, boundingClientRect: r } of e) {
			let e = t;
			n ? this.fill(e) : e.childElementCount > 0 && this.empty(e, r.height);
		}
	}
	fill(e) {
		if (e.childElementCount > 0) return;
		let t = Number(e.dataset.from), n = document.createDocumentFragment(), r = S("span", {
			class: "position",
			"aria-hidden": "true"
		}, String(t));
		n.append(r);
		for (let e = t; e < this.end(t); e++) {
			let t = Du(this.axis.labels[e] ?? ""), r = t.replace(/\n$/, ""), i = S("span", {
				class: "token",
				role: "option",
				id: `${this.prefix}${e}`,
				"data-token": e,
				"aria-selected": "false"
			}, r);
			this.special.has(e) && i.classList.add("special"), this.spans.set(e, i), this.colour(e, i), this.outline(e, i), n.append(i, t.slice(r.length));
		}
		e.append(n), e.style.minHeight = "";
	}
	empty(e, t) {
		let n = Number(e.dataset.from);
		for (let e = n; e < this.end(n); e++) this.spans.delete(e);
		t > 0 && (e.style.minHeight = `${t}px`), e.replaceChildren();
	}
	colour(e, t) {
		let { to: n, from: r, dark: i } = this.shading, [a, o] = [n?.[e] ?? 0, r?.[e] ?? 0], s = `${a} ${o} ${i}`;
		if (t.dataset.shade === s) return;
		t.dataset.shade = s;
		let c = o > a ? "from" : "to", l = Math.max(a, o), u = bu(i, c, l);
		t.style.background = l > 0 ? T(u) : "", t.style.color = l > 0 ? we(u) : "", t.style.boxShadow = a > 0 && o > 0 ? `inset 0 -3px ${T(bu(i, c === "to" ? "from" : "to", Math.max(12, Math.min(a, o))))}` : "";
	}
	outline(e, t) {
		t.classList.toggle("at-query", e === this.marks.query), t.classList.toggle("at-key", e === this.marks.key), t.setAttribute("aria-selected", String(e === this.marks.query || e === this.marks.key));
	}
}, ju = [
	["to", "attends to"],
	["from", "attended by"],
	["both", "both"]
], Mu = 6, Nu = .01, Pu = [
	"run",
	"minus",
	"layer",
	"head",
	"b",
	"scale",
	"hide",
	"query",
	"key",
	"chosen",
	"theme",
	"panel"
], Fu = class {
	scene;
	store;
	host;
	row;
	column;
	strips = S("div", { class: "strips" });
	looks = Pl("What is shaded", ju, (e) => {
		this.look = e, this.ask(), this.soon();
	});
	mean = S("span", { class: "mean" });
	said = S("div", { class: "said" });
	unsubscribe;
	queries = null;
	keys = null;
	built = "";
	look = "to";
	over = {
		query: null,
		key: null
	};
	held = !1;
	frame = 0;
	constructor(e, t, n, r) {
		this.host = e, this.scene = t, this.store = n, this.row = new _u("row", r, () => this.soon()), this.column = new _u("column", r, () => this.soon()), e.append(S("div", { class: "bar" }, this.looks.node, this.mean), this.said, this.strips), this.unsubscribe = n.subscribe((e, t) => this.changed(e, t)), this.build(), this.ask(), this.paint(), requestAnimationFrame(() => this.reveal(n.get()));
	}
	destroy() {
		this.unsubscribe(), this.row.destroy(), this.column.destroy(), this.queries?.destroy(), this.keys?.destroy(), cancelAnimationFrame(this.frame);
	}
	paint() {
		this.soon();
	}
	layer() {
		let { layer: e, head: t } = this.store.get();
		return n(this.scene, [e, t]);
	}
	axes() {
		let { b: e } = this.store.get(), t = this.layer();
		return [this.scene.axes[t.rows[e]], this.scene.axes[t.cols[e]]];
	}
	get one() {
		return this.keys === null;
	}
	build() {
		let [e, t] = this.axes(), { b: n } = this.store.get(), r = this.layer(), i = `${r.rows[n]} ${r.cols[n]}`;
		if (i === this.built) return;
		this.built = i, this.queries?.destroy(), this.keys?.destroy(), this.strips.replaceChildren(), this.over = {
			query: null,
			key: null
		};
		let a = e !== t;
		this.strips.classList.toggle("two", a), this.looks.node.hidden = a, this.queries = this.strip(e, a ? "Queries" : e.kind === "grid" ? "Patches" : "Text", a, "query"), this.keys = a ? this.strip(t, "Keys", a, "key") : null;
	}
	strip(e, t, n, r) {
		let i = S("div"), a = n ? S("h3", {}, t, S("small", {}, ` ${e.name}`)) : null;
		this.strips.append(S("div", {
			class: "strip",
			"data-side": r
		}, a, i));
		let o = {
			over: (e) => {
				this.held && this.over[r] === null || (this.over = {
					...this.over,
					[r]: e
				}, this.ask(), this.soon());
			},
			pick: (e, t) => this.pick(r, e, t),
			free: () => {
				this.one && this.look !== "from" || this.store.set({ key: null }), this.held = !1, this.over = {
					query: null,
					key: null
				}, this.ask(), this.soon();
			}
		}, s = `${t}: ${e.name}`;
		return e.kind === "grid" ? new Tu(i, e, s, o) : new Au(i, e, s, o);
	}
	pick(e, t, n) {
		let r = this.one && this.look === "from" ? "key" : e, i = this.held && this.store.get()[r] === t;
		this.held = n && !i, this.over = {
			query: null,
			key: null
		}, this.store.set({ [r]: t }), this.ask(), this.soon();
	}
	changed(e, t) {
		Pu.some((n) => e[n] !== t[n]) && (this.build(), this.ask(), this.soon(), (e.query !== t.query || e.key !== t.key) && (this.held = !0, this.reveal({
			query: e.query === t.query ? null : e.query,
			key: e.key === t.key ? null : e.key
		})));
	}
	reveal({ query: e, key: t }) {
		e !== null && this.queries?.reveal(e), t !== null && (this.keys || e === null) && (this.keys ?? this.queries)?.reveal(t);
	}
	asked() {
		let { query: e, key: t } = this.store.get();
		if (!this.one) return {
			query: this.over.query ?? e,
			key: this.over.key ?? t
		};
		let n = this.over.query;
		return {
			query: this.look === "from" ? null : n ?? e,
			key: this.look === "to" ? null : this.look === "both" ? n ?? e : n ?? t ?? e
		};
	}
	ask() {
		let t = this.store.get();
		if (t.panel === "profile" || t.panel === "scores" && this.scene.heads) return;
		let n = c(this.scene, t), r = (n.length ? n : [[t.layer, t.head]]).map(e).join(","), i = {
			run: t.run,
			...t.minus === null ? {} : { minus: t.minus },
			heads: r,
			b: t.b
		}, { query: a, key: o } = this.asked();
		this.row.want(a === null ? null : {
			...i,
			i: a
		}), this.column.want(o === null ? null : {
			...i,
			j: o
		});
	}
	soon() {
		cancelAnimationFrame(this.frame), this.frame = requestAnimationFrame(() => this.draw());
	}
	draw() {
		let e = this.store.get(), [t, n] = this.axes();
		this.looks.show(this.look), this.sayMean(e);
		let r = e.hide ? this.layer().sink[e.b] ?? null : null, i = this.row.known, a = this.column.known, o = this.shading(i, n.labels.length, r, e, "to"), s = this.shading(a, t.labels.length, null, e, "from");
		this.one ? this.queries?.shade({
			...o,
			from: s.from ?? o.from,
			to: o.to ?? s.to
		}) : (this.queries?.shade(s), this.keys?.shade(o));
		let { query: c, key: l } = this.asked();
		this.queries?.mark({
			query: c ?? (this.one ? null : e.query),
			key: this.one ? this.look === "both" ? e.key : l ?? e.key : null
		}), this.keys?.mark({
			query: null,
			key: l
		}), this.say(i, a, c, l, r), this.host.toggleAttribute("data-ready", i !== null || a !== null);
	}
	shading(e, t, n, r, i) {
		let a = {
			to: null,
			from: null,
			dark: Te(r)
		};
		if (!e) return a;
		let { values: o } = e;
		n !== null && ((o = o.slice())[n] = 0);
		let s = 0;
		for (let e of o) s = Math.max(s, Math.abs(e));
		let c = Ce[r.scale], l = (e) => {
			let n = new Uint8Array(t);
			return xu(e, s, c, n), n;
		};
		return r.minus === null || this.look === "both" ? {
			...a,
			[i]: l(o)
		} : {
			...a,
			to: l(o.map((e) => Math.min(0, e))),
			from: l(o.map((e) => Math.max(0, e)))
		};
	}
	sayMean(t) {
		let n = c(this.scene, t);
		if (n.length === 0) return this.mean.replaceChildren();
		let r = n.map(e), i = r.length > 4 ? `${r.slice(0, 4).join(", ")} …` : r.join(", ");
		this.mean.replaceChildren(`mean of ${n.length} head${n.length > 1 ? "s" : ""}: ${i} `, w("clear", () => this.store.set({ chosen: [] }), { class: "quiet" }));
	}
	say(e, t, n, r, i) {
		let [a, o] = this.axes(), s = [], c = n !== null && this.row.refusal || r !== null && this.column.refusal || null;
		e && n !== null && s.push(this.list(e, a, n, "attends to", o, "to", n, i)), t && r !== null && s.push(this.list(t, o, r, "is attended by", a, "from", r, null)), c && s.push(S("p", {
			class: "hint",
			role: "status"
		}, c)), s.length === 0 && n === null && r === null && s.push(S("p", { class: "hint" }, "Point at a token, or click one to hold it.")), (s.length > 0 || c) && this.said.replaceChildren(...s);
	}
	list(e, t, n, r, i, a, o, s) {
		let c = t.kind === "grid" ? "Patch" : "Token", l = S("p", { class: `from-${a}` }, `${c} ${n} `, S("q", {}, A(t, n)), ` ${r}`);
		e.meta.whole || l.append(S("small", {}, " (the largest only)")), this.held && (a === "to" || this.look === "from" || !this.one) && l.append(S("small", {}, " held, Esc frees"));
		let u = S("div", { class: "keys-list" }), { b: d } = this.store.get(), f = this.layer().start[d] ?? 0, p = e.meta.top.filter((e) => e.at !== s && e.p !== 0), m = Math.abs(p[0]?.p ?? 0) * Nu, h = p.filter((e) => Math.abs(e.p) >= m).slice(0, Mu);
		for (let { at: e, p: t } of h) {
			let n = a === "to" ? o + f - e : e + f - o, r = w("", () => this.store.set(a === "to" ? { key: e } : { query: e }), {
				class: "key",
				title: `position ${e}`
			});
			r.append(S("span", {}, A(i, e))), this.layer().kind === "self" && i.kind === "tokens" && r.append(S("i", {}, tt(n))), r.append(S("b", {}, this.store.get().minus !== null && t > 0 ? `+${O(t)}` : O(t))), u.append(r);
		}
		return h.length === 0 && u.append(S("p", { class: "hint" }, this.store.get().minus === null ? "nothing" : "nothing that differs")), S("div", { class: "list" }, l, u);
	}
}, Iu = 256, Lu = 6, Ru = 2, zu = 3e3, Bu = class {
	transport;
	scene;
	changed;
	refusal = null;
	tiles;
	flights = /* @__PURE__ */ new Map();
	wishes = /* @__PURE__ */ new Map();
	refused = new Oe(4096);
	levels = new Oe(1024);
	constructor(e, t, n, r = Iu) {
		this.transport = e, this.scene = t, this.changed = n, this.tiles = new Oe(r);
	}
	get size() {
		return this.tiles.size;
	}
	get saved() {
		return this.scene.saved !== null;
	}
	get asked() {
		return [...this.flights.keys()];
	}
	coarsest(e) {
		let t = this.scene.layers[e.layer];
		return Ge(t.T, t.S);
	}
	get(e, t, n, r) {
		return this.tiles.get(Vu(e, t, n, r));
	}
	isRefused(e, t, n, r) {
		return this.isBarred(Vu(e, t, n, r));
	}
	lack(e, t) {
		return this.levels.get(Hu(e, t)) || null;
	}
	want(e, t) {
		t.length ? this.wishes.set(e, t) : this.wishes.delete(e);
		let n = /* @__PURE__ */ new Set();
		for (let e of this.wishes.values()) for (let t of e) n.add(Uu(t));
		for (let [e, t] of this.flights) n.has(e) || (this.flights.delete(e), t.abort.abort());
		this.ask();
	}
	isBarred(e) {
		let t = this.refused.get(e);
		return t !== void 0 && Date.now() < t;
	}
	ask() {
		let e = [...this.wishes.values()].map((e) => e.filter((e) => this.isMissing(e)));
		for (let t of [!1, !0]) {
			let n = e.map((e) => e.filter((e) => e.idle === t)), r = Math.max(0, ...n.map((e) => e.length));
			for (let e = 0; e < r; e++) for (let r of n) e < r.length && this.hasRoom(t) && this.start(r[e]);
		}
	}
	isMissing(e) {
		let t = Uu(e);
		return !this.tiles.has(t) && !this.flights.has(t) && !this.isBarred(t);
	}
	hasRoom(e) {
		return e ? this.flights.size < Ru && [...this.flights.values()].every((e) => e.idle) : this.flights.size < Lu;
	}
	start({ shown: e, z: t, r: n, c: r, idle: i }) {
		let a = Vu(e, t, n, r);
		if (this.flights.has(a)) return;
		let o = {
			abort: new AbortController(),
			idle: i
		};
		this.flights.set(a, o);
		let { signal: s } = o.abort;
		(t === null ? this.transport.ask("preview", e, s) : this.transport.ask("tile", {
			...e,
			z: t,
			r: n,
			c: r
		}, s)).then(({ meta: n, data: r }) => {
			this.landed(a, o) && (this.tiles.set(a, Wu(n, r)), t !== null && this.levels.set(Hu(e, t), ""), this.refusal = null, this.changed(), this.ask());
		}, (n) => {
			if (!this.landed(a, o)) return;
			let r = n instanceof E;
			this.refused.set(a, r ? 1e400 : Date.now() + zu), r && t !== null && !this.levels.has(Hu(e, t)) && this.levels.set(Hu(e, t), n.message), i || (this.refusal = r ? n.message : "The page can not reach its pattern; it will try again."), r || setTimeout(() => this.changed(), zu), this.changed(), this.ask();
		});
	}
	landed(e, t) {
		return this.flights.get(e) === t && (this.flights.delete(e), !0);
	}
};
function Vu(e, t, n, r) {
	return t === null ? Ae("preview", { ...e }) : Ae("tile", {
		...e,
		z: t,
		r: n,
		c: r
	});
}
function Hu(e, t) {
	return Ae("level", {
		...e,
		z: t
	});
}
function Uu({ shown: e, z: t, r: n, c: r }) {
	return Vu(e, t, n, r);
}
function Wu(e, t) {
	let n = new Float32Array(t), r = 0;
	for (let e of n) {
		let t = Math.abs(e);
		t > r && (r = t);
	}
	return {
		...e,
		data: n,
		most: r
	};
}
// src/app.ts
var Gu = 200, Ku = class {
	node = S("div", { class: "app" });
	scene;
	store;
	notices = new Kl();
	parts = [];
	undo = [];
	address;
	put = le(Gu, () => this.address?.put(this.store.get()));
	maps = S("div", { class: "maps" });
	transport;
	tiles;
	tabs = /* @__PURE__ */ new Map();
	keys = Vl();
	first = null;
	beside = null;
	constructor(e, t, n, r) {
		e.replaceChildren(this.node), this.scene = t;
		let { state: i, says: a } = r.hash ? oe(r.hash, t) : {
			state: p(t),
			says: null
		};
		this.store = new f(i), this.transport = new ql(n, (e) => this.notices.lost(e.message, () => r.again(ae(this.store.get(), t)))), this.tiles = new Bu(this.transport, t, () => this.paintMaps()), this.address = r.address ? new se(t, (e, t) => this.follow(e, t)) : null, this.build(r.address), this.undo.push(this.store.subscribe((e, t) => this.changed(e, t)));
		let o = matchMedia("(prefers-color-scheme: dark)"), s = () => this.theme();
		o.addEventListener("change", s), this.undo.push(() => o.removeEventListener("change", s)), a && this.wrong(a);
	}
	destroy() {
		this.put.never(), this.address?.destroy(), this.first?.destroy(), this.beside?.destroy();
		for (let e of this.undo) e();
		for (let e of this.parts) e.destroy();
		this.node.remove();
	}
	build(e) {
		let { scene: t, store: n, transport: r } = this, i = S("section", {
			class: "panel overview",
			"aria-label": "Heads"
		}), a = S("section", {
			class: "panel map",
			"aria-label": "Attention pattern"
		}), o = S("section", {
			class: "panel side",
			"aria-label": "Text and numbers"
		}), s = S("div", {
			class: "toolbar",
			role: "group",
			"aria-label": "How the map is drawn"
		});
		a.append(s, this.maps), this.theme(), this.node.append(this.header(e), this.notices.node, S("div", { class: "panels" }, i, a, o), this.keys), this.parts.push(new eu(i, t, n, r, (e) => this.notices.tell(e))), this.undo.push(zl(s, t, n)), this.first = new _l(this.maps, t, n, this.tiles, ({ layer: e, head: t }) => [e, t], (e) => this.notices.tell(e)), this.side(o), this.besideOf(n.get()), this.node.addEventListener("keydown", (e) => this.key(e));
	}
	header(e) {
		let { scene: t } = this, n = S("dl", { class: "facts" });
		for (let [e, r] of t.facts) n.append(S("div", {}, S("dt", {}, e), S("dd", {}, r)));
		let r = S("div", {
			class: "page-controls",
			role: "group",
			"aria-label": "Page"
		});
		this.undo.push(Rl(r, t, this.store, {
			link: e ? () => void this.link() : null,
			keys: () => this.keys.showModal()
		}));
		let i = t.saved ? S("p", { class: "saved" }, t.saved.says, ...t.saved.heads.length ? [
			" In full: the heads with a dot ",
			S("i", { class: "dot" }),
			"."
		] : []) : null;
		return S("header", {}, S("div", { class: "title" }, S("h1", {}, t.title), S("p", { class: "subtitle" }, t.subtitle)), n, r, i);
	}
	side(e) {
		let { scene: t, store: n, transport: r } = this, i = [["text", "Text"], ["profile", "Profile"]];
		t.heads && i.push(["scores", "Scores"]);
		let a = S("div", {
			class: "tabs",
			role: "tablist",
			"aria-label": "Text and numbers"
		});
		e.append(a);
		for (let [t, r] of i) {
			let i = S("div", {
				class: `tab-panel ${t}-panel`,
				role: "tabpanel",
				id: `panel-${t}`,
				"aria-labelledby": `tab-${t}`
			}), o = w(r, () => n.set({ panel: t }), {
				role: "tab",
				id: `tab-${t}`,
				"aria-controls": `panel-${t}`
			});
			this.tabs.set(t, {
				tab: o,
				panel: i
			}), a.append(o), e.append(i);
		}
		a.addEventListener("keydown", (e) => {
			let t = {
				ArrowLeft: -1,
				ArrowRight: 1
			}[e.key];
			if (t === void 0) return;
			let r = i.map(([e]) => e), a = r[(r.indexOf(this.panel()) + t + r.length) % r.length];
			n.set({ panel: a }), this.tabs.get(a)?.tab.focus();
		});
		let o = (e) => this.tabs.get(e)?.panel;
		this.parts.push(new Fu(o("text"), t, n, r), new pu(o("profile"), t, n, r)), t.heads && this.parts.push(new hu(o("scores"), t, n)), this.showTab();
	}
	panel() {
		let { panel: e } = this.store.get();
		return this.tabs.has(e) ? e : "text";
	}
	showTab() {
		let e = this.panel();
		for (let [t, { tab: n, panel: r }] of this.tabs) n.setAttribute("aria-selected", String(t === e)), n.tabIndex = t === e ? 0 : -1, r.hidden = t !== e;
	}
	changed(e, t) {
		this.put.soon(), e.panel !== t.panel && this.showTab(), e.theme !== t.theme && this.theme(), e.beside === null != (t.beside === null) && this.besideOf(e);
	}
	besideOf(e) {
		if (this.node.classList.toggle("two", e.beside !== null), e.beside === null) {
			this.beside?.destroy(), this.beside = null;
			return;
		}
		if (this.beside) return;
		let t = w("⇄", () => this.swap(), {
			class: "icon",
			"aria-label": "Swap the maps",
			title: "Swap the maps"
		}), n = w("×", () => this.store.set({ beside: null }), {
			class: "icon",
			"aria-label": "Close this map",
			title: "Close this map"
		});
		this.beside = new _l(this.maps, this.scene, this.store, this.tiles, (e) => e.beside, (e) => this.notices.tell(e), [t, n]);
	}
	swap() {
		let e = this.store.get();
		e.beside && this.store.set({
			...l(this.scene, e, e.beside),
			beside: [e.layer, e.head]
		});
	}
	paintMaps() {
		this.first?.map.paint(), this.beside?.map.paint();
	}
	theme() {
		this.node.toggleAttribute("data-dark", Te(this.store.get()));
		for (let e of this.parts) e.paint?.();
		this.paintMaps();
	}
	follow(e, t) {
		this.store.set(e), t ? this.wrong(t) : this.notices.quiet();
	}
	wrong(e) {
		this.notices.tell(e), this.put.soon();
	}
	async link() {
		this.put.now();
		try {
			await navigator.clipboard.writeText(location.href), this.notices.tell("The link is on the clipboard; it opens with just this.");
		} catch {
			this.notices.tell("The browser keeps its clipboard to itself; the link is in the address bar.");
		}
	}
	key(e) {
		if (e.composedPath()[0] instanceof HTMLSelectElement || e.ctrlKey || e.metaKey || e.altKey || this.keys.open) return;
		e.key === "?" && this.keys.showModal();
		let t = {
			"[": -1,
			"]": 1
		}[e.key];
		if (t === void 0) return;
		let n = this.store.get(), r = wl(this.scene), i = r[r.findIndex(([e, t]) => e === n.layer && t === n.head) + t];
		i && this.store.set(l(this.scene, n, i));
	}
};
// src/packed.ts
function qu(e) {
	let t = atob(e), n = new Uint8Array(t.length);
	for (let e = 0; e < t.length; e++) n[e] = t.charCodeAt(e);
	return n;
}
async function Ju(e) {
	let t = new DecompressionStream("deflate-raw"), n = t.writable.getWriter();
	return n.write(qu(e)).catch(() => {}), n.close().catch(() => {}), new Response(t.readable).arrayBuffer();
}
// src/saved.ts
var Yu = 32 * 2 ** 20, Xu = 12;
function Zu(e, t = Xu) {
	let n = [], r = 0;
	for (let i = 0; i < e.length; i++) {
		let a = e[i];
		if (Math.abs(a) <= r) continue;
		let o = n.length;
		for (; o > 0 && Math.abs(n[o - 1].p) < Math.abs(a);) o--;
		n.splice(o, 0, {
			at: i,
			p: a
		}), n.length > t && n.pop(), n.length === t && (r = Math.abs(n[t - 1].p));
	}
	return n;
}
var Qu = class {
	file;
	says;
	kept = /* @__PURE__ */ new Map();
	sizes = /* @__PURE__ */ new Map();
	tops = /* @__PURE__ */ new Map();
	held = 0;
	constructor(e) {
		this.file = e, this.says = e.scene.saved?.says ?? "This saved file does not hold that.";
	}
	async ask(e, t, n) {
		let r = await this.find(e, t);
		return n?.throwIfAborted(), r;
	}
	async find(e, t) {
		if (e === "scene") return {
			meta: this.file.scene,
			data: /* @__PURE__ */ new ArrayBuffer(0)
		};
		let n = e === "tile" && t.z === 0 ? { pool: "mean" } : {}, r = Ae(e, {
			...t,
			...n
		}), i = this.file.answers[r];
		if (i) return {
			meta: i.meta,
			data: await this.decode(r)
		};
		if (e === "row") return this.line(t, "row", t.i);
		if (e === "column") return this.line(t, "column", t.j);
		throw new E(this.says);
	}
	decode(e) {
		let t = this.kept.get(e);
		if (t) return this.kept.delete(e), this.kept.set(e, t), t;
		let { data: n } = this.file.answers[e], r = Ju(n).then((t) => (this.sizes.set(e, t.byteLength), this.held += t.byteLength, this.forget(), t));
		return this.kept.set(e, r), r;
	}
	forget() {
		for (let e of [...this.kept.keys()]) {
			let t = this.sizes.get(e);
			if (this.held <= Yu || this.kept.size === 1) return;
			t !== void 0 && (this.sizes.delete(e), this.kept.delete(e), this.held -= t);
		}
	}
	async line(e, t, n) {
		let r = e.heads.split(","), i = null, a = !0;
		for (let o of r) {
			let [r, s] = o.split(".").map(Number), c = (this.file.scene.saved?.heads.includes(o) ?? !1) && await this.fromTiles(e, r, s, t, n) || await this.fromTop(e, r, s, t, n);
			if (c.whole || (a = !1), i === null) i = c.values;
			else for (let e = 0; e < i.length; e++) i[e] = i[e] + (c.values[e] ?? 0);
		}
		if (i === null) throw new E(this.says);
		if (r.length > 1) for (let e = 0; e < i.length; e++) i[e] = i[e] / r.length;
		return {
			meta: {
				top: Zu(i),
				whole: a
			},
			data: i.buffer
		};
	}
	async fromTiles(e, t, n, r, i) {
		let { run: a, minus: o, b: s } = e, { T: c, S: l } = this.layer(t), u = r === "row" ? l : c, d = new Float32Array(u), f = Math.floor(i / 256);
		for (let e = 0; e * 256 < u; e++) {
			let [c, l] = r === "row" ? [f, e] : [e, f], u = Ae("tile", {
				run: a,
				minus: o,
				layer: t,
				head: n,
				b: s,
				pool: "mean",
				hide: 0,
				norm: 0,
				z: 0,
				r: c,
				c: l
			});
			if (!(u in this.file.answers)) return null;
			let { w: p, h: m } = this.file.answers[u]?.meta, h = new Float32Array(await this.decode(u)), g = i % 256;
			if (r === "row") d.set(h.subarray(g * p, (g + 1) * p), e * 256);
			else for (let t = 0; t < m; t++) d[e * 256 + t] = h[t * p + g];
		}
		return {
			values: d,
			whole: !0
		};
	}
	async fromTop(e, t, n, r, i) {
		let a = e.run === 0 && e.minus === void 0 ? await this.top(e.b) : null;
		if (!a || r === "row" && i < a.first) throw new E(this.says);
		let { T: o, S: s } = this.layer(t), c = new Float32Array(r === "row" ? s : o), l = (this.file.scene.layers.slice(0, t).reduce((e, { heads: t }) => e + t, 0) + n) * a.queries * a.k;
		if (r === "row") {
			let e = l + (i - a.first) * a.k;
			for (let t = e; t < e + a.k; t++) {
				let e = a.keys[t] ?? -1;
				e >= 0 && e < s && (c[e] = Math.max(c[e], a.p[t]));
			}
		} else for (let e = 0; e < a.queries * a.k; e++) {
			let t = a.first + Math.floor(e / a.k);
			a.keys[l + e] === i && t < o && (c[t] = Math.max(c[t], a.p[l + e]));
		}
		return {
			values: c,
			whole: !1
		};
	}
	top(e) {
		let t = this.file.topKeys?.[String(e)];
		if (!t) return null;
		let n = this.tops.get(e);
		if (n) return n;
		let r = this.file.scene.layers.reduce((e, t) => e + t.heads, 0), i = Promise.all([Ju(t.keys), Ju(t.p)]).then(([e, n]) => ({
			k: t.k,
			first: t.first,
			queries: Math.floor(e.byteLength / 4 / (r * t.k)),
			keys: new Int32Array(e),
			p: new Float32Array(n)
		}));
		return this.tops.clear(), this.tops.set(e, i), i;
	}
	layer(e) {
		let t = this.file.scene.layers[e];
		if (!t) throw new E(this.says);
		return t;
	}
}, $u = ":host{height:100%;display:block;container-type:inline-size}.app,.wait{--page:#f4f5f8;--card:#fff;--ink:#1a1f27;--soft:#5b6675;--line:#d9dee6;--faint:#eef1f5;--accent:#0b62b8;--on-accent:#fff;--cool:#1f6cb0;--warm:#b85c07;--bar:#6b7787;--alert:#fdf0e3;--mono:ui-monospace, \"SF Mono\", \"Cascadia Mono\", \"DejaVu Sans Mono\", Menlo, Consolas, monospace;--lightningcss-light:initial;--lightningcss-dark: ;color-scheme:light;color:var(--ink);background:var(--page);font-variant-numeric:tabular-nums;font:13px/1.45 system-ui,Segoe UI,Roboto,Noto Sans,DejaVu Sans,sans-serif}.app[data-dark]{--page:#0e1116;--card:#171b22;--ink:#e8ecf2;--soft:#98a4b3;--line:#2f3743;--faint:#1f252e;--accent:#6cb4ff;--on-accent:#06121f;--cool:#6cb4ff;--warm:#f39a3c;--bar:#98a4b3;--alert:#33230f;--lightningcss-light: ;--lightningcss-dark:initial;color-scheme:dark}*,:before,:after{box-sizing:border-box}[hidden]{display:none!important}.app{flex-direction:column;height:100%;min-height:0;display:flex;overflow:hidden}.wait{height:100%;margin:0;padding:48px}h1,h2,h3,p,dl,dd,figure{margin:0}h1{letter-spacing:-.01em;overflow-wrap:anywhere;font-size:17px;line-height:1.25}h2{overflow-wrap:anywhere;font-size:14px;line-height:1.3}h3{font-size:12px;line-height:1.3}small,.hint,.subtitle{color:var(--soft);font-size:12px;font-weight:400}.hint{overflow-wrap:anywhere;line-height:1.4}:focus-visible{outline:2px solid var(--accent);outline-offset:1px}kbd{font:inherit;border:1px solid var(--line);color:var(--ink);background:var(--card);border-bottom-width:2px;border-radius:4px;padding:0 4px;font-size:11px}button,select{font:inherit;color:inherit;font-size:12px}button{cursor:pointer;background:var(--card);border:1px solid var(--line);border-radius:6px;min-height:26px;padding:2px 9px}button:hover,select:hover{border-color:var(--soft)}button[aria-pressed=true]{background:var(--accent);border-color:var(--accent);color:var(--on-accent)}button.icon{flex:none;width:26px;padding:0;line-height:1}button.quiet{color:var(--accent);background:0 0;border-color:#0000;min-height:22px;padding:0 4px}select{background:var(--card);border:1px solid var(--line);border-radius:6px;max-width:170px;min-height:26px;padding:2px 4px}input[type=checkbox]{accent-color:var(--accent);vertical-align:-2px;margin:0 5px 0 0}.pick,.check{color:var(--soft);white-space:nowrap;align-items:center;gap:6px;font-size:12px;display:inline-flex}.check{color:var(--ink);gap:0}.pick select{color:var(--ink)}.segments{border:1px solid var(--line);background:var(--card);border-radius:6px;flex:none;display:inline-flex}.segments label{color:var(--ink);cursor:pointer;display:flex;position:relative}.segments input{opacity:0;cursor:pointer;margin:0;position:absolute;inset:0}.segments span{background:0 0;border:0;border-radius:5px;min-height:24px;padding:3px 9px;font-size:12px;line-height:18px;display:block}.segments label:hover span{background:var(--faint)}.segments input:checked+span{background:var(--accent);color:var(--on-accent)}.segments input:focus-visible+span{outline:2px solid var(--accent);outline-offset:2px}header{flex-wrap:wrap;flex:none;align-items:center;gap:6px 28px;padding:10px 14px 8px;display:flex}.title{flex:300px;min-width:0}.subtitle{overflow-wrap:anywhere;-webkit-line-clamp:2;-webkit-box-orient:vertical;display:-webkit-box;overflow:hidden}.facts{flex-wrap:wrap;gap:2px 20px;display:flex}.facts dt{color:var(--soft);font-size:11px;line-height:1.3}.facts dd{font-weight:600;line-height:1.3}.page-controls{flex-wrap:wrap;align-items:center;gap:6px 8px;display:flex}.saved{color:var(--soft);border-left:3px solid var(--warm);flex-basis:100%;padding-left:8px;font-size:12px}.dot{background:var(--ink);vertical-align:1px;border-radius:50%;width:6px;height:6px;display:inline-block}.notices{flex:none;position:relative}.banner,.notice{border:1px solid var(--warm);background:var(--alert);overflow-wrap:anywhere;border-radius:8px;align-items:center;gap:12px;margin:0 14px 8px;padding:6px 6px 6px 12px;display:flex}.banner span,.notice span{flex:1;min-width:0}.panels{flex:1;gap:10px;min-height:0;padding:0 14px 14px;display:grid;overflow:auto}.panel{background:var(--card);border:1px solid var(--line);border-radius:10px;flex-direction:column;gap:8px;min-width:0;min-height:0;padding:10px 12px;display:flex}.overview{grid-area:heads}.panel.map{grid-area:map}.side{grid-area:side}.panel-head{flex:none;align-items:center;gap:10px;min-height:26px;display:flex}.panel-head h2{white-space:nowrap;flex:1}.scroll{scrollbar-width:thin;scrollbar-color:var(--line) transparent;overscroll-behavior:contain;min-height:0;overflow:auto}.chips{flex-wrap:wrap;flex:none;gap:4px;display:flex}.chip{border-radius:99px;align-items:center;gap:5px;min-height:24px;padding:1px 8px 1px 3px;display:inline-flex}.chip i{color:var(--soft);font-style:normal}.chip[aria-pressed=true]{background:var(--card);color:var(--ink);border-color:var(--accent);box-shadow:inset 0 0 0 1px var(--accent)}.letter{border-radius:5px;flex:none;place-items:center;width:18px;height:18px;font-size:11px;font-weight:700;line-height:1;display:inline-grid}.letter.plain{border:1px dashed var(--soft);color:var(--soft)}.heads-scroll{flex:1;margin:0 -6px;padding:0 6px}.heads{position:relative}.heads canvas{pointer-events:none;position:absolute;top:0;left:0}.heads .mark{color:var(--soft);text-align:center;white-space:nowrap;font-size:11px;line-height:16px;position:absolute}.heads .mark[role=rowheader]{text-align:right;width:28px;left:0}.heads .mark i{font-style:normal}.heads .mark[role=rowheader] i{color:var(--warm);margin-left:1px;font-weight:700}.heads .numbers{background:var(--card);z-index:2;height:17px;position:sticky;top:0}.heads .head{cursor:pointer;border-radius:2px;position:absolute}.heads .head:hover{box-shadow:0 0 0 2px var(--soft)}.heads .head[data-beside]{outline:2px dashed var(--ink);outline-offset:0;z-index:1}.heads .head[data-here]{box-shadow:0 0 0 2px var(--card), 0 0 0 4px var(--ink);z-index:1}.heads .head[data-chosen]:after{content:\"✓\";text-align:center;background:var(--ink);width:13px;height:13px;color:var(--card);border-radius:3px;font-size:11px;font-weight:700;line-height:13px;position:absolute;bottom:1px;left:1px}.heads .head:focus-visible{outline:3px solid var(--accent);outline-offset:1px;z-index:2}.foot{flex-direction:column;flex:none;gap:3px;display:flex}.keys{flex-wrap:wrap;gap:2px 12px;display:flex}.toolbar{flex-wrap:wrap;flex:none;align-items:center;gap:6px 12px;display:flex}.maps{flex:1;grid-template-columns:minmax(0,1fr);gap:14px;min-height:0;display:grid}.app.two .maps{grid-template-columns:repeat(2,minmax(0,1fr))}.map-card{flex-direction:column;gap:6px;min-width:0;min-height:0;display:flex}.map-head{flex:none;align-items:center;gap:8px;display:flex}.map-name{flex-wrap:wrap;flex:1;align-items:center;gap:0 8px;min-width:0;display:flex}.map-name small{white-space:nowrap;text-overflow:ellipsis;flex-basis:100%;line-height:1.3;overflow:hidden}.map-name h2 span{font-weight:400}.map-buttons{flex:none;gap:4px;display:flex}.map-host{flex-direction:column;flex:1;min-height:0;display:flex}.map-host .map-stage{flex:1;min-height:0}.map-host .map-foot output{max-height:4.5em;overflow-y:auto}.tabs{border-bottom:1px solid var(--line);flex:none;gap:2px;margin:-4px 0 0;display:flex}.tabs button{min-height:30px;color:var(--soft);background:0 0;border:0;border-bottom:2px solid #0000;border-radius:6px 6px 0 0;margin-bottom:-1px;padding:4px 12px}.tabs button[aria-selected=true]{color:var(--ink);border-bottom-color:var(--accent);font-weight:600}.tab-panel{flex-direction:column;flex:1;gap:8px;min-height:0;display:flex}.bar{flex-wrap:wrap;flex:none;align-items:center;gap:4px 10px;display:flex}.bar .mean{font-size:12px}.said{flex-wrap:wrap;flex:none;align-content:flex-start;gap:6px 16px;min-height:82px;display:flex}.list{flex:320px;min-width:0}.list p{border-left:3px solid var(--line);text-overflow:ellipsis;white-space:nowrap;margin-bottom:4px;padding-left:6px;font-size:12px;overflow:hidden}.list p.from-to{border-left-color:var(--cool)}.list p.from-from{border-left-color:var(--warm)}q{font-family:var(--mono);quotes:\"“\" \"”\";white-space:pre;unicode-bidi:isolate;font-weight:600}.keys-list{flex-wrap:wrap;gap:4px;max-height:84px;padding:1px;display:flex;overflow:hidden}.key{align-items:baseline;gap:6px;max-width:100%;min-height:24px;padding:0 6px;font-size:12px;line-height:22px;display:inline-flex}.key span{font-family:var(--mono);white-space:pre;text-overflow:ellipsis;unicode-bidi:isolate;max-width:12em;overflow:hidden}.key i{color:var(--soft);white-space:nowrap;font-size:11px;font-style:normal}.strips{flex-direction:column;flex:1;gap:10px;min-height:0;display:flex}.strip{flex-direction:column;flex:1 1 0;gap:4px;min-width:0;min-height:0;display:flex}.strips.two>.strip:first-child{flex:0 auto;max-height:50%}.strip>div{flex:1;min-height:0}.strip>.patches{min-height:200px}.running{font:13px/1.7 var(--mono);white-space:pre-wrap;overflow-wrap:anywhere;cursor:default;border-radius:4px;position:relative}.block{padding-left:44px;position:relative}.position{text-align:right;width:38px;color:var(--soft);-webkit-user-select:none;user-select:none;font:11px/22px system-ui,Segoe UI,sans-serif;position:absolute;left:0}.token{-webkit-box-decoration-break:clone;box-decoration-break:clone;unicode-bidi:isolate;border-radius:3px;padding:1px 0}.token.special{border:1px solid var(--line);margin:0 1px;padding:0 3px;font-size:11px}.token:hover{outline:1px solid var(--soft)}.token.at-key{outline:2px dashed var(--warm);outline-offset:-1px}.token.at-query{outline:2px solid var(--ink);outline-offset:-1px}.patches{place-items:start center;display:grid}.patches canvas{cursor:crosshair;touch-action:none}.profile{grid-template-columns:repeat(auto-fit,minmax(min(100%,300px),1fr));gap:14px 18px;display:grid}.profile section{min-width:0}.part-head{color:var(--soft);justify-content:space-between;gap:10px;margin-bottom:4px;font-size:12px;display:flex}.part-head h3{color:var(--ink)}.chart svg{width:100%;display:block;overflow:visible}.chart svg.pickable{cursor:crosshair}.chart text{fill:var(--soft);font-size:11px}.chart .grid{stroke:var(--line)}.chart .mark{stroke:var(--ink);stroke-dasharray:3 2}.chart .cursor{stroke:var(--soft);pointer-events:none}.chart output{text-overflow:ellipsis;white-space:nowrap;min-height:1.45em;font-size:12px;display:block;overflow:hidden}table{border-collapse:collapse;table-layout:auto;width:100%;font-size:12px}th{text-align:left;color:var(--soft);padding:1px 4px;font-size:11px;font-weight:400}th:nth-last-child(-n+2){text-align:right}td{border-top:1px solid var(--faint);max-width:140px;padding:1px 4px}td .key{background:0 0;border-color:#0000;max-width:100%;padding:0 2px}td .key:hover{border-color:var(--line)}td.n{text-align:right;white-space:nowrap}td.wide{width:30%}td .fill{background:var(--warm);border-radius:2px;height:8px;display:block}.scores-panel{gap:9px}.scores-panel .name{flex:none;font-weight:600}.means{background:var(--faint);border-radius:8px;flex:none;align-items:flex-start;gap:8px;padding:8px 10px;font-size:12px;display:flex}.score{flex:none;grid-template-columns:18px 1fr auto;align-items:center;gap:3px 8px;font-size:12px;display:grid}.score.own{font-weight:600}.score .value{color:var(--soft);white-space:nowrap;font-weight:400}.score .value b{color:var(--ink);font-weight:600}.score-bar{background:var(--faint);height:7px;box-shadow:inset 0 0 0 1px var(--line);border-radius:4px;grid-column:2/-1;position:relative}.score-bar i{background:var(--bar);border-radius:4px;min-width:2px;position:absolute;inset:0 auto 0 0}.score-bar u{background:var(--ink);width:2px;margin-left:-1px;position:absolute;top:-3px;bottom:-3px}.score.few .score-bar i{border:1px dashed var(--soft);background:0 0}dialog{color:var(--ink);background:var(--card);border:1px solid var(--line);border-radius:12px;width:min(780px,92vw);padding:14px 18px 18px}dialog::backdrop{background:#00000059}.keys-lists{grid-template-columns:repeat(auto-fit,minmax(300px,1fr));gap:14px 28px;display:grid}.keys-lists dl div{grid-template-columns:130px 1fr;gap:8px;padding:3px 0;display:grid}.panels{grid-template:\"heads map side\"minmax(0,1fr)/minmax(250px,330px) minmax(0,1fr) minmax(290px,27%)}.app.two .panels{grid-template:\"heads map\"minmax(400px,2fr)\"heads side\"minmax(170px,1fr)/minmax(250px,330px) minmax(0,1fr)}.app.large .panels{grid-template:\"heads map\"minmax(0,1.4fr)\"heads side\"minmax(220px,1fr)/minmax(0,56fr) minmax(0,44fr)}.large.app.two .maps{grid-template-columns:minmax(0,1fr);grid-auto-rows:minmax(0,1fr)}@container (width>=681px){.app.two .text-panel{grid-template:\"bar strips\"\"said strips\"minmax(0,1fr)/minmax(240px,34%) minmax(0,1fr);gap:8px 18px;display:grid}.app.two .bar{grid-area:bar}.app.two .said{scrollbar-width:thin;grid-area:said;min-height:0;overflow:auto}.app.two .strips{grid-area:strips}.app.two .strips.two{flex-direction:row;gap:18px}.app.two .strips.two>.strip:first-child{flex:1 1 0;max-height:none}.app.two .strip>.patches{min-height:0}.app.two .keys-list{max-height:none}}@container (width<=1150px){.facts{flex-basis:100%;order:3}.panels{grid-template-columns:240px minmax(0,1fr) 290px;gap:8px;padding:0 10px 10px}.app.two .panels{grid-template-columns:240px minmax(0,1fr)}.panel{padding:8px 10px}.overview select{max-width:112px}.overview .pick span{display:none}.app.two .map-name h2 span{clip-path:inset(50%);width:1px;height:1px;position:absolute;overflow:hidden}.map-host .map-foot output{max-height:3em}}@container (width<=940px){.panels,.app.two .panels{grid-template:\"heads map\"minmax(400px,1.6fr)\"heads side\"minmax(200px,1fr)/220px minmax(0,1fr)}.overview select{max-width:84px}}@container (width>=681px) and (width<=1150px){.chip span{clip-path:inset(50%);width:1px;height:1px;position:absolute;overflow:hidden}.app.large .chip span{clip-path:none;width:auto;height:auto;position:static}.keys{display:none}}@container (width<=680px){.app{overflow-y:auto}header{padding:10px 10px 8px}.panels,.app.two .panels,.app.large .panels{flex:none;grid-template:\"heads\"\"map\"\"side\"/minmax(0,1fr)}.overview{height:430px}.overview select{max-width:170px}.panel.map{height:560px}.app.two .panel.map{height:980px}.app.two .maps{grid-template-columns:minmax(0,1fr);grid-auto-rows:minmax(0,1fr)}.side{height:520px}.keys{display:none}}@media (prefers-reduced-motion:no-preference){.chip,.segments span,button{transition:background-color .12s,border-color .12s}}", ed = 0;
function td(e) {
	let t = Array.isArray(e) ? e[0] : void 0;
	return t instanceof ArrayBuffer ? t : ArrayBuffer.isView(t) ? new Uint8Array(t.buffer, t.byteOffset, t.byteLength).slice().buffer : /* @__PURE__ */ new ArrayBuffer(0);
}
var nd = class {
	model;
	waiting = /* @__PURE__ */ new Map();
	constructor(e) {
		this.model = e, e.on("msg:custom", this.heard);
	}
	ask(e, t, n) {
		let r = `q${++ed}`;
		return new Promise((i, a) => {
			if (n?.aborted) return a(n.reason);
			this.waiting.set(r, {
				resolve: i,
				reject: a
			}), n?.addEventListener("abort", () => {
				this.waiting.delete(r) && a(n.reason);
			}), this.model.send({
				id: r,
				name: e,
				params: t
			});
		});
	}
	destroy() {
		this.model.off("msg:custom", this.heard);
		for (let { reject: e } of this.waiting.values()) e(new DOMException("The view was closed.", "AbortError"));
		this.waiting.clear();
	}
	heard = (e, t) => {
		let { id: n, meta: r, refusal: i } = e, a = n === void 0 ? void 0 : this.waiting.get(n);
		a && n !== void 0 && (this.waiting.delete(n), i === void 0 ? a.resolve({
			meta: r,
			data: td(t)
		}) : a.reject(new E(i)));
	};
}, rd = 780;
async function id(e, t, n) {
	let r = e.shadowRoot ?? e.attachShadow({ mode: "open" }), i = new CSSStyleSheet();
	i.replaceSync($u), r.adoptedStyleSheets = [i];
	let a = null, o = !1, s = async (i) => {
		let c = S("p", {
			class: "wait",
			role: "status"
		}, "Loading …");
		a || r.replaceChildren(c);
		try {
			let { meta: c } = await t.ask("scene", {});
			if (o) return;
			a?.destroy(), a = new Ku(r, c, t, {
				address: n.address,
				hash: i,
				again: s
			}), e.dataset.ready = "1";
		} catch (e) {
			if (o || a) return;
			let t = e instanceof Error ? e.message : String(e);
			r.replaceChildren(S("div", {
				class: "wait",
				role: "alert"
			}, S("p", {}, t), w("Try again", () => void s(i))));
		}
	};
	return await s(n.address ? location.hash : ""), () => {
		o = !0, a?.destroy(), r.replaceChildren();
	};
}
async function ad({ model: e, el: t }) {
	let n = S("div");
	n.style.height = `${rd}px`, t.append(n);
	let r = new nd(e), i = await id(n, r, { address: !1 });
	return () => {
		i(), r.destroy(), n.remove();
	};
}
async function od(e) {
	document.documentElement.style.height = document.body.style.height = e.style.height = "100%", document.body.style.margin = "0";
	let t = document.getElementById("headwise-saved")?.textContent, n = new URLSearchParams(location.search).get("token") ?? "";
	await id(e, t ? new Qu(JSON.parse(t)) : new Gl(n), { address: !0 });
}
var sd = document.querySelector("main#headwise");
sd && od(sd);
var cd = { render: ad };
export { cd as default, id as mount };
