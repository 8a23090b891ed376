// The contract of test_formats.cpp for parameters that are not the default, on the whole battery.
#include <cmath>
#include <limits>
#include <string>

#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/oracle.hpp"

namespace protean::test {
namespace {

struct Case {
  std::string format;
  FormatParams params;
};

std::vector<Case> cases() {
  std::vector<Case> list;
  const std::string all = "1000000";
  for (const std::string C : {"1", "2", "4", "8", "16", "32", "64"})
    for (const std::string sigma : {"1", "64", "1048576"})
      list.push_back({"sell-c-sigma", {{"C", C}, {"sigma", sigma}, {"max_fill", all}}});
  for (const std::string align : {"1", "64"}) list.push_back({"ell", {{"align", align}, {"max_fill", all}}});
  list.push_back({"dia", {{"max_fill", all}}});
  for (const std::string hack : {"1", "2", "7", "8", "32", "1024"})
    list.push_back({"hdi", {{"hack", hack}, {"max_fill", all}}});
  for (const std::string order : {"natural", "sorted"}) list.push_back({"sell-packed", {{"order", order}}});
  for (const std::string rows : {"1", "2", "3", "4", "8"})
    for (const std::string cols : {"1", "2", "3", "4", "8"})
      list.push_back({"bcsr", {{"rows", rows}, {"cols", cols}, {"max_fill", all}}});
  list.push_back({"bcsr", {{"rows", "2"}, {"max_fill", all}}});
  list.push_back({"bcsr", {{"max_fill", all}}});
  return list;
}

class Parameters : public testing::TestWithParam<Case> {
 protected:
  template <class T>
  static void check(const CsrMatrix<T>& csr) {
    const FormatEntry& format = find_format(GetParam().format);
    const auto matrix = make_matrix(format, csr, test_context(), GetParam().params);
    EXPECT_TRUE(identical(csr, matrix->to_csr()));
    EXPECT_EQ(matrix->bytes(), format.admit(*test_context(), csr.pattern, matrix->params(), sizeof(T)).bytes);

    const auto x = sample_vector<T>(csr.cols(), 1), y0 = sample_vector<T>(csr.rows(), 2);
    const T nan = std::numeric_limits<T>::quiet_NaN();
    for (const T beta : {T(0), T(2)}) {
      auto y = beta == T(0) ? std::vector<T>(y0.size(), nan) : y0;
      matrix->apply(T(-1.5), {x.data(), csr.cols()}, beta, {y.data(), csr.rows()});
      EXPECT_TRUE(product_is_right(csr, T(-1.5), x, beta, y0, y)) << "beta " << beta;
    }

    const std::int64_t n = std::min(csr.rows(), csr.cols());
    std::vector<T> expected(n), found(n, nan);
    extract_diagonal(*test_context(), csr, expected.data());
    matrix->diagonal({found.data(), n});
    EXPECT_EQ(expected, found);

    if (csr.rows() == csr.cols()) {
      std::vector<T> y(y0.size(), nan);
      T dot = nan;
      apply_dot<T>(*matrix, {x.data(), csr.cols()}, {y.data(), csr.rows()}, &dot);
      EXPECT_TRUE(product_is_right(csr, T(1), x, T(0), y0, y)) << "apply_dot";
      long double sum = 0, magnitude = 0;
      for (std::size_t i = 0; i < x.size(); ++i)
        sum += static_cast<long double>(x[i]) * y[i],
            magnitude += std::fabs(static_cast<long double>(x[i]) * y[i]);
      EXPECT_LE(std::fabs(dot - sum), (csr.rows() + 2) * std::numeric_limits<T>::epsilon() * magnitude);
    }

    CsrMatrix<T> changed = deep_copy(test_context(), csr);
    for (std::int64_t k = 0; k < csr.nonzeros(); ++k) const_cast<T*>(changed.values)[k] = T(k % 3);
    matrix->update_values(changed);
    EXPECT_TRUE(identical(changed, matrix->to_csr()));
  }
};

TEST_P(Parameters, KeepTheContract) {
  for (const BatteryMatrix& entry : battery()) {
    SCOPED_TRACE(entry.name);
    check<double>(entry.matrix);
    check<float>(convert_values<float>(test_context(), entry.matrix));
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Parameters, testing::ValuesIn(cases()), [](const auto& instance) {
  std::string name = instance.param.format;
  for (const auto& [key, value] : instance.param.params.all()) name += "_" + key + value;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
});

}  // namespace
}  // namespace protean::test
