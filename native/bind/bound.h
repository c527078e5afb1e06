// A call held for Python: plain numbers in, the structs of call.h out.
#pragma once
#include "../driver/dispatch.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>

namespace headwise {

using Numbers = std::tuple<uintptr_t, int64_t, int64_t, int64_t, int>; // address, three strides, dtype
using Sizes = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t>;

inline Operand operand(const Numbers &x) {
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
        if (heads.empty()) // groups of one size, one behind the other
            for (int64_t h = 0; h < call.H; ++h) heads.push_back(int32_t(h / (call.H / call.Hk)));
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

    // The call, for those who read keys and values at their strides only.
    const Call &in_place() const {
        if (call.k_store.pages || call.k_store.scales || call.v_store.pages || call.v_store.scales)
            throw std::invalid_argument("pages and int8 are for the forward pass"); // a fault of ours, not of a user's
        return call;
    }

  private:
    std::vector<int64_t> starts;
    std::vector<int32_t> heads, order, first;
};

using Strides4 = std::tuple<int64_t, int64_t, int64_t, int64_t>;

inline Plane plane(uintptr_t address, const Strides4 &strides, int dtype) {
    const auto &[batch, head, row, column] = strides;
    return {pointer<const void>(address), batch, head, row, column, Dtype(dtype)};
}

inline Runs runs(uintptr_t lo, uintptr_t hi, int64_t batch, int64_t row, int32_t count) {
    return {pointer<const int32_t>(lo), pointer<const int32_t>(hi), batch, row, count};
}

inline const Kernels &chosen() {
    const Kernels *found = kernels();
    if (!found)
        throw std::runtime_error("HEADWISE_ISA names an instruction set that is not built or not on this processor");
    return *found;
}

using FactAddresses = std::tuple<uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t>;

inline Facts facts_of(const FactAddresses &at) {
    const auto &[max_logit, peak, log_total, lse, entropy] = at;
    return {pointer<float>(max_logit), pointer<float>(peak), pointer<float>(log_total), pointer<float>(lse),
            pointer<float>(entropy)};
}

} // namespace headwise
