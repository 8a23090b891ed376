// The levels of smoothed aggregation in host memory, made by the threads of a host.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "core/blas1.hpp"
#include "operators/rows.hpp"
#include "preconditioners/common/by_solving.hpp"
#include "preconditioners/common/diagonal.hpp"
#include "preconditioners/common/entries.hpp"
#include "preconditioners/multigrid/host/prolongator.hpp"
#include "preconditioners/multigrid/level_maker.hpp"
#include "preconditioners/sparse/dense_inverse.hpp"
#include "preconditioners/sparse/sparse_product.hpp"

namespace protean::detail {
namespace {

template <class T>
class HostLevels final : public LevelMaker<T> {
 public:
  HostLevels(const LinearOperator<T>& A, const ContextPtr& host, const PreconditionerOptions& options,
             const Nodes& nodes)
      : host_(host),
        options_(options),
        host_matrices_(A.context()->space() == Space::host),
        nodes_(&nodes),
        csr_(finite_rows(A, host, "amg")),
        diagonal_(usable_diagonal<T>("amg", host, csr_, options.zero_diagonal)),
        scale_(at(csr_.rows())) {
    for (std::int64_t i = 0; i < csr_.rows(); ++i)
      scale_[at(i)] = std::abs(static_cast<double>(diagonal_[i]));
  }

  const CsrMatrix<T>& matrix() const override { return csr_; }

  // X r, X the inverse.
  Vector<T> dense() override {
    const CsrMatrix<T>& csr = csr_;
    const Vector<T>& diagonal = diagonal_;
    const std::vector<double>& scale = scale_;
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
    // If no finer level has a smoother, M must be definite if A is; with zeros for the other rows it would not be.
    invert_dense(a, n, rounding_terms * eps * largest, positive ? largest : negative ? -largest : 0);
    Vector<T> dense(host_, n * n);
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        const double value = symmetric ? 0.5 * (a[at(i * n + j)] + a[at(j * n + i)]) : a[at(i * n + j)];
        dense[i * n + j] = static_cast<T>(value * (d[at(i)] * d[at(j)]));
      }
    require_no_overflow<T>(*host_, "amg", dense.data(), n * n);
    return dense;
  }

  Vector<T> l1() override { return l1_inverse<T>(host_, csr_, diagonal_, scale_); }

  std::shared_ptr<LevelStructure> structure(double strength,
                                            const std::shared_ptr<LevelStructure>& kept) override {
    auto made = std::make_shared<Structure>();
    const auto mostly_alone = [](const Graph& graph) {
      std::int64_t alone = 0;
      for (std::int64_t i = 0; i < graph.rows(); ++i) alone += graph.row(i).empty();
      return 2 * alone > graph.rows();
    };
    made->strong = strong_couplings<T>(*host_, csr_, nodes_->first, nodes_->of, strength);
    for (int halved = 0; halved < most_halvings && mostly_alone(made->strong); ++halved)
      made->strong = strong_couplings<T>(*host_, csr_, nodes_->first, nodes_->of, strength /= 2);
    const auto before = std::static_pointer_cast<Structure>(kept);
    if (before && before->strong == made->strong) return structure_ = before;
    made->aggregates = aggregate(*host_, made->strong);
    orthogonalise(*host_, *nodes_, *made);
    const std::int64_t rows = made->coarse.rows();
    if (rows == 0 || static_cast<double>(rows) > least_coarsening * static_cast<double>(csr_.rows()))
      return structure_ = nullptr;
    made->P = std::make_shared<const Graph>(prolongator_pattern(*host_, *nodes_, *made));
    if (options_.level_format == LevelFormat::csr) made->format = "csr";
    if (options_.level_format == LevelFormat::csr || host_matrices_)
      made->format_of_P = made->format_of_R = "csr";
    return structure_ = made;
  }

  Transfer<T> coarsen() override {
    Structure& structure = *structure_;
    Transfer<T> made;
    const std::vector<double> divided = divisors<T>(diagonal_, scale_);
    const double omega = prolongator_omega<T>(*host_, csr_, divided);
    made.P = matrix_of<T>(structure.P, structure.coarse.rows(),
                          prolongator_values<T>(host_, csr_, divided, omega, *nodes_, structure));
    made.R = transpose(host_, made.P);
    if (!structure.AP)
      structure.AP = std::make_shared<const Graph>(product_pattern(*host_, csr_.pattern, made.P.pattern));
    const CsrMatrix<T> AP =
        matrix_of<T>(structure.AP, made.P.cols(), product_values(host_, csr_, made.P, *structure.AP));
    if (!structure.coarse_pattern)
      structure.coarse_pattern =
          std::make_shared<const Graph>(product_pattern(*host_, made.R.pattern, AP.pattern));
    csr_ = matrix_of<T>(structure.coarse_pattern, made.P.cols(),
                        product_values(host_, made.R, AP, *structure.coarse_pattern));
    const std::int64_t bad = first_not_finite<T>(*host_, csr_.values, csr_.nonzeros());
    if (bad < csr_.nonzeros()) made.bad = csr_.values[bad];
    scale_ = coarse_scale(scale_, *nodes_, structure);
    finer_ = structure_, nodes_ = &structure.coarse;
    diagonal_ = Vector<T>(host_, csr_.rows());
    extract_diagonal<T>(*host_, csr_, diagonal_.data());
    return made;
  }

 private:
  static constexpr double eps = std::numeric_limits<T>::epsilon();
  ContextPtr host_;
  const PreconditionerOptions& options_;
  bool host_matrices_;  // the matrices of the levels lie in host memory, too
  const Nodes* nodes_;
  CsrMatrix<T> csr_;
  Vector<T> diagonal_;
  // The size of the diagonal entries of the finest level that an entry of the diagonal is made of.
  std::vector<double> scale_;
  std::shared_ptr<Structure> structure_;  // of the last structure()
  std::shared_ptr<Structure> finer_;      // holds nodes_, except on the finest level
};

Nodes finest_nodes(std::int64_t rows, std::int64_t unknowns, const NearNullSpace& finest) {
  Nodes nodes;
  if (!finest.first.empty())
    nodes.first = finest.first;
  else
    for (std::int64_t i = unknowns; i <= rows; i += unknowns)
      nodes.first.push_back(static_cast<std::int32_t>(i));
  nodes.number_rows();
  nodes.vectors = finest.vectors, nodes.values = finest.values;
  if (finest.values.empty()) {
    nodes.values.assign(at(rows * finest.vectors), 0);
    for (std::int64_t i = 0; i < rows; ++i) nodes.values[at(i * finest.vectors + i % unknowns)] = 1;
  }
  return nodes;
}

}  // namespace

template <class T>
std::unique_ptr<LevelMaker<T>> host_level_maker(const LinearOperator<T>& A, const ContextPtr& host,
                                                const PreconditionerOptions& options,
                                                const NearNullSpace& finest, Nodes& nodes) {
  if (nodes.vectors == 0) nodes = finest_nodes(A.rows(), options.unknowns, finest);
  return std::make_unique<HostLevels<T>>(A, host, options, nodes);
}

#define PROTEAN_INSTANTIATE(T)                                                                             \
  template std::unique_ptr<LevelMaker<T>> host_level_maker<T>(const LinearOperator<T>&, const ContextPtr&, \
                                                              const PreconditionerOptions&,                \
                                                              const NearNullSpace&, Nodes&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
