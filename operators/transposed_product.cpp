#include "operators/transposed_product.hpp"

#include <fmt/format.h>

#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "core/multi_blas1.hpp"

namespace protean {
namespace {

template <class T>
const HasTransposedProduct<T>& transposed_of(const LinearOperator<T>& A) {
  if (const std::string why = no_transposed_product(A); !why.empty()) throw BadArgument(why);
  return *A.abilities().transposed_product;
}

template <class T>
MultiVectorView<const T> one_column(VectorView<const T> v) {
  return {v.data, v.size, 1, v.size, VectorLayout::columns, v.space};
}

}  // namespace

template <class T>
std::string no_transposed_product(const LinearOperator<T>& A) {
  const Ability<HasTransposedProduct<T>> able = A.abilities().transposed_product;
  const std::string_view why = able ? able->no_transposed_product()
                               : able.why().empty()
                                   ? "derive its class from HasTransposedProduct, or use a matrix"
                                   : able.why();
  if (why.empty()) return {};
  return fmt::format("operator '{}' has no product with its transpose: {}", A.name(), why);
}

template <class T>
void apply_transposed(const LinearOperator<T>& A, std::type_identity_t<T> alpha,
                      std::type_identity_t<VectorView<const T>> x, std::type_identity_t<T> beta,
                      std::type_identity_t<VectorView<T>> y) {
  const HasTransposedProduct<T>& able = transposed_of(A);
  const Space space = A.context()->space();
  require<T>(x, A.rows(), space, "x of a product with A^T");
  require<T>(y, A.cols(), space, "y of a product with A^T");
  detail::require_apart<T>(one_column<T>(x), one_column<T>(y), "x and y of a product with A^T");
  A.count_products(1);
  const detail::DeviceScope scope(*A.context());
  able.do_apply_transposed(alpha, x, beta, y);
}

template <class T>
void prepare_transposed(const LinearOperator<T>& A) {
  const HasTransposedProduct<T>& able = transposed_of(A);
  const detail::DeviceScope scope(*A.context());
  able.prepare_transposed();
}

#define PROTEAN_INSTANTIATE(T)                                                                          \
  template std::string no_transposed_product<T>(const LinearOperator<T>&);                              \
  template void apply_transposed<T>(const LinearOperator<T>&, std::type_identity_t<T>,                  \
                                    std::type_identity_t<VectorView<const T>>, std::type_identity_t<T>, \
                                    std::type_identity_t<VectorView<T>>);                               \
  template void prepare_transposed<T>(const LinearOperator<T>&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean
