// What can be asked of a pattern in one further pass over its tiles, in plain data.
#pragma once
#include <headwise/call.h>

namespace headwise {

// The part of a pattern that is asked about. Answers hold its batch rows and heads [b, h] alone, contiguous and zeroed
// by the caller; queries and keys keep their place in the whole pattern.
struct Frame {
    int64_t b0, b1, h0, h1, row0, row1, key0, key1;
};

enum class QuestionKind : int32_t {
    received,     // out [b, h, S]
    offsets,      // out [b, h, after + limit + 1] sums of p, of distance d at after + d; counts, if any, cells seen
    top_keys,     // out [b, h, T, width] values, found [b, h, T, width] keys
    mass_on,      // out [b, h, T]; targets [B or 1, T, width]
    mass_where,   // out [b, h, T]; q_labels [B or 1, T], k_labels [B or 1, S padded]
    segments,     // out [b, h, height, width]; q_labels and k_labels are the groups
    map,          // out [b, h, height, width]: sums of p, or its largest, over cells of [row0, row1) x [key0, key1)
    crop,         // out [b, h, row1 - row0, key1 - key0]
    contribution, // out [b, h, S] by key, by_query [b, h, T]; norms [b, h, S padded]
};

constexpr int64_t kKept = 1 << 20; // scores that are kept on the way from facts to answers, for each thread
constexpr int64_t kPassTiles = 10; // tiles of rows that one pass over the keys serves
constexpr int64_t kPadded = 16;    // what is read along the keys is padded to a multiple of this, a vector of any set

struct Question {
    QuestionKind kind;
    float *out;
    float *counts;                      // offsets; null where the caller knows them
    float *by_query;                    // contribution
    int64_t *found;                     // top_keys
    int64_t limit, after;               // offsets
    int64_t height, width;              // of a map or of segments; width also how many keys, or targets of a row
    bool largest;                       // map: the largest p of a pooled cell, not the sum
    int64_t row0, row1, key0, key1;     // region of a map or crop
    const int64_t *targets;             // mass_on, -1 = none
    const int32_t *q_labels, *k_labels; // below 0 = none
    int64_t q_batch, k_batch;           // strides of the batch axis of targets or q_labels, and of k_labels
    const float *norms;                 // contribution: of each key's value behind the output projection
    bool strange;                       // some norm is not finite
};

// A pass: questions, the numbers of the rows, and where sums over queries are kept.
struct Survey {
    Frame frame;
    Facts facts;  // [b, h, rows of the frame]
    bool known;   // facts are given, and an entropy is added up; else all are found on the way
    Operand out;  // found on the way to the facts; null = not wanted
    bool careful; // a score may be -inf though no mask hides its cell
    int64_t count;
    const Question *questions;
    // Sums over queries: each part of the frame's rows, of `part_rows`, adds up its own, and they are put together in
    // order. Those of one part and head are `block` floats; in them, question n's begin at place[n], those of all p by
    // key at `received` (negative: nobody asks).
    float *sums;
    const int64_t *place;
    int64_t received, block, part_rows;
};

// Heads order[slot0] .. order[slot1] of the call, that read key/value head kv, over one part of the frame's rows;
// `sums` is where in the survey's theirs begin, [slots][block].
struct Stretch {
    int64_t b, kv, slot0, slot1, part, sums;
};

// Pooled cell r of n covers [r * length / n, (r + 1) * length / n).
static inline int64_t pooled_edge(int64_t cell, int64_t length, int64_t cells) { return cell * length / cells; }
static inline int64_t pooled_cell(int64_t at, int64_t length, int64_t cells) { return ((at + 1) * cells - 1) / length; }

// Queries of one part that lie in a map's region, and the pooled rows that they fall into.
struct PooledRows {
    int64_t row0, row1, first, last; // queries [row0, row1), pooled rows [first, last); none where row0 >= row1
};

static inline PooledRows pooled_rows(const Question &map, int64_t row0, int64_t row1) {
    if (row0 < map.row0) row0 = map.row0;
    if (row1 > map.row1) row1 = map.row1;
    if (row0 >= row1) return {0, 0, 0, 0};
    const int64_t tall = map.row1 - map.row0;
    return {row0, row1, pooled_cell(row0 - map.row0, tall, map.height),
            pooled_cell(row1 - 1 - map.row0, tall, map.height) + 1};
}

} // namespace headwise
