// Keys and values that do not lie at their strides: a block of them is laid out in scratch before it is read.

inline bool is_stored(const Store &store) { return store.pages || store.scales; }

// Where rows [j0, j0 + count) begin: in their pages, or at their strides.
inline void place_rows(const Operand &x, const Store &store, int64_t b, int64_t h, int64_t j0, int64_t count,
                       const char **row) {
    const int64_t size = store.scales ? 1 : x.dtype == Dtype::f32 ? 4 : 2, step = x.row * size;
    const char *data = static_cast<const char *>(x.data) + h * x.head * size;
    if (!store.pages) {
        for (int64_t j = 0; j < count; ++j) row[j] = data + (b * x.batch + (j0 + j) * x.row) * size;
        return;
    }
    const int32_t *page = store.pages + b * store.batch + j0 / store.size;
    for (int64_t j = 0, slot = j0 % store.size; j < count; ++page, slot = 0)
        for (const char *first = data + *page * store.stride * size; slot < store.size && j < count; ++slot)
            row[j++] = first + slot * step;
}

inline void copy_row(const char *from, int64_t bytes, char *to) {
    int64_t at = 0;
    for (; at + int64_t(sizeof(vf)) <= bytes; at += sizeof(vf))
        *reinterpret_cast<loose_vf *>(to + at) = *reinterpret_cast<const loose_vf *>(from + at);
    if (at < bytes) __builtin_memcpy(to + at, from + at, size_t(bytes - at));
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
    constexpr int64_t AHEAD = 8; // rows between what is asked for and what is read
    const int64_t size = x.dtype == Dtype::f32 ? 4 : 2, bytes = width * (store.scales ? 1 : size);
    char *rows = reinterpret_cast<char *>(to);
    const char *row[KEYS];
    place_rows(x, store, b, h, j0, count, row);
    const float *scale = store.scales + b * store.scale_batch + h * store.scale_head + j0 * store.scale_row;
    for (int64_t j = 0; j < count; ++j) {
        for (int64_t byte = 0; j + AHEAD < count && byte < bytes; byte += 64)
            __builtin_prefetch(row[j + AHEAD] + byte, 0, 3);
        if (store.scales)
            dequantise(reinterpret_cast<const int8_t *>(row[j]), scale[j * store.scale_row], width,
                       rows + j * width * size, x.dtype);
        else
            copy_row(row[j], bytes, rows + j * width * size);
    }
    return {rows - j0 * width * size, 0, 0, width, x.dtype};
}

// What is read instead of the keys and values [j0, j0 + count) of a head.
inline void stage(const Call &call, Call &here, int64_t b, int64_t kv, int64_t j0, int64_t count, float *keys,
                  float *values) {
    if (is_stored(call.k_store)) here.k = staged(call.k, call.k_store, b, kv, j0, count, call.D, keys);
    if (call.v.data && is_stored(call.v_store)) here.v = staged(call.v, call.v_store, b, kv, j0, count, call.E, values);
}
