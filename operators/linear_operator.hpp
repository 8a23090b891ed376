// The abstract linear operator against which every solver is written.
#pragma once
#include <atomic>
#include <cstdint>
#include <string_view>

#include <protean/core/context.hpp>
#include <protean/core/vector.hpp>

namespace protean {

struct Shape {
  std::int64_t rows = 0, cols = 0;
  bool operator==(const Shape&) const = default;
};

// Counts changes of an operator. A preconditioner compares the revision it was built from with the present
// one: equal, nothing to do; same pattern, new values: numeric rebuild. A change of storage format changes
// neither.
struct Revision {
  std::uint64_t pattern = 0, values = 0;
  bool operator==(const Revision&) const = default;
};

// What a solver on a device may do with the work that do_apply() queues there. It records some steps into a
// CUDA graph once and replays that, so do_apply() is not called for each product.
struct Recording {
  // False: do_apply() must be called for each product, since it queues other work each time, or needs the
  // host, or waits. Steps are then queued one by one, which is slower.
  bool allowed = true;
  // Another number whenever what do_apply() queues for the same vectors has changed (other kernels, arrays
  // elsewhere, other numbers passed by value): it is recorded anew then, in a running solve also. 0: not
  // known, recorded anew in each solve.
  std::uint64_t version = 0;
  bool operator==(const Recording&) const = default;
};

// y = A x for vectors in the space of context(). Const members may be called from several threads at once.
template <class T>
class LinearOperator {
 public:
  LinearOperator(ContextPtr context, Shape shape)
      : context_(std::move(context)), shape_(shape), serial_(next_serial()) {}
  virtual ~LinearOperator() = default;
  LinearOperator(const LinearOperator&) = delete;
  LinearOperator& operator=(const LinearOperator&) = delete;

  // y := alpha A x + beta y. x has cols, y rows entries; they must not overlap. beta == 0 never reads y,
  // which may hold NaN then. Asynchronous on the context; allocates nothing. Throws ShapeMismatch,
  // WrongSpace, BadArgument (overlap).
  void apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const;
  // y := A x
  void apply(VectorView<const T> x, VectorView<T> y) const { apply(T(1), x, T(0), y); }

  const Shape& shape() const noexcept { return shape_; }
  std::int64_t rows() const noexcept { return shape_.rows; }
  std::int64_t cols() const noexcept { return shape_.cols; }
  const ContextPtr& context() const noexcept { return context_; }
  // Different for every operator this process has made, also where one lies at the address of a former one.
  std::uint64_t serial() const noexcept { return serial_; }
  // Products computed so far, of all threads. Those of a recorded CUDA graph count once for each replay, by
  // whoever replays it.
  std::int64_t products() const noexcept { return products_.load(std::memory_order_relaxed); }
  void count_products(std::int64_t more) const noexcept {
    products_.fetch_add(more, std::memory_order_relaxed);
  }

  virtual std::string_view name() const noexcept = 0;
  virtual Revision revision() const noexcept { return {}; }
  virtual Recording recording() const noexcept { return {}; }
  // Throws ArraysChanged when arrays of a caller that products read where they lie are watched and have been
  // changed or freed (see watched()). A solver asks before each solve.
  virtual void check_arrays() const {}

 protected:
  virtual void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const = 0;
  // What apply() checks and counts, for other entry points of a derived class.
  void check(VectorView<const T> x, VectorView<T> y) const;

 private:
  ContextPtr context_;
  Shape shape_;
  std::uint64_t serial_;
  static std::uint64_t next_serial() noexcept;
  mutable std::atomic<std::int64_t> products_{0};
  template <class U>
  friend void apply_dot(const LinearOperator<U>&, VectorView<const U>, VectorView<U>, U*);
};

// Ability: knows its diagonal. diagonal[i] := a_ii, 0 where there is none; min(rows, cols) entries in the
// operator's space.
template <class T>
class HasDiagonal {
 public:
  virtual ~HasDiagonal() = default;
  virtual void diagonal(VectorView<T> diagonal) const = 0;
};

// Ability: computes y := A x and result[0] := x . y in one pass (square operators). Reached through
// apply_dot().
template <class T>
class HasApplyDot {
 public:
  virtual ~HasApplyDot() = default;
  virtual void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const = 0;
};

// y := A x, result[0] := x . y, fused where the operator can, else by a product and a dot. result lies in the
// operator's space. Checks as LinearOperator::apply; throws ShapeMismatch for a rectangular operator.
template <class T>
void apply_dot(const LinearOperator<T>& A, VectorView<const T> x, VectorView<T> y, T* result);

// Throws ShapeMismatch or WrongSpace, naming `what`, unless the view has this size and space.
template <class T>
void require(VectorView<const T> view, std::int64_t size, Space space, std::string_view what);

}  // namespace protean
