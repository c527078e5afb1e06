// AVX2 with FMA and F16C: Haswell, Zen and later. 16 registers: 6 rows of 2 vectors, 2 of B, 1 of A.
#include <headwise/kernels.h>
#include <immintrin.h>

namespace {
constexpr int LANES = 8, ROWS = 6, VECTORS = 2;
constexpr int KEYS = 256; // keys in a block
constexpr int FEW = 8;    // rows a key/value head up to which keys are read in place
#include "../tile/vec.inl"

inline vf madd(vf a, vf b, vf c) { return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
inline vf larger(vf a, vf b) { return (vf)_mm256_max_ps((__m256)a, (__m256)b); } // b where one is NaN
inline vi widen_bits(const uint16_t *x) {
    return (vi)_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(x)));
}
inline vf widen_f16s(const uint16_t *x) {
    return (vf)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(x)));
}
inline float widen_f16(uint16_t x) { return _cvtsh_ss(x); }
inline uint16_t narrow_f16(float x) { return uint16_t(_cvtss_sh(x, 0)); }
inline void interleave(vf a, vf b, vf &low, vf &high) {
    const __m256 x = _mm256_unpacklo_ps((__m256)a, (__m256)b), y = _mm256_unpackhi_ps((__m256)a, (__m256)b);
    low = (vf)_mm256_permute2f128_ps(x, y, 0x20);
    high = (vf)_mm256_permute2f128_ps(x, y, 0x31);
}
inline uint32_t bits_of(vi mask) {
    return uint32_t(_mm256_movemask_ps((__m256)mask));
} // a bit a lane, of all ones or none
#include "../tile/kernels.inl"
} // namespace

extern "C" const headwise::Kernels headwise_kernels_avx2 = HEADWISE_KERNELS("avx2");
