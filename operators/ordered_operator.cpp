#include "operators/ordered_operator.hpp"

#include <fmt/format.h>

#include <utility>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "operators/callers_order.hpp"

namespace protean {

template <class T>
OrderedOperator<T>::OrderedOperator(Permutation permutation, std::shared_ptr<LinearOperator<T>> B)
    : Wrapper<T>(B->context(), B->shape()), permutation_(std::move(permutation)), B_(std::move(B)) {
  if (B_->abilities().order)
    throw BadArgument(
        fmt::format("operator '{}' has an order of its rows itself, so it cannot be put into another one; an "
                    "AdaptiveOperator may be made in an order",
                    B_->name()));
  const std::int64_t n = permutation_.size();
  if (this->rows() != n || this->cols() != n)
    throw ShapeMismatch(fmt::format("the operator is {} x {} and the permutation is of {} rows", this->rows(),
                                    this->cols(), n));
  if (n > 0 && permutation_.context()->space() != this->context()->space())
    throw WrongSpace(fmt::format("the operator works on {} memory, the permutation on {} memory",
                                 to_string(this->context()->space()),
                                 to_string(permutation_.context()->space())));
  if (n > 0) callers_order_ = std::make_unique<detail::CallersOrder<T>>(permutation_);
}

template <class T>
OrderedOperator<T>::~OrderedOperator() = default;

template <class T>
OrderedOperator<T>::OrderedOperator(PermutedMatrix<T> ordered, std::unique_ptr<AssembledMatrix<T>> B)
    : OrderedOperator(ordered.permutation(), std::shared_ptr<LinearOperator<T>>(std::move(B))) {
  ordered_.emplace(std::move(ordered));
  assembled_ = static_cast<AssembledMatrix<T>*>(B_.get());
}

template <class T>
void OrderedOperator<T>::update_values(const CsrMatrix<T>& csr) {
  if (!ordered_)
    throw BadArgument("this operator was made of a permutation alone; give new values to its inner operator");
  CsrMatrix<T> before = ordered_->matrix();
  ordered_->update_values(csr);
  try {
    assembled_->update_values(ordered_->matrix(), SamePattern());
  } catch (...) {  // B has its old values
    ordered_->restore(std::move(before));
    throw;
  }
}

template <class T>
void OrderedOperator<T>::diagonal(VectorView<T> diagonal) const {
  const Ability<HasDiagonal<T>> known = B_->abilities().diagonal;
  if (!known) throw BadArgument(fmt::format("operator '{}' does not know its diagonal", B_->name()));
  if (!callers_order_) return;
  callers_order_->bring([&](VectorView<T> d) { known->diagonal(d); }, diagonal);
}

template <class T>
CsrMatrix<T> OrderedOperator<T>::rows_as_csr() const {
  const ContextPtr& context = this->context();
  const bool on_host = context->space() == Space::host;
  const ContextPtr host = on_host ? context : Context::host();
  std::optional<CsrMatrix<T>> rows = csr_of(*B_);
  if (!rows) throw BadArgument(fmt::format("operator '{}' cannot give its entries", B_->name()));
  if (permutation_.size() == 0) return *std::move(rows);
  return PermutedMatrix<T>(host, *rows, permutation_.inverse()).matrix();
}

template <class T>
void OrderedOperator<T>::do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const {
  if (!callers_order_) return;
  callers_order_->multiply(x, beta, y,
                           [&](VectorView<const T> px, VectorView<T> py) { B_->apply(alpha, px, beta, py); });
}

template <class T>
void OrderedOperator<T>::do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const {
  if (!callers_order_) return dot<T>(*this->context(), x, y, result);
  callers_order_->multiply(
      x, T(0), y, [&](VectorView<const T> px, VectorView<T> py) { apply_dot<T>(*B_, px, py, result); });
}

template <class T>
std::string_view OrderedOperator<T>::no_multi_product() const noexcept {
  const Ability<HasMultiProduct<T>> multi = B_->abilities().multi_product;
  return multi ? multi->no_multi_product() : "the operator in its order has no product with several vectors";
}

template <class T>
void OrderedOperator<T>::do_multi_apply(T alpha, MultiVectorView<const T> X, T beta,
                                        MultiVectorView<T> Y) const {
  if (!callers_order_) return;
  callers_order_->multiply(X, beta, Y, [&](MultiVectorView<const T> px, MultiVectorView<T> py) {
    multi_apply<T>(*B_, alpha, px, beta, py);
  });
}

template <class T>
std::string_view OrderedOperator<T>::no_transposed_product() const noexcept {
  const Ability<HasTransposedProduct<T>> transposed = B_->abilities().transposed_product;
  return transposed ? transposed->no_transposed_product()
                    : "the operator in its order has none; derive that one from HasTransposedProduct";
}

template <class T>
void OrderedOperator<T>::prepare_transposed() const {
  protean::prepare_transposed(*B_);
}

template <class T>
std::size_t OrderedOperator<T>::transposed_bytes() const noexcept {
  const Ability<HasTransposedProduct<T>> transposed = B_->abilities().transposed_product;
  return transposed ? transposed->transposed_bytes() : 0;
}

template <class T>
void OrderedOperator<T>::do_apply_transposed(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const {
  if (!callers_order_) return;
  callers_order_->multiply(x, beta, y, [&](VectorView<const T> px, VectorView<T> py) {
    apply_transposed<T>(*B_, alpha, px, beta, py);
  });
}

template <class T>
void OrderedOperator<T>::change(Abilities<T>& set) const noexcept {
  if (set.diagonal) set.diagonal = this;
  if (set.apply_dot) set.apply_dot = this;
  if (set.multi_product) set.multi_product = this;
  if (set.transposed_product) set.transposed_product = this;
  if (set.rows) set.rows = this;
  if (set.row_arrays)
    set.row_arrays = Ability<HasRowArrays<T>>::refused(
        "its rows are in another order than the vectors; in_order() has them");
  set.order = this;
}

template class OrderedOperator<float>;
template class OrderedOperator<double>;

}  // namespace protean
