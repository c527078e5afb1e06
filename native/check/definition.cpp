#include "definition.h"

#include <algorithm>
#include <cmath>

namespace check {

using headwise::kFar;
using headwise::MaskKind;
using headwise::MaskNode;
using headwise::Plane;
using headwise::Rule;
using headwise::RuleKind;
using headwise::Runs;

namespace {

std::vector<double> decode(const Tensor &x) {
    std::vector<double> values;
    for (int64_t b = 0; b < x.shape[0]; ++b)
        for (int64_t h = 0; h < x.shape[1]; ++h)
            for (int64_t row = 0; row < x.shape[2]; ++row)
                for (int64_t c = 0; c < x.shape[3]; ++c) values.push_back(x.get(b, h, row, c));
    return values;
}

int64_t offset(const Plane &plane, int64_t b, int64_t h, int64_t row, int64_t column) {
    return b * plane.batch + h * plane.head + row * plane.row + column * plane.column;
}

bool in_runs(const Runs &runs, int64_t b, int64_t i, int64_t j) {
    for (int32_t n = 0; n < runs.count; ++n) {
        const int64_t at = b * runs.batch + i * runs.row + n;
        if (runs.lo[at] <= j && j < runs.hi[at]) return true;
    }
    return false;
}

bool in_leaf(const MaskNode &node, int64_t b, int64_t h, int64_t i, int64_t pos, int64_t j) {
    const uint8_t *cells = static_cast<const uint8_t *>(node.plane.data);
    switch (node.kind) {
    case MaskKind::runs:
        return in_runs(node.runs, b, i, j);
    case MaskKind::dense:
        return cells[offset(node.plane, b, h, i, j)];
    case MaskKind::blocks:
        if (node.placed && (pos < 0 || pos >= node.placed * node.size)) return false;
        if (node.placed) i = pos;
        return cells[offset(node.plane, b, h, i / node.size, j / node.size)];
    default:
        return node.q_ids[b * node.q_batch + i] == node.k_ids[b * node.k_batch + j];
    }
}

bool in_mask(const Call &call, int64_t b, int64_t h, int64_t i, int64_t j) {
    const int64_t pos = call.q_start[b] + i;
    if (call.before < kFar && j < pos - call.before) return false;
    if (call.after < kFar && j > pos + call.after) return false;
    if (call.runs.count > 0 && !in_runs(call.runs, b, i, j)) return false;
    std::vector<bool> stack;
    for (int32_t n = 0; n < call.nodes; ++n) {
        const MaskNode &node = call.mask[n];
        if (node.kind != MaskKind::all_of && node.kind != MaskKind::any_of) {
            stack.push_back(in_leaf(node, b, h, i, pos, j));
            continue;
        }
        const bool last = stack.back();
        stack.pop_back();
        stack.back() = node.kind == MaskKind::all_of ? stack.back() && last : stack.back() || last;
    }
    return stack.empty() || stack.back();
}

// The rule on a score; false where it hides the cell. `bent`: tanh, of a soft cap.
bool apply(const Call &call, const Rule &rule, int64_t b, int64_t h, int64_t i, int64_t j, Number &score,
           Number *bent) {
    const int64_t pos = call.q_start[b] + i;
    double added = 0;
    switch (rule.kind) {
    case RuleKind::soft_cap: {
        const double t = std::tanh(score.value / rule.cap);
        *bent = {t, score.slack / rule.cap * (1 - t * t) + kUnit * 7 * std::fabs(t)};
        score = {rule.cap * t, rule.cap * bent->slack + kUnit * std::fabs(rule.cap * t)};
        return true;
    }
    case RuleKind::slopes:
        added = -double(rule.values[b * rule.batch + h * rule.head]) * away(call, rule, b, i, j);
        break;
    case RuleKind::table:
        added = rule.values[h * rule.head + std::clamp<int64_t>(j - pos + rule.zero, 0, rule.length - 1)];
        break;
    case RuleKind::bias:
        added = read(rule.plane.data, rule.plane.dtype, offset(rule.plane, b, h, i, j));
        break;
    }
    score.value += added;
    score.slack = std::isfinite(score.value) ? score.slack + kUnit * (std::fabs(added) + std::fabs(score.value)) : 0;
    return added != -INFINITY;
}

uint32_t mix(uint32_t x) {
    x = (x ^ (x >> 16)) * 0x21F0AAADu;
    x = (x ^ (x >> 15)) * 0xD35A2D97u;
    return x ^ (x >> 15);
}

bool survives(const Call &call, int64_t b, int64_t h, int64_t i, int64_t j) {
    uint32_t row = uint32_t(call.seed);
    for (const int64_t index : {b, h, i}) row = mix(row * 0x9E3779B9u + uint32_t(index) + 1);
    const uint32_t other = mix(row ^ uint32_t(call.seed >> 32));
    return mix(mix(row + uint32_t(j) * 0x9E3779B9u) ^ other) >= call.threshold;
}

} // namespace

double away(const Call &call, const Rule &rule, int64_t b, int64_t i, int64_t j) {
    if (!rule.q_at) return double(std::llabs(call.q_start[b] + i - j));
    return std::fabs(rule.q_at[b * rule.q_batch + i] - rule.k_at[b * rule.k_batch + j]);
}

double rounding(Dtype dtype, double x) {
    const int fraction = dtype == Dtype::f32    ? 23
                         : dtype == Dtype::bf16 ? 7
                                                : 10,
              lowest = dtype == Dtype::f16 ? -14 : -126;
    const int exponent = x == 0 || !std::isfinite(x) ? lowest : std::max(std::ilogb(x), lowest);
    return std::ldexp(0.5, exponent - fraction);
}

Definition::Definition(const Problem &problem)
    : call(problem.call), q_(decode(problem.q)), k_(decode(problem.k)), v_(decode(problem.v)) {}

void Definition::score(Row &row, int64_t b, int64_t h, int64_t i, int64_t j) const {
    const double *q = this->q(b, h, i), *k = this->k(b, h, j);
    double sum = 0, size = 0;
    for (int64_t d = 0; d < call.D; ++d) {
        sum += call.scale * q[d] * k[d];
        size += std::fabs(call.scale * q[d] * k[d]);
    }
    Number score{sum, std::isfinite(size) ? kUnit * (2 * std::sqrt(double(call.D)) + 4) * size : 0};
    bool visible = true;
    for (int32_t n = 0; n < call.rules; ++n) {
        Number *bent = row.bent[size_t(n)].empty() ? nullptr : &row.bent[size_t(n)][size_t(j)];
        visible &= apply(call, call.rule[n], b, h, i, j, score, bent);
    }
    row.visible[size_t(j)] = visible && score.value != -INFINITY;
    row.score[size_t(j)] = score.value;
    row.score_slack[size_t(j)] = score.slack;
}

Row Definition::row(int64_t b, int64_t h, int64_t i) const {
    const size_t S = size_t(call.S);
    Row row{};
    row.visible.resize(S);
    row.kept.resize(S, 1.0);
    row.bent.resize(size_t(call.rules));
    for (int32_t n = 0; n < call.rules; ++n)
        if (call.rule[n].kind == RuleKind::soft_cap) row.bent[size_t(n)].resize(S);
    for (std::vector<double> *x : {&row.score, &row.score_slack, &row.p, &row.p_slack}) x->resize(S);
    for (int64_t j = 0; j < call.S; ++j) {
        if (!in_mask(call, b, h, i, j)) continue;
        score(row, b, h, i, j);
        if (call.threshold) row.kept[size_t(j)] = survives(call, b, h, i, j) ? call.survivor : 0.0;
    }
    softmax(row, h);
    return row;
}

void Definition::softmax(Row &row, int64_t h) const {
    const size_t S = size_t(call.S);
    double largest = -INFINITY, largest_slack = 0;
    bool unknown = false;
    row.empty = true;
    for (size_t j = 0; j < S; ++j) {
        if (!row.visible[j]) continue;
        row.empty = false;
        if (!(row.score[j] < INFINITY)) row.nan = true;
        unknown |= std::isnan(row.score[j]);
        if (row.score[j] > largest) largest = row.score[j];
        largest_slack = std::max(largest_slack, row.score_slack[j]);
    }
    row.max_logit = {unknown ? NAN : largest, largest_slack};
    row.lse = {row.nan ? NAN : -INFINITY, 0};
    if (row.nan) row.peak = row.log_total = row.entropy = {NAN, 0};
    if (row.empty || row.nan) return;

    const double sink = call.sinks ? call.sinks[h] : -INFINITY, peak = std::max(largest, sink);
    const double terms = kUnit * (2 * std::sqrt(double(call.S)) + 8);
    double total = std::exp(sink - peak), wander = 0;
    std::vector<double> off(S); // relative slack of exp(score - peak)
    for (size_t j = 0; j < S; ++j) {
        if (!row.visible[j]) continue;
        const double x = row.score[j] - peak;
        // Below -80 float32 is on its way to 0, and what comes of it is all slack.
        off[j] = x < -80 ? 1 : row.score_slack[j] + largest_slack + kUnit * (2 * std::fabs(x) + 4);
        row.p[j] = std::exp(x);
        total += row.p[j];
        wander += row.p[j] * off[j];
    }
    const double total_off = wander / total + terms + kUnit * (std::fabs(sink) < INFINITY ? std::fabs(sink - peak) : 0);
    const double log_total = std::log(total);
    double entropy = 0, entropy_slack = 0, spread = 0;
    for (size_t j = 0; j < S; ++j) {
        if (!row.visible[j]) continue;
        row.p[j] /= total;
        row.p_slack[j] = row.p[j] * (off[j] + total_off) + (off[j] < 1 ? 0x1p-149 : std::exp(-80.0));
        const double surprise = log_total - (row.score[j] - peak);
        entropy += row.p[j] * surprise;
        entropy_slack += row.p_slack[j] * (surprise + 1);
        spread += row.p[j] * (std::fabs(row.score[j] - largest) + std::fabs(peak - largest));
    }
    row.peak = {peak, largest_slack};
    row.log_total = {log_total, total_off + kUnit * (2 * log_total + 1)};
    row.lse = {peak + log_total, row.log_total.slack + largest_slack + kUnit * std::fabs(peak + log_total)};
    row.entropy = {entropy, entropy_slack + terms * (spread + log_total + 1)};
}

Number Definition::out(const Row &row, int64_t b, int64_t h, int64_t e, bool coarse) const {
    if (row.empty) return {0, 0};
    if (row.nan) return {NAN, 0};
    Sum sum;
    for (int64_t j = 0; j < call.S; ++j) {
        if (!row.visible[size_t(j)]) continue;
        const double weight = row.p[size_t(j)] * row.kept[size_t(j)], value = v(b, h, j)[e];
        sum.add(weight * value, std::fabs(value) * row.p_slack[size_t(j)] * row.kept[size_t(j)]);
    }
    if (coarse) sum.slack += kCoarse * sum.size;
    return sum.number();
}

} // namespace check
