// CSR on the device: the layout is that of csr.cpp, and for some divisions of the work further arrays.
// Parameters: balance
//   rows   A group of `lanes` neighbouring threads computes a row. They read neighbouring entries, and their
//          sums are added by shuffles in a fixed order. `lanes` is 4 to 32 by the mean row length.
//   codes  The same number of entries for each thread, with the tables of mgpu-csr (mgpu_csr.cuh).
//   merge  Warps take about the same number of entries each; long rows are cut (private/row_runs.cuh).
//   auto   rows; but codes or merge, where rows have fewer than 3 entries, where the row lengths would leave too
//          many lanes idle, where one row takes too long, or where most entries have no other near them that would share a
//          cache line of x.
// Kernels cusparse and cusparse-alg2 are cuSPARSE's CSR_ALG1 (the order of the sums is not fixed) and
// CSR_ALG2 (a fixed order). Kernels cooperative, reguly-giles, reguly-giles-tuned and gridification are in
// csr_tuner.cu, merge is in merge_csr.cu; they do not use `balance`.
// Source: N. Bell, M. Garland, Implementing sparse matrix-vector multiplication on throughput-oriented processors, SC 2009,
// doi:10.1145/1654059.1654078; I. Reguly, M. Giles, Efficient sparse matrix-vector multiplication on cache-based GPUs,
// InPar 2012, doi:10.1109/InPar.2012.6339602 (threads for each row).
#include <optional>

#include "core/device/primitives.hpp"
#include "formats/cusparse_support.hpp"
#include "formats/device_support.cuh"
#include "formats/private/csr_arrays.cuh"
#include "formats/private/expand.cuh"
#include "formats/private/library_kernels.hpp"
#include "formats/private/row_runs.cuh"
#include "formats/row/mgpu_csr.cuh"
#include "operators/row_arrays.hpp"

namespace protean::formats {
namespace {

// The rows that a group computes side by side: while it waits for one, it loads the other.
constexpr int rows_a_group = 2;

// The sums of rows first, first + stride, ..., in every lane of their group; 0 for rows past the end. The
// loads stay in the first-level cache, because the next row begins in the sector in which this one ends.
template <int lanes, class T, class P>
__device__ inline void row_sums(const CsrArrays<T, P>& a, std::int64_t first, std::int64_t stride, const T* x,
                                T (&sums)[rows_a_group]) {
  P k[rows_a_group], end[rows_a_group];
#pragma unroll
  for (int i = 0; i < rows_a_group; ++i) {
    const std::int64_t row = first + i * stride;
    const bool there = row < a.rows;
    k[i] = there ? __ldg(a.row_ptr + row) + static_cast<P>(threadIdx.x % lanes) : 0;
    end[i] = there ? __ldg(a.row_ptr + row + 1) : 0;
    sums[i] = 0;
  }
  for (bool more = true; more;) {
    more = false;
    std::int32_t col[rows_a_group];
    T value[rows_a_group];
#pragma unroll
    for (int i = 0; i < rows_a_group; ++i) {
      col[i] = -1;
      if (k[i] < end[i]) col[i] = __ldg(a.col + k[i]), value[i] = __ldg(a.values + k[i]);
      k[i] += lanes;
      more = more || k[i] < end[i];
    }
#pragma unroll
    for (int i = 0; i < rows_a_group; ++i)
      if (col[i] >= 0) sums[i] += value[i] * __ldg(x + col[i]);
  }
#pragma unroll
  for (int i = 0; i < rows_a_group; ++i) sums[i] = device::sum_lanes<lanes>(sums[i]);
}

template <int lanes, class T, class P>
__global__ void __launch_bounds__(device::block_size)
    csr_product(CsrArrays<T, P> a, T alpha, const T* x, T beta, T* y, const int* stop) {
  if (device::stopped(stop)) return;
  constexpr int stride = device::block_size / lanes;
  const std::int64_t first = std::int64_t{blockIdx.x} * stride * rows_a_group + threadIdx.x / lanes;
  T sums[rows_a_group];
  row_sums<lanes>(a, first, stride, x, sums);
#pragma unroll
  for (int i = 0; i < rows_a_group; ++i)
    if (const std::int64_t row = first + i * stride; row < a.rows && threadIdx.x % lanes == 0)
      store(alpha, sums[i], beta, y + row);
}

template <int lanes, class T, class P>
__global__ void __launch_bounds__(device::block_size)
    csr_product_dot(CsrArrays<T, P> a, const T* x, T* y, double* partials, unsigned* arrived, T* result,
                    const int* stop) {
  if (device::stopped(stop)) return;
  constexpr int stride = device::block_size / lanes;
  T dots[1] = {};
  for (std::int64_t begin = std::int64_t{blockIdx.x} * stride * rows_a_group; begin < a.rows;
       begin += std::int64_t{gridDim.x} * stride * rows_a_group) {
    const std::int64_t first = begin + threadIdx.x / lanes;
    T sums[rows_a_group];
    row_sums<lanes>(a, first, stride, x, sums);
#pragma unroll
    for (int i = 0; i < rows_a_group; ++i)
      if (const std::int64_t row = first + i * stride; row < a.rows && threadIdx.x % lanes == 0)
        y[row] = sums[i], dots[0] += x[row] * sums[i];
  }
  device::finish_reduction<1>(dots, partials, arrived, result);
}

// The numbers that decide `balance`.
struct RowLengths {
  unsigned long long steps;    // of all warps, when `lanes` threads work on a row
  unsigned long long longest;  // row
  unsigned long long empty;    // rows without entries
  unsigned long long alone;  // of sample_rows entries: those without another near enough to share a line of x
};

// The number of sampled entries, and the distance within which columns mostly share a line of 128 bytes.
constexpr std::int64_t sample_rows = 4096, near_columns = 8;

// Takes one entry of each of `sample_rows` rows spread over the matrix: does its row or the next one have
// another entry with a column near it?
template <class P>
__global__ void sample_columns(CsrArrays<double, P> a, RowLengths* result) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t row = i * a.rows / sample_rows;
  const std::int64_t begin = a.row_ptr[row], end = a.row_ptr[row + 1];
  bool alone = false;
  if (begin < end) {
    const std::int64_t k = begin + i * 7919 % (end - begin), col = a.col[k];
    alone = !(k > begin && col - a.col[k - 1] < near_columns) &&
            !(k + 1 < end && a.col[k + 1] - col < near_columns);
    if (alone && row + 1 < a.rows) {
      const std::int64_t last = a.row_ptr[row + 2];
      const std::int64_t found = end + first_not_below(a.col + end, last - end, col - near_columns);
      alone = found == last || a.col[found] >= col + near_columns;
    }
  }
  const unsigned all = __ballot_sync(0xffffffffu, alone);
  if (threadIdx.x % 32 == 0 && all) atomicAdd(&result->alone, static_cast<unsigned long long>(__popc(all)));
}

template <class P>
__global__ void measure_rows(std::int64_t rows, const P* row_ptr, int lanes, RowLengths* result) {
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const unsigned long long length = row < rows ? row_ptr[row + 1] - row_ptr[row] : 0;
  const unsigned empty = __ballot_sync(0xffffffffu, row < rows && length == 0);
  unsigned long long steps = (length + lanes - 1) / lanes, longest = length;
  // The rows of a warp wait for the longest of them.
  for (int next = 1; next < 32; next *= 2) {
    const unsigned long long other = __shfl_xor_sync(0xffffffffu, steps, next);
    if (next < 32 / lanes)
      steps = steps > other ? steps : other;
    else
      steps += other;
    const unsigned long long another = __shfl_xor_sync(0xffffffffu, longest, next);
    longest = longest > another ? longest : another;
  }
  if (threadIdx.x % 32 != 0) return;
  atomicAdd(&result->steps, steps);
  if (empty) atomicAdd(&result->empty, static_cast<unsigned long long>(__popc(empty)));
  if (longest > result->longest) atomicMax(&result->longest, longest);
}

// How the work is divided among threads.
struct CsrPlan {
  // rows: groups of `lanes` threads take whole rows. runs: private/row_runs.cuh. codes: the tables of mgpu-csr.
  enum class Division : unsigned char { rows, runs, codes };
  int lanes = 1;
  Division division = Division::rows;
  RunCounts counts = {};
  std::int64_t empty = 0;  // rows without entries, for codes
};

// Threads a row, by the mean length.
int usual_lanes(double mean) { return mean > 80 ? 32 : mean > 36 ? 16 : mean > 14.5 ? 8 : 4; }

// The division for measured lengths. The borders are fitted to the times of 45 matrices on an H200
// (docs/results/csr-gpu.md).
CsrPlan::Division division_for(const RowLengths& lengths, double rows, double entries, int lanes,
                               int processors) {
  using Division = CsrPlan::Division;
  const double mean = entries / rows,
               busy = entries / (32 * static_cast<double>(std::max(1ull, lengths.steps)));
  const auto longest = static_cast<double>(lengths.longest);
  const double path = longest / lanes;
  const bool uneven = busy < 0.5 || (busy < 0.6 && path > 256) ||
                      path > 64 + static_cast<double>(lengths.steps) / processors / 8;
  if (!uneven && 2 * lengths.alone <= sample_rows) return mean < 3 ? Division::runs : Division::rows;
  // Where a few rows hold much of the matrix, or most rows are short and some are very long, runs are cut finer.
  return longest > entries / 64 || (mean < 4 && longest > 1000) ? Division::runs : Division::codes;
}

CsrPlan plan(const Context& context, const SparsityPattern& pattern, const FormatParams& params) {
  using Division = CsrPlan::Division;
  CsrPlan plan;
  const auto rows = static_cast<double>(std::max<std::int64_t>(1, pattern.rows));
  const auto entries = static_cast<double>(pattern.nonzeros);
  plan.lanes = usual_lanes(entries / rows);
  const std::string& balance = params.word("balance");
  if (balance == "rows" || pattern.rows == 0) return plan;
  const device::Scratch<RowLengths> result(context, 1);
  const cudaStream_t stream = device::stream(context);
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(result.data(), 0, result.bytes(), stream));
  pattern.row_ptr.visit([&](auto* row_ptr) {
    measure_rows<<<blocks_of(pattern.rows, 256), 256, 0, stream>>>(pattern.rows, row_ptr, plan.lanes,
                                                                   result.data());
    using P = std::remove_const_t<std::remove_pointer_t<decltype(row_ptr)>>;
    if (pattern.rows >= 4 * sample_rows)
      sample_columns<<<blocks_of(sample_rows), device::block_size, 0, stream>>>(
          CsrArrays<double, P>{pattern.rows, row_ptr, pattern.col, nullptr}, result.data());
  });
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  const RowLengths lengths = read_back(context, result.data());
  plan.division = balance == "merge" ? Division::runs
                  : balance == "codes"
                      ? Division::codes
                      : division_for(lengths, rows, entries, plan.lanes, context.device_state().processors);
  if (plan.division == Division::runs) plan.counts = run_counts(context, pattern);
  plan.empty = static_cast<std::int64_t>(lengths.empty);
  return plan;
}

// Calls f with `lanes` as an integral constant.
template <class F>
void with_lanes(int lanes, F&& f) {
  switch (lanes) {
    case 4:
      return f(std::integral_constant<int, 4>());
    case 8:
      return f(std::integral_constant<int, 8>());
    case 16:
      return f(std::integral_constant<int, 16>());
    default:
      return f(std::integral_constant<int, 32>());
  }
}

template <class T>
class CsrDevice final : public CsrOnDevice<T>, public HasApplyDot<T>, public HasRowArrays<T> {
  using Division = CsrPlan::Division;

 public:
  explicit CsrDevice(const BuildRequest<T>& request) : CsrOnDevice<T>(request) {
    const CsrPlan& how = plan_of<CsrPlan>(request.admission);
    lanes_ = how.lanes, division_ = how.division;
    if (division_ == Division::runs) runs_ = RowRuns<T>(request.context, csr_.pattern, how.counts);
    if (division_ == Division::codes)
      codes_ = CodedTiles<T>(request.context, csr_.pattern, usual_code_shape(sizeof(T)), how.empty);
  }

  std::size_t bytes() const noexcept override { return csr_.bytes() + runs_.bytes() + codes_.bytes(); }

  RowArrays<T> row_arrays() const noexcept override {
    RowArrays<T> rows;
    rows.kind = RowArrays<T>::Kind::csr;
    rows.version = 1;
    rows.rows = this->rows(), rows.stored = this->nonzeros();
    rows.values = csr_.values, rows.col = csr_.pattern.col;
    rows.row_ptr32 = csr_.pattern.row_ptr.p32, rows.row_ptr64 = csr_.pattern.row_ptr.p64;
    return rows;
  }

  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    if (division_ == Division::runs)
      return multiply_runs_dot(*this->context(), runs(), x.data, y.data, result);
    if (division_ == Division::codes) {
      codes_.multiply(this->context()->device_state(), csr_, T(1), x.data, T(0), y.data);
      return dot<T>(*this->context(), x, y, result);
    }
    const DeviceState& state = this->context()->device_state();
    csr_.pattern.row_ptr.visit([&](auto* row_ptr) {
      using P = std::remove_const_t<std::remove_pointer_t<decltype(row_ptr)>>;
      with_lanes(lanes_, [&](auto lanes) {
        const std::int64_t wanted = blocks_of(this->rows(), device::block_size / lanes() * rows_a_group);
        const std::int64_t most = std::int64_t{state.processors} * 8;
        const std::int64_t blocks = std::clamp<std::int64_t>(wanted, 1, most);
        const auto sums = device::sums_into<1>(*this->context(), blocks, result);
        device::launch(state, csr_product_dot<lanes(), T, P>, blocks, device::block_size, arrays(row_ptr),
                       x.data, y.data, sums.parts, sums.arrived, sums.result, state.stop);
      });
    });
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->rows() == 0) return;
    if (division_ == Division::runs)
      return multiply_runs(*this->context(), runs(), alpha, x.data, beta, y.data);
    if (division_ == Division::codes)
      return codes_.multiply(this->context()->device_state(), csr_, alpha, x.data, beta, y.data);
    const DeviceState& state = this->context()->device_state();
    csr_.pattern.row_ptr.visit([&](auto* row_ptr) {
      using P = std::remove_const_t<std::remove_pointer_t<decltype(row_ptr)>>;
      with_lanes(lanes_, [&](auto lanes) {
        device::launch(state, csr_product<lanes(), T, P>,
                       blocks_of(this->rows(), device::block_size / lanes() * rows_a_group),
                       device::block_size, arrays(row_ptr), alpha, x.data, beta, y.data, state.stop);
      });
    });
  }

 private:
  template <class P>
  CsrArrays<T, P> arrays(const P* row_ptr) const {
    return {this->rows(), row_ptr, csr_.pattern.col, csr_.values};
  }
  RunView<T> runs() const { return runs_.view(csr_.pattern.col, csr_.values); }

  using CsrOnDevice<T>::csr_;
  RowRuns<T> runs_;
  CodedTiles<T> codes_;
  int lanes_ = 1;
  Division division_ = Division::rows;
};

// The same arrays through cuSPARSE. The dot product needs a second pass.
template <class T, cusparseSpMVAlg_t algorithm>
class CsrCusparse final : public CsrOnDevice<T> {
 public:
  explicit CsrCusparse(const BuildRequest<T>& request) : CsrOnDevice<T>(request) {
    if (csr_.nonzeros() == 0) return;
    require_narrow(request);
    csr_.pattern.row_ptr.visit([&](auto* row_ptr) {
      using P = std::remove_const_t<std::remove_pointer_t<decltype(row_ptr)>>;
      cusparseSpMatDescr_t matrix = nullptr;
      device::check(cusparseCreateCsr(&matrix, csr_.rows(), csr_.cols(), csr_.nonzeros(),
                                      const_cast<P*>(row_ptr), const_cast<std::int32_t*>(csr_.pattern.col),
                                      const_cast<T*>(csr_.values), cusparse_index<P>, CUSPARSE_INDEX_32I,
                                      CUSPARSE_INDEX_BASE_ZERO, cusparse_type<T>),
                    "cusparseCreateCsr");
      product_.emplace(request.context, matrix, algorithm, true);
    });
  }
  std::size_t bytes() const noexcept override { return csr_.bytes() + (product_ ? product_->bytes() : 0); }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    CsrOnDevice<T>::do_update_values(csr);
    if (product_) product_->set_values(csr_.values);
  }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (product_)
      product_->apply(alpha, x.data, beta, y.data);
    else
      scale(*this->context(), this->rows(), beta, y.data);
  }

 private:
  using CsrOnDevice<T>::csr_;
  std::optional<CusparseProduct<T>> product_;
};
template <class T>
using CsrCusparse1 = CsrCusparse<T, CUSPARSE_SPMV_CSR_ALG1>;
template <class T>
using CsrCusparse2 = CsrCusparse<T, CUSPARSE_SPMV_CSR_ALG2>;

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto how = std::make_shared<const CsrPlan>(plan(context, pattern, params));
  std::size_t bytes = pattern.bytes() + static_cast<std::size_t>(pattern.nonzeros) * value_bytes;
  if (how->division == CsrPlan::Division::runs)
    bytes += run_bytes(pattern.rows, pattern.nonzeros, how->counts, value_bytes);
  if (how->division == CsrPlan::Division::codes)
    bytes += coded_tiles_bytes(pattern, usual_code_shape(value_bytes), how->empty, value_bytes);
  Admission admission = Admission::accept(bytes, pattern.nonzeros);
  keep_plan(admission, std::move(how));
  return admission;
}

// Whole warps a block: all threads of a warp take part in its shuffles.
constexpr ParamDoc cooperative_params[] = {
    {.name = "T", .doc = "threads a row", .default_value = "8", .choices = "1|2|4|8|16|32"},
    {.name = "block", .doc = "threads a block", .default_value = "128", .choices = "32|64|128|256|512"},
    {.name = "repeat",
     .doc = "rows of each group of threads",
     .default_value = "1",
     .smallest = 1,
     .largest = 1 << 20}};

constexpr Kernel kernels[] = {
    device_kernel<CsrDevice>("native"),
    device_kernel<CsrCusparse1>("cusparse", false),
    device_kernel<CsrCusparse2>("cusparse-alg2"),
    {"cooperative",
     false,
     true,
     {},
     make_csr_cooperative<double>,
     make_csr_cooperative<float>,
     "T threads a row",
     true,
     false,
     cooperative_params},
    {"reguly-giles",
     false,
     true,
     {},
     make_csr_reguly_giles<double>,
     make_csr_reguly_giles<float>,
     "threads a row by the rule of Reguly and Giles"},
    {"reguly-giles-tuned",
     false,
     true,
     {},
     make_csr_tuned<double>,
     make_csr_tuned<float>,
     "the same, tuned in the first products, which are not recorded",
     false},
    {"gridification",
     false,
     true,
     {},
     make_csr_gridification<double>,
     make_csr_gridification<float>,
     "threads a row and a block by trying all in the first products, which are not recorded",
     false},
    {"merge",
     false,
     true,
     {},
     make_csr_merge<double>,
     make_csr_merge<float>,
     "rows and entries divided evenly among threads"},
    PROTEAN_KOKKOS_DEVICE_KERNEL(csr)};

}  // namespace

namespace device_code {
extern const DeviceCode csr;
constinit const DeviceCode csr{kernels, admit};
}  // namespace device_code

}  // namespace protean::formats
