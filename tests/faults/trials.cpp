#include "faults/trials.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <new>
#include <string_view>

#include "core/allocation_hook.hpp"
#include "core/buffer.hpp"
#include "core/error.hpp"
#include "formats/count_new.hpp"
#include "gtest/gtest.h"

namespace protean::test {
namespace {

constexpr const char* buffer_message = "the test let this buffer fail";
std::atomic<std::int64_t> buffers_seen{0}, buffer_fails_at{0};

// The n-th allocation fails while it lives.
class Armed {
 public:
  Armed(Allocations allocations, std::int64_t n) : news_(allocations == Allocations::news), n_(n) {
    if (news_) {
      fail_new(n);
    } else {
      buffers_seen = 0, buffer_fails_at = n;
      detail::allocation_hook = [](Space, std::size_t bytes) {
        if (++buffers_seen == buffer_fails_at) throw OutOfMemory(buffer_message, bytes);
      };
    }
  }
  ~Armed() { (void)disarm(); }
  Armed(const Armed&) = delete;
  Armed& operator=(const Armed&) = delete;
  // Nothing fails any more. Whether it has failed.
  bool disarm() {
    fired_ = fired_ || (news_ ? new_has_failed() : buffers_seen >= n_);
    if (news_)
      fail_new(0);
    else
      detail::allocation_hook = nullptr;
    return fired_;
  }

 private:
  const bool news_;
  const std::int64_t n_;
  bool fired_ = false;
};

struct Held {
  std::size_t host = 0, context = 0;
  std::int64_t news = 0;
  bool operator==(const Held&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Held& held) {
  return out << held.host << " bytes of the host, " << held.context << " of the context, " << held.news
             << " blocks of operator new";
}
Held held(const Context& context) { return {allocated_bytes(), allocated_bytes(context), live_news()}; }

testing::AssertionResult same(const std::vector<double>& got, const std::vector<double>& wanted,
                              double tolerance) {
  if (got.size() != wanted.size())
    return testing::AssertionFailure() << got.size() << " numbers instead of " << wanted.size();
  double largest = 0;
  for (const double value : wanted) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!(std::abs(got[i] - wanted[i]) <= tolerance * largest))
      return testing::AssertionFailure() << "number " << i << " is " << got[i] << " instead of " << wanted[i];
  return testing::AssertionSuccess();
}

// One trial. Returns whether the allocation failed.
bool fail_one(const Scenario& scenario, Allocations allocations, std::int64_t n,
              const std::vector<double>& answer) {
  bool fired = false;
  const Trial trial = scenario.make();
  std::string wrong;
  {
    Armed armed(allocations, n);
    try {
      trial.call();
      fired = armed.disarm();
    } catch (const OutOfMemory& error) {
      fired = armed.disarm();
      if (std::string_view(error.what()).empty()) wrong = "OutOfMemory has no text";
    } catch (const std::bad_alloc&) { fired = armed.disarm(); } catch (const std::exception& error) {
      fired = armed.disarm();
      wrong = std::string("the exception is ") + error.what();
    } catch (...) {
      fired = armed.disarm();
      wrong = "the exception is of an unknown type";
    }
  }
  EXPECT_TRUE(fired || wrong.empty()) << "nothing failed, but " << wrong;
  EXPECT_EQ(wrong, "");
  try {
    EXPECT_TRUE(same(trial.again(), answer, scenario.tolerance)) << "afterwards";
  } catch (const std::exception& error) {
    ADD_FAILURE() << "the object cannot be used afterwards: " << error.what();
  }
  return fired;
}

bool all_are_wanted() {
  const char* const wanted = std::getenv("PROTEAN_FAULTS");
  return wanted && std::string_view(wanted) == "all";
}

}  // namespace

std::int64_t fail_each(const Scenario& scenario, Allocations allocations) {
  std::vector<double> answer;
  // Twice: what the library keeps for the process is there afterwards.
  for (int round = 0; round < 2; ++round) {
    const Trial trial = scenario.make();
    trial.call();
    answer = trial.again();
  }
  const bool every = allocations == Allocations::buffers || all_are_wanted();
  std::int64_t failed = 0;
  const auto complaints = [] {
    return testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count();
  };
  const int before_this = complaints();
  for (std::int64_t n = 1;; n = every || n < 40 ? n + 1 : n + n / 20) {
    SCOPED_TRACE(testing::Message() << scenario.name << ": "
                                    << (allocations == Allocations::news ? "operator new" : "buffer")
                                    << " number " << n << " fails");
    Held before = held(*scenario.context);
    if (!fail_one(scenario, allocations, n, answer)) return failed;
    ++failed;
    // What a failure makes the process keep once is no leak. What is lost each time is one.
    if (!(held(*scenario.context) == before)) {
      before = held(*scenario.context);
      if (!fail_one(scenario, allocations, n, answer)) return failed;
      EXPECT_EQ(held(*scenario.context), before) << "memory is not given back";
    }
    if (complaints() > before_this) return failed;
  }
}

}  // namespace protean::test
