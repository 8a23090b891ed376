#include "core/context.hpp"

#include "core/error.hpp"
#include "core/parallel.hpp"

namespace protean {

std::string_view to_string(Space space) noexcept { return space == Space::host ? "host" : "device"; }

std::shared_ptr<Context> Context::host(int threads) {
  if (threads < 0)
    throw BadArgument("the number of threads is " + std::to_string(threads) + "; give 0 (all) or more");
  return std::shared_ptr<Context>(new Context(Space::host, threads > 0 ? threads : available_threads()));
}

}  // namespace protean
