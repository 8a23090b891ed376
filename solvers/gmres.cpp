// GMRES(m) with right preconditioning: Saad and Schultz, SIAM J. Sci. Stat. Comput. 7 (1986) 856; Saad,
// Iterative Methods for Sparse Linear Systems, 2nd ed., SIAM 2003, algorithms 6.11 (restarts) and 9.5 (right
// preconditioning) with the Givens rotations of section 6.5.3. It minimises the residual of A x = b itself,
// not of a preconditioned system.
//
// Orthogonalisation: cgs2, classical Gram-Schmidt done twice, two passes over the basis each (Giraud, Langou,
// Rozloznik, van den Eshof, Numer. Math. 101 (2005) 87: orthogonal to rounding); mgs, modified Gram-Schmidt,
// algorithm 6.2, 2 (j + 1) passes over w.
//
// Memory traffic of step j = 0 .. m-1 in vectors of n, read + written; the matrix of the product comes on
// top:
//
//   operation                    cgs2                       mgs
//   z := M^-1 v_j (if M)         2 + 1 (diagonal)           the same
//   w := A z                     1 + 1                      1 + 1
//   orthogonalisation            4 (j + 1) + 4 + 2          4 (j + 1) + (j + 1) + 1
//   v_j+1 := w / h_j+1,j         1 + 1                      1 + 1
//
// Memory: (m + 1) n for the basis, n and, with M, another n.
//
// Where residuals are measured with weights (SolverOptions::residual_norm) the residual is carried along: r_j+1 = s_j^2
// r_j + (g_j+1 c_j) v_j+1, from the last row of the product of rotations. That takes another n, and 2 + 1 in a step.
//
// Flexible GMRES: Saad, SIAM J. Sci. Comput. 14 (1993) 461, doi:10.1137/0914028. M may be another one in each step: the
// vectors z_j = M_j^-1 v_j are kept, and x := x + Z y instead of x + M^-1 V y. With the same M in each step it is
// GMRES. Memory: with M another (m - 1) n.
#include "solvers/gmres_scalars.hpp"
#include "solvers/method.hpp"
#include "solvers/methods.hpp"
#include "solvers/scalar_work.hpp"

namespace protean::detail {
namespace {

template <class T, bool flexible>
class GmresOf : public Method<T> {
 public:
  static constexpr bool symmetric_preconditioner = false;
  GmresOf(const SolverOptions& options, const WorkspaceLayout& layout)
      : twice_(options.orthogonalization == "cgs2"),
        // Each column begins at a cache line.
        stride_((layout.n + 15) / 16 * 16) {
    const auto& [context, n, preconditioning] = layout;
    // In exact arithmetic n steps are enough.
    scalars_.m = std::min(options.restart, std::max<std::int64_t>(n, 1));
    basis_ = make_vector<T>(context, stride_ * (scalars_.m + 1));
    u_ = make_vector<T>(context, n);
    if (preconditioning != WorkspaceLayout::Preconditioning::none)
      z_ = make_vector<T>(context, flexible ? stride_ * scalars_.m : n);
    if (weighs_residuals(options)) r_ = make_vector<T>(context, n);
    numbers_ = Vector<T>(context, GmresScalars<T>::size(scalars_.m) + Count);
    // cuBLAS loads the result of a product before it overwrites it.
    fill<T>(*context, T(0), numbers_);
    scalars_.data = numbers_.data();
  }
  VectorView<T> scratch() noexcept override { return u_; }
  std::array<VectorView<T>, 2> spare() noexcept override {
    const VectorBlock<T> V{basis_.data(), u_.size(), stride_, 2, basis_.space()};
    return {V.column(0), V.column(1)};
  }

  // The basis as far as it has grown, and M^-1 times it where that is kept.
  std::vector<VectorView<T>> kept_vectors(bool ahead) override {
    const std::int64_t grown = ahead ? scalars_.m : j_;
    const VectorBlock<T> V{basis_.data(), u_.size(), stride_, grown + 1, basis_.space()};
    std::vector<VectorView<T>> kept;
    for (std::int64_t i = 0; i <= grown; ++i) kept.push_back(V.column(i));
    if (flexible && z_.size() > 0)
      for (std::int64_t i = 0; i < grown; ++i)
        kept.push_back({z_.data() + i * stride_, u_.size(), z_.space()});
    if (r_.size() > 0) kept.push_back(r_.view());
    return kept;
  }

  void begin(const System<T>& s, VectorView<const T> r) override {
    const VectorView<T> v = basis(s).column(0);
    if (r_.size() > 0) copy<T>(s.context(), r, r_);
    // v_0 := r / ||r||, g := ||r|| e_1
    copy<T>(s.context(), r, v);
    dot<T>(s.context(), v, v, scalars_.w_squared());
    gmres_begin<T>(s.context(), scalars_);
    scale<T>(s.context(), {1, nullptr, scalars_.next(), Demand::nonzero}, v);
    j_ = 0;
  }

  void step(const System<T>& s) override {
    const VectorBlock<T> V = basis(s).first(j_ + 1);
    const VectorView<T> w = basis(s).column(j_ + 1);
    // w := A M^-1 v_j
    const VectorView<T> z = s.M ? preconditioned(s, j_) : V.column(j_);
    if (s.M) s.precondition(V.column(j_), z);
    s.product(z, w);
    // h_ij := v_i . w, w := w - sum_i h_ij v_i, w . w
    if (twice_)
      classical_twice(s, V, w);
    else
      modified(s, V, w);
    // h_j+1,j := ||w||; rotations; the residual norm is |g_j+1|
    gmres_rotate<T>(s.context(), scalars_, j_, twice_);
    // v_j+1 := w / h_j+1,j
    scale<T>(s.context(), {1, nullptr, scalars_.next(), Demand::nonzero}, w);
    if (r_.size() > 0) carry_residual(s.context(), w);
    ++j_;
    guard_step();
  }

  void finish(const System<T>& s) override {
    if (j_ == 0) return;
    // y := R^-1 g
    gmres_solve<T>(s.context(), scalars_, j_);
    // u := V y, or Z y
    const bool from_z = flexible && s.M;
    const VectorBlock<T> Z{z_.data(), s.x.size, stride_, scalars_.m, z_.space()};
    fill<T>(s.context(), T(0), u_);
    block_axpy<T>(s.context(), T(1), from_z ? Z.first(j_) : basis(s).first(j_), scalars_.y(), u_);
    // x := x + M^-1 u, or x + u
    const bool last = s.M && !from_z;
    if (last) s.precondition(u_, z_);
    axpy<T>(s.context(), T(1), last ? z_.view() : u_.view(), s.x);
    j_ = 0;
  }

  std::int64_t period() const noexcept override { return scalars_.m; }
  bool cycles_end() const noexcept override { return true; }
  std::int64_t phase() const noexcept override { return j_; }
  void set_phase(std::int64_t phase) noexcept override {
    j_ = phase;
    guard_step();
  }

  Signals<T> signals() const noexcept override {
    return {.residual_squared = scalars_.residual_squared(),
            .guards = {&guard_, j_ > 0 ? std::size_t{1} : std::size_t{0}},
            .cycle_ended = j_ == scalars_.m,
            .resumable = false};
  }
  VectorView<const T> residual() noexcept override { return r_; }

 private:
  // They follow those of GmresScalars.
  enum Place { SS, GC, Count };
  T* at(Place place) noexcept { return numbers_.data() + GmresScalars<T>::size(scalars_.m) + place; }

  // After rotation j_, with v_j+1.
  void carry_residual(const Context& context, VectorView<const T> v) {
    const T *const c = scalars_.cosines() + j_, *const sine = scalars_.sines() + j_;
    set_scalar<T>(context, at(SS), {1, sine}, {1, sine});
    set_scalar<T>(context, at(GC), {1, scalars_.g() + j_ + 1}, {1, c});
    axpby<T>(context, {1, at(GC)}, v, {1, at(SS)}, r_);
  }

  VectorBlock<T> basis(const System<T>& s) noexcept {
    return {basis_.data(), s.x.size, stride_, scalars_.m + 1, basis_.space()};
  }

  // Where M^-1 v_j goes.
  VectorView<T> preconditioned(const System<T>& s, std::int64_t j) noexcept {
    return {z_.data() + (flexible ? j * stride_ : 0), s.x.size, z_.space()};
  }

  void guard_step() noexcept {
    // No new direction, h_j+1,j <= 16 eps ||A M^-1 v_j||: the Krylov space holds the solution (happy
    // breakdown), or A is singular. Both sides are squared, since squares are what is stored.
    constexpr T rounding = 16 * std::numeric_limits<T>::epsilon();
    guard_ = {scalars_.w_squared(),     Test::nonzero,
              StopReason::breakdown,    "h(j+1,j)^2",
              rounding * rounding,      scalars_.column_squared(),
              scalars_.column_squared()};
  }

  void classical_twice(const System<T>& s, VectorBlock<T> V, VectorView<T> w) {
    block_dot<T>(s.context(), V, w, scalars_.column(j_));
    block_axpy<T>(s.context(), T(-1), V, scalars_.column(j_), w);
    block_dot<T>(s.context(), V, w, scalars_.correction());
    block_axpy<T>(s.context(), T(-1), V, scalars_.correction(), w, scalars_.w_squared());
  }

  void modified(const System<T>& s, VectorBlock<T> V, VectorView<T> w) {
    for (std::int64_t i = 0; i <= j_; ++i) {
      T* const h = scalars_.column(j_) + i;
      dot<T>(s.context(), V.column(i), w, h);
      axpy_dot<T>(s.context(), {-1, h}, V.column(i), w, scalars_.w_squared());
    }
  }

  const bool twice_;
  const std::int64_t stride_;
  std::int64_t j_ = 0;
  Vector<T> basis_, u_, z_, r_, numbers_;
  GmresScalars<T> scalars_;
  Guard<T> guard_{};
};

template <class T>
class Gmres final : public GmresOf<T, false> {
 public:
  static constexpr std::string_view id = "gmres";
  using GmresOf<T, false>::GmresOf;
};

template <class T>
class FGmres final : public GmresOf<T, true> {
 public:
  static constexpr std::string_view id = "fgmres";
  using GmresOf<T, true>::GmresOf;
};

}  // namespace

constinit const SolverEntry fgmres{
    FGmres<double>::id,
    "Flexible GMRES, for a preconditioner that changes from step to step; twice the memory of gmres",
    "Saad, SIAM J. Sci. Comput. 14 (1993) 461", make_solver_of<double, FGmres>,
    make_solver_of<float, FGmres>};

constinit const SolverEntry gmres{
    Gmres<double>::id,
    "Generalised minimal residuals, restarted, for any matrix; memory grows with the restart",
    "Saad and Schultz, SIAM J. Sci. Stat. Comput. 7 (1986) 856; Saad 2003, algorithms 6.11 and 9.5",
    make_solver_of<double, Gmres>, make_solver_of<float, Gmres>};

}  // namespace protean::detail
