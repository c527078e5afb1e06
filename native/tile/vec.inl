// Vectors of LANES floats: arithmetic is the compiler's, the hooks (madd, larger, widen, ...) are the instruction
// set's.
//
// An instruction set defines before this file: LANES, ROWS, VECTORS, KEYS, and the hooks named at their use.

typedef float vf __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t vi __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef uint32_t vu __attribute__((vector_size(LANES * 4), aligned(4), may_alias)); // where sums may overflow
typedef float loose_vf __attribute__((vector_size(LANES * 4), aligned(2), may_alias));

constexpr float kInf = __builtin_inff();

inline vf load(const float *at) { return *reinterpret_cast<const vf *>(at); }
inline void store(float *at, vf x) { *reinterpret_cast<vf *>(at) = x; }
inline vf splat(float x) { return x - vf{}; }

inline vi splat_bits(int32_t x) { return x - vi{}; }

inline float sum_of(vf x) {
    float part[LANES];
    store(part, x);
    for (int width = LANES / 2; width; width /= 2)
        for (int lane = 0; lane < width; ++lane) part[lane] += part[lane + width];
    return part[0];
}
