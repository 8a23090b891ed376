// The version, and the names that there are.
#include <string_view>
#include <vector>

#include "formats/catalogue.hpp"
#include "formats/choose.hpp"
#include "interfaces/c/handles.hpp"
#include "preconditioners/options.hpp"

using namespace protean;
using namespace protean::capi;

namespace {

std::vector<std::string_view> names_of(std::string_view kind) {
  if (kind == "method") return ids_of(solvers());
  if (kind == "preconditioner") return ids_of(preconditioners());
  if (kind == "option") return number_option_names();
  if (kind == "text-option") return text_option_names();
  if (kind == "trigger") return trigger_names();
  if (kind == "order") return order_words();
  if (kind == "selector") return selector_words();
  std::vector<std::string_view> names;
  if (kind == "format")
    for (const FormatEntry* entry : catalogue()) names.push_back(entry->id);
  return names;
}

}  // namespace

extern "C" {

const char* protean_version(void) { return PROTEAN_VERSION_TEXT; }
const char* protean_name(const char* kind, int64_t index) {
  const char* name = nullptr;
  (void)guarded([&] {
    const std::vector<std::string_view> names = names_of(need(kind, "kind"));
    // All of them are constants that end with 0.
    if (index >= 0 && index < static_cast<int64_t>(names.size()))
      name = names[static_cast<std::size_t>(index)].data();
  });
  return name;
}

}  // extern "C"
