// Values as places in a table (values: dictionary): the bits of products with doubles, whatever the values are; how
// many fit; new values. The contract of test_formats.cpp also runs with this word.
#include <bit>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/allocation_hook.hpp"
#include "core/generate/generate.hpp"
#include "core/identical.hpp"
#include "operators/narrow_values.hpp"
#include "operators/value_table.hpp"
#include "support/battery.hpp"
#include "support/stored_values.hpp"
#include "support/text.hpp"

namespace protean::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// The pattern of a matrix with the values first, first + 1, ... of `count` different ones, again and again.
CsrMatrix<double> with_count(const CsrMatrix<double>& csr, int count, double first = 1) {
  std::vector<double> values(static_cast<std::size_t>(csr.nonzeros()));
  for (std::size_t k = 0; k < values.size(); ++k)
    values[k] = (first + static_cast<double>(k % static_cast<std::size_t>(count))) / 3;
  return with_values(csr, values);
}

class DictionaryValues : public testing::TestWithParam<StoredWay> {
 protected:
  void SetUp() override {
    context_ = test_context(GetParam().space);
    if (!context_) GTEST_SKIP() << no_device;
  }
  std::unique_ptr<AssembledMatrix<double>> make(const CsrMatrix<double>& csr, const char* word,
                                                const ContextPtr& context) const {
    return make_matrix(*GetParam().format, placed(context, csr), context, in(word), GetParam().kernel->name);
  }
  std::unique_ptr<AssembledMatrix<double>> make(const CsrMatrix<double>& csr, const char* word) const {
    return make(csr, word, context_);
  }
  // Compares everything with values in double.
  void expect_equal(const CsrMatrix<double>& csr, const ContextPtr& context) const {
    const auto full = make(csr, "double", context), coded = make(csr, "dictionary", context);
    EXPECT_EQ(coded->stored_values(), "dictionary");
    EXPECT_TRUE(coded->has_value_table());
    EXPECT_FALSE(full->has_value_table());
    EXPECT_FALSE(coded->float_values() || coded->rounds_values());
    EXPECT_TRUE(same_bits(products(*full), products(*coded)));
    EXPECT_TRUE(identical(csr, fetched(context, coded->to_csr())));
    EXPECT_EQ(coded->bytes(), admit(*GetParam().format, *context, placed(context, csr).pattern,
                                    in("dictionary"), sizeof(double))
                                  .bytes);
    const auto diagonal = [&](const AssembledMatrix<double>& A) {
      Placed<double> d(context,
                       std::vector<double>(static_cast<std::size_t>(std::min(A.rows(), A.cols())), -7.0));
      A.diagonal(d.view());
      return d.fetch();
    };
    EXPECT_TRUE(same_bits(diagonal(*full), diagonal(*coded)));
  }

  ContextPtr context_;
};

TEST_P(DictionaryValues, GiveTheBitsOfDoubles) {
  for (const BatteryMatrix& entry : battery())
    for (const bool deterministic : {false, true})
      for (const int threads : {1, 3}) {
        if (GetParam().space == Space::device && (deterministic || threads > 1)) continue;
        SCOPED_TRACE(entry.name + ", " + std::to_string(threads) + " threads");
        const ContextPtr context = GetParam().space == Space::device
                                       ? context_
                                       : Context::host(threads, {.deterministic = deterministic});
        expect_equal(entry.matrix, context);
        if (entry.matrix.nonzeros() == 0) continue;
        expect_equal(with_count(entry.matrix, 200), context);
      }
}

// Large enough for the ways that small matrices do not take.
TEST_P(DictionaryValues, OfLargeMatricesGiveTheBitsOfDoubles) {
  const CsrMatrix<double> stencil = generate(test_context(), "poisson-2d", {{"n", 500}}),
                          random = generate(test_context(), "random-spd", {{"n", 60000}});
  expect_equal(stencil, context_);
  for (const int count : {1, 16, 17, 250}) {
    SCOPED_TRACE(count);
    expect_equal(with_count(stencil, count), context_);
    expect_equal(with_count(random, count), context_);
  }
}

// Zero has a place in each table.
TEST_P(DictionaryValues, AreAtMost256WithZero) {
  const CsrMatrix<double>& csr = battery_matrix("dense_17x17");
  ASSERT_GE(csr.nonzeros(), 257);
  for (const int count : {1, 2, 16, 17, 255}) {
    SCOPED_TRACE(count);
    expect_equal(with_count(csr, count), context_);
  }
  expect_equal(with_count(csr, 256, 0), context_);
  for (const auto& [count, first, found] :
       {std::tuple{256, 1.0, "257"}, {257, 0.0, "257"}, {257, 1.0, "258"}}) {
    SCOPED_TRACE(found);
    const CsrMatrix<double> many = with_count(csr, count, first);
    try {
      (void)make(many, "dictionary");
      ADD_FAILURE() << "taken";
    } catch (const FormatRefused& refusal) {
      EXPECT_TRUE(has(refusal.reason(), std::string(found) + " distinct values")) << refusal.reason();
    }
    EXPECT_NE(make(many, "auto")->stored_values(), "dictionary");
  }
}

// Values are the same only if all bits are.
TEST_P(DictionaryValues, KeepAllBits) {
  const CsrMatrix<double>& csr = battery_matrix("stencil_7point_12");
  const std::vector<double> kinds = {0.0,      -0.0,      0x1p-1074, -0x1p-1074,    0x1p-1030,
                                     infinity, -infinity, 1.0,       1.0 + 0x1p-52, -1e308};
  std::vector<double> values(static_cast<std::size_t>(csr.nonzeros()));
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = kinds[k * 7 % kinds.size()];
  expect_equal(with_values(csr, values), context_);
  // The bits of a NaN that a sum has depend on the order of its operands; stored ones are kept.
  for (std::size_t k = 0; k < values.size(); k += 11)
    values[k] = std::bit_cast<double>(0x7ff8000000000000u | (k % 3 + 1));
  const CsrMatrix<double> with_nan = with_values(csr, values);
  EXPECT_TRUE(identical(with_nan, fetched(context_, make(with_nan, "dictionary")->to_csr())));
}

TEST_P(DictionaryValues, DoNotReadYIfBetaIsZero) {
  const auto coded = make(battery_matrix("random_257"), "dictionary");
  const Placed<double> x(context_, sample_vector<double>(coded->cols(), 1));
  Placed<double> y(context_, std::vector<double>(static_cast<std::size_t>(coded->rows()),
                                                 std::numeric_limits<double>::quiet_NaN()));
  coded->apply(2.0, x.read(), 0.0, y.view());
  for (const double value : y.fetch()) EXPECT_FALSE(std::isnan(value));
}

// A matrix with a history equals a new one; what does not fit is refused, and the old values stay.
TEST_P(DictionaryValues, FollowNewValues) {
  const CsrMatrix<double>& csr = battery_matrix("dense_17x17");
  const auto old = make(with_count(csr, 3), "dictionary");
  for (const int count : {200, 1, 16, 255, 17, 2}) {
    SCOPED_TRACE(count);
    const CsrMatrix<double> next = with_count(csr, count, -1);
    old->update_values(placed(context_, next));
    const auto fresh = make(next, "dictionary");
    EXPECT_TRUE(same_bits(products(*old), products(*fresh)));
    EXPECT_TRUE(identical(next, fetched(context_, old->to_csr())));
    EXPECT_EQ(old->bytes(), fresh->bytes());
    const std::vector<double> before = products(*old);
    EXPECT_THROW(old->update_values(placed(context_, with_count(csr, 280))), BadMatrix);
    EXPECT_TRUE(same_bits(products(*old), before));
    EXPECT_EQ(old->stored_values(), "dictionary");
  }
}

// With auto: a matrix with few values takes it, and new values that do not fit go on in float or double.
TEST_P(DictionaryValues, AreTakenByAutoWhereTheyAreFaster) {
  const detail::DictionaryRule rule = detail::dictionary_rule(*context_);
  if (rule.most_values == 0) GTEST_SKIP() << "not on this processor";
  const CsrMatrix<double> small = generate(test_context(), "poisson-2d", {{"n", 60}}),
                          large = generate(test_context(), "poisson-2d", {{"n", 500}});
  ASSERT_GE(large.nonzeros(), rule.least_entries);
  ASSERT_LT(small.nonzeros(), rule.least_entries);
  EXPECT_EQ(make(small, "auto")->stored_values(), "float (exact)");
  const auto matrix = make(large, "auto"), full = make(large, "double");
  EXPECT_EQ(matrix->stored_values(), "dictionary");
  EXPECT_EQ(matrix->bytes(), make(large, "dictionary")->bytes());
  std::vector<double> whole(static_cast<std::size_t>(large.nonzeros()));
  for (std::size_t k = 0; k < whole.size(); ++k) whole[k] = static_cast<double>(k % 300);
  const std::pair<CsrMatrix<double>, std::string_view> steps[] = {
      {with_values(large, whole), "float (exact)"},
      {with_count(large, rule.most_values - 1), "dictionary"},
      {with_count(large, 300), "double"},
      {large, "dictionary"}};
  for (const auto& [next, stored] : steps) {
    matrix->update_values(placed(context_, next)), full->update_values(placed(context_, next));
    EXPECT_EQ(matrix->stored_values(), stored);
    EXPECT_EQ(matrix->bytes(), make(next, "auto")->bytes());
    EXPECT_TRUE(same_bits(products(*matrix), products(*full)));
    EXPECT_TRUE(identical(next, fetched(context_, matrix->to_csr())));
  }
}

std::optional<std::size_t> allowed;  // allocations before one fails

// Each allocation of an update in turn fails. The old values, or all of the new ones, are there.
TEST_P(DictionaryValues, StayAsTheyAreIfMemoryIsMissing) {
  if (GetParam().space == Space::device) GTEST_SKIP() << "buffers of a device are kept for the next use";
  const CsrMatrix<double>& csr = battery_matrix("stencil_7point_12");
  const CsrMatrix<double> first = with_count(csr, 5), next = with_count(csr, 100);
  const auto matrix = make(first, "dictionary");
  const std::vector<double> before = products(*matrix);
  int failures = 0;
  for (std::size_t n = 0; n < 20; ++n) {
    allowed = n;
    detail::allocation_hook = [](Space, std::size_t bytes) {
      if (allowed && (*allowed)-- == 0) throw OutOfMemory("refused by a test", bytes);
    };
    bool done = true;
    try {
      matrix->update_values(next);
    } catch (const OutOfMemory&) { done = false; }
    detail::allocation_hook = nullptr, allowed.reset();
    if (done) break;
    ++failures;
    EXPECT_TRUE(same_bits(products(*matrix), before));
    EXPECT_TRUE(identical(first, matrix->to_csr()));
  }
  EXPECT_GT(failures, 0);
  EXPECT_TRUE(identical(next, matrix->to_csr()));
}

TEST_P(DictionaryValues, AreForVectorsInDouble) {
  const CsrMatrix<float> csr =
      placed(context_, convert_values<float>(test_context(), battery_matrix("dense_17x17")));
  EXPECT_THROW((void)make_matrix(*GetParam().format, csr, context_, in("dictionary")), BadArgument);
}

INSTANTIATE_TEST_SUITE_P(Catalogue, DictionaryValues, testing::ValuesIn(ways_with(detail::has_dictionary)),
                         name_of);

TEST(DictionaryValuesOfFormats, OthersRefuseThem) {
  EXPECT_FALSE(ways_with(detail::has_dictionary).empty());
  for (const char* id : {"dia", "hdi"})
    EXPECT_THROW((void)make_matrix(find_format(id), t8(), test_context(), in("dictionary")), BadArgument)
        << id;
}

// The table does not depend on the order of the entries, or on threads.
TEST(ValueTables, AscendByTheirBits) {
  const CsrMatrix<double> csr = with_count(generate(test_context(), "poisson-2d", {{"n", 300}}), 30, -15);
  const ContextPtr many = Context::host(3);
  const auto one = detail::ValueTable::of(*Context::host(1), csr), other = detail::ValueTable::of(*many, csr);
  ASSERT_TRUE(one && other);
  EXPECT_EQ(one->size(), 30);
  EXPECT_EQ(one->values()[0], 0.0);
  EXPECT_EQ(detail::distinct_values(*many, csr), 30);
  for (int place = 0; place < detail::ValueTable::most; ++place) {
    const auto bits = [&](const detail::ValueTable& table) {
      return std::bit_cast<std::uint64_t>(table.values()[place]);
    };
    EXPECT_EQ(bits(*one), bits(*other));
    if (place > 0 && place < one->size()) {
      EXPECT_GT(bits(*one), std::bit_cast<std::uint64_t>(one->values()[place - 1]));
    }
  }
}

}  // namespace
}  // namespace protean::test
