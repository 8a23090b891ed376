#include "preconditioners/chosen.hpp"

#include "core/error.hpp"
#include "preconditioners/makers.hpp"
#include "preconditioners/options.hpp"

namespace protean::detail {

template <class T>
Chosen<T>::Chosen(const LinearOperator<T>& A, const PreconditionerOptions& options)
    : Preconditioner<T>(A.context(), A.shape()), options_(options) {
  take("jacobi", A);
}

template <class T>
void Chosen<T>::take(std::string_view id, const LinearOperator<T>& A) {
  inner_ = make_preconditioner<T>(id, A, preconditioner_options_read_by(id, options_));
  id_ = id;
  ++taken_;
  this->forget();
}

template <class T>
Recording Chosen<T>::recording() const noexcept {
  Recording inner = inner_->recording();
  // Versions of two preconditioners must not be taken for each other.
  constexpr std::uint64_t versions_of_one = std::uint64_t{1} << 32;
  if (inner.version != 0) inner.version += taken_ * versions_of_one;
  return inner;
}

template <class T>
void Chosen<T>::setup(const LinearOperator<T>& A, bool) {
  inner_->ensure(A);
}

template <class T>
void Chosen<T>::do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const {
  inner_->apply(alpha, x, beta, y);
}

template <class T>
MadePreconditioner<T> make_auto(const LinearOperator<T>& A, const PreconditionerOptions& options) {
  return std::make_unique<Chosen<T>>(A, options);
}

#define PROTEAN_INSTANTIATE(T) \
  template class Chosen<T>;    \
  template MadePreconditioner<T> make_auto<T>(const LinearOperator<T>&, const PreconditionerOptions&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
