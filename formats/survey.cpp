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

// The rows of the blocks, moved together; row_of(i) are the columns of row i. Nothing when indices of 32 bits
// do not suffice.
template <class Row>
std::optional<SparsityPattern> move_together(const ContextPtr& context,
                                             const std::vector<std::pair<std::int64_t, std::int64_t>>& blocks,
                                             const Row& row_of) {
  std::int64_t rows = 0, nonzeros = 0;
  std::int64_t lowest = 0, highest = 0;  // of shifted columns
  bool first = true;
  for (const auto& [begin, end] : blocks) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto row = row_of(i);
      if (row.empty()) continue;
      const std::int64_t shift = rows - begin;
      if (first) lowest = row.front() + shift, highest = row.back() + shift, first = false;
      lowest = std::min(lowest, row.front() + shift), highest = std::max(highest, row.back() + shift);
      nonzeros += std::ssize(row);
    }
    rows += end - begin;
  }
  // Aligned as well, so that blocks of columns stay blocks.
  lowest = (lowest - (lowest < 0 ? alignment - 1 : 0)) / alignment * alignment;
  const std::int64_t cols = highest - lowest + 1;
  if (cols >= std::int64_t{1} << 31 || nonzeros >= std::int64_t{1} << 31) return {};

  auto owner = std::make_shared<Owner>(
      Owner{Buffer<std::int32_t>(context, rows + 1), Buffer<std::int32_t>(context, nonzeros)});
  std::int64_t row = 0, at = 0;
  owner->row_ptr.data()[0] = 0;
  for (const auto& [begin, end] : blocks) {
    const std::int64_t shift = row - begin - lowest;
    for (std::int64_t i = begin; i < end; ++i) {
      for (const std::int32_t col : row_of(i))
        owner->col.data()[at++] = static_cast<std::int32_t>(col + shift);
      owner->row_ptr.data()[++row] = static_cast<std::int32_t>(at);
    }
  }
  SparsityPattern pattern;
  pattern.rows = rows, pattern.cols = cols, pattern.nonzeros = nonzeros;
  pattern.row_ptr.p32 = owner->row_ptr.data(), pattern.col = owner->col.data();
  pattern.owner = std::move(owner);
  return pattern;
}

double csr_bytes(const SparsityPattern& p, std::size_t value_bytes) {
  return static_cast<double>(p.bytes()) + static_cast<double>(p.nonzeros) * static_cast<double>(value_bytes);
}

// Every format asked about the sample; `scale`: bytes of the whole in csr over those of the sample.
std::vector<SwitchTarget> survey_sample(const ContextPtr& one, const PatternSample& sample, double scale,
                                        const std::optional<std::string>& uneven, Space space,
                                        bool deterministic, std::size_t value_bytes) {
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
  auto pattern_of_sample = move_together(context, chosen, [&](std::int64_t i) { return pattern.row(i); });
  if (!pattern_of_sample) return {pattern, 1};
  PatternSample sample;
  sample.pattern = std::move(*pattern_of_sample);
  sample.share = static_cast<double>(sample.pattern.nonzeros) / static_cast<double>(pattern.nonzeros);
  return sample;
}

std::vector<SwitchTarget> survey_formats(const SparsityPattern& pattern, Space space, bool deterministic,
                                         std::size_t value_bytes) {
  // One thread: the sample is so small that waking others would cost more.
  const ContextPtr one = Context::host(1);
  const PatternSample sample = sample_rows(one, pattern);
  const double scale = csr_bytes(pattern, value_bytes) / csr_bytes(sample.pattern, value_bytes);
  return survey_sample(one, sample, scale, uneven_rows(pattern), space, deterministic, value_bytes);
}

template <class T>
std::vector<SwitchTarget> survey_formats(const ElementOperator<T>& elements) {
  const ContextPtr one = Context::host(1);
  constexpr int parts = 3;
  const std::int64_t rows = elements.rows();
  std::vector<std::pair<std::int64_t, std::int64_t>> blocks{{0, rows}};
  if (rows > 2 * parts * alignment) {
    blocks.clear();
    for (int b = 0; b < parts; ++b) {
      const std::int64_t begin = (2 * b + 1) * rows / (2 * parts) / alignment * alignment;
      blocks.emplace_back(begin, begin + alignment);
    }
  }
  const SparsityPattern apart = elements.pattern_of_rows(blocks);
  const auto row_of = [&](std::int64_t i) {
    std::int64_t before = 0;
    for (const auto& [begin, end] : blocks) {
      if (i < end) return apart.row(before + i - begin);
      before += end - begin;
    }
    return std::span<const std::int32_t>();
  };
  PatternSample sample;
  if (auto together = move_together(one, blocks, row_of))
    sample.pattern = std::move(*together);
  else
    sample.pattern = apart;
  sample.share = static_cast<double>(apart.rows) / static_cast<double>(std::max<std::int64_t>(rows, 1));
  return survey_sample(one, sample, sample.share > 0 ? 1 / sample.share : 1, uneven_rows(sample.pattern),
                       elements.context()->space(), false, sizeof(T));
}
template std::vector<SwitchTarget> survey_formats<float>(const ElementOperator<float>&);
template std::vector<SwitchTarget> survey_formats<double>(const ElementOperator<double>&);

}  // namespace protean
