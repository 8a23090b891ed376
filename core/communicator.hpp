// The parts of one system whose vectors are distributed, as vector operations see them. A context of a part has a
// communicator: dots and norms of its vectors are then sums over all parts. Each part has a host thread, in this
// process or in one of its own, and all threads make the same calls in the same order. Private.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/context.hpp"

namespace protean::detail {

// What one part tells another one.
using PartMessage = std::vector<std::byte>;

class Communicator {
 public:
  virtual ~Communicator() = default;
  // This part, 0 .. parts() - 1.
  virtual int part() const noexcept = 0;
  virtual int parts() const noexcept = 0;
  // Rows of all parts, and of the parts before this one. The vectors of a system have that many entries.
  virtual std::int64_t rows() const noexcept = 0;
  virtual std::int64_t first_row() const noexcept = 0;
  // The caller's number of row `row` of this part.
  virtual std::int64_t number_of(std::int64_t row) const noexcept = 0;

  // values[k] := values[k] of all parts, added in the order of the parts: the same bits on all of them. The values lie
  // in the space of the context. Work that heeds the end of a run leaves them as they are.
  virtual void sum(const Context& context, double* values, int count) = 0;
  virtual void sum(const Context& context, float* values, int count) = 0;
  // The same for the largest one; NaN if one is NaN.
  virtual void largest(const Context& context, double* value) = 0;
  virtual void largest(const Context& context, float* value) = 0;

  // Numbers of the hosts' threads, of all parts one after another. Each thread waits for all.
  virtual std::vector<double> gathered(const std::vector<double>& numbers) = 0;
  // Messages of the hosts' threads. to: one for each part, which may be empty; what it sends itself comes back.
  // Returns the messages of all parts to this one. Each thread waits for all.
  virtual std::vector<PartMessage> exchanged(std::vector<PartMessage> to) = 0;
};

// While an object of this class lives, operations of the calling thread stay in its part: the product of a block of the
// matrix, or a preconditioner that is set up for the rows of the part alone.
class LocalWork {
 public:
  LocalWork() noexcept { ++depth; }
  ~LocalWork() { --depth; }
  LocalWork(const LocalWork&) = delete;
  LocalWork& operator=(const LocalWork&) = delete;
  static bool here() noexcept { return depth > 0; }

 private:
  static thread_local int depth;
};

// While an object of this class lives, this context of the host has this communicator in the calling thread. (A context
// of a device has one as long as the parts exist that gave it to it.) Contexts of the host are shared, so another
// thread that uses the same one is not a part.
class JoinedWork {
 public:
  JoinedWork(const Context& context, Communicator& all) noexcept : before_(joined) {
    joined = {&context, &all};
  }
  ~JoinedWork() { joined = before_; }
  JoinedWork(const JoinedWork&) = delete;
  JoinedWork& operator=(const JoinedWork&) = delete;

 private:
  friend Communicator* communicator_of(const Context& context) noexcept;
  struct Joined {
    const Context* context = nullptr;
    Communicator* all = nullptr;
  };
  static thread_local Joined joined;
  const Joined before_;
};

// Null if the vectors of the context are whole, and within LocalWork.
Communicator* communicator_of(const Context& context) noexcept;

// The number of entries of a vector of the system, of which `local` lie in the context.
inline std::int64_t all_rows(const Context& context, std::int64_t local) noexcept {
  const Communicator* const all = communicator_of(context);
  return all ? all->rows() : local;
}
// How many entries of it the parts before this one have.
inline std::int64_t first_row(const Context& context) noexcept {
  const Communicator* const all = communicator_of(context);
  return all ? all->first_row() : 0;
}
// A number of the hosts, such as the time: the one of part 0.
inline double agreed(const Context& context, double number) {
  Communicator* const all = communicator_of(context);
  return all ? all->gathered({number}).front() : number;
}
// How many there are in all parts.
std::int64_t counted(const Context& context, std::int64_t here);

// reduce() leaves `count` sums of the part in result, which are then added over all parts.
template <class T, class Reduce>
void sum_over_parts(const Context& context, T* result, int count, Reduce&& reduce) {
  reduce();
  if (Communicator* const all = communicator_of(context)) all->sum(context, result, count);
}

}  // namespace protean::detail
