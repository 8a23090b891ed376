// Sums and exchanges between GPUs, as kernels that can be recorded: they store into the memory of the other GPU,
// release an epoch there, and wait for the epochs of the others. Each part queues the same kernels in the same order,
// so its own count of epochs says what to wait for. Two places are used alternately: nobody can be two epochs ahead of
// a part with which it exchanges. No kernel waits for ever: a part that fails says so in memory of the host, and
// a kernel gives up if a part does not answer (part_patience).
#include "distributed/gpu_parts.hpp"

#include <algorithm>
#include <mutex>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/allocation_hook.hpp"
#include "core/communicator.hpp"
#include "core/device/kernel_tools.cuh"
#include "core/device_checks.hpp"
#include "distributed/device/epochs.cuh"
#include "distributed/messages.hpp"

namespace protean::detail {
namespace {

constexpr int most_parts = 16, most_sums = 64, sum_threads = 64, exchange_threads = 256, most_blocks = 64;
using device::Epoch, device::release, device::acquire, device::Patience;

// The last block that calls it returns true, after what all blocks wrote before.
__device__ inline bool last_block(unsigned* done, unsigned blocks) {
  __shared__ bool last;
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = device::arrive(done) == blocks - 1;
    if (last) *done = 0;
  }
  __syncthreads();
  return last;
}

// All parts write into the mailbox of a part.
struct Mailbox {
  double values[2][most_parts][most_sums];
  Epoch epochs[most_parts];
};
struct SumLinks {
  Mailbox* boxes[most_parts];
  Epoch* epoch;  // sums of this part so far
  int part, parts;
  Patience patience;
};
enum class Combine : unsigned char { sum, largest };

template <class T>
__global__ void combine_kernel(SumLinks links, T* values, int count, Combine how, const int* stop) {
  if (device::stopped(stop)) return;
  const Epoch epoch = *links.epoch + 1;
  for (int k = threadIdx.x; k < links.parts * count; k += blockDim.x)
    *static_cast<volatile double*>(&links.boxes[k / count]->values[epoch % 2][links.part][k % count]) =
        static_cast<double>(values[k % count]);
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x < links.parts) {
    release(&links.boxes[threadIdx.x]->epochs[links.part], epoch);
    device::wait_for_part(&links.boxes[links.part]->epochs[threadIdx.x], epoch, static_cast<int>(threadIdx.x),
                          links.patience);
  }
  __syncthreads();
  for (int k = threadIdx.x; k < count; k += blockDim.x) {
    const volatile double(*own)[most_sums] = links.boxes[links.part]->values[epoch % 2];
    T result = static_cast<T>(own[0][k]);
    for (int p = 1; p < links.parts; ++p) {
      const T one = static_cast<T>(own[p][k]);
      if (how == Combine::sum)
        result += one;
      else if (!(one <= result))  // a NaN, once found, stays
        result = result != result ? result : one;
    }
    values[k] = result;
  }
  if (threadIdx.x == 0) *links.epoch = epoch;
}

// What a part knows of a neighbour. `there`, `places`: in the neighbour's memory.
template <class T>
struct NeighbourLinks {
  const std::int32_t* rows;
  std::int64_t count;
  T* places[2];
  Epoch* there;
  int part;
};

// blocks: for each neighbour.
template <class T>
__global__ void send_kernel(const NeighbourLinks<T>* neighbours, int blocks, const T* x,
                            const Epoch* epoch_of_part, unsigned* done, const int* stop) {
  if (device::stopped(stop)) return;
  const int number = static_cast<int>(blockIdx.x) / blocks, block = static_cast<int>(blockIdx.x) % blocks;
  const NeighbourLinks<T> to = neighbours[number];
  const Epoch epoch = *epoch_of_part + 1;
  T* const place = to.places[epoch % 2];
  for (std::int64_t i = std::int64_t{block} * blockDim.x + threadIdx.x; i < to.count;
       i += std::int64_t{blocks} * blockDim.x)
    place[i] = x[to.rows[i]];
  if (last_block(done + number, static_cast<unsigned>(blocks)) && threadIdx.x == 0) release(to.there, epoch);
}

// here: the epochs of all neighbours, which are in the table.
template <class T>
__global__ void receive_kernel(const Epoch* here, const NeighbourLinks<T>* table, int neighbours,
                               const T* first_place, const T* second_place, std::int64_t count, T* ghosts,
                               Epoch* epoch_of_part, unsigned* done, Patience patience, const int* stop) {
  if (device::stopped(stop)) return;
  const Epoch epoch = *epoch_of_part + 1;
  for (int k = threadIdx.x; k < neighbours; k += blockDim.x)
    device::wait_for_part(here + k, epoch, table[k].part, patience);
  __syncthreads();
  const volatile T* const place = epoch % 2 == 0 ? first_place : second_place;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * blockDim.x)
    ghosts[i] = place[i];
  if (last_block(done, gridDim.x) && threadIdx.x == 0) *epoch_of_part = epoch;
}

template <class T>
__global__ void add_at_kernel(const std::int32_t* rows, std::int64_t count, const T* t, T* y,
                              const int* stop) {
  if (device::stopped(stop)) return;
  for (std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; k < count;
       k += std::int64_t{gridDim.x} * blockDim.x)
    y[rows[k]] += t[k];
}

std::int64_t blocks_for(std::int64_t count, std::int64_t most) {
  return std::clamp<std::int64_t>((count + exchange_threads - 1) / exchange_threads, 1, most);
}

template <class T>
class GpuParts final : public Parts {
 public:
  GpuParts(std::vector<ContextPtr> contexts, std::shared_ptr<const Partition> partition)
      : partition_(std::move(partition)), watch_(contexts.size()), meeting_(contexts.size(), watch_) {
    require(contexts);
    for (std::size_t p = 0; p < contexts.size(); ++p) reach_others(contexts, p);
    PROTEAN_CUDA_CHECK(cudaHostAlloc(reinterpret_cast<void**>(&abandoned_), (1 + most_parts) * sizeof(int),
                                     cudaHostAllocPortable | cudaHostAllocMapped));
    answer();
    try {
      for (const ContextPtr& context : contexts) members_.push_back(std::make_unique<Member>(context));
    } catch (...) {
      members_.clear();
      (void)cudaFreeHost(abandoned_);
      throw;
    }
    for (std::size_t p = 0; p < members_.size(); ++p) {
      links_.push_back(std::make_unique<Link>(*this, static_cast<int>(p)));
      members_[p]->context->device_state().communicator = links_.back().get();
    }
  }
  ~GpuParts() override {
    for (const auto& member : members_) member->context->device_state().communicator = nullptr;
    exchanges_.clear(), members_.clear();
    (void)cudaFreeHost(abandoned_);
  }

  std::unique_ptr<HaloExchange<double>> exchange(int part, const PartHalo& halo, double) override {
    return made<double>(part, halo);
  }
  std::unique_ptr<HaloExchange<float>> exchange(int part, const PartHalo& halo, float) override {
    return made<float>(part, halo);
  }
  void abandon() noexcept override {
    *static_cast<volatile int*>(abandoned_) = 1;
    meeting_.abandon();
  }
  void begin() override {
    const bool failed = meeting_.begin();
    // Others may have written into the memory of an exchange after its part had failed. Now nobody works.
    if (failed || gave_up())
      for (const auto& member : members_) member->context->synchronize();
    std::erase_if(exchanges_, [](const auto& one) { return one.use_count() == 1; });
    if (!failed && !gave_up()) return;
    answer();
    for (const auto& member : members_) member->forget();
    for (const auto& exchange : exchanges_) exchange->forget();
    for (const auto& member : members_) member->context->synchronize();
  }
  PartWatch& watch() noexcept override { return watch_; }
  // The part for which others have waited, and which has waited for nobody.
  void require_answers() const override {
    if (!gave_up()) return;
    const volatile int* const waited_for = abandoned_ + 1;
    for (std::size_t p = 0; p < members_.size(); ++p) {
      std::size_t part = p;
      for (std::size_t turns = 0; waited_for[part] != 0; ++turns) {
        if (turns == members_.size()) throw PartSilent(-1);
        part = static_cast<std::size_t>(waited_for[part] - 1);
      }
      if (part != p) throw PartSilent(static_cast<int>(part));
    }
  }

 private:
  bool gave_up() const noexcept { return *static_cast<const volatile int*>(abandoned_) == 2; }
  void answer() noexcept { std::fill_n(static_cast<volatile int*>(abandoned_), 1 + most_parts, 0); }
  Patience patience_of(int part) const noexcept {
    return {abandoned_, abandoned_ + 1, part, static_cast<unsigned long long>(1e9 * part_patience)};
  }
  // A part that comes to a meeting after a kernel has given up goes no further.
  void require_no_one_gave_up() {
    if (!gave_up()) return;
    meeting_.abandon();
    throw PartAbandoned();
  }

  // Memory of a part into which other parts write. Not from the pool of the context, which other GPUs do not reach.
  class PeerMemory {
   public:
    explicit PeerMemory(ContextPtr of) : context(std::move(of)) {}
    ~PeerMemory() {
      if (!memory_) return;
      const DeviceScope scope(*context);
      (void)cudaFree(memory_);
    }
    PeerMemory(const PeerMemory&) = delete;
    PeerMemory& operator=(const PeerMemory&) = delete;
    // Sets all counts back.
    void forget() {
      const DeviceScope scope(*context);
      PROTEAN_CUDA_CHECK(cudaMemsetAsync(memory_, 0, counters_, context->device_state().stream));
    }
    const ContextPtr context;

   protected:
    // The place of that many bytes.
    std::size_t part_of(std::size_t size) { return std::exchange(bytes_, (bytes_ + size + 255) / 256 * 256); }
    // What part_of() has given so far are counts.
    void counts_end() noexcept { counters_ = bytes_; }
    // Waits until the counts are zero.
    char* allocate() {
      const DeviceScope scope(*context);
      about_to_allocate(Space::device, bytes_);
      PROTEAN_CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&memory_), bytes_));
      forget();
      context->synchronize();
      return memory_;
    }

   private:
    std::size_t bytes_ = 0, counters_ = 0;
    char* memory_ = nullptr;
  };
  struct Member final : PeerMemory {
    explicit Member(ContextPtr of) : PeerMemory(std::move(of)) {
      const std::size_t at_box = this->part_of(sizeof(Mailbox)), at_epoch = this->part_of(sizeof(Epoch));
      this->counts_end();
      char* const memory = this->allocate();
      box = reinterpret_cast<Mailbox*>(memory + at_box), epoch = reinterpret_cast<Epoch*>(memory + at_epoch);
    }
    Mailbox* box = nullptr;
    Epoch* epoch = nullptr;  // of sums
  };

  // Where a neighbour writes, as it is told to it.
  struct Place {
    T* places[2];
    Epoch* epoch;
  };
  // What an exchange of a part has in the memory of its GPU.
  struct Arrivals final : PeerMemory {
    Arrivals(ContextPtr of, const PartHalo& halo)
        : PeerMemory(std::move(of)), neighbours(std::ssize(halo.neighbours)) {
      const auto count = static_cast<std::size_t>(neighbours), ghosts = halo.ghosts.size();
      const std::size_t at_epochs = this->part_of((1 + count) * sizeof(Epoch)),
                        at_done = this->part_of((1 + count) * sizeof(unsigned));
      this->counts_end();
      const std::size_t at_table = this->part_of(count * sizeof(NeighbourLinks<T>)),
                        at_rows = this->part_of(static_cast<std::size_t>(halo.sent()) * sizeof(std::int32_t)),
                        at_first = this->part_of(ghosts * sizeof(T)),
                        at_second = this->part_of(ghosts * sizeof(T));
      char* const memory = this->allocate();
      epochs = reinterpret_cast<Epoch*>(memory + at_epochs);
      done = reinterpret_cast<unsigned*>(memory + at_done);
      table = reinterpret_cast<NeighbourLinks<T>*>(memory + at_table);
      rows = reinterpret_cast<std::int32_t*>(memory + at_rows);
      places[0] = reinterpret_cast<T*>(memory + at_first);
      places[1] = reinterpret_cast<T*>(memory + at_second);
    }
    // Fills the table: where the values of this part go. there: of each neighbour.
    void link(const PartHalo& halo, const std::vector<Place>& there) {
      const DeviceScope scope(*this->context);
      std::vector<NeighbourLinks<T>> links;
      std::vector<std::int32_t> sent;
      for (std::size_t k = 0; k < there.size(); ++k) {
        const std::vector<std::int32_t>& send = halo.neighbours[k].send;
        links.push_back(
            {rows + sent.size(), std::ssize(send), {there[k].places[0], there[k].places[1]}, there[k].epoch});
        sent.insert(sent.end(), send.begin(), send.end());
      }
      const cudaStream_t stream = this->context->device_state().stream;
      if (links.empty()) return;
      PROTEAN_CUDA_CHECK(cudaMemcpyAsync(table, links.data(), links.size() * sizeof links.front(),
                                         cudaMemcpyHostToDevice, stream));
      if (!sent.empty())
        PROTEAN_CUDA_CHECK(cudaMemcpyAsync(rows, sent.data(), sent.size() * sizeof sent.front(),
                                           cudaMemcpyHostToDevice, stream));
      PROTEAN_CUDA_CHECK(cudaStreamSynchronize(stream));
    }
    const std::int64_t neighbours;
    Epoch* epochs = nullptr;  // of this part, and of each neighbour
    unsigned* done = nullptr;
    NeighbourLinks<T>* table = nullptr;
    std::int32_t* rows = nullptr;
    T* places[2] = {};
  };

  class Link final : public Communicator {
   public:
    Link(GpuParts& parts, int part) : parts_(parts), part_(part) {
      for (std::size_t p = 0; p < parts.members_.size(); ++p) links_.boxes[p] = parts.members_[p]->box;
      links_.epoch = parts.members_[static_cast<std::size_t>(part)]->epoch;
      links_.part = part, links_.parts = parts.partition_->parts(), links_.patience = parts.patience_of(part);
    }
    int part() const noexcept override { return part_; }
    int parts() const noexcept override { return parts_.partition_->parts(); }
    std::int64_t rows() const noexcept override { return parts_.partition_->rows(); }
    std::int64_t first_row() const noexcept override { return parts_.partition_->begin(part_); }
    std::int64_t number_of(std::int64_t row) const noexcept override {
      return parts_.partition_->rows_of(part_)[static_cast<std::size_t>(row)];
    }
    void sum(const Context& context, double* values, int count) override {
      combine(context, values, count, Combine::sum);
    }
    void sum(const Context& context, float* values, int count) override {
      combine(context, values, count, Combine::sum);
    }
    void largest(const Context& context, double* value) override {
      combine(context, value, 1, Combine::largest);
    }
    void largest(const Context& context, float* value) override {
      combine(context, value, 1, Combine::largest);
    }
    std::vector<double> gathered(const std::vector<double>& numbers) override {
      parts_.require_no_one_gave_up();
      std::vector<double> all = parts_.meeting_.gathered(part_, numbers);
      parts_.require_no_one_gave_up();
      return all;
    }
    std::vector<PartMessage> exchanged(std::vector<PartMessage> to) override {
      return parts_.meeting_.exchanged(part_, std::move(to));
    }

   private:
    template <class V>
    void combine(const Context& context, V* values, int count, Combine how) {
      const DeviceScope scope(context);
      const DeviceState& state = context.device_state();
      for (int first = 0; first < count; first += most_sums)
        device::launch(state, combine_kernel<V>, 1, sum_threads, links_, values + first,
                       std::min(most_sums, count - first), how, state.stop);
    }
    GpuParts& parts_;
    const int part_;
    SumLinks links_{};
  };

  class Exchange final : public HaloExchange<T> {
   public:
    Exchange(std::shared_ptr<const Arrivals> memory, const Patience& patience, std::int64_t most_sent)
        : memory_(std::move(memory)),
          patience_(patience),
          blocks_(static_cast<int>(blocks_for(most_sent, most_blocks))) {}
    void begin(VectorView<const T> x) override {
      if (memory_->neighbours == 0) return;
      const DeviceState& state = memory_->context->device_state();
      device::launch(state, send_kernel<T>, memory_->neighbours * blocks_, exchange_threads,
                     static_cast<const NeighbourLinks<T>*>(memory_->table), blocks_, x.data,
                     static_cast<const Epoch*>(memory_->epochs), memory_->done + 1, state.stop);
    }
    void end(VectorView<T> ghosts) override {
      if (memory_->neighbours == 0) return;
      const DeviceState& state = memory_->context->device_state();
      device::launch(state, receive_kernel<T>, blocks_for(ghosts.size, most_blocks), exchange_threads,
                     static_cast<const Epoch*>(memory_->epochs + 1),
                     static_cast<const NeighbourLinks<T>*>(memory_->table),
                     static_cast<int>(memory_->neighbours), static_cast<const T*>(memory_->places[0]),
                     static_cast<const T*>(memory_->places[1]), ghosts.size, ghosts.data, memory_->epochs,
                     memory_->done, patience_, state.stop);
    }

   private:
    const std::shared_ptr<const Arrivals> memory_;
    const Patience patience_;
    const int blocks_;
  };

  // The parts tell each other where their values go. Memory is shared with this object, since neighbours may still
  // write into it after a part has failed.
  template <class V>
  std::unique_ptr<HaloExchange<V>> made(int part, const PartHalo& halo) {
    if constexpr (std::is_same_v<V, T>) {
      const auto arrivals =
          std::make_shared<Arrivals>(members_[static_cast<std::size_t>(part)]->context, halo);
      {
        const std::lock_guard lock(mutex_);
        exchanges_.push_back(arrivals);
      }
      std::vector<PartMessage> to(members_.size());
      std::int64_t most = 0, number = 0;
      for (const HaloNeighbour& one : halo.neighbours) {
        const Place place{{arrivals->places[0] + one.first_ghost, arrivals->places[1] + one.first_ghost},
                          arrivals->epochs + 1 + number++};
        write(to[static_cast<std::size_t>(one.part)], std::span<const Place>(&place, 1));
        most = std::max<std::int64_t>(most, std::ssize(one.send));
      }
      const std::vector<PartMessage> from = meeting_.exchanged(part, std::move(to));
      std::vector<Place> there;
      for (const HaloNeighbour& one : halo.neighbours)
        there.push_back(
            MessageReader(from[static_cast<std::size_t>(one.part)]).template read<Place>().front());
      arrivals->link(halo, there);
      return std::make_unique<Exchange>(arrivals, patience_of(part), most);
    } else {
      throw BadArgument("the vectors of a distributed system have another precision");
    }
  }

  static void require(const std::vector<ContextPtr>& contexts) {
    if (contexts.size() > most_parts)
      throw BadArgument("a system over " + std::to_string(contexts.size()) +
                        " GPUs; it can have parts on at most " + std::to_string(most_parts));
    for (std::size_t p = 0; p < contexts.size(); ++p) {
      const DeviceState& state = contexts[p]->device_state();
      if (state.communicator)
        throw BadArgument(
            "a context belongs to another distributed system; give each system its own contexts");
      for (std::size_t q = 0; q < p; ++q)
        if (contexts[q]->device_state().ordinal == state.ordinal)
          throw BadArgument("GPU " + std::to_string(state.ordinal) +
                            " is given twice; give each part its own");
    }
  }
  static void reach_others(const std::vector<ContextPtr>& contexts, std::size_t part) {
    const DeviceScope scope(*contexts[part]);
    const int own = contexts[part]->device_state().ordinal;
    for (const ContextPtr& other : contexts) {
      const int ordinal = other->device_state().ordinal;
      if (ordinal == own) continue;
      int reaches = 0;
      PROTEAN_CUDA_CHECK(cudaDeviceCanAccessPeer(&reaches, own, ordinal));
      if (!reaches)
        throw NotAvailable(
            "GPU " + std::to_string(own) + " does not reach the memory of GPU " + std::to_string(ordinal) +
            " (peer access), which a distributed system needs; take GPUs that are linked, or one GPU");
      PROTEAN_CUDA_CHECK(cudaSetDevice(own));
      const cudaError_t status = cudaDeviceEnablePeerAccess(ordinal, 0);
      if (status == cudaErrorPeerAccessAlreadyEnabled)
        (void)cudaGetLastError();
      else
        device::check(status, "cudaDeviceEnablePeerAccess");
    }
  }
  const std::shared_ptr<const Partition> partition_;
  PartWatch watch_;
  HostMeeting meeting_;
  int* abandoned_ = nullptr;  // Patience::abandoned and waited_for, in memory of the host that all GPUs read
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<std::unique_ptr<Link>> links_;
  std::mutex mutex_;  // of the list
  std::vector<std::shared_ptr<Arrivals>> exchanges_;
};

}  // namespace

std::unique_ptr<Parts> make_gpu_parts(std::vector<ContextPtr> contexts,
                                      std::shared_ptr<const Partition> partition, std::size_t value_bytes) {
  if (value_bytes == sizeof(float))
    return std::make_unique<GpuParts<float>>(std::move(contexts), std::move(partition));
  return std::make_unique<GpuParts<double>>(std::move(contexts), std::move(partition));
}

template <class T>
void add_at_on_gpu(const Context& context, const Buffer<std::int32_t>& rows, VectorView<const T> t,
                   VectorView<T> y) {
  const DeviceScope scope(context);
  const DeviceState& state = context.device_state();
  device::launch(state, add_at_kernel<T>, blocks_for(t.size, 4096), exchange_threads, rows.data(), t.size,
                 t.data, y.data, state.stop);
}
template void add_at_on_gpu<float>(const Context&, const Buffer<std::int32_t>&, VectorView<const float>,
                                   VectorView<float>);
template void add_at_on_gpu<double>(const Context&, const Buffer<std::int32_t>&, VectorView<const double>,
                                    VectorView<double>);

}  // namespace protean::detail
