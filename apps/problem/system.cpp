#include "apps/problem/system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "apps/problem/devices.hpp"
#include "apps/problem/engine_keys.hpp"
#include "core/blas1.hpp"
#include "core/io/matrix_market.hpp"
#include "core/io/vector_file.hpp"
#include "core/parallel.hpp"
#include "formats/catalogue.hpp"
#include "formats/selectors/selector.hpp"
#include "preconditioners/multigrid/near_null_space.hpp"

namespace protean::apps {
namespace {

// So many vectors, one after another: of a file, which says how many, or `columns`.
VectorColumns make_vectors(const ContextPtr& context, const VectorSpec& spec, std::int64_t size,
                           std::int64_t columns, std::string_view key) {
  if (spec.file) {
    VectorColumns vectors = read_vectors(context, spec.file.path);
    const std::int64_t found = vectors.columns == 0 ? 0 : vectors.entries.size() / vectors.columns;
    if (found != size || vectors.columns == 0)
      fail(spec.file.place,
           fmt::format("{}: '{}' has {} entries{}; the matrix has {} rows", key, spec.file.path, found,
                       vectors.columns > 1 ? " in each column" : "", size));
    return vectors;
  }
  VectorColumns vectors{Vector<double>(context, size * columns), columns};
  parallel(*context, [&](int part, int parts) {
    const Range range = even_range(size, part, parts);
    for (std::int64_t j = 0; j < columns; ++j)
      for (std::int64_t i = range.begin; i < range.end; ++i)
        vectors.entries[i + j * size] =
            spec.seed ? random_value(static_cast<std::uint64_t>(*spec.seed + j), i) : spec.value;
  });
  return vectors;
}

std::string_view rhs_key(const Problem& problem) {
  return problem.rhs.from_solution ? "rhs.solution.file" : "rhs.file";
}

// The right-hand sides of the scaled system, or the solutions from which they are made, and the initial guesses: one
// for each, or one for all.
void make_right_sides(const ContextPtr& host, const Problem& problem, std::int64_t rows, bool several,
                      ProblemSystem& system) {
  VectorColumns b = make_vectors(host, problem.rhs.vector, rows, problem.rhs.columns, rhs_key(problem));
  if (problem.rhs.columns_place && b.columns != problem.rhs.columns)
    fail(*problem.rhs.columns_place,
         fmt::format("rhs.columns is {}, but '{}' has {}; make the two numbers equal, or leave the key out",
                     problem.rhs.columns, problem.rhs.vector.file.path,
                     b.columns == 1 ? std::string("1 column") : fmt::format("{} columns", b.columns)));
  if (b.columns > 1 && !several)
    fail(problem.rhs.vector.file ? problem.rhs.vector.file.place : problem.rhs.place,
         fmt::format("there are {} right-hand sides; this command takes one: protean solve takes several",
                     b.columns));
  if (problem.matrix.scale != 1 && !problem.rhs.from_solution)
    scale<double>(*host, problem.matrix.scale, b.entries);
  system.columns = b.columns, system.b = std::move(b.entries);
  VectorColumns x0 = make_vectors(host, problem.initial_guess, rows, 1, "initial_guess.file");
  if (x0.columns != 1 && x0.columns != b.columns)
    fail(problem.initial_guess.file.place,
         fmt::format("initial_guess.file has {} columns; there are {} right-hand sides", x0.columns,
                     b.columns));
  if (x0.columns == b.columns) {
    system.x0 = std::move(x0.entries);
    return;
  }
  system.x0 = Vector<double>(host, rows * b.columns);
  for (std::int64_t j = 0; j < b.columns; ++j)
    copy<double>(*host, x0.entries, {system.x0.data() + j * rows, rows, Space::host});
}

// b_j := A x_j for the vectors x_j in system.b, which become the exact solutions.
void multiply_solutions(const LinearOperator<double>& A, const ContextPtr& host, ProblemSystem& system) {
  const std::int64_t rows = A.rows();
  const Context& context = *A.context();
  system.exact = std::move(system.b);
  system.b = Vector<double>(host, rows * system.columns);
  Vector<double> x(A.context(), rows), y(A.context(), rows);
  for (std::int64_t j = 0; j < system.columns; ++j) {
    copy<double>(context, VectorView<const double>{system.exact.data() + j * rows, rows, Space::host}, x);
    A.apply(x, y);
    copy<double>(context, y, {system.b.data() + j * rows, rows, Space::host});
  }
}

std::string matrix_name(const MatrixSpec& spec) {
  return spec.file ? fmt::format("the matrix '{}'", spec.file.path) : "the matrix";
}

// The system for a solve on element matrices.
ProblemSystem make_element_system(const ContextPtr& host, const Problem& problem, const ContextPtr& context,
                                  bool several) {
  ProblemSystem system;
  fem::System source = fem::make_system(*host, *problem.matrix.fem);
  for (double& value : source.matrices) value *= problem.matrix.scale;
  system.elements = source.on(context, problem.op.variant);
  const std::int64_t rows = system.elements->rows();
  if (rows == 0)
    fail(problem.matrix.place, "all nodes of the mesh are on its boundary; there is nothing to solve");
  make_right_sides(host, problem, rows, several, system);
  if (problem.rhs.from_solution) multiply_solutions(*system.elements, host, system);
  return system;
}

}  // namespace

// It is a hash (splitmix64) of seed and index, so it does not depend on the number of threads.
double random_value(std::uint64_t seed, std::int64_t index) {
  std::uint64_t z =
      seed * 0xd1342543de82ef95ULL + 0x9e3779b97f4a7c15ULL * (static_cast<std::uint64_t>(index) + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1p-52 - 1;
}

ContextPtr device_context(const DeviceOptions& options, int number) {
  try {
    return device_source().context(number, options);
  } catch (const NotAvailable& error) {
    throw NotAvailable(fmt::format(
        "operator.space is device, but {}. `protean doctor` says more. On the CPU: --set operator.space=host",
        error.what()));
  }
}

Contexts make_contexts(const Problem& problem) {
  const OperatorSpec& op = problem.op;
  const bool on_device = op.space == Space::device;
  const auto kernels = problem.settings.kernel == to_string(VectorKernels::kokkos) ? VectorKernels::kokkos
                                                                                   : VectorKernels::native;
  Contexts contexts;
  contexts.host = Context::host(op.threads, {.vector_kernels = on_device ? VectorKernels::native : kernels,
                                             .deterministic = op.deterministic});
  contexts.solve = contexts.host;
  if (!on_device) return contexts;
  contexts.numbers = devices_of(problem);
  for (const int number : contexts.numbers)
    contexts.devices.push_back(
        device_context({.vector_kernels = kernels, .deterministic = op.deterministic}, number));
  contexts.solve = contexts.devices.front();
  if (contexts.devices.size() == 1) contexts.devices.clear();
  return contexts;
}

double products_of(std::string_view method) {
  return method == "auto" ? 1 : static_cast<double>(find_solver(method).products);
}

ChoiceOptions choice_options(const Problem& problem, Space space) {
  return {.space = space,
          .expected_iterations = problem.settings.expected_iterations,
          .products_per_iteration = products_of(problem.settings.method),
          .deterministic = problem.op.deterministic,
          .selector = find_selector(problem.settings.selector, space).name()};
}

Vector<double> moved(const ContextPtr& target, const Context& device, Vector<double>&& vector) {
  Vector<double> copied(target, vector.size());
  copy<double>(device, vector, copied);
  return copied;
}

CsrMatrix<double> scaled(const ContextPtr& host, const CsrMatrix<double>& matrix, double factor,
                         const Place& place) {
  if (factor == 1) return matrix;
  const auto values = std::make_shared<Buffer<double>>(host, matrix.nonzeros());
  std::atomic<bool> infinite{false};
  parallel(*host, [&](int part, int parts) {
    const Range range = even_range(matrix.nonzeros(), part, parts);
    bool finite = true;
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      (*values)[i] = factor * matrix.values[i];
      finite = finite && std::isfinite((*values)[i]);
    }
    if (!finite) infinite = true;
  });
  if (infinite)
    fail(place,
         fmt::format("with a scale of {:g} an entry of the matrix becomes infinite; take a smaller one",
                     factor));
  CsrMatrix<double> result = matrix;
  result.values = values->data(), result.values_owner = values;
  return result;
}

namespace {

void require_entries(const MatrixSpec& spec, std::int64_t rows, std::int64_t cols) {
  if (rows == 0 || cols == 0)
    fail(spec.place,
         fmt::format("{} is empty ({} x {}); there is nothing to solve", matrix_name(spec), rows, cols));
}

}  // namespace

void require_system(const Problem& problem, std::int64_t rows, std::int64_t cols) {
  require_entries(problem.matrix, rows, cols);
  if (rows != cols)
    fail(problem.matrix.place,
         fmt::format("{} has {} rows and {} columns; a system A x = b needs a square one",
                     matrix_name(problem.matrix), rows, cols));
}

CsrMatrix<double> make_matrix_data(const ContextPtr& context, const MatrixSpec& spec) {
  CsrMatrix<double> csr;
  if (spec.fem && !spec.fem->assembled)
    fail(spec.place,
         "with storage: element there is no assembled matrix, which this command needs; use storage: "
         "assembled (--set matrix.generate.storage=assembled, and --set operator={} where the file has "
         "operator.variant)");
  if (spec.fem)
    csr = fem::make_system(*context, *spec.fem).on(context, ElementScatter::automatic)->assemble();
  else if (spec.file)
    csr = read_matrix(context, spec.file.path, {.duplicates = spec.duplicates, .allow_not_finite = false});
  else
    csr = generate(context, spec.kind, spec.params);
  require_entries(spec, csr.rows(), csr.cols());
  return scaled(context, csr, spec.scale, spec.scale_place);
}

ProblemSystem make_system(const ContextPtr& host, const Problem& problem, const ContextPtr& context,
                          bool several) {
  ProblemSystem system;
  if (problem.matrix.fem && !problem.matrix.fem->assembled && context)
    return make_element_system(host, problem, context, several);
  system.csr = make_matrix_data(host, problem.matrix);
  const CsrMatrix<double>& csr = system.csr;
  require_system(problem, csr.rows(), csr.cols());
  make_right_sides(host, problem, csr.rows(), several, system);
  if (problem.rhs.from_solution)
    multiply_solutions(*make_matrix(find_format("csr"), csr, host), host, system);
  return system;
}

namespace {

void read_near_null_space(const ContextPtr& host, Problem& problem, std::int64_t rows) {
  const NearNullSpaceSpec& spec = problem.near_null_space;
  PreconditionerOptions& options = problem.settings.preconditioning;
  const bool places = static_cast<bool>(spec.coordinates);
  const FilePath& file = places ? spec.coordinates : spec.vectors;
  if (!file) return;
  const VectorColumns read = read_vectors(host, file.path);
  const std::int64_t columns = read.columns, length = columns == 0 ? 0 : read.entries.size() / columns;
  const MultiVectorView<const double> vectors{read.entries.data(), length, columns, length};
  const std::string found = fmt::format("'{}' has {} x {} numbers", file.path, length, columns);
  if (!places) {
    if (length != rows || columns < 1 || columns > 64)
      fail(file.place,
           fmt::format(
               "preconditioner.near_null_space: {}; it must have {} rows, as the matrix, and 1 to 64 columns",
               found, rows));
    auto copied = std::make_shared<MultiVector<double>>(host, length, columns);
    std::copy_n(read.entries.data(), length * columns, copied->data());
    try {
      (void)detail::near_null_space_of(rows, *copied);
    } catch (const BadArgument& error) {
      fail(file.place, fmt::format("preconditioner.near_null_space: '{}': {}", file.path, error.what()));
    }
    problem.vectors = std::move(copied);
  } else {
    if ((columns != 2 && columns != 3) || length * columns != rows)
      fail(file.place,
           fmt::format("preconditioner.coordinates: {}; it must have 2 or 3 columns and a row for each node, "
                       "and the matrix has {} rows, one for each displacement of a node",
                       found, rows));
    if (options.unknowns != 1 && options.unknowns != columns)
      fail(file.place,
           fmt::format("preconditioner.coordinates: {}, and preconditioner.unknowns is {}; leave that out",
                       found, options.unknowns));
    try {
      problem.vectors = std::make_shared<const MultiVector<double>>(rigid_body_modes(host, vectors));
      (void)detail::near_null_space_of(rows, *problem.vectors);
    } catch (const BadArgument& error) {
      fail(file.place, fmt::format("preconditioner.coordinates: '{}': {}", file.path, error.what()));
    }
    options.unknowns = columns;
  }
  options.near_null_space = problem.vectors.get();
}

void read_labels(const ContextPtr& host, Problem& problem, std::int64_t rows) {
  const FilePath& file = problem.fields.labels;
  if (!file) return;
  const Vector<double> read = read_vector(host, file.path);
  if (read.size() != rows)
    fail(file.place,
         fmt::format("preconditioner.labels: '{}' has {} numbers; it must have {}, one for each row of the "
                     "matrix",
                     file.path, read.size(), rows));
  std::vector<std::int32_t> labels(static_cast<std::size_t>(rows));
  for (std::int64_t i = 0; i < rows; ++i) {
    if (!(read[i] >= 0 && read[i] <= 2147483647.0) || read[i] != std::floor(read[i]))
      fail(file.place,
           fmt::format("preconditioner.labels: number {} (from 0) of '{}' is {}; it must be a whole number "
                       "from 0 to 2147483647",
                       i, file.path, read[i]));
    labels[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(read[i]);
  }
  problem.settings.preconditioning.fields = fields_of_labels(labels);
}

}  // namespace

void read_preconditioner_files(const ContextPtr& host, Problem& problem, std::int64_t rows) {
  read_near_null_space(host, problem, rows);
  read_labels(host, problem, rows);
  const FilePath& schur = problem.fields.schur_operator;
  if (!schur) return;
  problem.schur_matrix = std::make_shared<const CsrMatrix<double>>(read_matrix(host, schur.path));
  problem.settings.preconditioning.schur_operator = problem.schur_matrix.get();
}

double relative_error(VectorView<const double> x, VectorView<const double> exact) {
  double difference = 0, norm = 0;
  for (std::int64_t i = 0; i < x.size; ++i) {
    difference += (x[i] - exact[i]) * (x[i] - exact[i]);
    norm += exact[i] * exact[i];
  }
  return std::sqrt(difference / (norm > 0 ? norm : 1));
}

}  // namespace protean::apps
