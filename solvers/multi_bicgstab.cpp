// BiCGStab for several columns side by side; bicgstab.cpp for each of them. alpha = rho / (r0 . v), omega = t . s / t .
// t and beta = (rho / r0 . v) (t . t / t . s) with the new rho are computed where they are used.
#include "solvers/multi_method.hpp"

namespace protean::detail {
namespace {

enum Scalar { RR, Rho, R0R0, R0V, SS, TS, TT, Count };
static_assert(Count <= most_lane_scalars);

constexpr StopReason bad = StopReason::breakdown;
constexpr LaneGuard guards[] = {
    {.value = R0V, .test = Test::nonzero, .reason = bad, .meaning = "r0 . A M^-1 p"},
    {.value = TS,
     .test = Test::nonzero,
     .reason = bad,
     .meaning = "omega = 0: t . s",
     .epsilons = 1,
     .scale_a = TT,
     .scale_b = SS},
    {.value = Rho,
     .test = Test::nonzero,
     .reason = bad,
     .meaning = "rho = r0 . r",
     .epsilons = 1,
     .scale_a = R0R0,
     .scale_b = RR}};

// free_ holds t within a step. p' = M^-1 p and s' = M^-1 s are p and s without a preconditioner.
template <class T>
class MultiBiCgStab final : public MultiMethod<T> {
 public:
  MultiBiCgStab(const ContextPtr& context, std::int64_t n, std::int64_t most, bool preconditioned)
      : MultiMethod<T>(multi_bicgstab.traits, context, n, most), scalars_(context, Count * most) {
    this->allocate({&x_, &free_, &r_, &r0_, &p_, &v_});
    if (preconditioned) this->allocate({&mp_, &ms_});
    fill<T>(*context, T(0), scalars_);
  }

  T* scalars(int s) noexcept override { return scalars_.data() + width_ * s; }

  void begin(const MultiSystem<T>& s, MultiVectorView<const T> from,
             std::span<const ColumnPair> pairs) override {
    const Context& context = *context_;
    const MultiVectorView<T> r = view(r_);
    for (Vector<T>* v : {&r_, &r0_, &p_}) copy_columns<T>(context, from, view(*v), pairs);
    for (const Scalar place : {RR, Rho, R0R0}) multi_dot<T>(context, r, r, this->chosen(), scalars(place));
    if (s.general_preconditioner()) {
      // Lanes that are in the middle of their steps keep their p'.
      const std::vector<ColumnPair> own = own_lanes(pairs);
      this->product(*s.M, r, view(free_), own);
      copy_columns<T>(context, view(free_), view(mp_), own);
    } else if (s.M) {
      multi_multiply<T>(context, s.d, r, view(mp_), this->chosen());
    }
  }

  void step(const MultiSystem<T>& s, std::span<const ColumnPair> lanes) override {
    if (this->is_single()) return step_of_one(s);
    const Context& context = *context_;
    const bool general = s.general_preconditioner();
    const T* const running = this->running();
    T *const rho = scalars(Rho), *const r0v = scalars(R0V), *const ts = scalars(TS), *const tt = scalars(TT);
    const MultiVectorView<T> r = view(r_), v = view(v_), t = view(free_), p = view(p_), mp = view(mp_),
                             ms = view(ms_), direction = s.M ? mp : p, z = s.M ? ms : r;
    this->product(s.A, direction, v, lanes);
    multi_dot<T>(context, view(r0_), v, running, r0v);
    // s := r - alpha v, in the place of r
    multi_bicgstab_half<T>(context, rho, r0v, v, s.d, r, z, running, scalars(SS));
    if (general) this->product(*s.M, r, ms, lanes);
    this->product(s.A, z, t, lanes);
    multi_dot_pair<T>(context, t, r, running, ts, tt);
    multi_bicgstab_update<T>(context, rho, r0v, ts, tt, direction, z, t, view(r0_), this->x(), r, running,
                             scalars(RR), rho);
    multi_bicgstab_direction<T>(context, rho, r0v, ts, tt, r, v, s.d, p, mp, running);
    if (general) this->product(*s.M, p, mp, lanes);
  }

 protected:
  std::vector<Vector<T>*> vectors() override { return {&x_, &free_, &r_, &r0_, &p_, &v_, &mp_, &ms_}; }
  std::vector<Vector<T>*> kept() override {
    std::vector<Vector<T>*> kept{&x_, &r_, &r0_, &p_};
    if (mp_.size() > 0) kept.push_back(&mp_);
    return kept;
  }
  void forget_scalars() override { fill<T>(*context_, T(0), scalars_); }

 private:
  void step_of_one(const MultiSystem<T>& s) {
    const Context& context = *context_;
    const bool general = s.general_preconditioner();
    T *const rho = scalars(Rho), *const r0v = scalars(R0V), *const ts = scalars(TS), *const tt = scalars(TT);
    const VectorView<T> r = single(r_), v = single(v_), t = single(free_), p = single(p_), mp = single(mp_),
                        ms = single(ms_), direction = s.M ? mp : p, z = s.M ? ms : r;
    s.A.apply(direction, v);
    dot<T>(context, single(r0_), v, r0v);
    // rho is overwritten before the last use of alpha.
    T alpha = 0, beta = 0;
    scalar_product<T>(context, {1, rho, r0v, Demand::nonzero}, T(1), &alpha);
    bicgstab_half<T>(context, {-1, &alpha}, v, s.d, r, z, scalars(SS));
    if (general) s.M->apply(r, ms);
    s.A.apply(z, t);
    dot_pair<T>(context, t, r, t, ts);  // and tt, which lies behind it
    const Coefficient<T> omega{1, ts, tt, Demand::positive};
    bicgstab_update<T>(context, {1, &alpha}, direction, omega, z, t, single(r0_), single(x_), r, scalars(RR));
    scalar_product<T>(context, {1, rho, r0v, Demand::nonzero}, {1, tt, ts, Demand::nonzero}, &beta);
    bicgstab_direction<T>(context, r, {1, &beta}, omega, v, s.d, p, mp);
    if (general) s.M->apply(p, mp);
  }

  using MultiMethod<T>::context_, MultiMethod<T>::width_, MultiMethod<T>::x_, MultiMethod<T>::free_;
  using MultiMethod<T>::view, MultiMethod<T>::single;
  Vector<T> r_, r0_, p_, v_, mp_, ms_, scalars_;
};

template <class T>
std::unique_ptr<MultiMethod<T>> make(const SolverOptions&, const ContextPtr& context, std::int64_t n,
                                     std::int64_t most, WorkspaceLayout::Preconditioning preconditioning) {
  return std::make_unique<MultiBiCgStab<T>>(context, n, most,
                                            preconditioning != WorkspaceLayout::Preconditioning::none);
}

}  // namespace

constinit const MultiMethodEntry multi_bicgstab{
    {.id = "bicgstab", .products = 2, .symmetric_preconditioner = false, .scalars = Count, .guards = guards},
    make<double>,
    make<float>};

}  // namespace protean::detail
