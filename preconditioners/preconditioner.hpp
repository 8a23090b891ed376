// Preconditioners: operators whose product is y = M^-1 x. docs/preconditioners.md describes each type.
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

// A number that says how a setup went: "shift", "colours" ...
struct PreconditionerFigure {
  std::string_view name;
  double value = 0;
};

template <class T>
class Preconditioner : public LinearOperator<T> {
 public:
  using LinearOperator<T>::LinearOperator;

  // Brings M up to date with A. Does nothing if M was built from this A at its present revision(); a change of the
  // storage format does not change the revision. Throws ShapeMismatch, and what setup() throws. M is unchanged then;
  // make_preconditioner() and make_composition() name the exceptions.
  void ensure(const LinearOperator<T>& A);

  // The diagonal entries of M^-1 in the space of the context if M is diagonal, empty for any other M. Solvers multiply
  // by them inside their own vector operations. A later ensure() that succeeds writes the new entries to the same
  // address, so a solve whose observer calls ensure() goes on with the new entries.
  virtual VectorView<const T> inverse_diagonal() const noexcept { return {}; }

  // False if M is not symmetric even for a symmetric A. cg and minres refuse such a preconditioner.
  virtual bool symmetric() const noexcept { return true; }
  // Bytes of all its arrays and vectors; 0 if the number is not known (functions of the user).
  virtual std::size_t bytes() const noexcept { return 0; }
  // Numbers of the last setup, for reports. Empty before the first setup.
  virtual std::vector<PreconditionerFigure> figures() const { return {}; }

 protected:
  // The number of setups that have succeeded.
  std::uint64_t setups() const noexcept { return setups_; }
  virtual void setup(const LinearOperator<T>& A, bool pattern_changed) = 0;
  // For a setup() that cannot leave M unchanged when it throws: the next ensure() sets M up again for any A.
  void forget() noexcept { built_for_ = 0; }

 private:
  std::uint64_t built_for_ = 0;  // serial of the operator, 0 for none
  Revision built_from_;
  std::uint64_t setups_ = 0;
};

// What happens to a row whose diagonal entry is missing, zero, or so small that its inverse is not finite. The option
// concerns each M that divides by the diagonal: all except block-jacobi. An entry that is not finite is always refused.
enum class ZeroDiagonal : unsigned char {
  error,  // throw BadMatrix, which names the first such rows
  one     // use 1 in place of the entry
};

// Which rows form a block of block-jacobi.
enum class DiagonalBlocks : unsigned char {
  equal,  // block_size rows
  found   // neighbouring rows with the same columns, such as the unknowns of a node; at most block_size rows
};
inline constexpr DiagonalBlocks diagonal_blocks[] = {DiagonalBlocks::equal, DiagonalBlocks::found};
std::string_view to_string(DiagonalBlocks blocks) noexcept;  // "equal", "found"

// How ic, ic0, ilu and ilu0 solve with their triangular factors. levels and cusparse are exact up to rounding, sweeps
// is not.
enum class TriangularSolve : unsigned char {
  automatic,  // levels on a host; on a GPU the faster of levels and cusparse, measured once for a pattern
  levels,     // rows that do not wait for each other are solved at the same time
  cusparse,   // cusparseSpSV; GPU only
  sweeps      // a fixed number of Jacobi sweeps for each triangle
};
inline constexpr TriangularSolve triangular_solves[] = {TriangularSolve::automatic, TriangularSolve::levels,
                                                        TriangularSolve::cusparse, TriangularSolve::sweeps};
std::string_view to_string(TriangularSolve solve) noexcept;  // "auto", "levels", "cusparse", "sweeps"

// When a kept system (LinearSystem) sets its preconditioner up again for new values of its matrix. Whatever the option
// says, it does so before the next solve if a solve did not converge with an M of old values, or took more than twice
// the iterations of the first solve after a setup. A composition is set up if one of its parts asks for it.
enum class Refresh : unsigned char {
  automatic,    // every; when_slower for type auto
  every,        // for each set of new values
  when_slower,  // when the extra iterations caused by its age have cost as much time as a setup
  never         // not while it works
};
inline constexpr Refresh refreshes[] = {Refresh::automatic, Refresh::every, Refresh::when_slower,
                                        Refresh::never};
std::string_view to_string(Refresh refresh) noexcept;  // "auto", "every", "when-slower", "never"

// The order in which ic0 and ilu0 eliminate the rows.
enum class FactorOrdering : unsigned char {
  automatic,  // natural on a host; on a GPU colours if `solve` is automatic and there are at most 64 of them
  natural,    // the order of the rows
  colours     // colour after colour; rows of one colour are not coupled. cusparse is refused then
};
inline constexpr FactorOrdering factor_orderings[] = {FactorOrdering::automatic, FactorOrdering::natural,
                                                      FactorOrdering::colours};
std::string_view to_string(FactorOrdering ordering) noexcept;  // "auto", "natural", "colours"

// Which rows form a subdomain of subdomain-ic0 and subdomain-ilu0.
enum class SubdomainPartition : unsigned char {
  order,  // rows that follow each other
  metis   // the parts of METIS' k-way partition of the graph of A, in a build with METIS
};
inline constexpr SubdomainPartition subdomain_partitions[] = {SubdomainPartition::order,
                                                              SubdomainPartition::metis};
std::string_view to_string(SubdomainPartition partition) noexcept;  // "order", "metis"
// Empty if this build has it; otherwise the reason and what to do.
std::string_view unavailable(SubdomainPartition partition) noexcept;

// How amg makes its coarser levels.
enum class AmgSetup : unsigned char {
  aggregation,  // our own smoothed aggregation
  classical     // BoomerAMG of hypre, in a build with hypre
};
inline constexpr AmgSetup amg_setups[] = {AmgSetup::aggregation, AmgSetup::classical};
std::string_view to_string(AmgSetup setup) noexcept;  // "aggregation", "classical"
// Empty if this build has it; otherwise the reason and what to do.
std::string_view unavailable(AmgSetup setup) noexcept;

// The storage format of the matrices of amg's coarser levels with setup aggregation.
enum class LevelFormat : unsigned char {
  automatic,  // the format that `format: auto` chooses for each level
  csr
};
inline constexpr LevelFormat level_formats[] = {LevelFormat::automatic, LevelFormat::csr};
std::string_view to_string(LevelFormat format) noexcept;  // "auto", "csr"

// How amg with setup classical chooses the points of the next coarser level. hmis is the cheapest in most cases,
// falgout keeps more points.
enum class Coarsening : unsigned char { hmis, pmis, falgout };
inline constexpr Coarsening coarsenings[] = {Coarsening::hmis, Coarsening::pmis, Coarsening::falgout};
std::string_view to_string(Coarsening coarsening) noexcept;  // "hmis", "pmis", "falgout"

// What amg does on each level before and after the coarser level. Both steps together are symmetric if A is.
enum class Smoother : unsigned char {
  l1_jacobi,     // Jacobi with row sums of |a_ij| as the diagonal; it converges for each positive definite A
  gauss_seidel,  // forward before, backward after
  chebyshev      // a polynomial in D^-1/2 A D^-1/2, for symmetric positive definite A
};
inline constexpr Smoother smoothers[] = {Smoother::l1_jacobi, Smoother::gauss_seidel, Smoother::chebyshev};
std::string_view to_string(Smoother smoother) noexcept;  // "l1-jacobi", "gauss-seidel", "chebyshev"

// The options of all types. preconditioner_options() of preconditioners/options.hpp and `protean help problem
// preconditioner` say which type reads which option, and in which range.
struct PreconditionerOptions {
  Refresh refresh = Refresh::automatic;  // all types, in a kept system
  std::int64_t solves = 0;               // auto: expected number of solves with one pattern; 0: not known
  ZeroDiagonal zero_diagonal = ZeroDiagonal::error;
  std::int64_t fill = 1;  // ic, ilu: largest level of fill that is kept, 0 or more
  FactorOrdering ordering = FactorOrdering::automatic;  // ic0, ilu0
  TriangularSolve solve = TriangularSolve::automatic;   // ic0, ic, ilu0, ilu
  std::int64_t sweeps = 4;  // ic0, ic, ilu0, ilu with solve sweeps: Jacobi sweeps for each triangle, 1 to 100
  // block-jacobi: rows of a block (with blocks found: the most rows), 1 to 64. 0: the number of unknowns of a node,
  // found in the pattern.
  std::int64_t block_size = 0;
  DiagonalBlocks blocks = DiagonalBlocks::found;  // block-jacobi
  std::int64_t power = 1;  // isai, isai-lu: power of the pattern of their triangles, 1 to 4
  // subdomain-ic0, subdomain-ilu0: rows of a subdomain, about that many with partition metis. 0: a number that suits
  // the threads, or fits into the shared memory of a thread block.
  std::int64_t subdomain_size = 0;
  SubdomainPartition partition = SubdomainPartition::order;  // subdomain-ic0, subdomain-ilu0
  std::int64_t overlap = 0;      // subdomain-ilu0: 1: a subdomain also computes with the rows next to its own
  double omega = 1;              // ssor: relaxation, between 0 and 2, both excluded
  std::int64_t degree = 4;       // chebyshev: products of A for each M^-1 r, 1 to 100
  double eigenvalue_ratio = 30;  // chebyshev: largest over smallest eigenvalue of its interval, more than 1
  AmgSetup setup = AmgSetup::aggregation;    // amg
  Smoother smoother = Smoother::l1_jacobi;   // amg
  Coarsening coarsening = Coarsening::hmis;  // amg with setup classical
  // amg with setup classical: row i depends on j if -a_ij > strong_threshold max_k(-a_ik). Between 0 and 1, both
  // excluded.
  double strong_threshold = 0.25;
  // amg with setup classical: number of finest levels that keep far fewer points, 0 to 100.
  std::int64_t aggressive_levels = 0;
  // amg with setup aggregation: nodes i and j are coupled if |a_ij| > strength sqrt |a_ii a_jj|. Norms of blocks take
  // the place of entries for nodes of several unknowns. Each coarser level uses half of the value; a level on which
  // more than half of the nodes would not be coupled uses less, down to a sixteenth. 0 or more, below 1.
  double strength = 0.08;
  LevelFormat level_format = LevelFormat::automatic;  // amg with setup aggregation
  std::int64_t max_levels = 25;                       // amg: most levels, the finest included, 1 to 100
  std::int64_t cycles = 1;                            // amg: V-cycles for each M^-1 r, 1 to 100
  std::int64_t unknowns = 1;  // amg, auto: unknowns of a node, whose rows follow each other, 1 to 64
  // amg with setup aggregation, auto: vectors that A nearly maps to zero, such as rigid_body_modes() of an elastic
  // body. Rows of A x 1 to 64 vectors in host memory, in any layout, linearly independent; their lengths do not matter.
  // The coarser levels represent them instead of the constants. amg copies them. A preconditioner auto or a system does
  // not: the vectors must live as long as it does. Null: the constants. preconditioner_options() has no entry for them.
  const MultiVector<double>* near_null_space = nullptr;
  bool operator==(const PreconditionerOptions&) const = default;
};

struct PreconditionerEntry {
  std::string_view id, title;
  // Null for "none", and if `unavailable` gives a reason.
  std::unique_ptr<Preconditioner<double>> (*make_f64)(const LinearOperator<double>&,
                                                      const PreconditionerOptions&) = nullptr;
  std::unique_ptr<Preconditioner<float>> (*make_f32)(const LinearOperator<float>&,
                                                     const PreconditionerOptions&) = nullptr;
  // False: M is not symmetric even if A is, so cg and minres refuse it. symmetric_relative names the most similar
  // symmetric type.
  bool symmetric = true;
  std::string_view symmetric_relative = {};
  // Why this build does not have it, and what to do; empty if it does.
  std::string_view unavailable = {};
  // The library that computes it, or one setup of it (amg), and its version; empty for our own code.
  std::string_view library = {};
};
// The types. A = L + D + U is split into its parts below, on and above the diagonal; A has n rows. The memory is in the
// space of the context. Rows of gauss-seidel and ssor are coloured: rows of one colour are not coupled, and L holds the
// entries of earlier colours.
//
//   id            M^-1 r                                              memory
//   none          r                                                   0
//   auto          M^-1 r of the type it has chosen, at first jacobi   memory of the type
//   jacobi        D^-1 r                                              2 n values
//   block-jacobi  the inverse of each block of rows, times r          (rows of a block + 1) n values
//   spai0         m .* r, m_i = a_ii / sum_j a_ij^2: minimises        2 n values
//                 ||I - diag(m) A|| in the Frobenius norm
//   gauss-seidel  (D + L)^-1 r                                        the entries, 5 n values
//   ssor          omega (2 - omega) (D + omega U)^-1 D (D + omega L)^-1 r
//                                                                     the entries, 5 n values
//   ic0, ic       (L L^T)^-1 r, L L^T = A in all entries of A (ic0)   the entries (with fill), 5 n values
//                 or in the entries of the given level of fill (ic)
//   ilu0, ilu     (L U)^-1 r, the same for any A                      the entries (with fill), 5 n values
//   isai, isai-lu Y D X r, X and Y sparse approximate inverses of     two matrices with the pattern of (a power of)
//                 the triangles of ic0 (isai), of ilu0 (isai-lu)      a triangle, one vector
//   subdomain-ic0, subdomain-ilu0
//                 sum_s Q_s^T M_s^-1 R_s r, M_s the factors of ic0    the entries within subdomains, 4 n values
//                 or ilu0 of subdomain s
//   chebyshev     p(D^-1 A) D^-1 r, p the Chebyshev polynomial of     4 n values
//                 given degree on [lambda / eigenvalue_ratio, lambda]
//   amg           `cycles` V-cycles of algebraic multigrid for        see bytes(); mostly 2 to 4 times the entries
//                 A z = r from z = 0
//
// - auto changes its type in a kept system (LinearSystem) alone, and not in deterministic mode.
//   SolveResult::preconditioner_reason says why it took a type.
// - If a pivot of ic0, ic, ilu0 or ilu is bad (not positive; for ilu0 and ilu zero to rounding; or without a finite
//   inverse), A + alpha D is factored instead, with the smallest alpha of 0.001, 0.002, 0.004 ... that works. figures()
//   has alpha as "shift".
// - chebyshev takes 1.1 times the largest Ritz value of 20 steps of cg with M = D for lambda.
// - amg with setup classical computes on the host in double precision, with hypre's own threads. Solves of several
//   threads wait for each other in it. Its first setup initialises MPI unless the program has done so; a program with
//   MPI calls MPI_Init_thread() before, with MPI_THREAD_SERIALIZED or more.
// - jacobi and chebyshev need the diagonal of A (HasDiagonal), all others its entries (csr_of(), operators/rows.hpp).
// - M^-1 r has the same bits for any number of threads; chebyshev, and amg with smoother chebyshev, if products of A
//   and dot products have. On a device no M^-1 r waits for the host, and all can be recorded into CUDA graphs
//   (cusparse: if its version allows it). New values of the same pattern keep the addresses.
std::span<const PreconditionerEntry> preconditioners() noexcept;

// A preconditioner for operators of the shape and context of A; call ensure() before using it. nullptr for "none".
// chebyshev, and amg with setup aggregation, compute with the operator of the last ensure(), which must live as long as
// they are used. Throws
// - BadArgument for an unknown name, for an option out of range, and for an option that is not its default although the
//   type does not read it (preconditioner_options_read_by()),
// - ShapeMismatch for a rectangular A, and if `unknowns` does not divide its rows,
// - NotAvailable for solve cusparse on a host or in deterministic mode, and for a type or setup that is not in this
//   build or not for this context (amg with setup classical: a device, deterministic mode).
//
// ensure() throws
// - BadArgument if A lacks an ability that is needed (HasDiagonal, entries), and if L and U of a subdomain do not fit
//   into the shared memory of a thread block,
// - BadMatrix for an entry that is not finite (with row and column; jacobi reads the diagonal alone, chebyshev the
//   diagonal and products), for a zero diagonal entry, for a block that is singular or whose inverse T cannot hold, for
//   a matrix that is not symmetric or has a negative diagonal (ic, ic0), for a factorization that fails with every
//   shift, for factors or levels (amg) that T cannot hold, for a negative eigenvalue (chebyshev, also as smoother), and
//   if hypre fails.
//
// An ensure() that throws leaves M as it was, with two exceptions. On a device M is unusable (BadArgument says so)
// until an ensure() succeeds if the last step fails, which changes values that M has. chebyshev and amg multiply by A
// itself, which has its new values.
template <class T>
PROTEAN_EXPORT std::unique_ptr<Preconditioner<T>> make_preconditioner(
    std::string_view id, const LinearOperator<T>& A, const PreconditionerOptions& options = {});

// amg with these vectors as options.near_null_space, in host memory; they are copied. Throws what make_preconditioner()
// throws. For the vectors it throws ShapeMismatch for another number of rows, WrongSpace for device memory, and
// BadArgument for another setup, for no vector or more than 64, for entries that are not finite, for vectors of zeros
// and for vectors that depend on each other.
template <class T>
PROTEAN_EXPORT std::unique_ptr<Preconditioner<T>> make_amg(const LinearOperator<T>& A,
                                                           MultiVectorView<const double> vectors,
                                                           const PreconditionerOptions& options = {});
// The rigid body modes of nodes at these coordinates (nodes x d, d = 2 or 3): the motions that an elastic body without
// supports does not resist. Row d i + k belongs to the displacement of node i along axis k. The columns are the
// translations, then the rotations about the middle of the nodes: 3 vectors in two dimensions, 6 in three. Throws
// BadArgument, WrongSpace.
PROTEAN_EXPORT MultiVector<double> rigid_body_modes(const ContextPtr& host,
                                                    MultiVectorView<const double> coordinates);

// How several preconditioners M_1 .. M_k of one A make a new one:
//   additive        M^-1 r = M_1^-1 r + ... + M_k^-1 r
//   multiplicative  z := M_1^-1 r, then z := z + M_i^-1 (r - A z) for i = 2 .. k; k - 1 products of A. Not symmetric.
//   symmetric       the same, then again for i = k - 1 .. 1; 2 k - 2 products. M is symmetric if A and all M_i are; it
//                   is positive definite if A and all M_i are and the iteration with M^-1 converges.
// Memory: the parts and one vector of n; multiplicative and symmetric have one more vector for the residual.
enum class Composition : unsigned char { additive, multiplicative, symmetric };
inline constexpr Composition compositions[] = {Composition::additive, Composition::multiplicative,
                                               Composition::symmetric};
std::string_view to_string(Composition composition) noexcept;
struct PreconditionerPart {
  std::string id;  // one of preconditioners() except "none"
  PreconditionerOptions options = {};
  bool operator==(const PreconditionerPart&) const = default;
};
// Whether such an M is symmetric if A is.
bool is_symmetric(std::span<const PreconditionerPart> parts, Composition composition) noexcept;

// A composition of the named preconditioners, which it makes and owns. It computes with the operator of the last
// ensure(), which must live as long as it is used. An ensure() that throws leaves it unusable until one succeeds, since
// some of its parts may be new then. Throws what make_preconditioner() throws, and BadArgument for no part and for the
// part "none". figures() has the figures of all parts.
template <class T>
PROTEAN_EXPORT std::unique_ptr<Preconditioner<T>> make_composition(const LinearOperator<T>& A,
                                                                   std::span<const PreconditionerPart> parts,
                                                                   Composition composition);

}  // namespace protean
