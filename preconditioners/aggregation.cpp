// Algebraic multigrid by smoothed aggregation. Vanek, Mandel and Brezina, "Algebraic multigrid by smoothed aggregation
// for second and fourth order elliptic problems", Computing 56 (1996) 179.
//
// A level has a matrix A_l (A_0 = A), nodes of one or several rows, and vectors B_l that A_l nearly maps to zero: the
// constant of each unknown of the nodes, or those of the caller.
//   Strength      nodes I and J are coupled where |A_IJ| > strength_l sqrt(|A_II| |A_JJ|) (Frobenius norms of blocks);
//                 strength_0 is the option, and half of it on each coarser level.
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
//   Coarsest      at most 256 rows: the inverse, dense; singular matrices have an inner inverse. More rows, where
//                 nothing coarsens any more or max_levels is reached, and with max_levels 1: S^-1.
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
// On a device the threads of the host make the levels of entries that are copied there, and the patterns stay in host
// memory. P, R and the matrices lie in device memory, each in the format that the cost model of the device chooses. A
// cycle is queued there without waiting for the host (device_cycle.hpp), and may be recorded. With l1-jacobi new values
// go into the matrices that are there, after all else has been made; the other smoothers may refuse new values, so with
// them these matrices are made anew, in the formats that were chosen.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "core/multi_blas1.hpp"
#include "core/simulated_device.hpp"
#include "core/transfer.hpp"
#include "formats/catalogue.hpp"
#include "formats/choose.hpp"
#include "operators/policy/cost_model.hpp"
#include "preconditioners/aggregates.hpp"
#include "preconditioners/by_solving.hpp"
#include "preconditioners/dense_inverse.hpp"
#include "preconditioners/device_cycle.hpp"
#include "preconditioners/diagonal.hpp"
#include "preconditioners/entries.hpp"
#include "preconditioners/makers.hpp"
#include "preconditioners/sparse_product.hpp"

namespace protean::detail {
namespace {

constexpr std::int64_t most_dense_rows = 256;
// A level that has more of the rows of the finer one than this is not worth its work.
constexpr double least_coarsening = 0.8;
// 1 / (2/3): see l1-jacobi above.
constexpr double longest_sweep = 1.5;
// A diagonal entry that is so small beside those of the finest level that it is made of is rounding.
constexpr double rounding_terms = 256;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// The rows of nodes, and vectors at these rows: vector k of row i is values[i vectors + k].
struct Nodes {
  std::vector<std::int32_t> first = {0};  // first row of each node, and the number of rows
  std::vector<std::int32_t> of;           // of each row
  std::int64_t vectors = 0;
  std::vector<double> values;
  std::int64_t count() const noexcept { return static_cast<std::int64_t>(first.size()) - 1; }
  std::int64_t rows() const noexcept { return first.back(); }
  void number_rows() {
    of.resize(at(rows()));
    for (std::int64_t node = 0; node < count(); ++node)
      std::fill(of.begin() + first[at(node)], of.begin() + first[at(node + 1)],
                static_cast<std::int32_t>(node));
  }
  std::size_t bytes() const noexcept { return 4 * (first.size() + of.size()) + 8 * values.size(); }
};

// What does not depend on the values of a level but through its strong couplings.
struct Structure {
  Graph strong;
  Aggregates aggregates;
  Nodes coarse;
  std::vector<double> tentative;  // row i: the coarse columns of its aggregate, from place tentative_ptr[i]
  std::vector<std::int64_t> tentative_ptr;
  std::shared_ptr<const Graph> P, AP, coarse_pattern;
  std::string format, format_of_P, format_of_R;  // `format` is that of the coarse matrix
  // With `shared` the matrices use the patterns, and count them: that of P, and that of a coarse matrix in csr.
  std::size_t bytes(bool shared) const noexcept {
    return strong.bytes() + 4 * aggregates.of.size() + coarse.bytes() +
           8 * (tentative.size() + tentative_ptr.size()) + AP->bytes() + (shared ? 0 : P->bytes()) +
           (shared && format == "csr" ? 0 : coarse_pattern->bytes());
  }
};

template <class Body>
void for_rows(const Context& context, std::int64_t rows, std::int64_t work, Body body) {
  parallel(useful_parts(context, work), [&](int part, int parts) {
    const Range mine = even_range(rows, part, parts);
    for (std::int64_t i = mine.begin; i < mine.end; ++i) body(i);
  });
}

// The sum of term(i) over chunks of fixed size, chunk after chunk: the same bits for any threads.
template <class Term>
double fixed_sum(const Context& context, std::int64_t size, Term term) {
  constexpr std::int64_t chunk = 4096;
  std::vector<double> sums(at((size + chunk - 1) / chunk), 0);
  for_rows(context, static_cast<std::int64_t>(sums.size()), size, [&](std::int64_t c) {
    double sum = 0;
    for (std::int64_t i = c * chunk; i < std::min(size, (c + 1) * chunk); ++i) sum += term(i);
    sums[at(c)] = sum;
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

// The tentative prolongator and the vectors of the coarse level.
void orthogonalise(const Context& context, const Nodes& nodes, Structure& made) {
  const std::int64_t count = made.aggregates.count, vectors = nodes.vectors;
  // The nodes of each aggregate.
  std::vector<std::int64_t> ptr(at(count) + 1, 0);
  for (const std::int32_t a : made.aggregates.of)
    if (a >= 0) ++ptr[at(a) + 1];
  std::partial_sum(ptr.begin(), ptr.end(), ptr.begin());
  std::vector<std::int32_t> members(at(ptr.back()));
  std::vector<std::int64_t> next(ptr.begin(), ptr.end() - 1);
  for (std::int64_t node = 0; node < nodes.count(); ++node)
    if (const std::int32_t a = made.aggregates.of[at(node)]; a >= 0)
      members[at(next[at(a)]++)] = static_cast<std::int32_t>(node);
  // Q and R of each aggregate: first with all columns, then those that are kept are put together.
  std::vector<std::int32_t> rank(at(count));
  std::vector<double> Q(at(nodes.rows() * vectors)), R(at(count * vectors * vectors));
  for_rows(context, count, nodes.rows() * vectors, [&](std::int64_t a) {
    const auto each_row = [&](auto f) {
      for (std::int64_t m = ptr[at(a)]; m < ptr[at(a + 1)]; ++m) {
        const std::int64_t node = members[at(m)];
        for (std::int64_t i = nodes.first[at(node)]; i < nodes.first[at(node + 1)]; ++i) f(i);
      }
    };
    double* const r = R.data() + a * vectors * vectors;
    std::int32_t kept = 0;
    for (std::int64_t k = 0; k < vectors; ++k) {
      double before = 0;
      each_row([&](std::int64_t i) {
        const double value = nodes.values[at(i * vectors + k)];
        Q[at(i * vectors + kept)] = value, before += value * value;
      });
      for (int pass = 0; pass < 2; ++pass)
        for (std::int32_t q = 0; q < kept; ++q) {
          double dot = 0;
          each_row([&](std::int64_t i) { dot += Q[at(i * vectors + q)] * Q[at(i * vectors + kept)]; });
          each_row([&](std::int64_t i) { Q[at(i * vectors + kept)] -= dot * Q[at(i * vectors + q)]; });
          r[q * vectors + k] += dot;
        }
      double after = 0;
      each_row([&](std::int64_t i) { after += Q[at(i * vectors + kept)] * Q[at(i * vectors + kept)]; });
      if (!(after > 1e-20 * before)) continue;  // it depends on the columns before
      const double norm = std::sqrt(after);
      each_row([&](std::int64_t i) { Q[at(i * vectors + kept)] /= norm; });
      r[kept * vectors + k] = norm;
      ++kept;
    }
    rank[at(a)] = kept;
  });
  Nodes& coarse = made.coarse;
  coarse.vectors = vectors;
  coarse.first.reserve(at(count) + 1);
  for (const std::int32_t one : rank) coarse.first.push_back(coarse.first.back() + one);
  coarse.number_rows();
  coarse.values.resize(at(coarse.rows() * vectors));
  for_rows(context, count, coarse.rows() * vectors, [&](std::int64_t a) {
    std::copy_n(R.data() + a * vectors * vectors, rank[at(a)] * vectors,
                coarse.values.data() + coarse.first[at(a)] * vectors);
  });
  made.tentative_ptr.assign(at(nodes.rows()) + 1, 0);
  for (std::int64_t i = 0; i < nodes.rows(); ++i) {
    const std::int32_t a = made.aggregates.of[at(nodes.of[at(i)])];
    made.tentative_ptr[at(i + 1)] = made.tentative_ptr[at(i)] + (a >= 0 ? rank[at(a)] : 0);
  }
  made.tentative.resize(at(made.tentative_ptr.back()));
  for_rows(context, nodes.rows(), nodes.rows() * vectors, [&](std::int64_t i) {
    const std::int64_t begin = made.tentative_ptr[at(i)];
    std::copy_n(Q.data() + i * vectors, made.tentative_ptr[at(i + 1)] - begin, made.tentative.data() + begin);
  });
}

// Row i of P has the coarse columns of the aggregates of its node and of all nodes that are coupled with it.
Graph prolongator_pattern(const Context& context, const Nodes& nodes, const Structure& made) {
  return collect_rows(context, nodes.rows(), made.strong.size(),
                      [&](Range rows, std::vector<std::int32_t>& col, std::int64_t* size) {
                        std::vector<std::int32_t> near;
                        for (std::int64_t i = rows.begin; i < rows.end; ++i) {
                          const std::int32_t node = nodes.of[at(i)];
                          if (i == rows.begin || nodes.of[at(i - 1)] != node) {
                            near.clear();
                            const auto add = [&](std::int32_t one) {
                              if (const std::int32_t a = made.aggregates.of[at(one)]; a >= 0)
                                near.push_back(a);
                            };
                            add(node);
                            for (const std::int32_t other : made.strong.row(node)) add(other);
                            std::sort(near.begin(), near.end());
                            near.erase(std::unique(near.begin(), near.end()), near.end());
                          }
                          const std::size_t before = col.size();
                          for (const std::int32_t a : near)
                            for (std::int32_t c = made.coarse.first[at(a)]; c < made.coarse.first[at(a + 1)];
                                 ++c)
                              col.push_back(c);
                          size[i - rows.begin] = static_cast<std::int64_t>(col.size() - before);
                        }
                      });
}

// One level as it is used.
template <class T>
struct Level {
  std::shared_ptr<Structure> structure;  // complete and never changed; null on the coarsest level
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
  Aggregation(const LinearOperator<T>& A, const PreconditionerOptions& options, Nodes nodes)
      : BySolving<T>(A),
        options_(options),
        nodes_(std::move(nodes)),
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
    return {{"levels", static_cast<double>(levels_.size())},
            {"operator_complexity", finest.entries > 0 ? entries / static_cast<double>(finest.entries) : 1},
            {"grid_complexity", finest.rows > 0 ? rows / static_cast<double>(finest.rows) : 1},
            {"coarsest_rows", static_cast<double>(levels_.back().rows)},
            {"cycle_products", cycle_products_}};
  }

 protected:
  void setup(const LinearOperator<T>& A, bool pattern_changed) override {
    const ContextPtr& context = A.context();
    CsrMatrix<T> csr = finite_rows(A, host_, name());
    Vector<T> diagonal = usable_diagonal<T>(name(), host_, csr, options_.zero_diagonal);
    Made<T> made;
    std::vector<Level<T>>& levels = made.levels;
    // The size of the diagonal entries of the finest level that an entry of the diagonal is made of.
    std::vector<double> scale(at(csr.rows()));
    for (std::int64_t i = 0; i < csr.rows(); ++i) scale[at(i)] = std::abs(static_cast<double>(diagonal[i]));
    const Nodes* nodes = &nodes_;
    bool known = !pattern_changed;  // whether the level has the pattern of the same level of the last setup
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
      CsrMatrix<T> coarse = coarsen(csr, divisors(diagonal, scale), *nodes, *structure, known, made);
      const std::int64_t bad = first_not_finite<T>(*host_, coarse.values, coarse.nonzeros());
      if (bad < coarse.nonzeros())
        throw BadMatrix(fmt::format(
            "amg: the matrix of level {} has the entry {}, since products of entries of this matrix are too "
            "large for {} "
            "precision; scale the matrix (D A D with d_i = 1 / sqrt |a_ii|), or use another preconditioner",
            l + 1, coarse.values[bad], sizeof(T) == 8 ? "double" : "single"));
      scale = coarse_scale(scale, *nodes, *structure);
      level.structure = structure;
      nodes = &structure->coarse;
      csr = std::move(coarse);
      diagonal = Vector<T>(host_, csr.rows());
      extract_diagonal<T>(*host_, csr, diagonal.data());
    }
    renew(made);
    levels_ = std::move(levels), A_ = &A;
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
    std::size_t sum = nodes_.bytes();
    for (const Level<T>& level : levels_) sum += level.bytes(!on_device());
    return sum;
  }

 private:
  bool on_device() const noexcept { return this->context()->space() == Space::device; }
  const FormatEntry& format_here(std::string_view id) const {
    const SimulatedDevice* const simulated = this->context()->simulated();
    return simulated && on_device() ? simulated->format(id) : find_format(id);
  }

  // In this format; where it is empty it is chosen, and written there. The pattern alone decides, not whether values
  // happen to be symmetric to the bit, so new values have the format of a new setup.
  std::unique_ptr<AssembledMatrix<T>> in_format(const CsrMatrix<T>& csr, std::string& format) const {
    const ContextPtr& context = this->context();
    const CsrMatrix<T> here = on_device() ? upload(context, narrow(csr)) : csr;
    if (format.empty()) {
      const ChoiceOptions options{.space = context->space(),
                                  .products_per_iteration = 2,
                                  .deterministic = context->deterministic(),
                                  .value_bytes = sizeof(T)};
      format = choose_format(csr.pattern, CostModel(builtin_machine(), context->space()), options).id;
      try {
        return make_matrix(format_here(format), here, context);
      } catch (const FormatRefused&) {
        format = "csr";  // the choice sees a sample of the rows
      }
    }
    return make_matrix(format_here(format), here, context);
  }
  // The same matrix with row pointers of 4 bytes, where they can be: a device reads them with each product.
  CsrMatrix<T> narrow(const CsrMatrix<T>& csr) const {
    if (csr.pattern.row_ptr.p32 || csr.nonzeros() > std::numeric_limits<std::int32_t>::max()) return csr;
    struct Arrays {
      Buffer<std::int32_t> row_ptr;
      std::shared_ptr<const void> columns;
    };
    const auto arrays =
        std::make_shared<Arrays>(Arrays{Buffer<std::int32_t>(host_, csr.rows() + 1), csr.pattern.owner});
    for (std::int64_t i = 0; i <= csr.rows(); ++i)
      arrays->row_ptr[i] = static_cast<std::int32_t>(csr.pattern.row_ptr[i]);
    CsrMatrix<T> narrow = csr;
    narrow.pattern.row_ptr = {arrays->row_ptr.data(), nullptr}, narrow.pattern.owner = arrays;
    return narrow;
  }

  // Puts a matrix into the last level of `made`, or its new values into the list of renewals. known: that of the last
  // setup has the same pattern.
  void place(Made<T>& made, std::unique_ptr<AssembledMatrix<T>> Level<T>::*which, const CsrMatrix<T>& csr,
             std::string& format, bool known) const {
    const std::size_t l = made.levels.size() - 1;
    // A setup that may fail later must leave the matrices of the last one as they are.
    const bool nothing_fails_later = options_.smoother == Smoother::l1_jacobi;
    if (on_device() && known && nothing_fails_later && l < levels_.size() && levels_[l].*which)
      made.renewals.push_back({l, which, new_values(*(levels_[l].*which), csr)});
    else
      made.levels[l].*which = in_format(csr, format);
  }
  // csr in device memory, for update_values() of `old`.
  CsrMatrix<T> new_values(const AssembledMatrix<T>& old, const CsrMatrix<T>& csr) const {
    if (old.name() != "csr") return upload(this->context(), narrow(csr));
    CsrMatrix<T> renewed = old.to_csr();  // shares its pattern
    const auto values = std::make_shared<Buffer<T>>(this->context(), csr.nonzeros());
    copy_bytes(*this->context(), values->data(), Space::device, csr.values, Space::host, values->bytes());
    renewed.values = values->data(), renewed.values_owner = values, renewed.watch = nullptr;
    return renewed;
  }
  // Moves the matrices that are renewed into the new levels. M is unusable where that fails, which only the device can
  // be the reason of.
  void renew(Made<T>& made) {
    try {
      for (Renewal<T>& one : made.renewals) {
        std::unique_ptr<AssembledMatrix<T>>& matrix = levels_[one.level].*one.which;
        matrix->update_values(one.values);
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
    bool symmetric = true;
    double largest = 1;
    for (const double value : a) largest = std::max(largest, std::abs(value));
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < i; ++j)
        symmetric =
            symmetric && std::abs(a[at(i * n + j)] - a[at(j * n + i)]) <= 1e-2 * std::sqrt(eps) * largest;
    invert_dense(a, n, rounding_terms * eps * largest);
    Vector<T> dense(host_, n * n);
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        const double value = symmetric ? 0.5 * (a[at(i * n + j)] + a[at(j * n + i)]) : a[at(i * n + j)];
        dense[i * n + j] = static_cast<T>(value * (d[at(i)] * d[at(j)]));
      }
    require_no_overflow<T>(*host_, name(), dense.data(), n * n);
    level.dense = moved(std::move(dense));
  }

  void make_smoother(const LinearOperator<T>* A, const CsrMatrix<T>& csr, const Vector<T>& diagonal,
                     const std::vector<double>& scale, bool finest, Level<T>& level) const {
    if (options_.smoother != Smoother::l1_jacobi) {
      const bool chebyshev = options_.smoother == Smoother::chebyshev;
      PreconditionerOptions options;
      options.zero_diagonal = finest ? options_.zero_diagonal : ZeroDiagonal::one;
      if (chebyshev) options.degree = 1, options.eigenvalue_ratio = 10;
      level.smoother = make_preconditioner<T>(chebyshev ? "chebyshev" : "ssor", *A, options);
      level.smoother->ensure(*A);
      return;
    }
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
    made->strong = strong_couplings<T>(*host_, csr, nodes.first, nodes.of, strength);
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
                                        prolongator_values(csr, diagonal, nodes, structure));
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

  // The diagonal, without the entries that are nothing but rounding.
  static std::vector<double> divisors(const Vector<T>& diagonal, const std::vector<double>& scale) {
    std::vector<double> result(scale.size());
    for (std::size_t i = 0; i < scale.size(); ++i) {
      const double d = diagonal[static_cast<std::int64_t>(i)], least = rounding_terms * eps * scale[i];
      result[i] = std::abs(d) > least ? d : least > 0 ? least : 1;
    }
    return result;
  }

  Buffer<T> prolongator_values(const CsrMatrix<T>& csr, const std::vector<double>& diagonal,
                               const Nodes& nodes, const Structure& structure) const {
    const double omega = 4.0 / 3 / spectral_radius(csr, diagonal);
    Buffer<T> values(host_, structure.P->size());
    parallel(useful_parts(*host_, csr.nonzeros()), [&](int part, int parts) {
      const Range rows = even_range(csr.rows(), part, parts);
      std::vector<double> sum(at(structure.coarse.rows()), 0);
      std::vector<std::int32_t> joined(at(nodes.count()), -1);  // the last node that is coupled with it
      // sum += factor * row i of T
      const auto add = [&](double factor, std::int64_t i) {
        const std::int32_t a = structure.aggregates.of[at(nodes.of[at(i)])];
        if (a < 0) return;
        const double* const t = structure.tentative.data() + structure.tentative_ptr[at(i)];
        const std::int32_t first = structure.coarse.first[at(a)];
        for (std::int32_t c = first; c < structure.coarse.first[at(a + 1)]; ++c)
          sum[at(c)] += factor * t[c - first];
      };
      for (std::int64_t i = rows.begin; i < rows.end; ++i) {
        const std::int32_t node = nodes.of[at(i)];
        if (structure.aggregates.of[at(node)] < 0) continue;
        joined[at(node)] = node;
        for (const std::int32_t other : structure.strong.row(node)) joined[at(other)] = node;
        const double factor = -omega / diagonal[at(i)];
        add(1, i);
        for (std::int64_t p = csr.pattern.row_ptr[i]; p < csr.pattern.row_ptr[i + 1]; ++p) {
          const std::int64_t j = csr.pattern.col[p];
          const auto a = static_cast<double>(csr.values[p]);
          const std::int32_t other = nodes.of[at(j)];
          if (joined[at(other)] == node) {
            add(factor * a, j);
            continue;
          }
          const std::int64_t same = nodes.first[at(node)] + j - nodes.first[at(other)];
          add(factor * a, same < nodes.first[at(node + 1)] ? same : i);
        }
        T* to = values.data() + structure.P->ptr[at(i)];
        for (const std::int32_t c : structure.P->row(i))
          *to++ = static_cast<T>(std::exchange(sum[at(c)], 0.0));
      }
    });
    return values;
  }

  // An estimate of the largest eigenvalue of D^-1 A.
  double spectral_radius(const CsrMatrix<T>& csr, const std::vector<double>& diagonal) const {
    const Context& context = *host_;
    const std::int64_t n = csr.rows();
    std::vector<double> x(at(n)), y(at(n)), weight(at(n)), bound(at(n));
    std::uint64_t state = 88172645463325252u;  // xorshift64: Marsaglia, J. Stat. Softw. 8 (2003) 14
    for (double& value : x) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      value = static_cast<double>(state >> 11) * 0x1p-52 - 1;
    }
    for_rows(context, n, csr.nonzeros(), [&](std::int64_t i) {
      weight[at(i)] = std::abs(diagonal[at(i)]);
      double sum = 0;
      for (std::int64_t p = csr.pattern.row_ptr[i]; p < csr.pattern.row_ptr[i + 1]; ++p)
        sum += std::abs(static_cast<double>(csr.values[p]));
      bound[at(i)] = sum / weight[at(i)];
    });
    const double gershgorin = n > 0 ? *std::max_element(bound.begin(), bound.end()) : 1;
    const auto norm = [&](const std::vector<double>& v) {
      return std::sqrt(
          fixed_sum(context, n, [&](std::int64_t i) { return weight[at(i)] * v[at(i)] * v[at(i)]; }));
    };
    double estimate = 0, before = norm(x);
    constexpr int steps = 12;
    for (int k = 0; k < steps && before > 0 && std::isfinite(before); ++k) {
      const double factor = 1 / before;
      for_rows(context, n, csr.nonzeros(), [&](std::int64_t i) {
        double sum = 0;
        for (std::int64_t p = csr.pattern.row_ptr[i]; p < csr.pattern.row_ptr[i + 1]; ++p)
          sum += static_cast<double>(csr.values[p]) * x[at(csr.pattern.col[p])];
        y[at(i)] = factor * sum / weight[at(i)];
      });
      estimate = before = norm(y);
      std::swap(x, y);
    }
    constexpr double safety = 1.1;
    const double found = std::isfinite(estimate) && estimate > 0 ? safety * estimate : gershgorin;
    return std::max(std::min(found, gershgorin), 1e-300);
  }

  static std::vector<double> coarse_scale(const std::vector<double>& scale, const Nodes& nodes,
                                          const Structure& structure) {
    std::vector<double> of_aggregate(at(structure.aggregates.count), 0), result(at(structure.coarse.rows()));
    for (std::int64_t i = 0; i < nodes.rows(); ++i)
      if (const std::int32_t a = structure.aggregates.of[at(nodes.of[at(i)])]; a >= 0)
        of_aggregate[at(a)] = std::max(of_aggregate[at(a)], scale[at(i)]);
    for (std::int64_t c = 0; c < structure.coarse.rows(); ++c)
      result[at(c)] = of_aggregate[at(structure.coarse.of[at(c)])];
    return result;
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
  Nodes nodes_;      // of the finest level
  ContextPtr host_;  // where levels are made
  const LinearOperator<T>* A_ = nullptr;
  mutable std::mutex mutex_;  // of the vectors of the levels
  std::vector<Level<T>> levels_;
  double cycle_products_ = 1;
};

Nodes equal_nodes(std::int64_t rows, std::int64_t unknowns) {
  if (rows % unknowns != 0)
    throw ShapeMismatch(
        fmt::format("amg: unknowns is {}, which does not divide the {} rows of the matrix", unknowns, rows));
  Nodes nodes;
  for (std::int64_t i = unknowns; i <= rows; i += unknowns)
    nodes.first.push_back(static_cast<std::int32_t>(i));
  nodes.number_rows();
  return nodes;
}

}  // namespace

template <class T>
MadePreconditioner<T> make_aggregation(const LinearOperator<T>& A, const PreconditionerOptions& options) {
  Nodes nodes = equal_nodes(A.rows(), options.unknowns);
  nodes.vectors = options.unknowns;
  nodes.values.assign(at(A.rows() * nodes.vectors), 0);
  for (std::int64_t i = 0; i < A.rows(); ++i) nodes.values[at(i * nodes.vectors + i % options.unknowns)] = 1;
  return std::make_unique<Aggregation<T>>(A, options, std::move(nodes));
}

template <class T>
MadePreconditioner<T> make_amg(const LinearOperator<T>& A, const PreconditionerOptions& options) {
  if (options.setup == AmgSetup::aggregation) return make_aggregation<T>(A, options);
  if (A.context()->space() == Space::device)
    throw NotAvailable(
        "preconditioner amg with setup classical is not for a device: it computes on the host; take setup "
        "aggregation");
  if (const std::string_view why = unavailable(options.setup); !why.empty())
    throw NotAvailable(fmt::format("preconditioner amg with setup classical: {}", why));
  if (A.context()->deterministic())
    throw NotAvailable(
        "preconditioner amg with setup classical is not for deterministic mode: another library adds its "
        "sums; take "
        "setup aggregation");
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
  if (options.setup != AmgSetup::aggregation)
    throw BadArgument(
        "vectors near the null space are for amg with setup aggregation; leave them out, or take that");
  (void)make_preconditioner<T>("amg", A, options);  // its checks
  require<double>(vectors, A.rows(), vectors.columns, Space::host, "the vectors near the null space");
  constexpr std::int64_t most = 64;
  if (vectors.columns < 1 || vectors.columns > most)
    throw BadArgument(fmt::format("amg takes 1 to {} vectors near the null space, and these are {}", most,
                                  vectors.columns));
  detail::Nodes nodes = detail::equal_nodes(A.rows(), options.unknowns);
  nodes.vectors = vectors.columns;
  nodes.values.resize(detail::at(A.rows() * vectors.columns));
  for (std::int64_t i = 0; i < A.rows(); ++i)
    for (std::int64_t k = 0; k < vectors.columns; ++k) {
      if (!std::isfinite(vectors(i, k)))
        throw BadArgument(fmt::format("entry {} of vector {} near the null space is {} (both count from 0)",
                                      i, k, vectors(i, k)));
      nodes.values[detail::at(i * vectors.columns + k)] = vectors(i, k);
    }
  return std::make_unique<detail::Aggregation<T>>(A, options, std::move(nodes));
}
template std::unique_ptr<Preconditioner<float>> make_amg<float>(const LinearOperator<float>&,
                                                                MultiVectorView<const double>,
                                                                const PreconditionerOptions&);
template std::unique_ptr<Preconditioner<double>> make_amg<double>(const LinearOperator<double>&,
                                                                  MultiVectorView<const double>,
                                                                  const PreconditionerOptions&);

MultiVector<double> rigid_body_modes(const ContextPtr& host, MultiVectorView<const double> coordinates) {
  const std::int64_t nodes = coordinates.rows, d = coordinates.columns;
  require<double>(coordinates, nodes, d, Space::host, "the coordinates");
  if (d != 2 && d != 3)
    throw BadArgument(
        fmt::format("rigid body modes are for 2 or 3 coordinates of a node, and these are {}", d));
  // Rotations about the middle, so that they have the size of the translations or less.
  double middle[3] = {0, 0, 0}, reach = 0;
  for (std::int64_t k = 0; k < d; ++k) {
    for (std::int64_t i = 0; i < nodes; ++i) middle[k] += coordinates(i, k) / static_cast<double>(nodes);
    for (std::int64_t i = 0; i < nodes; ++i) reach = std::max(reach, std::abs(coordinates(i, k) - middle[k]));
  }
  if (!std::isfinite(reach)) throw BadArgument("rigid body modes need finite coordinates");
  if (reach == 0) reach = 1;
  const std::int64_t modes = d == 2 ? 3 : 6;
  MultiVector<double> made(host, nodes * d, modes);
  const MultiVectorView<double> B = made;
  for (std::int64_t i = 0; i < nodes; ++i) {
    for (std::int64_t k = 0; k < d; ++k)
      for (std::int64_t m = 0; m < modes; ++m) B(i * d + k, m) = k == m ? 1 : 0;
    // The rotation in the plane of axes a and b: -x_b along a, x_a along b.
    std::int64_t m = d;
    for (std::int64_t a = 0; a < d; ++a)
      for (std::int64_t b = a + 1; b < d; ++b, ++m) {
        B(i * d + a, m) = -(coordinates(i, b) - middle[b]) / reach;
        B(i * d + b, m) = (coordinates(i, a) - middle[a]) / reach;
      }
  }
  return made;
}

}  // namespace protean
