// Operands on their way in and out: widened to float32, transposed, padded with zeros.

inline int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

inline const char *at(const Operand &x, int64_t b, int64_t h, int64_t row) {
    const int64_t size = x.dtype == Dtype::f32 ? 4 : 2;
    return static_cast<const char *>(x.data) + (b * x.batch + h * x.head + row * x.row) * size;
}

inline float widen_bf16(uint16_t x) {
    const uint32_t bits = uint32_t(x) << 16;
    float out;
    __builtin_memcpy(&out, &bits, 4);
    return out;
}

inline float widen_one(const char *from, Dtype dtype, int64_t i) {
    if (dtype == Dtype::f32) {
        float x; // which may be a pair of bf16
        __builtin_memcpy(&x, from + i * 4, 4);
        return x;
    }
    const uint16_t half = reinterpret_cast<const uint16_t *>(from)[i];
    return dtype == Dtype::bf16 ? widen_bf16(half) : widen_f16(half);
}

// LANES numbers of the dtype as floats. Pairs of bf16 are read as float32: their bits stay as they are.
template <Dtype DTYPE> inline vf widen(const void *from) {
    if constexpr (DTYPE == Dtype::f32) return *static_cast<const loose_vf *>(from);
    if constexpr (DTYPE == Dtype::bf16) return (vf)(widen_bits(static_cast<const uint16_t *>(from)) << 16);
    if constexpr (DTYPE == Dtype::f16) return widen_f16s(static_cast<const uint16_t *>(from));
}

// The first n of LANES numbers, the others 0; reads nothing behind them.
template <Dtype DTYPE> inline vf widen_first(const void *from, int64_t n) {
    vf x = {};
    for (int64_t lane = 0; lane < n; ++lane) x[lane] = widen_one(static_cast<const char *>(from), DTYPE, lane);
    return x;
}

// Runs `body<DTYPE>(...)` for the dtype that an operand has.
#define HEADWISE_BY_DTYPE(dtype, body, ...)                                                                            \
    switch (dtype) {                                                                                                   \
    case Dtype::f32:                                                                                                   \
        body<Dtype::f32>(__VA_ARGS__);                                                                                 \
        break;                                                                                                         \
    case Dtype::bf16:                                                                                                  \
        body<Dtype::bf16>(__VA_ARGS__);                                                                                \
        break;                                                                                                         \
    case Dtype::f16:                                                                                                   \
        body<Dtype::f16>(__VA_ARGS__);                                                                                 \
        break;                                                                                                         \
    }

// One row of `width` numbers times `scale` as floats, zeros up to `padded`.
template <Dtype DTYPE> inline void widen_row(const char *from, int64_t width, float scale, float *to, int64_t padded) {
    constexpr int64_t size = DTYPE == Dtype::f32 ? 4 : 2;
    int64_t i = 0;
    for (; i + LANES <= width; i += LANES) store(to + i, widen<DTYPE>(from + i * size) * scale);
    for (; i < padded; i += LANES)
        store(to + i, i < width ? widen_first<DTYPE>(from + i * size, width - i) * scale : vf{});
}

inline uint32_t narrow_bf16(float x) {
    uint32_t bits;
    __builtin_memcpy(&bits, &x, 4);
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return nan ? 0x7fc0u | (bits >> 16) : (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16;
}

// Rounds a row of floats to the dtype of an output, to nearest, ties to even.
inline void narrow_row(const float *from, int64_t width, char *to, Dtype dtype) {
    if (dtype == Dtype::f32) {
        __builtin_memcpy(to, from, size_t(width) * 4);
        return;
    }
    uint16_t *half = reinterpret_cast<uint16_t *>(to);
    if (dtype == Dtype::f16) {
        for (int64_t i = 0; i < width; ++i) half[i] = narrow_f16(from[i]);
        return;
    }
    for (int64_t i = 0; i < width; ++i) half[i] = uint16_t(narrow_bf16(from[i]));
}

// LANES vectors as a square matrix, transposed: log2(LANES) rounds of interleaving halves.
inline void transpose(vf *x) {
    vf y[LANES];
    for (int width = LANES / 2; width; width /= 2) {
#pragma GCC unroll 16
        for (int i = 0; i < LANES / 2; ++i) interleave(x[i], x[i + LANES / 2], y[2 * i], y[2 * i + 1]);
#pragma GCC unroll 16
        for (int i = 0; i < LANES; ++i) x[i] = y[i];
    }
}

// Lane n of the result is the sum of the lanes of x[n], or the largest of them: halves are interleaved and joined. The
// vectors, 2 * WIDTH, are used up.
template <bool SUM, int WIDTH = LANES / 2> inline vf fold_each(vf *x) {
    vf low, high;
#pragma GCC unroll 8
    for (int n = 0; n < WIDTH; ++n) {
        interleave(x[n], x[n + WIDTH], low, high);
        x[n] = SUM ? low + high : larger(low, high);
    }
    if constexpr (WIDTH > 1) return fold_each<SUM, WIDTH / 2>(x);
    return x[0];
}

// Rows [0, count) of a key or value block, `width` wide and `row` numbers apart, as panels: panel p holds rows p *
// PANEL .. of [width][PANEL], zeros where there is no row. This is the B that `product` wants of a transposed operand.
constexpr int64_t PANEL = VECTORS * LANES;

template <Dtype DTYPE>
inline void pack_panels(const char *from, int64_t row, int64_t count, int64_t width, float *to) { // row in bytes
    constexpr int64_t size = DTYPE == Dtype::f32 ? 4 : 2;
    for (int64_t first = 0; first < count; first += PANEL, to += PANEL * width) {
        for (int64_t i = 0; i < PANEL; i += LANES) {
            const int64_t rows = count - first - i;
            const char *line = from + (first + i) * row;
            for (int64_t d = 0; d < width; d += LANES) {
                vf square[LANES];
                const int64_t across = width - d < LANES ? width - d : LANES;
                for (int64_t r = 0; r < LANES; ++r) {
                    const char *here = line + r * row + d * size;
                    square[r] = r >= rows         ? vf{}
                                : across == LANES ? widen<DTYPE>(here)
                                                  : widen_first<DTYPE>(here, across);
                }
                transpose(square);
                for (int64_t e = 0; e < across; ++e) store(to + (d + e) * PANEL + i, square[e]);
            }
        }
    }
}

template <Dtype DTYPE>
inline void pack_transposed(const char *from, int64_t row, int64_t count, int64_t width, float *to) {
    constexpr int64_t size = DTYPE == Dtype::f32 ? 4 : 2;
    pack_panels<DTYPE>(from, row * size, count, width, to);
}

// The same of bf16 rows whose numbers go in pairs: [width / 2][PANEL] pairs a panel.
inline void pack_pairs(const char *from, int64_t row, int64_t count, int64_t width, float *to) {
    pack_panels<Dtype::f32>(from, row * 2, count, width / 2, to);
}

// A block of values as floats [count][padded] with what is not finite taken out, and where that was.
struct Values {
    const float *data;
    int64_t row;
    int32_t *strange; // keys of the block, from its first, whose value is not finite
    int64_t strangers;
    bool pairs; // data holds pairs of neighbouring keys, made by paired_values
};

template <Dtype DTYPE>
inline void widen_rows(const char *from, int64_t row, int64_t count, int64_t width, float *to, int64_t padded) {
    constexpr int64_t size = DTYPE == Dtype::f32 ? 4 : 2;
    for (int64_t j = 0; j < count; ++j) widen_row<DTYPE>(from + j * row * size, width, 1.0f, to + j * padded, padded);
}

inline bool finite_row(const float *x, int64_t width) {
    vf nothing = {};
    int64_t i = 0;
    for (; i + LANES <= width; i += LANES) nothing = madd(load(x + i), vf{}, nothing);
    float sum = sum_of(nothing);
    for (; i < width; ++i) sum += x[i] * 0.0f;
    return sum == 0.0f;
}

inline bool finite_block(const float *x, int64_t row, int64_t count, int64_t width) {
    vf nothing[4] = {}; // of four rows: one sum alone would wait for itself
    float rest = 0.0f;
    for (int64_t j = 0; j < count; j += 4) {
        const float *line[4];
        for (int64_t n = 0; n < 4; ++n) line[n] = x + (j + n < count ? j + n : j) * row;
        int64_t i = 0;
        for (; i + LANES <= width; i += LANES)
#pragma GCC unroll 4
            for (int n = 0; n < 4; ++n) nothing[n] = madd(load(line[n] + i), vf{}, nothing[n]);
        for (; i < width; ++i)
            for (int n = 0; n < 4; ++n) rest += line[n][i] * 0.0f;
    }
    return sum_of(nothing[0] + nothing[1] + (nothing[2] + nothing[3])) + rest == 0.0f;
}

// Values [j0, j0 + count) of a head: in place where they are finite floats of whole vectors, else through `room`.
inline Values values_of(const Call &call, int64_t b, int64_t kv, int64_t j0, int64_t count, float *room,
                        int32_t *strange) {
    const char *from = at(call.v, b, kv, j0);
    const int64_t padded = up(call.E, LANES);
    Values found{reinterpret_cast<const float *>(from), call.v.row, strange, 0, false};
    if (call.v.dtype != Dtype::f32 || call.E != padded) {
        HEADWISE_BY_DTYPE(call.v.dtype, widen_rows, from, call.v.row, count, call.E, room, padded)
        found.data = room;
        found.row = padded;
    }
    if (finite_block(found.data, found.row, count, call.E)) return found;
    if (found.data != room) widen_rows<Dtype::f32>(from, call.v.row, count, call.E, room, padded);
    for (int64_t j = 0; j < count; ++j) {
        if (finite_row(room + j * padded, call.E)) continue;
        strange[found.strangers++] = int32_t(j);
        for (int64_t e = 0; e < call.E; ++e)
            if (!(room[j * padded + e] * 0.0f == 0.0f)) room[j * padded + e] = 0.0f;
    }
    found.data = room;
    found.row = padded;
    return found;
}

// Rows row(0) .. row(count - 1) of bf16 as pairs of neighbouring rows, [count / 2 rounded up][padded] pairs; false
// where a number is not finite.
template <class Row> inline bool pair_lines(const Row &row, int64_t count, int64_t width, float *to) {
    const int64_t padded = up(width, LANES);
    const vu exponents = (vu)splat_bits(0x7f807f80), least = (vu)splat_bits(0x00800080);
    vu found = {}; // the highest bit of a half where its exponent was all ones
    const uint16_t none[LANES] = {};
    for (int64_t j = 0; j < count; j += 2, to += padded) {
        const uint16_t *first = reinterpret_cast<const uint16_t *>(row(j));
        const uint16_t *second = j + 1 < count ? reinterpret_cast<const uint16_t *>(row(j + 1)) : none;
        const int64_t stride = second == none ? 0 : 1;
        const auto put = [&](int64_t e, const uint16_t *low, const uint16_t *high) {
            const vu bits = (vu)widen_bits(low) | (vu)widen_bits(high) << 16;
            found |= (bits & exponents) + least;
            store(to + e, (vf)bits);
        };
        int64_t e = 0;
        for (; e + LANES <= width; e += LANES) put(e, first + e, second + e * stride);
        if (e == width) continue;
        uint16_t low[LANES] = {}, high[LANES] = {};
        for (int64_t n = 0; n < width - e; ++n) {
            low[n] = first[e + n];
            high[n] = second[(e + n) * stride];
        }
        put(e, low, high);
    }
    found &= (vu)splat_bits(int32_t(0x80008000));
    uint32_t any = 0;
    for (int lane = 0; lane < LANES; ++lane) any |= found[lane];
    return !any;
}

// Values [j0, j0 + count) of a bf16 head in such pairs of keys.
inline Values paired_values(const Call &call, int64_t b, int64_t kv, int64_t j0, int64_t count, float *room,
                            int32_t *strange) {
    const char *from = at(call.v, b, kv, j0);
    const int64_t padded = up(call.E, LANES);
    Values found{room, padded, strange, 0, true};
    if (pair_lines([&](int64_t j) { return from + j * call.v.row * 2; }, count, call.E, room)) return found;
    uint16_t *halves = reinterpret_cast<uint16_t *>(room);
    for (int64_t j = 0; j < count; ++j) {
        bool finite = true;
        for (int64_t e = 0; e < call.E; ++e) {
            uint16_t &half = halves[2 * (j / 2 * padded + e) + j % 2];
            if ((half & 0x7f80) != 0x7f80) continue;
            half = 0;
            finite = false;
        }
        if (!finite) strange[found.strangers++] = int32_t(j);
    }
    return found;
}
