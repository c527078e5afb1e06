// One attention call in plain data: pointers, sizes, strides. No torch, no ownership, no exceptions.
//
// Letters are NOTATION.md's: B batch, H query heads, Hk key/value heads, T queries, S keys, D key width, E value width.
// Strides count elements; an axis that broadcasts has stride 0. A caller has checked every shape before it comes here.
#pragma once
#include <cstdint>
#include <stddef.h>

namespace headwise {

enum class Dtype : int32_t { f32, bf16, f16 };

// A tensor [batch, head, row, column] whose last axis is contiguous.
struct Operand {
    void *data;
    int64_t batch, head, row;
    Dtype dtype;
};

// How the rows of keys or values are found that do not lie at their strides.
struct Store {
    // In pages of `size` rows, `stride` elements apart: row j of batch row b is row j % size of page
    // pages[b * batch + j / size]. Null: not in pages.
    const int32_t *pages;
    int64_t batch, size, stride;
    // As int8, row (b, h, j) times scales[b * scale_batch + h * scale_head + j * scale_row], each number rounded to the
    // operand's dtype. Null: not int8.
    const float *scales;
    int64_t scale_batch, scale_head, scale_row;
};

// Anything that is read at (batch, head, query, key): a bias or a mask, with free strides.
struct Plane {
    const void *data;
    int64_t batch, head, row, column;
    Dtype dtype; // of a bias; a mask holds bytes, 0 or 1
};

// Keys [lo, hi) that a query sees, `count` runs a row: run k of (b, i) is at b * batch + i * row + k.
struct Runs {
    const int32_t *lo, *hi;
    int64_t batch, row;
    int32_t count;
};

// A mask that is no plain set of runs, in postfix order: leaves push a truth value, all_of and any_of take two.
enum class MaskKind : int32_t { runs, dense, blocks, equal, all_of, any_of };

struct MaskNode {
    MaskKind kind;
    Runs runs;                    // runs
    Plane plane;                  // dense: bytes; blocks: bytes of tiles, row and column strides are a tile's
    int64_t size;                 // blocks: rows and keys of a tile
    int64_t placed;               // blocks: 0: rows of tiles count queries; else positions, and so many rows there are
    const int64_t *q_ids, *k_ids; // equal: visible where q_ids[b, i] == k_ids[b, j]
    int64_t q_batch, k_batch;     // strides of the batch axis of both
};

enum class RuleKind : int32_t { soft_cap, slopes, table, bias };

struct Rule {
    RuleKind kind;
    float cap;           // soft_cap: cap * tanh(score / cap)
    const float *values; // slopes [B or 1, H], table [H, length]
    // slopes: where query i and key j of batch row b stand, q_at[b * q_batch + i] and k_at[b * k_batch + j]; null: at
    // pos and j.
    const double *q_at, *k_at;
    int64_t q_batch, k_batch;
    int64_t batch, head;  // strides of values
    int64_t length, zero; // table: adds values[h, clamp(j - pos + zero, 0, length - 1)]
    Plane plane;          // bias; -inf hides a cell for good
};

constexpr int kMaxRules = 8;
constexpr int kMaxNodes = 32;
constexpr int kMaxRuns = 32;
constexpr int kMaxDepth = 8;        // of the postfix stack
constexpr int kMaxWidth = 640;      // of a key or a value, whole vectors of any instruction set
constexpr int64_t kFar = 1LL << 41; // further than any position: a side of the band without a limit

struct Call {
    int64_t B, H, Hk, T, S, D, E;
    Operand q, k, v;        // v.data is null for a bare pattern
    Store k_store, v_store; // the forward pass alone knows them
    float scale;
    const int32_t *kv_heads; // [H] the key/value head of each query head
    // Query heads grouped by the key/value head that they read: those of kv are order[first[kv] .. first[kv + 1]).
    const int32_t *order, *first;
    const int64_t *q_start; // [B] position of query 0
    // Query i sees keys pos - before <= j <= pos + after, and of those the ones in runs (runs.count > 0), and of those
    // the ones that the nodes keep (nodes > 0).
    int64_t before, after;
    Runs runs;
    int32_t nodes;
    MaskNode mask[kMaxNodes];
    int32_t rules;
    Rule rule[kMaxRules];
    const float *sinks; // [H] or null
    // Dropout: cell (b, h, i, j) survives where its hash is >= threshold; threshold 0 = no dropout.
    uint64_t seed;
    uint64_t threshold; // dropout * 2^32
    float survivor;     // 1 / (1 - dropout)
};

// What is known of every row, float32 [B, H, T] each; a null pointer is not written.
// p = exp(score - peak) / exp(log_total); an empty row has max_logit = lse = -inf, peak = log_total = entropy = 0.
struct Facts {
    float *max_logit, *peak, *log_total, *lse, *entropy;
};

} // namespace headwise
