// Rules at their borders: what the last column, the 33rd repeated entry or 1024 bytes are.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/buffer.hpp"
#include "core/csr.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/io/matrix_market.hpp"
#include "support/battery.hpp"

namespace protean::test {
namespace {

TEST(Csr, ValidateRefusesTheColumnPastTheLast) {
  const std::int32_t row_ptr[] = {0, 1, 2}, last[] = {0, 1}, past[] = {0, 2};
  const double values[] = {1, 1};
  EXPECT_NO_THROW(validate(*test_context(), csr_view(2, 2, row_ptr, last, values).pattern));
  EXPECT_THROW(validate(*test_context(), csr_view(2, 2, row_ptr, past, values).pattern), BadMatrix);
}

TEST(Csr, PatternsThatDifferInTheirRowsAloneAreNotTheSame) {
  const std::int32_t one[] = {0, 1, 2}, other[] = {0, 2, 2}, col[] = {0, 1};
  const double values[] = {1, 1};
  EXPECT_TRUE(
      same_pattern(csr_view(2, 2, one, col, values).pattern, csr_view(2, 2, one, col, values).pattern));
  EXPECT_FALSE(
      same_pattern(csr_view(2, 2, one, col, values).pattern, csr_view(2, 2, other, col, values).pattern));
}

// One row whose entries lie in columns 1, 0, 1, 0 ... Those of each column are large, -large, 1, large, -large,
// 2 ... Added in this order, each large number takes away what was there before, so the sum is the last entry.
// In the other order 1 - large + large is 0.
std::vector<Triplet<double>> entries_whose_sum_shows_their_order(int triples_of_a_column) {
  constexpr double large = 0x1p60;
  std::vector<Triplet<double>> entries;
  for (int triple = 1; triple <= triples_of_a_column; ++triple)
    for (const double value : {large, -large, static_cast<double>(triple)})
      for (const std::int32_t col : {1, 0}) entries.push_back({0, col, value});
  return entries;
}
constexpr int numbers_of_triples[] = {1, 2, 3, 5, 6, 40};  // rows of 6, 12, 18, 30, 36 and 240 entries

TEST(Csr, RepeatedEntriesAreAddedInTheirOrderInRowsOfAnyLength) {
  for (const int triples : numbers_of_triples) {
    const auto a =
        csr_from_triplets<double>(test_context(), 1, 2, entries_whose_sum_shows_their_order(triples));
    ASSERT_EQ(a.nonzeros(), 2);
    EXPECT_EQ(a.values[0], triples);
    EXPECT_EQ(a.values[1], triples);
  }
}

TEST(MatrixMarket, RepeatedEntriesAreAddedInTheFilesOrderInRowsOfAnyLength) {
  for (const int triples : numbers_of_triples) {
    std::string text = fmt::format("%%MatrixMarket matrix coordinate real general\n1 2 {}\n", 6 * triples);
    for (const Triplet<double>& entry : entries_whose_sum_shows_their_order(triples))
      text += fmt::format("1 {} {}\n", entry.col + 1, entry.value);
    const auto a = read_matrix_market_text(test_context(), "text", text);
    ASSERT_EQ(a.nonzeros(), 2);
    EXPECT_EQ(a.values[0], triples);
    EXPECT_EQ(a.values[1], triples);
  }
}

TEST(Buffer, SizesAtTheEndOfTheAddressSpaceAreRefused) {
  const ContextPtr context = test_context();
  const std::size_t before = allocated_bytes();
  for (const std::size_t less : {0, 1, 63, 4096, 1 << 21})
    EXPECT_THROW((void)detail::allocate(*context, std::numeric_limits<std::size_t>::max() - less),
                 OutOfMemory)
        << less;
  EXPECT_EQ(allocated_bytes(), before);
}

TEST(Buffer, ThePeakIsTheMostThatWasHeldAtOnce) {
  const std::size_t before = allocated_bytes();
  std::size_t peak = 0;
  {
    const std::int64_t more = static_cast<std::int64_t>(peak_allocated_bytes() - before) + 1000;
    const Buffer<char> buffer(test_context(), more);
    EXPECT_EQ(allocated_bytes(), before + static_cast<std::size_t>(more));
    peak = peak_allocated_bytes();
    EXPECT_EQ(peak, before + static_cast<std::size_t>(more));
  }
  EXPECT_EQ(allocated_bytes(), before);
  EXPECT_EQ(peak_allocated_bytes(), peak);
}

// The first node takes part in n^(-1/power) of the ends of edges, power = 1 / (1 - 1 / (exponent - 1)).
TEST(Generate, HubsOfAGraphAreAsLargeAsTheirPowerLawSays) {
  for (const double exponent : {2.5, 3.5}) {
    const double n = 5000, degree = 8, power = 1 / (1 - 1 / (exponent - 1));
    const auto a =
        generate(test_context(), "graph-laplacian", {{"n", n}, {"degree", degree}, {"exponent", exponent}});
    std::int64_t longest = 0;
    for (std::int64_t r = 0; r < a.rows(); ++r) longest = std::max(longest, a.pattern.row_length(r));
    const double ends = n * degree * std::pow(n, -1 / power);
    EXPECT_LT(static_cast<double>(longest), 1.1 * ends) << exponent;
    EXPECT_GT(static_cast<double>(longest), 0.4 * ends) << exponent << ": repeated edges count once";
  }
}

TEST(Error, BytesAreWrittenInTheLargestUnitThatFits) {
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1.0 KiB");
  EXPECT_EQ(human_bytes(std::size_t{1} << 20), "1.0 MiB");
  EXPECT_EQ(human_bytes((std::size_t{1} << 30) * 3 / 2), "1.5 GiB");
}

TEST(Error, OnlyNamesThatAreNearAreSuggested) {
  const std::vector<std::string_view> names{"bicgstab", "gmres"};
  EXPECT_EQ(nearest_name("bicgstap", names), "bicgstab");
  EXPECT_EQ(nearest_name("gmre", names), "gmres");
  EXPECT_EQ(nearest_name("multigrid", names), "");
  EXPECT_EQ(did_you_mean("multigrid", names), "");
}

TEST(Error, NamesOfOtherProgramsAndExchangedLettersAreSuggestedFirst) {
  const std::vector<std::string_view> formats{"cmrs", "csr",      "csc",           "cds",
                                              "bcsr", "coo",      "sell",          "dia",
                                              "ell",  "bellpack", "sliced-ellr-t", "sell-c-sigma"};
  const std::pair<std::string_view, std::string_view> of_formats[] = {{"crs", "csr"},
                                                                      {"CRS", "csr"},
                                                                      {"scr", "csr"},
                                                                      {"ccs", "csc"},
                                                                      {"bsr", "bcsr"},
                                                                      {"coordinate", "coo"},
                                                                      {"diagonal", "dia"},
                                                                      {"ellpack", "ell"},
                                                                      {"sliced-ell", "sell"},
                                                                      {"Sliced_ELL", "sell"},
                                                                      {"SELL C SIGMA", "sell-c-sigma"}};
  for (const auto& [theirs, ours] : of_formats) EXPECT_EQ(nearest_name(theirs, formats), ours) << theirs;
  const std::vector<std::string_view> methods{"cg", "fcg", "minres", "bicgstab", "bicgstab2", "idr", "gmres"};
  const std::pair<std::string_view, std::string_view> of_methods[] = {
      {"conjugate-gradient", "cg"}, {"pcg", "cg"},        {"bicg-stab", "bicgstab"},
      {"BiCGStab(2)", "bicgstab2"}, {"bcgs", "bicgstab"}, {"IDR(s)", "idr"},
      {"gmrse", "gmres"},           {"gc", "cg"}};
  for (const auto& [theirs, ours] : of_methods) EXPECT_EQ(nearest_name(theirs, methods), ours) << theirs;
  const std::vector<std::string_view> preconditioners{"none", "jacobi", "ssor", "ic0",
                                                      "ic",   "ilu0",   "ilu",  "amg"};
  const std::pair<std::string_view, std::string_view> of_preconditioners[] = {
      {"diagonal", "jacobi"}, {"icc", "ic0"},  {"ILU(0)", "ilu0"}, {"boomeramg", "amg"},
      {"multigrid", "amg"},   {"sor", "ssor"}, {"iluk", "ilu"},    {"identity", "none"}};
  for (const auto& [theirs, ours] : of_preconditioners)
    EXPECT_EQ(nearest_name(theirs, preconditioners), ours) << theirs;
  // Where ours is not allowed, nothing is made of theirs.
  EXPECT_EQ(nearest_name("multigrid", methods), "");
}

TEST(Context, NumbersOfThreadsBelowZeroAreRefused) {
  for (const int threads : {-1, 1025, std::numeric_limits<int>::max()})
    EXPECT_THROW((void)Context::host(threads), BadArgument) << threads;
  EXPECT_EQ(Context::host(1024)->threads(), 1024);
  EXPECT_EQ(Context::host(3)->threads(), 3);
  EXPECT_GE(Context::host(0)->threads(), 1);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// What the tests themselves print (support/crash_trace.cpp).
TEST(CrashTraceDeathTest, NamesTheTestTheAddressAndTheCalls) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // threads of the library are there
  volatile std::uintptr_t nowhere = 8;
  EXPECT_EXIT(*reinterpret_cast<volatile int*>(nowhere) = 1, testing::KilledBySignal(SIGSEGV),
              "fault: Segmentation fault at 0x0000000000000008 in "
              "CrashTraceDeathTest.NamesTheTestTheAddressAndTheCalls.*main.*"
              "NamesTheTestTheAddressAndTheCalls_Test::TestBody");
}
#endif

}  // namespace
}  // namespace protean::test
