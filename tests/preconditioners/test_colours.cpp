// Colours and levels that a device finds equal the ones of the host, and rows and entries are in their order.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "core/buffer.hpp"
#include "core/csr_view.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/transfer.hpp"
#include "gtest/gtest.h"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/factors/colours.hpp"
#include "preconditioners/factors/device/device_colours.hpp"
#include "preconditioners/factors/factor_pattern.hpp"
#include "preconditioners/in_space.hpp"
#include "preconditioners/preconditioner.hpp"
#include "preconditioners/triangular/sweeps.hpp"
#include "solvers/systems.hpp"

namespace protean::test {
namespace {

class Colours : public InSpace {
 protected:
  template <class U>
  std::vector<U> here(const Buffer<U>& there) const {
    std::vector<U> values(static_cast<std::size_t>(there.size()));
    detail::copy_bytes(*context_, values.data(), Space::host, there.data(), Space::device, there.bytes());
    return values;
  }
  std::optional<detail::ColouredRows> coloured(const CsrMatrix<double>& csr, bool with_upper = true,
                                               int most = 64) const {
    return detail::colour_on_device(context_, upload(context_, csr).pattern, with_upper, most);
  }
};
INSTANTIATE_TEST_SUITE_P(Spaces, Colours, testing::Values(Where::simulated, Where::gpu), name_of_space);

std::vector<CsrMatrix<double>> matrices(std::int64_t n) {
  std::vector<CsrMatrix<double>> battery;
  for (const Dense& A : symmetric_battery()) battery.push_back(sparse(A));
  for (const char* kind : {"poisson-2d", "poisson-3d", "elasticity-3d", "convection-diffusion-3d"})
    battery.push_back(generate(test_context(), kind, {{"n", static_cast<double>(n)}}));
  return battery;
}

TEST_P(Colours, AreThoseOfTheHost) {
  for (const CsrMatrix<double>& csr : matrices(gpu() ? 24 : 7))
    for (const bool with_upper : {true, false}) {
      const detail::Colours expected = detail::colour<double>(test_context(), csr);
      const auto pattern = detail::pattern_by_colours(test_context(), csr.pattern, expected);
      const auto got = coloured(csr, with_upper);
      ASSERT_TRUE(got.has_value()) << csr.rows();
      EXPECT_EQ(got->colours(), expected.count);
      EXPECT_EQ(got->first, pattern->forward.first());
      const std::vector<std::int32_t> row = here(got->row), place = here(got->place), col = here(got->col),
                                      key = here(got->key),
                                      mirror = with_upper ? here(got->mirror) : std::vector<std::int32_t>();
      const std::vector<std::int64_t> lower = here(got->lower), upper = here(got->upper);
      const Buffer<std::int32_t>& order = pattern->forward.order();
      ASSERT_EQ(row, std::vector<std::int32_t>(order.begin(), order.end()));
      ASSERT_EQ(upper.front(), lower.back());
      ASSERT_EQ(static_cast<std::size_t>(upper.back()), col.size());
      for (std::int64_t k = 0; k < csr.rows(); ++k) {
        const std::int64_t i = row[k];
        ASSERT_EQ(place[i], k);
        const auto part = [&](const std::vector<std::int64_t>& ptr) {
          return std::vector<std::int32_t>(col.begin() + ptr[k], col.begin() + ptr[k + 1]);
        };
        // In the order of the elimination; the pattern has the rows of U from the last one on.
        std::vector<std::int32_t> in_l, in_u;
        for (std::int64_t p = pattern->lower(i).begin; p < pattern->lower(i).end; ++p)
          in_l.push_back(pattern->col[p]);
        for (std::int64_t p = pattern->upper(i).end; with_upper && p-- > pattern->upper(i).begin;)
          in_u.push_back(pattern->col[p]);
        ASSERT_EQ(part(lower), in_l) << i;
        ASSERT_EQ(part(upper), in_u) << i;
        for (std::int64_t p = lower[k]; with_upper && p < lower[k + 1]; ++p) {
          ASSERT_GE(mirror[p], 0);
          ASSERT_EQ(col[upper[key[p]] + mirror[p]], i);
        }
      }
      for (std::size_t p = 0; p < col.size(); ++p) ASSERT_EQ(key[p], place[col[p]]);
      for (std::size_t c = 0; c < got->first.size(); ++c) {
        EXPECT_EQ(got->lower_first[c], lower[got->first[c]]);
        EXPECT_EQ(got->upper_first[c], upper[got->first[c]] - upper[0]);
      }
    }
}

// Level after level, which is natural order: each row has the entries of the host's L and U, in the order of their
// places.
TEST_P(Colours, LevelsAreThoseOfTheHost) {
  for (const CsrMatrix<double>& csr : matrices(gpu() ? 24 : 7)) {
    const auto pattern = detail::pattern_of_factors(test_context(), csr.pattern, 0, "ic0");
    detail::find_levels(test_context(), *pattern, true);
    const auto got = detail::levels_on_device(context_, upload(context_, csr).pattern);
    ASSERT_TRUE(got.has_value()) << csr.rows();
    EXPECT_EQ(got->first, pattern->forward.first());
    const std::vector<std::int32_t> row = here(got->row), place = here(got->place), col = here(got->col),
                                    key = here(got->key), mirror = here(got->mirror);
    const std::vector<std::int64_t> lower = here(got->lower), upper = here(got->upper);
    const Buffer<std::int32_t>& order = pattern->forward.order();
    ASSERT_EQ(row, std::vector<std::int32_t>(order.begin(), order.end()));
    for (std::int64_t k = 0; k < csr.rows(); ++k) {
      const std::int64_t i = row[k];
      ASSERT_EQ(place[i], k);
      const auto expect_part = [&](const std::vector<std::int64_t>& ptr, const Range& expected) {
        std::vector<std::int32_t> wanted(pattern->col.data() + expected.begin,
                                         pattern->col.data() + expected.end);
        std::sort(wanted.begin(), wanted.end(),
                  [&](std::int32_t a, std::int32_t b) { return place[a] < place[b]; });
        ASSERT_EQ(std::vector<std::int32_t>(col.begin() + ptr[k], col.begin() + ptr[k + 1]), wanted) << i;
      };
      expect_part(lower, pattern->lower(i)), expect_part(upper, pattern->upper(i));
      for (std::int64_t p = lower[k]; p < lower[k + 1]; ++p) {
        ASSERT_LT(col[p], i);
        ASSERT_EQ(col[upper[key[p]] + mirror[p]], i);
      }
    }
    for (std::size_t p = 0; p < col.size(); ++p) ASSERT_EQ(key[p], place[col[p]]);
  }
  // A chain of more levels than there can be colours, and more than a block of threads has.
  const auto chain = detail::levels_on_device(context_, upload(context_, sparse(poisson_1d(300))).pattern);
  ASSERT_TRUE(chain.has_value());
  EXPECT_EQ(chain->colours(), 300);
  EXPECT_EQ(chain->lower_first.back(), 299);
  EXPECT_EQ(chain->upper_first[1], 1);
  for (const unsigned seed : {1, 2, 3})
    EXPECT_FALSE(detail::levels_on_device(context_, upload(context_, sparse(scattered(40, seed))).pattern)
                     .has_value());
}

// The approximate inverses that a device sets up alone equal the ones that a host finds.
TEST_P(Colours, LevelsMakeTheInversesOfTheHost) {
  const double n = gpu() ? 20 : 6;
  for (const char* kind : {"poisson-3d", "elasticity-3d", "convection-diffusion-3d"}) {
    const CsrMatrix<double> csr = generate(test_context(), kind, {{"n", n}});
    const auto A = matrix(csr), on_host = assembled(csr);
    const std::vector<double> r = right_hand_side<double>(csr.rows());
    for (const std::int64_t power : {1, 2, 3})
      for (const char* id : {"isai", "isai-lu"}) {
        if (kind[0] == 'c' && id[4] == 0) continue;
        SCOPED_TRACE(std::string(kind) + ' ' + id + ' ' + std::to_string(power));
        const PreconditionerOptions options{.power = power};
        const auto M = make_preconditioner<double>(id, *A, options);
        const std::size_t before = allocated_bytes();
        M->ensure(*A);
        EXPECT_LE(allocated_bytes(), before + 16384) << "the host keeps something";
        const auto expected = ready<double>(id, *on_host, options);
        EXPECT_EQ(figure(*M, "entries"), figure(*expected, "entries"));
        const std::vector<double> got = apply(*M, r), wanted = applied(*expected, r);
        double largest = 0, difference = 0;
        for (std::size_t i = 0; i < r.size(); ++i)
          largest = std::max(largest, std::abs(wanted[i])),
          difference = std::max(difference, std::abs(wanted[i] - got[i]));
        EXPECT_LE(difference, 1e-12 * largest);
      }
  }
}

TEST_P(Colours, AreHandedOver) {
  // 45 colours, 7 of which are one too many.
  EXPECT_TRUE(coloured(sparse(full(45)), true, 45).has_value());
  EXPECT_FALSE(coloured(sparse(full(45)), true, 44).has_value());
  EXPECT_TRUE(coloured(sparse(full(64))).has_value());
  EXPECT_FALSE(coloured(sparse(full(65))).has_value());
  EXPECT_FALSE(coloured(sparse(full(130))).has_value());
  // The pattern is not symmetric.
  for (const unsigned seed : {1, 2, 3}) EXPECT_FALSE(coloured(sparse(scattered(40, seed))).has_value());
  Dense one_sided = poisson_1d(9);
  one_sided(8, 7) = 0;
  EXPECT_FALSE(coloured(sparse(one_sided)).has_value());
  // Columns that do not ascend.
  const std::int32_t ptr[] = {0, 2, 4}, sorted[] = {0, 1, 0, 1}, others[] = {1, 0, 0, 1};
  const double values[] = {2, -1, -1, 2};
  EXPECT_TRUE(coloured(csr_view<double>(2, 2, ptr, sorted, values)).has_value());
  EXPECT_FALSE(coloured(csr_view<double>(2, 2, ptr, others, values)).has_value());
  const auto empty =
      coloured(csr_from_triplets<double>(test_context(), 0, 0, std::vector<Triplet<double>>{}));
  ASSERT_TRUE(empty.has_value());
  EXPECT_EQ(empty->colours(), 0);
}

// A row waits for the row before it: the device gives up, and the host finds the same colours.
TEST_P(Colours, OfLongChainsAreFoundByTheHost) {
  std::vector<Triplet<double>> entries;
  const std::int32_t n = gpu() ? 400000 : 4000;
  for (std::int32_t i = 0; i < n; ++i) {
    entries.push_back({i, i, 2.5});
    if (i > 0) entries.push_back({i, i - 1, -1.0}), entries.push_back({i - 1, i, -1.0});
  }
  const CsrMatrix<double> csr = csr_from_triplets<double>(test_context(), n, n, entries);
  if (gpu()) { EXPECT_FALSE(coloured(csr).has_value()); }
  const std::vector<double> r = right_hand_side<double>(n);
  for (const char* id : {"ssor", "ic0"}) {
    PreconditionerOptions options;
    if (id == std::string("ic0")) options.ordering = FactorOrdering::colours;
    const auto M = ready<double>(id, *matrix(csr), options);
    EXPECT_EQ(figure(*M, "colours"), 2);
    const std::vector<double> got = apply(*M, r),
                              expected = applied(*ready<double>(id, *assembled(csr), options), r);
    for (std::size_t i = 0; i < r.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-13) << id << ' ' << i;
  }
}

// The host keeps nothing of a setup that the device does, for new patterns and for new values.
TEST_P(Colours, LeaveNothingOnTheHost) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", 30}}),
                          other = sparse(poisson_1d(900));
  for (const char* id : {"ssor", "gauss-seidel", "ic0", "ilu0"}) {
    const auto A = matrix(csr), B = matrix(other);
    const auto M = make_preconditioner<double>(id, *A);
    const std::vector<double> r = right_hand_side<double>(900);
    const std::size_t before = allocated_bytes();
    M->ensure(*A);
    EXPECT_LE(allocated_bytes(), before + 4096) << id;
    const std::vector<double> z = apply(*M, r);
    M->ensure(*B);
    EXPECT_LE(allocated_bytes(), before + 4096) << id;
    EXPECT_NE(apply(*M, r), z);
    const std::uint64_t version = M->recording().version;
    B->update_values(placed(context_, other)), M->ensure(*B);
    EXPECT_EQ(M->recording().version, version);
    EXPECT_LE(allocated_bytes(), before + 4096) << id;
    M->ensure(*A);
    EXPECT_EQ(apply(*M, r), z);
  }
}

// From a pattern that the device colours to one that it hands over, and back.
TEST_P(Colours, ChangeHands) {
  const CsrMatrix<double> symmetric = sparse(poisson_2d(8)), lopsided = sparse(scattered(64, 5));
  for (const char* id : {"ssor", "gauss-seidel", "ilu0", "isai-lu"}) {
    const auto A = matrix(symmetric), B = matrix(lopsided);
    const auto M = make_preconditioner<double>(id, *A);
    const std::vector<double> r = right_hand_side<double>(64);
    for (int k = 0; k < 5; ++k) {
      const bool first = k % 2 == 0;
      M->ensure(first ? *A : *B);
      EXPECT_EQ(apply(*M, r), apply(*ready<double>(id, first ? *A : *B), r)) << id << ' ' << k;
      // New values.
      const CsrMatrix<double>& csr = first ? symmetric : lopsided;
      std::vector<double> values(csr.values, csr.values + csr.nonzeros());
      for (double& value : values) value *= 2 + k;
      const CsrMatrix<double> next = with_values(csr, values.data());
      (first ? *A : *B).update_values(placed(context_, next));
      M->ensure(first ? *A : *B);
      EXPECT_EQ(apply(*M, r), apply(*ready<double>(id, *matrix(next)), r)) << id << ' ' << k;
    }
  }
}

TEST_P(Colours, OfBadValuesKeepTheOldOnes) {
  const CsrMatrix<double> csr = sparse(poisson_2d(6));
  for (const char* id : {"ssor", "gauss-seidel"}) {
    const auto A = matrix(csr);
    const auto M = ready<double>(id, *A);
    const std::vector<double> r = right_hand_side<double>(36), z = apply(*M, r);
    const auto with = [&](std::size_t at, double value) {
      std::vector<double> values(csr.values, csr.values + csr.nonzeros());
      values[at] = value;
      A->update_values(placed(context_, with_values(csr, values.data())));
      return message<BadMatrix>([&] { M->ensure(*A); });
    };
    EXPECT_SAYS(with(0, 0), std::string(id) + " divides by the diagonal, but 1 of 36 diagonal entries");
    EXPECT_SAYS(with(1, std::numeric_limits<double>::infinity()), "row 0, column 1 is inf");
    std::vector<double> values(csr.values, csr.values + csr.nonzeros());
    values[0] = 1e-200, values[3] = 1e200;  // of row 1, column 0
    A->update_values(placed(context_, with_values(csr, values.data())));
    EXPECT_SAYS(message<BadMatrix>([&] { M->ensure(*A); }), "too large for double precision");
    EXPECT_EQ(apply(*M, r), z) << id;
  }
}

}  // namespace
}  // namespace protean::test
