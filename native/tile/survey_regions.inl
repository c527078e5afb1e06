// Questions about rectangles of the pattern: pooled maps and exact crops.

// The largest p of each column over rows [r0, r1), 0 where all are hidden; NaN stays.
template <bool NAN> inline void column_peaks(const Shown &tile, int64_t r0, int64_t r1, float *to) {
    for (int64_t c = tile.c0; c < tile.c1; c += LANES) {
        vf top = {};
        for (int64_t r = r0; r < r1; ++r) {
            const vf p = load(tile.p + r * LINE + c);
            top = NAN ? ((p > top) | (p != p) ? p : top) : larger(p, top);
        }
        store(to + c, top);
    }
}

// Columns [c, end) of a line, pooled into the cells of one pooled row.
inline void pool(const Question &map, int64_t j0, int64_t c, int64_t end, const float *line, float *cells) {
    const int64_t wide = map.key1 - map.key0, base = map.key0 - j0; // column of the region's first key
    while (c < end) {
        const int64_t cell = pooled_cell(c - base, wide, map.width),
                      edge = base + pooled_edge(cell + 1, wide, map.width);
        const int64_t stop = edge < end ? edge : end;
        if (!map.largest) cells[cell] += range_sum(line + c, stop - c);
        for (; map.largest && c < stop; ++c)
            if (line[c] > cells[cell] || line[c] != line[c]) cells[cell] = line[c];
        c = stop;
    }
}

// Rows first: those of a tile fall into few pooled rows, so the second step works on little.
inline void see_map(const Question &map, Part part, const Shown &tile, float *line, float *sums) {
    const PooledRows pooled = pooled_rows(map, part.row0, part.row1), here = pooled_rows(map, tile.i, tile.i + tile.n);
    const int64_t c = map.key0 - tile.j0 > tile.c0 ? map.key0 - tile.j0 : tile.c0;
    const int64_t end = map.key1 - tile.j0 < tile.c1 ? map.key1 - tile.j0 : tile.c1;
    if (c >= end) return;
    for (int64_t i = here.row0, stop; i < here.row1; i = stop) {
        const int64_t tall = map.row1 - map.row0, cell = pooled_cell(i - map.row0, tall, map.height);
        const int64_t edge = map.row0 + pooled_edge(cell + 1, tall, map.height);
        stop = edge < here.row1 ? edge : here.row1;
        const float *from = line;
        if (map.largest && tile.some_nan)
            column_peaks<true>(tile, i - tile.i, stop - tile.i, line);
        else if (map.largest)
            column_peaks<false>(tile, i - tile.i, stop - tile.i, line);
        else if (tile.totals && stop - i == tile.n)
            from = tile.totals;
        else
            column_sums(tile, i - tile.i, stop - tile.i, line);
        pool(map, tile.j0, c, end, from, sums + (cell - pooled.first) * map.width);
    }
}

inline void see_crop(const Question &question, const Shown &tile) {
    const int64_t tall = question.row1 - question.row0, wide = question.key1 - question.key0;
    const int64_t base = question.key0 - tile.j0;
    const int64_t c0 = base > tile.c0 ? base : tile.c0, c1 = base + wide < tile.c1 ? base + wide : tile.c1;
    for (int64_t r = 0; r < tile.n; ++r) {
        const int64_t i = tile.i + r - question.row0;
        if (i < 0 || i >= tall) continue;
        float *to = question.out + (tile.answer * tall + i) * wide - base;
        for (int64_t c = c0; c < c1; ++c) to[c] = tile.p[r * LINE + c] + 0.0f; // HIDDEN is 0 to the reader
    }
}
