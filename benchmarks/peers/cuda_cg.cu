#include "benchmarks/peers/cuda_cg.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/device/copy.hpp"
#include "core/device/state.hpp"

namespace protean::bench {
namespace {

__global__ void hadamard(std::int64_t n, const double* d, const double* r, double* z) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) z[i] = d[i] * r[i];
}
// alpha = rz / pq, minus_alpha
__global__ void make_alpha(double* s) { s[2] = s[0] / s[1], s[3] = -s[2]; }
// beta = rz_new / rz; rz = rz_new
__global__ void make_beta(double* s) { s[5] = s[4] / s[0], s[0] = s[4]; }

class Timer {
 public:
  explicit Timer(cudaStream_t stream) : stream_(stream) {
    PROTEAN_CUDA_CHECK(cudaEventCreate(&begin_));
    PROTEAN_CUDA_CHECK(cudaEventCreate(&end_));
  }
  ~Timer() { (void)cudaEventDestroy(begin_), (void)cudaEventDestroy(end_); }
  template <class Work>
  double microseconds(Work&& work) {
    PROTEAN_CUDA_CHECK(cudaEventRecord(begin_, stream_));
    work();
    PROTEAN_CUDA_CHECK(cudaEventRecord(end_, stream_));
    PROTEAN_CUDA_CHECK(cudaEventSynchronize(end_));
    float ms = 0;
    PROTEAN_CUDA_CHECK(cudaEventElapsedTime(&ms, begin_, end_));
    return 1000.0 * ms;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

}  // namespace

CudaCgTimes cuda_cg(const Context& context, const CsrMatrix<double>& A, const double* d, int iterations,
                    int repeats) {
  const DeviceState& state = context.device_state();
  const cudaStream_t stream = state.stream;
  const std::int64_t n = A.rows();
  double* memory = nullptr;
  PROTEAN_CUDA_CHECK(cudaMalloc(&memory, sizeof(double) * (5 * n + 8)));
  double *x = memory, *r = x + n, *p = r + n, *q = p + n, *z = q + n;
  double *rz = z + n, *pq = rz + 1, *alpha = rz + 2, *minus_alpha = rz + 3, *rz_new = rz + 4, *beta = rz + 5,
         *rr = rz + 6, *one = rz + 7;
  const double one_value = 1, zero_value = 0;
  device::copy_in(context, one, &one_value, sizeof(double));

  cusparseSpMatDescr_t matrix;
  cusparseDnVecDescr_t vp, vq;
  PROTEAN_CUDA_CHECK(
      cusparseCreateCsr(&matrix, n, A.cols(), A.nonzeros(), const_cast<std::int32_t*>(A.pattern.row_ptr.p32),
                        const_cast<std::int32_t*>(A.pattern.col), const_cast<double*>(A.values),
                        CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F));
  PROTEAN_CUDA_CHECK(cusparseCreateDnVec(&vp, n, p, CUDA_R_64F));
  PROTEAN_CUDA_CHECK(cusparseCreateDnVec(&vq, n, q, CUDA_R_64F));
  std::size_t bytes = 0;
  void* buffer = nullptr;
  PROTEAN_CUDA_CHECK(cusparseSpMV_bufferSize(state.cusparse, CUSPARSE_OPERATION_NON_TRANSPOSE, &one_value,
                                             matrix, vp, &zero_value, vq, CUDA_R_64F, CUSPARSE_SPMV_CSR_ALG1,
                                             &bytes));
  PROTEAN_CUDA_CHECK(cudaMalloc(&buffer, std::max<std::size_t>(bytes, 16)));
  PROTEAN_CUDA_CHECK(cusparseSpMV_preprocess(state.cusparse, CUSPARSE_OPERATION_NON_TRANSPOSE, &one_value,
                                             matrix, vp, &zero_value, vq, CUDA_R_64F, CUSPARSE_SPMV_CSR_ALG1,
                                             buffer));

  const int size = static_cast<int>(n);
  const auto blocks = static_cast<unsigned>((n + 255) / 256);
  const auto begin = [&] {
    std::vector<double> ones(static_cast<std::size_t>(n), 1.0);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(x, 0, sizeof(double) * n, stream));
    device::copy_in(context, r, ones.data(), sizeof(double) * n);
    hadamard<<<blocks, 256, 0, stream>>>(n, d, r, p);
    PROTEAN_CUDA_CHECK(cublasDdot(state.cublas, size, r, 1, p, 1, rz));
  };
  const auto iterate = [&] {
    PROTEAN_CUDA_CHECK(cusparseSpMV(state.cusparse, CUSPARSE_OPERATION_NON_TRANSPOSE, &one_value, matrix, vp,
                                    &zero_value, vq, CUDA_R_64F, CUSPARSE_SPMV_CSR_ALG1, buffer));
    PROTEAN_CUDA_CHECK(cublasDdot(state.cublas, size, p, 1, q, 1, pq));
    make_alpha<<<1, 1, 0, stream>>>(rz);
    PROTEAN_CUDA_CHECK(cublasDaxpy(state.cublas, size, alpha, p, 1, x, 1));
    PROTEAN_CUDA_CHECK(cublasDaxpy(state.cublas, size, minus_alpha, q, 1, r, 1));
    PROTEAN_CUDA_CHECK(cublasDdot(state.cublas, size, r, 1, r, 1, rr));
    hadamard<<<blocks, 256, 0, stream>>>(n, d, r, z);
    PROTEAN_CUDA_CHECK(cublasDdot(state.cublas, size, r, 1, z, 1, rz_new));
    make_beta<<<1, 1, 0, stream>>>(rz);
    PROTEAN_CUDA_CHECK(cublasDscal(state.cublas, size, beta, p, 1));
    PROTEAN_CUDA_CHECK(cublasDaxpy(state.cublas, size, one, z, 1, p, 1));
  };

  constexpr int in_graph = 10;
  cudaGraph_t graph;
  cudaGraphExec_t recorded;
  begin();
  iterate();  // loads the kernels
  PROTEAN_CUDA_CHECK(cudaStreamSynchronize(stream));
  PROTEAN_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int k = 0; k < in_graph; ++k) iterate();
  PROTEAN_CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
  PROTEAN_CUDA_CHECK(cudaGraphInstantiate(&recorded, graph, 0));

  Timer timer(stream);
  std::vector<double> graphs, streams;
  CudaCgTimes times;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    begin();
    graphs.push_back(timer.microseconds([&] {
      for (int k = 0; k < iterations; k += in_graph) PROTEAN_CUDA_CHECK(cudaGraphLaunch(recorded, stream));
    }) / iterations);
    double squared = 0;
    device::copy_out(context, &squared, rr, sizeof squared);
    times.residual = std::sqrt(squared / static_cast<double>(n));
    begin();
    streams.push_back(timer.microseconds([&] {
      for (int k = 0; k < iterations; ++k) iterate();
    }) / iterations);
  }
  times.graph_us = median(graphs), times.stream_us = median(streams);

  PROTEAN_CUDA_CHECK(cudaGraphExecDestroy(recorded));
  PROTEAN_CUDA_CHECK(cudaGraphDestroy(graph));
  PROTEAN_CUDA_CHECK(cusparseDestroyDnVec(vp));
  PROTEAN_CUDA_CHECK(cusparseDestroyDnVec(vq));
  PROTEAN_CUDA_CHECK(cusparseDestroySpMat(matrix));
  PROTEAN_CUDA_CHECK(cudaFree(buffer));
  PROTEAN_CUDA_CHECK(cudaFree(memory));
  return times;
}

double copy_bandwidth(const Context& context) {
  const cudaStream_t stream = context.device_state().stream;
  constexpr std::size_t bytes = std::size_t{1} << 30;
  char* memory = nullptr;
  PROTEAN_CUDA_CHECK(cudaMalloc(&memory, 2 * bytes));
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(memory, 1, 2 * bytes, stream));
  Timer timer(stream);
  std::vector<double> samples;
  for (int k = 0; k < 12; ++k)
    samples.push_back(timer.microseconds([&] {
      PROTEAN_CUDA_CHECK(cudaMemcpyAsync(memory + bytes, memory, bytes, cudaMemcpyDeviceToDevice, stream));
    }));
  PROTEAN_CUDA_CHECK(cudaFree(memory));
  return 2.0 * static_cast<double>(bytes) / (median(samples) * 1e-6);
}

}  // namespace protean::bench
