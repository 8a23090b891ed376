// The version, and the names that there are.
#include <string>
#include <string_view>
#include <vector>

#include "formats/catalogue.hpp"
#include "formats/choose.hpp"
#include "interfaces/c/handles.hpp"
#include "preconditioners/options.hpp"

using namespace protean;
using namespace protean::capi;

namespace {

std::vector<std::string_view> names_of(protean_kind kind) {
  switch (kind) {
    case PROTEAN_KIND_METHOD:
      return ids_of(solvers());
    case PROTEAN_KIND_PRECONDITIONER:
      return ids_of(preconditioners());
    case PROTEAN_KIND_FORMAT: {
      std::vector<std::string_view> names;
      for (const FormatEntry* entry : catalogue()) names.push_back(entry->id);
      return names;
    }
    case PROTEAN_KIND_OPTION:
      return number_option_names();
    case PROTEAN_KIND_TEXT_OPTION:
      return text_option_names();
    case PROTEAN_KIND_TRIGGER:
      return trigger_names();
    case PROTEAN_KIND_SELECTOR:
      return selector_words();
    case PROTEAN_KIND_ORDER:
      return order_words();
  }
  throw BadArgument("there is no kind " + std::to_string(static_cast<int>(kind)) +
                    " of names; take a PROTEAN_KIND_ of protean.h");
}

}  // namespace

extern "C" {

const char* protean_version(void) { return PROTEAN_VERSION; }
const char* protean_name(protean_kind kind, int64_t index) {
  const char* name = nullptr;
  (void)guarded([&] {
    const std::vector<std::string_view> names = names_of(kind);
    // All of them are constants that end with 0.
    if (index >= 0 && index < static_cast<int64_t>(names.size()))
      name = names[static_cast<std::size_t>(index)].data();
  });
  return name;
}

}  // extern "C"
