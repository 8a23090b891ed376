// The Matrix Market reader on any bytes: it returns a valid matrix, the same for any number of threads, or
// throws one of the library's errors.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "core/io/matrix_market.hpp"

namespace {

using namespace protean;

[[noreturn]] void broken(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

struct Outcome {
  std::optional<CsrMatrix<double>> matrix;
  std::string error;
};

Outcome read(const ContextPtr& context, std::string_view text, const ReadOptions& options) {
  try {
    return {read_matrix_market_text(context, "input", text, options), {}};
  } catch (const BadFile& e) { return {{}, e.what()}; } catch (const OutOfMemory& e) {
    return {{}, e.what()};
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ContextPtr one = Context::host(1), three = Context::host(3);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ReadOptions options;
  options.memory_limit = std::size_t{16} << 20;
  for (const Duplicates duplicates : {Duplicates::sum, Duplicates::refuse}) {
    options.duplicates = duplicates;
    options.allow_not_finite = duplicates == Duplicates::refuse;
    const Outcome first = read(one, text, options);
    if (first.matrix) {
      try {
        validate(*one, first.matrix->pattern);
      } catch (const BadMatrix& e) { broken(e.what()); }
    } else if (first.error.empty()) {
      broken("an error without a message");
    }
    const Outcome second = read(three, text, options);
    if (first.matrix.has_value() != second.matrix.has_value() || first.error != second.error)
      broken("one thread and three disagree");
    if (first.matrix && !identical(*first.matrix, *second.matrix))
      broken("one thread and three read other matrices");
  }
  return 0;
}
