// The rule behind method `auto`. Private to systems/.
//
//   cg      for a symmetric matrix with a positive diagonal
//   gmres   for a matrix of two fields, one of them a constraint, if preconditioner fields may take recipe schur-upper,
//           which is not symmetric, and for one of cells with a pressure, if there is memory for the vectors of gmres.
//           M is expensive, and gmres applies it once in an iteration. For a symmetric matrix the two take less time
//           than minres with the symmetric recipe schur-diagonal (docs/results/preconditioners.md)
//   minres  for another symmetric matrix with a diagonal entry that is not positive: it is not positive definite
//   bicgstab  for any other matrix, and if the preconditioner is not symmetric
//   fgmres  if the preconditioner changes from one application to the next (Preconditioner::variable())
//
// Entries are looked at once for each set of values, which takes the time of a few products. For an operator without
// entries, two products with random vectors show whether it is symmetric.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/csr.hpp"
#include "operators/linear_operator.hpp"
#include "preconditioners/preconditioner.hpp"

namespace protean::detail {

inline constexpr std::string_view automatic_method = "auto";

// What a choice needs to know of a matrix.
struct MethodTraits {
  bool symmetric = false;
  std::string difference;  // how it differs from a symmetric matrix, for a person; empty if it is symmetric
  std::int64_t not_positive = 0;  // rows whose diagonal entry is not positive, as far as it is known
  bool constraint = false;        // the preconditioner takes a Schur complement of it (FieldsUse::schur)
  bool cells = false;             // it takes the pressure of cells first (FieldsUse::pressure)
};
// csr lies in the space of the context or in host memory. Its rows are sorted.
template <class T>
MethodTraits method_traits(const Context& context, const CsrMatrix<T>& csr);
// The same by products. known_symmetric: symmetry need not be tested. Another seed gives other vectors.
template <class T>
MethodTraits method_traits(const LinearOperator<T>& A, bool known_symmetric, std::uint64_t seed = 1);

// What the preconditioner of a solve is for its method.
struct PreconditionerTraits {
  std::string_view unsymmetric = {};  // its name, if it is not symmetric even for a symmetric matrix
  std::string_view variable = {};     // its name, if it changes from one application to the next
};
// Of the preconditioner of this name and options, or of these parts.
PreconditionerTraits preconditioner_traits(std::string_view id, const PreconditionerOptions& options,
                                           const std::vector<PreconditionerPart>& parts, Composition combine);

// 1 or -1 for entry `index` of a vector: signs in no order that a matrix could have.
double random_sign(std::uint64_t seed, std::uint64_t index) noexcept;
// A symmetric operator has y . A x = x . A y for all x and y; for an unsymmetric operator they are equal only by
// chance. Returns whether their difference is rounding, for vectors of signs. norm: of (A x, A y).
bool is_rounding(double difference, double norm, std::int64_t rows, double epsilon) noexcept;
inline constexpr std::string_view products_differ = "y . A x and x . A y differ for vectors of random signs";

struct MethodChoice {
  std::string_view method;
  std::string reason;
};
// of_gmres: vectors that it keeps; vectors: for which there is memory.
struct Basis {
  std::int64_t of_gmres = 0, vectors = 0;
};
MethodChoice choose_method(const MethodTraits& traits, const PreconditionerTraits& preconditioner,
                           const Basis& basis = {});
// Of gmres with this restart for so many columns: memory for it is a quarter of what is left. There is enough for a
// basis of at most 16 MiB, and in deterministic mode, where memory must not decide.
Basis basis_of(const Context& context, std::int64_t rows, std::size_t bytes_of_entry, std::int64_t restart,
               std::int64_t columns);

}  // namespace protean::detail
