#include "apps/problem/generated_matrix.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "apps/problem/problem_keys.hpp"
#include "core/generate/generate.hpp"
#include "core/words.hpp"

namespace protean::apps {
namespace {

// The position of the word in the list "a|b|c".
double read_choice(const Node& node, const std::string& path, std::string_view choices) {
  const std::vector<std::string_view> words = split(choices, '|');
  const std::string text = read_text(node, path);
  const auto found = std::find(words.begin(), words.end(), text);
  if (found == words.end())
    fail(node.place, fmt::format("{} is '{}'; it must be one of: {}.{}", path, excerpt(text),
                                 fmt::join(words, ", "), detail::did_you_mean(text, words)));
  return static_cast<double>(found - words.begin());
}

// Finite elements on the unit cube, or on the tetrahedra of a mesh file.
void read_fem(const Node& node, const std::string& kind, const std::filesystem::path& folder,
              Problem& problem) {
  fem::Spec spec;
  spec.shape = kind == "fem-hex" ? fem::Shape::hexahedron : fem::Shape::tetrahedron;
  const std::string path = fmt::format("matrix.generate ({})", kind);
  const KeySection section(node, path, {"matrix.generate", "matrix.generate (fem-hex, fem-tet)", path});
  if (kind == "fem-tet" && section.has("mesh")) {
    for (const std::string_view of_cube : {"n", "distortion"})
      if (section.has(of_cube))
        fail(section.find(of_cube)->place,
             fmt::format("matrix.generate.{} belongs to the cube; a mesh is read from a file here", of_cube));
    problem.matrix.mesh = file_below(folder, *section.find("mesh"), section.path_of("mesh"));
    spec.mesh = problem.matrix.mesh.path;
  }
  if (kind == "fem-hex") spec.degree = static_cast<int>(section.integer("degree"));
  spec.n = static_cast<int>(section.integer("n"));
  constexpr std::int64_t most_nodes = std::numeric_limits<std::int32_t>::max();
  if (const std::int64_t line = std::int64_t{spec.n} * spec.degree + 1; line * line * line > most_nodes)
    fail(section.has("n") ? section.find("n")->place : section.find("degree")->place,
         fmt::format("matrix.generate: n {} and degree {} make {} nodes; at most {} are possible: take a "
                     "smaller n or degree",
                     spec.n, spec.degree, line * line * line, most_nodes));
  spec.distortion = section.number("distortion");
  spec.physics = section.word("physics") == "poisson" ? fem::Physics::poisson : fem::Physics::elasticity;
  for (const std::string_view of_elasticity : {"young", "poisson"})
    if (section.has(of_elasticity) && spec.physics != fem::Physics::elasticity)
      fail(section.find(of_elasticity)->place,
           fmt::format("matrix.generate.{} belongs to physics: elasticity", of_elasticity));
  spec.material.young = section.number("young");
  spec.material.poisson = section.number("poisson");
  spec.assembled = section.word("storage") == "assembled";
  if (!spec.assembled && problem.settings.order != "none")
    fail(problem.place_of("order"),
         "matrix.order puts the rows of an assembled matrix into another order; with storage: element it "
         "must be none");
  problem.matrix.fem = spec;
}

}  // namespace

void read_generated_matrix(const Node& node, const std::filesystem::path& folder, Problem& problem) {
  std::vector<std::string_view> names = keys_of("matrix.generate");
  const std::vector<std::string_view> kinds = generator_kinds();
  if (node.kind != Node::Kind::map || !node.find("kind"))
    fail(node.place, fmt::format("matrix.generate needs the key 'kind', one of: {}", fmt::join(kinds, ", ")));
  // The kind decides which other keys are allowed.
  const Node& kind_node = node.find("kind")->value;
  const std::string kind = read_text(kind_node, "matrix.generate.kind");
  problem.matrix.kind = kind;
  if (kind == "fem-hex" || kind == "fem-tet") return read_fem(node, kind, folder, problem);
  const auto found = std::find_if(generators().begin(), generators().end(),
                                  [&](const GeneratorEntry& entry) { return entry.kind == kind; });
  if (found == generators().end())
    fail(kind_node.place, fmt::format("no generator is called '{}'. There are: {}.{}", excerpt(kind),
                                      fmt::join(kinds, ", "), detail::did_you_mean(kind, kinds)));
  for (const GeneratorParam& param : found->params) names.push_back(param.name);
  const Section section(node, fmt::format("matrix.generate ({})", kind), names);
  for (const GeneratorParam& param : found->params) {
    const Node* value = section.find(param.name);
    const std::string path = fmt::format("matrix.generate.{}", param.name);
    double number = param.default_value;
    if (value && !param.choices.empty())
      number = read_choice(*value, path, param.choices);
    else if (value && param.integer)
      number = static_cast<double>(read_integer(*value, path, static_cast<std::int64_t>(param.smallest),
                                                static_cast<std::int64_t>(param.largest)));
    else if (value)
      number = read_number(*value, path, {param.smallest, param.largest});
    problem.matrix.params.emplace(param.name, number);
  }
}

}  // namespace protean::apps
