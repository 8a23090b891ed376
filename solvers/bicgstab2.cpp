// BiCGStab(2) with right preconditioning: Sleijpen and Fokkema, Electron. Trans. Numer. Anal. 1 (1993) 11
// (BiCGStab(l)), for l = 2, with the two coefficients of its polynomial by elimination, applied to K = A M^-1. Any
// nonsingular A. Two steps of BiCG, then the smallest residual over a polynomial of degree 2 in K. Its roots may be
// complex, so it does not stagnate if the eigenvalues of A are nearly imaginary, unlike BiCGStab, whose polynomials
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
// (and M four times if it is not a diagonal).
#include "solvers/forms.hpp"
#include "solvers/methods.hpp"

namespace protean::detail {

template <class L>
class BiCgStab2 final : public StepsOf<L> {
  using Base = StepsOf<L>;
  using typename Base::T, typename Base::View, typename Base::Input, typename Base::System,
      typename Base::Start;

 public:
  static constexpr std::string_view id = "bicgstab2";
  static constexpr int products = 4;
  static constexpr bool finishes = true;
  enum Signal {
    SignalRR,
    SignalR0V,
    SignalR0W,
    SignalNumerator,
    SignalTT,
    SignalHalfRR,
    SignalRho,
    SignalR0R0,
    SignalCount
  };
  // The divisors of this step and the next; the last two count as zero when the vectors of the dot product are
  // orthogonal up to rounding. omega_2 is also 0 if s and t are parallel.
  static constexpr LaneGuard guards[] = {
      nonzero(SignalR0V, "r0 . A M^-1 u"), nonzero(SignalR0W, "r0 . A M^-1 v"),
      nonzero(SignalNumerator, "omega_2 = 0: t . r", SignalTT, SignalHalfRR),
      nonzero(SignalRho, "rho = r0 . r", SignalR0R0, SignalRR)};

  BiCgStab2(L& lanes, const SolverOptions&) : Base(lanes) {
    for (LaneVectors<T>* v : {&r_, &r0_, &u_, &v_, &w_, &s_, &t_}) lanes.add(*v);
    if (lanes.preconditioned())
      for (LaneVectors<T>* v : {&y_, &z_}) lanes.add(*v);
    lanes.add_numbers(Count);
  }
  View scratch() noexcept { return lanes_.vector(t_); }
  std::array<View, 2> spare() noexcept { return {lanes_.vector(v_), lanes_.vector(w_)}; }
  std::vector<View> kept(bool) {
    std::vector<View> kept{lanes_.vector(r_), lanes_.vector(r0_), lanes_.vector(u_)};
    if (lanes_.preconditioned()) kept.push_back(lanes_.vector(y_));
    return kept;
  }

  void begin(const System& s, const Start& start) {
    const View r = lanes_.vector(r_), r0 = lanes_.vector(r0_);
    lanes_.take(start, r);
    lanes_.take(start, r0);
    lanes_.zero(u_), lanes_.zero_numbers();
    if (s.M) lanes_.zero(y_);
    // r . r and rho = r0 . r
    lanes_.dot_pair(r, r, r0, at(RR));
    lanes_.set(at(R0R0), {1, at(RR)});
  }

  void step(const System& system) {
    const View x = system.M ? lanes_.vector(y_) : lanes_.x(system), r = lanes_.vector(r_),
               r0 = lanes_.vector(r0_), u = lanes_.vector(u_), v = lanes_.vector(v_), w = lanes_.vector(w_),
               s = lanes_.vector(s_), t = lanes_.vector(t_);
    // The first step of BiCG.
    lanes_.axpby(T(1), r, {-1, at(Beta)}, u);
    product(system, u, v);
    lanes_.dot(r0, v, at(R0V));
    lanes_.set(at(Alpha), {1, at(Rho), at(R0V), Demand::nonzero});
    lanes_.axpy({-1, at(Alpha)}, v, r);
    lanes_.axpy({1, at(Alpha)}, u, x);
    product(system, r, s);
    // The second one.
    lanes_.dot(r0, s, at(Rho1));
    lanes_.set(at(Beta), {1, at(Rho1), at(R0V), Demand::nonzero});
    lanes_.axpby(T(1), s, {-1, at(Beta)}, v);
    product(system, v, w);
    lanes_.dot(r0, w, at(R0W));
    lanes_.set(at(Alpha), {1, at(Rho1), at(R0W), Demand::nonzero});
    lanes_.axpby(T(1), r, {-1, at(Beta)}, u);
    lanes_.axpy_dot({-1, at(Alpha)}, v, r, at(HalfRR));
    lanes_.axpy({-1, at(Alpha)}, w, s);
    product(system, s, t);
    minimise(r, s, t);
    // x, r, and r . r, rho = r0 . r
    lanes_.axpy({1, at(Omega1)}, r, x);
    lanes_.axpy({-1, at(Omega1)}, s, r);
    lanes_.bicgstab_update({1, at(Alpha)}, u, {1, at(Omega2)}, s, t, r0, x, r, at(RR));
    // beta = -alpha_2 rho / (omega_2 rho_1) = -(rho / r0.w) / omega_2
    lanes_.set(at(Beta), {-1, at(Rho), at(R0W), Demand::nonzero}, {1, nullptr, at(Omega2), Demand::nonzero});
    lanes_.axpy({-1, at(Omega1)}, v, u);
    lanes_.axpy({-1, at(Omega2)}, w, u);
  }

  void finish(const System& s, std::int64_t) {
    if (!s.M) return;
    // x := x + M^-1 y
    lanes_.precondition(s, lanes_.vector(y_), lanes_.vector(z_));
    lanes_.axpy(T(1), lanes_.vector(z_), lanes_.x(s));
    lanes_.zero(y_);
  }

  T* signal(int number, bool) noexcept {
    constexpr Place places[] = {RR, R0V, R0W, Numerator, TT, HalfRR, Rho, R0R0};
    return at(places[number]);
  }
  std::span<const LaneGuard> tested(bool first) const noexcept {
    return first ? std::span<const LaneGuard>() : guards;
  }
  Input residual() noexcept { return lanes_.vector(r_); }

 private:
  using Base::at, Base::lanes_;
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

  void product(const System& s, Input v, View kv) {
    if (s.M) lanes_.precondition(s, v, lanes_.vector(z_));
    lanes_.product(s, s.M ? Input(lanes_.vector(z_)) : v, kv);
  }

  // The normal equations [s.s s.t; s.t t.t] (omega_1, omega_2) = (s.r, t.r) by elimination. If s and t are parallel up
  // to rounding, omega_2 = 0 and s alone is used.
  void minimise(Input r, Input s, Input t) {
    lanes_.dot_pair(s, r, s, at(SR));
    lanes_.dot_pair(t, r, s, at(TR));
    lanes_.dot(t, t, at(TT));
    // pivot = t.t - (s.t / s.s) s.t, numerator = t.r - (s.t / s.s) s.r
    const Coefficient<T> ratio{-1, at(TS), at(SS), Demand::positive};
    lanes_.set(at(Pivot), {1, at(TT)});
    lanes_.add(at(Pivot), ratio, at(TS));
    lanes_.set(at(Numerator), {1, at(TR)});
    lanes_.add(at(Numerator), ratio, at(SR));
    // Zero if the pivot is not above its rounding.
    lanes_.set(at(Omega2), {1, at(Pivot)});
    lanes_.add(at(Omega2), -8 * std::numeric_limits<T>::epsilon(), at(TT));
    lanes_.is_positive(at(Gate), at(Omega2));
    lanes_.set(at(Numerator), {1, at(Numerator)}, {1, at(Gate)});
    lanes_.set(at(Omega2), {1, at(Numerator), at(Pivot), Demand::positive});
    // omega_1 = (s.r - s.t omega_2) / s.s
    lanes_.set(at(Omega1), {1, at(SR), at(SS), Demand::positive});
    lanes_.add(at(Omega1), ratio, at(Omega2));
  }

  LaneVectors<T> r_, r0_, u_, v_, w_, s_, t_, y_, z_;
};

constinit const SolverEntry bicgstab2 = solver_entry<BiCgStab2>(
    "BiCGStab(2), for any matrix, even if its eigenvalues are nearly imaginary; short recurrences",
    "Sleijpen and Fokkema, Electron. Trans. Numer. Anal. 1 (1993) 11");
constinit const MultiMethodEntry bicgstab2_of_columns = columns_entry<BiCgStab2>();

}  // namespace protean::detail
