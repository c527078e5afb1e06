// headwise._native: one call described in plain numbers, and what can be computed of it.
//
// A tensor comes as (address, batch stride, head stride, row stride, dtype): reading that off a torch tensor costs a
// tenth of an exchange by DLPack, and nothing here knows torch. Whoever builds a call (backends/native) has checked every
// shape and keeps the tensors alive while it runs.
#include "../driver/dispatch.h"
#include "../driver/forward.h"
#include "../driver/threads.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>

namespace nb = nanobind;
using namespace headwise;

namespace {

using Numbers = std::tuple<uintptr_t, int64_t, int64_t, int64_t, int>; // address, three strides, dtype
using Sizes = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t>;

Operand operand(const Numbers &x) {
    const auto &[address, batch, head, row, dtype] = x;
    return {reinterpret_cast<void *>(address), batch, head, row, Dtype(dtype)};
}

template <class T> T *pointer(uintptr_t address) { return reinterpret_cast<T *>(address); }

// A call and what its pointers into the call itself point to.
class Bound {
public:
    Call call{};

    Bound(const Numbers &q, const Numbers &k, const Numbers &v, const Sizes &sizes, double scale,
          const std::vector<int64_t> &q_start, const std::vector<int32_t> &kv_heads)
        : starts(q_start), heads(kv_heads) {
        std::tie(call.B, call.H, call.Hk, call.T, call.S, call.D, call.E) = sizes;
        if (call.D > 576 || call.E > 576 || call.D < 1 || int64_t(heads.size()) != call.H)
            throw std::invalid_argument("a call that should have been refused"); // a fault of ours, not of a user's
        call.q = operand(q);
        call.k = operand(k);
        call.v = operand(v);
        call.scale = float(scale);
        call.before = call.after = kFar;
        starts.resize(size_t(call.B), starts.empty() ? 0 : starts[0]); // one for all batch rows
        // Heads by the key/value head they read: counted, then placed.
        first.assign(size_t(call.Hk) + 1, 0);
        order.resize(heads.size());
        for (const int32_t kv : heads) ++first[size_t(kv) + 1];
        for (size_t kv = 0; kv < size_t(call.Hk); ++kv) first[kv + 1] += first[kv];
        std::vector<int32_t> next(first);
        for (size_t h = 0; h < heads.size(); ++h) order[size_t(next[size_t(heads[h])]++)] = int32_t(h);
        call.kv_heads = heads.data();
        call.order = order.data();
        call.first = first.data();
        call.q_start = starts.data();
    }
    Bound(const Bound &) = delete;

    MaskNode &node(MaskKind kind) {
        if (call.nodes == kMaxNodes) throw std::length_error("more mask nodes than a call holds");
        MaskNode &node = call.mask[call.nodes++];
        node.kind = kind;
        return node;
    }

    Rule &rule(RuleKind kind) {
        if (call.rules == kMaxRules) throw std::length_error("more score rules than a call holds");
        Rule &rule = call.rule[call.rules++];
        rule.kind = kind;
        return rule;
    }

private:
    std::vector<int64_t> starts;
    std::vector<int32_t> heads, order, first;
};

using Strides4 = std::tuple<int64_t, int64_t, int64_t, int64_t>;

Plane plane(uintptr_t address, const Strides4 &strides, int dtype) {
    const auto &[batch, head, row, column] = strides;
    return {pointer<const void>(address), batch, head, row, column, Dtype(dtype)};
}

Runs runs(uintptr_t lo, uintptr_t hi, int64_t batch, int64_t row, int32_t count) {
    return {pointer<const int32_t>(lo), pointer<const int32_t>(hi), batch, row, count};
}

const Kernels &chosen() {
    const Kernels *found = kernels();
    if (!found) throw std::runtime_error("HEADWISE_ISA names an instruction set that is not built or not on this processor");
    return *found;
}

using FactAddresses = std::tuple<uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t>;

Facts facts_of(const FactAddresses &at) {
    const auto &[max_logit, peak, log_total, lse, entropy] = at;
    return {pointer<float>(max_logit), pointer<float>(peak), pointer<float>(log_total), pointer<float>(lse),
            pointer<float>(entropy)};
}

} // namespace

NB_MODULE(_native, m) {
    m.doc() = "Native CPU kernels of headwise; headwise.backends.native is what uses them.";
    m.def("isa", [] { return std::string(kernels() ? kernels()->name : ""); });
    m.def("isas", [] {
        std::vector<std::tuple<std::string, bool>> found;
        each_isa([&](const char *name, bool has) { found.emplace_back(name, has); });
        return found;
    });
    m.def("thread_runtime", [] { return std::string(thread_runtime()); });
    m.attr("MAX_NODES") = kMaxNodes;
    m.attr("MAX_DEPTH") = kMaxDepth;
    m.attr("MAX_RULES") = kMaxRules;
    m.attr("MAX_RUNS") = kMaxRuns;
    m.attr("MAX_WIDTH") = 576;

    nb::class_<Bound>(m, "Call")
        .def(nb::init<const Numbers &, const Numbers &, const Numbers &, const Sizes &, double, const std::vector<int64_t> &,
                      const std::vector<int32_t> &>(),
             nb::arg("q").noconvert(), nb::arg("k").noconvert(), nb::arg("v").noconvert(), nb::arg("sizes").noconvert(),
             nb::arg("scale").noconvert(), nb::arg("q_start").noconvert(), nb::arg("kv_heads").noconvert())
        .def("band", [](Bound &self, int64_t before, int64_t after) {
            self.call.before = before < 0 ? kFar : before; // negative: no limit
            self.call.after = after < 0 ? kFar : after;
        }, nb::arg("before").noconvert(), nb::arg("after").noconvert())
        .def("runs", [](Bound &self, uintptr_t lo, uintptr_t hi, int64_t batch, int64_t row, int32_t count) {
            self.call.runs = runs(lo, hi, batch, row, count);
        })
        .def("node_runs", [](Bound &self, uintptr_t lo, uintptr_t hi, int64_t batch, int64_t row, int32_t count) {
            self.node(MaskKind::runs).runs = runs(lo, hi, batch, row, count);
        })
        .def("node_dense", [](Bound &self, uintptr_t cells, const Strides4 &strides) {
            self.node(MaskKind::dense).plane = plane(cells, strides, 0);
        })
        .def("node_blocks", [](Bound &self, uintptr_t tiles, const Strides4 &strides, int64_t size) {
            MaskNode &node = self.node(MaskKind::blocks);
            node.plane = plane(tiles, strides, 0);
            node.size = size;
        })
        .def("node_equal", [](Bound &self, uintptr_t q_ids, int64_t q_batch, uintptr_t k_ids, int64_t k_batch) {
            MaskNode &node = self.node(MaskKind::equal);
            node.q_ids = pointer<const int64_t>(q_ids);
            node.q_batch = q_batch;
            node.k_ids = pointer<const int64_t>(k_ids);
            node.k_batch = k_batch;
        })
        .def("node_all_of", [](Bound &self) { self.node(MaskKind::all_of); })
        .def("node_any_of", [](Bound &self) { self.node(MaskKind::any_of); })
        .def("rule_soft_cap", [](Bound &self, double cap) { self.rule(RuleKind::soft_cap).cap = float(cap); })
        .def("rule_slopes", [](Bound &self, uintptr_t values, int64_t batch, int64_t head) {
            Rule &rule = self.rule(RuleKind::slopes);
            rule.values = pointer<const float>(values);
            rule.batch = batch;
            rule.head = head;
        })
        .def("rule_table", [](Bound &self, uintptr_t values, int64_t head, int64_t length, int64_t zero) {
            Rule &rule = self.rule(RuleKind::table);
            rule.values = pointer<const float>(values);
            rule.head = head;
            rule.length = length;
            rule.zero = zero;
        })
        .def("rule_bias", [](Bound &self, uintptr_t values, const Strides4 &strides, int dtype) {
            self.rule(RuleKind::bias).plane = plane(values, strides, dtype);
        })
        .def("sinks", [](Bound &self, uintptr_t values) { self.call.sinks = pointer<const float>(values); })
        .def("dropout", [](Bound &self, uint64_t seed, uint64_t threshold, double survivor) {
            self.call.seed = seed;
            self.call.threshold = threshold;
            self.call.survivor = float(survivor);
        })
        .def("forward", [](const Bound &self, const Numbers &out, const FactAddresses &facts, int threads) {
            headwise::forward(chosen(), self.call, operand(out), facts_of(facts), threads);
        }, nb::arg("out").noconvert(), nb::arg("facts").noconvert(), nb::arg("threads").noconvert(),
           nb::call_guard<nb::gil_scoped_release>());
}
