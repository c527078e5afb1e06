// Elementary functions on vectors. Coefficients: minimax fits of relative error, made for these ranges.

constexpr float kLowest = -88.02f; // here 2^round(x / ln 2) is no float32 any more, and the power below is 0

// exp(x) of N vectors for x <= about 1: 0 where x is below -87.7 (-inf too), NaN stays. Relative error below 1e-7;
// exp(0) is 1 exactly. Step by step over all vectors: one alone would wait for itself.
template <int N> inline void exp_each(vf *x) {
    vf t[N], square[N], p[N];
#define HEADWISE_EACH _Pragma("GCC unroll 8") for (int n = 0; n < N; ++n)
    HEADWISE_EACH x[n] = larger(splat(kLowest), x[n]); // x where x is NaN
    HEADWISE_EACH t[n] =
        madd(x[n], splat(1.44269504f), splat(12582912.0f + 127.0f)); // round(x / ln 2) + 127 in its low bits
    HEADWISE_EACH x[n] = madd(t[n] - (12582912.0f + 127.0f), splat(-0.693147182f), x[n]);
    HEADWISE_EACH square[n] = x[n] * x[n];
    HEADWISE_EACH p[n] = madd(splat(0x1.126e4ap-7f), x[n], splat(0x1.55589p-5f));
    HEADWISE_EACH p[n] = madd(splat(0x1.6ac29p-10f), square[n], p[n]);
    HEADWISE_EACH p[n] = madd(p[n], square[n], madd(splat(0x1.555408p-3f), x[n], splat(0x1.fffffap-2f)));
    HEADWISE_EACH p[n] = madd(p[n], square[n], x[n] + 1.0f);
    HEADWISE_EACH x[n] = p[n] * (vf)((vi)t[n] << 23);
#undef HEADWISE_EACH
}

inline vf exp_of(vf x) {
    exp_each<1>(&x);
    return x;
}

inline float exp_of(float x) { return exp_of(splat(x))[0]; }

// tanh(x): odd polynomial where it is nearly a line, else through exp. Relative error below 3e-7; NaN stays.
inline vf tanh_of(vf x) {
    const vf size = x < 0.0f ? -x : x;
    const vf square = x * x;
    vf p = splat(-0x1.75b9f2p-8f);
    p = madd(p, square, splat(0x1.521e0cp-6f));
    p = madd(p, square, splat(-0x1.b83b18p-5f));
    p = madd(p, square, splat(0x1.11071ep-3f));
    p = madd(p, square, splat(-0x1.555532p-2f));
    const vf near = madd(p * square, x, x);
    const vf e = exp_of(size * -2.0f);
    const vf far = (1.0f - e) / (1.0f + e);
    return size < 0.625f ? near : (x < 0.0f ? -far : far);
}
