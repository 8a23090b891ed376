// The descriptions in the folder formats, which the build embeds.
#include <algorithm>
#include <fstream>
#include <iterator>

#include "core/error.hpp"
#include "research/describe/language.hpp"

namespace protean::research {

struct DescriptionText {
  const char *name, *text;
};
extern const DescriptionText description_texts[];

std::vector<std::string> built_in_descriptions() {
  std::vector<std::string> names;
  for (const DescriptionText* one = description_texts; one->name; ++one) names.emplace_back(one->name);
  std::sort(names.begin(), names.end());
  return names;
}

std::string description_text(const std::string& name_or_file) {
  for (const DescriptionText* one = description_texts; one->name; ++one)
    if (name_or_file == one->name) return one->text;
  std::ifstream file(name_or_file, std::ios::binary);
  if (!file) {
    std::string names;
    for (const std::string& name : built_in_descriptions()) names += (names.empty() ? "" : ", ") + name;
    throw BadFile(name_or_file, 0, 0,
                  "there is no such file, and no description of that name; give a path, or one of " + names);
  }
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace protean::research
