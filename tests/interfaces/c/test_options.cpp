// Names, options and contexts of the C interface.
#include <algorithm>
#include <string>
#include <vector>

#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "interfaces/c/c_api.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"

namespace protean::test {
namespace {

TEST_F(CApi, KnowsTheNamesOfTheLibrary) {
  std::vector<std::string> methods, kinds, formats;
  for (const SolverEntry& entry : solvers()) methods.emplace_back(entry.id);
  for (const PreconditionerEntry& entry : preconditioners()) kinds.emplace_back(entry.id);
  for (const FormatEntry* entry : catalogue()) formats.emplace_back(entry->id);
  EXPECT_EQ(names(PROTEAN_KIND_METHOD), methods);
  EXPECT_EQ(names(PROTEAN_KIND_PRECONDITIONER), kinds);
  EXPECT_EQ(names(PROTEAN_KIND_FORMAT), formats);
  EXPECT_EQ(names(PROTEAN_KIND_TRIGGER),
            (std::vector<std::string>{"at_iteration", "at_residual", "after_seconds"}));
  const std::string before = protean_last_error();
  EXPECT_EQ(protean_name(PROTEAN_KIND_METHOD, -1), nullptr);
  EXPECT_EQ(protean_last_error(), before) << "the end of a list is not an error";
  EXPECT_EQ(protean_name(static_cast<protean_kind>(15), 0), nullptr);
  EXPECT_TRUE(error_has("there is no kind 15 of names")) << protean_last_error();
  for (const std::string& method : methods) {
    create(method.c_str(), "jacobi");
    EXPECT_EQ(solve(), PROTEAN_OK) << method << ": " << protean_last_error();
    EXPECT_LE(residual(), 1.01e-8) << method;
  }
}

TEST_F(CApi, TakesDevicesByWords) {
  create("cg", "jacobi");
  for (const char* words : {"two", "", "0,0", "17", "0"})
    EXPECT_EQ(protean_solver_set_text(solver, "devices", words), PROTEAN_BAD_ARGUMENT) << words;
  EXPECT_EQ(protean_solver_set_text(solver, "device_partition", "grph"), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("Did you mean 'graph'?")) << protean_last_error();
  if (Context::device_count() == 0) {
    for (const char* words : {"all", "2", "0,1"})
      EXPECT_EQ(protean_solver_set_text(solver, "devices", words), PROTEAN_NOT_AVAILABLE) << words;
  }
  EXPECT_EQ(protean_solver_set_text(solver, "devices", "none"), PROTEAN_OK);
  EXPECT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_EQ(protean_solver_set_text(solver, "device_partition", "graph"), PROTEAN_OK);
  EXPECT_EQ(solve(), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("name devices")) << protean_last_error();
  EXPECT_EQ(protean_solver_set_text(solver, "device_partition", "rows"), PROTEAN_OK);
  EXPECT_EQ(solve(), PROTEAN_OK) << protean_last_error();
}

TEST_F(CApi, RefusalsNameWhatIsAllowed) {
  const auto lists_all = [](const std::vector<std::string>& all) {
    for (const std::string& name : all) EXPECT_TRUE(error_has(name)) << protean_last_error();
  };
  protean_solver* other = nullptr;
  EXPECT_EQ(protean_solver_create("cgg", "none", &other), PROTEAN_BAD_ARGUMENT);
  lists_all(names(PROTEAN_KIND_METHOD));
  EXPECT_EQ(protean_solver_create("cg", "jacobie", &other), PROTEAN_BAD_ARGUMENT);
  lists_all(names(PROTEAN_KIND_PRECONDITIONER));
  EXPECT_TRUE(error_has("Did you mean 'jacobi'?"));
  EXPECT_EQ(other, nullptr);
  EXPECT_EQ(protean_solver_set(solver, "tolerance", 1), PROTEAN_BAD_ARGUMENT);
  lists_all(names(PROTEAN_KIND_OPTION));
  EXPECT_EQ(protean_solver_set_text(solver, "policies", "auto"), PROTEAN_BAD_ARGUMENT);
  lists_all(names(PROTEAN_KIND_TEXT_OPTION));
  EXPECT_EQ(protean_solver_set_text(solver, "policy", "yes"), PROTEAN_BAD_ARGUMENT);
  lists_all({"'yes'", "none", "auto"});
  EXPECT_EQ(protean_solver_set_text(solver, "orthogonalization", "mgss"), PROTEAN_BAD_ARGUMENT);
  lists_all({"cgs2", "mgs", "Did you mean 'mgs'?"});
  EXPECT_EQ(protean_solver_schedule(solver, "at", 5, "ell", nullptr, nullptr, 0), PROTEAN_BAD_ARGUMENT);
  lists_all(names(PROTEAN_KIND_TRIGGER));
  EXPECT_EQ(protean_solver_schedule(solver, "at_iteration", 5, "elll", nullptr, nullptr, 0),
            PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("Did you mean 'ell'?")) << protean_last_error();
  EXPECT_EQ(protean_solver_schedule(solver, "at_iteration", 5, "auto", nullptr, nullptr, 0),
            PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_solver_schedule(solver, "at_iteration", -1, "ell", nullptr, nullptr, 0),
            PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_solver_schedule(solver, "at_iteration", 1, "ell", "C=8", nullptr, 0),
            PROTEAN_BAD_ARGUMENT);
  protean_context* none = nullptr;
  EXPECT_EQ(protean_context_make("host", 1, "deterministik", &none), PROTEAN_BAD_ARGUMENT);
  lists_all({"deterministic", "vector_kernels=native", "vector_kernels=kokkos"});
  EXPECT_EQ(protean_context_make("moon", 1, nullptr, &none), PROTEAN_BAD_ARGUMENT);
  lists_all({"host", "device"});
  EXPECT_EQ(none, nullptr);
  // None of them has changed the solver.
  EXPECT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_EQ(protean_solver_switches(solver), 0);
}

TEST_F(CApi, EveryNumberIsAnOption) {
  // Each is taken if a method or a preconditioner reads it, and refused otherwise.
  int taken = 0, refused = 0;
  for (const std::string& name : names(PROTEAN_KIND_OPTION)) {
    bool read = false;
    for (const std::string& method : names(PROTEAN_KIND_METHOD))
      for (const char* id :
           {"none", "ic", "ssor", "block-jacobi", "chebyshev", "isai", "subdomain-ilu0", "fields", "auto"}) {
        create(method.c_str(), find_solver(method).symmetric || method == "bicgstab" ? id : "none");
        const bool in_unit = name == "relative_tolerance" || name == "strong_threshold" ||
                             name == "strength" || name == "omega";
        const double value = in_unit ? 0.5 : name == "overlap" ? 1 : 2;
        const protean_status status = protean_solver_set(solver, name.c_str(), value);
        if (status == PROTEAN_OK) {
          read = true, ++taken;
        } else {
          EXPECT_EQ(status, PROTEAN_BAD_ARGUMENT) << name << protean_last_error();
          EXPECT_TRUE(error_has(name + " is for ")) << protean_last_error();
          ++refused;
        }
      }
    if (std::string(protean_last_error()).find("amg") == std::string::npos) { EXPECT_TRUE(read) << name; }
  }
  EXPECT_GT(taken, 100);
  EXPECT_GT(refused, 100);
  create("cg", "none");
  EXPECT_EQ(protean_solver_set(solver, "absolute_tolerance", 1e3), PROTEAN_OK);
  EXPECT_EQ(solve(), PROTEAN_OK) << "the initial guess is good enough";
  EXPECT_EQ(protean_solver_iterations(solver), 0);
}

TEST_F(CApi, WordsAreOptions) {
  // A good initial guess: relative to its residual there is more to do than relative to b.
  ASSERT_EQ(protean_solver_set(solver, "relative_tolerance", 1e-3), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_EQ(protean_solve(solver, A, b.data(), x.data()), PROTEAN_OK);
  EXPECT_EQ(protean_solver_iterations(solver), 0);
  ASSERT_EQ(protean_solver_set_text(solver, "baseline", "initial-residual"), PROTEAN_OK);
  EXPECT_EQ(protean_solve(solver, A, b.data(), x.data()), PROTEAN_OK);
  EXPECT_GT(protean_solver_iterations(solver), 0);
  EXPECT_LE(residual(), 1e-5);
  ASSERT_EQ(protean_solver_set_text(solver, "baseline", "rhs"), PROTEAN_OK);
  EXPECT_EQ(protean_solve(solver, A, b.data(), x.data()), PROTEAN_OK);
  EXPECT_EQ(protean_solver_iterations(solver), 0);

  // A row without diagonal entry.
  const std::int32_t ptr[] = {0, 1, 2}, columns[] = {1, 0};
  const double ones[] = {1, 1}, right[] = {1, 2};
  double y[] = {0, 0};
  protean_matrix* swap = nullptr;
  ASSERT_EQ(protean_matrix_csr(context, 2, 2, 2, ptr, columns, ones, 0, &swap), PROTEAN_OK);
  create("gmres", "jacobi");
  EXPECT_EQ(protean_solve(solver, swap, right, y), PROTEAN_BAD_MATRIX);
  ASSERT_EQ(protean_solver_set_text(solver, "zero_diagonal", "one"), PROTEAN_OK);
  EXPECT_EQ(protean_solve(solver, swap, right, y), PROTEAN_OK) << protean_last_error();
  EXPECT_NEAR(y[0], 2, 1e-8);
  ASSERT_EQ(protean_solver_set_text(solver, "zero_diagonal", "error"), PROTEAN_OK);
  EXPECT_EQ(protean_solve(solver, swap, right, y), PROTEAN_BAD_MATRIX);
  EXPECT_EQ(protean_solver_set_text(solver, "orthogonalization", "mgs"), PROTEAN_OK);
  // Errors show when the solve begins.
  EXPECT_EQ(protean_solver_set_text(solver, "device_steps", "graph"), PROTEAN_OK);
  EXPECT_EQ(protean_solver_set_text(solver, "zero_diagonal", "one"), PROTEAN_OK);
  EXPECT_EQ(protean_solve(solver, swap, right, y), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("device_steps is 'graph', but the operator is not on a GPU; leave it at 'auto'"))
      << protean_last_error();
  protean_matrix_free(swap);

  create("cg", "block-jacobi");
  EXPECT_EQ(protean_solver_set_text(solver, "diagonal_blocks", "found"), PROTEAN_OK);
  EXPECT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_EQ(protean_solver_set_text(solver, "diagonal_blocks", "given"), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("one of: equal, found")) << protean_last_error();

  // Sweeps approximate the solves with the factors.
  create("cg", "ic0");
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  const std::int64_t exact = protean_solver_iterations(solver);
  ASSERT_EQ(protean_solver_set_text(solver, "triangular_solve", "sweeps"), PROTEAN_OK);
  ASSERT_EQ(protean_solver_set(solver, "sweeps", 1), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_GT(protean_solver_iterations(solver), exact);
  ASSERT_EQ(protean_solver_set_text(solver, "triangular_solve", "cusparse"), PROTEAN_OK);
  EXPECT_EQ(solve(), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("sweeps is for triangular_solve: sweeps; triangular_solve is cusparse: set it to 4 "))
      << protean_last_error();
  ASSERT_EQ(protean_solver_set(solver, "sweeps", 4), PROTEAN_OK);
  EXPECT_EQ(solve(), PROTEAN_NOT_AVAILABLE);
  EXPECT_TRUE(error_has("take levels or sweeps")) << protean_last_error();
  EXPECT_EQ(protean_solver_set_text(solver, "triangular_solve", "level"), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("Did you mean 'levels'?")) << protean_last_error();
}

// The setup of hypre is in a build with hypre only; its options are known in any.
TEST_F(CApi, MultigridAndItsSetups) {
  for (const char* option : {"aggressive_levels", "max_levels", "cycles"}) {
    EXPECT_EQ(protean_solver_set(solver, option, 2), PROTEAN_BAD_ARGUMENT);
    EXPECT_TRUE(error_has(std::string(option) + " is for preconditioner amg; the preconditioner is "))
        << protean_last_error();
  }
  EXPECT_EQ(protean_solver_set(solver, "unknowns", 2), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("unknowns is for preconditioners amg and auto; the preconditioner is "))
      << protean_last_error();
  EXPECT_EQ(protean_solver_set_text(solver, "smoother", "jacobi"), PROTEAN_BAD_ARGUMENT);
  for (const char* word : {"l1-jacobi", "gauss-seidel", "chebyshev"})
    EXPECT_TRUE(error_has(word)) << protean_last_error();
  EXPECT_EQ(protean_solver_set_text(solver, "coarsening", "hmiss"), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("Did you mean 'hmis'?")) << protean_last_error();
  create("cg", "none");
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  const std::int64_t plain = protean_solver_iterations(solver);
  create("cg", "amg");
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_LT(protean_solver_iterations(solver), plain);
  EXPECT_LE(residual(), 1.01e-8);
  EXPECT_EQ(protean_solver_set(solver, "cycles", 0), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("cycles is 0; it must be a whole number from 1 to 100")) << protean_last_error();
  EXPECT_EQ(protean_solver_set(solver, "cycles", 2), PROTEAN_OK);
  EXPECT_EQ(protean_solver_set(solver, "strength", 0.01), PROTEAN_OK);
  EXPECT_EQ(protean_solver_set_text(solver, "level_format", "csr"), PROTEAN_OK);
  EXPECT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  create("cg", "amg");
  EXPECT_EQ(protean_solver_set_text(solver, "amg_setup", "classical"), PROTEAN_OK);
  if (!unavailable(AmgSetup::classical).empty()) {
    EXPECT_EQ(solve(), PROTEAN_NOT_AVAILABLE);
    EXPECT_TRUE(error_has("PROTEAN_HYPRE=ON")) << protean_last_error();
    return;
  }
  EXPECT_EQ(protean_solver_set(solver, "strong_threshold", 0.5), PROTEAN_OK);
  EXPECT_EQ(protean_solver_set_text(solver, "smoother", "gauss-seidel"), PROTEAN_OK);
  EXPECT_EQ(protean_solver_set_text(solver, "coarsening", "pmis"), PROTEAN_OK);
  EXPECT_EQ(solve(), PROTEAN_OK) << protean_last_error();
}

TEST_F(CApi, AContextMayBeDeterministic) {
  protean_context* same = nullptr;
  ASSERT_EQ(protean_context_make("host", 2, "deterministic,vector_kernels=native", &same), PROTEAN_OK)
      << protean_last_error();
  protean_matrix* matrix = nullptr;
  ASSERT_EQ(protean_matrix_csr(same, n, n, nonzeros, row_ptr.data(), col.data(), values.data(), 0, &matrix),
            PROTEAN_OK);
  // A kernel of a library has no such mode; if it is not in the build, that is said first.
  for (const char* kernel : {"mkl", "kokkos"}) {
    const protean_status plain = protean_matrix_set_format(A, "csr", nullptr, kernel);
    EXPECT_EQ(protean_matrix_set_format(matrix, "csr", nullptr, kernel),
              plain == PROTEAN_OK ? PROTEAN_FORMAT_REFUSED : PROTEAN_NOT_AVAILABLE)
        << kernel << ": " << protean_last_error();
  }
  protean_matrix_free(matrix);
  protean_context_free(same);
}

// Rigid body modes equal the modes of C++, and a solver with amg takes them, or other vectors, and drops them again.
TEST_F(CApi, VectorsNearTheNullSpace) {
  const std::int64_t m = 7, nodes = 6 * m * m;
  const CsrMatrix<double> csr = generate(test_context(), "elasticity-3d", {{"n", 6}});
  ASSERT_EQ(csr.rows(), 3 * nodes);
  std::vector<double> places(static_cast<std::size_t>(3 * nodes)),
      modes(static_cast<std::size_t>(18 * nodes));
  MultiVector<double> columns(test_context(), nodes, 3);
  for (std::int64_t node = 0; node < nodes; ++node)
    for (std::int64_t k = 0; k < 3; ++k) {
      const std::int64_t at[] = {node % 6 + 1, node / 6 % m, node / 6 / m};
      places[static_cast<std::size_t>(3 * node + k)] = columns.view()(node, k) = static_cast<double>(at[k]);
    }
  ASSERT_EQ(protean_rigid_body_modes(nodes, 3, places.data(), modes.data()), PROTEAN_OK)
      << protean_last_error();
  const MultiVector<double> expected = rigid_body_modes(test_context(), columns);
  ASSERT_EQ(expected.columns(), 6);
  EXPECT_TRUE(std::equal(modes.begin(), modes.end(), expected.data()));
  EXPECT_EQ(protean_rigid_body_modes(nodes, 4, places.data(), modes.data()), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_rigid_body_modes(-1, 3, places.data(), modes.data()), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_rigid_body_modes(nodes, 3, nullptr, modes.data()), PROTEAN_BAD_ARGUMENT);

  std::vector<std::int32_t> rows;
  for (std::int64_t r = 0; r <= csr.rows(); ++r)
    rows.push_back(static_cast<std::int32_t>(csr.pattern.row_ptr[r]));
  protean_matrix* body = nullptr;
  ASSERT_EQ(protean_matrix_csr(context, csr.rows(), csr.rows(), csr.nonzeros(), rows.data(), csr.pattern.col,
                               csr.values, 0, &body),
            PROTEAN_OK);
  const std::vector<double> right = sample_vector<double>(csr.rows(), 3);
  const auto iterations = [&] {
    std::vector<double> solution(right.size(), 0.0);
    EXPECT_EQ(protean_solve(solver, body, right.data(), solution.data()), PROTEAN_OK) << protean_last_error();
    return protean_solver_iterations(solver);
  };
  create("cg", "amg");
  ASSERT_EQ(protean_solver_set(solver, "unknowns", 3), PROTEAN_OK);
  const auto constants = iterations();
  ASSERT_EQ(protean_solver_set_near_null_space(solver, 3 * nodes, 6, modes.data()), PROTEAN_OK);
  const auto with_modes = iterations();
  EXPECT_LT(with_modes, constants);
  // They are copied, and others with the same address are others.
  std::vector<double> translations(modes.begin(), modes.begin() + 9 * nodes);
  std::fill(modes.begin(), modes.end(), 0.0);
  EXPECT_EQ(iterations(), with_modes);
  ASSERT_EQ(protean_solver_set_near_null_space(solver, 3 * nodes, 3, translations.data()), PROTEAN_OK);
  EXPECT_EQ(iterations(), constants);
  ASSERT_EQ(protean_solver_set_near_null_space(solver, 0, 0, nullptr), PROTEAN_OK);
  EXPECT_EQ(iterations(), constants);
  // Refused: another number of rows by the solve, the others at once.
  ASSERT_EQ(protean_solver_set_near_null_space(solver, 3 * nodes - 3, 3, translations.data()), PROTEAN_OK);
  std::vector<double> solution(right.size(), 0.0);
  EXPECT_EQ(protean_solve(solver, body, right.data(), solution.data()), PROTEAN_SHAPE_MISMATCH);
  EXPECT_EQ(protean_solver_set_near_null_space(solver, 3 * nodes, 65, modes.data()), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_solver_set_near_null_space(solver, 3 * nodes, -1, modes.data()), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_solver_set_near_null_space(solver, -1, 1, modes.data()), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_solver_set_near_null_space(solver, 3 * nodes, 1, nullptr), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_solver_set_near_null_space(nullptr, 3 * nodes, 1, modes.data()), PROTEAN_BAD_ARGUMENT);
  create("cg", "jacobi");
  EXPECT_EQ(protean_solver_set_near_null_space(solver, 3 * nodes, 3, translations.data()),
            PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("amg and auto, and jacobi")) << protean_last_error();
  protean_matrix_free(body);
}

// Labels of rows for preconditioner fields are what the text option says.
TEST_F(CApi, LabelsOfFields) {
  const CsrMatrix<double> csr = generate(Context::host(1), "stokes-2d", {{"n", 8}});
  std::vector<std::int32_t> rows;
  for (std::int64_t r = 0; r <= csr.rows(); ++r)
    rows.push_back(static_cast<std::int32_t>(csr.pattern.row_ptr[r]));
  protean_matrix* system = nullptr;
  ASSERT_EQ(protean_matrix_csr(context, csr.rows(), csr.rows(), csr.nonzeros(), rows.data(), csr.pattern.col,
                               csr.values, 0, &system),
            PROTEAN_OK);
  std::vector<double> right = sample_vector<double>(csr.rows(), 3);
  std::fill(right.begin() + 112, right.end(), 0.0);  // nothing flows through the border
  const auto solved = [&](std::vector<double>& solution) {
    solution.assign(right.size(), 0.0);
    return protean_solve(solver, system, right.data(), solution.data());
  };
  std::vector<std::int32_t> labels(right.size(), 3);
  for (std::size_t i = 112; i < labels.size(); ++i) labels[i] = 7;
  std::vector<double> expected, solution;
  create("gmres", "fields");
  ASSERT_EQ(protean_solver_set_text(solver, "fields", "3 0-111, 7 112-"), PROTEAN_OK);
  ASSERT_EQ(solved(expected), PROTEAN_OK);
  create("gmres", "fields");
  ASSERT_EQ(protean_solver_set_labels(solver, csr.rows(), labels.data()), PROTEAN_OK);
  std::fill(labels.begin(), labels.end(), 0);  // they were copied
  ASSERT_EQ(solved(solution), PROTEAN_OK);
  EXPECT_EQ(solution, expected);
  // Another number of rows is refused by the solve, the others at once.
  ASSERT_EQ(protean_solver_set_labels(solver, csr.rows() - 1, labels.data()), PROTEAN_OK);
  EXPECT_EQ(solved(solution), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("row 175 (counted from 0) is in no field")) << protean_last_error();
  ASSERT_EQ(protean_solver_set_labels(solver, 0, nullptr), PROTEAN_OK);
  EXPECT_EQ(solved(solution), PROTEAN_OK);
  labels[5] = -1;
  EXPECT_EQ(protean_solver_set_labels(solver, csr.rows(), labels.data()), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("the label of row 5 is -1")) << protean_last_error();
  EXPECT_EQ(protean_solver_set_labels(solver, -1, labels.data()), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_solver_set_labels(nullptr, csr.rows(), labels.data()), PROTEAN_BAD_ARGUMENT);
  create("cg", "jacobi");
  labels[5] = 0;
  EXPECT_EQ(protean_solver_set_labels(solver, csr.rows(), labels.data()), PROTEAN_BAD_ARGUMENT);
  protean_matrix_free(system);
}

}  // namespace
}  // namespace protean::test
