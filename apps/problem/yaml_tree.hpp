// A YAML text as a tree in which every value knows its place in the file, and a strict reader for it.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/options.hpp"

namespace protean::apps {

// Where a value was written: a file with line and column, or "--set key=value" with neither.
struct Place {
  std::shared_ptr<const std::string> file;
  std::int64_t line = 0, column = 0;
  bool on_command_line = false;
};

// Text of a file as messages show it: one line of at most 100 bytes, with ? for what cannot be printed and ... for
// what was left out. A file that is not what it should be can be long and of one line.
std::string excerpt(std::string_view text);

struct Node {
  enum class Kind : unsigned char { nothing, scalar, list, map };
  struct Entry;

  Kind kind = Kind::nothing;
  bool quoted = false;  // "7" is a word, 7 a number
  std::string text;
  std::vector<Node> items;
  std::vector<Entry> entries;  // in the order of the file, keys distinct
  Place place;

  const Entry* find(std::string_view key) const noexcept;
};

struct Node::Entry {
  std::string key;
  Place place;  // of the key
  Node value;
};

// Throws BadFile; its message begins with file:line:column.
[[noreturn]] void fail(const Place& place, const std::string& message);

// Reads one YAML document, in time proportional to its length. Throws BadFile for text that is not valid
// YAML, duplicate keys, keys that are not plain words, anchors, aliases, tags, a second document, nesting
// deeper than 32, and more than a million values.
Node parse_yaml(std::string_view text, const std::string& file);

// Sets a value in the tree: "solver.method=cg". The value is YAML. Missing maps on its path are added; a
// scalar on its path is replaced by a map. Throws BadFile with `--set ...` as the place.
void set_value(Node& root, const std::string& assignment);

// An option of the command that stands for a key of the problem file: `--method gmres` for solver.method. `value` is
// text, not YAML.
struct OptionSetting {
  std::string option, path, value;
  std::string key = {};  // if not empty, the value at `path` becomes the map {key: value}
};
void set_value(Node& root, const OptionSetting& setting);

// Reads a map that may have these keys and no other. The constructor throws BadFile for a node that is not a map and
// for an unknown key; the message has the keys allowed and the nearest one. Each getter takes one of the keys. Its
// errors say what is expected.
class Section {
 public:
  Section(const Node& node, std::string path, std::initializer_list<std::string_view> keys);
  Section(const Node& node, std::string path, const std::vector<std::string_view>& keys);

  bool has(std::string_view key) const { return find(key) != nullptr; }
  const Node* find(std::string_view key) const;
  const Place& place() const noexcept { return node_.place; }
  const std::string& path() const noexcept { return path_; }
  const Node& node() const noexcept { return node_; }
  // "solver.restart"
  std::string path_of(std::string_view key) const;

  // A key that is not given has the value `otherwise`.
  double number(std::string_view key, double otherwise, const NumberRange& range) const;
  std::int64_t integer(std::string_view key, std::int64_t otherwise, std::int64_t smallest,
                       std::int64_t largest) const;
  std::string word(std::string_view key, std::string_view otherwise,
                   const std::vector<std::string_view>& choices) const;
  std::string text(std::string_view key, std::string_view otherwise) const;

 private:
  void check() const;
  const Node& node_;
  std::string path_;
  std::vector<std::string_view> keys_;
};

// Read a scalar as a number or as text. Otherwise they throw BadFile with `path` in the message.
double read_number(const Node& node, const std::string& path, const NumberRange& range);
std::int64_t read_integer(const Node& node, const std::string& path, std::int64_t smallest,
                          std::int64_t largest);
// Nothing for this word.
std::optional<std::int64_t> read_integer_or_word(const Node& node, const std::string& path,
                                                 std::string_view word, std::int64_t smallest,
                                                 std::int64_t largest);
std::string read_text(const Node& node, const std::string& path);
std::string read_file_name(const Node& node, const std::string& path);

}  // namespace protean::apps
