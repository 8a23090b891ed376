// A system, a solver and a context of the C interface, for its tests.
#pragma once
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "core/generate/generate.hpp"
#include "gtest/gtest.h"
#include "interfaces/c/protean.h"
#include "support/battery.hpp"
#include "support/oracle.hpp"
#include "support/text.hpp"

namespace protean::test {

inline bool error_has(std::string_view part) { return has(protean_last_error(), part); }

inline std::vector<std::string> names(protean_kind kind) {
  std::vector<std::string> all;
  for (std::int64_t i = 0; const char* name = protean_name(kind, i); ++i) all.emplace_back(name);
  return all;
}

class CApi : public testing::Test {
 protected:
  CApi() {
    const auto a = generate(test_context(), "poisson-2d", {{"n", 40}});
    n = a.rows(), nonzeros = a.nonzeros();
    for (std::int64_t r = 0; r <= n; ++r) row_ptr.push_back(static_cast<std::int32_t>(a.pattern.row_ptr[r]));
    col.assign(a.pattern.col, a.pattern.col + nonzeros);
    values.assign(a.values, a.values + nonzeros);
    values32.assign(values.begin(), values.end());
    b = sample_vector<double>(n, 3), x.assign(b.size(), 0.0);
    b32 = sample_vector<float>(n, 3), x32.assign(b32.size(), 0.0f);
    EXPECT_EQ(protean_context_host(1, &context), PROTEAN_OK);
    EXPECT_EQ(protean_matrix_csr(context, n, n, nonzeros, row_ptr.data(), col.data(), values.data(), 0, &A),
              PROTEAN_OK);
    // The format of most tests here; what is taken without it, FormatAutoIsThatOfCpp says.
    EXPECT_EQ(protean_matrix_set_format(A, "csr", nullptr, nullptr), PROTEAN_OK);
    create("cg", "none");
  }
  ~CApi() override {
    protean_matrix_free(A);
    protean_solver_free(solver);
    protean_context_free(context);
  }
  void create(const char* method, const char* preconditioner) {
    protean_solver_free(solver);
    solver = nullptr;
    EXPECT_EQ(protean_solver_create(method, preconditioner, &solver), PROTEAN_OK) << protean_last_error();
  }
  protean_status solve() {
    x.assign(x.size(), 0.0);
    return protean_solve(solver, A, b.data(), x.data());
  }
  // ||b - A x|| / ||b|| with the arrays of the test.
  template <class T>
  double residual(const std::vector<T>& entries, const std::vector<T>& right,
                  const std::vector<T>& solution) {
    double squares = 0, norm = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      double r = right[i];
      for (std::int64_t k = row_ptr[i]; k < row_ptr[i + 1]; ++k)
        r -= static_cast<double>(entries[k]) * solution[col[k]];
      squares += r * r, norm += static_cast<double>(right[i]) * right[i];
    }
    return std::sqrt(squares / norm);
  }
  double residual() { return residual(values, b, x); }

  std::int64_t n = 0, nonzeros = 0;
  std::vector<std::int32_t> row_ptr, col;
  std::vector<double> values, b, x;
  std::vector<float> values32, b32, x32;
  protean_context* context = nullptr;
  protean_matrix* A = nullptr;
  protean_solver* solver = nullptr;
};

}  // namespace protean::test
