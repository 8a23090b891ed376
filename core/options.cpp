#include "core/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "core/option_checks.hpp"

namespace protean {
namespace {

bool contains(std::span<const std::string_view> words, std::string_view word) noexcept {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// "a", "a and b", "a, b and c"
std::string list(std::span<const std::string_view> words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " and " : ", ";
    text += words[i];
  }
  return text;
}

bool is_allowed(const OptionInfo& option, const OptionValue& value) {
  if (option.kind == OptionKind::word) {
    const auto* const word = std::get_if<std::string_view>(&value);
    return word && (option.words.empty() || contains(option.words, *word));
  }
  const auto* const real = std::get_if<double>(&value);
  const double number = real ? *real : static_cast<double>(std::get<std::int64_t>(value));
  return option.range.has(number) || (number == 0 && !option.zero.empty());
}

}  // namespace

std::string NumberRange::text() const {
  constexpr double everything = 1e300;
  constexpr double smallest_positive = std::numeric_limits<double>::min();
  const bool no_end = largest >= everything;
  if (smallest <= -everything && no_end) return "";
  if (smallest == smallest_positive || open_below) {
    const double limit = open_below ? smallest : 0;
    if (no_end) return fmt::format(" above {}", limit);
    return fmt::format(" above {}{}{}", limit, open_above ? " and below " : ", up to ", largest);
  }
  if (no_end) return fmt::format(" of at least {}", smallest);
  if (open_above) return fmt::format(" of at least {} and below {}", smallest, largest);
  return fmt::format(" from {} to {}", smallest, largest);
}

bool Readers::has(std::string_view reader) const noexcept {
  return (only.empty() || contains(only, reader)) && !contains(but, reader);
}

std::string allowed_text(const OptionInfo& option) {
  if (!option.allowed.empty()) return std::string(option.allowed);
  if (option.kind == OptionKind::word) return fmt::format("one of: {}", fmt::join(option.words, ", "));
  const bool has_infinity = std::isinf(option.range.largest);
  return fmt::format("{}{}{}{}", option.zero.empty() ? "" : option.zero, option.zero.empty() ? "" : ", or ",
                     option.kind == OptionKind::whole                ? "a whole number"
                     : has_infinity || option.range.largest < finite ? "a number"
                                                                     : "a finite number",
                     option.range.text());
}

std::string value_text(const OptionInfo& option, const OptionValue& value) {
  if (const auto* const word = std::get_if<std::string_view>(&value)) return fmt::format("'{}'", *word);
  if (const auto* const number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  const std::int64_t whole = std::get<std::int64_t>(value);
  if (whole == 0 && !option.zero.empty()) return fmt::format("0 ({})", option.zero);
  return fmt::format("{}", whole);
}

void require_allowed(const OptionInfo& option, const OptionValue& value, std::string_view called) {
  if (is_allowed(option, value)) return;
  const auto* const word = std::get_if<std::string_view>(&value);
  throw BadArgument(fmt::format("{} is {}; it must be {}{}.{}", called.empty() ? option.name : called,
                                value_text(option, value), option.zero.empty() ? "" : "0 for ",
                                allowed_text(option), word ? detail::did_you_mean(*word, option.words) : ""));
}

OptionValue number_value(const OptionInfo& option, double number, std::string_view called) {
  if (option.kind == OptionKind::number) return number;
  constexpr double exact = 9007199254740991.0;  // 2^53 - 1: each whole number up to it is a distinct double
  if (!(std::fabs(number) <= exact) || number != std::floor(number))
    throw BadArgument(fmt::format("{} is {}; it must be {}", called.empty() ? option.name : called, number,
                                  allowed_text(option)));
  return static_cast<std::int64_t>(number);
}

bool asks_nothing(const OptionValue& value) noexcept {
  const auto* const word = std::get_if<std::string_view>(&value);
  return word && (*word == "auto" || *word == "none");
}

std::string unread_text(const OptionInfo& option, std::string_view called, std::string_view of,
                        std::string_view reader, std::string_view instead) {
  const bool but = option.readers.only.empty();
  const auto named = but ? option.readers.but : option.readers.only;
  return fmt::format("{} is for {}{}{} {}; the {} is {}: {}, or take {}", called, but ? "each " : "", of,
                     but ? " except" : (named.size() == 1 ? "" : "s"), list(named), of, reader, instead,
                     but                 ? "another one"
                     : named.size() == 1 ? "that one"
                                         : "one of those");
}

std::string unused_text(const OptionInfo& option, std::string_view called, const OptionValue& now,
                        std::string_view instead) {
  const auto* const word = std::get_if<std::string_view>(&now);
  return fmt::format("{} is for {}: {}; {} is {}: {}", called, option.with, option.with_word, option.with,
                     word ? *word : "another one", instead);
}

void refuse_unread(const std::string& message) { throw BadArgument(message); }

std::string readers_text(const Readers& readers) {
  if (!readers.only.empty()) return fmt::format("{}", fmt::join(readers.only, ", "));
  if (!readers.but.empty()) return fmt::format("all except {}", list(readers.but));
  return {};
}

}  // namespace protean
