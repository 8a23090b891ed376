// Each allocation of a whole solve is made to fail, one in each run. The solve must throw OutOfMemory and
// free all its memory, and the next solve of the same problem must give the same answer as without a failure.
#include <atomic>

#include "core/allocation_hook.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"
#include "support/fake_device.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

// Makes the n-th allocation from now on fail; n = 0 only counts them.
class FailingAllocation {
 public:
  explicit FailingAllocation(std::int64_t n) {
    seen_ = 0, fails_at_ = n;
    detail::allocation_hook = [](Space, std::size_t bytes) {
      if (++seen_ == fails_at_) throw OutOfMemory("the test's allocation failed", bytes);
    };
  }
  ~FailingAllocation() { detail::allocation_hook = nullptr; }
  static std::int64_t seen() { return seen_; }

 private:
  static inline std::atomic<std::int64_t> seen_{0}, fails_at_{0};
};

struct Case {
  const char* label;
  const char* space;
  const char* method;
  const char* format;
};

class AllocationFaults : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const std::string_view space = GetParam().space;
    context_ = space == "host"   ? test_context()
               : space == "fake" ? fake_device_context()
                                 : test_context(Space::device);
    if (!context_) GTEST_SKIP() << no_device;
    csr_ = generate(test_context(), "poisson-2d", {{"n", 15}});
  }
  const FormatEntry& format() const {
    return std::string_view(GetParam().space) == "fake" ? fake_format(GetParam().format)
                                                        : find_format(GetParam().format);
  }

  // Makes and solves the system; returns the answer in host memory. Uses the solver `kept`, or a new one.
  std::vector<double> whole(Solver<double>* kept = nullptr) {
    const auto A = make_matrix(format(), placed(context_, csr_), context_, most_tolerant(format()));
    const auto M = make_preconditioner<double>("jacobi", *A);
    M->ensure(*A);
    Vector<double> b(context_, csr_.rows()), x(context_, csr_.rows());
    fill<double>(*context_, 1.0, b), fill<double>(*context_, 0.0, x);
    std::unique_ptr<Solver<double>> fresh;
    if (!kept) fresh = make_solver<double>(GetParam().method);
    const SolveReport report = (kept ? kept : fresh.get())->solve(*A, b, x, M.get());
    EXPECT_TRUE(report.converged()) << report.detail;
    std::vector<double> answer(static_cast<std::size_t>(csr_.rows()));
    copy<double>(*context_, x, {answer.data(), csr_.rows()});
    return answer;
  }

  // Compares bit by bit if the kernel adds in a fixed order.
  void expect_same(const std::vector<double>& x, const std::vector<double>& answer) const {
    if (kernels_in(format(), context_->space()).front().deterministic) {
      EXPECT_EQ(x, answer);
    } else {
      for (std::size_t i = 0; i < answer.size(); ++i) ASSERT_NEAR(x[i], answer[i], 1e-7 * answer[i]);
    }
  }

  // Runs `body` again and again; run n has its n-th allocation fail. Ends with the first run that has fewer
  // allocations. Returns how many runs failed.
  template <class Body>
  std::int64_t each_allocation(const Body& body) {
    const std::size_t host_before = allocated_bytes(), before = allocated_bytes(*context_);
    for (std::int64_t n = 1;; ++n) {
      bool passed = false;
      {
        const FailingAllocation failing(n);
        try {
          body();
          passed = true;
        } catch (const OutOfMemory& error) {
          EXPECT_NE(std::string(error.what()).find("the test's allocation"), std::string::npos)
              << error.what();
        } catch (const std::exception& error) {
          ADD_FAILURE() << "allocation " << n << " failed, and the exception is " << error.what();
        }
      }
      if (passed) return n - 1;
      EXPECT_EQ(allocated_bytes(), host_before)
          << "host memory is not freed after allocation " << n << " failed";
      EXPECT_EQ(allocated_bytes(*context_), before)
          << "memory is not freed after allocation " << n << " failed";
      if (testing::Test::HasFailure() || n > 1000) return n;
    }
  }

  ContextPtr context_;
  CsrMatrix<double> csr_;
};

TEST_P(AllocationFaults, OfAWholeSolve) {
  const std::vector<double> answer = whole();
  std::vector<double> last;
  const std::int64_t failed = each_allocation([&] { last = whole(); });
  EXPECT_GT(failed, 5);
  expect_same(last, answer);
  expect_same(whole(), answer);
}

// One solver is used through all failures. Its workspace is never incomplete.
TEST_P(AllocationFaults, OfASolverThatIsUsedAgain) {
  const std::vector<double> answer = whole();
  std::int64_t failed = 0;
  for (std::int64_t n = 1; n < 1000; ++n) {
    const auto solver = make_solver<double>(GetParam().method);
    bool passed = false;
    {
      const FailingAllocation failing(n);
      try {
        expect_same(whole(solver.get()), answer);
        passed = true;
      } catch (const OutOfMemory&) { ++failed; }
    }
    SCOPED_TRACE("after allocation " + std::to_string(n) + " failed");
    expect_same(whole(solver.get()), answer);
    if (passed || HasFailure()) break;
  }
  EXPECT_GT(failed, 5);
}

// A second solve with the same operator allocates nothing.
TEST_P(AllocationFaults, NoneInASecondSolve) {
  const auto A = make_matrix(format(), placed(context_, csr_), context_, most_tolerant(format()));
  const auto M = make_preconditioner<double>("jacobi", *A);
  M->ensure(*A);
  Vector<double> b(context_, csr_.rows()), x(context_, csr_.rows());
  fill<double>(*context_, 1.0, b);
  const auto solver = make_solver<double>(GetParam().method);
  for (int round = 0; round < 3; ++round) {
    fill<double>(*context_, 0.0, x);
    const FailingAllocation counting(0);
    EXPECT_TRUE(solver->solve(*A, b, x, M.get()).converged());
    if (round > 0)
      EXPECT_EQ(FailingAllocation::seen(), 0);
    else
      EXPECT_GT(FailingAllocation::seen(), 0);
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* space : {"host", "fake", "device"}) {
    for (const FormatEntry* entry : layouts())
      if (space != std::string_view("host") || !entry->kernels.empty())
        all.push_back({"", space, "cg", entry->id.data()});
    for (const SolverEntry& entry : solvers())
      if (entry.id != "cg") all.push_back({"", space, entry.id.data(), "csr"});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, AllocationFaults, testing::ValuesIn(cases()), [](const auto& instance) {
  std::string name =
      std::string(instance.param.space) + "_" + instance.param.method + "_" + instance.param.format;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
});

}  // namespace
}  // namespace protean::test
