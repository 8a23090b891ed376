#include "faults/trials.hpp"

#include <fmt/format.h>

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

bool is_about_memory(const std::exception& error) {
  return dynamic_cast<const OutOfMemory*>(&error) || dynamic_cast<const std::bad_alloc*>(&error);
}

class Buffers final : public Faults {
 public:
  const char* name() const override { return "buffer"; }
  void arm(std::int64_t n) override {
    seen_ = 0, fails_at_ = n;
    detail::allocation_hook = [](Space, std::size_t bytes) {
      if (++seen_ == fails_at_) throw OutOfMemory("the test let this buffer fail", bytes);
    };
  }
  bool disarm() override {
    detail::allocation_hook = nullptr;
    return seen_ >= fails_at_;
  }
  bool names(const std::exception& error) const override { return is_about_memory(error); }
  bool every() const override { return true; }

 private:
  static inline std::atomic<std::int64_t> seen_{0}, fails_at_{0};
};

class News final : public Faults {
 public:
  const char* name() const override { return "operator new"; }
  void arm(std::int64_t n) override { fail_new(n); }
  bool disarm() override {
    const bool fired = new_has_failed();
    fail_new(0);
    return fired;
  }
  bool names(const std::exception& error) const override { return is_about_memory(error); }
  bool every() const override { return false; }
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

// One trial. Returns whether something failed in it.
bool fail_one(const Scenario& scenario, Faults& faults, std::int64_t n, const std::vector<double>& answer) {
  bool fired = false;
  const Trial trial = scenario.make();
  std::string wrong;
  faults.arm(n);
  try {
    trial.call();
    fired = faults.disarm();
  } catch (const std::exception& error) {
    fired = faults.disarm();
    if (!faults.names(error)) wrong = fmt::format("the exception is {}", error.what());
    if (std::string_view(error.what()).empty()) wrong = "the exception has no text";
  } catch (...) {
    fired = faults.disarm();
    wrong = "the exception is of an unknown type";
  }
  EXPECT_EQ(wrong, "") << (fired ? "" : "(nothing has failed)");
  try {
    EXPECT_EQ(difference(scenario, trial.again(), answer), "") << "afterwards";
  } catch (const std::exception& error) {
    ADD_FAILURE() << "the object cannot be used afterwards: " << error.what();
  }
  return fired;
}

}  // namespace

Faults& failing_buffers() {
  static Buffers buffers;
  return buffers;
}
Faults& failing_news() {
  static News news;
  return news;
}

bool all_faults_are_wanted() {
  const char* const wanted = std::getenv("PROTEAN_FAULTS");
  return wanted && std::string_view(wanted) == "all";
}

std::string difference(const Scenario& scenario, const std::vector<double>& got,
                       const std::vector<double>& wanted) {
  if (got.size() != wanted.size()) return fmt::format("{} numbers instead of {}", got.size(), wanted.size());
  double largest = 0;
  for (const double value : wanted) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!(std::abs(got[i] - wanted[i]) <= scenario.tolerance * largest))
      return fmt::format("number {} is {} instead of {}", i, got[i], wanted[i]);
  return {};
}

std::int64_t fail_each(const Scenario& scenario, Faults& faults) {
  std::vector<double> answer;
  // Twice: what the library keeps for the process is there afterwards.
  for (int round = 0; round < 2; ++round) {
    const Trial trial = scenario.make();
    trial.call();
    answer = trial.again();
  }
  const auto complaints = [] {
    return testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count();
  };
  const bool every = faults.every() || all_faults_are_wanted();
  const int before_this = complaints();
  std::int64_t failed = 0;
  for (std::int64_t n = 1;; n = every || n < 40 ? n + 1 : n + n / 20) {
    SCOPED_TRACE(fmt::format("{}: {} number {} fails", scenario.name, faults.name(), n));
    Held before = held(*scenario.context);
    if (!fail_one(scenario, faults, n, answer)) return failed;
    ++failed;
    // What a failure makes the process keep once is no leak. What is lost each time is one.
    if (!(held(*scenario.context) == before)) {
      before = held(*scenario.context);
      if (!fail_one(scenario, faults, n, answer)) return failed;
      EXPECT_EQ(held(*scenario.context), before) << "memory is not given back";
    }
    if (complaints() > before_this) return failed;
  }
}

}  // namespace protean::test
