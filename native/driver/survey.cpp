#include "survey.h"

#include "forward.h"
#include "threads.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace headwise {
namespace {

constexpr int64_t kMostParts = 16;        // of the frame's rows, each with sums of its own
constexpr int64_t kPartsFloats = 1 << 22; // fewer parts where their sums, of one head, would be more
constexpr int64_t kWaveFloats = 1 << 23;  // sums that are kept at a time

int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Query heads order[slot0, slot1) of the call: those of the frame that read kv.
struct Heads {
    int64_t kv, slot0, slot1;
};

std::vector<Heads> heads_of(const Call &call, const Frame &frame) {
    std::vector<Heads> found;
    for (int64_t kv = 0; kv < call.Hk; ++kv) { // a key/value head's query heads are listed in rising order
        Heads heads{kv, call.first[kv], call.first[kv + 1]};
        while (heads.slot0 < heads.slot1 && call.order[heads.slot0] < frame.h0) ++heads.slot0;
        while (heads.slot1 > heads.slot0 && call.order[heads.slot1 - 1] >= frame.h1) --heads.slot1;
        if (heads.slot0 < heads.slot1) found.push_back(heads);
    }
    return found;
}

// The sums of one head and part, as floats: those of a question alone.
int64_t sums_of(const Question &question, const Survey &survey, int64_t by_key) {
    switch (question.kind) {
    case QuestionKind::offsets:
        return (question.limit + question.after + 1 + 2 * kPadded) * (question.counts ? 2 : 1);
    case QuestionKind::segments:
        return question.height * question.width;
    case QuestionKind::contribution:
        return question.strange ? by_key : 0;
    case QuestionKind::map: {
        int64_t tall = 0;
        for (int64_t row = survey.frame.row0; row < survey.frame.row1; row += survey.part_rows) {
            const PooledRows rows = pooled_rows(question, row, std::min(row + survey.part_rows, survey.frame.row1));
            tall = std::max(tall, rows.last - rows.first);
        }
        return tall * question.width;
    }
    default:
        return 0;
    }
}

// The survey with its sums laid out over so many parts of the rows.
void lay_out(const Kernels &kernels, Survey &survey, std::vector<int64_t> &place, int64_t parts) {
    const Frame &frame = survey.frame;
    survey.part_rows = up((frame.row1 - frame.row0 + parts - 1) / parts, kernels.tile_rows);
    const int64_t by_key = up(frame.key1 - frame.key0 / kernels.key_block * kernels.key_block, kPadded);
    survey.block = 0;
    survey.received = -1;
    place.clear();
    for (int64_t n = 0; n < survey.count; ++n) {
        const Question &question = survey.questions[n];
        place.push_back(survey.block);
        survey.block += up(sums_of(question, survey, by_key), kPadded);
        if (question.kind == QuestionKind::received ||
            (question.kind == QuestionKind::contribution && !question.strange))
            survey.received = 0;
    }
    if (survey.received == 0) {
        survey.received = survey.block;
        survey.block += by_key;
    }
    survey.place = place.data();
}

// The sums of one head: part after part, each `step` floats behind the one before.
struct Sums {
    float *first;
    int64_t step, parts;
};

// Adds up `count` sums of all parts, in order, into the first.
const float *added_up(const Sums &sums, int64_t place, int64_t count) {
    float *total = sums.first + place;
    for (int64_t part = 1; part < sums.parts; ++part)
        for (int64_t n = 0; n < count; ++n) total[n] += total[part * sums.step + n];
    return total;
}

void finish_map(const Survey &survey, const Question &map, const Sums &sums, int64_t place, float *out) {
    for (int64_t part = 0; part < sums.parts; ++part) {
        const int64_t row0 = survey.frame.row0 + part * survey.part_rows;
        const PooledRows rows = pooled_rows(map, row0, std::min(row0 + survey.part_rows, survey.frame.row1));
        const float *from = sums.first + part * sums.step + place;
        for (int64_t n = rows.first * map.width; n < rows.last * map.width; ++n, ++from) {
            if (!map.largest) out[n] += *from;
            if (map.largest && (*from > out[n] || *from != *from)) out[n] = *from;
        }
    }
}

// Sums over queries of one head, of all its parts, to answers; `answer` says which of the frame's (b, h) it is.
void finish(const Kernels &kernels, const Call &call, const Survey &survey, int64_t answer, const Sums &sums) {
    const int64_t key0 = survey.frame.key0, keys = survey.frame.key1 - key0, lead = key0 % kernels.key_block;
    const float *received = survey.received < 0 ? nullptr : added_up(sums, survey.received, lead + keys) + lead;
    for (int64_t n = 0; n < survey.count; ++n) {
        const Question &question = survey.questions[n];
        const int64_t place = survey.place[n];
        switch (question.kind) {
        case QuestionKind::received:
            std::copy_n(received, keys, question.out + answer * call.S + key0);
            break;
        case QuestionKind::offsets: {
            const int64_t entries = question.limit + question.after + 1, row = entries + 2 * kPadded;
            const float *total = added_up(sums, place, row * (question.counts ? 2 : 1)) + kPadded;
            std::reverse_copy(total, total + entries, question.out + answer * entries);
            if (question.counts)
                std::reverse_copy(total + row, total + row + entries, question.counts + answer * entries);
            break;
        }
        case QuestionKind::segments: {
            const int64_t cells = question.height * question.width;
            std::copy_n(added_up(sums, place, cells), cells, question.out + answer * cells);
            break;
        }
        case QuestionKind::map:
            finish_map(survey, question, sums, place, question.out + answer * question.height * question.width);
            break;
        case QuestionKind::contribution: {
            float *out = question.out + answer * call.S + key0;
            const float *norms = question.norms + answer * up(call.S, kPadded) + key0;
            if (question.strange) std::copy_n(added_up(sums, place, lead + keys) + lead, keys, out);
            for (int64_t j = 0; !question.strange && j < keys; ++j) out[j] = received[j] * norms[j];
            break;
        }
        default:
            break;
        }
    }
}

// Heads of one key/value head that are worked on together, and where their sums begin: [parts][slots][block].
struct Group {
    int64_t b, kv, slot0, slot1, sums;
};

// The frame's heads in groups: several of one key/value head where their rows fit one piece of work.
std::vector<Group> groups_of(const Kernels &kernels, const Call &call, const Survey &survey) {
    const Frame &frame = survey.frame;
    std::vector<Group> found;
    const int64_t kept = kKept / (frame.key1 - frame.key0 + 2 * kernels.key_block); // rows
    const int64_t rows = kPassTiles * kernels.tile_rows, most = survey.known ? rows : std::min(rows, kept);
    const int64_t together = std::max<int64_t>(1, most / (frame.row1 - frame.row0));
    for (int64_t b = frame.b0; b < frame.b1; ++b)
        for (const Heads &heads : heads_of(call, frame))
            for (int64_t slot = heads.slot0; slot < heads.slot1; slot += together)
                found.push_back({b, heads.kv, slot, std::min(slot + together, heads.slot1), 0});
    return found;
}

// All parts of some groups, whose sums are kept at the same time.
void run(const Kernels &kernels, const Call &call, const Survey &survey, const Group *groups, int64_t count,
         int64_t parts, int threads) {
    std::vector<Stretch> stretches;
    std::vector<std::pair<int64_t, Sums>> heads; // which answer, from which sums
    const int64_t width = survey.frame.h1 - survey.frame.h0;
    for (int64_t g = 0; g < count; ++g) {
        const auto &[b, kv, slot0, slot1, sums] = groups[g];
        const int64_t step = (slot1 - slot0) * survey.block;
        for (int64_t part = 0; part < parts; ++part)
            stretches.push_back({b, kv, slot0, slot1, part, sums + part * step});
        for (int64_t slot = slot0; slot < slot1; ++slot)
            heads.push_back({(b - survey.frame.b0) * width + call.order[slot] - survey.frame.h0,
                             {survey.sums + sums + (slot - slot0) * survey.block, step, parts}});
    }
    // Late queries see more keys of a causal mask: the long pieces first, so that threads end together.
    if (call.after < kFar)
        std::stable_sort(stretches.begin(), stretches.end(),
                         [](const Stretch &a, const Stretch &b) { return a.part > b.part; });
    int64_t bytes = 0;
    for (int64_t g = 0; g < count; ++g)
        bytes = std::max(bytes, kernels.survey_scratch(call, survey, groups[g].slot1 - groups[g].slot0));
    in_parallel(int64_t(stretches.size()), threads, bytes, [&](int64_t n, void *scratch) {
        const Stretch &stretch = stretches[size_t(n)];
        std::fill_n(survey.sums + stretch.sums, (stretch.slot1 - stretch.slot0) * survey.block, 0.0f);
        kernels.survey(call, survey, stretch, scratch);
    });
    in_parallel(int64_t(heads.size()), threads, 0, [&](int64_t n, void *) {
        finish(kernels, call, survey, heads[size_t(n)].first, heads[size_t(n)].second);
    });
}

int64_t rows_in(const Frame &frame) { return frame.row1 - frame.row0; }

bool empty(const Frame &frame) {
    return frame.b0 >= frame.b1 || frame.h0 >= frame.h1 || frame.row0 >= frame.row1 || frame.key0 >= frame.key1;
}

double work_in(const Call &call, const Frame &frame) {
    return double(frame.b1 - frame.b0) * double(frame.h1 - frame.h0) * double(rows_in(frame)) *
           double(frame.key1 - frame.key0) * double(call.D);
}

// Whether facts, and an output, can be found on the way: the scores of two tiles of rows have to fit what is kept, and
// an output has to be that of the forward pass, to the bit.
bool on_the_way(const Kernels &kernels, const Call &call, const Survey &survey) {
    const int64_t keys = survey.frame.key1 - survey.frame.key0 + 2 * kernels.key_block;
    return 2 * kernels.tile_rows * keys <= kKept && !(survey.out.data && splits_keys(kernels, call));
}

} // namespace

void row_facts(const Kernels &kernels, const Call &call, const Frame &frame, const Facts &facts, int threads) {
    Call bare = call;
    bare.v = {};
    if (frame.b1 - frame.b0 == call.B && frame.h1 - frame.h0 == call.H && rows_in(frame) == call.T) {
        forward(kernels, bare, {}, facts, threads);
        return;
    }
    threads = threads_for(work_in(call, frame), threads);
    std::vector<Item> items;
    for (int64_t b = frame.b0; b < frame.b1; ++b)
        for (const auto &[kv, slot0, slot1] : heads_of(call, frame))
            for (int64_t slot = slot0 - call.first[kv]; slot < slot1 - call.first[kv]; ++slot)
                for (int64_t row = frame.row0; row < frame.row1; row += kernels.item_rows)
                    items.push_back({b, kv, slot * call.T + row,
                                     slot * call.T + std::min(row + kernels.item_rows, frame.row1), 0, call.S, 0});
    const int64_t rows = std::min(rows_in(frame), kernels.item_rows);
    in_parallel(int64_t(items.size()), threads, kernels.forward_scratch(bare, rows), [&](int64_t n, void *scratch) {
        const Item &item = items[size_t(n)];
        const int64_t h = call.order[call.first[item.kv] + item.row0 / call.T];
        const int64_t head = (item.b - frame.b0) * (frame.h1 - frame.h0) + h - frame.h0;
        // The kernel counts rows in the whole pattern.
        const int64_t back = (item.b * call.H + h) * call.T + frame.row0 - head * rows_in(frame);
        const auto from = [back](float *fact) {
            return fact ? reinterpret_cast<float *>(reinterpret_cast<intptr_t>(fact) - back * 4) : nullptr;
        };
        const Facts here{from(facts.max_logit), from(facts.peak), from(facts.log_total), from(facts.lse),
                         from(facts.entropy)};
        kernels.forward(bare, item, {}, here, {nullptr, nullptr, nullptr, nullptr, 1}, scratch);
    });
}

void survey(const Kernels &kernels, const Call &call, const Survey &asked, int threads) {
    if (empty(asked.frame)) return;
    Survey survey = asked;
    if (!survey.known && !on_the_way(kernels, call, survey)) {
        if (survey.out.data)
            forward(kernels, call, survey.out, survey.facts, threads);
        else
            row_facts(kernels, call, survey.frame, survey.facts, threads);
        survey.known = true;
        survey.facts.entropy = nullptr;
    }
    Call bare = call;
    if (survey.known || !survey.out.data) bare.v = {}; // norms are all that answers read of the values
    std::vector<int64_t> place;
    // How rows are cut depends on the shapes alone: sums have the same bits on any number of threads.
    int64_t parts = std::clamp<int64_t>(rows_in(survey.frame) / (kPassTiles * kernels.tile_rows), 1, kMostParts);
    lay_out(kernels, survey, place, parts);
    while (parts > 1 && parts * survey.block > kPartsFloats) lay_out(kernels, survey, place, parts /= 2);
    parts = (rows_in(survey.frame) + survey.part_rows - 1) / survey.part_rows;
    threads = threads_for(work_in(call, survey.frame), threads);
    std::vector<Group> groups = groups_of(kernels, call, survey);
    std::unique_ptr<float[]> room;
    int64_t most = 0;
    for (size_t first = 0, last; first < groups.size(); first = last) {
        int64_t floats = 0;
        for (last = first; last < groups.size(); ++last) {
            const int64_t more = (groups[last].slot1 - groups[last].slot0) * parts * survey.block;
            if (last > first && floats + more > kWaveFloats) break;
            groups[last].sums = floats;
            floats += more;
        }
        if (floats > most) room.reset(new float[size_t(most = floats)]);
        survey.sums = room.get();
        run(kernels, bare, survey, groups.data() + first, int64_t(last - first), parts, threads);
    }
}

} // namespace headwise
