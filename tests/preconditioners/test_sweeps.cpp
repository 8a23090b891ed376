// The parts that triangular solves are made of: stages that wait for each other, solves by levels, and what several
// threads do with them.
#include "preconditioners/options.hpp"
#include "preconditioners/triangular/sweeps.hpp"

#include <atomic>
#include <chrono>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "core/generate/generate.hpp"
#include "gtest/gtest.h"
#include "operators/multi_product.hpp"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/systems.hpp"

namespace protean::test {
namespace {

struct Case {
  const char* name;
  std::vector<std::int64_t> rows;  // of each stage
};

// Large stages, which threads share, and small ones, which they do not, in any sequence: no row begins before all rows
// of the stages before it have ended. The first row of each stage takes its time, so that a row that does not wait is
// seen.
TEST(Stages, RowsWaitForTheStagesBefore) {
  constexpr std::int64_t large = detail::worth_a_region;
  const Case cases[] = {{"large", {large, large, large}},
                        {"small", {7, 1, 20}},
                        {"small, large", {5, 9, large, large}},
                        {"large, small", {large, 4, 6, large, 3}},
                        {"one row less", {large / 2, large / 2 - 1, large}}};
  for (const Case& one : cases)
    for (const int threads : {1, 2, 4}) {
      SCOPED_TRACE(std::string(one.name) + ", " + std::to_string(threads) + " threads");
      const ContextPtr context = Context::host(threads);
      std::int64_t n = 0;
      for (const std::int64_t rows : one.rows) n += rows;
      // Rows are dealt out to the stages in turn, so that their numbers say nothing of their stage.
      Buffer<std::int32_t> stage(context, n);
      std::vector<std::int64_t> left = one.rows;
      for (std::int64_t i = 0, s = 0; i < n; ++i, ++s) {
        while (left[s % left.size()] == 0) ++s;
        stage[i] = static_cast<std::int32_t>(s % left.size());
        --left[s % left.size()];
      }
      const detail::Stages stages(context, stage, static_cast<std::int32_t>(one.rows.size()), false, false,
                                  [](std::int64_t) { return std::int64_t{0}; });
      ASSERT_EQ(stages.count(), static_cast<std::int64_t>(one.rows.size()));
      std::vector<std::atomic<std::int64_t>> ended(one.rows.size());
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(n));
      std::atomic<std::int64_t> early{0};
      stages.run(*context, [&](std::int64_t i, int) {
        const auto s = static_cast<std::size_t>(stage[i]);
        for (std::size_t before = 0; before < s; ++before) early += ended[before] != one.rows[before];
        if (i == stages.order()[stages.first()[s]]) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        ++runs[static_cast<std::size_t>(i)], ++ended[s];
      });
      EXPECT_EQ(early, 0) << "rows that began before an earlier stage had ended";
      for (const auto& count : runs) ASSERT_EQ(count, 1);
    }
}

// A chain in L and nothing in U, and the other way round.
TEST(Stages, EachTriangleHasItsOwnLevels) {
  const ContextPtr context = test_context();
  for (const bool upper : {false, true}) {
    detail::SweepPattern pattern;
    pattern.n = 5;
    detail::set_row_sizes(
        context, pattern, [&](std::int64_t i) { return !upper && i > 0 ? 1 : 0; },
        [&](std::int64_t i) { return upper && i < 4 ? 1 : 0; });
    for (std::int64_t i = 0; i < 5; ++i) {
      for (std::int64_t p = pattern.lower(i).begin; p < pattern.lower(i).end; ++p)
        pattern.col[p] = static_cast<std::int32_t>(i - 1);
      for (std::int64_t p = pattern.upper(i).begin; p < pattern.upper(i).end; ++p)
        pattern.col[p] = static_cast<std::int32_t>(i + 1);
    }
    ASSERT_EQ(pattern.col.size(), 4);
    detail::find_levels(context, pattern, false);
    EXPECT_EQ(pattern.forward.count(), upper ? 1 : 5);
    EXPECT_EQ(pattern.backward.count(), 0) << "nobody asked for it";
    detail::find_levels(context, pattern);
    EXPECT_EQ(pattern.backward.count(), upper ? 5 : 1);
  }
}

// Rows that several threads factor at the same time have the same columns, each at another place of its row.
TEST(Sweeps, RowsThatShareColumnsAreFactoredByAllThreads) {
  const std::int64_t n = 30000;
  std::vector<Triplet<double>> entries;
  for (std::int32_t i = 0; i < n; ++i) {
    entries.push_back({i, i, 9});
    for (std::int32_t j = 0; j < 8 && j < i; ++j)
      if ((i >> j & 1) != 0 || i < 8) entries.push_back({i, j, -1 - 0.001 * ((i + j) % 13)});
  }
  const CsrMatrix<double> csr = csr_from_triplets<double>(test_context(), n, n, entries);
  const std::vector<double> r = right_hand_side<double>(n);
  for (const char* id : {"ilu0", "ilu"}) {
    const std::vector<double> expected = applied(*ready<double>(id, *assembled(csr, Context::host(1))), r);
    for (int round = 0; round < 3; ++round)
      EXPECT_EQ(applied(*ready<double>(id, *assembled(csr, Context::host(4))), r), expected) << id;
  }
}

// The threads of a program may apply one M at the same time.
TEST(Sweeps, OneForSeveralCallers) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", 60}});
  constexpr int callers = 4;
  constexpr auto long_enough =
      std::chrono::milliseconds(30);  // for the system to let all of them run in turn
  for (const PreconditionerEntry& entry : preconditioners()) {
    if (entry.id == "none" || !entry.unavailable.empty()) continue;
    for (const TriangularSolve how : {TriangularSolve::levels, TriangularSolve::sweeps}) {
      const bool reads = find_option(preconditioner_options(), "solve")->readers.has(entry.id);
      if (!reads && how == TriangularSolve::sweeps) continue;
      const auto A = assembled(csr, Context::host(1));
      const auto M = ready<double>(entry.id, *A, preconditioner_options_read_by(entry.id, {.solve = how}));
      std::vector<std::vector<double>> rhs, expected, expected_sum;
      for (int c = 0; c < callers; ++c) {
        std::vector<double> r = right_hand_side<double>(csr.rows());
        for (std::size_t i = 0; i < r.size(); ++i) r[i] *= 1 + c + static_cast<double>((i * (c + 3)) % 11);
        expected.push_back(applied(*M, r));
        std::vector<double> y(r.size(), 1.0);
        M->apply(2.0, view(std::as_const(r)), 3.0, view(y));
        expected_sum.push_back(y), rhs.push_back(std::move(r));
      }
      std::atomic<int> wrong{0}, begun{0};
      std::vector<std::thread> threads;
      for (int c = 0; c < callers; ++c)
        threads.emplace_back([&, c] {
          ++begun;
          while (begun < callers) std::this_thread::yield();
          const auto end = std::chrono::steady_clock::now() + long_enough;
          while (std::chrono::steady_clock::now() < end) {
            wrong += applied(*M, rhs[c]) != expected[c];
            std::vector<double> y(rhs[c].size(), 1.0);
            M->apply(2.0, view(std::as_const(rhs[c])), 3.0, view(y));
            wrong += y != expected_sum[c];
          }
        });
      for (std::thread& thread : threads) thread.join();
      EXPECT_EQ(wrong, 0) << entry.id << ' ' << to_string(how);
    }
  }
}

// Several columns at once: each as one column alone within rounding, whatever their number, layout and place. Rows of
// the second half are coupled with many of the first half, so that several threads share two levels.
TEST(Sweeps, SeveralColumns) {
  const std::int64_t n = 3000;
  std::vector<Triplet<double>> entries;
  for (std::int32_t i = 0; i < n; ++i) {
    entries.push_back({i, i, 30});
    for (std::int32_t k = 0; i >= n / 2 && k < 20; ++k) {
      const auto j = static_cast<std::int32_t>((i * 7 + 71 * k) % (n / 2));
      entries.push_back({i, j, -1 - 0.01 * k}), entries.push_back({j, i, -1 - 0.01 * k});
    }
  }
  const CsrMatrix<double> csr = csr_from_triplets<double>(test_context(), n, n, entries);
  for (const char* id : {"ic0", "ic", "ilu0", "ilu"})
    for (const int threads : {1, 4}) {
      const auto A = assembled(csr, Context::host(threads));
      const auto M = ready<double>(id, *A);
      EXPECT_EQ(column_by_column<double>(*M), "") << id;
      std::vector<std::vector<double>> r, alone;
      for (int j = 0; j < 15; ++j) {
        r.push_back(right_hand_side<double>(n));
        for (std::size_t i = 0; i < r.back().size(); ++i)
          r.back()[i] *= 1 + static_cast<double>((i * static_cast<std::size_t>(j + 3)) % 11);
        alone.push_back(applied(*M, r.back()));
      }
      // Column j of all 15 in a product with all of them.
      std::vector<std::vector<double>> first(15);
      for (const VectorLayout layout : {VectorLayout::interleaved, VectorLayout::columns})
        for (const int columns : {15, 1, 2, 3, 5, 8, 9}) {
          SCOPED_TRACE(std::string(id) + ' ' + std::to_string(threads) + ' ' + std::to_string(columns));
          const int from = columns == 15 ? 0 : 4;
          MultiVector<double> R(A->context(), n, columns, layout), Z(A->context(), n, columns, layout),
              Y(A->context(), n, columns, layout);
          for (int j = 0; j < columns; ++j)
            for (std::int64_t i = 0; i < n; ++i) R.view()(i, j) = r[from + j][i], Y.view()(i, j) = i % 3;
          multi_apply<double>(*M, R.view(), Z.view());
          multi_apply<double>(*M, 2.0, R.view(), -1.0, Y.view());
          std::int64_t other = 0, wrong = 0, wrong_sum = 0;
          for (int j = 0; j < columns; ++j) {
            std::vector<double>& expected = first[from + j];
            if (expected.empty())
              for (std::int64_t i = 0; i < n; ++i) expected.push_back(Z.view()(i, j));
            for (std::int64_t i = 0; i < n; ++i) {
              const double z = Z.view()(i, j), reference = alone[from + j][i];
              wrong += !(std::abs(z - reference) <= 1e-13 * (1 + std::abs(reference)));
              wrong_sum += !(std::abs(Y.view()(i, j) - (2 * z - i % 3)) <= 1e-13 * (3 + std::abs(z)));
              // One column that lies side by side is the product with one vector.
              other += z != expected[i] && columns > 1;
            }
          }
          EXPECT_EQ(wrong, 0);
          EXPECT_EQ(wrong_sum, 0);
          EXPECT_EQ(other, 0) << "other columns matter";
        }
      MultiVector<double> none(A->context(), n, 0);
      EXPECT_NO_THROW(multi_apply<double>(*M, none.view(), none.view()));
    }
  const auto A = assembled(csr);
  EXPECT_NE(column_by_column<double>(*ready<double>("ic0", *A, {.solve = TriangularSolve::sweeps})), "");
  const auto exact = assembled(csr, Context::host(1, {.deterministic = true}));
  EXPECT_NE(column_by_column<double>(*ready<double>("ic0", *exact)), "");
}

// New values in a kept pattern are compared with their mirrored ones, too.
TEST(Sweeps, NewValuesMustBeSymmetric) {
  const CsrMatrix<double> csr = generate(test_context(), "elasticity-3d", {{"n", 4}});
  const std::vector<double> r = right_hand_side<double>(csr.rows());
  for (const char* id : {"ic0", "ic"}) {
    const auto A = assembled(csr);
    const auto M = ready<double>(id, *A);
    const std::vector<double> z = applied(*M, r);
    std::vector<double> values(csr.values, csr.values + csr.nonzeros());
    double largest = 0;
    for (double& value : values) largest = std::max(largest, std::abs(value *= 2));
    CsrMatrix<double> renewed = csr;
    renewed.values = values.data(), renewed.values_owner = nullptr;
    values[static_cast<std::size_t>(csr.pattern.row_ptr[40])] += 1e-3 * largest;
    A->update_values(renewed);
    const std::string text = message<BadMatrix>([&] { M->ensure(*A); });
    EXPECT_SAYS(
        text,
        std::string(id) +
            " needs a symmetric matrix, but entries and their mirrored ones (0 if none is stored) differ "
            "by up to 2.0e-03");
    EXPECT_EQ(applied(*M, r), z);
    values[static_cast<std::size_t>(csr.pattern.row_ptr[40])] -= 1e-3 * largest;
    A->update_values(renewed);
    M->ensure(*A);
    const std::vector<double> half = applied(*M, r);
    for (std::size_t i = 0; i < z.size(); ++i) EXPECT_NEAR(half[i], z[i] / 2, 1e-12 * std::abs(z[i])) << i;
  }
}

// Many rows of two colours, which threads share, and one long chain, which they do not: factors of one pattern are not
// solved in the order of the other.
TEST(Sweeps, ANewPatternHasItsOwnLevels) {
  const std::int64_t n = 40000;
  std::vector<Triplet<double>> wide, narrow;
  for (std::int32_t i = 0; i < n; ++i) {
    wide.push_back({i, i, 5}), narrow.push_back({i, i, 5});
    // Rows of the second half are coupled with three of the first half.
    if (i >= n / 2)
      for (std::int32_t k = 0; k < 3; ++k) {
        const auto j = static_cast<std::int32_t>((i + 7 * k) % (n / 2));
        wide.push_back({i, j, -1}), wide.push_back({j, i, -1});
      }
    if (i > 0) narrow.push_back({i, i - 1, -1}), narrow.push_back({i - 1, i, -1});
  }
  const CsrMatrix<double> shared = csr_from_triplets<double>(test_context(), n, n, wide),
                          chain = csr_from_triplets<double>(test_context(), n, n, narrow);
  const std::vector<double> r = right_hand_side<double>(n);
  for (const char* id : {"ic0", "ilu0", "ssor", "gauss-seidel"}) {
    const auto expected = [&](const CsrMatrix<double>& csr) {
      return applied(*ready<double>(id, *assembled(csr, Context::host(1))), r);
    };
    const std::vector<double> of_shared = expected(shared), of_chain = expected(chain);
    const ContextPtr context = Context::host(4);
    const auto A = assembled(shared, context), B = assembled(chain, context);
    const auto M = ready<double>(id, *A);
    // Columns of the pattern; columns and values of the levels, which several threads solve with.
    const std::int64_t entries = (shared.nonzeros() - n) / (id == std::string_view("gauss-seidel") ? 2 : 1);
    EXPECT_GE(M->bytes(), static_cast<std::size_t>(16 * entries)) << id;
    for (int round = 0; round < 2; ++round) {
      EXPECT_EQ(applied(*M, r), of_shared) << id << ' ' << round;
      M->ensure(*B);
      EXPECT_EQ(applied(*M, r), of_chain) << id << ' ' << round;
      M->ensure(*A);
    }
  }
}

// Poisson's equation with the even points first: two stages of many rows, which several threads share.
// one_sided: a fifth of the odd points do not feel their neighbours, which feel them.
CsrMatrix<double> red_black(std::int64_t m, bool one_sided = false) {
  std::vector<Triplet<double>> entries;
  const auto row = [&](std::int64_t x, std::int64_t y) {
    const std::int64_t i = y * m + x;
    return static_cast<std::int32_t>((x + y) % 2 ? (m * m + 1) / 2 + i / 2 : i / 2);
  };
  for (std::int64_t y = 0; y < m; ++y)
    for (std::int64_t x = 0; x < m; ++x) {
      entries.push_back({row(x, y), row(x, y), 4.0 + 0.001 * static_cast<double>(x % 7)});
      if (one_sided && (x + y) % 2 && (3 * x + y) % 5 == 0) continue;
      if (x > 0) entries.push_back({row(x, y), row(x - 1, y), -1});
      if (x + 1 < m) entries.push_back({row(x, y), row(x + 1, y), -1});
      if (y > 0) entries.push_back({row(x, y), row(x, y - 1), -1});
      if (y + 1 < m) entries.push_back({row(x, y), row(x, y + 1), -1});
    }
  return csr_from_triplets<double>(test_context(), m * m, m * m, entries, Duplicates::refuse);
}

TEST(Sweeps, TheSameBitsForAnyNumberOfThreads) {
  const CsrMatrix<double> csr = red_black(151);
  const std::vector<double> r = right_hand_side<double>(csr.rows());
  for (const char* id : {"ic0", "ilu0", "ic", "ilu", "ssor", "gauss-seidel", "block-jacobi", "spai0"}) {
    std::vector<double> first;
    for (const int threads : {1, 2, 3, 7}) {
      const auto A = assembled(csr, Context::host(threads));
      const std::vector<double> z = applied(*ready<double>(id, *A), r);
      if (first.empty()) first = z;
      EXPECT_EQ(z, first) << id << " with " << threads << " threads";
    }
  }
  const auto A = assembled(csr);
  EXPECT_EQ(figure(*ready<double>("ilu0", *A), "levels"), 2);
  EXPECT_EQ(figure(*ready<double>("ssor", *A), "colours"), 2);
}

// A row of U that no row of L asks for must wait all the same. New values reach all threads.
TEST(Sweeps, UnsymmetricPatternsByLevels) {
  const CsrMatrix<double> csr = red_black(181, true);
  std::vector<double> others(csr.values, csr.values + csr.nonzeros());
  for (std::size_t k = 0; k < others.size(); ++k) others[k] *= 1 + 0.01 * static_cast<double>(k % 3);
  CsrMatrix<double> renewed = csr;
  renewed.values = others.data();
  const std::vector<double> r = right_hand_side<double>(csr.rows());
  for (const char* id : {"ilu0", "ilu"}) {
    const std::vector<double> first = applied(*ready<double>(id, *assembled(csr, Context::host(1))), r),
                              second = applied(*ready<double>(id, *assembled(renewed, Context::host(1))), r);
    ASSERT_NE(first, second);
    for (const int threads : {2, 5, 5, 5}) {
      SCOPED_TRACE(std::string(id) + " with " + std::to_string(threads) + " threads");
      const auto A = assembled(csr, Context::host(threads));
      const auto M = ready<double>(id, *A);
      EXPECT_EQ(applied(*M, r), first);
      A->update_values(renewed);
      M->ensure(*A);
      EXPECT_EQ(applied(*M, r), second);
    }
  }
}

// From 65,536 rows on it is measured whether several threads solve faster than one: the bits do not show it.
TEST(Sweeps, TheSameBitsWhicheverWayIsFaster) {
  const CsrMatrix<double> csr = red_black(301);
  const std::vector<double> r = right_hand_side<double>(csr.rows());
  for (const char* id : {"ic0", "ilu"}) {
    const std::vector<double> first = applied(*ready<double>(id, *assembled(csr, Context::host(1))), r);
    for (const int threads : {2, 3, 3}) {
      const auto A = assembled(csr, Context::host(threads));
      const auto M = ready<double>(id, *A);
      EXPECT_EQ(applied(*M, r), first) << id << " with " << threads << " threads";
      A->update_values(csr);
      M->ensure(*A);
      EXPECT_EQ(applied(*M, r), first) << id << " with " << threads << " threads, set up again";
    }
  }
}

}  // namespace
}  // namespace protean::test
