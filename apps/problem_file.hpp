// The problem file: what to solve and how, read from YAML into plain structs. README.md in problems/
// describes it.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/fem/problem.hpp"
#include "apps/yaml_tree.hpp"
#include "core/csr.hpp"
#include "core/generate/generate.hpp"
#include "operators/assembled_matrix.hpp"
#include "operators/switch_policy.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/format_schedule.hpp"
#include "solvers/solver.hpp"

namespace protean::apps {

// A path as it was written and as it is opened (relative to the folder of the problem file). Empty: none.
struct FilePath {
  std::string given, path;
  Place place;
  explicit operator bool() const noexcept { return !path.empty(); }
};

struct MatrixSpec {
  FilePath file;     // or, when empty,
  std::string kind;  // of generator
  GeneratorParams params;
  std::optional<fem::Spec> fem;  // kinds fem-hex and fem-tet, which have no params
  FilePath mesh;                 // of fem-tet
  Duplicates duplicates = Duplicates::sum;
  double scale = 1;  // the system solved is (scale A) x = scale b
  Place scale_place;
  Place place;
};

// A vector: from a file, one number throughout, or uniform random numbers of [-1, 1).
struct VectorSpec {
  FilePath file;
  std::optional<std::int64_t> seed;
  double value = 0;  // when neither
};

struct RhsSpec {
  bool from_solution = true;  // b = A x with x as given; else b itself is given
  VectorSpec vector{.file = {}, .seed = {}, .value = 1};
};

struct SolverSpec {
  std::string method = "cg";
  SolverOptions options;
};

struct PreconditionerSpec {
  std::string type = "none";
  PreconditionerOptions options;
};

struct OperatorSpec {
  std::string format = "auto";
  FormatParams parameters;
  std::string kernel = "native";
  ElementScatter variant = ElementScatter::automatic;  // storage: element only
  Space space = Space::host;
  int threads = 0;                       // 0: what OMP_NUM_THREADS says, or all
  bool deterministic = false;            // of the context
  std::int64_t expected_iterations = 0;  // for format auto; 0: not known
};

// Changes of format while solving: points named beforehand, or left to a policy.
struct ScheduleSpec {
  std::vector<SchedulePoint> points;
  bool automatic = false;          // by the policy, with
  FilePath machine;                // the table to predict with; empty: see choose_machine()
  std::optional<bool> overlapped;  // empty: on a host with a processor to spare
  PolicyOptions policy;            // the rest
  Place place;
};

struct OutputSpec {
  FilePath solution, report, history;
};

struct Problem {
  std::string title, file;
  MatrixSpec matrix;
  RhsSpec rhs;
  VectorSpec initial_guess;
  SolverSpec solver;
  PreconditionerSpec preconditioner;
  OperatorSpec op;
  ScheduleSpec schedule;
  OutputSpec output;
};

// Checks everything that can be known from the text alone; no file it names is opened. `file` stands in
// messages and its folder is where relative paths begin. Throws BadFile with line and column, or with `--set
// ...` as the place.
Problem parse_problem(std::string_view text, const std::string& file,
                      std::span<const std::string> settings = {});

// Throw BadFile when the file cannot be read.
std::string read_problem_text(const std::string& file);
Problem read_problem(const std::string& file, std::span<const std::string> settings = {});

}  // namespace protean::apps
