#include "faults/scenarios.hpp"

#include <exception>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/ordering.hpp"
#include "formats/catalogue.hpp"
#include "formats/choose.hpp"
#include "gtest/gtest.h"
#include "operators/elements/element_operator.hpp"
#include "operators/multi_product.hpp"
#include "preconditioners/options.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/multi_solver.hpp"
#include "solvers/options.hpp"
#include "solvers/solver.hpp"
#include "support/elements.hpp"
#include "support/fake_device.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"

namespace protean::test {

const char* to_string(Where where) {
  return where == Where::host ? "host" : where == Where::fake ? "fake" : "device";
}

ContextPtr context_at(Where where) {
  static const ContextPtr fake = fake_device_context();
  return where == Where::host ? test_context() : where == Where::fake ? fake : test_context(Space::device);
}

const FormatEntry& format_at(Where where, std::string_view id) {
  return where == Where::fake ? fake_format(id) : find_format(id);
}

std::unique_ptr<AssembledMatrix<double>> matrix_at(Where where, std::string_view format,
                                                   const CsrMatrix<double>& csr) {
  const ContextPtr context = context_at(where);
  const FormatEntry& entry = format_at(where, format);
  return make_matrix(entry, placed(context, csr), context, most_tolerant(entry));
}

const CsrMatrix<double>& small_matrix() {
  static const CsrMatrix<double> matrix = generate(test_context(), "poisson-2d", {{"n", 16}});
  return matrix;
}

const CsrMatrix<double>& other_values() {
  static const CsrMatrix<double> matrix = [] {
    CsrBuilder<double> builder(test_context(), small_matrix().rows(), small_matrix().cols(),
                               small_matrix().nonzeros());
    const CsrMatrix<double>& like = small_matrix();
    for (std::int64_t i = 0; i <= like.rows(); ++i) builder.set_row_ptr(i, like.pattern.row_ptr[i]);
    for (std::int64_t k = 0; k < like.nonzeros(); ++k)
      builder.col()[k] = like.pattern.col[k], builder.values()[k] = 2 * like.values[k];
    return builder.freeze();
  }();
  return matrix;
}

namespace {

// The product of A with a fixed vector, in host memory.
std::vector<double> product(const LinearOperator<double>& A) {
  const Placed<double> x(A.context(), sample_vector<double>(A.cols(), 3));
  Placed<double> y(A.context(), std::vector<double>(static_cast<std::size_t>(A.rows()), 0.0));
  A.apply(1, x.read(), 0, y.view());
  return y.fetch();
}

// Elements on a strip of quadrilaterals, whose assembled matrix is symmetric positive definite.
struct Strip {
  static constexpr int elements = 12;
  static constexpr std::int64_t nodes = 2 * (elements + 1);
  std::vector<std::int32_t> connectivity;
  std::vector<double> matrices;
  explicit Strip(double scale = 1) {
    for (int e = 0; e < elements; ++e) {
      for (const int node : {2 * e, 2 * e + 1, 2 * e + 3, 2 * e + 2}) connectivity.push_back(node);
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) matrices.push_back(scale * (i == j ? 4.0 + e % 3 : -1));
    }
  }
  ElementGroup<double> group() const { return {elements, 4, connectivity, matrices}; }
};

}  // namespace

std::vector<Scenario> matrix_scenarios(Where where) {
  std::vector<Scenario> all;
  const ContextPtr context = context_at(where);
  if (!context) return all;
  for (const FormatEntry* entry : layouts()) {
    const FormatEntry& format = format_at(where, entry->id);
    if (kernels_in(format, context->space()).empty()) continue;
    const std::string id(entry->id);
    const bool ordered = kernels_in(format, context->space()).front().deterministic;
    all.push_back({"format " + id, context,
                   [=] {
                     const auto A = std::make_shared<std::unique_ptr<AssembledMatrix<double>>>();
                     const auto call = [=] { *A = matrix_at(where, id, small_matrix()); };
                     return Trial{call, [=] {
                                    if (!*A) call();
                                    return product(**A);
                                  }};
                   },
                   ordered ? 0 : 1e-12});
    all.push_back({"new values in " + id, context,
                   [=] {
                     const std::shared_ptr<AssembledMatrix<double>> A = matrix_at(where, id, small_matrix());
                     const auto values = std::make_shared<CsrMatrix<double>>(placed(context, other_values()));
                     const auto call = [=] { A->update_values(*values); };
                     return Trial{call, [=] {
                                    call();
                                    return product(*A);
                                  }};
                   },
                   ordered ? 0 : 1e-12, true});
    if (where != Where::host) continue;
    all.push_back({"entries of " + id, context,
                   [=] {
                     const std::shared_ptr<AssembledMatrix<double>> A = matrix_at(where, id, small_matrix());
                     const auto call = [=] { (void)A->to_csr(); };
                     return Trial{call, [=] {
                                    const CsrMatrix<double> csr = A->to_csr();
                                    return std::vector<double>(csr.values, csr.values + csr.nonzeros());
                                  }};
                   },
                   0, true});
  }
  for (const ElementScatter scatter :
       {ElementScatter::atomic, ElementScatter::coloured, ElementScatter::gather}) {
    if (where == Where::fake) break;  // it has no kernels of elements
    all.push_back({"elements " + std::string(to_string(scatter)), context,
                   [=] {
                     struct Object {
                       Strip strip;
                       std::unique_ptr<ElementOperator<double>> A;
                     };
                     const auto object = std::make_shared<Object>();
                     const auto call = [=] {
                       ElementOptions options;
                       options.scatter = scatter;
                       const ElementGroup<double> groups[] = {object->strip.group()};
                       object->A = make_element_operator<double>(context, Strip::nodes, groups, options);
                     };
                     return Trial{call, [=] {
                                    if (!object->A) call();
                                    return product(*object->A);
                                  }};
                   },
                   1e-12});
    all.push_back({"assembly of " + std::string(to_string(scatter)), context,
                   [=] {
                     const Strip strip;
                     ElementOptions options;
                     options.scatter = scatter;
                     const ElementGroup<double> groups[] = {strip.group()};
                     const std::shared_ptr<ElementOperator<double>> A =
                         make_element_operator<double>(context, Strip::nodes, groups, options);
                     return Trial{[=] { (void)A->assemble(); },
                                  [=] {
                                    const CsrMatrix<double> csr = fetched(context, A->assemble());
                                    return std::vector<double>(csr.values, csr.values + csr.nonzeros());
                                  }};
                   },
                   1e-12});
  }
  if (where == Where::fake) return all;
  for (const OrderingEntry& order : orderings()) {
    if (!order.unavailable.empty()) continue;
    all.push_back({"order " + std::string(order.id), context, [=] {
                     const auto csr = std::make_shared<CsrMatrix<double>>(placed(context, small_matrix()));
                     const auto ordered = std::make_shared<std::optional<PermutedMatrix<double>>>();
                     const auto call = [=] { *ordered = put_in_order(order.id, *csr, context).ordered; };
                     return Trial{call, [=] {
                                    if (!*ordered) call();
                                    const CsrMatrix<double> result = fetched(context, (**ordered).matrix());
                                    return std::vector<double>(result.values,
                                                               result.values + result.nonzeros());
                                  }};
                   }});
  }
  all.push_back({"choice of a format", context,
                 [=] {
                   const auto csr = std::make_shared<CsrMatrix<double>>(placed(context, small_matrix()));
                   const auto A = std::make_shared<std::unique_ptr<AssembledMatrix<double>>>();
                   const auto call = [=] {
                     ChoiceOptions options;
                     options.space = context->space(), options.expected_iterations = 1'000'000;
                     *A = make_chosen_matrix(*csr, context, options).matrix;
                   };
                   return Trial{call, [=] {
                                  if (!*A) call();
                                  return product(**A);
                                }};
                 },
                 1e-12});
  return all;
}

namespace {

// A system that is solved again and again.
struct Solving {
  std::unique_ptr<AssembledMatrix<double>> A;
  std::unique_ptr<Preconditioner<double>> M;
  std::unique_ptr<Solver<double>> solver;
  Placed<double> b, x;
  Solving(Where where, std::string_view method, std::string_view preconditioner)
      : A(matrix_at(where, "csr", small_matrix())),
        solver(make_solver<double>(method)),
        b(A->context(), sample_vector<double>(A->rows(), 5)),
        x(A->context(), std::vector<double>(static_cast<std::size_t>(A->rows()), 0.0)) {
    if (preconditioner == "none") return;
    M = make_preconditioner<double>(preconditioner, *A);
    M->ensure(*A);
  }
  void solve() {
    fill<double>(*A->context(), 0.0, x.view());
    const SolveReport report = solver->solve(*A, b.read(), x.view(), M.get());
    EXPECT_TRUE(report.converged()) << report.detail;
  }
};

std::vector<double> applied(const Preconditioner<double>& M) { return product(M); }

// A setup has failed. If its last step changed arrays on the device, M says that they are lost.
void expect_kept_or_lost(const Preconditioner<double>& M, const std::vector<double>& before) {
  try {
    EXPECT_EQ(applied(M), before) << "M has changed";
  } catch (const BadArgument& error) {
    EXPECT_EQ(M.context()->space(), Space::device);
    EXPECT_TRUE(std::string_view(error.what()).ends_with("call ensure(A) again")) << error.what();
  }
}

}  // namespace

std::vector<Scenario> solve_scenarios(Where where) {
  std::vector<Scenario> all;
  const ContextPtr context = context_at(where);
  if (!context) return all;
  for (const SolverEntry& entry : solvers()) {
    const std::string id(entry.id);
    all.push_back({"solve " + id, context, [=] {
                     const auto solving = std::make_shared<Solving>(where, id, "jacobi");
                     return Trial{[=] { solving->solve(); },
                                  [=] {
                                    solving->solve();
                                    return solving->x.fetch();
                                  }};
                   }});
  }
  for (const std::string_view method : multi_methods()) {
    const std::string id(method);
    all.push_back(
        {"several " + id, context, [=] {
           constexpr std::int64_t columns = 3;
           struct Object {
             std::unique_ptr<AssembledMatrix<double>> A;
             MultiSolver<double> solver;
             Placed<double> B, X;
             void solve() {
               fill<double>(*A->context(), 0.0, X.view());
               const std::int64_t n = A->rows();
               const Space space = A->context()->space();
               const auto report =
                   solver.solve(*A, {B.data(), n, columns, n, VectorLayout::columns, space},
                                {X.data(), n, columns, n, VectorLayout::columns, space}, nullptr);
               EXPECT_TRUE(report.converged());
             }
           };
           auto A = matrix_at(where, "csr", small_matrix());
           const std::int64_t entries = columns * A->rows();
           const auto object = std::shared_ptr<Object>(new Object{
               std::move(A), MultiSolver<double>(id),
               Placed<double>(context, sample_vector<double>(entries, 5)),
               Placed<double>(context, std::vector<double>(static_cast<std::size_t>(entries), 0.0))});
           return Trial{[=] { object->solve(); },
                        [=] {
                          object->solve();
                          return object->X.fetch();
                        }};
         }});
  }
  for (const PreconditionerEntry& entry : preconditioners()) {
    if (!entry.make_f64) continue;
    const std::string id(entry.id);
    // auto takes the way that was the fastest when it measured, so its answers are the answers of one or the other.
    const bool comparable = id != "auto";
    const auto answer_of = [comparable](const Preconditioner<double>& M) {
      const std::vector<double> answer = applied(M);
      return comparable ? answer : std::vector<double>();
    };
    all.push_back({"preconditioner " + id, context, [=] {
                     const std::shared_ptr<AssembledMatrix<double>> A =
                         matrix_at(where, "csr", small_matrix());
                     const auto M = std::make_shared<std::unique_ptr<Preconditioner<double>>>();
                     const auto call = [=] {
                       *M = make_preconditioner<double>(id, *A);
                       (*M)->ensure(*A);
                     };
                     return Trial{call, [=] {
                                    if (!*M) call();
                                    (*M)->ensure(*A);
                                    return answer_of(**M);
                                  }};
                   }});
    // With new values. If the setup fails, M is what it was or refuses to be applied, except chebyshev and amg, which
    // compute with A itself.
    const bool kept = id != "chebyshev" && id != "amg" && comparable;
    all.push_back({"new values for " + id, context,
                   [=] {
                     const std::shared_ptr<AssembledMatrix<double>> A =
                         matrix_at(where, "csr", small_matrix());
                     const std::shared_ptr<Preconditioner<double>> M = make_preconditioner<double>(id, *A);
                     M->ensure(*A);
                     const std::vector<double> before = applied(*M);
                     A->update_values(placed(context, other_values()));
                     return Trial{[=] {
                                    try {
                                      M->ensure(*A);
                                    } catch (...) {
                                      if (kept) expect_kept_or_lost(*M, before);
                                      throw;
                                    }
                                  },
                                  [=] {
                                    M->ensure(*A);
                                    return answer_of(*M);
                                  }};
                   },
                   0, true});
  }
  return all;
}

}  // namespace protean::test
