// Backward: the gradients of an item, by what is known of its rows. A tile of scores is made again, turned into p and
// into dS = p * (dO V^T - against), and serves all its products. A block of keys is outermost, so its dK and dV are
// complete, and in one order, once the rows have gone by.

constexpr int64_t BACK_ROWS = 2 * TILE; // rows of a tile
constexpr int64_t BACK_KEYS = KEYS / 2; // keys of a block

struct BackwardRoom {
    Rows rows;
    Span *hull;                  // of a tile's rows
    uint8_t *strange;            // a tile with a query or a gradient that is not finite
    float *q, *grad_out;         // of the tile, floats; q times the scale
    float *keys, *values, *lines; // of the block: packed by pack_transposed twice, and keys as they are
    float *grad_k, *grad_v;      // of the block
    float *p, *grad, *capped;    // [BACK_ROWS][LINE] each, `capped` once for each soft cap: what it made of the scores
    float *survivors;            // of one row
    uint8_t *keep, *seen;
};

inline int64_t soft_caps(const Call &call) {
    int64_t caps = 0;
    for (int32_t n = 0; n < call.rules; ++n) caps += call.rule[n].kind == RuleKind::soft_cap;
    return caps;
}

inline BackwardRoom backward_room(const Call &call, int64_t rows, char *scratch, int64_t *bytes) {
    Room room{scratch};
    BackwardRoom w{};
    const int64_t tiles = (rows + BACK_ROWS - 1) / BACK_ROWS, d_row = up(call.D, LANES), e_row = up(call.E, LANES);
    w.rows.head = room.take<int32_t>(rows);
    w.rows.query = room.take<int32_t>(rows);
    w.rows.span = room.take<Span>(rows);
    w.hull = room.take<Span>(tiles);
    w.strange = room.take<uint8_t>(tiles);
    w.q = room.take<float>(BACK_ROWS * d_row);
    w.grad_out = room.take<float>(BACK_ROWS * e_row);
    w.keys = room.take<float>(BACK_KEYS * call.D);
    w.values = room.take<float>(BACK_KEYS * call.E);
    w.lines = room.take<float>(BACK_KEYS * d_row);
    w.grad_k = room.take<float>(BACK_KEYS * d_row);
    w.grad_v = room.take<float>(BACK_KEYS * e_row);
    w.p = room.take<float>(BACK_ROWS * LINE);
    w.grad = room.take<float>(BACK_ROWS * LINE);
    w.capped = room.take<float>(soft_caps(call) * BACK_ROWS * LINE);
    w.survivors = room.take<float>(LINE);
    w.keep = room.take<uint8_t>(BACK_ROWS * KEYS);
    w.seen = room.take<uint8_t>(BACK_ROWS * KEYS);
    if (bytes) *bytes = room.free - scratch;
    return w;
}

int64_t backward_scratch(const Call &call, int64_t rows) {
    int64_t bytes = 0;
    backward_room(call, rows, nullptr, &bytes);
    return bytes;
}

// The block of keys that is at work.
struct Block {
    int64_t j0, count;
    const float *lines; // keys as floats, `line` from one to the next
    int64_t line;
    bool finite;
};

// Rows [r0, r0 + n) against a block.
struct Tile {
    const Call &call;
    const Backward &back;
    const Item &item;
    BackwardRoom &w;
    const Block &block;
    int64_t r0, n;
    Sight sight;

    Place place(int64_t r) const { return place_of(call, w.rows, r0 + r, block.j0, sight); }
    int64_t row(int64_t r) const { return (item.b * call.H + w.rows.head[r0 + r]) * call.T + w.rows.query[r0 + r]; }
    int64_t end() const { return sight.c1 < block.count ? sight.c1 : block.count; } // behind its last key
};

inline bool wants_rules(const Backward &back) {
    for (const Plane &rule : back.rule)
        if (rule.data) return true;
    return false;
}

inline bool wants_scores(const Backward &back) { return back.q.data || back.k.data || wants_rules(back); }

// Queries and output gradients of rows [r0, r0 + n) as floats.
inline void fetch_rows(const Call &call, const Backward &back, BackwardRoom &w, int64_t r0, int64_t n) {
    const int64_t d_row = up(call.D, LANES), e_row = up(call.E, LANES);
    for (int64_t r = 0; r < n; ++r) {
        const int64_t h = w.rows.head[r0 + r], i = w.rows.query[r0 + r];
        const char *q = at(call.q, w.rows.b, h, i);
        HEADWISE_BY_DTYPE(call.q.dtype, widen_row, q, call.D, call.scale, w.q + r * d_row, d_row)
        if (!back.grad_out.data) continue;
        const char *grad = at(back.grad_out, w.rows.b, h, i);
        HEADWISE_BY_DTYPE(back.grad_out.dtype, widen_row, grad, call.E, 1.0f, w.grad_out + r * e_row, e_row)
    }
}

// Finds out of each tile of rows which keys it sees, and whether its operands are finite.
inline void survey_rows(const Call &call, const Backward &back, BackwardRoom &w) {
    const int64_t d_row = up(call.D, LANES), e_row = up(call.E, LANES);
    for (int64_t r0 = 0, t = 0; r0 < w.rows.count; r0 += BACK_ROWS, ++t) {
        const int64_t n = w.rows.count - r0 < BACK_ROWS ? w.rows.count - r0 : BACK_ROWS;
        Span hull{call.S, 0};
        for (int64_t r = r0; r < r0 + n; ++r) {
            const Span span = w.rows.span[r];
            if (span.lo >= span.hi) continue;
            if (span.lo < hull.lo) hull.lo = span.lo;
            if (span.hi > hull.hi) hull.hi = span.hi;
        }
        w.hull[t] = hull;
        fetch_rows(call, back, w, r0, n);
        w.strange[t] = !finite_block(w.q, d_row, n, d_row) || (back.grad_out.data && !finite_block(w.grad_out, e_row, n, e_row));
    }
}

inline Block fetch_block(const Call &call, const Backward &back, BackwardRoom &w, int64_t j0, int64_t count) {
    const int64_t d_row = up(call.D, LANES);
    const char *keys = at(call.k, w.rows.b, w.rows.kv, j0);
    HEADWISE_BY_DTYPE(call.k.dtype, pack_transposed, keys, call.k.row, count, call.D, w.keys)
    if (back.grad_out.data && wants_scores(back)) {
        const char *values = at(call.v, w.rows.b, w.rows.kv, j0);
        HEADWISE_BY_DTYPE(call.v.dtype, pack_transposed, values, call.v.row, count, call.E, w.values)
    }
    Block block{j0, count, reinterpret_cast<const float *>(keys), call.k.row, true};
    if (call.k.dtype != Dtype::f32 || call.D != d_row) {
        HEADWISE_BY_DTYPE(call.k.dtype, widen_rows, keys, call.k.row, count, call.D, w.lines, d_row)
        block.lines = w.lines;
        block.line = d_row;
    }
    block.finite = finite_block(block.lines, block.line, count, call.D);
    return block;
}

// The scores of a tile into w.p, -inf where hidden. False where a soft cap met what is not finite, hidden or not.
inline bool score_tile(const Tile &tile) {
    const Call &call = tile.call;
    BackwardRoom &w = tile.w;
    const Sight &sight = tile.sight;
    score_packed(call, w.q, up(call.D, LANES), tile.n, w.keys, sight, w.p);
    vf nothing = {};
    for (int64_t r = 0; call.rules && r < tile.n; ++r) {
        const Place place = tile.place(r);
        float *s = w.p + r * LINE, *capped = w.capped + r * LINE;
        for (int32_t n = 0; n < call.rules; ++n) {
            apply_rule(call, call.rule[n], place, s);
            if (call.rule[n].kind != RuleKind::soft_cap) continue;
            for (int64_t c = sight.c0; c < sight.c1; c += LANES) {
                store(capped + c, load(s + c));
                nothing = madd(load(s + c), vf{}, nothing);
            }
            capped += BACK_ROWS * LINE;
        }
        if (call.rules > 1) hide_by_bias(call, place, s);
    }
    if (!sight.whole)
        for (int64_t r = 0; r < tile.n; ++r)
            hide(sight, w.rows.span[tile.r0 + r], tile.block.j0, tile.block.count, w.keep + r * KEYS, w.p + r * LINE);
    return sum_of(nothing) == 0.0f;
}

// dO V^T of a tile into w.grad; 0 without a gradient of the output.
inline void products_with_values(const Tile &tile) {
    const Call &call = tile.call;
    BackwardRoom &w = tile.w;
    const int64_t e_row = up(call.E, LANES);
    for (int64_t c = tile.sight.c0; c < tile.sight.c1; c += PANEL) {
        const int64_t across = tile.sight.c1 - c < PANEL ? tile.sight.c1 - c : PANEL;
        if (tile.back.grad_out.data)
            product<MulFloats, false>(tile.n, across, call.E, w.grad_out, e_row, 1, w.values + c * call.E, PANEL, w.grad + c, LINE);
        else
            for (int64_t r = 0; r < tile.n; ++r) __builtin_memset(w.grad + r * LINE + c, 0, size_t(across) * 4);
    }
}

// The same for visible cells whose product is not finite: a gradient of 0 asks nothing of a value, whatever that is.
inline void mend_products(const Tile &tile) {
    const Call &call = tile.call;
    BackwardRoom &w = tile.w;
    for (int64_t r = 0; tile.back.grad_out.data && r < tile.n; ++r)
        for (int64_t c = tile.sight.c0; c < tile.end(); ++c) {
            float &cell = w.grad[r * LINE + c];
            if (!w.seen[r * KEYS + c] || cell * 0.0f == 0.0f) continue;
            const char *value = at(call.v, w.rows.b, w.rows.kv, tile.block.j0 + c);
            const float *grad = w.grad_out + r * up(call.E, LANES);
            cell = 0.0f;
            for (int64_t e = 0; e < call.E; ++e)
                if (grad[e] != 0.0f) cell += grad[e] * widen_one(value, call.v.dtype, e);
        }
}

// One row from scores and products to the weights of its values (in p) and dS (in grad). What is not finite shows in the
// sum that comes back, except where CAREFUL: then hidden cells are 0, and the others what they are.
template <bool CAREFUL, bool SCORES, bool DROP> inline vf weigh_row(const Tile &tile, int64_t r) {
    BackwardRoom &w = tile.w;
    const int64_t row = tile.row(r);
    const float peak = tile.back.facts.peak[row], share = tile.back.share[row], against = tile.back.against[row];
    float *p = w.p + r * LINE, *grad = w.grad + r * LINE;
    if (DROP) {
        for (int64_t c = tile.sight.c0; c < tile.sight.c1; ++c) w.survivors[c] = 1.0f;
        drop(tile.call, tile.place(r), w.survivors);
    }
    vf nothing = {};
    for (int64_t c = tile.sight.c0; c < tile.sight.c1; c += LANES) {
        const vf s = load(p + c);
        vf weight = exp_of(s - peak) * share;
        if (CAREFUL) weight = s == -kInf ? vf{} : weight;
        if (SCORES) {
            vf x = load(grad + c);
            if (DROP) x *= load(w.survivors + c);
            x = weight * (x - against);
            if (CAREFUL) x = s == -kInf ? vf{} : x;
            nothing = madd(x, vf{}, nothing);
            store(grad + c, x);
        }
        if (DROP) weight *= load(w.survivors + c);
        if (!SCORES) nothing = madd(weight, vf{}, nothing);
        store(p + c, weight);
    }
    return nothing;
}

template <bool CAREFUL> inline bool weigh_tile(const Tile &tile, bool scores) {
    vf nothing = {};
    for (int64_t r = 0; r < tile.n; ++r)
        if (tile.call.threshold)
            nothing += scores ? weigh_row<CAREFUL, true, true>(tile, r) : weigh_row<CAREFUL, false, true>(tile, r);
        else
            nothing += scores ? weigh_row<CAREFUL, true, false>(tile, r) : weigh_row<CAREFUL, false, false>(tile, r);
    return sum_of(nothing) == 0.0f;
}

// What a rule's parameter gets from one row of gradients: into a sum of doubles, or, where a bias has an axis of rows
// and one of keys, into its gradient itself.
inline void give_slopes(const Call &call, const Place &at, const float *grad, double *sum) {
    const double near = double(at.pos - at.j0);
    double parts[4] = {};
    for (int64_t c = at.c0; c < last_column(call, at); ++c) parts[c & 3] -= double(grad[c]) * __builtin_fabs(near - double(c));
    *sum += (parts[0] + parts[1]) + (parts[2] + parts[3]);
}

inline void give_table(const Call &call, const Rule &rule, const Place &at, const float *grad, double *table) {
    const int64_t shift = at.j0 - at.pos + rule.zero, last = rule.length - 1, end = last_column(call, at);
    double before = 0.0, behind = 0.0;
    int64_t c = at.c0;
    for (; c < end && c + shift < 0; ++c) before += double(grad[c]);
    const int64_t inside = last - shift + 1 < end ? last - shift + 1 : end;
    for (; c < inside; ++c) table[c + shift] += double(grad[c]);
    for (; c < end; ++c) behind += double(grad[c]);
    table[0] += before;
    table[last] += behind;
}

inline void give_bias(const Call &call, const Plane &into, const Place &at, const float *grad, double *sums) {
    const int64_t end = last_column(call, at);
    if (into.column == 0) {
        double sum = 0.0;
        for (int64_t c = at.c0; c < end; ++c) sum += double(grad[c]);
        *sums += sum;
    } else if (into.row == 0) {
        for (int64_t c = at.c0; c < end; ++c) sums[c] += double(grad[c]);
    } else {
        float *cells = static_cast<float *>(const_cast<void *>(into.data)) + plane_row(into, at);
        for (int64_t c = at.c0; c < end; ++c) cells[c * into.column] += grad[c];
    }
}

inline void give(const Tile &tile, int32_t n, const Place &at, const float *grad) {
    const Call &call = tile.call;
    const Plane &into = tile.back.rule[n];
    const int64_t head = at.b * call.H + at.h, part = tile.item.part * call.B * call.H + head;
    double *sums = tile.back.sums[n];
    switch (call.rule[n].kind) {
    case RuleKind::soft_cap: return;
    case RuleKind::slopes: give_slopes(call, at, grad, sums + part * call.T + at.i); return;
    case RuleKind::table: give_table(call, call.rule[n], at, grad, sums + part * call.rule[n].length); return;
    case RuleKind::bias:
        if (into.column == 0) sums += part * call.T + at.i;
        else if (into.row == 0) sums += head * call.S + at.j0;
        give_bias(call, into, at, grad, sums);
        return;
    }
}

// dS through the rules, the last one first, back to the gradient of q.k * scale.
template <bool CAREFUL> inline void pull_rules(const Tile &tile) {
    const Call &call = tile.call;
    BackwardRoom &w = tile.w;
    const int64_t caps = soft_caps(call);
    for (int64_t r = 0; r < tile.n; ++r) {
        const Place place = tile.place(r);
        float *grad = w.grad + r * LINE;
        const float *capped = w.capped + caps * BACK_ROWS * LINE + r * LINE;
        for (int32_t n = call.rules; n-- > 0;) {
            const Rule &rule = call.rule[n];
            if (tile.back.rule[n].data) give(tile, n, place, grad);
            if (rule.kind != RuleKind::soft_cap) continue;
            capped -= BACK_ROWS * LINE;
            for (int64_t c = place.c0; c < place.c1; c += LANES) {
                const vf y = load(capped + c) / rule.cap;
                store(grad + c, load(grad + c) * (1.0f - y * y));
            }
            for (int64_t c = place.c0; CAREFUL && c < place.c1; ++c)
                if (!w.seen[r * KEYS + c]) grad[c] = 0.0f;
        }
    }
}

// The products of a tile: dV += P^T dO, dK += dS^T Q, dQ += dS K.
inline void add_products(const Tile &tile, float *grad_q) {
    const Call &call = tile.call;
    BackwardRoom &w = tile.w;
    const int64_t c0 = tile.sight.c0, keys = tile.end() - c0, d_row = up(call.D, LANES), e_row = up(call.E, LANES);
    if (tile.back.v.data && tile.back.grad_out.data)
        product<MulFloats, true>(keys, e_row, tile.n, w.p + c0, 1, LINE, w.grad_out, e_row, w.grad_v + c0 * e_row, e_row);
    if (tile.back.k.data)
        product<MulFloats, true>(keys, d_row, tile.n, w.grad + c0, 1, LINE, w.q, d_row, w.grad_k + c0 * d_row, d_row);
    if (grad_q)
        product<MulFloats, true>(tile.n, d_row, keys, w.grad + c0, LINE, 1, tile.block.lines + c0 * tile.block.line,
                                 tile.block.line, grad_q + tile.r0 * d_row, d_row);
}

inline void add_row(float weight, const float *from, int64_t width, float *to) {
    for (int64_t x = 0; x < width; x += LANES) store(to + x, madd(splat(weight), load(from + x), load(to + x)));
}

// The same, visible cells only, where an operand holds what is not finite: 0 times that would reach what is hidden.
inline void add_seen(const Tile &tile, float *grad_q) {
    const Call &call = tile.call;
    BackwardRoom &w = tile.w;
    const int64_t d_row = up(call.D, LANES), e_row = up(call.E, LANES);
    for (int64_t r = 0; r < tile.n; ++r)
        for (int64_t c = tile.sight.c0; c < tile.end(); ++c) {
            if (!w.seen[r * KEYS + c]) continue;
            const float weight = w.p[r * LINE + c], grad = w.grad[r * LINE + c];
            if (tile.back.v.data && tile.back.grad_out.data) add_row(weight, w.grad_out + r * e_row, e_row, w.grad_v + c * e_row);
            if (tile.back.k.data) add_row(grad, w.q + r * d_row, d_row, w.grad_k + c * d_row);
            if (grad_q) add_row(grad, tile.block.lines + c * tile.block.line, d_row, grad_q + (tile.r0 + r) * d_row);
        }
}

// Adds the part of one tile; false, and nothing done, where hidden cells need CAREFUL to stay out of it.
template <bool CAREFUL> inline bool take_back(const Tile &tile, bool scores, float *grad_q) {
    BackwardRoom &w = tile.w;
    const bool capped = score_tile(tile);
    if (!CAREFUL && !capped) return false;
    if (scores) products_with_values(tile);
    if (CAREFUL) {
        for (int64_t r = 0; r < tile.n; ++r)
            for (int64_t c = tile.sight.c0; c < tile.sight.c1; ++c) w.seen[r * KEYS + c] = w.p[r * LINE + c] != -kInf;
        if (scores) mend_products(tile);
    }
    const bool finite = weigh_tile<CAREFUL>(tile, scores);
    if (!CAREFUL && !finite) return false;
    if (scores) pull_rules<CAREFUL>(tile);
    if (CAREFUL)
        add_seen(tile, grad_q);
    else
        add_products(tile, grad_q);
    return true;
}

// The rows of an item against one block of keys, whose dK and dV come out.
inline void backward_block(const Call &call, const Backward &back, const Item &item, BackwardRoom &w, int64_t j0, int64_t count,
                           float *grad_q) {
    const int64_t d_row = up(call.D, LANES), e_row = up(call.E, LANES);
    const bool scores = wants_scores(back);
    if (back.k.data) __builtin_memset(w.grad_k, 0, size_t(count * d_row) * 4);
    if (back.v.data) __builtin_memset(w.grad_v, 0, size_t(count * e_row) * 4);
    Block block{};
    bool ready = false;
    for (int64_t r0 = 0, t = 0; r0 < w.rows.count; r0 += BACK_ROWS, ++t) {
        if (w.hull[t].lo >= j0 + count || w.hull[t].hi <= j0) continue;
        const int64_t n = w.rows.count - r0 < BACK_ROWS ? w.rows.count - r0 : BACK_ROWS;
        const Sight sight = sight_of(call, item.b, w.rows.head + r0, w.rows.query + r0, w.rows.span + r0, n, j0, count, w.keep);
        if (sight.c0 >= sight.c1) continue;
        if (!ready) block = fetch_block(call, back, w, j0, count);
        ready = true;
        fetch_rows(call, back, w, r0, n);
        const Tile tile{call, back, item, w, block, r0, n, sight};
        const bool strange = w.strange[t] || !block.finite;
        if (strange || !take_back<false>(tile, scores, grad_q)) take_back<true>(tile, scores, grad_q);
    }
    for (int64_t j = 0; j < count; ++j) {
        if (back.k.data) narrow_row(w.grad_k + j * d_row, call.D, const_cast<char *>(at(back.k, item.b, item.kv, j0 + j)), back.k.dtype);
        if (back.v.data) narrow_row(w.grad_v + j * e_row, call.E, const_cast<char *>(at(back.v, item.b, item.kv, j0 + j)), back.v.dtype);
    }
}

void backward(const Call &call, const Backward &back, const Item &item, float *grad_q, void *scratch) {
    BackwardRoom w = backward_room(call, item.row1 - item.row0, static_cast<char *>(scratch), nullptr);
    set_rows(call, item, w.rows);
    survey_rows(call, back, w);
    if (grad_q) __builtin_memset(grad_q, 0, size_t(w.rows.count * up(call.D, LANES)) * 4);
    for (int64_t j0 = item.key0; j0 < item.key1; j0 += BACK_KEYS)
        backward_block(call, back, item, w, j0, item.key1 - j0 < BACK_KEYS ? item.key1 - j0 : BACK_KEYS, grad_q);
}

// rowsum(dO * O) of a row; a gradient of 0 asks nothing of an output that is not finite.
template <Dtype DTYPE> inline void row_sum(const char *grad, const char *out, int64_t width, float &found) {
    constexpr int64_t size = DTYPE == Dtype::f32 ? 4 : 2;
    vf sum = {};
    for (int64_t e = 0; e < width; e += LANES) {
        const int64_t across = width - e;
        const vf x = across < LANES ? widen_first<DTYPE>(grad + e * size, across) : widen<DTYPE>(grad + e * size);
        const vf y = across < LANES ? widen_first<DTYPE>(out + e * size, across) : widen<DTYPE>(out + e * size);
        sum = madd(x, x == 0.0f ? vf{} : y, sum);
    }
    found = sum_of(sum);
}

// What the rows of (b, h) are measured against, their share, and what their sink gets.
void prepare(const Call &call, const Backward &back, int64_t b, int64_t h) {
    double sink = 0.0;
    for (int64_t i = 0; i < call.T; ++i) {
        const int64_t row = (b * call.H + h) * call.T + i;
        float against = 0.0f;
        if (back.grad_out.data) {
            const char *grad = at(back.grad_out, b, h, i), *out = at(back.out, b, h, i);
            HEADWISE_BY_DTYPE(back.out.dtype, row_sum, grad, out, call.E, against)
        }
        if (back.grad_lse) against -= back.grad_lse[row];
        back.against[row] = against;
        back.share[row] = exp_of(-back.facts.log_total[row]);
        if (call.sinks && back.facts.max_logit[row] != -kInf)
            sink -= double(exp_of(call.sinks[h] - back.facts.peak[row]) * back.share[row] * against);
    }
    if (back.sink_sums) back.sink_sums[b * call.H + h] = sink;
}

// Rows of dQ of the query heads that read (b, kv), from `parts` stretches of keys, each `part` floats behind the last.
void write_queries(const Call &call, const Backward &back, int64_t b, int64_t kv, const float *from, int64_t parts, int64_t part) {
    const int64_t d_row = up(call.D, LANES), first = call.first[kv], rows = (call.first[kv + 1] - first) * call.T;
    float row[kMaxWidth];
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t d = 0; d < d_row; d += LANES) {
            vf sum = load(from + r * d_row + d);
            for (int64_t p = 1; p < parts; ++p) sum += load(from + p * part + r * d_row + d);
            store(row + d, sum * call.scale);
        }
        narrow_row(row, call.D, const_cast<char *>(at(back.q, b, call.order[first + r / call.T], r % call.T)), back.q.dtype);
    }
}
