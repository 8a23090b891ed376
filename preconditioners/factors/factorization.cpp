#include "preconditioners/factors/factorization.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "core/background.hpp"
#include "core/error.hpp"
#include "core/parallel.hpp"
#include "preconditioners/common/diagonal.hpp"
#include "preconditioners/common/entries.hpp"

namespace protean::detail {
namespace {

// Rows of U that are alike and are subtracted together: the three displacements of a node.
constexpr int most_alike = 3;

// Threads from which rows are factored level by level. Two threads took 1.4 to 2.4 times as long as one that goes
// through the rows in their order (docs/results/preconditioners.md).
constexpr int threads_worth_levels = 4;

constexpr double first_shift = 1e-3, largest_shift = 1e4;

// One attempt to factor A + shift diag(A).
template <class T>
class Factorization {
 public:
  Factorization(const ContextPtr& context, const CsrMatrix<T>& csr, const Vector<T>& diagonal,
                const SweepPattern& pattern, const FactorPlan& plan, bool with_fill, SweepValues<T>& values)
      : context_(*context),
        csr_(csr),
        diagonal_(diagonal.data()),
        n_(pattern.n),
        pattern_(pattern),
        col_(pattern.col.data()),
        mirror_(plan.mirror.data()),
        like_next_(plan.like_next.size() > 0 ? plan.like_next.data() : nullptr),
        with_fill_(with_fill),
        entries_(values.entries.data()),
        d_(values.d.data()),
        alone_(!pattern.coloured && context->threads() < threads_worth_levels),
        rows_(context, pattern.n * (!alone_ && pattern.forward.parallel(*context) ? context->threads() : 1)),
        steps_(static_cast<std::size_t>(context->threads())) {
    std::fill(rows_.begin(), rows_.end(), T(0));
    if (!pattern.coloured) return;
    place_ = Buffer<std::int32_t>(context, n_);
    for (std::int64_t k = 0; k < n_; ++k) place_[pattern.forward.order()[k]] = static_cast<std::int32_t>(k);
  }

  // The smallest of the rows found with a bad pivot; n if there is none.
  std::int64_t operator()(bool symmetric, T shift) {
    overflow_ = false;
    std::atomic<std::int64_t> bad{n_};
    const auto factor_row = [&, symmetric, shift](std::int64_t i, int part) {
      T* const x = rows_.data() + part * n_;
      CheckedSteps& steps = steps_[static_cast<std::size_t>(part)];
      const T pivot = symmetric ? cholesky_row(i, x, shift, steps) : lu_row(i, x, shift, steps);
      const T smallest = 64 * std::numeric_limits<T>::epsilon() * std::abs(diagonal_[i]);
      const bool good = (symmetric ? pivot : std::abs(pivot)) > smallest && std::isfinite(pivot) &&
                        std::isfinite(T(1) / pivot);
      // Rows that follow must stay finite; they do not count then.
      d_[i] = good ? T(1) / pivot : T(1);
      if (!good)
        for (std::int64_t seen = bad.load(); i < seen && !bad.compare_exchange_weak(seen, i);) {}
      const Range upper = pattern_.upper(i);
      // U of the pivot form: D (row of U). Rows of ic are still needed without D.
      const T factor = symmetric ? T(1) : d_[i];
      for (std::int64_t p = upper.begin; p < upper.end; ++p) entries_[p] = factor * x[col_[p]];
      if (symmetric) return;
      const Range lower = pattern_.lower(i);
      if (!all_finite(upper) || !all_finite(lower)) overflow_ = true;
    };
    if (alone_)
      for (std::int64_t i = 0; i < n_; ++i) factor_row(i, 0);
    else
      pattern_.forward.run(context_, factor_row);
    if (symmetric && bad == n_) scale_upper();
    return bad;
  }

  // Whether an entry of the factors that the last attempt left is not finite.
  bool overflow() const noexcept { return overflow_; }

 private:
  // x_j := a_ij for the columns of row i of the factors. Entries of x elsewhere are left over from other rows: they are
  // changed with the others, which costs less than to leave them out, and nobody reads them.
  void scatter(std::int64_t i, T* x, bool upper_only) const {
    if (with_fill_) {
      const Range lower = pattern_.lower(i), upper = pattern_.upper(i);
      for (std::int64_t p = lower.begin; p < lower.end; ++p) x[col_[p]] = 0;
      for (std::int64_t p = upper.begin; p < upper.end; ++p) x[col_[p]] = 0;
    }
    const std::int64_t first = csr_.pattern.row_ptr[i];
    const std::int32_t* const col = csr_.pattern.col;
    for (std::int64_t p = csr_.pattern.row_ptr[i + 1]; p-- > first && !(upper_only && col[p] < i);)
      x[col[p]] = csr_.values[p];
  }

  // l_ik := (a_ik - sum_{j<k} l_ij d_j u_jk) / d_k, u_ij := a_ij - sum_k l_ik d_k u_kj, in x for columns above i.
  // Returns the pivot of the row.
  T lu_row(std::int64_t i, T* x, T shift, CheckedSteps& steps) {
    scatter(i, x, false);
    x[i] = diagonal_[i] * (T(1) + shift);
    const Range lower = pattern_.lower(i), upper = pattern_.upper(i);
    for (std::int64_t p = lower.begin; p < lower.end;) {
      const int count = rows_alike(p, lower.end);
      T w[most_alike] = {};
      const T* row[most_alike] = {};
      for (int r = 0; r < count; ++r) {
        const std::int64_t k = col_[p + r];
        w[r] = x[k], entries_[p + r] = w[r] * d_[k];
        const Range all = pattern_.upper(k);
        row[r] = entries_ + all.begin;
        // The columns that the rows behind it do not have: the next ones of these, k + 1 the last.
        for (int s = r + 1; s < count; ++s) x[k + s - r] -= w[r] * entries_[all.end - (s - r)];
      }
      const Range last = pattern_.upper(col_[p + count - 1]);
      p += count;
      if (is_much_longer(last.size(), lower.end - p + upper.size() + 1)) {
        const auto at_diagonal = static_cast<std::int32_t>(i);
        subtract_found(count, x, w, row, last, last.size(), {col_ + p, col_ + lower.end}, steps);
        subtract_found(count, x, w, row, last, last.size(), {&at_diagonal, 1}, steps);
        subtract_found(count, x, w, row, last, last.size(), {col_ + upper.begin, col_ + upper.end}, steps);
        continue;
      }
      subtract(count, x, w, row, col_ + last.begin, last.size());
      steps.did(1 + last.size());
    }
    return x[i];
  }

  // The same for U = L^T: of row k of U, which is still without d_k, only the columns that are eliminated after i are
  // needed, which lie before its entry u_ki.
  T cholesky_row(std::int64_t i, T* x, T shift, CheckedSteps& steps) {
    scatter(i, x, !pattern_.coloured);
    T pivot = diagonal_[i] * (T(1) + shift);
    const Range lower = pattern_.lower(i), upper = pattern_.upper(i);
    for (std::int64_t p = lower.begin; p < lower.end;) {
      const int count = rows_alike(p, lower.end);
      T w[most_alike] = {};
      const T* row[most_alike] = {};
      const std::int64_t before = mirror_[p];  // that many columns of each of these rows come after i
      for (int r = 0; r < count; ++r) {
        const std::int64_t k = col_[p + r];
        row[r] = entries_ + pattern_.upper(k).begin;
        const T mine = row[r][before];
        w[r] = mine * d_[k], entries_[p + r] = w[r];
        pivot -= w[r] * mine;
      }
      const Range of_pivot = pattern_.upper(col_[p]);
      p += count;
      if (is_much_longer(before, upper.size())) {
        subtract_found(count, x, w, row, of_pivot, before, {col_ + upper.begin, col_ + upper.end}, steps);
        continue;
      }
      subtract(count, x, w, row, col_ + of_pivot.begin, before);
      steps.did(1 + before);
    }
    return pivot;
  }

  // Whether it is cheaper to look up `own` columns among `size` ones than to go through all of these. Without it a
  // dense row costs as many steps for each row that it is subtracted from.
  static bool is_much_longer(std::int64_t size, std::int64_t own) noexcept {
    constexpr std::int64_t price = 32;  // of a column that is looked up
    return size > 64 && own * price < size;
  }
  std::int64_t step_of(std::int32_t j) const noexcept { return place_.empty() ? j : place_[j]; }

  // subtract() for these columns of row i alone. The first `size` columns of the rows of U are those from
  // of_pivot.begin on, from the last one that is eliminated to the first.
  void subtract_found(int rows, T* x, const T* w, const T* const* row, const Range& of_pivot,
                      std::int64_t size, std::span<const std::int32_t> columns, CheckedSteps& steps) const {
    const std::int32_t *const first = col_ + of_pivot.begin, *const end = first + size;
    for (const std::int32_t j : columns) {
      const auto* const found = std::lower_bound(
          first, end, step_of(j), [&](std::int32_t one, std::int64_t step) { return step_of(one) > step; });
      if (found == end || *found != j) continue;
      T value = x[j];
      for (int r = 0; r < rows; ++r) value -= w[r] * row[r][found - first];
      x[j] = value;
    }
    steps.did(1 + std::ssize(columns));
  }

  // How many entries of L from p on belong to rows of U that are alike, as far as one subtraction takes them.
  int rows_alike(std::int64_t p, std::int64_t end) const {
    int count = 1;
    if (like_next_)
      while (count < most_alike && p + count < end && like_next_[col_[p + count - 1]] != 0 &&
             col_[p + count] == col_[p + count - 1] + 1)
        ++count;
    return count;
  }

  // x_j -= w[r] times the entry of column j in row[r], row after row, for the first `size` columns of these rows.
  static void subtract(int rows, T* x, const T* w, const T* const* row, const std::int32_t* col,
                       std::int64_t size) {
    switch (rows) {
      case 1:
        return subtract_rows<1>(x, w, row, col, size);
      case 2:
        return subtract_rows<2>(x, w, row, col, size);
      default:
        return subtract_rows<most_alike>(x, w, row, col, size);
    }
  }
  template <int rows>
  static void subtract_rows(T* x, const T* w, const T* const* row, const std::int32_t* col,
                            std::int64_t size) {
    for (std::int64_t q = 0; q < size; ++q) {
      T value = x[col[q]];
      for (int r = 0; r < rows; ++r) value -= w[r] * row[r][q];
      x[col[q]] = value;
    }
  }

  // The rows of U times D: the entries of L, bit for bit.
  void scale_upper() {
    parallel(useful_parts(context_, pattern_.col.size()), [&](int part, int parts) {
      const Range rows = even_range(n_, part, parts);
      for (std::int64_t i = rows.begin; i < rows.end; ++i) {
        const Range upper = pattern_.upper(i);
        for (std::int64_t p = upper.begin; p < upper.end; ++p) entries_[p] *= d_[i];
        if (!all_finite(upper)) overflow_ = true;
      }
    });
  }

  bool all_finite(const Range& entries) const noexcept {
    T sum = 0;  // NaN if one is infinite or NaN
    for (std::int64_t p = entries.begin; p < entries.end; ++p) sum += T(0) * entries_[p];
    return sum == T(0);
  }

  const Context& context_;
  const CsrMatrix<T>& csr_;
  const T* diagonal_;
  std::int64_t n_;
  const SweepPattern& pattern_;
  const std::int32_t *col_, *mirror_;
  const std::uint8_t* like_next_;  // null: no row is like the next one
  bool with_fill_;
  T *entries_, *d_;
  bool alone_;
  Buffer<T> rows_;              // n for each part
  Buffer<std::int32_t> place_;  // of each row in the order of the elimination, if that is by colours
  std::vector<CheckedSteps> steps_;
  std::atomic<bool> overflow_ = false;
};

// The first shift with which attempt(shift) finds no bad pivot; it returns the smallest row that has one, or n.
template <class T, class Attempt>
double find_shift(const FactorTask& task, Attempt attempt, std::int64_t n) {
  double shift = 0;
  for (std::int64_t bad; checkpoint(), (bad = attempt(static_cast<T>(shift))) < n;) {
    shift = shift == 0 ? first_shift : 2 * shift;
    if (shift > largest_shift)
      throw BadMatrix(
          fmt::format("{} broke down with every shift up to {}: the pivot of row {} (from 0) is {}; use "
                      "another preconditioner",
                      task.name, shift / 2, bad, task.symmetric ? "not positive" : "zero or not finite"));
  }
  return shift;
}

}  // namespace

template <class T>
void refuse_entries(const FactorTask& task, const ContextPtr& host, const Context& device,
                    const CsrMatrix<T>& there) {
  const CsrMatrix<T> csr = sorted_on_host(host, device, there);
  require_finite_entries<T>(*host, csr, task.name);
  (void)usable_diagonal<T>(task.name, host, csr, task.zero_diagonal, task.symmetric);
  throw BadMatrix(fmt::format(
      "{}: the device refuses entries of this matrix in which the host finds nothing wrong; this is "
      "an error of the library or of the device",
      task.name));
}

template <class T>
void refuse_asymmetry(std::string_view name, bool with_fill, double asymmetry) {
  if (asymmetry <= symmetry_tolerance<T>) return;
  throw BadMatrix(
      fmt::format("{} needs a symmetric matrix, but entries and their mirrored ones (0 if none is stored) "
                  "differ by up to {:.1e} of the largest entry of their rows; use {} with gmres or bicgstab",
                  name, asymmetry,
                  with_fill                 ? "ilu"
                  : name == "isai"          ? "isai-lu"
                  : name == "subdomain-ic0" ? "subdomain-ilu0"
                                            : "ilu0"));
}

template <class T>
CsrMatrix<T> sorted_on_host(const ContextPtr& host, const Context& device, const CsrMatrix<T>& there) {
  CsrMatrix<T> csr = download(host, device, there);
  return is_sorted(*host, csr.pattern) ? csr : sorted_copy(host, csr);
}

template <class T>
CsrMatrix<T> mirrored_entries(std::string_view name, bool with_fill, const ContextPtr& host,
                              const CsrMatrix<T>& csr) {
  refuse_asymmetry<T>(name, with_fill, asymmetry<T>(*host, csr));
  const SparsityPattern& p = csr.pattern;
  if (!first_asymmetry<T>(*host, p, nullptr)) return csr;
  const std::int64_t n = p.rows;
  const auto is_mirrored = [&](std::int64_t i, std::int32_t j) {
    const auto other = p.row(j);
    return std::binary_search(other.begin(), other.end(), static_cast<std::int32_t>(i));
  };
  std::vector<std::int64_t> first(static_cast<std::size_t>(n) + 1, 0);
  const int workers = useful_parts(*host, p.nonzeros);
  parallel(workers, [&](int part, int parts) {
    const Range rows = even_range(n, part, parts);
    for (std::int64_t i = rows.begin; i < rows.end; ++i)
      for (const std::int32_t j : p.row(i)) first[static_cast<std::size_t>(i) + 1] += is_mirrored(i, j);
  });
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) first[i + 1] += first[i];
  CsrBuilder<T> made(host, n, n, first.back());
  for (std::int64_t i = 0; i <= n; ++i) made.set_row_ptr(i, first[static_cast<std::size_t>(i)]);
  parallel(workers, [&](int part, int parts) {
    const Range rows = even_range(n, part, parts);
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      std::int64_t to = first[static_cast<std::size_t>(i)];
      for (std::int64_t e = p.row_ptr[i]; e < p.row_ptr[i + 1]; ++e)
        if (is_mirrored(i, p.col[e])) made.col()[to] = p.col[e], made.values()[to++] = csr.values[e];
    }
  });
  return made.freeze();
}

template <class T>
double factor(const FactorTask& task, const ContextPtr& host, const CsrMatrix<T>& csr,
              const Vector<T>& diagonal, const SweepPattern& pattern, const FactorPlan& plan, bool with_fill,
              SweepValues<T>& values) {
  Factorization<T> attempt(host, csr, diagonal, pattern, plan, with_fill, values);
  const double shift = find_shift<T>(
      task, [&](T alpha) { return attempt(task.symmetric, alpha); }, pattern.n);
  if (attempt.overflow()) refuse_overflow<T>(task.name);
  return shift;
}

template <class T>
double factor_on_device(const FactorTask& task, const ContextPtr& host, DeviceFactors<T>& factors,
                        const CsrMatrix<T>& csr) {
  const FactorRules rules{task.symmetric, task.zero_diagonal == ZeroDiagonal::one};
  const auto attempt = [&](T alpha) -> std::int64_t {
    const FactorStatus status = factors.factor(csr, rules, alpha);
    if (status.trouble & (entry_not_finite | diagonal_unusable | diagonal_negative))
      refuse_entries<T>(task, host, *factors.context(), csr);
    if (task.symmetric)
      refuse_asymmetry<T>(task.name, false, std::bit_cast<double>(status.largest_difference),
                          std::bit_cast<double>(status.least_row), *host,
                          [&] { return sorted_on_host(host, *factors.context(), csr); });
    if (status.bad_row == csr.rows() && (status.trouble & factor_overflow)) refuse_overflow<T>(task.name);
    return status.bad_row;
  };
  return find_shift<T>(task, attempt, csr.rows());
}

#define PROTEAN_INSTANTIATE(T)                                                                               \
  template void refuse_entries<T>(const FactorTask&, const ContextPtr&, const Context&,                      \
                                  const CsrMatrix<T>&);                                                      \
  template void refuse_asymmetry<T>(std::string_view, bool, double);                                         \
  template CsrMatrix<T> mirrored_entries<T>(std::string_view, bool, const ContextPtr&, const CsrMatrix<T>&); \
  template CsrMatrix<T> sorted_on_host<T>(const ContextPtr&, const Context&, const CsrMatrix<T>&);           \
  template double factor<T>(const FactorTask&, const ContextPtr&, const CsrMatrix<T>&, const Vector<T>&,     \
                            const SweepPattern&, const FactorPlan&, bool, SweepValues<T>&);                  \
  template double factor_on_device<T>(const FactorTask&, const ContextPtr&, DeviceFactors<T>&,               \
                                      const CsrMatrix<T>&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
