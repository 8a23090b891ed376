// Methods and preconditioners as types with their options. An option that a type does not read does not compile:
//
//   settings.method = protean::Gmres{.restart = 50, .orthogonalization = "mgs"};
//   settings.preconditioner = protean::Amg{.unknowns = 3};
//   settings.parts = {protean::Jacobi{}, protean::Ic{.fill = 2}};  // a composition
//
// The members of a type are the options that its line in solvers/type_list.hpp or preconditioners/type_list.hpp names,
// in that order, with the types, meanings and defaults of SolverOptions and PreconditionerOptions. solver_options() and
// preconditioner_options() have their ranges. Tolerances and limits are the same for all methods:
// SolveSettings::solver.stopping.
#pragma once
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <protean/core/export.hpp>
#include <protean/preconditioners/preconditioner_options.hpp>
#include <protean/preconditioners/type_list.hpp>
#include <protean/solvers/solver_options.hpp>
#include <protean/solvers/type_list.hpp>

namespace PROTEAN_EXPORT protean {

// options(): the options of the type, and the default for all others.
#define PROTEAN_MEMBER(option) decltype(Options::option) option = Options().option;
#define PROTEAN_TYPE(Type, name, members)   \
  struct Type {                             \
    using Options = SolverOptions;          \
    static constexpr const char* id = name; \
    members SolverOptions options() const;  \
  };
PROTEAN_METHOD_TYPES(PROTEAN_TYPE, PROTEAN_MEMBER)
#undef PROTEAN_TYPE
#define PROTEAN_TYPE(Type, name, members)                           \
  struct Type {                                                     \
    using Options = PreconditionerOptions;                          \
    static constexpr const char* id = name;                         \
    members PreconditionerOptions options() const;                  \
    operator PreconditionerPart() const { return {id, options()}; } \
  };
PROTEAN_PRECONDITIONER_TYPES(PROTEAN_TYPE, PROTEAN_MEMBER)
#undef PROTEAN_TYPE
#undef PROTEAN_MEMBER

#define PROTEAN_PUT(option) all.option = option;
#define PROTEAN_TYPE(Type, name, puts)         \
  inline Type::Options Type::options() const { \
    Options all;                               \
    puts return all;                           \
  }
PROTEAN_METHOD_TYPES(PROTEAN_TYPE, PROTEAN_PUT)
PROTEAN_PRECONDITIONER_TYPES(PROTEAN_TYPE, PROTEAN_PUT)
#undef PROTEAN_TYPE
#undef PROTEAN_PUT

// A method or a preconditioner: its name, or a type with its options.
template <class Options>
class Selection {
 public:
  Selection(const char* name) : name_(name) {}
  Selection(std::string_view name) : name_(name) {}
  Selection(std::string name) : name_(std::move(name)) {}
  template <class Type>
  requires std::same_as<typename Type::Options, Options> Selection(const Type& type)
      : name_(Type::id), options_(type.options()) {}

  const std::string& name() const noexcept { return name_; }
  // The options of a type; empty for a name.
  const std::optional<Options>& options() const noexcept { return options_; }

  operator const std::string&() const noexcept { return name_; }
  operator std::string_view() const noexcept { return name_; }
  friend bool operator==(const Selection& a, std::string_view b) noexcept { return a.name_ == b; }
  // Two selections of one name may differ in their options: compare name(), or options() too.
  template <class Same>
  requires std::same_as<Same, Selection>
  friend bool operator==(const Selection& a, const Same& b) = delete;

 private:
  std::string name_;
  std::optional<Options> options_;
};

}  // namespace protean
