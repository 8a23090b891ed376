#include "apps/problem/field_keys.hpp"

#include <fmt/format.h>

#include <string>

namespace protean::apps {
namespace {

constexpr std::string_view syntax =
    "write a list such as [{name: u, rows: 0-9999}, {name: p, rows: 10000-}], or a text such as 'u 0-9999, p 10000-'";

std::string rows_of(const Node& rows, const std::string& path) {
  if (rows.kind != Node::Kind::list) return read_text(rows, path);
  if (rows.items.empty()) fail(rows.place, fmt::format("{} is empty; a field has at least one row", path));
  std::string text;
  for (std::size_t i = 0; i < rows.items.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : " ", read_text(rows.items[i], fmt::format("{}[{}]", path, i)));
  return text;
}

Node as_text(const Node& list, const std::string& path) {
  Node scalar;
  scalar.kind = Node::Kind::scalar, scalar.quoted = true, scalar.place = list.place;
  if (list.items.empty()) fail(list.place, fmt::format("{} is empty; {}", path, syntax));
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    const Node& item = list.items[i];
    const std::string here = fmt::format("{}[{}]", path, i);
    if (item.kind != Node::Kind::map) fail(item.place, fmt::format("{} is not a map; {}", here, syntax));
    const Section field(item, here, {"name", "rows"});
    for (const std::string_view key : {"name", "rows"})
      if (!field.has(key)) fail(item.place, fmt::format("{} has no {}; {}", here, key, syntax));
    const std::string name = read_text(*field.find("name"), field.path_of("name"));
    if (name.empty() || name.find_first_of(" \t\r\n,") != std::string::npos)
      fail(field.find("name")->place, fmt::format("{} is '{}'; the name of a field has no blank and no comma",
                                                  field.path_of("name"), name));
    const std::string rows = rows_of(*field.find("rows"), field.path_of("rows"));
    if (rows.find(',') != std::string::npos)
      fail(field.find("rows")->place,
           fmt::format("{} is '{}'; put blanks between ranges, or make a list of them", field.path_of("rows"),
                       rows));
    scalar.text += fmt::format("{}{} {}", i == 0 ? "" : ", ", name, rows);
  }
  return scalar;
}

void put_text(Node& section, const std::string& path) {
  if (section.kind != Node::Kind::map) return;
  for (Node::Entry& entry : section.entries) {
    const std::string here = fmt::format("{}.{}", path, entry.key);
    if (entry.key == "fields" && entry.value.kind == Node::Kind::list)
      entry.value = as_text(entry.value, here);
    else if (entry.key == "parts")
      for (std::size_t i = 0; i < entry.value.items.size(); ++i)
        put_text(entry.value.items[i], fmt::format("{}[{}]", here, i));
  }
}

}  // namespace

Node with_fields_as_text(const Node& preconditioner) {
  Node section = preconditioner;
  put_text(section, "preconditioner");
  return section;
}

}  // namespace protean::apps
