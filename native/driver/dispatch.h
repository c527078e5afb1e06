// Which instruction set's kernels run: chosen once, from what the processor has and HEADWISE_ISA asks for.
#pragma once
#include <headwise/kernels.h>

namespace headwise {

// The kernels of this process; null if HEADWISE_ISA names a set that is not built or that this processor does not have.
const Kernels *kernels();

// Calls take(name, whether the processor has it) for each set of this build, least first.
template <class Take> void each_isa(Take &&take);

bool processor_has(const char *isa);

} // namespace headwise

#include <headwise/isas.h>

namespace headwise {
template <class Take> void each_isa(Take &&take) {
#define HEADWISE_TAKE(isa) take(#isa, processor_has(#isa));
    HEADWISE_ISAS(HEADWISE_TAKE)
#undef HEADWISE_TAKE
}
} // namespace headwise
