// Call.Survey: questions about a part of a pattern in plain numbers, and Call.survey, which answers them.
#include "bound.h"

#include "../driver/survey.h"

namespace nb = nanobind;

namespace headwise {
namespace {

using Ranges = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t>;
using Region = std::tuple<int64_t, int64_t, int64_t, int64_t>; // rows, then keys

Frame frame_of(const Ranges &ranges) {
    const auto &[b0, b1, h0, h1, row0, row1, key0, key1] = ranges;
    return {b0, b1, h0, h1, row0, row1, key0, key1};
}

// The questions of one pass. Every answer is zeroed float32 (keys int64) of the frame's batch rows and heads.
class Asked {
  public:
    Frame frame;
    std::vector<Question> questions;

    explicit Asked(const Ranges &ranges) : frame(frame_of(ranges)) {}

    Question &ask(QuestionKind kind, uintptr_t out) {
        Question question{};
        question.kind = kind;
        question.out = pointer<float>(out);
        questions.push_back(question);
        return questions.back();
    }

    Question &ask_labels(QuestionKind kind, uintptr_t out, uintptr_t q_labels, int64_t q_batch, uintptr_t k_labels,
                         int64_t k_batch) {
        Question &question = ask(kind, out);
        question.q_labels = pointer<const int32_t>(q_labels);
        question.q_batch = q_batch;
        question.k_labels = pointer<const int32_t>(k_labels);
        question.k_batch = k_batch;
        return question;
    }

    Question &ask_region(QuestionKind kind, uintptr_t out, const Region &region) {
        Question &question = ask(kind, out);
        std::tie(question.row0, question.row1, question.key0, question.key1) = region;
        return question;
    }
};

} // namespace

void bind_survey(nb::class_<Bound> &call) {
    nb::class_<Asked>(call, "Survey")
        .def(nb::init<const Ranges &>(), nb::arg("frame").noconvert())
        .def("received", [](Asked &self, uintptr_t out) { self.ask(QuestionKind::received, out); })
        .def("offsets",
             [](Asked &self, uintptr_t out, uintptr_t counts, int64_t limit, int64_t after) {
                 Question &question = self.ask(QuestionKind::offsets, out);
                 question.counts = pointer<float>(counts);
                 question.limit = limit;
                 question.after = after;
             })
        .def("top_keys",
             [](Asked &self, uintptr_t values, uintptr_t keys, int64_t count) {
                 Question &question = self.ask(QuestionKind::top_keys, values);
                 question.found = pointer<int64_t>(keys);
                 question.width = count;
             })
        .def("mass_on",
             [](Asked &self, uintptr_t out, uintptr_t targets, int64_t batch, int64_t count) {
                 Question &question = self.ask(QuestionKind::mass_on, out);
                 question.targets = pointer<const int64_t>(targets);
                 question.q_batch = batch;
                 question.width = count;
             })
        .def("mass_where",
             [](Asked &self, uintptr_t out, uintptr_t q_labels, int64_t q_batch, uintptr_t k_labels, int64_t k_batch) {
                 self.ask_labels(QuestionKind::mass_where, out, q_labels, q_batch, k_labels, k_batch);
             })
        .def("segments",
             [](Asked &self, uintptr_t out, uintptr_t q_ids, int64_t q_batch, uintptr_t k_ids, int64_t k_batch,
                int64_t height, int64_t width) {
                 Question &question = self.ask_labels(QuestionKind::segments, out, q_ids, q_batch, k_ids, k_batch);
                 question.height = height;
                 question.width = width;
             })
        .def("map",
             [](Asked &self, uintptr_t out, int64_t height, int64_t width, const Region &region, bool largest) {
                 Question &question = self.ask_region(QuestionKind::map, out, region);
                 question.height = height;
                 question.width = width;
                 question.largest = largest;
             })
        .def("crop",
             [](Asked &self, uintptr_t out, const Region &region) { self.ask_region(QuestionKind::crop, out, region); })
        .def("contribution", [](Asked &self, uintptr_t by_key, uintptr_t by_query, uintptr_t norms, bool strange) {
            Question &question = self.ask(QuestionKind::contribution, by_key);
            question.by_query = pointer<float>(by_query);
            question.norms = pointer<const float>(norms);
            question.strange = strange;
        });
    call.def(
            "row_facts",
            [](const Bound &self, const Ranges &frame, const FactAddresses &facts, int threads) {
                row_facts(chosen(), self.in_place(), frame_of(frame), facts_of(facts), threads);
            },
            nb::arg("frame").noconvert(), nb::arg("facts").noconvert(), nb::arg("threads").noconvert(),
            nb::call_guard<nb::gil_scoped_release>(), "Facts of the frame's rows.")
        .def(
            "survey",
            [](const Bound &self, const Asked &asked, const FactAddresses &facts, bool known, const Numbers &out,
               bool careful, int threads) {
                Survey found{};
                found.frame = asked.frame;
                found.facts = facts_of(facts);
                found.known = known;
                found.out = operand(out);
                found.careful = careful;
                found.count = int64_t(asked.questions.size());
                found.questions = asked.questions.data();
                survey(chosen(), self.in_place(), found, threads);
            },
            nb::arg("asked"), nb::arg("facts").noconvert(), nb::arg("known").noconvert(), nb::arg("out").noconvert(),
            nb::arg("careful").noconvert(), nb::arg("threads").noconvert(), nb::call_guard<nb::gil_scoped_release>(),
            "Answers the questions in one pass over the frame's tiles. Facts are given if they are known, and an "
            "entropy is"
            " added up; else they are found, and `out`, that of the forward pass, where its address is not 0.");
}

} // namespace headwise
