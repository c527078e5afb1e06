// Questions about keys and distances: received mass, offsets, top keys, contributions.

// Sums over rows [r0, r1) of a tile, to[c] for its columns.
inline void column_sums(const Shown &tile, int64_t r0, int64_t r1, float *to) {
    int64_t c = tile.c0;
    for (; c + PANEL <= tile.c1; c += PANEL) {
        vf sum[VECTORS] = {};
        for (int64_t r = r0; r < r1; ++r)
#pragma GCC unroll 8
            for (int v = 0; v < VECTORS; ++v) sum[v] += load(tile.p + r * LINE + c + v * LANES);
        for (int v = 0; v < VECTORS; ++v) store(to + c + v * LANES, sum[v]);
    }
    for (; c < tile.c1; c += LANES) {
        vf sum = {};
        for (int64_t r = r0; r < r1; ++r) sum += load(tile.p + r * LINE + c);
        store(to + c, sum);
    }
}

inline void add_received(const Survey &survey, const Shown &tile, float *sums) {
    float *to = sums + tile.j0 - survey.frame.key0 / KEYS * KEYS;
    for (int64_t c = tile.c0; c < tile.c1; c += LANES) store(to + c, load(to + c) + load(tile.totals + c));
}

// Sums along diagonals. Entry `limit + x` of them, behind a border, is that of keys x ahead of their query (behind it
// where x < 0), so that a row of cells is a row of entries. Seen cells are counted in the entries behind those, if
// COUNT.
template <bool COUNT> inline void add_diagonals(const Question &question, const Shown &tile, float *sums) {
    constexpr int64_t STEP = TILE / 2; // a row begins one entry to the left of the next: at most BORDER rows together
    static_assert(STEP <= BORDER && LANES <= BORDER, "the last row's cells lie within the border of the first");
    const int64_t entries = question.limit + question.after + 1 + 2 * BORDER;
    for (int64_t r0 = 0; r0 < tile.n; r0 += STEP) {
        const int64_t rows = tile.n - r0 < STEP ? tile.n - r0 : STEP;
        const int64_t ahead = tile.j0 - (tile.pos + r0); // column c of the first of these rows, c + r of row r
        int64_t lo = tile.c0 - up(rows - 1, LANES), hi = tile.c1;
        if (lo < -question.limit - ahead) lo += (-question.limit - ahead - lo) / LANES * LANES;
        if (hi > question.after - ahead + 1) hi = question.after - ahead + 1;
        const float *p = tile.p + r0 * LINE;
        for (int64_t c = lo; c < hi; c += LANES) {
            float *to = sums + BORDER + question.limit + ahead + c;
            vf sum = {};
            vi seen = {};
            for (int64_t r = 0; r < rows; ++r) {
                const vf cells = load(p + r * LINE + r + c);
                sum += cells;
                if (COUNT) seen += ((vi)cells >> 31) + 1;
            }
            store(to, load(to) + sum);
            if (COUNT) store(to + entries, load(to + entries) + __builtin_convertvector(seen, vf));
        }
    }
}

inline void see_offsets(const Question &question, const Shown &tile, float *sums) {
    if (question.counts)
        add_diagonals<true>(question, tile, sums);
    else
        add_diagonals<false>(question, tile, sums);
}

// The best keys of each row of a pass, by falling value, of equal values by rising key; -1 and -1 where none was seen
// yet. A row is whole vectors, and before it stands a value above all others.
struct Best {
    float *value;
    int32_t *key;
    int64_t step, wanted;

    float *values(int64_t row) const { return value + row * step + LANES; }
    int32_t *keys(int64_t row) const { return key + row * step + LANES; }
};

inline int64_t best_step(int64_t wanted) { return LANES + up(wanted, LANES); }

inline void begin_top_keys(int64_t rows, Best &best) {
    for (int64_t n = 0; n < rows * best.step; ++n) {
        best.value[n] = n % best.step < LANES ? kInf : -1.0f;
        best.key[n] = -1;
    }
}

// Takes a key in whose value is above the last one's. Keys come in rising order, so it goes behind its equals: who is
// at least as good stays, the newcomer takes the first place behind those, and the others move up by one.
inline void insert(float *values, int32_t *keys, int64_t wanted, float value, int64_t key) {
    for (int64_t n = up(wanted, LANES) - LANES; n >= 0; n -= LANES) {
        const vf here = load(values + n), before = load(values + n - 1);
        const vi stays = here >= splat(value), next = before >= splat(value);
        vi *to = reinterpret_cast<vi *>(keys + n);
        *to = stays ? *to : (next ? splat_bits(int32_t(key)) : *reinterpret_cast<vi *>(keys + n - 1));
        store(values + n, stays ? here : (next ? splat(value) : before));
    }
}

// A row of NaN: its first visible keys, in order.
inline void take_nan(float *values, int32_t *keys, int64_t wanted, const Shown &tile, const float *p) {
    int64_t free = 0;
    while (free < wanted && keys[free] >= 0) ++free;
    for (int64_t c = tile.c0; c < tile.c1 && free < wanted; ++c) {
        if (__builtin_signbit(p[c])) continue;
        values[free] = p[c];
        keys[free++] = int32_t(tile.j0 + c);
    }
}

// The largest p of each of several groups of columns, of LANES rows: their lanes are rows.
constexpr int64_t COLUMN_GROUPS = 4 * LANES;

inline void group_peaks(const Shown &tile, int64_t r0, vf *peaks) {
    for (int64_t r = 0; r < LANES; ++r) {
        vf top[4];
        for (int v = 0; v < 4; ++v) top[v] = splat(HIDDEN);
        const float *p = tile.p + (r0 + r) * LINE;
        int64_t c = tile.c0;
        for (; r0 + r < tile.n && c + COLUMN_GROUPS <= tile.c1; c += COLUMN_GROUPS)
#pragma GCC unroll 4
            for (int v = 0; v < 4; ++v) top[v] = larger(load(p + c + v * LANES), top[v]);
        for (; r0 + r < tile.n && c < tile.c1; c += LANES) top[0] = larger(load(p + c), top[0]);
        for (int v = 0; v < 4; ++v) peaks[v * LANES + r] = top[v];
    }
    for (int v = 0; v < 4; ++v) transpose(peaks + v * LANES);
}

// The `count`-th largest of the peaks, lane by lane: so many cells are at least as large, and none below is wanted.
inline vf ranked(const vf *peaks, int64_t count) {
    vf best[COLUMN_GROUPS];
    for (int64_t n = 0; n < count; ++n) best[n] = splat(HIDDEN);
    for (int64_t v = 0; v < COLUMN_GROUPS; ++v) {
        vf here = peaks[v];
        for (int64_t n = 0; n < count; ++n) {
            const vf high = larger(here, best[n]);
            here = here > best[n] ? best[n] : here;
            best[n] = high;
        }
    }
    return best[count - 1];
}

// The float before a positive one.
inline float float_below(float x) {
    int32_t bits;
    __builtin_memcpy(&bits, &x, 4);
    --bits;
    __builtin_memcpy(&x, &bits, 4);
    return x;
}

// Takes in the cells of a row that are above a threshold.
inline void take_above(float *values, int32_t *keys, int64_t wanted, const Shown &tile, const float *p,
                       float threshold) {
    const vf least = splat(threshold);
    for (int64_t c = tile.c0; c < tile.c1; c += 64) {
        uint64_t above = 0;
        for (int64_t x = 0; x < 64 && c + x < tile.c1; x += LANES)
            above |= uint64_t(bits_of(load(p + c + x) > least)) << x;
        for (; above; above &= above - 1) {
            const int64_t at = c + __builtin_ctzll(above);
            if (p[at] > values[wanted - 1] && !__builtin_signbit(p[at]))
                insert(values, keys, wanted, p[at], tile.j0 + at);
        }
    }
}

inline void see_top_keys(const Shown &tile, const Best &best) {
    for (int64_t r0 = 0; r0 < tile.n; r0 += LANES) {
        const int64_t n = tile.n - r0 < LANES ? tile.n - r0 : LANES, last = best.wanted - 1;
        vf peaks[COLUMN_GROUPS], top = splat(HIDDEN), bound = splat(HIDDEN);
        group_peaks(tile, r0, peaks);
        for (int64_t v = 0; v < COLUMN_GROUPS; ++v) top = larger(peaks[v], top);
        bool fresh = false; // rows that have seen too few cells for a threshold of their own
        for (int64_t r = r0; r < r0 + n; ++r) fresh |= best.values(tile.row + r)[last] < 0.0f;
        if (fresh && best.wanted <= COLUMN_GROUPS) bound = ranked(peaks, best.wanted);
        for (int64_t r = 0; r < n; ++r) {
            float *values = best.values(tile.row + r0 + r);
            int32_t *keys = best.keys(tile.row + r0 + r);
            const float *p = tile.p + (r0 + r) * LINE;
            const float threshold = bound[r] > values[last] && bound[r] > 0.0f ? float_below(bound[r]) : values[last];
            if (tile.nan[r0 + r])
                take_nan(values, keys, best.wanted, tile, p);
            else if (top[r] > values[last])
                take_above(values, keys, best.wanted, tile, p, threshold);
        }
    }
}

inline void write_top_keys(const Call &call, const Survey &survey, const Question &question, const Rows &rows,
                           const Best &best) {
    for (int64_t r = 0; r < rows.count; ++r) {
        const int64_t line = answer_of(survey, rows.b, rows.head[r]) * call.T + rows.query[r];
        for (int64_t n = 0; n < best.wanted; ++n) {
            const int32_t key = best.keys(r)[n];
            question.found[line * best.wanted + n] = key;
            question.out[line * best.wanted + n] = key < 0 ? 0.0f : best.values(r)[n];
        }
    }
}

// p times the norm of what the key carries: by query here; by key that is the received mass times the norm, unless a
// norm is not finite: then it may meet visible cells only.
inline void see_contribution(const Call &call, const Survey &survey, const Question &question, const Shown &tile,
                             float *sums) {
    const float *norms = question.norms + tile.answer * up(call.S, kPadded) + tile.j0;
    float *by_query = question.by_query + tile.answer * call.T + tile.i;
    float *by_key = sums + tile.j0 - survey.frame.key0 / KEYS * KEYS;
    for (int64_t r = 0; r < tile.n; ++r) {
        const float *p = tile.p + r * LINE;
        vf sum = {};
        for (int64_t c = tile.c0; !question.strange && c < tile.c1; c += LANES)
            sum = madd(load(p + c), load(norms + c), sum);
        by_query[r] += sum_of(sum);
        for (int64_t c = tile.c0; question.strange && c < tile.c1; ++c) {
            if (__builtin_signbit(p[c])) continue;
            by_key[c] += p[c] * norms[c];
            by_query[r] += p[c] * norms[c];
        }
    }
}
