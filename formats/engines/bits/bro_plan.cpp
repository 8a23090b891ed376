// Coded columns and rows on the host: the widths of all fields, exact bytes, admission.
#include "formats/engines/bits/bro_plan.hpp"

#include <memory>
#include <numeric>
#include <utility>

#include "formats/engines/rows/row_order.hpp"
#include "formats/engines/rows/rows.hpp"

namespace protean::formats {

Admission admission_of(const BroSizes& sizes, const SparsityPattern& pattern, std::size_t value_bytes,
                       bool carries) {
  const auto bytes_of = [](std::int64_t count, std::size_t each) {
    return static_cast<std::size_t>(count) * each;
  };
  const std::int64_t stored = sizes.slots + sizes.tail_entries;
  std::size_t bytes = bytes_of(stored, value_bytes) + bytes_of(sizes.symbols + sizes.tail_symbols, 4);
  if (sizes.shape.slices) bytes += bytes_of(sizes.columns, 1) + bytes_of(sizes.slices() + 1, 16);
  if (sizes.shape.sorted) bytes += bytes_of(sizes.rows, 4);
  if (sizes.shape.tail == BroTail::rows)
    bytes += bytes_of(sizes.rows, 1) + bytes_of(sizes.rows + 1, 2 * pattern.row_ptr.width());
  if (sizes.shape.tail == BroTail::entries)
    bytes += bytes_of(sizes.tail_entries, 4) +
             bytes_of(sizes.intervals(), 5 + (carries ? 4 + value_bytes : 0)) +
             bytes_of(sizes.intervals() + 1, 8);
  if (sizes.shape.max_fill > 0)
    if (auto reason = too_much_fill(stored, pattern.nonzeros, sizes.shape.max_fill, bytes); !reason.empty())
      return Admission::refuse(std::move(reason), bytes, stored);
  return Admission::accept(bytes, stored);
}

namespace {

// Sums of lengths[i] before each i; one more for the whole.
std::vector<std::int64_t> pointers(std::vector<std::int64_t> lengths) {
  lengths.push_back(0);
  std::exclusive_scan(lengths.begin(), lengths.end(), lengths.begin(), std::int64_t{0});
  return lengths;
}

// Widths of the fields of all slices.
void measure_slices(const Context& context, const SparsityPattern& pattern, BroPlan& plan) {
  BroSizes& sizes = plan.sizes;
  const BroShape& shape = sizes.shape;
  const std::int64_t slices = sizes.slices();
  const std::int32_t* const perm = shape.sorted ? plan.perm.data() : nullptr;
  std::vector<std::int64_t> width(static_cast<std::size_t>(slices));
  const int parts = useful_parts(context, pattern.nonzeros + pattern.rows);
  parallel(parts, [&](int part, int) {
    const Range range = even_range(slices, part, parts);
    for (std::int64_t s = range.begin; s < range.end; ++s)
      for (std::int64_t p = s * shape.h; p < std::min(pattern.rows, (s + 1) * shape.h); ++p) {
        const RowOfSource its = row_of_source(pattern, shape, perm, p);
        std::int64_t& widest = width[static_cast<std::size_t>(s)];
        widest = std::max(widest, its.middle - its.begin);
      }
  });
  plan.col_ptr = pointers(std::move(width));
  sizes.columns = plan.col_ptr.back();
  if (slices > 0) {
    const auto last = static_cast<std::size_t>(slices) - 1;
    sizes.slots = shape.h * plan.col_ptr[last] +
                  (sizes.rows - (slices - 1) * shape.h) * (plan.col_ptr[last + 1] - plan.col_ptr[last]);
  }
}
void measure_fields(const Context& context, const SparsityPattern& pattern, BroPlan& plan) {
  BroSizes& sizes = plan.sizes;
  const BroShape& shape = sizes.shape;
  const std::int64_t slices = sizes.slices();
  const std::int32_t* const perm = shape.sorted ? plan.perm.data() : nullptr;
  plan.bit_alloc.resize(static_cast<std::size_t>(sizes.columns));
  std::vector<std::int64_t> symbols(static_cast<std::size_t>(slices));
  const int parts = useful_parts(context, pattern.nonzeros + pattern.rows);
  parallel(parts, [&](int part, int) {
    const Range range = even_range(slices, part, parts);
    std::vector<std::uint32_t> all;
    for (std::int64_t s = range.begin; s < range.end; ++s) {
      const auto i = static_cast<std::size_t>(s);
      const std::int64_t first = plan.col_ptr[i];
      all.assign(static_cast<std::size_t>(plan.col_ptr[i + 1] - first), 0);
      for (std::int64_t p = s * shape.h; p < std::min(pattern.rows, (s + 1) * shape.h); ++p) {
        const RowOfSource its = row_of_source(pattern, shape, perm, p);
        std::int32_t before = -1;
        for (std::int64_t k = its.begin; k < its.middle; ++k) {
          all[static_cast<std::size_t>(k - its.begin)] |= static_cast<std::uint32_t>(pattern.col[k] - before);
          before = pattern.col[k];
        }
      }
      std::int64_t bits = 0;
      for (std::size_t k = 0; k < all.size(); ++k) {
        const int width = bits_of(all[k]);
        plan.bit_alloc[static_cast<std::size_t>(first) + k] = static_cast<std::uint8_t>(width);
        bits += width;
      }
      symbols[i] = symbols_of(bits);
    }
  });
  plan.symbol_ptr = pointers(std::move(symbols));
  sizes.lane_symbols = plan.symbol_ptr.back();
  if (slices > 0) {
    const auto last = static_cast<std::size_t>(slices) - 1;
    sizes.symbols = shape.h * plan.symbol_ptr[last] + (sizes.rows - (slices - 1) * shape.h) *
                                                          (plan.symbol_ptr[last + 1] - plan.symbol_ptr[last]);
  }
}

void measure_rows(const Context& context, const SparsityPattern& pattern, BroPlan& plan) {
  BroSizes& sizes = plan.sizes;
  const std::int32_t* const perm = sizes.shape.sorted ? plan.perm.data() : nullptr;
  plan.width.resize(static_cast<std::size_t>(sizes.rows));
  const int parts = useful_parts(context, pattern.nonzeros + pattern.rows);
  PartialSums<std::int64_t> symbols(parts);
  parallel(parts, [&](int part, int) {
    const Range range = even_range(sizes.rows, part, parts);
    std::int64_t mine = 0;
    for (std::int64_t p = range.begin; p < range.end; ++p) {
      const RowOfSource its = row_of_source(pattern, sizes.shape, perm, p);
      std::uint32_t all = 0;
      for (std::int64_t k = its.middle + 1; k < its.end; ++k) all |= column_step(pattern.col, k);
      const int width = bits_of(all);
      plan.width[static_cast<std::size_t>(p)] = static_cast<std::uint8_t>(width);
      mine += row_symbols(its.end - its.middle, width);
    }
    symbols[part] = mine;
  });
  sizes.tail_symbols = symbols.total();
}

void measure_entries(const Context& context, const SparsityPattern& pattern, BroPlan& plan) {
  BroSizes& sizes = plan.sizes;
  const std::int64_t intervals = sizes.intervals();
  const int W = sizes.shape.W;
  const std::vector<std::int64_t> before = tail_pointers(pattern, sizes.shape, nullptr);
  plan.width.resize(static_cast<std::size_t>(intervals));
  plan.base.resize(static_cast<std::size_t>(intervals));
  std::vector<std::int64_t> symbols(static_cast<std::size_t>(intervals));
  const int parts = useful_parts(context, sizes.tail_entries);
  parallel(parts, [&](int part, int) {
    const Range range = even_range(intervals, part, parts);
    if (range.size() == 0) return;
    TailRows rows(pattern, sizes.shape, range.begin * sizes.interval(), before);
    std::vector<std::int32_t> last(static_cast<std::size_t>(W));
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const auto at = static_cast<std::size_t>(i);
      std::uint32_t all = 0;
      for_interval(sizes, i, rows, [&](std::int64_t k, std::int32_t row) {
        if (k == 0) plan.base[at] = row;
        std::int32_t& of_lane = last[static_cast<std::size_t>(k % W)];
        all |= static_cast<std::uint32_t>(row - (k < W ? plan.base[at] : of_lane));
        of_lane = row;
      });
      plan.width[at] = static_cast<std::uint8_t>(bits_of(all));
      symbols[at] = W * symbols_of(std::int64_t{sizes.shape.q} * plan.width[at]);
    }
  });
  plan.interval_symbol = pointers(std::move(symbols));
  sizes.tail_symbols = plan.interval_symbol.back();
}

}  // namespace

std::vector<std::int64_t> tail_pointers(const SparsityPattern& pattern, const BroShape& shape,
                                        const std::int32_t* perm) {
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(pattern.rows));
  for (std::int64_t p = 0; p < pattern.rows; ++p) {
    const RowOfSource its = row_of_source(pattern, shape, perm, p);
    lengths[static_cast<std::size_t>(p)] = its.end - its.middle;
  }
  return pointers(std::move(lengths));
}

Admission admit_bro_on_host(BroRule rule, const Context& context, const SparsityPattern& pattern,
                            const FormatParams& params, std::size_t value_bytes) {
  BroPlan plan;
  BroSizes& sizes = plan.sizes;
  BroShape& shape = sizes.shape;
  shape = rule(*host_sum_counter(context, pattern, value_bytes), params);
  sizes.rows = pattern.rows;
  if (shape.sorted) {
    plan.perm.resize(static_cast<std::size_t>(pattern.rows));
    std::vector<std::int64_t> scratch;
    sort_window(pattern, 0, pattern.rows, plan.perm.data(), scratch);
  }
  sizes.tail_entries = 0;
  for (std::int64_t r = 0; r < pattern.rows; ++r)
    sizes.tail_entries += std::max<std::int64_t>(0, pattern.row_length(r) - shape.K);
  if (shape.slices && sizes.tail_entries == 0) shape.tail = BroTail::none;
  if (shape.slices) {
    measure_slices(context, pattern, plan);
    // Refused before the fields of very many slots are measured.
    if (Admission early = admission_of(sizes, pattern, value_bytes, false); !early.ok) return early;
    measure_fields(context, pattern, plan);
  }
  if (shape.tail == BroTail::rows) measure_rows(context, pattern, plan);
  if (shape.tail == BroTail::entries) measure_entries(context, pattern, plan);
  Admission admission = admission_of(sizes, pattern, value_bytes, false);
  if (admission.ok) keep_plan(admission, std::make_shared<const BroPlan>(std::move(plan)));
  return admission;
}

}  // namespace protean::formats
