// Forward: out and row facts against the definition, and the same bits however the work is cut.
#include "check.h"

#include "../driver/forward.h"

#include <algorithm>

namespace check {

using headwise::Facts;
using headwise::Item;
using headwise::Parts;

namespace {

const char *const kFacts[] = {"max_logit", "peak", "log_total", "lse", "entropy"};

// What a forward writes into; the facts that are not asked for have no memory.
struct Results {
    Tensor out;
    Buffer facts[5];
    Facts at{};

    Results(Random &random, const Call &call, int asked) {
        out = draw_tensor(random, {call.B, call.H, call.T, call.E}, call.q.dtype, false);
        float **const pointers[] = {&at.max_logit, &at.peak, &at.log_total, &at.lse, &at.entropy};
        for (int n = 0; n < 5; ++n) {
            if (!(asked >> n & 1)) continue;
            facts[n] = Buffer(size_t(call.B * call.H * call.T) * sizeof(float), random.chance(0.25));
            *pointers[n] = facts[n].as<float>();
        }
    }
};

// Whether batch row b of `some` has the bits of batch row `whole_b` of `all`, in the facts that both have.
bool same_row(const Call &call, const Results &some, int64_t b, const Results &all, int64_t whole_b) {
    for (int64_t h = 0; h < call.H; ++h)
        for (int64_t i = 0; i < call.T; ++i) {
            for (int64_t e = 0; call.v.data && e < call.E; ++e)
                if (!same(some.out.get(b, h, i, e), all.out.get(whole_b, h, i, e))) return false;
            for (int n = 0; n < 5; ++n) {
                if (!some.facts[n].data() || !all.facts[n].data()) continue;
                const int64_t row = h * call.T + i, stride = call.H * call.T;
                if (!same(some.facts[n].as<float>()[b * stride + row],
                          all.facts[n].as<float>()[whole_b * stride + row]))
                    return false;
            }
        }
    return true;
}

bool same_bits(const Call &call, const Results &some, const Results &all) {
    for (int64_t b = 0; b < call.B; ++b)
        if (!same_row(call, some, b, all, b)) return false;
    return true;
}

void compare(const Kernels &kernels, const Problem &problem, const Results &got, Report &report) {
    const Definition definition(problem);
    const Call &call = problem.call;
    const Dtype dtype = got.out.operand.dtype;
    const bool coarse = in_pairs(kernels, dtype);
    for (int64_t b = 0; b < call.B; ++b)
        for (int64_t h = 0; h < call.H; ++h)
            for (int64_t i = 0; i < call.T; ++i) {
                const Row row = definition.row(b, h, i);
                const auto where = [&](const char *what) {
                    return std::string(what) + "[" + std::to_string(b) + "," + std::to_string(h) + "," +
                           std::to_string(i);
                };
                for (int64_t e = 0; call.v.data && e < call.E; ++e) {
                    const Number wanted = definition.out(row, b, h, e, coarse);
                    report.expect(where("out") + "," + std::to_string(e) + "]", got.out.get(b, h, i, e), wanted,
                                  rounding(dtype, std::fabs(wanted.value) + wanted.slack));
                }
                const Number wanted[] = {row.max_logit, row.peak, row.log_total, row.lse, row.entropy};
                for (int n = 0; n < 5; ++n)
                    if (got.facts[n].data())
                        report.expect(where(kFacts[n]) + "]", got.facts[n].as<float>()[(b * call.H + h) * call.T + i],
                                      wanted[n]);
            }
    if (got.out.gaps_written()) report.fail("out: something was written between its rows");
}

// The same rows in other pieces than the driver's, straight from the kernel.
void cut_anew(const Kernels &kernels, const Call &call, Random &random, const Results &into) {
    std::vector<char> room(size_t(kernels.forward_scratch(call, kernels.item_rows)) + 64, char(0xff));
    char *scratch = room.data() + (64 - reinterpret_cast<uintptr_t>(room.data()) % 64) % 64;
    for (int64_t b = 0; b < call.B; ++b)
        for (int64_t kv = 0; kv < call.Hk; ++kv) {
            const int64_t rows = (call.first[kv + 1] - call.first[kv]) * call.T;
            for (int64_t row = 0, end; row < rows; row = end) {
                end = std::min(rows, row + random.between(1, random.chance(0.5) ? 7 : kernels.item_rows));
                kernels.forward(call, Item{b, kv, row, end, 0, call.S, 0}, into.out.operand, into.at,
                                Parts{nullptr, nullptr, nullptr, nullptr, 1}, scratch);
            }
        }
}

} // namespace

void check_forward(const Kernels &kernels, const Problem &problem, Random &random, const Options &options,
                   Report &report) {
    const Call &call = problem.call;
    Results all(random, call, 31);
    headwise::forward(kernels, call, all.out.operand, all.at, 1);
    compare(kernels, problem, all, report);

    const Results fewer(random, call, int(random.below(31)));
    headwise::forward(kernels, call, fewer.out.operand, fewer.at, 1);
    if (!same_bits(call, fewer, all)) report.fail("other bits where fewer facts are asked for");
    for (int threads = 2; threads <= options.threads; ++threads) {
        const Results again(random, call, 31);
        headwise::forward(kernels, call, again.out.operand, again.at, threads);
        if (!same_bits(call, again, all)) report.fail("other bits by " + std::to_string(threads) + " threads");
    }
    if (call.S < 2048) { // longer keys may have been split, which depends on the shapes and not on us
        const Results again(random, call, 31);
        cut_anew(kernels, call, random, again);
        if (!same_bits(call, again, all)) report.fail("other bits where the rows are cut in other places");
    }
    if (call.B > 1 && !call.threshold) { // dropout knows which batch row it is in
        const int64_t b = random.below(call.B);
        const Call one = alone(call, b);
        const Results again(random, one, 31);
        headwise::forward(kernels, one, again.out.operand, again.at, 1);
        if (!same_row(one, again, 0, all, b)) report.fail("other bits without the batch neighbours");
    }
}

} // namespace check
