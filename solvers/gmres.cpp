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
// If residuals are measured with weights (SolverOptions::residual_norm), the residual is carried along: r_j+1 = s_j^2
// r_j + (g_j+1 c_j) v_j+1, from the last row of the product of rotations. That takes another n, and 2 + 1 in a step.
//
// Flexible GMRES: Saad, SIAM J. Sci. Comput. 14 (1993) 461, doi:10.1137/0914028. M may be another one in each step: the
// vectors z_j = M_j^-1 v_j are kept, and x := x + Z y instead of x + M^-1 V y. With the same M in each step it is
// GMRES. Memory: with M another (m - 1) n.
//
// Several columns share the position in the cycle, so w = A M^-1 v_j of all columns lies in the next place of the
// basis, and nothing is copied. A column that ends leaves its lane, where zeros take its place. A column that must
// begin again in the middle of the cycle waits until the others have ended or begin again, too; meanwhile its lane does
// not run, and the steps of the others do not count for it.
#include "core/communicator.hpp"
#include "solvers/forms.hpp"
#include "solvers/methods.hpp"

namespace protean::detail {

template <class L, bool flexible>
class GmresOf : public StepsOf<L> {
  using Base = StepsOf<L>;
  using typename Base::T, typename Base::View, typename Base::Input, typename Base::System,
      typename Base::Start;

 public:
  static constexpr bool cycles = true, finishes = true;
  enum Signal { SignalRR, SignalNext, SignalColumn, SignalCount };
  // No new direction, h_j+1,j <= 16 eps ||A M^-1 v_j||: the Krylov space holds the solution (happy breakdown), or A is
  // singular. Both sides are squared, since squares are what is stored.
  static constexpr LaneGuard guards[] = {direction(SignalNext, "h(j+1,j)^2", SignalColumn)};

  GmresOf(L& lanes, const SolverOptions& options)
      : Base(lanes),
        twice_(options.orthogonalization == "cgs2"),
        // In exact arithmetic n steps are enough.
        m_(std::min(options.restart, std::max<std::int64_t>(all_rows(lanes.context(), lanes.rows()), 1))) {
    lanes.add_block(basis_, m_ + 1, false);
    lanes.add(u_);
    if (lanes.preconditioned()) {
      if (flexible)
        lanes.add_block(z_, m_, false);
      else
        lanes.add(z_);
    }
    if (weighs_residuals(options)) lanes.add(r_);
    // cuBLAS loads the result of a product before it overwrites it.
    lanes.add_numbers(GmresScalars<T>::size(m_) + Count);
  }
  static std::int64_t cycle(const SolverOptions& options) noexcept { return options.restart; }
  View scratch() noexcept { return lanes_.vector(u_); }
  std::array<View, 2> spare() noexcept { return {lanes_.vector(basis_, 0), lanes_.vector(basis_, 1)}; }
  // The basis as far as it has grown, and M^-1 times the basis if that is kept.
  std::vector<View> kept(bool ahead) {
    const std::int64_t grown = ahead ? m_ : j_;
    std::vector<View> kept;
    for (std::int64_t i = 0; i <= grown; ++i) kept.push_back(lanes_.vector(basis_, i));
    if (flexible && lanes_.preconditioned())
      for (std::int64_t i = 0; i < grown; ++i) kept.push_back(lanes_.vector(z_, i));
    if (r_.count > 0) kept.push_back(lanes_.vector(r_));
    return kept;
  }
  std::string size_in_words() const { return fmt::format("restart {}", m_); }

  void begin(const System&, const Start& start) {
    const GmresScalars<T> scalars = this->scalars();
    const View v = lanes_.vector(basis_);
    if (r_.count > 0) lanes_.take(start, lanes_.vector(r_));
    // v_0 := r / ||r||, g := ||r|| e_1
    lanes_.take(start, v);
    lanes_.dot(v, v, scalars.w_squared());
    gmres_begin<T>(lanes_.context(), scalars, lanes_.gmres_lanes());
    lanes_.divide(scalars.next(), v);
    j_ = 0;
  }

  void step(const System& s) {
    const GmresScalars<T> scalars = this->scalars();
    const View v = lanes_.vector(basis_, j_), w = lanes_.vector(basis_, j_ + 1);
    // w := A M^-1 v_j
    const View z = s.M ? lanes_.vector(z_, flexible ? j_ : 0) : v;
    if (s.M) lanes_.precondition(s, v, z);
    lanes_.product(s, z, w);
    // h_ij := v_i . w, w := w - sum_i h_ij v_i, w . w
    if (twice_)
      classical_twice(scalars, w);
    else
      modified(scalars, w);
    // h_j+1,j := ||w||; rotations; the residual norm is |g_j+1|
    gmres_rotate<T>(lanes_.context(), scalars, j_, twice_, lanes_.gmres_lanes());
    // v_j+1 := w / h_j+1,j
    lanes_.divide(scalars.next(), w);
    if (r_.count > 0) carry_residual(scalars, w);
    ++j_;
  }

  void finish(const System& s, std::int64_t steps) {
    if (steps == 0) return;
    const GmresScalars<T> scalars = this->scalars();
    // y := R^-1 g
    gmres_solve<T>(lanes_.context(), scalars, steps, lanes_.gmres_lanes());
    // u := V y, or Z y
    const bool from_z = flexible && s.M;
    const View u = lanes_.vector(u_);
    lanes_.zero(u_);
    lanes_.block_axpy(T(1), lanes_.part(from_z ? z_ : basis_, 0, steps), scalars.y(), u);
    // x := x + M^-1 u, or x + u
    const bool last = s.M && !from_z;
    if (last) lanes_.precondition(s, u, lanes_.vector(z_));
    lanes_.axpy(T(1), last ? lanes_.vector(z_) : u, lanes_.x(s));
  }

  std::int64_t period() const noexcept { return m_; }
  std::int64_t position() const noexcept { return j_; }
  void set_position(std::int64_t position) noexcept { j_ = position; }
  bool cycle_ended() const noexcept { return j_ == m_; }
  T* signal(int number, bool) noexcept {
    const GmresScalars<T> scalars = this->scalars();
    return number == SignalRR     ? scalars.residual_squared()
           : number == SignalNext ? scalars.w_squared()
                                  : scalars.column_squared();
  }
  std::span<const LaneGuard> tested(bool) const noexcept {
    return j_ > 0 ? std::span<const LaneGuard>(guards) : std::span<const LaneGuard>();
  }
  Input residual() noexcept { return lanes_.vector(r_); }

 private:
  using Base::at, Base::lanes_;
  // They follow the scalars of GmresScalars.
  enum Place { SS, GC, Count };
  T* number(Place place) noexcept { return at(GmresScalars<T>::size(m_) + place); }
  GmresScalars<T> scalars() noexcept { return lanes_.gmres_scalars(0, m_); }

  // After rotation j_, with v_j+1.
  void carry_residual(const GmresScalars<T>& scalars, Input v) {
    const std::int64_t step = scalars.step;
    const T *const c = scalars.cosines() + j_ * step, *const sine = scalars.sines() + j_ * step;
    lanes_.set(number(SS), {1, sine}, {1, sine});
    lanes_.set(number(GC), {1, scalars.g() + (j_ + 1) * step}, {1, c});
    lanes_.axpby({1, number(GC)}, v, {1, number(SS)}, lanes_.vector(r_));
  }

  void classical_twice(const GmresScalars<T>& scalars, View w) {
    const auto V = lanes_.part(basis_, 0, j_ + 1);
    lanes_.block_dot(V, w, scalars.column(j_));
    lanes_.block_axpy(T(-1), V, scalars.column(j_), w);
    lanes_.block_dot(V, w, scalars.correction());
    lanes_.block_axpy(T(-1), V, scalars.correction(), w, scalars.w_squared());
  }

  void modified(const GmresScalars<T>& scalars, View w) {
    for (std::int64_t i = 0; i <= j_; ++i) {
      T* const h = scalars.column(j_) + i * scalars.step;
      const View v = lanes_.vector(basis_, i);
      lanes_.dot(v, w, h);
      lanes_.axpy_dot({-1, h}, v, w, scalars.w_squared());
    }
  }

  const bool twice_;
  const std::int64_t m_;
  std::int64_t j_ = 0;
  LaneVectors<T> basis_, u_, z_, r_;
};

template <class L>
class Gmres final : public GmresOf<L, false> {
 public:
  static constexpr std::string_view id = "gmres";
  using GmresOf<L, false>::GmresOf;
};

template <class L>
class FGmres final : public GmresOf<L, true> {
 public:
  static constexpr std::string_view id = "fgmres";
  using GmresOf<L, true>::GmresOf;
};

constinit const SolverEntry fgmres = solver_entry<FGmres>(
    "Flexible GMRES, for a preconditioner that changes from step to step; twice the memory of gmres",
    "Saad, SIAM J. Sci. Comput. 14 (1993) 461");
constinit const SolverEntry gmres = solver_entry<Gmres>(
    "Generalised minimal residuals, restarted, for any matrix; memory grows with the restart",
    "Saad and Schultz, SIAM J. Sci. Stat. Comput. 7 (1986) 856; Saad 2003, algorithms 6.11 and 9.5");
constinit const MultiMethodEntry fgmres_of_columns = columns_entry<FGmres>(),
                                 gmres_of_columns = columns_entry<Gmres>();

}  // namespace protean::detail
