// Memory whose neighbours may not be touched, and tensors that lie in it.
#pragma once
#include <headwise/call.h>

#include <cstddef>
#include <vector>

namespace check {

using headwise::Dtype;
using headwise::Operand;

// `bytes` bytes between two pages that may not be touched: they end where the page behind begins, or, `at_front`, begin
// where the page before ends. Filled with 0xff, which is NaN in every dtype.
class Buffer {
  public:
    Buffer() = default;
    explicit Buffer(size_t bytes, bool at_front = false);
    ~Buffer();
    Buffer(Buffer &&other) noexcept;
    Buffer &operator=(Buffer &&other) noexcept;

    char *data() const { return data_; }
    size_t bytes() const { return bytes_; }
    template <class T> T *as() const { return reinterpret_cast<T *>(data_); }
    void seal(); // from here on a write is a fault

  private:
    char *pages_ = nullptr, *data_ = nullptr;
    size_t length_ = 0, bytes_ = 0;
};

// A tensor [batch, head, row, column] whose strides say where in its buffer each row lies.
struct Tensor {
    Buffer buffer;
    Operand operand{};
    int64_t shape[4] = {};

    int64_t offset(int64_t b, int64_t h, int64_t row, int64_t column) const {
        return b * operand.batch + h * operand.head + row * operand.row + column;
    }
    double get(int64_t b, int64_t h, int64_t row, int64_t column) const;
    void set(int64_t b, int64_t h, int64_t row, int64_t column, double value);
    // Whether any byte that belongs to no element is no longer 0xff.
    bool gaps_written() const;
};

int64_t size_of(Dtype dtype);
double read(const void *data, Dtype dtype, int64_t at);
// To the nearest number of the dtype, ties to even.
void write(void *data, Dtype dtype, int64_t at, double value);

} // namespace check
