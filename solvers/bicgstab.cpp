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
#include "solvers/forms.hpp"
#include "solvers/methods.hpp"

namespace protean::detail {

template <class L>
class BiCgStab final : public StepsOf<L> {
  using Base = StepsOf<L>;
  using typename Base::T, typename Base::View, typename Base::Input, typename Base::System,
      typename Base::Start;

 public:
  static constexpr std::string_view id = "bicgstab";
  static constexpr int products = 2;
  static constexpr bool scalars_in_coefficients = true;
  enum Signal { SignalRR, SignalRho, SignalR0R0, SignalR0V, SignalSS, SignalTS, SignalTT, SignalCount };
  // The divisors of this step and the next. omega and rho count as zero when the two vectors of the dot product are
  // orthogonal up to rounding.
  static constexpr LaneGuard guards[] = {nonzero(SignalR0V, "r0 . A M^-1 p"),
                                         nonzero(SignalTS, "omega = 0: t . s", SignalTT, SignalSS),
                                         nonzero(SignalRho, "rho = r0 . r", SignalR0R0, SignalRR)};

  BiCgStab(L& lanes, const SolverOptions&) : Base(lanes) {
    for (LaneVectors<T>* v : {&r_, &r0_, &p_, &v_, &t_}) lanes.add(*v);
    if (lanes.preconditioned())
      for (LaneVectors<T>* v : {&mp_, &ms_}) lanes.add(*v);
    lanes.add_numbers(Count);
  }
  View scratch() noexcept { return lanes_.vector(t_); }
  std::array<View, 2> spare() noexcept { return {lanes_.vector(r_), lanes_.vector(p_)}; }
  // Each step computes v, t and s' again; p' is kept from the step before.
  std::vector<View> kept(bool) {
    std::vector<View> kept{lanes_.vector(r_), lanes_.vector(r0_), lanes_.vector(p_)};
    if (lanes_.preconditioned()) kept.push_back(lanes_.vector(mp_));
    return kept;
  }

  void begin(const System& s, const Start& start) {
    const View r = lanes_.vector(r_), r0 = lanes_.vector(r0_), p = lanes_.vector(p_);
    // r0 := p := r := b - A x;  r . r and rho = r0 . r
    lanes_.take(start, r);
    lanes_.take(start, r0);
    lanes_.take(start, p);
    lanes_.dot_pair(r, r, r0, at(RR));
    lanes_.set(at(R0R0), {1, at(RR)});
    // p' := M^-1 p
    if (s.M) lanes_.precondition(s, p, lanes_.vector(mp_));
  }

  void step(const System& s) {
    const bool general = s.general_preconditioner();
    const View r = lanes_.vector(r_), r0 = lanes_.vector(r0_), v = lanes_.vector(v_), t = lanes_.vector(t_),
               mp = lanes_.vector(mp_), p = s.M ? mp : lanes_.vector(p_), z = s.M ? lanes_.vector(ms_) : r;
    // v := A p';  alpha = rho / (r0 . v)
    lanes_.product(s, p, v);
    lanes_.dot(r0, v, at(R0V));
    lanes_.set(at(Alpha), {1, at(Rho), at(R0V), Demand::nonzero});
    // s := r - alpha v, s . s;  s' := M^-1 s
    lanes_.bicgstab_half({-1, at(Alpha)}, v, s.d, r, z, at(SS));
    if (general) lanes_.precondition(s, r, z);
    // t := A s';  omega = t . s / t . t
    lanes_.product(s, z, t);
    lanes_.dot_pair(t, r, t, at(TS));
    const Coefficient<T> omega{1, at(TS), at(TT), Demand::positive};
    // x := x + alpha p' + omega s';  r := s - omega t;  r . r, rho = r0 . r
    lanes_.bicgstab_update({1, at(Alpha)}, p, omega, z, t, r0, lanes_.x(s), r, at(RR));
    // beta = (rho / rho_old) (alpha / omega) = (rho / r0.v) (t.t / t.s)
    lanes_.set(at(Beta), {1, at(Rho), at(R0V), Demand::nonzero}, {1, at(TT), at(TS), Demand::nonzero});
    // p := r + beta (p - omega v);  p' := M^-1 p
    lanes_.bicgstab_direction(r, {1, at(Beta)}, omega, v, s.d, lanes_.vector(p_), mp);
    if (general) lanes_.precondition(s, lanes_.vector(p_), mp);
  }

  T* signal(int number, bool) noexcept { return at(number); }
  std::span<const LaneGuard> tested(bool first) const noexcept {
    return first ? std::span<const LaneGuard>() : guards;
  }
  Input residual() noexcept { return lanes_.vector(r_); }

 private:
  using Base::at, Base::lanes_;
  // As Signal, and two more.
  enum Place { RR, Rho, R0R0, R0V, SS, TS, TT, Alpha, Beta, Count };

  LaneVectors<T> r_, r0_, p_, v_, t_, mp_, ms_;
};

constinit const SolverEntry bicgstab = solver_entry<BiCgStab>(
    "Stabilised biconjugate gradients, for any matrix; short recurrences",
    "van der Vorst, SIAM J. Sci. Stat. Comput. 13 (1992) 631; Saad 2003, algorithm 7.7");
constinit const MultiMethodEntry bicgstab_of_columns = columns_entry<BiCgStab>();

}  // namespace protean::detail
