// One solve as it was drawn, carried out with kept or with fresh objects, and what came of it.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "life/world.hpp"

namespace protean::test::life {

// What happens to the storage format, the order of the rows or both during a solve. Operators that are not adaptive
// keep theirs.
enum class Change : unsigned char {
  none,
  now,        // by a FormatSchedule, the solve waits
  beside,     // by a FormatSchedule, built next to the solve
  automatic,  // by an AutoSwitcher with a made-up clock
  cancelled,  // prepared, and cancelled three iterations later
  left        // prepared, and still there after the solve
};

// What the observer does once.
enum class Event : unsigned char { none, interrupt, exception, new_values };

enum class Rhs : unsigned char { random, zero, infinite_entry };
enum class Guess : unsigned char { zero, random, last_solution };

struct SolvePlan {
  int op = 0, solver = 0;  // slots of the world
  Preconditioning preconditioning = Preconditioning::none;
  Rhs rhs = Rhs::random;
  Guess guess = Guess::zero;
  Memory memory = Memory::same;
  unsigned numbers = 0;  // all other random numbers follow from this one
  Change change = Change::none;
  std::int64_t change_at = 0;
  bool overlapped = true;  // of an AutoSwitcher: its builds
  unsigned format = 0;     // pick_change()
  Event event = Event::none;
  std::int64_t event_at = 0;
  bool exact = true;        // the observer names its iteration beforehand (SolveObserver::next_stop)
  unsigned generation = 0;  // Event::new_values
  std::int64_t throw_at_product = 0;    // of a callback; 0: none
  std::int64_t failing_allocation = 0;  // of kept objects: the n-th allocation fails; 0: none
};
std::string describe(const SolvePlan& plan);

// Either kept or fresh objects.
template <class T>
struct Participants {
  Operator<T>& A;
  Solver<T>& solver;
  Preconditioner<T>* M;
  VectorView<T> b, x;
};

template <class T>
struct Outcome {
  std::string thrown;  // the message; empty: there is a report
  bool out_of_memory = false;
  SolveReport report;
  std::vector<IterationInfo> seen;  // by the observer
  std::vector<T> x;
  bool event_happened = false;
  std::size_t changes_adopted = 0;
  // Those of them that changed the order of the rows, and of these those back to the first one.
  std::size_t orders_adopted = 0, orders_left = 0;
};

// Never throws.
template <class T>
Outcome<T> carry_out(const SolvePlan& plan, const Participants<T>& with, const std::vector<T>& b,
                     const std::vector<T>& x0);

// Where and of what fresh objects are made, that shall do the same. A GPU takes a while to begin with, so its context
// is most often the kept one. In deterministic mode the host owes the same bits in csr without any change of format,
// and `plan` then has none. The order of the rows is the order of the sums, so the bits belong to it.
ContextPtr context_of_fresh_objects(const OperatorSpec& before, const ContextPtr& kept, unsigned numbers);
OperatorSpec spec_of_fresh_operator(const OperatorSpec& before, bool order_changed, SolvePlan& plan);

// While it lives, the n-th allocation of the library fails. One at a time.
class FailingAllocation {
 public:
  explicit FailingAllocation(std::int64_t n);
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;
};

}  // namespace protean::test::life
