// The matrix of a linear system: which storage format and order of its rows the caller wants, and how "auto" was
// decided.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <protean/core/export.hpp>
#include <protean/formats/choose.hpp>
#include <protean/operators/assembled_matrix.hpp>
#include <protean/operators/elements/element_operator.hpp>
#include <protean/operators/linear_operator.hpp>
#include <protean/operators/matrix/matrix.hpp>
#include <protean/solvers/auto_switcher.hpp>

namespace PROTEAN_EXPORT protean {

// What is known about a solve before it begins. The choice of format and order "auto" uses it.
struct SolveForecast {
  double products_per_iteration = 1;      // SolverEntry::products
  std::int64_t expected_iterations = 0;   // 0: not known
  bool several_columns = false;           // a product with several vectors is wanted
  bool policy = false;                    // format auto is csr, from which a policy changes
  const MachineTable* machine = nullptr;  // null: the built-in one
  std::string_view selector = default_selector;
};

// A matrix, given as CSR arrays, element matrices, or any operator. set_format() and set_order() say what the caller
// wants, and settle() makes it; each solve calls settle(). If the rows are in another order than the caller's, A()
// still takes vectors in the caller's numbering.
//
// The matrix itself is a Matrix (operators/matrix/matrix.hpp), whatever it was given as.
//
// New values keep the pattern, the format and the order. The object also keeps what it has learnt about the formats:
// predictions, measured products and conversions, iterations of solves. It forgets this if the caller asks for another
// format or order.
//
// Several threads may compute products at the same time, and do nothing else.
template <class T>
class SystemMatrix {
 public:
  // csr lies in the space of the context or in host memory. With a context of a device, arrays in host memory are
  // copied to the device. Arrays that are not copied remain the caller's and must live as long as the object. With
  // `check` all arrays are read once; BadMatrix is thrown, with row and column, for row pointers or columns out of
  // range and for values that are not finite. Rows need not be sorted for format csr in the caller's order. Throws
  // WrongSpace, OutOfMemory.
  SystemMatrix(ContextPtr context, CsrMatrix<T> csr, bool check = true);
  explicit SystemMatrix(std::unique_ptr<ElementOperator<T>> elements);
  // Any operator. It has no format and no order.
  explicit SystemMatrix(std::shared_ptr<LinearOperator<T>> A);
  ~SystemMatrix();
  SystemMatrix(const SystemMatrix&) = delete;
  SystemMatrix& operator=(const SystemMatrix&) = delete;

  // Sets the format of later solves: a name of the catalogue, or "auto". settle() makes it, and makes it again if a
  // solve has left it. Throws BadArgument for an unknown name, for parameters that the format does not have, and for a
  // matrix without entries (element matrices, operators).
  void set_format(std::string_view format, const FormatParams& parameters = {}, std::string_view kernel = {});
  // Sets the order of later solves: a name of order_words(). Throws what require_order() throws, and BadArgument as
  // above.
  void set_order(std::string_view order);
  // Sets both at once. If it throws, it has changed neither.
  void set_format_and_order(std::string_view format, const FormatParams& parameters, std::string_view kernel,
                            std::string_view order);
  // Whether these are the settings that were asked for last.
  bool wants(std::string_view format, const FormatParams& parameters, std::string_view kernel,
             std::string_view order) const;
  // Whether solves have left a format, or an order, that was asked for by name.
  bool has_left() const;
  // Makes the matrix in the wanted format and order, unless it has them already. It also chooses "auto"; the choice
  // stays until the caller asks for another format or order. In another order "auto" keeps the present format, to which
  // a solve may have changed the matrix; if that format does not fit in the order, it chooses anew. If "auto" chose a
  // format that is then refused, or that does not fit into memory, format_reason() says so. Calls `stage` before each
  // part of the work. Does nothing while a solve runs with the matrix. Throws what put_in_order() and make_matrix()
  // throw. The matrix is then as before, and the next call tries again.
  struct Seconds {
    double order = 0, convert = 0;
  };
  Seconds settle(const SolveForecast& forecast = {}, const std::function<void(std::string_view)>& stage = {});
  // Makes a format or order that was asked for by name at once. settle() makes "auto"; until then the format is csr,
  // and the order the caller's. If it throws, the matrix and the wanted settings are as before.
  void settle_named();
  bool settled() const noexcept;

  // A number that no other matrix of the process has.
  std::uint64_t serial() const noexcept { return serial_; }
  // The operator in the caller's numbering (Matrix::computing()). Throws std::logic_error before the first settle().
  const LinearOperator<T>& A() const;
  const ContextPtr& context() const noexcept { return context_; }
  // Makes changes of format possible, until the caller asks for another format or order: A() is the Matrix from here
  // on. Throws BadArgument for an operator, BadMatrix for unsorted rows, std::logic_error before the first settle().
  Matrix<T>& make_adaptive(MatrixOptions options = {});
  // The matrix while changes are possible; null otherwise.
  Matrix<T>* adaptive() const noexcept { return matrix_ && matrix_->may_change() ? matrix_.get() : nullptr; }
  // The policy of this matrix for the next solve. It remembers earlier solves. make_adaptive() comes first. machine:
  // null for the built-in table.
  AutoSwitcher<T>& begin_policy(const MachineTable* machine, const AutoSwitchOptions& options,
                                SolveObserver* inner);

  // If a change of format has put the values into float, stores them as they were given again, unless `why` is empty.
  // Returns the seconds that took. No solve may use the matrix meanwhile.
  double undo_rounding(const std::string& why);

  // Sets new values of the same pattern, in the order of the CSR arrays and in the space in which the matrix was given.
  // The values must live from here on. The arrays of csr's pattern need not: the first ones are kept. Throws
  // BadArgument if the matrix was not made of CSR, BadMatrix, and ShapeMismatch for another pattern, also if another
  // pattern was written into the same arrays. Then nothing has changed. Row pointers and columns are read once to find
  // out, unless the library owns them. Without `check`, arrays at the addresses in use are taken for unchanged, and not
  // read.
  void update_values(const CsrMatrix<T>& csr);
  // For a caller who knows that the pattern is the same, as with with_values(given(), values): only its sizes are
  // compared.
  void update_values(const CsrMatrix<T>& csr, SamePattern same);
  // Sets new element matrices for the same connectivity, which may be left empty.
  void update_values(std::span<const ElementGroup<T>> groups);
  // From now on, finds arrays that are freed or changed too early (watched()).
  void watch();

  bool of_elements() const noexcept { return matrix_ && matrix_->elements(); }
  bool of_operator() const noexcept { return matrix_ && matrix_->of_operator(); }
  // Whether the matrix was given as symmetric element matrices.
  bool known_symmetric() const;
  // The arrays as they were given; empty if the matrix was not made of CSR.
  const CsrMatrix<T>& given() const noexcept { return given_; }
  // The matrix from which formats are made: in the present order of the rows, in the space of the context.
  const CsrMatrix<T>& source() const noexcept;
  // The matrix that computes the products now; null for an operator and for element matrices.
  const AssembledMatrix<T>* assembled() const noexcept { return matrix_ ? matrix_->assembled() : nullptr; }
  std::string_view format() const { return A().name(); }
  std::string_view kernel() const;
  // The order in which it computes now: a name of orderings(), or "none".
  std::string_view order() const;
  const std::string& format_reason() const noexcept { return format_reason_; }
  // The choice of format "auto".
  const ChoiceRecord& choice() const noexcept { return choice_; }
  // Whether the caller has fixed the format: by name, or by an operator that has no choice of formats.
  bool format_named() const noexcept { return !of_csr() || wanted_.format != "auto"; }
  const std::string& order_reason() const noexcept { return order_reason_; }
  std::size_t bytes() const noexcept { return matrix_ ? matrix_->running_bytes() : 0; }
  // How the running matrix stores its values: "double", "dictionary", "float (exact)", "float (rounded)"; and why, for
  // a person. Both are empty for an operator and for element matrices.
  std::string values() const;
  std::string values_reason() const;
  // The number of products of the operator that computes now, since it was made.
  std::int64_t products() const;
  // The result of the policy's first survey; empty before it.
  const std::vector<SwitchTarget>& surveyed() const noexcept { return surveyed_; }

  // Seconds in the constructor for the check of the arrays and their copy to a device.
  double check_seconds() const noexcept { return check_seconds_; }
  double upload_seconds() const noexcept { return upload_seconds_; }

  // Whether a solve with format "auto" may begin in csr, from which a policy changes the format: results need not have
  // the same bits each time (deterministic mode), rows are sorted, and a conversion may pay.
  bool may_begin_in_csr() const;
  // Held while a solve prepares the matrix and marks it as used. Solves may begin in several threads.
  std::unique_lock<std::recursive_mutex> preparing() const { return std::unique_lock(changing_); }
  // Calls `change` if one solve at most uses the matrix, and keeps others from beginning meanwhile. Returns whether it
  // called it.
  bool change_alone(const std::function<void()>& change) const;

  // Marks the matrix as used by a solve while the object lives. settle() then changes neither its format nor its
  // order.
  class Use {
   public:
    explicit Use(const SystemMatrix& matrix) : matrix_(matrix) { ++matrix_.uses_; }
    ~Use() { --matrix_.uses_; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    const SystemMatrix& matrix_;
  };
  bool in_use() const noexcept { return uses_ > 0; }

 private:
  struct Wanted {
    std::string format = {}, kernel = {}, order = "none";
    FormatParams parameters = {};
    bool operator==(const Wanted&) const = default;
  };
  // Throw as set_format() and set_order().
  PROTEAN_HIDDEN void check_format(std::string_view format, const FormatParams& parameters,
                                   std::string_view kernel) const;
  PROTEAN_HIDDEN void check_order(std::string_view order) const;
  PROTEAN_HIDDEN void ask(Wanted wanted) noexcept;
  // A matrix in the wanted format, made of these arrays.
  PROTEAN_HIDDEN ChosenMatrix<T> wanted_matrix(const SolveForecast& forecast, const CsrMatrix<T>& from) const;
  bool of_csr() const noexcept { return !of_elements() && !of_operator(); }
  void require_entries(std::string_view what) const;
  void require_csr() const;
  void check_values(const CsrMatrix<T>& csr) const;
  void require_same_pattern(const CsrMatrix<T>& csr);
  void take_values(const CsrMatrix<T>& csr);
  CsrMatrix<T> on_device(const CsrMatrix<T>& values) const;
  ChoiceOptions choice_options(const SolveForecast& forecast) const;
  Seconds make(const SolveForecast& forecast, const std::function<void(std::string_view)>& stage);

  static std::uint64_t next_serial() noexcept;

  std::uint64_t serial_ = next_serial();
  ContextPtr context_;
  bool check_ = true;
  CsrMatrix<T> given_, csr_;            // csr_: in the space of the context
  std::optional<PatternMark> pattern_;  // empty: not asked for, and nobody may have changed the arrays
  std::unique_ptr<Matrix<T>> matrix_;   // null before the first settle(), if it was given as CSR
  std::vector<SwitchTarget> surveyed_;
  std::unique_ptr<AutoSwitcher<T>> switcher_;
  const MachineTable* machine_ = nullptr;  // of switcher_
  std::string selector_;                   // of switcher_
  bool rounding_ = false;                  // of switcher_
  // format empty: nothing is made yet.
  Wanted wanted_{.format = "auto"}, made_;
  bool asked_ = true;  // wanted_ has been said since it was made
  // Both before the last set_format() or set_order().
  std::pair<Wanted, bool> before_;
  std::string order_id_ = "none", format_reason_, order_reason_;
  ChoiceRecord choice_;
  double check_seconds_ = 0, upload_seconds_ = 0;
  mutable std::atomic<int> uses_{0};
  mutable std::recursive_mutex changing_;    // a function of the caller may begin another solve
  mutable std::optional<bool> sorted_ = {};  // of the given rows; empty: not looked at
};

}  // namespace protean
