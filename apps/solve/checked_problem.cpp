// What is checked of a problem before anything large is read.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "apps/command/files.hpp"
#include "apps/solve/solve.hpp"
#include "core/error.hpp"
#include "core/io/atomic_file.hpp"
#include "core/io/input_file.hpp"
#include "core/io/vector_file.hpp"
#include "systems/system_matrix.hpp"

namespace protean::apps {
namespace {

// Which rows form a field is known of one preconditioner, and asked of one that may become it.
void require_fields_to_write(const Problem& problem) {
  const FilePath& file = problem.output.fields;
  if (!file) return;
  const std::string_view type = preconditioner_type(problem.settings);
  if (type != "fields" && type != "auto")
    fail(file.place, fmt::format("output.fields has what preconditioner fields takes for a field, and "
                                 "preconditioner.type is {}; take fields or auto, or leave it out",
                                 type));
}

// The ending of the name says what is written. A device or a pipe gets text.
void require_vector_name(std::string_view key, const FilePath& solution) {
  const io_detail::FileKind kind = io_detail::kind_of(solution.path);
  const bool file = kind == io_detail::FileKind::missing || kind == io_detail::FileKind::unreachable ||
                    kind == io_detail::FileKind::ordinary;
  if (!solution || solution.path == AtomicFile::standard_output || !file ||
      detail::is_vector_file_name(solution.path))
    return;
  fail(solution.place, fmt::format("{} '{}': the name must end in {}, which says what to write", key,
                                   solution.given, detail::vector_file_endings()));
}

// Throws NotAvailable for an order that is not in this build.
void require_orders(const Problem& problem) {
  const auto require = [](const std::string& order, const Place& place, const std::string& key) {
    if (order.empty()) return;
    try {
      protean::require_order(order);
    } catch (const NotAvailable& error) {
      const std::string file = place.file ? *place.file : "problem";
      throw NotAvailable(
          BadFile(file, place.line, place.column, fmt::format("{}: {}", key, error.what())).what());
    }
  };
  require(problem.settings.order, problem.place_of("order"), "matrix.order");
  const std::vector<SchedulePoint>& points = problem.settings.schedule;
  for (std::size_t i = 0; i < points.size(); ++i)
    require(points[i].to.order, problem.schedule.places[i], fmt::format("schedule[{}].order", i));
}

}  // namespace

Problem checked_problem(const SolveArguments& arguments) {
  Problem problem = read_problem(arguments.problem, arguments.settings, arguments.options);
  if (!arguments.report.empty()) problem.output.report = {arguments.report, arguments.report, {}};
  if (arguments.threads > 0) problem.op.threads = arguments.threads;
  require_orders(problem);
  CommandFiles files;
  files.reads(problem);
  files.writes("output.solution", problem.output.solution.path, problem.output.solution.place);
  files.writes("output.history", problem.output.history.path, problem.output.history.place);
  files.writes("output.fields", problem.output.fields.path, problem.output.fields.place);
  files.writes(arguments.report.empty() ? "output.report" : "--report", problem.output.report.path,
               problem.output.report.place);
  if (arguments.json) files.writes("--json", std::string(AtomicFile::standard_output));
  files.require_inputs();
  files.require_outputs();
  require_vector_name("output.solution", problem.output.solution);
  require_vector_name("output.fields", problem.output.fields);
  require_fields_to_write(problem);
  if (arguments.checkpoint > 0 &&
      (!problem.output.solution || problem.output.solution.path == AtomicFile::standard_output))
    throw BadArgument(
        "--checkpoint keeps the solution in a file: name it with --solution x.mtx or output.solution");
  return problem;
}

}  // namespace protean::apps
