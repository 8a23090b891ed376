// A vector that is written in parts.
#include "core/io/vector_writer.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/io/vector_file.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/folder.hpp"

namespace protean::test {
namespace {

namespace fs = std::filesystem;

TEST(VectorWriter, WritesWhatWriteVectorDoesInAnyParts) {
  const Folder folder;
  std::vector<double> x(100'003);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 1 / (static_cast<double>(i) - 7.5);
  const auto size = static_cast<std::int64_t>(x.size());
  for (const std::string ending : {".mtx", ".mtx.gz", ".npy"}) {
    const std::string whole = folder / ("whole" + ending), parts = folder / ("parts" + ending);
    write_vector(whole, {x.data(), size}, "two\nlines");
    io_detail::VectorWriter writer(parts, size, "two\nlines");
    const std::span<const double> all(x);
    writer.add(all.first(1)), writer.add({}), writer.add(all.subspan(1, 60'000)),
        writer.add(all.subspan(60'001));
    EXPECT_FALSE(fs::exists(parts));
    writer.commit();
    EXPECT_EQ(slurp(whole), slurp(parts)) << ending;
    io_detail::VectorWriter few(folder / ("few" + ending), 2, "");
    few.add(all.first(1));
    EXPECT_THROW(few.commit(), BadArgument);
    EXPECT_THROW(few.add(all.first(2)), BadArgument);
  }
  EXPECT_EQ(folder.files(), 6u);
}

}  // namespace
}  // namespace protean::test
