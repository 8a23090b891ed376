// Conjugate gradients for several columns side by side: the vectors, the scalars and one step. multi_solver.cpp drives it.
// Private to solvers/.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/blas1.hpp"
#include "core/multi_blas1.hpp"
#include "operators/multi_product.hpp"
#include "preconditioners/preconditioner.hpp"

namespace protean::detail {

template <class T>
struct MultiSystem {
  const LinearOperator<T>& A;
  MultiVectorView<const T> B;
  MultiVectorView<T> X;
  const Preconditioner<T>* M;
  VectorView<const T> d;  // the entries of M^-1 where M^-1 is a diagonal, else empty

  const Context& context() const noexcept { return *A.context(); }
  bool general_preconditioner() const noexcept { return M && d.size == 0; }
};

// Vectors lie in lanes 0 .. width - 1 of interleaved vectors. A lane that does not run holds a column that has ended, or
// nothing. Lanes that run nothing are few: see multi_width().
template <class T>
class MultiCg {
 public:
  // Room for vectors of n entries in up to `most` lanes.
  MultiCg(const ContextPtr& context, std::int64_t n, std::int64_t most, bool general)
      : context_(context), n_(n), most_(most), scalars_(context, 7 * most) {
    for (Vector<T>* v : {&r_, &p_, &q_, &x_}) *v = Vector<T>(context, n * most);
    if (general) z_ = Vector<T>(context, n * most);
    fill<T>(*context, T(0), scalars_);
  }
  const ContextPtr& context() const noexcept { return context_; }
  std::int64_t rows() const noexcept { return n_; }
  std::int64_t most() const noexcept { return most_; }

  std::int64_t width() const noexcept { return width_; }
  // All lanes are 0 in all vectors, and none runs.
  void reset(std::int64_t width) {
    width_ = width, parity_ = 0;
    for (Vector<T>* v : {&r_, &p_, &q_, &x_, &z_})
      if (v->size() > 0) fill<T>(*context_, T(0), VectorView<T>{v->data(), n_ * width_, v->space()});
    fill<T>(*context_, T(0), scalars_);
  }
  MultiVectorView<T> x() noexcept { return view(x_, width_); }
  MultiVectorView<T> r() noexcept { return view(r_, width_); }
  MultiVectorView<T> p() noexcept { return view(p_, width_); }
  // Free between two steps. `second`: the half that begins after the first `width` lanes.
  MultiVectorView<T> free(std::int64_t width, bool second = false) noexcept {
    MultiVectorView<T> v = view(q_, width);
    if (second) v.data += n_ * width;
    return v;
  }

  // {p . A p, r . r, r . z, r . r, r . z}, `width` numbers each: one pair for even and one for odd steps.
  T* pq() noexcept { return scalars_.data(); }
  T* rr() noexcept { return rr_of(parity_); }
  T* rz() noexcept { return rr_of(parity_) + width_; }
  T* running() noexcept { return scalars_.data() + 5 * most_; }
  // Of a call of begin(), and results of others.
  T* chosen() noexcept { return scalars_.data() + 6 * most_; }

  // r := the vectors of `from`, p := M^-1 r, and their scalars, for lanes pairs[i].to. chosen() has 1 for them, else 0.
  void begin(const MultiSystem<T>& s, MultiVectorView<const T> from, std::span<const ColumnPair> pairs) {
    copy_columns<T>(*context_, from, r(), pairs);
    if (s.general_preconditioner()) {
      std::vector<ColumnPair> own;
      for (const ColumnPair pair : pairs) own.push_back({pair.to, pair.to});
      precondition(s, own);
      copy_columns<T>(*context_, view(z_, width_), p(), own);
    } else {
      multi_multiply<T>(*context_, s.d, r(), p(), chosen());
    }
    multi_dot<T>(*context_, r(), r(), chosen(), rr());
    multi_dot<T>(*context_, r(), p(), chosen(), rz());
  }

  // One step of the lanes that run, which are `lanes`.
  void step(const MultiSystem<T>& s, std::span<const ColumnPair> lanes) {
    T* const rz_now = rz();
    parity_ = 1 - parity_;
    const bool general = s.general_preconditioner();
    const Context& context = *context_;
    if (width_ == 1 && context.space() == Space::host) {
      // The vector operations that were made for one vector.
      const VectorView<T> pv = r_like(p_), qv = r_like(q_), rv = r_like(r_), xv = r_like(x_);
      apply_dot<T>(s.A, pv, qv, pq());
      const Coefficient<T> alpha{1, rz_now, pq(), Demand::positive}, beta{1, rz(), rz_now, Demand::positive};
      cg_residual<T>(context, alpha, qv, s.d, rv, rr());
      if (general) apply_dot<T>(*s.M, rv, r_like(z_), rz());
      cg_direction<T>(context, alpha, s.d, general ? r_like(z_) : rv, beta, xv, pv);
      return;
    }
    product(s.A, p(), free(width_), lanes);
    multi_dot<T>(context, p(), free(width_), running(), pq());
    multi_cg_residual<T>(context, rz_now, pq(), free(width_), s.d, r(), running(), rr(),
                         general ? nullptr : rz());
    if (general) {
      precondition(s, lanes);
      multi_dot<T>(context, r(), view(z_, width_), running(), rz());
    }
    multi_cg_direction<T>(context, rz_now, pq(), rz(), s.d, general ? view(z_, width_) : r(), x(), p(),
                          running());
  }

  // Y := A X in the given lanes; others may be computed, too.
  void product(const LinearOperator<T>& A, MultiVectorView<const T> X, MultiVectorView<T> Y,
               std::span<const ColumnPair> lanes) {
    if (X.columns == 1 || column_by_column(A).empty()) return multi_apply<T>(A, T(1), X, T(0), Y, &scratch_);
    for (const ColumnPair lane : lanes)
      multi_apply<T>(A, T(1), X.part(lane.to, 1), T(0), Y.part(lane.to, 1), &scratch_);
  }

  // Keeps the lanes keep[i].from as lanes keep[i].to of `width` lanes. The scalars must be set again.
  void pack(std::int64_t width, std::span<const ColumnPair> keep) {
    for (Vector<T>* v : {&r_, &p_, &x_}) {
      const MultiVectorView<T> to = view(q_, width);
      fill<T>(*context_, T(0), VectorView<T>{to.data, n_ * width, to.space});
      copy_columns<T>(*context_, view(*v, width_), to, keep);
      std::swap(*v, q_);
    }
    width_ = width, parity_ = 0;
  }

 private:
  MultiVectorView<T> view(Vector<T>& v, std::int64_t width) noexcept {
    return {v.data(), n_, width, width, VectorLayout::interleaved, v.space()};
  }
  VectorView<T> r_like(Vector<T>& v) noexcept { return {v.data(), n_, v.space()}; }
  T* rr_of(int parity) noexcept { return scalars_.data() + width_ * (1 + 2 * parity); }
  void precondition(const MultiSystem<T>& s, std::span<const ColumnPair> lanes) {
    product(*s.M, r(), view(z_, width_), lanes);
  }

  const ContextPtr context_;
  const std::int64_t n_, most_;
  std::int64_t width_ = 0;
  int parity_ = 0;
  Vector<T> r_, p_, q_, x_, z_, scalars_;
  MultiScratch<T> scratch_;
};

// The lanes for so many columns: no more than three are left over. SIMD and cache lines like 4 and 8.
inline std::int64_t multi_width(std::int64_t columns) noexcept {
  return columns <= 2 ? columns : (columns + 3) / 4 * 4;
}

// What is known of a lane when its steps were done.
template <class T>
struct LaneScalars {
  T pq = 0, rr = 0, rz = 0;
};

// Steps on a GPU: some are queued at a time, and judged there; in multi_device_steps.cu.
template <class T>
class MultiDeviceSteps {
 public:
  struct Limits {
    double goal = 0, too_large = 0;
    std::int64_t left = 0;
  };
  // What was computed since the last call: the squared residual of each step of each lane, and the last scalars.
  struct Done {
    std::vector<std::vector<double>> residual_squared;
    std::vector<LaneScalars<T>> last;
    void reset(std::size_t lanes) { residual_squared.assign(lanes, {}), last.assign(lanes, {}); }
  };
  virtual ~MultiDeviceSteps() = default;
  // Nothing is in flight. One for each lane, running or not.
  virtual void start(const std::vector<Limits>& limits) = 0;
  // The next steps, of which some more may be in flight when it returns.
  virtual void next(const MultiSystem<T>& system, MultiCg<T>& cg, std::span<const ColumnPair> lanes,
                    Done& done) = 0;
  // Waits for all that is in flight, and returns it in the same way.
  virtual void settle(Done& done) = 0;
};
template <class T>
std::unique_ptr<MultiDeviceSteps<T>> make_multi_device_steps(const ContextPtr& context, std::int64_t most);

}  // namespace protean::detail
