// A numbering of the rows of a matrix: vectors and matrices between the caller's numbering and another one.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <protean/core/csr.hpp>
#include <protean/core/export.hpp>
#include <protean/core/multi_vector.hpp>
#include <protean/core/pattern_mark.hpp>
#include <protean/core/vector.hpp>

namespace PROTEAN_EXPORT protean {

// P, with (P x)_k = x_order[k]: place k has the row that the caller calls order[k]. A cheap handle: copies share the
// arrays, 8 bytes a row in host memory and, for a device, 8 bytes a row in its memory. A permutation made of device
// arrays has no arrays in host memory until order() or place() is called.
class Permutation {
 public:
  Permutation() = default;  // of no rows, without a context
  // `order` is in host memory. The vectors that it permutes lie in the space of `context`. Throws BadArgument unless
  // each of 0 .. size - 1 is in `order` once.
  Permutation(ContextPtr context, std::vector<std::int32_t> order);
  // Both arrays are in the memory of the device of `context`; place[order[k]] = k. Only the sizes are checked. Throws
  // ShapeMismatch, and WrongSpace for a context of the host.
  Permutation(ContextPtr context, Buffer<std::int32_t> order, Buffer<std::int32_t> place);

  std::int64_t size() const noexcept { return state_ ? state_->size : 0; }
  const ContextPtr& context() const noexcept { return state_->context; }
  // In host memory: order()[k] is the row at place k, place()[i] is the place of row i. If the arrays lie on a device
  // only, the first call of either waits for a copy; it throws DeviceError, OutOfMemory.
  std::span<const std::int32_t> order() const {
    return state_ ? state_->here().order : std::span<const std::int32_t>();
  }
  std::span<const std::int32_t> place() const {
    return state_ ? state_->here().place : std::span<const std::int32_t>();
  }

  // Whether it is a copy of this handle.
  bool is(const Permutation& other) const noexcept { return state_ == other.state_; }
  // The same in the memory of a device; null for a permutation of the host.
  const std::int32_t* order_there() const noexcept { return state_ ? state_->order_there.data() : nullptr; }
  const std::int32_t* place_there() const noexcept { return state_ ? state_->place_there.data() : nullptr; }

  // P^T: place i has the row that the caller calls place()[i].
  Permutation inverse() const;
  // P F, for vectors that are already in the order F. Throws ShapeMismatch if F has another size.
  Permutation after(const Permutation& first) const;

  // to := P from: from the caller's numbering to the places. Both vectors have size() entries in the space of the
  // context and do not overlap. Asynchronous on a device. Throws ShapeMismatch, WrongSpace.
  template <class T>
  void apply(VectorView<const T> from, VectorView<T> to) const;
  // to := P^T from: back to the caller's numbering.
  template <class T>
  void apply_inverse(VectorView<const T> from, VectorView<T> to) const;
  // The same for several vectors, as many in both, in any layouts.
  template <class T>
  void multi_apply(MultiVectorView<const T> from, MultiVectorView<T> to) const;
  template <class T>
  void multi_apply_inverse(MultiVectorView<const T> from, MultiVectorView<T> to) const;

 private:
  template <class T>
  void move(const MultiVectorView<const T>& from, const MultiVectorView<T>& to, bool inverse) const;
  struct Arrays {
    std::vector<std::int32_t> order, place;
  };
  struct State {
    ContextPtr context;
    std::int64_t size = 0;
    Buffer<std::int32_t> order_there, place_there;  // in the memory of a device
    mutable Arrays host;  // empty until here(), unless the permutation was made of them
    mutable std::once_flag copied;
    const Arrays& here() const;
  };
  std::shared_ptr<const State> state_;
};

// P A P^T for a square A. Row k is row order[k] of A. Its columns are the places of the columns of A, ascending. The
// matrix lies in the space of the permutation's context. It is computed in the space of A: on the host, or on the
// device of that context. The device sorts all entries; this takes 20 bytes an entry of workspace (24 from 2^31 entries
// on). The place of each entry in A is kept in 4 bytes (8 from 2^31 entries on). So new values cost one pass over the
// entries.
template <class T>
class PermutedMatrix {
 public:
  // `host` has the threads that make it from a matrix in host memory. On a device the work is queued; the host waits
  // for the hash of the pattern (PatternMark). Throws ShapeMismatch, OutOfMemory, and WrongSpace for a matrix of a
  // device with a permutation of the host.
  PermutedMatrix(const ContextPtr& host, const CsrMatrix<T>& matrix, Permutation permutation);

  const Permutation& permutation() const noexcept { return permutation_; }
  const CsrMatrix<T>& matrix() const noexcept { return matrix_; }
  // Replaces the values of matrix() by the values of `from`, a matrix with A's pattern in the space of the
  // permutation's context. The new values lie in another array than the old ones. The old array remains valid as long
  // as a handle of it exists. Two arrays are used in turn, so only the first call allocates memory. Throws
  // ShapeMismatch (also for another pattern; PatternMark::is() says how it is read), WrongSpace, OutOfMemory; then
  // nothing has changed.
  void update_values(const CsrMatrix<T>& from);
  // For a caller who knows that the pattern is the same: only sizes are compared.
  void update_values(const CsrMatrix<T>& from, SamePattern same);
  // Throws whatever update_values(from) throws before it changes anything.
  void require_same_pattern(const CsrMatrix<T>& from) const;
  // Undoes the last update_values(). before: what matrix() was before that call.
  void restore(CsrMatrix<T> before) noexcept;

 private:
  void make_on_host(const ContextPtr& host, const CsrMatrix<T>& matrix);
  void make_on_device(const CsrMatrix<T>& matrix);
  void check_values(const CsrMatrix<T>& from) const;

  Permutation permutation_;
  CsrMatrix<T> matrix_;
  PatternMark pattern_;                        // of A
  std::shared_ptr<Buffer<T>> values_, spare_;  // from update_values(): the present ones, the ones before
  Buffer<std::int32_t> entry_;
  Buffer<std::int64_t> wide_entry_;  // one of the two
};

}  // namespace protean
