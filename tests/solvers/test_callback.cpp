// Operators and preconditioners that call functions of the user's program. The same tests run on the host, on
// a fake device and on a GPU.
#include <atomic>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/callback_operator.hpp"
#include "preconditioners/callback_preconditioner.hpp"
#include "solvers/solver.hpp"
#include "support/fake_device.hpp"
#include "support/space.hpp"
#if defined(PROTEAN_HAVE_CUDA)
#include "solvers/device_kernels.hpp"
#include "support/text.hpp"
#endif

namespace protean::test {
namespace {

struct Case {
  const char* place;  // host, fake, device
  const char* method;
  bool recordable;
};

class Callbacks : public testing::TestWithParam<Case> {
 protected:
  static constexpr std::int64_t m = 30, n = m * m;

  void SetUp() override {
    const std::string_view place = GetParam().place;
    context_ = place == "host"   ? test_context()
               : place == "fake" ? fake_device_context()
                                 : test_context(Space::device);
    if (!context_) GTEST_SKIP() << no_device;
    on_gpu_ = place == "device";
  }

  void stencil(const double* x, double* y, CUstream_st* stream) {
    ++calls_;
    if (then_) then_(stream);
#if defined(PROTEAN_HAVE_CUDA)
    if (on_gpu_) return queue_stencil(m, x, y, stream);
#endif
    EXPECT_EQ(stream, nullptr);
    for (std::int64_t i = 0; i < n; ++i) {
      double sum = 4 * x[i];
      if (i % m > 0) sum -= x[i - 1];
      if (i % m + 1 < m) sum -= x[i + 1];
      if (i >= m) sum -= x[i - m];
      if (i + m < n) sum -= x[i + m];
      y[i] = sum;
    }
  }
  // z := factor * r; factor in each entry if r is null
  void scaled(double factor, const double* r, double* z, [[maybe_unused]] CUstream_st* stream) const {
#if defined(PROTEAN_HAVE_CUDA)
    if (on_gpu_) return r ? queue_scaled(n, factor, r, z, stream) : queue_fill(n, factor, z, stream);
#endif
    for (std::int64_t i = 0; i < n; ++i) z[i] = r ? factor * r[i] : factor;
  }

  std::unique_ptr<CallbackOperator<double>> make() {
    auto A = std::make_unique<CallbackOperator<double>>(
        context_, Shape{n, n},
        [this](const double* x, double* y, CUstream_st* stream) { stencil(x, y, stream); },
        CallbackOptions{"stencil", GetParam().recordable});
    A->set_diagonal([this](double* d, CUstream_st* stream) { scaled(diagonal_, nullptr, d, stream); });
    return A;
  }

  // b = A x for x_i = 1 / (1 + i mod 7), computed with an assembled matrix of the same stencil.
  std::vector<double> solution() const {
    std::vector<double> x(n);
    for (std::int64_t i = 0; i < n; ++i) x[i] = 1.0 / static_cast<double>(1 + i % 7);
    return x;
  }
  std::vector<double> right_hand_side() const {
    const auto csr = generate(test_context(), "poisson-2d", {{"n", double(m)}});
    const std::vector<double> x = solution();
    std::vector<double> b(n);
    make_matrix(find_format("csr"), csr, test_context())->apply({x.data(), n}, {b.data(), n});
    return b;
  }

  SolveReport solve(const LinearOperator<double>& A, const Preconditioner<double>* M = nullptr) {
    const Placed<double> b(context_, right_hand_side());
    Placed<double> x(context_, std::vector<double>(n, 0.0));
    SolverOptions options;
    options.stopping.relative_tolerance = 1e-10;
    options.device_steps = steps();
    const SolveReport report =
        make_solver<double>(GetParam().method, options)->solve(A, b.read(), x.view(), M);
    x_ = x.fetch();
    return report;
  }
  std::string steps() const { return on_gpu_ ? "graph" : "auto"; }
  void expect_solved(const SolveReport& report) const {
    EXPECT_TRUE(report.converged()) << report.detail;
    const std::vector<double> exact = solution();
    for (std::int64_t i = 0; i < n; ++i) ASSERT_NEAR(x_[i], exact[i], 1e-6) << i;
  }

  ContextPtr context_;
  bool on_gpu_ = false;
  double diagonal_ = 4;
  std::int64_t calls_ = 0;
  std::function<void(CUstream_st*)> then_;
  std::vector<double> x_;
};

TEST_P(Callbacks, SolveAsAMatrixDoes) {
  const auto A = make();
  const SolveReport report = solve(*A);
  expect_solved(report);
  // With recorded steps the function is called while they are recorded and for b - A x, else once for each
  // product.
  if (on_gpu_ && GetParam().recordable) {
    EXPECT_EQ(report.graphs_recorded, 1);
    EXPECT_LT(calls_, 70);
  } else {
    EXPECT_EQ(report.graphs_recorded, 0);
    EXPECT_GE(calls_, report.iterations);
  }
  if (std::string_view(GetParam().method) == "bicgstab")
    return;  // bicgstab amplifies rounding, so its number of iterations differs
  const FormatEntry& csr =
      std::string_view(GetParam().place) == "fake" ? fake_format("csr") : find_format("csr");
  const auto matrix = make_matrix(
      csr, placed(context_, generate(test_context(), "poisson-2d", {{"n", double(m)}})), context_);
  const SolveReport by_matrix = solve(*matrix);
  EXPECT_LE(std::abs(by_matrix.iterations - report.iterations), 2 + report.iterations / 100);
}

TEST_P(Callbacks, WithJacobiAndWithAPreconditionerOfTheCallers) {
  const auto A = make();
  const auto jacobi = make_preconditioner<double>("jacobi", *A);
  jacobi->ensure(*A);
  expect_solved(solve(*A, jacobi.get()));

  std::int64_t setups = 0;
  double factor = 0.25;
  CallbackPreconditioner<double> M(
      context_, {n, n},
      [&](const double* r, double* z, CUstream_st* stream) { scaled(factor, r, z, stream); },
      [&](const LinearOperator<double>&, bool) { ++setups; }, {"quarter", GetParam().recordable});
  M.ensure(*A), M.ensure(*A);
  EXPECT_EQ(setups, 1);
  expect_solved(solve(*A, &M));
  A->changed();
  factor = 0.5;
  M.ensure(*A);
  EXPECT_EQ(setups, 2);
  expect_solved(solve(*A, &M));
}

TEST_P(Callbacks, AlphaAndBeta) {
  const auto A = make();
  const std::vector<double> x = solution(), Ax = right_hand_side();
  const Placed<double> x_there(context_, x);
  for (const double alpha : {1.0, -2.0})
    for (const double beta : {0.0, 1.0, 0.5}) {
      // With beta = 0 the function must not read y.
      Placed<double> y(context_, std::vector<double>(n, beta == 0 ? std::nan("") : 3.0));
      A->apply(alpha, x_there.read(), beta, y.view());
      const std::vector<double> result = y.fetch();
      for (std::int64_t i = 0; i < n; ++i)
        ASSERT_NEAR(result[i], alpha * Ax[i] + (beta == 0 ? 0 : beta * 3.0), 1e-13) << alpha << ' ' << beta;
    }
}

TEST_P(Callbacks, WhatChangesIsMadeAnew) {
  const auto A = make();
  const auto M = make_preconditioner<double>("jacobi", *A);
  M->ensure(*A);
  const Placed<double> b(context_, right_hand_side());
  Placed<double> x(context_, std::vector<double>(n, 0.0));
  const auto solver = make_solver<double>(GetParam().method, {.device_steps = steps()});
  const auto again = [&] {
    fill<double>(*context_, 0.0, x.view());
    const SolveReport report = solver->solve(*A, b.read(), x.view(), M.get());
    EXPECT_TRUE(report.converged());
    return report.graphs_recorded;
  };
  const bool records = on_gpu_ && GetParam().recordable;
  EXPECT_EQ(again(), records);
  EXPECT_EQ(again(), 0);
  A->changed();
  M->ensure(*A);
  EXPECT_EQ(again(), records);
}

TEST_P(Callbacks, ExceptionsPassThrough) {
  const auto A = make();
  for (const std::int64_t at : {1, 2, 5}) {
    calls_ = 0;
    then_ = [&](CUstream_st*) {
      if (calls_ == at) throw std::runtime_error("the caller's own");
    };
    try {
      (void)solve(*A);
      FAIL() << "call " << at << " threw nothing";
    } catch (const std::runtime_error& error) { EXPECT_STREQ(error.what(), "the caller's own"); }
    then_ = nullptr;
    expect_solved(solve(*A));
  }
}

TEST_P(Callbacks, NamesWhatIsMissing) {
  EXPECT_THROW(CallbackOperator<double>(context_, {n, n}, ProductFunction<double>()), BadArgument);
  const CallbackOperator<double> A(
      context_, {n, n}, [](const double*, double*, CUstream_st*) {}, CallbackOptions{"mine", false});
  const auto M = make_preconditioner<double>("jacobi", A);
  try {
    M->ensure(A);
    FAIL();
  } catch (const BadArgument& error) {
    EXPECT_NE(std::string(error.what()).find("'mine'"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("set_diagonal"), std::string::npos) << error.what();
  }
  const auto two = [](const double*, double*) {};
  if (context_->space() == Space::device)
    EXPECT_THROW(CallbackOperator<double>(context_, {n, n}, two), WrongSpace);
  else
    EXPECT_NO_THROW(CallbackOperator<double>(context_, {n, n}, two));
}

TEST_P(Callbacks, NotANumberIsNamed) {
  CallbackOperator<double> A(context_, {n, n}, [this](const double*, double* y, CUstream_st* stream) {
    scaled(std::nan(""), nullptr, y, stream);
  });
  EXPECT_EQ(solve(A).reason, StopReason::not_finite);
}

#if defined(PROTEAN_HAVE_CUDA)
TEST_P(Callbacks, FaultsOfDeviceCode) {
  if (!on_gpu_) GTEST_SKIP() << "no device in this case: faults of a GPU";
  const auto A = make();
  const auto message = [&] { return message_of<DeviceError>([&] { (void)solve(*A); }); };
  for (const std::int64_t at : {1, 3}) {
    calls_ = 0;
    then_ = [&](CUstream_st* stream) {
      // What spoils one recording only is not seen, because the recording is repeated.
      if (GetParam().recordable ? calls_ >= at : calls_ == at) queue_impossible(stream);
    };
    EXPECT_NE(message().find("stencil"), std::string::npos) << message();
    then_ = nullptr;
    expect_solved(solve(*A));
  }
  // The function may wait for the stream when it is called for each product, but not while steps are
  // recorded.
  then_ = wait_for;
  if (GetParam().recordable)
    EXPECT_NE(message().find("stencil"), std::string::npos) << message();
  else
    expect_solved(solve(*A));
  then_ = nullptr;
  expect_solved(solve(*A));
}
#endif

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* place : {"host", "fake", "device"})
    for (const char* method : {"cg", "bicgstab", "gmres"})
      for (const bool recordable : {false, true}) all.push_back({place, method, recordable});
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, Callbacks, testing::ValuesIn(cases()), [](const auto& instance) {
  return std::string(instance.param.place) + "_" + instance.param.method +
         (instance.param.recordable ? "_recorded" : "");
});

// The product within the product has its own vector.
TEST(CallbackOperator, AFunctionMayApplyItsOwnOperator) {
  const CallbackOperator<double>* self = nullptr;
  int depth = 0;
  const CallbackOperator<double> A(test_context(), {2, 2}, [&](const double* x, double* y) {
    if (++depth == 1) {
      double inner[] = {10, 20};
      self->apply(1, {x, 2}, 0.5, {inner, 2});  // B x + half of what was there
      EXPECT_EQ(inner[0], x[0] + 5);
      EXPECT_EQ(inner[1], 3 * x[1] + 10);
    }
    y[0] = x[0], y[1] = 3 * x[1];
    --depth;
  });
  self = &A;
  const double x[] = {3, 4};
  for (int call = 0; call < 2; ++call) {
    double y[] = {1, 2};
    A.apply(2, {x, 2}, -1, {y, 2});
    EXPECT_EQ(y[0], 2 * 3 - 1);
    EXPECT_EQ(y[1], 2 * 12 - 2);
  }
}

TEST(CallbackOperator, SinglePrecisionOnTheHost) {
  const CallbackOperator<float> A(test_context(), {2, 2}, [](const float* x, float* y) {
    y[0] = 2 * x[0] + x[1], y[1] = x[0] + 3 * x[1];
  });
  const float b[] = {3, 4};
  float x[] = {0, 0};
  EXPECT_TRUE(make_solver<float>("cg")->solve(A, {b, 2}, {x, 2}).converged());
  EXPECT_NEAR(x[0], 1, 1e-5);
  EXPECT_NEAR(x[1], 1, 1e-5);
}

}  // namespace
}  // namespace protean::test
