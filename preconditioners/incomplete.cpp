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
// Memory: 4 bytes and a value for each kept entry off the diagonal, 4 bytes for each of L in ic, 20 bytes and two
// values a row; solve sweeps: two values a row more. Solves by levels, on a host with several threads where that is
// faster: 4 bytes an entry and 52 bytes a row more. While it is set up again, the values twice, and n values for each
// thread.
//
// On a device the host factors, and keeps the pattern of the factors: 4 bytes an entry, 24 a row. The device gets the
// factors in the order of its solves (device_sweeps.hpp). New values go to the same addresses.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/multi_blas1.hpp"
#include "core/parallel.hpp"
#include "core/statistics.hpp"
#include "operators/multi_product.hpp"
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

// A pattern whose row i has the columns row(i), ascending, but for the diagonal.
template <class Row>
std::shared_ptr<SweepPattern> off_the_diagonal(const ContextPtr& context, std::int64_t n, Row row) {
  auto made = std::make_shared<SweepPattern>();
  made->n = n;
  // The columns below i, and those above.
  const auto cut = [&](std::int64_t i) {
    const std::span<const std::int32_t> all = row(i);
    const auto middle = std::lower_bound(all.begin(), all.end(), i);
    const auto below = static_cast<std::size_t>(middle - all.begin());
    const bool diagonal = middle != all.end() && *middle == i;
    return std::pair(all.first(below), all.subspan(below + (diagonal ? 1 : 0)));
  };
  set_row_sizes(
      context, *made, [&](std::int64_t i) { return static_cast<std::int64_t>(cut(i).first.size()); },
      [&](std::int64_t i) { return static_cast<std::int64_t>(cut(i).second.size()); });
  parallel(useful_parts(*context, made->col.size()), [&](int part, int parts) {
    const Range rows = even_range(n, part, parts);
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      const auto [below, above] = cut(i);
      std::copy(below.begin(), below.end(), made->col.data() + made->lower(i).begin);
      std::reverse_copy(above.begin(), above.end(), made->col.data() + made->upper(i).begin);
    }
  });
  return made;
}

// The columns of the factors off the diagonal. Row i is merged with the rows of U of its pivots, in a list of columns
// in ascending order.
std::shared_ptr<SweepPattern> pattern_of_factors(const ContextPtr& context, const SparsityPattern& A,
                                                 std::int64_t fill) {
  const std::int64_t n = A.rows;
  if (fill == 0) return off_the_diagonal(context, n, [&](std::int64_t i) { return A.row(i); });
  std::vector<std::int32_t> col;    // of row i: ptr[i] .. ptr[i + 1], those of U from mid[i]
  std::vector<std::int64_t> level;  // of each entry of col
  std::vector<std::int64_t> ptr(static_cast<std::size_t>(n) + 1), mid(static_cast<std::size_t>(n));
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
      for (std::int64_t q = mid[k]; q < ptr[k + 1]; ++q) {
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
    mid[i] = ptr[i];
    for (std::int32_t j = next[head]; j != end; j = next[j]) {
      if (j == diagonal) continue;
      col.push_back(j), level.push_back(level_of[j]);
      if (j < diagonal) ++mid[i];
    }
    ptr[i + 1] = static_cast<std::int64_t>(col.size());
  }
  return off_the_diagonal(context, n, [&](std::int64_t i) {
    return std::span<const std::int32_t>(col).subspan(static_cast<std::size_t>(ptr[i]),
                                                      static_cast<std::size_t>(ptr[i + 1] - ptr[i]));
  });
}

// For each entry (i, k) of L of a symmetric pattern, how many entries of row k of U lie before (k, i).
Buffer<std::int32_t> mirrors_of(const ContextPtr& context, const SweepPattern& pattern) {
  Buffer<std::int32_t> mirror(context, pattern.lower_ptr[pattern.n]), left(context, pattern.n);
  for (std::int64_t k = 0; k < pattern.n; ++k) left[k] = static_cast<std::int32_t>(pattern.upper(k).size());
  // Rows of U end with their first column, and rows of L come in ascending order.
  for (std::int64_t p = 0; p < mirror.size(); ++p) mirror[p] = --left[pattern.col[p]];
  return mirror;
}

// One attempt to factor A + shift diag(A).
template <class T>
class Factorization {
 public:
  // mirror: mirrors_of() the pattern for ic, empty for ilu.
  Factorization(const ContextPtr& context, const CsrMatrix<T>& csr, const Vector<T>& diagonal,
                const SweepPattern& pattern, const Buffer<std::int32_t>& mirror, bool with_fill,
                SweepValues<T>& values)
      : context_(*context),
        csr_(csr),
        diagonal_(diagonal.data()),
        n_(pattern.n),
        pattern_(pattern),
        col_(pattern.col.data()),
        mirror_(mirror.data()),
        with_fill_(with_fill),
        entries_(values.entries.data()),
        d_(values.d.data()),
        rows_(context, pattern.n * (pattern.forward.parallel(*context) ? context->threads() : 1)) {
    std::fill(rows_.begin(), rows_.end(), T(0));
  }

  // The smallest of the rows found with a bad pivot; n if there is none.
  std::int64_t operator()(bool symmetric, T shift) {
    std::atomic<std::int64_t> bad{n_};
    pattern_.forward.run(context_, [&, symmetric, shift](std::int64_t i, int part) {
      T* const x = rows_.data() + part * n_;
      const T pivot = symmetric ? cholesky_row(i, x, shift) : lu_row(i, x, shift);
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
    });
    if (symmetric && bad == n_) scale_upper();
    return bad;
  }

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
  T lu_row(std::int64_t i, T* x, T shift) {
    scatter(i, x, false);
    x[i] = diagonal_[i] * (T(1) + shift);
    const Range lower = pattern_.lower(i);
    for (std::int64_t p = lower.begin; p < lower.end; ++p) {
      const std::int64_t k = col_[p];
      const Range row = pattern_.upper(k);
      const T w = x[k];
      subtract(x, w, row.begin, row.end);
      entries_[p] = w * d_[k];
    }
    return x[i];
  }

  // The same for U = L^T: of row k of U, which is still without d_k, only the columns above i are needed, which lie
  // before its entry u_ki.
  T cholesky_row(std::int64_t i, T* x, T shift) {
    scatter(i, x, true);
    T pivot = diagonal_[i] * (T(1) + shift);
    const Range lower = pattern_.lower(i);
    for (std::int64_t p = lower.begin; p < lower.end; ++p) {
      const std::int64_t k = col_[p], begin = pattern_.upper(k).begin, mine = begin + mirror_[p];
      const T l = entries_[mine] * d_[k];
      subtract(x, l, begin, mine);
      pivot -= l * entries_[mine];
      entries_[p] = l;
    }
    return pivot;
  }

  // x_j -= w times the entry of column j, for the entries of U at these places.
  void subtract(T* x, T w, std::int64_t begin, std::int64_t end) const {
    for (std::int64_t q = begin; q < end; ++q) x[col_[q]] -= w * entries_[q];
  }

  // The rows of U times D: the entries of L, bit for bit.
  void scale_upper() {
    parallel(useful_parts(context_, pattern_.col.size()), [&](int part, int parts) {
      const Range rows = even_range(n_, part, parts);
      for (std::int64_t i = rows.begin; i < rows.end; ++i) {
        const Range upper = pattern_.upper(i);
        for (std::int64_t p = upper.begin; p < upper.end; ++p) entries_[p] *= d_[i];
      }
    });
  }

  const Context& context_;
  const CsrMatrix<T>& csr_;
  const T* diagonal_;
  std::int64_t n_;
  const SweepPattern& pattern_;
  const std::int32_t *col_, *mirror_;
  bool with_fill_;
  T *entries_, *d_;
  Buffer<T> rows_;  // n for each part
};

template <class T>
class Incomplete final : public BySolving<T>, public HasMultiProduct<T> {
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
    const bool analyse = pattern_changed || !pattern_;
    if (symmetric_) require_symmetric(*host, csr, analyse);
    const Vector<T> diagonal = usable_diagonal<T>(name(), host, csr, options_.zero_diagonal, symmetric_);
    std::shared_ptr<const SweepPattern> pattern = pattern_;
    std::shared_ptr<const Buffer<std::int32_t>> mirror = mirror_;
    std::unique_ptr<LevelSolve<T>> levels;
    if (analyse) {
      const auto made = pattern_of_factors(host, csr.pattern, fill_);
      find_levels(host, *made, on_device);
      pattern = made;
      mirror = std::make_shared<Buffer<std::int32_t>>(symmetric_ ? mirrors_of(host, *made)
                                                                 : Buffer<std::int32_t>());
    }
    SweepValues<T> values(host, *pattern);
    Factorization<T> factor(host, csr, diagonal, *pattern, *mirror, fill_ > 0, values);
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
    pattern_ = std::move(pattern), mirror_ = std::move(mirror), shift_ = shift;
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
    return pattern_ ? pattern_->bytes() + mirror_->bytes() + values_.bytes() + work_.bytes() +
                          (levels_ ? levels_->bytes() : 0) + (on_device_ ? on_device_->bytes() : 0)
                    : 0;
  }

  std::string_view no_multi_product() const noexcept override {
    if (this->context()->space() == Space::device) return "factors on a device are applied column by column";
    if (options_.solve == TriangularSolve::sweeps) return "Jacobi sweeps are applied column by column";
    if (this->context()->deterministic())
      return "in deterministic mode factors are applied column by column, since a column alone adds in "
             "another order";
    return {};
  }
  void do_multi_apply(T alpha, MultiVectorView<const T> X, T beta, MultiVectorView<T> Y) const override {
    this->require_setup();
    const Context& context = *this->context();
    if (alpha == T(0)) return multi_scale<T>(context, beta, Y);
    if (beta == T(0)) {
      solve(X, Y);
      if (alpha != T(1)) multi_scale<T>(context, alpha, Y);
      return;
    }
    MultiVector<T> product(this->context(), Y.rows, Y.columns, Y.layout);
    const MultiVectorView<T> z = product;
    solve(X, z);
    for (std::int64_t i = 0; i < Y.rows; ++i)
      for (std::int64_t j = 0; j < Y.columns; ++j) Y(i, j) = alpha * z(i, j) + beta * Y(i, j);
  }

 private:
  void solve(const MultiVectorView<const T>& R, const MultiVectorView<T>& Z) const {
    levels_ ? levels_->solve(R, Z) : solve_in_order<T>(*pattern_, values_, R, Z);
  }

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

  // asymmetry() of new values in the pattern of these factors, by the places of the mirrored entries.
  double kept_asymmetry(const Context& context, const CsrMatrix<T>& csr) const {
    struct Largest {
      double difference = 0, value = 0;
    };
    const int workers = useful_parts(context, csr.nonzeros());
    std::vector<Largest> found(static_cast<std::size_t>(workers));
    parallel(workers, [&](int part, int parts) {
      const Range rows = even_range(csr.rows(), part, parts);
      T difference = 0, value = 0;
      for (std::int64_t i = rows.begin; i < rows.end; ++i) {
        const std::int64_t first = csr.pattern.row_ptr[i], end = csr.pattern.row_ptr[i + 1];
        for (std::int64_t p = first; p < end; ++p) value = std::max(value, std::abs(csr.values[p]));
        const Range lower = pattern_->lower(i);
        for (std::int64_t p = lower.begin; p < lower.end; ++p) {
          const std::int64_t behind = csr.pattern.row_ptr[pattern_->col[p] + 1] - 1 - (*mirror_)[p];
          difference =
              std::max(difference, std::abs(csr.values[first + p - lower.begin] - csr.values[behind]));
        }
      }
      found[static_cast<std::size_t>(part)] = {static_cast<double>(difference), static_cast<double>(value)};
    });
    Largest all;
    for (const Largest& one : found)
      all = {std::max(all.difference, one.difference), std::max(all.value, one.value)};
    return all.difference == 0 ? 0 : all.difference / all.value;
  }

  // Assembled matrices are symmetric up to rounding.
  void require_symmetric(const Context& context, const CsrMatrix<T>& csr, bool new_pattern) const {
    const double difference =
        new_pattern || fill_ > 0 ? asymmetry<T>(context, csr) : kept_asymmetry(context, csr);
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
  std::shared_ptr<const Buffer<std::int32_t>> mirror_;  // mirrors_of() it for ic, else empty
  SweepValues<T> values_;                               // on a host, unless levels_ has them
  std::unique_ptr<LevelSolve<T>> levels_;               // where several threads of a host are faster
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
