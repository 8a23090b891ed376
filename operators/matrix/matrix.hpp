// A matrix: where its entries come from, the storage that computes now, and the order of its rows. Both may change
// while a solver uses it (State pattern).
#pragma once
#include <atomic>
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
#include <vector>

#include <protean/core/csr.hpp>
#include <protean/core/export.hpp>
#include <protean/core/permutation.hpp>
#include <protean/operators/assembled_matrix.hpp>
#include <protean/operators/elements/element_operator.hpp>
#include <protean/operators/given_matrix.hpp>
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
struct Build;
template <class T>
class Builds;
template <class T>
class Numbering;
template <class T>
class Running;
}  // namespace detail

struct MatrixOptions {
  // False: format and order stay until let_change(). Products then go straight to the storage, and none is measured.
  bool changes = true;
  int background_workers = 1;  // threads of a build next to the solve, on the host
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

// The matrix of a solve. Its source is CSR, element matrices, or any operator. The storage that computes can be
// replaced by one in another format: switch_to() builds the new one while the caller waits; prepare() builds it in a
// thread next to the solve, and adopt_prepared() replaces the running one. A build that fails does not throw: the
// functions return the failure, failures() has the reason, and the running matrix is unchanged. Before a new matrix is
// adopted, its product with a fixed pseudo-random x is compared with the product of the running matrix. Row i may
// differ by
//   2 (n_i + 2) eps sum_j |a_ij x_j|,       n_i: number of entries of row i,
// which is twice Wilkinson's bound for the rounding error (Higham, Accuracy and Stability of Numerical Algorithms, 2nd
// ed., SIAM 2002, section 3.1).
//
// Element matrices: the matrix computes with them until the first change, whose build assembles them. The assembled
// matrix is the source of later changes. The element matrices are kept, so FormatSpec{.elements = true} changes back to
// them without a build. The comparison of products then bounds the rounding errors of both
// (ElementOperator::add_rounding_bounds).
//
// Orders: rows and columns may be in another order P, from the beginning or by a change. The running matrix is then
// B = P A P^T. apply() and all other members still take and give vectors and matrices in the caller's order; a product
// permutes two vectors. A solve by Solver permutes its own vectors once, before it or at the change, and goes on
// without a restart; then no product permutes anything (HasOrder). Right-hand side, guess, solution, preconditioner,
// observer and residuals stay in the caller's numbering. A preconditioner that is a diagonal is permuted once a solve;
// another one costs two permutations of a vector each time that it is applied. The matrix keeps each order that was
// found, for new values, other right-hand sides and a change back. In deterministic mode a change of order next to the
// solve is refused: sums have other rounding errors in another order, and the iteration of the change depends on the
// time. find_order() says whether a device or the host finds an order.
//
//   auto order = Permutation(context, make_order("rcm", *host, csr.pattern));
//   PermutedMatrix<double> ordered(host, csr, order);
//   auto B = make_matrix(find_format("csr"), ordered.matrix(), context);
//   Matrix<double> A(csr, "rcm", std::move(ordered), std::move(B));
//
// Values in float: a start, or a change, with parameter `values` float may round them. The source keeps the values that
// were given: the entries, the diagonal and given_matrix() are theirs, and solvers end by them. After such a start
// later formats get the same parameter if they have it and the change does not name another one. leave_rounding() ends
// this, and takes products from the source until store_in_full() or the next change.
//
// Threads: several threads may compute products at once (in an order one after another, except within solves). All
// other members that are not const belong to one thread and must not run at the same time as a product;
// SolveObserver::on_iteration(), between two iterations, is the place to call them. A change of format does not change
// revision(), so a preconditioner stays valid. It increments form().
//
// Additional memory: three vectors during a build, four during an adoption. Another order than the caller's takes two
// vectors, the source in that order, 4 bytes an entry (8 from 2^31 entries on) and 8 bytes a row; two more vectors
// during a build and an adoption; for products with several vectors as many of each as the largest product so far had;
// on a device 24 more bytes an entry (or a row if there are more rows) while the matrix is ordered. An order that is
// not in use takes 8 bytes a row.
template <class T>
class Matrix final : public Wrapper<T>,
                     public HasDiagonal<T>,
                     public HasApplyDot<T>,
                     public HasMultiProduct<T>,
                     public HasTransposedProduct<T>,
                     public HasRows<T>,
                     public HasRowArrays<T>,
                     public HasOrder<T>,
                     public HasGivenMatrix<T> {
 public:
  // `source` is the matrix from which other formats are built. It is a handle: the arrays are shared, and only
  // update_values() may change them. `start` is the first running matrix, made from source. Throws BadArgument for
  // options out of range or a null start, ShapeMismatch and WrongSpace if the two do not fit. If it throws, the caller
  // keeps start.
  Matrix(CsrMatrix<T> source, std::unique_ptr<AssembledMatrix<T>>&& start, MatrixOptions options = {});
  // Begins in an order that was found before: `ordered` is `source` in the order named `order` (a FormatSpec::order
  // such as "rcm"), and start was made of ordered.matrix(). A change back to it costs no search. Throws as above, and
  // BadArgument for an empty name and for "none". If it throws, the caller keeps both.
  Matrix(CsrMatrix<T> source, std::string order, PermutedMatrix<T>&& ordered,
         std::unique_ptr<AssembledMatrix<T>>&& start, MatrixOptions options = {});
  // The source of another matrix in its order, with another start, which was made of like.ordered_source(). `like` ends
  // here: it only may be destroyed. Throws as the first one; then like and start are as before.
  Matrix(Matrix&& like, std::unique_ptr<AssembledMatrix<T>>&& start, MatrixOptions options = {});
  // The source is element matrices. Throws BadArgument for options out of range or a null pointer. If it throws, the
  // caller keeps them.
  explicit Matrix(std::unique_ptr<ElementOperator<T>>&& elements, MatrixOptions options = {});
  // Any operator, which the caller may share. It stays what it is: changes of format and order, and update_values(),
  // are refused. Throws BadArgument for a null pointer.
  explicit Matrix(std::shared_ptr<LinearOperator<T>> B);
  // A = P^T B P for any operator B that is square. Whoever gives B new values permutes them. Throws ShapeMismatch and
  // WrongSpace if B does not fit the permutation, and BadArgument for a null pointer and for a B with an order of its
  // own (HasOrder): an order has one owner, and its name one meaning.
  Matrix(Permutation permutation, std::shared_ptr<LinearOperator<T>> B);
  ~Matrix() override;  // cancels a build and waits until all builds have ended

  // The operator that computes the products, in order(): an AssembledMatrix, an ElementOperator, or the caller's. It
  // provides tuning, layout and parts, which end with the next change of format.
  const LinearOperator<T>& running() const noexcept;
  const LinearOperator<T>& inner() const noexcept override { return running(); }
  std::size_t running_bytes() const noexcept;  // 0 for an operator of the caller
  bool on_elements() const noexcept { return elements_ && !current_; }
  // The running matrix, in order(); null for element matrices and for an operator of the caller.
  const AssembledMatrix<T>* assembled() const noexcept { return current_.get(); }
  // The same. Throws BadArgument if there is none.
  const AssembledMatrix<T>& current() const;
  // The element matrices of which it was made; null for another source.
  const ElementOperator<T>* elements() const noexcept { return elements_.get(); }
  bool of_operator() const noexcept { return other_ != nullptr; }
  // The source in the caller's order. Empty until element matrices have been assembled, and for an operator of the
  // caller; source_assembled() is false then.
  const CsrMatrix<T>& source() const noexcept { return source_; }
  bool source_assembled() const noexcept {
    return source_.pattern.row_ptr.p32 || source_.pattern.row_ptr.p64;
  }
  // The source in the order of the running matrix; the source itself if that is the caller's order.
  const CsrMatrix<T>& ordered_source() const noexcept;
  const MatrixOptions& options() const noexcept { return options_; }
  // Whether the running matrix has the format, the complete parameters, the kernel and the order of spec, or is element
  // matrices if spec asks for these. Throws what make_matrix() throws for a spec that names no format.
  bool runs(const FormatSpec& spec) const;

  // Whether format and order may change (MatrixOptions::changes).
  bool may_change() const noexcept { return options_.changes; }
  // From now on they may, with these options. No solve uses the matrix meanwhile. Throws BadArgument for options out of
  // range, and for an operator of the caller.
  void let_change(MatrixOptions options = {});
  // What to multiply with: the storage itself, without a step between, while the matrix may not change and is in the
  // caller's order; this object otherwise.
  const LinearOperator<T>& computing() const noexcept;

  // Builds the matrix with all threads of the context while the caller waits, compares the products and replaces the
  // running matrix. Returns false if this failed. Cancels a build that prepare() began. Throws BadArgument while the
  // matrix may not change (may_change()), as prepare() does.
  bool switch_to(const FormatSpec& spec, std::int64_t iteration, std::string reason = {});

  // Begins to build a matrix in a separate thread, and returns at once. The thread blocks signals, except the signals
  // that it causes itself and the signals of profilers. A build that is already there is cancelled first. Only one
  // build runs at a time: if a cancelled one has not ended yet, the new thread (not the caller) waits for its end, and
  // preparation() is `running` meanwhile. In a child of fork() a build of the parent has failed, with that as the
  // reason, and its memory is lost; the matrix goes on there.
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

  // Sets new values for the same pattern, in CSR order and the caller's order of the rows; they become the values of
  // the source. The order is kept; one pass permutes the values. Cancels a build and waits until all builds have ended.
  // Throws ShapeMismatch like AssembledMatrix::update_values, and BadArgument for another source than CSR; then no
  // build has been cancelled. If it throws, the matrix has its old values.
  void update_values(const CsrMatrix<T>& csr);
  // For a caller who knows that the pattern is the same: only its sizes are compared.
  void update_values(const CsrMatrix<T>& csr, SamePattern same);
  // Sets new element matrices for the same connectivity. Cancels a build, waits until all builds have ended, drops the
  // assembled matrix and changes back to the element matrices, so that the next solve can begin at once. Throws what
  // ElementOperator::update_values throws; then only the build has been cancelled. Throws BadArgument for another
  // source.
  void update_values(std::span<const ElementGroup<T>> groups);
  // From now on, finds changes of the source's arrays: `seen` is watched(context, source()).
  void watch(const CsrMatrix<T>& seen);

  std::span<const SwitchRecord> history() const noexcept { return history_; }
  std::span<const FailedSwitch> failures() const noexcept { return failures_; }

  // Seconds of a product in the running format: the median of the last 16 measured ones. 0 before the first, while the
  // matrix may not change, and always on a device, because products are queued there.
  double seconds_per_product() const noexcept;
  // Which products are measured from now on: products with one vector (the default), or products in one pass with this
  // many vectors. The times of other products are forgotten.
  PROTEAN_HIDDEN void measure_products_of(std::int64_t vectors) noexcept;
  // The present time of MatrixOptions::clock.
  double now() const;
  // Whether the clock is the clock of the machine.
  bool has_machine_clock() const noexcept { return !options_.clock; }
  // "none", or the name of the order of the running matrix. Empty for a permutation without a name.
  std::string_view order_id() const noexcept;
  Permutation order() const override;
  // The operator in the order of the running matrix (HasOrder). Its products count as products of this matrix, too,
  // except while the matrix may not change: then it is running().
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
  // diagonal in another format may be slow. Throws BadArgument if an operator of the caller has none.
  void diagonal(VectorView<T> diagonal) const override;
  // In another order x and y are permuted once for both results.
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override;
  // The products of the running format, in the caller's order.
  std::string_view no_multi_product() const noexcept override;
  void do_multi_apply(T alpha, MultiVectorView<const T> X, T beta, MultiVectorView<T> Y) const override;
  // The running matrix computes products with A^T. A change of format drops what the matrix before kept for them.
  std::string_view no_transposed_product() const noexcept override;
  void prepare_transposed() const override;
  std::size_t transposed_bytes() const noexcept override;
  void do_apply_transposed(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override;
  // Whether row_arrays() gives a solve on a device the rows of the running matrix, so that the solve can compute with
  // them in its own kernel (SolverOptions::device_steps). Off by default. While a solve does so, changes of format and
  // order are refused, since they would not affect it. A matrix that may not change shows its rows always. In another
  // order than the caller's in_order() has the rows, and row_arrays() of this object has none.
  void show_rows(bool shown) noexcept { rows_shown_ = shown; }
  bool rows_kept() const noexcept { return rows_kept_.load(std::memory_order_relaxed); }
  RowArrays<T> row_arrays() const noexcept override;
  void keep_rows(bool kept) const noexcept override { rows_kept_.store(kept, std::memory_order_relaxed); }
  // While the matrix may change, later changes of format read the source, even if the running matrix does not use its
  // arrays. Solves read it, too, if values are asked for in float.
  void check_arrays() const override;
  // With the source as it was given.
  const LinearOperator<T>* given_matrix() const override;
  void leave_rounding(std::string why) const override;
  // Why leave_rounding() was called; empty if it was not.
  std::string left_rounding() const;
  // After leave_rounding(): stores all values of the running matrix as they were given, and computes with them again.
  // No solve may use the matrix meanwhile. Throws OutOfMemory.
  void store_in_full();
  // Whether the start has parameter `values` float.
  bool begun_in_float() const noexcept { return begun_in_float_; }
  // Whether a change of format, and not the start, has put the values into float.
  bool rounded_by_change() const noexcept;
  // If so, stores the values as they were given again, in the same format, or in csr if that fails. No solve may use
  // the matrix meanwhile. Throws as switch_to().
  void undo_rounding(const std::string& why);
  // The source, if it has the values of the running matrix. Otherwise the entries are computed again in the space of
  // the context, which takes the memory of the matrix in CSR, and 4 bytes per entry meanwhile (on a device 28). Throws
  // BadArgument for an operator of the caller that cannot give its entries (csr_of()), OutOfMemory.
  CsrMatrix<T> rows_as_csr() const override;
  Revision revision() const noexcept override;
  // The version changes with each change of format, so that a solver on a device records its steps again,
  // also in the middle of a solve.
  Recording recording() const noexcept override;

 protected:
  void change(Abilities<T>& set) const noexcept override;
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override;

 private:
  friend class detail::Running<T>;

  // Without start, which the constructors take at their end, so that the caller keeps it if they throw.
  PROTEAN_HIDDEN Matrix(CsrMatrix<T> source, const AssembledMatrix<T>* start, MatrixOptions options);
  // Throw as the constructors.
  PROTEAN_HIDDEN void set_options(MatrixOptions options);
  PROTEAN_HIDDEN void check_order(std::string_view name, const PermutedMatrix<T>& ordered) const;
  PROTEAN_HIDDEN void make_parts();

  PROTEAN_HIDDEN bool running_is_exact() const noexcept;
  PROTEAN_HIDDEN bool may_round() const noexcept;
  PROTEAN_HIDDEN const LinearOperator<T>& multiplier() const noexcept;
  PROTEAN_HIDDEN const LinearOperator<T>* given_in(bool own_order) const;
  PROTEAN_HIDDEN FormatSpec with_values(FormatSpec spec) const;
  PROTEAN_HIDDEN bool reads_source() const noexcept;
  PROTEAN_HIDDEN CsrMatrix<T> rows_in_order() const;
  PROTEAN_HIDDEN RowArrays<T> rows_of_running() const noexcept;
  PROTEAN_HIDDEN void note_change(bool new_storage) noexcept;

  PROTEAN_HIDDEN std::unique_ptr<detail::Build<T>> begin(const FormatSpec& spec, std::string reason,
                                                         std::int64_t iteration, bool overlapped);
  PROTEAN_HIDDEN bool adopt(detail::Build<T>& build, std::int64_t iteration);
  PROTEAN_HIDDEN SwitchRecord record_of(const detail::Build<T>& build, const CsrMatrix<T>& source,
                                        std::int64_t iteration) const;
  PROTEAN_HIDDEN void record_failure(detail::Build<T>& build, std::int64_t iteration);
  PROTEAN_HIDDEN void keep_assembled(detail::Build<T>& build);

  // The source: one of the three.
  CsrMatrix<T> source_;  // also of elements_, once these have been assembled
  std::unique_ptr<ElementOperator<T>> elements_;
  std::shared_ptr<LinearOperator<T>> other_;
  std::unique_ptr<AssembledMatrix<T>> current_;  // null while it computes with elements_ or other_
  std::unique_ptr<detail::Numbering<T>> numbering_;
  std::unique_ptr<detail::Running<T>> running_;  // its products, measured
  std::unique_ptr<detail::Builds<T>> builds_;    // of the next current_
  MatrixOptions options_;
  Revision revision_;
  std::atomic<bool> rows_shown_{false};  // read where other solves ask for abilities
  mutable std::atomic<bool> rows_kept_{false};
  std::uint64_t form_ = 0;     // number of changes of format
  std::uint64_t changes_ = 1;  // 1 + number of changes of format or values
  std::vector<SwitchRecord> history_;
  std::vector<FailedSwitch> failures_;
  mutable std::mutex given_mutex_;  // of the next two while products are computed
  // Format csr of the source: in the caller's order, and in the order of the running matrix. Made when they are needed.
  mutable std::unique_ptr<AssembledMatrix<T>> given_[2];
  mutable std::string why_left_rounding_;
  mutable std::atomic<const LinearOperator<T>*> in_full_{nullptr};  // in the place of the running matrix
  bool begun_in_float_ = false;                                     // with parameter `values` float
  bool source_settled_ = false;  // on a device: the queued work that fills the source's arrays has ended
};

}  // namespace protean
