// Solves of systems of several fields: what auto takes, which methods are refused, and kept systems.
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "gtest/gtest.h"
#include "protean.hpp"
#include "solvers/systems.hpp"
#include "support/battery.hpp"
#include "support/multi.hpp"
#include "support/stokes.hpp"
#include "support/text.hpp"

namespace protean::test {
namespace {

// A x = b with b = A (1, 2, 3, 1, 2, 3 ..).
struct System {
  CsrMatrix<double> A;
  std::vector<double> b, x;

  explicit System(CsrMatrix<double> matrix)
      : A(std::move(matrix)), b(static_cast<std::size_t>(A.rows())), x(b.size()) {
    for (std::int64_t i = 0; i < A.rows(); ++i)
      for (std::int64_t k = A.pattern.row_ptr[i]; k < A.pattern.row_ptr[i + 1]; ++k)
        b[i] += A.values[k] * (1 + A.pattern.col[k] % 3);
  }
  System(const char* kind, const GeneratorParams& params) : System(generate(test_context(), kind, params)) {}
  // b = A y for numbers y in [-1, 1) in no order.
  void take_rough_solution() {
    std::mt19937_64 random(1);
    std::vector<double> y(x.size());
    for (double& one : y) one = std::uniform_real_distribution<double>(-1, 1)(random);
    make_matrix(find_format("csr"), A, test_context())->apply(view(std::as_const(y)), view(b));
  }

  SolveResult solve(SolveSettings settings) {
    if (!settings.context) settings.context = test_context();
    settings.solver.stopping.relative_tolerance = 1e-8;
    settings.solver.stopping.max_iterations = 2000;
    std::fill(x.begin(), x.end(), 0.0);
    SolveResult result = protean::solve(A, view(std::as_const(b)), view(x), settings);
    if (result.converged()) { EXPECT_LE(residual(), 1.1e-8); }
    return result;
  }
  double residual() const { return relative_residual_of(A, b, x); }
};

SolveSettings with_fields(std::string fields, FieldRecipe recipe, std::string inner = "auto",
                          std::string method = "auto") {
  SolveSettings settings;
  settings.method = std::move(method), settings.preconditioner = "fields";
  settings.preconditioning.fields = std::move(fields), settings.preconditioning.recipe = recipe;
  settings.preconditioning.inner = std::move(inner);
  return settings;
}

TEST(FieldsInSolves, AutoTakesThemForASaddlePoint) {
  struct Case {
    const char* kind;
    GeneratorParams params;
    const char *asked, *method, *recipe;
  };
  for (const Case& one :
       {Case{"stokes-2d", {{"n", 24}}, "auto", "gmres", "schur-upper"},
        Case{"stokes-2d", {{"n", 24}}, "minres", "minres", "schur-diagonal"},
        Case{"stokes-2d", {{"n", 24}, {"contrast", 100}}, "auto", "gmres", "schur-upper"},
        Case{"darcy-2d", {{"n", 24}, {"contrast", 1e-3}}, "auto", "gmres", "schur-upper"},
        Case{"darcy-2d", {{"n", 24}, {"contrast", 1e-3}}, "bicgstab", "bicgstab", "schur-upper"},
        Case{"darcy-2d", {{"n", 24}, {"contrast", 1e-3}}, "minres", "minres", "schur-diagonal"},
        Case{"stokes-2d", {{"n", 24}, {"convection", 50}}, "auto", "gmres", "schur-upper"}}) {
    SCOPED_TRACE(one.kind);
    System system(one.kind, one.params);
    const SolveResult result = system.solve({.method = one.asked});
    EXPECT_TRUE(result.converged()) << result.report.detail;
    EXPECT_EQ(result.method, one.method);
    EXPECT_EQ(result.preconditioner, "fields");
    EXPECT_TRUE(has(result.preconditioner_reason, "fields: two fields: the diagonal entries of rows"))
        << result.preconditioner_reason;
    EXPECT_TRUE(has(result.preconditioner_reason, std::string("; recipe ") + one.recipe));
    EXPECT_TRUE(has(result.preconditioner_reason, "constants in field p change nothing"));
    const SolveResult alone = system.solve({.method = one.method, .preconditioner = "none"});
    EXPECT_LT(2 * result.report.iterations, alone.report.iterations);
  }
}

// Taylor-Hood: what auto takes by itself hardly needs more iterations on a finer grid, and less than twice as many for
// viscosities whose ratio is 10,000.
TEST(FieldsInSolves, TaylorHood) {
  const auto iterations = [](const char* kind, double n, double contrast, const SolveSettings& settings) {
    System system(kind, {{"n", n}, {"contrast", contrast}, {"blocks", 2}});
    const SolveResult result = system.solve(settings);
    EXPECT_TRUE(result.converged()) << kind << " " << n << ": " << result.report.detail;
    EXPECT_EQ(result.preconditioner, "fields");
    return result.report.iterations;
  };
  const SolveSettings upper = with_fields("auto", FieldRecipe::schur_upper);
  const auto coarse = iterations("taylor-hood-2d", 8, 1, upper);
  EXPECT_LE(coarse, 40);
  EXPECT_LE(iterations("taylor-hood-2d", 24, 1, upper), coarse + coarse / 4);
  EXPECT_LE(iterations("taylor-hood-2d", 24, 1e4, upper), coarse + coarse / 2);
  EXPECT_LE(iterations("taylor-hood-3d", 4, 1, upper), 50);
  EXPECT_LE(iterations("taylor-hood-3d", 4, 1e4, upper), 60);
  EXPECT_EQ(iterations("taylor-hood-2d", 24, 1e4, {}), iterations("taylor-hood-2d", 24, 1e4, upper));
  EXPECT_LE(iterations("taylor-hood-2d", 24, 1, {.method = "minres"}), 90);
  EXPECT_LE(iterations("taylor-hood-2d", 24, 1e4, {.method = "minres"}), 180);
}

// In space, also where the viscosity jumps after each element (n = 4) or after every second one.
TEST(FieldsInSolves, TaylorHoodInSpace) {
  const auto iterations = [](double n, double contrast) {
    System system("taylor-hood-3d", {{"n", n}, {"contrast", contrast}});
    system.take_rough_solution();
    const SolveResult result = system.solve(with_fields("auto", FieldRecipe::schur_upper));
    EXPECT_TRUE(result.converged()) << n << ": " << result.report.detail;
    return result.report.iterations;
  };
  const auto coarse = iterations(4, 1), fine = iterations(8, 1);
  EXPECT_LE(fine, coarse + coarse / 10);
  EXPECT_LE(iterations(4, 1e4), coarse + 3 * coarse / 4);
  EXPECT_LE(iterations(8, 1e4), fine + fine / 6);
}

// The mass matrix of the pressures over the viscosity in place of the Schur complement.
TEST(FieldsInSolves, TaylorHoodWithItsMassMatrix) {
  for (const char* const d : {"2d", "3d"}) {
    std::int64_t without_jump = 0;
    for (const double contrast : {1.0, 1e4}) {
      const GeneratorParams params = {{"n", d[0] == '2' ? 16.0 : 4.0}, {"contrast", contrast}};
      const CsrMatrix<double> mass = generate(test_context(), std::string("pressure-mass-") + d, params);
      System system((std::string("taylor-hood-") + d).c_str(), params);
      SolveSettings settings = with_fields("auto", FieldRecipe::schur_upper);
      settings.preconditioning.schur_operator = &mass;
      const SolveResult result = system.solve(settings);
      EXPECT_TRUE(result.converged()) << result.report.detail;
      EXPECT_TRUE(has(result.preconditioner_reason, "schur-upper by the given operator"));
      EXPECT_LE(result.report.iterations, 45) << d;
      if (contrast == 1) without_jump = result.report.iterations;
      EXPECT_LE(result.report.iterations, without_jump + without_jump / 2) << d;
    }
  }
}

// The pressure of a reservoir whose permeability jumps acts far away.
TEST(FieldsInSolves, ThePressureOfAReservoirFirst) {
  System system("reservoir-2d", {{"n", 32}, {"contrast", 1e3}});
  const auto iterations = [&](FieldRecipe recipe) {
    SolveSettings settings = with_fields("auto", recipe);
    settings.preconditioning.interleaved = 2;
    const SolveResult result = system.solve(settings);
    EXPECT_TRUE(result.converged()) << to_string(recipe) << ": " << result.report.detail;
    return result.report.iterations;
  };
  const auto lower = iterations(FieldRecipe::lower);
  for (const FieldRecipe recipe : {FieldRecipe::cpr_quasi_impes, FieldRecipe::cpr_true_impes})
    EXPECT_LT(4 * iterations(recipe), lower) << to_string(recipe);
}

TEST(FieldsInSolves, AutoSaysWhyItTakesNone) {
  // Two rows without a diagonal entry that are coupled with each other.
  const std::vector<Triplet<double>> entries = {{0, 0, 2}, {0, 1, 1}, {1, 0, 1}, {1, 2, 3},
                                                {2, 1, 3}, {2, 3, 1}, {3, 2, 1}, {3, 3, 2}};
  System system(csr_from_triplets<double>(test_context(), 4, 4, entries));
  const SolveResult result = system.solve({});
  EXPECT_EQ(result.preconditioner, "none");
  EXPECT_TRUE(has(result.preconditioner_reason, "none: jacobi divides by the diagonal"));
  // A matrix that has all of its diagonal keeps jacobi, if times decide nothing.
  const ContextPtr deterministic = Context::host(2, {.deterministic = true});
  EXPECT_EQ(System("convection-diffusion-3d", {{"n", 6}}).solve({.context = deterministic}).preconditioner,
            "jacobi");
}

// Cells with a pressure: auto takes the pressure first, unless the method needs a symmetric M or the option names
// another one.
TEST(FieldsInSolves, AutoTakesThePressureOfAReservoirFirst) {
  const ContextPtr deterministic = Context::host(2, {.deterministic = true});
  System system("reservoir-2d", {{"n", 32}, {"contrast", 1e3}});
  const SolveResult result = system.solve({.context = deterministic});
  EXPECT_TRUE(result.converged()) << result.report.detail;
  EXPECT_EQ(result.method, "gmres");
  EXPECT_TRUE(has(result.method_reason, "it has cells with a pressure")) << result.method_reason;
  EXPECT_EQ(result.preconditioner, "fields");
  EXPECT_TRUE(has(result.preconditioner_reason, "row 0 (counted from 0) is the pressure, field p"))
      << result.preconditioner_reason;
  EXPECT_TRUE(has(result.preconditioner_reason, "; recipe cpr-quasi-impes; inner p amg, whole ilu0"));
  SolveSettings named{.preconditioner = "fields", .context = deterministic};
  named.preconditioning.interleaved = 2;
  EXPECT_EQ(system.solve(named).report.iterations, result.report.iterations);
  named.preconditioning.recipe = FieldRecipe::lower;
  EXPECT_GT(system.solve(named).report.iterations, 4 * result.report.iterations);
  EXPECT_EQ(system.solve({.preconditioner = "jacobi"}).preconditioner, "jacobi");
  // In one solve after another, and for values without a pressure in between.
  std::vector<double> values(system.A.values, system.A.values + system.A.nonzeros()), unlike(values);
  for (std::int64_t i = 0; i < system.A.rows(); ++i)
    for (std::int64_t k = system.A.pattern.row_ptr[i]; k < system.A.pattern.row_ptr[i + 1]; ++k)
      if (system.A.pattern.col[k] != i) unlike[k] *= 1e-3;
  LinearSystem<double> kept(system.A, {.context = deterministic});
  for (int round = 0; round < 2; ++round)
    for (const auto* now : {&values, &unlike}) {
      CsrMatrix<double> A = system.A;
      A.values = now->data(), A.values_owner = nullptr;
      kept.update_values(A);
      const SolveResult one = kept.solve(view(std::as_const(system.b)), view(system.x));
      EXPECT_TRUE(one.converged());
      EXPECT_EQ(one.preconditioner, now == &values ? "fields" : "jacobi");
    }
}

TEST(FieldsInSolves, EveryRecipeConverges) {
  System stokes("stokes-2d", {{"n", 16}, {"contrast", 10}}),
      oseen("stokes-2d", {{"n", 16}, {"convection", 20}}),
      reservoir("reservoir-2d", {{"n", 24}, {"contrast", 100}});
  for (const FieldRecipe recipe : field_recipes) {
    SCOPED_TRACE(to_string(recipe));
    SolveSettings settings = with_fields("auto", recipe);
    const bool schur = recipe == FieldRecipe::automatic || recipe >= FieldRecipe::schur_diagonal;
    if (schur) {
      for (const SchurComplement how : schur_complements) {
        settings.preconditioning.schur = how;
        for (System* one : {&stokes, &oseen}) {
          const SolveResult result = one->solve(settings);
          EXPECT_TRUE(result.converged()) << result.method << ": " << result.report.detail;
          EXPECT_EQ(result.preconditioner, "fields");
        }
      }
      continue;
    }
    settings.preconditioning.interleaved = 2;
    const SolveResult result = reservoir.solve(settings);
    EXPECT_TRUE(result.converged()) << result.report.detail;
    EXPECT_TRUE(has(result.preconditioner_reason, "fields 0 (576 rows), 1 (576 rows); recipe"));
    EXPECT_LT(2 * result.report.iterations,
              reservoir.solve({.method = "gmres", .preconditioner = "jacobi"}).report.iterations);
  }
}

TEST(FieldsInSolves, MethodsThatSuitThem) {
  System stokes("stokes-2d", {{"n", 16}});
  const auto refused = [&](SolveSettings settings) {
    return message_of<BadArgument>([&] { (void)stokes.solve(std::move(settings)); });
  };
  // A recipe that is not symmetric.
  const std::string minres = refused(with_fields("auto", FieldRecipe::schur_lower, "auto", "minres"));
  EXPECT_TRUE(has(minres, "minres needs a symmetric preconditioner")) << minres;
  EXPECT_TRUE(has(minres, "fields with recipe schur-diagonal")) << minres;
  SolveResult result = stokes.solve(with_fields("auto", FieldRecipe::schur_lower));
  EXPECT_TRUE(result.converged());
  EXPECT_EQ(result.method, "gmres");
  EXPECT_TRUE(has(result.method_reason, "preconditioner fields is not"));
  // One that solves iteratively.
  const char* const inner = "u amg method=cg tolerance=0.1, p amg";
  const std::string gmres = refused(with_fields("auto", FieldRecipe::schur_lower, inner, "gmres"));
  EXPECT_TRUE(has(gmres, "use method fgmres")) << gmres;
  result = stokes.solve(with_fields("auto", FieldRecipe::schur_lower, inner));
  EXPECT_TRUE(result.converged());
  EXPECT_EQ(result.method, "fgmres");
  EXPECT_TRUE(has(result.method_reason, "solves iteratively"));
  // As a part of a composition, too.
  SolveSettings parts;
  parts.parts = {{"fields", with_fields("auto", FieldRecipe::schur_lower, inner).preconditioning}};
  EXPECT_EQ(stokes.solve(parts).method, "fgmres");
  parts.method = "gmres";
  EXPECT_TRUE(has(refused(parts), "use method fgmres"));
}

// A kept system gives what a new one gives, bit for bit, whatever was solved before. In deterministic mode measured
// times do not decide when auto is set up again.
TEST(FieldsInSolves, KeptSystems) {
  const ContextPtr context = Context::host(2, {.deterministic = true});
  std::mt19937 random(3);
  for (const double convection : {0.0, 30.0})
    for (const bool automatic : {true, false}) {
      System system("stokes-2d", {{"n", 10}, {"convection", convection}});
      std::vector<double> values(system.A.values, system.A.values + system.A.nonzeros());
      CsrMatrix<double> now = system.A;
      now.values = values.data(), now.values_owner = nullptr;
      const std::int64_t velocities = 2 * 90;
      SolveSettings settings = automatic ? SolveSettings() : with_fields("auto", FieldRecipe::automatic);
      settings.context = context;
      LinearSystem<double> kept(now, settings);
      std::vector<double> x(system.x), y(system.x);
      for (int step = 0; step < 5; ++step) {
        std::fill(x.begin(), x.end(), 0.0), std::fill(y.begin(), y.end(), 0.0);
        const SolveResult result = kept.solve(view(std::as_const(system.b)), view(x));
        LinearSystem<double> fresh(now, settings);
        const SolveResult same = fresh.solve(view(std::as_const(system.b)), view(y));
        EXPECT_EQ(result.report.iterations, same.report.iterations);
        EXPECT_EQ(result.preconditioner, "fields");
        EXPECT_EQ(x, y);
        // Another viscosity and another density of the matrix of velocities.
        const double viscosity = 1 + static_cast<double>(random() % 16);
        for (std::int64_t i = 0; i < velocities; ++i)
          for (std::int64_t k = now.pattern.row_ptr[i]; k < now.pattern.row_ptr[i + 1]; ++k)
            if (now.pattern.col[k] < velocities)
              values[k] =
                  system.A.values[k] * viscosity + (now.pattern.col[k] == i ? 0.25 * (random() % 4) : 0);
        kept.update_values(now);
      }
    }
}

// Kept systems of one object in a random order of new values, settings and calls that fail: each solve is, bit for bit,
// the one of a new system.
TEST(FieldsInSolves, RandomSequencesWithCallsThatFail) {
  const ContextPtr context = Context::host(2, {.deterministic = true});
  const System system("stokes-2d", {{"n", 8}});
  const std::int64_t velocities = 2 * 56, n = system.A.rows();
  const SolveSettings settings[] = {
      {},
      {.method = "minres"},
      with_fields("auto", FieldRecipe::automatic),
      with_fields("u 0-111, p 112-", FieldRecipe::schur_lower, "u ic0, p jacobi"),
      with_fields("auto", FieldRecipe::schur_full, "u ssor"),
      with_fields("auto", FieldRecipe::schur_diagonal, "u ic0", "minres"),
      with_fields("auto", FieldRecipe::schur_upper, "u amg method=cg tolerance=0.1"),
      with_fields("p 112-, u 0-111", FieldRecipe::additive, "p none, u ic0", "minres"),
  };
  const SolveSettings refused[] = {with_fields("u 0-111, p 111-", FieldRecipe::automatic),
                                   with_fields("u 0-111, p 113-", FieldRecipe::automatic),
                                   with_fields("u 0-111, p 112-176", FieldRecipe::automatic),
                                   with_fields("auto", FieldRecipe::cpr_quasi_impes),
                                   with_fields("auto", FieldRecipe::schur_lower, "q amg")};
  std::mt19937 random(11);
  std::vector<double> good(system.A.values, system.A.values + system.A.nonzeros()), values(good);
  CsrMatrix<double> now = system.A;
  now.values = values.data(), now.values_owner = nullptr;
  const auto with_context = [&](SolveSettings one) {
    one.context = context, one.solver.stopping.max_iterations = 2000;
    return one;
  };
  SolveSettings current = with_context(settings[0]);
  LinearSystem<double> kept(now, current);
  int solved = 0, failed = 0;
  for (int step = 0; step < 120; ++step) {
    SCOPED_TRACE(step);
    switch (random() % 4) {
      case 0:
        current = with_context(settings[random() % std::size(settings)]);
        kept.set(current);
        break;
      case 1: {
        // Every fourth time entries that no type of preconditioner takes.
        const double viscosity = random() % 4 == 0 ? -1 : 1 + static_cast<double>(random() % 8);
        for (std::int64_t i = 0; i < velocities; ++i)
          for (std::int64_t k = now.pattern.row_ptr[i]; k < now.pattern.row_ptr[i + 1]; ++k)
            if (now.pattern.col[k] < velocities) values[k] = good[k] * viscosity;
        kept.update_values(now);
        break;
      }
      case 2: {
        kept.set(with_context(refused[random() % std::size(refused)]));
        std::vector<double> x(static_cast<std::size_t>(n));
        EXPECT_THROW((void)kept.solve(view(system.b), view(x)), BadArgument);
        EXPECT_EQ(x, std::vector<double>(x.size()));
        kept.set(current);
        break;
      }
      default:
        break;
    }
    std::vector<double> x(static_cast<std::size_t>(n)), y(x);
    const auto outcome = [&](LinearSystem<double>& one, std::vector<double>& to) -> std::string {
      try {
        const SolveResult result = one.solve(view(system.b), view(to));
        ++solved;
        return result.method + " " + result.preconditioner + " " + std::to_string(result.report.iterations) +
               " " + result.preconditioner_reason;
      } catch (const BadMatrix& error) {
        ++failed;
        return error.what();
      }
    };
    LinearSystem<double> fresh(now, current);
    EXPECT_EQ(outcome(kept, x), outcome(fresh, y));
    EXPECT_EQ(x, y);
  }
  EXPECT_GT(solved, 60);
  EXPECT_GT(failed, 4);
}

TEST(FieldsInSolves, SingleDivergenceFree) {
  const CsrMatrix<double> wide = generate(test_context(), "stokes-2d", {{"n", 12}});
  const auto A = convert_values<float>(test_context(), wide);
  std::vector<float> b(static_cast<std::size_t>(A.rows())), x(b.size());
  for (std::int64_t i = 0; i < 2 * 12 * 11; ++i) b[i] = static_cast<float>(i % 5) - 2;
  SolveSettings settings;
  settings.context = test_context(), settings.solver.stopping.relative_tolerance = 1e-4;
  const SolveResult result = solve(A, view(std::as_const(b)), view(x), settings);
  EXPECT_TRUE(result.converged()) << result.report.detail;
  EXPECT_EQ(result.preconditioner, "fields");
}

}  // namespace
}  // namespace protean::test
