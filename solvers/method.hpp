// What a Krylov method is to the driver in solver.cpp: begin(), step(), finish(), and scalars to be judged.
// Private to solvers/.
//
// begin() and step() call vector operations, the operator and the preconditioner only; scalars stay in the
// context's space and are read there by the next operation (Coefficient). Nothing in them decides whether to
// go on: that is judged from signals(), in IterationControl alone.
#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include "core/blas1.hpp"
#include "core/vector.hpp"
#include "operators/linear_operator.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"

namespace protean::detail {

// A x = b with what belongs to one solve.
template <class T>
struct System {
  const LinearOperator<T>& A;
  VectorView<const T> b;
  VectorView<T> x;
  const Preconditioner<T>* M;
  VectorView<const T> d;  // the diagonal of M^-1 where it is one, else empty

  const Context& context() const noexcept { return *A.context(); }
  bool general_preconditioner() const noexcept { return M && d.size == 0; }

  // z := M^-1 r
  void precondition(VectorView<const T> r, VectorView<T> z) const {
    if (d.size > 0)
      multiply<T>(context(), d, r, z);
    else if (M)
      M->apply(r, z);
    else
      copy<T>(context(), r, z);
  }
};

// What the vectors of a method depend on. A method allocates all of them when it is made, for one layout, and
// they never move: an address of theirs that was recorded is valid as long as the method exists.
struct WorkspaceLayout {
  enum class Preconditioning : unsigned char { none, diagonal, general };
  ContextPtr context;
  std::int64_t n = 0;
  Preconditioning preconditioning = Preconditioning::none;
  bool operator==(const WorkspaceLayout&) const = default;
};
template <class T>
WorkspaceLayout layout_of(const System<T>& system) {
  using enum WorkspaceLayout::Preconditioning;
  return {system.A.context(), system.x.size,
          system.general_preconditioner() ? general
          : system.M                      ? diagonal
                                          : none};
}

// A scalar that must not have happened. `scale`, where given, is two squared norms a, b in the context's
// space and the value counts as zero up to factor * sqrt(a b).
enum class Test : unsigned char { nonzero, positive };
template <class T>
struct Guard {
  const T* value;
  Test test;
  StopReason reason;
  const char* meaning;  // for a person: "p . A p"
  T factor = 0;
  const T* scale_a = nullptr;
  const T* scale_b = nullptr;
};

template <class T>
struct Signals {
  const T* residual_squared;  // in the context's space
  std::span<const Guard<T>> guards;
  bool cycle_ended = false;  // no room for another step: finish() and begin() again
  bool resumable = true;     // step() may follow finish() at once
};

// At most one solve at a time, of systems with the layout it was made for. Only the constructor allocates.
template <class T>
class Method {
 public:
  Method() = default;
  Method(const Method&) = delete;
  Method& operator=(const Method&) = delete;
  virtual ~Method() = default;

  // A vector that nothing between two calls depends on; the driver computes b - A x in it.
  virtual VectorView<T> scratch() noexcept = 0;
  // Starts from r = b - A x, which may be scratch().
  virtual void begin(const System<T>& system, VectorView<const T> r) = 0;
  // What signals() names is final before the last operation that this queues.
  virtual void step(const System<T>& system) = 0;
  // Makes x the current iterate.
  virtual void finish(const System<T>&) {}

  // For steps that are recorded once and replayed. step() queues the same work whenever phase() is the same:
  // phase is 0 after begin() and grows by 1 a step up to period(), which is 0 again unless cycles end there.
  virtual std::int64_t period() const noexcept = 0;
  virtual bool cycles_end() const noexcept { return false; }
  virtual std::int64_t phase() const noexcept = 0;
  // After steps were replayed: what step() would have left behind on the calling side.
  virtual void set_phase(std::int64_t phase) noexcept = 0;
  // Whether the scalars that step() computes are read by Coefficients of vector operations and by the judge
  // only, and what signals() names is final before the step's cg_direction or bicgstab_direction. A device
  // then need not have a scalar until the next operation, and judges in that one.
  virtual bool scalars_in_coefficients(const System<T>&) const noexcept { return false; }
  // After begin() and after each step().
  virtual Signals<T> signals() const noexcept = 0;
};

// Ability of a method whose step is that of conjugate gradients with M^-1 the identity or a diagonal: its
// vectors and scalars {p . A p, r . r, r . z, r . r, r . z}, the pairs in turn: pair phase() is the present
// one. Between two steps x, r and p = z + beta p are those of the step before.
template <class T>
struct CgState {
  VectorView<T> r, p;
  T* scalars;
};
template <class T>
class HasCgState {
 public:
  virtual ~HasCgState() = default;
  virtual CgState<T> cg_state() noexcept = 0;
};

template <class T, template <class> class M>
class SolverOf final : public Solver<T> {
 public:
  explicit SolverOf(const SolverOptions& options) : Solver<T>(options) {}
  std::string_view name() const noexcept override { return M<T>::id; }

 private:
  std::unique_ptr<Method<T>> make_method(const WorkspaceLayout& layout) const override {
    return std::make_unique<M<T>>(this->options(), layout);
  }
};

template <class T, template <class> class M>
std::unique_ptr<Solver<T>> make_solver_of(const SolverOptions& options) {
  return std::make_unique<SolverOf<T, M>>(options);
}

}  // namespace protean::detail
