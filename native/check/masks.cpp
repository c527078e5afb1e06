#include "masks.h"

#include <algorithm>

namespace check {

using headwise::kFar;
using headwise::MaskKind;
using headwise::MaskNode;
using headwise::Runs;

Plane draw_plane(Random &random, Problem &problem, const int64_t (&shape)[4], Dtype dtype,
                 const std::function<double()> &value, bool bytes) {
    int64_t sizes[4], strides[4], order[4] = {0, 1, 2, 3}, count = 1;
    if (random.chance(0.2)) std::swap(order[2], order[3]);
    for (int axis = 0; axis < 4; ++axis)
        sizes[axis] = random.chance(0.3) ? std::min<int64_t>(shape[axis], 1) : shape[axis];
    for (int n = 3; n >= 0; --n) {
        const int64_t axis = order[n];
        strides[axis] = sizes[axis] < 2 ? 0 : count;
        count *= sizes[axis];
    }
    Buffer buffer(size_t(count) * (bytes ? 1 : size_t(size_of(dtype))), random.chance(0.25));
    for (int64_t x = 0; x < count; ++x) {
        if (bytes)
            buffer.data()[x] = char(value());
        else
            write(buffer.data(), dtype, x, value());
    }
    buffer.seal();
    const Plane plane{buffer.data(), strides[0], strides[1], strides[2], strides[3], dtype};
    problem.kept.push_back(std::move(buffer));
    return plane;
}

namespace {

Runs draw_runs(Random &random, Problem &problem, int32_t count) {
    const Call &call = problem.call;
    const int64_t batches = random.chance(0.5) ? call.B : 1,
                  rows = random.chance(0.7) ? call.T : std::min<int64_t>(call.T, 1);
    std::vector<int32_t> lo, hi;
    for (int64_t n = 0; n < batches * rows * count; ++n) {
        const int64_t a = random.between(0, call.S), b = random.between(0, call.S);
        const bool ordered = random.chance(0.9); // else perhaps crossed, which is no keys
        lo.push_back(int32_t(ordered ? std::min(a, b) : a));
        hi.push_back(int32_t(ordered ? std::max(a, b) : b));
    }
    return {problem.keep(lo), problem.keep(hi), batches < 2 ? 0 : rows * count, rows < 2 ? 0 : count, count};
}

void draw_leaf(Random &random, Problem &problem, MaskNode &node) {
    const Call &call = problem.call;
    node.kind = MaskKind(random.below(4));
    const double kept = random.uniform(0.1, 0.95);
    const auto cell = [&] { return random.chance(kept) ? 1.0 : 0.0; };
    switch (node.kind) {
    case MaskKind::runs:
        node.runs = draw_runs(random, problem, int32_t(random.between(1, 4)));
        return;
    case MaskKind::dense:
        node.plane = draw_plane(random, problem, {call.B, call.H, call.T, call.S}, Dtype::f32, cell, true);
        return;
    case MaskKind::blocks: {
        node.size = random.between(1, 19);
        node.placed = random.chance(0.4) ? random.between(1, call.S / node.size + 2) : 0;
        const int64_t rows = node.placed ? node.placed : (call.T + node.size - 1) / node.size,
                      columns = (call.S + node.size - 1) / node.size;
        node.plane = draw_plane(random, problem, {call.B, call.H, rows, columns}, Dtype::f32, cell, true);
        return;
    }
    default: {
        const auto ids = [&](int64_t n) {
            std::vector<int64_t> drawn;
            while (int64_t(drawn.size()) < n) drawn.push_back(random.between(-1, 2) * (1LL << 32));
            return problem.keep(drawn);
        };
        const bool alike = random.chance(0.5);
        node.q_batch = alike ? 0 : call.T;
        node.k_batch = alike ? 0 : call.S;
        node.q_ids = ids((alike ? 1 : call.B) * call.T);
        node.k_ids = ids((alike ? 1 : call.B) * call.S);
    }
    }
}

// Leaves and operators: an operator may come as soon as two truth values are there, and in the end one is left.
void draw_nodes(Random &random, Problem &problem) {
    Call &call = problem.call;
    int64_t leaves = random.between(1, 5), depth = 0;
    problem.name += " nodes";
    while (leaves > 0 || depth > 1) {
        MaskNode &node = call.mask[call.nodes++];
        if (leaves > 0 && (depth < 2 || random.chance(0.5))) {
            draw_leaf(random, problem, node);
            --leaves, ++depth;
            problem.name += ":" + std::string(1, "rdbe"[int(node.kind)]);
        } else {
            node.kind = random.chance(0.5) ? MaskKind::all_of : MaskKind::any_of;
            --depth;
            problem.name += node.kind == MaskKind::all_of ? "&" : "|";
        }
    }
}

} // namespace

void draw_mask(Random &random, Problem &problem) {
    Call &call = problem.call;
    call.before = call.after = kFar;
    const int64_t kind = random.below(8);
    if (kind == 0) return;
    if (kind == 1 || random.chance(0.3)) {
        problem.name += " causal";
        call.after = 0;
    } else if (kind == 2 || random.chance(0.3)) {
        problem.name += " band";
        if (random.chance(0.8)) call.before = random.between(-2, 20);
        if (random.chance(0.8)) call.after = random.between(-2, 20);
    }
    if (kind == 3 || kind == 4 || random.chance(0.15)) {
        call.runs = draw_runs(random, problem, int32_t(kind == 3 ? 1 : random.between(1, 4)));
        problem.name += " runs" + std::to_string(call.runs.count);
    }
    if (kind >= 5 || random.chance(0.1)) draw_nodes(random, problem);
}

} // namespace check
