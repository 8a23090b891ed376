// CRSD on the device, in the layout of crsd.cpp, one thread for each row and its scattered entries. With segments of
// whole warps a warp keeps the part of x that a wide band needs in registers.
#include <optional>

#include "formats/diagonal/crsd.hpp"
#include "formats/engines/diagonals/diagonals.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

// The diagonals of all segments with their bits.
struct SegmentBits {
  std::int64_t rows, height, segments, diagonals, percent, bit_bytes;
  const std::int64_t* ptr;
  const std::int32_t* off;
  const std::uint8_t* bits;
};

// kept[d] = 1 if diagonal d of its segment is well filled; apart[d]: the number of its entries if not. One thread for
// each.
static __global__ void keep_diagonals(SegmentBits a, std::int64_t* kept, std::int64_t* apart) {
  const std::int64_t d = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (d > a.diagonals) return;
  if (d == a.diagonals) {
    kept[d] = apart[d] = 0;
    return;
  }
  const std::int64_t top = hack_of(a.ptr, a.segments, d) * a.height;
  const std::int64_t count = count_bits(a.bits + d * a.bit_bytes, a.bit_bytes);
  const bool keep = well_filled(count, min(a.height, a.rows - top), a.percent);
  kept[d] = keep, apart[d] = keep ? 0 : count;
}
static __global__ void gather_kept(const std::int64_t* before, const std::int32_t* off,
                                   std::int64_t diagonals, std::int32_t* kept) {
  const std::int64_t d = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (d < diagonals && before[d + 1] > before[d]) kept[before[d]] = off[d];
}
// to[h] := before[ptr[h]].
static __global__ void sums_of_segments(const std::int64_t* before, const std::int64_t* ptr,
                                        std::int64_t segments, std::int64_t* to) {
  const std::int64_t h = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (h <= segments) to[h] = before[ptr[h]];
}
// starts[h] = 1 if segment h has other diagonals than the segment before.
static __global__ void mark_patterns(const std::int64_t* ptr, const std::int32_t* off, std::int64_t segments,
                                     std::int64_t* starts) {
  const std::int64_t h = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (h > segments) return;
  bool other = h == 0;
  if (h > 0 && h < segments) {
    const std::int64_t count = ptr[h + 1] - ptr[h];
    other = ptr[h] - ptr[h - 1] != count;
    for (std::int64_t i = 0; i < count && !other; ++i) other = off[ptr[h] + i] != off[ptr[h - 1] + i];
  }
  starts[h] = h < segments && other;
}
// number[h]: patterns that begin before segment h.
static __global__ void gather_patterns(const std::int64_t* number, const std::int64_t* ptr,
                                       std::int64_t segments, std::int64_t* pattern_seg,
                                       std::int64_t* pattern_dia) {
  const std::int64_t h = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (h > segments || (h < segments && number[h + 1] == number[h])) return;
  pattern_seg[number[h]] = h, pattern_dia[number[h]] = ptr[h];
}
// The bands of each pattern, and its diagonals. With band_off they are listed, from bands[p] and diagonals[p] on.
static __global__ void bands_of_patterns(const std::int64_t* pattern_seg, std::int64_t patterns,
                                         const std::int64_t* ptr, const std::int32_t* off,
                                         std::int64_t* bands, std::int64_t* diagonals, std::int32_t* band_off,
                                         std::int64_t* band_ptr) {
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p >= patterns) return;
  const std::int64_t first = ptr[pattern_seg[p]], last = ptr[pattern_seg[p] + 1];
  std::int64_t count = 0;
  for (std::int64_t i = first; i < last; ++i) {
    if (i > first && off[i] == off[i - 1] + 1) continue;
    if (band_off) band_off[bands[p] + count] = off[i], band_ptr[bands[p] + count] = diagonals[p] + i - first;
    ++count;
  }
  if (!band_off) bands[p] = count, diagonals[p] = last - first;
}
static __global__ void put_last(const std::int64_t* from, std::int64_t* to) { *to = *from; }

// Row r: places its entries that lie apart from the lines. With scatter_row from starts[r] on, without it their number.
template <class T>
__global__ void scatter_rows(BandView<T> a, DevicePattern pattern, const T* from, std::int64_t* starts,
                             std::int32_t* scatter_row, std::int32_t* scatter_col, T* scatter_values) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r >= a.rows) return;
  auto l = a.lines(a.hack(r));
  std::int64_t to = scatter_row ? starts[r] : 0;
  const std::int64_t end = pattern.row_ptr[r + 1];
  for (std::int64_t k = pattern.row_ptr[r]; k < end; ++k) {
    const std::int64_t col = pattern.col[k];
    while (l.more() && l.col(r) < col) l.next();
    if (l.more() && l.col(r) == col) continue;
    if (scatter_row)
      scatter_row[to] = static_cast<std::int32_t>(r), scatter_col[to] = pattern.col[k],
      scatter_values[to] = from[k];
    ++to;
  }
  if (!scatter_row) starts[r] = to;
}

struct CrsdPlan {
  CrsdPlan(const Context& context, const SparsityPattern& pattern, std::int64_t rows_of_segment,
           std::int64_t percent)
      : height(rows_of_segment),
        kept_ptr(context, (pattern.rows + height - 1) / height + 1),
        scatter_ptr(context, kept_ptr.size()),
        number(context, kept_ptr.size()) {
    const cudaStream_t queue = device::stream(context);
    const HackDiagonals hacks(context, pattern, height);
    const std::int64_t n = hacks.diagonals, segments = hacks.hacks, bit_bytes = (height + 7) / 8;
    const device::Scratch<std::int32_t> off(context, n);
    const device::Scratch<std::uint8_t> bits(context, n * bit_bytes);
    hacks.list(context, pattern, off.data());
    hack_bits(context, pattern, height, segments, hacks.ptr.data(), off.data(), bits.data());
    const device::Scratch<std::int64_t> kept(context, n + 1), apart(context, n + 1);
    keep_diagonals<<<blocks_of(n + 1), device::block_size, 0, queue>>>(
        SegmentBits{pattern.rows, height, segments, n, percent, bit_bytes, hacks.ptr.data(), off.data(),
                    bits.data()},
        kept.data(), apart.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::exclusive_scan(context, kept.data(), n + 1);
    device::exclusive_scan(context, apart.data(), n + 1);
    counts.segments = segments;
    counts.diagonals = read_back(context, kept.data() + n);
    counts.scattered = read_back(context, apart.data() + n);
    const unsigned blocks = blocks_of(segments + 1);
    sums_of_segments<<<blocks, device::block_size, 0, queue>>>(kept.data(), hacks.ptr.data(), segments,
                                                               kept_ptr.data());
    sums_of_segments<<<blocks, device::block_size, 0, queue>>>(apart.data(), hacks.ptr.data(), segments,
                                                               scatter_ptr.data());
    kept_off.emplace(context, counts.diagonals);
    if (n > 0)
      gather_kept<<<blocks_of(n), device::block_size, 0, queue>>>(kept.data(), off.data(), n,
                                                                  kept_off->data());
    mark_patterns<<<blocks, device::block_size, 0, queue>>>(kept_ptr.data(), kept_off->data(), segments,
                                                            number.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::exclusive_scan(context, number.data(), segments + 1);
    const std::int64_t patterns = counts.patterns = read_back(context, number.data() + segments);
    pattern_seg.emplace(context, patterns + 1), pattern_dia.emplace(context, patterns + 1);
    pattern_band.emplace(context, patterns + 1), distinct.emplace(context, patterns + 1);
    gather_patterns<<<blocks, device::block_size, 0, queue>>>(number.data(), kept_ptr.data(), segments,
                                                              pattern_seg->data(), pattern_dia->data());
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(pattern_band->data(), 0, pattern_band->bytes(), queue));
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(distinct->data(), 0, distinct->bytes(), queue));
    list_bands(context, nullptr, nullptr);
    device::exclusive_scan(context, pattern_band->data(), patterns + 1);
    device::exclusive_scan(context, distinct->data(), patterns + 1);
    counts.bands = read_back(context, pattern_band->data() + patterns);
  }
  void list_bands(const Context& context, std::int32_t* band_off, std::int64_t* band_ptr) const {
    const cudaStream_t queue = device::stream(context);
    if (counts.patterns > 0)
      bands_of_patterns<<<blocks_of(counts.patterns), device::block_size, 0, queue>>>(
          pattern_seg->data(), counts.patterns, kept_ptr.data(), kept_off->data(), pattern_band->data(),
          distinct->data(), band_off, band_ptr);
    if (band_ptr) put_last<<<1, 1, 0, queue>>>(distinct->data() + counts.patterns, band_ptr + counts.bands);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  CrsdCounts counts{};
  std::int64_t height;
  const device::Scratch<std::int64_t> kept_ptr, scatter_ptr, number;  // of segments
  std::optional<device::Scratch<std::int32_t>> kept_off;
  std::optional<device::Scratch<std::int64_t>> pattern_seg, pattern_dia, pattern_band, distinct;
};

template <class T>
class CrsdDevice final : public BandsOnDevice<T, CrsdDevice<T>> {
 public:
  explicit CrsdDevice(const BuildRequest<T>& request)
      : CrsdDevice(request, plan_of<CrsdPlan>(request.admission)) {}

  std::size_t bytes() const noexcept override {
    return this->array_bytes() + pattern_seg_.bytes() + pattern_band_.bytes() + pattern_dia_.bytes() +
           band_off_.bytes() + band_ptr_.bytes() + scatter_ptr_.bytes() + scatter_row_.bytes() +
           scatter_col_.bytes();
  }
  BandView<T> row_view() const noexcept {
    BandView<T> view{};
    view.values = this->values_.data(), view.entries = this->entries_.data();
    view.rows = this->rows(), view.cols = this->cols();
    view.height = height_, view.hacks = scatter_ptr_.size() - 1, view.bit_bytes = (height_ + 7) / 8;
    view.band_off = band_off_.data(), view.band_ptr = band_ptr_.data();
    view.pattern_hack = pattern_seg_.data(), view.pattern_band = pattern_band_.data();
    view.pattern_line = pattern_dia_.data();
    view.bands = band_off_.size(), view.patterns = pattern_seg_.size() - 1;
    view.scatter_ptr = scatter_ptr_.data();
    view.scatter_row = scatter_row_.data(), view.scatter_col = scatter_col_.data();
    view.scatter_values = this->values_.size() - scatter_col_.size();
    return view;
  }

 protected:
  // The scattered values as well, which write() leaves out.
  void do_update_values(const CsrMatrix<T>& csr) override {
    update_by_view(*this->context(), row_view(), csr, this->values_.data());
  }

 private:
  CrsdDevice(const BuildRequest<T>& request, const CrsdPlan& plan)
      : BandsOnDevice<T, CrsdDevice<T>>(request, plan.counts.stored(plan.height),
                                        (plan.height + 7) / 8 * plan.counts.diagonals),
        height_(plan.height),
        pattern_seg_(copy_of(request.context, *plan.pattern_seg)),
        pattern_band_(copy_of(request.context, *plan.pattern_band)),
        pattern_dia_(copy_of(request.context, *plan.pattern_dia)),
        band_off_(request.context, plan.counts.bands),
        band_ptr_(request.context, plan.counts.bands + 1),
        scatter_ptr_(copy_of(request.context, plan.scatter_ptr)),
        scatter_row_(request.context, plan.counts.scattered),
        scatter_col_(request.context, plan.counts.scattered) {
    const Context& context = *request.context;
    // Without bands there is nothing to list, and no address that would ask for it.
    if (plan.counts.bands > 0)
      plan.list_bands(context, band_off_.data(), band_ptr_.data());
    else
      PROTEAN_CUDA_CHECK(cudaMemsetAsync(band_ptr_.data(), 0, band_ptr_.bytes(), this->queue()));
    this->write(request.csr);
    if (plan.counts.scattered == 0) return;
    const device::Scratch<std::int64_t> starts(context, this->rows() + 1);
    const DevicePattern pattern = device_pattern(request.csr.pattern);
    const BandView<T> view = row_view();
    scatter_rows<<<blocks_of(this->rows()), device::block_size, 0, this->queue()>>>(
        view, pattern, request.csr.values, starts.data(), static_cast<std::int32_t*>(nullptr),
        static_cast<std::int32_t*>(nullptr), static_cast<T*>(nullptr));
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::exclusive_scan(context, starts.data(), starts.size());
    scatter_rows<<<blocks_of(this->rows()), device::block_size, 0, this->queue()>>>(
        view, pattern, request.csr.values, starts.data(), scatter_row_.data(), scatter_col_.data(),
        this->values_.data() + view.scatter_values);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  std::int64_t height_;
  Buffer<std::int64_t> pattern_seg_, pattern_band_, pattern_dia_;
  Buffer<std::int32_t> band_off_;
  Buffer<std::int64_t> band_ptr_, scatter_ptr_;
  Buffer<std::int32_t> scatter_row_, scatter_col_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan =
      std::make_shared<const CrsdPlan>(context, pattern, params.integer("rows"), params.integer("scatter"));
  Admission admission = admit_crsd(plan->counts, pattern, params, value_bytes);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

constexpr Kernel kernels[] = {device_kernel<CrsdDevice>("native")};

}  // namespace

constinit const DeviceCode device_code::crsd{kernels, admit};

}  // namespace protean::formats
