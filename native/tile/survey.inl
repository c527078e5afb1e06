// The survey: tiles of exact probabilities, made with the final numbers of their rows, shown to every question,
// forgotten.

constexpr int64_t BORDER = 16;  // columns on either side of a tile that hold hidden cells too
constexpr float HIDDEN = -0.0f; // adds nothing, and its sign tells it from a visible cell, which is +0 or more

// A tile: consecutive queries of one head against columns [c0, c1) of the block of keys that begins at j0.
struct Shown {
    int64_t b, slot, answer; // which of the stretch's heads, and which of the frame's (b, h)
    int64_t row;             // of the first query among the rows of the pass
    int64_t i, pos, n;       // the first query, its position, how many
    int64_t j0, c0, c1;      // whole vectors
    const float *p;          // [n][LINE]; HIDDEN up to BORDER columns outside of [c0, c1)
    const bool *nan;         // [n] rows whose visible cells are NaN
    bool some_nan;
    const float *totals; // sums of its columns, where somebody asks for p by key, else null
};

// Queries of one part of the frame's rows.
struct Part {
    int64_t row0, row1;
};

inline Part part_of(const Survey &survey, int64_t part) {
    const int64_t row0 = survey.frame.row0 + part * survey.part_rows, row1 = row0 + survey.part_rows;
    return {row0, row1 < survey.frame.row1 ? row1 : survey.frame.row1};
}

// Where the answers of (b, h) are in a tensor that holds the frame's batch rows and heads.
inline int64_t answer_of(const Survey &survey, int64_t b, int64_t h) {
    return (b - survey.frame.b0) * (survey.frame.h1 - survey.frame.h0) + h - survey.frame.h0;
}

// Rows of the tile that begins at row r0 of a pass with `each` rows a head: it is of one head.
inline int64_t tile_rows(int64_t r0, int64_t each) {
    const int64_t left = each - r0 % each;
    return left < TILE ? left : TILE;
}

#include "survey_keys.inl"
#include "survey_groups.inl"
#include "survey_regions.inl"

struct SurveyRoom {
    ForwardRoom forward;              // the rows; a forward pass over them, where their facts are not known
    float *peak, *factor, *log_total; // of each row; p = exp(s - peak) * factor
    bool *nan;
    float *scores, *totals, *line;
    Groups *groups; // of the questions that group rows
    Best *best;     // of those that keep the best keys
};

// The blocks of keys that a survey looks at.
inline Span blocks_of(const Call &call, const Survey &survey) {
    return {survey.frame.key0 / KEYS * KEYS, up(survey.frame.key1 < call.S ? survey.frame.key1 : call.S, KEYS)};
}

inline SurveyRoom survey_room(const Call &call, const Survey &survey, int64_t rows, char *scratch, int64_t *bytes) {
    Room room{scratch};
    SurveyRoom w{};
    int64_t forward = 0;
    w.forward = forward_room(call, rows, scratch, &forward);
    room.take<char>(forward);
    if (!survey.known) {
        const Span blocks = blocks_of(call, survey);
        const int64_t row = blocks.hi - blocks.lo + 16; // no power of two, for the cache
        w.forward.kept = {room.take<float>(rows * row), row, blocks.lo, blocks.hi};
    }
    w.peak = room.take<float>(rows);
    w.factor = room.take<float>(rows);
    w.log_total = room.take<float>(rows);
    w.nan = room.take<bool>(rows);
    w.scores = room.take<float>(BORDER + TILE * LINE) + BORDER;
    w.totals = room.take<float>(KEYS);
    w.line = room.take<float>(KEYS);
    w.groups = room.take<Groups>(survey.count);
    w.best = room.take<Best>(survey.count);
    for (int64_t n = 0; n < survey.count; ++n) {
        if (survey.questions[n].kind == QuestionKind::top_keys) {
            const int64_t wanted = survey.questions[n].width, step = best_step(wanted);
            const Best best{room.take<float>(rows * step), room.take<int32_t>(rows * step), step, wanted};
            if (scratch) w.best[n] = best;
        }
        if (survey.questions[n].kind != QuestionKind::segments) continue;
        Groups groups{};
        groups.of = room.take<int32_t>(rows);
        groups.order = room.take<int32_t>(rows);
        groups.label = room.take<int32_t>(rows);
        groups.slot = room.take<int32_t>(rows);
        groups.sums = room.take<float>(rows * KEYS);
        groups.cut = room.take<int32_t>(KEYS + 1);
        if (scratch) w.groups[n] = groups;
    }
    if (bytes) *bytes = room.free - scratch;
    return w;
}

// Queries of each head that are worked on in one pass, and not too many for the scores that are kept.
inline int64_t pass_rows(const Call &call, const Survey &survey, int64_t slots) {
    const Span blocks = blocks_of(call, survey);
    int64_t most = kPassTiles * TILE / slots;
    if (!survey.known && most * slots * (blocks.hi - blocks.lo) > kKept)
        most = kKept / (slots * (blocks.hi - blocks.lo)) / TILE * TILE;
    most = most > 1 ? most : 1;
    return most < survey.part_rows ? most : survey.part_rows;
}

int64_t survey_scratch(const Call &call, const Survey &survey, int64_t slots) {
    int64_t bytes = 0;
    survey_room(call, survey, slots * pass_rows(call, survey, slots), nullptr, &bytes);
    return bytes;
}

// Rows [row0, row1) of each of the stretch's heads, end to end.
inline void set_survey_rows(const Call &call, const Stretch &stretch, Part part, Rows &rows) {
    rows.b = stretch.b;
    rows.kv = stretch.kv;
    rows.count = (stretch.slot1 - stretch.slot0) * (part.row1 - part.row0);
    rows.hull = {call.S, 0};
    int64_t r = 0;
    for (int64_t slot = stretch.slot0; slot < stretch.slot1; ++slot)
        for (int64_t i = part.row0; i < part.row1; ++i, ++r) {
            rows.head[r] = call.order[slot];
            rows.query[r] = int32_t(i);
            const Span span = span_of(call, rows.b, i);
            rows.span[r] = span;
            if (span.lo >= span.hi) continue;
            if (span.lo < rows.hull.lo) rows.hull.lo = span.lo;
            if (span.hi > rows.hull.hi) rows.hull.hi = span.hi;
        }
    set_queries(call, rows, in_pairs(call));
}

// Where the facts of a row are: they hold the frame's rows alone.
inline int64_t fact_of(const Survey &survey, const Rows &rows, int64_t r) {
    const Frame &frame = survey.frame;
    return answer_of(survey, rows.b, rows.head[r]) * (frame.row1 - frame.row0) + rows.query[r] - frame.row0;
}

// Forward over the rows of a pass: their facts, their output where it is wanted, and their scores, kept.
inline void find_rows(const Call &call, const Survey &survey, bool several, ForwardRoom &w) {
    const Rows &rows = w.rows;
    const int64_t o_row = up(call.E, LANES);
    for (int64_t r = 0; r < rows.count; ++r) w.running[r] = {-kInf, 0.0f, 0.0f};
    if (call.v.data) __builtin_memset(w.o, 0, size_t(rows.count * o_row) * 4);
    // Tiles of the forward pass hold rows of several heads, those of the survey do not: some see what was not scored.
    for (int64_t n = 0; several && n < rows.count * w.kept.row; ++n) w.kept.data[n] = -kInf;
    if (survey.facts.entropy)
        forward_rows<true>(call, w, is_few(call, rows.kv));
    else
        forward_rows<false>(call, w, is_few(call, rows.kv));
    for (int64_t r = 0; r < rows.count; ++r) {
        const Finished end = finish(call, rows.head[r], w.running[r]);
        write_facts(survey.facts, fact_of(survey, rows, r), end);
        if (call.v.data) write_out(call, survey.out, rows.b, rows.head[r], rows.query[r], end, w.o + r * o_row);
    }
}

inline void read_facts(const Survey &survey, SurveyRoom &w) {
    for (int64_t r = 0; r < w.forward.rows.count; ++r) {
        const int64_t at = fact_of(survey, w.forward.rows, r);
        w.peak[r] = survey.facts.peak[at];
        w.log_total[r] = survey.facts.log_total[at];
        w.factor[r] = exp_of(-w.log_total[r]);
        w.nan[r] = !(w.peak[r] < kInf) || w.factor[r] != w.factor[r];
    }
}

// Scores s [0, n) to probabilities p. MARK: a score of -inf becomes HIDDEN, else +0. Returns what the cells add to the
// row's entropy, -sum p log p, if SPREAD.
template <bool MARK, bool SPREAD>
inline float weigh(const float *s, float *p, int64_t n, float peak, float factor, float log_total) {
    vf total = {}, depth = {};
    for (int64_t c = 0; c < n; c += LANES) {
        const vf score = load(s + c), x = score - peak;
        vf power = exp_of(x) * factor;
        if (SPREAD) {
            total += power;
            depth = madd(power, larger(splat(kLowest), x), depth); // p is 0 there, and 0 * -inf would be no 0
        }
        if (MARK) power = score == splat(-kInf) ? splat(HIDDEN) : power;
        store(p + c, power);
    }
    return SPREAD ? sum_of(total) * log_total - sum_of(depth) : 0.0f;
}

// The same of a row that is NaN: in the cells that it sees, and in no others.
inline float weigh_nan(const float *s, float *p, int64_t n) {
    bool some = false;
    for (int64_t c = 0; c < n; ++c) {
        const bool seen = s[c] != -kInf;
        some |= seen;
        p[c] = seen ? __builtin_nanf("") : HIDDEN;
    }
    return some ? __builtin_nanf("") : 0.0f;
}

// Scores of a tile, rows `step` apart, to p; its borders; and what its cells add to the entropy of its rows, if asked.
inline void weigh_tile(SurveyRoom &w, Shown &tile, const float *scores, int64_t step, bool mark, float *entropy) {
    const int64_t left = tile.c0 < BORDER ? tile.c0 : BORDER, across = tile.c1 - tile.c0;
    for (int64_t r = 0; r < tile.n; ++r) {
        const float *s = scores + r * step + tile.c0;
        float *p = w.scores + r * LINE + tile.c0, found;
        const int64_t row = tile.row + r;
        const auto make = [&](auto body) { return body(s, p, across, w.peak[row], w.factor[row], w.log_total[row]); };
        if (w.nan[row])
            found = weigh_nan(s, p, across);
        else if (mark)
            found = entropy ? make(weigh<true, true>) : make(weigh<true, false>);
        else
            found = entropy ? make(weigh<false, true>) : make(weigh<false, false>);
        tile.some_nan |= w.nan[row];
        if (entropy) entropy[r] += found;
        for (int64_t c = -left; c < 0; ++c) p[c] = HIDDEN;
        for (int64_t c = across; c < across + BORDER; ++c) p[c] = HIDDEN;
    }
}

// Hides what of a tile's p lies outside of the frame's keys; false where all of it does.
inline bool clip(const Survey &survey, Shown &tile, float *p) {
    const Span inside = meet({survey.frame.key0 - tile.j0, survey.frame.key1 - tile.j0}, {tile.c0, tile.c1});
    if (inside.lo >= inside.hi) return false;
    for (int64_t r = 0; r < tile.n; ++r) {
        for (int64_t c = tile.c0; c < inside.lo; ++c) p[r * LINE + c] = HIDDEN;
        for (int64_t c = inside.hi; c < tile.c1; ++c) p[r * LINE + c] = HIDDEN;
    }
    tile.c1 = up(inside.hi, LANES); // sums by key end with the frame
    return true;
}

inline void show(const Call &call, const Survey &survey, const Stretch &stretch, SurveyRoom &w, Shown &tile) {
    float *sums = survey.sums + stretch.sums + tile.slot * survey.block;
    if (survey.received >= 0) {
        column_sums(tile, 0, tile.n, w.totals);
        tile.totals = w.totals;
        add_received(survey, tile, sums + survey.received);
    }
    for (int64_t n = 0; n < survey.count; ++n) {
        const Question &question = survey.questions[n];
        float *own = sums + survey.place[n];
        switch (question.kind) {
        case QuestionKind::received:
            break;
        case QuestionKind::offsets:
            see_offsets(question, tile, own);
            break;
        case QuestionKind::top_keys:
            see_top_keys(tile, w.best[n]);
            break;
        case QuestionKind::mass_on:
            see_mass_on(call, question, tile);
            break;
        case QuestionKind::mass_where:
            see_mass_where(call, question, tile);
            break;
        case QuestionKind::segments:
            see_segments(tile, w.groups[n]);
            break;
        case QuestionKind::map:
            see_map(question, part_of(survey, stretch.part), tile, w.line, own);
            break;
        case QuestionKind::crop:
            see_crop(question, tile);
            break;
        case QuestionKind::contribution:
            see_contribution(call, survey, question, tile, own);
            break;
        }
    }
}

// Cells may be hidden though no mask hides them: an operand or a rule made -inf of their score.
inline bool may_hide(const Call &call, const Survey &survey) {
    bool may = survey.careful;
    for (int32_t n = 0; n < call.rules; ++n) may |= call.rule[n].kind != RuleKind::soft_cap;
    return may;
}

inline void score_rows(const Call &call, SurveyRoom &w, int64_t r0, int64_t n, int64_t j0, int64_t count,
                       const Sight &sight, bool &packed) {
    const Rows &rows = w.forward.rows;
    const float *q = rows.q + r0 * rows.q_row;
    if (is_few(call, rows.kv)) {
        score_few(call, rows, r0, n, j0, count, sight, w.scores);
    } else {
        if (!packed) pack_keys(call, rows, j0, count, w.forward.keys);
        packed = true;
        if (PAIRS && rows.pairs)
            score_pairs(call, q, rows.q_row, n, w.forward.keys, sight, w.scores);
        else
            score_packed(call, q, rows.q_row, n, w.forward.keys, sight, w.scores, rows.scale);
    }
    finish_scores(call, rows, r0, n, j0, count, sight, w.forward.keep, w.scores);
}

// One block of keys against all rows of the pass.
inline void survey_keys(const Call &call, const Survey &survey, const Stretch &stretch, SurveyRoom &w, int64_t j0) {
    const Rows &rows = w.forward.rows;
    const Kept &kept = w.forward.kept;
    const int64_t count = call.S - j0 < KEYS ? call.S - j0 : KEYS;
    const int64_t each = rows.count / (stretch.slot1 - stretch.slot0);
    bool packed = false;
    for (int64_t r0 = 0, n; r0 < rows.count; r0 += n) {
        n = tile_rows(r0, each);
        const Sight sight =
            sight_of(call, rows.b, rows.head + r0, rows.query + r0, rows.span + r0, n, j0, count, w.forward.keep);
        if (sight.c0 >= sight.c1) continue;
        const int64_t i = rows.query[r0], pos = call.q_start[rows.b] + i,
                      answer = answer_of(survey, rows.b, rows.head[r0]);
        Shown tile{rows.b, r0 / each, answer,   r0,       i,          pos,   n,
                   j0,     sight.c0,  sight.c1, w.scores, w.nan + r0, false, nullptr};
        const bool mark = !sight.whole || may_hide(call, survey);
        if (survey.known) {
            score_rows(call, w, r0, n, j0, count, sight, packed);
            float *entropy = survey.facts.entropy ? survey.facts.entropy + fact_of(survey, rows, r0) : nullptr;
            weigh_tile(w, tile, w.scores, LINE, mark, entropy);
        } else {
            weigh_tile(w, tile, kept.data + r0 * kept.row + j0 - kept.key0, kept.row, mark, nullptr);
        }
        if (clip(survey, tile, w.scores)) show(call, survey, stretch, w, tile);
    }
}

// Rows [row0, row1) of a stretch, all keys of the frame.
inline void survey_rows(const Call &call, const Survey &survey, const Stretch &stretch, Part part, SurveyRoom &w) {
    Rows &rows = w.forward.rows;
    const auto each = [&](QuestionKind kind, auto body) {
        for (int64_t n = 0; n < survey.count; ++n)
            if (survey.questions[n].kind == kind) body(survey.questions[n], n);
    };
    set_survey_rows(call, stretch, part, rows);
    if (!survey.known) find_rows(call, survey, stretch.slot1 - stretch.slot0 > 1, w.forward);
    read_facts(survey, w);
    each(QuestionKind::top_keys, [&](const Question &, int64_t n) { begin_top_keys(rows.count, w.best[n]); });
    each(QuestionKind::segments,
         [&](const Question &q, int64_t n) { begin_groups(q, rows, part.row1 - part.row0, w.groups[n]); });
    const Span blocks = meet(blocks_of(call, survey), {rows.hull.lo / KEYS * KEYS, rows.hull.hi});
    for (int64_t j0 = blocks.lo; j0 < blocks.hi; j0 += KEYS) {
        each(QuestionKind::segments, [&](const Question &, int64_t n) { clear_groups(w.groups[n]); });
        survey_keys(call, survey, stretch, w, j0);
        each(QuestionKind::segments, [&](const Question &q, int64_t n) {
            add_groups(call, survey, q, stretch, j0, w.groups[n], survey.place[n]);
        });
    }
    each(QuestionKind::top_keys,
         [&](const Question &q, int64_t n) { write_top_keys(call, survey, q, rows, w.best[n]); });
}

void survey(const Call &call, const Survey &survey, const Stretch &stretch, void *scratch) {
    const Part part = part_of(survey, stretch.part);
    const int64_t slots = stretch.slot1 - stretch.slot0, most = pass_rows(call, survey, slots);
    SurveyRoom w = survey_room(call, survey, slots * most, static_cast<char *>(scratch), nullptr);
    for (int64_t c = -BORDER; c < 0; ++c) w.scores[c] = HIDDEN;
    for (int64_t r = 0; r < TILE; ++r)
        for (int64_t c = KEYS; c < LINE; ++c) w.scores[r * LINE + c] = HIDDEN;
    for (int64_t row0 = part.row0; row0 < part.row1; row0 += most)
        survey_rows(call, survey, stretch, {row0, row0 + most < part.row1 ? row0 + most : part.row1}, w);
}
