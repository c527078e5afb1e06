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
// where x < 0), so that a row of cells is a row of entries. Seen cells are counted in the entries behind those, if COUNT.
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

constexpr int64_t MOST_BOUNDED = 16; // keys wanted of a row, up to which their threshold is looked for first

// The best keys of one row as a heap: at its root what has to give way first, the least value, of equal ones the higher
// key. Keys come in rising order, so a newcomer that equals the root stays out.
struct Best {
    float *value;
    int64_t *key;
    int64_t size;
};

inline void settle(const Best &best, float value, int64_t key) {
    int64_t at = 0;
    const auto first = [&](int64_t a, float v, int64_t k) {
        return best.value[a] < v || (best.value[a] == v && best.key[a] > k);
    };
    for (int64_t child = 1; child < best.size; child = 2 * at + 1) {
        if (child + 1 < best.size && first(child + 1, best.value[child], best.key[child])) ++child;
        if (!first(child, value, key)) break;
        best.value[at] = best.value[child];
        best.key[at] = best.key[child];
        at = child;
    }
    best.value[at] = value;
    best.key[at] = key;
}

inline Best best_of(const Question &question, int64_t line) {
    return {question.out + line * question.width, question.found + line * question.width, question.width};
}

inline void begin_top_keys(const Call &call, const Survey &survey, const Question &question, const Rows &rows) {
    for (int64_t r = 0; r < rows.count; ++r) {
        const Best best = best_of(question, answer_of(survey, rows.b, rows.head[r]) * call.T + rows.query[r]);
        for (int64_t n = 0; n < best.size; ++n) {
            best.value[n] = -1.0f;
            best.key[n] = -1;
        }
    }
}

// A row of NaN: its first visible keys, in order.
inline void take_nan(const Best &best, const Shown &tile, const float *p) {
    int64_t free = 0;
    while (free < best.size && best.key[free] >= 0) ++free;
    for (int64_t c = tile.c0; c < tile.c1 && free < best.size; ++c) {
        if (__builtin_signbit(p[c])) continue;
        best.value[free] = p[c];
        best.key[free++] = tile.j0 + c;
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

// The `count`-th largest of some vectors, lane by lane.
inline vf ranked(const vf *x, int64_t vectors, int64_t count) {
    vf best[MOST_BOUNDED];
    for (int64_t n = 0; n < count; ++n) best[n] = splat(HIDDEN);
    for (int64_t v = 0; v < vectors; ++v) {
        vf here = x[v];
        for (int64_t n = 0; n < count; ++n) {
            const vf high = larger(here, best[n]);
            here = here > best[n] ? best[n] : here;
            best[n] = high;
        }
    }
    return best[count - 1];
}

// Takes in the cells of a row above a threshold that no cell below it can pass.
inline void take_above(const Best &best, const Shown &tile, const float *p, float threshold) {
    const vf least = splat(threshold);
    for (int64_t c = tile.c0; c < tile.c1; c += LANES) {
        uint32_t above = bits_of(load(p + c) > least);
        for (; above; above &= above - 1) {
            const int64_t at = c + __builtin_ctz(above);
            if (p[at] > best.value[0] && !__builtin_signbit(p[at])) settle(best, p[at], tile.j0 + at);
        }
    }
}

// As many groups as there are keys wanted have a cell of at least the bound: so no cell below it is wanted.
inline float below(float bound, float threshold) {
    if (!(bound > threshold) || bound <= 0.0f) return threshold;
    int32_t bits;
    __builtin_memcpy(&bits, &bound, 4);
    --bits;
    __builtin_memcpy(&bound, &bits, 4);
    return bound;
}

inline void see_top_keys(const Call &call, const Question &question, const Shown &tile) {
    for (int64_t r0 = 0; r0 < tile.n; r0 += LANES) {
        const int64_t n = tile.n - r0 < LANES ? tile.n - r0 : LANES;
        vf peaks[COLUMN_GROUPS], top = splat(HIDDEN), bound = splat(HIDDEN);
        group_peaks(tile, r0, peaks);
        for (int64_t v = 0; v < COLUMN_GROUPS; ++v) top = larger(peaks[v], top);
        bool fresh = false; // rows that have seen too few cells for a threshold of their own
        const Best first = best_of(question, tile.answer * call.T + tile.i + r0);
        for (int64_t r = 0; r < n; ++r) fresh |= first.value[r * first.size] < 0.0f;
        if (fresh && question.width <= MOST_BOUNDED) bound = ranked(peaks, COLUMN_GROUPS, question.width);
        for (int64_t r = 0; r < n; ++r) {
            const Best best = best_of(question, tile.answer * call.T + tile.i + r0 + r);
            const float *p = tile.p + (r0 + r) * LINE;
            if (tile.nan[r0 + r])
                take_nan(best, tile, p);
            else if (top[r] > best.value[0])
                take_above(best, tile, p, below(bound[r], best.value[0]));
        }
    }
}

// From heaps to falling values; where fewer keys are visible, 0 and -1.
inline void rank_top_keys(const Call &call, const Survey &survey, const Question &question, const Rows &rows,
                          const bool *nan) {
    for (int64_t r = 0; r < rows.count; ++r) {
        const Best best = best_of(question, answer_of(survey, rows.b, rows.head[r]) * call.T + rows.query[r]);
        for (int64_t last = nan[r] ? 0 : best.size - 1; last > 0; --last) {
            const float value = best.value[last];
            const int64_t key = best.key[last];
            best.value[last] = best.value[0];
            best.key[last] = best.key[0];
            settle({best.value, best.key, last}, value, key);
        }
        for (int64_t n = 0; n < best.size; ++n)
            if (best.key[n] < 0) best.value[n] = 0.0f;
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
        for (int64_t c = tile.c0; !question.strange && c < tile.c1; c += LANES) sum = madd(load(p + c), load(norms + c), sum);
        by_query[r] += sum_of(sum);
        for (int64_t c = tile.c0; question.strange && c < tile.c1; ++c) {
            if (__builtin_signbit(p[c])) continue;
            by_key[c] += p[c] * norms[c];
            by_query[r] += p[c] * norms[c];
        }
    }
}
