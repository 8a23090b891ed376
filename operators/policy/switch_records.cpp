#include "operators/policy/switch_records.hpp"

#include <fmt/format.h>

#include "operators/assembled_matrix.hpp"
#include "operators/values_word.hpp"

namespace protean {

std::string FormatSpec::name() const {
  const std::string in = order.empty() ? "" : fmt::format("order {}", order);
  if (!entry && !elements) return in.empty() ? "(no format)" : in;
  std::string name = elements                               ? "element"
                     : kernel.empty() || kernel == "native" ? std::string(entry->id)
                                                            : fmt::format("{}/{}", entry->id, kernel);
  if (entry && detail::values_word(params) == "float") name += " in float";
  return in.empty() ? name : name + " in " + in;
}

std::string_view to_string(SwitchFailure failure) noexcept {
  switch (failure) {
    case SwitchFailure::refused:
      return "refused";
    case SwitchFailure::out_of_memory:
      return "out-of-memory";
    case SwitchFailure::failed:
      return "failed";
    case SwitchFailure::wrong_product:
      return "wrong-product";
    case SwitchFailure::cancelled:
      return "cancelled";
  }
  return "unknown";
}

}  // namespace protean
