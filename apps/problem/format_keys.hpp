// The keys of the problem file that name a storage format, its kernel, its parameters and the parts of a sum. All throw
// BadFile with the place of what is wrong, and what is allowed there.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "apps/problem/yaml_tree.hpp"
#include "formats/compose.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::apps {

// The id of a format, or one of the words in `ids`.
std::string read_format(const Node& node, const std::string& path, std::vector<std::string_view> ids);

// The name of a kernel of the format; of any format for "auto".
std::string read_kernel(const Node& node, const std::string& path, const std::string& format);

// The parameters of the format from a section with the keys `parameters` and `parts`, whose path is `owner`. `parts` is
// for format sum only: see read_parts().
FormatParams read_parameters(const Section& section, const std::string& owner, const std::string& format);

// The parts of a sum, a list of {format: ID, take: RULE, parameters: {...}, kernel: NAME}, where take is the name of a
// rule or {rule: NAME, NUMBER: VALUE, ...}. The last part has no `take`. `path` is the path of the list.
std::vector<PartOfSum> read_parts(const Node& list, const std::string& path);

}  // namespace protean::apps
