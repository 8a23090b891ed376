// Matrices: arrays, element matrices and functions of the caller; their formats, orders, values and products.
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/csr_view.hpp"
#include "core/first_index.hpp"
#include "interfaces/c/handles.hpp"
#include "operators/callback_operator.hpp"
#include "operators/elements/element_operator.hpp"
#include "operators/multi_product.hpp"
#include "operators/transposed_product.hpp"
#include "systems/linear_system.hpp"

using namespace protean;
using namespace protean::capi;

namespace {

IndexBase base_of(int index_base) {
  if (index_base != 0 && index_base != 1)
    throw BadArgument("index_base is " + std::to_string(index_base) + "; it must be 0 or 1");
  return index_base == 1 ? IndexBase::one : IndexBase::zero;
}

// A copy of the caller's indices that counts from 0.
template <class Index>
std::vector<Index> counted_from_zero(const Index* given, std::int64_t count, IndexBase base,
                                     const char* what) {
  if (count > 0) need(given, what);
  std::vector<Index> indices(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < indices.size(); ++i)
    indices[i] = base == IndexBase::one ? detail::less_one(given[i]) : given[i];
  return indices;
}

void require_range(const char* what, std::int64_t value, std::int64_t smallest, std::int64_t largest) {
  if (value < smallest || value > largest)
    throw BadArgument(std::string(what) + " is " + std::to_string(value) + "; it must be " +
                      std::to_string(smallest) + " to " + std::to_string(largest));
}

// A new handle for a matrix with values of type T, and its part.
template <class T>
std::unique_ptr<protean_matrix> new_matrix(protean_context* context, protean_matrix** matrix) {
  need(matrix, "matrix");
  auto made = std::make_unique<protean_matrix>();
  made->of.template emplace<MatrixOf<T>>();
  made->context = need(context, "context")->context;
  return made;
}
template <class T>
void hand_over(std::unique_ptr<protean_matrix> made, protean_matrix** matrix) {
  tell(*made, part_of<T>(made.get()));
  *matrix = made.release();
}

template <class T, class Index>
protean_status make_csr(protean_context* context, int64_t rows, int64_t cols, int64_t nonzeros,
                        const Index* row_ptr, const int32_t* col, const T* values, int index_base,
                        protean_matrix** matrix) {
  return guarded([&] {
    auto made = new_matrix<T>(context, matrix);
    MatrixOf<T>& part = part_of<T>(made.get());
    part.system = std::make_unique<SystemMatrix<T>>(
        made->context,
        csr_view(made->context, rows, cols, nonzeros, row_ptr, col, values, base_of(index_base)));
    part.system->settle_named();  // csr, until the first solve chooses
    hand_over<T>(std::move(made), matrix);
  });
}

template <class T>
protean_status make_elements(protean_context* context, int64_t nodes, int components, int64_t elements,
                             int nodes_of_element, const int32_t* connectivity, const T* matrices,
                             int index_base, const int64_t* constrained, int64_t constrained_count,
                             int symmetric, const char* variant, protean_matrix** matrix) {
  return guarded([&] {
    auto made = new_matrix<T>(context, matrix);
    // Before anything of these sizes is allocated.
    require_range("components", components, 1, largest_element);
    require_range("nodes", nodes, 0, std::numeric_limits<std::int32_t>::max() / components);
    require_range("elements", elements, 0, most_elements);
    require_range("nodes_of_element", nodes_of_element, 1, largest_element / components);
    require_range("constrained_count", constrained_count, 0, nodes * components);
    const IndexBase base = base_of(index_base);
    const auto nodes_in = counted_from_zero(connectivity, elements * nodes_of_element, base, "connectivity");
    if (!nodes_in.empty()) need(matrices, "matrices");
    const auto constrained_in = counted_from_zero(constrained, constrained_count, base, "constrained");
    ElementOptions options;
    options.components = components, options.symmetric = symmetric != 0, options.constrained = constrained_in;
    const std::string_view name = variant ? variant : "automatic";
    bool known = false;
    for (const auto scatter : {ElementScatter::automatic, ElementScatter::atomic, ElementScatter::coloured,
                               ElementScatter::gather})
      if (to_string(scatter) == name) options.scatter = scatter, known = true;
    if (!known)
      throw BadArgument("there is no variant '" + std::string(name) +
                        "'; there are automatic, atomic, coloured and gather");
    const std::size_t m = static_cast<std::size_t>(nodes_of_element) * static_cast<std::size_t>(components);
    MatrixOf<T>& part = part_of<T>(made.get());
    part.group = {
        elements, nodes_of_element, nodes_in, {matrices, static_cast<std::size_t>(elements) * m * m}};
    const ElementGroup<T> group[] = {part.group};
    part.system =
        std::make_unique<SystemMatrix<T>>(make_element_operator<T>(made->context, nodes, group, options));
    part.group.connectivity = {};
    hand_over<T>(std::move(made), matrix);
  });
}

template <class T, class Product, class Diagonal>
protean_status make_callback(protean_context* context, int64_t rows, int64_t cols, const char* name,
                             Product product, Diagonal diagonal, void* user, int recordable,
                             protean_matrix** matrix) {
  return guarded([&] {
    auto made = new_matrix<T>(context, matrix);
    if (rows < 0 || cols < 0)
      throw BadArgument("the operator is " + std::to_string(rows) + " x " + std::to_string(cols) +
                        "; rows and cols must be 0 or more");
    const CallbackOptions options{name ? name : "callback", recordable != 0};
    MatrixOf<T>& part = part_of<T>(made.get());
    auto callback = std::make_shared<CallbackOperator<T>>(
        made->context, Shape{rows, cols},
        product_function<T>(need(product, "product"), user, "the product of operator " + options.name),
        options);
    if (diagonal)
      callback->set_diagonal([diagonal, user, name_of = options.name](T* d, CUstream_st* stream) {
        if (const int result = diagonal(user, d, stream))
          throw CallbackFailed("the diagonal of operator " + name_of, result);
      });
    part.callback = callback.get();
    part.system = std::make_unique<SystemMatrix<T>>(std::move(callback));
    hand_over<T>(std::move(made), matrix);
  });
}

// Named formats and orders are made at once, so that a refusal belongs to this call. "auto" waits for the next solve,
// whose method it depends on.
template <class T>
void set_format(protean_matrix& matrix, MatrixOf<T>& part, const char* format, const char* parameters,
                const char* kernel) {
  require_no_solve(matrix);
  part.system->set_format(format, parse_parameters(parameters), kernel ? kernel : "");
  part.system->settle_named();
  tell(matrix, part);
}

template <class T>
void set_order(protean_matrix& matrix, MatrixOf<T>& part, const char* order) {
  require_no_solve(matrix);
  part.system->set_order(order);
  part.system->settle_named();
  tell(matrix, part);
}

template <class T>
protean_status update_values(protean_matrix* matrix, const T* values) {
  return guarded([&] {
    MatrixOf<T>& part = part_of<T>(matrix);
    need(values, "values");
    if (part.callback)
      throw BadArgument("operator " + std::string(part.callback->name()) +
                        " is functions of the caller; call protean_matrix_changed()");
    require_between_steps(*matrix);
    if (part.system->of_elements()) {
      const ElementGroup<T> group[] = {
          {part.group.elements, part.group.nodes, {}, {values, part.group.matrices.size()}}};
      part.system->update_values(group);
      tell(*matrix, part);
      return;
    }
    part.system->update_values(with_values(part.system->given(), values), SamePattern());
  });
}

template <class T>
void watch(const protean_matrix& matrix, MatrixOf<T>& part) {
  if (matrix.solves > 0)
    throw BadArgument("a solve is running with this matrix; call protean_matrix_watch() before or after it");
  part.system->watch();
}

template <class T>
protean_status apply(const protean_matrix* matrix, T alpha, const T* x, T beta, T* y) {
  return guarded([&] {
    const LinearOperator<T>& A = part_of<T>(matrix).A();
    const Counted running(matrix->products);
    A.apply(alpha, input(*matrix, x, "x"), beta, output(*matrix, y, "y"));
    matrix->context->synchronize();
  });
}

template <class T>
protean_status apply_transposed(const protean_matrix* matrix, T alpha, const T* x, T beta, T* y) {
  return guarded([&] {
    const LinearOperator<T>& A = part_of<T>(matrix).A();
    const Counted running(matrix->products);
    if (A.rows() > 0) need(x, "x");
    if (A.cols() > 0) need(y, "y");
    const Space space = matrix->context->space();
    protean::apply_transposed<T>(A, alpha, {x, A.rows(), space}, beta, {y, A.cols(), space});
    matrix->context->synchronize();
  });
}

template <class T, class Product>
protean_status set_transposed(protean_matrix* matrix, Product transposed, void* user) {
  return guarded([&] {
    MatrixOf<T>& part = part_of<T>(matrix);
    if (!part.callback)
      throw BadArgument("the matrix has arrays, which give the products with its transpose, too");
    if (matrix->solves > 0)
      throw BadArgument(
          "a solve is running with this matrix; call protean_matrix_set_transposed() before or after it");
    part.callback->set_transposed(transposed ? product_function<T>(transposed, user,
                                                                   "the transposed product of operator " +
                                                                       std::string(part.callback->name()))
                                             : ProductFunction<T>());
  });
}

template <class T>
protean_status apply_multi(const protean_matrix* matrix, int64_t count, T alpha, const T* X, int64_t ldx,
                           T beta, T* Y, int64_t ldy) {
  return guarded([&] {
    const LinearOperator<T>& A = part_of<T>(matrix).A();
    const Counted running(matrix->products);
    multi_apply<T>(A, alpha, several<const T>(*matrix, X, A.cols(), count, ldx, "X"), beta,
                   several<T>(*matrix, Y, A.rows(), count, ldy, "Y"));
    matrix->context->synchronize();
  });
}

}  // namespace

extern "C" {

protean_status protean_matrix_csr(protean_context* context, int64_t rows, int64_t cols, int64_t nonzeros,
                                  const int32_t* row_ptr, const int32_t* col, const double* values,
                                  int index_base, protean_matrix** matrix) {
  return make_csr(context, rows, cols, nonzeros, row_ptr, col, values, index_base, matrix);
}
protean_status protean_matrix_csr64(protean_context* context, int64_t rows, int64_t cols, int64_t nonzeros,
                                    const int64_t* row_ptr, const int32_t* col, const double* values,
                                    int index_base, protean_matrix** matrix) {
  return make_csr(context, rows, cols, nonzeros, row_ptr, col, values, index_base, matrix);
}
protean_status protean_matrix_csr_f32(protean_context* context, int64_t rows, int64_t cols, int64_t nonzeros,
                                      const int32_t* row_ptr, const int32_t* col, const float* values,
                                      int index_base, protean_matrix** matrix) {
  return make_csr(context, rows, cols, nonzeros, row_ptr, col, values, index_base, matrix);
}
protean_status protean_matrix_csr64_f32(protean_context* context, int64_t rows, int64_t cols,
                                        int64_t nonzeros, const int64_t* row_ptr, const int32_t* col,
                                        const float* values, int index_base, protean_matrix** matrix) {
  return make_csr(context, rows, cols, nonzeros, row_ptr, col, values, index_base, matrix);
}
protean_status protean_matrix_elements(protean_context* context, int64_t nodes, int components,
                                       int64_t elements, int nodes_of_element, const int32_t* connectivity,
                                       const double* matrices, int index_base, const int64_t* constrained,
                                       int64_t constrained_count, int symmetric, const char* variant,
                                       protean_matrix** matrix) {
  return make_elements(context, nodes, components, elements, nodes_of_element, connectivity, matrices,
                       index_base, constrained, constrained_count, symmetric, variant, matrix);
}
protean_status protean_matrix_elements_f32(protean_context* context, int64_t nodes, int components,
                                           int64_t elements, int nodes_of_element,
                                           const int32_t* connectivity, const float* matrices, int index_base,
                                           const int64_t* constrained, int64_t constrained_count,
                                           int symmetric, const char* variant, protean_matrix** matrix) {
  return make_elements(context, nodes, components, elements, nodes_of_element, connectivity, matrices,
                       index_base, constrained, constrained_count, symmetric, variant, matrix);
}
protean_status protean_matrix_callback(protean_context* context, int64_t rows, int64_t cols, const char* name,
                                       protean_product product, protean_diagonal diagonal, void* user,
                                       int recordable, protean_matrix** matrix) {
  return make_callback<double>(context, rows, cols, name, product, diagonal, user, recordable, matrix);
}
protean_status protean_matrix_callback_f32(protean_context* context, int64_t rows, int64_t cols,
                                           const char* name, protean_product_f32 product,
                                           protean_diagonal_f32 diagonal, void* user, int recordable,
                                           protean_matrix** matrix) {
  return make_callback<float>(context, rows, cols, name, product, diagonal, user, recordable, matrix);
}
protean_status protean_matrix_set_transposed(protean_matrix* matrix, protean_product transposed, void* user) {
  return set_transposed<double>(matrix, transposed, user);
}
protean_status protean_matrix_set_transposed_f32(protean_matrix* matrix, protean_product_f32 transposed,
                                                 void* user) {
  return set_transposed<float>(matrix, transposed, user);
}
protean_status protean_matrix_changed(protean_matrix* matrix, int pattern) {
  return guarded([&] {
    std::visit(
        [&](auto& part) {
          if (!part.callback)
            throw BadArgument(
                "the matrix has arrays; protean_matrix_update_values() sets new values of them");
          require_between_steps(*matrix);
          part.callback->changed(pattern != 0);
        },
        need(matrix, "matrix")->of);
  });
}
void protean_matrix_free(protean_matrix* matrix) {
  if (matrix && (matrix->solves > 0 || matrix->products > 0))
    return (void)failed(
        PROTEAN_BAD_ARGUMENT,
        "protean_matrix_free(): a solve or a product is running with this matrix, which is not "
        "freed; free it afterwards");
  delete matrix;
}

protean_status protean_matrix_set_format(protean_matrix* matrix, const char* format, const char* parameters,
                                         const char* kernel) {
  return guarded([&] {
    need(matrix, "matrix"), need(format, "format");
    std::visit([&](auto& part) { set_format(*matrix, part, format, parameters, kernel); }, matrix->of);
  });
}
protean_status protean_matrix_set_order(protean_matrix* matrix, const char* order) {
  return guarded([&] {
    need(matrix, "matrix"), need(order, "order");
    std::visit([&](auto& part) { set_order(*matrix, part, order); }, matrix->of);
  });
}
protean_status protean_matrix_update_values(protean_matrix* matrix, const double* values) {
  return update_values(matrix, values);
}
protean_status protean_matrix_update_values_f32(protean_matrix* matrix, const float* values) {
  return update_values(matrix, values);
}
protean_status protean_matrix_watch(protean_matrix* matrix) {
  return guarded([&] { std::visit([&](auto& part) { watch(*matrix, part); }, need(matrix, "matrix")->of); });
}
protean_status protean_matrix_apply(const protean_matrix* matrix, double alpha, const double* x, double beta,
                                    double* y) {
  return apply(matrix, alpha, x, beta, y);
}
protean_status protean_matrix_apply_f32(const protean_matrix* matrix, float alpha, const float* x, float beta,
                                        float* y) {
  return apply(matrix, alpha, x, beta, y);
}
protean_status protean_matrix_apply_transposed(const protean_matrix* matrix, double alpha, const double* x,
                                               double beta, double* y) {
  return apply_transposed(matrix, alpha, x, beta, y);
}
protean_status protean_matrix_apply_transposed_f32(const protean_matrix* matrix, float alpha, const float* x,
                                                   float beta, float* y) {
  return apply_transposed(matrix, alpha, x, beta, y);
}
protean_status protean_matrix_apply_multi(const protean_matrix* matrix, int64_t count, double alpha,
                                          const double* X, int64_t ldx, double beta, double* Y, int64_t ldy) {
  return apply_multi(matrix, count, alpha, X, ldx, beta, Y, ldy);
}
protean_status protean_matrix_apply_multi_f32(const protean_matrix* matrix, int64_t count, float alpha,
                                              const float* X, int64_t ldx, float beta, float* Y,
                                              int64_t ldy) {
  return apply_multi(matrix, count, alpha, X, ldx, beta, Y, ldy);
}
int protean_matrix_is_f32(const protean_matrix* matrix) {
  return matrix && std::holds_alternative<MatrixOf<float>>(matrix->of) ? 1 : 0;
}
int64_t protean_matrix_rows(const protean_matrix* matrix) {
  return matrix ? std::visit([](const auto& part) { return part.A().rows(); }, matrix->of) : 0;
}
int64_t protean_matrix_cols(const protean_matrix* matrix) {
  return matrix ? std::visit([](const auto& part) { return part.A().cols(); }, matrix->of) : 0;
}
size_t protean_matrix_bytes(const protean_matrix* matrix) {
  return matrix ? std::visit([](const auto& part) { return part.system->bytes(); }, matrix->of) : 0;
}
const char* protean_matrix_format(const protean_matrix* matrix) {
  return matrix ? matrix->format.c_str() : "";
}
const char* protean_matrix_order(const protean_matrix* matrix) { return matrix ? matrix->order.c_str() : ""; }
const char* protean_matrix_order_reason(const protean_matrix* matrix) {
  return matrix ? matrix->order_reason.c_str() : "";
}

}  // extern "C"
