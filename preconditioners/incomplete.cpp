// Incomplete factors: ic0, ic: M = L L^T (Meijerink and van der Vorst, Math. Comp. 31 (1977) 148); ilu0, ilu: M = L U.
// Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., SIAM 2003, section 10.3. An entry of the factors is kept
// where its level of fill is at most `fill`: 0 for entries of A, else the smallest lev(i,k) + lev(k,j) + 1 over the
// pivots k that make it (algorithm 10.5). M agrees with A in all kept entries.
//
// Both are stored as M = (I + L) D^-1 (I + U): L strictly lower, U strictly upper, D^-1 the pivots. For ic U = L^T
// bit for bit, so M is symmetric; L L^T of the literature is ((I + L) D^-1/2) (D^-1/2 (I + L^T)).
//
// Breakdown: a pivot of ic that is not positive, or of ilu that is zero, both up to 64 eps |a_ii|, or one that is not
// finite or has an inverse that is not. Then A + alpha diag(A) is factored, alpha = 0.001, doubled until it works
// (Manteuffel, Math. Comp. 34 (1980) 473; Lin and More, SIAM J. Sci. Comput. 21 (1999) 24).
//
// Memory: 4 bytes and a value for each kept entry off the diagonal, 24 bytes and two values a row; solve sweeps: two values a
// row more. Solves by levels, on a host with several threads where that is faster: 4 bytes an entry and 40 bytes a row more. While it
// is set up again, the values twice, and 4 n bytes for each thread.
//
// On a device the host factors, and keeps the pattern of the factors: 4 bytes an entry, 24 a row. The device gets the factors in
// the order of its solves (device_sweeps.hpp). New values go to the same addresses.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/statistics.hpp"
#include "preconditioners/by_solving.hpp"
#include "preconditioners/device_sweeps.hpp"
#include "preconditioners/diagonal.hpp"
#include "preconditioners/entries.hpp"
#include "preconditioners/level_solve.hpp"
#include "preconditioners/makers.hpp"
#include "preconditioners/sweeps.hpp"

namespace protean::detail {
namespace {

constexpr double first_shift = 1e-3, largest_shift = 1e4;
// Rows from which it is measured whether several threads solve faster than one.
constexpr std::int64_t worth_a_choice = 1 << 16;

// The columns of the factors off the diagonal. Row i is merged with the rows of U of its pivots, in a list of columns
// in ascending order.
template <class T>
std::shared_ptr<SweepPattern> pattern_of_factors(const ContextPtr& context, const SparsityPattern& A,
                                                 std::int64_t fill) {
  const std::int64_t n = A.rows;
  auto made = std::make_shared<SweepPattern>();
  made->n = n;
  made->ptr = Buffer<std::int64_t>(context, n + 1), made->mid = Buffer<std::int64_t>(context, n);
  made->ptr[0] = 0;
  std::vector<std::int32_t> col;
  if (fill == 0) {
    col.reserve(static_cast<std::size_t>(A.nonzeros));
    for (std::int64_t i = 0; i < n; ++i) {
      made->mid[i] = made->ptr[i];
      for (const std::int32_t j : A.row(i)) {
        if (j != i) col.push_back(j);
        if (j < i) ++made->mid[i];
      }
      made->ptr[i + 1] = static_cast<std::int64_t>(col.size());
    }
  } else {
    std::vector<std::int64_t> level;  // of each entry of col
    std::vector<std::int32_t> next(static_cast<std::size_t>(n) + 1);
    std::vector<std::int64_t> level_of(static_cast<std::size_t>(n));
    const auto end = static_cast<std::int32_t>(n), head = end;  // next[head] is the first column
    for (std::int64_t i = 0; i < n; ++i) {
      const auto diagonal = static_cast<std::int32_t>(i);
      std::int32_t last = head;
      const auto append = [&](std::int32_t j) { next[last] = j, level_of[j] = 0, last = j; };
      bool with_diagonal = false;
      for (const std::int32_t j : A.row(i)) {
        if (!with_diagonal && j >= diagonal) {
          with_diagonal = true;
          if (j > diagonal) append(diagonal);
        }
        append(j);
      }
      if (!with_diagonal) append(diagonal);
      next[last] = end;
      for (std::int32_t k = next[head]; k < diagonal; k = next[k]) {
        std::int32_t before = k;
        for (std::int64_t q = made->mid[k]; q < made->ptr[k + 1]; ++q) {
          const std::int32_t j = col[q];
          const std::int64_t own = level_of[k] + level[q] + 1;
          if (own > fill) continue;
          while (next[before] < j) before = next[before];
          if (next[before] == j) {
            level_of[j] = std::min(level_of[j], own);
          } else {
            next[j] = next[before], next[before] = j, level_of[j] = own;
          }
          before = j;
        }
      }
      made->mid[i] = made->ptr[i];
      for (std::int32_t j = next[head]; j != end; j = next[j]) {
        if (j == diagonal) continue;
        col.push_back(j), level.push_back(level_of[j]);
        if (j < diagonal) ++made->mid[i];
      }
      made->ptr[i + 1] = static_cast<std::int64_t>(col.size());
    }
  }
  made->col = Buffer<std::int32_t>(context, static_cast<std::int64_t>(col.size()));
  std::copy(col.begin(), col.end(), made->col.data());
  find_levels(context, *made);
  return made;
}

// One attempt to factor A + shift diag(A).
template <class T>
class Factorization {
 public:
  Factorization(const ContextPtr& context, const CsrMatrix<T>& csr, const Vector<T>& diagonal,
                const SweepPattern& pattern, SweepValues<T>& values)
      : context_(*context),
        csr_(csr),
        diagonal_(diagonal.data()),
        n_(pattern.n),
        pattern_(pattern),
        ptr_(pattern.ptr.data()),
        mid_(pattern.mid.data()),
        col_(pattern.col.data()),
        entries_(values.entries.data()),
        d_(values.d.data()),
        places_(context, pattern.n * (pattern.forward.parallel(*context) ? context->threads() : 1)) {
    std::fill(places_.begin(), places_.end(), -1);
  }

  // The smallest of the rows found with a bad pivot; n if there is none.
  std::int64_t operator()(bool symmetric, T shift) {
    std::atomic<std::int64_t> bad{n_};
    pattern_.forward.run(context_, [&, symmetric, shift](std::int64_t i, int part) {
      std::int32_t* const place = places_.data() + part * n_;
      const T pivot = symmetric ? cholesky_row(i, place, shift) : lu_row(i, place, shift);
      const T smallest = 64 * std::numeric_limits<T>::epsilon() * std::abs(diagonal_[i]);
      const bool good = (symmetric ? pivot : std::abs(pivot)) > smallest && std::isfinite(pivot) &&
                        std::isfinite(T(1) / pivot);
      // Rows that follow must stay finite; they do not count then.
      d_[i] = good ? T(1) / pivot : T(1);
      if (!good)
        for (std::int64_t seen = bad.load(); i < seen && !bad.compare_exchange_weak(seen, i);) {}
      // U of the pivot form: D (row of U)
      if (!symmetric)
        for (std::int64_t p = mid_[i]; p < ptr_[i + 1]; ++p) entries_[p] *= d_[i];
    });
    if (symmetric && bad == n_) mirror();
    return bad;
  }

 private:
  // The entries of row i of A at their places; place[j] := where column j is in the row.
  void scatter(std::int64_t i, std::int32_t* place) {
    const std::int64_t begin = ptr_[i], end = ptr_[i + 1];
    for (std::int64_t p = begin; p < end; ++p)
      place[col_[p]] = static_cast<std::int32_t>(p - begin), entries_[p] = 0;
    const std::int64_t first = csr_.pattern.row_ptr[i], last = csr_.pattern.row_ptr[i + 1];
    for (std::int64_t p = first; p < last; ++p)
      if (const std::int32_t j = csr_.pattern.col[p]; j != i) entries_[begin + place[j]] = csr_.values[p];
  }
  void clear(std::int64_t i, std::int32_t* place) const {
    for (std::int64_t p = ptr_[i]; p < ptr_[i + 1]; ++p) place[col_[p]] = -1;
  }

  // l_ik := (a_ik - sum_{j<k} l_ij d_j u_jk) / d_k, u_ij := a_ij - sum_k l_ik d_k u_kj; the pivot of the row.
  T lu_row(std::int64_t i, std::int32_t* place, T shift) {
    scatter(i, place);
    const std::int64_t begin = ptr_[i];
    T pivot = diagonal_[i] * (T(1) + shift);
    for (std::int64_t p = begin; p < mid_[i]; ++p) {
      const std::int64_t k = col_[p];
      const T w = entries_[p];
      for (std::int64_t q = mid_[k]; q < ptr_[k + 1]; ++q) {
        const std::int32_t j = col_[q];
        if (j == i)
          pivot -= w * entries_[q];
        else if (place[j] >= 0)
          entries_[begin + place[j]] -= w * entries_[q];
      }
      entries_[p] = w * d_[k];
    }
    clear(i, place);
    return pivot;
  }

  // The same for U = L^T, from the rows of L alone.
  T cholesky_row(std::int64_t i, std::int32_t* place, T shift) {
    scatter(i, place);
    const std::int64_t begin = ptr_[i];
    for (std::int64_t p = begin; p < mid_[i]; ++p) {
      const std::int64_t k = col_[p];
      T w = entries_[p];
      for (std::int64_t q = ptr_[k]; q < mid_[k]; ++q)
        if (const std::int32_t at = place[col_[q]]; at >= 0) w -= entries_[begin + at] * entries_[q];
      entries_[p] = w;
    }
    T pivot = diagonal_[i] * (T(1) + shift);
    for (std::int64_t p = begin; p < mid_[i]; ++p) {
      const T l = entries_[p] * d_[col_[p]];
      pivot -= entries_[p] * l;
      entries_[p] = l;
    }
    clear(i, place);
    return pivot;
  }

  // U := L^T. Rows of U fill from the left, since rows of L come in ascending order.
  void mirror() {
    Buffer<std::int64_t> next(places_.context(), n_);
    std::copy(mid_, mid_ + n_, next.data());
    for (std::int64_t i = 0; i < n_; ++i)
      for (std::int64_t p = ptr_[i]; p < mid_[i]; ++p) entries_[next[col_[p]]++] = entries_[p];
  }

  const Context& context_;
  const CsrMatrix<T>& csr_;
  const T* diagonal_;
  std::int64_t n_;
  const SweepPattern& pattern_;
  const std::int64_t *ptr_, *mid_;
  const std::int32_t* col_;
  T *entries_, *d_;
  Buffer<std::int32_t> places_;  // n for each part
};

template <class T>
class Incomplete final : public BySolving<T> {
 public:
  Incomplete(const LinearOperator<T>& A, const PreconditionerOptions& options, bool symmetric,
             std::int64_t fill)
      : BySolving<T>(A),
        options_(options),
        symmetric_(symmetric),
        fill_(fill),
        name_(std::string(symmetric ? "ic" : "ilu") + (fill == 0 ? "0" : "")) {}

  std::string_view name() const noexcept override { return name_; }
  bool symmetric() const noexcept override { return symmetric_; }
  std::vector<PreconditionerFigure> figures() const override {
    if (!pattern_) return {};
    std::vector<PreconditionerFigure> found = {
        {"shift", shift_},
        {"entries", static_cast<double>(pattern_->col.size() + pattern_->n)},
        {"levels", static_cast<double>(pattern_->forward.count())}};
    if (options_.solve == TriangularSolve::sweeps)
      found.push_back({"sweeps", static_cast<double>(options_.sweeps)});
    if (measured_.levels >= 0) found.push_back({"levels_microseconds", 1e6 * measured_.levels});
    if (measured_.cusparse >= 0) found.push_back({"cusparse_microseconds", 1e6 * measured_.cusparse});
    return found;
  }
  // On a device the arrays move with a new pattern only.
  Recording recording() const noexcept override {
    if (!on_device_) return BySolving<T>::recording();
    return {on_device_->recordable(), 1 + layouts_, this->bytes(), on_device_->heeds_stop()};
  }

 protected:
  void setup(const LinearOperator<T>& A, bool pattern_changed) override {
    const ContextPtr& context = A.context();
    const bool on_device = context->space() == Space::device;
    if (on_device && !host_) host_ = Context::host();
    const ContextPtr& host = on_device ? host_ : context;
    const CsrMatrix<T> csr = finite_rows(A, host, name());
    if (symmetric_) require_symmetric(*host, csr);
    const Vector<T> diagonal = usable_diagonal<T>(name(), host, csr, options_.zero_diagonal, symmetric_);
    std::shared_ptr<const SweepPattern> pattern = pattern_;
    std::unique_ptr<LevelSolve<T>> levels;
    const bool analyse = pattern_changed || !pattern;
    if (analyse) pattern = pattern_of_factors<T>(host, csr.pattern, fill_);
    SweepValues<T> values(host, *pattern);
    Factorization<T> factor(host, csr, diagonal, *pattern, values);
    double shift = 0;
    for (std::int64_t bad; (bad = factor(symmetric_, static_cast<T>(shift))) < pattern->n;) {
      shift = shift == 0 ? first_shift : 2 * shift;
      if (shift > largest_shift)
        throw BadMatrix(
            fmt::format("{} broke down with every shift up to {}: the pivot of row {} (from 0) is {}; use "
                        "another preconditioner",
                        name(), shift / 2, bad, symmetric_ ? "not positive" : "zero or not finite"));
    }
    require_no_overflow<T>(*host, name(), values.entries.data(), values.entries.size());
    if (on_device) {
      if (analyse) {
        MeasuredSolves measured;
        on_device_ = make_solves<T>(context, *pattern, values, options_.solve, options_.sweeps, measured);
        measured_ = measured, ++layouts_;
      } else {
        on_device_->set_values(*pattern, values);
      }
    } else {
      const bool exact = options_.solve != TriangularSolve::sweeps;
      if (!exact && work_.size() != 2 * pattern->n) work_ = Buffer<T>(host, 2 * pattern->n);
      if (analyse && exact) levels = LevelSolve<T>::make(host, *pattern);
      if (levels) {
        levels->set_values(*pattern, values);
        if (!is_faster(*levels, *pattern, values)) levels.reset();
      }
      if (analyse) levels_ = std::move(levels);
      if (levels_ && !analyse) levels_->set_values(*pattern, values);
      values_ = levels_ ? SweepValues<T>() : std::move(values);
    }
    pattern_ = std::move(pattern), shift_ = shift;
  }

  void solve(VectorView<const T> r, VectorView<T> z) const override {
    if (on_device_) return on_device_->solve(r, z);
    if (levels_) return levels_->solve(r, z);
    if (options_.solve != TriangularSolve::sweeps) return solve_in_order<T>(*pattern_, values_, r, z);
    const std::lock_guard lock(work_mutex_);
    jacobi_sweeps<T>(*this->context(), *pattern_, values_, options_.sweeps, r, z, work_.data(),
                     work_.data() + pattern_->n);
  }
  std::size_t bytes_of_arrays() const noexcept override {
    return pattern_ ? pattern_->bytes() + values_.bytes() + work_.bytes() + (levels_ ? levels_->bytes() : 0) +
                          (on_device_ ? on_device_->bytes() : 0)
                    : 0;
  }

 private:
  // Measured on large matrices: small ones lie in caches, where several threads lose little.
  bool is_faster(const LevelSolve<T>& levels, const SweepPattern& pattern,
                 const SweepValues<T>& values) const {
    if (pattern.n < worth_a_choice) return true;
    const ContextPtr& context = this->context();
    Vector<T> r(context, pattern.n), z(context, pattern.n);
    fill<T>(*context, T(1), r);
    const auto seconds = [&](bool by_levels) {
      const auto begin = std::chrono::steady_clock::now();
      by_levels ? levels.solve(r, z) : solve_in_order<T>(pattern, values, r, z);
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    seconds(true);  // the first one also waits for the memory
    return seconds(true) < seconds(false);
  }

  // Assembled matrices are symmetric up to rounding.
  void require_symmetric(const Context& context, const CsrMatrix<T>& csr) const {
    const double difference = asymmetry<T>(context, csr);
    if (difference <= std::sqrt(std::numeric_limits<T>::epsilon())) return;
    throw BadMatrix(fmt::format(
        "{} needs a symmetric matrix, but {}; use {} with gmres or bicgstab", name(),
        std::isinf(difference)
            ? std::string("the pattern of this one is not symmetric")
            : fmt::format("entries and their mirrored ones differ by up to {:.1e} of the largest entry",
                          difference),
        fill_ == 0 ? "ilu0" : "ilu"));
  }

  PreconditionerOptions options_;
  bool symmetric_;
  std::int64_t fill_;
  std::string name_;
  double shift_ = 0;
  ContextPtr host_;  // where a device's matrix is factored
  std::shared_ptr<const SweepPattern> pattern_;
  SweepValues<T> values_;                  // on a host, unless levels_ has them
  std::unique_ptr<LevelSolve<T>> levels_;  // where several threads of a host are faster
  mutable std::mutex work_mutex_;
  mutable Buffer<T> work_;  // of sweeps on a host
  std::unique_ptr<DeviceSweep<T>> on_device_;
  std::uint64_t layouts_ = 0;  // how often on_device_ was made
  MeasuredSolves measured_;
};

}  // namespace

#define PROTEAN_MAKER(name, symmetric, fill)                                                     \
  template <class T>                                                                             \
  MadePreconditioner<T> name(const LinearOperator<T>& A, const PreconditionerOptions& options) { \
    return std::make_unique<Incomplete<T>>(A, options, symmetric, fill);                         \
  }                                                                                              \
  template MadePreconditioner<float> name<float>(const LinearOperator<float>&,                   \
                                                 const PreconditionerOptions&);                  \
  template MadePreconditioner<double> name<double>(const LinearOperator<double>&,                \
                                                   const PreconditionerOptions&);
PROTEAN_MAKER(make_ic0, true, 0)
PROTEAN_MAKER(make_ic, true, options.fill)
PROTEAN_MAKER(make_ilu0, false, 0)
PROTEAN_MAKER(make_ilu, false, options.fill)
#undef PROTEAN_MAKER

}  // namespace protean::detail
