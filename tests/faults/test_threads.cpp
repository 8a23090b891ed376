// Builds next to the solve with callers in several threads, with signals, and in a child of fork(). Made to be run
// under ThreadSanitizer, too (preset tsan).
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "core/blas1.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/matrix/matrix.hpp"
#include "solvers/auto_switcher.hpp"
#include "solvers/solver.hpp"
#include "support/engines.hpp"
#include "support/multi.hpp"
#include "support/oracle.hpp"
#include "systems/linear_system.hpp"
#include "systems/system_matrix.hpp"
#include "systems/system_solver.hpp"

namespace protean::test {
namespace {

const CsrMatrix<double>& shared_matrix() {
  static const CsrMatrix<double> matrix =
      generate(Context::host(1), "anisotropic-2d", {{"n", 30.0}, {"epsilon_y", 0.01}});
  return matrix;
}
std::vector<double> rhs() { return sample_vector<double>(shared_matrix().rows(), 5); }

double residual(const std::vector<double>& x) { return relative_residual_of(shared_matrix(), rhs(), x); }

template <class Body>
void in_threads(int count, const Body& body) {
  std::vector<std::thread> threads;
  for (int number = 0; number < count; ++number) threads.emplace_back(body, number);
  for (std::thread& thread : threads) thread.join();
}

constexpr double tolerance = 1e-9;

struct Between final : SolveObserver {
  std::function<void(const IterationInfo&)> then;
  explicit Between(std::function<void(const IterationInfo&)> f) : then(std::move(f)) {}
  bool on_iteration(const IterationInfo& info) override {
    then(info);
    return true;
  }
};

// One solve with its own operator, on the shared arrays, with builds that are begun, adopted, cancelled and replaced at
// random iterations. Returns the number of changes.
std::size_t solve_with_builds(int threads, unsigned seed) {
  static const std::vector<const FormatEntry*> formats = one_of_each_engine(Space::host);
  const ContextPtr context = Context::host(threads);
  Matrix<double> A(shared_matrix(), make_matrix(find_format("csr"), shared_matrix(), context));
  std::mt19937 random(seed);
  Between observer([&](const IterationInfo& info) {
    const unsigned draw = random() % 16;
    if (draw < 4) {
      FormatSpec to{.entry = formats[random() % formats.size()]};
      for (const ParamDoc& doc : to.entry->params)
        if (doc.name == "max_fill") to.params.set("max_fill", doc.largest);
      A.prepare(to, "a test", info.iteration);
    }
    if (draw == 4) A.cancel(info.iteration);
    if (draw == 5) (void)A.wait_prepared();
    (void)A.adopt_prepared(info.iteration);
  });
  const std::vector<double> b = rhs();
  std::vector<double> x(b.size(), 0.0);
  const auto n = static_cast<std::int64_t>(b.size());
  const SolveReport report = make_solver<double>("cg", {.stopping = {.relative_tolerance = tolerance}})
                                 ->solve(A, {b.data(), n}, {x.data(), n}, nullptr, &observer);
  EXPECT_TRUE(report.converged()) << to_string(report.reason) << report.detail;
  EXPECT_LE(residual(x), 1.01 * tolerance);
  for (const FailedSwitch& failed : A.failures())
    EXPECT_EQ(failed.failure, SwitchFailure::cancelled) << failed.why;
  return A.history().size();
}

TEST(BuildsBesideSolves, OfOneToEightCallers) {
  std::atomic<std::size_t> changes{0};
  for (int callers = 1; callers <= 8; ++callers)
    in_threads(callers, [&](int number) {
      changes += solve_with_builds(1 + number % 2,
                                   100u * static_cast<unsigned>(callers) + static_cast<unsigned>(number));
    });
  EXPECT_GT(changes, 20u);
}

// The policy with builds next to the solve, each caller with its own system and context on the same arrays.
TEST(BuildsBesideSolves, ByThePolicyOfOneToEightCallers) {
  for (int callers = 1; callers <= 8; ++callers)
    in_threads(callers, [&](int number) {
      SolveSettings settings{.method = number % 2 == 0 ? "cg" : "minres",
                             .solver = {.stopping = {.relative_tolerance = tolerance}},
                             .policy = "auto",
                             .context = Context::host(1 + number % 2),
                             .overlapped = true};
      settings.policy_options.worst_factor = 10;
      LinearSystem<double> system(shared_matrix(), settings);
      const std::vector<double> b = rhs();
      const auto n = static_cast<std::int64_t>(b.size());
      for (int solve = 0; solve < 3; ++solve) {
        std::vector<double> x(b.size(), 0.0);
        EXPECT_TRUE(system.solve({b.data(), n}, {x.data(), n}).converged());
        EXPECT_LE(residual(x), 1.01 * tolerance);
      }
    });
}

// One matrix of several solvers, each in a thread: a policy changes its format only while one of them uses it.
TEST(BuildsBesideSolves, OfOneMatrixThatCallersShare) {
  for (const int callers : {2, 4, 8}) {
    SystemMatrix<double> matrix(Context::host(1), shared_matrix());
    matrix.set_format("csr");
    in_threads(callers, [&](int number) {
      SolveSettings settings{.solver = {.stopping = {.relative_tolerance = tolerance}}, .format = "csr"};
      settings.context = matrix.context();
      SystemSolver<double> solver(settings);
      const std::vector<double> b = rhs();
      const auto n = static_cast<std::int64_t>(b.size());
      for (int solve = 0; solve < 3 + number % 2; ++solve) {
        std::vector<double> x(b.size(), 0.0);
        EXPECT_TRUE(solver.solve(matrix, {b.data(), n}, {x.data(), n}).converged());
        EXPECT_LE(residual(x), 1.01 * tolerance);
      }
    });
  }
}

std::atomic<int> signals{0};
std::atomic<long> other_threads{0};
thread_local bool is_a_caller = false;

// A timer that interrupts the process every 200 microseconds.
class Interrupted {
 public:
  Interrupted() {
    signals = 0, other_threads = 0;
    struct sigaction action {};
    action.sa_handler = [](int) {
      ++signals;
      if (!is_a_caller) ++other_threads;
    };
    sigaction(SIGALRM, &action, &before_);
    const itimerval every{{0, 200}, {0, 200}};
    setitimer(ITIMER_REAL, &every, nullptr);
  }
  ~Interrupted() {
    const itimerval never{};
    setitimer(ITIMER_REAL, &never, nullptr);
    sigaction(SIGALRM, &before_, nullptr);
  }

 private:
  struct sigaction before_ {};
};

// Calls of the system are interrupted (no SA_RESTART), and handlers run in threads of the program alone.
TEST(BuildsBesideSolves, WithSignals) {
  is_a_caller = true;
  std::size_t changes = 0;
  {
    const Interrupted interrupted;
    for (unsigned seed = 0; seed < 20 || signals < 20; ++seed) changes += solve_with_builds(2, seed);
  }
  EXPECT_GT(changes, 0u);
  EXPECT_EQ(other_threads, 0) << "a thread of the library ran a handler of the program";
}

#if !defined(__SANITIZE_THREAD__)  // which allows no threads after fork()

// The maker of a format that waits until it is let go.
std::atomic<bool> held{false}, waits{false};
std::unique_ptr<AssembledMatrix<double>> make_held(const BuildRequest<double>& request) {
  waits = true;
  while (held) usleep(100);
  return make_matrix(find_format("csr"), request.csr, request.context);
}
Admission admit_held(const Context&, const SparsityPattern& pattern, const FormatParams&,
                     std::size_t value_bytes) {
  return Admission::accept(pattern.bytes() + static_cast<std::size_t>(pattern.nonzeros) * value_bytes,
                           pattern.nonzeros);
}
constexpr Kernel held_kernels[] = {{.name = "native", .host = true, .make_f64 = make_held, .ordered = true}};
const FormatEntry held_format{.family = "test",
                              .id = "held",
                              .title = "for tests",
                              .source = "",
                              .traits = {},
                              .params = {},
                              .kernels = held_kernels,
                              .admit = admit_held};

// A child is made in the middle of a solve while a build runs. Both go on to the end.
void fork_in_a_solve(const std::function<int(Matrix<double>&, std::int64_t)>& child_does) {
  held = true, waits = false;
  Matrix<double> A(shared_matrix(), make_matrix(find_format("csr"), shared_matrix(), Context::host(2)));
  pid_t child = -1;
  int complaint = 0;
  Between observer([&](const IterationInfo& info) {
    if (info.iteration == 3) {
      A.prepare({.entry = &held_format}, "a test", info.iteration);
      while (!waits) usleep(100);
      fflush(nullptr);
      child = fork();
      if (child == 0) {
        alarm(60);
        complaint = child_does(A, info.iteration);
      } else {
        held = false;
      }
    }
    if (child > 0 && info.iteration == 6) {
      EXPECT_EQ(A.wait_prepared(), Preparation::ready);
      EXPECT_TRUE(A.adopt_prepared(info.iteration));
    }
  });
  const std::vector<double> b = rhs();
  std::vector<double> x(b.size(), 0.0);
  const auto n = static_cast<std::int64_t>(b.size());
  const SolveReport report = make_solver<double>("cg", {.stopping = {.relative_tolerance = tolerance}})
                                 ->solve(A, {b.data(), n}, {x.data(), n}, nullptr, &observer);
  if (child == 0) {
    if (complaint == 0 && !(report.converged() && residual(x) <= 1.01 * tolerance)) complaint = 20;
    // What a program does at its end, too.
    {
      const Matrix<double> moved_away(shared_matrix(),
                                      make_matrix(find_format("csr"), shared_matrix(), Context::host(1)));
    }
    _exit(complaint);
  }
  EXPECT_TRUE(report.converged());
  EXPECT_EQ(A.history().size(), 1u);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(BuildsBesideSolves, AChildOfForkIsToldThatTheBuildIsInItsParent) {
  fork_in_a_solve([](Matrix<double>& A, std::int64_t iteration) {
    if (A.preparation() != Preparation::failed) return 1;
    if (A.wait_prepared() != Preparation::failed) return 2;
    if (A.adopt_prepared(iteration)) return 3;
    if (A.failures().size() != 1) return 4;
    if (A.failures()[0].why.find("the process was forked") == std::string::npos) return 5;
    // It can build, both ways.
    if (!A.switch_to({.entry = &find_format("ell"), .params = {}}, iteration)) return 6;
    A.prepare({.entry = &find_format("csr")}, "", iteration);
    if (A.wait_prepared() != Preparation::ready || !A.adopt_prepared(iteration)) return 7;
    return 0;
  });
}

TEST(BuildsBesideSolves, AChildOfForkMayCancelTheBuildOfItsParent) {
  fork_in_a_solve([](Matrix<double>& A, std::int64_t iteration) {
    A.cancel(iteration);
    if (A.abandoned()) return 1;
    if (A.failures().size() != 1) return 2;
    A.prepare({.entry = &find_format("ell")}, "", iteration);
    return A.wait_prepared() == Preparation::ready && A.adopt_prepared(iteration) ? 0 : 3;
  });
}

// The child ends the operator without having asked for the build.
TEST(BuildsBesideSolves, AChildOfForkEndsAnOperatorOfItsParent) {
  held = true, waits = false;
  auto A = std::make_unique<Matrix<double>>(
      shared_matrix(), make_matrix(find_format("csr"), shared_matrix(), Context::host(2)));
  for (const bool cancelled : {false, true}) {
    A->prepare({.entry = &held_format});
    while (!waits) usleep(100);
    if (cancelled) A->cancel();
    fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      A.reset();
      _exit(0);
    }
    held = false;
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << "the child waits for a thread of its parent";
    (void)A->wait_prepared();
    (void)A->adopt_prepared(0);
    held = true, waits = false;
  }
  held = false;
}

#endif

}  // namespace
}  // namespace protean::test
