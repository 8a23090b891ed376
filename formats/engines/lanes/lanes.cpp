// Lane-mapped ELLPACK on the host: the conversion and the product.
#include "formats/simd.hpp"
// (Highway compiles this file once for each instruction set.)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/engines/lanes/lanes.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <numeric>

#include "core/product_parts.hpp"
#include "formats/engines/lanes/lanes-inl.hpp"
#include "formats/engines/lanes/lanes.hpp"

HWY_BEFORE_NAMESPACE();
namespace protean::formats::HWY_NAMESPACE {
namespace {

void lanes_f64(const LaneProduct<double>& job, int unroll, std::int64_t begin, std::int64_t end) {
  lanes<1, 1>(job, unroll, begin, end);
}
void lanes_f32(const LaneProduct<float>& job, int unroll, std::int64_t begin, std::int64_t end) {
  lanes<1, 1>(job, unroll, begin, end);
}

}  // namespace
}  // namespace protean::formats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace protean::formats {

HWY_EXPORT(lanes_f64);
HWY_EXPORT(lanes_f32);

void lane_product(const LaneProduct<double>& product, int unroll, std::int64_t begin, std::int64_t end) {
  if (product.a.R * product.a.C > 1) return lane_block_product(product, unroll, begin, end);
  HWY_DYNAMIC_DISPATCH(lanes_f64)(product, unroll, begin, end);
}
void lane_product(const LaneProduct<float>& product, int unroll, std::int64_t begin, std::int64_t end) {
  if (product.a.R * product.a.C > 1) return lane_block_product(product, unroll, begin, end);
  HWY_DYNAMIC_DISPATCH(lanes_f32)(product, unroll, begin, end);
}

namespace {

// The units of one section.
struct Section {
  std::vector<std::int64_t> widths;
  std::vector<std::int32_t> lane_row;
};

Section map_section(const SparsityPattern& pattern, const LaneRule& rule, std::int64_t begin,
                    std::int64_t end) {
  Section section;
  const auto length = [&](std::int64_t r) { return pattern.row_length(r); };
  const auto give = [&](std::int64_t count, std::int64_t row) {
    section.lane_row.insert(section.lane_row.end(), static_cast<std::size_t>(count),
                            static_cast<std::int32_t>(row));
  };
  if (rule.mapping == LaneMapping::greedy) {
    map_greedily(
        rule, begin, end, length,
        [&](std::int64_t, std::int64_t, std::int64_t count, std::int64_t row) { give(count, row); },
        [&](std::int64_t, std::int64_t width) { section.widths.push_back(width); });
    return section;
  }
  if (rule.mapping == LaneMapping::whole) {
    std::vector<std::int64_t> first;
    cut_whole(rule, begin, end, length, [&](std::int64_t, std::int64_t row) { first.push_back(row); });
    for (std::size_t u = 0; u < first.size(); ++u)
      section.widths.push_back(
          share_lanes(rule, first[u], u + 1 < first.size() ? first[u + 1] : end, length,
                      [&](std::int64_t, std::int64_t count, std::int64_t row) { give(count, row); }));
    return section;
  }
  const std::int64_t L = rule.L;
  for (std::int64_t r = begin; r < end; ++r) {
    const std::int64_t count = lanes_of_row(rule, length(r)), at = std::ssize(section.lane_row);
    give(count, r);
    section.widths.resize(static_cast<std::size_t>(divide_up(at + count, L)));
    for (std::int64_t u = at / L; u <= (at + count - 1) / L; ++u) {
      std::int64_t& width = section.widths[static_cast<std::size_t>(u)];
      width = std::max(width, divide_up(length(r), count));
    }
  }
  const std::int64_t used = std::ssize(section.lane_row);
  give(divide_up(used, L) * L - used, -end);
  return section;
}

template <class N>
Buffer<N> buffer_of(const ContextPtr& context, const std::vector<N>& from) {
  Buffer<N> to(context, static_cast<std::int64_t>(from.size()));
  std::copy(from.begin(), from.end(), to.begin());
  return to;
}

template <class T>
MappedLanes<T> view_of(const LanePlanOnHost& plan, std::int64_t rows) {
  MappedLanes<T> view{};
  view.unit_ptr = plan.unit_ptr.data(), view.lane_row = plan.lane_row.data();
  view.rows = rows, view.units = plan.sizes.units, view.L = plan.rule.L;
  view.R = plan.rule.R, view.C = plan.rule.C;
  return view;
}

// Calls f(place, k, last) for the slots of all rows, in parallel, and used(lane, entries).
template <class Use, class F>
void lay_out_rows(const Context& context, const MappedLanes<double>& view, const SparsityPattern& pattern,
                  Use used, F f) {
  parallel(useful_parts(context, pattern.nonzeros + pattern.rows), [&](int part, int parts) {
    const Range range = even_range(pattern.rows, part, parts);
    for (std::int64_t r = range.begin; r < range.end; ++r)
      lay_out_row(view, r, pattern.row_ptr, used, [&](std::int64_t place, std::int64_t k, std::int64_t last) {
        f(place, k, last < pattern.row_ptr[r] ? 0 : pattern.col[last]);
      });
  });
}

// The pattern of blocks.
void find_blocks(const Context& context, const SparsityPattern& pattern, LanePlanOnHost& plan) {
  const int R = plan.rule.R;
  const std::int64_t rows = divide_up(pattern.rows, R);
  plan.block_ptr.assign(static_cast<std::size_t>(rows + 1), 0);
  const auto for_rows = [&](auto body) {
    parallel(useful_parts(context, pattern.nonzeros + pattern.rows), [&](int part, int parts) {
      const Range range = even_range(rows, part, parts);
      for (std::int64_t p = range.begin; p < range.end; ++p) body(p);
    });
  };
  for_rows([&](std::int64_t p) {
    std::int64_t& count = plan.block_ptr[static_cast<std::size_t>(p + 1)];
    for_blocks(pattern.row_ptr, pattern.col, pattern.rows, R, p, [&](std::int32_t) { ++count; });
  });
  std::partial_sum(plan.block_ptr.begin(), plan.block_ptr.end(), plan.block_ptr.begin());
  plan.key.resize(static_cast<std::size_t>(plan.block_ptr.back()));
  for_rows([&](std::int64_t p) {
    std::int32_t* to = plan.key.data() + plan.block_ptr[static_cast<std::size_t>(p)];
    for_blocks(pattern.row_ptr, pattern.col, pattern.rows, R, p, [&](std::int32_t key) { *to++ = key; });
  });
}

// The columns of all slots, and which units need no more than 16 bits for a difference.
void code_columns(const Context& context, const SparsityPattern& pattern, LanePlanOnHost& plan) {
  plan.col.resize(static_cast<std::size_t>(plan.sizes.slots));
  plan.code_ptr.resize(static_cast<std::size_t>(plan.sizes.units));
  lay_out_rows(
      context, view_of<double>(plan, pattern.rows), pattern, [](std::int64_t, std::int64_t) {},
      [&](std::int64_t place, std::int64_t, std::int32_t col) {
        plan.col[static_cast<std::size_t>(place)] = col;
      });
  const std::int64_t L = plan.rule.L;
  parallel(useful_parts(context, plan.sizes.slots), [&](int part, int parts) {
    const Range range = even_range(plan.sizes.units, part, parts);
    for (std::int64_t u = range.begin; u < range.end; ++u) {
      bool narrow = true;
      for (std::int64_t place = plan.unit_ptr[u] + L; place < plan.unit_ptr[u + 1]; ++place)
        narrow = narrow && plan.col[place] - plan.col[place - L] < 65536;
      plan.code_ptr[u] = narrow;
    }
  });
  LaneSizes& sizes = plan.sizes;
  for (std::int64_t u = 0; u < sizes.units; ++u) {
    const std::int64_t slots = plan.unit_ptr[u + 1] - plan.unit_ptr[u];
    if (plan.code_ptr[u]) {
      plan.code_ptr[u] = sizes.delta_slots;
      sizes.delta_slots += slots > 0 ? slots - L : 0, ++sizes.coded_units;
    } else {
      plan.code_ptr[u] = -1 - sizes.raw_slots;
      sizes.raw_slots += slots;
    }
  }
}

}  // namespace

SparsityPattern LanePlanOnHost::mapped(const SparsityPattern& pattern) const {
  if (rule.block() == 1) return pattern;
  SparsityPattern blocks;
  blocks.rows = std::ssize(block_ptr) - 1, blocks.cols = pattern.cols, blocks.nonzeros = std::ssize(key);
  blocks.row_ptr.p64 = block_ptr.data(), blocks.col = key.data();
  return blocks;
}

std::int64_t count_blocks(const Context& context, const SparsityPattern& pattern, int R) {
  const int most = useful_parts(context, pattern.nonzeros + pattern.rows);
  PartialSums<std::int64_t> counts(most);
  parallel(most, [&](int part, int parts) {
    const Range range = even_range(divide_up(pattern.rows, R), part, parts);
    std::int64_t count = 0;
    for (std::int64_t p = range.begin; p < range.end; ++p)
      for_blocks(pattern.row_ptr, pattern.col, pattern.rows, R, p, [&](std::int32_t) { ++count; });
    counts[part] = count;
  });
  return counts.total();
}

LanePlanOnHost plan_lanes_on_host(const Context& context, const SparsityPattern& matrix,
                                  const LaneRule& asked) {
  LanePlanOnHost plan;
  plan.rule = asked;
  if (asked.block() > 1) find_blocks(context, matrix, plan);
  const SparsityPattern pattern = plan.mapped(matrix);
  if (asked.block() > 1) plan.rule.desired = mean_and_a_tenth(pattern);
  const LaneRule rule = plan.rule;
  const std::int64_t count = section_count(pattern.rows);
  std::vector<Section> sections(static_cast<std::size_t>(count));
  parallel(useful_parts(context, pattern.rows), [&](int part, int parts) {
    const Range range = even_range(count, part, parts);
    for (std::int64_t s = range.begin; s < range.end; ++s)
      sections[static_cast<std::size_t>(s)] =
          map_section(pattern, rule, s * lane_section, std::min(pattern.rows, (s + 1) * lane_section));
  });
  plan.unit_ptr = {0};
  for (Section& section : sections) {
    for (const std::int64_t width : section.widths)
      plan.unit_ptr.push_back(plan.unit_ptr.back() + width * rule.L);
    plan.lane_row.insert(plan.lane_row.end(), section.lane_row.begin(), section.lane_row.end());
    section = Section();
  }
  plan.sizes.units = std::ssize(plan.unit_ptr) - 1, plan.sizes.slots = plan.unit_ptr.back();
  if (rule.coded) code_columns(context, pattern, plan);
  return plan;
}

Admission admit_lanes(const LaneRule& rule, const LaneSizes& sizes, const SparsityPattern& pattern,
                      const FormatParams& params, std::size_t value_bytes) {
  const std::size_t bytes = lane_bytes(rule, sizes, value_bytes);
  const std::int64_t stored = sizes.slots * rule.block();
  if (auto reason = too_much_fill(stored, pattern.nonzeros, params.integer("max_fill"), bytes);
      !reason.empty())
    return Admission::refuse(std::move(reason), bytes, stored);
  return Admission::accept(bytes, stored);
}

template <class T>
LaneMatrix<T>::LaneMatrix(const BuildRequest<T>& request) : RowViewMatrix<T, LaneMatrix<T>>(request) {
  const LanePlanOnHost& plan = plan_of<LanePlanOnHost>(request.admission);
  const SparsityPattern& matrix = request.csr.pattern;
  const SparsityPattern pattern = plan.mapped(matrix);
  const ContextPtr& context = request.context;
  const std::int64_t L = plan.rule.L;
  rule_ = plan.rule;
  unit_ptr_ = buffer_of(context, plan.unit_ptr), lane_row_ = buffer_of(context, plan.lane_row);
  values_ = Buffer<T>(context, plan.sizes.slots * rule_.block());
  if (!rule_.coded) col_ = Buffer<std::int32_t>(context, plan.sizes.slots);
  const auto used = [&](std::int64_t lane, std::int64_t entries) {
    if (entries == 0) lane_row_[lane] = empty_lane(plan.lane_row[static_cast<std::size_t>(lane)]);
  };
  if (rule_.block() == 1) {
    lay_out_rows(*context, view_of<double>(plan, pattern.rows), pattern, used,
                 [&](std::int64_t place, std::int64_t k, std::int32_t col) {
                   values_[place] = k < 0 ? T(0) : request.csr.values[k];
                   if (!rule_.coded) col_[place] = col;
                 });
  } else {
    const MappedLanes<T> view = view_of<T>(plan, matrix.rows);
    parallel(useful_parts(*context, pattern.nonzeros + pattern.rows), [&](int part, int parts) {
      const Range range = even_range(pattern.rows, part, parts);
      for (std::int64_t p = range.begin; p < range.end; ++p) {
        BlockValues<T, RowPointers> from(request.csr.values, matrix.row_ptr, matrix.rows, rule_.R, p);
        lay_out_row(view, p, pattern.row_ptr, used,
                    [&](std::int64_t place, std::int64_t k, std::int64_t last) {
                      from.write(view, place, k < 0 ? 0 : pattern.col[k] & 3, values_.data());
                      if (!rule_.coded) col_[place] = last < pattern.row_ptr[p] ? 0 : pattern.col[last];
                    });
      }
    });
  }
  if (rule_.coded) {
    code_ptr_ = buffer_of(context, plan.code_ptr);
    first_ = Buffer<std::int32_t>(context, plan.sizes.units * L);
    delta_ = Buffer<std::uint16_t>(context, plan.sizes.delta_slots);
    col_ = Buffer<std::int32_t>(context, plan.sizes.raw_slots);
    for (std::int64_t u = 0; u < plan.sizes.units; ++u) {
      const std::int32_t *const begin = plan.col.data() + plan.unit_ptr[u], *const end = plan.col.data() +
                                                                                         plan.unit_ptr[u + 1];
      for (std::int64_t l = 0; l < L; ++l) first_[u * L + l] = begin == end ? 0 : begin[l];
      if (code_ptr_[u] < 0) {
        std::copy(begin, end, col_.data() + (-1 - code_ptr_[u]));
        continue;
      }
      std::uint16_t* to = delta_.data() + code_ptr_[u];
      for (const std::int32_t* from = begin == end ? end : begin + L; from < end; ++from)
        *to++ = static_cast<std::uint16_t>(*from - *(from - L));
    }
  }
  // Parts with nearly the same number of slots and lanes, which begin where a row does.
  const MappedLanes<T> view = row_view();
  const std::int64_t total = plan.sizes.slots + plan.sizes.units * L;
  const int parts = product_parts(*context, plan.sizes.units * L, plan.sizes.slots);
  for (std::int64_t u = 0; u < view.units; ++u)
    while (static_cast<int>(borders_.size()) < parts && (u == 0 || !view.continues(u)) &&
           view.unit_ptr[u] + u * L >= even_range(total, static_cast<int>(borders_.size()), parts).begin)
      borders_.push_back(u);
  borders_.push_back(view.units);
  if (borders_.size() == 1) borders_.insert(borders_.begin(), 0);
}

template <class T>
MappedLanes<T> LaneMatrix<T>::row_view() const noexcept {
  return {values_.data(),
          col_.data(),
          unit_ptr_.data(),
          lane_row_.data(),
          rule_.coded ? first_.data() : nullptr,
          rule_.coded ? code_ptr_.data() : nullptr,
          rule_.coded ? delta_.data() : nullptr,
          this->rows(),
          unit_ptr_.size() - 1,
          rule_.L,
          rule_.R,
          rule_.C};
}

template <class T>
void LaneMatrix<T>::multiply(int unroll, T alpha, const T* x, T beta, T* y) const {
  const LaneProduct<T> job{row_view(), alpha, beta, x, y};
  parallel(static_cast<int>(borders_.size()) - 1,
           [&](int part, int) { lane_product(job, unroll, borders_[part], borders_[part + 1]); });
}

template <class T>
std::vector<LayoutArray> LaneMatrix<T>::layout() const {
  std::vector<LayoutArray> arrays{layout_array("unit_ptr", unit_ptr_), layout_array("lane_row", lane_row_),
                                  layout_array("col", col_), layout_array("values", values_)};
  if (!rule_.coded) return arrays;
  arrays.push_back(layout_array("first", first_));
  arrays.push_back(layout_array("code_ptr", code_ptr_));
  arrays.push_back(layout_array("delta", delta_));
  return arrays;
}

template class LaneMatrix<double>;
template class LaneMatrix<float>;

}  // namespace protean::formats
#endif
