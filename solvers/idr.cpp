// IDR(s) with biorthogonal vectors and right preconditioning: van Gijzen and Sonneveld, ACM Trans. Math. Softw. 38
// (2011) 5:1, algorithm 913, doi:10.1145/2049662.2049667; Sonneveld and van Gijzen, SIAM J. Sci. Comput. 31 (2008)
// 1035. Any nonsingular A. The residuals lie in spaces of shrinking dimension, G_j = (I - omega_j A M^-1) (G_j-1 and
//       P^T v = 0) with s
// fixed vectors P, so that in exact arithmetic at most n + n / s products are needed. Steps k = 0 .. s-1 of a cycle:
//
//   c := L^-1 f,  L = P^T G (lower triangular),  f = P^T r, rows and columns k .. s-1
//   v := r - sum_i c_i g_i;   u_k := omega M^-1 v + sum_i c_i u_i,  i = k .. s-1;   g_k := A u_k
//   for i < k:  a = p_i . g_k / L_ii,  g_k := g_k - a g_i,  u_k := u_k - a u_i
//   column k of L := P^T g_k;   beta = f_k / L_kk,  r := r - beta g_k,  x := x + beta u_k,  f := f - beta L_k
//
// and step s:  v := M^-1 r,  t := A v,  omega by "maintaining the convergence",  r := r - omega t,  x := x + omega v
//
// where omega = t.r / t.t, the smallest residual, is made larger to kappa ||r|| / ||t|| where the angle of t and r has
// a cosine below kappa = 0.7 (Sleijpen and van der Vorst, Numer. Algorithms 10 (1995) 203). An iteration is a step of
// either kind, one product. P is random, orthonormal, and the same in every solve, in the order of the rows in which
// the solve begins.
//
// Memory: 3 s + 3 vectors of n, with M one more. Vectors of n that a step reads + writes on average for s = 4, without
// the matrix: 33 + 10.
#include "solvers/gmres_scalars.hpp"
#include "solvers/hashed.hpp"
#include "solvers/method.hpp"
#include "solvers/methods.hpp"
#include "solvers/scalar_work.hpp"

namespace protean::detail {
namespace {

template <class T>
class Idr final : public Method<T> {
 public:
  static constexpr std::string_view id = "idr";
  static constexpr bool symmetric_preconditioner = false;
  Idr(const SolverOptions& options, const WorkspaceLayout& layout)
      // No more than n vectors are independent.
      : s_(std::min(options.s, std::max<std::int64_t>(layout.n, 1))), stride_((layout.n + 15) / 16 * 16) {
    const ContextPtr& context = layout.context;
    for (Vector<T>* v : {&p_, &g_, &u_}) *v = make_vector<T>(context, s_ * stride_);
    for (Vector<T>* v : {&r_, &v_, &t_}) *v = make_vector<T>(context, layout.n);
    if (layout.preconditioning != WorkspaceLayout::Preconditioning::none)
      z_ = make_vector<T>(context, layout.n);
    numbers_ = Vector<T>(context, Count + s_ * (s_ + 2) + GmresScalars<T>::size(1));
    fill<T>(*context, T(0), numbers_);
    root_.data = L() + s_ * (s_ + 2), root_.m = 1;
    choose_shadow(*context);
  }
  VectorView<T> scratch() noexcept override { return t_; }
  std::array<VectorView<T>, 2> spare() noexcept override { return {r_.view(), v_.view()}; }

  std::vector<VectorView<T>> kept_vectors(bool) override {
    std::vector<VectorView<T>> kept{r_.view()};
    for (Vector<T>* v : {&p_, &g_, &u_})
      for (std::int64_t i = 0; i < s_; ++i) kept.push_back(block(*v).column(i));
    return kept;
  }
  void order_changed() noexcept override { shadow_moved_ = true; }

  void begin(const System<T>& s, VectorView<const T> r) override {
    const Context& context = s.context();
    k_ = 0;
    if (shadow_moved_) {
      choose_shadow(context);
      shadow_moved_ = false;
    }
    copy<T>(context, r, r_);
    fill<T>(context, T(0), g_), fill<T>(context, T(0), u_), fill<T>(context, T(0), numbers_);
    // L := I, omega := 1, f := P^T r
    for (std::int64_t i = 0; i < s_; ++i) set_scalar<T>(context, L() + i * s_ + i, T(1));
    set_scalar<T>(context, at(Omega), T(1));
    dot<T>(context, r_, r_, at(RR));
    dots(context, block(p_), r_, f());
    guard_count_ = 0;
  }

  void step(const System<T>& s) override {
    if (k_ < s_)
      within_space(s);
    else
      into_next_space(s);
    k_ = (k_ + 1) % (s_ + 1);
    guard_step();
  }

  std::int64_t period() const noexcept override { return s_ + 1; }
  std::int64_t phase() const noexcept override { return k_; }
  void set_phase(std::int64_t phase) noexcept override {
    k_ = phase % (s_ + 1);
    guard_step();
  }

  Signals<T> signals() const noexcept override {
    return {.residual_squared = numbers_.data() + RR, .guards = {&guard_, guard_count_}};
  }
  VectorView<const T> residual() noexcept override { return r_; }

 private:
  // L, f, c and the numbers of the root follow.
  enum Place { RR, Omega, Projection, TR, TT, OldRR, Cosine, Gate, Count };
  T* at(Place place) noexcept { return numbers_.data() + place; }
  T* L() noexcept { return numbers_.data() + Count; }
  T* f() noexcept { return L() + s_ * s_; }
  T* c() noexcept { return f() + s_; }
  VectorBlock<T> block(Vector<T>& v) const noexcept { return {v.data(), r_.size(), stride_, s_, v.space()}; }

  // block_dot() in pieces that heed the end of a solve on a device.
  static void dots(const Context& context, const VectorBlock<const T>& V, VectorView<const T> w, T* result) {
    constexpr std::int64_t piece = 8;
    for (std::int64_t j = 0; j < V.count; j += piece)
      block_dot<T>(context, from(V, j).first(std::min(piece, V.count - j)), w, result + j);
  }
  template <class Value>
  static VectorBlock<Value> from(const VectorBlock<Value>& V, std::int64_t j) noexcept {
    return {V.data + j * V.stride, V.size, V.stride, V.count - j, V.space};
  }

  void within_space(const System<T>& s) {
    const Context& context = s.context();
    const VectorBlock<T> P = block(p_), G = block(g_), U = block(u_);
    const std::int64_t k = k_, rest = s_ - k;
    const VectorView<T> g = G.column(k), u = U.column(k);
    T* const pivot = L() + k * s_ + k;
    // c := L^-1 f
    axpby<T>(context, T(1), {f() + k, rest, numbers_.space()}, T(0), {c() + k, rest, numbers_.space()});
    solve_lower<T>(context, pivot, s_, rest, c() + k);
    // v := r - G c
    axpby<T>(context, T(1), r_, T(0), v_);
    block_axpy<T>(context, T(-1), from(G, k), c() + k, v_);
    if (s.M) s.precondition(v_, z_);
    // u := omega M^-1 v + U c
    axpby<T>(context, {1, at(Omega)}, s.M ? z_ : v_, {1, c() + k}, u);
    if (rest > 1) block_axpy<T>(context, T(1), from(U, k + 1), c() + k + 1, u);
    s.product(u, g);
    for (std::int64_t i = 0; i < k; ++i) {
      const Coefficient<T> a{-1, at(Projection), L() + i * s_ + i, Demand::nonzero};
      dot<T>(context, P.column(i), g, at(Projection));
      axpy<T>(context, a, G.column(i), g);
      axpy<T>(context, a, U.column(i), u);
    }
    dots(context, from(P, k), g, pivot);
    // beta = f_k / L_kk
    axpy_dot<T>(context, {-1, f() + k, pivot, Demand::nonzero}, g, r_, at(RR));
    if (rest > 1)
      axpy<T>(context, {-1, f() + k, pivot, Demand::nonzero}, {pivot + 1, rest - 1, numbers_.space()},
              {f() + k + 1, rest - 1, numbers_.space()});
    axpy<T>(context, {1, f() + k, pivot, Demand::nonzero}, u, s.x);
  }

  void into_next_space(const System<T>& s) {
    const Context& context = s.context();
    if (s.M) s.precondition(r_, z_);
    const VectorView<T> v = s.M ? z_.view() : v_.view();
    // x is updated last, when r is another one.
    if (!s.M) axpby<T>(context, T(1), r_, T(0), v_);
    s.product(v, t_);
    dot_pair<T>(context, t_, r_, t_, at(TR));
    choose_omega(context);
    set_scalar<T>(context, at(OldRR), {1, at(RR)});
    axpy_dot<T>(context, {-1, at(Omega)}, t_, r_, at(RR));
    dots(context, block(p_), r_, f());
    axpy<T>(context, {1, at(Omega)}, v, s.x);
  }

  // omega = t.r / t.t max(1, kappa / |cosine|) = t.r / t.t sqrt(1 + max(0, kappa^2 / cosine^2 - 1))
  void choose_omega(const Context& context) {
    constexpr T kappa = T(0.7);
    // (kappa / cosine)^2 = kappa^2 (r.r / t.r) (t.t / t.r)
    set_scalar<T>(context, at(Cosine), {kappa * kappa, at(RR), at(TR), Demand::nonzero},
                  {1, at(TT), at(TR), Demand::nonzero});
    set_scalar<T>(context, root_.w_squared(), T(-1));
    add_scalar<T>(context, root_.w_squared(), T(1), at(Cosine));
    is_positive<T>(context, at(Gate), root_.w_squared());
    set_scalar<T>(context, at(Cosine), {1, at(Gate)}, {1, root_.w_squared()});
    set_scalar<T>(context, root_.w_squared(), T(1));
    add_scalar<T>(context, root_.w_squared(), T(1), at(Cosine));
    gmres_begin<T>(context, root_);
    set_scalar<T>(context, at(Omega), {1, at(TR), at(TT), Demand::positive}, {1, root_.next()});
  }

  // k_ is that of the next step. omega counts as zero where t and r are orthogonal up to rounding.
  void guard_step() noexcept {
    constexpr StopReason bad = StopReason::breakdown;
    constexpr T eps = std::numeric_limits<T>::epsilon();
    if (k_ == 0)
      guard_ = {at(TR), Test::nonzero, bad, "omega = 0: t . r", eps, at(TT), at(OldRR)};
    else
      guard_ = {L() + (k_ - 1) * (s_ + 1), Test::nonzero, bad, "p_k . g_k"};
    guard_count_ = 1;
  }

  // P: hashed numbers, made orthonormal by modified Gram-Schmidt done twice.
  void choose_shadow(const Context& context) {
    const VectorBlock<T> P = block(p_);
    const std::int64_t n = r_.size();
    std::vector<T> column(static_cast<std::size_t>(n));
    for (std::int64_t j = 0; j < s_; ++j) {
      for (std::int64_t i = 0; i < n; ++i)
        column[i] = static_cast<T>(hashed(static_cast<std::uint64_t>(j * n + i)));
      const VectorView<T> p = P.column(j);
      copy<T>(context, VectorView<const T>{column.data(), n, Space::host}, p);
      for (int pass = 0; pass < 2; ++pass)
        for (std::int64_t i = 0; i < j; ++i) {
          dot<T>(context, P.column(i), p, at(Projection));
          axpy<T>(context, {-1, at(Projection)}, P.column(i), p);
        }
      dot<T>(context, p, p, root_.w_squared());
      gmres_begin<T>(context, root_);
      scale<T>(context, {1, nullptr, root_.next(), Demand::nonzero}, p);
    }
  }

  const std::int64_t s_, stride_;
  std::int64_t k_ = 0;
  bool shadow_moved_ = false;  // by a change of the order of the rows; the next run begins with P again
  Vector<T> p_, g_, u_, r_, v_, t_, z_, numbers_;
  GmresScalars<T> root_;  // for its square root
  Guard<T> guard_{};
  std::size_t guard_count_ = 0;
};

}  // namespace

constinit const SolverEntry idr{Idr<double>::id,
                                "Induced dimension reduction, IDR(s), for any matrix; short recurrences",
                                "van Gijzen and Sonneveld, ACM Trans. Math. Softw. 38 (2011) 5:1",
                                make_solver_of<double, Idr>, make_solver_of<float, Idr>};

}  // namespace protean::detail
