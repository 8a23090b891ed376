// The cut of a matrix that a GPU and a host share: where it lies, the rows of the host, and the forecast of the speeds.
#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/bisect.hpp"
#include "core/parallel.hpp"
#include "core/transfer.hpp"
#include "formats/engines/split/split.hpp"
#include "operators/policy/cost_model.hpp"

namespace protean::formats {
namespace {

// Row pointer i of a pattern in device memory.
std::int64_t row_pointer(const Context& device, const SparsityPattern& pattern, std::int64_t i) {
  return pattern.row_ptr.visit([&](auto* row_ptr) {
    std::remove_const_t<std::remove_pointer_t<decltype(row_ptr)>> value = 0;
    detail::copy_bytes(device, &value, Space::host, row_ptr + i, pattern.space, sizeof value);
    return static_cast<std::int64_t>(value);
  });
}

// Arrays of a pattern in host memory, which it owns.
struct HostPattern {
  Buffer<std::int32_t> narrow, col;
  Buffer<std::int64_t> wide;
};

void number_columns(const Context& host, SplitRows& rows, std::int32_t* col) {
  const std::int64_t entries = rows.pattern.nonzeros;
  const int parts = useful_parts(host, entries, 65536);
  struct Ends {
    std::int32_t first = std::numeric_limits<std::int32_t>::max(), last = -1;
  };
  std::vector<Ends> ends(static_cast<std::size_t>(parts));
  parallel(parts, [&](int part, int) {
    const Range range = even_range(entries, part, parts);
    Ends own;
    for (std::int64_t k = range.begin; k < range.end; ++k)
      own.first = std::min(own.first, col[k]), own.last = std::max(own.last, col[k]);
    ends[static_cast<std::size_t>(part)] = own;
  });
  Ends all;
  for (const Ends& own : ends)
    all.first = std::min(all.first, own.first), all.last = std::max(all.last, own.last);
  if (entries == 0) {
    rows.pattern.cols = 0;
    return;
  }
  rows.first = all.first;
  const std::int64_t width = std::int64_t{all.last} - all.first + 1;
  std::vector<std::uint8_t> used(static_cast<std::size_t>(width));
  parallel(parts, [&](int part, int) {
    const Range range = even_range(entries, part, parts);
    for (std::int64_t k = range.begin; k < range.end; ++k)
      std::atomic_ref<std::uint8_t>(used[static_cast<std::size_t>(col[k] - all.first)])
          .store(1, std::memory_order_relaxed);
  });
  const std::int64_t count = std::count(used.begin(), used.end(), std::uint8_t{1});
  std::vector<std::int32_t> place;
  if (4 * count <= 3 * width) {
    place.resize(static_cast<std::size_t>(width));
    rows.columns.reserve(static_cast<std::size_t>(count));
    for (std::int64_t j = 0; j < width; ++j)
      if (used[static_cast<std::size_t>(j)]) {
        place[static_cast<std::size_t>(j)] = static_cast<std::int32_t>(rows.columns.size());
        rows.columns.push_back(static_cast<std::int32_t>(all.first + j));
      }
  }
  rows.pattern.cols = rows.columns.empty() ? width : count;
  parallel(parts, [&](int part, int) {
    const Range range = even_range(entries, part, parts);
    for (std::int64_t k = range.begin; k < range.end; ++k) {
      const std::int32_t j = col[k] - all.first;
      col[k] = place.empty() ? j : place[static_cast<std::size_t>(j)];
    }
  });
}

}  // namespace

std::int64_t split_border(const Context& device, const SparsityPattern& pattern, std::int64_t wanted) {
  const std::int64_t rows = pattern.rows;
  if (wanted <= 0 && pattern.nonzeros > 0) return 0;
  if (wanted >= pattern.nonzeros) return rows;
  const auto before = [&](std::int64_t row) { return row_pointer(device, pattern, row); };
  // The last border with at most `wanted` entries before it.
  std::int64_t border =
      first_where(std::int64_t{0}, rows + 1, [&](std::int64_t row) { return before(row) > wanted; }) - 1;
  const std::int64_t less = before(border), more = before(border + 1);
  const bool nothing_left = more == pattern.nonzeros && less > 0;
  if ((less == 0 && more < pattern.nonzeros) || (more - wanted < wanted - less && !nothing_left)) ++border;
  return border;
}

SplitRows split_rows(const ContextPtr& host, const Context& device, const SparsityPattern& pattern,
                     std::int64_t border) {
  SplitRows rows;
  rows.border = border;
  SparsityPattern& its = rows.pattern;
  its.rows = pattern.rows - border;
  rows.first_entry = border < pattern.rows ? row_pointer(device, pattern, border) : pattern.nonzeros;
  its.nonzeros = pattern.nonzeros - rows.first_entry;
  auto arrays = std::make_shared<HostPattern>();
  arrays->col = Buffer<std::int32_t>(host, its.nonzeros);
  pattern.row_ptr.visit([&]<class P>(const P* row_ptr) {
    Buffer<P> copied(host, its.rows + 1);
    detail::copy_bytes(device, copied.data(), Space::host, row_ptr + border, pattern.space, copied.bytes());
    const auto fill = [&]<class Q>(Buffer<Q>& to) {
      to = Buffer<Q>(host, its.rows + 1);
      parallel(useful_parts(*host, its.rows), [&](int part, int parts) {
        const Range range = even_range(its.rows + 1, part, parts);
        for (std::int64_t r = range.begin; r < range.end; ++r)
          to[r] = static_cast<Q>(static_cast<std::int64_t>(copied[r]) - rows.first_entry);
      });
    };
    if (its.nonzeros <= std::numeric_limits<std::int32_t>::max())
      fill(arrays->narrow);
    else
      fill(arrays->wide);
  });
  if (its.nonzeros > 0)
    detail::copy_bytes(device, arrays->col.data(), Space::host, pattern.col + rows.first_entry, pattern.space,
                       arrays->col.bytes());
  number_columns(*host, rows, arrays->col.data());
  its.row_ptr = {arrays->narrow.data(), arrays->wide.data()};
  its.col = arrays->col.data();
  its.owner = std::move(arrays);
  return rows;
}

SplitForecast split_forecast(const SplitLinkSpeed& link, const SparsityPattern& pattern,
                             std::size_t value_bytes) {
  const auto n = static_cast<double>(std::max<std::int64_t>(1, pattern.nonzeros));
  // A line through the times of the whole matrix and of one of half its rows.
  const auto line = [&](Space space) {
    const CostModel model(space);
    const std::size_t bytes = pattern.bytes() + static_cast<std::size_t>(pattern.nonzeros) * value_bytes;
    const double whole = model.csr_seconds({pattern.rows, pattern.nonzeros, bytes}),
                 half = model.csr_seconds({pattern.rows / 2, pattern.nonzeros / 2, bytes / 2});
    const double slope = std::clamp((whole - half) / (n / 2), 0.0, whole / n);
    return SplitSpeed{whole - slope * n, slope};
  };
  SplitForecast forecast{line(Space::device), line(Space::host)};
  // What a host's row reads of x and writes of y, if the columns of its entries are spread as the rows are.
  forecast.host.fixed += 2 * link.latency_seconds;
  forecast.host.per_entry += static_cast<double>(pattern.rows + pattern.cols) *
                             static_cast<double>(value_bytes) / n / link.bytes_per_second;
  return forecast;
}

}  // namespace protean::formats
