#include "apps/problem/problem_keys.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "apps/fem/problem.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/option_checks.hpp"
#include "core/words.hpp"
#include "formats/catalogue.hpp"
#include "formats/choose.hpp"
#include "formats/compose.hpp"
#include "operators/policy/policy_options.hpp"
#include "preconditioners/options.hpp"
#include "solvers/options.hpp"
#include "systems/options.hpp"

namespace protean::apps {
namespace {

using Type = KeyDoc::Type;
using Words = std::vector<std::string_view>;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double smallest_positive = std::numeric_limits<double>::min();
constexpr double most = 9007199254740991.0;  // 2^53 - 1: each whole number up to it is a double of its own

KeyDoc number_key(std::string_view section, std::string_view name, double value, double smallest,
                  double largest, std::string_view about, std::string_view otherwise = {}) {
  return {section, name, Type::number, std::string(about), otherwise, value, {smallest, largest}, {}, {}};
}
KeyDoc integer(std::string_view section, std::string_view name, std::int64_t value, double smallest,
               double largest, std::string_view about, std::string_view otherwise = {}) {
  return {section,
          name,
          Type::integer,
          std::string(about),
          otherwise,
          static_cast<double>(value),
          {smallest, largest},
          {},
          {}};
}
KeyDoc word(std::string_view section, std::string_view name, std::string_view value, Words words,
            std::string_view about) {
  return {section, name, Type::word, std::string(about), value, 0, {}, std::move(words), {}};
}
KeyDoc file(std::string_view section, std::string_view name, std::string_view about) {
  return {section, name, Type::file, std::string(about), {}, 0, {}, {}, {}};
}
KeyDoc text(std::string_view name, std::string_view about) {
  return {"", name, Type::text, std::string(about), {}, 0, {}, {}, {}};
}
KeyDoc map(std::string_view section, std::string_view name, std::string_view otherwise,
           std::string_view about, Words words = {}) {
  return {section, name, Type::map, std::string(about), otherwise, 0, {}, std::move(words), {}};
}
KeyDoc other(std::string_view section, std::string_view name, std::string_view allowed,
             std::string_view otherwise, std::string_view about, Words words = {}) {
  return {section, name, Type::other,      std::string(about),  otherwise,
          0,       {},   std::move(words), std::string(allowed)};
}

KeyDoc alternative(KeyDoc key) {
  key.alternative = true;
  return key;
}
// Help names the kinds behind the meaning.
KeyDoc only_for(Words kinds, KeyDoc key) {
  key.about += fmt::format(" ({})", fmt::join(kinds, ", "));
  key.kinds = std::move(kinds);
  return key;
}

// The formats, behind the words that are allowed instead of one.
Words formats_and(Words ids) {
  for (const FormatEntry* entry : catalogue()) ids.push_back(entry->id);
  return ids;
}

Words preconditioner_types() {
  Words ids;
  for (const PreconditionerEntry& entry : preconditioners()) ids.push_back(entry.id);
  ids.push_back("composition");
  return ids;
}

Words with_near_null_space() {
  Words ids;
  for (const std::string_view id : preconditioner_types())
    if (reads_near_null_space(id)) ids.push_back(id);
  return ids;
}

// The key of an option of the library.
template <class Options>
KeyDoc key_of(std::string_view section, const Option<Options>& option) {
  std::string readers = readers_text(option.readers);
  if (!option.with.empty())
    readers += fmt::format("{}with {}: {}", readers.empty() ? "" : ", ", option.with, option.with_word);
  if (!readers.empty()) readers = fmt::format(" ({})", readers);
  KeyDoc key{section, option.name, Type::word, std::string(option.about) + readers};
  key.option = &option;
  const OptionValue value = option.default_value();
  if (const auto* const word = std::get_if<std::string_view>(&value)) {
    // For a std::string it is a view of that string.
    const auto found = std::find(option.words.begin(), option.words.end(), *word);
    if (found != option.words.end()) key.otherwise = *found;
    if (option.words.empty()) key.otherwise = *word;
    if (option.allowed.empty())
      key.words.assign(option.words.begin(), option.words.end());
    else
      key.type = Type::other, key.allowed = option.allowed;
    return key;
  }
  key.type = option.kind == OptionKind::whole ? Type::integer : Type::number;
  key.range = option.range;
  if (key.type == Type::integer) key.range.largest = std::min(key.range.largest, most);
  if (const auto* const whole = std::get_if<std::int64_t>(&value))
    key.number = static_cast<double>(*whole);
  else
    key.number = std::get<double>(value);
  if (!option.zero.empty()) {
    key.type = Type::other, key.allowed = allowed_text(option);
    if (key.number == 0) key.otherwise = option.zero;
  }
  return key;
}

// The key of a setting of a solve.
KeyDoc key_of(const Setting& one) {
  KeyDoc key = key_of(one.section, one);
  key.name = one.key;
  if (key.otherwise.empty()) key.otherwise = "native";
  if (one.name == "preconditioner") key.words.emplace_back("composition");
  if (one.name == "combine") key.kinds = {"composition"};
  if (one.name == "format") key.words = formats_and({"auto"});
  return key;
}

// The settings of a section come first in it.
void add_settings(std::vector<KeyDoc>& keys) {
  for (const Setting& one : solve_settings()) {
    const auto before = std::find_if(keys.begin(), keys.end(), [&](const KeyDoc& key) {
      return key.section == one.section && std::ranges::none_of(solve_settings(), [&](const Setting& other) {
               return other.section == key.section && other.key == key.name;
             });
    });
    keys.insert(before, key_of(one));
  }
}

template <class Options>
void add_options(std::vector<KeyDoc>& keys, std::string_view section,
                 std::span<const Option<Options>> options) {
  for (const Option<Options>& option : options) keys.push_back(key_of(section, option));
}

std::vector<KeyDoc> make_table() {
  const fem::Spec fem;
  const std::string_view none = {};
  std::vector<KeyDoc> keys = {
      text("title", "A line for the summary"),
      map("", "matrix", "required", "The matrix A"),
      map("", "rhs", "{solution: {random: 1}}", "The right-hand side b: exactly one of the keys below"),
      map("", "initial_guess", "zero", "The vector that the solve starts from", {"zero"}),
      map("", "solver", none, "The method, and when it stops"),
      map("", "preconditioner", none, "The preconditioner M"),
      map("", "operator", none, "The storage format, and the memory it is in"),
      other("", "schedule", "list of points, or a map", none, "Changes of the format during the solve"),
      map("", "output", none, "Files to write"),
      word(
          "", "engine", "auto", {"auto", "protean", "petsc"},
          "What solves; auto: petsc on several ranks, or if petsc_options or partition asks for it, else protean"),
      text("petsc_options",
           "Options of PETSc, such as '-ksp_view -pc_type hypre', which win over the keys (engine petsc)"),
      map("", "partition", "rows",
          "Which rows a rank or device has; rows: neighbours, equally many entries; graph: by the graph of A",
          {"rows", "graph"}),
      alternative(file("partition", "file", "Text with the rank or device of each row, a number a line")),

      alternative(file("matrix", "file", "A matrix: .mtx, .rua, .rsa, .rb (also .gz, .xz) or .pbin")),
      alternative(
          map("matrix", "generate", none, "A generated matrix instead of a file: {kind: poisson-3d, n: 60}")),
      word("matrix", "duplicates", "sum", {"sum", "refuse"},
           "What happens to entries that a file has more than once"),
      number_key("matrix", "scale", 1, -1e300, 1e300, "Solve (scale A) x = scale b; not 0"),

      other("matrix.generate", "kind", "a kind, see `protean generate --kinds`", "required",
            "Which matrix; each kind has its own keys", generator_kinds()),
      integer("matrix.generate (fem-hex, fem-tet)", "n", fem.n, 1, 1000,
              "Elements along a side of the unit cube"),
      word("matrix.generate (fem-hex, fem-tet)", "physics", "poisson", {"poisson", "elasticity"},
           "The equation"),
      word("matrix.generate (fem-hex, fem-tet)", "storage", "assembled", {"assembled", "element"},
           "assembled, or element: solve with element matrices until a schedule changes to a format"),
      number_key("matrix.generate (fem-hex, fem-tet)", "distortion", 0, 0, 0.1,
                 "How far nodes of the cube are moved, relative to an element"),
      number_key("matrix.generate (fem-hex, fem-tet)", "young", fem.material.young, smallest_positive, 1e300,
                 "Young's modulus (physics: elasticity)"),
      number_key("matrix.generate (fem-hex, fem-tet)", "poisson", fem.material.poisson, 0, 0.4999,
                 "Poisson's ratio (physics: elasticity)"),
      integer("matrix.generate (fem-hex)", "degree", 1, 1, 4, "Degree of the polynomials"),
      file("matrix.generate (fem-tet)", "mesh", "Tetrahedra of a Gmsh file instead of the unit cube"),

      alternative(map("rhs", "solution", "ones",
                      "The solution x, from which b = A x is made; the error of the solve is reported then",
                      {"ones"})),
      alternative(file(
          "rhs", "file",
          "b: a vector, or several, in a file .mtx, .mtx.gz, .mtx.xz or .npy, or the right-hand sides in a "
          "Harwell-Boeing file")),
      alternative(number_key("rhs", "value", 0, -1e300, 1e300, "b: this number everywhere", "not used")),
      alternative(
          integer("rhs", "random", 0, 0, most, "b: random numbers in [-1, 1) of this seed", "not used")),
      integer(
          "rhs", "columns", 1, 1, 256,
          "Number of right-hand sides that are solved at once: random numbers with the seeds that follow, or "
          "the columns of the file"),
      alternative(file("rhs.solution", "file", "x: a vector, or several, in a file")),
      alternative(
          number_key("rhs.solution", "value", 0, -1e300, 1e300, "x: this number everywhere", "not used")),
      alternative(integer("rhs.solution", "random", 0, 0, most, "x: random numbers in [-1, 1) of this seed",
                          "not used")),
      alternative(
          file("initial_guess", "file", "A vector in a file, such as one that --checkpoint has kept")),
      alternative(integer("initial_guess", "random", 0, 0, most, "Random numbers in [-1, 1) with this seed",
                          "not used")),
  };
  add_options(keys, "solver", solver_options());
  add_options(keys, "preconditioner", preconditioner_options());
  const std::vector<KeyDoc> others = {
      only_for(
          with_near_null_space(),
          file("preconditioner", "coordinates",
               "Coordinates of the nodes of an elastic body, nodes x 2 or 3; coarser levels represent its "
               "rigid body modes, and unknowns is 2 or 3")),
      only_for(with_near_null_space(),
               file("preconditioner", "near_null_space",
                    "Vectors that A maps nearly to zero; coarser levels represent them")),
      only_for({"fields"}, file("preconditioner", "labels",
                                "A whole number of at least 0 for each row: rows of equal numbers form a "
                                "field, whose name is the number")),
      only_for({"fields"}, file("preconditioner", "schur_operator",
                                "A positive definite matrix that takes the place of the Schur complement in "
                                "a recipe schur-..")),
      only_for({"composition"},
               other("preconditioner", "parts", "list of maps with the keys of preconditioner", none,
                     "The preconditioners that it is made of")),

      other("operator", "parameters", "map, see `protean formats ID`", none, "Parameters of that format"),
      other("operator", "parts", "list", none, "The parts, each in a format of its own (format sum)"),
      word("operator", "space", "host", {"host", "device"},
           "Where the solve runs; device: a GPU, in a build with CUDA"),
      other("operator", "devices", "whole number from 1 to 16, all, or a list of numbers of GPUs", "1",
            "GPUs that share the rows of the system (space device)"),
      integer("operator", "threads", 0, 0, 1024, "Threads; 0: OMP_NUM_THREADS, or all processors"),
      word("operator", "deterministic", "false", {"true", "false"}, "The same bits in every run; slower"),
      word("operator", "variant", "automatic", {"automatic", "atomic", "coloured", "gather"},
           "How contributions of elements are added (storage: element)"),
      other("operator.parts[]", "format", "a format", "required", "Format of this part", formats_and({})),
      other("operator.parts[]", "take", "a rule, or a map", none,
            "Which entries; the last part takes the rest"),
      other("operator.parts[]", "parameters", "map", none, "Parameters of the format"),
      other("operator.parts[]", "kernel", "a kernel of the format", "native", "Code of the product"),

      file("schedule", "machine",
           "A table of `protean tune`; otherwise the table of PROTEAN_MACHINE, a contributed one, or "
           "the built-in one"),
      other("schedule", "overlapped", "true or false", "true with an idle processor, else false",
            "Build a new format while the solve runs", {"true", "false"}),
  };
  keys.insert(keys.end(), others.begin(), others.end());
  add_options(keys, "schedule", policy_options());
  const std::vector<KeyDoc> last = {
      alternative(integer("schedule[]", "at_iteration", 0, 0, most,
                          "Change at this iteration; give one of the three", "not used")),
      alternative(number_key("schedule[]", "at_residual", 0, smallest_positive, 1e300,
                             "Change at this relative residual or below", "not used")),
      alternative(number_key("schedule[]", "after_seconds", 0, 0, 1e9,
                             "Change after this many seconds of the solve", "not used")),
      // Format element is a change back to element matrices.
      other("schedule[]", "format", "a format", none, "What to change to; give this, order or both",
            formats_and({"element"})),
      other("schedule[]", "parameters", "map", none, "Parameters of the format"),
      other("schedule[]", "parts", "list", none, "The parts of format sum"),
      other("schedule[]", "kernel", "a kernel of the format", "native", "Code of the product"),
      word("schedule[]", "order", none, order_words(false), "Order of the rows from there on"),
      word("schedule[]", "overlapped", "true", {"true", "false"},
           "Build the new format while the solve runs"),

      file("output", "solution", "x: .mtx, .mtx.gz, .mtx.xz or .npy"),
      file("output", "report", "The report as JSON"),
      file("output", "history", "The residual of each iteration as CSV; it grows during the solve"),
      file("output", "fields", "The field of each row, as preconditioner.labels reads it: .mtx or .npy"),
  };
  keys.insert(keys.end(), last.begin(), last.end());
  add_settings(keys);
  return keys;
}

// A limit that no number of this key reaches in practice is not named.
std::string range_text(Type type, NumberRange range) {
  if (type == Type::integer && range.largest >= most) range.largest = infinity;
  return (type == Type::integer ? "whole number" : "number") + range.text();
}

std::string type_text(const KeyDoc& key) {
  switch (key.type) {
    case Type::text:
      return "text";
    case Type::word:
      return fmt::format("{}", fmt::join(key.words, ", "));
    case Type::number:
    case Type::integer:
      return range_text(key.type, key.range);
    case Type::file:
      return "file";
    case Type::map:
      return key.words.empty() ? "map" : fmt::format("{}, or a map", fmt::join(key.words, ", "));
    case Type::list:
      return "list";
    case Type::other:
      break;
  }
  return key.allowed;
}

std::string default_text(const KeyDoc& key) {
  if (!key.otherwise.empty()) return std::string(key.otherwise);
  if (key.type != Type::number && key.type != Type::integer) return "none";
  return std::isinf(key.number) ? ".inf" : fmt::format("{}", key.number);
}

std::string entry_text(const std::string& path, const std::string& type, const std::string& otherwise,
                       std::string_view about) {
  return fmt::format("{}: {}\n    {}.{}\n", path, type, about,
                     otherwise == "required"   ? " Required."
                     : otherwise == "not used" ? ""
                                               : fmt::format(" Default: {}.", otherwise));
}

std::string rule_keys() {
  std::string text =
      entry_text("operator.parts[].take.rule", "a rule, see below", "required", "Which entries");
  for (const CutRuleDoc& rule : cut_rules()) {
    if (rule.name == "rest") continue;
    for (const ParamDoc& param : rule.params)
      text += entry_text(fmt::format("operator.parts[].take.{} ({})", param.name, rule.name),
                         range_text(Type::integer, {static_cast<double>(param.smallest),
                                                    static_cast<double>(param.largest)}),
                         std::string(param.default_value), param.doc);
  }
  return text;
}

}  // namespace

std::string KeyDoc::path() const {
  // "matrix.generate (fem-hex)" and "degree": matrix.generate.degree (fem-hex)
  const std::size_t bracket = section.find(" (");
  const std::string_view owner = section.substr(0, bracket);
  return fmt::format("{}{}{}{}", owner, owner.empty() ? "" : ".", name,
                     bracket == std::string_view::npos ? std::string_view() : section.substr(bracket));
}

std::span<const KeyDoc> problem_keys() {
  static const std::vector<KeyDoc> table = make_table();
  return table;
}

std::vector<std::string_view> keys_of(std::initializer_list<std::string_view> sections) {
  std::vector<std::string_view> names;
  for (const std::string_view section : sections) {
    const std::size_t before = names.size();
    for (const KeyDoc& key : problem_keys())
      if (key.section == section) names.push_back(key.name);
    if (names.size() == before) throw std::logic_error("problem_keys: there is no such section");
  }
  return names;
}

std::vector<std::string_view> keys_of(std::string_view section) { return keys_of({section}); }

std::vector<std::string_view> alternatives_of(std::string_view section) {
  std::vector<std::string_view> names;
  for (const KeyDoc& key : problem_keys())
    if (key.section == section && key.alternative) names.push_back(key.name);
  return names;
}

std::vector<std::string_view> generator_kinds() {
  Words kinds;
  for (const GeneratorEntry& entry : generators()) kinds.push_back(entry.kind);
  kinds.insert(kinds.end(), {"fem-hex", "fem-tet"});
  return kinds;
}

const KeyDoc& KeySection::doc(std::string_view key) const {
  for (const KeyDoc& doc : problem_keys())
    if (doc.name == key && std::find(sections_.begin(), sections_.end(), doc.section) != sections_.end())
      return doc;
  throw std::logic_error("KeySection: a key is read that is not in the table");
}

double KeySection::number(std::string_view key) const {
  const KeyDoc& d = doc(key);
  return Section::number(key, d.number, d.range);
}

std::int64_t KeySection::integer(std::string_view key) const {
  const KeyDoc& d = doc(key);
  return Section::integer(key, static_cast<std::int64_t>(d.number),
                          static_cast<std::int64_t>(d.range.smallest),
                          static_cast<std::int64_t>(d.range.largest));
}

std::string KeySection::word(std::string_view key) const {
  const KeyDoc& d = doc(key);
  return Section::word(key, d.otherwise, d.words);
}

OptionValue KeySection::option(const OptionInfo& option, std::string_view key) const {
  const Node& node = *find(key);
  const std::string path = path_of(key);
  if (option.kind == OptionKind::number) return read_number(node, path, option.range);
  if (option.kind == OptionKind::word && !option.words.empty()) {
    const std::string given = word(key);
    return *std::find(option.words.begin(), option.words.end(), given);
  }
  if (option.kind == OptionKind::word) {  // a text, whose reader knows its syntax
    (void)read_text(node, path);
    return std::string_view(node.text);
  }
  const auto smallest = static_cast<std::int64_t>(option.range.smallest);
  const auto largest = static_cast<std::int64_t>(std::min(option.range.largest, most));
  if (option.zero.empty()) return read_integer(node, path, smallest, largest);
  return read_integer_or_word(node, path, option.zero, smallest, largest).value_or(0);
}

std::string problem_keys_text(std::string_view only) {
  std::string text;
  const auto wanted = [&](std::string_view path) {
    return only.empty() || path == only || path.starts_with(std::string(only) + ".") ||
           path.starts_with(std::string(only) + "[") || path.starts_with(std::string(only) + " (");
  };
  std::string_view section = "-";
  for (const KeyDoc& key : problem_keys()) {
    const std::string path = key.path();
    if (!wanted(path)) continue;
    if (key.section != section && !text.empty()) text += '\n';
    section = key.section;
    text += entry_text(path, type_text(key), default_text(key), key.about);
    // The numbers of the rules follow the parts that have them.
    if (path == "operator.parts[].kernel") text += rule_keys();
  }
  if (text.empty()) {
    std::vector<std::string_view> names;
    for (const std::string_view name : keys_of("")) names.push_back(name);
    throw BadArgument(fmt::format("the problem file has no key '{}'; its sections are {}.{}", excerpt(only),
                                  fmt::join(names, ", "), detail::did_you_mean(only, names)));
  }
  return text;
}

std::string kinds_text() {
  std::string text;
  for (const GeneratorEntry& kind : generators()) {
    text += fmt::format("{}: {}\n    {}\n", kind.kind, kind.title, kind.formula);
    for (const GeneratorParam& param : kind.params) {
      const Words words = split(param.choices, '|');
      const std::string type = !param.choices.empty()
                                   ? fmt::format("{}, default {}", fmt::join(words, ", "),
                                                 words[static_cast<std::size_t>(param.default_value)])
                                   : fmt::format("{}, default {}",
                                                 range_text(param.integer ? Type::integer : Type::number,
                                                            {param.smallest, param.largest}),
                                                 param.default_value);
      text += fmt::format("      {}: {} ({})\n", param.name, param.doc, type);
    }
  }
  for (const auto& [kind, title, section] :
       {std::tuple{"fem-hex", "finite elements, hexahedra on the unit cube", "matrix.generate (fem-hex)"},
        std::tuple{"fem-tet", "finite elements, tetrahedra on the unit cube or of a Gmsh file",
                   "matrix.generate (fem-tet)"}}) {
    text += fmt::format("{}: {}\n", kind, title);
    for (const KeyDoc& key : problem_keys())
      if (key.section == section || key.section == "matrix.generate (fem-hex, fem-tet)")
        text += fmt::format("      {}: {} ({}, default {})\n", key.name, key.about, type_text(key),
                            default_text(key));
  }
  return text;
}

}  // namespace protean::apps
