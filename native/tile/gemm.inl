// The one product everything is made of: C [rows, n] (+)= A [rows, k] B [k, n], a register-blocked tile at a time.
//
// A is read one number at a time and broadcast, B in vectors. Each element of C is summed over k in order, one fused
// multiply-add a step, whatever the tile of rows and columns; terms of 0 before or behind change no bit. What C held is
// added last: the rounding of a sum grows with its length, and sums of sums are shorter.

constexpr int64_t CHAIN = 192; // steps of a sum that are taken in one go where it is long

struct MulFloats { // an element is a float
    static constexpr int width = 1;
    static vf step(vf a, vf b, vf sum) { return madd(a, b, sum); }
};

// A: row r at a + r * row, element p of it at + p * step. B: row p at b + p * b_row. C: row r at c + r * c_row.
template <class Mul, int R, int V, bool ADD, bool SCALE>
inline void product_tile(const float *a, int64_t row, int64_t step, const float *b, int64_t b_row, float *c,
                         int64_t c_row, int64_t k, float scale) {
    vf sum[R][V];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) sum[r][v] = vf{};
    for (int64_t p = 0; p < k; ++p) {
        vf right[V];
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) right[v] = load(b + v * LANES);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            const vf left = splat(a[r * row]);
#pragma GCC unroll 8
            for (int v = 0; v < V; ++v) sum[r][v] = Mul::step(left, right[v], sum[r][v]);
        }
        a += step;
        b += b_row;
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) {
            const vf found = SCALE ? sum[r][v] * scale : sum[r][v];
            store(c + r * c_row + v * LANES, ADD ? load(c + r * c_row + v * LANES) + found : found);
        }
}

template <class Mul, int V, bool ADD, bool SCALE>
inline void product_rows(int64_t rows, const float *a, int64_t row, int64_t step, const float *b, int64_t b_row,
                         float *c, int64_t c_row, int64_t k, float scale) {
    while (rows >= ROWS) {
        product_tile<Mul, ROWS, V, ADD, SCALE>(a, row, step, b, b_row, c, c_row, k, scale);
        a += ROWS * row;
        c += ROWS * c_row;
        rows -= ROWS;
    }
    switch (rows) {
#define HEADWISE_REST(R)                                                                                               \
    case R:                                                                                                            \
        if constexpr (R < ROWS) product_tile<Mul, R, V, ADD, SCALE>(a, row, step, b, b_row, c, c_row, k, scale);       \
        break;
        HEADWISE_REST(1)
        HEADWISE_REST(2)
        HEADWISE_REST(3)
        HEADWISE_REST(4)
        HEADWISE_REST(5)
        HEADWISE_REST(6)
        HEADWISE_REST(7)
#undef HEADWISE_REST
    default:
        break;
    }
}

// n columns, a multiple of LANES; B's columns lie side by side.
template <class Mul, bool ADD, bool SCALE = false>
inline void product(int64_t rows, int64_t n, int64_t k, const float *a, int64_t row, int64_t step, const float *b,
                    int64_t b_row, float *c, int64_t c_row, float scale = 1.0f) {
    int64_t at = 0;
    for (; at + VECTORS * LANES <= n; at += VECTORS * LANES)
        product_rows<Mul, VECTORS, ADD, SCALE>(rows, a, row, step, b + at, b_row, c + at, c_row, k, scale);
    for (; at < n; at += LANES)
        product_rows<Mul, 1, ADD, SCALE>(rows, a, row, step, b + at, b_row, c + at, c_row, k, scale);
}
