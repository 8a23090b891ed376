// Sizes and names in messages: units, and the name that was meant.
#include "core/error.hpp"
#include "core/words.hpp"

#include <gtest/gtest.h>

#include <string_view>
#include <utility>
#include <vector>

namespace protean::test {
namespace {

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
  EXPECT_EQ(detail::did_you_mean("multigrid", names), "");
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
  // If ours is not allowed, nothing is made of theirs.
  EXPECT_EQ(nearest_name("multigrid", methods), "");
}

}  // namespace
}  // namespace protean::test
