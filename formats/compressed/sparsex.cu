// SparseX on the device: the arrays of sparsex.cpp. A warp computes a part. All its lanes read the head of a unit, and
// each lane takes every 32nd entry. The sums of the rows of a part lie in shared memory, where no two lanes add to the
// same row in one unit, and units are added one after another. So the order of the sums is fixed, and one launch is
// enough.
//
// The conversion is the one of the host, with a thread for each part; the host chooses the kinds from a few parts.
#include "formats/compressed/sparsex.hpp"

#include <string>

#include "core/bisect.hpp"
#include "formats/engines/view/row_view.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

constexpr int part_threads = 128, part_warps = part_threads / 32;
constexpr std::int64_t most_part_entries = 65536;

// part_value[p] := the first entry of part p. *most := the entries of the largest part; it is 0 before.
__global__ void find_parts(DeviceRowPointers row_ptr, std::int64_t rows, std::int64_t part_rows,
                           std::int64_t parts, std::int64_t* part_value, unsigned long long* most) {
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p > parts) return;
  const std::int64_t first = min(p * part_rows, rows), value = row_ptr[first];
  part_value[p] = value;
  if (p == parts) return;
  const auto count = static_cast<unsigned long long>(row_ptr[min(first + part_rows, rows)] - value);
  if (count > 0) atomicMax(most, count);
}

struct WriterArrays {
  std::uint64_t* keys;
  std::uint8_t *row, *kind, *size;
  std::int32_t* step;
};
// Without a stream: part_begin[p] := the bytes of part p. Else writes them at stream + part_begin[p]. One thread for
// each part.
__global__ void __launch_bounds__(32)
    write_parts(DevicePattern a, std::int64_t part_rows, std::int64_t parts, int min_run, SparsexPicks picks,
                WriterArrays all, std::int64_t* part_begin, std::uint8_t* stream) {
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p >= parts) return;
  const std::int64_t first = p * part_rows, last = min(first + part_rows, a.rows), begin = a.row_ptr[first];
  SparsexWriter writer{a.col + begin,
                       a.row_ptr[last] - begin,
                       static_cast<int>(last - first),
                       min_run,
                       false,
                       all.keys + begin,
                       all.row + begin,
                       all.kind + begin,
                       all.size + begin,
                       all.step + begin};
  writer.begin(a.row_ptr, first);
  for (int i = 0; i < picks.count; ++i) writer.find(picks.kind[i], true);
  const std::int64_t bytes = writer.write(stream ? stream + part_begin[p] : nullptr);
  if (!stream) part_begin[p] = bytes;
}

// Calls f(row in the part, column, place) for the entries of a part. All lanes of the warp call it.
template <class T, class F>
__device__ inline void for_entries_of_part(const SparsexArrays<T>& a, std::int64_t part, F f) {
  const int lane = threadIdx.x % 32;
  SparsexReader reader(a.stream + a.part_begin[part]);
  const std::int64_t end = a.part_value[part + 1];
  for (std::int64_t place = a.part_value[part]; place < end;) {
    const SparsexUnit u = reader.next();
    const int n = u.entries();
    std::uint32_t col = static_cast<std::uint32_t>(u.col);  // of the last entry of the round before
    for (int first = 0; first < n; first += 32) {
      const int k = first + lane;
      if (u.is_delta()) {
        std::uint32_t sum = k > 0 && k < n ? static_cast<std::uint32_t>(u.delta(k)) : 0;
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
          const std::uint32_t other = __shfl_up_sync(0xffffffffu, sum, step);
          if (lane >= step) sum += other;
        }
        sum += col, col = __shfl_sync(0xffffffffu, sum, 31);
        if (k < n) f(static_cast<int>(u.row), static_cast<std::int64_t>(sum), place + k);
      } else if (k < n) {
        f(static_cast<int>(u.row_of(k)), u.col_of(k), place + k);
      }
    }
    place += n;
  }
}

template <class T>
__global__ void __launch_bounds__(part_threads)
    part_product(SparsexArrays<T> a, T alpha, const T* x, T beta, T* y, const int* stop) {
  __shared__ T sums[part_warps][sparsex_most_rows];
  device::wait_for_stream();
  const std::int64_t part = std::int64_t{blockIdx.x} * part_warps + threadIdx.x / 32;
  if (part >= a.parts) return;  // the whole warp
  const int lane = threadIdx.x % 32, rows = a.rows_of(part);
  T* const sum_of = sums[threadIdx.x / 32];
  const bool ended = stop && *stop;
  SparsexReader reader(a.stream + a.part_begin[part]);
  std::int64_t place = a.part_value[part];
  const std::int64_t end = a.part_value[part + 1];
  if (ended) return;
  for (int r = lane; r < rows; r += 32) sum_of[r] = 0;
  __syncwarp();
  while (place < end) {
    const SparsexUnit u = reader.next();
    const T* const v = a.values + place;
    const int n = u.entries();
    place += n;
    if (u.is_delta()) {
      T sum = 0;
      std::uint32_t col = static_cast<std::uint32_t>(u.col);
      for (int first = 0; first < n; first += 32) {
        const int k = first + lane;
        std::uint32_t at = k > 0 && k < n ? static_cast<std::uint32_t>(u.delta(k)) : 0;
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
          const std::uint32_t other = __shfl_up_sync(0xffffffffu, at, step);
          if (lane >= step) at += other;
        }
        at += col, col = __shfl_sync(0xffffffffu, at, 31);
        if (k < n) sum += __ldcs(v + k) * __ldg(x + at);
      }
      sum = device::sum_lanes(sum);
      if (lane == 0) sum_of[u.row] += sum;
    } else if (u.kind == unit::horizontal) {
      T sum = 0;
      for (int k = lane; k < n; k += 32) sum += __ldcs(v + k) * __ldg(x + u.col + k * u.step);
      sum = device::sum_lanes(sum);
      if (lane == 0) sum_of[u.row] += sum;
    } else if (u.kind < unit::block) {
      // No two entries lie in the same row.
      for (int k = lane; k < n; k += 32) sum_of[u.row_of(k)] += __ldcs(v + k) * __ldg(x + u.col_of(k));
    } else {
      // Four lanes have a row of the block.
      const int r = lane / 4;
      T sum = 0;
      if (r < u.block_rows())
        for (int c = lane % 4; c < u.size; c += 4) sum += __ldcs(v + r * u.size + c) * __ldg(x + u.col + c);
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      if (r < u.block_rows() && lane % 4 == 0) sum_of[u.row + r] += sum;
    }
    __syncwarp();
  }
  for (int r = lane; r < rows; r += 32) store(alpha, sum_of[r], beta, y + a.first_row(part) + r);
}

template <class T>
__global__ void __launch_bounds__(part_threads)
    update_parts(SparsexArrays<T> a, DevicePattern pattern, const T* from, T* values) {
  const std::int64_t part = std::int64_t{blockIdx.x} * part_warps + threadIdx.x / 32;
  if (part >= a.parts) return;
  const std::int64_t top = a.first_row(part);
  for_entries_of_part(a, part, [&](int r, std::int64_t col, std::int64_t place) {
    values[place] = from[first_where(pattern.row_ptr[top + r], pattern.row_ptr[top + r + 1],
                                     [&](std::int64_t e) { return pattern.col[e] >= col; })];
  });
}

template <class T>
__global__ void __launch_bounds__(part_threads)
    part_diagonal(SparsexArrays<T> a, std::int64_t size, T* diagonal) {
  const std::int64_t part = std::int64_t{blockIdx.x} * part_warps + threadIdx.x / 32;
  if (part >= a.parts) return;
  const std::int64_t top = a.first_row(part);
  for_entries_of_part(a, part, [&](int r, std::int64_t col, std::int64_t place) {
    if (top + r == col && col < size) diagonal[col] = a.values[place];
  });
}

// Without keys: row_ptr[r] := the entries of row r. Else the keys of row r from row_ptr[r] on, in any order: column and
// place in the part.
template <class T, class P>
__global__ void __launch_bounds__(part_threads)
    part_keys(SparsexArrays<T> a, P* row_ptr, std::uint64_t* keys) {
  __shared__ int counts[part_warps][sparsex_most_rows];
  const std::int64_t part = std::int64_t{blockIdx.x} * part_warps + threadIdx.x / 32;
  if (part >= a.parts) return;
  const int lane = threadIdx.x % 32, rows = a.rows_of(part);
  int* const count = counts[threadIdx.x / 32];
  for (int r = lane; r < rows; r += 32) count[r] = 0;
  __syncwarp();
  const std::int64_t top = a.first_row(part), first = a.part_value[part];
  for_entries_of_part(a, part, [&](int r, std::int64_t col, std::int64_t place) {
    const int k = atomicAdd(count + r, 1);
    if (keys)
      keys[row_ptr[top + r] + k] =
          static_cast<std::uint64_t>(col) << 32 | static_cast<std::uint64_t>(place - first);
  });
  __syncwarp();
  if (!keys)
    for (int r = lane; r < rows; r += 32) row_ptr[top + r] = static_cast<P>(count[r]);
}
// One thread for each row.
template <class T, class P>
__global__ void sort_rows(SparsexArrays<T> a, const P* row_ptr, std::uint64_t* keys, std::int32_t* col,
                          T* values) {
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= a.all_rows) return;
  const std::int64_t begin = row_ptr[row], end = row_ptr[row + 1], first = a.part_value[row / a.part_rows];
  heap_sort(keys + begin, end - begin);
  for (std::int64_t k = begin; k < end; ++k)
    col[k] = static_cast<std::int32_t>(keys[k] >> 32), values[k] = a.values[first + (keys[k] & 0xffffffffu)];
}

struct SparsexPlanOnDevice {
  SparsexPlanOnDevice(const Context& context, const SparsityPattern& pattern, std::int64_t of_rows,
                      int shortest)
      : part_rows(of_rows),
        parts(sparsex_parts(pattern.rows, of_rows)),
        min_run(shortest),
        part_value(context, parts + 1),
        part_begin(context, parts + 1) {
    const device::Scratch<unsigned long long> most(context, 1);
    const cudaStream_t queue = device::stream(context);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(most.data(), 0, most.bytes(), queue));
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(part_begin.data(), 0, part_begin.bytes(), queue));
    find_parts<<<blocks_of(parts + 1), device::block_size, 0, queue>>>(
        DeviceRowPointers{pattern.row_ptr.p32, pattern.row_ptr.p64}, pattern.rows, part_rows, parts,
        part_value.data(), most.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    largest = static_cast<std::int64_t>(read_back(context, most.data()));
  }
  // Chooses the kinds and counts the bytes.
  void find(const Context& context, const SparsityPattern& pattern) {
    const std::int64_t count = std::min(parts, sparsex_samples);
    std::vector<SparsexSample> samples;
    for (std::int64_t s = 0; s < count; ++s) {
      const std::int64_t first = s * parts / count * part_rows,
                         last = std::min(first + part_rows, pattern.rows);
      SparsexSample sample;
      sample.row_ptr.resize(static_cast<std::size_t>(last - first) + 1);
      pattern.row_ptr.visit([&](auto* row_ptr) {
        std::vector<std::remove_cvref_t<decltype(*row_ptr)>> copied(sample.row_ptr.size());
        device::copy_out(context, copied.data(), row_ptr + first, copied.size() * sizeof copied[0]);
        std::copy(copied.begin(), copied.end(), sample.row_ptr.begin());
      });
      const std::int64_t begin = sample.row_ptr.front();
      sample.col.resize(static_cast<std::size_t>(sample.row_ptr.back() - begin));
      device::copy_out(context, sample.col.data(), pattern.col + begin, sample.col.size() * 4);
      for (std::int64_t& k : sample.row_ptr) k -= begin;
      samples.push_back(std::move(sample));
    }
    picks = pick_sparsex_kinds(samples, min_run, false);
    if (parts == 0) return;
    write(context, pattern, nullptr);
    device::exclusive_scan(context, part_begin.data(), part_begin.size());
    bytes = read_back(context, part_begin.data() + parts);
  }
  void write(const Context& context, const SparsityPattern& pattern, std::uint8_t* stream) const {
    const std::int64_t n = pattern.nonzeros;
    const device::Scratch<std::uint64_t> keys(context, n);
    const device::Scratch<std::uint8_t> row(context, n), kind(context, n), size(context, n);
    const device::Scratch<std::int32_t> step(context, n);
    write_parts<<<blocks_of(parts, 32), 32, 0, device::stream(context)>>>(
        device_pattern(pattern), part_rows, parts, min_run, picks,
        WriterArrays{keys.data(), row.data(), kind.data(), size.data(), step.data()}, part_begin.data(),
        stream);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
  std::int64_t part_rows, parts;
  int min_run;
  std::int64_t largest = 0, bytes = 0;
  SparsexPicks picks;
  const device::Scratch<std::int64_t> part_value, part_begin;
};

template <class T>
class Sparsex final : public AssembledMatrix<T> {
 public:
  explicit Sparsex(const BuildRequest<T>& request)
      : AssembledMatrix<T>(request), part_rows_(plan_of<SparsexPlanOnDevice>(request.admission).part_rows) {
    const auto& plan = plan_of<SparsexPlanOnDevice>(request.admission);
    stream_ = Buffer<std::uint8_t>(request.context, plan.bytes);
    part_begin_ = copy_of(request.context, plan.part_begin);
    part_value_ = copy_of(request.context, plan.part_value);
    values_ = Buffer<T>(request.context, request.csr.nonzeros());
    if (values_.empty()) return;
    plan.write(*request.context, request.csr.pattern, stream_.data());
    do_update_values(request.csr);
  }

  std::size_t bytes() const noexcept override {
    return stream_.bytes() + part_begin_.bytes() + part_value_.bytes() + values_.bytes();
  }
  CsrMatrix<T> to_csr() const override {
    const detail::DeviceScope scope(*this->context());
    CsrBuilder<T> builder(this->context(), this->rows(), this->cols(), values_.size());
    const cudaStream_t queue = device::stream(*this->context());
    const auto build = [&](auto* row_ptr) {
      PROTEAN_CUDA_CHECK(cudaMemsetAsync(row_ptr + this->rows(), 0, sizeof *row_ptr, queue));
      if (this->rows() == 0) return;
      const device::Scratch<std::uint64_t> keys(*this->context(), values_.size());
      part_keys<<<blocks(), part_threads, 0, queue>>>(arrays(), row_ptr,
                                                      static_cast<std::uint64_t*>(nullptr));
      PROTEAN_CUDA_CHECK(cudaGetLastError());
      device::exclusive_scan(*this->context(), row_ptr, this->rows() + 1);
      if (values_.empty()) return;
      part_keys<<<blocks(), part_threads, 0, queue>>>(arrays(), row_ptr, keys.data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
      sort_rows<<<blocks_of(this->rows()), device::block_size, 0, queue>>>(arrays(), row_ptr, keys.data(),
                                                                           builder.col(), builder.values());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
    };
    if (builder.row_ptr32())
      build(builder.row_ptr32());
    else
      build(builder.row_ptr64());
    return builder.freeze();
  }
  void diagonal(VectorView<T> d) const override {
    const detail::DeviceScope scope(*this->context());
    if (d.size == 0) return;
    const cudaStream_t queue = device::stream(*this->context());
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(d.data, 0, static_cast<std::size_t>(d.size) * sizeof(T), queue));
    part_diagonal<<<blocks(), part_threads, 0, queue>>>(arrays(), d.size, d.data);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    if (values_.empty()) return;
    update_parts<<<blocks(), part_threads, 0, device::stream(*this->context())>>>(
        arrays(), device_pattern(csr.pattern), csr.values, values_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->rows() == 0) return;
    const DeviceState& state = this->context()->device_state();
    device::launch(state, part_product<T>, blocks(), part_threads, arrays(), alpha, x.data, beta, y.data,
                   state.stop);
  }

 private:
  SparsexArrays<T> arrays() const {
    return {values_.data(), stream_.data(), part_begin_.data(),    part_value_.data(),
            this->rows(),   part_rows_,     part_begin_.size() - 1};
  }
  unsigned blocks() const { return blocks_of(part_begin_.size() - 1, part_warps); }

  std::int64_t part_rows_;
  Buffer<std::uint8_t> stream_;
  Buffer<std::int64_t> part_begin_, part_value_;
  Buffer<T> values_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan = std::make_shared<SparsexPlanOnDevice>(context, pattern, params.integer("part_rows"),
                                                    static_cast<int>(params.integer("min_run")));
  if (plan->largest > most_part_entries)
    return Admission::refuse("a part of " + std::to_string(plan->part_rows) + " rows has " +
                             std::to_string(plan->largest) + " entries; a GPU takes " +
                             std::to_string(most_part_entries) + ". Take fewer part_rows, or another format");
  plan->find(context, pattern);
  Admission admission = admit_sparsex(plan->bytes, plan->parts, pattern.nonzeros, value_bytes);
  keep_plan(admission, std::move(plan));
  return admission;
}

constexpr Kernel kernels[] = {device_kernel<Sparsex>("native")};

}  // namespace

constinit const DeviceCode device_code::sparsex{kernels, admit};

}  // namespace protean::formats
