// The offline stage of clSpMV (Su and Keutzer, ICS 2012, section 3.2) for the formats of cocktail that pad or need no
// column indices: stored values a second of each, relative to entries a second of csr on the same matrix.
//
//   cocktail_rates avx512|avx2 > TABLE     rows of formats/composed/cocktail_rates.def
//
// Matrices are dense bands of so many rows and entries a row, for blocks dense blocks along the diagonal. One thread;
// the least time of many runs, because other work on the machine only makes a product slower.
#include <fmt/format.h>
#include <hwy/targets.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "core/blas1.hpp"
#include "core/context.hpp"
#include "core/csr.hpp"
#include "core/vector.hpp"
#include "formats/catalogue.hpp"

using namespace protean;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class T>
double seconds_of(const AssembledMatrix<T>& A, Vector<T>& x, Vector<T>& y) {
  for (int warm = 0; warm < 2; ++warm) A.apply(x, y);
  double least = 1e9;
  const double begun = now();
  for (int run = 0; run < 200 && (run < 8 || now() - begun < 0.02); ++run) {
    const double before = now();
    A.apply(x, y);
    least = std::min(least, now() - before);
  }
  return least;
}

// Block rows of R rows, each with blocks of C columns side by side about the diagonal.
CsrMatrix<double> band(const ContextPtr& context, std::int64_t n, std::int64_t width, std::int64_t R,
                       std::int64_t C) {
  const std::int64_t blocks = std::max<std::int64_t>(1, width / C), row = blocks * C;
  CsrBuilder<double> builder(context, n, n, n * row);
  std::int64_t k = 0;
  for (std::int64_t r = 0; r < n; ++r) {
    const std::int64_t first = std::clamp<std::int64_t>(r / R * R / C - blocks / 2, 0, n / C - blocks) * C;
    for (std::int64_t c = first; c < first + row; ++c, ++k)
      builder.col()[k] = static_cast<std::int32_t>(c),
      builder.values()[k] = 1 + 0.25 * static_cast<double>(c % 7);
    builder.set_row_ptr(r + 1, k);
  }
  return builder.freeze();
}

struct Kind {
  const char* format;
  int R, C;
};

template <class T>
void measure(const ContextPtr& context, const char* target) {
  std::vector<Kind> kinds = {{"dia", 1, 1}, {"bdia", 1, 1}};
  for (const char* format : {"bcsr", "bell", "bsellpack"})
    for (const auto& [R, C] : {std::pair{1, 4},
                               {2, 4},
                               {4, 4},
                               {8, 4},
                               {1, 8},
                               {2, 8},
                               {4, 8},
                               {8, 8},
                               {2, 2},
                               {2, 3},
                               {3, 2},
                               {3, 3},
                               {3, 4},
                               {4, 2},
                               {4, 3}})
      kinds.push_back({format, R, C});
  for (const Kind& kind : kinds) {
    std::string line = fmt::format("PROTEAN_COCKTAIL_RATE({}, {}, \"{}\", {}, {}", target, sizeof(T),
                                   kind.format, kind.R, kind.C);
    for (const std::int64_t n : {4080, 131040})  // multiples of 24
      for (const std::int64_t width : {8, 32, 128}) {
        // The largest has fewer rows.
        const std::int64_t rows = std::min<std::int64_t>(n, 4194304 / width / 24 * 24);
        const CsrMatrix<double> in_double = band(context, rows, width, kind.R, kind.C);
        CsrMatrix<T> csr;
        if constexpr (sizeof(T) == 8)
          csr = in_double;
        else
          csr = convert_values<T>(context, in_double);
        Vector<T> x(context, rows), y(context, rows);
        fill<T>(*context, T(1), x);
        FormatParams params;
        if (kind.R * kind.C > 1) params.set("rows", kind.R), params.set("cols", kind.C);
        const auto A = make_matrix(find_format(kind.format), csr, context, params),
                   reference = make_matrix(find_format("csr"), csr, context);
        const auto stored =
            admit(find_format(kind.format), *context, csr.pattern, params, sizeof(T)).stored_values;
        const double own = seconds_of<T>(*A, x, y), its = seconds_of<T>(*reference, x, y);
        line += fmt::format(", {:.2f}",
                            static_cast<double>(stored) / own / (static_cast<double>(csr.nonzeros()) / its));
      }
    fmt::print("{})\n", line);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string target = argc == 2 ? argv[1] : "";
  if (target != "avx512" && target != "avx2") {
    fmt::print(stderr, "usage: cocktail_rates avx512|avx2\n");
    return 2;
  }
  // Targets have higher bits the older they are.
  if (target == "avx2") hwy::DisableTargets(HWY_AVX2 - 1);
  const ContextPtr context = Context::host(1);
  measure<double>(context, target.c_str());
  measure<float>(context, target.c_str());
}
