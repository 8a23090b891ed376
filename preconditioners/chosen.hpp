// The preconditioner `auto`: one of others, which may change between two solves. Private; systems/ uses it.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "preconditioners/preconditioner.hpp"

namespace protean::detail {

// Is jacobi until take() names another one. In a kept system PreconditionerChoice does (choice.hpp).
template <class T>
class Chosen final : public Preconditioner<T> {
 public:
  Chosen(const LinearOperator<T>& A, const PreconditionerOptions& options);

  // The preconditioner of this name, with those of the options that it reads, in place of the present one. It is set up
  // by the next ensure(). When that throws, take() another one.
  void take(std::string_view id, const LinearOperator<T>& A);
  std::string_view taken() const noexcept { return id_; }

  std::string_view name() const noexcept override { return "auto"; }
  VectorView<const T> inverse_diagonal() const noexcept override { return inner_->inverse_diagonal(); }
  bool symmetric() const noexcept override { return inner_->symmetric(); }
  std::size_t bytes() const noexcept override { return inner_->bytes(); }
  std::vector<PreconditionerFigure> figures() const override { return inner_->figures(); }
  Recording recording() const noexcept override;

 protected:
  void setup(const LinearOperator<T>& A, bool pattern_changed) override;
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override;

 private:
  PreconditionerOptions options_;
  std::string id_;
  std::unique_ptr<Preconditioner<T>> inner_;
  std::uint64_t taken_ = 0;  // how often take() was called
};

}  // namespace protean::detail
