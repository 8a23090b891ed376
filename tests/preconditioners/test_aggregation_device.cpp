// Multigrid on a device: its cycle equals the cycle of the host, kept objects are like new ones, and a setup that fails
// changes nothing. On a simulated device, and on a GPU if there is one.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/allocation_hook.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/matrix/matrix.hpp"
#include "operators/multi_product.hpp"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/systems.hpp"
#include "support/fake_device.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

enum class Where { simulated, gpu };

class AggregationOnDevice : public testing::TestWithParam<Where> {
 protected:
  void SetUp() override {
    if (gpu() && !test_context(Space::device)) GTEST_SKIP() << no_device;
    context_ = gpu() ? test_context(Space::device) : fake_device_context();
  }
  static bool gpu() { return GetParam() == Where::gpu; }
  static const FormatEntry& format(std::string_view id) { return gpu() ? find_format(id) : fake_format(id); }
  template <class T>
  std::unique_ptr<AssembledMatrix<T>> matrix(const CsrMatrix<T>& csr, std::string_view id = "csr") const {
    return make_matrix(format(id), upload(context_, csr), context_);
  }
  template <class T>
  std::vector<T> apply(const Preconditioner<T>& M, const std::vector<T>& r) const {
    const Placed<T> x(context_, r);
    Placed<T> z(context_, std::vector<T>(r.size(), std::numeric_limits<T>::quiet_NaN()));
    M.apply(x.read(), z.view());
    return z.fetch();
  }
  ContextPtr context_;
};
INSTANTIATE_TEST_SUITE_P(Spaces, AggregationOnDevice, testing::Values(Where::simulated, Where::gpu),
                         [](const auto& instance) {
                           return std::string(instance.param == Where::simulated ? "simulated" : "gpu");
                         });

CsrMatrix<double> generated(const char* kind, double n) { return generate(test_context(), kind, {{"n", n}}); }

// Couplings between the points of an m x m grid: conductivity(i) + conductivity(j), and as much on the diagonal, so
// that constants are mapped to zero. `more` is added to the first diagonal entry.
template <class Conductivity>
CsrMatrix<double> grid(std::int64_t m, double more, Conductivity conductivity) {
  std::vector<Triplet<double>> entries = {{0, 0, more}};
  const auto couple = [&](std::int64_t i, std::int64_t j) {
    const auto a = static_cast<std::int32_t>(i), b = static_cast<std::int32_t>(j);
    const double w = conductivity(i) + conductivity(j);
    entries.insert(entries.end(), {{a, a, w}, {b, b, w}, {a, b, -w}, {b, a, -w}});
  };
  for (std::int64_t y = 0; y < m; ++y)
    for (std::int64_t x = 0; x < m; ++x) {
      if (x + 1 < m) couple(y * m + x, y * m + x + 1);
      if (y + 1 < m) couple(y * m + x, (y + 1) * m + x);
    }
  return csr_from_triplets<double>(test_context(), m * m, m * m, entries);
}

struct Named {
  std::string name;
  CsrMatrix<double> csr;
};
std::vector<Named> matrices() {
  std::vector<Named> all;
  for (const std::int64_t n : {1, 2, 256, 257, 1000})
    all.push_back({"1-D, " + std::to_string(n), sparse(poisson_1d(n))});
  all.push_back({"2-D", generated("poisson-2d", 60)});
  all.push_back({"3-D", generated("poisson-3d", 14)});
  all.push_back(
      {"anisotropic", generate(test_context(), "anisotropic-2d", {{"n", 40}, {"epsilon_y", 0.01}})});
  all.push_back({"elasticity", generated("elasticity-3d", 6)});
  all.push_back({"jumps", grid(40, 1, [](std::int64_t i) { return i / 40 % 8 < 4 ? 1.0 : 1e6; })});
  all.push_back({"free", grid(30, 0, [](std::int64_t) { return 1.0; })});
  std::vector<Triplet<double>> parts, diagonal;
  for (std::int32_t k = 0; k < 300; ++k) {  // pairs, and rows alone
    const std::int32_t i = 3 * k;
    parts.insert(parts.end(),
                 {{i, i, 2}, {i, i + 1, -1}, {i + 1, i, -1}, {i + 1, i + 1, 2}, {i + 2, i + 2, 5}});
    diagonal.push_back({k, k, k % 2 ? 3.0 + k : -2.0 - k});
  }
  all.push_back({"disconnected", csr_from_triplets<double>(test_context(), 900, 900, parts)});
  all.push_back({"diagonal", csr_from_triplets<double>(test_context(), 300, 300, diagonal)});
  all.push_back({"empty", csr_from_triplets<double>(test_context(), 0, 0, std::vector<Triplet<double>>{})});
  return all;
}

// |a - b| of each entry is at most `tolerance` times the largest |b|.
template <class T>
void expect_near(const std::vector<T>& a, const std::vector<T>& b, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_TRUE(std::isfinite(a[i])) << what << ' ' << i;
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
    difference = std::max(difference, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  EXPECT_LE(difference, tolerance * largest) << what;
}

std::vector<Smoother> smoothers_for(const std::string& name) {
  if (name == "diagonal") return {Smoother::l1_jacobi, Smoother::gauss_seidel};  // it is indefinite
  return {std::begin(smoothers), std::end(smoothers)};
}

TEST_P(AggregationOnDevice, TheCycleIsThatOfTheHost) {
  for (const auto& [name, csr] : matrices())
    for (const Smoother smoother : smoothers_for(name))
      for (const LevelFormat levels : level_formats) {
        const std::string what =
            name + ", " + std::string(to_string(smoother)) + ", " + std::string(to_string(levels));
        const PreconditionerOptions options{
            .smoother = smoother, .level_format = levels, .cycles = levels == LevelFormat::csr ? 2 : 1};
        // Of one sign, so that results are not small compared with their terms.
        std::vector<double> r = right_hand_side<double>(csr.rows());
        for (double& value : r) value = std::abs(value);
        const auto A = assembled(csr);
        const auto M = ready<double>("amg", *A, options);
        const auto A_there = matrix(csr);
        const auto M_there = ready<double>("amg", *A_there, options);
        EXPECT_EQ(figure(*M_there, "levels"), figure(*M, "levels")) << what;
        EXPECT_EQ(figure(*M_there, "operator_complexity"), figure(*M, "operator_complexity")) << what;
        // The bound of chebyshev follows from products of a device. A GPU makes the levels with fused multiply-adds,
        // and sums of several lanes: what rounding changes grows with the condition of the coarsest level.
        const double tolerance = gpu() ? 1e-9 : smoother == Smoother::chebyshev ? 1e-10 : 1e-12;
        expect_near(apply(*M_there, r), applied(*M, r), tolerance, what);
        const std::vector<double> once = apply(*M_there, r);
        EXPECT_EQ(apply(*M_there, r), once) << what << ": the second application has other bits";

        const CsrMatrix<float> narrow = convert_values<float>(test_context(), csr);
        const std::vector<float> s(r.begin(), r.end());
        std::vector<float> z(s.size());
        const auto B = assembled(narrow);
        const auto N = ready<float>("amg", *B, options);
        N->apply(view(s), view(z));
        const auto B_there = matrix(narrow);
        expect_near(apply(*ready<float>("amg", *B_there, options), s), z, gpu() ? 4e-4 : 2e-4,
                    what + ", float");
      }
}

TEST_P(AggregationOnDevice, GivenVectorsAreUsed) {
  const std::int64_t n = 8, m = n + 1;
  const CsrMatrix<double> csr = generated("elasticity-3d", static_cast<double>(n));
  MultiVector<double> coordinates(test_context(), n * m * m, 3);
  for (std::int64_t node = 0; node < n * m * m; ++node) {
    coordinates.view()(node, 0) = static_cast<double>(node % n + 1) / static_cast<double>(n);
    coordinates.view()(node, 1) = static_cast<double>(node / n % m) / static_cast<double>(n);
    coordinates.view()(node, 2) = static_cast<double>(node / n / m) / static_cast<double>(n);
  }
  const MultiVector<double> modes = rigid_body_modes(test_context(), coordinates);
  const auto A = assembled(csr), A_there = matrix(csr);
  const auto M = make_amg<double>(*A, modes, {.unknowns = 3}),
             M_there = make_amg<double>(*A_there, modes, {.unknowns = 3});
  M->ensure(*A), M_there->ensure(*A_there);
  const std::vector<double> r = right_hand_side<double>(csr.rows());
  expect_near(apply(*M_there, r), applied(*M, r), gpu() ? 1e-9 : 1e-12, "rigid body modes");
  const auto constants = ready<double>("amg", *A_there, {.unknowns = 3});
  const std::vector<double> other = apply(*constants, r);
  EXPECT_NE(apply(*M_there, r), other);
  // With these modes it takes fewer iterations.
  const auto solve = [&](const Preconditioner<double>& by) {
    const Placed<double> b(context_, r);
    Placed<double> x(context_, std::vector<double>(r.size(), 0.0));
    const SolveReport report = make_solver<double>("cg")->solve(*A_there, b.read(), x.view(), &by);
    EXPECT_TRUE(report.converged()) << report.detail;
    return report.iterations;
  };
  EXPECT_LT(solve(*M_there), solve(*constants));
}

// The values of csr, each times a factor near 1. `weak`: the values of neighbours in the numbering times 1e-3, so that
// couplings go.
CsrMatrix<double> varied(const CsrMatrix<double>& csr, unsigned seed, bool weak) {
  CsrMatrix<double> made = deep_copy(test_context(), csr);
  auto* const values = const_cast<double*>(made.values);
  const auto factor = [&](std::int64_t i) {
    return 1 + 0.02 * static_cast<double>((static_cast<unsigned>(i) * 2654435761U + seed) % 11);
  };
  for (std::int64_t i = 0; i < csr.rows(); ++i)
    for (std::int64_t p = csr.pattern.row_ptr[i]; p < csr.pattern.row_ptr[i + 1]; ++p) {
      const std::int64_t j = csr.pattern.col[p];
      values[p] *= factor(i) * factor(j);
      if (weak && std::abs(i - j) == 1) values[p] *= 1e-3;
    }
  return made;
}

// New values, values that change the couplings, other patterns, formats and orders, in a random sequence: a kept M is
// as a new one.
TEST_P(AggregationOnDevice, AKeptOneIsAsANewOne) {
  std::mt19937 random(5);
  const std::vector<CsrMatrix<double>> patterns = {generated("poisson-2d", 40), generated("poisson-3d", 12),
                                                   sparse(poisson_1d(1728))};
  struct Case {
    Smoother smoother;
    LevelFormat levels;
    std::int64_t unknowns;
  };
  std::vector<Case> cases;
  for (const Smoother smoother : smoothers)
    for (const LevelFormat levels : level_formats) cases.push_back({smoother, levels, 1});
  // With several unknowns a node the norms of blocks count.
  for (const LevelFormat levels : level_formats) cases.push_back({Smoother::l1_jacobi, levels, 3});
  for (const auto& [smoother, levels, unknowns] : cases) {
    const PreconditionerOptions options{.smoother = smoother, .level_format = levels, .unknowns = unknowns};
    std::vector<std::unique_ptr<Matrix<double>>> operators;
    for (const CsrMatrix<double>& csr : {patterns[1], patterns[2]}) {
      const CsrMatrix<double> there = upload(context_, csr);
      operators.push_back(
          std::make_unique<Matrix<double>>(there, make_matrix(format("csr"), there, context_)));
    }
    const auto M = make_preconditioner<double>("amg", *operators[0], options);
    std::size_t which = 0;
    int kept = 0;
    for (int step = 0; step < 16; ++step) {
      const auto action = random() % 6;
      if (action == 0) which = 1 - which;
      Matrix<double>& A = *operators[which];
      if (action == 1) {
        EXPECT_TRUE(A.switch_to({.entry = &format(random() % 2 ? "sell-c-sigma" : "csr")}, step));
      }
      if (action == 2) {
        FormatSpec order;
        order.order = random() % 2 ? "rcm" : "none";
        if (order.order != A.order_id()) { EXPECT_TRUE(A.switch_to(order, step)); }
      }
      if (action >= 3) {
        A.update_values(upload(context_, varied(patterns[which + 1], random() % 1000, action == 5)));
        ++kept;
      }
      M->ensure(A);
      const std::vector<double> r = right_hand_side<double>(A.rows());
      const std::vector<double> z = apply(*M, r), fresh = apply(*ready<double>("amg", A, options), r);
      const std::string what = std::string(to_string(smoother)) + ", step " + std::to_string(step);
      // The bound of chebyshev follows from products in the format in which M was set up.
      if (gpu() || smoother == Smoother::chebyshev)
        expect_near(z, fresh, 1e-10, what);
      else
        EXPECT_EQ(z, fresh) << what;
    }
    EXPECT_GT(kept, 3);
  }
}

// Steps that a solver has recorded compute with the new values, and are recorded again if arrays have moved.
TEST_P(AggregationOnDevice, SolvesAfterNewValues) {
  const CsrMatrix<double> csr = generated("poisson-3d", 14);
  for (const Smoother smoother : smoothers) {
    const auto A = matrix(csr);
    const auto M = ready<double>("amg", *A, {.smoother = smoother});
    EXPECT_TRUE(M->recording().allowed);
    EXPECT_TRUE(M->recording().heeds_stop);
    const auto solver = make_solver<double>(
        "cg", {.stopping = {.relative_tolerance = 1e-9}, .device_steps = gpu() ? "graph" : "auto"});
    const std::vector<double> r = right_hand_side<double>(csr.rows());
    const Placed<double> b(context_, r);
    Placed<double> x(context_, std::vector<double>(r.size(), 0.0));
    for (unsigned round = 0; round < 4; ++round) {
      const CsrMatrix<double> next = varied(csr, round, round == 2);
      const std::uint64_t version = M->recording().version;
      A->update_values(upload(context_, next)), M->ensure(*A);
      EXPECT_NE(M->recording().version, version);
      fill<double>(*context_, 0.0, x.view());
      const SolveReport kept = solver->solve(*A, b.read(), x.view(), M.get());
      const auto B = matrix(next);
      fill<double>(*context_, 0.0, x.view());
      const SolveReport fresh =
          make_solver<double>("cg", {.stopping = {.relative_tolerance = 1e-9}})
              ->solve(*B, b.read(), x.view(), ready<double>("amg", *B, {.smoother = smoother}).get());
      EXPECT_TRUE(kept.converged() && fresh.converged()) << kept.detail << fresh.detail;
      EXPECT_LE(std::abs(kept.iterations - fresh.iterations), 1) << round;
      EXPECT_LE(kept.iterations, 40);
      if (gpu()) { EXPECT_EQ(kept.steps, "graph"); }
    }
  }
}

TEST_P(AggregationOnDevice, SingularMatrices) {
  const CsrMatrix<double> csr =
      grid(40, 0, [](std::int64_t i) { return 0.1 + 0.01 * static_cast<double>(i % 17); });
  std::vector<double> r(static_cast<std::size_t>(csr.rows()));
  r.front() = 1, r.back() = -1;
  const auto A = matrix(csr);
  for (const Smoother smoother : smoothers) {
    const auto M = ready<double>("amg", *A, {.smoother = smoother});
    const Placed<double> b(context_, r);
    Placed<double> x(context_, std::vector<double>(r.size(), 0.0));
    SolverOptions options;
    options.null_space = "constant", options.stopping.max_iterations = 60;
    const SolveReport report = make_solver<double>("cg", options)->solve(*A, b.read(), x.view(), M.get());
    EXPECT_TRUE(report.converged()) << to_string(smoother) << ' ' << report.detail;
  }
}

TEST_P(AggregationOnDevice, SeveralColumns) {
  const CsrMatrix<double> csr = generated("poisson-2d", 40);
  const auto A = matrix(csr);
  const auto M = ready<double>("amg", *A);
  const std::int64_t n = csr.rows();
  for (const VectorLayout layout : {VectorLayout::columns, VectorLayout::interleaved}) {
    MultiVector<double> R(context_, n, 3, layout), Z(context_, n, 3, layout);
    std::vector<double> all(static_cast<std::size_t>(3 * n)), got(all.size());
    std::vector<std::vector<double>> expected;
    for (std::int64_t j = 0; j < 3; ++j) {
      std::vector<double> r = right_hand_side<double>(n);
      for (std::int64_t i = 0; i < n; ++i) {
        r[i] *= static_cast<double>(i % 5 + j);
        all[layout == VectorLayout::columns ? j * n + i : 3 * i + j] = r[i];
      }
      expected.push_back(apply(*M, r));
    }
    copy<double>(*context_, {all.data(), 3 * n}, VectorView<double>{R.view().data, 3 * n, Space::device});
    multi_apply<double>(*M, R.view(), Z.view());
    copy<double>(*context_, VectorView<const double>{Z.view().data, 3 * n, Space::device},
                 {got.data(), 3 * n});
    for (std::int64_t j = 0; j < 3; ++j)
      for (std::int64_t i = 0; i < n; ++i)
        ASSERT_EQ(got[layout == VectorLayout::columns ? j * n + i : 3 * i + j], expected[j][i])
            << i << ' ' << j;
  }
}

class FailingAllocation {
 public:
  explicit FailingAllocation(std::int64_t n) {
    left_ = n;
    detail::allocation_hook = [](Space, std::size_t bytes) {
      if (--left_ == 0) throw OutOfMemory("the test's allocation failed", bytes);
    };
  }
  ~FailingAllocation() { detail::allocation_hook = nullptr; }
  static bool failed() { return left_ <= 0; }

 private:
  static inline std::atomic<std::int64_t> left_{0};
};

// Each allocation of a setup for new values fails once: M is as it was, and the next setup as any other.
TEST_P(AggregationOnDevice, AFailedSetupKeepsTheOldOne) {
  const CsrMatrix<double> csr = generated("poisson-2d", 30);
  const CsrMatrix<double> next = varied(csr, 3, false), coupled = varied(csr, 3, true);
  const std::vector<double> r = right_hand_side<double>(csr.rows());
  // On a GPU new values of some formats take memory in the last step of a setup, whose failure leaves M unusable.
  const LevelFormat levels = gpu() ? LevelFormat::csr : LevelFormat::automatic;
  for (const Smoother smoother : {Smoother::l1_jacobi, Smoother::chebyshev})
    for (const CsrMatrix<double>* values : {&next, &coupled}) {
      const PreconditionerOptions options{.smoother = smoother, .level_format = levels};
      const auto A = matrix(csr);
      const auto M = ready<double>("amg", *A, options);
      const std::vector<double> z = apply(*M, r);
      std::int64_t failures = 0;
      for (std::int64_t n = 1;; n += gpu() ? 7 : 1) {
        A->update_values(upload(context_, *values));
        bool threw = false;
        {
          const FailingAllocation failing(n);
          try {
            M->ensure(*A);
          } catch (const OutOfMemory&) { threw = true; }
          if (!failing.failed()) break;
        }
        EXPECT_TRUE(threw) << n;
        ++failures;
        // The products of the finest level are products of A.
        A->update_values(upload(context_, csr));
        ASSERT_EQ(apply(*M, r), z) << n;
      }
      EXPECT_GT(failures, gpu() ? 2 : 10);
      EXPECT_EQ(apply(*M, r), apply(*ready<double>("amg", *A, options), r));
    }
  // Values that are refused.
  CsrMatrix<double> bad = deep_copy(test_context(), csr);
  const_cast<double*>(bad.values)[20] = std::numeric_limits<double>::infinity();
  const auto A = matrix(csr), B = matrix(bad);
  const auto M = ready<double>("amg", *A);
  const std::vector<double> z = apply(*M, r);
  EXPECT_SAYS(message<BadMatrix>([&] { M->ensure(*B); }), "amg needs finite entries");
  EXPECT_EQ(apply(*M, r), z);
}

TEST_P(AggregationOnDevice, MemoryIsGivenBack) {
  const std::size_t before = allocated_bytes(*context_);
  {
    const CsrMatrix<double> csr = generated("poisson-3d", 12);
    const auto A = matrix(csr);
    const std::size_t with_A = allocated_bytes(*context_);
    const auto M = ready<double>("amg", *A);
    const std::size_t with_M = allocated_bytes(*context_);
    EXPECT_GT(with_M, with_A);
    EXPECT_GE(M->bytes(), with_M - with_A);
    for (unsigned round = 0; round < 3; ++round) {
      A->update_values(upload(context_, varied(csr, round, false)));
      M->ensure(*A);
      EXPECT_EQ(allocated_bytes(*context_), with_M) << round;
    }
  }
  EXPECT_EQ(allocated_bytes(*context_), before);
}

TEST(AggregationOnGpu, DeterministicMode) {
  if (!test_context(Space::device)) GTEST_SKIP() << no_device;
  const ContextPtr context = Context::device(0, {.deterministic = true});
  const CsrMatrix<double> csr = generated("poisson-3d", 16);
  const auto A = make_matrix(find_format("csr"), upload(context, csr), context);
  const auto M = ready<double>("amg", *A);
  const Placed<double> r(context, right_hand_side<double>(csr.rows()));
  std::vector<double> first;
  for (int round = 0; round < 3; ++round) {
    Placed<double> z(context, std::vector<double>(static_cast<std::size_t>(csr.rows()), 0.0));
    M->apply(r.read(), z.view());
    if (first.empty()) first = z.fetch();
    EXPECT_EQ(z.fetch(), first);
    M->ensure(*A);
  }
}

TEST_P(AggregationOnDevice, ClassicalIsRefused) {
  const auto A = matrix(generated("poisson-2d", 5));
  const std::string text = message<NotAvailable>(
      [&] { (void)make_preconditioner<double>("amg", *A, {.setup = AmgSetup::classical}); });
  EXPECT_SAYS(text, "setup classical is not for a device");
  EXPECT_SAYS(text, "take setup aggregation");
}

}  // namespace
}  // namespace protean::test
