#include "preconditioners/fields/recipes/recipe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "operators/rows.hpp"
#include "preconditioners/fields/cells.hpp"
#include "preconditioners/fields/fields.hpp"
#include "preconditioners/fields/found.hpp"
#include "preconditioners/fields/inner.hpp"

namespace protean::detail {

bool multiplies(Recipe recipe, std::int64_t i, std::int64_t j) noexcept {
  switch (recipe) {
    case Recipe::lower:
    case Recipe::schur_lower:
      return j < i;
    case Recipe::upper:
    case Recipe::schur_upper:
      return j > i;
    case Recipe::cpr_quasi_impes:
    case Recipe::cpr_true_impes:
      return j == 0;
    case Recipe::symmetric:
    case Recipe::schur_full:
      return true;
    default:
      return false;
  }
}

namespace {

void require_cells(Recipe recipe, const FieldList& fields, const std::vector<InnerSpec>& specs) {
  if (fields.size() == 1)
    throw BadArgument(fmt::format(
        "recipe {} takes the pressure out of the equations of a cell, and there is one field; name the "
        "fields by option fields or interleaved, the pressure first",
        to_string(recipe)));
  std::vector<std::int64_t> rows(fields.names.size());
  for (const std::int32_t field : fields.of_row) ++rows[static_cast<std::size_t>(field)];
  for (std::size_t k = 1; k < rows.size(); ++k)
    if (rows[k] != rows[0])
      throw BadArgument(fmt::format(
          "recipe {} takes one row of each field for a cell, and field {} has {} rows, field {} has {}; take recipe "
          "lower, or other fields",
          to_string(recipe), fields.names[0], rows[0], fields.names[k], rows[k]));
  for (const std::string& name : fields.names) {
    if (name == whole_matrix)
      throw BadArgument(fmt::format(
          "recipe {} calls the whole matrix {} in option inner; give the field of that name another one",
          to_string(recipe), whole_matrix));
    if (name == fields.names[0]) continue;
    for (const InnerSpec& spec : specs)
      if (spec.field == name)
        throw BadArgument(fmt::format(
            "inner: recipe {} solves with field {} and with the whole matrix, called {}; leave field {} out",
            to_string(recipe), fields.names[0], whole_matrix, name));
  }
}

}  // namespace

void require_suited(Recipe recipe, const FieldList& fields, const std::vector<InnerSpec>& specs) {
  std::vector<std::string> names = fields.names;
  const bool names_whole =
      std::any_of(specs.begin(), specs.end(), [](const InnerSpec& one) { return one.field == whole_matrix; });
  if (of_cpr(recipe)) require_cells(recipe, fields, specs);
  if (of_cpr(recipe) || recipe == Recipe::automatic)
    names.emplace_back(whole_matrix);
  else if (names_whole && std::find(names.begin(), names.end(), whole_matrix) == names.end())
    throw BadArgument(fmt::format(
        "inner: 'whole' is what recipe cpr-quasi-impes or cpr-true-impes has for the whole matrix, and the recipe is "
        "{}; take one of them, or name a field",
        to_string(recipe)));
  require_fields(specs, names);
  if (!of_schur(recipe) || fields.size() == 2) return;
  throw BadArgument(fmt::format(
      "recipe {} takes the Schur complement of two fields, and there {} {}; {}", to_string(recipe),
      fields.size() == 1 ? "is" : "are", fields.size(),
      fields.size() == 1
          ? "name them by option fields or interleaved, or take recipe additive"
          : "join some of them, such as 'u 0-/3 1-/3, p 2-/3', or take lower, upper or symmetric"));
}

namespace {

template <class T>
bool has_no_positive_diagonal(const Context& host, const CsrMatrix<T>& csr, const FieldList& fields,
                              std::int32_t field) {
  std::vector<T> d(static_cast<std::size_t>(csr.rows()));
  extract_diagonal<T>(host, csr, d.data());
  for (std::size_t i = 0; i < d.size(); ++i)
    if (fields.of_row[i] == field && d[i] > T(0)) return false;
  return true;
}

}  // namespace

template <class T>
bool is_zero_block(const CsrMatrix<T>& csr, const FieldList& fields, std::int32_t field) {
  constexpr double tiny_part = 1e-10;
  for (std::int64_t i = 0; i < csr.rows(); ++i) {
    if (fields.of_row[static_cast<std::size_t>(i)] != field) continue;
    double largest = 0, inside = 0;
    for (std::int64_t k = csr.pattern.row_ptr[i]; k < csr.pattern.row_ptr[i + 1]; ++k) {
      const double value = std::abs(static_cast<double>(csr.values[k]));
      largest = std::max(largest, value);
      if (fields.of_row[static_cast<std::size_t>(csr.pattern.col[k])] == field)
        inside = std::max(inside, value);
    }
    if (inside > tiny_part * largest) return false;
  }
  return true;
}

bool is_symmetric_recipe(Recipe recipe) noexcept {
  return recipe == Recipe::additive || recipe == Recipe::symmetric || recipe == Recipe::schur_diagonal;
}

namespace {

// Whether the constraint of a saddle point is field 1 of two.
template <class T>
bool has_constraint(const Context& host, const CsrMatrix<T>& csr, const FieldList& fields, bool symmetric) {
  return fields.size() == 2 &&
         (is_zero_block(csr, fields, 1) || (symmetric && has_no_positive_diagonal(host, csr, fields, 1)));
}

}  // namespace

template <class T>
RecipeChoice automatic_recipe(const Context& host, const CsrMatrix<T>& csr, const FieldList& fields,
                              bool symmetric, bool may_be_unsymmetric, const std::vector<InnerSpec>& specs) {
  if (fields.size() == 1) return {Recipe::additive, {}};
  const std::string& last = fields.names.back();
  if (has_constraint(host, csr, fields, symmetric)) {
    if (!symmetric) return {Recipe::schur_upper, fmt::format("field {} is a constraint", last)};
    return may_be_unsymmetric
               ? RecipeChoice{Recipe::schur_upper,
                              fmt::format("field {} is a constraint, and M need not be symmetric", last)}
               : RecipeChoice{Recipe::schur_diagonal,
                              fmt::format("field {} is a constraint, and M must be symmetric", last)};
  }
  if (symmetric)
    return {Recipe::symmetric, fmt::format("A is symmetric, and field {} is no constraint", last)};
  const std::int64_t pressure = find_pressure(csr, fields);
  if (pressure >= 0) {
    const std::string& name = fields.names[static_cast<std::size_t>(pressure)];
    const bool suits = std::all_of(specs.begin(), specs.end(), [&](const InnerSpec& one) {
      return one.field == name || one.field == whole_matrix;
    });
    const bool free = std::find(fields.names.begin(), fields.names.end(), whole_matrix) == fields.names.end();
    if (suits && free)
      return {Recipe::cpr_quasi_impes,
              fmt::format("field {} is like a pressure, and the other fields act within a cell or downstream",
                          name),
              pressure};
  }
  return {Recipe::lower, "A is not symmetric, and no field is a constraint"};
}

template <class T>
FieldsUse auto_use_of_fields(const LinearOperator<T>& A, const SignsOfMatrix& signs, std::string_view id,
                             const PreconditionerOptions& options) {
  const bool named = id == "fields";
  if ((!named && id != "auto") || (named && options.recipe != Recipe::automatic) || !A.abilities().rows)
    return FieldsUse::other;
  const ContextPtr host = A.context()->space() == Space::host ? A.context() : Context::host();
  return auto_use_of_fields(*host, rows_on_host(A, host, id), signs, id, options);
}

template <class T>
FieldsUse auto_use_of_fields(const Context& host, const CsrMatrix<T>& csr, const SignsOfMatrix& signs,
                             std::string_view id, const PreconditionerOptions& options) {
  const bool named = id == "fields";
  if ((!named && id != "auto") || (named && options.recipe != Recipe::automatic)) return FieldsUse::other;
  // A constraint has entries that are not positive.
  if (!named && signs.positive_diagonal)
    return !signs.symmetric && find_cells(csr).size > 0 ? FieldsUse::pressure : FieldsUse::other;
  FoundFields found;
  if (named && !fields_are_found(options))
    found.fields = named_fields(options, csr.rows());
  else
    found = find_fields(csr, signs.symmetric);
  if (named ? has_constraint(host, csr, found.fields, signs.symmetric) : is_saddle_point(found))
    return FieldsUse::schur;
  const bool cells = found.cells || (named && !signs.symmetric && find_pressure(csr, found.fields) >= 0);
  return cells ? FieldsUse::pressure : FieldsUse::other;
}
#define PROTEAN_INSTANTIATE(T)                                                                               \
  template RecipeChoice automatic_recipe<T>(const Context&, const CsrMatrix<T>&, const FieldList&, bool,     \
                                            bool, const std::vector<InnerSpec>&);                            \
  template FieldsUse auto_use_of_fields<T>(const LinearOperator<T>&, const SignsOfMatrix&, std::string_view, \
                                           const PreconditionerOptions&);                                    \
  template FieldsUse auto_use_of_fields<T>(const Context&, const CsrMatrix<T>&, const SignsOfMatrix&,        \
                                           std::string_view, const PreconditionerOptions&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE
template bool is_zero_block<float>(const CsrMatrix<float>&, const FieldList&, std::int32_t);
template bool is_zero_block<double>(const CsrMatrix<double>&, const FieldList&, std::int32_t);

bool is_symmetric_of_fields(const PreconditionerOptions& options) {
  if (options.recipe != Recipe::automatic && !is_symmetric_recipe(options.recipe)) return false;
  const std::vector<InnerSpec> specs = inner_specs(options.inner);
  return std::all_of(specs.begin(), specs.end(), [](const InnerSpec& one) {
    return one.solver.method.empty() && is_symmetric(one.id, one.options);
  });
}

bool is_variable_of_fields(const PreconditionerOptions& options) {
  const std::vector<InnerSpec> specs = inner_specs(options.inner);
  return std::any_of(specs.begin(), specs.end(),
                     [](const InnerSpec& one) { return !one.solver.method.empty(); });
}

}  // namespace protean::detail
