// What a test program prints when it crashes.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>

namespace protean::test {
namespace {

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
