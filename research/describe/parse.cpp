// The parser of descriptions: one statement a line, loops by indentation.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "research/describe/language.hpp"
#include "research/describe/words.hpp"

namespace protean::research {
namespace {

using Kind = Expression::Kind;

class Parser : Words {
 public:
  Parser(std::string_view text, const std::string& file) : Words(text, file) {
    result_.file = file;
    const char* const fixed[] = {"rows", "cols", "nonzeros", "longest", "value", "row", "column"};
    for (int i = 0; i < first_free_v; ++i) {
      Variable v;
      v.name = fixed[i], v.kind = i < value_v ? Variable::Kind::matrix : Variable::Kind::entry;
      v.host_only = i >= value_v;
      add_variable(v);
    }
  }

  Description parse() {
    if (lines_.empty()) fail(1, 1, "the description is empty; its first line is `format NAME`");
    for (; at_ < lines_.size();) {
      const Line& line = start_line();
      if (line.indent > 0)
        fail_here("a line of the top level is indented; indent the lines inside a loop only");
      const std::string word = peek();
      if (result_.name.empty() && word != "format") fail_here("the first line must be `format NAME`");
      if (word == "for") {
        result_.loops.push_back(loop(0));
        continue;
      }
      next();
      top_statement(word);
      end_of_line();
      ++at_;
    }
    if (result_.loops.empty())
      fail(lines_.back().number, 1,
           "there is no loop `for VARIABLE in FROM .. TO`, so nothing is multiplied");
    return std::move(result_);
  }

 private:
  // ---- names

  std::string new_name() {
    const std::string text = peek();
    static constexpr std::string_view words[] = {"min",  "max", "ceil", "length", "find",     "count",
                                                 "most", "sum", "x",    "y",      "parallel", "shared"};
    if (std::find(std::begin(words), std::end(words), text) != std::end(words))
      fail_here(fmt::format("'{}' is a word of the language; take another name", text));
    if (names_.count(text) || arrays_.count(text))
      fail_here(fmt::format("there is already a '{}'; take another name", text));
    return name();
  }
  int add_variable(Variable v) {
    const int number = static_cast<int>(result_.variables.size());
    names_[v.name] = number;
    result_.variables.push_back(std::move(v));
    return number;
  }
  int new_variable(Variable::Kind kind) {
    Variable v;
    v.line = lines_[at_].number, v.kind = kind, v.name = new_name();
    return add_variable(v);
  }
  int add_array(Array a) {
    const int number = static_cast<int>(result_.arrays.size());
    arrays_[a.name] = number;
    result_.arrays.push_back(std::move(a));
    return number;
  }
  int array_named() {
    const auto found = arrays_.find(peek());
    if (found == arrays_.end()) fail_here(fmt::format("there is no array '{}'", peek()));
    ++next_;
    return found->second;
  }

  // ---- expressions

  Expression of(Kind kind, std::vector<Expression> parts, std::int64_t value = 0) const {
    Expression e;
    e.kind = kind, e.value = value, e.parts = std::move(parts), e.line = lines_[at_].number;
    return e;
  }
  Expression expression() {
    Expression left = term();
    for (;;) {
      if (accept("+"))
        left = of(Kind::plus, {std::move(left), term()});
      else if (accept("-"))
        left = of(Kind::minus, {std::move(left), term()});
      else
        return left;
    }
  }
  Expression term() {
    Expression left = factor();
    for (;;) {
      if (accept("*"))
        left = of(Kind::times, {std::move(left), factor()});
      else if (accept("/"))
        left = of(Kind::over, {std::move(left), factor()});
      else if (accept("%"))
        left = of(Kind::rest, {std::move(left), factor()});
      else
        return left;
    }
  }
  Expression factor() {
    if (++depth_ > 100) fail_here("the expression is nested more than 100 deep");
    Expression e = primary();
    --depth_;
    return e;
  }
  Expression primary() {
    if (accept("(")) {
      Expression e = expression();
      expect(")");
      return e;
    }
    if (accept("-")) return of(Kind::minus, {of(Kind::number, {}, 0), factor()});
    if (is_number(peek())) {
      const std::int64_t value = number();
      return of(Kind::number, {}, value);
    }
    const std::string word = peek();
    if (!is_name(word))
      fail_here(word.empty() ? std::string("the line ends, where an expression is expected")
                             : fmt::format("an expression is expected here, not '{}'", word));
    const auto variable = names_.find(word);
    const bool call = next_ + 1 < lines_[at_].tokens.size() && lines_[at_].tokens[next_ + 1].text == "(";
    if (call) {
      ++next_;
      return called(word);
    }
    if (variable != names_.end()) {
      ++next_;
      return of(Kind::variable, {}, variable->second);
    }
    if (arrays_.count(word)) {
      const int array = array_named();
      return of(Kind::element, indices(array), array);
    }
    fail_here(fmt::format("there is no '{}'", word));
  }
  std::vector<Expression> indices(int array) {
    expect("[");
    std::vector<Expression> parts{expression()};
    if (accept(",")) parts.push_back(expression());
    expect("]");
    const Array& its = result_.arrays[static_cast<std::size_t>(array)];
    const std::size_t wanted = std::max<std::size_t>(1, its.extents.size());
    if (parts.size() != wanted)
      fail_here(fmt::format("array {} has {} ind{}", its.name, wanted, wanted == 1 ? "ex" : "ices"));
    return parts;
  }
  // Behind NAME; a bracket follows.
  Expression called(const std::string& function) {
    static const std::map<std::string, std::pair<Kind, int>> plain = {{"min", {Kind::least, 2}},
                                                                      {"max", {Kind::most, 2}},
                                                                      {"ceil", {Kind::ceil, 2}},
                                                                      {"length", {Kind::length, 1}},
                                                                      {"row", {Kind::row_at, 1}}};
    if (const auto found = plain.find(function); found != plain.end()) {
      expect("(");
      std::vector<Expression> parts{expression()};
      if (found->second.second == 2) expect(","), parts.push_back(expression());
      expect(")");
      return of(found->second.first, std::move(parts));
    }
    if (function == "find" || function == "count") {
      expect("(");
      const int array = array_named();
      const auto kind = result_.arrays[static_cast<std::size_t>(array)].kind;
      std::vector<Expression> parts;
      if (function == "find") {
        if (kind != Array::Kind::scan && kind != Array::Kind::list_start)
          fail_here("find() looks in an array that was made by scan, or by distinct");
        expect(","), parts.push_back(expression());
      }
      expect(")");
      return of(function == "find" ? Kind::find : Kind::count, std::move(parts), array);
    }
    if (function == "most" || function == "sum") {
      expect("(");
      const int variable = new_variable(Variable::Kind::bound);
      expect("in");
      std::vector<Expression> parts{expression()};
      expect("..");
      parts.push_back(expression());
      expect(":");
      parts.push_back(expression());
      expect(")");
      names_.erase(result_.variables[static_cast<std::size_t>(variable)].name);
      return of(function == "most" ? Kind::most_of : Kind::sum_of, std::move(parts), variable);
    }
    fail_here(fmt::format(
        "there is no function '{}'; there are min, max, ceil, length, row, find, count, most and sum",
        function));
  }
  bool host_only(const Expression& e) const {
    switch (e.kind) {
      case Kind::length:
      case Kind::row_at:
      case Kind::find:
      case Kind::count:
      case Kind::most_of:
      case Kind::sum_of:
        return true;
      case Kind::variable:
        return result_.variables[static_cast<std::size_t>(e.value)].host_only;
      default:
        return std::any_of(e.parts.begin(), e.parts.end(),
                           [&](const Expression& part) { return host_only(part); });
    }
  }
  void of_kernel(const Expression& e, std::string_view what) const {
    if (host_only(e))
      fail_here(fmt::format(
          "{} is computed by the kernel, which has only numbers, loop variables and arrays; store "
          "what it needs in an array",
          what));
  }

  // ---- the top level

  void top_statement(const std::string& word) {
    if (word == "format") return format_name();
    if (word == "size") return size();
    if (word == "let") return top_let();
    if (word == "order") return order();
    if (word == "values") return stored(Array::Kind::values);
    if (word == "index") return index();
    if (word == "scan") return defined(Array::Kind::scan);
    if (word == "distinct") return distinct();
    --next_;
    fail_here(fmt::format(
        "'{}' begins no line of the top level; format, size, let, order, values, index, scan, distinct "
        "and for do",
        word));
  }
  void format_name() {
    if (!result_.name.empty()) fail_here("there is a second `format`; a file describes one");
    result_.name = name();
  }
  void size() {
    const int variable = new_variable(Variable::Kind::size);
    expect("=");
    const auto positive = [&] {
      const Token here = token();
      const std::int64_t value = number();
      if (value < 1 || value > 1 << 20)
        fail(lines_[at_].number, here.column, "a size is from 1 to 1,048,576");
      return value;
    };
    const std::int64_t value = positive();
    std::vector<std::int64_t> choices;
    if (accept("of"))
      while (!peek().empty()) choices.push_back(positive());
    if (!choices.empty() && std::find(choices.begin(), choices.end(), value) == choices.end())
      fail_here("the size is none of its choices");
    Variable& its = result_.variables[static_cast<std::size_t>(variable)];
    its.value = value;
    its.choices = choices.empty() ? std::vector{value} : choices;
  }
  void top_let() {
    const int variable = new_variable(Variable::Kind::number);
    expect("=");
    Expression e = expression();
    result_.variables[static_cast<std::size_t>(variable)].definition = std::move(e);
    result_.numbers.push_back(variable);
    result_.steps.emplace_back(false, variable);
  }
  void order() {
    expect("by"), expect("length");
    if (result_.ordered || !result_.steps.empty() || !result_.loops.empty())
      fail_here(
          "`order by length` stands once, before all that depends on positions: let, scan, index, distinct, "
          "for");
    result_.ordered = true;
    if (accept("within")) result_.window = expression();
  }
  void stored(Array::Kind kind) {
    Array a;
    a.kind = kind, a.line = lines_[at_].number, a.name = new_name();
    expect("[");
    a.extents.push_back(expression());
    if (accept(",")) a.extents.push_back(expression());
    expect("]");
    result_.steps.emplace_back(true, add_array(std::move(a)));
  }
  // index NAME[extent] is stored by the loops, index NAME[variable < extent] = definition is computed.
  void index() {
    const Line& line = lines_[at_];
    const bool definition = line.tokens.size() > 4 && line.tokens[4].text == "<";
    return definition ? defined(Array::Kind::computed) : stored(Array::Kind::stored);
  }
  void defined(Array::Kind kind) {
    Array a;
    a.kind = kind, a.line = lines_[at_].number, a.name = new_name();
    expect("[");
    a.variable = new_variable(Variable::Kind::bound);
    expect("<");
    a.extents.push_back(expression());
    expect("]"), expect("=");
    a.definition = expression();
    names_.erase(result_.variables[static_cast<std::size_t>(a.variable)].name);
    result_.steps.emplace_back(true, add_array(std::move(a)));
  }
  // distinct LIST = expression, or distinct LIST by START[groups] = expression of group
  void distinct() {
    Array list;
    list.kind = Array::Kind::list, list.line = lines_[at_].number, list.name = new_name();
    if (accept("by")) {
      Array start;
      start.kind = Array::Kind::list_start, start.line = list.line, start.name = new_name();
      expect("[");
      start.extents.push_back(expression());
      expect("]");
      list.start = add_array(std::move(start));
    }
    expect("=");
    list.definition = expression();
    if (list.start >= 0) expect("of"), list.group = expression();
    result_.steps.emplace_back(true, add_array(std::move(list)));
  }

  // ---- loops

  Statement loop(int depth) {
    Statement s;
    s.kind = Statement::Kind::loop;
    const Line& line = start_line();
    s.line = line.number;
    if (depth >= 16) fail_here("loops are nested more than 16 deep");
    expect("for");
    s.variable = new_variable(Variable::Kind::loop);
    expect("in");
    s.parts.push_back(expression());
    expect("..");
    s.parts.push_back(expression());
    for (const Expression& part : s.parts) of_kernel(part, "the range of a loop");
    if (accept("parallel")) s.loop = Statement::Loop::parallel;
    if (accept("shared")) s.loop = Statement::Loop::shared;
    end_of_line();
    if (depth == 0 && s.loop == Statement::Loop::plain)
      fail_here(
          "the outermost loop is `parallel`, if its iterations write different rows of y, or else `shared`");
    const int indent = line.indent;
    ++at_;
    if (at_ == lines_.size() || lines_[at_].indent <= indent)
      fail(s.line, 1, "the loop has no body; indent the lines inside it");
    const int inner = lines_[at_].indent;
    std::vector<std::string> locals;
    for (; at_ < lines_.size() && lines_[at_].indent > indent;) {
      const Line& here = start_line();
      if (here.indent != inner)
        fail_here("the line is indented otherwise than the one before it in the loop");
      if (!s.body.empty() &&
          (s.body.back().kind == Statement::Kind::loop || s.body.back().kind == Statement::Kind::product))
        fail_here("a loop within a loop, and y[...] += ..., are the last in their loop");
      if (peek() == "for") {
        s.body.push_back(loop(depth + 1));
        continue;
      }
      s.body.push_back(inner_statement(locals));
      end_of_line();
      ++at_;
    }
    const Statement::Kind last = s.body.back().kind;
    if (last != Statement::Kind::loop && last != Statement::Kind::product)
      fail(s.body.back().line, 1,
           "the loop must end with another loop, or with y[...] += VALUES[...] * x[...]");
    if (last == Statement::Kind::loop && s.body.back().loop != Statement::Loop::plain &&
        s.loop == Statement::Loop::plain)
      fail(s.body.back().line, 1,
           "a loop that is parallel or shared lies in a plain one; mark the outer loops");
    for (const std::string& one : locals) names_.erase(one);
    names_.erase(result_.variables[static_cast<std::size_t>(s.variable)].name);
    return s;
  }
  Statement inner_statement(std::vector<std::string>& locals) {
    Statement s;
    s.line = lines_[at_].number;
    const std::string word = next();
    if (word == "let") {
      s.kind = Statement::Kind::let;
      s.variable = new_variable(Variable::Kind::local);
      expect("=");
      Expression e = expression();
      Variable& its = result_.variables[static_cast<std::size_t>(s.variable)];
      its.host_only = host_only(e), its.definition = std::move(e);
      locals.push_back(its.name);
    } else if (word == "where") {
      s.kind = Statement::Kind::where;
      s.parts.push_back(expression());
      s.relation = relation();
      s.parts.push_back(expression());
      for (const Expression& part : s.parts) of_kernel(part, "a condition");
    } else if (word == "entry") {
      s.kind = accept("at") ? Statement::Kind::entry_at : Statement::Kind::entry_of;
      s.parts.push_back(expression());
      expect(s.kind == Statement::Kind::entry_at ? "," : "of");
      s.parts.push_back(expression());
    } else if (word == "store") {
      s.kind = Statement::Kind::store;
      s.array = array_named();
      const Array::Kind kind = result_.arrays[static_cast<std::size_t>(s.array)].kind;
      if (kind != Array::Kind::values && kind != Array::Kind::stored)
        fail_here("only arrays that are declared as values NAME[...] or index NAME[...] are stored by loops");
      s.parts = indices(s.array);
      expect("=");
      s.parts.push_back(expression());
      const Expression& what = s.parts.back();
      const bool value = what.kind == Kind::variable && what.value == value_v;
      if (value != (kind == Array::Kind::values))
        fail_here(value ? "an index array holds no values"
                        : "an array of values holds `value`, and nothing else");
    } else if (word == "y") {
      product(s);
    } else {
      --next_;
      fail_here(
          fmt::format("'{}' begins no line of a loop; for, let, where, entry, store and y[...] += do", word));
    }
    return s;
  }
  Relation relation() {
    static const std::map<std::string, Relation> all = {{"<", Relation::less},   {"<=", Relation::at_most},
                                                        {">", Relation::more},   {">=", Relation::at_least},
                                                        {"==", Relation::equal}, {"!=", Relation::other}};
    const auto found = all.find(peek());
    if (found == all.end()) fail_here("a condition has one of < <= > >= == !=");
    ++next_;
    return found->second;
  }
  void product(Statement& s) {
    s.kind = Statement::Kind::product;
    expect("[");
    s.parts.push_back(expression());
    expect("]"), expect("+=");
    s.array = array_named();
    if (result_.arrays[static_cast<std::size_t>(s.array)].kind != Array::Kind::values)
      fail_here("y[...] += VALUES[...] * x[...] needs an array that is declared as values NAME[...]");
    for (Expression& part : indices(s.array)) s.parts.push_back(std::move(part));
    expect("*"), expect("x"), expect("[");
    s.parts.push_back(expression());
    expect("]");
    for (const Expression& part : s.parts) of_kernel(part, "the product");
  }

  Description result_;
  int depth_ = 0;
  std::map<std::string, int> names_, arrays_;
};

}  // namespace

Description parse_description(std::string_view text, const std::string& file) {
  return Parser(text, file).parse();
}

}  // namespace protean::research
