// BiCGStab with right preconditioning: van der Vorst, SIAM J. Sci. Stat. Comput. 13 (1992) 631; Saad,
// Iterative Methods for Sparse Linear Systems, 2nd ed., SIAM 2003, algorithm 7.7 applied to A M^-1. Any
// nonsingular A. An iteration has two products. r and s of the algorithm share one vector.
//
// Memory traffic of one iteration in vectors of n, read + written; the matrix of both products comes on top:
//
//   operation                              no M      diagonal M   general M
//   v := A p'; r0 . v                      3 + 1     3 + 1        3 + 1
//   s := r - alpha v, s.s, s' := M^-1 s    2 + 1     3 + 2        3 + 2 (+ M)
//   t := A s'; t . s, t . t                3 + 1     3 + 1        3 + 1
//   x, r, r.r, r0.r                        5 + 2     6 + 2        6 + 2
//   p := r + beta (p - omega v), p'        3 + 1     4 + 2        4 + 2 (+ M)
//   sum                                    22        27           27 and M twice
#include "solvers/method.hpp"
#include "solvers/methods.hpp"

namespace protean::detail {
namespace {

template <class T>
class BiCgStab final : public Method<T> {
 public:
  static constexpr std::string_view id = "bicgstab";
  static constexpr bool symmetric_preconditioner = false;
  BiCgStab(const SolverOptions&, const WorkspaceLayout& layout)
      : scalars_(make_vector<T>(layout.context, Count)) {
    for (Vector<T>* v : {&r_, &r0_, &p_, &v_, &t_}) *v = make_vector<T>(layout.context, layout.n);
    if (layout.preconditioning != WorkspaceLayout::Preconditioning::none)
      for (Vector<T>* v : {&mp_, &ms_}) *v = make_vector<T>(layout.context, layout.n);
  }
  VectorView<T> scratch() noexcept override { return t_; }
  std::array<VectorView<T>, 2> spare() noexcept override { return {r_.view(), p_.view()}; }

  // v, t and s' are computed anew in each step; p' is that of the step before.
  std::vector<VectorView<T>> kept_vectors(bool) override {
    std::vector<VectorView<T>> kept{r_.view(), r0_.view(), p_.view()};
    if (mp_.size() > 0) kept.push_back(mp_.view());
    return kept;
  }

  void begin(const System<T>& s, VectorView<const T> r) override {
    // r0 := p := r := b - A x;  r . r and rho = r0 . r
    copy<T>(s.context(), r, r_);
    copy<T>(s.context(), r, r0_);
    copy<T>(s.context(), r, p_);
    dot_pair<T>(s.context(), r_, r_, r0_, at(RR));
    copy<T>(s.context(), scalar(RR), scalar(R0R0));
    // p' := M^-1 p
    if (s.M) s.precondition(p_, mp_);
    guard_count_ = 0;
  }

  void step(const System<T>& s) override {
    const bool general = s.general_preconditioner();
    const VectorView<T> p = s.M ? mp_.view() : p_.view(), z = s.M ? ms_.view() : r_.view();
    // v := A p';  alpha = rho / (r0 . v)
    s.product(p, v_);
    dot<T>(s.context(), r0_, v_, at(R0V));
    scalar_product<T>(s.context(), {1, at(Rho), at(R0V), Demand::nonzero}, T(1), at(Alpha));
    // s := r - alpha v, s . s;  s' := M^-1 s
    bicgstab_half<T>(s.context(), {-1, at(Alpha)}, v_, s.d, r_, z, at(SS));
    if (general) s.precondition(r_, z);
    // t := A s';  omega = t . s / t . t
    s.product(z, t_);
    dot_pair<T>(s.context(), t_, r_, t_, at(TS));
    const Coefficient<T> omega{1, at(TS), at(TT), Demand::positive};
    // x := x + alpha p' + omega s';  r := s - omega t;  r . r, rho = r0 . r
    bicgstab_update<T>(s.context(), {1, at(Alpha)}, p, omega, z, t_, r0_, s.x, r_, at(RR));
    // beta = (rho / rho_old) (alpha / omega) = (rho / r0.v) (t.t / t.s)
    scalar_product<T>(s.context(), {1, at(Rho), at(R0V), Demand::nonzero},
                      {1, at(TT), at(TS), Demand::nonzero}, at(Beta));
    // p := r + beta (p - omega v);  p' := M^-1 p
    bicgstab_direction<T>(s.context(), r_, {1, at(Beta)}, omega, v_, s.d, p_, mp_);
    if (general) s.precondition(p_, mp_);
    guard_step();
  }

  std::int64_t period() const noexcept override { return 1; }
  std::int64_t phase() const noexcept override { return 0; }
  void set_phase(std::int64_t) noexcept override { guard_step(); }

  // A general preconditioner is the caller's operator, which may do anything.
  bool scalars_in_coefficients(const System<T>& s) const noexcept override {
    return !s.general_preconditioner();
  }

  Signals<T> signals() const noexcept override {
    return {.residual_squared = scalars_.data() + RR, .guards = {guards_, guard_count_}};
  }
  VectorView<const T> residual() noexcept override { return r_; }

 private:
  enum Place { RR, Rho, R0R0, R0V, SS, TS, TT, Alpha, Beta, Count };
  T* at(Place place) noexcept { return scalars_.data() + place; }
  VectorView<T> scalar(Place place) noexcept { return {at(place), 1, scalars_.space()}; }

  // The divisors of this step and the next. omega and rho count as zero when the two vectors of the dot
  // product are orthogonal up to rounding.
  void guard_step() noexcept {
    constexpr T eps = std::numeric_limits<T>::epsilon();
    constexpr StopReason bad = StopReason::breakdown;
    guards_[0] = {at(R0V), Test::nonzero, bad, "r0 . A M^-1 p"};
    guards_[1] = {at(TS), Test::nonzero, bad, "omega = 0: t . s", eps, at(TT), at(SS)};
    guards_[2] = {at(Rho), Test::nonzero, bad, "rho = r0 . r", eps, at(R0R0), at(RR)};
    guard_count_ = 3;
  }

  Vector<T> r_, r0_, p_, v_, t_, mp_, ms_, scalars_;
  Guard<T> guards_[3];
  std::size_t guard_count_ = 0;
};

}  // namespace

constinit const SolverEntry bicgstab{
    BiCgStab<double>::id,
    "Stabilised biconjugate gradients, for any matrix; short recurrences",
    "van der Vorst, SIAM J. Sci. Stat. Comput. 13 (1992) 631; Saad 2003, algorithm 7.7",
    make_solver_of<double, BiCgStab>,
    make_solver_of<float, BiCgStab>,
    2};

}  // namespace protean::detail
