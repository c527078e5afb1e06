#include "problem.h"
#include "masks.h"

#include <algorithm>
#include <cmath>

namespace check {

using headwise::kFar;
using headwise::Rule;
using headwise::RuleKind;

uint64_t Random::bits() { // splitmix64
    uint64_t x = state_ += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

namespace {

// Most calls are small and walk through the remainders; the others are there for a size that is cut in some way.
void draw_sizes(Random &random, uint64_t number, int64_t lanes, Problem &problem) {
    Call &call = problem.call;
    const int64_t kind = int64_t(number % 8), n = int64_t(number / 8) * 4 + kind, limit = 2 * lanes + 2;
    call.B = random.between(1, 2);
    call.Hk = random.between(1, 3);
    call.H = call.Hk * random.between(1, 3);
    // Factors without a common divisor with the limits; the shift makes new pairs in each round.
    const int64_t round = n / limit;
    call.T = n % limit;
    call.S = (7 * n + 2 + round) % limit;
    call.D = 1 + (7 * n + 3 + 5 * round) % (limit - 1);
    call.E = (13 * n + 5 + 3 * round) % limit;
    if (kind < 4) return;
    call.B = 1;
    call.D = random.between(1, 2 * lanes + 1);
    call.E = random.between(1, 2 * lanes + 1);
    switch (kind) {
    case 4: // several blocks of keys
        problem.name = "blocks";
        call.Hk = 1, call.H = random.between(1, 2);
        call.T = random.between(1, 40), call.S = random.between(100, 600);
        return;
    case 5: // several items of rows
        problem.name = "rows";
        call.Hk = 1, call.H = random.between(1, 3);
        call.T = random.between(100, 300), call.S = random.between(1, 40);
        return;
    case 6: // wide heads
        problem.name = "wide";
        call.H = call.Hk = 1;
        call.T = random.between(1, 20), call.S = random.between(1, 20);
        call.D = random.between(1, 576), call.E = random.between(1, 576);
        return;
    default: // few rows, whose keys are read in place, and from some length on are split
        problem.name = "few";
        call.Hk = random.between(1, 2), call.H = call.Hk * random.between(1, 4);
        call.T = random.between(1, 2),
        call.S = random.chance(0.5) ? random.between(1, 700) : random.between(2000, 3200);
        call.D = random.between(1, 20), call.E = random.between(1, 20);
    }
}

// Which key/value head each query head reads: equal groups, or any.
void draw_heads(Random &random, Problem &problem) {
    Call &call = problem.call;
    std::vector<int32_t> heads, order, first{0};
    const bool uneven = random.chance(0.3);
    for (int64_t h = 0; h < call.H; ++h)
        heads.push_back(int32_t(uneven ? random.below(call.Hk) : h / (call.H / call.Hk)));
    for (int64_t kv = 0; kv < call.Hk; ++kv) {
        for (int64_t h = 0; h < call.H; ++h)
            if (heads[size_t(h)] == kv) order.push_back(int32_t(h));
        first.push_back(int32_t(order.size()));
    }
    if (uneven) problem.name += " uneven";
    call.kv_heads = problem.keep(heads);
    call.order = problem.keep(order);
    call.first = problem.keep(first);
}

void fill(Random &random, Tensor &x) {
    for (int64_t b = 0; b < x.shape[0]; ++b)
        for (int64_t h = 0; h < x.shape[1]; ++h)
            for (int64_t row = 0; row < x.shape[2]; ++row)
                for (int64_t c = 0; c < x.shape[3]; ++c) x.set(b, h, row, c, random.uniform(-2, 2));
}

// NaN or inf in one column of a row, or in all, for every head.
void spoil(Random &random, Tensor &x, int64_t row) {
    const double values[] = {NAN, INFINITY, -INFINITY};
    if (x.shape[3] == 0) return;
    const double value = values[random.below(3)];
    const int64_t only = random.chance(0.5) ? random.below(x.shape[3]) : -1;
    for (int64_t b = 0; b < x.shape[0]; ++b)
        for (int64_t h = 0; h < x.shape[1]; ++h)
            for (int64_t c = 0; c < x.shape[3]; ++c)
                if (only < 0 || c == only) x.set(b, h, row, c, value);
}

void draw_operands(Random &random, Problem &problem) {
    Call &call = problem.call;
    const Dtype dtype = Dtype(random.below(3));
    problem.name += dtype == Dtype::f32 ? " f32" : dtype == Dtype::bf16 ? " bf16" : " f16";
    problem.q = draw_tensor(random, {call.B, call.H, call.T, call.D}, dtype, true);
    problem.k = draw_tensor(random, {call.B, call.Hk, call.S, call.D}, dtype, true);
    problem.v = draw_tensor(random, {call.B, call.Hk, call.S, call.E}, dtype, true);
    for (Tensor *x : {&problem.q, &problem.k, &problem.v}) fill(random, *x);
    if (random.chance(0.25)) {
        problem.name += " spoiled";
        for (int64_t j = 0; j < call.S; ++j) {
            if (random.chance(0.1)) spoil(random, problem.k, j);
            if (random.chance(0.1)) spoil(random, problem.v, j);
        }
        if (call.T && random.chance(0.3)) spoil(random, problem.q, random.below(call.T));
    }
    for (Tensor *x : {&problem.q, &problem.k, &problem.v}) x->buffer.seal();
    call.q = problem.q.operand;
    call.k = problem.k.operand;
    call.v = problem.v.operand;
    if (random.chance(0.1)) {
        call.v = {};
        problem.name += " bare";
    }
    const double usual = 1 / std::sqrt(double(call.D));
    const double scales[] = {usual, usual, usual, 4 * usual, -usual, 0};
    call.scale = float(scales[random.below(6)]);
}

// Where queries and keys stand: anywhere, some of them on whole numbers.
void draw_places(Random &random, Problem &problem, Rule &rule) {
    const Call &call = problem.call;
    const auto places = [&](int64_t count) {
        std::vector<double> drawn;
        while (int64_t(drawn.size()) < count)
            drawn.push_back(random.chance(0.5) ? double(random.between(-9, 90)) : random.uniform(-9, 90));
        return problem.keep(drawn);
    };
    problem.name += " placed";
    rule.q_batch = random.chance(0.5) ? call.T : 0;
    rule.k_batch = random.chance(0.5) ? call.S : 0;
    rule.q_at = places((rule.q_batch ? call.B : 1) * call.T);
    rule.k_at = places((rule.k_batch ? call.B : 1) * call.S);
}

void draw_rule(Random &random, Problem &problem) {
    Call &call = problem.call;
    Rule &rule = call.rule[call.rules++];
    rule.kind = RuleKind(random.below(4));
    std::vector<float> values;
    switch (rule.kind) {
    case RuleKind::soft_cap:
        problem.name += " cap";
        rule.cap = float(random.uniform(0.5, 5));
        return;
    case RuleKind::slopes:
        problem.name += " slopes";
        rule.head = 1;
        rule.batch = random.chance(0.5) ? call.H : 0;
        for (int64_t n = 0; n < (rule.batch ? call.B : 1) * call.H; ++n)
            values.push_back(float(random.uniform(-0.05, 0.3)));
        if (random.chance(0.4)) draw_places(random, problem, rule);
        break;
    case RuleKind::table:
        problem.name += " table";
        rule.length = random.between(1, 40);
        rule.zero = random.between(-3, rule.length + 3);
        rule.head = random.chance(0.7) ? rule.length : 0;
        for (int64_t n = 0; n < (rule.head ? call.H : 1) * rule.length; ++n)
            values.push_back(float(random.uniform(-2, 2)));
        break;
    case RuleKind::bias: {
        problem.name += " bias";
        const double hidden = random.chance(0.5) ? 0.2 : 0;
        rule.plane = draw_plane(random, problem, {call.B, call.H, call.T, call.S}, Dtype(random.below(3)),
                                [&] { return random.chance(hidden) ? -INFINITY : random.uniform(-2, 2); });
        return;
    }
    }
    rule.values = problem.keep(values);
}

void draw_sinks(Random &random, Problem &problem) {
    std::vector<float> sinks;
    for (int64_t h = 0; h < problem.call.H; ++h)
        sinks.push_back(random.chance(0.1) ? -INFINITY : float(random.uniform(-3, 3)));
    problem.call.sinks = problem.keep(sinks);
    problem.name += " sinks";
}

void draw_dropout(Random &random, Problem &problem) {
    const double rates[] = {0.1, 0.5, 0.9}, rate = rates[random.below(3)];
    problem.call.seed = random.bits() >> 2;
    problem.call.threshold = uint64_t(std::nearbyint(rate * 0x1p32));
    problem.call.survivor = float(1 / (1 - rate));
    problem.name += " dropout";
}

} // namespace

Tensor draw_tensor(Random &random, const int64_t (&shape)[4], Dtype dtype, bool input) {
    Tensor x;
    std::copy(shape, shape + 4, x.shape);
    const int64_t width = shape[3] + (random.chance(0.3) ? random.between(1, 5) : 0);
    Operand &at = x.operand;
    at.dtype = dtype;
    if (random.chance(0.5)) { // [batch, head, row], else [batch, row, head]
        at.row = width;
        at.head = shape[2] * at.row;
        at.batch = shape[1] * at.head;
    } else {
        at.head = width;
        at.row = shape[1] * at.head;
        at.batch = shape[2] * at.row;
    }
    if (input && random.chance(0.1)) at.batch = 0;
    if (input && random.chance(0.1)) at.head = 0;
    int64_t count = 0;
    if (shape[0] && shape[1] && shape[2] && shape[3])
        count = x.offset(shape[0] - 1, shape[1] - 1, shape[2] - 1, shape[3] - 1) + 1;
    x.buffer = Buffer(size_t(count * size_of(dtype)), random.chance(0.25));
    at.data = x.buffer.data();
    return x;
}

Call alone(const Call &call, int64_t b) {
    Call one = call;
    one.B = 1;
    for (Operand *x : {&one.q, &one.k, &one.v})
        if (x->data) x->data = static_cast<char *>(x->data) + b * x->batch * size_of(x->dtype);
    const auto move = [b](headwise::Plane &plane, int64_t size) {
        if (plane.data) plane.data = static_cast<const char *>(plane.data) + b * plane.batch * size;
    };
    const auto move_runs = [b](headwise::Runs &runs) {
        if (runs.count) runs.lo += b * runs.batch, runs.hi += b * runs.batch;
    };
    one.q_start += b;
    move_runs(one.runs);
    for (int32_t n = 0; n < one.nodes; ++n) {
        headwise::MaskNode &node = one.mask[n];
        move_runs(node.runs);
        move(node.plane, 1);
        if (node.q_ids) node.q_ids += b * node.q_batch, node.k_ids += b * node.k_batch;
    }
    for (int32_t n = 0; n < one.rules; ++n) {
        headwise::Rule &rule = one.rule[n];
        move(rule.plane, size_of(rule.plane.dtype));
        if (rule.kind == headwise::RuleKind::slopes) rule.values += b * rule.batch;
        if (rule.q_at) rule.q_at += b * rule.q_batch, rule.k_at += b * rule.k_batch;
    }
    return one;
}

Problem draw(uint64_t number, int64_t lanes) {
    Random random(number * 1000003 + uint64_t(lanes));
    Problem problem;
    Call &call = problem.call;
    draw_sizes(random, number, lanes, problem);
    draw_heads(random, problem);
    draw_operands(random, problem);
    std::vector<int64_t> starts;
    const bool alike = random.chance(0.7);
    for (int64_t b = 0; b < call.B; ++b) starts.push_back(alike ? call.S - call.T : random.between(-5, call.S + 5));
    call.q_start = problem.keep(starts);
    draw_mask(random, problem);
    if (random.chance(0.4))
        for (int64_t n = random.between(1, 3); n > 0; --n) draw_rule(random, problem);
    if (random.chance(0.25)) draw_sinks(random, problem);
    if (random.chance(0.2)) draw_dropout(random, problem);
    char sizes[128];
    std::snprintf(sizes, sizeof sizes, "B=%d H=%d Hk=%d T=%d S=%d D=%d E=%d ", int(call.B), int(call.H), int(call.Hk),
                  int(call.T), int(call.S), int(call.D), int(call.E));
    problem.name.insert(0, sizes);
    return problem;
}

} // namespace check
