// Pinned host memory of a device context, which is kept for the next user.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <set>
#include <vector>

#include "core/context.hpp"
#include "support/space.hpp"
#if defined(PROTEAN_HAVE_CUDA)
#include "core/device/state.hpp"
#endif

namespace protean::test {
namespace {

TEST(PinnedMemory, IsKeptForTheNextUserAndNeverShared) {
#if !defined(PROTEAN_HAVE_CUDA)
  GTEST_SKIP() << no_device;
#else
  if (Context::device_count() == 0) GTEST_SKIP() << no_device;
  const ContextPtr context = Context::device();
  using device::PinnedMemory;
  void* first = nullptr;
  {
    const PinnedMemory one(context, 100);
    first = one.data();
    ASSERT_NE(first, nullptr);
    std::memset(first, 1, 100);
  }
  {
    const PinnedMemory again(context, 3000), other(context, 100), large(context, 100000);
    EXPECT_EQ(again.data(), first) << "a piece is a whole page";
    EXPECT_NE(other.data(), first);
    std::memset(large.data(), 2, 100000);
  }
  {
    const PinnedMemory small(context, 8);
    EXPECT_NE(small.data(), nullptr);
    const PinnedMemory large(context, 90000);
    std::memset(large.data(), 3, 90000);
  }
  // More pieces at once than are kept, in three rounds; the pieces of a round are all different.
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<PinnedMemory>> pieces;
    std::set<void*> seen;
    for (std::size_t i = 0; i < 2 * DeviceState::most_pinned; ++i) {
      pieces.push_back(std::make_unique<PinnedMemory>(context, 64 * (i + 1)));
      std::memset(pieces.back()->data(), 4, 64 * (i + 1));
      seen.insert(pieces.back()->data());
    }
    EXPECT_EQ(seen.size(), pieces.size());
    pieces.clear();
    EXPECT_EQ(context->device_state().pinned.size(), DeviceState::most_pinned);
  }
#endif
}

}  // namespace
}  // namespace protean::test
