#include "core/generate/generate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/identical.hpp"
#include "core/io/matrix_market.hpp"
#include "core/io/pbin.hpp"
#include "core/statistics.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/folder.hpp"
#include "support/text.hpp"

namespace protean::test {
namespace {

double at(const CsrMatrix<double>& a, std::int64_t r, std::int64_t c) {
  const auto row = a.pattern.row(r);
  const auto found = std::lower_bound(row.begin(), row.end(), static_cast<std::int32_t>(c));
  return found != row.end() && *found == c ? a.values[a.pattern.row_ptr[r] + (found - row.begin())] : 0.0;
}

// Dense Cholesky factorisation without pivoting. It succeeds exactly for positive definite matrices.
bool positive_definite(const CsrMatrix<double>& a) {
  const auto n = static_cast<std::size_t>(a.rows());
  std::vector<double> l(n * n);
  for (std::size_t r = 0; r < n; ++r)
    for (std::size_t c = 0; c <= r; ++c) {
      double sum = at(a, static_cast<std::int64_t>(r), static_cast<std::int64_t>(c));
      for (std::size_t k = 0; k < c; ++k) sum -= l[r * n + k] * l[c * n + k];
      if (r == c && !(sum > 0)) return false;
      l[r * n + c] = r == c ? std::sqrt(sum) : sum / l[c * n + c];
    }
  return true;
}

GeneratorParams small(std::string_view kind) {
  if (kind == "elasticity-3d") return {{"n", 5}};
  if (kind == "taylor-hood-2d") return {{"n", 6}};
  if (kind == "taylor-hood-3d" || kind == "pressure-mass-3d") return {{"n", 3}};
  if (kind == "poisson-3d" || kind == "anisotropic-3d" || kind == "convection-diffusion-3d")
    return {{"n", 6}};
  if (kind.ends_with("-2d")) return {{"n", 15}};
  return {{"n", 200}};
}

class Generator : public testing::TestWithParam<const GeneratorEntry*> {};

TEST_P(Generator, GivesAValidMatrixThatDoesNotDependOnThreads) {
  const auto params = small(GetParam()->kind);
  const auto a = generate(test_context(), GetParam()->kind, params);
  EXPECT_NO_THROW(validate_sorted(*test_context(), a.pattern));
  for (int threads : {1, 3, 7})
    EXPECT_TRUE(identical(a, generate(Context::host(threads), GetParam()->kind, params))) << threads;
}

TEST_P(Generator, DoesNotDependOnThreadsWhenLarge) {
  GeneratorParams params = small(GetParam()->kind);
  for (auto& [name, value] : params) value = value < 20 ? 4 * value : 50 * value;
  if (GetParam()->kind == "elasticity-3d") params["n"] = 12;
  if (GetParam()->kind == "taylor-hood-3d") params["n"] = 6;
  EXPECT_TRUE(identical(generate(Context::host(1), GetParam()->kind, params),
                        generate(Context::host(5), GetParam()->kind, params)));
}

TEST_P(Generator, IsSymmetricPositiveDefiniteWhereItSaysSo) {
  const auto a = generate(test_context(), GetParam()->kind, small(GetParam()->kind));
  const bool symmetric = identical(a, transpose(test_context(), a));
  EXPECT_EQ(symmetric && positive_definite(a), GetParam()->symmetric_positive_definite);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Generator, testing::ValuesIn([] {
                           std::vector<const GeneratorEntry*> list;
                           for (const GeneratorEntry& entry : generators()) list.push_back(&entry);
                           return list;
                         }()),
                         [](const auto& tested) {
                           std::string name(tested.param->kind);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Generate, PoissonHasItsStencil) {
  const auto a = generate(test_context(), "poisson-2d", {{"nx", 3}, {"ny", 4}});
  EXPECT_EQ(a.rows(), 12);
  EXPECT_EQ(a.nonzeros(), 5 * 12 - 2 * 3 - 2 * 4);
  EXPECT_EQ(at(a, 4, 4), 4);
  EXPECT_EQ(at(a, 4, 3), -1);
  EXPECT_EQ(at(a, 4, 7), -1);
  EXPECT_EQ(at(a, 2, 3), 0);  // the end of a grid line has no neighbour in the next
  const auto b = generate(test_context(), "poisson-3d", {{"nx", 3}, {"ny", 4}, {"nz", 5}, {"points", 27}});
  EXPECT_EQ(b.rows(), 60);
  EXPECT_EQ(b.nonzeros(), 7 * 10 * 13);
  EXPECT_EQ(at(b, 16, 16), 26);
  EXPECT_EQ(at(b, 16, 16 + 12 + 3 + 1), -1);
}

TEST(Generate, PoissonHasItsEigenvalues) {
  // The eigenvector sin(pi i / (n + 1)) products of the 7-point matrix.
  const int n = 7;
  const auto a = generate(test_context(), "poisson-3d", {{"n", n}});
  const double t = std::acos(-1.0) / (n + 1), lambda = 6 - 6 * std::cos(t);
  const auto v = [&](std::int64_t row) {
    return std::sin(t * static_cast<double>(row % n + 1)) *
           std::sin(t * static_cast<double>(row / n % n + 1)) *
           std::sin(t * static_cast<double>(row / (n * n) + 1));
  };
  for (std::int64_t r = 0; r < a.rows(); ++r) {
    double sum = 0;
    for (std::int64_t k = a.pattern.row_ptr[r]; k < a.pattern.row_ptr[r + 1]; ++k)
      sum += a.values[k] * v(a.pattern.col[k]);
    EXPECT_NEAR(sum, lambda * v(r), 1e-13);
  }
}

TEST(Generate, ConvectionDiffusionHasTheSurveysSizes) {
  // Table 3 of Filippone et al., ACM TOMS 43(4), 2017.
  const auto a = generate(test_context(), "convection-diffusion-3d", {{"n", 60}});
  EXPECT_EQ(a.rows(), 216000);
  EXPECT_EQ(a.nonzeros(), 1490400);
  EXPECT_EQ(generate(test_context(), "convection-diffusion-3d", {{"n", 80}}).nonzeros(), 3545600);
  const auto b =
      generate(test_context(), "convection-diffusion-3d",
               {{"n", 3}, {"a1", 1}, {"a2", 2}, {"a3", 3}, {"b1", 1}, {"b2", 0}, {"b3", -2}, {"c", 5}});
  EXPECT_DOUBLE_EQ(at(b, 13, 13), 2 * 6 * 16 + 5);  // h = 1/4
  EXPECT_DOUBLE_EQ(at(b, 13, 12), -16 - 2);
  EXPECT_DOUBLE_EQ(at(b, 13, 14), -16 + 2);
  EXPECT_DOUBLE_EQ(at(b, 13, 10), -32);
  EXPECT_DOUBLE_EQ(at(b, 13, 4), -48 + 4);
  EXPECT_DOUBLE_EQ(at(b, 13, 22), -48 - 4);
}

TEST(Generate, AnisotropyFollowsTheAxes) {
  const auto a = generate(test_context(), "anisotropic-3d",
                          {{"n", 3}, {"epsilon_x", 1}, {"epsilon_y", 2}, {"epsilon_z", 4}});
  EXPECT_EQ(at(a, 13, 13), 14);
  EXPECT_EQ(at(a, 13, 14), -1);
  EXPECT_EQ(at(a, 13, 10), -2);
  EXPECT_EQ(at(a, 13, 22), -4);
}

TEST(Generate, ElasticityIsInEquilibriumUnderLinearDisplacements) {
  // Away from the clamped face, every displacement that is linear in x, y, z has constant stress, so inner
  // nodes feel no force; rigid motions give no force at free boundary nodes either.
  const int n = 5;
  const auto a = generate(test_context(), "elasticity-3d", {{"n", n}, {"young", 7}, {"poisson", 0.25}});
  EXPECT_EQ(a.rows(), 3 * n * (n + 1) * (n + 1));
  EXPECT_EQ(a.nonzeros(), 9 * (3 * n - 2) * (3 * n + 1) * (3 * n + 1));
  const double field[3][4] = {{0.3, 1, -2, 0.5}, {-1, 0.7, 1.1, 2}, {0.2, -0.4, 0.9, -1.3}};
  const double rotation[3][4] = {{1, 0, -2, 3}, {2, 2, 0, -1}, {3, -3, 1, 0}};
  const auto force = [&](const double(&u)[3][4], std::int64_t row) {
    double sum = 0;
    for (std::int64_t k = a.pattern.row_ptr[row]; k < a.pattern.row_ptr[row + 1]; ++k) {
      const std::int64_t node = a.pattern.col[k] / 3, c = a.pattern.col[k] % 3;
      const double x = node % n + 1, y = node / n % (n + 1), z = node / (n * (n + 1));
      sum += a.values[k] * (u[c][0] + u[c][1] * x + u[c][2] * y + u[c][3] * z);
    }
    return sum;
  };
  int inner = 0, free_nodes = 0;
  for (std::int64_t row = 0; row < a.rows(); ++row) {
    const std::int64_t node = row / 3, x = node % n + 1, y = node / n % (n + 1), z = node / (n * (n + 1));
    if (x < 2) continue;  // its neighbours on the clamped face are missing
    ++free_nodes;
    EXPECT_NEAR(force(rotation, row), 0, 1e-11) << row;
    if (x == n || y == 0 || y == n || z == 0 || z == n) continue;
    ++inner;
    EXPECT_NEAR(force(field, row), 0, 1e-11) << row;
  }
  EXPECT_EQ(inner, 3 * (n - 2) * (n - 1) * (n - 1));
  EXPECT_GT(free_nodes, inner);
  EXPECT_NE(force(field, a.rows() - 1), 0.0);  // at the free corner a strained cube does pull
}

TEST(Generate, ElasticityStiffnessGrowsWithEveryStrain) {
  // Constant strain e gives the energy E e^2 of Hooke's law, here by components: u' A u over the free nodes
  // of displacements that vanish on the clamped face, for which the energy is exact.
  const int n = 6;
  const double young = 3, ratio = 0.25, lambda = young * ratio / ((1 + ratio) * (1 - 2 * ratio)),
               mu = young / (2 * (1 + ratio));
  const auto a = generate(test_context(), "elasticity-3d", {{"n", n}, {"young", young}, {"poisson", ratio}});
  for (int component = 0; component < 3; ++component) {
    double energy = 0;
    for (std::int64_t row = component; row < a.rows(); row += 3)
      for (std::int64_t k = a.pattern.row_ptr[row]; k < a.pattern.row_ptr[row + 1]; ++k)
        if (a.pattern.col[k] % 3 == component)
          energy += a.values[k] * static_cast<double>(row / 3 % n + 1) / n *
                    static_cast<double>(a.pattern.col[k] / 3 % n + 1) / n;
    EXPECT_NEAR(energy, component == 0 ? lambda + 2 * mu : mu, 1e-12);  // u_component = x
  }
}

TEST(Generate, ElasticityHasTheStiffnessOfABar) {
  // Poisson's ratio 0: u_x = x needs a force on the end face of E times its area and no other.
  const int n = 4;
  const auto a = generate(test_context(), "elasticity-3d", {{"n", n}, {"young", 10}, {"poisson", 0}});
  double total = 0;
  for (std::int64_t row = 0; row < a.rows(); ++row) {
    double sum = 0;
    for (std::int64_t k = a.pattern.row_ptr[row]; k < a.pattern.row_ptr[row + 1]; ++k)
      if (a.pattern.col[k] % 3 == 0)
        sum += a.values[k] * static_cast<double>(a.pattern.col[k] / 3 % n + 1) / n;
    if (row / 3 % n + 1 == n && row % 3 == 0)
      total += sum;
    else
      EXPECT_NEAR(sum, 0, 1e-12);
  }
  EXPECT_NEAR(total, 10, 1e-11);
}

TEST(Generate, LaplacianRowsSumToTheShift) {
  const auto a = generate(test_context(), "graph-laplacian", {{"n", 5000}, {"shift", 0.25}});
  std::int64_t longest = 0;
  for (std::int64_t r = 0; r < a.rows(); ++r) {
    double sum = 0;
    for (std::int64_t k = a.pattern.row_ptr[r]; k < a.pattern.row_ptr[r + 1]; ++k) sum += a.values[k];
    EXPECT_EQ(sum, 0.25) << r;
    longest = std::max(longest, a.pattern.row_length(r));
  }
  EXPECT_GT(longest, 100);  // hubs: the mean is 8
  const auto b = generate(test_context(), "graph-laplacian", {{"n", 5000}, {"seed", 2}});
  EXPECT_FALSE(same_pattern(a.pattern, b.pattern));
}

std::string bytes_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Passes the rows on to several receivers.
class Tee final : public RowReceiver {
 public:
  explicit Tee(std::vector<RowReceiver*> all) : all_(std::move(all)) {}
  void begin(std::int64_t rows, std::int64_t cols, std::int64_t nonzeros) override {
    for (RowReceiver* one : all_) one->begin(rows, cols, nonzeros);
  }
  void take(const RowStretch& stretch) override {
    ++stretches;
    for (RowReceiver* one : all_) one->take(stretch);
  }
  int stretches = 0;

 private:
  std::vector<RowReceiver*> all_;
};

TEST(Generate, RowsInStretchesAreTheSameMatrixBitForBit) {
  const Folder folder;
  std::map<std::string, GeneratorParams, std::less<>> cases;
  for (const GeneratorEntry& entry : generators())
    cases[std::string(entry.kind)]["n"] = entry.kind.ends_with("2d")   ? 60
                                          : entry.kind.ends_with("3d") ? 12
                                                                       : 3000;
  // Long rows.
  cases["taylor-hood-2d"]["n"] = cases["taylor-hood-3d"]["n"] = 5;
  cases["artificial"].insert({{"cols", 5000.0}, {"skew", 30.0}, {"deviation", 3.0}});
  for (const auto& [kind, params] : cases)
    for (const int threads : {1, 2}) {
      SCOPED_TRACE(kind);
      const ContextPtr context = Context::host(threads);
      const CsrMatrix<double> whole = generate(context, kind, params);
      write_pbin(*context, folder / "whole.pbin", whole);
      write_matrix_market(*context, folder / "whole.mtx", whole, "a comment");
      PbinWriter pbin(context, folder / "rows.pbin");
      MatrixMarketWriter text(context, folder / "rows.mtx", "a comment");
      StreamedFeatures features(context);
      Tee tee({&pbin, &text, &features});
      generate_rows(context, kind, params, tee, 1500);
      pbin.commit(), text.commit();
      EXPECT_GE(tee.stretches, 4);
      EXPECT_TRUE(bytes_of(folder / "rows.pbin") == bytes_of(folder / "whole.pbin"));
      EXPECT_TRUE(bytes_of(folder / "rows.mtx") == bytes_of(folder / "whole.mtx"));
      EXPECT_TRUE(identical(read_pbin(context, folder / "rows.pbin"), whole));
      EXPECT_TRUE(identical(read_matrix_market(context, folder / "rows.mtx"), whole));
      const Statistics expected = statistics(*context, whole.pattern);
      EXPECT_DOUBLE_EQ(features.mean(), expected.mean);
      EXPECT_NEAR(features.deviation(), expected.deviation, 1e-9 * (1 + expected.deviation));
      EXPECT_DOUBLE_EQ(features.features().skew, expected.features.skew);
      EXPECT_NEAR(features.features().cross_row_similarity, expected.features.cross_row_similarity, 1e-12);
      EXPECT_DOUBLE_EQ(features.features().neighbours, expected.features.neighbours);
      EXPECT_DOUBLE_EQ(features.features().memory_footprint_mib, expected.features.memory_footprint_mib);
    }
}

// Measures the memory in use while rows are received.
class MemoryWatch final : public RowReceiver {
 public:
  void begin(std::int64_t, std::int64_t, std::int64_t) override {}
  void take(const RowStretch& stretch) override {
    entries = std::max(entries, stretch.entries());
    bytes = std::max(bytes, allocated_bytes());
  }
  std::int64_t entries = 0;
  std::size_t bytes = 0;
};

TEST(Generate, AStretchIsAllThatIsInMemory) {
  const std::size_t before = allocated_bytes();
  MemoryWatch watch;
  generate_rows(Context::host(2), "banded", {{"n", 400000}, {"lower", 8}, {"upper", 8}}, watch, 100000);
  EXPECT_LE(watch.entries, 100000);
  EXPECT_GE(watch.entries, 90000);
  EXPECT_LE(watch.bytes - before, 2u * 100000 * 12);
}

TEST(Generate, CompressedTextIsTheSameForAnyNumberOfThreads) {
  const Folder folder;
  const GeneratorParams params{{"n", 30000}, {"seed", 3}};
  for (const int threads : {1, 3}) {
    const ContextPtr context = Context::host(threads);
    MatrixMarketWriter writer(context, folder / fmt::format("{}.mtx.xz", threads));
    generate_rows(context, "artificial", params, writer, 50000);
    writer.commit();
  }
  EXPECT_TRUE(bytes_of(folder / "1.mtx.xz") == bytes_of(folder / "3.mtx.xz"));
  EXPECT_TRUE(identical(read_matrix_market(test_context(), folder / "3.mtx.xz"),
                        generate(test_context(), "artificial", params)));
}

TEST(Generate, WritersRefuseRowsThatAreMissingOrTwice) {
  const Folder folder;
  const std::int32_t col[] = {0}, wide_ptr[] = {0, 1};
  const double value[] = {1};
  RowStretch one{0, 1, {}, col, value};
  one.row_ptr.p32 = wide_ptr;
  PbinWriter pbin(test_context(), folder / "a.pbin");
  MatrixMarketWriter text(test_context(), folder / "a.mtx");
  for (RowReceiver* writer : std::initializer_list<RowReceiver*>{&pbin, &text}) {
    writer->begin(2, 1, 2);
    writer->take(one);
    EXPECT_THROW(writer->take(one), BadArgument);
  }
  EXPECT_THROW(pbin.commit(), BadArgument);
  EXPECT_THROW(text.commit(), BadArgument);
  EXPECT_FALSE(std::filesystem::exists(folder / "a.pbin"));
  EXPECT_FALSE(std::filesystem::exists(folder / "a.mtx"));
}

TEST(Generate, SaysWhatIsWrong) {
  const auto message = [](std::string_view kind, const GeneratorParams& params) {
    return message_of<BadArgument>([&] { generate(test_context(), kind, params); });
  };
  EXPECT_NE(message("poison-3d", {}).find("'poisson-3d'"), std::string::npos);
  EXPECT_NE(message("poisson-3d", {{"pionts", 7}}).find("'points'"), std::string::npos);
  EXPECT_NE(message("poisson-3d", {{"n", 2.5}}).find("whole number"), std::string::npos);
  EXPECT_NE(message("poisson-3d", {{"n", 0}}).find("1 to 1290"), std::string::npos);
  EXPECT_NE(message("poisson-3d", {{"n", -3}}).find("n = -3"), std::string::npos);
  EXPECT_NE(message("poisson-3d", {{"n", std::nan("")}}).find("nan"), std::string::npos);
  EXPECT_NE(message("poisson-3d", {{"points", 9}}).find("27"), std::string::npos);
  EXPECT_NE(message("poisson-3d", {{"nx", 100000}, {"n", 1290}}).find("2147483647"), std::string::npos);
  EXPECT_NE(message("elasticity-3d", {{"poisson", 0.5}}).find("poisson = 0.5"), std::string::npos);
}

TEST(Generate, RefusesWhatDoesNotFitBeforeAllocating) {
  const std::size_t peak = peak_allocated_bytes();
  EXPECT_THROW(generate(test_context(), "banded", {{"n", 1e8}, {"lower", 1e9}, {"upper", 1e9}}), OutOfMemory);
  EXPECT_EQ(peak_allocated_bytes(), peak);
}

// The first node takes part in n^(-1/power) of the ends of edges, power = 1 / (1 - 1 / (exponent - 1)).
TEST(Generate, HubsOfAGraphAreAsLargeAsTheirPowerLawSays) {
  for (const double exponent : {2.5, 3.5}) {
    const double n = 5000, degree = 8, power = 1 / (1 - 1 / (exponent - 1));
    const auto a =
        generate(test_context(), "graph-laplacian", {{"n", n}, {"degree", degree}, {"exponent", exponent}});
    std::int64_t longest = 0;
    for (std::int64_t r = 0; r < a.rows(); ++r) longest = std::max(longest, a.pattern.row_length(r));
    const double ends = n * degree * std::pow(n, -1 / power);
    EXPECT_LT(static_cast<double>(longest), 1.1 * ends) << exponent;
    EXPECT_GT(static_cast<double>(longest), 0.4 * ends) << exponent << ": repeated edges count once";
  }
}

}  // namespace
}  // namespace protean::test
