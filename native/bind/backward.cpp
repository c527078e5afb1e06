// Call.backward: the gradients of a call.
#include "bound.h"

#include "../driver/backward.h"

namespace nb = nanobind;

namespace headwise {

using Gradient = std::tuple<uintptr_t, Strides4>; // of a rule's tensor: address of float32, strides; 0 = not wanted

void bind_backward(nb::class_<Bound> &call) {
    call.def(
        "backward",
        [](const Bound &self, const Numbers &out, const FactAddresses &facts, const Numbers &grad_out,
           uintptr_t grad_lse, const std::tuple<Numbers, Numbers, Numbers> &operands,
           const std::vector<Gradient> &rules, uintptr_t sinks, int threads) {
            if (int64_t(rules.size()) != self.call.rules)
                throw std::invalid_argument("a gradient, or 0, for each rule");
            Backward back{};
            back.out = operand(out);
            back.facts = facts_of(facts);
            back.grad_out = operand(grad_out);
            back.grad_lse = pointer<const float>(grad_lse);
            back.q = operand(std::get<0>(operands));
            back.k = operand(std::get<1>(operands));
            back.v = operand(std::get<2>(operands));
            for (size_t n = 0; n < rules.size(); ++n)
                back.rule[n] = plane(std::get<0>(rules[n]), std::get<1>(rules[n]), 0);
            back.sinks = pointer<float>(sinks);
            backward(chosen(), self.in_place(), back, threads);
        },
        nb::arg("out").noconvert(), nb::arg("facts").noconvert(), nb::arg("grad_out").noconvert(),
        nb::arg("grad_lse").noconvert(), nb::arg("operands").noconvert(), nb::arg("rules").noconvert(),
        nb::arg("sinks").noconvert(), nb::arg("threads").noconvert(), nb::call_guard<nb::gil_scoped_release>(),
        "Writes gradients of q, k and v; adds those of the rules' tensors, one entry a rule, and of the sinks.");
}

} // namespace headwise
