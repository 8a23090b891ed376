#include "apps/problem/suite.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "apps/problem/input.hpp"
#include "apps/problem/problem_file.hpp"
#include "apps/problem/yaml_tree.hpp"

namespace protean::apps {

Suite read_suite(const std::string& file, const std::vector<std::string>& settings) {
  Suite suite;
  if (is_matrix_file(file)) {
    suite.problems.push_back({file, settings});
    return suite;
  }
  suite.text = read_problem_text(file);
  const Node root = parse_yaml(suite.text, file);
  const Node::Entry* list = root.kind == Node::Kind::map ? root.find("suite") : nullptr;
  if (!list) {
    suite.problems.push_back({file, settings});
    return suite;
  }
  const Section top(root, "", {"suite"});
  suite.several = true;
  if (list->value.kind != Node::Kind::list || list->value.items.empty())
    fail(list->value.place, "suite: expected a list of problem files, [poisson.yaml, elasticity.yaml]");
  const std::filesystem::path folder = folder_of_problem(file);
  for (std::size_t i = 0; i < list->value.items.size(); ++i) {
    const Node& item = list->value.items[i];
    const std::string path = fmt::format("suite[{}]", i);
    SuiteProblem problem;
    if (item.kind == Node::Kind::map) {
      const Section section(item, path, {"problem", "set"});
      if (!section.has("problem")) fail(item.place, path + " needs the key 'problem'");
      problem.file = read_file_name(*section.find("problem"), path + ".problem");
      if (const Node* set = section.find("set")) {
        if (set->kind != Node::Kind::map) fail(set->place, path + ".set: expected {key.path: value, ...}");
        for (const Node::Entry& entry : set->entries)
          problem.settings.push_back(
              fmt::format("{}={}", entry.key, read_text(entry.value, path + ".set." + entry.key)));
      }
    } else {
      problem.file = read_file_name(item, path);
    }
    problem.file = (folder / problem.file).lexically_normal().string();
    problem.settings.insert(problem.settings.end(), settings.begin(), settings.end());
    suite.problems.push_back(std::move(problem));
  }
  return suite;
}

}  // namespace protean::apps
