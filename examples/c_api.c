/* The C API: assembled and element matrices, a change of format, new values, errors with a text. */
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
