// Flexible conjugate gradients, FCG(m): Notay, SIAM J. Sci. Comput. 22 (2000) 1444, doi:10.1137/S1064827599362314.
// A symmetric positive definite; M^-1 r may be another function of r in each step, for instance some steps of another
// method, as long as r . M^-1 r > 0. Each direction is made conjugate to the m last ones explicitly:
//
//   z_k = M_k^-1 r_k,  p_k = z_k - sum_i (z_k . A p_i / p_i . A p_i) p_i,  i = k-m .. k-1
//   alpha = r_k . p_k / p_k . A p_k,  x := x + alpha p_k,  r := r - alpha A p_k
//
// In exact arithmetic r_k is orthogonal to these p_i, and r_k . p_k is r_k . z_k. Near the attainable accuracy it is
// not: then alpha = r_k . z_k / p_k . A p_k no longer gives the smallest error on the line, and the residuals grow
// without bound. With the same M in each step the sum has one term only, and it is CG. If M changes little, m = 1 is
// enough; it is the method of Golub and Ye, SIAM J. Sci. Comput. 21 (1999) 1305. The window of m directions moves by
// one with each step; the paper's own one shrinks to one direction after m steps.
//
// Memory traffic of one iteration in vectors of n, read + written; the matrix of the product comes on top:
//
//   operation                    no M         diagonal M     general M
//   q := A p, p . q              1 + 1        1 + 1          1 + 1 (all: + 2 if A cannot fuse the dot)
//   r . p                        2            2              2
//   x; r, r . r                  4 + 2        4 + 2          4 + 2
//   z := M^-1 r, r . z           -            4 + 1          1 + 1 (+ M, + 2 if M cannot fuse the dot)
//   z . q_i                      m + 1        m + 1          m + 1 (on a GPU m + 2 for m = 5; see below)
//   p                            m + 3 + 3    m + 3 + 3      m + 3 + 3
//   sum, m = 5                   27           32             29
//
// p takes two passes over the other directions, one over the directions after its own place and one over the directions
// before it, and m + 2 + 2 if one of the two has no directions. The kernels of a GPU take 8, 4, 2 or 1 of the z . q_i
// at a time and read z for each of these groups; for m > 8 cuBLAS takes all of them.
#include "solvers/forms.hpp"
#include "solvers/methods.hpp"

namespace protean::detail {

template <class L>
class Fcg final : public StepsOf<L> {
  using Base = StepsOf<L>;
  using typename Base::T, typename Base::View, typename Base::Input, typename Base::System,
      typename Base::Start;

 public:
  static constexpr std::string_view id = "fcg";
  static constexpr bool symmetric = true, turns = true;
  enum Signal { SignalRR, SignalRP, SignalPQ, SignalRZ, SignalCount };
  // p is 0 if the kept directions span M^-1 r; p . A p then says nothing about A.
  static constexpr LaneGuard guards[] = {
      nonzero(SignalRP, "r . p"), positive(SignalPQ, StopReason::indefinite_operator, "p . A p"),
      positive(SignalRZ, StopReason::indefinite_preconditioner, "r . M^-1 r", true)};

  Fcg(L& lanes, const SolverOptions& options) : Base(lanes), m_(options.directions) {
    lanes.add_block(p_, m_), lanes.add_block(q_, m_);
    lanes.add(r_), lanes.add(z_);
    lanes.add_numbers(Count + 2 * m_);
  }
  View scratch() noexcept { return lanes_.vector(z_); }
  std::array<View, 2> spare() noexcept { return {lanes_.vector(r_), lanes_.vector(p_)}; }
  std::vector<View> kept(bool) {
    std::vector<View> kept{lanes_.vector(r_)};
    for (std::int64_t i = 0; i < m_; ++i)
      kept.push_back(lanes_.vector(p_, i)), kept.push_back(lanes_.vector(q_, i));
    return kept;
  }
  std::string size_in_words() const { return fmt::format("directions {}", m_); }

  void begin(const System& s, const Start& start) {
    if (L::single) slot_ = 0;
    // Slots without a direction are 0.
    lanes_.zero(p_), lanes_.zero(q_), lanes_.zero_numbers();
    const View r = lanes_.vector(r_), p = lanes_.vector(p_, slot_);
    lanes_.take(start, r);
    // p := z = M^-1 r;  r . r, r . z
    lanes_.precondition(s, r, p);
    lanes_.dot_pair(r, r, p, at(RR));
  }

  void step(const System& s) {
    const std::int64_t now = slot_, next = (slot_ + 1) % m_;
    slot_ = next;
    const View p = lanes_.vector(p_, now), q = lanes_.vector(q_, now), r = lanes_.vector(r_),
               z = s.M ? lanes_.vector(z_) : r, new_p = lanes_.vector(p_, next);
    const std::int64_t pq = Count, c = Count + m_;
    // q := A p, p . q;  alpha = r . p / p . q
    lanes_.product_dot(s, p, q, at(pq + now));
    lanes_.dot(r, p, at(RP));
    lanes_.axpy({1, at(RP), at(pq + now), Demand::positive}, p, lanes_.x(s));
    lanes_.set(at(PQ), {1, at(pq + now)});
    // r := r - alpha q, r . r
    lanes_.axpy_dot({-1, at(RP), at(pq + now), Demand::positive}, q, r, at(RR));
    // z := M^-1 r, r . z
    if (!s.M) {
      lanes_.set(at(RZ), {1, at(RR)});
    } else if (s.general_preconditioner()) {
      lanes_.precondition_dot(s, r, z, at(RZ));
    } else {
      lanes_.precondition(s, r, z);
      lanes_.dot(r, z, at(RZ));
    }
    // c_i = z . q_i / p_i . q_i
    lanes_.block_dot(lanes_.part(q_, 0, m_), z, at(c));
    for (std::int64_t i = 0; i < m_; ++i) lanes_.set(at(c + i), {1, at(c + i), at(pq + i), Demand::positive});
    // p := z - sum_i c_i p_i, in the place of the oldest one
    lanes_.axpby(T(1), z, {-1, at(c + next)}, new_p);
    if (next > 0) lanes_.block_axpy(T(-1), lanes_.part(p_, 0, next), at(c), new_p);
    if (const std::int64_t after = m_ - next - 1; after > 0)
      lanes_.block_axpy(T(-1), lanes_.part(p_, next + 1, after), at(c + next + 1), new_p);
  }

  std::int64_t period() const noexcept { return m_; }
  std::int64_t position() const noexcept { return slot_; }
  void set_position(std::int64_t position) noexcept { slot_ = position % m_; }
  std::vector<std::vector<View>> turning() {
    std::vector<std::vector<View>> groups(3);
    for (std::int64_t i = 0; i < m_; ++i) {
      groups[0].push_back(lanes_.vector(p_, i)), groups[1].push_back(lanes_.vector(q_, i));
      groups[2].push_back(lanes_.numbers(Count + i, 1));
    }
    return groups;
  }
  T* signal(int number, bool) noexcept {
    constexpr Place places[] = {RR, RP, PQ, RZ};
    return at(places[number]);
  }
  std::span<const LaneGuard> tested(bool first) const noexcept {
    return std::span(guards).subspan(first ? 2 : 0);
  }
  Input residual() noexcept { return lanes_.vector(r_); }

 private:
  using Base::at, Base::lanes_;
  // p_i . q_i and c_i follow, one of each for a slot.
  enum Place { RR, RZ, RP, PQ, Count };

  const std::int64_t m_;
  std::int64_t slot_ = 0;
  LaneVectors<T> p_, q_, r_, z_;
};

constinit const SolverEntry fcg = solver_entry<Fcg>(
    "Flexible conjugate gradients, for positive definite matrices and a preconditioner that changes from step to step",
    "Notay, SIAM J. Sci. Comput. 22 (2000) 1444");
constinit const MultiMethodEntry fcg_of_columns = columns_entry<Fcg>();

}  // namespace protean::detail
