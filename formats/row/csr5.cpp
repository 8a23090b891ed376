// CSR5: the entries of csr in tiles of omega lanes with sigma entries each, stored so that the lanes of a SIMD register
// or a warp read neighbours; flags and offsets tell each lane where rows begin in it.
//
//        | 1 . 2 . |     omega = 2, sigma = 2: a full tile of entries 1 2 | 3 4, then 5 6
//    A = | . 3 . . |     row_ptr   = 0 2 3 3 6        col = 0 1 2 0 | 1 3    values = 1 3 2 4 | 5 6
//        | . . . . |     tile_ptr  = 0+ 3 4           (+ is the top bit: the tile has a row without entries)
//        | 4 5 . 6 |     tile_desc = 0 0 10, 1 0 11   (y_offset, seg_offset, flags of lanes 0 and 1)
//                        empty_ptr = 0 3              empty_off = 0 1 3
//
// Arrays:
//   row_ptr    [rows + 1] int32 or int64: as in csr.
//   col        [nonzeros] int32: entry l sigma + s of a full tile at s omega + l. The entries after the last full tile
//              lie in the order of csr.
//   values     [nonzeros]: the same.
//   tile_ptr   [tiles + 1] uint32: the row of the first entry of each tile, and rows; tiles = ceil(nonzeros / (omega
//              sigma)). The top bit is 1 when a row from this one up to the row of the next tile has no entries.
//   tile_desc  [full tiles][packets][omega] uint32: a descriptor for each lane, from the top bit on: y_offset, the row
//              starts of the tile in the lanes before (ceil(log2(omega sigma)) bits); seg_offset, the lanes without a
//              row start that follow this one directly (ceil(log2 omega) bits); sigma flags, 1 where a row starts. The
//              first entry of a tile counts as a row start. packets = ceil(bits / 32).
//   empty_ptr  [full tiles + 1] int64: number of empty_off before each tile.
//   empty_off  int32: for tiles with the top bit, the row of each row start less the row of the tile. In other tiles
//              row start j belongs to row j of the tile.
// Bytes: (v + 4) nonzeros + p (rows + 1) + 4 (tiles + 1) + 4 full_tiles omega packets + 8 (full_tiles + 1) + 4
//   empty_off, with v bytes a value and p bytes a row pointer; on a GPU also v bytes a tile.
// Parameters:
//   omega  lanes. 0 takes 4 on the host and 32, a warp, on a GPU, which takes no other.
//   sigma  entries of a lane. 0 takes 16 on the host. On a GPU it takes the mean row length between 4 and 32, and 6
//          above 256, as the authors' program does.
// Wins: on a GPU, on rows of any lengths: all lanes have the same number of entries, and read them without knowing
//   their rows.
// Refuses: an omega other than 32 on a GPU.
// Source: W. Liu, B. Vinter, CSR5: An efficient storage format for cross-platform sparse matrix-vector multiplication,
//   ICS 2015, 339-350, doi:10.1145/2751205.2751209.
//
// On the host a lane is one of a SIMD register: step s takes entry s of all lanes, so rows that end in a lane cost no
// more than others. The authors write the first row of each tile by adding a carry to it. Here the tile in which a row
// begins writes it, so that beta y is added once, and later tiles add carries. They get the sums of neighbouring lanes
// as differences of one prefix sum, which loses digits; we add only the lanes of a row.
#include "formats/row/csr5.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "formats/engines/runs/runs.hpp"
#include "formats/engines/view/row_view.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

constexpr int usual_lanes = 4, usual_depth = 16;

// Calls f(i, row) for each row start of a full tile, where entry i of the tile is the first of a row. The first entry
// of the tile is always one. Returns whether the tile has a row without entries.
template <class F>
bool walk_tile(const SparsityPattern& pattern, const Csr5Shape& shape, std::int64_t tile, F&& f) {
  const std::int64_t begin = tile * shape.entries(), end = begin + shape.entries();
  const std::int64_t first = row_with(pattern.row_ptr, 0, pattern.rows - 1, begin);
  f(std::int64_t{0}, first);
  bool empty = false;
  for (std::int64_t r = first + 1; r < pattern.rows && pattern.row_ptr[r] <= end; ++r) {
    if (pattern.row_length(r) == 0)
      empty = true;
    else if (pattern.row_ptr[r] < end)
      f(pattern.row_ptr[r] - begin, r);
  }
  return empty;
}

// The number of row starts in tiles that have rows without entries.
std::int64_t count_offsets(const Context& context, const SparsityPattern& pattern, const Csr5Shape& shape) {
  const std::int64_t full = pattern.nonzeros / shape.entries();
  const int parts = useful_parts(context, pattern.nonzeros + pattern.rows);
  PartialSums<std::int64_t> counts(parts);
  parallel(parts, [&](int part, int) {
    const Range range = even_range(full, part, parts);
    for (std::int64_t t = range.begin; t < range.end; ++t) {
      std::int64_t starts = 0;
      if (walk_tile(pattern, shape, t, [&](std::int64_t, std::int64_t) { ++starts; })) counts[part] += starts;
    }
  });
  return counts.total();
}

struct Csr5Plan {
  std::int64_t empty_offsets;
};

template <class T>
class Csr5 final : public RowViewMatrix<T, Csr5<T>> {
 public:
  explicit Csr5(const BuildRequest<T>& request)
      : RowViewMatrix<T, Csr5<T>>(request),
        shape_(csr5_shape(request.params, usual_lanes, usual_depth)),
        tables_(request.context, request.csr.pattern, shape_,
                plan_of<Csr5Plan>(request.admission).empty_offsets,
                [](void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }),
        col_(request.context, request.csr.nonzeros()),
        values_(request.context, request.csr.nonzeros()) {
    describe(request.csr.pattern);
    transpose(request.csr.pattern.col, col_.data());
    transpose(request.csr.values, values_.data());
  }

  std::size_t bytes() const noexcept override { return tables_.bytes() + col_.bytes() + values_.bytes(); }
  std::vector<LayoutArray> layout() const override {
    return {tables_.row_ptr().visit(
                [&](auto* pointers) { return layout_array("row_ptr", pointers, this->rows() + 1); }),
            layout_array("col", col_),
            layout_array("values", values_),
            layout_array("tile_ptr", tables_.tile_ptr),
            layout_array("tile_desc", tables_.tile_desc),
            layout_array("empty_ptr", tables_.empty_ptr),
            layout_array("empty_off", tables_.empty_off)};
  }
  Csr5View<T> row_view() const { return tables_.view(values_.data(), col_.data(), this->rows(), shape_); }
  T* mutable_values() { return values_.data(); }

  void multiply(T alpha, const T* x, T beta, T* y) const {
    const Csr5View<T> a = row_view();
    multiply_tiles(
        *this->context(), tables_.row_ptr(), this->rows(), tables_.tiles(), alpha, beta, y,
        [&](std::int64_t tile) { return std::min(tile * shape_.entries(), this->nonzeros()); },
        [&](RowSums<T>& sums, const Range& tiles) {
          for (std::int64_t t = tiles.begin; t < std::min(tiles.end, a.full); ++t) add_tile(a, t, x, sums);
          if (tiles.end > a.full) add_rest(a, x, sums);
        });
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override { transpose(csr.values, values_.data()); }

 private:
  template <class N>
  void transpose(const N* from, N* to) const {
    parallel(useful_parts(*this->context(), this->nonzeros()), [&](int part, int parts) {
      const Range range = even_range(this->nonzeros(), part, parts);
      for (std::int64_t i = range.begin; i < range.end; ++i)
        to[i] = from[shape_.entry(tables_.full_tiles(), i)];
    });
  }

  void describe(const SparsityPattern& pattern) {
    const std::int64_t tiles = tables_.tiles(), full = tables_.full_tiles(), size = shape_.entries();
    tables_.tile_ptr[tiles] = static_cast<std::uint32_t>(pattern.rows);
    tables_.empty_ptr[0] = 0;
    std::vector<std::int64_t> rows;
    for (std::int64_t t = 0; t < full; ++t) {
      Csr5Lane lanes[csr5_most_lanes] = {};
      rows.clear();
      const bool empty = walk_tile(pattern, shape_, t, [&](std::int64_t i, std::int64_t row) {
        lanes[i / shape_.sigma].starts |= 0x80000000u >> (i % shape_.sigma);
        rows.push_back(row);
      });
      tables_.tile_ptr[t] = static_cast<std::uint32_t>(rows[0]) | (empty ? csr5_dirty : 0);
      std::int64_t offset = tables_.empty_ptr[t];
      if (empty)
        for (const std::int64_t row : rows)
          tables_.empty_off[offset++] = static_cast<std::int32_t>(row - rows[0]);
      tables_.empty_ptr[t + 1] = offset;
      for (int lane = 1; lane < shape_.omega; ++lane)
        lanes[lane].y_offset = lanes[lane - 1].y_offset + std::popcount(lanes[lane - 1].starts);
      for (int lane = shape_.omega - 2; lane >= 0; --lane)
        lanes[lane].seg_offset = lanes[lane + 1].starts ? 0 : lanes[lane + 1].seg_offset + 1;
      for (int lane = 0; lane < shape_.omega; ++lane)
        shape_.encode(lanes[lane], tables_.tile_desc.data() + t * shape_.packets() * shape_.omega + lane);
    }
    if (full == tiles) return;
    const std::int64_t first = row_with(pattern.row_ptr, 0, pattern.rows - 1, full * size);
    bool empty = false;
    for (std::int64_t r = first; r < pattern.rows; ++r) empty = empty || pattern.row_length(r) == 0;
    tables_.tile_ptr[full] = static_cast<std::uint32_t>(first) | (empty ? csr5_dirty : 0);
  }

  // The sums of the lanes (csr5_kernel.cpp), lane after lane, which is the order of the rows.
  static void add_tile(const Csr5View<T>& a, std::int64_t tile, const T* x, RowSums<T>& sums) {
    Csr5LaneSums<T> found;
    csr5_tile(a, tile, x, found);
    for (int l = 0; l < a.shape.omega; ++l) {
      const Csr5Lane lane = a.lane(tile, l);
      if (!lane.start(0)) sums.add(found.before[l]);
      for (int next = lane.y_offset, end = next + std::popcount(lane.starts); next < end; ++next) {
        sums.begin(a.row_of_start(tile, next));
        sums.add(found.of_start[next]);
      }
    }
  }
  // The entries after the last full tile, row after row.
  void add_rest(const Csr5View<T>& a, const T* x, RowSums<T>& sums) const {
    std::int64_t r = a.first_row(a.full);
    for (std::int64_t k = a.full * a.shape.entries(); k < this->nonzeros(); ++k) {
      while (k >= a.row_ptr(r + 1)) ++r;
      sums.begin(r);
      sums.add(a.values[k] * x[a.col[k]]);
    }
  }

  Csr5Shape shape_;
  Csr5Tables tables_;
  Buffer<std::int32_t> col_;
  Buffer<T> values_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  const Csr5Shape shape = csr5_shape(params, usual_lanes, usual_depth);
  const std::int64_t offsets = count_offsets(context, pattern, shape);
  Admission admission = Admission::accept(csr5_bytes(pattern, shape, offsets, value_bytes), pattern.nonzeros);
  keep_plan(admission, std::make_shared<const Csr5Plan>(Csr5Plan{offsets}));
  return admission;
}

constexpr ParamDoc params[] = {
    {.name = "omega",
     .doc = "lanes of a tile; 0 is 4 on the host and 32 on the device",
     .default_value = "0",
     .choices = "0|2|4|8|16|32"},
    {.name = "sigma",
     .doc = "entries of a lane; 0 is 16 on the host, and the mean row length on the "
            "device, within limits",
     .default_value = "0",
     .smallest = 0,
     .largest = csr5_most_depth}};

constexpr Kernel kernels[] = {native_host_kernel<Csr5>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::csr5{.family = "row",
                                          .id = "csr5",
                                          .title = "CSR5: transposed tiles of equal numbers of entries",
                                          .source = "Liu, Vinter, ICS 2015",
                                          .traits = {.shares_rows = true},
                                          .params = params,
                                          .kernels = kernels,
                                          .admit = admit,
                                          .device = &device_code::csr5};

}  // namespace protean::formats
