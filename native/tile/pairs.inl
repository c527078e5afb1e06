// Two bf16 numbers in the place of one float: a step of a product then does two multiply-adds.
//
// Instruction sets with the dot product of pairs define HEADWISE_PAIRS, dot_pairs and pair_up. For the others these are
// definitions of what they do, which no call reaches.

#if defined(HEADWISE_PAIRS)
constexpr bool PAIRS = true;
#else
constexpr bool PAIRS = false;
#endif

#ifndef HEADWISE_PAIRS
// sum + low(a) * low(b) + high(a) * high(b), a pair a lane.
inline vf dot_pairs(vf a, vf b, vf sum) {
    const vi high = splat_bits(int32_t(0xffff0000));
    const vf odd = madd((vf)((vi)a & high), (vf)((vi)b & high), sum);
    return madd((vf)((vi)a << 16), (vf)((vi)b << 16), odd);
}

inline uint32_t narrow_bf16(float x);

// 2 * LANES floats as LANES pairs, rounded to nearest, ties to even.
inline void pair_up(const float *from, float *to) {
    uint32_t words[LANES];
    for (int n = 0; n < LANES; ++n) words[n] = narrow_bf16(from[2 * n]) | narrow_bf16(from[2 * n + 1]) << 16;
    __builtin_memcpy(to, words, sizeof words);
}
#endif

struct MulPairs {
    static constexpr int width = 2;
    static vf step(vf a, vf b, vf sum) { return dot_pairs(a, b, sum); }
};

// Whether a call goes in pairs: its dtype is bf16 and a row of q and k is whole pairs.
inline bool in_pairs(const Call &call) { return PAIRS && call.q.dtype == Dtype::bf16 && call.D % 2 == 0; }
