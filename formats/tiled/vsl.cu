// vsl on the device: the arrays of vsl.cpp. A product is two launches: a warp for each piece, then a thread for each
// row.
#include "formats/engines/pieces/tile_pieces.cuh"
#include "formats/entries.hpp"
#include "formats/tiled/vsl.hpp"

namespace protean::formats {
namespace {

// What the rows have in the parts, before it is divided among channels. A part is numbered block by block.
__global__ void key_by_part(std::int64_t size, VslRule rule, std::int64_t parts, const std::int32_t* row,
                            const std::int32_t* part, std::uint64_t* key) {
  device::wait_for_stream();
  const std::int64_t s = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (s < size) key[s] = static_cast<std::uint64_t>(row[s] / rule.rows * parts + part[s]);
}

__global__ void lengths_in_order(std::int64_t size, const std::int32_t* item, const std::int32_t* length,
                                 std::int64_t* before) {
  device::wait_for_stream();
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p < size) before[p] = length[item[p]];
}

// For each of them its first entry in the part, the entries of the part, and the number of pieces. before[p]: entries
// before position p in the order of the keys.
__global__ void count_channel_pieces(std::int64_t size, VslRule rule, const std::uint64_t* key,
                                     const std::int32_t* item, const std::int64_t* before,
                                     const std::int32_t* length, std::int64_t* place, std::int64_t* entries,
                                     std::int64_t* count) {
  device::wait_for_stream();
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p >= size) return;
  const std::int64_t first =
      first_where(std::int64_t{0}, p, [&](std::int64_t q) { return key[q] >= key[p]; });
  const std::int64_t end = first_where(p, size, [&](std::int64_t q) { return key[q] > key[p]; });
  const std::int32_t s = item[p];
  place[s] = before[p] - before[first], entries[s] = before[end] - before[first];
  count[s] = rule.pieces(place[s], length[s], entries[s]);
}

__global__ void point_to_pieces(std::int64_t all, const std::int64_t* row_first, const std::int64_t* piece_at,
                                std::int64_t* piece_ptr) {
  device::wait_for_stream();
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r < all) piece_ptr[r] = piece_at[row_first[r]];
}

__global__ void cut_channels(std::int64_t size, VslRule rule, std::int64_t blocks, std::int64_t parts,
                             const std::int32_t* row, const std::int32_t* part, const std::int64_t* from,
                             const std::int32_t* length, const std::int64_t* place,
                             const std::int64_t* entries, const std::int64_t* piece_at,
                             std::int32_t* piece_row, std::int64_t* piece_from, std::int32_t* piece_length,
                             std::uint64_t* key) {
  device::wait_for_stream();
  const std::int64_t s = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (s >= size) return;
  const std::int64_t n = entries[s], begin = place[s], end = begin + length[s];
  std::int64_t to = piece_at[s];
  for (std::int64_t i = begin; i < end; ++to) {
    const std::int64_t c = rule.channel(i, n), next = min(end, rule.first_entry(c + 1, n));
    piece_row[to] = row[s], piece_from[to] = from[s] + i - begin;
    piece_length[to] = static_cast<std::int32_t>(next - i);
    key[to] = static_cast<std::uint64_t>((c * blocks + row[s] / rule.rows) * parts + part[s]);
    i = next;
  }
}

__global__ void count_groups(std::int64_t size, VslRule rule, const std::int32_t* length,
                             std::int64_t* group_ptr) {
  device::wait_for_stream();
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p < size) group_ptr[p] = rule.groups(length[p]);
}

__global__ void write_block_ptr(std::int64_t all, std::int64_t size, std::int64_t parts,
                                const std::uint64_t* key, std::int64_t* block_ptr) {
  device::wait_for_stream();
  const std::int64_t b = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (b >= all) return;
  block_ptr[b] = first_where(std::int64_t{0}, size, [&](std::int64_t p) {
    return key[p] >= static_cast<std::uint64_t>(b) * static_cast<std::uint64_t>(parts);
  });
}

// The pieces of parts divided among channels, by rows.
struct ChannelPieces {
  ChannelPieces(const Context& context, const SparsityPattern& pattern, const VslRule& rule)
      : blocks(vsl_blocks(rule, pattern.rows)),
        parts((pattern.cols + rule.columns - 1) / rule.columns),
        rows(context, pattern, ColumnTiles{rule.columns, std::numeric_limits<std::int64_t>::max()}),
        piece_at(context, rows.size + 1),
        place(context, rows.size),
        entries(context, rows.size),
        found(rows.found <= most_pieces ? count(context, rule) : rows.found) {}

  const std::int64_t blocks, parts;
  const RowPieces rows;
  const device::Scratch<std::int64_t> piece_at, place, entries;
  const std::int64_t found;

 private:
  std::int64_t count(const Context& context, const VslRule& rule) const {
    const std::int64_t size = rows.size;
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(piece_at.data(), 0, piece_at.bytes(), device::stream(context)));
    if (size == 0) return 0;
    const device::Scratch<std::uint64_t> key(context, size);
    const device::Scratch<std::int32_t> item(context, size);
    const device::Scratch<std::int64_t> before(context, size + 1);
    launch_items(context, key_by_part, size, rule, parts, rows.row.data(), rows.tile.data(), key.data());
    sort_pieces(context, size, key.data(), item.data(), bits_of(blocks * parts));
    launch_items(context, lengths_in_order, size, item.data(), rows.length.data(), before.data());
    device::exclusive_scan(context, before.data(), size + 1);
    launch_items(context, count_channel_pieces, size, rule, key.data(), item.data(), before.data(),
                 rows.length.data(), place.data(), entries.data(), piece_at.data());
    device::exclusive_scan(context, piece_at.data(), size + 1);
    return read_back(context, piece_at.data() + size);
  }
};

struct Plan {
  Plan(const Context& context, const SparsityPattern& pattern, const VslRule& its_rule)
      : rule(its_rule),
        cut(context, pattern, rule),
        size(cut.found <= most_pieces ? cut.found : 0),
        piece(context, size),
        piece_row(context, size),
        length(context, size),
        piece_ptr(context, pattern.rows + 1),
        from(context, size),
        group_ptr(context, size + 1),
        block_ptr(context, rule.channels * cut.blocks + 1) {
    const cudaStream_t queue = device::stream(context);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(piece_ptr.data(), 0, piece_ptr.bytes(), queue));
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(group_ptr.data(), 0, group_ptr.bytes(), queue));
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(block_ptr.data(), 0, block_ptr.bytes(), queue));
    if (size == 0) return;
    const device::Scratch<std::uint64_t> key(context, size);
    const device::Scratch<std::int32_t> item(context, size), row(context, size), lengths(context, size);
    const device::Scratch<std::int64_t> first(context, size), before(context, size);
    launch_items(context, point_to_pieces, pattern.rows + 1, cut.rows.piece_ptr.data(), cut.piece_at.data(),
                 piece_ptr.data());
    launch_items(context, cut_channels, cut.rows.size, rule, cut.blocks, cut.parts, cut.rows.row.data(),
                 cut.rows.tile.data(), cut.rows.from.data(), cut.rows.length.data(), cut.place.data(),
                 cut.entries.data(), cut.piece_at.data(), row.data(), first.data(), lengths.data(),
                 key.data());
    sort_pieces(context, size, key.data(), item.data(), bits_of(rule.channels * cut.blocks * cut.parts));
    launch_items(context, place_pieces, size, item.data(), row.data(), first.data(), lengths.data(),
                 piece.data(), piece_row.data(), from.data(), length.data(), before.data());
    launch_items(context, count_groups, size, rule, length.data(), group_ptr.data());
    device::exclusive_scan(context, group_ptr.data(), size + 1);
    slots = read_back(context, group_ptr.data() + size) * rule.pad;
    launch_items(context, write_block_ptr, block_ptr.size(), size, cut.parts, key.data(), block_ptr.data());
  }
  const VslRule rule;
  const ChannelPieces cut;
  const std::int64_t size;
  const device::Scratch<std::int32_t> piece, piece_row, length;
  const device::Scratch<std::int64_t> piece_ptr, from, group_ptr, block_ptr;
  std::int64_t slots = 0;
};

template <class T>
class Vsl final : public PiecesOnDevice<T, VslPlace, Vsl<T>> {
 public:
  explicit Vsl(const BuildRequest<T>& request) : Vsl(request, plan_of<Plan>(request.admission)) {}

  VslPlace place() const noexcept { return {group_ptr_.data(), pad_}; }
  std::size_t place_bytes() const noexcept { return group_ptr_.bytes() + block_ptr_.bytes(); }

 private:
  Vsl(const BuildRequest<T>& request, const Plan& plan)
      : PiecesOnDevice<T, VslPlace, Vsl<T>>(request, plan.piece_ptr, plan.piece, plan.piece_row, plan.slots),
        pad_(plan.rule.pad),
        group_ptr_(copy_of(request.context, plan.group_ptr)),
        block_ptr_(copy_of(request.context, plan.block_ptr)) {
    this->fill(request.csr, plan.from, plan.length, request.csr.pattern.col);
  }

  std::int64_t pad_;
  Buffer<std::int64_t> group_ptr_, block_ptr_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  const VslRule rule = vsl_rule(params);
  auto plan = std::make_shared<const Plan>(context, pattern, rule);
  Admission admission = admit_pieces(pattern, plan->cut.found, plan->slots,
                                     vsl_bytes(rule, pattern.rows, plan->cut.found) +
                                         value_bytes * static_cast<std::size_t>(plan->cut.found),
                                     params, value_bytes);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

constexpr Kernel kernels[] = {device_kernel<Vsl>("native")};

}  // namespace

constinit const DeviceCode device_code::vsl{kernels, admit};

}  // namespace protean::formats
