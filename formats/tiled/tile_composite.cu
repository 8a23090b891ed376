// TILE-COMPOSITE on the device: the arrays of tile_composite.cpp. Two launches: a block for each workload, with a warp
// for each piece of CSR and a thread for each piece of ELLPACK; then a thread for each row. With columns = degree an
// earlier launch puts x into the order of the columns.
#include "formats/engines/pieces/tile_pieces.cuh"
#include "formats/entries.hpp"
#include "formats/tiled/tile_composite.hpp"

namespace protean::formats {
namespace {

// Tiles ascend, lengths descend.
__global__ void key_by_length(std::int64_t size, const std::int32_t* tile, const std::int32_t* length,
                              int bits, std::uint64_t* key) {
  device::wait_for_stream();
  const std::int64_t s = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (s >= size) return;
  const std::uint64_t longest = (std::uint64_t{1} << bits) - 1;
  key[s] = static_cast<std::uint64_t>(tile[s]) << bits | (longest - static_cast<std::uint64_t>(length[s]));
}

// begins[p] := 1 if a workload begins at p.
__global__ void find_workloads(std::int64_t size, CompositeRule rule, const std::uint64_t* key, int bits,
                               const std::int64_t* before, const std::int32_t* length, std::int32_t* begins) {
  device::wait_for_stream();
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p >= size) return;
  begins[p] =
      p == 0 || key[p] >> bits != key[p - 1] >> bits || rule.begins(before[p], length[p - 1], length[p]);
}

// number[p]: the workloads that begin before position p. Also for p = size.
__global__ void write_workloads(std::int64_t all, const std::int32_t* number, std::int32_t* work_piece) {
  device::wait_for_stream();
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p >= all) return;
  if (p + 1 == all || number[p + 1] > number[p]) work_piece[number[p]] = static_cast<std::int32_t>(p);
}

__global__ void write_extents(std::int64_t size, const std::int32_t* number, const std::int32_t* work_piece,
                              const std::int64_t* before, const std::int32_t* length, std::int32_t* extent,
                              std::int64_t* work_slot) {
  device::wait_for_stream();
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p >= size) return;
  const std::int32_t w = number[p + 1] - 1, first = work_piece[w], h = work_piece[w + 1] - first;
  const std::int64_t entries = before[first + h] - before[first];
  const bool csr = CompositePlace::is_csr(length[first], h);
  extent[p] = csr ? static_cast<std::int32_t>(before[p + 1] - before[first]) : length[p];
  if (p == first) work_slot[w] = csr ? entries : std::int64_t{length[first]} * h;
}

// The first workload of each tile, and behind them their number.
__global__ void write_tile_work(std::int64_t all, std::int64_t size, const std::uint64_t* key, int bits,
                                const std::int32_t* number, std::int32_t* tile_work) {
  device::wait_for_stream();
  const std::int64_t t = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (t >= all) return;
  const std::int64_t first = first_where(
      std::int64_t{0}, size, [&](std::int64_t p) { return key[p] >> bits >= static_cast<std::uint64_t>(t); });
  tile_work[t] = number[first];
}

__global__ void count_columns(DevicePattern a, unsigned long long* entries) {
  device::wait_for_stream();
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= a.rows) return;
  const std::int64_t end = a.row_ptr[row + 1];
  for (std::int64_t k = a.row_ptr[row]; k < end; ++k) atomicAdd(entries + a.col[k], 1ull);
}

// Entries descend.
__global__ void key_by_degree(std::int64_t cols, std::uint64_t most, std::uint64_t* key) {
  device::wait_for_stream();
  const std::int64_t c = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (c < cols) key[c] = most - key[c];
}

__global__ void write_ranks(std::int64_t cols, const std::int32_t* order, std::int32_t* rank) {
  device::wait_for_stream();
  const std::int64_t c = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (c < cols) rank[order[c]] = static_cast<std::int32_t>(c);
}

// By rows, in a row by tiles.
__global__ void key_by_tile(DevicePattern a, ColumnTiles tile_of, int bits, const std::int32_t* rank,
                            std::uint64_t* key, std::int32_t* col) {
  device::wait_for_stream();
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= a.rows) return;
  const std::int64_t end = a.row_ptr[row + 1];
  for (std::int64_t k = a.row_ptr[row]; k < end; ++k) {
    col[k] = rank[a.col[k]];
    key[k] = static_cast<std::uint64_t>(row) << bits | static_cast<std::uint64_t>(tile_of(col[k]));
  }
}

// Columns with the most entries first, stable; and the columns of each row in that order, tile by tile, in a tile by
// ascending columns of the matrix. Without columns = degree nothing is sorted.
struct SortedColumns {
  SortedColumns(const Context& context, const SparsityPattern& pattern, const CompositeRule& rule)
      : order(context, rule.by_degree ? pattern.cols : 0),
        col(context, rule.by_degree ? pattern.nonzeros : 0),
        sorted(pattern) {
    if (order.size() == 0) return;
    {
      const device::Scratch<std::uint64_t> key(context, pattern.cols);
      PROTEAN_CUDA_CHECK(cudaMemsetAsync(key.data(), 0, key.bytes(), device::stream(context)));
      if (pattern.rows > 0)
        device::launch(context.device_state(), count_columns, blocks_of(pattern.rows), device::block_size,
                       device_pattern(pattern), reinterpret_cast<unsigned long long*>(key.data()));
      const int bits = bits_of(pattern.rows);
      launch_items(context, key_by_degree, pattern.cols, (std::uint64_t{1} << bits) - 1, key.data());
      sort_pieces(context, pattern.cols, key.data(), order.data(), bits);
    }
    if (col.size() == 0) return;
    const std::int64_t tiles = composite_tiles(rule, pattern.cols);
    const device::Scratch<std::int32_t> rank(context, pattern.cols);
    const device::Scratch<std::uint64_t> key(context, pattern.nonzeros);
    launch_items(context, write_ranks, pattern.cols, order.data(), rank.data());
    const int bits = bits_of(tiles - 1);
    device::launch(context.device_state(), key_by_tile, blocks_of(pattern.rows), device::block_size,
                   device_pattern(pattern), ColumnTiles{rule.tile, rule.tiles}, bits, rank.data(), key.data(),
                   col.data());
    device::sort_pairs(context, key.data(), col.data(), pattern.nonzeros, bits + bits_of(pattern.rows - 1));
    sorted.col = col.data();
  }
  const device::Scratch<std::int32_t> order, col;
  SparsityPattern sorted;  // the pattern that is cut
};

template <class T>
__global__ void sort_x(std::int64_t cols, const std::int32_t* order, const T* x, T* to) {
  device::wait_for_stream();
  const std::int64_t c = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (c < cols) to[c] = __ldg(x + __ldg(order + c));
}

struct Plan {
  Plan(const Context& context, const SparsityPattern& pattern, const CompositeRule& rule)
      : rule(rule),
        cols(pattern.cols),
        tiles(composite_tiles(rule, pattern.cols)),
        columns(context, pattern, rule),
        rows(context, columns.sorted, ColumnTiles{rule.tile, rule.tiles}),
        piece(context, rows.size),
        piece_row(context, rows.size),
        length(context, rows.size),
        extent(context, rows.size),
        work_piece(context, rows.size + 1),
        tile_work(context, tiles + 1),
        from(context, rows.size),
        work_slot(context, rows.size + 1) {
    const std::int64_t size = rows.size;
    const cudaStream_t queue = device::stream(context);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(work_piece.data(), 0, work_piece.bytes(), queue));
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(tile_work.data(), 0, tile_work.bytes(), queue));
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(work_slot.data(), 0, work_slot.bytes(), queue));
    if (size == 0) return;
    const int bits = bits_of(composite_width(rule, pattern.cols));
    const device::Scratch<std::uint64_t> key(context, size);
    const device::Scratch<std::int32_t> item(context, size), number(context, size + 1);
    const device::Scratch<std::int64_t> before(context, size + 1);
    launch_items(context, key_by_length, size, rows.tile.data(), rows.length.data(), bits, key.data());
    sort_pieces(context, size, key.data(), item.data(), bits + bits_of(tiles));
    launch_items(context, place_pieces, size, item.data(), rows.row.data(), rows.from.data(),
                 rows.length.data(), piece.data(), piece_row.data(), from.data(), length.data(),
                 before.data());
    device::exclusive_scan(context, before.data(), size + 1);
    launch_items(context, find_workloads, size, rule, key.data(), bits, before.data(), length.data(),
                 number.data());
    device::exclusive_scan(context, number.data(), size + 1);
    workloads = read_back(context, number.data() + size);
    launch_items(context, write_workloads, size + 1, number.data(), work_piece.data());
    launch_items(context, write_extents, size, number.data(), work_piece.data(), before.data(), length.data(),
                 extent.data(), work_slot.data());
    device::exclusive_scan(context, work_slot.data(), workloads + 1);
    slots = read_back(context, work_slot.data() + workloads);
    launch_items(context, write_tile_work, tiles + 1, size, key.data(), bits, number.data(),
                 tile_work.data());
  }
  const CompositeRule rule;
  const std::int64_t cols, tiles;
  const SortedColumns columns;
  const RowPieces rows;
  const device::Scratch<std::int32_t> piece, piece_row, length, extent, work_piece, tile_work;
  const device::Scratch<std::int64_t> from, work_slot;
  std::int64_t workloads = 0, slots = 0;
};

template <class T>
class TileComposite final : public PiecesOnDevice<T, CompositePlace, TileComposite<T>> {
 public:
  explicit TileComposite(const BuildRequest<T>& request)
      : TileComposite(request, plan_of<Plan>(request.admission)) {}

  CompositePlace place() const noexcept {
    return {work_slot_.data(), work_piece_.data(), extent_.data(), work_piece_.size() - 1};
  }
  std::size_t place_bytes() const noexcept {
    return tile_work_.bytes() + extent_.bytes() + work_piece_.bytes() + work_slot_.bytes() + order_.bytes() +
           x_.bytes();
  }
  const std::int32_t* order() const noexcept { return order_.empty() ? nullptr : order_.data(); }
  const T* sorted(const T* x) const {
    if (order_.empty()) return x;
    T* const to = const_cast<T*>(x_.data());  // workspace
    launch_items(*this->context(), sort_x<T>, order_.size(), order_.data(), x, to);
    return to;
  }

 private:
  TileComposite(const BuildRequest<T>& request, const Plan& plan)
      : PiecesOnDevice<T, CompositePlace, TileComposite<T>>(request, plan.rows.piece_ptr, plan.piece,
                                                            plan.piece_row, plan.slots),
        tile_work_(copy_of(request.context, plan.tile_work)),
        extent_(copy_of(request.context, plan.extent)),
        work_piece_(request.context, plan.workloads + 1),
        work_slot_(request.context, plan.workloads + 1),
        order_(copy_of(request.context, plan.columns.order)),
        x_(request.context, order_.size()) {
    device::copy_within(*request.context, work_piece_.data(), plan.work_piece.data(), work_piece_.bytes());
    device::copy_within(*request.context, work_slot_.data(), plan.work_slot.data(), work_slot_.bytes());
    this->fill(request.csr, plan.from, plan.length,
               order_.empty() ? request.csr.pattern.col : plan.columns.col.data());
  }

  Buffer<std::int32_t> tile_work_, extent_, work_piece_;
  Buffer<std::int64_t> work_slot_;
  Buffer<std::int32_t> order_;
  Buffer<T> x_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan = std::make_shared<const Plan>(context, pattern, composite_rule(params));
  Admission admission =
      admit_pieces(pattern, plan->rows.found, plan->slots,
                   composite_bytes(plan->rule, plan->cols, plan->rows.found, plan->workloads, value_bytes) +
                       value_bytes * static_cast<std::size_t>(plan->rows.found),
                   params, value_bytes);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

constexpr Kernel kernels[] = {device_kernel<TileComposite>("native")};

}  // namespace

constinit const DeviceCode device_code::tile_composite{kernels, admit};

}  // namespace protean::formats
