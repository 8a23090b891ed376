#include "benchmarks/sources.hpp"

#include <algorithm>
#include <filesystem>

#include "core/io/matrix_market.hpp"

namespace protean::bench {

const std::vector<Source>& sources() {
  static const std::vector<Source> list = {
      {"poisson-3d-60", "poisson-3d", {{"n", 60}}},
      {"poisson-3d-100", "poisson-3d", {{"n", 100}}},
      {"27-point-64", "poisson-3d", {{"n", 64}, {"points", 27}}},
      {"elasticity-3d-24", "elasticity-3d", {{"n", 24}}},
      {"G2_circuit", "", {}},
      {"bcsstk17", "", {}},
      {"af23560", "", {}},
      {"wave", "", {}},
  };
  return list;
}

std::optional<CsrMatrix<double>> load(const ContextPtr& context, const Source& source,
                                      const std::string& folder) {
  if (!source.kind.empty()) return generate(context, source.kind, source.params);
  if (folder.empty()) return {};
  for (const char* ending : {".mtx", ".mtx.gz", ".mtx.xz"}) {
    const auto path = std::filesystem::path(folder) / (source.name + ending);
    if (std::filesystem::exists(path)) return read_matrix_market(context, path.string());
  }
  return {};
}

bool is_symmetric(const ContextPtr& context, const CsrMatrix<double>& matrix) {
  return matrix.rows() == matrix.cols() && identical(matrix, transpose(context, matrix));
}

}  // namespace protean::bench
