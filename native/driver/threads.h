// Work shared out to threads: torch's own OpenMP pool where there is one, else threads of ours.
#pragma once
#include <cstdint>
#include <functional>

namespace headwise {

// Calls body(item, scratch) once for each item in [0, items), in any order, on up to `threads` threads; each thread has
// `bytes` of scratch of its own, 64-byte aligned, kept from call to call. Throws std::bad_alloc before any work.
void in_parallel(int64_t items, int threads, int64_t bytes, const std::function<void(int64_t, void *)> &body);

// What runs the threads: "libgomp", or "own".
const char *thread_runtime();

} // namespace headwise
