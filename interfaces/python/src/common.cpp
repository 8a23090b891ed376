#include "common.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "core/error.hpp"

namespace protean::python {

ContextPtr context_of(int threads) {
  static std::mutex mutex;
  // Never destroyed: Python may still let matrices go when the process ends.
  static auto& contexts = *new std::map<int, ContextPtr>;
  const std::lock_guard lock(mutex);
  ContextPtr& context = contexts[threads];
  if (!context) context = Context::host(threads);
  return context;
}

Kept::~Kept() {
  if (objects_.empty() || !Py_IsInitialized()) return;  // at the end of the process Python is gone
  const WithGil gil;
  for (const nb::handle object : objects_) object.dec_ref();
}

template <class T>
nb::object empty_vector(std::int64_t size) {
  return nb::module_::import_("numpy").attr("empty")(size, sizeof(T) == 8 ? "float64" : "float32");
}
template nb::object empty_vector<double>(std::int64_t);
template nb::object empty_vector<float>(std::int64_t);

template <class T>
PythonFunction<T>::PythonFunction(nb::object function, std::int64_t arguments, std::int64_t results,
                                  std::string what)
    : kept_(std::make_shared<Kept>(std::move(function))),
      arguments_(arguments),
      results_(results),
      what_(std::move(what)) {}

template <class T>
void PythonFunction<T>::operator()(const T* x, T* y) const {
  if (std::all_of(x, x + arguments_, [](T entry) { return entry == 0; })) {
    std::fill(y, y + results_, T(0));
    return;
  }
  const WithGil gil;
  const nb::object argument = empty_vector<T>(arguments_);
  const auto from = nb::cast<VectorArray<T>>(argument);
  std::copy(x, x + arguments_, from.data());
  const nb::object result = (*kept_)[0](argument);
  VectorArray<const T> to;
  if (!nb::try_cast(result, to, false))
    throw BadArgument(what_ + " returned no vector of " + (sizeof(T) == 8 ? "float64" : "float32"));
  if (static_cast<std::int64_t>(to.shape(0)) != results_)
    throw ShapeMismatch(what_ + " returned " + std::to_string(to.shape(0)) + " values; it must return " +
                        std::to_string(results_));
  std::copy(to.data(), to.data() + results_, y);
}
template class PythonFunction<double>;
template class PythonFunction<float>;

}  // namespace protean::python
