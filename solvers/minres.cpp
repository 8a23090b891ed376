// MINRES: Paige and Saunders, SIAM J. Numer. Anal. 12 (1975) 617, doi:10.1137/0712047. A symmetric, of any
// definiteness; M symmetric positive definite. Among all x of x0 + span{z, M^-1 A z, (M^-1 A)^2 z ...}, z = M^-1 (b - A
// x0), it has the smallest norm of the residual, ||r||_{M^-1} = sqrt(r . M^-1 r); without M that is the 2-norm.
//
// Lanczos with M (Elman, Silvester and Wathen, Finite Elements and Fast Iterative Solvers, Oxford 2005, chapter 6):
//
//   A z_k = beta_k+1 q_k+1 + alpha_k q_k + beta_k q_k-1,  z_k = M^-1 q_k,  q_i . z_j = 0 for i != j and 1 for i = j
//
// The tridiagonal matrix of these numbers is made triangular by the Givens rotations of GMRES (gmres_scalars.hpp), of
// which a column needs the last two only: a basis of four vectors, whose last column is computed in each step. With the
// entries h0, h1, h2 of R in that column, d_k = (z_k - h1 d_k-1 - h0 d_k-2) / h2 and x := x + g_k d_k.
//
// The norm ||r||_{M^-1} is no 2-norm, by which a solve is stopped. With M, and where residuals are measured with
// weights (SolverOptions::residual_norm), the residual itself is carried along:
// r_k = s_k^2 r_k-1 + (g_k+1 c_k) q_k+1, from the last row of the product of rotations.
//
// Singular A, and b partly in its null space: r_k tends to that part, and x_k to a solution of least squares,
// A M^-1 r_k = 0. Later steps would add ever larger multiples of the null vector to x. Let gamma_k be the last entry of
// column k before its own rotation. In the norms of M^-1/2 A M^-1/2:
//
//   ||A r_k-1||^2 = ||r_k-1||^2 (gamma_k^2 + c_k-1^2 beta_k+1^2),  r_k-1 . A r_k-1 = +-||r_k-1||^2 c_k-1 gamma_k
//
// (Choi, Paige and Saunders, SIAM J. Sci. Comput. 33 (2011) 1810, doi:10.1137/100787921; Liu and Roosta,
// arXiv:2206.05732, for the second). So both are known before step k changes x, without a product. Where
//
//   ||A r|| <= sqrt(100 eps) ||A|| ||r||,  |r . A r| <= 1000 eps ||A|| ||r||^2
//
// (single precision: 1.6 and 16), r belongs to the eigenvalue 0 as far as this precision tells. Then the step is
// dropped, and the solve ends as inconsistent. The first test alone holds of nonsingular matrices of condition 1e7,
// too, and cannot be stricter: rounding makes ||A r|| grow again long before it is near eps. ||A|| is the largest norm
// of a column of the tridiagonal matrix since begin(). So nothing is found in the first step where A r is rounding
// alone.
//
// Memory traffic of one iteration in vectors of n, read + written; the matrix of the product comes on top:
//
//   operation                                      no M      diagonal M   general M
//   q_k+1 := A z_k - beta q_k-1; z_k . q_k+1       4 + 2     4 + 2        4 + 2
//   q_k+1 := q_k+1 - alpha q_k                     2 + 1     2 + 1        2 + 1
//   z_k+1 := M^-1 q_k+1; q_k+1 . z_k+1             -         4 + 1        1 + 1 (+ M, + 2 where M cannot fuse the dot)
//   d_k                                            4 + 2     4 + 2        4 + 2
//   r, r . r                                       -         3 + 1        3 + 1
//   q_k+1, z_k+1 divided by beta; x                3 + 2     4 + 3        4 + 3
//   sum                                            20        31           28 and more
#include "solvers/gmres_scalars.hpp"
#include "solvers/method.hpp"
#include "solvers/methods.hpp"
#include "solvers/scalar_work.hpp"

namespace protean::detail {
namespace {

template <class T>
class MinRes final : public Method<T> {
 public:
  static constexpr std::string_view id = "minres";
  static constexpr bool symmetric_preconditioner = true;
  MinRes(const SolverOptions& options, const WorkspaceLayout& layout)
      : preconditioned_(layout.preconditioning != WorkspaceLayout::Preconditioning::none),
        carries_residual_(preconditioned_ || weighs_residuals(options)) {
    const ContextPtr& context = layout.context;
    for (Vector<T>* v : {&q_[0], &q_[1], &d_[0], &d_[1], &scratch_}) *v = make_vector<T>(context, layout.n);
    if (preconditioned_)
      for (Vector<T>* v : {&z_[0], &z_[1]}) *v = make_vector<T>(context, layout.n);
    if (carries_residual_) r_ = make_vector<T>(context, layout.n);
    numbers_ = Vector<T>(context, GmresScalars<T>::size(window) + Count);
    fill<T>(*context, T(0), numbers_);
    rotations_.data = numbers_.data(), rotations_.m = window, rotations_.null_test = at(Largest);
  }
  VectorView<T> scratch() noexcept override { return scratch_; }
  std::array<VectorView<T>, 2> spare() noexcept override { return {q_[0].view(), q_[1].view()}; }

  std::vector<VectorView<T>> kept_vectors(bool ahead) override {
    std::vector<VectorView<T>> kept{q_[0].view(), q_[1].view(), d_[0].view(), d_[1].view()};
    if (preconditioned_) {
      kept.push_back(z_[parity_].view());
      if (ahead) kept.push_back(z_[1 - parity_].view());
    }
    if (carries_residual_) kept.push_back(r_.view());
    return kept;
  }

  void begin(const System<T>& s, VectorView<const T> r) override {
    const Context& context = s.context();
    parity_ = 0;
    // q_1 := r / beta_1, z_1 := M^-1 q_1, with beta_1^2 = r . M^-1 r
    copy<T>(context, r, q_[0]);
    if (carries_residual_) copy<T>(context, r, r_);
    if (preconditioned_) {
      s.precondition(q_[0], z_[0]);
      dot_pair<T>(context, r_, r_, z_[0], at(RR));
    } else {
      dot<T>(context, q_[0], q_[0], at(RZ));
    }
    fill<T>(context, T(0), q_[1]);
    fill<T>(context, T(0), d_[0]), fill<T>(context, T(0), d_[1]);
    square_of_beta(context);
    gmres_begin<T>(context, rotations_);
    // No column before this one: rotations by 0, beta 0.
    for (int k : {0, 1}) {
      set_scalar<T>(context, rotations_.cosines() + k, T(1));
      set_scalar<T>(context, rotations_.sines() + k, T(0));
    }
    set_scalar<T>(context, rotations_.g() + last, {1, rotations_.g()});
    set_scalar<T>(context, at(Beta), T(0));
    normalise(context, 0);
    guards_[0] = {at(RZ), Test::positive, StopReason::indefinite_preconditioner, "r . M^-1 r"};
    guard_count_ = preconditioned_ ? 1 : 0;
  }

  void step(const System<T>& s) override {
    const Context& context = s.context();
    const int now = parity_, next = 1 - parity_;
    parity_ = next;
    T* const h = rotations_.column(last);
    const VectorView<T> z = preconditioned_ ? z_[now].view() : q_[now].view();
    // q_k+1 := A z_k - beta_k q_k-1, alpha_k = z_k . q_k+1, q_k+1 := q_k+1 - alpha_k q_k
    scale<T>(context, {1, at(Beta)}, q_[next]);
    s.product(T(1), z, T(-1), q_[next]);
    set_scalar<T>(context, h, T(0));
    set_scalar<T>(context, h + 1, {1, at(Beta)});
    dot<T>(context, z, q_[next], h + 2);
    axpy_dot<T>(context, {-1, h + 2}, q_[now], q_[next], at(RZ));
    // z_k+1 := M^-1 q_k+1, beta_k+1^2 = q_k+1 . z_k+1
    if (s.general_preconditioner()) {
      s.precondition_dot(q_[next], z_[next], at(RZ));
    } else if (preconditioned_) {
      s.precondition(q_[next], z_[next]);
      dot<T>(context, q_[next], z_[next], at(RZ));
    }
    square_of_beta(context);
    gmres_rotate<T>(context, rotations_, last, false);
    if (preconditioned_) {
      set_scalar<T>(context, at(Sign), std::numeric_limits<T>::min());
      add_scalar<T>(context, at(Sign), T(1), at(RZ));
      add_scalar<T>(context, at(Sign), rounding * rounding, rotations_.column_squared());
    }
    // d_k := (z_k - h1 d_k-1 - h0 d_k-2) / h2
    axpby<T>(context, {1, nullptr, h + 2, Demand::nonzero}, z, {-1, h, h + 2, Demand::nonzero}, d_[now]);
    axpy<T>(context, {-1, h + 1, h + 2, Demand::nonzero}, d_[next], d_[now]);
    if (carries_residual_) {
      // r := s_k^2 r + (g_k+1 c_k / beta_k+1) q_k+1, r . r
      const T *const c = rotations_.cosines() + last, *const sine = rotations_.sines() + last;
      set_scalar<T>(context, at(SS), {1, sine}, {1, sine});
      set_scalar<T>(context, at(GC), {1, rotations_.g() + last + 1}, {1, c});
      axpby<T>(context, {1, at(GC), rotations_.next(), Demand::nonzero}, q_[next], {1, at(SS)}, r_);
    }
    if (preconditioned_) dot<T>(context, r_, r_, at(RR));
    normalise(context, next);
    // The window moves on by one column.
    set_scalar<T>(context, at(Step), {1, rotations_.g() + last});
    set_scalar<T>(context, rotations_.g() + last, {1, rotations_.g() + last + 1});
    set_scalar<T>(context, at(Beta), {1, rotations_.next()});
    for (T* turn : {rotations_.cosines(), rotations_.sines()})
      for (int k : {0, 1}) set_scalar<T>(context, turn + k, {1, turn + k + 1});
    // x := x + g_k d_k
    axpy<T>(context, {1, at(Step)}, d_[now], s.x);
    guard_step();
  }

  std::int64_t period() const noexcept override { return 2; }
  std::int64_t phase() const noexcept override { return parity_; }
  void set_phase(std::int64_t phase) noexcept override {
    parity_ = static_cast<int>(phase % 2);
    guard_step();
  }

  Signals<T> signals() const noexcept override {
    return {.residual_squared = preconditioned_ ? numbers_.data() + GmresScalars<T>::size(window) + RR
                                                : rotations_.residual_squared(),
            .guards = {guards_, guard_count_}};
  }
  VectorView<const T> residual() noexcept override { return r_; }

 private:
  // Columns of the window of rotations, and the one that is computed.
  static constexpr std::int64_t window = 3, last = 2;
  enum Place { RR, RZ, Beta, Step, SS, GC, Gate, Sign, Largest, GoesOn, Count };
  // What counts as 0 beside the norm of a column.
  static constexpr T rounding = 16 * std::numeric_limits<T>::epsilon();
  T* at(Place place) noexcept { return numbers_.data() + GmresScalars<T>::size(window) + place; }

  // w_squared := |q . z|, so that no root of a negative number is taken. Not 0 where q . z is negative: r would become
  // 0, which ends a solve as if it had converged.
  void square_of_beta(const Context& context) {
    is_positive<T>(context, at(Gate), at(RZ));
    set_scalar<T>(context, rotations_.w_squared(), T(-1));
    add_scalar<T>(context, rotations_.w_squared(), T(2), at(Gate));
    set_scalar<T>(context, rotations_.w_squared(), {1, rotations_.w_squared()}, {1, at(RZ)});
  }
  void normalise(const Context& context, int which) {
    const Coefficient<T> by{1, nullptr, rotations_.next(), Demand::nonzero};
    scale<T>(context, by, q_[which]);
    if (preconditioned_) scale<T>(context, by, z_[which]);
  }

  // q . z, to which the step has added what counts as 0: negative where M is indefinite, not by rounding.
  void guard_step() noexcept {
    guard_count_ = 0;
    if (preconditioned_)
      guards_[guard_count_++] = {at(Sign), Test::positive, StopReason::indefinite_preconditioner,
                                 "r . M^-1 r"};
    guards_[guard_count_++] = {at(GoesOn), Test::nonzero, StopReason::inconsistent,
                               "b - A x is a null vector of A; further steps"};
    // No new direction, as in GMRES: the space holds the solution, or A is singular.
    guards_[guard_count_++] = {rotations_.w_squared(),     Test::nonzero,
                               StopReason::breakdown,      "beta(k+1)^2",
                               rounding * rounding,        rotations_.column_squared(),
                               rotations_.column_squared()};
  }

  const bool preconditioned_, carries_residual_;
  Vector<T> q_[2], z_[2], d_[2], r_, scratch_, numbers_;
  GmresScalars<T> rotations_;
  int parity_ = 0;
  Guard<T> guards_[3];
  std::size_t guard_count_ = 0;
};

}  // namespace

constinit const SolverEntry minres{MinRes<double>::id,
                                   "Minimal residuals, for symmetric matrices, also indefinite ones",
                                   "Paige and Saunders, SIAM J. Numer. Anal. 12 (1975) 617",
                                   make_solver_of<double, MinRes>,
                                   make_solver_of<float, MinRes>,
                                   1,
                                   true};

}  // namespace protean::detail
