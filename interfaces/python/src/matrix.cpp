#include "matrix.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

#include "core/blas1.hpp"
#include "core/csr_view.hpp"
#include "core/error.hpp"
#include "operators/multi_product.hpp"
#include "operators/transposed_product.hpp"
#include "settings.hpp"
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
    // A column that is there twice in a row is no fault: such entries are added up.
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
  make();  // so that there is a format to keep where the new one is refused
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

namespace {

// Seconds of a product, the least of several, for about `budget` seconds.
template <class T>
double time_product(Matrix<T>& matrix, double budget) {
  using Clock = std::chrono::steady_clock;
  const WithoutGil no_gil;
  const std::lock_guard lock(matrix.mutex());
  matrix.make();
  Vector<T> x(matrix.context(), matrix.shape().cols), y(matrix.context(), matrix.shape().rows);
  fill<T>(*matrix.context(), T(1), x);
  const auto seconds = [](Clock::time_point from) {
    return std::chrono::duration<double>(Clock::now() - from).count();
  };
  const auto begin = Clock::now();
  double least = std::numeric_limits<double>::infinity();
  for (int run = 0; run < 3 || seconds(begin) < budget; ++run) {
    matrix.context()->synchronize();
    const auto start = Clock::now();
    matrix.A().apply(x, y);
    matrix.context()->synchronize();
    least = std::min(least, seconds(start));
  }
  return least;
}

template <class T>
void bind_matrix(nb::module_& m, const char* name) {
  using M = Matrix<T>;
  nb::class_<M>(m, name)
      .def_static(
          "of_csr",
          [](std::int64_t rows, std::int64_t cols, const IndexArray& row_ptr, const IndexArray& col,
             const VectorArray<const T>& values, nb::object kept, int threads, int ordinal) {
            return M::of_csr(rows, cols, row_ptr, col, values, std::move(kept), threads, ordinal);
          },
          nb::arg("rows"), nb::arg("cols"), nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(),
          nb::arg("data").noconvert(), nb::arg("kept").none(), nb::arg("threads"), nb::arg("ordinal") = -1)
      .def_static("of_device_csr", &M::of_device_csr, nb::arg("rows"), nb::arg("cols"), nb::arg("indptr"),
                  nb::arg("indices"), nb::arg("data"), nb::arg("kept").none())
      .def_prop_ro("ordinal", [](const M& a) { return a.gpu() ? a.gpu()->ordinal() : -1; })
      .def_prop_ro("given_on_device",
                   [](const M& a) { return !a.is_function() && a.csr().pattern.space == Space::device; })
      .def_static("of_function", &M::of_function, nb::arg("rows"), nb::arg("cols"), nb::arg("function"),
                  nb::arg("threads"))
      .def_prop_ro("shape", [](const M& a) { return nb::make_tuple(a.shape().rows, a.shape().cols); })
      .def_prop_ro("nonzeros", [](const M& a) { return a.is_function() ? -1 : a.csr().nonzeros(); })
      .def_prop_ro("threads", [](const M& a) { return a.context()->threads(); })
      .def_prop_ro("is_function", &M::is_function)
      .def_prop_ro("borrowed", &M::borrowed)
      .def_prop_ro("format",
                   [](M& a) {
                     const auto lock = a.wait();
                     a.make();
                     return std::string(a.system().format());
                   })
      .def_prop_ro("kernel",
                   [](M& a) {
                     const auto lock = a.wait();
                     a.make();
                     return std::string(a.system().kernel());
                   })
      .def_prop_ro("order",
                   [](M& a) {
                     const auto lock = a.wait();
                     a.make();
                     return std::string(a.system().order());
                   })
      .def_prop_ro("bytes",
                   [](M& a) {
                     const auto lock = a.wait();
                     a.make();
                     return a.system().bytes();
                   })
      .def_prop_ro("parameters",
                   [](M& a) {
                     const auto lock = a.wait();
                     a.make();
                     nb::dict result;
                     if (const AssembledMatrix<T>* const now = a.system().assembled())
                       for (const auto& [key, value] : now->params().all())
                         result[nb::str(key.data(), key.size())] = value;
                     return result;
                   })
      .def_prop_ro("format_reason", [](M& a) { return a.system().format_reason(); })
      .def_prop_ro("wanted_format", [](const M& a) { return a.wanted_format; })
      .def_prop_ro("wanted_order", [](const M& a) { return a.wanted_order; })
      .def(
          "want",
          [](M& a, const std::string& format, nb::handle parameters, const std::string& kernel,
             const std::string& order) { a.want(format, parameters_of(parameters), kernel, order); },
          nb::arg("format"), nb::arg("parameters").none(), nb::arg("kernel"), nb::arg("order"))
      .def("settle",
           [](M& a) {
             const WithoutGil no_gil;
             const std::lock_guard lock(a.mutex());
             a.system().settle_named();
           })
      .def(
          "convert",
          [](M& a, const std::string& format, nb::handle parameters, const std::string& kernel,
             const std::optional<std::string>& order) {
            a.convert(format, parameters_of(parameters), kernel, order);
          },
          nb::arg("format"), nb::arg("parameters").none(), nb::arg("kernel"), nb::arg("order").none())
      .def(
          "update",
          [](M& a, const VectorArray<const T>& values, nb::object kept) {
            a.update(values, std::move(kept));
          },
          nb::arg("values").noconvert(), nb::arg("kept"))
      .def(
          "update",
          [](M& a, const DeviceArray& values, nb::object kept) { a.update(values, std::move(kept)); },
          nb::arg("values"), nb::arg("kept"))
      .def(
          "apply",
          [](M& a, const VectorArray<const T>& x, const VectorArray<T>& y) {
            a.apply(VectorView<const T>(view_of<const T>(x)), view_of<T>(y));
          },
          nb::arg("x").noconvert(), nb::arg("y").noconvert())
      .def(
          "apply", [](M& a, const DeviceArray& x, const DeviceArray& y) { a.apply(x, y); }, nb::arg("x"),
          nb::arg("y"))
      .def(
          "apply_transposed",
          [](M& a, const VectorArray<const T>& x, const VectorArray<T>& y) {
            a.apply_transposed(VectorView<const T>(view_of<const T>(x)), view_of<T>(y));
          },
          nb::arg("x").noconvert(), nb::arg("y").noconvert())
      .def(
          "apply_transposed",
          [](M& a, const DeviceArray& x, const DeviceArray& y) { a.apply_transposed(x, y); }, nb::arg("x"),
          nb::arg("y"))
      .def(
          "apply_columns",
          [](M& a, const ColumnsArray<const T>& x, const ColumnsArray<T>& y) {
            a.apply(view_of<const T>(x), view_of<T>(y));
          },
          nb::arg("x").noconvert(), nb::arg("y").noconvert())
      .def("transposed",
           [](M& a) {
             if (a.is_function())
               throw BadArgument("the operator is a function of yours, which has no transpose");
             const WithoutGil no_gil;
             const std::lock_guard lock(a.mutex());
             const ContextPtr host = a.gpu() ? context_of(0) : a.context();
             return std::make_shared<M>(a.context(), transpose(host, a.host_csr()), false, a.gpu());
           })
      .def(
          "time_product", [](M& a, double budget) { return time_product(a, budget); }, nb::arg("budget"))
      .def("csr", [](M& a) {
        if (a.is_function()) throw BadArgument("the operator is a function of yours, which has no entries");
        const CsrMatrix<T> csr = [&] {
          const WithoutGil no_gil;
          return a.host_csr();
        }();
        const auto rows = static_cast<std::size_t>(csr.rows()),
                   count = static_cast<std::size_t>(csr.nonzeros());
        // Copies, so that nobody changes the arrays of the matrix.
        std::vector<std::int64_t> row_ptr(rows + 1);
        for (std::size_t r = 0; r <= rows; ++r)
          row_ptr[r] = csr.pattern.row_ptr[static_cast<std::int64_t>(r)];
        const auto array = [](const auto* data, std::size_t size) {
          using V = std::remove_const_t<std::remove_pointer_t<decltype(data)>>;
          return nb::cast(nb::ndarray<nb::numpy, const V, nb::ndim<1>>(data, {size}), nb::rv_policy::copy);
        };
        return nb::make_tuple(array(row_ptr.data(), rows + 1), array(csr.pattern.col, count),
                              array(csr.values, count));
      });
}

}  // namespace

void bind_matrices(nb::module_& m) {
  bind_matrix<double>(m, "MatrixF64");
  bind_matrix<float>(m, "MatrixF32");
}

}  // namespace protean::python
