// The matrices of the benchmarks.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/csr.hpp"
#include "core/generate/generate.hpp"

namespace protean::bench {

struct Source {
  std::string name;
  std::string kind;  // of a generator; empty for a file
  GeneratorParams params;
};
const std::vector<Source>& sources();

// The generated matrix, or the file NAME.mtx, .mtx.gz or .mtx.xz of the folder; nothing when it is not there.
std::optional<CsrMatrix<double>> load(const ContextPtr& context, const Source& source,
                                      const std::string& folder);
bool is_symmetric(const ContextPtr& context, const CsrMatrix<double>& matrix);

}  // namespace protean::bench
