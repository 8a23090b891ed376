#include "core/kokkos.hpp"

#include <unistd.h>

#include <cstdlib>
#include <map>
#include <memory>

#include "core/error.hpp"
#if defined(PROTEAN_KOKKOS_CUDA)
#include <cuda.h>

#include "core/device/state.hpp"
#endif

namespace protean {
namespace {

std::mutex& kokkos_mutex() {
  static std::mutex mutex;
  return mutex;
}

[[noreturn]] void throw_finalised() {
  throw NotAvailable(
      "Kokkos has been finalised in this program and cannot be started again; take kernel native");
}

#if defined(PROTEAN_KOKKOS_CUDA)

// Kokkos sets the current GPU when it is initialised, also for a host context. The caller's is restored at the end.
class KeptCudaDevice {
 public:
  KeptCudaDevice() {
    if (cudaGetDevice(&before_) != cudaSuccess) before_ = -1;
  }
  ~KeptCudaDevice() {
    if (int now = -1; before_ >= 0 && cudaGetDevice(&now) == cudaSuccess && now != before_)
      (void)cudaSetDevice(before_);
  }
  KeptCudaDevice(const KeptCudaDevice&) = delete;
  KeptCudaDevice& operator=(const KeptCudaDevice&) = delete;

 private:
  int before_ = -1;
};

// One for each state of a context, made when it is first needed. They must end before Kokkos does, so the map
// outlives all statics and is emptied when Kokkos is finalised.
using Instances = std::map<const DeviceState*, std::unique_ptr<const Kokkos::Cuda>>;
Instances& instances() {
  static auto* const map = new Instances;
  return *map;
}

struct Nothing {
  KOKKOS_FUNCTION void operator()(const Kokkos::TeamPolicy<Kokkos::Cuda>::member_type&) const {}
};

const Kokkos::Cuda* instance_for(const DeviceState& state) {
  const auto found = instances().find(&state);
  if (found != instances().end()) return found->second.get();
  static const bool hooked = (Kokkos::push_finalize_hook([] { instances().clear(); }), true);
  (void)hooked;
  PROTEAN_CUDA_CHECK(cudaSetDevice(state.ordinal));
  auto made = std::make_unique<const Kokkos::Cuda>(state.stream);
  // Kokkos pushes the stream's driver context and leaves it there.
  CUcontext pushed = nullptr;
  (void)cuCtxPopCurrent(&pushed);
  // As long as an instance has no scratch memory for teams, Kokkos calls cudaMalloc() for no bytes at each kernel,
  // which cannot be recorded.
  Kokkos::parallel_for(
      "protean::prepare",
      Kokkos::TeamPolicy<Kokkos::Cuda>(*made, 1, 32).set_scratch_size(1, Kokkos::PerTeam(64)), Nothing());
  // Kokkos clears the memory of the instance on the default stream, for which other streams do not wait.
  PROTEAN_CUDA_CHECK(cudaSetDevice(state.ordinal));
  PROTEAN_CUDA_CHECK(cudaStreamSynchronize(cudaStreamLegacy));
  return (instances()[&state] = std::move(made)).get();
}

#endif

}  // namespace

void start_kokkos(const Context& context) {
  static bool started = false;
  const std::lock_guard lock(kokkos_mutex());
  if (Kokkos::is_initialized()) return;
  if (started) throw_finalised();
#if defined(PROTEAN_KOKKOS_CUDA)
  if (Context::device_count() == 0)
    throw NotAvailable(
        "this Kokkos was built with CUDA and cannot start without a GPU; take kernel native, or build "
        "Protean with a Kokkos for the host");
  const KeptCudaDevice kept;
  const bool on_device = context.space() == Space::device;
  Kokkos::initialize(Kokkos::InitializationSettings()
                         .set_num_threads(context.threads())
                         .set_device_id(on_device ? context.device_state().ordinal : 0)
                         .set_disable_warnings(true));
#elif KOKKOS_VERSION >= 30700
  Kokkos::initialize(
      Kokkos::InitializationSettings().set_num_threads(context.threads()).set_disable_warnings(true));
#else
  Kokkos::InitArguments arguments;
  arguments.num_threads = context.threads();
  arguments.disable_warnings = true;
  Kokkos::initialize(arguments);
#endif
  started = true;
  // A child after fork() inherits this call, but neither the threads of Kokkos nor a GPU that it could release.
  static const pid_t owner = getpid();
  std::atexit([] {
    if (getpid() == owner && Kokkos::is_initialized()) Kokkos::finalize();
  });
}

KokkosScope::KokkosScope([[maybe_unused]] const Context& context)
    : lock_(kokkos_mutex())
#if defined(PROTEAN_KOKKOS_CUDA)
      ,
      device_(context)
#endif
{
  if (!Kokkos::is_initialized()) throw_finalised();
#if defined(PROTEAN_KOKKOS_CUDA)
  if (context.space() != Space::device) return;
  const DeviceState& state = context.device_state();
  cuda_ = instance_for(state);
  stop_ = state.stop;
#endif
}

namespace detail {

bool kokkos_can_record([[maybe_unused]] const Context& context) noexcept {
#if defined(PROTEAN_KOKKOS_CUDA)
  if (context.space() != Space::device) return true;
  const DeviceScope scope(context);
  const std::lock_guard lock(kokkos_mutex());
  return !Kokkos::Tools::profileLibraryLoaded() && instances().count(&context.device_state()) > 0;
#else
  return true;
#endif
}

void forget_kokkos([[maybe_unused]] const DeviceState* state) noexcept {
#if defined(PROTEAN_KOKKOS_CUDA)
  const std::lock_guard lock(kokkos_mutex());
  instances().erase(state);
#endif
}

}  // namespace detail
}  // namespace protean
