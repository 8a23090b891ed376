// What a wider instruction set gains in the product of each format: the time without it over the time with it. One
// thread; the two sides are timed in turns in one process, so that other load on the machine meets both.
//   instruction_sets_benchmark [--sets avx512|avx2] [--formats a,b] [--matrices name,...] [--folder F] [--pairs 41]
//                              [--columns 1]
// --sets avx512 compares AVX-512 with AVX2 (the default), avx2 compares AVX2 with one lane at a time. With several
// columns the product is that with so many interleaved vectors, in the formats that have it.
#include <fmt/format.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <exception>
#include <string>
#include <vector>

#include "formats/catalogue.hpp"
#include "operators/multi_product.hpp"
#include "options.hpp"
#include "sources.hpp"

namespace {

using namespace protean;

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

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// What an n x n matrix of a few kinds has in common with those that people solve; none is larger than the caches of a
// server, where a wide vector gains most.
const std::vector<bench::Source> generated = {{"poisson-3d", "poisson-3d", {{"n", 24.0}}},
                                              {"elasticity-3d", "elasticity-3d", {{"n", 10.0}}},
                                              {"random-spd", "random-spd", {{"n", 10000.0}}},
                                              {"poisson-3d-large", "poisson-3d", {{"n", 100.0}}}};

int run(const std::string& sets, const std::vector<std::string>& names,
        const std::vector<std::string>& matrices, const std::string& folder, int pairs, int columns) {
  const std::int64_t all = hwy::SupportedTargets();
  const std::int64_t wide = sets == "avx2" ? all & ~avx512 : all;
  const std::int64_t narrow = sets == "avx2" ? all & ~(avx512 | avx2) : all & ~avx512;
  if ((wide & (sets == "avx2" ? avx2 : avx512)) == 0) {
    fmt::print(stderr, "this processor does not have the set {}\n", sets);
    return 1;
  }
  const ContextPtr context = Context::host(1);
  const std::vector<bench::Source> sources = matrices.empty() ? generated : bench::sources_named(matrices);
  fmt::print("| format |");
  for (const auto& source : sources) fmt::print(" {} |", source.name);
  fmt::print(" mean |\n|---|");
  for (std::size_t i = 0; i <= sources.size(); ++i) fmt::print("--:|");
  fmt::print("\n");
  std::vector<CsrMatrix<double>> loaded;
  for (const auto& source : sources) {
    auto csr = bench::load(context, source, folder);
    if (!csr) {
      fmt::print(stderr, "{} is not there\n", source.name);
      return 1;
    }
    loaded.push_back(std::move(*csr));
  }
  for (const FormatEntry* format : layouts()) {
    if (!bench::wanted(names, format->id)) continue;
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

}  // namespace

int main(int argc, char** argv) {
  std::string sets = "avx512", folder;
  std::vector<std::string> formats, matrices;
  int pairs = 41, columns = 1;
  if (!bench::read_options(argc, argv,
                           {{"--sets", &sets},
                            {"--formats", &formats},
                            {"--matrices", &matrices},
                            {"--folder", &folder},
                            {"--pairs", &pairs},
                            {"--columns", &columns}}) ||
      (sets != "avx512" && sets != "avx2") || pairs < 1 || columns < 1) {
    fmt::print(
        stderr,
        "instruction_sets_benchmark [--sets avx512|avx2] [--formats a,b] [--matrices name,...] [--folder F] "
        "[--pairs 41] [--columns 1]\n");
    return 2;
  }
  try {
    return run(sets, formats, matrices, folder, pairs, columns);
  } catch (const std::exception& e) {
    fmt::print(stderr, "instruction_sets_benchmark: {}\n", e.what());
    return 1;
  }
}
