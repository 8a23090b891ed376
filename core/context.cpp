#include "core/context.hpp"

#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "core/parallel.hpp"
#include "core/simulated_device.hpp"
#if defined(PROTEAN_HAVE_KOKKOS)
#include "core/kokkos.hpp"
#endif

namespace protean {

std::string_view to_string(Space space) noexcept { return space == Space::host ? "host" : "device"; }

std::string_view to_string(VectorKernels kernels) noexcept {
  return kernels == VectorKernels::native ? "native" : "kokkos";
}

std::string_view unavailable([[maybe_unused]] VectorKernels kernels) noexcept {
#if !defined(PROTEAN_HAVE_KOKKOS)
  if (kernels == VectorKernels::kokkos)
    return "Kokkos was not found when Protean was configured (PROTEAN_KOKKOS)";
#endif
  return {};
}

Context::Context(Space space, int threads) : space_(space), threads_(threads), device_(nullptr, nullptr) {}
Context::~Context() = default;

std::shared_ptr<Context> Context::host(int threads, const HostOptions& options) {
  if (threads < 0)
    throw BadArgument("the number of threads is " + std::to_string(threads) + "; give 0 (all) or more");
  if (const std::string_view why = unavailable(options.vector_kernels); !why.empty())
    throw NotAvailable("vector operations of " + std::string(to_string(options.vector_kernels)) +
                       " are not in this build: " + std::string(why) + "; take native");
  if (options.deterministic && options.vector_kernels != VectorKernels::native)
    throw NotAvailable(
        "vector operations of " + std::string(to_string(options.vector_kernels)) +
        " add in an order of their own, which deterministic mode forbids; take native, or leave "
        "deterministic mode");
  std::shared_ptr<Context> context(new Context(Space::host, threads > 0 ? threads : available_threads()));
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
