/* Protean from C, and through ISO C binding from Fortran: #include <protean/protean.h>, link
 * Protean::protean.
 *
 * Objects are opaque handles, made by a function whose last argument is where the handle goes and freed by
 * the matching _free function (NULL is allowed). A matrix and a solver keep their context alive. Every
 * function that can fail returns a protean_status and changes nothing when it does; protean_last_error() says
 * in one sentence what was wrong and what to do. No exception leaves the library, nothing is printed, nothing
 * ends the process. Values are double precision. Use one handle from one thread at a time; different solvers
 * may solve in different threads.
 *
 * Arrays are the caller's. Vectors lie in the memory of the context: host memory, or that of its GPU.
 */
#ifndef PROTEAN_H
#define PROTEAN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum protean_status {
  PROTEAN_OK = 0,
  PROTEAN_NOT_CONVERGED = 1,  /* of protean_solve only: see protean_solver_reason() */
  PROTEAN_BAD_ARGUMENT = 2,   /* unknown name, value out of range, null pointer, overlapping vectors */
  PROTEAN_BAD_MATRIX = 3,     /* index out of range, unsorted row, duplicate, entry that is not finite, ... */
  PROTEAN_SHAPE_MISMATCH = 4, /* sizes that do not fit together */
  PROTEAN_FORMAT_REFUSED = 5, /* the storage format will not hold this matrix */
  PROTEAN_NOT_AVAILABLE = 6,  /* not in this build, or not on this machine */
  PROTEAN_OUT_OF_MEMORY = 7,
  PROTEAN_DEVICE_ERROR = 8,
  PROTEAN_INTERNAL_ERROR = 9, /* anything else: a mistake of the library */
  PROTEAN_ARRAYS_CHANGED = 10 /* watched arrays of the caller were freed or changed: protean_matrix_watch() */
} protean_status;

typedef struct protean_context protean_context;
typedef struct protean_matrix protean_matrix;
typedef struct protean_solver protean_solver;

/* "0.1.0" */
const char* protean_version(void);
/* What the last failed call of this thread had to say; "" before the first. Valid until the next call. */
const char* protean_last_error(void);
/* "bad-argument" */
const char* protean_status_name(protean_status status);

/* Where work runs. threads: 0 takes OMP_NUM_THREADS, or else all processors. ordinal: of a GPU, from 0. */
protean_status protean_context_host(int threads, protean_context** context);
protean_status protean_context_device(int ordinal, protean_context** context);
void protean_context_free(protean_context* context);

/* A matrix over the caller's CSR arrays, in the memory of the context, in format csr. They are not copied (of
 * one-based ones row pointers and columns are) and must live as long as the matrix. row_ptr has rows + 1
 * entries, the first one index_base (0 or 1); columns ascend within a row. */
protean_status protean_matrix_csr(protean_context* context, int64_t rows, int64_t cols, int64_t nonzeros,
                                  const int32_t* row_ptr, const int32_t* col, const double* values,
                                  int index_base, protean_matrix** matrix);
protean_status protean_matrix_csr64(protean_context* context, int64_t rows, int64_t cols, int64_t nonzeros,
                                    const int64_t* row_ptr, const int32_t* col, const double* values,
                                    int index_base, protean_matrix** matrix);

/* An operator on element matrices, which are copied: `elements` of nodes_of_element nodes each, connectivity
 * [elements][nodes_of_element] counted from index_base, matrices [elements][m][m] row by row, m =
 * nodes_of_element * components; unknown c of node k is entry k * components + c of a vector. constrained:
 * unknowns with given values (from index_base), whose rows become rows of the identity; NULL for none.
 * symmetric: not 0 stores one half (the matrices are checked). variant: "automatic", "atomic", "coloured" or
 * "gather"; NULL is automatic. All arrays are in host memory. */
protean_status protean_matrix_elements(protean_context* context, int64_t nodes, int components,
                                       int64_t elements, int nodes_of_element, const int32_t* connectivity,
                                       const double* matrices, int index_base, const int64_t* constrained,
                                       int64_t constrained_count, int symmetric, const char* variant,
                                       protean_matrix** matrix);
void protean_matrix_free(protean_matrix* matrix);

/* Another storage format for a CSR matrix: a name of `protean formats`, or "auto". parameters: "C=8,sigma=1"
 * or NULL; kernel: "mkl", ... or NULL for our own. The old format stays when this fails. */
protean_status protean_matrix_set_format(protean_matrix* matrix, const char* format, const char* parameters,
                                         const char* kernel);
/* New numbers for the same entries: in the order of the caller's CSR arrays (for csr itself the array is used
 * in place from now on), or element matrices as given before. */
protean_status protean_matrix_update_values(protean_matrix* matrix, const double* values);
/* Debug mode: from now on each solve and each change of format first reads the caller's CSR arrays as far as
 * they are still used where they lie, and fails with PROTEAN_ARRAYS_CHANGED, naming array and entries, when
 * one was freed or changed without protean_matrix_update_values(), which checks that the pattern is the same.
 * Costs a pass over the arrays each time. Element matrices are copied, so there is nothing to watch. */
protean_status protean_matrix_watch(protean_matrix* matrix);
/* y := alpha A x + beta y; with beta = 0, y is not read. */
protean_status protean_matrix_apply(const protean_matrix* matrix, double alpha, const double* x, double beta,
                                    double* y);
int64_t protean_matrix_rows(const protean_matrix* matrix);
size_t protean_matrix_bytes(const protean_matrix* matrix);
/* "csr", "sell-c-sigma", "lma-gather", ... Valid until the format changes. */
const char* protean_matrix_format(const protean_matrix* matrix);

/* method: "cg", "bicgstab", "gmres". preconditioner: "none" or "jacobi", set up when a matrix is new or its
 * values have changed. */
protean_status protean_solver_create(const char* method, const char* preconditioner, protean_solver** solver);
/* Options by name: relative_tolerance, absolute_tolerance, max_iterations, max_seconds, restart, divergence,
 * stagnation_window. */
protean_status protean_solver_set(protean_solver* solver, const char* option, double value);
void protean_solver_free(protean_solver* solver);

/* x: initial guess on entry, solution on return. PROTEAN_OK when b - A x was computed and is small enough,
 * PROTEAN_NOT_CONVERGED when not; x is the last iterate then. */
protean_status protean_solve(protean_solver* solver, const protean_matrix* matrix, const double* b,
                             double* x);

/* Of the last solve; 0 and "" before the first. Residuals are 2-norms, relative to that of b. */
int64_t protean_solver_iterations(const protean_solver* solver);
double protean_solver_true_residual(const protean_solver* solver);       /* of the x returned */
double protean_solver_recurrence_residual(const protean_solver* solver); /* what the method believed */
double protean_solver_seconds(const protean_solver* solver);
int protean_solver_converged(const protean_solver* solver);
/* Why the solve ended. Converged: "relative-tolerance", "absolute-tolerance", "zero-right-hand-side". Not:
 * "max-iterations", "time-limit", "breakdown", "indefinite-operator", "indefinite-preconditioner",
 * "negative-definite" (cg: solve -A x = -b instead), "underflow" (multiply A and b by one large factor),
 * "not-finite", "stagnation", "divergence", "interrupted". */
const char* protean_solver_reason(const protean_solver* solver);
const char* protean_solver_advice(const protean_solver* solver); /* what to try; "" when converged */

#ifdef __cplusplus
}
#endif
#endif
