// A preconditioner that calls a function of the user's program.
#pragma once
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

#include <protean/core/export.hpp>
#include <protean/operators/callback_operator.hpp>
#include <protean/preconditioners/preconditioner.hpp>

namespace PROTEAN_EXPORT protean {

// z := M^-1 r. The function and its exceptions follow the rules of CallbackOperator (callback_operator.hpp).
template <class T>
class CallbackPreconditioner final : public Preconditioner<T> {
 public:
  // Called by ensure() when the operator or its revision has changed; may be empty.
  using Setup = std::function<void(const LinearOperator<T>& A, bool pattern_changed)>;

  CallbackPreconditioner(ContextPtr context, Shape shape, ProductFunction<T> solve, Setup setup = {},
                         CallbackOptions options = {})
      : Preconditioner<T>(context, shape),
        callback_(std::move(context), shape.rows, std::move(solve), std::move(options)),
        setup_(std::move(setup)) {}

  std::string_view name() const noexcept override { return callback_.options().name; }
  Recording recording() const noexcept override { return {callback_.options().recordable, 1 + setups_}; }

 protected:
  void setup(const LinearOperator<T>& A, bool pattern_changed) override {
    if (setup_) setup_(A, pattern_changed);
    ++setups_;
  }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    callback_.apply(alpha, x, beta, y);
  }

 private:
  detail::Callback<T> callback_;
  Setup setup_;
  std::uint64_t setups_ = 0;
};

}  // namespace protean
