#include "apps/matrix/presets.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "core/error.hpp"
#include "core/words.hpp"

namespace protean::apps {
namespace {

// Table III: matrix, f1 memory footprint as CSR in MiB, f2 mean row length, f3 skew, f4 cross-row similarity
// and neighbours as thirds of their ranges. The number of columns is given for matrices that are not square;
// it is from the SuiteSparse Matrix Collection, because the table does not have it.
struct Friend {
  const char* name;
  double mib, mean, skew;
  char similarity, neighbours;
  std::int64_t cols = 0;
};

constexpr Friend friends[] = {{"scircuit", 11.63, 5.61, 61.95, 'M', 'M'},
                              {"mac_econ_fwd500", 15.36, 6.17, 6.14, 'M', 'S'},
                              {"raefsky3", 17.12, 70.22, 0.14, 'L', 'L'},
                              {"bbmat", 20.42, 45.73, 1.76, 'L', 'M'},
                              {"conf5_4-8x8-15", 22.13, 39, 0, 'L', 'L'},
                              {"mc2depi", 26.04, 3.99, 0, 'L', 'S'},
                              {"rma10", 27.35, 50.69, 1.86, 'L', 'L'},
                              {"cop20k_A", 30.5, 21.65, 2.74, 'M', 'M'},
                              {"thermomech_dK", 33.35, 13.93, 0.44, 'M', 'M'},
                              {"webbase-1M", 39.35, 3.11, 1512.43, 'L', 'S'},
                              {"cant", 46.1, 64.17, 0.22, 'L', 'L'},
                              {"ASIC_680k", 46.91, 5.67, 69710.56, 'L', 'M'},
                              {"pdb1HYS", 49.86, 119.31, 0.71, 'L', 'L'},
                              {"TSOPF_RS_b300_c3", 50.67, 104.74, 1, 'L', 'L'},
                              {"Chebyshev4", 61.8, 78.94, 861.9, 'L', 'L'},
                              {"consph", 69.1, 72.13, 0.12, 'L', 'L'},
                              {"com-Youtube", 72.71, 5.27, 5460.3, 'M', 'S'},
                              {"rajat30", 73.13, 9.59, 47421.8, 'M', 'M'},
                              {"radiation", 88.26, 34.23, 101.18, 'S', 'S'},
                              {"Stanford_Berkeley", 89.39, 11.1, 7519.69, 'M', 'M'},
                              {"shipsec1", 89.95, 55.46, 0.84, 'L', 'L'},
                              {"PR02R", 94.29, 50.82, 0.81, 'L', 'M'},
                              {"gupta3", 106.76, 555.53, 25.41, 'L', 'L'},
                              {"mip1", 118.73, 155.77, 425.24, 'L', 'L'},
                              {"rail4284", 129.15, 2633.99, 20.33, 'S', 'L', 1096894},
                              {"pwtk", 133.98, 53.39, 2.37, 'L', 'L'},
                              {"crankseg_2", 162.16, 221.64, 14.44, 'L', 'L'},
                              {"Si41Ge41H72", 172.5, 80.86, 7.19, 'L', 'M'},
                              {"TSOPF_RS_b2383", 185.21, 424.22, 1.32, 'L', 'L'},
                              {"in-2004", 198.88, 12.23, 632.78, 'L', 'L'},
                              {"Ga41As41H72", 212.61, 68.96, 9.18, 'L', 'M'},
                              {"eu-2005", 223.42, 22.3, 312.27, 'L', 'M'},
                              {"wikipedia-20051105", 232.29, 12.08, 410.37, 'S', 'S'},
                              {"human_gene1", 282.41, 1107.11, 6.17, 'S', 'S'},
                              {"delaunay_n22", 304, 6, 2.83, 'M', 'S'},
                              {"sx-stackoverflow", 424.58, 13.93, 2738.46, 'S', 'S'},
                              {"dgreen", 442.43, 31.87, 4.87, 'S', 'S'},
                              {"mawi_201512012345", 506.18, 2.05, 8006372.09, 'L', 'M'},
                              {"ldoor", 536.04, 48.86, 0.58, 'L', 'L'},
                              {"dielFilterV2real", 559.9, 41.94, 1.62, 'M', 'M'},
                              {"circuit5M", 702.4, 10.71, 120504.85, 'L', 'M'},
                              {"soc-LiveJournal1", 808.06, 14.23, 1424.81, 'S', 'S'},
                              {"bone010", 823.92, 72.63, 0.12, 'L', 'L'},
                              {"audikw_1", 892.25, 82.28, 3.19, 'L', 'L'},
                              {"cage15", 1154.91, 19.24, 1.44, 'L', 'S'}};

// The middle of a third of the interval from 0 to `range`.
double middle_of(char third, double range) { return range * (third == 'S' ? 1 : third == 'M' ? 3 : 5) / 6; }

// Table I.
constexpr double means[] = {5, 10, 20, 50, 100, 500}, skews[] = {0, 100, 1000, 10000};
constexpr double similarities[] = {0.05, 0.5, 0.95}, neighbours[] = {0.05, 0.5, 0.95, 1.4, 1.9};
struct Size {
  const char* name;
  double low, high;  // MB
};
constexpr Size sizes[] = {{"small", 4, 32}, {"middle", 32, 512}, {"large", 512, 2048}};

struct Wanted {
  double mib, mean, skew, similarity, neighbours;
  std::int64_t cols = 0;
  std::uint64_t seed = 1;
};

std::string problem_text(const std::string& title, const Wanted& w) {
  const double rows = std::max(1.0, std::round((w.mib * 1048576 - 4) / (12 * w.mean + 4)));
  // Table I gives no deviation. For a large skew it is the mean, so that the longest rows do not have most of
  // the entries. For a small skew it is a quarter of the distance from the mean to the longest row.
  const double deviation = w.mean * std::min(1.0, w.skew / 4);
  return fmt::format(
      "title: \"{}\"\n"
      "matrix:\n"
      "  generate: {{kind: artificial, n: {}, cols: {}, mean: {:.6g}, deviation: {:.6g}, skew: {:.9g}, "
      "similarity: {:.6g}, neighbours: {:.6g}, bandwidth: 0.3, seed: {}}}\n",
      title, static_cast<std::int64_t>(rows), w.cols, w.mean, deviation, w.skew, w.similarity, w.neighbours,
      w.seed);
}

// A random factor from 0.7 to 1.3 (splitmix64).
double factor(std::uint64_t k, std::uint64_t feature) {
  std::uint64_t z = (k * 8 + feature) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return 0.7 + 0.6 * (static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53);
}

std::string friend_problem(const std::string& name, std::string_view which, std::string_view number) {
  std::vector<std::string_view> names;
  for (const Friend& one : friends) names.push_back(one.name);
  const auto found = std::find(names.begin(), names.end(), which);
  if (found == names.end())
    throw BadArgument(
        fmt::format("--preset {}: Table III has no matrix '{}'.{} `protean generate --presets` "
                    "lists them",
                    name, which, did_you_mean(which, names)));
  const Friend& f = friends[found - names.begin()];
  Wanted w{f.mib, f.mean, f.skew, middle_of(f.similarity, 1), middle_of(f.neighbours, 2), f.cols};
  if (!number.empty()) {
    std::uint64_t k = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), k);
    if (error != std::errc() || end != number.data() + number.size() || k < 1 || k > 1000000)
      throw BadArgument(fmt::format("--preset {}: '{}' is no number from 1 to 1000000", name, number));
    w.mib *= factor(k, 1), w.mean *= factor(k, 2), w.skew *= factor(k, 3);
    w.similarity = std::min(1.0, w.similarity * factor(k, 4));
    w.neighbours = std::min(2.0, w.neighbours * factor(k, 5));
    w.seed = k;
  }
  return problem_text("a friend of " + std::string(which), w);
}

// `word` as one of the numbers that Table I allows.
double value_of(const std::string& name, std::string_view feature, std::string_view word,
                std::span<const double> allowed) {
  for (const double value : allowed)
    if (fmt::format("{}", value) == word) return value;
  throw BadArgument(
      fmt::format("--preset {}: {} is '{}'; Table I has {}", name, feature, word, fmt::join(allowed, ", ")));
}

std::string table_problem(const std::string& name, const std::vector<std::string_view>& words) {
  if (words.size() != 6)
    throw BadArgument(
        fmt::format("--preset {}: write table1/FOOTPRINT/MEAN/SKEW/SIMILARITY/NEIGHBOURS, as "
                    "table1/small/20/100/0.5/0.95",
                    name));
  const auto size =
      std::find_if(std::begin(sizes), std::end(sizes), [&](const Size& s) { return words[1] == s.name; });
  if (size == std::end(sizes))
    throw BadArgument(
        fmt::format("--preset {}: the footprint is '{}'; there are small, middle and large", name, words[1]));
  return problem_text(name, {std::sqrt(size->low * size->high), value_of(name, "the mean", words[2], means),
                             value_of(name, "the skew", words[3], skews),
                             value_of(name, "the similarity", words[4], similarities),
                             value_of(name, "neighbours", words[5], neighbours)});
}

}  // namespace

std::string preset_problem(const std::string& name) {
  const std::vector<std::string_view> words = split(name, '/');
  if (!words.empty() && words[0] == "friends" && (words.size() == 2 || words.size() == 3))
    return friend_problem(name, words[1], words.size() == 3 ? words[2] : std::string_view());
  if (!words.empty() && words[0] == "table1") return table_problem(name, words);
  throw BadArgument(
      fmt::format("--preset {}: there are friends/NAME, friends/NAME/K and "
                  "table1/FOOTPRINT/MEAN/SKEW/SIMILARITY/NEIGHBOURS; `protean generate --presets` says more",
                  name));
}

std::string presets_text() {
  std::string text = fmt::format(
      "Artificial matrices of Mpakos et al., \"Feature-based SpMV Performance Analysis on Contemporary "
      "Devices\" (IPDPS 2023)\n\n"
      "table1/FOOTPRINT/MEAN/SKEW/SIMILARITY/NEIGHBOURS   a point of Table I, as "
      "table1/small/20/100/0.5/0.95\n"
      "  FOOTPRINT   small, middle, large (11.3, 128, 1024 MiB as CSR)\n  MEAN        {}\n  SKEW        {}\n"
      "  SIMILARITY  {}\n  NEIGHBOURS  {}\n  {} points; some do not exist (a row longer than the matrix is "
      "wide) and are refused\n\n"
      "friends/NAME     like a matrix of Table III; friends/NAME/K, K from 1: each feature within 30 % of "
      "it\n\n"
      "  {:<20} {:>8} {:>8} {:>10} {:>11} {:>11}\n",
      fmt::join(means, ", "), fmt::join(skews, ", "), fmt::join(similarities, ", "),
      fmt::join(neighbours, ", "),
      std::size(sizes) * std::size(means) * std::size(skews) * std::size(similarities) *
          std::size(neighbours),
      "NAME", "MiB", "mean", "skew", "similarity", "neighbours");
  for (const Friend& f : friends)
    text += fmt::format("  {:<20} {:>8} {:>8} {:>10} {:>11.2f} {:>11.2f}{}\n", f.name, f.mib, f.mean, f.skew,
                        middle_of(f.similarity, 1), middle_of(f.neighbours, 2),
                        f.cols > 0 ? fmt::format("   {} columns", f.cols) : "");
  return text;
}

}  // namespace protean::apps
