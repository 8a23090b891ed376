// Products of an operator with its transpose: y := alpha A^T x + beta y.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include <protean/core/export.hpp>
#include <protean/operators/linear_operator.hpp>

namespace PROTEAN_EXPORT protean {

// Ability: computes products with A^T.
//
//   assembled matrices   keep A^T in format csr and compute with it. It is made at the first product, and again at the
//                        first one after new values; a Matrix makes it again after a change of format, too.
//                        It takes the memory of the matrix in csr, and as much again while it is made; on a GPU 8 more
//                        bytes an entry then (16 from 2^31 entries on). Format csc computes with its own arrays, which
//                        are A^T in csr, and sss with its own product, since A^T is A: both keep nothing.
//   element matrices     compute with the transposed matrices of the elements where they lie, and with the same ones if
//                        only lower halves are stored. They keep nothing.
//   a CallbackOperator   calls the function of set_transposed().
//   A in another order   computes P^T B^T P.
//
// In deterministic mode an assembled matrix adds the entries of a column of A in ascending order of rows, with fused
// multiply-adds on a host: the same bits in every format and for any number of threads.
template <class T>
class HasTransposedProduct {
 public:
  virtual ~HasTransposedProduct() = default;
  // Empty if it computes them now; otherwise the reason and what to do, for a person.
  virtual std::string_view no_transposed_product() const noexcept { return {}; }
  // Makes what the products need, unless it is there. Throws OutOfMemory.
  virtual void prepare_transposed() const {}
  // Bytes that it keeps for these products alone; bytes() of the operator does not count them.
  virtual std::size_t transposed_bytes() const noexcept { return 0; }
  // Called by apply_transposed() if no_transposed_product() is empty: x has rows entries, y has cols entries, and they
  // do not overlap. With beta == 0 y is not read. Asynchronous on the context.
  virtual void do_apply_transposed(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const = 0;
};

// Why A has no product with its transpose, and what to do; empty if it has one.
template <class T>
PROTEAN_EXPORT std::string no_transposed_product(const LinearOperator<T>& A);

// y := alpha A^T x + beta y. x has rows entries and y has cols entries, in the space of A; they must not overlap. With
// beta == 0 y is not read and may contain NaN. Counts as a product. Asynchronous on the context. It allocates nothing
// after prepare_transposed(). Several threads may call it at once. Throws ShapeMismatch, WrongSpace, BadArgument
// (overlap, a null pointer, an operator without such a product), OutOfMemory.
template <class T>
PROTEAN_EXPORT void apply_transposed(const LinearOperator<T>& A, std::type_identity_t<T> alpha,
                                     std::type_identity_t<VectorView<const T>> x,
                                     std::type_identity_t<T> beta, std::type_identity_t<VectorView<T>> y);
// y := A^T x
template <class T>
void apply_transposed(const LinearOperator<T>& A, std::type_identity_t<VectorView<const T>> x,
                      std::type_identity_t<VectorView<T>> y) {
  apply_transposed<T>(A, T(1), x, T(0), y);
}

// Makes what the next product with A^T would make, so that it allocates nothing and can be recorded into a CUDA graph.
// It holds until A gets new values, another format or another order. Throws OutOfMemory, and BadArgument if A has no
// such product.
template <class T>
PROTEAN_EXPORT void prepare_transposed(const LinearOperator<T>& A);

}  // namespace protean
