// The C interface: handles that hold C++ objects. Exceptions become a status and a text.
#include "protean.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "core/csr_view.hpp"
#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "formats/choose.hpp"
#include "operators/elements/element_operator.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"

using namespace protean;

struct protean_context {
  ContextPtr context;
};

// Either a CSR matrix (`csr`, and `assembled` in its present format) or element matrices (`elements`).
struct protean_matrix {
  ContextPtr context;
  CsrMatrix<double> csr;
  std::unique_ptr<AssembledMatrix<double>> assembled;
  std::unique_ptr<ElementOperator<double>> elements;
  ElementGroup<double> group;  // sizes only
  std::string format;
  const LinearOperator<double>& A() const {
    return elements ? static_cast<const LinearOperator<double>&>(*elements) : *assembled;
  }
};

struct protean_solver {
  std::string method, preconditioner_id;
  SolverOptions options;
  std::unique_ptr<Solver<double>> solver;
  std::unique_ptr<Preconditioner<double>> preconditioner;
  PreconditionerOptions preconditioner_options;
  std::uint64_t preconditioner_of = 0;  // serial of the operator it was made for
  SolveReport report;
  std::string reason, advice;
};

namespace {

thread_local std::string last_error;

protean_status failed(protean_status status, const char* text) noexcept {
  try {
    last_error = text;
  } catch (...) { last_error.clear(); }
  return status;
}

// Runs body() and turns an exception into its status.
template <class Body>
protean_status guarded(Body body) noexcept {
  try {
    body();
    return PROTEAN_OK;
  } catch (const FormatRefused& e) {
    return failed(PROTEAN_FORMAT_REFUSED, e.what());
  } catch (const ShapeMismatch& e) {
    return failed(PROTEAN_SHAPE_MISMATCH, e.what());
  } catch (const ArraysChanged& e) {
    return failed(PROTEAN_ARRAYS_CHANGED, e.what());
  } catch (const BadMatrix& e) {
    return failed(PROTEAN_BAD_MATRIX, e.what());
  } catch (const NotAvailable& e) {
    return failed(PROTEAN_NOT_AVAILABLE, e.what());
  } catch (const OutOfMemory& e) {
    return failed(PROTEAN_OUT_OF_MEMORY, e.what());
  } catch (const DeviceError& e) {
    return failed(PROTEAN_DEVICE_ERROR, e.what());
  } catch (const Error& e) {  // BadArgument, WrongSpace
    return failed(PROTEAN_BAD_ARGUMENT, e.what());
  } catch (const std::bad_alloc&) {
    return failed(PROTEAN_OUT_OF_MEMORY, "no memory left");
  } catch (const std::exception& e) { return failed(PROTEAN_INTERNAL_ERROR, e.what()); } catch (...) {
    return failed(PROTEAN_INTERNAL_ERROR, "unknown error");
  }
}

template <class Pointer>
Pointer* need(Pointer* pointer, const char* what) {
  if (!pointer) throw BadArgument(std::string(what) + " is a null pointer");
  return pointer;
}

IndexBase base_of(int index_base) {
  if (index_base != 0 && index_base != 1)
    throw BadArgument("index_base is " + std::to_string(index_base) + "; it must be 0 or 1");
  return index_base == 1 ? IndexBase::one : IndexBase::zero;
}

// "C=8,sigma=1"
FormatParams parse_parameters(const char* text) {
  FormatParams params;
  std::string_view rest = text ? text : "";
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    const std::string_view one = rest.substr(0, end);
    const std::size_t equal = one.find('=');
    if (equal == std::string_view::npos || equal == 0)
      throw BadArgument("'" + std::string(one) +
                        "' among the format's parameters is not of the form name=value");
    params.set(std::string(one.substr(0, equal)), std::string(one.substr(equal + 1)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return params;
}

template <class Index>
protean_status make_csr(protean_context* context, int64_t rows, int64_t cols, int64_t nonzeros,
                        const Index* row_ptr, const int32_t* col, const double* values, int index_base,
                        protean_matrix** matrix) {
  return guarded([&] {
    need(matrix, "matrix");
    auto made = std::make_unique<protean_matrix>();
    made->context = need(context, "context")->context;
    made->csr = csr_view(made->context, rows, cols, nonzeros, row_ptr, col, values, base_of(index_base));
    if (made->context->space() == Space::host) {
      validate(*made->context, made->csr.pattern);
      require_finite(*made->context, made->csr);
    }
    made->assembled = make_matrix(find_format("csr"), made->csr, made->context);
    made->format = made->assembled->name();
    *matrix = made.release();
  });
}

VectorView<const double> input(const protean_matrix& matrix, const double* data, const char* what) {
  return {need(data, what), matrix.A().cols(), matrix.context->space()};
}
VectorView<double> output(const protean_matrix& matrix, double* data, const char* what) {
  return {need(data, what), matrix.A().rows(), matrix.context->space()};
}

std::int64_t whole(const char* option, double value) {
  if (!(value >= 0 && value < 9e15) || value != std::floor(value))
    throw BadArgument(std::string(option) + " is " + std::to_string(value) +
                      "; it must be a whole number from 0");
  return static_cast<std::int64_t>(value);
}

}  // namespace

extern "C" {

const char* protean_version(void) { return PROTEAN_VERSION_TEXT; }
const char* protean_last_error(void) { return last_error.c_str(); }
const char* protean_status_name(protean_status status) {
  switch (status) {
    case PROTEAN_OK:
      return "ok";
    case PROTEAN_NOT_CONVERGED:
      return "not-converged";
    case PROTEAN_BAD_ARGUMENT:
      return "bad-argument";
    case PROTEAN_BAD_MATRIX:
      return "bad-matrix";
    case PROTEAN_SHAPE_MISMATCH:
      return "shape-mismatch";
    case PROTEAN_FORMAT_REFUSED:
      return "format-refused";
    case PROTEAN_NOT_AVAILABLE:
      return "not-available";
    case PROTEAN_OUT_OF_MEMORY:
      return "out-of-memory";
    case PROTEAN_DEVICE_ERROR:
      return "device-error";
    case PROTEAN_ARRAYS_CHANGED:
      return "arrays-changed";
    case PROTEAN_INTERNAL_ERROR:
      return "internal-error";
  }
  return "unknown";
}

protean_status protean_context_host(int threads, protean_context** context) {
  return guarded([&] { *need(context, "context") = new protean_context{Context::host(threads)}; });
}
protean_status protean_context_device(int ordinal, protean_context** context) {
  return guarded([&] { *need(context, "context") = new protean_context{Context::device(ordinal)}; });
}
void protean_context_free(protean_context* context) { delete context; }

protean_status protean_matrix_csr(protean_context* context, int64_t rows, int64_t cols, int64_t nonzeros,
                                  const int32_t* row_ptr, const int32_t* col, const double* values,
                                  int index_base, protean_matrix** matrix) {
  return make_csr(context, rows, cols, nonzeros, row_ptr, col, values, index_base, matrix);
}
protean_status protean_matrix_csr64(protean_context* context, int64_t rows, int64_t cols, int64_t nonzeros,
                                    const int64_t* row_ptr, const int32_t* col, const double* values,
                                    int index_base, protean_matrix** matrix) {
  return make_csr(context, rows, cols, nonzeros, row_ptr, col, values, index_base, matrix);
}

protean_status protean_matrix_elements(protean_context* context, int64_t nodes, int components,
                                       int64_t elements, int nodes_of_element, const int32_t* connectivity,
                                       const double* matrices, int index_base, const int64_t* constrained,
                                       int64_t constrained_count, int symmetric, const char* variant,
                                       protean_matrix** matrix) {
  return guarded([&] {
    need(matrix, "matrix");
    if (elements < 0 || nodes_of_element < 0 || constrained_count < 0 || components < 0 ||
        nodes_of_element > largest_element || components > largest_element)
      throw BadArgument("a number of elements, nodes, components or constrained unknowns is out of range");
    const IndexBase base = base_of(index_base);
    const auto nodes_in = static_cast<std::size_t>(elements * nodes_of_element);
    std::vector<std::int32_t> from_zero(nodes_in);
    if (nodes_in > 0) need(connectivity, "connectivity"), need(matrices, "matrices");
    for (std::size_t i = 0; i < nodes_in; ++i)
      from_zero[i] = connectivity[i] - (base == IndexBase::one ? 1 : 0);
    if (constrained_count > 0) need(constrained, "constrained");
    std::vector<std::int64_t> given(static_cast<std::size_t>(constrained_count));
    for (std::size_t i = 0; i < given.size(); ++i)
      given[i] = constrained[i] - (base == IndexBase::one ? 1 : 0);
    ElementOptions options;
    options.components = components, options.symmetric = symmetric != 0, options.constrained = given;
    const std::string_view name = variant ? variant : "automatic";
    bool known = false;
    for (const auto scatter : {ElementScatter::automatic, ElementScatter::atomic, ElementScatter::coloured,
                               ElementScatter::gather})
      if (to_string(scatter) == name) options.scatter = scatter, known = true;
    if (!known)
      throw BadArgument("there is no variant '" + std::string(name) +
                        "'; there are automatic, atomic, coloured and gather");
    const std::size_t m = static_cast<std::size_t>(nodes_of_element) * static_cast<std::size_t>(components);
    auto made = std::make_unique<protean_matrix>();
    made->context = need(context, "context")->context;
    made->group = {
        elements, nodes_of_element, from_zero, {matrices, static_cast<std::size_t>(elements) * m * m}};
    const ElementGroup<double> group[] = {made->group};
    made->elements = make_element_operator<double>(made->context, nodes, group, options);
    made->group.connectivity = {};
    made->format = made->elements->name();
    *matrix = made.release();
  });
}
void protean_matrix_free(protean_matrix* matrix) { delete matrix; }

protean_status protean_matrix_set_format(protean_matrix* matrix, const char* format, const char* parameters,
                                         const char* kernel) {
  return guarded([&] {
    need(matrix, "matrix"), need(format, "format");
    if (matrix->elements)
      throw BadArgument("element matrices have no storage format; make the matrix from CSR arrays instead");
    const FormatParams params = parse_parameters(parameters);
    std::string_view id = format;
    if (id == "auto") {
      if (matrix->context->space() != Space::host)
        throw BadArgument("format auto looks at a matrix in host memory; name a format on a device");
      if (!params.all().empty())
        throw BadArgument("parameters belong to one format; name it instead of auto");
      id = choose_format(matrix->csr.pattern, CostModel(builtin_machine(), Space::host),
                         {.deterministic = matrix->context->deterministic()})
               .id;
    }
    auto next = make_matrix(find_format(id), matrix->csr, matrix->context, params, kernel ? kernel : "");
    matrix->format = next->name();
    matrix->assembled = std::move(next);
  });
}

protean_status protean_matrix_update_values(protean_matrix* matrix, const double* values) {
  return guarded([&] {
    need(matrix, "matrix"), need(values, "values");
    if (matrix->elements) {
      const ElementGroup<double> group[] = {
          {matrix->group.elements, matrix->group.nodes, {}, {values, matrix->group.matrices.size()}}};
      matrix->elements->update_values(group);
      return;
    }
    const CsrMatrix<double> changed = with_values(matrix->csr, values);
    if (matrix->context->space() == Space::host) require_finite(*matrix->context, changed);
    matrix->assembled->update_values(changed);
    matrix->csr = changed;
  });
}

protean_status protean_matrix_watch(protean_matrix* matrix) {
  return guarded([&] {
    need(matrix, "matrix");
    if (matrix->elements || matrix->csr.watch) return;
    const CsrMatrix<double> seen = watched(matrix->context, matrix->csr);
    matrix->assembled->update_values(seen);  // so that format csr watches its arrays too
    matrix->csr = seen;
  });
}

protean_status protean_matrix_apply(const protean_matrix* matrix, double alpha, const double* x, double beta,
                                    double* y) {
  return guarded([&] {
    need(matrix, "matrix")->A().apply(alpha, input(*matrix, x, "x"), beta, output(*matrix, y, "y"));
    matrix->context->synchronize();
  });
}
int64_t protean_matrix_rows(const protean_matrix* matrix) { return matrix ? matrix->A().rows() : 0; }
size_t protean_matrix_bytes(const protean_matrix* matrix) {
  if (!matrix) return 0;
  return matrix->elements ? matrix->elements->bytes() : matrix->assembled->bytes();
}
const char* protean_matrix_format(const protean_matrix* matrix) {
  return matrix ? matrix->format.c_str() : "";
}

protean_status protean_solver_create(const char* method, const char* preconditioner,
                                     protean_solver** solver) {
  return guarded([&] {
    need(solver, "solver");
    auto made = std::make_unique<protean_solver>();
    made->method = need(method, "method");
    made->preconditioner_id = preconditioner ? preconditioner : "none";
    std::vector<std::string_view> ids;
    for (const PreconditionerEntry& entry : preconditioners()) ids.push_back(entry.id);
    if (std::find(ids.begin(), ids.end(), made->preconditioner_id) == ids.end())
      throw BadArgument("there is no preconditioner '" + made->preconditioner_id + "'." +
                        did_you_mean(made->preconditioner_id, ids));
    made->solver = make_solver<double>(made->method, made->options);
    *solver = made.release();
  });
}

protean_status protean_solver_set(protean_solver* solver, const char* option, double value) {
  return guarded([&] {
    need(solver, "solver"), need(option, "option");
    SolverOptions options = solver->options;
    StoppingRule& rule = options.stopping;
    const std::string_view name = option;
    constexpr std::string_view names[] = {"relative_tolerance",
                                          "absolute_tolerance",
                                          "max_iterations",
                                          "max_seconds",
                                          "restart",
                                          "divergence",
                                          "stagnation_window",
                                          "fill",
                                          "block_size",
                                          "omega",
                                          "degree",
                                          "eigenvalue_ratio",
                                          "directions",
                                          "s",
                                          "constant_null_space"};
    PreconditionerOptions preconditioning = solver->preconditioner_options;
    if (name == names[0])
      rule.relative_tolerance = value;
    else if (name == names[1])
      rule.absolute_tolerance = value;
    else if (name == names[2])
      rule.max_iterations = whole(option, value);
    else if (name == names[3])
      rule.max_seconds = value;
    else if (name == names[4])
      options.restart = whole(option, value);
    else if (name == names[5])
      rule.divergence = value;
    else if (name == names[6])
      rule.stagnation_window = whole(option, value);
    else if (name == names[7])
      preconditioning.fill = whole(option, value);
    else if (name == names[8])
      preconditioning.block_size = whole(option, value);
    else if (name == names[9])
      preconditioning.omega = value;
    else if (name == names[10])
      preconditioning.degree = whole(option, value);
    else if (name == names[11])
      preconditioning.eigenvalue_ratio = value;
    else if (name == names[12])
      options.directions = whole(option, value);
    else if (name == names[13])
      options.s = whole(option, value);
    else if (name == names[14] && (value == 0 || value == 1))
      options.null_space = value == 1 ? "constant" : "none";
    else if (name == names[14])
      throw BadArgument("constant_null_space is " + std::to_string(value) + "; it must be 0 or 1");
    else
      throw BadArgument("there is no option '" + std::string(name) + "'." + did_you_mean(name, names));
    solver->solver = make_solver<double>(solver->method, options);
    solver->options = std::move(options);
    // With other options the next solve makes it anew.
    if (preconditioning != solver->preconditioner_options) solver->preconditioner_of = 0;
    solver->preconditioner_options = preconditioning;
  });
}
void protean_solver_free(protean_solver* solver) { delete solver; }

protean_status protean_solve(protean_solver* solver, const protean_matrix* matrix, const double* b,
                             double* x) {
  bool converged = false;
  const protean_status status = guarded([&] {
    need(solver, "solver"), need(matrix, "matrix");
    const LinearOperator<double>& A = matrix->A();
    if (solver->preconditioner_id != "none" && solver->preconditioner_of != A.serial()) {
      solver->preconditioner =
          make_preconditioner<double>(solver->preconditioner_id, A, solver->preconditioner_options);
      solver->preconditioner_of = A.serial();
    }
    if (solver->preconditioner) solver->preconditioner->ensure(A);
    solver->report = {};
    solver->reason.clear(), solver->advice.clear();
    solver->report = solver->solver->solve(A, input(*matrix, b, "b"), output(*matrix, x, "x"),
                                           solver->preconditioner.get());
    matrix->context->synchronize();
    solver->reason = to_string(solver->report.reason);
    converged = solver->report.converged();
    if (!converged) solver->advice = advice(solver->report.reason);
  });
  if (status != PROTEAN_OK || converged) return status;
  return failed(PROTEAN_NOT_CONVERGED, (solver->reason + ". " + solver->advice).c_str());
}

int64_t protean_solver_iterations(const protean_solver* solver) {
  return solver ? solver->report.iterations : 0;
}
double protean_solver_true_residual(const protean_solver* solver) {
  return solver ? solver->report.true_relative : 0;
}
double protean_solver_recurrence_residual(const protean_solver* solver) {
  return solver ? solver->report.recurrence_relative : 0;
}
double protean_solver_seconds(const protean_solver* solver) { return solver ? solver->report.seconds : 0; }
int protean_solver_converged(const protean_solver* solver) {
  return solver && solver->report.converged() ? 1 : 0;
}
const char* protean_solver_reason(const protean_solver* solver) {
  return solver ? solver->reason.c_str() : "";
}
const char* protean_solver_advice(const protean_solver* solver) {
  return solver ? solver->advice.c_str() : "";
}

}  // extern "C"
