// BiCGStab(2) with right preconditioning: Sleijpen and Fokkema, Electron. Trans. Numer. Anal. 1 (1993) 11
// (BiCGStab(l)), for l = 2, with the two coefficients of its polynomial by elimination, applied to K = A M^-1. Any
// nonsingular A. Two steps of BiCG, then the smallest residual over a polynomial of degree 2 in K. Its roots may be
// complex, so it does not stagnate where the eigenvalues of A are nearly imaginary, as BiCGStab does, whose polynomials
// have degree 1.
//
//   u := r - beta u, v := K u, alpha_1 = rho / r0.v;           r := r - alpha_1 v, s := K r;    x := x + alpha_1 u
//   beta_1 = alpha_1 rho_1 / rho, rho_1 = r0.s;                v := s - beta_1 v, w := K v, alpha_2 = rho_1 / r0.w
//   u := r - beta_1 u;    r := r - alpha_2 v, s := s - alpha_2 w, t := K s;    x := x + alpha_2 u
//   omega_1, omega_2: the smallest ||r - omega_1 s - omega_2 t||;    x := x + omega_1 r + omega_2 s
//   r := r - omega_1 s - omega_2 t, u := u - omega_1 v - omega_2 w
//   rho := r0.r, beta = -alpha_2 rho / (omega_2 rho_1)
//
// An iteration is all of it: 4 products. With M the sum of the corrections y is kept, and x := x + M^-1 y at the end,
// as in GMRES. Vectors of n that an iteration reads + writes, without the matrix: 43 + 14 without M, with M 4 + 4 more
// (and M four times where it is no diagonal).
#include "solvers/method.hpp"
#include "solvers/methods.hpp"
#include "solvers/scalar_work.hpp"

namespace protean::detail {
namespace {

template <class T>
class BiCgStab2 final : public Method<T> {
 public:
  static constexpr std::string_view id = "bicgstab2";
  static constexpr bool symmetric_preconditioner = false;
  BiCgStab2(const SolverOptions&, const WorkspaceLayout& layout) : numbers_(layout.context, Count) {
    const ContextPtr& context = layout.context;
    for (Vector<T>* v : {&r_, &r0_, &u_, &v_, &w_, &s_, &t_}) *v = make_vector<T>(context, layout.n);
    if (layout.preconditioning != WorkspaceLayout::Preconditioning::none)
      for (Vector<T>* v : {&y_, &z_}) *v = make_vector<T>(context, layout.n);
    fill<T>(*context, T(0), numbers_);
  }
  VectorView<T> scratch() noexcept override { return t_; }
  std::array<VectorView<T>, 2> spare() noexcept override { return {v_.view(), w_.view()}; }

  std::vector<VectorView<T>> kept_vectors(bool) override {
    std::vector<VectorView<T>> kept{r_.view(), r0_.view(), u_.view()};
    if (y_.size() > 0) kept.push_back(y_.view());
    return kept;
  }

  void begin(const System<T>& s, VectorView<const T> r) override {
    const Context& context = s.context();
    copy<T>(context, r, r_);
    copy<T>(context, r, r0_);
    fill<T>(context, T(0), u_), fill<T>(context, T(0), numbers_);
    if (s.M) fill<T>(context, T(0), y_);
    // r . r and rho = r0 . r
    dot_pair<T>(context, r_, r_, r0_, at(RR));
    set_scalar<T>(context, at(R0R0), {1, at(RR)});
    guard_count_ = 0;
  }

  void step(const System<T>& s) override {
    const Context& context = s.context();
    const VectorView<T> x = s.M ? y_.view() : s.x;
    // The first step of BiCG.
    axpby<T>(context, T(1), r_, {-1, at(Beta)}, u_);
    product(s, u_, v_);
    dot<T>(context, r0_, v_, at(R0V));
    set_scalar<T>(context, at(Alpha), {1, at(Rho), at(R0V), Demand::nonzero});
    axpy<T>(context, {-1, at(Alpha)}, v_, r_);
    axpy<T>(context, {1, at(Alpha)}, u_, x);
    product(s, r_, s_);
    // The second one.
    dot<T>(context, r0_, s_, at(Rho1));
    set_scalar<T>(context, at(Beta), {1, at(Rho1), at(R0V), Demand::nonzero});
    axpby<T>(context, T(1), s_, {-1, at(Beta)}, v_);
    product(s, v_, w_);
    dot<T>(context, r0_, w_, at(R0W));
    set_scalar<T>(context, at(Alpha), {1, at(Rho1), at(R0W), Demand::nonzero});
    axpby<T>(context, T(1), r_, {-1, at(Beta)}, u_);
    axpy_dot<T>(context, {-1, at(Alpha)}, v_, r_, at(HalfRR));
    axpy<T>(context, {-1, at(Alpha)}, w_, s_);
    product(s, s_, t_);
    minimise(context);
    // x, r, and r . r, rho = r0 . r
    axpy<T>(context, {1, at(Omega1)}, r_, x);
    axpy<T>(context, {-1, at(Omega1)}, s_, r_);
    bicgstab_update<T>(context, {1, at(Alpha)}, u_, {1, at(Omega2)}, s_, t_, r0_, x, r_, at(RR));
    // beta = -alpha_2 rho / (omega_2 rho_1) = -(rho / r0.w) / omega_2
    set_scalar<T>(context, at(Beta), {-1, at(Rho), at(R0W), Demand::nonzero},
                  {1, nullptr, at(Omega2), Demand::nonzero});
    axpy<T>(context, {-1, at(Omega1)}, v_, u_);
    axpy<T>(context, {-1, at(Omega2)}, w_, u_);
    guard_step();
  }

  void finish(const System<T>& s) override {
    if (!s.M) return;
    // x := x + M^-1 y
    s.precondition(y_, z_);
    axpy<T>(s.context(), T(1), z_, s.x);
    fill<T>(s.context(), T(0), y_);
  }

  std::int64_t period() const noexcept override { return 1; }
  std::int64_t phase() const noexcept override { return 0; }
  void set_phase(std::int64_t) noexcept override { guard_step(); }

  Signals<T> signals() const noexcept override {
    return {.residual_squared = numbers_.data() + RR, .guards = {guards_, guard_count_}};
  }
  VectorView<const T> residual() noexcept override { return r_; }

 private:
  enum Place {
    RR,
    Rho,
    R0R0,
    R0V,
    Rho1,
    R0W,
    HalfRR,
    Alpha,
    Beta,
    Omega1,
    Omega2,
    SR,
    SS,
    TR,
    TS,
    TT,
    Pivot,
    Numerator,
    Gate,
    Count
  };
  T* at(Place place) noexcept { return numbers_.data() + place; }

  void product(const System<T>& s, VectorView<const T> v, VectorView<T> kv) {
    if (s.M) s.precondition(v, z_);
    s.product(s.M ? VectorView<const T>(z_.view()) : v, kv);
  }

  // The normal equations [s.s s.t; s.t t.t] (omega_1, omega_2) = (s.r, t.r) by elimination. Where s and t are parallel
  // up to rounding, omega_2 = 0 and s alone is used.
  void minimise(const Context& context) {
    dot_pair<T>(context, s_, r_, s_, at(SR));
    dot_pair<T>(context, t_, r_, s_, at(TR));
    dot<T>(context, t_, t_, at(TT));
    // pivot = t.t - (s.t / s.s) s.t, numerator = t.r - (s.t / s.s) s.r
    const Coefficient<T> ratio{-1, at(TS), at(SS), Demand::positive};
    set_scalar<T>(context, at(Pivot), {1, at(TT)});
    add_scalar<T>(context, at(Pivot), ratio, at(TS));
    set_scalar<T>(context, at(Numerator), {1, at(TR)});
    add_scalar<T>(context, at(Numerator), ratio, at(SR));
    // Zero where the pivot is not above its rounding.
    set_scalar<T>(context, at(Omega2), {1, at(Pivot)});
    add_scalar<T>(context, at(Omega2), -8 * std::numeric_limits<T>::epsilon(), at(TT));
    is_positive<T>(context, at(Gate), at(Omega2));
    set_scalar<T>(context, at(Numerator), {1, at(Numerator)}, {1, at(Gate)});
    set_scalar<T>(context, at(Omega2), {1, at(Numerator), at(Pivot), Demand::positive});
    // omega_1 = (s.r - s.t omega_2) / s.s
    set_scalar<T>(context, at(Omega1), {1, at(SR), at(SS), Demand::positive});
    add_scalar<T>(context, at(Omega1), ratio, at(Omega2));
  }

  // The divisors of this step and the next; the last two count as zero when the vectors of the dot product are
  // orthogonal up to rounding. omega_2 = 0 also where s and t are parallel.
  void guard_step() noexcept {
    constexpr T eps = std::numeric_limits<T>::epsilon();
    constexpr StopReason bad = StopReason::breakdown;
    guards_[0] = {at(R0V), Test::nonzero, bad, "r0 . A M^-1 u"};
    guards_[1] = {at(R0W), Test::nonzero, bad, "r0 . A M^-1 v"};
    guards_[2] = {at(Numerator), Test::nonzero, bad, "omega_2 = 0: t . r", eps, at(TT), at(HalfRR)};
    guards_[3] = {at(Rho), Test::nonzero, bad, "rho = r0 . r", eps, at(R0R0), at(RR)};
    guard_count_ = 4;
  }

  Vector<T> r_, r0_, u_, v_, w_, s_, t_, y_, z_, numbers_;
  Guard<T> guards_[4];
  std::size_t guard_count_ = 0;
};

}  // namespace

constinit const SolverEntry bicgstab2{
    BiCgStab2<double>::id,
    "BiCGStab(2), for any matrix, also where its eigenvalues are nearly imaginary; short recurrences",
    "Sleijpen and Fokkema, Electron. Trans. Numer. Anal. 1 (1993) 11",
    make_solver_of<double, BiCgStab2>,
    make_solver_of<float, BiCgStab2>,
    4};

}  // namespace protean::detail
