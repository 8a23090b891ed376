// Any text is a tree or a BadFile, and so is any --set.
#include <array>

#include "apps/problem/yaml_tree.hpp"
#include "core/error.hpp"
#include "fuzz/mutate.hpp"

namespace protean::fuzz {
namespace {

void run(Bytes input) {
  apps::Node root;
  try {
    root = apps::parse_yaml(input, "problem.yaml");
    const apps::Section section(root, "", {"matrix", "rhs", "solver", "output"});
    (void)section.number("matrix", 0, {-1, 1});
    (void)section.integer("solver", 0, -1, 1);
    (void)section.text("rhs", "");
    (void)section.word("output", "a", {"a", "b"});
  } catch (const BadFile&) {}
  try {
    apps::set_value(root, std::string(input));
  } catch (const BadFile&) {}
}

constexpr std::array<std::string_view, 26> words = {
    "matrix: ", "rhs: ", "solver: ", "output: ", "[",     "]",  "{",    "}",          "- ",
    "? ",       ": ",    "&a ",      "*a",       "!tag ", "\"", "'",    "|\n",        ">\n",
    "#",        "\n",    "\n  ",     "---\n",    "...\n", "~",  ".inf", "%YAML 1.2\n"};

std::size_t mutate(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  return mutate_words(data, size, most, seed, words);
}

}  // namespace

extern const Target yaml_tree{"yaml_tree", run, mutate};

}  // namespace protean::fuzz
