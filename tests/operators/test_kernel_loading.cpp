// What the first matrix of a format in a process costs more: nothing on a host, on a GPU what the driver takes to load
// its kernels.
#include <gtest/gtest.h>

#include "core/generate/generate.hpp"
#include "core/transfer.hpp"
#include "formats/catalogue.hpp"
#include "formats/survey.hpp"
#include "operators/kernel_loading.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

TEST(KernelLoading, CostsNothingOnAHost) {
  const ContextPtr host = Context::host();
  for (const FormatEntry* entry : catalogue())
    EXPECT_EQ(detail::loading_seconds(*host, *entry, 8), 0) << entry->id;
  EXPECT_EQ(detail::first_survey_seconds(*host), 0);
}

TEST(KernelLoading, IsPaidOnceForAFormatAndAPrecision) {
  const ContextPtr device = test_context(Space::device);
  if (!device) GTEST_SKIP() << no_device;
  const CsrMatrix<double> csr = generate(Context::host(), "poisson-2d", {{"n", 20}});
  const FormatEntry& entry = find_format("cmrs");
  EXPECT_EQ(detail::loading_seconds(*device, entry, 8), detail::kernel_loading_seconds);
  const auto made = make_matrix(entry, upload(device, csr), device);
  EXPECT_EQ(detail::loading_seconds(*device, entry, 8), 0);
  EXPECT_EQ(detail::loading_seconds(*device, entry, 4), detail::kernel_loading_seconds) << "other kernels";
  EXPECT_EQ(detail::loading_seconds(*Context::host(), entry, 4), 0);
}

// A twentieth of the solves on devices pays for it.
TEST(KernelLoading, IsPaidByTheSolvesOfTheProcess) {
  const ContextPtr device = test_context(Space::device);
  if (!device) GTEST_SKIP() << no_device;
  const FormatEntry& entry = find_format("brc");
  detail::count_solve(*Context::host(), 10);
  EXPECT_EQ(detail::loading_seconds(*device, entry, 8), 8e-3) << "solves on a host pay for nothing";
  detail::count_solve(*device, 0.04);
  EXPECT_NEAR(detail::loading_seconds(*device, entry, 8), 6e-3, 1e-12);
  detail::count_solve(*device, 1);
  EXPECT_EQ(detail::loading_seconds(*device, entry, 8), 0);
  EXPECT_TRUE(detail::needs_loading(*device, entry, 8));
  for (int formats = 0; formats < 6; ++formats) detail::count_loading();
  EXPECT_NEAR(detail::loading_seconds(*device, entry, 8), 4e-3, 1e-12);
  detail::count_loading();
  EXPECT_EQ(detail::loading_seconds(*device, entry, 8), 8e-3);
}

TEST(KernelLoading, OfASurveyIsPaidOnce) {
  const ContextPtr device = test_context(Space::device);
  if (!device) GTEST_SKIP() << no_device;
  const CsrMatrix<double> csr = generate(Context::host(), "poisson-2d", {{"n", 20}});
  (void)survey_formats(csr.pattern, Space::device);
  EXPECT_GT(detail::first_survey_seconds(*device), 0) << "a survey on the host loads nothing";
  (void)survey_formats(*device, upload(device, csr).pattern, false, 8, false, nullptr);
  EXPECT_EQ(detail::first_survey_seconds(*device), 0);
}

}  // namespace
}  // namespace protean::test
