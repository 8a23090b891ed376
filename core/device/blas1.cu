#include "core/device/blas1.hpp"

#include "core/blas1_instances.hpp"
#include "core/device/copy.hpp"
#include "core/device/kernel_tools.cuh"
#include "core/device/narrow.hpp"
#include "core/error.hpp"

namespace protean::device {

// Each operation is one launch. It is written as a function of i that loads what element i needs and returns a
// function of the coefficients' values that computes and stores.

template <class T>
void copy(const Context& context, VectorView<const T> from, VectorView<T> to) {
  const auto bytes = static_cast<std::size_t>(from.size) * sizeof(T);
  if (bytes == 0) return;
  if (from.space == Space::host)
    copy_in(context, to.data, from.data, bytes);
  else if (to.space == Space::host)
    copy_out(context, to.data, from.data, bytes);
  else
    copy_within(context, to.data, from.data, bytes);
}

template <class T>
void fill(const Context& context, T value, VectorView<T> x) {
  T* const xs = x.data;
  each<T>(context, x.size, {}, {}, [=] __device__(std::int64_t i) { return [=](T, T) { xs[i] = value; }; });
}

template <class T>
void axpby(const Context& context, Coefficient<T> a, VectorView<const T> x, Coefficient<T> b, bool read_y,
           VectorView<T> y) {
  const T* const xs = x.data;
  T* const ys = y.data;
  if (!read_y)
    each<T>(context, x.size, a, {}, [=] __device__(std::int64_t i) {
      const T xi = xs[i];
      return [=](T av, T) { ys[i] = av * xi; };
    });
  else
    each<T>(context, x.size, a, b, [=] __device__(std::int64_t i) {
      const T xi = xs[i], yi = ys[i];
      return [=](T av, T bv) { ys[i] = av * xi + bv * yi; };
    });
}

template <class T>
void multiply(const Context& context, VectorView<const T> x, VectorView<const T> y, VectorView<T> z) {
  const T *const xs = x.data, *const ys = y.data;
  T* const zs = z.data;
  each<T>(context, x.size, {}, {}, [=] __device__(std::int64_t i) {
    const T zi = xs[i] * ys[i];
    return [=](T, T) { zs[i] = zi; };
  });
}

template <class T>
void reciprocal(const Context& context, VectorView<T> d, T* result) {
  T* const ds = d.data;
  reduce<1>(
      context, d.size, Coefficient<T>{}, Coefficient<T>{},
      [=] __device__(std::int64_t i) {
        const T di = ds[i];
        return [=](T, T, T(&sums)[1]) {
          const T inverse = T(1) / di;
          const bool good = isfinite(di) && isfinite(inverse);
          sums[0] += good ? T(0) : T(1);
          ds[i] = good ? inverse : T(1);
        };
      },
      result);
}

template <class T>
__global__ void __launch_bounds__(block_size)
    max_abs_kernel(std::int64_t n, const T* x, T* result, const int* stop) {
  // One block is enough: a solve calls this once, outside of its loop.
  if (stopped(stop)) return;
  T largest = 0;
  const auto larger = [](T a, T b) { return a != a || !(b <= a) ? (a != a ? a : b) : a; };  // NaN stays
  for (std::int64_t i = threadIdx.x; i < n; i += block_size)
    largest = larger(largest, x[i] < 0 ? -x[i] : x[i]);
  __shared__ T all[block_size];
  all[threadIdx.x] = largest;
  __syncthreads();
  for (int half = block_size / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) all[threadIdx.x] = larger(all[threadIdx.x], all[threadIdx.x + half]);
    __syncthreads();
  }
  if (threadIdx.x == 0) *result = all[0];
}

template <class T>
void max_abs(const Context& context, VectorView<const T> x, T* result) {
  const DeviceState& state = context.device_state();
  max_abs_kernel<<<1, block_size, 0, state.stream>>>(x.size, x.data, result, state.stop);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

template <class T>
void scalar_product(const Context& context, Coefficient<T> a, Coefficient<T> b, T* result) {
  each<T>(context, 1, a, b, [=] __device__(std::int64_t) { return [=](T av, T bv) { *result = av * bv; }; });
}

template <class T>
void dot(const Context& context, VectorView<const T> x, VectorView<const T> y, T* result) {
  const T *const xs = x.data, *const ys = y.data;
  reduce<1>(
      context, x.size, Coefficient<T>{}, Coefficient<T>{},
      [=] __device__(std::int64_t i) {
        const T xi = xs[i], yi = ys[i];
        return [=](T, T, T(&sums)[1]) { sums[0] += xi * yi; };
      },
      result);
}

template <class T>
void dot_pair(const Context& context, VectorView<const T> x, VectorView<const T> y, VectorView<const T> z,
              T* result) {
  const T *const xs = x.data, *const ys = y.data, *const zs = z.data;
  reduce<2>(
      context, x.size, Coefficient<T>{}, Coefficient<T>{},
      [=] __device__(std::int64_t i) {
        const T xi = xs[i], yi = ys[i], zi = zs[i];
        return [=](T, T, T(&sums)[2]) { sums[0] += xi * yi, sums[1] += xi * zi; };
      },
      result);
}

template <class T>
void axpy_dot(const Context& context, Coefficient<T> a, VectorView<const T> x, VectorView<T> y, T* result) {
  const T* const xs = x.data;
  T* const ys = y.data;
  reduce<1>(
      context, x.size, a, Coefficient<T>{},
      [=] __device__(std::int64_t i) {
        const T xi = xs[i], old = ys[i];
        return [=](T av, T, T(&sums)[1]) {
          const T yi = old + av * xi;
          ys[i] = yi;
          sums[0] += yi * yi;
        };
      },
      result);
}

template <class T>
void multiply_add(const Context& context, VectorView<const T> d, VectorView<const T> x, Coefficient<T> b,
                  VectorView<T> y) {
  const T *const ds = d.data, *const xs = x.data;
  T* const ys = y.data;
  each<T>(context, y.size, {}, b, [=] __device__(std::int64_t i) {
    const T zi = ds[i] * xs[i], yi = ys[i];
    return [=](T, T bv) { ys[i] = zi + bv * yi; };
  });
}

template <class T>
void cg_residual(const Context& context, Coefficient<T> a, VectorView<const T> q, VectorView<const T> d,
                 VectorView<T> r, T* result) {
  const T *const qs = q.data, *const ds = d.size > 0 ? d.data : nullptr;
  T* const rs = r.data;
  reduce<2>(
      context, r.size, a, Coefficient<T>{},
      [=] __device__(std::int64_t i) {
        const T old = rs[i], qi = qs[i], di = ds ? ds[i] : T(1);
        return [=](T av, T, T(&sums)[2]) {
          const T ri = old - av * qi, rr = ri * ri;
          rs[i] = ri;
          sums[0] += rr, sums[1] += di * rr;
        };
      },
      result);
}

template <class T>
void cg_direction(const Context& context, Coefficient<T> a, VectorView<const T> d, VectorView<const T> z,
                  Coefficient<T> b, VectorView<T> x, VectorView<T> p) {
  const T *const zs = z.data, *const ds = d.size > 0 ? d.data : nullptr;
  T *const xs = x.data, *const ps = p.data;
  each_and_judge<T>(context, p.size, a, b, [=] __device__(std::int64_t i) {
    const T xi = xs[i], pi = ps[i], zi = ds ? ds[i] * zs[i] : zs[i];
    return [=](T av, T bv) { xs[i] = xi + av * pi, ps[i] = zi + bv * pi; };
  });
}

template <class T>
void bicgstab_direction(const Context& context, VectorView<const T> r, Coefficient<T> b, Coefficient<T> w,
                        VectorView<const T> v, VectorView<const T> d, VectorView<T> p, VectorView<T> z) {
  const T *const rs = r.data, *const vs = v.data, *const ds = d.size > 0 ? d.data : nullptr;
  T *const ps = p.data, *const zs = z.data;
  each_and_judge<T>(context, r.size, b, w, [=] __device__(std::int64_t i) {
    const T ri = rs[i], old = ps[i], vi = vs[i], di = ds ? ds[i] : T(0);
    return [=](T bv, T wv) {
      const T pi = ri + bv * (old - wv * vi);
      ps[i] = pi;
      if (ds) zs[i] = di * pi;
    };
  });
}

template <class T>
void bicgstab_half(const Context& context, Coefficient<T> a, VectorView<const T> v, VectorView<const T> d,
                   VectorView<T> r, VectorView<T> z, T* result) {
  const T *const vs = v.data, *const ds = d.data;
  T *const rs = r.data, *const zs = z.data;
  reduce<1>(
      context, r.size, a, Coefficient<T>{},
      [=] __device__(std::int64_t i) {
        const T old = rs[i], vi = vs[i], di = ds[i];
        return [=](T av, T, T(&sums)[1]) {
          const T ri = old + av * vi;
          rs[i] = ri, zs[i] = di * ri;
          sums[0] += ri * ri;
        };
      },
      result);
}

template <class T>
void bicgstab_update(const Context& context, Coefficient<T> a, VectorView<const T> p, Coefficient<T> w,
                     VectorView<const T> s, VectorView<const T> t, VectorView<const T> r0, VectorView<T> x,
                     VectorView<T> r, T* result) {
  const T *const ps = p.data, *const ss = s.data, *const ts = t.data, *const r0s = r0.data;
  T *const xs = x.data, *const rs = r.data;
  reduce<2>(
      context, x.size, a, w,
      [=] __device__(std::int64_t i) {
        const T xi = xs[i], pi = ps[i], si = ss[i], ti = ts[i], r0i = r0s[i], old = rs[i];
        return [=](T av, T wv, T(&sums)[2]) {
          xs[i] = xi + (av * pi + wv * si);
          const T ri = old - wv * ti;
          rs[i] = ri;
          sums[0] += ri * ri, sums[1] += r0i * ri;
        };
      },
      result);
}

namespace {

// While this exists, the handle reads scalars from host memory.
class HostScalars {
 public:
  explicit HostScalars(cublasHandle_t handle) : handle_(handle) {
    PROTEAN_CUDA_CHECK(cublasSetPointerMode(handle_, CUBLAS_POINTER_MODE_HOST));
  }
  ~HostScalars() { (void)cublasSetPointerMode(handle_, CUBLAS_POINTER_MODE_DEVICE); }
  HostScalars(const HostScalars&) = delete;
  HostScalars& operator=(const HostScalars&) = delete;

 private:
  cublasHandle_t handle_;
};

cublasStatus_t gemv(cublasHandle_t handle, cublasOperation_t op, int m, int n, double a, const double* A,
                    int lda, const double* x, double b, double* y) {
  return cublasDgemv(handle, op, m, n, &a, A, lda, x, 1, &b, y, 1);
}
cublasStatus_t gemv(cublasHandle_t handle, cublasOperation_t op, int m, int n, float a, const float* A,
                    int lda, const float* x, float b, float* y) {
  return cublasSgemv(handle, op, m, n, &a, A, lda, x, 1, &b, y, 1);
}

}  // namespace

// result[k] := V_k . w for the first N vectors of V.
template <int N, class T>
void few_dots(const Context& context, const VectorBlock<const T>& V, VectorView<const T> w, T* result) {
  const T *const vs = V.data, *const ws = w.data;
  const std::int64_t stride = V.stride;
  reduce<N>(
      context, w.size, Coefficient<T>{}, Coefficient<T>{},
      [=] __device__(std::int64_t i) {
        struct Products {
          T of[N];
          __device__ void operator()(T, T, T (&sums)[N]) const {
#pragma unroll
            for (int k = 0; k < N; ++k) sums[k] += of[k];
          }
        } products;
        const T wi = ws[i];
#pragma unroll
        for (int k = 0; k < N; ++k) products.of[k] = vs[k * stride + i] * wi;
        return products;
      },
      result);
}

// cuBLAS does not know the flag of an ended solve (DeviceState::stop): a step that must not be computed would change
// the vectors and scalars that the method keeps. So the steps of a solve have their own kernels; but more than
// `most_heeding_dots` dot products at once are faster by cuBLAS. Only GMRES and FCG ask for that many, and compute them
// again before they use them.
template <class T>
void block_dot(const Context& context, VectorBlock<const T> V, VectorView<const T> w, T* result) {
  if (V.count == 0) return;
  if (w.size == 0) return device::fill<T>(context, T(0), {result, V.count, Space::device});
  const DeviceState& state = context.device_state();
  if (!state.stop || V.count > detail::most_heeding_dots) {
    const HostScalars scalars(state.cublas);
    PROTEAN_CUDA_CHECK(gemv(state.cublas, CUBLAS_OP_T, narrow<int>(V.size, "vector length"),
                            narrow<int>(V.count, "columns"), T(1), V.data, narrow<int>(V.stride, "stride"),
                            w.data, T(0), result));
    return;
  }
  const auto rest = [&V](std::int64_t k) {
    return VectorBlock<const T>{V.data + k * V.stride, V.size, V.stride, V.count - k, V.space};
  };
  std::int64_t k = 0;
  if (k + 8 <= V.count) few_dots<8>(context, rest(k), w, result + k), k += 8;
  if (k + 4 <= V.count) few_dots<4>(context, rest(k), w, result + k), k += 4;
  if (k + 2 <= V.count) few_dots<2>(context, rest(k), w, result + k), k += 2;
  if (k < V.count) few_dots<1>(context, rest(k), w, result + k);
}

// w := w + factor * sum_j h[j] V_j in one pass.
template <class T>
void add_block(const Context& context, T factor, VectorBlock<const T> V, const T* h, VectorView<T> w) {
  // h may be among the sums that the kernel before has left open.
  close_sums<T>(context);
  const T* const vs = V.data;
  T* const ws = w.data;
  const std::int64_t stride = V.stride, count = V.count;
  each<T>(context, w.size, {}, {}, [=] __device__(std::int64_t i) {
    const T old = ws[i];
    T sum = 0;
#pragma unroll 4
    for (std::int64_t j = 0; j < count; ++j) sum += h[j] * vs[j * stride + i];
    return [=](T, T) { ws[i] = old + factor * sum; };
  });
}

template <class T>
void block_axpy(const Context& context, T factor, VectorBlock<const T> V, const T* h, VectorView<T> w,
                T* result) {
  const DeviceState& state = context.device_state();
  if (V.count > 0 && w.size > 0 && state.stop) {
    add_block(context, factor, V, h, w);
  } else if (V.count > 0 && w.size > 0) {
    const HostScalars scalars(state.cublas);
    PROTEAN_CUDA_CHECK(gemv(state.cublas, CUBLAS_OP_N, narrow<int>(V.size, "vector length"),
                            narrow<int>(V.count, "columns"), factor, V.data, narrow<int>(V.stride, "stride"),
                            h, T(1), w.data));
  }
  if (result) device::dot<T>(context, w, w, result);
}

#define PROTEAN_INSTANTIATE(T)                                                                      \
  PROTEAN_BLAS1_INSTANCES(T);                                                                       \
  template void axpby<T>(const Context&, Coefficient<T>, VectorView<const T>, Coefficient<T>, bool, \
                         VectorView<T>);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::device
