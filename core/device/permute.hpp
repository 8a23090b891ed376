// The device side of core/permutation.hpp. Private; CUDA builds only.
#pragma once
#include <cstdint>

#include "core/context.hpp"

namespace protean::device {

// to[i] := from[index[i]] for i < size; device memory, queued on the context's stream.
template <class T, class Index>
void gather(const Context& context, const T* from, const Index* index, std::int64_t size, T* to);

}  // namespace protean::device
