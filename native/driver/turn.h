// Rotary embedding on all threads.
#pragma once
#include <headwise/kernels.h>

namespace headwise {

void turn(const Kernels &kernels, const Turn &turn, int threads);

} // namespace headwise
