// What the tests of subdomains share.
#pragma once
#include <cstdint>

#include "preconditioners/in_space.hpp"

namespace protean::test {

inline constexpr const char* both[] = {"subdomain-ic0", "subdomain-ilu0"};

class Subdomains : public InSpace {
 protected:
  // If a subdomain of that many rows may not fit into the shared memory of a device.
  bool on_host() const { return GetParam() == Where::host; }
};
inline PreconditionerOptions of_size(std::int64_t size, std::int64_t overlap = 0) {
  PreconditionerOptions options;
  options.subdomain_size = size, options.overlap = overlap;
  return options;
}

}  // namespace protean::test
