// Our own methods over ranks, called as a library on 1 to 4 ranks: each method with each kind of preconditioner, each
// format, ranks without rows, and the same bits again.
#include <petscsys.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "apps/ranks/parts/link.hpp"
#include "apps/ranks/parts/rows.hpp"
#include "core/blas1.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"
#include "support/fake_device.hpp"
#include "systems/linear_system.hpp"
#include "systems/part_system.hpp"

namespace {

using namespace protean;
using namespace protean::apps::ranks;

int failed = 0, rank = 0, count = 1;

void expect(bool good, const std::string& what) {
  int mine = good ? 1 : 0, all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (all != 0) return;
  ++failed;
  if (rank == 0) std::printf("FAILED on %d ranks: %s\n", count, what.c_str());
}

std::vector<double> right_side(std::int64_t rows) {
  std::vector<double> b(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = std::sin(1.0 + static_cast<double>(i));
  return b;
}

double residual(const CsrMatrix<double>& csr, const std::vector<double>& b, const std::vector<double>& x) {
  double of_r = 0, of_b = 0;
  for (std::int64_t r = 0; r < csr.rows(); ++r) {
    double sum = b[static_cast<std::size_t>(r)];
    for (std::int64_t k = csr.pattern.row_ptr[r]; k < csr.pattern.row_ptr[r + 1]; ++k)
      sum -= csr.values[k] * x[static_cast<std::size_t>(csr.pattern.col[k])];
    of_r += sum * sum, of_b += b[static_cast<std::size_t>(r)] * b[static_cast<std::size_t>(r)];
  }
  return std::sqrt(of_r / of_b);
}

// The first row of each rank, and the number of rows.
using Ranges = std::vector<PetscInt>;
Ranges even(std::int64_t rows) {
  Ranges all;
  for (int p = 0; p <= count; ++p) all.push_back(static_cast<PetscInt>(rows * p / count));
  return all;
}
// Rank `without` has no rows.
Ranges without(std::int64_t rows, int without_rows) {
  Ranges all = even(rows);
  if (count == 1) return all;
  if (without_rows == count - 1)
    all[static_cast<std::size_t>(count) - 1] = static_cast<PetscInt>(rows);
  else
    all[static_cast<std::size_t>(without_rows) + 1] = all[static_cast<std::size_t>(without_rows)];
  return all;
}

struct Solved {
  SolveReport report;
  std::vector<double> x;  // of all rows
};

// The system of this rank.
struct Own {
  Own(const CsrMatrix<double>& csr, const Ranges& ranges, const SolveSettings& settings) : ranges_(ranges) {
    const auto first = ranges[static_cast<std::size_t>(rank)],
               end = ranges[static_cast<std::size_t>(rank) + 1];
    RowArrays rows;
    std::vector<PetscInt> numbers;
    for (PetscInt r = first; r < end; ++r) {
      const std::int64_t begin = csr.pattern.row_ptr[r], stop = csr.pattern.row_ptr[r + 1];
      rows.col.insert(rows.col.end(), csr.pattern.col + begin, csr.pattern.col + stop);
      rows.values.insert(rows.values.end(), csr.values + begin, csr.values + stop);
      rows.row_ptr.push_back(static_cast<std::int64_t>(rows.col.size()));
      numbers.push_back(r);
    }
    link = std::make_unique<RankLink>(MPI_COMM_WORLD, numbers);
    blocks = blocks_of(ranks, *link, host, rows, ranges);
    part = std::make_unique<detail::PartSystem<double>>(
        host, blocks->halo, blocks->interior, blocks->boundary,
        std::make_unique<RankExchange>(link->comm(), blocks->halo),
        [this](const detail::PartHalo& of_level) {
          return std::make_unique<RankExchange>(link->comm(), of_level);
        },
        settings);
    const detail::JoinedWork joined(*host, *link);
    part->set_up(settings.method.name(), settings);
  }
  Solved solve(const std::vector<double>& b, SolveObserver* observer = nullptr) {
    const detail::JoinedWork joined(*host, *link);
    const auto first = static_cast<std::size_t>(ranges_[static_cast<std::size_t>(rank)]),
               end = static_cast<std::size_t>(ranges_[static_cast<std::size_t>(rank) + 1]);
    std::vector<double> x(end - first, 0.0);
    Solved result;
    result.report = part->solve({b.data() + first, x.size()}, x, observer);
    std::vector<int> sizes, begins;
    for (int p = 0; p < count; ++p)
      begins.push_back(ranges_[static_cast<std::size_t>(p)]),
          sizes.push_back(ranges_[static_cast<std::size_t>(p) + 1] - begins.back());
    result.x.resize(b.size());
    MPI_Allgatherv(x.data(), static_cast<int>(x.size()), MPI_DOUBLE, result.x.data(), sizes.data(),
                   begins.data(), MPI_DOUBLE, MPI_COMM_WORLD);
    return result;
  }

  const Ranks ranks{MPI_COMM_WORLD};
  const ContextPtr host = Context::host(1);
  const Ranges ranges_;
  std::unique_ptr<RankLink> link;
  std::unique_ptr<RankBlocks> blocks;
  std::unique_ptr<detail::PartSystem<double>> part;
};

SolveSettings settings_of(std::string_view method, std::string_view M) {
  SolveSettings settings;
  settings.method = std::string(method), settings.preconditioner = std::string(M);
  settings.format = "csr", settings.policy = "none";
  settings.solver.stopping.relative_tolerance = 1e-9;
  return settings;
}

Solved alone(const CsrMatrix<double>& csr, const SolveSettings& settings, const std::vector<double>& b) {
  Solved one{{}, std::vector<double>(b.size(), 0.0)};
  one.report = LinearSystem<double>(csr, settings).solve(b, one.x).report;
  return one;
}

bool same_on_all(const std::vector<double>& x) {
  std::vector<double> first = x;
  MPI_Bcast(first.data(), static_cast<int>(first.size()), MPI_DOUBLE, 0, MPI_COMM_WORLD);
  return std::memcmp(first.data(), x.data(), x.size() * sizeof(double)) == 0;
}

void each_method() {
  const ContextPtr host = Context::host(1);
  const CsrMatrix<double> symmetric = generate(host, "poisson-2d", {{"n", 12}}),
                          any = generate(host, "convection-diffusion-3d", {{"n", 5}});
  for (const SolverEntry& method : solvers()) {
    const CsrMatrix<double>& csr = method.symmetric ? symmetric : any;
    const std::vector<double> b = right_side(csr.rows());
    for (const std::string M :
         {"none", "jacobi", "block-jacobi", "chebyshev", "ic0", "ilu0", "ssor", "amg"}) {
      if ((M == "ilu0" && method.symmetric) || ((M == "ic0" || M == "chebyshev") && !method.symmetric))
        continue;
      const SolveSettings settings = settings_of(method.id, M);
      const Solved one = alone(csr, settings, b);
      for (const Ranges& ranges :
           {even(csr.rows()), without(csr.rows(), 0), without(csr.rows(), count - 1)}) {
        const std::string what =
            std::string(method.id) + " " + M + ", rank 0 has " + std::to_string(ranges[1]);
        Own own(csr, ranges, settings);
        const Solved found = own.solve(b);
        const double truth = residual(csr, b, found.x);
        expect(found.report.converged() && truth <= 1.01e-9 &&
                   std::fabs(found.report.true_relative - truth) < 1e-11,
               what + ": " + std::string(to_string(found.report.reason)) + ", residual " +
                   std::to_string(truth));
        if (M == "none" || M == "jacobi" || M == "chebyshev") {
          const auto slack = std::max<std::int64_t>(4, one.report.iterations / 4);
          expect(std::llabs(found.report.iterations - one.report.iterations) <= slack,
                 what + ": " + std::to_string(found.report.iterations) + " iterations, alone " +
                     std::to_string(one.report.iterations));
        }
        expect(same_on_all(found.x), what + ": ranks have other bits");
        // The same object, and a new one.
        expect(own.solve(b).x == found.x, what + ": other bits in the second solve");
        expect(Own(csr, ranges, settings).solve(b).x == found.x, what + ": other bits in another system");
      }
    }
  }
}

void each_format() {
  const CsrMatrix<double> csr = generate(Context::host(1), "poisson-2d", {{"n", 12}});
  const std::vector<double> b = right_side(csr.rows());
  int tried = 0;
  for (const FormatEntry* const entry : catalogue()) {
    if (kernels_in(*entry, Space::host).empty() || entry->id == "split" || entry->id == "sum") continue;
    for (const Ranges& ranges : {even(csr.rows()), without(csr.rows(), 0)}) {
      SolveSettings settings = settings_of("cg", "jacobi");
      settings.format = std::string(entry->id), settings.parameters = test::most_tolerant(*entry);
      std::string why;
      try {
        Own own(csr, ranges, settings);
        const Solved found = own.solve(b);
        const double truth = residual(csr, b, found.x);
        if (!found.report.converged() || truth > 1.01e-9)
          why = std::string(to_string(found.report.reason)) + ", residual " + std::to_string(truth);
        if (own.part->A().interior().name() != entry->id) why = "it has another format";
      } catch (const NotAvailable&) {
        continue;  // a library that this build does not have, on all ranks alike
      } catch (const Error& error) { why = error.what(); }
      expect(why.empty(), std::string(entry->id) + ": " + why);
      ++tried;
    }
  }
  expect(tried > 100, "only " + std::to_string(tried) + " solves in all formats");
}

// A product with each rank's own rows, where rows of a rank need many other ranks, and a rank that needs nobody.
void products() {
  const std::int64_t n = 10;
  std::vector<std::int32_t> row_ptr = {0}, col;
  std::vector<double> values;
  for (std::int32_t r = 0; r < n; ++r) {
    for (std::int32_t j = 0; j < n; ++j)
      if (r == 0 || j == r || (j == 0 && r < n - 2)) col.push_back(j), values.push_back(1 + r + 10 * j);
    row_ptr.push_back(static_cast<std::int32_t>(col.size()));
  }
  const CsrMatrix<double> csr = csr_view(n, n, row_ptr, col, values);
  Own own(csr, even(n), settings_of("gmres", "none"));
  const auto first = static_cast<std::size_t>(own.ranges_[static_cast<std::size_t>(rank)]);
  const std::vector<double> x = right_side(n);
  std::vector<double> y(static_cast<std::size_t>(own.part->A().rows()), 3.0);
  const auto rows = static_cast<std::int64_t>(y.size());
  for (int repeat = 0; repeat < 3; ++repeat)
    own.part->A().apply(2.0, VectorView<const double>{x.data() + first, rows}, repeat == 0 ? 0.0 : 1.0,
                        VectorView<double>{y.data(), rows});
  bool good = true;
  for (std::size_t i = 0; i < y.size(); ++i) {
    double sum = 0;
    const auto r = static_cast<std::int64_t>(first + i);
    for (std::int64_t k = csr.pattern.row_ptr[r]; k < csr.pattern.row_ptr[r + 1]; ++k)
      sum += csr.values[k] * x[static_cast<std::size_t>(csr.pattern.col[k])];
    good = good && std::fabs(y[i] - 6 * sum) < 1e-12 * (1 + std::fabs(sum));
  }
  expect(good, "a product three times");
}

// Only rank 0 asks for the end, and all end at the same iteration. Sums have the order of the ranks.
void observers_and_sums() {
  const CsrMatrix<double> csr = generate(Context::host(1), "poisson-2d", {{"n", 20}});
  const std::vector<double> b = right_side(csr.rows());
  Own own(csr, even(csr.rows()), settings_of("cg", "none"));
  double value = rank == 0 ? 1e16 : 1.0;
  own.link->sum(*own.host, &value, 1);
  double expected = 1e16;
  for (int p = 1; p < count; ++p) expected += 1.0;
  expect(value == expected, "a sum in the order of the ranks");
  value = rank == count - 1 ? std::nan("") : 1.0;
  own.link->largest(*own.host, &value);
  expect(std::isnan(value), "the largest of numbers and a NaN");
  float narrow[2] = {static_cast<float>(rank), 1.0f};
  own.link->sum(*own.host, narrow, 2);
  expect(narrow[0] == static_cast<float>(count * (count - 1) / 2) && narrow[1] == static_cast<float>(count),
         "two sums in float");
  {
    const detail::JoinedWork joined(*own.host, *own.link);
    const ContextPtr other = Context::host(1);
    std::vector<double> ones(3, 1.0);
    double sum = 0;
    const VectorView<const double> v{ones.data(), 3};
    dot<double>(*own.host, v, v, &sum);
    expect(sum == 3.0 * count, "a dot in the context of the part");
    dot<double>(*other, v, v, &sum);
    expect(sum == 3.0, "a dot in another context");
    const detail::LocalWork local;
    dot<double>(*own.host, v, v, &sum);
    expect(sum == 3.0, "a dot of local work");
  }
  double sum = 0;
  std::vector<double> ones(3, 1.0);
  dot<double>(*own.host, VectorView<const double>{ones.data(), 3}, VectorView<const double>{ones.data(), 3},
              &sum);
  expect(sum == 3.0, "a dot after the joined work");
}

}  // namespace

int main() {
  if (PetscInitializeNoArguments()) return 3;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &count);
  int code = 3;
  try {
    products(), observers_and_sums(), each_method(), each_format();
    code = failed == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  if (rank == 0) std::printf("%d failed\n", failed);
  return PetscFinalize() && code == 0 ? 3 : code;
}
