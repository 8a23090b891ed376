// The problem file: what is read, what is refused, and the place that an error names.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>

#include "apps/machine/machine_file.hpp"
#include "apps/problem/problem_file.hpp"
#include "apps/problem/problem_keys.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "preconditioners/options.hpp"
#include "problem_text.hpp"
#include "solvers/options.hpp"
#include "support/folder.hpp"
#include "support/space.hpp"
#include "support/text.hpp"

namespace protean::apps {
namespace {

using test::message_of;

TEST(ProblemFile, DefaultsAreFilledIn) {
  const Problem p = problem_of(minimal);
  EXPECT_EQ(p.matrix.file.path, "folder/A.mtx");
  EXPECT_EQ(p.matrix.file.given, "A.mtx");
  EXPECT_TRUE(p.rhs.from_solution);
  EXPECT_FALSE(p.rhs.given);
  EXPECT_EQ(p.rhs.vector.seed, 1);
  EXPECT_EQ(p.initial_guess.value, 0);
  EXPECT_EQ(p.settings.method, "auto");
  EXPECT_EQ(p.settings.solver.stopping.relative_tolerance, 1e-8);
  EXPECT_EQ(p.settings.preconditioner, "auto");
  EXPECT_EQ(p.settings.format, "auto");
  EXPECT_EQ(p.settings.kernel, "");  // the default one of the format
  EXPECT_FALSE(p.output.report);
}

TEST(ProblemFile, EverythingIsRead) {
  const Problem p = problem_of(R"(
title: all of it
matrix: {file: /abs/A.mtx.xz, duplicates: refuse}
rhs: {file: sub/b.mtx}
initial_guess: {random: 7}
solver: {method: gmres, restart: 5, orthogonalization: mgs, relative_tolerance: 1e-6, absolute_tolerance: 2.5e-3, 
         max_iterations: 1e3, max_seconds: 2, baseline: initial-residual, divergence: .inf, stagnation_window: 9,
         device_steps: graph}
preconditioner: {type: jacobi, zero_diagonal: one}
operator: {format: csr, parameters: {}, kernel: native, space: device, threads: 3}
output: {solution: x.mtx, report: ../r.json, history: h.csv}
)");
  EXPECT_EQ(p.matrix.file.path, "/abs/A.mtx.xz");
  EXPECT_EQ(p.matrix.duplicates, Duplicates::refuse);
  EXPECT_FALSE(p.rhs.from_solution);
  EXPECT_EQ(p.rhs.vector.file.path, "folder/sub/b.mtx");
  EXPECT_EQ(p.initial_guess.seed, 7);
  const StoppingRule& rule = p.settings.solver.stopping;
  EXPECT_EQ(rule.relative_tolerance, 1e-6);
  EXPECT_EQ(rule.absolute_tolerance, 2.5e-3);
  EXPECT_EQ(rule.max_iterations, 1000);
  EXPECT_EQ(rule.max_seconds, 2);
  EXPECT_EQ(rule.baseline, Baseline::initial_residual);
  EXPECT_TRUE(std::isinf(rule.divergence));
  EXPECT_EQ(rule.stagnation_window, 9);
  EXPECT_EQ(p.settings.solver.restart, 5);
  EXPECT_EQ(p.settings.solver.orthogonalization, "mgs");
  EXPECT_EQ(p.settings.solver.device_steps, "graph");
  EXPECT_EQ(p.settings.preconditioning.zero_diagonal, ZeroDiagonal::one);
  EXPECT_EQ(p.op.threads, 3);
  EXPECT_EQ(p.output.report.path, "r.json");
}

TEST(ProblemFile, PreconditionersHaveTheirOwnKeys) {
  EXPECT_EQ(problem_of(minimal + "preconditioner: {type: ic, fill: 3}").settings.preconditioning.fill, 3);
  EXPECT_EQ(problem_of(minimal + "preconditioner: {type: block-jacobi, block_size: 6}")
                .settings.preconditioning.block_size,
            6);
  for (const char* spec : {"{type: block-jacobi}", "{type: block-jacobi, block_size: auto}"})
    EXPECT_EQ(problem_of(minimal + "preconditioner: " + spec).settings.preconditioning,
              PreconditionerOptions{});
  EXPECT_EQ(problem_of(minimal + "preconditioner: {type: block-jacobi, blocks: equal}")
                .settings.preconditioning.blocks,
            DiagonalBlocks::equal);
  EXPECT_EQ(problem_of(minimal + "preconditioner: {type: ssor, omega: 1.5}").settings.preconditioning.omega,
            1.5);
  const Problem p =
      problem_of(minimal + "preconditioner: {type: chebyshev, degree: 7, eigenvalue_ratio: 12}");
  EXPECT_EQ(p.settings.preconditioning.degree, 7);
  EXPECT_EQ(p.settings.preconditioning.eigenvalue_ratio, 12);
  const SolveSettings composed = problem_of(minimal +
                                            "preconditioner: {type: composition, combine: symmetric, parts: "
                                            "[{type: jacobi}, {type: ssor, omega: 1.5}]}")
                                     .settings;
  EXPECT_EQ(composed.combine, Composition::symmetric);
  EXPECT_EQ(composed.parts, (std::vector<PreconditionerPart>{{"jacobi"}, {"ssor", {.omega = 1.5}}}));
  const Problem swept = problem_of(minimal + "preconditioner: {type: ic0, solve: sweeps, sweeps: 7}");
  EXPECT_EQ(swept.settings.preconditioning.solve, TriangularSolve::sweeps);
  EXPECT_EQ(swept.settings.preconditioning.sweeps, 7);
  EXPECT_EQ(problem_of(minimal + "preconditioner: {type: ic}\noperator: {space: device}")
                .settings.preconditioning.solve,
            TriangularSolve::automatic);
  EXPECT_EQ(
      problem_of(minimal + "solver: {method: gmres}\npreconditioner: {type: ilu0}").settings.preconditioner,
      "ilu0");
}

// Without hypre its setup is refused before anything is read; with it, in deterministic mode.
TEST(ProblemFile, MultigridAndItsSetups) {
  const std::string text = minimal +
                           "preconditioner: {type: amg, setup: classical, smoother: gauss-seidel, "
                           "coarsening: pmis, strong_threshold: 0.5, aggressive_levels: 1, max_levels: 7, "
                           "cycles: 2, unknowns: 3}\n";
  const std::string ours =
      minimal +
      "preconditioner: {type: amg, strength: 0.25, level_format: csr, smoother: chebyshev, unknowns: 3}\n";
  const auto refused = [&](const std::string& all) {
    return message_of<BadFile>([&] { (void)problem_of(all); });
  };
  const auto refusal = [&](const std::string& more) -> std::string { return refused(text + more); };
  const auto has = [](const std::string& message, const char* part) {
    return message.find(part) != std::string::npos;
  };
  const PreconditionerEntry& entry = preconditioners().back();
  ASSERT_EQ(entry.id, "amg");
  EXPECT_EQ(problem_of(ours).settings.preconditioning,
            (PreconditionerOptions{.smoother = Smoother::chebyshev,
                                   .strength = 0.25,
                                   .level_format = LevelFormat::csr,
                                   .unknowns = 3}));
  EXPECT_EQ(refused(ours + "operator: {deterministic: true}"), "");
  EXPECT_EQ(refused(ours + "operator: {space: device}"), "");
  EXPECT_TRUE(has(refused(minimal + "preconditioner: {type: amg, coarsening: pmis}"),
                  "coarsening is for setup: classical; setup is aggregation"));
  EXPECT_TRUE(has(refused(minimal + "preconditioner: {type: amg, setup: classical, strength: 0.25}"),
                  "strength is for setup: aggregation; setup is classical"));
  if (!unavailable(AmgSetup::classical).empty()) {
    const std::string message = refusal("");
    EXPECT_EQ(message.rfind("folder/p.yaml:2:", 0), 0u) << message;
    EXPECT_TRUE(has(message, "preconditioner.setup classical: this build has no hypre")) << message;
    EXPECT_TRUE(has(message, "PROTEAN_HYPRE=ON")) << message;
    return;
  }
  const PreconditionerOptions options = problem_of(text).settings.preconditioning;
  EXPECT_EQ(options, (PreconditionerOptions{.setup = AmgSetup::classical,
                                            .smoother = Smoother::gauss_seidel,
                                            .coarsening = Coarsening::pmis,
                                            .strong_threshold = 0.5,
                                            .aggressive_levels = 1,
                                            .max_levels = 7,
                                            .cycles = 2,
                                            .unknowns = 3}));
  EXPECT_TRUE(has(refusal("operator: {deterministic: true}"),
                  "preconditioner.setup classical is not for operator.deterministic: another library"));
  EXPECT_TRUE(
      has(refusal("operator: {space: device}"),
          "preconditioner.setup classical is not for operator.space device: it computes on the host"));
  EXPECT_TRUE(
      has(refused(minimal + "preconditioner: {type: composition, parts: [{type: jacobi}, {type: amg, setup: "
                            "classical}]}\noperator: {space: device}"),
          "setup classical is not for operator.space device"));
}

TEST(ProblemFile, GeneratorsHaveTheirOwnKeys) {
  const Problem p = problem_of("matrix: {generate: {kind: poisson-3d, n: 12, points: 27}}");
  EXPECT_EQ(p.matrix.kind, "poisson-3d");
  EXPECT_EQ(p.matrix.params.at("n"), 12);
  EXPECT_EQ(p.matrix.params.at("points"), 27);
}

TEST(ProblemFile, SettingsOverrideAndCreate) {
  const Problem p =
      problem_of(minimal + "solver: {method: gmres, restart: 5}\ninitial_guess: zero\n",
                 {"solver.restart=17", "operator.format=csr", "initial_guess.random=3",
                  "matrix={generate: {kind: banded, n: 10}}", "solver.relative_tolerance=1e-3"});
  EXPECT_EQ(p.settings.solver.restart, 17);
  EXPECT_EQ(p.settings.method, "gmres");
  EXPECT_EQ(p.settings.format, "csr");
  EXPECT_EQ(p.initial_guess.seed, 3);
  EXPECT_EQ(p.matrix.kind, "banded");
  EXPECT_EQ(p.settings.solver.stopping.relative_tolerance, 1e-3);
}

// Lines of a problem file in which this numeric key has a meaning. The key is the last line.
std::string problem_with(const KeyDoc& key, const std::string& value) {
  const std::string line = fmt::format("{}: {}\n", key.name, value),
                    cube = "matrix:\n  generate:\n    kind: ";
  const std::string matrix = "matrix: {generate: {kind: poisson-2d, n: 8}}\n";
  if (key.section == "matrix") return "matrix:\n  file: A.mtx\n  " + line;
  if (key.section == "matrix.generate (fem-hex)") return cube + "fem-hex\n    n: 2\n    " + line;
  if (key.section == "matrix.generate (fem-hex, fem-tet)")
    return cube + "fem-hex\n    physics: elasticity\n    " + line;
  if (key.section == "rhs" && key.name == "columns") return matrix + "rhs:\n  random: 1\n  " + line;
  if (key.section == "rhs.solution") return matrix + "rhs:\n  solution:\n    " + line;
  if (key.section == "schedule") return matrix + "schedule:\n  policy: auto\n  " + line;
  if (key.section == "schedule[]") return matrix + "schedule:\n- format: csr\n  " + line;
  if (key.section == "solver")
    for (const SolverEntry& entry : solvers())
      if (find_option(solver_options(), key.name)->readers.has(entry.id))
        return fmt::format("{}solver:\n  method: {}\n  {}", matrix, entry.id, line);
  if (key.section == "preconditioner")
    for (const PreconditionerEntry& entry : preconditioners())
      if (const auto* option = find_option(preconditioner_options(), key.name); option->readers.has(entry.id))
        return fmt::format(
            "{}solver: {{method: gmres}}\npreconditioner:\n  type: {}\n{}  {}", matrix, entry.id,
            option->with.empty() ? "" : fmt::format("  {}: {}\n", option->with, option->with_word), line);
  return fmt::format("{}{}:\n  {}", matrix, key.section, line);
}

// Makes what the problem asks for, which checks its numbers.
void make_parts(const Problem& p) {
  if (p.settings.method != "auto") (void)make_solver<double>(p.settings.method, p.settings.solver);
  const auto A = make_matrix(find_format("csr"), generate(test::test_context(), "poisson-2d", {{"n", 8}}),
                             test::test_context());
  for (const PreconditionerEntry& entry : preconditioners())
    if (entry.id == p.settings.preconditioner && entry.unavailable.empty())
      (void)make_preconditioner(p.settings, *A);
}

TEST(ProblemFile, TheRangesOfTheTableAreThoseThatAreChecked) {
  int walked = 0;
  for (const KeyDoc& key : problem_keys()) {
    const bool whole = key.type == KeyDoc::Type::integer;
    if (!whole && key.type != KeyDoc::Type::number) continue;
    ++walked;
    const auto text = [&](double value) {
      if (std::isinf(value)) return std::string(value > 0 ? ".inf" : "-.inf");
      return whole ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
    };
    const auto taken = [&](double value) {
      const std::string problem = problem_with(key, text(value));
      // What this build does not have is refused whatever its numbers are.
      const bool absent = !unavailable(AmgSetup::classical).empty() &&
                          problem.find("setup: classical\n") != std::string::npos;
      try {
        make_parts(problem_of(problem));
      } catch (const Error& error) {
        if (absent && std::string(error.what()).find("must be") == std::string::npos) return;
        ADD_FAILURE() << key.path() << ": " << text(value)
                      << " is in the table but refused: " << error.what();
      }
    };
    const auto refused = [&](double value) {
      const std::string problem = problem_with(key, text(value));
      const auto line = std::count(problem.begin(), problem.end(), '\n');
      try {
        make_parts(problem_of(problem));
        ADD_FAILURE() << key.path() << ": " << text(value) << " is not in the table but taken";
      } catch (const Error& error) {
        const std::string message = error.what();
        EXPECT_EQ(message.rfind(fmt::format("folder/p.yaml:{}:", line), 0), 0u) << message;
        EXPECT_NE(message.find(key.name), std::string::npos) << message;
      }
    };
    const NumberRange& range = key.range;
    const auto beyond = [&](double end, double to) {
      if (whole) return end + (to > 0 ? 1 : -1);
      return std::nextafter(end, to * std::numeric_limits<double>::infinity());
    };
    if (range.open_below) refused(range.smallest), taken(beyond(range.smallest, 1));
    if (!range.open_below) taken(range.smallest), refused(beyond(range.smallest, -1));
    if (range.open_above) refused(range.largest), taken(beyond(range.largest, -1));
    if (!range.open_above) taken(range.largest);
    if (!range.open_above && !std::isinf(range.largest)) refused(beyond(range.largest, 1));
  }
  EXPECT_GT(walked, 35);
}

TEST(ProblemFile, TheRangesOfGeneratorsAreThoseThatAreChecked) {
  for (const GeneratorEntry& entry : generators())
    for (const GeneratorParam& param : entry.params) {
      if (!param.choices.empty()) continue;
      const auto problem = [&](double value) {
        return fmt::format("matrix:\n  generate:\n    kind: {}\n    {}: {}\n", entry.kind, param.name,
                           param.integer ? fmt::format("{:.0f}", value) : fmt::format("{}", value));
      };
      const auto beyond = [&](double end, double to) {
        return param.integer ? end + (to > 0 ? 1 : -1)
                             : std::nextafter(end, to * std::numeric_limits<double>::infinity());
      };
      EXPECT_NO_THROW((void)problem_of(problem(param.smallest))) << entry.kind << param.name;
      EXPECT_NO_THROW((void)problem_of(problem(param.largest))) << entry.kind << param.name;
      for (const double value : {beyond(param.smallest, -1), beyond(param.largest, 1)}) try {
          (void)problem_of(problem(value));
          ADD_FAILURE() << entry.kind << "." << param.name << ": " << value;
        } catch (const BadFile& error) {
          EXPECT_EQ(std::string(error.what()).rfind("folder/p.yaml:4:", 0), 0u) << error.what();
        }
    }
}

TEST(ProblemFile, ACubeOfTooManyNodesIsRefusedWithItsPlace) {
  try {
    (void)problem_of("matrix: {generate: {kind: fem-hex, n: 500, degree: 4}}");
    FAIL();
  } catch (const BadFile& error) {
    EXPECT_NE(std::string(error.what()).find("p.yaml:1:39: matrix.generate: n 500 and degree 4"),
              std::string::npos)
        << error.what();
  }
}

TEST(ProblemFile, ScheduleOfPointsOrPolicy) {
  const std::string text =
      "matrix: {file: A.mtx}\nschedule:\n"
      "  - {at_iteration: 20, format: sell-c-sigma, parameters: {C: 16}, kernel: native}\n"
      "  - {at_residual: 1.0e-3, format: coo, overlapped: false}\n"
      "  - {after_seconds: 1.5, format: csr, overlapped: true}\n";
  const Problem problem = problem_of(text);
  ASSERT_EQ(problem.settings.schedule.size(), 3u);
  EXPECT_FALSE(problem.settings.policy == "auto");
  const SchedulePoint &a = problem.settings.schedule[0], &b = problem.settings.schedule[1],
                      &c = problem.settings.schedule[2];
  EXPECT_EQ(a.trigger, ScheduleTrigger::iteration);
  EXPECT_EQ(a.at, 20);
  EXPECT_EQ(a.to.entry->id, "sell-c-sigma");
  EXPECT_EQ(a.to.params.integer("C"), 16);
  EXPECT_EQ(a.to.kernel, "native");
  EXPECT_TRUE(a.overlapped);
  EXPECT_EQ(b.trigger, ScheduleTrigger::residual);
  EXPECT_EQ(b.at, 1e-3);
  EXPECT_FALSE(b.overlapped);
  EXPECT_EQ(c.trigger, ScheduleTrigger::seconds);
  EXPECT_EQ(c.at, 1.5);
  EXPECT_TRUE(problem_of("matrix: {file: A.mtx}\nschedule: {policy: auto}").settings.policy == "auto");
  EXPECT_TRUE(problem_of("matrix: {file: A.mtx}\nschedule: []").settings.schedule.empty());
}

TEST(ProblemFile, DeepNestingIsRefused) {
  EXPECT_THROW((void)problem_of("matrix: " + std::string(100, '[') + std::string(100, ']')), BadFile);
  EXPECT_THROW((void)problem_of("matrix: " + std::string(100000, '[')), BadFile);
}

std::string refusal_of(const std::string& text, std::vector<std::string> settings = {}) {
  return message_of<BadFile>([&] { (void)problem_of(text, settings); });
}

// Two bytes of a list are a value of about 150.
TEST(ProblemFile, ValuesAreBounded) {
  std::string text = minimal + "schedule: [";
  for (int k = 0; k < 1'000'000; ++k) text += "1,";
  const std::string message = refusal_of(text + "1]");
  EXPECT_NE(message.find("more than 1000000 values"), std::string::npos) << message;
}

TEST(ProblemFile, NamesOfFilesAreBounded) {
  EXPECT_EQ(problem_of("matrix: {file: " + std::string(4095, 'a') + "}").matrix.file.given.size(), 4095u);
  const std::string longer = refusal_of("matrix: {file: " + std::string(4096, 'a') + "}");
  EXPECT_NE(longer.find("at most 4095 bytes"), std::string::npos) << longer;
  EXPECT_LT(longer.size(), 300u);
  EXPECT_NE(refusal_of("matrix: {file: \"a\\nb\"}").find("in one line"), std::string::npos);
}

// Problem files and machine tables, before anything of them is looked at.
TEST(ProblemFile, FilesAreBounded) {
  const test::Folder folder;
  const std::string path = folder / "long.yaml";
  std::ofstream(path) << std::string((std::size_t{16} << 20) + 1, '#');
  for (const std::function<void()>& reader : {std::function<void()>([&] { (void)read_problem(path); }),
                                              std::function<void()>([&] { (void)read_machine(path); })}) {
    std::string message = "it was read";
    try {
      reader();
    } catch (const BadFile& error) { message = error.what(); }
    EXPECT_NE(message.find("more than 16"), std::string::npos) << message;
  }
}

TEST(ProblemFile, PartsOfASum) {
  const Problem p = problem_of(minimal + R"(operator:
  format: sum
  parts:
    - {format: dia, take: diagonals}
    - {format: bcsr, take: {rule: blocks, rows: 3, cols: 3}, parameters: {cols: 3, rows: 3}, kernel: native}
    - {format: csr}
)");
  EXPECT_EQ(p.settings.format, "sum");
  EXPECT_EQ(p.settings.parameters.word("parts"),
            "dia:diagonals + bcsr[cols=3,rows=3]@native:blocks(cols=3,rows=3) + csr");
  // The same as text, and in a point of a schedule.
  EXPECT_EQ(problem_of(minimal, {"operator.format=sum", "operator.parameters.parts=ell:width + csr"})
                .settings.parameters.word("parts"),
            "ell:width + csr");
  const Problem changing = problem_of(
      minimal +
      "schedule: [{at_iteration: 3, format: sum, parts: [{format: ell, take: width}, {format: csr}]}]");
  EXPECT_EQ(changing.settings.schedule[0].to.params.word("parts"), "ell:width + csr");
  EXPECT_EQ(problem_of(minimal + "operator: {format: sum, parts: [{format: csr}]}")
                .settings.parameters.word("parts"),
            "csr");
}

TEST(ProblemFile, MistakesInPartsHaveAPlace) {
  const auto says = [](const std::string& op, const std::string& place, const std::string& part) {
    const std::string text = refusal_of(minimal + "operator:\n  " + op + "\n");
    EXPECT_NE(text.find("p.yaml:" + place + ":"), std::string::npos) << text;
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  says("{format: csr, parts: [{format: csr}]}", "3:24",
       "operator.parts belong to format sum; operator.format is csr");
  says("{format: sum, parts: csr}", "3:24", "must be a list of parts such as");
  says("{format: sum, parts: []}", "3:24", "must be a list of parts such as");
  says("{format: sum, parts: [{take: diagonals}, {format: csr}]}", "3:25",
       "operator.parts[0] needs the key 'format'");
  says("{format: sum, parts: [{format: dja, take: diagonals}, {format: csr}]}", "3:34",
       "there is no format 'dja'");
  says("{format: sum, parts: [{format: dia, take: diagonal}, {format: csr}]}", "3:45",
       "must be one of: diagonals, band, rows, width, blocks. Did you mean 'diagonals'?");
  says("{format: sum, parts: [{format: dia, take: {min_fill: 3}}, {format: csr}]}", "3:45",
       "needs the key 'rule', one of");
  says("{format: sum, parts: [{format: dia, take: {rule: diagonals, fill: 3}}, {format: csr}]}", "3:63",
       "min_fill");
  says("{format: sum, parts: [{format: dia, take: {rule: diagonals, min_fill: 300}}, {format: csr}]}", "3:73",
       "99");
  says("{format: sum, parts: [{format: dia}, {format: csr}]}", "3:25",
       "operator.parts[0] needs the key 'take'");
  says("{format: sum, parts: [{format: dia, take: diagonals}]}", "3:45",
       "operator.parts[0] is the last part");
  says("{format: sum, parts: [{format: dia, take: rest}, {format: csr}]}", "3:45",
       "only the last part takes");
  says("{format: sum, parts: [{format: ell, take: rows}, {format: csr}]}", "3:45",
       "longer_than, at_most or both");
  says("{format: sum, parts: [{format: cocktail}]}", "3:25", "a part cannot be a cocktail itself");
  says("{format: sum, parts: [{format: csr, kernel: magic}]}", "3:47", "format csr has");
  says("{format: sum, parts: [{format: csr, parameters: {balanc: rows}}]}", "3:52", "balance");
  says("{format: sum, parts: [{format: csr, fill: 3}]}", "3:39", "format, take, parameters, kernel");
  says("{format: sum, parts: [{format: csr}], parameters: {parts: csr}}", "3:53",
       "both parts and parameters");
  says("{format: sum, parameters: {parts: csr csr}}", "3:37", "must be '+'");
}

TEST(ProblemKeys, OfThePolicyHaveTheirEffect) {
  const Problem p =
      parse_problem("matrix: {file: A.mtx}\nschedule: {policy: auto, worst_factor: 1.25, most_switches: 7}\n",
                    "p.yaml", {});
  EXPECT_EQ(p.settings.policy_options.worst_factor, 1.25);
  EXPECT_EQ(p.settings.policy_options.most_switches, 7);
}

}  // namespace
}  // namespace protean::apps
