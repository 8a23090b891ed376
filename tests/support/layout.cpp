#include "support/layout.hpp"

#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"

namespace protean::test {

std::vector<double> layout_numbers(const AssembledMatrix<double>& matrix, std::string_view array) {
  const auto* shown = dynamic_cast<const HasLayout*>(&matrix);
  if (!shown) {
    ADD_FAILURE() << matrix.name() << " does not show its layout";
    return {};
  }
  for (const LayoutArray& one : shown->layout())
    if (one.name == array) return one.numbers;
  ADD_FAILURE() << matrix.name() << " has no array " << array;
  return {};
}

std::unique_ptr<AssembledMatrix<double>> build(std::string_view format, const CsrMatrix<double>& csr,
                                               const FormatParams& params, std::string_view kernel) {
  return make_matrix(find_format(format), csr, test_context(), params, kernel);
}

}  // namespace protean::test
