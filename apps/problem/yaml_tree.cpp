#include "apps/problem/yaml_tree.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>
#include <stdexcept>
#include <unordered_map>

#include "core/error.hpp"
#include "core/io/foreign_file.hpp"

namespace protean::apps {
namespace {

constexpr std::size_t largest_depth = 32;
// Of lists, maps and scalars. Each takes about 150 bytes, also if the file has two for it.
constexpr std::size_t most_values = 1'000'000;

Node node_at(const Place& place, Node::Kind kind = Node::Kind::nothing) {
  Node node;
  node.kind = kind, node.place = place;
  return node;
}

// Builds the tree from the events of yaml-cpp. Unlike its own tree they keep duplicate keys and do not expand
// aliases.
class Builder final : public YAML::EventHandler {
 public:
  explicit Builder(std::shared_ptr<const std::string> file) : file_(std::move(file)) {
    root_.place = {file_, 0, 0};
  }

  Node take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override { root_.place = place(mark); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    add(node_at(place(mark)));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    fail(place(mark), "aliases (*name) are not used in problem files; write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    const bool quoted = tag == "!";
    if (!quoted && (value.empty() || value == "~" || value == "null"))
      add(node_at(place(mark)));
    else {
      Node node = node_at(place(mark), Node::Kind::scalar);
      node.quoted = quoted, node.text = value;
      add(std::move(node));
    }
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::list);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::map);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    Node node;
    std::unordered_map<std::string, std::int64_t> lines;  // of each key so far
    bool has_key = false;
    std::string key;
    Place key_place;
  };

  Place place(const YAML::Mark& mark) const {
    return mark.is_null() ? Place{file_, 0, 0} : Place{file_, mark.line + 1, mark.column + 1};
  }
  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) const {
    if (anchor) fail(place(mark), "anchors (&name) are not used in problem files; remove it");
  }
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (!tag.empty() && tag != "?" && tag != "!")
      fail(place(mark), fmt::format("tags ({}) are not used in problem files; remove it", excerpt(tag)));
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Node::Kind kind) {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    if (open_.size() == largest_depth)
      fail(place(mark), fmt::format("nested deeper than {} levels", largest_depth));
    open_.push_back({.node = node_at(place(mark), kind), .lines = {}, .key = {}, .key_place = {}});
  }
  void close() {
    Node node = std::move(open_.back().node);
    open_.pop_back();
    add(std::move(node));
  }
  void add(Node node) {
    if (++values_ > most_values) fail(node.place, fmt::format("more than {} values", most_values));
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& top = open_.back();
    if (top.node.kind == Node::Kind::list) {
      top.node.items.push_back(std::move(node));
    } else if (!top.has_key) {
      if (node.kind != Node::Kind::scalar) fail(node.place, "a key must be a word");
      const auto [first, is_new] = top.lines.emplace(node.text, node.place.line);
      if (!is_new)
        fail(node.place,
             fmt::format("the key '{}' is here for the second time; it was given in line {}. Remove one.",
                         excerpt(node.text), first->second));
      top.has_key = true, top.key = std::move(node.text), top.key_place = node.place;
    } else {
      // yaml-cpp gives a missing value the place of the next line.
      if (node.kind == Node::Kind::nothing) node.place = top.key_place;
      top.node.entries.push_back({std::move(top.key), top.key_place, std::move(node)});
      top.has_key = false;
    }
  }

  std::shared_ptr<const std::string> file_;
  Node root_;
  std::vector<Open> open_;
  std::size_t values_ = 0;
};

Node parse(std::string_view text, const std::shared_ptr<const std::string>& file, bool keep_places) {
  Builder builder(file);
  std::istringstream stream{std::string(text)};
  try {
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    Builder second(file);
    if (parser.HandleNextDocument(second))
      fail(second.take().place, "a second YAML document begins here; a problem file holds one");
  } catch (const YAML::Exception& error) {
    const bool known = keep_places && !error.mark.is_null();
    fail({file, known ? error.mark.line + 1 : 0, known ? error.mark.column + 1 : 0},
         fmt::format("not valid YAML: {}", excerpt(error.msg)));
  }
  return builder.take();
}

void move_to(Node& node, const Place& place) {
  node.place = place;
  for (Node& item : node.items) move_to(item, place);
  for (Node::Entry& entry : node.entries) entry.place = place, move_to(entry.value, place);
}

std::string_view kind_of(const Node& node) {
  switch (node.kind) {
    case Node::Kind::nothing:
      return "nothing";
    case Node::Kind::list:
      return "a list";
    case Node::Kind::map:
      return "a map";
    case Node::Kind::scalar:
      break;
  }
  return node.text;
}

[[noreturn]] void fail_kind(const Node& node, const std::string& path, const std::string& expected) {
  const std::string found = node.kind == Node::Kind::scalar
                                ? (node.quoted ? fmt::format("the text \"{}\"", excerpt(node.text))
                                               : fmt::format("'{}'", excerpt(node.text)))
                                : std::string(kind_of(node));
  fail(node.place, fmt::format("{} is {}; it must be {}", path, found, expected));
}

bool parse_number(const Node& node, double& value) {
  if (node.kind != Node::Kind::scalar || node.quoted) return false;
  std::string_view text = node.text;
  bool negative = false;
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) negative = text[0] == '-', text.remove_prefix(1);
  if (text == ".inf" || text == ".Inf" || text == ".INF" || text == "inf") {
    value = negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    return true;
  }
  if (text.empty() || !(text[0] == '.' || (text[0] >= '0' && text[0] <= '9'))) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  if (negative) value = -value;
  return true;
}

}  // namespace

std::string excerpt(std::string_view text) {
  constexpr std::size_t longest = 100;
  std::string shown(text.substr(0, longest));
  if (text.size() > longest) {
    // A character of several bytes is not cut.
    while (!shown.empty() && (static_cast<unsigned char>(text[shown.size()]) & 0xc0) == 0x80)
      shown.pop_back();
  }
  for (char& c : shown)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = c == '\n' || c == '\t' ? ' ' : '?';
  return text.size() > longest ? shown + "..." : shown;
}

const Node::Entry* Node::find(std::string_view key) const noexcept {
  for (const Entry& entry : entries)
    if (entry.key == key) return &entry;
  return nullptr;
}

void fail(const Place& place, const std::string& message) {
  throw BadFile(place.file ? *place.file : std::string("problem"), place.line, place.column, message);
}

Node parse_yaml(std::string_view text, const std::string& file) {
  const auto name = std::make_shared<const std::string>(file);
  if (const std::string why = io_detail::wide_text(text, file); !why.empty()) fail({name, 0, 0}, why);
  if (text.starts_with(io_detail::byte_order_mark)) text.remove_prefix(io_detail::byte_order_mark.size());
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos)
    fail({name, 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(zero), '\n'), 0},
         "there is a zero byte in it; this is no YAML text, and no matrix that is known here (Matrix Market "
         "or Harwell-Boeing, also compressed by gzip or xz, or .pbin)");
  return parse(text, name, true);
}

namespace {

// Puts the value at this path of the tree. Maps on the path that are missing are added.
void put(Node& root, std::string_view path, Node value, const Place& place) {
  Node* node = &root;
  for (std::size_t depth = 0;; ++depth) {
    const std::size_t dot = path.find('.');
    const std::string_view key = path.substr(0, dot);
    if (key.empty()) fail(place, "there is an empty name in the path before '='");
    if (depth == largest_depth) fail(place, fmt::format("nested deeper than {} levels", largest_depth));
    if (node->kind != Node::Kind::map) *node = node_at(place, Node::Kind::map);
    auto found = std::find_if(node->entries.begin(), node->entries.end(),
                              [&](const Node::Entry& entry) { return entry.key == key; });
    if (found == node->entries.end()) {
      node->entries.push_back({std::string(key), place, node_at(place)});
      found = node->entries.end() - 1;
    }
    found->place = place;
    node = &found->value;
    if (dot == std::string_view::npos) break;
    path.remove_prefix(dot + 1);
  }
  *node = std::move(value);
}

Place on_command_line(const std::string& text) {
  return {std::make_shared<const std::string>(text), 0, 0, true};
}

}  // namespace

void set_value(Node& root, const std::string& assignment) {
  const Place place = on_command_line("--set " + excerpt(assignment));
  const std::size_t equal = assignment.find('=');
  if (equal == std::string::npos || equal == 0)
    fail(place, "write --set key.path=value, for instance --set solver.method=gmres");
  const std::string_view text = std::string_view(assignment).substr(equal + 1);
  Node value = node_at(place, Node::Kind::scalar);
  value.text = text;
  if (text != "-")
    value = parse(text, place.file, false);  // to YAML a list of one empty element, here a word
  move_to(value, place);
  put(root, std::string_view(assignment).substr(0, equal), std::move(value), place);
}

void set_value(Node& root, const OptionSetting& setting) {
  const Place place = on_command_line(fmt::format("{} {}", setting.option, excerpt(setting.value)));
  Node value = node_at(place, Node::Kind::scalar);
  value.text = setting.value;
  if (!setting.key.empty()) {
    Node map = node_at(place, Node::Kind::map);
    map.entries.push_back({setting.key, place, std::move(value)});
    value = std::move(map);
  }
  put(root, setting.path, std::move(value), place);
}

Section::Section(const Node& node, std::string path, std::initializer_list<std::string_view> keys)
    : node_(node), path_(std::move(path)), keys_(keys) {
  check();
}

Section::Section(const Node& node, std::string path, const std::vector<std::string_view>& keys)
    : node_(node), path_(std::move(path)), keys_(keys) {
  check();
}

namespace {

// A word where a map belongs: the map that is probably meant. " Write solver: {method: cg}."
std::string meant(const Node& node, const std::string& path, const std::vector<std::string_view>& keys) {
  if (node.kind != Node::Kind::scalar || path.empty() || path.find_first_of("[.(") != std::string::npos)
    return {};
  const bool file = node.text.find('.') != std::string::npos;
  const bool has_file = std::find(keys.begin(), keys.end(), "file") != keys.end();
  return fmt::format(". Write {}: {{{}: {}}}", path, file && has_file ? "file" : keys.front(),
                     excerpt(node.text));
}

// " Did you mean 'x'?", also for a word that is a part of a key: tolerance, relative_tolerance.
std::string hint(std::string_view word, const std::vector<std::string_view>& keys) {
  std::string near = detail::did_you_mean(word, keys);
  constexpr std::size_t shortest = 3;
  if (!near.empty() || word.size() < shortest) return near;
  for (const std::string_view key : keys)
    if (key.find(word) != std::string_view::npos) return fmt::format(" Did you mean '{}'?", key);
  return {};
}

}  // namespace

void Section::check() const {
  if (node_.kind != Node::Kind::map && path_.empty())
    fail_kind(
        node_, "the problem",
        fmt::format(
            "a map with keys of: {}, or else a matrix file: Matrix Market begins with '%%MatrixMarket', and "
            "the third line of Harwell-Boeing with a type such as RUA",
            fmt::join(keys_, ", ")));
  if (node_.kind != Node::Kind::map)
    fail_kind(node_, path_,
              fmt::format("a map with keys of: {}{}", fmt::join(keys_, ", "), meant(node_, path_, keys_)));
  for (const Node::Entry& entry : node_.entries)
    if (std::find(keys_.begin(), keys_.end(), entry.key) == keys_.end())
      fail(entry.place,
           fmt::format("unknown key '{}'{}{}. Allowed here: {}.{}", excerpt(entry.key),
                       path_.empty() ? "" : " in ", path_, fmt::join(keys_, ", "), hint(entry.key, keys_)));
}

const Node* Section::find(std::string_view key) const {
  if (std::find(keys_.begin(), keys_.end(), key) == keys_.end())
    throw std::logic_error("Section: a key is read that is not declared");
  const Node::Entry* entry = node_.find(key);
  return entry ? &entry->value : nullptr;
}

std::string Section::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

double Section::number(std::string_view key, double otherwise, const NumberRange& range) const {
  const Node* node = find(key);
  return node ? read_number(*node, path_of(key), range) : otherwise;
}

std::int64_t Section::integer(std::string_view key, std::int64_t otherwise, std::int64_t smallest,
                              std::int64_t largest) const {
  const Node* node = find(key);
  return node ? read_integer(*node, path_of(key), smallest, largest) : otherwise;
}

std::string Section::word(std::string_view key, std::string_view otherwise,
                          const std::vector<std::string_view>& choices) const {
  const Node* node = find(key);
  if (!node) return std::string(otherwise);
  const std::string expected = fmt::format("one of: {}", fmt::join(choices, ", "));
  if (node->kind != Node::Kind::scalar) fail_kind(*node, path_of(key), expected);
  if (std::find(choices.begin(), choices.end(), node->text) == choices.end())
    fail(node->place, fmt::format("{} is '{}'; it must be {}.{}", path_of(key), excerpt(node->text), expected,
                                  detail::did_you_mean(node->text, choices)));
  return node->text;
}

std::string Section::text(std::string_view key, std::string_view otherwise) const {
  const Node* node = find(key);
  return node ? read_text(*node, path_of(key)) : std::string(otherwise);
}

double read_number(const Node& node, const std::string& path, const NumberRange& range) {
  double value = 0;
  if (!parse_number(node, value) || !range.has(value))
    fail_kind(node, path, fmt::format("a number{}", range.text()));
  return value;
}

namespace {

// 1e6 is a whole number too. From 2^53 on a double does not hold each of them: 2^53 + 1 is read as 2^53.
constexpr std::int64_t exact = (std::int64_t{1} << 53) - 1;

std::int64_t read_integer(const Node& node, const std::string& path, std::int64_t smallest,
                          std::int64_t largest, std::string_view also) {
  double value = 0;
  if (!parse_number(node, value) || value != std::floor(value) ||
      std::fabs(value) > static_cast<double>(exact) || value < static_cast<double>(smallest) ||
      value > static_cast<double>(largest))
    fail_kind(node, path,
              fmt::format("{}a whole number from {} to {}", also, smallest, std::min(largest, exact)));
  return static_cast<std::int64_t>(value);
}

}  // namespace

std::int64_t read_integer(const Node& node, const std::string& path, std::int64_t smallest,
                          std::int64_t largest) {
  return read_integer(node, path, smallest, largest, "");
}

std::optional<std::int64_t> read_integer_or_word(const Node& node, const std::string& path,
                                                 std::string_view word, std::int64_t smallest,
                                                 std::int64_t largest) {
  if (node.kind == Node::Kind::scalar && node.text == word) return std::nullopt;
  return read_integer(node, path, smallest, largest, fmt::format("{}, or ", word));
}

std::string read_file_name(const Node& node, const std::string& path) {
  constexpr std::size_t longest = 4095;  // PATH_MAX without the zero byte
  std::string name = read_text(node, path);
  if (name.size() > longest ||
      std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
    fail(node.place, fmt::format("{} is '{}'; it must be the name of a file, in one line of at most {} bytes",
                                 path, excerpt(name), longest));
  return name;
}

std::string read_text(const Node& node, const std::string& path) {
  if (node.kind != Node::Kind::scalar || node.text.empty()) fail_kind(node, path, "a word or text");
  return node.text;
}

}  // namespace protean::apps
