#include "pages.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace headwise {

void want_large_pages(const Operand &result, int64_t B, int64_t H, int64_t rows, int64_t width) {
#if defined(MADV_HUGEPAGE)
    constexpr uintptr_t kPage = 2 << 20;
    constexpr uintptr_t kMapped = 32 << 20; // from here on glibc maps memory of its own, which goes with the result
    if (!result.data || B * H * rows * width == 0) return;
    const int64_t last = (B - 1) * result.batch + (H - 1) * result.head + (rows - 1) * result.row + width;
    const uintptr_t begin = reinterpret_cast<uintptr_t>(result.data),
                    end = begin + uintptr_t(last) * (result.dtype == Dtype::f32 ? 4 : 2);
    const uintptr_t from = (begin + kPage - 1) / kPage * kPage, to = end / kPage * kPage;
    if (end - begin >= kMapped && to > from)
        madvise(reinterpret_cast<void *>(from), to - from, MADV_HUGEPAGE); // a hint: may fail
#else
    (void)result, (void)B, (void)H, (void)rows, (void)width;
#endif
}

} // namespace headwise
