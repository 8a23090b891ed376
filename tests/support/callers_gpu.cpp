// With PROTEAN_TEST_CALLERS_GPU=1 every test runs in a program whose current GPU is number 1, while the tests
// themselves use number 0. A public function that leaves another GPU current, or relies on the current one,
// fails the test. Linked into every test binary of a build with CUDA.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace protean::test {
namespace {

class CallersGpu final : public testing::EmptyTestEventListener {
 public:
  explicit CallersGpu(int ordinal) : ordinal_(ordinal) {}

 private:
  void OnTestStart(const testing::TestInfo&) override {
    ASSERT_EQ(cudaSetDevice(ordinal_), cudaSuccess)
        << "PROTEAN_TEST_CALLERS_GPU names a GPU that is not there";
  }
  void OnTestEnd(const testing::TestInfo& info) override {
    int current = -1;
    ASSERT_EQ(cudaGetDevice(&current), cudaSuccess);
    EXPECT_EQ(current, ordinal_) << info.test_suite_name() << '.' << info.name()
                                 << " left another GPU current than its caller had";
  }
  int ordinal_;
};

[[maybe_unused]] const bool installed = [] {
  if (const char* text = std::getenv("PROTEAN_TEST_CALLERS_GPU"))
    testing::UnitTest::GetInstance()->listeners().Append(new CallersGpu(std::atoi(text)));
  return true;
}();

}  // namespace
}  // namespace protean::test
