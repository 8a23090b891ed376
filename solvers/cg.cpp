// Preconditioned conjugate gradients: Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., SIAM 2003,
// algorithm 9.1 (algorithm 6.18 without preconditioner). A and M symmetric positive definite.
//
// Memory traffic of one iteration in vectors of n, read + written; the matrix of the product comes on top:
//
//   operation                        no M      diagonal M   general M
//   q := A p with p . q              1 + 1     1 + 1        1 + 1
//   r, r.r, r.z                      2 + 1     3 + 1        2 + 1
//   z := M^-1 r, r . z               -         -            1 + 1 (+ M, + 2 where M cannot fuse the dot)
//   x, p := z + beta p               3 + 2     4 + 2        3 + 2
//   sum                              10        12           12 and more
#include "solvers/method.hpp"
#include "solvers/methods.hpp"

namespace protean::detail {
namespace {

template <class T>
class Cg final : public Method<T>, public HasCgState<T> {
 public:
  static constexpr std::string_view id = "cg";
  static constexpr bool symmetric_preconditioner = true;
  Cg(const SolverOptions&, const WorkspaceLayout& layout) : scalars_(make_vector<T>(layout.context, 5)) {
    for (Vector<T>* v : {&r_, &p_, &q_}) *v = make_vector<T>(layout.context, layout.n);
    if (layout.preconditioning == WorkspaceLayout::Preconditioning::general)
      z_ = make_vector<T>(layout.context, layout.n);
  }
  VectorView<T> scratch() noexcept override { return q_; }
  std::array<VectorView<T>, 2> spare() noexcept override { return {r_.view(), p_.view()}; }

  // q and z are computed anew in each step.
  std::vector<VectorView<T>> kept_vectors(bool) override { return {r_.view(), p_.view()}; }

  void begin(const System<T>& s, VectorView<const T> r) override {
    parity_ = 0;
    // r := b - A x
    copy<T>(s.context(), r, r_);
    // p := z = M^-1 r
    s.precondition(r_, p_);
    // r . r, r . z
    dot_pair<T>(s.context(), r_, r_, p_, now());
    guards_[0] = {&now()[1], Test::positive, StopReason::indefinite_preconditioner, "r . M^-1 r"};
    guard_count_ = 1;
  }

  void step(const System<T>& s) override {
    T* const pq = scalars_.data();
    const T* const rz = &now()[1];
    parity_ = 1 - parity_;
    T* const rz_next = &now()[1];
    // q := A p, p . q
    s.product_dot(p_, q_, pq);
    // alpha = r.z / p.q;  r := r - alpha q;  r . r, r . z
    const Coefficient<T> alpha{1, rz, pq, Demand::positive};
    cg_residual<T>(s.context(), alpha, q_, s.d, r_, now());
    // z := M^-1 r, r . z where M is no diagonal
    if (s.general_preconditioner()) s.precondition_dot(r_, z_, rz_next);
    // beta = r.z / old r.z;  x := x + alpha p;  p := z + beta p
    const Coefficient<T> beta{1, rz_next, rz, Demand::positive};
    cg_direction<T>(s.context(), alpha, s.d, s.general_preconditioner() ? z_ : r_, beta, s.x, p_);
    guard_step();
  }

  std::int64_t period() const noexcept override { return 2; }
  std::int64_t phase() const noexcept override { return parity_; }
  void set_phase(std::int64_t phase) noexcept override {
    parity_ = static_cast<int>(phase % 2);
    guard_step();
  }

  // A general preconditioner is the caller's operator, which may compute r . z in any way.
  bool scalars_in_coefficients(const System<T>& s) const noexcept override {
    return !s.general_preconditioner();
  }

  CgState<T> cg_state() noexcept override { return {r_.view(), p_.view(), scalars_.data()}; }

  Signals<T> signals() const noexcept override {
    return {.residual_squared = scalars_.data() + 1 + 2 * parity_, .guards = {guards_, guard_count_}};
  }
  VectorView<const T> residual() noexcept override { return r_; }

 private:
  // {r . r, r . z} of the present step. The pairs of even and odd steps lie in two places, since alpha and
  // beta need r . z of the step before.
  T* now() noexcept { return scalars_.data() + 1 + 2 * parity_; }

  void guard_step() noexcept {
    guards_[0] = {scalars_.data(), Test::positive, StopReason::indefinite_operator, "p . A p"};
    guards_[1] = {&now()[1], Test::positive, StopReason::indefinite_preconditioner, "r . M^-1 r"};
    guard_count_ = 2;
  }

  Vector<T> r_, p_, q_, z_, scalars_;
  int parity_ = 0;
  Guard<T> guards_[2];
  std::size_t guard_count_ = 0;
};

}  // namespace

constinit const SolverEntry cg{Cg<double>::id,
                               "Conjugate gradients, for symmetric positive definite matrices",
                               "Hestenes and Stiefel, J. Res. NBS 49 (1952) 409; Saad 2003, algorithm 9.1",
                               make_solver_of<double, Cg>,
                               make_solver_of<float, Cg>,
                               1,
                               true};

}  // namespace protean::detail
