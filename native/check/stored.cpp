// Keys and values in pages give the bits of those that lie at their strides, int8 those of the numbers that it stands
// for; and rotary embedding against its formula.
#include "check.h"

#include "../driver/forward.h"
#include "../driver/turn.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace check {

using headwise::Facts;
using headwise::Store;
using headwise::Turn;

namespace {

// What a forward makes of a call: [B, H, T, E], side by side.
Tensor output_of(const Kernels &kernels, const Call &call, int threads) {
    Tensor out;
    out.buffer = Buffer(size_t(call.B * call.H * call.T * call.E * size_of(call.q.dtype)));
    out.operand = {out.buffer.data(), call.H * call.T * call.E, call.T * call.E, call.E, call.q.dtype};
    headwise::forward(kernels, call, out.operand, Facts{}, threads);
    return out;
}

bool same_bytes(const Tensor &a, const Tensor &b) {
    return std::memcmp(a.buffer.data(), b.buffer.data(), a.buffer.bytes()) == 0;
}

// Rows of an operand in pages of `size` that lie in no order, what is behind the last row NaN.
struct Pages {
    Buffer pool, table;
    Operand operand{};
    Store store{};

    Pages(Random &random, const Tensor &x, int64_t size) {
        const int64_t B = x.shape[0], H = x.shape[1], S = x.shape[2], W = x.shape[3];
        const int64_t columns = (S + size - 1) / size, count = B * columns, bytes = size_of(x.operand.dtype);
        pool = Buffer(size_t(count * H * size * W * bytes));
        table = Buffer(size_t(count) * 4);
        int32_t *pages = table.as<int32_t>();
        std::iota(pages, pages + count, 0);
        for (int64_t n = count - 1; n > 0; --n) std::swap(pages[n], pages[random.below(n + 1)]);
        operand = {pool.data(), 0, size * W, W, x.operand.dtype};
        store.pages = pages;
        store.batch = columns;
        store.size = size;
        store.stride = H * size * W;
        for (int64_t b = 0; b < B; ++b)
            for (int64_t h = 0; h < H; ++h)
                for (int64_t j = 0; j < S; ++j) {
                    const int64_t page = pages[b * columns + j / size];
                    const int64_t to = page * store.stride + h * operand.head + j % size * operand.row;
                    for (int64_t w = 0; w < W; ++w) write(pool.data(), operand.dtype, to + w, x.get(b, h, j, w));
                }
        pool.seal();
        table.seal();
    }
};

// Eight bits at random with a scale a row, and the numbers of a dtype that they stand for.
struct EightBits {
    Buffer numbers, scales;
    Tensor meant;
    Operand operand{};
    Store store{};

    EightBits(Random &random, const int64_t (&shape)[4], Dtype dtype) {
        const int64_t rows = shape[0] * shape[1] * shape[2], W = shape[3];
        numbers = Buffer(size_t(rows * W));
        scales = Buffer(size_t(rows) * 4);
        meant.buffer = Buffer(size_t(rows * W * size_of(dtype)));
        std::copy(shape, shape + 4, meant.shape);
        meant.operand = {meant.buffer.data(), shape[1] * shape[2] * W, shape[2] * W, W, dtype};
        operand = meant.operand;
        operand.data = numbers.data();
        store.scales = scales.as<float>();
        store.scale_batch = shape[1] * shape[2];
        store.scale_head = shape[2];
        store.scale_row = 1;
        for (int64_t r = 0; r < rows; ++r) {
            const float scale = float(random.uniform(0.001, 0.03));
            scales.as<float>()[r] = scale;
            for (int64_t w = 0; w < W; ++w) {
                const int8_t number = int8_t(random.between(-127, 127));
                numbers.as<int8_t>()[r * W + w] = number;
                write(meant.buffer.data(), dtype, r * W + w, double(float(number) * scale));
            }
        }
        numbers.seal();
        scales.seal();
    }
};

void check_pages(const Kernels &kernels, const Problem &problem, Random &random, const Options &options,
                 Report &report) {
    const Tensor plain = output_of(kernels, problem.call, 1);
    const int64_t sizes[] = {1, 3, 16, 5 + random.below(60)};
    const Pages keys(random, problem.k, sizes[random.below(4)]), values(random, problem.v, sizes[random.below(4)]);
    for (int which = 1; which < 4; ++which) {
        Call call = problem.call;
        if (which & 1) call.k = keys.operand, call.k_store = keys.store;
        if (which & 2) call.v = values.operand, call.v_store = values.store;
        for (int threads = 1; threads <= options.threads; ++threads)
            if (!same_bytes(output_of(kernels, call, threads), plain)) report.fail("other bits from pages");
    }
}

void check_eight_bits(const Kernels &kernels, const Problem &problem, Random &random, Report &report) {
    const Call &given = problem.call;
    const EightBits keys(random, {given.B, given.Hk, given.S, given.D}, given.q.dtype),
        values(random, {given.B, given.Hk, given.S, given.E}, given.q.dtype);
    Call plain = given, call = given;
    plain.k = keys.meant.operand;
    plain.v = values.meant.operand;
    call.k = keys.operand, call.k_store = keys.store;
    call.v = values.operand, call.v_store = values.store;
    if (!same_bytes(output_of(kernels, call, 1), output_of(kernels, plain, 1)))
        report.fail("other bits from eight bits than from the numbers that they stand for");
}

void check_turn(const Kernels &kernels, const Problem &problem, Random &random, Report &report) {
    const Tensor &x = problem.q;
    const int64_t T = x.shape[2], half = random.below(x.shape[3] / 2 + 1);
    if (half == 0) return;
    const bool each = random.chance(0.5); // whether batch rows have angles of their own
    const int64_t rows = (each ? x.shape[0] : 1) * T;
    std::vector<float> cosines, sines;
    for (int64_t n = 0; n < rows * half; ++n) {
        const double angle = random.uniform(-400, 400);
        cosines.push_back(float(std::cos(angle)));
        sines.push_back(float(std::sin(angle)));
    }
    Tensor out = draw_tensor(random, {x.shape[0], x.shape[1], T, x.shape[3]}, x.operand.dtype, false);
    Turn turn{};
    turn.in = x.operand, turn.out = out.operand;
    turn.B = x.shape[0], turn.H = x.shape[1], turn.T = T, turn.D = x.shape[3];
    turn.cos = cosines.data(), turn.sin = sines.data();
    turn.batch = each ? T * half : 0, turn.row = half, turn.half = half;
    turn.neighbours = random.chance(0.5);
    headwise::turn(kernels, turn, 1);
    for (int64_t b = 0; b < turn.B; ++b)
        for (int64_t h = 0; h < turn.H; ++h)
            for (int64_t i = 0; i < T; ++i)
                for (int64_t w = 0; w < turn.D; ++w) {
                    double wanted = x.get(b, h, i, w), size = std::fabs(wanted);
                    if (w < 2 * half) {
                        const int64_t k = turn.neighbours ? w / 2 : w % half;
                        const bool second = turn.neighbours ? w % 2 : w >= half;
                        const int64_t at = b * turn.batch + i * half + k;
                        const double a = x.get(b, h, i, turn.neighbours ? 2 * k : k),
                                     c = x.get(b, h, i, turn.neighbours ? 2 * k + 1 : half + k);
                        const double cosine = cosines[size_t(at)], sine = sines[size_t(at)];
                        wanted = second ? c * cosine + a * sine : a * cosine - c * sine;
                        size = std::fabs(a) + std::fabs(c);
                    }
                    // Two products and their sum in float32, each rounded.
                    report.expect_or_strange("turned", out.get(b, h, i, w), {wanted, size * 0x1p-22}, x.operand.dtype);
                }
    if (out.gaps_written()) report.fail("turned: something was written between its rows");
}

} // namespace

void check_stored(const Kernels &kernels, const Problem &problem, Random &random, const Options &options,
                  Report &report) {
    check_turn(kernels, problem, random, report);
    const Call &call = problem.call;
    if (!call.v.data || call.E == 0) return; // a bare pattern is never stored
    check_pages(kernels, problem, random, options, report);
    check_eight_bits(kernels, problem, random, report);
}

} // namespace check
