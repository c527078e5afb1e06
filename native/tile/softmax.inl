// The online softmax of a tile's rows, and what is left of a row at its end.

// A row while its keys are coming in: sums are relative to `largest`.
struct Running {
    float largest; // of the scores; may be NaN once a score was
    float total;   // sum of exp(s - largest)
    float spread;  // sum of exp(s - largest) * (largest - s), for the entropy
};

constexpr int WIDE = VECTORS < 4 ? 2 * VECTORS : VECTORS; // vectors of exponentials at once
template <int N> struct Many {
    static constexpr int value = N;
};

// The largest of each of `rows` vectors, or their sums.
template <bool SUM> inline void across(const vf *x, int64_t rows, float *to) {
    for (int64_t r = 0; r < rows; r += LANES) {
        vf some[LANES];
#pragma GCC unroll 16
        for (int n = 0; n < LANES; ++n) some[n] = r + n < rows ? x[r + n] : vf{};
        store(to + r, fold_each<SUM>(some));
    }
}

// Takes the scores of n rows of a tile in: columns [c0, c1) become exp(s - largest), c0 on a panel, c1 on a vector.
// What had been summed shrinks with a new largest.
template <bool SPREAD>
inline void soften(float *scores, int64_t n, int64_t c0, int64_t c1, Running *rows, float *o, int64_t o_width) {
    vf part[TILE];
    float found[TILE + LANES];
    for (int64_t r = 0; r < n; ++r) {
        const float *s = scores + r * LINE;
        vf top[VECTORS];
        for (int v = 0; v < VECTORS; ++v) top[v] = splat(-kInf);
        int64_t c = c0;
        for (; c + PANEL <= c1; c += PANEL)
#pragma GCC unroll 8
            for (int v = 0; v < VECTORS; ++v) top[v] = larger(load(s + c + v * LANES), top[v]);
        for (; c < c1; c += LANES) top[0] = larger(load(s + c), top[0]);
        for (int v = 1; v < VECTORS; ++v) top[0] = larger(top[v], top[0]);
        part[r] = top[0];
    }
    across<false>(part, n, found);
    vf less[TILE];
    for (int64_t r = 0; r < n; ++r) {
        Running &row = rows[r];
        float *s = scores + r * LINE;
        if (found[r] > row.largest) {
            if (row.largest != -kInf) {
                const float rise = found[r] - row.largest, shrink = exp_of(-rise);
                if (SPREAD) row.spread = (row.spread + row.total * rise) * shrink;
                row.total *= shrink;
                for (int64_t e = 0; e < o_width; e += LANES)
                    store(o + r * o_width + e, load(o + r * o_width + e) * shrink);
            }
            row.largest = row.total == row.total ? found[r] : row.total; // a NaN of before is above +inf too
        }
        if (row.largest == kInf)
            for (int64_t c = c0; c < c1; ++c)
                if (s[c] != s[c]) row.largest = s[c];
        const float base = row.largest == -kInf ? 0.0f : row.largest;
        vf sum[VECTORS] = {}, spread[VECTORS] = {};
        // Each column adds to the sum of its own place in a panel, however many are taken at once.
        const auto take = [&](int64_t c, auto many) {
            constexpr int N = decltype(many)::value;
            vf x[N], p[N];
#pragma GCC unroll 8
            for (int n = 0; n < N; ++n) x[n] = p[n] = load(s + c + n * LANES) - base;
            exp_each<N>(p);
#pragma GCC unroll 8
            for (int n = 0; n < N; ++n) {
                store(s + c + n * LANES, p[n]);
                sum[n % VECTORS] += p[n];
                if (SPREAD) spread[n % VECTORS] = madd(p[n], larger(splat(kLowest), x[n]), spread[n % VECTORS]);
            }
        };
        int64_t c = c0;
        for (; c + WIDE * LANES <= c1; c += WIDE * LANES) take(c, Many<WIDE>());
        for (; c + PANEL <= c1; c += PANEL) take(c, Many<VECTORS>());
        for (int v = 0; c < c1; c += LANES, ++v) {
            vf x = load(s + c) - base, p = exp_of(x);
            store(s + c, p);
            sum[v] += p;
            if (SPREAD) spread[v] = madd(p, larger(splat(kLowest), x), spread[v]);
        }
        for (int v = 1; v < VECTORS; ++v) {
            sum[0] += sum[v];
            if (SPREAD) spread[0] += spread[v];
        }
        part[r] = sum[0];
        if (SPREAD) less[r] = spread[0];
    }
    across<true>(part, n, found);
    for (int64_t r = 0; r < n; ++r) rows[r].total += found[r];
    if (!SPREAD) return;
    across<true>(less, n, found);
    for (int64_t r = 0; r < n; ++r) rows[r].spread -= found[r];
}

// The final numbers of a row, and the factor that turns sums into means.
struct Finished {
    float max_logit, peak, log_total, lse, entropy, factor;
};

inline Finished finish(const Call &call, int64_t h, const Running &row) {
    const bool nan = row.total != row.total;
    if (row.largest == -kInf && !nan) return {-kInf, 0.0f, 0.0f, -kInf, 0.0f, 0.0f};
    Finished end{};
    end.max_logit = nan && row.largest != kInf ? row.total : row.largest;
    end.peak = row.largest;
    float share = 1.0f, total = row.total;
    if (call.sinks) {
        const float sink = call.sinks[h];
        if (!(sink <= end.peak)) end.peak = sink;
        share = exp_of(row.largest - end.peak);
        total = total * share + exp_of(sink - end.peak);
    }
    end.log_total = __builtin_logf(total);
    end.lse = end.peak + end.log_total;
    end.factor = share / total;
    // -sum p log p with p = exp(s - largest) * factor; a sink takes its part of the sum of p.
    end.entropy = row.spread * end.factor + row.total * end.factor * (end.log_total + (end.peak - row.largest));
    if (nan) end.peak = end.lse = end.entropy = row.total;
    return end;
}

inline void write_facts(const Facts &facts, int64_t at, const Finished &end) {
    if (facts.max_logit) facts.max_logit[at] = end.max_logit;
    if (facts.peak) facts.peak[at] = end.peak;
    if (facts.log_total) facts.log_total[at] = end.log_total;
    if (facts.lse) facts.lse[at] = end.lse;
    if (facts.entropy) facts.entropy[at] = end.entropy;
}

// out = o * factor, in the dtype of the output; an empty row is zeros whatever o holds.
inline void write_out(const Call &call, const Operand &out, int64_t b, int64_t h, int64_t i, const Finished &end,
                      float *o) {
    const bool empty = end.max_logit == -kInf && end.factor == 0.0f;
    for (int64_t e = 0; e < up(call.E, LANES); e += LANES) store(o + e, empty ? vf{} : load(o + e) * end.factor);
    narrow_row(o, call.E, const_cast<char *>(at(out, b, h, i)), out.dtype);
}
