// HYB on the device: the arrays of hyb.cpp without empty_row. A slot without an entry has column -1. A thread
// skips it without reading x, so rows without entries need no list.
//
//        | 1 . 2 . |     K = 1   ell_col    = 0 1 -1 0     coo_row    = 0 3 3
//    A = | . 3 . . |             ell_values = 1 3  0 4     coo_col    = 2 1 3
//        | . . . . |                                       coo_values = 2 5 6
//        | 4 5 . 6 |
//
// Both parts are computed in one launch and y is written once. A tile (private/row_tiles.cuh, with the
// lengths of the rows in coordinates) sums the coordinates of its rows; then the thread or warp of each row
// adds the row's slots.
// Bytes: (v + 4) K rows + (v + 8) m, and the tiles. Source: N. Bell, M. Garland, Implementing sparse
// matrix-vector multiplication on throughput-oriented processors, SC 2009, doi:10.1145/1654059.1654078.
#include <limits>

#include "core/device/primitives.hpp"
#include "formats/device_support.cuh"
#include "formats/private/coo_tiles.cuh"

namespace protean::formats {
namespace {

template <class T>
struct HybSource : CooSource<T> {
  std::int64_t rows, slots;
  const std::int32_t* ell_col;
  const T* ell_values;
  __device__ T more(std::int64_t row, int first, int step, const T* x) const {
    T sum = 0;
#pragma unroll 4
    for (std::int64_t slot = first; slot < slots; slot += step) {
      const std::int64_t at = slot * rows + row;
      if (const std::int32_t c = __ldg(ell_col + at); c >= 0) sum += __ldg(ell_values + at) * __ldg(x + c);
    }
    return sum;
  }
};

struct HybCounts {
  unsigned long long longer;   // rows with more than K entries
  unsigned long long entries;  // in the first K slots
};

template <class P>
__global__ void count_rows(std::int64_t rows, const P* row_ptr, std::int64_t slots, HybCounts* result) {
  unsigned long long longer = 0, entries = 0;
  for (std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; r < rows;
       r += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t length = row_ptr[r + 1] - row_ptr[r];
    longer += length > slots, entries += length < slots ? length : slots;
  }
  longer = device::sum_lanes(longer), entries = device::sum_lanes(entries);
  if (threadIdx.x % 32 == 0) atomicAdd(&result->longer, longer), atomicAdd(&result->entries, entries);
}

// tail[r] := number of entries of row r in coordinates; tail[rows] := 0
template <class P>
__global__ void tail_lengths(std::int64_t rows, const P* row_ptr, std::int64_t slots, P* tail) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r > rows) return;
  const std::int64_t length = r < rows ? row_ptr[r + 1] - row_ptr[r] : 0;
  tail[r] = static_cast<P>(length > slots ? length - slots : 0);
}

template <class T>
struct HybArrays {
  std::int64_t rows, slots, tail;
  std::int32_t* ell_col;
  T* ell_values;
  std::int32_t *coo_row, *coo_col;
  T* coo_values;
};

// col is null when only values change.
template <class T, class P>
__global__ void fill_slots(HybArrays<T> a, const P* row_ptr, const std::int32_t* col, const T* values) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r >= a.rows) return;
  const std::int64_t begin = row_ptr[r], end = row_ptr[r + 1];
  for (std::int64_t slot = 0; slot < a.slots; ++slot) {
    const bool there = begin + slot < end;
    if (col) a.ell_col[slot * a.rows + r] = there ? col[begin + slot] : -1;
    a.ell_values[slot * a.rows + r] = there ? values[begin + slot] : T(0);
  }
}

// Expects coo_row. Coordinate t is entry t - (the first coordinate of its row) + K of its row.
template <class T, class P>
__global__ void fill_tail(HybArrays<T> a, const P* row_ptr, const std::int32_t* col, const T* values) {
  const std::int64_t t = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (t >= a.tail) return;
  const std::int32_t row = a.coo_row[t];
  const std::int64_t k = row_ptr[row] + a.slots + t - first_not_below(a.coo_row, a.tail, row);
  if (col) a.coo_col[t] = col[k];
  a.coo_values[t] = values[k];
}

// row_ptr[r] := length of row r, row_ptr[rows] := 0
template <class T, class P>
__global__ void row_lengths(HybArrays<T> a, P* row_ptr) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r > a.rows) return;
  std::int64_t length = 0;
  if (r < a.rows) {
    while (length < a.slots && a.ell_col[length * a.rows + r] >= 0) ++length;
    if (length == a.slots)
      length += first_not_below(a.coo_row, a.tail, r + 1) - first_not_below(a.coo_row, a.tail, r);
  }
  row_ptr[r] = static_cast<P>(length);
}

template <class T, class P>
__global__ void take_slots(HybArrays<T> a, const P* row_ptr, std::int32_t* col, T* values) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r >= a.rows) return;
  const std::int64_t count = min(static_cast<std::int64_t>(row_ptr[r + 1] - row_ptr[r]), a.slots);
  for (std::int64_t slot = 0; slot < count; ++slot) {
    col[row_ptr[r] + slot] = a.ell_col[slot * a.rows + r];
    values[row_ptr[r] + slot] = a.ell_values[slot * a.rows + r];
  }
}

template <class T, class P>
__global__ void take_tail(HybArrays<T> a, const P* row_ptr, std::int32_t* col, T* values) {
  const std::int64_t t = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (t >= a.tail) return;
  const std::int32_t row = a.coo_row[t];
  const std::int64_t k = row_ptr[row] + a.slots + t - first_not_below(a.coo_row, a.tail, row);
  col[k] = a.coo_col[t], values[k] = a.coo_values[t];
}

template <class T>
__global__ void hyb_diagonal(HybArrays<T> a, std::int64_t size, T* diagonal) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r >= size) return;
  T found = 0;
  bool full = true;
  for (std::int64_t slot = 0; slot < a.slots; ++slot) {
    const std::int32_t c = a.ell_col[slot * a.rows + r];
    if (c == r) found = a.ell_values[slot * a.rows + r];
    full = full && c >= 0 && c < r;
  }
  if (full)
    for (std::int64_t t = first_not_below(a.coo_row, a.tail, r); t < a.tail && a.coo_row[t] == r; ++t)
      if (a.coo_col[t] >= r) {
        if (a.coo_col[t] == r) found = a.coo_values[t];
        break;
      }
  diagonal[r] = found;
}

constexpr int threads = 256;

struct HybShape {
  std::int64_t slots = 0, tail = 0, pieces = 0;  // K, entries in coordinates, pieces of long rows of these
};

// Row pointers of the coordinates.
template <class P>
Buffer<P> tail_pointers(const ContextPtr& context, std::int64_t rows, const P* row_ptr, std::int64_t slots) {
  Buffer<P> tail(context, rows + 1);
  tail_lengths<<<blocks_of(rows + 1, threads), threads, 0, device::stream(*context)>>>(rows, row_ptr, slots,
                                                                                       tail.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  device::exclusive_scan(*context, tail.data(), tail.size());
  return tail;
}

// The number of pieces of long rows of the coordinates. Their pointers are not kept.
template <class P>
__global__ void count_tail_pieces(std::int64_t rows, const P* row_ptr, std::int64_t slots,
                                  unsigned long long* count) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  if (const std::int64_t pieces = pieces_of_row(row_ptr[r + 1] - row_ptr[r] - slots))
    atomicAdd(count, static_cast<unsigned long long>(pieces));
}

HybShape hyb_shape(const Context& context, const SparsityPattern& pattern, const FormatParams& params) {
  const std::int64_t wanted = params.integer("K"), break_even = params.integer("break_even");
  const std::int64_t rows = pattern.rows;
  HybShape shape;
  if (rows == 0) return shape;
  const cudaStream_t stream = device::stream(context);
  device::Scratch<HybCounts> result(context, 1);
  device::Scratch<unsigned long long> pieces(context, 1);
  const auto count = [&](std::int64_t slots) {
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(result.data(), 0, result.bytes(), stream));
    pattern.row_ptr.visit([&](auto* row_ptr) {
      count_rows<<<std::min(1024u, blocks_of(rows, threads)), threads, 0, stream>>>(rows, row_ptr, slots,
                                                                                    result.data());
    });
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    return read_back(context, result.data());
  };
  // K is at most three times the mean: fewer than a third of the rows can be longer than that.
  std::int64_t low = 0, high = std::min(pattern.cols, 3 * (pattern.nonzeros / rows + 1));
  if (wanted >= 0) low = high = std::min(wanted, pattern.cols);
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    const auto longer = static_cast<std::int64_t>(count(middle).longer);
    if (longer == 0 || 3 * longer < rows || longer < break_even)
      high = middle;
    else
      low = middle + 1;
  }
  shape.slots = low;
  shape.tail = pattern.nonzeros - static_cast<std::int64_t>(count(low).entries);
  if (shape.tail <= tile_items) return shape;
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(pieces.data(), 0, pieces.bytes(), stream));
  pattern.row_ptr.visit([&](auto* row_ptr) {
    count_tail_pieces<<<blocks_of(rows, threads), threads, 0, stream>>>(rows, row_ptr, low, pieces.data());
  });
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  shape.pieces = static_cast<std::int64_t>(read_back(context, pieces.data()));
  return shape;
}

template <class T>
class HybDevice final : public AssembledMatrix<T>, public HasApplyDot<T> {
 public:
  explicit HybDevice(const BuildRequest<T>& request)
      : AssembledMatrix<T>(request), shape_(plan_of<HybShape>(request.admission)) {
    const ContextPtr& context = request.context;
    const SparsityPattern& pattern = request.csr.pattern;
    ell_col_ = Buffer<std::int32_t>(context, shape_.slots * pattern.rows);
    ell_values_ = Buffer<T>(context, shape_.slots * pattern.rows);
    coo_row_ = Buffer<std::int32_t>(context, shape_.tail);
    coo_col_ = Buffer<std::int32_t>(context, shape_.tail);
    coo_values_ = Buffer<T>(context, shape_.tail);
    pattern.row_ptr.visit([&](auto* row_ptr) {
      const auto tail = tail_pointers(context, pattern.rows, row_ptr, shape_.slots);
      tiles_ = RowTiles<T>(context, pattern.rows, shape_.tail, tail.data(), shape_.pieces);
      expand(*context, tail.data(), pattern.rows, shape_.tail, coo_row_.data());
    });
    fill(request.csr, request.csr.pattern.col);
  }

  CsrMatrix<T> to_csr() const override {
    const detail::DeviceScope scope(*this->context());
    CsrBuilder<T> builder(this->context(), this->rows(), this->cols(), this->nonzeros());
    const auto build = [&](auto* row_ptr) {
      const cudaStream_t stream = device::stream(*this->context());
      const std::int64_t rows = this->rows();
      row_lengths<<<blocks_of(rows + 1, threads), threads, 0, stream>>>(arrays(), row_ptr);
      device::exclusive_scan(*this->context(), row_ptr, rows + 1);
      if (rows > 0)
        take_slots<<<blocks_of(rows, threads), threads, 0, stream>>>(arrays(), row_ptr, builder.col(),
                                                                     builder.values());
      if (shape_.tail > 0)
        take_tail<<<blocks_of(shape_.tail, threads), threads, 0, stream>>>(arrays(), row_ptr, builder.col(),
                                                                           builder.values());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
    };
    if (builder.row_ptr32())
      build(builder.row_ptr32());
    else
      build(builder.row_ptr64());
    return builder.freeze();
  }
  std::size_t bytes() const noexcept override {
    return ell_col_.bytes() + ell_values_.bytes() + coo_row_.bytes() + coo_col_.bytes() +
           coo_values_.bytes() + tiles_.bytes();
  }
  void diagonal(VectorView<T> d) const override {
    const detail::DeviceScope scope(*this->context());
    if (d.size == 0) return;
    hyb_diagonal<<<blocks_of(d.size, threads), threads, 0, device::stream(*this->context())>>>(
        arrays(), d.size, d.data);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    multiply_tiles_dot(*this->context(), source(), tiles_.view(), x.data, y.data, result);
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override { fill(csr, nullptr); }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    multiply_tiles(*this->context(), source(), tiles_.view(), alpha, x.data, beta, y.data);
  }

 private:
  HybArrays<T> arrays() const {
    return {this->rows(),
            shape_.slots,
            shape_.tail,
            const_cast<std::int32_t*>(ell_col_.data()),
            const_cast<T*>(ell_values_.data()),
            const_cast<std::int32_t*>(coo_row_.data()),
            const_cast<std::int32_t*>(coo_col_.data()),
            const_cast<T*>(coo_values_.data())};
  }
  HybSource<T> source() const {
    return {{coo_row_.data(), coo_col_.data(), coo_values_.data()},
            this->rows(),
            shape_.slots,
            ell_col_.data(),
            ell_values_.data()};
  }
  // All values, and the columns unless col is null.
  void fill(const CsrMatrix<T>& csr, const std::int32_t* col) {
    const cudaStream_t stream = device::stream(*this->context());
    csr.pattern.row_ptr.visit([&](auto* row_ptr) {
      if (csr.rows() > 0 && shape_.slots > 0)
        fill_slots<<<blocks_of(csr.rows(), threads), threads, 0, stream>>>(arrays(), row_ptr, col,
                                                                           csr.values);
      if (shape_.tail > 0)
        fill_tail<<<blocks_of(shape_.tail, threads), threads, 0, stream>>>(arrays(), row_ptr, col,
                                                                           csr.values);
    });
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  HybShape shape_;
  Buffer<std::int32_t> ell_col_;
  Buffer<T> ell_values_;
  Buffer<std::int32_t> coo_row_, coo_col_;
  Buffer<T> coo_values_;
  RowTiles<T> tiles_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan = std::make_shared<const HybShape>(hyb_shape(context, pattern, params));
  const HybShape& shape = *plan;
  const std::size_t ell = static_cast<std::size_t>(shape.slots) * pattern.rows, tail = shape.tail;
  if (ell > std::numeric_limits<std::int64_t>::max() / 32)
    return Admission::refuse("K times the number of rows is larger than any memory; take a smaller K");
  Admission admission = Admission::accept(ell * (value_bytes + 4) + tail * (value_bytes + 8) +
                                              tile_bytes(pattern.rows, shape.tail, shape.pieces, value_bytes),
                                          static_cast<std::int64_t>(ell + tail));
  keep_plan(admission, std::move(plan));
  return admission;
}

constexpr Kernel kernels[] = {device_kernel<HybDevice>("native")};

}  // namespace

namespace device_code {
extern const DeviceCode hyb;
constinit const DeviceCode hyb{kernels, admit};
}  // namespace device_code

}  // namespace protean::formats
