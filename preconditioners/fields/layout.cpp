#include "preconditioners/fields/layout.hpp"

#include <utility>

namespace protean::detail {

std::shared_ptr<const FieldLayout> make_layout(const ContextPtr& context, const ContextPtr& host,
                                               const SparsityPattern& A, const FieldList& fields,
                                               Recipe recipe, bool commuted, bool assembled) {
  auto made = std::make_shared<FieldLayout>();
  FieldLayout& l = *made;
  l.fields = fields, l.recipe = recipe, l.commuted = commuted, l.assembled = assembled;
  const std::vector<std::vector<std::int32_t>> rows = fields.rows_of_fields();
  std::vector<std::int32_t> order, local(static_cast<std::size_t>(A.rows));
  l.begin.push_back(0);
  for (const auto& one : rows) {
    for (std::size_t k = 0; k < one.size(); ++k)
      local[static_cast<std::size_t>(one[k])] = static_cast<std::int32_t>(k);
    order.insert(order.end(), one.begin(), one.end());
    l.begin.push_back(static_cast<std::int64_t>(order.size()));
  }
  l.permutation = Permutation(context, std::move(order));
  const std::int64_t count = fields.size();
  l.patterns.resize(static_cast<std::size_t>(count * count)), l.in_use.resize(l.patterns.size());
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t j = 0; j < count; ++j) {
      if ((i != j || of_cpr(recipe)) && !of_schur(recipe) && !multiplies(recipe, i, j)) continue;
      l.in_use[l.at(i, j)] = true;
      l.patterns[l.at(i, j)] =
          BlockPattern(host, A, fields, rows[static_cast<std::size_t>(i)], j, l.rows_of(j), local);
    }
  if (of_schur(recipe) && assembled)
    l.schur = SchurPattern(host, l.patterns[l.at(1, 0)].pattern(),
                           commuted ? nullptr : &l.patterns[l.at(1, 1)].pattern(),
                           l.patterns[l.at(0, 1)].pattern());
  return made;
}

}  // namespace protean::detail
