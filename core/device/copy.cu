// Copies between host and device memory. Pageable host memory is copied through pinned pieces: threads of the
// host fill one piece while others are being transferred.
#include <algorithm>
#include <cstring>

#include "core/allocation_hook.hpp"
#include "core/background.hpp"
#include "core/device/copy.hpp"
#include "core/device/state.hpp"
#include "core/parallel.hpp"

namespace protean {
namespace device {
namespace {

constexpr std::size_t piece_bytes = DeviceState::staging_bytes, piece_count = DeviceState::staging_pieces;

// More threads do not copy faster, and starting them takes longer.
constexpr int most_threads = 8;

// The pinned pieces of a context, allocated by the first copy that needs them.
DeviceState::Staging* staging(DeviceState& state) {
  for (DeviceState::Staging& piece : state.staging) {
    if (!piece.data) detail::about_to_allocate(Space::host, piece_bytes);
    if (!piece.data) PROTEAN_CUDA_CHECK(cudaMallocHost(&piece.data, piece_bytes));
    if (!piece.done) PROTEAN_CUDA_CHECK(cudaEventCreateWithFlags(&piece.done, cudaEventDisableTiming));
  }
  return state.staging;
}

bool is_pinned(const void* data) {
  cudaPointerAttributes attributes;
  const bool known = cudaPointerGetAttributes(&attributes, data) == cudaSuccess;
  (void)cudaGetLastError();
  return known && attributes.type == cudaMemoryTypeHost;
}

void host_copy(void* to, const void* from, std::size_t bytes) {
  parallel(std::min(available_threads(), most_threads), [&](int part, int parts) {
    const Range range = even_range(static_cast<std::int64_t>(bytes), part, parts, 4096);
    std::memcpy(static_cast<char*>(to) + range.begin, static_cast<const char*>(from) + range.begin,
                static_cast<std::size_t>(range.size()));
  });
}

}  // namespace

void copy_in(const Context& context, void* to, const void* from, std::size_t bytes) {
  DeviceState& state = context.device_state();
  if (bytes <= 65536 || is_pinned(from)) {
    PROTEAN_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, state.stream));
    PROTEAN_CUDA_CHECK(cudaStreamSynchronize(state.stream));
    return;
  }
  DeviceState::Staging* pieces = staging(state);
  for (std::size_t begin = 0, k = 0; begin < bytes; begin += piece_bytes, ++k) {
    DeviceState::Staging& piece = pieces[k % piece_count];
    const std::size_t count = std::min(piece_bytes, bytes - begin);
    PROTEAN_CUDA_CHECK(cudaEventSynchronize(piece.done));
    host_copy(piece.data, static_cast<const char*>(from) + begin, count);
    PROTEAN_CUDA_CHECK(cudaMemcpyAsync(static_cast<char*>(to) + begin, piece.data, count,
                                       cudaMemcpyHostToDevice, state.stream));
    PROTEAN_CUDA_CHECK(cudaEventRecord(piece.done, state.stream));
  }
  PROTEAN_CUDA_CHECK(cudaStreamSynchronize(state.stream));
}

void copy_out(const Context& context, void* to, const void* from, std::size_t bytes) {
  DeviceState& state = context.device_state();
  if (bytes <= 65536 || is_pinned(to)) {
    PROTEAN_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, state.stream));
    PROTEAN_CUDA_CHECK(cudaStreamSynchronize(state.stream));
    return;
  }
  DeviceState::Staging* pieces = staging(state);
  const auto count = [&](std::size_t k) { return std::min(piece_bytes, bytes - k * piece_bytes); };
  const auto send = [&](std::size_t k) {
    PROTEAN_CUDA_CHECK(cudaMemcpyAsync(pieces[k % piece_count].data,
                                       static_cast<const char*>(from) + k * piece_bytes, count(k),
                                       cudaMemcpyDeviceToHost, state.stream));
    PROTEAN_CUDA_CHECK(cudaEventRecord(pieces[k % piece_count].done, state.stream));
  };
  const std::size_t number = (bytes + piece_bytes - 1) / piece_bytes;
  for (std::size_t k = 0; k + 1 < piece_count && k < number; ++k) send(k);
  for (std::size_t k = 0; k < number; ++k) {
    detail::checkpoint();  // pieces on their way touch pinned memory only
    if (k + piece_count - 1 < number) send(k + piece_count - 1);  // the piece was emptied in the step before
    PROTEAN_CUDA_CHECK(cudaEventSynchronize(pieces[k % piece_count].done));
    host_copy(static_cast<char*>(to) + k * piece_bytes, pieces[k % piece_count].data, count(k));
  }
}

void copy_within(const Context& context, void* to, const void* from, std::size_t bytes) {
  PROTEAN_CUDA_CHECK(
      cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, context.device_state().stream));
}

}  // namespace device

}  // namespace protean
