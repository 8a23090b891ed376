// Binary files of matrices: round trips, damage, and arrays that are no matrix.
#include "core/identical.hpp"
#include "core/io/pbin.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "core/csr_view.hpp"
#include "core/generate/generate.hpp"
#include "core/io/atomic_file.hpp"
#include "core/io/matrix_market.hpp"
#include "core/io/pbin_parts.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/folder.hpp"
#include "support/text.hpp"

namespace protean::test {
namespace {

namespace fs = std::filesystem;

TEST(Pbin, RoundTripOfTheBatteryIsBitForBit) {
  const Folder folder;
  for (const BatteryMatrix& entry : battery()) {
    const std::string path = folder / (entry.name + ".pbin");
    write_pbin(*test_context(), path, entry.matrix);
    for (bool verify : {true, false}) {
      const auto a = read_pbin(test_context(), path, verify);
      EXPECT_TRUE(identical(a, entry.matrix)) << path;
      EXPECT_EQ(a.pattern.row_ptr.width(), entry.matrix.pattern.row_ptr.width());
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.values) % 64, 0u);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.pattern.col) % 64, 0u);
    }
    EXPECT_TRUE(identical(read_matrix(test_context(), path), entry.matrix));
  }
}

TEST(Pbin, IsMappedAndOutlivesItsReplacement) {
  const Folder folder;
  const auto a = generate(test_context(), "poisson-3d", {{"n", 30}});
  write_pbin(*test_context(), folder / "a.pbin", a);
  const std::size_t before = allocated_bytes();
  const auto mapped = read_pbin(test_context(), folder / "a.pbin");
  EXPECT_EQ(allocated_bytes(), before);
  write_pbin(*test_context(), folder / "a.pbin", t8());
  fs::remove(folder / "a.pbin");
  EXPECT_TRUE(identical(mapped, a));
}

TEST(Pbin, EveryDamagedByteIsNoticed) {
  const Folder folder;
  write_pbin(*test_context(), folder / "a.pbin", t8());
  const std::string good = slurp(folder / "a.pbin");
  ASSERT_EQ(good.size(), 128u + 64 + 128 + 192);
  int accepted = 0;
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << i % 8));
    std::ofstream(folder / "bad.pbin", std::ios::binary) << bad;
    try {
      EXPECT_TRUE(identical(read_pbin(test_context(), folder / "bad.pbin"), t8())) << i;
      ++accepted;
    } catch (const BadFile&) {}
  }
  EXPECT_EQ(accepted, 64 - 36 + 128 - 96);  // the padding after 9 row pointers and 24 columns
}

TEST(Pbin, BadFilesAreRefusedWithAReason) {
  const Folder folder;
  write_pbin(*test_context(), folder / "a.pbin", battery_matrix("dense_17x17"));
  const std::string good = slurp(folder / "a.pbin");
  const auto message = [&](const std::string& bytes) {
    std::ofstream(folder / "bad.pbin", std::ios::binary) << bytes;
    return message_of([&] { read_pbin(test_context(), folder / "bad.pbin"); });
  };
  const auto with = [&](std::size_t at, char byte) {
    std::string bytes = good;
    bytes[at] = byte;
    return bytes;
  };
  EXPECT_NE(message("").find("no .pbin file"), std::string::npos);
  EXPECT_NE(message("%%MatrixMarket").find("no .pbin file"), std::string::npos);
  EXPECT_NE(message(with(8, 2)).find("version 2"), std::string::npos);
  EXPECT_NE(message(with(24, 9)).find("header is damaged"), std::string::npos);
  EXPECT_NE(message(with(good.size() - 100, 9)).find("values are damaged"), std::string::npos);
  EXPECT_NE(message(good.substr(0, good.size() - 64)).find("cut off"), std::string::npos);
  EXPECT_NE(message(good + "x").find("bytes"), std::string::npos);
  std::string turned = good;
  std::reverse(turned.begin() + 12, turned.begin() + 16);
  EXPECT_NE(message(turned).find("byte order"), std::string::npos);
  EXPECT_NE(message_of([&] { read_pbin(test_context(), folder / "none.pbin"); }).find("No such file"),
            std::string::npos);
  EXPECT_NE(message_of([&] { read_pbin(test_context(), folder / ""); }).find("is a folder"),
            std::string::npos);
}

// The checksums are right, but the arrays are not a valid matrix: another program wrote the file.
TEST(Pbin, ArraysThatAreNoMatrixAreRefused) {
  const Folder folder;
  const std::int32_t row_ptr[] = {0, 2}, col[] = {1, 0};
  const double values[] = {1, 2};
  write_pbin(*test_context(), folder / "a.pbin", csr_view(1, 2, row_ptr, col, values));
  EXPECT_NE(message_of([&] { read_pbin(test_context(), folder / "a.pbin"); }).find("must ascend"),
            std::string::npos);
}

// The checksums fit the bad row pointers.
TEST(Pbin, RowPointersBelowZeroAreRefused) {
  const Folder folder;
  const auto a = generate(test_context(), "poisson-2d", {{"n", 100}});
  std::vector<std::int32_t> row_ptr(a.pattern.row_ptr.p32, a.pattern.row_ptr.p32 + a.rows() + 1);
  for (const std::size_t at : {row_ptr.size() / 4, row_ptr.size() / 2, 3 * row_ptr.size() / 4}) {
    row_ptr[at] = -2'000'000'000;
    CsrMatrix<double> bad = a;
    bad.pattern.row_ptr.p32 = row_ptr.data();
    write_pbin(*test_context(), folder / "bad.pbin", bad);
    for (const int threads : {1, 2, 4})
      EXPECT_NE(message_of([&] {
                  (void)read_pbin(Context::host(threads), folder / "bad.pbin");
                }).find(fmt::format("row_ptr[{}] = -2000000000", at)),
                std::string::npos);
    row_ptr[at] = a.pattern.row_ptr.p32[at];
  }
}

// By processes that each read a share of the file, which has 5 blocks of columns and 10 of values.
TEST(Pbin, ChecksumsOfPartsAreThoseOfTheFile) {
  const Folder folder;
  const std::string path = folder / "a.pbin";
  write_pbin(*test_context(), path, generate(test_context(), "poisson-2d", {{"n", 500}}));
  const auto check = [&](int parts) {
    std::vector<std::vector<std::uint64_t>> sums;
    for (int part = 0; part < parts; ++part) sums.push_back(io_detail::pbin_block_sums(path, part, parts));
    io_detail::require_pbin_checksums(path, sums);
  };
  for (const int parts : {1, 2, 3, 7, 40}) EXPECT_NO_THROW(check(parts)) << parts;
  // Another bit anywhere is seen, and the section is named.
  const std::string whole = slurp(path);
  std::int64_t offset[3];
  std::memcpy(offset, whole.data() + 48, sizeof offset);
  const char* const names[] = {"row pointers", "columns", "values"};
  for (int section = 0; section < 3; ++section) {
    std::string damaged = whole;
    damaged[static_cast<std::size_t>(offset[section]) + 700'001] ^= 1;
    write_file(path, damaged);
    for (const int parts : {1, 3, 40})
      EXPECT_NE(message_of([&] { check(parts); }).find(fmt::format("its {} are damaged", names[section])),
                std::string::npos)
          << parts;
    EXPECT_NE(message_of([&] { (void)read_pbin(test_context(), path); }).find(names[section]),
              std::string::npos);
  }
}

TEST(Pbin, ValuesThatAreNotFiniteAreRefusedUnlessAllowed) {
  const Folder folder;
  const auto a = generate(test_context(), "poisson-2d", {{"n", 100}});
  std::vector<double> values(a.values, a.values + a.nonzeros());
  const std::int64_t at = a.pattern.row_ptr[5000] + 1;
  for (const double wrong :
       {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()}) {
    values[at] = wrong;
    write_pbin(*test_context(), folder / "bad.pbin", with_values(a, values.data()));
    const std::string message = message_of([&] { (void)read_matrix(test_context(), folder / "bad.pbin"); });
    EXPECT_NE(message.find(fmt::format("entry ({}, {})", 5000, a.pattern.col[at])), std::string::npos)
        << message;
    EXPECT_NE(message.find("finite"), std::string::npos) << message;
    const auto allowed = read_matrix(test_context(), folder / "bad.pbin", {.allow_not_finite = true});
    EXPECT_EQ(std::bit_cast<std::uint64_t>(allowed.values[at]), std::bit_cast<std::uint64_t>(wrong));
  }
}

}  // namespace
}  // namespace protean::test
