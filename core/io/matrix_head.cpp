#include "core/io/matrix_head.hpp"

#include <fmt/format.h>

#include <memory>

#include "core/io/harwell_boeing.hpp"
#include "core/io/harwell_boeing_layout.hpp"
#include "core/io/matrix_input.hpp"
#include "core/io/pbin.hpp"

namespace protean::io_detail {
namespace {

std::string form_of(const char* name, const Header& header) {
  return fmt::format("{}, {}{}", name, header.coordinate ? "" : "array, ",
                     header.symmetry == Header::Symmetry::general     ? "general"
                     : header.symmetry == Header::Symmetry::symmetric ? "symmetric"
                                                                      : "skew-symmetric");
}

}  // namespace

MatrixHead read_matrix_head(const std::string& path) {
  if (is_pbin(path)) {
    const CsrMatrix<double> mapped = read_pbin(Context::host(1), path, false);
    return {".pbin", mapped.rows(), mapped.cols(), mapped.nonzeros()};
  }
  const Input input{path, [&path] { return open_file(path); }};
  const auto source = input.lines();
  const bool boeing = begins_as_harwell_boeing(*source);
  Header header;
  if (boeing) {
    Cards cards(input, *source);
    header = layout_of(cards, false).header;
  } else {
    header = read_header(*source, false);
  }
  if (header.coordinate) check_rows(input, header);
  return {form_of(boeing ? "Harwell-Boeing" : "Matrix Market", header), header.rows, header.cols,
          header.entries};
}

}  // namespace protean::io_detail
