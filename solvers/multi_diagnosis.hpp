// What solves with several right-hand sides find out of single columns: what diagnosis.hpp needs for that, and guesses
// and solutions that are not finite. Private to solvers/.
#pragma once
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "solvers/advice.hpp"
#include "solvers/diagnosis.hpp"
#include "solvers/multi_method.hpp"
#include "solvers/multi_solver.hpp"

namespace protean::detail {

// What diagnose() needs of a method: three vectors, the first of which is b - A x.
template <class T>
class ThreeVectors final : public Method<T> {
 public:
  ThreeVectors(const ContextPtr& context, std::int64_t n) {
    for (Vector<T>& v : v_) v = Vector<T>(context, n);
  }
  VectorView<T> scratch() noexcept override { return v_[0]; }
  std::array<VectorView<T>, 2> spare() noexcept override { return {v_[1].view(), v_[2].view()}; }
  void begin(const System<T>&, VectorView<const T>) override {}
  void step(const System<T>&) override {}
  std::vector<VectorView<T>> kept_vectors(bool) override { return {}; }
  std::int64_t period() const noexcept override { return 1; }
  std::int64_t phase() const noexcept override { return 0; }
  void set_phase(std::int64_t) noexcept override {}
  Signals<T> signals() const noexcept override { return {nullptr, {}}; }
  VectorView<const T> residual() noexcept override { return v_[0]; }

 private:
  Vector<T> v_[3];
};

// f(j, entry) for the columns of X that have an entry that is not finite. One reduction where X has no gaps and all are
// finite. `number` and `column` are workspace: one entry, and a vector that is made when it is needed.
template <class T, class F>
void for_each_not_finite(const ContextPtr& context, MultiVectorView<const T> X, Vector<T>& number,
                         Vector<T>& column, F&& f) {
  const bool by_columns = X.layout == VectorLayout::columns;
  if (X.stride == (by_columns ? X.rows : X.columns) &&
      !first_not_finite<T>(*context, {X.data, X.rows * X.columns, X.space}, number))
    return;
  if (column.size() != X.rows) column = Vector<T>(context, X.rows);
  for (std::int64_t j = 0; j < X.columns; ++j) {
    const ColumnPair pair{static_cast<std::int32_t>(j), 0};
    copy_columns<T>(*context, X,
                    MultiVectorView<T>{column.data(), X.rows, 1, X.rows, VectorLayout::columns, X.space},
                    {&pair, 1});
    if (const auto bad = first_not_finite<T>(*context, column, number)) f(j, *bad);
  }
}

template <class T>
void require_finite_guesses(const MultiSystem<T>& system, Vector<T>& number, Vector<T>& column) {
  for_each_not_finite<T>(
      system.A.context(), system.X, number, column, [](std::int64_t j, const BadEntry& bad) {
        throw BadArgument(guess_text(fmt::format("the initial guess of column {}", j), bad));
      });
}

// Whatever the residual of a column says, an x that is not finite is no solution. The system is the caller's.
template <class T>
void look_at_solutions(const MultiSystem<T>& system, std::string_view method, Vector<T>& number,
                       Vector<T>& column, MultiSolveReport& report) {
  for_each_not_finite<T>(
      system.A.context(), system.X, number, column, [&](std::int64_t j, const BadEntry& bad) {
        SolveReport& one = report.columns[static_cast<std::size_t>(j)];
        if (one.iterations == 0) return;
        const bool unseen = std::isfinite(one.true_residual);
        ThreeVectors<T> vectors(system.A.context(), system.X.rows);
        const VectorView<T> none = vectors.scratch();
        const System<T> single{system.A, none, none, system.M, system.d};
        one.detail += (one.detail.empty() ? "" : "; ") + text_of<T>(bad, unseen, vectors, single, number);
        if (one.reason == StopReason::not_finite) return;
        one.reason = StopReason::not_finite;
        Circumstances of;
        of.method = method, of.x_not_determined = unseen;
        if (system.M) of.preconditioner = system.M->name();
        one.advice = advice_for(one.reason, of);
      });
}

}  // namespace protean::detail
