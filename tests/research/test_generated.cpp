// Generated kernels, compiled when the test runs: products within Wilkinson's bound on the whole battery.
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "gtest/gtest.h"
#include "research/describe/tune.hpp"
#include "support/battery.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

using namespace research;

Description described(const std::string& name, const Sizes& sizes = {}) {
  return with_sizes(parse_description(description_text(name), name), sizes);
}

CsrMatrix<float> in_single(const CsrMatrix<double>& matrix) {
  CsrMatrix<float> single;
  single.pattern = matrix.pattern;
  auto values = std::make_shared<std::vector<float>>(matrix.values, matrix.values + matrix.nonzeros());
  single.values = values->data(), single.values_owner = values;
  return single;
}
const CsrMatrix<double>& of_type(const CsrMatrix<double>& matrix, double) { return matrix; }
CsrMatrix<float> of_type(const CsrMatrix<double>& matrix, float) { return in_single(matrix); }

template <class T>
void expect_products(const Description& d, const Strategy& strategy, const CsrMatrix<double>& matrix,
                     Space space) {
  const ContextPtr context = test_context(space);
  const GeneratedMatrix<T> made(d, matrix, context, strategy);
  const auto csr = of_type(matrix, T());
  const std::vector<T> x = sample_vector<T>(matrix.cols(), 1), y0 = sample_vector<T>(matrix.rows(), 2);
  const Placed<T> on_x(context, x);
  for (const auto& [alpha, beta] : {std::pair<T, T>{1, 0}, {T(-0.5), 2}, {2, 1}}) {
    // With beta = 0 the old y is not read.
    Placed<T> y(context, beta == 0 ? std::vector<T>(y0.size(), std::numeric_limits<T>::quiet_NaN()) : y0);
    made.apply(alpha, on_x.read(), beta, y.view());
    EXPECT_TRUE(product_is_right(csr, alpha, x, beta, y0, y.fetch())) << alpha << " " << beta;
  }
}

struct Way {
  const char* name;
  Strategy strategy;
  Sizes (*sizes)(const Description&);
};
Sizes given(const Description&) { return {}; }
Sizes last_choices(const Description& d) {
  Sizes sizes;
  for (const Variable& v : d.variables)
    if (v.kind == Variable::Kind::size) sizes.emplace_back(v.name, v.choices.back());
  return sizes;
}
Sizes odd(const Description& d) {
  Sizes sizes;
  for (const Variable& v : d.variables)
    if (v.kind == Variable::Kind::size) sizes.emplace_back(v.name, 3);
  return sizes;
}
const Way host_ways[] = {
    {"plain", {}, given}, {"turned_and_unrolled", {true, 4}, last_choices}, {"odd", {false, 3}, odd}};
const Way device_ways[] = {{"plain", {}, given},
                           {"lanes_8", {true, 4, 8, 128, 8}, last_choices},
                           {"lanes_32", {false, 1, 32, 256, 32}, given},
                           {"odd", {true, 1, 2, 64, 3}, odd}};

class Generated : public testing::TestWithParam<std::string> {};

TEST_P(Generated, MultipliesTheBatteryOnAHost) {
  if (const std::string why = why_no_compiler(Target::host); !why.empty()) GTEST_SKIP() << why;
  for (const Way& way : host_ways) {
    const Description plain = described(GetParam());
    const Description d = with_sizes(plain, way.sizes(plain));
    // Keeps the library between the matrices.
    const GeneratedMatrix<double> in_use(d, t8(), test_context(), way.strategy);
    for (const BatteryMatrix& one : battery()) {
      SCOPED_TRACE(std::string(way.name) + ", " + one.name);
      expect_products<double>(d, way.strategy, one.matrix, Space::host);
    }
  }
}

TEST_P(Generated, MultipliesTheBatteryInSinglePrecision) {
  if (const std::string why = why_no_compiler(Target::host); !why.empty()) GTEST_SKIP() << why;
  const Description d = described(GetParam());
  const GeneratedMatrix<float> in_use(d, t8(), test_context());
  for (const BatteryMatrix& one : battery()) {
    SCOPED_TRACE(one.name);
    expect_products<float>(d, {}, one.matrix, Space::host);
  }
}

TEST_P(Generated, MultipliesTheBatteryOnADevice) {
  if (!test_context(Space::device)) GTEST_SKIP() << no_device;
  if (const std::string why = why_no_compiler(Target::cuda); !why.empty()) GTEST_SKIP() << why;
  for (const Way& way : device_ways) {
    const Description plain = described(GetParam());
    const Description d = with_sizes(plain, way.sizes(plain));
    const GeneratedMatrix<double> in_use(d, t8(), test_context(Space::device), way.strategy);
    const GeneratedMatrix<float> also(d, t8(), test_context(Space::device), way.strategy);
    for (const BatteryMatrix& one : battery()) {
      SCOPED_TRACE(std::string(way.name) + ", " + one.name);
      expect_products<double>(d, way.strategy, one.matrix, Space::device);
      expect_products<float>(d, way.strategy, one.matrix, Space::device);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Descriptions, Generated, testing::ValuesIn(built_in_descriptions()),
                         [](const auto& of) {
                           std::string name = of.param;
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

// All kernels for a GPU are compiled, even if there is no GPU.
TEST(GeneratedCuda, Compiles) {
  if (const std::string why = why_no_compiler(Target::cuda); !why.empty()) GTEST_SKIP() << why;
  std::string all;
  for (const bool single : {false, true})
    for (const std::string& name : built_in_descriptions()) {
      const Description d = described(name);
      std::string source = generated_source(d, plan(d), {true, 4, 8, 128, 8}, Target::cuda, single),
                  tag = name;
      for (char& c : tag)
        if (c == '-') c = '_';
      tag += single ? "_single" : "_double";
      for (std::size_t at = source.find("launch_"); at != std::string::npos;
           at = source.find("launch_", at + 7))
        source.replace(at, 7, "launch_" + tag + "_");
      all += "namespace " + tag + " {\n" + source + "}\n";
    }
  const Library library(all, Target::cuda, "sm_90");
  EXPECT_NE(library.function("launch_csr_double_0"), nullptr);
  EXPECT_NE(library.function("launch_hyb_single_1"), nullptr);
}

// An object serves any number of products, and is a linear operator like others.
TEST(GeneratedMatrices, KeepsItsLibraryAndItsArrays) {
  if (const std::string why = why_no_compiler(Target::host); !why.empty()) GTEST_SKIP() << why;
  const CsrMatrix<double> matrix = t8();
  std::vector<double> x(8, 1.0), y(8, 7.0);
  {
    const GeneratedMatrix<double> other(described("csr"), matrix, test_context());
    const GeneratedMatrix<double> made(described("csr"), matrix, test_context());
    for (int i = 0; i < 3; ++i) made.apply({x.data(), 8}, {y.data(), 8});
    EXPECT_EQ(made.products(), 3);
    EXPECT_EQ(made.bytes(), 24u * 12 + 9 * 4);
    EXPECT_THROW(made.apply({x.data(), 7}, {y.data(), 8}), ShapeMismatch);
  }
  EXPECT_EQ(y, (std::vector<double>{23, 120, 34, 0, 164, 516, 155, 259}));
  EXPECT_EQ(GeneratedMatrix<double>(described("csr"), matrix, test_context()).name(), "csr");
}

// Sets a variable of the environment as long as it lives.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old, had_ = true;
    setenv(name, value, 1);
  }
  ~Environment() { had_ ? setenv(name_, old_.c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};

TEST(GeneratedMatrices, ACompilerThatIsMissingIsNamed) {
  const Environment none("CXX", "/no/such/compiler");
  EXPECT_NE(why_no_compiler(Target::host).find("/no/such/compiler"), std::string::npos);
  try {
    const Library library("// missing compiler\n", Target::host);
    FAIL();
  } catch (const NotAvailable& error) {
    EXPECT_NE(std::string(error.what()).find("/no/such/compiler"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("CXX"), std::string::npos) << error.what();
  }
}

TEST(GeneratedMatrices, WhatTheCompilerSaysIsTold) {
  if (const std::string why = why_no_compiler(Target::host); !why.empty()) GTEST_SKIP() << why;
  try {
    const Library library("int f( {\n", Target::host);
    FAIL();
  } catch (const NotAvailable&) { throw; } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("error"), std::string::npos) << error.what();
  }
  const Library good("extern \"C\" int f() { return 7; }\n", Target::host);
  EXPECT_EQ(reinterpret_cast<int (*)()>(good.function("f"))(), 7);
  EXPECT_THROW(good.function("g"), Error);
}

}  // namespace
}  // namespace protean::test
