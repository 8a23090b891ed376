// What Python sees of a matrix.
#include <algorithm>
#include <chrono>
#include <limits>
#include <mutex>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "matrix.hpp"
#include "operators/multi_product.hpp"
#include "operators/transposed_product.hpp"
#include "settings.hpp"

namespace protean::python {
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
