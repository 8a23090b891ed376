// Memory of the library: what is counted, and what is refused.
#include "core/buffer.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "core/error.hpp"
#include "support/battery.hpp"

namespace protean::test {
namespace {

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

}  // namespace
}  // namespace protean::test
