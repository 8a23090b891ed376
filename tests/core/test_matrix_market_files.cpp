// Matrix Market: large, compressed, broken and missing files, pipes and folders.
#include "core/identical.hpp"
#include "core/io/matrix_market.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/generate/generate.hpp"
#include "core/io/pbin.hpp"
#include "gtest/gtest.h"
#include "matrix_market.hpp"
#include "support/battery.hpp"
#include "support/folder.hpp"
#include "support/text.hpp"

namespace protean::test {
namespace {

namespace fs = std::filesystem;

TEST(MatrixMarket, ErrorsInLargeFilesNameTheRightLineWhateverTheThreads) {
  std::string text = std::string(general) + "% second line\n1000 1000 200000\n";
  for (int k = 0; k < 200000; ++k) text += fmt::format("{} {} {}\n", k % 1000 + 1, k / 200 + 1, k * 0.125);
  const auto line_of = [&](const std::string& changed, int threads) {
    try {
      read_matrix_market_text(Context::host(threads), "text", changed);
    } catch (const BadFile& e) { return e.line(); }
    return std::int64_t{-1};
  };
  for (int threads : {1, 2, 5}) {
    EXPECT_EQ(line_of(text, threads), -1);
    std::string bad = text;
    const std::size_t late = bad.find("\n1000 800 "), later = bad.find("\n1000 995 ");
    ASSERT_NE(late, std::string::npos);
    bad[later + 1] = 'x', bad[late + 1] = 'y';
    EXPECT_EQ(line_of(bad, threads), 1 + std::count(bad.begin(), bad.begin() + late + 1, '\n')) << threads;
    EXPECT_EQ(line_of(text + "1 1 1\n", threads), 200004);
    EXPECT_EQ(line_of(text + "1 1 1\n" + text, threads), 200004);
    EXPECT_EQ(line_of(text.substr(0, text.size() - 40000), threads) > 190000, true);
  }
}

TEST(MatrixMarket, LargeFilesDoNotDependOnThreads) {
  const Folder folder;
  const auto a = generate(test_context(), "random-spd", {{"n", 30000}});
  write_matrix_market(*test_context(), folder / "a.mtx.gz", a);  // compressed, misleadingly named below
  fs::rename(folder / "a.mtx.gz", folder / "a.mtx");
  for (int threads : {1, 2, 7})
    EXPECT_TRUE(identical(a, read_matrix_market(Context::host(threads), folder / "a.mtx"))) << threads;
  // Repeated entries that are far apart in the file are added in its order.
  std::string text = std::string(general) + "300 300 240000\n";
  for (int k = 0; k < 240000; ++k)
    text += fmt::format("{} {} {}\n", k * 7 % 300 + 1, k * 11 % 290 + 1, std::sin(k));
  const auto one = read_matrix_market_text(Context::host(1), "t", text);
  EXPECT_LT(one.nonzeros(), 240000);
  std::vector<double> expected(300 * 300, 0.0);
  for (int k = 0; k < 240000; ++k) expected[k * 7 % 300 * 300 + k * 11 % 290] += std::sin(k);
  for (std::int64_t r = 0; r < 300; ++r)
    for (std::int64_t k = one.pattern.row_ptr[r]; k < one.pattern.row_ptr[r + 1]; ++k)
      ASSERT_EQ(one.values[k], expected[r * 300 + one.pattern.col[k]]);
  for (int threads : {2, 5})
    EXPECT_TRUE(identical(one, read_matrix_market_text(Context::host(threads), "t", text)));
}

TEST(MatrixMarket, LargeArraysAreReadByPieces) {
  // The text has several pieces, and columns end inside pieces.
  const int n = 700;
  const auto value = [](int r, int c) { return std::max(r, c) * 1000.0 + std::min(r, c) + 0.5; };
  std::string text = "%%MatrixMarket matrix array real symmetric\n700 700\n";
  for (int c = 0; c < n; ++c)
    for (int r = c; r < n; ++r) text += fmt::format("{}\n", value(r, c));
  ASSERT_GT(text.size(), 1u << 20);
  const auto a = read_matrix_market_text(Context::host(3), "t", text);
  ASSERT_EQ(a.nonzeros(), n * n);
  for (int r = 0; r < n; ++r)
    for (int c = 0; c < n; ++c) ASSERT_EQ(a.values[r * n + c], value(r, c));
}

TEST(MatrixMarket, BrokenCompressionIsRefused) {
  const Folder folder;
  for (const std::string name : {"a.mtx.gz", "a.mtx.xz"}) {
    write_matrix_market(*test_context(), folder / name, battery_matrix("dense_17x17"));
    std::string bytes = slurp(folder / name);
    std::ofstream(folder / ("cut-" + name), std::ios::binary) << bytes.substr(0, bytes.size() - 60);
    bytes[bytes.size() / 2] ^= 0x55;
    std::ofstream(folder / ("bent-" + name), std::ios::binary) << bytes;
    for (const std::string kind : {"cut-", "bent-"}) try {
        read_matrix_market(test_context(), folder / (kind + name));
        ADD_FAILURE() << kind << name;
      } catch (const BadFile& e) {
        EXPECT_NE(std::string(e.what()).find("damaged"), std::string::npos) << e.what();
      }
  }
  // Two gzip streams one after the other are one text.
  const std::string text = std::string(general) + "1 1 1\n1 1 3\n";
  for (const auto& [part, mode] : {std::pair(text.substr(0, 50), "wb"), std::pair(text.substr(50), "ab")}) {
    const gzFile file = gzopen((folder / "two.mtx.gz").c_str(), mode);
    gzwrite(file, part.data(), static_cast<unsigned>(part.size()));
    gzclose(file);
  }
  EXPECT_EQ(read_matrix_market(test_context(), folder / "two.mtx.gz").values[0], 3.0);
}

TEST(MatrixMarket, MissingFilesFoldersAndArchivesAreRefused) {
  const Folder folder;
  const auto message = [&](const std::string& path) {
    return message_of<BadFile>([&] { read_matrix(test_context(), path); });
  };
  EXPECT_NE(message(folder / "none.mtx").find("No such file or directory"), std::string::npos);
  EXPECT_NE(message(folder / "").find("folder"), std::string::npos) << message(folder / "");
  std::string tar(1024, '\0');
  tar.replace(0, 7, "a/a.mtx"), tar.replace(257, 5, "ustar");
  std::ofstream(folder / "a.tar", std::ios::binary) << tar;
  EXPECT_NE(message(folder / "a.tar").find("tar archive"), std::string::npos) << message(folder / "a.tar");
  std::ofstream(folder / "long.mtx") << general << std::string(1 << 20, '%') << "\n";
  EXPECT_NE(message(folder / "long.mtx").find("a line of more than"), std::string::npos);
}

// A pipe of the shell is read like a file. A named pipe could wait without end.
TEST(MatrixMarket, PipesAreReadAndNamedPipesAndDevicesRefused) {
  const Folder folder;
  const auto message = [&](const std::string& path) -> std::string {
    return message_of<BadFile>([&] { read_matrix(test_context(), path); });
  };
  ASSERT_EQ(mkfifo((folder / "pipe.mtx").c_str(), 0600), 0);
  EXPECT_NE(message(folder / "pipe.mtx").find("named pipe"), std::string::npos);
  EXPECT_NE(message("/dev/zero").find("device"), std::string::npos) << message("/dev/zero");
  const auto piped = [&](const std::string& bytes) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    EXPECT_EQ(write(ends[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    close(ends[1]);
    return ends[0];
  };
  const int text = piped(std::string(general) + "2 2 2\n1 1 4\n2 2 5\n");
  EXPECT_EQ(dense(read_matrix(test_context(), "/dev/fd/" + std::to_string(text))), "4 . / . 5 / ");
  const int bad = piped(std::string(general) + "2 2 2\n1 1 4\n2 2 five\n");
  EXPECT_NE(message("/dev/fd/" + std::to_string(bad)).find(":4:5: 'five'"), std::string::npos);
  write_pbin(*test_context(), folder / "a.pbin", battery_matrix("dense_17x17"));
  const int binary = piped(slurp(folder / "a.pbin"));
  EXPECT_NE(message("/dev/fd/" + std::to_string(binary)).find(".pbin"), std::string::npos);
  for (const int end : {text, bad, binary}) close(end);
}

std::string shared_folder() {
  if (const char* path = std::getenv("PROTEAN_SHARED")) return path;
  return std::string(PROTEAN_SOURCE_DIR) + "/../shared";
}

TEST(MatrixMarket, RealMatricesHaveTheIndexedSizes) {
  std::ifstream index(shared_folder() + "/matrices/INDEX.tsv");
  if (!index)
    GTEST_SKIP() << "no collection of real matrices in " << shared_folder() << " (set PROTEAN_SHARED)";
  std::string line;
  std::getline(index, line);
  int count = 0;
  while (std::getline(index, line)) {
    std::vector<std::string> fields;
    std::stringstream words(line);
    for (std::string word; std::getline(words, word, '\t');) fields.push_back(word);
    const std::string path = shared_folder() + "/matrices/" + fields[0] + ".mtx.xz";
    if (!fs::exists(path)) continue;
    ++count;
    if (fields[7] == "complex") {
      EXPECT_THROW(read_matrix_market(test_context(), path), BadFile) << path;
      continue;
    }
    const auto a = read_matrix_market(test_context(), path);
    EXPECT_EQ(a.rows(), std::stoll(fields[2])) << path;
    EXPECT_EQ(a.cols(), std::stoll(fields[3])) << path;
    EXPECT_EQ(a.nonzeros(), std::stoll(fields[5])) << path;
    EXPECT_NO_THROW(validate_sorted(*test_context(), a.pattern)) << path;
  }
  EXPECT_GT(count, 0);
}

}  // namespace
}  // namespace protean::test
