// Format cocktail: what it is made of, the policies of clSpMV, and the counts from which it plans.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "formats/compose.hpp"
#include "formats/composed/cocktail_rates.hpp"
#include "formats/composed/planners.hpp"
#include "formats/engines/composed/cut.hpp"
#include "formats/engines/composed/tally.hpp"
#include "gtest/gtest.h"
#include "support/layout.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

using Matrix = AssembledMatrix<double>;

// The distinguishing property of cocktail: a list of parts whose shares add up to all entries, each entry in one part,
// and each in one of the nine formats.
bool is_a_cocktail(const Matrix& matrix) {
  const auto* shown = dynamic_cast<const HasParts*>(&matrix);
  if (!shown) return false;
  std::int64_t entries = 0;
  for (const PartShare& share : shown->part_shares()) {
    entries += share.entries;
    const std::vector<std::string_view> nine{"dia", "bdia", "ell",       "sell", "csr",
                                             "coo", "bell", "bsellpack", "bcsr"};
    if (std::find(nine.begin(), nine.end(), share.format) == nine.end()) return false;
  }
  return entries == matrix.nonzeros();
}
std::string parts_in(const Matrix& matrix) {
  return text_of(dynamic_cast<const HasParts&>(matrix).part_shares());
}

TEST(FamilyComposed, OnlyCocktailIsAListOfTheNineFormats) {
  for (const char* name : {"t8", "stencil_7point_12", "blocks_3x3_60", "power_law_500"}) {
    const CsrMatrix<double>& csr = battery_matrix(name);
    EXPECT_TRUE(is_a_cocktail(*build("cocktail", csr))) << name;
    for (const char* other : {"hyb", "hdc", "hec", "csr"})
      EXPECT_FALSE(is_a_cocktail(*build(other, csr))) << other;
    EXPECT_FALSE(is_a_cocktail(*build("sum", csr, {{"parts", "ell:width(entries=1) + csr5"}})));
  }
}

TEST(FamilyComposed, CocktailTakesDiagonalsBlocksAndTheRest) {
  const FormatParams by_bytes{{"plan", "bytes"}};
  // A stencil is diagonals, and a few dense diagonals are all that a band has.
  EXPECT_EQ(parts_in(*build("cocktail", generate(test_context(), "poisson-3d", {{"n", 12}}), by_bytes)),
            "dia(100%) csr(0%)");
  // 3 x 3 blocks at scattered places.
  std::vector<Triplet<double>> list;
  for (std::int32_t b = 0; b < 60; ++b)
    for (const std::int32_t other : {(b * 17 + 3) % 60, (b * 29 + 11) % 60})
      for (std::int32_t i = 0; i < 9; ++i) list.push_back({3 * b + i / 3, 3 * other + i % 3, 1.0 + i});
  const auto blocks = csr_from_triplets<double>(test_context(), 180, 180, list);
  const std::string of_blocks = parts_in(*build("cocktail", blocks, by_bytes));
  EXPECT_EQ(of_blocks, "dia(0%) bell(100%) csr(0%)");  // two blocks in each row of blocks
  // All three.
  for (std::int32_t r = 0; r < 180; ++r)
    list.push_back({r, r, 5.0}), list.push_back({r, (r * 77 + 5) % 180, 2.0});
  const auto all = build("cocktail", csr_from_triplets<double>(test_context(), 180, 180, list), by_bytes);
  const std::vector<PartShare> shares = dynamic_cast<const HasParts&>(*all).part_shares();
  ASSERT_EQ(shares.size(), 3u);
  for (const PartShare& share : shares) EXPECT_GT(share.entries, 100);
  // Single formats are allowed: neither diagonals nor blocks.
  EXPECT_EQ(parts_in(*build("cocktail", t8(), {{"plan", "bytes"}, {"min_share", "90"}})),
            "dia(0%) csr(100%)");
  EXPECT_EQ(parts_in(*build("cocktail", t8(), {{"plan", "bytes"}, {"diagonals", "no"}, {"blocks", "no"}})),
            "csr(100%)");
}

TEST(FamilyComposed, TheRestIsInTheFormatOfFewestBytes) {
  const FormatParams flat{{"plan", "bytes"}, {"diagonals", "no"}, {"blocks", "no"}};
  // Rows of one length: ell has no row pointers. Few rows with entries: coo has none either.
  std::vector<Triplet<double>> equal, few;
  for (std::int32_t r = 0; r < 200; ++r)
    for (std::int32_t k = 0; k < 5; ++k) equal.push_back({r, (r * 13 + k * 37) % 200, 1.0});
  for (std::int32_t r = 0; r < 200; r += 10) few.push_back({r, (r * 13) % 200, 1.0});
  EXPECT_EQ(parts_in(*build("cocktail", csr_from_triplets<double>(test_context(), 200, 200, equal), flat)),
            "ell(100%)");
  EXPECT_EQ(parts_in(*build("cocktail", csr_from_triplets<double>(test_context(), 200, 200, few), flat)),
            "coo(100%)");
}

// ---- The policies of clSpMV, with times of the test

// Seconds = bytes / bandwidth + overhead; a format that is not named has bandwidth 1.
struct Machine {
  std::map<std::string, double, std::less<>> bandwidth = {};
  double overhead = 0;
  formats::PartSeconds seconds() const {
    return [this](std::string_view format, const FormatParams&, const formats::PartSizes&,
                  const Admission& size) {
      const auto found = bandwidth.find(format);
      return overhead +
             1e-9 * static_cast<double>(size.bytes) / (found == bandwidth.end() ? 1.0 : found->second);
    };
  }
  // The parts that are stored, with their rules. What was predicted of them is what the cut gives.
  std::string plan(const CsrMatrix<double>& csr, const formats::CocktailOptions& options = {},
                   const ContextPtr& context = test_context(),
                   const formats::CutTools& tools = formats::cuts_on_host()) const {
    const formats::PredictedPlan plan =
        formats::predict_cocktail(*context, csr.pattern, 8, tools, seconds(), options);
    std::vector<formats::CutRule> rules;
    for (const formats::PredictedPart& one : plan.parts) rules.push_back(formats::rule_of(one.part));
    const auto cut = tools.cut(*context, csr.pattern, rules, 8);
    std::string text;
    for (std::size_t i = 0; i < plan.parts.size(); ++i) {
      const formats::PredictedPart& one = plan.parts[i];
      EXPECT_EQ(one.entries, cut->entries[i]) << one.part.format << ":" << one.part.take;
      if (one.entries == 0) continue;
      cut->with_pattern(*context, csr.pattern, static_cast<int>(i), [&](const SparsityPattern& its) {
        const Admission size = admit(find_format(one.part.format), *context, its, one.part.parameters, 8);
        EXPECT_TRUE(size.ok) << size.reason;
        // On a device csr and coo have tables, too.
        if (context->space() == Space::host) {
          EXPECT_EQ(one.bytes, size.bytes) << one.part.format << ":" << one.part.take;
        }
      });
      text += text.empty() ? "" : " ";
      text += fmt::format("{}:{}({})", one.part.format, one.part.take, one.entries);
    }
    return text;
  }
};

TEST(Cocktail, DiagonalsAreDenseAboveTheRatioOfTheSpeeds) {
  const auto stencil = generate(test_context(), "poisson-3d", {{"n", 12}});
  // 8.1 bytes an entry of a full diagonal against 12 and more in flat formats.
  const std::string fast = Machine{}.plan(stencil);
  EXPECT_EQ(fast.substr(fast.find(':')), fmt::format(":diagonals({})", stencil.nonzeros()));
  // At a tenth of the bandwidth no diagonal is dense.
  const Machine slow{.bandwidth = {{"dia", 0.1}, {"bdia", 0.1}}},
      between{.bandwidth = {{"dia", 0.75}, {"bdia", 0.75}}};
  EXPECT_EQ(slow.plan(stencil).find("diagonals"), std::string::npos);
  // Between: e_d > n_d g_f / g_d. At 0.75 of the bandwidth the border is above 80 percent: the main diagonal and its
  // neighbours are full to 92 percent and more.
  EXPECT_NE(between.plan(stencil).find("diagonals"), std::string::npos);
}

// Blocks of 4 x 4 at scattered places, of which 12 of 16 values are entries.
CsrMatrix<double> blocks_of_twelve() {
  std::vector<Triplet<double>> list;
  for (std::int32_t b = 0; b < 200; ++b)
    for (const std::int32_t other : {(b * 17 + 3) % 200, (b * 29 + 11) % 200})
      for (std::int32_t i = 0; i < 16; ++i)
        if (i % 4 != 3) list.push_back({4 * b + i / 4, 4 * other + i % 4, 1.0 + i});
  return csr_from_triplets<double>(test_context(), 800, 800, list);
}

TEST(Cocktail, BlocksAreDenseAboveTheRatioOfTheSpeeds) {
  const auto csr = blocks_of_twelve();
  // 8.4 bytes a value of a 4 x 4 block against 12: dense above 70 percent. These have 75.
  EXPECT_NE(Machine{}.plan(csr).find(":blocks("), std::string::npos) << Machine{}.plan(csr);
  // With 0.85 of the bandwidth the border is above 80 percent.
  const Machine slower{.bandwidth = {{"bcsr", 0.85}, {"bell", 0.85}, {"bsellpack", 0.85}}};
  EXPECT_EQ(slower.plan(csr).find(":blocks("), std::string::npos) << slower.plan(csr);
  // SBELL, BELL and BCSR: the fastest alone.
  for (const char* fastest : {"bcsr", "bell", "bsellpack"}) {
    const std::string plan = Machine{.bandwidth = {{fastest, 1.5}}}.plan(csr);
    EXPECT_NE(plan.find(std::string(fastest) + ":blocks("), std::string::npos) << plan;
  }
}

// 100 rows of 2 entries, 10 of which have 50 more. ELL is twice as fast as csr for each byte, so the widest w with
// (z + e) / g_ELL < e / m_c, g_ELL / m_c = 2 (12 + 400 / 700) / 12 = 2.1, is that with more than 47.7 percent of the
// slots filled: 220 of 400 with w = 4, but 230 of 500 with w = 5.
TEST(Cocktail, EllHasTheWidthOfThePaper) {
  std::vector<Triplet<double>> list;
  for (std::int32_t r = 0; r < 100; ++r)
    for (std::int32_t k = 0; k < (r % 10 == 0 ? 52 : 2); ++k)
      list.push_back({r, (r * 37 + k * 7) % 401, 1.0});
  const auto csr = csr_from_triplets<double>(test_context(), 100, 401, list);
  ASSERT_EQ(csr.nonzeros(), 700);
  const std::map<std::string, double, std::less<>> slow{{"dia", 0.01},  {"bdia", 0.01},      {"bcsr", 0.01},
                                                        {"bell", 0.01}, {"bsellpack", 0.01}, {"coo", 0.01}};
  Machine machine{.bandwidth = slow};
  machine.bandwidth["ell"] = 2, machine.bandwidth["sell"] = 0.01;
  EXPECT_EQ(machine.plan(csr), "ell:width(220) csr:rest(480)");
  // SELL takes the width in each slice, and ELL is slow.
  machine.bandwidth["ell"] = 0.01, machine.bandwidth["sell"] = 2;
  EXPECT_NE(machine.plan(csr).find("sell:width("), std::string::npos) << machine.plan(csr);
  // m_c > m_e: CSR alone, or COO alone.
  machine.bandwidth["sell"] = 0.9;
  EXPECT_EQ(machine.plan(csr), "csr:rest(700)");
  machine.bandwidth["coo"] = 2;
  EXPECT_EQ(machine.plan(csr), "coo:rest(700)");
}

// A matrix of full blocks at scattered places: bcsr alone, without a part of dense blocks and a rest; whole blocks lie
// together, for the SIMD kernel, and not the units of clSpMV's GPU.
TEST(Cocktail, BlocksLieTogetherOnAHost) {
  std::vector<Triplet<double>> list;
  for (std::int32_t b = 0; b < 400; ++b)
    for (const std::int32_t other : {(b * 17 + 3) % 400, (b * 29 + 11) % 400, (b * 41 + 7) % 400})
      for (std::int32_t i = 0; i < 16; ++i) list.push_back({4 * b + i / 4, 4 * other + i % 4, 1.0 + i});
  const auto csr = csr_from_triplets<double>(test_context(), 1600, 1600, list);
  const auto matrix = build("cocktail", csr);
  ASSERT_EQ(parts_in(*matrix).substr(0, 10), "bcsr(100%)") << parts_in(*matrix);
  const auto alone = build("bcsr", csr, {{"rows", "4"}, {"cols", "4"}});
  EXPECT_EQ(matrix->bytes(), alone->bytes());
}

// All in one format of blocks or diagonals, if that is the fastest.
TEST(Cocktail, TheWholeMatrixMayBeOfBlocksOrDiagonals) {
  const auto csr = blocks_of_twelve();
  const Machine fast_blocks{.bandwidth = {{"bcsr", 3}}},
      fast_diagonals{.bandwidth = {{"dia", 50}}, .overhead = 1e-3};
  EXPECT_EQ(fast_blocks.plan(csr).substr(0, 5), "bcsr:");
  const auto stencil = generate(test_context(), "poisson-3d", {{"n", 12}});
  const std::string dia = fast_diagonals.plan(stencil);
  EXPECT_TRUE(dia == fmt::format("dia:rest({})", stencil.nonzeros()) ||
              dia == fmt::format("dia:diagonals({})", stencil.nonzeros()))
      << dia;
}

// A diagonal and three scattered entries a row: in two parts if nothing else counts.
CsrMatrix<double> diagonal_and_scattered() {
  std::vector<Triplet<double>> list;
  for (std::int32_t r = 0; r < 300; ++r) {
    list.push_back({r, r, 4.0});
    for (const std::int32_t k : {1, 2, 3}) list.push_back({r, (r * 77 + k * 53 + 5) % 300, 1.0});
  }
  return csr_from_triplets<double>(test_context(), 300, 300, list);
}

// A plan of several parts must promise more than its margin.
TEST(Cocktail, ASumMustSaveItsMargin) {
  const auto csr = diagonal_and_scattered();
  EXPECT_NE(Machine{}.plan(csr).find(' '), std::string::npos) << Machine{}.plan(csr);
  EXPECT_EQ(Machine{}.plan(csr, {.margin = 100}).find(' '), std::string::npos);
}

TEST(Cocktail, SmallPartsAreMerged) {
  const auto csr = diagonal_and_scattered();
  EXPECT_NE(Machine{}.plan(csr).find(' '), std::string::npos) << Machine{}.plan(csr);
  EXPECT_EQ(Machine{.overhead = 1}.plan(csr).find(' '), std::string::npos);
}

// Rows of different lengths, diagonals and blocks that share entries: whatever is the fastest, the plan that was
// counted is the plan that is cut. Machine::plan() looks at each part.
TEST(Cocktail, WhatIsCountedIsWhatIsCut) {
  std::vector<Triplet<double>> list;
  for (std::int32_t b = 0; b < 149; ++b)
    for (const std::int32_t other : {(b * 17 + 3) % 149, (b * 29 + 11) % 149})
      for (std::int32_t i = 0; i < 16; ++i)
        if (i != b % 16) list.push_back({4 * b + i / 4, 4 * other + i % 4, 1.0 + i});
  for (std::int32_t r = 0; r < 597; ++r) {
    for (std::int32_t d = 0; d < 5; ++d)
      if (r + d < 600 && (r + d) % 23 != 0) list.push_back({r, r + d, 2.0});
    list.push_back({r, (r + 300) % 600, 1.0});
    for (std::int32_t k = 0; k < (r % 50 == 0 ? 90 : r % 4); ++k)
      list.push_back({r, (r * 77 + k * 53 + 5) % 600, 1.0});
  }
  const auto mixed = csr_from_triplets<double>(test_context(), 597, 600, list);
  std::set<std::string> plans;
  for (const char* name : {"mixed", "t8", "stencil_7point_12", "blocks_3x3_60", "power_law_500"})
    for (const double diagonals : {0.5, 1.0, 2.0})
      for (const double blocks : {0.5, 1.0, 1.5, 3.0})
        for (const auto& [ell, sell] : {std::pair{0.9, 0.9}, {2.0, 1.0}, {1.0, 2.0}})
          for (const int threads : {1, 3}) {
            const Machine machine{.bandwidth = {{"dia", diagonals},
                                                {"bdia", (blocks > 1 ? 1.1 : 0.9) * diagonals},
                                                {"bcsr", blocks},
                                                {"bell", blocks},
                                                {"bsellpack", 0.9 * blocks},
                                                {"ell", ell},
                                                {"sell", sell}}};
            const CsrMatrix<double>& csr = name == std::string("mixed") ? mixed : battery_matrix(name);
            plans.insert(machine.plan(csr, {}, Context::host(threads)));
          }
  EXPECT_GT(plans.size(), 12u) << "the machines make different plans";
  for (const char* rule : {":diagonals(", ":blocks(", ":width(", "bdia:"})
    EXPECT_TRUE(std::any_of(plans.begin(), plans.end(), [&](const std::string& plan) {
      return plan.find(rule) != std::string::npos;
    })) << rule;
  EXPECT_TRUE(std::any_of(plans.begin(), plans.end(), [](const std::string& plan) {
    return plan.find(":diagonals(") != std::string::npos && plan.find(":blocks(") != std::string::npos;
  })) << "diagonals and blocks together";
}

// Tools that count how often a matrix is cut and walked through.
class CountingTools final : public formats::CutTools {
 public:
  mutable int cuts = 0, passes = 0;
  std::shared_ptr<const formats::Cut> cut(const Context& context, const SparsityPattern& pattern,
                                          std::span<const formats::CutRule> rules,
                                          std::size_t value_bytes) const override {
    ++cuts;
    return formats::cuts_on_host().cut(context, pattern, rules, value_bytes);
  }
  std::unique_ptr<formats::Tally> tally(const Context& context,
                                        const SparsityPattern& pattern) const override {
    return std::make_unique<Counting>(*this, formats::host_tally(context, pattern));
  }
  CsrMatrix<double> join(const ContextPtr& context, std::span<const CsrMatrix<double>> parts) const override {
    return formats::cuts_on_host().join(context, parts);
  }
  CsrMatrix<float> join(const ContextPtr& context, std::span<const CsrMatrix<float>> parts) const override {
    return formats::cuts_on_host().join(context, parts);
  }

 private:
  class Counting final : public formats::Tally {
   public:
    Counting(const CountingTools& tools, std::unique_ptr<formats::Tally> real)
        : tools_(tools), real_(std::move(real)) {}
    std::unique_ptr<formats::Lengths> rows() const override { return real_->rows(); }
    std::unique_ptr<formats::Lengths> rows_without(std::span<const std::int32_t> diagonals) const override {
      ++tools_.passes;
      return real_->rows_without(diagonals);
    }
    std::unique_ptr<formats::DiagonalTally> diagonals() const override {
      ++tools_.passes;
      return real_->diagonals();
    }
    formats::BlockTally blocks(const formats::BlockPass& pass) const override {
      ++tools_.passes;
      return real_->blocks(pass);
    }
    bool may_have_blocks(const formats::BlockShape& shape, std::int64_t min_fill) const override {
      return real_->may_have_blocks(shape, min_fill);
    }
    double imbalance(const formats::LengthSums& rows) const override { return real_->imbalance(rows); }

   private:
    const CountingTools& tools_;
    std::unique_ptr<formats::Tally> real_;
  };
};

// clSpMV plans from histograms. Each pass over the entries costs some products, and a cut and the admission of its
// parts far more.
TEST(Cocktail, APlanCutsOnce) {
  const FormatEntry& entry = find_format("cocktail");
  for (const char* name : {"stencil_7point_12", "blocks_3x3_60", "power_law_500"})
    for (const bool blocks : {true, false}) {
      const CountingTools tools;
      const FormatParams params = resolve_params(entry, {{"blocks", blocks ? "yes" : "no"}});
      const auto plan =
          formats::plan_cocktail(*test_context(), battery_matrix(name).pattern, params, 8, tools);
      EXPECT_EQ(tools.cuts, 1) << name;
      // For diagonals 2; for blocks 8 sizes of the paper and 3, and twice 2 next to diagonals.
      EXPECT_LE(tools.passes, blocks ? 17 : 2) << name;
    }
}

// Scattered entries have no blocks, which a sample of the rows shows.
TEST(Cocktail, ASampleTellsThatThereAreNoBlocks) {
  const CountingTools tools;
  const FormatParams params = resolve_params(find_format("cocktail"), {});
  const auto scattered = generate(test_context(), "random-spd", {{"n", 6000}});
  const auto plan = formats::plan_cocktail(*test_context(), scattered.pattern, params, 8, tools);
  EXPECT_LE(tools.passes, 2) << "diagonals alone";
  const auto elasticity = generate(test_context(), "elasticity-3d", {{"n", 12}});
  ASSERT_GT(elasticity.rows(), 4 * 768);
  const auto other = formats::plan_cocktail(*test_context(), elasticity.pattern, params, 8, tools);
  EXPECT_GE(tools.passes, 6) << "blocks of 3 x 3";
}

// Advice of the user, as in clSpMV: "if the exemplar matrices do not have any dense blocks, one can advise clSpMV to
// skip the analysis of the block based formats".
TEST(Cocktail, WhatIsForbiddenIsNotTaken) {
  const Machine all_fast{
      .bandwidth = {{"bcsr", 3}, {"bell", 3}, {"bsellpack", 3}, {"dia", 50}, {"bdia", 50}}};
  const auto has = [](const std::string& plan, std::initializer_list<const char*> formats) {
    return std::any_of(formats.begin(), formats.end(), [&](const char* format) {
      return plan.find(std::string(format) + ":") != std::string::npos;
    });
  };
  const auto stencil = generate(test_context(), "poisson-3d", {{"n", 12}});
  EXPECT_TRUE(has(all_fast.plan(stencil), {"dia", "bdia"}));
  EXPECT_FALSE(has(all_fast.plan(stencil, {.diagonals = false}), {"dia", "bdia"}));
  const auto blocks = blocks_of_twelve();
  EXPECT_TRUE(has(all_fast.plan(blocks), {"bcsr", "bell", "bsellpack"}));
  EXPECT_FALSE(has(all_fast.plan(blocks, {.blocks = false}), {"bcsr", "bell", "bsellpack"}));
  // By the parameters of the format.
  const auto nothing = parts_in(*build("cocktail", stencil, {{"diagonals", "no"}, {"blocks", "no"}}));
  for (const char* format : {"dia(", "bcsr(", "bell(", "bsellpack("})
    EXPECT_EQ(nothing.find(format), std::string::npos) << nothing;
}

// CSR if u max nnz(i) / g_CSR < n / g_COO. Here COO has 0.91 to 0.95 of the speed of CSR.
TEST(Cocktail, CsrAgainstCooIsAQuestionOfBalance) {
  const auto matrix = [](std::int32_t longest) {
    std::vector<Triplet<double>> list;
    for (std::int32_t r = 0; r < 2000; ++r)
      for (std::int32_t k = 0; k < (r == 7 ? longest : 4); ++k)
        list.push_back({r, (r * 37 + k * 11) % 9001, 1.0});
    return csr_from_triplets<double>(test_context(), 2000, 9001, list);
  };
  const double coo = 0.95 * 16 / 13;  // bytes an entry, with row pointers for 4 entries in CSR
  Machine machine{.bandwidth = {{"coo", coo}}};
  for (const char* other : {"dia", "bdia", "bcsr", "bell", "bsellpack", "ell", "sell"})
    machine.bandwidth[other] = 0.01;
  const auto even = matrix(4), uneven = matrix(8000);
  const ContextPtr four = Context::host(4), one = Context::host(1);
  EXPECT_EQ(machine.plan(even, {}, four), "csr:rest(8000)");
  EXPECT_EQ(machine.plan(uneven, {}, four), "coo:rest(15996)")
      << "one of four threads would have half of the entries";
  EXPECT_EQ(machine.plan(uneven, {}, one), "csr:rest(15996)");
}

// A measurement during which csr was disturbed gives a rate far above the rates of the neighbouring sizes.
TEST(Cocktail, NoRateOfTheTableStandsOut) {
  const double disturbed[] = {1.48, 1.80, 2.01, 1.46, 7.69, 1.65}, falling[] = {3.2, 1.9, 1.8, 1.4, 1.0, 0.2};
  EXPECT_EQ(formats::stands_out(disturbed, 4), 1);
  EXPECT_EQ(formats::stands_out(falling, 5), -1);
  EXPECT_EQ(formats::stands_out(falling, 0), 0);
  ASSERT_GT(formats::cocktail_table().size(), 180u);
  for (const formats::CocktailRates& row : formats::cocktail_table())
    for (int i = 0; i < 6; ++i)
      EXPECT_NE(formats::stands_out(row.rates, i), 1) << row.format << " " << row.R << " x " << row.C << ", "
                                                      << row.value_bytes << " bytes: " << row.rates[i];
}

#if defined(PROTEAN_HAVE_CUDA)
// The counts of a GPU and the plans made of them agree with the host.
TEST(Cocktail, CountsOnADeviceAreThoseOfAHost) {
  const ContextPtr context = test_context(Space::device);
  if (!context) GTEST_SKIP() << no_device;
  for (const char* name : {"t8", "stencil_7point_12", "blocks_3x3_60", "power_law_500", "empty_rows_50"}) {
    const CsrMatrix<double>& csr = battery_matrix(name);
    const CsrMatrix<double> there = upload(context, csr);
    const auto here = formats::host_tally(*test_context(), csr.pattern),
               device = formats::cuts_on_device().tally(*context, there.pattern);
    const auto same = [&](const formats::Lengths& a, const formats::Lengths& b, const char* of) {
      for (const std::int64_t slice : {8, 32}) {
        const formats::LengthSums x = a.sums(slice), y = b.sums(slice);
        EXPECT_EQ(std::tie(x.rows, x.entries, x.longest, x.filled, x.changes, x.slots, x.last),
                  std::tie(y.rows, y.entries, y.longest, y.filled, y.changes, y.slots, y.last))
            << name << ": " << of;
      }
      EXPECT_EQ(a.histogram(9), b.histogram(9)) << name << ": " << of;
    };
    const auto cuts = [&](const formats::Lengths& a, const formats::Lengths& b) {
      same(a, b, "rows");
      const auto x = a.by_width(3), y = b.by_width(3), z = a.by_slices(60), w = b.by_slices(60);
      same(*x.taken, *y.taken, "width"), same(*x.left, *y.left, "beyond the width");
      same(*z.taken, *w.taken, "slices"), same(*z.left, *w.left, "beyond the slices");
    };
    cuts(*here->rows(), *device->rows());
    const auto x = here->diagonals(), y = device->diagonals();
    for (const std::int64_t percent : {0, 30, 80}) {
      const std::vector<std::int32_t> offsets = x->above(percent);
      EXPECT_EQ(offsets, y->above(percent)) << name;
      EXPECT_EQ(x->entries(offsets), y->entries(offsets)) << name;
      cuts(*here->rows_without(offsets), *device->rows_without(offsets));
      for (const formats::BlockShape& shape : {formats::BlockShape{2, 4}, {8, 8}, {3, 3}, {1, 4}})
        for (const bool first : {true, false}) {
          formats::BlockPass pass{.shape = shape, .min_fill = 60, .diagonals = true};
          (first ? pass.before : pass.after) = offsets;
          const formats::BlockTally a = here->blocks(pass), b = device->blocks(pass);
          EXPECT_EQ(a.dense_entries, b.dense_entries) << name;
          same(*a.all, *b.all, "blocks"), same(*a.dense, *b.dense, "dense blocks"),
              same(*a.left, *b.left, "left");
          EXPECT_EQ(a.diagonals->above(20), b.diagonals->above(20)) << name;
        }
    }
    for (const double blocks : {0.8, 1.5, 3.0}) {
      const Machine machine{.bandwidth = {{"ell", 1.5}, {"bcsr", blocks}, {"bell", blocks}}};
      EXPECT_FALSE(machine.plan(there, {}, context, formats::cuts_on_device()).empty());
    }
  }
}
#endif

}  // namespace
}  // namespace protean::test
