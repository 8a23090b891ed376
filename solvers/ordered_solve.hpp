// What a solver keeps for an operator that computes in another order than the caller's (HasOrder): the vectors and the
// preconditioner in that order. Private.
#pragma once
#include <memory>
#include <vector>

#include "core/blas1.hpp"
#include "core/permutation.hpp"
#include "preconditioners/preconditioner.hpp"

namespace protean::detail {

// P M^-1 P^T for a preconditioner M in the caller's numbering, which brings itself up to date.
template <class T>
class OrderedPreconditioner final : public Preconditioner<T> {
 public:
  OrderedPreconditioner(const Preconditioner<T>& M, const Permutation& permutation)
      : Preconditioner<T>(M.context(), M.shape()),
        M_(M),
        permutation_(permutation),
        serial_of_M_(M.serial()) {}

  bool is_of(const Preconditioner<T>& M, const Permutation& permutation) const noexcept {
    return serial_of_M_ == M.serial() && permutation_.is(permutation);
  }
  // Permutes the diagonal of M, where it is one. Called before each solve, and where the values of A have changed in
  // a solve; then inverse_diagonal() stays where it is.
  void refresh() const {
    const VectorView<const T> d = M_.inverse_diagonal();
    if (d.size > 0 && diagonal_.size() != d.size) diagonal_ = Vector<T>(this->context(), d.size);
    if (d.size > 0) permutation_.apply<T>(d, diagonal_);
    has_diagonal_ = d.size > 0;
    if (!has_diagonal_ && x_.size() != this->rows())
      x_ = Vector<T>(this->context(), this->rows()), y_ = Vector<T>(this->context(), this->rows());
  }

  VectorView<const T> inverse_diagonal() const noexcept override {
    return has_diagonal_ ? diagonal_.view() : VectorView<const T>{};
  }
  bool symmetric() const noexcept override { return M_.symmetric(); }
  std::string_view name() const noexcept override { return M_.name(); }
  Revision revision() const noexcept override { return M_.revision(); }
  // M writes to y_, and what is written to y heeds the stop.
  Recording recording() const noexcept override {
    Recording recording = M_.recording();
    recording.heeds_stop = true;
    return recording;
  }

 protected:
  void setup(const LinearOperator<T>&, bool) override {}
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    permutation_.apply_inverse<T>(x, x_);
    if (beta != T(0)) permutation_.apply_inverse<T>(y, y_);
    M_.apply(alpha, x_, beta, y_);
    permutation_.apply<T>(y_, y);
  }

 private:
  const Preconditioner<T>& M_;
  Permutation permutation_;
  std::uint64_t serial_of_M_;
  mutable bool has_diagonal_ = false;
  mutable Vector<T> diagonal_;
  mutable Vector<T> x_, y_;  // for an M that is no diagonal; a solver applies it from one thread
};

// The vectors of N in another order, in `memory`, one behind the other.
template <class T>
VectorBlock<const T> in_order(const Permutation& P, const VectorBlock<const T>& N, Vector<T>& memory) {
  const VectorBlock<T> made{memory.data(), N.size, N.size, N.count, memory.space()};
  for (std::int64_t j = 0; j < N.count; ++j) P.template apply<T>(N.column(j), made.column(j));
  return made;
}

// What a solver keeps while solves compute in another order than the caller's.
template <class T>
struct InAnOrder {
  Vector<T> b, x, null_space;
  std::shared_ptr<OrderedPreconditioner<T>> M;
};
// One change of the order, with its memory.
template <class T>
struct ChangeOfOrder {
  Permutation to;
  std::shared_ptr<OrderedPreconditioner<T>> M;
  std::vector<VectorView<T>> kept;  // of the method
  Vector<T> copy;
};

}  // namespace protean::detail
