// Rotary embedding for Python.
#include "bound.h"

#include "../driver/turn.h"

namespace nb = nanobind;

namespace headwise {

using Shape = std::tuple<int64_t, int64_t, int64_t, int64_t>;
using Angles = std::tuple<uintptr_t, uintptr_t, int64_t, int64_t, int64_t>; // cos, sin, strides of batch and row, pairs

void bind_turn(nb::module_ &m) {
    m.def(
        "turn",
        [](const Numbers &in, const Numbers &out, const Shape &shape, const Angles &angles, bool neighbours,
           int threads) {
            Turn turn{};
            turn.in = operand(in);
            turn.out = operand(out);
            std::tie(turn.B, turn.H, turn.T, turn.D) = shape;
            const auto &[cos, sin, batch, row, half] = angles;
            if (half < 1 || 2 * half > turn.D) throw std::invalid_argument("a turn that should have been refused");
            turn.cos = pointer<const float>(cos);
            turn.sin = pointer<const float>(sin);
            turn.batch = batch;
            turn.row = row;
            turn.half = half;
            turn.neighbours = neighbours;
            headwise::turn(chosen(), turn, threads);
        },
        nb::arg("source").noconvert(), nb::arg("out").noconvert(), nb::arg("shape").noconvert(),
        nb::arg("angles").noconvert(), nb::arg("neighbours"), nb::arg("threads"),
        nb::call_guard<nb::gil_scoped_release>(), "Turns pairs of numbers of each row; `out` may be `source`.");
}

} // namespace headwise
