// What distinguishes the formats of rows, and products of rows of any length.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "formats/engines/rows/rows.hpp"
#include "gtest/gtest.h"
#include "row_family.hpp"
#include "support/battery.hpp"
#include "support/guarded_array.hpp"
#include "support/layout.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

// ---- What no neighbour has -----------------------------------------------------------------------------------------

// True for a row whose entries are added one after another, each product rounded or not.
bool adds_in_order(const AssembledMatrix<double>& matrix) {
  const CsrMatrix<double> csr = matrix.to_csr();
  const Numbers x(static_cast<std::size_t>(csr.cols()), 1.0 / 3);
  Numbers y(static_cast<std::size_t>(csr.rows()));
  matrix.apply({x.data(), csr.cols()}, {y.data(), csr.rows()});
  bool rounded = true, fused = true;
  for (std::int64_t r = 0; r < csr.rows(); ++r) {
    double sum = 0, other = 0;
    for (std::int64_t k = csr.pattern.row_ptr[r]; k < csr.pattern.row_ptr[r + 1]; ++k) {
      volatile const double product = csr.values[k] * x[0];
      sum += product, other = std::fma(csr.values[k], x[0], other);
    }
    rounded = rounded && y[static_cast<std::size_t>(r)] == sum,
    fused = fused && y[static_cast<std::size_t>(r)] == other;
  }
  return rounded || fused;
}

bool refuses_long_rows(const char* id) {
  try {
    (void)build(id, two_giant_rows());
    return false;
  } catch (const FormatRefused& refusal) {
    EXPECT_NE(refusal.reason().find("30000"), std::string::npos) << refusal.reason();
    return true;
  }
}

// The greatest common divisor of the row pointers is `align` in a matrix with rows of 3 and `more` entries.
bool rows_begin_at_multiples(const char* id, std::int64_t align, std::int64_t more) {
  const auto matrix = build(id, of_lengths({3, more, 3, 0, 3}, 100));
  std::int64_t divisor = 0;
  if (!array_of(*matrix, "row_ptr")) return false;
  const Numbers begins = *array_of(*matrix, "row_ptr");
  for (const double begin : begins) divisor = std::gcd(divisor, static_cast<std::int64_t>(begin));
  return divisor == align;
}

struct Mark {
  const char* format;
  std::function<bool(const char*)> holds;  // of the format with this id
};

const std::vector<Mark>& marks() {
  const auto shows = [](const char* id, const CsrMatrix<double>& csr, std::string_view name,
                        const Numbers& numbers) { return array_of(*build(id, csr), name) == numbers; };
  static const std::vector<Mark> all = {
      {"csr-guo-gropp",
       [=](const char* id) {
         return shows(id, t8(), "row_list", {3, 2, 0, 6, 4, 7, 1, 5});
       }},
      {"acsr",
       [=](const char* id) {
         return shows(id, t8(), "row_list", {0, 2, 6, 4, 7, 1, 5, 3});
       }},
      {"csr-stream", refuses_long_rows},
      {"csr-adaptive",
       [=](const char* id) {
         if (find_format(id).params.empty() || find_format(id).params.front().name != "S" ||
             refuses_long_rows(id))
           return false;
         const Numbers blocks = *array_of(*build(id, two_giant_rows(), {{"S", "8"}}), "block_ptr");
         return std::find(blocks.begin(), blocks.end(), 17) != blocks.end() &&
                std::find(blocks.begin(), blocks.end(), 18) != blocks.end();
       }},
      {"balanced-csr",
       [](const char* id) {
         const auto matrix =
             build(id, id == std::string_view("csr-stream") ? equal_rows(100) : two_giant_rows());
         return array_of(*matrix, "border") && adds_in_order(*matrix);
       }},
      {"vectorized-csr",
       [](const char* id) {
         const auto matrix =
             build(id, id == std::string_view("csr-stream") ? equal_rows(100) : two_giant_rows());
         return array_of(*matrix, "border") && !adds_in_order(*matrix);
       }},
      {"csr-wang", [](const char* id) { return array_of(*build(id, t8()), "length").has_value(); }},
      {"icsr", [](const char* id) { return rows_begin_at_multiples(id, 32, 32); }},
      {"csr-halfwarp-aligned", [](const char* id) { return rows_begin_at_multiples(id, 16, 48); }},
  };
  return all;
}

TEST(RowFamily, EachFormatHasAPropertyThatNoNeighbourHas) {
  for (const Mark& one : marks())
    for (const Mark& other : marks()) {
      const bool same = one.format == std::string_view(other.format);
      EXPECT_EQ(one.holds(other.format), same) << "the property of " << one.format << " in " << other.format;
    }
}

// Long rows are cut among threads, and every piece is added once, whatever the number of threads is.
// The kernel naive adds the entries of a row one after another; native does not.
TEST(RowFamily, TheNaiveKernelAddsInOrder) {
  const CsrMatrix<double> csr = equal_rows(100);
  const auto with = [&](const char* kernel) {
    return make_matrix(find_format("csr"), csr, test_context(), {}, kernel);
  };
  EXPECT_TRUE(adds_in_order(*with("naive")));
  EXPECT_FALSE(adds_in_order(*with("native")));
  EXPECT_EQ(with("naive")->bytes(), csr.bytes());
  const ContextPtr deterministic = Context::host(1, {.deterministic = true});
  EXPECT_THROW(make_matrix(find_format("csr"), csr, deterministic, {}, "naive"), FormatRefused);
}

TEST(RowFamily, GiantRowsForAnyNumberOfThreads) {
  const CsrMatrix<double> csr = two_giant_rows();
  const auto x = sample_vector<double>(csr.cols(), 1), y0 = sample_vector<double>(csr.rows(), 2);
  for (const Form& form : forms())
    for (const int threads : {1, 2, 3, 7, 12}) {
      SCOPED_TRACE(std::string(form.format) + " " + std::to_string(threads));
      const auto A = make_matrix(find_format(form.format), csr, Context::host(threads), form.params);
      auto y = y0;
      A->apply(-0.5, {x.data(), csr.cols()}, 2.0, {y.data(), csr.rows()});
      EXPECT_TRUE(product_is_right(csr, -0.5, x, 2.0, y0, y));
    }
}

// More rows than a processor remembers the lengths of, including empty ones: entries are multiplied eight at a time,
// including entries of the following rows, and never beyond the arrays.
template <class T>
void expect_right_products_of_uneven_rows() {
  constexpr std::int64_t rows = 30011, cols = 5000;
  std::vector<std::int64_t> row_ptr{0};
  std::vector<std::int32_t> col;
  std::vector<T> values;
  std::vector<bool> has_first;  // an entry in column 0
  std::mt19937 random(7);
  for (std::int64_t r = 0; r < rows; ++r) {
    const int length = r % 11 == 3 ? 0 : static_cast<int>(random() % (r % 50 == 9 ? 40 : 12));
    std::set<std::int32_t> in_row;
    while (std::ssize(in_row) < length)
      in_row.insert(r % 4 == 1 && in_row.empty() ? 0 : static_cast<std::int32_t>(1 + random() % (cols - 1)));
    has_first.push_back(in_row.contains(0));
    for (const std::int32_t c : in_row)
      col.push_back(c), values.push_back(static_cast<T>(static_cast<int>(random() % 200) - 100) / 16);
    row_ptr.push_back(std::ssize(col));
  }
  const GuardedArray<const std::int32_t> guarded_col("col", col, Border::end);
  const GuardedArray<const T> guarded_values("values", values, Border::end);
  const std::vector<std::int32_t> row_ptr32(row_ptr.begin(), row_ptr.end());
  const CsrMatrix<T> csr = csr_view(rows, cols, row_ptr32.data(), guarded_col.data(), guarded_values.data());
  ASSERT_TRUE(formats::rows_uneven(csr.pattern));
  const auto x = sample_vector<T>(cols, 1), y0 = sample_vector<T>(rows, 2);
  auto infinite = x;
  infinite[0] = std::numeric_limits<T>::infinity();
  for (const char* id : {"csr", "vectorized-csr", "lightspmv", "csr-adaptive"})
    for (const int threads : {1, 2, 7}) {
      SCOPED_TRACE(std::string(id) + " " + std::to_string(threads));
      const auto A = make_matrix(find_format(id), csr, Context::host(threads));
      auto y = y0;
      A->apply(T(-0.5), {x.data(), cols}, T(2), {y.data(), rows});
      EXPECT_TRUE(product_is_right(csr, T(-0.5), x, T(2), y0, y));
      y.assign(rows, std::numeric_limits<T>::quiet_NaN());
      A->apply(VectorView<const T>{x.data(), cols}, {y.data(), rows});
      EXPECT_TRUE(product_is_right(csr, T(1), x, T(0), y0, y));
      // Infinity in x reaches the rows that have an entry there, and no others.
      A->apply(VectorView<const T>{infinite.data(), cols}, {y.data(), rows});
      for (std::size_t r = 0; r < y.size(); ++r)
        ASSERT_TRUE(has_first[r] || std::isfinite(y[r])) << "row " << r;
    }
}

TEST(RowFamily, ManyRowsOfVaryingLength) {
  expect_right_products_of_uneven_rows<double>();
  expect_right_products_of_uneven_rows<float>();
}

TEST(RowFamily, AcsrAndAdaptiveCutAGiantRowAndTheOthersDoNot) {
  const CsrMatrix<double> csr = of_lengths({40000, 1, 2}, 40000);
  const Numbers x(40000, 1.0 / 3);
  const auto first_sum = [&](const char* id, int threads, bool deterministic) {
    Numbers y(3);
    make_matrix(find_format(id), csr, Context::host(threads, {.deterministic = deterministic}))
        ->apply(VectorView<const double>{x.data(), 40000}, {y.data(), 3});
    return y[0];
  };
  for (const char* id :
       {"csr-guo-gropp", "lightspmv", "balanced-csr", "vectorized-csr", "csr-wang", "acsr", "csr-adaptive"}) {
    const bool cuts = id == std::string_view("acsr") || id == std::string_view("csr-adaptive");
    EXPECT_EQ(first_sum(id, 1, false) != first_sum(id, 3, false), cuts) << id;
    EXPECT_EQ(first_sum(id, 1, true), first_sum(id, 3, true)) << id;
    EXPECT_EQ(first_sum(id, 3, true), first_sum("csr", 2, true)) << id;
  }
}

// Nothing but the tables is allocated, and admit() knows their bytes.
TEST(RowFamily, OnlyTablesAreAllocated) {
  const CsrMatrix<double> csr = two_giant_rows();
  for (const Form& form : forms()) {
    if (!find_format(form.format).traits.uses_source) continue;  // csr-wang has its own arrays
    SCOPED_TRACE(form.format);
    const std::size_t before = allocated_bytes();
    const auto A = build(form.format, csr, form.params);
    EXPECT_EQ(allocated_bytes() - before, A->bytes() - csr.bytes());
    EXPECT_EQ(A->bytes(), admit(A->entry(), *test_context(), csr.pattern, form.params, 8).bytes);
    EXPECT_EQ(A->to_csr().values, csr.values);
  }
}

}  // namespace
}  // namespace protean::test
