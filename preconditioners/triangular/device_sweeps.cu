// The kernels of device_sweeps.hpp, and cuSPARSE's triangular solves.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/blas1.hpp"
#include "core/device/kernel_tools.cuh"
#include "core/error.hpp"
#include "core/transfer.hpp"
#include "preconditioners/common/lanes.cuh"
#include "preconditioners/triangular/device_sweeps.hpp"

namespace protean::device {
namespace {

using detail::TriangleView;

// sum_j t_ij x_j of the row at place k by `lanes` neighbouring threads, each with a part; no row: 0.
template <int lanes, class T, class Load>
__device__ inline T row_sum(const TriangleView<T>& t, std::int64_t k, bool row, Load load) {
  T sum = 0;
  if (row) {
    const std::int64_t end = t.ptr[k + 1];
    for (std::int64_t p = t.ptr[k] + threadIdx.x % lanes; p < end; p += lanes)
      sum += t.values[p] * load(t.col[p]);
  }
  return sum_lanes<lanes>(sum);
}

template <int lanes, class T>
__global__ void __launch_bounds__(block_size)
    stage_kernel(TriangleView<T> t, std::int64_t begin, std::int64_t end, const T* rhs, const T* d, T* z,
                 const int* stop) {
  if (stopped(stop)) return;
  const std::int64_t k = begin + (std::int64_t{blockIdx.x} * block_size + threadIdx.x) / lanes;
  const bool row = k < end, first = row && threadIdx.x % lanes == 0;
  // Loaded before the sum, which waits for other loads.
  const std::int32_t i = first ? t.row[k] : 0;
  const T right = first ? (d ? d[i] * rhs[i] : rhs[i]) : T(0);
  const T sum = row_sum<lanes>(t, k, row, [z](std::int32_t j) { return z[j]; });
  if (first) z[i] = right - sum;
}

template <int lanes, class T>
__global__ void __launch_bounds__(block_size)
    pass_kernel(TriangleView<T> t, const T* rhs, const T* from, const T* scale, T* to, const int* stop) {
  if (stopped(stop)) return;
  const std::int64_t i = (std::int64_t{blockIdx.x} * block_size + threadIdx.x) / lanes;
  const bool row = i < t.rows, first = row && threadIdx.x % lanes == 0;
  const T right = first ? rhs[i] : T(0), factor = first && scale ? scale[i] : T(1);
  const T sum = row_sum<lanes>(t, i, row, [from](std::int32_t j) { return from[j]; });
  if (first) to[i] = factor * (right - sum);
}

// A result that is not there yet is a NaN that no result is: all bits 1. Results travel through memory by themselves: a
// row reads a result until it is not the mark. Reads and writes are whole and go to the memory that all processors
// share (relaxed, scope gpu). No other data is passed on, so no fence is needed.
template <class T>
struct Bits;
template <>
struct Bits<double> {
  using Word = unsigned long long;
  static __device__ Word load(const double* where) {
    Word word;
    asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(word) : "l"(where));
    return word;
  }
  static __device__ void store(double* where, Word word) {
    asm volatile("st.relaxed.gpu.u64 [%0], %1;" ::"l"(where), "l"(word) : "memory");
  }
  static __device__ double value(Word word) { return __longlong_as_double(static_cast<long long>(word)); }
  static __device__ Word word(double value) {
    return static_cast<Word>(__double_as_longlong(value != value ? nan("") : value));
  }
};
template <>
struct Bits<float> {
  using Word = unsigned;
  static __device__ Word load(const float* where) {
    Word word;
    asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(word) : "l"(where));
    return word;
  }
  static __device__ void store(float* where, Word word) {
    asm volatile("st.relaxed.gpu.u32 [%0], %1;" ::"l"(where), "r"(word) : "memory");
  }
  static __device__ float value(Word word) { return __uint_as_float(word); }
  static __device__ Word word(float value) { return __float_as_uint(value != value ? nanf("") : value); }
};
template <class T>
constexpr typename Bits<T>::Word no_result = ~typename Bits<T>::Word{0};

template <class T>
__device__ inline T wait_for(const T* where) {
  typename Bits<T>::Word word = Bits<T>::load(where);
  while (word == no_result<T>) word = Bits<T>::load(where);
  return Bits<T>::value(word);
}

// One triangle. Each block takes a ticket, and the tasks of that number. Blocks with smaller tickets are already on the
// device, and rows wait only for rows with smaller or equal tickets, so some row can always go on. out is marked
// before; used, the vector that is no longer needed, is marked for the next kernel:
//   forward   out = w, rhs = r, used = z (its marks are for the backward kernel)
//   backward  out = z, rhs = w, used = w (for the next forward kernel); row i reads w_i only
// run: the backward kernel does what the forward one did, so that no vector stays half marked.
template <int lanes, bool backward, class T>
__global__ void __launch_bounds__(block_size)
    flow_kernel(TriangleView<T> t, FlowTasks tasks, const T* rhs, const T* d, T* out, T* used,
                FlowState* state, const int* stop) {
  const bool ended = stopped(stop);
  if constexpr (backward) {
    if (state->run == 0) return;
  }
  __shared__ unsigned ticket;
  if (threadIdx.x == 0) {
    if (blockIdx.x == 0) {
      if constexpr (backward)
        state->forward = 0;
      else
        state->backward = 0, state->run = !ended;
    }
    if (backward || !ended) ticket = atomicAdd(backward ? &state->backward : &state->forward, 1u);
  }
  if (!backward && ended) return;
  __syncthreads();
  const std::int64_t task = std::int64_t{ticket} * (block_size / 32) + threadIdx.x / 32;
  if (task >= tasks.count) return;
  const std::int64_t k = tasks.first[task] + threadIdx.x % 32 / lanes;
  const bool row = k < tasks.first[task + 1], first = row && threadIdx.x % lanes == 0;
  // Everything that does not depend on other rows is done before the row waits, because the time from one result to the
  // next one determines the time of the whole solve.
  const std::int32_t i = first ? t.row[k] : 0;
  const T right = first ? (backward ? d[i] * rhs[i] : rhs[i]) : T(0);
  if (first) Bits<T>::store(used + i, no_result<T>);
  const T sum = row_sum<lanes>(t, k, row, [out](std::int32_t j) { return wait_for(out + j); });
  if (first) Bits<T>::store(out + i, Bits<T>::word(right - sum));
}

}  // namespace

template <class T>
void sweep_stage(const Context& context, const TriangleView<T>& t, std::int64_t begin, std::int64_t end,
                 const T* rhs, const T* d, T* z) {
  if (begin == end) return;
  const DeviceState& state = context.device_state();
  with_lanes(t.lanes, [&](auto lanes) {
    launch(state, stage_kernel<lanes(), T>, blocks_of_rows(end - begin, lanes()), block_size, t, begin, end,
           rhs, d, z, state.stop);
  });
}

template <class T>
void sweep_pass(const Context& context, const TriangleView<T>& t, const T* rhs, const T* from, const T* scale,
                T* to) {
  if (t.rows == 0) return;
  const DeviceState& state = context.device_state();
  with_lanes(t.lanes, [&](auto lanes) {
    launch(state, pass_kernel<lanes(), T>, blocks_of_rows(t.rows, lanes()), block_size, t, rhs, from, scale,
           to, state.stop);
  });
}

template <class T>
void mark(const Context& context, T* values, std::int64_t n) {
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(values, 0xff, static_cast<std::size_t>(n) * sizeof(T), stream(context)));
}

template <class T>
void flow(const Context& context, const TriangleView<T>& lower, const FlowTasks& lower_tasks,
          const TriangleView<T>& upper, const FlowTasks& upper_tasks, const T* r, const T* d, T* w, T* z,
          FlowState* state) {
  if (lower.rows == 0) return;
  const DeviceState& device = context.device_state();
  const auto blocks = [](const FlowTasks& tasks) {
    return (tasks.count + block_size / 32 - 1) / (block_size / 32);
  };
  const T* const none = nullptr;
  with_lanes(lower.lanes, [&](auto lanes) {
    launch(device, flow_kernel<lanes(), false, T>, blocks(lower_tasks), block_size, lower, lower_tasks, r,
           none, w, z, state, device.stop);
  });
  with_lanes(upper.lanes, [&](auto lanes) {
    launch(device, flow_kernel<lanes(), true, T>, blocks(upper_tasks), block_size, upper, upper_tasks,
           static_cast<const T*>(w), d, z, w, state, device.stop);
  });
}

namespace {

template <class T>
constexpr cudaDataType value_type = sizeof(T) == 8 ? CUDA_R_64F : CUDA_R_32F;

// I + L or I + U as cuSPARSE wants it, with its ones stored: some versions refuse a triangle without entries. It owns
// the arrays, the descriptors and the workspace. Analysed once; new values go the way of cusparseSpSV_updateMatrix(),
// since the analysis may keep copies of values.
template <class T>
class CusparseTriangle {
 public:
  CusparseTriangle(const ContextPtr& context, const detail::SweepPattern& pattern, bool upper)
      : context_(context), upper_(upper), rows_(pattern.n) {
    const ContextPtr& host = pattern.lower_ptr.context();
    std::int64_t entries = rows_;
    for (std::int64_t i = 0; i < rows_; ++i) entries += row_of(pattern, i).size();
    if (entries > std::numeric_limits<std::int32_t>::max() ||
        rows_ >= std::numeric_limits<std::int32_t>::max())
      throw NotAvailable("solve: cusparse takes at most 2^31 - 1 entries of a triangle, and this one has " +
                         std::to_string(entries) + "; take levels or sweeps");
    Buffer<std::int32_t> ptr(host, rows_ + 1), col(host, entries);
    std::int32_t* next = col.data();
    for (std::int64_t i = 0; i < rows_; ++i) {
      ptr[i] = static_cast<std::int32_t>(next - col.data());
      if (upper_) *next++ = static_cast<std::int32_t>(i);
      next = detail::copy_row(pattern.col.data(), row_of(pattern, i), upper_, next);
      if (!upper_) *next++ = static_cast<std::int32_t>(i);
    }
    ptr[rows_] = static_cast<std::int32_t>(next - col.data());
    ptr_ = Buffer<std::int32_t>(context, rows_ + 1), col_ = Buffer<std::int32_t>(context, entries);
    values_ = Buffer<T>(context, entries);
    send(ptr_, ptr.data()), send(col_, col.data());
  }
  CusparseTriangle(const CusparseTriangle&) = delete;
  CusparseTriangle& operator=(const CusparseTriangle&) = delete;
  ~CusparseTriangle() {
    if (solve_) (void)cusparseSpSV_destroyDescr(solve_);
    if (x_) (void)cusparseDestroyDnVec(x_);
    if (y_) (void)cusparseDestroyDnVec(y_);
    if (matrix_) (void)cusparseDestroySpMat(matrix_);
  }

  // any: n values at any address, for descriptors before the first solve.
  void set_values(const detail::SweepPattern& pattern, const detail::SweepValues<T>& values, T* any) {
    Buffer<T> ordered(pattern.lower_ptr.context(), values_.size());
    T* next = ordered.data();
    for (std::int64_t i = 0; i < rows_; ++i) {
      if (upper_) *next++ = 1;
      next = detail::copy_row(values.entries.data(), row_of(pattern, i), upper_, next);
      if (!upper_) *next++ = 1;
    }
    send(values_, ordered.data());
    if (analysed_)
      check(cusparseSpSV_updateMatrix(cusparse(*context_), solve_, values_.data(),
                                      CUSPARSE_SPSV_UPDATE_GENERAL),
            "cusparseSpSV_updateMatrix");
    else
      analyse(any);
  }

  // y := (I + L)^-1 x or (I + U)^-1 x
  void solve(const T* x, T* y) const {
    const T one = 1;
    check(cusparseDnVecSetValues(x_, const_cast<T*>(x)), "cusparseDnVecSetValues");
    check(cusparseDnVecSetValues(y_, y), "cusparseDnVecSetValues");
    check(cusparseSpSV_solve(cusparse(*context_), CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix_, x_, y_,
                             value_type<T>, CUSPARSE_SPSV_ALG_DEFAULT, solve_),
          "cusparseSpSV_solve");
  }

  std::size_t bytes() const noexcept {
    return ptr_.bytes() + col_.bytes() + values_.bytes() + workspace_.bytes();
  }

 private:
  Range row_of(const detail::SweepPattern& pattern, std::int64_t i) const {
    return upper_ ? pattern.upper(i) : pattern.lower(i);
  }
  template <class U>
  void send(Buffer<U>& to, const U* from) const {
    detail::copy_bytes(*context_, to.data(), Space::device, from, Space::host, to.bytes());
  }

  void analyse(T* any) {
    const cusparseHandle_t handle = cusparse(*context_);
    const T one = 1;
    if (!matrix_) {
      check(
          cusparseCreateCsr(&matrix_, rows_, rows_, values_.size(), ptr_.data(), col_.data(), values_.data(),
                            CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, value_type<T>),
          "cusparseCreateCsr");
      cusparseFillMode_t fill = upper_ ? CUSPARSE_FILL_MODE_UPPER : CUSPARSE_FILL_MODE_LOWER;
      cusparseDiagType_t diagonal = CUSPARSE_DIAG_TYPE_UNIT;
      check(cusparseSpMatSetAttribute(matrix_, CUSPARSE_SPMAT_FILL_MODE, &fill, sizeof fill),
            "cusparseSpMatSetAttribute");
      check(cusparseSpMatSetAttribute(matrix_, CUSPARSE_SPMAT_DIAG_TYPE, &diagonal, sizeof diagonal),
            "cusparseSpMatSetAttribute");
      check(cusparseCreateDnVec(&x_, rows_, any, value_type<T>), "cusparseCreateDnVec");
      check(cusparseCreateDnVec(&y_, rows_, any, value_type<T>), "cusparseCreateDnVec");
      check(cusparseSpSV_createDescr(&solve_), "cusparseSpSV_createDescr");
    }
    std::size_t bytes = 0;
    check(cusparseSpSV_bufferSize(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix_, x_, y_,
                                  value_type<T>, CUSPARSE_SPSV_ALG_DEFAULT, solve_, &bytes),
          "cusparseSpSV_bufferSize");
    workspace_ = Buffer<char>(context_, static_cast<std::int64_t>(bytes));
    check(cusparseSpSV_analysis(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix_, x_, y_,
                                value_type<T>, CUSPARSE_SPSV_ALG_DEFAULT, solve_, workspace_.data()),
          "cusparseSpSV_analysis");
    analysed_ = true;
  }

  ContextPtr context_;
  bool upper_, analysed_ = false;
  std::int64_t rows_;
  Buffer<std::int32_t> ptr_, col_;
  Buffer<T> values_;
  Buffer<char> workspace_;
  cusparseSpMatDescr_t matrix_ = nullptr;
  cusparseDnVecDescr_t x_ = nullptr, y_ = nullptr;
  cusparseSpSVDescr_t solve_ = nullptr;
};

// An executable graph of some solves; null if they could not be recorded.
class RecordedSolves {
 public:
  template <class Work>
  RecordedSolves(const Context& context, Work work) {
    DeviceState& state = context.device_state();
    cudaGraph_t graph = nullptr;
    {
      const RecordingScope scope(state);
      PROTEAN_CUDA_CHECK(cudaStreamBeginCapture(state.stream, cudaStreamCaptureModeThreadLocal));
      bool queued = true;
      try {
        work();
      } catch (const DeviceError&) { queued = false; } catch (...) {
        (void)cudaStreamEndCapture(state.stream, &graph);
        if (graph) (void)cudaGraphDestroy(graph);
        (void)cudaGetLastError();
        throw;
      }
      const bool recorded = cudaStreamEndCapture(state.stream, &graph) == cudaSuccess && queued;
      if (!recorded && graph) (void)cudaGraphDestroy(std::exchange(graph, nullptr));
    }
    if (graph) {
      if (cudaGraphInstantiate(&graph_, graph, 0) != cudaSuccess) graph_ = nullptr;
      (void)cudaGraphDestroy(graph);
    }
    (void)cudaGetLastError();  // of a recording that was refused
  }
  RecordedSolves(const RecordedSolves&) = delete;
  RecordedSolves& operator=(const RecordedSolves&) = delete;
  ~RecordedSolves() {
    if (graph_) (void)cudaGraphExecDestroy(graph_);
  }
  explicit operator bool() const noexcept { return graph_ != nullptr; }
  void launch(cudaStream_t stream) const { PROTEAN_CUDA_CHECK(cudaGraphLaunch(graph_, stream)); }

 private:
  cudaGraphExec_t graph_ = nullptr;
};

// w := (I + L)^-1 r, w := D w, z := (I + U)^-1 w. cuSPARSE does not read DeviceState::stop: after the end of a run w
// and z are overwritten, and since our product with D does heed it, z is then wrong.
template <class T>
class CusparseSweep final : public detail::DeviceSweep<T> {
 public:
  CusparseSweep(const ContextPtr& context, const detail::SweepPattern& pattern)
      : context_(context),
        lower_(context, pattern, false),
        upper_(context, pattern, true),
        d_(context, pattern.n),
        w_(context, pattern.n) {}

  void set_values(const detail::SweepPattern& pattern, const detail::SweepValues<T>& values) override {
    detail::copy_bytes(*context_, d_.data(), Space::device, values.d.data(), Space::host,
                       static_cast<std::size_t>(pattern.n) * sizeof(T));
    if (pattern.n == 0) return;
    lower_.set_values(pattern, values, w_.data()), upper_.set_values(pattern, values, w_.data());
    if (tried_) return;
    // Not every version of cuSPARSE lets its solve be recorded.
    tried_ = true;
    Vector<T> r(context_, pattern.n), z(context_, pattern.n);
    fill<T>(*context_, T(0), r), fill<T>(*context_, T(0), w_);
    solve(r, z);  // what a library loads at its first call is not recorded
    PROTEAN_CUDA_CHECK(cudaStreamSynchronize(stream(*context_)));
    recordable_ = static_cast<bool>(RecordedSolves(*context_, [&] { solve(r, z); }));
  }
  void solve(VectorView<const T> r, VectorView<T> z) const override {
    if (z.size == 0) return;
    T* const w = const_cast<T*>(w_.data());
    lower_.solve(r.data, w);
    const VectorView<T> view{w, z.size, Space::device};
    multiply<T>(*context_, d_, view, view);
    upper_.solve(w, z.data);
  }
  bool recordable() const noexcept override { return recordable_; }
  bool heeds_stop() const noexcept override { return false; }
  std::size_t bytes() const noexcept override {
    return lower_.bytes() + upper_.bytes() + static_cast<std::size_t>(d_.size() + w_.size()) * sizeof(T);
  }

 private:
  ContextPtr context_;
  CusparseTriangle<T> lower_, upper_;
  Vector<T> d_, w_;
  bool tried_ = false, recordable_ = false;
};

}  // namespace

template <class T>
std::unique_ptr<detail::DeviceSweep<T>> make_cusparse_sweep(const ContextPtr& device,
                                                            const detail::SweepPattern& pattern) {
  return std::make_unique<CusparseSweep<T>>(device, pattern);
}

template <class T>
double seconds_of(const ContextPtr& context, const detail::DeviceSweep<T>& sweep, std::int64_t n) {
  constexpr int solves = 4, runs = 3;
  struct Events {
    cudaEvent_t begin = nullptr, end = nullptr;
    ~Events() {
      if (begin) (void)cudaEventDestroy(begin);
      if (end) (void)cudaEventDestroy(end);
    }
  } events;
  PROTEAN_CUDA_CHECK(cudaEventCreate(&events.begin));
  PROTEAN_CUDA_CHECK(cudaEventCreate(&events.end));
  Vector<T> r(context, n), z(context, n);
  fill<T>(*context, T(1), r);
  const cudaStream_t on = stream(*context);
  const auto work = [&] {
    for (int k = 0; k < solves; ++k) sweep.solve(r, z);
  };
  work();
  PROTEAN_CUDA_CHECK(cudaStreamSynchronize(on));
  // As a solver runs them: recorded, if possible.
  const RecordedSolves graph(*context, [&] {
    if (sweep.recordable()) work();
  });
  float shortest = std::numeric_limits<float>::max();
  for (int k = 0; k <= runs; ++k) {
    PROTEAN_CUDA_CHECK(cudaEventRecord(events.begin, on));
    if (sweep.recordable() && graph)
      graph.launch(on);
    else
      work();
    PROTEAN_CUDA_CHECK(cudaEventRecord(events.end, on));
    PROTEAN_CUDA_CHECK(cudaEventSynchronize(events.end));
    float milliseconds = 0;
    PROTEAN_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, events.begin, events.end));
    if (k > 0) shortest = std::min(shortest, milliseconds);  // the first one moves the graph to the device
  }
  return shortest / 1e3 / solves;
}

#define PROTEAN_INSTANTIATE(T)                                                                               \
  template void sweep_stage<T>(const Context&, const TriangleView<T>&, std::int64_t, std::int64_t, const T*, \
                               const T*, T*);                                                                \
  template void sweep_pass<T>(const Context&, const TriangleView<T>&, const T*, const T*, const T*, T*);     \
  template void mark<T>(const Context&, T*, std::int64_t);                                                   \
  template void flow<T>(const Context&, const TriangleView<T>&, const FlowTasks&, const TriangleView<T>&,    \
                        const FlowTasks&, const T*, const T*, T*, T*, FlowState*);                           \
  template std::unique_ptr<detail::DeviceSweep<T>> make_cusparse_sweep<T>(const ContextPtr&,                 \
                                                                          const detail::SweepPattern&);      \
  template double seconds_of<T>(const ContextPtr&, const detail::DeviceSweep<T>&, std::int64_t);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::device
