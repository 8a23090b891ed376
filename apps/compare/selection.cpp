#include "apps/compare/selection.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

#include "apps/command/lists.hpp"
#include "core/error.hpp"
#include "core/words.hpp"

namespace protean::apps {

Selection selection_of(const CompareArguments& arguments) {
  Selection selection;
  selection.shortlisted = arguments.formats.empty();
  selection.entries = formats_named(selection.shortlisted ? "all" : arguments.formats);
  std::set<std::string_view> known;
  for (const FormatEntry* entry : catalogue())
    for (const Space space : {Space::host, Space::device})
      for (const Kernel& kernel : kernels_in(*entry, space)) known.insert(kernel.name);
  const std::vector<std::string_view> names(known.begin(), known.end());
  if (arguments.kernels != "all")
    for (const std::string& kernel : words(arguments.kernels)) {
      if (!known.count(kernel))
        throw BadArgument(fmt::format("--kernels: there is no kernel '{}'; the kernels are {}.{}", kernel,
                                      fmt::join(names, ", "), detail::did_you_mean(kernel, names)));
      selection.kernels.insert(kernel);
    }
  if (arguments.kernels != "all" && selection.kernels.empty())
    throw BadArgument(fmt::format("--kernels names no kernel; give {} separated by commas, or all",
                                  fmt::join(names, ", ")));
  selection.spaces = spaces(arguments.spaces);
  if (!arguments.selectors.empty()) selection.selectors = selectors_named(arguments.selectors);
  return selection;
}

}  // namespace protean::apps
