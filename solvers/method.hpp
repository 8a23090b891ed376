// The interface between a Krylov method and the driver (driver/one_vector.cpp): begin(), step(), finish(), and the
// scalars that decide whether the solve goes on. Private to solvers/.
//
// begin() and step() only call vector operations, the operator and the preconditioner. Scalars stay in the
// space of the context, where the next operation reads them (Coefficient). A method decides nothing: only
// IterationControl reads signals() and decides.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/blas1.hpp"
#include "core/vector.hpp"
#include "operators/linear_operator.hpp"
#include "operators/order.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"

namespace protean::detail {

// What protects a method while steps are queued that a device may run after the end of the solve: vectors that the
// method keeps from one step to the next, and a vector into which operators write that do not heed the stop
// (Recording::heeds_stop).
template <class T>
struct Shield {
  std::vector<const T*> kept;
  mutable Vector<T> vector;  // n entries if such an operator takes part, else empty
};

// What the vectors of a method depend on. A method allocates all of them when it is made, for one layout, and they
// never move: a recorded address is valid as long as the method exists.
struct WorkspaceLayout {
  enum class Preconditioning : unsigned char { none, diagonal, general };
  ContextPtr context;
  std::int64_t n = 0;
  Preconditioning preconditioning = Preconditioning::none;
  bool operator==(const WorkspaceLayout&) const = default;
};
// The arguments of a solve of A x = b, where b and x are one vector or several.
template <class T, template <class> class View>
struct SystemOf {
  const LinearOperator<T>& A;
  View<const T> b;
  View<T> x;
  const Preconditioner<T>* M;
  VectorView<const T> d;            // the entries of M^-1 if M^-1 is a diagonal, else empty
  const HasOrder<T>* of = nullptr;  // the operator whose in_order() is A
  VectorView<const T> weights =
      {};  // the entries of a diagonal W, if residuals are measured as ||W r||, else empty
  // M^-1 is a diagonal, of which this part of a distributed system has no entries, since it has no rows.
  bool diagonal_elsewhere = false;

  const Context& context() const noexcept { return *A.context(); }
  bool general_preconditioner() const noexcept { return M && d.size == 0 && !diagonal_elsewhere; }
  WorkspaceLayout layout() const {
    using enum WorkspaceLayout::Preconditioning;
    return {A.context(), A.rows(), general_preconditioner() ? general : M ? diagonal : none};
  }
  void count_products(std::int64_t more) const noexcept {
    of ? of->count_in_order(more) : A.count_products(more);
  }
};

// The arguments of a solve with one vector, and all that a method does with A and M. A method calls these functions
// instead of the functions of A and M, so that no work after the end of a solve can change what the method keeps.
template <class T>
struct System : SystemOf<T, VectorView> {
  const Shield<T>* shield = nullptr;  // set while steps are queued that may run after the end

  using Base = SystemOf<T, VectorView>;
  using Base::A, Base::M, Base::d, Base::context, Base::general_preconditioner;
  // Whether an operator takes part that does not heed the stop.
  bool needs_shield() const noexcept {
    return !A.recording().heeds_stop || (general_preconditioner() && !M->recording().heeds_stop);
  }

  // w := alpha A v + beta w
  void product(T alpha, VectorView<const T> v, T beta, VectorView<T> w) const { apply(A, alpha, v, beta, w); }
  void product(VectorView<const T> v, VectorView<T> w) const { apply(A, T(1), v, T(0), w); }
  // w := A v, result[0] := v . w
  void product_dot(VectorView<const T> v, VectorView<T> w, T* result) const { apply_dot(A, v, w, result); }

  // z := M^-1 r
  void precondition(VectorView<const T> r, VectorView<T> z) const {
    if (d.size > 0)
      multiply<T>(context(), d, r, z);
    else if (M)
      apply(*M, T(1), r, T(0), z);
    else
      copy<T>(context(), r, z);
  }
  // z := M^-1 r, result[0] := r . z, for an M that is not a diagonal
  void precondition_dot(VectorView<const T> r, VectorView<T> z, T* result) const {
    apply_dot(*M, r, z, result);
  }

 private:
  template <class Operator>
  void apply(const Operator& op, T alpha, VectorView<const T> v, T beta, VectorView<T> w) const {
    if (!shield || op.recording().heeds_stop ||
        std::find(shield->kept.begin(), shield->kept.end(), w.data) == shield->kept.end())
      return op.apply(alpha, v, beta, w);
    op.apply(alpha, v, T(0), shield->vector.view());
    axpby<T>(context(), T(1), shield->vector, beta, w);
  }
  // The dot product of an operator that does not heed the stop might overwrite a scalar that the method keeps.
  template <class Operator>
  void apply_dot(const Operator& op, VectorView<const T> v, VectorView<T> w, T* result) const {
    if (!shield || op.recording().heeds_stop) return protean::apply_dot<T>(op, v, w, result);
    apply(op, T(1), v, T(0), w);
    dot<T>(context(), v, w, result);
  }
};

// A vector of a method. On a device it is set to 0, because the kernels of a recorded step load their first
// elements before they know that the run has ended. Such values are dropped, but a vector that no step has
// written yet would be read uninitialised.
template <class T>
Vector<T> make_vector(const ContextPtr& context, std::int64_t n) {
  Vector<T> made(context, n);
  if (context->space() == Space::device) fill<T>(*context, T(0), made);
  return made;
}

// A test that a scalar must pass. The value counts as zero if |value| <= factor * sqrt(a) sqrt(b); a and b are two
// squared norms, so that value has the dimension of a product of two norms. Without them only 0 counts as zero. All
// pointers are into the space of the context.
enum class Test : unsigned char { nonzero, positive };
template <class T>
struct Guard {
  const T* value;
  Test test;
  StopReason reason;
  const char* meaning;  // as text for messages: "p . A p"
  T factor = 0;
  const T* scale_a = nullptr;
  const T* scale_b = nullptr;
};

template <class T>
struct Signals {
  const T* residual_squared;  // of ||r||, or of ||W r||; in the context's space
  std::span<const Guard<T>> guards;
  bool cycle_ended = false;  // the basis is full: finish() and begin() must follow
  bool resumable = true;     // step() may follow finish() without begin()
};

// For one solve at a time, of systems with the layout it was made for. Only the constructor allocates.
template <class T>
class Method {
 public:
  Method() = default;
  Method(const Method&) = delete;
  Method& operator=(const Method&) = delete;
  virtual ~Method() = default;

  // A vector that the method does not use between two calls. The driver computes b - A x in it.
  virtual VectorView<T> scratch() noexcept = 0;
  // Two vectors other than scratch() that the driver may overwrite once no step follows.
  virtual std::array<VectorView<T>, 2> spare() noexcept = 0;
  // Starts from r = b - A x. r may be scratch().
  virtual void begin(const System<T>& system, VectorView<const T> r) = 0;
  // The scalars of signals() are final before the last operation that step() queues.
  virtual void step(const System<T>& system) = 0;
  // Whether renew() may be called between two steps.
  virtual bool renews() const noexcept { return false; }
  // r replaces the residual of the recurrence, which has other rounding errors. The method goes on in its direction: no
  // step is lost, as it would be by begin(). r may be scratch().
  virtual void renew(const System<T>&, VectorView<const T>) {}
  // The vectors of n entries that the method keeps from one call to the next: all that begin(), step() and finish()
  // will read before they write it. They are permuted when the order of the rows changes between two steps. ahead:
  // the device may have computed more steps than phase() says. Then the list has the vectors of all phases, and some
  // of them may hold nothing of use. An operator that computes after the stop, too, writes to no vector of this list
  // (System).
  virtual std::vector<VectorView<T>> kept_vectors(bool ahead) = 0;
  // Called after the kept vectors were permuted.
  virtual void order_changed() noexcept {}
  // Makes x the current iterate.
  virtual void finish(const System<T>&) {}

  // For steps that are recorded once and replayed: step() queues the same work whenever phase() is the same.
  // phase() is 0 after begin() and grows by 1 with each step. At period() it is 0 again, or, if cycles_end(), begin()
  // must follow.
  virtual std::int64_t period() const noexcept = 0;
  virtual bool cycles_end() const noexcept { return false; }
  virtual std::int64_t phase() const noexcept = 0;
  // Called after steps were replayed: sets the members that step() would have set on the host.
  virtual void set_phase(std::int64_t phase) noexcept = 0;
  // True if only Coefficients of vector operations and the judge read the scalars that step() computes, and if the
  // scalars of signals() are final before cg_direction or bicgstab_direction of the step. Then a device may finish a
  // scalar in the operation that reads it, and that operation contains the judge.
  virtual bool scalars_in_coefficients(const System<T>&) const noexcept { return false; }
  // After begin() and after each step().
  virtual Signals<T> signals() const noexcept = 0;
  // The residual of the recurrence after begin() and after each step(), until finish(). It is needed if it is measured
  // with weights; otherwise a method need not have it.
  virtual VectorView<const T> residual() noexcept = 0;
  // v, or W v in another vector if residuals are measured with weights: the vector whose 2-norm counts.
  virtual VectorView<T> measured(const System<T>& system, VectorView<T> v) = 0;
};

// Whether the options ask for weights.
inline bool weighs_residuals(const SolverOptions& options) { return options.residual_norm == "diagonal"; }

// Ability of a method whose step is a step of conjugate gradients, with M^-1 the identity or a diagonal. scalars holds
// {p . A p, r . r, r . z, r . r, r . z}: one pair for even and one for odd steps, of which number phase() is the
// present one. Between two steps x, r and p = z + beta p are the results of the last step.
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

template <class T, class M>
class SolverOf final : public Solver<T> {
 public:
  explicit SolverOf(const SolverOptions& options) : Solver<T>(options) {}
  std::string_view name() const noexcept override { return M::id; }
  bool needs_symmetric_preconditioner() const noexcept override { return M::symmetric_preconditioner; }

 private:
  std::unique_ptr<Method<T>> make_method(const WorkspaceLayout& layout) const override {
    return std::make_unique<M>(this->options(), layout);
  }
};

template <class T, class M>
std::unique_ptr<Solver<T>> make_solver_of(const SolverOptions& options) {
  return std::make_unique<SolverOf<T, M>>(options);
}

}  // namespace protean::detail
