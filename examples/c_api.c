/* The C API: assembled and element matrices, an operator and a preconditioner of the program, changes of format, new
 * values, a monitor, errors with a text. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <protean/protean.h>

static void check(protean_status status) {
  if (status == PROTEAN_OK) return;
  fprintf(stderr, "%s: %s\n", protean_status_name(status), protean_last_error());
  exit(1);
}

enum { n = 2000 };
static int row_ptr[n + 1], col[3 * n];
static double values[3 * n], b[n], x[n], y[n];
static int connectivity[2 * (n - 1)];
static double matrices[4 * (n - 1)];

/* y := A x for the chain below: an operator that is not stored. A number other than 0 would end the solve. */
static int chain_product(void* user, const double* in, double* out, void* stream) {
  const double hold = *(const double*)user;
  int i;
  for (i = 0; i < n; ++i) {
    out[i] = ((i > 0) + (i < n - 1) + hold) * in[i];
    if (i > 0) out[i] -= in[i - 1];
    if (i < n - 1) out[i] -= in[i + 1];
  }
  return stream != NULL; /* this one is for the host */
}
/* z := M^-1 r, one symmetric Gauss-Seidel sweep. */
static int sweep(void* user, const double* r, double* z, void* stream) {
  const double hold = *(const double*)user;
  int i;
  for (i = 0; i < n; ++i) z[i] = (r[i] + (i > 0 ? z[i - 1] : 0)) / ((i > 0) + (i < n - 1) + hold);
  for (i = n - 2; i >= 0; --i) z[i] += z[i + 1] / ((i > 0) + 1 + hold);
  return stream != NULL;
}
static int monitor(void* user, const protean_iteration* now) {
  *(int64_t*)user = now->iteration;
  return now->seconds > 60; /* ends the solve with reason "interrupted" */
}

int main(void) {
  /* A chain of springs between n points. A weaker spring holds each point. */
  int k = 0, i;
  for (i = 0; i < n; ++i) {
    if (i > 0) col[k] = i - 1, values[k++] = -1;
    col[k] = i, values[k++] = (i > 0) + (i < n - 1) + 0.5;
    if (i < n - 1) col[k] = i + 1, values[k++] = -1;
    row_ptr[i + 1] = k;
    b[i] = 1;
  }
  protean_context* context = NULL;
  protean_matrix* A = NULL;
  protean_solver* solver = NULL;
  check(protean_context_host(0, &context));
  check(protean_matrix_csr(context, n, n, k, row_ptr, col, values, 0, &A));
  check(protean_solver_create("cg", "jacobi", &solver));
  check(protean_solver_set(solver, "relative_tolerance", 1e-10));
  check(protean_solve(solver, A, b, x));
  printf("%s: %lld iterations, true residual %.1e (%s)\n", protean_matrix_format(A),
         (long long)protean_solver_iterations(solver), protean_solver_true_residual(solver),
         protean_solver_reason(solver));
  if (fabs(x[n / 2] - 2) > 1e-6) return 1; /* 0.5 x = 1 */

  /* Another format and other values. */
  check(protean_matrix_set_format(A, "sell-c-sigma", "C=8,sigma=1", NULL));
  for (i = 0; i < k; ++i) values[i] *= 2;
  check(protean_matrix_update_values(A, values));
  check(protean_solve(solver, A, b, x));
  printf("%s: x = %.6f\n", protean_matrix_format(A), x[n / 2]);
  if (fabs(x[n / 2] - 1) > 1e-6) return 1;

  /* Rows and columns in another order. The vectors of the program stay in its own. "auto" says why it took what it
   * did. */
  memset(x, 0, sizeof x);
  check(protean_matrix_set_order(A, "rcm"));
  check(protean_solve(solver, A, b, x));
  printf("%s in order %s: x = %.6f\n", protean_matrix_format(A), protean_matrix_order(A), x[n / 2]);
  if (fabs(x[n / 2] - 1) > 1e-6) return 1;
  check(protean_matrix_set_order(A, "auto"));
  printf("order %s: %s\n", protean_matrix_order(A), protean_matrix_order_reason(A));
  if (protean_matrix_set_order(A, "rcn") != PROTEAN_BAD_ARGUMENT) return 1;
  printf("asked for rcn: %s\n", protean_last_error());

  /* A call that fails gives a message and does not change the matrix. */
  if (protean_matrix_set_format(A, "sell-c-sigmo", NULL, NULL) != PROTEAN_BAD_ARGUMENT) return 1;
  printf("asked for sell-c-sigmo: %s\n", protean_last_error());
  if (strcmp(protean_matrix_format(A), "sell-c-sigma") != 0) return 1;
  if (protean_solve(solver, A, b, NULL) != PROTEAN_BAD_ARGUMENT) return 1;
  check(protean_solver_set(solver, "max_iterations", 1));
  memset(x, 0, sizeof x);
  if (protean_solve(solver, A, b, x) != PROTEAN_NOT_CONVERGED) return 1;
  printf("one iteration: %s\n", protean_last_error());
  check(protean_solver_set(solver, "max_iterations", 10000));

  /* Left to the policy: the format changes during the solve when that pays. Or by a schedule. */
  memset(x, 0, sizeof x);
  check(protean_solver_set_text(solver, "policy", "auto"));
  check(protean_solve(solver, A, b, x));
  check(protean_solver_set_text(solver, "policy", "none"));
  check(protean_solver_schedule(solver, "at_iteration", 3, "ell", NULL, NULL, 0));
  memset(x, 0, sizeof x);
  check(protean_solve(solver, A, b, x));
  protean_switch change;
  check(protean_solver_switch(solver, 0, &change));
  printf("iteration %lld: %s -> %s\n", (long long)change.iteration, change.from, change.to);
  if (fabs(x[n / 2] - 1) > 1e-6 || strcmp(protean_matrix_format(A), "ell") != 0) return 1;
  check(protean_solver_schedule_clear(solver));

  /* An order in the middle of the solve: the recurrence goes on in it. */
  check(protean_solver_schedule_order(solver, "at_iteration", 3, "length", "csr", NULL, NULL, 0));
  memset(x, 0, sizeof x);
  check(protean_solve(solver, A, b, x));
  check(protean_solver_switch(solver, 0, &change));
  printf("iteration %lld: order %s -> %s\n", (long long)change.iteration, change.from_order, change.to_order);
  if (fabs(x[n / 2] - 1) > 1e-6 || strcmp(protean_matrix_order(A), "length") != 0) return 1;
  check(protean_solver_schedule_clear(solver));
  protean_matrix_free(A);

  /* The chain as a function of the program, with a preconditioner of the program. */
  double hold = 0.5;
  int64_t last = -1;
  check(protean_matrix_callback(context, n, n, "chain", chain_product, NULL, &hold, 0, &A));
  check(protean_solver_set_preconditioner(solver, sweep, NULL, &hold, 0));
  check(protean_solver_set_monitor(solver, monitor, &last));
  memset(x, 0, sizeof x);
  check(protean_solve(solver, A, b, x));
  printf("%s: %lld iterations\n", protean_matrix_format(A), (long long)last);
  if (fabs(x[n / 2] - 2) > 1e-6 || last != protean_solver_iterations(solver)) return 1;
  check(protean_solver_set_preconditioner(solver, NULL, NULL, NULL, 0)); /* back to jacobi */
  check(protean_solver_set_monitor(solver, NULL, NULL));
  protean_matrix_free(A);

  /* The springs as element matrices, counted from 1. The first point is fixed at 3. */
  const int64_t held[1] = {1};
  for (i = 0; i < n - 1; ++i) {
    const double spring[4] = {1.25, -1, -1, 1.25};
    connectivity[2 * i] = i + 1, connectivity[2 * i + 1] = i + 2;
    memcpy(matrices + 4 * i, spring, sizeof spring);
  }
  check(
      protean_matrix_elements(context, n, 1, n - 1, 2, connectivity, matrices, 1, held, 1, 1, "gather", &A));
  for (i = 0; i < n; ++i) b[i] = 0;
  b[0] = 3;
  b[1] = 3; /* force of the fixed point on its neighbour: 1 * 3 */
  check(protean_solve(solver, A, b, x));
  check(protean_matrix_apply(A, 1, x, 0, y));
  printf("%s: %lld iterations, x = %.3f %.3f %.3f\n", protean_matrix_format(A),
         (long long)protean_solver_iterations(solver), x[0], x[1], x[2]);
  /* Powers of the smaller root of r - 2.5 + 1 / r = 0, which is 1/2. */
  if (fabs(x[0] - 3) > 1e-6 || fabs(x[1] - 1.5) > 1e-6 || fabs(x[2] - 0.75) > 1e-6 || fabs(y[1] - 3) > 1e-6)
    return 1;
  protean_matrix_free(A);
  protean_solver_free(solver);
  protean_context_free(context);
  return 0;
}
