// Cuts on a device. cut.hpp describes them.
#include "formats/engines/composed/cut.hpp"

#include "core/device/primitives.hpp"
#include "formats/engines/composed/tally.hpp"
#include "formats/engines/view/device_rows.cuh"
#include "formats/engines/view/expand.cuh"

namespace protean::formats {
namespace {

constexpr int threads = 256;

CutView view_of(const SparsityPattern& p, const std::uint8_t* owner) {
  return {p.rows, p.cols, {p.row_ptr.p32, p.row_ptr.p64}, p.col, owner};
}

// counts[offset + rows] of the entries left. A thread an entry, as in all kernels here.
__global__ void count_left_on_diagonals(CutView a, std::int64_t size, const std::int32_t* row,
                                        unsigned long long* counts) {
  const std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (k < size && a.owner[k] == no_owner) atomicAdd(counts + (a.col[k] - row[k] + a.rows), 1ull);
}

// places[k] := 1 for an entry that has this owner; places[size] := 0.
__global__ void mark_owner(const std::uint8_t* owner, std::uint8_t wanted, std::int64_t size,
                           std::int64_t* places) {
  const std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (k <= size) places[k] = k < size && owner[k] == wanted;
}

// width[s] := the width of slice s (slice_width()). One thread per slice.
__global__ void measure_slices(CutView a, CutRule rule, const std::int64_t* places, std::int64_t* width) {
  const std::int64_t first = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * rule.slice;
  if (first >= a.rows) return;
  width[first / rule.slice] = slice_width(rule, first, min(first + rule.slice, a.rows), [&](std::int64_t r) {
    return places[a.row_ptr[r + 1]] - places[a.row_ptr[r]];
  });
}

// `counts` are the counts of diagonals, `widths` the widths of slices, `places` the number of entries before each one
// that were left when the rule began; each is null for rules that do not need it. `owner` is a.owner.
__global__ void take_entries(CutView a, CutRule rule, std::uint8_t part, std::int64_t size,
                             const std::int32_t* row, DenseDiagonals dense, const unsigned long long* counts,
                             const std::int64_t* places, const std::int64_t* widths, std::uint8_t* owner,
                             unsigned long long* taken) {
  const std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (k >= size || owner[k] != no_owner) return;
  const std::int64_t r = row[k], c = a.col[k];
  bool takes = true;
  switch (rule.by) {
    case CutBy::diagonals:
      takes = in_thick_band(rule, c - r, [&](std::int64_t o) {
        return o >= -a.rows && o < a.cols &&
               is_dense(dense, a.rows, a.cols, o, static_cast<std::int64_t>(counts[o + a.rows]));
      });
      break;
    case CutBy::band:
      takes = in_band(rule, r, c);
      break;
    case CutBy::rows: {
      const std::int64_t length = places[a.row_ptr[r + 1]] - places[a.row_ptr[r]];
      takes = length > rule.longer_than && length <= rule.at_most;
      break;
    }
    case CutBy::width:
      takes = places[k] - places[a.row_ptr[r]] < (widths ? widths[r / rule.slice] : rule.entries);
      break;
    case CutBy::blocks:
      takes = is_dense_block(rule, left_in_block(a, rule, part, r, c));
      break;
    case CutBy::rest:
      break;
  }
  if (!takes) return;
  owner[k] = part;
  atomicAdd(taken, 1ull);
}

__global__ void give_back(std::uint8_t part, std::int64_t size, std::uint8_t* owner) {
  const std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (k < size && owner[k] == part) owner[k] = no_owner;
}

// The row pointers of a part from the places of its entries.
template <class P>
__global__ void point_at_part(DeviceRowPointers from, std::int64_t rows, const std::int64_t* places,
                              P* row_ptr) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r <= rows) row_ptr[r] = static_cast<P>(places[from[r]]);
}
// from and values may be null.
template <class T>
__global__ void copy_part(const std::uint8_t* owner, std::uint8_t part, std::int64_t size,
                          const std::int64_t* places, const std::int32_t* col, const T* from,
                          std::int32_t* to_col, T* values) {
  const std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (k >= size || owner[k] != part) return;
  to_col[places[k]] = col[k];
  if (values) values[places[k]] = from[k];
}

class DeviceCut final : public Cut {
 public:
  DeviceCut(const Context& context, std::int64_t nonzeros) : owner(context, nonzeros) {}
  device::Scratch<std::uint8_t> owner;

  void with_pattern(const Context& context, const SparsityPattern& whole, int part,
                    const std::function<void(const SparsityPattern&)>& use) const override {
    const std::int64_t size = entries[static_cast<std::size_t>(part)];
    const device::Scratch<std::int32_t> col(context, size);
    const bool is_narrow = size < std::int64_t{1} << 31;
    const device::Scratch<std::int32_t> narrow(context, is_narrow ? whole.rows + 1 : 0);
    const device::Scratch<std::int64_t> wide(context, is_narrow ? 0 : whole.rows + 1);
    SparsityPattern pattern;
    pattern.rows = whole.rows, pattern.cols = whole.cols, pattern.nonzeros = size, pattern.col = col.data();
    pattern.space = Space::device;
    if (is_narrow)
      pattern.row_ptr.p32 = narrow.data();
    else
      pattern.row_ptr.p64 = wide.data();
    fill<double>(context, whole, part, narrow.data(), wide.data(), col.data(), nullptr, nullptr);
    use(pattern);
  }
  CsrMatrix<double> part_of(const ContextPtr& context, const CsrMatrix<double>& whole,
                            int part) const override {
    return make(context, whole, part);
  }
  CsrMatrix<float> part_of(const ContextPtr& context, const CsrMatrix<float>& whole,
                           int part) const override {
    return make(context, whole, part);
  }

 private:
  template <class T>
  CsrMatrix<T> make(const ContextPtr& context, const CsrMatrix<T>& whole, int part) const {
    CsrBuilder<T> builder(context, whole.rows(), whole.cols(), entries[static_cast<std::size_t>(part)]);
    fill(*context, whole.pattern, part, builder.row_ptr32(), builder.row_ptr64(), builder.col(), whole.values,
         builder.values());
    return builder.freeze();
  }

  // One of narrow and wide is null.
  template <class T>
  void fill(const Context& context, const SparsityPattern& whole, int part, std::int32_t* narrow,
            std::int64_t* wide, std::int32_t* col, const T* from, T* values) const {
    const cudaStream_t queue = device::stream(context);
    const auto mine = static_cast<std::uint8_t>(part);
    const std::int64_t size = whole.nonzeros;
    const device::Scratch<std::int64_t> places(context, size + 1);
    mark_owner<<<blocks_of(size + 1, threads), threads, 0, queue>>>(owner.data(), mine, size, places.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::exclusive_scan(context, places.data(), size + 1);
    const DeviceRowPointers row_ptr{whole.row_ptr.p32, whole.row_ptr.p64};
    if (narrow)
      point_at_part<<<blocks_of(whole.rows + 1, threads), threads, 0, queue>>>(row_ptr, whole.rows,
                                                                               places.data(), narrow);
    else
      point_at_part<<<blocks_of(whole.rows + 1, threads), threads, 0, queue>>>(row_ptr, whole.rows,
                                                                               places.data(), wide);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    if (size == 0) return;
    copy_part<<<blocks_of(size, threads), threads, 0, queue>>>(owner.data(), mine, size, places.data(),
                                                               whole.col, from, col, values);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
};

// Returns how many entries the part has got. The host waits for it.
std::int64_t apply(const Context& context, const SparsityPattern& pattern, const CutRule& rule,
                   std::uint8_t part, std::size_t value_bytes, const std::int32_t* row, std::uint8_t* owner) {
  const std::int64_t size = pattern.nonzeros;
  if (size == 0) return 0;
  const cudaStream_t queue = device::stream(context);
  const bool by_diagonal = rule.by == CutBy::diagonals,
             by_row = rule.by == CutBy::rows || rule.by == CutBy::width;
  const CutView view = view_of(pattern, owner);
  const device::Scratch<unsigned long long> counts(context,
                                                   by_diagonal ? pattern.rows + pattern.cols + 1 : 0);
  const device::Scratch<std::int64_t> places(context, by_row ? size + 1 : 0);
  const device::Scratch<unsigned long long> taken(context, 1);
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(taken.data(), 0, taken.bytes(), queue));
  if (by_diagonal) {
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(counts.data(), 0, counts.bytes(), queue));
    count_left_on_diagonals<<<blocks_of(size, threads), threads, 0, queue>>>(view, size, row, counts.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
  if (by_row) {
    mark_owner<<<blocks_of(size + 1, threads), threads, 0, queue>>>(owner, no_owner, size, places.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::exclusive_scan(context, places.data(), size + 1);
  }
  const std::int64_t slices = by_slices(rule) ? (pattern.rows + rule.slice - 1) / rule.slice : 0;
  const device::Scratch<std::int64_t> widths(context, slices);
  if (slices > 0) {
    measure_slices<<<blocks_of(slices, threads), threads, 0, queue>>>(view, rule, places.data(),
                                                                      widths.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
  take_entries<<<blocks_of(size, threads), threads, 0, queue>>>(
      view, rule, part, size, row, diagonals_of(rule, value_bytes), counts.data(), places.data(),
      slices > 0 ? widths.data() : nullptr, owner, taken.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  const auto count = static_cast<std::int64_t>(read_back(context, taken.data()));
  if (rule.by == CutBy::rest || !too_small(rule, count, size)) return count;
  give_back<<<blocks_of(size, threads), threads, 0, queue>>>(part, size, owner);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  return 0;
}

template <class T>
struct JoinedParts {
  int count;
  DeviceRowPointers row_ptr[most_parts];
  const std::int32_t* col[most_parts];
  const T* values[most_parts];
};
template <class T, class P>
__global__ void join_row_ptr(JoinedParts<T> parts, std::int64_t rows, P* row_ptr) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r > rows) return;
  std::int64_t sum = 0;
  for (int i = 0; i < parts.count; ++i) sum += parts.row_ptr[i][r];
  row_ptr[r] = static_cast<P>(sum);
}
// Entry k of part i comes after the entries of all rows before, and after the entries of its row with smaller columns.
template <class T>
__global__ void join_entries(JoinedParts<T> parts, int i, std::int64_t size, const std::int32_t* row,
                             std::int32_t* to_col, T* to_values) {
  const std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (k >= size) return;
  const std::int32_t c = parts.col[i][k];
  std::int64_t to = k;
  for (int j = 0; j < parts.count; ++j)
    if (j != i)
      to += first_where(parts.row_ptr[j][row[k]], parts.row_ptr[j][row[k] + 1],
                        [&](std::int64_t other) { return parts.col[j][other] > c; });
  to_col[to] = c, to_values[to] = parts.values[i][k];
}

template <class T>
CsrMatrix<T> join_parts(const ContextPtr& context, std::span<const CsrMatrix<T>> parts) {
  const cudaStream_t queue = device::stream(*context);
  JoinedParts<T> view{};
  std::int64_t nonzeros = 0;
  for (const CsrMatrix<T>& part : parts) {
    const RowPointers& row_ptr = part.pattern.row_ptr;
    view.row_ptr[view.count] = {row_ptr.p32, row_ptr.p64};
    view.col[view.count] = part.pattern.col, view.values[view.count++] = part.values;
    nonzeros += part.nonzeros();
  }
  const std::int64_t rows = parts[0].rows();
  CsrBuilder<T> builder(context, rows, parts[0].cols(), nonzeros);
  if (builder.row_ptr32())
    join_row_ptr<<<blocks_of(rows + 1, threads), threads, 0, queue>>>(view, rows, builder.row_ptr32());
  else
    join_row_ptr<<<blocks_of(rows + 1, threads), threads, 0, queue>>>(view, rows, builder.row_ptr64());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  for (int i = 0; i < view.count; ++i) {
    const SparsityPattern& pattern = parts[static_cast<std::size_t>(i)].pattern;
    if (pattern.nonzeros == 0) continue;
    const device::Scratch<std::int32_t> row(*context, pattern.nonzeros);
    pattern.row_ptr.visit(
        [&](auto* row_ptr) { expand(*context, row_ptr, rows, pattern.nonzeros, row.data()); });
    join_entries<<<blocks_of(pattern.nonzeros, threads), threads, 0, queue>>>(
        view, i, pattern.nonzeros, row.data(), builder.col(), builder.values());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
  return builder.freeze();
}

class DeviceTools final : public CutTools {
 public:
  std::shared_ptr<const Cut> cut(const Context& context, const SparsityPattern& pattern,
                                 std::span<const CutRule> rules, std::size_t value_bytes) const override {
    const std::int64_t size = pattern.nonzeros;
    auto cut = std::make_shared<DeviceCut>(context, size);
    if (size > 0)
      PROTEAN_CUDA_CHECK(
          cudaMemsetAsync(cut->owner.data(), no_owner, cut->owner.bytes(), device::stream(context)));
    const device::Scratch<std::int32_t> row(context, size);
    pattern.row_ptr.visit([&](auto* row_ptr) { expand(context, row_ptr, pattern.rows, size, row.data()); });
    for (const CutRule& rule : rules)
      cut->entries.push_back(apply(context, pattern, rule, static_cast<std::uint8_t>(cut->entries.size()),
                                   value_bytes, row.data(), cut->owner.data()));
    return cut;
  }
  std::unique_ptr<Tally> tally(const Context& context, const SparsityPattern& pattern) const override {
    return device_tally(context, pattern);
  }
  CsrMatrix<double> join(const ContextPtr& context, std::span<const CsrMatrix<double>> parts) const override {
    return join_parts(context, parts);
  }
  CsrMatrix<float> join(const ContextPtr& context, std::span<const CsrMatrix<float>> parts) const override {
    return join_parts(context, parts);
  }
};

}  // namespace

const CutTools& cuts_on_device() {
  static const DeviceTools tools;
  return tools;
}

}  // namespace protean::formats
