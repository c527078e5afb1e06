// Which cells of a tile are visible: a span of keys a row, and where that is not all, a byte a cell.

struct Span {
    int64_t lo, hi; // keys [lo, hi)
};

inline Span meet(Span a, Span b) { return {a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi}; }

// The band and the runs of one row: the smallest span that holds every key it sees.
inline Span span_of(const Call &call, int64_t b, int64_t i) {
    const int64_t pos = call.q_start[b] + i;
    Span span{0, call.S};
    if (call.before < kFar) span.lo = pos - call.before > 0 ? pos - call.before : 0;
    if (call.after < kFar) span.hi = pos + call.after + 1 < call.S ? pos + call.after + 1 : call.S;
    if (call.runs.count == 0) return span;
    const int64_t first = b * call.runs.batch + i * call.runs.row;
    Span hull{call.S, 0};
    for (int32_t k = 0; k < call.runs.count; ++k) {
        const int64_t lo = call.runs.lo[first + k], hi = call.runs.hi[first + k];
        if (lo >= hi) continue;
        if (lo < hull.lo) hull.lo = lo;
        if (hi > hull.hi) hull.hi = hi;
    }
    return meet(span, hull);
}

// Whether rows have to be looked at cell by cell, their spans not saying it all.
inline bool has_holes(const Call &call) { return call.runs.count > 1 || call.nodes > 0; }

inline void keep_runs(const Runs &runs, int64_t b, int64_t i, int64_t j0, int64_t count, uint8_t *keep) {
    __builtin_memset(keep, 0, size_t(count));
    const int64_t first = b * runs.batch + i * runs.row;
    for (int32_t k = 0; k < runs.count; ++k) {
        const Span part = meet({runs.lo[first + k] - j0, runs.hi[first + k] - j0}, {0, count});
        if (part.lo < part.hi) __builtin_memset(keep + part.lo, 1, size_t(part.hi - part.lo));
    }
}

inline void keep_node(const MaskNode &node, int64_t b, int64_t h, int64_t i, int64_t pos, int64_t j0, int64_t count,
                      uint8_t *keep) {
    const Plane &plane = node.plane;
    const uint8_t *cells = static_cast<const uint8_t *>(plane.data) + b * plane.batch + h * plane.head;
    switch (node.kind) {
    case MaskKind::runs:
        keep_runs(node.runs, b, i, j0, count, keep);
        return;
    case MaskKind::dense:
        cells += i * plane.row + j0 * plane.column;
        for (int64_t j = 0; j < count; ++j) keep[j] = cells[j * plane.column] != 0;
        return;
    case MaskKind::blocks:
        if (node.placed) {
            if (pos < 0 || pos / node.size >= node.placed) {
                __builtin_memset(keep, 0, size_t(count));
                return;
            }
            i = pos;
        }
        cells += i / node.size * plane.row;
        for (int64_t j = 0; j < count;) {
            const int64_t tile = (j0 + j) / node.size, left = (tile + 1) * node.size - (j0 + j);
            const int64_t n = left < count - j ? left : count - j;
            __builtin_memset(keep + j, cells[tile * plane.column] != 0, size_t(n));
            j += n;
        }
        return;
    case MaskKind::equal: {
        const int64_t id = node.q_ids[b * node.q_batch + i];
        const int64_t *ids = node.k_ids + b * node.k_batch + j0;
        for (int64_t j = 0; j < count; ++j) keep[j] = ids[j] == id;
        return;
    }
    case MaskKind::all_of:
    case MaskKind::any_of:
        return;
    }
}

// Keys j0 .. j0 + count of one row, cell by cell, within its span.
inline void keep_row(const Call &call, int64_t b, int64_t h, int64_t i, Span span, int64_t j0, int64_t count,
                     uint8_t *keep) {
    if (call.nodes == 0) {
        keep_runs(call.runs, b, i, j0, count, keep);
    } else {
        uint8_t stack[kMaxDepth][KEYS];
        int top = 0;
        for (int32_t n = 0; n < call.nodes; ++n) {
            const MaskNode &node = call.mask[n];
            if (node.kind != MaskKind::all_of && node.kind != MaskKind::any_of) {
                keep_node(node, b, h, i, call.q_start[b] + i, j0, count, stack[top++]);
                continue;
            }
            --top;
            uint8_t *into = stack[top - 1];
            for (int64_t j = 0; j < count; ++j)
                into[j] = node.kind == MaskKind::all_of ? into[j] & stack[top][j] : into[j] | stack[top][j];
        }
        __builtin_memcpy(keep, stack[0], size_t(count));
        if (call.runs.count > 1) { // one run is in the span
            keep_runs(call.runs, b, i, j0, count, stack[1]);
            for (int64_t j = 0; j < count; ++j) keep[j] &= stack[1][j];
        }
    }
    const Span inside = meet({span.lo - j0, span.hi - j0}, {0, count});
    const int64_t lo = inside.lo < inside.hi ? inside.lo : count, hi = inside.lo < inside.hi ? inside.hi : count;
    __builtin_memset(keep, 0, size_t(lo));
    __builtin_memset(keep + hi, 0, size_t(count - hi));
}

constexpr int64_t TILE = 4 * ROWS;      // rows that are scored together
constexpr int64_t BACK_ROWS = 2 * TILE; // in the backward pass

// The columns of a block of keys that a tile of rows is scored on, and how they are hidden.
struct Sight {
    int64_t c0, c1; // columns [c0, c1) of the block, whole vectors from a whole panel on; empty where no row sees any
    bool whole;     // every row sees every column
    bool cells;     // `keep` [rows][KEYS] says which
    Span row[BACK_ROWS]; // where not whole: what each row sees at most
};

// The rows and columns that a step of a product needs: of some columns the rows that see one, or the other way round.
inline Span rows_that_see(const Sight &sight, int64_t n, int64_t c, int64_t across) {
    if (sight.whole) return {0, n};
    Span found{0, n};
    while (found.lo < n && (sight.row[found.lo].lo >= c + across || sight.row[found.lo].hi <= c)) ++found.lo;
    while (found.hi > found.lo && (sight.row[found.hi - 1].lo >= c + across || sight.row[found.hi - 1].hi <= c))
        --found.hi;
    return found;
}

inline Span columns_seen(const Sight &sight, int64_t r, int64_t n) {
    if (sight.whole) return {sight.c0, sight.c1};
    Span found{sight.c1, sight.c0};
    for (int64_t end = r + n; r < end; ++r) {
        const Span part = meet(sight.row[r], {sight.c0, sight.c1});
        if (part.lo >= part.hi) continue;
        if (part.lo < found.lo) found.lo = part.lo / PANEL * PANEL;
        if (part.hi > found.hi) found.hi = part.hi;
    }
    return found;
}

// Of some rows those from the first to the last whose span has something of the keys [j0, j0 + count).
inline Span near_rows(const Span *spans, Span rows, int64_t j0, int64_t count) {
    const auto apart = [&](Span span) { return span.lo >= span.hi || span.lo >= j0 + count || span.hi <= j0; };
    while (rows.lo < rows.hi && apart(spans[rows.lo])) ++rows.lo;
    while (rows.lo < rows.hi && apart(spans[rows.hi - 1])) --rows.hi;
    return rows;
}

// The columns of a block that a row may see: of its span, what its runs reach.
inline Span part_of(const Call &call, int64_t b, int64_t i, Span span, int64_t j0, int64_t count) {
    const Span part = meet({span.lo - j0, span.hi - j0}, {0, count});
    if (call.runs.count < 2 || part.lo >= part.hi) return part;
    const int64_t first = b * call.runs.batch + i * call.runs.row;
    Span hull{count, 0};
    for (int32_t k = 0; k < call.runs.count; ++k) {
        const Span run = meet({call.runs.lo[first + k] - j0, call.runs.hi[first + k] - j0}, part);
        if (run.lo >= run.hi) continue;
        if (run.lo < hull.lo) hull.lo = run.lo;
        if (run.hi > hull.hi) hull.hi = run.hi;
    }
    return hull;
}

// Rows [0, rows) of a tile with their spans, against the block of `count` keys that begins at j0.
inline Sight sight_of(const Call &call, int64_t b, const int32_t *head, const int32_t *query, const Span *spans,
                      int64_t rows, int64_t j0, int64_t count, uint8_t *keep) {
    int64_t lo = count, hi = 0, last_lo = 0, first_hi = count;
    Sight sight;
    for (int64_t r = 0; r < rows; ++r) {
        const Span part = sight.row[r] = part_of(call, b, query[r], spans[r], j0, count);
        if (part.lo >= part.hi) {
            last_lo = count;
            continue;
        }
        if (part.lo < lo) lo = part.lo;
        if (part.hi > hi) hi = part.hi;
        if (part.lo > last_lo) last_lo = part.lo;
        if (part.hi < first_hi) first_hi = part.hi;
    }
    sight.c0 = lo / PANEL * PANEL;
    sight.c1 = up(hi, LANES);
    sight.whole = last_lo <= sight.c0 && first_hi >= sight.c1;
    sight.cells = false;
    if (lo >= hi) sight.c0 = sight.c1 = 0;
    if (lo >= hi || !has_holes(call)) return sight;
    uint8_t some[KEYS] = {}; // whether some row sees a column
    for (int64_t r = 0; r < rows; ++r) {
        uint8_t *row = keep + r * KEYS;
        keep_row(call, b, head[r], query[r], spans[r], j0, count, row);
        for (int64_t j = lo; j < hi; ++j) some[j] |= row[j];
    }
    while (lo < hi && !some[lo]) ++lo;
    while (lo < hi && !some[hi - 1]) --hi;
    sight.c0 = lo < hi ? lo / PANEL * PANEL : 0;
    sight.c1 = lo < hi ? up(hi, LANES) : 0;
    uint8_t every = sight.c1 <= count;
    for (int64_t r = 0; every && r < rows; ++r)
        for (int64_t j = sight.c0; j < sight.c1; ++j) every &= keep[r * KEYS + j];
    sight.whole = every;
    sight.cells = !every;
    return sight;
}

// Writes -inf over what a row of scores does not see; the score of column c is at s[c].
inline void hide(const Sight &sight, Span span, int64_t j0, int64_t count, const uint8_t *keep, float *s) {
    if (sight.cells) {
        const int64_t end = sight.c1 < count ? sight.c1 : count;
        for (int64_t c = sight.c0; c < end; ++c) s[c] = keep[c] ? s[c] : -kInf;
        for (int64_t c = end; c < sight.c1; ++c) s[c] = -kInf;
        return;
    }
    const Span inside = meet({span.lo - j0, span.hi - j0}, {sight.c0, sight.c1});
    if (inside.lo >= inside.hi) {
        for (int64_t c = sight.c0; c < sight.c1; ++c) s[c] = -kInf;
        return;
    }
    for (int64_t c = sight.c0; c < inside.lo; ++c) s[c] = -kInf;
    for (int64_t c = inside.hi; c < sight.c1; ++c) s[c] = -kInf;
}
