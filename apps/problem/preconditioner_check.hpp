// What a problem asks of its preconditioner and no run could do.
#pragma once
#include "apps/problem/problem_file.hpp"

namespace protean::apps {

// Refuses it before anything is read. place: of the section preconditioner. Throws BadFile.
void check_preconditioner(const Problem& problem, const Place& place);

}  // namespace protean::apps
