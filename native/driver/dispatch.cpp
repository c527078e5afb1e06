#include "dispatch.h"

#include <cstdlib>
#include <cstring>

#define HEADWISE_DECLARE(isa) extern "C" const headwise::Kernels headwise_kernels_##isa;
HEADWISE_ISAS(HEADWISE_DECLARE)

namespace headwise {

bool processor_has(const char *isa) {
    const auto is = [isa](const char *name) { return std::strcmp(isa, name) == 0; };
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (is("avx2")) return avx2;
    if (is("avx512")) return avx512;
    if (is("avx512_bf16")) return avx512 && __builtin_cpu_supports("avx512bf16");
#endif
    return is("portable") || is("neon");
}

static const Kernels *choose() {
    const char *wanted = std::getenv("HEADWISE_ISA");
    const Kernels *best = nullptr;
    const auto offer = [&](const char *name, const Kernels &kernels) {
        const bool asked = wanted && *wanted ? std::strcmp(wanted, name) == 0 : true;
        if (asked && processor_has(name)) best = &kernels;
    };
#define HEADWISE_OFFER(isa) offer(#isa, headwise_kernels_##isa);
    HEADWISE_ISAS(HEADWISE_OFFER)
#undef HEADWISE_OFFER
    return best;
}

const Kernels *kernels() {
    static const Kernels *chosen = choose();
    return chosen;
}

} // namespace headwise
