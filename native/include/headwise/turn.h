// Rotary embedding in plain data: pairs of numbers of a row are turned by the angles of the row's token.
#pragma once
#include <headwise/call.h>

namespace headwise {

struct Turn {
    Operand in, out; // [B, H, T, D] of one dtype; may be the same memory
    int64_t B, H, T, D;
    const float *cos, *sin; // [B or 1, T, half]
    int64_t batch, row;     // their strides
    int64_t half;           // pairs that are turned, 2 * half <= D; what is left of a row stays as it is
    bool neighbours;        // pair k is numbers (2k, 2k + 1); else (k, k + half)
};

} // namespace headwise
