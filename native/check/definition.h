// What a call means, written as the formula says in float64, with a bound of what float32 may make of it.
//
// A number comes with its slack: how far the same steps in float32 may end from it, to first order. Sums of n terms are
// taken to wander by sqrt(n) roundings; the largest of the constants is the price of an elementary function.
#pragma once
#include "problem.h"

#include <cmath>

namespace check {

struct Number {
    double value, slack;
};

// One row of the pattern, cell by cell. Where a cell is hidden the others say nothing of it.
struct Row {
    std::vector<char> visible;
    std::vector<double> score, score_slack;
    std::vector<double> p, p_slack; // p_slack: of p itself
    std::vector<double> kept;       // 0 or 1 / (1 - dropout)
    // Of each rule that is a soft cap, tanh(score / cap) of each cell.
    std::vector<std::vector<Number>> bent;
    bool empty, nan; // nan: a visible score is NaN or +inf, so every p is
    Number max_logit, peak, log_total, lse, entropy;
};

// A call's operands in float64.
class Definition {
  public:
    explicit Definition(const Problem &problem);

    Row row(int64_t b, int64_t h, int64_t i) const;
    // sum_j p_j kept_j v_je; `coarse`: the weights are rounded to bf16 on their way.
    Number out(const Row &row, int64_t b, int64_t h, int64_t e, bool coarse) const;

    const double *q(int64_t b, int64_t h, int64_t i) const {
        return q_.data() + ((b * call.H + h) * call.T + i) * call.D;
    }
    const double *k(int64_t b, int64_t h, int64_t j) const { return k_.data() + key(b, h, j) * call.D; }
    const double *v(int64_t b, int64_t h, int64_t j) const { return v_.data() + key(b, h, j) * call.E; }

    const Call &call;

  private:
    int64_t key(int64_t b, int64_t h, int64_t j) const { return (b * call.Hk + call.kv_heads[h]) * call.S + j; }
    void score(Row &row, int64_t b, int64_t h, int64_t i, int64_t j) const;
    void softmax(Row &row, int64_t h) const;

    std::vector<double> q_, k_, v_;
};

constexpr double kUnit = 0x1p-24;  // one rounding of float32
constexpr double kCoarse = 0x1p-8; // what a factor may lose that goes as bf16

// A sum on its way, and what float32 may make of it.
struct Sum {
    double value = 0, slack = 0, size = 0;
    int64_t terms = 0;

    void add(double term, double term_slack) {
        value += term;
        slack += term_slack;
        size += std::fabs(term);
        ++terms;
    }
    Number number() const { return {value, slack + kUnit * (2 * std::sqrt(double(terms)) + 6) * size}; }
};

// How far key j is from query i, to a rule of slopes.
double away(const Call &call, const headwise::Rule &rule, int64_t b, int64_t i, int64_t j);

// Half of the distance between neighbouring numbers of the dtype around x.
double rounding(Dtype dtype, double x);

} // namespace check
