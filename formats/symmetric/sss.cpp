// SSS, symmetric sparse skyline: the entries below the diagonal by rows, and the diagonal as a vector. The entries
// above the diagonal follow from symmetry.
//
//        | 5 1 . 3 |     row_ptr  = 0 0 1 1 3
//    A = | 1 . 2 . |     col      =   | 0 | 1 | 0        a_10, a_21, a_30; each stands for two entries of A
//        | . 2 6 . |     values   =   | 1 | 2 | 3
//        | 3 . . 7 |     diagonal = 5 0 6 7
//                        stored   = 1 0 1 1              a_11 is no entry
//
// Arrays:
//   row_ptr   [rows + 1] int32 or int64, as wide as the row pointers of the CSR matrix it is built from: nondecreasing
//             from 0 to n, the number of entries below the diagonal, (nnz - entries of the diagonal) / 2.
//   col       [n] int32: below the number of their row, ascending within a row.
//   values    [n].
//   diagonal  [rows]: 0 if the matrix has no such entry.
//   stored    [(rows + 7) / 8] bits, only when the diagonal has gaps: 1 if a_rr is an entry.
//   windows   workspace, on a host with t > 1 threads: each thread owns some rows, and has a window of y for earlier
//             rows that its entries also add to: from the lowest column of its entries to its first row. The windows
//             are added to y in the order of the threads, so t threads always give the same bits.
//   sums      [rows] in deterministic mode, instead of the windows: the sums of a product that needs the old y.
// Bytes: (v + 4) n + p (rows + 1) + v rows, with v bytes a value and p = 4 or 8 bytes a row pointer; (rows + 7) / 8
//   when the diagonal has gaps; v for each row of a window, or v rows in deterministic mode. About half of csr.
// Parameters: none.
// Wins: for symmetric matrices that are larger than the caches, since only half of the entries are read. Windows cost
//   least if the band is narrow.
// Refuses: a matrix that is not square or not symmetric to the bit, and values that would break the symmetry (0 and -0
//   differ). The reason names an entry.
// Source: Y. Saad, SPARSKIT: a basic tool kit for sparse matrix computations, 1994 (format SSS);
//   T. Gkountouvas, V. Karakasis, K. Kourtis, G. Goumas, N. Koziris, Improving the performance of the symmetric sparse
//   matrix-vector multiplication in multicore, IPDPS 2013, doi:10.1109/IPDPS.2013.43: windows of y for each thread.
//
// In deterministic mode a row is summed in ascending columns with any number of threads: each thread adds all entries
// of its rows, and reads those rows of other threads again that reach its columns. Products that use a workspace run
// one after another.
#define PROTEAN_WITHOUT_AVX512  // it gains nothing: see core/simd.hpp
#include "formats/simd.hpp"
// (Highway compiles this file once for each instruction set.)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/symmetric/sss.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <vector>

#include "core/bisect.hpp"
#include "formats/engines/rows/row_dot-inl.hpp"
#include "formats/engines/view/ordered-inl.hpp"

#ifndef PROTEAN_FORMATS_SSS
#define PROTEAN_FORMATS_SSS
namespace protean::formats {
namespace {

// Rows [begin, end) of a thread, whose columns begin at `low`; low is at most begin.
struct SssShare {
  std::int64_t begin = 0, end = 0, low = 0;
};

template <class T, class P>
struct SssArrays {
  const P* row_ptr;
  const std::int32_t* col;
  const T* values;
  const T* diagonal;
  const std::uint8_t* stored;  // null: the whole diagonal

  bool has_diagonal(std::int64_t r) const { return !stored || (stored[r / 8] >> (r % 8) & 1); }
};

template <class T>
struct SssVectors {
  T alpha;
  const T* x;
  T beta;
  T* y;
};

}  // namespace
}  // namespace protean::formats
#endif

HWY_BEFORE_NAMESPACE();
namespace protean::formats::HWY_NAMESPACE {
namespace {

// y of the rows of a share from its own entries, and its window.
template <class T, class P>
HWY_INLINE void sss_share(const SssArrays<T, P>& a, const SssShare& share, const SssVectors<T>& v,
                          T* HWY_RESTRICT window) {
  const P* HWY_RESTRICT row_ptr = a.row_ptr;
  const std::int32_t* HWY_RESTRICT col = a.col;
  const T *HWY_RESTRICT values = a.values, *HWY_RESTRICT x = v.x;
  T* HWY_RESTRICT y = v.y;
  std::fill(window, window + (share.begin - share.low), T(0));
  P k = row_ptr[share.begin], prefetched = k;
  for (std::int64_t r = share.begin; r < share.end; ++r) {
    const P end = row_ptr[r + 1];
    prefetch_entries(end, prefetched, values, col);
    const T factor = v.alpha * x[r];
    T sum = a.has_diagonal(r) ? a.diagonal[r] * x[r] : T(0), other = 0;
    for (; k < end && col[k] < share.begin; ++k) {
      const std::int32_t c = col[k];
      T& sum_of_c = window[c - share.low];
      sum = add_product(values[k], x[c], sum), sum_of_c = add_product(values[k], factor, sum_of_c);
    }
    // Two sums, because each addition waits for the one before. The columns of a row are distinct.
    for (; k + 2 <= end; k += 2) {
      const std::int32_t c = col[k], d = col[k + 1];
      const T one = values[k], two = values[k + 1], y_c = y[c], y_d = y[d];
      sum = add_product(one, x[c], sum), other = add_product(two, x[d], other);
      y[c] = add_product(one, factor, y_c), y[d] = add_product(two, factor, y_d);
    }
    for (; k < end; ++k) {
      const std::int32_t c = col[k];
      sum = add_product(values[k], x[c], sum), y[c] = add_product(values[k], factor, y[c]);
    }
    const T scaled = v.alpha * (sum + other);
    y[r] = v.beta == T(0) ? scaled : add_product(v.beta, y[r], scaled);
  }
}

// Calls f(row, col, place) for all entries in the rows of share `i`; the columns of a row ascend. `size` is the place
// of the diagonal's first value. Not HWY_INLINE: it is called outside of the code of a target, too.
template <class T, class P, class F>
void for_sss_entries(const SssArrays<T, P>& a, const SssShare* shares, int count, int i, std::int64_t size,
                     F f) {
  const SssShare& mine = shares[i];
  for (std::int64_t r = mine.begin; r < mine.end; ++r) {
    const auto row = static_cast<std::int32_t>(r);
    P k = a.row_ptr[r];
    const P end = a.row_ptr[r + 1];
    for (P j = k; j < end; ++j) f(row, a.col[j], static_cast<std::int64_t>(j));
    if (a.has_diagonal(r)) f(row, row, size + r);
    k = first_where(k, end, [&](P j) { return a.col[j] >= mine.begin; });
    for (; k < end; ++k) f(a.col[k], row, static_cast<std::int64_t>(k));
  }
  for (int later = i + 1; later < count; ++later) {
    if (shares[later].low >= mine.end) continue;
    for (std::int64_t r = shares[later].begin; r < shares[later].end; ++r) {
      const P end = a.row_ptr[r + 1];
      P k = first_where(a.row_ptr[r], end, [&](P j) { return a.col[j] >= mine.begin; });
      for (; k < end && a.col[k] < mine.end; ++k)
        f(a.col[k], static_cast<std::int32_t>(r), static_cast<std::int64_t>(k));
    }
  }
}

// The rows of share i in deterministic mode. `sums` may be y when beta is 0. values and diagonal lie in one array.
template <class T, class P>
HWY_INLINE void sss_ordered(const SssArrays<T, P>& a, const SssShare* shares, int count, int i,
                            std::int64_t size, const SssVectors<T>& v, T* sums) {
  const SssShare& mine = shares[i];
  std::fill(sums + mine.begin, sums + mine.end, T(0));
  for_sss_entries(a, shares, count, i, size,
                  [&](std::int32_t row, std::int32_t col, std::int64_t place)
                      HWY_ATTR { sums[row] = std::fma(a.values[place], v.x[col], sums[row]); });
  for (std::int64_t r = mine.begin; r < mine.end; ++r) store_ordered(v.alpha, sums[r], v.beta, v.y[r]);
}

#define PROTEAN_SSS(T, P, name)                                                                              \
  void share_##name(const SssArrays<T, P>& a, const SssShare& share, const SssVectors<T>& v, T* window) {    \
    sss_share(a, share, v, window);                                                                          \
  }                                                                                                          \
  void ordered_##name(const SssArrays<T, P>& a, const SssShare* shares, int count, int i, std::int64_t size, \
                      const SssVectors<T>& v, T* sums) {                                                     \
    sss_ordered(a, shares, count, i, size, v, sums);                                                         \
  }
PROTEAN_SSS(double, std::int32_t, f64_p32)
PROTEAN_SSS(double, std::int64_t, f64_p64)
PROTEAN_SSS(float, std::int32_t, f32_p32)
PROTEAN_SSS(float, std::int64_t, f32_p64)
#undef PROTEAN_SSS

}  // namespace
}  // namespace protean::formats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <memory>
#include <mutex>

#include "formats/engines/view/entry_view.hpp"
#include "formats/entries.hpp"
#include "formats/symmetric/sss.hpp"

namespace protean::formats {
namespace {

#define PROTEAN_SSS(T, P, name)                                                                           \
  HWY_EXPORT(share_##name);                                                                               \
  HWY_EXPORT(ordered_##name);                                                                             \
  void run_share(const SssArrays<T, P>& a, const SssShare& share, const SssVectors<T>& v, T* window) {    \
    HWY_DYNAMIC_DISPATCH(share_##name)(a, share, v, window);                                              \
  }                                                                                                       \
  void run_ordered(const SssArrays<T, P>& a, const SssShare* shares, int count, int i, std::int64_t size, \
                   const SssVectors<T>& v, T* sums) {                                                     \
    HWY_DYNAMIC_DISPATCH(ordered_##name)(a, shares, count, i, size, v, sums);                             \
  }
PROTEAN_SSS(double, std::int32_t, f64_p32)
PROTEAN_SSS(double, std::int64_t, f64_p64)
PROTEAN_SSS(float, std::int32_t, f32_p32)
PROTEAN_SSS(float, std::int64_t, f32_p64)
#undef PROTEAN_SSS

// What admit() finds in the pattern.
struct SssPlan {
  std::vector<SssShare> shares;
  std::int64_t size = 0;    // entries below the diagonal
  bool gaps = false;        // of the diagonal
  std::int64_t window = 0;  // rows of all windows
};

// The entries of row r below the diagonal; they come first.
std::int64_t below_diagonal(const SparsityPattern& p, std::int64_t r) {
  const auto row = p.row(r);
  return std::lower_bound(row.begin(), row.end(), static_cast<std::int32_t>(r)) - row.begin();
}

std::shared_ptr<SssPlan> plan_of_pattern(const Context& context, const SparsityPattern& p) {
  auto plan = std::make_shared<SssPlan>();
  const int parts = useful_parts(context, p.nonzeros + p.rows);
  // Row pointers of the half, for shares of equal work.
  std::vector<std::int64_t> row_ptr(static_cast<std::size_t>(p.rows) + 1);
  std::vector<char> gaps(static_cast<std::size_t>(parts));
  parallel(parts, [&](int part, int) {
    const Range range = even_range(p.rows, part, parts);
    for (std::int64_t r = range.begin; r < range.end; ++r) {
      const std::int64_t below = below_diagonal(p, r);
      row_ptr[static_cast<std::size_t>(r) + 1] = below;
      if (below == p.row_length(r) || p.row(r)[static_cast<std::size_t>(below)] != r)
        gaps[static_cast<std::size_t>(part)] = 1;
    }
  });
  plan->gaps = std::find(gaps.begin(), gaps.end(), 1) != gaps.end();
  for (std::size_t r = 0; r + 1 < row_ptr.size(); ++r) row_ptr[r + 1] += row_ptr[r];
  plan->size = row_ptr.back();
  SparsityPattern half;
  half.rows = p.rows, half.cols = p.cols, half.nonzeros = plan->size, half.row_ptr.p64 = row_ptr.data();
  const std::vector<std::int64_t> borders = balanced_row_borders(half, parts);
  for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
    SssShare share{borders[i], borders[i + 1], borders[i]};
    for (std::int64_t r = share.begin; r < share.end; ++r)
      if (p.row_length(r) > 0) share.low = std::min<std::int64_t>(share.low, p.row(r).front());
    plan->window += share.begin - share.low;
    plan->shares.push_back(share);
  }
  return plan;
}

template <class T>
void require_symmetric(const Context& context, const FormatEntry& entry, const CsrMatrix<T>& csr) {
  if (const auto found = first_asymmetry(context, csr.pattern, csr.values))
    throw FormatRefused(entry.id, refusal_of_entry(*found));
}

template <class T, class P>
struct SssEntries {
  SssArrays<T, P> arrays;
  const std::vector<SssShare>& shares;
  std::int64_t size;
  const T* values;
  int blocks() const { return static_cast<int>(shares.size()); }
  Range rows(int b) const {
    const SssShare& share = shares[static_cast<std::size_t>(b)];
    return {share.begin, share.end};
  }
  template <class F>
  void for_entries(int b, F&& f) const {
    HWY_STATIC_DISPATCH(for_sss_entries)(arrays, shares.data(), blocks(), b, size, std::ref(f));
  }
};

template <class T, class P>
class Sss final : public AssembledMatrix<T>, public HasApplyDot<T>, public HasLayout {
 public:
  explicit Sss(const BuildRequest<T>& request) : Sss(request, plan_of<SssPlan>(request.admission)) {}

  CsrMatrix<T> to_csr() const override {
    return csr_from_entries<T>(this->context(), this->rows(), this->cols(), this->nonzeros(), entries(),
                               sizeof(P) == 8);
  }
  std::size_t bytes() const noexcept override {
    return row_ptr_.bytes() + col_.bytes() + values_.bytes() + stored_.bytes() + work_.bytes();
  }
  std::vector<LayoutArray> layout() const override {
    return {layout_array("row_ptr", row_ptr_), layout_array("col", col_),
            layout_array("values", values_.data(), size_),
            layout_array("diagonal", values_.data() + size_, this->rows()), layout_array("stored", stored_)};
  }
  void diagonal(VectorView<T> d) const override {
    copy_array(*this->context(), values_.data() + size_, d.size, d.data);
  }
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    *result = multiply({T(1), x.data, T(0), y.data}, true);
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    require_symmetric(*this->context(), this->entry(), csr);
    fill(csr);
  }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const SssVectors<T> vectors{alpha, x.data, beta, y.data};
    if (this->context()->deterministic())
      multiply_ordered(vectors);
    else
      multiply(vectors, false);
  }

 private:
  Sss(const BuildRequest<T>& request, const SssPlan& plan)
      : AssembledMatrix<T>(request), shares_(plan.shares), size_(plan.size) {
    require_symmetric(*request.context, request.entry, request.csr);
    const ContextPtr& context = request.context;
    const SparsityPattern& p = request.csr.pattern;
    row_ptr_ = Buffer<P>(context, p.rows + 1), col_ = Buffer<std::int32_t>(context, size_);
    values_ = Buffer<T>(context, size_ + p.rows);
    stored_ = Buffer<std::uint8_t>(context, plan.gaps ? (p.rows + 7) / 8 : 0);
    work_ = Buffer<T>(context, context->deterministic() ? p.rows : plan.window);
    row_ptr_[0] = 0;
    for_shares([&](const SssShare& share) {
      for (std::int64_t r = share.begin; r < share.end; ++r)
        row_ptr_[r + 1] = static_cast<P>(below_diagonal(p, r));
    });
    for (std::int64_t r = 0; r < p.rows; ++r) row_ptr_[r + 1] += row_ptr_[r];
    for_shares([&](const SssShare& share) {
      for (std::int64_t r = share.begin; r < share.end; ++r) {
        const auto row = p.row(r);
        std::copy_n(row.begin(), row_ptr_[r + 1] - row_ptr_[r], col_.data() + row_ptr_[r]);
      }
    });
    // A byte has the bits of rows of one thread or of two.
    for (std::int64_t b = 0; b < stored_.size(); ++b) {
      unsigned bits = 0;
      for (std::int64_t r = 8 * b; r < std::min(8 * b + 8, p.rows); ++r)
        bits |= unsigned{diagonal_entry(p, r) >= 0} << (r - 8 * b);
      stored_[b] = static_cast<std::uint8_t>(bits);
    }
    fill(request.csr);
  }

  // The place of a_rr in the CSR matrix; -1: it is not an entry.
  std::int64_t diagonal_entry(const SparsityPattern& p, std::int64_t r) const {
    const std::int64_t k = p.row_ptr[r] + row_ptr_[r + 1] - row_ptr_[r];
    return k < p.row_ptr[r + 1] && p.col[k] == r ? k : -1;
  }

  template <class Body>
  void for_shares(Body body) const {
    parallel(static_cast<int>(shares_.size()),
             [&](int part, int) { body(shares_[static_cast<std::size_t>(part)]); });
  }

  void fill(const CsrMatrix<T>& csr) {
    for_shares([&](const SssShare& share) {
      for (std::int64_t r = share.begin; r < share.end; ++r) {
        const std::int64_t k = diagonal_entry(csr.pattern, r);
        std::copy_n(csr.values + csr.pattern.row_ptr[r], row_ptr_[r + 1] - row_ptr_[r],
                    values_.data() + row_ptr_[r]);
        values_[size_ + r] = k < 0 ? T(0) : csr.values[k];
      }
    });
  }

  SssArrays<T, P> arrays() const {
    return {row_ptr_.data(), col_.data(), values_.data(), values_.data() + size_,
            stored_.empty() ? nullptr : stored_.data()};
  }
  SssEntries<T, P> entries() const { return {arrays(), shares_, size_, values_.data()}; }

  // Returns x . y when it is asked for.
  T multiply(const SssVectors<T>& v, bool with_dot) const {
    const int parts = static_cast<int>(shares_.size());
    std::unique_lock<std::mutex> lock(work_mutex_, std::defer_lock);
    if (!work_.empty()) lock.lock();
    T* const work = const_cast<T*>(work_.data());
    parallel(parts, [&](int part, int) {
      T* window = work;
      for (int i = 0; i < part; ++i)
        window += shares_[static_cast<std::size_t>(i)].begin - shares_[static_cast<std::size_t>(i)].low;
      run_share(arrays(), shares_[static_cast<std::size_t>(part)], v, window);
    });
    if (work_.empty() && !with_dot) return T(0);
    PartialSums<T> dots(parts);
    parallel(parts, [&](int part, int) {
      const SssShare& mine = shares_[static_cast<std::size_t>(part)];
      const T* window = work;
      for (const SssShare& other : shares_) {
        const std::int64_t begin = std::max(mine.begin, other.low), end = std::min(mine.end, other.begin);
        for (std::int64_t r = begin; r < end; ++r) v.y[r] += window[r - other.low];
        window += other.begin - other.low;
      }
      if (!with_dot) return;
      T sum = 0;
      for (std::int64_t r = mine.begin; r < mine.end; ++r) sum += v.x[r] * v.y[r];
      dots[part] = sum;
    });
    return dots.total();
  }

  void multiply_ordered(const SssVectors<T>& v) const {
    std::unique_lock<std::mutex> lock(work_mutex_, std::defer_lock);
    if (v.beta != T(0)) lock.lock();
    T* const sums = v.beta == T(0) ? v.y : const_cast<T*>(work_.data());
    const int parts = static_cast<int>(shares_.size());
    parallel(parts,
             [&](int part, int) { run_ordered(arrays(), shares_.data(), parts, part, size_, v, sums); });
  }

  std::vector<SssShare> shares_;
  std::int64_t size_;
  Buffer<P> row_ptr_;
  Buffer<std::int32_t> col_;
  Buffer<T> values_;  // values, diagonal
  Buffer<std::uint8_t> stored_;
  Buffer<T> work_;  // windows, or sums
  mutable std::mutex work_mutex_;
};

template <class T>
std::unique_ptr<AssembledMatrix<T>> make(const BuildRequest<T>& request) {
  if (request.csr.pattern.row_ptr.width() == 4) return std::make_unique<Sss<T, std::int32_t>>(request);
  return std::make_unique<Sss<T, std::int64_t>>(request);
}

// Of the pattern; the maker looks at the values.
Admission admit(const Context& context, const SparsityPattern& p, const FormatParams&,
                std::size_t value_bytes) {
  if (p.rows != p.cols) return Admission::refuse(refusal_of_shape(p));
  if (const auto found = first_asymmetry<double>(context, p, nullptr))
    return Admission::refuse(refusal_of_entry(*found));
  auto plan = plan_of_pattern(context, p);
  const auto rows = static_cast<std::size_t>(p.rows), size = static_cast<std::size_t>(plan->size);
  const std::size_t work = context.deterministic() ? rows : static_cast<std::size_t>(plan->window);
  Admission admission = Admission::accept(size * (value_bytes + 4) + (rows + 1) * p.row_ptr.width() +
                                              (rows + work) * value_bytes + (plan->gaps ? (rows + 7) / 8 : 0),
                                          plan->size + p.rows);
  keep_plan(admission, std::move(plan));
  return admission;
}

constexpr Kernel kernels[] = {{"native", true, false, {}, make<double>, make<float>, {}, true, true}};

}  // namespace

std::string refusal_of_shape(const SparsityPattern& p) {
  return fmt::format("the matrix is {} x {}; this format holds symmetric matrices only", p.rows, p.cols);
}

std::string refusal_of_entry(const AsymmetricEntry& entry) {
  const char* what =
      entry.without_mirror
          ? "there is an entry in row {}, column {} (from 0) and none in row {}, column {}; this "
            "format holds symmetric matrices only"
          : "the entries in row {}, column {} (from 0) and in row {}, column {} differ; this format "
            "holds symmetric matrices only";
  return fmt::format(fmt::runtime(what), entry.row, entry.col, entry.col, entry.row);
}

constinit const FormatEntry entries::sss{.family = "symmetric",
                                         .id = "sss",
                                         .title = "Symmetric sparse skyline: the lower half and the diagonal",
                                         .source = "Saad, SPARSKIT, 1994; Gkountouvas et al., IPDPS 2013",
                                         .traits = {.symmetric_only = true, .square_only = true},
                                         .params = {},
                                         .kernels = kernels,
                                         .admit = admit,
                                         .device = &device_code::sss};

}  // namespace protean::formats
#endif  // HWY_ONCE
