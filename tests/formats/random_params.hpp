// Parameters of formats drawn at random.
#pragma once
#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "operators/assembled_matrix.hpp"
#include "operators/narrow_values.hpp"
#include "support/fake_device.hpp"

namespace protean::test {

// Gives random values to the parameters. Limits to fill are raised, so that few matrices are refused.
inline FormatParams random_params(const FormatEntry& format, std::mt19937& random) {
  FormatParams params = most_tolerant(format);
  for (const ParamDoc& doc : format.params) {
    if (params.has(doc.name) || random() % 2) continue;
    if (doc.choices.empty()) {
      const std::int64_t largest = std::min<std::int64_t>(doc.largest, 64);
      params.set(std::string(doc.name),
                 doc.smallest + static_cast<std::int64_t>(random() % (largest - doc.smallest + 1)));
      continue;
    }
    std::vector<std::string> words(1);
    for (const char c : doc.choices)
      if (c == '|')
        words.emplace_back();
      else
        words.back() += c;
    params.set(std::string(doc.name), words[random() % words.size()]);
  }
  return params;
}

// The same with parameter `values` of a kernel that has it.
inline FormatParams random_params(const FormatEntry& format, const Kernel& kernel, std::mt19937& random) {
  FormatParams params = random_params(format, random);
  constexpr std::string_view words[] = {"auto", "double", "float", "dictionary"};
  if (detail::has_float_values(kernel))
    params.set("values", std::string(words[random() % (detail::has_dictionary(kernel) ? 4 : 3)]));
  return params;
}

}  // namespace protean::test
