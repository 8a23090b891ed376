#include "formats/catalogue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "formats/entries.hpp"
#include "operators/narrow_values.hpp"

namespace protean {
namespace {

constexpr bool is_engine(std::string_view name) {
  constexpr std::string_view names[] = {"rows",  "runs",      "entries", "slots",  "jags",
                                        "lanes", "diagonals", "blocks",  "packed", "bits",
                                        "tiles", "symmetric", "sum"};
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// The entries of layouts with their engines, and the entries of presets with the parameters and kernels that are left
// of their base. Filled once.
class Entries {
 public:
  const FormatEntry* complete(const FormatEntry& layout, std::string_view engine) {
    FormatEntry& entry = entries_.emplace_back(layout);
    entry.engine = engine;
    if (entry.device && entry.device->kernels.empty()) entry.device = nullptr;  // a build without CUDA
    return &entry;
  }
  const FormatEntry* complete(const Preset& preset, const FormatEntry& base) {
    FormatEntry& entry = entries_.emplace_back(base);
    entry.family = preset.family, entry.id = preset.id, entry.title = preset.title;
    entry.source = preset.source, entry.base = base.id, entry.preset = &preset;
    entry.base_params = base.params;
    std::vector<ParamDoc>& left = params_.emplace_back();
    for (const ParamDoc& doc : base.params)
      if (!is_set(preset, doc.name)) left.push_back(doc);
    entry.params = left;
    entry.kernels = only(base.kernels, preset.host_kernel);
    if (base.device) {
      DeviceCode& code = codes_.emplace_back(*base.device);
      code.kernels = only(code.kernels, preset.device_kernel);
      entry.device = &code;
    }
    return &entry;
  }
  // Completes the entries with what they say of others.
  void name_float_formats() {
    for (const FormatEntry& entry : entries_)
      if (!entry.preset && std::any_of(entry.kernels.begin(), entry.kernels.end(), detail::has_float_values))
        float_formats_ += fmt::format("{}{}", float_formats_.empty() ? "" : ", ", entry.id);
    for (FormatEntry& entry : entries_) entry.float_formats = float_formats_;
  }
  // All matrices keep their transpose in this format.
  void keep_transposes_in(const FormatEntry& format) {
    for (FormatEntry& entry : entries_) entry.transposed = &format;
  }

 private:
  static bool is_set(const Preset& preset, std::string_view name) {
    return std::any_of(preset.fixed.begin(), preset.fixed.end(),
                       [&](const FixedParam& one) { return one.name == name; }) ||
           std::find(preset.chosen.begin(), preset.chosen.end(), name) != preset.chosen.end();
  }
  static std::span<const Kernel> only(std::span<const Kernel> kernels, std::string_view name) {
    if (name.empty()) return kernels;
    const auto found = std::find_if(kernels.begin(), kernels.end(),
                                    [&](const Kernel& kernel) { return kernel.name == name; });
    return kernels.subspan(static_cast<std::size_t>(found - kernels.begin()), found == kernels.end() ? 0 : 1);
  }

  // Deques: entries and what they refer to keep their addresses.
  std::deque<FormatEntry> entries_;
  std::deque<std::vector<ParamDoc>> params_;
  std::deque<DeviceCode> codes_;
  std::string float_formats_;
};

std::vector<const FormatEntry*> make_table() {
  static Entries entries;
  std::vector<const FormatEntry*> table;
  const auto add_layout = [&](const FormatEntry& layout, std::string_view engine) {
    table.push_back(entries.complete(layout, engine));
  };
  const auto add_preset = [&](const Preset& preset) {
    // A base stands before its presets in catalogue.def; a test checks it.
    for (const FormatEntry* entry : table)
      if (entry->id == preset.base) return table.push_back(entries.complete(preset, *entry));
  };
#define PROTEAN_FORMAT(family, name, engine) \
  static_assert(is_engine(#engine), #name);  \
  add_layout(formats::entries::name, #engine);
#define PROTEAN_PRESET(family, name) add_preset(formats::entries::name);
#include "formats/catalogue.def"
#undef PROTEAN_FORMAT
#undef PROTEAN_PRESET
  for (const FormatEntry* entry : table)
    if (entry->id == formats::entries::csr.id) entries.keep_transposes_in(*entry);
  entries.name_float_formats();
  return table;
}

}  // namespace

std::span<const FormatEntry* const> catalogue() noexcept {
  static const std::vector<const FormatEntry*> table = make_table();
  return table;
}

std::span<const FormatEntry* const> layouts() noexcept {
  static const std::vector<const FormatEntry*> table = [] {
    std::vector<const FormatEntry*> own(catalogue().begin(), catalogue().end());
    std::erase_if(own, [](const FormatEntry* entry) { return entry->preset != nullptr; });
    return own;
  }();
  return table;
}

const FormatEntry& find_format(std::string_view id) {
  std::vector<std::string_view> ids;
  for (const FormatEntry* entry : catalogue()) {
    if (entry->id == id) return *entry;
    ids.push_back(entry->id);
  }
  throw BadArgument(fmt::format("there is no format '{}'.{} `protean formats` lists them.", id,
                                detail::did_you_mean(id, ids)));
}

bool detail::same_computation(const FormatEntry& one, const FormatEntry& other, const Kernel& kernel) {
  const auto layout_of = [](const FormatEntry& entry) { return entry.preset ? entry.base : entry.id; };
  const auto is_in = [](std::span<const ParamDoc> docs, std::string_view name) {
    return std::any_of(docs.begin(), docs.end(), [&](const ParamDoc& doc) { return doc.name == name; });
  };
  const auto chooses = [&](const FormatEntry& entry) {
    return entry.preset &&
           std::any_of(entry.preset->chosen.begin(), entry.preset->chosen.end(), [&](std::string_view name) {
             return is_in(entry.base_params, name) || is_in(kernel.params, name);
           });
  };
  return layout_of(one) == layout_of(other) && !chooses(one) && !chooses(other) &&
         resolve_params(one, {}, &kernel) == resolve_params(other, {}, &kernel);
}

}  // namespace protean
