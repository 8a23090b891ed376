// The device side of detail::read_rows() (core/transfer.hpp). Private; CUDA builds only.
#pragma once
#include <span>

#include "core/transfer.hpp"

namespace protean::device {

void read_rows(const Context& context, const SparsityPattern& pattern, std::span<const std::int32_t> rows,
               detail::RowsRead& to);

}  // namespace protean::device
