// Backward over a whole call: cut into items, shared out, put together.
#pragma once
#include <headwise/kernels.h>

namespace headwise {

// The room that `back` names is made here; whatever else it holds is the caller's.
void backward(const Kernels &kernels, const Call &call, Backward back, int threads);

} // namespace headwise
