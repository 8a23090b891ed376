#include "core/communicator.hpp"

#include "core/simulated_device.hpp"
#if defined(PROTEAN_HAVE_CUDA)
#include "core/device/state.hpp"
#endif

namespace protean::detail {

thread_local int LocalWork::depth = 0;
thread_local JoinedWork::Joined JoinedWork::joined;

Communicator* communicator_of(const Context& context) noexcept {
  if (LocalWork::here()) return nullptr;
  if (context.space() == Space::host)
    return &context == JoinedWork::joined.context ? JoinedWork::joined.all : nullptr;
  if (const SimulatedDevice* const simulated = context.simulated()) return simulated->communicator();
#if defined(PROTEAN_HAVE_CUDA)
  return context.device_state().communicator;
#else
  return nullptr;
#endif
}

std::int64_t counted(const Context& context, std::int64_t here) {
  Communicator* const all = communicator_of(context);
  if (!all) return here;
  double sum = 0;
  for (const double one : all->gathered({static_cast<double>(here)})) sum += one;
  return static_cast<std::int64_t>(sum);
}

}  // namespace protean::detail
