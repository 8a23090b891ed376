// IDR(s) with biorthogonal vectors and right preconditioning: van Gijzen and Sonneveld, ACM Trans. Math. Softw. 38
// (2011) 5:1, algorithm 913, doi:10.1145/2049662.2049667; Sonneveld and van Gijzen, SIAM J. Sci. Comput. 31 (2008)
// 1035. Any nonsingular A. The residuals lie in spaces of shrinking dimension,
//   G_j = (I - omega_j A M^-1) {v in G_j-1: P^T v = 0}
// with s fixed vectors P, so that in exact arithmetic at most n + n / s products are needed. Steps k = 0 .. s-1 of a
// cycle:
//
//   c := L^-1 f,  L = P^T G (lower triangular),  f = P^T r, rows and columns k .. s-1
//   v := r - sum_i c_i g_i;   u_k := omega M^-1 v + sum_i c_i u_i,  i = k .. s-1;   g_k := A u_k
//   for i < k:  a = p_i . g_k / L_ii,  g_k := g_k - a g_i,  u_k := u_k - a u_i
//   column k of L := P^T g_k;   beta = f_k / L_kk,  r := r - beta g_k,  x := x + beta u_k,  f := f - beta L_k
//
// and step s:  v := M^-1 r,  t := A v,  omega by "maintaining the convergence",  r := r - omega t,  x := x + omega v
//
// where omega = t.r / t.t, the smallest residual, is made larger to kappa ||r|| / ||t|| if the angle of t and r has
// a cosine below kappa = 0.7 (Sleijpen and van der Vorst, Numer. Algorithms 10 (1995) 203). An iteration is a step of
// either kind, one product. P is random, orthonormal, and the same in every solve, in the order of the rows in which
// the solve begins.
//
// Memory: 3 s + 3 vectors of n, with M one more. Vectors of n that a step reads + writes on average for s = 4, without
// the matrix: 33 + 10.
#include "core/communicator.hpp"
#include "solvers/forms.hpp"
#include "solvers/hashed.hpp"
#include "solvers/methods.hpp"

namespace protean::detail {

template <class L>
class Idr final : public StepsOf<L> {
  using Base = StepsOf<L>;
  using typename Base::T, typename Base::View, typename Base::Input, typename Base::System,
      typename Base::Start;

 public:
  static constexpr std::string_view id = "idr";
  static constexpr bool turns = true;
  enum Signal { SignalRR, SignalPivot, SignalTR, SignalTT, SignalOldRR, SignalCount };
  // omega counts as zero if t and r are orthogonal up to rounding.
  static constexpr LaneGuard guards[] = {nonzero(SignalPivot, "p_k . g_k"),
                                         nonzero(SignalTR, "omega = 0: t . r", SignalTT, SignalOldRR)};

  Idr(L& lanes, const SolverOptions& options)
      // No more than n vectors are independent.
      : Base(lanes),
        s_(std::min(options.s, std::max<std::int64_t>(all_rows(lanes.context(), lanes.rows()), 1))) {
    for (LaneVectors<T>* v : {&p_, &g_, &u_}) lanes.add_block(*v, s_);
    for (LaneVectors<T>* v : {&r_, &v_, &t_}) lanes.add(*v);
    if (lanes.preconditioned()) lanes.add(z_);
    lanes.add_numbers(root() + GmresScalars<T>::size(1));
  }
  static std::int64_t cycle(const SolverOptions& options) noexcept { return options.s + 1; }
  void prepare() { choose_shadow(); }
  View scratch() noexcept { return lanes_.vector(t_); }
  std::array<View, 2> spare() noexcept { return {lanes_.vector(r_), lanes_.vector(v_)}; }
  std::vector<View> kept(bool) {
    std::vector<View> kept{lanes_.vector(r_)};
    for (LaneVectors<T>* v : {&p_, &g_, &u_})
      for (std::int64_t i = 0; i < s_; ++i) kept.push_back(lanes_.vector(*v, i));
    return kept;
  }
  void order_changed() noexcept { shadow_moved_ = true; }
  std::string size_in_words() const { return fmt::format("s {}", s_); }

  // A lane that begins in the middle of a cycle of others has a shorter first cycle, with vectors g and u that are 0.
  void begin(const System&, const Start& start) {
    if (L::single) k_ = 0;
    if (shadow_moved_) {
      choose_shadow();
      shadow_moved_ = false;
    }
    const View r = lanes_.vector(r_);
    lanes_.take(start, r);
    lanes_.zero(g_), lanes_.zero(u_), lanes_.zero_numbers();
    // L := I, omega := 1, f := P^T r
    for (std::int64_t i = 0; i < s_; ++i) lanes_.set(at(matrix(i, i)), T(1));
    lanes_.set(at(Omega), T(1));
    lanes_.dot(r, r, at(RR));
    dots(p_, 0, r, f());
    // Of several lanes both tests are made after each step.
    if (!L::single)
      for (const Place place : {Pivot, TR}) lanes_.set(at(place), T(1));
  }

  void step(const System& s) {
    if (k_ < s_)
      within_space(s);
    else
      into_next_space(s);
    k_ = (k_ + 1) % (s_ + 1);
  }

  std::int64_t period() const noexcept { return s_ + 1; }
  std::int64_t position() const noexcept { return k_; }
  void set_position(std::int64_t position) noexcept { k_ = position % (s_ + 1); }
  // k_ belongs to the next step.
  T* signal(int number, bool) noexcept {
    if (L::single && number == SignalPivot) return at(matrix(k_ - 1, k_ - 1));
    constexpr Place places[] = {RR, Pivot, TR, TT, OldRR};
    return at(places[number]);
  }
  std::span<const LaneGuard> tested(bool first) const noexcept {
    return first ? std::span<const LaneGuard>() : std::span(guards).subspan(k_ == 0 ? 1 : 0, 1);
  }
  Input residual() noexcept { return lanes_.vector(r_); }

 private:
  using Base::at, Base::lanes_;
  // L, f, c and the numbers of the root follow.
  enum Place { RR, Omega, Projection, TR, TT, OldRR, Cosine, Gate, Pivot, Count };
  std::int64_t matrix(std::int64_t i, std::int64_t j) const noexcept { return Count + j * s_ + i; }
  std::int64_t f() const noexcept { return Count + s_ * s_; }
  std::int64_t c() const noexcept { return f() + s_; }
  std::int64_t root() const noexcept { return c() + s_; }

  // numbers from `result` on := V_j . w, j >= first; in pieces that heed the end of a solve on a device.
  void dots(LaneVectors<T>& V, std::int64_t first, Input w, std::int64_t result) {
    for (std::int64_t j = first; j < s_; j += most_heeding_dots) {
      const std::int64_t piece = std::min(most_heeding_dots, s_ - j);
      lanes_.block_dot(lanes_.part(V, j, piece), w, at(result + j - first));
    }
  }

  void within_space(const System& s) {
    const std::int64_t k = k_, rest = s_ - k, pivot = matrix(k, k);
    const View r = lanes_.vector(r_), v = lanes_.vector(v_), g = lanes_.vector(g_, k),
               u = lanes_.vector(u_, k);
    // c := L^-1 f
    lanes_.axpby(T(1), lanes_.numbers(f() + k, rest), T(0), lanes_.numbers(c() + k, rest));
    solve_lower(lanes_, pivot, s_, rest, c() + k);
    // v := r - G c
    lanes_.axpby(T(1), r, T(0), v);
    lanes_.block_axpy(T(-1), lanes_.part(g_, k, rest), at(c() + k), v);
    if (s.M) lanes_.precondition(s, v, lanes_.vector(z_));
    // u := omega M^-1 v + U c
    lanes_.axpby({1, at(Omega)}, s.M ? lanes_.vector(z_) : v, {1, at(c() + k)}, u);
    if (rest > 1) lanes_.block_axpy(T(1), lanes_.part(u_, k + 1, rest - 1), at(c() + k + 1), u);
    lanes_.product(s, u, g);
    for (std::int64_t i = 0; i < k; ++i) {
      const Coefficient<T> a{-1, at(Projection), at(matrix(i, i)), Demand::nonzero};
      lanes_.dot(lanes_.vector(p_, i), g, at(Projection));
      lanes_.axpy(a, lanes_.vector(g_, i), g);
      lanes_.axpy(a, lanes_.vector(u_, i), u);
    }
    dots(p_, k, g, pivot);
    if (!L::single) lanes_.set(at(Pivot), {1, at(pivot)});
    // beta = f_k / L_kk
    lanes_.axpy_dot({-1, at(f() + k), at(pivot), Demand::nonzero}, g, r, at(RR));
    if (rest > 1)
      lanes_.axpy({-1, at(f() + k), at(pivot), Demand::nonzero}, lanes_.numbers(pivot + 1, rest - 1),
                  lanes_.numbers(f() + k + 1, rest - 1));
    lanes_.axpy({1, at(f() + k), at(pivot), Demand::nonzero}, u, lanes_.x(s));
  }

  void into_next_space(const System& s) {
    const View r = lanes_.vector(r_), t = lanes_.vector(t_), v = lanes_.vector(s.M ? z_ : v_);
    if (s.M) lanes_.precondition(s, r, v);
    // x is updated last, when r is another one.
    if (!s.M) lanes_.axpby(T(1), r, T(0), v);
    lanes_.product(s, v, t);
    lanes_.dot_pair(t, r, t, at(TR));
    choose_omega();
    lanes_.set(at(OldRR), {1, at(RR)});
    lanes_.axpy_dot({-1, at(Omega)}, t, r, at(RR));
    dots(p_, 0, r, f());
    lanes_.axpy({1, at(Omega)}, v, lanes_.x(s));
  }

  // omega = t.r / t.t max(1, kappa / |cosine|) = t.r / t.t sqrt(1 + max(0, kappa^2 / cosine^2 - 1))
  void choose_omega() {
    constexpr T kappa = T(0.7);
    const GmresScalars<T> root = lanes_.gmres_scalars(this->root(), 1);  // for its square root
    // (kappa / cosine)^2 = kappa^2 (r.r / t.r) (t.t / t.r)
    lanes_.set(at(Cosine), {kappa * kappa, at(RR), at(TR), Demand::nonzero},
               {1, at(TT), at(TR), Demand::nonzero});
    lanes_.set(root.w_squared(), T(-1));
    lanes_.add(root.w_squared(), T(1), at(Cosine));
    lanes_.is_positive(at(Gate), root.w_squared());
    lanes_.set(at(Cosine), {1, at(Gate)}, {1, root.w_squared()});
    lanes_.set(root.w_squared(), T(1));
    lanes_.add(root.w_squared(), T(1), at(Cosine));
    gmres_begin<T>(lanes_.context(), root, lanes_.gmres_lanes());
    lanes_.set(at(Omega), {1, at(TR), at(TT), Demand::positive}, {1, root.next()});
  }

  // P: hashed numbers, made orthonormal by modified Gram-Schmidt done twice. The same in all lanes.
  void choose_shadow() {
    if constexpr (L::single) {
      orthonormal(lanes_, p_, Projection, root());
    } else {
      if (!one_) {
        auto one = std::make_unique<OneLane<T>>(lanes_.layout());
        LaneVectors<T> shadow;
        one->add_block(shadow, s_);
        one->add_numbers(1 + GmresScalars<T>::size(1));
        orthonormal(*one, shadow, 0, 1);
        one_ = std::move(one), shadow_ = std::move(shadow);
      }
      for (std::int64_t j = 0; j < s_; ++j) lanes_.spread(one_->vector(shadow_, j), lanes_.vector(p_, j));
    }
  }
  static void orthonormal(OneLane<T>& lanes, LaneVectors<T>& P, std::int64_t projection,
                          std::int64_t numbers) {
    const GmresScalars<T> root = lanes.gmres_scalars(numbers, 1);
    for (std::int64_t j = 0; j < P.count; ++j) {
      const VectorView<T> p = lanes.vector(P, j);
      const std::int64_t first = j * all_rows(lanes.context(), lanes.rows()) + first_row(lanes.context());
      fill_hashed<T>(lanes.context(), static_cast<std::uint64_t>(first), p);
      for (int pass = 0; pass < 2; ++pass)
        for (std::int64_t i = 0; i < j; ++i) {
          lanes.dot(lanes.vector(P, i), p, lanes.at(projection));
          lanes.axpy({-1, lanes.at(projection)}, lanes.vector(P, i), p);
        }
      lanes.dot(p, p, root.w_squared());
      gmres_begin<T>(lanes.context(), root);
      lanes.scale({1, nullptr, root.next(), Demand::nonzero}, p);
    }
  }

  const std::int64_t s_;
  std::int64_t k_ = 0;
  bool shadow_moved_ = false;  // by a change of the order of the rows; the next run begins with P again
  LaneVectors<T> p_, g_, u_, r_, v_, t_, z_;
  // Of several lanes: P once.
  std::unique_ptr<OneLane<T>> one_;
  LaneVectors<T> shadow_;
};

constinit const SolverEntry idr =
    solver_entry<Idr>("Induced dimension reduction, IDR(s), for any matrix; short recurrences",
                      "van Gijzen and Sonneveld, ACM Trans. Math. Softw. 38 (2011) 5:1");
constinit const MultiMethodEntry idr_of_columns = columns_entry<Idr>();

}  // namespace protean::detail
