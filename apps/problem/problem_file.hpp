// The problem file: what to solve and how, as plain structs. problems/README.md describes the file.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/fem/problem.hpp"
#include "apps/problem/yaml_tree.hpp"
#include "core/csr.hpp"
#include "core/generate/generate.hpp"
#include "operators/assembled_matrix.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"
#include "systems/settings.hpp"

namespace protean::apps {

// A path as the user wrote it (`given`) and as it is opened (`path`: it begins at the folder of the problem
// file). Empty: no file.
struct FilePath {
  std::string given, path;
  Place place;
  explicit operator bool() const noexcept { return !path.empty(); }
};

struct MatrixSpec {
  FilePath file;     // empty: the matrix is generated
  std::string kind;  // of the generator
  GeneratorParams params;
  std::optional<fem::Spec> fem;  // for the kinds fem-hex and fem-tet, which have no params
  FilePath mesh;                 // for fem-tet; empty: the unit cube
  Duplicates duplicates = Duplicates::sum;
  double scale = 1;  // the system solved is (scale A) x = scale b
  Place scale_place;
  Place place;
};

// A vector: from a file, with one value everywhere, or of uniform random numbers in [-1, 1).
struct VectorSpec {
  FilePath file;
  std::optional<std::int64_t> seed;
  double value = 0;  // without file and seed
};

// Without rhs in the problem, x is a vector of random numbers: b = A x is in the range of A also where A is singular,
// the error of the result is known, and x has no structure that some matrices turn into an eigenvector.
struct RhsSpec {
  bool given = false;
  bool from_solution = true;  // true: the vector is x and b = A x; false: the vector is b
  VectorSpec vector{.file = {}, .seed = 1, .value = 0};
  // With a seed: the number of right-hand sides, of the seeds from there on. A file has its own number, which must be
  // this one if the key is given.
  std::int64_t columns = 1;
  std::optional<Place> columns_place;  // empty: the key is not given
  Place place;
};

// "b = A x, x of random numbers in [-1, 1), seed 1 (no rhs was given)", for people.
std::string rhs_text(const RhsSpec& rhs);

// Vectors near the null space of A, of a file; one of the two at most. See read_preconditioner_files().
struct NearNullSpaceSpec {
  FilePath coordinates, vectors;
};

// Files of preconditioner fields. See read_preconditioner_files().
struct FieldFiles {
  FilePath labels, schur_operator;
};

// operator.devices: the GPUs that share the rows of the system.
struct DevicesSpec {
  std::vector<int> numbers;    // empty with `all`
  bool all = false;            // of this machine
  std::optional<Place> place;  // empty: not given, and the solve has GPU 0
};

// Where and how the solve runs.
struct OperatorSpec {
  ElementScatter variant = ElementScatter::automatic;  // only with storage: element
  Space space = Space::host;
  DevicesSpec devices;
  int threads = 0;             // 0: OMP_NUM_THREADS, or all processors
  bool deterministic = false;  // mode of the context
};

// What is written under `schedule`, apart from the settings.
struct ScheduleSpec {
  std::vector<Place> places;  // of the points
  FilePath machine;           // the machine table of the policy; empty: see choose_machine()
  Place place;
};

// Who solves. petsc: protean-ranks, on one rank or several, as protean on several.
struct EngineSpec {
  std::string name = "auto";       // or protean, petsc
  std::string options;             // petsc: for PETSc's database
  std::string partition = "rows";  // of devices and ranks: rows, graph or file
  bool partition_given = false;
  FilePath partition_file;
  Place place, partition_place;  // place: of the key that asks for an engine, or of the problem
};

struct OutputSpec {
  FilePath solution, report, history, fields;

  // By key.
  std::array<std::pair<std::string_view, const FilePath*>, 4> files() const noexcept {
    return {{{"solution", &solution}, {"history", &history}, {"fields", &fields}, {"report", &report}}};
  }
  bool any() const noexcept { return solution || report || history || fields; }
};

struct Problem {
  std::string title, file;
  MatrixSpec matrix;
  RhsSpec rhs;
  VectorSpec initial_guess;
  // What the sections solver, preconditioner, operator and schedule say about the solve, and matrix.order.
  SolveSettings settings;
  std::map<std::string_view, Place> places;  // of the settings of solve_settings() that are given
  NearNullSpaceSpec near_null_space;
  std::shared_ptr<const MultiVector<double>>
      vectors;  // to which the settings refer; see read_preconditioner_files()
  FieldFiles fields;
  std::shared_ptr<const CsrMatrix<double>> schur_matrix;  // to which the settings refer
  OperatorSpec op;
  ScheduleSpec schedule;
  OutputSpec output;
  EngineSpec engine;

  // Of a setting; a place without line and column if it is not given.
  Place place_of(std::string_view setting) const {
    const auto found = places.find(setting);
    return found == places.end() ? Place() : found->second;
  }
};

// The type of preconditioner in a problem file: the name, or composition.
std::string_view preconditioner_type(const SolveSettings& settings);
// Null for none.
std::unique_ptr<Preconditioner<double>> make_preconditioner(const SolveSettings& settings,
                                                            const LinearOperator<double>& A);

// Reads a problem from its text and checks everything that can be checked without opening the files it names.
// `file` is shown in messages, and relative paths begin at its folder; paths of `output` that stand on the command line
// begin at the working folder. `settings` are assignments "key.path=value", `options` are options of the command, which
// come after them. Throws BadFile with line and column, or with `--set ...` or the option as the place.
Problem parse_problem(std::string_view text, const std::string& file,
                      std::span<const std::string> settings = {},
                      std::span<const OptionSetting> options = {});

// The title; if it has none, the file or the kind of its matrix.
std::string title_of(const Problem& problem);

// A file that the problem names at `path`. Relative paths begin at `folder`.
FilePath file_below(const std::filesystem::path& folder, const Node& node, const std::string& path);

// Reads a problem file (see read_problem_text()), or a matrix file, whose system has all defaults. Throws BadFile if
// the file cannot be read.
Problem read_problem(const std::string& file, std::span<const std::string> settings = {},
                     std::span<const OptionSetting> options = {});

}  // namespace protean::apps
