// The abstract linear operator for which every solver is written.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string_view>

#include <protean/core/context.hpp>
#include <protean/core/export.hpp>
#include <protean/core/vector.hpp>
#include <protean/operators/abilities.hpp>

namespace PROTEAN_EXPORT protean {

struct Shape {
  std::int64_t rows = 0, cols = 0;
  bool operator==(const Shape&) const = default;
};

// Counts changes of an operator. A preconditioner compares the revision from which it was built with the
// current one: nothing to do if they are equal; a numeric update if only the values differ. A change of the
// storage format changes neither.
struct Revision {
  std::uint64_t pattern = 0, values = 0;
  bool operator==(const Revision&) const = default;
};

// Whether a solver on a device may record the work that do_apply() queues. Such a solver records some steps
// into a CUDA graph once and replays the graph, so do_apply() is not called for each product.
struct Recording {
  // False: do_apply() must be called for each product, because it queues different work each time, computes
  // on the host, or waits. Steps are then queued one by one, which is slower.
  bool allowed = true;
  // Must change whenever do_apply() would queue different work for the same vectors: other kernels, other
  // addresses of arrays, other numbers passed by value. The steps are then recorded again, also in the middle
  // of a solve. 0: unknown; they are recorded again in each solve.
  std::uint64_t version = 0;
  // Bytes of the operator that a product reads; 0: unknown. If they are many, fewer steps are recorded, since products
  // of steps that are queued after the end of a solve cost time.
  std::size_t bytes = 0;
  // A recorded graph holds several steps, and all of it runs, also the steps after the one that ends the solve. True:
  // the kernels of do_apply() and do_apply_dot() know the device's flag of an ended solve, and then leave y and result
  // as they are. False, as for every operator that does not know this flag: if the method keeps y, the solver gives
  // do_apply() another vector instead, and copies it into y as long as the solve has not ended. That takes one more
  // vector.
  bool heeds_stop = false;
  bool operator==(const Recording&) const = default;
};

// y = A x for vectors in the space of context(). Several threads may call const members at once.
template <class T>
class LinearOperator {
 public:
  LinearOperator(ContextPtr context, Shape shape)
      : context_(std::move(context)), shape_(shape), serial_(next_serial()) {}
  virtual ~LinearOperator() = default;
  LinearOperator(const LinearOperator&) = delete;
  LinearOperator& operator=(const LinearOperator&) = delete;

  // y := alpha A x + beta y. x has cols entries, y has rows entries; they must not overlap. With beta == 0 y
  // is not read and may contain NaN. Asynchronous on the context; allocates nothing. Throws ShapeMismatch,
  // WrongSpace, BadArgument (overlap, a null pointer).
  void apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const;
  // y := A x
  void apply(VectorView<const T> x, VectorView<T> y) const { apply(T(1), x, T(0), y); }

  const Shape& shape() const noexcept { return shape_; }
  std::int64_t rows() const noexcept { return shape_.rows; }
  std::int64_t cols() const noexcept { return shape_.cols; }
  const ContextPtr& context() const noexcept { return context_; }
  // Different for every operator of this process, even if it has the address of a destroyed one.
  std::uint64_t serial() const noexcept { return serial_; }
  // Number of products computed so far by all threads. A caller that replays a recorded CUDA graph counts its products
  // with count_products().
  std::int64_t products() const noexcept { return products_.load(std::memory_order_relaxed); }
  void count_products(std::int64_t more) const noexcept {
    products_.fetch_add(more, std::memory_order_relaxed);
  }

  virtual std::string_view name() const noexcept = 0;
  virtual Revision revision() const noexcept { return {}; }
  virtual Recording recording() const noexcept { return {}; }
  // Throws ArraysChanged if products read arrays of the caller that are watched (see watched()) and have been
  // changed or freed. A solver calls it before each solve.
  virtual void check_arrays() const {}
  // The abilities of the operator in addition to products: the interfaces (HasDiagonal ...) from which its class is
  // derived. An operator that computes with another one has the abilities of that operator, except the ones that it
  // changes (Wrapper). Not for use in a constructor.
  virtual Abilities<T> abilities() const noexcept;

 protected:
  virtual void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const = 0;
  // The checks and the count of apply(), for other entry points of a derived class.
  void check(VectorView<const T> x, VectorView<T> y) const;

 private:
  ContextPtr context_;
  Shape shape_;
  std::uint64_t serial_;
  static std::uint64_t next_serial() noexcept;
  mutable std::atomic<std::int64_t> products_{0};
  mutable std::once_flag asked_;
  mutable Abilities<T> own_abilities_;  // the abilities of its class, once asked_
  template <class U>
  friend void apply_dot(const LinearOperator<U>&, VectorView<const U>, VectorView<U>, U*);
};

// Ability: returns its diagonal. diagonal[i] := a_ii, or 0 if that entry is not stored; min(rows, cols)
// entries in the operator's space.
template <class T>
class HasDiagonal {
 public:
  virtual ~HasDiagonal() = default;
  virtual void diagonal(VectorView<T> diagonal) const = 0;
};

// Ability of a square operator: computes y := A x and result[0] := x . y in one pass. Called by apply_dot().
template <class T>
class HasApplyDot {
 public:
  virtual ~HasApplyDot() = default;
  virtual void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const = 0;
};

// y := A x, result[0] := x . y: in one pass if the operator has HasApplyDot, otherwise by a product and a dot
// product. result is in the operator's space. Checks as LinearOperator::apply; throws ShapeMismatch for a
// rectangular operator.
template <class T>
PROTEAN_EXPORT void apply_dot(const LinearOperator<T>& A, VectorView<const T> x, VectorView<T> y, T* result);

// Throws ShapeMismatch, WrongSpace or BadArgument, with the name `what`, unless the view has this size and space, and
// memory if it has entries.
template <class T>
PROTEAN_EXPORT void require(VectorView<const T> view, std::int64_t size, Space space, std::string_view what);

}  // namespace protean
