// The kernels of every instruction set that this processor has against the definition, in calls drawn at random:
//
//     headwise_check [cases] [first case] [threads] [-v]
//
// HEADWISE_ISA names one instruction set. Nothing but the C++ library is needed, so that it also runs in an emulator.
#include "check.h"

#include "../driver/dispatch.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <unistd.h>

#define HEADWISE_DECLARE(isa) extern "C" const headwise::Kernels headwise_kernels_##isa;
HEADWISE_ISAS(HEADWISE_DECLARE)

namespace check {

void Report::expect(const std::string &what, double got, Number wanted, double also_allowed) {
    const double error = std::fabs(got - wanted.value), allowed = wanted.slack + also_allowed;
    bool right = error <= allowed;
    if (!std::isfinite(wanted.value)) right = std::isnan(wanted.value) ? std::isnan(got) : got == wanted.value;
    if (right) {
        const double used = error / allowed;
        if (also_allowed < wanted.slack && used > used_) used_ = used, worst_ = what;
        return;
    }
    char numbers[128];
    std::snprintf(numbers, sizeof numbers, " is %.9g, should be %.9g within %.1e", got, wanted.value, allowed);
    fail(what + numbers);
}

void Report::expect_or_strange(const std::string &what, double got, Number wanted, Dtype dtype) {
    if (std::isfinite(wanted.value))
        expect(what, got, wanted, rounding(dtype, std::fabs(wanted.value) + wanted.slack));
    else if (std::isfinite(got))
        fail(what + " is finite, and should not be");
}

void Report::fail(const std::string &what) {
    if (faults_++ == 0) first_ = what;
}

bool same(double a, double b) { return a == b ? std::signbit(a) == std::signbit(b) : std::isnan(a) && std::isnan(b); }

bool in_pairs(const Kernels &kernels, Dtype dtype) {
    return dtype == Dtype::bf16 && std::strcmp(kernels.name, "avx512_bf16") == 0;
}

namespace {

struct Pass {
    const char *name;
    void (*check)(const Kernels &, const Problem &, Random &, const Options &, Report &);
};

const Pass kPasses[] = {
    {"forward", check_forward}, {"backward", check_backward}, {"survey", check_survey}, {"stored", check_stored}};

std::string at_work; // what to say when the process is killed for touching a page

void on_fault(int) {
    const char said[] = ": touched memory that is not its own\n";
    const bool told =
        ::write(STDOUT_FILENO, at_work.data(), at_work.size()) > 0 && ::write(STDOUT_FILENO, said, sizeof said - 1) > 0;
    _exit(told ? 1 : 3);
}

struct Range {
    uint64_t first, cases;
    bool verbose;
};

void check_isa(const Kernels &kernels, const Range &range, const Options &options, int64_t &passed, int64_t &failed) {
    for (const Pass &pass : kPasses) {
        double used = 0;
        std::string worst;
        const int64_t failed_before = failed;
        for (uint64_t number = range.first; number < range.first + range.cases; ++number) {
            const Problem problem = draw(number, kernels.lanes);
            at_work =
                std::string(pass.name) + ", " + kernels.name + ", case " + std::to_string(number) + ": " + problem.name;
            if (range.verbose) std::printf("%s\n", at_work.c_str()), std::fflush(stdout);
            Random random(number);
            Report report;
            pass.check(kernels, problem, random, options, report);
            if (report.used() > used) {
                used = report.used();
                worst = report.worst() + " of case " + std::to_string(number);
            }
            if (!report.failed()) {
                ++passed;
            } else if (failed++ - failed_before < 20) {
                std::printf("%s\n    %s\n", at_work.c_str(), report.first().c_str());
            }
        }
        std::printf("%s, %s: %lld cases, %lld failed; largest error %.2f of the bound, %s\n", pass.name, kernels.name,
                    static_cast<long long>(range.cases), static_cast<long long>(failed - failed_before), used,
                    worst.c_str());
        std::fflush(stdout);
    }
}

} // namespace
} // namespace check

int main(int count, char **words) {
    check::Range range{0, 2000, false};
    check::Options options{4};
    for (int n = 1, place = 0; n < count; ++n) {
        const char *word = words[n];
        char *end = nullptr;
        const unsigned long long number = std::strtoull(word, &end, 10);
        if (std::strcmp(word, "-v") == 0) {
            range.verbose = true;
        } else if (end == word || *end || place > 2) {
            std::fprintf(stderr, "headwise_check [cases] [first case] [threads] [-v], not %s\n", word);
            return 2;
        } else if (place++ == 0) {
            range.cases = number;
        } else if (place == 2) {
            range.first = number;
        } else {
            options.threads = int(number);
        }
    }
    std::signal(SIGSEGV, check::on_fault);
    std::signal(SIGBUS, check::on_fault);

    const char *wanted = std::getenv("HEADWISE_ISA");
    int64_t passed = 0, failed = 0;
    const auto take = [&](const char *name, const headwise::Kernels &kernels) {
        if (wanted && *wanted && std::strcmp(wanted, name) != 0) return;
        if (headwise::processor_has(name))
            check::check_isa(kernels, range, options, passed, failed);
        else
            std::printf("%s: not on this processor\n", name);
    };
#define HEADWISE_TAKE(isa) take(#isa, headwise_kernels_##isa);
    HEADWISE_ISAS(HEADWISE_TAKE)
    std::printf("%lld passed, %lld failed\n", static_cast<long long>(passed), static_cast<long long>(failed));
    return failed || !passed; // a check that checked nothing has failed
}
