#include "apps/command/lists.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"

namespace protean::apps {

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
      throw BadArgument(fmt::format("--spaces: '{}' is no space; the spaces are host and device", word));
    const Space space = word == "host" ? Space::host : Space::device;
    if (std::find(result.begin(), result.end(), space) == result.end()) result.push_back(space);
  }
  return result;
}

}  // namespace protean::apps
