// The device side of tiles.hpp. Private to formats/.
//
//   tile row 0   t t t t t t t t | t t t      units: successive tiles of a tile row, at most unit_tiles of them.
//   tile row 1   t t                          A tile row without tiles has one unit.
//
//   1. A warp computes a unit. Lanes l and l + 16 have two parts of the sum of row l. It writes y, or its 16 sums to
//      `partial` if the tile row has several units.
//   2. A block for each of these tile rows adds their sums in a fixed order and writes y.
//   3. Deferred entries are added by the tiles of equal numbers of entries of csr (entry_tiles.cuh), or by a csr5
//      matrix of them.
//
// Conversion: a warp walks along the 16 rows of a tile row, one in each lane, from tile to tile. It does so twice, to
// count and to write; new values are written in the same way.
#pragma once
#include <limits>

#include "formats/catalogue.hpp"
#include "formats/engines/runs/entry_tiles.cuh"
#include "formats/engines/tiles/tiles.hpp"
#include "formats/engines/view/row_view.cuh"

namespace protean::formats {

constexpr int tile_threads_a_block = 128, tile_warps = tile_threads_a_block / 32, unit_tiles = 8;

struct alignas(16) TileUnit {
  std::int64_t first;  // its first tile; it ends where the next unit begins
  std::int32_t tile_row;
  std::int32_t partial;  // 16 sums from 16 partial on; -1: it writes y
};
struct TileSplit {
  std::int32_t tile_row, partial;  // of its first unit
};

// Calls f(tile column, bits, first) for the tiles of tile row i. `first` is the first entry of row `lane` in the tile.
// All lanes of the warp call it, and come to f together.
template <class F>
__device__ inline void for_tiles_of_warp(const DevicePattern& a, std::int64_t cols, std::int64_t i, F&& f) {
  constexpr std::int32_t none = std::numeric_limits<std::int32_t>::max();
  const int lane = threadIdx.x % 32;
  const std::int64_t row = i * tile_edge + lane;
  const bool there = lane < tile_edge && row < a.rows;
  std::int64_t k = there ? a.row_ptr[row] : 0;
  const std::int64_t end = there ? a.row_ptr[row + 1] : 0;
  TileBits bits{};
  bits.height = static_cast<int>(min(std::int64_t{tile_edge}, a.rows - i * tile_edge));
  for (;;) {
    const std::int32_t least = device::warp_min(k < end ? a.col[k] / tile_edge : none);
    if (least == none) return;
    const std::int32_t left = least * tile_edge;
    bits.width = static_cast<int>(min(std::int64_t{tile_edge}, cols - left));
    const std::int64_t first = k;
    unsigned mine = 0;
    for (; k < end && a.col[k] - left < tile_edge; ++k) mine |= 1u << (a.col[k] - left);
    __syncwarp();
#pragma unroll
    for (int r = 0; r < tile_edge; ++r)
      bits.row[r] = static_cast<std::uint16_t>(__shfl_sync(0xffffffffu, mine, r));
    f(least, bits, first);
  }
}

// Counts of each tile row, and of the deferred entries of each row. most: the most values or bytes of a tile row.
static __global__ void __launch_bounds__(tile_threads_a_block)
    count_tiles(DevicePattern a, std::int64_t cols, std::int64_t tile_rows, TileRule rule,
                std::int64_t* tile_ptr, std::int64_t* value_ptr, std::int64_t* index_ptr,
                std::int32_t* rest_ptr32, std::int64_t* rest_ptr64, unsigned long long* most) {
  device::wait_for_stream();
  const int lane = threadIdx.x % 32;
  const std::int64_t i = std::int64_t{blockIdx.x} * tile_warps + threadIdx.x / 32;
  if (i >= tile_rows) return;
  std::int64_t tiles = 0, values = 0, bytes = 0, rest = 0;
  for_tiles_of_warp(a, cols, i, [&](std::int32_t, const TileBits& bits, std::int64_t) {
    const TileForm form = choose_tile(bits, rule);
    if (form.present) ++tiles, values += form.values(), bytes += form.index_bytes();
    if (rule.deferred && form.tail > 0 && lane < bits.height) rest += max(0, bits.length(lane) - form.slots);
  });
  const std::int64_t row = i * tile_edge + lane;
  if (lane < tile_edge && row < a.rows) {
    if (rest_ptr32) rest_ptr32[row] = static_cast<std::int32_t>(rest);
    if (rest_ptr64) rest_ptr64[row] = rest;
  }
  if (lane > 0) return;
  tile_ptr[i] = tiles, value_ptr[i] = values, index_ptr[i] = bytes;
  atomicMax(most, static_cast<unsigned long long>(max(values, bytes)));
}

// For each tile row the number of its units, 1 if it has several, and their number then.
static __global__ void count_units(std::int64_t tile_rows, const std::int64_t* tile_ptr,
                                   std::int64_t* unit_ptr, std::int64_t* split_ptr,
                                   std::int64_t* partial_ptr) {
  device::wait_for_stream();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= tile_rows) return;
  const std::int64_t units =
      max(std::int64_t{1}, (tile_ptr[i + 1] - tile_ptr[i] + unit_tiles - 1) / unit_tiles);
  unit_ptr[i] = units, split_ptr[i] = units > 1, partial_ptr[i] = units > 1 ? units : 0;
}

static __global__ void write_units(std::int64_t tile_rows, const std::int64_t* tile_ptr,
                                   const std::int64_t* unit_ptr, const std::int64_t* split_ptr,
                                   const std::int64_t* partial_ptr, TileUnit* unit, TileSplit* split) {
  device::wait_for_stream();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i > tile_rows) return;
  const auto partial = static_cast<std::int32_t>(partial_ptr[i]), number = static_cast<std::int32_t>(i);
  const std::int64_t first = unit_ptr[i];
  if (i == tile_rows) {
    unit[first] = {tile_ptr[i], number, -1};
    split[split_ptr[i]] = {number, partial};
    return;
  }
  const bool several = split_ptr[i + 1] > split_ptr[i];
  if (several) split[split_ptr[i]] = {number, partial};
  for (std::int64_t u = first; u < unit_ptr[i + 1]; ++u)
    unit[u] = {tile_ptr[i] + (u - first) * unit_tiles, number,
               several ? partial + static_cast<std::int32_t>(u - first) : -1};
}

// Everything except the values, as admit() finds it.
struct TilePlanOnDevice {
  TilePlanOnDevice(const Context& context, const SparsityPattern& pattern, const TileRule& of)
      : rule(of),
        tile_rows(TileView<double>::tile_rows_of(pattern.rows)),
        tile_ptr(context, tile_rows + 1),
        value_ptr(context, tile_rows + 1),
        index_ptr(context, tile_rows + 1),
        unit_ptr(context, tile_rows + 1),
        split_ptr(context, tile_rows + 1),
        partial_ptr(context, tile_rows + 1),
        rest_ptr32(context, rule.deferred && pattern.row_ptr.p32 ? pattern.rows + 1 : 0),
        rest_ptr64(context, rule.deferred && pattern.row_ptr.p64 ? pattern.rows + 1 : 0) {
    const DeviceState& state = context.device_state();
    const device::Scratch<unsigned long long> found(context, 1);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(found.data(), 0, found.bytes(), state.stream));
    for (const device::Scratch<std::int64_t>* pointers :
         {&tile_ptr, &value_ptr, &index_ptr, &unit_ptr, &split_ptr, &partial_ptr, &rest_ptr64})
      if (pointers->size() > 0)
        PROTEAN_CUDA_CHECK(cudaMemsetAsync(pointers->data(), 0, pointers->bytes(), state.stream));
    if (rest_ptr32.size() > 0)
      PROTEAN_CUDA_CHECK(cudaMemsetAsync(rest_ptr32.data(), 0, rest_ptr32.bytes(), state.stream));
    if (tile_rows == 0) return;
    device::launch(state, count_tiles, blocks_of(tile_rows, tile_warps), tile_threads_a_block,
                   device_pattern(pattern), pattern.cols, tile_rows, rule, tile_ptr.data(), value_ptr.data(),
                   index_ptr.data(), rest_ptr32.data(), rest_ptr64.data(), found.data());
    for (const device::Scratch<std::int64_t>* pointers : {&tile_ptr, &value_ptr, &index_ptr})
      device::exclusive_scan(context, pointers->data(), tile_rows + 1);
    device::launch(state, count_units, blocks_of(tile_rows), device::block_size, tile_rows, tile_ptr.data(),
                   unit_ptr.data(), split_ptr.data(), partial_ptr.data());
    for (const device::Scratch<std::int64_t>* pointers : {&unit_ptr, &split_ptr, &partial_ptr})
      device::exclusive_scan(context, pointers->data(), tile_rows + 1);
    if (rest_ptr32.size() > 0) {
      device::exclusive_scan(context, rest_ptr32.data(), pattern.rows + 1);
      sizes.rest = read_back(context, rest_ptr32.data() + pattern.rows);
    }
    if (rest_ptr64.size() > 0) {
      device::exclusive_scan(context, rest_ptr64.data(), pattern.rows + 1);
      sizes.rest = read_back(context, rest_ptr64.data() + pattern.rows);
    }
    sizes.tiles = read_back(context, tile_ptr.data() + tile_rows);
    sizes.values = read_back(context, value_ptr.data() + tile_rows);
    sizes.index_bytes = read_back(context, index_ptr.data() + tile_rows);
    units = read_back(context, unit_ptr.data() + tile_rows);
    splits = read_back(context, split_ptr.data() + tile_rows);
    partials = read_back(context, partial_ptr.data() + tile_rows);
    most = static_cast<std::int64_t>(read_back(context, found.data()));
  }
  // The pattern of the deferred entries, except for their columns.
  SparsityPattern rest_of(const SparsityPattern& pattern) const {
    SparsityPattern rest = pattern;
    rest.nonzeros = sizes.rest, rest.row_ptr = {rest_ptr32.data(), rest_ptr64.data()};
    return rest;
  }

  TileRule rule;
  TileSizes sizes;
  std::int64_t tile_rows, units = 0, splits = 0, partials = 0, most = 0;
  const device::Scratch<std::int64_t> tile_ptr, value_ptr, index_ptr, unit_ptr, split_ptr, partial_ptr;
  const device::Scratch<std::int32_t> rest_ptr32;
  const device::Scratch<std::int64_t> rest_ptr64;
};

static Admission admit_tiles_on_device(const Context& context, const SparsityPattern& pattern,
                                       const FormatParams& params, std::size_t value_bytes) {
  const TileRule rule = tile_rule(params, pattern.nonzeros, value_bytes);
  auto plan = std::make_shared<const TilePlanOnDevice>(context, pattern, rule);
  if (std::string reason = tile_refusal(plan->most); !reason.empty())
    return Admission::refuse(std::move(reason));
  const std::size_t workspace =
      sizeof(TileUnit) * static_cast<std::size_t>(plan->units + 1) +
      sizeof(TileSplit) * static_cast<std::size_t>(plan->splits + 1) +
      tile_edge * value_bytes * static_cast<std::size_t>(plan->partials) +
      (rule.csr5              ? rest_csr5_bytes(context, plan->rest_of(pattern), rule)
       : plan->sizes.rest > 0 ? entry_tile_bytes(pattern.rows, plan->sizes.rest, true, value_bytes)
                              : 0);
  Admission admission =
      Admission::accept(tile_bytes(plan->sizes, rule, pattern.rows, pattern.row_ptr.width()) + workspace,
                        plan->sizes.values + plan->sizes.rest);
  keep_plan(admission, std::move(plan));
  return admission;
}

// Writes the values, and with `structure` everything else. The pointers belong to the plan.
template <class T>
__global__ void __launch_bounds__(tile_threads_a_block)
    write_tiles(DevicePattern pattern, const T* from, TileRule rule, TileView<T> a, bool structure,
                Tile* tiles, std::uint8_t* index_bytes, T* all_values, std::int32_t* rest_col) {
  device::wait_for_stream();
  const int lane = threadIdx.x % 32;
  const std::int64_t i = std::int64_t{blockIdx.x} * tile_warps + threadIdx.x / 32;
  if (i >= a.tile_rows()) return;
  const std::int64_t row = i * tile_edge + lane;
  std::int64_t rest = rule.deferred && lane < tile_edge && row < a.rows ? a.rest_ptr(row) : 0;
  std::int64_t t = a.tile_ptr[i];
  std::uint32_t value = 0, index = 0;
  for_tiles_of_warp(pattern, a.cols, i, [&](std::int32_t col, const TileBits& bits, std::int64_t first) {
    const TileForm form = choose_tile(bits, rule);
    T* const values = all_values + a.value_ptr[i] + value;
    if (form.present) {
      const int n = form.values(), bytes = form.index_bytes();
      if (structure) {
        const int count = form.kind == TileKind::csr || form.kind == TileKind::coo ? form.entries - 1
                          : form.kind == TileKind::hyb                             ? form.tail
                                                                                   : 0;
        if (lane == 0)
          tiles[t] = {col,
                      value,
                      index,
                      form.kind,
                      static_cast<std::uint8_t>(form.slots),
                      static_cast<std::uint8_t>(count),
                      0};
        std::uint8_t* const to = index_bytes + a.index_ptr[i] + index;
        for (int b = lane; b < bytes; b += 32) to[b] = tile_index_byte(bits, form, b);
        for (int e = lane; e < n; e += 32) values[e] = T(0);
      }
      ++t, value += static_cast<std::uint32_t>(n), index += static_cast<std::uint32_t>(bytes);
    }
    __syncwarp();  // the zeros have been written
    if (lane < bits.height) {
      const TileRow in_tile(bits, form, lane);
      unsigned left = bits.row[lane];
      for (int j = 0; left != 0; ++j, left &= left - 1) {
        const int c = count_bits((left & (0u - left)) - 1);
        const int place = form.present ? in_tile.place(j, c, rule.deferred) : -1;
        if (place >= 0) {
          values[place] = from[first + j];
        } else {
          if (structure) rest_col[rest] = col * tile_edge + c;
          all_values[a.deferred + rest++] = from[first + j];
        }
      }
    }
    __syncwarp();
  });
}

// The x of a tile: a copy in shared memory, or x itself through the read-only cache.
template <bool staged, class T>
struct TileX {
  const T* x;
  __device__ T operator[](int c) const {
    if constexpr (staged)
      return x[c];
    else
      return __ldg(x + c);
  }
};

// The coordinates of a tile: acc[row] += the sum of its products. Lanes of a row add theirs to the first one. All lanes
// of the warp call it; acc is the warp's own.
template <class X, class T>
__device__ inline void add_tile_coordinates(const std::uint8_t* entry, const T* values, int count, X x,
                                            T* acc) {
  const int lane = threadIdx.x % 32;
  for (int first = 0; first < count; first += 32) {
    const int e = first + lane;
    int row = -1;
    T product = 0;
    if (e < count) {
      const int at = __ldg(entry + e);
      row = at / tile_edge;
      product = __ldcs(values + e) * x[at % tile_edge];
    }
    const int before = __shfl_up_sync(0xffffffffu, row, 1);
    const bool begins = lane == 0 || row != before;
    const unsigned later = __ballot_sync(0xffffffffu, begins) >> lane >> 1;
    product = sum_ahead(product, later ? __ffs(static_cast<int>(later)) - 1 : 31 - lane);
    if (begins && row >= 0) acc[row] += product;
    __syncwarp();
  }
}

// staged: a warp copies the 16 x of a tile to shared memory first, as the paper does.
template <bool staged, class T>
__global__ void __launch_bounds__(tile_threads_a_block)
    tile_unit_product(TileView<T> a, const TileUnit* unit, std::int64_t units, T* partial,
                      ProductTask<T> task) {
  __shared__ T of_warp[tile_warps][tile_edge], x_of_warp[staged ? tile_warps : 1][tile_edge];
  device::wait_for_stream();
  const int lane = threadIdx.x % 32, r = lane % tile_edge, half = lane / tile_edge;
  const std::int64_t u = std::int64_t{blockIdx.x} * tile_warps + threadIdx.x / 32;
  if (u >= units) return;  // the whole warp
  T* const acc = of_warp[threadIdx.x / 32];
  const TileUnit now = unit[u];
  const std::int64_t end = unit[u + 1].first, i = now.tile_row;
  const int h = a.height(i);
  const T* const row_values = a.values + a.value_ptr[i];
  const std::uint8_t* const row_index = a.index + a.index_ptr[i];
  const bool ended = task.stop && *task.stop;
  if (half == 0) acc[r] = T(0);
  __syncwarp();
  T sum = 0;
  for (std::int64_t t = now.first; t < end; ++t) {
    const Tile tile = a.tiles[t];
    const T* const values = row_values + tile.value;
    const std::uint8_t* const bytes = row_index + tile.index;
    const T* const from = task.x + std::int64_t{tile.col} * tile_edge;
    if constexpr (staged) {
      if (half == 0) x_of_warp[threadIdx.x / 32][r] = r < a.width(tile) ? __ldg(from + r) : T(0);
      __syncwarp();
    }
    const TileX<staged, T> x{staged ? x_of_warp[staged ? threadIdx.x / 32 : 0] : from};
    switch (tile.kind) {  // the same in all lanes
      case TileKind::csr: {
        const int row_end = r + 1 < tile_edge ? __ldg(bytes + r + 1) : tile.entries();
        for (int e = __ldg(bytes + r) + half; e < row_end; e += 2)
          sum += __ldcs(values + e) * x[column_of(bytes + tile_edge, e)];
        break;
      }
      case TileKind::coo:
        add_tile_coordinates(bytes, values, tile.entries(), x, acc);
        break;
      case TileKind::ell:
      case TileKind::hyb:
        if (__ldg(bytes + r / 8) >> (r % 8) & 1)
          for (int k = half; k < tile.slots; k += 2)
            sum += __ldcs(values + k * tile_edge + r) * x[column_of(bytes + 2, k * tile_edge + r)];
        __syncwarp();
        if (tile.kind == TileKind::hyb)
          add_tile_coordinates(bytes + 2 + tile_edge / 2 * tile.slots, values + tile_edge * tile.slots,
                               tile.count, x, acc);
        break;
      case TileKind::dns:
        if (r < h) {
          const int w = a.width(tile);
#pragma unroll 4
          for (int c = half; c < w; c += 2) sum += __ldcs(values + c * h + r) * x[c];
        }
        break;
      case TileKind::dns_row: {
        const int w = a.width(tile);
        for (int first = 0; first < tile.slots; first += 2) {
          const int k = first + half;
          T product = k < tile.slots && r < w ? __ldcs(values + k * w + r) * x[r] : T(0);
          product = device::sum_lanes<tile_edge>(product);
          if (k < tile.slots && __ldg(bytes + k) == r) sum += product;
        }
        break;
      }
      default:
        if (r < h)
          for (int k = half; k < tile.slots; k += 2) sum += __ldcs(values + k * h + r) * x[__ldg(bytes + k)];
    }
    __syncwarp();
  }
  sum += __shfl_xor_sync(0xffffffffu, sum, tile_edge);
  if (ended || half > 0) return;
  sum += acc[r];
  if (now.partial >= 0)
    partial[std::int64_t{now.partial} * tile_edge + r] = sum;
  else if (r < h)
    store(task.alpha, sum, task.beta, task.y + i * tile_edge + r);
}

// A block for each tile row of several units: 16 threads for each row have every 16th unit, then their sums are added
// in order.
template <class T>
__global__ void __launch_bounds__(tile_edge* tile_edge)
    add_tile_partials(std::int64_t rows, const TileSplit* split, const T* partial, ProductTask<T> task) {
  __shared__ T sums[tile_edge][tile_edge + 1];
  device::wait_for_stream();
  const int r = threadIdx.x % tile_edge, group = threadIdx.x / tile_edge;
  const TileSplit now = split[blockIdx.x];
  const int end = split[blockIdx.x + 1].partial;
  const bool ended = task.stop && *task.stop;
  T sum = 0;
#pragma unroll 4
  for (int u = now.partial + group; u < end; u += tile_edge) sum += partial[std::int64_t{u} * tile_edge + r];
  sums[group][r] = sum;
  __syncthreads();
  const std::int64_t row = std::int64_t{now.tile_row} * tile_edge + r;
  if (ended || group > 0 || row >= rows) return;
  for (int other = 1; other < tile_edge; ++other) sum += sums[other][r];
  store(task.alpha, sum, task.beta, task.y + row);
}

template <class T>
class TilesOnDevice final : public RowViewOnDevice<T, TilesOnDevice<T>> {
 public:
  explicit TilesOnDevice(const BuildRequest<T>& request)
      : RowViewOnDevice<T, TilesOnDevice<T>>(request), staged_(request.kernel != "cached") {
    const TilePlanOnDevice& plan = plan_of<TilePlanOnDevice>(request.admission);
    const ContextPtr& context = request.context;
    rule_ = plan.rule, sizes_ = plan.sizes, units_ = plan.units, splits_ = plan.splits;
    tile_ptr_ = copy_of(context, plan.tile_ptr), value_ptr_ = copy_of(context, plan.value_ptr);
    index_ptr_ = copy_of(context, plan.index_ptr);
    rest_ptr32_ = copy_of(context, plan.rest_ptr32), rest_ptr64_ = copy_of(context, plan.rest_ptr64);
    tiles_ = Buffer<Tile>(context, sizes_.tiles), index_ = Buffer<std::uint8_t>(context, sizes_.index_bytes);
    values_ = Buffer<T>(context, sizes_.values + sizes_.rest);
    rest_col_ = Buffer<std::int32_t>(context, sizes_.rest);
    unit_ = Buffer<TileUnit>(context, plan.units + 1), split_ = Buffer<TileSplit>(context, plan.splits + 1);
    partial_ = Buffer<T>(context, tile_edge * plan.partials);
    device::launch(context->device_state(), write_units, blocks_of(plan.tile_rows + 1), device::block_size,
                   plan.tile_rows, plan.tile_ptr.data(), plan.unit_ptr.data(), plan.split_ptr.data(),
                   plan.partial_ptr.data(), unit_.data(), split_.data());
    write(request.csr, true);
    if (sizes_.rest > 0 && rule_.csr5)
      rest_matrix_ = make_matrix(find_format("csr5"), rest(), context);
    else if (sizes_.rest > 0)
      rest_tiles_ = EntryTiles<T>(context, rest().pattern, true);
  }

  std::size_t bytes() const noexcept override {
    return tile_ptr_.bytes() + value_ptr_.bytes() + index_ptr_.bytes() + tiles_.bytes() + index_.bytes() +
           values_.bytes() + rest_ptr32_.bytes() + rest_ptr64_.bytes() + rest_col_.bytes() + unit_.bytes() +
           split_.bytes() + partial_.bytes() + rest_tiles_.bytes() +
           (rest_matrix_ ? rest_matrix_->bytes() : 0);
  }
  TileView<T> row_view() const noexcept {
    return {values_.data(),     tile_ptr_.data(),   value_ptr_.data(), index_ptr_.data(),
            tiles_.data(),      index_.data(),      this->rows(),      this->cols(),
            rest_ptr32_.data(), rest_ptr64_.data(), rest_col_.data(),  sizes_.values};
  }
  T* mutable_values() noexcept { return values_.data(); }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    write(csr, false);
    if (rest_matrix_) rest_matrix_->update_values(rest(), SamePattern());
  }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->rows() == 0) return;
    const DeviceState& state = this->context()->device_state();
    const ProductTask<T> task{.alpha = alpha, .x = x.data, .beta = beta, .y = y.data, .stop = state.stop};
    T* const partial = const_cast<T*>(partial_.data());  // workspace
    device::launch(state, staged_ ? tile_unit_product<true, T> : tile_unit_product<false, T>,
                   blocks_of(units_, tile_warps), tile_threads_a_block, row_view(), unit_.data(), units_,
                   partial, task);
    if (splits_ > 0)
      device::launch(state, add_tile_partials<T>, splits_, tile_edge * tile_edge, this->rows(), split_.data(),
                     partial, task);
    if (rest_matrix_)
      rest_matrix_->apply(alpha, x, T(1), y);
    else if (sizes_.rest > 0)
      rest_tiles_.multiply(state, rest(), alpha, x.data, T(1), y.data);
  }

 private:
  void write(const CsrMatrix<T>& csr, bool structure) {
    const TileView<T> a = row_view();
    if (a.tile_rows() > 0)
      device::launch(this->context()->device_state(), write_tiles<T>, blocks_of(a.tile_rows(), tile_warps),
                     tile_threads_a_block, device_pattern(csr.pattern), csr.values, rule_, a, structure,
                     tiles_.data(), index_.data(), values_.data(), rest_col_.data());
  }
  // The deferred entries.
  CsrMatrix<T> rest() const {
    CsrMatrix<T> csr;
    csr.pattern.rows = this->rows(), csr.pattern.cols = this->cols(), csr.pattern.nonzeros = sizes_.rest;
    csr.pattern.row_ptr = {rest_ptr32_.data(), rest_ptr64_.data()}, csr.pattern.col = rest_col_.data();
    csr.pattern.space = Space::device, csr.values = values_.data() + sizes_.values;
    return csr;
  }

  TileRule rule_;
  TileSizes sizes_;
  std::int64_t units_, splits_;
  Buffer<std::int64_t> tile_ptr_, value_ptr_, index_ptr_;
  Buffer<Tile> tiles_;
  Buffer<std::uint8_t> index_;
  Buffer<T> values_;
  bool staged_;
  Buffer<std::int32_t> rest_ptr32_;
  Buffer<std::int64_t> rest_ptr64_;
  Buffer<std::int32_t> rest_col_;
  Buffer<TileUnit> unit_;
  Buffer<TileSplit> split_;
  Buffer<T> partial_;
  EntryTiles<T> rest_tiles_;
  std::unique_ptr<AssembledMatrix<T>> rest_matrix_;  // of the deferred entries, with rest = csr5
};

}  // namespace protean::formats
