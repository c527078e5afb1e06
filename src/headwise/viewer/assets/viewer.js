// Built from front/ by `make viewer`: edit it there.
// src/choosing.ts
var e = ([e, t]) => `${e}.${t}`;
function t(e, t) {
	let n = /^(\d{1,6})\.(\d{1,6})$/.exec(t);
	if (!n) return null;
	let r = [Number(n[1]), Number(n[2])], i = e.layers[r[0]];
	return i && r[1] < i.heads ? r : null;
}
var n = (e, t) => e.layers[t[0]];
function r({ label: e }) {
	let [, t, n] = /^(\S+) (\d.*)$/.exec(e) ?? [];
	return t ? t === "cross" ? `Cross attention ${n}` : `${t.charAt(0).toUpperCase()}${t.slice(1)} layer ${n}` : `Layer ${e}`;
}
var i = (e, t) => `${r(n(e, t))}, head ${t[1]}`, a = /* @__PURE__ */ new WeakMap();
function o(t, n) {
	if (!t.heads) return null;
	let r = a.get(t);
	return r || (r = new Map(t.heads.map((t) => [e([t.layer, t.head]), t])), a.set(t, r)), r.get(e(n)) ?? null;
}
function s(e, t) {
	let n = o(e, t);
	return n ? e.kinds.find((e) => e.name === n.kind) ?? null : null;
}
function c(e, t, r) {
	let i = n(e, t), a = n(e, r), o = (e, t) => e.every((e, n) => e === t[n]);
	return o(i.rows, a.rows) && o(i.cols, a.cols);
}
function l(e, n) {
	let r = [n.layer, n.head];
	return n.chosen.map((n) => t(e, n)).filter((e) => e !== null).filter((t) => c(e, t, r));
}
function u(e, t, r) {
	let i = [t.layer, t.head], a = {
		layer: r[0],
		head: r[1]
	};
	if (c(e, i, r)) return a;
	let { T: o, S: s } = n(e, r);
	return {
		...a,
		at: null,
		query: t.query === null ? null : Math.min(t.query, o - 1),
		key: t.key === null || t.key >= s ? null : t.key,
		chosen: []
	};
}
function d(t, n, r) {
	let i = e(r);
	return n.chosen.includes(i) ? { chosen: n.chosen.filter((e) => e !== i) } : c(t, r, [n.layer, n.head]) ? { chosen: [...n.chosen, i] } : null;
}
function f(e, [t, r]) {
	let i = n(e, [t, r]).heads;
	return r + 1 < i ? [t, r + 1] : r > 0 ? [t, r - 1] : [t, r];
}
// src/state.ts
var p = class {
	state;
	listeners = /* @__PURE__ */ new Set();
	constructor(e) {
		this.state = e;
	}
	get() {
		return this.state;
	}
	set(e) {
		this.put(e, !1);
	}
	go(e) {
		this.put(e, !0);
	}
	put(e, t) {
		let n = this.state, r = {
			...n,
			...e
		};
		if (!Object.keys(r).every((e) => Object.is(r[e], n[e]))) {
			this.state = r;
			for (let e of [...this.listeners]) e(r, n, t);
		}
	}
	subscribe(e) {
		return this.listeners.add(e), () => this.listeners.delete(e);
	}
};
function m(e) {
	let t = e.runs.length === 2;
	return {
		run: +!!t,
		minus: t ? 0 : null,
		layer: e.open[0],
		head: e.open[1],
		b: 0,
		beside: null,
		at: null,
		scale: "sqrt",
		range: null,
		pool: "mean",
		hide: !1,
		norm: !1,
		kinds: [],
		sort: "place",
		query: e.query,
		key: null,
		chosen: [],
		panel: "text",
		look: "to",
		large: !1,
		log: !1,
		theme: "auto"
	};
}
function h(e, t = [e.layer, e.head]) {
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
var g = class extends Error {}, _ = 32;
function v(e, t, n) {
	if (!/^\d{1,9}$/.test(e)) throw new g("not a whole number");
	let r = Number(e);
	if (r >= t) throw new g(`the last ${n} is ${t - 1}`);
	return r;
}
function y(e, t) {
	let n = t.find((t) => t === e);
	if (n === void 0) throw new g("no such choice");
	return n;
}
function b(e, n) {
	let r = t(e, n);
	if (!r) throw new g("no such head");
	return r;
}
function ee(e) {
	let t = e.split(",").map((e) => /^-?\d{1,9}(\.\d{1,6})?$/.test(e) ? Number(e) : NaN), [n, r, i] = t;
	if (t.length !== 3 || t.some(Number.isNaN)) throw new g("not three numbers");
	if (i <= 0) throw new g("the view spans no key");
	return [
		n,
		r,
		i
	];
}
function x(e) {
	if (e === "none") return null;
	let t = /^\d{0,9}(\.\d{1,12})?(e-?\d{1,2})?$/.test(e) ? Number(e) : NaN;
	if (!(t > 0) || !Number.isFinite(t)) throw new g("not a number above 0");
	return t;
}
var te = (e) => y(e, ["0", "1"]) === "1", ne = (e) => e === "" ? [] : e.split(","), re = (e, t) => e.layers[t.layer];
function ie(e) {
	let t = /* @__PURE__ */ new Set();
	for (let { scores: n } of e.heads ?? []) for (let e of Object.keys(n)) t.add(e);
	return [
		"place",
		...e.heads ? ["entropy"] : [],
		...t
	];
}
var ae = {
	run: (e, t) => ({ run: v(e, t.runs.length, "run") }),
	minus: (e, t) => ({ minus: v(e, t.runs.length, "run") }),
	head: (e, t) => {
		let [n, r] = b(t, e);
		return {
			layer: n,
			head: r
		};
	},
	beside: (e, t) => ({ beside: b(t, e) }),
	row: (e, t) => ({ b: v(e, t.batch, "row") }),
	at: (e) => ({ at: ee(e) }),
	scale: (e) => ({ scale: y(e, [
		"linear",
		"sqrt",
		"log"
	]) }),
	range: (e) => ({ range: x(e) }),
	pool: (e) => ({ pool: y(e, ["mean", "max"]) }),
	hide: (e) => ({ hide: te(e) }),
	norm: (e) => ({ norm: te(e) }),
	kinds: (e, t) => ({ kinds: ne(e).map((e) => y(e, t.kinds.map(({ name: e }) => e))) }),
	sort: (e, t) => ({ sort: y(e, ie(t)) }),
	query: (e, t, n) => ({ query: e === "none" ? null : v(e, re(t, n).T, "query") }),
	key: (e, t, n) => ({ key: e === "none" ? null : v(e, re(t, n).S, "key") }),
	chosen: (t, n) => ({ chosen: [...new Set(ne(t).map((t) => e(b(n, t))))] }),
	panel: (e) => ({ panel: y(e, [
		"text",
		"profile",
		"scores"
	]) }),
	look: (e) => ({ look: y(e, [
		"to",
		"from",
		"both"
	]) }),
	large: (e) => ({ large: te(e) }),
	log: (e) => ({ log: te(e) }),
	theme: (e) => ({ theme: y(e, [
		"auto",
		"light",
		"dark"
	]) })
}, oe = {
	head: (t) => e([t.layer, t.head]),
	beside: ({ beside: t }) => t ? e(t) : "none",
	row: ({ b: e }) => String(e),
	at: ({ at: e }) => e ? e.map((e) => String(Number(e.toFixed(2)))).join(",") : "none",
	scale: ({ scale: e }) => e,
	range: ({ range: e }) => String(e ?? "none"),
	pool: ({ pool: e }) => e,
	hide: ({ hide: e }) => e ? "1" : "0",
	norm: ({ norm: e }) => e ? "1" : "0",
	kinds: ({ kinds: e }) => e.join(","),
	sort: ({ sort: e }) => e,
	query: ({ query: e }) => String(e ?? "none"),
	key: ({ key: e }) => String(e ?? "none"),
	chosen: ({ chosen: e }) => e.join(","),
	panel: ({ panel: e }) => e,
	look: ({ look: e }) => e,
	large: ({ large: e }) => e ? "1" : "0",
	log: ({ log: e }) => e ? "1" : "0",
	theme: ({ theme: e }) => e
};
function se({ run: e, minus: t }, n) {
	return e === n.run && t === n.minus ? [] : [...e !== 0 || t === null ? [`run=${e}`] : [], ...t === null ? [] : [`minus=${t}`]];
}
function ce(e, t) {
	let n = m(t), r = se(e, n);
	for (let [t, i] of Object.entries(oe)) {
		let a = i(e);
		a !== i(n) && r.push(`${t}=${encodeURIComponent(a).replaceAll("%2C", ",")}`);
	}
	return r.join("&");
}
function le(e, t) {
	let n = m(t), r = /* @__PURE__ */ new Map(), i = [], a = (e) => e.length > _ ? `${e.slice(0, _)}…` : e;
	for (let t of e.replace(/^#/, "").split("&")) {
		if (t === "") continue;
		let [e, n] = [t.split("=", 1)[0], t.slice(t.indexOf("=") + 1)];
		try {
			if (r.set(e, decodeURIComponent(t.includes("=") ? n : "")), !Object.hasOwn(ae, e)) throw new g("not known here");
		} catch (n) {
			r.delete(e), i.push(`${a(t)} (${n instanceof g ? n.message : "broken % signs"})`);
		}
	}
	(r.has("run") || r.has("minus")) && (n = {
		...n,
		run: 0,
		minus: null
	});
	for (let [e, o] of Object.entries(ae)) {
		let s = r.get(e);
		if (s !== void 0) try {
			n = {
				...n,
				...o(s, t, n)
			};
		} catch (t) {
			if (!(t instanceof g)) throw t;
			i.push(`${e}=${a(s)} (${t.message})`);
		}
	}
	let { T: o, S: s } = re(t, n);
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
var ue = class {
	scene;
	follow;
	written;
	constructor(e, t) {
		this.scene = e, this.follow = t, this.written = location.hash.replace(/^#/, ""), addEventListener("hashchange", this.changed);
	}
	put(e, t = !1) {
		let n = ce(e, this.scene);
		if (n === this.written) return;
		this.written = n;
		let r = location.pathname + location.search + (n ? `#${n}` : "");
		t ? history.pushState(null, "", r) : history.replaceState(history.state, "", r);
	}
	destroy() {
		removeEventListener("hashchange", this.changed);
	}
	changed = () => {
		let e = location.hash.replace(/^#/, "");
		if (e === this.written) return;
		this.written = e;
		let { state: t, says: n } = le(e, this.scene);
		this.follow(t, n);
	};
};
// src/dom.ts
function de(e, t, n) {
	for (let [n, r] of Object.entries(t)) r != null && r !== !1 && e.setAttribute(n, r === !0 ? "" : String(r));
	for (let t of n) t != null && e.append(t);
}
function S(e, t = {}, ...n) {
	let r = document.createElement(e);
	return de(r, t, n), r;
}
function C(e, t = {}, ...n) {
	let r = document.createElementNS("http://www.w3.org/2000/svg", e);
	return de(r, t, n), r;
}
function w(e, t, n = {}) {
	let r = S("button", {
		type: "button",
		...n
	}, e);
	return r.addEventListener("click", t), r;
}
function fe(e, t) {
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
// src/words.ts
function T(e) {
	let t = Math.abs(e);
	return t === 0 ? "0" : pe(t >= .00995 ? e.toFixed(3) : t >= 995e-6 ? e.toFixed(4) : e.toExponential(1));
}
function pe(e) {
	return e.replace(/^-/, "−");
}
function me(e) {
	let t = Math.abs(e);
	return t === 0 ? "0" : pe(t >= .00995 ? e.toFixed(2) : t >= 9995e-7 ? e.toFixed(3) : e.toExponential(0));
}
function he(e) {
	let t = Math.abs(e);
	if (t === 0) return "0";
	let n = Number(e.toPrecision(3));
	return pe(t < .001 ? n.toExponential() : String(n));
}
function E(e) {
	return String(e).replace(/\B(?=(\d{3})+$)/g, ",");
}
function ge(e, t) {
	return t - e > 1 ? `${E(e)}–${E(t - 1)}` : E(e);
}
function _e(e) {
	return e === 0 ? "itself" : e > 0 ? `${E(e)} back` : `${E(-e)} ahead`;
}
var ve = /[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff]/g, ye = /[\u0000-\u001f\u007f-\u009f]/g, be = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, xe = {
	"\n": "⏎",
	"\r": "␍",
	"	": "⇥",
	"": "␡"
};
function Se(e) {
	let t = e.charCodeAt(0);
	return xe[e] ?? (t < 32 ? String.fromCharCode(9216 + t) : `⟨${t.toString(16)}⟩`);
}
function Ce(e) {
	if (e === "") return "◌";
	if (/^ +$/.test(e)) return "␣".repeat(e.length);
	let t = e.replace(/^ +| +$/g, (e) => "·".repeat(e.length)).replace(ye, Se).replace(ve, (e) => `⟨${e.charCodeAt(0).toString(16)}⟩`).replace(be, "�").replace(/\u00a0/g, "⍽");
	return /^\p{M}/u.test(t) ? `◌${t}` : t;
}
function D(e, t) {
	if (e.kind === "grid" && e.width) {
		let n = t - (e.before ?? 0);
		if (n >= 0 && n < e.width * (e.height ?? Infinity)) return `r${Math.floor(n / e.width)} c${n % e.width}`;
	}
	return Ce(e.labels[t] ?? "");
}
// src/numbers.ts
var we = "no number";
function Te(e, t, n = `${t}s`) {
	return `${E(e)} ${e === 1 ? t : n}`;
}
function Ee(e, t) {
	return Number.isFinite(e) ? e.toFixed(t).replace(/^-(?=.*[1-9])/, "−").replace(/^-/, "") : we;
}
function De(e) {
	return Math.abs(e) >= 100 ? `${e < 0 ? "−" : ""}${E(Math.round(Math.abs(e)))}` : Ee(e, 2);
}
function Oe(e, t) {
	return t > 0 ? `+${e}` : e;
}
var O = (e) => e.kind === "tokens" && e.name === "positions";
function ke(e, t) {
	return O(e) ? E(t) : `${E(t)} ${D(e, t)}`;
}
function Ae(e) {
	return e ?? NaN;
}
// src/earned.ts
function je({ name: e, least: t }) {
	return t === null ? "no score clears its chance level by its margin" : `${e === "broad" ? "score" : "lift over chance"} at least ${he(t)}`;
}
function Me(e, t) {
	let n = s(e, t), r = o(e, t);
	if (!n || !r) return "";
	let i = Ae(r.scores[n.name]), a = Ae(r.chance[n.name]);
	if (n.least === null || Number.isNaN(i)) return je(n);
	let c = `(at least ${he(n.least)})`;
	if (n.name === "broad") return `score ${T(i)} ${c}`;
	let l = a < 1 ? (i - a) / (1 - a) : 0;
	return `score ${T(i)}, chance ${T(a)}, lift ${T(l)} ${c}`;
}
// src/recent.ts
var Ne = class {
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
	delete(e) {
		this.kept.delete(e);
	}
}, k = class extends Error {};
function Pe(e) {
	let t = new DataView(e).getUint32(0, !0);
	return {
		meta: JSON.parse(new TextDecoder().decode(new Uint8Array(e, 4, t))),
		data: e.slice(4 + t)
	};
}
function Fe(e, t) {
	let n = Object.entries(t).filter(([, e]) => e !== void 0);
	return n.sort(([e], [t]) => e < t ? -1 : 1), `${e}?${n.map(([e, t]) => `${e}=${t}`).join("&")}`;
}
// src/view.ts
var Ie = 96, Le = 48, Re = 120, ze = 96;
function Be(e, t, n, r) {
	let i = Math.min(n / t, r / e, Ie), a = Math.min(n / t, Math.max(i, Math.min(n / 4 / t, Le))), o = Math.min(r / e, Math.max(i, Math.min(r / 4 / e, Le)));
	return {
		T: e,
		S: t,
		width: n,
		height: Math.max(Math.min(Re, r), Math.min(r, e * o)),
		fx: a,
		fy: o
	};
}
function Ve({ fx: e, fy: t }) {
	return Math.max(1, Ie / Math.min(e, t));
}
function He(e, t, n, r) {
	return t <= n ? r ? (n - t) / 2 : 0 : Math.min(0, Math.max(n - t, e));
}
function Ue(e, { k: t, x: n, y: r }) {
	return {
		k: t,
		x: He(n, e.S * e.fx * t, e.width, !0),
		y: He(r, e.T * e.fy * t, e.height, !1)
	};
}
function We(e, t) {
	let { fx: n, fy: r, width: i, height: a } = e, o = n > r ? Ge(n, r, t.k) : n * t.k, s = r > n ? Ge(r, n, t.k) : r * t.k, c = (i / 2 - t.x) / (n * t.k), l = (a / 2 - t.y) / (r * t.k);
	return {
		...e,
		kx: o,
		ky: s,
		x: He(i / 2 - c * o, e.S * o, i, !0),
		y: He(a / 2 - l * s, e.T * s, a, !1)
	};
}
function Ge(e, t, n) {
	return Math.max(t * n, Math.min(e * n, Math.max(e, Le)));
}
function Ke(e, t) {
	if (!t) return Ue(e, {
		k: 1,
		x: 0,
		y: 0
	});
	let [n, r, i] = t, a = Math.min(Ve(e), Math.max(1, e.width / i / e.fx));
	return Ue(e, {
		k: a,
		x: e.width / 2 - n * e.fx * a,
		y: e.height / 2 - r * e.fy * a
	});
}
function qe(e, { k: t, x: n, y: r }) {
	return t <= 1 + 1e-9 ? null : [
		(e.width / 2 - n) / (e.fx * t),
		(e.height / 2 - r) / (e.fy * t),
		e.width / (e.fx * t)
	];
}
function Je(e, [t, n], [r, i]) {
	let a = Math.min(e.width / ((i - r) * e.fx), e.height / ((n - t) * e.fy));
	return Ke(e, [
		(r + i) / 2,
		(t + n) / 2,
		e.width / (e.fx * Math.max(1, a))
	]);
}
function Ye(e, { k: t, x: n, y: r }, i, a) {
	let o = Math.min(Ve(e), Math.max(1, t * i)), s = a ? n + (a[1] + .5) * e.fx * t : e.width / 2, c = a ? r + (a[0] + .5) * e.fy * t : e.height / 2;
	return Ue(e, {
		k: o,
		x: s - (s - n) * o / t,
		y: c - (c - r) * o / t
	});
}
function Xe(e, t) {
	return Math.max(0, Math.ceil(Math.log2(Math.max(e, t) / 256)));
}
function A(e) {
	let t = (e, t, n) => Math.min(n - 1, Math.max(0, Math.floor(-e / t))), n = (e, t, n, r) => Math.min(n, Math.max(1, Math.ceil((r - e) / t - 1e-9)));
	return {
		i0: t(e.y, e.ky, e.T),
		i1: n(e.y, e.ky, e.T, e.height),
		j0: t(e.x, e.kx, e.S),
		j1: n(e.x, e.kx, e.S, e.width)
	};
}
function Ze(e, t) {
	let { i0: n, i1: r, j0: i, j1: a } = A(e), o = 256 * 2 ** t;
	return {
		z: t,
		r0: Math.floor(n / o),
		r1: Math.floor((r - 1) / o) + 1,
		c0: Math.floor(i / o),
		c1: Math.floor((a - 1) / o) + 1
	};
}
function Qe(e, t) {
	let n = Xe(e.T, e.S), r = Math.min(e.kx, e.ky) * t, i = Math.min(n, Math.max(0, Math.ceil(-Math.log2(r) - 1e-9)));
	for (; i < n; i++) {
		let { r0: t, r1: n, c0: r, c1: a } = Ze(e, i);
		if ((n - t) * (a - r) <= ze) break;
	}
	return i;
}
function $e({ r0: e, r1: t, c0: n, c1: r }, i) {
	let a = [];
	for (let o = e; o < t; o++) for (let e = n; e < r; e++) a.push([
		o,
		e,
		Math.hypot(o + .5 - i[0], e + .5 - i[1])
	]);
	return a.sort((e, t) => e[2] - t[2]), a.map(([e, t]) => [e, t]);
}
function et(e, t) {
	let n = 256 * 2 ** t;
	return [(e.height / 2 - e.y) / e.ky / n, (e.width / 2 - e.x) / e.kx / n];
}
function tt(e, t, n) {
	let r = 256 * 2 ** e.z, i = Math.ceil(t / r), a = Math.ceil(n / r), o = [];
	for (let t = Math.max(0, e.r0 - 1); t < Math.min(i, e.r1 + 1); t++) for (let n = Math.max(0, e.c0 - 1); n < Math.min(a, e.c1 + 1); n++) (t < e.r0 || t >= e.r1 || n < e.c0 || n >= e.c1) && o.push([t, n]);
	return o;
}
function nt(e, t, n) {
	let r = Math.floor((n - e.y) / e.ky), i = Math.floor((t - e.x) / e.kx);
	return r >= 0 && r < e.T && i >= 0 && i < e.S && t >= 0 && n >= 0 && t < e.width && n < e.height ? [r, i] : null;
}
function rt(e, [t, n]) {
	let r = (e, t, n) => e < 0 ? -e : e + t > n ? Math.max(n - e - t, -e) : 0;
	return [r(e.x + n * e.kx, e.kx, e.width), r(e.y + t * e.ky, e.ky, e.height)];
}
function it(e, t, n) {
	let r = (e, t) => Math.min(t - 1, Math.max(0, Math.floor(e)));
	return [r((n - e.y) / e.ky, e.T), r((t - e.x) / e.kx, e.S)];
}
var at = 11.5, ot = 16, st = .75, ct = {
	left: 92,
	top: 70
}, lt = {
	left: 54,
	top: 34,
	more: 10
}, j = 6, ut = 18, dt = {
	right: {
		right: 64,
		bottom: 8
	},
	below: {
		right: 5,
		bottom: 36
	}
}, ft = 400, pt = "queries ↓", mt = {
	width: 80,
	height: 160
};
function ht({ T: e }, t, n, r, i, a) {
	let o = Math.max(a(pt), a(E(e - 1))), s = Math.max(o, Math.min(P(i) ? ct.left : lt.left, bt(t, a))), c = bt(n, a), l = r >= ot || !P(r) ? st * c + 3 : c, u = c <= r - 6 ? 0 : Math.min(P(r) ? ct.top : lt.top, l);
	return {
		left: Math.ceil(s + j + 2),
		top: Math.ceil(ut + Math.max(15, u) + j + 3)
	};
}
function gt(e, t) {
	let n = (n) => Math.min(e - dt[n].right, t - dt[n].bottom);
	return e < ft && n("below") > n("right") ? "below" : "right";
}
function _t(e, t, n, r, i, a) {
	let { T: o, S: s } = e, c = Be(o, s, r - 124, i - 70), l = ht(e, t, n, c.fx, c.fy, a), u = gt(r - l.left, i - l.top), d = {
		...l,
		...dt[u],
		bar: u
	}, f = Be(o, s, Math.max(mt.width, r - d.left - d.right), Math.max(mt.height, i - d.top - d.bottom)), p = i - d.top - f.height - d.bottom, m = P(c.fx) ? 0 : bt(n, a) - lt.top;
	return d.top += Math.ceil(Math.max(0, Math.min(lt.more, p, m))), {
		fit: f,
		margins: d
	};
}
function vt({ top: e, bottom: t }) {
	return e + mt.height + t;
}
function yt(e, t, n) {
	let r = Math.max(n(pt), n(E(A(e).i1 - 1)));
	return {
		...t,
		left: P(e.ky) ? t.left : Math.min(t.left, r + j + 2),
		top: P(e.kx) ? t.top : Math.min(t.top, 55)
	};
}
function bt(e, t) {
	let n = e.labels.length || (e.height ?? 0) * (e.width ?? 0) + (e.before ?? 0), r = Math.max(1, Math.floor(n / 300)), i = 0;
	for (let a = 0; a < n; a += r) i = Math.max(i, t(D(e, a)));
	return i;
}
var xt = new Ne(4096);
function M(e, t, n) {
	let r = `${t}|${e}`, i = xt.get(r);
	return i === void 0 && (i = St(e, t, n), xt.set(r, i)), i;
}
function St(e, t, n) {
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
function Ct(e) {
	let t = 10 ** Math.floor(Math.log10(e));
	return [
		1,
		2,
		5,
		10
	].find((n) => n * t >= e * (1 - 1e-9)) * t;
}
function wt(e, t) {
	return Ct(Math.max(1, t / e));
}
function P(e) {
	return e >= at;
}
function Tt(e, t, n, r, i, a) {
	let o = {
		marks: [],
		ticks: [],
		title: {
			y: 0,
			end: 0
		}
	};
	Et(o, e, t, n, a);
	let s = Dt(o, e, t, r, a), c = t.left + N(e).x0, l = t.top + N(e).y0, u = l - 22, d = Math.min(s - 8, u - 7), f = i && n.name !== r.name, p = c + (f ? 16 : 0), m = Math.max(60, .6 * (t.left + e.width - p)), h = M(f && r.name ? `keys · ${r.name} →` : "keys →", m, a);
	o.marks.push({
		x: p,
		y: d,
		text: h,
		angle: 0,
		anchor: "start",
		tone: "soft"
	}), o.title = {
		y: d,
		end: p + a(h)
	};
	let g = (e, t) => ({
		x: c - j,
		y: t,
		text: M(e, c - j, a),
		angle: 0,
		anchor: "end",
		tone: "soft"
	});
	return f && n.name ? o.marks.push(g("queries", l - 29), g(`${n.name} ↓`, l - 16)) : o.marks.push(g(pt, l - 16)), o;
}
function Et(e, t, n, r, i) {
	let { i0: a, i1: o } = A(t), s = n.left + N(t).x0, c = P(t.ky), l = c ? 1 : wt(t.ky, 34);
	for (let u = Math.ceil(a / l) * l; u < o; u += l) {
		let a = n.top + t.y + (u + .5) * t.ky;
		if (a < n.top || a > n.top + t.height) continue;
		let o = c ? M(D(r, u), n.left - j - 2, i) : E(u);
		e.marks.push({
			x: s - j,
			y: a,
			text: o,
			angle: 0,
			anchor: "end",
			tone: Ot(r, u, c)
		}), c || e.ticks.push([
			s - 4,
			a,
			s,
			a
		]);
	}
}
function Dt(e, t, n, r, i) {
	let { j0: a, j1: o } = A(t), s = n.top + N(t).y0, c = P(t.kx), l = c ? 1 : wt(t.kx, 60), u = c ? kt(t, r, i) : 0, d = u === 0 ? Infinity : (n.top - ut - j - 3 - (u === -45 ? 3 : 0)) / (u === -45 ? st : 1), f = 11;
	for (let p = Math.ceil(a / l) * l; p < o; p += l) {
		let a = n.left + t.x + (p + .5) * t.kx, o = c ? M(D(r, p), d, i) : E(p), l = c && u === 0 ? i(o) / 2 : 0;
		if (a - l < n.left || a + l > n.left + t.width + 6) continue;
		u !== 0 && (f = Math.max(f, i(o) * (u === -45 ? .71 : 1) + 3));
		let m = u === 0 ? "middle" : "start", h = u === 0 ? 6.5 : 0, g = n.left + t.width + n.right - 1 - i(o) / 2;
		e.marks.push({
			x: c ? a : Math.min(a, g),
			y: s - j - h,
			text: o,
			angle: u,
			anchor: m,
			tone: Ot(r, p, c)
		}), c || e.ticks.push([
			a,
			s - 4,
			a,
			s
		]);
	}
	return s - j - f;
}
function Ot(e, t, n) {
	return n && !e.special.includes(t) ? "ink" : "soft";
}
function kt(e, t, n) {
	let { j0: r, j1: i } = A(e), a = !0;
	for (let o = r; o < i && a; o++) a = n(D(t, o)) <= e.kx - 6;
	return a ? 0 : e.kx >= ot ? -45 : -90;
}
// src/caveat.ts
var At = 300;
function jt(e, t, n, r, i, a) {
	if (r.exact && i <= a) return null;
	if (e.lost) return "not loaded";
	let o = e.isComing(t);
	if (e.saved && r.list.length) {
		let e = Math.max(i, ...r.list.map(({ tile: e }) => e.z));
		return !o && e > a ? "as fine as this file has it" : null;
	}
	return (i > a ? e.lack(n, a) : null) ?? (!o || r.gaps || i > a ? e.refusal : null);
}
var Mt = class {
	node;
	again;
	since = null;
	timer;
	constructor(e, t) {
		this.node = e, this.again = t;
	}
	show(e, t, n) {
		e.exact || !n ? this.since = null : this.since ??= performance.now();
		let r = this.since !== null && performance.now() - this.since >= At;
		this.since !== null && !r && (clearTimeout(this.timer), this.timer = setTimeout(this.again, At));
		let i = r ? e.gaps ? "loading" : "coarser for now" : "", a = t ?? (e.sampled ? "sampled" : i);
		this.node.textContent !== a && (this.node.textContent = a), this.node.hidden = a === "";
	}
	destroy() {
		clearTimeout(this.timer);
	}
}, Nt = 1024, Pt = {
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
}, Ft = {
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
function It(e) {
	return Ft[e ? "dark" : "light"];
}
var Lt = (e) => e <= .04045 ? e / 12.92 : ((e + .055) / 1.055) ** 2.4, Rt = (e) => e <= .0031308 ? 12.92 * e : 1.055 * e ** (1 / 2.4) - .055;
function zt(e) {
	let [t, n, r] = e.map((e) => Lt(e / 255)), i = Math.cbrt(.4122214708 * t + .5363325363 * n + .0514459929 * r), a = Math.cbrt(.2119034982 * t + .6806995451 * n + .1073969566 * r), o = Math.cbrt(.0883024619 * t + .2817188376 * n + .6299787005 * r);
	return [
		.2104542553 * i + .793617785 * a - .0040720468 * o,
		1.9779984951 * i - 2.428592205 * a + .4505937099 * o,
		.0259040371 * i + .7827717662 * a - .808675766 * o
	];
}
function Bt([e, t, n]) {
	let r = (e + .3963377774 * t + .2158037573 * n) ** 3, i = (e - .1055613458 * t - .0638541728 * n) ** 3, a = (e - .0894841775 * t - 1.291485548 * n) ** 3;
	return [
		4.0767416621 * r - 3.3077115913 * i + .2309699292 * a,
		-1.2684380046 * r + 2.6097574011 * i - .3413193965 * a,
		-.0041960863 * r - .7034186147 * i + 1.707614701 * a
	].map((e) => Math.round(255 * Math.min(1, Math.max(0, Rt(Math.max(0, e))))));
}
var Vt = (e) => [
	1,
	3,
	5
].map((t) => parseInt(e.slice(t, t + 2), 16)), Ht = /* @__PURE__ */ new Map();
function Ut(e, t) {
	let n = `${e ? "dark" : "light"}${t ? "Apart" : ""}`, r = Ht.get(n);
	if (!r) {
		let e = Pt[n].map((e) => zt(Vt(e)));
		r = Array.from({ length: Nt }, (t, n) => {
			let r = n / 1023 * (e.length - 1), i = Math.min(e.length - 2, Math.floor(r)), a = e[i], o = e[i + 1];
			return Bt(a.map((e, t) => e + (o[t] - e) * (r - i)));
		}), Ht.set(n, r);
	}
	return r;
}
function Wt(e, t) {
	let n = Ut(e, t);
	return (e) => n[Math.round(Math.min(1, Math.max(0, e || 0)) * 1023)];
}
var Gt = 1e4, Kt = {
	linear: (e) => e,
	sqrt: (e) => Math.sqrt(Math.max(0, e)),
	log: (e) => Math.log1p(Gt * Math.max(0, e)) / Math.log1p(Gt)
};
function qt(e) {
	return `rgb(${e[0]} ${e[1]} ${e[2]})`;
}
function Jt(e) {
	return .2126 * Lt(e[0] / 255) + .7152 * Lt(e[1] / 255) + .0722 * Lt(e[2] / 255) > .179 ? "#000000" : "#ffffff";
}
function Yt(e) {
	return e.theme === "auto" ? typeof matchMedia == "function" && matchMedia("(prefers-color-scheme: dark)").matches : e.theme === "dark";
}
var Xt = [
	1,
	1.2,
	1.5,
	2,
	2.5,
	3,
	4,
	5,
	6,
	8,
	10
];
function Zt(e) {
	if (!(e > 0) || !Number.isFinite(e)) return 1;
	let t = 10 ** Math.floor(Math.log10(e)), n = Xt.find((n) => n * t >= e * (1 - 1e-6)) ?? 10;
	return Number((n * t).toPrecision(3));
}
// src/ranges.ts
var F = 16, Qt = 1.4;
function $t({ h: e, w: t, data: n }) {
	let r = Math.ceil(t / F), i = new Float32Array(r * Math.ceil(e / F));
	for (let a = 0; a < e; a++) {
		let e = Math.floor(a / F) * r;
		for (let r = 0; r < t; r++) {
			let o = Math.abs(n[a * t + r]);
			o > i[e + (r >> 4)] && (i[e + (r >> 4)] = o);
		}
	}
	return i;
}
function en(e, t, n, r, i) {
	let { h: a, w: o, data: s, blocks: c } = e, l = Math.ceil(o / F), u = 0;
	for (let e = t - t % F; e < n; e += F) for (let d = r - r % F; d < i; d += F) {
		let f = c[e / F * l + d / F];
		if (f <= u) continue;
		let [p, m] = [Math.min(a, e + F), Math.min(o, d + F)];
		if (e >= t && p <= n && d >= r && m <= i) u = f;
		else for (let a = Math.max(e, t); a < Math.min(p, n); a++) for (let e = Math.max(d, r); e < Math.min(m, i); e++) {
			let t = Math.abs(s[a * o + e]);
			t > u && (u = t);
		}
	}
	return u;
}
var tn = class {
	parts = /* @__PURE__ */ new Map();
	name = "";
	end = 1;
	known = !1;
	of(e, t) {
		return this.parts.set(e, t), this.settle(e);
	}
	leave(e) {
		this.parts.delete(e) && this.settle(e);
	}
	settle(e) {
		let t = [...this.parts.values()], n = t.map((e) => e.name).join("\n"), r = t.every((e) => e.exact), i = Zt(Math.max(0, ...t.map(({ most: e }) => e))), a = this.end;
		if (n !== this.name && (this.known = !1), this.name = n, (!this.known || i > this.end || r && this.end > i * Qt) && (this.end = i), this.known ||= r, this.end !== a) for (let [t, { again: n }] of this.parts) t !== e && n();
		return this.end;
	}
}, nn = 144, rn = 14, an = {
	width: 36,
	height: 16
}, on = 6;
function sn(e, t, n, r) {
	let i = {
		list: [],
		exact: !0,
		sampled: !1,
		gaps: !1
	}, { r0: a, r1: o, c0: s, c1: c } = Ze(n, r), l = 256 * 2 ** r;
	for (let u = a; u < o; u++) for (let a = s; a < c; a++) {
		let o = cn(e, t, r, u, a);
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
function cn(e, t, n, r, i) {
	let a = e.coarsest(t);
	for (let o = 0; n + o <= a; o++) {
		let a = e.get(t, n + o, r >> o, i >> o);
		if (a) return a;
	}
	return e.get(t, null, 0, 0);
}
function ln(e, t) {
	let n = A(t), r = 0;
	for (let { tile: t, i0: i, i1: a, j0: o, j1: s } of e) {
		if (t.most <= r) continue;
		let e = 2 ** t.z, c = (n) => n / e - t.r * 256, l = (n) => n / e - t.c * 256;
		r = Math.max(r, en(t, Math.floor(c(Math.max(i, n.i0))), Math.min(t.h, Math.ceil(c(Math.min(a, n.i1)))), Math.floor(l(Math.max(o, n.j0))), Math.min(t.w, Math.ceil(l(Math.min(s, n.j1))))));
	}
	return r;
}
function un(e, t, n, r, i, a) {
	let o = 256 * 2 ** r, s = cn(e, t, r, Math.floor(i / o), Math.floor(a / o));
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
function dn(e, { range: t, scale: n, diverging: r }) {
	let i = Math.min(1, Math.abs(e) / t), a = Kt[n](i);
	return Math.round((r ? .5 + Math.sign(e) * a / 2 : e > 0 ? a : 0) * 1023) || 0;
}
function fn(e, t) {
	return Ut(t.dark, t.diverging)[dn(e, t)];
}
function pn(e) {
	return Uint32Array.from(Ut(e.dark, e.diverging), ([e, t, n]) => 4278190080 | n << 16 | t << 8 | e);
}
var mn = class {
	coloured = new Ne(nn);
	names = /* @__PURE__ */ new WeakMap();
	made = 0;
	table = null;
	draw(e, t, n, r, i, a) {
		let o = performance.now() + a, s = !0;
		for (let a of n) {
			let n = this.colour(a.tile, r, performance.now() < o);
			n && n.current || (s = !1), n && gn(e, t, a, n.canvas, i);
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
			pixels: pn(t)
		}), hn(o, e, t, this.table.pixels), this.coloured.set(i, {
			canvas: o,
			look: r
		}), {
			canvas: o,
			current: !0
		};
	}
};
function hn(e, t, n, r) {
	e.width = t.w, e.height = t.h;
	let i = e.getContext("2d");
	if (!i) return;
	let a = i.createImageData(t.w, t.h), o = new Uint32Array(a.data.buffer), s = r[dn(0, n)];
	for (let e = 0; e < o.length; e++) {
		let i = t.data[e];
		o[e] = i === 0 ? s : r[dn(i, n)];
	}
	i.putImageData(a, 0, 0);
}
function gn(e, t, n, r, i) {
	let { tile: a } = n, o = 2 ** a.z, s = A(t), c = Math.max(n.i0, Math.floor(s.i0 / o) * o), l = Math.min(n.i1, Math.ceil(s.i1 / o) * o), u = Math.max(n.j0, Math.floor(s.j0 / o) * o), d = Math.min(n.j1, Math.ceil(s.j1 / o) * o);
	if (l <= c || d <= u) return;
	let f = (e) => Math.round((t.x + e * t.kx) * i) / i, p = (e) => Math.round((t.y + e * t.ky) * i) / i;
	e.imageSmoothingEnabled = Math.max(t.kx, t.ky) * o * i < 2, e.drawImage(r, u / o - a.c * 256, c / o - a.r * 256, (d - u) / o, (l - c) / o, f(u), p(c), f(d) - f(u), p(l) - p(c));
}
function _n(e) {
	return Math.min(e.kx, e.ky) >= rn;
}
function vn(e) {
	return e.kx >= an.width && e.ky >= an.height;
}
function yn(e, t, n, r) {
	let i = [], { i0: a, i1: o, j0: s, j1: c } = A(e);
	for (let t = a; t < o; t++) for (let r = s; r < c; r++) {
		let a = n(t, r);
		a !== null && i.push({
			x: e.x + (r + .5) * e.kx,
			y: e.y + (t + .5) * e.ky,
			p: a
		});
	}
	let l = i.every(({ p: t }) => r(T(t)) <= e.kx - 4) ? T : me, u = [];
	for (let { x: n, y: a, p: o } of i) {
		let i = l(o), s = r(i) / 2 + 1;
		n < s || n > e.width - s || a < on || a > e.height - on || u.push({
			x: n,
			y: a,
			text: i,
			ink: Jt(fn(o, t))
		});
	}
	return u;
}
// src/commands.ts
var bn = {
	ArrowLeft: [-1, 0],
	ArrowRight: [1, 0],
	ArrowUp: [0, -1],
	ArrowDown: [0, 1]
};
function xn(e) {
	if (e.ctrlKey || e.metaKey || e.altKey) return null;
	let t = bn[e.key];
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
function Sn([e, t]) {
	return {
		i0: e,
		i1: e + 1,
		j0: t,
		j1: t + 1
	};
}
var Cn = 3;
function wn(e, t) {
	let n = e.start[t] ?? 0, r = e.causal ? 0 : e.after;
	return {
		first: e.before === null ? null : n - e.before,
		end: r === null ? null : n + r + 1,
		keys: e.keys[t] ?? [0, e.S],
		queries: e.queries[t] ?? [0, e.T]
	};
}
function Tn(e, t, n) {
	return !En(e, Sn([t, n]));
}
function En({ first: e, end: t, keys: n, queries: r }, i) {
	let a = Math.max(i.i0, r[0]), o = Math.min(i.i1, r[1]), s = Math.max(i.j0, n[0]), c = Math.min(i.j1, n[1]);
	return o <= a || c <= s || t !== null && s >= o - 1 + t || e !== null && c <= a + e;
}
function Dn(e, t) {
	let n = {
		areas: [],
		borders: []
	}, r = A(e), i = {
		i0: Math.max(r.i0, t.queries[0]),
		i1: Math.min(r.i1, t.queries[1]),
		j0: Math.max(r.j0, t.keys[0]),
		j1: Math.min(r.j1, t.keys[1])
	};
	return On(n, e, r, i), i.i1 <= i.i0 || i.j1 <= i.j0 || (t.end !== null && i.i0 + t.end < i.j1 && kn(n, e, i, t.end, !0), t.first !== null && i.i1 - 1 + t.first > i.j0 && kn(n, e, i, t.first, !1)), n;
}
function On({ areas: e, borders: t }, n, r, i) {
	let a = (e) => n.x + e * n.kx, o = (e) => n.y + e * n.ky, s = ({ i0: t, i1: n, j0: r, j1: i }) => {
		n > t && i > r && e.push([
			[a(r), o(t)],
			[a(i), o(t)],
			[a(i), o(n)],
			[a(r), o(n)]
		]);
	}, c = (e) => Math.min(r.j1, Math.max(r.j0, e)), [l, u] = i.j1 > i.j0 ? [i.j0, i.j1] : [r.j1, r.j1], [d, f] = i.i1 > i.i0 ? [i.i0, i.i1] : [r.i1, r.i1];
	s({
		...r,
		j1: c(l)
	}), s({
		...r,
		j0: c(u)
	}), s({
		i0: r.i0,
		i1: d,
		j0: l,
		j1: u
	}), s({
		i0: f,
		i1: r.i1,
		j0: l,
		j1: u
	});
	for (let e of [l, u]) e > r.j0 && e < r.j1 && t.push([[a(e), o(d)], [a(e), o(f)]]);
	for (let e of [d, f]) e > r.i0 && e < r.i1 && t.push([[a(l), o(e)], [a(u), o(e)]]);
}
function kn({ areas: e, borders: t }, n, { i0: r, i1: i, j0: a, j1: o }, s, c) {
	let l = Math.min(n.kx, n.ky) >= Cn, u = (e) => n.x + Math.min(o, Math.max(a, e)) * n.kx, d = (e) => n.y + e * n.ky, f = [];
	if (l) for (let e = r; e < i; e++) f.push([u(e + s), d(e)], [u(e + s), d(e + 1)]);
	else {
		let e = [
			r,
			i,
			a + .5 - s,
			o + .5 - s
		].filter((e) => e >= r && e <= i), t = c ? 1 : -1;
		for (let n of e.sort((e, t) => e - t)) f.push([u(n + s - .5) + t, d(n)]);
	}
	let p = u(c ? o : a), m = [
		...f,
		[p, d(i)],
		[p, d(r)]
	];
	e.push(c ? m.reverse() : m), t.push(f);
}
// src/readout.ts
function An(e, t, n) {
	return [e.axes[t.rows[n] ?? 0], e.axes[t.cols[n] ?? 0]];
}
function jn(e, t) {
	let n = t.i1 - t.i0, r = t.j1 - t.j0;
	return n <= 1 && r <= 1 ? "" : `${e.pool === "mean" ? "mean" : "largest"} of ${E(n)} × ${E(r)} cells`;
}
function Mn(e, t) {
	let n = t.norm ? "share of the row’s largest" : "probability";
	return t.minus === void 0 ? n : `${n}, ${e.runs[t.run] ?? ""} − ${e.runs[t.minus] ?? ""}`;
}
function Nn(e, t, n) {
	let r = e.layers[t.layer], [i, a] = An(e, r, t.b), o = jn(t, n), s = Pn(r, t, n), c = [], l = (e) => c.push({
		kind: "words",
		text: e
	});
	if (s) l(`${s} · `);
	else {
		let r = t.minus !== void 0 && n.p > 0 ? "+" : "";
		c.push({
			kind: "number",
			text: `${r}${T(n.p)}`
		}), l(` ${[Mn(e, t), o].filter(Boolean).join(", ")}${n.exact ? "" : ", sampled"} · `);
	}
	return Fn(c, "query", "queries", i, n.i0, n.i1), l(" → "), Fn(c, "key", "keys", a, n.j0, n.j1), !o && r.kind === "self" && l(` · ${_e(n.i0 + (r.start[t.b] ?? 0) - n.j0)}`), c;
}
function Pn(e, t, n) {
	return e.edged && En(wn(e, t.b), n) ? "hidden by the mask" : t.hide && n.j0 === e.sink[t.b] && n.j1 === n.j0 + 1 ? "left out (sink)" : Number.isNaN(n.p) ? "no number" : null;
}
function Fn(e, t, n, r, i, a) {
	let o = a - 1;
	if (O(r)) return void e.push({
		kind: "words",
		text: i === o ? `${t} ${E(i)}` : `${n} ${E(i)}–${E(o)}`
	});
	e.push({
		kind: "words",
		text: i === o ? `${t} ${E(i)} ` : `${n} ${E(i)}–${E(o)} `
	}), e.push({
		kind: "token",
		text: D(r, i)
	}), i !== o && e.push({
		kind: "words",
		text: " … "
	}, {
		kind: "token",
		text: D(r, o)
	});
}
function In(e, t, n) {
	return [...e ? [`${2 ** e} × ${2 ** e} cells a ${t < 3 ? "pixel" : "block"}`] : [], ...n ? ["touch for values"] : ["point for values", "? for keys"]].join(" · ");
}
function Ln() {
	return typeof matchMedia == "function" && matchMedia("(pointer: coarse)").matches;
}
// src/compose.ts
function Rn(e, t, n, r) {
	let i = e.coarsest(t), a = Qe(n, r);
	for (; a < i && ($e(Ze(n, a), [0, 0]).some(([n, r]) => e.isRefused(t, a, n, r)) || e.lack(t, a) !== null); a++);
	return a;
}
function zn(e, t, n, r) {
	let i = e.coarsest(t), a = [], o = (e, n, r, i) => a.push({
		shown: t,
		z: e,
		r: n,
		c: r,
		idle: i
	});
	(i > 0 || e.saved) && !e.get(t, i, 0, 0) && o(null, 0, 0, !1);
	for (let [e, t] of $e(r, et(n, r.z))) o(r.z, e, t, !1);
	r.z < i && o(i, 0, 0, !0);
	for (let [e, t] of tt(r, n.T, n.S)) o(r.z, e, t, !0);
	return a;
}
function Bn({ list: e }, t) {
	let n = e.filter(({ tile: e }) => e.z === t && e.exact);
	return n.length ? n : e;
}
function Vn(e, t, n) {
	return ln(Bn(e, n), t);
}
function Hn(e, t, n, { view: r, z: i, margins: a, pieces: o, most: s, range: c }) {
	let l = e.layers[n.layer], [u, d] = An(e, l, n.b), f = wn(l, n.b), p = 2 ** Math.max(i, ...Bn(o, i).map(({ tile: e }) => e.z)), m = jn(n, {
		i0: 0,
		i1: Math.min(l.T, p),
		j0: 0,
		j1: Math.min(l.S, p)
	}), h = o.exact && s === 0 && !En(f, A(r));
	return {
		shown: n,
		view: r,
		z: i,
		margins: a,
		pieces: o.list,
		look: {
			range: c,
			over: s > c * (1 + 1e-6),
			scale: t.scale,
			dark: Yt(t),
			diverging: n.minus !== void 0
		},
		mask: f,
		queries: u,
		keys: d,
		cross: l.kind === "cross",
		says: [Mn(e, n), m].filter(Boolean),
		note: h ? Un(n) : "",
		pool: p,
		query: t.query,
		key: t.key,
		sink: n.hide ? l.sink[n.b] ?? null : null
	};
}
function Un({ minus: e, hide: t }) {
	return e === void 0 ? t ? "no query attends to anything else here" : "no query attends to anything here" : "no difference here";
}
// src/bar.ts
var Wn = 10, Gn = 3, Kn = 120, qn = 240, Jn = 13, Yn = [
	.75,
	.5,
	.25
];
function Xn(e, t, n, r, i, a) {
	return t.bar === "below" ? Qn(e, t, n, r, a) : Zn(e, t, n, r, i, a);
}
function Zn(e, t, n, r, i, a) {
	let { x1: o, y0: s, y1: c } = N(e), l = Math.max(Math.min(e.height, Kn), Math.min(qn, c - s)), u = {
		x: t.left + o + 9,
		y: t.top + s,
		width: Wn,
		height: l,
		marks: [],
		ticks: []
	}, d = u.x + Wn;
	for (let { text: e, place: t } of $n(n)) {
		let n = u.y + l * (1 - t);
		u.marks.push({
			x: d + Gn + 2,
			y: n,
			text: e,
			angle: 0,
			anchor: "start",
			tone: "ink"
		}), u.ticks.push([
			d,
			n,
			d + Gn,
			n
		]);
	}
	let f = i.y - (r.length - 1) * Jn < 7 ? [r.join(", ")] : r, p = t.left + e.width + t.right - 2, m = Math.max(...f.map(a)), h = u.x + m <= p;
	return f.forEach((e, t) => u.marks.push({
		x: h ? u.x : p,
		y: i.y - (f.length - 1 - t) * Jn,
		text: M(e, p - i.end - 12, a),
		angle: 0,
		anchor: h ? "start" : "end",
		tone: "soft"
	})), u;
}
function Qn(e, t, n, r, i) {
	let a = t.left + e.width + t.right, o = Math.min(.42 * a, Math.max(...r.map(i))), s = Math.max(t.left, 2 + o + 14), c = t.top + N(e).y1 + 9, l = {
		x: s,
		y: c,
		width: Math.min(qn, a - 16 - s),
		height: Wn,
		marks: [],
		ticks: []
	};
	for (let { text: e, place: t } of $n(n)) {
		let n = s + l.width * t;
		l.marks.push({
			x: n,
			y: c + Wn + Gn + 8,
			text: e,
			angle: 0,
			anchor: "middle",
			tone: "ink"
		}), l.ticks.push([
			n,
			c + Wn,
			n,
			c + Wn + Gn
		]);
	}
	return r.forEach((e, t) => l.marks.push({
		x: 2,
		y: c + 6 + t * Jn,
		text: M(e, o, i),
		angle: 0,
		anchor: "start",
		tone: "soft"
	})), l;
}
function $n(e) {
	let { scale: t, range: n, diverging: r } = e, i = (e) => Kt[t](e / n), a = [n, ...t === "linear" && !r ? tr(n) : nr(n, r ? [.5] : Yn, i)].map((e) => ({
		text: he(e),
		place: i(e)
	})), o = {
		text: "0",
		place: 0
	}, s = (t, n) => e.over && t === 0 ? n : "";
	if (!r) return [...a.map(({ text: e, place: t }, n) => ({
		text: s(n, "≥") + e,
		place: t
	})), o];
	let c = (e, t) => a.map(({ text: n, place: r }, i) => ({
		text: `${s(i, t > 0 ? "≥" : "≤")}${e}${n}`,
		place: .5 + t * r / 2
	}));
	return [
		...c("+", 1),
		{
			text: "0",
			place: .5
		},
		...c("−", -1).reverse()
	];
}
var er = {
	1.5: 3,
	2.5: 5,
	3: 3,
	5: 5,
	6: 3
};
function tr(e) {
	let t = er[Number(e.toExponential(2).split("e")[0])] ?? 4;
	return Array.from({ length: t - 1 }, (n, r) => e * (t - 1 - r) / t);
}
function nr(e, t, n) {
	let r = [], i = Math.floor(Math.log10(e));
	for (let t = i; t > i - 5; t--) for (let n of [
		5,
		2,
		1
	]) n * 10 ** t < e * .999 && r.push(Number(`${n}e${t}`));
	return [...new Set(t.map((e) => r.reduce((t, r) => Math.abs(n(r) - e) < Math.abs(n(t) - e) ? r : t)))];
}
// src/figure.ts
var rr = "system-ui, \"Segoe UI\", Roboto, \"Noto Sans\", \"DejaVu Sans\", sans-serif", ir = 7;
function ar({ view: e, margins: t }) {
	return {
		width: t.left + e.width + t.right,
		height: t.top + e.height + t.bottom
	};
}
function or(e) {
	let t = /* @__PURE__ */ new Map();
	return (n) => {
		let r = t.get(n);
		return r === void 0 && (e && (e.font = `11px ${rr}`), r = e ? e.measureText(n).width : 6.2 * n.length, t.size > 8192 && t.clear(), t.set(n, r)), r;
	};
}
function sr(e, t, n, r, i, a, o) {
	let { view: s, margins: c, look: l } = t, u = It(l.dark);
	e.save(), e.translate(Math.round(c.left * a) / a - c.left, Math.round(c.top * a) / a - c.top), e.save(), e.translate(c.left, c.top), e.beginPath();
	let { x0: d, x1: f, y0: p, y1: m } = N(s);
	e.rect(d, p, f - d, m - p), e.clip();
	let h = r.draw(e, s, t.pieces, l, a, o);
	_n(s) && br(e, cr(s), u.grid, 1), t.z === 0 && vn(s) && ur(e, t, n, i), hr(e, t, u, a), yr(e, t, u), e.restore(), t.note && _r(e, t, u, i), e.strokeStyle = u.line, e.lineWidth = 1, e.strokeRect(c.left + d - .5, c.top + p - .5, f - d + 1, m - p + 1);
	let g = Tt(s, c, t.queries, t.keys, t.cross, i);
	return br(e, g.ticks, u.line, 1), xr(e, g.marks, u), Sr(e, t, u, g.title, i), e.restore(), h;
}
function cr(e) {
	let { i0: t, i1: n, j0: r, j1: i } = A(e), { x0: a, x1: o, y0: s, y1: c } = N(e), l = [];
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
function lr(e, t, n) {
	return yn(e.view, e.look, (n, r) => {
		let i = un(t, e.shown, e.view, 0, n, r);
		return !i?.exact || i.i1 - i.i0 > 1 || Number.isNaN(i.p) || r === e.sink || i.p === 0 && !Tn(e.mask, n, r) ? null : i.p;
	}, n);
}
function ur(e, t, n, r) {
	e.font = `11px ${rr}`, e.textAlign = "center", e.textBaseline = "middle";
	for (let { x: i, y: a, text: o, ink: s } of lr(t, n, r)) e.fillStyle = s, e.fillText(o, i, a + .5);
}
function dr(e) {
	let t = [], { width: n, height: r } = e, i = ((e.x + e.y) % ir + ir) % ir;
	for (let e = i; e < n + r; e += ir) t.push([
		Math.max(0, e - r),
		Math.min(e, r),
		Math.min(e, n),
		Math.max(0, e - n)
	]);
	return t;
}
function fr({ view: e, sink: t }) {
	if (t === null) return null;
	let n = Math.max(1, e.kx), r = Math.max(0, e.y);
	return [
		e.x + t * e.kx,
		r,
		n,
		Math.min(e.height, e.y + e.T * e.ky) - r
	];
}
var pr = /* @__PURE__ */ new Map();
function mr(e, { view: t }, n, r) {
	let i = `${n} ${r}`, a = pr.get(i), o = Math.round(ir * r);
	if (!a) {
		pr.set(i, a = document.createElement("canvas")), a.width = a.height = o;
		let e = a.getContext("2d");
		e && br(e, [
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
	return s?.setTransform(new DOMMatrix().translate(t.x + t.y, 0).scale(ir / o)), s;
}
function hr(e, t, n, r) {
	let { view: i } = t, { areas: a, borders: o } = Dn(i, t.mask), s = fr(t);
	if (!a.length && !s) return;
	e.beginPath();
	for (let t of a) t.forEach(([t, n], r) => r ? e.lineTo(t, n) : e.moveTo(t, n)), e.closePath();
	s && e.rect(...s), e.fillStyle = n.veil, e.fill();
	let c = mr(e, t, n.hatch, r);
	c && (e.fillStyle = c, e.fill()), e.strokeStyle = n.line, e.lineWidth = 1, e.beginPath();
	for (let t of o) t.forEach(([t, n], r) => r ? e.lineTo(t, n) : e.moveTo(t, n));
	e.stroke();
}
function gr({ view: e, margins: t, note: n }) {
	let { x0: r, x1: i, y0: a, y1: o } = N(e);
	return {
		x: t.left + (r + i) / 2,
		y: t.top + (a + o) / 2,
		text: n,
		angle: 0,
		anchor: "middle",
		tone: "ink"
	};
}
function _r(e, t, n, r) {
	let i = gr(t), a = r(i.text) / 2 + 8;
	e.fillStyle = n.surface, e.fillRect(i.x - a, i.y - 11, 2 * a, 22), xr(e, [i], n);
}
function vr({ view: e, query: t, key: n, pool: r }) {
	let { x0: i, x1: a, y0: o, y1: s } = N(e), c = [];
	if (t !== null && t < e.T) {
		let n = t - t % r, o = e.y + n * e.ky, s = Math.min(r, e.T - n) * e.ky;
		c.push(s >= 5 ? [
			i + 1,
			o,
			a - i - 2,
			s
		] : [
			i,
			o + s / 2,
			a - i,
			0
		]);
	}
	if (n !== null && n < e.S) {
		let t = n - n % r, i = e.x + t * e.kx, a = Math.min(r, e.S - t) * e.kx;
		c.push(a >= 5 ? [
			i,
			o + 1,
			a,
			s - o - 2
		] : [
			i + a / 2,
			o,
			0,
			s - o
		]);
	}
	return c;
}
function yr(e, t, n) {
	e.strokeStyle = n.accent, e.lineWidth = 1.5;
	for (let [n, r, i, a] of vr(t)) e.beginPath(), i && a ? e.rect(n, r, i, a) : (e.moveTo(n, r), e.lineTo(n + i, r + a)), e.stroke();
}
function br(e, t, n, r) {
	e.strokeStyle = n, e.lineWidth = r, e.beginPath();
	for (let [n, r, i, a] of t) e.moveTo(n, r), e.lineTo(i, a);
	e.stroke();
}
function xr(e, t, n) {
	e.font = `11px ${rr}`, e.textBaseline = "middle";
	for (let { x: r, y: i, text: a, angle: o, anchor: s, tone: c } of t) e.fillStyle = n[c], e.textAlign = s === "middle" ? "center" : s === "end" ? "right" : "left", o === 0 ? e.fillText(a, r, i + .5) : (e.save(), e.translate(r, i), e.rotate(o * Math.PI / 180), e.fillText(a, 0, .5), e.restore());
}
function Sr(e, t, n, r, i) {
	let { look: a } = t, o = Xn(t.view, t.margins, a, t.says, r, i), s = Ut(a.dark, a.diverging), c = t.margins.bar === "below" ? e.createLinearGradient(o.x, 0, o.x + o.width, 0) : e.createLinearGradient(0, o.y + o.height, 0, o.y);
	for (let e = 0; e <= 64; e++) c.addColorStop(e / 64, qt(s[Math.round(e / 64 * (s.length - 1))]));
	e.fillStyle = c, e.fillRect(o.x, o.y, o.width, o.height), e.strokeStyle = n.line, e.lineWidth = 1, e.strokeRect(o.x - .5, o.y - .5, o.width + 1, o.height + 1), br(e, o.ticks, n.line, 1), xr(e, o.marks, n);
}
// src/cross.ts
var I = {
	pad: 5,
	line: 13,
	away: 4,
	widest: 160
};
function Cr(e, { view: t, margins: n, look: r }) {
	let { x0: i, x1: a, y0: o, y1: s } = N(t);
	e.strokeStyle = It(r.dark).focus, e.lineWidth = 2, e.strokeRect(n.left + i - 2, n.top + o - 2, a - i + 4, s - o + 4);
}
function wr(e, t, n, r) {
	let { view: i, margins: a } = t, o = It(t.look.dark), s = a.left + i.x + (n.j0 + n.j1) / 2 * i.kx, c = a.top + i.y + (n.i0 + n.i1) / 2 * i.ky;
	Tr(e, t, o, [s, c], [(n.j1 - n.j0) * i.kx, (n.i1 - n.i0) * i.ky]);
	let l = a.left + N(i).x0, u = a.top + N(i).y0, d = [ge(n.i0, n.i1), n.i1 - n.i0 > 1 || O(t.queries) ? "" : D(t.queries, n.i0)].filter(Boolean), f = [ge(n.j0, n.j1), n.j1 - n.j0 > 1 || O(t.keys) ? "" : D(t.keys, n.j0)].filter(Boolean), p = Er(d, l - I.away - 2 * I.pad - 1, r), m = Math.max(...p.map(r)) + 2 * I.pad, h = p.length * I.line + 5;
	Dr(e, p, l - I.away - m / 2, Math.max(c, u + h / 2 - 4), o, r);
	let g = M(f.join(" "), I.widest, r), _ = r(g) / 2 + I.pad, v = Math.max(l + _, Math.min(ar(t).width - _ - 1, s));
	Dr(e, [g], v, u - 22 + 9, o, r);
}
function Tr(e, { view: t, margins: n }, r, [i, a], [o, s]) {
	let { x0: c, x1: l, y0: u, y1: d } = N(t), f = (e) => e >= 12 ? [-e / 2, e / 2] : [0];
	e.save(), e.beginPath(), e.rect(n.left + c, n.top + u, l - c, d - u), e.clip(), e.globalAlpha = Math.min(o, s) >= 12 ? .4 : .55;
	let p = f(o).map((e) => [
		i + e,
		n.top + u,
		i + e,
		n.top + d
	]), m = f(s).map((e) => [
		n.left + c,
		a + e,
		n.left + l,
		a + e
	]);
	br(e, [...p, ...m], r.ink, 1), e.globalAlpha = 1, Math.min(o, s) >= 4 && (e.strokeStyle = r.ink, e.lineWidth = 1.5, e.strokeRect(i - o / 2, a - s / 2, o, s)), e.restore();
}
function Er(e, t, n) {
	let r = e.join(" ");
	return n(r) <= t ? [r] : (e.length > 1 ? e : r.split(/(?<=–)/)).map((e) => M(e, t, n));
}
function Dr(e, t, n, r, i, a) {
	let o = Math.max(...t.map(a)) + 2 * I.pad, s = t.length * I.line + 5;
	e.fillStyle = i.ink, e.beginPath(), e.roundRect(n - o / 2, r - s / 2, o, s, 4), e.fill(), e.fillStyle = i.onInk, e.font = `11px ${rr}`, e.textAlign = "center", e.textBaseline = "middle", t.forEach((i, a) => e.fillText(i, n, r + .5 + (a - (t.length - 1) / 2) * I.line));
}
// src/picture.ts
var Or = 46, kr = 10, L = 2, Ar = 4096;
function jr({ shown: e, look: t }, n) {
	let r = [e.layer, e.head], a = s(n, r), o = n.runs.length > 1 && e.minus === void 0 ? n.runs[e.run] : void 0, c = [
		n.title,
		Me(n, r),
		o,
		n.batch > 1 ? `row ${e.b} of the batch` : void 0
	];
	return e.hide && c.push("sink left out"), t.scale !== "linear" && c.push(t.scale === "sqrt" ? "√ colour scale" : "log colour scale"), [`${i(n, r)}${a ? `: ${a.title}` : ""}`, c.filter(Boolean).join(" · ")];
}
function Mr(e, t, n, r) {
	let { width: i, height: a } = ar(e), o = document.createElement("canvas");
	o.width = Math.round((i + 20) * L), o.height = Math.round((a + Or + 20) * L);
	let s = o.getContext("2d");
	if (!s) return Promise.reject(/* @__PURE__ */ Error("This browser can not draw a picture of that size."));
	let c = It(e.look.dark);
	s.scale(L, L), s.fillStyle = c.surface, s.fillRect(0, 0, i + 20, a + Or + 20);
	let [l, u] = jr(e, n), d = kr + Nr(e);
	return s.textBaseline = "alphabetic", s.fillStyle = c.ink, s.font = `600 16px ${rr}`, s.fillText(l, d, 28), s.fillStyle = c.soft, s.font = `12px ${rr}`, s.fillText(M(u, (i - d) * .9, r), d, 46), s.translate(kr, 56), sr(s, e, t, new mn(), r, L, Infinity), new Promise((e, t) => {
		o.toBlob((n) => n ? e(n) : t(/* @__PURE__ */ Error("This browser can not draw a picture of that size.")));
	});
}
function Nr({ view: e, margins: t }) {
	return t.left + N(e).x0;
}
function Pr(e) {
	let t = {
		"&": "&amp;",
		"<": "&lt;",
		">": "&gt;",
		"\"": "&quot;",
		"'": "&#39;"
	};
	return e.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "�").replace(/[&<>"']/g, (e) => t[e]);
}
var R = (e) => String(Math.round(e * 100) / 100);
function z(e, t, n) {
	let r = Object.entries(t).map(([e, t]) => ` ${e}="${typeof t == "number" ? R(t) : Pr(t)}"`);
	return n === void 0 ? `<${e}${r.join("")}/>` : `<${e}${r.join("")}>${n}</${e}>`;
}
function Fr(e, t) {
	return z("text", t, Pr(e));
}
function Ir(e, t, n = 1) {
	return e.length ? z("path", {
		d: e.map(([e, t, n, r]) => `M${R(e)} ${R(t)}L${R(n)} ${R(r)}`).join(""),
		fill: "none",
		stroke: t,
		"stroke-width": n
	}) : "";
}
function Lr(e, t) {
	return e.map(({ x: e, y: n, text: r, angle: i, anchor: a, tone: o }) => Fr(r, {
		"text-anchor": a,
		"dominant-baseline": "central",
		fill: t[o],
		...i ? { transform: `translate(${R(e)} ${R(n)}) rotate(${i})` } : {
			x: e,
			y: n
		}
	})).join("");
}
function Rr(e, t, n, r) {
	let { view: i, margins: a, look: o } = e, { width: s, height: c } = ar(e), l = It(o.dark), { x0: u, x1: d, y0: f, y1: p } = N(i), [m, h] = jr(e, n), g = Nr(e), _ = Tt(i, a, e.queries, e.keys, e.cross, r), v = {
		x: u,
		y: f,
		width: d - u,
		height: p - f
	}, y = [
		zr(e, t),
		_n(i) ? Ir(cr(i), l.grid) : "",
		Vr(e, t, r)
	];
	y.push(Hr(e, l));
	for (let [t, n, r, i] of vr(e)) {
		let e = {
			x: t,
			y: n,
			width: r,
			height: i,
			fill: "none",
			stroke: l.accent,
			"stroke-width": 1.5
		};
		y.push(r && i ? z("rect", e) : Ir([[
			t,
			n,
			t + r,
			n + i
		]], l.accent, 1.5));
	}
	let b = [
		z("title", {}, Pr(`${m} · ${h}`)),
		z("defs", {}, z("clipPath", { id: "plot" }, z("rect", v)) + Wr(e)),
		z("rect", {
			x: -10,
			y: -56,
			width: s + 20,
			height: c + Or + 20,
			fill: l.surface
		}),
		Fr(m, {
			x: g,
			y: -28,
			fill: l.ink,
			"font-size": 16,
			"font-weight": 600
		}),
		Fr(h, {
			x: g,
			y: -10,
			fill: l.soft,
			"font-size": 12
		}),
		z("g", { transform: `translate(${a.left} ${a.top})` }, z("g", { "clip-path": "url(#plot)" }, y.join("")) + z("rect", {
			...v,
			fill: "none",
			stroke: l.line
		})),
		Ir(_.ticks, l.line),
		Lr(_.marks, l),
		Gr(e, l, _.title, r),
		Ur(e, l, r)
	];
	return `${z("svg", {
		xmlns: "http://www.w3.org/2000/svg",
		width: s + 20,
		height: c + Or + 20,
		viewBox: `-10 -56 ${R(s + 20)} ${R(c + Or + 20)}`,
		"font-family": rr,
		"font-size": 11
	}, b.join(""))}\n`;
}
function zr(e, t) {
	let { view: n, z: r } = e, { i0: i, i1: a, j0: o, j1: s } = A(n), c = 2 ** r;
	if ((Math.ceil(a / c) - Math.floor(i / c)) * (Math.ceil(s / c) - Math.floor(o / c)) > Ar) return Br(e);
	let l = [];
	for (let u = Math.floor(i / c) * c; u < a; u += c) for (let i = Math.floor(o / c) * c; i < s; i += c) {
		let a = un(t, e.shown, n, r, u, i);
		a && l.push(z("rect", {
			x: n.x + i * n.kx,
			y: n.y + u * n.ky,
			width: Math.min(c, n.S - i) * n.kx,
			height: Math.min(c, n.T - u) * n.ky,
			fill: qt(fn(a.p, e.look))
		}));
	}
	return z("g", { "shape-rendering": "crispEdges" }, l.join(""));
}
function Br({ view: e, pieces: t, look: n }) {
	let r = document.createElement("canvas");
	r.width = Math.round(e.width * L), r.height = Math.round(e.height * L);
	let i = r.getContext("2d");
	return i ? (i.scale(L, L), new mn().draw(i, e, t, n, L, Infinity), z("image", {
		x: 0,
		y: 0,
		width: e.width,
		height: e.height,
		preserveAspectRatio: "none",
		href: r.toDataURL("image/png")
	})) : "";
}
function Vr(e, t, n) {
	return e.z !== 0 || !vn(e.view) ? "" : lr(e, t, n).map(({ x: e, y: t, text: n, ink: r }) => Fr(n, {
		x: e,
		y: t,
		"text-anchor": "middle",
		"dominant-baseline": "central",
		fill: r
	})).join("");
}
function Hr(e, t) {
	let { areas: n, borders: r } = Dn(e.view, e.mask), i = fr(e);
	if (!n.length && !i) return "";
	let a = (e) => e.map(([e, t], n) => `${n ? "L" : "M"}${R(e)} ${R(t)}`).join(""), o = n.map((e) => `${a(e)}Z`).join("");
	i && (o += `M${R(i[0])} ${R(i[1])}h${R(i[2])}v${R(i[3])}h${R(-i[2])}Z`);
	let s = r.map(a).join("");
	return z("clipPath", { id: "hidden" }, z("path", { d: o })) + z("path", {
		d: o,
		fill: t.veil
	}) + z("g", { "clip-path": "url(#hidden)" }, Ir(dr(e.view), t.hatch)) + (s && z("path", {
		d: s,
		fill: "none",
		stroke: t.line
	}));
}
function Ur(e, t, n) {
	if (!e.note) return "";
	let r = gr(e), i = n(r.text) / 2 + 8;
	return z("rect", {
		x: r.x - i,
		y: r.y - 11,
		width: 2 * i,
		height: 22,
		fill: t.surface
	}) + Lr([r], t);
}
function Wr({ look: e, margins: t }) {
	let n = Ut(e.dark, e.diverging), r = Array.from({ length: 33 }, (e, t) => z("stop", {
		offset: t / 32,
		"stop-color": qt(n[Math.round(t / 32 * (n.length - 1))])
	}));
	return z("linearGradient", {
		id: "bar",
		...t.bar === "below" ? {
			x1: 0,
			x2: 1,
			y1: 0,
			y2: 0
		} : {
			x1: 0,
			x2: 0,
			y1: 1,
			y2: 0
		}
	}, r.join(""));
}
function Gr(e, t, n, r) {
	let i = Xn(e.view, e.margins, e.look, e.says, n, r), { x: a, y: o, width: s, height: c } = i;
	return z("rect", {
		x: a,
		y: o,
		width: s,
		height: c,
		fill: "url(#bar)",
		stroke: t.line
	}) + Ir(i.ticks, t.line) + Lr(i.marks, t);
}
// src/map.css?inline
var Kr = ".map-stage{width:100%;min-height:160px;position:relative}.map-canvas{width:100%;height:100%;display:block;position:absolute;inset:0}.map-stage.lost .map-canvas{opacity:.45;filter:grayscale()}.map-plot{cursor:crosshair;touch-action:none;-webkit-user-select:none;user-select:none;border-radius:2px;position:absolute}.map-plot.whole:not(.boxing){touch-action:pan-y}.map-plot:focus-visible{outline:2px solid #0000}.map-plot.held{cursor:grabbing}.map-box{background:color-mix(in srgb, currentColor 12%, transparent);pointer-events:none;border:1.5px dashed;position:absolute}.map-badge{pointer-events:none;background:var(--card,Canvas);color:var(--soft,CanvasText);border:1px solid var(--line,GrayText);overflow-wrap:anywhere;border-radius:6px;padding:2px 8px;font-size:11px;line-height:1.5;position:absolute;transform:translateY(-100%)}.map-foot{justify-content:space-between;align-items:flex-start;gap:12px;margin-top:6px;display:flex}.map-foot output{overflow-wrap:anywhere;font-variant-numeric:tabular-nums;flex:1;min-width:0;min-height:3em;font-size:12px;line-height:1.5}.map-foot output b{font-weight:650}.map-foot output .soft{color:var(--soft,inherit)}.map-tools{flex:none;gap:4px;display:flex}.map-tools button{min-width:28px;height:28px;font:inherit;color:inherit;cursor:pointer;border:1px solid var(--line,GrayText);background:0 0;border-radius:7px;padding:0 8px;font-size:12px;line-height:1}.map-tools button:hover{border-color:var(--soft,currentColor)}.map-tools button[aria-pressed=true]{background:var(--accent,#0b62b8);border-color:var(--accent,#0b62b8);color:var(--on-accent,#fff)}.map-tools button:focus-visible{outline:2px solid var(--accent,#0b62b8);outline-offset:2px}@media (pointer:coarse){.map-tools button{min-width:36px;height:36px}}", qr = "Arrow keys pan. Shift and arrow keys move the crosshair. Plus and minus zoom, 0 shows the whole. Enter selects the cell under the crosshair. b starts a box, Enter zooms to it. Escape lets go of what was last begun.", Jr = null;
function Yr(e) {
	let t = e.getRootNode();
	t.adoptedStyleSheets && (Jr || (Jr = new CSSStyleSheet(), Jr.replaceSync(Kr)), t.adoptedStyleSheets.includes(Jr) || (t.adoptedStyleSheets = [...t.adoptedStyleSheets, Jr]));
}
function Xr(e, t) {
	Yr(e);
	let n = S("canvas", {
		class: "map-canvas",
		"aria-hidden": "true"
	}), r = S("div", { class: "map-box" }), i = S("div", {
		class: "map-plot",
		tabindex: 0,
		role: "application",
		"aria-roledescription": "attention map",
		"aria-description": qr
	}, r), a = S("div", { class: "map-badge" });
	r.hidden = a.hidden = !0;
	let o = S("div", { class: "map-stage" }, n, i, a), s = S("output"), c = (e, t, n, r = {}) => w(e, n, {
		title: t,
		"aria-label": t,
		...r
	}), l = c("Box", "Box: drag over the part to zoom to", t.box, { "aria-pressed": "false" }), u = S("div", {
		class: "map-tools",
		role: "group",
		"aria-label": "Zoom"
	}, c("−", "Zoom out", t.out), c("+", "Zoom in", t.in), c("Whole", "Whole pattern", t.whole), l);
	return e.replaceChildren(o, S("div", { class: "map-foot" }, s, u)), {
		stage: o,
		canvas: n,
		plot: i,
		box: r,
		badge: a,
		output: s,
		boxing: l
	};
}
function Zr({ stage: e, plot: t, badge: n }, r, i) {
	let a = (e, t) => {
		for (let [n, r] of Object.entries(t)) e.style[n] = `${r}px`;
	};
	a(e, {
		height: i.top + r.height + i.bottom,
		minHeight: vt(i)
	}), a(t, {
		left: i.left,
		top: i.top,
		width: r.width,
		height: r.height
	}), a(n, {
		left: i.left + 8,
		top: i.top + r.height - 8,
		maxWidth: r.width - 16
	});
}
function Qr(e, t, n, r, i) {
	let [a, o] = [Math.round(n * i), Math.round(r * i)];
	(e.width !== a || e.height !== o) && (e.width = a, e.height = o, e.style.width = `${n}px`, e.style.height = `${r}px`), t?.setTransform(i, 0, 0, i, 0, 0), t?.clearRect(0, 0, n, r);
}
function $r(e, t) {
	e.replaceChildren(...t.map(({ kind: e, text: t }) => e === "words" ? S("span", { class: "soft" }, t) : S(e === "number" ? "b" : "bdi", {}, t.length > 80 ? `${t.slice(0, 80)}…` : t)));
}
function ei(e, t, n) {
	if (e.hidden = !n, !n) return;
	let { from: r, to: i } = n, a = (t, n) => e.style[t] = `${n}px`;
	a("left", t.x + Math.min(r[1], i[1]) * t.kx), a("top", t.y + Math.min(r[0], i[0]) * t.ky), a("width", (Math.abs(r[1] - i[1]) + 1) * t.kx), a("height", (Math.abs(r[0] - i[0]) + 1) * t.ky);
}
// node_modules/d3-selection/dist/d3-selection.mjs
var ti = "http://www.w3.org/1999/xhtml", ni = {
	svg: "http://www.w3.org/2000/svg",
	xhtml: ti,
	xlink: "http://www.w3.org/1999/xlink",
	xml: "http://www.w3.org/XML/1998/namespace",
	xmlns: "http://www.w3.org/2000/xmlns/"
};
function ri(e) {
	var t = e += "", n = t.indexOf(":");
	return n >= 0 && (t = e.slice(0, n)) !== "xmlns" && (e = e.slice(n + 1)), ni.hasOwnProperty(t) ? {
		space: ni[t],
		local: e
	} : e;
}
function ii(e) {
	return function() {
		var t = this.ownerDocument, n = this.namespaceURI;
		return n === ti && t.documentElement.namespaceURI === ti ? t.createElement(e) : t.createElementNS(n, e);
	};
}
function ai(e) {
	return function() {
		return this.ownerDocument.createElementNS(e.space, e.local);
	};
}
function oi(e) {
	var t = ri(e);
	return (t.local ? ai : ii)(t);
}
function si() {}
function ci(e) {
	return e == null ? si : function() {
		return this.querySelector(e);
	};
}
function li(e) {
	typeof e != "function" && (e = ci(e));
	for (var t = this._groups, n = t.length, r = Array(n), i = 0; i < n; ++i) for (var a = t[i], o = a.length, s = r[i] = Array(o), c, l, u = 0; u < o; ++u) (c = a[u]) && (l = e.call(c, c.__data__, u, a)) && ("__data__" in c && (l.__data__ = c.__data__), s[u] = l);
	return new B(r, this._parents);
}
function ui(e) {
	return e == null ? [] : Array.isArray(e) ? e : Array.from(e);
}
function di() {
	return [];
}
function fi(e) {
	return e == null ? di : function() {
		return this.querySelectorAll(e);
	};
}
function pi(e) {
	return function() {
		return ui(e.apply(this, arguments));
	};
}
function mi(e) {
	e = typeof e == "function" ? pi(e) : fi(e);
	for (var t = this._groups, n = t.length, r = [], i = [], a = 0; a < n; ++a) for (var o = t[a], s = o.length, c, l = 0; l < s; ++l) (c = o[l]) && (r.push(e.call(c, c.__data__, l, o)), i.push(c));
	return new B(r, i);
}
function hi(e) {
	return function() {
		return this.matches(e);
	};
}
function gi(e) {
	return function(t) {
		return t.matches(e);
	};
}
var _i = Array.prototype.find;
function vi(e) {
	return function() {
		return _i.call(this.children, e);
	};
}
function yi() {
	return this.firstElementChild;
}
function bi(e) {
	return this.select(e == null ? yi : vi(typeof e == "function" ? e : gi(e)));
}
var xi = Array.prototype.filter;
function Si() {
	return Array.from(this.children);
}
function Ci(e) {
	return function() {
		return xi.call(this.children, e);
	};
}
function wi(e) {
	return this.selectAll(e == null ? Si : Ci(typeof e == "function" ? e : gi(e)));
}
function Ti(e) {
	typeof e != "function" && (e = hi(e));
	for (var t = this._groups, n = t.length, r = Array(n), i = 0; i < n; ++i) for (var a = t[i], o = a.length, s = r[i] = [], c, l = 0; l < o; ++l) (c = a[l]) && e.call(c, c.__data__, l, a) && s.push(c);
	return new B(r, this._parents);
}
function Ei(e) {
	return Array(e.length);
}
function Di() {
	return new B(this._enter || this._groups.map(Ei), this._parents);
}
function Oi(e, t) {
	this.ownerDocument = e.ownerDocument, this.namespaceURI = e.namespaceURI, this._next = null, this._parent = e, this.__data__ = t;
}
Oi.prototype = {
	constructor: Oi,
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
function ki(e) {
	return function() {
		return e;
	};
}
function Ai(e, t, n, r, i, a) {
	for (var o = 0, s, c = t.length, l = a.length; o < l; ++o) (s = t[o]) ? (s.__data__ = a[o], r[o] = s) : n[o] = new Oi(e, a[o]);
	for (; o < c; ++o) (s = t[o]) && (i[o] = s);
}
function ji(e, t, n, r, i, a, o) {
	var s, c, l = /* @__PURE__ */ new Map(), u = t.length, d = a.length, f = Array(u), p;
	for (s = 0; s < u; ++s) (c = t[s]) && (f[s] = p = o.call(c, c.__data__, s, t) + "", l.has(p) ? i[s] = c : l.set(p, c));
	for (s = 0; s < d; ++s) p = o.call(e, a[s], s, a) + "", (c = l.get(p)) ? (r[s] = c, c.__data__ = a[s], l.delete(p)) : n[s] = new Oi(e, a[s]);
	for (s = 0; s < u; ++s) (c = t[s]) && l.get(f[s]) === c && (i[s] = c);
}
function Mi(e) {
	return e.__data__;
}
function Ni(e, t) {
	if (!arguments.length) return Array.from(this, Mi);
	var n = t ? ji : Ai, r = this._parents, i = this._groups;
	typeof e != "function" && (e = ki(e));
	for (var a = i.length, o = Array(a), s = Array(a), c = Array(a), l = 0; l < a; ++l) {
		var u = r[l], d = i[l], f = d.length, p = Pi(e.call(u, u && u.__data__, l, r)), m = p.length, h = s[l] = Array(m), g = o[l] = Array(m);
		n(u, d, h, g, c[l] = Array(f), p, t);
		for (var _ = 0, v = 0, y, b; _ < m; ++_) if (y = h[_]) {
			for (_ >= v && (v = _ + 1); !(b = g[v]) && ++v < m;);
			y._next = b || null;
		}
	}
	return o = new B(o, r), o._enter = s, o._exit = c, o;
}
function Pi(e) {
	return typeof e == "object" && "length" in e ? e : Array.from(e);
}
function Fi() {
	return new B(this._exit || this._groups.map(Ei), this._parents);
}
function Ii(e, t, n) {
	var r = this.enter(), i = this, a = this.exit();
	return typeof e == "function" ? (r = e(r), r &&= r.selection()) : r = r.append(e + ""), t != null && (i = t(i), i &&= i.selection()), n == null ? a.remove() : n(a), r && i ? r.merge(i).order() : i;
}
function Li(e) {
	for (var t = e.selection ? e.selection() : e, n = this._groups, r = t._groups, i = n.length, a = r.length, o = Math.min(i, a), s = Array(i), c = 0; c < o; ++c) for (var l = n[c], u = r[c], d = l.length, f = s[c] = Array(d), p, m = 0; m < d; ++m) (p = l[m] || u[m]) && (f[m] = p);
	for (; c < i; ++c) s[c] = n[c];
	return new B(s, this._parents);
}
function Ri() {
	for (var e = this._groups, t = -1, n = e.length; ++t < n;) for (var r = e[t], i = r.length - 1, a = r[i], o; --i >= 0;) (o = r[i]) && (a && o.compareDocumentPosition(a) ^ 4 && a.parentNode.insertBefore(o, a), a = o);
	return this;
}
function zi(e) {
	e ||= Bi;
	function t(t, n) {
		return t && n ? e(t.__data__, n.__data__) : !t - !n;
	}
	for (var n = this._groups, r = n.length, i = Array(r), a = 0; a < r; ++a) {
		for (var o = n[a], s = o.length, c = i[a] = Array(s), l, u = 0; u < s; ++u) (l = o[u]) && (c[u] = l);
		c.sort(t);
	}
	return new B(i, this._parents).order();
}
function Bi(e, t) {
	return e < t ? -1 : e > t ? 1 : e >= t ? 0 : NaN;
}
function Vi() {
	var e = arguments[0];
	return arguments[0] = this, e.apply(null, arguments), this;
}
function Hi() {
	return Array.from(this);
}
function Ui() {
	for (var e = this._groups, t = 0, n = e.length; t < n; ++t) for (var r = e[t], i = 0, a = r.length; i < a; ++i) {
		var o = r[i];
		if (o) return o;
	}
	return null;
}
function Wi() {
	let e = 0;
	for (let t of this) ++e;
	return e;
}
function Gi() {
	return !this.node();
}
function Ki(e) {
	for (var t = this._groups, n = 0, r = t.length; n < r; ++n) for (var i = t[n], a = 0, o = i.length, s; a < o; ++a) (s = i[a]) && e.call(s, s.__data__, a, i);
	return this;
}
function qi(e) {
	return function() {
		this.removeAttribute(e);
	};
}
function Ji(e) {
	return function() {
		this.removeAttributeNS(e.space, e.local);
	};
}
function Yi(e, t) {
	return function() {
		this.setAttribute(e, t);
	};
}
function Xi(e, t) {
	return function() {
		this.setAttributeNS(e.space, e.local, t);
	};
}
function Zi(e, t) {
	return function() {
		var n = t.apply(this, arguments);
		n == null ? this.removeAttribute(e) : this.setAttribute(e, n);
	};
}
function Qi(e, t) {
	return function() {
		var n = t.apply(this, arguments);
		n == null ? this.removeAttributeNS(e.space, e.local) : this.setAttributeNS(e.space, e.local, n);
	};
}
function $i(e, t) {
	var n = ri(e);
	if (arguments.length < 2) {
		var r = this.node();
		return n.local ? r.getAttributeNS(n.space, n.local) : r.getAttribute(n);
	}
	return this.each((t == null ? n.local ? Ji : qi : typeof t == "function" ? n.local ? Qi : Zi : n.local ? Xi : Yi)(n, t));
}
function ea(e) {
	return e.ownerDocument && e.ownerDocument.defaultView || e.document && e || e.defaultView;
}
function ta(e) {
	return function() {
		this.style.removeProperty(e);
	};
}
function na(e, t, n) {
	return function() {
		this.style.setProperty(e, t, n);
	};
}
function ra(e, t, n) {
	return function() {
		var r = t.apply(this, arguments);
		r == null ? this.style.removeProperty(e) : this.style.setProperty(e, r, n);
	};
}
function ia(e, t, n) {
	return arguments.length > 1 ? this.each((t == null ? ta : typeof t == "function" ? ra : na)(e, t, n ?? "")) : aa(this.node(), e);
}
function aa(e, t) {
	return e.style.getPropertyValue(t) || ea(e).getComputedStyle(e, null).getPropertyValue(t);
}
function oa(e) {
	return function() {
		delete this[e];
	};
}
function sa(e, t) {
	return function() {
		this[e] = t;
	};
}
function ca(e, t) {
	return function() {
		var n = t.apply(this, arguments);
		n == null ? delete this[e] : this[e] = n;
	};
}
function la(e, t) {
	return arguments.length > 1 ? this.each((t == null ? oa : typeof t == "function" ? ca : sa)(e, t)) : this.node()[e];
}
function ua(e) {
	return e.trim().split(/^|\s+/);
}
function da(e) {
	return e.classList || new fa(e);
}
function fa(e) {
	this._node = e, this._names = ua(e.getAttribute("class") || "");
}
fa.prototype = {
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
function pa(e, t) {
	for (var n = da(e), r = -1, i = t.length; ++r < i;) n.add(t[r]);
}
function ma(e, t) {
	for (var n = da(e), r = -1, i = t.length; ++r < i;) n.remove(t[r]);
}
function ha(e) {
	return function() {
		pa(this, e);
	};
}
function ga(e) {
	return function() {
		ma(this, e);
	};
}
function _a(e, t) {
	return function() {
		(t.apply(this, arguments) ? pa : ma)(this, e);
	};
}
function va(e, t) {
	var n = ua(e + "");
	if (arguments.length < 2) {
		for (var r = da(this.node()), i = -1, a = n.length; ++i < a;) if (!r.contains(n[i])) return !1;
		return !0;
	}
	return this.each((typeof t == "function" ? _a : t ? ha : ga)(n, t));
}
function ya() {
	this.textContent = "";
}
function ba(e) {
	return function() {
		this.textContent = e;
	};
}
function xa(e) {
	return function() {
		var t = e.apply(this, arguments);
		this.textContent = t ?? "";
	};
}
function Sa(e) {
	return arguments.length ? this.each(e == null ? ya : (typeof e == "function" ? xa : ba)(e)) : this.node().textContent;
}
function Ca() {
	this.innerHTML = "";
}
function wa(e) {
	return function() {
		this.innerHTML = e;
	};
}
function Ta(e) {
	return function() {
		var t = e.apply(this, arguments);
		this.innerHTML = t ?? "";
	};
}
function Ea(e) {
	return arguments.length ? this.each(e == null ? Ca : (typeof e == "function" ? Ta : wa)(e)) : this.node().innerHTML;
}
function Da() {
	this.nextSibling && this.parentNode.appendChild(this);
}
function Oa() {
	return this.each(Da);
}
function ka() {
	this.previousSibling && this.parentNode.insertBefore(this, this.parentNode.firstChild);
}
function Aa() {
	return this.each(ka);
}
function ja(e) {
	var t = typeof e == "function" ? e : oi(e);
	return this.select(function() {
		return this.appendChild(t.apply(this, arguments));
	});
}
function Ma() {
	return null;
}
function Na(e, t) {
	var n = typeof e == "function" ? e : oi(e), r = t == null ? Ma : typeof t == "function" ? t : ci(t);
	return this.select(function() {
		return this.insertBefore(n.apply(this, arguments), r.apply(this, arguments) || null);
	});
}
function Pa() {
	var e = this.parentNode;
	e && e.removeChild(this);
}
function Fa() {
	return this.each(Pa);
}
function Ia() {
	var e = this.cloneNode(!1), t = this.parentNode;
	return t ? t.insertBefore(e, this.nextSibling) : e;
}
function La() {
	var e = this.cloneNode(!0), t = this.parentNode;
	return t ? t.insertBefore(e, this.nextSibling) : e;
}
function Ra(e) {
	return this.select(e ? La : Ia);
}
function za(e) {
	return arguments.length ? this.property("__data__", e) : this.node().__data__;
}
function Ba(e) {
	return function(t) {
		e.call(this, t, this.__data__);
	};
}
function Va(e) {
	return e.trim().split(/^|\s+/).map(function(e) {
		var t = "", n = e.indexOf(".");
		return n >= 0 && (t = e.slice(n + 1), e = e.slice(0, n)), {
			type: e,
			name: t
		};
	});
}
function Ha(e) {
	return function() {
		var t = this.__on;
		if (t) {
			for (var n = 0, r = -1, i = t.length, a; n < i; ++n) a = t[n], (!e.type || a.type === e.type) && a.name === e.name ? this.removeEventListener(a.type, a.listener, a.options) : t[++r] = a;
			++r ? t.length = r : delete this.__on;
		}
	};
}
function Ua(e, t, n) {
	return function() {
		var r = this.__on, i, a = Ba(t);
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
function Wa(e, t, n) {
	var r = Va(e + ""), i, a = r.length, o;
	if (arguments.length < 2) {
		var s = this.node().__on;
		if (s) {
			for (var c = 0, l = s.length, u; c < l; ++c) for (i = 0, u = s[c]; i < a; ++i) if ((o = r[i]).type === u.type && o.name === u.name) return u.value;
		}
	} else {
		for (s = t ? Ua : Ha, i = 0; i < a; ++i) this.each(s(r[i], t, n));
		return this;
	}
}
function Ga(e, t, n) {
	var r = ea(e), i = r.CustomEvent;
	typeof i == "function" ? i = new i(t, n) : (i = r.document.createEvent("Event"), n ? (i.initEvent(t, n.bubbles, n.cancelable), i.detail = n.detail) : i.initEvent(t, !1, !1)), e.dispatchEvent(i);
}
function Ka(e, t) {
	return function() {
		return Ga(this, e, t);
	};
}
function qa(e, t) {
	return function() {
		return Ga(this, e, t.apply(this, arguments));
	};
}
function Ja(e, t) {
	return this.each((typeof t == "function" ? qa : Ka)(e, t));
}
function* Ya() {
	for (var e = this._groups, t = 0, n = e.length; t < n; ++t) for (var r = e[t], i = 0, a = r.length, o; i < a; ++i) (o = r[i]) && (yield o);
}
var Xa = [null];
function B(e, t) {
	this._groups = e, this._parents = t;
}
function Za() {
	return new B([[document.documentElement]], Xa);
}
function Qa() {
	return this;
}
B.prototype = Za.prototype = {
	constructor: B,
	select: li,
	selectAll: mi,
	selectChild: bi,
	selectChildren: wi,
	filter: Ti,
	data: Ni,
	enter: Di,
	exit: Fi,
	join: Ii,
	merge: Li,
	selection: Qa,
	order: Ri,
	sort: zi,
	call: Vi,
	nodes: Hi,
	node: Ui,
	size: Wi,
	empty: Gi,
	each: Ki,
	attr: $i,
	style: ia,
	property: la,
	classed: va,
	text: Sa,
	html: Ea,
	raise: Oa,
	lower: Aa,
	append: ja,
	insert: Na,
	remove: Fa,
	clone: Ra,
	datum: za,
	on: Wa,
	dispatch: Ja,
	[Symbol.iterator]: Ya
};
function V(e) {
	return typeof e == "string" ? new B([[document.querySelector(e)]], [document.documentElement]) : new B([[e]], Xa);
}
var $a = 0;
function eo() {
	return new to();
}
function to() {
	this._ = "@" + (++$a).toString(36);
}
to.prototype = eo.prototype = {
	constructor: to,
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
function no(e) {
	let t;
	for (; t = e.sourceEvent;) e = t;
	return e;
}
function ro(e, t) {
	if (e = no(e), t === void 0 && (t = e.currentTarget), t) {
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
var io = { value: () => {} };
function ao() {
	for (var e = 0, t = arguments.length, n = {}, r; e < t; ++e) {
		if (!(r = arguments[e] + "") || r in n || /[\s.]/.test(r)) throw Error("illegal type: " + r);
		n[r] = [];
	}
	return new oo(n);
}
function oo(e) {
	this._ = e;
}
function so(e, t) {
	return e.trim().split(/^|\s+/).map(function(e) {
		var n = "", r = e.indexOf(".");
		if (r >= 0 && (n = e.slice(r + 1), e = e.slice(0, r)), e && !t.hasOwnProperty(e)) throw Error("unknown type: " + e);
		return {
			type: e,
			name: n
		};
	});
}
oo.prototype = ao.prototype = {
	constructor: oo,
	on: function(e, t) {
		var n = this._, r = so(e + "", n), i, a = -1, o = r.length;
		if (arguments.length < 2) {
			for (; ++a < o;) if ((i = (e = r[a]).type) && (i = co(n[i], e.name))) return i;
		} else {
			if (t != null && typeof t != "function") throw Error("invalid callback: " + t);
			for (; ++a < o;) if (i = (e = r[a]).type) n[i] = lo(n[i], e.name, t);
			else if (t == null) for (i in n) n[i] = lo(n[i], e.name, null);
			return this;
		}
	},
	copy: function() {
		var e = {}, t = this._;
		for (var n in t) e[n] = t[n].slice();
		return new oo(e);
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
function co(e, t) {
	for (var n = 0, r = e.length, i; n < r; ++n) if ((i = e[n]).name === t) return i.value;
}
function lo(e, t, n) {
	for (var r = 0, i = e.length; r < i; ++r) if (e[r].name === t) {
		e[r] = io, e = e.slice(0, r).concat(e.slice(r + 1));
		break;
	}
	return n != null && e.push({
		name: t,
		value: n
	}), e;
}
// node_modules/d3-drag/dist/d3-drag.mjs
var uo = {
	capture: !0,
	passive: !1
};
function fo(e) {
	e.preventDefault(), e.stopImmediatePropagation();
}
function po(e) {
	var t = e.document.documentElement, n = V(e).on("dragstart.drag", fo, uo);
	"onselectstart" in t ? n.on("selectstart.drag", fo, uo) : (t.__noselect = t.style.MozUserSelect, t.style.MozUserSelect = "none");
}
function mo(e, t) {
	var n = e.document.documentElement, r = V(e).on("dragstart.drag", null);
	t && (r.on("click.drag", fo, uo), setTimeout(function() {
		r.on("click.drag", null);
	}, 0)), "onselectstart" in n ? r.on("selectstart.drag", null) : (n.style.MozUserSelect = n.__noselect, delete n.__noselect);
}
function ho(e, { sourceEvent: t, subject: n, target: r, identifier: i, active: a, x: o, y: s, dx: c, dy: l, dispatch: u }) {
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
ho.prototype.on = function() {
	var e = this._.on.apply(this._, arguments);
	return e === this._ ? this : e;
};
// node_modules/d3-color/dist/d3-color.mjs
function go(e, t, n) {
	e.prototype = t.prototype = n, n.constructor = e;
}
function _o(e, t) {
	var n = Object.create(e.prototype);
	for (var r in t) n[r] = t[r];
	return n;
}
function vo() {}
var yo = .7, bo = 1 / yo, xo = "\\s*([+-]?\\d+)\\s*", So = "\\s*([+-]?(?:\\d*\\.)?\\d+(?:[eE][+-]?\\d+)?)\\s*", H = "\\s*([+-]?(?:\\d*\\.)?\\d+(?:[eE][+-]?\\d+)?)%\\s*", Co = /^#([0-9a-f]{3,8})$/, wo = RegExp(`^rgb\\(${xo},${xo},${xo}\\)$`), To = RegExp(`^rgb\\(${H},${H},${H}\\)$`), Eo = RegExp(`^rgba\\(${xo},${xo},${xo},${So}\\)$`), Do = RegExp(`^rgba\\(${H},${H},${H},${So}\\)$`), Oo = RegExp(`^hsl\\(${So},${H},${H}\\)$`), ko = RegExp(`^hsla\\(${So},${H},${H},${So}\\)$`), Ao = {
	aliceblue: 15792383,
	antiquewhite: 16444375,
	aqua: 65535,
	aquamarine: 8388564,
	azure: 15794175,
	beige: 16119260,
	bisque: 16770244,
	black: 0,
	blanchedalmond: 16772045,
	blue: 255,
	blueviolet: 9055202,
	brown: 10824234,
	burlywood: 14596231,
	cadetblue: 6266528,
	chartreuse: 8388352,
	chocolate: 13789470,
	coral: 16744272,
	cornflowerblue: 6591981,
	cornsilk: 16775388,
	crimson: 14423100,
	cyan: 65535,
	darkblue: 139,
	darkcyan: 35723,
	darkgoldenrod: 12092939,
	darkgray: 11119017,
	darkgreen: 25600,
	darkgrey: 11119017,
	darkkhaki: 12433259,
	darkmagenta: 9109643,
	darkolivegreen: 5597999,
	darkorange: 16747520,
	darkorchid: 10040012,
	darkred: 9109504,
	darksalmon: 15308410,
	darkseagreen: 9419919,
	darkslateblue: 4734347,
	darkslategray: 3100495,
	darkslategrey: 3100495,
	darkturquoise: 52945,
	darkviolet: 9699539,
	deeppink: 16716947,
	deepskyblue: 49151,
	dimgray: 6908265,
	dimgrey: 6908265,
	dodgerblue: 2003199,
	firebrick: 11674146,
	floralwhite: 16775920,
	forestgreen: 2263842,
	fuchsia: 16711935,
	gainsboro: 14474460,
	ghostwhite: 16316671,
	gold: 16766720,
	goldenrod: 14329120,
	gray: 8421504,
	green: 32768,
	greenyellow: 11403055,
	grey: 8421504,
	honeydew: 15794160,
	hotpink: 16738740,
	indianred: 13458524,
	indigo: 4915330,
	ivory: 16777200,
	khaki: 15787660,
	lavender: 15132410,
	lavenderblush: 16773365,
	lawngreen: 8190976,
	lemonchiffon: 16775885,
	lightblue: 11393254,
	lightcoral: 15761536,
	lightcyan: 14745599,
	lightgoldenrodyellow: 16448210,
	lightgray: 13882323,
	lightgreen: 9498256,
	lightgrey: 13882323,
	lightpink: 16758465,
	lightsalmon: 16752762,
	lightseagreen: 2142890,
	lightskyblue: 8900346,
	lightslategray: 7833753,
	lightslategrey: 7833753,
	lightsteelblue: 11584734,
	lightyellow: 16777184,
	lime: 65280,
	limegreen: 3329330,
	linen: 16445670,
	magenta: 16711935,
	maroon: 8388608,
	mediumaquamarine: 6737322,
	mediumblue: 205,
	mediumorchid: 12211667,
	mediumpurple: 9662683,
	mediumseagreen: 3978097,
	mediumslateblue: 8087790,
	mediumspringgreen: 64154,
	mediumturquoise: 4772300,
	mediumvioletred: 13047173,
	midnightblue: 1644912,
	mintcream: 16121850,
	mistyrose: 16770273,
	moccasin: 16770229,
	navajowhite: 16768685,
	navy: 128,
	oldlace: 16643558,
	olive: 8421376,
	olivedrab: 7048739,
	orange: 16753920,
	orangered: 16729344,
	orchid: 14315734,
	palegoldenrod: 15657130,
	palegreen: 10025880,
	paleturquoise: 11529966,
	palevioletred: 14381203,
	papayawhip: 16773077,
	peachpuff: 16767673,
	peru: 13468991,
	pink: 16761035,
	plum: 14524637,
	powderblue: 11591910,
	purple: 8388736,
	rebeccapurple: 6697881,
	red: 16711680,
	rosybrown: 12357519,
	royalblue: 4286945,
	saddlebrown: 9127187,
	salmon: 16416882,
	sandybrown: 16032864,
	seagreen: 3050327,
	seashell: 16774638,
	sienna: 10506797,
	silver: 12632256,
	skyblue: 8900331,
	slateblue: 6970061,
	slategray: 7372944,
	slategrey: 7372944,
	snow: 16775930,
	springgreen: 65407,
	steelblue: 4620980,
	tan: 13808780,
	teal: 32896,
	thistle: 14204888,
	tomato: 16737095,
	turquoise: 4251856,
	violet: 15631086,
	wheat: 16113331,
	white: 16777215,
	whitesmoke: 16119285,
	yellow: 16776960,
	yellowgreen: 10145074
};
go(vo, Fo, {
	copy(e) {
		return Object.assign(new this.constructor(), this, e);
	},
	displayable() {
		return this.rgb().displayable();
	},
	hex: jo,
	formatHex: jo,
	formatHex8: Mo,
	formatHsl: No,
	formatRgb: Po,
	toString: Po
});
function jo() {
	return this.rgb().formatHex();
}
function Mo() {
	return this.rgb().formatHex8();
}
function No() {
	return qo(this).formatHsl();
}
function Po() {
	return this.rgb().formatRgb();
}
function Fo(e) {
	var t, n;
	return e = (e + "").trim().toLowerCase(), (t = Co.exec(e)) ? (n = t[1].length, t = parseInt(t[1], 16), n === 6 ? Io(t) : n === 3 ? new U(t >> 8 & 15 | t >> 4 & 240, t >> 4 & 15 | t & 240, (t & 15) << 4 | t & 15, 1) : n === 8 ? Lo(t >> 24 & 255, t >> 16 & 255, t >> 8 & 255, (t & 255) / 255) : n === 4 ? Lo(t >> 12 & 15 | t >> 8 & 240, t >> 8 & 15 | t >> 4 & 240, t >> 4 & 15 | t & 240, ((t & 15) << 4 | t & 15) / 255) : null) : (t = wo.exec(e)) ? new U(t[1], t[2], t[3], 1) : (t = To.exec(e)) ? new U(t[1] * 255 / 100, t[2] * 255 / 100, t[3] * 255 / 100, 1) : (t = Eo.exec(e)) ? Lo(t[1], t[2], t[3], t[4]) : (t = Do.exec(e)) ? Lo(t[1] * 255 / 100, t[2] * 255 / 100, t[3] * 255 / 100, t[4]) : (t = Oo.exec(e)) ? Ko(t[1], t[2] / 100, t[3] / 100, 1) : (t = ko.exec(e)) ? Ko(t[1], t[2] / 100, t[3] / 100, t[4]) : Ao.hasOwnProperty(e) ? Io(Ao[e]) : e === "transparent" ? new U(NaN, NaN, NaN, 0) : null;
}
function Io(e) {
	return new U(e >> 16 & 255, e >> 8 & 255, e & 255, 1);
}
function Lo(e, t, n, r) {
	return r <= 0 && (e = t = n = NaN), new U(e, t, n, r);
}
function Ro(e) {
	return e instanceof vo || (e = Fo(e)), e ? (e = e.rgb(), new U(e.r, e.g, e.b, e.opacity)) : new U();
}
function zo(e, t, n, r) {
	return arguments.length === 1 ? Ro(e) : new U(e, t, n, r ?? 1);
}
function U(e, t, n, r) {
	this.r = +e, this.g = +t, this.b = +n, this.opacity = +r;
}
go(U, zo, _o(vo, {
	brighter(e) {
		return e = e == null ? bo : bo ** +e, new U(this.r * e, this.g * e, this.b * e, this.opacity);
	},
	darker(e) {
		return e = e == null ? yo : yo ** +e, new U(this.r * e, this.g * e, this.b * e, this.opacity);
	},
	rgb() {
		return this;
	},
	clamp() {
		return new U(Wo(this.r), Wo(this.g), Wo(this.b), Uo(this.opacity));
	},
	displayable() {
		return -.5 <= this.r && this.r < 255.5 && -.5 <= this.g && this.g < 255.5 && -.5 <= this.b && this.b < 255.5 && 0 <= this.opacity && this.opacity <= 1;
	},
	hex: Bo,
	formatHex: Bo,
	formatHex8: Vo,
	formatRgb: Ho,
	toString: Ho
}));
function Bo() {
	return `#${Go(this.r)}${Go(this.g)}${Go(this.b)}`;
}
function Vo() {
	return `#${Go(this.r)}${Go(this.g)}${Go(this.b)}${Go((isNaN(this.opacity) ? 1 : this.opacity) * 255)}`;
}
function Ho() {
	let e = Uo(this.opacity);
	return `${e === 1 ? "rgb(" : "rgba("}${Wo(this.r)}, ${Wo(this.g)}, ${Wo(this.b)}${e === 1 ? ")" : `, ${e})`}`;
}
function Uo(e) {
	return isNaN(e) ? 1 : Math.max(0, Math.min(1, e));
}
function Wo(e) {
	return Math.max(0, Math.min(255, Math.round(e) || 0));
}
function Go(e) {
	return e = Wo(e), (e < 16 ? "0" : "") + e.toString(16);
}
function Ko(e, t, n, r) {
	return r <= 0 ? e = t = n = NaN : n <= 0 || n >= 1 ? e = t = NaN : t <= 0 && (e = NaN), new W(e, t, n, r);
}
function qo(e) {
	if (e instanceof W) return new W(e.h, e.s, e.l, e.opacity);
	if (e instanceof vo || (e = Fo(e)), !e) return new W();
	if (e instanceof W) return e;
	e = e.rgb();
	var t = e.r / 255, n = e.g / 255, r = e.b / 255, i = Math.min(t, n, r), a = Math.max(t, n, r), o = NaN, s = a - i, c = (a + i) / 2;
	return s ? (o = t === a ? (n - r) / s + (n < r) * 6 : n === a ? (r - t) / s + 2 : (t - n) / s + 4, s /= c < .5 ? a + i : 2 - a - i, o *= 60) : s = c > 0 && c < 1 ? 0 : o, new W(o, s, c, e.opacity);
}
function Jo(e, t, n, r) {
	return arguments.length === 1 ? qo(e) : new W(e, t, n, r ?? 1);
}
function W(e, t, n, r) {
	this.h = +e, this.s = +t, this.l = +n, this.opacity = +r;
}
go(W, Jo, _o(vo, {
	brighter(e) {
		return e = e == null ? bo : bo ** +e, new W(this.h, this.s, this.l * e, this.opacity);
	},
	darker(e) {
		return e = e == null ? yo : yo ** +e, new W(this.h, this.s, this.l * e, this.opacity);
	},
	rgb() {
		var e = this.h % 360 + (this.h < 0) * 360, t = isNaN(e) || isNaN(this.s) ? 0 : this.s, n = this.l, r = n + (n < .5 ? n : 1 - n) * t, i = 2 * n - r;
		return new U(Zo(e >= 240 ? e - 240 : e + 120, i, r), Zo(e, i, r), Zo(e < 120 ? e + 240 : e - 120, i, r), this.opacity);
	},
	clamp() {
		return new W(Yo(this.h), Xo(this.s), Xo(this.l), Uo(this.opacity));
	},
	displayable() {
		return (0 <= this.s && this.s <= 1 || isNaN(this.s)) && 0 <= this.l && this.l <= 1 && 0 <= this.opacity && this.opacity <= 1;
	},
	formatHsl() {
		let e = Uo(this.opacity);
		return `${e === 1 ? "hsl(" : "hsla("}${Yo(this.h)}, ${Xo(this.s) * 100}%, ${Xo(this.l) * 100}%${e === 1 ? ")" : `, ${e})`}`;
	}
}));
function Yo(e) {
	return e = (e || 0) % 360, e < 0 ? e + 360 : e;
}
function Xo(e) {
	return Math.max(0, Math.min(1, e || 0));
}
function Zo(e, t, n) {
	return (e < 60 ? t + (n - t) * e / 60 : e < 180 ? n : e < 240 ? t + (n - t) * (240 - e) / 60 : t) * 255;
}
var Qo = Math.PI / 180, $o = 180 / Math.PI, es = 18, ts = .96422, ns = 1, rs = .82521, is = 4 / 29, as = 6 / 29, os = 3 * as * as, ss = as * as * as;
function cs(e) {
	if (e instanceof G) return new G(e.l, e.a, e.b, e.opacity);
	if (e instanceof K) return gs(e);
	e instanceof U || (e = Ro(e));
	var t = ps(e.r), n = ps(e.g), r = ps(e.b), i = us((.2225045 * t + .7168786 * n + .0606169 * r) / ns), a, o;
	return t === n && n === r ? a = o = i : (a = us((.4360747 * t + .3850649 * n + .1430804 * r) / ts), o = us((.0139322 * t + .0971045 * n + .7141733 * r) / rs)), new G(116 * i - 16, 500 * (a - i), 200 * (i - o), e.opacity);
}
function ls(e, t, n, r) {
	return arguments.length === 1 ? cs(e) : new G(e, t, n, r ?? 1);
}
function G(e, t, n, r) {
	this.l = +e, this.a = +t, this.b = +n, this.opacity = +r;
}
go(G, ls, _o(vo, {
	brighter(e) {
		return new G(this.l + es * (e ?? 1), this.a, this.b, this.opacity);
	},
	darker(e) {
		return new G(this.l - es * (e ?? 1), this.a, this.b, this.opacity);
	},
	rgb() {
		var e = (this.l + 16) / 116, t = isNaN(this.a) ? e : e + this.a / 500, n = isNaN(this.b) ? e : e - this.b / 200;
		return t = ts * ds(t), e = ns * ds(e), n = rs * ds(n), new U(fs(3.1338561 * t - 1.6168667 * e - .4906146 * n), fs(-.9787684 * t + 1.9161415 * e + .033454 * n), fs(.0719453 * t - .2289914 * e + 1.4052427 * n), this.opacity);
	}
}));
function us(e) {
	return e > ss ? e ** (1 / 3) : e / os + is;
}
function ds(e) {
	return e > as ? e * e * e : os * (e - is);
}
function fs(e) {
	return 255 * (e <= .0031308 ? 12.92 * e : 1.055 * e ** (1 / 2.4) - .055);
}
function ps(e) {
	return (e /= 255) <= .04045 ? e / 12.92 : ((e + .055) / 1.055) ** 2.4;
}
function ms(e) {
	if (e instanceof K) return new K(e.h, e.c, e.l, e.opacity);
	if (e instanceof G || (e = cs(e)), e.a === 0 && e.b === 0) return new K(NaN, 0 < e.l && e.l < 100 ? 0 : NaN, e.l, e.opacity);
	var t = Math.atan2(e.b, e.a) * $o;
	return new K(t < 0 ? t + 360 : t, Math.sqrt(e.a * e.a + e.b * e.b), e.l, e.opacity);
}
function hs(e, t, n, r) {
	return arguments.length === 1 ? ms(e) : new K(e, t, n, r ?? 1);
}
function K(e, t, n, r) {
	this.h = +e, this.c = +t, this.l = +n, this.opacity = +r;
}
function gs(e) {
	if (isNaN(e.h)) return new G(e.l, 0, 0, e.opacity);
	var t = e.h * Qo;
	return new G(e.l, Math.cos(t) * e.c, Math.sin(t) * e.c, e.opacity);
}
go(K, hs, _o(vo, {
	brighter(e) {
		return new K(this.h, this.c, this.l + es * (e ?? 1), this.opacity);
	},
	darker(e) {
		return new K(this.h, this.c, this.l - es * (e ?? 1), this.opacity);
	},
	rgb() {
		return gs(this).rgb();
	}
}));
var _s = -.14861, vs = 1.78277, ys = -.29227, bs = -.90649, xs = 1.97294, Ss = xs * bs, Cs = xs * vs, ws = vs * ys - bs * _s;
function Ts(e) {
	if (e instanceof Ds) return new Ds(e.h, e.s, e.l, e.opacity);
	e instanceof U || (e = Ro(e));
	var t = e.r / 255, n = e.g / 255, r = e.b / 255, i = (ws * r + Ss * t - Cs * n) / (ws + Ss - Cs), a = r - i, o = (xs * (n - i) - ys * a) / bs, s = Math.sqrt(o * o + a * a) / (xs * i * (1 - i)), c = s ? Math.atan2(o, a) * $o - 120 : NaN;
	return new Ds(c < 0 ? c + 360 : c, s, i, e.opacity);
}
function Es(e, t, n, r) {
	return arguments.length === 1 ? Ts(e) : new Ds(e, t, n, r ?? 1);
}
function Ds(e, t, n, r) {
	this.h = +e, this.s = +t, this.l = +n, this.opacity = +r;
}
go(Ds, Es, _o(vo, {
	brighter(e) {
		return e = e == null ? bo : bo ** +e, new Ds(this.h, this.s, this.l * e, this.opacity);
	},
	darker(e) {
		return e = e == null ? yo : yo ** +e, new Ds(this.h, this.s, this.l * e, this.opacity);
	},
	rgb() {
		var e = isNaN(this.h) ? 0 : (this.h + 120) * Qo, t = +this.l, n = isNaN(this.s) ? 0 : this.s * t * (1 - t), r = Math.cos(e), i = Math.sin(e);
		return new U(255 * (t + n * (_s * r + vs * i)), 255 * (t + n * (ys * r + bs * i)), 255 * (t + xs * r * n), this.opacity);
	}
}));
var Os = (e) => () => e;
function ks(e, t) {
	return function(n) {
		return e + n * t;
	};
}
function As(e, t, n) {
	return e **= +n, t = t ** +n - e, n = 1 / n, function(r) {
		return (e + r * t) ** +n;
	};
}
function js(e, t) {
	var n = t - e;
	return n ? ks(e, n > 180 || n < -180 ? n - 360 * Math.round(n / 360) : n) : Os(isNaN(e) ? t : e);
}
function Ms(e) {
	return (e = +e) == 1 ? Ns : function(t, n) {
		return n - t ? As(t, n, e) : Os(isNaN(t) ? n : t);
	};
}
function Ns(e, t) {
	var n = t - e;
	return n ? ks(e, n) : Os(isNaN(e) ? t : e);
}
var Ps = (function e(t) {
	var n = Ms(t);
	function r(e, t) {
		var r = n((e = zo(e)).r, (t = zo(t)).r), i = n(e.g, t.g), a = n(e.b, t.b), o = Ns(e.opacity, t.opacity);
		return function(t) {
			return e.r = r(t), e.g = i(t), e.b = a(t), e.opacity = o(t), e + "";
		};
	}
	return r.gamma = e, r;
})(1);
function Fs(e, t) {
	return e = +e, t = +t, function(n) {
		return e * (1 - n) + t * n;
	};
}
var Is = /[-+]?(?:\d+\.?\d*|\.?\d+)(?:[eE][-+]?\d+)?/g, Ls = new RegExp(Is.source, "g");
function Rs(e) {
	return function() {
		return e;
	};
}
function zs(e) {
	return function(t) {
		return e(t) + "";
	};
}
function Bs(e, t) {
	var n = Is.lastIndex = Ls.lastIndex = 0, r, i, a, o = -1, s = [], c = [];
	for (e += "", t += ""; (r = Is.exec(e)) && (i = Ls.exec(t));) (a = i.index) > n && (a = t.slice(n, a), s[o] ? s[o] += a : s[++o] = a), (r = r[0]) === (i = i[0]) ? s[o] ? s[o] += i : s[++o] = i : (s[++o] = null, c.push({
		i: o,
		x: Fs(r, i)
	})), n = Ls.lastIndex;
	return n < t.length && (a = t.slice(n), s[o] ? s[o] += a : s[++o] = a), s.length < 2 ? c[0] ? zs(c[0].x) : Rs(t) : (t = c.length, function(e) {
		for (var n = 0, r; n < t; ++n) s[(r = c[n]).i] = r.x(e);
		return s.join("");
	});
}
var Vs = 180 / Math.PI, Hs = {
	translateX: 0,
	translateY: 0,
	rotate: 0,
	skewX: 0,
	scaleX: 1,
	scaleY: 1
};
function Us(e, t, n, r, i, a) {
	var o, s, c;
	return (o = Math.sqrt(e * e + t * t)) && (e /= o, t /= o), (c = e * n + t * r) && (n -= e * c, r -= t * c), (s = Math.sqrt(n * n + r * r)) && (n /= s, r /= s, c /= s), e * r < t * n && (e = -e, t = -t, c = -c, o = -o), {
		translateX: i,
		translateY: a,
		rotate: Math.atan2(t, e) * Vs,
		skewX: Math.atan(c) * Vs,
		scaleX: o,
		scaleY: s
	};
}
var Ws;
function Gs(e) {
	let t = new (typeof DOMMatrix == "function" ? DOMMatrix : WebKitCSSMatrix)(e + "");
	return t.isIdentity ? Hs : Us(t.a, t.b, t.c, t.d, t.e, t.f);
}
function Ks(e) {
	return e == null || (Ws ||= document.createElementNS("http://www.w3.org/2000/svg", "g"), Ws.setAttribute("transform", e), !(e = Ws.transform.baseVal.consolidate())) ? Hs : (e = e.matrix, Us(e.a, e.b, e.c, e.d, e.e, e.f));
}
function qs(e, t, n, r) {
	function i(e) {
		return e.length ? e.pop() + " " : "";
	}
	function a(e, r, i, a, o, s) {
		if (e !== i || r !== a) {
			var c = o.push("translate(", null, t, null, n);
			s.push({
				i: c - 4,
				x: Fs(e, i)
			}, {
				i: c - 2,
				x: Fs(r, a)
			});
		} else (i || a) && o.push("translate(" + i + t + a + n);
	}
	function o(e, t, n, a) {
		e === t ? t && n.push(i(n) + "rotate(" + t + r) : (e - t > 180 ? t += 360 : t - e > 180 && (e += 360), a.push({
			i: n.push(i(n) + "rotate(", null, r) - 2,
			x: Fs(e, t)
		}));
	}
	function s(e, t, n, a) {
		e === t ? t && n.push(i(n) + "skewX(" + t + r) : a.push({
			i: n.push(i(n) + "skewX(", null, r) - 2,
			x: Fs(e, t)
		});
	}
	function c(e, t, n, r, a, o) {
		if (e !== n || t !== r) {
			var s = a.push(i(a) + "scale(", null, ",", null, ")");
			o.push({
				i: s - 4,
				x: Fs(e, n)
			}, {
				i: s - 2,
				x: Fs(t, r)
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
var Js = qs(Gs, "px, ", "px)", "deg)"), Ys = qs(Ks, ", ", ")", ")"), Xs = 1e-12;
function Zs(e) {
	return ((e = Math.exp(e)) + 1 / e) / 2;
}
function Qs(e) {
	return ((e = Math.exp(e)) - 1 / e) / 2;
}
function $s(e) {
	return ((e = Math.exp(2 * e)) - 1) / (e + 1);
}
var ec = (function e(t, n, r) {
	function i(e, i) {
		var a = e[0], o = e[1], s = e[2], c = i[0], l = i[1], u = i[2], d = c - a, f = l - o, p = d * d + f * f, m, h;
		if (p < Xs) h = Math.log(u / s) / t, m = function(e) {
			return [
				a + e * d,
				o + e * f,
				s * Math.exp(t * e * h)
			];
		};
		else {
			var g = Math.sqrt(p), _ = (u * u - s * s + r * p) / (2 * s * n * g), v = (u * u - s * s - r * p) / (2 * u * n * g), y = Math.log(Math.sqrt(_ * _ + 1) - _);
			h = (Math.log(Math.sqrt(v * v + 1) - v) - y) / t, m = function(e) {
				var r = e * h, i = Zs(y), c = s / (n * g) * (i * $s(t * r + y) - Qs(y));
				return [
					a + c * d,
					o + c * f,
					s * i / Zs(t * r + y)
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
function tc(e) {
	return (function t(n) {
		n = +n;
		function r(t, r) {
			var i = e((t = Es(t)).h, (r = Es(r)).h), a = Ns(t.s, r.s), o = Ns(t.l, r.l), s = Ns(t.opacity, r.opacity);
			return function(e) {
				return t.h = i(e), t.s = a(e), t.l = o(e ** +n), t.opacity = s(e), t + "";
			};
		}
		return r.gamma = t, r;
	})(1);
}
tc(js), tc(Ns);
// node_modules/d3-timer/dist/d3-timer.mjs
var nc = 0, rc = 0, ic = 0, ac = 1e3, oc, sc, cc = 0, lc = 0, uc = 0, dc = typeof performance == "object" && performance.now ? performance : Date, fc = typeof window == "object" && window.requestAnimationFrame ? window.requestAnimationFrame.bind(window) : function(e) {
	setTimeout(e, 17);
};
function pc() {
	return lc ||= (fc(mc), dc.now() + uc);
}
function mc() {
	lc = 0;
}
function hc() {
	this._call = this._time = this._next = null;
}
hc.prototype = gc.prototype = {
	constructor: hc,
	restart: function(e, t, n) {
		if (typeof e != "function") throw TypeError("callback is not a function");
		n = (n == null ? pc() : +n) + (t == null ? 0 : +t), !this._next && sc !== this && (sc ? sc._next = this : oc = this, sc = this), this._call = e, this._time = n, xc();
	},
	stop: function() {
		this._call && (this._call = null, this._time = Infinity, xc());
	}
};
function gc(e, t, n) {
	var r = new hc();
	return r.restart(e, t, n), r;
}
function _c() {
	pc(), ++nc;
	for (var e = oc, t; e;) (t = lc - e._time) >= 0 && e._call.call(void 0, t), e = e._next;
	--nc;
}
function vc() {
	lc = (cc = dc.now()) + uc, nc = rc = 0;
	try {
		_c();
	} finally {
		nc = 0, bc(), lc = 0;
	}
}
function yc() {
	var e = dc.now(), t = e - cc;
	t > ac && (uc -= t, cc = e);
}
function bc() {
	for (var e, t = oc, n, r = Infinity; t;) t._call ? (r > t._time && (r = t._time), e = t, t = t._next) : (n = t._next, t._next = null, t = e ? e._next = n : oc = n);
	sc = e, xc(r);
}
function xc(e) {
	nc || (rc &&= clearTimeout(rc), e - lc > 24 ? (e < Infinity && (rc = setTimeout(vc, Math.ceil(e - dc.now() - uc) + 1)), ic &&= clearInterval(ic)) : (ic ||= (cc = dc.now(), setInterval(yc, ac)), nc = 1, fc(vc)));
}
function Sc(e, t, n) {
	var r = new hc();
	return t = t == null ? 0 : +t, r.restart((n) => {
		r.stop(), e(n + t);
	}, t, n), r;
}
// node_modules/d3-ease/dist/d3-ease.mjs
function Cc(e) {
	return ((e *= 2) <= 1 ? e * e * e : (e -= 2) * e * e + 2) / 2;
}
var wc = 3;
(function e(t) {
	t = +t;
	function n(e) {
		return e ** +t;
	}
	return n.exponent = e, n;
})(wc), (function e(t) {
	t = +t;
	function n(e) {
		return 1 - (1 - e) ** t;
	}
	return n.exponent = e, n;
})(wc), (function e(t) {
	t = +t;
	function n(e) {
		return ((e *= 2) <= 1 ? e ** +t : 2 - (2 - e) ** t) / 2;
	}
	return n.exponent = e, n;
})(wc);
function Tc(e) {
	return (2 ** (-10 * e) - .0009765625) * 1.0009775171065494;
}
var Ec = 4 / 11;
1 / Ec / Ec;
var Dc = 1.70158;
(function e(t) {
	t = +t;
	function n(e) {
		return (e = +e) * e * (t * (e - 1) + e);
	}
	return n.overshoot = e, n;
})(Dc), (function e(t) {
	t = +t;
	function n(e) {
		return --e * e * ((e + 1) * t + e) + 1;
	}
	return n.overshoot = e, n;
})(Dc), (function e(t) {
	t = +t;
	function n(e) {
		return ((e *= 2) < 1 ? e * e * ((t + 1) * e - t) : (e -= 2) * e * ((t + 1) * e + t) + 2) / 2;
	}
	return n.overshoot = e, n;
})(Dc);
var Oc = 2 * Math.PI, kc = 1, Ac = .3;
(function e(t, n) {
	var r = Math.asin(1 / (t = Math.max(1, t))) * (n /= Oc);
	function i(e) {
		return t * Tc(- --e) * Math.sin((r - e) / n);
	}
	return i.amplitude = function(t) {
		return e(t, n * Oc);
	}, i.period = function(n) {
		return e(t, n);
	}, i;
})(kc, Ac), (function e(t, n) {
	var r = Math.asin(1 / (t = Math.max(1, t))) * (n /= Oc);
	function i(e) {
		return 1 - t * Tc(e = +e) * Math.sin((e + r) / n);
	}
	return i.amplitude = function(t) {
		return e(t, n * Oc);
	}, i.period = function(n) {
		return e(t, n);
	}, i;
})(kc, Ac), (function e(t, n) {
	var r = Math.asin(1 / (t = Math.max(1, t))) * (n /= Oc);
	function i(e) {
		return ((e = e * 2 - 1) < 0 ? t * Tc(-e) * Math.sin((r - e) / n) : 2 - t * Tc(e) * Math.sin((r + e) / n)) / 2;
	}
	return i.amplitude = function(t) {
		return e(t, n * Oc);
	}, i.period = function(n) {
		return e(t, n);
	}, i;
})(kc, Ac);
// node_modules/d3-transition/dist/d3-transition.mjs
var jc = ao("start", "end", "cancel", "interrupt"), Mc = [], Nc = 0, Pc = 1, Fc = 2, Ic = 3, Lc = 4, Rc = 5, zc = 6;
function Bc(e, t, n, r, i, a) {
	var o = e.__transition;
	if (!o) e.__transition = {};
	else if (n in o) return;
	Hc(e, n, {
		name: t,
		index: r,
		group: i,
		on: jc,
		tween: Mc,
		time: a.time,
		delay: a.delay,
		duration: a.duration,
		ease: a.ease,
		timer: null,
		state: Nc
	});
}
function Vc(e, t) {
	var n = J(e, t);
	if (n.state > Nc) throw Error("too late; already scheduled");
	return n;
}
function q(e, t) {
	var n = J(e, t);
	if (n.state > Ic) throw Error("too late; already running");
	return n;
}
function J(e, t) {
	var n = e.__transition;
	if (!n || !(n = n[t])) throw Error("transition not found");
	return n;
}
function Hc(e, t, n) {
	var r = e.__transition, i;
	r[t] = n, n.timer = gc(a, 0, n.time);
	function a(e) {
		n.state = Pc, n.timer.restart(o, n.delay, n.time), n.delay <= e && o(e - n.delay);
	}
	function o(a) {
		var l, u, d, f;
		if (n.state !== Pc) return c();
		for (l in r) if (f = r[l], f.name === n.name) {
			if (f.state === Ic) return Sc(o);
			f.state === Lc ? (f.state = zc, f.timer.stop(), f.on.call("interrupt", e, e.__data__, f.index, f.group), delete r[l]) : +l < t && (f.state = zc, f.timer.stop(), f.on.call("cancel", e, e.__data__, f.index, f.group), delete r[l]);
		}
		if (Sc(function() {
			n.state === Ic && (n.state = Lc, n.timer.restart(s, n.delay, n.time), s(a));
		}), n.state = Fc, n.on.call("start", e, e.__data__, n.index, n.group), n.state === Fc) {
			for (n.state = Ic, i = Array(d = n.tween.length), l = 0, u = -1; l < d; ++l) (f = n.tween[l].value.call(e, e.__data__, n.index, n.group)) && (i[++u] = f);
			i.length = u + 1;
		}
	}
	function s(t) {
		for (var r = t < n.duration ? n.ease.call(null, t / n.duration) : (n.timer.restart(c), n.state = Rc, 1), a = -1, o = i.length; ++a < o;) i[a].call(e, r);
		n.state === Rc && (n.on.call("end", e, e.__data__, n.index, n.group), c());
	}
	function c() {
		for (var i in n.state = zc, n.timer.stop(), delete r[t], r) return;
		delete e.__transition;
	}
}
function Uc(e, t) {
	var n = e.__transition, r, i, a = !0, o;
	if (n) {
		for (o in t = t == null ? null : t + "", n) (r = n[o]).name === t ? (i = r.state > Fc && r.state < Rc, r.state = zc, r.timer.stop(), r.on.call(i ? "interrupt" : "cancel", e, e.__data__, r.index, r.group), delete n[o]) : a = !1;
		a && delete e.__transition;
	}
}
function Wc(e) {
	return this.each(function() {
		Uc(this, e);
	});
}
function Gc(e, t) {
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
function Kc(e, t, n) {
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
function qc(e, t) {
	var n = this._id;
	if (e += "", arguments.length < 2) {
		for (var r = J(this.node(), n).tween, i = 0, a = r.length, o; i < a; ++i) if ((o = r[i]).name === e) return o.value;
		return null;
	}
	return this.each((t == null ? Gc : Kc)(n, e, t));
}
function Jc(e, t, n) {
	var r = e._id;
	return e.each(function() {
		var e = q(this, r);
		(e.value ||= {})[t] = n.apply(this, arguments);
	}), function(e) {
		return J(e, r).value[t];
	};
}
function Yc(e, t) {
	var n;
	return (typeof t == "number" ? Fs : t instanceof Fo ? Ps : (n = Fo(t)) ? (t = n, Ps) : Bs)(e, t);
}
function Xc(e) {
	return function() {
		this.removeAttribute(e);
	};
}
function Zc(e) {
	return function() {
		this.removeAttributeNS(e.space, e.local);
	};
}
function Qc(e, t, n) {
	var r, i = n + "", a;
	return function() {
		var o = this.getAttribute(e);
		return o === i ? null : o === r ? a : a = t(r = o, n);
	};
}
function $c(e, t, n) {
	var r, i = n + "", a;
	return function() {
		var o = this.getAttributeNS(e.space, e.local);
		return o === i ? null : o === r ? a : a = t(r = o, n);
	};
}
function el(e, t, n) {
	var r, i, a;
	return function() {
		var o, s = n(this), c;
		return s == null ? void this.removeAttribute(e) : (o = this.getAttribute(e), c = s + "", o === c ? null : o === r && c === i ? a : (i = c, a = t(r = o, s)));
	};
}
function tl(e, t, n) {
	var r, i, a;
	return function() {
		var o, s = n(this), c;
		return s == null ? void this.removeAttributeNS(e.space, e.local) : (o = this.getAttributeNS(e.space, e.local), c = s + "", o === c ? null : o === r && c === i ? a : (i = c, a = t(r = o, s)));
	};
}
function nl(e, t) {
	var n = ri(e), r = n === "transform" ? Ys : Yc;
	return this.attrTween(e, typeof t == "function" ? (n.local ? tl : el)(n, r, Jc(this, "attr." + e, t)) : t == null ? (n.local ? Zc : Xc)(n) : (n.local ? $c : Qc)(n, r, t));
}
function rl(e, t) {
	return function(n) {
		this.setAttribute(e, t.call(this, n));
	};
}
function il(e, t) {
	return function(n) {
		this.setAttributeNS(e.space, e.local, t.call(this, n));
	};
}
function al(e, t) {
	var n, r;
	function i() {
		var i = t.apply(this, arguments);
		return i !== r && (n = (r = i) && il(e, i)), n;
	}
	return i._value = t, i;
}
function ol(e, t) {
	var n, r;
	function i() {
		var i = t.apply(this, arguments);
		return i !== r && (n = (r = i) && rl(e, i)), n;
	}
	return i._value = t, i;
}
function sl(e, t) {
	var n = "attr." + e;
	if (arguments.length < 2) return (n = this.tween(n)) && n._value;
	if (t == null) return this.tween(n, null);
	if (typeof t != "function") throw Error();
	var r = ri(e);
	return this.tween(n, (r.local ? al : ol)(r, t));
}
function cl(e, t) {
	return function() {
		Vc(this, e).delay = +t.apply(this, arguments);
	};
}
function ll(e, t) {
	return t = +t, function() {
		Vc(this, e).delay = t;
	};
}
function ul(e) {
	var t = this._id;
	return arguments.length ? this.each((typeof e == "function" ? cl : ll)(t, e)) : J(this.node(), t).delay;
}
function dl(e, t) {
	return function() {
		q(this, e).duration = +t.apply(this, arguments);
	};
}
function fl(e, t) {
	return t = +t, function() {
		q(this, e).duration = t;
	};
}
function pl(e) {
	var t = this._id;
	return arguments.length ? this.each((typeof e == "function" ? dl : fl)(t, e)) : J(this.node(), t).duration;
}
function ml(e, t) {
	if (typeof t != "function") throw Error();
	return function() {
		q(this, e).ease = t;
	};
}
function hl(e) {
	var t = this._id;
	return arguments.length ? this.each(ml(t, e)) : J(this.node(), t).ease;
}
function gl(e, t) {
	return function() {
		var n = t.apply(this, arguments);
		if (typeof n != "function") throw Error();
		q(this, e).ease = n;
	};
}
function _l(e) {
	if (typeof e != "function") throw Error();
	return this.each(gl(this._id, e));
}
function vl(e) {
	typeof e != "function" && (e = hi(e));
	for (var t = this._groups, n = t.length, r = Array(n), i = 0; i < n; ++i) for (var a = t[i], o = a.length, s = r[i] = [], c, l = 0; l < o; ++l) (c = a[l]) && e.call(c, c.__data__, l, a) && s.push(c);
	return new Y(r, this._parents, this._name, this._id);
}
function yl(e) {
	if (e._id !== this._id) throw Error();
	for (var t = this._groups, n = e._groups, r = t.length, i = n.length, a = Math.min(r, i), o = Array(r), s = 0; s < a; ++s) for (var c = t[s], l = n[s], u = c.length, d = o[s] = Array(u), f, p = 0; p < u; ++p) (f = c[p] || l[p]) && (d[p] = f);
	for (; s < r; ++s) o[s] = t[s];
	return new Y(o, this._parents, this._name, this._id);
}
function bl(e) {
	return (e + "").trim().split(/^|\s+/).every(function(e) {
		var t = e.indexOf(".");
		return t >= 0 && (e = e.slice(0, t)), !e || e === "start";
	});
}
function xl(e, t, n) {
	var r, i, a = bl(t) ? Vc : q;
	return function() {
		var o = a(this, e), s = o.on;
		s !== r && (i = (r = s).copy()).on(t, n), o.on = i;
	};
}
function Sl(e, t) {
	var n = this._id;
	return arguments.length < 2 ? J(this.node(), n).on.on(e) : this.each(xl(n, e, t));
}
function Cl(e) {
	return function() {
		var t = this.parentNode;
		for (var n in this.__transition) if (+n !== e) return;
		t && t.removeChild(this);
	};
}
function wl() {
	return this.on("end.remove", Cl(this._id));
}
function Tl(e) {
	var t = this._name, n = this._id;
	typeof e != "function" && (e = ci(e));
	for (var r = this._groups, i = r.length, a = Array(i), o = 0; o < i; ++o) for (var s = r[o], c = s.length, l = a[o] = Array(c), u, d, f = 0; f < c; ++f) (u = s[f]) && (d = e.call(u, u.__data__, f, s)) && ("__data__" in u && (d.__data__ = u.__data__), l[f] = d, Bc(l[f], t, n, f, l, J(u, n)));
	return new Y(a, this._parents, t, n);
}
function El(e) {
	var t = this._name, n = this._id;
	typeof e != "function" && (e = fi(e));
	for (var r = this._groups, i = r.length, a = [], o = [], s = 0; s < i; ++s) for (var c = r[s], l = c.length, u, d = 0; d < l; ++d) if (u = c[d]) {
		for (var f = e.call(u, u.__data__, d, c), p, m = J(u, n), h = 0, g = f.length; h < g; ++h) (p = f[h]) && Bc(p, t, n, h, f, m);
		a.push(f), o.push(u);
	}
	return new Y(a, o, t, n);
}
var Dl = Za.prototype.constructor;
function Ol() {
	return new Dl(this._groups, this._parents);
}
function kl(e, t) {
	var n, r, i;
	return function() {
		var a = aa(this, e), o = (this.style.removeProperty(e), aa(this, e));
		return a === o ? null : a === n && o === r ? i : i = t(n = a, r = o);
	};
}
function Al(e) {
	return function() {
		this.style.removeProperty(e);
	};
}
function jl(e, t, n) {
	var r, i = n + "", a;
	return function() {
		var o = aa(this, e);
		return o === i ? null : o === r ? a : a = t(r = o, n);
	};
}
function Ml(e, t, n) {
	var r, i, a;
	return function() {
		var o = aa(this, e), s = n(this), c = s + "";
		return s ?? (c = s = (this.style.removeProperty(e), aa(this, e))), o === c ? null : o === r && c === i ? a : (i = c, a = t(r = o, s));
	};
}
function Nl(e, t) {
	var n, r, i, a = "style." + t, o = "end." + a, s;
	return function() {
		var c = q(this, e), l = c.on, u = c.value[a] == null ? s ||= Al(t) : void 0;
		(l !== n || i !== u) && (r = (n = l).copy()).on(o, i = u), c.on = r;
	};
}
function Pl(e, t, n) {
	var r = (e += "") == "transform" ? Js : Yc;
	return t == null ? this.styleTween(e, kl(e, r)).on("end.style." + e, Al(e)) : typeof t == "function" ? this.styleTween(e, Ml(e, r, Jc(this, "style." + e, t))).each(Nl(this._id, e)) : this.styleTween(e, jl(e, r, t), n).on("end.style." + e, null);
}
function Fl(e, t, n) {
	return function(r) {
		this.style.setProperty(e, t.call(this, r), n);
	};
}
function Il(e, t, n) {
	var r, i;
	function a() {
		var a = t.apply(this, arguments);
		return a !== i && (r = (i = a) && Fl(e, a, n)), r;
	}
	return a._value = t, a;
}
function Ll(e, t, n) {
	var r = "style." + (e += "");
	if (arguments.length < 2) return (r = this.tween(r)) && r._value;
	if (t == null) return this.tween(r, null);
	if (typeof t != "function") throw Error();
	return this.tween(r, Il(e, t, n ?? ""));
}
function Rl(e) {
	return function() {
		this.textContent = e;
	};
}
function zl(e) {
	return function() {
		var t = e(this);
		this.textContent = t ?? "";
	};
}
function Bl(e) {
	return this.tween("text", typeof e == "function" ? zl(Jc(this, "text", e)) : Rl(e == null ? "" : e + ""));
}
function Vl(e) {
	return function(t) {
		this.textContent = e.call(this, t);
	};
}
function Hl(e) {
	var t, n;
	function r() {
		var r = e.apply(this, arguments);
		return r !== n && (t = (n = r) && Vl(r)), t;
	}
	return r._value = e, r;
}
function Ul(e) {
	var t = "text";
	if (arguments.length < 1) return (t = this.tween(t)) && t._value;
	if (e == null) return this.tween(t, null);
	if (typeof e != "function") throw Error();
	return this.tween(t, Hl(e));
}
function Wl() {
	for (var e = this._name, t = this._id, n = ql(), r = this._groups, i = r.length, a = 0; a < i; ++a) for (var o = r[a], s = o.length, c, l = 0; l < s; ++l) if (c = o[l]) {
		var u = J(c, t);
		Bc(c, e, n, l, o, {
			time: u.time + u.delay + u.duration,
			delay: 0,
			duration: u.duration,
			ease: u.ease
		});
	}
	return new Y(r, this._parents, e, n);
}
function Gl() {
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
var Kl = 0;
function Y(e, t, n, r) {
	this._groups = e, this._parents = t, this._name = n, this._id = r;
}
function ql() {
	return ++Kl;
}
var X = Za.prototype;
Y.prototype = {
	constructor: Y,
	select: Tl,
	selectAll: El,
	selectChild: X.selectChild,
	selectChildren: X.selectChildren,
	filter: vl,
	merge: yl,
	selection: Ol,
	transition: Wl,
	call: X.call,
	nodes: X.nodes,
	node: X.node,
	size: X.size,
	empty: X.empty,
	each: X.each,
	on: Sl,
	attr: nl,
	attrTween: sl,
	style: Pl,
	styleTween: Ll,
	text: Bl,
	textTween: Ul,
	remove: wl,
	tween: qc,
	delay: ul,
	duration: pl,
	ease: hl,
	easeVarying: _l,
	end: Gl,
	[Symbol.iterator]: X[Symbol.iterator]
};
var Jl = {
	time: null,
	delay: 0,
	duration: 250,
	ease: Cc
};
function Yl(e, t) {
	for (var n; !(n = e.__transition) || !(n = n[t]);) if (!(e = e.parentNode)) throw Error(`transition ${t} not found`);
	return n;
}
function Xl(e) {
	var t, n;
	e instanceof Y ? (t = e._id, e = e._name) : (t = ql(), (n = Jl).time = pc(), e = e == null ? null : e + "");
	for (var r = this._groups, i = r.length, a = 0; a < i; ++a) for (var o = r[a], s = o.length, c, l = 0; l < s; ++l) (c = o[l]) && Bc(c, e, t, l, o, n || Yl(c, t));
	return new Y(r, this._parents, e, t);
}
Za.prototype.interrupt = Wc, Za.prototype.transition = Xl;
// node_modules/d3-zoom/dist/d3-zoom.mjs
var Zl = (e) => () => e;
function Ql(e, { sourceEvent: t, target: n, transform: r, dispatch: i }) {
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
var $l = new Z(1, 0, 0);
eu.prototype = Z.prototype;
function eu(e) {
	for (; !e.__zoom;) if (!(e = e.parentNode)) return $l;
	return e.__zoom;
}
function tu(e) {
	e.stopImmediatePropagation();
}
function nu(e) {
	e.preventDefault(), e.stopImmediatePropagation();
}
function ru(e) {
	return (!e.ctrlKey || e.type === "wheel") && !e.button;
}
function iu() {
	var e = this;
	return e instanceof SVGElement ? (e = e.ownerSVGElement || e, e.hasAttribute("viewBox") ? (e = e.viewBox.baseVal, [[e.x, e.y], [e.x + e.width, e.y + e.height]]) : [[0, 0], [e.width.baseVal.value, e.height.baseVal.value]]) : [[0, 0], [e.clientWidth, e.clientHeight]];
}
function au() {
	return this.__zoom || $l;
}
function ou(e) {
	return -e.deltaY * (e.deltaMode === 1 ? .05 : e.deltaMode ? 1 : .002) * (e.ctrlKey ? 10 : 1);
}
function su() {
	return navigator.maxTouchPoints || "ontouchstart" in this;
}
function cu(e, t, n) {
	var r = e.invertX(t[0][0]) - n[0][0], i = e.invertX(t[1][0]) - n[1][0], a = e.invertY(t[0][1]) - n[0][1], o = e.invertY(t[1][1]) - n[1][1];
	return e.translate(i > r ? (r + i) / 2 : Math.min(0, r) || Math.max(0, i), o > a ? (a + o) / 2 : Math.min(0, a) || Math.max(0, o));
}
function lu() {
	var e = ru, t = iu, n = cu, r = ou, i = su, a = [0, Infinity], o = [[-Infinity, -Infinity], [Infinity, Infinity]], s = 250, c = ec, l = ao("start", "zoom", "end"), u, d, f, p = 500, m = 150, h = 0, g = 10;
	function _(e) {
		e.property("__zoom", au).on("wheel.zoom", ne, { passive: !1 }).on("mousedown.zoom", re).on("dblclick.zoom", ie).filter(i).on("touchstart.zoom", ae).on("touchmove.zoom", oe).on("touchend.zoom touchcancel.zoom", se).style("-webkit-tap-highlight-color", "rgba(0,0,0,0)");
	}
	_.transform = function(e, t, n, r) {
		var i = e.selection ? e.selection() : e;
		i.property("__zoom", au), e === i ? i.interrupt().each(function() {
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
			return n($l.translate(c[0], c[1]).scale(s.k).translate(typeof r == "function" ? -r.apply(this, arguments) : -r, typeof i == "function" ? -i.apply(this, arguments) : -i), e, o);
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
			var t = V(this.that).datum();
			l.call(e, this.that, new Ql(e, {
				sourceEvent: this.sourceEvent,
				target: _,
				transform: this.that.__zoom,
				dispatch: l
			}), t);
		}
	};
	function ne(t, ...i) {
		if (!e.apply(this, arguments)) return;
		var s = x(this, i).event(t), c = this.__zoom, l = Math.max(a[0], Math.min(a[1], c.k * 2 ** r.apply(this, arguments))), u = ro(t);
		if (s.wheel) (s.mouse[0][0] !== u[0] || s.mouse[0][1] !== u[1]) && (s.mouse[1] = c.invert(s.mouse[0] = u)), clearTimeout(s.wheel);
		else if (c.k === l) return;
		else s.mouse = [u, c.invert(u)], Uc(this), s.start();
		nu(t), s.wheel = setTimeout(d, m), s.zoom("mouse", n(y(v(c, l), s.mouse[0], s.mouse[1]), s.extent, o));
		function d() {
			s.wheel = null, s.end();
		}
	}
	function re(t, ...r) {
		if (f || !e.apply(this, arguments)) return;
		var i = t.currentTarget, a = x(this, r, !0).event(t), s = V(t.view).on("mousemove.zoom", d, !0).on("mouseup.zoom", p, !0), c = ro(t, i), l = t.clientX, u = t.clientY;
		po(t.view), tu(t), a.mouse = [c, this.__zoom.invert(c)], Uc(this), a.start();
		function d(e) {
			if (nu(e), !a.moved) {
				var t = e.clientX - l, r = e.clientY - u;
				a.moved = t * t + r * r > h;
			}
			a.event(e).zoom("mouse", n(y(a.that.__zoom, a.mouse[0] = ro(e, i), a.mouse[1]), a.extent, o));
		}
		function p(e) {
			s.on("mousemove.zoom mouseup.zoom", null), mo(e.view, a.moved), nu(e), a.event(e).end();
		}
	}
	function ie(r, ...i) {
		if (e.apply(this, arguments)) {
			var a = this.__zoom, c = ro(r.changedTouches ? r.changedTouches[0] : r, this), l = a.invert(c), u = a.k * (r.shiftKey ? .5 : 2), d = n(y(v(a, u), c, l), t.apply(this, i), o);
			nu(r), s > 0 ? V(this).transition().duration(s).call(ee, d, c, r) : V(this).call(_.transform, d, c, r);
		}
	}
	function ae(t, ...n) {
		if (e.apply(this, arguments)) {
			var r = t.touches, i = r.length, a = x(this, n, t.changedTouches.length === i).event(t), o, s, c, l;
			for (tu(t), s = 0; s < i; ++s) c = r[s], l = ro(c, this), l = [
				l,
				this.__zoom.invert(l),
				c.identifier
			], a.touch0 ? !a.touch1 && a.touch0[2] !== l[2] && (a.touch1 = l, a.taps = 0) : (a.touch0 = l, o = !0, a.taps = 1 + !!u);
			u &&= clearTimeout(u), o && (a.taps < 2 && (d = l[0], u = setTimeout(function() {
				u = null;
			}, p)), Uc(this), a.start());
		}
	}
	function oe(e, ...t) {
		if (this.__zooming) {
			var r = x(this, t).event(e), i = e.changedTouches, a = i.length, s, c, l, u;
			for (nu(e), s = 0; s < a; ++s) c = i[s], l = ro(c, this), r.touch0 && r.touch0[2] === c.identifier ? r.touch0[0] = l : r.touch1 && r.touch1[2] === c.identifier && (r.touch1[0] = l);
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
			for (tu(e), f && clearTimeout(f), f = setTimeout(function() {
				f = null;
			}, p), a = 0; a < i; ++a) o = r[a], n.touch0 && n.touch0[2] === o.identifier ? delete n.touch0 : n.touch1 && n.touch1[2] === o.identifier && delete n.touch1;
			if (n.touch1 && !n.touch0 && (n.touch0 = n.touch1, delete n.touch1), n.touch0) n.touch0[1] = this.__zoom.invert(n.touch0[0]);
			else if (n.end(), n.taps === 2 && (o = ro(o, this), Math.hypot(d[0] - o[0], d[1] - o[1]) < g)) {
				var s = V(this).on("dblclick.zoom");
				s && s.apply(this, arguments);
			}
		}
	}
	return _.wheelDelta = function(e) {
		return arguments.length ? (r = typeof e == "function" ? e : Zl(+e), _) : r;
	}, _.filter = function(t) {
		return arguments.length ? (e = typeof t == "function" ? t : Zl(!!t), _) : e;
	}, _.touchable = function(e) {
		return arguments.length ? (i = typeof e == "function" ? e : Zl(!!e), _) : i;
	}, _.extent = function(e) {
		return arguments.length ? (t = typeof e == "function" ? e : Zl([[+e[0][0], +e[0][1]], [+e[1][0], +e[1][1]]]), _) : t;
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
var uu = 4, du = 220, fu = class {
	plot;
	moves;
	zoom = lu();
	ended = new AbortController();
	fit = null;
	quiet = !1;
	box = null;
	boxedNow = !1;
	click;
	whole = !0;
	constructor(e, t) {
		this.plot = e, this.moves = t;
		let n = typeof matchMedia == "function" && matchMedia("(prefers-reduced-motion: reduce)").matches;
		this.zoom.duration(n ? 0 : 220).filter((e) => e.type === "wheel" || this.isMine(e)).constrain((e) => this.fit ? pu(Ue(this.fit, e)) : e).on("start", (t) => {
			t.sourceEvent?.type === "mousedown" && e.classList.add("held");
		}).on("end", () => e.classList.remove("held")).on("zoom", (e) => {
			if (this.quiet) return;
			let { k: n, x: r, y: i } = e.transform;
			this.mark(n), t.turned({
				k: n,
				x: r,
				y: i
			});
		}), V(e).call(this.zoom), this.listen();
	}
	set(e, t) {
		this.fit = e, this.zoom.extent([[0, 0], [e.width, e.height]]), this.zoom.scaleExtent([1, Ve(e)]), this.quiet = !0, this.zoom.transform(V(this.plot), pu(t)), this.quiet = !1, this.mark(t.k);
	}
	destroy() {
		this.ended.abort(), clearTimeout(this.click), V(this.plot).on(".zoom", null), this.zoom.on("start", null).on("zoom", null).on("end", null);
	}
	isMine(e) {
		return "touches" in e && this.whole && e.touches.length < 2 ? !1 : !e.button && !e.shiftKey && !this.moves.isBoxing();
	}
	mark(e) {
		this.whole = e <= 1 + 1e-9, this.plot.classList.toggle("whole", this.whole);
	}
	listen() {
		let { plot: e, moves: t } = this, { signal: n } = this.ended, r = (t, r) => e.addEventListener(t, r, { signal: n }), i = (e) => [e.offsetX, e.offsetY];
		r("pointermove", (e) => {
			this.box?.pointer === e.pointerId && t.boxed(this.box.from, i(e), !1), t.pointed(e);
		}), r("pointerleave", (e) => e.pointerType !== "touch" && t.pointed(null)), r("pointerdown", (n) => {
			this.boxedNow = !1, n.pointerType === "touch" && t.pointed(n), !n.button && (n.shiftKey || t.isBoxing()) && (this.box = {
				from: i(n),
				pointer: n.pointerId
			}, e.setPointerCapture(n.pointerId), n.preventDefault(), e.focus({ preventScroll: !0 }));
		}), r("pointerup", (e) => {
			if (!this.box) return;
			let { from: n } = this.box, r = i(e);
			this.box = null, this.boxedNow = !0;
			let a = Math.hypot(r[0] - n[0], r[1] - n[1]) < uu;
			t.boxed(n, a ? null : r, !0);
		}), r("pointercancel", () => {
			this.box && t.boxed(this.box.from, null, !0), this.box = null;
		}), r("click", (e) => {
			clearTimeout(this.click), !this.boxedNow && e.detail < 2 && (this.click = setTimeout(t.clicked(i(e)), du));
		}), r("dblclick", () => clearTimeout(this.click));
	}
};
function pu({ k: e, x: t, y: n }) {
	return $l.translate(t, n).scale(e);
}
// src/map.ts
var mu = 7, hu = 240, gu = class {
	host;
	scene;
	store;
	tiles;
	place;
	dom;
	pen;
	measure;
	cells = new mn();
	zoom;
	ended = new AbortController();
	resized;
	unsubscribe;
	frame = 0;
	caveat;
	width = hu;
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
	pointer = null;
	boxing = !1;
	box = null;
	figure = null;
	asked = "";
	said = "";
	constructor(e, t, n, r, i) {
		this.host = e, this.scene = t, this.store = n, this.tiles = r, this.place = i, this.dom = Xr(e, {
			in: () => this.obey({
				name: "zoom",
				by: 2
			}),
			out: () => this.obey({
				name: "zoom",
				by: .5
			}),
			whole: () => this.obey({ name: "whole" }),
			box: () => this.setBoxing(!this.boxing)
		}), this.caveat = new Mt(this.dom.badge, () => this.paint()), this.pen = this.dom.canvas.getContext("2d"), this.measure = or(this.pen), e.dataset.ready = "0", this.zoom = new fu(this.dom.plot, {
			turned: (e) => {
				this.turn = e, this.moved = !0, this.redraw();
			},
			pointed: (e) => this.point(e),
			clicked: (e) => {
				let t = this.cellAt(e);
				return () => this.select(t);
			},
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
		this.ended.abort(), cancelAnimationFrame(this.frame), this.caveat.destroy(), this.resized?.disconnect(), this.unsubscribe(), this.zoom.destroy(), this.tiles.want(this, []), this.tiles.ranges.leave(this), this.host.replaceChildren();
	}
	readout() {
		if (!this.cross || !this.figure) return null;
		let { shown: e, view: t, z: n } = this.figure;
		return un(this.tiles, e, t, n, this.cross[0], this.cross[1]);
	}
	png() {
		return Mr(this.now(), this.tiles, this.scene, this.measure);
	}
	svg() {
		return Rr(this.now(), this.tiles, this.scene, this.measure);
	}
	now() {
		if (this.draw(), !this.figure) throw Error("This map shows no pattern.");
		let { view: e, margins: t } = this.figure;
		return {
			...this.figure,
			margins: yt(e, t, this.measure)
		};
	}
	listen() {
		let { plot: e } = this.dom, t = (e, t, n) => e.addEventListener(t, n, { signal: this.ended.signal });
		t(e, "keydown", (e) => {
			let t = xn(e);
			t && this.obey(t) && e.preventDefault();
		});
		for (let n of ["focus", "blur"]) t(e, n, () => this.paint());
		typeof matchMedia == "function" && t(matchMedia("(prefers-color-scheme: dark)"), "change", () => this.paint());
	}
	resize(e) {
		let t = e[e.length - 1].contentRect, n = Math.floor(t.width), r = this.host.dataset.fill === void 0 ? 0 : Math.floor(t.height);
		!n || n === this.width && r === this.height || (this.width = n, this.height = r, this.redraw());
	}
	follow(e, t) {
		e.at !== t.at && e.at !== this.told && this.laid && !this.isApart(e) && (this.told = e.at, this.go(Ke(this.laid.fit, e.at), !1)), this.redraw();
	}
	redraw() {
		this.host.dataset.ready = "0", this.paint();
	}
	isApart(e) {
		let t = this.place(e);
		return t !== null && !c(this.scene, t, [e.layer, e.head]);
	}
	go(e, t = !0) {
		this.laid && (this.turn = Ue(this.laid.fit, e), this.zoom.set(this.laid.fit, this.turn), this.moved ||= t, this.redraw());
	}
	point(e) {
		this.dom.output.setAttribute("aria-live", "off"), this.pointer = e && {
			client: [e.clientX, e.clientY],
			at: [e.offsetX, e.offsetY]
		}, e || (this.cross = null), this.paint();
	}
	cellAt([e, t]) {
		return this.figure && nt(this.figure.view, e, t);
	}
	select(e) {
		if (!e || !this.figure || this.isApart(this.store.get())) return;
		let { shown: t, view: n, z: r } = this.figure, i = un(this.tiles, t, n, r, e[0], e[1]), a = (e, t) => Math.floor((e + t - 1) / 2);
		i ? this.store.set({
			query: a(i.i0, i.i1),
			key: a(i.j0, i.j1)
		}) : this.store.set({
			query: e[0],
			key: e[1]
		});
	}
	setBoxing(e) {
		this.boxing = e, this.box = null, this.dom.boxing.setAttribute("aria-pressed", String(e)), this.dom.plot.classList.toggle("boxing", e), this.paint();
	}
	drag(e, t, n) {
		let r = this.figure?.view;
		if (!r) return;
		let i = (e) => it(r, ...e);
		this.box = t && {
			from: i(e),
			to: i(t)
		}, n && this.box ? this.zoomToBox() : n && this.setBoxing(!1), this.paint();
	}
	zoomToBox() {
		if (!this.box || !this.laid) return;
		let { from: e, to: t } = this.box, n = (n) => [Math.min(e[n], t[n]), Math.max(e[n], t[n]) + 1];
		this.go(Je(this.laid.fit, n(0), n(1))), this.setBoxing(!1);
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
		} else if (e.name === "zoom") this.go(Ye(this.laid.fit, this.turn, e.by, this.cross));
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
		this.cross = this.cross ? [c(o[0] + t * s, n.T), c(o[1] + e * s, n.S)] : [c(o[0], n.T), c(o[1], n.S)], this.pointer = null, this.box &&= {
			...this.box,
			to: this.cross
		}, this.dom.output.setAttribute("aria-live", "polite");
		let [l, u] = rt(n, this.cross);
		(l || u) && this.go({
			k: this.turn.k,
			x: this.turn.x + l,
			y: this.turn.y + u
		}), this.paint();
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
		let { query: e, key: t } = this.store.get();
		if (this.boxing || this.box) this.setBoxing(!1);
		else if (t !== null) this.store.set({ key: null });
		else if (e !== null) this.store.set({ query: null });
		else if (this.cross && !this.pointer) this.cross = null;
		else return !1;
		return this.paint(), !0;
	}
	draw() {
		let e = this.store.get(), t = this.place(e);
		if (!t || !this.scene.layers[t[0]]) return this.blank();
		let n = window.devicePixelRatio || 1, r = h(e, t), a = this.scene.layers[r.layer], o = this.lay(e, r, a);
		this.moved && this.tell();
		let s = We(this.laid.fit, this.turn), c = Rn(this.tiles, r, s, n);
		this.ask(r, s, c);
		let l = sn(this.tiles, r, s, c), u = Vn(l, s, c), d = JSON.stringify(r), f = this.tiles.ranges.of(this, {
			name: d,
			most: u,
			exact: l.exact,
			again: () => this.paint()
		});
		this.figure = Hn(this.scene, e, r, {
			view: s,
			z: c,
			margins: o,
			pieces: l,
			most: u,
			range: e.range ?? f
		}), this.pointer && (this.cross = nt(s, ...this.pointer.at));
		let p = this.put(this.figure, n);
		p || this.paint(), this.host.dataset.ready = l.exact && p ? "1" : "0", this.host.dataset.drawn = l.gaps ? "0" : "1", this.host.dataset.z = String(c), this.speak(r, c, s.kx * 2 ** c * n);
		let m = `Attention of ${i(this.scene, t)}: ${a.T} queries by ${a.S} keys`;
		this.dom.plot.getAttribute("aria-label") !== m && this.dom.plot.setAttribute("aria-label", m), this.dom.stage.classList.toggle("lost", this.tiles.lost && !l.exact);
		let g = jt(this.tiles, this, r, l, c, Qe(s, n));
		this.caveat.show(l, g, this.tiles.isComing(this)), ei(this.dom.box, s, this.box);
	}
	blank() {
		this.figure = null, this.tiles.want(this, []), this.tiles.ranges.leave(this), this.asked = "", this.pen?.clearRect(0, 0, this.dom.canvas.width, this.dom.canvas.height), this.host.dataset.ready = "0";
	}
	lay(e, t, n) {
		let r = `${t.layer} ${t.b} ${this.width} ${this.height || window.innerHeight}`;
		if (this.laid?.name === r) return this.laid.margins;
		let [i, a] = An(this.scene, n, t.b), o = this.height || Math.min(900, Math.max(300, .78 * window.innerHeight)), { fit: s, margins: c } = _t(n, i, a, Math.max(hu, this.width), o, this.measure);
		if (this.laid = {
			name: r,
			fit: s,
			margins: c
		}, Zr(this.dom, s, c), this.turn = Ke(s, this.isApart(e) ? null : e.at), this.zoom.set(s, this.turn), this.pointer) {
			let { left: e, top: t } = this.dom.plot.getBoundingClientRect(), [n, r] = this.pointer.client;
			this.pointer.at = [n - e, r - t];
		}
		return c;
	}
	tell() {
		this.moved = !1, this.isApart(this.store.get()) || (this.told = qe(this.laid.fit, this.turn), this.store.set({ at: this.told }));
	}
	ask(e, t, n) {
		let r = Ze(t, n), i = JSON.stringify([e, r]);
		i !== this.asked && (this.asked = i, this.tiles.want(this, zn(this.tiles, e, t, r)));
	}
	put(e, t) {
		let { width: n, height: r } = ar(e);
		if (Qr(this.dom.canvas, this.pen, n, r, t), !this.pen) return !0;
		let i = sr(this.pen, e, this.tiles, this.cells, this.measure, t, mu), a = this.readout() ?? (this.cross && Sn(this.cross));
		return a && wr(this.pen, e, a, this.measure), this.dom.plot.matches(":focus-visible") && Cr(this.pen, e), i;
	}
	speak(e, t, n) {
		let r = this.readout(), i = this.cross ? "not loaded" : In(t, n, Ln()), a = r ? Nn(this.scene, e, r) : [{
			kind: "words",
			text: i
		}], o = a.map(({ text: e }) => e).join("");
		o !== this.said && (this.said = o, $r(this.dom.output, a));
	}
};
// src/letter.ts
function _u(e) {
	let t = S("b", {
		class: "letter",
		"aria-hidden": "true"
	}, e?.letter ?? "");
	return e?.colour ? (t.style.background = e.colour, t.style.color = Jt(Vt(e.colour))) : t.classList.add("plain"), t;
}
// src/card.ts
function vu(e, t) {
	let n = URL.createObjectURL(e);
	S("a", {
		href: n,
		download: t
	}).click(), setTimeout(() => URL.revokeObjectURL(n), 1e4);
}
var yu = class {
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
		this.node = S("div", { class: "map-card" }, S("div", { class: "map-head" }, this.name, l), s), e.append(this.node), this.map = new gu(s, t, n, r, i), this.unsubscribe = n.subscribe(() => this.paint()), this.paint();
	}
	destroy() {
		this.unsubscribe(), this.map.destroy(), this.node.remove();
	}
	paint() {
		let t = this.store.get(), r = this.place(t);
		if (!r) return;
		let a = this.scene.runs.length > 1 ? this.scene.runs[t.run] ?? "" : "", o = t.minus === null ? "" : ` − ${this.scene.runs[t.minus]}`, c = `${e(r)} ${a}${o}`;
		if (c === this.named) return;
		this.named = c;
		let l = s(this.scene, r), u = n(this.scene, r), d = Me(this.scene, r), f = [
			["earned", d],
			["run", `${a}${o}`],
			["site", u.name]
		].filter(([, e]) => e);
		this.name.replaceChildren(...l ? [_u(l)] : [], S("h2", {}, i(this.scene, r), l ? S("span", {}, `: ${l.title}`) : null), S("small", { title: l ? `${l.means}: ${d}` : "" }, ...f.map(([e, t]) => S("span", { class: e }, t))));
	}
	async save(e) {
		let t = this.place(this.store.get()), n = `layer-${t?.[0]}-head-${t?.[1]}.${e}`;
		vu(e === "png" ? await this.map.png() : new Blob([this.map.svg()], { type: "image/svg+xml" }), n);
	}
}, bu = 3, xu = 4, Su = 21, Cu = {
	least: 34,
	letter: 6.6,
	around: 9
}, wu = 34, Tu = 240, Eu = 1.35, Du = 15, Ou = 560, ku = 31, Au = 46;
function ju(e) {
	return e.layers.flatMap(({ heads: e }, t) => Array.from({ length: e }, (e, n) => [t, n]));
}
function Mu(e) {
	let t = Math.max(...e.layers.map(({ label: e }) => e.length));
	return Math.max(Cu.least, Math.ceil(t * Cu.letter) + Cu.around);
}
function Nu(e, t) {
	return Math.min(Tu, Math.max(wu, Math.floor((t - Su) / e.layers.length) - bu));
}
function Pu(e) {
	let t = Math.max(1, ...e.layers.map(({ heads: e }) => e));
	return Mu(e) + t * (Nu(e, Ou) + bu) + xu;
}
var Fu = (e) => Nu(e, Ou);
function Iu(e, t, n) {
	return t.kinds.length === 0 || t.kinds.includes(o(e, n)?.kind ?? "");
}
function Lu(e, t, n) {
	let r = o(e, t);
	return r ? n === "entropy" ? r.entropy : r.scores[n] ?? null : null;
}
var Ru = (e) => ({
	...e,
	x: 0,
	y: 0,
	row: 0,
	column: 0,
	faint: !1
});
function zu(e, t) {
	let n = [];
	return ju(e).forEach((r, i) => {
		let a = Lu(e, r, t.sort);
		if (a === null || !Iu(e, t, r)) return;
		let s = o(e, r)?.few.includes(t.sort) ?? !1;
		n.push(Ru({
			place: r,
			n: i,
			score: a,
			few: s
		}));
	}), n.sort((e, t) => t.score - e.score || e.n - t.n);
}
var Bu = (e, t) => e.layers.reduce((e, { heads: n }) => e + Math.ceil(n / t), 0);
function Vu(e, t, { height: n }) {
	let r = Math.max(1, ...e.layers.map(({ heads: e }) => e)), i = (n) => Math.floor((t - Mu(e) - xu) / n) - bu;
	if (n === null || i(r) >= 96) return r;
	let a = {
		columns: r,
		side: i(r) * Eu
	};
	for (let t = r - 1; t > 0; t--) {
		let r = Math.floor((n - bu) / Bu(e, t)) - Du - bu, o = Math.min(Tu, i(t), r);
		o > a.side && (a = {
			columns: t,
			side: o
		});
	}
	return a.columns;
}
function Hu(e, t, n, r) {
	let { largest: i } = r;
	if (t.sort !== "place") {
		let r = zu(e, t), a = Math.max(Au, Math.min(i, Au + (i > Au ? 16 : 0))), o = Math.max(1, Math.floor(n / a)), s = [Math.floor(n / o), a - 8 + ku];
		r.forEach((e, t) => {
			e.row = Math.floor(t / o), e.column = t % o, e.x = e.column * s[0], e.y = e.row * s[1];
		});
		let c = Math.ceil(r.length / o), l = c * s[1];
		return {
			sorted: !0,
			cells: r,
			size: a - 8,
			step: s,
			gutter: 0,
			top: 0,
			width: n,
			height: l,
			columns: o,
			rows: c,
			wrapped: !1,
			starts: []
		};
	}
	return Uu(e, t, n, r);
}
function Uu(e, t, n, r) {
	let i = Vu(e, n, r), a = e.layers.some(({ heads: e }) => e > i), o = Bu(e, i), s = a ? bu : Su, c = a ? Du : 0, l = Mu(e), u = a && r.height !== null ? Math.floor((r.height - s) / o) - c : Infinity, d = a ? Tu : r.largest, f = Math.max(19, Math.min(d + bu, u, Math.floor((n - l - xu) / i))), p = [f, f + c], m = [];
	e.layers.reduce((e, { heads: t }) => (m.push(e), e + Math.ceil(t / i)), 0);
	let h = ju(e).map(([n, r], a) => {
		let [o, c] = [m[n] + Math.floor(r / i), r % i];
		return {
			...Ru({
				place: [n, r],
				n: a,
				score: null,
				few: !1
			}),
			row: o,
			column: c,
			x: l + c * p[0],
			y: s + o * p[1],
			faint: !Iu(e, t, [n, r])
		};
	}), [g, _] = [l + i * p[0], s + o * p[1]];
	return {
		sorted: !1,
		cells: h,
		size: f - bu,
		step: p,
		gutter: l,
		top: s,
		width: g,
		height: _,
		columns: i,
		rows: o,
		wrapped: a,
		starts: m
	};
}
function Wu(e, t, n) {
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
function Gu(e, t, n) {
	let r = o(e, t.place), a = r && e.kinds.find(({ name: e }) => e === r.kind), s = [i(e, t.place)];
	return a && s.push(`${a.title}: ${Me(e, t.place)}`), t.score !== null && s.push(`${n.replaceAll("_", " ")} ${Ee(t.score, 2)}${t.few ? ", by too few tokens" : ""}`), s.join(", ");
}
var Ku = (t, n) => t.cells.find((t) => e(t.place) === n) ?? null, qu = 0;
function Ju(e, t, n) {
	let r = `segments${++qu}`, i = S("div", {
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
function Yu(e, t, n) {
	let r = S("input", { type: "checkbox" });
	return r.addEventListener("change", () => n(r.checked)), {
		node: S("label", {
			class: "check",
			title: t
		}, r, e),
		show: (e) => r.checked = e
	};
}
function Xu(e, t, n) {
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
function Zu(e, t) {
	let n = (e) => t.forEach((t) => t(e));
	return n(e.get()), e.subscribe(n);
}
function Qu(e, t, n, r) {
	let i = [], a = t.runs.map((e, t) => [String(t), e]);
	if (a.length > 1) {
		let t = Xu("run", a, (e) => {
			let t = Number(e);
			n.set({
				run: t,
				...n.get().minus === t ? { minus: null } : {}
			});
		}), r = Xu("minus", [["none", "nothing"], ...a], (e) => {
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
		e.append(Q(Xu("batch row", r, (e) => n.set({ b: Number(e) })), ({ b: e }) => String(e), i));
	}
	let o = Ju("Theme", [
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
	})), Zu(n, i);
}
function $u(e, { layer: t, head: r, b: i }) {
	let { sink: a, cols: o } = n(e, [t, r]), s = a[i] ?? 0, c = e.axes[o[i] ?? 0];
	return `Leaves out key ${E(s)} “${D(c, s)}”, the first that any query may attend to`;
}
function ed(e, t, n, r) {
	let i = [], a = Ju("Colour scale", [
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
	], (e) => n.set({ scale: e })), o = Yu("lock", "Locks the colours: the bar ends where it ends now, whatever is looked at next", (e) => n.set({ range: e ? r() : null })), s = Ju("One pixel of many cells", [["mean", "mean"], ["max", "max"]], (e) => n.set({ pool: e })), c = Yu("hide sink", "", (e) => n.set({ hide: e }));
	i.push((e) => c.node.title = $u(t, e));
	let l = Yu("row max = 1", "Divides each row by its largest probability", (e) => n.set({ norm: e })), u = w("Side by side", () => {
		let e = n.get();
		n.set({ beside: e.beside ? null : f(t, [e.layer, e.head]) });
	}, {
		class: "small",
		title: "A second head beside; Shift click on a head chooses it"
	});
	u.disabled = ju(t).length < 2, i.push((e) => u.setAttribute("aria-pressed", String(e.beside !== null)));
	let d = (e, t) => S("span", { class: "pick" }, S("span", { "aria-hidden": "true" }, e), t), p = d("colour", Q(a, (e) => e.scale, i));
	p.append(Q(o, (e) => e.range !== null, i));
	let m = d("pool", Q(s, (e) => e.pool, i)), h = t.saved ? [[p], [m, u]] : [[p, m], [
		Q(c, (e) => e.hide, i),
		Q(l, (e) => e.norm, i),
		u
	]];
	return e.append(...h.map((e) => S("div", {}, ...e))), Zu(n, i);
}
// src/help.ts
var td = [
	["Anywhere", [
		["?", "this list"],
		["[ and ]", "head before, head after"],
		["/", "find a token; Enter and Shift Enter: next, previous"],
		["Tab", "from part to part"]
	]],
	["Heads", [
		["Arrows", "from head to head"],
		["Enter", "show on the map"],
		["Shift Enter, Shift click", "show beside"],
		["Space, Ctrl click", "into the mean of the text, or out of it"]
	]],
	["Map", [
		["Arrows", "move the map"],
		["Shift arrows", "move the crosshair by one cell"],
		["+ and −", "zoom; or wheel, pinch, double click"],
		["b", "a box: arrows with Shift, then Enter; or Shift drag"],
		["Esc", "give up the box, the crosshair"],
		["0", "the whole pattern"],
		["Enter", "select query and key under the crosshair"]
	]],
	["Text and patches", [
		["Arrows", "from token to token"],
		["Page Up, Page Down", "64 tokens on"],
		["Home, End", "first and last token"],
		["Esc", "release the held token; close the search"]
	]]
];
function nd() {
	let e = S("dialog", {
		class: "keys-dialog",
		"aria-label": "Keys"
	}), t = w("Close", () => e.close(), { class: "quiet" });
	e.append(S("div", { class: "panel-head" }, S("h2", {}, "Keys"), t));
	let n = S("div", { class: "keys-lists" });
	for (let [e, t] of td) {
		let r = S("dl");
		for (let [e, n] of t) r.append(S("div", {}, S("dt", {}, S("kbd", {}, e)), S("dd", {}, n)));
		n.append(S("section", {}, S("h3", {}, e), r));
	}
	return e.append(n), e.addEventListener("click", (t) => {
		t.target === e && e.close();
	}), e;
}
// src/http.ts
var rd = class extends k {}, id = class extends k {}, ad = class extends k {}, od = "The Python side no longer answers: its process was stopped, or the connection to it broke.";
async function sd(e) {
	let t = await cd(e);
	return e.status === 400 ? new k(t) : e.status === 503 ? new id(t) : new ad(t);
}
async function cd(e) {
	try {
		let t = await e.json();
		if (t && typeof t == "object" && "sentence" in t && typeof t.sentence == "string") return t.sentence;
	} catch {}
	return `The server refused the question with status ${e.status}.`;
}
var ld = class {
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
			}), !i.ok) throw await sd(i);
			a = await i.arrayBuffer();
		} catch (e) {
			throw e instanceof k || n?.aborted ? e : new rd(od);
		}
		return Pe(a);
	}
}, ud = class {
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
}, dd = "No answer.", fd = class {
	inner;
	lost;
	gone = !1;
	constructor(e, t) {
		this.inner = e, this.lost = t;
	}
	async ask(e, t, n) {
		if (this.gone) throw new rd(dd);
		try {
			return await this.inner.ask(e, t, n);
		} catch (e) {
			throw e instanceof rd ? (this.gone || this.lost(e), this.gone = !0, new rd(dd)) : e;
		}
	}
};
// src/progress.ts
function pd({ left: e, of: t, exact: n, sampled: r, done: i }) {
	let a = [e < t ? `${e} of ${Te(t, "head")}` : Te(t, "head")];
	return n === t ? a.push(t === 1 ? "its map exact" : "all maps exact") : (n > 0 && a.push(`${n} exact`), i ? a.push(`${t - n} of ${t} could not be made`) : (r > 0 && a.push(`${r} sampled`), t > n + r && a.push(`${t - n - r} waiting`))), a.join(", ");
}
// src/smalls.ts
var md = 22;
function hd(t, n, r) {
	let i = t.getContext("2d");
	if (!i) return;
	let { width: a, height: o, size: s, cells: c, sorted: l, step: u } = r.arrangement, d = window.devicePixelRatio || 1;
	t.width = Math.round(a * d), t.height = Math.round(o * d), t.style.width = `${a}px`, t.style.height = `${o}px`, i.scale(d, d), i.imageSmoothingQuality = "high";
	let f = getComputedStyle(n), p = {
		ink: f.getPropertyValue("--ink"),
		soft: f.getPropertyValue("--soft"),
		line: f.getPropertyValue("--line")
	}, m = `700 11px ${f.fontFamily}`;
	i.font = m, i.textAlign = "center", i.textBaseline = "middle";
	for (let t of c) {
		let n = t.x + (l ? Math.floor((u[0] - 2 - s) / 2) : 0);
		if (i.globalAlpha = t.faint ? .16 : 1, gd(i, r, t, n, t.y + +!!l, p), r.arrangement.wrapped && (i.fillStyle = p.soft, i.font = `11px ${f.fontFamily}`, i.fillText(e(t.place), t.x + s / 2, t.y + s + 8), i.font = m), t.score === null) continue;
		let a = t.x + (u[0] - 2) / 2;
		i.fillStyle = p.soft, i.font = `11px ${f.fontFamily}`, i.fillText(e(t.place), a, t.y + s + 9), i.fillStyle = p.ink, i.font = m, i.fillText(`${Ee(t.score, 2)}${t.few ? "*" : ""}`, a, t.y + s + 22);
	}
}
function gd(t, { scene: n, thumbs: r, arrangement: i, full: a }, c, l, u, d) {
	let { size: f } = i, p = s(n, c.place), m = p?.colour ?? null, h = r.isKnown(c.n);
	h && r.draw(t, c.n, l + 1, u + 1, f - 2), t.strokeStyle = m ?? d.line, t.lineWidth = m ? 2 : 1, t.strokeRect(l + 1, u + 1, f - 2, f - 2), h && !r.isExact(c.n) && _d(t, l + 2, u + f - 2, Math.min(9, f / 3), d.soft), a.has(e(c.place)) && (t.fillStyle = d.ink, t.beginPath(), t.arc(l + f - 5, u + f - 5, 2.5, 0, 2 * Math.PI), t.fill());
	let g = o(n, c.place) && !m;
	if (!p || g || f < md) return;
	let _ = Math.min(14, f * .45);
	t.fillStyle = m ?? d.line, t.fillRect(l + f - _, u, _, _), t.fillStyle = m ? Jt(Vt(m)) : d.ink, t.fillText(p.letter, l + f - _ / 2, u + _ / 2 + .5);
}
function _d(e, t, n, r, i) {
	e.strokeStyle = i, e.lineWidth = 1, e.beginPath();
	for (let i = 3; i <= r; i += 3) e.moveTo(t, n - i), e.lineTo(t + i, n);
	e.stroke();
}
// src/thumbs.ts
var vd = 256, yd = 2.5, bd = class {
	side;
	across;
	count;
	first;
	codes;
	exact;
	known;
	atlas = document.createElement("canvas");
	dark = null;
	shades = new Uint32Array(vd);
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
	get sampled() {
		let e = 0;
		for (let t = 0; t < this.count; t++) this.known[t] && !this.exact[t] && e++;
		return e;
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
		let t = Wt(e, !1), n = new Uint8Array(this.shades.buffer);
		for (let e = 0; e < vd; e++) n.set([...t(e / 255), 255], 4 * e);
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
		e.imageSmoothingEnabled = i < yd * this.side, e.drawImage(this.atlas, ...a, this.side, this.side, n, r, i, i);
	}
}, xd = 400, Sd = 2e3, Cd = 3e4, wd = 6, Td = 38, Ed = 680, Dd = class {
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
	again;
	patience = Sd;
	arrangement;
	roving;
	loading = new AbortController();
	since = 0;
	frame = 0;
	meta = null;
	refusal = null;
	larger = w("⤢", () => this.store.set({ large: !this.store.get().large }), {
		class: "icon",
		"aria-label": "Large maps",
		title: "Large maps"
	});
	constructor(t, n, r, i, a) {
		this.scene = n, this.store = r, this.transport = i, this.notice = a, this.thumbs = new bd(n);
		let o = n.saved?.heads ?? [];
		this.full = new Set(o.length < ju(n).length ? o : []);
		let s = r.get();
		this.roving = e([s.layer, s.head]), this.arrangement = Hu(n, s, 320, {
			largest: Fu(n),
			height: null
		}), this.grid.append(this.canvas), this.scroller.append(this.grid), t.append(this.head(), this.filter(), this.scroller, this.foot()), t.parentElement?.style.setProperty("--heads", `${Pu(n) + Td}px`), this.listen(), this.layOut(), this.paintControls(), this.watcher = new ResizeObserver(() => {
			this.layOut(), this.reveal();
		}), this.watcher.observe(this.scroller), this.unsubscribe = r.subscribe((e, t) => this.changed(e, t)), this.load();
	}
	destroy() {
		this.loading.abort(), clearTimeout(this.again), this.unsubscribe(), this.watcher.disconnect(), cancelAnimationFrame(this.frame);
	}
	paint() {
		cancelAnimationFrame(this.frame), this.frame = requestAnimationFrame(() => this.draw());
	}
	head() {
		let e = ie(this.scene);
		for (let t of e) {
			let e = this.scene.kinds.find((e) => e.name === t);
			this.sort.append(S("option", { value: t }, t === "place" ? "by layer" : (e?.title ?? t.replaceAll("_", " ")).toLowerCase()));
		}
		this.sort.addEventListener("change", () => this.store.set({ sort: this.sort.value }));
		let t = e.length > 1 ? S("label", { class: "pick" }, S("span", {}, "order"), this.sort) : null;
		return S("div", { class: "panel-head" }, S("h2", {}, "Heads"), t, this.larger);
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
				title: `${t.means}; ${je(t)}`
			});
			r.append(_u(t), S("span", {}, t.title), S("i", {}, String(n))), this.chips.set(t.name, r), e.append(r);
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
					let n = Ku(this.arrangement, e(r)), i = n && Wu(this.arrangement, n, t.key);
					if (!i) return;
					this.rove(e(i.place)), this.nodes.get(this.roving)?.focus();
				}
				t.preventDefault();
			}
		});
	}
	show(e) {
		this.store.go(u(this.scene, this.store.get(), e));
	}
	mean(e) {
		let t = d(this.scene, this.store.get(), e);
		t ? this.store.set(t) : this.notice("Only heads over the same queries and keys have a mean; this one's differ from those of the head on the map.");
	}
	rove(e) {
		this.nodes.get(this.roving)?.setAttribute("tabindex", "-1"), this.roving = e, this.nodes.get(e)?.setAttribute("tabindex", "0");
	}
	changed(t, n) {
		(t.run !== n.run || t.minus !== n.minus || t.b !== n.b) && (this.loading.abort(), this.since = 0, this.meta = this.refusal = null, this.thumbs.forget(), this.load()), (t.sort !== n.sort || t.kinds !== n.kinds || t.large !== n.large) && this.layOut();
		let r = t.layer !== n.layer || t.head !== n.head;
		r && this.rove(e([t.layer, t.head])), (r || t.sort !== n.sort || t.large !== n.large) && this.reveal(), this.paintControls();
	}
	reveal() {
		let { layer: t, head: n } = this.store.get(), r = Ku(this.arrangement, e([t, n])), { clientHeight: i, scrollTop: a } = this.scroller;
		if (!r || i === 0) return;
		let { top: o, step: s } = this.arrangement;
		r.y - o < a ? this.scroller.scrollTop = r.y - o : r.y + s[1] + wd > a + i && (this.scroller.scrollTop = r.y + s[1] + wd - i);
	}
	async load() {
		this.loading.abort(), clearTimeout(this.again);
		let { signal: e } = this.loading = new AbortController(), { run: t, minus: n, b: r } = this.store.get(), i = (e) => this.again = setTimeout(() => void this.load(), e);
		try {
			let a = {
				run: t,
				...n === null ? {} : { minus: n },
				b: r,
				since: this.since
			}, { meta: o, data: s } = await this.transport.ask("overview", a, e);
			if (e.aborted) return;
			this.since = o.version, this.thumbs.put(o, s), this.meta = o, this.refusal = null, this.patience = Sd, this.scroller.toggleAttribute("data-ready", !0), this.paint(), o.done || i(xd);
		} catch (t) {
			if (e.aborted) return;
			this.refusal = t instanceof Error ? t.message : String(t), t instanceof rd || i(this.patience), this.patience = Math.min(Cd, 2 * this.patience);
		}
		this.say();
	}
	say() {
		let e = this.store.get(), t = ju(this.scene), n = t.filter((t) => Iu(this.scene, e, t)).length;
		this.grid.setAttribute("aria-label", e.kinds.length ? `Heads, ${n} of the kinds that are chosen` : "Heads");
		let { exact: r = 0, done: i = !1 } = this.meta ?? {}, a = pd({
			left: n,
			of: t.length,
			exact: r,
			sampled: this.thumbs.sampled,
			done: i
		});
		this.status.textContent = this.refusal ?? (e.minus === null ? a : `${a}; size of the difference`);
	}
	layOut() {
		let t = Math.max(200, (this.scroller.clientWidth || 320) - 12), n = this.store.get(), i = (this.scroller.closest(".app")?.clientWidth ?? 0) <= Ed ? null : this.scroller.clientHeight, a = i === null ? Fu(this.scene) : Nu(this.scene, i), o = Hu(this.scene, n, t, {
			largest: n.large ? Math.max(96, a) : a,
			height: i
		});
		this.arrangement = o, this.grid.style.width = `${o.width}px`, this.grid.style.height = `${o.height}px`;
		let s = [];
		o.sorted || s.push(o.wrapped ? S("div", { role: "row" }) : this.numbers(o));
		for (let e = 0; e < o.rows; e++) s.push(S("div", { role: "row" }));
		o.sorted || this.scene.layers.forEach((e, t) => {
			let n = S("span", {
				role: "rowheader",
				class: "mark",
				title: `${r(e)}: ${e.name}`
			}, e.label);
			n.style.width = `${o.gutter - wd}px`;
			let i = o.starts[t];
			n.style.top = `${o.top + i * o.step[1]}px`, n.style.lineHeight = `${o.size}px`, s[i + 1]?.append(n);
		}), this.nodes.clear();
		for (let e of o.cells) s[e.row + +!o.sorted]?.append(this.cell(e, o));
		let c = this.grid.contains(this.grid.getRootNode() instanceof ShadowRoot ? this.grid.getRootNode().activeElement : null);
		this.grid.replaceChildren(this.canvas, ...s), this.nodes.has(this.roving) || (this.roving = o.cells[0] ? e(o.cells[0].place) : ""), this.rove(this.roving), c && this.nodes.get(this.roving)?.focus(), this.draw(), this.paintControls();
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
		let r = e(t.place), i = Gu(this.scene, t, this.store.get().sort) + (this.full.has(r) ? ", in full in this file" : "") + (t.faint ? ", left out by the filter" : ""), a = S("div", {
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
		this.sort.value = t.sort, this.larger.setAttribute("aria-pressed", String(t.large));
		for (let [e, n] of this.chips) n.setAttribute("aria-pressed", String(t.kinds.includes(e)));
		let n = e([t.layer, t.head]);
		for (let [r, i] of this.nodes) i.setAttribute("aria-selected", String(r === n || t.chosen.includes(r))), i.toggleAttribute("data-here", r === n), i.toggleAttribute("data-beside", t.beside !== null && r === e(t.beside)), i.toggleAttribute("data-chosen", t.chosen.includes(r));
		this.say();
	}
	draw() {
		this.thumbs.theme(Yt(this.store.get())), hd(this.canvas, this.grid, this);
	}
}, $ = 52, Od = 8, kd = 8, Ad = 32, jd = 5, Md = 4, Nd = 60;
function Pd(e, t) {
	let [n, r] = [0, 0];
	for (let t of e) for (let e = 0; e < t.length; e++) {
		let i = t[e];
		Number.isFinite(i) && ([n, r] = [Math.min(n, i), Math.max(r, i)]);
	}
	if (r === n && (r = n + 1), t) {
		let e = (e) => e > 0 ? Math.max(0, 1 + Math.log10(e / r) / jd) : 0, t = Math.floor(Math.log10(r)), n = [
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
	let i = Ct((r - n) / Md), a = [];
	for (let e = Math.ceil(n / i - 1e-6); e * i <= r + i * 1e-6; e++) a.push(e * i);
	return {
		low: n,
		high: r,
		of: (e) => (e - n) / (r - n),
		ticks: a
	};
}
function Fd(e, t) {
	let n = Math.max(1, Math.min(t, e.length)), [r, i] = [new Float32Array(n).fill(NaN), new Float32Array(n).fill(NaN)];
	for (let t = 0; t < n; t++) {
		let a = Math.floor(t * e.length / n), o = Math.max(a + 1, Math.floor((t + 1) * e.length / n)), [s, c] = [Infinity, -Infinity];
		for (let t = a; t < o; t++) {
			let n = e[t];
			n < s && (s = n), n > c && (c = n);
		}
		s <= c && ([r[t], i[t]] = [s, c]);
	}
	return {
		low: r,
		high: i
	};
}
function Id(e) {
	let [t, n] = [null, 0];
	for (let r = 0; r < e.length; r++) {
		let i = Math.abs(e[r]);
		i > n && ([t, n] = [r, i]);
	}
	return t;
}
function Ld(e) {
	return Math.abs(e) >= 1e3 && Number.isInteger(e) ? `${e < 0 ? "−" : ""}${E(Math.abs(e))}` : he(e);
}
function Rd(e) {
	let t = [];
	for (let n = 0; n < e.length; n++) {
		if (Number.isNaN(e[n])) continue;
		let r = t.at(-1);
		r && r[1] === n ? r[1] = n + 1 : t.push([n, n + 1]);
	}
	return t;
}
var zd = class {
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
	get length() {
		return this.series?.curves[0].values.length ?? 0;
	}
	draw() {
		let { series: e, length: t } = this;
		if (!e || t === 0) return;
		let n = Math.max(160, this.plot.clientWidth || 340), r = Pd(e.curves.map(({ values: e }) => e), e.log ?? !1), i = this.height - kd - Ad, a = (e) => kd + i * (1 - Math.min(1, Math.max(0, r.of(e)))), o = (n - $ - Od) / t, s = (n) => $ + o * (e.backwards ? t - 1 - n : n), c = {
			width: n,
			step: o,
			x: s,
			y: a,
			zero: a(Math.max(0, r.low))
		}, l = [];
		for (let e of r.ticks) l.push(C("line", {
			class: "grid",
			x1: $,
			x2: n - Od,
			y1: a(e),
			y2: a(e)
		})), l.push(C("text", {
			x: 47,
			y: a(e) + 4,
			"text-anchor": "end"
		}, Ld(e)));
		if (e.curves.forEach((t, n) => l.push(...this.curve(e, t, n > 0, c))), l.push(...this.ticks(e, c)), l.push(C("text", {
			class: "what",
			x: $ + (n - $ - Od) / 2,
			y: this.height - 3,
			"text-anchor": "middle"
		}, e.across)), e.mark !== null && e.mark !== void 0) {
			let t = s(e.mark) + o / 2;
			l.push(C("line", {
				class: "mark",
				x1: t,
				x2: t,
				y1: kd,
				y2: this.height - Ad
			}));
		}
		this.plot.setAttribute("viewBox", `0 0 ${n} ${this.height}`), this.plot.replaceChildren(...l, this.cursor), this.leave();
	}
	curve(e, { values: t, colour: n }, r, { width: i, step: a, x: o, y: s, zero: c }) {
		if (!e.bars || a < 2) return [this.band(e, t, n, r, i, s)];
		let l = [];
		for (let e = 0; e < t.length; e++) {
			let i = t[e];
			if (Number.isNaN(i)) continue;
			let u = s(i), d = {
				x: o(e) + a * .1,
				width: Math.max(1, a * .8)
			};
			r ? l.push(C("path", {
				d: `M${d.x},${u}h${d.width}`,
				stroke: n,
				"stroke-width": 2.5
			})) : l.push(C("rect", {
				...d,
				y: Math.min(u, c),
				height: Math.max(.5, Math.abs(c - u)),
				fill: n
			}));
		}
		return l;
	}
	band(e, t, n, r, i, a) {
		let o = e.bars ?? !1, { low: s, high: c } = Fd(e.backwards ? Array.from(t).reverse() : t, i - $ - Od), l = (i - $ - Od) / s.length, u = (e, t) => `${($ + (e + .5) * l).toFixed(1)},${a(t).toFixed(1)}`, d = Rd(c).map(([e, t]) => {
			let n = (n, r) => Array.from(n.subarray(e, t), (t, n) => u(e + n, o ? r(0, t) : t)), i = n(c, Math.max);
			return r ? `M${i.join("L")}` : `M${[...i, ...n(s, Math.min).reverse()].join("L")}Z`;
		}), f = {
			stroke: n,
			"stroke-linejoin": "round"
		};
		return r ? C("path", {
			d: d.join(""),
			...f,
			fill: "none",
			"stroke-width": 1.6,
			"stroke-dasharray": "5 2"
		}) : C("path", {
			d: d.join(""),
			...f,
			fill: n,
			"stroke-width": 1.2
		});
	}
	ticks(e, { step: t, x: n }) {
		let r = wt(t, Nd), i = [], a = e.first + this.length - 1;
		for (let o = Math.ceil(e.first / r) * r; o <= a; o += r) {
			let r = n(o - e.first) + t / 2;
			i.push(C("line", {
				class: "grid",
				x1: r,
				x2: r,
				y1: this.height - Ad,
				y2: this.height - Ad + 3
			})), i.push(C("text", {
				x: r,
				y: this.height - Ad + 14,
				"text-anchor": "middle"
			}, Ld(o)));
		}
		return i;
	}
	at(e) {
		let { series: t, length: n } = this;
		if (!t) return null;
		let r = this.plot.getBoundingClientRect(), i = (e.clientX - r.left - $) / (r.width - $ - Od);
		if (!(i >= 0 && i < 1)) return null;
		let a = Math.floor(i * n);
		return t.backwards ? n - 1 - a : a;
	}
	point(e) {
		let t = this.at(e);
		if (t === null || !this.series) return this.leave();
		let n = e.clientX - this.plot.getBoundingClientRect().left;
		for (let [e, t] of Object.entries({
			x1: n,
			x2: n,
			y1: kd,
			y2: this.height - Ad
		})) this.cursor.setAttribute(e, String(t));
		this.out.textContent = this.series.say(t);
	}
	leave() {
		this.cursor.setAttribute("y2", String(kd)), this.cursor.setAttribute("y1", String(kd));
		let { series: e } = this;
		if (!e) return;
		let t = Id(e.curves[0].values);
		this.out.textContent = t === null ? e.nothing : `${e.most}: ${e.say(t)}`;
	}
}, Bd = 24, Vd = 10;
function Hd({ meta: e, offsets: t }, n, r) {
	return Array.from({ length: n + r + 1 }, (r, i) => t[i - n + e.after] ?? NaN);
}
var Ud = class {
	scene;
	store;
	transport;
	host;
	status = S("p", {
		class: "hint",
		role: "status"
	});
	legend = S("p", { class: "legend" });
	body = S("div", { class: "profile" });
	charts = {
		offsets: new zd(150),
		entropy: new zd(140),
		received: new zd(140)
	};
	log = S("input", { type: "checkbox" });
	near = S("small");
	distances;
	keys = S("div");
	links = S("div");
	linked;
	most = S("h3");
	unsubscribe;
	watcher;
	known = [];
	loaded = "";
	loading = new AbortController();
	asked = "";
	refused = !1;
	constructor(e, t, n, r) {
		this.scene = t, this.store = n, this.transport = r, this.host = e, this.log.addEventListener("change", () => n.set({ log: this.log.checked }));
		let i = (e, t, n = S("h3", {}, e), r = null) => S("section", { "aria-label": e }, S("div", { class: "part-head" }, n, r), t), a = (e) => S("h3", {}, e);
		this.distances = i("Attention by distance", this.charts.offsets.node, a("Attention by distance"), this.near), this.linked = i("Strongest links", this.links), this.body.append(this.distances, i("Entropy along the queries", this.charts.entropy.node), i("Attention received along the keys", this.charts.received.node, a("Attention received along the keys"), S("label", {}, this.log, " logarithmic")), i("Keys", this.keys, this.most), this.linked), this.body.hidden = !0, e.classList.add("scroll"), e.append(this.status, this.legend, this.body), this.watcher = new ResizeObserver(() => this.draw()), this.watcher.observe(this.body), this.unsubscribe = n.subscribe((e, t) => {
			this.refused && e.panel !== t.panel && (this.asked = ""), e.panel === "profile" && this.load(), (e.query !== t.query || e.key !== t.key || e.theme !== t.theme || e.log !== t.log) && this.draw();
		}), this.load();
	}
	destroy() {
		this.unsubscribe(), this.watcher.disconnect(), this.loading.abort();
	}
	places({ layer: t, head: n, beside: r }) {
		let i = [t, n];
		return r && e(r) !== e(i) ? [i, r] : [i];
	}
	load() {
		let e = this.store.get();
		if (e.panel !== "profile") return;
		let { run: t, minus: r, b: a } = e, o = this.places(e), s = JSON.stringify([
			t,
			r,
			a,
			o
		]);
		if (s === this.asked) return;
		this.asked = s, this.loading.abort();
		let { signal: c } = this.loading = new AbortController();
		this.status.textContent = `Reading the whole pattern of ${o.map((e) => i(this.scene, e)).join(" and ")} …`, this.host.removeAttribute("data-ready"), Promise.allSettled(o.map(async ([e, i]) => {
			let { meta: o, data: s } = await this.transport.ask("profile", {
				run: t,
				...r === null ? {} : { minus: r },
				layer: e,
				head: i,
				b: a
			}, c), l = new Float32Array(s), { T: u } = n(this.scene, [e, i]);
			return {
				place: [e, i],
				meta: o,
				offsets: o.offsets.map(Ae),
				entropy: l.subarray(0, u),
				received: l.subarray(u)
			};
		})).then(([e, t]) => {
			if (c.aborted || !e) return;
			let n = [e, t].find((e) => e?.status === "rejected"), r = n?.status === "rejected" ? n.reason : "";
			this.status.textContent = r instanceof Error ? r.message : String(r), this.status.hidden = r === "", this.refused = n !== void 0, this.body.hidden = e.status === "rejected", this.loaded = s, this.known = [e, t].flatMap((e) => e?.status === "fulfilled" ? [e.value] : []), this.draw(), this.host.toggleAttribute("data-ready", e.status === "fulfilled");
		}), this.status.hidden = !1;
	}
	axes([e, t]) {
		let { b: r } = this.store.get(), { rows: i, cols: a } = n(this.scene, [e, t]);
		return [this.scene.axes[i[r]], this.scene.axes[a[r]]];
	}
	comparable(e, t, r) {
		let [i, a] = [this.axes(t.place), this.axes(r.place)];
		return e === "offsets" ? n(this.scene, r.place).kind === "self" : e === "entropy" ? i[0] === a[0] : i[1] === a[1];
	}
	draw() {
		if (this.loaded !== this.asked) return;
		let [e, t] = this.known;
		e && !this.body.hidden && this.body.clientWidth !== 0 && (this.sayLegend(e, t), this.drawOffsets(e, t), this.drawEntropy(e, t), this.drawReceived(e, t), this.tables(e));
	}
	sayLegend(e, t) {
		if (this.legend.hidden = !t, !t) return;
		let n = ({ place: e }, t, n) => S("span", {}, S("i", {
			class: n,
			"aria-hidden": "true"
		}, t), ` ${i(this.scene, e)}`), r = [
			"offsets",
			"entropy",
			"received"
		].every((n) => !this.comparable(n, e, t)) ? S("span", {}, `${i(this.scene, t.place)} is over other tokens`) : n(t, "╌", "second");
		this.legend.replaceChildren(n(e, "■", "first"), r);
	}
	curves(e, t, n, r, i) {
		let a = i && this.comparable(e, r, i) ? t(i) : null, o = [{
			values: t(r),
			colour: a ? "var(--cool)" : n
		}];
		a && o.push({
			values: a,
			colour: "var(--warm)"
		});
		let s = this.apart;
		return {
			curves: o,
			other: a,
			most: s ? "Most changed" : "Most",
			nothing: s ? "nothing that differs" : "nothing"
		};
	}
	get apart() {
		return this.store.get().minus !== null;
	}
	said(e, t) {
		return t === void 0 || !Number.isFinite(t) ? we : this.apart ? Oe(e(t), t) : e(t);
	}
	drawOffsets(e, t) {
		let { kind: r, T: i, S: a } = n(this.scene, e.place);
		if (this.distances.hidden = r === "cross", r === "cross") return;
		let o = [e, ...t && this.comparable("offsets", e, t) ? [t] : []], c = Math.max(...o.map(({ meta: e }) => e.after)), l = Math.max(...o.map(({ meta: e }) => e.limit));
		this.near.textContent = l < Math.max(i, a) - 1 ? `first ${Te(l, "distance")}` : "";
		let u = s(this.scene, e.place)?.colour ?? "var(--bar)", { other: d, ...f } = this.curves("offsets", (e) => Hd(e, c, l), u, e, t), p = f.curves[0].values, m = (e) => e === 0 ? "at the query itself" : _e(e);
		this.charts.offsets.show({
			...f,
			name: "Mean probability by distance of the key",
			first: -c,
			backwards: !0,
			bars: !0,
			across: c > 0 ? "tokens behind the query (negative: ahead)" : "tokens behind the query",
			say: (e) => `${this.said(T, p[e])}${d ? ` and ${this.said(T, d[e])}` : ""} mean probability, ${m(e - c)}`
		});
	}
	drawEntropy(e, t) {
		let { other: n, ...r } = this.curves("entropy", ({ entropy: e }) => e, "var(--cool)", e, t), i = r.curves[0].values, [a] = this.axes(e.place), o = (e) => Ee(e, 2), s = (e) => this.apart || e === void 0 || !Number.isFinite(e) ? "" : `, as over ${Te(Math.round(Math.exp(e)), "even key")},`, c = [e, ...n && t ? [t] : []].map(({ meta: e }) => this.said(o, Ae(e.entropy)));
		this.charts.entropy.show({
			...r,
			name: "Entropy of each query's probabilities",
			first: 0,
			across: `query position; mean ${c.join(" and ")} nats`,
			say: (e) => `${this.said(o, i[e])}${n ? ` and ${this.said(o, n[e])}` : ""} nats${n ? "" : s(i[e])} at query ${ke(a, e)}`,
			pick: (e) => this.store.set({ query: e }),
			mark: this.store.get().query
		});
	}
	drawReceived(e, t) {
		let { other: n, ...r } = this.curves("received", ({ received: e }) => e, "var(--warm)", e, t), i = r.curves[0].values, [, a] = this.axes(e.place), { log: o, key: s } = this.store.get();
		this.log.disabled = this.apart, this.log.checked = o && !this.apart, this.charts.received.show({
			...r,
			name: "Attention that each key received, summed over queries",
			first: 0,
			log: o && !this.apart,
			bars: !0,
			across: "key position; sum over queries",
			say: (e) => `${this.said(De, i[e])}${n ? ` and ${this.said(De, n[e])}` : ""} in all, by key ${ke(a, e)}`,
			pick: (e) => this.go(null, e),
			mark: s
		});
	}
	tables({ place: e, meta: t }) {
		let { b: r } = this.store.get(), [i, a] = this.axes(e), { T: o, kind: s, start: c } = n(this.scene, e), { apart: l } = this, u = Math.abs(t.received[0]?.p ?? 1) || 1, d = t.received.slice(0, Vd).map(({ at: e, p: t }) => {
			let n = S("span", { class: `fill${l && t < 0 ? " less" : ""}` });
			return n.style.width = `${Math.max(1, 100 * Math.abs(t) / u)}%`, S("tr", {}, S("td", {}, this.token(a, e, () => this.go(null, e))), S("td", { class: "wide" }, n), Wd(this.said(De, t)), Wd(this.said(T, t / o)));
		});
		this.most.textContent = l ? "Keys that changed most" : "Keys that received most", this.keys.replaceChildren(Gd([
			"key",
			"relative",
			l ? "change" : "received",
			"per query"
		], d, l ? "nothing that differs" : "nothing")), this.linked.hidden = l;
		let f = s === "self", p = t.links.slice(0, Vd).map(({ i: e, j: t, p: n }) => {
			let o = () => this.go(e, t);
			return S("tr", {}, S("td", {}, this.token(i, e, o)), S("td", {}, this.token(a, t, o)), f ? Wd(_e(e + (c[r] ?? 0) - t)) : null, Wd(T(n)));
		});
		this.links.replaceChildren(Gd([
			"query",
			"key",
			...f ? ["distance"] : [],
			"p"
		], p, "nothing"));
	}
	token(e, t, n) {
		let r = w("", n, { class: "key" });
		return r.append(S("i", {}, E(t)), O(e) ? "" : S("span", {}, D(e, t))), r;
	}
	go(e, t) {
		let r = this.store.get(), { T: i, S: a, kind: o, start: s } = n(this.scene, [r.layer, r.head]), c = Math.min(a, Bd), l = o === "self" ? t - (s[r.b] ?? 0) + c / 4 : r.query ?? i / 2, u = Math.min(i - 1, Math.max(0, e ?? l));
		this.store.go({
			key: t,
			...e === null ? {} : { query: e },
			at: [
				t + .5,
				u + .5,
				c
			]
		});
	}
}, Wd = (e) => S("td", { class: "n" }, e);
function Gd(e, t, n) {
	return t.length === 0 ? S("p", { class: "hint" }, n) : S("table", {}, S("thead", {}, S("tr", {}, ...e.map((e) => S("th", { scope: "col" }, e)))), S("tbody", {}, ...t));
}
// src/scores.ts
var Kd = (e, t) => Number.isFinite(e) ? t(e) : we, qd = class {
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
		let { layer: e, head: t } = this.store.get(), r = o(this.scene, [e, t]), a = S("p", { class: "name" }, i(this.scene, [e, t]), S("small", {}, ` ${n(this.scene, [e, t]).name}`));
		if (!r) {
			this.host.replaceChildren(a, S("p", { class: "hint" }, "This head was not scored."));
			return;
		}
		let c = s(this.scene, [e, t]), l = this.scene.kinds.filter((e) => r.scores[e.name] !== void 0).map((e) => this.row(e, r)), u = S("p", { class: "hint" }, `Mean entropy ${Kd(r.entropy, (e) => `${Ee(e, 2)} nats`)}. The tick is chance: the score of a head that spreads evenly over the keys it may see. Lift over chance: (score − chance) / (1 − chance).`), d = r.few.length ? S("p", { class: "hint" }, this.scene.tooFew) : null;
		this.host.replaceChildren(...[
			a,
			this.means(c),
			...l,
			u,
			d
		].filter((e) => e !== null)), this.host.toggleAttribute("data-ready", !0);
	}
	means(e) {
		if (!e) return null;
		let t = e.source ? S("small", {}, ` ${e.source}`) : null, n = Me(this.scene, [this.store.get().layer, this.store.get().head]);
		return S("div", { class: "means" }, _u(e), S("p", {}, S("strong", {}, `${e.title}. `), e.means, t, S("br"), `Here: ${n}.`));
	}
	row(e, t) {
		let n = Ae(t.scores[e.name]), r = Ae(t.chance[e.name]), i = r < 1, a = t.few.includes(e.name), o = S("div", {
			class: `score${e.name === t.kind ? " own" : ""}${a ? " few" : ""}`,
			title: `${e.means}; ${je(e)}`
		}), s = S("span", { class: "value" }, S("b", {}, Kd(n, T)), i ? ` · chance ${T(r)}` : ""), c = S("i");
		c.style.width = `${100 * Math.min(1, Math.max(0, n || 0))}%`, e.colour && !a && (c.style.background = e.colour);
		let l = S("div", { class: "score-bar" }, c);
		if (i) {
			let e = S("u");
			e.style.left = `${100 * Math.min(1, Math.max(0, r))}%`, l.append(e);
		}
		return o.append(_u(e), S("span", {}, a ? `${e.title} *` : e.title), s, l), o;
	}
}, Jd = (e) => e.kind === "grid" || O(e);
function Yd(e, t) {
	let n = t.toLowerCase();
	if (n === "") return [];
	let r = e.labels.map((e) => e.toLowerCase());
	if (Jd(e)) return r.flatMap((e, t) => e.includes(n) ? [t] : []);
	let i = r.join(""), a = [], [o, s] = [0, (r[0] ?? "").length];
	for (let e = i.indexOf(n); e >= 0; e = i.indexOf(n, e + 1)) {
		for (; s <= e;) s += r[++o].length;
		a.at(-1) !== o && a.push(o);
	}
	return a;
}
var Xd = class {
	opener = w("Find", () => this.open(), {
		class: "small",
		title: "Find a token by its text (/)"
	});
	node = S("div", {
		class: "find",
		role: "search"
	});
	field = S("input", {
		type: "text",
		"aria-label": "Find a token",
		placeholder: "find a token",
		spellcheck: "false",
		autocomplete: "off"
	});
	status = S("span", {
		class: "hint",
		role: "status"
	});
	axes;
	from;
	go;
	hits = [];
	n = 0;
	constructor(e, t, n) {
		this.axes = e, this.from = t, this.go = n, this.node.hidden = !0, this.node.append(this.field, this.status, w("↑", () => this.step(-1), {
			class: "icon",
			"aria-label": "Previous",
			title: "Previous (Shift Enter)"
		}), w("↓", () => this.step(1), {
			class: "icon",
			"aria-label": "Next",
			title: "Next (Enter)"
		}), w("×", () => this.close(), {
			class: "icon",
			"aria-label": "Close the search",
			title: "Close (Esc)"
		})), this.field.addEventListener("input", () => this.search()), this.field.addEventListener("keydown", (e) => {
			if (e.key === "Enter") this.step(e.shiftKey ? -1 : 1);
			else if (e.key === "Escape") this.close();
			else return;
			e.preventDefault();
		});
	}
	open() {
		this.node.hidden = !1, this.opener.hidden = !0, this.field.focus(), this.field.select();
	}
	close() {
		this.node.hidden = !0, this.opener.hidden = !1, this.opener.focus();
	}
	search() {
		this.hits = this.axes().flatMap(([e, t]) => Yd(t, this.field.value).map((t) => ({
			side: e,
			at: t
		}))), this.n = Math.max(0, this.hits.findIndex(({ side: e, at: t }) => e === "query" && t >= this.from())), this.show();
	}
	step(e) {
		if (this.hits.length === 0) return this.search();
		this.n = (this.n + e + this.hits.length) % this.hits.length, this.show();
	}
	forget() {
		this.hits = [], this.status.textContent = "";
	}
	show() {
		let e = this.hits[this.n];
		this.status.textContent = e ? `${E(this.n + 1)} of ${E(this.hits.length)}` : this.field.value === "" ? "" : "none", e && this.go(e.side, e.at);
	}
}, Zd = 60, Qd = class {
	known = null;
	refusal = null;
	name;
	transport;
	changed;
	soon = fe(Zd, () => void this.load());
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
		let { wanted: e } = this;
		if (e === null) return;
		let { signal: t } = this.loading = new AbortController();
		try {
			let { meta: n, data: r } = await this.transport.ask(this.name, e, t);
			if (t.aborted) return;
			this.known = {
				at: "i" in e ? e.i : e.j,
				meta: n,
				values: new Float32Array(r)
			}, this.refusal = null;
		} catch (e) {
			if (t.aborted) return;
			this.known = null, this.refusal = e instanceof Error ? e.message : String(e);
		}
		this.changed();
	}
}, $d = {
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
}, ef = /* @__PURE__ */ new Map();
function tf(e, t, n) {
	let r = `${e}${t}${n}`, i = ef.get(r);
	if (i) return i;
	let [a, o, s] = $d[e ? "dark" : "light"][t], c = n / 32 * 2, [l, u, d] = c < 1 ? [
		a,
		o,
		c
	] : [
		o,
		s,
		c - 1
	], f = l.map((e, t) => Math.round(e + (u[t] - e) * d));
	return ef.set(r, f), f;
}
function nf(e, t, n, r) {
	for (let i = 0; i < r.length; i++) {
		let a = t > 0 ? Math.abs(e[i] ?? 0) / t : 0;
		r[i] = Math.round(32 * Math.min(1, Math.max(0, n(a))));
	}
}
// src/strip.ts
function rf(e, t, n, r, i) {
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
var af = 26, of = {
	least: .35,
	most: .85
}, sf = 3, cf = class {
	axis;
	hands;
	canvas;
	host;
	before;
	down;
	across;
	watcher;
	image = null;
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
		}), t.image && this.load(t.image), e.classList.add("patches"), e.append(this.canvas), this.listen(), this.watcher = new ResizeObserver(() => this.soon()), this.watcher.observe(e);
	}
	destroy() {
		this.watcher.disconnect(), cancelAnimationFrame(this.frame), this.host.replaceChildren();
	}
	load(e) {
		let t = S("img", { alt: "" });
		t.addEventListener("load", () => {
			this.image = t, this.host.toggleAttribute("data-image", !0), this.soon();
		}), t.src = e;
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
			af
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
			let t = rf(e.key, this.here, this.axis.labels.length, this.across, this.before);
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
		this.image && e.drawImage(this.image, 0, n, this.across * t, this.down * t);
		for (let t = 0; t < this.axis.labels.length; t++) this.one(e, t, s);
		this.outline(e, this.marks.key, o.getPropertyValue("--warm") || "#b85c00", 2), this.outline(e, this.marks.query, o.getPropertyValue("--ink") || "#000", 2.5);
	}
	one(e, t, n) {
		let [r, i, a, o] = this.box(t), { to: s, from: c, dark: l } = this.shading, u = s ?? c, d = tf(l, s || !c ? "to" : "from", u?.[t] ?? 0);
		e.fillStyle = qt(d);
		let f = Math.min(1, (u?.[t] ?? 0) / 32);
		e.globalAlpha = this.image && t >= this.before ? of.least + (of.most - of.least) * f : 1, e.fillRect(r, i, a, o), e.globalAlpha = 1, e.strokeStyle = n, e.lineWidth = .5, e.strokeRect(r + .5, i + .5, a, o);
		let p = s && c ? c[t] ?? 0 : 0;
		p > sf && this.other(e, t, p), t >= this.before || (e.fillStyle = Jt(d), e.fillText(this.axis.labels[t] ?? "", r + 5, i + 16, a - 8));
	}
	other(e, t, n) {
		let [r, i, a, o] = this.box(t);
		if (e.fillStyle = qt(tf(this.shading.dark, "from", Math.max(14, n))), t < this.before) return e.fillRect(r + 2, i + o - 4, (a - 4) * n / 32, 3);
		e.beginPath(), e.arc(r + a / 2, i + o / 2, Math.max(1, Math.min(a, o) / 2.6 * Math.sqrt(n / 32)), 0, 2 * Math.PI), e.fill();
	}
	outline(e, t, n, r) {
		if (t === null) return;
		let [i, a, o, s] = this.box(t);
		e.strokeStyle = n, e.lineWidth = r, e.strokeRect(i + .5, a + .5, o, s);
	}
}, lf = 32;
function uf(e) {
	return /^ +$/.test(e) ? e.replaceAll(" ", "·") : e.split(/(\r\n?|\n|\t| +)/).filter((e) => e !== "").map((e) => /^[\r\n]/.test(e) ? "⏎\n" : e === "	" ? "⇥	" : e.startsWith(" ") ? e : Ce(e)).join("") || "◌";
}
function df(e) {
	let t = [0];
	for (let n = 256; n < e.length; n = t.at(-1) + 256) {
		let r = n, i = () => /^\s/.test(e[r] ?? "") || /\n$/.test(e[r - 1] ?? "");
		for (; r > n - lf && !i();) r--;
		t.push(i() ? r : n);
	}
	return t;
}
var ff = 0, pf = class {
	prefix = `text${++ff}-`;
	axis;
	special;
	numbers;
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
		this.host = e, this.axis = t, this.hands = r, this.special = new Set(t.special), this.numbers = O(t), e.classList.add("running", "scroll"), e.tabIndex = 0, e.setAttribute("role", "listbox"), e.setAttribute("aria-label", n), this.sight = new IntersectionObserver((e) => this.seen(e), {
			root: e,
			rootMargin: "400px 0px"
		}), this.starts = df(t.labels);
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
			}[e.key] ?? rf(e.key, this.here, this.axis.labels.length, 0, this.first());
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
		for (let n = e; n < this.end(e); n++) t += ((this.axis.labels[n] ?? "").length || 1) + +!!this.numbers;
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
			let t = uf(this.axis.labels[e] ?? ""), r = t.replace(/\n$/, ""), i = S("span", {
				class: "token",
				role: "option",
				id: `${this.prefix}${e}`,
				"data-token": e,
				"aria-selected": "false"
			}, r);
			this.special.has(e) && i.classList.add("special"), this.spans.set(e, i), this.colour(e, i), this.outline(e, i), n.append(i, t.slice(r.length) + (this.numbers ? " " : ""));
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
		let c = o > a ? "from" : "to", l = Math.max(a, o), u = tf(i, c, l);
		t.style.background = l > 0 ? qt(u) : "", t.style.color = l > 0 ? Jt(u) : "", t.style.boxShadow = a > 0 && o > 0 ? `inset 0 -3px ${qt(tf(i, c === "to" ? "from" : "to", Math.max(12, Math.min(a, o))))}` : "";
	}
	outline(e, t) {
		t.classList.toggle("at-query", e === this.marks.query), t.classList.toggle("at-key", e === this.marks.key), t.setAttribute("aria-selected", String(e === this.marks.query || e === this.marks.key));
	}
}, mf = 3, hf = .01;
function gf({ way: e, known: t, layer: n, b: r }, i) {
	let a = n.start[r] ?? 0;
	if (e === "to") return _e(t.at + a - i);
	let o = i + a - t.at;
	return o === 0 ? "itself" : o > 0 ? `${E(o)} later` : `${E(-o)} earlier`;
}
function _f(e) {
	let { way: t, known: n, axis: r, others: i, layer: a, sink: o, held: s, apart: c, mark: l } = e, u = t === "to" ? "attends to" : "is attended by", d = r.kind === "grid" ? "Patch" : O(r) ? "Position" : "Token", f = O(r) ? null : S("q", {}, D(r, n.at)), p = S("p", { class: `from-${t}` }, `${d} ${E(n.at)} `, f, ` ${u}`);
	n.meta.whole || p.append(S("small", {}, " (the largest only)")), s && p.append(S("small", {}, " held", S("span", { class: "esc" }, " · Esc releases")));
	let m = S("div", { class: "keys-list" }), h = n.meta.top.filter(({ at: e, p: t }) => e !== o && t !== 0), g = Math.abs(h[0]?.p ?? 0) * hf;
	for (let { at: t, p: n } of h.filter((e) => Math.abs(e.p) >= g)) {
		let r = w("", () => l(t), {
			class: "key",
			title: `position ${E(t)}`
		});
		r.append(S("span", {}, D(i, t))), a.kind === "self" && i.kind === "tokens" && r.append(S("i", {}, gf(e, t))), r.append(S("b", {}, c ? Oe(T(n), n) : T(n))), m.append(r);
	}
	return h.length === 0 && m.append(S("p", { class: "hint" }, c ? "nothing that differs" : "nothing")), S("div", { class: "list" }, p, m);
}
function vf(e) {
	let t = [...e.querySelectorAll(".key")], n = [...new Set(t.map((e) => e.offsetTop))][mf];
	if (n === void 0) return;
	let r = t.findIndex((e) => e.offsetTop >= n), i = S("span", { class: "more" });
	t.slice(r).forEach((e) => e.hidden = !0), e.append(i);
	do {
		if (i.textContent = `+${t.length - r}`, i.offsetTop < n) return;
		t[--r].hidden = !0;
	} while (r > 1);
}
// src/text.ts
var yf = [
	["to", "attends to"],
	["from", "attended by"],
	["both", "both"]
], bf = [
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
	"panel",
	"look"
], xf = class {
	scene;
	store;
	host;
	row;
	column;
	strips = S("div", { class: "strips" });
	looks = Ju("What is shaded", yf, (e) => this.turn(e));
	search = new Xd(() => this.named(), () => this.mine().query ?? this.mine().key ?? 0, (e, t) => this.hold(e, t));
	mean = S("span", { class: "mean" });
	said = S("div", { class: "said" });
	unsubscribe;
	watcher;
	queries = null;
	keys = null;
	built = "";
	over = {
		query: null,
		key: null
	};
	held = !1;
	frame = 0;
	constructor(e, t, n, r) {
		this.host = e, this.scene = t, this.store = n, this.row = new Qd("row", r, () => this.soon()), this.column = new Qd("column", r, () => this.soon()), e.append(S("div", { class: "bar" }, this.looks.node, this.search.opener, this.search.node, this.mean), this.said, this.strips), this.unsubscribe = n.subscribe((e, t) => this.changed(e, t)), this.build(), this.ask(), this.paint(), this.watcher = new ResizeObserver(() => {
			this.reveal(this.mine()), this.soon();
		}), this.watcher.observe(this.strips);
	}
	destroy() {
		this.unsubscribe(), this.watcher.disconnect(), this.row.destroy(), this.column.destroy(), this.queries?.destroy(), this.keys?.destroy(), cancelAnimationFrame(this.frame);
	}
	paint() {
		this.soon();
	}
	find() {
		this.search.open();
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
		}, this.row.want(null), this.column.want(null), this.search.forget();
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
				this.held = !1, this.over = {
					query: null,
					key: null
				}, this.store.set({
					query: null,
					key: null
				}), this.ask(), this.soon();
			}
		}, s = `${t}: ${e.name}`;
		return e.kind === "grid" ? new cf(i, e, s, o) : new pf(i, e, s, o);
	}
	get look() {
		return this.store.get().look;
	}
	turn(e) {
		let { query: t, key: n } = this.mine(), r = t ?? n, i = r !== null && e === "from" != (this.look === "from");
		this.store.set({
			look: e,
			...i ? {
				query: r,
				key: null
			} : {}
		});
	}
	named() {
		let [e, t] = this.axes();
		return this.one ? [["query", e]] : [["query", e], ["key", t]];
	}
	hold(e, t) {
		let n = this.one && this.look === "from" ? "key" : e;
		this.over = {
			query: null,
			key: null
		}, this.held = !0, this.store.set({ [n]: t }), this.ask(), this.reveal({
			query: null,
			key: null,
			[n]: t
		}), this.soon();
	}
	pick(e, t, n) {
		let r = this.one && this.look === "from" ? "key" : e, i = this.held && this.store.get()[r] === t;
		this.held = n && !i, this.over = {
			query: null,
			key: null
		}, this.store.set({ [r]: t }), this.ask(), this.soon();
	}
	changed(e, t) {
		bf.some((n) => e[n] !== t[n]) && (this.build(), this.ask(), this.soon(), (e.query !== t.query || e.key !== t.key) && (this.held = e.query !== null || e.key !== null, this.reveal({
			query: e.query === t.query ? null : e.query,
			key: e.key === t.key ? null : e.key
		})));
	}
	reveal({ query: e, key: t }) {
		e !== null && this.queries?.reveal(e), t !== null && (this.keys || e === null) && (this.keys ?? this.queries)?.reveal(t);
	}
	mine() {
		let { query: e, key: t, look: n } = this.store.get();
		return this.one ? {
			query: n === "from" ? null : e,
			key: n === "to" ? null : n === "both" ? e : t ?? e
		} : {
			query: e,
			key: t
		};
	}
	asked() {
		let { query: e, key: t } = this.mine();
		if (!this.one) return {
			query: this.over.query ?? e,
			key: this.over.key ?? t
		};
		let n = this.over.query;
		return {
			query: this.look === "from" ? null : n ?? e,
			key: this.look === "to" ? null : n ?? t
		};
	}
	marked(e) {
		return e.look === "from" ? e.key === null ? null : e.query : e.key;
	}
	mark(e, t, n) {
		let r = this.one && this.look === "both";
		this.store.set(e === "to" || r ? {
			query: e === "to" ? t.at : this.store.get().query,
			key: n
		} : {
			query: n,
			key: t.at
		});
	}
	ask() {
		let t = this.store.get();
		if (t.panel === "profile" || t.panel === "scores" && this.scene.heads) return;
		let n = l(this.scene, t), r = (n.length ? n : [[t.layer, t.head]]).map(e).join(","), i = {
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
		this.looks.show(e.look), this.sayMean(e);
		let r = e.hide ? this.layer().sink[e.b] ?? null : null, i = this.row.known, a = this.column.known, o = this.shading(i, n.labels.length, r, e, "to"), s = this.shading(a, t.labels.length, null, e, "from");
		this.one ? this.queries?.shade({
			...o,
			from: s.from ?? o.from,
			to: o.to ?? s.to
		}) : (this.queries?.shade(s), this.keys?.shade(o));
		let { query: c, key: l } = this.asked(), u = this.marked(e);
		this.queries?.mark(this.one ? e.look === "from" ? {
			query: u,
			key: l
		} : {
			query: c,
			key: u
		} : {
			query: c,
			key: null
		}), this.keys?.mark({
			query: null,
			key: l
		}), this.say(i, a, c, l, r), this.host.toggleAttribute("data-ready", i !== null || a !== null);
	}
	shading(e, t, n, r, i) {
		let a = {
			to: null,
			from: null,
			dark: Yt(r)
		};
		if (!e) return a;
		let { values: o } = e;
		n !== null && ((o = o.slice())[n] = 0);
		let s = 0;
		for (let e of o) s = Math.max(s, Math.abs(e));
		let c = Kt[r.scale], l = (e) => {
			let n = new Uint8Array(t);
			return nf(e, s, c, n), n;
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
		let n = l(this.scene, t);
		if (n.length === 0) return this.mean.replaceChildren();
		let r = n.map(e), i = r.length > 4 ? `${r.slice(0, 4).join(", ")} …` : r.join(", ");
		this.mean.replaceChildren(`mean of ${Te(n.length, "head")}: ${i} `, w("clear", () => this.store.set({ chosen: [] }), { class: "quiet" }));
	}
	say(e, t, n, r, i) {
		let a = n === null && r === null ? "Point at a token, or click one to hold it." : "", o = [];
		this.one && this.look === "from" || o.push(this.list("to", n === null ? null : e, n === null ? a : this.row.refusal, i)), this.one && this.look === "to" || o.push(this.list("from", r === null ? null : t, r === null ? o.length ? "" : a : this.column.refusal, null));
		let s = () => [...this.said.querySelectorAll(".key")], c = s().indexOf(this.said.getRootNode().activeElement);
		this.said.replaceChildren(...o), c >= 0 && s()[c]?.focus();
		for (let e of this.said.querySelectorAll(".keys-list")) vf(e);
	}
	list(e, t, n, r) {
		if (!t) return S("div", { class: "list" }, n ? S("p", {
			class: "hint",
			role: "status"
		}, n) : null);
		let { b: i, minus: a } = this.store.get(), [o, s] = this.axes(), [c, l] = e === "to" ? [o, s] : [s, o], u = this.mine()[e === "to" ? "query" : "key"], d = this.held && u === t.at;
		return _f({
			way: e,
			known: t,
			axis: c,
			others: l,
			layer: this.layer(),
			b: i,
			sink: r,
			held: d,
			apart: a !== null,
			mark: (n) => this.mark(e, t, n)
		});
	}
}, Sf = 256, Cf = 6, wf = 2, Tf = 3e3, Ef = class {
	transport;
	scene;
	changed;
	ranges = new tn();
	refusal = null;
	lost = !1;
	tiles;
	flights = /* @__PURE__ */ new Map();
	wishes = /* @__PURE__ */ new Map();
	barred = new Ne(4096);
	levels = new Ne(1024);
	constructor(e, t, n, r = Sf) {
		this.transport = e, this.scene = t, this.changed = n, this.tiles = new Ne(r);
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
		return Xe(t.T, t.S);
	}
	get(e, t, n, r) {
		return this.tiles.get(Df(e, t, n, r));
	}
	isRefused(e, t, n, r) {
		return this.barred.get(Df(e, t, n, r)) === "for good";
	}
	isComing(e) {
		let t = (e) => !this.tiles.has(e) && (!this.barred.has(e) || this.barred.get(e) === "for a while");
		return (this.wishes.get(e) ?? []).some((e) => !e.idle && t(kf(e)));
	}
	lack(e, t) {
		return this.levels.get(Of(e, t)) || null;
	}
	want(e, t) {
		t.length ? this.wishes.set(e, t) : this.wishes.delete(e);
		for (let e of t.map(kf)) this.barred.get(e) === "until wanted anew" && this.barred.delete(e);
		let n = /* @__PURE__ */ new Set();
		for (let e of this.wishes.values()) for (let t of e) n.add(kf(t));
		for (let [e, t] of this.flights) n.has(e) || (this.flights.delete(e), t.abort.abort());
		this.ask();
	}
	ask() {
		let e = [...this.wishes.values()].map((e) => e.filter((e) => this.isMissing(e)));
		for (let t of [!1, !0]) {
			let n = e.map((e) => e.filter((e) => e.idle === t)), r = Math.max(0, ...n.map((e) => e.length));
			for (let e = 0; e < r; e++) for (let r of n) e < r.length && this.hasRoom(t) && this.start(r[e]);
		}
	}
	isMissing(e) {
		let t = kf(e);
		return !this.tiles.has(t) && !this.flights.has(t) && !this.barred.has(t);
	}
	hasRoom(e) {
		return e ? this.flights.size < wf && [...this.flights.values()].every((e) => e.idle) : this.flights.size < Cf;
	}
	start({ shown: e, z: t, r: n, c: r, idle: i }) {
		let a = Df(e, t, n, r);
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
			this.landed(a, o) && (this.tiles.set(a, Af(n, r)), t !== null && this.levels.set(Of(e, t), ""), this.refusal = null, this.lost = !1, this.changed(), this.ask());
		}, (n) => {
			this.landed(a, o) && (this.fail(a, n), this.barred.get(a) === "for good" && t !== null && !this.levels.has(Of(e, t)) && this.levels.set(Of(e, t), n.message), !i && this.barred.get(a) !== "for a while" && (this.refusal = n.message), this.changed(), this.ask());
		});
	}
	fail(e, t) {
		this.lost = t instanceof rd || !(t instanceof k);
		let n = this.lost || t instanceof id ? "for a while" : t instanceof ad ? "until wanted anew" : "for good";
		this.barred.set(e, n), n === "for a while" && setTimeout(() => {
			this.barred.delete(e), this.ask(), this.changed();
		}, Tf);
	}
	landed(e, t) {
		return this.flights.get(e) === t && (this.flights.delete(e), !0);
	}
};
function Df(e, t, n, r) {
	return t === null ? Fe("preview", { ...e }) : Fe("tile", {
		...e,
		z: t,
		r: n,
		c: r
	});
}
function Of(e, t) {
	return Fe("level", {
		...e,
		z: t
	});
}
function kf({ shown: e, z: t, r: n, c: r }) {
	return Df(e, t, n, r);
}
function Af(e, t) {
	let n = new Float32Array(t), r = 0;
	for (let e of n) {
		let t = Math.abs(e);
		t > r && (r = t);
	}
	return {
		...e,
		data: n,
		most: r,
		blocks: $t({
			...e,
			data: n
		})
	};
}
// src/app.ts
var jf = 200, Mf = class {
	node = S("div", { class: "app" });
	scene;
	store;
	notices = new ud();
	parts = [];
	undo = [];
	address;
	stepped = !1;
	put = fe(jf, () => {
		this.address?.put(this.store.get(), this.stepped), this.stepped = !1;
	});
	maps = S("div", { class: "maps" });
	transport;
	tiles;
	tabs = /* @__PURE__ */ new Map();
	keys = nd();
	text = null;
	first = null;
	beside = null;
	constructor(e, t, n, r) {
		e.replaceChildren(this.node), this.scene = t;
		let { state: i, says: a } = r.hash ? le(r.hash, t) : {
			state: m(t),
			says: null
		};
		this.store = new p(i), this.transport = new fd(n, (e) => this.notices.lost(e.message, () => r.again(ce(this.store.get(), t)))), this.tiles = new Ef(this.transport, t, () => this.paintMaps()), this.address = r.address ? new ue(t, (e, t) => this.follow(e, t)) : null, this.build(r.address), this.undo.push(this.store.subscribe((e, t, n) => this.changed(e, t, n)));
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
		a.append(s, this.maps), this.node.classList.toggle("large", n.get().large), this.theme(), this.node.append(this.header(e), this.notices.node, S("div", { class: "panels" }, i, a, o), this.keys), this.parts.push(new Dd(i, t, n, r, (e) => this.notices.tell(e))), this.undo.push(ed(s, t, n, () => n.get().range ?? this.tiles.ranges.end)), this.first = new yu(this.maps, t, n, this.tiles, ({ layer: e, head: t }) => [e, t], (e) => this.notices.tell(e)), this.side(o), this.besideOf(n.get());
		let c = e ? document : this.node, l = (e) => this.key(e);
		c.addEventListener("keydown", l), this.undo.push(() => c.removeEventListener("keydown", l));
	}
	header(e) {
		let { scene: t } = this, n = S("dl", { class: "facts" });
		for (let [e, r] of t.facts) n.append(S("div", {}, S("dt", {}, e), S("dd", {}, r)));
		let r = S("div", {
			class: "page-controls",
			role: "group",
			"aria-label": "Page"
		});
		this.undo.push(Qu(r, t, this.store, {
			link: e ? () => void this.link() : null,
			keys: () => this.keys.showModal()
		}));
		let i = t.saved && t.saved.heads.length > 0 && t.saved.heads.length < ju(t).length, a = t.saved ? S("p", { class: "saved" }, t.saved.says, ...i ? [
			" In full: the heads with a dot ",
			S("i", { class: "dot" }),
			"."
		] : []) : null;
		return S("header", {}, S("div", { class: "title" }, S("h1", {}, t.title), S("p", { class: "subtitle" }, t.subtitle)), n, r, a);
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
		this.text = new xf(o("text"), t, n, r), this.parts.push(this.text, new Ud(o("profile"), t, n, r)), t.heads && this.parts.push(new qd(o("scores"), t, n)), this.showTab();
	}
	panel() {
		let { panel: e } = this.store.get();
		return this.tabs.has(e) ? e : "text";
	}
	showTab() {
		let { scene: e } = this, t = this.panel(), r = this.store.get(), i = e.axes[n(e, [r.layer, r.head]).rows[r.b] ?? 0], a = this.tabs.get("text")?.tab;
		a && (a.textContent = i?.kind === "grid" ? "Patches" : "Text");
		for (let [e, { tab: n, panel: r }] of this.tabs) n.setAttribute("aria-selected", String(e === t)), n.tabIndex = e === t ? 0 : -1, r.hidden = e !== t;
	}
	changed(e, t, n) {
		n && !this.stepped && (this.address?.put(t), this.stepped = !0), this.put.soon(), (e.panel !== t.panel || e.layer !== t.layer || e.b !== t.b) && this.showTab(), e.large !== t.large && this.node.classList.toggle("large", e.large), e.theme !== t.theme && this.theme(), e.beside === null != (t.beside === null) && this.besideOf(e);
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
		this.beside = new yu(this.maps, this.scene, this.store, this.tiles, (e) => e.beside, (e) => this.notices.tell(e), [t, n]);
	}
	swap() {
		let e = this.store.get();
		e.beside && this.store.go({
			...u(this.scene, e, e.beside),
			beside: [e.layer, e.head]
		});
	}
	paintMaps() {
		this.first?.map.paint(), this.beside?.map.paint();
	}
	theme() {
		this.node.toggleAttribute("data-dark", Yt(this.store.get()));
		for (let e of this.parts) e.paint?.();
		this.paintMaps();
	}
	follow(e, t) {
		this.stepped = !1, this.store.set(e), t ? this.wrong(t) : this.notices.quiet();
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
		let t = e.composedPath()[0];
		if (t instanceof HTMLSelectElement || t instanceof HTMLInputElement && t.type === "text" || e.ctrlKey || e.metaKey || e.altKey || this.keys.open) return;
		e.key === "?" && this.keys.showModal(), e.key === "/" && (e.preventDefault(), this.store.set({ panel: "text" }), this.text?.find());
		let n = {
			"[": -1,
			"]": 1
		}[e.key];
		if (n === void 0) return;
		let r = this.store.get(), i = ju(this.scene), a = i[i.findIndex(([e, t]) => e === r.layer && t === r.head) + n];
		a && this.store.go(u(this.scene, r, a));
	}
};
// src/packed.ts
function Nf(e) {
	let t = atob(e), n = new Uint8Array(t.length);
	for (let e = 0; e < t.length; e++) n[e] = t.charCodeAt(e);
	return n;
}
async function Pf(e, t) {
	let n = new DecompressionStream("deflate-raw"), r = n.writable.getWriter();
	r.write(Nf(e)).catch(() => {}), r.close().catch(() => {});
	let i = await new Response(n.readable).arrayBuffer();
	return t === 1 ? i : Ff(new Uint8Array(i), t);
}
function Ff(e, t) {
	let n = new Uint8Array(e.length), r = e.length / t;
	for (let i = 0; i < t; i++) for (let a = 0; a < r; a++) n[a * t + i] = e[i * r + a];
	return n.buffer;
}
// src/saved.ts
var If = 32 * 2 ** 20, Lf = 12;
function Rf(e, t = Lf) {
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
var zf = class {
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
		let n = e === "tile" && t.z === 0 ? { pool: "mean" } : {}, r = Fe(e, {
			...t,
			...n
		}), i = this.file.answers[r];
		if (i) return {
			meta: i.meta,
			data: await this.decode(r)
		};
		if (e === "row") return this.line(t, "row", t.i);
		if (e === "column") return this.line(t, "column", t.j);
		throw new k(this.says);
	}
	decode(e) {
		let t = this.kept.get(e);
		if (t) return this.kept.delete(e), this.kept.set(e, t), t;
		let { data: n, type: r } = this.file.answers[e], i = Pf(n, r === "u8" ? 1 : 4).then((t) => (this.sizes.set(e, t.byteLength), this.held += t.byteLength, this.forget(), t));
		return this.kept.set(e, i), i;
	}
	forget() {
		for (let e of [...this.kept.keys()]) {
			let t = this.sizes.get(e);
			if (this.held <= If || this.kept.size === 1) return;
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
		if (i === null) throw new k(this.says);
		if (r.length > 1) for (let e = 0; e < i.length; e++) i[e] = i[e] / r.length;
		return {
			meta: {
				top: Rf(i),
				whole: a
			},
			data: i.buffer
		};
	}
	async fromTiles(e, t, n, r, i) {
		let { run: a, minus: o, b: s } = e, { T: c, S: l } = this.layer(t), u = r === "row" ? l : c, d = new Float32Array(u), f = Math.floor(i / 256);
		for (let e = 0; e * 256 < u; e++) {
			let [c, l] = r === "row" ? [f, e] : [e, f], u = Fe("tile", {
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
		if (!a || r === "row" && i < a.first) throw new k(this.says);
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
		let r = this.file.scene.layers.reduce((e, t) => e + t.heads, 0), i = Promise.all([Pf(t.keys, 4), Pf(t.p, 4)]).then(([e, n]) => ({
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
		if (!t) throw new k(this.says);
		return t;
	}
}, Bf = ":host{height:100%;display:block;container-type:inline-size}.app,.wait{--page:#f4f5f8;--card:#fff;--ink:#1a1f27;--soft:#5b6675;--line:#d9dee6;--faint:#eef1f5;--accent:#0b62b8;--on-accent:#fff;--cool:#1f6cb0;--warm:#b85c07;--bar:#6b7787;--alert:#fdf0e3;--mono:ui-monospace, \"SF Mono\", \"Cascadia Mono\", \"DejaVu Sans Mono\", Menlo, Consolas, monospace;--lightningcss-light:initial;--lightningcss-dark: ;color-scheme:light;color:var(--ink);background:var(--page);font-variant-numeric:tabular-nums;font:13px/1.45 system-ui,Segoe UI,Roboto,Noto Sans,DejaVu Sans,sans-serif}.app[data-dark]{--page:#0e1116;--card:#171b22;--ink:#e8ecf2;--soft:#98a4b3;--line:#2f3743;--faint:#1f252e;--accent:#6cb4ff;--on-accent:#06121f;--cool:#6cb4ff;--warm:#f39a3c;--bar:#98a4b3;--alert:#33230f;--lightningcss-light: ;--lightningcss-dark:initial;color-scheme:dark}*,:before,:after{box-sizing:border-box}[hidden]{display:none!important}.app{flex-direction:column;height:100%;min-height:0;display:flex;overflow:hidden}.wait{height:100%;margin:0;padding:48px}h1,h2,h3,p,dl,dd,figure{margin:0}h1{letter-spacing:-.01em;overflow-wrap:anywhere;font-size:17px;line-height:1.25}h2{overflow-wrap:anywhere;font-size:14px;line-height:1.3}h3{font-size:12px;line-height:1.3}small,.hint,.subtitle{color:var(--soft);font-size:12px;font-weight:400}.hint{overflow-wrap:anywhere;line-height:1.4}:focus-visible{outline:2px solid var(--accent);outline-offset:1px}kbd{font:inherit;border:1px solid var(--line);color:var(--ink);background:var(--card);border-bottom-width:2px;border-radius:4px;padding:0 4px;font-size:11px}button,select{font:inherit;color:inherit;font-size:12px}button{cursor:pointer;background:var(--card);border:1px solid var(--line);border-radius:6px;min-height:26px;padding:2px 9px}button:hover,select:hover{border-color:var(--soft)}button[aria-pressed=true]{background:var(--accent);border-color:var(--accent);color:var(--on-accent)}button.icon{flex:none;width:26px;padding:0;line-height:1}button.quiet{color:var(--accent);background:0 0;border-color:#0000;min-height:22px;padding:0 4px}select{background:var(--card);border:1px solid var(--line);border-radius:6px;max-width:170px;min-height:26px;padding:2px 4px}input[type=checkbox]{accent-color:var(--accent);vertical-align:-2px;margin:0 5px 0 0}.pick,.check{color:var(--soft);white-space:nowrap;align-items:center;gap:6px;font-size:12px;display:inline-flex}.check{color:var(--ink);gap:0}.pick select{color:var(--ink)}.segments{border:1px solid var(--line);background:var(--card);border-radius:6px;flex:none;display:inline-flex}.segments label{color:var(--ink);cursor:pointer;display:flex;position:relative}.segments input{opacity:0;cursor:pointer;margin:0;position:absolute;inset:0}.segments span{background:0 0;border:0;border-radius:5px;min-height:24px;padding:3px 9px;font-size:12px;line-height:18px;display:block}.segments label:hover span{background:var(--faint)}.segments input:checked+span{background:var(--accent);color:var(--on-accent)}.segments input:focus-visible+span{outline:2px solid var(--accent);outline-offset:2px}header{flex-wrap:wrap;flex:none;align-items:center;gap:6px 28px;padding:10px 14px 8px;display:flex}.title{flex:300px;min-width:0}.subtitle{overflow-wrap:anywhere;-webkit-line-clamp:2;-webkit-box-orient:vertical;display:-webkit-box;overflow:hidden}.facts{flex-wrap:wrap;gap:2px 20px;display:flex}.facts dt{color:var(--soft);font-size:11px;line-height:1.3}.facts dd{font-weight:600;line-height:1.3}.page-controls{flex-wrap:wrap;align-items:center;gap:6px 8px;display:flex}.saved{color:var(--soft);border-left:3px solid var(--warm);flex-basis:100%;padding-left:8px;font-size:12px}.dot{background:var(--ink);vertical-align:1px;border-radius:50%;width:6px;height:6px;display:inline-block}.notices{flex:none;position:relative}.banner,.notice{border:1px solid var(--warm);background:var(--alert);overflow-wrap:anywhere;border-radius:8px;align-items:center;gap:12px;margin:0 14px 8px;padding:6px 6px 6px 12px;display:flex}.banner span,.notice span{flex:1;min-width:0}.panels{flex:1;gap:10px;min-height:0;padding:0 14px 14px;display:grid;overflow:auto}.panel{background:var(--card);border:1px solid var(--line);border-radius:10px;flex-direction:column;gap:8px;min-width:0;min-height:0;padding:10px 12px;display:flex}.overview{grid-area:heads}.panel.map{grid-area:map}.side{grid-area:side}.panel-head{flex:none;align-items:center;gap:10px;min-height:26px;display:flex}.panel-head h2{white-space:nowrap;flex:1}.panel-head .pick,.panel-head .pick select{flex:0 auto;min-width:0}.scroll{scrollbar-width:thin;scrollbar-color:var(--line) transparent;overscroll-behavior:contain;min-height:0;overflow:auto}.chips{flex-wrap:wrap;flex:none;gap:4px;display:flex}.chip{border-radius:99px;align-items:center;gap:5px;min-height:24px;padding:1px 8px 1px 3px;display:inline-flex}.chip i{color:var(--soft);font-style:normal}.chip[aria-pressed=true]{background:var(--card);color:var(--ink);border-color:var(--accent);box-shadow:inset 0 0 0 1px var(--accent)}.letter{border-radius:5px;flex:none;place-items:center;width:18px;height:18px;font-size:11px;font-weight:700;line-height:1;display:inline-grid}.letter.plain{border:1px dashed var(--soft);color:var(--soft)}.heads-scroll{flex:1;margin:0 -6px;padding:0 6px}.heads{position:relative}.heads canvas{pointer-events:none;position:absolute;top:0;left:0}.heads .mark{color:var(--soft);text-align:center;white-space:nowrap;font-size:11px;line-height:16px;position:absolute}.heads .mark[role=rowheader]{text-align:right;text-overflow:ellipsis;left:0;overflow:hidden}.heads .mark i{font-style:normal}.heads .numbers{background:var(--card);z-index:2;height:17px;position:sticky;top:0}.heads .head{cursor:pointer;border-radius:2px;position:absolute}.heads .head:hover{box-shadow:0 0 0 2px var(--soft)}.heads .head[data-beside]{outline:2px dashed var(--ink);outline-offset:0;z-index:1}.heads .head[data-here]{box-shadow:0 0 0 2px var(--ink);z-index:1}.heads .head[data-chosen]:after{content:\"✓\";text-align:center;background:var(--ink);width:13px;height:13px;color:var(--card);border-radius:3px;font-size:11px;font-weight:700;line-height:13px;position:absolute;bottom:1px;left:1px}.heads .head:focus-visible{outline:3px solid var(--accent);outline-offset:1px;z-index:2}.foot{flex-direction:column;flex:none;gap:3px;display:flex}.keys{flex-wrap:wrap;gap:2px 12px;display:flex}.toolbar,.toolbar>div{flex-wrap:wrap;flex:none;align-items:center;gap:6px 12px;display:flex}.toolbar>div{max-width:100%}button:disabled{color:var(--soft);cursor:default;opacity:.6}.maps{flex:1;grid-template-columns:minmax(0,1fr);gap:14px;min-height:0;display:grid}.app.two .maps{grid-template-columns:repeat(2,minmax(0,1fr))}.map-card{flex-direction:column;gap:6px;min-width:0;min-height:0;display:flex}.map-head{flex:none;align-items:center;gap:8px;display:flex}.map-name{flex-wrap:wrap;flex:1;align-items:center;gap:0 8px;min-width:0;display:flex}.map-name small{white-space:nowrap;text-overflow:ellipsis;flex-basis:100%;line-height:1.3;overflow:hidden}.map-name small span+span:before{content:\" · \"}.map-name h2{min-width:0}.map-name h2 span{font-weight:400}.map-buttons{flex:none;gap:4px;display:flex}.map-host{flex-direction:column;flex:1;min-height:0;display:flex}.map-host .map-stage{flex:1;min-height:0}.map-host .map-foot output{max-height:4.5em;overflow-y:auto}.tabs{border-bottom:1px solid var(--line);flex:none;gap:2px;margin:-4px 0 0;display:flex}.tabs button{min-height:30px;color:var(--soft);background:0 0;border:0;border-bottom:2px solid #0000;border-radius:6px 6px 0 0;margin-bottom:-1px;padding:4px 12px}.tabs button[aria-selected=true]{color:var(--ink);border-bottom-color:var(--accent);font-weight:600}.tab-panel{scrollbar-width:thin;flex-direction:column;flex:1;gap:8px;min-height:0;margin:-3px;padding:3px;display:flex;overflow-y:auto}.bar{flex-wrap:wrap;flex:none;align-items:center;gap:4px 10px;display:flex}.bar .mean{font-size:12px}.said{flex-wrap:wrap;flex:none;align-content:flex-start;gap:6px 16px;display:flex}.list{flex:320px;min-width:0;min-height:105px}.list p{border-left:3px solid var(--line);text-overflow:ellipsis;white-space:nowrap;margin-bottom:4px;padding-left:6px;font-size:12px;overflow:hidden}.list p.from-to{border-left-color:var(--cool)}.list p.from-from{border-left-color:var(--warm)}q{font-family:var(--mono);quotes:\"“\" \"”\";white-space:pre;unicode-bidi:isolate;font-weight:600}.keys-list{flex-wrap:wrap;align-content:flex-start;gap:4px;padding:1px;display:flex}.more{color:var(--soft);align-self:center;padding:0 4px;font-size:12px;line-height:24px}.find{flex:100%;align-items:center;gap:4px;min-width:0;display:flex}.find input{min-width:60px;font:inherit;color:inherit;background:var(--card);border:1px solid var(--line);border-radius:6px;flex:1;min-height:26px;padding:2px 8px;font-size:12px}.find .hint{text-align:right;white-space:nowrap;min-width:56px}.key{align-items:baseline;gap:6px;max-width:100%;min-height:24px;padding:0 6px;font-size:12px;line-height:22px;display:inline-flex}.key span{font-family:var(--mono);white-space:pre;text-overflow:ellipsis;unicode-bidi:isolate;max-width:12em;overflow:hidden}.key i{color:var(--soft);white-space:nowrap;font-size:11px;font-style:normal}.strips{flex-direction:column;flex:1;gap:10px;min-height:130px;display:flex}.strip{flex-direction:column;flex:1 1 0;gap:4px;min-width:0;min-height:0;display:flex}.strips.two>.strip:first-child{flex:0 auto;max-height:50%}.strip>div{flex:1;min-height:0}.strip>.patches{min-height:200px}.running{font:13px/1.7 var(--mono);white-space:pre-wrap;overflow-wrap:anywhere;cursor:default;border-radius:4px;position:relative}.block{padding-left:44px;position:relative}.position{text-align:right;width:38px;color:var(--soft);-webkit-user-select:none;user-select:none;font:11px/22px system-ui,Segoe UI,sans-serif;position:absolute;left:0}.token{-webkit-box-decoration-break:clone;box-decoration-break:clone;unicode-bidi:isolate;border-radius:3px;padding:1px 0}.token.special{border:1px solid var(--line);margin:0 1px;padding:0 3px;font-size:11px}.token:hover{outline:1px solid var(--soft)}.token.at-key{outline:2px dashed var(--warm);outline-offset:-1px}.token.at-query{outline:2px solid var(--ink);outline-offset:-1px}.patches{place-items:start center;display:grid}.patches canvas{cursor:crosshair;touch-action:none}.profile{grid-template-columns:repeat(auto-fit,minmax(min(100%,300px),1fr));gap:14px 18px;display:grid}.profile section{min-width:0}.legend{flex-wrap:wrap;gap:2px 16px;font-size:12px;display:flex}.legend i{font-style:normal;font-weight:700}.legend .first{color:var(--cool)}.legend .second{color:var(--warm)}.part-head{color:var(--soft);justify-content:space-between;gap:10px;margin-bottom:4px;font-size:12px;display:flex}.part-head h3{color:var(--ink)}.chart svg{width:100%;display:block;overflow:visible}.chart svg.pickable{cursor:crosshair}.chart text{fill:var(--soft);font-size:11px}.chart .grid{stroke:var(--line)}.chart .mark{stroke:var(--ink);stroke-dasharray:3 2}.chart .cursor{stroke:var(--soft);pointer-events:none}.chart output{text-overflow:ellipsis;white-space:nowrap;min-height:1.45em;font-size:12px;display:block;overflow:hidden}table{border-collapse:collapse;table-layout:auto;width:100%;font-size:12px}th{text-align:left;color:var(--soft);padding:1px 4px;font-size:11px;font-weight:400}th:nth-last-child(-n+2){text-align:right}td{border-top:1px solid var(--faint);max-width:140px;padding:1px 4px}td .key{background:0 0;border-color:#0000;max-width:100%;padding:0 2px}td .key:hover{border-color:var(--line)}td.n{text-align:right;white-space:nowrap}td.wide{width:30%}td .fill{background:var(--warm);border-radius:2px;height:8px;display:block}td .fill.less{background:var(--cool)}.scores-panel{gap:9px}.scores-panel .name{flex:none;font-weight:600}.means{background:var(--faint);border-radius:8px;flex:none;align-items:flex-start;gap:8px;padding:8px 10px;font-size:12px;display:flex}.score{flex:none;grid-template-columns:18px 1fr auto;align-items:center;gap:3px 8px;font-size:12px;display:grid}.score.own{font-weight:600}.score .value{color:var(--soft);white-space:nowrap;font-weight:400}.score .value b{color:var(--ink);font-weight:600}.score-bar{background:var(--faint);height:7px;box-shadow:inset 0 0 0 1px var(--line);border-radius:4px;grid-column:2/-1;position:relative}.score-bar i{background:var(--bar);border-radius:4px;min-width:2px;position:absolute;inset:0 auto 0 0}.score-bar u{background:var(--ink);width:2px;margin-left:-1px;position:absolute;top:-3px;bottom:-3px}.score.few .score-bar i{border:1px dashed var(--soft);background:0 0}dialog{color:var(--ink);background:var(--card);border:1px solid var(--line);border-radius:12px;width:min(780px,92vw);padding:14px 18px 18px}dialog::backdrop{background:#00000059}.keys-lists{grid-template-columns:repeat(auto-fit,minmax(300px,1fr));gap:14px 28px;display:grid}.keys-lists dl div{grid-template-columns:130px 1fr;gap:8px;padding:3px 0;display:grid}.panels{--left:clamp(210px, var(--heads,330px), 330px);grid-template:\"heads map side\" minmax(0, 1fr) / var(--left) minmax(0, 1fr) minmax(290px, 27%)}.app.two .panels{grid-template:\"heads map\" minmax(400px, 2fr) \"heads side\" minmax(170px, 1fr) / var(--left) minmax(0, 1fr)}.app.large .panels{grid-template:\"heads map\"minmax(0,1.4fr)\"heads side\"minmax(220px,1fr)/minmax(0,56fr) minmax(0,44fr)}.app.large .list{flex-basis:220px}.large.app.two .maps{grid-template-columns:minmax(0,1fr);grid-auto-rows:minmax(0,1fr)}@container (width>=681px){.app.two .text-panel{grid-template:\"bar strips\"\"said strips\"minmax(0,1fr)/minmax(240px,34%) minmax(0,1fr);gap:8px 18px;display:grid}.app.two .bar{grid-area:bar}.app.two .said{scrollbar-width:thin;grid-area:said;min-height:0;overflow:auto}.app.two .strips{grid-area:strips}.app.two .strips.two{flex-direction:row;gap:18px}.app.two .strips.two>.strip:first-child{flex:1 1 0;max-height:none}.app.two .strip>.patches{min-height:0}}@container (width<=1150px){.facts{flex-basis:100%;order:3}.panels{--left:clamp(190px, var(--heads,240px), 240px);grid-template-columns:var(--left) minmax(0, 1fr) 290px;gap:8px;padding:0 10px 10px}.app.two .panels{grid-template-columns:var(--left) minmax(0, 1fr)}.panel{padding:8px 10px}.overview select{max-width:112px}.overview .pick span{display:none}.map-name small{white-space:normal}.app.two .map-name h2 span{clip-path:inset(50%);width:1px;height:1px;position:absolute;overflow:hidden}.map-host .map-foot output{max-height:3em}}@container (width<=940px){.panels{--left:clamp(180px, var(--heads,220px), 220px);grid-template:\"heads map\" minmax(400px, 1.6fr) \"heads side\" minmax(240px, 1fr) / var(--left) minmax(0, 1fr)}.app.two .panels{grid-template:\"heads map\" minmax(880px, auto) \"heads side\" minmax(240px, 1fr) / var(--left) minmax(0, 1fr)}.app.two .maps{grid-template-columns:minmax(0,1fr);grid-auto-rows:minmax(0,1fr)}.overview select{max-width:84px}}@container (width>=681px) and (width<=1150px){.chip span{clip-path:inset(50%);width:1px;height:1px;position:absolute;overflow:hidden}.app.large .chip span{clip-path:none;width:auto;height:auto;position:static}.keys{display:none}}@container (width<=680px){.app{overflow-y:auto}header{padding:10px 10px 8px}.panels,.app.two .panels,.app.large .panels{flex:none;grid-template:\"heads\"\"map\"\"side\"/minmax(0,1fr)}.overview{max-height:520px}.heads-scroll{flex:auto}.overview select{max-width:170px}.panel.map{height:auto}.map-host .map-stage{flex:0 0 400px}.app.two .maps{grid-template-columns:minmax(0,1fr);grid-auto-rows:minmax(0,1fr)}.side{height:520px}.map-name h2{white-space:nowrap;text-overflow:ellipsis;flex:1;overflow:hidden}.map-name .site,.toolbar .pick>span:first-child{display:none}.map-foot{flex-direction:column;align-items:stretch;gap:6px}.map-foot output,.map-host .map-foot output{min-height:4.5em;max-height:none;overflow:visible}.keys{display:none}}@media (pointer:coarse){button,select,.check,.key,.chip,.find input{min-height:36px}button.icon,.map-tools button{width:auto;min-width:36px}.segments span{min-height:34px;line-height:28px}.list{min-height:141px}}@media (hover:none){.esc{display:none}}@media (prefers-reduced-motion:no-preference){.chip,.segments span,button{transition:background-color .12s,border-color .12s}}", Vf = 0;
function Hf(e) {
	let t = Array.isArray(e) ? e[0] : void 0;
	return t instanceof ArrayBuffer ? t : ArrayBuffer.isView(t) ? new Uint8Array(t.buffer, t.byteOffset, t.byteLength).slice().buffer : /* @__PURE__ */ new ArrayBuffer(0);
}
var Uf = class {
	model;
	waiting = /* @__PURE__ */ new Map();
	constructor(e) {
		this.model = e, e.on("msg:custom", this.heard);
	}
	ask(e, t, n) {
		let r = `q${++Vf}`;
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
			data: Hf(t)
		}) : a.reject(new k(i)));
	};
}, Wf = 780;
async function Gf(e, t, n) {
	let r = e.shadowRoot ?? e.attachShadow({ mode: "open" }), i = new CSSStyleSheet();
	i.replaceSync(Bf), r.adoptedStyleSheets = [i];
	let a = null, o = !1, s = async (i) => {
		let c = S("p", {
			class: "wait",
			role: "status"
		}, "Loading …");
		a || r.replaceChildren(c);
		try {
			let { meta: c } = await t.ask("scene", {});
			if (o) return;
			a?.destroy(), a = new Mf(r, c, t, {
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
async function Kf({ model: e, el: t }) {
	let n = S("div");
	n.style.height = `${Wf}px`, t.append(n);
	let r = new Uf(e), i = await Gf(n, r, { address: !1 });
	return () => {
		i(), r.destroy(), n.remove();
	};
}
async function qf(e) {
	document.documentElement.style.height = document.body.style.height = e.style.height = "100%", document.body.style.margin = "0";
	let t = document.getElementById("headwise-saved")?.textContent, n = new URLSearchParams(location.search).get("token") ?? "";
	await Gf(e, t ? new zf(JSON.parse(t)) : new ld(n), { address: !0 });
}
var Jf = document.querySelector("main#headwise");
Jf && qf(Jf);
var Yf = { render: Kf };
export { Yf as default, Gf as mount };
