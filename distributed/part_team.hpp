// The hosts' threads of the parts of one process. Private.
#pragma once
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "distributed/parts.hpp"

namespace protean::detail {

struct TeamEnd {
  std::vector<std::exception_ptr> errors;  // of each part
  int left = -1;                           // a part that still works, since it does not answer
};

// work(part) for each part, in a thread of its own; part 0 in the calling thread, which has the caller's observers. If
// it throws in a part, the others are abandoned. may_leave: nobody waits for the thread of a part for which the others
// have waited in vain (PartSilent); then `work` refers to nothing that may go while it still works. Without it, parts
// have unequal work (a setup), and 60 times as much patience.
TeamEnd work_of_parts(std::shared_ptr<Parts> links, int parts, std::function<void(int)> work, bool may_leave);

}  // namespace protean::detail
