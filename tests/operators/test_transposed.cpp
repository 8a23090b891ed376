// Products with A^T: by every kind of operator, after new values, changes of format and of the order, from several
// threads, and what is refused. The formats are in tests/formats/test_formats.cpp, element matrices in
// test_elements.cpp.
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/callback_operator.hpp"
#include "operators/in_order.hpp"
#include "operators/matrix/matrix.hpp"
#include "operators/transposed_product.hpp"
#include "order_changes.hpp"
#include "solvers/ordered_solve.hpp"
#include "support/elements.hpp"
#include "support/fake_device.hpp"
#include "support/oracle.hpp"

namespace protean::test {
namespace {

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

// Not symmetric, with rows and columns of different length.
CsrMatrix<double> skewed(std::int64_t rows, std::int64_t cols, double scale = 1) {
  std::vector<Triplet<double>> entries;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t k = 0; k < 1 + r % 5; ++k)
      entries.push_back({static_cast<std::int32_t>(r), static_cast<std::int32_t>((r * r + 7 * k) % cols),
                         scale * (0.25 * static_cast<double>((r + 3 * k) % 11) - 1)});
  return csr_from_triplets<double>(test_context(), rows, cols, entries);
}

CsrMatrix<double> times(const CsrMatrix<double>& csr, double factor) {
  CsrMatrix<double> changed = deep_copy(test_context(), csr);
  for (std::int64_t k = 0; k < csr.nonzeros(); ++k)
    const_cast<double*>(changed.values)[k] = factor * csr.values[k] + 1;
  return changed;
}

// y := alpha A^T x + beta y is right for the matrix `csr`, and with beta == 0 does not read y.
void expect_transposed(const LinearOperator<double>& A, const CsrMatrix<double>& csr) {
  ASSERT_EQ(no_transposed_product(A), "");
  const CsrMatrix<double> columns = transpose(test_context(), csr);
  const auto x = sample_vector<double>(csr.rows(), 1), y0 = sample_vector<double>(csr.cols(), 2);
  const Placed<double> px(A.context(), x);
  for (const auto& [alpha, beta] : {std::pair{1.0, 0.0}, {-0.75, 2.5}, {0.0, 1.0}}) {
    Placed<double> y(A.context(), beta == 0 ? std::vector<double>(y0.size(), nan_value) : y0);
    const std::int64_t before = A.products();
    apply_transposed(A, alpha, px.read(), beta, y.view());
    EXPECT_EQ(A.products(), before + 1);
    EXPECT_TRUE(product_is_right(columns, alpha, x, beta, y0, y.fetch()))
        << "alpha " << alpha << ", beta " << beta;
  }
  Placed<double> y(A.context(), std::vector<double>(y0.size(), nan_value));
  apply_transposed(A, px.read(), y.view());
  EXPECT_TRUE(product_is_right(columns, 1.0, x, 0.0, y0, y.fetch()));
}
void expect_product(const LinearOperator<double>& A, const CsrMatrix<double>& csr) {
  const auto x = sample_vector<double>(csr.cols(), 3);
  const Placed<double> px(A.context(), x);
  Placed<double> y(A.context(), std::vector<double>(static_cast<std::size_t>(csr.rows()), nan_value));
  A.apply(px.read(), y.view());
  EXPECT_TRUE(product_is_right(csr, 1.0, x, 0.0, {}, y.fetch()));
}

// The message of the refusal.
std::string refusal(const LinearOperator<double>& A) {
  Vector<double> x(A.context(), A.rows()), y(A.context(), A.cols());
  const std::string why = no_transposed_product(A);
  EXPECT_NE(why, "");
  try {
    apply_transposed(A, x, y);
    ADD_FAILURE() << "nothing was refused";
  } catch (const BadArgument& error) { EXPECT_EQ(error.what(), why); }
  EXPECT_THROW(prepare_transposed(A), BadArgument);
  return why;
}
testing::AssertionResult says(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << part << "' is not in: " << text;
}

// host, a simulated device, a GPU.
class Transposed : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string_view place = GetParam();
    context_ = place == "host"        ? test_context()
               : place == "simulated" ? fake_device_context()
                                      : test_context(Space::device);
    if (!context_) GTEST_SKIP() << no_device;
  }
  const FormatEntry& format(std::string_view id) const {
    return context_->simulated() ? fake_format(id) : find_format(id);
  }
  std::unique_ptr<AssembledMatrix<double>> matrix(std::string_view id, const CsrMatrix<double>& csr) const {
    return make_matrix(format(id), csr, context_);
  }
  FormatSpec in(std::string_view id) const { return {.entry = &format(id)}; }
  ContextPtr context_;
};
INSTANTIATE_TEST_SUITE_P(Spaces, Transposed, testing::Values("host", "simulated", "device"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(Transposed, FollowsNewValues) {
  for (const auto& [rows, cols] : {std::pair{60, 60}, {90, 35}, {20, 80}}) {
    const CsrMatrix<double> first = skewed(rows, cols), second = times(first, 3), third = times(first, -0.5);
    for (const char* id : {"csr", "csc", "coo", "sell-c-sigma", "csr5"}) {
      SCOPED_TRACE(std::string(id) + ", " + std::to_string(rows) + " x " + std::to_string(cols));
      const auto A = matrix(id, placed(context_, first));
      expect_product(*A, first), expect_transposed(*A, first);
      const auto there = placed(context_, second), last = placed(context_, third);
      A->update_values(there);
      expect_transposed(*A, second), expect_product(*A, second);
      A->update_values(last, SamePattern());
      expect_product(*A, third), expect_transposed(*A, third);
      // An operator with no entries.
      const auto none = csr_from_triplets<double>(test_context(), rows, cols, {});
      expect_transposed(*matrix(id, placed(context_, none)), none);
    }
  }
}

TEST_P(Transposed, TakesTheMemoryThatItSays) {
  const CsrMatrix<double> csr = skewed(400, 300),
                          symmetric = generate(test_context(), "poisson-2d", {{"n", 12}});
  const auto there = placed(context_, csr);
  const std::size_t in_csr = transpose(test_context(), csr).bytes();
  for (const char* id : {"csr", "coo", "sell-c-sigma"}) {
    SCOPED_TRACE(id);
    const auto A = matrix(id, there);
    const std::size_t bytes = A->bytes();
    EXPECT_EQ(A->transposed_bytes(), 0u);
    prepare_transposed<double>(*A);
    EXPECT_GE(A->transposed_bytes(), in_csr);
    EXPECT_EQ(A->bytes(), bytes);
    A->update_values(there);
    EXPECT_EQ(A->transposed_bytes(), 0u);
  }
  const auto half = matrix("sss", placed(context_, symmetric));
  expect_transposed(*half, symmetric);
  EXPECT_EQ(half->transposed_bytes(), 0u) << "it is its own transpose";
  if (context_->simulated()) return;  // its csc is a matrix of the host behind a wall
  const auto columns = matrix("csc", there);
  const std::size_t before = allocated_bytes(*context_);
  prepare_transposed<double>(*columns);
  EXPECT_EQ(allocated_bytes(*context_) - before, columns->transposed_bytes());
  EXPECT_LT(columns->transposed_bytes(), in_csr / 2) << "its arrays are the transpose in csr";
}

TEST_P(Transposed, IsThatOfTheCallersNumberingInAnOrder) {
  const CsrMatrix<double> csr = skewed(70, 70);
  for (const char* id : {"csr", "csc", "coo"}) {
    SCOPED_TRACE(id);
    PermutedMatrix<double> permuted(test_context(), placed(context_, csr), shuffle_of(context_, 70, 5));
    auto B = matrix(id, permuted.matrix());
    const auto& inside = *B;
    Matrix<double> A(placed(context_, csr), "shuffled", std::move(permuted), std::move(B),
                     {.changes = false});
    expect_transposed(A, csr);
    EXPECT_EQ(A.transposed_bytes(), inside.transposed_bytes());
    const CsrMatrix<double> changed = times(csr, 2);
    A.update_values(placed(context_, changed));
    EXPECT_EQ(A.transposed_bytes(), 0u);
    prepare_transposed<double>(A);
    EXPECT_EQ(A.transposed_bytes(), inside.transposed_bytes());
    expect_product(A, changed), expect_transposed(A, changed);
  }
}

// Product, transposed product, change of format, of the order, of the values, in turns.
TEST_P(Transposed, SurvivesChangesOfTheFormat) {
  CsrMatrix<double> csr = skewed(64, 64);
  PermutedMatrix<double> permuted(test_context(), placed(context_, csr), shuffle_of(context_, 64, 5));
  auto start = matrix("csr", permuted.matrix());
  Matrix<double> A(placed(context_, csr), "shuffled", std::move(permuted), std::move(start));
  const auto both = [&] { expect_transposed(A, csr), expect_product(A, csr), expect_transposed(A, csr); };
  both();
  for (const char* id : {"coo", "csc", "ell", "csr"}) {
    SCOPED_TRACE(id);
    ASSERT_TRUE(A.switch_to(in(id), 0)) << A.failures().back().why;
    EXPECT_EQ(A.transposed_bytes(), 0u) << "of the format before";
    both();
    // In the order of the matrix.
    const CsrMatrix<double> in_order = fetched(context_, A.ordered_source());
    expect_transposed(A.in_order(), in_order);
    const std::int64_t counted = A.products();
    Vector<double> x(context_, 64), y(context_, 64);
    fill<double>(*context_, 1, x);
    apply_transposed<double>(A.in_order(), x, y);
    EXPECT_EQ(A.products(), counted + 1);
    csr = times(csr, 0.5);
    A.update_values(placed(context_, csr));
    both();
    // Back to the caller's order, and again into the other one.
    ASSERT_TRUE(A.switch_to(order_only("none"), 0)) << A.failures().back().why;
    both();
    ASSERT_TRUE(A.switch_to(order_only("shuffled"), 0)) << A.failures().back().why;
    both();
  }
}

TEST(TransposedProducts, OfElementMatricesFollowTheAssembly) {
  const ElementMesh& mesh = element_mesh(element_meshes().front().name);
  for (const bool symmetric : {false, true}) {
    const ElementNumbers<double> numbers = element_numbers<double>(mesh, symmetric);
    auto elements = make_element_operator<double>(
        test_context(), mesh.nodes, numbers.groups,
        {.components = mesh.components, .symmetric = symmetric, .allow_unused_nodes = mesh.unused});
    const CsrMatrix<double> csr = elements->assemble();
    const auto x = sample_vector<double>(csr.rows(), 1);
    std::vector<double> assembled(x.size()), summed(x.size());
    const auto n = static_cast<std::int64_t>(x.size());
    apply_transposed<double>(*make_matrix(find_format("csr"), csr, test_context()), {x.data(), n},
                             {assembled.data(), n});
    Matrix<double> A(std::move(elements));
    for (const char* id : {"", "coo", "csr"}) {
      SCOPED_TRACE(id);
      if (*id) { ASSERT_TRUE(A.switch_to({.entry = &find_format(id)}, 0)) << A.failures().back().why; }
      apply_transposed<double>(A, {x.data(), n}, {summed.data(), n});
      for (std::size_t i = 0; i < x.size(); ++i)
        ASSERT_NEAR(summed[i], assembled[i], 1e-12 * (1 + std::abs(assembled[i]))) << i;
    }
  }
}

TEST_P(Transposed, RefusesVectorsThatDoNotFit) {
  const auto A = matrix("csr", placed(context_, skewed(30, 20)));
  Vector<double> long_x(context_, 30), short_y(context_, 20);
  fill<double>(*context_, 1, long_x), fill<double>(*context_, 1, short_y);
  const std::int64_t products = A->products();
  // In the shapes of A x.
  EXPECT_THROW(apply_transposed<double>(*A, short_y, long_x), ShapeMismatch);
  EXPECT_THROW(apply_transposed<double>(*A, long_x, long_x), ShapeMismatch);
  EXPECT_THROW(apply_transposed<double>(*A, short_y, short_y), ShapeMismatch);
  Vector<double> both(context_, 49);
  EXPECT_THROW(apply_transposed<double>(*A, {both.data(), 30, context_->space()},
                                        {both.data() + 29, 20, context_->space()}),
               BadArgument);
  EXPECT_THROW(apply_transposed<double>(*A, {nullptr, 30, context_->space()}, short_y), BadArgument);
  EXPECT_THROW(apply_transposed<double>(*A, long_x, {nullptr, 20, context_->space()}), BadArgument);
  if (context_->space() == Space::device) {
    Vector<double> here(test_context(), 30);
    EXPECT_THROW(apply_transposed<double>(*A, here, short_y), WrongSpace);
    Vector<double> out(test_context(), 20);
    EXPECT_THROW(apply_transposed<double>(*A, long_x, out), WrongSpace);
  }
  EXPECT_EQ(A->products(), products) << "a refused product is none";
}

// An operator of a program that was written before there were such products.
class Plain final : public LinearOperator<double> {
 public:
  explicit Plain(std::int64_t n) : LinearOperator<double>(test_context(), {n, n}) {}
  std::string_view name() const noexcept override { return "plain"; }

 protected:
  void do_apply(double, VectorView<const double>, double, VectorView<double>) const override {}
};

TEST(TransposedProducts, AreRefusedWithAReason) {
  EXPECT_TRUE(says(refusal(Plain(3)), "operator 'plain'"));
  EXPECT_TRUE(says(refusal(Plain(3)), "HasTransposedProduct"));
  const CsrMatrix<double> csr = skewed(9, 9);
  // An entry of a program's own.
  FormatEntry own = find_format("coo");
  own.transposed = nullptr;
  EXPECT_TRUE(says(refusal(*make_matrix(own, csr, test_context())), "catalogue"));
  Matrix<double> A(csr, make_matrix(own, csr, test_context()));
  EXPECT_TRUE(says(refusal(A), "catalogue"));
  EXPECT_EQ(A.transposed_bytes(), 0u);
  ASSERT_TRUE(A.switch_to({.entry = &find_format("csr")}, 0));
  expect_transposed(A, csr);
  FormatEntry named = own;
  named.transposed = &find_format("csr");
  expect_transposed(*make_matrix(named, csr, test_context()), csr);
  const auto plain = std::make_shared<Plain>(9);
  EXPECT_TRUE(says(refusal(Matrix<double>(shuffle_of(test_context(), 9), plain)), "HasTransposedProduct"));
}

TEST(TransposedProducts, OfFunctionsAreAFunction) {
  const CsrMatrix<double> csr = skewed(8, 5);
  const auto matrix = make_matrix(find_format("csr"), csr, test_context());
  CallbackOperator<double> A(test_context(), {8, 5},
                             HostProductFunction<double>([&](const double* x, double* y) {
                               matrix->apply(VectorView<const double>{x, 5}, {y, 8});
                             }));
  EXPECT_TRUE(says(refusal(A), "set_transposed()"));
  EXPECT_EQ(A.transposed_bytes(), 0u);
  int calls = 0;
  A.set_transposed(HostProductFunction<double>([&](const double* x, double* y) {
    ++calls;
    apply_transposed<double>(*matrix, {x, 8}, {y, 5});
  }));
  expect_product(A, csr), expect_transposed(A, csr);
  EXPECT_EQ(calls, 4);
  A.set_transposed(ProductFunction<double>(
      [](const double*, double*, CUstream_st*) { throw std::runtime_error("of the program"); }));
  std::vector<double> x(8, 1), y(5);
  EXPECT_THROW(apply_transposed<double>(A, {x.data(), 8}, {y.data(), 5}), std::runtime_error);
  // In another order, the function of a square operator.
  const CsrMatrix<double> square = skewed(7, 7);
  const Permutation P = shuffle_of(test_context(), 7);
  PermutedMatrix<double> permuted(test_context(), square, P);
  const auto in_order = make_matrix(find_format("csr"), permuted.matrix(), test_context());
  const auto B = std::make_shared<CallbackOperator<double>>(
      test_context(), Shape{7, 7}, HostProductFunction<double>([&](const double* from, double* to) {
        in_order->apply(VectorView<const double>{from, 7}, {to, 7});
      }));
  const Matrix<double> ordered(P, B);
  EXPECT_TRUE(says(refusal(ordered), "set_transposed()"));
  B->set_transposed(HostProductFunction<double>([&](const double* from, double* to) {
    apply_transposed<double>(*in_order, {from, 7}, {to, 7});
  }));
  expect_transposed(ordered, square);
  A.set_transposed(ProductFunction<double>());
  EXPECT_TRUE(says(refusal(A), "set_transposed()"));
}

TEST(TransposedProducts, OfSeveralThreadsAreMadeOnce) {
  const CsrMatrix<double> csr = generate(test_context(), "convection-diffusion-3d", {{"n", 14}});
  const CsrMatrix<double> columns = transpose(test_context(), csr);
  const std::int64_t n = csr.rows();
  const auto x = sample_vector<double>(n, 1);
  for (const char* id : {"coo", "csc", "sell-c-sigma"}) {
    SCOPED_TRACE(id);
    const auto A = make_matrix(find_format(id), csr, test_context());
    std::vector<std::vector<double>> results(4, std::vector<double>(x.size(), nan_value));
    std::vector<std::thread> threads;
    for (auto& y : results)
      threads.emplace_back([&, to = VectorView<double>{y.data(), n}] {
        apply_transposed<double>(*A, {x.data(), n}, to);
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(product_is_right(columns, 1.0, x, 0.0, x, results[0]));
    for (const auto& y : results) EXPECT_EQ(y, results[0]);
  }
}

}  // namespace
}  // namespace protean::test
