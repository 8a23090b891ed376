#include "systems/method_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "core/statistics.hpp"
#include "core/symmetry.hpp"
#include "core/vector.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::detail {
namespace {

std::string difference_text(double asymmetry) {
  if (std::isinf(asymmetry)) return "a row has nothing beside the mirror of an entry";
  return fmt::format("entries differ from their mirrors by up to {:.1e} of the largest of their rows",
                     asymmetry);
}

template <class T>
std::vector<T> random_signs(std::int64_t size, std::uint64_t seed) {
  std::vector<T> signs(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < signs.size(); ++i) signs[i] = static_cast<T>(random_sign(seed, i));
  return signs;
}

template <class T>
std::vector<T> product(const LinearOperator<T>& A, const std::vector<T>& x) {
  const std::int64_t n = A.rows();
  Vector<T> from(A.context(), n), to(A.context(), n);
  copy<T>(*A.context(), {x.data(), n}, from);
  A.apply(from, to);
  std::vector<T> result(x.size());
  copy<T>(*A.context(), to, {result.data(), n});
  return result;
}

template <class T>
bool looks_symmetric(const LinearOperator<T>& A, std::uint64_t seed) {
  const std::vector<T> x = random_signs<T>(A.rows(), seed), y = random_signs<T>(A.rows(), seed + 1);
  const std::vector<T> Ax = product(A, x), Ay = product(A, y);
  double difference = 0, squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double left = Ax[i], right = Ay[i];
    difference += y[i] * left - x[i] * right, squares += left * left + right * right;
  }
  return is_rounding(difference, std::sqrt(squares), A.rows(), std::numeric_limits<T>::epsilon());
}

template <class T>
std::int64_t not_positive(const LinearOperator<T>& A) {
  const Ability<HasDiagonal<T>> known = A.abilities().diagonal;
  if (!known) return 0;
  Vector<T> diagonal(A.context(), A.rows());
  try {
    known->diagonal(diagonal);
  } catch (const BadArgument&) { return 0; }  // an operator that was given no function for it
  std::vector<T> d(static_cast<std::size_t>(A.rows()));
  copy<T>(*A.context(), diagonal, {d.data(), A.rows()});
  return std::count_if(d.begin(), d.end(), [](T value) { return !(value > T(0)); });
}

}  // namespace

template <class T>
MethodTraits method_traits(const Context& context, const CsrMatrix<T>& csr) {
  const SymmetryFacts facts = symmetry_facts(context, csr);
  MethodTraits traits;
  traits.not_positive = facts.not_positive;
  traits.symmetric = facts.asymmetry <= symmetry_tolerance<T>;
  if (!traits.symmetric) traits.difference = difference_text(facts.asymmetry);
  return traits;
}

template <class T>
MethodTraits method_traits(const LinearOperator<T>& A, bool known_symmetric, std::uint64_t seed) {
  MethodTraits traits;
  traits.symmetric = known_symmetric || looks_symmetric(A, seed);
  if (!traits.symmetric) traits.difference = products_differ;
  if (traits.symmetric) traits.not_positive = not_positive(A);
  return traits;
}

// SplitMix64: Steele, Lea, Flood, OOPSLA 2014.
double random_sign(std::uint64_t seed, std::uint64_t index) noexcept {
  std::uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9, z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return ((z ^ (z >> 31)) & 1) != 0 ? 1.0 : -1.0;
}

bool is_rounding(double difference, double norm, std::int64_t rows, double epsilon) noexcept {
  return std::abs(difference) <= std::pow(epsilon, 0.75) * std::sqrt(static_cast<double>(rows)) * norm;
}

PreconditionerTraits preconditioner_traits(std::string_view id, const PreconditionerOptions& options,
                                           const std::vector<PreconditionerPart>& parts,
                                           Composition combine) {
  PreconditionerTraits traits;
  if (parts.empty()) {
    if (!is_symmetric(id, options)) traits.unsymmetric = id;
    if (is_variable(id, options)) traits.variable = id;
    return traits;
  }
  if (!is_symmetric(parts, combine)) traits.unsymmetric = "composition";
  for (const PreconditionerPart& part : parts)
    if (is_variable(part.id, part.options)) traits.variable = "composition";
  return traits;
}

Basis basis_of(const Context& context, std::int64_t rows, std::size_t bytes_of_entry, std::int64_t restart,
               std::int64_t columns) {
  Basis basis;
  basis.of_gmres = std::min(restart, std::max<std::int64_t>(rows, 1)) + 1, basis.vectors = basis.of_gmres;
  const std::size_t vector = static_cast<std::size_t>(std::max<std::int64_t>(rows, 1)) * bytes_of_entry *
                             static_cast<std::size_t>(std::max<std::int64_t>(columns, 1));
  // To ask the system takes as long as a hundred iterations with few rows.
  constexpr std::size_t little = std::size_t{16} << 20;
  if (context.deterministic() || static_cast<std::size_t>(basis.of_gmres) * vector <= little) return basis;
  basis.vectors = static_cast<std::int64_t>(
      std::min<std::size_t>(available_bytes(context) / 4 / vector,
                            static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())));
  return basis;
}

MethodChoice choose_method(const MethodTraits& traits, const PreconditionerTraits& preconditioner,
                           const Basis& basis) {
  if (!preconditioner.variable.empty())
    return {"fgmres",
            fmt::format("fgmres: preconditioner {} solves iteratively, so it changes from one iteration to "
                        "the next",
                        preconditioner.variable)};
  const bool room = basis.of_gmres <= basis.vectors;
  const std::string none = fmt::format("there is no memory for the {} vectors of gmres", basis.of_gmres);
  if (!traits.symmetric) {
    const std::string because = fmt::format("the matrix is not symmetric; {}", traits.difference);
    if (!traits.constraint && !traits.cells) return {"bicgstab", fmt::format("bicgstab: {}", because)};
    if (!room) return {"bicgstab", fmt::format("bicgstab: {}; {}", because, none)};
    return {"gmres",
            fmt::format("gmres: {}; it has {}, and preconditioner fields makes the iterations few and "
                        "expensive: gmres takes one product and one M in each",
                        because, traits.constraint ? "a constraint" : "cells with a pressure")};
  }
  if (const std::string_view name = preconditioner.unsymmetric; !name.empty()) {
    const std::string_view method = name == "fields" && room ? "gmres" : "bicgstab";
    return {method, fmt::format("{}: the matrix is symmetric, but preconditioner {} is not", method, name)};
  }
  if (traits.not_positive == 0) return {"cg", "cg: the matrix is symmetric, and its diagonal is positive"};
  const std::string because = fmt::format(
      "the matrix is symmetric, and {} of its diagonal entries {} not positive, so it is not positive "
      "definite",
      traits.not_positive, traits.not_positive == 1 ? "is" : "are");
  if (!traits.constraint) return {"minres", fmt::format("minres: {}", because)};
  if (!room) return {"minres", fmt::format("minres: {}; {}", because, none)};
  return {"gmres",
          fmt::format("gmres: {}; since it has a constraint, gmres with recipe schur-upper of preconditioner "
                      "fields is expected to be faster than minres with schur-diagonal",
                      because)};
}

#define PROTEAN_INSTANTIATE(T)                                                 \
  template MethodTraits method_traits<T>(const Context&, const CsrMatrix<T>&); \
  template MethodTraits method_traits<T>(const LinearOperator<T>&, bool, std::uint64_t);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
