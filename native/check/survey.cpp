// Survey: the answers to questions about a part of a pattern, against the whole pattern written out.
#include "check.h"

#include "../driver/survey.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace check {

using headwise::Facts;
using headwise::Frame;
using headwise::Question;
using headwise::QuestionKind;
using headwise::Survey;

namespace {

const char *const kNames[] = {"received", "offsets", "top_keys", "mass_on",     "mass_where",
                              "segments", "map",     "crop",     "contribution"};

int64_t padded(int64_t n) { return (n + headwise::kPadded - 1) / headwise::kPadded * headwise::kPadded; }
int64_t answers_of(const Frame &frame) { return (frame.b1 - frame.b0) * (frame.h1 - frame.h0); }

// How many numbers an answer has, and what comes beside it: counts, or contributions by query.
struct Size {
    int64_t out, beside;
};

Size size_of(const Call &call, const Frame &frame, const Question &question) {
    const int64_t all = answers_of(frame), distances = question.limit + question.after + 1;
    switch (question.kind) {
    case QuestionKind::received:
        return {all * call.S, 0};
    case QuestionKind::offsets:
        return {all * distances, question.counts ? all * distances : 0};
    case QuestionKind::top_keys:
        return {all * call.T * question.width, 0};
    case QuestionKind::mass_on:
    case QuestionKind::mass_where:
        return {all * call.T, 0};
    case QuestionKind::segments:
    case QuestionKind::map:
        return {all * question.height * question.width, 0};
    case QuestionKind::crop:
        return {all * (question.row1 - question.row0) * (question.key1 - question.key0), 0};
    case QuestionKind::contribution:
        return {all * call.S, all * call.T};
    }
    return {};
}

// Questions, and the memory of what they name and of what they are answered.
struct Asked {
    Frame frame{};
    Survey survey{};
    std::vector<Question> questions;
    std::vector<Buffer> kept;

    template <class T> T *zeros(int64_t count) {
        kept.emplace_back(size_t(count) * sizeof(T));
        std::fill_n(kept.back().template as<T>(), count, T(0));
        return kept.back().template as<T>();
    }
    template <class T> T *keep(const std::vector<T> &values) {
        T *here = zeros<T>(int64_t(values.size()));
        std::copy(values.begin(), values.end(), here);
        kept.back().seal();
        return here;
    }
    int64_t rows() const { return answers_of(frame) * (frame.row1 - frame.row0); }
    // Memory for the answers, all zero as a caller gives it, and for facts that are to be found.
    void answers(const Call &call) {
        for (Question &question : questions) {
            const Size size = size_of(call, frame, question);
            question.out = zeros<float>(size.out);
            if (question.kind == QuestionKind::top_keys) question.found = zeros<int64_t>(size.out);
            if (question.kind == QuestionKind::contribution) question.by_query = zeros<float>(size.beside);
            if (question.counts) question.counts = zeros<float>(size.beside);
        }
        Facts &facts = survey.facts;
        if (facts.entropy) facts.entropy = zeros<float>(rows());
        for (float **fact : {&facts.max_logit, &facts.peak, &facts.log_total, &facts.lse})
            if (!survey.known) *fact = zeros<float>(rows());
        survey.questions = questions.data();
    }
};

void draw_range(Random &random, bool whole, int64_t size, int64_t &from, int64_t &to) {
    from = whole ? 0 : random.below(size);
    to = whole ? size : random.between(from + 1, size);
}

void draw_labels(Random &random, const Call &call, Asked &asked, int64_t groups, Question &question) {
    const auto labels = [&](int64_t length, int64_t row, int64_t &batch) {
        std::vector<int32_t> drawn;
        batch = random.chance(0.5) ? row : 0;
        const int64_t same = random.between(1, 6); // neighbours often have one label
        for (int64_t b = 0; b < (batch ? call.B : 1); ++b)
            for (int64_t n = 0; n < row; ++n)
                drawn.push_back(n >= length ? -1 : n % same ? drawn.back() : int32_t(random.between(-1, groups - 1)));
        return asked.keep(drawn);
    };
    question.q_labels = labels(call.T, call.T, question.q_batch);
    question.k_labels = labels(call.S, padded(call.S), question.k_batch);
}

Question draw_question(Random &random, const Call &call, Asked &asked) {
    Question question{};
    question.kind = QuestionKind(random.below(std::size(kNames)));
    switch (question.kind) {
    case QuestionKind::received:
        break;
    case QuestionKind::offsets:
        question.limit = random.between(0, 40);
        question.after = random.between(0, 40);
        if (random.chance(0.5)) question.counts = asked.zeros<float>(1); // wanted
        break;
    case QuestionKind::top_keys:
        question.width = random.between(1, random.chance(0.8) ? 9 : 70);
        break;
    case QuestionKind::mass_on: {
        question.width = random.between(1, 4);
        question.q_batch = random.chance(0.5) ? call.T * question.width : 0;
        std::vector<int64_t> targets;
        for (int64_t n = 0; n < (question.q_batch ? call.B : 1) * call.T * question.width; ++n)
            targets.push_back(random.between(-1, call.S - 1));
        question.targets = asked.keep(targets);
        break;
    }
    case QuestionKind::mass_where:
        draw_labels(random, call, asked, 4, question);
        break;
    case QuestionKind::segments:
        question.height = question.width = random.between(1, 5);
        draw_labels(random, call, asked, question.height, question);
        break;
    case QuestionKind::map:
        question.largest = random.chance(0.5);
        question.height = random.between(1, 20);
        question.width = random.between(1, 20);
        [[fallthrough]];
    case QuestionKind::crop:
        draw_range(random, random.chance(0.5), call.T, question.row0, question.row1);
        draw_range(random, random.chance(0.5), call.S, question.key0, question.key1);
        break;
    case QuestionKind::contribution: {
        question.strange = random.chance(0.3);
        std::vector<float> norms;
        for (int64_t n = 0; n < answers_of(asked.frame); ++n)
            for (int64_t j = 0; j < padded(call.S); ++j)
                norms.push_back(j >= call.S                              ? 0.0f
                                : question.strange && random.chance(0.1) ? INFINITY
                                                                         : float(random.uniform(0, 3)));
        question.norms = asked.keep(norms);
    }
    }
    return question;
}

// The cells of a frame in float64, and what is known of their rows.
class Pattern {
  public:
    Pattern(const Definition &definition, const Frame &frame) : call(definition.call), frame(frame) {
        for (int64_t b = frame.b0; b < frame.b1; ++b)
            for (int64_t h = frame.h0; h < frame.h1; ++h)
                for (int64_t i = frame.row0; i < frame.row1; ++i) rows.push_back(definition.row(b, h, i));
    }

    // Calls take(answer, row, b, i) for each row of the frame, `answer` counting its (b, h).
    template <class Take> void each(Take &&take) const {
        size_t n = 0;
        for (int64_t answer = 0; answer < answers_of(frame); ++answer)
            for (int64_t i = frame.row0; i < frame.row1; ++i, ++n)
                take(answer, rows[n], frame.b0 + answer / (frame.h1 - frame.h0), i);
    }

    // p of a cell made from facts that are float32; nothing where it is hidden or outside of the frame.
    bool cell(const Row &row, int64_t j, Number &p) const {
        if (j < frame.key0 || j >= frame.key1 || !row.visible[size_t(j)]) return false;
        const double facts = kUnit * (std::fabs(row.peak.value) + 2 * std::fabs(row.log_total.value) + 6);
        p = {row.nan ? NAN : row.p[size_t(j)], row.p_slack[size_t(j)] + row.p[size_t(j)] * facts};
        return true;
    }

    const Call &call;
    const Frame &frame;
    std::vector<Row> rows;
};

// The pooled cell that `at` of `length` falls into, by what the edges say.
int64_t pool_of(int64_t at, int64_t length, int64_t cells) {
    int64_t cell = 0;
    while ((cell + 1) * length / cells <= at) ++cell;
    return cell;
}

struct Wanted {
    std::vector<Sum> out, beside;
};

// What one visible cell gives to an answer.
void add(const Call &call, const Question &question, int64_t answer, int64_t b, int64_t i, int64_t j, Number p,
         Wanted &wanted) {
    const auto give = [&](int64_t at) { wanted.out[size_t(at)].add(p.value, p.slack); };
    const int64_t pos = call.q_start[b] + i, tall = question.row1 - question.row0, wide = question.key1 - question.key0;
    const bool inside = i >= question.row0 && i < question.row1 && j >= question.key0 && j < question.key1;
    const int32_t of_query = question.q_labels ? question.q_labels[b * question.q_batch + i] : -1;
    const int32_t of_key = question.k_labels ? question.k_labels[b * question.k_batch + j] : -1;
    switch (question.kind) {
    case QuestionKind::received:
        give(answer * call.S + j);
        break;
    case QuestionKind::offsets: {
        const int64_t distance = pos - j,
                      entry = answer * (question.after + question.limit + 1) + question.after + distance;
        if (distance < -question.after || distance > question.limit) break;
        give(entry);
        if (question.counts) wanted.beside[size_t(entry)].add(1, 0);
        break;
    }
    case QuestionKind::top_keys:
        break;
    case QuestionKind::mass_on:
        for (int64_t n = 0; n < question.width; ++n)
            if (question.targets[b * question.q_batch + i * question.width + n] == j) give(answer * call.T + i);
        break;
    case QuestionKind::mass_where:
        if (of_query >= 0 && of_query == of_key && j < pos) give(answer * call.T + i);
        break;
    case QuestionKind::segments:
        if (of_query >= 0 && of_key >= 0) give((answer * question.height + of_query) * question.width + of_key);
        break;
    case QuestionKind::map: {
        if (!inside) break;
        const int64_t row = pool_of(i - question.row0, tall, question.height),
                      column = pool_of(j - question.key0, wide, question.width);
        const int64_t at = (answer * question.height + row) * question.width + column;
        Sum &so_far = wanted.out[size_t(at)];
        if (!question.largest)
            give(at);
        else if (p.value > so_far.value || std::isnan(p.value))
            so_far.value = p.value, so_far.slack = std::max(so_far.slack, p.slack);
        break;
    }
    case QuestionKind::crop:
        if (inside) give((answer * tall + i - question.row0) * wide + j - question.key0);
        break;
    case QuestionKind::contribution: {
        const double norm = question.norms[answer * padded(call.S) + j];
        wanted.out[size_t(answer * call.S + j)].add(p.value * norm, p.slack * norm);
        wanted.beside[size_t(answer * call.T + i)].add(p.value * norm, p.slack * norm);
    }
    }
}

void compare_all(Report &report, const std::string &what, const float *got, const std::vector<Sum> &wanted) {
    for (size_t n = 0; n < wanted.size(); ++n)
        report.expect_or_strange(what + "[" + std::to_string(n) + "]", got[n], wanted[n].number(), Dtype::f32);
}

// The best keys of a row: as many as there are, by falling p, each with the p that it has; of equals, the first.
void compare_best(const Pattern &pattern, const Row &row, const float *values, const int64_t *keys, int64_t width,
                  const std::string &what, Report &report) {
    std::vector<double> sorted;
    double slack = 0;
    for (int64_t j = 0; j < pattern.call.S; ++j) {
        Number p;
        if (!pattern.cell(row, j, p)) continue;
        sorted.push_back(p.value);
        slack = std::max(slack, p.slack);
    }
    if (!row.nan) std::sort(sorted.rbegin(), sorted.rend());
    std::vector<int64_t> met;
    for (int64_t n = 0; n < width; ++n) {
        const std::string here = what + ", place " + std::to_string(n);
        if (n >= int64_t(sorted.size())) {
            if (keys[n] != -1 || values[n] != 0) report.fail(here + ": a key where there is none");
            continue;
        }
        Number p;
        if (keys[n] < 0 || !pattern.cell(row, keys[n], p)) return report.fail(here + ": a key that is not seen");
        if (std::count(met.begin(), met.end(), keys[n])) return report.fail(here + ": a key for the second time");
        report.expect(here + ", best", values[n], {sorted[size_t(n)], slack}, rounding(Dtype::f32, sorted[size_t(n)]));
        report.expect(here + ", own", values[n], p, rounding(Dtype::f32, p.value));
        if (n > 0 && (values[n] == values[n - 1] || row.nan) && keys[n] < keys[n - 1])
            report.fail(here + ": equals out of order");
        met.push_back(keys[n]);
    }
}

void compare_facts(const Pattern &pattern, const Facts &facts, Report &report) {
    const float *const at[] = {facts.max_logit, facts.peak, facts.log_total, facts.lse, facts.entropy};
    for (size_t n = 0; n < pattern.rows.size(); ++n) {
        const Row &row = pattern.rows[n];
        const Number wanted[] = {row.max_logit, row.peak, row.log_total, row.lse, row.entropy};
        for (int fact = 0; fact < 5; ++fact)
            if (at[fact])
                report.expect("fact " + std::to_string(fact) + " of row " + std::to_string(n) + " of the frame",
                              at[fact][n], wanted[fact]);
    }
}

void compare(const Pattern &pattern, const Asked &asked, Report &report) {
    const Call &call = pattern.call;
    for (const Question &question : asked.questions) {
        const std::string name = kNames[int(question.kind)];
        const Size size = size_of(call, asked.frame, question);
        Wanted wanted{std::vector<Sum>(size_t(size.out)), std::vector<Sum>(size_t(size.beside))};
        pattern.each([&](int64_t answer, const Row &row, int64_t b, int64_t i) {
            Number p;
            for (int64_t j = 0; j < call.S; ++j)
                if (pattern.cell(row, j, p)) add(call, question, answer, b, i, j, p, wanted);
            const int64_t best = (answer * call.T + i) * question.width;
            if (question.kind == QuestionKind::top_keys)
                compare_best(pattern, row, question.out + best, question.found + best, question.width,
                             name + "[" + std::to_string(answer) + "," + std::to_string(i) + "]", report);
        });
        if (question.kind == QuestionKind::top_keys) continue;
        compare_all(report, name, question.out, wanted.out);
        if (question.counts) compare_all(report, "offsets, counts", question.counts, wanted.beside);
        if (question.by_query) compare_all(report, "contribution by query", question.by_query, wanted.beside);
    }
    if (!asked.survey.known) return compare_facts(pattern, asked.survey.facts, report);
    if (!asked.survey.facts.entropy) return;
    std::vector<Sum> entropy(size_t(asked.rows()));
    pattern.each([&](int64_t answer, const Row &row, int64_t, int64_t i) {
        Number p;
        Sum &sum = entropy[size_t(answer * (asked.frame.row1 - asked.frame.row0) + i - asked.frame.row0)];
        for (int64_t j = 0; j < call.S; ++j) {
            if (!pattern.cell(row, j, p)) continue;
            const double surprise = row.log_total.value + row.peak.value - row.score[size_t(j)];
            const double parts = std::fabs(row.log_total.value) + std::fabs(row.peak.value - row.score[size_t(j)]);
            sum.add(p.value * surprise,
                    p.slack * (surprise + 1) + p.value * parts * kUnit * (2 * std::sqrt(double(call.S)) + 8));
        }
    });
    compare_all(report, "entropy", asked.survey.facts.entropy, entropy);
}

bool same_answers(const Call &call, const Asked &a, const Asked &b) {
    const auto equal = [](const float *x, const float *y, int64_t count) {
        for (int64_t n = 0; x && n < count; ++n)
            if (!same(x[n], y[n])) return false;
        return true;
    };
    const Facts &one = a.survey.facts, &other = b.survey.facts;
    bool all = equal(one.entropy, other.entropy, a.rows()) && equal(one.max_logit, other.max_logit, a.rows()) &&
               equal(one.peak, other.peak, a.rows()) && equal(one.log_total, other.log_total, a.rows()) &&
               equal(one.lse, other.lse, a.rows());
    for (size_t n = 0; n < a.questions.size(); ++n) {
        const Question &x = a.questions[n], &y = b.questions[n];
        const Size size = size_of(call, a.frame, x);
        all &= equal(x.out, y.out, size.out) && equal(x.counts, y.counts, size.beside) &&
               equal(x.by_query, y.by_query, size.beside);
        all &= !x.found || std::equal(x.found, x.found + size.out, y.found);
    }
    return all;
}

// Facts of the frame's rows alone, by the kernels.
void check_row_facts(const Kernels &kernels, const Pattern &pattern, Report &report) {
    Asked room;
    const int64_t count = int64_t(pattern.rows.size());
    const auto zeros = [&] { return room.zeros<float>(count); };
    const Facts facts{zeros(), zeros(), zeros(), zeros(), zeros()};
    headwise::row_facts(kernels, pattern.call, pattern.frame, facts, 1);
    compare_facts(pattern, facts, report);
}

} // namespace

void check_survey(const Kernels &kernels, const Problem &problem, Random &random, const Options &options,
                  Report &report) {
    const Call &call = problem.call;
    if (call.T == 0 || call.S == 0) return; // never comes to the kernels
    Asked asked;
    const bool whole = random.chance(0.5);
    draw_range(random, whole || random.chance(0.5), call.B, asked.frame.b0, asked.frame.b1);
    draw_range(random, whole || random.chance(0.5), call.H, asked.frame.h0, asked.frame.h1);
    draw_range(random, whole || random.chance(0.5), call.T, asked.frame.row0, asked.frame.row1);
    draw_range(random, whole || random.chance(0.5), call.S, asked.frame.key0, asked.frame.key1);
    for (int64_t n = random.between(1, 6); n > 0; --n) asked.questions.push_back(draw_question(random, call, asked));
    const Definition definition(problem);
    const Pattern pattern(definition, asked.frame);
    std::vector<float> peak, log_total;
    for (const Row &row : pattern.rows) {
        peak.push_back(float(row.peak.value));
        log_total.push_back(float(row.log_total.value));
    }
    Survey &survey = asked.survey;
    survey.frame = asked.frame;
    survey.known = random.chance(0.5);
    if (survey.known) {
        survey.facts.peak = asked.keep(peak);
        survey.facts.log_total = asked.keep(log_total);
    }
    // An entropy that is added up is one of whole rows.
    const bool whole_rows = asked.frame.key0 == 0 && asked.frame.key1 == call.S;
    if (random.chance(0.4) && (whole_rows || !survey.known)) survey.facts.entropy = asked.zeros<float>(1); // wanted
    survey.careful = problem.name.find("spoiled") != std::string::npos || random.chance(0.2);
    survey.count = int64_t(asked.questions.size());

    asked.answers(call);
    headwise::survey(kernels, call, survey, 1);
    compare(pattern, asked, report);
    check_row_facts(kernels, pattern, report);
    for (int threads = 2; threads <= options.threads; ++threads) {
        Asked again;
        again.frame = asked.frame;
        again.survey = survey;
        again.questions = asked.questions;
        again.answers(call);
        headwise::survey(kernels, call, again.survey, threads);
        if (!same_answers(call, again, asked)) report.fail("other bits by " + std::to_string(threads) + " threads");
    }
}

} // namespace check
