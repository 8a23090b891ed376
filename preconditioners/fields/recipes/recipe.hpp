// What the recipes of preconditioner fields need, and which one auto takes. Private to preconditioners/.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/csr.hpp"
#include "preconditioners/fields/field_list.hpp"
#include "preconditioners/fields/inner.hpp"

namespace protean::detail {

using Recipe = FieldRecipe;

inline bool of_schur(Recipe recipe) noexcept { return recipe >= Recipe::schur_diagonal; }
inline bool of_cpr(Recipe recipe) noexcept {
  return recipe == Recipe::cpr_quasi_impes || recipe == Recipe::cpr_true_impes;
}
// Whether the recipe multiplies by A_ij; i != j unless it is cpr-...
bool multiplies(Recipe recipe, std::int64_t i, std::int64_t j) noexcept;
// What option inner calls the whole matrix, for the recipes cpr-...
inline constexpr std::string_view whole_matrix = "whole";
// Throws BadArgument for a recipe of a Schur complement unless there are two fields, for a recipe cpr-.. unless there
// are two or more of one size, none called `whole`, and for a part of option inner that the recipe has no use for.
void require_suited(Recipe recipe, const FieldList& fields, const std::vector<InnerSpec>& specs);
// Whether M is symmetric if A and all M_i are.
bool is_symmetric_recipe(Recipe recipe) noexcept;

// What recipe auto takes, as fields.hpp says.
struct RecipeChoice {
  Recipe recipe = Recipe::additive;
  std::string reason;      // for a person: what follows "because"
  std::int64_t first = 0;  // the field that must become the first one
};
// csr lies in host memory. may_be_unsymmetric: M may be, although A is symmetric.
template <class T>
RecipeChoice automatic_recipe(const Context& host, const CsrMatrix<T>& csr, const FieldList& fields,
                              bool symmetric, bool may_be_unsymmetric, const std::vector<InnerSpec>& specs);

// Whether all entries of the block of this field are at most 1e-10 of the largest of their rows.
template <class T>
bool is_zero_block(const CsrMatrix<T>& csr, const FieldList& fields, std::int32_t field);

}  // namespace protean::detail
