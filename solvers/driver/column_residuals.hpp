// Residuals and norms of the columns of a solve with several right-hand sides. Private to solvers/.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/multi_blas1.hpp"
#include "solvers/diagnosis.hpp"
#include "solvers/driver/columns.hpp"
#include "solvers/driver/followed_order.hpp"
#include "solvers/driver/rounding.hpp"
#include "solvers/null_space.hpp"

namespace protean::detail {

// One column in vectors of its own, to look at.
template <class T>
struct TakenOut {
  TakenOut(const ContextPtr& context, std::int64_t n) {
    for (Vector<T>* v : {&b, &x, &residual, &spare[0], &spare[1]}) *v = Vector<T>(context, n);
  }
  Vector<T> b, x, residual, spare[2];
};

// One for each of some columns: 2-norms, and norms by SolverOptions::residual_norm.
struct ColumnNorms {
  std::vector<double> two, measured;
};

template <class T>
class ColumnResiduals {
 public:
  // Of the system and its null space in the order of the solve. All arguments outlive this.
  ColumnResiduals(const FollowedOrder<ColumnsInOrder<T>>& order, MultiWorkspace<T>& workspace)
      : order_(order), workspace_(workspace), method_(*workspace.method) {}

  // check_null_space() with a column of B, whose norm is not 0.
  void check_null_space(std::int32_t column, double rhs_norm) {
    if (null_space().count == 0) return;
    Vector<T> q(method_.context(), method_.rows()), d(method_.context(), method_.rows());
    detail::check_null_space<T>(system().A, null_space(), taken_out(system().B, column), rhs_norm, q, d,
                                workspace_.number);
  }
  // The norm of the part in the null space of a column of B.
  double in_null_space(std::int32_t column) {
    if (null_space().count == 0) return 0;
    return part_in_null_space<T>(context(), null_space(), taken_out(system().B, column),
                                 workspace_.components);
  }
  // Takes that part out of lane number `lane` of V.
  void project(const MultiVectorView<T>& V, std::int32_t lane) {
    if (null_space().count == 0) return;
    const VectorView<T> v = taken_out(V, lane);
    detail::project<T>(context(), null_space(), v, workspace_.components);
    const ColumnPair back{0, lane};
    copy_columns<T>(context(), as_column(VectorView<const T>(v)), V, {&back, 1});
  }

  // ||b|| of all columns.
  ColumnNorms norms_of_b() {
    std::vector<ColumnPair> all;
    for (std::int32_t c = 0; c < system().B.columns; ++c) all.push_back({c, c});
    vectors_ = method_.free(method_.width());
    copy_columns<T>(context(), system().B, vectors_, all);
    method_.mark(method_.chosen(), all);
    multi_dot<T>(context(), vectors_, vectors_, method_.chosen(), workspace_.squares.data());
    return norms(all);
  }

  // Computes b - A x of columns of[i].from, whose x lies in lanes of[i].to, in free vectors of the method, and returns
  // its norms. Then it is without the part in the null space, which no step can reduce.
  ColumnNorms compute(std::span<const ColumnPair> of) {
    const std::int64_t width = method_.width(), narrow = multi_width(std::ssize(of));
    const bool packed = 2 * narrow <= width;
    std::vector<ColumnPair> own, from_b;
    lane_of_.assign(static_cast<std::size_t>(system().B.columns), -1);
    std::int32_t next = 0;
    for (const ColumnPair one : of) {
      const std::int32_t lane = packed ? next++ : one.to;
      lane_of_[static_cast<std::size_t>(one.from)] = lane;
      own.push_back({one.to, lane}), from_b.push_back({one.from, lane});
    }
    MultiVectorView<const T> x = method_.x();
    vectors_ = method_.free(width);
    if (packed) {
      const MultiVectorView<T> copies = method_.free(narrow);
      fill<T>(context(), T(0), VectorView<T>{copies.data, copies.rows * narrow, copies.space});
      copy_columns<T>(context(), method_.x(), copies, own);
      x = copies, vectors_ = method_.free(narrow, true);
    }
    const LinearOperator<T>* const given = given_matrix_of(system().A);
    method_.product(given ? *given : system().A, x, vectors_, own_lanes(own));
    multi_residual<T>(context(), system().B, vectors_, from_b, workspace_.squares.data());
    ColumnNorms found = norms(from_b);
    for (const ColumnPair pair : from_b) project(vectors_, pair.to);
    return found;
  }

  // What compute() has left: the vectors, and in which lane the vector of a column is.
  const MultiVectorView<T>& vectors() const noexcept { return vectors_; }
  std::int32_t lane_of(std::int32_t column) const noexcept {
    return lane_of_[static_cast<std::size_t>(column)];
  }

 private:
  const MultiSystem<T>& system() const noexcept { return order_.system(); }
  const VectorBlock<const T>& null_space() const noexcept { return order_.null_space(); }
  const Context& context() const noexcept { return *method_.context(); }
  VectorView<T> taken_out(const MultiVectorView<const T>& V, std::int32_t j) {
    Vector<T>& v = workspace_.column;
    if (v.size() != V.rows) v = Vector<T>(method_.context(), V.rows);
    copy_column<T>(context(), V, j, v);
    return v;
  }

  // Of lanes pairs[i].to of the vectors, whose squares are known.
  ColumnNorms norms(std::span<const ColumnPair> pairs) {
    ColumnNorms found;
    found.two = found.measured = norms(pairs, vectors_, workspace_.squares.data());
    if (system().weights.size == 0) return found;
    Vector<T>& ones = workspace_.ones;
    if (ones.size() == 0) {
      ones = Vector<T>(method_.context(), method_.most());
      fill<T>(context(), T(1), ones);
    }
    found.measured = norms(pairs, method_.weigh(system(), vectors_, ones.data()), method_.weighted_squared());
    return found;
  }
  // From their squares, or anew if a square is out of range.
  std::vector<double> norms(std::span<const ColumnPair> pairs, const MultiVectorView<const T>& V,
                            const T* squared) {
    std::vector<T> squares(static_cast<std::size_t>(V.columns));
    copy<T>(context(), VectorView<const T>{squared, V.columns, context().space()},
            {squares.data(), V.columns, Space::host});
    std::vector<double> found;
    for (const ColumnPair pair : pairs) {
      constexpr T smallest_safe = std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon();
      const T square = squares[static_cast<std::size_t>(pair.to)];
      if (std::isfinite(square) && square > smallest_safe) {
        found.push_back(std::sqrt(static_cast<double>(square)));
        continue;
      }
      found.push_back(norm<T>(context(), taken_out(V, pair.to), workspace_.number));
    }
    return found;
  }

  const FollowedOrder<ColumnsInOrder<T>>& order_;
  MultiWorkspace<T>& workspace_;
  MultiMethod<T>& method_;
  MultiVectorView<T> vectors_{};
  std::vector<std::int32_t> lane_of_;
};

}  // namespace protean::detail
