/* The C interface of Protean, also for Fortran through ISO C binding. #include <protean/protean.h> and link
 * Protean::protean.
 *
 * Objects are opaque handles. A function that makes one writes the handle to its last argument. The _free function of
 * the same type frees it (NULL is allowed). A matrix and a solver keep their context alive. Every function that can
 * fail returns a protean_status. If it fails it changes nothing, and protean_last_error() gives the reason and what to
 * do. No exception leaves the library, nothing is printed, nothing ends the process.
 *
 * A matrix has values in double precision, or in single precision if a function with _f32 made it. Functions with
 * values come in both precisions, and the wrong one is refused. In single precision set relative_tolerance, for example
 * to 1e-4: single precision does not reach the default 1e-8, and the solve would end by stagnation.
 *
 * Use a handle from one thread at a time; different solvers may solve in different threads at the same time. Functions
 * of the caller (monitor, product, diagonal, preconditioner, setup) may call functions of this file. While a solve
 * runs, its solver and its matrix are in use. Functions that only read them are allowed, and products, and solves of
 * the matrix with another solver without schedule and policy. A monitor, which is called between two steps, may also
 * give the matrix new values. Functions that would change or end them otherwise are refused with PROTEAN_BAD_ARGUMENT,
 * and the solve goes on. Until the solve has ended, the results of its solver are 0 and "".
 *
 * The caller owns all arrays. Vectors must be in the memory of the context: host memory, or the memory of its GPU.
 *
 * Later versions of the same soname may add functions, values of enums, and members at the end of structs. A function
 * that fills a struct of the caller is given the size that the caller knows: in C and C++ the compiler passes it, by
 * the inline functions below; other languages call the functions with _sized. The library writes that many bytes and no
 * more. Members that it does not know become 0, and texts NULL. A size of 0 or above 4096 is refused with
 * PROTEAN_BAD_ARGUMENT. The struct that a monitor reads is followed by zeros up to 4096 bytes. The library reads no
 * struct of the caller. */
#ifndef PROTEAN_H
#define PROTEAN_H

#include <protean/version.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
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
  PROTEAN_ARRAYS_CHANGED =
      10, /* watched arrays of the caller were freed or changed: protean_matrix_watch() */
  PROTEAN_CALLBACK_FAILED = 11 /* a function of the caller returned a number other than 0 */
} protean_status;

typedef struct protean_context protean_context;
typedef struct protean_matrix protean_matrix;
typedef struct protean_solver protean_solver;

/* The version of the library, such as "0.1.0". PROTEAN_VERSION is the version of this header. */
const char* protean_version(void);
/* The message of the last call of this thread that failed; "" before the first. Valid until the next call. */
const char* protean_last_error(void);
/* The name of a status, "bad-argument". The text is constant. */
const char* protean_status_name(protean_status status);
/* Kinds of names. */
typedef enum protean_kind {
  PROTEAN_KIND_METHOD = 1,
  PROTEAN_KIND_PRECONDITIONER = 2,
  PROTEAN_KIND_FORMAT = 3,
  PROTEAN_KIND_OPTION = 4,      /* of protean_solver_set() */
  PROTEAN_KIND_TEXT_OPTION = 5, /* of protean_solver_set_text() */
  PROTEAN_KIND_TRIGGER = 6,     /* of protean_solver_schedule() */
  PROTEAN_KIND_SELECTOR = 7,    /* of text option selector */
  PROTEAN_KIND_ORDER = 8 /* of protean_matrix_set_order(); protean_solver_schedule_order() has no "auto" */
} protean_kind;
/* The names of a kind that this library knows, one by one. index counts from 0. NULL after the last name, and for a
 * number that is not a kind; protean_last_error() then says so. The text is constant. */
const char* protean_name(protean_kind kind, int64_t index);

/* A context says where work runs. threads: 1 to 1024; 0 means OMP_NUM_THREADS, or all processors if it is not set, and
 * 1024 at most. ordinal: number of the GPU, from 0. */
protean_status protean_context_host(int threads, protean_context** context);
protean_status protean_context_device(int ordinal, protean_context** context);
/* The same with options. space: "host" or "device". number: threads, or the ordinal. options: "deterministic"
 * (docs/deterministic.md), "vector_kernels=native" or "vector_kernels=kokkos", with commas between them; NULL for
 * none. */
protean_status protean_context_make(const char* space, int number, const char* options,
                                    protean_context** context);
void protean_context_free(protean_context* context);

/* Makes a matrix from the caller's CSR arrays in the memory of the context. The arrays are not copied (except row
 * pointers and columns with index_base 1) and must exist as long as the matrix. row_ptr has rows + 1 entries; the first
 * one is index_base (0 or 1), the last one index_base + nonzeros. Columns of a row may be in any order in format csr;
 * other formats, orders, schedule and policy need ascending ones. All arrays are checked, which costs about as much as
 * a product: PROTEAN_BAD_MATRIX for row pointers or columns out of range, a column twice in a row (on the host), and
 * values that are infinite or NaN. The format is csr until the first solve. That solve takes the format that is
 * expected to be the fastest ("auto") unless protean_matrix_set_format() has named one. */
protean_status protean_matrix_csr(protean_context* context, int64_t rows, int64_t cols, int64_t nonzeros,
                                  const int32_t* row_ptr, const int32_t* col, const double* values,
                                  int index_base, protean_matrix** matrix);
protean_status protean_matrix_csr64(protean_context* context, int64_t rows, int64_t cols, int64_t nonzeros,
                                    const int64_t* row_ptr, const int32_t* col, const double* values,
                                    int index_base, protean_matrix** matrix);
protean_status protean_matrix_csr_f32(protean_context* context, int64_t rows, int64_t cols, int64_t nonzeros,
                                      const int32_t* row_ptr, const int32_t* col, const float* values,
                                      int index_base, protean_matrix** matrix);
protean_status protean_matrix_csr64_f32(protean_context* context, int64_t rows, int64_t cols,
                                        int64_t nonzeros, const int64_t* row_ptr, const int32_t* col,
                                        const float* values, int index_base, protean_matrix** matrix);

/* Makes an operator from element matrices. All arrays are in host memory and are copied.
 *   connectivity [elements][nodes_of_element]: the nodes of each element, counted from index_base
 *   matrices [elements][m][m], row by row, m = nodes_of_element * components
 *   constrained: unknowns with given values, counted from index_base; their rows become rows of the identity.
 *     NULL for none
 *   symmetric: if not 0, only half of each matrix is stored, and the matrices must be symmetric
 *   variant: "automatic", "atomic", "coloured" or "gather"; NULL is "automatic"
 * Unknown c of node k is entry k * components + c of a vector. PROTEAN_BAD_MATRIX for nodes out of range and for
 * entries that are infinite or NaN. */
protean_status protean_matrix_elements(protean_context* context, int64_t nodes, int components,
                                       int64_t elements, int nodes_of_element, const int32_t* connectivity,
                                       const double* matrices, int index_base, const int64_t* constrained,
                                       int64_t constrained_count, int symmetric, const char* variant,
                                       protean_matrix** matrix);
protean_status protean_matrix_elements_f32(protean_context* context, int64_t nodes, int components,
                                           int64_t elements, int nodes_of_element,
                                           const int32_t* connectivity, const float* matrices, int index_base,
                                           const int64_t* constrained, int64_t constrained_count,
                                           int symmetric, const char* variant, protean_matrix** matrix);

/* y := A x by a function of the caller. It returns 0, or another number to end the call with PROTEAN_CALLBACK_FAILED.
 * user is the pointer that was given with the function. x and y are in the memory of the context and do not overlap;
 * the old content of y is undefined. On a device the function queues its work on stream (a cudaStream_t) and does not
 * wait; on the host stream is NULL. The function must be linear, and must not leave by longjmp or an exception. */
typedef int (*protean_product)(void* user, const double* x, double* y, void* stream);
typedef int (*protean_product_f32)(void* user, const float* x, float* y, void* stream);
/* diagonal[i] := a_ii for min(rows, cols) entries, under the same rules. */
typedef int (*protean_diagonal)(void* user, double* diagonal, void* stream);
typedef int (*protean_diagonal_f32)(void* user, float* diagonal, void* stream);

/* Makes an operator from functions of the caller. name is for messages; NULL: "callback". diagonal may be NULL; jacobi
 * and chebyshev need it. recordable: if not 0, a solver on a device calls product only while it records its steps, and
 * replays the queued work; see protean/operators/callback_operator.hpp. */
protean_status protean_matrix_callback(protean_context* context, int64_t rows, int64_t cols, const char* name,
                                       protean_product product, protean_diagonal diagonal, void* user,
                                       int recordable, protean_matrix** matrix);
protean_status protean_matrix_callback_f32(protean_context* context, int64_t rows, int64_t cols,
                                           const char* name, protean_product_f32 product,
                                           protean_diagonal_f32 diagonal, void* user, int recordable,
                                           protean_matrix** matrix);
/* transposed computes y := A^T x for an operator of functions, under the same rules: x has rows entries, y has cols. It
 * is for protean_matrix_apply_transposed(); NULL takes it away. Not during a solve with the matrix. */
protean_status protean_matrix_set_transposed(protean_matrix* matrix, protean_product transposed, void* user);
protean_status protean_matrix_set_transposed_f32(protean_matrix* matrix, protean_product_f32 transposed,
                                                 void* user);
/* Announces that the functions of protean_matrix_callback() compute with other values from now on, or with another
 * pattern if pattern is not 0. The next solve sets preconditioners up again. During a solve only the monitor may call
 * it. */
protean_status protean_matrix_changed(protean_matrix* matrix, int pattern);
/* NULL is allowed. During a solve or a product with it nothing is freed; protean_last_error() then says so. */
void protean_matrix_free(protean_matrix* matrix);

/* Changes the storage format of a CSR matrix. format: a name from `protean formats`, or "auto": the next solve takes
 * the format that is expected to be the fastest for its method, and the present format stays until then. parameters:
 * "C=8,sigma=1", or NULL. kernel: "mkl", ..., or NULL for the native one. The old format remains if this fails. The
 * order of protean_matrix_set_order() stays; an order of a schedule ends. During a solve use
 * protean_solver_schedule(). */
protean_status protean_matrix_set_format(protean_matrix* matrix, const char* format, const char* parameters,
                                         const char* kernel);
/* Puts rows and columns of a square CSR matrix into another order for its products. order: "none" (the caller's), "rcm"
 * (reverse Cuthill-McKee), "length" (longest rows first), "cluster" (rows that share columns), "metis" (nested
 * dissection, in a build with METIS), or "auto": the next solve takes rcm if a sample of the matrix shows that its
 * products save more than the order costs, else none. The format stays. Later solves keep the order, as do new values,
 * which cost one more pass. b, x, values and preconditioners stay in the caller's order. A solve permutes b and x once,
 * and its sums are added in another order. protean_matrix_apply() and a preconditioner that is not a diagonal (all
 * except jacobi and spai0) permute two vectors each time. Memory: a copy of the matrix in csr, 4 bytes an entry, 8
 * bytes a row, and four vectors in a solve. On a GPU the GPU finds rcm (docs/adaptive.md says for which matrices), and
 * the host finds the other orders. PROTEAN_SHAPE_MISMATCH for a matrix that is not square, PROTEAN_BAD_ARGUMENT for
 * element matrices and functions of the caller, PROTEAN_FORMAT_REFUSED if the format cannot hold the matrix in that
 * order; nothing changes then. During a solve use protean_solver_schedule_order(). */
protean_status protean_matrix_set_order(protean_matrix* matrix, const char* order);
/* Sets new values for the same entries, in the order of the caller's CSR arrays, or new element matrices in the order
 * in which they were given. Format csr uses this array in place from now on. The values are read once to check them:
 * PROTEAN_BAD_MATRIX for values that are infinite or NaN; the old values remain then. During a solve only the monitor
 * may call it. */
protean_status protean_matrix_update_values(protean_matrix* matrix, const double* values);
protean_status protean_matrix_update_values_f32(protean_matrix* matrix, const float* values);
/* Turns debug mode on. From now on each solve and each change of format first reads the caller's CSR arrays that are
 * still in use. If one was freed, or changed without protean_matrix_update_values(), the call fails with
 * PROTEAN_ARRAYS_CHANGED; the message names the array and the entries. protean_matrix_update_values() then checks that
 * the pattern is the same. Each check reads the arrays once. Element matrices and a matrix in another order
 * (protean_matrix_set_order()) are copies and need no check. */
protean_status protean_matrix_watch(protean_matrix* matrix);
/* y := alpha A x + beta y. If beta is 0, y is not read. */
protean_status protean_matrix_apply(const protean_matrix* matrix, double alpha, const double* x, double beta,
                                    double* y);
protean_status protean_matrix_apply_f32(const protean_matrix* matrix, float alpha, const float* x, float beta,
                                        float* y);
/* y := alpha A^T x + beta y: x has rows entries, y has cols. If beta is 0, y is not read. Matrices made of arrays keep
 * their transpose in CSR from the first such call on, which makes it, until they get new values or another format;
 * formats csc and sss, and element matrices, compute with what they have. PROTEAN_BAD_ARGUMENT for an operator of
 * functions without protean_matrix_set_transposed(). */
protean_status protean_matrix_apply_transposed(const protean_matrix* matrix, double alpha, const double* x,
                                               double beta, double* y);
protean_status protean_matrix_apply_transposed_f32(const protean_matrix* matrix, float alpha, const float* x,
                                                   float beta, float* y);
/* Y := alpha A X + beta Y for `count` vectors, one after another: entry i of vector j at X[i + j * ldx], ldx >= cols,
 * and at Y[i + j * ldy], ldy >= rows. Formats such as csr, sell-c-sigma, sell-packed and bcsr, and element matrices
 * except variant gather, read the matrix once for all vectors; others read it for each vector. X and Y do not overlap.
 * count may be 0. PROTEAN_BAD_ARGUMENT for a stride with which the last entry lies beyond the address space. */
protean_status protean_matrix_apply_multi(const protean_matrix* matrix, int64_t count, double alpha,
                                          const double* X, int64_t ldx, double beta, double* Y, int64_t ldy);
protean_status protean_matrix_apply_multi_f32(const protean_matrix* matrix, int64_t count, float alpha,
                                              const float* X, int64_t ldx, float beta, float* Y, int64_t ldy);
int protean_matrix_is_f32(const protean_matrix* matrix); /* 1 for single precision */
int64_t protean_matrix_rows(const protean_matrix* matrix);
int64_t protean_matrix_cols(const protean_matrix* matrix);
size_t protean_matrix_bytes(const protean_matrix* matrix);
/* The name of the format: "csr", "sell-c-sigma", "lma-gather", ... Valid until the format changes. */
const char* protean_matrix_format(const protean_matrix* matrix);
/* The order of its rows: "none", "rcm", ..., or the order to which a schedule has changed it. Valid until the order
 * changes. */
const char* protean_matrix_order(const protean_matrix* matrix);
/* Why protean_matrix_set_order() with "auto" took this order; "" after an order by name. Valid until the next one. */
const char* protean_matrix_order_reason(const protean_matrix* matrix);

/* method: protean_name(PROTEAN_KIND_METHOD, i), such as "cg", "bicgstab", "gmres" or "idr". NULL is "auto": cg for a
 * symmetric matrix with a positive diagonal, minres for another symmetric one, bicgstab for any other, and gmres for a
 * saddle point, or cells with a pressure, that preconditioner fields or auto can solve. preconditioner:
 * protean_name(PROTEAN_KIND_PRECONDITIONER, i), such as "none", "jacobi", "block-jacobi", "spai0", "gauss-seidel",
 * "ssor", "ic0", "ic", "ilu0", "ilu", "subdomain-ic0", "subdomain-ilu0", "chebyshev" or "amg". NULL is "auto": jacobi
 * at first, in a long solve and in repeated ones another one that pays, and none if the diagonal has a zero. A solve
 * sets it up if the matrix or its values are new. cg and minres refuse gauss-seidel, ilu0, ilu, isai-lu and
 * subdomain-ilu0, which are not symmetric.
 *
 * amg is algebraic multigrid by smoothed aggregation, on a host or a GPU. With text option "amg_setup" "classical" it
 * is hypre's BoomerAMG: PROTEAN_NOT_AVAILABLE on a GPU, in a build without hypre and in deterministic mode. Its first
 * solve initialises MPI unless the program has done so; a program that uses MPI itself must initialise it before. */
protean_status protean_solver_create(const char* method, const char* preconditioner, protean_solver** solver);
/* Sets an option whose value is a number: protean_name(PROTEAN_KIND_OPTION, i). The names are the keys of a problem
 * file, of its sections solver, preconditioner and schedule; `protean help problem` has meaning, range and default of
 * each.
 *   when to stop     relative_tolerance, absolute_tolerance, max_iterations, max_seconds, ...
 *   method           restart of gmres, ...
 *   preconditioner   fill of ic and ilu, block_size of block-jacobi (0: auto), omega of ssor, ...
 *   policy           worst_factor, ...: only with policy "auto"
 *   format auto      expected_iterations (operator.expected_iterations of a problem file); 0: unknown. With it the
 *                    format is chosen before the solve. Without it a policy changes the format during the solve
 * PROTEAN_BAD_ARGUMENT, and nothing changes, for another name (the message lists all), for a value out of range, and if
 * the method or the preconditioner of protean_solver_create() does not read the option (the message says which does).
 * Conditions on other options or on the matrix are checked when a solve begins. It returns PROTEAN_BAD_ARGUMENT for an
 * option that is not its default and has no effect: sweeps without triangular_solve "sweeps", device_steps on a host,
 * options of the policy without it. Options may be set in any order; setting the default takes one back. */
protean_status protean_solver_set(protean_solver* solver, const char* option, double value);
/* Sets an option whose value is a word, protean_name(PROTEAN_KIND_TEXT_OPTION, i), under the same rules. The names are
 * the keys of the problem file, with two exceptions: triangular_solve (there preconditioner.solve) and diagonal_blocks
 * (preconditioner.blocks). Every method and preconditioner takes "auto" and "none" if they are the default.
 *   policy   "auto": the format, and on the host the order of the rows, may change during a solve if that pays; "none":
 *            nothing changes; "by-format" (default): auto for format auto, none for a named format
 *   precision "auto": the policy may also store the values in float if that pays; "double" (default): it may not
 *   selector what chooses the format of format auto: protean_name(PROTEAN_KIND_SELECTOR, i) (default "model")
 *   devices  GPUs that share the rows of a matrix in host memory: "all", their number, such as "2", or their numbers,
 *            such as "0,2"; "none" (default): solve where the matrix lies. b and x lie in host memory. The blocks have
 *            the format of the matrix. PROTEAN_NOT_AVAILABLE for a GPU that does not exist. docs/distributed.md has
 *            what is served, for one right-hand side
 *   device_partition  which rows a device has: "rows" (default) or "graph" (METIS) */
protean_status protean_solver_set_text(protean_solver* solver, const char* option, const char* value);

/* Uses z := M^-1 r by a function of the caller as preconditioner, under the rules of protean_product. setup may be
 * NULL; a solve calls it first if the matrix or its values are new. apply NULL: back to the preconditioner of
 * protean_solver_create(). A solve in the other precision is refused. */
typedef int (*protean_setup)(void* user, int pattern_changed);
protean_status protean_solver_set_preconditioner(protean_solver* solver, protean_product apply,
                                                 protean_setup setup, void* user, int recordable);
protean_status protean_solver_set_preconditioner_f32(protean_solver* solver, protean_product_f32 apply,
                                                     protean_setup setup, void* user, int recordable);

/* Vectors that the matrix nearly maps to zero, such as the rigid body modes of an elastic body. Preconditioners amg
 * (with setup aggregation) and auto use them for their coarser levels, instead of vectors of ones. values: rows x
 * vectors, vector after vector, 1 to 64 of them; they are copied. vectors 0: back to vectors of ones. Set "unknowns" to
 * the unknowns of a node, too. The lengths of the vectors do not matter. A solve is refused if the matrix has another
 * number of rows, or if vectors are zero or depend on each other. */
protean_status protean_solver_set_near_null_space(protean_solver* solver, int64_t rows, int64_t vectors,
                                                  const double* values);
/* The rigid body modes of nodes in 2 or 3 dimensions: translations, then rotations about the middle of the nodes.
 * coordinates: nodes x dimensions, node after node. modes (output): nodes * dimensions rows x 3 or 6 vectors, vector
 * after vector; row dimensions * i + k belongs to the displacement of node i along axis k. */
protean_status protean_rigid_body_modes(int64_t nodes, int dimensions, const double* coordinates,
                                        double* modes);

/* Which field each row belongs to, for preconditioner fields: rows of equal labels form a field, whose name is the
 * label, and the fields are in ascending order of labels. It sets text option "fields"; NULL: back to "auto". labels:
 * one of 0 or more for each row; they are copied. A solve is refused if the matrix has another number of rows. */
protean_status protean_solver_set_labels(protean_solver* solver, int64_t rows, const int32_t* labels);

/* One iteration of a solve. The texts are valid during the call. */
typedef struct protean_iteration {
  int64_t iteration;        /* 0: the initial guess */
  double residual;          /* norm of the residual of the recurrence (option residual_norm) */
  double relative_residual; /* divided by the norm that relative_tolerance is relative to */
  double seconds;           /* since the solve began */
  int64_t restarts;
  const char* format; /* in which the matrix is now */
  const char* order;  /* as protean_matrix_order() */
} protean_iteration;
/* Called after each iteration, also for iteration 0. A number other than 0 ends the solve with reason
 * "interrupted". It may call protean_matrix_update_values() or protean_matrix_changed() for the matrix of the
 * solve, and nothing else that changes this matrix or solver. monitor NULL: none. */
typedef int (*protean_monitor)(void* user, const protean_iteration* iteration);
protean_status protean_solver_set_monitor(protean_solver* solver, protean_monitor monitor, void* user);

/* Adds a change of format to each later solve with this solver. trigger: "at_iteration", "at_residual" (relative
 * residual at most `at`) or "after_seconds". format, parameters, kernel: as in protean_matrix_set_format(), except
 * "auto"; "element" changes back to element matrices. overlapped: if not 0, the matrix is built next to the solve. A
 * change that fails leaves the old format: protean_solver_failed_switch(). The matrix keeps its format after the solve.
 * Not together with policy "auto". */
protean_status protean_solver_schedule(protean_solver* solver, const char* trigger, double at,
                                       const char* format, const char* parameters, const char* kernel,
                                       int overlapped);
/* The same with an order of the rows: the matrix continues in this order, and in the format if that is not NULL. order:
 * a name of protean_matrix_set_order() except "auto"; "none" is the caller's order. At the change the vectors of the
 * solve are permuted once, and it goes on without a restart. The matrix keeps the order after the solve, also with new
 * values, until protean_matrix_set_order() or protean_matrix_set_format(). New element matrices end it. Element
 * matrices need a format, too. On a GPU the GPU finds rcm, and the host finds the other orders from a copy of the
 * pattern. */
protean_status protean_solver_schedule_order(protean_solver* solver, const char* trigger, double at,
                                             const char* order, const char* format, const char* parameters,
                                             const char* kernel, int overlapped);
/* Removes all changes of format and order. */
protean_status protean_solver_schedule_clear(protean_solver* solver);
/* NULL is allowed. During a solve with it nothing is freed; protean_last_error() then says so. */
void protean_solver_free(protean_solver* solver);

/* Solves A x = b. x is the initial guess on entry and the solution on return. PROTEAN_OK: b - A x was
 * computed and is small enough. PROTEAN_NOT_CONVERGED: it is not; x is the last iterate. */
protean_status protean_solve(protean_solver* solver, const protean_matrix* matrix, const double* b,
                             double* x);
protean_status protean_solve_f32(protean_solver* solver, const protean_matrix* matrix, const float* b,
                                 float* x);

/* Solves A X = B for `count` right-hand sides at the same time, which lie one after another as in
 * protean_matrix_apply_multi(). Each column has its own iterations, tolerance and result, as if it were solved alone
 * within rounding; columns that have ended are computed no more. X holds initial guesses on entry. PROTEAN_OK: all
 * columns have converged. The functions for results below then describe the column that needed the most iterations, or
 * the first that has not converged; protean_solver_column() describes each. null_space "constant" is for all columns.
 * A schedule takes the relative residual of the column that has furthest to go. PROTEAN_BAD_ARGUMENT with a monitor or
 * device_steps "resident", which are for one right-hand side. */
protean_status protean_solve_multi(protean_solver* solver, const protean_matrix* matrix, int64_t count,
                                   const double* B, int64_t ldb, double* X, int64_t ldx);
protean_status protean_solve_multi_f32(protean_solver* solver, const protean_matrix* matrix, int64_t count,
                                       const float* B, int64_t ldb, float* X, int64_t ldx);
/* One column of the last protean_solve_multi(). The texts are valid until the next solve. */
typedef struct protean_column {
  int converged;
  int64_t iterations, restarts;
  double true_residual,
      recurrence_residual; /* 2-norms, relative to the norm of b, whatever the baseline is */
  double seconds;          /* when it ended, since the solve began */
  const char* reason;      /* as protean_solver_reason() */
  const char* detail;
} protean_column;
int64_t protean_solver_columns(const protean_solver* solver); /* 0 after protean_solve() */
/* size: of protean_column in bytes, as the caller knows it. */
protean_status protean_solver_column_sized(const protean_solver* solver, int64_t index,
                                           protean_column* result, size_t size);
static inline protean_status protean_solver_column(const protean_solver* solver, int64_t index,
                                                   protean_column* result) {
  return protean_solver_column_sized(solver, index, result, sizeof(protean_column));
}
/* "in one pass" if the products of the last protean_solve_multi() read the matrix once for all columns, else "column by
 * column: " and why. */
const char* protean_solver_multi_product(const protean_solver* solver);

/* Results of the last solve; 0 and "" before the first. Residuals are 2-norms, or the norm of option residual_norm,
 * relative to the norm of b. They are relative to b also with baseline "initial-residual": divide by
 * protean_solver_initial_residual() there. */
int64_t protean_solver_iterations(const protean_solver* solver);
double protean_solver_true_residual(const protean_solver* solver);       /* of x as returned */
double protean_solver_recurrence_residual(const protean_solver* solver); /* computed by the recurrence */
double protean_solver_initial_residual(const protean_solver* solver);    /* of x as given */
double protean_solver_seconds(const protean_solver* solver);
int protean_solver_converged(const protean_solver* solver);
/* Why the solve ended. Converged: "relative-tolerance", "absolute-tolerance", "zero-right-hand-side". Not:
 * "max-iterations", "time-limit", "breakdown", "indefinite-operator", "indefinite-preconditioner",
 * "inconsistent" (A has a null space, in which b has a part), "negative-definite" (cg: solve -A x = -b instead),
 * "underflow" (multiply A and b by one large factor), "not-finite", "stagnation", "divergence", "interrupted". */
const char* protean_solver_reason(const protean_solver* solver);
/* The method and the preconditioner of the last solve: the ones of protean_solver_create(), or the ones that "auto"
 * took, and why. If method "auto" has changed in the middle of the solve, these are of the last method, and the reason
 * says from which one and at which iteration. Valid until the next solve; "" before the first. */
const char* protean_solver_method(const protean_solver* solver);
const char* protean_solver_method_reason(const protean_solver* solver);
const char* protean_solver_preconditioner(const protean_solver* solver);
const char* protean_solver_preconditioner_reason(const protean_solver* solver);
const char* protean_solver_advice(const protean_solver* solver); /* what to do; "" when converged */
const char* protean_solver_detail(
    const protean_solver* solver); /* the numbers behind the reason; may be "" */
int64_t protean_solver_restarts(const protean_solver* solver);

/* The changes of format and order in the last solve, and the changes that failed, with the reason. index counts from 0.
 * The texts are valid until the next solve. PROTEAN_BAD_ARGUMENT for an index out of range. */
typedef struct protean_switch {
  int64_t iteration, begun_iteration;
  const char* from;
  const char* to;
  const char* reason;
  double convert_seconds; /* of the build */
  double wait_seconds;    /* in which the solve waited */
  int overlapped;
  const char *from_order, *to_order; /* as protean_matrix_order(); equal if it stayed */
  /* how the values are stored: "double", "dictionary", "float (exact)", "float (rounded)"; in a solve in float
     "float" */
  const char *from_values, *to_values;
} protean_switch;
typedef struct protean_failed_switch {
  int64_t iteration;
  const char* to;
  const char* reason; /* why the change was wanted */
  const char* why;    /* why it did not take place */
  const char* order;  /* that was wanted; "" if the order was to stay */
} protean_failed_switch;
int64_t protean_solver_switches(const protean_solver* solver);
/* size: of protean_switch in bytes, as the caller knows it. */
protean_status protean_solver_switch_sized(const protean_solver* solver, int64_t index,
                                           protean_switch* result, size_t size);
static inline protean_status protean_solver_switch(const protean_solver* solver, int64_t index,
                                                   protean_switch* result) {
  return protean_solver_switch_sized(solver, index, result, sizeof(protean_switch));
}
int64_t protean_solver_failed_switches(const protean_solver* solver);
/* size: of protean_failed_switch in bytes, as the caller knows it. */
protean_status protean_solver_failed_switch_sized(const protean_solver* solver, int64_t index,
                                                  protean_failed_switch* result, size_t size);
static inline protean_status protean_solver_failed_switch(const protean_solver* solver, int64_t index,
                                                          protean_failed_switch* result) {
  return protean_solver_failed_switch_sized(solver, index, result, sizeof(protean_failed_switch));
}
/* The decisions of the policy, one line each: iteration, action, format, reason. */
int64_t protean_solver_decisions(const protean_solver* solver);
const char* protean_solver_decision(const protean_solver* solver, int64_t index); /* "" out of range */

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
