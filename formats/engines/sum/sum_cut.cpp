// How a pattern is cut into the parts of a sum: its counts on the host, the rules, and admission.
#include <algorithm>
#include <bit>
#include <limits>
#include <span>

#include "formats/engines/diagonals/diagonals.hpp"
#include "formats/engines/rows/rows.hpp"
#include "formats/engines/runs/coo.hpp"
#include "formats/engines/sum/sum.hpp"

namespace protean::formats {
namespace {

class HostCounter final : public SumCounter {
 public:
  using SumCounter::SumCounter;

  std::vector<std::int64_t> lengths(std::int64_t most) const override {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(most) + 2);
    pattern.row_ptr.visit([&](auto* row_ptr) {
      for (std::int64_t r = 0; r < pattern.rows; ++r)
        ++rows[static_cast<std::size_t>(std::min<std::int64_t>(row_ptr[r + 1] - row_ptr[r], most + 1))];
    });
    return rows;
  }
  std::vector<LengthClass> classes() const override {
    std::vector<LengthClass> found(length_class_count);
    for (std::int64_t r = 0; r < pattern.rows; ++r) {
      const std::int64_t length = pattern.row_length(r);
      LengthClass& its = found[static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(length)))];
      ++its.rows, its.entries += length, its.longest = std::max(its.longest, length);
    }
    return found;
  }
  std::vector<DiagonalCount> dense_diagonals(const DenseDiagonals& rule) const override {
    const auto size = static_cast<std::size_t>(pattern.rows + pattern.cols) + 1;
    if (pattern.nonzeros < static_cast<std::int64_t>(size / 16)) return few_diagonals(rule);
    std::vector<std::vector<std::int64_t>> counts(static_cast<std::size_t>(parts()));
    for_rows([&](std::size_t part, std::int64_t begin, std::int64_t end) {
      counts[part].resize(size);
      std::int64_t* const mine = counts[part].data() + pattern.rows;
      // Rows with the diagonals of the row before are only counted: a stencil has few others.
      std::int64_t alike = 0;
      for (std::int64_t r = begin; r < end; ++r) {
        ++alike;
        if (r + 1 < end && moved_by_one(pattern.row(r), pattern.row(r + 1))) continue;
        for (const std::int32_t c : pattern.row(r)) mine[c - r] += alike;
        alike = 0;
      }
    });
    std::vector<DiagonalCount> found;
    for (std::int64_t offset = -pattern.rows; offset < pattern.cols; ++offset) {
      std::int64_t count = 0;
      for (const auto& mine : counts)
        if (!mine.empty()) count += mine[static_cast<std::size_t>(offset + pattern.rows)];
      if (is_dense(rule, pattern.rows, pattern.cols, offset, count))
        found.push_back({static_cast<std::int32_t>(offset), count});
    }
    return found;
  }
  // The same for few entries, such as the entries of a sample, by sorting them: a count for each diagonal would take
  // far longer to clear.
  std::vector<DiagonalCount> few_diagonals(const DenseDiagonals& rule) const {
    std::vector<std::int64_t> offsets;
    offsets.reserve(static_cast<std::size_t>(pattern.nonzeros));
    for (std::int64_t r = 0; r < pattern.rows; ++r)
      for (const std::int32_t c : pattern.row(r)) offsets.push_back(c - r);
    std::sort(offsets.begin(), offsets.end());
    std::vector<DiagonalCount> found;
    for (auto at = offsets.begin(); at != offsets.end();) {
      const auto end = std::find_if(at, offsets.end(), [&](std::int64_t other) { return other != *at; });
      if (is_dense(rule, pattern.rows, pattern.cols, *at, end - at))
        found.push_back({static_cast<std::int32_t>(*at), end - at});
      at = end;
    }
    return found;
  }
  LengthClass rest(const std::vector<std::int32_t>& offsets) const override {
    std::vector<LengthClass> counts(static_cast<std::size_t>(parts()));
    for_rows([&](std::size_t part, std::int64_t begin, std::int64_t end) {
      LengthClass left;
      for (std::int64_t r = begin; r < end; ++r) {
        std::int64_t length = 0;
        for (const std::int32_t c : pattern.row(r))
          length += !std::binary_search(offsets.begin(), offsets.end(), c - r);
        left.rows += length > 0, left.entries += length, left.longest = std::max(left.longest, length);
      }
      counts[part] = left;
    });
    LengthClass all;
    for (const LengthClass& one : counts)
      all.rows += one.rows, all.entries += one.entries, all.longest = std::max(all.longest, one.longest);
    return all;
  }

 private:
  int parts() const { return useful_parts(context, pattern.rows + pattern.nonzeros); }
  // Calls body(part, first row, end) for parts of the rows, in parallel.
  template <class Body>
  void for_rows(Body body) const {
    const std::vector<std::int64_t> borders = balanced_row_borders(pattern, parts());
    parallel(parts(), [&](int part, int) {
      const auto i = static_cast<std::size_t>(part);
      body(i, borders[i], borders[i + 1]);
    });
  }
  static bool moved_by_one(std::span<const std::int32_t> row, std::span<const std::int32_t> next) {
    if (row.size() != next.size()) return false;
    std::int32_t other = 0;
    for (std::size_t k = 0; k < row.size(); ++k) other |= (next[k] - row[k]) ^ 1;
    return other == 0;
  }
};

}  // namespace

std::unique_ptr<SumCounter> host_sum_counter(const Context& context, const SparsityPattern& pattern,
                                             std::size_t value_bytes) {
  return std::make_unique<HostCounter>(context, pattern, value_bytes);
}

std::int64_t entries_within(const std::vector<std::int64_t>& lengths, std::int64_t rows, std::int64_t width) {
  std::int64_t longer = rows - lengths[0], entries = 0;
  for (std::int64_t k = 1; k <= width && longer > 0; ++k)
    entries += longer, longer -= lengths[static_cast<std::size_t>(k)];
  return entries;
}

SumCut cut_by_width(const SumCounter& counter, std::int64_t width, std::int64_t within,
                    std::int64_t rows_without_entries, PartKind tail) {
  const std::int64_t rows = counter.pattern.rows;
  SumCut cut{.by = SumCut::By::width, .width = width};
  cut.parts.push_back({.kind = PartKind::ell,
                       .rows = rows,
                       .entries = within,
                       .width = width,
                       .empty = width > 0 ? rows_without_entries : 0});
  cut.parts.push_back({.kind = tail, .rows = rows, .entries = counter.pattern.nonzeros - within});
  return cut;
}

SumCut cut_by_length(const SumCounter& counter, const std::vector<std::int64_t>& lengths,
                     std::int64_t longest, int lanes) {
  PartSize ell{.kind = PartKind::ell, .longest = longest};
  for (std::int64_t length = 0; length <= longest; ++length)
    if (const std::int64_t rows = lengths[static_cast<std::size_t>(length)]; rows > 0)
      ell.rows += rows, ell.entries += rows * length, ell.width = length;
  ell.empty = ell.width > 0 ? lengths[0] : 0;
  PartSize csr{.kind = PartKind::csr,
               .rows = counter.pattern.rows - ell.rows,
               .entries = counter.pattern.nonzeros - ell.entries,
               .longest = std::numeric_limits<std::int64_t>::max(),
               .lanes = lanes};
  return {.by = SumCut::By::length, .parts = {ell, csr}};
}

SumCut cut_by_diagonal(const SumCounter& counter, const DenseDiagonals& rule, PartKind rest) {
  const std::int64_t rows = counter.pattern.rows;
  SumCut cut{.by = SumCut::By::diagonal};
  PartSize dia{.kind = PartKind::dia, .rows = rows};
  for (const DiagonalCount& found : counter.dense_diagonals(rule))
    cut.offsets.push_back(found.offset), dia.entries += found.entries, ++dia.width;
  PartSize other{.kind = rest, .rows = rows, .entries = counter.pattern.nonzeros - dia.entries};
  if (rest == PartKind::ell) {
    const LengthClass left = counter.rest(cut.offsets);
    other.width = left.longest, other.empty = left.longest > 0 ? rows - left.rows : 0;
  }
  cut.parts = {dia, other};
  return cut;
}

DenseDiagonals dense_diagonals(const SumCounter& counter, std::int64_t percent, std::int64_t low,
                               std::int64_t high, std::int64_t shortest) {
  const auto v = static_cast<std::int64_t>(counter.value_bytes);
  return percent == 0 ? DenseDiagonals{low, high, shortest, v, v + 4}
                      : DenseDiagonals{low, high, shortest, percent, 100};
}

void leave_out_empty_parts(SumCut& cut) {
  const bool by_length = cut.by == SumCut::By::length;
  for (std::size_t i = 0; i < cut.parts.size() && cut.parts.size() > 1;) {
    const PartSize& part = cut.parts[i];
    const bool nothing = by_length                                                  ? part.rows == 0
                         : part.kind == PartKind::ell || part.kind == PartKind::dia ? part.width == 0
                                                                                    : part.entries == 0;
    if (nothing)
      cut.left_out.push_back(part.kind), cut.parts.erase(cut.parts.begin() + static_cast<std::ptrdiff_t>(i));
    else
      ++i;
  }
}

Admission admission_of(const SumCut& cut, const SparsityPattern& pattern, const FormatParams& params,
                       std::size_t value_bytes, bool on_device) {
  std::size_t bytes =
      cut.by == SumCut::By::length && cut.parts.size() > 1 ? static_cast<std::size_t>(pattern.rows) * 4 : 0;
  std::int64_t stored = 0;
  for (const PartSize& part : cut.parts) {
    if (part.width > 0 && part.rows > std::numeric_limits<std::int64_t>::max() / 32 / part.width)
      return Admission::refuse(fmt::format(
          "{} slots for each of {} rows are more than any memory; take fewer", part.width, part.rows));
    const auto rows = static_cast<std::size_t>(part.rows), width = static_cast<std::size_t>(part.width),
               entries = static_cast<std::size_t>(part.entries);
    switch (part.kind) {
      case PartKind::ell:
        bytes +=
            rows * width * (value_bytes + 4) + (on_device ? 0 : static_cast<std::size_t>(part.empty) * 4);
        break;
      case PartKind::csr:
        bytes += entries * (value_bytes + 4) + (rows + 1) * pattern.row_ptr.width();
        break;
      case PartKind::coo:
        bytes += entries * (value_bytes + 8);
        break;
      case PartKind::dia:
        bytes += width * (rows * value_bytes + 4 + (rows + 7) / 8);
        break;
    }
    stored +=
        part.kind == PartKind::ell || part.kind == PartKind::dia ? part.rows * part.width : part.entries;
  }
  if (params.has("max_fill"))
    if (auto reason = too_much_fill(stored, pattern.nonzeros, params.integer("max_fill"), bytes);
        !reason.empty())
      return Admission::refuse(std::move(reason), bytes, stored);
  return Admission::accept(bytes, stored);
}

Admission admit_sum_on_host(SumRule rule, const Context& context, const SparsityPattern& pattern,
                            const FormatParams& params, std::size_t value_bytes) {
  auto cut = std::make_shared<SumCut>(rule(HostCounter(context, pattern, value_bytes), params));
  leave_out_empty_parts(*cut);
  Admission admission = admission_of(*cut, pattern, params, value_bytes, false);
  if (admission.ok) keep_plan(admission, std::move(cut));
  return admission;
}

std::vector<SumPart> place_parts(const SumCut& cut) {
  std::vector<SumPart> parts;
  SumPart next{};
  for (const PartSize& size : cut.parts) {
    SumPart part = next;
    part.kind = size.kind, part.rows = size.rows, part.entries = size.entries, part.width = size.width;
    part.stored =
        size.kind == PartKind::ell || size.kind == PartKind::dia ? size.rows * size.width : size.entries;
    parts.push_back(part);
    next.values += part.stored;
    if (size.kind != PartKind::dia) next.col += part.stored;
    if (size.kind == PartKind::csr) next.ptr += size.rows + 1;
    if (cut.by == SumCut::By::length) next.first += size.rows;
  }
  return parts;
}

}  // namespace protean::formats
