// Masks drawn at random: a band, runs, and the nodes of call.h in postfix order.
#pragma once
#include "problem.h"

#include <functional>

namespace check {

using headwise::Plane;

// Cells [batch, head, row, column] some of whose axes broadcast, their values drawn one by one. A mask's are bytes.
Plane draw_plane(Random &random, Problem &problem, const int64_t (&shape)[4], Dtype dtype,
                 const std::function<double()> &value, bool bytes = false);

void draw_mask(Random &random, Problem &problem);

} // namespace check
