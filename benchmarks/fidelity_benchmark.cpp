// What differs from the papers, side by side (docs/formats-fidelity.md): cocktail beside the nine formats of clSpMV,
// and the parameters that give the paper's way beside ours.
//
//   fidelity_benchmark THREADS MATRIX...        a file, or poisson-3d, elasticity-3d, random-spd, skewed
//
// Prints Markdown. Times are the least of many products, because other work on the machine only makes a product slower.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/blas1.hpp"
#include "core/context.hpp"
#include "core/csr.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/io/matrix_market.hpp"
#include "core/vector.hpp"
#include "formats/catalogue.hpp"
#include "formats/compose.hpp"

using namespace protean;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Microseconds of a product; 0 where the format refuses.
template <class T>
double microseconds(const char* format, const FormatParams& params, const CsrMatrix<T>& csr,
                    const ContextPtr& context, std::string* parts = nullptr) {
  std::unique_ptr<AssembledMatrix<T>> A;
  try {
    A = make_matrix(find_format(format), csr, context, params);
  } catch (const FormatRefused&) { return 0; }
  if (const auto* shown = dynamic_cast<const HasParts*>(A.get()); shown && parts)
    *parts = text_of(shown->part_shares());
  Vector<T> x(context, csr.cols()), y(context, csr.rows());
  fill<T>(*context, T(1), x);
  for (int warm = 0; warm < 3; ++warm) A->apply(x, y);
  double least = 1e9;
  const double begun = now();
  for (int run = 0; run < 400 && (run < 20 || now() - begun < 0.25); ++run) {
    const double before = now();
    A->apply(x, y);
    least = std::min(least, now() - before);
  }
  return 1e6 * least;
}

CsrMatrix<double> matrix_of(const std::string& name, const ContextPtr& context) {
  if (name == "poisson-3d") return generate(context, name, {{"n", 50}});
  if (name == "elasticity-3d") return generate(context, name, {{"n", 20}});
  if (name == "random-spd") return generate(context, name, {{"n", 60000}});
  if (name == "skewed")
    return generate(context, "graph-laplacian", {{"n", 400000}, {"degree", 12}, {"exponent", 2.2}});
  return read_matrix(context, name, {});
}

struct Geometric {
  double sum = 0, worst = 1e9;
  int count = 0;
  void add(double ratio) { sum += std::log(ratio), worst = std::min(worst, ratio), ++count; }
  std::string text() const {
    return fmt::format("geometric mean {:.2f}, worst {:.2f}", std::exp(sum / std::max(count, 1)), worst);
  }
};

template <class T>
std::string cocktail_row(const std::string& name, const CsrMatrix<T>& csr, const ContextPtr& context,
                         Geometric& all) {
  double best = 1e9;
  std::string which, parts;
  for (const char* format : {"dia", "bdia", "ell", "sell", "csr", "coo", "bell", "bsellpack", "bcsr"})
    if (const double its = microseconds<T>(format, {}, csr, context); its > 0 && its < best)
      best = its, which = format;
  const double cocktail = microseconds<T>("cocktail", {}, csr, context, &parts);
  all.add(best / cocktail);
  return fmt::format("| {} | {} | {:.0f} ({}) | {:.0f} | {} | {:.2f} |\n", name,
                     sizeof(T) == 8 ? "double" : "single", best, which, cocktail, parts, best / cocktail);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: fidelity_benchmark THREADS MATRIX...\n");
    return 2;
  }
  const ContextPtr context = Context::host(std::atoi(argv[1]));
  struct Option {
    const char *title, *format;
    FormatParams ours, paper;
    std::string rows = {};
    Geometric all = {};
  };
  std::vector<Option> options = {
      {"tile-composite: columns natural, and degree with 8 tiles",
       "tile-composite",
       {},
       {{"columns", "degree"}, {"tiles", "8"}, {"tile", "16384"}}},
      {"tile-composite: tile 16384, columns natural, and degree",
       "tile-composite",
       {{"tile", "16384"}},
       {{"tile", "16384"}, {"columns", "degree"}}},
      {"tilespmv-deferred-coo: rest csr, and csr5", "tilespmv-deferred-coo", {}, {{"rest", "csr5"}}}};
  Geometric of_cocktail;
  fmt::print(
      "| matrix | precision | best of nine, us | cocktail, us | its parts | ratio "
      "|\n|---|---|---|---|---|---|\n");
  for (int i = 2; i < argc; ++i) {
    const CsrMatrix<double> csr = matrix_of(argv[i], context);
    std::string name = argv[i];
    name = name.substr(name.find_last_of('/') + 1);
    name = name.substr(0, name.find('.'));
    fmt::print("{}", cocktail_row<double>(name, csr, context, of_cocktail));
    fmt::print("{}", cocktail_row<float>(name, convert_values<float>(context, csr), context, of_cocktail));
    for (Option& option : options) {
      const double ours = microseconds<double>(option.format, option.ours, csr, context),
                   paper = microseconds<double>(option.format, option.paper, csr, context);
      if (ours == 0 || paper == 0) continue;
      option.all.add(ours / paper);
      option.rows += fmt::format("| {} | {:.0f} | {:.0f} | {:.2f} |\n", name, ours, paper, ours / paper);
    }
    std::fflush(stdout);
  }
  fmt::print("\ncocktail: {}\n", of_cocktail.text());
  for (const Option& option : options)
    fmt::print("\n{}: {}\n\n| matrix | the first, us | the second, us | ratio |\n|---|---|---|---|\n{}",
               option.title, option.all.text(), option.rows);
}
