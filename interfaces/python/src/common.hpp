// What the sources of protean._core share: arrays of NumPy, Python objects that C++ keeps, and the GIL.
//
// A call that computes gives the GIL back first (WithoutGil). So our locks are never waited for with
// the GIL, and a thread that holds a lock may ask for the GIL, as a solve does to call a function of the caller.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/context.hpp"
#include "core/vector.hpp"
#include "ending.hpp"

namespace protean::python {

namespace nb = nanobind;

// Vectors and arrays of the caller, in place. Python makes them contiguous and of the right type before.
template <class T>
using VectorArray = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using IndexArray = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
// Several vectors, which are columns in either order of memory.
template <class T>
using ColumnsArray = nb::ndarray<T, nb::ndim<2>, nb::device::cpu>;

template <class T>
VectorView<T> view_of(const VectorArray<T>& array) {
  return {array.data(), static_cast<std::int64_t>(array.shape(0)), Space::host};
}

// A context of the host with that many threads, 0 for the default. Each number has one, which lives as long as the
// process.
ContextPtr context_of(int threads);

// Python objects that C++ keeps and lets go in any thread, with or without the GIL.
class Kept {
 public:
  Kept() = default;
  explicit Kept(nb::object object) { add(std::move(object)); }
  ~Kept();
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

  void add(nb::object object) { objects_.push_back(object.release()); }
  nb::handle operator[](std::size_t i) const { return objects_[i]; }

 private:
  std::vector<nb::handle> objects_;
};

// numpy.empty(size, dtype)
template <class T>
nb::object empty_vector(std::int64_t size);

// y := f(x) for a function f of the caller, which takes an array of n values and returns an array of m values.
template <class T>
class PythonFunction {
 public:
  // what: for messages, "the operator". Each call gets a new array, which the function may keep.
  PythonFunction(nb::object function, std::int64_t arguments, std::int64_t results, std::string what);
  // Called without the GIL. Throws what the function throws, and ShapeMismatch for a result of another size.
  // f is linear: it is not called for x = 0.
  void operator()(const T* x, T* y) const;

 private:
  std::shared_ptr<Kept> kept_;  // the function
  std::int64_t arguments_, results_;
  std::string what_;
};

void bind_device_arrays(nb::module_& m);
void bind_errors(nb::module_& m);
void bind_matrices(nb::module_& m);
// In a build with CUDA only.
void bind_nvidia_libraries(nb::module_& m);
void bind_preconditioners(nb::module_& m);
void bind_solvers(nb::module_& m);
void bind_tables(nb::module_& m);

}  // namespace protean::python
