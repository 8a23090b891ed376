// A call of the library in which one allocation fails, and what must hold then. Every test of allocation faults is a
// list of scenarios; each of them is tried again and again, with the first allocation failing, the second one, ...
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/context.hpp"

namespace protean::test {

// One object of the library and one call of it, made anew for each trial.
struct Trial {
  // The call, in which an allocation fails. It may throw OutOfMemory or std::bad_alloc and nothing else, or do without
  // the memory and go on.
  std::function<void()> call;
  // The same call with the same object, in which nothing fails. Returns what it computes.
  std::function<std::vector<double>()> again;
};

struct Scenario {
  std::string name;
  ContextPtr
      context;  // whose memory must be given back; null: a device that is not there, and the test is skipped
  std::function<Trial()> make;
  double tolerance =
      0;  // by which answers may differ, relative to the largest number of the answer; 0: not a bit
  // Whether the call may have fewer allocations than it takes to be worth a test; else that is a failure.
  bool may_be_empty = false;
};

// Which allocations fail. buffers: those of the library's arrays, in any space and pinned, which throw OutOfMemory.
// news: those of operator new.
enum class Allocations : unsigned char { buffers, news };

// Tries the scenario with the n-th allocation failing for n = 1, 2, ... until the call ends before that. Of operator
// new all up to 40 fail in turn, and from there on each n is 5 % larger than the one before; with the environment
// variable PROTEAN_FAULTS=all every n. Buffers are always all tried. Adds a failure to the test where
//   the call throws anything but OutOfMemory and std::bad_alloc,
//   the object cannot be used afterwards, or has another answer than without a failure,
//   memory is not given back: buffers of the host and of the context, and blocks of operator new.
// Returns the number of allocations that failed.
std::int64_t fail_each(const Scenario& scenario, Allocations allocations);

}  // namespace protean::test
