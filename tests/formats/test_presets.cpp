// What a preset promises in addition to the contract of its base: its fixed parameters, and the property by which it
// differs from its neighbours. Each property is also shown not to hold for the neighbour.
#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/fake_device.hpp"
#include "support/layout.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

using Numbers = std::vector<double>;
using Property = std::function<bool(const AssembledMatrix<double>&, const CsrMatrix<double>&)>;

// 2,000 rows whose lengths vary among neighbours, as long as 41.
CsrMatrix<double> uneven() {
  constexpr std::int64_t rows = 2000;
  std::int64_t nonzeros = 0;
  const auto length = [](std::int64_t r) { return 1 + (r * 37 + r * r) % 41; };
  for (std::int64_t r = 0; r < rows; ++r) nonzeros += length(r);
  CsrBuilder<double> builder(test_context(), rows, rows, nonzeros);
  std::int64_t k = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < length(r); ++i, ++k)
      builder.col()[k] = static_cast<std::int32_t>((r / 2 + i * 3) % rows), builder.values()[k] = 1 + r % 5;
    std::sort(builder.col() + k - length(r), builder.col() + k);
    builder.set_row_ptr(r + 1, k);
  }
  return builder.freeze();
}

Numbers lengths_of(const CsrMatrix<double>& csr, const Numbers& order) {
  Numbers lengths;
  for (const double r : order)
    lengths.push_back(static_cast<double>(csr.pattern.row_length(static_cast<std::int64_t>(r))));
  return lengths;
}
bool sorted_by_length(const CsrMatrix<double>& csr, const Numbers& perm, std::size_t begin, std::size_t end) {
  const Numbers lengths = lengths_of(csr, {perm.begin() + begin, perm.begin() + end});
  return std::is_sorted(lengths.begin(), lengths.end(), std::greater<>());
}

bool keeps_the_order_of_rows(const AssembledMatrix<double>& matrix, const CsrMatrix<double>&) {
  return layout_numbers(matrix, "perm").empty();
}
// Slices of 32 rows; no row leaves its window of 256, in which lengths descend.
bool sorts_thread_blocks(const AssembledMatrix<double>& matrix, const CsrMatrix<double>& csr) {
  const Numbers perm = layout_numbers(matrix, "perm");
  if (perm.size() != 2000 || layout_numbers(matrix, "slice_ptr").size() != 64) return false;
  for (std::size_t first = 0; first < perm.size(); first += 256) {
    const std::size_t end = std::min(first + 256, perm.size());
    for (std::size_t p = first; p < end; ++p)
      if (perm[p] < static_cast<double>(first) || perm[p] >= static_cast<double>(end)) return false;
    if (!sorted_by_length(csr, perm, first, end)) return false;
  }
  return true;
}
bool sorts_all_rows(const AssembledMatrix<double>& matrix, const CsrMatrix<double>& csr) {
  const Numbers perm = layout_numbers(matrix, "perm");
  return perm.size() == 2000 && layout_numbers(matrix, "slice_ptr").size() == 64 &&
         sorted_by_length(csr, perm, 0, perm.size());
}

struct Difference {
  const char *preset, *neighbour;
  Property property;
};
const std::vector<Difference>& differences() {
  static const std::vector<Difference> all = {
      {"sell", "sell-c-sigma", keeps_the_order_of_rows},   {"sell", "warped-ell", keeps_the_order_of_rows},
      {"warped-ell", "sell-c-sigma", sorts_thread_blocks}, {"warped-ell", "ell-warp", sorts_thread_blocks},
      {"ell-warp", "warped-ell", sorts_all_rows},          {"ell-warp", "sell-c-sigma", sorts_all_rows},
  };
  return all;
}

TEST(Presets, DifferFromTheirNeighbours) {
  const CsrMatrix<double> csr = uneven();
  for (const Difference& one : differences()) {
    SCOPED_TRACE(std::string(one.preset) + " and " + one.neighbour);
    EXPECT_TRUE(one.property(*build(one.preset, csr, most_tolerant(find_format(one.preset))), csr));
    EXPECT_FALSE(one.property(*build(one.neighbour, csr, most_tolerant(find_format(one.neighbour))), csr));
  }
}

// Merge-CSR cuts the long row; csr with whole rows cannot, and gives other bits only by the order of its sums. Both
// were made of the same arrays, which nobody has copied.
TEST(Presets, MergeCsrCutsALongRow) {
  constexpr std::int64_t n = 40000;
  CsrBuilder<double> builder(test_context(), 2, n, n + 1);
  for (std::int64_t k = 0; k < n; ++k)
    builder.col()[k] = static_cast<std::int32_t>(k), builder.values()[k] = 1.0 / static_cast<double>(1 + k);
  builder.col()[n] = 0, builder.values()[n] = 1;
  builder.set_row_ptr(1, n), builder.set_row_ptr(2, n + 1);
  const auto csr = builder.freeze();
  const auto product = [&](const char* format, int threads, const FormatParams& params) {
    const auto context = Context::host(threads);
    const auto A = make_matrix(find_format(format), csr, context, params);
    EXPECT_EQ(A->to_csr().values, csr.values);
    const std::vector<double> x(n, 1.0 / 3);
    std::vector<double> y(2);
    A->apply({x.data(), n}, {y.data(), 2});
    return y[0];
  };
  // Whole rows give the same bits for any number of threads; a row in three pieces does not.
  EXPECT_EQ(product("csr", 3, {{"balance", "rows"}}), product("csr", 1, {{"balance", "rows"}}));
  EXPECT_EQ(product("merge-csr", 3, {}), product("csr", 3, {{"balance", "merge"}}));
  EXPECT_NE(product("merge-csr", 3, {}), product("csr", 3, {{"balance", "rows"}}));
}

TEST(Presets, HaveABaseAndNoParametersThatItFixes) {
  std::int64_t count = 0;
  for (const FormatEntry* entry : catalogue()) {
    if (!entry->preset) {
      EXPECT_TRUE(entry->base.empty()) << entry->id;
      EXPECT_FALSE(entry->engine.empty()) << entry->id;
      continue;
    }
    ++count;
    SCOPED_TRACE(entry->id);
    const FormatEntry& base = find_format(entry->base);
    EXPECT_EQ(entry->engine, base.engine);
    EXPECT_EQ(base.preset, nullptr) << "the base of a preset is no preset";
    std::set<std::string_view> names;
    for (const ParamDoc& doc : settable_params(base)) names.insert(doc.name);
    // Parameters of a device kernel are known if the build has device code.
    const bool device_code = !entry->preset->device_kernel.empty() && !base.device;
    for (const FixedParam& one : entry->preset->fixed) {
      if (device_code && names.count(one.name) == 0) continue;
      EXPECT_TRUE(names.count(one.name)) << one.name << " is no parameter of the base";
      EXPECT_NO_THROW(resolve_params(base, {{std::string(one.name), std::string(one.value)}}));
      for (const ParamDoc& doc : settable_params(*entry)) EXPECT_NE(doc.name, one.name);
    }
    for (const std::string_view name : entry->preset->chosen) {
      EXPECT_TRUE(names.count(name) || device_code) << name << " is no parameter of the base";
      for (const ParamDoc& doc : settable_params(*entry)) EXPECT_NE(doc.name, name);
    }
    EXPECT_EQ(entry->preset->choose != nullptr, !entry->preset->chosen.empty());
  }
  std::int64_t lines = 0;
#define PROTEAN_FORMAT(family, name, engine)
#define PROTEAN_PRESET(family, name) ++lines;
#include "formats/catalogue.def"
#undef PROTEAN_FORMAT
#undef PROTEAN_PRESET
  EXPECT_EQ(count, lines) << "the base of a preset does not stand above it in catalogue.def";
}

TEST(Presets, AFixedParameterCanOnlyBeItself) {
  const auto csr = uneven();
  EXPECT_EQ(build("sell", csr, {{"sigma", "1"}, {"C", "4"}})->params().word("C"), "4");
  try {
    (void)build("sell", csr, {{"sigma", "64"}});
    FAIL() << "another value was taken";
  } catch (const BadArgument& error) {
    EXPECT_NE(std::string(error.what()).find("sell-c-sigma"), std::string::npos) << error.what();
  }
  EXPECT_THROW(build("ell-warp", csr, {{"sigma", "64"}}), BadArgument) << "the preset chooses it";
}

// What a matrix reports as its parameters builds the same matrix again.
TEST(Presets, AMatrixCanBeBuiltAgainFromItsParameters) {
  const auto csr = uneven();
  for (const FormatEntry* entry : catalogue()) {
    if (!entry->preset) continue;
    const auto first = build(entry->id, csr, most_tolerant(*entry)),
               second = build(entry->id, csr, first->params());
    EXPECT_EQ(first->params(), second->params()) << entry->id;
    EXPECT_EQ(first->bytes(), second->bytes()) << entry->id;
    EXPECT_EQ(first->name(), entry->id);
  }
}

}  // namespace
}  // namespace protean::test
