// An operator that is a function of the caller's program: y := A x by its own code, on the host or on a
// device.
#pragma once
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <protean/core/vector.hpp>
#include <protean/operators/linear_operator.hpp>

// CUDA's stream: cudaStream_t is a pointer to it, so this header needs no CUDA.
struct CUstream_st;

namespace protean {

// y := A x for x with cols and y with rows entries, in the operator's space, which do not overlap. y holds
// anything before. On a device the function queues its work on `stream` and does not wait for it; on the host
// `stream` is null and the work is done on return.
//
// The function is to be linear and to give the same y for the same x; no solver can test that, but none
// reports a solution as converged unless b - A x, computed by it, is small. NaN or infinity in y ends a solve
// with StopReason::not_finite. What it throws passes through apply() and solve(), y and x being undefined
// then; operator and solver can be used again. A CUDA launch of it that was refused is a DeviceError with the
// operator's name. Where several threads apply the operator at once, they call it at once.
template <class T>
using ProductFunction = std::function<void(const T* x, T* y, CUstream_st* stream)>;
// The same for the host only.
template <class T>
using HostProductFunction = std::function<void(const T* x, T* y)>;
// d[i] := a_ii for min(rows, cols) entries.
template <class T>
using DiagonalFunction = std::function<void(T* diagonal, CUstream_st* stream)>;

struct CallbackOptions {
  std::string name = "callback";
  // On a device: false, the function is called for each product. True, it is called while a solver records
  // its steps (some twenty times) and what it has queued is replayed, which spares the cost of launching;
  // nothing it does on the host happens then but those times. It may do nothing but queue work on the stream
  // it is given, the same each time but for x and y: no allocation, no waiting, no copy of pageable memory.
  bool recordable = false;
};

namespace detail {

// What callback operators and preconditioners share.
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
  mutable std::mutex mutex_;
  mutable Vector<T> product_;  // f(x) where y is needed too
};

}  // namespace detail

template <class T>
class CallbackOperator final : public LinearOperator<T>, public HasDiagonal<T> {
 public:
  // Throws BadArgument for a function that is empty, OutOfMemory.
  CallbackOperator(ContextPtr context, Shape shape, ProductFunction<T> product, CallbackOptions options = {})
      : LinearOperator<T>(context, shape),
        callback_(std::move(context), shape.rows, std::move(product), std::move(options)) {}
  // Throws WrongSpace for a device context, too.
  CallbackOperator(ContextPtr context, Shape shape, HostProductFunction<T> product,
                   CallbackOptions options = {});

  // Preconditioners such as jacobi ask for it.
  void set_diagonal(DiagonalFunction<T> diagonal) { diagonal_ = std::move(diagonal); }
  // To be called when the function computes with other numbers, or also with another pattern, than before:
  // what was built from the operator, or recorded, is made anew.
  void changed(bool pattern = false) noexcept { ++(pattern ? revision_.pattern : revision_.values); }

  std::string_view name() const noexcept override { return callback_.options().name; }
  Revision revision() const noexcept override { return revision_; }
  Recording recording() const noexcept override {
    return {callback_.options().recordable, 1 + revision_.pattern + revision_.values};
  }
  // Throws BadArgument when set_diagonal() was not called.
  void diagonal(VectorView<T> diagonal) const override;

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    callback_.apply(alpha, x, beta, y);
  }

 private:
  detail::Callback<T> callback_;
  DiagonalFunction<T> diagonal_;
  Revision revision_;
};

}  // namespace protean
