// Kernels of operations on several vectors: neighbouring threads take neighbouring vectors of one row, so that
// interleaved vectors are read in whole cache lines and a thread keeps the scalars of its vector. Private to
// multi_blas1.cu.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "core/device/kernel_tools.cuh"
#include "core/device/multi_blas1.hpp"
#include "core/error.hpp"

namespace protean::device {

// Threads of a block, and so the most vectors of a call.
constexpr int multi_threads = 256;

// Pairs as an argument of kernels.
constexpr int most_pairs = 64;
struct Pairs {
  int count = 0;
  ColumnPair at[most_pairs];
  explicit Pairs(std::span<const ColumnPair> from) : count(static_cast<int>(from.size())) {
    std::copy(from.begin(), from.end(), at);
  }
};

// Calls use(pairs) for at most most_pairs of them at a time.
template <class Use>
void for_pairs(std::span<const ColumnPair> pairs, Use use) {
  for (std::size_t first = 0; first < pairs.size(); first += most_pairs)
    use(Pairs(pairs.subspan(first, std::min<std::size_t>(most_pairs, pairs.size() - first))));
}

// Where vectors lie.
template <class T>
struct Place {
  T* data;
  std::int64_t row, column;
  explicit Place(const MultiVectorView<T>& v) : data(v.data), row(v.row_step()), column(v.column_step()) {}
  __device__ T& at(std::int64_t i, std::int64_t j) const { return data[i * row + j * column]; }
};

// Blocks for n rows of `width` threads each; they go round.
inline std::int64_t blocks_of_rows(const DeviceState& state, std::int64_t n, int width) {
  const std::int64_t rows = multi_threads / width;
  return std::clamp<std::int64_t>((n + rows - 1) / rows, 1,
                                  std::int64_t{state.processors} * (resident_threads / multi_threads));
}

template <class T>
__global__ void __launch_bounds__(multi_threads)
    copy_columns_kernel(std::int64_t n, Place<const T> from, Place<T> to, Pairs pairs, const int* stop) {
  if (stopped(stop)) return;
  const int rows = multi_threads / pairs.count, r = static_cast<int>(threadIdx.x) / pairs.count;
  if (r >= rows) return;
  const ColumnPair mine = pairs.at[threadIdx.x % pairs.count];
  for (std::int64_t i = std::int64_t{blockIdx.x} * rows + r; i < n; i += std::int64_t{gridDim.x} * rows)
    to.at(i, mine.to) = mine.from < 0 ? T(0) : from.at(i, mine.from);
}

template <class T>
__global__ void __launch_bounds__(multi_threads)
    multi_scale_kernel(std::int64_t n, int w, T a, Place<T> v, bool by_columns, const int* stop) {
  if (stopped(stop)) return;
  const std::int64_t all = n * w, stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t t = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; t < all; t += stride) {
    T& entry = by_columns ? v.at(t % n, t / n) : v.at(t / w, t % w);
    entry = a == T(0) ? T(0) : a * entry;
  }
}

// The sums of the threads of a block that have the same lane (threadIdx.x % w), in the thread of row 0. `rows` threads
// have each lane; the others take part and add nothing.
template <int N, class T>
__device__ inline void sum_lane(int w, int rows, T (&sums)[N]) {
  __shared__ T all[N][multi_threads];
  const int r = static_cast<int>(threadIdx.x) / w;
  __syncthreads();  // threads may still read `all` in the call before
#pragma unroll
  for (int s = 0; s < N; ++s) all[s][threadIdx.x] = sums[s];
  int step = 1;
  while (2 * step < rows) step *= 2;
  for (; step > 0; step /= 2) {
    __syncthreads();
    if (r < step && r + step < rows) {
#pragma unroll
      for (int s = 0; s < N; ++s) all[s][threadIdx.x] += all[s][threadIdx.x + step * w];
    }
  }
  __syncthreads();
#pragma unroll
  for (int s = 0; s < N; ++s) sums[s] = all[s][threadIdx.x];
}

// Where the N sums of each vector go: result[s][index of the lane].
template <int N, class T>
struct MultiSums {
  double* parts;
  unsigned* arrived;
  T* result[N];
};

// Body: begin(lane) once in each thread, then add(i, lane, sums). active(lane): whether the vector runs; index(lane):
// where its results belong.
template <int N, class T, class Body>
__global__ void __launch_bounds__(multi_threads)
    multi_reduce(std::int64_t n, int w, Body body, MultiSums<N, T> out, const int* stop) {
  if (stopped(stop)) return;
  const int rows = multi_threads / w, lane = static_cast<int>(threadIdx.x) % w,
            r = static_cast<int>(threadIdx.x) / w;
  const bool runs = r < rows && body.active(lane);
  T sums[N] = {};
  if (runs) {
    body.begin(lane);
    for (std::int64_t i = std::int64_t{blockIdx.x} * rows + r; i < n; i += std::int64_t{gridDim.x} * rows)
      body.add(i, lane, sums);
  }
  sum_lane<N>(w, rows, sums);
  T* const parts = reinterpret_cast<T*>(out.parts);
  const int blocks = static_cast<int>(gridDim.x);
  if (r == 0) {
#pragma unroll
    for (int s = 0; s < N; ++s) parts[(s * blocks + static_cast<int>(blockIdx.x)) * w + lane] = sums[s];
  }
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = arrive(out.arrived) == gridDim.x - 1;
  __syncthreads();
  if (!last) return;
#pragma unroll
  for (int s = 0; s < N; ++s) {
    sums[s] = 0;
    if (r < rows)
      for (int b = r; b < blocks; b += rows) sums[s] += __ldcg(parts + (s * blocks + b) * w + lane);
  }
  sum_lane<N>(w, rows, sums);
  if (r == 0 && runs) {
#pragma unroll
    for (int s = 0; s < N; ++s)
      if (out.result[s]) out.result[s][body.index(lane)] = sums[s];
  }
  if (threadIdx.x == 0) *out.arrived = 0;
}

template <int N, class T, class Body>
void reduce_to(const Context& context, std::int64_t n, std::int64_t w, const Body& body,
               const MultiSums<N, T>& out) {
  const DeviceState& state = context.device_state();
  // The workspace holds that many sums.
  const std::int64_t most = std::int64_t{DeviceState::max_blocks} * DeviceState::max_sums / (N * w);
  const std::int64_t blocks = std::min(blocks_of_rows(state, n, static_cast<int>(w)), most);
  launch(state, multi_reduce<N, T, Body>, blocks, multi_threads, n, static_cast<int>(w), body, out,
         state.stop);
}
template <int N, class T, class Body>
void reduce_vectors(const Context& context, std::int64_t n, std::int64_t w, const Body& body, T* first,
                    T* second = nullptr) {
  const DeviceState& state = context.device_state();
  MultiSums<N, T> out{state.partials, state.arrived, {}};
  out.result[0] = first;
  if constexpr (N > 1) out.result[1] = second;
  reduce_to<N>(context, n, w, body, out);
}

inline void check_width(std::int64_t w) {
  if (w > multi_threads)
    throw BadArgument(std::to_string(w) + " vectors in one operation; a GPU takes up to " +
                      std::to_string(multi_threads) + ", so give them in parts");
}

template <class T>
struct ResidualBody {
  Place<const T> b;
  T* r;
  std::int64_t w;
  Pairs pairs;
  __device__ bool active(int) const { return true; }
  __device__ int index(int lane) const { return pairs.at[lane].to; }
  __device__ void begin(int) {}
  __device__ void add(std::int64_t i, int lane, T (&sums)[1]) const {
    T& where = r[i * w + pairs.at[lane].to];
    const T ri = b.at(i, pairs.at[lane].from) - where;
    where = ri;
    sums[0] += ri * ri;
  }
};

template <class T>
struct RunningBody {
  const T* running;
  int w;
  __device__ bool active(int lane) const { return running[lane] != T(0); }
  __device__ int index(int lane) const { return lane; }
};

template <class T>
struct DotBody : RunningBody<T> {
  const T *x, *y;
  __device__ void begin(int) {}
  __device__ void add(std::int64_t i, int lane, T (&sums)[1]) const {
    const std::int64_t at = i * this->w + lane;
    sums[0] += x[at] * y[at];
  }
};

template <class T>
struct DotPairBody : DotBody<T> {
  __device__ void add(std::int64_t i, int lane, T (&sums)[2]) const {
    const std::int64_t at = i * this->w + lane;
    const T xi = this->x[at];
    sums[0] += xi * this->y[at], sums[1] += xi * xi;
  }
};

// Coefficient::value() of a lane.
template <class T>
__device__ inline T value(const Coefficient<T>& c, int lane) {
  const T top = c.numerator ? c.numerator[lane] : T(1), bottom = c.denominator ? c.denominator[lane] : T(1);
  if (c.demand == Demand::positive && !(bottom > T(0))) return T(0);
  if (c.demand == Demand::nonzero && (bottom == T(0) || bottom != bottom)) return T(0);
  return c.factor * top / bottom;
}

// One thread for each lane. The factors may read what the product overwrites.
template <class T>
__global__ void __launch_bounds__(multi_threads)
    scalar_product_kernel(int w, Coefficient<T> a, Coefficient<T> b, const T* running, T* result,
                          const int* stop) {
  if (stopped(stop)) return;
  const int lane = static_cast<int>(threadIdx.x);
  if (lane < w && running[lane] != T(0)) result[lane] = value(a, lane) * value(b, lane);
}

// x or y is null if it is not read; `out` is y otherwise.
template <class T>
struct AxpbyBody : RunningBody<T> {
  Coefficient<T> a, b;
  const T *x, *y;
  T *out, av, bv;
  __device__ void begin(int lane) { av = value(a, lane), bv = value(b, lane); }
  __device__ T update(std::int64_t i, int lane) const {
    const std::int64_t at = i * this->w + lane;
    T yi = y ? bv * y[at] : T(0);
    if (x) yi = y ? yi + av * x[at] : av * x[at];
    out[at] = yi;
    return yi;
  }
  __device__ void add(std::int64_t i, int lane, T (&sums)[1]) const {
    const T yi = update(i, lane);
    sums[0] += yi * yi;
  }
};

template <class T>
__global__ void __launch_bounds__(multi_threads)
    axpby_kernel(std::int64_t n, AxpbyBody<T> body, const int* stop) {
  if (stopped(stop)) return;
  const int rows = multi_threads / body.w, lane = static_cast<int>(threadIdx.x) % body.w,
            r = static_cast<int>(threadIdx.x) / body.w;
  if (r >= rows || !body.active(lane)) return;
  body.begin(lane);
  for (std::int64_t i = std::int64_t{blockIdx.x} * rows + r; i < n; i += std::int64_t{gridDim.x} * rows)
    body.update(i, lane);
}

template <class T>
struct CgResidualBody : RunningBody<T> {
  Coefficient<T> a;
  const T *q, *d;
  T *r, av;
  __device__ void begin(int lane) { av = value(a, lane); }
  __device__ T update(std::int64_t i, int lane) const {
    const std::int64_t at = i * this->w + lane;
    const T ri = r[at] - av * q[at];
    r[at] = ri;
    return ri * ri;
  }
  __device__ void add(std::int64_t i, int lane, T (&sums)[1]) const { sums[0] += update(i, lane); }
  __device__ void add(std::int64_t i, int lane, T (&sums)[2]) const {
    const T rr = update(i, lane);
    sums[0] += rr, sums[1] += d ? d[i] * rr : rr;
  }
};

template <class T>
struct BiCgStabHalfBody : RunningBody<T> {
  Coefficient<T> a;
  const T *v, *d;
  T *r, *z, av;
  __device__ void begin(int lane) { av = value(a, lane); }
  __device__ void add(std::int64_t i, int lane, T (&sums)[1]) const {
    const std::int64_t at = i * this->w + lane;
    const T ri = r[at] + av * v[at];
    r[at] = ri;
    if (d) z[at] = d[i] * ri;
    sums[0] += ri * ri;
  }
};

template <class T>
struct BiCgStabUpdateBody : RunningBody<T> {
  Coefficient<T> a, o;
  const T *p, *s, *t, *r0;
  T *x, *r, av, ov;
  __device__ void begin(int lane) { av = value(a, lane), ov = value(o, lane); }
  __device__ void add(std::int64_t i, int lane, T (&sums)[2]) const {
    const std::int64_t at = i * this->w + lane;
    x[at] += av * p[at] + ov * s[at];
    const T ri = r[at] - ov * t[at];
    r[at] = ri;
    sums[0] += ri * ri, sums[1] += r0[at] * ri;
  }
};

template <class T>
__global__ void __launch_bounds__(multi_threads)
    bicgstab_direction_kernel(std::int64_t n, int w, const T* r, Coefficient<T> b, Coefficient<T> o,
                              const T* v, const T* d, T* p, T* z, const T* running, const int* stop) {
  if (stopped(stop)) return;
  const int rows = multi_threads / w, lane = static_cast<int>(threadIdx.x) % w,
            first = static_cast<int>(threadIdx.x) / w;
  if (first >= rows || running[lane] == T(0)) return;
  const T bv = value(b, lane), ov = value(o, lane);
  for (std::int64_t i = std::int64_t{blockIdx.x} * rows + first; i < n; i += std::int64_t{gridDim.x} * rows) {
    const std::int64_t at = i * w + lane;
    const T pi = r[at] + bv * (p[at] - ov * v[at]);
    p[at] = pi;
    if (d) z[at] = d[i] * pi;
  }
}

// N groups of vectors that begin at v.
template <int N, class T>
struct BlockDotBody : RunningBody<T> {
  const T *v, *x;
  std::int64_t stride;
  __device__ void begin(int) {}
  __device__ void add(std::int64_t i, int lane, T (&sums)[N]) const {
    const std::int64_t at = i * this->w + lane;
    const T xi = x[at];
#pragma unroll
    for (int k = 0; k < N; ++k) sums[k] += v[k * stride + at] * xi;
  }
};

// `count` groups of vectors that begin at v.
template <class T>
struct BlockAxpyBody : RunningBody<T> {
  const T *v, *h;
  T* x;
  std::int64_t stride;
  int count;
  T factor;
  __device__ void begin(int) {}
  __device__ void add(std::int64_t i, int lane, T (&sums)[1]) const {
    const std::int64_t at = i * this->w + lane;
    const T* vk = v + at;
    const T* hk = h + lane;
    T sum = 0;
#pragma unroll 4
    for (int k = 0; k < count; ++k, vk += stride, hk += this->w) sum += *hk * *vk;
    const T xi = x[at] + factor * sum;
    x[at] = xi;
    sums[0] += xi * xi;
  }
};

template <class T>
__global__ void __launch_bounds__(multi_threads)
    multi_divide_kernel(std::int64_t n, int w, const T* s, T* v, const T* running, const int* stop) {
  if (stopped(stop)) return;
  const int rows = multi_threads / w, lane = static_cast<int>(threadIdx.x) % w,
            r = static_cast<int>(threadIdx.x) / w;
  if (r >= rows) return;
  const bool keep = running[lane] != T(0) && s[lane] != T(0);
  const T a = keep ? 1 / s[lane] : T(0);
  for (std::int64_t i = std::int64_t{blockIdx.x} * rows + r; i < n; i += std::int64_t{gridDim.x} * rows)
    v[i * w + lane] = keep ? a * v[i * w + lane] : T(0);
}

// y := D x; D is the identity if d is null.
template <class T>
__global__ void __launch_bounds__(multi_threads)
    multi_multiply_kernel(std::int64_t n, int w, const T* d, const T* x, T* y, const T* running,
                          const int* stop) {
  if (stopped(stop)) return;
  const int rows = multi_threads / w, lane = static_cast<int>(threadIdx.x) % w,
            r = static_cast<int>(threadIdx.x) / w;
  if (r >= rows || running[lane] == T(0)) return;
  for (std::int64_t i = std::int64_t{blockIdx.x} * rows + r; i < n; i += std::int64_t{gridDim.x} * rows) {
    const std::int64_t at = i * w + lane;
    y[at] = d ? d[i] * x[at] : x[at];
  }
}

template <class T>
__global__ void __launch_bounds__(multi_threads)
    cg_direction_kernel(std::int64_t n, int w, Coefficient<T> a, const T* d, const T* z, Coefficient<T> b,
                        T* x, T* p, const T* running, const int* stop) {
  if (stopped(stop)) return;
  const int rows = multi_threads / w, lane = static_cast<int>(threadIdx.x) % w,
            r = static_cast<int>(threadIdx.x) / w;
  if (r >= rows || running[lane] == T(0)) return;
  const T av = value(a, lane), bv = value(b, lane);
  for (std::int64_t i = std::int64_t{blockIdx.x} * rows + r; i < n; i += std::int64_t{gridDim.x} * rows) {
    const std::int64_t at = i * w + lane;
    const T pi = p[at], zi = d ? d[i] * z[at] : z[at];
    x[at] += av * pi;
    p[at] = zi + bv * pi;
  }
}

}  // namespace protean::device
