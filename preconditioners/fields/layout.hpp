// What preconditioner fields makes of the pattern of a matrix: the order of the rows, and which entries form a block.
// It serves as long as pattern, fields and recipe remain the same. All except the permutation lies on the host. Private
// to preconditioners/.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "core/permutation.hpp"
#include "preconditioners/fields/blocks.hpp"
#include "preconditioners/fields/field_list.hpp"
#include "preconditioners/fields/recipes/recipe.hpp"

namespace protean::detail {

struct FieldLayout {
  FieldList fields;
  Recipe recipe = Recipe::additive;
  bool commuted = false;    // S by the commutator
  bool assembled = false;   // S is assembled: no operator was given
  Permutation permutation;  // field after field
  std::vector<std::int64_t> begin;
  // Block (i, j) at at(i, j): those in use.
  std::vector<BlockPattern> patterns;
  std::vector<bool> in_use;
  SchurPattern schur;

  std::size_t at(std::int64_t i, std::int64_t j) const noexcept {
    return static_cast<std::size_t>(i * fields.size() + j);
  }
  std::int64_t rows_of(std::int64_t i) const noexcept {
    return begin[static_cast<std::size_t>(i) + 1] - begin[static_cast<std::size_t>(i)];
  }
  // Whether it is the one of the same pattern for these.
  bool serves(const FieldList& wanted, Recipe of, bool by_commutator, bool with_assembled) const noexcept {
    return recipe == of && commuted == by_commutator && assembled == with_assembled && fields == wanted;
  }
};
// assembled: S is to be assembled if the recipe has one. A is the pattern, in host memory.
std::shared_ptr<const FieldLayout> make_layout(const ContextPtr& context, const ContextPtr& host,
                                               const SparsityPattern& A, const FieldList& fields,
                                               Recipe recipe, bool commuted, bool assembled);

}  // namespace protean::detail
