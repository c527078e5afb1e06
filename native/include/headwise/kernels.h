// What one instruction set offers: the same functions over the same structs, one constant per object file.
#pragma once
#include <headwise/call.h>

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

struct Kernels {
    const char *name;
    int32_t lanes;
    int64_t item_rows; // most rows of an item
    int64_t key_block; // keys are taken in blocks that begin at multiples of this
    int64_t few_rows;  // up to so many rows a key/value head, keys are read in place, and split

    // Bytes of scratch that an item of so many rows needs, 64-byte aligned.
    int64_t (*forward_scratch)(const Call &call, int64_t rows);
    // Rows of `out` and of `facts` for one item; with parts.parts > 1 only Parts is written.
    void (*forward)(const Call &call, const Item &item, const Operand &out, const Facts &facts, const Parts &parts,
                    void *scratch);
    // Puts the parts of all rows of (b, h) together, in order.
    void (*merge)(const Call &call, int64_t b, int64_t h, const Operand &out, const Facts &facts, const Parts &parts);

    // Probes of the machine: rounds of multiply-adds in the fastest form for float32 and for bf16 (how many operations
    // they were), and a read of so many floats.
    double (*probe_floats)(int64_t steps, float *out);
    double (*probe_bf16)(int64_t steps, float *out);
    void (*probe_read)(const float *data, int64_t count, float *out);
};

} // namespace headwise
