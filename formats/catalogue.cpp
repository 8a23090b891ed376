#include "formats/catalogue.hpp"

#include <fmt/format.h>

#include <vector>

namespace protean {
namespace formats {
#define PROTEAN_FORMAT(family, name) extern const FormatEntry name;
#include "formats/catalogue.def"
#undef PROTEAN_FORMAT
}  // namespace formats

std::span<const FormatEntry* const> catalogue() noexcept {
  static constexpr const FormatEntry* table[] = {
#define PROTEAN_FORMAT(family, name) &formats::name,
#include "formats/catalogue.def"
#undef PROTEAN_FORMAT
  };
  return table;
}

const FormatEntry& find_format(std::string_view id) {
  std::vector<std::string_view> ids;
  for (const FormatEntry* entry : catalogue()) {
    if (entry->id == id) return *entry;
    ids.push_back(entry->id);
  }
  throw BadArgument(
      fmt::format("there is no format '{}'.{} `protean formats` lists them.", id, did_you_mean(id, ids)));
}

}  // namespace protean
