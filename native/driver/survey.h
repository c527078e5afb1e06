// The observers' pass over a part of a pattern: cut into stretches, shared out, put together.
#pragma once
#include <headwise/kernels.h>

namespace headwise {

// Facts of the frame's rows, [b, h, rows of the frame] each; all keys are taken in.
void row_facts(const Kernels &kernels, const Call &call, const Frame &frame, const Facts &facts, int threads);

// Answers of `asked`, whose place, received, block and part_rows are found here; its facts and its output too, where
// they are not known: in the same sweep if they can be.
void survey(const Kernels &kernels, const Call &call, const Survey &asked, int threads);

} // namespace headwise
