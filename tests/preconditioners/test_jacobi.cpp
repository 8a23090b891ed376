#include <limits>

#include "core/error.hpp"
#include "gtest/gtest.h"
#include "preconditioners/preconditioner.hpp"
#include "solvers/systems.hpp"
#include "support/text.hpp"

namespace protean::test {
namespace {

TEST(Jacobi, AppliesTheInverseDiagonal) {
  const DenseOperator<double> A(diagonal_matrix({2, 4, -8}));
  const auto M = make_preconditioner<double>("jacobi", A);
  M->ensure(A);
  const std::vector<double> x = {1, 1, 1};
  std::vector<double> y(3, std::numeric_limits<double>::quiet_NaN());
  M->apply(view(x), view(y));
  EXPECT_EQ(y, (std::vector<double>{0.5, 0.25, -0.125}));
  M->apply(2.0, view(x), 1.0, view(y));
  EXPECT_EQ(y, (std::vector<double>{1.5, 0.75, -0.375}));
  ASSERT_EQ(M->inverse_diagonal().size, 3);
  EXPECT_EQ(M->inverse_diagonal()[2], -0.125);
}

TEST(Jacobi, BadEntriesAreNamedByRow) {
  const DenseOperator<double> A(diagonal_matrix({2, 0, 1, 0, 1e-320L}));
  const auto M = make_preconditioner<double>("jacobi", A);
  const std::string text = message_of<BadMatrix>([&] { M->ensure(A); });
  EXPECT_NE(text.find("3 of 5"), std::string::npos) << text;
  EXPECT_NE(text.find("row 1 (0), row 3 (0), row 4"), std::string::npos) << text;
  EXPECT_EQ(M->inverse_diagonal().size, 0) << "a failed setup must leave nothing behind";

  const auto ones = make_preconditioner<double>("jacobi", A, {.zero_diagonal = ZeroDiagonal::one});
  ones->ensure(A);
  EXPECT_EQ(ones->inverse_diagonal()[0], 0.5);
  for (int i : {1, 3, 4}) EXPECT_EQ(ones->inverse_diagonal()[i], 1.0);

  // Nothing stands for an entry that is not a number.
  const DenseOperator<double> nan(
      diagonal_matrix({2, 0, std::numeric_limits<long double>::quiet_NaN(), 1e-320L}));
  for (const ZeroDiagonal zero : {ZeroDiagonal::error, ZeroDiagonal::one}) {
    const auto refused = make_preconditioner<double>("jacobi", nan, {.zero_diagonal = zero});
    const std::string said = message_of<BadMatrix>([&] { refused->ensure(nan); });
    EXPECT_NE(said.find("the entry of row 2, column 2 is nan"), std::string::npos) << said;
  }
}

TEST(Jacobi, ManyBadRowsAreCountedAndTheFirstShown) {
  const DenseOperator<float> A(Dense(9));
  const auto M = make_preconditioner<float>("jacobi", A);
  const std::string text = message_of<BadMatrix>([&] { M->ensure(A); });
  EXPECT_NE(text.find("9 of 9"), std::string::npos) << text;
  EXPECT_NE(text.find("row 4 (0), ..."), std::string::npos) << text;
  EXPECT_EQ(text.find("row 5"), std::string::npos) << text;
}

class Counting final : public DenseOperator<double> {
 public:
  using DenseOperator<double>::DenseOperator;
  void diagonal(VectorView<double> d) const override { ++asked, DenseOperator<double>::diagonal(d); }
  mutable int asked = 0;
};

TEST(Jacobi, RebuiltOnlyWhenTheOperatorChanged) {
  Counting A(diagonal_matrix({2, 4}));
  const auto M = make_preconditioner<double>("jacobi", A);
  M->ensure(A), M->ensure(A);
  EXPECT_EQ(A.asked, 1);
  ++A.revision_.values;
  M->ensure(A), M->ensure(A);
  EXPECT_EQ(A.asked, 2);
  Counting other(diagonal_matrix({8, 8}));
  M->ensure(other);
  EXPECT_EQ(other.asked, 1);
  EXPECT_EQ(M->inverse_diagonal()[0], 0.125);
}

TEST(Jacobi, AFailedRebuildKeepsTheOldOne) {
  const DenseOperator<double> good(diagonal_matrix({2, 4})), bad(diagonal_matrix({0, 4}));
  const auto M = make_preconditioner<double>("jacobi", good);
  M->ensure(good);
  EXPECT_THROW(M->ensure(bad), BadMatrix);
  EXPECT_EQ(M->inverse_diagonal()[0], 0.5);
}

}  // namespace
}  // namespace protean::test
