// How the values of the halo travel in a product. Private.
#pragma once
#include "core/vector.hpp"

namespace protean::detail {

// Of one part. All parts make the same calls in the same order, each in its own thread.
template <class T>
class HaloExchange {
 public:
  virtual ~HaloExchange() = default;
  // Queues: sends each neighbour the entries of x that it needs (PartHalo::neighbours). Work that is queued later may
  // change x.
  virtual void begin(VectorView<const T> x) = 0;
  // Queues: when all messages of this exchange have arrived, puts them into ghosts.
  virtual void end(VectorView<T> ghosts) = 0;
};

}  // namespace protean::detail
