// The options of preconditioners, and the parts of a composition of several.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include <protean/core/export.hpp>

namespace PROTEAN_EXPORT protean {

template <class T>
struct CsrMatrix;  // core/csr.hpp

template <class T>
class MultiVector;  // core/multi_vector.hpp

// What happens to a row whose diagonal entry is missing, zero, or so small that its inverse is not finite. The option
// concerns each M that divides by the diagonal: all except block-jacobi. An entry that is not finite is always refused.
enum class ZeroDiagonal : unsigned char {
  error,  // throw BadMatrix, which names the first such rows
  one     // use 1 instead of the entry
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
std::string_view to_string(Refresh refresh) noexcept;  // "auto", "every", "when-slower", "never"

// The precision in which a solve in double precision stores the numbers of a preconditioner. In single precision all
// are floats. With floats M^-1 r reads half of the bytes, and is linear and symmetric only to about 6e-8. The residual,
// and what ends the solve, are computed in double precision with the matrix that was given.
enum class PreconditionerStorage : unsigned char {
  // Floats. Doubles if an entry does not fit into float, if the setup fails or needs a shift in it, and with gmres,
  // bicgstab2 and minres, which take more iterations with such an M.
  automatic,
  single_precision,  // floats; ensure() throws BadMatrix in these cases, except for the shift
  double_precision
};
inline constexpr PreconditionerStorage preconditioner_storages[] = {PreconditionerStorage::automatic,
                                                                    PreconditionerStorage::single_precision,
                                                                    PreconditionerStorage::double_precision};
std::string_view to_string(PreconditionerStorage storage) noexcept;  // "auto", "float", "double"

// The order in which ic0 and ilu0 eliminate the rows.
enum class FactorOrdering : unsigned char {
  automatic,  // natural on a host; on a GPU colours if `solve` is automatic and there are at most 64 of them
  natural,    // the order of the rows
  colours     // colour after colour; rows of one colour are not coupled. cusparse is refused then
};
std::string_view to_string(FactorOrdering ordering) noexcept;  // "auto", "natural", "colours"

// Which rows form a subdomain of subdomain-ic0 and subdomain-ilu0.
enum class SubdomainPartition : unsigned char {
  order,  // consecutive rows
  metis   // the parts of METIS' k-way partition of the graph of A, in a build with METIS
};
std::string_view to_string(SubdomainPartition partition) noexcept;  // "order", "metis"
// Empty if this build has it; otherwise the reason and what to do.
std::string_view unavailable(SubdomainPartition partition) noexcept;

// How amg makes its coarser levels.
enum class AmgSetup : unsigned char {
  aggregation,  // our own smoothed aggregation
  classical     // BoomerAMG of hypre, in a build with hypre
};
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

// How `fields` makes M^-1 of the blocks A_ij of A; fields/fields.hpp has the formulas. S is an approximate Schur
// complement A_11 - A_10 A_00^-1 A_01 of two fields.
enum class FieldRecipe : unsigned char {
  automatic,        // by what the matrix is: fields/fields.hpp
  additive,         // block Jacobi
  lower,            // block Gauss-Seidel, forward
  upper,            // the same, backward
  symmetric,        // forward and backward
  cpr_quasi_impes,  // constrained pressure residual: the pressure, then the whole matrix
  cpr_true_impes,   // the same with other weights
  schur_diagonal,   // (K^-1, |S|^-1)
  schur_lower,
  schur_upper,
  schur_full
};
inline constexpr FieldRecipe field_recipes[] = {
    FieldRecipe::automatic,      FieldRecipe::additive,       FieldRecipe::lower,
    FieldRecipe::upper,          FieldRecipe::symmetric,      FieldRecipe::cpr_quasi_impes,
    FieldRecipe::cpr_true_impes, FieldRecipe::schur_diagonal, FieldRecipe::schur_lower,
    FieldRecipe::schur_upper,    FieldRecipe::schur_full};
std::string_view to_string(FieldRecipe recipe) noexcept;  // "auto", "additive" .. "schur-full"

// What takes the place of the Schur complement.
enum class SchurComplement : unsigned char {
  diagonal,   // A_11 - A_10 D^-1 A_01, D the diagonal of A_00: SIMPLE
  commutator  // S^-1 = -L^-1 (A_10 D^-1 A_00 D^-1 A_01) L^-1, L = A_10 D^-1 A_01: least-squares commutator
};
inline constexpr SchurComplement schur_complements[] = {SchurComplement::diagonal,
                                                        SchurComplement::commutator};
std::string_view to_string(SchurComplement schur) noexcept;  // "diagonal", "commutator"

// The options of all types. preconditioner_options() of preconditioners/options.hpp and `protean help problem
// preconditioner` say which type reads which option, and in which range.
struct PreconditionerOptions {
  Refresh refresh = Refresh::automatic;  // all types, in a kept system
  std::int64_t solves = 0;               // auto: expected number of solves with one pattern; 0: not known
  // All types except jacobi, spai0 and chebyshev, which store no entries; not amg with setup classical, which computes
  // in double precision.
  PreconditionerStorage storage = PreconditionerStorage::double_precision;
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
  double eigenvalue_ratio = 30;  // chebyshev: largest / smallest eigenvalue of its interval, above 1
  AmgSetup setup = AmgSetup::aggregation;    // amg
  Smoother smoother = Smoother::l1_jacobi;   // amg
  Coarsening coarsening = Coarsening::hmis;  // amg with setup classical
  // amg with setup classical: row i depends on j if -a_ij > strong_threshold max_k(-a_ik). Between 0 and 1, both
  // excluded.
  double strong_threshold = 0.25;
  // amg with setup classical: number of finest levels that keep far fewer points, 0 to 100.
  std::int64_t aggressive_levels = 0;
  // amg with setup aggregation: nodes i and j are coupled if |a_ij| > strength sqrt |a_ii a_jj|. For nodes of several
  // unknowns, norms of blocks take the place of entries. Each coarser level uses half of the value; a level on which
  // more than half of the nodes would not be coupled uses less, down to a sixteenth. 0 or more, below 1.
  double strength = 0.08;
  LevelFormat level_format = LevelFormat::automatic;  // amg with setup aggregation
  std::int64_t max_levels = 25;                       // amg: most levels, including the finest, 1 to 100
  std::int64_t cycles = 1;                            // amg: V-cycles for each M^-1 r, 1 to 100
  std::int64_t unknowns = 1;  // amg, auto: unknowns of a node in consecutive rows, 1 to 64
  // fields: the rows of each field, as "u 0-9999, p 10000-": ranges of rows from 0, both ends included. A range without
  // an end goes to the last row, with "/k" it has every k-th row ("u 0-/3 1-/3, p 2-/3"). "auto": found.
  std::string fields = "auto";
  // fields: row i belongs to field i mod this number, and the fields are named "0", "1" ..; 0: see `fields`.
  std::int64_t interleaved = 0;
  FieldRecipe recipe = FieldRecipe::automatic;        // fields
  SchurComplement schur = SchurComplement::diagonal;  // fields with a recipe schur-...
  // fields: the preconditioner of each field with its options, as "u amg cycles=2, p jacobi". With method=cg, or
  // another method, tolerance=0.01 and iterations=20 that method solves with the block; M then changes from one
  // application to the next (Preconditioner::variable()). "auto", and a field without one: amg, ic0 or ilu0.
  std::string inner = "auto";
  // amg with setup aggregation, auto: vectors that A nearly maps to zero, such as rigid_body_modes() of an elastic
  // body. Rows of A x 1 to 64 vectors in host memory, in any layout, linearly independent; their lengths do not matter.
  // The coarser levels represent them instead of the constants. amg copies them. A preconditioner auto or a system does
  // not: the vectors must live as long as it does. Null: the constants. preconditioner_options() has no entry for them.
  const MultiVector<double>* near_null_space = nullptr;
  // fields with a recipe schur-..: a positive definite matrix in host memory that takes the place of |S|, such as the
  // mass matrix of the pressure over the viscosity; rows as the second field, in their order. fields copies it, and its
  // owner keeps it as near_null_space. Null: see `schur`. preconditioner_options() has no entry for it.
  const CsrMatrix<double>* schur_operator = nullptr;
  bool operator==(const PreconditionerOptions&) const = default;
};

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

}  // namespace protean
