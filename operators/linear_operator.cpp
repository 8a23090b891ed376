#include "operators/linear_operator.hpp"

#include <fmt/format.h>

#include <functional>

#include "core/blas1.hpp"
#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "operators/given_matrix.hpp"
#include "operators/layout.hpp"
#include "operators/multi_product.hpp"
#include "operators/order.hpp"
#include "operators/parts.hpp"
#include "operators/row_arrays.hpp"
#include "operators/rows.hpp"
#include "operators/transposed_product.hpp"
#include "operators/tuning.hpp"

namespace protean {

template <class T>
void require(VectorView<const T> view, std::int64_t size, Space space, std::string_view what) {
  if (view.size != size)
    throw ShapeMismatch(fmt::format("{} has {} entries; {} are needed", what, view.size, size));
  if (view.size > 0 && view.space != space)
    throw WrongSpace(fmt::format("{} lies in {} memory; the operation needs {} memory (use copy())", what,
                                 to_string(view.space), to_string(space)));
  if (view.size > 0 && !view.data) throw BadArgument(fmt::format("{} is a null pointer", what));
}

template <class T>
std::uint64_t LinearOperator<T>::next_serial() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

// The only place where an ability is found by the type of an operator.
template <class T>
Abilities<T> LinearOperator<T>::abilities() const noexcept {
  std::call_once(asked_, [this] {
    own_abilities_.for_each([this]<class Interface>(std::string_view, Ability<Interface>& ability) {
      ability = dynamic_cast<const Interface*>(this);
    });
  });
  return own_abilities_;
}

template <class T>
void LinearOperator<T>::check(VectorView<const T> x, VectorView<T> y) const {
  require<T>(x, shape_.cols, context_->space(), "x");
  require<T>(y, shape_.rows, context_->space(), "y");
  const std::less<const T*> before;
  if (x.size > 0 && y.size > 0 && before(x.data, y.data + y.size) && before(y.data, x.data + x.size))
    throw BadArgument("x and y of a product overlap; use two separate vectors");
  count_products(1);
}

template <class T>
void LinearOperator<T>::apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const {
  check(x, y);
  const detail::DeviceScope scope(*context_);
  do_apply(alpha, x, beta, y);
}

template <class T>
void apply_dot(const LinearOperator<T>& A, VectorView<const T> x, VectorView<T> y, T* result) {
  if (A.rows() != A.cols())
    throw ShapeMismatch(fmt::format("x . A x of a {} x {} operator: it must be square", A.rows(), A.cols()));
  // In deterministic mode the result must have the bits of dot(). A fused dot product adds in the order in
  // which the format divides its work, and on a device this may differ between two matrices with the same
  // entries.
  const bool fusing = !A.context()->deterministic();
  if (const HasApplyDot<T>* const fused = fusing ? A.abilities().apply_dot.get() : nullptr) {
    A.check(x, y);
    const detail::DeviceScope scope(*A.context());
    fused->do_apply_dot(x, y, result);
    return;
  }
  A.apply(x, y);
  dot<T>(*A.context(), x, y, result);
}

#define PROTEAN_INSTANTIATE(T)                                                                  \
  template class LinearOperator<T>;                                                             \
  template void apply_dot<T>(const LinearOperator<T>&, VectorView<const T>, VectorView<T>, T*); \
  template void require<T>(VectorView<const T>, std::int64_t, Space, std::string_view);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean
