// What AVX-512 does in its own way.
#pragma GCC diagnostic ignored "-Wuninitialized" // of the compiler's own header, GCC bug 105593
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

inline vf madd(vf a, vf b, vf c) { return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
inline vf larger(vf a, vf b) { return (vf)_mm512_max_ps((__m512)a, (__m512)b); } // b where one is NaN
inline vi widen_bits(const uint16_t *x) {
    return (vi)_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(x)));
}
inline vf widen_f16s(const uint16_t *x) {
    return (vf)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(x)));
}
inline float widen_f16(uint16_t x) { return _cvtsh_ss(x); }
inline uint16_t narrow_f16(float x) { return uint16_t(_cvtss_sh(x, 0)); }
inline void interleave(vf a, vf b, vf &low, vf &high) {
    const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i second = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    low = (vf)_mm512_permutex2var_ps((__m512)a, first, (__m512)b);
    high = (vf)_mm512_permutex2var_ps((__m512)a, second, (__m512)b);
}
inline uint32_t bits_of(vi mask) {
    return uint32_t(_mm512_movepi32_mask((__m512i)mask));
} // a bit a lane, of all ones or none
