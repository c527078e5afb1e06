// AVX-512 F, BW, DQ, VL. 32 registers: 6 rows of 4 vectors, 4 of B, the rest for A.
#include <headwise/kernels.h>
#include <immintrin.h>

namespace {
constexpr int LANES = 16, ROWS = 6, VECTORS = 4;
constexpr int KEYS = 256; // keys in a block
constexpr int FEW = 8;    // rows a key/value head up to which keys are read in place
#include "../tile/vec.inl"
#include "avx512.inl"
#include "../tile/kernels.inl"
} // namespace

extern "C" const headwise::Kernels headwise_kernels_avx512 = HEADWISE_KERNELS("avx512");
