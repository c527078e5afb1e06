#include "turn.h"

#include "threads.h"

#include <algorithm>

namespace headwise {

void turn(const Kernels &kernels, const Turn &turn, int threads) {
    constexpr int64_t kRows = 256;
    constexpr int64_t kWorthIt = 1 << 16; // numbers that a core turns while another wakes
    const int64_t cuts = (turn.T + kRows - 1) / kRows;
    if (turn.B * turn.H * turn.T * turn.D < kWorthIt) threads = 1;
    in_parallel(turn.B * turn.H * cuts, threads, 0, [&](int64_t n, void *) {
        const int64_t cut = n % cuts, head = n / cuts;
        kernels.turn(turn, head / turn.H, head % turn.H, cut * kRows, std::min(turn.T, (cut + 1) * kRows));
    });
}

} // namespace headwise
