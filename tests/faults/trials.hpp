// A call of the library in which one allocation fails, and what must hold then. Every test of allocation faults is a
// list of scenarios; each of them is tried again and again, with the first allocation failing, the second one, ...
#pragma once
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "core/context.hpp"

namespace protean::test {

// One object of the library and one call of it; each trial makes a new one.
struct Trial {
  // The call, in which something fails. It may throw what Faults::names() knows and nothing else, or do without and go
  // on.
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
  // Whether the call may do without memory; else a scenario in which nothing fails is a failure of the test.
  bool may_be_empty = false;
};

// What fails: the n-th of its kind from arm(n) on.
class Faults {
 public:
  virtual ~Faults() = default;
  virtual const char* name() const = 0;
  virtual void arm(std::int64_t n) = 0;
  // Nothing fails any more. Whether something has failed.
  virtual bool disarm() = 0;
  // Whether this exception says what has happened.
  virtual bool names(const std::exception& error) const = 0;
  // Whether each n is tried. Otherwise all up to 40 are, and from there on each n is 5 % larger than the one before,
  // unless the environment has PROTEAN_FAULTS=all.
  virtual bool every() const = 0;
};

// Allocations of the library's arrays, in any space and pinned, which throw OutOfMemory; each is tried.
Faults& failing_buffers();
// Calls of operator new.
Faults& failing_news();

// Tries the scenario with the n-th step failing for n = 1, 2, ... until the call ends before that. Adds a failure to
//   the test if the exception of the call does not say what has happened,
//   the object cannot be used afterwards, or has another answer than without a failure,
//   memory is not given back: buffers of the host and of the context, and blocks of operator new.
// Returns how many trials had a fault.
std::int64_t fail_each(const Scenario& scenario, Faults& faults);

// Whether PROTEAN_FAULTS is "all".
bool all_faults_are_wanted();
// The place at which the answer differs by more than the tolerance of the scenario; empty if it does not.
std::string difference(const Scenario& scenario, const std::vector<double>& got,
                       const std::vector<double>& wanted);

}  // namespace protean::test
