#include "preconditioners/fields/inner.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/error.hpp"
#include "core/option_checks.hpp"
#include "core/statistics.hpp"
#include "preconditioners/choice/choice.hpp"
#include "preconditioners/fields/field_list.hpp"
#include "preconditioners/options.hpp"

namespace protean::detail {
namespace {

constexpr std::string_view inner_syntax =
    "write the name of a field, the type of its preconditioner, and options as key=value, such as 'u amg cycles=2, p "
    "jacobi' or 'u amg method=cg tolerance=0.01 iterations=20'";

double number_in(std::string_view key, std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    throw BadArgument(fmt::format("inner: {} is '{}'; it must be a number", key, text));
  return number;
}

void set_option(InnerSpec& spec, std::string_view key, std::string_view text) {
  const auto table = preconditioner_options();
  const auto* const option = find_option(table, key);
  if (!option || option->readers.has("fields")) {
    std::vector<std::string_view> names = {"method", "tolerance", "iterations"};
    for (const auto& one : table)
      if (!one.readers.has("fields") && one.readers.has(spec.id)) names.push_back(one.name);
    throw BadArgument(fmt::format("inner: there is no option '{}' of {} in a field; there are {}.{}", key,
                                  spec.id, fmt::join(names, ", "), did_you_mean(key, names)));
  }
  const bool word = option->kind == OptionKind::word;
  const OptionValue value = word || (!option->zero.empty() && text == option->zero)
                                ? word ? OptionValue(text) : number_value(*option, 0)
                                : number_value(*option, number_in(key, text));
  const std::string called = fmt::format("inner: {} of field {}", key, spec.field);
  require_allowed(*option, value, called);
  option->set(spec.options, value);
}

InnerSpec spec_of(std::string_view text) {
  const std::vector<std::string_view> words = words_of(text);
  if (words.size() < 2)
    throw BadArgument(fmt::format("inner: '{}' has no type of preconditioner; {}", text, inner_syntax));
  InnerSpec spec{.field = std::string(words[0]), .id = std::string(words[1])};
  std::vector<std::string_view> ids;
  for (const PreconditionerEntry& entry : preconditioners())
    if (entry.id != "fields") ids.push_back(entry.id);
  if (std::find(ids.begin(), ids.end(), spec.id) == ids.end())
    throw BadArgument(fmt::format("inner: there is no preconditioner '{}' of a field; there are {}.{}",
                                  spec.id, fmt::join(ids, ", "), did_you_mean(spec.id, ids)));
  bool limits = false;
  for (std::size_t k = 2; k < words.size(); ++k) {
    const std::size_t equal = words[k].find('=');
    if (equal == std::string_view::npos || equal == 0 || equal + 1 == words[k].size())
      throw BadArgument(
          fmt::format("inner: '{}' of field {} is not an option; {}", words[k], spec.field, inner_syntax));
    const std::string_view key = words[k].substr(0, equal), value = words[k].substr(equal + 1);
    if (key == "method") {
      spec.solver.method = value;
    } else if (key == "tolerance") {
      limits = true, spec.solver.tolerance = number_in(key, value);
      if (!(spec.solver.tolerance > 0 && spec.solver.tolerance < 1))
        throw BadArgument(
            fmt::format("inner: tolerance of field {} is {}; it must be a number above 0 and below 1",
                        spec.field, value));
    } else if (key == "iterations") {
      limits = true;
      const double number = number_in(key, value);
      if (!(number >= 1 && number <= 1e9) || number != std::floor(number))
        throw BadArgument(
            fmt::format("inner: iterations of field {} is {}; it must be a whole number from 1 to 1000000000",
                        spec.field, value));
      spec.solver.iterations = static_cast<std::int64_t>(number);
    } else {
      set_option(spec, key, value);
    }
  }
  if (limits && spec.solver.method.empty())
    throw BadArgument(fmt::format(
        "inner: tolerance and iterations of field {} are for a method, and it has none; give one, such as method=cg",
        spec.field));
  if (spec.id == "auto" && !(spec.options == PreconditionerOptions()))
    throw BadArgument(fmt::format(
        "inner: field {} has options, and its type is auto; name the type that reads them", spec.field));
  require_read(preconditioner_options(), spec.options, "preconditioner", spec.id);
  if (!spec.solver.method.empty()) {
    const auto entry = std::find_if(preconditioners().begin(), preconditioners().end(),
                                    [&](const PreconditionerEntry& one) { return one.id == spec.id; });
    check_inner_method(spec.solver, entry->symmetric);
  }
  return spec;
}

}  // namespace

std::vector<InnerSpec> inner_specs(std::string_view text) {
  std::vector<InnerSpec> specs;
  if (text == "auto") return specs;
  for (const std::string_view part : parts_of("inner", text)) {
    specs.push_back(spec_of(part));
    for (std::size_t k = 0; k + 1 < specs.size(); ++k)
      if (specs[k].field == specs.back().field)
        throw BadArgument(
            fmt::format("inner: field {} has two parts; leave one of them out", specs[k].field));
  }
  return specs;
}

InnerSpec inner_of(const std::vector<InnerSpec>& specs, const std::string& field) {
  for (const InnerSpec& one : specs)
    if (one.field == field) return one;
  return {.field = field, .id = "auto"};
}

void require_fields(const std::vector<InnerSpec>& specs, const std::vector<std::string>& fields) {
  for (const InnerSpec& one : specs)
    if (std::find(fields.begin(), fields.end(), one.field) == fields.end())
      throw BadArgument(fmt::format("inner: there is no field '{}'; there {} {}", one.field,
                                    fields.size() == 1 ? "is" : "are", fmt::join(fields, ", ")));
}

template <class T>
std::string default_inner(const Context& host, const CsrMatrix<T>& block, std::string_view field,
                          bool nodes) {
  const ChoiceTraits traits = choice_traits(host, block);
  if (traits.diffusion) return "amg";
  if (!traits.symmetric) return "ilu0";
  std::vector<T> d(static_cast<std::size_t>(block.rows()));
  extract_diagonal<T>(host, block, d.data());
  const auto bad = std::find_if(d.begin(), d.end(), [](T one) { return !(one > T(0)); });
  if (bad != d.end())
    throw BadMatrix(fmt::format(
        "fields: the matrix of field {} is symmetric, and its diagonal entry {} (counted from 0 within the field) is "
        "{}, so that no type is taken by itself; name one in option inner, such as '{} ilu0', or other fields",
        field, bad - d.begin(), *bad, field));
  if (nodes && traits.unknowns == 2) return "amg unknowns=2 smoother=chebyshev";
  if (nodes && traits.unknowns == 3) return "amg unknowns=3 smoother=chebyshev strength=0.06";
  return "ic0";
}
template std::string default_inner<float>(const Context&, const CsrMatrix<float>&, std::string_view, bool);
template std::string default_inner<double>(const Context&, const CsrMatrix<double>&, std::string_view, bool);

}  // namespace protean::detail
