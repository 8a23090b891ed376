// What a wider instruction set gains in the product of each format: the time without it over the time with it. One
// thread; the two sides are timed in turns in one process, so that other load on the machine meets both.
#include <fmt/format.h>
#include <hwy/targets.h>

#include <cmath>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "benchmarks/common/sources.hpp"
#include "formats/catalogue.hpp"
#include "operators/multi_product.hpp"

namespace protean::bench {
namespace {

// Highway gives better sets lower bits.
constexpr std::int64_t avx512 = HWY_AVX2 - 1, avx2 = HWY_AVX2;

// Processor seconds of this thread.
double now() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

void take(std::int64_t targets) {
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().DeInit();  // the next product chooses again
}

// Matrices of a few kinds that people solve; none is larger than the caches of a server, in which a wide vector gains
// most.
const std::vector<Source> generated = {{"poisson-3d", "poisson-3d", {{"n", 24.0}}},
                                       {"elasticity-3d", "elasticity-3d", {{"n", 10.0}}},
                                       {"random-spd", "random-spd", {{"n", 10000.0}}},
                                       {"poisson-3d-large", "poisson-3d", {{"n", 100.0}}}};

}  // namespace

int run_instruction_sets(Arguments& arguments) {
  std::string set = "avx512", folder;
  std::vector<std::string> names, matrices;
  int pairs = 41, columns = 1;
  arguments.read(
      {{"--set", &set, "avx512: AVX-512 and AVX2; avx2: AVX2 and one lane at a time",
        one_of({"avx512", "avx2"})},
       shared::formats(names),
       shared::only(matrices),
       shared::folder(folder),
       {"--pairs", &pairs, "times of the two sides, in turns", at_least(1)},
       {"--columns", &columns, "of a product with that many interleaved vectors, in the formats that have it",
        at_least(1)}});
  const std::int64_t all = hwy::SupportedTargets();
  const std::int64_t wide = set == "avx2" ? all & ~avx512 : all;
  const std::int64_t narrow = set == "avx2" ? all & ~(avx512 | avx2) : all & ~avx512;
  if ((wide & (set == "avx2" ? avx2 : avx512)) == 0) {
    fmt::print(stderr, "this processor does not have the set {}\n", set);
    return 1;
  }
  const ContextPtr context = Context::host(1);
  const std::vector<Source> sources = matrices.empty() ? generated : sources_named(matrices);
  fmt::print("| format |");
  for (const auto& source : sources) fmt::print(" {} |", source.name);
  fmt::print(" mean |\n|---|");
  for (std::size_t i = 0; i <= sources.size(); ++i) fmt::print("--:|");
  fmt::print("\n");
  std::vector<CsrMatrix<double>> loaded;
  for (const auto& source : sources) {
    auto csr = load(context, source, folder);
    if (!csr) {
      fmt::print(stderr, "{} is not there\n", source.name);
      return 1;
    }
    loaded.push_back(std::move(*csr));
  }
  for (const FormatEntry* format : layouts()) {
    if (!wanted(names, format->id)) continue;
    fmt::print("| {} |", format->id);
    double log_sum = 0;
    int count = 0;
    for (const auto& csr : loaded) {
      std::unique_ptr<AssembledMatrix<double>> matrix;
      try {
        matrix = make_matrix(*format, csr, context);
      } catch (const FormatRefused&) {
        fmt::print("  |");
        continue;
      }
      if (columns > 1 && !column_by_column(*matrix).empty()) {
        fmt::print("  |");
        continue;
      }
      MultiVector<double> x(context, csr.cols(), columns, VectorLayout::interleaved),
          y(context, csr.rows(), columns, VectorLayout::interleaved);
      for (std::int64_t i = 0; i < csr.cols() * columns; ++i)
        x.data()[i] = 1 / static_cast<double>(1 + i % 7);
      const auto product = [&] {
        if (columns == 1)
          matrix->apply(VectorView<const double>{x.data(), csr.cols()}, {y.data(), csr.rows()});
        else
          multi_apply<double>(*matrix, x.view(), y.view());
      };
      // As many products as take some 0.2 ms.
      const std::int64_t repeats = std::max<std::int64_t>(1, 400000 / (columns * csr.nonzeros()));
      const auto seconds = [&](std::int64_t targets) {
        take(targets);
        product();
        const double begin = now();
        for (std::int64_t i = 0; i < repeats; ++i) product();
        return now() - begin;
      };
      std::vector<double> ratios;
      for (int pair = 0; pair < pairs; ++pair) {
        const double a = pair % 2 == 0 ? seconds(narrow) : 0, b = seconds(wide);
        ratios.push_back((pair % 2 == 0 ? a : seconds(narrow)) / b);
      }
      const double ratio = median(std::move(ratios));
      fmt::print(" {:.2f} |", ratio);
      log_sum += std::log(ratio), ++count;
    }
    fmt::print(" {} |\n", count > 0 ? fmt::format("{:.2f}", std::exp(log_sum / count)) : "");
    std::fflush(stdout);
  }
  take(0);
  return 0;
}

}  // namespace protean::bench
