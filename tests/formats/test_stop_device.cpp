// Recording::heeds_stop on a GPU, for every format, kernel and preconditioner: while the flag of an ended solve is set,
// what says that it heeds the stop leaves y and the result as they are, bit for bit.
#include <cstring>
#include <limits>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/elements/element_operator.hpp"
#include "preconditioners/options.hpp"
#include "preconditioners/preconditioner.hpp"
#include "support/fake_device.hpp"
#include "support/oracle.hpp"
#include "support/queued_kernels.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

// Bits, since y holds NaN.
template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <class T>
void leaves_its_result(const LinearOperator<T>& A, const std::string& what) {
  const ContextPtr& context = A.context();
  std::vector<T> before(static_cast<std::size_t>(A.rows()));
  for (std::size_t i = 0; i < before.size(); ++i)
    before[i] = i % 3 == 0 ? std::numeric_limits<T>::quiet_NaN() : static_cast<T>(i);
  const Placed<T> x(context, sample_vector<T>(A.cols(), 3));
  Placed<T> y(context, std::vector<T>(before.size(), T(0))), dot(context, {T(7)});
  // The first product of some kernels is another one.
  for (int k = 0; k < 3; ++k) A.apply(x.read(), y.view());
  copy<T>(*context, {before.data(), A.rows()}, y.view());
  {
    const RunEnded ended(context);
    A.apply(x.read(), y.view());
    A.apply(T(2), x.read(), T(1), y.view());
    A.apply(T(-1), x.read(), T(0.5), y.view());
    if (A.rows() == A.cols()) apply_dot<T>(A, x.read(), y.view(), dot.data());
  }
  EXPECT_TRUE(same_bits(y.fetch(), before)) << what;
  EXPECT_EQ(dot.fetch()[0], T(7)) << what;
  A.apply(x.read(), y.view());
  EXPECT_FALSE(same_bits(y.fetch(), before)) << what << ": nothing was computed at all";
}

class StopOnDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (!test_context(Space::device)) GTEST_SKIP() << no_device;
    context_ = test_context(Space::device);
  }
  ContextPtr context_;
};

template <class T>
std::pair<int, int> check_formats(const ContextPtr& context) {
  int heeding = 0, foreign = 0;
  for (const char* kind : {"poisson-3d", "random-spd"}) {
    const CsrMatrix<double> generated =
        generate(test_context(), kind, {{"n", kind == std::string("poisson-3d") ? 9 : 700}});
    CsrMatrix<T> csr;
    if constexpr (sizeof(T) == sizeof(double))
      csr = placed(context, generated);
    else
      csr = placed(context, convert_values<T>(test_context(), generated));
    for (const FormatEntry* format : catalogue())
      for (const Kernel& kernel : kernels_in(*format, Space::device)) {
        if (!kernel.unavailable.empty()) continue;
        const std::string what =
            std::string(kind) + " in " + std::string(format->id) + "/" + std::string(kernel.name);
        std::unique_ptr<AssembledMatrix<T>> A;
        try {
          A = make_matrix(*format, csr, context, most_tolerant(*format), kernel.name);
        } catch (const FormatRefused&) { continue; }
        if (!A->recording().heeds_stop) {
          EXPECT_NE(kernel.name.find("cusparse"), std::string_view::npos) << what;
          ++foreign;
          continue;
        }
        leaves_its_result<T>(*A, what);
        ++heeding;
      }
  }
  return {heeding, foreign};
}

TEST_F(StopOnDevice, FormatsInDouble) {
  const auto [heeding, foreign] = check_formats<double>(context_);
  EXPECT_GT(heeding, 180);
  EXPECT_GE(foreign, 8);
}
TEST_F(StopOnDevice, FormatsInFloat) { EXPECT_GT(check_formats<float>(context_).first, 180); }

TEST_F(StopOnDevice, Preconditioners) {
  const CsrMatrix<double> csr = placed(context_, generate(test_context(), "poisson-3d", {{"n", 12}}));
  const auto A = make_matrix(find_format("csr"), csr, context_);
  int heeding = 0, foreign = 0;
  for (const PreconditionerEntry& entry : preconditioners()) {
    if (entry.id == "none" || !entry.unavailable.empty()) continue;
    for (const TriangularSolve way : triangular_solves) {
      PreconditionerOptions options;
      options.solve = way;
      options = preconditioner_options_read_by(entry.id, options);
      const auto M = make_preconditioner<double>(entry.id, *A, options);
      M->ensure(*A);
      const std::string what = std::string(entry.id) + ", " + std::string(to_string(way));
      foreign += !M->recording().heeds_stop;
      if (!M->recording().heeds_stop) continue;
      leaves_its_result<double>(*M, what);
      ++heeding;
    }
  }
  for (const Composition how : compositions) {
    const PreconditionerPart parts[] = {{"jacobi", {}}, {"gauss-seidel", {}}};
    const auto M = make_composition<double>(*A, parts, how);
    M->ensure(*A);
    EXPECT_TRUE(M->recording().heeds_stop);
    leaves_its_result<double>(*M, std::string(to_string(how)));
  }
  EXPECT_GT(heeding, 30);
  EXPECT_GE(foreign, 4) << "the triangular solves of cuSPARSE";
}

TEST_F(StopOnDevice, ElementMatrices) {
  const std::int64_t nodes = 500;
  std::vector<std::int32_t> connectivity;
  std::vector<double> matrices;
  for (std::int32_t e = 0; e + 1 < nodes; ++e) {
    for (const std::int32_t node : {e, e + 1}) connectivity.push_back(node);
    for (const double entry : {2.0, -1.0, -1.0, 2.0}) matrices.push_back(entry);
  }
  const ElementGroup<double> group{nodes - 1, 2, connectivity, matrices};
  for (const ElementScatter scatter :
       {ElementScatter::atomic, ElementScatter::coloured, ElementScatter::gather})
    for (const bool symmetric : {false, true}) {
      ElementOptions options;
      options.scatter = scatter, options.symmetric = symmetric;
      const auto A = make_element_operator<double>(context_, nodes, std::span(&group, 1), options);
      ASSERT_TRUE(A->recording().heeds_stop);
      leaves_its_result<double>(*A, std::string(A->name()) + (symmetric ? ", symmetric" : ""));
    }
}

}  // namespace
}  // namespace protean::test
