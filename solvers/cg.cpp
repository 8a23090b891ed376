// Preconditioned conjugate gradients: Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., SIAM 2003,
// algorithm 9.1 (algorithm 6.18 without preconditioner). A and M symmetric positive definite.
//
// Memory traffic of one iteration in vectors of n, read + written; the matrix of the product comes on top:
//
//   operation                        no M      diagonal M   general M
//   q := A p with p . q              1 + 1     1 + 1        1 + 1
//   r, r.r, r.z                      2 + 1     3 + 1        2 + 1
//   z := M^-1 r, r . z               -         -            1 + 1 (+ M, + 2 if M cannot fuse the dot)
//   x, p := z + beta p               3 + 2     4 + 2        3 + 2
//   sum                              10        12           12 and more
#include "core/blas1.hpp"
#include "solvers/forms.hpp"
#include "solvers/methods.hpp"

namespace protean::detail {

template <class L>
class Cg final : public StepsOf<L> {
  using Base = StepsOf<L>;
  using typename Base::T, typename Base::View, typename Base::Input, typename Base::System,
      typename Base::Start;

 public:
  static constexpr std::string_view id = "cg";
  static constexpr bool symmetric = true, symmetric_preconditioner = true, scalars_in_coefficients = true;
  enum Signal { SignalRR, SignalPQ, SignalRZ, SignalCount };
  static constexpr LaneGuard guards[] = {
      positive(SignalPQ, StopReason::indefinite_operator, "p . A p"),
      positive(SignalRZ, StopReason::indefinite_preconditioner, "r . M^-1 r", true)};

  Cg(L& lanes, const SolverOptions&) : Base(lanes) {
    for (LaneVectors<T>* v : {&r_, &p_, &q_}) lanes.add(*v);
    if (lanes.general_preconditioner()) lanes.add(z_);
    lanes.add_numbers(Count);
  }
  View scratch() noexcept { return lanes_.vector(q_); }
  std::array<View, 2> spare() noexcept { return {lanes_.vector(r_), lanes_.vector(p_)}; }
  // Each step computes q and z again.
  std::vector<View> kept(bool) { return {lanes_.vector(r_), lanes_.vector(p_)}; }

  void begin(const System& s, const Start& start) {
    if (L::single) parity_ = 0;
    const View r = lanes_.vector(r_), p = lanes_.vector(p_);
    // r := b - A x
    lanes_.take(start, r);
    // p := z = M^-1 r
    lanes_.precondition(s, r, p);
    // r . r, r . z
    lanes_.dot_pair(r, r, p, at(rr()));
  }

  void step(const System& s) {
    const bool general = s.general_preconditioner();
    const View r = lanes_.vector(r_), p = lanes_.vector(p_), q = lanes_.vector(q_),
               z = general ? lanes_.vector(z_) : r;
    const T* const rz = at(rr() + 1);
    parity_ = 1 - parity_;
    T* const rz_next = at(rr() + 1);
    // q := A p, p . q
    lanes_.product_dot(s, p, q, at(PQ));
    // alpha = r.z / p.q;  r := r - alpha q;  r . r, r . z
    const Coefficient<T> alpha{1, rz, at(PQ), Demand::positive};
    lanes_.cg_residual(alpha, q, s.d, r, at(rr()), !general);
    // z := M^-1 r, r . z if M is not a diagonal
    if (general) lanes_.precondition_dot(s, r, z, rz_next);
    // beta = r.z / old r.z;  x := x + alpha p;  p := z + beta p
    lanes_.cg_direction(alpha, s.d, z, {1, rz_next, rz, Demand::positive}, lanes_.x(s), p);
  }

  std::int64_t period() const noexcept { return 2; }
  std::int64_t position() const noexcept { return parity_; }
  void set_position(std::int64_t position) noexcept { parity_ = static_cast<int>(position % 2); }
  T* signal(int number, bool) noexcept {
    return at(number == SignalPQ ? PQ : rr() + (number == SignalRZ ? 1 : 0));
  }
  std::span<const LaneGuard> tested(bool first) const noexcept {
    return std::span(guards).subspan(first ? 1 : 0);
  }
  // r := the residual anew, and z and p change by what M^-1 makes of the difference, so that p remains z + beta p of
  // the step before. Of one lane. G. Sleijpen and H. van der Vorst, Computing 56 (1996) 141, "reliable updates".
  void renew(const System& s, Input from) {
    const Context& context = s.context();
    const View r = lanes_.vector(r_), p = lanes_.vector(p_), q = lanes_.vector(q_);
    if (from.data != q.data) copy<T>(context, from, q);
    if (s.general_preconditioner()) {
      const View z = lanes_.vector(z_);
      copy<T>(context, q, r);
      axpby<T>(context, T(-1), z, T(1), p);
      lanes_.precondition(s, r, z);
      axpby<T>(context, T(1), z, T(1), p);
      lanes_.dot_pair(r, r, z, at(rr()));
      return;
    }
    // q := the new r less the old one
    axpby<T>(context, T(-1), r, T(1), q);
    axpby<T>(context, T(1), q, T(1), r);
    if (s.d.size > 0) multiply<T>(context, s.d, q, q);
    axpby<T>(context, T(1), q, T(1), p);
    lanes_.precondition(s, r, q);
    lanes_.dot_pair(r, r, q, at(rr()));
  }
  Input residual() noexcept { return lanes_.vector(r_); }
  CgState<T> state() noexcept { return {lanes_.vector(r_), lanes_.vector(p_), at(0)}; }

 private:
  using Base::at, Base::lanes_;
  // {p . A p, r . r, r . z, r . r, r . z}: the pairs of even and odd steps lie in two places, since alpha and beta need
  // r . z of the step before.
  enum Place : std::int64_t { PQ, FirstPair, Count = 5 };
  std::int64_t rr() const noexcept { return FirstPair + 2 * parity_; }

  LaneVectors<T> r_, p_, q_, z_;
  int parity_ = 0;
};

template <class T>
class OneCg final : public OneVector<T, Cg>, public HasCgState<T> {
 public:
  using OneVector<T, Cg>::OneVector;
  CgState<T> cg_state() noexcept override { return this->steps_.state(); }
  bool renews() const noexcept override { return true; }
  void renew(const System<T>& s, VectorView<const T> r) override {
    this->steps_.renew(s, r);
    this->measure(s);
  }
};

constinit const SolverEntry cg = with_reliable_updates(
    solver_entry<Cg, OneCg>("Conjugate gradients, for symmetric positive definite matrices",
                            "Hestenes and Stiefel, J. Res. NBS 49 (1952) 409; Saad 2003, algorithm 9.1"));
constinit const MultiMethodEntry cg_of_columns = columns_entry<Cg>();

}  // namespace protean::detail
