// What the recipes of preconditioner fields need, and which one auto takes. Private to preconditioners/.
#pragma once
#include <cstdint>

#include "core/csr.hpp"
#include "preconditioners/fields/field_list.hpp"

namespace protean::detail {

using Recipe = FieldRecipe;

inline bool of_schur(Recipe recipe) noexcept { return recipe >= Recipe::schur_diagonal; }
// Whether the recipe multiplies by A_ij, i != j.
bool multiplies(Recipe recipe, std::int64_t i, std::int64_t j) noexcept;
// Throws BadArgument for a recipe of a Schur complement unless there are two fields.
void require_two(Recipe recipe, const FieldList& fields);
// The recipe that auto takes, as fields.hpp says. csr lies in host memory.
template <class T>
Recipe automatic_recipe(const Context& host, const CsrMatrix<T>& csr, const FieldList& fields,
                        bool symmetric);

// Whether all entries of the block of this field are at most 1e-10 of the largest of their rows.
template <class T>
bool is_zero_block(const CsrMatrix<T>& csr, const FieldList& fields, std::int32_t field);
// Whether the |a_ij| off the diagonal of the block of field 0 add up to at most 0.75 times those on it, as in a mass
// matrix. Then A_10 D^-1 A_01 is near A_10 A_00^-1 A_01, whatever that is. If A_00 is rather a Laplacian, as of a flow,
// the Schur complement is near a mass matrix, and A_10 D^-1 A_01 a Laplacian whose diagonal is near that mass matrix.
template <class T>
bool is_nearly_diagonal(const CsrMatrix<T>& A00);

}  // namespace protean::detail
