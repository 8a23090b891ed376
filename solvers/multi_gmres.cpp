// GMRES(m) for several columns side by side; gmres.cpp for each of them, with right preconditioning and the same
// orthogonalisation.
//
// All lanes share the position in the cycle, so that w = A M^-1 v_j of all of them lies in the next place of the basis,
// and nothing is copied. A column that ends leaves its lane, where zeros take its place. A column that must begin again
// in the middle of the cycle waits until the others have ended or begin again, too; meanwhile its lane does not run,
// and the steps of the others do not count for it.
//
// Memory for each lane: (m + 1) n for the basis, x, n, and, with M, another n.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/error.hpp"
#include "core/memory.hpp"
#include "solvers/gmres_scalars.hpp"
#include "solvers/multi_method.hpp"

namespace protean::detail {
namespace {

enum Scalar { RR, WW, Column, Count };
static_assert(Count <= most_lane_scalars);

// No new direction: gmres.cpp, guard_step().
constexpr LaneGuard guards[] = {{.value = WW,
                                 .test = Test::nonzero,
                                 .reason = StopReason::breakdown,
                                 .meaning = "h(j+1,j)^2",
                                 .epsilons = 16,
                                 .scale_a = Column,
                                 .scale_b = Column,
                                 .squared = true}};

// free_ holds V y when x is formed.
template <class T>
class MultiGmres final : public MultiMethod<T> {
 public:
  MultiGmres(const SolverOptions& options, const ContextPtr& context, std::int64_t n, std::int64_t most,
             bool preconditioned)
      : MultiMethod<T>(multi_gmres.traits, context, n, most), twice_(options.orthogonalization == "cgs2") {
    // In exact arithmetic n steps are enough.
    lanes_.m = std::min(options.restart, std::max<std::int64_t>(n, 1));
    require_room(preconditioned);
    this->allocate({&x_, &free_});
    if (preconditioned) this->allocate({&z_});
    // Each group of vectors begins at a cache line.
    stride_ = (n * most + 15) / 16 * 16;
    basis_ = make_vector<T>(context, stride_ * (lanes_.m + 1));
    records_ = Vector<T>(context, GmresScalars<T>::size(lanes_.m) * most);
    numbers_ = Vector<T>(context, (2 * (lanes_.m + 1) + 4) * most);
    fill<T>(*context, T(0), records_);
    fill<T>(*context, T(0), numbers_);
    const auto sums = most * (lanes_.m + 1);
    lanes_.records = records_.data();
    lanes_.h = numbers_.data(), lanes_.correction = lanes_.h + sums;
    lanes_.residual_squared = lanes_.correction + sums;
    lanes_.w_squared = lanes_.residual_squared + most;
    lanes_.column_squared = lanes_.w_squared + most;
    lanes_.next = lanes_.column_squared + most;
  }

  T* scalars(int s) noexcept override {
    return s == RR ? lanes_.residual_squared : s == WW ? lanes_.w_squared : lanes_.column_squared;
  }
  std::int64_t period() const noexcept override { return lanes_.m; }
  std::int64_t phase() const noexcept override { return j_; }

  // All lanes that run afterwards are among the pairs.
  void begin(const MultiSystem<T>& s, MultiVectorView<const T> from,
             std::span<const ColumnPair> pairs) override {
    const Context& context = s.context();
    const T* const chosen = this->chosen();
    const MultiVectorView<T> v = basis().group(0);
    // v_0 := r / ||r||, g := ||r|| e_1; zeros in the other lanes
    copy_columns<T>(context, from, v, pairs);
    multi_dot<T>(context, v, v, chosen, lanes_.w_squared);
    gmres_begin<T>(context, lanes(), chosen);
    multi_divide<T>(context, lanes_.next, v, chosen);
    j_ = 0;
  }

  void step(const MultiSystem<T>& s, std::span<const ColumnPair> of) override {
    const Context& context = s.context();
    const T* const running = this->running();
    const MultiVectorView<T> v = basis().group(j_), w = basis().group(j_ + 1);
    // w := A M^-1 v_j
    if (s.general_preconditioner())
      this->product(*s.M, v, view(z_), of);
    else if (s.M && this->is_single())
      multiply<T>(context, s.d, single(v), single(z_));
    else if (s.M)
      multi_multiply<T>(context, s.d, v, view(z_), running);
    this->product(s.A, s.M ? view(z_) : v, w, of);
    // h_ij := v_i . w, w := w - sum_i h_ij v_i, w . w
    if (this->is_single())
      orthogonalize_one(context, single(w));
    else
      orthogonalize(context, w);
    // h_j+1,j := ||w||; rotations; the residual norm is |g_j+1|
    gmres_rotate<T>(context, lanes(), j_, twice_, running);
    // v_j+1 := w / h_j+1,j
    if (this->is_single())
      scale<T>(context, {1, nullptr, lanes_.next, Demand::nonzero}, single(w));
    else
      multi_divide<T>(context, lanes_.next, w, running);
    ++j_;
  }

  // Lanes that have done the same number of steps together: on a GPU lanes may have stopped at different ones.
  void finish(const MultiSystem<T>& s, std::span<const LaneSteps> of) override {
    std::vector<LaneSteps> left(of.begin(), of.end());
    while (!left.empty()) {
      const std::int64_t steps = left.front().steps;
      std::vector<ColumnPair> own;
      for (const LaneSteps& one : left)
        if (one.steps == steps) own.push_back({one.lane, one.lane});
      std::erase_if(left, [=](const LaneSteps& one) { return one.steps == steps; });
      if (steps > 0) form_x(s, own, steps);
    }
  }

 protected:
  std::vector<Vector<T>*> vectors() override { return {&x_, &free_, &z_}; }
  std::vector<Vector<T>*> kept() override { return {&x_}; }
  void forget_scalars() override { fill<T>(*context_, T(0), numbers_); }
  void pack_more(std::int64_t width, std::span<const ColumnPair> keep) override {
    const Context& context = *context_;
    const MultiVectorView<T> narrow = view(free_, width);
    const VectorView<T> all{narrow.data, n_ * width, narrow.space};
    for (std::int64_t i = 0; i <= j_; ++i) {
      T* const place = basis_.data() + i * stride_;
      fill<T>(context, T(0), all);
      copy_columns<T>(context, basis().group(i), narrow, keep);
      copy<T>(context, all, VectorView<T>{place, all.size, all.space});
    }
    // Lanes go down and keep their order, so none is overwritten before it is moved.
    const std::int64_t size = GmresScalars<T>::size(lanes_.m);
    for (const ColumnPair lane : keep)
      if (lane.from != lane.to)
        copy<T>(context, VectorView<const T>{records_.data() + lane.from * size, size, records_.space()},
                VectorView<T>{records_.data() + lane.to * size, size, records_.space()});
  }

 private:
  void require_room(bool preconditioned) const {
    const auto vectors = static_cast<double>(lanes_.m + (preconditioned ? 4 : 3));
    const auto restart = static_cast<double>(lanes_.m), most = static_cast<double>(most_);
    const double bytes = (vectors * static_cast<double>(n_) * most + (restart + 8) * (restart + 1) * most) *
                         static_cast<double>(sizeof(T));
    const std::string what = fmt::format(
        "gmres with restart {} and {} right-hand sides (fewer of either need less)", lanes_.m, most_);
    if (bytes > 1e18) throw OutOfMemory(what + " needs more memory than any address space has", 0);
    if (context_->space() == Space::host) require_memory(static_cast<std::size_t>(bytes), what);
  }

  MultiVectorBlock<T> basis() noexcept {
    return {basis_.data(), n_, width_, stride_, lanes_.m + 1, basis_.space()};
  }
  GmresLanes<T> lanes() const noexcept {
    GmresLanes<T> present = lanes_;
    present.width = width_;
    return present;
  }
  static VectorView<T> single(const MultiVectorView<T>& v) noexcept { return {v.data, v.rows, v.space}; }
  VectorView<T> single(Vector<T>& v) noexcept { return MultiMethod<T>::single(v); }

  void orthogonalize(const Context& context, const MultiVectorView<T>& w) {
    const T* const running = this->running();
    const MultiVectorBlock<T> V = basis().part(0, j_ + 1);
    if (twice_) {
      multi_block_dot<T>(context, V, w, running, lanes_.h);
      multi_block_axpy<T>(context, -1, V, lanes_.h, w, running);
      multi_block_dot<T>(context, V, w, running, lanes_.correction);
      multi_block_axpy<T>(context, -1, V, lanes_.correction, w, running, lanes_.w_squared);
      return;
    }
    for (std::int64_t i = 0; i <= j_; ++i) {
      T* const h = lanes_.h + i * width_;
      multi_dot<T>(context, V.group(i), w, running, h);
      multi_block_axpy<T>(context, -1, V.part(i, 1), h, w, running, lanes_.w_squared);
    }
  }
  void orthogonalize_one(const Context& context, const VectorView<T>& w) {
    const VectorBlock<T> V{basis_.data(), n_, stride_, j_ + 1, basis_.space()};
    if (twice_) {
      block_dot<T>(context, V, w, lanes_.h);
      block_axpy<T>(context, T(-1), V, lanes_.h, w);
      block_dot<T>(context, V, w, lanes_.correction);
      block_axpy<T>(context, T(-1), V, lanes_.correction, w, lanes_.w_squared);
      return;
    }
    for (std::int64_t i = 0; i <= j_; ++i) {
      T* const h = lanes_.h + i;
      dot<T>(context, V.column(i), w, h);
      axpy_dot<T>(context, {-1, h}, V.column(i), w, lanes_.w_squared);
    }
  }

  void form_x(const MultiSystem<T>& s, std::span<const ColumnPair> own, std::int64_t steps) {
    const Context& context = s.context();
    this->mark(this->chosen(), own);
    const T* const chosen = this->chosen();
    // y := R^-1 g
    gmres_solve<T>(context, lanes(), steps, chosen);
    // u := V y
    const MultiVectorView<T> u = view(free_);
    fill<T>(context, T(0), VectorView<T>{u.data, n_ * width_, u.space});
    multi_block_axpy<T>(context, 1, basis().part(0, steps), lanes_.h, u, chosen);
    // x := x + M^-1 u
    if (s.general_preconditioner()) this->product(*s.M, u, view(z_), own);
    multi_add_product<T>(context, s.d, s.general_preconditioner() ? view(z_) : u, this->x(), chosen);
  }

  using MultiMethod<T>::context_, MultiMethod<T>::n_, MultiMethod<T>::most_, MultiMethod<T>::width_;
  using MultiMethod<T>::x_, MultiMethod<T>::free_, MultiMethod<T>::view;
  const bool twice_;
  std::int64_t stride_ = 0, j_ = 0;
  Vector<T> basis_, z_, records_, numbers_;
  GmresLanes<T> lanes_;
};

template <class T>
std::unique_ptr<MultiMethod<T>> make(const SolverOptions& options, const ContextPtr& context, std::int64_t n,
                                     std::int64_t most, WorkspaceLayout::Preconditioning preconditioning) {
  return std::make_unique<MultiGmres<T>>(options, context, n, most,
                                         preconditioning != WorkspaceLayout::Preconditioning::none);
}

}  // namespace

constinit const MultiMethodEntry multi_gmres{{.id = "gmres",
                                              .products = 1,
                                              .symmetric_preconditioner = false,
                                              .scalars = Count,
                                              .guards = guards,
                                              .cycles = true},
                                             make<double>,
                                             make<float>};

}  // namespace protean::detail
