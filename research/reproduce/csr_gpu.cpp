// Exhibits of S1: I. Reguly, M. Giles, Efficient sparse matrix-vector multiplication on cache-based GPUs, InPar 2012.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/command/clock.hpp"
#include "apps/machine/product_bytes.hpp"
#include "core/blas1.hpp"
#include "formats/catalogue.hpp"
#include "research/reproduce/tools.hpp"

namespace protean::research::exhibits {
namespace {

Way vendor(const Lab& lab, bool single) {
  return {"csr", {}, lab.device() ? std::string_view("cusparse") : std::string_view("mkl"), single};
}

Way fixed_rule(bool single) { return {"csr-reguly-giles", {}, {}, single}; }

Way tuned(bool single) { return {"csr-reguly-giles-tuned", {}, {}, single}; }

void note_host(Exhibit& e, const Lab& lab) {
  if (!lab.device())
    e.limits.emplace_back(
        "On a host CUSPARSE is MKL's CSR where the build has it, and the fixed rule and the tuned kernel are "
        "both the kernel of csr.");
}

// True if the exhibit needs a GPU and there is none in this run; the exhibit says so.
bool without_device(Exhibit& e, const Lab& lab, std::string_view why) {
  if (lab.device()) return false;
  e.limits.push_back(fmt::format("Not measured: {} (--space device).", why));
  return true;
}

std::vector<std::string> training(const Lab& lab) {
  const PaperTable& table = lab.papers()["s1-table-1"];
  std::vector<std::string> names;
  for (std::size_t row = 0; row < table.rows(); ++row) names.push_back(table.label(row));
  return names;
}

Cell ours(std::optional<double> value, std::string word = {}) { return {{}, {}, value, std::move(word)}; }

Way cooperative(int threads, int block, int repeat, bool single) {
  return {
      "csr",
      {{"T", std::to_string(threads)}, {"block", std::to_string(block)}, {"repeat", std::to_string(repeat)}},
      "cooperative",
      single};
}

// The best of all parameters of Figures 4 to 6.
struct Best {
  double gflops = 0;
  int threads = 1;
};

Best exhaustive(Lab& lab, const Specimen& specimen, bool single) {
  Best best;
  for (const int threads : {1, 2, 4, 8, 16, 32})
    for (const int repeat : {1, 4, 16})
      if (const auto speed = lab.gflops(specimen, cooperative(threads, 128, repeat, single));
          speed && *speed > best.gflops)
        best = {*speed, threads};
  return best;
}

constexpr std::string_view machine = "a Tesla C2070";

void note_figure(Exhibit& e) {
  e.limits.emplace_back("The paper draws this figure and prints no numbers but those of its text.");
}

}  // namespace

Exhibit csr_means(Lab& lab, const Entry& entry) {
  Exhibit e = begin(entry, lab);
  const PaperTable& table = lab.papers()["s1-table-3"];
  e.columns = {{"CUSPARSE", "", "csr", 2},
               {"Fixed rule", "", "csr-reguly-giles", 2},
               {"Tuned", "", "csr-reguly-giles-tuned", 2}};
  // [precision][column] of each matrix
  std::vector<double> speeds[2][3], bandwidths[2][3], speedups[2][3];
  Exhibit matrices;  // what the means are of
  for (const std::string& name : training(lab)) {
    if (lab.interrupted()) break;
    const Specimen& specimen = lab.matrix(name);
    matrices.rows.push_back({name, specimen.made, {}});
    for (const bool single : {true, false}) {
      const Way list[] = {vendor(lab, single), fixed_rule(single), tuned(single)};
      const std::optional<double> reference = lab.gflops(specimen, list[0]);
      for (int k = 0; k < 3; ++k) {
        const auto speed = lab.gflops(specimen, list[k]);
        if (!speed) continue;
        speeds[single][k].push_back(*speed);
        bandwidths[single][k].push_back(
            minimum_bytes(specimen.csr.rows(), specimen.csr.nonzeros(), single ? 4 : 8) /
            lab.measured(specimen, list[k]).product * 1e-9);
        if (reference) speedups[single][k].push_back(*speed / *reference);
      }
    }
  }
  const auto mean = [](const std::vector<double>& list) -> std::optional<double> {
    if (list.empty()) return {};
    double sum = 0;
    for (const double value : list) sum += value;
    return sum / static_cast<double>(list.size());
  };
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const std::string& metric = table.label(row);
    const bool single = metric.find("single") != std::string::npos;
    auto& lists = metric.starts_with("Throughput") ? speeds
                  : metric.starts_with("Min")      ? bandwidths
                                                   : speedups;
    ExhibitRow line{metric, made_of_all(matrices), {}};
    for (int k = 0; k < 3; ++k)
      line.cells.push_back(cell(table, row, e.columns[static_cast<std::size_t>(k)].name,
                                mean(lists[single][k]),
                                lists[single][k].empty() ? "its kernel is not here" : ""));
    e.rows.push_back(std::move(line));
  }
  note_machine(e, lab, machine);
  note_host(e, lab);
  e.limits.push_back(fmt::format(
      "Means over the 15 training matrices ({} are stand-ins); the paper's are over 44, of which it "
      "prints the features of 15.",
      std::count_if(matrices.rows.begin(), matrices.rows.end(),
                    [](const ExhibitRow& row) { return !row.made.empty(); })));
  judge(e, "The fixed rule is faster than CUSPARSE in single and double precision", "6.1",
        [](const Numbers& n) -> Judged {
          const auto single = n("Speedup single over CUSPARSE", "Fixed rule"),
                     twice = n("Speedup double over CUSPARSE", "Fixed rule");
          if (!single || !twice) return {};
          return {*single > 1 && *twice > 1, fmt::format("{:.2f} and {:.2f} times", *single, *twice)};
        });
  if (lab.device())
    judge(e, "Tuning gains on the fixed rule, 2 to 25 percent", "6.1", [&](const Numbers& n) -> Judged {
      const auto rule = n("Throughput single GFLOPS/s", "Fixed rule"),
                 best = n("Throughput single GFLOPS/s", "Tuned");
      if (!rule || !best) return {};
      const double gain = *best / *rule - 1;
      return {gain > 0.02 && gain < 0.25, fmt::format("{:+.1f} percent", 100 * gain)};
    });
  return e;
}

Exhibit csr_parameters(Lab& lab, const Entry& entry) {
  Exhibit e = begin(entry, lab);
  note_figure(e);
  const bool threads = entry.id == "s1-figure-4", repeats = entry.id == "s1-figure-5";
  const std::vector<int> values = threads   ? std::vector<int>{1, 2, 4, 8, 16, 32}
                                  : repeats ? std::vector<int>{1, 2, 4, 8, 16, 32}
                                            : std::vector<int>{32, 64, 128, 256, 512};
  for (const int value : values)
    e.columns.push_back({fmt::format("{} {}",
                                     threads   ? "coop"
                                     : repeats ? "repeat"
                                               : "block",
                                     value),
                         "GFLOPS", "csr", 2});
  e.columns.push_back({"root of the mean", "entries", {}, 1});
  if (without_device(e, lab, "threads that share a row exist on a GPU only")) return e;
  Chart chart{"lines",
              e.title,
              {threads   ? "threads a row"
               : repeats ? "rows a group"
                         : "threads a block",
               true, false},
              {"GFLOPS, single precision", true, false},
              {},
              {}};
  int near = 0, all = 0;
  double spread = 1;
  for (const std::string& name : training(lab)) {
    if (lab.interrupted()) break;
    const Specimen& specimen = lab.matrix(name);
    const int best = threads ? 0 : exhaustive(lab, specimen, true).threads;
    ExhibitRow line{name, specimen.made, {}};
    Series series{name, false, {}};
    double most = 0, least = 1e300;
    int at = 0;
    for (const int value : values) {
      const Way way = threads   ? cooperative(value, 128, 8, true)
                      : repeats ? cooperative(best, 128, value, true)
                                : cooperative(best, value, 4, true);
      const auto speed = lab.gflops(specimen, way);
      line.cells.push_back(ours(speed, refusal(lab.measured(specimen, way))));
      if (!speed) continue;
      series.points.push_back({static_cast<double>(value), *speed});
      if (*speed > most) most = *speed, at = value;
      least = std::min(least, *speed);
    }
    const double root = std::sqrt(specimen.statistics.mean);
    line.cells.push_back(ours(root));
    if (at > 0) ++all, near += std::fabs(std::log2(at / root)) <= 1.5;
    if (most > 0 && specimen.csr.nonzeros() > 2000000) spread = std::max(spread, most / least);
    e.rows.push_back(std::move(line)), chart.series.push_back(std::move(series));
  }
  e.charts.push_back(std::move(chart));
  note_machine(e, lab, machine);
  note_matrices(e);
  if (threads)
    judge_ours(e,
               "The best number of threads a row is near the root of the mean row length (within a factor of "
               "2.8, two thirds of the matrices)",
               "5.1",
               {all == 0 ? std::optional<bool>() : near * 3 >= 2 * all, fmt::format("{} of {}", near, all)});
  if (repeats)
    judge_ours(
        e,
        "On large matrices the number of rows a group changes little (factor below 1.25; the paper: about 10 "
        "percent)",
        "5.2",
        {all == 0 ? std::optional<bool>() : spread < 1.25, fmt::format("largest factor {:.2f}", spread)});
  return e;
}

Exhibit csr_throughput(Lab& lab, const Entry& entry) {
  Exhibit e = begin(entry, lab);
  const bool single = entry.id == "s1-figure-7";
  e.columns = {{"CUSPARSE", "GFLOPS", "csr", 2}, {"Fixed rule", "GFLOPS", "csr-reguly-giles", 2}};
  for (const std::string& name : training(lab)) {
    if (lab.interrupted()) break;
    const Specimen& specimen = lab.matrix(name);
    ExhibitRow line{name, specimen.made, {}};
    for (const Way& way : {vendor(lab, single), fixed_rule(single)})
      line.cells.push_back(ours(lab.gflops(specimen, way), refusal(lab.measured(specimen, way))));
    e.rows.push_back(std::move(line));
  }
  e.charts.push_back(bars_of(e, {"CUSPARSE", "Fixed rule"}, false));
  note_figure(e);
  note_machine(e, lab, machine);
  note_host(e, lab);
  note_matrices(e);
  std::vector<double> ratios;
  for (const ExhibitRow& row : e.rows)
    if (const auto a = e.ours(row.name, "Fixed rule"), b = e.ours(row.name, "CUSPARSE"); a && b)
      ratios.push_back(*a / *b);
  judge_ours(e,
             fmt::format("The fixed rule is faster than CUSPARSE on average in {} precision",
                         single ? "single" : "double"),
             "5.4",
             ratios.empty()
                 ? Judged{}
                 : Judged{geometric_mean(ratios) > 1, fmt::format("geometric mean {:.2f} over {} matrices",
                                                                  geometric_mean(ratios), ratios.size())});
  return e;
}

Exhibit csr_bandwidth(Lab& lab, const Entry& entry) {
  Exhibit e = begin(entry, lab);
  const bool single = entry.id == "s1-figure-8";
  e.columns = {{"CUSPARSE", "GB/s", "csr", 1}, {"Fixed rule", "GB/s", "csr-reguly-giles", 1}};
  for (const std::string& name : training(lab)) {
    if (lab.interrupted()) break;
    const Specimen& specimen = lab.matrix(name);
    const double bytes = effective_bytes(specimen.csr.rows(), specimen.csr.nonzeros(), single ? 4 : 8);
    ExhibitRow line{name, specimen.made, {}};
    for (const Way& way : {vendor(lab, single), fixed_rule(single)}) {
      const Measured& m = lab.measured(specimen, way);
      line.cells.push_back(ours(m.ok() ? std::optional(bytes / m.product * 1e-9) : std::nullopt, refusal(m)));
    }
    e.rows.push_back(std::move(line));
  }
  e.charts.push_back(bars_of(e, {"CUSPARSE", "Fixed rule"}, false));
  note_figure(e);
  note_machine(e, lab, machine);
  note_host(e, lab);
  note_matrices(e);
  return e;
}

Exhibit csr_three_bandwidths(Lab& lab, const Entry& entry) {
  Exhibit e = begin(entry, lab);
  e.columns = {{"minimum", "GB/s", "csr-reguly-giles", 1},
               {"effective", "GB/s", "csr-reguly-giles", 1},
               {"caching", "GB/s", "csr-reguly-giles", 1}};
  std::vector<double> caching;
  int above = 0, all = 0;
  for (const std::string& name : training(lab)) {
    if (lab.interrupted()) break;
    const Specimen& specimen = lab.matrix(name);
    const Measured& m = lab.measured(specimen, fixed_rule(true));
    const std::int64_t rows = specimen.csr.rows(), nonzeros = specimen.csr.nonzeros();
    const double bytes[] = {minimum_bytes(rows, nonzeros, 4), effective_bytes(rows, nonzeros, 4),
                            caching_bytes(rows, nonzeros, count_lines(specimen.csr.pattern, 4), 4)};
    ExhibitRow line{name, specimen.made, {}};
    for (const double moved : bytes)
      line.cells.push_back(ours(m.ok() ? std::optional(moved / m.product * 1e-9) : std::nullopt, refusal(m)));
    e.rows.push_back(std::move(line));
    if (!m.ok()) continue;
    caching.push_back(bytes[2] / m.product * 1e-9);
    ++all, above += bytes[2] >= bytes[0];
  }
  e.charts.push_back(bars_of(e, {"minimum", "effective", "caching"}, false));
  Cell mean = stated_cell(lab, e, "caching bandwidth mean GB/s", {});
  double sum = 0;
  for (const double value : caching) sum += value;
  if (!caching.empty()) mean.ours = sum / static_cast<double>(caching.size());
  e.rows.push_back({"mean", made_of_all(e), {ours({}), ours({}), mean}});
  note_figure(e);
  note_machine(e, lab, machine);
  note_matrices(e);
  judge_ours(e, "Caching bandwidth is at least the minimum bandwidth: x costs no less than its length", "5.5",
             {all == 0 ? std::optional<bool>() : above * 10 >= all * 9,
              fmt::format("{} of {} matrices", above, all)},
             true);
  return e;
}

Exhibit csr_tuned(Lab& lab, const Entry& entry) {
  Exhibit e = begin(entry, lab);
  e.columns = {{"Fixed rule", "percent of the best", "csr-reguly-giles", 1},
               {"Tuned", "percent of the best", "csr-reguly-giles-tuned", 1}};
  note_figure(e);
  if (without_device(e, lab, "the tuner varies threads of a GPU")) return e;
  std::vector<double> rule, run_time;
  for (const std::string& name : training(lab)) {
    if (lab.interrupted()) break;
    const Specimen& specimen = lab.matrix(name);
    const auto a = lab.gflops(specimen, fixed_rule(true)), b = lab.gflops(specimen, tuned(true));
    double best = exhaustive(lab, specimen, true).gflops;
    best = std::max({best, a.value_or(0), b.value_or(0)});
    const auto percent = [&](const std::optional<double>& speed) -> std::optional<double> {
      if (!speed || best == 0) return {};
      return 100 * *speed / best;
    };
    e.rows.push_back({name, specimen.made, {ours(percent(a)), ours(percent(b))}});
    if (percent(a) && percent(b)) rule.push_back(*percent(a)), run_time.push_back(*percent(b));
  }
  e.charts.push_back(bars_of(e, {"Fixed rule", "Tuned"}, false));
  if (!rule.empty()) {
    double sum[2] = {};
    for (const double value : rule) sum[0] += value;
    for (const double value : run_time) sum[1] += value;
    const auto count = static_cast<double>(rule.size());
    e.rows.push_back({"mean",
                      made_of_all(e),
                      {stated_cell(lab, e, "fixed rule, percent of the best, training set", sum[0] / count),
                       ours(sum[1] / count)}});
    judge_ours(e, "Tuning comes nearer to the best than the fixed rule", "6",
               {sum[1] > sum[0], fmt::format("{:.1f} and {:.1f} percent", sum[1] / count, sum[0] / count)});
  }
  note_machine(e, lab, machine);
  note_matrices(e);
  return e;
}

Exhibit csr_tuning(Lab& lab, const Entry& entry) {
  Exhibit e = begin(entry, lab);
  e.columns = {{"part of the best", "percent", "csr-reguly-giles-tuned", 1}};
  note_figure(e);
  if (without_device(e, lab, "the tuner varies threads of a GPU")) return e;
  constexpr int products = 24;
  std::vector<double> parts(products, 0);
  int matrices = 0;
  Exhibit of_matrices;
  for (const std::string& name : training(lab)) {
    if (lab.interrupted()) break;
    const Specimen& specimen = lab.matrix(name);
    of_matrices.rows.push_back({name, specimen.made, {}});
    lab.show(fmt::format("{}: product by product", name));
    const CsrMatrix<float> csr = upload(lab.context(), convert_values<float>(lab.host(), specimen.csr));
    Vector<float> x(lab.context(), csr.cols()), y(lab.context(), csr.rows());
    fill<float>(*lab.context(), 1, x);
    std::vector<double> least(products, 1e300);
    for (int run = 0; run < 5; ++run) {
      const auto A = make_matrix(find_format("csr-reguly-giles-tuned"), csr, lab.context());
      for (int k = 0; k < products; ++k) {
        lab.context()->synchronize();
        Clock clock;
        A->apply(x, y);
        lab.context()->synchronize();
        least[static_cast<std::size_t>(k)] = std::min(least[static_cast<std::size_t>(k)], clock.total());
      }
    }
    // The first product pays for the load of the kernel.
    const double best = *std::min_element(least.begin() + 1, least.end());
    ++matrices;
    for (int k = 0; k < products; ++k)
      parts[static_cast<std::size_t>(k)] += 100 * best / least[static_cast<std::size_t>(k)];
  }
  Chart chart{"lines",
              e.title,
              {"product", false, false},
              {"percent of the best, mean", false, false},
              {},
              {{"tuned", false, {}}}};
  for (int k = 0; k < products && matrices > 0; ++k) {
    const double part = parts[static_cast<std::size_t>(k)] / matrices;
    chart.series[0].points.push_back({static_cast<double>(k + 1), part});
    Cell cell = ours(part);
    if (k + 1 == 5) cell = stated_cell(lab, e, "percent of the best after 5 iterations", part);
    if (k + 1 == 8) cell = stated_cell(lab, e, "percent of the best after 8 iterations", part);
    e.rows.push_back({fmt::format("product {}", k + 1), made_of_all(of_matrices), {cell}});
  }
  e.charts.push_back(std::move(chart));
  if (matrices > 0)
    judge_ours(e, "After 8 products the tuner runs at 90 percent of its best or more (the paper: 98)", "6",
               {parts[7] / matrices >= 90, fmt::format("{:.1f} percent", parts[7] / matrices)});
  e.limits.emplace_back(
      "Each product is timed alone with its launch, the least of 5 runs; small matrices show the launch more "
      "than the kernel.");
  note_machine(e, lab, machine);
  return e;
}

Exhibit csr_speedup(Lab& lab, const Entry& entry) {
  Exhibit e = begin(entry, lab);
  const bool single = entry.id == "s1-figure-14";
  e.columns = {{"Fixed rule", "times CUSPARSE", "csr-reguly-giles", 2},
               {"Tuned", "times CUSPARSE", "csr-reguly-giles-tuned", 2}};
  std::vector<double> rule, run_time;
  for (const std::string& name : training(lab)) {
    if (lab.interrupted()) break;
    const Specimen& specimen = lab.matrix(name);
    const auto reference = lab.gflops(specimen, vendor(lab, single)),
               a = lab.gflops(specimen, fixed_rule(single)), b = lab.gflops(specimen, tuned(single));
    const auto times = [&](const std::optional<double>& speed) -> std::optional<double> {
      if (!speed || !reference) return {};
      return *speed / *reference;
    };
    const std::string why = refusal(lab.measured(specimen, vendor(lab, single)));
    e.rows.push_back({name, specimen.made, {ours(times(a), why), ours(times(b), why)}});
    if (times(a)) rule.push_back(*times(a));
    if (times(b)) run_time.push_back(*times(b));
  }
  e.charts.push_back(bars_of(e, {"Fixed rule", "Tuned"}, false));
  const std::string suffix = single ? ", single" : ", double";
  const auto mean = [](const std::vector<double>& list) -> std::optional<double> {
    if (list.empty()) return {};
    double sum = 0;
    for (const double value : list) sum += value;
    return sum / static_cast<double>(list.size());
  };
  e.rows.push_back({"mean",
                    made_of_all(e),
                    {stated_cell(lab, e, "speedup of the fixed rule" + suffix, mean(rule)),
                     stated_cell(lab, e, "speedup of the tuned kernel" + suffix, mean(run_time))}});
  note_figure(e);
  note_machine(e, lab, machine);
  note_host(e, lab);
  note_matrices(e);
  judge(e,
        fmt::format("The fixed rule is faster than CUSPARSE in {} precision", single ? "single" : "double"),
        "6.1", [](const Numbers& n) -> Judged {
          const auto times = n("mean", "Fixed rule");
          if (!times) return {};
          return {*times > 1, fmt::format("{:.2f} times on average", *times)};
        });
  return e;
}

Exhibit csr_break_even(Lab& lab, const Entry& entry) {
  Exhibit e = begin(entry, lab);
  e.columns = {{"single", "iterations", "hyb", 0}, {"double", "iterations", "hyb", 0}};
  int below[2] = {}, never = 0, all = 0;
  for (const std::string& name : training(lab)) {
    if (lab.interrupted()) break;
    const Specimen& specimen = lab.matrix(name);
    ExhibitRow line{name, specimen.made, {}};
    for (const bool single : {true, false}) {
      const Measured csr = lab.measured(specimen, tuned(single)),
                     hyb = lab.measured(specimen, {"hyb", {}, {}, single});
      if (!csr.ok() || !hyb.ok()) {
        line.cells.push_back(ours({}, refusal(csr.ok() ? hyb : csr)));
        continue;
      }
      ++all;
      if (hyb.product >= csr.product) {
        ++never, line.cells.push_back(ours({}, "never"));
        continue;
      }
      const double count = std::ceil(std::max(0.0, hyb.convert - csr.convert) / (csr.product - hyb.product));
      below[single] += count < 100;
      line.cells.push_back(ours(count));
    }
    e.rows.push_back(std::move(line));
  }
  e.charts.push_back(bars_of(e, {"single", "double"}, true));
  e.rows.push_back({"matrices below 100 iterations",
                    made_of_all(e),
                    {stated_cell(lab, e, "matrices that pay below 100 iterations, single", below[1]),
                     stated_cell(lab, e, "matrices that pay below 100 iterations, double", below[0])}});
  note_machine(e, lab, machine);
  note_matrices(e);
  e.limits.emplace_back(
      "The paper's counts are of 44 matrices, ours of the 15 whose features it prints; our HYB is compared "
      "with our tuned CSR.");
  const int few = all - below[0] - below[1];
  judge_ours(e, "For most matrices it is not worth converting to HYB within 100 products", "7",
             {all == 0 ? std::optional<bool>() : 2 * few > all,
              fmt::format("{} of {}, of which {} never", few, all, never)});
  return e;
}

}  // namespace protean::research::exhibits
