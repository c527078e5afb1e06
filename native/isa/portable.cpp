// Any processor: vectors of four floats, multiply and add apart.
#include <headwise/kernels.h>

namespace {
constexpr int LANES = 4, ROWS = 4, VECTORS = 2;
constexpr int KEYS = 128; // keys in a block
constexpr int FEW = 8;    // rows a key/value head up to which keys are read in place
#include "../tile/vec.inl"

inline vf madd(vf a, vf b, vf c) { return a * b + c; }
inline vf larger(vf a, vf b) { return a > b ? a : b; } // b where one is NaN
#include "../tile/halves.inl"
inline void interleave(vf a, vf b, vf &low, vf &high) {
    low = vf{a[0], b[0], a[1], b[1]};
    high = vf{a[2], b[2], a[3], b[3]};
}
inline uint32_t bits_of(vi mask) { // a bit a lane, of all ones or none
    uint32_t bits = 0;
    for (int lane = 0; lane < LANES; ++lane) bits |= uint32_t(mask[lane] & 1) << lane;
    return bits;
}
#include "../tile/kernels.inl"
} // namespace

extern "C" const headwise::Kernels headwise_kernels_portable = HEADWISE_KERNELS("portable");
