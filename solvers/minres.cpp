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
// The norm ||r||_{M^-1} is not the 2-norm by which a solve is stopped. With M, and if residuals are measured with
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
// arXiv:2206.05732, for the second). So both are known before step k changes x, without a product. If
//
//   ||A r|| <= sqrt(100 eps) ||A|| ||r||,  |r . A r| <= 1000 eps ||A|| ||r||^2
//
// (single precision: 1.6 and 16), r belongs to the eigenvalue 0 as far as this precision shows. Then the step is
// dropped, and the solve ends as inconsistent. The first test alone also holds for nonsingular matrices of condition
// 1e7, and cannot be stricter: rounding makes ||A r|| grow again long before it is near eps. ||A|| is the largest norm
// of a column of the tridiagonal matrix since begin(). So nothing is found in the first step if A r is nothing but
// rounding.
//
// Memory traffic of one iteration in vectors of n, read + written; the matrix of the product comes on top:
//
//   operation                                      no M      diagonal M   general M
//   q_k+1 := A z_k - beta q_k-1; z_k . q_k+1       4 + 2     4 + 2        4 + 2
//   q_k+1 := q_k+1 - alpha q_k                     2 + 1     2 + 1        2 + 1
//   z_k+1 := M^-1 q_k+1; q_k+1 . z_k+1             -         4 + 1        1 + 1 (+ M, + 2 if M cannot fuse the dot)
//   d_k                                            4 + 2     4 + 2        4 + 2
//   r, r . r                                       -         3 + 1        3 + 1
//   q_k+1, z_k+1 divided by beta; x                3 + 2     4 + 3        4 + 3
//   sum                                            20        31           28 and more
#include "solvers/forms.hpp"
#include "solvers/methods.hpp"

namespace protean::detail {

template <class L>
class MinRes final : public StepsOf<L> {
  using Base = StepsOf<L>;
  using typename Base::T, typename Base::View, typename Base::Input, typename Base::System,
      typename Base::Start;

 public:
  static constexpr std::string_view id = "minres";
  static constexpr bool symmetric = true, symmetric_preconditioner = true, turns = true;
  enum Signal { SignalRR, SignalSign, SignalGoesOn, SignalBeta, SignalColumn, SignalCount };
  // q . z, to which the step has added what counts as 0: negative if M is indefinite, not by rounding. No new
  // direction, as in GMRES: the space holds the solution, or A is singular.
  static constexpr LaneGuard guards[] = {
      positive(SignalSign, StopReason::indefinite_preconditioner, "r . M^-1 r", true),
      {.value = SignalGoesOn,
       .test = Test::nonzero,
       .reason = StopReason::inconsistent,
       .meaning = "b - A x is a null vector of A; further steps"},
      direction(SignalBeta, "beta(k+1)^2", SignalColumn)};

  MinRes(L& lanes, const SolverOptions& options)
      : Base(lanes),
        preconditioned_(lanes.preconditioned()),
        carries_residual_(preconditioned_ || weighs_residuals(options)) {
    for (LaneVectors<T>* v : {&q_[0], &q_[1], &d_[0], &d_[1], &scratch_}) lanes.add(*v);
    if (preconditioned_)
      for (LaneVectors<T>* v : {&z_[0], &z_[1]}) lanes.add(*v);
    if (carries_residual_) lanes.add(r_);
    lanes.add_numbers(GmresScalars<T>::size(window) + Count);
  }
  View scratch() noexcept { return lanes_.vector(scratch_); }
  std::array<View, 2> spare() noexcept { return {lanes_.vector(q_[0]), lanes_.vector(q_[1])}; }
  std::vector<View> kept(bool ahead) {
    std::vector<View> kept;
    for (LaneVectors<T>* v : {&q_[0], &q_[1], &d_[0], &d_[1]}) kept.push_back(lanes_.vector(*v));
    if (preconditioned_) {
      kept.push_back(lanes_.vector(z_[parity_]));
      if (ahead) kept.push_back(lanes_.vector(z_[1 - parity_]));
    }
    if (carries_residual_) kept.push_back(lanes_.vector(r_));
    return kept;
  }

  void begin(const System& s, const Start& start) {
    if (L::single) parity_ = 0;
    const int now = parity_, other = 1 - parity_;
    const View q = lanes_.vector(q_[now]), z = lanes_.vector(z_[now]), r = lanes_.vector(r_);
    // q_1 := r / beta_1, z_1 := M^-1 q_1, with beta_1^2 = r . M^-1 r
    lanes_.take(start, q);
    if (carries_residual_) lanes_.take(start, r);
    if (preconditioned_) {
      lanes_.precondition(s, q, z);
      lanes_.dot_pair(r, r, z, number(RR));
    } else {
      lanes_.dot(q, q, number(RZ));
    }
    lanes_.zero(q_[other]);
    lanes_.zero(d_[0]), lanes_.zero(d_[1]);
    const GmresScalars<T> rotations = this->rotations();
    square_of_beta(rotations);
    gmres_begin<T>(lanes_.context(), rotations, lanes_.gmres_lanes());
    // No column before this one: rotations by 0, beta 0.
    for (int k : {0, 1}) {
      lanes_.set(nth(rotations.cosines(), k), T(1));
      lanes_.set(nth(rotations.sines(), k), T(0));
    }
    lanes_.set(nth(rotations.g(), last), {1, rotations.g()});
    lanes_.set(number(Beta), T(0));
    normalise(rotations, now);
    // Of one lane the test reads r . z itself.
    if (!L::single) lanes_.set(number(Sign), preconditioned_ ? Coefficient<T>{1, number(RZ)} : T(1));
  }

  void step(const System& s) {
    const int now = parity_, next = 1 - parity_;
    parity_ = next;
    const GmresScalars<T> rotations = this->rotations();
    T *const h = rotations.column(last), *const h1 = nth(h, 1), *const h2 = nth(h, 2);
    const View q = lanes_.vector(q_[now]), new_q = lanes_.vector(q_[next]), new_z = lanes_.vector(z_[next]),
               z = preconditioned_ ? lanes_.vector(z_[now]) : q, d = lanes_.vector(d_[now]),
               r = lanes_.vector(r_);
    // q_k+1 := A z_k - beta_k q_k-1, alpha_k = z_k . q_k+1, q_k+1 := q_k+1 - alpha_k q_k
    lanes_.product_minus(s, z, number(Beta), new_q);
    lanes_.set(h, T(0));
    lanes_.set(h1, {1, number(Beta)});
    lanes_.dot(z, new_q, h2);
    lanes_.axpy_dot({-1, h2}, q, new_q, number(RZ));
    // z_k+1 := M^-1 q_k+1, beta_k+1^2 = q_k+1 . z_k+1
    if (s.general_preconditioner()) {
      lanes_.precondition_dot(s, new_q, new_z, number(RZ));
    } else if (preconditioned_) {
      lanes_.precondition(s, new_q, new_z);
      lanes_.dot(new_q, new_z, number(RZ));
    }
    square_of_beta(rotations);
    gmres_rotate<T>(lanes_.context(), rotations, last, false, lanes_.gmres_lanes());
    if (preconditioned_) {
      lanes_.set(number(Sign), std::numeric_limits<T>::min());
      add(number(Sign), T(1), number(RZ));
      add(number(Sign), rounding * rounding, rotations.column_squared());
    }
    // d_k := (z_k - h1 d_k-1 - h0 d_k-2) / h2
    lanes_.axpby({1, nullptr, h2, Demand::nonzero}, z, {-1, h, h2, Demand::nonzero}, d);
    lanes_.axpy({-1, h1, h2, Demand::nonzero}, lanes_.vector(d_[next]), d);
    if (carries_residual_) {
      // r := s_k^2 r + (g_k+1 c_k / beta_k+1) q_k+1, r . r
      const T *const c = nth(rotations.cosines(), last), *const sine = nth(rotations.sines(), last);
      lanes_.set(number(SS), {1, sine}, {1, sine});
      lanes_.set(number(GC), {1, nth(rotations.g(), last + 1)}, {1, c});
      lanes_.axpby({1, number(GC), rotations.next(), Demand::nonzero}, new_q, {1, number(SS)}, r);
    }
    if (preconditioned_) lanes_.dot(r, r, number(RR));
    normalise(rotations, next);
    // The window moves on by one column.
    lanes_.set(number(Step), {1, nth(rotations.g(), last)});
    lanes_.set(nth(rotations.g(), last), {1, nth(rotations.g(), last + 1)});
    lanes_.set(number(Beta), {1, rotations.next()});
    for (T* turn : {rotations.cosines(), rotations.sines()})
      for (int k : {0, 1}) lanes_.set(nth(turn, k), {1, nth(turn, k + 1)});
    // x := x + g_k d_k
    lanes_.axpy({1, number(Step)}, d, lanes_.x(s));
  }

  std::int64_t period() const noexcept { return 2; }
  std::int64_t position() const noexcept { return parity_; }
  void set_position(std::int64_t position) noexcept { parity_ = static_cast<int>(position % 2); }
  std::vector<std::vector<View>> turning() {
    std::vector<std::vector<View>> groups;
    for (auto* const pair : {&q_, &d_, &z_})
      if ((*pair)[0].count > 0) groups.push_back({lanes_.vector((*pair)[0]), lanes_.vector((*pair)[1])});
    return groups;
  }
  T* signal(int which, bool first) noexcept {
    const GmresScalars<T> rotations = this->rotations();
    switch (which) {
      case SignalRR:
        return preconditioned_ ? number(RR) : rotations.residual_squared();
      case SignalSign:
        return number(L::single && first ? RZ : Sign);
      case SignalGoesOn:
        return number(GoesOn);
      case SignalBeta:
        return rotations.w_squared();
      default:
        return rotations.column_squared();
    }
  }
  std::span<const LaneGuard> tested(bool first) const noexcept {
    const std::span<const LaneGuard> all = guards;
    return all.subspan(preconditioned_ ? 0 : 1, (preconditioned_ ? 1 : 0) + (first ? 0 : 2));
  }
  Input residual() noexcept { return lanes_.vector(r_); }

 private:
  using Base::at, Base::lanes_;
  // Columns of the window of rotations, and the one that is computed.
  static constexpr std::int64_t window = 3, last = 2;
  enum Place { RR, RZ, Beta, Step, SS, GC, Gate, Sign, Largest, GoesOn, Count };
  // What counts as 0 compared with the norm of a column.
  static constexpr T rounding = 16 * std::numeric_limits<T>::epsilon();
  T* number(Place place) noexcept { return at(GmresScalars<T>::size(window) + place); }
  GmresScalars<T> rotations() noexcept {
    GmresScalars<T> rotations = lanes_.gmres_scalars(0, window);
    rotations.null_test = number(Largest);
    return rotations;
  }
  // Number i after this one.
  T* nth(T* first, std::int64_t i) noexcept { return first + (at(i) - at(0)); }
  // result := result + a * x
  void add(T* result, Coefficient<T> a, const T* x) { lanes_.add(result, a, x); }

  // w_squared := |q . z|, so that no root of a negative number is taken. It is not 0 if q . z is negative: r would
  // become 0, which ends a solve as if it had converged.
  void square_of_beta(const GmresScalars<T>& rotations) {
    T* const w_squared = rotations.w_squared();
    lanes_.is_positive(number(Gate), number(RZ));
    lanes_.set(w_squared, T(-1));
    add(w_squared, T(2), number(Gate));
    lanes_.set(w_squared, {1, w_squared}, {1, number(RZ)});
  }
  void normalise(const GmresScalars<T>& rotations, int which) {
    const Coefficient<T> by{1, nullptr, rotations.next(), Demand::nonzero};
    lanes_.scale(by, lanes_.vector(q_[which]));
    if (preconditioned_) lanes_.scale(by, lanes_.vector(z_[which]));
  }

  const bool preconditioned_, carries_residual_;
  LaneVectors<T> q_[2], z_[2], d_[2], r_, scratch_;
  int parity_ = 0;
};

constinit const SolverEntry minres =
    solver_entry<MinRes>("Minimal residuals, for symmetric matrices, also indefinite ones",
                         "Paige and Saunders, SIAM J. Numer. Anal. 12 (1975) 617");
constinit const MultiMethodEntry minres_of_columns = columns_entry<MinRes>();

}  // namespace protean::detail
