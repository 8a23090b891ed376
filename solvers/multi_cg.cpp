// Conjugate gradients for several columns side by side; cg.cpp for each of them.
#include "solvers/multi_method.hpp"

namespace protean::detail {
namespace {

enum Scalar { RR, PQ, RZ, Count };

constexpr LaneGuard guards[] = {
    {.value = PQ, .test = Test::positive, .reason = StopReason::indefinite_operator, .meaning = "p . A p"},
    {.value = RZ,
     .test = Test::positive,
     .reason = StopReason::indefinite_preconditioner,
     .meaning = "r . M^-1 r",
     .at_begin = true}};

// free_ holds A p within a step.
template <class T>
class MultiCg final : public MultiMethod<T> {
 public:
  MultiCg(const ContextPtr& context, std::int64_t n, std::int64_t most, bool general)
      : MultiMethod<T>(multi_cg.traits, context, n, most), scalars_(context, 5 * most) {
    this->allocate({&x_, &free_, &r_, &p_});
    if (general) this->allocate({&z_});
    fill<T>(*context, T(0), scalars_);
  }

  // {p . A p, r . r, r . z, r . r, r . z}, one for each lane: one pair for even and one for odd steps.
  T* scalars(int s) noexcept override {
    return scalars_.data() + width_ * (s == PQ ? 0 : (s == RR ? 1 : 2) + 2 * parity_);
  }

  void begin(const MultiSystem<T>& s, MultiVectorView<const T> from,
             std::span<const ColumnPair> pairs) override {
    const Context& context = *context_;
    const MultiVectorView<T> r = view(r_), p = view(p_);
    copy_columns<T>(context, from, r, pairs);
    // p := M^-1 r
    if (s.general_preconditioner()) {
      const std::vector<ColumnPair> own = own_lanes(pairs);
      this->product(*s.M, r, view(z_), own);
      copy_columns<T>(context, view(z_), p, own);
    } else {
      multi_multiply<T>(context, s.d, r, p, this->chosen());
    }
    multi_dot<T>(context, r, r, this->chosen(), scalars(RR));
    multi_dot<T>(context, r, p, this->chosen(), scalars(RZ));
  }

  void step(const MultiSystem<T>& s, std::span<const ColumnPair> lanes) override {
    const Context& context = *context_;
    T* const rz_now = scalars(RZ);
    parity_ = 1 - parity_;
    T *const pq = scalars(PQ), *const rr = scalars(RR), *const rz = scalars(RZ),
             *const running = this->running();
    const bool general = s.general_preconditioner();
    if (this->is_single()) {
      const VectorView<T> p = single(p_), q = single(free_), r = single(r_);
      apply_dot<T>(s.A, p, q, pq);
      const Coefficient<T> alpha{1, rz_now, pq, Demand::positive}, beta{1, rz, rz_now, Demand::positive};
      cg_residual<T>(context, alpha, q, s.d, r, rr);  // and rz, which lies behind it
      if (general) apply_dot<T>(*s.M, r, single(z_), rz);
      cg_direction<T>(context, alpha, s.d, general ? single(z_) : r, beta, single(x_), p);
      return;
    }
    const MultiVectorView<T> p = view(p_), q = view(free_), r = view(r_);
    this->product(s.A, p, q, lanes);
    multi_dot<T>(context, p, q, running, pq);
    multi_cg_residual<T>(context, rz_now, pq, q, s.d, r, running, rr, general ? nullptr : rz);
    if (general) {
      this->product(*s.M, r, view(z_), lanes);
      multi_dot<T>(context, r, view(z_), running, rz);
    }
    multi_cg_direction<T>(context, rz_now, pq, rz, s.d, general ? view(z_) : r, this->x(), p, running);
  }

 protected:
  std::vector<Vector<T>*> vectors() override { return {&x_, &free_, &r_, &p_, &z_}; }
  std::vector<Vector<T>*> kept() override { return {&x_, &r_, &p_}; }
  void forget_scalars() override {
    parity_ = 0;
    fill<T>(*context_, T(0), scalars_);
  }

 private:
  using MultiMethod<T>::context_, MultiMethod<T>::width_, MultiMethod<T>::x_, MultiMethod<T>::free_;
  using MultiMethod<T>::view, MultiMethod<T>::single;
  int parity_ = 0;
  Vector<T> r_, p_, z_, scalars_;
};

template <class T>
std::unique_ptr<MultiMethod<T>> make(const SolverOptions&, const ContextPtr& context, std::int64_t n,
                                     std::int64_t most, WorkspaceLayout::Preconditioning preconditioning) {
  return std::make_unique<MultiCg<T>>(context, n, most,
                                      preconditioning == WorkspaceLayout::Preconditioning::general);
}

}  // namespace

constinit const MultiMethodEntry multi_cg{
    {.id = "cg", .products = 1, .symmetric_preconditioner = true, .scalars = Count, .guards = guards},
    make<double>,
    make<float>};

}  // namespace protean::detail
