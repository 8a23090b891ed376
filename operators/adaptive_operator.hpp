// A matrix that changes its storage format while a solver uses it (State pattern). It may begin as element
// matrices that are assembled while the solve runs on them.
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
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <protean/core/csr.hpp>
#include <protean/operators/assembled_matrix.hpp>
#include <protean/operators/element_operator.hpp>
#include <protean/operators/linear_operator.hpp>
#include <protean/operators/row_arrays.hpp>

namespace protean {

// Everything that names a concrete storage of a matrix.
struct FormatSpec {
  const FormatEntry* entry = nullptr;
  FormatParams params = {};
  std::string kernel = {};  // empty: the default of the space
  // No storage format (entry is null): the element matrices the operator was made of.
  bool elements = false;

  // "sell-c-sigma", or "csr/mkl" where a kernel other than native is named; "element".
  std::string name() const;
};

// A format a matrix could have, as far as is known before it is built.
struct SwitchTarget {
  FormatSpec spec;
  bool admitted = true;
  std::string why;        // not admitted: the reason
  std::size_t bytes = 0;  // may be an estimate
  // Seconds one thread of the host takes for the part of a conversion that was timed on a sample; 0: none
  // was.
  double plan_seconds = 0;
};

// One change of format that was done.
struct SwitchRecord {
  std::int64_t iteration = 0;        // as the caller of switch_to() or adopt_prepared() said
  std::int64_t begun_iteration = 0;  // as the caller of prepare() said; the same where not overlapped
  std::string from, to;              // format ids; lma-atomic and so on of element matrices
  std::string from_kernel, to_kernel;
  FormatParams parameters;      // of `to`, complete
  double convert_seconds = 0;   // the build and the check of its product, wherever they ran,
  double assemble_seconds = 0;  // of which for assembling the element matrices, where that was done
  double wait_seconds = 0;      // how long the caller stood still: all of it, or the adoption alone
  bool overlapped = false;
  std::string reason;
  std::size_t bytes_before = 0, bytes_after = 0;  // of the two matrices
  std::size_t bytes_peak = 0;  // source (element matrices and what was assembled), old and new together
};

// Why a change that was asked for did not happen.
enum class SwitchFailure : unsigned char {
  refused,        // the format, its parameters or kernel do not suit, or are not exact
  out_of_memory,  // did not fit beside source and running matrix
  failed,         // an exception while it was built
  wrong_product,  // it was built, but its product is not that of the running matrix
  cancelled       // by cancel(), another prepare(), new values, or the operator's end
};
std::string_view to_string(SwitchFailure failure) noexcept;

struct FailedSwitch {
  std::int64_t iteration = 0;  // at which it became known
  std::string to, kernel;      // kernel as asked for, may be empty
  FormatParams parameters;     // as asked for
  bool overlapped = false;
  std::string reason;  // why it was wanted
  SwitchFailure failure = SwitchFailure::failed;
  std::string why;  // why it did not happen, for a person
};

struct AdaptiveOptions {
  int background_workers = 1;  // threads of a preparation on the host
  // A matrix is built only when it fits into this part of the memory that is free, beside all that is there,
  double memory_fraction = 0.9;
  // and when source, running and next matrix together are no larger than this.
  std::size_t memory_limit = std::numeric_limits<std::size_t>::max();
  // Formats whose values are rounded may be adopted, too. That counts as new values: revision() changes, and
  // a solver begins again from b - A x, with A as it is then.
  bool allow_inexact = false;
  // Seconds from a fixed point in time, never going back; empty: the steady clock of the machine. All times
  // that are measured here come from it. Called from the building thread also.
  std::function<double()> clock = {};
};

enum class Preparation : unsigned char { none, running, ready, failed };

// The operator a solver is given. Its matrix is replaced by one of another format by switch_to(), at once, or
// by prepare() and adopt_prepared(), built by a thread beside the solve. Neither ever throws for a build that
// did not succeed: they say so, failures() has the reason, and the running matrix is untouched. Before a new
// matrix is adopted, one product of it with a fixed pseudo-random x is compared with that of the running one,
// row by row within 2 (n_i + 2) eps sum_j |a_ij x_j|, n_i the entries of row i: twice what rounding alone can
// do (Wilkinson's bound, Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM 2002,
// section 3.1).
//
// Made of element matrices, it runs on these until the first change, which assembles them first, beside the
// solve as all of the build. The assembled matrix is the source of further changes. The element matrices
// stay: FormatSpec{.elements = true} goes back to them, which costs nothing. Products of both are compared
// within what rounding can do to either (ElementOperator::add_rounding_bounds). A faster start than
// assembling first needs a product on element matrices that is not much slower; see docs/results.
//
// Products may be computed from several threads at once. All other members that are not const belong to one
// thread and must not run at the same time as a product: between two iterations, in
// SolveObserver::on_iteration(), is the place. A change of format leaves revision() as it is, so a
// preconditioner stays valid, and counts up form().
//
// Memory beside the matrices: three vectors during a preparation, four while one is adopted.
template <class T>
class AdaptiveOperator final : public LinearOperator<T>,
                               public HasDiagonal<T>,
                               public HasApplyDot<T>,
                               public HasRowArrays<T> {
 public:
  // `source` is the matrix that further formats are built from (a handle; its arrays are shared and must not
  // change but by update_values()). `start`, made from it, is the matrix to begin with. Throws BadArgument
  // for options out of range or a null start, ShapeMismatch and WrongSpace where the two do not fit.
  AdaptiveOperator(CsrMatrix<T> source, std::unique_ptr<AssembledMatrix<T>> start,
                   AdaptiveOptions options = {});
  // Element matrices are the source. Throws BadArgument for options out of range or a null pointer.
  explicit AdaptiveOperator(std::unique_ptr<ElementOperator<T>> elements, AdaptiveOptions options = {});
  ~AdaptiveOperator() override;  // cancels a preparation and waits until all builds have ended

  // What computes the products: an AssembledMatrix, or element matrices.
  const LinearOperator<T>& running() const noexcept {
    return current_ ? static_cast<const LinearOperator<T>&>(*current_) : *elements_;
  }
  std::size_t running_bytes() const noexcept { return current_ ? current_->bytes() : elements_->bytes(); }
  bool on_elements() const noexcept { return !current_; }
  // The running matrix. Throws BadArgument while the products are of element matrices.
  const AssembledMatrix<T>& current() const;
  // What it was made of; null where that is CSR.
  const ElementOperator<T>* elements() const noexcept { return elements_.get(); }
  // Not there (source_assembled() is false, all of it is null) before element matrices were assembled.
  const CsrMatrix<T>& source() const noexcept { return source_; }
  bool source_assembled() const noexcept {
    return source_.pattern.row_ptr.p32 || source_.pattern.row_ptr.p64;
  }
  const AdaptiveOptions& options() const noexcept { return options_; }
  // True when the running matrix is what spec names: format, complete parameters and kernel, or element
  // matrices. Throws as make_matrix() for a spec that names nothing.
  bool runs(const FormatSpec& spec) const;

  // Builds with all threads of the context while the caller waits, checks one product and swaps. False when
  // that could not be done. A preparation that is there is cancelled.
  bool switch_to(const FormatSpec& spec, std::int64_t iteration, std::string reason = {});

  // Begins to build beside the caller; one that is there is cancelled first. Returns at once. Only one is
  // built at a time: while a cancelled one has not ended, the new one waits for that in its own thread, not
  // the caller, and counts as running.
  void prepare(const FormatSpec& spec, std::string reason = {}, std::int64_t iteration = 0);
  Preparation preparation() const noexcept;
  // Waits until nothing is being built, cancelled builds included.
  Preparation wait_prepared();
  // A build that was cancelled has not ended yet: it still takes processor time, and memory.
  bool abandoned() const noexcept;
  // How long it took, or has taken so far; 0 without one.
  double preparation_seconds() const noexcept;
  // Swaps to what is ready, after the comparison of products; false when that failed, or nothing is ready. A
  // failed preparation is recorded in failures() by this call.
  bool adopt_prepared(std::int64_t iteration);
  // Ends a preparation, whatever its state, and records it as cancelled (or as failed, where it was). Does
  // not wait: a build ends at its next checkpoint, some milliseconds later, and what it made is dropped then.
  // Until that it reads the arrays of the source; who would change or free them waits with wait_prepared(),
  // or uses update_values(), which waits. Its memory counts in the budget of switch_to().
  void cancel(std::int64_t iteration = 0, std::string_view why = "it was no longer wanted");

  // New values for the same pattern, in CSR order; csr becomes the source. Cancels a preparation and waits
  // until all builds have ended. Throws
  // ShapeMismatch as AssembledMatrix::update_values, BadArgument where it was made of element matrices.
  void update_values(const CsrMatrix<T>& csr);
  // New element matrices for the same connectivity. Cancels a preparation, waits until all builds have ended,
  // drops what was assembled, and goes back to the element matrices, on which the next solve begins at once.
  // Throws as
  // ElementOperator::update_values, when but the preparation nothing has changed; BadArgument where it was
  // made of CSR.
  void update_values(std::span<const ElementGroup<T>> groups);

  std::span<const SwitchRecord> history() const noexcept { return history_; }
  std::span<const FailedSwitch> failures() const noexcept { return failures_; }

  // Seconds of a product in the running format: median of the latest up to 16 that were measured on the host;
  // 0 before the first, and on a device, where products are queued.
  double seconds_per_product() const noexcept;
  // Now, by AdaptiveOptions::clock.
  double now() const;
  // How often the running matrix was replaced.
  std::uint64_t form() const noexcept { return form_; }

  // On the host from the source, where that holds the values of the running matrix: formats that are quick to
  // multiply with may be slow to search.
  void diagonal(VectorView<T> diagonal) const override;
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override;
  // Whether a solve on a device may take the rows of the running matrix and compute with them itself
  // (SolverOptions::device_steps); not unless asked for. While one does, changes of format are refused: they
  // would change nothing for it.
  void show_rows(bool shown) noexcept { rows_shown_ = shown; }
  bool rows_kept() const noexcept { return rows_kept_.load(std::memory_order_relaxed); }
  RowArrays<T> row_arrays() const noexcept override;
  void keep_rows(bool kept) const noexcept override { rows_kept_.store(kept, std::memory_order_relaxed); }
  // The source is read by later changes of format, also where the running matrix does not need it.
  void check_arrays() const override {
    protean::check_arrays(source_);
    if (!source_.watch) running().check_arrays();
  }
  std::string_view name() const noexcept override { return running().name(); }
  Revision revision() const noexcept override { return revision_; }
  // A solver on a device records its steps anew after a change of format, in a running solve also.
  Recording recording() const noexcept override { return {running().recording().allowed, changes_}; }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override;

 private:
  struct Build;
  struct Timings {
    static constexpr int kept = 16;
    mutable std::array<std::atomic<float>, kept> seconds{};
    mutable std::atomic<std::uint32_t> count{0}, calls{0};
  };

  // Builds beside the solve take it one after the other. Its mutex also orders cancel() and the end of one.
  struct Turn {
    std::mutex mutex;
    std::condition_variable changed;
    bool taken = false;
  };

  template <class Product>
  void timed(Product&& product) const;
  void build(Build& build) const;
  void run(Build& build) const noexcept;
  void take_turn(Build& build) const;
  void end(Build& build, Preparation state) const;
  std::unique_ptr<Build> begin(const FormatSpec& spec, std::string reason, std::int64_t iteration,
                               bool overlapped);
  bool adopt(Build& build, std::int64_t iteration);
  void record_failure(Build& build, std::int64_t iteration);
  void record_failure(const Build& build, std::int64_t iteration, SwitchFailure failure, std::string why);
  void keep_assembled(Build& build);

  void check_options() const;
  bool running_is_exact() const noexcept { return !current_ || current_->entry().traits.exact_values; }

  std::unique_ptr<ElementOperator<T>> elements_;  // null: made of CSR
  CsrMatrix<T> source_;
  std::unique_ptr<AssembledMatrix<T>> current_;  // null: runs on the element matrices
  AdaptiveOptions options_;
  Revision revision_;
  bool rows_shown_ = false;
  mutable std::atomic<bool> rows_kept_{false};
  std::uint64_t form_ = 0, changes_ = 1;  // changes of format; of format or values
  std::vector<SwitchRecord> history_;
  std::vector<FailedSwitch> failures_;
  Timings timings_;
  bool source_settled_ = false;  // on a device: what filled the source's arrays has run
  mutable Turn turn_;
  std::unique_ptr<Build> abandoned_;  // was cancelled before it had ended; at most one is without its end
  std::unique_ptr<Build> next_;
};

}  // namespace protean
