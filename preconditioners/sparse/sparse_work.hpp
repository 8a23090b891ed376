// Sparse matrices on a device: products, triangles and what preconditioners ask of them there. Rows have pointers of 4
// bytes and ascending columns. Private to preconditioners/.
#pragma once
#include <cstdint>
#include <exception>
#include <memory>

#include "core/csr.hpp"
#include "core/vector.hpp"

namespace protean::detail {

// A matrix that the device would have, with more than 2^31 - 1 entries.
struct TooManyEntries final : std::exception {
  const char* what() const noexcept override { return "more than 2^31 - 1 entries"; }
};

// All functions throw OutOfMemory and DeviceError; functions that make matrices also throw TooManyEntries.
template <class T>
class SparseWork {
 public:
  virtual ~SparseWork() = default;

  virtual SparsityPattern product_pattern(const SparsityPattern& A, const SparsityPattern& B) const = 0;
  // A B in its pattern. Each value is added up in the order of the columns of A.
  virtual CsrMatrix<T> product(const CsrMatrix<T>& A, const CsrMatrix<T>& B,
                               const SparsityPattern& pattern) const = 0;
  // transposition: the entry of the pattern that each entry of the result is.
  virtual SparsityPattern transpose(const SparsityPattern& pattern,
                                    Buffer<std::int32_t>& transposition) const = 0;
  // The entries of A below or above the diagonal and all of the diagonal. Columns of A ascend in each row.
  virtual SparsityPattern triangle(const SparsityPattern& A, bool lower) const = 0;
  // The inverse of a permutation: number p[k] of the result is k.
  virtual Buffer<std::int64_t> places(const Buffer<std::int32_t>& permutation) const = 0;
  // The numbers of xorshift64 behind `seed`, in [-1, 1).
  virtual void start_vector(std::uint64_t seed, VectorView<T> x) const = 0;
  // Whether all are positive, and finite with their inverses. Waits for the device.
  virtual bool positive_divisors(VectorView<const T> d) const = 0;
};

// For the context, which is one of a device or of a simulated device.
template <class T>
std::unique_ptr<SparseWork<T>> sparse_work(const ContextPtr& context);

}  // namespace protean::detail
