// Backward, a tile: rows against a block of keys, their operands and their products. In floats; or in pairs of bf16
// where the processor multiplies those, p and dS rounded to bf16 then; or cell by cell where what is hidden is not
// finite.

constexpr int64_t BACK_KEYS = KEYS / 2; // keys of a block

// An operand of a tile's rows, as the products want it.
struct Side {
    float *rows;  // for products along the width: floats, or pairs of neighbours in a row
    float *lines; // for sums over rows: the same floats, or pairs of neighbouring rows
};

struct BackwardRoom {
    bool pairs;
    float in_q; // the scale, where the floats of q are times it; else 1, and scores and dK get it after their sums
    Rows rows;
    Span *hull;               // of a tile's rows
    uint8_t *strange;         // a tile with a query or a gradient that is not finite
    Side q, grad_out;         // of the tile
    float *keys, *values;     // of the block, packed by pack_transposed or pack_pairs
    float *lines;             // its keys as they are: floats, or pairs of neighbouring keys
    float *grad_k, *grad_v;   // of the block
    float *p, *grad, *capped; // [BACK_ROWS][LINE] each, `capped` once for each soft cap: what it made of the scores
    float *survivors;         // of one row
    uint8_t *keep, *seen;
};

inline int64_t soft_caps(const Call &call) {
    int64_t caps = 0;
    for (int32_t n = 0; n < call.rules; ++n) caps += call.rule[n].kind == RuleKind::soft_cap;
    return caps;
}

inline Side take_side(Room &room, bool pairs, int64_t width) {
    float *rows = room.take<float>(BACK_ROWS * up(pairs ? width / 2 : width, LANES));
    return {rows, pairs ? room.take<float>(BACK_ROWS / 2 * up(width, LANES)) : rows};
}

inline BackwardRoom backward_room(const Call &call, int64_t rows, char *scratch, int64_t *bytes) {
    Room room{scratch};
    BackwardRoom w{};
    const int64_t tiles = (rows + BACK_ROWS - 1) / BACK_ROWS, d_row = up(call.D, LANES), e_row = up(call.E, LANES);
    w.pairs = in_pairs(call) && call.E % 2 == 0;
    w.in_q = call.q.dtype == Dtype::f32 ? call.scale : 1.0f; // as in set_queries
    w.rows.scale = call.q.dtype == Dtype::f32 ? 1.0f : call.scale;
    w.rows.head = room.take<int32_t>(rows);
    w.rows.query = room.take<int32_t>(rows);
    w.rows.span = room.take<Span>(rows);
    w.hull = room.take<Span>(tiles);
    w.strange = room.take<uint8_t>(tiles);
    w.q = take_side(room, w.pairs, call.D);
    w.rows.q = w.q.rows; // those of the tile
    w.rows.q_row = up(w.pairs ? call.D / 2 : call.D, LANES);
    w.rows.pairs = w.pairs;
    w.grad_out = take_side(room, w.pairs, call.E);
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
    const float *lines; // its keys, `line` from one (or one pair) to the next; what is not finite is taken out
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

// A row of an operand like q, of the r-th row of an item.
inline const char *at_row(const Operand &x, const Rows &rows, int64_t r) {
    return at(x, rows.b, rows.head[r], rows.query[r]);
}

inline void fetch_side(const Operand &x, const Rows &rows, int64_t r0, int64_t n, int64_t width, float scale,
                       const Side &to) {
    const int64_t padded = up(width, LANES);
    for (int64_t r = 0; r < n; ++r) {
        const char *from = at_row(x, rows, r0 + r);
        HEADWISE_BY_DTYPE(x.dtype, widen_row, from, width, scale, to.rows + r * padded, padded)
    }
}

inline void fetch_pairs(const Operand &x, const Rows &rows, int64_t r0, int64_t n, int64_t width, const Side &to) {
    const int64_t padded = up(width / 2, LANES);
    for (int64_t r = 0; r < n; ++r) {
        __builtin_memset(to.rows + r * padded, 0, size_t(padded) * 4);
        __builtin_memcpy(to.rows + r * padded, at_row(x, rows, r0 + r), size_t(width) * 2);
    }
    pair_lines([&](int64_t r) { return at_row(x, rows, r0 + r); }, n, width, to.lines);
}

// Queries and output gradients of rows [r0, r0 + n).
inline void fetch_rows(const Call &call, const Backward &back, BackwardRoom &w, int64_t r0, int64_t n) {
    if (w.pairs) {
        fetch_pairs(call.q, w.rows, r0, n, call.D, w.q);
        if (back.grad_out.data) fetch_pairs(back.grad_out, w.rows, r0, n, call.E, w.grad_out);
        return;
    }
    fetch_side(call.q, w.rows, r0, n, call.D, w.in_q, w.q);
    if (back.grad_out.data) fetch_side(back.grad_out, w.rows, r0, n, call.E, 1.0f, w.grad_out);
}

// Writes 0 over what is not finite in lines that `fetch_rows` or `fetch_block` made: floats, or pairs of bf16.
inline void clean(float *lines, int64_t count, bool pairs) {
    uint16_t *halves = reinterpret_cast<uint16_t *>(lines);
    for (int64_t x = 0; pairs && x < 2 * count; ++x) {
        uint16_t half;
        __builtin_memcpy(&half, halves + x, 2);
        if ((half & 0x7f80) == 0x7f80) __builtin_memset(halves + x, 0, 2);
    }
    for (int64_t x = 0; !pairs && x < count; ++x)
        if (!(lines[x] * 0.0f == 0.0f)) lines[x] = 0.0f;
}

inline void clean_rows(const Tile &tile) {
    BackwardRoom &w = tile.w;
    const int64_t lines = w.pairs ? (tile.n + 1) / 2 : tile.n;
    clean(w.q.lines, lines * up(tile.call.D, LANES), w.pairs);
    if (tile.back.grad_out.data) clean(w.grad_out.lines, lines * up(tile.call.E, LANES), w.pairs);
}

// `values`: whether they are wanted.
inline Block fetch_block(const Call &call, BackwardRoom &w, int64_t j0, int64_t count, bool values) {
    const int64_t d_row = up(call.D, LANES);
    const char *k = at(call.k, w.rows.b, w.rows.kv, j0), *v = values ? at(call.v, w.rows.b, w.rows.kv, j0) : nullptr;
    Block block{j0, count, w.lines, d_row, true};
    if (w.pairs) {
        pack_pairs(k, call.k.row, count, call.D, w.keys);
        if (values) pack_pairs(v, call.v.row, count, call.E, w.values);
        block.finite = pair_lines([&](int64_t j) { return k + j * call.k.row * 2; }, count, call.D, w.lines);
        if (!block.finite) clean(w.lines, (count + 1) / 2 * d_row, true);
        return block;
    }
    HEADWISE_BY_DTYPE(call.k.dtype, pack_transposed, k, call.k.row, count, call.D, w.keys)
    if (values) HEADWISE_BY_DTYPE(call.v.dtype, pack_transposed, v, call.v.row, count, call.E, w.values)
    if (call.k.dtype == Dtype::f32 && call.D == d_row) {
        block.lines = reinterpret_cast<const float *>(k);
        block.line = call.k.row;
        block.finite = finite_block(block.lines, block.line, count, call.D);
        if (block.finite) return block;
    }
    HEADWISE_BY_DTYPE(call.k.dtype, widen_rows, k, call.k.row, count, call.D, w.lines, d_row)
    block.finite = finite_block(w.lines, d_row, count, d_row);
    if (!block.finite) clean(w.lines, count * d_row, false);
    block.lines = w.lines;
    block.line = d_row;
    return block;
}

// dO V^T of a tile into w.grad, from rows of `width` elements.
template <class Mul> inline void products_with_values(const Tile &tile, const float *rows, int64_t width) {
    const int64_t row = up(width, LANES);
    BackwardRoom &w = tile.w;
    for (int64_t c = tile.sight.c0; c < tile.sight.c1; c += PANEL) {
        const int64_t across = tile.sight.c1 - c < PANEL ? tile.sight.c1 - c : PANEL;
        const float *panel = w.values + c * width;
        product<Mul, false>(tile.n, across, width < CHAIN ? width : CHAIN, rows, row, 1, panel, PANEL, w.grad + c,
                            LINE);
        for (int64_t e = CHAIN; e < width; e += CHAIN)
            product<Mul, true>(tile.n, across, width - e < CHAIN ? width - e : CHAIN, rows + e, row, 1,
                               panel + e * PANEL, PANEL, w.grad + c, LINE);
    }
}

inline void products_with_values(const Tile &tile) {
    BackwardRoom &w = tile.w;
    if (!tile.back.grad_out.data)
        for (int64_t r = 0; r < tile.n; ++r) __builtin_memset(w.grad + r * LINE, 0, size_t(tile.sight.c1) * 4);
    else if (PAIRS && w.pairs)
        products_with_values<MulPairs>(tile, w.grad_out.rows, tile.call.E / 2);
    else
        products_with_values<MulFloats>(tile, w.grad_out.rows, tile.call.E);
}

// The same for visible cells whose product is not finite: a gradient of 0 asks nothing of a value, whatever that is.
inline void mend_products(const Tile &tile) {
    const Call &call = tile.call;
    const Operand &grad_out = tile.back.grad_out;
    BackwardRoom &w = tile.w;
    for (int64_t r = 0; grad_out.data && r < tile.n; ++r)
        for (int64_t c = tile.sight.c0; c < tile.end(); ++c) {
            float &cell = w.grad[r * LINE + c];
            if (!w.seen[r * KEYS + c] || cell * 0.0f == 0.0f) continue;
            const char *value = at(call.v, w.rows.b, w.rows.kv, tile.block.j0 + c),
                       *grad = at_row(grad_out, w.rows, tile.r0 + r);
            cell = 0.0f;
            for (int64_t e = 0; e < call.E; ++e) {
                const float x = widen_one(grad, grad_out.dtype, e);
                if (x != 0.0f) cell += x * widen_one(value, call.v.dtype, e);
            }
        }
}

// Rows 2 r and 2 r + 1 of floats become row r of pairs, in place.
inline void pair_up_rows(float *x, int64_t n, int64_t c0, int64_t c1) {
    float both[2 * LANES];
    for (int64_t r = 0; r < n; r += 2)
        for (int64_t c = c0; c < c1; c += LANES) {
            const vf low = load(x + r * LINE + c), high = r + 1 < n ? load(x + (r + 1) * LINE + c) : vf{};
            vf first, second;
            interleave(low, high, first, second);
            store(both, first);
            store(both + LANES, second);
            pair_up(both, x + r / 2 * LINE + c);
        }
}

// The products of a tile: dV += P^T dO, dQ += dS K, dK += dS^T Q. P and dS are used up.
template <class Mul> inline void add_products(const Tile &tile, float *grad_q) {
    const Call &call = tile.call;
    BackwardRoom &w = tile.w;
    const int64_t c0 = tile.sight.c0, keys = tile.end() - c0, d_row = up(call.D, LANES), e_row = up(call.E, LANES);
    const int64_t rows = (tile.n + Mul::width - 1) / Mul::width;
    const bool pairs = Mul::width == 2;
    if (tile.back.v.data && tile.back.grad_out.data) {
        if (pairs) pair_up_rows(w.p, tile.n, c0, tile.sight.c1);
        product<Mul, true>(keys, e_row, rows, w.p + c0, 1, LINE, w.grad_out.lines, e_row, w.grad_v + c0 * e_row, e_row);
    }
    if (grad_q) { // behind the last key dS is 0 up to a whole vector
        float *left = pairs ? w.p + c0 / 2 : w.grad + c0;
        for (int64_t r = 0; pairs && r < tile.n; ++r)
            for (int64_t c = 0; c < keys; c += 2 * LANES) pair_up(w.grad + r * LINE + c0 + c, left + r * LINE + c / 2);
        product<Mul, true>(tile.n, d_row, (keys + Mul::width - 1) / Mul::width, left, LINE, 1,
                           tile.block.lines + c0 / Mul::width * tile.block.line, tile.block.line,
                           grad_q + tile.r0 * d_row, d_row);
    }
    if (tile.back.k.data) {
        if (pairs) pair_up_rows(w.grad, tile.n, c0, tile.sight.c1);
        product<Mul, true>(keys, d_row, rows, w.grad + c0, 1, LINE, w.q.lines, d_row, w.grad_k + c0 * d_row, d_row);
    }
}

// to += weight * x where x, a row of an operand times `scale`, is not finite; true where it was nowhere.
inline bool add_strange(const char *x, Dtype dtype, int64_t width, float scale, float weight, float *to) {
    bool finite = true;
    for (int64_t e = 0; e < width; ++e) {
        const float number = widen_one(x, dtype, e) * scale;
        if (number * 0.0f == 0.0f) continue;
        to[e] += weight * number;
        finite = false;
    }
    return finite;
}

// What the products leave out, and only visible cells get: by IEEE, 0 * inf included.
inline void add_strange(const Tile &tile, float *grad_q) {
    const Call &call = tile.call;
    const Backward &back = tile.back;
    BackwardRoom &w = tile.w;
    const int64_t d_row = up(call.D, LANES), e_row = up(call.E, LANES);
    bool finite_key[BACK_KEYS] = {}; // as far as is known
    for (int64_t r = 0; r < tile.n; ++r) {
        const char *q = at_row(call.q, w.rows, tile.r0 + r);
        const char *grad_out = back.grad_out.data ? at_row(back.grad_out, w.rows, tile.r0 + r) : nullptr;
        bool finite_q = !back.k.data, finite_grad = !back.v.data || !grad_out;
        for (int64_t c = tile.sight.c0; c < tile.end(); ++c) {
            if (!w.seen[r * KEYS + c]) continue;
            const char *k = at(call.k, w.rows.b, w.rows.kv, tile.block.j0 + c);
            const float weight = w.p[r * LINE + c], grad = w.grad[r * LINE + c];
            if (!finite_grad)
                finite_grad = add_strange(grad_out, back.grad_out.dtype, call.E, 1.0f, weight, w.grad_v + c * e_row);
            if (!finite_q) finite_q = add_strange(q, call.q.dtype, call.D, w.in_q, grad, w.grad_k + c * d_row);
            if (grad_q && !finite_key[c])
                finite_key[c] = add_strange(k, call.k.dtype, call.D, 1.0f, grad, grad_q + (tile.r0 + r) * d_row);
        }
    }
}
