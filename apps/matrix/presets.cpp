#include "apps/matrix/presets.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/papers/paper_table.hpp"
#include "core/error.hpp"
#include "core/words.hpp"

namespace protean::apps {
namespace {

// Table III (papers/data/s3-table-3.tsv): matrix, f1 memory footprint as CSR in MiB, f2 mean row length, f3 skew,
// f4 cross-row similarity and neighbours as thirds of their ranges. The number of columns is given for the matrix
// that is not square; it is from the SuiteSparse Matrix Collection, because the table does not have it.
struct Friend {
  std::string name;
  double mib, mean, skew;
  char similarity, neighbours;
  std::int64_t cols = 0;
};

const std::vector<Friend>& friends() {
  static const std::vector<Friend> list = [] {
    const PaperTable& table = built_in_papers()["s3-table-3"];
    std::vector<Friend> all;
    for (std::size_t row = 0; row < table.rows(); ++row) {
      const std::string& thirds = table.text(row, "f4");
      all.push_back({table.label(row), *table.number(row, "f1"), *table.number(row, "f2"),
                     *table.number(row, "f3"), thirds.at(0), thirds.at(1),
                     table.label(row) == "rail4284" ? 1096894 : 0});
    }
    return all;
  }();
  return list;
}

// The middle of a third of the interval from 0 to `range`.
double middle_of(char third, double range) { return range * (third == 'S' ? 1 : third == 'M' ? 3 : 5) / 6; }

// Table I.
constexpr double means[] = {5, 10, 20, 50, 100, 500}, skews[] = {0, 100, 1000, 10000};
constexpr double similarities[] = {0.05, 0.5, 0.95}, neighbours[] = {0.05, 0.5, 0.95, 1.4, 1.9};
// The table has no bandwidth, a part of the columns that the generator asks for.
constexpr double usual_bandwidth = 0.3;
struct Size {
  const char* name;
  double low, high;  // MB
};
constexpr Size sizes[] = {{"small", 4, 32}, {"middle", 32, 512}, {"large", 512, 2048}};

struct Wanted {
  double mib, mean, skew, similarity, neighbours;
  std::int64_t cols = 0;
  std::uint64_t seed = 1;
  double bandwidth = usual_bandwidth;
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
      "similarity: {:.6g}, neighbours: {:.6g}, bandwidth: {:.6g}, seed: {}}}\n",
      title, static_cast<std::int64_t>(rows), w.cols, w.mean, deviation, w.skew, w.similarity, w.neighbours,
      w.bandwidth, w.seed);
}

std::string friend_problem(const std::string& name, std::string_view which, std::string_view number) {
  std::vector<std::string_view> names;
  for (const Friend& one : friends()) names.push_back(one.name);
  const auto found = std::find(names.begin(), names.end(), which);
  if (found == names.end())
    throw BadArgument(
        fmt::format("--preset {}: Table III has no matrix '{}'.{} `protean generate --presets` "
                    "lists them",
                    name, which, detail::did_you_mean(which, names)));
  const Friend& f = friends()[static_cast<std::size_t>(found - names.begin())];
  Wanted w{f.mib, f.mean, f.skew, middle_of(f.similarity, 1), middle_of(f.neighbours, 2), f.cols};
  if (!number.empty()) {
    std::uint64_t k = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), k);
    if (error != std::errc() || end != number.data() + number.size() || k < 1 || k > 1000000)
      throw BadArgument(fmt::format("--preset {}: '{}' is not a number from 1 to 1000000", name, number));
    w.mib *= friend_factor(k, 1), w.mean *= friend_factor(k, 2), w.skew *= friend_factor(k, 3);
    w.similarity = std::min(1.0, w.similarity * friend_factor(k, 4));
    w.neighbours = std::min(2.0, w.neighbours * friend_factor(k, 5));
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

double bandwidth_of(const std::string& name, std::string_view word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error == std::errc() && end == word.data() + word.size() && value > 0 && value <= 1) return value;
  throw BadArgument(
      fmt::format("--preset {}: the bandwidth is '{}'; it must be a number above 0, at most 1", name, word));
}

std::string table_problem(const std::string& name, const std::vector<std::string_view>& words) {
  if (words.size() != 6 && words.size() != 7)
    throw BadArgument(
        fmt::format("--preset {}: write table1/FOOTPRINT/MEAN/SKEW/SIMILARITY/NEIGHBOURS, as "
                    "table1/small/20/100/0.5/0.95, and /BANDWIDTH behind it if it is not {}",
                    name, usual_bandwidth));
  const auto size =
      std::find_if(std::begin(sizes), std::end(sizes), [&](const Size& s) { return words[1] == s.name; });
  if (size == std::end(sizes))
    throw BadArgument(
        fmt::format("--preset {}: the footprint is '{}'; there are small, middle and large", name, words[1]));
  Wanted w{std::sqrt(size->low * size->high), value_of(name, "the mean", words[2], means),
           value_of(name, "the skew", words[3], skews),
           value_of(name, "the similarity", words[4], similarities),
           value_of(name, "neighbours", words[5], neighbours)};
  if (words.size() == 7) w.bandwidth = bandwidth_of(name, words[6]);
  return problem_text(name, w);
}

}  // namespace

double friend_factor(std::uint64_t k, std::uint64_t feature) {
  std::uint64_t z = (k * 8 + feature) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return 0.7 + 0.6 * (static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53);
}

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
      "table1/FOOTPRINT/MEAN/SKEW/SIMILARITY/NEIGHBOURS[/BANDWIDTH]   a point of Table I, as "
      "table1/small/20/100/0.5/0.95\n"
      "  FOOTPRINT   small, middle, large (11.3, 128, 1024 MiB as CSR)\n  MEAN        {}\n  SKEW        {}\n"
      "  SIMILARITY  {}\n  NEIGHBOURS  {}\n  BANDWIDTH   above 0, at most 1: a part of the columns; {} where "
      "it is left out\n"
      "  {} points; some do not exist (a row longer than the matrix is "
      "wide) and are refused\n\n"
      "friends/NAME     like a matrix of Table III; friends/NAME/K, K from 1: each feature within 30 % of "
      "it\n\n"
      "  {:<20} {:>8} {:>8} {:>10} {:>11} {:>11}\n",
      fmt::join(means, ", "), fmt::join(skews, ", "), fmt::join(similarities, ", "),
      fmt::join(neighbours, ", "), usual_bandwidth,
      std::size(sizes) * std::size(means) * std::size(skews) * std::size(similarities) *
          std::size(neighbours),
      "NAME", "MiB", "mean", "skew", "similarity", "neighbours");
  for (const Friend& f : friends())
    text += fmt::format("  {:<20} {:>8} {:>8} {:>10} {:>11.2f} {:>11.2f}{}\n", f.name, f.mib, f.mean, f.skew,
                        middle_of(f.similarity, 1), middle_of(f.neighbours, 2),
                        f.cols > 0 ? fmt::format("   {} columns", f.cols) : "");
  return text;
}

}  // namespace protean::apps
