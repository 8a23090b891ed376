// MGPU-CSR: csr cut into tiles with equal numbers of entries; a code of 32 bits says, for each thread of a tile, where
// rows end among its entries.
//
//        | 1 . 2 . |     threads = 2, values = 2: tiles of the entries 1 2 | 3 4 and 5 6 | . .
//    A = | . 3 . . |     row_ptr, col, values as in csr      used = 0 1 3
//        | . . . . |     limits = 0 2+ 3                      (+ is the top bit: the row began in an earlier tile)
//        | 4 5 . 6 |     code   = 10 0 0, 01 0 1 | 10 0 0, 00 1 1     (row ends of values 1 and 0; since; index)
//
// Arrays:
//   row_ptr  [rows + 1], col [nonzeros], values [nonzeros]: as in csr: the caller's own arrays.
//   limits   [tiles + 1] uint32: the row of the first entry of each tile, and the number of rows; rows without entries
//            are not counted; tiles = ceil(nonzeros / (threads values)). The top bit is 1 when that row began before
//            the tile.
//   code     [tiles threads] uint32: for each thread, which takes `values` consecutive entries. Bits 0 to 12: bit j is
//            1 when its entry j is the last of a row. Bits 13 to 19: how many threads before it is the last one up to
//            it in which a row ends; the first thread of the tile if there is none. Bits 20 to 30: the rows that end in
//            the tile before its first entry.
//   used     [rows with entries] int32: these rows, ascending; absent when all rows have entries.
// Bytes: as csr, plus 4 (tiles + 1) + 4 tiles threads + 4 used; on a GPU also v bytes per tile, with v bytes a value.
// Parameters:
//   threads  threads of a tile. 0 takes 128, the only number on a GPU.
//   values   entries of a thread. 0 takes 7 in double precision and 11 in single; odd numbers spread over the banks of
//            shared memory.
// Wins: on a GPU, for rows of any lengths: every thread has the same work, and row pointers are not read.
// Refuses: on a GPU, any number of threads other than 128.
// Source: S. Baxter, Modern GPU, segmented reduction and CSR sparse matrix times vector, 2013,
//   https://moderngpu.github.io/segreduce.html. The numbers of values by type are from memory. Medium confidence.
#include "formats/row/mgpu_csr.hpp"

#include "formats/engines/rows/csr.hpp"
#include "formats/engines/view/row_view.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

std::int64_t count_empty_rows(const Context& context, const SparsityPattern& pattern) {
  const int parts = useful_parts(context, pattern.rows);
  PartialSums<std::int64_t> counts(parts);
  parallel(parts, [&](int part, int) {
    const Range range = even_range(pattern.rows, part, parts);
    for (std::int64_t r = range.begin; r < range.end; ++r) counts[part] += pattern.row_length(r) == 0;
  });
  return counts.total();
}

// The view of row_view.hpp of csr.
template <class T>
struct CsrRows {
  const T* values;
  const SparsityPattern& pattern;
  std::int64_t positions() const { return pattern.rows; }
  std::int64_t row(std::int64_t p) const { return p; }
  std::int64_t length(std::int64_t p) const { return pattern.row_length(p); }
  template <class F>
  void for_entries(std::int64_t p, F&& f) const {
    for (std::int64_t k = pattern.row_ptr[p], end = pattern.row_ptr[p + 1]; k < end; ++k)
      f(pattern.col[k], k);
  }
};

template <class T>
class MgpuCsr final : public CsrHolder<T> {
 public:
  explicit MgpuCsr(const BuildRequest<T>& request)
      : CsrHolder<T>(request),
        shape_(code_shape(request.params, sizeof(T))),
        tiles_(shape_.tiles(request.csr.nonzeros())),
        limits_(request.context, tiles_ + 1),
        code_(request.context, tiles_ * shape_.threads) {
    const SparsityPattern& pattern = csr_.pattern;
    std::vector<std::int32_t> number;
    if (const std::int64_t empty = count_empty_rows(*request.context, pattern); empty > 0) {
      used_ = Buffer<std::int32_t>(request.context, pattern.rows - empty);
      std::int32_t next = 0;
      for (std::int64_t r = 0; r < pattern.rows; ++r) {
        number.push_back(next);
        if (pattern.row_length(r) > 0) used_[next++] = static_cast<std::int32_t>(r);
      }
      number.push_back(next);
    }
    const UsedRows used{number.empty() ? nullptr : number.data()};
    parallel(useful_parts(*request.context, pattern.nonzeros), [&](int part, int parts) {
      const Range range = even_range(tiles_ + 1, part, parts);
      for (std::int64_t t = range.begin; t < range.end; ++t) {
        limits_[t] = limit_of(pattern.row_ptr, pattern.rows, pattern.nonzeros, used, shape_, t);
        for (int i = 0; t < tiles_ && i < shape_.threads; ++i)
          code_[t * shape_.threads + i] =
              code_of(pattern.row_ptr, pattern.rows, pattern.nonzeros, used, shape_, t, i);
      }
    });
  }

  std::size_t bytes() const noexcept override {
    return csr_.bytes() + limits_.bytes() + code_.bytes() + used_.bytes();
  }
  std::vector<LayoutArray> layout() const override {
    std::vector<LayoutArray> arrays = CsrHolder<T>::layout();
    arrays.push_back(layout_array("limits", limits_));
    arrays.push_back(layout_array("code", code_));
    arrays.push_back(layout_array("used", used_));
    return arrays;
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->context()->deterministic())
      return ordered_product_of_view(*this->context(), CsrRows<T>{csr_.values, csr_.pattern},
                                     this->nonzeros(), alpha, x.data, beta, y.data);
    multiply_tiles(
        *this->context(), csr_.pattern.row_ptr, this->rows(), tiles_, alpha, beta, y.data,
        [&](std::int64_t tile) { return std::min(tile * shape_.entries(), this->nonzeros()); },
        [&](RowSums<T>& sums, const Range& tiles) {
          for (std::int64_t i = tiles.begin * shape_.threads; i < tiles.end * shape_.threads; ++i)
            add_thread(i, x.data, sums);
        });
  }

 private:
  // The entries of thread i, counted over all tiles.
  void add_thread(std::int64_t i, const T* x, RowSums<T>& sums) const {
    const std::uint32_t code = code_[i];
    std::int64_t row = (limits_[i / shape_.threads] & limit_row) + code_index(code);
    const std::int64_t begin = i * shape_.values, end = std::min(begin + shape_.values, this->nonzeros());
    for (std::int64_t k = begin; k < end; ++k) {
      sums.begin(used_.empty() ? row : used_[row]);
      sums.add(csr_.values[k] * x[csr_.pattern.col[k]]);
      row += code_ends(code) >> (k - begin) & 1;
    }
  }

  using CsrHolder<T>::csr_;
  CodeShape shape_;
  std::int64_t tiles_;
  Buffer<std::uint32_t> limits_, code_;
  Buffer<std::int32_t> used_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  return Admission::accept(
      code_bytes(pattern, code_shape(params, value_bytes), count_empty_rows(context, pattern), value_bytes),
      pattern.nonzeros);
}

constexpr ParamDoc params[] = {{.name = "threads",
                                .doc = "threads of a tile; 0 is 128",
                                .default_value = "0",
                                .smallest = 0,
                                .largest = most_code_threads},
                               {.name = "values",
                                .doc = "entries of a thread; 0 is 7 in double precision and 11 in single",
                                .default_value = "0",
                                .smallest = 0,
                                .largest = most_code_values}};

constexpr Kernel kernels[] = {native_host_kernel<MgpuCsr>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::mgpu_csr{
    .family = "row",
    .id = "mgpu-csr",
    .title = "csr in tiles of equal numbers of entries, a code for each thread",
    .source = "Baxter, Modern GPU, 2013",
    .traits = {.uses_source = true, .shares_rows = true},
    .params = params,
    .kernels = kernels,
    .admit = admit,
    .device = &device_code::mgpu_csr};

}  // namespace protean::formats
