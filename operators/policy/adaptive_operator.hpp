// A matrix that changes its storage format while a solver uses it (State pattern). It may begin as element matrices,
// which are assembled while the solve computes with them. The order of its rows may change, too.
#pragma once
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <protean/core/csr.hpp>
#include <protean/core/export.hpp>
#include <protean/core/permutation.hpp>
#include <protean/operators/assembled_matrix.hpp>
#include <protean/operators/elements/element_operator.hpp>
#include <protean/operators/linear_operator.hpp>
#include <protean/operators/multi_product.hpp>
#include <protean/operators/order.hpp>
#include <protean/operators/policy/switch_records.hpp>
#include <protean/operators/row_arrays.hpp>
#include <protean/operators/rows.hpp>
#include <protean/operators/transposed_product.hpp>
#include <protean/operators/wrapper.hpp>

namespace PROTEAN_EXPORT protean {
namespace PROTEAN_HIDDEN detail {
template <class T>
class CallersOrder;
}  // namespace detail

struct AdaptiveOptions {
  int background_workers = 1;  // threads of a build beside the solve, on the host
  // A matrix is built only if it fits into this fraction of the free memory.
  double memory_fraction = 0.9;
  // It is built only if source, running matrix and new matrix together take at most this many bytes.
  std::size_t memory_limit = std::numeric_limits<std::size_t>::max();
  // Permits formats that round the values. A change to such a format counts as new values: revision() changes, and a
  // solver restarts from b - A x with the new A.
  bool allow_inexact = false;
  // Returns seconds since a fixed point in time and never decreases. Empty: the steady clock of the machine. All times
  // measured here come from it. The building thread calls it, too.
  std::function<double()> clock = {};
  // Finds the order with this name (FormatSpec::order other than "none") for the pattern of the source in the caller's
  // order: result[k] is the row at place k. Context and pattern are of the host, also for an operator on a device. The
  // building thread calls it, too. It should compute in parallel regions of the context, which end it if the build is
  // cancelled. Empty: find_order() of core/ordering.hpp, which may find the order on the device.
  std::function<std::vector<std::int32_t>(std::string_view id, const Context& context,
                                          const SparsityPattern& pattern)>
      find_order = {};
};

enum class Preparation : unsigned char { none, running, ready, failed };

// An operator for a solver whose matrix can be replaced by one in another format. switch_to() builds the new matrix
// while the caller waits. prepare() builds it in a thread beside the solve, and adopt_prepared() replaces the running
// matrix. A build that fails does not throw: the functions return the failure, failures() has the reason, and the
// running matrix is unchanged. Before a new matrix is adopted, its product with a fixed pseudo-random x is compared
// with the product of the running matrix. Row i may differ by
//   2 (n_i + 2) eps sum_j |a_ij x_j|,       n_i: number of entries of row i,
// which is twice Wilkinson's bound for the rounding error (Higham, Accuracy and Stability of Numerical Algorithms, 2nd
// ed., SIAM 2002, section 3.1).
//
// Element matrices: the operator computes with them until the first change, whose build assembles them. The assembled
// matrix is the source of later changes. The element matrices are kept, so FormatSpec{.elements = true} changes back to
// them without a build. The comparison of products then bounds the rounding errors of both
// (ElementOperator::add_rounding_bounds).
//
// Orders: a change may give the matrix another order of rows and columns P, with another format or without. The running
// matrix is then P A P^T. apply() and all other members still take and give vectors and matrices in the caller's order;
// a product permutes two vectors. A solve by Solver permutes its own vectors once, at the change, and goes on without a
// restart; then no product permutes anything (HasOrder). The operator keeps each order that was found, for new values,
// other right-hand sides and a change back. In deterministic mode a change of order beside the solve is refused: sums
// have other rounding errors in another order, and the iteration of the change depends on the time. find_order() says
// whether a device or the host finds an order.
//
// Threads: several threads may compute products at once. All other members that are not const belong to one thread and
// must not run at the same time as a product; SolveObserver::on_iteration(), between two iterations, is the place to
// call them. A change of format does not change revision(), so a preconditioner stays valid. It increments form().
//
// Additional memory: three vectors during a build, four during an adoption. Another order than the caller's takes two
// vectors, the source in that order, 4 bytes an entry (8 from 2^31 entries on) and 8 bytes a row; two more vectors
// during a build and an adoption; on a device 24 more bytes an entry (or a row if there are more rows) while the matrix
// is ordered. An order that is not in use takes 8 bytes a row.
template <class T>
class AdaptiveOperator final : public Wrapper<T>,
                               public HasDiagonal<T>,
                               public HasApplyDot<T>,
                               public HasMultiProduct<T>,
                               public HasTransposedProduct<T>,
                               public HasRows<T>,
                               public HasRowArrays<T>,
                               public HasOrder<T> {
 public:
  // `source` is the matrix from which other formats are built. It is a handle: the arrays are shared, and only
  // update_values() may change them. `start` is the first running matrix, made from source. Throws BadArgument for
  // options out of range or a null start, ShapeMismatch and WrongSpace if the two do not fit. If it throws, the caller
  // keeps start.
  AdaptiveOperator(CsrMatrix<T> source, std::unique_ptr<AssembledMatrix<T>>&& start,
                   AdaptiveOptions options = {});
  // Begins in an order that was found before: `ordered` is `source` in the order named `order` (a FormatSpec::order
  // such as "rcm"), and start was made of ordered.matrix(). A change back to it costs no search. Throws as above, and
  // BadArgument for an empty name and for "none". If it throws, the caller keeps both.
  AdaptiveOperator(CsrMatrix<T> source, std::string order, PermutedMatrix<T>&& ordered,
                   std::unique_ptr<AssembledMatrix<T>>&& start, AdaptiveOptions options = {});
  // The source is element matrices. Throws BadArgument for options out of range or a null pointer. If it throws, the
  // caller keeps them.
  explicit AdaptiveOperator(std::unique_ptr<ElementOperator<T>>&& elements, AdaptiveOptions options = {});
  ~AdaptiveOperator() override;  // cancels a build and waits until all builds have ended

  // The operator that computes the products: an AssembledMatrix or an ElementOperator. It provides tuning, layout and
  // parts, which end with the next change of format.
  const LinearOperator<T>& running() const noexcept {
    return current_ ? static_cast<const LinearOperator<T>&>(*current_) : *elements_;
  }
  const LinearOperator<T>& inner() const noexcept override { return running(); }
  std::size_t running_bytes() const noexcept { return current_ ? current_->bytes() : elements_->bytes(); }
  bool on_elements() const noexcept { return !current_; }
  // The running matrix, in order(). Throws BadArgument while the operator computes with element matrices.
  const AssembledMatrix<T>& current() const;
  // The element matrices of which the operator was made; null if it was made of CSR.
  const ElementOperator<T>* elements() const noexcept { return elements_.get(); }
  // The source in the caller's order. Empty until the element matrices have been assembled; source_assembled() is false
  // then.
  const CsrMatrix<T>& source() const noexcept { return source_; }
  bool source_assembled() const noexcept {
    return source_.pattern.row_ptr.p32 || source_.pattern.row_ptr.p64;
  }
  // The source in the order of the running matrix; the source itself if that is the caller's order.
  const CsrMatrix<T>& ordered_source() const noexcept { return permuted_ ? permuted_->matrix() : source_; }
  const AdaptiveOptions& options() const noexcept { return options_; }
  // Whether the running matrix has the format, the complete parameters, the kernel and the order of spec, or is element
  // matrices if spec asks for these. Throws what make_matrix() throws for a spec that names no format.
  bool runs(const FormatSpec& spec) const;

  // Builds the matrix with all threads of the context while the caller waits, compares the products and replaces the
  // running matrix. Returns false if this failed. Cancels a build that prepare() began.
  bool switch_to(const FormatSpec& spec, std::int64_t iteration, std::string reason = {});

  // Begins to build a matrix in a thread of its own, and returns at once. The thread blocks signals, except the signals
  // that it causes itself and the signals of profilers. A build that is already there is cancelled first. Only one
  // build runs at a time: if a cancelled one has not ended yet, the new thread (not the caller) waits for its end, and
  // preparation() is `running` meanwhile. In a child of fork() a build of the parent has failed, with that as the
  // reason, and its memory is lost; the operator goes on there.
  void prepare(const FormatSpec& spec, std::string reason = {}, std::int64_t iteration = 0);
  Preparation preparation() const noexcept;
  // Waits until all builds have ended, also cancelled ones.
  Preparation wait_prepared();
  // Whether a cancelled build has not ended yet, so that it still takes processor time and memory.
  bool abandoned() const noexcept;
  // Seconds that the current build took, or has taken so far; 0 if there is none.
  double preparation_seconds() const noexcept;
  // Compares the products and replaces the running matrix by the one that is ready. Returns false if the comparison
  // failed or no matrix is ready. This call also records a failed build in failures().
  bool adopt_prepared(std::int64_t iteration);
  // Cancels a build in any state and records it as cancelled, or as failed if it had failed. Does not wait: the build
  // ends at its next checkpoint, some milliseconds later, and frees its arrays. Until then it reads the arrays of the
  // source. A caller who wants to change or free these must wait with wait_prepared(), or use update_values(), which
  // waits. switch_to() counts the memory of the cancelled build as used.
  void cancel(std::int64_t iteration = 0, std::string_view why = "it was no longer wanted");

  // Sets new values for the same pattern, in CSR order; they become the values of the source. Cancels a build and waits
  // until all builds have ended. Throws ShapeMismatch like AssembledMatrix::update_values, and BadArgument if the
  // operator was made of element matrices; then no build has been cancelled.
  void update_values(const CsrMatrix<T>& csr);
  // For a caller who knows that the pattern is the same: only its sizes are compared.
  void update_values(const CsrMatrix<T>& csr, SamePattern same);
  // Sets new element matrices for the same connectivity. Cancels a build, waits until all builds have ended, drops the
  // assembled matrix and changes back to the element matrices, so that the next solve can begin at once. Throws what
  // ElementOperator::update_values throws; then only the build has been cancelled. Throws BadArgument if the operator
  // was made of CSR.
  void update_values(std::span<const ElementGroup<T>> groups);

  std::span<const SwitchRecord> history() const noexcept { return history_; }
  std::span<const FailedSwitch> failures() const noexcept { return failures_; }

  // Seconds of a product in the running format: the median of the last 16 measured ones. 0 before the first, and always
  // on a device, where products are queued.
  double seconds_per_product() const noexcept;
  // The present time of AdaptiveOptions::clock.
  double now() const;
  // Whether the clock is the clock of the machine.
  bool has_machine_clock() const noexcept { return !options_.clock; }
  // "none", or the name of the order of the running matrix.
  std::string_view order_id() const noexcept { return order_id_; }
  Permutation order() const override { return order_; }
  // The operator in the order of the running matrix (HasOrder). Its products count as products of this operator, too.
  const LinearOperator<T>& in_order() const noexcept override;
  void count_in_order(std::int64_t more) const noexcept override;
  void follow(OrderFollower& follower) const override;
  void unfollow(OrderFollower& follower) const noexcept override;
  // What a change of order would permute. If nobody follows the order, each product permutes two vectors. Empty if
  // several solves follow it, since the order cannot change then.
  std::optional<OrderFollower::Permuted> permuted() const;
  // How often the running matrix has been replaced.
  std::uint64_t form() const noexcept { return form_; }

  // On the host the diagonal is read from the source, if the source has the values of the running matrix. Finding the
  // diagonal in another format may be slow.
  void diagonal(VectorView<T> diagonal) const override;
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override;
  // The products of the running format, in the caller's order. In another order they permute all vectors, with
  // workspace for as many of each as the largest product so far had.
  std::string_view no_multi_product() const noexcept override;
  void do_multi_apply(T alpha, MultiVectorView<const T> X, T beta, MultiVectorView<T> Y) const override;
  // Products with A^T are those of the running matrix. A change of format drops what the matrix before kept for them.
  std::string_view no_transposed_product() const noexcept override;
  void prepare_transposed() const override;
  std::size_t transposed_bytes() const noexcept override;
  void do_apply_transposed(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override;
  // Whether row_arrays() gives a solve on a device the rows of the running matrix, so that the solve can compute with
  // them in its own kernel (SolverOptions::device_steps). Off by default. While a solve does so, changes of format and
  // order are refused, since they would not affect it. In another order than the caller's in_order() has the rows, and
  // row_arrays() of this operator has none.
  void show_rows(bool shown) noexcept { rows_shown_ = shown; }
  bool rows_kept() const noexcept { return rows_kept_.load(std::memory_order_relaxed); }
  RowArrays<T> row_arrays() const noexcept override;
  void keep_rows(bool kept) const noexcept override { rows_kept_.store(kept, std::memory_order_relaxed); }
  // Later changes of format read the source, even if the running matrix does not use its arrays.
  void check_arrays() const override {
    protean::check_arrays(source_);
    if (!source_.watch) running().check_arrays();
  }
  // The source, if it has the values of the running matrix.
  CsrMatrix<T> rows_as_csr() const override;
  Revision revision() const noexcept override { return revision_; }
  // The version changes with each change of format, so that a solver on a device records its steps again,
  // also in the middle of a solve.
  Recording recording() const noexcept override {
    const Recording work = running().recording();
    return {work.allowed, changes_, work.bytes, work.heeds_stop};
  }

 protected:
  void change(Abilities<T>& set) const noexcept override;
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override;

 private:
  struct PROTEAN_HIDDEN Build;
  class PROTEAN_HIDDEN InOrder;
  struct Timings {
    static constexpr int kept = 16;
    mutable std::array<std::atomic<float>, kept> seconds{};
    mutable std::atomic<std::uint32_t> count{0}, calls{0};
  };

  // Permission to build beside the solve, for one build at a time. Its mutex also orders cancel() and the end of a
  // build.
  struct BuildPermit {
    std::mutex mutex;
    std::condition_variable changed;
    bool in_use = false;
  };

  template <class Product>
  void timed(Product&& product) const;
  void build(Build& build) const;
  void run(Build& build) const noexcept;
  void wait_for_permit(Build& build) const;
  void end(Build& build, Preparation state) const;
  std::unique_ptr<Build> begin(const FormatSpec& spec, std::string reason, std::int64_t iteration,
                               bool overlapped);
  bool adopt(Build& build, std::int64_t iteration);
  SwitchRecord record_of(const Build& build, const CsrMatrix<T>& source, std::int64_t iteration) const;
  void record_failure(Build& build, std::int64_t iteration);
  void record_failure(const Build& build, std::int64_t iteration, SwitchFailure failure, std::string why);
  void keep_assembled(Build& build);
  void remember_order(const Build& build);

  void order_rows(Build& build, const CsrMatrix<T>& source, std::size_t& bytes_in_use,
                  std::size_t budget) const;
  void product(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const;
  void multi_product(T alpha, MultiVectorView<const T> X, T beta, MultiVectorView<T> Y) const;
  CsrMatrix<T> rows_in_order() const;
  RowArrays<T> rows_of_running() const noexcept;

  void check_options() const;
  void check_start(const AssembledMatrix<T>* start) const;
  bool running_is_exact() const noexcept { return !current_ || current_->entry().traits.exact_values; }

  std::unique_ptr<ElementOperator<T>> elements_;  // null if made of CSR
  CsrMatrix<T> source_;
  std::unique_ptr<AssembledMatrix<T>> current_;  // null while it computes with element matrices
  // The order of the running matrix. permuted_ keeps where the entries of the source went; a build may share it.
  std::string order_id_ = "none";
  Permutation order_;  // of no rows: the caller's order, and the next two are null
  std::shared_ptr<PermutedMatrix<T>> permuted_;
  std::unique_ptr<detail::CallersOrder<T>> callers_order_;
  std::vector<std::pair<std::string, Permutation>> found_orders_;
  std::unique_ptr<InOrder> in_order_;
  mutable std::mutex followers_mutex_;
  mutable std::vector<OrderFollower*> followers_;
  AdaptiveOptions options_;
  Revision revision_;
  std::atomic<bool> rows_shown_{false};  // read where other solves ask for abilities
  mutable std::atomic<bool> rows_kept_{false};
  std::uint64_t form_ = 0;     // number of changes of format
  std::uint64_t changes_ = 1;  // 1 + number of changes of format or values
  std::vector<SwitchRecord> history_;
  std::vector<FailedSwitch> failures_;
  Timings timings_;
  bool source_settled_ = false;  // on a device: the queued work that fills the source's arrays has ended
  mutable BuildPermit permit_;
  std::unique_ptr<Build> abandoned_;  // the last build that was cancelled while it was running
  std::unique_ptr<Build> next_;       // the build that prepare() began
};

}  // namespace protean
