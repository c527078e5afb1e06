// 16-bit floats in plain arithmetic, for instruction sets that do not convert them.

inline float widen_f16(uint16_t x) {
    const uint32_t sign = uint32_t(x & 0x8000) << 16, exponent = (x >> 10) & 31, fraction = x & 1023;
    uint32_t bits = sign | ((exponent + 112) << 23) | (fraction << 13);
    if (exponent == 31) bits = sign | 0x7f800000u | (fraction << 13);
    float out;
    __builtin_memcpy(&out, &bits, 4);
    if (exponent == 0) {
        out = float(fraction) * 0x1p-24f;
        if (sign) out = -out;
    }
    return out;
}

inline uint16_t narrow_f16(float x) { // to nearest, ties to even
    uint32_t bits;
    __builtin_memcpy(&bits, &x, 4);
    const uint16_t sign = uint16_t((bits >> 16) & 0x8000);
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u) return uint16_t(sign | 0x7e00);
    if (bits >= 0x477ff000u) return uint16_t(sign | 0x7c00); // rounds to 65536 or more
    if (bits < 0x38800000u) {                                // below 2^-14: a multiple of 2^-24, rounded by an addition
        float size;
        __builtin_memcpy(&size, &bits, 4);
        size += 0.5f; // whose last place is 2^-24
        __builtin_memcpy(&bits, &size, 4);
        return uint16_t(sign | (bits - 0x3f000000u));
    }
    return uint16_t(sign | ((bits - 0x38000000u + 0xfffu + ((bits >> 13) & 1)) >> 13));
}

inline vi widen_bits(const uint16_t *x) {
    vi out;
    for (int lane = 0; lane < LANES; ++lane) out[lane] = x[lane];
    return out;
}

inline vf widen_f16s(const uint16_t *x) {
    vf out;
    for (int lane = 0; lane < LANES; ++lane) out[lane] = widen_f16(x[lane]);
    return out;
}
