// Aligned COO: coordinates in lanes of equal length; a long row fills neighbouring lanes of its own, and short rows
// share a lane.
//
//        | 1 . 2 . |     length = 2, width = 1       row_of_slot = 3 3 0 1    slot 0 of lanes 0, 1, 2, 3
//    A = | . 3 . . |     row 3: lanes 0 and 1                      3 3 0 1    slot 1
//        | . . . . |     row 0: lane 2               col         = 0 3 0 1 | 1 3 2 1
//        | 4 5 . 6 |     row 1: lane 3               values      = 4 6 1 3 | 5 . 2 .        empty_row = 2
//
// Arrays:
//   row_of_slot  [length lanes] int32: slot k of lane l lies at k lanes + l. A slot without an entry has the row of the
//                entry before it in its lane; -1 in a lane without entries.
//   col          [length lanes] int32, the same; 0 in a lane without entries.
//   values       [length lanes], 0 in a slot without an entry.
//   empty_row    [rows without entries] int32: ascending.
// Bytes: (v + 8) length lanes + 4 empty rows, with v bytes a value; on a GPU also (2 v + 12) for each 32 lanes of long
//   rows.
// Parameters:
//   length            slots of a lane. 0 takes the length of five with the fewest slots: m, 3 m / 2, 2 m, 3 m and 4 m
//                     with m = nnz / 262,144, at least 16 and at most 256.
//   width             the number of lanes is a multiple of this, so that slots lie at multiples of 4 width bytes.
//   max_fill_percent  see Refuses.
// Wins: on a GPU, when row lengths differ much (power laws): all threads have the same work, and no short row needs
//   more than one thread.
// Refuses: when all lanes except one have more slots than max_fill_percent of nnz (lanes that only fill up `width` are
//   not counted).
// Source: M. Shah, V. Patel, An efficient sparse matrix multiplication for skewed matrix on GPU, HPCC 2012, 1301-1306.
//   We know it from the survey of Filippone et al., ACM TOMS 43 (2017), doi:10.1145/3017994, which names balance by
//   reordering and work without synchronisation; the lanes, the packing and the rule for the length are our reading.
//   Low confidence.
//
// Rows of at least `length` entries take as many lanes as they need, the longest first. The other rows are packed
// whole: in the order of descending length, each into the first lane with room. Padding adds nothing to a product,
// whatever x is.
#include "formats/coordinate/aligned_coo.hpp"

#include <algorithm>
#include <numeric>

#include "core/words.hpp"
#include "formats/engines/view/row_view.hpp"
#include "formats/entries.hpp"

namespace protean::formats {

LaneLengths lane_lengths(const FormatParams& params, std::int64_t nonzeros) {
  const std::int64_t asked = params.integer("length");
  if (asked > 0) return {asked, asked, asked, asked, asked};
  const std::int64_t m = std::clamp<std::int64_t>(nonzeros / 262144, 16, aligned_longest / 4);
  return {m, 3 * m / 2, 2 * m, 3 * m, 4 * m};
}

namespace {

// Packs light rows. `count` rows of each length; longest first, first fit.
struct Packing {
  struct Lanes {
    std::int64_t first, count, used;  // neighbouring lanes with as many used slots
  };
  std::int64_t length, next, rank = 0;
  std::vector<Lanes> open = {};
  std::vector<LightRows> light = {};

  // Places up to n rows into `lanes`. Appends what has become of these to `after`. Returns how many it has placed.
  std::int64_t place(const Lanes& lanes, std::int64_t row, std::int64_t n, std::vector<Lanes>& after) {
    const std::int64_t each = (length - lanes.used) / row, taken = std::min(n, each * lanes.count);
    if (taken == 0) {
      after.push_back(lanes);
      return 0;
    }
    light.push_back({rank, lanes.first, static_cast<std::int32_t>(each),
                     static_cast<std::int32_t>(lanes.used), static_cast<std::int32_t>(row)});
    rank += taken;
    const std::int64_t full = taken / each, rest = taken % each, left = lanes.count - full - (rest > 0);
    if (full > 0) after.push_back({lanes.first, full, lanes.used + each * row});
    if (rest > 0) after.push_back({lanes.first + full, 1, lanes.used + rest * row});
    if (left > 0) after.push_back({lanes.first + lanes.count - left, left, lanes.used});
    return taken;
  }
  void add(std::int64_t row, std::int64_t n) {
    if (n == 0) return;
    std::vector<Lanes> after;
    for (const Lanes& lanes : open)
      if (lanes.used < length) n -= place(lanes, row, n, after);
    if (n > 0) {
      const std::int64_t each = length / row, lanes = (n + each - 1) / each;
      place({next, lanes, 0}, row, n, after);
      next += lanes;
    }
    open = std::move(after);
  }
};

LanePlan plan_of_length(const RowCounts& counts, std::size_t choice, const LaneLengths& lengths) {
  LanePlan plan;
  plan.length = lengths[choice];
  plan.heavy_lanes = counts.lanes_of_long_rows[choice];
  const auto limit = static_cast<std::int64_t>(counts.with_length.size());
  for (std::int64_t l = plan.length; l < limit; ++l)
    plan.heavy_lanes += counts.with_length[l] * ((l + plan.length - 1) / plan.length);
  Packing packing{plan.length, plan.heavy_lanes};
  for (std::int64_t l = plan.length - 1; l > 0; --l) packing.add(l, counts.with_length[l]);
  plan.lanes = packing.next;
  plan.light = std::move(packing.light);
  return plan;
}

}  // namespace

Admission plan_lanes(const RowCounts& counts, const LaneLengths& lengths, std::int64_t rows,
                     std::int64_t nonzeros, const FormatParams& params, std::size_t value_bytes) {
  LanePlan best;
  for (std::size_t choice = 0; choice < lengths.size(); ++choice) {
    if (choice > 0 && lengths[choice] == best.length) continue;
    LanePlan plan = plan_of_length(counts, choice, lengths);
    if (choice == 0 || plan.lanes * plan.length < best.lanes * best.length) best = std::move(plan);
  }
  best.empty_rows = counts.with_length[0];
  best.heavy_rows = rows - std::accumulate(counts.with_length.begin(),
                                           counts.with_length.begin() + best.length, std::int64_t{0});
  const std::int64_t width = params.integer("width"), percent = params.integer("max_fill_percent");
  const std::int64_t counted = std::max<std::int64_t>(0, best.lanes - 1) * best.length;
  best.lanes = (best.lanes + width - 1) / width * width;
  const std::int64_t slots = best.lanes * best.length;
  const std::size_t bytes =
      static_cast<std::size_t>(slots) * (value_bytes + 8) + static_cast<std::size_t>(best.empty_rows) * 4;
  if (static_cast<double>(counted) > 0.01 * static_cast<double>(percent) * static_cast<double>(nonzeros))
    return Admission::refuse(
        fmt::format(
            "lanes of {} slots have {} slots for {} entries, more than max_fill_percent = {} ({} would be "
            "needed)",
            best.length, counted + best.length, nonzeros, percent, human_bytes(bytes)),
        bytes, slots);
  Admission admission = Admission::accept(bytes, slots);
  keep_plan(admission, std::make_shared<LanePlan>(std::move(best)));
  return admission;
}

namespace {

template <class T>
class AlignedCoo final : public RowViewMatrix<T, AlignedCoo<T>> {
 public:
  explicit AlignedCoo(const BuildRequest<T>& request)
      : RowViewMatrix<T, AlignedCoo<T>>(request),
        plan_(plan_of<LanePlan>(request.admission)),
        row_of_slot_(request.context, plan_.length * plan_.lanes),
        col_(request.context, row_of_slot_.size()),
        values_(request.context, row_of_slot_.size()),
        empty_(request.context, plan_.empty_rows) {
    const SparsityPattern& pattern = request.csr.pattern;
    std::vector<std::int32_t> order(static_cast<std::size_t>(this->rows()));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return pattern.row_length(a) > pattern.row_length(b);
    });
    std::copy(order.end() - plan_.empty_rows, order.end(), empty_.begin());
    std::vector<std::int64_t> used(static_cast<std::size_t>(plan_.lanes), 0);
    const auto put = [&](std::int32_t row, std::int64_t from, std::int64_t count, std::int64_t lane) {
      for (std::int64_t k = pattern.row_ptr[row] + from, end = k + count; k < end; ++k) {
        const std::int64_t at = used[lane]++ * plan_.lanes + lane;
        row_of_slot_[at] = row, col_[at] = pattern.col[k], values_[at] = request.csr.values[k];
      }
    };
    std::int64_t lane = 0;
    for (std::int64_t i = 0; i < plan_.heavy_rows; ++i)
      for (std::int64_t from = 0, length = pattern.row_length(order[i]); from < length; from += plan_.length)
        put(order[i], from, std::min(plan_.length, length - from), lane++);
    for (std::size_t i = 0; i < plan_.light.size(); ++i) {
      const LightRows& rows = plan_.light[i];
      const std::int64_t end = i + 1 < plan_.light.size()
                                   ? plan_.light[i + 1].first
                                   : this->rows() - plan_.heavy_rows - plan_.empty_rows;
      for (std::int64_t j = rows.first; j < end; ++j)
        put(order[plan_.heavy_rows + j], 0, rows.length, rows.lane + (j - rows.first) / rows.each);
    }
    parallel(useful_parts(*request.context, row_of_slot_.size()), [&](int part, int parts) {
      const Range range = even_range(plan_.lanes, part, parts);
      for (std::int64_t k = 0; k < plan_.length; ++k)
        for (std::int64_t l = range.begin; l < range.end; ++l) {
          if (k < used[l]) continue;
          const std::int64_t at = k * plan_.lanes + l, before = at - plan_.lanes;
          row_of_slot_[at] = k > 0 ? row_of_slot_[before] : -1;
          col_[at] = k > 0 ? col_[before] : 0;
          values_[at] = T(0);
        }
    });
  }

  std::size_t bytes() const noexcept override {
    return row_of_slot_.bytes() + col_.bytes() + values_.bytes() + empty_.bytes();
  }
  std::vector<LayoutArray> layout() const override {
    return {layout_array("row_of_slot", row_of_slot_), layout_array("col", col_),
            layout_array("values", values_), layout_array("empty_row", empty_)};
  }
  LaneView<T> row_view() const {
    return {plan_.lanes, plan_.length,   empty_.size(), row_of_slot_.data(),
            col_.data(), values_.data(), empty_.data()};
  }
  T* mutable_values() { return values_.data(); }

  void multiply(T alpha, const T* x, T beta, T* y) const {
    const int parts = useful_parts(*this->context(), row_of_slot_.size() + this->rows());
    PartialSums<Carry> carries(parts);
    parallel(parts, [&](int part, int) {
      const Range lanes = even_range(plan_.lanes, part, parts);
      carries[part] = product_of_lanes(lanes, alpha, x, beta, y);
      const Range none = even_range(empty_.size(), part, parts);
      for (std::int64_t i = none.begin; i < none.end; ++i) store(T(0), T(0), beta, y[empty_[i]]);
    });
    for (int part = 0; part < parts; ++part)
      if (carries[part].row >= 0) y[carries[part].row] += alpha * carries[part].sum;
  }

 private:
  // What lanes of a part have of a row that began in a lane before them.
  struct Carry {
    std::int32_t row = -1;
    T sum = 0;
  };

  Carry product_of_lanes(const Range& lanes, T alpha, const T* x, T beta, T* y) const {
    constexpr std::int64_t group = 16;  // lanes whose slots are read together, because they lie side by side
    const std::int32_t before = lanes.begin > 0 && lanes.size() > 0 ? row_of_slot_[lanes.begin - 1] : -1;
    Carry carry, open;
    const auto finish = [&](std::int32_t row, T sum) {
      if (row < 0) return;
      if (row == before)
        carry = {row, sum};
      else
        store(alpha, sum, beta, y[row]);
    };
    for (std::int64_t first = lanes.begin; first < lanes.end; first += group) {
      const std::int64_t count = std::min(group, lanes.end - first);
      Carry now[group];
      std::int32_t last[group];
      for (std::int64_t k = 0; k < plan_.length; ++k)
        for (std::int64_t i = 0; i < count; ++i) {
          const std::int64_t at = k * plan_.lanes + first + i;
          if (k == 0 || row_of_slot_[at] != now[i].row) {
            if (k > 0) finish(now[i].row, now[i].sum);
            now[i] = {row_of_slot_[at], T(0)};
            last[i] = -1;
          }
          if (now[i].row < 0 || col_[at] == last[i]) continue;  // padding
          now[i].sum += values_[at] * x[col_[at]];
          last[i] = col_[at];
        }
      for (std::int64_t i = 0; i < count; ++i) {
        if (now[i].row == open.row) {
          open.sum += now[i].sum;
        } else {
          finish(open.row, open.sum);
          open = now[i];
        }
      }
    }
    finish(open.row, open.sum);
    return carry;
  }

  LanePlan plan_;
  Buffer<std::int32_t> row_of_slot_, col_;
  Buffer<T> values_;
  Buffer<std::int32_t> empty_;
};

Admission admit(const Context&, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  const LaneLengths lengths = lane_lengths(params, pattern.nonzeros);
  const std::int64_t limit = *std::max_element(lengths.begin(), lengths.end());
  RowCounts counts;
  counts.with_length.assign(static_cast<std::size_t>(limit), 0);
  for (std::int64_t r = 0; r < pattern.rows; ++r) {
    const std::int64_t length = pattern.row_length(r);
    if (length < limit)
      ++counts.with_length[length];
    else
      for (std::size_t i = 0; i < lengths.size(); ++i)
        counts.lanes_of_long_rows[i] += (length + lengths[i] - 1) / lengths[i];
  }
  return plan_lanes(counts, lengths, pattern.rows, pattern.nonzeros, params, value_bytes);
}

constexpr ParamDoc params[] = {
    {.name = "length",
     .doc = "slots of a lane; 0: of five lengths, the one with the fewest slots",
     .default_value = "0",
     .smallest = 0,
     .largest = aligned_longest},
    {.name = "width",
     .doc = "the number of lanes is a multiple of this",
     .default_value = "8",
     .smallest = 1,
     .largest = 1024},
    {.name = "max_fill_percent",
     .doc = "the format refuses more stored slots than this percentage of the entries",
     .default_value = "125",
     .smallest = 100,
     .largest = 1000000000}};

constexpr Kernel kernels[] = {native_host_kernel<AlignedCoo>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::aligned_coo{
    .family = "coordinate",
    .id = "aligned-coo",
    .title = "Coordinates in lanes of equal length",
    .source = "Shah, Patel, HPCC 2012",
    .traits = {},  // threads share a row in products, but not in to_csr() and update_values()
    .params = params,
    .kernels = kernels,
    .admit = admit,
    .device = &device_code::aligned_coo};

}  // namespace protean::formats
