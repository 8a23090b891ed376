// Formats whose columns or rows are coded in few bits: the codec, golden arrays on the catalogue's T8, and the property by which
// each format differs from its neighbours, which is also shown not to hold of the neighbour.
#include <algorithm>
#include <random>
#include <vector>

#include "formats/engines/bits.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/layout.hpp"

namespace protean::test {
namespace {

using formats::bits_of;
using formats::field_at;
using formats::FieldReader;
using formats::FieldWriter;
using formats::symbols_of;

std::uint32_t random_of_width(std::mt19937& random, int width) {
  return width == 0 ? 0u : static_cast<std::uint32_t>(random()) >> (32 - width);
}

TEST(BitStreams, TheWidthOfANumberIsThePlaceOfItsHighestBit) {
  EXPECT_EQ(bits_of(0), 0);
  for (int bit = 0; bit < 32; ++bit) {
    const std::uint32_t power = std::uint32_t{1} << bit;
    EXPECT_EQ(bits_of(power), bit + 1);
    EXPECT_EQ(bits_of(power | (power - 1)), bit + 1);
  }
  EXPECT_EQ(symbols_of(0), 0);
  EXPECT_EQ(symbols_of(1), 1);
  EXPECT_EQ(symbols_of(32), 1);
  EXPECT_EQ(symbols_of(33), 2);
}

// Random widths from 0 to 32 for all lanes, with neighbours on both sides that must stay as they are.
TEST(BitStreams, WhatIsWrittenIsReadInEveryLane) {
  constexpr std::uint32_t untouched = 0xdeadbeef;
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const std::int64_t lanes = 1 + static_cast<std::int64_t>(random() % 9);
    const auto fields = static_cast<std::size_t>(random() % 90);
    const int widest = 1 + static_cast<int>(random() % 33);  // 33: all widths
    std::vector<int> widths(fields);
    std::int64_t bits = 0;
    for (int& width : widths) bits += width = static_cast<int>(random() % static_cast<unsigned>(widest));
    std::vector<std::vector<std::uint32_t>> numbers(static_cast<std::size_t>(lanes));
    const std::int64_t size = symbols_of(bits) * lanes;
    std::vector<std::uint32_t> symbols(static_cast<std::size_t>(size) + 2, untouched);
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      FieldWriter writer(symbols.data() + 1 + lane, lanes);
      for (const int width : widths) {
        numbers[static_cast<std::size_t>(lane)].push_back(random_of_width(random, width));
        writer.put(numbers[static_cast<std::size_t>(lane)].back(), width);
      }
      writer.finish();
    }
    ASSERT_EQ(symbols.front(), untouched);
    ASSERT_EQ(symbols.back(), untouched);
    // Exactly as many as predicted: a reader of the last field is within them, which AddressSanitizer checks.
    const std::vector<std::uint32_t> exact(symbols.begin() + 1, symbols.end() - 1);
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      FieldReader reader(exact.data() + lane, lanes);
      std::int64_t bit = 0;
      for (std::size_t i = 0; i < fields; ++i) {
        const std::uint32_t written = numbers[static_cast<std::size_t>(lane)][i];
        ASSERT_EQ(reader.take(widths[i]), written) << "field " << i << " of lane " << lane;
        ASSERT_EQ(field_at(exact.data() + lane, lanes, bit, widths[i]), written);
        bit += widths[i];
      }
    }
  }
}

// The streams of rows 0 to 3 of T8 in bro-ell: 3 + 1 + 1 + 1 + 1 bits, highest bit first.
TEST(BitStreams, FieldsBeginAtTheHighestBit) {
  const std::vector<int> widths{3, 1, 1, 1, 1};
  const std::vector<std::vector<std::uint32_t>> steps{
      {1, 1, 0, 0, 0}, {2, 1, 1, 1, 1}, {4, 0, 0, 0, 0}, {0, 0, 0, 0, 0}};
  std::vector<std::uint32_t> symbols(4);
  for (std::size_t lane = 0; lane < 4; ++lane) {
    FieldWriter writer(symbols.data() + lane, 4);
    for (std::size_t i = 0; i < 5; ++i) writer.put(steps[lane][i], widths[i]);
    writer.finish();
  }
  EXPECT_EQ(symbols, (std::vector<std::uint32_t>{0b0011000u << 25, 0b0101111u << 25, 0b1000000u << 25, 0}));
}

}  // namespace
}  // namespace protean::test
