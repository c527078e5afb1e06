// Keys and values that do not lie at their strides: a block of them is laid out in scratch before it is read.

inline bool is_stored(const Store &store) { return store.pages || store.scales; }

// Where a row in a page, or of int8, begins.
inline const char *stored_row(const Operand &x, const Store &store, int64_t b, int64_t h, int64_t j) {
    const int64_t size = store.scales ? 1 : x.dtype == Dtype::f32 ? 4 : 2;
    int64_t from = b * x.batch + j * x.row;
    if (store.pages) from = store.pages[b * store.batch + j / store.size] * store.stride + j % store.size * x.row;
    return static_cast<const char *>(x.data) + (from + h * x.head) * size;
}

inline void dequantise(const int8_t *from, float scale, int64_t width, float *to) {
    for (int64_t d = 0; d < width; ++d) to[d] = float(from[d]) * scale;
}

// A row of int8 as the numbers of the dtype that is meant: each is rounded to it, as the dense operand is.
inline void dequantise(const int8_t *from, float scale, int64_t width, char *to, Dtype dtype) {
    if (dtype == Dtype::f32) return dequantise(from, scale, width, reinterpret_cast<float *>(to));
    float row[kMaxWidth];
    dequantise(from, scale, width, row);
    narrow_row(row, width, to, dtype);
}

// Rows [j0, j0 + count) side by side in `to`, and the operand that finds them there.
inline Operand staged(const Operand &x, const Store &store, int64_t b, int64_t h, int64_t j0, int64_t count,
                      int64_t width, float *to) {
    constexpr int64_t AHEAD = 16; // rows between what is asked for and what is read
    const int64_t size = x.dtype == Dtype::f32 ? 4 : 2;
    char *rows = reinterpret_cast<char *>(to);
    for (int64_t j = 0; j < count; ++j) {
        const char *from = stored_row(x, store, b, h, j0 + j);
        if (j + AHEAD < count) {
            const char *next = stored_row(x, store, b, h, j0 + j + AHEAD);
            for (int64_t byte = 0; byte < width * (store.scales ? 1 : size); byte += 64)
                __builtin_prefetch(next + byte, 0, 3);
        }
        if (store.scales) {
            const float scale = store.scales[b * store.scale_batch + h * store.scale_head + (j0 + j) * store.scale_row];
            dequantise(reinterpret_cast<const int8_t *>(from), scale, width, rows + j * width * size, x.dtype);
        } else {
            __builtin_memcpy(rows + j * width * size, from, size_t(width * size));
        }
    }
    return {rows - j0 * width * size, 0, 0, width, x.dtype};
}

// What is read instead of the keys and values [j0, j0 + count) of a head.
inline void stage(const Call &call, Call &here, int64_t b, int64_t kv, int64_t j0, int64_t count, float *keys,
                  float *values) {
    if (is_stored(call.k_store)) here.k = staged(call.k, call.k_store, b, kv, j0, count, call.D, keys);
    if (call.v.data && is_stored(call.v_store)) here.v = staged(call.v, call.v_store, b, kv, j0, count, call.E, values);
}
