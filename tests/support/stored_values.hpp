// Matrices whose values are not stored as the vectors (parameter `values`): other values, all products, and the kernels
// that have the parameter.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/multi_product.hpp"
#include "support/multi.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"

namespace protean::test {

inline CsrMatrix<double> with_values(const CsrMatrix<double>& csr, const std::vector<double>& values) {
  const auto kept = std::make_shared<std::vector<double>>(values);
  return {csr.pattern, kept->data(), kept};
}
inline std::vector<double> values_of(const CsrMatrix<double>& csr) {
  return {csr.values, csr.values + csr.nonzeros()};
}
inline CsrMatrix<double> scaled(const CsrMatrix<double>& csr, double factor) {
  std::vector<double> values = values_of(csr);
  for (double& value : values) value *= factor;
  return with_values(csr, values);
}
inline FormatParams in(const char* word) { return {{"values", word}}; }

inline bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), 8 * a.size()) == 0);
}

// All products of a matrix, one after another. several: also with several vectors.
inline std::vector<double> products(const AssembledMatrix<double>& A, bool several = true) {
  const ContextPtr& context = A.context();
  const auto rows = static_cast<std::size_t>(A.rows());
  const Placed<double> x(context, sample_vector<double>(A.cols(), 4));
  Placed<double> y(context, sample_vector<double>(A.rows(), 5));
  std::vector<double> all;
  const auto keep = [&](const std::vector<double>& some) { all.insert(all.end(), some.begin(), some.end()); };
  for (const double beta : {0.75, 0.0}) A.apply(1.25, x.read(), beta, y.view()), keep(y.fetch());
  A.apply(x.read(), y.view()), keep(y.fetch());
  if (A.rows() == A.cols()) {
    Placed<double> dot(context, {0.0});
    apply_dot<double>(A, x.read(), y.view(), dot.data());
    keep(y.fetch()), keep(dot.fetch());
  }
  if (!several) return all;
  constexpr std::int64_t k = 3;
  std::vector<double> entries(static_cast<std::size_t>(A.cols() * k));
  for (std::size_t i = 0; i < entries.size(); ++i) entries[i] = std::sin(static_cast<double>(i));
  const Space space = context->space();
  Placed<double> X(context, entries), Y(context, std::vector<double>(rows * k));
  multi_apply<double>(A, 1.0, {X.data(), A.cols(), k, k, VectorLayout::interleaved, space}, 0.0,
                      {Y.data(), A.rows(), k, k, VectorLayout::interleaved, space});
  keep(Y.fetch());
  return all;
}

struct StoredWay {
  const FormatEntry* format;
  const Kernel* kernel;
  Space space;
};
// The ways of all formats whose kernel the test accepts.
inline std::vector<StoredWay> ways_with(bool (*has)(const Kernel&) noexcept) {
  std::vector<StoredWay> list;
  for (const FormatEntry* format : catalogue())
    for (const Space space : {Space::host, Space::device})
      for (const Kernel& kernel : kernels_in(*format, space))
        if (has(kernel)) list.push_back({format, &kernel, space});
  return list;
}

inline std::string name_of(const testing::TestParamInfo<StoredWay>& way) {
  std::string name = std::string(way.param.format->id) + "__" + std::string(to_string(way.param.space)) +
                     "_" + std::string(way.param.kernel->name);
  std::ranges::replace(name, '-', '_');
  return name;
}

}  // namespace protean::test
