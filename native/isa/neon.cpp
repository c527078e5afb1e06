// aarch64: 32 registers of four floats, 6 rows of 4 vectors.
#include <arm_neon.h>
#include <headwise/kernels.h>

namespace {
constexpr int LANES = 4, ROWS = 6, VECTORS = 4;
constexpr int KEYS = 256; // keys in a block
constexpr int FEW = 8;    // rows a key/value head up to which keys are read in place
#include "../tile/vec.inl"

inline vf madd(vf a, vf b, vf c) { return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b); }
inline vf larger(vf a, vf b) { return a > b ? a : b; } // b where one is NaN
inline vi widen_bits(const uint16_t *x) { return (vi)vmovl_u16(vld1_u16(x)); }
inline vf widen_f16s(const uint16_t *x) { return (vf)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(x))); }
inline float widen_f16(uint16_t x) {
    __fp16 half;
    __builtin_memcpy(&half, &x, 2);
    return float(half);
}
inline uint16_t narrow_f16(float x) {
    const __fp16 half = __fp16(x);
    uint16_t out;
    __builtin_memcpy(&out, &half, 2);
    return out;
}
inline void interleave(vf a, vf b, vf &low, vf &high) {
    low = (vf)vzip1q_f32((float32x4_t)a, (float32x4_t)b);
    high = (vf)vzip2q_f32((float32x4_t)a, (float32x4_t)b);
}
inline uint32_t bits_of(vi mask) { // a bit a lane, of all ones or none
    uint32_t bits = 0;
    for (int lane = 0; lane < LANES; ++lane) bits |= uint32_t(mask[lane] & 1) << lane;
    return bits;
}
#include "../tile/kernels.inl"
} // namespace

extern "C" const headwise::Kernels headwise_kernels_neon = HEADWISE_KERNELS("neon");
