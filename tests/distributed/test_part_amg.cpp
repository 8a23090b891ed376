// Smoothed aggregation over the parts of a system.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/allocation_hook.hpp"
#include "core/blas1.hpp"
#include "core/communicator.hpp"
#include "core/generate/generate.hpp"
#include "core/partition.hpp"
#include "core/simulated_device.hpp"
#include "distributed/multigrid/part_amg.hpp"
#include "distributed/multigrid/part_levels.hpp"
#include "distributed/simulated_parts.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "solvers/solver.hpp"
#include "support/battery.hpp"
#include "support/fake_device.hpp"
#include "support/multi.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"
#include "support/text.hpp"
#include "systems/linear_system.hpp"

namespace protean::test {
namespace {

using detail::PartHalo;
using detail::Partition;
using detail::SimulatedParts;

std::vector<std::int32_t> slabs(std::int64_t rows, int parts) {
  std::vector<std::int32_t> of(static_cast<std::size_t>(rows));
  for (std::int64_t i = 0; i < rows; ++i)
    of[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i * parts / rows);
  return of;
}
std::vector<std::int32_t> scattered(std::int64_t rows, int parts) {
  std::mt19937 random(3);
  std::vector<std::int32_t> of(static_cast<std::size_t>(rows));
  for (std::int32_t& one : of) one = static_cast<std::int32_t>(random() % static_cast<unsigned>(parts));
  return of;
}

// A matrix over the parts of simulated devices, as PartSystem makes it.
struct System {
  System(CsrMatrix<double> matrix, std::vector<std::int32_t> part_of_row, int count)
      : csr(std::move(matrix)), partition(std::make_shared<Partition>(std::move(part_of_row), count)) {
    for (int p = 0; p < count; ++p) contexts.push_back(fake_device_context());
    links = std::make_unique<SimulatedParts>(contexts, partition);
    halos = detail::halos_of(csr.pattern, *partition);
    begins.push_back(0);
    for (int p = 0; p < count; ++p) begins.push_back(partition->begin(p + 1));
  }
  // of_part(part, context, blocks)
  template <class Work>
  void work(Work&& of_part) {
    links->begin();
    std::vector<std::jthread> threads;
    for (int p = 0; p < partition->parts(); ++p)
      threads.emplace_back([&, p] {
        try {
          const detail::PartBlocks<double> blocks(test_context(), csr, *partition, halo(p), p);
          of_part(p, contexts[static_cast<std::size_t>(p)], blocks);
        } catch (const std::exception& error) {
          links->abandon();
          ADD_FAILURE() << "part " << p << ": " << error.what();
        }
      });
  }
  const PartHalo& halo(int part) const { return halos[static_cast<std::size_t>(part)]; }
  detail::PartOperator<double> matrix(int p, const ContextPtr& context,
                                      const detail::PartBlocks<double>& blocks) {
    const auto made = [&](const CsrMatrix<double>& block) {
      return make_matrix(context->simulated()->format("csr"), upload(context, block), context);
    };
    return {context, made(blocks.interior()),
            halo(p).boundary_rows.empty() ? nullptr : made(blocks.boundary()), halo(p),
            links->exchange(p, halo(p), 0.0)};
  }
  std::unique_ptr<Preconditioner<double>> amg(int p, const detail::PartOperator<double>& A,
                                              const detail::PartBlocks<double>& blocks,
                                              const PreconditionerOptions& options, std::int64_t replicated) {
    return detail::make_part_amg<double>(
        A, options, Context::host(1),
        {halo(p), [&]() -> const CsrMatrix<double>& { return blocks.interior(); },
         [&]() -> const CsrMatrix<double>& { return blocks.boundary(); },
         [this, p](const PartHalo& of) { return links->exchange(p, of, 0.0); }},
        replicated);
  }
  std::vector<double> part_of(const std::vector<double>& whole, int part) const {
    std::vector<double> own;
    for (const std::int32_t r : partition->rows_of(part)) own.push_back(whole[static_cast<std::size_t>(r)]);
    return own;
  }

  CsrMatrix<double> csr;
  std::shared_ptr<const Partition> partition;
  std::vector<ContextPtr> contexts;
  std::unique_ptr<SimulatedParts> links;
  std::vector<PartHalo> halos;
  std::vector<std::int64_t> begins;
};

using Dense = std::vector<std::vector<double>>;
// Adds the rows of a part to a dense matrix.
void put(Dense& to, const detail::PartMatrix<double>& from, std::int64_t first_row,
         std::int64_t first_column) {
  const auto& [interior, boundary] = from.blocks;
  for (std::int64_t r = 0; r < interior.rows(); ++r)
    for (std::int64_t k = interior.pattern.row_ptr[r]; k < interior.pattern.row_ptr[r + 1]; ++k)
      to[detail::at(first_row + r)][detail::at(first_column + interior.pattern.col[k])] = interior.values[k];
  for (std::int64_t r = 0; r < boundary.rows(); ++r)
    for (std::int64_t k = boundary.pattern.row_ptr[r]; k < boundary.pattern.row_ptr[r + 1]; ++k)
      to[detail::at(first_row + from.halo->boundary_rows[detail::at(r)])]
        [detail::at(from.halo->ghosts[detail::at(boundary.pattern.col[k])])] = boundary.values[k];
}
Dense product(const Dense& A, const Dense& B) {
  Dense made(A.size(), std::vector<double>(B.empty() ? 0 : B[0].size(), 0));
  for (std::size_t i = 0; i < A.size(); ++i)
    for (std::size_t k = 0; k < B.size(); ++k)
      if (A[i][k] != 0)
        for (std::size_t j = 0; j < B[k].size(); ++j) made[i][j] += A[i][k] * B[k][j];
  return made;
}

// P, P^T and P^T A P of two levels against dense algebra, for parts that are neighbours in any way. With one part P is
// the one of a device alone.
TEST(PartLevels, AreGalerkinProducts) {
  struct Case {
    const char* generator;
    GeneratorParams values;
    std::int64_t unknowns;
    int parts;
    bool scatter;
  };
  for (const Case& one :
       {Case{"poisson-3d", {{"n", 7}}, 1, 3, false}, Case{"poisson-2d", {{"n", 16}}, 1, 4, true},
        Case{"convection-diffusion-3d", {{"n", 6}}, 1, 2, false},
        Case{"elasticity-3d", {{"n", 4}}, 3, 3, false}}) {
    SCOPED_TRACE(std::string(one.generator) + (one.scatter ? ", scattered" : ""));
    const CsrMatrix<double> csr = generate(test_context(), one.generator, one.values);
    std::vector<std::int32_t> of =
        one.scatter ? scattered(csr.rows(), one.parts) : slabs(csr.rows(), one.parts);
    for (std::size_t i = 0; i < of.size(); ++i) of[i] = of[i - i % static_cast<std::size_t>(one.unknowns)];
    System system(csr, of, one.parts);
    std::mutex mutex;
    std::vector<Dense> P(2), R(2), A(3);
    std::vector<std::int64_t> sizes(3, 0);
    system.work([&](int p, const ContextPtr& context, const detail::PartBlocks<double>& blocks) {
      detail::Communicator& all = *detail::communicator_of(*context);
      detail::Nodes nodes;
      for (std::int64_t i = one.unknowns; i <= system.partition->size(p); i += one.unknowns)
        nodes.first.push_back(static_cast<std::int32_t>(i));
      nodes.number_rows();
      nodes.vectors = one.unknowns;
      for (std::int64_t i = 0; i < nodes.rows(); ++i)
        for (std::int64_t k = 0; k < one.unknowns; ++k) nodes.values.push_back(i % one.unknowns == k ? 1 : 0);
      const PreconditionerOptions options;
      detail::PartLevels<double> levels(all, Context::host(1), options, system.begins,
                                        detail::rows_of_blocks(blocks.interior(), blocks.boundary(),
                                                               system.halo(p), system.begins[detail::at(p)]),
                                        system.halo(p), std::move(nodes));
      for (std::size_t l = 0; l < 2; ++l) {
        const std::int64_t fine = levels.all_rows(), first = levels.first_row();
        auto step = levels.coarsen(0.08);
        if (!step) {
          ADD_FAILURE() << "level " << l << " of " << fine << " rows is not coarsened";
          return;
        }
        const std::int64_t coarse = levels.all_rows(), coarse_first = levels.first_row();
        {
          const std::lock_guard lock(mutex);
          sizes[l] = fine, sizes[l + 1] = coarse;
          const auto sized = [](Dense& to, std::int64_t rows, std::int64_t cols) {
            to.resize(detail::at(rows), std::vector<double>(detail::at(cols), 0));
          };
          sized(P[l], fine, coarse), sized(R[l], coarse, fine), sized(A[l + 1], coarse, coarse);
          put(P[l], step->P, first, coarse_first), put(R[l], step->R, coarse_first, first);
          put(A[l + 1], step->A, coarse_first, coarse_first);
        }
        // Nobody goes on to the next level before all have been here.
        (void)all.gathered({});
      }
    });
    if (HasFailure()) return;
    A[0].resize(detail::at(csr.rows()), std::vector<double>(detail::at(csr.rows()), 0));
    for (std::int64_t r = 0; r < csr.rows(); ++r)
      for (std::int64_t k = csr.pattern.row_ptr[r]; k < csr.pattern.row_ptr[r + 1]; ++k)
        A[0][detail::at(system.partition->place(r))]
         [detail::at(system.partition->place(csr.pattern.col[k]))] = csr.values[k];
    for (std::size_t l = 0; l < 2; ++l) {
      double largest = 0, off = 0, transposed = 0;
      const Dense expected = product(product(R[l], A[l]), P[l]);
      for (std::size_t i = 0; i < expected.size(); ++i)
        for (std::size_t j = 0; j < expected.size(); ++j)
          largest = std::max(largest, std::abs(expected[i][j])),
          off = std::max(off, std::abs(expected[i][j] - A[l + 1][i][j]));
      for (std::size_t i = 0; i < P[l].size(); ++i)
        for (std::size_t j = 0; j < P[l][i].size(); ++j)
          transposed = std::max(transposed, std::abs(P[l][i][j] - R[l][j][i]));
      EXPECT_LE(off, 1e-13 * largest) << "level " << l;
      EXPECT_EQ(transposed, 0) << "level " << l;
      // Rows that meet neighbours' aggregates.
      std::int64_t across = 0;
      for (int p = 0; l == 0 && p < one.parts; ++p)
        for (std::int64_t i = system.begins[detail::at(p)]; i < system.begins[detail::at(p) + 1]; ++i)
          for (const double value : P[l][detail::at(i)]) across += value != 0;
      if (l == 0) { EXPECT_GT(across, sizes[0]) << "P is smoothed"; }
    }
  }
}

// M^-1 is a symmetric map and its cycles converge, with levels over the parts down to the smallest ones, and with one
// such level.
TEST(PartAmg, IsSymmetricWithAnyNumberOfReplicatedRows) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-3d", {{"n", 14}});
  const auto u = sample_vector<double>(csr.rows(), 1), v = sample_vector<double>(csr.rows(), 2);
  for (const Smoother smoother : {Smoother::l1_jacobi, Smoother::chebyshev})
    for (const bool scatter : {false, true})
      for (const std::int64_t replicated : {0, 5000}) {
        SCOPED_TRACE(testing::Message()
                     << to_string(smoother) << (scatter ? ", scattered, " : ", ") << replicated);
        System system(csr, scatter ? scattered(csr.rows(), 4) : slabs(csr.rows(), 4), 4);
        std::vector<double> forward(4), backward(4), size(4), iterations(4), levels(4);
        system.work([&](int p, const ContextPtr& context, const detail::PartBlocks<double>& blocks) {
          const auto A = system.matrix(p, context, blocks);
          PreconditionerOptions options;
          options.smoother = smoother;
          const auto M = system.amg(p, A, blocks, options, replicated);
          M->ensure(A);
          const Placed<double> pu(context, system.part_of(u, p)), pv(context, system.part_of(v, p));
          Vector<double> Mu(context, A.rows()), Mv(context, A.rows()), number(context, 1);
          M->apply(1, pu.read(), 0, Mu), M->apply(1, pv.read(), 0, Mv);
          const auto dot_of = [&](VectorView<const double> a, VectorView<const double> b) {
            double value = 0;
            dot<double>(*context, a, b, number.data());
            copy<double>(*context, VectorView<const double>(number), {&value, 1});
            return value;
          };
          const auto place = static_cast<std::size_t>(p);
          forward[place] = dot_of(Mu, pv.read()), backward[place] = dot_of(pu.read(), Mv);
          size[place] = dot_of(Mu, pu.read());
          SolverOptions of_cg;
          of_cg.stopping.relative_tolerance = 1e-9;
          Vector<double> x(context, A.rows());
          fill<double>(*context, 0, x);
          const SolveReport report = make_solver<double>("cg", of_cg)->solve(A, pu.read(), x, M.get());
          EXPECT_EQ(report.reason, StopReason::relative_tolerance);
          iterations[place] = static_cast<double>(report.iterations);
          for (const PreconditionerFigure& one : M->figures())
            if (one.name == "levels") levels[place] = one.value;
        });
        for (std::size_t p = 0; p < 4; ++p) {
          EXPECT_NEAR(forward[p], backward[p], 1e-12 * size[p]);
          EXPECT_GT(size[p], 0);
          EXPECT_EQ(iterations[p], iterations[0]);
          EXPECT_LE(iterations[p], scatter ? 40 : 16);
          EXPECT_GE(levels[p], 2);
        }
      }
}

SolveSettings settings_of(std::string_view method, int devices) {
  SolveSettings settings;
  settings.method = std::string(method), settings.preconditioner = "amg";
  settings.format = "csr", settings.policy = "none";
  settings.solver.stopping.relative_tolerance = 1e-8;
  for (int d = 0; d < devices; ++d) settings.distribution.contexts.push_back(fake_device_context());
  return settings;
}
struct Solved {
  SolveResult result;
  std::vector<double> x;
};
Solved solved(const CsrMatrix<double>& csr, const SolveSettings& settings) {
  const std::vector<double> b = sample_vector<double>(csr.rows(), 5);
  Solved one{{}, std::vector<double>(b.size(), 0.0)};
  one.result = LinearSystem<double>(csr, settings).solve(b, one.x);
  EXPECT_TRUE(one.result.converged()) << one.result.report.detail;
  EXPECT_LE(relative_residual_of<double>(csr, b, one.x), 1.01e-8);
  return one;
}

// More devices need few more iterations.
TEST(PartAmg, NeedsFewMoreIterationsOnMoreDevices) {
  struct Case {
    const char* generator;
    GeneratorParams values;
    const char* method;
    double most;  // times the iterations of one device
    PreconditionerOptions options;
  };
  PreconditionerOptions nodes, chebyshev;
  nodes.unknowns = 3, chebyshev.smoother = Smoother::chebyshev;
  for (const Case& one :
       {Case{"poisson-3d", {{"n", 30}}, "cg", 1.3, {}}, Case{"poisson-3d", {{"n", 30}}, "cg", 1.3, chebyshev},
        Case{"anisotropic-3d", {{"n", 30}}, "cg", 1.3, {}},
        Case{"convection-diffusion-3d", {{"n", 24}}, "bicgstab", 1.5, {}},
        Case{"elasticity-3d", {{"n", 10}}, "cg", 1.3, nodes}}) {
    const CsrMatrix<double> csr = generate(test_context(), one.generator, one.values);
    SolveSettings alone = settings_of(one.method, 0);
    alone.preconditioning = one.options;
    const auto iterations = static_cast<double>(solved(csr, alone).result.report.iterations);
    std::string all = std::to_string(static_cast<int>(iterations));
    for (const auto& [partition, count] :
         {std::pair("rows", 2), std::pair("rows", 4), std::pair("rows", 8), std::pair("graph", 8)}) {
      if (std::string(partition) == "graph" && !detail::no_metis().empty()) continue;
      SCOPED_TRACE(testing::Message() << one.generator << ", " << count << " devices, " << partition);
      SolveSettings settings = settings_of(one.method, count);
      settings.preconditioning = one.options, settings.distribution.partition = partition;
      const Solved several = solved(csr, settings);
      EXPECT_LE(static_cast<double>(several.result.report.iterations), one.most * iterations);
      all += " " + std::to_string(several.result.report.iterations);
    }
    RecordProperty(std::string(one.generator) + " " + std::string(to_string(one.options.smoother)), all);
  }
}

// Numbers of a solver that is kept, with new values, a null space, several cycles, a general method and float.
TEST(PartAmg, SolvesWhatOtherPreconditionersSolve) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", 24}});
  const std::vector<double> b = sample_vector<double>(csr.rows(), 5);
  SolveSettings settings = settings_of("cg", 3);
  LinearSystem<double> kept(csr, settings);
  std::vector<double> x(b.size(), 0.0);
  const SolveResult first = kept.solve(b, x);
  EXPECT_TRUE(first.converged());
  EXPECT_EQ(first.preconditioner, "amg");
  std::vector<double> values(csr.values, csr.values + csr.nonzeros());
  for (std::int64_t r = 0; r < csr.rows(); ++r)
    for (std::int64_t k = csr.pattern.row_ptr[r]; k < csr.pattern.row_ptr[r + 1]; ++k)
      if (csr.pattern.col[k] == r) values[static_cast<std::size_t>(k)] *= 1.5;
  kept.update_values(values);
  std::vector<double> again(b.size(), 0.0), fresh(b.size(), 0.0);
  EXPECT_TRUE(kept.solve(b, again).converged());
  CsrMatrix<double> other = csr;
  other.values = values.data();
  settings = settings_of("cg", 3);
  EXPECT_TRUE(LinearSystem<double>(other, settings).solve(b, fresh).converged());
  EXPECT_EQ(again, fresh) << "a setup for new values has the bits of a new one";
  EXPECT_NE(again, x);

  SolveSettings cycles = settings_of("cg", 3);
  cycles.preconditioning.cycles = 2;
  EXPECT_LT(solved(csr, cycles).result.report.iterations, first.report.iterations);
  SolveSettings two_levels = settings_of("cg", 3);
  two_levels.preconditioning.max_levels = 2;
  (void)solved(csr, two_levels);
  SolveSettings only_smoother = settings_of("cg", 3);
  only_smoother.preconditioning.max_levels = 1;
  EXPECT_GT(solved(csr, only_smoother).result.report.iterations, first.report.iterations);
  const CsrMatrix<double> unsymmetric = generate(test_context(), "convection-diffusion-3d", {{"n", 8}});
  (void)solved(unsymmetric, settings_of("gmres", 3));
  // Few rows: the inverse, in each part.
  const CsrMatrix<double> small = generate(test_context(), "poisson-2d", {{"n", 9}});
  EXPECT_LE(solved(small, settings_of("cg", 3)).result.report.iterations, 1);

  std::vector<float> values_f32(csr.values, csr.values + csr.nonzeros()), x_f32(b.size(), 0.0F);
  const std::vector<float> b_f32(b.begin(), b.end());
  CsrMatrix<float> in_float;
  in_float.pattern = csr.pattern, in_float.values = values_f32.data();
  SolveSettings loose = settings_of("cg", 3);
  loose.solver.stopping.relative_tolerance = 1e-4;
  EXPECT_TRUE(LinearSystem<float>(in_float, loose).solve(b_f32, x_f32).converged());
}

TEST(PartAmg, RefusesWhatItCannotDo) {
  const CsrMatrix<double> csr = generate(test_context(), "elasticity-3d", {{"n", 4}});
  const auto message = [&](auto&& change) {
    SolveSettings settings = settings_of("cg", 2);
    change(settings);
    return message_of<Error>([&] {
      std::vector<double> b(static_cast<std::size_t>(csr.rows()), 1.0), x(b.size(), 0.0);
      (void)LinearSystem<double>(csr, settings).solve(b, x);
    });
  };
  EXPECT_TRUE(has(message([](SolveSettings& s) { s.preconditioning.smoother = Smoother::gauss_seidel; }),
                  "smoother gauss-seidel is not served over several devices; take l1-jacobi or chebyshev"));
  EXPECT_TRUE(has(
      message([](SolveSettings& s) { s.preconditioning.storage = PreconditionerStorage::single_precision; }),
      "storage float is not served over several devices; take storage double"));
  EXPECT_TRUE(has(message([](SolveSettings& s) { s.preconditioning.setup = AmgSetup::classical; }),
                  "setup classical is not served over several devices; take setup aggregation"));
  EXPECT_TRUE(has(message([&](SolveSettings& s) {
                    s.preconditioning.unknowns = 3;
                    s.distribution.part_of_row = scattered(csr.rows(), 2);
                  }),
                  "the partition divides nodes among parts"));
  // All parts say the same, so none is named.
  EXPECT_TRUE(message([&](SolveSettings& s) {
                s.preconditioning.unknowns = 3;
                s.distribution.part_of_row = scattered(csr.rows(), 2);
              }).starts_with("amg: unknowns is 3"));
}

// The n-th allocation of all threads fails.
std::atomic<int> until_failure{0};
struct FailingAllocation {
  explicit FailingAllocation(int n) {
    until_failure = n;
    detail::allocation_hook = [](Space, std::size_t bytes) {
      if (--until_failure == 0) throw OutOfMemory("the test's", bytes);
    };
  }
  ~FailingAllocation() { detail::allocation_hook = nullptr; }
  bool failed() const { return until_failure <= 0; }
};

TEST(PartAmg, SurvivesAllocationsThatFail) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", 20}});
  const std::vector<double> b = sample_vector<double>(csr.rows(), 5);
  std::vector<double> x(b.size(), 0.0);
  SolveSettings settings = settings_of("cg", 3);
  settings.preconditioning.smoother = Smoother::chebyshev;
  LinearSystem<double> system(csr, settings);
  int failed = 0;
  for (int n = 1; n < 5000; n += 17) {
    std::fill(x.begin(), x.end(), 0.0);
    bool any = true;
    try {
      const FailingAllocation failing(n);
      (void)system.solve(b, x);
      any = failing.failed();
    } catch (const OutOfMemory&) { ++failed; }
    if (!any) break;
    system.set(system.settings());
  }
  EXPECT_GT(failed, 5);
  std::fill(x.begin(), x.end(), 0.0);
  EXPECT_TRUE(system.solve(b, x).converged());
  EXPECT_LE(relative_residual_of<double>(csr, b, x), 1.01e-8);
}

}  // namespace
}  // namespace protean::test
