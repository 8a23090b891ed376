// Kernels as text: y := alpha A x + beta y for a description, in C++ and in CUDA C++.
#pragma once
#include <string>

#include "research/describe/plan.hpp"

namespace protean::research {

enum class Target : unsigned char { host, cuda };

// How a compiler may map a description; all of it is tried by the tuner. Sizes of the description come next to it.
struct Strategy {
  bool turned = false;  // tables column after column, so that neighbouring threads read neighbouring elements
  int unroll = 1;       // iterations of the innermost loop at once, each with its own sum on a host
  int lanes = 1;        // GPU: threads that share the first loop behind the sums; a power of two up to 32
  int threads = 256;    // GPU: of a block
  int chunk = 1;        // GPU: iterations of a shared loop that a thread does one after another
  std::string text(Target target) const;
};
// Throws BadArgument for a strategy that cannot be.
void check(const Strategy& strategy, Target target);

// One function for each nest: nest_N on a host, launch_N on a GPU, which starts a kernel. compiled.cpp calls them.
std::string generated_source(const Description& description, const std::vector<Nest>& nests,
                             const Strategy& strategy, Target target, bool single_precision);

// Where generated code finds the extents of tables: behind the numbers of all variables.
inline std::size_t extent_number(const Description& d, std::size_t array, std::size_t dimension) {
  return d.variables.size() + 2 * array + dimension;
}

}  // namespace protean::research
