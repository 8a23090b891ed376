// A kept solver over several GPUs for a matrix that is apart from it (SystemSolver, and so C and Python). Private.
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/vector.hpp"
#include "systems/linear_system.hpp"
#include "systems/system_matrix.hpp"

namespace protean::detail {

// What distribution the words of an entrance ask for: "all" GPUs of this machine, their number, such as "2", or numbers
// of GPUs, such as "0,2"; "none" for no distribution. Throws BadArgument for other words, NotAvailable for a GPU that
// does not exist.
std::vector<ContextPtr> contexts_of_devices(std::string_view words);

// Throws BadArgument for a partition without devices.
void require_devices_of_partition(const Distribution& distribution);

template <class T>
class OverDevices {
 public:
  // A solve with the present matrix and values. An object is for one set of settings. With one context it
  // is a solve on that device. b and x lie in host memory. Throws BadArgument for a matrix that is not of CSR in host
  // memory, and what LinearSystem throws.
  SolveResult solve(SystemMatrix<T>& matrix, const SolveSettings& settings, VectorView<const T> b,
                    VectorView<T> x, SolveObserver* observer);
  void set_up(SystemMatrix<T>& matrix, const SolveSettings& settings);

 private:
  std::unique_ptr<LinearSystem<T>> system_;
  std::uint64_t serial_ = 0;  // of the matrix
  Revision revision_;
  Vector<T> b_, x_;  // on one device
};

}  // namespace protean::detail
