// Sums of matrices in other formats: the text of their parts, admission, and the matrix. composed.hpp describes them.
#include "formats/engines/composed/composed.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "core/blas1.hpp"
#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "core/vector.hpp"
#include "core/words.hpp"
#include "formats/catalogue.hpp"
#include "operators/kernel_admission.hpp"
#include "operators/values_word.hpp"

namespace protean {
namespace {

constexpr std::int64_t most_diagonals = std::numeric_limits<std::int32_t>::max();
constexpr ParamDoc min_share{
    .name = "min_share",
    .doc = "the part takes no entries if it would have less than this percentage of all entries",
    .default_value = "0",
    .smallest = 0,
    .largest = 100};
constexpr ParamDoc of_diagonals[] = {
    {.name = "min_fill",
     .doc =
         "take diagonals of which more than this percentage is filled; 0: v / (v + 4) for values of v bytes",
     .default_value = "0",
     .smallest = 0,
     .largest = 99},
    {.name = "min_band",
     .doc = "take only groups of at least this many neighbouring diagonals that are filled enough",
     .default_value = "1",
     .smallest = 1,
     .largest = 1024},
    min_share};
constexpr ParamDoc of_band[] = {{.name = "lower",
                                 .doc = "diagonals below the main one",
                                 .default_value = "0",
                                 .smallest = 0,
                                 .largest = most_diagonals},
                                {.name = "upper",
                                 .doc = "diagonals above the main one",
                                 .default_value = "0",
                                 .smallest = 0,
                                 .largest = most_diagonals},
                                min_share};
constexpr ParamDoc of_rows[] = {{.name = "longer_than",
                                 .doc = "take rows with more than this many entries left",
                                 .default_value = "0",
                                 .smallest = 0,
                                 .largest = most_diagonals},
                                {.name = "at_most",
                                 .doc = "take rows with at most this many entries left",
                                 .default_value = "2147483647",
                                 .smallest = 1,
                                 .largest = most_diagonals},
                                min_share};
constexpr ParamDoc of_width[] = {
    {.name = "entries",
     .doc = "take this many of the first entries left of each row",
     .default_value = "8",
     .smallest = 1,
     .largest = most_diagonals},
    {.name = "min_fill",
     .doc =
         "instead of entries: as many as fill more than this percentage of the slots of a slice; 0: entries",
     .default_value = "0",
     .smallest = 0,
     .largest = 99},
    {.name = "slice",
     .doc = "rows of a slice, for min_fill",
     .default_value = "32",
     .smallest = 1,
     .largest = 1 << 20},
    min_share};
constexpr ParamDoc of_blocks[] = {
    {.name = "rows", .doc = "height of a block", .default_value = "2", .smallest = 1, .largest = 64},
    {.name = "cols", .doc = "width of a block", .default_value = "2", .smallest = 1, .largest = 64},
    {.name = "min_fill",
     .doc = "the least filled share of a block, in percent",
     .default_value = "75",
     .smallest = 1,
     .largest = 100},
    min_share};
constexpr CutRuleDoc rules[] = {{"diagonals", "whole diagonals that are well filled", of_diagonals},
                                {"band", "the diagonals around the main one", of_band},
                                {"rows", "rows by the number of their entries", of_rows},
                                {"width", "the first entries of every row", of_width},
                                {"blocks", "small aligned blocks that are well filled", of_blocks},
                                {"rest", "what the parts before have left; of the last part only", {}}};

const CutRuleDoc& find_rule(std::string_view name) {
  std::vector<std::string_view> names;
  for (const CutRuleDoc& rule : rules) {
    if (rule.name == name) return rule;
    names.push_back(rule.name);
  }
  throw BadArgument(fmt::format("there is no rule '{}'; take is one of: {}.{}", name, fmt::join(names, ", "),
                                detail::did_you_mean(name, names)));
}

// The number of a rule, or its default.
std::int64_t number_of(const CutRuleDoc& rule, const FormatParams& given, std::string_view name) {
  const auto doc = std::find_if(rule.params.begin(), rule.params.end(),
                                [&](const ParamDoc& one) { return one.name == name; });
  if (doc == rule.params.end()) return 0;
  const std::string text = given.has(name) ? given.word(name) : std::string(doc->default_value);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw BadArgument(fmt::format("{} of rule {} is '{}'; it must be an integer", name, rule.name, text));
  if (value < doc->smallest || value > doc->largest)
    throw BadArgument(fmt::format("{} of rule {} is {}; it must be from {} to {}", name, rule.name, value,
                                  doc->smallest, doc->largest));
  return value;
}

void check_rule(const PartOfSum& part) {
  const CutRuleDoc& rule = find_rule(part.take);
  std::vector<std::string_view> names;
  for (const ParamDoc& doc : rule.params) names.push_back(doc.name);
  for (const auto& [name, value] : part.take_parameters.all())
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw BadArgument(
          fmt::format("rule {} has no number '{}'; it has {}.{}", rule.name, name,
                      names.empty() ? std::string("none") : fmt::format("{}", fmt::join(names, ", ")),
                      detail::did_you_mean(name, names)));
  for (const std::string_view name : names) (void)number_of(rule, part.take_parameters, name);
  if (part.take == "rows" && !part.take_parameters.has("longer_than") && !part.take_parameters.has("at_most"))
    throw BadArgument("rule rows takes every row; give it longer_than, at_most or both");
}

bool is_composed(const FormatEntry& entry) { return entry.family == "composed"; }

// A reader of the text of parts.
class PartsText {
 public:
  explicit PartsText(std::string_view text) : text_(text) {}

  std::vector<PartOfSum> read() {
    std::vector<PartOfSum> parts;
    do {
      PartOfSum part;
      part.format = word("the id of a format");
      if (next('[')) part.parameters = numbers(']');
      if (next('@')) part.kernel = word("the name of a kernel");
      if (next(':')) {
        part.take = word("the name of a rule");
        if (next('(')) part.take_parameters = numbers(')');
      }
      parts.push_back(std::move(part));
    } while (next('+'));
    skip();
    if (at_ < text_.size()) fail("'+' and another part, or nothing");
    return parts;
  }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool next(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string word(std::string_view what) {
    skip();
    const std::size_t begin = at_;
    const auto is_word = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
             c == '_';
    };
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    constexpr std::size_t longest = 100;  // so that no message quotes more
    if (at_ == begin || at_ - begin > longest) fail(what);
    return std::string(text_.substr(begin, at_ - begin));
  }
  FormatParams numbers(char end) {
    FormatParams params;
    do {
      std::string name = word("the name of a parameter");
      if (!next('=')) fail("'='");
      if (params.has(name)) throw BadArgument(fmt::format("parts '{:.100}': {} is given twice", text_, name));
      params.set(std::move(name), word("the value of a parameter"));
    } while (next(','));
    if (!next(end)) fail(fmt::format("',' or '{}'", end));
    return params;
  }
  [[noreturn]] void fail(std::string_view expected) const {
    throw BadArgument(
        fmt::format("parts '{:.100}': character {} must be {}. A sum is written as "
                    "FORMAT[PARAMETER=VALUE,...]@KERNEL:RULE(NUMBER=VALUE,...) + ... + FORMAT",
                    text_, at_ + 1, expected));
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

std::string text_of(const FormatParams& params, char begin, char end) {
  if (params.all().empty()) return {};
  std::vector<std::string> items;
  for (const auto& [name, value] : params.all()) items.push_back(fmt::format("{}={}", name, value));
  return fmt::format("{}{}{}", begin, fmt::join(items, ","), end);
}

}  // namespace

std::span<const CutRuleDoc> cut_rules() noexcept { return rules; }

void check_part(const PartOfSum& part) {
  const FormatEntry& entry = find_format(part.format);
  if (is_composed(entry))
    throw BadArgument(fmt::format("a part cannot be a {} itself; list its parts in its place", entry.id));
  check_rule(part);
  if (part.kernel.empty()) {
    (void)resolve_params(entry, part.parameters);
    return;
  }
  // The kernel belongs to a space that is not known here.
  std::vector<std::string_view> names;
  for (const Space space : {Space::host, Space::device})
    for (const Kernel& kernel : kernels_in(entry, space)) {
      if (kernel.name == part.kernel) {
        (void)resolve_params(entry, part.parameters, &kernel);
        return;
      }
      if (std::find(names.begin(), names.end(), kernel.name) == names.end()) names.push_back(kernel.name);
    }
  throw BadArgument(fmt::format("format {} has no kernel '{}'; it has {}.{}", entry.id, part.kernel,
                                fmt::join(names, ", "), detail::did_you_mean(part.kernel, names)));
}

void check_parts(std::span<const PartOfSum> parts) {
  if (parts.empty()) throw BadArgument("a sum needs at least one part");
  if (parts.size() > most_parts)
    throw BadArgument(fmt::format("a sum of {} parts; at most {} are allowed", parts.size(), most_parts));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    check_part(parts[i]);
    const bool last = i + 1 == parts.size();
    if (last && parts[i].take != "rest")
      throw BadArgument(
          fmt::format("the last part, {}, takes {}; it must take the rest, so that no entry is left",
                      parts[i].format, parts[i].take));
    if (!last && parts[i].take == "rest")
      throw BadArgument(
          fmt::format("part {}, {}, takes the rest, so the parts after it would be empty; give it "
                      "another rule",
                      i + 1, parts[i].format));
  }
}

std::string text_of(std::span<const PartOfSum> parts) {
  check_parts(parts);
  std::vector<std::string> items;
  for (const PartOfSum& part : parts)
    items.push_back(part.format + text_of(part.parameters, '[', ']') +
                    (part.kernel.empty() ? "" : "@" + part.kernel) +
                    (part.take == "rest" ? "" : ":" + part.take + text_of(part.take_parameters, '(', ')')));
  return fmt::format("{}", fmt::join(items, " + "));
}

std::vector<PartOfSum> parts_of(std::string_view text) {
  std::vector<PartOfSum> parts = PartsText(text).read();
  check_parts(parts);
  return parts;
}

std::string text_of(std::span<const PartShare> shares) {
  std::int64_t all = 0;
  for (const PartShare& share : shares) all += share.entries;
  std::vector<std::string> items;
  for (const PartShare& share : shares)
    items.push_back(fmt::format(
        "{}{}({:.0f}%)", share.format, share.where.empty() ? "" : fmt::format(" on the {}", share.where),
        all > 0 ? 100 * static_cast<double>(share.entries) / static_cast<double>(all) : 100.0));
  return fmt::format("{}", fmt::join(items, " "));
}

template <class T>
std::unique_ptr<AssembledMatrix<T>> make_sum(std::span<const PartOfSum> parts, const CsrMatrix<T>& csr,
                                             const ContextPtr& context) {
  return make_matrix(find_format("sum"), csr, context, {{"parts", text_of(parts)}});
}
template std::unique_ptr<AssembledMatrix<float>> make_sum(std::span<const PartOfSum>, const CsrMatrix<float>&,
                                                          const ContextPtr&);
template std::unique_ptr<AssembledMatrix<double>> make_sum(std::span<const PartOfSum>,
                                                           const CsrMatrix<double>&, const ContextPtr&);

namespace formats {

CutRule rule_of(const PartOfSum& part) {
  const CutRuleDoc& doc = find_rule(part.take);
  const auto number = [&](std::string_view name) { return number_of(doc, part.take_parameters, name); };
  CutRule rule;
  rule.by = static_cast<CutBy>(&doc - rules);
  rule.min_fill = number("min_fill"), rule.min_share = number("min_share");
  rule.lower = number("lower"), rule.upper = number("upper");
  rule.longer_than = number("longer_than"), rule.at_most = number("at_most");
  rule.entries = number("entries"), rule.slice = number("slice");
  if (rule.by == CutBy::diagonals) rule.min_band = number("min_band");
  if (rule.by == CutBy::blocks) rule.block_rows = number("rows"), rule.block_cols = number("cols");
  return rule;
}
static_assert(static_cast<int>(CutBy::rest) + 1 == std::size(rules));

ComposedPlan plan_of_parts(std::vector<PartOfSum> parts, const Context& context,
                           const SparsityPattern& pattern, std::size_t value_bytes, const CutTools& tools) {
  std::vector<CutRule> of_parts;
  for (const PartOfSum& part : parts) of_parts.push_back(rule_of(part));
  auto cut = tools.cut(context, pattern, of_parts, value_bytes);
  return {std::move(parts), std::move(cut)};
}

namespace {

// The parts that are stored: the parts with entries, or the last part of a matrix without entries.
bool is_stored(const ComposedPlan& plan, std::size_t i) {
  const bool nothing =
      std::all_of(plan.cut->entries.begin(), plan.cut->entries.end(), [](auto n) { return n == 0; });
  return plan.cut->entries[i] > 0 || (nothing && i + 1 == plan.parts.size());
}
std::string name_of(const ComposedPlan& plan, std::size_t i) {
  return fmt::format("part {}, {}", i + 1, plan.parts[i].format);
}

template <class T>
class SumOfFormats final : public AssembledMatrix<T>, public HasParts {
 public:
  SumOfFormats(const CutTools& tools, const BuildRequest<T>& request)
      : AssembledMatrix<T>(request), tools_(tools) {
    const auto& plan = plan_of<ComposedPlan>(request.admission);
    for (std::size_t i = 0; i < plan.parts.size(); ++i) {
      const PartOfSum& part = plan.parts[i];
      const FormatEntry& entry = find_format(part.format);
      rules_.push_back(rule_of(part));
      shares_.push_back({entry.id, plan.cut->entries[i], 0});
      parts_.emplace_back();
      if (!is_stored(plan, i)) continue;
      try {
        parts_.back() = make_matrix(
            entry, plan.cut->part_of(request.context, request.csr, static_cast<int>(i)), request.context,
            detail::as_admitted_in<T>(entry, part.kernel, request.context->space(), part.parameters),
            part.kernel);
      } catch (const FormatRefused& refused) {
        throw FormatRefused(request.entry.id, name_of(plan, i) + ": " + refused.reason(), refused.bytes());
      }
      shares_.back().bytes = parts_.back()->bytes();
    }
  }

  CsrMatrix<T> to_csr() const override {
    const detail::DeviceScope scope(*this->context());
    std::vector<CsrMatrix<T>> csr;
    for (const auto& part : parts_)
      if (part) csr.push_back(part->to_csr());
    return tools_.join(this->context(), csr);
  }
  std::size_t bytes() const noexcept override {
    std::size_t sum = 0;
    for (const PartShare& share : shares_) sum += share.bytes;
    return sum;
  }
  void diagonal(VectorView<T> d) const override {
    bool first = true;
    Vector<T> more;
    for (const auto& part : parts_) {
      if (!part) continue;
      if (first) {
        part->diagonal(d);
        first = false;
        continue;
      }
      if (more.size() == 0) more = Vector<T>(this->context(), d.size);
      part->diagonal(more.view());
      axpy<T>(*this->context(), T(1), more.view(), d);
    }
  }
  Recording recording() const noexcept override {
    Recording own = AssembledMatrix<T>::recording();
    // Versions of parts only grow, so their sum changes when one of them does.
    for (const auto& part : parts_)
      if (part) {
        const Recording its = part->recording();
        own.allowed = own.allowed && its.allowed, own.version += its.version;
        own.heeds_stop = own.heeds_stop && its.heeds_stop;
      }
    return own;
  }
  std::vector<PartShare> part_shares() const override { return shares_; }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    const auto cut = tools_.cut(*this->context(), csr.pattern, rules_, sizeof(T));
    std::vector<CsrMatrix<T>> values(parts_.size());
    for (std::size_t i = 0; i < parts_.size(); ++i)
      if (parts_[i]) values[i] = cut->part_of(this->context(), csr, static_cast<int>(i));
    // Parts of symmetric matrices may refuse new values. They go first, and what has changed is changed back.
    std::vector<std::pair<AssembledMatrix<T>*, CsrMatrix<T>>> changed;
    const auto update = [&](bool may_refuse) {
      for (std::size_t i = 0; i < parts_.size(); ++i) {
        if (!parts_[i] || parts_[i]->entry().traits.symmetric_only != may_refuse) continue;
        if (may_refuse) changed.emplace_back(parts_[i].get(), parts_[i]->to_csr());
        parts_[i]->update_values(values[i], SamePattern());
      }
    };
    try {
      update(true);
    } catch (const FormatRefused& refused) {
      changed.pop_back();
      for (const auto& [part, before] : changed) part->update_values(before, SamePattern());
      throw FormatRefused(this->entry().id,
                          fmt::format("its part in {}: {}", refused.format(), refused.reason()));
    }
    update(false);
  }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    for (const auto& part : parts_)
      if (part) part->apply(alpha, x, std::exchange(beta, T(1)), y);
  }

 private:
  const CutTools& tools_;
  std::vector<CutRule> rules_;
  std::vector<PartShare> shares_;
  std::vector<std::unique_ptr<AssembledMatrix<T>>> parts_;  // null for a part without entries
};

}  // namespace

Admission admit_composed_with(const CutTools& tools, ComposedPlanner planner, const Context& context,
                              const SparsityPattern& pattern, const FormatParams& params,
                              std::size_t value_bytes) {
  auto plan = std::make_shared<ComposedPlan>(planner(context, pattern, params, value_bytes, tools));
  Admission sum = Admission::accept(0, 0);
  for (std::size_t i = 0; i < plan->parts.size() && sum.ok; ++i) {
    if (!is_stored(*plan, i)) continue;
    const PartOfSum& part = plan->parts[i];
    plan->cut->with_pattern(context, pattern, static_cast<int>(i), [&](const SparsityPattern& its) {
      const Admission admission = detail::admit_kernel(find_format(part.format), context, its,
                                                       part.parameters, value_bytes, part.kernel);
      if (admission.ok)
        sum.bytes += admission.bytes, sum.stored_values += admission.stored_values;
      else
        sum = Admission::refuse(name_of(*plan, i) + ": " + admission.reason, admission.bytes,
                                admission.stored_values);
    });
  }
  if (sum.ok) keep_plan(sum, std::move(plan));
  return sum;
}

template <class T>
std::unique_ptr<AssembledMatrix<T>> make_composed_with(const CutTools& tools,
                                                       const BuildRequest<T>& request) {
  return std::make_unique<SumOfFormats<T>>(tools, request);
}
template std::unique_ptr<AssembledMatrix<double>> make_composed_with<double>(const CutTools&,
                                                                             const BuildRequest<double>&);
template std::unique_ptr<AssembledMatrix<float>> make_composed_with<float>(const CutTools&,
                                                                           const BuildRequest<float>&);

}  // namespace formats
}  // namespace protean
