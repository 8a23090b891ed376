/* The C interface of Protean, also for Fortran through ISO C binding. #include <protean/protean.h> and link
 * Protean::protean.
 *
 * Objects are opaque handles. A function that makes one writes the handle to its last argument. The _free
 * function of the same type frees it (NULL is allowed). A matrix and a solver keep their context alive. Every
 * function that can fail returns a protean_status. If it fails it changes nothing, and protean_last_error()
 * gives the reason and what to do. No exception leaves the library, nothing is printed, nothing ends the
 * process. Values are double precision. Use a handle from one thread at a time; different solvers may solve
 * in different threads at the same time.
 *
 * The caller owns all arrays. Vectors must be in the memory of the context: host memory, or that of its GPU.
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
  PROTEAN_NOT_CONVERGED = 1,  /* from protean_solve only: see protean_solver_reason() */
  PROTEAN_BAD_ARGUMENT = 2,   /* unknown name, value out of range, null pointer, overlapping vectors */
  PROTEAN_BAD_MATRIX = 3,     /* index out of range, unsorted row, duplicate, entry that is not finite, ... */
  PROTEAN_SHAPE_MISMATCH = 4, /* sizes that do not fit together */
  PROTEAN_FORMAT_REFUSED = 5, /* the storage format cannot hold this matrix */
  PROTEAN_NOT_AVAILABLE = 6,  /* not in this build, or not on this machine */
  PROTEAN_OUT_OF_MEMORY = 7,
  PROTEAN_DEVICE_ERROR = 8,
  PROTEAN_INTERNAL_ERROR = 9, /* anything else: an error in the library */
  PROTEAN_ARRAYS_CHANGED = 10 /* watched arrays of the caller were freed or changed: protean_matrix_watch() */
} protean_status;

typedef struct protean_context protean_context;
typedef struct protean_matrix protean_matrix;
typedef struct protean_solver protean_solver;

/* The version, "0.1.0". */
const char* protean_version(void);
/* The message of the last call of this thread that failed; "" before the first. Valid until the next call. */
const char* protean_last_error(void);
/* The name of a status, "bad-argument". The text is constant. */
const char* protean_status_name(protean_status status);

/* A context says where work runs. threads: 0 uses OMP_NUM_THREADS, or all processors if it is not set.
 * ordinal: number of the GPU, from 0. */
protean_status protean_context_host(int threads, protean_context** context);
protean_status protean_context_device(int ordinal, protean_context** context);
void protean_context_free(protean_context* context);

/* Makes a matrix in format csr from the caller's CSR arrays in the memory of the context. The arrays are not
 * copied (except row pointers and columns with index_base 1) and must exist as long as the matrix. row_ptr
 * has rows + 1 entries; the first one is index_base (0 or 1), the last one index_base + nonzeros. Columns
 * must ascend within a row. On the host all arrays are checked, which costs about as much as a product:
 * PROTEAN_BAD_MATRIX for row pointers or columns out of range, columns that do not ascend, and values that
 * are infinite or NaN. Arrays on a GPU are not checked. */
protean_status protean_matrix_csr(protean_context* context, int64_t rows, int64_t cols, int64_t nonzeros,
                                  const int32_t* row_ptr, const int32_t* col, const double* values,
                                  int index_base, protean_matrix** matrix);
protean_status protean_matrix_csr64(protean_context* context, int64_t rows, int64_t cols, int64_t nonzeros,
                                    const int64_t* row_ptr, const int32_t* col, const double* values,
                                    int index_base, protean_matrix** matrix);

/* Makes an operator from element matrices. All arrays are in host memory and are copied.
 *   connectivity [elements][nodes_of_element]: the nodes of each element, counted from index_base
 *   matrices [elements][m][m], row by row, m = nodes_of_element * components
 *   constrained: unknowns with given values, counted from index_base; their rows become rows of the identity.
 *     NULL for none
 *   symmetric: if not 0, only half of each matrix is stored, and the matrices must be symmetric
 *   variant: "automatic", "atomic", "coloured" or "gather"; NULL is "automatic"
 * Unknown c of node k is entry k * components + c of a vector. PROTEAN_BAD_MATRIX for nodes out of range and
 * for entries that are infinite or NaN. */
protean_status protean_matrix_elements(protean_context* context, int64_t nodes, int components,
                                       int64_t elements, int nodes_of_element, const int32_t* connectivity,
                                       const double* matrices, int index_base, const int64_t* constrained,
                                       int64_t constrained_count, int symmetric, const char* variant,
                                       protean_matrix** matrix);
void protean_matrix_free(protean_matrix* matrix);

/* Changes the storage format of a CSR matrix. format: a name from `protean formats`, or "auto". parameters:
 * "C=8,sigma=1", or NULL. kernel: "mkl", ..., or NULL for the native one. The old format remains if this
 * fails. */
protean_status protean_matrix_set_format(protean_matrix* matrix, const char* format, const char* parameters,
                                         const char* kernel);
/* Sets new values for the same entries, in the order of the caller's CSR arrays, or new element matrices in
 * the order in which they were given. Format csr uses this array in place from now on. On the host the values
 * are read once to check them: PROTEAN_BAD_MATRIX for values that are infinite or NaN; the old values remain
 * then. */
protean_status protean_matrix_update_values(protean_matrix* matrix, const double* values);
/* Turns debug mode on. From now on each solve and each change of format first reads those of the caller's CSR
 * arrays that are still in use. If one was freed, or changed without protean_matrix_update_values(), the call
 * fails with PROTEAN_ARRAYS_CHANGED; the message names the array and the entries.
 * protean_matrix_update_values() then checks that the pattern is the same. Each check reads the arrays once.
 * Element matrices are copied and need no check. */
protean_status protean_matrix_watch(protean_matrix* matrix);
/* y := alpha A x + beta y. If beta is 0, y is not read. */
protean_status protean_matrix_apply(const protean_matrix* matrix, double alpha, const double* x, double beta,
                                    double* y);
int64_t protean_matrix_rows(const protean_matrix* matrix);
size_t protean_matrix_bytes(const protean_matrix* matrix);
/* The name of the format: "csr", "sell-c-sigma", "lma-gather", ... Valid until the format changes. */
const char* protean_matrix_format(const protean_matrix* matrix);

/* method: "cg", "fcg", "minres", "bicgstab", "bicgstab2", "idr", "gmres" or "fgmres". preconditioner: "none", "jacobi", "block-jacobi", "spai0", "gauss-seidel",
 * "ssor", "ic0", "ic", "ilu0", "ilu" or "chebyshev"; a solve sets it up if the matrix or its
 * values are new. cg and minres refuse gauss-seidel, ilu0 and ilu, which are not
 * symmetric. */
protean_status protean_solver_create(const char* method, const char* preconditioner, protean_solver** solver);
/* Sets an option: relative_tolerance, absolute_tolerance, max_iterations, max_seconds, restart (gmres,
 * fgmres), directions (fcg), s (idr), constant_null_space (cg, fcg, minres: 1 where A x = 0 for the vectors
 * x of equal entries, else 0), divergence, stagnation_window; of the preconditioner, whose range the next solve checks: fill (ic, ilu), block_size
 * (block-jacobi), omega (ssor), degree and eigenvalue_ratio (chebyshev). */
protean_status protean_solver_set(protean_solver* solver, const char* option, double value);
void protean_solver_free(protean_solver* solver);

/* Solves A x = b. x is the initial guess on entry and the solution on return. PROTEAN_OK: b - A x was
 * computed and is small enough. PROTEAN_NOT_CONVERGED: it is not; x is the last iterate. */
protean_status protean_solve(protean_solver* solver, const protean_matrix* matrix, const double* b,
                             double* x);

/* Results of the last solve; 0 and "" before the first. Residuals are 2-norms, relative to the norm of b. */
int64_t protean_solver_iterations(const protean_solver* solver);
double protean_solver_true_residual(const protean_solver* solver);       /* of x as returned */
double protean_solver_recurrence_residual(const protean_solver* solver); /* computed by the recurrence */
double protean_solver_seconds(const protean_solver* solver);
int protean_solver_converged(const protean_solver* solver);
/* Why the solve ended. Converged: "relative-tolerance", "absolute-tolerance", "zero-right-hand-side". Not:
 * "max-iterations", "time-limit", "breakdown", "indefinite-operator", "indefinite-preconditioner",
 * "inconsistent" (A has a null space, in which b has a part), "negative-definite" (cg: solve -A x = -b instead), "underflow" (multiply A and b by one large factor),
 * "not-finite", "stagnation", "divergence", "interrupted". */
const char* protean_solver_reason(const protean_solver* solver);
const char* protean_solver_advice(const protean_solver* solver); /* what to do; "" when converged */

#ifdef __cplusplus
}
#endif
#endif
