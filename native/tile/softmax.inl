// The online softmax of one row, and what is left of a row at its end.

// A row while its keys are coming in: sums are relative to `largest`.
struct Running {
    float largest; // of the scores; NaN once +inf and NaN met
    float total;   // sum of exp(s - largest)
    float spread;  // sum of exp(s - largest) * (largest - s), for the entropy
};

// Turns scores s [0, n) into exp(s - largest), n whole vectors; what was summed before shrinks with a new largest.
template <bool SPREAD> inline void soften(float *s, int64_t n, Running &row, float *o, int64_t o_width) {
    vf top[VECTORS];
    for (int v = 0; v < VECTORS; ++v) top[v] = splat(-kInf);
    int64_t c = 0;
    for (; c + PANEL <= n; c += PANEL)
#pragma GCC unroll 8
        for (int v = 0; v < VECTORS; ++v) top[v] = larger(load(s + c + v * LANES), top[v]);
    for (; c < n; c += LANES) top[0] = larger(load(s + c), top[0]);
    for (int v = 1; v < VECTORS; ++v) top[0] = larger(top[v], top[0]);
    const float found = largest_of(top[0]);
    if (found > row.largest) {
        if (row.largest != -kInf) {
            const float less = found - row.largest, shrink = exp_of(-less);
            if (SPREAD) row.spread = (row.spread + row.total * less) * shrink;
            row.total *= shrink;
            for (int64_t e = 0; e < o_width; e += LANES) store(o + e, load(o + e) * shrink);
        }
        row.largest = found;
    }
    if (row.largest == kInf)
        for (c = 0; c < n; ++c)
            if (s[c] != s[c]) row.largest = s[c];
    const float base = row.largest == -kInf ? 0.0f : row.largest;
    vf sum[VECTORS] = {}, spread[VECTORS] = {};
    const auto take = [&](float *at, int v) {
        const vf x = load(at) - base;
        const vf p = exp_of(x);
        store(at, p);
        sum[v] += p;
        if (SPREAD) spread[v] = madd(p, x < kLowest ? vf{} : x, spread[v]);
    };
    for (c = 0; c + PANEL <= n; c += PANEL)
#pragma GCC unroll 8
        for (int v = 0; v < VECTORS; ++v) take(s + c + v * LANES, v);
    for (; c < n; c += LANES) take(s + c, int((c / LANES) % VECTORS));
    for (int v = 1; v < VECTORS; ++v) {
        sum[0] += sum[v];
        if (SPREAD) spread[0] += spread[v];
    }
    row.total += sum_of(sum[0]);
    if (SPREAD) row.spread -= sum_of(spread[0]);
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
inline void write_out(const Call &call, const Operand &out, int64_t b, int64_t h, int64_t i, const Finished &end, float *o) {
    const bool empty = end.max_logit == -kInf && end.factor == 0.0f;
    for (int64_t e = 0; e < up(call.E, LANES); e += LANES) store(o + e, empty ? vf{} : load(o + e) * end.factor);
    narrow_row(o, call.E, const_cast<char *>(at(out, b, h, i)), out.dtype);
}
