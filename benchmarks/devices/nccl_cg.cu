// CG with Jacobi for the 7-point Laplacian of an n^3 grid as one writes it with NVIDIA's libraries: cuSPARSE's product,
// cuBLAS' vector operations, NCCL's exchange of the halo and sums, ten iterations in a graph for each GPU, a host
// thread for each. The peer of a solve over several devices.
//
//   nccl_cg SIZE...
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cusparse.h>
#include <nccl.h>

namespace {

using Size = std::int64_t;

#define CHECK(call, good)                                                                 \
  do {                                                                                    \
    const auto status = (call);                                                           \
    if (status != (good)) {                                                               \
      std::printf("%s:%d %s: %d\n", __FILE__, __LINE__, #call, static_cast<int>(status)); \
      std::exit(3);                                                                       \
    }                                                                                     \
  } while (0)
#define CUDA(call) CHECK(call, cudaSuccess)
#define BLAS(call) CHECK(call, CUBLAS_STATUS_SUCCESS)
#define SPARSE(call) CHECK(call, CUSPARSE_STATUS_SUCCESS)
#define NCCL(call) CHECK(call, ncclSuccess)

enum Scalar { Alpha, MinusAlpha, Beta, PQ, RZ, RZNext, One, Zero, Scalars };

__global__ void find_alpha(double* s) { s[Alpha] = s[RZ] / s[PQ], s[MinusAlpha] = -s[Alpha]; }
__global__ void find_beta(double* s) { s[Beta] = s[RZNext] / s[RZ], s[RZ] = s[RZNext]; }
__global__ void scale(Size m, double factor, const double* r, double* z) {
  for (Size i = Size{blockIdx.x} * blockDim.x + threadIdx.x; i < m; i += Size{gridDim.x} * blockDim.x)
    z[i] = factor * r[i];
}

// A slab of planes of the grid. p has the rows of the slab, then the plane below, then the plane above.
struct Part {
  int part = 0, parts = 1;
  Size n = 0, m = 0, ghosts = 0;
  cudaStream_t stream = nullptr;
  cublasHandle_t blas = nullptr;
  cusparseHandle_t sparse = nullptr;
  ncclComm_t all = nullptr;
  std::int32_t *row_ptr = nullptr, *col = nullptr;
  double *values = nullptr, *x = nullptr, *r = nullptr, *z = nullptr, *p = nullptr, *q = nullptr,
         *s = nullptr;
  cusparseSpMatDescr_t A = nullptr;
  cusparseDnVecDescr_t its_p = nullptr, its_q = nullptr;
  void* workspace = nullptr;

  bool below() const { return part > 0; }
  bool above() const { return part + 1 < parts; }

  template <class T>
  T* sent(const std::vector<T>& from) {
    T* to = nullptr;
    CUDA(cudaMalloc(reinterpret_cast<void**>(&to), std::max<std::size_t>(from.size(), 1) * sizeof(T)));
    CUDA(cudaMemcpy(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice));
    return to;
  }

  void make(int its_part, int of, Size grid, ncclComm_t communicator) {
    part = its_part, parts = of, n = grid, all = communicator;
    CUDA(cudaSetDevice(part));
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    BLAS(cublasCreate(&blas));
    BLAS(cublasSetStream(blas, stream));
    BLAS(cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_DEVICE));
    SPARSE(cusparseCreate(&sparse));
    SPARSE(cusparseSetStream(sparse, stream));
    SPARSE(cusparseSetPointerMode(sparse, CUSPARSE_POINTER_MODE_DEVICE));
    const Size first = n * part / parts, end = n * (part + 1) / parts, plane = n * n;
    m = (end - first) * plane, ghosts = ((below() ? 1 : 0) + (above() ? 1 : 0)) * plane;
    std::vector<std::int32_t> rows{0}, cols;
    std::vector<double> entries;
    const auto add = [&](Size column, double value) {
      cols.push_back(static_cast<std::int32_t>(column)), entries.push_back(value);
    };
    for (Size k = first; k < end; ++k)
      for (Size j = 0; j < n; ++j)
        for (Size i = 0; i < n; ++i) {
          const Size here = (k - first) * plane + j * n + i;
          if (k > first) add(here - plane, -1);
          if (j > 0) add(here - n, -1);
          if (i > 0) add(here - 1, -1);
          add(here, 6);
          if (i + 1 < n) add(here + 1, -1);
          if (j + 1 < n) add(here + n, -1);
          if (k + 1 < end) add(here + plane, -1);
          if (k == first && below()) add(m + j * n + i, -1);
          if (k + 1 == end && above()) add(m + (below() ? plane : 0) + j * n + i, -1);
          rows.push_back(static_cast<std::int32_t>(cols.size()));
        }
    row_ptr = sent(rows), col = sent(cols), values = sent(entries);
    const std::vector<double> none(static_cast<std::size_t>(m + ghosts), 0.0);
    x = sent(none), r = sent(none), z = sent(none), p = sent(none), q = sent(none);
    std::vector<double> scalars(Scalars, 0.0);
    scalars[One] = 1;
    s = sent(scalars);
    SPARSE(cusparseCreateCsr(&A, m, m + ghosts, static_cast<Size>(cols.size()), row_ptr, col, values,
                             CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F));
    SPARSE(cusparseCreateDnVec(&its_p, m + ghosts, p, CUDA_R_64F));
    SPARSE(cusparseCreateDnVec(&its_q, m, q, CUDA_R_64F));
    std::size_t bytes = 0;
    SPARSE(cusparseSpMV_bufferSize(sparse, CUSPARSE_OPERATION_NON_TRANSPOSE, s + One, A, its_p, s + Zero,
                                   its_q, CUDA_R_64F, CUSPARSE_SPMV_CSR_ALG1, &bytes));
    CUDA(cudaMalloc(&workspace, std::max<std::size_t>(bytes, 1)));
    SPARSE(cusparseSpMV_preprocess(sparse, CUSPARSE_OPERATION_NON_TRANSPOSE, s + One, A, its_p, s + Zero,
                                   its_q, CUDA_R_64F, CUSPARSE_SPMV_CSR_ALG1, workspace));
    CUDA(cudaStreamSynchronize(stream));
  }
  void free() {
    CUDA(cudaSetDevice(part));
    SPARSE(cusparseDestroyDnVec(its_p));
    SPARSE(cusparseDestroyDnVec(its_q));
    SPARSE(cusparseDestroySpMat(A));
    for (void* one : {static_cast<void*>(row_ptr), static_cast<void*>(col), static_cast<void*>(values),
                      static_cast<void*>(x), static_cast<void*>(r), static_cast<void*>(z),
                      static_cast<void*>(p), static_cast<void*>(q), static_cast<void*>(s), workspace})
      CUDA(cudaFree(one));
    SPARSE(cusparseDestroy(sparse));
    BLAS(cublasDestroy(blas));
    CUDA(cudaStreamDestroy(stream));
  }

  void sum(double* number) {
    if (parts > 1) NCCL(ncclAllReduce(number, number, 1, ncclDouble, ncclSum, all, stream));
  }
  void precondition() { scale<<<1024, 256, 0, stream>>>(m, 1.0 / 6, r, z); }

  // b of ones, x = 0.
  void begin() {
    std::vector<double> ones(static_cast<std::size_t>(m), 1.0);
    CUDA(cudaMemcpyAsync(r, ones.data(), ones.size() * sizeof(double), cudaMemcpyHostToDevice, stream));
    CUDA(cudaMemsetAsync(x, 0, static_cast<std::size_t>(m) * sizeof(double), stream));
    precondition();
    CUDA(cudaMemcpyAsync(p, z, static_cast<std::size_t>(m) * sizeof(double), cudaMemcpyDeviceToDevice,
                         stream));
    BLAS(cublasDdot(blas, static_cast<int>(m), r, 1, z, 1, s + RZ));
    sum(s + RZ);
    CUDA(cudaStreamSynchronize(stream));
  }
  void iteration() {
    const Size plane = n * n;
    const auto count = static_cast<std::size_t>(plane);
    if (parts > 1) {
      double *from_below = p + m, *from_above = p + m + (below() ? plane : 0);
      NCCL(ncclGroupStart());
      if (below()) {
        NCCL(ncclSend(p, count, ncclDouble, part - 1, all, stream));
        NCCL(ncclRecv(from_below, count, ncclDouble, part - 1, all, stream));
      }
      if (above()) {
        NCCL(ncclSend(p + m - plane, count, ncclDouble, part + 1, all, stream));
        NCCL(ncclRecv(from_above, count, ncclDouble, part + 1, all, stream));
      }
      NCCL(ncclGroupEnd());
    }
    SPARSE(cusparseSpMV(sparse, CUSPARSE_OPERATION_NON_TRANSPOSE, s + One, A, its_p, s + Zero, its_q,
                        CUDA_R_64F, CUSPARSE_SPMV_CSR_ALG1, workspace));
    const int rows = static_cast<int>(m);
    BLAS(cublasDdot(blas, rows, p, 1, q, 1, s + PQ));
    sum(s + PQ);
    find_alpha<<<1, 1, 0, stream>>>(s);
    BLAS(cublasDaxpy(blas, rows, s + Alpha, p, 1, x, 1));
    BLAS(cublasDaxpy(blas, rows, s + MinusAlpha, q, 1, r, 1));
    precondition();
    BLAS(cublasDdot(blas, rows, r, 1, z, 1, s + RZNext));
    sum(s + RZNext);
    find_beta<<<1, 1, 0, stream>>>(s);
    BLAS(cublasDscal(blas, rows, s + Beta, p, 1));
    BLAS(cublasDaxpy(blas, rows, s + One, z, 1, p, 1));
  }
};

void on_each(std::vector<Part>& parts, const std::function<void(Part&)>& work) {
  std::vector<std::jthread> threads;
  for (Part& part : parts)
    threads.emplace_back([&] {
      CUDA(cudaSetDevice(part.part));
      work(part);
    });
}

// Seconds of an iteration, the median of launches of a graph of ten; r . z after the first 30.
std::pair<double, double> measure(std::vector<Part>& parts) {
  constexpr int in_graph = 10, rounds = 21;
  std::vector<double> times;
  double residual = 0;
  std::barrier meeting(static_cast<std::ptrdiff_t>(parts.size()));
  on_each(parts, [&](Part& part) {
    part.begin();
    for (int k = 0; k < 30; ++k) part.iteration();
    if (part.part == 0)
      CUDA(cudaMemcpyAsync(&residual, part.s + RZ, sizeof residual, cudaMemcpyDeviceToHost, part.stream));
    CUDA(cudaStreamSynchronize(part.stream));
    part.begin();
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    meeting.arrive_and_wait();
    CUDA(cudaStreamBeginCapture(part.stream, cudaStreamCaptureModeThreadLocal));
    for (int k = 0; k < in_graph; ++k) part.iteration();
    CUDA(cudaStreamEndCapture(part.stream, &graph));
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    for (int round = -2; round < rounds; ++round) {
      meeting.arrive_and_wait();
      const auto begin = std::chrono::steady_clock::now();
      for (int k = 0; k < 3; ++k) CUDA(cudaGraphLaunch(exec, part.stream));
      CUDA(cudaStreamSynchronize(part.stream));
      meeting.arrive_and_wait();
      if (round >= 0 && part.part == 0)
        times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() /
                        (3 * in_graph));
    }
    CUDA(cudaGraphExecDestroy(exec));
    CUDA(cudaGraphDestroy(graph));
  });
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], residual};
}

}  // namespace

int main(int argc, char** argv) {
  int devices = 0, version = 0;
  CUDA(cudaGetDeviceCount(&devices));
  NCCL(ncclGetVersion(&version));
  std::printf("%d GPUs, NCCL %d\n%6s %5s %12s %12s %9s %20s\n", devices, version, "n", "GPUs", "rows",
              "iteration us", "times", "r . z after 30");
  for (int k = 1; k < argc; ++k) {
    const Size n = std::atoll(argv[k]);
    double alone = 0;
    for (int count = 1; count <= devices; count *= 2) {
      std::vector<ncclComm_t> communicators(static_cast<std::size_t>(count));
      NCCL(ncclCommInitAll(communicators.data(), count, nullptr));
      std::vector<Part> parts(static_cast<std::size_t>(count));
      for (int p = 0; p < count; ++p)
        parts[static_cast<std::size_t>(p)].make(p, count, n, communicators[static_cast<std::size_t>(p)]);
      const auto [seconds, residual] = measure(parts);
      if (count == 1) alone = seconds;
      std::printf("%6lld %5d %12lld %12.2f %9.3f %20.12e\n", static_cast<long long>(n), count,
                  static_cast<long long>(n * n * n), seconds * 1e6, alone / seconds, residual);
      std::fflush(stdout);
      for (Part& part : parts) part.free();
      for (ncclComm_t one : communicators) NCCL(ncclCommDestroy(one));
    }
  }
  return 0;
}
