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
// Two conversions and not one vcvtne2ps2bf16, which Bochs has wrong: what is shipped is what was tested.
inline void pair_up(const float *from, float *to) {
    const __m256bh low = _mm512_cvtneps_pbh((__m512)load(from)), high = _mm512_cvtneps_pbh((__m512)load(from + LANES));
    __builtin_memcpy(to, &low, sizeof low);
    __builtin_memcpy(to + LANES / 2, &high, sizeof high);
}
#include "../tile/kernels.inl"
} // namespace

extern "C" const headwise::Kernels headwise_kernels_avx512_bf16 = HEADWISE_KERNELS("avx512_bf16");
