// BTJAD, blocked TJAD: bands of rows, each with its own transposed jagged diagonals and row numbers of 16 bits.
//
//        | 1 . 2 . |     R = 2    band_col = 0 3 6        band_jag = 0 1 2
//    A = | . 3 . . |     col_perm = 0 1 2 | 0 1 3         jag_ptr  = 0 3 6
//        | . . . . |     row      = 0 1 0 | 1 1 1
//        | 4 5 . 6 |     values   = 1 3 2 | 4 5 6
//
// Arrays:
//   band_col  [bands + 1] int64: positions before each band.
//   band_jag  [bands + 1] int64: jags before each band.
//   col_perm  [positions] int32: the column at each position of a band; columns without entries in the band have no
//             position; most entries first, sorted stably.
//   jag_ptr   [jags + 1] int64: number of entries before each jag.
//   row       [nonzeros] uint16: row - R band; entry k of position q of band b lies at jag_ptr[band_jag[b] + k] + q -
//             band_col[b]; ascending with k.
//   values    [nonzeros].
//   order     [positions] int32, in deterministic mode on a host: the positions of each band by ascending column.
// Bytes: (v + 2) nonzeros + 4 positions + 8 (jags + 1) + 16 (bands + 1), with v bytes a value; 4 positions more in
//   deterministic mode on a host.
// Parameters: R, the rows of a band.
// Wins: on a GPU, when lengths of rows vary, but not much: the sums of a band lie in shared memory, and there is no
//   padding.
// Refuses: never.
// Source: W. Abu-Sufah, A. Abdel Karim, Auto-tuning of sparse matrix-vector multiplication on graphics processors, ISC
//   2013, LNCS 7905, doi:10.1007/978-3-642-38750-0_12. Bands of rows are our reading of blocks that compute in shared
//   memory. Low confidence.
#include <cmath>

#include "formats/engines/jags/jags_of_columns.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

template <class T>
class Btjad final : public ColumnJagMatrix<T, std::uint16_t> {
 public:
  explicit Btjad(const BuildRequest<T>& request) : ColumnJagMatrix<T, std::uint16_t>(request, true) {
    // Parts of whole bands with nearly the same number of rows + entries.
    const auto a = this->jags();
    const std::int64_t total = this->nonzeros() + a.bands * a.height;
    const int parts = useful_parts(*request.context, total);
    for (std::int64_t b = 0; b <= a.bands; ++b)
      while (static_cast<int>(borders_.size()) < parts &&
             a.jag_ptr[a.jag_begin(b)] + b * a.height >=
                 even_range(total, static_cast<int>(borders_.size()), parts).begin)
        borders_.push_back(b);
    borders_.push_back(a.bands);
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const bool ordered = this->context()->deterministic();
    parallel(static_cast<int>(borders_.size()) - 1, [&](int part, int) {
      for (std::int64_t b = borders_[part]; b < borders_[part + 1]; ++b)
        ordered ? multiply<true>(b, alpha, x.data, beta, y.data)
                : multiply<false>(b, alpha, x.data, beta, y.data);
    });
  }

 private:
  template <bool ordered>
  void multiply(std::int64_t b, T alpha, const T* x, T beta, T* y) const {
    const auto a = this->jags();
    const std::int64_t first = b * a.height, rows = std::min(a.height, a.rows - first);
    T sums[highest_band];
    std::fill(sums, sums + rows, T(0));
    if (ordered)
      add_columns(a, b, x, sums);
    else
      add_jags(a, b, x, sums);
    for (std::int64_t r = 0; r < rows; ++r) {
      const T scaled = alpha * sums[r];
      T& result = y[first + r];
      result = beta == T(0) ? scaled : ordered ? std::fma(beta, result, scaled) : scaled + beta * result;
    }
  }

  // Some positions at a time, jag by jag, so that x is read once.
  static void add_jags(const ColumnJags<T, std::uint16_t>& a, std::int64_t b, const T* x, T* sums) {
    constexpr std::int64_t most = 256;
    T part_of_x[most];
    const std::int64_t positions = a.col_begin(b + 1) - a.col_begin(b), jag_end = a.jag_begin(b + 1);
    for (std::int64_t q = 0; q < positions; q += most) {
      const std::int64_t count = std::min(most, positions - q);
      const std::int32_t* const col = a.col_perm + a.col_begin(b) + q;
      for (std::int64_t i = 0; i < count; ++i) part_of_x[i] = x[col[i]];
      for (std::int64_t j = a.jag_begin(b); j < jag_end; ++j) {
        const std::int64_t at = a.jag_ptr[j] + q, here = std::min(count, a.jag_ptr[j + 1] - at);
        if (here <= 0) break;
        for (std::int64_t i = 0; i < here; ++i) sums[a.row[at + i]] += a.values[at + i] * part_of_x[i];
      }
    }
  }
  void add_columns(const ColumnJags<T, std::uint16_t>& a, std::int64_t b, const T* x, T* sums) const {
    for (std::int64_t i = a.col_begin(b); i < a.col_begin(b + 1); ++i) {
      const std::int64_t q = a.col_begin(b) + this->order()[i];
      const T factor = x[a.col_perm[q]];
      a.for_column(b, q, [&](std::int64_t place) {
        sums[a.row[place]] = std::fma(a.values[place], factor, sums[a.row[place]]);
      });
    }
  }

  std::vector<std::int64_t> borders_;  // bands of each part
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan = std::make_shared<const ColumnJagPlan>(plan_column_jags(context, pattern, params.integer("R")));
  std::size_t bytes = column_jag_bytes<std::uint16_t>(plan->sizes, true, pattern.nonzeros, value_bytes);
  if (context.deterministic()) bytes += 4 * static_cast<std::size_t>(plan->sizes.positions);
  Admission admission = Admission::accept(bytes, pattern.nonzeros);
  keep_plan(admission, std::move(plan));
  return admission;
}

constexpr ParamDoc params[] = {
    {.name = "R", .doc = "rows of a band", .default_value = "2048", .smallest = 1, .largest = highest_band}};

constexpr Kernel kernels[] = {native_host_kernel<Btjad>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::btjad{.family = "jagged",
                                           .id = "btjad",
                                           .title = "Transposed jagged diagonals of bands of rows",
                                           .source = "Abu-Sufah, Abdel Karim, ISC 2013",
                                           .traits = {},
                                           .params = params,
                                           .kernels = kernels,
                                           .admit = admit,
                                           .device = &device_code::btjad};

}  // namespace protean::formats
