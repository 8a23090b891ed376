// Changes of a matrix: its storage, its order, its values.
#include <fmt/format.h>

#include <new>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "operators/in_order.hpp"
#include "operators/matrix/build.hpp"
#include "operators/matrix/matrix.hpp"
#include "operators/matrix/numbering.hpp"
#include "operators/matrix/running.hpp"
#include "operators/narrow_values.hpp"
#include "operators/values_word.hpp"

namespace protean {
namespace {

// Of element matrices, if there is no assembled one.
template <class T>
std::string values_of(const AssembledMatrix<T>* matrix) {
  return matrix ? std::string(matrix->stored_values()) : sizeof(T) == 4 ? "float" : "double";
}

}  // namespace

template <class T>
bool Matrix<T>::runs(const FormatSpec& spec) const {
  if (spec.elements) return on_elements();
  if (!spec.order.empty() && spec.order != numbering_->id()) return false;
  if (!spec.entry && !spec.order.empty()) return true;
  if (!spec.entry) throw BadArgument("a format is asked for without naming one");
  const Kernel& kernel = find_kernel(*spec.entry, spec.kernel, this->context()->space());
  return current_ && spec.entry == &current_->entry() && kernel.name == current_->kernel() &&
         resolve_params(*spec.entry, with_values(spec).params, &kernel) == current_->params();
}

template <class T>
void Matrix<T>::let_change(MatrixOptions options) {
  if (other_)
    throw BadArgument(
        fmt::format("operator {} is functions of the caller and has no storage format and no order "
                    "of its rows to change; solve without policy and schedule",
                    other_->name()));
  options.changes = true;
  set_options(std::move(options));
  ++changes_;  // products go another way from here on
}

// Values that were asked for in float stay so in the next format, or in full, if that has the parameter.
template <class T>
FormatSpec Matrix<T>::with_values(FormatSpec spec) const {
  if (!spec.entry || !begun_in_float_ || !may_round() || spec.params.has(values_param.name)) return spec;
  if (detail::has_float_values(find_kernel(*spec.entry, spec.kernel, this->context()->space())))
    spec.params.set(std::string(values_param.name), left_rounding().empty() ? "float" : "double");
  return spec;
}

// After a change that is done.
template <class T>
void Matrix<T>::note_change(bool new_storage) noexcept {
  ++changes_;
  in_full_.store(nullptr, std::memory_order_release);
  for (auto& given : given_) given.reset();
  if (!new_storage) return;
  ++form_;
  running_->forget_times();
}

template <class T>
void Matrix<T>::keep_assembled(detail::Build<T>& build) {
  if (!build.assembled.values) return;
  build.bytes_in_use += build.assembled.bytes();
  source_ = std::move(build.assembled);
  source_settled_ = true;  // the build has synchronised
}

template <class T>
void Matrix<T>::record_failure(detail::Build<T>& build, std::int64_t iteration) {
  keep_assembled(build);
  failures_.push_back(build.failed(iteration, build.failure, build.why));
}

// Of a build that is about to be adopted; `source` is the matrix that it was made of. wait_seconds is added later.
template <class T>
SwitchRecord Matrix<T>::record_of(const detail::Build<T>& build, const CsrMatrix<T>& source,
                                  std::int64_t iteration) const {
  const AssembledMatrix<T>* const next = build.matrix.get();
  return {.iteration = iteration,
          .begun_iteration = build.iteration,
          .from = std::string(running().name()),
          .to = std::string(next ? next->name() : elements_->name()),
          .from_kernel = current_ ? std::string(current_->kernel()) : "native",
          .to_kernel = next ? std::string(next->kernel()) : "native",
          .from_order = numbering_->id(),
          .to_order = build.order,
          .from_values = values_of(current_.get()),
          .to_values = values_of(next),
          .parameters = next ? next->params() : FormatParams(),
          .convert_seconds = build.seconds,
          .assemble_seconds = build.assemble_seconds,
          .order_seconds = build.order_seconds,
          .wait_seconds = 0,
          .overlapped = build.overlapped,
          .reason = build.reason,
          .bytes_before = running_bytes(),
          .bytes_after = next ? next->bytes() : elements_->bytes(),
          .bytes_peak =
              build.bytes_in_use + build.bytes_of_order +
              (build.assembled.values ? build.assembled.bytes() : 0) +
              (next ? detail::own_bytes(*next, build.permuted ? build.permuted->matrix() : source) : 0)};
}

template <class T>
bool Matrix<T>::adopt(detail::Build<T>& build, std::int64_t iteration) {
  if (rows_kept()) {
    build.fail(SwitchFailure::refused, std::string(detail::rows_are_kept));
    record_failure(build, iteration);
    return false;
  }
  const double begin = build.overlapped ? now() : build.begun;
  const Permutation order = build.permuted ? build.permuted->permutation() : Permutation();
  std::optional<typename detail::Numbering<T>::Change> reorder;
  SwitchRecord record;
  bool fits = false;
  try {
    // Both products are compared in the caller's order.
    if (build.matrix && !build.check->has_kept()) build.check->keep(detail::InOrder<T>(*build.matrix, order));
    const std::int64_t differing =
        build.matrix ? build.check->differing_rows(detail::InOrder<T>(running(), numbering_->order())) : 0;
    if (differing > 0) {
      build.fail(
          SwitchFailure::wrong_product,
          fmt::format("the product of the new matrix differs from the product of the running matrix in {} of "
                      "{} rows by more than the bound on rounding errors",
                      differing, this->rows()));
    } else {
      record = record_of(build, build.assembled.values ? build.assembled : source_, iteration);
      if (history_.size() == history_.capacity()) history_.reserve(2 * history_.size() + 8);
      // The last that may throw: what follows it is done as a whole.
      if (build.reorders) reorder.emplace(*numbering_, build.order, order, build.permuted);
      fits = true;
    }
  } catch (const std::exception&) { build.fail_by_exception(); }
  if (!fits) {
    // The assembled matrix may be wrong, too, or take memory that is needed.
    build.assembled = {};
    record_failure(build, iteration);
    return false;
  }
  keep_assembled(build);
  history_.push_back(std::move(record));
  // On a device the old arrays are freed in the order of the stream, after all queued products.
  current_ = std::move(build.matrix);
  note_change(true);
  if (current_ && current_->rounds_values()) {
    const std::lock_guard lock(given_mutex_);
    why_left_rounding_.clear();
  }
  if (reorder) reorder->adopt();
  if (!build.exact) ++revision_.values;
  history_.back().wait_seconds = now() - begin;
  return true;
}

template <class T>
auto Matrix<T>::begin(const FormatSpec& spec, std::string reason, std::int64_t iteration, bool overlapped)
    -> std::unique_ptr<detail::Build<T>> {
  if (!may_change())
    throw BadArgument(
        "this matrix was made to stay as it is; call let_change() before, or make it with "
        "MatrixOptions::changes");
  builds_->leave_in_parent();
  cancel(iteration, "another change of format came first");
  builds_->forget_abandoned(false);
  const auto own = [&] {
    return (current_ ? detail::own_bytes(*current_, ordered_source()) : 0) +
           (numbering_->source() ? detail::permuted_bytes(source_) : 0);
  };
  FormatSpec wanted = with_values(spec);
  if (!spec.entry && !spec.elements && !spec.order.empty() && current_)
    wanted.entry = &current_->entry(), wanted.params = current_->params(), wanted.kernel = current_->kernel();
  const bool rounds = may_round() || detail::values_word(wanted.params) == "float";
  const std::string& present = numbering_->id();
  const std::string order = !spec.order.empty() ? spec.order
                            : spec.elements     ? std::string(detail::no_order)
                                                : present;
  std::unique_ptr<detail::Build<T>> build(new detail::Build<T>{
      .spec = std::move(wanted),
      .reason = std::move(reason),
      .iteration = iteration,
      .overlapped = overlapped,
      .exact = running_is_exact() && (!spec.entry || spec.entry->traits.exact_values),
      .rounds = rounds,
      .on_elements = on_elements(),
      .begun = now(),
      .order = order,
      .reorders = order != present,
      .bytes_in_use =
          (elements_ ? elements_->bytes() : 0) + (source_assembled() ? source_.bytes() : 0) + own(),
      .source = source_});
  if (order == present) build->permuted = numbering_->source();
  build->permutation = numbering_->found(order);
  // A build next to the solve begins after the cancelled one has freed its memory; this one does not wait for
  // it.
  if (!overlapped) build->bytes_in_use += builds_->abandoned_bytes();
  return build;
}

template <class T>
bool Matrix<T>::switch_to(const FormatSpec& spec, std::int64_t iteration, std::string reason) {
  const auto build = begin(spec, std::move(reason), iteration, false);
  builds_->run(*build);
  if (build->state.load(std::memory_order_acquire) == Preparation::ready) return adopt(*build, iteration);
  record_failure(*build, iteration);
  return false;
}

template <class T>
void Matrix<T>::prepare(const FormatSpec& spec, std::string reason, std::int64_t iteration) {
  auto build = begin(spec, std::move(reason), iteration, true);
  if (!source_settled_) {
    this->context()->synchronize();  // the source is read on another stream
    source_settled_ = true;
  }
  builds_->start(std::move(build));
}

template <class T>
bool Matrix<T>::adopt_prepared(std::int64_t iteration) {
  const std::unique_ptr<detail::Build<T>> build = builds_->take();
  if (!build) return false;
  if (build->state.load(std::memory_order_acquire) == Preparation::ready) return adopt(*build, iteration);
  record_failure(*build, iteration);
  return false;
}

template <class T>
void Matrix<T>::undo_rounding(const std::string& why) {
  if (!rounded_by_change()) return;
  FormatSpec same{
      .entry = &current_->entry(), .params = current_->params(), .kernel = std::string(current_->kernel())};
  same.params.set(std::string(values_param.name), "auto");
  // The source in csr takes no memory of its own.
  if (!switch_to(same, 0, why)) (void)switch_to({.entry = current_->entry().transposed}, 0, why);
}

template <class T>
void Matrix<T>::cancel(std::int64_t iteration, std::string_view why) {
  auto cancelled = builds_->cancel(iteration, why);
  if (cancelled.ended) keep_assembled(*cancelled.ended);
  if (cancelled.record) failures_.push_back(*std::move(cancelled.record));
}

namespace {

[[noreturn]] void refuse_csr(bool elements) {
  throw BadArgument(
      elements ? "the operator was made of element matrices; the new values must be element matrices, too"
               : "this matrix was made of an operator; give new values to that operator");
}

}  // namespace

template <class T>
void Matrix<T>::update_values(const CsrMatrix<T>& csr) {
  if (elements_ || other_) refuse_csr(elements_ != nullptr);
  if (const auto& ordered = numbering_->source())
    ordered->require_same_pattern(csr);
  else
    current_->require_same_pattern(csr);
  update_values(csr, SamePattern());
}

template <class T>
void Matrix<T>::update_values(const CsrMatrix<T>& csr, SamePattern same) {
  if (elements_ || other_) refuse_csr(elements_ != nullptr);
  cancel(0, "the matrix was given new values");
  builds_->forget_abandoned(true);  // it reads the old values
  if (const auto& ordered = numbering_->source()) {
    CsrMatrix<T> before = ordered->matrix();
    ordered->update_values(csr, same);
    try {
      current_->update_values(ordered->matrix(), same);
    } catch (...) {  // the running matrix and the source have the old values
      ordered->restore(std::move(before));
      throw;
    }
  } else {
    current_->update_values(csr, same);
  }
  source_.values = csr.values, source_.values_owner = csr.values_owner, source_.watch = csr.watch;
  source_settled_ = false;
  ++revision_.values;
  note_change(false);
}

template <class T>
void Matrix<T>::update_values(std::span<const ElementGroup<T>> groups) {
  if (!elements_)
    throw BadArgument(other_ ? "this matrix was made of an operator; give new values to that operator"
                             : "the operator was made of CSR; the new values must be in CSR, too");
  cancel(0, "the matrix was given new values");
  builds_->forget_abandoned(true);                            // it reads the old values
  std::optional<typename detail::Numbering<T>::Change> back;  // element matrices are in the caller's order
  if (numbering_->order().size() > 0) back.emplace(*numbering_, std::string(detail::no_order), Permutation());
  elements_->update_values(groups);
  if (back) back->adopt();
  const bool assembled = current_ != nullptr;
  current_.reset();
  source_ = {};
  source_settled_ = false;
  ++revision_.values;
  note_change(assembled);
}

template <class T>
void Matrix<T>::watch(const CsrMatrix<T>& seen) {
  // In another order the storage has its own arrays.
  if (numbering_->source())
    source_.watch = seen.watch;
  else
    update_values(seen, SamePattern());
}

#define PROTEAN_INSTANTIATE(T)                                                      \
  template bool Matrix<T>::runs(const FormatSpec&) const;                           \
  template void Matrix<T>::let_change(MatrixOptions);                               \
  template bool Matrix<T>::switch_to(const FormatSpec&, std::int64_t, std::string); \
  template void Matrix<T>::prepare(const FormatSpec&, std::string, std::int64_t);   \
  template bool Matrix<T>::adopt_prepared(std::int64_t);                            \
  template void Matrix<T>::undo_rounding(const std::string&);                       \
  template void Matrix<T>::cancel(std::int64_t, std::string_view);                  \
  template void Matrix<T>::update_values(const CsrMatrix<T>&);                      \
  template void Matrix<T>::update_values(const CsrMatrix<T>&, SamePattern);         \
  template void Matrix<T>::update_values(std::span<const ElementGroup<T>>);         \
  template void Matrix<T>::watch(const CsrMatrix<T>&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean
