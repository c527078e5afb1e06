// Backward, the score rules: dS through them, the last one first, and what their tensors get.

// What a rule's parameter gets from one row of gradients: into a sum of doubles, or, where a bias has an axis of rows
// and one of keys, into its gradient itself.
inline void give_slopes(const Call &call, const Rule &rule, const Place &at, const float *grad, double *sum) {
    const double near = rule.q_at ? rule.q_at[at.b * rule.q_batch + at.i] : double(at.pos - at.j0);
    const double *keys = rule.q_at ? rule.k_at + at.b * rule.k_batch + at.j0 : nullptr;
    double parts[4] = {};
    for (int64_t c = at.c0; c < last_column(call, at); ++c)
        parts[c & 3] -= double(grad[c]) * __builtin_fabs(near - (keys ? keys[c] : double(c)));
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
    case RuleKind::soft_cap:
        return;
    case RuleKind::slopes:
        give_slopes(call, call.rule[n], at, grad, sums + part * call.T + at.i);
        return;
    case RuleKind::table:
        give_table(call, call.rule[n], at, grad, sums + part * call.rule[n].length);
        return;
    case RuleKind::bias:
        if (into.column == 0)
            sums += part * call.T + at.i;
        else if (into.row == 0)
            sums += head * call.S + at.j0;
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
