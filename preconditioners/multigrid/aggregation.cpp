// Algebraic multigrid by smoothed aggregation. Vanek, Mandel and Brezina, "Algebraic multigrid by smoothed aggregation
// for second and fourth order elliptic problems", Computing 56 (1996) 179.
//
// A level has a matrix A_l (A_0 = A), nodes of one or several rows, and vectors B_l that A_l nearly maps to zero: the
// constant of each unknown of the nodes, or the vectors of the caller.
//   Strength      nodes I and J are coupled if |A_IJ| > strength_l sqrt(|A_II| |A_JJ|) (Frobenius norms of blocks);
//                 strength_0 is the option, and half of it on each coarser level. If more than half of the nodes of a
//                 level would not be coupled with any other, as on trilinear hexahedra (|a_ij| <= a_ii / 16), it is
//                 halved for this level, up to four times.
//   Aggregates    of coupled nodes, at a distance of up to 2 from a root (aggregates.hpp). A node that is coupled with
//                 none belongs to no aggregate: the smoother alone serves it.
//   P             B_l restricted to an aggregate is Q R (Gram-Schmidt, twice): Q are columns of the tentative
//                 prolongator T, R is B_{l+1}. Columns that depend on earlier ones are left out.
//                 P = (I - 4 / (3 lambda) D^-1 A_F) T, with lambda from the power method in the norm of D, at most
//                 Gershgorin's bound; A_F is A_l with each entry that does not couple strong nodes added to the entry
//                 of the same unknown in the block on the diagonal.
//   A_{l+1}       P^T A_l P
//   Smoother S    l1-jacobi: the larger of |a_ii| and 2/3 sum_j |a_ij|, with the sign of a_ii. With all of the sum
//                 (Baker, Falgout, Kolev and Yang, SIAM J. Sci. Comput. 33 (2011) 2864) no eigenvalue of S^-1 A is
//                 larger than 1 if A is positive definite, so with 2/3 none is larger than 3/2. Of all factors it is
//                 the one that damps eigenvalues between 1/3 and 1 most.
//                 gauss-seidel: the symmetric one, ssor with omega 1; chebyshev: with degree 1 and eigenvalue_ratio 10.
//   Coarsest      at most 256 rows: the inverse, dense. Of D A D with ones on the diagonal, pivots of rounding are
//                 replaced by ones (invert_dense()): so the inverse of a singular matrix is an inner one, and the
//                 inverse of a positive definite one is positive definite. If there are more rows, since nothing
//                 coarsens any more or max_levels is reached, and with max_levels 1: S^-1.
//
// One V-cycle: z := z + S^-1 (r - A z), the same on the next coarser level for P^T (r - A z), z := z + P (its result),
// z := z + S^-1 (r - A z), from z = 0. If A is symmetric, it is a symmetric map of r; it is positive definite if A is
// and I - S^-1 A is a contraction in the norm of A, which holds for l1-jacobi and gauss-seidel.
//
// All of the setup is divided among the threads, and each number is added up in an order that does not depend on them.
// For new values of the same pattern, aggregates, T, and the patterns of P, A P and P^T A P are kept if the graph of
// strong couplings has not changed; otherwise this level and all coarser ones are made again. So a setup for new values
// has the bits of a new one. Formats of the levels are chosen with the patterns.
//
// Products of the finest level are products of A itself, in its present format.
// Memory: P twice, A P's and P^T A P's pattern (4 bytes an entry), the coarser matrices, three vectors a level.
//
// A device makes its levels itself (device_levels.hpp), of the entries that lie there; the host reads a few numbers a
// level. If it cannot, the threads of the host make them from entries that are copied there, the patterns stay in host
// memory, and figures() says why. P, R and the matrices lie in device memory, in csr or, if they are large or the host
// has made them, in the format that the cost model of the device chooses. A cycle is queued there without waiting for
// the host (device_cycle.hpp), and may be recorded. With l1-jacobi new values go into the existing matrices, after
// everything else has been made; the other smoothers may refuse new values, so with them these matrices are made again,
// in the formats that were chosen.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "core/transfer.hpp"
#include "preconditioners/common/by_solving.hpp"
#include "preconditioners/common/makers.hpp"
#include "preconditioners/multigrid/device/device_cycle.hpp"
#include "preconditioners/multigrid/level_maker.hpp"
#include "preconditioners/sparse/level_format.hpp"

namespace protean::detail {
namespace {

constexpr std::int64_t most_dense_rows = 256;

// One level as it is used.
template <class T>
struct Level {
  std::shared_ptr<LevelStructure> structure;  // complete and never changed; null on the coarsest level
  // Null on the finest level, whose matrix is the operator of the solve, and on a device if `dense` is in its place.
  std::unique_ptr<AssembledMatrix<T>> matrix;
  std::unique_ptr<AssembledMatrix<T>> P, R;     // R = P^T; null on the coarsest level
  Vector<T> l1;                                 // the inverse of S for l1-jacobi
  std::unique_ptr<Preconditioner<T>> smoother;  // else
  Vector<T> dense;                              // the inverse on the coarsest level, row after row
  std::int64_t rows = 0, entries = 0;
  mutable Vector<T> rhs, result, residual;  // the first two not on the finest level

  // Without the structure.
  std::size_t bytes() const noexcept {
    std::size_t sum = 0;
    for (const auto* one : {&matrix, &P, &R})
      if (*one) sum += (*one)->bytes();
    if (smoother) sum += smoother->bytes();
    for (const Vector<T>* v : std::initializer_list<const Vector<T>*>{&l1, &dense, &rhs, &result, &residual})
      sum += static_cast<std::size_t>(v->size()) * sizeof(T);
    return sum;
  }
};

// A matrix of the last setup that gets new values when all that may fail has been done.
template <class T>
struct Renewal {
  std::size_t level;
  std::unique_ptr<AssembledMatrix<T>> Level<T>::*which;
  CsrMatrix<T> values;
};

// What a setup makes.
template <class T>
struct Made {
  std::vector<Level<T>> levels;
  std::vector<Renewal<T>> renewals;
};

template <class T>
class Aggregation final : public BySolving<T> {
 public:
  Aggregation(const LinearOperator<T>& A, const PreconditionerOptions& options, NearNullSpace finest)
      : BySolving<T>(A),
        options_(options),
        finest_(std::move(finest)),
        host_(A.context()->space() == Space::host ? A.context() : Context::host()) {}

  std::string_view name() const noexcept override { return "amg"; }
  // The products of the finest level are products of A.
  Recording recording() const noexcept override {
    if (!on_device()) return BySolving<T>::recording();
    if (levels_.empty()) return {false, 0, 0, false};
    const Recording product = A_->recording();
    Recording all{product.allowed, product.version == 0 ? 0 : product.version + this->setups(),
                  2 * product.bytes, true};
    for (const Level<T>& level : levels_) {
      const bool finest = &level == levels_.data();
      for (const auto* one : {&level.matrix, &level.P, &level.R}) {
        if (!*one) continue;
        const Recording work = (*one)->recording();
        all.allowed = all.allowed && work.allowed;
        all.bytes += (one == &level.matrix ? 2 : 1) * work.bytes;
        if (finest && one == &level.P) all.heeds_stop = all.heeds_stop && work.heeds_stop;  // it writes z
      }
      if (!level.smoother) continue;
      const Recording work = level.smoother->recording();
      all.allowed = all.allowed && work.allowed, all.bytes += 2 * work.bytes;
      if (finest) all.heeds_stop = all.heeds_stop && work.heeds_stop;
    }
    return all;
  }
  std::vector<PreconditionerFigure> figures() const override {
    if (levels_.empty()) return {};
    double rows = 0, entries = 0;
    for (const Level<T>& level : levels_)
      rows += static_cast<double>(level.rows), entries += static_cast<double>(level.entries);
    const Level<T>& finest = levels_.front();
    std::vector<PreconditionerFigure> found = {
        {"levels", static_cast<double>(levels_.size())},
        {"operator_complexity", finest.entries > 0 ? entries / static_cast<double>(finest.entries) : 1},
        {"grid_complexity", finest.rows > 0 ? rows / static_cast<double>(finest.rows) : 1},
        {"coarsest_rows", static_cast<double>(levels_.back().rows)},
        {"cycle_products", cycle_products_}};
    if (!why_on_host_.empty()) found.push_back({why_on_host_, 1});
    return found;
  }

 protected:
  void setup(const LinearOperator<T>& A, bool pattern_changed) override {
    Made<T> made;
    std::string_view why;
    bool by_device = false;
    if (on_device()) {
      const auto maker = device_level_maker<T>(A, options_, finest_, nodes_there_, why);
      by_device = maker && make_unless_too_many(*maker, A, !pattern_changed && by_device_, made, why);
    }
    if (!by_device) {
      made = {};
      make(*host_level_maker<T>(A, host_, options_, finest_, nodes_), A, !pattern_changed && !by_device_,
           made);
    }
    renew(made);
    levels_ = std::move(made.levels), A_ = &A;
    by_device_ = by_device, why_on_host_ = why;
    cycle_products_ = cycle_products(A);
  }

  void solve(VectorView<const T> r, VectorView<T> z) const override {
    if (levels_.empty())
      throw BadArgument(
          "amg: the last ensure(A) failed while it changed matrices on the device; call it again");
    const std::lock_guard lock(mutex_);
    for (std::int64_t k = 0; k < options_.cycles; ++k) cycle(0, r, z, k == 0);
  }
  std::size_t bytes_of_arrays() const noexcept override {
    std::size_t sum = nodes_.bytes() + nodes_there_.bytes() + 8 * finest_.values.size();
    for (std::size_t l = 0; l < levels_.size(); ++l) {
      sum += levels_[l].bytes();
      if (levels_[l].structure)
        sum += levels_[l].structure->bytes({!on_device(), levels_[l + 1].matrix != nullptr});
    }
    return sum;
  }

 private:
  // False, with the figure that says why, if a matrix has too many entries for a device.
  bool make_unless_too_many(LevelMaker<T>& maker, const LinearOperator<T>& A, bool known, Made<T>& made,
                            std::string_view& why) {
    try {
      make(maker, A, known, made);
      return true;
    } catch (const TooManyEntries&) { why = "setup_on_host_too_many_entries"; }
    return false;
  }
  // By the maker. known: the pattern is the pattern of the last setup, which was made on the same side.
  void make(LevelMaker<T>& maker, const LinearOperator<T>& A, bool known, Made<T>& made) {
    const ContextPtr& context = this->context();
    std::vector<Level<T>>& levels = made.levels;
    // From here on `known` says whether the level has the pattern of the same level of the last setup.
    for (double strength = options_.strength;; strength /= 2) {
      const std::size_t l = levels.size();
      Level<T>& level = levels.emplace_back();
      level.rows = maker.matrix().rows(), level.entries = maker.matrix().nonzeros();
      const bool last = static_cast<std::int64_t>(l) + 1 >= options_.max_levels;
      const bool dense = level.rows <= most_dense_rows && (l > 0 || !last);
      if (l > 0) {
        if (!dense || !on_device())
          place(made, &Level<T>::matrix, maker.matrix(), levels[l - 1].structure->format, known);
        level.rhs = Vector<T>(context, level.rows), level.result = Vector<T>(context, level.rows);
      }
      if (dense) {
        level.dense = moved(maker.dense());
        break;
      }
      level.residual = Vector<T>(context, level.rows);
      if (options_.smoother == Smoother::l1_jacobi)
        level.l1 = moved(maker.l1());
      else
        make_smoother(l == 0 ? A : *level.matrix, l == 0, level);
      if (last) break;
      const auto kept = known && l < levels_.size() ? levels_[l].structure : nullptr;
      level.structure = maker.structure(strength, kept);
      known = known && level.structure == kept;
      if (!level.structure) break;
      const Transfer<T> transfer = maker.coarsen();
      place(made, &Level<T>::P, transfer.P, level.structure->format_of_P, known);
      place(made, &Level<T>::R, transfer.R, level.structure->format_of_R, known);
      if (transfer.bad) refuse_coarse(l + 1, *transfer.bad);
    }
  }

  [[noreturn]] static void refuse_coarse(std::size_t level, T value) {
    throw BadMatrix(fmt::format(
        "amg: the matrix of level {} has the entry {}, since products of entries of this matrix are too "
        "large for {} precision; scale the matrix (D A D with d_i = 1 / sqrt |a_ii|), or use another "
        "preconditioner",
        level, value, sizeof(T) == 8 ? "double" : "single"));
  }

  bool on_device() const noexcept { return this->context()->space() == Space::device; }
  // Puts a matrix into the last level of `made`, or its new values into the list of renewals. known: the matrix of the
  // last setup has the same pattern.
  void place(Made<T>& made, std::unique_ptr<AssembledMatrix<T>> Level<T>::*which, const CsrMatrix<T>& csr,
             std::string& format, bool known) const {
    const std::size_t l = made.levels.size() - 1;
    // A setup that may fail later must leave the matrices of the last one as they are.
    const bool nothing_fails_later = options_.smoother == Smoother::l1_jacobi;
    const bool here = csr.pattern.space == this->context()->space();
    if (on_device() && known && nothing_fails_later && l < levels_.size() && levels_[l].*which)
      made.renewals.push_back({l, which, here ? csr : new_values<T>(host_, *(levels_[l].*which), csr)});
    else
      made.levels[l].*which = in_format<T>(
          this->context(), here ? csr : upload(this->context(), narrow<T>(host_, csr)), csr.pattern, format);
  }
  // Moves the matrices that are renewed into the new levels. M is unusable if that fails, which only the device can
  // cause.
  void renew(Made<T>& made) {
    try {
      for (Renewal<T>& one : made.renewals) {
        std::unique_ptr<AssembledMatrix<T>>& matrix = levels_[one.level].*one.which;
        matrix->update_values(one.values, SamePattern());
        made.levels[one.level].*one.which = std::move(matrix);
      }
    } catch (...) {
      levels_.clear(), this->forget();
      throw;
    }
  }
  // Where the cycle reads it.
  Vector<T> moved(Vector<T> made) const {
    if (!on_device()) return made;
    Vector<T> there(this->context(), made.size());
    copy<T>(*this->context(), made, there);
    return there;
  }

  void make_smoother(const LinearOperator<T>& A, bool finest, Level<T>& level) const {
    const bool chebyshev = options_.smoother == Smoother::chebyshev;
    PreconditionerOptions options;
    options.zero_diagonal = finest ? options_.zero_diagonal : ZeroDiagonal::one;
    if (chebyshev) options.degree = 1, options.eigenvalue_ratio = 10;
    level.smoother = make_preconditioner<T>(chebyshev ? "chebyshev" : "ssor", A, options);
    level.smoother->ensure(A);
  }

  const LinearOperator<T>& matrix(std::size_t l) const { return l == 0 ? *A_ : *levels_[l].matrix; }

  // residual := r - A z
  void find_residual(std::size_t l, VectorView<const T> r, VectorView<const T> z) const {
    Vector<T>& residual = levels_[l].residual;
    axpby<T>(*this->context(), T(1), r, T(0), residual);
    matrix(l).apply(T(-1), z, T(1), residual);
  }

  // z := S^-1 r if z is zero, else z := z + S^-1 (r - A z)
  void smooth(std::size_t l, VectorView<const T> r, VectorView<T> z, bool from_zero) const {
    const Context& context = *this->context();
    const Level<T>& level = levels_[l];
    if (!from_zero && on_device() && !level.smoother) {
      matrix(l).apply(z, level.residual);
      return next_sweep<T>(context, level.l1, r, level.residual, z);
    }
    if (!from_zero) find_residual(l, r, z);
    const VectorView<const T> rest = from_zero ? r : level.residual.view();
    if (level.smoother)
      level.smoother->apply(T(1), rest, from_zero ? T(0) : T(1), z);
    else if (from_zero)
      multiply<T>(context, level.l1, rest, z);
    else
      multiply_add<T>(context, level.l1, rest, T(1), z);
  }

  void cycle(std::size_t l, VectorView<const T> r, VectorView<T> z, bool from_zero) const {
    const Level<T>& level = levels_[l];
    if (level.dense.size() > 0 || level.rows == 0) return solve_dense(level, r, z);
    const bool coarsest = l + 1 == levels_.size();
    if (from_zero && !coarsest && on_device() && !level.smoother) {
      first_sweep<T>(*this->context(), level.l1, r, z, level.residual);
      matrix(l).apply(T(-1), z, T(1), level.residual);
    } else {
      smooth(l, r, z, from_zero);
      if (coarsest) return;
      find_residual(l, r, z);
    }
    const Level<T>& coarse = levels_[l + 1];
    const VectorView<T> rhs = coarse.rhs, result = coarse.result;
    level.R->apply(level.residual, rhs);
    cycle(l + 1, rhs, result, true);
    level.P->apply(T(1), VectorView<const T>(result), T(1), z);
    smooth(l, r, z, false);
  }

  void solve_dense(const Level<T>& level, VectorView<const T> r, VectorView<T> z) const {
    if (on_device()) return dense_product<T>(*this->context(), level.dense, r, z);
    const std::int64_t n = level.rows;
    const T* const inverse = level.dense.data();
    for (std::int64_t i = 0; i < n; ++i) {
      T sums[4] = {0, 0, 0, 0};
      const T* const row = inverse + i * n;
      std::int64_t j = 0;
      for (; j + 4 <= n; j += 4)
        for (int k = 0; k < 4; ++k) sums[k] += row[j + k] * r.data[j + k];
      T sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
      for (; j < n; ++j) sum += row[j] * r.data[j];
      z.data[i] = sum;
    }
  }

  // Bytes that the cycles of M^-1 r read and write, over the bytes of a product of A.
  double cycle_products(const LinearOperator<T>& finest) const {
    constexpr double size = sizeof(T);
    double sum = 0, product = 0;
    for (std::size_t l = 0; l < levels_.size(); ++l) {
      const Level<T>& level = levels_[l];
      const double n = size * static_cast<double>(level.rows), entries = static_cast<double>(level.entries);
      double A = l == 0         ? static_cast<double>(finest.recording().bytes)
                 : level.matrix ? static_cast<double>(level.matrix->bytes())
                                : 0;
      if (l == 0 && A == 0) A = (size + 4) * entries + 4 * static_cast<double>(level.rows);
      if (l == 0) product = A + 2 * n;
      if (level.dense.size() > 0 || level.rows == 0) {
        sum += size * static_cast<double>(level.dense.size()) + 2 * n;
        continue;
      }
      // One sweep from zero, and one of any z.
      double first = 3 * n, next = A + (on_device() ? 7 : 9) * n, residual = A + (on_device() ? 4 : 5) * n;
      if (options_.smoother == Smoother::chebyshev)
        first = A + 17 * n, next = 2 * A + 25 * n, residual = A + 5 * n;
      if (options_.smoother == Smoother::gauss_seidel)
        first = static_cast<double>(level.smoother->bytes()), next = A + first + 8 * n, residual = A + 5 * n;
      sum += first;
      if (!level.P) continue;
      sum += residual + next + static_cast<double>(level.P->bytes() + level.R->bytes()) + 3 * n +
             2 * size * static_cast<double>(levels_[l + 1].rows);
    }
    return product > 0 ? static_cast<double>(options_.cycles) * sum / product : 1;
  }

  PreconditionerOptions options_;
  NearNullSpace finest_;
  // The nodes of the finest level, which each side makes when it makes levels for the first time.
  Nodes nodes_;
  DeviceNodes nodes_there_;
  ContextPtr host_;               // in which a host makes levels
  bool by_device_ = false;        // the last setup
  std::string_view why_on_host_;  // the figure that says why the host had to make levels for a device
  const LinearOperator<T>* A_ = nullptr;
  mutable std::mutex mutex_;  // of the vectors of the levels
  std::vector<Level<T>> levels_;
  double cycle_products_ = 1;
};

}  // namespace

template <class T>
MadePreconditioner<T> make_smoothed_aggregation(const LinearOperator<T>& A,
                                                const PreconditionerOptions& options, NearNullSpace finest) {
  return std::make_unique<Aggregation<T>>(A, options, std::move(finest));
}
template MadePreconditioner<float> make_smoothed_aggregation<float>(const LinearOperator<float>&,
                                                                    const PreconditionerOptions&,
                                                                    NearNullSpace);
template MadePreconditioner<double> make_smoothed_aggregation<double>(const LinearOperator<double>&,
                                                                      const PreconditionerOptions&,
                                                                      NearNullSpace);

}  // namespace protean::detail
