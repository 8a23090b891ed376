#include "operators/policy/adaptive_operator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <optional>
#include <thread>

#include "core/background.hpp"
#include "core/error.hpp"
#include "operators/policy/product_check.hpp"

namespace protean {
namespace {

// Relative rounding error of the values of inexact formats: the coarsest number type has 8 bits.
constexpr double rounding_of_inexact_values = 0x1p-7;
constexpr std::string_view rows_are_kept =
    "the solve keeps the matrix in shared memory (device_steps resident), so another format would not change "
    "its products";
// Of products shorter than this only one in eight is measured, so that reading the clock costs little.
constexpr float quick_product = 20e-6f;

}  // namespace

std::string FormatSpec::name() const {
  if (elements) return "element";
  if (!entry) return "(no format)";
  return kernel.empty() || kernel == "native" ? std::string(entry->id)
                                              : fmt::format("{}/{}", entry->id, kernel);
}

std::string_view to_string(SwitchFailure failure) noexcept {
  switch (failure) {
    case SwitchFailure::refused:
      return "refused";
    case SwitchFailure::out_of_memory:
      return "out-of-memory";
    case SwitchFailure::failed:
      return "failed";
    case SwitchFailure::wrong_product:
      return "wrong-product";
    case SwitchFailure::cancelled:
      return "cancelled";
  }
  return "unknown";
}

// The build of one matrix. Members that are neither const nor atomic belong to the building thread while
// `state` is running. The build reads no member of the operator that a change of format replaces.
template <class T>
struct AdaptiveOperator<T>::Build {
  const FormatSpec spec;
  const std::string reason;
  const std::int64_t iteration;  // at which it began
  const bool overlapped;
  const bool exact;        // the running and the new matrix have the values of the source
  const bool on_elements;  // the running operator is element matrices
  const double begun;
  std::size_t bytes_in_use = 0;  // of source, running matrix and a cancelled build
  CsrMatrix<T> source = {};      // a handle; empty if element matrices must be assembled first

  std::thread thread = {};
  std::atomic<bool> cancel{false};  // changed under the mutex of permit_, as are the next two
  bool has_permit = false;
  std::atomic<Preparation> state{Preparation::running};
  std::atomic<std::size_t> allocated{0};  // bytes; only of builds beside the solve

  std::unique_ptr<AssembledMatrix<T>> matrix = {};  // the result; null for element matrices
  CsrMatrix<T> assembled = {};                      // the assembled matrix, if this build assembled it
  std::optional<detail::ProductCheck<T>> check = {};
  double seconds = 0, assemble_seconds = 0;
  SwitchFailure failure = SwitchFailure::failed;
  std::string why = {};

  ~Build() {
    cancel.store(true, std::memory_order_relaxed);
    if (thread.joinable()) thread.join();
  }
};

namespace {

// Bytes of a matrix without those it shares with the source. A matrix in csr may use the arrays of the
// source; then its to_csr() returns a handle without copying.
template <class T>
std::size_t own_bytes(const AssembledMatrix<T>& matrix, const CsrMatrix<T>& source) {
  const bool shared = matrix.entry().traits.uses_source && matrix.to_csr().values == source.values;
  return matrix.bytes() - (shared ? std::min(matrix.bytes(), source.bytes()) : 0);
}

}  // namespace

template <class T>
AdaptiveOperator<T>::AdaptiveOperator(CsrMatrix<T> source, std::unique_ptr<AssembledMatrix<T>> start,
                                      AdaptiveOptions options)
    : LinearOperator<T>(start ? start->context() : nullptr, {source.rows(), source.cols()}),
      source_(std::move(source)),
      current_(std::move(start)),
      options_(options) {
  if (!current_) throw BadArgument("an adaptive operator needs a matrix to begin with; it was given none");
  if (current_->shape() != this->shape() || current_->nonzeros() != source_.nonzeros())
    throw ShapeMismatch(fmt::format(
        "the matrix to begin with is {} x {} with {} entries, its source {} x {} with {}; they must be the "
        "same",
        current_->rows(), current_->cols(), current_->nonzeros(), source_.rows(), source_.cols(),
        source_.nonzeros()));
  if (source_.pattern.space != this->context()->space())
    throw WrongSpace(fmt::format("the source lies in {} memory, the matrix to begin with in {} memory",
                                 to_string(source_.pattern.space), to_string(this->context()->space())));
  check_options();
}

template <class T>
AdaptiveOperator<T>::AdaptiveOperator(std::unique_ptr<ElementOperator<T>> elements, AdaptiveOptions options)
    : LinearOperator<T>(elements ? elements->context() : nullptr, elements ? elements->shape() : Shape{}),
      elements_(std::move(elements)),
      options_(options) {
  if (!elements_) throw BadArgument("an adaptive operator of element matrices was given none");
  check_options();
}

template <class T>
void AdaptiveOperator<T>::check_options() const {
  if (options_.background_workers < 1)
    throw BadArgument(
        fmt::format("background_workers is {}; it must be 1 or more", options_.background_workers));
  if (!(options_.memory_fraction > 0 && options_.memory_fraction <= 1))
    throw BadArgument(
        fmt::format("memory_fraction is {}; it must be above 0 and at most 1", options_.memory_fraction));
}

template <class T>
AdaptiveOperator<T>::~AdaptiveOperator() = default;  // the destructor of Build cancels and waits

template <class T>
const AssembledMatrix<T>& AdaptiveOperator<T>::current() const {
  if (!current_) throw BadArgument("the operator runs on element matrices; there is no assembled one");
  return *current_;
}

template <class T>
void AdaptiveOperator<T>::diagonal(VectorView<T> diagonal) const {
  if (!current_) return elements_->diagonal(diagonal);
  if (!running_is_exact() || this->context()->space() != Space::host) return current_->diagonal(diagonal);
  extract_diagonal<T>(*this->context(), source_, diagonal.data);
}

template <class T>
bool AdaptiveOperator<T>::runs(const FormatSpec& spec) const {
  if (spec.elements) return on_elements();
  if (!spec.entry) throw BadArgument("a format is asked for without naming one");
  const Kernel& kernel = find_kernel(*spec.entry, spec.kernel, this->context()->space());
  return current_ && spec.entry == &current_->entry() && kernel.name == current_->kernel() &&
         resolve_params(*spec.entry, spec.params, &kernel) == current_->params();
}

template <class T>
double AdaptiveOperator<T>::now() const {
  if (options_.clock) return options_.clock();
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class T>
template <class Product>
void AdaptiveOperator<T>::timed(Product&& product) const {
  if (this->context()->space() == Space::device) return product();
  const std::uint32_t call = timings_.calls.fetch_add(1, std::memory_order_relaxed);
  const bool quick = timings_.seconds[0].load(std::memory_order_relaxed) < quick_product;
  if (quick && call % 8 != 0) return product();
  const double begin = now();
  product();
  const std::uint32_t slot = timings_.count.fetch_add(1, std::memory_order_relaxed) % Timings::kept;
  timings_.seconds[slot].store(static_cast<float>(now() - begin), std::memory_order_relaxed);
}

template <class T>
void AdaptiveOperator<T>::do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const {
  timed([&] { running().apply(alpha, x, beta, y); });
}

template <class T>
void AdaptiveOperator<T>::do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const {
  timed([&] { apply_dot<T>(running(), x, y, result); });
}

template <class T>
double AdaptiveOperator<T>::seconds_per_product() const noexcept {
  std::array<float, Timings::kept> sorted;
  const auto count = static_cast<std::ptrdiff_t>(
      std::min<std::uint32_t>(timings_.count.load(std::memory_order_relaxed), Timings::kept));
  if (count == 0) return 0;
  for (std::ptrdiff_t i = 0; i < count; ++i) sorted[i] = timings_.seconds[i].load(std::memory_order_relaxed);
  std::nth_element(sorted.begin(), sorted.begin() + count / 2, sorted.begin() + count);
  return static_cast<double>(sorted[count / 2]);
}

// All results are local until the build has succeeded. So after a failure this thread frees them, within its
// BackgroundWork.
template <class T>
void AdaptiveOperator<T>::build(Build& build) const {
  const FormatSpec& spec = build.spec;
  if (spec.elements) {
    if (!elements_) throw BadArgument("the operator was made of CSR; there are no element matrices");
    return;
  }
  if (!spec.entry) throw BadArgument("a format is asked for without naming one");
  if (rows_kept()) throw BadArgument(std::string(rows_are_kept));
  if (!spec.entry->traits.exact_values && !options_.allow_inexact)
    throw FormatRefused(spec.entry->id,
                        "its values are rounded, which would change the system in the middle of its solve "
                        "(AdaptiveOptions::allow_inexact permits it)");
  const ContextPtr& context = this->context();
  const auto vectors = static_cast<std::size_t>(2 * this->rows() + this->cols()) * sizeof(T);
  const auto less = [](std::size_t a, std::size_t b) { return a > b ? a - b : 0; };
  const auto budget = [&](std::size_t bytes_in_use) {
    const auto free =
        static_cast<std::size_t>(options_.memory_fraction * static_cast<double>(available_bytes(*context)));
    return std::max<std::size_t>(std::min(less(free, vectors), less(options_.memory_limit, bytes_in_use)), 1);
  };
  CsrMatrix<T> source = std::move(build.source);
  std::size_t bytes_in_use = build.bytes_in_use;
  if (!source.pattern.row_ptr.p32 && !source.pattern.row_ptr.p64) {
    const double begin = now();
    source = elements_->assemble(budget(bytes_in_use));
    build.assemble_seconds = now() - begin;
    bytes_in_use += source.bytes();
    build.assembled = source;
  }
  std::size_t most = budget(bytes_in_use);
  // Format csr can share the arrays of the source.
  if (spec.entry->traits.uses_source) most += std::min(source.bytes(), ~most);
  auto matrix = make_matrix(*spec.entry, source, context, spec.params, spec.kernel, most);
  if (!matrix) throw Error(fmt::format("the maker of format {} returned no matrix", spec.entry->id));
  detail::ProductCheck<T> check(context, source, build.exact ? 0 : rounding_of_inexact_values);
  if (build.on_elements) check.allow_rounding_of(*elements_);
  // A library's kernel may start threads of its own, which would not have the low priority of background
  // work.
  if (matrix->kernel() == "native") check.keep(*matrix);
  context->synchronize();
  detail::checkpoint();  // the last one: a cancelled build frees everything here
  build.matrix = std::move(matrix);
  build.check.emplace(std::move(check));
}

template <class T>
void AdaptiveOperator<T>::wait_for_permit(Build& task) const {
  std::unique_lock lock(permit_.mutex);
  permit_.changed.wait(lock, [&] { return !permit_.in_use || task.cancel.load(std::memory_order_relaxed); });
  if (task.cancel.load(std::memory_order_relaxed)) throw Cancelled("it was asked to end before it began");
  permit_.in_use = task.has_permit = true;
}

// Ends a build. A cancelled build frees its arrays before the next build gets the permit.
template <class T>
void AdaptiveOperator<T>::end(Build& task, Preparation state) const {
  bool cancelled = false;
  {
    const std::lock_guard lock(permit_.mutex);
    cancelled = task.cancel.load(std::memory_order_relaxed);
    if (!cancelled) task.state.store(state, std::memory_order_release);
  }
  if (cancelled) {
    task.matrix.reset(), task.check.reset();
    task.assembled = {};
    task.state.store(Preparation::failed, std::memory_order_release);
  }
  if (!task.has_permit) return;
  const std::lock_guard lock(permit_.mutex);
  permit_.in_use = false;
  permit_.changed.notify_all();
}

template <class T>
void AdaptiveOperator<T>::run(Build& task) const noexcept {
  double begin = task.begun;
  bool built = false;
  try {
    try {
      if (task.overlapped) {
        wait_for_permit(task);
        begin = now();
        const BackgroundWork background(this->context(), task.cancel, options_.background_workers,
                                        &task.allocated);
        build(task);
      } else {
        build(task);
      }
      built = true;
    } catch (const Cancelled& error) {
      task.failure = SwitchFailure::cancelled, task.why = error.what();
    } catch (const FormatRefused& error) {
      task.failure = SwitchFailure::refused, task.why = error.what();
    } catch (const BadArgument& error) {
      task.failure = SwitchFailure::refused, task.why = error.what();
    } catch (const NotAvailable& error) {
      task.failure = SwitchFailure::refused, task.why = error.what();
    } catch (const OutOfMemory& error) {
      task.failure = SwitchFailure::out_of_memory, task.why = error.what();
    } catch (const std::bad_alloc&) {
      task.failure = SwitchFailure::out_of_memory, task.why = "no memory for a small array";
    } catch (const std::exception& error) { task.why = error.what(); } catch (...) {
      task.why = "an exception of a type unknown here";
    }
  } catch (...) {}  // no memory for the text: the kind of failure is recorded without one
  task.source = {};
  // The assembled matrix is kept for the next attempt, except after a cancellation or for lack of memory.
  if (!built && task.failure != SwitchFailure::refused && task.failure != SwitchFailure::failed)
    task.assembled = {};
  task.seconds = now() - begin;
  end(task, built ? Preparation::ready : Preparation::failed);
}

template <class T>
void AdaptiveOperator<T>::keep_assembled(Build& task) {
  if (!task.assembled.values) return;
  task.bytes_in_use += task.assembled.bytes();
  source_ = std::move(task.assembled);
  source_settled_ = true;  // the build has synchronised
}

template <class T>
void AdaptiveOperator<T>::record_failure(Build& task, std::int64_t iteration) {
  keep_assembled(task);
  record_failure(task, iteration, task.failure, task.why);
}

template <class T>
void AdaptiveOperator<T>::record_failure(const Build& task, std::int64_t iteration, SwitchFailure failure,
                                         std::string why) {
  failures_.push_back({.iteration = iteration,
                       .to = task.spec.entry ? std::string(task.spec.entry->id) : std::string(),
                       .kernel = task.spec.kernel,
                       .parameters = task.spec.params,
                       .overlapped = task.overlapped,
                       .reason = task.reason,
                       .failure = failure,
                       .why = std::move(why)});
}

template <class T>
bool AdaptiveOperator<T>::adopt(Build& task, std::int64_t iteration) {
  if (rows_kept()) {
    record_failure(task, iteration, SwitchFailure::refused, std::string(rows_are_kept));
    return false;
  }
  const double begin = task.overlapped ? now() : task.begun;
  std::int64_t differing = 0;
  try {
    if (task.matrix && !task.check->has_kept()) task.check->keep(*task.matrix);
    if (task.matrix) differing = task.check->differing_rows(running());
    if (differing > 0) {
      task.failure = SwitchFailure::wrong_product;
      task.why = fmt::format(
          "the product of the new matrix differs from that of the running matrix in {} of {} rows by more "
          "than "
          "the bound on rounding errors",
          differing, this->rows());
    }
  } catch (const OutOfMemory& error) {
    task.failure = SwitchFailure::out_of_memory, task.why = error.what(), differing = -1;
  } catch (const std::exception& error) {
    task.failure = SwitchFailure::failed, task.why = error.what(), differing = -1;
  }
  if (differing != 0) {
    // The assembled matrix may be wrong, too, or take memory that is needed.
    task.assembled = {};
    record_failure(task, iteration);
    return false;
  }
  const LinearOperator<T>& next =
      task.matrix ? static_cast<const LinearOperator<T>&>(*task.matrix) : *elements_;
  keep_assembled(task);
  SwitchRecord record{.iteration = iteration,
                      .begun_iteration = task.iteration,
                      .from = std::string(running().name()),
                      .to = std::string(next.name()),
                      .from_kernel = current_ ? std::string(current_->kernel()) : "native",
                      .to_kernel = task.matrix ? std::string(task.matrix->kernel()) : "native",
                      .parameters = task.matrix ? task.matrix->params() : FormatParams(),
                      .convert_seconds = task.seconds,
                      .assemble_seconds = task.assemble_seconds,
                      .wait_seconds = 0,
                      .overlapped = task.overlapped,
                      .reason = task.reason,
                      .bytes_before = running_bytes(),
                      .bytes_after = task.matrix ? task.matrix->bytes() : elements_->bytes(),
                      .bytes_peak = task.bytes_in_use + (task.matrix ? own_bytes(*task.matrix, source_) : 0)};
  history_.push_back(std::move(record));
  // On a device the old arrays are freed in the order of the stream, after all queued products.
  current_ = std::move(task.matrix);
  ++form_, ++changes_;
  if (!task.exact) ++revision_.values;
  timings_.count.store(0, std::memory_order_relaxed);
  history_.back().wait_seconds = now() - begin;
  return true;
}

template <class T>
auto AdaptiveOperator<T>::begin(const FormatSpec& spec, std::string reason, std::int64_t iteration,
                                bool overlapped) -> std::unique_ptr<Build> {
  cancel(iteration, "another change of format came first");
  if (!abandoned()) abandoned_.reset();
  const auto own = [&] { return current_ ? own_bytes(*current_, source_) : 0; };
  std::unique_ptr<Build> task(
      new Build{.spec = spec,
                .reason = std::move(reason),
                .iteration = iteration,
                .overlapped = overlapped,
                .exact = running_is_exact() && (!spec.entry || spec.entry->traits.exact_values),
                .on_elements = elements_ && !current_,
                .begun = now(),
                .bytes_in_use =
                    (elements_ ? elements_->bytes() : 0) + (source_assembled() ? source_.bytes() : 0) + own(),
                .source = source_});
  // A build beside the solve begins after the cancelled one has freed its memory; this one does not wait for
  // it.
  if (abandoned_ && !overlapped) task->bytes_in_use += abandoned_->allocated.load(std::memory_order_relaxed);
  return task;
}

template <class T>
bool AdaptiveOperator<T>::switch_to(const FormatSpec& spec, std::int64_t iteration, std::string reason) {
  const auto task = begin(spec, std::move(reason), iteration, false);
  run(*task);
  if (task->state.load(std::memory_order_acquire) == Preparation::ready) return adopt(*task, iteration);
  record_failure(*task, iteration);
  return false;
}

template <class T>
void AdaptiveOperator<T>::prepare(const FormatSpec& spec, std::string reason, std::int64_t iteration) {
  auto task = begin(spec, std::move(reason), iteration, true);
  if (!source_settled_) {
    this->context()->synchronize();  // the source is read on another stream
    source_settled_ = true;
  }
  Build& build = *task;
  try {
    task->thread = std::thread([this, &build] { run(build); });
  } catch (const std::exception& error) {
    task->why = fmt::format("no thread could be started: {}", error.what());
    task->state.store(Preparation::failed, std::memory_order_release);
  }
  next_ = std::move(task);
}

template <class T>
RowArrays<T> AdaptiveOperator<T>::row_arrays() const noexcept {
  const auto* rows = rows_shown_ ? dynamic_cast<const HasRowArrays<T>*>(current_.get()) : nullptr;
  if (!rows) return {};
  RowArrays<T> arrays = rows->row_arrays();
  // The arrays of the next format may lie at the same addresses.
  arrays.version = arrays.version ? form_ + 1 : 0;
  return arrays;
}

template <class T>
Preparation AdaptiveOperator<T>::preparation() const noexcept {
  return next_ ? next_->state.load(std::memory_order_acquire) : Preparation::none;
}

template <class T>
Preparation AdaptiveOperator<T>::wait_prepared() {
  if (next_ && next_->thread.joinable()) next_->thread.join();
  abandoned_.reset();
  return preparation();
}

template <class T>
bool AdaptiveOperator<T>::abandoned() const noexcept {
  return abandoned_ && abandoned_->state.load(std::memory_order_acquire) == Preparation::running;
}

template <class T>
double AdaptiveOperator<T>::preparation_seconds() const noexcept {
  if (!next_) return 0;
  return preparation() == Preparation::running ? now() - next_->begun : next_->seconds;
}

template <class T>
bool AdaptiveOperator<T>::adopt_prepared(std::int64_t iteration) {
  const Preparation state = preparation();
  if (state == Preparation::none || state == Preparation::running) return false;
  const std::unique_ptr<Build> task = std::move(next_);
  if (task->thread.joinable()) task->thread.join();
  if (state == Preparation::ready) return adopt(*task, iteration);
  record_failure(*task, iteration);
  return false;
}

template <class T>
void AdaptiveOperator<T>::cancel(std::int64_t iteration, std::string_view why) {
  if (!next_) return;
  std::unique_ptr<Build> task = std::move(next_);
  Preparation state;
  bool running;
  {
    const std::lock_guard lock(permit_.mutex);
    task->cancel.store(true, std::memory_order_relaxed);
    state = task->state.load(std::memory_order_acquire);
    running = state == Preparation::running && task->has_permit;
    permit_.changed.notify_all();
  }
  if (running) {
    record_failure(*task, iteration, SwitchFailure::cancelled, std::string(why));
    abandoned_ = std::move(task);  // one that was there before has ended: only one build has the permit
    return;
  }
  // The build has ended, or it has not begun and ends at once.
  if (task->thread.joinable()) task->thread.join();
  if (state == Preparation::ready || task->failure == SwitchFailure::cancelled)
    task->failure = SwitchFailure::cancelled, task->why = why;
  record_failure(*task, iteration);
}

template <class T>
void AdaptiveOperator<T>::update_values(const CsrMatrix<T>& csr) {
  if (elements_)
    throw BadArgument(
        "the operator was made of element matrices; the new values must be element matrices, too");
  cancel(0, "the matrix was given new values");
  abandoned_.reset();  // waits for the cancelled build, which reads the old values
  current_->update_values(csr);
  source_.values = csr.values, source_.values_owner = csr.values_owner, source_.watch = csr.watch;
  source_settled_ = false;
  ++revision_.values, ++changes_;
}

template <class T>
void AdaptiveOperator<T>::update_values(std::span<const ElementGroup<T>> groups) {
  if (!elements_) throw BadArgument("the operator was made of CSR; the new values must be in CSR, too");
  cancel(0, "the matrix was given new values");
  abandoned_.reset();  // waits for the cancelled build, which reads the old values
  elements_->update_values(groups);
  if (current_) {
    current_.reset();
    ++form_;
    timings_.count.store(0, std::memory_order_relaxed);
  }
  source_ = {};
  source_settled_ = false;
  ++revision_.values, ++changes_;
}

template class AdaptiveOperator<float>;
template class AdaptiveOperator<double>;

}  // namespace protean
