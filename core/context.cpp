#include "core/context.hpp"

#include "core/error.hpp"
#include "core/parallel.hpp"

namespace protean {

std::string_view to_string(Space space) noexcept { return space == Space::host ? "host" : "device"; }

Context::Context(Space space, int threads) : space_(space), threads_(threads), device_(nullptr, nullptr) {}
Context::~Context() = default;

std::shared_ptr<Context> Context::host(int threads) {
  if (threads < 0)
    throw BadArgument("the number of threads is " + std::to_string(threads) + "; give 0 (all) or more");
  return std::shared_ptr<Context>(new Context(Space::host, threads > 0 ? threads : available_threads()));
}

#if !defined(PROTEAN_HAVE_CUDA)
std::shared_ptr<Context> Context::device(int) {
  throw NotAvailable(
      "this build has no GPU code; build with -DPROTEAN_CUDA=ON (CUDA Toolkit 12 or newer), or use space: "
      "host");
}
int Context::device_count() noexcept { return 0; }
void Context::synchronize() const {}
#endif

}  // namespace protean
