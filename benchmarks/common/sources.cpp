#include "benchmarks/common/sources.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "core/error.hpp"
#include "core/identical.hpp"
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

namespace {

// KIND:NAME=VALUE+NAME=VALUE
Source generated(const std::string& name) {
  const std::size_t colon = name.find(':');
  Source source{name, name.substr(0, colon), {}};
  std::istringstream rest(name.substr(colon + 1));
  for (std::string word; std::getline(rest, word, '+');) {
    const std::size_t equal = word.find('=');
    if (equal == std::string::npos)
      throw BadArgument("matrix " + name + ": expected NAME=VALUE, not " + word);
    source.params[word.substr(0, equal)] = std::stod(word.substr(equal + 1));
  }
  return source;
}

}  // namespace

std::vector<Source> sources_named(const std::vector<std::string>& names) {
  if (names.empty()) return sources();
  std::vector<Source> chosen;
  for (const std::string& name : names) {
    const auto found = std::find_if(sources().begin(), sources().end(),
                                    [&](const Source& source) { return source.name == name; });
    chosen.push_back(found != sources().end()      ? *found
                     : name.find(':') != name.npos ? generated(name)
                                                   : Source{name, "", {}});
  }
  return chosen;
}

CsrMatrix<double> quadratic_elements(const ContextPtr& context, int elements) {
  // On an interval: matrices of u'v' and u v of one element of length h, times 3 h and 30 / h.
  constexpr double stiffness[3][3] = {{7, -8, 1}, {-8, 16, -8}, {1, -8, 7}};
  constexpr double mass[3][3] = {{4, 2, -1}, {2, 16, 2}, {-1, 2, 4}};
  const int nodes = 2 * elements + 1, n = nodes - 2;
  std::vector<Triplet<double>> entries;
  // A is the sum of (stiffness in one direction) x (mass in the other one), element by element.
  for (int ey = 0; ey < elements; ++ey)
    for (int ex = 0; ex < elements; ++ex)
      for (int i = 0; i < 9; ++i)
        for (int j = 0; j < 9; ++j) {
          const int xi = 2 * ex + i % 3 - 1, yi = 2 * ey + i / 3 - 1;
          const int xj = 2 * ex + j % 3 - 1, yj = 2 * ey + j / 3 - 1;
          if (std::min({xi, yi, xj, yj}) < 0 || std::max({xi, yi, xj, yj}) >= n) continue;
          const double value =
              (stiffness[i % 3][j % 3] * mass[i / 3][j / 3] + mass[i % 3][j % 3] * stiffness[i / 3][j / 3]) /
              90;
          entries.push_back({yi * n + xi, yj * n + xj, value});
        }
  return csr_from_triplets<double>(context, n * n, n * n, entries);
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
