// What make_matrix() refuses before a format sees the matrix.
#include <algorithm>
#include <string>

#include "core/generate/generate.hpp"
#include "gtest/gtest.h"
#include "odd_formats.hpp"
#include "support/battery.hpp"

namespace protean::test {
namespace {

TEST(MakeMatrix, TakesAFormatThatNeedsExactlyTheBytesThereAre) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", 20}});
  for (const char* id : {"coo", "ell"}) {
    const FormatEntry& format = find_format(id);
    const std::size_t bytes = admit(format, *test_context(), csr.pattern, {}, sizeof(double)).bytes;
    const auto matrix = make_matrix(format, csr, test_context(), {}, {}, bytes);
    EXPECT_EQ(matrix->bytes(), bytes) << id;
    try {
      (void)make_matrix(format, csr, test_context(), {}, {}, bytes - 1);
      ADD_FAILURE() << id << " was made with a byte less";
    } catch (const OutOfMemory& error) { EXPECT_EQ(error.bytes(), bytes) << id; }
  }
}

TEST(MakeMatrix, ArraysOfTheSourceNeedNoFurtherMemory) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", 20}});
  int shared = 0;
  for (const FormatEntry* format : catalogue()) {
    if (!format->traits.uses_source || kernels_in(*format, Space::host).empty()) continue;
    const Admission admission = admit(*format, *test_context(), csr.pattern, {}, sizeof(double));
    ASSERT_TRUE(admission.ok) << format->id << ": " << admission.reason;
    ASSERT_GE(admission.bytes, csr.bytes()) << format->id;
    const std::size_t own = admission.bytes - csr.bytes();
    EXPECT_NO_THROW((void)make_matrix(*format, csr, test_context(), {}, {}, std::max<std::size_t>(own, 1)))
        << format->id;
    if (own > 1) {
      EXPECT_THROW((void)make_matrix(*format, csr, test_context(), {}, {}, own - 1), OutOfMemory)
          << format->id;
    }
    ++shared;
  }
  EXPECT_GT(shared, 3);
}

TEST(MakeMatrix, ALimitOfOneByteIsOne) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", 20}});
  try {
    (void)make_matrix(find_format("coo"), csr, test_context(), {}, {}, 1);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const OutOfMemory& error) {
    EXPECT_NE(std::string(error.what()).find("may be used for it"), std::string::npos) << error.what();
  }
}

TEST(MakeMatrix, ARectangleIsRefusedToAFormatOfSquareMatrices) {
  const std::int32_t row_ptr[] = {0, 1, 2}, col[] = {0, 1};
  const double values[] = {1, 2};
  EXPECT_NO_THROW((void)make_matrix(square_format(), csr_view(2, 2, row_ptr, col, values), test_context()));
  try {
    (void)make_matrix(square_format(), csr_view(2, 3, row_ptr, col, values), test_context());
    ADD_FAILURE() << "it took 2 x 3";
  } catch (const FormatRefused& error) {
    EXPECT_NE(std::string(error.what()).find("the matrix is 2 x 3"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace protean::test
