#include "operators/ordered_operator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "operators/callers_order.hpp"

namespace protean {

// Tells a follower of the changes of B, in the caller's numbering.
template <class T>
class OrderedOperator<T>::Link final : public OrderFollower {
 public:
  Link(const OrderedOperator& A, OrderFollower& follower) : A_(A), follower_(follower) {}
  bool is_of(const OrderFollower& follower) const noexcept { return &follower_ == &follower; }
  Permuted permuted() const override { return follower_.permuted(); }
  void prepare_order(const Permutation& next) override { follower_.prepare_order(A_.with(next)); }
  void adopt_order() noexcept override { follower_.adopt_order(); }

 private:
  const OrderedOperator& A_;
  OrderFollower& follower_;
};

template <class T>
OrderedOperator<T>::OrderedOperator(Permutation permutation, std::shared_ptr<LinearOperator<T>> B)
    : LinearOperator<T>(B->context(), B->shape()),
      permutation_(std::move(permutation)),
      B_(std::move(B)),
      changing_(dynamic_cast<const HasOrder<T>*>(B_.get())) {
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
OrderedOperator<T>::OrderedOperator(PermutedMatrix<T> ordered, std::unique_ptr<AdaptiveOperator<T>> B)
    : OrderedOperator(ordered.permutation(), std::shared_ptr<LinearOperator<T>>(std::move(B))) {
  ordered_.emplace(std::move(ordered));
  adaptive_ = static_cast<AdaptiveOperator<T>*>(B_.get());
}

template <class T>
Permutation OrderedOperator<T>::with(const Permutation& inner) const {
  if (inner.size() == 0) return permutation_;
  const std::lock_guard lock(mutex_);
  if (!inner_.is(inner)) both_ = inner.after(permutation_), inner_ = inner;
  return both_;
}

template <class T>
Permutation OrderedOperator<T>::order() const {
  return with(changing_ ? changing_->order() : Permutation());
}

template <class T>
const LinearOperator<T>& OrderedOperator<T>::in_order() const noexcept {
  return changing_ ? changing_->in_order() : *B_;
}

template <class T>
void OrderedOperator<T>::count_in_order(std::int64_t more) const noexcept {
  changing_ ? changing_->count_in_order(more) : B_->count_products(more);
}

template <class T>
void OrderedOperator<T>::follow(OrderFollower& follower) const {
  if (!changing_) return;
  auto owned = std::make_unique<Link>(*this, follower);
  Link& link = *owned;
  {
    const std::lock_guard lock(mutex_);
    links_.push_back(std::move(owned));
  }
  changing_->follow(link);
}

template <class T>
void OrderedOperator<T>::unfollow(OrderFollower& follower) const noexcept {
  if (!changing_) return;
  std::unique_ptr<Link> link;
  {
    const std::lock_guard lock(mutex_);
    const auto found =
        std::find_if(links_.begin(), links_.end(), [&](const auto& one) { return one->is_of(follower); });
    if (found == links_.end()) return;
    link = std::move(*found);
    links_.erase(found);
  }
  changing_->unfollow(*link);
}

template <class T>
void OrderedOperator<T>::update_values(const CsrMatrix<T>& csr) {
  if (!ordered_)
    throw BadArgument("this operator was made of a permutation alone; give new values to its inner operator");
  ordered_->update_values(csr);
  if (assembled_)
    assembled_->update_values(ordered_->matrix());
  else
    adaptive_->update_values(ordered_->matrix());
}

template <class T>
void OrderedOperator<T>::diagonal(VectorView<T> diagonal) const {
  const auto* known = dynamic_cast<const HasDiagonal<T>*>(B_.get());
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

template class OrderedOperator<float>;
template class OrderedOperator<double>;

}  // namespace protean
