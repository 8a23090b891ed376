#include "core/ordering.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <utility>

#include "core/adjacency.hpp"
#include "core/background.hpp"
#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "core/parallel.hpp"
#include "core/partition.hpp"
#include "core/transfer.hpp"
#if defined(PROTEAN_HAVE_CUDA)
#include "core/device/ordering.hpp"
#endif

namespace protean {
namespace {

// Whether GPUs find order rcm.
constexpr bool rcm_on_device = true;

void require_known(std::string_view id) {
  std::vector<std::string_view> ids;
  for (const OrderingEntry& entry : orderings()) ids.push_back(entry.id);
  if (std::find(ids.begin(), ids.end(), id) == ids.end())
    throw BadArgument(fmt::format("there is no order '{}'; there are {}.{}", id, fmt::join(ids, ", "),
                                  detail::did_you_mean(id, ids)));
}

// A bijection of 64 bits that leaves no pattern (the finalizer of MurmurHash3).
std::uint64_t mixed(std::uint64_t h) {
  h ^= h >> 33, h *= 0xff51afd7ed558ccdULL;
  h ^= h >> 33, h *= 0xc4ceb9fe1a85ec53ULL;
  return h ^ (h >> 33);
}

}  // namespace

void detail::require_square(const SparsityPattern& pattern, std::string_view what) {
  if (pattern.rows != pattern.cols)
    throw ShapeMismatch(fmt::format(
        "the pattern is {} x {}; order {} puts rows and columns into the same order, so the matrix must be "
        "square; leave out the order for this one",
        pattern.rows, pattern.cols, what));
}

bool pattern_is_symmetric(const Context& context, const SparsityPattern& pattern) {
  if (pattern.rows != pattern.cols) return false;
  std::atomic<std::uint64_t> difference{0};
  const int parts = useful_parts(context, pattern.nonzeros);
  const std::vector<std::int64_t> borders = balanced_row_borders(pattern, parts);
  parallel(parts, [&](int part, int) {
    std::uint64_t sum = 0;
    for (std::int64_t i = borders[part]; i < borders[part + 1]; ++i)
      for (const std::int64_t j : pattern.row(i)) {
        const std::uint64_t low = std::min(i, j), high = std::max(i, j);
        const std::uint64_t hash = mixed(high << 32 | low);
        sum += j > i ? hash : j < i ? 0 - hash : 0;
      }
    difference.fetch_add(sum, std::memory_order_relaxed);
  });
  return difference == 0;
}

std::vector<std::int32_t> sort_by_length(const Context& context, const SparsityPattern& pattern,
                                         std::int64_t window) {
  if (window < 0) throw BadArgument(fmt::format("window is {}; it must be 0 (all rows) or more", window));
  const std::int64_t n = pattern.rows;
  if (window == 0) window = std::max<std::int64_t>(n, 1);
  std::vector<std::int32_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const std::int64_t windows = (n + window - 1) / window;
  parallel(useful_parts(context, windows, 2), [&](int part, int parts) {
    const Range mine = even_range(windows, part, parts);
    for (std::int64_t w = mine.begin; w < mine.end; ++w)
      std::stable_sort(
          order.begin() + w * window, order.begin() + std::min(n, (w + 1) * window),
          [&](std::int32_t a, std::int32_t b) { return pattern.row_length(a) > pattern.row_length(b); });
  });
  return order;
}

std::int64_t bandwidth_of(const SparsityPattern& pattern, const std::vector<std::int32_t>& order) {
  std::vector<std::int32_t> place(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) place[order[k]] = static_cast<std::int32_t>(k);
  std::int64_t widest = 0;
  for (std::int64_t row = 0; row < pattern.rows; ++row)
    for (const std::int32_t col : pattern.row(row))
      widest = std::max<std::int64_t>(widest, std::abs(place[row] - place[col]));
  return widest;
}

std::span<const OrderingEntry> orderings() noexcept {
  static const OrderingEntry entries[] = {
    {"rcm", "reverse Cuthill-McKee", {}},
    {"length", "longest rows first", {}},
    {"cluster", "rows that share columns follow each other", {}},
#if defined(PROTEAN_HAVE_METIS)
    {"metis", "nested dissection by METIS", {}},
#else
    {"metis", "nested dissection by METIS",
     "this build has no METIS; install libmetis-dev and configure again (PROTEAN_METIS=ON)"},
#endif
  };
  return entries;
}

std::vector<std::int32_t> make_order(std::string_view id, const Context& context,
                                     const SparsityPattern& pattern) {
  require_known(id);
  detail::require_square(pattern, id);
  if (id == "rcm") return reverse_cuthill_mckee(context, pattern);
  if (id == "length") return sort_by_length(context, pattern);
  if (id == "cluster") return cluster_rows(context, pattern);
  return nested_dissection(context, pattern);
}

FoundOrder find_order(std::string_view id, const ContextPtr& context, const SparsityPattern& pattern,
                      const SparsityPattern* copy, bool hand_over) {
  require_known(id);
  detail::require_square(pattern, id);
  if (pattern.space != context->space())
    throw WrongSpace(fmt::format("the pattern lies in {} memory, its context in {} memory",
                                 to_string(pattern.space), to_string(context->space())));
  FoundOrder found;
  if (context->space() == Space::host) {
    found.permutation = Permutation(context, make_order(id, *context, pattern));
    return found;
  }
  if (id != "rcm")
    found.handed_over = fmt::format("order {} is found on the host only", id);
  else if (!rcm_on_device || context->simulated())
    found.handed_over = "this device does not find orders";
#if defined(PROTEAN_HAVE_CUDA)
  if (found.handed_over.empty()) {
    const detail::DeviceScope device_scope(*context);
    device::DeviceOrder there = device::reverse_cuthill_mckee(context, pattern);
    found.handed_over = std::move(there.handed_over);
    if (found.handed_over.empty()) {
      found.permutation = Permutation(context, std::move(there.order), std::move(there.place));
      found.on_device = true;
      return found;
    }
    if (!hand_over)
      throw NotAvailable(fmt::format("{}, so the host would find order {}", found.handed_over, id));
  }
#else
  (void)hand_over;
#endif
  const ContextPtr host = Context::host();
  const SparsityPattern here = copy ? *copy : detail::download_pattern(host, *context, pattern);
  detail::checkpoint();
  found.permutation = Permutation(context, make_order(id, *host, here));
  return found;
}

#if !defined(PROTEAN_HAVE_METIS)
std::vector<std::int32_t> nested_dissection(const Context&, const SparsityPattern& pattern) {
  detail::require_square(pattern, "nested dissection");
  throw NotAvailable("order metis: " + std::string(orderings().back().unavailable));
}
std::vector<std::int32_t> detail::metis_parts(const Context&, const SparsityPattern& pattern, std::int64_t,
                                              std::string_view instead) {
  require_square(pattern, "metis");
  throw NotAvailable(fmt::format("{}; or {}", no_metis(), instead));
}
#endif
std::string_view detail::no_metis() noexcept { return orderings().back().unavailable; }

}  // namespace protean
