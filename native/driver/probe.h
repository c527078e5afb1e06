// What this machine can do at most, for benchmarks to measure against.
#pragma once
#include <headwise/kernels.h>

namespace headwise {

// Billions of floating-point operations a second on `threads` threads, over at least `seconds`.
double probe_multiply_adds(const Kernels &kernels, bool bf16, int threads, double seconds);

// Billions of bytes a second read from a buffer of `bytes`, the best of `times` readings.
double probe_read(const Kernels &kernels, int64_t bytes, int threads, int times);

} // namespace headwise
