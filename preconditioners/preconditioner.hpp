// Preconditioners: operators whose product is y = M^-1 x.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <protean/core/export.hpp>
#include <protean/core/multi_vector.hpp>
#include <protean/operators/linear_operator.hpp>

namespace PROTEAN_EXPORT protean {

// A number that tells how a setup went: "shift", "colours" ...
struct PreconditionerFigure {
  std::string_view name;
  double value = 0;
};

template <class T>
class Preconditioner : public LinearOperator<T> {
 public:
  using LinearOperator<T>::LinearOperator;

  // Brings M up to date with A. Does nothing when M was built from this A at its present revision(); a change
  // of the storage format does not change the revision. Throws ShapeMismatch, and what setup() throws; M is
  // unchanged then (but see make_composition(), and amg on a device).
  void ensure(const LinearOperator<T>& A);

  // The diagonal entries of M^-1, if M is diagonal, in the space of the context. Solvers then multiply by them inside
  // their own vector operations. Empty for any other M. A later ensure() that succeeds writes the new entries to the
  // same address. So a solve whose observer calls ensure() goes on with the new entries.
  virtual VectorView<const T> inverse_diagonal() const noexcept { return {}; }

  // False where M is not symmetric although A is. cg refuses such a preconditioner.
  virtual bool symmetric() const noexcept { return true; }
  // Bytes of all its arrays and vectors; 0 if that is not known (functions of the user).
  virtual std::size_t bytes() const noexcept { return 0; }
  // Numbers of the last setup, for reports. Empty before the first one.
  virtual std::vector<PreconditionerFigure> figures() const { return {}; }

 protected:
  // How often setup() has succeeded.
  std::uint64_t setups() const noexcept { return setups_; }
  virtual void setup(const LinearOperator<T>& A, bool pattern_changed) = 0;
  // For a setup() that cannot leave M unchanged when it throws: the next ensure() sets M up whatever A is.
  void forget() noexcept { built_for_ = 0; }

 private:
  std::uint64_t built_for_ = 0;  // serial of the operator, 0 for none
  Revision built_from_;
  std::uint64_t setups_ = 0;
};

// What is done about a row whose diagonal entry is missing, zero, or so small that its inverse is not finite. It
// concerns each M that divides by the diagonal: all but block-jacobi. An entry that is not finite is always refused.
enum class ZeroDiagonal : unsigned char {
  error,  // throw BadMatrix, which names the first such rows
  one     // use 1 in its place
};

// Which rows block-jacobi takes together.
enum class DiagonalBlocks : unsigned char {
  equal,  // block_size rows
  found  // at most block_size rows; neighbouring rows with the same columns together, as the unknowns of a node
};
inline constexpr DiagonalBlocks diagonal_blocks[] = {DiagonalBlocks::equal, DiagonalBlocks::found};
std::string_view to_string(DiagonalBlocks blocks) noexcept;  // "equal", "found"

// How ic, ic0, ilu and ilu0 solve with their triangular factors. levels and cusparse are exact up to rounding, sweeps
// is not.
enum class TriangularSolve : unsigned char {
  automatic,  // levels; on a GPU the faster of levels and cusparse: see below
  levels,     // rows that do not wait for each other at the same time
  cusparse,   // cusparseSpSV; GPU only
  sweeps      // a fixed number of Jacobi sweeps for each triangle
};
inline constexpr TriangularSolve triangular_solves[] = {TriangularSolve::automatic, TriangularSolve::levels,
                                                        TriangularSolve::cusparse, TriangularSolve::sweeps};
std::string_view to_string(TriangularSolve solve) noexcept;  // "auto", "levels", "cusparse", "sweeps"

// When a kept system (LinearSystem) sets its preconditioner up again for new values of its matrix. See below.
enum class Refresh : unsigned char {
  automatic,    // every; when_slower for type auto
  every,        // with each set of new values
  when_slower,  // when the iterations lost by its age have cost as much time as a setup
  never         // not while it works
};
inline constexpr Refresh refreshes[] = {Refresh::automatic, Refresh::every, Refresh::when_slower,
                                        Refresh::never};
std::string_view to_string(Refresh refresh) noexcept;  // "auto", "every", "when-slower", "never"

// The order in which ic0 and ilu0 eliminate the rows.
enum class FactorOrdering : unsigned char {
  automatic,  // natural on a host, colours on a GPU: see below
  natural,    // that of the rows
  colours     // colour after colour: rows of one colour are not coupled
};
inline constexpr FactorOrdering factor_orderings[] = {FactorOrdering::automatic, FactorOrdering::natural,
                                                      FactorOrdering::colours};
std::string_view to_string(FactorOrdering ordering) noexcept;  // "auto", "natural", "colours"

// Which rows subdomain-ic0 and subdomain-ilu0 take together.
enum class SubdomainPartition : unsigned char {
  order,  // those that follow each other
  metis   // those that METIS' k-way partition of the graph of A finds, in a build that has it
};
inline constexpr SubdomainPartition subdomain_partitions[] = {SubdomainPartition::order,
                                                              SubdomainPartition::metis};
std::string_view to_string(SubdomainPartition partition) noexcept;  // "order", "metis"
// Empty when this build has it, else why not, and what to do.
std::string_view unavailable(SubdomainPartition partition) noexcept;

// How amg makes its coarser levels.
enum class AmgSetup : unsigned char {
  aggregation,  // smoothed aggregation of our own
  classical     // BoomerAMG of hypre, in a build that has it
};
inline constexpr AmgSetup amg_setups[] = {AmgSetup::aggregation, AmgSetup::classical};
std::string_view to_string(AmgSetup setup) noexcept;  // "aggregation", "classical"
// Empty when this build has it, else why not, and what to do.
std::string_view unavailable(AmgSetup setup) noexcept;

// The format of the matrices of amg's coarser levels with setup aggregation.
enum class LevelFormat : unsigned char {
  automatic,  // for each level that of `format: auto`
  csr
};
inline constexpr LevelFormat level_formats[] = {LevelFormat::automatic, LevelFormat::csr};
std::string_view to_string(LevelFormat format) noexcept;  // "auto", "csr"

// How amg with setup classical chooses the points of the next coarser level. hmis is the cheapest in most cases,
// falgout keeps more points.
enum class Coarsening : unsigned char { hmis, pmis, falgout };
inline constexpr Coarsening coarsenings[] = {Coarsening::hmis, Coarsening::pmis, Coarsening::falgout};
std::string_view to_string(Coarsening coarsening) noexcept;  // "hmis", "pmis", "falgout"

// What amg does on each level before and after the coarser one. Together the two are symmetric where A is.
enum class Smoother : unsigned char {
  l1_jacobi,  // Jacobi with sums of |a_ij| of the rows for a diagonal: it converges for each positive definite A
  gauss_seidel,  // forward before, backward after
  chebyshev      // a polynomial of degree 2 in D^-1/2 A D^-1/2; for symmetric positive definite A
};
inline constexpr Smoother smoothers[] = {Smoother::l1_jacobi, Smoother::gauss_seidel, Smoother::chebyshev};
std::string_view to_string(Smoother smoother) noexcept;  // "l1-jacobi", "gauss-seidel", "chebyshev"

// Ranges, and which preconditioner reads which of them: preconditioner_options() of preconditioners/options.hpp, or
// `protean help problem preconditioner`.
struct PreconditionerOptions {
  Refresh refresh = Refresh::automatic;  // all, in a kept system
  std::int64_t solves = 0;               // auto: how many solves are expected with one pattern; 0: not known
  ZeroDiagonal zero_diagonal = ZeroDiagonal::error;
  std::int64_t fill = 1;  // ic, ilu: the largest level of fill that is kept, 0 or more
  FactorOrdering ordering = FactorOrdering::automatic;  // ic0, ilu0
  TriangularSolve solve = TriangularSolve::automatic;   // ic0, ic, ilu0, ilu
  std::int64_t sweeps = 4;  // ic0, ic, ilu0, ilu with solve sweeps: Jacobi sweeps for each triangle, 1 to 100
  // block-jacobi: rows of a block, with blocks found the most of them, 1 to 64; 0: as many as the nodes of the matrix
  // have unknowns, found in its pattern
  std::int64_t block_size = 0;
  DiagonalBlocks blocks = DiagonalBlocks::found;  // block-jacobi
  std::int64_t power = 1;                         // isai, isai-lu: of the pattern of their triangles, 1 to 4
  // subdomain-ic0, subdomain-ilu0: rows of a subdomain, with partition metis about so many; 0: as many as suit threads
  // or fit into the shared memory of a thread block
  std::int64_t subdomain_size = 0;
  SubdomainPartition partition = SubdomainPartition::order;  // subdomain-ic0, subdomain-ilu0
  std::int64_t overlap = 0;      // subdomain-ilu0: 1: subdomains compute with the rows next to theirs, too
  double omega = 1;              // ssor: the relaxation, between 0 and 2, both excluded
  std::int64_t degree = 4;       // chebyshev: products of A for each M^-1 r, 1 to 100
  double eigenvalue_ratio = 30;  // chebyshev: largest over smallest eigenvalue of its interval, more than 1
  AmgSetup setup = AmgSetup::aggregation;    // amg
  Smoother smoother = Smoother::l1_jacobi;   // amg
  Coarsening coarsening = Coarsening::hmis;  // amg with setup classical
  // amg with setup classical: row i depends on j where -a_ij > strong_threshold max_k(-a_ik); between 0 and 1, both
  // excluded
  double strong_threshold = 0.25;
  // amg with setup classical: finest levels of which it keeps far fewer points, 0 to 100
  std::int64_t aggressive_levels = 0;
  // amg with setup aggregation: nodes i and j are coupled where |a_ij| > strength sqrt |a_ii a_jj|, with the norms of
  // blocks for nodes of several unknowns, and half of it on each coarser level; 0 or more, below 1. Less, down to a
  // sixteenth, on a level where more than half of the nodes would be coupled with none
  double strength = 0.08;
  LevelFormat level_format = LevelFormat::automatic;  // amg with setup aggregation
  std::int64_t max_levels = 25;                       // amg: levels at most, with the finest, 1 to 100
  std::int64_t cycles = 1;                            // amg: V-cycles for each M^-1 r, 1 to 100
  std::int64_t unknowns = 1;  // amg, auto: unknowns of each node, whose rows follow each other, 1 to 64
  // amg with setup aggregation, auto: vectors that A maps nearly to zero, as rigid_body_modes() of an elastic body,
  // in host memory: rows of A x 1 to 64, in any layout. Only what they span counts, not how long they are, and none may
  // be in what the others span. The coarser levels represent these instead of the constants.
  // They must live as long as an auto, or a system, that was given them; amg copies them. Null: the constants. They
  // have no entry in preconditioner_options().
  const MultiVector<double>* near_null_space = nullptr;
  bool operator==(const PreconditionerOptions&) const = default;
};

struct PreconditionerEntry {
  std::string_view id, title;
  // Null for none, and where `unavailable` says why.
  std::unique_ptr<Preconditioner<double>> (*make_f64)(const LinearOperator<double>&,
                                                      const PreconditionerOptions&) = nullptr;
  std::unique_ptr<Preconditioner<float>> (*make_f32)(const LinearOperator<float>&,
                                                     const PreconditionerOptions&) = nullptr;
  // False: M is not symmetric even if A is, so cg refuses it; symmetric_relative is the most alike one that is.
  bool symmetric = true;
  std::string_view symmetric_relative = {};
  // Why it is not in this build, and what to do; empty where it is.
  std::string_view unavailable = {};
  // The library that computes it, or one setup of it (amg), and its version; empty for ours.
  std::string_view library = {};
};
// In the table, A = L + D + U is split into its parts below, on and above the diagonal.
//
//   id            M^-1 r                                              space in host or device memory
//   none          r                                                   0
//   auto          that of another one, which is chosen; see below     that of the other one
//   jacobi        D^-1 r                                              2 n values
//   block-jacobi  each block of rows: its inverse by r                (rows of a block + 1) n values
//   spai0         m .* r, m_i = a_ii / sum_j a_ij^2: minimises        2 n values
//                 ||I - diag(m) A|| in the Frobenius norm
//   gauss-seidel  (D + L)^-1 r, rows coloured                         the entries, 5 n values
//   ssor          omega (2 - omega) (D + omega U)^-1 D (D + omega L)^-1 r,
//                 rows coloured                                       the entries, 5 n values
//   ic0, ic       (L L^T)^-1 r, L L^T = A in all entries of A,        the entries (with fill), 5 n values
//                 in ic in those of the given level of fill
//   ilu0, ilu     (L U)^-1 r, the same for any A                      the entries (with fill), 5 n values
//   isai, isai-lu Y D X r, X and Y sparse approximate inverses of     two matrices of (the power of) the pattern of
//                 the triangles of ic0, of ilu0                       a triangle, one vector; see below
//   subdomain-ic0, subdomain-ilu0
//                 sum_s Q_s^T M_s^-1 R_s r, M_s the factors of ic0   the entries within subdomains, 4 n values
//                 or ilu0 of subdomain s; see below
//   chebyshev     p(D^-1 A) D^-1 r, p the Chebyshev polynomial        4 n values
//                 of given degree for eigenvalues of D^-1 A between lambda / eigenvalue_ratio and lambda
//   amg           algebraic multigrid: `cycles` V-cycles              bytes() says it: mostly 2 to 4 times the entries
//                 for A z = r from z = 0
//
// auto is jacobi, until a kept system (LinearSystem) finds by measured times that another one pays. From the iterations
// of jacobi, the measured systems of docs/results/ and the number of solves (`solves`, or as many more as there were)
// it predicts whether amg (for matrices as of diffusion problems, and for any with near_null_space), ic0 (symmetric
// ones) or ilu0 (where the method takes it) saves more than its setup. It tries one only where setup and a bad solve
// cost less than 10 % of the time of all solves so far (with `solves`: of all expected ones), goes back to jacobi where
// one application of it takes too long, or a solve does, and keeps it while it is faster. In deterministic mode and
// outside a kept system it is jacobi. SolveResult::preconditioner_reason says why. `unknowns` and near_null_space that
// amg would refuse for A are refused when it is made.
//
// refresh: a kept system uses an old M after new values, until it is set up again. It is in any case before the solve
// that follows one that did not converge with old values or took more than twice the iterations of the first solve
// after a setup. A composition is set up when one of its parts asks for it.
//
// block-jacobi, block_size 0: rows that follow each other and have the same columns are the unknowns of a node. Where
// more than half of the rows are in nodes of two rows or more, the block has as many rows as the largest nodes that are
// common: those of so many rows or more hold a fifth of all rows. It has 64 rows at most. Where there are no such
// nodes, it has one row, and M is that of jacobi. figures() has what was taken as "block_size".
//
// Coloured: rows of one colour are not coupled, L holds the entries of earlier colours. Colours are given greedily in
// the order of the rows. ic, ic0: where a pivot is not positive, ilu, ilu0: where it is zero to rounding, and all four
// where its inverse is not finite, A + alpha D is factored instead, alpha = 0.001, 0.002, 0.004 ... until no such
// pivot is left; figures() has alpha as "shift".
// isai, isai-lu: with the factors (I + L) D^-1 (I + U) of ic0 or ilu0, X has the pattern of (I + |L|)^power, and
// X (I + L) the entries of I there; Y = X^T for isai, for isai-lu Y has the pattern of (I + |U|)^power, and Y (I + U)
// the entries of I there (Anzt, Huckle, Brackle and Dongarra, Parallel Computing 71 (2018) 1). M^-1 r is two products,
// where ic0 has two triangular solves; mostly more iterations than ic0, fewer with power 2, each of which costs more.
// chebyshev: lambda is 1.1 times the largest Ritz value of 20 steps of cg with M = D.
//
// subdomain-ic0, subdomain-ilu0: each row is in one subdomain s, as one of its own. R_s takes the rows of the subdomain
// out of a vector, Q_s its own ones; M_s are the factors without fill of A_s = R_s A R_s^T, in the order of the rows.
// Entries between subdomains are left out, so more and smaller subdomains take more iterations; with one subdomain M is
// that of natural ic0 or ilu0. But subdomains do not wait for each other: threads of a host and thread blocks of a GPU
// factor and solve them at the same time.
//   subdomain_size  rows of its own. auto on a host: 1024, or n / 64 where that is more. auto on a GPU: the largest of
//                   1024, 512 ... 32 of which two thread blocks have room on a processor; a number with which L and U
//                   of a subdomain do not fit into the shared memory of a thread block is refused (BadArgument, with
//                   the bytes).
//   partition       order: rows that follow each other, so matrix.order matters. metis: METIS' k-way partition of the
//                   pattern of A + A^T, subdomains of about that size with few entries between them. The host finds it:
//                   mostly more time than the factors take. NotAvailable in a build without METIS.
//   overlap         1: the subdomain has its halo, too: the other rows that have a column in its own rows. M_s solves
//                   with them, and their results are dropped: the restricted additive Schwarz method (Cai and Sarkis,
//                   SIAM J. Sci. Comput. 21 (1999) 792). M is then not symmetric, so subdomain-ic0 has no overlap.
// A shift is added to the diagonal of A_s alone where a pivot of M_s is bad, as in ic0 and ilu0. figures() has
// "subdomains", "subdomain_size", "entries" (of all L and U), "levels" (the most in one subdomain), "shift" (the
// largest) and "shifted_subdomains".
// Several columns: M^-1 of 4 columns, on a host of 8, reads the factors once.
// Device: it finds the subdomains, factors and solves, one thread block for each subdomain; no entries come to the
// host. With partition metis and with overlap, where the columns of a row do not ascend strictly, and where the entries
// do not lie on the device, the host finds the subdomains, once for a pattern. For new values subdomain-ic0 compares
// a_ij and a_ji within subdomains there, else all of them. M^-1 r is one kernel; it can be recorded.
//
// PreconditionerOptions::solve. The factors are (I + L) P (I + U), P the pivots, L and U strict triangles, U = L^T for
// ic:
//   levels    row after row, rows of one level at the same time (host: by the threads). On a GPU one kernel for each of
//             up to 32 levels; with more levels one kernel, in which each row waits until the results that it needs are
//             there.
//   cusparse  cusparseSpSV, analysed once for a pattern; new values by cusparseSpSV_updateMatrix. GPU only, not in
//             deterministic mode, at most 2^31 - 1 entries in a triangle.
//   sweeps    w := r, then `sweeps` times w := r - L w; c := P^-1 w; z := c, then as often z := c - U z. It is not the
//             inverse of M, but a fixed linear operator. For ic it is symmetric positive definite, since both triangles
//             get as many sweeps. Mostly more iterations, each of them cheaper on a GPU.
//   auto      levels on a host. On a GPU, where the pattern is new, one solve by levels and one by cusparse is
//             measured, and the faster way is kept until the pattern changes. It never takes sweeps, which would change
//             the iterations. Where cusparse has no memory or too many entries: levels; in deterministic mode: levels,
//             without a measurement. Two runs of a program may choose differently where both take about as long, so
//             their bits may differ by rounding. figures() has what was measured, in microseconds.
//
// PreconditionerOptions::ordering. natural eliminates the rows as they are numbered. colours eliminates those of colour
// 0 first, then those of colour 1, and so on: the factors are those of natural for the matrix whose rows and columns
// are in this order, so they are other factors, with which solves mostly need more iterations. But all rows of a colour
// are factored, and solved with, at the same time, and there are few colours: 2 on a grid with couplings between
// neighbours only, where natural has levels by the hundred. auto takes colours on a GPU where `solve` is auto and there
// are at most 64 colours, else natural; on a host it takes natural. With colours, solve auto and levels solve colour
// after colour, cusparse is refused. figures() has the number of colours.
//
// On a device. The device finds the blocks of block-jacobi and inverts them: neither a new pattern nor new values come
// to the host. The host finds the blocks where columns of a row do not ascend. The device finds the colours of ssor,
// gauss-seidel, and of ic0 and ilu0 by colours, and factors, colour after colour; neither a new pattern nor new values
// come to the host. The colours are those of the host. The host finds them, once for a pattern, where the pattern is
// not symmetric or its rows are not sorted, where there are more than 64 colours (ssor, gauss-seidel: 32), and where
// rows wait for each other in chains too long for a device, as in a tridiagonal matrix. For isai and isai-lu the
// device finds patterns and levels, factors, and finds the values of X and Y; the host finds patterns and levels, once
// for a pattern, where the pattern is not symmetric, rows are not sorted, or chains are too long. ic, ilu and natural
// ic0 and ilu0, and ssor and gauss-seidel that the host has coloured, read the entries and factor on the host, where a
// copy of the pattern stays; the factors are copied to the device, and M^-1 r runs there. Their setup costs what it
// costs on the host, and two transfers of the entries. Up to 32 colours of ssor and gauss-seidel, and all of ic0 and
// ilu0, are solved in two kernels for each colour but the first; more colours of ssor and gauss-seidel as levels does.
// All can be recorded into CUDA graphs (cusparse: where its version allows; else steps are queued one by one), none
// waits for the host, and new values of the same pattern go to the same addresses, so recorded steps stay valid.
//
// amg with setup aggregation is smoothed aggregation (Vanek, Mandel and Brezina, Computing 56 (1996) 179).
//   Computes  with the operator of the last ensure(), which must live as long as it is used; products of the finest
//             level are its own, in its format of that moment. One sweep of `smoother` before and one after the coarser
//             level. l1-jacobi divides by the larger of |a_ii| and 2/3 sum_j |a_ij|; gauss-seidel is the symmetric one
//             in the order of colours, chebyshev has degree 1. At most 256 rows are inverted as a dense matrix. Where A
//             is symmetric, M is; where A is positive definite, M is, with smoothers l1-jacobi and gauss-seidel. The
//             coarser levels represent the constant vector of each unknown: the rows of unknown k are k, k + unknowns,
//             k + 2 unknowns ...; near_null_space has other ones. The threads of the context, or its device, make the
//             levels. New values in the same pattern keep aggregates and patterns where the couplings are what they
//             were; the bits are those of a new setup in any case. The bits do not depend on the number of threads, as
//             far as those of products and dot products (chebyshev) do not.
//   Device    It makes the levels of its own entries, and the host reads a few numbers a level: no copy of the matrix
//             comes to the host. Levels, aggregates and patterns are those of a host, values are so within rounding,
//             and two setups have the same bits. Matrices, P and P^T of 8 million entries or more get the formats that
//             are expected to be the fastest there, smaller ones csr, since a choice takes longer than it saves;
//             besides them it keeps the strong couplings, the patterns, the entry of P that each entry of P^T is, and
//             the tentative prolongator in double precision. For the time of a setup it takes as much memory again as A
//             P and an array of keys for the entries of P, and A in csr where that is not its format. M^-1 r runs there
//             without waiting for the host, and can be recorded. With l1-jacobi, new values of the same pattern go into
//             the matrices that are there. The threads of the host make the levels, of entries that are copied there,
//             where the device cannot; figures() then has one of these, with the value 1: setup_on_host_unsorted_rows
//             (columns of A do not ascend), setup_on_host_too_many_entries (of A, or of a product of its levels: 2^31
//             or more), setup_on_host_entries_elsewhere (the operator gives its entries in host memory),
//             setup_on_host_refused_entries (the device has found something wrong with them, and the host has not).
//   Errors    BadMatrix for entries that are not finite and for products of them that T cannot hold; those of chebyshev
//             and ssor for these smoothers; ShapeMismatch where `unknowns` does not divide the rows. A row that is
//             coupled with none is left to the smoother; zero_diagonal one concerns the smoother and the dense matrix.
//   figures() levels, operator_complexity (entries of all levels / entries of A), grid_complexity (the same of rows),
//             coarsest_rows, cycle_products (estimate: bytes that M^-1 r reads and writes / those of a product of A);
//             on a device what makes the host set it up, if it does.
//
// amg with setup classical is BoomerAMG of hypre (Henson and Yang, Appl. Numer. Math. 41 (2002) 155), in a build that
// was configured with hypre.
//   Computes  on the host, in double precision also for float: entries, r and z are converted. Interpolation extended+i
//             with at most 4 entries a row (multipass on aggressive levels); one sweep of `smoother` before and one
//             after the coarser level; Gaussian elimination on at most 9 rows. Where A is symmetric, M is; where A is
//             positive definite, M is, with smoothers l1-jacobi and gauss-seidel. `unknowns` is for systems such as
//             elasticity: the rows of unknown k are k, k + unknowns, k + 2 unknowns ..., and only rows of one unknown
//             depend on each other in the coarsening.
//   Threads   hypre's own, one where it was built without OpenMP; those of the context are not used. Each setup and
//             each M^-1 r holds a lock of the process, since hypre's state belongs to the process: solves of several
//             threads wait for each other there. hypre's error flag is cleared.
//   MPI       One process: MPI_COMM_SELF. Where hypre has an MPI, the first setup initialises it unless the program
//             has, and then finalises it at exit. A program that uses MPI itself must call MPI_Init_thread() before the
//             first setup, with MPI_THREAD_SERIALIZED or more; with less only its main thread may use amg. After
//             MPI_Finalize() amg is refused. An MPI that cannot start mostly ends the process.
//   Memory    Each setup, also one for new values, makes all levels anew, beside the old ones. hypre does not survive a
//             failed allocation of its own. At most 2^31 - 1 rows and as many entries, where hypre counts in 32 bits.
//   Errors    BadMatrix for entries that are not finite and where hypre fails or gives such numbers; ShapeMismatch
//             where `unknowns` does not divide the rows; NotAvailable in a build without hypre, on a device, in
//             deterministic mode, and where MPI does not allow the call.
//   figures() levels, operator_complexity, grid_complexity, and mpi_milliseconds, which the setup took to start MPI,
//             where it did.
//
// jacobi and chebyshev need the diagonal of A (HasDiagonal), all others its entries (csr_of(), operators/rows.hpp).
// Setup colours rows and finds the pattern and the order of triangular solves only where the pattern of A is new; with
// new values it only computes (but amg with setup classical). M^-1 r has the same bits for any number of threads; with
// chebyshev, if products of A and dot products have.
std::span<const PreconditionerEntry> preconditioners() noexcept;

// A preconditioner for operators of the shape and context of A; ensure() must be called before it is used.
// nullptr for "none". chebyshev, and amg with setup aggregation, compute with the operator of the last ensure(), which
// must live as long as it is used. Throws BadArgument for an unknown name, for options out of range and for those that
// are not their default although this preconditioner does not read them (preconditioner_options_read_by()),
// ShapeMismatch for a rectangular A, NotAvailable for solve cusparse on a host or in deterministic mode, and for one
// that its entry says is not available.
//
// An ensure() that throws leaves M as it was, but for these: on a device, where the last step fails, in which the
// device changes values that M has, M is unusable (BadArgument says so) until an ensure() succeeds; chebyshev and amg
// compute with A itself.
//
// ensure() throws BadArgument where A lacks an ability that is needed (HasDiagonal, entries), and BadMatrix for an
// entry that is not finite (with row and column; jacobi reads the diagonal alone, chebyshev that and products), for a
// zero diagonal entry or a block that is singular or whose inverse T cannot hold (with the first such rows), for a
// matrix that is not symmetric or has a negative diagonal (ic, ic0), for a factorization that fails with every shift or
// has factors that T cannot hold, and for a negative eigenvalue (chebyshev).
template <class T>
PROTEAN_EXPORT std::unique_ptr<Preconditioner<T>> make_preconditioner(
    std::string_view id, const LinearOperator<T>& A, const PreconditionerOptions& options = {});

// amg with these vectors as options.near_null_space, in host memory; they are copied. Throws what make_preconditioner()
// throws; for such vectors that is ShapeMismatch for another number of rows, WrongSpace, and BadArgument for another
// setup, for more than 64 vectors or none, for entries that are not finite, for vectors of zeros and for vectors that
// depend on each other.
template <class T>
PROTEAN_EXPORT std::unique_ptr<Preconditioner<T>> make_amg(const LinearOperator<T>& A,
                                                           MultiVectorView<const double> vectors,
                                                           const PreconditionerOptions& options = {});
// The rigid body modes of nodes at these coordinates (nodes x 2 or 3), which an elastic body without supports does not
// resist: row d i + k belongs to the displacement of node i along axis k. 3 vectors in two dimensions, 6 in three: the
// translations, then the rotations about the middle of the nodes. Throws BadArgument, WrongSpace.
PROTEAN_EXPORT MultiVector<double> rigid_body_modes(const ContextPtr& host,
                                                    MultiVectorView<const double> coordinates);

// How several preconditioners M_1 .. M_k of one A make a new one:
//   additive        M^-1 r = M_1^-1 r + ... + M_k^-1 r
//   multiplicative  z := M_1^-1 r, then z := z + M_i^-1 (r - A z) for i = 2 .. k; k - 1 products of A. Not symmetric.
//   symmetric       the same, then again for i = k - 1 .. 1; 2 k - 2 products. M is symmetric where A and all M_i are;
//                   it is positive definite if A and all M_i are and the iteration with M^-1 converges.
// Memory: that of the parts, one vector of n, and one more for the residual where A is multiplied by.
enum class Composition : unsigned char { additive, multiplicative, symmetric };
inline constexpr Composition compositions[] = {Composition::additive, Composition::multiplicative,
                                               Composition::symmetric};
std::string_view to_string(Composition composition) noexcept;
struct PreconditionerPart {
  std::string id;  // of preconditioners(), but none
  PreconditionerOptions options = {};
  bool operator==(const PreconditionerPart&) const = default;
};
// Whether such an M is symmetric where A is.
bool is_symmetric(std::span<const PreconditionerPart> parts, Composition composition) noexcept;

// A composition of preconditioners that it makes. It computes with the operator of the last ensure(), which must live
// as long as it is used. An ensure() that throws leaves it unusable until one succeeds: some of its parts may be new
// then. Throws what make_preconditioner() throws, and BadArgument for no part and for the part none. figures() has
// those of all parts.
template <class T>
PROTEAN_EXPORT std::unique_ptr<Preconditioner<T>> make_composition(const LinearOperator<T>& A,
                                                                   std::span<const PreconditionerPart> parts,
                                                                   Composition composition);

}  // namespace protean
