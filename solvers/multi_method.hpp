// The interface between a method for several columns side by side and the driver (driver/columns.cpp): begin(),
// step(), finish(), and for each column the scalars that decide whether it goes on. Private to solvers/.
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
#include "solvers/lanes.hpp"
#include "solvers/method.hpp"

namespace protean::detail {

// The most scalars of a lane that decide whether it goes on, and the most tests of them.
constexpr int most_lane_scalars = 9, most_lane_guards = 4;

// Guard (method.hpp) by the places of its numbers among these scalars. scale_a < 0: only 0 counts as zero.
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
  // The test of numbers that lie at(place); at(-1) is null.
  template <class T, class At>
  Guard<T> of(At&& at) const {
    return {at(value),
            test,
            reason,
            meaning,
            static_cast<T>(factor(static_cast<double>(std::numeric_limits<T>::epsilon()))),
            at(scale_a),
            at(scale_b)};
  }
};

// A number that must be positive.
constexpr LaneGuard positive(int value, StopReason reason, const char* meaning, bool at_begin = false) {
  return {value, Test::positive, reason, meaning, at_begin};
}
// A divisor. With scales it counts as zero if two vectors are orthogonal up to rounding.
constexpr LaneGuard nonzero(int value, const char* meaning, int scale_a = -1, int scale_b = -1) {
  return {value,   Test::nonzero, StopReason::breakdown, meaning, false, scale_a < 0 ? 0.0 : 1.0,
          scale_a, scale_b};
}

// The square of the length that is left of a new direction: zero if the length is at most 16 eps of the one before.
constexpr LaneGuard direction(int value, const char* meaning, int before) {
  return {value, Test::nonzero, StopReason::breakdown, meaning, false, 16, before, before, true};
}

// What is known of a method before one is made.
struct MultiMethodTraits {
  std::string_view id;
  int products = 1;  // of a step
  bool symmetric_preconditioner = false;
  int scalars = 0;  // of a lane; number 0 is r . r, and MultiMethod may add one
  std::span<const LaneGuard> guards;
  // Steps come in cycles of at most period(). All lanes begin a cycle together, and a lane that finish() was called for
  // goes on with begin() only. Otherwise lanes begin one by one.
  bool cycles = false;
  bool finishes = false;  // x is the iterate after finish() only; of all methods with cycles
};

// How many steps a lane has done since begin().
struct LaneSteps {
  std::int32_t lane;
  std::int64_t steps;
};

// The scalars of one lane.
template <class T>
using LaneScalars = std::array<T, most_lane_scalars>;

// The form of a method for several columns: forms.hpp makes it.
template <class T>
class MultiMethod {
 public:
  // weighs: residuals are measured by MultiSystem::weights. Then the method has one scalar more.
  MultiMethod(const MultiMethodTraits& traits, const WorkspaceLayout& layout, std::int64_t most, bool weighs)
      : lanes_(layout, most), traits_(traits), context_(layout.context), weighs_(weighs) {
    if (weighs) lanes_.add(weighted_), weighted_squared_ = Vector<T>(layout.context, most);
  }
  MultiMethod(const MultiMethod&) = delete;
  MultiMethod& operator=(const MultiMethod&) = delete;
  virtual ~MultiMethod() = default;

  const MultiMethodTraits& traits() const noexcept { return traits_; }
  // The scalars of a lane, and which of them is the square of the residual.
  int scalar_count() const noexcept { return traits_.scalars + (weighs_ ? 1 : 0); }
  int residual_scalar() const noexcept { return weighs_ ? traits_.scalars : 0; }
  const ContextPtr& context() const noexcept { return context_; }
  std::int64_t rows() const noexcept { return lanes_.rows(); }
  std::int64_t most() const noexcept { return lanes_.most(); }
  std::int64_t width() const noexcept { return lanes_.width(); }

  MultiVectorView<T> x() noexcept { return lanes_.x(); }
  T* running() noexcept { return lanes_.running(); }
  T* chosen() noexcept { return lanes_.chosen(); }
  void mark(T* where, std::span<const ColumnPair> pairs) { lanes_.mark(where, pairs); }
  void product(const LinearOperator<T>& A, MultiVectorView<const T> X, MultiVectorView<T> Y,
               std::span<const ColumnPair> lanes) {
    lanes_.multiply(A, X, Y, lanes);
  }
  // Not used between two steps. `second`: the half that begins after the first `width` lanes.
  MultiVectorView<T> free(std::int64_t width, bool second = false) noexcept {
    return {free_data() + (second ? rows() * width : 0),
            rows(),
            width,
            width,
            VectorLayout::interleaved,
            context_->space()};
  }

  // For a method that weighs residuals: W V in separate vectors, and the squares in weighted_squared(). V has width()
  // vectors or fewer; active: a number for each vector, not 0 if the vector is wanted.
  MultiVectorView<T> weigh(const MultiSystem<T>& s, const MultiVectorView<const T>& V, const T* active) {
    const MultiVectorView<T> weighted = lanes_.view(weighted_.memory, V.columns);
    lanes_.weigh(s.weights, V, weighted, active, weighted_squared());
    return weighted;
  }
  T* weighted_squared() noexcept { return weighted_squared_.data(); }

  // All lanes are 0 in all vectors, and none runs.
  virtual void reset(std::int64_t width) = 0;
  // Keeps the lanes keep[i].from as lanes keep[i].to of `width` lanes.
  virtual void pack(std::int64_t width, std::span<const ColumnPair> keep) = 0;
  // What the next step reads of the steps before, x among it.
  virtual std::vector<MultiVectorView<T>> kept_lanes() = 0;
  // Where scalar number s of all lanes lies, s < scalar_count(): width() numbers. Of some methods it is another place
  // after each step.
  virtual T* scalars(int s) noexcept = 0;

  // r := the vectors of `from`, and what follows from it, for lanes pairs[i].to. chosen() has 1 for them, else 0.
  virtual void begin(const MultiSystem<T>& s, MultiVectorView<const T> from,
                     std::span<const ColumnPair> pairs) = 0;
  // One step of the lanes that run, which are `lanes`.
  virtual void step(const MultiSystem<T>& s, std::span<const ColumnPair> lanes) = 0;
  // Of methods that need it: makes x the iterate in these lanes. chosen() changes.
  virtual void finish(const MultiSystem<T>& s, std::span<const LaneSteps> of) = 0;
  // The steps of a cycle. Without cycles there is no end.
  virtual std::int64_t period() const noexcept = 0;
  // For steps that are recorded once and replayed: step() queues the same work whenever position() and addresses() are
  // the same. With cycles it is the number of steps since begin().
  virtual std::int64_t position() const noexcept = 0;
  // After how many steps a position comes again.
  virtual std::int64_t recurrence() const noexcept = 0;
  // How many steps the method has done or queued since reset().
  std::int64_t steps() const noexcept { return steps_; }
  // What step() would have set on the host.
  virtual void set_position(std::int64_t position, std::int64_t steps) noexcept = 0;
  // On what the addresses of lanes depend: their number, and where the numbers of the method lie.
  struct Addresses {
    std::int64_t width = 0;
    const T* numbers = nullptr;
    bool operator==(const Addresses&) const = default;
  };
  Addresses addresses() noexcept { return {width(), lanes_.at(0)}; }
  // For methods without cycles: whether a lane that stopped while others did this many steps goes on with its next
  // step. Its kept vectors are moved to where the method expects them now, if that is possible; otherwise the lane must
  // begin again.
  virtual bool go_on(std::int32_t lane, std::int64_t missed) = 0;

 protected:
  virtual T* free_data() noexcept = 0;

  ManyLanes<T> lanes_;
  std::int64_t steps_ = 0;

 private:
  const MultiMethodTraits& traits_;
  const ContextPtr context_;
  const bool weighs_;
  LaneVectors<T> weighted_;
  Vector<T> weighted_squared_;
};

template <class T>
using MakeMultiMethod = std::unique_ptr<MultiMethod<T>> (*)(const SolverOptions& options,
                                                            const WorkspaceLayout& layout, std::int64_t most);
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

// The number of lanes for this many columns: at most three are left over. SIMD and cache lines like 4 and 8.
inline std::int64_t multi_width(std::int64_t columns) noexcept {
  return columns <= 2 ? columns : (columns + 3) / 4 * 4;
}

}  // namespace protean::detail
