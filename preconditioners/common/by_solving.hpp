// Base of preconditioners that compute z := M^-1 r and know nothing of alpha and beta. Private to preconditioners/.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <mutex>
#include <utility>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "preconditioners/preconditioner.hpp"

namespace protean::detail {

// One vector of n, for beta != 0.
template <class T>
class BySolving : public Preconditioner<T> {
 public:
  explicit BySolving(const LinearOperator<T>& A)
      : Preconditioner<T>(A.context(), A.shape()), product_(A.context(), A.rows()) {}
  // Each setup may have moved the arrays. What solve() queues are our own kernels, unless a derived class says
  // otherwise.
  Recording recording() const noexcept override { return {true, 1 + this->setups(), bytes(), true}; }
  std::size_t bytes() const noexcept final {
    return static_cast<std::size_t>(product_.size()) * sizeof(T) + bytes_of_arrays();
  }

 protected:
  // z := M^-1 r; the two do not overlap. Called only after a setup, by one or several threads.
  virtual void solve(VectorView<const T> r, VectorView<T> z) const = 0;
  virtual std::size_t bytes_of_arrays() const noexcept = 0;

  void require_setup() const {
    if (this->setups() == 0)
      throw BadArgument(
          fmt::format("the {} preconditioner is applied before ensure(A) has set it up", this->name()));
    if (lost_after_ == this->setups() + 1)
      throw BadArgument(
          fmt::format("the {} preconditioner has lost its values, because its last ensure(A) failed while "
                      "the device changed them; call ensure(A) again",
                      this->name()));
  }
  // The last step of a setup, which changes arrays that M has: M is unusable if it fails, until a setup succeeds.
  template <class Change>
  void change_arrays(const Change& change) {
    try {
      change();
    } catch (...) {
      lost_after_ = this->setups() + 1, this->forget();
      throw;
    }
  }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    require_setup();
    const Context& context = *this->context();
    if (alpha == T(0)) return scale<T>(context, beta, y);
    if (beta == T(0)) {
      solve(x, y);
      if (alpha != T(1)) scale<T>(context, alpha, y);
      return;
    }
    const std::lock_guard lock(mutex_);
    solve(x, product_);
    axpby<T>(context, alpha, product_, beta, y);
  }

 private:
  std::uint64_t lost_after_ = 0;  // setups() + 1 of the setup that failed; 0: none did
  mutable std::mutex mutex_;
  mutable Vector<T> product_;
};

}  // namespace protean::detail
