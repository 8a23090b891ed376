// Coded columns and rows on a device: widths, admission, conversion, all on the device. bro.hpp describes the arrays,
// bro.cuh has the products.
#include "formats/engines/bits/bro.cuh"
#include "formats/engines/rows/row_order.cuh"
#include "formats/engines/view/row_view.cuh"

namespace protean::formats {
namespace {

constexpr int threads = device::block_size;

// Positions of the source.
struct BroSource {
  DevicePattern a;
  const std::int32_t* perm;
  std::int64_t K;

  __device__ std::int64_t row(std::int64_t p) const { return perm ? perm[p] : p; }
  __device__ std::int64_t begin(std::int64_t p) const { return a.row_ptr[row(p)]; }
  __device__ std::int64_t end(std::int64_t p) const { return a.row_ptr[row(p) + 1]; }
  // The first entry of the tail.
  __device__ std::int64_t middle(std::int64_t p) const {
    const std::int64_t first = begin(p), last = end(p);
    return last - first > K ? first + K : last;
  }
};

__device__ inline std::int64_t global_thread() { return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline std::uint32_t or_lanes(std::uint32_t value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value |= __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

// width[s] := slots of slice s; 0 before.
__global__ void bro_slice_widths(BroSource from, std::int64_t h, std::int64_t* width) {
  const std::int64_t p = global_thread();
  if (p >= from.a.rows) return;
  const auto length = static_cast<unsigned long long>(from.middle(p) - from.begin(p));
  if (length > 0) atomicMax(reinterpret_cast<unsigned long long*>(width + p / h), length);
}
// all[slot] := the bitwise or of the differences in this slot of a slice; 0 before.
__global__ void bro_slot_steps(BroSource from, std::int64_t h, const std::int64_t* col_ptr,
                               std::uint32_t* all) {
  const std::int64_t p = global_thread();
  if (p >= from.a.rows) return;
  std::uint32_t* slot = all + col_ptr[p / h];
  std::int32_t before = -1;
  for (std::int64_t k = from.begin(p), end = from.middle(p); k < end; ++k, ++slot) {
    const auto step = static_cast<std::uint32_t>(from.a.col[k] - before);
    before = from.a.col[k];
    if ((*slot & step) != step) atomicOr(slot, step);
  }
}
// A warp a slice.
__global__ void bro_slice_symbols(std::int64_t slices, const std::int64_t* col_ptr, const std::uint32_t* all,
                                  std::uint8_t* bit_alloc, std::int64_t* symbols) {
  const std::int64_t s = global_thread() / 32;
  if (s >= slices) return;  // the whole warp
  const int lane = static_cast<int>(threadIdx.x % 32);
  std::int64_t bits = 0;
  for (std::int64_t k = col_ptr[s] + lane; k < col_ptr[s + 1]; k += 32) {
    const int width = bits_of(all[k]);
    bit_alloc[k] = static_cast<std::uint8_t>(width);
    bits += width;
  }
  bits = device::sum_lanes(bits);
  if (lane == 0) symbols[s] = symbols_of(bits);
}

// lengths[p] := entries of the tail of position p; lengths[rows] := 0.
template <class P>
__global__ void bro_tail_lengths(BroSource from, P* lengths) {
  const std::int64_t p = global_thread();
  if (p < from.a.rows) lengths[p] = static_cast<P>(from.end(p) - from.middle(p));
  if (p == from.a.rows) lengths[p] = 0;
}
__device__ inline std::int64_t row_symbols(std::int64_t length, int width) {
  return length == 0 ? 0 : 1 + symbols_of((length - 1) * width);
}
// The width of each row of the tail, a warp a row, and its symbols.
__global__ void bro_row_widths(BroSource from, std::uint8_t* width, std::int64_t* symbols) {
  const std::int64_t p = global_thread() / 32;
  if (p >= from.a.rows) return;  // the whole warp
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::int64_t first = from.middle(p), end = from.end(p);
  std::uint32_t all = 0;
  for (std::int64_t k = first + 1 + lane; k < end; k += 32) all |= column_step(from.a.col, k);
  const int its = bits_of(or_lanes(all));
  if (lane == 0) width[p] = static_cast<std::uint8_t>(its), symbols[p] = row_symbols(end - first, its);
}
template <class P>
__global__ void bro_row_symbols(BroSource from, const std::uint8_t* width, P* symbols) {
  const std::int64_t p = global_thread();
  if (p < from.a.rows) symbols[p] = static_cast<P>(row_symbols(from.end(p) - from.middle(p), width[p]));
  if (p == from.a.rows) symbols[p] = 0;
}

// Rows of the entries of the tail, with padding: the last row.
struct BroEntryRows {
  const std::int32_t* row;
  std::int64_t size;
  __device__ std::int32_t operator[](std::int64_t k) const { return row[k < size ? k : size - 1]; }
};
// A warp an interval.
__global__ void bro_interval_widths(BroEntryRows rows, std::int64_t intervals, int W, int q,
                                    std::int32_t* base, std::uint8_t* width, std::int64_t* symbols) {
  const std::int64_t i = global_thread() / 32;
  if (i >= intervals) return;  // the whole warp
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::int64_t first = i * W * q;
  const std::int32_t row = rows[first];
  std::uint32_t all = 0;
  if (lane < W) {
    std::int32_t before = row;
    for (int k = 0; k < q; ++k) {
      const std::int32_t its = rows[first + std::int64_t{k} * W + lane];
      all |= static_cast<std::uint32_t>(its - before);
      before = its;
    }
  }
  const int its = bits_of(or_lanes(all));
  if (lane == 0) {
    base[i] = row, width[i] = static_cast<std::uint8_t>(its);
    symbols[i] = W * symbols_of(std::int64_t{q} * its);
  }
}
// A thread a lane of an interval.
template <class T>
__global__ void bro_pack_intervals(BroView<T> a, BroEntryRows rows, std::int64_t intervals,
                                   std::uint32_t* symbols) {
  const std::int64_t t = global_thread(), i = t / a.W, lane = t % a.W;
  if (i >= intervals) return;
  FieldWriter writer(symbols + a.interval_symbol[i] + lane, a.W);
  std::int32_t before = a.base[i];
  for (int k = 0; k < a.q; ++k) {
    const std::int32_t row = rows[(i * a.q + k) * a.W + lane];
    writer.put(static_cast<std::uint32_t>(row - before), a.width[i]);
    before = row;
  }
  writer.finish();
}

// The streams of the slices (unless symbols is null) and their values, a thread a position.
template <class T>
__global__ void bro_fill_slices(BroView<T> a, BroSource from, const T* source, std::uint32_t* symbols,
                                T* values) {
  const std::int64_t p = global_thread();
  if (p >= a.rows) return;
  const std::int64_t s = p / a.h, lane = p % a.h, lanes = a.lanes(s), end = from.middle(p);
  std::int64_t k = from.begin(p);
  T* to = values + a.h * a.col_ptr[s] + lane;
  if (!symbols) {
    for (; k < end; ++k, to += lanes) *to = source[k];
    return;
  }
  FieldWriter writer(symbols + a.h * a.symbol_ptr[s] + lane, lanes);
  std::int32_t before = -1;
  for (std::int64_t slot = a.col_ptr[s]; slot < a.col_ptr[s + 1]; ++slot, ++k, to += lanes) {
    const bool there = k < end;
    std::uint32_t step = 0;
    if (there) {
      step = static_cast<std::uint32_t>(from.a.col[k] - before);
      before = from.a.col[k];
    }
    *to = there ? source[k] : T(0);
    writer.put(step, a.bit_alloc[slot]);
  }
  writer.finish();
}
// The streams of the rows of the tail (unless symbols is null) and their values, a warp a row. Each lane makes whole
// symbols.
template <class T>
__global__ void bro_fill_rows(BroView<T> a, BroSource from, const T* source, std::uint32_t* symbols,
                              T* values) {
  const std::int64_t p = global_thread() / 32;
  if (p >= a.rows) return;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::int64_t first = from.middle(p), end = from.end(p), at = a.tail_at + a.row_ptr[p];
  for (std::int64_t k = first + lane; k < end; k += 32) values[at + k - first] = source[k];
  if (!symbols) return;
  const int width = a.width[p];
  const std::int64_t begin = a.row_symbol[p], count = a.row_symbol[p + 1] - begin;
  for (std::int64_t j = lane; j < count; j += 32) {
    if (j == 0) {
      symbols[begin] = static_cast<std::uint32_t>(from.a.col[first]);
      continue;
    }
    const std::int64_t bit = (j - 1) * symbol_bits;  // of the differences
    std::uint32_t symbol = 0;
    for (std::int64_t i = bit / width; i * width < bit + symbol_bits && first + 1 + i < end; ++i) {
      const std::uint32_t step = column_step(from.a.col, first + 1 + i);
      const int room = static_cast<int>(bit + symbol_bits - (i + 1) * width);  // behind the field
      symbol |= room >= 0 ? step << room : step >> -room;
    }
    symbols[begin + j] = symbol;
  }
}
// Columns (unless null) and values of the entries of the tail, a warp a row.
template <class T>
__global__ void bro_fill_entries(BroSource from, const std::int64_t* tail_ptr, const T* source,
                                 std::int32_t* col, T* values) {
  const std::int64_t p = global_thread() / 32;
  if (p >= from.a.rows) return;
  const std::int64_t first = from.middle(p), end = from.end(p), at = tail_ptr[p];
  for (std::int64_t k = first + threadIdx.x % 32; k < end; k += 32) {
    values[at + k - first] = source[k];
    if (col) col[at + k - first] = from.a.col[k];
  }
}

// What admit() finds.
struct BroDevicePlan {
  explicit BroDevicePlan(const Context& context) : context(context) {}
  const Context& context;
  BroSizes sizes;
  template <class N>
  using Array = std::unique_ptr<device::Scratch<N>>;
  Array<std::int32_t> perm, base;
  Array<std::int64_t> col_ptr, symbol_ptr, interval_symbol;
  Array<std::uint8_t> bit_alloc, width;

  template <class N>
  void make(Array<N>& array, std::int64_t size) {
    array = std::make_unique<device::Scratch<N>>(context, size);
  }
};

void clear(const Context& context, void* data, std::size_t bytes) {
  if (bytes > 0) PROTEAN_CUDA_CHECK(cudaMemsetAsync(data, 0, bytes, device::stream(context)));
}

// Entries of the tail before each position.
void point_tail(const Context& context, const BroSource& from, std::int64_t* tail_ptr) {
  bro_tail_lengths<<<blocks_of(from.a.rows + 1), threads, 0, device::stream(context)>>>(from, tail_ptr);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  device::exclusive_scan(context, tail_ptr, from.a.rows + 1);
}

void measure_slices(const Context& context, const BroSource& from, BroDevicePlan& plan) {
  BroSizes& sizes = plan.sizes;
  const std::int64_t slices = sizes.slices(), h = sizes.shape.h;
  plan.make(plan.col_ptr, slices + 1);
  clear(context, plan.col_ptr->data(), plan.col_ptr->bytes());
  if (slices == 0) return;
  bro_slice_widths<<<blocks_of(sizes.rows), threads, 0, device::stream(context)>>>(from, h,
                                                                                   plan.col_ptr->data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  device::exclusive_scan(context, plan.col_ptr->data(), slices + 1);
  const std::int64_t last = read_back(context, plan.col_ptr->data() + slices - 1);
  sizes.columns = read_back(context, plan.col_ptr->data() + slices);
  sizes.slots = h * last + (sizes.rows - (slices - 1) * h) * (sizes.columns - last);
}
void measure_fields(const Context& context, const BroSource& from, BroDevicePlan& plan) {
  BroSizes& sizes = plan.sizes;
  const cudaStream_t queue = device::stream(context);
  const std::int64_t slices = sizes.slices(), h = sizes.shape.h;
  plan.make(plan.symbol_ptr, slices + 1), plan.make(plan.bit_alloc, sizes.columns);
  clear(context, plan.symbol_ptr->data(), plan.symbol_ptr->bytes());
  if (slices == 0) return;
  const device::Scratch<std::uint32_t> all(context, sizes.columns);
  clear(context, all.data(), all.bytes());
  bro_slot_steps<<<blocks_of(sizes.rows), threads, 0, queue>>>(from, h, plan.col_ptr->data(), all.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  bro_slice_symbols<<<blocks_of(slices * 32), threads, 0, queue>>>(
      slices, plan.col_ptr->data(), all.data(), plan.bit_alloc->data(), plan.symbol_ptr->data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  device::exclusive_scan(context, plan.symbol_ptr->data(), slices + 1);
  const std::int64_t last = read_back(context, plan.symbol_ptr->data() + slices - 1);
  sizes.lane_symbols = read_back(context, plan.symbol_ptr->data() + slices);
  sizes.symbols = h * last + (sizes.rows - (slices - 1) * h) * (sizes.lane_symbols - last);
}
void measure_rows(const Context& context, const BroSource& from, BroDevicePlan& plan) {
  BroSizes& sizes = plan.sizes;
  plan.make(plan.width, sizes.rows);
  if (sizes.rows == 0) return;
  const device::Scratch<std::int64_t> symbols(context, sizes.rows + 1);
  clear(context, symbols.data(), symbols.bytes());
  bro_row_widths<<<blocks_of(sizes.rows * 32), threads, 0, device::stream(context)>>>(
      from, plan.width->data(), symbols.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  device::exclusive_scan(context, symbols.data(), sizes.rows + 1);
  sizes.tail_symbols = read_back(context, symbols.data() + sizes.rows);
}
// Calls f with the rows of the entries of the tail.
template <class F>
void with_entry_rows(const Context& context, const BroSizes& sizes, const std::int64_t* tail_ptr, F&& f) {
  const device::Scratch<std::int32_t> row(context, sizes.tail_entries);
  expand(context, tail_ptr, sizes.rows, sizes.tail_entries, row.data());
  f(BroEntryRows{row.data(), sizes.tail_entries});
}
void measure_entries(const Context& context, const std::int64_t* tail_ptr, BroDevicePlan& plan) {
  BroSizes& sizes = plan.sizes;
  const std::int64_t intervals = sizes.intervals();
  plan.make(plan.width, intervals), plan.make(plan.base, intervals);
  plan.make(plan.interval_symbol, intervals + 1);
  clear(context, plan.interval_symbol->data(), plan.interval_symbol->bytes());
  if (intervals == 0) return;
  with_entry_rows(context, sizes, tail_ptr, [&](const BroEntryRows& rows) {
    bro_interval_widths<<<blocks_of(intervals * 32), threads, 0, device::stream(context)>>>(
        rows, intervals, sizes.shape.W, sizes.shape.q, plan.base->data(), plan.width->data(),
        plan.interval_symbol->data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  });
  device::exclusive_scan(context, plan.interval_symbol->data(), intervals + 1);
  sizes.tail_symbols = read_back(context, plan.interval_symbol->data() + intervals);
}

template <class T>
class BroOnDevice final : public RowViewOnDevice<T, BroOnDevice<T>> {
 public:
  explicit BroOnDevice(const BuildRequest<T>& request)
      : BroOnDevice(request, plan_of<BroDevicePlan>(request.admission)) {}

  std::size_t bytes() const noexcept override {
    return values_.bytes() + perm_.bytes() + col_ptr_.bytes() + symbol_ptr_.bytes() + bit_alloc_.bytes() +
           symbols_.bytes() + ptr32_.bytes() + ptr64_.bytes() + width_.bytes() + base_.bytes() +
           col_.bytes() + interval_symbol_.bytes() + tail_symbols_.bytes() + carry_row_.bytes() +
           carry_value_.bytes();
  }
  BroView<T> row_view() const {
    BroView<T> view{};
    view.values = values_.data(), view.rows = sizes_.rows;
    view.perm = sizes_.shape.sorted ? perm_.data() : nullptr;
    view.slices = sizes_.shape.slices, view.h = sizes_.shape.h;
    view.col_ptr = col_ptr_.data(), view.symbol_ptr = symbol_ptr_.data();
    view.bit_alloc = bit_alloc_.data(), view.symbols = symbols_.data();
    view.tail = sizes_.shape.tail, view.tail_at = sizes_.slots, view.tail_entries = sizes_.tail_entries;
    view.tail_symbols = tail_symbols_.data(), view.width = width_.data();
    const std::int64_t rows = sizes_.rows + 1;
    if (ptr64_.empty())
      view.row_ptr.p32 = ptr32_.data(), view.row_symbol.p32 = ptr32_.data() + rows;
    else
      view.row_ptr.p64 = ptr64_.data(), view.row_symbol.p64 = ptr64_.data() + rows;
    view.base = base_.data(), view.col = col_.data(), view.interval_symbol = interval_symbol_.data();
    view.W = sizes_.shape.W, view.q = sizes_.shape.q;
    return view;
  }
  T* mutable_values() { return values_.data(); }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override { fill(csr, false); }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    // The carries are workspace of the product.
    multiply_bro(*this->context(), row_view(), sizes_.intervals(), alpha, x.data, beta, y.data,
                 const_cast<std::int32_t*>(carry_row_.data()), const_cast<T*>(carry_value_.data()));
  }

 private:
  BroOnDevice(const BuildRequest<T>& request, const BroDevicePlan& plan)
      : RowViewOnDevice<T, BroOnDevice<T>>(request), sizes_(plan.sizes) {
    const ContextPtr& context = request.context;
    const SparsityPattern& pattern = request.csr.pattern;
    const auto copy = [&](const auto& from, auto& to) {
      if (from) to = copy_of(context, *from);
    };
    copy(plan.perm, perm_), copy(plan.col_ptr, col_ptr_), copy(plan.symbol_ptr, symbol_ptr_);
    copy(plan.bit_alloc, bit_alloc_), copy(plan.width, width_), copy(plan.base, base_);
    copy(plan.interval_symbol, interval_symbol_);
    values_ = Buffer<T>(context, sizes_.slots + sizes_.tail_entries);
    symbols_ = Buffer<std::uint32_t>(context, sizes_.symbols);
    tail_symbols_ = Buffer<std::uint32_t>(context, sizes_.tail_symbols);
    if (sizes_.shape.tail == BroTail::entries) {
      col_ = Buffer<std::int32_t>(context, sizes_.tail_entries);
      carry_row_ = Buffer<std::int32_t>(context, sizes_.intervals());
      carry_value_ = Buffer<T>(context, sizes_.intervals());
    }
    if (sizes_.shape.tail == BroTail::rows) {
      if (pattern.row_ptr.p32)
        point(pattern, ptr32_);
      else
        point(pattern, ptr64_);
    }
    fill(request.csr, true);
  }

  BroSource source(const SparsityPattern& pattern) const {
    return {device_pattern(pattern), sizes_.shape.sorted ? perm_.data() : nullptr, sizes_.shape.K};
  }

  template <class P>
  void point(const SparsityPattern& pattern, Buffer<P>& ptr) {
    const std::int64_t size = sizes_.rows + 1;
    const cudaStream_t queue = device::stream(*this->context());
    ptr = Buffer<P>(this->context(), 2 * size);
    bro_tail_lengths<<<blocks_of(size), threads, 0, queue>>>(source(pattern), ptr.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    bro_row_symbols<<<blocks_of(size), threads, 0, queue>>>(source(pattern), width_.data(),
                                                            ptr.data() + size);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::exclusive_scan(*this->context(), ptr.data(), size);
    device::exclusive_scan(*this->context(), ptr.data() + size, size);
  }

  void fill(const CsrMatrix<T>& csr, bool structure) {
    if (sizes_.rows == 0) return;
    const Context& context = *this->context();
    const cudaStream_t queue = device::stream(context);
    const BroView<T> view = row_view();
    const BroSource from = source(csr.pattern);
    if (sizes_.shape.slices && sizes_.slots > 0) {
      bro_fill_slices<<<blocks_of(sizes_.rows), threads, 0, queue>>>(
          view, from, csr.values, structure ? symbols_.data() : nullptr, values_.data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
    }
    if (sizes_.shape.tail == BroTail::rows) {
      bro_fill_rows<<<blocks_of(sizes_.rows * 32), threads, 0, queue>>>(
          view, from, csr.values, structure ? tail_symbols_.data() : nullptr, values_.data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
    }
    if (sizes_.shape.tail == BroTail::entries && sizes_.tail_entries > 0) {
      const device::Scratch<std::int64_t> tail_ptr(context, sizes_.rows + 1);
      point_tail(context, from, tail_ptr.data());
      T* const values = values_.data() + sizes_.slots;
      if (structure) {
        with_entry_rows(context, sizes_, tail_ptr.data(), [&](const BroEntryRows& rows) {
          bro_pack_intervals<<<blocks_of(sizes_.intervals() * sizes_.shape.W), threads, 0, queue>>>(
              view, rows, sizes_.intervals(), tail_symbols_.data());
          PROTEAN_CUDA_CHECK(cudaGetLastError());
        });
      }
      bro_fill_entries<<<blocks_of(sizes_.rows * 32), threads, 0, queue>>>(
          from, tail_ptr.data(), csr.values, structure ? col_.data() : nullptr, values);
      PROTEAN_CUDA_CHECK(cudaGetLastError());
    }
  }

  BroSizes sizes_;
  Buffer<T> values_, carry_value_;
  Buffer<std::int32_t> perm_, ptr32_, base_, col_, carry_row_;
  Buffer<std::int64_t> col_ptr_, symbol_ptr_, ptr64_, interval_symbol_;
  Buffer<std::uint8_t> bit_alloc_, width_;
  Buffer<std::uint32_t> symbols_, tail_symbols_;
};

}  // namespace

Admission admit_bro_on_device(BroRule rule, const Context& context, const SparsityPattern& pattern,
                              const FormatParams& params, std::size_t value_bytes) {
  auto plan = std::make_shared<BroDevicePlan>(context);
  BroSizes& sizes = plan->sizes;
  BroShape& shape = sizes.shape;
  shape = rule(*device_sum_counter(context, pattern, value_bytes), params);
  sizes.rows = pattern.rows;
  BroSource from{device_pattern(pattern), nullptr, shape.K};
  if (shape.sorted) {
    plan->make(plan->perm, pattern.rows);
    order_rows(context, pattern, std::max<std::int64_t>(1, pattern.rows),
               device_row_lengths(context, pattern).longest, plan->perm->data());
    from.perm = plan->perm->data();
  }
  const device::Scratch<std::int64_t> tail_ptr(context, pattern.rows + 1);
  if (shape.tail != BroTail::none) {
    point_tail(context, from, tail_ptr.data());
    sizes.tail_entries = read_back(context, tail_ptr.data() + pattern.rows);
    if (shape.slices && sizes.tail_entries == 0) shape.tail = BroTail::none;
  }
  if (shape.slices) {
    measure_slices(context, from, *plan);
    // Refused before the fields of very many slots are measured.
    if (Admission early = admission_of(sizes, pattern, value_bytes, true); !early.ok) return early;
    measure_fields(context, from, *plan);
  }
  if (shape.tail == BroTail::rows) measure_rows(context, from, *plan);
  if (shape.tail == BroTail::entries) measure_entries(context, tail_ptr.data(), *plan);
  Admission admission = admission_of(sizes, pattern, value_bytes, true);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

template <class T>
std::unique_ptr<AssembledMatrix<T>> make_bro_on_device(const BuildRequest<T>& request) {
  return std::make_unique<BroOnDevice<T>>(request);
}
template std::unique_ptr<AssembledMatrix<double>> make_bro_on_device<double>(const BuildRequest<double>&);
template std::unique_ptr<AssembledMatrix<float>> make_bro_on_device<float>(const BuildRequest<float>&);

}  // namespace protean::formats
