// A pass that is checked, and how it tells what is wrong.
#pragma once
#include "definition.h"

#include <headwise/kernels.h>

#include <string>

namespace check {

using headwise::Kernels;

// What a kernel was found to do wrong in a problem, and the largest of the errors that it may make.
class Report {
  public:
    // Compares a number that a kernel gave; `what` it is, for people.
    void expect(const std::string &what, double got, Number wanted, double also_allowed = 0);
    // The same of a number of one dtype; what is not finite need not be so in the same way.
    void expect_or_strange(const std::string &what, double got, Number wanted, Dtype dtype);
    void fail(const std::string &what);

    bool failed() const { return faults_ > 0; }
    const std::string &first() const { return first_; }
    double used() const { return used_; }
    const std::string &worst() const { return worst_; }

  private:
    int64_t faults_ = 0;
    double used_ = 0; // the largest error, as a part of what was allowed
    std::string first_, worst_;
};

// Equal bit by bit, but for the kinds of NaN.
bool same(double a, double b);

// Whether the kernels multiply pairs of this dtype, and so round p and dS to it.
bool in_pairs(const Kernels &kernels, Dtype dtype);

struct Options {
    int threads;
};

void check_forward(const Kernels &kernels, const Problem &problem, Random &random, const Options &options,
                   Report &report);
void check_backward(const Kernels &kernels, const Problem &problem, Random &random, const Options &options,
                    Report &report);
void check_survey(const Kernels &kernels, const Problem &problem, Random &random, const Options &options,
                  Report &report);
void check_stored(const Kernels &kernels, const Problem &problem, Random &random, const Options &options,
                  Report &report);

} // namespace check
