// The C interface: the order of the rows, chosen before a solve or changed by its schedule.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/allocation_hook.hpp"
#include "core/csr_view.hpp"
#include "core/error.hpp"
#include "core/ordering.hpp"
#include "formats/choose.hpp"
#include "interfaces/c/c_api.hpp"
#include "order_in_c.hpp"
#include "preconditioners/preconditioner.hpp"
#include "support/oracle.hpp"

namespace protean::test {
namespace {

TEST_F(CApiOrder, NamesAreThoseOfTheProblemFile) {
  const auto words = order_words();
  EXPECT_EQ(names(PROTEAN_KIND_ORDER), std::vector<std::string>(words.begin(), words.end()));
  EXPECT_STREQ(protean_matrix_order(A), "none");
  EXPECT_STREQ(protean_matrix_order_reason(A), "");
  EXPECT_STREQ(protean_matrix_order(nullptr), "");
  EXPECT_STREQ(protean_matrix_order_reason(nullptr), "");
}

TEST_F(CApiOrder, SolvesToTheSameSolution) {
  for (const auto& [method, symmetric] :
       {std::pair{"cg", true}, {"minres", true}, {"gmres", false}, {"bicgstab", false}})
    for (const PreconditionerEntry& entry : preconditioners()) {
      if ((symmetric && !entry.symmetric) || !entry.unavailable.empty()) continue;
      SCOPED_TRACE(std::string(method) + " " + std::string(entry.id));
      create(method, std::string(entry.id).c_str());
      ASSERT_EQ(protean_solver_set(solver, "relative_tolerance", 1e-11), PROTEAN_OK);
      order("none");
      ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
      const std::vector<double> expected = x;
      const std::int64_t iterations = protean_solver_iterations(solver);
      for (const std::string& name : orders()) {
        SCOPED_TRACE(name);
        order(name);
        ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
        EXPECT_LE(residual(), 1.01e-11);
        expect_near(x, expected, 1e-8);
        if (entry.id == "auto") continue;  // measured times decide when it changes
        EXPECT_LE(std::abs(protean_solver_iterations(solver) - iterations),
                  2 + iterations / (symmetric ? 10 : 2));
      }
    }
}

TEST_F(CApiOrder, IsKeptAndMayBeTakenBack) {
  ASSERT_EQ(solve(), PROTEAN_OK);
  const std::vector<double> first = x;
  order("rcm");
  ASSERT_EQ(solve(), PROTEAN_OK);
  const std::vector<double> in_order = x;
  EXPECT_NE(in_order, first) << "sums are added in another order";
  expect_near(in_order, first, 1e-6);
  // Another right-hand side, and this one again: the same bits.
  b.swap(x), b[0] += 1;
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_LE(residual(), 1.01e-8);
  b = sample_vector<double>(n, 3);
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_EQ(x, in_order);
  // An initial guess is in the caller's numbering.
  ASSERT_EQ(protean_solve(solver, A, b.data(), x.data()), PROTEAN_OK);
  EXPECT_EQ(protean_solver_iterations(solver), 0);
  // Products are, too.
  std::vector<double> y(b.size(), 1.0);
  const auto csr = csr_view<double>(n, n, row_ptr.data(), col.data(), values.data());
  ASSERT_EQ(protean_matrix_apply(A, 2, b.data(), -1, y.data()), PROTEAN_OK);
  EXPECT_TRUE(product_is_right<double>(csr, 2, b, -1, std::vector<double>(b.size(), 1.0), y));
  // New values keep the order, and a format is made of the matrix in it.
  for (std::size_t k = 0; k < values.size(); ++k) values[k] *= 4;
  ASSERT_EQ(protean_matrix_update_values(A, values.data()), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_LE(residual(), 1.01e-8);
  ASSERT_EQ(protean_matrix_set_format(A, "sell-c-sigma", "C=4,sigma=1", nullptr), PROTEAN_OK);
  EXPECT_STREQ(protean_matrix_order(A), "rcm");
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_LE(residual(), 1.01e-8);
  for (std::size_t k = 0; k < values.size(); ++k) values[k] /= 4;
  ASSERT_EQ(protean_matrix_update_values(A, values.data()), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_LE(residual(), 1.01e-8);
  EXPECT_STREQ(protean_matrix_format(A), "sell-c-sigma");
  // Another order keeps the format and its parameters.
  order("cluster");
  EXPECT_STREQ(protean_matrix_format(A), "sell-c-sigma");
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_LE(residual(), 1.01e-8);
  // Back to the caller's order it is as if nothing had been.
  order("none");
  ASSERT_EQ(protean_matrix_set_format(A, "csr", nullptr, nullptr), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_EQ(x, first);
  // New values that are not finite leave the old ones.
  order("length");
  ASSERT_EQ(solve(), PROTEAN_OK);
  const std::vector<double> good = x;
  std::vector<double> bad = values;
  bad.back() = std::numeric_limits<double>::infinity();
  EXPECT_EQ(protean_matrix_update_values(A, bad.data()), PROTEAN_BAD_MATRIX);
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_EQ(x, good);
}

// The second allocation is for a format, after the first has taken the values in the order of the matrix.
int allocations_left = 0;

TEST_F(CApiOrder, NewValuesWithoutMemoryLeaveTheOldOnes) {
  ASSERT_EQ(protean_solver_set(solver, "relative_tolerance", 1e-6), PROTEAN_OK);
  std::vector<double> other = values;
  for (double& value : other) value *= 2;
  int refused = 0;
  for (const std::string& format : names(PROTEAN_KIND_FORMAT)) {
    make();
    order("rcm");
    if (protean_matrix_set_format(A, format.c_str(), nullptr, nullptr) != PROTEAN_OK) continue;
    allocations_left = 2;
    detail::allocation_hook = [](Space, std::size_t bytes) {
      if (--allocations_left == 0) throw OutOfMemory("a test let this allocation fail", bytes);
    };
    const protean_status status = protean_matrix_update_values(A, other.data());
    detail::allocation_hook = nullptr;
    if (status == PROTEAN_OK) continue;
    ++refused;
    ASSERT_EQ(status, PROTEAN_OUT_OF_MEMORY) << format << ": " << protean_last_error();
    for (const char* next : {"", "csr"}) {
      if (*next) { ASSERT_EQ(protean_matrix_set_format(A, next, nullptr, nullptr), PROTEAN_OK); }
      ASSERT_EQ(solve(), PROTEAN_OK) << format << ": " << protean_last_error();
      EXPECT_LE(residual(), 1.01e-6) << format << ", then " << next;
    }
  }
  EXPECT_GT(refused, 0) << "no format takes memory for new values";
}

TEST_F(CApiOrder, AutoSaysWhy) {
  ASSERT_EQ(protean_matrix_set_order(A, "auto"), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_STREQ(protean_matrix_order(A), "none");
  EXPECT_TRUE(has(protean_matrix_order_reason(A), "caches")) << protean_matrix_order_reason(A);
  order("rcm");
  EXPECT_STREQ(protean_matrix_order_reason(A), "");
  // Large enough that x does not stay in the caches: two points of a chain that are neighbours lie anywhere.
  const int points = 150000;
  std::vector<std::int32_t> name(points), at(points), ptr{0}, columns;
  std::iota(name.begin(), name.end(), 0);
  std::shuffle(name.begin(), name.end(), std::mt19937(7));
  for (int k = 0; k < points; ++k) at[name[k]] = k;
  std::vector<double> entries;
  for (int i = 0; i < points; ++i) {
    std::vector<std::pair<std::int32_t, double>> row{{i, 4.0}};
    for (const int d : {-2, -1, 1, 2})
      if (at[i] + d >= 0 && at[i] + d < points) row.emplace_back(name[at[i] + d], -1.0);
    std::sort(row.begin(), row.end());
    for (const auto& [j, value] : row) columns.push_back(j), entries.push_back(value);
    ptr.push_back(static_cast<std::int32_t>(columns.size()));
  }
  protean_matrix* chain = nullptr;
  ASSERT_EQ(protean_matrix_csr(context, points, points, static_cast<std::int64_t>(columns.size()), ptr.data(),
                               columns.data(), entries.data(), 0, &chain),
            PROTEAN_OK);
  const auto csr = csr_view<double>(points, points, ptr.data(), columns.data(), entries.data());
  const OrderChoice choice = choose_order(csr.pattern);
  ASSERT_EQ(choice.id, "rcm") << choice.reason;
  ASSERT_EQ(protean_matrix_set_order(chain, "auto"), PROTEAN_OK) << protean_last_error();
  EXPECT_STREQ(protean_matrix_order(chain), "none") << "the solve chooses, since the method matters";
  std::vector<double> right(points, 1.0), left(points, 0.0);
  ASSERT_EQ(protean_solver_set(solver, "max_iterations", 1), PROTEAN_OK);
  ASSERT_EQ(protean_solve(solver, chain, right.data(), left.data()), PROTEAN_NOT_CONVERGED);
  EXPECT_EQ(protean_matrix_order(chain), choice.id);
  EXPECT_EQ(protean_matrix_order_reason(chain), choice.reason);
  protean_matrix_free(chain);
}

TEST_F(CApiOrder, RefusalsNameWhatIsAllowed) {
  order("rcm");
  EXPECT_EQ(protean_matrix_set_order(A, "rcmm"), PROTEAN_BAD_ARGUMENT);
  for (const std::string& name : names(PROTEAN_KIND_ORDER))
    EXPECT_TRUE(error_has(name)) << protean_last_error();
  EXPECT_TRUE(error_has("Did you mean 'rcm'?")) << protean_last_error();
  EXPECT_EQ(protean_matrix_set_order(A, nullptr), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_matrix_set_order(nullptr, "rcm"), PROTEAN_BAD_ARGUMENT);
  for (const OrderingEntry& entry : orderings())
    if (!entry.unavailable.empty()) {
      EXPECT_EQ(protean_matrix_set_order(A, std::string(entry.id).c_str()), PROTEAN_NOT_AVAILABLE);
    }
  const auto point = [&](const char* order, const char* format, const char* parameters = nullptr) {
    return protean_solver_schedule_order(solver, "at_iteration", 3, order, format, parameters, nullptr, 0);
  };
  EXPECT_EQ(point("lenght", nullptr), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("Did you mean 'length'?")) << protean_last_error();
  EXPECT_EQ(point("auto", nullptr), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("must be named")) << protean_last_error();
  EXPECT_EQ(point(nullptr, "ell"), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(point("rcm", nullptr, "C=8"), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("name the format, too")) << protean_last_error();
  EXPECT_EQ(point("rcm", "element"), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(point("rcm", "elll"), PROTEAN_BAD_ARGUMENT);
  // None of them has changed anything.
  EXPECT_STREQ(protean_matrix_order(A), "rcm");
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_EQ(protean_solver_switches(solver), 0);

  const std::int32_t wide_ptr[] = {0, 1, 2}, wide_col[] = {0, 2};
  const double ones[] = {1, 1};
  protean_matrix* other = nullptr;
  ASSERT_EQ(protean_matrix_csr(context, 2, 3, 2, wide_ptr, wide_col, ones, 0, &other), PROTEAN_OK);
  for (const char* name : {"rcm", "auto"}) {
    EXPECT_EQ(protean_matrix_set_order(other, name), PROTEAN_SHAPE_MISMATCH);
    EXPECT_TRUE(error_has("2 x 3")) << protean_last_error();
  }
  EXPECT_EQ(protean_matrix_set_order(other, "none"), PROTEAN_OK);
  protean_matrix_free(other);
  const std::int32_t nodes[] = {0, 1};
  const double spring[] = {2, -1, -1, 2};
  ASSERT_EQ(protean_matrix_elements(context, 2, 1, 1, 2, nodes, spring, 0, nullptr, 0, 1, "gather", &other),
            PROTEAN_OK);
  EXPECT_EQ(protean_matrix_set_order(other, "rcm"), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("element matrices")) << protean_last_error();
  // During a solve an order belongs to the assembled matrix.
  ASSERT_EQ(protean_solver_schedule_order(solver, "at_iteration", 0, "rcm", nullptr, nullptr, nullptr, 0),
            PROTEAN_OK);
  const double right[] = {1, 2};
  double left[] = {0, 0};
  ASSERT_EQ(protean_solve(solver, other, right, left), PROTEAN_OK) << protean_last_error();
  ASSERT_EQ(protean_solver_failed_switches(solver), 1);
  protean_failed_switch lost;
  ASSERT_EQ(protean_solver_failed_switch(solver, 0, &lost), PROTEAN_OK);
  EXPECT_STREQ(lost.order, "rcm");
  EXPECT_TRUE(has(lost.why, "needs a format, too")) << lost.why;
  ASSERT_EQ(protean_solver_schedule_clear(solver), PROTEAN_OK);
  ASSERT_EQ(protean_solver_schedule_order(solver, "at_iteration", 0, "rcm", "csr", nullptr, nullptr, 0),
            PROTEAN_OK);
  left[0] = left[1] = 0;
  ASSERT_EQ(protean_solve(solver, other, right, left), PROTEAN_OK) << protean_last_error();
  EXPECT_STREQ(protean_matrix_order(other), "rcm");
  EXPECT_NEAR(left[0], 4.0 / 3, 1e-12);
  // New element matrices are in the order of the nodes.
  ASSERT_EQ(protean_matrix_update_values(other, spring), PROTEAN_OK);
  EXPECT_STREQ(protean_matrix_order(other), "none");
  protean_matrix_free(other);
}

TEST_F(CApiOrder, FunctionsOfTheCallerHaveNone) {
  protean_matrix* other = nullptr;
  const protean_product identity = [](void* user, const double* from, double* to, void*) {
    std::copy(from, from + *static_cast<std::int64_t*>(user), to);
    return 0;
  };
  ASSERT_EQ(protean_matrix_callback(context, n, n, "mine", identity, nullptr, &n, 0, &other), PROTEAN_OK);
  EXPECT_STREQ(protean_matrix_order(other), "none");
  for (const char* name : {"rcm", "auto"}) {
    EXPECT_EQ(protean_matrix_set_order(other, name), PROTEAN_BAD_ARGUMENT) << name;
    EXPECT_TRUE(error_has("operator mine is functions of the caller")) << protean_last_error();
  }
  ASSERT_EQ(protean_solver_schedule_order(solver, "at_iteration", 1, "rcm", nullptr, nullptr, nullptr, 0),
            PROTEAN_OK);
  EXPECT_EQ(protean_solve(solver, other, b.data(), x.data()), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("no order of its rows")) << protean_last_error();
  protean_matrix_free(other);
}

TEST_F(CApiOrder, SinglePrecisionAndOtherArrays) {
  std::vector<std::int64_t> wide(row_ptr.begin(), row_ptr.end());
  for (std::int64_t& p : wide) ++p;
  std::vector<std::int32_t> from_one = col;
  for (std::int32_t& c : from_one) ++c;
  protean_matrix* single = nullptr;
  ASSERT_EQ(protean_matrix_csr64_f32(context, n, n, nonzeros, wide.data(), from_one.data(), values32.data(),
                                     1, &single),
            PROTEAN_OK);
  ASSERT_EQ(protean_matrix_set_order(single, "rcm"), PROTEAN_OK) << protean_last_error();
  ASSERT_EQ(protean_solver_set(solver, "relative_tolerance", 1e-5), PROTEAN_OK);
  ASSERT_EQ(protean_solver_schedule_order(solver, "at_iteration", 4, "cluster", "ell", nullptr, nullptr, 0),
            PROTEAN_OK);
  ASSERT_EQ(protean_solve_f32(solver, single, b32.data(), x32.data()), PROTEAN_OK) << protean_last_error();
  EXPECT_EQ(protean_solver_switches(solver), 1);
  EXPECT_LE(residual(values32, b32, x32), 2e-5);
  protean_matrix_free(single);
}

}  // namespace
}  // namespace protean::test
