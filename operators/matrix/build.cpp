#include "operators/matrix/build.hpp"

#include <fmt/format.h>

#include <exception>
#include <new>
#include <utility>

#include "core/background.hpp"
#include "core/error.hpp"
#include "core/forked.hpp"
#include "core/ordering.hpp"
#include "core/signals_blocked.hpp"
#include "core/transfer.hpp"
#include "operators/in_order.hpp"
#include "operators/matrix/numbering.hpp"

namespace protean::detail {
namespace {

// Relative rounding error of the values of inexact formats: the coarsest number type has 8 bits.
constexpr double rounding_of_inexact_values = 0x1p-7;
// The same for values in float. Either matrix may have such values.
constexpr double rounding_of_floats = 0x1p-23;
// Bytes per entry, in addition to the result, that a device needs to sort the entries of a matrix into another order;
// and bytes per row that it needed before to find the order.
constexpr std::size_t sorting_bytes = 24;

}  // namespace

template <class T>
Build<T>::~Build() {
  cancel.store(true, std::memory_order_relaxed);
  if (!thread.joinable()) return;
  if (forked_from(process))
    detail::leave_in_parent(thread);
  else
    thread.join();
}

template <class T>
void Build<T>::fail_by_exception() noexcept {
  try {
    try {
      throw;
    } catch (const Cancelled& error) {
      fail(SwitchFailure::cancelled, error.what());
    } catch (const FormatRefused& error) {
      fail(SwitchFailure::refused, error.what());
    } catch (const BadArgument& error) {
      fail(SwitchFailure::refused, error.what());
    } catch (const NotAvailable& error) {
      fail(SwitchFailure::refused, error.what());
    } catch (const OutOfMemory& error) {
      fail(SwitchFailure::out_of_memory, error.what());
    } catch (const std::bad_alloc&) {
      fail(SwitchFailure::out_of_memory, "no memory for a small array");
    } catch (const std::exception& error) { fail(SwitchFailure::failed, error.what()); } catch (...) {
      fail(SwitchFailure::failed, "an exception of a type unknown here");
    }
  } catch (...) {}  // no memory for the text: the kind of failure is recorded without one
}

template <class T>
FailedSwitch Build<T>::failed(std::int64_t at, SwitchFailure what, std::string text) const {
  return {.iteration = at,
          .to = spec.entry ? std::string(spec.entry->id) : std::string(),
          .kernel = spec.kernel,
          .order = spec.order,
          .parameters = spec.params,
          .overlapped = overlapped,
          .reason = reason,
          .failure = what,
          .why = std::move(text)};
}

template <class T>
Builds<T>::~Builds() {  // the destructor of Build cancels and waits
  if (are_in_parent()) (void)next_.release(), (void)abandoned_.release();
}

template <class T>
void Builds<T>::leave_in_parent() {
  if (!are_in_parent()) return;
  new (&permit_) Permit;
  (void)abandoned_.release();
  const Build<T>* const old = next_.release();
  if (!old || !forked_from(old->process)) return;
  std::unique_ptr<Build<T>> lost(new Build<T>{old->spec, old->reason, old->iteration, old->overlapped,
                                              old->exact, old->rounds, old->on_elements, old->begun,
                                              old->order, old->reorders});
  lost->why = "the process was forked, and the thread that builds is in the parent";
  lost->state.store(Preparation::failed, std::memory_order_release);
  next_ = std::move(lost);
}

// Finds the order of the build, unless it is known, and puts the source into it. `budget` is what it may take.
template <class T>
void Builds<T>::order_rows(Build<T>& build, const CsrMatrix<T>& source, std::size_t& bytes_in_use,
                           std::size_t budget) const {
  if (build.permuted) return;  // it counts as used already
  const ContextPtr& context = A_.context();
  const bool on_host = context->space() == Space::host;
  if (A_.rows() != A_.cols())
    throw BadArgument(fmt::format(
        "the matrix is {} x {}; rows and columns are put into the same order ({}), so it must be square",
        A_.rows(), A_.cols(), build.order));
  const std::size_t bytes = permuted_bytes(source),
                    needed = bytes +
                             (on_host ? 0
                                      : static_cast<std::size_t>(std::max(source.nonzeros(), source.rows())) *
                                            sorting_bytes);
  if (needed > budget)
    throw OutOfMemory(
        fmt::format(
            "the matrix in order {} takes {} bytes in addition to the source and the running matrix; {} "
            "are available",
            build.order, needed, budget),
        needed);
  const double begin = A_.now();
  const ContextPtr host = on_host ? context : Context::host();
  if (build.permutation.size() == 0) {
    if (const auto& find = A_.options().find_order) {
      const SparsityPattern pattern =
          on_host ? source.pattern : download_pattern(host, *context, source.pattern);
      checkpoint();
      std::vector<std::int32_t> order = find(build.order, *host, pattern);
      if (static_cast<std::int64_t>(order.size()) != A_.rows())
        throw BadArgument(
            fmt::format("order {} has {} rows; the matrix has {}", build.order, order.size(), A_.rows()));
      build.permutation = Permutation(context, std::move(order));
    } else {
      build.permutation =
          find_order(build.order, context, source.pattern, nullptr, build.spec.hand_over_order).permutation;
    }
    checkpoint();
  }
  build.permuted = std::make_shared<PermutedMatrix<T>>(host, source, build.permutation);
  context->synchronize();
  bytes_in_use += bytes;
  build.bytes_of_order = bytes;
  build.order_seconds = A_.now() - begin;
  checkpoint();
}

// All results are local until the build has succeeded. So after a failure this thread frees them, within its
// BackgroundWork.
template <class T>
void Builds<T>::make(Build<T>& build) const {
  const FormatSpec& spec = build.spec;
  const ContextPtr& context = A_.context();
  const MatrixOptions& options = A_.options();
  if (build.reorders && build.overlapped && context->deterministic())
    throw BadArgument(
        fmt::format("in deterministic mode the order of the rows (to {}) cannot change next to the solve, "
                    "since the result would depend on the time of the change; let the solve wait for it "
                    "(overlapped: false)",
                    build.order));
  if (spec.elements) {
    if (!A_.elements()) throw BadArgument("the operator was made of CSR; there are no element matrices");
    if (build.order != no_order)
      throw BadArgument(
          fmt::format("element matrices are in the caller's order; leave out the order {}", build.order));
    return;
  }
  if (!spec.entry)
    throw BadArgument(spec.order.empty()
                          ? std::string("a format is asked for without naming one")
                          : fmt::format("the operator computes with element matrices; order {} needs a "
                                        "format, too",
                                        spec.order));
  if (A_.rows_kept()) throw BadArgument(std::string(rows_are_kept));
  if (!spec.entry->traits.exact_values && !options.allow_inexact)
    throw FormatRefused(spec.entry->id,
                        "its values are rounded, which would change the system in the middle of its solve "
                        "(MatrixOptions::allow_inexact permits it)");
  const auto vectors = static_cast<std::size_t>(2 * A_.rows() + A_.cols()) * sizeof(T);
  const auto less = [](std::size_t a, std::size_t b) { return a > b ? a - b : 0; };
  const auto budget = [&](std::size_t bytes_in_use) {
    const auto free =
        static_cast<std::size_t>(options.memory_fraction * static_cast<double>(available_bytes(*context)));
    return std::max<std::size_t>(std::min(less(free, vectors), less(options.memory_limit, bytes_in_use)), 1);
  };
  CsrMatrix<T> source = std::move(build.source);
  std::size_t bytes_in_use = build.bytes_in_use;
  if (!source.pattern.row_ptr.p32 && !source.pattern.row_ptr.p64) {
    const double begin = A_.now();
    source = A_.elements()->assemble(budget(bytes_in_use));
    build.assemble_seconds = A_.now() - begin;
    bytes_in_use += source.bytes();
    build.assembled = source;
  }
  if (build.order != no_order) order_rows(build, source, bytes_in_use, budget(bytes_in_use));
  const CsrMatrix<T>& from = build.permuted ? build.permuted->matrix() : source;
  auto matrix = make_matrix(*spec.entry, from, context, spec.params, spec.kernel, budget(bytes_in_use));
  if (!matrix) throw Error(fmt::format("the maker of format {} returned no matrix", spec.entry->id));
  ProductCheck<T> check(context, source,
                        !build.exact   ? rounding_of_inexact_values
                        : build.rounds ? rounding_of_floats
                                       : 0);
  if (build.on_elements) check.allow_rounding_of(*A_.elements());
  // The kernel of a library may start its own threads, which would not have the low priority of background work.
  if (matrix->kernel() == "native")
    check.keep(InOrder<T>(*matrix, build.permuted ? build.permuted->permutation() : Permutation()));
  context->synchronize();
  checkpoint();  // the last one: a cancelled build frees everything here
  build.matrix = std::move(matrix);
  build.check.emplace(std::move(check));
}

template <class T>
void Builds<T>::wait_for_permit(Build<T>& build) const {
  std::unique_lock lock(permit_.mutex);
  permit_.changed.wait(lock, [&] { return !permit_.in_use || build.cancel.load(std::memory_order_relaxed); });
  if (build.cancel.load(std::memory_order_relaxed)) throw Cancelled("it was asked to end before it began");
  permit_.in_use = build.has_permit = true;
}

// Ends a build. A cancelled build frees its arrays before the next build gets the permit.
template <class T>
void Builds<T>::end(Build<T>& build, Preparation state) const {
  bool cancelled = false;
  {
    const std::lock_guard lock(permit_.mutex);
    cancelled = build.cancel.load(std::memory_order_relaxed);
    if (!cancelled) build.state.store(state, std::memory_order_release);
  }
  if (cancelled) {
    build.matrix.reset(), build.check.reset(), build.permuted.reset();
    build.assembled = {};
    build.state.store(Preparation::failed, std::memory_order_release);
  }
  if (!build.has_permit) return;
  const std::lock_guard lock(permit_.mutex);
  permit_.in_use = false;
  permit_.changed.notify_all();
}

template <class T>
void Builds<T>::run(Build<T>& build) const noexcept {
  double begin = build.begun;
  bool built = false;
  try {
    if (build.overlapped) {
      wait_for_permit(build);
      begin = A_.now();
      const BackgroundWork background(A_.context(), build.cancel, A_.options().background_workers,
                                      &build.allocated);
      make(build);
    } else {
      // What is queued on a device are steps of the solve, which are not part of the build.
      A_.context()->synchronize();
      begin = A_.now();
      make(build);
    }
    built = true;
  } catch (...) { build.fail_by_exception(); }
  build.source = {};
  if (!built) build.permuted.reset();
  // The assembled matrix is kept for the next attempt, except after a cancellation or for lack of memory.
  if (!built && build.failure != SwitchFailure::refused && build.failure != SwitchFailure::failed)
    build.assembled = {};
  build.seconds = A_.now() - begin;
  end(build, built ? Preparation::ready : Preparation::failed);
}

template <class T>
void Builds<T>::start(std::unique_ptr<Build<T>> build) {
  Build<T>& one = *build;
  try {
    const SignalsBlocked blocked;
    one.thread = std::thread([this, &one] { run(one); });
  } catch (const std::bad_alloc&) {
    one.fail(SwitchFailure::out_of_memory, "no memory for a thread");
    one.state.store(Preparation::failed, std::memory_order_release);
  } catch (const std::exception& error) {
    one.fail(SwitchFailure::failed, fmt::format("no thread could be started: {}", error.what()));
    one.state.store(Preparation::failed, std::memory_order_release);
  }
  next_ = std::move(build);
}

template <class T>
Preparation Builds<T>::state() const noexcept {
  if (!next_) return Preparation::none;
  return are_in_parent() ? Preparation::failed : next_->state.load(std::memory_order_acquire);
}

template <class T>
Preparation Builds<T>::wait() {
  leave_in_parent();
  if (next_ && next_->thread.joinable()) next_->thread.join();
  abandoned_.reset();
  return state();
}

template <class T>
double Builds<T>::seconds() const noexcept {
  if (!next_) return 0;
  return state() == Preparation::running ? A_.now() - next_->begun : next_->seconds;
}

template <class T>
std::unique_ptr<Build<T>> Builds<T>::take() {
  leave_in_parent();
  const Preparation now = state();
  if (now == Preparation::none || now == Preparation::running) return nullptr;
  if (next_->thread.joinable()) next_->thread.join();
  return std::move(next_);
}

template <class T>
auto Builds<T>::cancel(std::int64_t iteration, std::string_view why) -> CancelledBuild {
  leave_in_parent();
  if (!next_) return {};
  std::unique_ptr<Build<T>> build = std::move(next_);
  Preparation state;
  bool running;
  {
    const std::lock_guard lock(permit_.mutex);
    build->cancel.store(true, std::memory_order_relaxed);
    state = build->state.load(std::memory_order_acquire);
    running = state == Preparation::running && build->has_permit;
    permit_.changed.notify_all();
  }
  if (running) {
    FailedSwitch record = build->failed(iteration, SwitchFailure::cancelled, std::string(why));
    abandoned_ = std::move(build);  // one that was there before has ended: only one build has the permit
    return {nullptr, std::move(record)};
  }
  // The build has ended, or it has not begun and ends at once.
  if (build->thread.joinable()) build->thread.join();
  if (state == Preparation::ready || build->failure == SwitchFailure::cancelled)
    build->fail(SwitchFailure::cancelled, std::string(why));
  FailedSwitch record = build->failed(iteration, build->failure, build->why);
  return {std::move(build), std::move(record)};
}

template struct Build<float>;
template struct Build<double>;
template class Builds<float>;
template class Builds<double>;

}  // namespace protean::detail
