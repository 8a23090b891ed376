// Copies of the x of some columns of a solve, with the norms of their b - A x. One right-hand side is a solve of one
// column. Private to systems/.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/multi_blas1.hpp"
#include "core/multi_vector.hpp"
#include "solvers/solve_report.hpp"

namespace protean::detail {

using ColumnNumbers = std::vector<std::size_t>;

template <class T>
class KeptColumns {
 public:
  // Copies columns places[i] of X as columns number columns[i] of the solve. The caller sets the norms. Throws
  // OutOfMemory.
  void take(const ContextPtr& context, const MultiVectorView<const T>& X, const ColumnNumbers& places,
            ColumnNumbers columns) {
    const auto k = std::ssize(columns);
    if (x_.rows() != X.rows || x_.columns() != k) clear(), x_ = MultiVector<T>(context, X.rows, k);
    columns_ = std::move(columns), norms.assign(columns_.size(), {});
    std::vector<ColumnPair> pairs;
    for (std::size_t i = 0; i < places.size(); ++i)
      pairs.push_back({static_cast<std::int32_t>(places[i]), static_cast<std::int32_t>(i)});
    copy_columns<T>(*context, X, x_.view(), pairs);
  }
  // The same for columns of the solve, whose X it is.
  void take(const ContextPtr& context, const MultiVectorView<const T>& X, const ColumnNumbers& columns,
            std::span<const SolveReport> reports) {
    take(context, X, columns, columns);
    for (std::size_t i = 0; i < columns_.size(); ++i)
      norms[i] = {reports[columns_[i]].true_residual, reports[columns_[i]].true_relative};
  }
  void clear() noexcept { x_ = {}, columns_.clear(), norms.clear(); }

  bool empty() const noexcept { return columns_.empty(); }
  const ColumnNumbers& columns() const noexcept { return columns_; }
  MultiVectorView<T> x() noexcept { return x_.view(); }

  // Copies x back to its column of X.
  void bring_back(std::size_t i, const MultiVectorView<T>& X, SolveReport& report) const {
    const ColumnPair pair{static_cast<std::int32_t>(i), static_cast<std::int32_t>(columns_[i])};
    copy_columns<T>(*x_.context(), x_.view(), X, {&pair, 1});
    report.true_residual = norms[i].residual;
  }
  // Of each column that has not converged both become the one with the smaller b - A x.
  void share_better(const MultiVectorView<T>& X, std::span<SolveReport> reports) {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      SolveReport& report = reports[columns_[i]];
      if (report.converged()) continue;
      if (norms[i].residual < report.true_residual) {
        bring_back(i, X, report);
        continue;
      }
      const ColumnPair pair{static_cast<std::int32_t>(columns_[i]), static_cast<std::int32_t>(i)};
      copy_columns<T>(*x_.context(), MultiVectorView<const T>(X), x_.view(), {&pair, 1});
      norms[i].residual = report.true_residual;
    }
  }

  struct Norms {
    double residual = 0, relative = 0;  // of b - A x
  };
  std::vector<Norms> norms;  // of columns()

 private:
  MultiVector<T> x_;
  ColumnNumbers columns_;
};

}  // namespace protean::detail
