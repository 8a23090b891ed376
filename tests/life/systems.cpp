#include "life/systems.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "support/battery.hpp"

namespace protean::test::life {
namespace {

// Some are below and some above the sizes from which work is cut between threads.
constexpr SystemInfo infos[] = {
    {"one unknown", 1, true, false},     {"chain of 50", 50, true, false},
    {"grid 10 x 10", 100, true, false},  {"grid 20 x 20", 400, true, false},
    {"grid 33 x 33", 1089, true, false}, {"flow 12 x 12", 144, false, false},
    {"flow 30 x 30", 900, false, false}, {"arrow of 300", 300, true, false},
    {"scattered 500", 500, true, false}, {"grid 100 x 100", 10000, true, false},
    {"quads 12 x 12", 169, true, true},  {"quads 5 x 5", 36, false, true},
    {"quads 70 x 70", 5041, true, true},
};

using Edge = std::pair<std::int32_t, std::int32_t>;

void add_grid(std::vector<Edge>& edges, std::int32_t m) {
  for (std::int32_t y = 0; y < m; ++y)
    for (std::int32_t x = 0; x < m; ++x) {
      if (x + 1 < m) edges.push_back({y * m + x, y * m + x + 1});
      if (y + 1 < m) edges.push_back({y * m + x, (y + 1) * m + x});
    }
}

// Pairs of unknowns that are coupled, in both directions.
std::vector<Edge> edges_of(int system) {
  const auto n = static_cast<std::int32_t>(infos[system].size);
  std::vector<Edge> edges;
  const std::string_view name = infos[system].name;
  if (name.starts_with("chain")) {
    for (std::int32_t i = 0; i + 1 < n; ++i) edges.push_back({i, i + 1});
  } else if (name.starts_with("arrow")) {
    for (std::int32_t i = 1; i < n; ++i) edges.push_back({0, i});
  } else if (name.starts_with("scattered")) {
    for (std::int32_t i = 0; i < n; ++i)
      for (std::uint64_t k = 0; k < mixed(i) % 4; ++k) {
        const auto j = static_cast<std::int32_t>(mixed(i, k, 7) % static_cast<std::uint64_t>(n));
        if (i != j) edges.push_back({std::min(i, j), std::max(i, j)});
      }
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  } else if (name.starts_with("grid") || name.starts_with("flow")) {
    add_grid(edges, static_cast<std::int32_t>(std::lround(std::sqrt(n))));
  }
  return edges;
}

double excess_of_diagonal(unsigned generation) {
  constexpr double choices[] = {1, 0.1, 0.01, 0.003};
  return choices[generation % 4];
}

// a_ij for i != j: between -1 and -0.1, the same both ways if the system is symmetric.
double off_diagonal(int system, unsigned generation, std::int32_t i, std::int32_t j,
                    std::uint64_t where = 0) {
  if (infos[system].symmetric && i > j) std::swap(i, j);
  return -0.1 - 0.9 * uniform(mixed(system, generation), i, j, where);
}

// What becomes of the diagonal entry that makes values bad.
double spoiled(Quality how, double value) {
  if (how == Quality::indefinite) return -value;
  return how == Quality::not_finite ? std::numeric_limits<double>::quiet_NaN() : value;
}

template <class T>
std::vector<Triplet<T>> terms_of_rows(int system, unsigned generation) {
  const auto n = static_cast<std::size_t>(infos[system].size);
  const auto bad = static_cast<std::size_t>(mixed(generation) % n);
  std::vector<double> rows(n), cols(n);
  std::vector<Triplet<T>> terms;
  const auto add = [&](std::int32_t i, std::int32_t j) {
    const double a = off_diagonal(system, generation, i, j);
    rows[i] -= a, cols[j] -= a;
    terms.push_back({i, j, static_cast<T>(a)});
  };
  for (const auto& [i, j] : edges_of(system)) add(i, j), add(j, i);
  for (std::size_t i = 0; i < n; ++i) {
    const double d = std::max(rows[i], cols[i]) + excess_of_diagonal(generation);
    const auto row = static_cast<std::int32_t>(i);
    terms.push_back({row, row, static_cast<T>(i == bad ? spoiled(quality(generation), d) : d)});
  }
  return terms;
}

// Element matrices of a square of m x m elements with 4 nodes each. Each is dominant alone.
template <class T>
void add_elements(Numbers<T>& result, int system, unsigned generation) {
  const auto m = static_cast<std::int32_t>(std::lround(std::sqrt(infos[system].size))) - 1;
  const auto bad = static_cast<std::int32_t>(mixed(generation) % static_cast<std::uint64_t>(m * m));
  for (std::int32_t e = 0; e < m * m; ++e) {
    const std::int32_t first = e / m * (m + 1) + e % m;
    const std::int32_t nodes[] = {first, first + 1, first + m + 1, first + m + 2};
    double k[4][4] = {}, rows[4] = {}, cols[4] = {};
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j) {
        if (i == j) continue;
        k[i][j] = off_diagonal(system, generation, nodes[i], nodes[j], 1 + e);
        rows[i] -= k[i][j], cols[j] -= k[i][j];
      }
    for (int i = 0; i < 4; ++i) k[i][i] = std::max(rows[i], cols[i]) + excess_of_diagonal(generation);
    // Large enough to outweigh the other elements of the node.
    if (e == bad && quality(generation) != Quality::dominant) k[0][0] = spoiled(quality(generation), 30);
    for (int i = 0; i < 4; ++i) result.elements.push_back(nodes[i]);
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j) {
        result.matrices.push_back(static_cast<T>(k[i][j]));
        result.terms.push_back({nodes[i], nodes[j], static_cast<T>(k[i][j])});
      }
  }
}

template <class T>
Numbers<T> make_numbers(int system, unsigned generation) {
  Numbers<T> result;
  if (infos[system].elements)
    add_elements(result, system, generation);
  else
    result.terms = terms_of_rows<T>(system, generation);
  const std::int64_t n = infos[system].size;
  result.csr = csr_from_triplets<T>(test_context(), n, n, result.terms);
  // A hundredth less, for the rounding of the values.
  if (quality(generation) == Quality::dominant) result.margin = 0.99 * excess_of_diagonal(generation);
  return result;
}

template <class T>
struct Cache {
  std::mutex mutex;
  std::map<std::pair<int, unsigned>, std::shared_ptr<const Numbers<T>>> made;
};
template <class T>
Cache<T>& cache() {
  static Cache<T> one;
  return one;
}

}  // namespace

std::span<const SystemInfo> systems() { return infos; }

std::int64_t largest_system() {
  std::int64_t largest = 0;
  for (const SystemInfo& info : infos) largest = std::max(largest, info.size);
  return largest;
}

Quality quality(unsigned generation) {
  if (generation % 24 == 7) return Quality::indefinite;
  return generation % 24 == 13 ? Quality::not_finite : Quality::dominant;
}

template <class T>
std::shared_ptr<const Numbers<T>> numbers(int system, unsigned generation) {
  auto& [mutex, made] = cache<T>();
  const std::lock_guard lock(mutex);
  if (made.size() > 60) made.clear();
  auto& place = made[{system, generation}];
  if (!place) place = std::make_shared<Numbers<T>>(make_numbers<T>(system, generation));
  return place;
}

template <class T>
void forget_numbers() {
  auto& [mutex, made] = cache<T>();
  const std::lock_guard lock(mutex);
  made.clear();
}

std::uint64_t mixed(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d) {
  std::uint64_t hash = 0;
  for (const std::uint64_t one : {a, b, c, d}) {
    std::uint64_t z = hash + one + 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    hash = z ^ (z >> 31);
  }
  return hash;
}

double uniform(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d) {
  return static_cast<double>(mixed(a, b, c, d) >> 11) * 0x1p-53;
}

template void forget_numbers<float>();
template void forget_numbers<double>();
template std::shared_ptr<const Numbers<float>> numbers(int, unsigned);
template std::shared_ptr<const Numbers<double>> numbers(int, unsigned);

}  // namespace protean::test::life
