#include "apps/problem/format_keys.hpp"
#include "apps/problem/problem_keys.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/words.hpp"
#include "formats/catalogue.hpp"

namespace protean::apps {

// Reads the id of a format, or one of the words in `ids`.
std::string read_format(const Node& node, const std::string& path, std::vector<std::string_view> ids) {
  for (const FormatEntry* entry : catalogue()) ids.push_back(entry->id);
  std::string format = read_text(node, path);
  if (std::find(ids.begin(), ids.end(), format) == ids.end())
    fail(node.place, fmt::format("there is no format '{}'.{} Formats: {}. `protean formats` describes them.",
                                 excerpt(format), detail::did_you_mean(format, ids), fmt::join(ids, ", ")));
  return format;
}

std::string read_kernel(const Node& node, const std::string& path, const std::string& format) {
  std::string name = read_text(node, path);
  std::vector<std::string_view> names;
  for (const FormatEntry* entry : catalogue()) {
    if (format != "auto" && entry->id != format) continue;
    for (const Space space : {Space::host, Space::device})
      for (const Kernel& kernel : kernels_in(*entry, space))
        if (std::find(names.begin(), names.end(), kernel.name) == names.end()) names.push_back(kernel.name);
  }
  if (std::find(names.begin(), names.end(), name) == names.end())
    fail(node.place, fmt::format("{} is '{}'; {} has: {}.{}", path, excerpt(name),
                                 format == "auto" ? "this build" : "format " + format, fmt::join(names, ", "),
                                 detail::did_you_mean(name, names)));
  return name;
}

namespace {

// `owner` is the path of the section with the key parameters.
FormatParams read_plain_parameters(const Node& node, const std::string& owner, const std::string& format) {
  FormatParams parameters;
  if (node.kind == Node::Kind::map && node.entries.empty()) return parameters;
  if (format == "auto")
    fail(node.place,
         fmt::format("{0}.parameters belong to one format; name it in {0}.format (it is auto)", owner));
  const FormatEntry& entry = find_format(format);
  const std::vector<ParamDoc> docs = settable_params(entry);
  if (docs.empty())
    fail(node.place, fmt::format("format {} has no parameters; remove {}.parameters", format, owner));
  std::vector<std::string_view> names;
  for (const ParamDoc& doc : docs) names.push_back(doc.name);
  const Section section(node, fmt::format("{}.parameters ({})", owner, format), names);
  for (const std::string_view name : names) {
    const Node* value = section.find(name);
    if (!value) continue;
    const std::string key = fmt::format("{}.parameters.{}", owner, name);
    std::string text = read_text(*value, key);
    constexpr std::size_t longest = 100;  // of a number or a choice; `parts` checks its own words
    if (text.size() > longest && name != "parts")
      fail(value->place, fmt::format("{} is '{}'; it must be a number or one word", key, excerpt(text)));
    parameters.set(std::string(name), std::move(text));
    try {
      (void)resolve_params(entry, parameters);
    } catch (const BadArgument& error) { fail(value->place, error.what()); }
  }
  return parameters;
}

// Sets the rule of a part, and its numbers.
void read_rule(const Node& node, const std::string& path, PartOfSum& part) {
  std::vector<std::string_view> names;
  for (const CutRuleDoc& rule : cut_rules())
    if (rule.name != "rest") names.push_back(rule.name);
  const bool with_numbers = node.kind == Node::Kind::map;
  if (with_numbers && !node.find("rule"))
    fail(node.place, fmt::format("{} needs the key 'rule', one of: {}", path, fmt::join(names, ", ")));
  const Node& name = with_numbers ? node.find("rule")->value : node;
  part.take = read_text(name, with_numbers ? path + ".rule" : path);
  if (part.take == "rest")
    fail(name.place, fmt::format("{} is rest, which only the last part takes; leave it out there", path));
  const auto rule = std::find_if(cut_rules().begin(), cut_rules().end(),
                                 [&](const CutRuleDoc& one) { return one.name == part.take; });
  if (rule == cut_rules().end())
    fail(name.place, fmt::format("{} is '{}'; it must be one of: {}.{}", path, excerpt(part.take),
                                 fmt::join(names, ", "), detail::did_you_mean(part.take, names)));
  if (!with_numbers) return;
  std::vector<std::string_view> keys{"rule"};
  for (const ParamDoc& doc : rule->params) keys.push_back(doc.name);
  const Section section(node, fmt::format("{} ({})", path, part.take), keys);
  for (const ParamDoc& doc : rule->params)
    if (const Node* value = section.find(doc.name))
      part.take_parameters.set(
          std::string(doc.name),
          read_integer(*value, fmt::format("{}.{}", path, doc.name), doc.smallest, doc.largest));
}

PartOfSum read_part(const Node& node, const std::string& path, bool last) {
  const Section section(node, path, keys_of("operator.parts[]"));
  const Node* format = section.find("format");
  if (!format) fail(node.place, fmt::format("{} needs the key 'format': the format of this part", path));
  PartOfSum part;
  part.format = read_format(*format, path + ".format", {});
  const Node* take = section.find("take");
  if (take && last)
    fail(take->place,
         fmt::format("{} is the last part, which takes the rest; remove `take`, or add a part after it",
                     path));
  if (!take && !last) {
    std::vector<std::string_view> names;
    for (const CutRuleDoc& rule : cut_rules())
      if (rule.name != "rest") names.push_back(rule.name);
    fail(node.place,
         fmt::format("{} needs the key 'take', which says what it gets: one of {}. Only the last part takes "
                     "the rest",
                     path, fmt::join(names, ", ")));
  }
  if (take) read_rule(*take, path + ".take", part);
  if (const Node* kernel = section.find("kernel"))
    part.kernel = read_kernel(*kernel, path + ".kernel", part.format);
  if (const Node* parameters = section.find("parameters"))
    part.parameters = read_plain_parameters(*parameters, path, part.format);
  try {
    check_part(part);
  } catch (const BadArgument& error) {
    fail(take ? take->place : node.place, fmt::format("{}: {}", path, error.what()));
  }
  return part;
}

}  // namespace

FormatParams read_parameters(const Section& section, const std::string& owner, const std::string& format) {
  const Node *plain = section.find("parameters"), *parts = section.find("parts");
  if (parts && format != "sum")
    fail(parts->place, fmt::format("{0}.parts belong to format sum; {0}.format is {1}", owner, format));
  if (parts && plain)
    fail(plain->place,
         fmt::format("{0} has both parts and parameters; the parts are all that format sum has", owner));
  if (parts) return {{"parts", text_of(read_parts(*parts, owner + ".parts"))}};
  if (!plain) return {};
  FormatParams parameters = read_plain_parameters(*plain, owner, format);
  if (format == "sum" && parameters.has("parts")) {
    try {
      (void)parts_of(parameters.word("parts"));
    } catch (const BadArgument& error) { fail(plain->find("parts")->value.place, error.what()); }
  }
  return parameters;
}

std::vector<PartOfSum> read_parts(const Node& list, const std::string& path) {
  if (list.kind != Node::Kind::list || list.items.empty())
    fail(list.place,
         fmt::format("{} must be a list of parts such as [{{format: dia, take: diagonals}}, {{format: csr}}]",
                     path));
  if (list.items.size() > most_parts)
    fail(list.items[most_parts].place,
         fmt::format("{} has {} parts; at most {} are allowed", path, list.items.size(), most_parts));
  std::vector<PartOfSum> parts;
  for (std::size_t i = 0; i < list.items.size(); ++i)
    parts.push_back(read_part(list.items[i], fmt::format("{}[{}]", path, i), i + 1 == list.items.size()));
  return parts;
}

}  // namespace protean::apps
