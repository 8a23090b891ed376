// A context next to another library that uses the same GPU: the place of its memory, and who waits for whom. Private;
// CUDA builds only.
#pragma once
#include <cstdint>
#include <functional>
#include <string_view>

#include "core/context.hpp"

namespace protean::device {

// A stream of CUDA as a number, by the convention between libraries: 1 for the default stream, 2 for the default stream
// of each thread, else its address.
using StreamNumber = std::uintptr_t;

// The context's later work waits for all that has been queued on the stream. The host does not wait. Throws
// BadArgument, naming `what`, for a stream of another GPU, or one that is being recorded into a graph.
void wait_for(const Context& context, StreamNumber stream, std::string_view what);
// Later work of the stream waits for all that has been queued on the context. Throws as wait_for().
void let_wait(const Context& context, StreamNumber stream, std::string_view what);
// Waits for all work on the GPU of the context, whoever has queued it. No solve records a graph meanwhile.
void finish_all(const Context& context);

// Seconds on the GPU between the begin and the end of the work that `queue` queues on the context's stream; the host
// waits for its end. Throws DeviceError, and what `queue` throws.
double seconds_between(const Context& context, const std::function<void()>& queue);

// The GPU in whose memory `data` lies. Throws WrongSpace, naming `what`, for any other memory.
int ordinal_of(const void* data, std::string_view what);

}  // namespace protean::device
