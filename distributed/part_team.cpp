#include "distributed/part_team.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "core/signals_blocked.hpp"

namespace protean::detail {
namespace {

// What the threads share, as long as one of them works.
struct Team {
  std::mutex mutex;
  std::condition_variable ended;
  std::vector<std::exception_ptr> errors;
  std::vector<char> working;
  bool all_ended() const {
    return std::none_of(working.begin(), working.end(), [](char one) { return one != 0; });
  }
};

bool is_silent(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const PartSilent&) { return true; } catch (...) {
  }
  return false;
}

bool gave_up(const Parts& links) {
  try {
    links.require_answers();
  } catch (const PartSilent&) { return true; }
  return false;
}

}  // namespace

TeamEnd work_of_parts(std::shared_ptr<Parts> links, int parts, std::function<void(int)> work,
                      bool may_leave) {
  constexpr double longer_in_a_setup = 60;
  const double patience = part_patience;
  const auto count = static_cast<std::size_t>(parts);
  links->begin();
  links->watch().begin(may_leave ? patience : longer_in_a_setup * patience);
  const auto team = std::make_shared<Team>();
  team->errors.resize(count), team->working.assign(count, 1);
  const auto guarded = [team, links, work = std::move(work)](std::size_t part) {
    std::exception_ptr error;
    try {
      work(static_cast<int>(part));
    } catch (...) {
      error = std::current_exception();
      links->abandon();
    }
    const std::lock_guard lock(team->mutex);
    team->errors[part] = error, team->working[part] = 0;
    team->ended.notify_all();
  };
  std::vector<std::thread> threads;
  try {
    const SignalsBlocked blocked;
    for (std::size_t p = 1; p < count; ++p) threads.emplace_back(guarded, p);
  } catch (...) {
    links->abandon();
    for (std::thread& one : threads) one.join();
    throw;
  }
  guarded(0);
  TeamEnd end;
  {
    std::unique_lock lock(team->mutex);
    // A part that answers late ends a little later than those that have stopped waiting.
    while (!team->ended.wait_for(lock, std::chrono::duration<double>(patience / 5),
                                 [&] { return team->all_ended(); }))
      if (may_leave && (gave_up(*links) || std::any_of(team->errors.begin(), team->errors.end(), is_silent)))
        break;
    for (std::size_t p = 1; p < count; ++p)
      if (team->working[p]) end.left = static_cast<int>(p);
    end.errors = team->errors;
  }
  for (std::thread& one : threads)
    if (end.left < 0)
      one.join();
    else
      one.detach();
  return end;
}

}  // namespace protean::detail
