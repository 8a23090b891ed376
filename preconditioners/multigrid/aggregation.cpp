// Algebraic multigrid by smoothed aggregation. Vanek, Mandel and Brezina, "Algebraic multigrid by smoothed aggregation
// for second and fourth order elliptic problems", Computing 56 (1996) 179.
//
// A level has a matrix A_l (A_0 = A), nodes of one or several rows, and vectors B_l that A_l nearly maps to zero: the
// constant of each unknown of the nodes, or those of the caller.
//   Strength      nodes I and J are coupled where |A_IJ| > strength_l sqrt(|A_II| |A_JJ|) (Frobenius norms of blocks);
//                 strength_0 is the option, and half of it on each coarser level. Where more than half of the nodes of
//                 a level would be coupled with none, as those of trilinear hexahedra (|a_ij| <= a_ii / 16), it is
//                 halved for this level, up to four times.
//   Aggregates    of coupled nodes, at a distance of up to 2 from a root (aggregates.hpp). A node that is coupled with
//                 none belongs to no aggregate: the smoother alone serves it.
//   P             B_l restricted to an aggregate is Q R (Gram-Schmidt, twice): Q are columns of the tentative
//                 prolongator T, R is B_{l+1}. Columns that depend on those before are left out.
//                 P = (I - 4 / (3 lambda) D^-1 A_F) T, with lambda from the power method in the norm of D, at most
//                 Gershgorin's bound; A_F is A_l where the entries that couple no strong nodes are added to the entry
//                 of the same unknown in the block on the diagonal.
//   A_{l+1}       P^T A_l P
//   Smoother S    l1-jacobi: the larger of |a_ii| and 2/3 sum_j |a_ij|, with the sign of a_ii. With all of the sum
//                 (Baker, Falgout, Kolev and Yang, SIAM J. Sci. Comput. 33 (2011) 2864) no eigenvalue of S^-1 A is
//                 larger than 1 where A is positive definite, so with 2/3 none is larger than 3/2. Of all factors it is
//                 the one that damps eigenvalues between 1/3 and 1 most.
//                 gauss-seidel: the symmetric one, ssor with omega 1; chebyshev: that with degree 1 and
//                 eigenvalue_ratio 10.
//   Coarsest      at most 256 rows: the inverse, dense. Of D A D with ones on the diagonal, pivots of rounding are
//                 replaced by ones (invert_dense()): so the inverse of a singular matrix is an inner one, and that of
//                 a positive definite one is positive definite. More rows, where nothing coarsens any more or
//                 max_levels is reached, and with max_levels 1: S^-1.
//
// One V-cycle: z := z + S^-1 (r - A z), the same on the next coarser level for P^T (r - A z), z := z + P (its result),
// z := z + S^-1 (r - A z), from z = 0. With symmetric A it is a symmetric map of r, positive definite where A is and
// I - S^-1 A is a contraction in the norm of A, which holds for l1-jacobi and gauss-seidel.
//
// All of the setup is divided among the threads, and each number is added up in an order that does not depend on them.
// Kept for new values of the same pattern: where the graph of strong couplings is what it was, aggregates, T, and the
// patterns of P, A P and P^T A P; else that level and those below are made anew. So a setup for new values has the bits
// of a new one. Formats of the levels are chosen with the patterns.
//
// Products of the finest level are those of A itself, in its format of that moment.
// Memory: P twice, A P's and P^T A P's pattern (4 bytes an entry), the coarser matrices, three vectors a level.
//
// A device makes its levels itself (device_levels.hpp), of the entries that lie there; the host reads a few numbers a
// level. Where it cannot, the threads of the host make them of entries that are copied there, the patterns stay in host
// memory, and figures() says why. P, R and the matrices lie in device memory, in csr or, where they are large or the
// host has made them, in the format that the cost model of the device chooses. A cycle is queued there without waiting
// for the host (device_cycle.hpp), and may be recorded. With l1-jacobi new values go into the matrices that are there,
// after all else has been made; the other smoothers may refuse new values, so with them these matrices are made anew,
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
#include "core/multi_blas1.hpp"
#include "core/transfer.hpp"
#include "operators/rows.hpp"
#include "preconditioners/common/by_solving.hpp"
#include "preconditioners/common/diagonal.hpp"
#include "preconditioners/common/entries.hpp"
#include "preconditioners/common/makers.hpp"
#include "preconditioners/multigrid/aggregation_structure.hpp"
#include "preconditioners/multigrid/device/device_cycle.hpp"
#include "preconditioners/multigrid/device/device_levels.hpp"
#include "preconditioners/multigrid/near_null_space.hpp"
#include "preconditioners/multigrid/prolongator.hpp"
#include "preconditioners/sparse/dense_inverse.hpp"
#include "preconditioners/sparse/level_format.hpp"
#include "preconditioners/sparse/sparse_product.hpp"

namespace protean::detail {
namespace {

constexpr std::int64_t most_dense_rows = 256;
// How often the strength of a level is halved where most nodes are coupled with none.
constexpr int most_halvings = 4;
// A level that has more of the rows of the finer one than this is not worth its work.
constexpr double least_coarsening = 0.8;

// Smaller matrices that a device makes are kept in csr: to choose a format takes the host some milliseconds, and no
// solve of docs/results/preconditioners.md gained as much by other formats of the levels.
constexpr std::int64_t least_entries_to_choose = 8'000'000;

// One level as it is used.
template <class T>
struct Level {
  // Complete and never changed, where the host has made the level, and where the device has; null on the coarsest
  // level.
  std::shared_ptr<Structure> structure;
  std::shared_ptr<DeviceStructure> there;
  // Null on the finest level, where it is the operator of the solve, and on a device where `dense` is in its place.
  std::unique_ptr<AssembledMatrix<T>> matrix;
  std::unique_ptr<AssembledMatrix<T>> P, R;     // R = P^T; null on the coarsest level
  Vector<T> l1;                                 // the inverse of S for l1-jacobi
  std::unique_ptr<Preconditioner<T>> smoother;  // else
  Vector<T> dense;                              // the inverse on the coarsest level, row after row
  std::int64_t rows = 0, entries = 0;
  mutable Vector<T> rhs, result, residual;  // the first two not on the finest level

  std::size_t bytes(bool shared) const noexcept {
    std::size_t sum = structure ? structure->bytes(shared) : 0;
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
  // `given`: vectors near the null space, vector k of row i at i vectors + k. Without it the constants of the unknowns.
  Aggregation(const LinearOperator<T>& A, const PreconditionerOptions& options, std::int64_t vectors,
              std::vector<double> given)
      : BySolving<T>(A),
        options_(options),
        vectors_(vectors),
        given_(std::move(given)),
        host_(A.context()->space() == Space::host ? A.context() : Context::host()) {}

  std::string_view name() const noexcept override { return "amg"; }
  // The products of the finest level are those of A.
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
    if (on_device()) why = make_on_device(A, !pattern_changed && by_device_, made);
    const bool by_device = on_device() && why.empty();
    if (!by_device) made = {}, make_on_host(A, !pattern_changed && !by_device_, made);
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
    std::size_t sum = nodes_.bytes() + nodes_there_.bytes() + 8 * given_.size();
    for (std::size_t l = 0; l < levels_.size(); ++l) {
      sum += levels_[l].bytes(!on_device());
      if (levels_[l].there) sum += levels_[l].there->bytes(levels_[l + 1].matrix != nullptr);
    }
    return sum;
  }

 private:
  // known: the pattern is that of the last setup, which the host has made.
  void make_on_host(const LinearOperator<T>& A, bool known, Made<T>& made) {
    const ContextPtr& context = A.context();
    CsrMatrix<T> csr = finite_rows(A, host_, name());
    Vector<T> diagonal = usable_diagonal<T>(name(), host_, csr, options_.zero_diagonal);
    std::vector<Level<T>>& levels = made.levels;
    // The size of the diagonal entries of the finest level that an entry of the diagonal is made of.
    std::vector<double> scale(at(csr.rows()));
    for (std::int64_t i = 0; i < csr.rows(); ++i) scale[at(i)] = std::abs(static_cast<double>(diagonal[i]));
    const Nodes* nodes = &host_nodes();
    // From here on `known` says whether the level has the pattern of the same level of the last setup.
    for (double strength = options_.strength;; strength /= 2) {
      const std::size_t l = levels.size();
      Level<T>& level = levels.emplace_back();
      level.rows = csr.rows(), level.entries = csr.nonzeros();
      const bool last = static_cast<std::int64_t>(l) + 1 >= options_.max_levels;
      const bool dense = level.rows <= most_dense_rows && (l > 0 || !last);
      if (l > 0) {
        if (!dense || !on_device())
          place(made, &Level<T>::matrix, csr, levels[l - 1].structure->format, known);
        level.rhs = Vector<T>(context, level.rows), level.result = Vector<T>(context, level.rows);
      }
      if (dense) {
        make_dense(csr, diagonal, scale, level);
        break;
      }
      level.residual = Vector<T>(context, level.rows);
      make_smoother(l == 0 ? &A : level.matrix.get(), csr, diagonal, scale, l == 0, level);
      if (last) break;
      const auto kept = known && l < levels_.size() ? levels_[l].structure : nullptr;
      const std::shared_ptr<Structure> structure = structure_of(csr, *nodes, strength, kept);
      known = known && structure == kept;
      if (!structure) break;
      CsrMatrix<T> coarse = coarsen(csr, divisors<T>(diagonal, scale), *nodes, *structure, known, made);
      const std::int64_t bad = first_not_finite<T>(*host_, coarse.values, coarse.nonzeros());
      if (bad < coarse.nonzeros()) refuse_coarse(l + 1, coarse.values[bad]);
      scale = coarse_scale(scale, *nodes, *structure);
      level.structure = structure;
      nodes = &structure->coarse;
      csr = std::move(coarse);
      diagonal = Vector<T>(host_, csr.rows());
      extract_diagonal<T>(*host_, csr, diagonal.data());
    }
  }

  // Empty, or the figure that says why the host has to make the levels. known: the pattern is that of the last setup,
  // which the device has made.
  std::string_view make_on_device(const LinearOperator<T>& A, bool known, Made<T>& made) {
    const std::optional<CsrMatrix<T>> entries = csr_of(A);
    if (!entries || entries->pattern.space != Space::device) return "setup_on_host_entries_elsewhere";
    if (std::max(entries->rows(), entries->nonzeros()) > std::numeric_limits<std::int32_t>::max())
      return "setup_on_host_too_many_entries";
    const std::unique_ptr<LevelWork<T>> work = level_work<T>(this->context());
    bool unsorted = false;
    std::optional<DeviceLevel<T>> here =
        work->finest(*entries, options_.zero_diagonal == ZeroDiagonal::one, unsorted);
    if (unsorted) return "setup_on_host_unsorted_rows";
    if (!here) return "setup_on_host_refused_entries";  // it says which
    try {
      make_levels(A, *work, *std::move(here), known, made);
    } catch (const TooManyEntries&) { return "setup_on_host_too_many_entries"; }
    return {};
  }
  void make_levels(const LinearOperator<T>& A, const LevelWork<T>& work, DeviceLevel<T> here, bool known,
                   Made<T>& made) {
    const ContextPtr& context = this->context();
    std::vector<Level<T>>& levels = made.levels;
    const DeviceNodes* nodes = &nodes_there();
    for (double strength = options_.strength;; strength /= 2) {
      const std::size_t l = levels.size();
      Level<T>& level = levels.emplace_back();
      level.rows = here.csr.rows(), level.entries = here.csr.nonzeros();
      const bool last = static_cast<std::int64_t>(l) + 1 >= options_.max_levels;
      const bool dense = level.rows <= most_dense_rows && (l > 0 || !last);
      if (l > 0) {
        if (!dense) place(made, &Level<T>::matrix, here.csr, levels[l - 1].there->format, known);
        level.rhs = Vector<T>(context, level.rows), level.result = Vector<T>(context, level.rows);
      }
      if (dense) {
        level.dense = Vector<T>(context, level.rows * level.rows);
        if (!work.dense(here, level.dense)) refuse_overflow<T>(name());
        break;
      }
      level.residual = Vector<T>(context, level.rows);
      if (options_.smoother != Smoother::l1_jacobi) {
        make_other_smoother(l == 0 ? A : *level.matrix, l == 0, level);
      } else {
        level.l1 = Vector<T>(context, level.rows);
        if (!work.l1(here, level.l1)) refuse_overflow<T>(name());
      }
      if (last) break;
      const auto kept = known && l < levels_.size() ? levels_[l].there : nullptr;
      const std::shared_ptr<DeviceStructure> structure =
          work.structure(here, *nodes, {strength, most_halvings, least_coarsening}, kept);
      known = known && structure == kept;
      if (!structure) break;
      const auto always_csr = [&](const SparsityPattern& pattern) {
        return options_.level_format == LevelFormat::csr || pattern.nonzeros < least_entries_to_choose;
      };
      if (always_csr(structure->P)) structure->format_of_P = structure->format_of_R = "csr";
      if (always_csr(structure->coarse_pattern)) structure->format = "csr";
      const CsrMatrix<T> P = work.prolongator(here, *nodes, *structure), R = work.restriction(P, *structure);
      const CsrMatrix<T> coarse =
          work.product(R, work.product(here.csr, P, structure->AP), structure->coarse_pattern);
      place(made, &Level<T>::P, P, structure->format_of_P, known);
      place(made, &Level<T>::R, R, structure->format_of_R, known);
      std::int64_t bad = -1;
      DeviceLevel<T> next = work.coarser(coarse, here, *nodes, *structure, bad);
      if (bad >= 0) {
        T value{};
        copy_bytes(*context, &value, Space::host, coarse.values + bad, Space::device, sizeof value);
        refuse_coarse(l + 1, value);
      }
      level.there = structure;
      nodes = &structure->coarse;
      here = std::move(next);
    }
  }

  [[noreturn]] static void refuse_coarse(std::size_t level, T value) {
    throw BadMatrix(fmt::format(
        "amg: the matrix of level {} has the entry {}, since products of entries of this matrix are too "
        "large for {} precision; scale the matrix (D A D with d_i = 1 / sqrt |a_ii|), or use another "
        "preconditioner",
        level, value, sizeof(T) == 8 ? "double" : "single"));
  }

  // Of the finest level. Each side has its own when it makes levels for the first time.
  const Nodes& host_nodes() {
    if (nodes_.vectors > 0) return nodes_;
    const std::int64_t rows = this->rows(), unknowns = options_.unknowns;
    Nodes nodes;
    for (std::int64_t i = unknowns; i <= rows; i += unknowns)
      nodes.first.push_back(static_cast<std::int32_t>(i));
    nodes.number_rows();
    nodes.vectors = vectors_, nodes.values = given_;
    if (given_.empty()) {
      nodes.values.assign(at(rows * vectors_), 0);
      for (std::int64_t i = 0; i < rows; ++i) nodes.values[at(i * vectors_ + i % unknowns)] = 1;
    }
    nodes_ = std::move(nodes);
    return nodes_;
  }
  const DeviceNodes& nodes_there() {
    if (nodes_there_.vectors > 0) return nodes_there_;
    DeviceNodes nodes;
    nodes.rows = this->rows(), nodes.size = static_cast<std::int32_t>(options_.unknowns);
    nodes.count = nodes.rows / options_.unknowns, nodes.vectors = vectors_;
    if (!given_.empty()) {
      nodes.values = Buffer<double>(this->context(), static_cast<std::int64_t>(given_.size()));
      copy_bytes(*this->context(), nodes.values.data(), Space::device, given_.data(), Space::host,
                 nodes.values.bytes());
    }
    nodes_there_ = std::move(nodes);
    return nodes_there_;
  }

  bool on_device() const noexcept { return this->context()->space() == Space::device; }
  // Puts a matrix into the last level of `made`, or its new values into the list of renewals. known: that of the last
  // setup has the same pattern.
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
  // Moves the matrices that are renewed into the new levels. M is unusable where that fails, which only the device can
  // be the reason of.
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

  // X r, X the inverse.
  void make_dense(const CsrMatrix<T>& csr, const Vector<T>& diagonal, const std::vector<double>& scale,
                  Level<T>& level) const {
    const std::int64_t n = csr.rows();
    // Of D A D with ones or less on the diagonal, so that the units of the unknowns do not matter.
    std::vector<double> a(at(n * n), 0), d(at(n));
    for (std::int64_t i = 0; i < n; ++i) d[at(i)] = scale[at(i)] > 0 ? 1 / std::sqrt(scale[at(i)]) : 1;
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t p = csr.pattern.row_ptr[i]; p < csr.pattern.row_ptr[i + 1]; ++p)
        a[at(i * n + csr.pattern.col[p])] = csr.values[p];
      a[at(i * n + i)] = diagonal[i];
      for (std::int64_t j = 0; j < n; ++j) a[at(i * n + j)] *= d[at(i)] * d[at(j)];
    }
    bool symmetric = true, positive = true, negative = true;
    double largest = 1;
    for (const double value : a) largest = std::max(largest, std::abs(value));
    for (std::int64_t i = 0; i < n; ++i) {
      positive = positive && a[at(i * n + i)] >= 0;
      negative = negative && a[at(i * n + i)] <= 0;
    }
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < i; ++j)
        symmetric =
            symmetric && std::abs(a[at(i * n + j)] - a[at(j * n + i)]) <= 1e-2 * std::sqrt(eps) * largest;
    // Where no finer level has a smoother, M must be definite where A is: zeros for the rest would not be.
    invert_dense(a, n, rounding_terms * eps * largest, positive ? largest : negative ? -largest : 0);
    Vector<T> dense(host_, n * n);
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        const double value = symmetric ? 0.5 * (a[at(i * n + j)] + a[at(j * n + i)]) : a[at(i * n + j)];
        dense[i * n + j] = static_cast<T>(value * (d[at(i)] * d[at(j)]));
      }
    require_no_overflow<T>(*host_, name(), dense.data(), n * n);
    level.dense = moved(std::move(dense));
  }

  void make_other_smoother(const LinearOperator<T>& A, bool finest, Level<T>& level) const {
    const bool chebyshev = options_.smoother == Smoother::chebyshev;
    PreconditionerOptions options;
    options.zero_diagonal = finest ? options_.zero_diagonal : ZeroDiagonal::one;
    if (chebyshev) options.degree = 1, options.eigenvalue_ratio = 10;
    level.smoother = make_preconditioner<T>(chebyshev ? "chebyshev" : "ssor", A, options);
    level.smoother->ensure(A);
  }

  void make_smoother(const LinearOperator<T>* A, const CsrMatrix<T>& csr, const Vector<T>& diagonal,
                     const std::vector<double>& scale, bool finest, Level<T>& level) const {
    if (options_.smoother != Smoother::l1_jacobi) return make_other_smoother(*A, finest, level);
    Vector<T> l1(host_, csr.rows());
    for_rows(*host_, csr.rows(), csr.nonzeros(), [&](std::int64_t i) {
      double sum = std::abs(static_cast<double>(diagonal[i]));
      for (std::int64_t p = csr.pattern.row_ptr[i]; p < csr.pattern.row_ptr[i + 1]; ++p)
        if (csr.pattern.col[p] != i) sum += std::abs(static_cast<double>(csr.values[p]));
      // A row of nothing but rounding belongs to a null space of its own.
      const double inverse = std::min(longest_sweep / sum, 1 / std::abs(static_cast<double>(diagonal[i])));
      l1[i] = sum > rounding_terms * eps * scale[at(i)] ? static_cast<T>(std::copysign(inverse, diagonal[i]))
                                                        : T(0);
    });
    require_no_overflow<T>(*host_, name(), l1.data(), l1.size());
    level.l1 = moved(std::move(l1));
  }

  // Null where the level cannot be coarsened; `kept` where that is still right.
  std::shared_ptr<Structure> structure_of(const CsrMatrix<T>& csr, const Nodes& nodes, double strength,
                                          const std::shared_ptr<Structure>& kept) const {
    auto made = std::make_shared<Structure>();
    const auto mostly_alone = [](const Graph& graph) {
      std::int64_t alone = 0;
      for (std::int64_t i = 0; i < graph.rows(); ++i) alone += graph.row(i).empty();
      return 2 * alone > graph.rows();
    };
    made->strong = strong_couplings<T>(*host_, csr, nodes.first, nodes.of, strength);
    for (int halved = 0; halved < most_halvings && mostly_alone(made->strong); ++halved)
      made->strong = strong_couplings<T>(*host_, csr, nodes.first, nodes.of, strength /= 2);
    if (kept && kept->strong == made->strong) return kept;
    made->aggregates = aggregate(*host_, made->strong);
    orthogonalise(*host_, nodes, *made);
    const std::int64_t rows = made->coarse.rows();
    if (rows == 0 || static_cast<double>(rows) > least_coarsening * static_cast<double>(csr.rows()))
      return nullptr;
    made->P = std::make_shared<const Graph>(prolongator_pattern(*host_, nodes, *made));
    if (options_.level_format == LevelFormat::csr) made->format = "csr";
    if (options_.level_format == LevelFormat::csr || !on_device())
      made->format_of_P = made->format_of_R = "csr";
    return made;
  }

  // The matrix of the next level; P and R of this one, the last one of `made`.
  CsrMatrix<T> coarsen(const CsrMatrix<T>& csr, const std::vector<double>& diagonal, const Nodes& nodes,
                       Structure& structure, bool known, Made<T>& made) const {
    const CsrMatrix<T> P = matrix_of<T>(structure.P, structure.coarse.rows(),
                                        prolongator_values<T>(host_, csr, diagonal, nodes, structure));
    const CsrMatrix<T> R = transpose(host_, P);
    if (!structure.AP)
      structure.AP = std::make_shared<const Graph>(product_pattern(*host_, csr.pattern, P.pattern));
    const CsrMatrix<T> AP =
        matrix_of<T>(structure.AP, P.cols(), product_values(host_, csr, P, *structure.AP));
    if (!structure.coarse_pattern)
      structure.coarse_pattern =
          std::make_shared<const Graph>(product_pattern(*host_, R.pattern, AP.pattern));
    place(made, &Level<T>::P, P, structure.format_of_P, known);
    place(made, &Level<T>::R, R, structure.format_of_R, known);
    return matrix_of<T>(structure.coarse_pattern, P.cols(),
                        product_values(host_, R, AP, *structure.coarse_pattern));
  }

  const LinearOperator<T>& matrix(std::size_t l) const { return l == 0 ? *A_ : *levels_[l].matrix; }

  // residual := r - A z
  void find_residual(std::size_t l, VectorView<const T> r, VectorView<const T> z) const {
    Vector<T>& residual = levels_[l].residual;
    axpby<T>(*this->context(), T(1), r, T(0), residual);
    matrix(l).apply(T(-1), z, T(1), residual);
  }

  // z := S^-1 r where z is zero, else z := z + S^-1 (r - A z)
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

  // Bytes that the cycles of M^-1 r read and write, over those of a product of A.
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

  static constexpr double eps = std::numeric_limits<T>::epsilon();
  PreconditionerOptions options_;
  std::int64_t vectors_;
  std::vector<double> given_;
  Nodes nodes_;  // of the finest level: see host_nodes()
  DeviceNodes nodes_there_;
  ContextPtr host_;               // where a host makes levels
  bool by_device_ = false;        // the last setup
  std::string_view why_on_host_;  // the figure that says why, where the host had to make levels for a device
  const LinearOperator<T>* A_ = nullptr;
  mutable std::mutex mutex_;  // of the vectors of the levels
  std::vector<Level<T>> levels_;
  double cycle_products_ = 1;
};

void require_whole_nodes(std::int64_t rows, std::int64_t unknowns) {
  if (rows % unknowns != 0)
    throw ShapeMismatch(
        fmt::format("amg: unknowns is {}, which does not divide the {} rows of the matrix", unknowns, rows));
}

}  // namespace

void require_nodes(std::int64_t rows, const PreconditionerOptions& options) {
  require_whole_nodes(rows, options.unknowns);
  if (options.near_null_space) (void)near_null_space_of(rows, *options.near_null_space);
}

template <class T>
MadePreconditioner<T> make_aggregation(const LinearOperator<T>& A, const PreconditionerOptions& options) {
  require_whole_nodes(A.rows(), options.unknowns);
  if (!options.near_null_space)
    return std::make_unique<Aggregation<T>>(A, options, options.unknowns, std::vector<double>());
  PreconditionerOptions own = options;
  own.near_null_space = nullptr;
  return std::make_unique<Aggregation<T>>(A, own, options.near_null_space->columns(),
                                          near_null_space_of(A.rows(), *options.near_null_space));
}

template <class T>
MadePreconditioner<T> make_amg(const LinearOperator<T>& A, const PreconditionerOptions& options) {
  if (options.setup == AmgSetup::aggregation) return make_aggregation<T>(A, options);
  if (options.near_null_space)
    throw BadArgument(
        "vectors near the null space are for amg with setup aggregation; leave them out, or take that");
  if (A.context()->space() == Space::device)
    throw NotAvailable(
        "preconditioner amg with setup classical is not for a device: it computes on the host; take setup "
        "aggregation");
  if (const std::string_view why = unavailable(options.setup); !why.empty())
    throw NotAvailable(fmt::format("preconditioner amg with setup classical: {}", why));
  if (A.context()->deterministic())
    throw NotAvailable(
        "preconditioner amg with setup classical is not for deterministic mode: another library adds its "
        "sums; take setup aggregation");
#if defined(PROTEAN_HAVE_HYPRE)
  return make_classical<T>(A, options);
#else
  return nullptr;
#endif
}

#define PROTEAN_INSTANTIATE(T)                                                      \
  template MadePreconditioner<T> make_aggregation<T>(const LinearOperator<T>&,      \
                                                     const PreconditionerOptions&); \
  template MadePreconditioner<T> make_amg<T>(const LinearOperator<T>&, const PreconditionerOptions&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail

namespace protean {

template <class T>
std::unique_ptr<Preconditioner<T>> make_amg(const LinearOperator<T>& A, MultiVectorView<const double> vectors,
                                            const PreconditionerOptions& options) {
  require<double>(vectors, A.rows(), vectors.columns, Space::host, "the vectors near the null space");
  MultiVector<double> copied(Context::host(1), vectors.rows, vectors.columns);
  for (std::int64_t k = 0; k < vectors.columns; ++k)
    for (std::int64_t i = 0; i < vectors.rows; ++i) copied.view()(i, k) = vectors(i, k);
  PreconditionerOptions with = options;
  with.near_null_space = &copied;
  return make_preconditioner<T>("amg", A, with);
}
template std::unique_ptr<Preconditioner<float>> make_amg<float>(const LinearOperator<float>&,
                                                                MultiVectorView<const double>,
                                                                const PreconditionerOptions&);
template std::unique_ptr<Preconditioner<double>> make_amg<double>(const LinearOperator<double>&,
                                                                  MultiVectorView<const double>,
                                                                  const PreconditionerOptions&);

}  // namespace protean
