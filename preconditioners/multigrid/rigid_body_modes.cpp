// The rigid body modes of preconditioner.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "core/multi_blas1.hpp"
#include "preconditioners/preconditioner.hpp"

namespace protean {

MultiVector<double> rigid_body_modes(const ContextPtr& host, MultiVectorView<const double> coordinates) {
  const std::int64_t nodes = coordinates.rows, d = coordinates.columns;
  if (d != 2 && d != 3)
    throw BadArgument(
        fmt::format("rigid body modes are for 2 or 3 coordinates of a node, and these are {}", d));
  require<double>(coordinates, nodes, d, Space::host, "the coordinates");
  // Rotations about the middle, so that they have the size of the translations or less.
  double middle[3] = {0, 0, 0}, reach = 0;
  for (std::int64_t k = 0; k < d; ++k) {
    for (std::int64_t i = 0; i < nodes; ++i) middle[k] += coordinates(i, k) / static_cast<double>(nodes);
    for (std::int64_t i = 0; i < nodes; ++i) reach = std::max(reach, std::abs(coordinates(i, k) - middle[k]));
  }
  if (!std::isfinite(reach)) throw BadArgument("rigid body modes need finite coordinates");
  if (reach == 0) reach = 1;
  const std::int64_t modes = d == 2 ? 3 : 6;
  MultiVector<double> made(host, nodes * d, modes);
  const MultiVectorView<double> B = made;
  for (std::int64_t i = 0; i < nodes; ++i) {
    for (std::int64_t k = 0; k < d; ++k)
      for (std::int64_t m = 0; m < modes; ++m) B(i * d + k, m) = k == m ? 1 : 0;
    // The rotation in the plane of axes a and b: -x_b along a, x_a along b.
    std::int64_t m = d;
    for (std::int64_t a = 0; a < d; ++a)
      for (std::int64_t b = a + 1; b < d; ++b, ++m) {
        B(i * d + a, m) = -(coordinates(i, b) - middle[b]) / reach;
        B(i * d + b, m) = (coordinates(i, a) - middle[a]) / reach;
      }
  }
  return made;
}

}  // namespace protean
