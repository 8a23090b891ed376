// The keys of the problem file: one table, from which the reader takes names, defaults and ranges, and which
// `protean help problem` prints. A key that is not in it cannot be read.
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/problem/yaml_tree.hpp"

namespace protean::apps {

struct KeyDoc {
  enum class Type : unsigned char { text, word, number, integer, file, map, list, other };

  std::string_view section;  // "solver"; "" is the top level, "schedule[]" an element of a list
  std::string_view name;
  Type type = Type::text;
  std::string about;  // one line
  // What stands for a key that is not given, for word and number also the value. Empty: nothing.
  std::string_view otherwise = {};
  double number = 0;       // the default of a number or integer
  NumberRange range = {};  // of a number or integer
  // Those that a word may be. Of a map or of Type::other: the words that may stand there instead of it.
  std::vector<std::string_view> words = {};
  // For Type::other, what is allowed, in words.
  std::string allowed = {};
  bool alternative = false;  // a problem gives exactly one of the alternatives of the section
  // The words of the key `type` or `kind` of the section for which it is; empty: all.
  std::vector<std::string_view> kinds = {};
  const OptionInfo* option = nullptr;  // the option of the library that it sets, which names who reads it

  std::string path() const;
};

// All keys, section by section. Those that depend on a kind, a format or a rule are in the tables of these.
std::span<const KeyDoc> problem_keys();

// The names of the keys in these sections of the table. Throws std::logic_error for a section without keys.
std::vector<std::string_view> keys_of(std::string_view section);
std::vector<std::string_view> keys_of(std::initializer_list<std::string_view> sections);

// Those of which a problem gives exactly one.
std::vector<std::string_view> alternatives_of(std::string_view section);

// The kinds of matrix.generate.
std::vector<std::string_view> generator_kinds();

// A map of the problem file whose keys, defaults and ranges come from sections of the table.
class KeySection : public Section {
 public:
  KeySection(const Node& node, std::string path, std::string_view section)
      : KeySection(node, std::move(path), {section}) {}
  KeySection(const Node& node, std::string path, std::initializer_list<std::string_view> sections)
      : Section(node, std::move(path), keys_of(sections)), sections_(sections) {}

  double number(std::string_view key) const;
  std::int64_t integer(std::string_view key) const;
  std::string word(std::string_view key) const;
  bool yes(std::string_view key) const { return word(key) == "true"; }
  // The value of an option of the library, which is given under its own name or under `key`.
  OptionValue option(const OptionInfo& option) const { return this->option(option, option.name); }
  OptionValue option(const OptionInfo& option, std::string_view key) const;

 private:
  const KeyDoc& doc(std::string_view key) const;
  std::vector<std::string_view> sections_;
};

// All keys with type, default and meaning; with a section or a key ("solver", "output.report") only those. Throws
// BadArgument for another word, with the sections.
std::string problem_keys_text(std::string_view only = {});

// What the kinds of matrix.generate are, with their parameters.
std::string kinds_text();

}  // namespace protean::apps
