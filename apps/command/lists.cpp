#include "apps/command/lists.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.hpp"
#include "formats/catalogue.hpp"

namespace protean::apps {
namespace {

// These formats in the order of the catalogue, each once.
std::vector<const FormatEntry*> in_order(const std::vector<const FormatEntry*>& formats) {
  std::vector<const FormatEntry*> result;
  for (const FormatEntry* entry : catalogue())
    if (std::find(formats.begin(), formats.end(), entry) != formats.end()) result.push_back(entry);
  return result;
}

}  // namespace

std::vector<std::string> words(const std::string& list) {
  std::vector<std::string> result;
  std::size_t begin = 0;
  while (begin <= list.size()) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    if (end > begin) result.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return result;
}

std::vector<Space> spaces(const std::string& list) {
  std::vector<Space> result;
  for (const std::string& word : words(list)) {
    if (word != "host" && word != "device")
      throw BadArgument(fmt::format("--spaces: '{}' is not a space; the spaces are host and device", word));
    const Space space = word == "host" ? Space::host : Space::device;
    if (std::find(result.begin(), result.end(), space) == result.end()) result.push_back(space);
  }
  return result;
}

std::vector<const FormatEntry*> formats_named(const std::string& list) {
  if (list == "all") return {catalogue().begin(), catalogue().end()};
  std::vector<std::string_view> ids;
  for (const FormatEntry* entry : catalogue()) ids.push_back(entry->id);
  std::vector<const FormatEntry*> named;
  for (const std::string& id : words(list)) {
    if (std::find(ids.begin(), ids.end(), id) == ids.end())
      throw BadArgument(
          fmt::format("--formats: there is no format '{}'.{} Give all, or ids that `protean formats` lists",
                      id, detail::did_you_mean(id, ids)));
    named.push_back(&find_format(id));
  }
  if (named.empty()) throw BadArgument("--formats names no format; give ids separated by commas, or all");
  return in_order(named);
}

std::vector<const FormatEntry*> shortlist(std::span<const RankedFormat> ranked,
                                          std::span<const FormatEntry* const> always,
                                          const std::function<bool(const FormatEntry&)>& wanted,
                                          std::size_t most) {
  std::vector<const FormatEntry*> chosen{&find_format("csr")};
  const auto add = [&](const FormatEntry* entry) {
    if (std::find(chosen.begin(), chosen.end(), entry) == chosen.end()) chosen.push_back(entry);
  };
  for (const FormatEntry* entry : always) add(entry);
  for (const RankedFormat& format : ranked)
    if (chosen.size() < most && wanted(*format.entry)) add(format.entry);
  return in_order(chosen);
}

}  // namespace protean::apps
