// The SIMD kernel of rows.hpp, and how rows are divided among threads.

#define PROTEAN_WITHOUT_AVX512  // it gains nothing: see core/simd.hpp
#include "formats/simd.hpp"
// (Highway compiles this file once for each instruction set.)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/engines/rows/rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <type_traits>

#include "core/product_parts.hpp"
#include "formats/engines/rows/row_dot-inl.hpp"
#include "formats/engines/rows/rows.hpp"
#include "formats/engines/view/ordered-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace protean::formats::HWY_NAMESPACE {
namespace {

// How the rows of a share are computed:
//   by_length  rows of up to most_unrolled entries in code for their length: faster if most rows are as long as the one
//              before, so that the jump to this code is predicted
//   masked     eight entries at a time with a mask: if the lengths of many rows vary, every other branch on a length is
//              mispredicted, which takes longer than the arithmetic. For few rows, processors remember the lengths from
//              product to product
//   plain_sums rows of less than 16 entries in one simple loop, which has fewer branches than `simd`
//   simd       the arrays come from memory, which takes longer than the arithmetic
enum class Way { by_length, masked, plain_sums, simd };

constexpr int masked_chunk = 8;

template <bool with_dot, bool plain, bool scattered = false, class T, class P, class V>
HWY_INLINE void finish_row(const RowsWork<T, P, V>& w, std::int64_t r, T sum, ShareCarry<T>& carry) {
  const std::int64_t to = scattered ? w.target[r] : r;
  if constexpr (plain)
    w.y[to] = sum;
  else
    w.y[to] = w.beta == T(0) ? w.alpha * sum : w.alpha * sum + w.beta * w.y[to];
  if constexpr (with_dot) carry.dot += w.x[to] * sum;
}

// The rows from r on as long as they have `length` entries. Returns the next row. The code for one length has no other
// branches than the one that asks for the next length.
template <int length, bool with_dot, bool plain, class T, class P, class V>
HWY_INLINE std::int64_t rows_of_length(const RowsWork<T, P, V>& w, std::int64_t r, std::int64_t row_end, P& k,
                                       ShareCarry<T>& carry) {
  do {
    if (w.prefetch) prefetch_ahead(k, w.values, w.col);
    finish_row<with_dot, plain>(w, r, short_dot<length>(w.values + k, w.col + k, w.x), carry);
    k += static_cast<P>(length), ++r;
  } while (r < row_end && w.row_ptr[r + 1] - k == length);
  return r;
}

template <class T, class P, class V, bool with_dot, bool plain, Way way, bool scattered = false>
ShareCarry<T> product_of_share(const RowsWork<T, P, V>& w, const RowShare& share) {
  constexpr int shortest = way == Way::plain_sums ? 16 : 4;
  P k = static_cast<P>(share.k_begin), prefetched = k;
  ShareCarry<T> carry;
  for (std::int64_t r = share.row_begin; r < share.row_end;) {
    const P end = w.row_ptr[r + 1];
    if constexpr (way == Way::by_length) {
      switch (end - k) {
#define PROTEAN_ROWS_OF_LENGTH(length)                                          \
  case length:                                                                  \
    r = rows_of_length<length, with_dot, plain>(w, r, share.row_end, k, carry); \
    continue;
        PROTEAN_ROWS_OF_LENGTH(1)
        PROTEAN_ROWS_OF_LENGTH(2)
        PROTEAN_ROWS_OF_LENGTH(3)
        PROTEAN_ROWS_OF_LENGTH(4)
        PROTEAN_ROWS_OF_LENGTH(5)
        PROTEAN_ROWS_OF_LENGTH(6)
        PROTEAN_ROWS_OF_LENGTH(7)
        PROTEAN_ROWS_OF_LENGTH(8)
        PROTEAN_ROWS_OF_LENGTH(9)
        PROTEAN_ROWS_OF_LENGTH(10)
#undef PROTEAN_ROWS_OF_LENGTH
        default:;
      }
      prefetched = k;
    }
    if (way != Way::plain_sums && w.prefetch) prefetch_entries(end, prefetched, w.values, w.col);
    const bool masked = way == Way::masked && end <= w.uneven_entries - masked_chunk;
    finish_row<with_dot, plain, scattered>(w, r++,
                                           masked ? masked_row_dot<masked_chunk>(w.values, w.col, w.x, k, end)
                                                  : row_dot<shortest>(w.values, w.col, w.x, k, end),
                                           carry);
    k = end;
  }
  // The beginning of a row that ends in another share.
  if (k < share.k_end) {
    carry.row = row_dot<shortest>(w.values, w.col, w.x, k, static_cast<P>(share.k_end));
    if constexpr (with_dot) carry.dot += w.x[scattered ? w.target[share.row_end] : share.row_end] * carry.row;
  }
  return carry;
}

// The same for rows of a list. Entries do not follow one another, so the hardware's prefetcher must do.
template <class T, class P, class V>
ShareCarry<T> product_of_list(const RowsWork<T, P, V>& w, const RowShare& share, bool with_dot) {
  ShareCarry<T> carry;
  P k = static_cast<P>(share.k_begin);
  for (std::int64_t p = share.row_begin; p < share.row_end; ++p) {
    const std::int64_t r = w.list[p];
    if (p > share.row_begin) k = w.row_ptr[r];
    const T sum = row_dot(w.values, w.col, w.x, k, w.row_ptr[r + 1]);
    finish_row<false, false>(w, r, sum, carry);
    if (with_dot) carry.dot += w.x[r] * sum;
  }
  if (share.k_end != RowShare::whole_rows) {
    const std::int64_t r = w.list[share.row_end];
    if (share.row_end > share.row_begin) k = w.row_ptr[r];
    carry.row = row_dot(w.values, w.col, w.x, k, static_cast<P>(share.k_end));
    if (with_dot) carry.dot += w.x[r] * carry.row;
  }
  return carry;
}

// A share of whole rows, in deterministic mode.
template <class T, class P, class V>
void ordered_share(const RowsWork<T, P, V>& w, const RowShare& share) {
  P k = static_cast<P>(share.k_begin), prefetched = k;
  for (std::int64_t p = share.row_begin; p < share.row_end; ++p) {
    const std::int64_t r = w.list ? w.list[p] : p;
    if (w.list) k = w.row_ptr[r];
    const P end = w.row_ptr[r + 1];
    if (!w.list) prefetch_entries(end, prefetched, w.values, w.col);
    store_ordered(w.alpha, ordered_dot(w.values, w.col, w.x, k, end), w.beta, w.y[r]);
    k = end;
  }
}

template <class T, class P, class V>
ShareCarry<T> product(const RowsWork<T, P, V>& w, const RowShare& share, bool with_dot) {
  if (w.ordered) {
    ordered_share(w, share);
    return {};
  }
  if (w.list) return product_of_list(w, share, with_dot);
  if (w.target)
    return with_dot ? product_of_share<T, P, V, true, false, Way::simd, true>(w, share)
                    : product_of_share<T, P, V, false, false, Way::simd, true>(w, share);
  const auto run = [&](auto constant) {
    constexpr Way way = decltype(constant)::value;
    if (with_dot && w.beta == T(0)) return product_of_share<T, P, V, true, true, way>(w, share);
    if (with_dot) return product_of_share<T, P, V, true, false, way>(w, share);
    if (w.alpha == T(1) && w.beta == T(0)) return product_of_share<T, P, V, false, true, way>(w, share);
    return product_of_share<T, P, V, false, false, way>(w, share);
  };
  if constexpr (sizeof(P) == 8) {  // a matrix far larger than any cache
    return run(std::integral_constant<Way, Way::simd>());
  } else {
    if (w.alike) return run(std::integral_constant<Way, Way::by_length>());
    if (has_masks && w.uneven_entries > 0) return run(std::integral_constant<Way, Way::masked>());
    return w.prefetch ? run(std::integral_constant<Way, Way::simd>())
                      : run(std::integral_constant<Way, Way::plain_sums>());
  }
}

#define PROTEAN_ROWS_KERNEL(name, T, P, V)                                               \
  ShareCarry<T> name(const RowsWork<T, P, V>& w, const RowShare& share, bool with_dot) { \
    return product<T, P, V>(w, share, with_dot);                                         \
  }
PROTEAN_ROWS_KERNEL(rows_product_f64_p32, double, std::int32_t, double)
PROTEAN_ROWS_KERNEL(rows_product_f64_p64, double, std::int64_t, double)
PROTEAN_ROWS_KERNEL(rows_product_f32_p32, float, std::int32_t, float)
PROTEAN_ROWS_KERNEL(rows_product_f32_p64, float, std::int64_t, float)
PROTEAN_ROWS_KERNEL(rows_product_f64_p32_f32, double, std::int32_t, float)
PROTEAN_ROWS_KERNEL(rows_product_f64_p64_f32, double, std::int64_t, float)
#undef PROTEAN_ROWS_KERNEL

}  // namespace
}  // namespace protean::formats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

#include "core/simulated_device.hpp"
#include "formats/engines/slices/slot_product.hpp"
#include "operators/policy/cost_model.hpp"

namespace protean::formats {

#if defined(PROTEAN_HAVE_CUDA)
// rows.cu
std::int64_t longest_row_on_device(const Context& context, const SparsityPattern& pattern);
std::int64_t row_of_length_on_device(const Context& context, const SparsityPattern& pattern,
                                     std::int64_t length);
#endif

#define PROTEAN_ROWS_PRODUCT(name, T, P, V)                                                         \
  HWY_EXPORT(name);                                                                                 \
  ShareCarry<T> rows_product(const RowsWork<T, P, V>& work, const RowShare& share, bool with_dot) { \
    return HWY_DYNAMIC_DISPATCH(name)(work, share, with_dot);                                       \
  }
PROTEAN_ROWS_PRODUCT(rows_product_f64_p32, double, std::int32_t, double)
PROTEAN_ROWS_PRODUCT(rows_product_f64_p64, double, std::int64_t, double)
PROTEAN_ROWS_PRODUCT(rows_product_f32_p32, float, std::int32_t, float)
PROTEAN_ROWS_PRODUCT(rows_product_f32_p64, float, std::int64_t, float)
PROTEAN_ROWS_PRODUCT(rows_product_f64_p32_f32, double, std::int32_t, float)
PROTEAN_ROWS_PRODUCT(rows_product_f64_p64_f32, double, std::int64_t, float)
#undef PROTEAN_ROWS_PRODUCT

namespace {

// The merge of row ends and entries after `step` steps: the number of rows that have ended. step - rows
// entries have passed. A row ends as soon as its last entry has passed, so an empty row ends at once.
std::int64_t rows_ended(const SparsityPattern& pattern, std::int64_t step) {
  const std::int64_t fewest = std::max<std::int64_t>(0, step - pattern.nonzeros);
  const std::int64_t most = std::min(step, pattern.rows);
  return pattern.row_ptr.visit([&](const auto* p) {
    const auto* ends = p + 1;
    return std::partition_point(ends + fewest, ends + most,
                                [&](const auto& end) { return end + (&end - p) <= step; }) -
           ends;
  });
}

}  // namespace

std::vector<RowShare> shares_between(const RowPointers& row_ptr, const std::vector<std::int64_t>& borders) {
  std::vector<RowShare> shares;
  for (std::size_t i = 0; i + 1 < borders.size(); ++i)
    shares.push_back({borders[i], borders[i + 1], row_ptr[borders[i]], row_ptr[borders[i + 1]]});
  return shares;
}

std::vector<RowShare> shares_of_whole_rows(const SparsityPattern& pattern, int parts) {
  return shares_between(pattern.row_ptr, balanced_row_borders(pattern, parts));
}

std::vector<RowShare> shares_of_equal_size(const SparsityPattern& pattern, int parts) {
  std::vector<RowShare> shares;
  std::int64_t row = 0, k = 0;
  for (int part = 0; part < parts; ++part) {
    const std::int64_t step = even_range(pattern.rows + pattern.nonzeros, part, parts).end;
    const std::int64_t row_end = rows_ended(pattern, step);
    shares.push_back({row, row_end, k, step - row_end});
    row = row_end, k = step - row_end;
  }
  return shares;
}

std::vector<RowShare> shares_of_list(const SparsityPattern& pattern, const std::int32_t* list,
                                     std::int64_t count, int parts, std::int64_t cut) {
  std::vector<RowShare> shares;
  const auto begin_of = [&](std::int64_t p) { return p < count ? pattern.row_ptr[list[p]] : 0; };
  const std::int64_t total = pattern.nonzeros + count;
  // `done` steps precede position p, of which `inside` are entries of its row that other shares have.
  std::int64_t p = 0, inside = 0, done = 0;
  for (int part = 0; part < parts; ++part) {
    const std::int64_t target = part + 1 < parts ? even_range(total, part, parts).end : total;
    RowShare share{p, p, begin_of(p) + inside, RowShare::whole_rows};
    for (; p < count; ++p, inside = 0) {
      const std::int64_t length = pattern.row_length(list[p]);
      if (done + length + 1 - inside > target && part + 1 < parts) {
        const std::int64_t piece = std::max<std::int64_t>(0, target - done);
        if (length > cut && piece > 0) {
          inside += piece, done += piece;
          share.k_end = begin_of(p) + inside;
        } else if (length <= cut && 2 * (target - done) > length) {
          done += length + 1, ++p;  // most of the row belongs here
        }
        break;
      }
      done += length + 1 - inside;
    }
    share.row_end = p;
    shares.push_back(share);
  }
  return shares;
}

RowBlocks row_blocks(const SparsityPattern& pattern, std::int64_t most_entries) {
  RowBlocks blocks;
  pattern.row_ptr.visit([&](const auto* row_ptr) {
    for (std::int64_t r = 0; r < pattern.rows;) {
      blocks.first.push_back(static_cast<std::int32_t>(r));
      const std::int64_t last =
          std::min({pattern.rows, r + block_rows_most, (r / block_section + 1) * block_section});
      const auto most = row_ptr[r] + most_entries;
      // The rows that end in time.
      const std::int64_t end =
          std::partition_point(row_ptr + r + 1, row_ptr + last + 1,
                               [&](const auto& end_of_row) { return end_of_row <= most; }) -
          row_ptr - 1;
      r = std::max(r + 1, end);
    }
  });
  blocks.first.push_back(static_cast<std::int32_t>(pattern.rows));
  return blocks;
}

Admission admit_blocks(const SparsityPattern& pattern, RowBlocks blocks, std::size_t value_bytes) {
  Admission admission =
      Admission::accept(csr_bytes(pattern, value_bytes) + blocks.first.size() * 4, pattern.nonzeros);
  keep_plan(admission, std::make_shared<const RowBlocks>(std::move(blocks)));
  return admission;
}

std::string stream_refusal(std::int64_t longest, std::int64_t most_entries) {
  return fmt::format(
      "the longest row has {} entries, and a block has room for S = {}; csr-adaptive takes longer rows",
      longest, most_entries);
}

std::vector<std::int64_t> borders_of_equal_entries(const SparsityPattern& pattern, int parts) {
  std::vector<std::int64_t> borders{0};
  for (int i = 1; i < parts; ++i) {
    const std::int64_t target = even_range(pattern.nonzeros, i, parts).begin;
    const std::int64_t row = pattern.row_ptr.visit([&](const auto* row_ptr) -> std::int64_t {
      return std::lower_bound(row_ptr, row_ptr + pattern.rows, target) - row_ptr;
    });
    const bool before = row > 0 && target - pattern.row_ptr[row - 1] <= pattern.row_ptr[row] - target;
    borders.push_back(before ? row - 1 : row);
  }
  borders.push_back(pattern.rows);
  return borders;
}

int ranges_asked_for(const Context& context, const SparsityPattern& pattern, const FormatParams& params) {
  const auto asked = static_cast<int>(params.integer("parts"));
  return asked > 0 ? asked : std::min(most_ranges, product_parts(context, pattern.rows, pattern.nonzeros));
}

Admission admit_ranges(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                       std::size_t value_bytes) {
  const auto parts = static_cast<std::size_t>(ranges_asked_for(context, pattern, params));
  return Admission::accept(csr_bytes(pattern, value_bytes) + (parts + 1) * 4, pattern.nonzeros);
}

std::vector<RowShare> shares_of_blocks(const SparsityPattern& pattern, const RowBlocks& blocks, int parts,
                                       std::int64_t cut) {
  std::vector<RowShare> shares;
  std::int64_t row = 0, k = 0;
  for (int part = 0; part < parts; ++part) {
    const std::int64_t step = even_range(pattern.rows + pattern.nonzeros, part, parts).end;
    std::int64_t row_end = rows_ended(pattern, step), k_end = step - row_end;
    if (row_end < pattern.rows && pattern.row_length(row_end) <= cut) {
      row_end = *(std::upper_bound(blocks.first.begin(), blocks.first.end(), row_end) - 1);
      k_end = pattern.row_ptr[row_end];
    }
    shares.push_back({row, row_end, k, k_end});
    row = row_end, k = k_end;
  }
  return shares;
}

bool rows_alike(const SparsityPattern& pattern) {
  return pattern.nonzeros <= 10 * pattern.rows && row_changes(pattern) < 0.3;
}

bool rows_uneven(const SparsityPattern& pattern) {
  // On Zen 5 with two threads: 1.1 to 2.5 times as fast as without masks at 32,000 rows and more, slower below 24,000.
  constexpr std::int64_t not_remembered = 30000;
  return pattern.rows > not_remembered && row_changes(pattern) >= 0.45;
}

std::int64_t longest_row(const Context& context, const SparsityPattern& pattern) {
  if (pattern.rows == 0) return 0;
#if defined(PROTEAN_HAVE_CUDA)
  if (pattern.space == Space::device && !context.simulated()) return longest_row_on_device(context, pattern);
#endif
  const detail::DeviceWork work(context);  // of a simulated device
  return pattern.row_ptr.visit([&](const auto* ptr) {
    using Length = std::remove_cvref_t<decltype(ptr[0])>;
    Length most = 0;
    for (std::int64_t i = 0; i < pattern.rows; ++i) most = std::max<Length>(most, ptr[i + 1] - ptr[i]);
    return static_cast<std::int64_t>(most);
  });
}

std::int64_t row_of_length(const Context& context, const SparsityPattern& pattern, std::int64_t entries) {
#if defined(PROTEAN_HAVE_CUDA)
  if (pattern.space == Space::device && !context.simulated())
    return row_of_length_on_device(context, pattern, entries);
#endif
  const detail::DeviceWork work(context);
  return pattern.row_ptr.visit([&](const auto* ptr) {
    std::int64_t row = 0;
    while (row + 1 < pattern.rows && ptr[row + 1] - ptr[row] != entries) ++row;
    return row;
  });
}

}  // namespace protean::formats
#endif  // HWY_ONCE
