// Forward over a whole call: cut into items, shared out, put together.
#pragma once
#include <headwise/kernels.h>

namespace headwise {

// Most query heads that read one key/value head.
int64_t widest_group(const Call &call);

// Whether the keys of a row are shared out, and its sums put together in parts.
bool splits_keys(const Kernels &kernels, const Call &call);

// How many threads are worth waking for so many multiply-adds.
int threads_for(double multiply_adds, int threads);

void forward(const Kernels &kernels, const Call &call, const Operand &out, const Facts &facts, int threads);

} // namespace headwise
