// Sliced COO: coordinates in slices of rows, sorted by column within a slice, with a row number of 8 bits.
//
//        | 1 . 2 . |     height = 2   slice_row = 0 2 4         slice_ptr = 0 3 6
//    A = | . 3 . . |                  local_row = 0 1 0 | 1 1 1
//        | . . . . |                  col       = 0 1 2 | 0 1 3
//        | 4 5 . 6 |                  values    = 1 3 2 | 4 5 6
//
// Arrays:
//   slice_row  [slices + 1] int32: the first row of each slice, ascending from 0 to rows. A slice has at most 256 rows.
//   slice_ptr  [slices + 1] int64: the first entry of each slice, nondecreasing from 0 to nnz.
//   local_row  [nnz] uint8: row - slice_row.
//   col        [nnz] int32: nondecreasing within a slice; the rows of a column ascend.
//   values     [nnz].
// Bytes: (v + 5) nnz + 12 (slices + 1), with v bytes a value.
// Parameters:
//   height   the most rows of a slice: 1, 2, 4, ... 256.
//   entries  the rows of a group of `height` rows are cut into slices of half as many rows, a quarter, ..., until these
//            have at most that many entries on average, or a single row.
// Wins: on a GPU, when rows are short and their columns scattered, but similar in neighbouring rows: neighbouring
//   threads read neighbouring elements of x, and the sums of all rows of a slice lie in shared memory.
// Refuses: never. One thread block computes a single row with most of the entries.
// Source: H.-V. Dang, B. Schmidt, CUDA-enabled sparse matrix-vector multiplication on GPUs using atomic operations,
//   Parallel Computing 39 (2013) 737-750, doi:10.1016/j.parco.2013.09.005. The heights of slices, and the number of
//   sums for each row, are our reading.
//
// Each row is summed in the order of its columns.
#include "formats/coordinate/scoo.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "formats/engines/view/entry_view.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

using SliceRows = std::vector<std::int32_t>;

SliceRows cut_slices(const SparsityPattern& pattern, const ScooRule& rule) {
  SliceRows first{0};
  for (std::int64_t r = 0; r < pattern.rows; r += rule.height) {
    const std::int64_t end = std::min(pattern.rows, r + rule.height);
    const std::int64_t height = rule.slice_height(pattern.row_ptr[end] - pattern.row_ptr[r]);
    for (std::int64_t at = r; at < end; at += height)
      first.push_back(static_cast<std::int32_t>(std::min(end, at + height)));
  }
  return first;
}

template <class T>
struct ScooEntries {
  std::int64_t slices;
  const std::int32_t* slice_row;
  const std::int64_t* slice_ptr;
  const std::uint8_t* local_row;
  const std::int32_t* col;
  const T* values;
  int blocks() const { return static_cast<int>(slices); }
  Range rows(int s) const { return {slice_row[s], slice_row[s + 1]}; }
  template <class F>
  void for_entries(int s, F&& f) const {
    for (std::int64_t k = slice_ptr[s]; k < slice_ptr[s + 1]; ++k) f(slice_row[s] + local_row[k], col[k], k);
  }
};

template <class T>
class Scoo final : public AssembledMatrix<T>, public HasLayout {
 public:
  explicit Scoo(const BuildRequest<T>& request)
      : AssembledMatrix<T>(request),
        slice_row_(request.context, static_cast<std::int64_t>(plan_of<SliceRows>(request.admission).size())),
        slice_ptr_(request.context, slice_row_.size()),
        local_row_(request.context, request.csr.nonzeros()),
        col_(request.context, request.csr.nonzeros()),
        values_(request.context, request.csr.nonzeros()) {
    const SparsityPattern& pattern = request.csr.pattern;
    const SliceRows& first = plan_of<SliceRows>(request.admission);
    std::copy(first.begin(), first.end(), slice_row_.begin());
    for (std::int64_t s = 0; s < slice_row_.size(); ++s) slice_ptr_[s] = pattern.row_ptr[slice_row_[s]];
    for_blocks_of_view(*request.context, entries(), this->nonzeros() + this->rows(), [&](int s) {
      struct Entry {
        std::int64_t order, k;  // column, then row
      };
      std::vector<Entry> sorted;
      for (std::int64_t r = slice_row_[s]; r < slice_row_[s + 1]; ++r)
        for (std::int64_t k = pattern.row_ptr[r]; k < pattern.row_ptr[r + 1]; ++k)
          sorted.push_back({std::int64_t{pattern.col[k]} * scoo_highest + r - slice_row_[s], k});
      std::sort(sorted.begin(), sorted.end(),
                [](const Entry& a, const Entry& b) { return a.order < b.order; });
      std::int64_t to = slice_ptr_[s];
      for (const Entry& entry : sorted) {
        local_row_[to] = static_cast<std::uint8_t>(entry.order % scoo_highest);
        col_[to] = static_cast<std::int32_t>(entry.order / scoo_highest);
        values_[to++] = request.csr.values[entry.k];
      }
    });
    // Parts of the threads: whole slices with nearly the same number of rows + entries.
    const int parts = useful_parts(*request.context, this->nonzeros() + this->rows());
    borders_ = {0};
    for (int part = 1; part < parts; ++part) {
      const std::int64_t wanted = even_range(this->nonzeros() + this->rows(), part, parts).begin;
      std::int64_t s = borders_.back();
      while (s < entries().slices && slice_ptr_[s] + slice_row_[s] < wanted) ++s;
      borders_.push_back(s);
    }
    borders_.push_back(entries().slices);
  }

  CsrMatrix<T> to_csr() const override {
    return csr_from_entries<T>(this->context(), this->rows(), this->cols(), this->nonzeros(), entries());
  }
  void diagonal(VectorView<T> d) const override {
    diagonal_from_entries(*this->context(), entries(), this->nonzeros(), d);
  }
  std::size_t bytes() const noexcept override {
    return slice_row_.bytes() + slice_ptr_.bytes() + local_row_.bytes() + col_.bytes() + values_.bytes();
  }
  std::vector<LayoutArray> layout() const override {
    return {layout_array("slice_row", slice_row_), layout_array("slice_ptr", slice_ptr_),
            layout_array("local_row", local_row_), layout_array("col", col_),
            layout_array("values", values_)};
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    update_from_entries(*this->context(), entries(), csr, values_.data());
  }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->context()->deterministic())
      multiply<true>(alpha, x.data, beta, y.data);
    else
      multiply<false>(alpha, x.data, beta, y.data);
  }

 private:
  ScooEntries<T> entries() const {
    return {slice_row_.size() - 1, slice_row_.data(), slice_ptr_.data(),
            local_row_.data(),     col_.data(),       values_.data()};
  }

  template <bool ordered>
  void multiply(T alpha, const T* x, T beta, T* y) const {
    parallel(static_cast<int>(borders_.size()) - 1, [&](int part, int) {
      for (std::int64_t s = borders_[part]; s < borders_[part + 1]; ++s) {
        const std::int64_t first = slice_row_[s], rows = slice_row_[s + 1] - first;
        T sums[scoo_highest];
        std::fill(sums, sums + rows, T(0));
        for (std::int64_t k = slice_ptr_[s]; k < slice_ptr_[s + 1]; ++k) {
          T& sum = sums[local_row_[k]];
          sum = ordered ? std::fma(values_[k], x[col_[k]], sum) : sum + values_[k] * x[col_[k]];
        }
        for (std::int64_t r = 0; r < rows; ++r) {
          T& result = y[first + r];
          const T scaled = alpha * sums[r];
          result = beta == T(0) ? scaled : ordered ? std::fma(beta, result, scaled) : scaled + beta * result;
        }
      }
    });
  }

  Buffer<std::int32_t> slice_row_;
  Buffer<std::int64_t> slice_ptr_;
  Buffer<std::uint8_t> local_row_;
  Buffer<std::int32_t> col_;
  Buffer<T> values_;
  std::vector<std::int64_t> borders_;
};

Admission admit(const Context&, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto first = std::make_shared<SliceRows>(cut_slices(pattern, scoo_rule(params)));
  Admission admission = Admission::accept(
      static_cast<std::size_t>(pattern.nonzeros) * (value_bytes + 5) + 12 * first->size(), pattern.nonzeros);
  keep_plan(admission, std::move(first));
  return admission;
}

constexpr ParamDoc params[] = {{.name = "height",
                                .doc = "the most rows of a slice, rounded down to a power of two",
                                .default_value = "256",
                                .smallest = 1,
                                .largest = scoo_highest},
                               {.name = "entries",
                                .doc = "slices with more entries on average are made lower",
                                .default_value = "8192",
                                .smallest = 1,
                                .largest = 1 << 30}};

constexpr Kernel kernels[] = {native_host_kernel<Scoo>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::scoo{.family = "coordinate",
                                          .id = "scoo",
                                          .title = "Coordinates of slices of rows, sorted by column",
                                          .source = "Dang, Schmidt, Parallel Computing 39 (2013)",
                                          .traits = {},
                                          .params = params,
                                          .kernels = kernels,
                                          .admit = admit,
                                          .device = &device_code::scoo};

}  // namespace protean::formats
