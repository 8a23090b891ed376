// Vectors in files: NumPy's format byte by byte, what is read of it, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

#include "core/error.hpp"
#include "core/io/matrix_market.hpp"
#include "core/io/vector_file.hpp"
#include "support/folder.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

class VectorFile : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
  }
  std::string bytes_of(const std::string& name) const { return slurp(path(name)); }

 private:
  Folder folder_;
};

// A file as numpy.save writes it.
template <class T>
std::string npy(const std::string& type, const std::string& shape, const std::vector<T>& values) {
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string text("\x93NUMPY\1\0", 8);
  text += static_cast<char>(header.size() & 0xff), text += static_cast<char>(header.size() >> 8);
  text += header;
  const std::size_t begin = text.size();
  text.resize(begin + values.size() * sizeof(T));
  std::memcpy(text.data() + begin, values.data(), values.size() * sizeof(T));
  return text;
}

const std::vector<double> values = {1.5, -0.1, 1e300, 0, 7};

TEST_F(VectorFile, NpyIsWrittenAsNumPyWritesIt) {
  write_vector(path("x.npy"), {values.data(), 5});
  EXPECT_EQ(bytes_of("x.npy"), npy("<f8", "(5,)", values));
  EXPECT_EQ(bytes_of("x.npy").size() % 64, 40u) << "the data begin at a multiple of 64";
}

TEST_F(VectorFile, EachEndingIsReadBackBitForBit) {
  for (const char* name : {"x.npy", "x.mtx", "x.mtx.gz", "x.mtx.xz"}) {
    ASSERT_TRUE(detail::is_vector_file_name(name));
    write_vector(path(name), {values.data(), 5}, "a comment");
    const Vector<double> x = read_vector(test_context(), path(name));
    ASSERT_EQ(x.size(), 5);
    for (std::int64_t i = 0; i < 5; ++i) EXPECT_EQ(x[i], values[static_cast<std::size_t>(i)]) << name;
  }
  for (const char* name : {"x", "x.txt", "x.gz", "x.npy.gz", "mtx", "x.pbin"})
    EXPECT_FALSE(detail::is_vector_file_name(name));
}

TEST_F(VectorFile, OtherTypesAndShapesOfNumPyAreRead) {
  write("f4", npy<float>("<f4", "(1, 2)", {0.5F, -2}));
  write("i8", npy<std::int64_t>("<i8", "(2, 1)", {3, -4}));
  write("i4", npy<std::int32_t>("<i4", "(2,)", {5, -6}));
  const auto first = [&](const char* name) { return read_vector(test_context(), path(name))[0]; };
  EXPECT_EQ(first("f4"), 0.5);
  EXPECT_EQ(first("i8"), 3);
  EXPECT_EQ(first("i4"), 5);
  EXPECT_EQ(read_vector(test_context(), path("i4"))[1], -6);
}

TEST_F(VectorFile, WhatIsNoVectorIsRefused) {
  const std::string good = npy("<f8", "(5,)", values);
  const std::pair<std::string, const char*> cases[] = {
      {npy("<f8", "(5, 2)", values), "is not a vector"},
      {npy("<f8", "()", values), "is not a vector"},
      {npy("<f8", "(1, 5, 1)", values), "is not a vector"},
      {npy(">f8", "(5,)", values), "'>f8'"},
      {npy("<c16", "(5,)", values), "'<c16'"},
      {npy("<f8", "(6,)", values), "bytes of numbers"},
      {npy("<f8", "(4,)", values), "bytes of numbers"},
      {npy("<f8", "(99999999999999999999,)", values), "is not a vector"},
      {npy("<f8", "(281474976710656, 281474976710656)", values), "is not a vector"},
      {npy("<f8", "(281474976710656, 65536, 281474976710656)", values), "is not a vector"},
      {good.substr(0, good.size() - 1), "bytes of numbers"},
      {good.substr(0, 60), "header"},
      {good.substr(0, 8), "header"},
      {npy<double>("<f8", "(2,)", {1, std::nan("")}), "entry 1"},
      {npy<double>("<f8", "(1,)", {std::numeric_limits<double>::infinity()}), "entry 0"}};
  for (const auto& [text, part] : cases) {
    write("x.npy", text);
    try {
      (void)read_vector(test_context(), path("x.npy"));
      ADD_FAILURE() << part;
    } catch (const BadFile& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
  // Also for several vectors, if the product of the two lengths does not fit into 64 bits.
  write("x.npy", npy("<f8", "(281474976710656, 281474976710656)", values));
  EXPECT_THROW((void)read_vectors(test_context(), path("x.npy")), BadFile);
  write("x.npy", npy<double>("<f8", "(2,)", {1, std::nan("")}));
  EXPECT_TRUE(std::isnan(read_vector(test_context(), path("x.npy"), {.allow_not_finite = true})[1]));
}

TEST_F(VectorFile, TheLowerTriangleOfASymmetricMatrix) {
  const ContextPtr context = test_context();
  const std::string text =
      "%%MatrixMarket matrix coordinate real symmetric\n% why\n3 3 4\n1 1 1.5\n2 1 -2\n3 2 4\n3 3 5\n";
  const CsrMatrix<double> matrix = read_matrix_market_text(context, "a", text);
  write_matrix_market(*context, path("a.mtx"), matrix, "why", Symmetry::symmetric);
  EXPECT_EQ(bytes_of("a.mtx"), text);
  write_matrix_market(*context, path("g.mtx"), matrix);
  EXPECT_NE(bytes_of("g.mtx").find("real general\n3 3 6\n"), std::string::npos);
}

// Several vectors: what is written is read back, and both orders of a .npy file give the same vectors.
TEST_F(VectorFile, SeveralVectorsInEitherKindOfFile) {
  const std::vector<double> entries = {1, 2, 3, 4.5, -0.1, 1e300};  // two vectors of three
  const MultiVectorView<const double> by_columns{entries.data(), 3, 2, 3};
  const std::vector<double> by_rows = {1, 4.5, 2, -0.1, 3, 1e300};
  const MultiVectorView<const double> interleaved{by_rows.data(), 3, 2, 2, VectorLayout::interleaved};
  for (const char* name : {"B.npy", "B.mtx", "B.mtx.gz"})
    for (const auto& view : {by_columns, interleaved}) {
      SCOPED_TRACE(name);
      write_vectors(path(name), view);
      const VectorColumns back = read_vectors(test_context(), path(name));
      EXPECT_EQ(back.columns, 2);
      ASSERT_EQ(back.entries.size(), 6);
      EXPECT_EQ(std::vector<double>(back.entries.data(), back.entries.data() + 6), entries);
      EXPECT_THROW((void)read_vector(test_context(), path(name)), BadFile) << "one vector is asked for";
    }
  write("rows.npy", npy("<f8", "(3, 2)", by_rows));
  const VectorColumns rows = read_vectors(test_context(), path("rows.npy"));
  EXPECT_EQ(std::vector<double>(rows.entries.data(), rows.entries.data() + 6), entries);
  write("sparse.mtx", "%%MatrixMarket matrix coordinate real general\n3 2 2\n2 1 5\n3 2 7\n");
  const VectorColumns sparse = read_vectors(test_context(), path("sparse.mtx"));
  EXPECT_EQ(std::vector<double>(sparse.entries.data(), sparse.entries.data() + 6),
            (std::vector<double>{0, 5, 0, 0, 0, 7}));
  for (const char* one : {"row.mtx", "column.mtx"}) {
    write(one, std::string("%%MatrixMarket matrix array real general\n") + (one[0] == 'r' ? "1 3" : "3 1") +
                   "\n1\n2\n3\n");
    const VectorColumns single = read_vectors(test_context(), path(one));
    EXPECT_EQ(single.columns, 1) << one;
    EXPECT_EQ(single.entries.size(), 3) << one;
  }
}

}  // namespace
}  // namespace protean::test
