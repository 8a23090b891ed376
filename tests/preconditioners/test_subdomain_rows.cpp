// Subdomains that a device finds against make_subdomains(), bit for bit, and what a setup leaves of both ways.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/csr_view.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/transfer.hpp"
#include "gtest/gtest.h"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/in_space.hpp"
#include "preconditioners/preconditioner.hpp"
#include "preconditioners/subdomains/device_subdomain_rows.hpp"
#include "preconditioners/subdomains/subdomains.hpp"
#include "solvers/systems.hpp"
#if defined(PROTEAN_HAVE_CUDA)
#include "core/device/cache.hpp"
#endif

namespace protean::test {
namespace {

using detail::SubdomainNeeds;
using detail::SubdomainsThere;
using Sizes = std::vector<std::int64_t>;

const Sizes by_itself = {1024, 512, 256, 128, 64, 32};
constexpr const char* both[] = {"subdomain-ic0", "subdomain-ilu0"};

class SubdomainRows : public InSpace {
 protected:
  // Bytes of shared memory of a thread block.
  std::int64_t shared() const {
#if defined(PROTEAN_HAVE_CUDA)
    if (gpu()) return device::shared_memory_of_block(*context_);
#endif
    return 64 << 10;
  }
  template <class U>
  std::vector<U> here(const Buffer<U>& there) const {
    std::vector<U> values(static_cast<std::size_t>(there.size()));
    detail::copy_bytes(*context_, values.data(), Space::host, there.data(), Space::device, there.bytes());
    return values;
  }
};
INSTANTIATE_TEST_SUITE_P(Spaces, SubdomainRows, testing::Values(Where::simulated, Where::gpu), name_of_space);

// What the host would choose.
struct Chosen {
  detail::Subdomains all;
  SubdomainNeeds needs;
};
std::optional<Chosen> chosen_on_host(const SparsityPattern& A, const Sizes& sizes, std::int64_t value,
                                     std::int64_t shared) {
  for (const std::int64_t size : sizes) {
    Chosen one{detail::make_subdomains(test_context(), A, size, SubdomainPartition::order, 0), {}};
    const detail::Subdomains& all = one.all;
    for (std::int64_t s = 0; s < all.count; ++s)
      one.needs.add({all.rows(s), all.lower.first[s + 1] - all.lower.first[s],
                     all.upper.first[s + 1] - all.upper.first[s], all.levels(s)},
                    value);
    if (one.needs.have_room(shared, size != sizes.back())) return one;
  }
  return std::nullopt;
}

template <class U, class V>
void expect_bits(const std::vector<U>& got, const Buffer<V>& expected, const char* what) {
  ASSERT_EQ(static_cast<std::int64_t>(got.size()), expected.size()) << what;
  for (std::size_t k = 0; k < got.size(); ++k)
    ASSERT_EQ(static_cast<std::int64_t>(got[k]), static_cast<std::int64_t>(expected.data()[k]))
        << what << ' ' << k;
}

struct Problem {
  const char* what;
  CsrMatrix<double> csr;
  bool symmetric;
};
CsrMatrix<double> of(std::int64_t n, const std::vector<Triplet<double>>& entries) {
  return csr_from_triplets<double>(test_context(), n, n, entries);
}
// keep(i, j): which of the entries of a matrix.
template <class Keep>
CsrMatrix<double> part_of(const CsrMatrix<double>& csr, Keep keep) {
  std::vector<Triplet<double>> entries;
  for (std::int32_t i = 0; i < csr.rows(); ++i)
    for (std::int64_t p = csr.pattern.row_ptr[i]; p < csr.pattern.row_ptr[i + 1]; ++p)
      if (keep(i, csr.pattern.col[p])) entries.push_back({i, csr.pattern.col[p], csr.values[p]});
  return of(csr.rows(), entries);
}
CsrMatrix<double> at_random(std::int64_t n, int of_row, unsigned seed, std::int64_t reach) {
  std::mt19937 random(seed);
  std::vector<Triplet<double>> entries;
  for (std::int32_t i = 0; i < n; ++i) {
    const auto count = static_cast<int>(random() % static_cast<unsigned>(of_row + 1));
    for (int k = 0; k < count; ++k) {
      const std::int64_t j =
          i + static_cast<std::int64_t>(random() % static_cast<unsigned>(2 * reach + 1)) - reach;
      if (j >= 0 && j < n && j != i)
        entries.push_back({i, static_cast<std::int32_t>(j), 0.25 + static_cast<double>(random() % 8)});
    }
    entries.push_back({i, i, 100.0});
  }
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return std::pair(a.row, a.col) < std::pair(b.row, b.col); });
  entries.erase(std::unique(entries.begin(), entries.end(),
                            [](const auto& a, const auto& b) { return a.row == b.row && a.col == b.col; }),
                entries.end());
  return of(n, entries);
}
std::vector<Problem> problems(bool large) {
  const auto generated = [](const char* kind, double n) {
    return generate(test_context(), kind, {{"n", n}});
  };
  std::vector<Problem> all;
  all.push_back({"5 points", generated("poisson-2d", large ? 150 : 37), true});
  all.push_back({"7 points", generated("poisson-3d", large ? 24 : 12), true});
  all.push_back({"elasticity", generated("elasticity-3d", large ? 9 : 5), true});
  all.push_back({"convection", generated("convection-diffusion-3d", 11), false});
  all.push_back({"chain", sparse(poisson_1d(300)), true});
  all.push_back({"dense", sparse(full(150)), true});
  all.push_back({"diagonal", sparse(diagonal_matrix(std::vector<long double>(2100, 3.0L))), true});
  all.push_back({"one row", sparse(diagonal_matrix({4})), true});
  all.push_back({"three rows", sparse(poisson_1d(3)), true});
  all.push_back({"random", at_random(2000, 6, 1, 40), false});
  all.push_back({"random and far", at_random(1500, 9, 2, 1500), false});
  const CsrMatrix<double> grid = generated("poisson-2d", 33);
  all.push_back(
      {"entries below", part_of(grid, [](std::int32_t i, std::int32_t j) { return j <= i; }), false});
  all.push_back(
      {"entries above", part_of(grid, [](std::int32_t i, std::int32_t j) { return j >= i; }), false});
  all.push_back({"one side of each",
                 part_of(grid, [](std::int32_t i, std::int32_t j) { return (i + j) % 3 != 1 || i == j; }),
                 false});
  all.push_back({"no diagonal", part_of(grid, [](std::int32_t i, std::int32_t j) { return i != j; }), true});
  all.push_back({"rows without entries",
                 part_of(grid, [](std::int32_t i, std::int32_t j) { return i % 5 != 2 && j % 5 != 2; }),
                 true});
  all.push_back({"no entries", of(70, {}), true});
  return all;
}

TEST_P(SubdomainRows, HaveTheBitsOfTheHost) {
  const auto check = [&]<class T>(const Problem& problem, const Sizes& sizes, std::int64_t room, T) {
    CsrMatrix<T> csr;
    if constexpr (std::is_same_v<T, double>)
      csr = problem.csr;
    else
      csr = convert_values<T>(test_context(), problem.csr);
    const auto expected = chosen_on_host(csr.pattern, sizes, sizeof(T), room);
    const auto got = detail::subdomains_on_device<T>(
        context_, upload(context_, csr), sizes,
        {problem.symmetric ? "subdomain-ic0" : "subdomain-ilu0", problem.symmetric, ZeroDiagonal::error},
        room);
    ASSERT_EQ(got.has_value(), expected.has_value());
    if (!got) return;
    const detail::Subdomains& all = expected->all;
    const detail::KnownSubdomains& known = got->known;
    EXPECT_EQ(known.count, all.count);
    ASSERT_EQ(known.size, all.size);
    EXPECT_EQ(known.entries, all.entries);
    EXPECT_EQ(known.levels, all.most_levels);
    EXPECT_EQ(known.most_rows, all.most_rows);
    EXPECT_EQ(known.places, all.row.size());
    EXPECT_EQ(known.lower, all.lower.col.size());
    EXPECT_EQ(known.upper, all.upper.col.size());
    for (int k = 0; k < 3; ++k) EXPECT_EQ(known.launch.shared_columns[k], expected->needs.columns[k]);
    EXPECT_EQ(known.launch.shared_factors, expected->needs.factors);
    const auto& arrays = got->arrays;
    expect_bits(here(arrays.first), all.first, "first");
    expect_bits(here(arrays.row), all.row, "row");
    expect_bits(here(arrays.place), all.place, "place");
    expect_bits(here(arrays.level_first), all.level_first, "level_first");
    expect_bits(here(arrays.level), all.level, "level");
    expect_bits(here(arrays.lower_first), all.lower.first, "lower_first");
    expect_bits(here(arrays.lower_ptr), all.lower.ptr, "lower_ptr");
    expect_bits(here(arrays.lower_col), all.lower.col, "lower_col");
    expect_bits(here(arrays.upper_first), all.upper.first, "upper_first");
    expect_bits(here(arrays.upper_ptr), all.upper.ptr, "upper_ptr");
    expect_bits(here(arrays.upper_col), all.upper.col, "upper_col");
  };
  for (const Problem& problem : problems(gpu())) {
    for (const std::int64_t size : {1, 2, 7, 31, 32, 33, 64, 100, 700, 1000000000}) {
      SCOPED_TRACE(std::string(problem.what) + ' ' + std::to_string(size));
      check(problem, {size}, shared(), double{});
      if (size % 2 == 0) check(problem, {size}, shared(), float{});
    }
    // From the size that has room in all of it down to none.
    SCOPED_TRACE(problem.what);
    for (std::int64_t room = shared(); room > 256; room = room * 7 / 8 / 16 * 16) {
      SCOPED_TRACE(room);
      check(problem, by_itself, room, double{});
      check(problem, by_itself, room, float{});
    }
  }
}

// The last bytes decide, including the bytes of the levels, which are known last.
TEST_P(SubdomainRows, ExactlyWhatHasRoom) {
  for (const Problem& problem : problems(false)) {
    if (problem.csr.rows() > 1500) continue;
    SCOPED_TRACE(problem.what);
    const CsrMatrix<double> there = upload(context_, problem.csr);
    for (const std::int64_t size : by_itself) {
      const auto one = chosen_on_host(problem.csr.pattern, {size}, 8, std::int64_t{1} << 40);
      for (const std::int64_t need : {2 * one->needs.columns[0], one->needs.columns[0], one->needs.factors})
        for (const std::int64_t room : {need - 16, need - 1, need, need + 1}) {
          if (room > shared()) continue;
          const auto expected = chosen_on_host(problem.csr.pattern, by_itself, 8, room);
          const auto got = detail::subdomains_on_device<double>(
              context_, there, by_itself, {"subdomain-ilu0", false, ZeroDiagonal::error}, room);
          ASSERT_EQ(got.has_value(), expected.has_value()) << size << ' ' << room;
          if (got) { EXPECT_EQ(got->known.size, expected->all.size) << size << ' ' << room; }
        }
    }
  }
}

TEST_P(SubdomainRows, WideRowPointers) {
  const CsrMatrix<double> narrow = at_random(900, 6, 3, 50);
  std::vector<std::int64_t> ptr;
  for (std::int64_t i = 0; i <= narrow.rows(); ++i) ptr.push_back(narrow.pattern.row_ptr[i]);
  const CsrMatrix<double> wide = csr_view<double>(900, 900, ptr.data(), narrow.pattern.col, narrow.values);
  const std::vector<double> r = right_hand_side<double>(900);
  const auto A = matrix(narrow), B = matrix(wide);
  EXPECT_EQ(apply(*ready<double>("subdomain-ilu0", *B), r), apply(*ready<double>("subdomain-ilu0", *A), r));
}

TEST_P(SubdomainRows, LeaveToTheHost) {
  const auto found = [&](const CsrMatrix<double>& csr) {
    return detail::subdomains_on_device<double>(context_, upload(context_, csr), by_itself,
                                                {"subdomain-ilu0", false, ZeroDiagonal::error}, shared())
        .has_value();
  };
  const CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", 40}});
  EXPECT_TRUE(found(csr));
  EXPECT_FALSE(found(of(0, {})));
  const auto with = [&](std::int64_t at, double value) {
    CsrMatrix<double> other = deep_copy(test_context(), csr);
    const_cast<double*>(other.values)[at] = value;
    return other;
  };
  for (const std::int64_t at : {std::int64_t{0}, csr.nonzeros() / 2, csr.nonzeros() - 1}) {
    EXPECT_TRUE(found(with(at, 7)));
    EXPECT_FALSE(found(with(at, std::numeric_limits<double>::infinity())));
    EXPECT_FALSE(found(with(at, -std::numeric_limits<double>::infinity())));
    EXPECT_FALSE(found(with(at, std::numeric_limits<double>::quiet_NaN())));
  }
  for (const std::int64_t row : {0, 801, 1599}) {
    const std::int64_t at = csr.pattern.row_ptr[row + 1] - 2;
    CsrMatrix<double> other = deep_copy(test_context(), csr);
    std::swap(const_cast<std::int32_t*>(other.pattern.col)[at],
              const_cast<std::int32_t*>(other.pattern.col)[at + 1]);
    EXPECT_FALSE(found(other)) << row;
    const_cast<std::int32_t*>(other.pattern.col)[at] = other.pattern.col[at + 1];
    EXPECT_FALSE(found(other)) << row;
  }
}

// The same matrix with two entries of a row exchanged, which the device leaves to the host.
CsrMatrix<double> unsorted(const CsrMatrix<double>& csr) {
  CsrMatrix<double> other = deep_copy(test_context(), csr);
  for (std::int64_t i = 0; i < csr.rows(); ++i) {
    const std::int64_t at = csr.pattern.row_ptr[i];
    if (csr.pattern.row_length(i) < 2) continue;
    std::swap(const_cast<std::int32_t*>(other.pattern.col)[at],
              const_cast<std::int32_t*>(other.pattern.col)[at + 1]);
    std::swap(const_cast<double*>(other.values)[at], const_cast<double*>(other.values)[at + 1]);
    return other;
  }
  return other;
}
PreconditionerOptions of_size(std::int64_t size) {
  PreconditionerOptions options;
  options.subdomain_size = size, options.zero_diagonal = ZeroDiagonal::one;
  return options;
}

TEST_P(SubdomainRows, LeadToTheFactorsOfTheHost) {
  for (const Problem& problem : problems(gpu()))
    for (const char* id : both)
      for (const std::int64_t size : {0, 48}) {
        if (!problem.symmetric && id == both[0]) continue;
        SCOPED_TRACE(std::string(problem.what) + ' ' + id + ' ' + std::to_string(size));
        const auto A = matrix(problem.csr), other = matrix(unsorted(problem.csr));
        const auto M = ready<double>(id, *A, of_size(size)),
                   by_host = ready<double>(id, *other, of_size(size));
        const std::vector<double> r = right_hand_side<double>(problem.csr.rows());
        EXPECT_EQ(apply(*M, r), apply(*by_host, r));
        EXPECT_EQ(M->bytes(), by_host->bytes());
        for (const PreconditionerFigure& one : by_host->figures()) EXPECT_EQ(figure(*M, one.name), one.value);
      }
}

TEST_P(SubdomainRows, MessagesOfTheHost) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", 20}});
  const auto said = [&](const CsrMatrix<double>& wrong, const char* id) {
    const auto A = matrix(wrong), other = matrix(unsorted(wrong));
    const std::string text = message<BadMatrix>([&] { ready<double>(id, *A, of_size(16)); });
    EXPECT_EQ(text, message<BadMatrix>([&] { ready<double>(id, *other, of_size(16)); }));
    return text;
  };
  const auto with = [&](std::int64_t at, double value) {
    CsrMatrix<double> other = deep_copy(test_context(), csr);
    const_cast<double*>(other.values)[at] = value;
    return other;
  };
  // Row 21 has columns 1, 20, 21, 22, 41: three of them are in other subdomains.
  const std::int64_t row = csr.pattern.row_ptr[21];
  for (const char* id : both) {
    EXPECT_SAYS(said(with(row, std::numeric_limits<double>::infinity()), id), "row 21, column 1 is inf");
    EXPECT_SAYS(said(with(row + 3, std::numeric_limits<double>::quiet_NaN()), id),
                "row 21, column 22 is nan");
  }
  EXPECT_SAYS(said(with(row, -0.5), both[0]), "differ by up to 1.2e-01 of the largest entry");
  EXPECT_SAYS(said(with(row + 3, -2), both[0]), "differ by up to 2.5e-01 of the largest entry");
  EXPECT_SAYS(said(with(row + 2, -4), both[0]), "1 of 400 diagonal entries are negative: row 21 (-4)");
  for (const std::int32_t column : {1, 22, 41}) {
    const auto half = part_of(csr, [&](std::int32_t i, std::int32_t j) { return i != 21 || j != column; });
    EXPECT_SAYS(said(half, both[0]),
                "differ by up to 2.5e-01 of the largest entry of their rows; use subdomain-ilu0");
    const auto other_half =
        part_of(csr, [&](std::int32_t i, std::int32_t j) { return j != 21 || i != column; });
    EXPECT_SAYS(said(other_half, both[0]),
                "differ by up to 2.5e-01 of the largest entry of their rows; use subdomain-ilu0");
  }
  // As many entries above the diagonal as below it.
  const auto turned = part_of(
      csr, [&](std::int32_t i, std::int32_t j) { return (i != 21 || j != 22) && (i != 70 || j != 50); });
  EXPECT_SAYS(said(turned, both[0]), "differ by up to 2.5e-01 of the largest entry of their rows");
  EXPECT_SAYS(message<BadMatrix>([&] { ready<double>("subdomain-ilu0", *matrix(of(5, {}))); }),
              "5 of 5 diagonal entries");
}

// New patterns and values, some of them refused, in any order: the bits of a new object, and after a refusal the bits
// from before it.
TEST_P(SubdomainRows, OneObjectForManyPatterns) {
  std::mt19937 random(11);
  for (const char* id : both)
    for (const std::int64_t size : {0, 20}) {
      std::vector<CsrMatrix<double>> patterns;
      std::vector<std::unique_ptr<AssembledMatrix<double>>> matrices;
      for (const CsrMatrix<double>& csr : {sparse(poisson_2d(12)), sparse(poisson_1d(144)), sparse(full(144)),
                                           unsorted(sparse(poisson_2d(12)))})
        patterns.push_back(csr), matrices.push_back(matrix(csr));
      const auto M = make_preconditioner<double>(id, *matrices[0], of_size(size));
      const std::vector<double> r = right_hand_side<double>(144);
      std::vector<double> last;
      for (int step = 0; step < 40; ++step) {
        const std::size_t which = random() % patterns.size();
        const CsrMatrix<double>& csr = patterns[which];
        std::vector<double> values(csr.values, csr.values + csr.nonzeros());
        const double factor = 1 + static_cast<double>(random() % 1000) / 300;
        for (double& value : values) value *= factor;
        const bool bad = !last.empty() && random() % 3 == 0;
        if (bad) values[random() % values.size()] = std::numeric_limits<double>::infinity();
        const CsrMatrix<double> next = with_values(csr, values.data());
        matrices[which]->update_values(placed(context_, next));
        if (bad) {
          EXPECT_SAYS(message<BadMatrix>([&] { M->ensure(*matrices[which]); }), "is inf");
          EXPECT_EQ(apply(*M, r), last) << id << ' ' << step;
          continue;
        }
        M->ensure(*matrices[which]);
        last = apply(*M, r);
        const auto fresh = matrix(next);
        const auto anew = ready<double>(id, *fresh, of_size(size));
        EXPECT_EQ(last, apply(*anew, r)) << id << ' ' << step;
        EXPECT_EQ(M->bytes(), anew->bytes());
      }
    }
}

TEST_P(SubdomainRows, RandomPatterns) {
  const unsigned most = gpu() ? 60 : 25;
  for (unsigned seed = 0; seed < most; ++seed) {
    std::mt19937 random(seed);
    const auto n = static_cast<std::int64_t>(1 + random() % 3000);
    const CsrMatrix<double> csr =
        at_random(n, static_cast<int>(random() % 12), seed, 1 + static_cast<std::int64_t>(random() % 200));
    const std::int64_t size = random() % 2 == 0 ? 0 : static_cast<std::int64_t>(1 + random() % 900);
    SCOPED_TRACE(std::to_string(seed) + ' ' + std::to_string(n) + ' ' + std::to_string(size));
    const Sizes sizes = size == 0 ? by_itself : Sizes{size};
    const auto expected = chosen_on_host(csr.pattern, sizes, 8, shared());
    const auto got = detail::subdomains_on_device<double>(
        context_, upload(context_, csr), sizes, {"subdomain-ilu0", false, ZeroDiagonal::error}, shared());
    ASSERT_EQ(got.has_value(), expected.has_value());
    if (!got) continue;
    expect_bits(here(got->arrays.place), expected->all.place, "place");
    expect_bits(here(got->arrays.level), expected->all.level, "level");
    expect_bits(here(got->arrays.lower_ptr), expected->all.lower.ptr, "lower_ptr");
    expect_bits(here(got->arrays.lower_col), expected->all.lower.col, "lower_col");
    expect_bits(here(got->arrays.upper_ptr), expected->all.upper.ptr, "upper_ptr");
    expect_bits(here(got->arrays.upper_col), expected->all.upper.col, "upper_col");
  }
}

}  // namespace
}  // namespace protean::test
