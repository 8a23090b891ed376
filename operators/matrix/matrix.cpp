#include "operators/matrix/matrix.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "operators/matrix/build.hpp"
#include "operators/matrix/numbering.hpp"
#include "operators/matrix/running.hpp"
#include "operators/narrow_values.hpp"
#include "operators/values_word.hpp"

namespace protean {
namespace {

// What is given to a constructor, if it is something.
template <class Pointer>
const auto& given(const Pointer& source, const char* what) {
  if (!source) throw BadArgument(fmt::format("a matrix {} was given none", what));
  return *source;
}

}  // namespace

template <class T>
Matrix<T>::Matrix(CsrMatrix<T> source, const AssembledMatrix<T>* start, MatrixOptions options)
    : Wrapper<T>(given(start, "needs a storage to begin with; it").context(), {source.rows(), source.cols()}),
      source_(std::move(source)) {
  if (start->shape() != this->shape() || start->nonzeros() != source_.nonzeros())
    throw ShapeMismatch(fmt::format(
        "the matrix to begin with is {} x {} with {} entries, its source {} x {} with {}; they must be the "
        "same",
        start->rows(), start->cols(), start->nonzeros(), source_.rows(), source_.cols(), source_.nonzeros()));
  if (source_.pattern.space != this->context()->space())
    throw WrongSpace(fmt::format("the source lies in {} memory, the matrix to begin with in {} memory",
                                 to_string(source_.pattern.space), to_string(this->context()->space())));
  begun_in_float_ = sizeof(T) == 8 && detail::values_word(start->params()) == "float";
  set_options(std::move(options));
  make_parts();
}

template <class T>
Matrix<T>::Matrix(CsrMatrix<T> source, std::unique_ptr<AssembledMatrix<T>>&& start, MatrixOptions options)
    : Matrix(std::move(source), start.get(), std::move(options)) {
  current_ = std::move(start);  // nothing throws after it
}

template <class T>
Matrix<T>::Matrix(CsrMatrix<T> source, std::string order, PermutedMatrix<T>&& ordered,
                  std::unique_ptr<AssembledMatrix<T>>&& start, MatrixOptions options)
    : Matrix(std::move(source), start.get(), std::move(options)) {
  check_order(order, ordered);
  typename detail::Numbering<T>::Change change(*numbering_, std::move(order), ordered.permutation());
  change.source = std::make_shared<PermutedMatrix<T>>(std::move(ordered));
  change.adopt();
  current_ = std::move(start);  // nothing throws after the line before
}

template <class T>
Matrix<T>::Matrix(Matrix&& like, std::unique_ptr<AssembledMatrix<T>>&& start, MatrixOptions options)
    : Matrix(like.source_, start.get(), std::move(options)) {
  const detail::Numbering<T>& known = *like.numbering_;
  typename detail::Numbering<T>::Change(*numbering_, known.id(), known.order(), known.source()).adopt();
  current_ = std::move(start);  // nothing throws after the line before
}

template <class T>
Matrix<T>::Matrix(std::unique_ptr<ElementOperator<T>>&& elements, MatrixOptions options)
    : Wrapper<T>(given(elements, "of element matrices").context(), elements->shape()) {
  set_options(std::move(options));
  make_parts();
  elements_ = std::move(elements);  // nothing throws after it
}

template <class T>
Matrix<T>::Matrix(std::shared_ptr<LinearOperator<T>> B)
    : Wrapper<T>(given(B, "of an operator").context(), B->shape()), other_(std::move(B)) {
  options_.changes = false;
  make_parts();
}

template <class T>
Matrix<T>::Matrix(Permutation permutation, std::shared_ptr<LinearOperator<T>> B) : Matrix(std::move(B)) {
  if (other_->abilities().order)
    throw BadArgument(
        fmt::format("operator '{}' has an order of its rows itself, so it cannot be put into another one; a "
                    "Matrix of CSR may be made in an order",
                    other_->name()));
  const std::int64_t n = permutation.size();
  if (this->rows() != n || this->cols() != n)
    throw ShapeMismatch(fmt::format("the operator is {} x {} and the permutation is of {} rows", this->rows(),
                                    this->cols(), n));
  if (n > 0 && permutation.context()->space() != this->context()->space())
    throw WrongSpace(fmt::format("the operator works on {} memory, the permutation on {} memory",
                                 to_string(this->context()->space()),
                                 to_string(permutation.context()->space())));
  typename detail::Numbering<T>::Change(*numbering_, "", std::move(permutation)).adopt();
}

template <class T>
Matrix<T>::~Matrix() {
  builds_.reset();  // its threads read other members
}

template <class T>
void Matrix<T>::make_parts() {
  running_ = std::make_unique<detail::Running<T>>(*this);
  numbering_ = std::make_unique<detail::Numbering<T>>(*running_);
  builds_ = std::make_unique<detail::Builds<T>>(*this);
}

template <class T>
void Matrix<T>::set_options(MatrixOptions options) {
  if (options.background_workers < 1)
    throw BadArgument(
        fmt::format("background_workers is {}; it must be 1 or more", options.background_workers));
  if (!(options.memory_fraction > 0 && options.memory_fraction <= 1))
    throw BadArgument(
        fmt::format("memory_fraction is {}; it must be above 0 and at most 1", options.memory_fraction));
  options_ = std::move(options);
}

template <class T>
void Matrix<T>::check_order(std::string_view name, const PermutedMatrix<T>& ordered) const {
  if (name.empty() || name == detail::no_order)
    throw BadArgument(fmt::format(
        "a matrix begins in order '{}'; the order of its rows needs a name other than none", name));
  const Permutation& P = ordered.permutation();
  if (P.size() != this->rows() || this->cols() != this->rows() ||
      ordered.matrix().nonzeros() != source_.nonzeros())
    throw ShapeMismatch(fmt::format(
        "the source is {} x {} with {} entries, in order {} it is {} x {} with {}; they must be the same",
        this->rows(), this->cols(), source_.nonzeros(), name, ordered.matrix().rows(),
        ordered.matrix().cols(), ordered.matrix().nonzeros()));
  if (P.size() > 0 && P.context()->space() != this->context()->space())
    throw WrongSpace(fmt::format("order {} permutes vectors in {} memory, the operator works on {} memory",
                                 name, to_string(P.context()->space()), to_string(this->context()->space())));
}

template <class T>
const LinearOperator<T>& Matrix<T>::running() const noexcept {
  if (current_) return *current_;
  if (elements_) return *elements_;
  return *other_;
}

// What products are computed with: in the order of the running matrix.
template <class T>
const LinearOperator<T>& Matrix<T>::multiplier() const noexcept {
  const LinearOperator<T>* const in_full = in_full_.load(std::memory_order_acquire);
  return in_full ? *in_full : running();
}

// Whether values may be rounded, now or by new values.
template <class T>
bool Matrix<T>::may_round() const noexcept {
  if (sizeof(T) == 4 || !current_) return false;
  const auto& params = current_->params().all();
  const auto values = params.find(values_param.name);
  return values != params.end() && values->second == "float";
}

template <class T>
bool Matrix<T>::rounded_by_change() const noexcept {
  return may_round() && !begun_in_float_;
}

// Csr of the source as it was given; null if the running matrix has its values.
template <class T>
const LinearOperator<T>* Matrix<T>::given_in(bool own_order) const {
  if (!current_ || !current_->rounds_values()) return nullptr;
  const std::lock_guard lock(given_mutex_);
  auto& given = given_[own_order && !numbering_->is_callers()];
  if (!given)
    given =
        make_matrix(*current_->entry().transposed, own_order ? ordered_source() : source_, this->context());
  return given.get();
}

template <class T>
const LinearOperator<T>* Matrix<T>::given_matrix() const {
  return in_full_.load(std::memory_order_acquire) ? nullptr : given_in(false);
}

template <class T>
void Matrix<T>::leave_rounding(std::string why) const {
  const LinearOperator<T>* const given = given_in(true);
  if (!given) return;
  const std::lock_guard lock(given_mutex_);
  if (why_left_rounding_.empty()) why_left_rounding_ = std::move(why);
  in_full_.store(given, std::memory_order_release);
}

template <class T>
std::string Matrix<T>::left_rounding() const {
  const std::lock_guard lock(given_mutex_);
  return why_left_rounding_;
}

template <class T>
void Matrix<T>::store_in_full() {
  if (!current_ || !current_->float_values() || left_rounding().empty()) return;
  current_->store_in_full(ordered_source());
  note_change(false);
}

template <class T>
const LinearOperator<T>& Matrix<T>::computing() const noexcept {
  return may_change() || may_round() || !numbering_->is_callers()
             ? static_cast<const LinearOperator<T>&>(*this)
             : running();
}

template <class T>
std::size_t Matrix<T>::running_bytes() const noexcept {
  return current_ ? current_->bytes() : elements_ ? elements_->bytes() : 0;
}

template <class T>
const AssembledMatrix<T>& Matrix<T>::current() const {
  if (!current_)
    throw BadArgument(fmt::format("the matrix runs on {}; there is no assembled one",
                                  elements_ ? "element matrices" : "an operator of the caller"));
  return *current_;
}

template <class T>
const CsrMatrix<T>& Matrix<T>::ordered_source() const noexcept {
  return numbering_->source() ? numbering_->source()->matrix() : source_;
}

template <class T>
bool Matrix<T>::running_is_exact() const noexcept {
  return !current_ || current_->entry().traits.exact_values;
}

// Whether entries are read from the source. Arrays that are watched are read only if check_arrays() looks at them.
template <class T>
bool Matrix<T>::reads_source() const noexcept {
  return running_is_exact() && source_assembled() && (may_change() || may_round() || !source_.watch);
}

template <class T>
double Matrix<T>::now() const {
  if (options_.clock) return options_.clock();
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class T>
double Matrix<T>::seconds_per_product() const noexcept {
  return running_->seconds();
}

template <class T>
void Matrix<T>::measure_products_of(std::int64_t vectors) noexcept {
  running_->measure(vectors);
}

template <class T>
void Matrix<T>::do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const {
  numbering_->outside().multiply(x, beta, y, [&](VectorView<const T> px, VectorView<T> py) {
    running_->timed(1, [&] { multiplier().apply(alpha, px, beta, py); });
  });
}

template <class T>
void Matrix<T>::do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const {
  numbering_->outside().multiply(x, T(0), y, [&](VectorView<const T> px, VectorView<T> py) {
    running_->timed(1, [&] { apply_dot<T>(multiplier(), px, py, result); });
  });
}

template <class T>
std::string_view Matrix<T>::no_multi_product() const noexcept {
  if (const Ability<HasMultiProduct<T>> multi = multiplier().abilities().multi_product)
    return multi->no_multi_product();
  return other_ ? "the operator in its order has no product with several vectors"
                : "its present format has no product with several vectors";
}

template <class T>
void Matrix<T>::do_multi_apply(T alpha, MultiVectorView<const T> X, T beta, MultiVectorView<T> Y) const {
  numbering_->outside().multiply(X, beta, Y, [&](MultiVectorView<const T> px, MultiVectorView<T> py) {
    running_->timed(px.columns, [&] { multi_apply<T>(multiplier(), alpha, px, beta, py); });
  });
}

template <class T>
std::string_view Matrix<T>::no_transposed_product() const noexcept {
  if (const Ability<HasTransposedProduct<T>> transposed = running().abilities().transposed_product)
    return transposed->no_transposed_product();
  return "the operator in its order has none; derive that one from HasTransposedProduct";
}

template <class T>
void Matrix<T>::prepare_transposed() const {
  protean::prepare_transposed(running());
}

template <class T>
std::size_t Matrix<T>::transposed_bytes() const noexcept {
  const Ability<HasTransposedProduct<T>> transposed = running().abilities().transposed_product;
  return transposed ? transposed->transposed_bytes() : 0;
}

template <class T>
void Matrix<T>::do_apply_transposed(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const {
  numbering_->outside().multiply(x, beta, y, [&](VectorView<const T> px, VectorView<T> py) {
    apply_transposed<T>(multiplier(), alpha, px, beta, py);
  });
}

template <class T>
void Matrix<T>::diagonal(VectorView<T> diagonal) const {
  if (current_ && reads_source() && this->context()->space() == Space::host)
    return extract_diagonal<T>(*this->context(), source_, diagonal.data);
  const Ability<HasDiagonal<T>> known = running().abilities().diagonal;
  if (!known) throw BadArgument(fmt::format("operator '{}' does not know its diagonal", running().name()));
  numbering_->outside().bring([&](VectorView<T> d) { known->diagonal(d); }, diagonal);
}

template <class T>
CsrMatrix<T> Matrix<T>::rows_in_order() const {
  if (reads_source()) return ordered_source();
  std::optional<CsrMatrix<T>> rows = csr_of(running());
  if (!rows) throw BadArgument(fmt::format("operator '{}' cannot give its entries", running().name()));
  return *std::move(rows);
}

template <class T>
CsrMatrix<T> Matrix<T>::rows_as_csr() const {
  if (reads_source()) return source_;
  CsrMatrix<T> rows = rows_in_order();
  if (numbering_->is_callers()) return rows;
  const bool on_host = this->context()->space() == Space::host;
  return PermutedMatrix<T>(on_host ? this->context() : Context::host(), rows, order().inverse()).matrix();
}

template <class T>
RowArrays<T> Matrix<T>::row_arrays() const noexcept {
  return numbering_->is_callers() ? rows_of_running() : RowArrays<T>{};
}

template <class T>
RowArrays<T> Matrix<T>::rows_of_running() const noexcept {
  const HasRowArrays<T>* const rows =
      (rows_shown_ || !may_change()) && current_ ? current_->abilities().row_arrays.get() : nullptr;
  if (!rows) return {};
  RowArrays<T> arrays = rows->row_arrays();
  // The arrays of the next format may lie at the same addresses.
  arrays.version = arrays.version ? form_ + 1 : 0;
  return arrays;
}

template <class T>
void Matrix<T>::change(Abilities<T>& set) const noexcept {
  if (other_ && numbering_->is_callers()) return;  // they are the operator's
  // A storage without one of these may be followed by a storage that has it.
  const bool all = !other_;
  if (all || set.diagonal) set.diagonal = this;
  if (all || set.apply_dot) set.apply_dot = this;
  if (all || set.multi_product) set.multi_product = this;
  if (all || set.transposed_product) set.transposed_product = this;
  if (all || set.rows) set.rows = this;
  if (all)
    set.row_arrays = this;
  else if (set.row_arrays)
    set.row_arrays = Ability<HasRowArrays<T>>::refused(
        "its rows are in another order than the vectors; in_order() has them");
  if (all)
    set.given_matrix = this;
  else if (set.given_matrix)
    set.given_matrix = Ability<HasGivenMatrix<T>>::refused(
        "its rows are in another order than the vectors; in_order() has it");
  set.order = this;
}

template <class T>
void Matrix<T>::check_arrays() const {
  if (may_change() || may_round()) protean::check_arrays(source_);
  if (!may_change() || !source_.watch) running().check_arrays();
}

template <class T>
Revision Matrix<T>::revision() const noexcept {
  return other_ ? other_->revision() : revision_;
}

template <class T>
Recording Matrix<T>::recording() const noexcept {
  Recording work = running().recording();
  if (!other_) work.version = changes_;
  return numbering_->outside().with_memory(work);
}

template <class T>
std::string_view Matrix<T>::order_id() const noexcept {
  return numbering_->id();
}

template <class T>
Permutation Matrix<T>::order() const {
  return numbering_->order();
}

template <class T>
const LinearOperator<T>& Matrix<T>::in_order() const noexcept {
  return may_change() || may_round() ? static_cast<const LinearOperator<T>&>(*running_) : running();
}

template <class T>
void Matrix<T>::count_in_order(std::int64_t more) const noexcept {
  in_order().count_products(more);
  if (may_change() || may_round()) this->count_products(more);
}

template <class T>
void Matrix<T>::follow(OrderFollower& follower) const {
  numbering_->follow(follower);
}

template <class T>
void Matrix<T>::unfollow(OrderFollower& follower) const noexcept {
  numbering_->unfollow(follower);
}

template <class T>
Preparation Matrix<T>::preparation() const noexcept {
  return builds_->state();
}

template <class T>
Preparation Matrix<T>::wait_prepared() {
  return builds_->wait();
}

template <class T>
bool Matrix<T>::abandoned() const noexcept {
  return builds_->abandoned();
}

template <class T>
double Matrix<T>::preparation_seconds() const noexcept {
  return builds_->seconds();
}

template <class T>
std::optional<OrderFollower::Permuted> Matrix<T>::permuted() const {
  return numbering_->permuted();
}

template class Matrix<float>;
template class Matrix<double>;

}  // namespace protean
