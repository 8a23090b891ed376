#include "research/describe/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/error.hpp"

namespace protean::research {
namespace {

using Kind = Statement::Kind;

const Variable& variable(const Description& d, std::int64_t number) {
  return d.variables[static_cast<std::size_t>(number)];
}

// Variables of loops and lets that an expression names.
void collect(const Description& d, const Expression& e, std::set<int>& into) {
  if (e.kind == Expression::Kind::variable) {
    const Variable::Kind kind = variable(d, e.value).kind;
    if (kind == Variable::Kind::loop || kind == Variable::Kind::local) into.insert(static_cast<int>(e.value));
  }
  for (const Expression& part : e.parts) collect(d, part, into);
}

std::set<int> named_by(const Description& d, const Statement& s) {
  std::set<int> all;
  for (const Expression& part : s.parts) collect(d, part, all);
  if (s.kind == Kind::let) collect(d, variable(d, s.variable).definition, all);
  return all;
}

bool includes(const std::set<int>& all, const std::set<int>& some) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

// The loops on which variables depend, through lets.
std::set<int> loops_behind(const Description& d, std::set<int> open) {
  std::set<int> loops;
  while (!open.empty()) {
    const int one = *open.begin();
    open.erase(open.begin());
    if (variable(d, one).kind == Variable::Kind::loop)
      loops.insert(one);
    else
      collect(d, variable(d, one).definition, open);
  }
  return loops;
}

bool constant_loop(const Description& d, const Statement& s) {
  return is_constant(d, s.parts[0]) && is_constant(d, s.parts[1]);
}

void find_path(const Statement& s, Nest& nest) {
  if (s.kind == Kind::loop) nest.loops.push_back(static_cast<int>(nest.path.size()));
  nest.path.push_back(&s);
  for (const Statement& inner : s.body) find_path(inner, nest);
}

void find_parallel(const Description& d, Nest& nest) {
  const Statement& outer = *nest.path[0];
  nest.shared = outer.loop == Statement::Loop::shared;
  for (std::size_t i = 1; i < nest.loops.size(); ++i) {
    const Statement& s = *nest.path[static_cast<std::size_t>(nest.loops[i])];
    if (s.loop == Statement::Loop::plain) break;
    nest.shared = nest.shared || s.loop == Statement::Loop::shared;
    std::set<int> named;
    for (const Expression& part : s.parts) collect(d, part, named);
    if (!named.empty())
      throw BadFile(
          d.file, s.line, 1,
          "the range of a parallel or shared loop depends on an outer loop; mark the outer one only");
    ++nest.parallel;
  }
}

void find_sums(const Description& d, Nest& nest) {
  std::set<int> of_row;
  collect(d, nest.path.back()->parts[0], of_row);
  const std::set<int> needed = loops_behind(d, of_row);
  nest.base = nest.loops[static_cast<std::size_t>(nest.parallel - 1)];
  for (const int place : nest.loops) {
    const Statement& s = *nest.path[static_cast<std::size_t>(place)];
    if (needed.count(s.variable) && !constant_loop(d, s)) nest.base = std::max(nest.base, place);
  }
  std::set<int> known;  // at the end of an iteration of base, and within the loops over sums
  for (int place = 0; place <= nest.base; ++place) {
    const Statement& s = *nest.path[static_cast<std::size_t>(place)];
    if (s.kind == Kind::loop || s.kind == Kind::let) known.insert(s.variable);
  }
  nest.count = 1;
  for (int place = nest.base + 1; place < static_cast<int>(nest.path.size()); ++place) {
    const Statement& s = *nest.path[static_cast<std::size_t>(place)];
    if (s.kind == Kind::loop && needed.count(s.variable)) {
      nest.sums.push_back(place), nest.flush.push_back(place), known.insert(s.variable);
      nest.count *= std::max<std::int64_t>(0, constant(d, s.parts[1]) - constant(d, s.parts[0]));
    } else if (s.kind == Kind::loop) {
      if (nest.split < 0) nest.split = place;
    } else if (s.kind == Kind::where && includes(known, named_by(d, s))) {
      nest.flush.push_back(place);
    } else if (s.kind == Kind::let && !variable(d, s.variable).host_only && includes(known, named_by(d, s))) {
      nest.flush.push_back(place), known.insert(s.variable);
    }
  }
  const int last = nest.loops.back();
  if (last > nest.base && std::find(nest.sums.begin(), nest.sums.end(), last) == nest.sums.end())
    nest.innermost = last;
}

}  // namespace

bool is_constant(const Description& d, const Expression& e) {
  switch (e.kind) {
    case Expression::Kind::number:
      return true;
    case Expression::Kind::variable:
      return variable(d, e.value).kind == Variable::Kind::size;
    case Expression::Kind::plus:
    case Expression::Kind::minus:
    case Expression::Kind::times:
      return is_constant(d, e.parts[0]) && is_constant(d, e.parts[1]);
    default:
      return false;
  }
}

std::int64_t constant(const Description& d, const Expression& e) {
  if (e.kind == Expression::Kind::number) return e.value;
  if (e.kind == Expression::Kind::variable) return variable(d, e.value).value;
  const std::int64_t a = constant(d, e.parts[0]), b = constant(d, e.parts[1]);
  return e.kind == Expression::Kind::plus ? a + b : e.kind == Expression::Kind::minus ? a - b : a * b;
}

std::vector<Nest> plan(const Description& d) {
  std::vector<Nest> nests;
  for (const Statement& s : d.loops) {
    Nest nest;
    find_path(s, nest);
    find_parallel(d, nest);
    find_sums(d, nest);
    if (nest.count > 64)
      throw BadFile(
          d.file, s.line, 1,
          fmt::format("an iteration has {} sums for rows of y, which are kept in registers; at most 64 are",
                      nest.count));
    nests.push_back(std::move(nest));
  }
  return nests;
}

Description with_sizes(Description d, const std::vector<std::pair<std::string, std::int64_t>>& sizes) {
  for (const auto& [name, value] : sizes) {
    std::string known;
    Variable* its = nullptr;
    for (Variable& v : d.variables)
      if (v.kind == Variable::Kind::size) {
        known += (known.empty() ? "" : ", ") + v.name;
        if (v.name == name) its = &v;
      }
    if (!its)
      throw BadArgument(fmt::format("format {} has no size '{}'; {}", d.name, name,
                                    known.empty() ? "it has none" : "its sizes are " + known));
    if (value < 1 || value > 1 << 20)
      throw BadArgument(fmt::format("size {} is {}; it must be from 1 to 1,048,576", name, value));
    its->value = value;
  }
  return d;
}

}  // namespace protean::research
