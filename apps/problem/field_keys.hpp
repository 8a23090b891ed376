// preconditioner.fields as a list: [{name: u, rows: 0-9999}, {name: p, rows: 10000-}].
#pragma once
#include "apps/problem/yaml_tree.hpp"

namespace protean::apps {

// The section `preconditioner` with the text of the option in place of such a list, also in its parts:
// 'u 0-9999, p 10000-'. `rows` is a word or a text of ranges, or a list of them. Throws BadFile for an entry that is
// not a map with a name and rows, and for a name that the option cannot have.
Node with_fields_as_text(const Node& preconditioner);

}  // namespace protean::apps
