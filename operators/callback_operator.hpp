// An operator whose product y := A x is a function of the caller's program, on the host or on a device.
#pragma once
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <protean/core/export.hpp>
#include <protean/core/vector.hpp>
#include <protean/operators/linear_operator.hpp>
#include <protean/operators/transposed_product.hpp>

// CUDA's stream: cudaStream_t is a pointer to it, so this header needs no CUDA.
struct CUstream_st;

namespace PROTEAN_EXPORT protean {

// Computes y := A x. x has cols entries and y has rows entries; both are in the operator's space and do not
// overlap. The old content of y is undefined. On a device the function queues its work on `stream` and does
// not wait for it. On the host `stream` is null, and the work is complete when the function returns.
//
// The function must be linear and give the same y for the same x. A solver cannot check this, but it reports
// a solution as converged only if b - A x, computed by the function, is small. NaN or infinity in y ends a
// solve with StopReason::not_finite. Exceptions of the function pass through apply() and solve(); the
// contents of y and x are undefined then, and operator and solver can be used again. If CUDA refuses a launch
// of the function, a DeviceError with the operator's name is thrown. If several threads apply the operator at
// once, they call the function at once. On the host the function may apply its own operator.
template <class T>
using ProductFunction = std::function<void(const T* x, T* y, CUstream_st* stream)>;
// The same for the host only.
template <class T>
using HostProductFunction = std::function<void(const T* x, T* y)>;
// Computes d[i] := a_ii for min(rows, cols) entries.
template <class T>
using DiagonalFunction = std::function<void(T* diagonal, CUstream_st* stream)>;

struct CallbackOptions {
  std::string name = "callback";
  // On a device. False: the function is called for each product. True: it is called only while a solver
  // records its steps (some twenty times). The queued work is then replayed, which avoids the cost of the launches; the
  // host code of the function does not run again. The function may only queue work on the given stream, and the same
  // work each time except for x and y: no allocation, no waiting, no copy of pageable memory.
  bool recordable = false;
};

namespace detail {

// The common part of callback operators and callback preconditioners.
template <class T>
class Callback {
 public:
  Callback(ContextPtr context, std::int64_t rows, ProductFunction<T> function, CallbackOptions options);
  // y := alpha f(x) + beta y
  void apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const;
  void run(const std::function<void(CUstream_st*)>& work) const;
  const CallbackOptions& options() const noexcept { return options_; }

 private:
  ContextPtr context_;
  ProductFunction<T> function_;
  CallbackOptions options_;
  mutable std::recursive_mutex mutex_;
  mutable Vector<T> product_;  // f(x), if beta is not 0
};

}  // namespace detail

template <class T>
class CallbackOperator final : public LinearOperator<T>,
                               public HasDiagonal<T>,
                               public HasTransposedProduct<T> {
 public:
  // Throws BadArgument for an empty function, OutOfMemory.
  CallbackOperator(ContextPtr context, Shape shape, ProductFunction<T> product, CallbackOptions options = {})
      : LinearOperator<T>(context, shape),
        callback_(std::move(context), shape.rows, std::move(product), std::move(options)) {}
  // The same for a host context; throws WrongSpace for a device context.
  CallbackOperator(ContextPtr context, Shape shape, HostProductFunction<T> product,
                   CallbackOptions options = {});

  // Needed by preconditioners such as jacobi.
  void set_diagonal(DiagonalFunction<T> diagonal) { diagonal_ = std::move(diagonal); }
  // Computes y := A^T x, for apply_transposed(): x has rows entries and y has cols entries; the rest is as for the
  // product. For a symmetric operator it is the same function. An empty function removes the product with A^T. Throws
  // OutOfMemory.
  void set_transposed(ProductFunction<T> transposed);
  // The same for a host context; throws WrongSpace for a device context.
  void set_transposed(HostProductFunction<T> transposed);
  // Call this when the function begins to compute with other numbers, or with another pattern.
  // Preconditioners are then built again, and recorded steps are recorded again.
  void changed(bool pattern = false) noexcept { ++(pattern ? revision_.pattern : revision_.values); }

  std::string_view name() const noexcept override { return callback_.options().name; }
  Revision revision() const noexcept override { return revision_; }
  Recording recording() const noexcept override {
    return {callback_.options().recordable, 1 + revision_.pattern + revision_.values};
  }
  // Throws BadArgument if set_diagonal() was not called.
  void diagonal(VectorView<T> diagonal) const override;
  std::string_view no_transposed_product() const noexcept override {
    return transposed_ ? "" : "it was given no function for it; call set_transposed()";
  }
  std::size_t transposed_bytes() const noexcept override {
    return transposed_ ? static_cast<std::size_t>(this->cols()) * sizeof(T) : 0;
  }
  void do_apply_transposed(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    transposed_->apply(alpha, x, beta, y);
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    callback_.apply(alpha, x, beta, y);
  }

 private:
  detail::Callback<T> callback_;
  DiagonalFunction<T> diagonal_;
  std::optional<detail::Callback<T>> transposed_;
  Revision revision_;
};

}  // namespace protean
