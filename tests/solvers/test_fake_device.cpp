// Whole solves on a fake device, on which an access by the host to device memory is a fault: only explicit copies and
// the work of the device may read or write it. The first test shows that a missing copy is found.
#include <cmath>
#include <limits>

#include "core/generate/generate.hpp"
#include "core/identical.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/matrix/matrix.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/systems.hpp"
#include "support/fake_device.hpp"
#include "support/space.hpp"
#include "support/text.hpp"

namespace protean::test {
namespace {

constexpr const char* touched = "fake device: device memory was touched";

template <class T>
std::vector<T> ones(std::int64_t n) {
  return std::vector<T>(static_cast<std::size_t>(n), T(1));
}

template <class T>
struct Solved {
  SolveReport report;
  std::vector<T> x;
};

template <class T>
Solved<T> solve(const ContextPtr& context, const FormatEntry& format, const CsrMatrix<T>& csr,
                const char* method, bool jacobi, SolverOptions options = {}) {
  const auto A = make_matrix(format, placed(context, csr), context, most_tolerant(format));
  const auto M = make_preconditioner<T>(jacobi ? "jacobi" : "none", *A);
  if (M) M->ensure(*A);
  const Placed<T> b(context, ones<T>(csr.rows()));
  Placed<T> x(context, std::vector<T>(static_cast<std::size_t>(csr.rows()), T(0)));
  const auto solver = make_solver<T>(method, options);
  Solved<T> result;
  result.report = solver->solve(*A, b.read(), x.view(), M.get());
  result.x = x.fetch();
  return result;
}

TEST(FakeDevice, FindsAMissingCopy) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const ContextPtr device = fake_device_context();
  Placed<double> x(device, {1, 2, 3});
  EXPECT_DEATH(std::printf("%g", x.data()[1]), touched) << "a read by the host";
  EXPECT_DEATH(x.view()[2] = 1, touched) << "a write by the host";
  const auto csr = upload(device, clspmv_b());
  EXPECT_DEATH(std::printf("%d", csr.pattern.col[0]), touched);
  EXPECT_DEATH(validate_sorted(*test_context(), csr.pattern), touched)
      << "a host algorithm on a device matrix";
  // A host operator that claims to work on the device.
  const DenseOperator<double> A(poisson_1d(3), device);
  Placed<double> y(device, {0, 0, 0});
  EXPECT_DEATH(A.apply(x.read(), y.view()), touched);
}

TEST(FakeDevice, FindsMemoryThatIsFreedOrTooShort) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const ContextPtr device = fake_device_context();
  VectorView<double> freed;
  {
    Vector<double> x(device, 100);
    fill<double>(*device, 1.0, x);
    freed = x.view();
  }
  EXPECT_THROW(fill<double>(*device, 1.0, freed), WrongSpace);
  EXPECT_DEATH(
      {
        const detail::DeviceWork work(*device);
        freed[0] = 1;
      },
      touched);
  Vector<double> x(device, 64);
  EXPECT_DEATH(
      {
        const detail::DeviceWork work(*device);
        x[64] = 1;
      },
      touched);
  const detail::DeviceWork work(*device);
  x[63] = 1;
}

TEST(FakeDevice, FindsHostMemoryGivenToTheDevice) {
  const ContextPtr device = fake_device_context();
  const Placed<double> x(device, {1, 2, 3});
  std::vector<double> host(3);
  double number = 0;
  const auto as_device = [&] { return VectorView<double>{host.data(), 3, Space::device}; };
  EXPECT_THROW(dot<double>(*device, x.read(), x.read(), &number), WrongSpace);
  EXPECT_THROW(fill<double>(*device, 1.0, as_device()), WrongSpace);
  EXPECT_THROW(copy<double>(*device, x.read(), as_device()), WrongSpace);
  Vector<double> y(device, 3);
  EXPECT_THROW(axpy<double>(*device, {1.0, &number}, x.read(), y.view()), WrongSpace);
  EXPECT_THROW((void)fill<double>(*device, 1.0, VectorView<double>{host.data(), 3}), WrongSpace);
}

TEST(FakeDevice, RefusesWhatAUserMixesUp) {
  const ContextPtr device = fake_device_context();
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 6}});
  const auto A = make_matrix(fake_format("csr"), upload(device, csr), device);
  std::vector<double> host(36);
  const VectorView<double> wrong{host.data(), 36, Space::device};
  Vector<double> x(device, 36);
  const auto solver = make_solver<double>("cg");
  EXPECT_EQ(message_of<WrongSpace>([&] { (void)solver->solve(*A, wrong, x.view()); }).substr(0, 2), "b ");
  EXPECT_EQ(message_of<WrongSpace>([&] { (void)solver->solve(*A, x.view(), wrong); }).substr(0, 2), "x ");
  CsrMatrix<double> pretended = csr;
  pretended.pattern.space = Space::device;
  EXPECT_NE(message_of<WrongSpace>([&] {
              (void)make_matrix(fake_format("csr"), pretended, device);
            }).find("row_ptr"),
            std::string::npos);
  EXPECT_NE(message_of<WrongSpace>([&] { A->update_values(pretended); }).find("new values"),
            std::string::npos);
  EXPECT_NE(message_of<WrongSpace>([&] { A->update_values(csr); }).find("upload()"), std::string::npos);
  // The formats of the library have no kernels for a fake device.
  if (Context::device_count() == 0) {
    EXPECT_THROW((void)Context::device(), NotAvailable);
    EXPECT_THROW((void)make_matrix(find_format("csr"), upload(device, csr), device), NotAvailable);
  }
}

TEST(FakeDevice, UploadAndDownloadAreExact) {
  const ContextPtr device = fake_device_context();
  for (const BatteryMatrix& one : battery()) {
    const auto there = upload(device, one.matrix);
    EXPECT_EQ(there.pattern.space, Space::device);
    EXPECT_TRUE(identical(download(test_context(), *device, there), one.matrix)) << one.name;
  }
  EXPECT_EQ(allocated_bytes(*device), 0u);
}

class FakeDeviceFormats : public testing::TestWithParam<const FormatEntry*> {
 protected:
  // Bit for bit, or within `near` of the size of a number.
  template <class T>
  static void expect_same(const std::vector<T>& found, const std::vector<T>& wanted, double near) {
    if (!GetParam()->kernels.empty()) {
      EXPECT_EQ(found, wanted);
      return;
    }
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], wanted[i], near * std::fabs(static_cast<double>(wanted[i]))) << i;
  }
  // A matrix that the format does not refuse.
  static CsrMatrix<double> general(int n) {
    const char* const kind = GetParam()->traits.symmetric_only ? "poisson-3d" : "convection-diffusion-3d";
    return generate(test_context(), kind, {{"n", n}});
  }
};

// The fake device runs the kernels of the host in the same order, so every format and method gives the same
// bits. A format without kernels on the host is compared with csr, whose dot products with a product add in another
// order.
TEST_P(FakeDeviceFormats, SolveAsTheHostDoes) {
  const ContextPtr device = fake_device_context();
  const FormatEntry& of_host = GetParam()->kernels.empty() ? find_format("csr") : *GetParam();
  const auto spd = generate(test_context(), "poisson-2d", {{"n", 20}});
  const auto other = general(7);
  for (const char* method : {"cg", "bicgstab", "gmres"})
    for (const bool jacobi : {false, true}) {
      const auto& csr = method == std::string("cg") ? spd : other;
      const auto host = solve<double>(test_context(), of_host, csr, method, jacobi);
      const auto there = solve<double>(device, fake_format(GetParam()->id), csr, method, jacobi);
      EXPECT_TRUE(there.report.converged()) << there.report.detail;
      EXPECT_EQ(there.report.iterations, host.report.iterations) << method;
      expect_same(there.x, host.x, 1e-10);
    }
  const auto single = convert_values<float, double>(test_context(), spd);
  SolverOptions options;
  options.stopping.relative_tolerance = 1e-4;
  expect_same(solve<float>(device, fake_format(GetParam()->id), single, "cg", true, options).x,
              solve<float>(test_context(), of_host, single, "cg", true, options).x, 1e-4);
  EXPECT_EQ(allocated_bytes(*device), 0u) << "device memory is not freed";
}

TEST_P(FakeDeviceFormats, NewValuesAndTheWayBack) {
  const ContextPtr device = fake_device_context();
  const auto csr = general(5);
  const FormatEntry& format = fake_format(GetParam()->id);
  const auto A = make_matrix(format, upload(device, csr), device, most_tolerant(format));
  EXPECT_TRUE(identical(download(test_context(), *device, A->to_csr()), csr));
  std::vector<double> values(csr.values, csr.values + csr.nonzeros());
  for (double& value : values) value *= 0.5;
  CsrMatrix<double> halved = csr;
  halved.values = values.data(), halved.values_owner = nullptr;
  A->update_values(upload(device, halved));
  EXPECT_TRUE(identical(download(test_context(), *device, A->to_csr()), halved));
}

INSTANTIATE_TEST_SUITE_P(All, FakeDeviceFormats, testing::ValuesIn(catalogue().begin(), catalogue().end()),
                         [](const auto& instance) {
                           std::string name(instance.param->id);
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

// A change of format during a solve: the new matrix is built, compared and adopted without an access of the
// host to device memory.
TEST(FakeDevice, ChangesItsFormatWhileASolverRuns) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 20}});
  const auto exact = solve<double>(test_context(), find_format("csr"), csr, "cg", false).x;
  for (const bool beside : {false, true}) {
    const ContextPtr device = fake_device_context();
    const auto source = upload(device, csr);
    Matrix<double> A(source, make_matrix(fake_format("csr"), source, device));
    History switcher;
    switcher.then = [&](const IterationInfo& info) {
      const FormatSpec next{&fake_format(A.form() % 2 == 0 ? "sell-c-sigma" : "csr")};
      if (info.iteration % 10 != 3) return true;
      if (!beside) return A.switch_to(next, info.iteration, "the test");
      A.prepare(next, "the test", info.iteration);
      EXPECT_EQ(A.wait_prepared(), Preparation::ready);
      return A.adopt_prepared(info.iteration);
    };
    const Placed<double> b(device, ones<double>(csr.rows()));
    Placed<double> x(device, std::vector<double>(static_cast<std::size_t>(csr.rows()), 0.0));
    const SolveReport report = make_solver<double>("cg")->solve(A, b.read(), x.view(), nullptr, &switcher);
    EXPECT_TRUE(report.converged()) << report.detail;
    EXPECT_GE(A.history().size(), 3u);
    for (const FailedSwitch& failure : A.failures()) ADD_FAILURE() << failure.why;
    const auto result = x.fetch();
    for (std::size_t i = 0; i < exact.size(); ++i) ASSERT_NEAR(result[i], exact[i], 1e-6 * exact[i]);
  }
}

TEST(FakeDevice, NamesNumericalTrouble) {
  const ContextPtr device = fake_device_context();
  auto csr = deep_copy(test_context(), generate(test_context(), "poisson-2d", {{"n", 8}}));
  const_cast<double*>(csr.values)[40] = std::numeric_limits<double>::quiet_NaN();
  for (const char* method : all_methods())
    EXPECT_EQ(solve<double>(device, fake_format("csr"), csr, method, false).report.reason,
              StopReason::not_finite);
  const auto indefinite = csr_from_triplets<double>(
      test_context(), 3, 3, std::vector<Triplet<double>>{{0, 0, 1.0}, {1, 1, -2.0}, {2, 2, 3.0}});
  EXPECT_EQ(solve<double>(device, fake_format("csr"), indefinite, "cg", false).report.reason,
            StopReason::indefinite_operator);
  const auto zero =
      csr_from_triplets<double>(test_context(), 2, 2, std::vector<Triplet<double>>{{0, 0, 1.0}});
  EXPECT_THROW(solve<double>(device, fake_format("csr"), zero, "cg", true), BadMatrix);
}

}  // namespace
}  // namespace protean::test
