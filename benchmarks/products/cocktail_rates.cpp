// The offline stage of clSpMV (Su and Keutzer, ICS 2012, section 3.2) for the formats of cocktail that pad or need no
// column indices: stored values a second of each, relative to entries a second of csr on the same matrix.
//
// It prints rows of formats/composed/cocktail_rates.def, with --again yes the rows that it has.
//
// Matrices are dense bands of several numbers of rows and entries of a row, for blocks dense blocks along the diagonal.
// One thread. A format and csr are measured in turn, by the time of the processor; a rate is the median over the turns
// of least time over least time, since other work on the machine only makes a product slower. Rates that stand out from
// the sizes next to them, and rates whose turns differ, are measured again with more turns. A rate of the table that is
// far too low is left alone by --again: long rows of a format can be as slow as that on one processor and not on
// another (bdia and bell on an AMD EPYC with either instruction set), and a rate that is far too high can come of a
// disturbed csr only.
#include <fmt/format.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "benchmarks/common/options.hpp"
#include "core/blas1.hpp"
#include "core/context.hpp"
#include "core/csr.hpp"
#include "core/vector.hpp"
#include "formats/catalogue.hpp"
#include "formats/composed/cocktail_rates.hpp"

namespace protean::bench {
namespace {

// Of the processor: work is in one thread, and others on the machine shall not count.
double now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <class T>
double least_seconds(const AssembledMatrix<T>& A, Vector<T>& x, Vector<T>& y) {
  double least = 1e9;
  const double begun = now();
  for (int run = 0; run < 100 && (run < 4 || now() - begun < 0.01); ++run) {
    const double before = now();
    A.apply(x, y);
    least = std::min(least, now() - before);
  }
  return least;
}

// Seconds of csr over seconds of a format.
struct Turns {
  double median = 0, spread = 1;  // largest over smallest of the middle half
};
template <class T>
Turns in_turn(const AssembledMatrix<T>& A, const AssembledMatrix<T>& csr, Vector<T>& x, Vector<T>& y,
              int turns) {
  for (int warm = 0; warm < 2; ++warm) A.apply(x, y), csr.apply(x, y);
  std::vector<double> ratios;
  for (int turn = 0; turn < turns; ++turn) {
    const double own = least_seconds<T>(A, x, y);
    ratios.push_back(least_seconds<T>(csr, x, y) / own);
  }
  std::sort(ratios.begin(), ratios.end());
  const std::size_t n = ratios.size();
  return {ratios[n / 2], ratios[n - 1 - n / 4] / ratios[n / 4]};
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

std::vector<Kind> all_kinds() {
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
  return kinds;
}

// Rate i of a row of the table.
template <class T>
double rate(const ContextPtr& context, const Kind& kind, int i, int turns) {
  constexpr std::int64_t sizes[] = {4080, 131040};  // multiples of 24
  constexpr std::int64_t widths[] = {8, 32, 128};
  // The largest has fewer rows.
  const std::int64_t width = widths[i % formats::cocktail_lengths],
                     rows = std::min(sizes[i / formats::cocktail_lengths], 4194304 / width / 24 * 24);
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
  const auto stored = static_cast<double>(
      admit(find_format(kind.format), *context, csr.pattern, params, sizeof(T)).stored_values);
  constexpr int most_tries = 4;
  Turns found;
  for (int tries = 0; tries < most_tries; ++tries, turns *= 2) {
    found = in_turn<T>(*A, *reference, x, y, turns);
    if (found.spread < 1.15) break;
  }
  return found.median * stored / static_cast<double>(csr.nonzeros());
}

// The row as it was, or measured if `was` is null; what stands out is measured (again). Tells stderr what has changed.
template <class T>
void print_row(const ContextPtr& context, const char* target, const Kind& kind, const double* was) {
  constexpr int count = 2 * formats::cocktail_lengths;
  double rates[count];
  for (int i = 0; i < count; ++i) rates[i] = was ? was[i] : rate<T>(context, kind, i, 5);
  for (int i = 0; i < count; ++i) {
    const int side = formats::stands_out(rates, i);
    if (side == 0 || (was && side < 0)) continue;
    const double again = rate<T>(context, kind, i, 15);
    fmt::print(stderr, "{} {} bytes {} {} x {}, rate {}: {:.2f} before, {:.2f} again\n", target, sizeof(T),
               kind.format, kind.R, kind.C, i, rates[i], again);
    rates[i] = again;
  }
  std::string line = fmt::format("PROTEAN_COCKTAIL_RATE({}, {}, \"{}\", {}, {}", target, sizeof(T),
                                 kind.format, kind.R, kind.C);
  for (const double its : rates) line += fmt::format(", {:.2f}", its);
  fmt::print("{})\n", line);
  std::fflush(stdout);
}

template <class T>
void measure(const ContextPtr& context, const char* target, bool again) {
  const BuiltinHost host = target == std::string_view("avx2") ? BuiltinHost::avx2 : BuiltinHost::avx512;
  if (!again) {
    for (const Kind& kind : all_kinds()) print_row<T>(context, target, kind, nullptr);
    return;
  }
  for (const formats::CocktailRates& row : formats::cocktail_table())
    if (row.host == host && row.value_bytes == sizeof(T))
      print_row<T>(context, target, {row.format.data(), static_cast<int>(row.R), static_cast<int>(row.C)},
                   row.rates);
}

}  // namespace

int run_cocktail_rates(Arguments& arguments) {
  std::string target;
  bool again = false;
  arguments.read({{"--set", &target, "instructions", {.words = {"avx512", "avx2"}, .required = true}},
                  {"--again", &again, "the rows that are there; far too high rates are measured again"}});
  // Targets have higher bits the older they are.
  if (target == "avx2") hwy::DisableTargets(HWY_AVX2 - 1);
  const ContextPtr context = Context::host(1);
  measure<double>(context, target.c_str(), again);
  measure<float>(context, target.c_str(), again);
  return 0;
}

}  // namespace protean::bench
