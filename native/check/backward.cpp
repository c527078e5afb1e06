// Backward: the gradients of operands, rules and sinks against the derivatives written out in float64.
#include "check.h"

#include "../driver/backward.h"

#include <algorithm>
#include <cmath>

namespace check {

using headwise::Backward;
using headwise::Plane;
using headwise::Rule;
using headwise::RuleKind;

namespace {

// What is handed to a backward, and what it writes to. Given are exact facts and outputs, rounded as they are stored.
struct Sides {
    Tensor out, grad_out, q, k, v;
    Buffer facts[3], grad_lse, rule[headwise::kMaxRules], sinks;
    Backward back{};
};

// The gradient of a rule's tensor: strides like the tensor's own, contiguous.
Plane like(const Call &call, const Rule &rule, int64_t &count) {
    Plane plane{nullptr, 0, 0, 0, 0, Dtype::f32};
    count = 1;
    const auto axis = [&count](int64_t stride, int64_t size) {
        if (stride == 0) return int64_t(0);
        const int64_t own = count;
        count *= size;
        return own;
    };
    if (rule.kind == RuleKind::bias)
        plane.column = axis(rule.plane.column, call.S), plane.row = axis(rule.plane.row, call.T);
    if (rule.kind == RuleKind::table) count = rule.length;
    plane.head = axis(rule.kind == RuleKind::bias ? rule.plane.head : rule.head, call.H);
    if (rule.kind != RuleKind::table)
        plane.batch = axis(rule.kind == RuleKind::bias ? rule.plane.batch : rule.batch, call.B);
    return plane;
}

int64_t index_of(const Call &call, const Rule &rule, const Plane &into, int64_t b, int64_t h, int64_t i, int64_t j) {
    const int64_t at = b * into.batch + h * into.head + i * into.row + j * into.column;
    if (rule.kind != RuleKind::table) return at;
    return at + std::clamp<int64_t>(j - call.q_start[b] - i + rule.zero, 0, rule.length - 1);
}

// What is added to starts at something, the same each time.
Buffer started(int64_t count) {
    Buffer made{size_t(count) * sizeof(float)};
    for (int64_t n = 0; n < count; ++n) made.as<float>()[n] = float(n % 3) * 0.5f;
    return made;
}

enum Wanted { kQ = 1, kK = 2, kV = 4, kSinks = 8, kGradOut = 16, kGradLse = 32 };

void draw_inputs(Random &random, const Definition &definition, int wanted, Sides &x) {
    const Call &call = definition.call;
    const Dtype dtype = call.q.dtype;
    const size_t rows = size_t(call.B * call.H * call.T);
    for (Buffer &fact : x.facts) fact = Buffer(rows * sizeof(float));
    x.grad_lse = Buffer(rows * sizeof(float));
    x.out = draw_tensor(random, {call.B, call.H, call.T, call.E}, dtype, false);
    x.grad_out = draw_tensor(random, {call.B, call.H, call.T, call.E}, dtype, true);
    for (int64_t b = 0; b < call.B; ++b)
        for (int64_t h = 0; h < call.H; ++h)
            for (int64_t i = 0; i < call.T; ++i) {
                const Row row = definition.row(b, h, i);
                const int64_t at = (b * call.H + h) * call.T + i;
                x.facts[0].as<float>()[at] = float(row.max_logit.value);
                x.facts[1].as<float>()[at] = float(row.peak.value);
                x.facts[2].as<float>()[at] = float(row.log_total.value);
                x.grad_lse.as<float>()[at] = float(random.uniform(-1, 1));
                for (int64_t e = 0; e < call.E; ++e) {
                    x.grad_out.set(b, h, i, e, random.uniform(-1, 1));
                    if (call.v.data) x.out.set(b, h, i, e, definition.out(row, b, h, e, false).value);
                }
            }
    x.back.facts = {x.facts[0].as<float>(), x.facts[1].as<float>(), x.facts[2].as<float>(), nullptr, nullptr};
    if (wanted & kGradOut) x.back.out = x.out.operand, x.back.grad_out = x.grad_out.operand;
    if (wanted & kGradLse) x.back.grad_lse = x.grad_lse.as<float>();
    for (Buffer *buffer : {&x.facts[0], &x.facts[1], &x.facts[2], &x.grad_lse, &x.out.buffer, &x.grad_out.buffer})
        buffer->seal();
}

// Fresh memory for what is written, the gradients of the same rules as before.
void draw_outputs(Random &random, const Call &call, int wanted, unsigned rules, Sides &x) {
    x.q = draw_tensor(random, {call.B, call.H, call.T, call.D}, call.q.dtype, false);
    x.k = draw_tensor(random, {call.B, call.Hk, call.S, call.D}, call.q.dtype, false);
    x.v = draw_tensor(random, {call.B, call.Hk, call.S, call.E}, call.q.dtype, false);
    if (wanted & kQ) x.back.q = x.q.operand;
    if (wanted & kK) x.back.k = x.k.operand;
    if (wanted & kV) x.back.v = x.v.operand;
    for (int32_t n = 0; n < call.rules; ++n) {
        x.back.rule[n] = {};
        if (!(rules >> n & 1) || call.rule[n].kind == RuleKind::soft_cap) continue;
        int64_t count;
        x.back.rule[n] = like(call, call.rule[n], count);
        x.rule[n] = started(count);
        x.back.rule[n].data = x.rule[n].data();
    }
    x.sinks = started(call.H);
    x.back.sinks = wanted & kSinks ? x.sinks.as<float>() : nullptr;
}

// All gradients, in the order of their memory.
struct Gradients {
    std::vector<Sum> q, k, v, sinks;
    std::vector<std::vector<Sum>> rule;
};

// The derivatives of one row: dS = p * (kept * dO V^T - against), then back through the rules.
class Derivative {
  public:
    Derivative(const Definition &definition, const Sides &sides, bool coarse)
        : definition(definition), call(definition.call), x(sides), coarse(coarse) {
        found.q.resize(size_t(call.B * call.H * call.T * call.D));
        found.k.resize(size_t(call.B * call.Hk * call.S * call.D));
        found.v.resize(size_t(call.B * call.Hk * call.S * call.E));
        found.sinks.resize(size_t(call.H));
        for (int32_t n = 0; n < call.rules; ++n) {
            int64_t count = 0;
            if (x.back.rule[n].data) like(call, call.rule[n], count);
            found.rule.emplace_back(size_t(count));
        }
        for (int64_t b = 0; b < call.B; ++b)
            for (int64_t h = 0; h < call.H; ++h)
                for (int64_t i = 0; i < call.T; ++i) take(b, h, i);
    }

    Gradients found;

  private:
    void take(int64_t b, int64_t h, int64_t i) {
        const Row row = definition.row(b, h, i);
        if (row.empty) return;
        const Number against = against_of(row, b, h, i);
        const double peak = row.peak.value, log_total = row.log_total.value;
        const double facts = kUnit * (std::fabs(peak) + 2 * std::fabs(log_total) + 6); // of p made again
        if (call.sinks) {
            const double off = call.sinks[h] - peak, p = std::exp(off - log_total);
            const double slack = p > 0 ? p * (facts + kUnit * 2 * std::fabs(off)) : 0;
            found.sinks[size_t(h)].add(-p * against.value, p * against.slack + slack * std::fabs(against.value));
        }
        for (int64_t j = 0; j < call.S; ++j) {
            if (!row.visible[size_t(j)]) continue;
            const double kept = row.kept[size_t(j)];
            const Number p{row.nan ? NAN : row.p[size_t(j)], row.p_slack[size_t(j)] + row.p[size_t(j)] * facts};
            take_value(b, h, i, j, {p.value * kept, p.slack * kept});
            const Number dp = product(b, h, i, j);
            const double off = dp.value * kept - against.value;
            Number ds{p.value * off, p.slack * std::fabs(off) + std::fabs(p.value) * (dp.slack * kept + against.slack +
                                                                                      kUnit * 2 * std::fabs(off))};
            pull(row, b, h, i, j, ds);
            take_score(b, h, i, j, ds);
        }
    }

    double grad_out(int64_t b, int64_t h, int64_t i, int64_t e) const {
        return x.back.grad_out.data ? x.grad_out.get(b, h, i, e) : 0.0;
    }

    // rowsum(dO * out), from the output as it is stored, minus the gradient of lse. A gradient of 0 asks nothing.
    Number against_of(const Row &row, int64_t b, int64_t h, int64_t i) const {
        Sum sum;
        for (int64_t e = 0; e < call.E; ++e) {
            const double grad = grad_out(b, h, i, e);
            if (grad == 0) continue;
            const double out = definition.out(row, b, h, e, false).value;
            sum.add(grad * out, std::fabs(grad) * rounding(x.out.operand.dtype, out));
        }
        if (x.back.grad_lse) sum.add(-x.grad_lse.as<float>()[(b * call.H + h) * call.T + i], 0);
        return sum.number();
    }

    // dO V^T of a cell.
    Number product(int64_t b, int64_t h, int64_t i, int64_t j) const {
        Sum sum;
        for (int64_t e = 0; e < call.E; ++e) {
            const double grad = grad_out(b, h, i, e);
            if (grad != 0) sum.add(grad * definition.v(b, h, j)[e], 0);
        }
        return sum.number();
    }

    // Through the rules, the last one first; what a rule's tensor gets is taken on the way.
    void pull(const Row &row, int64_t b, int64_t h, int64_t i, int64_t j, Number &ds) {
        for (int32_t n = call.rules; n-- > 0;) {
            const Rule &rule = call.rule[n];
            if (rule.kind == RuleKind::soft_cap) {
                const Number bent = row.bent[size_t(n)][size_t(j)];
                const double slope = 1 - bent.value * bent.value;
                ds = {ds.value * slope,
                      ds.slack * slope + std::fabs(ds.value) * (2 * std::fabs(bent.value) * bent.slack + kUnit * 4)};
            } else if (x.back.rule[n].data) {
                const double factor = rule.kind == RuleKind::slopes ? -away(call, rule, b, i, j) : 1.0;
                found.rule[size_t(n)][size_t(index_of(call, rule, x.back.rule[n], b, h, i, j))].add(
                    ds.value * factor, ds.slack * std::fabs(factor));
            }
        }
    }

    double coarsely(double factor) const { return coarse ? kCoarse * std::fabs(factor) : 0.0; }

    void take_value(int64_t b, int64_t h, int64_t i, int64_t j, Number weight) {
        Sum *into = found.v.data() + ((b * call.Hk + call.kv_heads[h]) * call.S + j) * call.E;
        for (int64_t e = 0; e < call.E && x.back.grad_out.data; ++e) {
            const double grad = grad_out(b, h, i, e);
            into[e].add(weight.value * grad, std::fabs(grad) * (weight.slack + coarsely(weight.value)));
        }
    }

    void take_score(int64_t b, int64_t h, int64_t i, int64_t j, Number ds) {
        Sum *q = found.q.data() + ((b * call.H + h) * call.T + i) * call.D;
        Sum *k = found.k.data() + ((b * call.Hk + call.kv_heads[h]) * call.S + j) * call.D;
        const double slack = ds.slack + coarsely(ds.value);
        for (int64_t d = 0; d < call.D; ++d) {
            const double key = call.scale * definition.k(b, h, j)[d], query = call.scale * definition.q(b, h, i)[d];
            q[d].add(ds.value * key, slack * std::fabs(key));
            k[d].add(ds.value * query, slack * std::fabs(query));
        }
    }

    const Definition &definition;
    const Call &call;
    const Sides &x;
    const bool coarse;
};

void compare_tensor(Report &report, const char *what, const Tensor &got, const std::vector<Sum> &wanted) {
    size_t at = 0;
    for (int64_t b = 0; b < got.shape[0]; ++b)
        for (int64_t h = 0; h < got.shape[1]; ++h)
            for (int64_t row = 0; row < got.shape[2]; ++row)
                for (int64_t c = 0; c < got.shape[3]; ++c) {
                    const std::string name = std::string(what) + "[" + std::to_string(b) + "," + std::to_string(h) +
                                             "," + std::to_string(row) + "," + std::to_string(c) + "]";
                    report.expect_or_strange(name, got.get(b, h, row, c), wanted[at++].number(), got.operand.dtype);
                }
    if (got.gaps_written()) report.fail(std::string(what) + ": something was written between its rows");
}

void compare_added(Report &report, const std::string &what, const Buffer &got, std::vector<Sum> wanted) {
    const Buffer before = started(int64_t(wanted.size()));
    for (size_t n = 0; n < wanted.size(); ++n) {
        wanted[n].add(before.as<float>()[n], 0);
        report.expect_or_strange(what + "[" + std::to_string(n) + "]", got.as<float>()[n], wanted[n].number(),
                                 Dtype::f32);
    }
}

void compare(const Kernels &kernels, const Definition &definition, const Sides &sides, Report &report) {
    const Gradients wanted = Derivative(definition, sides, in_pairs(kernels, definition.call.q.dtype)).found;
    if (sides.back.q.data) compare_tensor(report, "dq", sides.q, wanted.q);
    if (sides.back.k.data) compare_tensor(report, "dk", sides.k, wanted.k);
    if (sides.back.v.data) compare_tensor(report, "dv", sides.v, wanted.v);
    for (int32_t n = 0; n < definition.call.rules; ++n)
        if (sides.back.rule[n].data)
            compare_added(report, "drule" + std::to_string(n), sides.rule[n], wanted.rule[size_t(n)]);
    if (sides.back.sinks) compare_added(report, "dsinks", sides.sinks, wanted.sinks);
}

bool same_tensor(const Tensor &a, const Tensor &b) {
    for (int64_t n = 0; n < a.shape[0]; ++n)
        for (int64_t h = 0; h < a.shape[1]; ++h)
            for (int64_t row = 0; row < a.shape[2]; ++row)
                for (int64_t c = 0; c < a.shape[3]; ++c)
                    if (!same(a.get(n, h, row, c), b.get(n, h, row, c))) return false;
    return true;
}

bool same_floats(const Buffer &a, const Buffer &b) {
    for (size_t n = 0; n < a.bytes() / sizeof(float); ++n)
        if (!same(a.as<float>()[n], b.as<float>()[n])) return false;
    return true;
}

bool same_bits(const Sides &a, const Sides &b) {
    bool equal =
        same_tensor(a.q, b.q) && same_tensor(a.k, b.k) && same_tensor(a.v, b.v) && same_floats(a.sinks, b.sinks);
    for (int n = 0; n < headwise::kMaxRules; ++n) equal &= !a.rule[n].data() || same_floats(a.rule[n], b.rule[n]);
    return equal;
}

} // namespace

void check_backward(const Kernels &kernels, const Problem &problem, Random &random, const Options &options,
                    Report &report) {
    const Call &call = problem.call;
    if (call.T == 0 || call.S == 0) return; // never comes to the kernels
    int wanted = int(random.below(64));
    if (random.chance(0.7)) wanted |= kQ | kK | kV | kGradOut;
    if (!call.v.data || call.E == 0) wanted &= ~(kV | kGradOut);
    if (!call.sinks) wanted &= ~kSinks;
    const unsigned rules = random.chance(0.5) ? ~0u : unsigned(random.below(1 << headwise::kMaxRules));
    const Definition definition(problem);
    Sides sides;
    draw_inputs(random, definition, wanted, sides);
    draw_outputs(random, call, wanted, rules, sides);
    headwise::backward(kernels, call, sides.back, 1);
    compare(kernels, definition, sides, report);
    for (int threads = 2; threads <= options.threads; ++threads) {
        Sides again;
        again.back = sides.back;
        draw_outputs(random, call, wanted, rules, again);
        headwise::backward(kernels, call, again.back, threads);
        if (!same_bits(again, sides)) report.fail("other bits by " + std::to_string(threads) + " threads");
    }
}

} // namespace check
