// Forward: out and row facts of an item, one block of keys after the other (the online softmax).

// Scratch of an item, cut from one piece of memory.
struct Room {
    char *free;
    template <class T> T *take(int64_t count) {
        T *here = reinterpret_cast<T *>(free);
        free += up(count * int64_t(sizeof(T)), 64);
        return here;
    }
};

// Scores that are kept for whoever asks about them: that of row r and key j at data + r * row + j - key0, for keys of
// whole blocks [key0, key1). What no tile was scored for is not written.
struct Kept {
    float *data; // null: nobody asks
    int64_t row, key0, key1;
};

struct ForwardRoom {
    Rows rows;
    Running *running;
    float *o, *keys, *values, *scores;
    int32_t *strange;
    uint8_t *keep, *seen;
    Kept kept;
    Call *staged; // the call over one block of keys and values that were laid out; null: they are read where they are
    float *staged_keys, *staged_values;
};

inline ForwardRoom forward_room(const Call &call, int64_t rows, char *scratch, int64_t *bytes) {
    Room room{scratch};
    ForwardRoom w{};
    w.rows.head = room.take<int32_t>(rows);
    w.rows.query = room.take<int32_t>(rows);
    w.rows.span = room.take<Span>(rows);
    w.rows.q = room.take<float>(rows * up(call.D, LANES));
    w.running = room.take<Running>(rows);
    w.o = room.take<float>(rows * up(call.E, LANES));
    w.keys = room.take<float>(up(KEYS, PANEL) * call.D);
    w.values = room.take<float>(KEYS * up(call.E, LANES));
    w.scores = room.take<float>(TILE * LINE);
    w.strange = room.take<int32_t>(KEYS);
    w.keep = room.take<uint8_t>(TILE * KEYS);
    w.seen = room.take<uint8_t>(TILE * KEYS);
    if (is_stored(call.k_store) || is_stored(call.v_store)) {
        w.staged = room.take<Call>(1);
        w.staged_keys = room.take<float>(KEYS * call.D);
        w.staged_values = room.take<float>(KEYS * call.E);
    }
    if (bytes) *bytes = room.free - scratch;
    return w;
}

int64_t forward_scratch(const Call &call, int64_t rows) {
    int64_t bytes = 0;
    forward_room(call, rows, nullptr, &bytes);
    return bytes;
}

// What a visible value that is not finite adds, on top of the product with it taken out: by IEEE, 0 * inf included. A
// weight below exp(-87.7) is 0 here, so its inf gives NaN where a subnormal weight would leave inf.
inline void add_strange(const Call &call, const Rows &rows, const Values &values, int64_t j0, const uint8_t *seen,
                        const float *p, float *o) {
    for (int64_t x = 0; x < values.strangers; ++x) {
        if (!seen[x]) continue;
        const int64_t j = values.strange[x];
        const char *from = at(call.v, rows.b, rows.kv, j0 + j);
        for (int64_t e = 0; e < call.E; ++e) {
            const float v = widen_one(from, call.v.dtype, e);
            if (!(v * 0.0f == 0.0f)) o[e] += p[j] * v;
        }
    }
}

inline void pack_keys(const Call &call, const Rows &rows, int64_t j0, int64_t count, float *to) {
    const char *from = at(call.k, rows.b, rows.kv, j0);
    if (PAIRS && rows.pairs) {
        pack_pairs(from, call.k.row, count, call.D, to);
        return;
    }
    HEADWISE_BY_DTYPE(call.k.dtype, pack_transposed, from, call.k.row, count, call.D, to)
}

inline Values take_values(const Call &call, const Rows &rows, int64_t j0, int64_t count, const ForwardRoom &w) {
    if (PAIRS && call.v.dtype == Dtype::bf16)
        return paired_values(call, rows.b, rows.kv, j0, count, w.values, w.strange);
    return values_of(call, rows.b, rows.kv, j0, count, w.values, w.strange);
}

// o += weights values for rows [r0, r0 + n), a few rows at a time where they see different columns: weights of 0 before
// and behind those that a row sees change nothing.
inline void mix(const Call &call, ForwardRoom &w, int64_t r0, int64_t n, int64_t count, const Sight &sight,
                const Values &values) {
    const int64_t o_row = up(call.E, LANES), step = sight.whole ? n : ROWS;
    for (int64_t r = 0; r < n; r += step) {
        const int64_t rows = n - r < step ? n - r : step;
        const Span seen = columns_seen(sight, r, rows);
        const int64_t c0 = seen.lo, end = seen.hi < count ? seen.hi : count;
        if (c0 >= end) continue;
        float *o = w.o + (r0 + r) * o_row, *p = w.scores + r * LINE;
        if (!PAIRS || !values.pairs) {
            product<MulFloats, true>(rows, o_row, end - c0, p + c0, LINE, 1, values.data + c0 * values.row, values.row,
                                     o, o_row);
            continue;
        }
        for (int64_t i = 0; i < rows; ++i) // c0 is whole panels; behind `end` the weights are 0 up to a whole vector
            for (int64_t c = c0; c < end; c += 2 * LANES) pair_up(p + i * LINE + c, p + i * LINE + c / 2);
        product<MulPairs, true>(rows, o_row, (end - c0 + 1) / 2, p + c0 / 2, LINE, 1, values.data + c0 / 2 * values.row,
                                values.row, o, o_row);
    }
}

// Rows [r0, r0 + n) take in what they see of a block: scores to weights to o.
template <bool SPREAD>
inline void take_tile(const Call &call, ForwardRoom &w, int64_t r0, int64_t n, int64_t j0, int64_t count,
                      const Sight &sight, const Values &values) {
    const int64_t o_row = up(call.E, LANES);
    for (int64_t r = 0; r < n; ++r)
        for (int64_t x = 0; x < values.strangers; ++x)
            w.seen[r * KEYS + x] = values.strange[x] >= sight.c0 && values.strange[x] < sight.c1 &&
                                   w.scores[r * LINE + values.strange[x]] != -kInf;
    soften<SPREAD>(w.scores, n, sight.c0, sight.c1, w.running + r0, w.o + r0 * o_row, call.v.data ? o_row : 0);
    if (call.threshold)
        for (int64_t r = 0; r < n; ++r) drop(call, place_of(call, w.rows, r0 + r, j0, sight), w.scores + r * LINE);
    if (!call.v.data) return;
    for (int64_t r = 0; values.strangers && r < n; ++r)
        add_strange(call, w.rows, values, j0, w.seen + r * KEYS, w.scores + r * LINE, w.o + (r0 + r) * o_row);
    mix(call, w, r0, n, count, sight, values);
}

inline void keep_scores(const ForwardRoom &w, int64_t r0, int64_t n, int64_t j0, const Sight &sight) {
    for (int64_t r = 0; r < n; ++r)
        __builtin_memcpy(w.kept.data + (r0 + r) * w.kept.row + j0 - w.kept.key0 + sight.c0,
                         w.scores + r * LINE + sight.c0, size_t(sight.c1 - sight.c0) * 4);
}

template <bool SPREAD> void forward_rows(const Call &given, ForwardRoom &w, bool few) {
    const Rows &rows = w.rows;
    const Call &call = w.staged ? *w.staged : given;
    if (w.staged) *w.staged = given;
    for (int64_t j0 = rows.hull.lo / KEYS * KEYS; j0 < rows.hull.hi; j0 += KEYS) {
        const int64_t count = given.S - j0 < KEYS ? given.S - j0 : KEYS;
        if (w.staged) stage(given, *w.staged, rows.b, rows.kv, j0, count, w.staged_keys, w.staged_values);
        bool ready = false;
        Values values{};
        for (int64_t tile = 0; tile < rows.count; tile += TILE) {
            Span near{tile, rows.count - tile < TILE ? rows.count : tile + TILE};
            if (!w.kept.data) near = near_rows(rows.span, near, j0, count); // who asks, asks about whole tiles
            const int64_t r0 = near.lo, n = near.hi - near.lo;
            if (n == 0) continue;
            const Sight sight =
                sight_of(call, rows.b, rows.head + r0, rows.query + r0, rows.span + r0, n, j0, count, w.keep);
            if (sight.c0 >= sight.c1) continue;
            if (few) {
                score_few(call, rows, r0, n, j0, count, sight, w.scores);
            } else {
                const float *q = rows.q + r0 * rows.q_row;
                if (!ready) pack_keys(call, rows, j0, count, w.keys);
                if (PAIRS && rows.pairs)
                    score_pairs(call, q, rows.q_row, n, w.keys, sight, w.scores);
                else
                    score_packed(call, q, rows.q_row, n, w.keys, sight, w.scores, rows.scale);
            }
            if (!ready && call.v.data) values = take_values(call, rows, j0, count, w);
            ready = true;
            finish_scores(call, rows, r0, n, j0, count, sight, w.keep, w.scores);
            if (w.kept.data && j0 >= w.kept.key0 && j0 < w.kept.key1) keep_scores(w, r0, n, j0, sight);
            take_tile<SPREAD>(call, w, r0, n, j0, count, sight, values);
        }
    }
}

void forward(const Call &call, const Item &item, const Operand &out, const Facts &facts, const Parts &parts,
             void *scratch) {
    ForwardRoom w = forward_room(call, item.row1 - item.row0, static_cast<char *>(scratch), nullptr);
    set_rows(call, item, w.rows);
    set_queries(call, w.rows, in_pairs(call));
    const int64_t o_row = up(call.E, LANES);
    for (int64_t r = 0; r < w.rows.count; ++r) w.running[r] = {-kInf, 0.0f, 0.0f};
    if (call.v.data) __builtin_memset(w.o, 0, size_t(w.rows.count * o_row) * 4);
    const bool few = is_few(call, item.kv);
    if (facts.entropy)
        forward_rows<true>(call, w, few);
    else
        forward_rows<false>(call, w, few);
    for (int64_t r = 0; r < w.rows.count; ++r) {
        const int64_t h = w.rows.head[r], i = w.rows.query[r];
        const int64_t row = (item.b * call.H + h) * call.T + i;
        if (parts.parts > 1) {
            const int64_t at = item.part * call.B * call.H * call.T + row;
            parts.largest[at] = w.running[r].largest;
            parts.total[at] = w.running[r].total;
            parts.spread[at] = w.running[r].spread;
            if (call.v.data) __builtin_memcpy(parts.o + at * call.E, w.o + r * o_row, size_t(call.E) * 4);
            continue;
        }
        const Finished end = finish(call, h, w.running[r]);
        write_facts(facts, row, end);
        if (call.v.data) write_out(call, out, item.b, h, i, end, w.o + r * o_row);
    }
}

void merge(const Call &call, int64_t b, int64_t h, const Operand &out, const Facts &facts, const Parts &parts) {
    const int64_t rows = call.B * call.H * call.T;
    float o[kMaxWidth];
    for (int64_t i = 0; i < call.T; ++i) {
        const int64_t row = (b * call.H + h) * call.T + i;
        Running sum{-kInf, 0.0f, 0.0f};
        for (int64_t e = 0; e < up(call.E, LANES); ++e) o[e] = 0.0f;
        for (int64_t p = 0; p < parts.parts; ++p) {
            const int64_t at = p * rows + row;
            Running part{parts.largest[at], parts.total[at], parts.spread[at]};
            if (part.largest == -kInf && part.total == 0.0f) continue;
            float top = sum.largest >= part.largest ? sum.largest : part.largest;
            if (sum.total != sum.total && sum.largest != kInf) top = sum.total; // a NaN is above +inf too
            if (part.total != part.total && part.largest != kInf) top = part.total;
            const float keep = sum.largest == -kInf ? 0.0f : exp_of(sum.largest - top),
                        join = exp_of(part.largest - top);
            if (sum.largest != -kInf) sum.spread = (sum.spread + sum.total * (top - sum.largest)) * keep;
            sum.spread += (part.spread + part.total * (top - part.largest)) * join;
            sum.total = sum.total * keep + part.total * join;
            sum.largest = top;
            for (int64_t e = 0; call.v.data && e < call.E; ++e) o[e] = o[e] * keep + parts.o[at * call.E + e] * join;
        }
        const Finished end = finish(call, h, sum);
        write_facts(facts, row, end);
        if (call.v.data) write_out(call, out, b, h, i, end, o);
    }
}
