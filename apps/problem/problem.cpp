// What a problem says of itself.
#include <fmt/format.h>

#include "apps/problem/problem_file.hpp"

namespace protean::apps {

FilePath file_below(const std::filesystem::path& folder, const Node& node, const std::string& path) {
  FilePath result{read_file_name(node, path), {}, node.place};
  result.path = (folder / result.given).lexically_normal().string();
  return result;
}

std::string rhs_text(const RhsSpec& rhs) {
  const VectorSpec& v = rhs.vector;
  const std::string values = v.file   ? fmt::format("of {}", v.file.given)
                             : v.seed ? fmt::format("of random numbers in [-1, 1), seed {}", *v.seed)
                                      : fmt::format("= {} everywhere", v.value);
  return fmt::format("{} {}{}", rhs.from_solution ? "b = A x, x" : "b", values,
                     rhs.given ? "" : " (no rhs was given)");
}

std::string_view preconditioner_type(const SolveSettings& settings) {
  return settings.parts.empty() ? std::string_view(settings.preconditioner) : "composition";
}

std::unique_ptr<Preconditioner<double>> make_preconditioner(const SolveSettings& settings,
                                                            const LinearOperator<double>& A) {
  return settings.parts.empty()
             ? protean::make_preconditioner<double>(settings.preconditioner, A, settings.preconditioning)
             : make_composition<double>(A, settings.parts, settings.combine);
}

std::string title_of(const Problem& problem) {
  if (!problem.title.empty()) return problem.title;
  return problem.matrix.file ? problem.matrix.file.given : problem.matrix.kind;
}

}  // namespace protean::apps
