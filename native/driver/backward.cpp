#include "backward.h"

#include "forward.h"
#include "pages.h"
#include "threads.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

namespace headwise {
namespace {

// dQ is a sum over keys: of each stretch by itself, then over the stretches in order. Where they are depends on S
// alone, so it does not matter who adds up which. Few of them, for each may need rows of its own.
constexpr int64_t kStretch = 512, kMostStretches = 8;
constexpr int64_t kPartsFloats = 1 << 25; // that are kept for them at a time

int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

int64_t stretch_of(const Kernels &kernels, const Call &call) {
    return std::max(kStretch, up((call.S + kMostStretches - 1) / kMostStretches, kernels.key_block));
}

struct Free {
    void operator()(float *x) const { std::free(x); }
};
using Floats = std::unique_ptr<float[], Free>;

Floats floats(int64_t count) {
    Floats made(static_cast<float *>(std::aligned_alloc(64, size_t(up(std::max<int64_t>(count, 1) * 4, 64)))));
    if (!made) throw std::bad_alloc();
    return made;
}

// Buffers of one size for as many threads as are at work at a time.
class Buffers {
  public:
    Buffers(int64_t threads, int64_t count) {
        for (int64_t n = 0; n < threads; ++n) {
            all.push_back(floats(count));
            idle.push_back(all.back().get());
        }
    }
    float *take() {
        const std::lock_guard<std::mutex> lock(mutex);
        float *taken = idle.back();
        idle.pop_back();
        return taken;
    }
    void give(float *taken) {
        const std::lock_guard<std::mutex> lock(mutex);
        idle.push_back(taken); // never more than there were, so nothing is allocated
    }

  private:
    std::mutex mutex;
    std::vector<Floats> all;
    std::vector<float *> idle;
};

struct Unit {
    int64_t b, kv; // a key/value head and the query heads that read it
};

// Units that may run at the same time. Those that add to the same cells of a bias's gradient run one after the other.
std::vector<std::vector<Unit>> waves_of(const Call &call, const Backward &back) {
    bool batch = false, heads = false;
    for (const Plane &rule : back.rule) {
        if (!rule.data || rule.row == 0 || rule.column == 0) continue;
        batch |= rule.batch == 0;
        heads |= rule.head == 0;
    }
    std::vector<std::vector<Unit>> waves(size_t((batch ? call.B : 1) * (heads ? call.Hk : 1)));
    for (int64_t b = 0; b < call.B; ++b)
        for (int64_t kv = 0; kv < call.Hk; ++kv)
            waves[size_t((batch ? b : 0) * (heads ? call.Hk : 1) + (heads ? kv : 0))].push_back({b, kv});
    return waves;
}

// One call on its way back.
class Pass {
  public:
    Pass(const Kernels &kernels, const Call &call, const Backward &back, int threads)
        : kernels(kernels), call(call), back(back), threads(threads), stretch(stretch_of(kernels, call)),
          parts(std::max<int64_t>(1, (call.S + stretch - 1) / stretch)), rows(widest_group(call) * call.T),
          part(back.q.data ? rows * up(call.D, kernels.lanes) : 0), scratch(kernels.backward_scratch(call, rows)) {}

    void wave(const std::vector<Unit> &units) const {
        const int64_t count = int64_t(units.size());
        if (parts == 1 || threads == 1 || count >= 4 * threads) {
            whole(units);
            return;
        }
        const int64_t busy = (4 * threads + parts - 1) / parts, fit = kPartsFloats / std::max<int64_t>(parts * part, 1);
        const int64_t step = std::max<int64_t>(1, std::min(busy, fit));
        const Floats made = floats(std::min(step, count) * parts * part);
        for (int64_t from = 0; from < count; from += step)
            split(units.data() + from, std::min(step, count - from), made.get());
    }

    int64_t part_count() const { return parts; }

  private:
    const Kernels &kernels;
    const Call &call;
    const Backward &back;
    const int threads;
    const int64_t stretch, parts, rows, part, scratch; // part: floats of dQ's rows of a unit

    void item(const Unit &unit, int64_t p, float *grad_q, void *room) const {
        const int64_t own = (call.first[unit.kv + 1] - call.first[unit.kv]) * call.T;
        const Item item{unit.b, unit.kv, 0, own, p * stretch, std::min((p + 1) * stretch, call.S), p};
        kernels.backward(call, back, item, back.q.data ? grad_q : nullptr, room);
    }

    void write(const Unit &unit, const float *from, int64_t count) const {
        if (back.q.data) kernels.write_queries(call, back, unit.b, unit.kv, from, count, part);
    }

    // A unit a thread.
    void whole(const std::vector<Unit> &units) const {
        const int64_t count = int64_t(units.size());
        Buffers buffers(std::min<int64_t>(threads, count), parts > 1 ? 2 * part : part);
        in_parallel(count, threads, scratch, [&](int64_t n, void *room) {
            float *sum = buffers.take(), *next = sum + part;
            item(units[size_t(n)], 0, sum, room);
            for (int64_t p = 1; p < parts; ++p) {
                item(units[size_t(n)], p, next, room);
                for (int64_t x = 0; x < part; ++x) sum[x] += next[x];
            }
            write(units[size_t(n)], sum, 1);
            buffers.give(sum);
        });
    }

    // A stretch of a unit a thread.
    void split(const Unit *units, int64_t count, float *room_of_parts) const {
        in_parallel(count * parts, threads, scratch,
                    [&](int64_t n, void *room) { item(units[n / parts], n % parts, room_of_parts + n * part, room); });
        in_parallel(count, threads, 0,
                    [&](int64_t n, void *) { write(units[n], room_of_parts + n * parts * part, parts); });
    }
};

// Adds sums [parts, B, H, length] to a gradient whose element of an index is `step` behind the last; what falls on one
// element is added up in the order it lies.
void fold(const Call &call, const double *sums, int64_t parts, int64_t length, const Plane &into, int64_t step) {
    const int64_t heads = into.head ? call.H : 1, across = step ? length : 1;
    std::vector<double> total(size_t((into.batch ? call.B : 1) * heads * across));
    for (int64_t p = 0; p < parts; ++p)
        for (int64_t b = 0; b < call.B; ++b)
            for (int64_t h = 0; h < call.H; ++h)
                for (int64_t x = 0; x < length; ++x)
                    total[size_t(((into.batch ? b : 0) * heads + (into.head ? h : 0)) * across + (step ? x : 0))] +=
                        *sums++;
    float *gradient = static_cast<float *>(const_cast<void *>(into.data));
    for (size_t n = 0; n < total.size(); ++n) {
        const int64_t x = int64_t(n) % across, h = int64_t(n) / across % heads, b = int64_t(n) / across / heads;
        gradient[b * into.batch + h * into.head + x * step] += float(total[n]);
    }
}

// How a rule's sums lie: of how many parts, how long, and the stride of that axis in the gradient; 0 long = in place.
struct Sums {
    int64_t parts, length, step;
};

Sums sums_of(const Call &call, const Rule &rule, const Plane &into, int64_t parts) {
    switch (rule.kind) {
    case RuleKind::soft_cap:
        break;
    case RuleKind::slopes:
        return {parts, call.T, 0};
    case RuleKind::table:
        return {parts, rule.length, 1};
    case RuleKind::bias:
        if (into.column == 0) return {parts, call.T, into.row};
        if (into.row == 0) return {1, call.S, into.column};
    }
    return {0, 0, 0};
}

} // namespace

void backward(const Kernels &kernels, const Call &call, Backward back, int threads) {
    threads = std::max(1, threads_for(2.5 * double(call.B) * call.H * call.T * call.S * (call.D + call.E), threads));
    want_large_pages(back.q, call.B, call.H, call.T, call.D);
    want_large_pages(back.k, call.B, call.Hk, call.S, call.D);
    want_large_pages(back.v, call.B, call.Hk, call.S, call.E);
    const int64_t rows = call.B * call.H * call.T, heads = call.B * call.H;
    const Floats of_rows = floats(2 * rows);
    back.against = of_rows.get();
    back.share = back.against + rows;
    const Pass pass(kernels, call, back, threads);
    std::vector<std::vector<double>> room;
    for (int32_t n = 0; n < call.rules; ++n) {
        const Sums sums = sums_of(call, call.rule[n], back.rule[n], pass.part_count());
        room.emplace_back(back.rule[n].data ? size_t(sums.parts * heads * sums.length) : 0);
        back.sums[n] = room.back().data();
    }
    std::vector<double> sinks(back.sinks ? size_t(heads) : 0);
    back.sink_sums = back.sinks ? sinks.data() : nullptr;

    in_parallel(heads, threads, 0, [&](int64_t n, void *) { kernels.prepare(call, back, n / call.H, n % call.H); });
    for (const std::vector<Unit> &units : waves_of(call, back)) pass.wave(units);

    for (int32_t n = 0; n < call.rules; ++n) {
        const Sums sums = sums_of(call, call.rule[n], back.rule[n], pass.part_count());
        if (back.rule[n].data && sums.length)
            fold(call, back.sums[n], sums.parts, sums.length, back.rule[n], sums.step);
    }
    if (back.sinks) fold(call, sinks.data(), 1, 1, {back.sinks, 0, 1, 0, 0, Dtype::f32}, 0);
}

} // namespace headwise
