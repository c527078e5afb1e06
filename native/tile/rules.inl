// Score rules on one row of a tile: columns [c0, c1) are keys j0 + c, the score of column c is at s[c].

struct Place {
    int64_t b, h, i, pos; // of the row
    int64_t j0, c0, c1;   // of its columns; [c0, c1) may end behind the last key
};

inline float plane_at(const Plane &plane, int64_t offset) {
    if (plane.dtype == Dtype::f32) return static_cast<const float *>(plane.data)[offset];
    const uint16_t half = static_cast<const uint16_t *>(plane.data)[offset];
    return plane.dtype == Dtype::bf16 ? widen_bf16(half) : widen_f16(half);
}

inline int64_t plane_row(const Plane &plane, const Place &at) {
    return at.b * plane.batch + at.h * plane.head + at.i * plane.row + at.j0 * plane.column;
}

inline int64_t last_column(const Call &call, const Place &at) {
    return at.c1 < call.S - at.j0 ? at.c1 : call.S - at.j0;
}

// -inf hides a cell whatever its score: NaN - inf and inf - inf would be NaN.
inline float biased(float score, float bias) { return bias == -kInf ? bias : score + bias; }

inline void add_bias(const Call &call, const Plane &plane, const Place &at, float *s) {
    const int64_t row = plane_row(plane, at), end = last_column(call, at);
    if (plane.column == 0) {
        const float bias = plane_at(plane, row);
        for (int64_t c = at.c0; c < end; ++c) s[c] = biased(s[c], bias);
        return;
    }
    if (plane.column == 1 && plane.dtype == Dtype::f32) {
        const float *bias = static_cast<const float *>(plane.data) + row;
        for (int64_t c = at.c0; c < end; ++c) s[c] = biased(s[c], bias[c]);
        return;
    }
    for (int64_t c = at.c0; c < end; ++c) s[c] = biased(s[c], plane_at(plane, row + c * plane.column));
}

inline void add_slopes(const Call &call, const Rule &rule, const Place &at, float *s) {
    const float slope = rule.values[at.b * rule.batch + at.h * rule.head];
    if (rule.q_at) {
        const double from = rule.q_at[at.b * rule.q_batch + at.i], *keys = rule.k_at + at.b * rule.k_batch + at.j0;
        for (int64_t c = at.c0; c < last_column(call, at); ++c) s[c] -= slope * float(__builtin_fabs(from - keys[c]));
        return;
    }
    const int64_t from = at.pos - at.j0; // |pos - j| of column c is |from - c|
    if (from > 1 << 30 || from < -(1 << 30)) {
        for (int64_t c = at.c0; c < at.c1; ++c) s[c] -= slope * float(from > c ? from - c : c - from);
        return;
    }
    const int32_t near = int32_t(from), end = int32_t(at.c1);
    for (int32_t c = int32_t(at.c0); c < end; ++c) {
        const int32_t away = near - c;
        s[c] -= slope * float(away < 0 ? -away : away);
    }
}

inline void add_table(const Rule &rule, const Place &at, float *s) {
    const float *table = rule.values + at.h * rule.head;
    const int64_t shift = at.j0 - at.pos + rule.zero; // column c reads entry clamp(c + shift)
    const int64_t last = rule.length - 1;
    const auto within = [&](int64_t c, int64_t least) { return c < least ? least : c > at.c1 ? at.c1 : c; };
    const int64_t first = within(-shift, at.c0), behind = within(last - shift + 1, first);
    const float before = table[0], after = table[last];
    for (int64_t c = at.c0; c < first; ++c) s[c] += before;
    for (int64_t c = first; c < behind; ++c) s[c] += table[c + shift];
    for (int64_t c = behind; c < at.c1; ++c) s[c] += after;
}

inline void cap(float cap, const Place &at, float *s) {
    for (int64_t c = at.c0; c < at.c1; c += LANES) store(s + c, tanh_of(load(s + c) / cap) * cap);
}

inline void apply_rule(const Call &call, const Rule &rule, const Place &at, float *s) {
    switch (rule.kind) {
    case RuleKind::soft_cap:
        cap(rule.cap, at, s);
        return;
    case RuleKind::slopes:
        add_slopes(call, rule, at, s);
        return;
    case RuleKind::table:
        add_table(rule, at, s);
        return;
    case RuleKind::bias:
        add_bias(call, rule.plane, at, s);
        return;
    }
}

// A bias of -inf hides its cell whatever the rules behind it made of that.
inline void hide_by_bias(const Call &call, const Place &at, float *s) {
    for (int32_t n = 0; n < call.rules; ++n) {
        const Rule &rule = call.rule[n];
        if (rule.kind != RuleKind::bias) continue;
        const int64_t row = plane_row(rule.plane, at), end = last_column(call, at);
        for (int64_t c = at.c0; c < end; ++c)
            if (plane_at(rule.plane, row + c * rule.plane.column) == -kInf) s[c] = -kInf;
    }
}

// All rules in order.
inline void apply_rules(const Call &call, const Place &at, float *s) {
    for (int32_t n = 0; n < call.rules; ++n) apply_rule(call, call.rule[n], at, s);
    if (call.rules > 1) hide_by_bias(call, at, s);
}

// Dropout's counter function: the row's two words, and whether a cell survives. The same as spec/dropout.py.
inline uint32_t scramble(uint32_t x) {
    x ^= x >> 16;
    x *= 0x21F0AAADu;
    x ^= x >> 15;
    x *= 0xD35A2D97u;
    return x ^ (x >> 15);
}

struct RowWords {
    uint32_t first, second;
};

inline RowWords words_of(const Call &call, const Place &at) {
    uint32_t row = uint32_t(call.seed);
    const int64_t indices[] = {at.b, at.h, at.i};
    for (const int64_t index : indices) row = scramble(row * 0x9E3779B9u + uint32_t(index) + 1u);
    return {row, scramble(row ^ uint32_t(call.seed >> 32))};
}

// A threshold of 2^32 drops all. In 32 bits, which fill a vector's lanes.
inline bool survives(const Call &call, RowWords row, int64_t j) {
    const uint32_t drawn = scramble(scramble(row.first + uint32_t(j) * 0x9E3779B9u) ^ row.second);
    return drawn >= uint32_t(call.threshold) && !(call.threshold >> 32);
}

// Times 1 / (1 - dropout) where a cell survives, 0 where not.
inline void drop(const Call &call, const Place &at, float *p) {
    const RowWords row = words_of(call, at);
    const float survivor = call.survivor;
    for (int64_t c = at.c0; c < at.c1; ++c) p[c] *= survives(call, row, at.j0 + c) ? survivor : 0.0f;
}
