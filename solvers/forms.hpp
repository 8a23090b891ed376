// The two forms of a method that is written once over OneLane and ManyLanes: OneVector is its Method, Columns its
// MultiMethod. Private to solvers/.
//
// A method is `template <class L> class Steps : public StepsOf<L>`, which has, in addition to what StepsOf says:
//   id                    its name
//   Signal                an enumeration of the numbers that decide whether a solve goes on; number 0 is r . r, and
//                         SignalCount is the last word
//   guards                the tests of these numbers; with several lanes all are made after each step
//   tested(first)         the tests of one lane. first: no step since begin()
//   signal(i, first)      where number i of Signal lies
//   begin(s, start)       as Method::begin(): takes the residual by L::take(). One lane is at position 0 then. Several
//                         lanes share the position, and a lane that begins while others are in their steps begins there
//   step(s)               as Method::step()
//   scratch(), spare(), residual()  as in Method. Operations of several lanes take scratch() as free memory, too
//   kept(ahead)           as Method::kept_vectors()
#pragma once
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "solvers/lanes.hpp"
#include "solvers/method.hpp"
#include "solvers/multi_method.hpp"

namespace protean::detail {

template <class L>
class StepsOf {
 public:
  using T = typename L::Number;
  using View = typename L::View;
  using Input = typename L::Input;
  using System = typename L::System;
  using Start = typename L::Start;

  static constexpr bool symmetric = false;                 // only for symmetric matrices
  static constexpr bool symmetric_preconditioner = false;  // only with symmetric M
  static constexpr int products = 1;                       // of a step
  static constexpr bool cycles = false, finishes = false;  // of MultiMethodTraits
  static constexpr bool turns = false;  // the kept vectors change places after each step of a period
  static constexpr bool scalars_in_coefficients = false;  // of Method, if M is not an operator
  // Of SolverEntry.
  static std::int64_t cycle(const SolverOptions&) noexcept { return 1; }

  explicit StepsOf(L& lanes) : lanes_(lanes) {}
  StepsOf(const StepsOf&) = delete;
  StepsOf& operator=(const StepsOf&) = delete;

  // Called when the vectors have got their memory; with several lanes also at each reset().
  void prepare() {}
  void order_changed() noexcept {}
  // Makes x the iterate after this many steps since begin().
  void finish(const System&, std::int64_t) {}
  std::int64_t period() const noexcept { return 1; }
  std::int64_t position() const noexcept { return 0; }
  void set_position(std::int64_t) noexcept {}
  bool cycle_ended() const noexcept { return false; }
  // If it turns: groups of vectors that a later step finds in the next place of the group, and after the last place in
  // the first one. Empty: the kept vectors have a meaning only at their position.
  std::vector<std::vector<View>> turning() { return {}; }
  // "restart 30": what its memory depends on.
  std::string size_in_words() const { return {}; }

 protected:
  T* at(std::int64_t place) noexcept { return lanes_.at(place); }
  L& lanes_;
};

template <class T, template <class> class Steps>
class OneVector : public Method<T> {
 public:
  using Own = Steps<OneLane<T>>;
  static constexpr std::string_view id = Own::id;
  static constexpr bool symmetric_preconditioner = Own::symmetric_preconditioner;

  OneVector(const SolverOptions& options, const WorkspaceLayout& layout)
      : lanes_(layout), steps_(lanes_, options) {
    steps_.prepare();
    if (weighs_residuals(options))
      lanes_.add(weighted_), weighted_squared_ = make_vector<T>(layout.context, 1);
  }
  VectorView<T> scratch() noexcept override { return steps_.scratch(); }
  std::array<VectorView<T>, 2> spare() noexcept override { return steps_.spare(); }
  std::vector<VectorView<T>> kept_vectors(bool ahead) override { return steps_.kept(ahead); }
  void order_changed() noexcept override { steps_.order_changed(); }
  void begin(const System<T>& s, VectorView<const T> r) override {
    steps_.begin(s, r);
    first_ = true;
    measure(s);
    guard();
  }
  void step(const System<T>& s) override {
    steps_.step(s);
    first_ = false;
    measure(s);
    guard();
  }
  void finish(const System<T>& s) override {
    steps_.finish(s, steps_.position());
    if (Own::cycles) steps_.set_position(0);
  }
  std::int64_t period() const noexcept override { return steps_.period(); }
  bool cycles_end() const noexcept override { return Own::cycles; }
  std::int64_t phase() const noexcept override { return steps_.position(); }
  void set_phase(std::int64_t phase) noexcept override {
    steps_.set_position(phase);
    first_ = false;
    guard();
  }
  bool scalars_in_coefficients(const System<T>& s) const noexcept override {
    return Own::scalars_in_coefficients && !s.general_preconditioner() && !weighs();
  }
  Signals<T> signals() const noexcept override {
    return {.residual_squared = residual_squared_,
            .guards = {guards_, guard_count_},
            .cycle_ended = steps_.cycle_ended(),
            .resumable = !Own::cycles};
  }
  VectorView<const T> residual() noexcept override { return steps_.residual(); }
  VectorView<T> measured(const System<T>& s, VectorView<T> v) override {
    if (!weighs()) return v;
    multiply<T>(lanes_.context(), s.weights, v, lanes_.vector(weighted_));
    return lanes_.vector(weighted_);
  }

 protected:
  // Called when there is another residual().
  void measure(const System<T>& s) {
    if (!weighs()) return;
    const VectorView<T> v = lanes_.vector(weighted_);
    multiply<T>(lanes_.context(), s.weights, residual(), v);
    lanes_.dot(v, v, weighted_squared_.data());
  }

  OneLane<T> lanes_;
  Own steps_;

 private:
  bool weighs() const noexcept { return weighted_.count > 0; }
  void guard() noexcept {
    residual_squared_ = weighs() ? weighted_squared_.data() : steps_.signal(0, first_);
    guard_count_ = 0;
    const auto place = [&](int number) { return number < 0 ? nullptr : steps_.signal(number, first_); };
    for (const LaneGuard& one : steps_.tested(first_)) guards_[guard_count_++] = one.of<T>(place);
  }

  LaneVectors<T> weighted_;  // W r, if residuals are measured with weights
  Vector<T> weighted_squared_;
  const T* residual_squared_ = nullptr;
  bool first_ = true;
  Guard<T> guards_[most_lane_guards];
  std::size_t guard_count_ = 0;
};

template <class T, template <class> class Steps>
class Columns final : public MultiMethod<T> {
 public:
  using Own = Steps<ManyLanes<T>>;
  static_assert(Own::SignalCount < most_lane_scalars && std::size(Own::guards) <= most_lane_guards);
  static constexpr MultiMethodTraits traits{.id = Own::id,
                                            .products = Own::products,
                                            .symmetric_preconditioner = Own::symmetric_preconditioner,
                                            .scalars = Own::SignalCount,
                                            .guards = Own::guards,
                                            .cycles = Own::cycles,
                                            .finishes = Own::finishes};

  Columns(const SolverOptions& options, const WorkspaceLayout& layout, std::int64_t most)
      : MultiMethod<T>(traits, layout, most, weighs_residuals(options)), steps_of_(lanes_, options) {
    const std::string size = steps_of_.size_in_words();
    lanes_.allocate(fmt::format("{}{}{}{} right-hand sides (fewer {}need less)", Own::id,
                                size.empty() ? " with " : " with " + size, size.empty() ? "" : " and ", most,
                                size.empty() ? "" : "of either "));
  }
  void reset(std::int64_t width) override {
    lanes_.reset(width);
    this->steps_ = 0;
    steps_of_.set_position(0);
    steps_of_.prepare();
  }
  void pack(std::int64_t width, std::span<const ColumnPair> keep) override {
    lanes_.pack(width, keep, steps_of_.kept(false), free_data());
  }
  std::vector<MultiVectorView<T>> kept_lanes() override {
    std::vector<MultiVectorView<T>> kept = steps_of_.kept(false);
    kept.push_back(this->x());
    return kept;
  }
  T* scalars(int s) noexcept override {
    return s < traits.scalars ? steps_of_.signal(s, false) : this->weighted_squared();
  }
  void begin(const MultiSystem<T>& s, MultiVectorView<const T> from,
             std::span<const ColumnPair> pairs) override {
    const std::vector<ColumnPair> own = own_lanes(pairs);
    lanes_.act(lanes_.chosen(), own, free_data(), true);
    steps_of_.begin(s, {from, pairs});
    measure(s, lanes_.chosen());
  }
  void step(const MultiSystem<T>& s, std::span<const ColumnPair> lanes) override {
    lanes_.act(lanes_.running(), lanes, free_data());
    steps_of_.step(s);
    measure(s, lanes_.running());
    ++this->steps_;
  }
  // Lanes that have done the same number of steps together: on a GPU lanes may have stopped at different ones.
  void finish(const MultiSystem<T>& s, std::span<const LaneSteps> of) override {
    std::vector<LaneSteps> left(of.begin(), of.end());
    if (!Own::cycles)
      for (LaneSteps& one : left) one.steps = 1;
    while (!left.empty()) {
      const std::int64_t steps = left.front().steps;
      std::vector<ColumnPair> own;
      for (const LaneSteps& one : left)
        if (one.steps == steps) own.push_back({one.lane, one.lane});
      std::erase_if(left, [=](const LaneSteps& one) { return one.steps == steps; });
      lanes_.mark(lanes_.chosen(), own);
      lanes_.act(lanes_.chosen(), own, free_data());
      steps_of_.finish(s, steps);
    }
  }
  std::int64_t period() const noexcept override {
    return Own::cycles ? steps_of_.period() : std::numeric_limits<std::int64_t>::max();
  }
  std::int64_t position() const noexcept override { return steps_of_.position(); }
  std::int64_t recurrence() const noexcept override { return steps_of_.period(); }
  void set_position(std::int64_t position, std::int64_t steps) noexcept override {
    steps_of_.set_position(position);
    this->steps_ = steps;
  }
  bool go_on(std::int32_t lane, std::int64_t missed) override {
    const std::int64_t by = Own::turns ? missed % steps_of_.period() : 0;
    const std::vector<std::vector<MultiVectorView<T>>> groups = steps_of_.turning();
    if (by > 0 && groups.empty()) return false;
    Vector<T> kept;
    for (std::int64_t turn = 0; turn < by; ++turn)
      for (const std::vector<MultiVectorView<T>>& group : groups) {
        const std::int64_t rows = group.front().rows;
        if (kept.size() < rows) kept = Vector<T>(this->context(), rows);
        const MultiVectorView<T> last{kept.data(), rows, 1, rows, VectorLayout::columns, kept.space()};
        const auto move = [&](const MultiVectorView<const T>& from, const MultiVectorView<T>& to,
                              ColumnPair pair) {
          copy_columns<T>(*this->context(), from, to, {&pair, 1});
        };
        move(group.back(), last, {lane, 0});
        for (std::size_t i = group.size() - 1; i > 0; --i) move(group[i - 1], group[i], {lane, lane});
        move(last, group.front(), {0, lane});
      }
    return true;
  }

 protected:
  T* free_data() noexcept override { return steps_of_.scratch().data; }

 private:
  using MultiMethod<T>::lanes_;
  void measure(const MultiSystem<T>& s, const T* active) {
    if (s.weights.size > 0) (void)this->weigh(s, steps_of_.residual(), active);
  }
  Own steps_of_;
};

template <class T, template <class> class Steps>
std::unique_ptr<MultiMethod<T>> make_columns(const SolverOptions& options, const WorkspaceLayout& layout,
                                             std::int64_t most) {
  return std::make_unique<Columns<T, Steps>>(options, layout, most);
}

// The entries of a method.
template <template <class> class Steps>
constexpr SolverEntry solver_entry(std::string_view title, std::string_view source) {
  using Own = Steps<OneLane<double>>;
  return {Own::id,
          title,
          source,
          make_solver_of<double, OneVector<double, Steps>>,
          make_solver_of<float, OneVector<float, Steps>>,
          Own::cycle,
          Own::products,
          Own::symmetric};
}
// For a form for one vector with more abilities.
template <template <class> class Steps, template <class> class One>
constexpr SolverEntry solver_entry(std::string_view title, std::string_view source) {
  SolverEntry entry = solver_entry<Steps>(title, source);
  entry.make_f64 = make_solver_of<double, One<double>>, entry.make_f32 = make_solver_of<float, One<float>>;
  return entry;
}
// For a form for one vector that renews().
constexpr SolverEntry with_reliable_updates(SolverEntry entry) {
  entry.reliable_updates = true;
  return entry;
}
template <template <class> class Steps>
constexpr MultiMethodEntry columns_entry() {
  return {Columns<double, Steps>::traits, make_columns<double, Steps>, make_columns<float, Steps>};
}

}  // namespace protean::detail
