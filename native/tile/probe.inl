// What the machine can do at most: multiply-adds that wait for nothing, and reads that nothing is done with.

// `steps` rounds of independent multiply-adds; returns how many floating-point operations that were.
template <class Mul> inline double multiply_adds(int64_t steps, float *out) {
    vf sum[ROWS * VECTORS];
#pragma GCC unroll 32
    for (int n = 0; n < ROWS * VECTORS; ++n) sum[n] = splat(float(n));
    vf a = splat(1.0f), b = splat(1e-9f);
    for (int64_t step = 0; step < steps; ++step) {
        __asm__ volatile("" : "+m"(a), "+m"(b)); // or the compiler would see that every round is the same
        const vf left = a, right = b;
#pragma GCC unroll 32
        for (int n = 0; n < ROWS * VECTORS; ++n) sum[n] = Mul::step(left, right, sum[n]);
#pragma GCC unroll 32
        for (int n = 0; n < ROWS * VECTORS; ++n) sum[n] = Mul::step(right, left, sum[n]);
    }
    vf all = {};
#pragma GCC unroll 32
    for (int n = 0; n < ROWS * VECTORS; ++n) all += sum[n];
    *out = sum_of(all);
    return double(steps) * 2 * ROWS * VECTORS * LANES * 2 * Mul::width;
}

double probe_floats(int64_t steps, float *out) { return multiply_adds<MulFloats>(steps, out); }

double probe_bf16(int64_t steps, float *out) {
    return PAIRS ? multiply_adds<MulPairs>(steps, out) : multiply_adds<MulFloats>(steps, out);
}

// Reads `count` floats in order, a multiple of 8 vectors.
void probe_read(const float *data, int64_t count, float *out) {
    vf sum[8] = {};
    for (int64_t i = 0; i + 8 * LANES <= count; i += 8 * LANES)
#pragma GCC unroll 8
        for (int n = 0; n < 8; ++n) sum[n] += load(data + i + n * LANES);
    for (int n = 1; n < 8; ++n) sum[0] += sum[n];
    *out = sum_of(sum[0]);
}
