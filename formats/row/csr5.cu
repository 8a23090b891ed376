// CSR5 on the device: the layout of csr5.cpp with omega = 32. A warp computes a tile. Each lane adds its entries one
// after another; a row that lies within the lane is finished there; the sums of a row over several lanes are added by
// shuffles. The row that began in an earlier tile leaves a carry; a second launch adds the carries
// (engines/runs/runs.cuh). A warp computes each row of the entries after the last full tile, in the first launch. Rows
// without entries, if there are any, have a launch of their own. The order of the sums is fixed.
//
// Further array: carry [tiles], which each product overwrites.
#include "core/device/primitives.hpp"
#include "formats/engines/runs/runs.cuh"
#include "formats/engines/view/row_view.cuh"
#include "formats/entries.hpp"
#include "formats/row/csr5.hpp"

namespace protean::formats {
namespace {

constexpr int csr5_threads = 128, csr5_warps = csr5_threads / 32;

// The number of entries of a lane, as in the authors' program.
int csr5_depth(const SparsityPattern& pattern) {
  const std::int64_t mean = pattern.rows > 0 ? pattern.nonzeros / pattern.rows : 0;
  if (mean > 256) return 6;
  return static_cast<int>(std::clamp<std::int64_t>(mean, 4, 32));
}
Csr5Shape device_shape(const SparsityPattern& pattern, const FormatParams& params) {
  return csr5_shape(params, 32, csr5_depth(pattern));
}

// Calls f(s, row) for each entry s of the `count` entries from k on that is the first of a row. They lie in rows first
// to last.
template <class P, class F>
__device__ inline void walk_lane(const P* row_ptr, std::int64_t first, std::int64_t last, std::int64_t k,
                                 int count, F&& f) {
  std::int64_t row = row_with(row_ptr, first, last, k);
  if (row_ptr[row] == k) f(0, row);
  for (;;) {
    const std::int64_t next = row_ptr[row + 1];
    if (next >= k + count) return;
    row = row_with(row_ptr, row + 1, last, next);
    f(static_cast<int>(next - k), row);
  }
}

// The rows of tile t of `tiles`: the row of its first entry, and the row of the next tile's first entry.
struct TileRows {
  std::int64_t first, next;
};
template <class P>
__device__ inline TileRows rows_of_tile(const P* row_ptr, std::int64_t rows, std::int64_t tiles,
                                        std::int64_t size, std::int64_t t) {
  const std::int64_t first = row_with(row_ptr, 0, rows - 1, t * size);
  return {first, t + 1 < tiles ? row_with(row_ptr, first, rows - 1, (t + 1) * size) : rows};
}

// Tile pointers, descriptors and, in empty_ptr, the number of offsets of each tile; a warp each. If tile_ptr is null,
// it only adds up the offsets.
template <class P>
__global__ void __launch_bounds__(csr5_threads)
    describe_tiles(std::int64_t rows, std::int64_t tiles, std::int64_t full, const P* row_ptr,
                   Csr5Shape shape, std::uint32_t* tile_ptr, std::uint32_t* tile_desc,
                   std::int64_t* empty_ptr, unsigned long long* offsets) {
  device::wait_for_stream();
  const int lane = threadIdx.x % 32;
  const std::int64_t t = std::int64_t{blockIdx.x} * csr5_warps + threadIdx.x / 32;
  if (t >= tiles) return;
  const TileRows in_tile = rows_of_tile(row_ptr, rows, tiles, shape.entries(), t);
  bool empty = false;
  for (std::int64_t r = in_tile.first; r < in_tile.next && !empty; r += 32)
    empty = __any_sync(0xffffffffu, r + lane < in_tile.next && row_ptr[r + lane] == row_ptr[r + lane + 1]);
  if (tile_ptr && lane == 0)
    tile_ptr[t] = static_cast<std::uint32_t>(in_tile.first) | (empty ? csr5_dirty : 0u);
  if (t >= full) return;
  std::uint32_t starts = lane == 0 ? 0x80000000u : 0u;
  walk_lane(row_ptr, in_tile.first, min(in_tile.next, rows - 1), t * shape.entries() + lane * shape.sigma,
            shape.sigma, [&](int s, std::int64_t) { starts |= 0x80000000u >> s; });
  __syncwarp();
  int up_to = __popc(starts);
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(0xffffffffu, up_to, step);
    if (step <= lane) up_to += other;
  }
  const int all = __shfl_sync(0xffffffffu, up_to, 31);
  const unsigned used = __ballot_sync(0xffffffffu, starts != 0);
  const unsigned later = lane < 31 ? used >> (lane + 1) : 0;
  if (tile_ptr) {
    const Csr5Lane mine{up_to - __popc(starts), later ? __ffs(static_cast<int>(later)) - 1 : 31 - lane,
                        starts};
    shape.encode(mine, tile_desc + t * shape.packets() * 32 + lane);
    if (lane == 0) empty_ptr[t] = empty ? all : 0;
  } else if (lane == 0 && empty) {
    atomicAdd(offsets, static_cast<unsigned long long>(all));
  }
}

template <class P>
__global__ void __launch_bounds__(csr5_threads)
    write_offsets(std::int64_t rows, std::int64_t tiles, std::int64_t full, const P* row_ptr, Csr5Shape shape,
                  const std::uint32_t* tile_ptr, const std::uint32_t* tile_desc,
                  const std::int64_t* empty_ptr, std::int32_t* empty_off) {
  device::wait_for_stream();
  const int lane = threadIdx.x % 32;
  const std::int64_t t = std::int64_t{blockIdx.x} * csr5_warps + threadIdx.x / 32;
  if (t >= full || (tile_ptr[t] & csr5_dirty) == 0) return;
  const TileRows in_tile = rows_of_tile(row_ptr, rows, tiles, shape.entries(), t);
  std::int32_t* to =
      empty_off + empty_ptr[t] + shape.decode(tile_desc + t * shape.packets() * 32 + lane).y_offset;
  if (lane == 0) *to++ = 0;
  walk_lane(row_ptr, in_tile.first, min(in_tile.next, rows - 1), t * shape.entries() + lane * shape.sigma,
            shape.sigma, [&](int s, std::int64_t row) {
              if (lane > 0 || s > 0) *to++ = static_cast<std::int32_t>(row - in_tile.first);
            });
}

template <class N>
__global__ void transpose_tiles(std::int64_t size, std::int64_t full, Csr5Shape shape, const N* from, N* to) {
  device::wait_for_stream();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < size) to[i] = from[shape.entry(full, i)];
}

// The row of the carry of a tile.
template <class T>
struct Csr5CarryRow {
  Csr5View<T> a;
  __device__ std::int64_t operator()(std::int64_t t) const { return a.continued(t) ? a.first_row(t) : -1; }
};

// Row `tail_row` + i by warp full + i, its entries after the last full tile.
template <class T>
__device__ inline void row_of_rest(const Csr5View<T>& a, std::int64_t row, const ProductTask<T>& task,
                                   T* carry) {
  const std::int64_t first = a.full * a.shape.entries(), row_begin = a.row_ptr(row);
  const std::int64_t begin = max(row_begin, first), end = a.row_ptr(row + 1);
  if (begin >= end) return;
  T sum = 0;
  for (std::int64_t k = begin + threadIdx.x % 32; k < end; k += 32)
    sum += __ldcs(a.values + k) * __ldg(task.x + __ldcs(a.col + k));
  sum = device::sum_lanes(sum);
  if (threadIdx.x % 32 != 0) return;
  if (row_begin < first)
    carry[a.full] = sum;
  else
    store(task.alpha, sum, task.beta, task.y + row);
}

template <class T>
__global__ void __launch_bounds__(csr5_threads)
    csr5_product(Csr5View<T> a, std::int64_t tail_row, std::int64_t tail_rows, ProductTask<T> task,
                 T* carry) {
  if (device::stopped(task.stop)) return;
  const int l = threadIdx.x % 32;
  const std::int64_t t = std::int64_t{blockIdx.x} * csr5_warps + threadIdx.x / 32;
  if (t >= a.full) {
    if (t - a.full < tail_rows) row_of_rest(a, tail_row + t - a.full, task, carry);
    return;
  }
  const Csr5Lane lane = a.lane(t, l);
  const int sigma = a.shape.sigma;
  const bool continued = a.continued(t);
  // The first row of the tile is the row of row start 0.
  const auto finish = [&](int start, T sum) {
    if (start == 0 && continued)
      carry[t] = sum;
    else
      store(task.alpha, sum, task.beta, task.y + a.row_of_start(t, start));
  };
  // before: of the row that is open where the lane begins; sum: of the row that is open now.
  T before = 0, sum = 0;
  int next = lane.y_offset;
  bool open = false;
  const T* const values = a.values + t * a.shape.entries() + l;
  const std::int32_t* const col = a.col + t * a.shape.entries() + l;
  constexpr int batch = 4;  // loads in flight
  for (int s = 0; s < sigma; s += batch) {
    std::int32_t c[batch];
    T v[batch];
#pragma unroll
    for (int j = 0; j < batch; ++j) {
      c[j] = s + j < sigma ? __ldcs(col + (s + j) * 32) : -1;
      v[j] = s + j < sigma ? __ldcs(values + (s + j) * 32) : T(0);
    }
#pragma unroll
    for (int j = 0; j < batch; ++j)
      if (c[j] >= 0) v[j] *= __ldg(task.x + c[j]);
#pragma unroll
    for (int j = 0; j < batch; ++j) {
      if (c[j] < 0) continue;
      if (lane.start(s + j)) {
        if (open)
          finish(next - 1, sum);
        else
          before = sum;
        open = true, sum = 0, ++next;
      }
      sum += v[j];
    }
  }
  if (!open) before = sum;
  __syncwarp();
  // What the lanes after this one add to the row that is open where it ends.
  T ahead = __shfl_down_sync(0xffffffffu, before, 1);
  if (l == 31) ahead = 0;
  ahead = sum_ahead(ahead, lane.seg_offset);
  if (open) finish(next - 1, sum + ahead);
}

template <class T>
class Csr5Device final : public RowViewOnDevice<T, Csr5Device<T>> {
 public:
  explicit Csr5Device(const BuildRequest<T>& request)
      : RowViewOnDevice<T, Csr5Device<T>>(request),
        shape_(device_shape(request.csr.pattern, request.params)),
        tables_(request.context, request.csr.pattern, shape_, plan_of<std::int64_t>(request.admission),
                [&](void* to, const void* from, std::size_t bytes) {
                  device::copy_within(*request.context, to, from, bytes);
                }),
        col_(request.context, request.csr.nonzeros()),
        values_(request.context, request.csr.nonzeros()),
        carry_(request.context, tables_.tiles()) {
    const SparsityPattern& pattern = request.csr.pattern;
    const DeviceState& state = request.context->device_state();
    const std::int64_t tiles = tables_.tiles(), full = tables_.full_tiles();
    const auto all_rows = static_cast<std::uint32_t>(pattern.rows);
    device::copy_in(*request.context, tables_.tile_ptr.data() + tiles, &all_rows, sizeof all_rows);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(tables_.empty_ptr.data(), 0, tables_.empty_ptr.bytes(), state.stream));
    has_empty_rows_ = device_row_lengths(*request.context, pattern).empty > 0;
    if (tiles == 0) return;
    pattern.row_ptr.visit([&](auto* row_ptr) {
      using P = std::remove_const_t<std::remove_pointer_t<decltype(row_ptr)>>;
      device::launch(state, describe_tiles<P>, blocks_of(tiles, csr5_warps), csr5_threads, pattern.rows,
                     tiles, full, row_ptr, shape_, tables_.tile_ptr.data(), tables_.tile_desc.data(),
                     tables_.empty_ptr.data(), static_cast<unsigned long long*>(nullptr));
      device::exclusive_scan(*request.context, tables_.empty_ptr.data(), full + 1);
      if (!tables_.empty_off.empty())
        device::launch(state, write_offsets<P>, blocks_of(full, csr5_warps), csr5_threads, pattern.rows,
                       tiles, full, row_ptr, shape_, tables_.tile_ptr.data(), tables_.tile_desc.data(),
                       tables_.empty_ptr.data(), tables_.empty_off.data());
    });
    transpose(pattern.col, col_.data());
    transpose(request.csr.values, values_.data());
    if (full < tiles) {
      tail_row_ = read_back(*request.context, tables_.tile_ptr.data() + full) & csr5_row_bits;
      tail_rows_ = pattern.rows - tail_row_;
    }
  }

  std::size_t bytes() const noexcept override {
    return tables_.bytes() + col_.bytes() + values_.bytes() + carry_.bytes();
  }
  Csr5View<T> row_view() const { return tables_.view(values_.data(), col_.data(), this->rows(), shape_); }
  T* mutable_values() { return values_.data(); }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override { transpose(csr.values, values_.data()); }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const DeviceState& state = this->context()->device_state();
    if (has_empty_rows_) launch_scale_empty_rows(state, tables_.row_ptr(), this->rows(), beta, y.data);
    if (tables_.tiles() == 0) return;
    const Csr5View<T> a = row_view();
    T* const carry = const_cast<T*>(carry_.data());
    device::launch(state, csr5_product<T>, blocks_of(a.full + tail_rows_, csr5_warps), csr5_threads, a,
                   tail_row_, tail_rows_,
                   ProductTask<T>{alpha, x.data, beta, y.data, nullptr, nullptr, nullptr, state.stop}, carry);
    if (tables_.tiles() > 1)
      launch_add_carries(state, Csr5CarryRow<T>{a}, tables_.tiles(), carry, alpha, y.data);
  }

 private:
  template <class N>
  void transpose(const N* from, N* to) const {
    if (this->nonzeros() > 0)
      device::launch(this->context()->device_state(), transpose_tiles<N>, blocks_of(this->nonzeros()),
                     device::block_size, this->nonzeros(), tables_.full_tiles(), shape_, from, to);
  }

  Csr5Shape shape_;
  Csr5Tables tables_;
  Buffer<std::int32_t> col_;
  Buffer<T> values_, carry_;
  std::int64_t tail_row_ = 0, tail_rows_ = 0;  // the rows of the entries after the last full tile
  bool has_empty_rows_ = false;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  const Csr5Shape shape = device_shape(pattern, params);
  if (shape.omega != 32)
    return Admission::refuse("omega = " + std::to_string(shape.omega) +
                             "; a warp has 32 lanes: set omega to 0 or 32 on a GPU");
  const std::int64_t full = pattern.nonzeros / shape.entries();
  const std::int64_t tiles = (pattern.nonzeros + shape.entries() - 1) / shape.entries();
  std::int64_t offsets = 0;
  if (full > 0) {
    const device::Scratch<unsigned long long> found(context, 1);
    const DeviceState& state = context.device_state();
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(found.data(), 0, found.bytes(), state.stream));
    pattern.row_ptr.visit([&](auto* row_ptr) {
      using P = std::remove_const_t<std::remove_pointer_t<decltype(row_ptr)>>;
      device::launch(state, describe_tiles<P>, blocks_of(tiles, csr5_warps), csr5_threads, pattern.rows,
                     tiles, full, row_ptr, shape, static_cast<std::uint32_t*>(nullptr),
                     static_cast<std::uint32_t*>(nullptr), static_cast<std::int64_t*>(nullptr), found.data());
    });
    offsets = static_cast<std::int64_t>(read_back(context, found.data()));
  }
  Admission admission = Admission::accept(
      csr5_bytes(pattern, shape, offsets, value_bytes) + static_cast<std::size_t>(tiles) * value_bytes,
      pattern.nonzeros);
  keep_plan(admission, std::make_shared<const std::int64_t>(offsets));
  return admission;
}

constexpr Kernel kernels[] = {device_kernel<Csr5Device>("native")};

}  // namespace

constinit const DeviceCode device_code::csr5{kernels, admit};

}  // namespace protean::formats
