// CSR on the device: the layout of csr.cpp, and further arrays for some divisions of the work.
// Parameters: balance
//   rows   A group of `lanes` neighbouring threads, 4 to 32, computes a row. Their sums are added by shuffles in a
//          fixed order.
//   blocks Blocks of threads take whole rows with about the same number of entries (engines/runs/whole_row_tiles.cuh).
//   merge  Blocks take the same number of entries each. A row may be cut (engines/runs/entry_tiles.cuh). If a few rows
//          hold much of the matrix, warps take them, and long rows are cut finer (engines/runs/row_runs.cuh).
//   auto   rows, if all lanes of a group have work and the rows are long, or have columns far from each other that the
//          next row shares, unless one row is so long that its group still works on it when all others have ended.
//          Also rows, with more lanes a row, if the rows do not fill the device and a group takes each of them at
//          once.
//          Else merge, if the arrays have more than four times the bytes of the second-level cache, if a row has more
//          than 3000 entries, or more than 1000 and a 64th of all, or if more than 10240 rows lie within 640 entries.
//          Else blocks.
// Bytes: as csr.cpp, and
//   rows   none.
//   blocks 16 (t + 1) for t tiles of 256 to 768 entries less the longest row, or less a quarter.
//   merge  16 (t + 1) + v t for t tiles of 640 entries, or of 640 entries and eighths of rows if a tile would have
//          more than 10240 rows; by warps 16 ceil(nnz / 240) + 4 (nnz / 32 + 11), if there are rows without entries
//          4 (rows with entries + ceil(rows / 32)) more, and 24 + v + 4 for each piece of a long row.
// Kernels cusparse and cusparse-alg2 are cuSPARSE's CSR_ALG1 (the order of the sums is not fixed) and
// CSR_ALG2 (a fixed order). Kernels cooperative, reguly-giles, reguly-giles-tuned and gridification are in
// csr_tuner.cu, merge is in merge_csr.cu; they do not use `balance`.
// Source: N. Bell, M. Garland, Implementing sparse matrix-vector multiplication on throughput-oriented processors, SC
// 2009, doi:10.1145/1654059.1654078; I. Reguly, M. Giles, Efficient sparse matrix-vector multiplication on cache-based
// GPUs, InPar 2012, doi:10.1109/InPar.2012.6339602 (threads for each row).
#include <optional>

#include "core/device/primitives.hpp"
#include "formats/cusparse_support.hpp"
#include "formats/device_support.cuh"
#include "formats/engines/library/library_kernels.hpp"
#include "formats/engines/rows/csr_arrays.cuh"
#include "formats/engines/rows/rows.cuh"
#include "formats/engines/runs/entry_tiles.cuh"
#include "formats/engines/runs/row_runs.cuh"
#include "formats/engines/runs/whole_row_tiles.cuh"
#include "formats/engines/several/multi_rows.cuh"
#include "formats/engines/view/expand.cuh"
#include "formats/entries.hpp"
#include "formats/row/csr_row_groups.cuh"
#include "formats/row/rules.hpp"
#include "operators/multi_product.hpp"
#include "operators/row_arrays.hpp"

namespace protean::formats {
namespace {

// The numbers that decide `balance`.
struct RowLengths {
  unsigned long long steps;      // of all warps, when `lanes` threads work on a row
  unsigned long long longest;    // row
  unsigned long long aligned;    // see sample_columns()
  unsigned long long tile_rows;  // the most rows in a tile without weights
};

// The number of sampled entries, and the distance within which columns mostly share a line of 128 bytes.
constexpr std::int64_t sample_rows = 4096, near_columns = 8;

// Takes one entry of each of `sample_rows` rows spread over the matrix. Counts the entries that have none near them in
// their row but one in the next row: their elements of x share a line when neighbouring groups load them together.
template <class P>
__global__ void sample_columns(CsrArrays<double, P> a, RowLengths* result) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t row = i * a.rows / sample_rows;
  const std::int64_t begin = a.row_ptr[row], end = a.row_ptr[row + 1];
  bool aligned = false;
  if (begin < end && row + 1 < a.rows) {
    const std::int64_t k = begin + i * 7919 % (end - begin), col = a.col[k];
    if (!(k > begin && col - a.col[k - 1] < near_columns) &&
        !(k + 1 < end && a.col[k + 1] - col < near_columns)) {
      const std::int64_t last = a.row_ptr[row + 2];
      const std::int64_t found = end + first_not_below(a.col + end, last - end, col - near_columns);
      aligned = found < last && a.col[found] < col + near_columns;
    }
  }
  const unsigned all = __ballot_sync(0xffffffffu, aligned);
  if (threadIdx.x % 32 == 0 && all) atomicAdd(&result->aligned, static_cast<unsigned long long>(__popc(all)));
}

template <class P>
__global__ void measure_rows(std::int64_t rows, const P* row_ptr, int lanes, RowLengths* result) {
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const unsigned long long length = row < rows ? row_ptr[row + 1] - row_ptr[row] : 0;
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
  if (longest > result->longest) atomicMax(&result->longest, longest);
}

// How the work is divided among threads.
struct CsrPlan {
  // rows: `lanes` threads take whole rows. blocks: engines/runs/whole_row_tiles.cuh. tiles:
  // engines/runs/entry_tiles.cuh. runs: engines/runs/row_runs.cuh.
  enum class Division : unsigned char { rows, blocks, tiles, runs };
  Division division = Division::rows;
  bool weighted = false;  // the tiles
  bool cached = false;    // rows and blocks; see stays_in_cache()
  int lanes = 4;
  bool two_rows = false;         // a group of 4 lanes computes two rows at a time
  WholeRowTilesPlan whole = {};  // of blocks
  RunCounts counts = {};         // of runs

  // The entries of a row that a group loads before it waits for the first.
  int at_once() const { return two_rows ? lanes : lanes * row_steps; }
};

// Threads a row, by the mean length.
int usual_lanes(double mean) { return mean > 120 ? 32 : mean > 60 ? 16 : mean > 24 ? 8 : 4; }

// Whether the group that has the longest row is expected to work long after all others: it takes that row in steps,
// each of which waits for two loads. Estimates in microseconds; if they are near each other, rows are the choice. A
// step from DRAM took 1.9 (222,215 rows of 50 entries in the mean and 5,050 at most, an H200).
bool waits_for_longest(const CsrPlan& plan, double longest, double entries) {
  constexpr double others_begin = 3, entry = 12 / 2.5e6;  // 12 bytes at 2.5 TB/s
  const double step = plan.cached ? 0.25 : 1.8;
  return step * longest / plan.at_once() > 4 + 1.5 * (others_begin + entry * entries);
}

// If a matrix has fewer rows than would fill the device, more threads take a row: they have nothing else to do, and
// long rows are done sooner. Returns whether it has fewer.
bool widen(CsrPlan& plan, std::int64_t rows, std::int64_t longest, std::int64_t threads) {
  if (rows * plan.lanes > threads) return false;
  if (longest <= plan.lanes) return true;
  plan.two_rows = false;
  while (plan.lanes < 32 && 2 * rows * plan.lanes <= threads && longest > plan.at_once()) plan.lanes *= 2;
  return true;
}

// The borders are fitted to the times of 120 matrices on an H100 and an H200 (docs/results/gpu-products.md).
bool takes_rows(CsrPlan& plan, const RowLengths& lengths, std::int64_t rows, std::int64_t entries,
                const Context& context) {
  constexpr std::int64_t threads_of_processor = 2048;
  const double mean = static_cast<double>(entries) / static_cast<double>(rows),
               busy =
                   static_cast<double>(entries) / (32 * static_cast<double>(std::max(1ull, lengths.steps)));
  const auto longest = static_cast<std::int64_t>(lengths.longest);
  const std::int64_t threads = context.device_state().processors * threads_of_processor;
  CsrPlan wide = plan;
  if (widen(wide, rows, longest, threads) && longest <= wide.at_once() &&
      (2 * rows * wide.lanes <= threads || static_cast<double>(longest) <= 1.3 * mean)) {
    plan = wide;
    return true;
  }
  if (entries < 4'000'000 && mean > 24 && busy > 0.7 && longest <= 3 * plan.at_once()) return true;
  return busy > 0.8 && (mean > 36 || (mean > 24 && 2 * lengths.aligned > sample_rows)) &&
         (entries >= 4'000'000 || longest <= 3 * plan.at_once()) &&
         !waits_for_longest(plan, static_cast<double>(longest), static_cast<double>(entries));
}

CsrPlan::Division division_for(const RowLengths& lengths, std::int64_t rows, std::int64_t entries) {
  using Division = CsrPlan::Division;
  const auto longest = static_cast<std::int64_t>(lengths.longest);
  return longest > entries / 64 || (entries < 4 * rows && longest > 1000) ? Division::runs : Division::tiles;
}

CsrPlan plan(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
             std::size_t value_bytes) {
  using Division = CsrPlan::Division;
  CsrPlan plan;
  plan.cached = stays_in_cache(context, pattern, value_bytes);
  const std::int64_t rows = std::max<std::int64_t>(1, pattern.rows), entries = pattern.nonzeros;
  plan.lanes = usual_lanes(static_cast<double>(entries) / static_cast<double>(rows));
  // Of 32 matrices on an H200, matrices of up to 9 entries a row were faster with two rows, of 12 and more with one.
  plan.two_rows = plan.lanes == 4 && entries < 11 * rows;
  const std::string& balance = params.word("balance");
  if (balance == "rows" || entries == 0) return plan;
  const device::Scratch<RowLengths> result(context, 1);
  const cudaStream_t stream = device::stream(context);
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(result.data(), 0, result.bytes(), stream));
  pattern.row_ptr.visit([&](auto* row_ptr) {
    using P = std::remove_const_t<std::remove_pointer_t<decltype(row_ptr)>>;
    measure_rows<<<blocks_of(pattern.rows, 256), 256, 0, stream>>>(pattern.rows, row_ptr, plan.lanes,
                                                                   result.data());
    const std::int64_t tiles = entry_tile_count(pattern.rows, entries, false);
    count_tile_rows<<<blocks_of(tiles), device::block_size, 0, stream>>>(row_ptr, pattern.rows, entries,
                                                                         tiles, &result.data()->tile_rows);
    if (pattern.rows >= 4 * sample_rows)
      sample_columns<<<blocks_of(sample_rows), device::block_size, 0, stream>>>(
          CsrArrays<double, P>{pattern.rows, row_ptr, pattern.col, nullptr}, result.data());
  });
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  const RowLengths lengths = read_back(context, result.data());
  const auto longest = static_cast<std::int64_t>(lengths.longest);
  plan.weighted = lengths.tile_rows > most_tile_rows;
  const bool one_block_a_row = longest <= longest_of_whole_row_tiles && !plan.weighted &&
                               !(longest > 1000 && longest > entries / 64) &&
                               csr_bytes(pattern, value_bytes) <= 4 * device::cache_bytes(context);
  if (balance == "auto" && takes_rows(plan, lengths, rows, entries, context))
    plan.division = Division::rows;
  else if (balance == "blocks" || (balance == "auto" && one_block_a_row))
    plan.division = Division::blocks, plan.whole = whole_row_tiles(context, pattern, longest);
  else
    plan.division = division_for(lengths, rows, entries);
  if (plan.division == Division::runs) plan.counts = run_counts(context, pattern);
  return plan;
}

template <class T>
class CsrDevice final : public CsrOnDevice<T>,
                        public HasApplyDot<T>,
                        public HasMultiProduct<T>,
                        public HasRowArrays<T> {
  using Division = CsrPlan::Division;

 public:
  explicit CsrDevice(const BuildRequest<T>& request)
      : CsrOnDevice<T>(request), plan_(plan_of<CsrPlan>(request.admission)) {
    if (plan_.division == Division::tiles)
      tiles_ = EntryTiles<T>(request.context, csr_.pattern, plan_.weighted);
    if (plan_.division == Division::blocks)
      blocks_ = WholeRowTiles<T>(request.context, csr_.pattern, plan_.whole, plan_.cached);
    if (plan_.division == Division::runs) runs_ = RowRuns<T>(request.context, csr_.pattern, plan_.counts);
  }

  std::size_t bytes() const noexcept override {
    return csr_.bytes() + blocks_.bytes() + tiles_.bytes() + runs_.bytes();
  }

  // By rows, whatever `balance` is.
  void do_multi_apply(T alpha, MultiVectorView<const T> X, T beta, MultiVectorView<T> Y) const override {
    this->with_arrays([&](const auto& arrays) {
      multi_csr_on_device(*this->context(), arrays, this->nonzeros(), alpha, X, beta, Y);
    });
  }

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
    if (plan_.division == Division::blocks)
      return blocks_.multiply_dot(*this->context(), csr_, x.data, y.data, result);
    if (plan_.division == Division::tiles)
      return tiles_.multiply_dot(*this->context(), csr_, x.data, y.data, result);
    if (plan_.division == Division::runs)
      return multiply_runs_dot(*this->context(), runs(), x.data, y.data, result);
    const DeviceState& state = this->context()->device_state();
    this->with_arrays([&]<class P>(const CsrArrays<T, P>& arrays) {
      with_row_group(
          plan_.lanes, plan_.two_rows, plan_.cached, [&]<class Lanes, class Group>(Lanes lanes, Group) {
            const std::int64_t wanted = blocks_of(this->rows(), csr_threads / lanes() * Group::rows);
            const std::int64_t most =
                std::min<std::int64_t>(DeviceState::max_blocks, std::int64_t{state.processors} * 16);
            const std::int64_t blocks = std::clamp<std::int64_t>(wanted, 1, most);
            const auto sums = device::sums_into<1>(*this->context(), blocks, result);
            device::launch(state, csr_product_dot<lanes(), Group, T, P>, blocks, csr_threads, arrays, x.data,
                           y.data, sums.parts, sums.arrived, sums.result, state.stop);
          });
    });
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->rows() == 0) return;
    const DeviceState& state = this->context()->device_state();
    if (plan_.division == Division::blocks) return blocks_.multiply(state, csr_, alpha, x.data, beta, y.data);
    if (plan_.division == Division::tiles) return tiles_.multiply(state, csr_, alpha, x.data, beta, y.data);
    if (plan_.division == Division::runs)
      return multiply_runs(*this->context(), runs(), alpha, x.data, beta, y.data);
    this->with_arrays([&]<class P>(const CsrArrays<T, P>& arrays) {
      with_row_group(plan_.lanes, plan_.two_rows, plan_.cached,
                     [&]<class Lanes, class Group>(Lanes lanes, Group) {
                       device::launch(state, csr_product<lanes(), Group, T, P>,
                                      blocks_of(this->rows(), csr_threads / lanes() * Group::rows),
                                      csr_threads, arrays, alpha, x.data, beta, y.data, state.stop);
                     });
    });
  }

 private:
  RunView<T> runs() const { return runs_.view(csr_.pattern.col, csr_.values); }

  using CsrOnDevice<T>::csr_;
  CsrPlan plan_;
  WholeRowTiles<T> blocks_;
  EntryTiles<T> tiles_;
  RowRuns<T> runs_;
};

// The same arrays through cuSPARSE. The dot product needs a second pass.
template <class T, cusparseSpMVAlg_t algorithm>
class CsrCusparse final : public CusparseMatrix<T, CsrOnDevice<T>> {
 public:
  explicit CsrCusparse(const BuildRequest<T>& request) : CusparseMatrix<T, CsrOnDevice<T>>(request) {
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
  auto how = std::make_shared<const CsrPlan>(plan(context, pattern, params, value_bytes));
  std::size_t bytes = pattern.bytes() + static_cast<std::size_t>(pattern.nonzeros) * value_bytes;
  bytes += how->whole.bytes();
  if (how->division == CsrPlan::Division::tiles)
    bytes += entry_tile_bytes(pattern.rows, pattern.nonzeros, how->weighted, value_bytes);
  if (how->division == CsrPlan::Division::runs)
    bytes += run_bytes(pattern.rows, pattern.nonzeros, how->counts, value_bytes);
  Admission admission = Admission::accept(bytes, pattern.nonzeros);
  keep_plan(admission, std::move(how));
  return admission;
}

// A thread or a warp a row: kernel cooperative with the T of the rule, or of the parameter.
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_csr_elzein_rendell(const BuildRequest<T>& request) {
  FormatParams params = request.params;
  const std::string lanes = params.word("lanes");
  if (lanes == "auto")
    params.set("T", elzein_rendell_lanes(request.csr.rows(), request.csr.nonzeros()));
  else
    params.set("T", lanes);
  params.set("repeat", 1);
  return make_csr_cooperative<T>({request.csr, params, request.context, request.entry, request.kernel,
                                  request.admission, request.asked});
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

constexpr ParamDoc elzein_rendell_params[] = {
    {.name = "lanes",
     .doc = "threads a row; auto: by the mean length; measured: the faster one",
     .default_value = "auto",
     .choices = "auto|measured|1|32"},
    {.name = "block", .doc = "threads a block", .default_value = "128", .choices = "32|64|128|256|512"}};

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
    {"elzein-rendell",
     false,
     true,
     {},
     make_csr_elzein_rendell<double>,
     make_csr_elzein_rendell<float>,
     "a thread or a warp a row",
     true,
     false,
     elzein_rendell_params},
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

constinit const DeviceCode device_code::csr{kernels, admit};

}  // namespace protean::formats
