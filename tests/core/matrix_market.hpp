// What the tests of Matrix Market files share.
#pragma once
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "core/csr.hpp"

namespace protean::test {

inline std::string dense(const CsrMatrix<double>& a) {
  std::string text;
  for (std::int64_t r = 0; r < a.rows(); ++r) {
    std::int64_t k = a.pattern.row_ptr[r];
    for (std::int64_t c = 0; c < a.cols(); ++c) {
      const bool stored = k < a.pattern.row_ptr[r + 1] && a.pattern.col[k] == c;
      text += stored ? fmt::format("{} ", a.values[k++]) : ". ";
    }
    text += "/ ";
  }
  return text;
}

inline constexpr std::string_view general = "%%MatrixMarket matrix coordinate real general\n";

}  // namespace protean::test
