// Common to conversions on the device: the rows of a CSR matrix in device memory. Private to formats/.
#pragma once
#include "core/device/primitives.hpp"
#include "formats/device_support.cuh"

namespace protean::formats {

// Row pointers of either width, for kernels that need not be compiled for each width.
struct DeviceRowPointers {
  const std::int32_t* p32;
  const std::int64_t* p64;
  __device__ std::int64_t operator[](std::int64_t i) const { return p32 ? p32[i] : p64[i]; }
};

template <class T>
struct DeviceRows {
  std::int64_t rows;
  DeviceRowPointers row_ptr;
  const std::int32_t* col;
  const T* values;
};

struct DevicePattern {
  std::int64_t rows;
  DeviceRowPointers row_ptr;
  const std::int32_t* col;
  __device__ std::int64_t length(std::int64_t r) const { return row_ptr[r + 1] - row_ptr[r]; }
};

inline DevicePattern device_pattern(const SparsityPattern& p) {
  return {p.rows, {p.row_ptr.p32, p.row_ptr.p64}, p.col};
}

// The number of rows without entries, and the longest row.
struct DeviceRowLengths {
  std::int64_t empty, longest;
};

static __global__ void row_lengths_kernel(DevicePattern a, unsigned long long* found) {
  long long longest = 0;
  int empty = 0;
  for (std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; r < a.rows;
       r += std::int64_t{gridDim.x} * blockDim.x) {
    const long long length = a.length(r);
    longest = max(longest, length);
    empty += length == 0;
  }
  for (int step = 16; step > 0; step /= 2) {
    longest = max(longest, __shfl_xor_sync(0xffffffffu, longest, step));
    empty += __shfl_xor_sync(0xffffffffu, empty, step);
  }
  if (threadIdx.x % 32 != 0) return;
  if (empty > 0) atomicAdd(found, static_cast<unsigned long long>(empty));
  if (longest > 0) atomicMax(found + 1, static_cast<unsigned long long>(longest));
}

inline DeviceRowLengths device_row_lengths(const Context& context, const SparsityPattern& pattern) {
  if (pattern.rows == 0) return {0, 0};
  const device::Scratch<unsigned long long> found(context, 2);
  const DeviceState& state = context.device_state();
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(found.data(), 0, found.bytes(), state.stream));
  row_lengths_kernel<<<device::blocks_for(state, pattern.rows), device::block_size, 0, state.stream>>>(
      device_pattern(pattern), found.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  unsigned long long host[2];
  device::copy_out(context, host, found.data(), sizeof host);
  return {static_cast<std::int64_t>(host[0]), static_cast<std::int64_t>(host[1])};
}

// Walks along 32 rows, one in each lane, each at its own pace. Eight entries of every row are read together
// and stored in shared memory: lanes that read their rows one number at a time would fetch the same cache
// lines many times. All lanes of the warp call every member.
template <class T>
class RowWalk {
 public:
  static constexpr int tile = 8;
  struct Room {
    std::int32_t cols[32][tile + 1];
    T values[32][tile + 1];
  };
  // [begin, end): the entries of this lane's row. col or values may be null.
  __device__ RowWalk(Room& room, const std::int32_t* col, const T* values, std::int64_t begin,
                     std::int64_t end)
      : room_(room), col_(col), values_(values), at_(begin), end_(end) {
    fetch();
  }
  __device__ bool ended() const { return next_ == have_; }
  __device__ std::int32_t col() const { return room_.cols[threadIdx.x % 32][next_]; }
  __device__ T value() const { return room_.values[threadIdx.x % 32][next_]; }
  // Moves to the next entry in the lanes in which `go` is true.
  __device__ void advance(bool go) {
    next_ += go;
    if (__any_sync(0xffffffffu, next_ == have_ && at_ + have_ < end_)) fetch();
  }

 private:
  __device__ void fetch() {
    const int lane = threadIdx.x % 32;
    at_ += next_, next_ = 0;
    have_ = static_cast<int>(min(std::int64_t{tile}, end_ - at_));
    __syncwarp();
#pragma unroll
    for (int i = 0; i < tile; ++i) {
      const int r = i * (32 / tile) + lane / tile;
      const std::int64_t k = __shfl_sync(0xffffffffu, at_, r) + lane % tile;
      if (k < __shfl_sync(0xffffffffu, end_, r)) {
        if (col_) room_.cols[r][lane % tile] = col_[k];
        if (values_) room_.values[r][lane % tile] = values_[k];
      }
    }
    __syncwarp();
  }

  Room& room_;
  const std::int32_t* col_;
  const T* values_;
  std::int64_t at_, end_;
  int next_ = 0, have_ = 0;
};

}  // namespace protean::formats
