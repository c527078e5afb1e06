#include "probe.h"

#include "threads.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace headwise {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

} // namespace

double probe_multiply_adds(const Kernels &kernels, bool bf16, int threads, double seconds) {
    std::vector<float> sink(static_cast<size_t>(threads) * 16);
    double done = 0, best = 0;
    const double start = now();
    for (double begin = start; begin - start < seconds;) {
        in_parallel(threads, threads, 0, [&](int64_t n, void *) {
            const double operations =
                (bf16 ? kernels.probe_bf16 : kernels.probe_floats)(1 << 16, &sink[size_t(n) * 16]);
            if (n == 0) done = operations * threads;
        });
        const double end = now();
        best = std::max(best, done / (end - begin));
        begin = end;
    }
    return best / 1e9;
}

double probe_read(const Kernels &kernels, int64_t bytes, int threads, int times) {
    const std::vector<float> data(size_t(bytes) / 4, 1.0f);
    constexpr int64_t kStretch = 1 << 16; // floats a thread takes at once
    const int64_t count = int64_t(data.size()), pieces = (count + kStretch - 1) / kStretch;
    std::vector<float> sink(static_cast<size_t>(pieces));
    double best = 0;
    for (int time = 0; time < times; ++time) {
        const double begin = now();
        in_parallel(pieces, threads, 0, [&](int64_t n, void *) {
            kernels.probe_read(data.data() + n * kStretch, std::min(kStretch, count - n * kStretch), &sink[size_t(n)]);
        });
        best = std::max(best, double(count) * 4 / (now() - begin));
    }
    return best / 1e9;
}

} // namespace headwise
