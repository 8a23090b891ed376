#include "systems/system_matrix.hpp"

#include <fmt/format.h>

#include <atomic>
#include <stdexcept>
#include <tuple>

#include "core/buffer.hpp"
#include "core/csr_view.hpp"
#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "core/statistics.hpp"
#include "core/transfer.hpp"
#include "core/watch.hpp"
#include "formats/catalogue.hpp"
#include "operators/multi_product.hpp"
#include "operators/narrow_values.hpp"
#include "operators/values_word.hpp"
#include "systems/seconds.hpp"

namespace protean {
namespace {

void enter(const std::function<void(std::string_view)>& stage, std::string_view what) {
  if (stage) stage(what);
}

}  // namespace

template <class T>
SystemMatrix<T>::SystemMatrix(ContextPtr context, CsrMatrix<T> csr, bool check)
    : context_(std::move(context)), check_(check), given_(std::move(csr)) {
  Stopwatch clock;
  if (given_.pattern.space != context_->space() && given_.pattern.space != Space::host)
    throw WrongSpace("the matrix lies in device memory; give the context of that device");
  detail::require_arrays(given_);
  if (check_) {
    // An array that has been freed or changed is named as that.
    check_arrays(given_);
    validate(given_.pattern.space == context_->space() ? context_ : Context::host(), given_);
  }
  // Other arrays stay as they are: their owner keeps them.
  if (check_ && !given_.pattern.owner)
    pattern_ =
        PatternMark(given_.pattern.space == context_->space() ? *context_ : *Context::host(), given_.pattern);
  check_seconds_ = clock.lap();
  csr_ = given_.pattern.space == context_->space() ? given_ : upload(context_, given_);
  if (csr_.pattern.space != given_.pattern.space) {
    context_->synchronize();
    upload_seconds_ = clock.lap();
  }
}

template <class T>
SystemMatrix<T>::SystemMatrix(std::unique_ptr<ElementOperator<T>> elements) {
  if (!elements) throw BadArgument("the element matrices are a null pointer");
  context_ = elements->context();
  matrix_ = std::make_unique<Matrix<T>>(std::move(elements), MatrixOptions{.changes = false});
}

template <class T>
SystemMatrix<T>::SystemMatrix(std::shared_ptr<LinearOperator<T>> A) {
  if (!A) throw BadArgument("the operator is a null pointer");
  context_ = A->context();
  matrix_ = std::make_unique<Matrix<T>>(std::move(A));
}

template <class T>
SystemMatrix<T>::~SystemMatrix() = default;

template <class T>
std::uint64_t SystemMatrix<T>::next_serial() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

template <class T>
void SystemMatrix<T>::require_entries(std::string_view what) const {
  if (of_elements())
    throw BadArgument(
        fmt::format("element matrices have no {0}; make the matrix from CSR arrays instead, or have a "
                    "schedule change them during a solve",
                    what));
  if (of_operator())
    throw BadArgument(
        fmt::format("operator {} is functions of the caller and has no {}; make the matrix from "
                    "CSR arrays instead",
                    matrix_->name(), what));
}

template <class T>
void SystemMatrix<T>::check_format(std::string_view format, const FormatParams& parameters,
                                   std::string_view kernel) const {
  if (format != "auto") {
    require_entries("storage format");
    const FormatEntry& entry = find_format(format);
    (void)resolve_params(entry, parameters, &find_kernel(entry, kernel, context_->space()));
  } else if (!parameters.all().empty()) {
    throw BadArgument("parameters belong to one format; name it instead of auto, or leave them out");
  }
  if (format == "auto" && !kernel.empty()) (void)find_kernel(find_format("csr"), kernel, context_->space());
}

template <class T>
void SystemMatrix<T>::check_order(std::string_view order) const {
  require_order(order);
  if (order == "none") return;
  require_entries("order of its rows");
  if (given_.rows() != given_.cols())
    throw ShapeMismatch(fmt::format(
        "the matrix is {} x {}; an order ({}) permutes rows and columns alike, so the matrix must be square; take none",
        given_.rows(), given_.cols(), order));
}

template <class T>
void SystemMatrix<T>::ask(Wanted wanted) noexcept {
  before_ = {std::exchange(wanted_, std::move(wanted)), asked_};
  asked_ = true;
}

template <class T>
void SystemMatrix<T>::set_format(std::string_view format, const FormatParams& parameters,
                                 std::string_view kernel) {
  set_format_and_order(format, parameters, kernel, wanted_.order);
}

template <class T>
void SystemMatrix<T>::set_order(std::string_view order) {
  set_format_and_order(wanted_.format, wanted_.parameters, wanted_.kernel, order);
}

template <class T>
void SystemMatrix<T>::set_format_and_order(std::string_view format, const FormatParams& parameters,
                                           std::string_view kernel, std::string_view order) {
  check_format(format, parameters, kernel);
  check_order(order);
  ask({std::string(format), std::string(kernel), std::string(order), parameters});
}

template <class T>
bool SystemMatrix<T>::wants(std::string_view format, const FormatParams& parameters, std::string_view kernel,
                            std::string_view order) const {
  return wanted_.format == format && wanted_.parameters == parameters && wanted_.kernel == kernel &&
         wanted_.order == order;
}

template <class T>
bool SystemMatrix<T>::has_left() const {
  if (!of_csr() || made_.format.empty()) return false;
  if (wanted_.order != "auto" && order() != wanted_.order) return true;
  if (wanted_.format == "auto") return false;
  const AssembledMatrix<T>& now = *assembled();
  const FormatEntry& entry = find_format(wanted_.format);
  const Kernel& kernel = find_kernel(entry, wanted_.kernel, context_->space());
  return &now.entry() != &entry || now.kernel() != kernel.name ||
         now.params() != resolve_params(entry, wanted_.parameters, &kernel);
}

template <class T>
bool SystemMatrix<T>::settled() const noexcept {
  return !of_csr() || (!made_.format.empty() && !asked_);
}

template <class T>
ChoiceOptions SystemMatrix<T>::choice_options(const SolveForecast& forecast) const {
  ChoiceOptions options;
  options.space = context_->space(), options.deterministic = context_->deterministic();
  options.expected_iterations = forecast.expected_iterations;
  options.products_per_iteration = forecast.products_per_iteration;
  options.value_bytes = sizeof(T);
  options.machine = forecast.machine;
  options.selector = forecast.selector;
  return options;
}

template <class T>
auto SystemMatrix<T>::settle(const SolveForecast& forecast,
                             const std::function<void(std::string_view)>& stage) -> Seconds {
  if (!of_csr() || (in_use() && !made_.format.empty())) return {};
  if (matrix_) matrix_->store_in_full();  // if an earlier solve has left values in float
  const bool columns = forecast.several_columns && wanted_.format == "auto";
  if (settled() && (!columns || column_by_column<T>(*assembled()).empty())) return {};
  // A policy that has left csr for a format without a product of several vectors begins in csr again, with what it
  // knows.
  Stopwatch clock;
  if (settled() && forecast.policy && adaptive() &&
      matrix_->switch_to({.entry = &find_format("csr")}, 0, "several right-hand sides"))
    return {.convert = clock.lap()};
  return make(forecast, stage);
}

template <class T>
void SystemMatrix<T>::settle_named() {
  const Wanted wanted = wanted_;
  const bool format_open = wanted.format == "auto", order_open = wanted.order == "auto";
  if (format_open)
    wanted_.format = made_.format.empty() ? "csr" : made_.format, wanted_.kernel = made_.kernel,
    wanted_.parameters = made_.parameters;
  if (order_open) wanted_.order = made_.order;
  const auto reopen = [&] {
    if (format_open) wanted_.format = wanted.format, wanted_.kernel = wanted.kernel, wanted_.parameters = {};
    if (order_open) wanted_.order = wanted.order;
    asked_ = asked_ || format_open || order_open;
  };
  if (!made_.format.empty() && format_open && wanted_.order == made_.order) return reopen();
  try {
    (void)settle();
  } catch (...) {
    // What was asked for last is forgotten, an "auto" too.
    if (made_.format.empty())
      reopen();
    else
      std::tie(wanted_, asked_) = before_;
    throw;
  }
  reopen();
}

template <class T>
ChosenMatrix<T> SystemMatrix<T>::wanted_matrix(const SolveForecast& forecast,
                                               const CsrMatrix<T>& from) const {
  if (wanted_.format != "auto")
    return {make_matrix(find_format(wanted_.format), from, context_, wanted_.parameters, wanted_.kernel), {}};
  const FormatEntry& csr = find_format("csr");
  const ChoiceRecord taken{"csr", "", "csr"};
  if (!wanted_.kernel.empty() && wanted_.kernel != "native")
    return {make_matrix(csr, from, context_, {}, wanted_.kernel),
            fmt::format("csr, the plainest format, since kernel {} was asked for", wanted_.kernel), taken};
  if (forecast.policy)
    return {make_matrix(csr, from, context_), "csr, from which a policy changes when that pays", taken};
  const bool as_given = &from == &csr_ && given_.pattern.space == Space::host;
  return make_chosen_matrix(from, context_, choice_options(forecast), as_given ? &given_ : nullptr,
                            forecast.several_columns);
}

template <class T>
auto SystemMatrix<T>::make(const SolveForecast& forecast, const std::function<void(std::string_view)>& stage)
    -> Seconds {
  Seconds seconds;
  Stopwatch clock;
  const ChoiceOptions options = choice_options(forecast);
  // Also if a solve has left the order that was named.
  const bool new_order = wanted_.order != made_.order ||
                         (!made_.format.empty() && wanted_.order != "auto" && order() != wanted_.order);
  // A solve may have left the order that "auto" has chosen, too.
  const bool find = new_order || order() != order_id_;
  const std::string& order = new_order ? wanted_.order : order_id_;
  OrderedMatrix<T> found;
  if (find && order != "none") {
    enter(stage, "ordering the matrix");
    found = put_in_order(order, csr_, context_, options);
    context_->synchronize();
    seconds.order = clock.lap();
  }
  const CsrMatrix<T>& from = !find ? source() : found.ordered ? found.ordered->matrix() : csr_;

  enter(stage, "converting the matrix");
  ChosenMatrix<T> next;
  const AssembledMatrix<T>* const now = assembled();
  const bool new_format = made_.format != wanted_.format || made_.parameters != wanted_.parameters ||
                          made_.kernel != wanted_.kernel;
  std::string lost;
  if (now && wanted_.format == "auto" && !new_format && new_order) {
    // The format that it has now, to which a solve may have changed it.
    try {
      FormatParams params = now->params();
      if (matrix_->rounded_by_change()) params.set(std::string(values_param.name), "auto");
      next = {make_matrix(now->entry(), from, context_, params, now->kernel()), format_reason_, choice_};
    } catch (const FormatRefused& error) { lost = error.what(); } catch (const OutOfMemory& error) {
      lost = error.what();
    }
  }
  if (!next.matrix) next = wanted_matrix(forecast, from);
  if (!lost.empty())
    next.reason += fmt::format("; {}, which the matrix had before, is not possible in order {}: {}",
                               now->entry().id, order, lost);
  context_->synchronize();
  Wanted made = wanted_;
  if (!new_order) found.order = order_id_, found.reason = order_reason_;
  const MatrixOptions fixed{.changes = false};
  if (matrix_ && !find)
    matrix_ = std::make_unique<Matrix<T>>(std::move(*matrix_), std::move(next.matrix), fixed);
  else if (found.ordered)
    matrix_ = std::make_unique<Matrix<T>>(csr_, found.order, *std::move(found.ordered),
                                          std::move(next.matrix), fixed);
  else
    matrix_ = std::make_unique<Matrix<T>>(csr_, std::move(next.matrix), fixed);

  // Nothing throws from here on.
  switcher_.reset();
  format_reason_ = std::move(next.reason), choice_ = std::move(next.choice);
  order_id_ = std::move(found.order), order_reason_ = std::move(found.reason);
  made_ = std::move(made);
  asked_ = false;
  seconds.convert = clock.lap();
  return seconds;
}

template <class T>
const LinearOperator<T>& SystemMatrix<T>::A() const {
  if (!matrix_) throw std::logic_error("SystemMatrix::A() before settle()");
  return matrix_->computing();
}

template <class T>
bool SystemMatrix<T>::change_alone(const std::function<void()>& change) const {
  const std::lock_guard lock(changing_);
  if (uses_ > 1) return false;
  change();
  return true;
}

template <class T>
void SystemMatrix<T>::check_values(const CsrMatrix<T>& csr) const {
  if (csr.rows() != given_.rows() || csr.cols() != given_.cols() || csr.nonzeros() != given_.nonzeros())
    throw ShapeMismatch(
        fmt::format("the new values belong to a {} x {} matrix with {} entries; it has {} x {} "
                    "with {}; make another system for another pattern",
                    csr.rows(), csr.cols(), csr.nonzeros(), given_.rows(), given_.cols(), given_.nonzeros()));
  if (csr.pattern.space != given_.pattern.space)
    throw WrongSpace(fmt::format("the new values lie in {} memory, the matrix was given in {} memory",
                                 to_string(csr.pattern.space), to_string(given_.pattern.space)));
  if (csr.nonzeros() > 0 && !csr.values) throw BadArgument("the new values are a null pointer");
  if (check_) validate_values(csr.pattern.space == context_->space() ? context_ : Context::host(), csr);
}

// The matrix in the device's memory with new values of the host.
template <class T>
CsrMatrix<T> SystemMatrix<T>::on_device(const CsrMatrix<T>& values) const {
  const auto copied = std::make_shared<Buffer<T>>(context_, values.nonzeros());
  detail::copy_bytes(*context_, copied->data(), Space::device, values.values, Space::host,
                     static_cast<std::size_t>(values.nonzeros()) * sizeof(T));
  CsrMatrix<T> result = csr_;
  result.values = copied->data(), result.values_owner = copied;
  return result;
}

template <class T>
void SystemMatrix<T>::require_csr() const {
  if (!of_csr())
    throw BadArgument(of_elements() ? "the matrix was made of element matrices; give new ones of these"
                                    : "the operator is the caller's, who changes it");
}

template <class T>
void SystemMatrix<T>::require_same_pattern(const CsrMatrix<T>& csr) {
  const SparsityPattern &given = given_.pattern, &now = csr.pattern;
  if (detail::same_arrays(given, now)) {
    if (given.owner && given.owner == now.owner) return;
    if (!pattern_ && given.space == csr_.pattern.space) return;
  }
  if (!pattern_) pattern_ = PatternMark(*context_, csr_.pattern);
  pattern_->require(now.space == context_->space() ? *context_ : *Context::host(), now);
}

template <class T>
void SystemMatrix<T>::update_values(const CsrMatrix<T>& csr) {
  require_csr();
  check_values(csr);
  detail::accept_values(csr);  // names what has changed in arrays that are watched
  require_same_pattern(csr);
  take_values(csr);
}

template <class T>
void SystemMatrix<T>::update_values(const CsrMatrix<T>& csr, SamePattern) {
  require_csr();
  check_values(csr);
  take_values(csr);
}

template <class T>
double SystemMatrix<T>::undo_rounding(const std::string& why) {
  if (why.empty() || !matrix_ || !matrix_->rounded_by_change()) return 0;
  Stopwatch clock;
  matrix_->undo_rounding(why);
  return clock.lap();
}

template <class T>
void SystemMatrix<T>::take_values(const CsrMatrix<T>& csr) {
  // The arrays of the pattern stay the ones that were given at first.
  CsrMatrix<T> given = with_values(given_, csr.values);
  given.values_owner = csr.values_owner;
  if (csr.watch) given.watch = csr.watch;
  const CsrMatrix<T> changed = csr_.pattern.space == given.pattern.space ? given : on_device(given);
  // Values in float that nobody has asked for by name refuse no new values.
  if constexpr (sizeof(T) == 8)
    if (matrix_ && matrix_->rounded_by_change())
      if (const auto beyond = detail::beyond_float(*context_, changed)) (void)undo_rounding(*beyond);
  if (matrix_) matrix_->update_values(changed, SamePattern());
  given_ = given, csr_ = changed;
}

template <class T>
void SystemMatrix<T>::update_values(std::span<const ElementGroup<T>> groups) {
  if (!of_elements())
    throw BadArgument(
        "the matrix was not made of element matrices; give new values in the order of its arrays");
  matrix_->update_values(groups);
}

template <class T>
bool SystemMatrix<T>::known_symmetric() const {
  return of_elements() && matrix_->elements()->symmetric();
}

template <class T>
void SystemMatrix<T>::watch() {
  if (!of_csr() || given_.watch) return;
  const CsrMatrix<T> seen = watched(context_, given_);
  const bool borrowed = csr_.pattern.space == given_.pattern.space;
  if (borrowed && matrix_) matrix_->watch(seen);
  given_ = seen;
  if (borrowed) csr_ = seen;
}

template <class T>
std::string_view SystemMatrix<T>::kernel() const {
  const AssembledMatrix<T>* const now = assembled();
  return now ? now->kernel() : std::string_view("native");
}

template <class T>
std::string_view SystemMatrix<T>::order() const {
  return matrix_ ? matrix_->order_id() : std::string_view(order_id_);
}

template <class T>
const CsrMatrix<T>& SystemMatrix<T>::source() const noexcept {
  return of_csr() && order() != "none" ? matrix_->ordered_source() : csr_;
}

template <class T>
std::string SystemMatrix<T>::values() const {
  if (!assembled()) return {};
  // While the matrix is in float that a solve has left, products are with the values that were given.
  const bool left = assembled()->rounds_values() && !matrix_->left_rounding().empty();
  return std::string(left ? "double" : assembled()->stored_values());
}

template <class T>
std::string SystemMatrix<T>::values_reason() const {
  const AssembledMatrix<T>* const now = assembled();
  if (!now || sizeof(T) == 4) return {};
  if (const std::string why = matrix_->left_rounding(); !why.empty())
    return "values in float were left: " + why;
  if (now->rounds_values())
    return fmt::format(
        "{}; b - A x is computed with the values that were given",
        matrix_->rounded_by_change() ? "by a change of format in a solve" : "as values: float asks for");
  if (now->has_value_table())
    return "few distinct values, each stored once, and a byte for each entry; products have the same bits";
  if (now->float_values()) return "float holds every value as it is, so products have the same bits";
  const std::string_view word = detail::values_word(now->params());
  if (word.empty()) return "this format and kernel have no others";
  if (word == "double") return "as values: double asks for";
  if (now->entry().traits.uses_source) return "format csr computes with the arrays that it was given";
  return "float would round some of them";
}

template <class T>
std::int64_t SystemMatrix<T>::products() const {
  // A solve in another order multiplies with the storage itself while the matrix may not change.
  return matrix_ && !matrix_->may_change() ? matrix_->running().products() : A().products();
}

template class SystemMatrix<float>;
template class SystemMatrix<double>;

}  // namespace protean
