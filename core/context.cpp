#include "core/context.hpp"

#include <algorithm>
#include <string>

#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "core/parallel.hpp"
#include "core/simulated_device.hpp"
#if defined(PROTEAN_HAVE_KOKKOS)
#include "core/kokkos_start.hpp"
#endif

namespace protean {

std::string_view to_string(Space space) noexcept { return space == Space::host ? "host" : "device"; }

std::string_view to_string(VectorKernels kernels) noexcept {
  return kernels == VectorKernels::native ? "native" : "kokkos";
}

std::string_view unavailable([[maybe_unused]] VectorKernels kernels, [[maybe_unused]] Space space) noexcept {
  if (kernels == VectorKernels::native) return {};
#if !defined(PROTEAN_HAVE_KOKKOS)
  return "Kokkos was not found when Protean was configured (PROTEAN_KOKKOS)";
#elif !defined(PROTEAN_KOKKOS_CUDA)
  if (space == Space::device) return "no device code in this Kokkos: it was built without CUDA (Kokkos_ROOT)";
#endif
  return {};
}

namespace detail {
bool vector_operations_record([[maybe_unused]] const Context& context) noexcept {
#if defined(PROTEAN_HAVE_KOKKOS)
  if (context.vector_kernels() == VectorKernels::kokkos) return kokkos_can_record(context);
#endif
  return true;
}

void require_vector_kernels(VectorKernels kernels, Space space, bool deterministic) {
  if (const std::string_view why = unavailable(kernels, space); !why.empty())
    throw NotAvailable("vector operations of " + std::string(to_string(kernels)) +
                       " are not in this build: " + std::string(why) + "; take native");
  if (deterministic && kernels != VectorKernels::native)
    throw NotAvailable(
        "vector operations of " + std::string(to_string(kernels)) +
        " add in an order of their own, which deterministic mode forbids; take native, or leave "
        "deterministic mode");
}
}  // namespace detail

Context::Context(Space space, int threads) : space_(space), threads_(threads), device_(nullptr, nullptr) {}
Context::~Context() = default;

std::shared_ptr<Context> Context::host(int threads, const HostOptions& options) {
  // As operator.threads: workspaces have a part for each thread, so a number that no machine has would take all memory.
  constexpr int most_threads = 1024;
  if (threads < 0 || threads > most_threads)
    throw BadArgument("the number of threads is " + std::to_string(threads) + "; give 1 to " +
                      std::to_string(most_threads) + ", or 0 (all)");
  detail::require_vector_kernels(options.vector_kernels, Space::host, options.deterministic);
  std::shared_ptr<Context> context(
      new Context(Space::host, threads > 0 ? threads : std::min(available_threads(), most_threads)));
  context->options_ = options;
#if defined(PROTEAN_HAVE_KOKKOS)
  if (options.vector_kernels == VectorKernels::kokkos) start_kokkos(*context);
#endif
  return context;
}

#if !defined(PROTEAN_HAVE_CUDA)
std::shared_ptr<Context> Context::device(int, const DeviceOptions&) {
  throw NotAvailable(
      "this build has no GPU code; build with -DPROTEAN_CUDA=ON (CUDA Toolkit 12 or newer), or use space: "
      "host");
}
int Context::device_count() noexcept { return 0; }
void Context::synchronize() const {}

namespace detail {
void require_device_memory(const Context& context, const void* data, std::string_view what) {
  require_simulated_memory(context, data, what);
}
CUstream_st* stream_of(const Context&) noexcept { return nullptr; }
void check_queued(const Context&, std::string_view) {}
int DeviceScope::enter(const Context&) noexcept { return -1; }
void DeviceScope::restore(int) noexcept {}
}  // namespace detail
#endif

}  // namespace protean
