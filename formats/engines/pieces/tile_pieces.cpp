#include "formats/engines/pieces/tile_pieces.hpp"

#include <limits>

#include "formats/host_support.hpp"

namespace protean::formats {

Admission admit_pieces(const SparsityPattern& pattern, std::int64_t pieces, std::int64_t slots,
                       std::size_t other_bytes, const FormatParams& params, std::size_t value_bytes) {
  const std::size_t bytes = 8 * static_cast<std::size_t>(pattern.rows + 1) +
                            8 * static_cast<std::size_t>(pieces) +
                            (4 + value_bytes) * static_cast<std::size_t>(slots) + other_bytes;
  if (pieces >= std::numeric_limits<std::int32_t>::max())
    return Admission::refuse(fmt::format("{} pieces of rows; their numbers have 32 bits", pieces), bytes,
                             slots);
  if (params.has("max_fill"))
    if (std::string reason = too_much_fill(slots, pattern.nonzeros, params.integer("max_fill"), bytes);
        !reason.empty())
      return Admission::refuse(std::move(reason), bytes, slots);
  return Admission::accept(bytes, slots);
}

}  // namespace protean::formats
