#include "operators/multi_product.hpp"

#include <fmt/format.h>

#include "core/blas1.hpp"
#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "core/multi_blas1.hpp"

namespace protean {
namespace {

// For interleaved vectors, each of which is copied out and back.
template <class T>
void one_by_one(const LinearOperator<T>& A, T alpha, const MultiVectorView<const T>& X, T beta,
                const MultiVectorView<T>& Y, MultiScratch<T>& scratch) {
  const Context& context = *A.context();
  const auto has_memory = [&](Vector<T>& v, std::int64_t size) {
    if (v.size() != size || v.context() != A.context()) v = Vector<T>(A.context(), size);
  };
  has_memory(scratch.x, A.cols()), has_memory(scratch.y, A.rows());
  const MultiVectorView<T> x{scratch.x.data(), A.cols(), 1, A.cols(), VectorLayout::columns, X.space};
  const MultiVectorView<T> y{scratch.y.data(), A.rows(), 1, A.rows(), VectorLayout::columns, Y.space};
  for (std::int64_t j = 0; j < X.columns; ++j) {
    const ColumnPair out{static_cast<std::int32_t>(j), 0}, back{0, static_cast<std::int32_t>(j)};
    copy_columns<T>(context, X, x, {&out, 1});
    if (beta != T(0)) copy_columns<T>(context, Y, y, {&out, 1});
    A.apply(alpha, scratch.x, beta, scratch.y);
    copy_columns<T>(context, y, Y, {&back, 1});
  }
}

}  // namespace

template <class T>
std::string column_by_column(const LinearOperator<T>& A) {
  const Ability<HasMultiProduct<T>> multi = A.abilities().multi_product;
  if (multi) return std::string(multi->no_multi_product());
  if (!multi.why().empty()) return std::string(multi.why());
  return fmt::format("{} has no product with several vectors", A.name());
}

template <class T>
void multi_apply(const LinearOperator<T>& A, std::type_identity_t<T> alpha,
                 std::type_identity_t<MultiVectorView<const T>> X, std::type_identity_t<T> beta,
                 std::type_identity_t<MultiVectorView<T>> Y, MultiScratch<T>* scratch) {
  const Space space = A.context()->space();
  require<T>(X, A.cols(), X.columns, space, "X");
  require<T>(Y, A.rows(), X.columns, space, "Y");
  if (X.columns == 0) return;
  if (X.layout != Y.layout && X.columns > 1)
    throw BadArgument("X and Y of a product have different layouts; copy_columns() changes a layout");
  detail::require_apart<T>(X, Y, "X and Y of a product");
  // One vector has the kernel that was made for one.
  const bool single = X.columns == 1 && X.row_step() == 1 && Y.row_step() == 1;
  const Ability<HasMultiProduct<T>> multi = A.abilities().multi_product;
  if (multi && !single && X.layout == Y.layout && multi->no_multi_product().empty()) {
    A.count_products(X.columns);
    const detail::DeviceScope scope(*A.context());
    multi->do_multi_apply(alpha, X, beta, Y);
  } else if (X.row_step() == 1 && Y.row_step() == 1) {
    for (std::int64_t j = 0; j < X.columns; ++j) A.apply(alpha, X.column(j), beta, Y.column(j));
  } else {
    MultiScratch<T> own;
    one_by_one<T>(A, alpha, X, beta, Y, scratch ? *scratch : own);
  }
}

#define PROTEAN_INSTANTIATE(T)                                                                          \
  template std::string column_by_column<T>(const LinearOperator<T>&);                                   \
  template void multi_apply<T>(const LinearOperator<T>&, std::type_identity_t<T>,                       \
                               std::type_identity_t<MultiVectorView<const T>>, std::type_identity_t<T>, \
                               std::type_identity_t<MultiVectorView<T>>, MultiScratch<T>*);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean
