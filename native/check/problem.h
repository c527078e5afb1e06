// Calls drawn at random, the same from the same number everywhere: sizes, layouts, masks, rules, and what they point
// to.
#pragma once
#include "buffer.h"

#include <string>

namespace check {

using headwise::Call;

class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}
    uint64_t bits();
    int64_t below(int64_t n) { return int64_t(bits() % uint64_t(n)); }
    int64_t between(int64_t lowest, int64_t highest) { return lowest + below(highest - lowest + 1); }
    bool chance(double p) { return uniform(0, 1) < p; }
    double uniform(double lowest, double highest) {
        return lowest + (highest - lowest) * double(bits() >> 11) * 0x1p-53;
    }

  private:
    uint64_t state_;
};

// A call and the memory of all its pointers, each piece with pages around it that may not be touched.
struct Problem {
    Call call{};
    std::string name; // what was drawn, for people
    Tensor q, k, v;
    std::vector<Buffer> kept;

    // A copy of `values` for the call to point to.
    template <class T> T *keep(const std::vector<T> &values) {
        kept.emplace_back(values.size() * sizeof(T));
        std::copy(values.begin(), values.end(), kept.back().template as<T>());
        kept.back().seal();
        return kept.back().template as<T>();
    }
};

// Problem number `number`: a run of them has each remainder of each axis by the vectors' length.
Problem draw(uint64_t number, int64_t lanes);

// The call of batch row b alone.
Call alone(const Call &call, int64_t b);

// A tensor of these sizes in one of the layouts that a caller may have; inputs may broadcast.
Tensor draw_tensor(Random &random, const int64_t (&shape)[4], Dtype dtype, bool input);

} // namespace check
