// AutoSwitcher hands all calls on to what lies in switcher/.
#include "solvers/auto_switcher.hpp"

#include <limits>
#include <utility>

#include "core/context.hpp"
#include "core/parallel.hpp"
#include "solvers/switcher/switching.hpp"

namespace protean {
namespace {

// The part by which a build on another processor slows the iterations: both share caches and memory.
constexpr double beside_spare_processor = 0.1;

}  // namespace

AutoSwitchOptions switch_options(const Context& context, const StoppingRule& rule,
                                 const PolicyOptions& policy) {
  AutoSwitchOptions result;
  result.policy = policy;
  const bool spare = context.space() == Space::host && context.threads() < available_threads();
  result.policy.overlapped = spare;
  if (spare) {
    // One thread builds alone. If the solve waited, all threads would build.
    result.policy.overlap_stretch = context.threads();
    result.policy.overlap_slowdown = beside_spare_processor;
  }
  result.goal = rule.relative_tolerance, result.absolute_goal = rule.absolute_tolerance;
  result.max_iterations = rule.max_iterations;
  return result;
}

template <class T>
AutoSwitcher<T>::AutoSwitcher(Matrix<T>& A, const CostModel& model, FormatSurvey survey,
                              const AutoSwitchOptions& options, SolveObserver* inner)
    : inside_(
          std::make_unique<detail::Switching<T>>(A, model, std::move(survey), options, inner, on_switch)) {}

template <class T>
AutoSwitcher<T>::~AutoSwitcher() = default;

template <class T>
void AutoSwitcher<T>::begin(const AutoSwitchOptions& options, SolveObserver* inner) {
  inside_->begin(options, inner);
}

template <class T>
void AutoSwitcher<T>::columns_left(std::int64_t running) {
  inside_->columns_left(running);
}

template <class T>
bool AutoSwitcher<T>::on_iteration(const IterationInfo& info) {
  return inside_->on_iteration(info);
}

template <class T>
std::int64_t AutoSwitcher<T>::next_stop() const noexcept {
  const SolveObserver* const inner = inside_->inner();
  return inner ? inner->next_stop() : std::numeric_limits<std::int64_t>::max();
}

template <class T>
bool AutoSwitcher<T>::reads_solution(const IterationInfo& info) const noexcept {
  const SolveObserver* const inner = inside_->inner();
  return inner && inner->reads_solution(info);
}

template <class T>
void AutoSwitcher<T>::finish() {
  inside_->finish();
}

template <class T>
std::span<const DecisionRecord> AutoSwitcher<T>::decisions() const noexcept {
  return inside_->decisions();
}

template <class T>
std::vector<CandidateRecord> AutoSwitcher<T>::candidates() const {
  return inside_->candidates();
}

template class AutoSwitcher<float>;
template class AutoSwitcher<double>;

}  // namespace protean
