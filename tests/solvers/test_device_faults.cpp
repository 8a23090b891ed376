// Faults of a real device: memory of the wrong kind, too little memory, kernels that fail, a GPU for which
// the build has no code. Each throws an exception that names it, and the host can go on.
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"
#include "support/space.hpp"
#include "support/text.hpp"
#if defined(PROTEAN_HAVE_CUDA)
#include "core/device/state.hpp"
#include "solvers/device_kernels.hpp"
#endif

namespace protean::test {
namespace {

class DeviceFaults : public testing::Test {
 protected:
  void SetUp() override {
    context_ = test_context(Space::device);
    if (!context_) GTEST_SKIP() << no_device;
    csr_ = generate(test_context(), "poisson-2d", {{"n", 20}});
  }
  std::vector<double> solve_on(const ContextPtr& context) const {
    const auto A = make_matrix(find_format("csr"), placed(context, csr_), context);
    const Placed<double> b(context, std::vector<double>(400, 1.0));
    Placed<double> x(context, std::vector<double>(400, 0.0));
    EXPECT_TRUE(make_solver<double>("cg")->solve(*A, b.read(), x.view()).converged());
    return x.fetch();
  }
  ContextPtr context_;
  CsrMatrix<double> csr_;
};

TEST_F(DeviceFaults, MoreMemoryThanThereIs) {
  // Not a little more than is free: the pool would take all of that first, from the tests that run next to this one.
  EXPECT_THROW(Buffer<char>(context_, std::int64_t{1} << 40), OutOfMemory);
  EXPECT_THROW(Vector<double>(context_, std::int64_t{1} << 50), OutOfMemory);
  EXPECT_EQ(solve_on(context_).size(), 400u);
}

// A failed device context does not change the answer of the host.
TEST_F(DeviceFaults, TheHostIsUnaffected) {
  const std::vector<double> before = solve_on(test_context());
  EXPECT_THROW(Buffer<char>(context_, std::int64_t{1} << 50), OutOfMemory);
  EXPECT_EQ(solve_on(test_context()), before);
}

#if defined(PROTEAN_HAVE_CUDA)
TEST_F(DeviceFaults, PointersOfTheWrongKind) {
  const auto A = make_matrix(find_format("csr"), placed(context_, csr_), context_);
  const auto solver = make_solver<double>("cg");
  Placed<double> good(context_, std::vector<double>(400, 1.0));
  const auto view = [](void* memory) {
    return VectorView<double>{static_cast<double*>(memory), 400, Space::device};
  };
  std::vector<double> host(400, 1.0);
  EXPECT_NE(message_of<WrongSpace>([&] {
              (void)solver->solve(*A, view(host.data()), good.view());
            }).find("b is said"),
            std::string::npos);
  struct {
    Kind kind;
    const char* name;
  } const kinds[] = {{Kind::pinned, "pinned"}, {Kind::managed, "managed"}};
  for (const auto& [kind, name] : kinds) {
    void* const memory = take(kind, 400 * sizeof(double));
    const std::string b = message_of<WrongSpace>([&] { (void)solver->solve(*A, view(memory), good.view()); });
    const std::string x = message_of<WrongSpace>([&] { (void)solver->solve(*A, good.view(), view(memory)); });
    give_back(kind, memory);
    EXPECT_NE(b.find(name), std::string::npos) << b;
    EXPECT_NE(x.find("x is said"), std::string::npos) << x;
  }
  // Device memory that the user allocated is accepted.
  void* const own = take(Kind::plain, 400 * sizeof(double));
  copy<double>(*context_, {host.data(), 400}, view(own));
  Placed<double> x(context_, std::vector<double>(400, 0.0));
  EXPECT_TRUE(solver->solve(*A, view(own), x.view()).converged());
  EXPECT_EQ(x.fetch(), solve_on(context_));
  give_back(Kind::plain, own);

  CsrMatrix<double> pretended = csr_;
  pretended.pattern.space = Space::device;
  EXPECT_NE(message_of<WrongSpace>([&] {
              (void)make_matrix(find_format("csr"), pretended, context_);
            }).find("row_ptr"),
            std::string::npos);
  EXPECT_NE(message_of<WrongSpace>([&] { A->update_values(pretended); }).find("new values"),
            std::string::npos);
}

TEST_F(DeviceFaults, MemoryOfAnotherGpu) {
  if (Context::device_count() < 2) GTEST_SKIP() << "one GPU only";
  const ContextPtr other = Context::device(1);
  const auto A = make_matrix(find_format("csr"), placed(context_, csr_), context_);
  Placed<double> there(other, std::vector<double>(400, 1.0)), x(context_, std::vector<double>(400, 0.0));
  EXPECT_NE(message_of<WrongSpace>([&] {
              (void)make_solver<double>("cg")->solve(*A, there.read(), x.view());
            }).find("GPU 1"),
            std::string::npos);
}

TEST(DeviceErrors, HaveNames) {
  EXPECT_THROW(device::check(cudaErrorMemoryAllocation, "x"), OutOfMemory);
  EXPECT_THROW(device::check(cudaErrorNoKernelImageForDevice, "x"), NotAvailable);
  EXPECT_THROW(device::check(cudaErrorInvalidDeviceFunction, "x"), NotAvailable);
  EXPECT_THROW(device::check(cudaErrorIllegalAddress, "x"), DeviceError);
  EXPECT_THROW(device::check(CUBLAS_STATUS_ALLOC_FAILED, "x"), OutOfMemory);
  EXPECT_THROW(device::check(CUSPARSE_STATUS_INTERNAL_ERROR, "x"), DeviceError);
  EXPECT_NO_THROW(device::check(cudaSuccess, "x"));
}
#endif

}  // namespace
}  // namespace protean::test
