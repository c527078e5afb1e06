// Memory that is about to be written for the first time.
#pragma once
#include <headwise/call.h>

namespace headwise {

// Asks the system for large pages behind a result of `rows` rows of `width`, where it is large: of a fresh one, each
// page is cleared at its first write, and thousands of small ones take longer than what is written to them.
void want_large_pages(const Operand &result, int64_t B, int64_t H, int64_t rows, int64_t width);

} // namespace headwise
