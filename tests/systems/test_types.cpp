// Methods and preconditioners as types with their options (systems/types.hpp), by the tables of options.
#include <gtest/gtest.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "preconditioners/options.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/options.hpp"
#include "support/space.hpp"
#include "support/text.hpp"
#include "systems/linear_system.hpp"
#include "systems/options.hpp"

namespace protean {
namespace {

// What a type accepts.
template <class Type>
concept HasUnknowns = requires {
  Type{.unknowns = 3};
};
template <class Type>
concept HasRestart = requires {
  Type{.restart = 50};
};
template <class Type>
concept IsPreconditioner = requires(SolveSettings settings, Type type) {
  settings.preconditioner = type;
};
template <class Type>
concept IsMethod = requires(SolveSettings settings, Type type) {
  settings.method = type;
};

static_assert(HasUnknowns<Amg> && HasUnknowns<AutoPreconditioner> && !HasUnknowns<Jacobi> &&
              !HasUnknowns<Ic>);
static_assert(HasRestart<Gmres> && HasRestart<AutoMethod> && !HasRestart<Cg> && !HasRestart<Amg>);
static_assert(IsPreconditioner<Amg> && !IsPreconditioner<Gmres> && !IsPreconditioner<int>);
static_assert(IsMethod<Gmres> && !IsMethod<Amg> && !IsMethod<double>);
static_assert(std::convertible_to<Amg, PreconditionerPart> &&
              !std::convertible_to<Gmres, PreconditionerPart>);

// A value that is allowed and not the default.
template <class Options>
OptionValue another_value(const Option<Options>& option) {
  for (const std::string_view word : option.words)
    if (option.default_value() != OptionValue(word)) return word;
  const auto& [least, most, open_below, open_above] = option.range;
  if (option.kind == OptionKind::number) return most > 1e100 ? least + 1 : (least + most) / 2;
  const auto smallest = static_cast<std::int64_t>(least);
  return option.default_value() == OptionValue(smallest) ? smallest + 1 : smallest;
}

// The settings that a type with its options is.
SolveSettings settings_of(const Selection<SolverOptions>& method) {
  return with_names({.method = method, .solver = {.stopping = {.max_iterations = 77}}});
}
SolveSettings settings_of(const Selection<PreconditionerOptions>& preconditioner) {
  return with_names({.preconditioner = preconditioner});
}
const SolverOptions& options_in(const SolveSettings& settings, const SolverOptions*) {
  return settings.solver;
}
const PreconditionerOptions& options_in(const SolveSettings& settings, const PreconditionerOptions*) {
  return settings.preconditioning;
}

// Which types have a member for which option.
using Members = std::map<std::string, std::set<std::string>>;

// Sets the member of a type to another value than the default, and finds it in the settings.
template <class Type, class Member>
void pass(std::span<const Option<typename Type::Options>> table, const char* name, Member Type::*member,
          Members& members) {
  using Options = typename Type::Options;
  SCOPED_TRACE(std::string(Type::id) + ": " + name);
  const Option<Options>* const option = find_option(table, name);
  ASSERT_NE(option, nullptr);
  const OptionValue value = option->kind == OptionKind::word && option->words.empty()
                                ? OptionValue(std::string_view("u 0-"))
                                : another_value(*option);
  require_allowed(*option, value);
  Type type;
  EXPECT_EQ(option->value(type.options()), option->default_value());
  options_detail::put_value(type.*member, value, option->words);
  const SolveSettings settings = settings_of(Selection<Options>(type));
  const Options& found = options_in(settings, static_cast<const Options*>(nullptr));
  EXPECT_EQ(option->value(found), value);
  for (const Option<Options>& other : table)
    if (other.name != name && other.name != "max_iterations") {
      EXPECT_TRUE(other.is_default(found)) << other.name;
    }
  EXPECT_TRUE(members[name].insert(Type::id).second);
}
void pass(std::span<const Option<PreconditionerOptions>>, const char* name,
          const MultiVector<double>* Amg::*member, Members&) {
  const MultiVector<double> vectors(Context::host(1), 4, 1);
  Amg amg;
  amg.*member = &vectors;
  EXPECT_EQ(settings_of(Selection<PreconditionerOptions>(amg)).preconditioning.near_null_space, &vectors)
      << name;
  EXPECT_TRUE(reads_near_null_space(Amg::id));
}
void pass(std::span<const Option<PreconditionerOptions>>, const char* name,
          const MultiVector<double>* AutoPreconditioner::*member, Members&) {
  const MultiVector<double> vectors(Context::host(1), 4, 1);
  AutoPreconditioner one;
  one.*member = &vectors;
  EXPECT_EQ(settings_of(Selection<PreconditionerOptions>(one)).preconditioning.near_null_space, &vectors)
      << name;
  EXPECT_TRUE(reads_near_null_space(AutoPreconditioner::id));
}
void pass(std::span<const Option<PreconditionerOptions>>, const char* name,
          const CsrMatrix<double>* Fields::*member, Members&) {
  const CsrMatrix<double> matrix;
  Fields one;
  one.*member = &matrix;
  EXPECT_EQ(settings_of(Selection<PreconditionerOptions>(one)).preconditioning.schur_operator, &matrix)
      << name;
}

// The options that each type reads, and the options that all read, have their member; a type has no other.
template <class Options>
void compare(std::span<const Option<Options>> table, const Members& members,
             const std::vector<std::string_view>& types) {
  for (const Option<Options>& option : table) {
    const auto found = members.find(std::string(option.name));
    for (const std::string_view type : types)
      EXPECT_EQ(found != members.end() && found->second.contains(std::string(type)), option.readers.has(type))
          << option.name << " of " << type;
  }
}

TEST(Types, HaveEachOptionOfAMethodThatReadsIt) {
  Members members;
  std::vector<std::string_view> types;
#define PROTEAN_PASS(option) pass(solver_options(), #option, &Type::option, members);
#define PROTEAN_TYPE(Name, name, passes) \
  {                                      \
    using Type = Name;                   \
    EXPECT_STREQ(Type::id, name);        \
    types.push_back(name);               \
    passes                               \
  }
  PROTEAN_METHOD_TYPES(PROTEAN_TYPE, PROTEAN_PASS)
  std::vector<std::string_view> methods;
  for (const SolverEntry& entry : solvers()) methods.push_back(entry.id);
  methods.emplace_back("auto");
  EXPECT_EQ(types, methods);
  // Those of StoppingRule are the same for all, and no members of a type.
  std::vector<Option<SolverOptions>> of_types;
  for (const Option<SolverOptions>& option : solver_options()) {
    SolverOptions options;
    option.set(options, another_value(option));
    if (option.is_default({.stopping = options.stopping})) of_types.push_back(option);
  }
  EXPECT_EQ(of_types.size(), members.size());
  compare<SolverOptions>(of_types, members, types);
}

TEST(Types, HaveEachOptionOfAPreconditionerThatReadsIt) {
  Members members;
  std::vector<std::string_view> types;
#undef PROTEAN_PASS
#define PROTEAN_PASS(option) pass(preconditioner_options(), #option, &Type::option, members);
  PROTEAN_PRECONDITIONER_TYPES(PROTEAN_TYPE, PROTEAN_PASS)
#undef PROTEAN_TYPE
#undef PROTEAN_PASS
  std::set<std::string_view> ids;
  for (const PreconditionerEntry& entry : preconditioners()) ids.insert(entry.id);
  EXPECT_EQ(std::set<std::string_view>(types.begin(), types.end()), ids);
  EXPECT_EQ(types.size(), ids.size());
  EXPECT_EQ(members.size(), preconditioner_options().size());
  compare<PreconditionerOptions>(preconditioner_options(), members, types);
}

std::string refusal(const SolveSettings& settings) {
  return test::message_of<BadArgument>([&] { check(settings); });
}

TEST(Types, TakeThePlaceOfOptionsByName) {
  const SolveSettings typed{.method = Gmres{.restart = 50}, .preconditioner = Ic{.fill = 2}};
  const SolveSettings named = with_names(typed);
  EXPECT_EQ(named.method, "gmres");
  EXPECT_FALSE(named.method.options() || named.preconditioner.options());
  EXPECT_EQ(named.solver.restart, 50);
  EXPECT_EQ(named.preconditioner, "ic");
  EXPECT_EQ(named.preconditioning, (PreconditionerOptions{.fill = 2}));
  EXPECT_EQ(refusal(typed), "");

  SolveSettings twice = typed;
  twice.solver.restart = 40;
  EXPECT_EQ(
      refusal(twice),
      "SolveSettings::solver.restart is 40, and method gmres is a type with options of its own: set the option "
      "there, or take the name \"gmres\"");
  twice.solver.restart = 50;
  EXPECT_EQ(refusal(twice), "");
  twice.preconditioning.zero_diagonal = ZeroDiagonal::one;
  EXPECT_NE(
      refusal(twice).find("SolveSettings::preconditioning.zero_diagonal is 'one', and preconditioner ic is"),
      std::string::npos)
      << refusal(twice);
  const MultiVector<double> vectors(Context::host(1), 4, 1);
  twice = {.preconditioner = Jacobi{}};
  twice.preconditioning.near_null_space = &vectors;
  EXPECT_NE(refusal(twice).find("near_null_space"), std::string::npos) << refusal(twice);
  const CsrMatrix<double> matrix;
  twice = {.preconditioner = Jacobi{}};
  twice.preconditioning.schur_operator = &matrix;
  EXPECT_NE(refusal(twice).find("schur_operator"), std::string::npos) << refusal(twice);
  EXPECT_NE(refusal({.preconditioner = Amg{.unknowns = 65}}).find("unknowns is 65; it must be"),
            std::string::npos);
  // A name that is assigned later is a name.
  SolveSettings later = typed;
  later.preconditioner = "jacobi", later.method = std::string("cg");
  EXPECT_FALSE(later.method.options() || later.preconditioner.options());
}

TEST(Types, SolveAsTheirNamesDo) {
  const auto context = test::test_context();
  const auto csr = generate(context, "poisson-2d", {{"n", 20}});
  const std::vector<double> b(static_cast<std::size_t>(csr.rows()), 1.0);
  std::vector<double> x(b.size()), y(b.size());
  LinearSystem<double> named(
      csr,
      {.method = "gmres", .solver = {.restart = 7}, .preconditioner = "ic", .preconditioning = {.fill = 2}}),
      typed(csr, {.method = Gmres{.restart = 7}, .preconditioner = Ic{.fill = 2}});
  const SolveResult one = named.solve(b, x), other = typed.solve(b, y);
  EXPECT_TRUE(one.converged());
  EXPECT_EQ(one.report.iterations, other.report.iterations);
  EXPECT_EQ(typed.settings().preconditioning.fill, 2);
  EXPECT_EQ(typed.settings().solver.restart, 7);
  EXPECT_EQ(x, y);

  typed.set({.method = "cg", .parts = {Jacobi{}, Ic{.fill = 0}}, .combine = Composition::symmetric});
  std::fill(y.begin(), y.end(), 0.0);
  EXPECT_TRUE(typed.solve(b, y).converged());
  EXPECT_EQ(typed.settings().parts, (std::vector<PreconditionerPart>{{"jacobi", {}}, {"ic", {.fill = 0}}}));
}

}  // namespace
}  // namespace protean
