#include "apps/command/formats.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/report/output.hpp"
#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "operators/kernel_admission.hpp"

namespace protean::apps {
namespace {

constexpr Space all_spaces[] = {Space::host, Space::device};

struct KernelRow {
  std::string_view name, unavailable, note;
  std::vector<std::string_view> spaces,
      deterministic;  // where it runs, and where it has a deterministic mode
};

// The kernels of a format, each once, with the spaces it runs in.
std::vector<KernelRow> kernel_rows(const FormatEntry& entry) {
  std::vector<KernelRow> rows;
  for (const Space space : all_spaces)
    for (const Kernel& kernel : kernels_in(entry, space)) {
      auto row =
          std::find_if(rows.begin(), rows.end(), [&](const KernelRow& r) { return r.name == kernel.name; });
      if (row == rows.end()) row = rows.insert(rows.end(), KernelRow{kernel.name, {}, kernel.note, {}, {}});
      if (!kernel.unavailable.empty()) {
        row->unavailable = kernel.unavailable;
        continue;
      }
      row->spaces.push_back(to_string(space));
      if (has_deterministic_mode(entry, kernel, space)) row->deterministic.push_back(to_string(space));
    }
  // For a device only, in a build without CUDA.
  if (rows.empty() && !detail::why_not_on_host(entry).empty())
    rows.push_back({"native", "its kernel is one of a GPU", {}, {}, {}});
  return rows;
}

std::vector<std::string_view> available_spaces(const FormatEntry& entry) {
  std::vector<std::string_view> names;
  for (const Space space : all_spaces)
    for (const Kernel& kernel : kernels_in(entry, space))
      if (kernel.unavailable.empty() && (names.empty() || names.back() != to_string(space)))
        names.push_back(to_string(space));
  return names;
}

// A parameter that can be set, with the kernel that it belongs to; empty: it belongs to the format.
struct OwnedParam {
  ParamDoc doc;
  std::string_view kernel;
};
std::vector<OwnedParam> owned_params(const FormatEntry& entry) {
  std::vector<OwnedParam> params;
  for (const ParamDoc& doc : settable_params(entry)) {
    const auto is_it = [&](const ParamDoc& other) { return other.name == doc.name; };
    std::string_view owner;
    if (std::none_of(entry.params.begin(), entry.params.end(), is_it))
      for (const Space space : all_spaces)
        for (const Kernel& kernel : kernels_in(entry, space))
          if (owner.empty() && std::any_of(kernel.params.begin(), kernel.params.end(), is_it))
            owner = kernel.name;
    params.push_back({doc, owner});
  }
  return params;
}

std::string range_of(const ParamDoc& doc) {
  return doc.choices.empty() ? fmt::format("{} to {}", doc.smallest, doc.largest) : std::string(doc.choices);
}

// The format under which a preset is listed; null for other formats.
const FormatEntry* base_in(std::span<const FormatEntry* const> entries, const FormatEntry& preset) {
  const auto base = std::find_if(entries.begin(), entries.end(), [&](const FormatEntry* entry) {
    return entry->id == preset.base && entry->family == preset.family;
  });
  return base == entries.end() ? nullptr : *base;
}

std::string kernels_of(const FormatEntry& entry) {
  std::vector<std::string> names;
  for (const KernelRow& row : kernel_rows(entry))
    names.push_back(row.spaces.empty() ? fmt::format("({})", row.name) : std::string(row.name));
  return fmt::format("{}", fmt::join(names, " "));
}

std::string params_of(const FormatEntry& entry) {
  std::vector<std::string> names;
  for (const ParamDoc& doc : settable_params(entry))
    names.push_back(fmt::format("{}={}", doc.name, doc.default_value));
  return names.empty() ? std::string("-") : fmt::format("{}", fmt::join(names, " "));
}

// The formats by family, and in a family each preset after its base.
std::vector<const FormatEntry*> by_family(std::span<const FormatEntry* const> entries) {
  std::vector<std::string_view> families;
  for (const FormatEntry* entry : entries)
    if (std::find(families.begin(), families.end(), entry->family) == families.end())
      families.push_back(entry->family);
  std::vector<const FormatEntry*> sorted;
  for (const std::string_view family : families)
    for (const FormatEntry* entry : entries) {
      if (entry->family != family || base_in(entries, *entry)) continue;
      sorted.push_back(entry);
      for (const FormatEntry* preset : entries)
        if (base_in(entries, *preset) == entry) sorted.push_back(preset);
    }
  return sorted;
}

// What a preset is in a space: kernels of its base, and the parameters that it fixes for them.
struct PresetIn {
  Space space;
  std::vector<std::string_view> kernels;
  std::vector<FixedParam> fixed;
};
std::vector<PresetIn> preset_in_spaces(const FormatEntry& entry) {
  std::vector<PresetIn> list;
  if (!entry.preset) return list;
  for (const Space space : all_spaces) {
    const auto kernels = kernels_in(entry, space);
    if (kernels.empty()) continue;
    PresetIn& in = list.emplace_back(PresetIn{space, {}, {}});
    for (const Kernel& kernel : kernels) in.kernels.push_back(kernel.name);
    const FormatParams complete = resolve_params(entry, {}, &kernels.front());
    for (const FixedParam& one : entry.preset->fixed)
      if (complete.has(one.name)) in.fixed.push_back(one);
  }
  return list;
}

std::string details(const FormatEntry& entry) {
  const auto yes = [](bool value) { return value ? "yes" : "no"; };
  std::string as_base;
  for (const PresetIn& in : preset_in_spaces(entry)) {
    std::vector<std::string> fixed;
    for (const FixedParam& one : in.fixed) fixed.push_back(fmt::format("{} = {}", one.name, one.value));
    as_base += fmt::format("  on the {:<8} {} {} of {}{}\n", to_string(in.space),
                           in.kernels.size() > 1 ? "kernels" : "kernel", fmt::join(in.kernels, ", "),
                           entry.base, fixed.empty() ? "" : fmt::format(" with {}", fmt::join(fixed, ", ")));
  }
  std::string text = fmt::format(
      "{}: {}\n"
      "  family          {}\n"
      "  engine          {}\n"
      "{}  source          {}\n"
      "  deterministic   {}\n"
      "  exact values    {}\n"
      "  square only     {}\n"
      "  symmetric only  {}\n"
      "  kernels\n",
      entry.id, entry.title, entry.family, entry.engine,
      (entry.base.empty() ? std::string() : fmt::format("  preset of       {}\n", entry.base)) + as_base,
      entry.source, yes(entry.traits.deterministic), yes(entry.traits.exact_values),
      yes(entry.traits.square_only), yes(entry.traits.symmetric_only));
  for (const KernelRow& row : kernel_rows(entry)) {
    if (row.spaces.empty()) {
      text += fmt::format("    {:<12}  not in this build: {}\n", row.name, row.unavailable);
      continue;
    }
    text += fmt::format("    {:<12}  {}; {}{}{}\n", row.name, fmt::join(row.spaces, ", "),
                        row.deterministic.empty()
                            ? "refused in deterministic mode"
                            : fmt::format("deterministic mode: {}", fmt::join(row.deterministic, ", ")),
                        row.note.empty() ? "" : "; ", row.note);
  }
  const std::vector<OwnedParam> params = owned_params(entry);
  text += params.empty() ? "  parameters      none\n" : "  parameters\n";
  for (const OwnedParam& param : params)
    text += fmt::format("    {:<12}  {}{} (default {}; {})\n", param.doc.name,
                        param.kernel.empty() ? "" : fmt::format("kernel {}: ", param.kernel), param.doc.doc,
                        param.doc.default_value, range_of(param.doc));
  return text;
}

nlohmann::ordered_json to_json(const FormatEntry& entry) {
  nlohmann::ordered_json json{{"id", entry.id},
                              {"family", entry.family},
                              {"base", nullptr},
                              {"engine", entry.engine},
                              {"title", entry.title},
                              {"source", entry.source},
                              {"kernels", nlohmann::ordered_json::array()},
                              {"spaces", available_spaces(entry)},
                              {"parameters", nlohmann::ordered_json::array()},
                              {"deterministic", entry.traits.deterministic},
                              {"exact_values", entry.traits.exact_values},
                              {"square_only", entry.traits.square_only},
                              {"symmetric_only", entry.traits.symmetric_only},
                              {"unavailable_kernels", nlohmann::ordered_json::object()},
                              {"kernel_notes", nlohmann::ordered_json::object()},
                              {"deterministic_mode", nlohmann::ordered_json::object()}};
  if (!entry.base.empty()) json["base"] = entry.base;
  // Objects are made before names are looked up in them: if memory is missing, a null that becomes an object has none,
  // and its destructor reads it.
  nlohmann::ordered_json fixed = nlohmann::ordered_json::object();
  for (const PresetIn& in : preset_in_spaces(entry)) {
    const std::string space(to_string(in.space));
    for (const FixedParam& one : in.fixed) {
      if (!fixed.contains(space)) fixed[space] = nlohmann::ordered_json::object();
      fixed[space][std::string(one.name)] = one.value;
    }
  }
  if (!fixed.empty()) json["fixed_parameters"] = std::move(fixed);
  for (const KernelRow& row : kernel_rows(entry)) {
    if (row.spaces.empty())
      json["unavailable_kernels"][std::string(row.name)] = row.unavailable;
    else
      json["kernels"].push_back(row.name);
    if (!row.spaces.empty()) json["deterministic_mode"][std::string(row.name)] = row.deterministic;
    if (row.spaces.size() > 0 && !row.note.empty()) json["kernel_notes"][std::string(row.name)] = row.note;
  }
  for (const auto& [doc, kernel] : owned_params(entry)) {
    nlohmann::ordered_json param{{"name", doc.name}, {"doc", doc.doc}, {"default", doc.default_value}};
    if (!kernel.empty()) param["kernel"] = kernel;
    if (doc.choices.empty()) {
      param["smallest"] = doc.smallest;
      param["largest"] = doc.largest;
    } else {
      param["choices"] = doc.choices;
    }
    json["parameters"].push_back(std::move(param));
  }
  return json;
}

// The formats that are listed, in the order of the catalogue.
std::vector<const FormatEntry*> listed(const std::string& id, const std::string& family) {
  if (!id.empty() && !family.empty())
    throw BadArgument("give the id of a format, or --family NAME, not both");
  if (!id.empty()) return {&find_format(id)};
  std::vector<const FormatEntry*> entries;
  std::vector<std::string_view> families;
  for (const FormatEntry* entry : catalogue()) {
    if (family.empty() || entry->family == family) entries.push_back(entry);
    if (std::find(families.begin(), families.end(), entry->family) == families.end())
      families.push_back(entry->family);
  }
  if (entries.empty())
    throw BadArgument(fmt::format("--family: there is no family '{}'; the families are {}.{}", family,
                                  fmt::join(families, ", "), detail::did_you_mean(family, families)));
  return entries;
}

}  // namespace

std::string formats_table(std::span<const FormatEntry* const> entries, std::size_t most_width) {
  std::vector<std::vector<std::string>> rows{{"id", "title", "kernels", "parameters", "deterministic"}};
  std::vector<std::string_view> families{""};  // of each row
  bool missing = false;
  for (const FormatEntry* entry : by_family(entries)) {
    rows.push_back({fmt::format("{}{}", base_in(entries, *entry) ? "    " : "  ", entry->id),
                    std::string(entry->title), kernels_of(*entry), params_of(*entry),
                    entry->traits.deterministic ? "yes" : "no"});
    families.push_back(entry->family);
    missing = missing || rows.back()[2].find('(') != std::string::npos;
  }
  std::vector<std::size_t> width(rows[0].size());
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  std::size_t whole = 0;
  for (const std::size_t one : width) whole += one + 2;
  if (whole - 2 > most_width) {
    rows[0] = {"id", "title; kernels but native; parameters"};
    for (std::size_t r = 1; r < rows.size(); ++r) {
      const std::string kernels = rows[r][2], parameters = rows[r][3], deterministic = rows[r][4];
      rows[r].resize(2);
      if (kernels != "native") rows[r][1] += "; kernels " + kernels;
      if (parameters != "-") rows[r][1] += "; " + parameters;
      if (deterministic == "no") rows[r][1] += "; not deterministic";
    }
    width = {width[0], 0};
  }
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (std::size_t c = 0; c < width.size(); ++c) line += fmt::format("{:<{}}", rows[r][c], width[c] + 2);
    line.erase(line.find_last_not_of(' ') + 1);
    if (r > 0 && families[r] != families[r - 1]) text += fmt::format("{}\n", families[r]);
    text += fitted(line, most_width) + "\n";
    if (r == 0) text += std::string(std::min(std::max(line.size(), whole - 2), most_width), '-') + "\n";
  }
  if (missing) text += "(kernel): not in this build; `protean formats ID` says why\n";
  return text;
}

std::string formats_text(const std::string& id, const std::string& family, std::size_t width) {
  const std::vector<const FormatEntry*> entries = listed(id, family);
  return id.empty() ? formats_table(entries, width) : fitted(details(*entries.front()), width);
}

std::string formats_json(const std::string& id, const std::string& family) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const FormatEntry* entry : listed(id, family)) list.push_back(to_json(*entry));
  return list.dump(2) + "\n";
}

}  // namespace protean::apps
