// Any text is a tree or a BadFile, and so is any --set; never a crash, a hang or another exception.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "apps/problem/yaml_tree.hpp"
#include "core/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  protean::apps::Node root;
  try {
    root = protean::apps::parse_yaml(text, "problem.yaml");
    const protean::apps::Section section(root, "", {"matrix", "rhs", "solver", "output"});
    (void)section.number("matrix", 0, {-1, 1});
    (void)section.integer("solver", 0, -1, 1);
    (void)section.text("rhs", "");
    (void)section.word("output", "a", {"a", "b"});
  } catch (const protean::BadFile&) {}
  try {
    protean::apps::set_value(root, std::string(text));
  } catch (const protean::BadFile&) {}
  return 0;
}
