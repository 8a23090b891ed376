// The points of a schedule with the formats that they name. Private to systems/.
#pragma once
#include <vector>

#include "solvers/schedule.hpp"

namespace protean::detail {

// Each point with the entry of its format, if it names one. Throws BadArgument for an unknown name, for parameters that
// the format does not have, and for a point that names two formats.
std::vector<SchedulePoint> with_entries(std::vector<SchedulePoint> points);

}  // namespace protean::detail
