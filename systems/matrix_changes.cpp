// Changes of a matrix during solves: whether they may begin, and the policy that decides them.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "core/csr_view.hpp"
#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "formats/selectors/selector.hpp"
#include "formats/survey.hpp"
#include "systems/system_matrix.hpp"

namespace protean {

template <class T>
Matrix<T>& SystemMatrix<T>::make_adaptive(MatrixOptions options) {
  if (!matrix_) throw std::logic_error("SystemMatrix::make_adaptive() before settle()");
  if (matrix_->may_change()) return *matrix_;
  if (of_csr() && context_->space() == Space::host) {
    if (!sorted_) sorted_ = is_sorted(*context_, csr_.pattern);
    if (!*sorted_)
      throw BadMatrix(
          "columns do not ascend in all rows, as changes of format need it; sorted_copy() sorts, or solve "
          "without policy and schedule");
  }
  matrix_->let_change(std::move(options));
  return *matrix_;
}

template <class T>
bool SystemMatrix<T>::may_begin_in_csr() const {
  if (!of_csr() || wanted_.format != "auto" || context_->deterministic() ||
      !(wanted_.kernel.empty() || wanted_.kernel == "native") || given_.nonzeros() < least_entries_to_convert)
    return false;
  // On a device the survey looks, which short solves do not reach.
  if (context_->space() == Space::device) return true;
  if (!sorted_) sorted_ = is_sorted(*context_, csr_.pattern);
  return *sorted_;
}

namespace {

// Leaves csr and the first formats of a selector's ranking in a survey. The selector ranks for the rows in the order in
// which the matrix was given.
void keep_selected(std::vector<SwitchTarget>& found, const FormatSelector& selector,
                   const SparsityPattern& pattern, const CostModel& model, const ChoiceOptions& question) {
  std::vector<std::string_view> kept{"csr"};
  for (const SelectedFormat& format : selector.rank(SelectorQuestion(pattern, model, question))) {
    if (kept.size() > static_cast<std::size_t>(policy_candidates)) break;
    if (format.entry->id != "csr") kept.push_back(format.entry->id);
  }
  std::erase_if(found, [&](const SwitchTarget& target) {
    return target.spec.entry && std::find(kept.begin(), kept.end(), target.spec.entry->id) == kept.end();
  });
}

}  // namespace

template <class T>
AutoSwitcher<T>& SystemMatrix<T>::begin_policy(const MachineTable* machine, const AutoSwitchOptions& options,
                                               SolveObserver* inner) {
  if (switcher_ && machine_ == machine && selector_ == options.selector && rounding_ == options.rounding) {
    switcher_->begin(options, inner);
    return *switcher_;
  }
  (void)undo_rounding("another policy begins");
  const CostModel model = model_of(machine, context_->space());
  const SparsityPattern on_host = csr_.pattern.space == Space::device &&
                                          given_.pattern.space == Space::host && matrix_->order_id() == "none"
                                      ? given_.pattern
                                      : SparsityPattern();
  const bool named = !options.selector.empty() && options.selector != default_selector;
  if (named) {
    (void)find_selector(options.selector, context_->space());
    if (given_.pattern.space != Space::host || of_elements())
      throw NotAvailable(
          fmt::format("selector {} looks at the whole pattern in host memory; give the matrix as arrays of "
                      "the host, or take selector {}",
                      options.selector, default_selector));
  }
  ChoiceOptions question;
  question.space = context_->space(), question.deterministic = context_->deterministic();
  question.expected_iterations = options.expected_iterations, question.value_bytes = sizeof(T);
  question.machine = machine;
  switcher_ = std::make_unique<AutoSwitcher<T>>(
      *matrix_, model,
      [this, model, on_host, named, question, selector = options.selector, rounding = options.rounding] {
        if (context_->space() == Space::device && of_csr() && !is_sorted(*context_, csr_.pattern))
          throw BadMatrix("columns do not ascend in all rows, as other formats need it; sorted_copy() sorts");
        std::vector<SwitchTarget> found = survey_formats(*matrix_, model, on_host, rounding);
        if (named) keep_selected(found, find_selector(selector), given_.pattern, model, question);
        if (!surveyed_.empty()) return found;
        surveyed_ = found;
        for (SwitchTarget& target : surveyed_)  // for its name
          if (matrix_->order_id() != "none") target.spec.order = matrix_->order_id();
        return found;
      },
      options, inner);
  machine_ = machine, selector_ = options.selector, rounding_ = options.rounding;
  return *switcher_;
}

#define PROTEAN_INSTANTIATE(T)                                                                           \
  template Matrix<T>& SystemMatrix<T>::make_adaptive(MatrixOptions);                                     \
  template bool SystemMatrix<T>::may_begin_in_csr() const;                                               \
  template AutoSwitcher<T>& SystemMatrix<T>::begin_policy(const MachineTable*, const AutoSwitchOptions&, \
                                                          SolveObserver*);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean
