#include "core/thread_team.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <type_traits>
#include <utility>

#include "core/signals_blocked.hpp"

namespace protean::detail {
namespace {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(std::atomic<std::uint32_t>) == 4);

void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t value) noexcept {
  while (word.load(std::memory_order_acquire) == value)
    (void)syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

void wake(std::atomic<std::uint32_t>& word) noexcept {
  (void)syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

inline void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

// Sequentially consistent, for a store that is followed by a load of another word, which must not come before it. On
// x86-64 it is the instruction of such a store. qemu-user lets loads pass a store of aarch64 (STLR; LDAR), and then a
// caller sleeps for ever for a part that is done.
template <class T>
void publish(std::atomic<T>& word, std::type_identity_t<T> value) noexcept {
  (void)word.exchange(value, std::memory_order_seq_cst);
}

// Longer than the time between two regions of a solve, and short compared with a time slice of the system, so that a
// thread that waits for one that does not run soon leaves the processor to others.
constexpr std::chrono::microseconds spin_time{50};

// Until ready(), for the spin time at most; returns whether it was ready.
template <class Ready>
bool spin_until(const Ready& ready) noexcept {
  constexpr int pauses = 32;
  for (int i = 0; i < 4 * pauses; ++i) {
    if (ready()) return true;
    pause();
  }
  const auto end = std::chrono::steady_clock::now() + spin_time;
  do
    for (int i = 0; i < pauses; ++i) {
      if (ready()) return true;
      pause();
    }
  while (std::chrono::steady_clock::now() < end);
  return ready();
}

}  // namespace

ThreadTeam::ThreadTeam(int workers, int parts)
    : workers_(workers), parts_(std::max(parts, workers + 1)), places_(new Place[parts_]) {
  threads_.reserve(static_cast<std::size_t>(workers));
  const ProcessorSet processors = ProcessorSet::usable();
  const SignalsBlocked blocked;
  try {
    for (int number = 1; number <= workers; ++number)
      threads_.emplace_back(&ThreadTeam::work, this, number, processors);
  } catch (const std::exception&) {  // no more threads, or no memory for one: see the header
  }
}

ThreadTeam::~ThreadTeam() {
  publish(end_, true);
  for (int k = 1; k <= workers_; ++k) (void)wake_worker(k);
  for (std::thread& thread : threads_) thread.join();
}

void ThreadTeam::run(ParallelBody body, void* closure, int parts, int helpers, const Background* work) {
  body_ = body, closure_ = closure, background_ = work;
  count_.store(parts, std::memory_order_relaxed);
  helpers_.store(helpers, std::memory_order_relaxed);
  const Region region = region_.load(std::memory_order_relaxed) + 1;
  for (int part = 1; part < parts; ++part)
    places_[part].part.store(word(region, State::open), std::memory_order_release);
  // Sequentially consistent, as in fall_asleep(): either a worker on its way to sleep sees the region, or it is
  // seen here among the sleepers.
  publish(region_, region);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) wake_sleepers(2);
  run_part(0, parts);
  for (int part = 1; part < parts; ++part)
    if (claim(part, region)) run_claimed(part, region);
  for (int part = 1; part < parts; ++part) wait_for_part(part, region);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

bool ThreadTeam::claim(int part, Region region) noexcept {
  std::atomic<std::uint64_t>& state = places_[part].part;
  std::uint64_t open = word(region, State::open);
  // The load first: it leaves the cache line of a part that is taken to the thread that runs it.
  return state.load(std::memory_order_relaxed) == open &&
         state.compare_exchange_strong(open, word(region, State::taken), std::memory_order_acquire,
                                       std::memory_order_relaxed);
}

void ThreadTeam::run_part(int part, int parts) noexcept {
  try {
    body_(closure_, part, parts);
  } catch (...) {
    const std::lock_guard lock(error_mutex_);
    if (!error_ || part < error_part_) error_ = std::current_exception(), error_part_ = part;
  }
}

void ThreadTeam::run_claimed(int part, Region region) noexcept {
  run_part(part, count_.load(std::memory_order_relaxed));
  publish(places_[part].part, word(region, State::done));
  // A caller about to sleep for this part sees that it is done, or is seen here. It may also sleep for the same
  // part of a later region: it looks again after it was woken.
  auto awaited = static_cast<std::uint32_t>(part);
  if (awaited_.load(std::memory_order_seq_cst) == awaited && awaited_.compare_exchange_strong(awaited, 0))
    wake(awaited_);
}

void ThreadTeam::wait_for_part(int part, Region region) noexcept {
  const std::atomic<std::uint64_t>& state = places_[part].part;
  const std::uint64_t done = word(region, State::done);
  const auto is_done = [&] { return state.load(std::memory_order_acquire) == done; };
  if (is_done()) return;
  while (!spin_until(is_done)) {
    const auto number = static_cast<std::uint32_t>(part);
    publish(awaited_, number);
    if (state.load(std::memory_order_seq_cst) != done) sleep_while(awaited_, number);
    awaited_.store(0, std::memory_order_relaxed);
  }
}

void ThreadTeam::work(int number, const ProcessorSet& processors) {
  become_worker();
  (void)processors.apply();  // refusal is harmless: the worker then has the processors of the caller
  for (Region last = 0; (last = wait_for_region(number, last)) != 0;) help(number, last);
}

// The number of a region after `last`; 0 when the team ends.
ThreadTeam::Region ThreadTeam::wait_for_region(int number, Region last) {
  const std::atomic<std::uint64_t>& part = places_[number].part;
  const auto ready = [&] {
    return region_of(part.load(std::memory_order_acquire)) != last || end_.load(std::memory_order_relaxed);
  };
  while (!spin_until(ready))
    if (fall_asleep(number, last)) wake_sleepers(2);
  const Region region = region_of(part.load(std::memory_order_acquire));
  return region != last ? region : 0;
}

// Returns when the worker was woken, true, or when there is something to do, false.
bool ThreadTeam::fall_asleep(int number, Region last) {
  Place& place = places_[number];
  publish(place.asleep, 1);
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  (void)region_.load(std::memory_order_seq_cst);  // the parts of the region that is read here are seen, too
  if (region_of(place.part.load(std::memory_order_acquire)) != last || end_.load(std::memory_order_seq_cst)) {
    if (place.asleep.exchange(0) == 1) sleepers_.fetch_sub(1);
    return false;
  }
  sleep_while(place.asleep, 1);
  return true;
}

// Wakes some sleepers of the present region, and these wake more: the caller does not wake many one by one.
void ThreadTeam::wake_sleepers(int limit) {
  const int last = helpers_.load(std::memory_order_relaxed);
  for (int k = 1; k <= last && limit > 0 && sleepers_.load(std::memory_order_relaxed) > 0; ++k)
    if (wake_worker(k)) --limit;
}

bool ThreadTeam::wake_worker(int number) {
  std::atomic<std::uint32_t>& asleep = places_[number].asleep;
  if (asleep.load(std::memory_order_seq_cst) == 0 || asleep.exchange(0) == 0) return false;
  sleepers_.fetch_sub(1);
  wake(asleep);
  return true;
}

void ThreadTeam::help(int number, Region region) {
  // If the count or the helpers belong to a later region, all parts of this region are taken.
  const int helpers = helpers_.load(std::memory_order_relaxed);
  if (number > helpers) return;
  const int parts = count_.load(std::memory_order_relaxed);
  const auto run_open = [&](int part) {
    if (part == 0 || !claim(part, region)) return;
    const BackgroundScope scope(background_);
    run_claimed(part, region);
  };
  run_open(number);
  // Other parts, after its own one. If every part has its own worker, few parts are asked for: all workers asking for
  // all parts would delay the next region. The caller asks for all.
  const bool all = helpers < parts - 1 || parts <= 8;
  for (int k = 1; k < parts; k = all ? k + 1 : 2 * k)
    run_open(number + k < parts ? number + k : number + k - parts);
}

}  // namespace protean::detail
