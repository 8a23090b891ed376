// The parts of a system on GPUs that reach each other's memory. CUDA builds only. Private.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/buffer.hpp"
#include "core/vector.hpp"
#include "distributed/partition.hpp"
#include "distributed/parts.hpp"

namespace protean::detail {

// A context of a GPU of its own for each part. value_bytes: of the vectors. Takes 20 KB of device memory for each part,
// and each exchange twice its ghosts; all parts make an exchange together. Throws BadArgument for a GPU that is given
// twice, for more than 16 parts, and for a context that belongs to another system; NotAvailable if a GPU does not reach
// the memory of another one; OutOfMemory, DeviceError.
std::unique_ptr<Parts> make_gpu_parts(std::vector<ContextPtr> contexts,
                                      std::shared_ptr<const Partition> partition, std::size_t value_bytes);

// y[rows[k]] += t[k] on the GPU of the context.
template <class T>
void add_at_on_gpu(const Context& context, const Buffer<std::int32_t>& rows, VectorView<const T> t,
                   VectorView<T> y);

}  // namespace protean::detail
