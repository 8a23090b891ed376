// The link between a GPU and the host for engines/split/split.hpp.
#pragma once
#include "formats/engines/split/split.hpp"

namespace protean::formats {

// Copies by a separate stream next to the stream of the context.
SplitTools split_on_device() noexcept;

}  // namespace protean::formats
