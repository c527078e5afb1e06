#include "forward.h"

#include "pages.h"
#include "threads.h"

#include <algorithm>
#include <vector>

namespace headwise {

int64_t widest_group(const Call &call) {
    int64_t widest = 0;
    for (int64_t kv = 0; kv < call.Hk; ++kv) widest = std::max<int64_t>(widest, call.first[kv + 1] - call.first[kv]);
    return widest;
}

int threads_for(double multiply_adds, int threads) {
    constexpr double kWorthIt = 1 << 18; // about what a core does while another wakes
    return multiply_adds < kWorthIt ? 1 : threads;
}

namespace {

constexpr int64_t kStretch = 1024; // keys of a part, where keys are split
constexpr int64_t kMostParts = 256;
constexpr int64_t kSplit = 8; // times few_rows: up to so many rows a key/value head, keys are split

int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Keys of a part: the answer to how the keys are split depends on the shapes alone, never on threads or neighbours.
int64_t stretch_of(const Kernels &kernels, const Call &call) {
    if (widest_group(call) * call.T > kSplit * kernels.few_rows || call.S < 2 * kStretch)
        return std::max<int64_t>(call.S, 1);
    return std::max(kStretch, up((call.S + kMostParts - 1) / kMostParts, kernels.key_block));
}

// Rows of an item: as many as fit, fewer where threads would stand idle.
int64_t rows_of(const Kernels &kernels, const Call &call, int64_t rows, int64_t parts, int threads) {
    const int64_t alone = call.B * call.Hk * parts;
    int64_t cuts = (rows + kernels.item_rows - 1) / kernels.item_rows;
    if (threads > 1 && alone * cuts < 4 * threads)
        cuts = std::max(cuts, std::min((4 * threads + alone - 1) / alone, rows / (2 * kernels.tile_rows)));
    cuts = std::max<int64_t>(cuts, 1);
    return up(std::max<int64_t>((rows + cuts - 1) / cuts, 1), kernels.tile_rows);
}

} // namespace

bool splits_keys(const Kernels &kernels, const Call &call) { return stretch_of(kernels, call) < call.S; }

void forward(const Kernels &kernels, const Call &call, const Operand &out, const Facts &facts, int threads) {
    threads = threads_for(double(call.B) * call.H * call.T * call.S * (call.D + call.E), threads);
    want_large_pages(out, call.B, call.H, call.T, call.E);
    const int64_t stretch = stretch_of(kernels, call), parts = std::max<int64_t>(1, (call.S + stretch - 1) / stretch);
    std::vector<Item> items;
    int64_t most = 1;
    for (int64_t kv = 0; kv < call.Hk; ++kv) {
        const int64_t rows = (call.first[kv + 1] - call.first[kv]) * call.T;
        const int64_t step = rows_of(kernels, call, rows, parts, threads);
        most = std::max(most, std::min(step, rows));
        for (int64_t b = 0; b < call.B; ++b)
            for (int64_t row = 0; row < rows; row += step)
                for (int64_t part = 0; part < parts; ++part)
                    items.push_back({b, kv, row, std::min(row + step, rows), part * stretch,
                                     std::min((part + 1) * stretch, call.S), part});
    }
    // Late queries see more keys of a causal mask: the long pieces first, so that threads end together.
    if (call.after < kFar && parts == 1)
        std::stable_sort(items.begin(), items.end(),
                         [&](const Item &a, const Item &b) { return (a.row1 - 1) % call.T > (b.row1 - 1) % call.T; });
    Parts split{nullptr, nullptr, nullptr, nullptr, parts};
    std::vector<float> room;
    if (parts > 1) {
        const int64_t rows = parts * call.B * call.H * call.T;
        room.resize(size_t(rows * (3 + (call.v.data ? call.E : 0))));
        split = {room.data(), room.data() + rows, room.data() + 2 * rows, room.data() + 3 * rows, parts};
    }
    in_parallel(int64_t(items.size()), threads, kernels.forward_scratch(call, most),
                [&](int64_t n, void *scratch) { kernels.forward(call, items[size_t(n)], out, facts, split, scratch); });
    if (parts == 1) return;
    in_parallel(call.B * call.H, threads, 0,
                [&](int64_t n, void *) { kernels.merge(call, n / call.H, n % call.H, out, facts, split); });
}

} // namespace headwise
