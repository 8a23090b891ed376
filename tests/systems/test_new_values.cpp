// New values of a kept system: another pattern of as many entries is refused, and the system goes on as before.
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/identical.hpp"
#include "gtest/gtest.h"
#include "protean.hpp"
#include "support/fake_device.hpp"
#include "support/oracle.hpp"
#include "support/other_patterns.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

// The space in which the system computes, and the space of the given arrays.
enum class Place { host, device, device_from_host, gpu, gpu_from_host };

class NewValues : public testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    const bool gpu = GetParam() == Place::gpu || GetParam() == Place::gpu_from_host;
    if (gpu && !test_context(Space::device)) GTEST_SKIP() << no_device;
    context_ = GetParam() == Place::host ? test_context()
               : gpu                     ? test_context(Space::device)
                                         : fake_device_context();
    csr_ = generate(test_context(), "poisson-2d", {{"n", 20}});
    for (std::int64_t k = 0; k < csr_.nonzeros(); ++k) values_.push_back(csr_.values[k]);
  }
  bool from_host() const {
    return GetParam() == Place::host || GetParam() == Place::device_from_host ||
           GetParam() == Place::gpu_from_host;
  }
  CsrMatrix<double> given(const CsrMatrix<double>& csr) const {
    return from_host() ? csr : upload(context_, csr);
  }
  // A view of arrays of the caller, which stay as long as the test.
  CsrMatrix<double> view(const CsrMatrix<double>& csr) {
    kept_.push_back(deep_copy(test_context(), csr));
    if (!from_host()) kept_.push_back(upload(context_, csr));
    CsrMatrix<double> seen = kept_.back();
    seen.pattern.owner = nullptr, seen.values_owner = nullptr;
    return seen;
  }
  // A system makes no formats of a simulated device: there it only takes and refuses values.
  bool solves() const { return !context_->simulated(); }
  // Solves, and holds the solution to this matrix.
  void expect_solution(LinearSystem<double>& system, const CsrMatrix<double>& of) {
    if (!solves()) return;
    const std::vector<double> b = sample_vector<double>(of.rows(), 5);
    const Placed<double> there(context_, b);
    Placed<double> x(context_, std::vector<double>(b.size(), 0.0));
    EXPECT_TRUE(system.solve(there.read(), x.view()).report.converged());
    const std::vector<double> found = x.fetch();
    double squares = 0, norm = 0;
    for (std::int64_t i = 0; i < of.rows(); ++i) {
      double r = b[static_cast<std::size_t>(i)];
      for (std::int64_t k = of.pattern.row_ptr[i]; k < of.pattern.row_ptr[i + 1]; ++k)
        r -= of.values[k] * found[static_cast<std::size_t>(of.pattern.col[k])];
      squares += r * r, norm += b[static_cast<std::size_t>(i)] * b[static_cast<std::size_t>(i)];
    }
    EXPECT_LE(std::sqrt(squares / norm), 2e-8);
  }
  CsrMatrix<double> times(double factor) const {
    CsrMatrix<double> scaled = deep_copy(test_context(), csr_);
    for (std::int64_t k = 0; k < scaled.nonzeros(); ++k)
      const_cast<double*>(scaled.values)[k] = factor * values_[static_cast<std::size_t>(k)];
    return scaled;
  }
  SolveSettings settings(std::string format, std::string order = "none") const {
    return {.method = "cg",
            .preconditioner = "jacobi",
            .format = solves() ? std::move(format) : "auto",
            .order = std::move(order),
            .context = context_};
  }

  ContextPtr context_;
  CsrMatrix<double> csr_;
  std::vector<double> values_;
  std::vector<CsrMatrix<double>> kept_;
};
// What needs arrays of the host, which a test can write.
class NewValuesInHostArrays : public NewValues {};
// What needs formats, which a system does not make of a simulated device.
class NewValuesInFormats : public NewValues {};

std::string name_of(const testing::TestParamInfo<Place>& one) {
  constexpr std::string_view names[] = {"host", "simulated", "simulated_from_host", "gpu", "gpu_from_host"};
  return std::string(names[static_cast<int>(one.param)]);
}
INSTANTIATE_TEST_SUITE_P(Places, NewValues,
                         testing::Values(Place::host, Place::device, Place::device_from_host, Place::gpu,
                                         Place::gpu_from_host),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Places, NewValuesInHostArrays,
                         testing::Values(Place::host, Place::device_from_host, Place::gpu_from_host),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Places, NewValuesInFormats,
                         testing::Values(Place::host, Place::gpu, Place::gpu_from_host), name_of);

TEST_P(NewValues, OfAnotherPatternAreRefused) {
  for (const char* format : {"csr", "ell", "auto"})
    for (const char* order : {"none", "rcm"})
      for (const bool check : {true, false})
        for (const bool of_library : {true, false})
          for (const bool before_a_solve : {true, false}) {
            SCOPED_TRACE(std::string(format) + " in order " + order + (check ? ", checked" : "") +
                         (of_library ? ", arrays of the library" : "") +
                         (before_a_solve ? ", not used yet" : ""));
            SolveSettings wanted = settings(format, order);
            wanted.check_arrays = check;
            LinearSystem<double> system(of_library ? given(csr_) : view(csr_), wanted);
            if (!before_a_solve) expect_solution(system, csr_);
            for (const OtherPattern& other : other_patterns(csr_)) {
              EXPECT_THROW(system.update_values(given(other.matrix)), ShapeMismatch) << other.what;
              EXPECT_THROW(system.update_values(view(other.matrix)), ShapeMismatch) << other.what;
            }
            expect_solution(system, csr_);
            const CsrMatrix<double> twice = view(times(2)), thrice = given(times(3));
            system.update_values(twice);
            expect_solution(system, times(2));
            system.update_values(thrice);
            expect_solution(system, times(3));
            system.update_values(twice.values);
            expect_solution(system, times(2));
            kept_.clear();
          }
}

// Another pattern written into the arrays that were given: the addresses are the same.
TEST_P(NewValuesInHostArrays, InArraysThatHaveBeenWrittenAreRefused) {
  for (const char* format : {"csr", "ell"})
    for (const OtherPattern& other : other_patterns(csr_)) {
      SCOPED_TRACE(std::string(format) + ", " + other.what);
      const CsrMatrix<double> arrays = view(csr_);
      LinearSystem<double> system(arrays, settings(format));
      expect_solution(system, csr_);
      const auto write = [&](const CsrMatrix<double>& from) {
        std::copy_n(from.pattern.col, from.nonzeros(), const_cast<std::int32_t*>(arrays.pattern.col));
        std::copy_n(from.pattern.row_ptr.p32, from.rows() + 1,
                    const_cast<std::int32_t*>(arrays.pattern.row_ptr.p32));
      };
      write(other.matrix);
      EXPECT_THROW(system.update_values(arrays), ShapeMismatch);
      write(csr_);
      EXPECT_NO_THROW(system.update_values(arrays));
      expect_solution(system, csr_);
    }
}

TEST_P(NewValues, OfAnotherSizeOrNullAreRefused) {
  LinearSystem<double> system(given(csr_), settings("ell"));
  for (int solved = 0; solved < 2; ++solved) {
    EXPECT_THROW(system.update_values(given(generate(test_context(), "poisson-2d", {{"n", 19}}))),
                 ShapeMismatch);
    EXPECT_THROW(system.update_values(static_cast<const double*>(nullptr)), BadArgument);
    CsrMatrix<double> none = given(csr_);
    none.values = nullptr;
    EXPECT_THROW(system.update_values(none), BadArgument);
    expect_solution(system, csr_);
  }
}

// A refusal in the middle of a build next to the solve leaves the build alone.
TEST_P(NewValuesInFormats, ThatAreRefusedCancelNoBuild) {
  const auto given = [&](const CsrMatrix<double>& csr) { return placed(context_, csr); };
  const CsrMatrix<double> source = given(csr_);
  Matrix<double> A(source, make_matrix(find_format("csr"), source, context_));
  const FormatSpec ell{.entry = &find_format("ell")};
  A.prepare(ell);
  for (const OtherPattern& other : other_patterns(csr_))
    EXPECT_THROW(A.update_values(given(other.matrix)), ShapeMismatch) << other.what;
  EXPECT_EQ(A.wait_prepared(), Preparation::ready);
  EXPECT_TRUE(A.failures().empty());
  ASSERT_TRUE(A.adopt_prepared(1));
  EXPECT_EQ(A.name(), "ell");
  for (const OtherPattern& other : other_patterns(csr_))
    EXPECT_THROW(A.update_values(given(other.matrix)), ShapeMismatch) << other.what;
  EXPECT_TRUE(identical(csr_, fetched(context_, A.current().to_csr())));
  A.update_values(given(times(2)));
  EXPECT_TRUE(identical(times(2), fetched(context_, A.current().to_csr())));
}

// A system that changes its format and its order.
TEST_P(NewValuesInFormats, OfAnotherPatternAreRefusedAfterChangesOfFormat) {
  SolveSettings wanted = settings("csr");
  const FormatEntry& ell = find_format("ell");
  wanted.schedule = {{.at = 3, .to = {.entry = &ell}, .overlapped = false},
                     {.at = 6, .to = {.entry = &ell, .order = "rcm"}, .overlapped = false}};
  LinearSystem<double> system(given(csr_), wanted);
  for (int solve = 0; solve < 3; ++solve) {
    expect_solution(system, csr_);
    for (const OtherPattern& other : other_patterns(csr_))
      EXPECT_THROW(system.update_values(given(other.matrix)), ShapeMismatch) << other.what;
  }
  system.update_values(given(times(2)));
  expect_solution(system, times(2));
}

// The arrays of new values need not stay, except the values.
TEST_P(NewValuesInFormats, LeaveTheArraysOfTheirPattern) {
  const CsrMatrix<double> arrays = view(csr_), values = given(times(2));
  for (const char* format : {"csr", "ell"}) {
    LinearSystem<double> system(arrays, settings(format));
    {
      CsrMatrix<double> passing = given(deep_copy(test_context(), csr_));
      passing.values = values.values, passing.values_owner = values.values_owner;
      system.update_values(passing);
    }
    expect_solution(system, times(2));
    EXPECT_EQ(system.matrix().given().pattern.col, arrays.pattern.col);
    system.set(settings(format, "rcm"));
    expect_solution(system, times(2));
  }
}

}  // namespace
}  // namespace protean::test
