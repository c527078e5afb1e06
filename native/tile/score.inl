// Scores of a tile: the rows of a piece of work against a block of keys.

constexpr int64_t LINE = KEYS + 16; // floats from one row of scores to the next: not a power of two, for the cache

// The rows of an item: which query of which head each is, and what it may see of the item's keys.
struct Rows {
    int64_t b, kv, count;
    int32_t *head, *query;
    Span *span;
    Span hull; // of all spans
    float *q;  // [count][q_row]
    int64_t q_row;
    bool pairs;  // q holds pairs of bf16
    float scale; // what scores still have to be multiplied by
};

inline void set_rows(const Call &call, const Item &item, Rows &rows) {
    rows.b = item.b;
    rows.kv = item.kv;
    rows.count = item.row1 - item.row0;
    rows.hull = {call.S, 0};
    for (int64_t r = 0; r < rows.count; ++r) {
        const int64_t at = item.row0 + r;
        rows.head[r] = call.order[call.first[item.kv] + at / call.T];
        rows.query[r] = int32_t(at % call.T);
        const Span span = meet(span_of(call, item.b, rows.query[r]), {item.key0, item.key1});
        rows.span[r] = span;
        if (span.lo >= span.hi) continue;
        if (span.lo < rows.hull.lo) rows.hull.lo = span.lo;
        if (span.hi > rows.hull.hi) rows.hull.hi = span.hi;
    }
}

// Queries as floats, or as the pairs they are. Floats are scaled here; of 16 bits the products with a key are exact as
// long as the scale stays out, so there it comes after the sum.
inline void set_queries(const Call &call, Rows &rows, bool pairs = false) {
    const bool wide = call.q.dtype == Dtype::f32;
    rows.pairs = pairs;
    rows.scale = wide ? 1.0f : call.scale;
    rows.q_row = up(pairs ? call.D / 2 : call.D, LANES);
    for (int64_t r = 0; pairs && r < rows.count; ++r) {
        char *to = reinterpret_cast<char *>(rows.q + r * rows.q_row);
        __builtin_memset(to, 0, size_t(rows.q_row) * 4);
        __builtin_memcpy(to, at(call.q, rows.b, rows.head[r], rows.query[r]), size_t(call.D) * 2);
    }
    if (pairs) return;
    for (int64_t r = 0; r < rows.count; ++r) {
        const char *from = at(call.q, rows.b, rows.head[r], rows.query[r]);
        HEADWISE_BY_DTYPE(call.q.dtype, widen_row, from, call.D, wide ? call.scale : 1.0f, rows.q + r * rows.q_row,
                          rows.q_row)
    }
}

inline Place place_of(const Call &call, const Rows &rows, int64_t r, int64_t j0, const Sight &sight) {
    const int64_t i = rows.query[r];
    return {rows.b, rows.head[r], i, call.q_start[rows.b] + i, j0, sight.c0, sight.c1};
}

// Rules and mask on the scores of rows [r0, r0 + n).
inline void finish_scores(const Call &call, const Rows &rows, int64_t r0, int64_t n, int64_t j0, int64_t count,
                          const Sight &sight, const uint8_t *keep, float *scores) {
    if (call.rules > 0)
        for (int64_t r = 0; r < n; ++r) apply_rules(call, place_of(call, rows, r0 + r, j0, sight), scores + r * LINE);
    if (!sight.whole)
        for (int64_t r = 0; r < n; ++r) hide(sight, rows.span[r0 + r], j0, count, keep + r * KEYS, scores + r * LINE);
}

// The rows of a tile that are scored on the panel at c. Rules are applied to whole rows, and read what they change.
inline Span scored_on(const Call &call, const Sight &sight, int64_t n, int64_t c, int64_t across) {
    return call.rules ? Span{0, n} : rows_that_see(sight, n, c, across);
}

// scores [n][LINE] = q keys^T for columns [c0, c1) from keys packed by pack_transposed. A panel's rows that see none of
// it are left out: what they hold there is not written before it is hidden.
inline void score_packed(const Call &call, const float *q, int64_t q_row, int64_t n, const float *keys,
                         const Sight &sight, float *scores, float scale = 1.0f) {
    for (int64_t c = sight.c0; c < sight.c1; c += PANEL) {
        const int64_t across = sight.c1 - c < PANEL ? sight.c1 - c : PANEL;
        const Span rows = scored_on(call, sight, n, c, across);
        const float *panel = keys + c * call.D, *from = q + rows.lo * q_row;
        float *to = scores + rows.lo * LINE + c;
        product<MulFloats, false, true>(rows.hi - rows.lo, across, call.D < CHAIN ? call.D : CHAIN, from, q_row, 1,
                                        panel, PANEL, to, LINE, scale);
        for (int64_t d = CHAIN; d < call.D; d += CHAIN)
            product<MulFloats, true, true>(rows.hi - rows.lo, across, call.D - d < CHAIN ? call.D - d : CHAIN, from + d,
                                           q_row, 1, panel + d * PANEL, PANEL, to, LINE, scale);
    }
}

// The same in pairs, from keys packed by pack_pairs.
inline void score_pairs(const Call &call, const float *q, int64_t q_row, int64_t n, const float *keys,
                        const Sight &sight, float *scores) {
    const int64_t width = call.D / 2;
    for (int64_t c = sight.c0; c < sight.c1; c += PANEL) {
        const int64_t across = sight.c1 - c < PANEL ? sight.c1 - c : PANEL;
        const Span rows = scored_on(call, sight, n, c, across);
        product<MulPairs, false, true>(rows.hi - rows.lo, across, width, q + rows.lo * q_row, q_row, 1,
                                       keys + c * width, PANEL, scores + rows.lo * LINE + c, LINE, call.scale);
    }
}

// The same for few rows, keys read where they are: R rows times `COUNT` keys a step, lanes along the width. Of a step
// that has no COUNT keys any more, only `count` are there.
template <class Mul, Dtype DTYPE, int R, int COUNT, bool ALL>
inline void dots(const float *q, int64_t q_row, const char *keys, int64_t row, int64_t width, float scale, float *s,
                 int64_t count) {
    constexpr int64_t size = DTYPE == Dtype::f32 ? 4 : 2;
    vf sum[LANES];
#pragma GCC unroll 16
    for (int n = 0; n < LANES; ++n) sum[n] = vf{};
    const auto step = [&](int64_t d, auto take) {
        vf k[COUNT];
#pragma GCC unroll 16
        for (int j = 0; j < COUNT; ++j) k[j] = ALL || j < count ? take(keys + j * row + d * size) : vf{};
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
            const vf left = load(q + r * q_row + d);
#pragma GCC unroll 16
            for (int j = 0; j < COUNT; ++j) sum[r * COUNT + j] = Mul::step(left, k[j], sum[r * COUNT + j]);
        }
    };
    int64_t d = 0;
    for (; d + LANES <= width; d += LANES) step(d, [](const char *from) { return widen<DTYPE>(from); });
    if (d < width) step(d, [&](const char *from) { return widen_first<DTYPE>(from, width - d); });
    float found[LANES];
    store(found, fold_each<true>(sum) * scale);
    for (int r = 0; r < R; ++r) __builtin_memcpy(s + r * LINE, found + r * COUNT, size_t(ALL ? COUNT : count) * 4);
}

// Asks for rows [j, j + count) from memory, `bytes` each: into the first cache where NEAR, else into the next.
template <bool NEAR> inline void fetch(const char *from, int64_t row, int64_t bytes, int64_t j, int64_t count) {
    for (int64_t end = j + count; j < end; ++j)
        for (int64_t byte = 0; byte < bytes; byte += 64) __builtin_prefetch(from + j * row + byte, 0, NEAR ? 3 : 2);
}

template <class Mul, Dtype DTYPE, int R>
inline void dot_rows(const float *q, int64_t q_row, const char *keys, int64_t row, int64_t width, float scale,
                     int64_t c0, int64_t c1, int64_t end, bool first, const char *ahead, int64_t ahead_bytes,
                     int64_t ahead_row, float *s) {
    constexpr int COUNT = R == 1 ? LANES : R == 2 ? LANES / 2 : LANES / 4; // R * COUNT sums in a vector
    int64_t c = c0;
    for (; c + COUNT <= end; c += COUNT) {
        if (first && ahead) fetch<false>(ahead, ahead_row, ahead_bytes, c, COUNT);
        if (first && c + 3 * COUNT <= end)
            fetch<true>(keys, row, width * (DTYPE == Dtype::f32 ? 4 : 2), c + 2 * COUNT, COUNT);
        dots<Mul, DTYPE, R, COUNT, true>(q, q_row, keys + c * row, row, width, scale, s + c, COUNT);
    }
    if (c < end) dots<Mul, DTYPE, R, COUNT, false>(q, q_row, keys + c * row, row, width, scale, s + c, end - c);
    for (c = end; c < c1; ++c)
        for (int r = 0; r < R; ++r) s[r * LINE + c] = -kInf;
}

// scores of few rows; meanwhile the next keys are fetched, and the values of these, which are wanted then.
template <class Mul, Dtype DTYPE>
inline void score_in_place(const Call &call, const Rows &rows, int64_t r0, int64_t n, int64_t j0, int64_t count,
                           const Sight &sight, float *scores) {
    const int64_t size = call.k.dtype == Dtype::f32 ? 4 : 2;
    const int64_t width = Mul::width == 2 ? call.D / 2 : call.D;
    const float scale = rows.scale;
    const char *keys = at(call.k, rows.b, rows.kv, j0);
    const char *ahead = call.v.data ? at(call.v, rows.b, rows.kv, j0) : nullptr;
    const int64_t end = sight.c1 < count ? sight.c1 : count;
    for (int64_t r = 0; r < n;) {
        const float *q = rows.q + (r0 + r) * rows.q_row;
        float *s = scores + r * LINE;
        const int64_t ahead_bytes = call.E * size, ahead_row = call.v.row * size;
        switch (n - r) {
#define HEADWISE_DOTS(R)                                                                                               \
    dot_rows<Mul, DTYPE, R>(q, rows.q_row, keys, call.k.row * size, width, scale, sight.c0, sight.c1, end, r == 0,     \
                            ahead, ahead_bytes, ahead_row, s);                                                         \
    r += R;                                                                                                            \
    break;
        case 1:
            HEADWISE_DOTS(1)
        case 2:
            HEADWISE_DOTS(2)
        case 3:
            HEADWISE_DOTS(3)
        default:
            HEADWISE_DOTS(4)
#undef HEADWISE_DOTS
        }
    }
}

// Whether the rows of a key/value head are so few. Scores made this way have other bits than those of packed keys, so
// whoever makes scores again asks here first.
inline bool is_few(const Call &call, int64_t kv) { return (call.first[kv + 1] - call.first[kv]) * call.T <= FEW; }

inline void score_few(const Call &call, const Rows &rows, int64_t r0, int64_t n, int64_t j0, int64_t count,
                      const Sight &sight, float *scores) {
    if (PAIRS && rows.pairs) {
        score_in_place<MulPairs, Dtype::f32>(call, rows, r0, n, j0, count, sight, scores);
        return;
    }
    switch (call.k.dtype) {
    case Dtype::f32:
        score_in_place<MulFloats, Dtype::f32>(call, rows, r0, n, j0, count, sight, scores);
        return;
    case Dtype::bf16:
        score_in_place<MulFloats, Dtype::bf16>(call, rows, r0, n, j0, count, sight, scores);
        return;
    case Dtype::f16:
        score_in_place<MulFloats, Dtype::f16>(call, rows, r0, n, j0, count, sight, scores);
        return;
    }
}
