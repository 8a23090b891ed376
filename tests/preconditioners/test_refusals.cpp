// Matrices that preconditioners must refuse, and results that they must not give: entries that are not finite, and
// quotients of finite ones that the precision cannot hold.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "gtest/gtest.h"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/options.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/systems.hpp"
#include "support/fake_device.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

// But auto, which is jacobi here, and says so.
std::vector<std::string> ids_here() {
  std::vector<std::string> ids;
  for (const PreconditionerEntry& entry : preconditioners())
    if (entry.id != "none" && entry.id != "auto" && entry.unavailable.empty()) ids.emplace_back(entry.id);
  return ids;
}
class Refusals : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Preconditioners, Refusals, testing::ValuesIn(ids_here()), [](const auto& instance) {
  std::string name = instance.param;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
});

template <class T>
CsrMatrix<T> with_value(std::int64_t row, std::int64_t column, T value) {
  const CsrMatrix<T> csr = sparse<T>(poisson_2d(6));
  const auto values = std::make_shared<std::vector<T>>(csr.values, csr.values + csr.nonzeros());
  for (std::int64_t p = csr.pattern.row_ptr[row]; p < csr.pattern.row_ptr[row + 1]; ++p)
    if (csr.pattern.col[p] == column) (*values)[p] = value;
  CsrMatrix<T> changed = csr;
  changed.values = values->data(), changed.values_owner = values;
  return changed;
}

template <class T>
void expect_entries_refused(const std::string& id) {
  constexpr T infinity = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  for (const T value : {nan, infinity, -infinity})
    for (const ZeroDiagonal zero : {ZeroDiagonal::error, ZeroDiagonal::one}) {
      SCOPED_TRACE(std::to_string(value) + (zero == ZeroDiagonal::one ? " one" : ""));
      const auto refused = [&](std::int64_t row, std::int64_t column) {
        return message<BadMatrix>([&] {
          ready<T>(id, *assembled(with_value<T>(row, column, value)),
                   preconditioner_options_read_by(id, {.zero_diagonal = zero}));
        });
      };
      EXPECT_SAYS(refused(20, 20), id + " needs finite entries, but the entry of row 20, column 20 is ");
      // jacobi reads only the diagonal, and chebyshev the diagonal and products.
      if (id == "jacobi") {
        EXPECT_EQ(refused(20, 14), "nothing was thrown");
      } else if (id == "chebyshev") {
        EXPECT_SAYS(refused(20, 14), "chebyshev needs finite entries and products of them, but p . A p was ");
      } else {
        EXPECT_SAYS(refused(20, 14), id + " needs finite entries, but the entry of row 20, column 14 is ");
        EXPECT_SAYS(refused(35, 34), "row 35, column 34 is ");
        EXPECT_SAYS(refused(0, 1), "row 0, column 1 is ");
      }
    }
}

TEST_P(Refusals, EntriesThatAreNotFiniteAreNamed) {
  expect_entries_refused<double>(GetParam());
  expect_entries_refused<float>(GetParam());
}

TEST_P(Refusals, EntriesOfADeviceThatAreNotFiniteAreNamed) {
  const ContextPtr context = fake_device_context();
  const auto A = make_matrix(
      fake_format("csr"), upload(context, with_value<double>(9, 9, std::numeric_limits<double>::infinity())),
      context);
  EXPECT_SAYS(message<BadMatrix>([&] { ready<double>(GetParam(), *A); }), "row 9, column 9 is inf");
}

// The first one is named, whichever thread finds another.
TEST(RefusedEntries, TheFirstOfManyIsNamed) {
  std::vector<Triplet<double>> entries;
  const std::int64_t n = 40000;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto row = static_cast<std::int32_t>(i);
    entries.push_back({row, row, 2});
    if (i > 0) entries.push_back({row, row - 1, i == 17 || i == n - 1 ? std::nan("") : -1});
  }
  const CsrMatrix<double> csr = csr_from_triplets<double>(test_context(), n, n, entries);
  for (const int threads : {1, 2, 5, 5, 5})
    EXPECT_SAYS(message<BadMatrix>([&] { ready<double>("spai0", *assembled(csr, Context::host(threads))); }),
                "row 17, column 16 is nan");
}

TEST(RefusedEntries, AZeroDiagonalSaysWhatToDo) {
  Dense A(4);
  A(0, 1) = A(1, 0) = A(2, 2) = A(3, 3) = 1;
  for (const std::string& id : ids_here()) {
    const std::string text = message<BadMatrix>([&] { ready<double>(id, *assembled(sparse(A))); });
    if (id == "block-jacobi") continue;
    if (id ==
        "fields") {  // there are no fields, and nothing by itself for a symmetric matrix that is not definite
      EXPECT_SAYS(text, "fields: the matrix of field u is symmetric, and its diagonal entry 0");
      continue;
    }
    EXPECT_SAYS(text, id + " divides by the diagonal, but 2 of 4 diagonal entries are zero, missing");
    EXPECT_SAYS(text, "row 0 (0), row 1 (0) (rows count from 0)");
    EXPECT_SAYS(text, "maximum_bipartite_matching(A, perm_type='row')");
    EXPECT_SAYS(text, "zero_diagonal: one");
  }
}

template <class T>
std::vector<T> result(const Preconditioner<T>& M) {
  std::vector<T> r(static_cast<std::size_t>(M.rows()), T(1)),
      z(r.size(), std::numeric_limits<T>::quiet_NaN());
  M.apply(view(std::as_const(r)), view(z));
  return z;
}
template <class T>
double shift_of(const Preconditioner<T>& M) {
  for (const PreconditionerFigure& one : M.figures())
    if (one.name == "shift") return one.value;
  return -1;
}

// 1e-39 is a number of single precision, and its inverse is not.
TEST(RefusedQuotients, BlocksWhoseInverseSinglePrecisionCannotHold) {
  Dense A = diagonal_matrix({1, 2, 3, 1e-39L, 4, 5});
  A(4, 5) = A(5, 4) = 1;
  for (const std::int64_t size : {0, 1, 2, 3})
    for (const DiagonalBlocks how : diagonal_blocks) {
      const PreconditionerOptions options{.block_size = size, .blocks = how};
      const std::string text =
          message<BadMatrix>([&] { ready<float>("block-jacobi", *assembled(sparse<float>(A)), options); });
      EXPECT_SAYS(text, size == 3                                   ? "the block of rows 3 to 5 (from 0)"
                        : size == 2 && how == DiagonalBlocks::equal ? "the block of rows 2 to 3 (from 0)"
                                                                    : " to 3 (from 0)");
      EXPECT_SAYS(text, "has an inverse too large for single precision; scale the matrix, solve in double");
      const auto M = ready<double>("block-jacobi", *assembled(sparse(A)), options);
      EXPECT_NEAR(result(*M)[3] * 1e-39, 1, 1e-14);
    }
  // Double precision has its limit, too.
  EXPECT_SAYS(
      message<BadMatrix>([&] {
        ready<double>("block-jacobi", *assembled(sparse(diagonal_matrix({1, 1e-310L}))), {.block_size = 1});
      }),
      "the block of rows 1 to 1 (from 0) is singular, or its inverse is too large for double precision");
}

// The second pivot is 1e-39, more than rounding makes of 1e-34: it is shifted away as a zero one is.
TEST(RefusedQuotients, PivotsWhoseInverseSinglePrecisionCannotHold) {
  Dense A(2);
  A(0, 0) = A(0, 1) = A(1, 0) = 1e-34L, A(1, 1) = 1.00001e-34L;
  for (const char* id : {"ic0", "ilu0", "ic", "ilu"}) {
    const auto M = ready<float>(id, *assembled(sparse<float>(A)));
    EXPECT_EQ(shift_of(*M), 1e-3) << id;
    for (const float value : result(*M)) EXPECT_TRUE(std::isfinite(value)) << id << ' ' << value;
    EXPECT_EQ(shift_of(*ready<double>(id, *assembled(sparse(A)))), 0) << id;
  }
}

TEST(RefusedQuotients, FactorsThatSinglePrecisionCannotHold) {
  Dense upper = diagonal_matrix({1e-20L, 1, 1});
  upper(0, 2) = 1e20L;
  Dense both = upper;
  both(2, 0) = 1e20L, both(2, 2) = 1;
  for (const char* id : {"ilu0", "ilu", "ssor", "gauss-seidel"}) {
    const Dense& A = std::string_view(id).starts_with("ilu") ? upper : both;
    const std::string text = message<BadMatrix>([&] { ready<float>(id, *assembled(sparse<float>(A))); });
    EXPECT_SAYS(text, std::string(id) + ": the quotients of entries of this matrix are too large for single");
    EXPECT_SAYS(text, "solve in double precision");
    for (const double value : result(*ready<double>(id, *assembled(sparse(A)))))
      EXPECT_TRUE(std::isfinite(value)) << id;
  }
}

}  // namespace
}  // namespace protean::test
