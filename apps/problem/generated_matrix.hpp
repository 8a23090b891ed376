// Section matrix.generate of a problem file.
#pragma once
#include <filesystem>

#include "apps/problem/problem_file.hpp"

namespace protean::apps {

// Reads the section into problem.matrix. `folder`: of relative paths. matrix.order has been read before. Throws
// BadFile.
void read_generated_matrix(const Node& node, const std::filesystem::path& folder, Problem& problem);

}  // namespace protean::apps
