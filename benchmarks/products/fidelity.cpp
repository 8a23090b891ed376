// What differs from the papers, side by side (docs/formats-fidelity.md): cocktail next to the nine formats of clSpMV,
// the formats of blocks in its eight sizes and in their own, with the time of its plan; and the parameters that give
// the paper's way next to our own.
//
// Prints Markdown. Times are the least of many products, because other work on the machine only makes a product slower.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "benchmarks/common/options.hpp"
#include "benchmarks/common/vectors.hpp"
#include "core/blas1.hpp"
#include "core/context.hpp"
#include "core/csr.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/io/matrix_market.hpp"
#include "core/vector.hpp"
#include "formats/catalogue.hpp"
#include "formats/compose.hpp"

namespace protean::bench {
namespace {

// One thread on a host is timed by the processor, so that other work on the machine counts little.
bool by_processor = false;
double now() {
  timespec time{};
  clock_gettime(by_processor ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Microseconds of a product; 0 if the format refuses. On a device the mean of 20 products at a time.
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
  context->synchronize();
  const int together = context->space() == Space::device ? 20 : 1;
  double least = 1e9;
  const double begun = now();
  for (int run = 0; run < 400 && (run < 20 || now() - begun < (together > 1 ? 0.05 : 0.1)); ++run) {
    const double before = now();
    for (int k = 0; k < together; ++k) A->apply(x, y);
    context->synchronize();
    least = std::min(least, (now() - before) / together);
  }
  return 1e6 * least;
}

// Microseconds of the plan of a cocktail with its cut.
template <class T>
double plan_microseconds(const CsrMatrix<T>& csr, const Context& context) {
  double least = 1e9;
  for (int run = 0; run < 5; ++run) {
    const double before = now();
    (void)admit(find_format("cocktail"), context, csr.pattern, {}, sizeof(T));
    context.synchronize();
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
  double mean() const { return std::exp(sum / std::max(count, 1)); }
  std::string text() const { return fmt::format("geometric mean {:.2f}, worst {:.2f}", mean(), worst); }
};

template <class T>
std::string cocktail_row(const std::string& name, const CsrMatrix<T>& csr, const ContextPtr& context,
                         Geometric& all, Geometric& plans) {
  double best = 1e9, of_csr = 0;
  std::string which, parts;
  const auto look = [&](const char* format, const FormatParams& params, const std::string& called) {
    const double its = microseconds<T>(format, params, csr, context);
    if (called == "csr") of_csr = its;
    if (its > 0 && its < best) best = its, which = called;
  };
  for (const char* format : {"dia", "bdia", "ell", "sell", "csr", "coo", "bell", "bsellpack", "bcsr"})
    look(format, {}, format);
  for (const char* format : {"bell", "bsellpack", "bcsr"})
    for (const char* cols : {"4", "8"})
      for (const char* rows : {"1", "2", "4", "8"})
        look(format, {{"rows", rows}, {"cols", cols}}, fmt::format("{} {}x{}", format, rows, cols));
  const double cocktail = microseconds<T>("cocktail", {}, csr, context, &parts),
               plan = plan_microseconds<T>(csr, *context) / of_csr;
  all.add(best / cocktail), plans.add(plan);
  return fmt::format("| {} | {} | {:.1f} ({}) | {:.1f} | {} | {:.2f} | {:.0f} |\n", name,
                     sizeof(T) == 8 ? "double" : "single", best, which, cocktail, parts, best / cocktail,
                     plan);
}

}  // namespace

int run_fidelity(Arguments& arguments) {
  std::string space = "host";
  int threads = 1;
  std::vector<std::string> matrices = {"poisson-3d", "elasticity-3d", "random-spd", "skewed"};
  arguments.read({shared::space(space),
                  shared::threads(threads),
                  {"--matrices", &matrices, "of these names, or files"}});
  const bool on_device = space == "device";
  const ContextPtr host = Context::host(on_device ? 1 : threads), context = context_of(space, host);
  by_processor = !on_device && threads == 1;
  struct Variant {
    const char *title, *format;
    FormatParams ours, paper;
    std::string rows = {};
    Geometric all = {};
  };
  std::vector<Variant> options = {
      {"tile-composite: columns natural, and degree with 8 tiles",
       "tile-composite",
       {},
       {{"columns", "degree"}, {"tiles", "8"}, {"tile", "16384"}}},
      {"tile-composite: tile 16384, columns natural, and degree",
       "tile-composite",
       {{"tile", "16384"}},
       {{"tile", "16384"}, {"columns", "degree"}}},
      {"tilespmv-deferred-coo: rest csr, and csr5", "tilespmv-deferred-coo", {}, {{"rest", "csr5"}}}};
  Geometric of_cocktail, of_plans;
  fmt::print(
      "| matrix | precision | best of nine, us | cocktail, us | its parts | ratio | plan, products of csr "
      "|\n|---|---|---|---|---|---|---|\n");
  for (std::string name : matrices) {
    const CsrMatrix<double> read = matrix_of(name, host), csr = on_device ? upload(context, read) : read;
    name = name.substr(name.find_last_of('/') + 1);
    name = name.substr(0, name.find('.'));
    fmt::print("{}", cocktail_row<double>(name, csr, context, of_cocktail, of_plans));
    const CsrMatrix<float> single = convert_values<float>(host, read);
    fmt::print("{}", cocktail_row<float>(name, on_device ? upload(context, single) : single, context,
                                         of_cocktail, of_plans));
    for (Variant& option : options) {
      const double ours = microseconds<double>(option.format, option.ours, csr, context),
                   paper = microseconds<double>(option.format, option.paper, csr, context);
      if (ours == 0 || paper == 0) continue;
      option.all.add(ours / paper);
      option.rows += fmt::format("| {} | {:.0f} | {:.0f} | {:.2f} |\n", name, ours, paper, ours / paper);
    }
    std::fflush(stdout);
  }
  fmt::print("\ncocktail: {}; its plan takes {:.0f} products of csr in the geometric mean\n",
             of_cocktail.text(), of_plans.mean());
  for (const Variant& option : options)
    fmt::print("\n{}: {}\n\n| matrix | the first, us | the second, us | ratio |\n|---|---|---|---|\n{}",
               option.title, option.all.text(), option.rows);
  return 0;
}

}  // namespace protean::bench
