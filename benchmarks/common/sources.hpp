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
// The sources with these names, in their order: one of sources(), a generator with its parameters
// (poisson-3d:n=200+points=27) or a file of the folder. All of sources() without names.
std::vector<Source> sources_named(const std::vector<std::string>& names);

// The generated matrix, or the file NAME.mtx, .mtx.gz or .mtx.xz of the folder; nothing if it is not there.
std::optional<CsrMatrix<double>> load(const ContextPtr& context, const Source& source,
                                      const std::string& folder);
// The Laplacian on the unit square, zero on the boundary, with elements x elements quadratic elements:
// (2 elements - 1)^2 rows.
CsrMatrix<double> quadratic_elements(const ContextPtr& context, int elements);
bool is_symmetric(const ContextPtr& context, const CsrMatrix<double>& matrix);

}  // namespace protean::bench
