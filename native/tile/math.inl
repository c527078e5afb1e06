// Elementary functions on vectors. Coefficients: minimax fits of relative error, made for these ranges.

constexpr float kLowest = -87.33654f; // below, exp is no normal float32: taken as 0

// exp(x) for x <= about 1: 0 where x < kLowest (-inf too), NaN stays. Relative error below 8e-8; exp(0) is 1 exactly.
inline vf exp_of(vf x) {
    const vf t = madd(x, splat(1.44269504f), splat(12582912.0f + 127.0f)); // round(x / ln 2) + 127 in the low bits
    const vf n = t - (12582912.0f + 127.0f);
    const vf power = (vf)((vi)t << 23);
    const vf r = madd(n, splat(-0.693147182f), x);
    vf p = splat(0x1.6ac29p-10f);
    p = madd(p, r, splat(0x1.126e4ap-7f));
    p = madd(p, r, splat(0x1.55589p-5f));
    p = madd(p, r, splat(0x1.555408p-3f));
    p = madd(p, r, splat(0x1.fffffap-2f));
    p = madd(p, r, splat(1.0f));
    p = madd(p, r, splat(1.0f));
    p *= power;
    return x < kLowest ? vf{} : p;
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
