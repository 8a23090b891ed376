#include "matrix.hpp"

#include <algorithm>
#include <limits>

#include "core/csr_view.hpp"
#include "core/error.hpp"
#include "operators/multi_product.hpp"
#include "operators/transposed_product.hpp"
#if defined(PROTEAN_HAVE_CUDA)
#include "core/device/check_matrix.hpp"
#endif

namespace protean::python {
namespace {

enum class Width : unsigned char { int32, int64 };
Width width_of(const IndexArray& array, const char* what) {
  const nb::dlpack::dtype type = array.dtype();
  if (type == nb::dtype<std::int32_t>()) return Width::int32;
  if (type == nb::dtype<std::int64_t>()) return Width::int64;
  throw BadArgument(std::string(what) + " are neither int32 nor int64");
}
template <class Index>
const Index* data_of(const IndexArray& array) {
  return static_cast<const Index*>(array.data());
}

// Columns as int32. Those that do not fit become -1, which validate() refuses: they are out of range of any matrix.
std::shared_ptr<std::vector<std::int32_t>> narrowed(const std::int64_t* col, std::int64_t count) {
  auto result = std::make_shared<std::vector<std::int32_t>>(static_cast<std::size_t>(count));
  std::transform(col, col + count, result->begin(), [](std::int64_t c) {
    return c < 0 || c > std::numeric_limits<std::int32_t>::max() ? -1 : static_cast<std::int32_t>(c);
  });
  return result;
}

void require_columns(const SparsityPattern& pattern) {
  for (std::int64_t r = 0; r < pattern.rows; ++r)
    if (pattern.row_ptr[r] < 0 || pattern.row_ptr[r + 1] < pattern.row_ptr[r] ||
        pattern.row_ptr[r + 1] > pattern.nonzeros)
      throw BadMatrix("indptr decreases, or is out of range, after row " + std::to_string(r));
  for (std::int64_t k = 0; k < pattern.nonzeros; ++k)
    if (pattern.col[k] < 0 || pattern.col[k] >= pattern.cols)
      throw BadMatrix("entry " + std::to_string(k) + " is in column " + std::to_string(pattern.col[k]) +
                      "; columns are 0 to " + std::to_string(pattern.cols - 1));
}

void require_sorted([[maybe_unused]] const Gpu& gpu, [[maybe_unused]] const SparsityPattern& pattern) {
#if defined(PROTEAN_HAVE_CUDA)
  const std::int64_t row = device::first_unsorted_row(*gpu.context(), pattern);
  if (row < pattern.rows)
    throw BadMatrix("the columns of row " + std::to_string(row) +
                    " do not ascend, or one is there twice; sort the rows and add such entries up first, as "
                    "sum_duplicates() of CuPy and SciPy does");
#endif
}

// Arrays of the caller, and a copy that takes the place of one of them.
struct Owners {
  std::shared_ptr<const void> first, second;
};

}  // namespace

template <class T>
Matrix<T>::Matrix(std::unique_ptr<SystemMatrix<T>> system, Shape shape)
    : system_(std::move(system)), rows_(shape.rows), cols_(shape.cols) {}

template <class T>
Matrix<T>::Matrix(ContextPtr context, CsrMatrix<T> csr, bool borrowed, std::shared_ptr<Gpu> gpu)
    : gpu_(std::move(gpu)), rows_(csr.rows()), cols_(csr.cols()), borrowed_(borrowed) {
  system_ = std::make_unique<SystemMatrix<T>>(std::move(context), std::move(csr), false);
}

// Work that is queued on a GPU may still read the arrays of the caller, which the system keeps.
template <class T>
Matrix<T>::~Matrix() {
  if (gpu_) gpu_->let_go(std::shared_ptr<SystemMatrix<T>>(std::move(system_)));
}

template <class T>
Gpu& Matrix<T>::require_gpu() const {
  if (!gpu_)
    throw BadArgument(
        "the vectors lie on a GPU and the matrix in host memory; make the matrix with space=\"device\", or "
        "copy the vectors to the host");
  return *gpu_;
}

template <class T>
CsrMatrix<T> Matrix<T>::host_csr() const {
  const CsrMatrix<T>& csr = system_->given();
  if (csr.pattern.space == Space::host) return csr;
  const std::lock_guard lock(mutex());
  return download(context_of(0), *context(), csr);
}

template <class T>
std::shared_ptr<Matrix<T>> Matrix<T>::of_csr(std::int64_t rows, std::int64_t cols, const IndexArray& row_ptr,
                                             const IndexArray& col, const VectorArray<const T>& values,
                                             nb::object kept, int threads, int ordinal) {
  const ContextPtr context = context_of(threads);
  const std::shared_ptr<Gpu> gpu = ordinal < 0 ? nullptr : Gpu::get(ordinal);
  const std::int64_t nonzeros = static_cast<std::int64_t>(values.shape(0));
  if (static_cast<std::int64_t>(row_ptr.shape(0)) != rows + 1)
    throw BadMatrix("indptr has " + std::to_string(row_ptr.shape(0)) + " entries; a matrix of " +
                    std::to_string(rows) + " rows has " + std::to_string(rows + 1));
  if (static_cast<std::int64_t>(col.shape(0)) != nonzeros)
    throw BadMatrix("indices and data have " + std::to_string(col.shape(0)) + " and " +
                    std::to_string(nonzeros) + " entries; they must have equally many");
  const std::shared_ptr<const void> arrays = std::make_shared<Kept>(std::move(kept));
  const bool wide = width_of(row_ptr, "row pointers") == Width::int64,
             wide_col = width_of(col, "columns") == Width::int64;
  const WithoutGil no_gil;
  std::shared_ptr<const void> owner = arrays;
  const std::int32_t* columns = nullptr;
  if (wide_col) {
    auto copied = narrowed(data_of<std::int64_t>(col), nonzeros);
    columns = copied->data();
    owner = std::make_shared<Owners>(Owners{arrays, std::move(copied)});
  } else {
    columns = data_of<std::int32_t>(col);
  }
  CsrMatrix<T> csr =
      wide ? csr_view(context, rows, cols, nonzeros, data_of<std::int64_t>(row_ptr), columns, values.data())
           : csr_view(context, rows, cols, nonzeros, data_of<std::int32_t>(row_ptr), columns, values.data());
  csr.pattern.owner = owner, csr.values_owner = arrays;
  bool as_given = true;
  try {
    validate(context, csr);
    as_given = is_sorted(*context, csr.pattern);
  } catch (const BadMatrix&) {
    // A column that is there twice in a row is not a fault: such entries are added up.
    require_columns(csr.pattern);
    as_given = false;
  }
  if (!as_given) {
    csr = sorted_copy(context, csr, Duplicates::sum);
    validate(context, csr);
  }
  if (!gpu) return std::make_shared<Matrix>(context, std::move(csr), as_given);
  const std::lock_guard lock(gpu->mutex());
  return std::make_shared<Matrix>(gpu->context(), std::move(csr), as_given, gpu);
}

template <class T>
std::shared_ptr<Matrix<T>> Matrix<T>::of_device_csr(std::int64_t rows, std::int64_t cols,
                                                    const DeviceArray& row_ptr, const DeviceArray& col,
                                                    const DeviceArray& values, nb::object kept) {
  const std::shared_ptr<Gpu> gpu = Gpu::get(row_ptr.ordinal());
  const auto vector = [](const DeviceArray& array) {
    if (array.shape().size() != 1 || !array.dense())
      throw BadArgument(array.what() + " must be a vector whose entries lie side by side");
    return array.shape()[0];
  };
  const std::int64_t nonzeros = vector(values);
  if (vector(row_ptr) != rows + 1)
    throw BadMatrix("indptr has " + std::to_string(row_ptr.size()) + " entries; a matrix of " +
                    std::to_string(rows) + " rows has " + std::to_string(rows + 1));
  if (vector(col) != nonzeros)
    throw BadMatrix("indices and data have " + std::to_string(col.size()) + " and " +
                    std::to_string(nonzeros) + " entries; they must have equally many");
  if (col.entry() != Entry::int32)
    throw BadArgument("indices have entries of type " + std::string(to_string(col.entry())) +
                      "; on a GPU they must be int32");
  if (row_ptr.entry() != Entry::int32 && row_ptr.entry() != Entry::int64)
    throw BadArgument("indptr has entries of type " + std::string(to_string(row_ptr.entry())) +
                      "; they must be int32 or int64");
  require_on(col, *gpu);
  const auto* const data = vector_of<const T>(values, *gpu).data;
  const std::shared_ptr<const void> arrays = std::make_shared<Kept>(std::move(kept));
  const WithoutGil no_gil;
  const std::lock_guard lock(gpu->mutex());
  Joined joined(*gpu, {&row_ptr, &col, &values});
  const ContextPtr& context = gpu->context();
  const auto* const columns = static_cast<const std::int32_t*>(col.data());
  CsrMatrix<T> csr = row_ptr.entry() == Entry::int64
                         ? csr_view(context, rows, cols, nonzeros,
                                    static_cast<const std::int64_t*>(row_ptr.data()), columns, data)
                         : csr_view(context, rows, cols, nonzeros,
                                    static_cast<const std::int32_t*>(row_ptr.data()), columns, data);
  csr.pattern.owner = arrays, csr.values_owner = arrays;
  validate(context, csr);
  require_sorted(*gpu, csr.pattern);
  auto matrix = std::make_shared<Matrix>(context, std::move(csr), true, gpu);
  joined.done();
  return matrix;
}

template <class T>
std::shared_ptr<Matrix<T>> Matrix<T>::of_function(std::int64_t rows, std::int64_t cols, nb::object function,
                                                  int threads) {
  const ContextPtr context = context_of(threads);
  PythonFunction<T> product(std::move(function), cols, rows, "the operator");
  const HostProductFunction<T> call = [product = std::move(product)](const T* x, T* y) { product(x, y); };
  auto callback = std::make_shared<CallbackOperator<T>>(context, Shape{rows, cols}, call,
                                                        CallbackOptions{"python", false});
  return std::shared_ptr<Matrix>(
      new Matrix(std::make_unique<SystemMatrix<T>>(std::shared_ptr<LinearOperator<T>>(std::move(callback))),
                 Shape{rows, cols}));
}

template <class T>
void Matrix<T>::require_no_solve(const char* what) const {
  if (system_->in_use())
    throw BadArgument(
        std::string("a solve is running with this matrix, and ") + what +
        " must wait for its end; a schedule or the policy changes the format of a running solve");
}

template <class T>
void Matrix<T>::make() {
  if (!is_function() && !system_->assembled()) system_->settle_named();
}

template <class T>
void Matrix<T>::want(const std::string& format, const FormatParams& parameters, const std::string& kernel,
                     const std::string& order) {
  system_->set_format(format, parameters, kernel);
  system_->set_order(order);
  wanted_format = format, wanted_order = order;
}

template <class T>
void Matrix<T>::convert(const std::string& format, const FormatParams& parameters, const std::string& kernel,
                        const std::optional<std::string>& order) {
  const WithoutGil no_gil;
  const std::lock_guard lock(mutex());
  require_no_solve("a conversion");
  make();  // so that there is a format to keep if the new one is refused
  system_->set_format(format, parameters, kernel);
  if (order) system_->set_order(*order);
  const bool open = format == "auto" || (order && *order == "auto");
  if (open)
    (void)system_->settle();
  else
    system_->settle_named();
  wanted_format = format;
  if (order) wanted_order = *order;
}

template <class T>
void Matrix<T>::set_values(const T* values, std::int64_t count, Space space,
                           std::shared_ptr<const void> owner) {
  if (is_function()) throw BadArgument("the operator is a function of yours, which has no values to update");
  CsrMatrix<T> csr = with_values(system_->given(), values);
  if (csr.pattern.space != space)
    throw BadArgument("the matrix was given in " + std::string(protean::to_string(csr.pattern.space)) +
                      " memory, and the new values lie in " + std::string(protean::to_string(space)) +
                      " memory; give them there, or make a new Matrix");
  if (count != csr.nonzeros())
    throw ShapeMismatch(std::to_string(count) + " new values were given; the matrix has " +
                        std::to_string(csr.nonzeros()) + " entries");
  csr.values_owner = std::move(owner);
  validate_values(space == context()->space() ? context() : context_of(0), csr);
  system_->update_values(csr, SamePattern());
}

template <class T>
void Matrix<T>::update(const VectorArray<const T>& values, nb::object kept) {
  auto owner = std::make_shared<Kept>(std::move(kept));
  const WithoutGil no_gil;
  const std::lock_guard lock(mutex());
  set_values(values.data(), static_cast<std::int64_t>(values.shape(0)), Space::host, std::move(owner));
}

template <class T>
void Matrix<T>::update(const DeviceArray& values, nb::object kept) {
  auto owner = std::make_shared<Kept>(std::move(kept));
  Gpu& gpu = require_gpu();
  const WithoutGil no_gil;
  const std::lock_guard lock(mutex());
  Joined joined(gpu, {&values});
  const VectorView<const T> view = vector_of<const T>(values, gpu);
  set_values(view.data, view.size, Space::device, std::move(owner));
  joined.done();
}

template <class T>
void Matrix<T>::apply(const DeviceArray& x, const DeviceArray& y) {
  Gpu& gpu = require_gpu();
  const WithoutGil no_gil;
  const std::lock_guard lock(mutex());
  Joined joined(gpu, {&x, &y});
  make();
  if (x.shape().size() == 1)
    A().apply(vector_of<const T>(x, gpu), vector_of<T>(y, gpu));
  else
    multi_apply<T>(A(), columns_of<const T>(x, gpu), columns_of<T>(y, gpu));
  joined.done();
}

template <class T>
void Matrix<T>::apply(VectorView<const T> x, VectorView<T> y) {
  const WithoutGil no_gil;
  const std::lock_guard lock(mutex());
  make();
  A().apply(x, y);
}

template <class T>
void Matrix<T>::apply(MultiVectorView<const T> X, MultiVectorView<T> Y) {
  const WithoutGil no_gil;
  const std::lock_guard lock(mutex());
  make();
  multi_apply<T>(A(), X, Y);
}

template <class T>
void Matrix<T>::apply_transposed(VectorView<const T> x, VectorView<T> y) {
  const WithoutGil no_gil;
  const std::lock_guard lock(mutex());
  make();
  protean::apply_transposed<T>(A(), x, y);
}

template <class T>
void Matrix<T>::apply_transposed(const DeviceArray& x, const DeviceArray& y) {
  Gpu& gpu = require_gpu();
  const WithoutGil no_gil;
  const std::lock_guard lock(mutex());
  Joined joined(gpu, {&x, &y});
  make();
  protean::apply_transposed<T>(A(), vector_of<const T>(x, gpu), vector_of<T>(y, gpu));
  joined.done();
}

template class Matrix<float>;
template class Matrix<double>;

}  // namespace protean::python
