#include "buffer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

namespace check {

namespace {

size_t page() {
    static const size_t size = size_t(sysconf(_SC_PAGESIZE));
    return size;
}

// A half has `fraction` bits behind the point and exponents from `lowest` on.
double decode(uint16_t bits, int fraction, int lowest) {
    const int exponents = 15 - fraction, exponent = (bits >> fraction) & ((1 << exponents) - 1);
    const int rest = bits & ((1 << fraction) - 1);
    double size;
    if (exponent == (1 << exponents) - 1)
        size = rest ? NAN : INFINITY;
    else
        size = std::ldexp(exponent ? rest + (1 << fraction) : rest, (exponent ? exponent - 1 : 0) + lowest - fraction);
    return bits & 0x8000 ? -size : size;
}

uint16_t encode(double value, int fraction, int lowest) {
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const int exponents = 15 - fraction, highest = (1 << exponents) - 1;
    if (std::isnan(value)) return uint16_t(sign | (highest << fraction) | (1 << (fraction - 1)));
    value = std::fabs(value);
    if (value == 0) return sign;
    int exponent = lowest;
    if (std::isfinite(value)) exponent = std::max(std::ilogb(value), lowest);
    // Whole units of the last place, the leading one included: where it becomes 2 the exponent moves up by itself.
    const double units = std::isfinite(value) ? std::nearbyint(std::ldexp(value, fraction - exponent)) : INFINITY;
    if (!(std::ldexp(units, exponent - fraction) < std::ldexp(1.0, highest - 1 + lowest)))
        return uint16_t(sign | (highest << fraction));
    return uint16_t(sign | (((exponent - lowest) << fraction) + int(units)));
}

} // namespace

Buffer::Buffer(size_t bytes, bool at_front) : bytes_(bytes) {
    const size_t inner = (bytes + page() - 1) / page() * page();
    length_ = inner + 2 * page();
    void *got = mmap(nullptr, length_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED || (inner && mprotect(static_cast<char *>(got) + page(), inner, PROT_READ | PROT_WRITE))) {
        std::perror("headwise_check: no memory");
        std::exit(2);
    }
    pages_ = static_cast<char *>(got);
    data_ = pages_ + page() + (at_front ? 0 : inner - bytes);
    std::memset(data_, 0xff, bytes);
}

Buffer::~Buffer() {
    if (pages_) munmap(pages_, length_);
}

Buffer::Buffer(Buffer &&other) noexcept { *this = std::move(other); }

Buffer &Buffer::operator=(Buffer &&other) noexcept {
    std::swap(pages_, other.pages_);
    std::swap(data_, other.data_);
    std::swap(length_, other.length_);
    std::swap(bytes_, other.bytes_);
    return *this;
}

void Buffer::seal() {
    if (length_ > 2 * page()) mprotect(pages_ + page(), length_ - 2 * page(), PROT_READ);
}

int64_t size_of(Dtype dtype) { return dtype == Dtype::f32 ? 4 : 2; }

double read(const void *data, Dtype dtype, int64_t at) {
    if (dtype == Dtype::f32) return static_cast<const float *>(data)[at];
    const uint16_t bits = static_cast<const uint16_t *>(data)[at];
    return dtype == Dtype::bf16 ? decode(bits, 7, -126) : decode(bits, 10, -14);
}

void write(void *data, Dtype dtype, int64_t at, double value) {
    if (dtype == Dtype::f32)
        static_cast<float *>(data)[at] = float(value);
    else
        static_cast<uint16_t *>(data)[at] = dtype == Dtype::bf16 ? encode(value, 7, -126) : encode(value, 10, -14);
}

double Tensor::get(int64_t b, int64_t h, int64_t row, int64_t column) const {
    return read(operand.data, operand.dtype, offset(b, h, row, column));
}

void Tensor::set(int64_t b, int64_t h, int64_t row, int64_t column, double value) {
    write(operand.data, operand.dtype, offset(b, h, row, column), value);
}

bool Tensor::gaps_written() const {
    const int64_t size = size_of(operand.dtype);
    std::vector<bool> ours(buffer.bytes());
    for (int64_t b = 0; b < shape[0]; ++b)
        for (int64_t h = 0; h < shape[1]; ++h)
            for (int64_t row = 0; row < shape[2]; ++row)
                for (int64_t x = 0; x < shape[3] * size; ++x) ours[size_t(offset(b, h, row, 0) * size + x)] = true;
    for (size_t x = 0; x < ours.size(); ++x)
        if (!ours[x] && uint8_t(buffer.data()[x]) != 0xff) return true;
    return false;
}

} // namespace check
