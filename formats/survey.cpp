#include "formats/survey.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/buffer.hpp"
#include "formats/catalogue.hpp"

namespace protean {
namespace {

constexpr std::int64_t alignment = 192;  // of first rows: a multiple of slice heights and block sizes

struct Owner {
  Buffer<std::int32_t> row_ptr, col;
};

std::int64_t longest_row(const SparsityPattern& pattern) {
  std::int64_t longest = 0, at = 0;
  pattern.row_ptr.visit([&](const auto* ptr) {
    for (std::int64_t i = 0; i < pattern.rows; ++i)
      if (ptr[i + 1] - ptr[i] > longest) longest = ptr[i + 1] - ptr[i], at = i;
  });
  return at;
}

// First rows and ends of the blocks, ascending and disjoint.
std::vector<std::pair<std::int64_t, std::int64_t>> choose_blocks(const SparsityPattern& pattern,
                                                                 std::int64_t entries, int blocks) {
  const std::int64_t per_row = std::max<std::int64_t>(1, pattern.nonzeros / pattern.rows);
  const std::int64_t height = std::max<std::int64_t>(1, entries / (per_row * blocks * alignment)) * alignment;
  std::vector<std::pair<std::int64_t, std::int64_t>> chosen;
  const auto add = [&](std::int64_t row) {
    const std::int64_t begin = row / alignment * alignment;
    chosen.emplace_back(begin, std::min(begin + height, pattern.rows));
  };
  // In the middle of as many parts: first and last rows are those of a boundary.
  for (int b = 0; b < blocks; ++b)
    add(std::max<std::int64_t>(0, (2 * b + 1) * pattern.rows / (2 * blocks) - height / 2));
  std::int64_t longest = 0;
  for (const auto& [begin, end] : chosen)
    for (std::int64_t i = begin; i < end; ++i) longest = std::max(longest, pattern.row_length(i));
  if (const std::int64_t row = longest_row(pattern); pattern.row_length(row) > longest) {
    // A row longer than a whole sample says more about the matrix than its neighbours do: it alone is enough.
    const std::int64_t begin = row / alignment * alignment;
    chosen.emplace_back(begin, std::min(begin + alignment, pattern.rows));
  }
  std::sort(chosen.begin(), chosen.end());
  for (std::size_t i = 1; i < chosen.size(); ++i)
    chosen[i].first = std::max(chosen[i].first, chosen[i - 1].second);
  std::erase_if(chosen, [](const auto& block) { return block.first >= block.second; });
  return chosen;
}

// Why formats that give each row to one thread are not for this matrix; nothing when they are. The two
// thresholds are estimates.
std::optional<std::string> uneven_rows(const SparsityPattern& pattern) {
  if (pattern.rows == 0) return {};
  const std::int64_t longest = pattern.row_length(longest_row(pattern));
  const double mean = static_cast<double>(pattern.nonzeros) / static_cast<double>(pattern.rows);
  if (longest <= 1000 || static_cast<double>(longest) <= 50 * mean) return {};
  return fmt::format(
      "the longest row has {} entries where the mean is {:.1f}; only csr and coo cut rows between threads",
      longest, mean);
}

}  // namespace

PatternSample sample_rows(const ContextPtr& context, const SparsityPattern& pattern, std::int64_t entries,
                          int blocks) {
  if (pattern.space != Space::host)
    throw WrongSpace("a pattern in device memory cannot be sampled; give the one on the host");
  if (blocks < 1 || entries < 1) throw BadArgument("a sample needs a block and an entry at least");
  blocks = static_cast<int>(std::clamp<std::int64_t>(
      entries * pattern.rows / (alignment * std::max<std::int64_t>(pattern.nonzeros, 1)), std::min(blocks, 3),
      blocks));
  if (pattern.nonzeros <= 2 * entries || pattern.rows <= 2 * alignment * blocks) return {pattern, 1};
  const auto chosen = choose_blocks(pattern, entries, blocks);
  std::int64_t rows = 0, nonzeros = 0;
  std::int64_t lowest = 0, highest = 0;  // of shifted columns
  bool first = true;
  for (const auto& [begin, end] : chosen) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto row = pattern.row(i);
      if (row.empty()) continue;
      const std::int64_t shift = rows - begin;
      if (first) lowest = row.front() + shift, highest = row.back() + shift, first = false;
      lowest = std::min(lowest, row.front() + shift), highest = std::max(highest, row.back() + shift);
    }
    rows += end - begin, nonzeros += pattern.row_ptr[end] - pattern.row_ptr[begin];
  }
  // Aligned as well, so that blocks of columns stay blocks.
  lowest = (lowest - (lowest < 0 ? alignment - 1 : 0)) / alignment * alignment;
  const std::int64_t cols = highest - lowest + 1;
  if (cols >= std::int64_t{1} << 31 || nonzeros >= std::int64_t{1} << 31) return {pattern, 1};

  auto owner = std::make_shared<Owner>(
      Owner{Buffer<std::int32_t>(context, rows + 1), Buffer<std::int32_t>(context, nonzeros)});
  std::int64_t row = 0, at = 0;
  owner->row_ptr.data()[0] = 0;
  for (const auto& [begin, end] : chosen) {
    const std::int64_t shift = row - begin - lowest;
    for (std::int64_t i = begin; i < end; ++i) {
      for (const std::int32_t col : pattern.row(i))
        owner->col.data()[at++] = static_cast<std::int32_t>(col + shift);
      owner->row_ptr.data()[++row] = static_cast<std::int32_t>(at);
    }
  }
  PatternSample sample;
  sample.pattern.rows = rows, sample.pattern.cols = cols, sample.pattern.nonzeros = nonzeros;
  sample.pattern.row_ptr.p32 = owner->row_ptr.data(), sample.pattern.col = owner->col.data();
  sample.pattern.owner = std::move(owner);
  sample.share = static_cast<double>(nonzeros) / static_cast<double>(pattern.nonzeros);
  return sample;
}

std::vector<SwitchTarget> survey_formats(const SparsityPattern& pattern, Space space, bool deterministic,
                                         std::size_t value_bytes) {
  // One thread: the sample is so small that waking others would cost more.
  const ContextPtr one = Context::host(1);
  const PatternSample sample = sample_rows(one, pattern);
  const auto csr_bytes = [&](const SparsityPattern& p) {
    return static_cast<double>(p.bytes()) +
           static_cast<double>(p.nonzeros) * static_cast<double>(value_bytes);
  };
  const double scale = csr_bytes(pattern) / csr_bytes(sample.pattern);
  const std::optional<std::string> uneven = uneven_rows(pattern);
  std::vector<SwitchTarget> surveyed;
  for (const FormatEntry* entry : catalogue()) {
    if (!entry->traits.exact_values) continue;
    const auto kernels = kernels_in(*entry, space);
    const auto usable = [&](const Kernel& kernel) {
      return kernel.unavailable.empty() && (!deterministic || has_deterministic_mode(*entry, kernel, space));
    };
    if (std::none_of(kernels.begin(), kernels.end(), usable)) continue;
    const bool cuts_rows = entry->family == "row" || entry->family == "coordinate";
    const Admission admission =
        !cuts_rows && uneven ? Admission::refuse(*uneven)
                             : entry->admit(*one, sample.pattern, resolve_params(*entry, {}), value_bytes);
    SwitchTarget format;
    format.spec.entry = entry;
    format.admitted = admission.ok;
    if (admission.ok)
      format.bytes = static_cast<std::size_t>(std::llround(static_cast<double>(admission.bytes) * scale));
    else if (!cuts_rows && uneven)
      format.why = *uneven;
    else
      format.why = sample.share < 1 ? fmt::format("in a sample of {:.1f} % of the entries: {}",
                                                  100 * sample.share, admission.reason)
                                    : admission.reason;
    for (const Kernel& kernel : kernels) {
      if (!usable(kernel)) continue;
      format.spec.kernel = &kernel == &kernels.front() ? std::string_view() : kernel.name;
      surveyed.push_back(format);
    }
  }
  return surveyed;
}

}  // namespace protean
