// sell-packed: slices of 8 rows, stored slot by slot; each slot has the columns of its 8 entries in the shortest code
// that can hold them.
//
//        | 1 2 . . |     one slice with rows in lanes 0..3 (live = 00001111) and two slots, by rank:
//    A = | . 3 4 . |     columns 0 1 0 3, near, base 0, offsets 0 1 0 3 - - - -, values 1 3 5 7 0 0 0 0
//        | 5 . 6 . |     columns 1 2 2 3, near, base 1, offsets 0 1 1 2 - - - -, values 2 4 6 0 0 0 0 0
//        | . . . 7 |     (lane 3 of the second is padding; it reads x_3, which row 3 uses anyway)
//
// Kinds of slot; base and offsets are columns:
//   contiguous  base                                   column of lane l = base + l: one load
//   pair        base, 8 x 4 bits, step, mask, run      all columns lie in two stretches of 8, which begin at
//                                                      base and base + step (16 bits): two loads and one
//                                                      permute; lanes that the mask leaves out are 0
//   quad        base, 8 x 4 bits, 3 steps, masks, run  the same with four stretches and two permutes
//   near        base, 8 x 8 bits                       column of lane l = base + offset l
//   far         base, 8 x 16 bits                      the same
//   wide        8 x 32 bits                            the columns themselves
// A group is `run` consecutive slots that share the code of one pair or quad. The columns of each slot are one higher
// than the columns of the slot before. Small dense blocks give such runs.
//
// Arrays:
//   code     [words] uint32, read in order. Each window of 256 rows begins with a word 0, or with a word 1
//            and 256 bytes that give the rows of the window in the order of the lanes. Each slice of the
//            window has one or more chunks. A chunk begins with two words: the number of groups of each kind
//            (8 bits each), the lanes that are rows with entries, and a mark at the last chunk of the slice.
//            The groups follow, by kind, with 1, 3, 5, 3, 5 and 8 words each.
//   places   [bytes] uint8: for each slice the rule by which its slots were made, then for each group the
//            number of its first slot, so that new values need no search (sell_packed_layout.hpp). Products
//            do not read it.
//   values   [8 slots]: in the order of code, 0 in padding. In a dictionary bytes: places in the table.
//   table    [256], in a dictionary only: the distinct values.
//   entries  [slots] uint8, in deterministic mode only: the lanes of a slot that hold entries, so that
//            padding adds nothing.
// Bytes: 8 v slots + 4 words + places, with v bytes a value; slots more in deterministic mode. In double
//   precision a slot without padding costs 8.5 bytes an entry when contiguous, 9.5 as a single pair, less in
//   a run, 9.5 near, 10.5 quad or far, 12 wide. A slice costs 8 bytes more. In a dictionary v is 1, and the table
//   costs 2048 bytes.
// Parameters:
//   order  auto, natural or sorted: whether the rows of a window are sorted by length. Sorting saves padding,
//          but neighbouring rows no longer lie together. auto takes what costs less, for each window.
//   percent  on a device, for matrices of 2^20 entries and more: the most bytes, in percent of the bytes of csr.
//   values   how values are stored next to vectors in double: auto, double, float or dictionary (docs/precision.md).
// Wins: on stencils, finite elements and meshes: matrices whose neighbouring rows have neighbouring columns
//   and similar lengths.
// Refuses: when more than 4 values are stored for an entry, because a few rows are much longer than the others; on a
//   device also when it has more than `percent` of the bytes of csr. 36 matrices were measured on an H200
//   (docs/results/gpu-products.md). Of the nine up to 73 %, eight were faster than sell-c-sigma (the ninth 0.92 times
//   as fast). Of the 27 above, three were faster than csr and not slower than sell-c-sigma (by 3, 4 and 18 % and 0, 0
//   and 1 %).
// Source: our own. Sliced ELLPACK with sorting in windows is SELL-C-sigma of M. Kreutzer, G. Hager, G.
//   Wellein, H. Fehske, A. R. Bishop, SIAM J. Sci. Comput. 36(5), 2014, doi:10.1137/130930352.
//
// In natural order a slice gets its slots as follows. A diagonal that all eight rows have becomes a
// contiguous slot, and these come first. The other entries are taken by diagonal if that needs no padding, else by
// rank: slot k has the k-th entry of each row. In deterministic mode a chunk holds only groups whose slots follow each
// other, so that each row is summed in the order of its columns; this needs more chunks.
//
// A NaN or infinity in x_j reaches exactly the rows that store an entry in column j (a stored 0 counts). Padded lanes
// of pair and quad are masked, padded lanes of near, far and wide read an x that their row uses, contiguous slots have
// no padding, and sums of rows without entries are not used. Nothing outside x is read.
#include <fmt/format.h>

#include <memory>

#include "core/error.hpp"
#include "core/product_parts.hpp"
#include "formats/compressed/sell_packed.hpp"
#include "formats/compressed/sell_packed_layout.hpp"
#include "formats/compressed/sell_packed_multi.hpp"
#include "formats/engines/view/stored_values.hpp"
#include "formats/entries.hpp"
#include "formats/host_support.hpp"
#include "operators/multi_product.hpp"

namespace protean::formats {
namespace {

using packed::Encoder;
using packed::Extent;

packed::Order order_of(const FormatParams& params) {
  const std::string& word = params.word("order");
  return word == "natural"  ? packed::Order::natural
         : word == "sorted" ? packed::Order::sorted
                            : packed::Order::automatic;
}

// The rows of each part: whole windows.
std::vector<std::int64_t> part_borders(const Context& context, const SparsityPattern& pattern) {
  return balanced_row_borders(pattern, product_parts(context, pattern.rows, pattern.nonzeros),
                              packed::window);
}

// What admit() finds and the maker uses: code and places of each part.
struct Plan {
  struct Part {
    std::vector<std::uint32_t> code;
    std::vector<unsigned char> places;
    std::int64_t slots = 0;
    Extent extent() const {
      return {static_cast<std::int64_t>(code.size()), slots, static_cast<std::int64_t>(places.size())};
    }
  };
  std::vector<Part> parts;
};

Plan make_plan(const SparsityPattern& pattern, packed::Order order, const std::vector<std::int64_t>& borders,
               bool ordered) {
  const int parts = static_cast<int>(borders.size()) - 1;
  Plan plan{std::vector<Plan::Part>(static_cast<std::size_t>(parts))};
  parallel(parts, [&](int number, int) {
    Encoder encoder(pattern, order, ordered);
    Plan::Part part;
    // Enough for most matrices. Pages that are not written cost nothing.
    const std::int64_t entries = pattern.row_ptr[borders[number + 1]] - pattern.row_ptr[borders[number]];
    part.code.reserve(static_cast<std::size_t>(entries / 3));
    part.places.reserve(static_cast<std::size_t>(entries / 6));
    for (std::int64_t first = borders[number]; first < borders[number + 1]; first += packed::window) {
      encoder.encode(first);
      part.code.insert(part.code.end(), encoder.code().begin(), encoder.code().end());
      part.places.insert(part.places.end(), encoder.places().begin(), encoder.places().end());
      part.slots += encoder.slots();
    }
    plan.parts[number] = std::move(part);
  });
  return plan;
}

template <class T>
class SellPacked final : public AssembledMatrix<T>,
                         public HasApplyDot<T>,
                         public HasMultiProduct<T>,
                         public HasLayout,
                         public detail::HasValueTable {
 public:
  explicit SellPacked(const BuildRequest<T>& request)
      : AssembledMatrix<T>(request),
        HasValueTable(request.table),
        borders_(part_borders(*request.context, request.csr.pattern)) {
    const Plan& plan = plan_of<Plan>(request.admission);
    for (const Plan::Part& part : plan.parts)
      starts_.push_back(starts_.back()), starts_.back() += part.extent();
    code_ = Buffer<std::uint32_t>(request.context, starts_.back().words);
    places_ = Buffer<unsigned char>(request.context, starts_.back().places);
    values_ = StoredOrTable<T>(request.context, starts_.back().slots * packed::height, request.float_values,
                               request.table);
    if (request.context->deterministic())
      entries_ = Buffer<unsigned char>(request.context, starts_.back().slots);
    parallel(parts(), [&](int p, int) {
      const Plan::Part& part = plan.parts[p];
      std::copy(part.code.begin(), part.code.end(), code_.data() + starts_[p].words);
      std::copy(part.places.begin(), part.places.end(), places_.data() + starts_[p].places);
      if (!entries_.empty()) mark_entries(p, request.csr.pattern);
    });
    assign(request.csr);
  }

  std::size_t bytes() const noexcept override {
    return code_.bytes() + places_.bytes() + values_.bytes() + entries_.bytes();
  }

  CsrMatrix<T> to_csr() const override {
    CsrBuilder<T> builder(this->context(), this->rows(), this->cols(), this->nonzeros());
    Buffer<std::int64_t> length(this->context(), this->rows());
    // To decode takes longer than to move the entries, so it is done once, and each part keeps what it has found until
    // all row pointers are known.
    struct Found {
      std::vector<std::int64_t> rows;
      std::vector<Entry> entries;
    };
    std::vector<Found> found(static_cast<std::size_t>(parts()));
    for_each_row([&](int p, std::int64_t row, const std::vector<Entry>& entries) {
      Found& mine = found[static_cast<std::size_t>(p)];
      length[row] = static_cast<std::int64_t>(entries.size());
      mine.rows.push_back(row), mine.entries.insert(mine.entries.end(), entries.begin(), entries.end());
    });
    for (std::int64_t r = 0, sum = 0; r < this->rows(); ++r) builder.set_row_ptr(r + 1, sum += length[r]);
    parallel(parts(), [&](int p, int) {
      const Entry* next = found[static_cast<std::size_t>(p)].entries.data();
      for (const std::int64_t row : found[static_cast<std::size_t>(p)].rows)
        for (std::int64_t k = builder.row_ptr(row); k < builder.row_ptr(row + 1); ++k, ++next)
          builder.col()[k] = next->col, builder.values()[k] = next->value;
    });
    return builder.freeze();
  }

  void diagonal(VectorView<T> d) const override {
    values_.visit([&](const auto& values) {
      parallel(parts(), [&](int p, int) { read_diagonal(part(p, values), d); });
    });
  }

  std::vector<LayoutArray> layout() const override {
    std::vector<LayoutArray> arrays{layout_array("code", code_), layout_array("places", places_),
                                    values_.layout("values")};
    if (this->value_table()) arrays.push_back(values_.layout_of_table("table"));
    return arrays;
  }

  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    PartialSums<T> sums(parts());
    values_.visit([&](const auto& values) {
      parallel(parts(), [&](int part, int) {
        sums[part] = packed::product(this->part(part, values), T(1), x.data, T(0), y.data, true);
      });
    });
    *result = sums.total();
  }

  void do_multi_apply(T alpha, MultiVectorView<const T> X, T beta, MultiVectorView<T> Y) const override {
    const MultiTask<T> task(*this->context(), alpha, X, beta, Y);
    values_.visit([&](const auto& values) {
      parallel(parts(), [&](int part, int) { packed::multi_product(this->part(part, values), task); });
    });
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    values_.visit([&](const auto& values) {
      parallel(parts(), [&](int part, int) {
        packed::product(this->part(part, values), alpha, x.data, beta, y.data, false);
      });
    });
  }

  void do_update_values(const CsrMatrix<T>& csr) override { assign(csr); }

 private:
  struct Entry {
    std::int32_t col;
    T value;
  };

  int parts() const noexcept { return static_cast<int>(borders_.size()) - 1; }
  template <class V>
  packed::Part<V> part(int p, const V* values) const noexcept {
    return part_of<V>(p, values);
  }
  packed::Part<std::uint8_t> part(int p, const TableValues& values) const noexcept {
    return part_of<std::uint8_t>(p, values);
  }
  template <class V>
  packed::Part<V> part_of(int p, const ValuesPointer<V>& values) const noexcept {
    return {code_.data() + starts_[p].words,
            values + starts_[p].slots * packed::height,
            borders_[p],
            borders_[p + 1],
            entries_.data() + (entries_.empty() ? 0 : starts_[p].slots),
            this->context()->deterministic()};
  }

  // Fills in ones as values: a place where a 1 arrives is an entry.
  void mark_entries(int p, const SparsityPattern& pattern) {
    const std::int64_t first = pattern.row_ptr[borders_[p]], slots = starts_[p + 1].slots - starts_[p].slots;
    const std::vector<float> ones(static_cast<std::size_t>(pattern.row_ptr[borders_[p + 1]] - first), 1.0f);
    // Long arrays are written by stores that need an aligned address.
    constexpr std::size_t line = 64;
    const std::size_t size = static_cast<std::size_t>(slots) * packed::height;
    std::vector<float> room(size + line / sizeof(float));
    void* begin = room.data();
    std::size_t bytes = room.size() * sizeof(float);
    float* const filled = static_cast<float*>(std::align(line, size * sizeof(float), begin, bytes));
    packed::fill_values(code_.data() + starts_[p].words, places_.data() + starts_[p].places, pattern,
                        ones.data() - first, borders_[p], borders_[p + 1], filled);
    for (std::int64_t s = 0; s < slots; ++s) {
      unsigned bits = 0;
      for (int l = 0; l < packed::height; ++l)
        bits |= static_cast<unsigned>(filled[s * packed::height + l] != 0) << l;
      entries_[starts_[p].slots + s] = static_cast<unsigned char>(bits);
    }
  }

  void assign(const CsrMatrix<T>& csr) {
    values_.assign(csr, this->float_values(), this->value_table(), [&](const auto* from, auto* to) {
      parallel(parts(), [&](int p, int) {
        packed::fill_values(code_.data() + starts_[p].words, places_.data() + starts_[p].places, csr.pattern,
                            from, borders_[p], borders_[p + 1], to + starts_[p].slots * packed::height);
      });
    });
  }

  // Calls act(part, row, entries by column) for every row, in parallel.
  template <class Act>
  void for_each_row(Act act) const {
    values_.visit([&](const auto& values) {
      parallel(parts(), [&](int p, int) { rows_of_part(this->part(p, values), p, act); });
    });
  }
  template <class V, class Act>
  static void rows_of_part(const packed::Part<V>& part, int p, Act& act) {
    std::array<std::vector<Entry>, packed::height> lanes;
    const unsigned char* order = nullptr;
    std::int64_t first = 0, position = 0;
    packed::decode(
        part.code, part.values, part.begin, part.end,
        [&](std::int64_t row, const unsigned char* bytes) { first = row, order = bytes; },
        [&](std::int64_t s, unsigned) {
          position = s;
          for (auto& lane : lanes) lane.clear();
        },
        [&](const auto& columns, unsigned mask, const ValuesPointer<V>& values) {
          for (int l = 0; l < packed::height; ++l)
            if (mask >> l & 1) lanes[l].push_back({columns[l], values[l]});
        },
        [&] {
          for (int l = 0; l < packed::height && first + position + l < part.end; ++l) {
            sort_and_drop_padding(lanes[l]);
            act(p, first + (order ? order[position + l] : position + l), lanes[l]);
          }
        });
  }

  // Most groups are skipped by their base and reach, without a look at their values.
  template <class V>
  static void read_diagonal(const packed::Part<V>& part, VectorView<T> d) {
    const unsigned char* order = nullptr;
    ValuesPointer<V> values = part.values;
    std::int64_t first = 0, lowest = 0, highest = 0;
    std::array<std::int64_t, packed::height> row{};
    std::array<T, packed::height> found{};
    const auto empty = [](const T& value) {
      static constexpr T zero = 0;
      return std::memcmp(&value, &zero, sizeof(T)) == 0;
    };
    packed::walk(
        part.code, part.begin, part.end,
        [&](std::int64_t window_row, const unsigned char* bytes) { first = window_row, order = bytes; },
        [&](std::int64_t s, unsigned) {
          found.fill(T(0));
          lowest = part.end, highest = -1;
          for (int l = 0; l < packed::height; ++l) {
            row[l] = first + s + l < part.end ? first + (order ? order[s + l] : s + l) : -1;
            if (row[l] >= 0) lowest = std::min(lowest, row[l]), highest = std::max(highest, row[l]);
          }
        },
        [&](packed::Kind kind, const std::uint32_t* words, unsigned live) {
          const packed::Reach reach = packed::reach(kind, words);
          const ValuesPointer<V> group = values;
          values += reach.run * packed::height;
          const auto base = static_cast<std::int32_t>(words[0]);
          if (kind != packed::wide && (base > highest || base + reach.span + reach.run <= lowest)) return;
          const packed::Decoded slot = packed::read_group(kind, words);
          const unsigned mask = slot.mask & live;
          for (int l = 0; l < packed::height; ++l) {
            const std::int64_t j = row[l] - slot.col[l];
            // Padding may repeat the column. All bits of its value are 0.
            if ((mask >> l & 1) && j >= 0 && j < reach.run && empty(found[l]))
              found[l] = group[j * packed::height + l];
          }
        },
        [&] {
          for (int l = 0; l < packed::height; ++l)
            if (row[l] >= 0 && row[l] < d.size) d.data[row[l]] = found[l];
        });
  }

  // Sorts the entries and drops padding. Padding has a column that the row also stores, and all bits of its
  // value are 0. Among entries with one column, the one with other bits belongs to the row; if none has other
  // bits, all are the same.
  static void sort_and_drop_padding(std::vector<Entry>& entries) {
    static constexpr T zero = 0;
    const auto padding = [](const Entry& e) { return std::memcmp(&e.value, &zero, sizeof(T)) == 0; };
    // Mostly they are in order.
    if (std::adjacent_find(entries.begin(), entries.end(),
                           [](const Entry& a, const Entry& b) { return a.col >= b.col; }) == entries.end())
      return;
    std::sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
      return a.col != b.col ? a.col < b.col : padding(a) < padding(b);
    });
    const auto end = std::unique(entries.begin(), entries.end(),
                                 [](const Entry& a, const Entry& b) { return a.col == b.col; });
    entries.erase(end, entries.end());
  }

  std::vector<std::int64_t> borders_;
  std::vector<Extent> starts_{Extent{}};  // where each part begins in code, slots and places; then the end
  Buffer<std::uint32_t> code_;
  Buffer<unsigned char> places_;
  StoredOrTable<T> values_;
  Buffer<unsigned char> entries_;
};

}  // namespace

Admission admit_stored(const SparsityPattern& pattern, std::int64_t stored, int height, std::size_t bytes) {
  if (stored > 4 * pattern.nonzeros + (1 << 16))
    return Admission::refuse(
        fmt::format(
            "{} values would be stored for {} entries, because rows of very different lengths share slices "
            "of {}; csr stores no padding",
            stored, pattern.nonzeros, height),
        bytes, stored);
  return Admission::accept(bytes, stored);
}

namespace {

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  for (std::int64_t first = 0; first < pattern.rows; first += packed::window) {
    const std::int64_t end = std::min(first + packed::window, pattern.rows);
    if (pattern.row_ptr[end] - pattern.row_ptr[first] >= packed::no_source)
      return Admission::refuse(fmt::format("rows {} to {} hold more than 2^32 - 2 entries", first, end - 1));
  }
  auto plan = std::make_shared<Plan>(
      make_plan(pattern, order_of(params), part_borders(context, pattern), context.deterministic()));
  Extent extent;
  for (const Plan::Part& part : plan->parts) extent += part.extent();
  const std::int64_t stored = extent.slots * packed::height;
  const std::size_t bytes = static_cast<std::size_t>(extent.words) * 4 +
                            static_cast<std::size_t>(extent.places) +
                            detail::value_array_bytes(stored, value_bytes) +
                            (context.deterministic() ? static_cast<std::size_t>(extent.slots) : 0);
  Admission admission = admit_stored(pattern, stored, packed::height, bytes);
  keep_plan(admission, std::move(plan));
  return admission;
}

constexpr Kernel kernels[] = {native_host_kernel<SellPacked>(Sums::ordered, Values::either_or_table)};
constexpr ParamDoc params[] = {
    {"order",
     "rows of a window (256 on the host, 1024 on the device): sorted by length, as they are, or what is "
     "cheaper",
     "auto", 0, 0, "auto|natural|sorted"},
    {"percent",
     "on a device, for matrices of 2^20 entries and more: the most bytes, in percent of the bytes of csr",
     "73", 1, 100000}};

}  // namespace

constinit const FormatEntry entries::sell_packed{
    .family = "compressed",
    .id = "sell-packed",
    .title = "Sliced ELLPACK with packed columns",
    .source =
        "our own, on SELL-C-sigma: Kreutzer, Hager, Wellein, Fehske, Bishop, SIAM J. Sci. Comput. 36(5), "
        "2014, DOI 10.1137/130930352",
    .traits = {.admission_converts = true},
    .params = params,
    .kernels = kernels,
    .admit = admit,
    .device = &device_code::sell_packed};

}  // namespace protean::formats
