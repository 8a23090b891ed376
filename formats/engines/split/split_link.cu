// Copies between a GPU and the host on a stream next to the context's, and the clocks of the two parts of a product.
//
//   context's stream   begin . . . . GPU's rows . device_done . . . (waits for sent) . end
//   beside               (waits for begin) . x' . fetched              y_1 . sent
//   calling thread                                (waits) host's rows
//
// All times are taken by CUDA events since `begin`, so they are read when the next product begins, without an
// additional wait: that product has waited for its own x' by then, or its step for the one before.
#include "formats/engines/split/split_link.cuh"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "core/allocation_hook.hpp"
#include "core/device/state.hpp"
#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "formats/device_support.cuh"
#include "formats/engines/tuning/timed_products.cuh"

namespace protean::formats {
namespace {

template <class Word>
__global__ void gather_words(const Word* from, const std::int32_t* columns, std::int64_t count,
                             Word* packed) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) packed[i] = from[columns[i]];
}

class CudaStream {
 public:
  // Of the highest priority: a copy of x' that waited for the blocks of the GPU's rows would begin when these are done.
  CudaStream() {
    int lowest = 0, highest = 0;
    PROTEAN_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
    PROTEAN_CUDA_CHECK(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, highest));
  }
  ~CudaStream() {
    (void)cudaStreamSynchronize(stream_);
    (void)cudaStreamDestroy(stream_);
  }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  operator cudaStream_t() const noexcept { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class CudaSplitLink final : public SplitLink {
 public:
  explicit CudaSplitLink(const ContextPtr& context) : context_(context) {}

  void make_room(std::size_t x_bytes, std::size_t y_bytes) override {
    x_.make(context_, x_bytes), y_.make(context_, y_bytes);
  }
  void* x() noexcept override { return x_.data(); }
  void* y() noexcept override { return y_.data(); }

  void begin(bool measured) override {
    const cudaStream_t stream = device::stream(*context_);
    cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
    PROTEAN_CUDA_CHECK(cudaStreamIsCapturing(stream, &capturing));
    if (capturing != cudaStreamCaptureStatusNone)
      throw BadArgument(
          "a product in format split was to be recorded into a CUDA graph, but the host computes a part of "
          "it, or its times are measured; record only operators whose recording().allowed is true");
    under_way_ = false, measured_ = measured, has_host_ = false;
    begin_.record(stream);
  }
  void fetch(const void* from, std::size_t bytes) override {
    wait_for_begin();
    if (bytes > 0) PROTEAN_CUDA_CHECK(cudaMemcpyAsync(x(), from, bytes, cudaMemcpyDeviceToHost, beside_));
    fetched_.record(beside_);
  }
  void gather(const void* from, std::size_t value_bytes, const std::int32_t* columns, std::int64_t count,
              void* packed) override {
    wait_for_begin();
    if (value_bytes == 8)
      gather_on_device<std::uint64_t>(from, columns, count, packed);
    else
      gather_on_device<std::uint32_t>(from, columns, count, packed);
    PROTEAN_CUDA_CHECK(cudaMemcpyAsync(x(), packed, static_cast<std::size_t>(count) * value_bytes,
                                       cudaMemcpyDeviceToHost, beside_));
    fetched_.record(beside_);
  }
  void device_done() override { device_done_.record(device::stream(*context_)); }
  void wait_for_x() override { fetched_.wait(); }
  void send(void* to, std::size_t bytes) override {
    if (bytes > 0) PROTEAN_CUDA_CHECK(cudaMemcpyAsync(to, y(), bytes, cudaMemcpyHostToDevice, beside_));
    sent_.record(beside_);
    PROTEAN_CUDA_CHECK(cudaStreamWaitEvent(device::stream(*context_), sent_.get(), 0));
  }
  void end() override {
    end_.record(device::stream(*context_));
    under_way_ = true;
  }
  std::optional<SplitTimes> times() override {
    if (!std::exchange(under_way_, false) || !measured_) return {};
    SplitTimes times;
    times.total = end_.seconds_since(begin_);
    times.device = device_done_.seconds_since(begin_);
    if (has_host_) times.host = sent_.seconds_since(begin_);
    return times;
  }
  // Kernels of a conversion must neither return at the stop of a solve nor write to the sums that the step has left
  // open.
  void rebuild(const std::function<void()>& build) override {
    DeviceState& state = context_->device_state();
    struct Restored {
      DeviceState& state;
      const DeviceState::OpenSums open = state.open;
      const int* const stop = state.stop;
      const void* const judge = state.judge;
      const bool overlap = state.overlap, leave_open = state.leave_open;
      explicit Restored(DeviceState& s) : state(s) {
        state.open = {}, state.stop = nullptr, state.judge = nullptr;
        state.overlap = state.leave_open = false;
        std::swap(state.partials, state.other_partials);
      }
      ~Restored() {
        std::swap(state.partials, state.other_partials);
        state.open = open, state.stop = stop, state.judge = judge;
        state.overlap = overlap, state.leave_open = leave_open;
      }
    } restored(state);
    build();
  }

 private:
  class Room {
   public:
    void make(const ContextPtr& context, std::size_t bytes) {
      if (bytes <= bytes_) return;
      // The old memory stays if there is no memory for this.
      memory_ = std::make_unique<device::PinnedMemory>(context, bytes);
      bytes_ = bytes;
    }
    void* data() const noexcept { return memory_ ? memory_->data() : nullptr; }

   private:
    std::unique_ptr<device::PinnedMemory> memory_;
    std::size_t bytes_ = 0;
  };
  class Moment : public Event {
   public:
    void wait() const { PROTEAN_CUDA_CHECK(cudaEventSynchronize(get())); }
  };

  void wait_for_begin() {
    PROTEAN_CUDA_CHECK(cudaStreamWaitEvent(beside_, begin_.get(), 0));
    has_host_ = true;
  }
  template <class Word>
  void gather_on_device(const void* from, const std::int32_t* columns, std::int64_t count, void* packed) {
    gather_words<<<blocks_of(count, device::block_size), device::block_size, 0, beside_>>>(
        static_cast<const Word*>(from), columns, count, static_cast<Word*>(packed));
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  ContextPtr context_;
  Room x_, y_;
  Moment begin_, fetched_, device_done_, sent_, end_;
  bool under_way_ = false, measured_ = false, has_host_ = false;
  CudaStream beside_;  // the last member: its destructor waits for the copies
};

// Measured once for each GPU of a process: the least of some times, so that other work does not count.
SplitLinkSpeed speed_of(const Context& context) {
  static std::mutex mutex;
  static std::map<int, SplitLinkSpeed> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(context.device_state().ordinal);
  if (found != known.end()) return found->second;
  constexpr std::size_t bytes = std::size_t{4} << 20;
  struct Pinned {
    void* data = nullptr;
    explicit Pinned(std::size_t size) {
      detail::about_to_allocate(Space::host, size);
      PROTEAN_CUDA_CHECK(cudaMallocHost(&data, size));
    }
    ~Pinned() { (void)cudaFreeHost(data); }
    Pinned(const Pinned&) = delete;
    Pinned& operator=(const Pinned&) = delete;
  } pinned(bytes);
  const device::Scratch<unsigned char> there(context, static_cast<std::int64_t>(bytes));
  const cudaStream_t stream = device::stream(context);
  const auto seconds = [&](std::size_t size) {
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 6; ++i) {
      PROTEAN_CUDA_CHECK(cudaStreamSynchronize(stream));
      const auto begin = std::chrono::steady_clock::now();
      PROTEAN_CUDA_CHECK(cudaMemcpyAsync(pinned.data, there.data(), size, cudaMemcpyDeviceToHost, stream));
      PROTEAN_CUDA_CHECK(cudaStreamSynchronize(stream));
      least =
          std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return least;
  };
  const double latency = seconds(8), transfer = seconds(bytes) - latency;
  const SplitLinkSpeed speed{latency, static_cast<double>(bytes) / std::max(transfer, 1e-9)};
  known.emplace(context.device_state().ordinal, speed);
  return speed;
}

std::unique_ptr<SplitLink> link_of(const ContextPtr& context) {
  return std::make_unique<CudaSplitLink>(context);
}

}  // namespace

SplitTools split_on_device() noexcept { return {link_of, speed_of}; }

}  // namespace protean::formats
