// headwise._native: one call described in plain numbers, and what can be computed of it.
//
// A tensor comes as (address, batch stride, head stride, row stride, dtype): reading that off a torch tensor costs a
// tenth of an exchange by DLPack, and nothing here knows torch. Whoever builds a call (backends/native) has checked
// every shape and keeps the tensors alive while it runs.
#include "bound.h"

#include "../driver/forward.h"
#include "../driver/probe.h"
#include "../driver/threads.h"

namespace nb = nanobind;
using namespace headwise;

namespace headwise {
void bind_backward(nb::class_<Bound> &call); // backward.cpp
void bind_survey(nb::class_<Bound> &call);   // survey.cpp
void bind_turn(nb::module_ &m);              // turn.cpp
} // namespace headwise

NB_MODULE(_native, m) {
    m.doc() = "Native CPU kernels of headwise; headwise.backends.native is what uses them.";
    m.def("isa", [] { return std::string(kernels() ? kernels()->name : ""); });
    m.def("isas", [] {
        std::vector<std::tuple<std::string, bool>> found;
        each_isa([&](const char *name, bool has) { found.emplace_back(name, has); });
        return found;
    });
    m.def(
        "probe_multiply_adds",
        [](bool bf16, int threads, double seconds) { return probe_multiply_adds(chosen(), bf16, threads, seconds); },
        nb::arg("bf16"), nb::arg("threads"), nb::arg("seconds"), nb::call_guard<nb::gil_scoped_release>(),
        "Billions of floating-point operations a second that this machine can do at most.");
    m.def(
        "probe_read", [](int64_t bytes, int threads, int times) { return probe_read(chosen(), bytes, threads, times); },
        nb::arg("bytes"), nb::arg("threads"), nb::arg("times"), nb::call_guard<nb::gil_scoped_release>(),
        "Billions of bytes a second that can be read from a buffer of so many bytes.");
    m.def("thread_runtime", [] { return std::string(thread_runtime()); });
    m.attr("MAX_NODES") = kMaxNodes;
    m.attr("MAX_DEPTH") = kMaxDepth;
    m.attr("MAX_RULES") = kMaxRules;
    m.attr("MAX_RUNS") = kMaxRuns;
    m.attr("MAX_WIDTH") = 576;

    nb::class_<Bound> call(m, "Call");
    bind_backward(call);
    bind_survey(call);
    bind_turn(m);
    call.def(nb::init<const Numbers &, const Numbers &, const Numbers &, const Sizes &, double,
                      const std::vector<int64_t> &, const std::vector<int32_t> &>(),
             nb::arg("q").noconvert(), nb::arg("k").noconvert(), nb::arg("v").noconvert(), nb::arg("sizes").noconvert(),
             nb::arg("scale").noconvert(), nb::arg("q_start").noconvert(), nb::arg("kv_heads").noconvert())
        .def(
            "band",
            [](Bound &self, std::optional<int64_t> before, std::optional<int64_t> after) {
                self.call.before = before.value_or(kFar);
                self.call.after = after.value_or(kFar);
            },
            nb::arg("before").none(), nb::arg("after").none(), "None is no limit; `after` may be negative.")
        .def("runs", [](Bound &self, uintptr_t lo, uintptr_t hi, int64_t batch, int64_t row,
                        int32_t count) { self.call.runs = runs(lo, hi, batch, row, count); })
        .def("node_runs", [](Bound &self, uintptr_t lo, uintptr_t hi, int64_t batch, int64_t row,
                             int32_t count) { self.node(MaskKind::runs).runs = runs(lo, hi, batch, row, count); })
        .def("node_dense", [](Bound &self, uintptr_t cells,
                              const Strides4 &strides) { self.node(MaskKind::dense).plane = plane(cells, strides, 0); })
        .def("node_blocks",
             [](Bound &self, uintptr_t tiles, const Strides4 &strides, int64_t size, int64_t placed) {
                 MaskNode &node = self.node(MaskKind::blocks);
                 node.plane = plane(tiles, strides, 0);
                 node.size = size;
                 node.placed = placed;
             })
        .def("node_equal",
             [](Bound &self, uintptr_t q_ids, int64_t q_batch, uintptr_t k_ids, int64_t k_batch) {
                 MaskNode &node = self.node(MaskKind::equal);
                 node.q_ids = pointer<const int64_t>(q_ids);
                 node.q_batch = q_batch;
                 node.k_ids = pointer<const int64_t>(k_ids);
                 node.k_batch = k_batch;
             })
        .def("node_all_of", [](Bound &self) { self.node(MaskKind::all_of); })
        .def("node_any_of", [](Bound &self) { self.node(MaskKind::any_of); })
        .def("rule_soft_cap", [](Bound &self, double cap) { self.rule(RuleKind::soft_cap).cap = float(cap); })
        .def("rule_slopes",
             [](Bound &self, uintptr_t values, int64_t batch, int64_t head) {
                 Rule &rule = self.rule(RuleKind::slopes);
                 rule.values = pointer<const float>(values);
                 rule.batch = batch;
                 rule.head = head;
             })
        .def("rule_slopes_at",
             [](Bound &self, uintptr_t q_at, int64_t q_batch, uintptr_t k_at, int64_t k_batch) {
                 Rule &rule = self.call.rule[self.call.rules - 1]; // of the slopes that were given just before
                 rule.q_at = pointer<const double>(q_at);
                 rule.q_batch = q_batch;
                 rule.k_at = pointer<const double>(k_at);
                 rule.k_batch = k_batch;
             })
        .def("rule_table",
             [](Bound &self, uintptr_t values, int64_t head, int64_t length, int64_t zero) {
                 Rule &rule = self.rule(RuleKind::table);
                 rule.values = pointer<const float>(values);
                 rule.head = head;
                 rule.length = length;
                 rule.zero = zero;
             })
        .def("rule_bias", [](Bound &self, uintptr_t values, const Strides4 &strides,
                             int dtype) { self.rule(RuleKind::bias).plane = plane(values, strides, dtype); })
        .def(
            "pages",
            [](Bound &self, bool values, uintptr_t table, int64_t batch, int64_t size, int64_t stride, int64_t pages) {
                Store &store = values ? self.call.v_store : self.call.k_store;
                store.pages = pointer<const int32_t>(table);
                store.batch = batch;
                store.size = size;
                store.stride = stride;
                const int64_t columns = (self.call.S + size - 1) / size;
                bool inside = true;
                for (int64_t b = 0; b < self.call.B; ++b)
                    for (int64_t n = 0; n < columns; ++n) {
                        const int32_t page = store.pages[b * batch + n];
                        inside &= page >= 0 && page < pages;
                    }
                return inside;
            },
            "Whether every page that the table names is there; where not, the call must not run.")
        .def("scales",
             [](Bound &self, bool values, uintptr_t scales, int64_t batch, int64_t head, int64_t row) {
                 Store &store = values ? self.call.v_store : self.call.k_store;
                 store.scales = pointer<const float>(scales);
                 store.scale_batch = batch;
                 store.scale_head = head;
                 store.scale_row = row;
             })
        .def("sinks", [](Bound &self, uintptr_t values) { self.call.sinks = pointer<const float>(values); })
        .def("dropout",
             [](Bound &self, uint64_t seed, uint64_t threshold, double survivor) {
                 self.call.seed = seed;
                 self.call.threshold = threshold;
                 self.call.survivor = float(survivor);
             })
        .def(
            "forward",
            [](const Bound &self, const Numbers &out, const FactAddresses &facts, int threads) {
                headwise::forward(chosen(), self.call, operand(out), facts_of(facts), threads);
            },
            nb::arg("out").noconvert(), nb::arg("facts").noconvert(), nb::arg("threads").noconvert(),
            nb::call_guard<nb::gil_scoped_release>());
}
