// Backward: the gradients of an item, by what is known of its rows. A tile of scores is made again, turned into p and
// into dS = p * (dO V^T - against), and serves all its products. A block of keys is outermost, so its dK and dV are
// complete, and in one order, once the rows have gone by.

inline bool wants_rules(const Backward &back) {
    for (const Plane &rule : back.rule)
        if (rule.data) return true;
    return false;
}

inline bool wants_scores(const Backward &back) { return back.q.data || back.k.data || wants_rules(back); }

// 0 where row r of an operand times `scale` is finite, else NaN; `room` holds it as floats.
inline vf strange_row(const Operand &x, const Rows &rows, int64_t r, int64_t width, float scale, float *room) {
    const char *from = at_row(x, rows, r);
    HEADWISE_BY_DTYPE(x.dtype, widen_row, from, width, scale, room, up(width, LANES))
    vf nothing = {};
    for (int64_t e = 0; e < width; e += LANES) nothing = madd(load(room + e), vf{}, nothing);
    return nothing;
}

// Finds out of each tile of rows which keys it sees, and whether operands of rows that see one are finite.
inline void survey_rows(const Call &call, const Backward &back, BackwardRoom &w) {
    for (int64_t r0 = 0, t = 0; r0 < w.rows.count; r0 += BACK_ROWS, ++t) {
        const int64_t behind = w.rows.count - r0 < BACK_ROWS ? w.rows.count : r0 + BACK_ROWS;
        Span hull{call.S, 0};
        for (int64_t r = r0; r < behind; ++r) {
            const Span span = w.rows.span[r];
            if (span.lo >= span.hi) continue;
            if (span.lo < hull.lo) hull.lo = span.lo;
            if (span.hi > hull.hi) hull.hi = span.hi;
        }
        w.hull[t] = hull;
        vf nothing = {};
        for (int64_t r = r0; hull.lo < hull.hi && r < behind; ++r) {
            nothing += strange_row(call.q, w.rows, r, call.D, w.in_q, w.p);
            if (back.grad_out.data) nothing += strange_row(back.grad_out, w.rows, r, call.E, 1.0f, w.p);
        }
        w.strange[t] = sum_of(nothing) != 0.0f;
    }
}

// The scores of a tile into w.p, -inf where hidden. False where a soft cap met what is not finite, hidden or not.
inline bool score_tile(const Tile &tile) {
    const Call &call = tile.call;
    BackwardRoom &w = tile.w;
    const Sight &sight = tile.sight;
    if (is_few(call, w.rows.kv)) // one tile holds them all
        score_few(call, w.rows, tile.r0, tile.n, tile.block.j0, tile.block.count, sight, w.p);
    else if (PAIRS && w.pairs)
        score_pairs(call, w.rows.q, w.rows.q_row, tile.n, w.keys, sight, w.p);
    else
        score_packed(call, w.rows.q, w.rows.q_row, tile.n, w.keys, sight, w.p, w.rows.scale);
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

// One row from scores and products to the weights of its values (in p) and dS (in grad). What is not finite shows in
// the sum that comes back, except where CAREFUL: then hidden cells are 0, and the others what they are.
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
    const auto take = [&](int64_t c, auto many) {
        constexpr int N = decltype(many)::value;
        vf s[N], x[N];
#pragma GCC unroll 8
        for (int n = 0; n < N; ++n) {
            s[n] = load(p + c + n * LANES);
            x[n] = s[n] - peak;
        }
        exp_each<N>(x);
#pragma GCC unroll 8
        for (int n = 0; n < N; ++n) {
            const int64_t at = c + n * LANES;
            vf weight = x[n] * share;
            if (CAREFUL) weight = s[n] == -kInf ? vf{} : weight;
            if (SCORES) {
                vf ds = load(grad + at);
                if (DROP) ds *= load(w.survivors + at);
                ds = weight * (ds - against);
                if (CAREFUL) ds = s[n] == -kInf ? vf{} : ds;
                nothing = madd(ds, vf{}, nothing);
                store(grad + at, ds);
            }
            if (DROP) weight *= load(w.survivors + at);
            if (!SCORES) nothing = madd(weight, vf{}, nothing);
            store(p + at, weight);
        }
    };
    int64_t c = tile.sight.c0;
    for (; c + WIDE * LANES <= tile.sight.c1; c += WIDE * LANES) take(c, Many<WIDE>());
    for (; c < tile.sight.c1; c += LANES) take(c, Many<1>());
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
    if (CAREFUL) {
        add_strange(tile, grad_q);
        clean_rows(tile);
    }
    if (PAIRS && w.pairs)
        add_products<MulPairs>(tile, grad_q);
    else
        add_products<MulFloats>(tile, grad_q);
    return true;
}

// The rows of an item against one block of keys, whose dK and dV come out.
inline void backward_block(const Call &call, const Backward &back, const Item &item, BackwardRoom &w, int64_t j0,
                           int64_t count, float *grad_q) {
    const int64_t d_row = up(call.D, LANES), e_row = up(call.E, LANES);
    const bool scores = wants_scores(back);
    if (back.k.data) __builtin_memset(w.grad_k, 0, size_t(count * d_row) * 4);
    if (back.v.data) __builtin_memset(w.grad_v, 0, size_t(count * e_row) * 4);
    Block block{};
    bool ready = false;
    for (int64_t r0 = 0, t = 0; r0 < w.rows.count; r0 += BACK_ROWS, ++t) {
        if (w.hull[t].lo >= j0 + count || w.hull[t].hi <= j0) continue;
        const int64_t n = w.rows.count - r0 < BACK_ROWS ? w.rows.count - r0 : BACK_ROWS;
        const Sight sight =
            sight_of(call, item.b, w.rows.head + r0, w.rows.query + r0, w.rows.span + r0, n, j0, count, w.keep);
        if (sight.c0 >= sight.c1) continue;
        if (!ready) block = fetch_block(call, w, j0, count, scores && back.grad_out.data);
        ready = true;
        fetch_rows(call, back, w, r0, n);
        const Tile tile{call, back, item, w, block, r0, n, sight};
        const bool strange = w.strange[t] || !block.finite;
        if (strange || !take_back<false>(tile, scores, grad_q)) take_back<true>(tile, scores, grad_q);
    }
    for (int64_t x = 0; back.k.data && w.rows.scale != 1.0f && x < count * d_row; x += LANES)
        store(w.grad_k + x, load(w.grad_k + x) * w.rows.scale);
    for (int64_t j = 0; j < count; ++j) {
        if (back.k.data)
            narrow_row(w.grad_k + j * d_row, call.D, const_cast<char *>(at(back.k, item.b, item.kv, j0 + j)),
                       back.k.dtype);
        if (back.v.data)
            narrow_row(w.grad_v + j * e_row, call.E, const_cast<char *>(at(back.v, item.b, item.kv, j0 + j)),
                       back.v.dtype);
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

// rowsum(dO * O) of up to LANES rows, a lane each; a gradient of 0 asks nothing of an output that is not finite. In the
// order of products_with_values of floats: where a row is all on one key, dO O^T and dO V^T cancel to nothing.
template <Dtype DTYPE>
inline void row_sums(const char *grad, int64_t grad_row, const char *out, int64_t out_row, int64_t n, int64_t width,
                     float *found) {
    constexpr int64_t size = DTYPE == Dtype::f32 ? 4 : 2;
    vf sum = {}, chain = {};
    for (int64_t e = 0; e < width; e += LANES) {
        vf x[LANES] = {}, y[LANES] = {};
        const int64_t across = width - e;
        const auto take = [&](const char *from) {
            return across < LANES ? widen_first<DTYPE>(from + e * size, across) : widen<DTYPE>(from + e * size);
        };
        for (int64_t r = 0; r < n; ++r) {
            x[r] = take(grad + r * grad_row * size);
            y[r] = take(out + r * out_row * size);
            y[r] = x[r] == 0.0f ? vf{} : y[r];
        }
        transpose(x);
        transpose(y);
        for (int64_t d = 0; d < LANES && d < across; ++d) chain = madd(x[d], y[d], chain);
        if ((e + LANES) % CHAIN) continue;
        sum += chain;
        chain = vf{};
    }
    store(found, sum + chain);
}

// What the rows of (b, h) are measured against, their share, and what their sink gets.
void prepare(const Call &call, const Backward &back, int64_t b, int64_t h) {
    double sink = 0.0;
    for (int64_t i = 0; i < call.T; i += LANES) {
        const int64_t row = (b * call.H + h) * call.T + i, n = call.T - i < LANES ? call.T - i : LANES;
        float against[LANES] = {};
        if (back.grad_out.data) {
            const char *grad = at(back.grad_out, b, h, i), *out = at(back.out, b, h, i);
            HEADWISE_BY_DTYPE(back.out.dtype, row_sums, grad, back.grad_out.row, out, back.out.row, n, call.E, against)
        }
        for (int64_t r = 0; r < n; ++r) {
            if (back.grad_lse) against[r] -= back.grad_lse[row + r];
            back.against[row + r] = against[r];
            back.share[row + r] = exp_of(-back.facts.log_total[row + r]);
            if (call.sinks && back.facts.max_logit[row + r] != -kInf)
                sink -= double(exp_of(call.sinks[h] - back.facts.peak[row + r]) * back.share[row + r] * against[r]);
        }
    }
    if (back.sink_sums) back.sink_sums[b * call.H + h] = sink;
}

// Rows of dQ of the query heads that read (b, kv), from `parts` stretches of keys, each `part` floats behind the last.
void write_queries(const Call &call, const Backward &back, int64_t b, int64_t kv, const float *from, int64_t parts,
                   int64_t part) {
    const int64_t d_row = up(call.D, LANES), first = call.first[kv], rows = (call.first[kv + 1] - first) * call.T;
    float row[kMaxWidth];
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t d = 0; d < d_row; d += LANES) {
            vf sum = load(from + r * d_row + d);
            for (int64_t p = 1; p < parts; ++p) sum += load(from + p * part + r * d_row + d);
            store(row + d, sum * call.scale);
        }
        narrow_row(row, call.D, const_cast<char *>(at(back.q, b, call.order[first + r / call.T], r % call.T)),
                   back.q.dtype);
    }
}
