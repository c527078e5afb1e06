// AVX-512 with the bf16 dot product. 32 registers: 6 rows of 4 vectors, 4 of B, the rest for A.
#include <headwise/kernels.h>
#include <immintrin.h>

namespace {
constexpr int LANES = 16, ROWS = 6, VECTORS = 4;
constexpr int KEYS = 256; // keys in a block
constexpr int FEW = 8;    // rows a key/value head up to which keys are read in place
#include "../tile/vec.inl"
#include "avx512.inl"
#define HEADWISE_PAIRS
inline vf dot_pairs(vf a, vf b, vf sum) { return (vf)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b); }
inline void pair_up(const float *from, float *to) { // the second operand goes to the low half
    const __m512bh pairs = _mm512_cvtne2ps_pbh((__m512)load(from + LANES), (__m512)load(from));
    __builtin_memcpy(to, &pairs, sizeof pairs);
}
#include "../tile/kernels.inl"
} // namespace

extern "C" const headwise::Kernels headwise_kernels_avx512_bf16 = HEADWISE_KERNELS("avx512_bf16");
