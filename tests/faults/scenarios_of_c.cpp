// The C interface. Each function may fail with PROTEAN_OUT_OF_MEMORY, with a text; its handles go on.
#include <memory>
#include <new>
#include <stdexcept>

#include "core/error.hpp"
#include "faults/scenarios.hpp"
#include "gtest/gtest.h"
#include "interfaces/c/protean.h"
#include "support/oracle.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

// A program in C: what it has made so far, and the steps that make the rest.
class Program {
 public:
  Program(Where where, std::string method, std::string preconditioner)
      : where_(where), method_(std::move(method)), preconditioner_(std::move(preconditioner)) {
    const CsrMatrix<double>& csr = small_matrix();
    n_ = csr.rows(), nonzeros_ = csr.nonzeros();
    for (std::int64_t i = 0; i <= n_; ++i)
      row_ptr_.push_back(static_cast<std::int32_t>(csr.pattern.row_ptr[i]));
    col_.assign(csr.pattern.col, csr.pattern.col + nonzeros_);
    values_.assign(csr.values, csr.values + nonzeros_);
    b_ = sample_vector<double>(3 * n_, 7), x_.assign(b_.size(), 0.0);
  }
  ~Program() {
    protean_solver_free(solver_);
    protean_matrix_free(matrix_);
    protean_context_free(context_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // All calls from the first to the last. What was made before is kept.
  void run() {
    if (!context_) must(protean_context_host(2, &context_), context_);
    if (!matrix_)
      must(protean_matrix_csr(context_, n_, n_, nonzeros_, row_ptr_.data(), col_.data(), values_.data(), 0,
                              &matrix_),
           matrix_);
    must(protean_matrix_set_format(matrix_, "sell-c-sigma", "C=8,sigma=16", nullptr));
    must(protean_matrix_set_order(matrix_, "rcm"));
    if (!solver_) must(protean_solver_create(method_.c_str(), preconditioner_.c_str(), &solver_), solver_);
    must(protean_solver_set(solver_, "relative_tolerance", 1e-9));
    must(protean_solver_set_text(solver_, "baseline", "initial-residual"));
    must(protean_solver_schedule_clear(solver_));
    must(protean_solver_schedule(solver_, "at_iteration", 2, "ell", nullptr, nullptr, 0));
    must(protean_solver_schedule_order(solver_, "at_iteration", 4, "none", nullptr, nullptr, nullptr, 1));
    x_.assign(x_.size(), 0.0);
    must(protean_solve(solver_, matrix_, b_.data(), x_.data()));
    must(protean_matrix_update_values(matrix_, values_.data()));
    must(protean_solver_schedule_clear(solver_));
    must(protean_matrix_set_order(matrix_, "auto"));
    must(protean_matrix_set_format(matrix_, "auto", nullptr, nullptr));
    x_.assign(x_.size(), 0.0);
    must(protean_solve_multi(solver_, matrix_, 3, b_.data(), n_, x_.data(), n_));
    std::vector<double> y(x_.size());
    must(protean_matrix_apply_multi(matrix_, 3, 1, b_.data(), n_, 0, y.data(), n_));
    EXPECT_EQ(y.size(), x_.size());
  }
  const std::vector<double>& x() const { return x_; }

 private:
  // Throws what the trial expects if memory was missing; a status of another kind is a failure of the test. `made` is
  // what the call should have made: null if it failed.
  void must(protean_status status, const void* made = this_is_no_handle) {
    if (status == PROTEAN_OK) return;
    const std::string text = protean_last_error();
    if (status != PROTEAN_OUT_OF_MEMORY)
      throw std::runtime_error(std::string(protean_status_name(status)) + ": " + text);
    EXPECT_TRUE(made == nullptr || made == this_is_no_handle) << "a call that failed has made a handle";
    throw OutOfMemory(text.empty() ? "no text" : text, 0);
  }
  static constexpr const void* this_is_no_handle = &no_device;

  Where where_;
  std::string method_, preconditioner_;
  std::int64_t n_ = 0, nonzeros_ = 0;
  std::vector<std::int32_t> row_ptr_, col_;
  std::vector<double> values_, b_, x_;
  protean_context* context_ = nullptr;
  protean_matrix* matrix_ = nullptr;
  protean_solver* solver_ = nullptr;
};

int product(void* user, const double* x, double* y, void*) {
  const auto n = *static_cast<const std::int64_t*>(user);
  for (std::int64_t i = 0; i < n; ++i) y[i] = 4 * x[i] - (i > 0 ? x[i - 1] : 0) - (i + 1 < n ? x[i + 1] : 0);
  return 0;
}
int inverse(void* user, const double* x, double* y, void*) {
  const auto n = *static_cast<const std::int64_t*>(user);
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] / 4;
  return 0;
}
int monitor(void* user, const protean_iteration* iteration) {
  return iteration->iteration > *static_cast<const std::int64_t*>(user);
}

// Functions of the caller, and element matrices.
class Callbacks {
 public:
  ~Callbacks() {
    protean_solver_free(solver_);
    protean_matrix_free(matrix_);
    protean_matrix_free(elements_);
    protean_context_free(context_);
  }
  void run() {
    if (!context_) must(protean_context_make("host", 2, "vector_kernels=native", &context_));
    if (!matrix_)
      must(protean_matrix_callback(context_, n_, n_, "a stencil", product, nullptr, &n_, 0, &matrix_));
    if (!elements_) {
      std::vector<std::int32_t> nodes;
      std::vector<double> numbers;
      for (std::int32_t e = 0; e + 1 < n_; ++e) nodes.insert(nodes.end(), {e, e + 1});
      for (std::int32_t e = 0; e + 1 < n_; ++e) numbers.insert(numbers.end(), {2, -1, -1, 2});
      must(protean_matrix_elements(context_, n_, 1, n_ - 1, 2, nodes.data(), numbers.data(), 0, nullptr, 0, 1,
                                   nullptr, &elements_));
    }
    if (!solver_) must(protean_solver_create("cg", "none", &solver_));
    must(protean_solver_set_preconditioner(solver_, inverse, nullptr, &n_, 0));
    must(protean_solver_set_monitor(solver_, monitor, &most_));
    x_.assign(x_.size(), 0.0);
    must(protean_solve(solver_, matrix_, b_.data(), x_.data()));
    std::vector<double> y(b_.size());
    must(protean_matrix_apply(elements_, 1, b_.data(), 0, y.data()));
    x_.insert(x_.end(), y.begin(), y.end());
    x_.resize(b_.size());
  }
  const std::vector<double>& x() const { return x_; }

 private:
  static void must(protean_status status) {
    if (status == PROTEAN_OK) return;
    const std::string text = protean_last_error();
    if (status != PROTEAN_OUT_OF_MEMORY)
      throw std::runtime_error(std::string(protean_status_name(status)) + ": " + text);
    throw OutOfMemory(text.empty() ? "no text" : text, 0);
  }
  std::int64_t n_ = 60, most_ = 1000;
  std::vector<double> b_ = sample_vector<double>(60, 3), x_ = std::vector<double>(60, 0.0);
  protean_context* context_ = nullptr;
  protean_matrix *matrix_ = nullptr, *elements_ = nullptr;
  protean_solver* solver_ = nullptr;
};

}  // namespace

std::vector<Scenario> c_scenarios(Where where) {
  std::vector<Scenario> all;
  if (where != Where::host) return all;
  for (const auto& [method, preconditioner] :
       {std::pair{"cg", "jacobi"}, std::pair{"bicgstab", "none"}, std::pair{"gmres", "ilu0"}})
    all.push_back({std::string("C: ") + method + " with " + preconditioner, context_at(where),
                   [where, method = std::string(method), preconditioner = std::string(preconditioner)] {
                     const auto program = std::make_shared<Program>(where, method, preconditioner);
                     return Trial{[=] { program->run(); },
                                  [=] {
                                    program->run();
                                    return program->x();
                                  }};
                   },
                   1e-6});
  all.push_back({"C: functions of the caller", context_at(where),
                 [] {
                   const auto program = std::make_shared<Callbacks>();
                   return Trial{[=] { program->run(); },
                                [=] {
                                  program->run();
                                  return program->x();
                                }};
                 },
                 1e-6});
  return all;
}

}  // namespace protean::test
