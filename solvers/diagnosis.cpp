#include "solvers/diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "core/blas1.hpp"
#include "core/communicator.hpp"
#include "core/error.hpp"
#include "solvers/hashed.hpp"
#include "solvers/lanes.hpp"

namespace protean::detail {
namespace {

// A sum of squares above it has lost nothing to underflow that matters.
template <class T>
constexpr T smallest_safe = std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon();

// The scalar that reduce(T*) leaves in `there`, in the context's space. Waits for it.
template <class T, class Reduce>
T reduced(const Context& context, Vector<T>& there, Reduce&& reduce) {
  T value = 0;
  reduce(there.data());
  copy<T>(context, there.view(), {&value, 1});
  return value;
}

// The power of two, so that scaling is exact both ways, that brings the largest |v_i| into [1, 2). `largest`
// is neither 0 nor infinite.
template <class T>
T factor_to_one(T largest) {
  return std::ldexp(T(1), std::min(-std::ilogb(largest), std::numeric_limits<T>::max_exponent - 1));
}

template <class T>
T largest_entry(const Context& context, VectorView<const T> v, Vector<T>& number) {
  return reduced<T>(context, number, [&](T* result) { max_abs<T>(context, v, result); });
}

// v := v times a power of two, with entries of at most 2; returns the power. 0 if v is 0 or not finite.
template <class T>
double bring_to_one(const Context& context, VectorView<T> v, Vector<T>& number) {
  const T largest = largest_entry<T>(context, v, number);
  if (largest == 0 || !std::isfinite(largest)) return 0;
  const T factor = factor_to_one(largest);
  scale<T>(context, factor, v);
  return static_cast<double>(factor);
}

// Decimal logarithms of the 2-norms of r = b - A x, z = M^-1 r and q = A z. Norms themselves may be below the
// range of a double.
struct Norms {
  double r = 0, z = 0, q = 0;
  // The same ratios for a residual of this norm.
  void scale_to(double norm_of_r) {
    const double more = std::log10(norm_of_r) - r;
    r += more, z += more, q += more;
  }
};

// Each vector is scaled to one before the next is computed from it, so that none of them underflows. Empty if one is 0
// or not finite.
template <class T>
std::optional<Norms> norms_at_the_end(const Evidence<T>& of) {
  const System<T>& s = of.system;
  const Context& context = s.context();
  Vector<T>& number = of.number;
  const VectorView<T> r = of.residual, z = of.spare[0], q = of.spare[1];
  const double r_factor = bring_to_one(context, r, number);
  if (r_factor == 0) return std::nullopt;
  Norms norms;
  norms.r = std::log10(norm<T>(context, r, number)) - std::log10(r_factor);
  s.precondition(r, z);
  const double z_factor = bring_to_one(context, z, number);
  if (z_factor == 0) return std::nullopt;
  const double factors = std::log10(z_factor) + std::log10(r_factor);
  norms.z = std::log10(norm<T>(context, z, number)) - factors;
  s.product(z, q);
  norms.q = std::log10(norm<T>(context, q, number)) - factors;
  return std::isfinite(norms.q) ? std::optional(norms) : std::nullopt;
}

// Whether products of two of these norms are out of range. The scalars of all methods are such products.
template <class T>
bool underflows(const Norms& n, bool of_cg) {
  const double least = std::log10(smallest_safe<T>);
  // r . r, r . z, p . A p
  if (2 * n.r < least || n.r + n.z < least || n.z + n.q < least) return true;
  // bicgstab: r0 . v, t . t; gmres: w . w with w = A M^-1 r / ||r||
  return !of_cg && (n.r + n.q < least || 2 * n.q < least || 2 * (n.q - n.r) < least);
}

// Whether scalars of some method are above the range of T for these norms.
template <class T>
bool overflows(const Norms& n) {
  const double most = std::log10(std::numeric_limits<T>::max());
  // r . r, r . z, p . A p, r0 . v, t . t; gmres: w . w with w = A M^-1 r / ||r||; bicgstab2: t . t with t = (A M^-1)^2
  // r
  const double largest = std::max({n.r, n.z, n.q, n.q - n.r, 2 * n.q - n.r});
  return 2 * largest >= most;
}

// The part of a detail that names the norms.
template <class T>
std::string in_words(const Norms& n) {
  return fmt::format("||r|| = 1e{:.0f}, ||M^-1 r|| = 1e{:.0f}, ||A M^-1 r|| = 1e{:.0f}; {} precision", n.r,
                     n.z, n.q, sizeof(T) == 4 ? "single" : "double");
}

// f(row, entry) for all entries of v, on the host. No memory is taken except on the stack: a piece is large enough that
// the copies of a vector on a device, each of which the host waits for, take not much longer than one copy.
template <class T, class F>
void in_pieces(const Context& context, VectorView<const T> v, F&& f) {
  std::array<T, 8192> some;
  for (std::int64_t begin = 0; begin < v.size; begin += std::ssize(some)) {
    const std::int64_t count = std::min<std::int64_t>(std::ssize(some), v.size - begin);
    copy<T>(context, VectorView<const T>{v.data + begin, count, v.space}, {some.data(), count});
    for (std::int64_t i = 0; i < count; ++i) f(begin + i, some[static_cast<std::size_t>(i)]);
  }
}

struct DiagonalSigns {
  std::int64_t not_negative = 0, not_positive = 0;
};

// Empty if A does not know its diagonal.
template <class T>
std::optional<DiagonalSigns> diagonal_signs(const Evidence<T>& of) {
  const Ability<HasDiagonal<T>> known = of.system.A.abilities().diagonal;
  if (!known) return std::nullopt;
  const VectorView<T> d = of.spare[0];
  try {
    known->diagonal(d);
  } catch (const BadArgument&) { return std::nullopt; }  // a caller's operator without a function for it
  DiagonalSigns signs;
  in_pieces<T>(of.system.context(), d, [&](std::int64_t, T a) {
    signs.not_negative += !(a < T(0)), signs.not_positive += !(a > T(0));
  });
  signs.not_negative = counted(of.system.context(), signs.not_negative);
  signs.not_positive = counted(of.system.context(), signs.not_positive);
  return signs;
}

// v := numbers that look random; another `seed` gives others.
template <class T>
void fill_random(const Context& context, std::uint64_t seed, VectorView<T> v) {
  fill_hashed<T>(context, (seed << 40) + static_cast<std::uint64_t>(first_row(context)), v);
}

}  // namespace

template <class T>
double norm(const Context& context, VectorView<T> v, Vector<T>& number) {
  const auto dot_v = [&](T* result) { dot<T>(context, v, v, result); };
  T squared = reduced<T>(context, number, dot_v);
  if (std::isfinite(squared) && squared > smallest_safe<T>) return std::sqrt(static_cast<double>(squared));
  const T largest = largest_entry<T>(context, v, number);
  if (largest == 0 || !std::isfinite(largest)) return static_cast<double>(largest);
  const T factor = factor_to_one(largest);
  scale<T>(context, factor, v);
  squared = reduced<T>(context, number, dot_v);
  scale<T>(context, T(1) / factor, v);
  return std::sqrt(static_cast<double>(squared)) / static_cast<double>(factor);
}

template <class T>
double make_weights(const LinearOperator<T>& A, const SolverOptions& options, Vector<T>& weights,
                    Vector<T>& number) {
  const Ability<HasDiagonal<T>> known = A.abilities().diagonal;
  if (!known)
    throw BadArgument(
        fmt::format("residual_norm is {}, but operator {} does not know its diagonal{}{}; take euclidean",
                    options.residual_norm, A.name(), known.why().empty() ? "" : ": ", known.why()));
  const Context& context = *A.context();
  if (weights.size() != A.rows()) weights = make_vector<T>(A.context(), A.rows());
  known->diagonal(weights);
  const T largest = largest_entry<T>(context, weights, number);
  const T replaced = reduced<T>(context, number, [&](T* result) { reciprocal<T>(context, weights, result); });
  return std::max(static_cast<double>(largest), replaced > 0 ? 1.0 : 0.0);
}

template <class T>
Diagnosis diagnose(const Evidence<T>& of, const Verdict& verdict, bool first, double initial_residual,
                   StopReason reason, std::string detail) {
  const bool of_cg =
      reason == StopReason::indefinite_operator || reason == StopReason::indefinite_preconditioner;
  if (reason == StopReason::divergence && initial_residual > 0) {
    const char* const precision = sizeof(T) == 4 ? "single" : "double";
    if (initial_residual * initial_residual < static_cast<double>(smallest_safe<T>))
      return {StopReason::underflow,
              fmt::format(
                  "{}{}the solve began with ||r|| = 1e{:.0f}; {} precision ends at {:.0g}, and the square of "
                  "||r|| is smaller or has lost its digits",
                  detail, detail.empty() ? "" : "; ", std::log10(initial_residual), precision,
                  std::numeric_limits<T>::min())};
    // The ratios of the norms now, for the residual at the beginning.
    if (auto norms = norms_at_the_end(of)) {
      norms->scale_to(initial_residual);
      if (underflows<T>(*norms, false))
        return {
            StopReason::underflow,
            fmt::format("{}{}the solve began with ||r|| = 1e{:.0f}, ||M^-1 r|| of about 1e{:.0f} and "
                        "||A M^-1 r|| of about 1e{:.0f}; {} precision ends at {:.0g}, and products of two "
                        "of them are smaller or have lost their digits",
                        detail, detail.empty() ? "" : "; ", norms->r, norms->z, norms->q, precision,
                        std::numeric_limits<T>::min())};
    }
  }
  if (reason == StopReason::not_finite || (reason == StopReason::breakdown && verdict.overflow)) {
    std::optional<Norms> norms = norms_at_the_end(of);
    // If x is not finite, either: the ratios for b, and the residual at the beginning.
    if (!norms && initial_residual > 0) {
      copy<T>(of.system.context(), of.system.b, of.residual);
      norms = norms_at_the_end(of);
      if (norms) norms->scale_to(initial_residual);
    }
    if (norms && overflows<T>(*norms))
      detail += fmt::format("{}overflow: {} ends at {:.0g}, and products that the method needs are larger",
                            detail.empty() ? "" : "; ", in_words<T>(*norms), std::numeric_limits<T>::max());
    return {StopReason::not_finite, std::move(detail)};
  }
  if (!of_cg && reason != StopReason::breakdown && reason != StopReason::stagnation)
    return {reason, std::move(detail)};
  if (std::abs(verdict.value) < static_cast<double>(smallest_safe<T>)) {
    const std::optional<Norms> norms = norms_at_the_end(of);
    if (norms && underflows<T>(*norms, of_cg))
      return {StopReason::underflow,
              fmt::format("{}{}{} ends at {:.0g}, and products of two of them are smaller", detail,
                          detail.empty() ? "" : "; ", in_words<T>(*norms), std::numeric_limits<T>::min())};
  } else if (of_cg && first && verdict.value < 0) {
    if (const auto signs = diagonal_signs(of); signs && signs->not_negative == 0)
      return {StopReason::negative_definite, fmt::format("{}; all {} diagonal entries are negative", detail,
                                                         all_rows(of.system.context(), of.system.x.size))};
  }
  return {reason, std::move(detail)};
}

template <class T>
std::optional<bool> has_positive_diagonal(const Evidence<T>& of) {
  const auto signs = diagonal_signs(of);
  return signs ? std::optional(signs->not_positive == 0) : std::nullopt;
}

template <class T>
std::optional<bool> is_symmetric(const Evidence<T>& of, std::string& why_not) {
  const Context& context = of.system.context();
  Vector<T>& number = of.number;
  const VectorView<T> v = of.spare[0], w = of.spare[1], product = of.residual;
  fill_random<T>(context, 1, v), fill_random<T>(context, 2, w);
  const auto bilinear = [&](VectorView<T> left, VectorView<T> right, double& size) {
    of.system.A.apply(right, product);
    size += norm<T>(context, left, number) * norm<T>(context, product, number);
    return static_cast<double>(
        reduced<T>(context, number, [&](T* result) { dot<T>(context, left, product, result); }));
  };
  double size = 0;
  const double one = bilinear(w, v, size), other = bilinear(v, w, size);
  // The rounding of a dot product of such vectors is about eps times the product of their norms.
  const double rounding = 100 * static_cast<double>(std::numeric_limits<T>::epsilon()) * size;
  if (!std::isfinite(one) || !std::isfinite(other) || !std::isfinite(rounding)) return std::nullopt;
  if (std::abs(one - other) <= rounding) return true;
  why_not = fmt::format(
      "w . A v = {:.6g}, but v . A w = {:.6g} for two vectors v, w: the matrix is not symmetric", one, other);
  return false;
}

template <class T>
Diagnosis check_least_squares(const Evidence<T>& of, double rhs_norm) {
  const System<T>& system = of.system;
  const Context& context = system.context();
  Vector<T>& number = of.number;
  const VectorView<T> z = of.spare[0], q = of.spare[1];
  const double true_residual = norm<T>(context, of.residual, number);
  const auto growth = [&] {
    system.A.apply(z, q);
    return norm<T>(context, q, number) / norm<T>(context, z, number);
  };
  system.precondition(of.residual, z);
  const double of_residual = growth();
  fill_random<T>(context, 3, z);
  const double size = growth(), ratio = size > 0 ? of_residual / size : 0;
  constexpr auto rounding = static_cast<double>(std::numeric_limits<T>::epsilon());
  const std::string found =
      fmt::format("||A v|| is {:.2g} ||A|| ||v|| for v = {}", ratio, system.M ? "M^-1 (b - A x)" : "b - A x");
  if (!(ratio <= std::cbrt(rounding)))
    return {StopReason::breakdown, found + ", where the recurrence has it near rounding"};
  copy<T>(context, system.x, z);
  const double accuracy = 100 * rounding * (size * norm<T>(context, z, number) + rhs_norm);
  if (true_residual <= accuracy)
    return {StopReason::stagnation, fmt::format("the residual {:.3g} is near the rounding of b - A x, {:.3g}",
                                                true_residual, accuracy)};
  return {StopReason::inconsistent,
          fmt::format("{}: the matrix is singular, x is a solution of least squares, and no x has a residual "
                      "below {:.3g}",
                      found, true_residual)};
}

namespace {
// Of the entries that the parts have found, the one of the first part that found one, under the caller's number.
std::optional<BadEntry> first_of_parts(const Context& context, std::optional<BadEntry> found) {
  Communicator* const all = communicator_of(context);
  if (!all) return found;
  const std::vector<double> of_all =
      all->gathered(found ? std::vector{static_cast<double>(all->number_of(found->row)), found->value}
                          : std::vector{-1.0, 0.0});
  for (std::size_t i = 0; i < of_all.size(); i += 2)
    if (of_all[i] >= 0) return BadEntry{static_cast<std::int64_t>(of_all[i]), of_all[i + 1]};
  return std::nullopt;
}
}  // namespace

template <class T>
std::optional<BadEntry> first_not_finite(const Context& context, VectorView<const T> v, Vector<T>& number) {
  // A sum of squares is finite if all entries are finite, unless a large one overflows.
  if (std::isfinite(reduced<T>(context, number, [&](T* result) { dot<T>(context, v, v, result); })) ||
      std::isfinite(largest_entry<T>(context, v, number)))
    return std::nullopt;
  std::optional<BadEntry> found;
  in_pieces<T>(context, v, [&](std::int64_t row, T entry) {
    if (!found && !std::isfinite(entry))  // a NaN without its sign, which has no meaning
      found = BadEntry{
          row, std::isnan(entry) ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(entry)};
  });
  return first_of_parts(context, found);
}

template <class T>
std::vector<BadEntry> columns_not_finite(const ContextPtr& context, const MultiVectorView<const T>& X,
                                         Vector<T>& number, Vector<T>& column) {
  std::vector<BadEntry> found;
  const bool by_columns = X.layout == VectorLayout::columns;
  if (X.stride == (by_columns ? X.rows : X.columns) &&
      !first_not_finite<T>(*context, {X.data, X.rows * X.columns, X.space}, number))
    return found;
  if (column.size() != X.rows) column = Vector<T>(context, X.rows);
  for (std::int64_t j = 0; j < X.columns; ++j) {
    copy_column<T>(*context, X, static_cast<std::int32_t>(j), column);
    if (auto bad = first_not_finite<T>(*context, column, number)) {
      bad->column = j;
      found.push_back(*bad);
    }
  }
  return found;
}

std::string guess_text(const std::string& what, const BadEntry& bad) {
  return fmt::format("{} is {} in row {} (from 0); give finite numbers, or zeros", what, bad.value, bad.row);
}

template <class T>
std::string text_of(const BadEntry& bad, bool unseen, const Evidence<T>& of) {
  std::string text = fmt::format("x is {} in row {} (from 0)", bad.value, bad.row);
  const Context& context = of.system.context();
  if (!unseen || communicator_of(context)) return text;  // of several parts only one has the row
  const VectorView<T> unit = of.spare[0], column = of.spare[1];
  fill<T>(context, T(0), unit);
  fill<T>(context, T(1), {unit.data + bad.row, 1, unit.space});
  of.system.A.apply(unit, column);
  if (largest_entry<T>(context, column, of.number) == 0)
    text += fmt::format(", and column {} of A is zero, so that no equation determines it", bad.row);
  return text;
}

template <class T>
std::optional<Diagnosis> find_inconsistent(const Evidence<T>& of, double tolerance) {
  const System<T>& system = of.system;
  const Context& context = system.context();
  Vector<T>& number = of.number;
  const VectorView<T> v = of.spare[0], q = of.spare[1];
  const auto root = std::sqrt(static_cast<double>(all_rows(context, system.x.size)));
  const auto sum_with_ones = [&](VectorView<const T> w) {
    fill<T>(context, T(1), v);
    return std::abs(
        static_cast<double>(reduced<T>(context, number, [&](T* result) { dot<T>(context, v, w, result); })));
  };
  copy<T>(context, system.b, q);
  const double rhs = norm<T>(context, q, number), floor = sum_with_ones(q) / root;
  constexpr auto rounding = 10 * static_cast<double>(std::numeric_limits<T>::epsilon());
  if (!std::isfinite(floor) || floor <= std::max(tolerance, 10 * rounding * rhs)) return std::nullopt;
  // The sum of the entries of A v is v . A^T 1. What belongs to few rows shows in A 1 alone.
  fill_random<T>(context, 4, v);
  system.A.apply(v, q);
  const double size = norm<T>(context, q, number);
  if (!std::isfinite(size) || size == 0 || sum_with_ones(q) > rounding * root * size) return std::nullopt;
  system.A.apply(v, q);
  if (sum_with_ones(q) > rounding * (root * norm<T>(context, q, number) + size)) return std::nullopt;
  return Diagnosis{
      StopReason::inconsistent,
      fmt::format(
          "the entries of each column of A add up to zero, but the entries of b do not: no x has a residual "
          "(2-norm) below {:.3g}, which is {:.3g} ||b||",
          floor, floor / rhs)};
}

template <class T>
std::string fault_of_preconditioner(const Evidence<T>& of) {
  const System<T>& system = of.system;
  if (!system.M) return {};
  const Context& context = system.context();
  Vector<T>& number = of.number;
  const VectorView<T> v = of.spare[0], z = of.spare[1];
  // ||A v|| and ||v||
  fill_random<T>(context, 5, v);
  system.A.apply(v, z);
  const double of_v = norm<T>(context, v, number), of_product = norm<T>(context, z, number);
  // The rows in which M^-1 v is 0 for two such v: sums may cancel once.
  std::vector<std::int64_t> zeros;
  for (const std::uint64_t seed : {5, 6}) {
    fill_random<T>(context, seed, v);
    system.precondition(v, z);
    if (const auto bad = first_not_finite<T>(context, z, number))
      return fmt::format("M^-1 v is {} in row {} (from 0) for a v of entries below 1", bad->value, bad->row);
    std::vector<std::int64_t> found;
    in_pieces<T>(context, z, [&](std::int64_t row, T entry) {
      if (entry == T(0)) found.push_back(row);
    });
    if (seed == 5)
      zeros = std::move(found);
    else
      std::erase_if(zeros,
                    [&](std::int64_t row) { return !std::binary_search(found.begin(), found.end(), row); });
    if (counted(context, std::ssize(zeros)) == 0) break;
  }
  if (const std::int64_t count = counted(context, std::ssize(zeros)); count > 0) {
    const std::optional<BadEntry> first =
        first_of_parts(context, zeros.empty() ? std::nullopt : std::optional(BadEntry{zeros.front(), 0.0}));
    return count == 1 ? fmt::format("row {} (from 0) of M^-1 is zero", first->row)
                      : fmt::format("{} rows of M^-1 are zero, the first of them row {} (from 0)", count,
                                    first->row);
  }
  system.A.apply(z, v);
  const double both = norm<T>(context, v, number), growth = both / std::max(of_v, of_product);
  constexpr double too_much = sizeof(T) == 4 ? 1e6 : 1e12;
  if (growth > too_much || !std::isfinite(both))
    return fmt::format("||A M^-1 v|| is {:.2g} ||v||, and ||A v|| is {:.2g} ||v||", both / of_v,
                       of_product / of_v);
  return {};
}

#define PROTEAN_INSTANTIATE(T)                                                                               \
  template std::optional<BadEntry> first_not_finite<T>(const Context&, VectorView<const T>, Vector<T>&);     \
  template std::vector<BadEntry> columns_not_finite<T>(const ContextPtr&, const MultiVectorView<const T>&,   \
                                                       Vector<T>&, Vector<T>&);                              \
  template std::string text_of<T>(const BadEntry&, bool, const Evidence<T>&);                                \
  template std::optional<Diagnosis> find_inconsistent<T>(const Evidence<T>&, double);                        \
  template std::string fault_of_preconditioner<T>(const Evidence<T>&);                                       \
  template double norm<T>(const Context&, VectorView<T>, Vector<T>&);                                        \
  template double make_weights<T>(const LinearOperator<T>&, const SolverOptions&, Vector<T>&, Vector<T>&);   \
  template Diagnosis diagnose<T>(const Evidence<T>&, const Verdict&, bool, double, StopReason, std::string); \
  template std::optional<bool> has_positive_diagonal<T>(const Evidence<T>&);                                 \
  template std::optional<bool> is_symmetric<T>(const Evidence<T>&, std::string&);                            \
  template Diagnosis check_least_squares<T>(const Evidence<T>&, double);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
