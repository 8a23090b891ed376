// The device side of diagonal_view.hpp: the search for diagonals, conversion and products. One thread computes a row.
// With dia and hdi, up to 8 warps of a block share the diagonals of 32 rows in small matrices. Private to formats/.
#pragma once
#include "core/bisect.hpp"
#include "formats/engines/diagonals/diagonal_view.hpp"
#include "formats/engines/view/row_view.cuh"
#include "formats/engines/view/stored_values.hpp"
#include "operators/row_arrays.hpp"

namespace protean::formats {

// ---- The diagonals of a pattern

// marks[c / b - r / b + zero] = 1 if row r has an entry in column c. Eight lanes for each row.
static __global__ void mark_diagonals(DevicePattern a, std::int64_t b, std::int64_t zero,
                                      std::int32_t* marks) {
  const std::int64_t r = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 8;
  if (r >= a.rows) return;
  const std::int64_t end = a.row_ptr[r + 1], from = r / b - zero;
  for (std::int64_t k = a.row_ptr[r] + threadIdx.x % 8; k < end; k += 8) {
    std::int32_t* mark = marks + (a.col[k] / b - from);
    if (*mark == 0) *mark = 1;
  }
}

static __global__ void gather_offsets(const std::int32_t* before, std::int64_t zero, std::int64_t size,
                                      std::int32_t* off) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < size && before[i + 1] > before[i]) off[before[i]] = static_cast<std::int32_t>(i - zero);
}

// The diagonals of a whole matrix, or of its blocks of b rows and columns. before[i]: how many of the possible ones
// below number i have an entry.
struct DiagonalNumbers {
  explicit DiagonalNumbers(const Context& context, const SparsityPattern& pattern, std::int64_t b = 1)
      : zero((pattern.rows + b - 1) / b), before(context, zero + (pattern.cols + b - 1) / b + 1) {
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(before.data(), 0, before.bytes(), device::stream(context)));
    if (pattern.rows > 0)
      mark_diagonals<<<blocks_of(pattern.rows * 8), device::block_size, 0, device::stream(context)>>>(
          device_pattern(pattern), b, zero, before.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::exclusive_scan(context, before.data(), before.size());
    diagonals = read_back(context, before.data() + before.size() - 1);
  }
  // off[diagonals] := the offsets, ascending.
  void list(const Context& context, std::int32_t* off) const {
    const std::int64_t size = before.size() - 1;
    if (diagonals > 0)
      gather_offsets<<<blocks_of(size), device::block_size, 0, device::stream(context)>>>(before.data(), zero,
                                                                                          size, off);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
  const std::int64_t zero;
  const device::Scratch<std::int32_t> before;
  std::int64_t diagonals;
};

// Merges the rows of a hack into its diagonals, in ascending order: one block for each hack, one thread for
// each row. counts[h] gets their number; they are stored in `list`, beginning at the number of entries before
// the hack.
static __global__ void merge_hack(DevicePattern a, std::int64_t height, std::int64_t* counts,
                                  std::int32_t* list) {
  constexpr std::int32_t none = 0x7fffffff;
  extern __shared__ RowWalk<char>::Room rooms[];
  __shared__ std::int32_t lowest_of[32];
  const std::int64_t h = blockIdx.x, r = h * height + threadIdx.x;
  const int warps = blockDim.x / 32;
  std::int64_t begin = 0, end = 0;
  if (threadIdx.x < height && r < a.rows) begin = a.row_ptr[r], end = a.row_ptr[r + 1];
  RowWalk<char> walk(rooms[threadIdx.x / 32], a.col, nullptr, begin, end);
  std::int32_t* to = list + a.row_ptr[h * height];
  std::int64_t count = 0;
  for (;; ++count) {
    const std::int32_t mine = walk.ended() ? none : static_cast<std::int32_t>(walk.col() - r);
    std::int32_t lowest = device::warp_min(mine);
    if (warps > 1) {
      __syncthreads();
      if (threadIdx.x % 32 == 0) lowest_of[threadIdx.x / 32] = lowest;
      __syncthreads();
      const int lane = threadIdx.x % 32;
      lowest = device::warp_min(lane < warps ? lowest_of[lane] : none);
    }
    if (lowest == none) break;
    if (threadIdx.x == 0) to[count] = lowest;
    walk.advance(mine == lowest);
  }
  if (threadIdx.x == 0) counts[h] = count;
}

// One warp for each hack.
static __global__ void gather_hacks(DevicePattern a, std::int64_t height, std::int64_t hacks,
                                    const std::int64_t* ptr, const std::int32_t* list, std::int32_t* off) {
  const std::int64_t h = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (h >= hacks) return;
  const std::int32_t* from = list + a.row_ptr[h * height];
  for (std::int64_t i = ptr[h] + threadIdx.x % 32; i < ptr[h + 1]; i += 32) off[i] = from[i - ptr[h]];
}

// The diagonals of hacks of up to 1024 rows.
struct HackDiagonals {
  HackDiagonals(const Context& context, const SparsityPattern& pattern, std::int64_t rows_of_hack)
      : height(rows_of_hack),
        hacks((pattern.rows + height - 1) / height),
        ptr(context, hacks + 1),
        list_(context, pattern.nonzeros) {
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(ptr.data(), 0, ptr.bytes(), device::stream(context)));
    if (hacks > 0) {
      const unsigned warps = blocks_of(height, 32);
      merge_hack<<<static_cast<unsigned>(hacks), warps * 32, warps * sizeof(RowWalk<char>::Room),
                   device::stream(context)>>>(device_pattern(pattern), height, ptr.data(), list_.data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
    }
    device::exclusive_scan(context, ptr.data(), hacks + 1);
    diagonals = read_back(context, ptr.data() + hacks);
  }
  // off[diagonals] := the offsets of all hacks.
  void list(const Context& context, const SparsityPattern& pattern, std::int32_t* off) const {
    if (diagonals > 0)
      gather_hacks<<<blocks_of(hacks * 32), device::block_size, 0, device::stream(context)>>>(
          device_pattern(pattern), height, hacks, ptr.data(), list_.data(), off);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
  std::int64_t height, hacks, diagonals = 0;
  const device::Scratch<std::int64_t> ptr;

 private:
  const device::Scratch<std::int32_t> list_;
};

// The bits of the entries of hacks, as queue_line_fill() writes them: hack h has the diagonals ptr[h] .. ptr[h + 1] -
// 1.
inline void hack_bits(const Context& context, const SparsityPattern& pattern, std::int64_t height,
                      std::int64_t hacks, const std::int64_t* ptr, const std::int32_t* off,
                      std::uint8_t* bits);

// The hack of diagonal d.
__device__ inline std::int64_t hack_of(const std::int64_t* ptr, std::int64_t hacks, std::int64_t d) {
  return first_where<std::int64_t>(1, hacks, [&](std::int64_t h) { return ptr[h] > d; }) - 1;
}

// ---- Conversion

// All values (stored as V) and bits of the lines. A warp takes 32 rows of a hack through its lines. The columns of a
// row and of its lines both ascend. Either of `values` and `entries` may be null. Entries that lie apart are passed
// over.
template <class View, class T, class V>
__global__ void __launch_bounds__(device::block_size)
    line_fill(View a, DevicePattern pattern, const T* from, V* values, std::uint8_t* entries) {
  const int lane = threadIdx.x % 32;
  const std::int64_t pieces = (a.height + 31) / 32;
  const std::int64_t piece = std::int64_t{blockIdx.x} * (device::block_size / 32) + threadIdx.x / 32;
  const std::int64_t h = piece / pieces, i = piece % pieces * 32 + lane, r = h * a.height + i;
  if (h >= a.hacks) return;
  std::int64_t begin = 0, end = 0;
  if (i < a.height && r < a.rows) begin = pattern.row_ptr[r], end = pattern.row_ptr[r + 1];
  __shared__ typename RowWalk<T>::Room rooms[device::block_size / 32];
  RowWalk<T> walk(rooms[threadIdx.x / 32], pattern.col, from, begin, end);
  for (auto l = a.lines(h); l.more(); l.next()) {
    const std::int64_t col = l.col(r);
    if (a.apart(h)) {
      for (;;) {
        const bool passed = !walk.ended() && walk.col() < col;
        if (!__any_sync(0xffffffffu, passed)) break;
        walk.advance(passed);
      }
    }
    const bool stores = i < a.height && l.stores(r);
    const bool has = stores && !walk.ended() && walk.col() == col;
    const unsigned all = __ballot_sync(0xffffffffu, has);
    if (values && stores) values[l.at + r] = has ? static_cast<V>(walk.value()) : V(0);
    if (entries && lane % 8 == 0 && i < a.height && l.stores_some(r, r + 8))
      entries[l.byte(i)] = static_cast<std::uint8_t>(all >> lane);
    walk.advance(has);
  }
}

template <class View, class T, class V>
void queue_line_fill(const Context& context, const View& view, const SparsityPattern& pattern, const T* from,
                     V* values, std::uint8_t* entries) {
  const std::int64_t warps = view.hacks * ((view.height + 31) / 32);
  if (warps == 0) return;
  line_fill<<<blocks_of(warps * 32), device::block_size, 0, device::stream(context)>>>(
      view, device_pattern(pattern), from, values, entries);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

inline void hack_bits(const Context& context, const SparsityPattern& pattern, std::int64_t height,
                      std::int64_t hacks, const std::int64_t* ptr, const std::int32_t* off,
                      std::uint8_t* bits) {
  HackView<float> view{};
  view.rows = pattern.rows, view.cols = pattern.cols;
  view.height = height, view.hacks = hacks, view.bit_bytes = (height + 7) / 8;
  view.ptr = ptr, view.off = off;
  queue_line_fill<HackView<float>, float, float>(context, view, pattern, nullptr, nullptr, bits);
}

// ---- Products

// The part of row r of entries that lie apart.
template <class View, class T>
__device__ T sum_apart(const View&, std::int64_t, std::int64_t, const T*) {
  return 0;
}
template <class T>
__device__ T sum_apart(const BandView<T>& a, std::int64_t h, std::int64_t r, const T* x) {
  T sum = 0;
  if (!a.apart(h)) return sum;
  const std::int64_t last = a.scatter_ptr[h + 1];
  for (std::int64_t k = a.first_apart(h, r); k < last && a.scatter_row[k] == r; ++k)
    sum += a.values[a.scatter_values + k] * __ldg(x + a.scatter_col[k]);
  return sum;
}

// Rows for multiply_rows(), of any view.
template <class T, class View>
struct LineRows {
  View a;
  std::int64_t rows;
  __device__ std::int64_t row(std::int64_t p) const { return p; }
  template <int split>
  __device__ T part_sum(std::int64_t r, int part, const T* x) const {
    static_assert(split == 1);
    const std::int64_t h = a.hack(r);
    const T* from = x + r;
    if constexpr (View::in_blocks) from = x + a.block_row(r);
    T sum = 0;
#pragma unroll 2
    for (auto l = a.lines(h); l.more(); l.next())
      if (r >= l.begin() && r < l.end()) sum += __ldcs(a.values + l.at + r) * __ldg(from + l.shift());
    return sum + sum_apart(a, h, r, x);
  }
  __device__ T whole(std::int64_t, T sum) const { return sum; }
};

// dia and hdi, whose values may be in float next to vectors in double.
template <class T, class V>
struct LineRows<T, HackView<V>> {
  HackView<V> a;
  std::int64_t rows;
  __device__ std::int64_t row(std::int64_t p) const { return p; }
  template <int split>
  __device__ T part_sum(std::int64_t r, int part, const T* x) const {
    T sum = 0;
    const std::int64_t h = a.hack(r), begin = __ldg(a.ptr + h);
    const int count = static_cast<int>(__ldg(a.ptr + h + 1) - begin);
    const V* v = a.values + begin * a.height + r - h * a.height;
    const std::int32_t* its_off = a.off + begin;
#pragma unroll 4
    for (int d = part; d < count; d += split) {
      const std::int64_t col = r + __ldg(its_off + d);
      const T value = __ldcs(v + d * a.height);
      if (col >= 0 && col < a.cols) sum += value * __ldg(x + col);
    }
    return sum;
  }
  __device__ T whole(std::int64_t, T sum) const { return sum; }
};

template <int split, bool dot, class T, class View>
__global__ void __launch_bounds__(device::block_size, dot ? 6 : 8)
    line_product(LineRows<T, View> a, ProductTask<T> task) {
  multiply_rows<split, dot>(a, task);
}

// bdia, and crsd with segments of whole warps: 32 rows of a warp lie in one hack. If a band has at least `wide`
// diagonals, each lane loads one x for 32 of them; lanes exchange them. All lanes stay to the end.
template <bool dot, class T>
__global__ void __launch_bounds__(device::block_size, dot ? 6 : 8)
    band_product(BandView<T> a, ProductTask<T> task) {
  if (device::stopped(task.stop)) return;
  constexpr std::int64_t wide = 8;
  const int lane = threadIdx.x % 32;
  T dots[1] = {};
  for (std::int64_t first = std::int64_t{blockIdx.x} * device::block_size + threadIdx.x - lane;
       first < a.rows; first += std::int64_t{gridDim.x} * device::block_size) {
    const std::int64_t h = a.hack(first), r = first + lane;
    const bool in = r < a.rows;
    T sum = 0;
    auto l = a.lines(h);
    while (l.more()) {
      const std::int64_t width = l.left;
      if (width < wide) {
        for (std::int64_t d = 0; d < width; ++d, l.next())
          if (in && r >= l.begin() && r < l.end())
            sum += __ldcs(a.values + l.at + r) * __ldg(task.x + r + l.shift());
        continue;
      }
      std::int64_t col = r + l.shift();  // on the first of 32 diagonals
      T low = col >= 0 && col < a.cols ? __ldg(task.x + col) : T(0);
      for (std::int64_t done = 0; done < width; done += 32) {
        col += 32;
        const T high = col >= 0 && col < a.cols ? __ldg(task.x + col) : T(0);
        const int count = static_cast<int>(width - done < 32 ? width - done : 32);
        for (int d = 0; d < count; ++d, l.next()) {
          const T its_x = __shfl_sync(0xffffffffu, lane >= d ? low : high, (lane + d) % 32);
          if (in) sum += __ldcs(a.values + l.at + r) * its_x;
        }
        low = high;
      }
    }
    if (in) {
      sum += sum_apart(a, h, r, task.x);
      task.template finish<dot>(r, sum, dots);
    }
  }
  if (dot) device::finish_reduction<1>(dots, task.partials, task.arrived, task.result);
}

// The kernel with the reduction needs more registers, so the device would not hold all blocks of product_blocks().
inline unsigned line_blocks(const DeviceState& state, std::int64_t pieces, bool dot) {
  const std::int64_t most = DeviceState::max_blocks / 4 * 3;
  return product_blocks(state, dot ? std::min(pieces, most) : pieces, false);
}

template <class T, class V>
__global__ void diagonal_main(HackView<V> a, std::int64_t size, T* diagonal) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r >= size) return;
  const std::int64_t h = a.hack(r), last = a.ptr[h + 1];
  const std::int64_t low =
      first_where<std::int64_t>(a.ptr[h], last, [&](std::int64_t i) { return a.off[i] >= 0; });
  diagonal[r] = low < last && a.off[low] == 0 ? T(a.values[low * a.height + r - h * a.height]) : T(0);
}

// A matrix in lines: the bits of its entries, and products by Derived, which has with_view(f), with a view of
// diagonal_view.hpp, and launch<dot>(alpha, x, beta, y, result).
template <class T, class Derived>
class LineProducts : public RowsOnDevice<T, Derived>, public HasApplyDot<T> {
 public:
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    self().template launch<true>(T(1), x.data, T(0), y.data, result);
  }

 protected:
  LineProducts(const BuildRequest<T>& request, std::int64_t bit_bytes)
      : RowsOnDevice<T, Derived>(request), entries_(request.context, bit_bytes) {
    if (bit_bytes > 0) PROTEAN_CUDA_CHECK(cudaMemsetAsync(entries_.data(), 0, entries_.bytes(), queue()));
  }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->rows() > 0) self().template launch<false>(alpha, x.data, beta, y.data, nullptr);
  }
  cudaStream_t queue() const { return device::stream(*this->context()); }

  Buffer<std::uint8_t> entries_;

 private:
  const Derived& self() const { return static_cast<const Derived&>(*this); }
};

// With values of T. Derived has row_view() and calls write() when its other arrays are there.
template <class T, class Derived>
class LinesOnDevice : public LineProducts<T, Derived> {
  friend LineProducts<T, Derived>;

 public:
  template <class F>
  decltype(auto) with_view(F&& f) const {
    return f(self().row_view());
  }

 protected:
  LinesOnDevice(const BuildRequest<T>& request, std::int64_t values, std::int64_t bit_bytes)
      : LineProducts<T, Derived>(request, bit_bytes), values_(request.context, values) {}

  void write(const CsrMatrix<T>& csr) {
    queue_line_fill(*this->context(), self().row_view(), csr.pattern, csr.values, values_.data(),
                    this->entries_.data());
  }
  // Lanes read their rows together, which the row view does not.
  void do_update_values(const CsrMatrix<T>& csr) override { write(csr); }

  template <bool dot>
  void launch(T alpha, const T* x, T beta, T* y, T* result) const {
    const auto view = self().row_view();
    const DeviceState& state = this->context()->device_state();
    const unsigned blocks = line_blocks(state, row_pieces(this->rows(), 1), dot);
    device::launch(state, line_product<1, dot, T, std::remove_const_t<decltype(view)>>, blocks,
                   device::block_size, LineRows<T, std::remove_const_t<decltype(view)>>{view, this->rows()},
                   product_task(*this->context(), blocks, alpha, x, beta, y, result));
  }

  std::size_t array_bytes() const noexcept { return values_.bytes() + this->entries_.bytes(); }

  Buffer<T> values_;

 private:
  const Derived& self() const { return static_cast<const Derived&>(*this); }
};

// bdia and crsd.
template <class T, class Derived>
class BandsOnDevice : public LinesOnDevice<T, Derived> {
  friend LineProducts<T, Derived>;

 protected:
  using LinesOnDevice<T, Derived>::LinesOnDevice;

 private:
  template <bool dot>
  void launch(T alpha, const T* x, T beta, T* y, T* result) const {
    const BandView<T> view = static_cast<const Derived&>(*this).row_view();
    if (view.hacks > 1 && view.height % 32 != 0) {
      LinesOnDevice<T, Derived>::template launch<dot>(alpha, x, beta, y, result);
      return;
    }
    const DeviceState& state = this->context()->device_state();
    const unsigned blocks = line_blocks(state, row_pieces(this->rows(), 1), dot);
    device::launch(state, band_product<dot, T>, blocks, device::block_size, view,
                   product_task(*this->context(), blocks, alpha, x, beta, y, result));
  }
};

// dia and hdi. The diagonals of hack h are off[ptr[h]] .. off[ptr[h+1] - 1], ascending.
struct DeviceDiagonals {
  std::int64_t height = 0;
  Buffer<std::int64_t> ptr;
  Buffer<std::int32_t> off;
};

template <class T>
class HackDevice : public LineProducts<T, HackDevice<T>>, public HasRowArrays<T> {
  friend LineProducts<T, HackDevice<T>>;

 public:
  template <class F>
  decltype(auto) with_view(F&& f) const {
    return lines_.visit([&](const auto* values) { return f(view_of(values)); });
  }
  RowArrays<T> row_arrays() const noexcept override {
    RowArrays<T> rows;
    rows.kind = RowArrays<T>::Kind::diagonals;
    rows.version = 1;
    rows.rows = this->rows(), rows.stored = lines_.size();
    with_view([&]<class V>(const HackView<V>& a) {
      if constexpr (std::is_same_v<V, T>)
        rows.values = a.values;
      else
        rows.narrow_values = a.values;
      rows.height = a.height, rows.bit_bytes = a.bit_bytes;
      rows.ptr = a.ptr, rows.off = a.off, rows.entries = a.entries;
    });
    return rows;
  }
  void diagonal(VectorView<T> d) const override {
    const detail::DeviceScope scope(*this->context());
    if (d.size == 0) return;
    with_view([&](const auto& view) {
      diagonal_main<<<blocks_of(d.size), device::block_size, 0, this->queue()>>>(view, d.size, d.data);
    });
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

 protected:
  HackDevice(const BuildRequest<T>& request, DeviceDiagonals where)
      : LineProducts<T, HackDevice<T>>(request, (where.height + 7) / 8 * where.off.size()),
        where_(std::move(where)),
        lines_(request.context, where_.height * where_.off.size(), request.float_values) {
    split_ =
        row_split(request.context->device_state(), this->rows(),
                  static_cast<double>(where_.off.size() / std::max<std::int64_t>(1, where_.ptr.size() - 1)));
    lines_.visit([&](auto* values) { write(request.csr, values); });
  }

  // Lanes read their rows together, which the row view does not.
  void do_update_values(const CsrMatrix<T>& csr) override {
    lines_.rewrite(this->float_values(), [&](auto* values) { write(csr, values); });
  }

  std::size_t array_bytes() const noexcept {
    return lines_.bytes() + this->entries_.bytes() + where_.off.bytes();
  }

  DeviceDiagonals where_;
  StoredValues<T> lines_;

 private:
  template <class V>
  HackView<V> view_of(const V* values) const noexcept {
    HackView<V> view{};
    view.values = values, view.entries = this->entries_.data();
    view.rows = this->rows(), view.cols = this->cols();
    view.height = where_.height, view.hacks = where_.ptr.size() - 1, view.bit_bytes = (where_.height + 7) / 8;
    view.ptr = where_.ptr.data(), view.off = where_.off.data();
    return view;
  }
  template <class V>
  void write(const CsrMatrix<T>& csr, V* values) {
    if (where_.off.size() == 0) return;
    queue_line_fill(*this->context(), view_of(values), csr.pattern, csr.values, values,
                    this->entries_.data());
  }

  template <bool dot>
  void launch(T alpha, const T* x, T beta, T* y, T* result) const {
    const DeviceState& state = this->context()->device_state();
    const unsigned blocks = line_blocks(state, row_pieces(this->rows(), split_), dot);
    with_view([&]<class V>(const HackView<V>& view) {
      with_split(split_, [&](auto split) {
        device::launch(state, line_product<split(), dot, T, HackView<V>>, blocks, device::block_size,
                       LineRows<T, HackView<V>>{view, this->rows()},
                       product_task(*this->context(), blocks, alpha, x, beta, y, result));
      });
    });
  }

  int split_ = 1;
};

}  // namespace protean::formats
