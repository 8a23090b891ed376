// What the host and the device side of sss say alike. Private to formats/.
#pragma once
#include <string>

#include "core/csr.hpp"
#include "core/statistics.hpp"

namespace protean::formats {

// Why sss refuses a matrix: its shape, or an entry; empty for another matrix.
std::string refusal_of_shape(const SparsityPattern& pattern);
std::string refusal_of_entry(const AsymmetricEntry& entry);

}  // namespace protean::formats
