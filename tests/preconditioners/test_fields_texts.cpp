// The texts of preconditioner fields, what they refuse, and the fields that are found.
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/statistics.hpp"
#include "gtest/gtest.h"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/fields/field_list.hpp"
#include "preconditioners/fields/found.hpp"
#include "preconditioners/fields/inner.hpp"
#include "support/stokes.hpp"

namespace protean::test {
namespace {

using detail::FieldList;

FieldList list(std::string text, std::int64_t rows) {
  PreconditionerOptions options;
  options.fields = std::move(text);
  return detail::named_fields(options, rows);
}
std::string refusal_of(std::string text, std::int64_t rows) {
  return message<BadArgument>([&] { (void)list(std::move(text), rows); });
}

TEST(Fields, RangesOfRows) {
  using Labels = std::vector<std::int32_t>;
  EXPECT_EQ(list("u 0-3, p 4-", 6).of_row, (Labels{0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(list("u 0-3, p 4-", 6).names, (std::vector<std::string>{"u", "p"}));
  EXPECT_EQ(list("  p 5 ,\tu 0-4 ", 6).of_row, (Labels{1, 1, 1, 1, 1, 0}));
  EXPECT_EQ(list("u 0-/3 1-/3, p 2-/3", 8).of_row, (Labels{0, 0, 1, 0, 0, 1, 0, 0}));
  EXPECT_EQ(list("a 0-4/2, b 1-3/2 5-", 7).of_row, (Labels{0, 1, 0, 1, 0, 1, 1}));
  EXPECT_EQ(list("all 0-", 3).of_row, (Labels{0, 0, 0}));
  PreconditionerOptions options;
  options.interleaved = 3;
  const FieldList three = detail::named_fields(options, 5);
  EXPECT_EQ(three.of_row, (Labels{0, 1, 2, 0, 1}));
  EXPECT_EQ(three.names, (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_EQ(three.rows_of_fields(), (std::vector<Labels>{{0, 3}, {1, 4}, {2}}));
}

TEST(Fields, TextsOfLabels) {
  const std::vector<std::int32_t> labels = {0, 0, 7, 0, 0, 7, 3, 3, 3, 7, 0, 3, 0, 3, 0};
  const std::string text = fields_of_labels(labels);
  EXPECT_EQ(text, "0 0-1 3-4 10-14/2, 3 6-8 11 13, 7 2 5 9");
  const FieldList fields = list(text, 15);
  EXPECT_EQ(fields.names, (std::vector<std::string>{"0", "3", "7"}));
  for (std::size_t i = 0; i < labels.size(); ++i)
    EXPECT_EQ(fields.names[fields.of_row[i]], std::to_string(labels[i]));
  EXPECT_SAYS(message<BadArgument>([] { (void)fields_of_labels({}); }), "there are none");
  const std::vector<std::int32_t> negative = {0, -2};
  EXPECT_SAYS(message<BadArgument>([&] { (void)fields_of_labels(negative); }), "the label of row 1 is -2");
}

TEST(Fields, RefusedRanges) {
  EXPECT_SAYS(refusal_of("u 0-3, p 3-", 6), "row 3 (counted from 0) is in field u and again in field p");
  EXPECT_SAYS(refusal_of("u 0-2, p 4-", 6),
              "row 3 (counted from 0) is in no field, and so are 1 rows in all");
  EXPECT_SAYS(refusal_of("u 0-3, p 4-6", 6),
              "the range '4-6' of field p has row 6, and the matrix has rows 0 to 5");
  EXPECT_SAYS(refusal_of("u 0-5, p 6-", 6), "the range '6-' of field p has row 6");
  EXPECT_SAYS(refusal_of("u 0-5, p", 6), "field p has no rows");
  EXPECT_SAYS(refusal_of("u 0-3, u 4-", 6), "two fields u");
  EXPECT_SAYS(refusal_of("u 0-3,, p 4-", 6), "empty part between its commas");
  EXPECT_SAYS(refusal_of("", 6), "empty part");
  for (const char* const bad :
       {"u -3", "u 1-x", "u 0-5/0", "u 0-5/", "u 0x5", "u 3-1", "u 1.5", "u /2", "u 99999999999999999999"})
    EXPECT_SAYS(refusal_of(bad, 6), "the range '" + std::string(bad + 2) + "' of field u") << bad;
  PreconditionerOptions both;
  both.fields = "u 0-", both.interleaved = 2;
  EXPECT_SAYS(message<BadArgument>([&] { (void)detail::named_fields(both, 4); }), "leave one of them out");
  both.fields = "auto", both.interleaved = 5;
  EXPECT_SAYS(message<BadArgument>([&] { (void)detail::named_fields(both, 4); }), "field 4 would be empty");
}

TEST(Fields, InnerTexts) {
  const auto specs = detail::inner_specs(
      "u amg cycles=2 smoother=chebyshev, p jacobi method=gmres tolerance=1e-3 iterations=7");
  ASSERT_EQ(specs.size(), 2u);
  EXPECT_EQ(specs[0].field, "u");
  EXPECT_EQ(specs[0].id, "amg");
  EXPECT_EQ(specs[0].options.cycles, 2);
  EXPECT_EQ(specs[0].options.smoother, Smoother::chebyshev);
  EXPECT_TRUE(specs[0].solver.method.empty());
  EXPECT_EQ(specs[1].solver.method, "gmres");
  EXPECT_EQ(specs[1].solver.tolerance, 1e-3);
  EXPECT_EQ(specs[1].solver.iterations, 7);
  EXPECT_EQ(detail::inner_of(specs, "p").id, "jacobi");
  EXPECT_EQ(detail::inner_of(specs, "T").id, "auto");
  EXPECT_TRUE(detail::inner_specs("auto").empty());
  const auto refused = [](const char* text) {
    return message<BadArgument>([&] { (void)detail::inner_specs(text); });
  };
  EXPECT_SAYS(refused("u"), "has no type of preconditioner");
  EXPECT_SAYS(refused("u jacoby"), "Did you mean 'jacobi'?");
  EXPECT_SAYS(refused("u fields"), "there is no preconditioner 'fields' of a field");
  EXPECT_SAYS(refused("u amg cycle=2"), "Did you mean 'cycles'?");
  EXPECT_SAYS(refused("u amg cycles=0"), "inner: cycles of field u is 0");
  EXPECT_SAYS(refused("u amg cycles=two"), "cycles is 'two'; it must be a number");
  EXPECT_SAYS(refused("u amg smoother=none"), "inner: smoother of field u is 'none'");
  EXPECT_SAYS(refused("u jacobi cycles=2"), "cycles is for");
  EXPECT_SAYS(refused("u amg cycles"), "is not an option");
  EXPECT_SAYS(refused("u auto cycles=2"), "name the type");
  EXPECT_SAYS(refused("u amg, u jacobi"), "field u has two parts");
  EXPECT_SAYS(refused("u amg tolerance=0.1"), "are for a method");
  EXPECT_SAYS(refused("u amg method=cg tolerance=1"), "above 0 and below 1");
  EXPECT_SAYS(refused("u amg method=cg iterations=1.5"), "a whole number from 1");
  EXPECT_SAYS(refused("u amg method=ccg"), "Did you mean 'cg'?");
  EXPECT_SAYS(refused("u ilu0 method=cg"), "method cg needs a symmetric preconditioner");
}

TEST(Fields, OptionsThatDoNotFitAreRefused) {
  const auto A = assembled(sparse(poisson_2d(4)));
  const auto refused = [&](PreconditionerOptions options) {
    return message<BadArgument>([&] { ready<double>("fields", *A, options); });
  };
  PreconditionerOptions options;
  options.interleaved = 3, options.recipe = FieldRecipe::schur_lower;
  EXPECT_SAYS(refused(options),
              "takes the Schur complement of two fields, and there are 3; join some of them");
  options.recipe = FieldRecipe::lower, options.inner = "0 jacobi, 3 jacobi";
  EXPECT_SAYS(refused(options), "there is no field '3'; there are 0, 1, 2");
  options = {};
  options.recipe = FieldRecipe::schur_lower;
  EXPECT_SAYS(refused(options), "there is 1; name them by option fields or interleaved");
  for (const FieldRecipe recipe : {FieldRecipe::cpr_quasi_impes, FieldRecipe::cpr_true_impes}) {
    options = {};
    options.recipe = recipe;
    EXPECT_SAYS(refused(options), "and there is one field; name the fields");
    options.fields = "p 0-6, s 7-";
    EXPECT_SAYS(refused(options), "field p has 7 rows, field s has 9");
    options.fields = "p 0-7, whole 8-";
    EXPECT_SAYS(refused(options), "calls the whole matrix whole in option inner");
    options.fields = "p 0-7, s 8-", options.inner = "p amg, s jacobi";
    EXPECT_SAYS(refused(options), "and with the whole matrix, called whole; leave field s out");
    options.inner = "p amg, all jacobi";
    EXPECT_SAYS(refused(options), "there is no field 'all'; there are p, s, whole");
    options.inner = "0 jacobi, whole jacobi";
    Dense singular(6);
    for (std::int64_t i = 0; i < 6; ++i) singular(i, i) = 1;
    singular(1, 1) = 0, singular(1, 0) = singular(0, 1) = 1, singular(3, 2) = 1;
    options.fields = "auto", options.interleaved = 2;
    EXPECT_SAYS(message<BadMatrix>([&] { ready<double>("fields", *assembled(sparse(singular)), options); }),
                "in cell 0 (counted from 0) the");
  }
  options = {};
  options.fields = "";
  EXPECT_SAYS(refused(options), "fields: '' has an empty part between its commas; leave it out");
  options = {};
  options.interleaved = 2, options.recipe = FieldRecipe::schur_lower,
  options.schur = SchurComplement::commutator;
  EXPECT_SAYS(message<BadMatrix>([&] { ready<double>("fields", *A, options); }),
              "is for a zero block of field 1");
}

// What a recipe and its parts say of symmetry, before and after the setup.
TEST(Fields, Symmetry) {
  const auto A = assembled(sparse(poisson_2d(4)));
  const auto symmetric = [&](FieldRecipe recipe, const char* inner) {
    PreconditionerOptions options;
    options.interleaved = 2, options.recipe = recipe, options.inner = inner;
    EXPECT_EQ(is_symmetric("fields", options), ready<double>("fields", *A, options)->symmetric());
    return is_symmetric("fields", options);
  };
  for (const FieldRecipe recipe : field_recipes) {
    const bool by_recipe = recipe == FieldRecipe::automatic || recipe == FieldRecipe::additive ||
                           recipe == FieldRecipe::symmetric || recipe == FieldRecipe::schur_diagonal;
    EXPECT_EQ(symmetric(recipe, "auto"), by_recipe) << to_string(recipe);
    EXPECT_FALSE(symmetric(recipe, "0 ilu0"));
    EXPECT_FALSE(symmetric(recipe, "0 jacobi method=cg"));
  }
  // It is what it says.
  for (const FieldRecipe recipe :
       {FieldRecipe::automatic, FieldRecipe::symmetric, FieldRecipe::schur_diagonal}) {
    const auto B = assembled(stokes(test_context(), 5, true));
    PreconditionerOptions options;
    options.recipe = recipe;
    if (recipe == FieldRecipe::symmetric) options.inner = "u ssor, p jacobi";
    const Dense M = dense_inverse(*ready<double>("fields", *B, options));
    long double largest = 0;
    for (const long double one : M.a) largest = std::max(largest, std::abs(one));
    for (std::int64_t i = 0; i < M.n; ++i)
      for (std::int64_t j = 0; j < i; ++j) EXPECT_LE(std::abs(M(i, j) - M(j, i)), 1e-12L * largest);
  }
}

detail::FoundFields found_in(const CsrMatrix<double>& csr) {
  return detail::find_fields(csr, asymmetry<double>(*test_context(), csr) <= 1e-8);
}

TEST(FoundFields, OfStokesEquations) {
  for (const bool stabilised : {false, true}) {
    const CsrMatrix<double> csr = stokes(test_context(), 6, stabilised);
    const auto found = found_in(csr);
    EXPECT_EQ(found.fields.names, (std::vector<std::string>{"u", "p"}));
    for (std::int64_t i = 0; i < csr.rows(); ++i) EXPECT_EQ(found.fields.of_row[i], i >= 60);
    EXPECT_EQ(found.zero_block, !stabilised);
    EXPECT_EQ(found.stabilised, stabilised);
    EXPECT_TRUE(detail::maps_constant_to_zero(csr, found.fields, 1));
    EXPECT_SAYS(found.what, "rows 60 to 95");
  }
}

TEST(FoundFields, OfSmallMatrices) {
  const auto fields = [](const std::vector<std::vector<double>>& rows) {
    Dense A(std::ssize(rows));
    for (std::int64_t i = 0; i < A.n; ++i)
      for (std::int64_t j = 0; j < A.n; ++j) A(i, j) = rows[i][j];
    return found_in(sparse(A));
  };
  using Labels = std::vector<std::int32_t>;
  // Not symmetric; row 1 is the constraint.
  auto found = fields({{2, 1, 0}, {3, 0, 1}, {0, 4, 5}});
  EXPECT_EQ(found.fields.of_row, (Labels{0, 1, 0}));
  EXPECT_SAYS(found.what, "of row 1 (counted from 0) are zero, and so is their block, field p");
  // A diagonal entry that is tiny in its row is none.
  found = fields({{2, 1, 0}, {3, 1e-12, 1}, {0, 4, 5}});
  EXPECT_EQ(found.fields.of_row, (Labels{0, 1, 0}));
  // A negative one is no constraint unless the matrix is symmetric.
  EXPECT_EQ(fields({{2, 1, 0}, {3, -1, 1}, {0, 4, 5}}).fields.size(), 1);
  EXPECT_EQ(fields({{2, 1, 0}, {1, -1, 4}, {0, 4, 5}}).fields.of_row, (Labels{0, 1, 0}));
  EXPECT_EQ(fields({{-2, 1, 0}, {1, -1, 4}, {0, 4, -5}}).fields.size(), 1) << "negative definite";
  // Rows without a diagonal entry that are coupled with each other.
  found = fields({{2, 1, 0}, {3, 0, 1}, {0, 4, 0}});
  EXPECT_EQ(found.fields.size(), 1);
  EXPECT_SAYS(found.what, "rows 1 and 2 have no diagonal entry (rows count from 0), and they are coupled");
  found = fields({{0, 1}, {1, 0}});
  EXPECT_SAYS(found.what, "every row is without a diagonal entry");
  found = fields({{2, 1, 0}, {3, 4, 0}, {0, 0, 0}});
  EXPECT_SAYS(found.what, "row 2 (counted from 0) has no diagonal entry and no other one");
  found = fields({{2, 1}, {1, 2}});
  EXPECT_SAYS(found.what, "no row is without a diagonal entry");
}

// By symmetry and by a zero block.
TEST(FoundFields, RecipesThatAutoTakes) {
  const auto text = [](const CsrMatrix<double>& csr, const char* fields = "auto") {
    const auto A = assembled(csr);
    PreconditionerOptions options;
    options.fields = fields;
    return ready<double>("fields", *A, options)->description();
  };
  EXPECT_SAYS(text(stokes(test_context(), 6)),
              "; recipe schur-diagonal by the diagonal; inner u amg, p jacobi");
  EXPECT_SAYS(text(generate(test_context(), "darcy-2d", {{"n", 6}})),
              "; recipe schur-diagonal by the diagonal; inner u ic0, p amg");
  EXPECT_SAYS(
      text(generate(test_context(), "taylor-hood-2d", {{"n", 8}})),
      "; recipe schur-diagonal by a matrix like a mass matrix times 2; inner u amg unknowns=2 smoother=chebyshev, p "
      "chebyshev degree=4 eigenvalue_ratio=10; taken because field p is a constraint, and M must be symmetric");
  EXPECT_SAYS(text(generate(test_context(), "taylor-hood-3d", {{"n", 3}})),
              "; inner u amg unknowns=3 smoother=chebyshev strength=0.06, p ");
  EXPECT_SAYS(text(stokes(test_context(), 6, true)), "; recipe schur-diagonal");
  Dense A(4);
  A(0, 0) = 4, A(1, 1) = 5, A(2, 2) = 6, A(0, 3) = 1, A(1, 3) = 2, A(2, 0) = 1, A(3, 1) = 3, A(3, 2) = -1;
  EXPECT_SAYS(text(sparse(A)), "; recipe schur-upper by the diagonal; inner u ilu0, p ");
  EXPECT_SAYS(text(sparse(scattered(30, 3)), "a 0-9, b 10-"),
              "fields a (10 rows), b (20 rows); recipe lower; ");
  EXPECT_SAYS(text(sparse(poisson_2d(6)), "a 0-9, b 10-"), "; recipe symmetric; inner a amg, b amg");
  EXPECT_SAYS(text(sparse(poisson_2d(6))),
              "one field, u: no row is without a diagonal entry; recipe additive");
}

}  // namespace
}  // namespace protean::test
