// What one instruction set offers: the same functions over the same structs, one constant per object file.
#pragma once
#include <headwise/call.h>
#include <headwise/survey.h>
#include <headwise/turn.h>

namespace headwise {

// A piece of work: for the query heads that read key/value head kv of batch row b, the rows [row0, row1) of their
// rows laid end to end (row r is query r % T of the (r / T)-th of those heads), against keys [key0, key1).
struct Item {
    int64_t b, kv, row0, row1, key0, key1;
    int64_t part; // which stretch of keys, where keys are split; then the result goes to Parts
};

// Unfinished rows of split keys, [parts, B, H, T] each and o [parts, B, H, T, E]: sums relative to `largest`.
struct Parts {
    float *largest, *total, *spread, *o;
    int64_t parts;
};

// What the backward pass reads besides the call, and what it writes; null = not given, or not wanted.
struct Backward {
    Operand out, grad_out; // of one dtype
    const float *grad_lse; // [B, H, T]
    Facts facts;           // max_logit, peak and log_total, of the forward
    Operand q, k, v;       // their gradients
    Plane rule[kMaxRules]; // gradients of the rules' tensors, added to: float32, an axis of 1 has stride 0
    float *sinks;          // gradient [H], added to

    // What the driver makes room for. Of rows, [B, H, T]: what dO V^T is measured against, and exp(-log_total). Of each
    // rule that wants a gradient, sums over cells: [parts, B, H, T] (slopes; a bias without an axis of keys), [parts,
    // B, H, length] (a table), [B, H, S] (a bias without an axis of rows); a bias with both is added to in place.
    float *against, *share;
    double *sums[kMaxRules], *sink_sums; // [B, H]
};

struct Kernels {
    const char *name;
    int32_t lanes;
    int64_t tile_rows; // rows that are worked on together
    int64_t item_rows; // most rows of an item
    int64_t key_block; // keys are taken in blocks that begin at multiples of this
    int64_t few_rows;  // up to so many rows a key/value head, keys are read in place

    // Bytes of scratch that an item of so many rows needs, 64-byte aligned.
    int64_t (*forward_scratch)(const Call &call, int64_t rows);
    // Rows of `out` and of `facts` for one item; with parts.parts > 1 only Parts is written.
    void (*forward)(const Call &call, const Item &item, const Operand &out, const Facts &facts, const Parts &parts,
                    void *scratch);
    // Puts the parts of all rows of (b, h) together, in order.
    void (*merge)(const Call &call, int64_t b, int64_t h, const Operand &out, const Facts &facts, const Parts &parts);

    // Backward, in this order: what is known of the rows of (b, h); the gradients of an item, all rows of its key/value
    // head against [key0, key1), whose dK and dV are written and whose dQ / scale goes to rows of up(D, lanes) floats
    // (null: not wanted); and these rows, `parts` stretches of keys `part` floats apart, added up in order and written.
    void (*prepare)(const Call &call, const Backward &back, int64_t b, int64_t h);
    int64_t (*backward_scratch)(const Call &call, int64_t rows);
    void (*backward)(const Call &call, const Backward &back, const Item &item, float *grad_q, void *scratch);
    void (*write_queries)(const Call &call, const Backward &back, int64_t b, int64_t kv, const float *from,
                          int64_t parts, int64_t part);

    // Shows one stretch of a pattern to all questions of a survey; scratch for one of so many heads.
    int64_t (*survey_scratch)(const Call &call, const Survey &survey, int64_t heads);
    void (*survey)(const Call &call, const Survey &survey, const Stretch &stretch, void *scratch);

    // Rotary embedding of rows [first, last) of (b, h).
    void (*turn)(const Turn &turn, int64_t b, int64_t h, int64_t first, int64_t last);

    // Probes of the machine: rounds of multiply-adds in the fastest form for float32 and for bf16 (how many operations
    // they were), and a read of so many floats.
    double (*probe_floats)(int64_t steps, float *out);
    double (*probe_bf16)(int64_t steps, float *out);
    void (*probe_read)(const float *data, int64_t count, float *out);
};

} // namespace headwise
