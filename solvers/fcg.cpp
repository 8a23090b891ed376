// Flexible conjugate gradients, FCG(m): Notay, SIAM J. Sci. Comput. 22 (2000) 1444, doi:10.1137/S1064827599362314.
// A symmetric positive definite; M^-1 r may be another function of r in each step, for instance some steps of another
// method, as long as r . M^-1 r > 0. Each direction is made conjugate to the m last ones explicitly:
//
//   z_k = M_k^-1 r_k,  p_k = z_k - sum_i (z_k . A p_i / p_i . A p_i) p_i,  i = k-m .. k-1
//   alpha = r_k . p_k / p_k . A p_k,  x := x + alpha p_k,  r := r - alpha A p_k
//
// In exact arithmetic r_k is orthogonal to these p_i, and r_k . p_k is r_k . z_k. Near the attainable accuracy it is
// not: then alpha = r_k . z_k / p_k . A p_k no longer gives the smallest error on the line, and the residuals grow
// without bound. With the same M in each step the sum has one term only, and it is CG. Where M changes little, m = 1 is
// enough; it is the method of Golub and Ye, SIAM J. Sci. Comput. 21 (1999) 1305. The window of m directions moves by
// one with each step; the paper's own one shrinks to one direction after m steps.
//
// Memory traffic of one iteration in vectors of n, read + written; the matrix of the product comes on top:
//
//   operation                    no M         diagonal M     general M
//   q := A p, p . q              1 + 1        1 + 1          1 + 1 (all: + 2 where A cannot fuse the dot)
//   r . p                        2            2              2
//   x; r, r . r                  4 + 2        4 + 2          4 + 2
//   z := M^-1 r, r . z           -            4 + 1          1 + 1 (+ M, + 2 where M cannot fuse the dot)
//   z . q_i                      m + 1        m + 1          m + 1 (on a GPU m + 2 for m = 5; see below)
//   p                            m + 3 + 3    m + 3 + 3      m + 3 + 3
//   sum, m = 5                   27           32             29
//
// p takes two passes over the other directions, those after and those before its own place, and m + 2 + 2 where one of
// the two has none. The kernels of a GPU take 8, 4, 2 or 1 of the z . q_i at a time and read z for each of these
// groups; for m > 8 cuBLAS takes all of them.
#include "solvers/method.hpp"
#include "solvers/methods.hpp"
#include "solvers/scalar_work.hpp"

namespace protean::detail {
namespace {

template <class T>
class Fcg final : public Method<T> {
 public:
  static constexpr std::string_view id = "fcg";
  static constexpr bool symmetric_preconditioner = false;
  Fcg(const SolverOptions& options, const WorkspaceLayout& layout)
      : m_(options.directions), stride_((layout.n + 15) / 16 * 16) {
    const ContextPtr& context = layout.context;
    for (Vector<T>* v : {&p_, &q_}) *v = make_vector<T>(context, m_ * stride_);
    for (Vector<T>* v : {&r_, &z_}) *v = make_vector<T>(context, layout.n);
    numbers_ = Vector<T>(context, Count + 2 * m_);
    fill<T>(*context, T(0), numbers_);
  }
  VectorView<T> scratch() noexcept override { return z_; }
  std::array<VectorView<T>, 2> spare() noexcept override {
    return {r_.view(), VectorView<T>{p_.data(), r_.size(), p_.space()}};
  }

  std::vector<VectorView<T>> kept_vectors(bool) override {
    std::vector<VectorView<T>> kept{r_.view()};
    for (std::int64_t i = 0; i < m_; ++i) {
      kept.push_back(block(p_).column(i));
      kept.push_back(block(q_).column(i));
    }
    return kept;
  }

  void begin(const System<T>& s, VectorView<const T> r) override {
    const Context& context = s.context();
    slot_ = 0;
    // Slots without a direction are 0.
    fill<T>(context, T(0), p_), fill<T>(context, T(0), q_), fill<T>(context, T(0), numbers_);
    copy<T>(context, r, r_);
    // p := z = M^-1 r;  r . r, r . z
    const VectorView<T> p = block(p_).column(0);
    s.precondition(r_, p);
    dot_pair<T>(context, r_, r_, p, at(RR));
    guards_[0] = {at(RZ), Test::positive, StopReason::indefinite_preconditioner, "r . M^-1 r"};
    guard_count_ = 1;
  }

  void step(const System<T>& s) override {
    const Context& context = s.context();
    const VectorBlock<T> P = block(p_), Q = block(q_);
    const std::int64_t now = slot_, next = (slot_ + 1) % m_;
    slot_ = next;
    T* const pq = at(Count) + now;
    // q := A p, p . q;  alpha = r . p / p . q
    s.product_dot(P.column(now), Q.column(now), pq);
    dot<T>(context, r_, P.column(now), at(RP));
    const Coefficient<T> alpha{1, at(RP), pq, Demand::positive};
    axpy<T>(context, alpha, P.column(now), s.x);
    set_scalar<T>(context, at(PQ), {1, pq});
    // r := r - alpha q, r . r
    axpy_dot<T>(context, {-1, at(RP), pq, Demand::positive}, Q.column(now), r_, at(RR));
    // z := M^-1 r, r . z
    if (!s.M) {
      set_scalar<T>(context, at(RZ), {1, at(RR)});
    } else if (s.general_preconditioner()) {
      s.precondition_dot(r_, z_, at(RZ));
    } else {
      s.precondition(r_, z_);
      dot<T>(context, r_, z_, at(RZ));
    }
    // c_i = z . q_i / p_i . q_i
    const VectorView<T> z = s.M ? z_.view() : r_.view();
    T* const c = at(Count) + m_;
    block_dot<T>(context, Q, z, c);
    for (std::int64_t i = 0; i < m_; ++i)
      set_scalar<T>(context, c + i, {1, c + i, at(Count) + i, Demand::positive});
    // p := z - sum_i c_i p_i, in the place of the oldest one
    axpby<T>(context, T(1), z, {-1, c + next}, P.column(next));
    if (next > 0) block_axpy<T>(context, T(-1), P.first(next), c, P.column(next));
    if (next + 1 < m_) block_axpy<T>(context, T(-1), after(P, next), c + next + 1, P.column(next));
    guard_step();
  }

  std::int64_t period() const noexcept override { return m_; }
  std::int64_t phase() const noexcept override { return slot_; }
  void set_phase(std::int64_t phase) noexcept override {
    slot_ = phase % m_;
    guard_step();
  }

  Signals<T> signals() const noexcept override {
    return {.residual_squared = numbers_.data() + RR, .guards = {guards_, guard_count_}};
  }
  VectorView<const T> residual() noexcept override { return r_; }

 private:
  // p_i . q_i and c_i follow, one of each for a slot.
  enum Place { RR, RZ, RP, PQ, Count };
  T* at(Place place) noexcept { return numbers_.data() + place; }
  VectorBlock<T> block(Vector<T>& v) const noexcept { return {v.data(), r_.size(), stride_, m_, v.space()}; }
  static VectorBlock<T> after(const VectorBlock<T>& V, std::int64_t j) noexcept {
    return {V.data + (j + 1) * V.stride, V.size, V.stride, V.count - j - 1, V.space};
  }

  // p is 0 where the kept directions span M^-1 r: then p . A p says nothing of A.
  void guard_step() noexcept {
    guards_[0] = {at(RP), Test::nonzero, StopReason::breakdown, "r . p"};
    guards_[1] = {at(PQ), Test::positive, StopReason::indefinite_operator, "p . A p"};
    guards_[2] = {at(RZ), Test::positive, StopReason::indefinite_preconditioner, "r . M^-1 r"};
    guard_count_ = 3;
  }

  const std::int64_t m_, stride_;
  std::int64_t slot_ = 0;
  Vector<T> p_, q_, r_, z_, numbers_;
  Guard<T> guards_[3];
  std::size_t guard_count_ = 0;
};

}  // namespace

constinit const SolverEntry fcg{Fcg<double>::id,
                                "Flexible conjugate gradients, for positive definite matrices and a "
                                "preconditioner that changes from step to step",
                                "Notay, SIAM J. Sci. Comput. 22 (2000) 1444",
                                make_solver_of<double, Fcg>,
                                make_solver_of<float, Fcg>,
                                1,
                                true};

}  // namespace protean::detail
