// The matrix of a solve, from each source and through each change: it computes what a fresh matrix of its entries does,
// and what cannot be done is refused and changes nothing.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "odd_formats.hpp"
#include "operators/callback_operator.hpp"
#include "operators/matrix/matrix.hpp"
#include "order_changes.hpp"
#include "solving.hpp"
#include "support/elements.hpp"
#include "support/fake_device.hpp"
#include "support/multi.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

enum class Of : unsigned char { csr, csr_in_an_order, elements, an_operator, an_operator_in_an_order };

struct Source {
  const char* name;
  Of of;
  bool device = false;  // a simulated one
};

class Sources : public testing::TestWithParam<Source> {
 protected:
  void SetUp() override {
    context_ = GetParam().device ? fake_device_context() : test_context();
    csr_ = GetParam().of == Of::elements ? elements(1)->assemble() : system_matrix(switched_systems[0]);
    remember(csr_);
  }
  const FormatEntry& format(std::string_view id) const {
    return GetParam().device ? fake_format(id) : find_format(id);
  }
  FormatSpec to(std::string_view id) const { return {.entry = &format(id)}; }
  bool of_csr() const { return GetParam().of == Of::csr || GetParam().of == Of::csr_in_an_order; }
  bool of_operator() const {
    return GetParam().of == Of::an_operator || GetParam().of == Of::an_operator_in_an_order;
  }
  bool begins_in_order() const {
    return GetParam().of == Of::csr_in_an_order || GetParam().of == Of::an_operator_in_an_order;
  }

  // The element matrices times `factor`.
  std::unique_ptr<ElementOperator<double>> elements(double factor) const {
    ElementNumbers<double> numbers = element_numbers<double>(mesh(), true);
    for (auto& matrices : numbers.matrices)
      for (double& value : matrices) value *= factor;
    return make_element_operator<double>(
        test_context(), mesh().nodes, numbers.groups,
        {.components = mesh().components, .allow_unused_nodes = mesh().unused});
  }
  static const ElementMesh& mesh() { return element_mesh("cubes_2"); }

  std::unique_ptr<Matrix<double>> make(bool changes = true) {
    const MatrixOptions options{.changes = changes};
    if (GetParam().of == Of::elements) return std::make_unique<Matrix<double>>(elements(1), options);
    there_ = placed(context_, csr_);
    if (!begins_in_order()) {
      auto start = make_matrix(format("csr"), there_, context_);
      if (of_operator()) return std::make_unique<Matrix<double>>(std::move(start));
      return std::make_unique<Matrix<double>>(there_, std::move(start), options);
    }
    PermutedMatrix<double> permuted(test_context(), there_, shuffle_of(context_, csr_.rows(), 5));
    auto start = make_matrix(format("csr"), permuted.matrix(), context_);
    if (of_operator()) return std::make_unique<Matrix<double>>(permuted.permutation(), std::move(start));
    return std::make_unique<Matrix<double>>(there_, "shuffled", std::move(permuted), std::move(start),
                                            options);
  }

  // What the matrix should be from here on: `factor` times the entries that it was made of.
  void remember(const CsrMatrix<double>& csr, double factor = 1) {
    values_.assign(csr.values, csr.values + csr.nonzeros());
    for (double& value : values_) value *= factor;
    expected_ = csr;
    expected_.values = values_.data();
  }
  void give_new_values(Matrix<double>& A) {
    remember(csr_, -2);
    if (of_csr()) return A.update_values(kept_ = placed(context_, expected_));
    ElementNumbers<double> numbers = element_numbers<double>(mesh(), true);
    for (auto& matrices : numbers.matrices)
      for (double& value : matrices) value *= -2;
    A.update_values(numbers.groups);
  }

  static void expect_near(const std::vector<double>& one, const std::vector<double>& two, const char* what) {
    ASSERT_EQ(one.size(), two.size());
    double largest = 0;
    for (const double value : two) largest = std::max(largest, std::abs(value));
    for (std::size_t i = 0; i < one.size(); ++i) ASSERT_NEAR(one[i], two[i], 1e-12 * largest) << what << i;
  }
  // A does what a fresh matrix does, as a whole and in what computing() and in_order() give.
  void expect_fresh(const Matrix<double>& A) {
    const auto there = placed(context_, expected_);
    const auto fresh = make_matrix(format("csr"), there, context_);
    const auto x = sample_vector<double>(A.cols(), 3), y = sample_vector<double>(A.rows(), 7);
    const Placed<double> px(context_, x);
    for (const double beta : {0.0, -0.5}) {
      Placed<double> one(context_, y), two(context_, y), three(context_, y);
      A.apply(1.5, px.read(), beta, one.view()), fresh->apply(1.5, px.read(), beta, two.view());
      A.computing().apply(1.5, px.read(), beta, three.view());
      expect_near(one.fetch(), two.fetch(), "row ");
      EXPECT_EQ(one.fetch(), three.fetch()) << "computing()";
    }
    Placed<double> d(context_, y), e(context_, y), dot(context_, {0.0}), fresh_dot(context_, {0.0});
    A.diagonal(d.view()), fresh->diagonal(e.view());
    expect_near(d.fetch(), e.fetch(), "diagonal ");
    apply_dot<double>(A, px.read(), d.view(), dot.data());
    apply_dot<double>(*fresh, px.read(), e.view(), fresh_dot.data());
    expect_near(d.fetch(), e.fetch(), "row of a product with a dot product ");
    EXPECT_NEAR(dot.fetch()[0], fresh_dot.fetch()[0], 1e-9 * std::abs(fresh_dot.fetch()[0]));
    const CsrMatrix<double> rows = fetched(context_, A.abilities().rows->rows_as_csr());
    ASSERT_EQ(rows.nonzeros(), expected_.nonzeros());
    expect_near({rows.values, rows.values + rows.nonzeros()}, values_, "entry ");
    EXPECT_TRUE(std::equal(rows.pattern.col, rows.pattern.col + rows.nonzeros(), expected_.pattern.col));
    const Permutation P = A.order();
    if (P.size() > 0) {
      Placed<double> moved(context_, x), product(context_, y), back(context_, y), two(context_, y);
      P.apply<double>(px.read(), moved.view());
      A.in_order().apply(moved.read(), product.view());
      P.apply_inverse<double>(product.read(), back.view());
      fresh->apply(px.read(), two.view());
      expect_near(back.fetch(), two.fetch(), "row in order ");
    }
    if (GetParam().device) return;
    const Columns<double> X = sample_columns<double>(A.cols(), 3, 11);
    for (const MultiShape& shape : multi_shapes()) {
      PlacedColumns<double> from(context_, X, A.cols(), shape), one(context_, X, A.rows(), shape),
          two(context_, X, A.rows(), shape);
      multi_apply<double>(A, from.read(), one.view()), multi_apply<double>(*fresh, from.read(), two.view());
      for (std::size_t j = 0; j < 3; ++j) expect_near(one.fetch()[j], two.fetch()[j], "row of a column ");
    }
    Placed<double> one(context_, y), two(context_, y);
    if (A.no_transposed_product().empty()) {
      apply_transposed<double>(A, px.read(), one.view());
      apply_transposed<double>(*fresh, px.read(), two.view());
      expect_near(one.fetch(), two.fetch(), "row of the transpose ");
    }
  }

  ContextPtr context_;
  CsrMatrix<double> csr_, there_, expected_, kept_;
  std::vector<double> values_;
};
INSTANTIATE_TEST_SUITE_P(All, Sources,
                         testing::Values(Source{"csr", Of::csr}, Source{"csr_of_a_device", Of::csr, true},
                                         Source{"csr_in_an_order", Of::csr_in_an_order},
                                         Source{"csr_of_a_device_in_an_order", Of::csr_in_an_order, true},
                                         Source{"elements", Of::elements},
                                         Source{"operator", Of::an_operator},
                                         Source{"operator_in_an_order", Of::an_operator_in_an_order}),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_P(Sources, ComputeWithoutAChange) {
  for (const bool changes : {true, false}) {
    const auto A = make(changes);
    EXPECT_EQ(A->may_change(), changes && !of_operator());
    EXPECT_EQ(A->order().size() > 0, begins_in_order());
    EXPECT_EQ(A->of_operator(), of_operator());
    expect_fresh(*A);
    EXPECT_EQ(A->form(), 0u);
  }
}

// A matrix that may not change is not in the way of its storage.
TEST_P(Sources, GiveTheirStorageItselfWhileNothingChanges) {
  const auto A = make(false);
  EXPECT_EQ(&A->computing() == &A->running(), !begins_in_order());
  EXPECT_EQ(&A->in_order(), &A->running());
  EXPECT_EQ(A->seconds_per_product(), 0);
  if (of_operator()) {
    EXPECT_THROW(A->let_change(), BadArgument);
    return;
  }
  EXPECT_THROW(A->switch_to(to("ell"), 0), BadArgument);
  EXPECT_THROW(A->prepare(to("ell")), BadArgument);
  const std::uint64_t version = A->recording().version;
  A->let_change();
  EXPECT_EQ(&A->computing(), A.get());
  EXPECT_NE(&A->in_order(), &A->running());
  EXPECT_NE(A->recording().version, version) << "a graph with the storage is of no use";
  ASSERT_TRUE(A->switch_to(to("ell"), 0)) << A->failures().back().why;
  expect_fresh(*A);
}

TEST_P(Sources, ChangeTheFormat) {
  const auto A = make();
  if (of_operator()) {
    EXPECT_THROW(A->switch_to(to("ell"), 0), BadArgument);
    expect_fresh(*A);
    return;
  }
  const Revision revision = A->revision();
  const std::string order(A->order_id());
  for (const char* id : {"ell", "csr"}) {
    ASSERT_TRUE(A->switch_to(to(id), 3, "to see")) << A->failures().back().why;
    EXPECT_EQ(A->current().entry().id, id);
    EXPECT_EQ(A->order_id(), order);
    expect_fresh(*A);
  }
  A->prepare(to("ell"));
  EXPECT_EQ(A->wait_prepared(), Preparation::ready);
  ASSERT_TRUE(A->adopt_prepared(5)) << A->failures().back().why;
  expect_fresh(*A);
  EXPECT_EQ(A->revision(), revision);
  EXPECT_EQ(A->history().size(), 3u);
}

TEST_P(Sources, ChangeTheOrder) {
  const auto A = make();
  if (of_operator()) {
    EXPECT_THROW(A->switch_to(order_only("rcm"), 0), BadArgument);
    return;
  }
  if (GetParam().of == Of::elements) {
    EXPECT_FALSE(A->switch_to(order_only("rcm"), 0)) << "element matrices are in the caller's order";
    expect_fresh(*A);
  }
  FormatSpec first = to("csr");
  first.order = "rcm";
  ASSERT_TRUE(A->switch_to(first, 0)) << A->failures().back().why;
  expect_fresh(*A);
  for (const char* order : {"none", "rcm"}) {
    ASSERT_TRUE(A->switch_to(order_only(order), 0)) << A->failures().back().why;
    EXPECT_EQ(A->order_id(), order);
    expect_fresh(*A);
  }
}

TEST_P(Sources, TakeNewValues) {
  for (const char* before : {"", "ell", "rcm"}) {
    const auto A = make();
    remember(csr_);
    if (of_operator()) {
      EXPECT_THROW(A->update_values(there_), BadArgument);
      expect_fresh(*A);
      return;
    }
    FormatSpec change = to("ell");
    change.order = before == std::string("rcm") ? "rcm" : "";
    if (*before) { ASSERT_TRUE(A->switch_to(change, 0)) << A->failures().back().why; }
    const Revision revision = A->revision();
    give_new_values(*A);
    EXPECT_NE(A->revision(), revision);
    expect_fresh(*A);
    ASSERT_TRUE(A->switch_to(to("csr"), 0)) << A->failures().back().why;
    expect_fresh(*A);
  }
}

TEST_P(Sources, RefuseValuesOfAnotherPatternAndKeepTheirOwn) {
  const auto A = make();
  const Revision revision = A->revision();
  std::vector<std::int32_t> col(csr_.pattern.col, csr_.pattern.col + csr_.nonzeros());
  std::vector<double> values(col.size(), 1.0);
  CsrMatrix<double> other = csr_;
  other.pattern.owner = nullptr, other.values_owner = nullptr;
  // One entry lies elsewhere: the last one of a row, which ends before the last column.
  std::int64_t last = -1;
  for (std::int64_t r = 0; r < csr_.rows() && last < 0; ++r) {
    const std::int64_t k = csr_.pattern.row_ptr[r + 1] - 1;
    if (k >= csr_.pattern.row_ptr[r] && csr_.pattern.col[k] + 1 < csr_.cols()) last = k;
  }
  ASSERT_GE(last, 0);
  ++col[static_cast<std::size_t>(last)];
  other.pattern.col = col.data(), other.values = values.data();
  const CsrMatrix<double> there = placed(context_, other);
  if (of_csr()) {
    EXPECT_THROW(A->update_values(there), ShapeMismatch);
  } else {
    EXPECT_THROW(A->update_values(there), BadArgument);
  }
  if (GetParam().of != Of::elements) {
    EXPECT_THROW(A->update_values(std::span<const ElementGroup<double>>()), BadArgument);
  }
  EXPECT_EQ(A->revision(), revision);
  expect_fresh(*A);
}

TEST_P(Sources, KeepTheirMatrixWhenABuildFails) {
  const auto A = make();
  if (of_operator() || GetParam().device) return;  // the formats with faults are of the host
  std::size_t failures = 0;
  const LinearOperator<double>* const running = &A->running();
  for (const FormatEntry* entry : {&refusing_format(), &throwing_format(), &wrong_format(), &null_format()})
    for (const char* order : {"", "rcm"}) {
      FormatSpec bad{.entry = entry};
      bad.order = order;
      EXPECT_FALSE(A->switch_to(bad, 1)) << entry->id;
      EXPECT_EQ(A->failures().size(), ++failures);
      EXPECT_FALSE(A->failures().back().why.empty());
      EXPECT_EQ(&A->running(), running);
      expect_fresh(*A);
    }
  EXPECT_TRUE(A->history().empty());
}

// The same source in the same order with another storage: what a caller makes who asks for another format between two
// solves.
TEST_P(Sources, GiveSourceAndOrderToAMatrixOfAnotherStorage) {
  if (!of_csr()) return;
  auto A = make();
  FormatSpec change = to("ell");
  change.order = "rcm";
  ASSERT_TRUE(A->switch_to(change, 0)) << A->failures().back().why;
  std::unique_ptr<AssembledMatrix<double>> none,
      next = make_matrix(format("csr"), A->ordered_source(), context_);
  EXPECT_THROW(Matrix<double>(std::move(*A), std::move(none)), BadArgument);
  EXPECT_THROW(Matrix<double>(std::move(*A), std::move(next), {.memory_fraction = 0}), BadArgument);
  ASSERT_TRUE(next);
  expect_fresh(*A);
  A = std::make_unique<Matrix<double>>(std::move(*A), std::move(next), MatrixOptions{.changes = false});
  EXPECT_EQ(A->order_id(), "rcm");
  EXPECT_TRUE(A->history().empty());
  expect_fresh(*A);
  give_new_values(*A);
  expect_fresh(*A);
  A->let_change();
  ASSERT_TRUE(A->switch_to(order_only("none"), 0)) << A->failures().back().why;
  expect_fresh(*A);
}

}  // namespace
}  // namespace protean::test
