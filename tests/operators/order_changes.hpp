// Systems and requests of tests that change the order of the rows in the middle of a solve.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "core/permutation.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solving.hpp"

namespace protean::test {

inline Permutation shuffle_of(const ContextPtr& context, std::int64_t n, unsigned seed = 17) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  return {context, std::move(order)};
}

inline std::vector<std::int32_t> reversed(const SparsityPattern& pattern) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(pattern.rows));
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

// The system in a random numbering and with rows of different scale, so that Jacobi matters and no order equals the
// order of the generator. `values` owns the values.
inline CsrMatrix<double> system_matrix(const SwitchedSystem& system) {
  const ContextPtr context = test_context();
  const CsrMatrix<double> a = matrix_of(context, system);
  CsrBuilder<double> builder(context, a.rows(), a.cols(), a.nonzeros(), a.pattern.row_ptr.p32 == nullptr);
  const auto scale = [](std::int64_t i) { return 1 + 0.05 * static_cast<double>(i % 7); };
  for (std::int64_t i = 0; i < a.rows(); ++i) {
    builder.set_row_ptr(i + 1, a.pattern.row_ptr[i + 1]);
    for (std::int64_t k = a.pattern.row_ptr[i]; k < a.pattern.row_ptr[i + 1]; ++k) {
      builder.col()[k] = a.pattern.col[k];
      builder.values()[k] = scale(i) * a.values[k] * scale(a.pattern.col[k]);
    }
  }
  return PermutedMatrix<double>(context, builder.freeze(), shuffle_of(context, a.rows())).matrix();
}

inline FormatSpec order_only(std::string id) {
  FormatSpec spec;
  spec.order = std::move(id);
  return spec;
}
inline FormatSpec both(std::string_view format, std::string id) {
  FormatSpec spec{.entry = &find_format(format)};
  spec.order = std::move(id);
  return spec;
}

inline std::unique_ptr<Preconditioner<double>> preconditioner(std::string_view id,
                                                              const LinearOperator<double>& A) {
  auto M = make_preconditioner<double>(id, A);
  if (M) M->ensure(A);
  return M;
}

inline void expect_same_bits(const Solved& solved, const Solved& plain) {
  EXPECT_EQ(solved.residuals, plain.residuals);
  EXPECT_EQ(solved.x, plain.x);
}

inline std::vector<SwitchedSystem> systems_of_all_methods() {
  std::vector<SwitchedSystem> systems(std::begin(switched_systems), std::end(switched_systems));
  for (const SwitchedSystem& more : {SwitchedSystem{"fcg", "fcg", "poisson-2d", 30},
                                     {"minres", "minres", "poisson-2d", 30},
                                     {"bicgstab2", "bicgstab2", "convection-diffusion-3d", 18, 30, 0.1},
                                     {"idr", "idr", "convection-diffusion-3d", 9, 30, 0.1},
                                     {"fgmres", "fgmres", "convection-diffusion-3d", 9, 12}})
    systems.push_back(more);
  return systems;
}

}  // namespace protean::test
