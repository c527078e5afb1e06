// Questions about chosen sets of cells: mass on targets, mass where labels agree, mass between segments.

inline void see_mass_on(const Call &call, const Question &question, const Shown &tile) {
    float *mass = question.out + tile.answer * call.T + tile.i;
    for (int64_t r = 0; r < tile.n; ++r) {
        const int64_t *targets = question.targets + tile.b * question.q_batch + (tile.i + r) * question.width;
        float sum = 0.0f;
        for (int64_t n = 0; n < question.width; ++n) {
            const int64_t c = targets[n] - tile.j0;
            if (c >= tile.c0 && c < tile.c1) sum += tile.p[r * LINE + c];
        }
        mass[r] += sum;
    }
}

inline void see_mass_where(const Call &call, const Question &question, const Shown &tile) {
    float *mass = question.out + tile.answer * call.T + tile.i;
    const int32_t *labels = question.q_labels + tile.b * question.q_batch + tile.i;
    const int32_t *of_keys = question.k_labels + tile.b * question.k_batch + tile.j0;
    for (int64_t r = 0; r < tile.n; ++r) {
        if (labels[r] < 0) continue;
        const float *p = tile.p + r * LINE;
        const int64_t before = tile.pos + r - tile.j0,
                      end = before < tile.c1 ? before : tile.c1; // keys before the query
        const vi label = splat_bits(labels[r]);
        vf sum = {};
        int64_t c = tile.c0;
        for (; c + LANES <= end; c += LANES) {
            const vi same = *reinterpret_cast<const vi *>(of_keys + c) == label;
            sum += (vf)(same & (vi)load(p + c));
        }
        float rest = sum_of(sum);
        for (; c < end; ++c)
            if (of_keys[c] == labels[r]) rest += p[c];
        mass[r] += rest;
    }
}

// Rows of a pass by the segment of their query: sums of p over the rows of each, for one block of keys at a time.
struct Groups {
    int32_t *of;           // [rows] which group, -1 = none
    int32_t *order;        // [rows] the rows of each tile, counted from its first, by their groups
    int32_t *label, *slot; // of a group: the segment, and which of the stretch's heads
    float *sums;           // [groups][KEYS]
    int32_t *cut;          // [KEYS + 1] of a block of keys: where runs of one segment begin
    int64_t count;
};

inline void begin_groups(const Question &question, const Rows &rows, int64_t each, Groups &groups) {
    const int32_t *labels = question.q_labels + rows.b * question.q_batch;
    groups.count = 0;
    for (int64_t r = 0; r < rows.count; ++r) {
        const int32_t label = labels[rows.query[r]], slot = int32_t(r / each);
        groups.of[r] = -1;
        if (label < 0) continue;
        int64_t found = groups.count - 1; // neighbours are often of one segment
        while (found >= 0 && (groups.label[found] != label || groups.slot[found] != slot)) --found;
        if (found < 0) {
            found = groups.count++;
            groups.label[found] = label;
            groups.slot[found] = slot;
        }
        groups.of[r] = int32_t(found);
    }
    for (int64_t r0 = 0, n; r0 < rows.count; r0 += n) {
        n = tile_rows(r0, each);
        for (int64_t r = 0; r < n; ++r) {
            int64_t at = r;
            for (; at > 0 && groups.of[r0 + groups.order[r0 + at - 1]] > groups.of[r0 + r]; --at)
                groups.order[r0 + at] = groups.order[r0 + at - 1];
            groups.order[r0 + at] = int32_t(r);
        }
    }
}

inline void clear_groups(Groups &groups) { __builtin_memset(groups.sums, 0, size_t(groups.count * KEYS) * 4); }

inline void see_segments(const Shown &tile, Groups &groups) {
    const int32_t *of = groups.of + tile.row, *order = groups.order + tile.row;
    for (int64_t r0 = 0, r1; r0 < tile.n; r0 = r1) {
        for (r1 = r0 + 1; r1 < tile.n && of[order[r1]] == of[order[r0]];) ++r1;
        if (of[order[r0]] < 0) continue;
        float *to = groups.sums + of[order[r0]] * KEYS;
        for (int64_t c = tile.c0; c < tile.c1; c += LANES) {
            vf sum = load(to + c);
            for (int64_t r = r0; r < r1; ++r) sum += load(tile.p + order[r] * LINE + c);
            store(to + c, sum);
        }
    }
}

inline float range_sum(const float *from, int64_t n) {
    float rest = 0.0f;
    if (n >= LANES) {
        vf sum = {};
        for (; n >= LANES; n -= LANES, from += LANES) sum += load(from);
        rest = sum_of(sum);
    }
    for (int64_t c = 0; c < n; ++c) rest += from[c];
    return rest;
}

// What the rows of each group gave to the keys of a block, added up by the keys' segments.
inline void add_groups(const Call &call, const Survey &survey, const Question &question, const Stretch &stretch,
                       int64_t j0, const Groups &groups, int64_t place) {
    const int32_t *labels = question.k_labels + stretch.b * question.k_batch + j0;
    const int64_t count = call.S - j0 < KEYS ? call.S - j0 : KEYS;
    int64_t runs = 0;
    for (int64_t c = 0; c < count; ++c)
        if (c == 0 || labels[c] != labels[c - 1]) groups.cut[runs++] = int32_t(c);
    groups.cut[runs] = int32_t(count);
    for (int64_t g = 0; g < groups.count; ++g) {
        float *to =
            survey.sums + stretch.sums + groups.slot[g] * survey.block + place + groups.label[g] * question.width;
        const float *from = groups.sums + g * KEYS;
        if (4 * runs > count) { // one by one costs less than the ends of short runs
            for (int64_t c = 0; c < count; ++c)
                if (labels[c] >= 0) to[labels[c]] += from[c];
            continue;
        }
        for (int64_t n = 0; n < runs; ++n) {
            const int32_t c = groups.cut[n], label = labels[c];
            if (label >= 0) to[label] += range_sum(from + c, groups.cut[n + 1] - c);
        }
    }
}
