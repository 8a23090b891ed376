// TJAD, transposed jagged diagonals: the columns are sorted by their number of entries; then come the first entries of
// all columns, the second entries of all columns that have one, and so on.
//
//        | 1 . 2 . |     col_perm = 0 1 2 3
//    A = | . 3 . . |     jag_ptr  = 0 4 6
//        | . . . . |     row      = 0 1 0 3 | 3 3
//        | 4 5 . 6 |     values   = 1 3 2 6 | 4 5
//
// Arrays:
//   col_perm  [columns with entries] int32: the column at each position; most entries first, sorted stably.
//   jag_ptr   [entries of the longest column + 1] int64: number of entries before each jag. No jag is longer than the
//             one before.
//   row       [nonzeros] int32: entry k of position q lies at jag_ptr[k] + q; ascending with k.
//   values    [nonzeros].
//   split     [(t - 1) positions] int32, on a host with t threads: the entries of a column before the rows of thread
//             p + 1 at p positions + q. A small matrix has one thread.
//   order     [positions] int32, in deterministic mode on a host: the positions by ascending column.
//   sums      [rows], in deterministic mode on a host: the sums of a product that needs the old y. A lock lets one such
//             product run at a time.
// Bytes: (v + 4) nonzeros + 4 positions + 8 (longest + 1) + 4 (t - 1) positions, with v bytes a value; 4 positions + v
//   rows more in deterministic mode.
// Parameters: none.
// Wins: when x is long and columns have few entries: every element of x is read once. Sums are added to y one by one,
//   so csr is usually faster. No permutation of y is needed.
// Refuses: never.
// Source: E. Montagne, A. Ekambaram, An optimal storage format for sparse matrices, Inf. Process. Lett. 90(2), 2004,
//   doi:10.1016/j.ipl.2004.01.014; W. Abu-Sufah, A. Abdel Karim, Auto-tuning of sparse matrix-vector multiplication on
//   graphics processors, ISC 2013, LNCS 7905, doi:10.1007/978-3-642-38750-0_12. Columns without entries have no
//   position. The thread mapping is our reading. Medium confidence.
//
// On a host each thread has a block of rows and takes the entries of every column in these rows, so no two threads add
// to the same row.
#include <cmath>
#include <mutex>

#include "formats/engines/jags/jags_of_columns.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

int tjad_parts(const Context& context, const SparsityPattern& pattern) {
  return useful_parts(context, pattern.nonzeros + pattern.rows);
}

template <class T>
class Tjad final : public ColumnJagMatrix<T, std::int32_t> {
 public:
  explicit Tjad(const BuildRequest<T>& request)
      : ColumnJagMatrix<T, std::int32_t>(request, false),
        parts_(tjad_parts(*request.context, request.csr.pattern)),
        borders_(balanced_row_borders(request.csr.pattern, parts_)),
        split_(request.context, (parts_ - 1) * this->sizes().positions),
        sums_(request.context, request.context->deterministic() ? this->rows() : 0) {
    const auto a = this->jags();
    parallel(parts_, [&](int part, int) {
      if (part + 1 == parts_) return;
      for (std::int64_t q = 0; q < a.positions; ++q) {
        std::int32_t before = 0;
        a.for_column(0, q, [&](std::int64_t place) { before += a.row[place] < borders_[part + 1]; });
        split_[part * a.positions + q] = before;
      }
    });
  }
  std::size_t bytes() const noexcept override {
    return ColumnJagMatrix<T, std::int32_t>::bytes() + split_.bytes() + sums_.bytes();
  }
  std::vector<LayoutArray> layout() const override {
    auto arrays = ColumnJagMatrix<T, std::int32_t>::layout();
    arrays.push_back(layout_array("split", split_));
    return arrays;
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (!this->context()->deterministic())
      return parallel(parts_, [&](int part, int) { multiply(part, alpha, x.data, beta, y.data); });
    std::unique_lock<std::mutex> lock(sums_mutex_, std::defer_lock);
    if (beta != T(0)) lock.lock();
    T* const sums = beta == T(0) ? y.data : const_cast<T*>(sums_.data());  // guarded by the mutex
    parallel(parts_, [&](int part, int) { multiply_ordered(part, alpha, x.data, beta, y.data, sums); });
  }

 private:
  // Calls f(place) for the entries of position q in the rows of a part.
  template <class F>
  void for_piece(const ColumnJags<T, std::int32_t>& a, int part, std::int64_t q, F&& f) const {
    std::int64_t k = part == 0 ? 0 : split_[(part - 1) * a.positions + q];
    if (part + 1 == parts_) return a.for_column(0, q, f, k);
    for (const std::int64_t end = split_[part * a.positions + q]; k < end; ++k) f(a.jag_ptr[k] + q);
  }

  void multiply(int part, T alpha, const T* x, T beta, T* y) const {
    const auto a = this->jags();
    for (std::int64_t r = borders_[part]; r < borders_[part + 1]; ++r)
      y[r] = beta == T(0) ? T(0) : beta * y[r];
    for (std::int64_t q = 0; q < a.positions; ++q) {
      const T factor = alpha * x[a.col_perm[q]];
      for_piece(a, part, q, [&](std::int64_t place) { y[a.row[place]] += a.values[place] * factor; });
    }
  }

  void multiply_ordered(int part, T alpha, const T* x, T beta, T* y, T* sums) const {
    const auto a = this->jags();
    std::fill(sums + borders_[part], sums + borders_[part + 1], T(0));
    for (std::int64_t i = 0; i < a.positions; ++i) {
      const std::int64_t q = this->order()[i];
      const T factor = x[a.col_perm[q]];
      for_piece(a, part, q, [&](std::int64_t place) {
        sums[a.row[place]] = std::fma(a.values[place], factor, sums[a.row[place]]);
      });
    }
    for (std::int64_t r = borders_[part]; r < borders_[part + 1]; ++r) {
      const T scaled = alpha * sums[r];
      y[r] = beta == T(0) ? scaled : std::fma(beta, y[r], scaled);
    }
  }

  int parts_;
  std::vector<std::int64_t> borders_;  // rows of each part
  Buffer<std::int32_t> split_;
  Buffer<T> sums_;
  mutable std::mutex sums_mutex_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams&,
                std::size_t value_bytes) {
  auto plan = std::make_shared<const ColumnJagPlan>(plan_column_jags(context, pattern, 0));
  const auto positions = static_cast<std::size_t>(plan->sizes.positions);
  std::size_t bytes = column_jag_bytes<std::int32_t>(plan->sizes, false, pattern.nonzeros, value_bytes);
  bytes += 4 * positions * static_cast<std::size_t>(tjad_parts(context, pattern) - 1);
  if (context.deterministic()) bytes += 4 * positions + static_cast<std::size_t>(pattern.rows) * value_bytes;
  Admission admission = Admission::accept(bytes, pattern.nonzeros);
  keep_plan(admission, std::move(plan));
  return admission;
}

constexpr Kernel kernels[] = {native_host_kernel<Tjad>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::tjad{
    .family = "jagged",
    .id = "tjad",
    .title = "Transposed jagged diagonals: columns sorted by length",
    .source = "Montagne, Ekambaram, Inf. Process. Lett. 90(2), 2004; Abu-Sufah, Abdel Karim, ISC 2013",
    .traits = {},
    .params = {},
    .kernels = kernels,
    .admit = admit,
    .device = &device_code::tjad};

}  // namespace protean::formats
