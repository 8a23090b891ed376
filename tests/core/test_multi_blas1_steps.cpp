// Operations on several vectors in the steps of CG and BiCGStab, against sums in long double.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/multi_blas1.hpp"
#include "gtest/gtest.h"
#include "multi_blas1_sizes.hpp"
#include "support/multi.hpp"

namespace protean::test {
namespace {

template <class T>
void check_cg(const ContextPtr& context) {
  const T inf = std::numeric_limits<T>::infinity();
  for (const std::int64_t n : sizes)
    for (const std::int64_t w : widths)
      for (const bool diagonal : {false, true}) {
        SCOPED_TRACE(std::to_string(n) + " rows, " + std::to_string(w) + " vectors" +
                     (diagonal ? ", diagonal" : ""));
        const std::int64_t dead = 1;
        auto q = sample_columns<T>(n, w, 1), r = sample_columns<T>(n, w, 2), x = sample_columns<T>(n, w, 3),
             p = sample_columns<T>(n, w, 4);
        // A vector that has ended may hold anything.
        if (dead < w && n > 0) q[1][0] = inf, p[1][0] = inf, r[1][0] = std::numeric_limits<T>::quiet_NaN();
        const auto d = sample_vector<T>(n, 5);
        std::vector<T> rz, pq, next;
        for (std::int64_t j = 0; j < w; ++j) {
          rz.push_back(static_cast<T>(1 + j)), pq.push_back(static_cast<T>(j == 2 ? -1 : 4)),
              next.push_back(T(2));
        }
        if (w > 3) rz[3] = 0;
        PlacedColumns<T> Q(context, q, n, interleaved), R(context, r, n, interleaved),
            X(context, x, n, interleaved), P(context, p, n, interleaved);
        Placed<T> pd(context, d), prz(context, rz), ppq(context, pq), pnext(context, next),
            running(context, all_but<T>(w, dead));
        const std::vector<T> seven(static_cast<std::size_t>(w), T(7));
        Placed<T> rr(context, seven), rdr(context, seven), dots(context, seven);
        const VectorView<const T> dv = diagonal ? pd.read() : VectorView<const T>{};

        multi_dot<T>(*context, P.read(), Q.read(), running.data(), dots.data());
        const Coefficient<T> alpha{1, prz.data(), ppq.data(), Demand::positive},
            beta{1, pnext.data(), prz.data(), Demand::positive};
        multi_cg_residual<T>(*context, alpha, Q.read(), dv, R.view(), running.data(), rr.data(), rdr.data());
        const auto found_r = R.fetch();
        multi_cg_direction<T>(*context, alpha, dv, R.read(), beta, X.view(), P.view(), running.data());
        const auto found_x = X.fetch(), found_p = P.fetch();
        const auto found_dot = dots.fetch(), found_rr = rr.fetch(), found_rdr = rdr.fetch();
        for (std::size_t j = 0; j < static_cast<std::size_t>(w); ++j) {
          if (static_cast<std::int64_t>(j) == dead) {
            EXPECT_EQ(found_x[j], x[j]);
            EXPECT_EQ(found_p[j], p[j]);
            for (std::size_t i = 1; i < r[j].size(); ++i) EXPECT_EQ(found_r[j][i], r[j][i]);
            EXPECT_EQ(found_dot[j], T(7));
            EXPECT_EQ(found_rr[j], T(7));
            EXPECT_EQ(found_rdr[j], T(7));
            continue;
          }
          const T a = pq[j] > 0 ? rz[j] / pq[j] : T(0), b = rz[j] > 0 ? next[j] / rz[j] : T(0);
          long double dot = 0, dot_size = 0, square = 0, weighted = 0, weighted_size = 0;
          const T eps = std::numeric_limits<T>::epsilon();
          for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
            const T di = diagonal ? d[i] : T(1), z = di * found_r[j][i];
            dot += static_cast<long double>(p[j][i]) * q[j][i],
                dot_size += std::fabs(static_cast<long double>(p[j][i]) * q[j][i]);
            EXPECT_NEAR(found_r[j][i], r[j][i] - a * q[j][i],
                        4 * eps * (std::abs(r[j][i]) + std::abs(a * q[j][i])));
            square += static_cast<long double>(found_r[j][i]) * found_r[j][i];
            weighted += static_cast<long double>(di) * found_r[j][i] * found_r[j][i];
            weighted_size += std::fabs(static_cast<long double>(di) * found_r[j][i] * found_r[j][i]);
            EXPECT_NEAR(found_x[j][i], x[j][i] + a * p[j][i],
                        4 * eps * (std::abs(x[j][i]) + std::abs(a * p[j][i])));
            EXPECT_NEAR(found_p[j][i], z + b * p[j][i], 4 * eps * (std::abs(z) + std::abs(b * p[j][i])));
          }
          EXPECT_TRUE(near<T>(found_dot[j], dot, dot_size, n));
          EXPECT_TRUE(near<T>(found_rr[j], square, square, n));
          EXPECT_TRUE(near<T>(found_rdr[j], weighted, weighted_size, n));
        }
        if (testing::Test::HasFailure()) return;
      }
}

TEST_P(MultiBlas1, StepsOfCgInDouble) { check_cg<double>(context_); }

TEST_P(MultiBlas1, StepsOfCgInFloat) { check_cg<float>(context_); }

// The three updates of BiCGStab in the order of a step.
template <class T>
void check_bicgstab(const ContextPtr& context) {
  const T inf = std::numeric_limits<T>::infinity(), eps = std::numeric_limits<T>::epsilon();
  for (const std::int64_t n : sizes)
    for (const std::int64_t w : widths)
      for (const bool diagonal : {false, true}) {
        SCOPED_TRACE(std::to_string(n) + " rows, " + std::to_string(w) + " vectors" +
                     (diagonal ? ", diagonal" : ""));
        constexpr std::int64_t dead = 1;
        auto v = sample_columns<T>(n, w, 1), r = sample_columns<T>(n, w, 2), x = sample_columns<T>(n, w, 3),
             p = sample_columns<T>(n, w, 4), t = sample_columns<T>(n, w, 5);
        const auto r0 = sample_columns<T>(n, w, 6), z = sample_columns<T>(n, w, 7);
        if (dead < w && n > 0) v[1][0] = inf, t[1][0] = inf;
        const auto d = sample_vector<T>(n, 8);
        std::vector<T> rho, r0v, ts, tt;
        for (std::int64_t j = 0; j < w; ++j) {
          rho.push_back(static_cast<T>(1 + j)), r0v.push_back(static_cast<T>(j == 2 ? 0 : -4));
          ts.push_back(static_cast<T>(j == 3 ? 0 : 3)), tt.push_back(static_cast<T>(j == 4 ? 0 : 8));
        }
        PlacedColumns<T> V(context, v, n, interleaved), R(context, r, n, interleaved),
            X(context, x, n, interleaved), P(context, p, n, interleaved), Tv(context, t, n, interleaved),
            R0(context, r0, n, interleaved), Z(context, z, n, interleaved);
        Placed<T> pd(context, d), prho(context, rho), pr0v(context, r0v), pts(context, ts), ptt(context, tt),
            running(context, all_but<T>(w, dead));
        const std::vector<T> seven(static_cast<std::size_t>(w), T(7));
        Placed<T> ss(context, seven), rr(context, seven), xy(context, seven), xx(context, seven),
            pnext(context, seven);
        const VectorView<const T> dv = diagonal ? pd.read() : VectorView<const T>{};

        const Coefficient<T> alpha{1, prho.data(), pr0v.data(), Demand::nonzero},
            minus_alpha{-1, prho.data(), pr0v.data(), Demand::nonzero},
            omega{1, pts.data(), ptt.data(), Demand::positive},
            beta{1, pts.data(), ptt.data(), Demand::nonzero};
        multi_bicgstab_half<T>(*context, minus_alpha, V.read(), dv, R.view(), Z.view(), running.data(),
                               ss.data());
        const auto found_s = R.fetch(), found_z = Z.fetch();
        multi_dot_pair<T>(*context, Tv.read(), R.read(), running.data(), xy.data(), xx.data());
        multi_bicgstab_update<T>(*context, alpha, P.read(), omega, diagonal ? Z.read() : R.read(), Tv.read(),
                                 R0.read(), X.view(), R.view(), running.data(), rr.data(), pnext.data());
        const auto found_r = R.fetch(), found_x = X.fetch();
        const auto next = pnext.fetch();
        multi_bicgstab_direction<T>(*context, R.read(), beta, omega, V.read(), dv, P.view(), Z.view(),
                                    running.data());
        const auto found_p = P.fetch(), last_z = Z.fetch();
        const auto found_ss = ss.fetch(), found_rr = rr.fetch(), found_xy = xy.fetch(), found_xx = xx.fetch();
        const auto expect_close = [&](T found, T expected, T size) {
          EXPECT_NEAR(found, expected, 8 * eps * size);
        };
        for (std::size_t j = 0; j < static_cast<std::size_t>(w); ++j) {
          if (static_cast<std::int64_t>(j) == dead) {
            EXPECT_EQ(found_r[j], r[j]);
            EXPECT_EQ(found_x[j], x[j]);
            EXPECT_EQ(found_p[j], p[j]);
            EXPECT_EQ(last_z[j], z[j]);
            for (const auto& numbers : {found_ss, found_rr, found_xy, found_xx, next})
              EXPECT_EQ(numbers[j], T(7));
            continue;
          }
          const T a = r0v[j] != 0 ? rho[j] / r0v[j] : T(0), o = tt[j] > 0 ? ts[j] / tt[j] : T(0);
          const T b = tt[j] != 0 ? ts[j] / tt[j] : T(0);
          long double s2 = 0, ty = 0, ty_size = 0, t2 = 0, r2 = 0, r0r = 0, r0r_size = 0;
          for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
            const T si = found_s[j][i], zi = diagonal ? d[i] * si : si;
            expect_close(si, r[j][i] - a * v[j][i], std::abs(r[j][i]) + std::abs(a * v[j][i]));
            if (diagonal) expect_close(found_z[j][i], zi, std::abs(zi));
            s2 += static_cast<long double>(si) * si, t2 += static_cast<long double>(t[j][i]) * t[j][i];
            ty += static_cast<long double>(t[j][i]) * si;
            ty_size += std::fabs(static_cast<long double>(t[j][i]) * si);
            expect_close(found_x[j][i], x[j][i] + a * p[j][i] + o * zi,
                         std::abs(x[j][i]) + std::abs(a * p[j][i]) + std::abs(o * zi));
            const T ri = found_r[j][i];
            expect_close(ri, si - o * t[j][i], std::abs(si) + std::abs(o * t[j][i]));
            r2 += static_cast<long double>(ri) * ri, r0r += static_cast<long double>(r0[j][i]) * ri;
            r0r_size += std::fabs(static_cast<long double>(r0[j][i]) * ri);
            const T pi = found_p[j][i], last = p[j][i] - o * v[j][i];
            const T size = std::abs(p[j][i]) + std::abs(o * v[j][i]);
            expect_close(pi, ri + b * last, std::abs(ri) + std::abs(b) * size);
            if (diagonal) expect_close(last_z[j][i], d[i] * pi, std::abs(d[i] * pi));
          }
          EXPECT_TRUE(near<T>(found_ss[j], s2, s2, n));
          EXPECT_TRUE(near<T>(found_xy[j], ty, ty_size, n));
          EXPECT_TRUE(near<T>(found_xx[j], t2, t2, n));
          EXPECT_TRUE(near<T>(found_rr[j], r2, r2, n));
          EXPECT_TRUE(near<T>(next[j], r0r, r0r_size, n));
        }
        if (testing::Test::HasFailure()) return;
      }
}

TEST_P(MultiBlas1, StepsOfBiCgStabInDouble) { check_bicgstab<double>(context_); }

TEST_P(MultiBlas1, StepsOfBiCgStabInFloat) { check_bicgstab<float>(context_); }

// The operations of GMRES on groups of vectors with gaps between the groups: 0 groups to more than are taken at a time.
template <class T>
void check_groups(const ContextPtr& context) {
  const T inf = std::numeric_limits<T>::infinity(), eps = std::numeric_limits<T>::epsilon();
  for (const std::int64_t n : sizes)
    for (const std::int64_t w : widths)
      for (const std::int64_t groups : {0, 1, 3, 4, 9, 15}) {
        if (n > 1025 && groups > 4) continue;  // the long sums are slow
        SCOPED_TRACE(std::to_string(n) + " rows, " + std::to_string(w) + " vectors, " +
                     std::to_string(groups) + " groups");
        constexpr std::size_t dead = 1;
        const auto count = static_cast<std::size_t>(groups), rows = static_cast<std::size_t>(n),
                   columns = static_cast<std::size_t>(w);
        const std::size_t stride = rows * columns + 5;
        std::vector<T> v(stride * std::max<std::size_t>(count, 1), inf);
        std::vector<Columns<T>> groups_of;
        for (std::size_t g = 0; g < count; ++g) {
          groups_of.push_back(sample_columns<T>(n, w, 10 + static_cast<unsigned>(g)));
          for (std::size_t i = 0; i < rows; ++i)
            for (std::size_t j = 0; j < columns; ++j)
              v[g * stride + i * columns + j] = j == dead && i == 0 ? inf : groups_of[g][j][i];
        }
        const auto x = sample_columns<T>(n, w, 1);
        std::vector<T> h(count * columns);
        for (std::size_t at = 0; at < h.size(); ++at)
          h[at] = at % columns == dead ? inf : static_cast<T>(1 + at % 5) / 4;
        Placed<T> pv(context, v), ph(context, h), running(context, all_but<T>(w, dead)),
            dots(context, std::vector<T>(h.size(), T(7))), squares(context, std::vector<T>(columns, T(7)));
        PlacedColumns<T> X(context, x, n, interleaved), same(context, x, n, interleaved);
        const MultiVectorBlock<const T> V{pv.data(),      n, w, static_cast<std::int64_t>(stride), groups,
                                          pv.view().space};
        multi_block_dot<T>(*context, V, X.read(), running.data(), dots.data());
        multi_block_axpy<T>(*context, -2, V, ph.data(), X.view(), running.data(), squares.data());
        multi_block_axpy<T>(*context, -2, V, ph.data(), same.view(), running.data());
        const auto found = X.fetch();
        EXPECT_EQ(same.fetch(), found) << "with and without its squares";
        const auto found_dots = dots.fetch(), found_squares = squares.fetch();
        for (std::size_t j = 0; j < columns; ++j) {
          if (j == dead) {
            EXPECT_EQ(found[j], x[j]);
            EXPECT_EQ(found_squares[j], T(7));
            for (std::size_t g = 0; g < count; ++g) EXPECT_EQ(found_dots[g * columns + j], T(7));
            continue;
          }
          for (std::size_t g = 0; g < count; ++g) {
            long double dot = 0, size = 0;
            for (std::size_t i = 0; i < rows; ++i) {
              const long double product = static_cast<long double>(groups_of[g][j][i]) * x[j][i];
              dot += product, size += std::fabs(product);
            }
            EXPECT_TRUE(near<T>(found_dots[g * columns + j], dot, size, n)) << "group " << g;
          }
          long double square = 0;
          for (std::size_t i = 0; i < rows; ++i) {
            long double expected = x[j][i], size = std::fabs(expected);
            for (std::size_t g = 0; g < count; ++g) {
              const long double term = -2.0L * h[g * columns + j] * groups_of[g][j][i];
              expected += term, size += std::fabs(term);
            }
            EXPECT_LE(std::fabs(found[j][i] - expected),
                      static_cast<long double>(2 * (groups + 4)) * eps * size);
            square += static_cast<long double>(found[j][i]) * found[j][i];
          }
          EXPECT_TRUE(near<T>(found_squares[j], square, square, n));
        }
        if (testing::Test::HasFailure()) return;
      }
}

TEST_P(MultiBlas1, GroupsInDouble) { check_groups<double>(context_); }

TEST_P(MultiBlas1, GroupsInFloat) { check_groups<float>(context_); }

INSTANTIATE_TEST_SUITE_P(All, MultiBlas1, testing::Values(Space::host, Space::device),
                         [](const auto& instance) { return std::string(to_string(instance.param)); });

}  // namespace
}  // namespace protean::test
