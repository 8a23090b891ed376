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
#include <protean/preconditioners/preconditioner_options.hpp>

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
  // Whether M^-1 r may be another function of r in each call, such as an iterative solve. Only fcg and fgmres take it.
  virtual bool variable() const noexcept { return false; }
  // What the last setup has found in A and decided by itself, for a person; else empty.
  virtual std::string description() const { return {}; }
  // Bytes of all its arrays and vectors; 0 if the number is not known (functions of the user).
  virtual std::size_t bytes() const noexcept { return 0; }
  // The precision in which it keeps its numbers: "float" or "double", or "float and double" for a composition of both.
  // The precision of a user's function is not known. Why storage auto has taken double; else empty.
  virtual std::string_view storage() const noexcept { return sizeof(T) == 4 ? "float" : "double"; }
  virtual std::string storage_reason() const { return {}; }
  // Numbers of the last setup, for reports. Empty before the first setup.
  virtual std::vector<PreconditionerFigure> figures() const { return {}; }
  // Of type fields: the field of each row, 0 1 .. in the order of the fields, as a file of `labels` has it. Empty for
  // any other type, and before the first setup.
  virtual std::vector<std::int32_t> labels() const { return {}; }

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
//   fields        a recipe of the blocks of several fields            the blocks, what solves with them, 3 n values
//   amg           `cycles` V-cycles of algebraic multigrid for        see bytes(); mostly 2 to 4 times the entries
//                 A z = r from z = 0
//
// - auto changes its type only in a solve by solve(), SystemSolver or LinearSystem: in the middle of it, or between the
//   solves of a kept system. SolveResult::preconditioner_reason and preconditioner_changes say why it took a type.
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

// The text for option `fields` of type fields: rows of equal labels form a field, which is named by its label. Fields
// are in ascending order of labels. Throws BadArgument for a negative label, and without a row.
PROTEAN_EXPORT std::string fields_of_labels(std::span<const std::int32_t> labels);

// Whether such an M is symmetric if A is, and whether it is variable(). Throw BadArgument as make_preconditioner() does
// of option inner. An unknown name is symmetric.
PROTEAN_EXPORT bool is_symmetric(std::string_view id, const PreconditionerOptions& options);
PROTEAN_EXPORT bool is_variable(std::string_view id, const PreconditionerOptions& options);
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
