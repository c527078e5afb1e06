// Rotary embedding, a row at a time: (x, y) -> (x cos - y sin, x sin + y cos), in float32, rounded once.

template <Dtype DTYPE> inline void put_one(char *to, int64_t i, float x) {
    if constexpr (DTYPE == Dtype::f32) reinterpret_cast<float *>(to)[i] = x;
    if constexpr (DTYPE == Dtype::bf16) reinterpret_cast<uint16_t *>(to)[i] = uint16_t(narrow_bf16(x));
    if constexpr (DTYPE == Dtype::f16) reinterpret_cast<uint16_t *>(to)[i] = narrow_f16(x);
}

template <Dtype DTYPE> inline void put(char *to, int64_t i, vf x) {
    if constexpr (DTYPE == Dtype::f32)
        store(reinterpret_cast<float *>(to) + i, x);
    else
        for (int lane = 0; lane < LANES; ++lane) put_one<DTYPE>(to, i + lane, x[lane]);
}

template <Dtype DTYPE>
inline void turn_pair(const char *in, char *out, int64_t first, int64_t second, float c, float s) {
    const float x = widen_one(in, DTYPE, first), y = widen_one(in, DTYPE, second);
    put_one<DTYPE>(out, first, x * c - y * s);
    put_one<DTYPE>(out, second, y * c + x * s);
}

template <Dtype DTYPE>
inline void turn_row(const Turn &turn, const char *in, char *out, const float *c, const float *s) {
    constexpr int64_t size = DTYPE == Dtype::f32 ? 4 : 2;
    const int64_t half = turn.half;
    int64_t k = 0;
    if (turn.neighbours) {
        for (; k < half; ++k) turn_pair<DTYPE>(in, out, 2 * k, 2 * k + 1, c[k], s[k]);
    } else {
        for (; k + LANES <= half; k += LANES) {
            const vf x = widen<DTYPE>(in + k * size), y = widen<DTYPE>(in + (half + k) * size);
            const vf cosine = load(c + k), sine = load(s + k);
            put<DTYPE>(out, k, x * cosine - y * sine);
            put<DTYPE>(out, half + k, y * cosine + x * sine);
        }
        for (; k < half; ++k) turn_pair<DTYPE>(in, out, k, half + k, c[k], s[k]);
    }
    if (in != out) __builtin_memcpy(out + 2 * half * size, in + 2 * half * size, size_t((turn.D - 2 * half) * size));
}

template <Dtype DTYPE> inline void turn_rows(const Turn &turn, int64_t b, int64_t h, int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
        const int64_t angle = b * turn.batch + i * turn.row;
        turn_row<DTYPE>(turn, at(turn.in, b, h, i), const_cast<char *>(at(turn.out, b, h, i)), turn.cos + angle,
                        turn.sin + angle);
    }
}

// Rows [first, last) of (b, h).
void turn(const Turn &turn, int64_t b, int64_t h, int64_t first, int64_t last) {
    HEADWISE_BY_DTYPE(turn.in.dtype, turn_rows, turn, b, h, first, last)
}
