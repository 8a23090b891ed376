// The device side of jags_of_columns.hpp. Private to formats/.
#pragma once
#include <bit>

#include "core/bisect.hpp"
#include "formats/engines/jags/jags_of_columns.hpp"
#include "formats/engines/view/device_rows.cuh"
#include "formats/engines/view/expand.cuh"

namespace protean::formats {

inline int bits_of(std::int64_t count) {
  return std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(1, count - 1)));
}

// keys[k] := the band and the column of entry k of the rows.
static __global__ void band_keys(std::int64_t size, const std::int32_t* row, const std::int32_t* col,
                                 std::int64_t height, int col_bits, std::uint64_t* keys) {
  const std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (k < size)
    keys[k] = static_cast<std::uint64_t>(row[k] / height) << col_bits | static_cast<std::uint32_t>(col[k]);
}

// A run is the part of a column in a band: equal keys. heads[k] := 1 if a run begins at k.
static __global__ void run_heads(std::int64_t size, const std::uint64_t* keys, std::int64_t* heads) {
  const std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (k <= size) heads[k] = k < size && (k == 0 || keys[k] != keys[k - 1]);
}
static __global__ void list_runs(std::int64_t size, const std::uint64_t* keys, const std::int64_t* before,
                                 std::int64_t* run_start, std::uint64_t* run_key) {
  const std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (k > size) return;
  if (k == size)
    run_start[before[k]] = size;
  else if (before[k + 1] > before[k])
    run_start[before[k]] = k, run_key[before[k]] = keys[k];
}
static __global__ void longest_run(std::int64_t runs, const std::int64_t* run_start,
                                   unsigned long long* longest) {
  const std::int64_t u = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  unsigned long long length = 0;
  if (u < runs) length = static_cast<unsigned long long>(run_start[u + 1] - run_start[u]);
  for (int step = 16; step > 0; step /= 2) length = max(length, __shfl_xor_sync(0xffffffffu, length, step));
  if (threadIdx.x % 32 == 0 && length > 0) atomicMax(longest, length);
}

// Sorts the runs of a band by descending length.
static __global__ void run_orders(std::int64_t runs, const std::int64_t* run_start,
                                  const std::uint64_t* run_key, int col_bits, std::int64_t longest,
                                  std::uint64_t* orders, std::int64_t* items) {
  const std::int64_t u = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (u >= runs) return;
  const std::uint64_t shorter = static_cast<std::uint64_t>(longest - (run_start[u + 1] - run_start[u]));
  orders[u] = (run_key[u] >> col_bits) * static_cast<std::uint64_t>(longest + 1) + shorter;
  items[u] = u;
}
static __global__ void place_runs(std::int64_t runs, const std::int64_t* run_at, const std::uint64_t* run_key,
                                  int col_bits, std::int32_t* col_perm, std::int64_t* position) {
  const std::int64_t q = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (q >= runs) return;
  col_perm[q] = static_cast<std::int32_t>(run_key[run_at[q]] & ((std::uint64_t{1} << col_bits) - 1));
  position[run_at[q]] = q;
}

// Positions before each band; then the jags of each band.
static __global__ void band_positions(std::int64_t bands, std::int64_t runs, const std::uint64_t* run_key,
                                      int col_bits, std::int64_t* band_col) {
  const std::int64_t b = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (b > bands) return;
  const std::int64_t low = first_where<std::int64_t>(
      0, runs, [&](std::int64_t i) { return static_cast<std::int64_t>(run_key[i] >> col_bits) >= b; });
  band_col[b] = low;
}
static __global__ void band_jags(std::int64_t bands, const std::int64_t* band_col, const std::int64_t* run_at,
                                 const std::int64_t* run_start, std::int64_t* jags) {
  const std::int64_t b = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (b > bands) return;
  jags[b] = 0;
  if (b == bands || band_col[b] == band_col[b + 1]) return;
  const std::int64_t first = run_at[band_col[b]];
  jags[b] = run_start[first + 1] - run_start[first];
}
// length[j] := the columns that have an entry in jag j.
static __global__ void column_jags(std::int64_t bands, std::int64_t jags, const std::int64_t* band_col,
                                   const std::int64_t* band_jag, const std::int64_t* run_at,
                                   const std::int64_t* run_start, std::int64_t* length) {
  const std::int64_t j = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (j >= jags) return;
  const std::int64_t b = last_begin(band_jag, bands, j), k = j - band_jag[b];
  const std::int64_t shorter = first_where<std::int64_t>(band_col[b], band_col[b + 1], [&](std::int64_t i) {
    const std::int64_t u = run_at[i];
    return run_start[u + 1] - run_start[u] <= k;
  });
  length[j] = shorter - band_col[b];
}

// The rows of entries that are sorted by band and column, in their places.
template <class R>
__global__ void place_rows(std::int64_t size, ColumnJags<float, R> a, const std::int64_t* run_start,
                           const std::int64_t* position, const std::int32_t* sorted_row, R* row) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= size) return;
  const std::int64_t u = last_begin(run_start, a.positions, i), k = i - run_start[u], q = position[u];
  const std::int64_t b = sorted_row[i] / a.height;
  row[a.jag_ptr[a.jag_begin(b) + k] + q - a.col_begin(b)] = static_cast<R>(sorted_row[i] - b * a.height);
}

// What admit() finds: all except values. Its arrays are kept until the matrix is made.
struct ColumnJagPlanOnDevice {
  template <class N>
  using Kept = std::unique_ptr<device::Scratch<N>>;
  ColumnJagSizes sizes;
  Kept<std::int64_t> run_start, position, band_col, band_jag, jag_ptr;
  Kept<std::int32_t> sorted_row, col_perm;

  ColumnJagPlanOnDevice(const Context& context, const SparsityPattern& pattern, std::int64_t height)
      : sizes(bands_of(pattern.rows, height)) {
    const cudaStream_t queue = device::stream(context);
    constexpr int threads = device::block_size;
    const std::int64_t size = pattern.nonzeros;
    const int col_bits = bits_of(pattern.cols);
    make(context, band_col, sizes.bands + 1), make(context, band_jag, sizes.bands + 1);
    make(context, sorted_row, size);
    Kept<std::int64_t> run_at;
    if (size > 0) {
      const device::Scratch<std::uint64_t> keys(context, size);
      pattern.row_ptr.visit(
          [&](auto* row_ptr) { expand(context, row_ptr, pattern.rows, size, sorted_row->data()); });
      band_keys<<<blocks_of(size), threads, 0, queue>>>(size, sorted_row->data(), pattern.col, sizes.height,
                                                        col_bits, keys.data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
      device::sort_pairs(context, keys.data(), sorted_row->data(), size, col_bits + bits_of(sizes.bands));
      const device::Scratch<std::int64_t> before(context, size + 1);
      run_heads<<<blocks_of(size + 1), threads, 0, queue>>>(size, keys.data(), before.data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
      device::exclusive_scan(context, before.data(), size + 1);
      const std::int64_t runs = read_back(context, before.data() + size);
      sizes.positions = runs;
      make(context, run_start, runs + 1), make(context, position, runs), make(context, run_at, runs);
      make(context, col_perm, runs);
      const device::Scratch<std::uint64_t> run_key(context, runs), orders(context, runs);
      const device::Scratch<unsigned long long> found(context, 1);
      PROTEAN_CUDA_CHECK(cudaMemsetAsync(found.data(), 0, 8, queue));
      list_runs<<<blocks_of(size + 1), threads, 0, queue>>>(size, keys.data(), before.data(),
                                                            run_start->data(), run_key.data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
      longest_run<<<blocks_of(runs), threads, 0, queue>>>(runs, run_start->data(), found.data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
      const auto longest = static_cast<std::int64_t>(read_back(context, found.data()));
      run_orders<<<blocks_of(runs), threads, 0, queue>>>(runs, run_start->data(), run_key.data(), col_bits,
                                                         longest, orders.data(), run_at->data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
      device::sort_pairs(context, orders.data(), run_at->data(), runs,
                         bits_of(sizes.bands * (longest + 1) + 1));
      place_runs<<<blocks_of(runs), threads, 0, queue>>>(runs, run_at->data(), run_key.data(), col_bits,
                                                         col_perm->data(), position->data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
      band_positions<<<blocks_of(sizes.bands + 1), threads, 0, queue>>>(sizes.bands, runs, run_key.data(),
                                                                        col_bits, band_col->data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
      band_jags<<<blocks_of(sizes.bands + 1), threads, 0, queue>>>(
          sizes.bands, band_col->data(), run_at->data(), run_start->data(), band_jag->data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
      device::exclusive_scan(context, band_jag->data(), sizes.bands + 1);
      sizes.jags = read_back(context, band_jag->data() + sizes.bands);
    } else {
      PROTEAN_CUDA_CHECK(cudaMemsetAsync(band_col->data(), 0, band_col->bytes(), queue));
      PROTEAN_CUDA_CHECK(cudaMemsetAsync(band_jag->data(), 0, band_jag->bytes(), queue));
      make(context, run_start, 0), make(context, position, 0), make(context, col_perm, 0);
    }
    make(context, jag_ptr, sizes.jags + 1);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(jag_ptr->data(), 0, jag_ptr->bytes(), queue));
    if (sizes.jags == 0) return;
    column_jags<<<blocks_of(sizes.jags), threads, 0, queue>>>(sizes.bands, sizes.jags, band_col->data(),
                                                              band_jag->data(), run_at->data(),
                                                              run_start->data(), jag_ptr->data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::exclusive_scan(context, jag_ptr->data(), sizes.jags + 1);
  }

 private:
  template <class N>
  static void make(const Context& context, Kept<N>& to, std::int64_t size) {
    to = std::make_unique<device::Scratch<N>>(context, size);
  }
};

// The row and the column of the entry at a place.
struct PlacedEntry {
  std::int64_t row;
  std::int32_t col;
};
template <class T, class R>
__device__ PlacedEntry entry_at(const ColumnJags<T, R>& a, std::int64_t place) {
  const std::int64_t j = last_begin(a.jag_ptr, a.jags, place);
  const std::int64_t b = a.band_jag ? last_begin(a.band_jag, a.bands, j) : 0;
  return {b * a.height + a.row[place], a.col_perm[a.col_begin(b) + place - a.jag_ptr[j]]};
}

template <class T, class R>
__global__ void column_jag_update(ColumnJags<T, R> a, std::int64_t size, DeviceRows<T> from, T* values) {
  const std::int64_t place = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (place >= size) return;
  const PlacedEntry entry = entry_at(a, place);
  const std::int64_t low =
      first_where<std::int64_t>(from.row_ptr[entry.row], from.row_ptr[entry.row + 1] - 1,
                                [&](std::int64_t i) { return from.col[i] >= entry.col; });
  values[place] = from.values[low];
}

template <class T, class R>
__global__ void column_jag_diagonal(ColumnJags<T, R> a, std::int64_t size, T* diagonal) {
  const std::int64_t place = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (place >= size) return;
  const PlacedEntry entry = entry_at(a, place);
  if (entry.row == entry.col) diagonal[entry.row] = a.values[place];
}

template <class T, class R>
__global__ void column_jag_keys(ColumnJags<T, R> a, std::int64_t size, int col_bits, std::uint64_t* keys,
                                std::int64_t* items) {
  const std::int64_t place = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (place >= size) return;
  const PlacedEntry entry = entry_at(a, place);
  keys[place] = static_cast<std::uint64_t>(entry.row) << col_bits | static_cast<std::uint32_t>(entry.col);
  items[place] = place;
}
template <class T, class N>
__global__ void rows_from_keys(std::int64_t rows, std::int64_t size, int col_bits, const std::uint64_t* keys,
                               const std::int64_t* items, const T* values, N* row_ptr, std::int32_t* to_col,
                               T* to_values) {
  const std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (k < size) {
    to_col[k] = static_cast<std::int32_t>(keys[k] & ((std::uint64_t{1} << col_bits) - 1));
    to_values[k] = values[items[k]];
  }
  if (k > rows) return;
  const std::int64_t low = first_where<std::int64_t>(
      0, size, [&](std::int64_t i) { return static_cast<std::int64_t>(keys[i] >> col_bits) >= k; });
  row_ptr[k] = static_cast<N>(low);
}

// What tjad and btjad have in common on a device: all except the product.
template <class T, class R>
class ColumnJagDevice : public AssembledMatrix<T> {
 public:
  ColumnJagDevice(const BuildRequest<T>& request, bool banded)
      : AssembledMatrix<T>(request), sizes_(plan_of<ColumnJagPlanOnDevice>(request.admission).sizes) {
    const ColumnJagPlanOnDevice& plan = plan_of<ColumnJagPlanOnDevice>(request.admission);
    const ContextPtr& context = request.context;
    const std::int64_t size = this->nonzeros();
    jag_ptr_ = copy_of(context, *plan.jag_ptr), col_perm_ = copy_of(context, *plan.col_perm);
    if (banded) band_col_ = copy_of(context, *plan.band_col), band_jag_ = copy_of(context, *plan.band_jag);
    row_ = Buffer<R>(context, size), values_ = Buffer<T>(context, size);
    if (size == 0) return;
    const ColumnJags<T, R> a = jags();
    const ColumnJags<float, R> places{nullptr, a.row,    a.col_perm, a.jag_ptr,   a.band_col, a.band_jag,
                                      a.rows,  a.height, a.bands,    a.positions, a.jags};
    place_rows<<<blocks_of(size), device::block_size, 0, queue()>>>(
        size, places, plan.run_start->data(), plan.position->data(), plan.sorted_row->data(), row_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    do_update_values(request.csr);
  }

  CsrMatrix<T> to_csr() const override {
    const detail::DeviceScope scope(*this->context());
    const ContextPtr& context = this->context();
    const std::int64_t size = this->nonzeros(), rows = this->rows();
    CsrBuilder<T> builder(context, rows, this->cols(), size);
    const device::Scratch<std::uint64_t> keys(*context, size);
    const device::Scratch<std::int64_t> items(*context, size);
    const int col_bits = bits_of(this->cols());
    if (size > 0) {
      column_jag_keys<<<blocks_of(size), device::block_size, 0, queue()>>>(jags(), size, col_bits,
                                                                           keys.data(), items.data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
      device::sort_pairs(*context, keys.data(), items.data(), size, col_bits + bits_of(rows));
    }
    const auto write = [&](auto* row_ptr) {
      rows_from_keys<<<blocks_of(std::max(size, rows + 1)), device::block_size, 0, queue()>>>(
          rows, size, col_bits, keys.data(), items.data(), values_.data(), row_ptr, builder.col(),
          builder.values());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
    };
    if (builder.row_ptr32())
      write(builder.row_ptr32());
    else
      write(builder.row_ptr64());
    return builder.freeze();
  }
  void diagonal(VectorView<T> d) const override {
    const detail::DeviceScope scope(*this->context());
    if (d.size == 0) return;
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(d.data, 0, static_cast<std::size_t>(d.size) * sizeof(T), queue()));
    if (this->nonzeros() == 0) return;
    column_jag_diagonal<<<blocks_of(this->nonzeros()), device::block_size, 0, queue()>>>(
        jags(), this->nonzeros(), d.data);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
  std::size_t bytes() const noexcept override {
    return jag_ptr_.bytes() + col_perm_.bytes() + band_col_.bytes() + band_jag_.bytes() + row_.bytes() +
           values_.bytes();
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    if (this->nonzeros() == 0) return;
    const DeviceRows<T> from{
        csr.rows(), {csr.pattern.row_ptr.p32, csr.pattern.row_ptr.p64}, csr.pattern.col, csr.values};
    column_jag_update<<<blocks_of(this->nonzeros()), device::block_size, 0, queue()>>>(
        jags(), this->nonzeros(), from, values_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
  ColumnJags<T, R> jags() const noexcept {
    return {values_.data(),
            row_.data(),
            col_perm_.data(),
            jag_ptr_.data(),
            band_col_.empty() ? nullptr : band_col_.data(),
            band_jag_.empty() ? nullptr : band_jag_.data(),
            this->rows(),
            sizes_.height,
            sizes_.bands,
            sizes_.positions,
            sizes_.jags};
  }

 private:
  cudaStream_t queue() const { return device::stream(*this->context()); }

  ColumnJagSizes sizes_;
  Buffer<std::int64_t> jag_ptr_, band_col_, band_jag_;
  Buffer<std::int32_t> col_perm_;
  Buffer<R> row_;
  Buffer<T> values_;
};

}  // namespace protean::formats
