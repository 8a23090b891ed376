#include "operators/adaptive_operator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <optional>
#include <thread>

#include "core/background.hpp"
#include "core/error.hpp"
#include "operators/product_check.hpp"

namespace protean {
namespace {

// What rounded values may differ by, relatively: the coarsest number type in use for them has 8 bits.
constexpr double rounding_of_inexact_values = 0x1p-7;
constexpr std::string_view rows_are_kept =
    "the solve keeps the rows of the matrix where it computes (device_steps resident); another format would "
    "change nothing for it";
// Products below this are measured one time in eight, so that reading the clock costs nothing.
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

// One matrix being built. What is not atomic belongs to the building thread until `state` says it is done,
// but for what is const. It reads nothing of the operator that a change of format replaces.
template <class T>
struct AdaptiveOperator<T>::Build {
  const FormatSpec spec;
  const std::string reason;
  const std::int64_t iteration;  // begun at
  const bool overlapped;
  const bool exact;        // both matrices hold the values of the source
  const bool on_elements;  // products are compared with those of element matrices
  const double begun;
  std::size_t beside = 0;    // bytes of source and running matrix, and of what else is being built
  CsrMatrix<T> source = {};  // a handle; without arrays where they must be assembled first

  std::thread thread = {};
  std::atomic<bool> cancel{false};  // changed under the mutex of turn_, as are the next two
  bool has_turn = false;
  std::atomic<Preparation> state{Preparation::running};
  std::atomic<std::size_t> allocated{0};  // beside the solve; none of it any more after cancel was seen

  std::unique_ptr<AssembledMatrix<T>> matrix = {};  // null for element matrices
  CsrMatrix<T> assembled = {};                      // where that was done
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

// The format csr may be the source itself: its to_csr() is a handle then, so asking costs nothing.
template <class T>
std::size_t own_bytes(const AssembledMatrix<T>& matrix, const CsrMatrix<T>& source) {
  const bool shared = matrix.entry().id == "csr" && matrix.to_csr().values == source.values;
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
AdaptiveOperator<T>::~AdaptiveOperator() = default;  // Build's destructor cancels and waits

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
         resolve_params(*spec.entry, spec.params) == current_->params();
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

// Everything it makes is local until all of it has succeeded, so that what a failure leaves is freed by this
// thread, within its background work.
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
  const auto room = [&](std::size_t beside) {
    const auto free =
        static_cast<std::size_t>(options_.memory_fraction * static_cast<double>(available_bytes(*context)));
    return std::max<std::size_t>(std::min(less(free, vectors), less(options_.memory_limit, beside)), 1);
  };
  CsrMatrix<T> source = std::move(build.source);
  std::size_t beside = build.beside;
  if (!source.pattern.row_ptr.p32 && !source.pattern.row_ptr.p64) {
    const double begin = now();
    source = elements_->assemble(room(beside));
    build.assemble_seconds = now() - begin;
    beside += source.bytes();
    build.assembled = source;
  }
  std::size_t most = room(beside);
  // Of csr the arrays of the source are there already.
  if (spec.entry->id == "csr") most += std::min(source.bytes(), ~most);
  auto matrix = make_matrix(*spec.entry, source, context, spec.params, spec.kernel, most);
  if (!matrix) throw Error(fmt::format("the maker of format {} returned no matrix", spec.entry->id));
  detail::ProductCheck<T> check(context, source, build.exact ? 0 : rounding_of_inexact_values);
  if (build.on_elements) check.allow_rounding_of(*elements_);
  // A library's kernel may bring threads of its own, which would not be in the background.
  if (matrix->kernel() == "native") check.keep(*matrix);
  context->synchronize();
  detail::checkpoint();  // the last: what nobody wants is freed here, as all of it
  build.matrix = std::move(matrix);
  build.check.emplace(std::move(check));
}

template <class T>
void AdaptiveOperator<T>::take_turn(Build& task) const {
  std::unique_lock lock(turn_.mutex);
  turn_.changed.wait(lock, [&] { return !turn_.taken || task.cancel.load(std::memory_order_relaxed); });
  if (task.cancel.load(std::memory_order_relaxed)) throw Cancelled("it was asked to end before it began");
  turn_.taken = task.has_turn = true;
}

// The last that is done for it. What is no longer wanted is dropped before the next one has its turn.
template <class T>
void AdaptiveOperator<T>::end(Build& task, Preparation state) const {
  bool unwanted = false;
  {
    const std::lock_guard lock(turn_.mutex);
    unwanted = task.cancel.load(std::memory_order_relaxed);
    if (!unwanted) task.state.store(state, std::memory_order_release);
  }
  if (unwanted) {
    task.matrix.reset(), task.check.reset();
    task.assembled = {};
    task.state.store(Preparation::failed, std::memory_order_release);
  }
  if (!task.has_turn) return;
  const std::lock_guard lock(turn_.mutex);
  turn_.taken = false;
  turn_.changed.notify_all();
}

template <class T>
void AdaptiveOperator<T>::run(Build& task) const noexcept {
  double begin = task.begun;
  bool built = false;
  try {
    try {
      if (task.overlapped) {
        take_turn(task);
        begin = now();
        const BackgroundWork behind(this->context(), task.cancel, options_.background_workers,
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
  } catch (...) {}  // no memory for the text of the reason: the kind says enough
  task.source = {};
  // What was assembled serves the next attempt, unless it is too large or unwanted, or memory is short.
  if (!built && task.failure != SwitchFailure::refused && task.failure != SwitchFailure::failed)
    task.assembled = {};
  task.seconds = now() - begin;
  end(task, built ? Preparation::ready : Preparation::failed);
}

template <class T>
void AdaptiveOperator<T>::keep_assembled(Build& task) {
  if (!task.assembled.values) return;
  task.beside += task.assembled.bytes();
  source_ = std::move(task.assembled);
  source_settled_ = true;  // the build waited for it
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
          "the product of the new matrix differs from that of the running one in {} of {} rows by more than "
          "rounding can",
          differing, this->rows());
    }
  } catch (const OutOfMemory& error) {
    task.failure = SwitchFailure::out_of_memory, task.why = error.what(), differing = -1;
  } catch (const std::exception& error) {
    task.failure = SwitchFailure::failed, task.why = error.what(), differing = -1;
  }
  if (differing != 0) {
    // It may have been assembled wrongly, too; and where memory is short it is of no use.
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
                      .bytes_peak = task.beside + (task.matrix ? own_bytes(*task.matrix, source_) : 0)};
  history_.push_back(std::move(record));
  // On a device the old arrays are freed in the order of the stream, behind all products that were queued.
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
  std::unique_ptr<Build> task(new Build{
      .spec = spec,
      .reason = std::move(reason),
      .iteration = iteration,
      .overlapped = overlapped,
      .exact = running_is_exact() && (!spec.entry || spec.entry->traits.exact_values),
      .on_elements = elements_ && !current_,
      .begun = now(),
      .beside = (elements_ ? elements_->bytes() : 0) + (source_assembled() ? source_.bytes() : 0) + own(),
      .source = source_});
  // One beside the solve begins when the abandoned one has given its memory back.
  if (abandoned_ && !overlapped) task->beside += abandoned_->allocated.load(std::memory_order_relaxed);
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
  bool goes_on;
  {
    const std::lock_guard lock(turn_.mutex);
    task->cancel.store(true, std::memory_order_relaxed);
    state = task->state.load(std::memory_order_acquire);
    goes_on = state == Preparation::running && task->has_turn;
    turn_.changed.notify_all();
  }
  if (goes_on) {
    record_failure(*task, iteration, SwitchFailure::cancelled, std::string(why));
    abandoned_ = std::move(task);  // one that was there has ended: it had the turn before
    return;
  }
  // It has ended, or has not begun and ends at once.
  if (task->thread.joinable()) task->thread.join();
  if (state == Preparation::ready || task->failure == SwitchFailure::cancelled)
    task->failure = SwitchFailure::cancelled, task->why = why;
  record_failure(*task, iteration);
}

template <class T>
void AdaptiveOperator<T>::update_values(const CsrMatrix<T>& csr) {
  if (elements_)
    throw BadArgument("the operator was made of element matrices; new values must be element matrices, too");
  cancel(0, "the matrix was given new values");
  abandoned_.reset();  // waits: it reads the old values
  current_->update_values(csr);
  source_.values = csr.values, source_.values_owner = csr.values_owner, source_.watch = csr.watch;
  source_settled_ = false;
  ++revision_.values, ++changes_;
}

template <class T>
void AdaptiveOperator<T>::update_values(std::span<const ElementGroup<T>> groups) {
  if (!elements_) throw BadArgument("the operator was made of CSR; new values must be CSR, too");
  cancel(0, "the matrix was given new values");
  abandoned_.reset();  // waits: it reads the old values
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
