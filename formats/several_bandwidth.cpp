// What formats gain in products with several vectors.
#include <algorithm>
#include <iterator>

#include "formats/catalogue.hpp"
#include "formats/survey.hpp"

namespace protean {

double several_bandwidth(const FormatEntry& entry, std::string_view kernel, Space space) {
  const auto kernels = kernels_in(entry, space);
  if (kernel.empty() && !kernels.empty()) kernel = kernels.front().name;
  const bool on_host = space == Space::host, blocks = entry.engine == "blocks";
  // Blocks on a GPU have one product with several vectors, whichever kernel multiplies one.
  if (kernel != "native" && (on_host || !blocks)) return 0;
  const std::string_view layout = entry.base.empty() ? entry.id : entry.base;
  constexpr std::string_view one_by_one[] = {"bcoo-bcsr", "bccoo", "bccoo-plus"};
  if (std::find(std::begin(one_by_one), std::end(one_by_one), layout) != std::end(one_by_one)) return 0;
  if (layout == "csr") return 1;
  if (layout == "sell-packed") return on_host ? 0.53 : 0.88;
  if (entry.engine == "slots") return on_host ? 0.61 : 0.95;
  if (blocks) return on_host ? 0.42 : 0.75;
  return 0;
}

}  // namespace protean
