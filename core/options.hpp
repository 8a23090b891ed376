// Options as data. A table has an entry for each member of a struct of options: its name, what it may be, who reads it,
// what it means. Checks, the problem file, the command, reports, help and the C interface follow the table.
//
//   struct CookOptions { double heat = 1; std::int64_t eggs = 2; Way way = Way::boiled; };
//   constexpr std::string_view ways[] = {"boiled", "fried"};  // in the order of the enumerators
//   constexpr Option<CookOptions> table[] = {
//       option<&CookOptions::heat>({.name = "heat", .range = {0, 3, true}, .about = "Heat of the fire"}),
//       option<&CookOptions::way>({.name = "way", .words = ways, .about = "How they are cooked"})};
//   check_options<CookOptions>(table, options);
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include <protean/core/export.hpp>

namespace PROTEAN_EXPORT protean {

// The numbers from `smallest` to `largest`, without an end that is open.
struct NumberRange {
  double smallest = 0, largest = 0;
  bool open_below = false, open_above = false;

  bool has(double value) const noexcept {
    return (open_below ? value > smallest : value >= smallest) &&
           (open_above ? value < largest : value <= largest);
  }
  // " from 0 to 1", " above 0 and below 2"; empty if every number is in it.
  std::string text() const;
};
inline constexpr double no_limit = std::numeric_limits<double>::infinity();
inline constexpr double finite = std::numeric_limits<double>::max();

// What an option may be: a number, a whole number, one of some words, or a text of a syntax of its own.
enum class OptionKind : unsigned char { number, whole, word, text };
// Words are constants or members of the options; so are texts.
using OptionValue = std::variant<double, std::int64_t, std::string_view>;

// The methods, or the types of preconditioners, that read an option: these only, or all except these, or all.
struct Readers {
  std::span<const std::string_view> only = {}, but = {};

  bool has(std::string_view reader) const noexcept;
  bool all() const noexcept { return only.empty() && but.empty(); }
};

struct OptionInfo {
  std::string_view name = {};  // of the member, and of the key of the problem file
  // Its name in the C interface, which has the options of all structs in one list; empty: `name`.
  std::string_view c_name = {};
  NumberRange range = {};  // of a number
  // Of a word; for an enumeration in the order of its enumerators. Empty: any text, which is checked elsewhere.
  std::span<const std::string_view> words = {};
  std::string_view allowed = {};  // what is allowed, if its words are too many to list, or are not known here
  std::string_view zero = {};     // the word for the number 0, which need not be in the range; empty: none
  Readers readers = {};
  // It is read only if this option of the same struct is this word; empty: always.
  std::string_view with = {}, with_word = {};
  bool on_device = false;                // it has no effect on a host
  std::string_view example = {};         // of a text
  std::string_view about;                // one line without a full stop; help names the readers after it
  OptionKind kind = OptionKind::number;  // option() sets it

  std::string_view called_in_c() const noexcept { return c_name.empty() ? name : c_name; }
};

// "a whole number from 1 to 100", "one of: cgs2, mgs", "auto, or a whole number from 1 to 64"
std::string allowed_text(const OptionInfo& option);
// Throws BadArgument unless the option may have this value. The message calls the option `called`, or by its name.
void require_allowed(const OptionInfo& option, const OptionValue& value, std::string_view called = {});

namespace PROTEAN_HIDDEN options_detail {

template <class Pointer>
struct OwnerOf;
template <class Options, class Member>
struct OwnerOf<Member Options::*> {
  using type = Options;
};

template <auto... Path, class Options>
auto& member_of(Options& options) {
  return (options.*....*Path);
}

template <class Member>
inline constexpr bool is_text = std::is_convertible_v<const Member&, std::string_view>;

// An enumerator is its word, or its number if it has no word.
template <class Member>
OptionValue value_of(const Member& member, std::span<const std::string_view> words) {
  if constexpr (std::is_same_v<Member, double>) {
    return member;
  } else if constexpr (is_text<Member>) {
    return static_cast<std::string_view>(member);
  } else {
    const auto number = static_cast<std::int64_t>(member);
    if (std::is_enum_v<Member> && number >= 0 && number < static_cast<std::int64_t>(words.size()))
      return words[static_cast<std::size_t>(number)];
    return number;
  }
}

template <class Member>
void put_value(Member& member, const OptionValue& value, std::span<const std::string_view> words) {
  if constexpr (std::is_same_v<Member, double>) {
    member = std::get<double>(value);
  } else if constexpr (is_text<Member>) {
    member = std::get<std::string_view>(value);
  } else if constexpr (std::is_enum_v<Member>) {
    for (std::size_t i = 0; i < words.size(); ++i)
      if (words[i] == std::get<std::string_view>(value)) member = static_cast<Member>(i);
  } else {
    member = static_cast<Member>(std::get<std::int64_t>(value));
  }
}

}  // namespace options_detail

// An option of a struct, with access to its member.
template <class Options>
struct Option : OptionInfo {
  OptionValue (*get)(const Options&, std::span<const std::string_view> words) = nullptr;
  void (*put)(Options&, const OptionValue&, std::span<const std::string_view> words) = nullptr;

  OptionValue value(const Options& options) const { return get(options, words); }
  // The value must be allowed (require_allowed()).
  void set(Options& options, const OptionValue& value) const { put(options, value, words); }
  OptionValue default_value() const {
    static const Options defaults{};
    return value(defaults);
  }
  bool is_default(const Options& options) const { return value(options) == default_value(); }
};

// The entry of a member, or of a member of a member: option<&SolverOptions::stopping, &StoppingRule::baseline>({...}).
// A member is a double, an integer, an enumeration with enumerators 0, 1, 2 ..., or a std::string or another type that
// is given as a std::string_view, which is a word.
template <auto First, auto... Rest>
constexpr auto option(OptionInfo info) {
  using Options = typename options_detail::OwnerOf<decltype(First)>::type;
  using Member =
      std::remove_cvref_t<decltype(options_detail::member_of<First, Rest...>(std::declval<Options&>()))>;
  info.kind = std::is_same_v<Member, double>                              ? OptionKind::number
              : options_detail::is_text<Member> || std::is_enum_v<Member> ? OptionKind::word
                                                                          : OptionKind::whole;
  Option<Options> made{info};
  made.get = [](const Options& options, std::span<const std::string_view> words) {
    return options_detail::value_of(options_detail::member_of<First, Rest...>(options), words);
  };
  made.put = [](Options& options, const OptionValue& value, std::span<const std::string_view> words) {
    options_detail::put_value(options_detail::member_of<First, Rest...>(options), value, words);
  };
  return made;
}

// Null if the table has no such option.
template <class Options>
const Option<Options>* find_option(std::span<const Option<Options>> table, std::string_view name) noexcept {
  for (const Option<Options>& one : table)
    if (one.name == name) return &one;
  return nullptr;
}

// Throws BadArgument for the first option that is out of its range.
template <class Options>
void check_options(std::span<const Option<Options>> table, const Options& options) {
  for (const Option<Options>& one : table) require_allowed(one, one.value(options));
}

}  // namespace protean
