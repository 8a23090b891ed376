#include "operators/policy/adaptive_operator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <optional>
#include <thread>

#include "core/background.hpp"
#include "core/blas1.hpp"
#include "core/error.hpp"
#include "core/forked.hpp"
#include "core/ordering.hpp"
#include "core/signals_blocked.hpp"
#include "core/transfer.hpp"
#include "operators/callers_order.hpp"
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
// Bytes an entry, beside the result, with which a device sorts the entries of a matrix into another order; and bytes a
// row with which it found the order before.
constexpr std::size_t sorting_bytes = 24;
// The name of the caller's order.
constexpr std::string_view no_order = "none";

// Bytes of what a PermutedMatrix holds.
template <class T>
std::size_t permuted_bytes(const CsrMatrix<T>& source) {
  const auto entries = static_cast<std::size_t>(source.nonzeros());
  return source.bytes() + entries * (source.nonzeros() > std::numeric_limits<std::int32_t>::max() ? 8 : 4) +
         static_cast<std::size_t>(source.rows()) * 8;
}

}  // namespace

std::string FormatSpec::name() const {
  const std::string in = order.empty() ? "" : fmt::format("order {}", order);
  if (!entry && !elements) return in.empty() ? "(no format)" : in;
  std::string name = elements                               ? "element"
                     : kernel.empty() || kernel == "native" ? std::string(entry->id)
                                                            : fmt::format("{}/{}", entry->id, kernel);
  return in.empty() ? name : name + " in " + in;
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
  const std::string order;       // of the new matrix
  const bool reorders;           // it is not that of the running matrix
  std::size_t bytes_in_use = 0;  // of source, running matrix and a cancelled build
  CsrMatrix<T> source = {};      // a handle; empty if element matrices must be assembled first
  // For another order than the caller's: the source in that order, if it is the running one, and the permutation, if
  // it was found before. The build makes what is missing.
  std::shared_ptr<PermutedMatrix<T>> permuted = {};
  Permutation permutation = {};

  const pid_t process = getpid();
  std::thread thread = {};
  std::atomic<bool> cancel{false};  // changed under the mutex of permit_, as are the next two
  bool has_permit = false;
  std::atomic<Preparation> state{Preparation::running};
  std::atomic<std::size_t> allocated{0};  // bytes; only of builds beside the solve

  std::unique_ptr<AssembledMatrix<T>> matrix = {};  // the result; null for element matrices
  CsrMatrix<T> assembled = {};                      // the assembled matrix, if this build assembled it
  std::optional<detail::ProductCheck<T>> check = {};
  double seconds = 0, assemble_seconds = 0, order_seconds = 0;
  std::size_t bytes_of_order = 0;  // of `permuted`, if this build made it
  SwitchFailure failure = SwitchFailure::failed;
  std::string why = {};

  ~Build() {
    cancel.store(true, std::memory_order_relaxed);
    if (!thread.joinable()) return;
    if (detail::forked_from(process))
      detail::leave_in_parent(thread);
    else
      thread.join();
  }

  // In a child of fork() the builds of the parent have failed. What their threads were writing is left alone, and so is
  // the permit, which one of them may hold.
  static bool are_in_parent(const AdaptiveOperator& A) noexcept {
    return (A.next_ && detail::forked_from(A.next_->process)) ||
           (A.abandoned_ && detail::forked_from(A.abandoned_->process));
  }
  static void leave_in_parent(AdaptiveOperator& A) {
    if (!are_in_parent(A)) return;
    new (&A.permit_) BuildPermit;
    (void)A.abandoned_.release();
    const Build* const old = A.next_.release();
    if (!old || !detail::forked_from(old->process)) return;
    std::unique_ptr<Build> lost(new Build{.spec = old->spec,
                                          .reason = old->reason,
                                          .iteration = old->iteration,
                                          .overlapped = old->overlapped,
                                          .exact = old->exact,
                                          .on_elements = old->on_elements,
                                          .begun = old->begun,
                                          .order = old->order,
                                          .reorders = old->reorders});
    lost->why = "the process was forked, and the thread that builds is in the parent";
    lost->state.store(Preparation::failed, std::memory_order_release);
    A.next_ = std::move(lost);
  }
};

// The products of the running matrix, in its order.
template <class T>
class AdaptiveOperator<T>::InOrder final : public Wrapper<T>,
                                           public HasDiagonal<T>,
                                           public HasApplyDot<T>,
                                           public HasMultiProduct<T>,
                                           public HasTransposedProduct<T>,
                                           public HasRows<T>,
                                           public HasRowArrays<T> {
 public:
  explicit InOrder(const AdaptiveOperator& A) : Wrapper<T>(A.context(), A.shape()), A_(A) {}
  const LinearOperator<T>& inner() const noexcept override { return A_; }
  void diagonal(VectorView<T> diagonal) const override {
    A_.running().abilities().diagonal->diagonal(diagonal);
  }
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    A_.count_products(1);
    A_.timed([&] { apply_dot<T>(A_.running(), x, y, result); });
  }
  std::string_view no_multi_product() const noexcept override { return A_.no_multi_product(); }
  void do_multi_apply(T alpha, MultiVectorView<const T> X, T beta, MultiVectorView<T> Y) const override {
    A_.count_products(X.columns);
    A_.multi_product(alpha, X, beta, Y);
  }
  std::string_view no_transposed_product() const noexcept override { return A_.no_transposed_product(); }
  void prepare_transposed() const override { A_.prepare_transposed(); }
  std::size_t transposed_bytes() const noexcept override { return A_.transposed_bytes(); }
  void do_apply_transposed(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    A_.count_products(1);
    apply_transposed<T>(A_.running(), alpha, x, beta, y);
  }
  CsrMatrix<T> rows_as_csr() const override { return A_.rows_in_order(); }
  RowArrays<T> row_arrays() const noexcept override { return A_.rows_of_running(); }
  void keep_rows(bool kept) const noexcept override { A_.keep_rows(kept); }

 protected:
  void change(Abilities<T>& set) const noexcept override {
    set.diagonal = this, set.apply_dot = this, set.multi_product = this, set.transposed_product = this,
    set.rows = this, set.row_arrays = this;
    set.order = Ability<HasOrder<T>>::refused("its vectors are in the order of the matrix already");
  }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    A_.count_products(1);
    A_.product(alpha, x, beta, y);
  }

 private:
  const AdaptiveOperator& A_;
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
AdaptiveOperator<T>::AdaptiveOperator(CsrMatrix<T> source, std::unique_ptr<AssembledMatrix<T>>&& start,
                                      AdaptiveOptions options)
    : Wrapper<T>(start ? start->context() : nullptr, {source.rows(), source.cols()}),
      source_(std::move(source)),
      options_(std::move(options)) {
  check_start(start.get());
  check_options();
  in_order_ = std::make_unique<InOrder>(*this);
  followers_.reserve(4);
  current_ = std::move(start);  // nothing throws after it
}

template <class T>
AdaptiveOperator<T>::AdaptiveOperator(CsrMatrix<T> source, std::string order, PermutedMatrix<T>&& ordered,
                                      std::unique_ptr<AssembledMatrix<T>>&& start, AdaptiveOptions options)
    : Wrapper<T>(start ? start->context() : nullptr, {source.rows(), source.cols()}),
      source_(std::move(source)),
      options_(std::move(options)) {
  check_start(start.get());
  check_options();
  if (order.empty() || order == no_order)
    throw BadArgument(fmt::format(
        "an adaptive operator begins in order '{}'; the order of its matrix needs a name other than none",
        order));
  const Permutation& P = ordered.permutation();
  if (P.size() != this->rows() || this->cols() != this->rows() ||
      ordered.matrix().nonzeros() != source_.nonzeros())
    throw ShapeMismatch(fmt::format(
        "the source is {} x {} with {} entries, in order {} it is {} x {} with {}; they must be the same",
        this->rows(), this->cols(), source_.nonzeros(), order, ordered.matrix().rows(),
        ordered.matrix().cols(), ordered.matrix().nonzeros()));
  if (P.size() > 0 && P.context()->space() != this->context()->space())
    throw WrongSpace(fmt::format("order {} permutes vectors in {} memory, the operator works on {} memory",
                                 order, to_string(P.context()->space()),
                                 to_string(this->context()->space())));
  in_order_ = std::make_unique<InOrder>(*this);
  followers_.reserve(4);
  if (P.size() > 0) callers_order_ = std::make_unique<detail::CallersOrder<T>>(P);
  found_orders_.emplace_back(order, P);
  order_ = P, order_id_ = std::move(order);
  permuted_ = std::make_shared<PermutedMatrix<T>>(std::move(ordered));
  current_ = std::move(start);  // nothing throws after the line before
}

template <class T>
void AdaptiveOperator<T>::check_start(const AssembledMatrix<T>* start) const {
  if (!start) throw BadArgument("an adaptive operator needs a matrix to begin with; it was given none");
  if (start->shape() != this->shape() || start->nonzeros() != source_.nonzeros())
    throw ShapeMismatch(fmt::format(
        "the matrix to begin with is {} x {} with {} entries, its source {} x {} with {}; they must be the "
        "same",
        start->rows(), start->cols(), start->nonzeros(), source_.rows(), source_.cols(), source_.nonzeros()));
  if (source_.pattern.space != this->context()->space())
    throw WrongSpace(fmt::format("the source lies in {} memory, the matrix to begin with in {} memory",
                                 to_string(source_.pattern.space), to_string(this->context()->space())));
}

template <class T>
AdaptiveOperator<T>::AdaptiveOperator(std::unique_ptr<ElementOperator<T>>&& elements, AdaptiveOptions options)
    : Wrapper<T>(elements ? elements->context() : nullptr, elements ? elements->shape() : Shape{}),
      options_(std::move(options)) {
  if (!elements) throw BadArgument("an adaptive operator of element matrices was given none");
  check_options();
  in_order_ = std::make_unique<InOrder>(*this);
  followers_.reserve(4);
  elements_ = std::move(elements);  // nothing throws after it
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
AdaptiveOperator<T>::~AdaptiveOperator() {  // the destructor of Build cancels and waits
  if (Build::are_in_parent(*this)) (void)next_.release(), (void)abandoned_.release();
}

template <class T>
const AssembledMatrix<T>& AdaptiveOperator<T>::current() const {
  if (!current_) throw BadArgument("the operator runs on element matrices; there is no assembled one");
  return *current_;
}

template <class T>
void AdaptiveOperator<T>::diagonal(VectorView<T> diagonal) const {
  if (!current_) return elements_->diagonal(diagonal);
  if (!running_is_exact() || this->context()->space() != Space::host) {
    if (!callers_order_) return current_->diagonal(diagonal);
    return callers_order_->bring([&](VectorView<T> d) { current_->diagonal(d); }, diagonal);
  }
  extract_diagonal<T>(*this->context(), source_, diagonal.data);
}

template <class T>
bool AdaptiveOperator<T>::runs(const FormatSpec& spec) const {
  if (spec.elements) return on_elements();
  if (!spec.order.empty() && spec.order != order_id_) return false;
  if (!spec.entry && !spec.order.empty()) return true;
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
void AdaptiveOperator<T>::product(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const {
  timed([&] { running().apply(alpha, x, beta, y); });
}

template <class T>
void AdaptiveOperator<T>::do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const {
  if (!callers_order_) return product(alpha, x, beta, y);
  callers_order_->multiply(x, beta, y,
                           [&](VectorView<const T> px, VectorView<T> py) { product(alpha, px, beta, py); });
}

template <class T>
void AdaptiveOperator<T>::do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const {
  if (!callers_order_) return timed([&] { apply_dot<T>(running(), x, y, result); });
  do_apply(T(1), x, T(0), y);
  dot<T>(*this->context(), x, y, result);
}

template <class T>
std::string_view AdaptiveOperator<T>::no_multi_product() const noexcept {
  const Ability<HasMultiProduct<T>> multi = running().abilities().multi_product;
  return multi ? multi->no_multi_product() : "its present format has no product with several vectors";
}

template <class T>
void AdaptiveOperator<T>::do_multi_apply(T alpha, MultiVectorView<const T> X, T beta,
                                         MultiVectorView<T> Y) const {
  if (!callers_order_) return multi_product(alpha, X, beta, Y);
  callers_order_->multiply(X, beta, Y, [&](MultiVectorView<const T> px, MultiVectorView<T> py) {
    multi_product(alpha, px, beta, py);
  });
}

template <class T>
void AdaptiveOperator<T>::multi_product(T alpha, MultiVectorView<const T> X, T beta,
                                        MultiVectorView<T> Y) const {
  multi_apply<T>(running(), alpha, X, beta, Y);
}

template <class T>
std::string_view AdaptiveOperator<T>::no_transposed_product() const noexcept {
  return running().abilities().transposed_product->no_transposed_product();
}

template <class T>
void AdaptiveOperator<T>::prepare_transposed() const {
  protean::prepare_transposed(running());
}

template <class T>
std::size_t AdaptiveOperator<T>::transposed_bytes() const noexcept {
  return running().abilities().transposed_product->transposed_bytes();
}

template <class T>
void AdaptiveOperator<T>::do_apply_transposed(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const {
  if (!callers_order_) return apply_transposed<T>(running(), alpha, x, beta, y);
  callers_order_->multiply(x, beta, y, [&](VectorView<const T> px, VectorView<T> py) {
    apply_transposed<T>(running(), alpha, px, beta, py);
  });
}

template <class T>
CsrMatrix<T> AdaptiveOperator<T>::rows_in_order() const {
  if (running_is_exact() && source_assembled()) return ordered_source();
  return *csr_of(running());
}

template <class T>
CsrMatrix<T> AdaptiveOperator<T>::rows_as_csr() const {
  if (running_is_exact() && source_assembled()) return source_;
  CsrMatrix<T> rows = rows_in_order();
  if (order_.size() == 0) return rows;
  const bool on_host = this->context()->space() == Space::host;
  return PermutedMatrix<T>(on_host ? this->context() : Context::host(), rows, order_.inverse()).matrix();
}

template <class T>
void AdaptiveOperator<T>::change(Abilities<T>& set) const noexcept {
  set.diagonal = this, set.apply_dot = this, set.multi_product = this, set.transposed_product = this;
  set.rows = this, set.row_arrays = this, set.order = this;
}

template <class T>
const LinearOperator<T>& AdaptiveOperator<T>::in_order() const noexcept {
  return *in_order_;
}

template <class T>
void AdaptiveOperator<T>::count_in_order(std::int64_t more) const noexcept {
  in_order_->count_products(more), this->count_products(more);
}

template <class T>
void AdaptiveOperator<T>::follow(OrderFollower& follower) const {
  const std::lock_guard lock(followers_mutex_);
  followers_.push_back(&follower);
}

template <class T>
void AdaptiveOperator<T>::unfollow(OrderFollower& follower) const noexcept {
  const std::lock_guard lock(followers_mutex_);
  std::erase(followers_, &follower);
}

template <class T>
std::optional<OrderFollower::Permuted> AdaptiveOperator<T>::permuted() const {
  const std::lock_guard lock(followers_mutex_);
  if (followers_.empty()) return OrderFollower::Permuted{0, 2};
  if (followers_.size() > 1) return {};
  return followers_.front()->permuted();
}

template <class T>
double AdaptiveOperator<T>::seconds_per_product() const noexcept {
  std::array<float, Timings::kept> sorted;
  const auto count = static_cast<std::ptrdiff_t>(
      std::min<std::uint32_t>(timings_.count.load(std::memory_order_relaxed), Timings::kept));
  if (count == 0) return 0;
  for (std::ptrdiff_t i = 0; i < count; ++i) sorted[i] = timings_.seconds[i].load(std::memory_order_relaxed);
  // The lower median: what disturbs makes times longer, never shorter.
  const std::ptrdiff_t middle = (count - 1) / 2;
  std::nth_element(sorted.begin(), sorted.begin() + middle, sorted.begin() + count);
  return static_cast<double>(sorted[middle]);
}

// Finds the order of the build, unless it is known, and puts the source into it. `budget` is what it may take.
template <class T>
void AdaptiveOperator<T>::order_rows(Build& build, const CsrMatrix<T>& source, std::size_t& bytes_in_use,
                                     std::size_t budget) const {
  if (build.permuted) return;  // it counts as used already
  const ContextPtr& context = this->context();
  const bool on_host = context->space() == Space::host;
  if (this->rows() != this->cols())
    throw BadArgument(fmt::format(
        "the matrix is {} x {}; rows and columns are put into the same order ({}), so it must be square",
        this->rows(), this->cols(), build.order));
  const std::size_t bytes = permuted_bytes(source),
                    needed = bytes +
                             (on_host ? 0
                                      : static_cast<std::size_t>(std::max(source.nonzeros(), source.rows())) *
                                            sorting_bytes);
  if (needed > budget)
    throw OutOfMemory(
        fmt::format("the matrix in order {} takes {} bytes beside the source and the running matrix; {} "
                    "are available",
                    build.order, needed, budget),
        needed);
  const double begin = now();
  const ContextPtr host = on_host ? context : Context::host();
  if (build.permutation.size() == 0) {
    if (options_.find_order) {
      const SparsityPattern pattern =
          on_host ? source.pattern : detail::download_pattern(host, *context, source.pattern);
      detail::checkpoint();
      std::vector<std::int32_t> order = options_.find_order(build.order, *host, pattern);
      if (static_cast<std::int64_t>(order.size()) != this->rows())
        throw BadArgument(
            fmt::format("order {} has {} rows; the matrix has {}", build.order, order.size(), this->rows()));
      build.permutation = Permutation(context, std::move(order));
    } else {
      build.permutation =
          find_order(build.order, context, source.pattern, nullptr, build.spec.hand_over_order).permutation;
    }
    detail::checkpoint();
  }
  build.permuted = std::make_shared<PermutedMatrix<T>>(host, source, build.permutation);
  context->synchronize();
  bytes_in_use += bytes;
  build.bytes_of_order = bytes;
  build.order_seconds = now() - begin;
  detail::checkpoint();
}

// All results are local until the build has succeeded. So after a failure this thread frees them, within its
// BackgroundWork.
template <class T>
void AdaptiveOperator<T>::build(Build& build) const {
  const FormatSpec& spec = build.spec;
  if (build.reorders && build.overlapped && this->context()->deterministic())
    throw BadArgument(
        fmt::format("in deterministic mode the order of the rows (to {}) cannot change beside the solve, "
                    "since the result would depend on the time of the change; let the solve wait for it "
                    "(overlapped: false)",
                    build.order));
  if (spec.elements) {
    if (!elements_) throw BadArgument("the operator was made of CSR; there are no element matrices");
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
  if (build.order != no_order) order_rows(build, source, bytes_in_use, budget(bytes_in_use));
  const CsrMatrix<T>& from = build.permuted ? build.permuted->matrix() : source;
  auto matrix = make_matrix(*spec.entry, from, context, spec.params, spec.kernel, budget(bytes_in_use));
  if (!matrix) throw Error(fmt::format("the maker of format {} returned no matrix", spec.entry->id));
  detail::ProductCheck<T> check(context, source, build.exact ? 0 : rounding_of_inexact_values);
  if (build.on_elements) check.allow_rounding_of(*elements_);
  // A library's kernel may start threads of its own, which would not have the low priority of background
  // work.
  if (matrix->kernel() == "native")
    check.keep(
        detail::InCallersOrder<T>(build.permuted ? build.permuted->permutation() : Permutation(), *matrix));
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
    task.matrix.reset(), task.check.reset(), task.permuted.reset();
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
        // What is queued on a device are steps of the solve, which are no part of the build.
        this->context()->synchronize();
        begin = now();
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
  if (!built) task.permuted.reset();
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
                       .order = task.spec.order,
                       .parameters = task.spec.params,
                       .overlapped = task.overlapped,
                       .reason = task.reason,
                       .failure = failure,
                       .why = std::move(why)});
}

// Also when the change fails later: finding an order costs more than keeping it.
template <class T>
void AdaptiveOperator<T>::remember_order(const Build& task) {
  if (task.order == no_order) return;
  for (const auto& [id, permutation] : found_orders_)
    if (id == task.order) return;
  found_orders_.emplace_back(task.order, task.permutation);
}

// Of a build that is about to be adopted; `source` is the matrix that it was made of. wait_seconds is added later.
template <class T>
SwitchRecord AdaptiveOperator<T>::record_of(const Build& task, const CsrMatrix<T>& source,
                                            std::int64_t iteration) const {
  const LinearOperator<T>& next =
      task.matrix ? static_cast<const LinearOperator<T>&>(*task.matrix) : *elements_;
  return {.iteration = iteration,
          .begun_iteration = task.iteration,
          .from = std::string(running().name()),
          .to = std::string(next.name()),
          .from_kernel = current_ ? std::string(current_->kernel()) : "native",
          .to_kernel = task.matrix ? std::string(task.matrix->kernel()) : "native",
          .from_order = order_id_,
          .to_order = task.order,
          .parameters = task.matrix ? task.matrix->params() : FormatParams(),
          .convert_seconds = task.seconds,
          .assemble_seconds = task.assemble_seconds,
          .order_seconds = task.order_seconds,
          .wait_seconds = 0,
          .overlapped = task.overlapped,
          .reason = task.reason,
          .bytes_before = running_bytes(),
          .bytes_after = task.matrix ? task.matrix->bytes() : elements_->bytes(),
          .bytes_peak =
              task.bytes_in_use + task.bytes_of_order + (task.assembled.values ? task.assembled.bytes() : 0) +
              (task.matrix ? own_bytes(*task.matrix, task.permuted ? task.permuted->matrix() : source) : 0)};
}

template <class T>
bool AdaptiveOperator<T>::adopt(Build& task, std::int64_t iteration) {
  if (rows_kept()) {
    record_failure(task, iteration, SwitchFailure::refused, std::string(rows_are_kept));
    return false;
  }
  const double begin = task.overlapped ? now() : task.begun;
  std::int64_t differing = 0;
  // Nobody begins or ends to follow the order during the change.
  std::unique_lock<std::mutex> followers(followers_mutex_, std::defer_lock);
  const Permutation order = task.permuted ? task.permuted->permutation() : Permutation();
  std::unique_ptr<detail::CallersOrder<T>> callers_order;
  const CsrMatrix<T>& source = task.assembled.values ? task.assembled : source_;
  SwitchRecord record;
  std::string order_id;
  try {
    // Both products are compared in the caller's order.
    if (task.matrix && !task.check->has_kept())
      task.check->keep(detail::InCallersOrder<T>(order, *task.matrix));
    if (task.matrix) differing = task.check->differing_rows(detail::InCallersOrder<T>(order_, running()));
    if (differing > 0) {
      task.failure = SwitchFailure::wrong_product;
      task.why = fmt::format(
          "the product of the new matrix differs from that of the running matrix in {} of {} rows by more "
          "than the bound on rounding errors",
          differing, this->rows());
    } else {
      record = record_of(task, source, iteration), order_id = task.order;
      if (history_.size() == history_.capacity()) history_.reserve(2 * history_.size() + 8);
    }
    if (differing == 0 && task.reorders) {
      if (order.size() > 0) callers_order = std::make_unique<detail::CallersOrder<T>>(order);
      remember_order(task);
      followers.lock();
      if (followers_.size() > 1)
        throw NotAvailable(fmt::format(
            "{} solves compute with this operator; the order can change only while at most one does",
            followers_.size()));
      // The last that may throw: what follows it is done as a whole.
      for (OrderFollower* follower : followers_) follower->prepare_order(order);
    }
  } catch (const OutOfMemory& error) {
    task.failure = SwitchFailure::out_of_memory, task.why = error.what(), differing = -1;
  } catch (const std::bad_alloc&) {
    task.failure = SwitchFailure::out_of_memory, task.why = "no memory for a small array", differing = -1;
  } catch (const NotAvailable& error) {
    task.failure = SwitchFailure::refused, task.why = error.what(), differing = -1;
  } catch (const std::exception& error) {
    task.failure = SwitchFailure::failed, task.why = error.what(), differing = -1;
  }
  if (differing != 0) {
    // The assembled matrix may be wrong, too, or take memory that is needed.
    task.assembled = {};
    record_failure(task, iteration);
    return false;
  }
  keep_assembled(task);
  history_.push_back(std::move(record));
  // On a device the old arrays are freed in the order of the stream, after all queued products.
  current_ = std::move(task.matrix);
  ++form_, ++changes_;
  if (task.reorders) {
    order_ = order, order_id_.swap(order_id);
    permuted_ = std::move(task.permuted), callers_order_ = std::move(callers_order);
    for (OrderFollower* follower : followers_) follower->adopt_order();
  }
  if (!task.exact) ++revision_.values;
  timings_.count.store(0, std::memory_order_relaxed);
  history_.back().wait_seconds = now() - begin;
  return true;
}

template <class T>
auto AdaptiveOperator<T>::begin(const FormatSpec& spec, std::string reason, std::int64_t iteration,
                                bool overlapped) -> std::unique_ptr<Build> {
  Build::leave_in_parent(*this);
  cancel(iteration, "another change of format came first");
  if (!abandoned()) abandoned_.reset();
  const auto own = [&] {
    return (current_ ? own_bytes(*current_, ordered_source()) : 0) +
           (permuted_ ? permuted_bytes(source_) : 0);
  };
  FormatSpec wanted = spec;
  if (!spec.entry && !spec.elements && !spec.order.empty() && current_)
    wanted.entry = &current_->entry(), wanted.params = current_->params(), wanted.kernel = current_->kernel();
  const std::string order =
      !spec.order.empty() ? spec.order : std::string(spec.elements ? no_order : order_id_);
  std::unique_ptr<Build> task(
      new Build{.spec = std::move(wanted),
                .reason = std::move(reason),
                .iteration = iteration,
                .overlapped = overlapped,
                .exact = running_is_exact() && (!spec.entry || spec.entry->traits.exact_values),
                .on_elements = elements_ && !current_,
                .begun = now(),
                .order = order,
                .reorders = order != order_id_,
                .bytes_in_use =
                    (elements_ ? elements_->bytes() : 0) + (source_assembled() ? source_.bytes() : 0) + own(),
                .source = source_});
  // A build beside the solve begins after the cancelled one has freed its memory; this one does not wait for
  // it.
  if (order == order_id_) task->permuted = permuted_;
  for (const auto& [id, permutation] : found_orders_)
    if (id == order) task->permutation = permutation;
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
    const detail::SignalsBlocked blocked;
    task->thread = std::thread([this, &build] { run(build); });
  } catch (const std::bad_alloc&) {
    task->failure = SwitchFailure::out_of_memory, task->why = "no memory for a thread";
    task->state.store(Preparation::failed, std::memory_order_release);
  } catch (const std::exception& error) {
    task->why = fmt::format("no thread could be started: {}", error.what());
    task->state.store(Preparation::failed, std::memory_order_release);
  }
  next_ = std::move(task);
}

template <class T>
RowArrays<T> AdaptiveOperator<T>::row_arrays() const noexcept {
  return order_.size() > 0 ? RowArrays<T>{} : rows_of_running();
}

template <class T>
RowArrays<T> AdaptiveOperator<T>::rows_of_running() const noexcept {
  const HasRowArrays<T>* const rows =
      rows_shown_ && current_ ? current_->abilities().row_arrays.get() : nullptr;
  if (!rows) return {};
  RowArrays<T> arrays = rows->row_arrays();
  // The arrays of the next format may lie at the same addresses.
  arrays.version = arrays.version ? form_ + 1 : 0;
  return arrays;
}

template <class T>
Preparation AdaptiveOperator<T>::preparation() const noexcept {
  if (!next_) return Preparation::none;
  return Build::are_in_parent(*this) ? Preparation::failed : next_->state.load(std::memory_order_acquire);
}

template <class T>
Preparation AdaptiveOperator<T>::wait_prepared() {
  Build::leave_in_parent(*this);
  if (next_ && next_->thread.joinable()) next_->thread.join();
  abandoned_.reset();
  return preparation();
}

template <class T>
bool AdaptiveOperator<T>::abandoned() const noexcept {
  return abandoned_ && !Build::are_in_parent(*this) &&
         abandoned_->state.load(std::memory_order_acquire) == Preparation::running;
}

template <class T>
double AdaptiveOperator<T>::preparation_seconds() const noexcept {
  if (!next_) return 0;
  return preparation() == Preparation::running ? now() - next_->begun : next_->seconds;
}

template <class T>
bool AdaptiveOperator<T>::adopt_prepared(std::int64_t iteration) {
  Build::leave_in_parent(*this);
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
  Build::leave_in_parent(*this);
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
  if (permuted_)
    permuted_->require_same_pattern(csr);
  else
    current_->require_same_pattern(csr);
  update_values(csr, SamePattern());
}

template <class T>
void AdaptiveOperator<T>::update_values(const CsrMatrix<T>& csr, SamePattern same) {
  if (elements_)
    throw BadArgument(
        "the operator was made of element matrices; the new values must be element matrices, too");
  cancel(0, "the matrix was given new values");
  abandoned_.reset();  // waits for the cancelled build, which reads the old values
  if (permuted_) {
    CsrMatrix<T> before = permuted_->matrix();
    permuted_->update_values(csr, same);
    try {
      current_->update_values(permuted_->matrix(), same);
    } catch (...) {  // the running matrix and the source have the old values
      permuted_->restore(std::move(before));
      throw;
    }
  } else {
    current_->update_values(csr, same);
  }
  source_.values = csr.values, source_.values_owner = csr.values_owner, source_.watch = csr.watch;
  source_settled_ = false;
  ++revision_.values, ++changes_;
}

template <class T>
void AdaptiveOperator<T>::update_values(std::span<const ElementGroup<T>> groups) {
  if (!elements_) throw BadArgument("the operator was made of CSR; the new values must be in CSR, too");
  cancel(0, "the matrix was given new values");
  abandoned_.reset();  // waits for the cancelled build, which reads the old values
  std::unique_lock<std::mutex> followers(followers_mutex_, std::defer_lock);
  if (order_.size() > 0) {  // element matrices are in the caller's order
    followers.lock();
    for (OrderFollower* follower : followers_) follower->prepare_order({});
  }
  elements_->update_values(groups);
  if (followers.owns_lock()) {
    order_ = {}, order_id_ = no_order;
    permuted_.reset(), callers_order_.reset();
    for (OrderFollower* follower : followers_) follower->adopt_order();
  }
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
