// CSR: compressed sparse rows, the caller's own arrays used in place.
//
//        | 1 . 2 . |     row_ptr = 0 2 3 3 6
//    A = | . 3 . . |     col     = 0 2 | 1 | | 0 1 3
//        | . . . . |     values  = 1 2 | 3 | | 4 5 6
//        | 4 5 . 6 |
//
// Arrays:
//   row_ptr  [rows + 1] int32 or int64: nondecreasing, row_ptr[0] = 0, row_ptr[rows] = nnz.
//   col      [nnz] int32: distinct within a row. On the host in any order, which is the order of the sum;
//            ascending on a device and in deterministic mode.
//   values   [nnz].
// Bytes: (v + 4) nnz + p (rows + 1), with v bytes a value and p = 4 or 8 bytes a row pointer. Nothing is
//   copied: a view of the caller's arrays must outlive the matrix.
// Parameters:
//   balance  how the work is divided among the threads.
//            rows   whole rows, nearly the same number of rows + entries for each thread. Any number of
//                   threads gives the same bits.
//            merge  the same number of rows + entries for each thread. A row may be cut; its pieces are added
//                   in order.
//            auto   rows, unless one thread would then do more than 1.1 times its fair share; then merge.
//            In deterministic mode rows are never cut.
// Wins: when there are few products, or the matrix has no regularity.
// Refuses: never.
// Source: Y. Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., SIAM 2003, section 3.4,
//   doi:10.1137/1.9780898718003; merge: D. Merrill, M. Garland, Merge-based parallel sparse matrix-vector
//   multiplication, SC 2016, doi:10.1109/SC.2016.57.
//
// Kernels: native; kokkos (csr_kokkos.cpp) and mkl (csr_mkl.cpp) on the same arrays, which do not use
// `balance`.

// Registers of unknown length do not fit the four lanes of row_dot; such machines take their 128-bit set.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/row/csr.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <type_traits>

#include "formats/private/ordered-inl.hpp"
#include "formats/private/row_dot-inl.hpp"

#ifndef PROTEAN_FORMATS_CSR
#define PROTEAN_FORMATS_CSR
namespace protean::formats {
namespace {

// Entries [k_begin, k_end) of a matrix, and the rows [row_begin, row_end) that end among them. The entries
// after the end of the last row are the beginning of row row_end, whose other pieces belong to the next
// parts.
struct Piece {
  std::int64_t row_begin, row_end, k_begin, k_end;
};

template <class T, class P>
struct CsrWork {
  const P* row_ptr;
  const std::int32_t* col;
  const T* values;
  T alpha;
  const T* x;
  T beta;
  T* y;
  bool ordered;       // add as in deterministic mode
  bool lengths_vary;  // short rows of varying length, x in the cache
};

// What a piece adds to row row_end, and to x . y.
template <class T>
struct CsrCarry {
  T row = 0, dot = 0;
};

}  // namespace
}  // namespace protean::formats
#endif

HWY_BEFORE_NAMESPACE();
namespace protean::formats::HWY_NAMESPACE {
namespace {

// Where the lengths of short rows vary, every branch on a length is mispredicted, which takes longer than the
// arithmetic. Then the entries of a row are added in one simple loop, and nothing is prefetched.
template <class T, class P, bool with_dot, bool plain, bool lengths_vary>
CsrCarry<T> product_of_piece(const CsrWork<T, P>& w, const Piece& piece) {
  constexpr int shortest = lengths_vary ? 16 : 4;
  const P* HWY_RESTRICT row_ptr = w.row_ptr;
  const T* HWY_RESTRICT x = w.x;
  T* HWY_RESTRICT y = w.y;
  P k = static_cast<P>(piece.k_begin), prefetched = k;
  CsrCarry<T> carry;
  for (std::int64_t r = piece.row_begin; r < piece.row_end; ++r) {
    const P end = row_ptr[r + 1];
    if constexpr (!lengths_vary) prefetch_entries(end, prefetched, w.values, w.col);
    const T sum = row_dot<shortest>(w.values, w.col, x, k, end);
    if constexpr (plain)
      y[r] = sum;
    else
      y[r] = w.beta == T(0) ? w.alpha * sum : w.alpha * sum + w.beta * y[r];
    if constexpr (with_dot) carry.dot += x[r] * sum;
    k = end;
  }
  if (k < piece.k_end) {
    carry.row = row_dot<shortest>(w.values, w.col, x, k, static_cast<P>(piece.k_end));
    if constexpr (with_dot) carry.dot += x[piece.row_end] * carry.row;
  }
  return carry;
}

// A piece of whole rows, in deterministic mode.
template <class T, class P>
void ordered_piece(const CsrWork<T, P>& w, const Piece& piece) {
  P k = static_cast<P>(piece.k_begin), prefetched = k;
  for (std::int64_t r = piece.row_begin; r < piece.row_end; ++r) {
    const P end = w.row_ptr[r + 1];
    prefetch_entries(end, prefetched, w.values, w.col);
    store_ordered(w.alpha, ordered_dot(w.values, w.col, w.x, k, end), w.beta, w.y[r]);
    k = end;
  }
}

template <class T, class P>
CsrCarry<T> csr_product(const CsrWork<T, P>& w, const Piece& piece, bool with_dot) {
  if (w.ordered) {
    ordered_piece(w, piece);
    return {};
  }
  const auto run = [&](auto lengths_vary) {
    constexpr bool is = decltype(lengths_vary)::value;
    if (with_dot) return product_of_piece<T, P, true, true, is>(w, piece);
    if (w.alpha == T(1) && w.beta == T(0)) return product_of_piece<T, P, false, true, is>(w, piece);
    return product_of_piece<T, P, false, false, is>(w, piece);
  };
  return w.lengths_vary ? run(std::true_type()) : run(std::false_type());
}

#define PROTEAN_CSR_KERNEL(name, T, P)                                          \
  CsrCarry<T> name(const CsrWork<T, P>& w, const Piece& piece, bool with_dot) { \
    return csr_product<T, P>(w, piece, with_dot);                               \
  }
PROTEAN_CSR_KERNEL(csr_product_f64_p32, double, std::int32_t)
PROTEAN_CSR_KERNEL(csr_product_f64_p64, double, std::int64_t)
PROTEAN_CSR_KERNEL(csr_product_f32_p32, float, std::int32_t)
PROTEAN_CSR_KERNEL(csr_product_f32_p64, float, std::int64_t)
#undef PROTEAN_CSR_KERNEL

}  // namespace
}  // namespace protean::formats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

#include "formats/private/csr.hpp"
#include "formats/private/library_kernels.hpp"
#include "operators/policy/cost_model.hpp"

namespace protean::formats {
namespace {

HWY_EXPORT(csr_product_f64_p32);
HWY_EXPORT(csr_product_f64_p64);
HWY_EXPORT(csr_product_f32_p32);
HWY_EXPORT(csr_product_f32_p64);

CsrCarry<double> multiply(const CsrWork<double, std::int32_t>& w, const Piece& piece, bool with_dot) {
  return HWY_DYNAMIC_DISPATCH(csr_product_f64_p32)(w, piece, with_dot);
}
CsrCarry<double> multiply(const CsrWork<double, std::int64_t>& w, const Piece& piece, bool with_dot) {
  return HWY_DYNAMIC_DISPATCH(csr_product_f64_p64)(w, piece, with_dot);
}
CsrCarry<float> multiply(const CsrWork<float, std::int32_t>& w, const Piece& piece, bool with_dot) {
  return HWY_DYNAMIC_DISPATCH(csr_product_f32_p32)(w, piece, with_dot);
}
CsrCarry<float> multiply(const CsrWork<float, std::int64_t>& w, const Piece& piece, bool with_dot) {
  return HWY_DYNAMIC_DISPATCH(csr_product_f32_p64)(w, piece, with_dot);
}

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

std::vector<Piece> pieces_of_whole_rows(const SparsityPattern& pattern, int parts) {
  const auto borders = balanced_row_borders(pattern, parts);
  std::vector<Piece> pieces;
  for (int part = 0; part < parts; ++part)
    pieces.push_back({borders[part], borders[part + 1], pattern.row_ptr[borders[part]],
                      pattern.row_ptr[borders[part + 1]]});
  return pieces;
}

std::vector<Piece> pieces_of_equal_size(const SparsityPattern& pattern, int parts) {
  std::vector<Piece> pieces;
  std::int64_t row = 0, k = 0;
  for (int part = 0; part < parts; ++part) {
    const std::int64_t step = even_range(pattern.rows + pattern.nonzeros, part, parts).end;
    const std::int64_t row_end = rows_ended(pattern, step);
    pieces.push_back({row, row_end, k, step - row_end});
    row = row_end, k = step - row_end;
  }
  return pieces;
}

std::vector<Piece> divide_work(const SparsityPattern& pattern, int parts, const std::string& balance,
                               bool whole_rows) {
  if ((balance == "merge" || balance == "tiles") && !whole_rows) return pieces_of_equal_size(pattern, parts);
  std::vector<Piece> pieces = pieces_of_whole_rows(pattern, parts);
  if (balance == "rows" || whole_rows) return pieces;
  std::int64_t heaviest = 0;
  for (const Piece& p : pieces) heaviest = std::max(heaviest, p.row_end - p.row_begin + p.k_end - p.k_begin);
  const double share = static_cast<double>(pattern.rows + pattern.nonzeros) / parts;
  if (static_cast<double>(heaviest) > 1.1 * share) return pieces_of_equal_size(pattern, parts);
  return pieces;
}

// True when the rows are short and vary in length, and x fits the cache of a core. It is decided for the
// whole matrix, so that the sums do not depend on the number of threads. Where x does not fit the cache,
// waiting for it costs more than a mispredicted branch, and prefetching pays.
bool row_lengths_vary(const SparsityPattern& pattern, std::size_t value_bytes) {
  constexpr std::size_t cache = std::size_t{2} << 20;
  return static_cast<std::size_t>(pattern.cols) * value_bytes <= cache &&
         pattern.nonzeros < 24 * pattern.rows && row_changes(pattern) > 0.3;
}

template <class T>
class Csr final : public CsrHolder<T>, public HasApplyDot<T> {
 public:
  explicit Csr(const BuildRequest<T>& request)
      : CsrHolder<T>(request),
        pieces_(divide_work(csr_.pattern, useful_parts(*request.context, csr_.nonzeros() + csr_.rows()),
                            request.params.word("balance"), request.context->deterministic())),
        lengths_vary_(row_lengths_vary(csr_.pattern, sizeof(T))) {}

  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    *result = run(T(1), x, T(0), y, true);
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    run(alpha, x, beta, y, false);
  }

 private:
  // Returns x . y when `with_dot`; then alpha = 1 and beta = 0.
  T run(T alpha, VectorView<const T> x, T beta, VectorView<T> y, bool with_dot) const {
    return csr_.pattern.row_ptr.visit([&](auto* row_ptr) {
      const CsrWork<T, std::remove_const_t<std::remove_pointer_t<decltype(row_ptr)>>> work{
          row_ptr,      csr_.pattern.col,
          csr_.values,  alpha,
          x.data,       beta,
          y.data,       this->context()->deterministic(),
          lengths_vary_};
      const int parts = static_cast<int>(pieces_.size());
      PartialSums<CsrCarry<T>> carries(parts);
      parallel(parts, [&](int part, int) { carries[part] = multiply(work, pieces_[part], with_dot); });
      T dot = 0;
      for (int part = 0; part < parts; ++part) {
        const Piece& piece = pieces_[part];
        if (piece.row_end < csr_.rows() && row_ptr[piece.row_end] < piece.k_end)
          y.data[piece.row_end] += alpha * carries[part].row;
        dot += carries[part].dot;
      }
      return dot;
    });
  }

  using CsrHolder<T>::csr_;
  std::vector<Piece> pieces_;
  bool lengths_vary_;
};

Admission admit(const Context&, const SparsityPattern& pattern, const FormatParams&,
                std::size_t value_bytes) {
  return Admission::accept(pattern.bytes() + static_cast<std::size_t>(pattern.nonzeros) * value_bytes,
                           pattern.nonzeros);
}

constexpr ParamDoc params[] = {
    {.name = "balance",
     .doc = "work of the threads: whole rows; rows that may be cut; or cut only if one "
            "thread would do more than 1.1 times its share. tiles: on a GPU, whole rows "
            "with about the same number of rows and entries for each warp; on a host as merge",
     .default_value = "auto",
     .choices = "auto|rows|merge|tiles"}};

constexpr Kernel kernels[] = {native_host_kernel<Csr>(Sums::ordered), PROTEAN_KOKKOS_KERNEL(csr),
                              PROTEAN_MKL_KERNEL(csr)};

}  // namespace

namespace device_code {
extern const DeviceCode csr;  // csr.cu
}

extern const FormatEntry csr;
constinit const FormatEntry csr{
    .family = "row",
    .id = "csr",
    .title = "Compressed sparse rows",
    .source = "Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., SIAM 2003, section 3.4",
    .traits = {.unsorted_rows = true, .uses_source = true, .shares_rows = true},
    .params = params,
    .kernels = kernels,
    .admit = admit,
    .device = PROTEAN_DEVICE_CODE(csr)};

}  // namespace protean::formats
#endif  // HWY_ONCE
