// SSS on a GPU: the arrays of sss.cpp without windows and sums. Kernels:
//   native  Each entry is read once; what it adds to the row of its column is added by an atomic operation, so the
//           order of the sums is not fixed. `slices` if rows are many and neighbours are alike (takes_slices()),
//           else `rows`.
//   rows    One launch after the one that writes beta y (unless beta is 1). A block of threads has up to 512
//           neighbouring rows, and their sums in shared memory; entries with columns in these rows are added there,
//           others to y.
//   slices  A thread computes a row. Neighbouring threads have neighbouring rows, whose columns are mostly neighbours
//           too, so the additions of a warp go to few sectors of memory; equal columns of neighbouring rows are added
//           up before. The launch before writes beta y and the products with the diagonal. The arrays are the
//           same, except that the entries of a slice, 32 rows, lie by steps: the first entries of its rows, then the
//           second entries of all rows that have one, and so on, without padding:
//
//             rows       1: a b   2: c   3: d e f      (a slice of three rows)
//             values     a c d | b e | f               begin at row_ptr of the first row of the slice
//
//   gather  A row is the sum over its entries below the diagonal, the diagonal, and its entries above, which an index
//           by columns finds among the entries below. No atomic operations, and a fixed order. Each value is read
//           twice; the second time it is often in a cache. It needs n (p + 4) + p (rows + 1) bytes more, for n entries
//           below the diagonal:
//             upper_ptr    [rows + 1] as wide as row_ptr: nondecreasing from 0 to n.
//             upper_col    [n] int32: the columns above the diagonal, ascending within a row.
//             upper_place  [n] as wide as row_ptr: where values has the entry.
// Bytes: (v + 4) n + p (rows + 1) + v rows, with v bytes a value and p = 4 or 8 bytes a row pointer; (rows + 7) / 8
//   when the diagonal has gaps.
// The conversion, and new values, compare each entry with its mirror by bisection; the host waits for the result.
#include <memory>
#include <string>

#include "core/bisect.hpp"
#include "formats/engines/view/column_order.cuh"
#include "formats/engines/view/expand.cuh"
#include "formats/engines/view/row_view.cuh"
#include "formats/entries.hpp"
#include "formats/symmetric/sss.hpp"
#include "formats/symmetric/sss_products.cuh"

namespace protean::formats {
namespace {

// The place of column c in row r; -1: there is no such entry.
__device__ inline std::int64_t find_entry(const DevicePattern& a, std::int64_t r, std::int32_t c) {
  const std::int64_t end = a.row_ptr[r + 1];
  const std::int64_t k = first_where(a.row_ptr[r], end, [&](std::int64_t j) { return a.col[j] >= c; });
  return k < end && a.col[k] == c ? k : -1;
}

struct Symmetry {
  unsigned long long first;     // the first entry without an equal mirror; all bits set: none
  unsigned long long diagonal;  // entries of the diagonal
};

// Eight threads a row. Compares the bits of values, or with null values the pattern alone.
template <class Bits>
__global__ void find_asymmetry(DevicePattern a, const Bits* values, Symmetry* found) {
  const std::int64_t r = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 8;
  if (r >= a.rows) return;
  const std::int64_t end = a.row_ptr[r + 1];
  for (std::int64_t k = a.row_ptr[r] + threadIdx.x % 8; k < end; k += 8) {
    const std::int32_t c = a.col[k];
    if (c == r) {
      atomicAdd(&found->diagonal, 1ull);
      continue;
    }
    const std::int64_t mirror = find_entry(a, c, static_cast<std::int32_t>(r));
    if (mirror < 0 || (values && values[mirror] != values[k]))
      atomicMin(&found->first, static_cast<unsigned long long>(k));
  }
}

// One thread: the row and the column of entry k, and whether its mirror is stored.
__global__ void describe_entry(DevicePattern a, std::int64_t k, std::int64_t* words) {
  const std::int64_t r =
      first_where(std::int64_t{0}, a.rows, [&](std::int64_t i) { return a.row_ptr[i + 1] > k; });
  words[0] = r, words[1] = a.col[k];
  words[2] = find_entry(a, a.col[k], static_cast<std::int32_t>(r)) >= 0;
}

struct Examined {
  std::string refusal;  // empty for a symmetric matrix
  std::int64_t diagonal = 0;
};

template <class Bits>
Examined examine(const Context& context, const SparsityPattern& pattern, const Bits* values) {
  if (pattern.rows == 0) return {};
  const cudaStream_t queue = device::stream(context);
  const device::Scratch<Symmetry> found(context, 1);
  const Symmetry none{~0ull, 0};
  device::copy_in(context, found.data(), &none, sizeof none);
  find_asymmetry<<<blocks_of(pattern.rows * 8, threads), threads, 0, queue>>>(device_pattern(pattern), values,
                                                                              found.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  const Symmetry result = read_back(context, found.data());
  if (result.first == none.first) return {{}, static_cast<std::int64_t>(result.diagonal)};
  const device::Scratch<std::int64_t> words(context, 3);
  describe_entry<<<1, 1, 0, queue>>>(device_pattern(pattern), static_cast<std::int64_t>(result.first),
                                     words.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  std::int64_t w[3];
  device::copy_out(context, w, words.data(), sizeof w);
  return {refusal_of_entry({w[0], w[1], w[2] == 0}), 0};
}

template <class T>
void require_symmetric(const Context& context, const FormatEntry& entry, const CsrMatrix<T>& csr) {
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  const Examined found = examine(context, csr.pattern, reinterpret_cast<const Bits*>(csr.values));
  if (!found.refusal.empty()) throw FormatRefused(entry.id, found.refusal);
}

// Of the rows below the diagonal: the steps of all slices, and the entries whose column is near the column of the next
// row at the same step.
struct SliceSteps {
  unsigned long long steps = 0, neighbours = 0;
};
constexpr std::int32_t near_columns = 8;

struct SssDevicePlan {
  std::int64_t size = 0;
  bool gaps = false;
  SliceSteps slices;
};

// The entries of a row below the diagonal come first.
template <class P>
__global__ void count_below(DevicePattern a, P* counts) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r > a.rows) return;
  if (r == a.rows) {
    counts[r] = 0;
    return;
  }
  const std::int64_t begin = a.row_ptr[r];
  counts[r] = static_cast<P>(
      first_where(begin, std::int64_t{a.row_ptr[r + 1]}, [&](std::int64_t k) { return a.col[k] >= r; }) -
      begin);
}

__global__ void count_steps(DevicePattern a, SliceSteps* found) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  std::int32_t length = 0, neighbours = 0;
  if (r < a.rows) {
    const std::int64_t begin = a.row_ptr[r], end = a.row_ptr[r + 1];
    const std::int64_t after = r + 1 < a.rows ? a.row_ptr[r + 2] : end;
    for (std::int64_t k = begin, next = end; k < end && a.col[k] < r; ++k, ++next, ++length)
      neighbours += next < after && a.col[next] <= r && abs(a.col[next] - a.col[k]) <= near_columns;
  }
  const std::int32_t longest = device::warp_max(length), all = device::warp_sum(neighbours);
  if (threadIdx.x % 32 != 0 || longest == 0) return;
  atomicAdd(&found->steps, static_cast<unsigned long long>(longest));
  atomicAdd(&found->neighbours, static_cast<unsigned long long>(all));
}

SliceSteps slice_steps(const Context& context, const SparsityPattern& pattern) {
  if (pattern.rows == 0) return {};
  const device::Scratch<SliceSteps> found(context, 1);
  const cudaStream_t queue = device::stream(context);
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(found.data(), 0, found.bytes(), queue));
  count_steps<<<blocks_of(pattern.rows, threads), threads, 0, queue>>>(device_pattern(pattern), found.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  return read_back(context, found.data());
}

// Eight threads a row. col is null when only values change.
template <class T, class P>
__global__ void fill_half(DevicePattern a, const T* from, const P* row_ptr, std::int32_t* col, T* values,
                          T* diagonal) {
  const std::int64_t r = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 8;
  if (r >= a.rows) return;
  const std::int64_t begin = a.row_ptr[r], first = row_ptr[r], count = row_ptr[r + 1] - first;
  for (std::int64_t j = threadIdx.x % 8; j < count; j += 8) {
    if (col) col[first + j] = a.col[begin + j];
    values[first + j] = from[begin + j];
  }
  if (threadIdx.x % 8 != 0) return;
  const std::int64_t k = begin + count;
  diagonal[r] = k < a.row_ptr[r + 1] && a.col[k] == r ? from[k] : T(0);
}

// One lane a row. col is null when only values change.
template <class T, class P>
__global__ void fill_slices(DevicePattern a, const T* from, const P* row_ptr, std::int32_t* col, T* values,
                            T* diagonal) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const bool there = r < a.rows;
  const std::int64_t first = there ? a.row_ptr[r] : 0;
  const P begin = there ? row_ptr[r] : 0, length = there ? row_ptr[r + 1] - begin : 0;
  for_slice(length, __shfl_sync(0xffffffffu, begin, 0), [&](P k, P place) {
    if (col) col[place] = a.col[first + k];
    values[place] = from[first + k];
  });
  if (!there) return;
  const std::int64_t k = first + length;
  diagonal[r] = k < a.row_ptr[r + 1] && a.col[k] == r ? from[k] : T(0);
}

// The entries of slices row by row.
template <class T, class P>
__global__ void slices_to_rows(std::int64_t rows, const P* row_ptr, const std::int32_t* col, const T* values,
                               std::int32_t* to_col, T* to_values) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const P begin = r < rows ? row_ptr[r] : 0, length = r < rows ? row_ptr[r + 1] - begin : 0;
  for_slice(length, __shfl_sync(0xffffffffu, begin, 0),
            [&](P k, P place) { to_col[begin + k] = col[place], to_values[begin + k] = values[place]; });
}

// The bits of eight rows.
__global__ void mark_diagonal(DevicePattern a, std::uint8_t* stored) {
  const std::int64_t b = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (8 * b >= a.rows) return;
  unsigned bits = 0;
  for (std::int64_t r = 8 * b; r < a.rows && r < 8 * b + 8; ++r)
    bits |= static_cast<unsigned>(find_entry(a, r, static_cast<std::int32_t>(r)) >= 0) << (r - 8 * b);
  stored[b] = static_cast<std::uint8_t>(bits);
}

// Where the entries above the diagonal are among the entries below it.
template <class P>
struct UpperIndex {
  UpperIndex(const ContextPtr& context, const P* row_ptr, const std::int32_t* col, std::int64_t rows,
             std::int64_t size)
      : ptr(context, rows + 1), upper_col(context, size) {
    Order<P> order(context, col, size, rows);
    compress(*context, order.keys.data(), size, rows, ptr.data());
    Buffer<std::int32_t> row(context, size);
    expand(*context, row_ptr, rows, size, row.data());
    pick(*context, size, order.items.data(), row.data(), upper_col.data());
    place = std::move(order.items);
  }
  std::size_t bytes() const noexcept { return ptr.bytes() + upper_col.bytes() + place.bytes(); }
  Buffer<P> ptr;
  Buffer<std::int32_t> upper_col;
  Buffer<P> place;
};

// The half and the diagonal, and all except the product.
template <class T, class P>
class SssOnDevice : public AssembledMatrix<T> {
 public:
  explicit SssOnDevice(const BuildRequest<T>& request, bool sliced = false)
      : SssOnDevice(request, plan_of<SssDevicePlan>(request.admission), sliced) {}

  CsrMatrix<T> to_csr() const override {
    const detail::DeviceScope scope(*this->context());
    if (sliced_ && size_ > 0) {
      Buffer<std::int32_t> col(this->context(), size_);
      Buffer<T> values(this->context(), values_.size());
      slices_to_rows<<<blocks_of(this->rows(), threads), threads, 0, device::stream(*this->context())>>>(
          this->rows(), row_ptr_.data(), col_.data(), values_.data(), col.data(), values.data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
      device::copy_within(*this->context(), values.data() + size_, values_.data() + size_,
                          static_cast<std::size_t>(this->rows()) * sizeof(T));
      const UpperIndex<P> upper(this->context(), row_ptr_.data(), col.data(), this->rows(), size_);
      SssView<T, P> half = view(&upper);
      half.col = col.data(), half.values = values.data(), half.diagonal = values.data() + size_;
      return csr_from_view<T>(this->context(), this->rows(), this->cols(), this->nonzeros(), half);
    }
    const UpperIndex<P> upper(this->context(), row_ptr_.data(), col_.data(), this->rows(), size_);
    return csr_from_view<T>(this->context(), this->rows(), this->cols(), this->nonzeros(), view(&upper));
  }
  std::size_t bytes() const noexcept override {
    return row_ptr_.bytes() + col_.bytes() + values_.bytes() + stored_.bytes();
  }
  void diagonal(VectorView<T> d) const override {
    const detail::DeviceScope scope(*this->context());
    if (d.size > 0)
      device::copy_within(*this->context(), d.data, values_.data() + size_,
                          static_cast<std::size_t>(d.size) * sizeof(T));
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    require_symmetric(*this->context(), this->entry(), csr);
    fill(csr, false);
  }
  SssView<T, P> view(const UpperIndex<P>* upper) const {
    return {this->rows(),
            row_ptr_.data(),
            col_.data(),
            values_.data(),
            values_.data() + size_,
            stored_.empty() ? nullptr : stored_.data(),
            upper ? upper->ptr.data() : nullptr,
            upper ? upper->upper_col.data() : nullptr,
            upper ? upper->place.data() : nullptr,
            size_};
  }

  Buffer<P> row_ptr_;
  Buffer<std::int32_t> col_;
  Buffer<T> values_;  // values, diagonal
  Buffer<std::uint8_t> stored_;
  std::int64_t size_;
  bool sliced_;  // the order of the entries

 private:
  SssOnDevice(const BuildRequest<T>& request, const SssDevicePlan& plan, bool sliced)
      : AssembledMatrix<T>(request), size_(plan.size), sliced_(sliced) {
    const ContextPtr& context = request.context;
    const SparsityPattern& pattern = request.csr.pattern;
    require_symmetric(*context, request.entry, request.csr);
    const std::int64_t rows = pattern.rows;
    row_ptr_ = Buffer<P>(context, rows + 1), col_ = Buffer<std::int32_t>(context, size_);
    values_ = Buffer<T>(context, size_ + rows);
    stored_ = Buffer<std::uint8_t>(context, plan.gaps ? (rows + 7) / 8 : 0);
    const cudaStream_t queue = device::stream(*context);
    count_below<<<blocks_of(rows + 1, threads), threads, 0, queue>>>(device_pattern(pattern),
                                                                     row_ptr_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::exclusive_scan(*context, row_ptr_.data(), rows + 1);
    if (!stored_.empty()) {
      mark_diagonal<<<blocks_of(stored_.size(), threads), threads, 0, queue>>>(device_pattern(pattern),
                                                                               stored_.data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
    }
    fill(request.csr, true);
  }

  void fill(const CsrMatrix<T>& csr, bool structure) {
    if (csr.rows() == 0) return;
    const auto fill_by = [&](auto* kernel, std::int64_t lanes) {
      kernel<<<blocks_of(csr.rows() * lanes, threads), threads, 0, device::stream(*this->context())>>>(
          device_pattern(csr.pattern), csr.values, row_ptr_.data(), structure ? col_.data() : nullptr,
          values_.data(), values_.data() + size_);
    };
    if (sliced_)
      fill_by(fill_slices<T, P>, 1);
    else
      fill_by(fill_half<T, P>, 8);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
};

template <class T, class P>
class SssRows final : public SssOnDevice<T, P> {
 public:
  using SssOnDevice<T, P>::SssOnDevice;

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const DeviceState& state = this->context()->device_state();
    const std::int64_t rows = this->rows();
    if (rows == 0) return;
    scale(*this->context(), rows, beta, y.data);
    // At least eight blocks for each processor, if there are enough rows.
    int rows_a_block = most_rows;
    while (rows_a_block > 32 && rows < std::int64_t{rows_a_block} * state.processors * 8) rows_a_block /= 2;
    sss_add<<<blocks_of(rows, rows_a_block), threads, 0, state.stream>>>(
        this->view(nullptr), rows_a_block, lanes_for(this->size_, rows), alpha, x.data, y.data, state.stop);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
};

template <class T, class P>
class SssSlices final : public SssOnDevice<T, P> {
 public:
  explicit SssSlices(const BuildRequest<T>& request) : SssOnDevice<T, P>(request, true) {}

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const DeviceState& state = this->context()->device_state();
    if (this->rows() == 0) return;
    const SssView<T, P> view = this->view(nullptr);
    const unsigned blocks = blocks_of(this->rows(), threads);
    device::launch(state, sss_begin<T, P>, blocks, threads, view, alpha, x.data, beta, y.data, state.stop);
    device::launch(state, sss_slices<T, P>, blocks, threads, view, alpha, x.data, y.data, state.stop);
  }
};

template <class T, class P>
class SssGather final : public SssOnDevice<T, P> {
 public:
  explicit SssGather(const BuildRequest<T>& request)
      : SssOnDevice<T, P>(request),
        upper_(request.context, this->row_ptr_.data(), this->col_.data(), this->rows(), this->size_) {}
  std::size_t bytes() const noexcept override { return SssOnDevice<T, P>::bytes() + upper_.bytes(); }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const DeviceState& state = this->context()->device_state();
    const std::int64_t rows = this->rows();
    if (rows == 0) return;
    const int lanes = lanes_for(2 * this->size_, rows);
    sss_gather<<<blocks_of(rows * lanes, threads), threads, 0, state.stream>>>(
        this->view(&upper_), lanes, alpha, x.data, beta, y.data, state.stop);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

 private:
  UpperIndex<P> upper_;
};

// Pointers are as wide as the row pointers it is built from.
template <template <class, class> class Format, class T>
std::unique_ptr<AssembledMatrix<T>> make(const BuildRequest<T>& request) {
  if (request.csr.pattern.row_ptr.width() == 4) return std::make_unique<Format<T, std::int32_t>>(request);
  return std::make_unique<Format<T, std::int64_t>>(request);
}

// A warp waits for the longest row of its slice, and a thread computes a row, so rows must be alike and many; columns
// must be neighbours, so that additions are. Fitted to 17 real matrices on an H200: of those that pass, slices took
// 0.32 to 0.96 of the time of rows, of the others 1.02 to 2.3.
bool takes_slices(const Context& context, std::int64_t rows, const SssDevicePlan& plan) {
  const auto size = static_cast<double>(plan.size);
  return rows >= std::int64_t{context.device_state().processors} * 512 &&
         size >= 0.7 * 32 * static_cast<double>(plan.slices.steps) &&
         2 * static_cast<double>(plan.slices.neighbours) >= size;
}
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_native(const BuildRequest<T>& request) {
  const auto& plan = plan_of<SssDevicePlan>(request.admission);
  if (takes_slices(*request.context, request.csr.rows(), plan)) return make<SssSlices>(request);
  return make<SssRows>(request);
}

// Of the pattern; the maker looks at the values.
Admission admit(const Context& context, const SparsityPattern& p, const FormatParams&,
                std::size_t value_bytes) {
  if (p.rows != p.cols) return Admission::refuse(refusal_of_shape(p));
  const Examined found = examine(context, p, static_cast<const std::uint32_t*>(nullptr));
  if (!found.refusal.empty()) return Admission::refuse(found.refusal);
  auto plan = std::make_shared<SssDevicePlan>();
  plan->size = (p.nonzeros - found.diagonal) / 2, plan->gaps = found.diagonal < p.rows;
  plan->slices = slice_steps(context, p);
  const auto rows = static_cast<std::size_t>(p.rows), size = static_cast<std::size_t>(plan->size);
  Admission admission = Admission::accept(size * (value_bytes + 4) + (rows + 1) * p.row_ptr.width() +
                                              rows * value_bytes + (plan->gaps ? (rows + 7) / 8 : 0),
                                          plan->size + p.rows);
  keep_plan(admission, std::move(plan));
  return admission;
}
Admission admit_gather(const Context& context, const SparsityPattern& p, const FormatParams& params,
                       std::size_t value_bytes) {
  Admission admission = admit(context, p, params, value_bytes);
  if (!admission.ok) return admission;
  const auto size = static_cast<std::size_t>(plan_of<SssDevicePlan>(admission).size);
  admission.bytes +=
      size * (p.row_ptr.width() + 4) + static_cast<std::size_t>(p.rows + 1) * p.row_ptr.width();
  return admission;
}

template <template <class, class> class Format>
constexpr Kernel atomic_kernel(std::string_view name) {
  return {name, false, true, {}, make<Format, double>, make<Format, float>, {}, false};
}

constexpr Kernel kernels[] = {{"native", false, true, {}, make_native<double>, make_native<float>, {}, false},
                              atomic_kernel<SssRows>("rows"),
                              atomic_kernel<SssSlices>("slices"),
                              {"gather",
                               false,
                               true,
                               {},
                               make<SssGather, double>,
                               make<SssGather, float>,
                               "half of the entries are found by an index; a fixed order of the sums",
                               true,
                               false,
                               {},
                               admit_gather}};

}  // namespace

constinit const DeviceCode device_code::sss{kernels, admit};

}  // namespace protean::formats
