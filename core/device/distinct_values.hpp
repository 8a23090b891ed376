// The device side of tables of values (operators/value_table.hpp). Private; CUDA builds only.
#pragma once
#include <cstdint>
#include <vector>

#include "core/context.hpp"

namespace protean::device {

// The different values of an array in device memory as words, with word 0, in any order; empty if there are more than
// `most`, which is at most 256. Waits.
std::vector<std::uint64_t> distinct_words(const Context& context, std::int64_t count, const double* values,
                                          int most);
// places[k] := the place of values[k] in a table in device memory whose first `size` values ascend by their bits, as
// unsigned numbers. All values are in the table.
void encode_values(const Context& context, std::int64_t count, const double* values, const double* table,
                   int size, std::uint8_t* places);

}  // namespace protean::device
