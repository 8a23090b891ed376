// The interface between a method for several columns side by side and its driver in multi_solver.cpp: begin(), step(),
// finish(), and for each column the scalars that decide whether it goes on. Private to solvers/.
//
// Vectors lie in lanes 0 .. width - 1 of interleaved vectors. A lane that does not run holds a column that has ended,
// or nothing. Lanes that run nothing are few: see multi_width(). As in method.hpp scalars stay in the space of the
// context, and a method decides nothing.
#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/multi_blas1.hpp"
#include "core/vector.hpp"
#include "operators/multi_product.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/method.hpp"

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
  WorkspaceLayout::Preconditioning preconditioning() const noexcept {
    using enum WorkspaceLayout::Preconditioning;
    return general_preconditioner() ? general : M ? diagonal : none;
  }
};

// The most scalars that a method keeps for a lane.
constexpr int most_lane_scalars = 7;

// Guard (method.hpp) by the places of its numbers among the scalars of a lane. scale_a < 0: only 0 counts as zero.
struct LaneGuard {
  int value;
  Test test;
  StopReason reason;
  const char* meaning;
  bool at_begin = false;  // also tested before the first step
  double epsilons = 0;    // factor, in units of the rounding of T
  int scale_a = -1, scale_b = -1;
  bool squared = false;  // the value is a square: so is the factor

  double factor(double rounding) const noexcept {
    const double once = epsilons * rounding;
    return squared ? once * once : once;
  }
};

// What is known of a method before one is made.
struct MultiMethodTraits {
  std::string_view id;
  int products = 1;  // of a step
  bool symmetric_preconditioner = false;
  int scalars = 0;                    // of a lane; number 0 is r . r
  std::span<const LaneGuard> guards;  // at most three
  // Steps come in cycles of at most period(). All lanes begin a cycle together, x is the iterate after finish(), and a
  // lane that finish() was called for goes on with begin() only. Otherwise x is the iterate after each step, and lanes
  // begin one by one.
  bool cycles = false;
};

// How many steps a lane has done since begin().
struct LaneSteps {
  std::int32_t lane;
  std::int64_t steps;
};

// The scalars of one lane.
template <class T>
using LaneScalars = std::array<T, most_lane_scalars>;

template <class T>
class MultiMethod {
 public:
  // Room for vectors of n entries in up to `most` lanes.
  MultiMethod(const MultiMethodTraits& traits, const ContextPtr& context, std::int64_t n, std::int64_t most)
      : traits_(traits), context_(context), n_(n), most_(most), flags_(context, 2 * most) {
    fill<T>(*context, T(0), flags_);
  }
  MultiMethod(const MultiMethod&) = delete;
  MultiMethod& operator=(const MultiMethod&) = delete;
  virtual ~MultiMethod() = default;

  const MultiMethodTraits& traits() const noexcept { return traits_; }
  const ContextPtr& context() const noexcept { return context_; }
  std::int64_t rows() const noexcept { return n_; }
  std::int64_t most() const noexcept { return most_; }
  std::int64_t width() const noexcept { return width_; }

  // All lanes are 0 in all vectors, and none runs.
  void reset(std::int64_t width) {
    width_ = width;
    for (Vector<T>* v : vectors())
      if (v->size() > 0) fill<T>(*context_, T(0), VectorView<T>{v->data(), n_ * width_, v->space()});
    fill<T>(*context_, T(0), flags_);
    forget_scalars();
  }
  // Keeps the lanes keep[i].from as lanes keep[i].to of `width` lanes. The scalars must be set again.
  void pack(std::int64_t width, std::span<const ColumnPair> keep) {
    for (Vector<T>* v : kept()) {
      const MultiVectorView<T> to = view(free_, width);
      fill<T>(*context_, T(0), VectorView<T>{to.data, n_ * width, to.space});
      copy_columns<T>(*context_, view(*v, width_), to, keep);
      std::swap(*v, free_);
    }
    pack_more(width, keep);
    width_ = width;
    forget_scalars();
  }

  MultiVectorView<T> x() noexcept { return view(x_, width_); }
  // Not used between two steps. `second`: the half that begins after the first `width` lanes.
  MultiVectorView<T> free(std::int64_t width, bool second = false) noexcept {
    MultiVectorView<T> v = view(free_, width);
    if (second) v.data += n_ * width;
    return v;
  }
  // 1 for the lanes that run, else 0; and the same for the lanes of a call of begin().
  T* running() noexcept { return flags_.data(); }
  T* chosen() noexcept { return flags_.data() + most_; }
  // Makes them so: where[pairs[i].to] := 1, and 0 for other lanes.
  void mark(T* where, std::span<const ColumnPair> pairs) {
    std::vector<T> flags(static_cast<std::size_t>(width_), T(0));
    for (const ColumnPair pair : pairs) flags[static_cast<std::size_t>(pair.to)] = T(1);
    copy<T>(*context_, VectorView<const T>{flags.data(), width_, Space::host},
            {where, width_, context_->space()});
  }

  // Where scalar number s of all lanes lies: width() numbers.
  virtual T* scalars(int s) noexcept = 0;

  // r := the vectors of `from`, and what follows from it, for lanes pairs[i].to. chosen() has 1 for them, else 0.
  virtual void begin(const MultiSystem<T>& s, MultiVectorView<const T> from,
                     std::span<const ColumnPair> pairs) = 0;
  // One step of the lanes that run, which are `lanes`.
  virtual void step(const MultiSystem<T>& s, std::span<const ColumnPair> lanes) = 0;
  // Of methods with cycles: makes x the iterate in these lanes. chosen() changes.
  virtual void finish(const MultiSystem<T>&, std::span<const LaneSteps>) {}
  // The steps of a cycle, and those that step() has done or queued since begin().
  virtual std::int64_t period() const noexcept { return std::numeric_limits<std::int64_t>::max(); }
  virtual std::int64_t phase() const noexcept { return 0; }

  // Y := A X in the given lanes; others may be computed, too.
  void product(const LinearOperator<T>& A, MultiVectorView<const T> X, MultiVectorView<T> Y,
               std::span<const ColumnPair> lanes) {
    if (X.columns == 1 || column_by_column(A).empty()) return multi_apply<T>(A, T(1), X, T(0), Y, &scratch_);
    for (const ColumnPair lane : lanes)
      multi_apply<T>(A, T(1), X.part(lane.to, 1), T(0), Y.part(lane.to, 1), &scratch_);
  }

 protected:
  // All vectors; and those that must outlive a step, without free_. A vector without entries is not used.
  virtual std::vector<Vector<T>*> vectors() = 0;
  virtual std::vector<Vector<T>*> kept() = 0;
  virtual void forget_scalars() = 0;
  // For pack(), while width_ is still the old one: what kept() does not name. free_ may be used.
  virtual void pack_more(std::int64_t, std::span<const ColumnPair>) {}

  void allocate(std::initializer_list<Vector<T>*> list) {
    for (Vector<T>* v : list) *v = Vector<T>(context_, n_ * most_);
  }
  MultiVectorView<T> view(Vector<T>& v, std::int64_t width) noexcept {
    return {v.data(), n_, width, width, VectorLayout::interleaved, v.space()};
  }
  MultiVectorView<T> view(Vector<T>& v) noexcept { return view(v, width_); }
  // Of one lane.
  VectorView<T> single(Vector<T>& v) noexcept { return {v.data(), n_, v.space()}; }
  // A single lane has the vector operations of a solve of its own.
  bool is_single() const noexcept { return width_ == 1 && context_->space() == Space::host; }

  const MultiMethodTraits& traits_;
  const ContextPtr context_;
  const std::int64_t n_, most_;
  std::int64_t width_ = 0;
  Vector<T> x_, free_;

 private:
  Vector<T> flags_;
  MultiScratch<T> scratch_;
};

// The pairs (lane, lane) of pairs[i].to.
inline std::vector<ColumnPair> own_lanes(std::span<const ColumnPair> pairs) {
  std::vector<ColumnPair> own;
  for (const ColumnPair pair : pairs) own.push_back({pair.to, pair.to});
  return own;
}

// A method with a form for several columns: multi_cg.cpp, multi_bicgstab.cpp, multi_gmres.cpp.
template <class T>
using MakeMultiMethod = std::unique_ptr<MultiMethod<T>> (*)(const SolverOptions& options,
                                                            const ContextPtr& context, std::int64_t n,
                                                            std::int64_t most,
                                                            WorkspaceLayout::Preconditioning preconditioning);
struct MultiMethodEntry {
  MultiMethodTraits traits;
  MakeMultiMethod<double> make_f64;
  MakeMultiMethod<float> make_f32;

  template <class T>
  MakeMultiMethod<T> make() const noexcept {
    if constexpr (sizeof(T) == 8)
      return make_f64;
    else
      return make_f32;
  }
};
extern const MultiMethodEntry multi_cg, multi_bicgstab, multi_gmres;

// The lanes for so many columns: no more than three are left over. SIMD and cache lines like 4 and 8.
inline std::int64_t multi_width(std::int64_t columns) noexcept {
  return columns <= 2 ? columns : (columns + 3) / 4 * 4;
}

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
  virtual void next(const MultiSystem<T>& system, MultiMethod<T>& method, std::span<const ColumnPair> lanes,
                    Done& done) = 0;
  // Waits for all that is in flight, and returns it in the same way.
  virtual void settle(Done& done) = 0;
};
template <class T>
std::unique_ptr<MultiDeviceSteps<T>> make_multi_device_steps(const ContextPtr& context, std::int64_t most);

}  // namespace protean::detail
