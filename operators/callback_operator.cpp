#include "operators/callback_operator.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/blas1.hpp"
#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "core/simulated_device.hpp"

namespace protean {
namespace detail {

template <class T>
Callback<T>::Callback(ContextPtr context, std::int64_t rows, ProductFunction<T> function,
                      CallbackOptions options)
    : context_(std::move(context)),
      function_(std::move(function)),
      options_(std::move(options)),
      product_(context_, rows) {
  if (!function_) throw BadArgument(fmt::format("the function of '{}' is empty; give one", options_.name));
}

template <class T>
void Callback<T>::run(const std::function<void(CUstream_st*)>& work) const {
  const DeviceWork device(*context_);
  work(stream_of(*context_));
  check_queued(*context_, options_.name);
}

template <class T>
void Callback<T>::apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const {
  if (beta == T(0)) {
    run([&](CUstream_st* stream) { function_(x.data, y.data, stream); });
    if (alpha != T(1)) scale<T>(*context_, alpha, y);
    return;
  }
  // The function may multiply with its own operator, which needs another vector then: this one is taken meanwhile.
  const std::lock_guard lock(mutex_);
  struct Taken {
    Vector<T>& owner;
    Vector<T> vector;
    ~Taken() { owner = std::move(vector); }
  } taken{product_, std::move(product_)};
  if (taken.vector.size() != y.size) taken.vector = Vector<T>(context_, y.size);
  run([&](CUstream_st* stream) { function_(x.data, taken.vector.data(), stream); });
  axpby<T>(*context_, alpha, taken.vector, beta, y);
}

template class Callback<float>;
template class Callback<double>;

namespace {

template <class T>
ProductFunction<T> without_stream(const Context& context, HostProductFunction<T>&& function) {
  if (context.space() != Space::host)
    throw WrongSpace(
        "a function f(x, y) was given for a device context; on a device it takes the stream: f(x, y, "
        "stream)");
  if (!function) return {};
  return [f = std::move(function)](const T* x, T* y, CUstream_st*) { f(x, y); };
}

}  // namespace
}  // namespace detail

template <class T>
CallbackOperator<T>::CallbackOperator(ContextPtr context, Shape shape, HostProductFunction<T> product,
                                      CallbackOptions options)
    : CallbackOperator(context, shape, detail::without_stream<T>(*context, std::move(product)),
                       std::move(options)) {}

template <class T>
void CallbackOperator<T>::set_transposed(ProductFunction<T> transposed) {
  if (!transposed) return transposed_.reset();
  transposed_.emplace(this->context(), this->cols(), std::move(transposed), callback_.options());
}

template <class T>
void CallbackOperator<T>::set_transposed(HostProductFunction<T> transposed) {
  set_transposed(detail::without_stream<T>(*this->context(), std::move(transposed)));
}

template <class T>
void CallbackOperator<T>::diagonal(VectorView<T> diagonal) const {
  require<T>(diagonal, std::min(this->rows(), this->cols()), this->context()->space(), "diagonal");
  if (!diagonal_)
    throw BadArgument(
        fmt::format("operator '{}' was given no function for its diagonal; call set_diagonal(), or use "
                    "preconditioner none",
                    name()));
  callback_.run([&](CUstream_st* stream) { diagonal_(diagonal.data, stream); });
}

template class CallbackOperator<float>;
template class CallbackOperator<double>;

}  // namespace protean
