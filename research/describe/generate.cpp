#include "research/describe/generate.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/error.hpp"

namespace protean::research {
namespace {

using Kind = Statement::Kind;

// Writes the functions of one nest.
class Writer {
 public:
  Writer(const Description& d, const Nest& nest, std::size_t number, const Strategy& strategy, Target target)
      : d_(d), nest_(nest), number_(number), strategy_(strategy), target_(target) {
    on_gpu_ = target == Target::cuda;
    lanes_ = on_gpu_ && nest.split >= 0 ? strategy.lanes : 1;
    chunk_ = on_gpu_ && nest.shared ? strategy.chunk : 1;
    // Runs of equal rows are added up before y is touched, if an iteration has one sum.
    runs_ = nest.shared && nest.sums.empty();
  }

  std::string text() {
    indent_ = 1;
    body();
    const std::string inside = std::move(text_);
    text_.clear();
    return on_gpu_ ? kernel(inside) : function(inside);
  }

 private:
  const Statement& at(int place) const { return *nest_.path[static_cast<std::size_t>(place)]; }
  const Variable& variable(std::int64_t v) const { return d_.variables[static_cast<std::size_t>(v)]; }
  const Array& array(std::int64_t a) const { return d_.arrays[static_cast<std::size_t>(a)]; }

  template <class... Parts>
  void line(fmt::format_string<Parts...> format, Parts&&... parts) {
    text_.append(static_cast<std::size_t>(2 * indent_), ' ');
    text_ += fmt::format(format, std::forward<Parts>(parts)...) + "\n";
  }
  template <class... Parts>
  void open(fmt::format_string<Parts...> format, Parts&&... parts) {
    line(format, std::forward<Parts>(parts)...);
    ++indent_;
  }
  void close() {
    --indent_;
    line("}}");
  }

  // ---- names and expressions

  std::string name(std::int64_t v) {
    const Variable::Kind kind = variable(v).kind;
    if (kind == Variable::Kind::matrix || kind == Variable::Kind::number)
      numbers_.insert(static_cast<int>(v));
    return "v_" + variable(v).name;
  }
  std::string element(int a, const Expression* index) {
    arrays_.insert(a);
    if (array(a).extents.size() < 2) return fmt::format("a_{}[{}]", array(a).name, bare(index[0]));
    const std::string first = of(index[0]);
    const int extent = strategy_.turned ? 0 : 1;
    extents_.insert({a, extent});
    const std::string second = of(index[1]), width = fmt::format("e_{}_{}", array(a).name, extent);
    return strategy_.turned ? fmt::format("a_{}[{} * {} + {}]", array(a).name, second, width, first)
                            : fmt::format("a_{}[{} * {} + {}]", array(a).name, first, width, second);
  }
  std::string of(const Expression& e) {
    const auto both = [&](std::string_view sign) {
      return fmt::format("({} {} {})", of(e.parts[0]), sign, of(e.parts[1]));
    };
    switch (e.kind) {
      case Expression::Kind::number:
        return std::to_string(e.value);
      case Expression::Kind::variable:
        return name(e.value);
      case Expression::Kind::element:
        return element(static_cast<int>(e.value), e.parts.data());
      case Expression::Kind::plus:
        return both("+");
      case Expression::Kind::minus:
        return both("-");
      case Expression::Kind::times:
        return both("*");
      case Expression::Kind::over:
        return both("/");
      case Expression::Kind::rest:
        return both("%");
      case Expression::Kind::least:
        return fmt::format("least({}, {})", of(e.parts[0]), of(e.parts[1]));
      case Expression::Kind::most:
        return fmt::format("most({}, {})", of(e.parts[0]), of(e.parts[1]));
      case Expression::Kind::ceil:
        return fmt::format("(({0} + {1} - 1) / {1})", of(e.parts[0]), of(e.parts[1]));
      default:
        throw BadFile(d_.file, e.line, 0, "an expression that only the conversion has is in a kernel");
    }
  }
  // The same without the brackets around it.
  std::string bare(const Expression& e) {
    std::string text = of(e);
    const bool binary = e.kind == Expression::Kind::plus || e.kind == Expression::Kind::minus ||
                        e.kind == Expression::Kind::times || e.kind == Expression::Kind::over ||
                        e.kind == Expression::Kind::rest || e.kind == Expression::Kind::ceil;
    return binary ? text.substr(1, text.size() - 2) : text;
  }
  std::string condition(const Statement& s) {
    static constexpr std::string_view signs[] = {"<", "<=", ">", ">=", "==", "!="};
    return fmt::format("{} {} {}", bare(s.parts[0]), signs[static_cast<int>(s.relation)], bare(s.parts[1]));
  }
  // The number of the sum within the loops over sums.
  std::string sum_number() {
    std::string number = "0";
    for (const int place : nest_.sums) {
      const Statement& s = at(place);
      const std::int64_t from = constant(d_, s.parts[0]), count = constant(d_, s.parts[1]) - from;
      const std::string here =
          from == 0 ? name(s.variable) : fmt::format("({} - {})", name(s.variable), from);
      number = number == "0" ? here : fmt::format("({} * {} + {})", number, count, here);
    }
    return number;
  }

  // ---- the body

  void body() {
    if (runs_) {
      line("integer open_row = -1;");
      line("real open_sum = 0;");
    }
    if (on_gpu_) {
      open("for (integer item = first; item < last; ++item) {{");
      items();
      behind_parallel();
      close();
    } else {
      step(0);
    }
    if (runs_) line("if (open_row >= 0) add(y + open_row, alpha * open_sum);");
  }
  // The loop variables of the parallel loops from the number of an item; the last one changes first.
  void items() {
    line("integer left = item;");
    for (int i = nest_.parallel - 1; i >= 0; --i) {
      const Statement& s = at(nest_.loops[static_cast<std::size_t>(i)]);
      const std::string from = of(s.parts[0]), to = of(s.parts[1]);
      if (i == 0)
        line("const integer {} = {} + left;", name(s.variable), from);
      else {
        line("const integer {0} = {1} + left % ({2} - {1});", name(s.variable), from, to);
        line("left /= {} - {};", to, from);
      }
    }
  }
  // What stands between and behind the parallel loops, whose headers items() has replaced.
  void behind_parallel() {
    const int last = nest_.loops[static_cast<std::size_t>(nest_.parallel - 1)];
    without_headers(0, last);
  }
  void without_headers(int place, int last) {
    if (place == last) return last == nest_.base ? at_base(last + 1) : step(last + 1);
    simple(place, [&] { without_headers(place + 1, last); });
  }
  // A let or a condition, and what follows it; nothing for what only the conversion does.
  template <class Rest>
  void simple(int place, const Rest& rest) {
    const Statement& s = at(place);
    if (s.kind == Kind::where) {
      open("if ({}) {{", condition(s));
      rest();
      close();
      return;
    }
    if (s.kind == Kind::let && !variable(s.variable).host_only)
      line("const integer {} = {};", name(s.variable), bare(variable(s.variable).definition));
    rest();
  }
  void step(int place) {
    const Statement& s = at(place);
    if (s.kind == Kind::product) return multiply(s);
    if (s.kind != Kind::loop) return simple(place, [&] { step(place + 1); });
    const std::string v = name(s.variable);
    if (place == nest_.innermost && strategy_.unroll > 1 && !on_gpu_) return unrolled(place);
    if (place == 0) {
      open("for (integer {0} = begin; {0} < end; ++{0}) {{", v);
    } else {
      if (place == nest_.innermost && strategy_.unroll > 1) line("#pragma unroll {}", strategy_.unroll);
      if (place == nest_.split && lanes_ > 1)
        open("for (integer {0} = {1} + lane; {0} < {2}; {0} += {3}) {{", v, of(s.parts[0]), of(s.parts[1]),
             lanes_);
      else
        open("for (integer {0} = {1}; {0} < {2}; ++{0}) {{", v, of(s.parts[0]), of(s.parts[1]));
    }
    if (place == nest_.base)
      at_base(place + 1);
    else
      step(place + 1);
    close();
  }
  // Several sums, which do not wait for each other.
  void unrolled(int place) {
    const Statement& s = at(place);
    const std::string v = name(s.variable);
    line("integer at_{} = {};", v, of(s.parts[0]));
    line("const integer end_{} = {};", v, of(s.parts[1]));
    open("for (; at_{0} + {1} <= end_{0}; at_{0} += {1}) {{", v, strategy_.unroll);
    open("for (int u = 0; u < {}; ++u) {{", strategy_.unroll);
    line("const integer {0} = at_{0} + u;", v);
    part_ = "u";
    step(place + 1);
    close();
    close();
    open("for (integer {0} = at_{0}; {0} < end_{0}; ++{0}) {{", v);
    part_ = "0";
    step(place + 1);
    close();
    part_.clear();
  }
  bool in_parts() const { return !on_gpu_ && strategy_.unroll > 1 && nest_.innermost >= 0; }
  void at_base(int place) {
    const Statement& s = at(place);
    if (s.kind != Kind::loop && s.kind != Kind::product) return simple(place, [&] { at_base(place + 1); });
    line("real sum[{}] = {{}};", nest_.count);
    if (in_parts()) line("real part[{}] = {{}};", strategy_.unroll * nest_.count);
    step(place);
    if (in_parts())
      line("for (int u = 0; u < {0}; ++u) for (int s = 0; s < {1}; ++s) sum[s] += part[u * {1} + s];",
           strategy_.unroll, nest_.count);
    if (lanes_ > 1) {
      line("for (int s = 0; s < {}; ++s)", nest_.count);
      line("  for (int step = {}; step > 0; step /= 2) sum[s] += __shfl_down_sync(group, sum[s], step, {});",
           lanes_ / 2, lanes_);
      open("if (lane == 0) {{");
    }
    write(0, place);
    if (lanes_ > 1) close();
  }
  void multiply(const Statement& s) {
    const std::string value = element(s.array, s.parts.data() + 1),
                      target = part_.empty()
                                   ? fmt::format("sum[{}]", sum_number())
                                   : fmt::format("part[{} * {} + {}]", part_, nest_.count, sum_number());
    line("{} += {} * x[{}];", target, value, bare(s.parts.back()));
  }
  // Rows of y at the end of an iteration of base. What stands before place `from` is known there.
  void write(std::size_t i, int from) {
    if (i < nest_.flush.size()) {
      const int place = nest_.flush[i];
      if (place < from) return write(i + 1, from);
      const Statement& s = at(place);
      if (s.kind != Kind::loop) return simple(place, [&] { write(i + 1, from); });
      open("for (integer {0} = {1}; {0} < {2}; ++{0}) {{", name(s.variable), of(s.parts[0]), of(s.parts[1]));
      write(i + 1, from);
      close();
      return;
    }
    line("const integer row = {};", bare(nest_.path.back()->parts[0]));
    const std::string sum = fmt::format("sum[{}]", sum_number());
    if (runs_) {
      open("if (row != open_row) {{");
      line("if (open_row >= 0) add(y + open_row, alpha * open_sum);");
      line("open_row = row, open_sum = 0;");
      close();
      line("open_sum += {};", sum);
    } else if (nest_.shared) {
      line("add(y + row, alpha * {});", sum);
    } else {
      line("const real product = alpha * {};", sum);
      line("y[row] = !once ? y[row] + product : beta == 0 ? product : product + beta * y[row];");
    }
  }

  // ---- around it

  std::string type_of(int a) const { return array(a).kind == Array::Kind::values ? "real" : "int"; }
  std::string function(const std::string& inside) {
    indent_ = 0;
    line(
        "extern \"C\" void nest_{}(const void* const* arrays, const integer* numbers, integer begin, integer "
        "end, real alpha,",
        number_);
    open("                       const real* x, int once, real beta, real* y) {{");
    unpack();
    text_ += inside + "}\n";
    return std::move(text_);
  }
  void unpack() {
    for (const int a : arrays_)
      line("const {0}* const a_{1} = static_cast<const {0}*>(arrays[{2}]);", type_of(a), array(a).name, a);
    for (const int v : numbers_) line("const integer v_{} = numbers[{}];", variable(v).name, v);
    for (const auto& [a, dimension] : extents_)
      line("const integer e_{}_{} = numbers[{}];", array(a).name, dimension,
           extent_number(d_, static_cast<std::size_t>(a), static_cast<std::size_t>(dimension)));
    if (nest_.shared) line("(void)once, (void)beta;");
    if (arrays_.empty()) line("(void)arrays;");
    if (numbers_.empty() && extents_.empty()) line("(void)numbers;");
  }
  std::string kernel(const std::string& inside) {
    std::string parameters, arguments;
    for (const int a : arrays_) {
      parameters += fmt::format("const {}* __restrict__ a_{}, ", type_of(a), array(a).name);
      arguments += fmt::format("static_cast<const {}*>(arrays[{}]), ", type_of(a), a);
    }
    for (const int v : numbers_) {
      parameters += fmt::format("integer v_{}, ", variable(v).name);
      arguments += fmt::format("numbers[{}], ", v);
    }
    for (const auto& [a, dimension] : extents_) {
      parameters += fmt::format("integer e_{}_{}, ", array(a).name, dimension);
      arguments += fmt::format("numbers[{}], ", extent_number(d_, static_cast<std::size_t>(a),
                                                              static_cast<std::size_t>(dimension)));
    }
    indent_ = 0;
    line(
        "static __global__ void kernel_{}({}integer items, real alpha, const real* __restrict__ x, int once, "
        "real beta,",
        number_, parameters);
    line("                         real* __restrict__ y) {{");
    ++indent_;
    line("const integer thread = static_cast<integer>(blockIdx.x) * blockDim.x + threadIdx.x;");
    line("const integer first = thread / {} * {}, last = least(items, first + {});", lanes_, chunk_, chunk_);
    if (lanes_ > 1) {
      line("const int lane = static_cast<int>(threadIdx.x) % {};", lanes_);
      line("const unsigned group = {}u << (static_cast<int>(threadIdx.x) % 32 / {} * {});",
           lanes_ == 32 ? 0xffffffffu : (1u << lanes_) - 1, lanes_, lanes_);
    }
    if (nest_.shared) line("(void)once, (void)beta;");
    text_ += inside + "}\n";
    indent_ = 0;
    line(
        "extern \"C\" int launch_{}(const void* const* arrays, const integer* numbers, integer items, real "
        "alpha, const real* x,",
        number_);
    line("                        int once, real beta, real* y, int device, void* stream) {{");
    ++indent_;
    line("const integer threads = (items + {} - 1) / {} * {}, blocks = (threads + {} - 1) / {};", chunk_,
         chunk_, lanes_, strategy_.threads, strategy_.threads);
    line("if (blocks == 0) return 0;");
    // The library has a runtime of its own, which does not know the device of the caller.
    line("if (const cudaError_t error = cudaSetDevice(device)) return static_cast<int>(error);");
    line(
        "kernel_{}<<<static_cast<unsigned>(blocks), {}, 0, static_cast<cudaStream_t>(stream)>>>({}items, "
        "alpha, x, once, beta, y);",
        number_, strategy_.threads, arguments);
    line("return static_cast<int>(cudaGetLastError());");
    text_ += "}\n";
    return std::move(text_);
  }
  const Description& d_;
  const Nest& nest_;
  std::size_t number_;
  const Strategy& strategy_;
  Target target_;
  bool on_gpu_ = false, runs_ = false;
  int lanes_ = 1, chunk_ = 1, indent_ = 0;
  std::string text_, part_;
  std::set<int> arrays_, numbers_;
  std::set<std::pair<int, int>> extents_;
};

}  // namespace

std::string Strategy::text(Target target) const {
  const std::string common = fmt::format("turned={} unroll={}", turned ? "yes" : "no", unroll);
  return target == Target::host
             ? common
             : fmt::format("{} lanes={} threads={} chunk={}", common, lanes, threads, chunk);
}

void check(const Strategy& s, Target target) {
  const auto within = [](std::string_view what, int value, int smallest, int largest) {
    if (value < smallest || value > largest)
      throw BadArgument(fmt::format("{} is {}; it must be from {} to {}", what, value, smallest, largest));
  };
  within("unroll", s.unroll, 1, 16);
  if (target == Target::host) return;
  within("lanes", s.lanes, 1, 32), within("threads", s.threads, 32, 1024), within("chunk", s.chunk, 1, 1024);
  if ((s.lanes & (s.lanes - 1)) != 0)
    throw BadArgument(
        fmt::format("lanes is {}; it must be a power of two, because the sums of lanes are halved", s.lanes));
  if (s.threads % 32 != 0)
    throw BadArgument(fmt::format("threads is {}; it must be a multiple of 32", s.threads));
}

std::string generated_source(const Description& d, const std::vector<Nest>& nests, const Strategy& strategy,
                             Target target, bool single_precision) {
  check(strategy, target);
  std::string text =
      fmt::format("// Generated from the description of format {}; {}.\n", d.name, strategy.text(target));
  if (target == Target::host) text += "#include <atomic>\n";
  text += fmt::format("namespace {{\nusing integer = long long;\nusing real = {};\n",
                      single_precision ? "float" : "double");
  for (const Variable& v : d.variables)
    if (v.kind == Variable::Kind::size)
      text += fmt::format("[[maybe_unused]] constexpr integer v_{} = {};\n", v.name, v.value);
  const std::string_view inline_word = target == Target::host ? "inline" : "__device__ inline";
  for (const auto& [name, sign] : {std::pair{"least", "<"}, std::pair{"most", ">"}})
    text += fmt::format("[[maybe_unused]] {} integer {}(integer a, integer b) {{ return a {} b ? a : b; }}\n",
                        inline_word, name, sign);
  text += target == Target::host
              ? "[[maybe_unused]] inline void add(real* y, real more) { "
                "std::atomic_ref<real>(*y).fetch_add(more, std::memory_order_relaxed); }\n"
              : "[[maybe_unused]] __device__ inline void add(real* y, real more) { atomicAdd(y, more); }\n";
  text += "}  // namespace\n";
  for (std::size_t i = 0; i < nests.size(); ++i)
    text += "\n" + Writer(d, nests[i], i, strategy, target).text();
  return text;
}

}  // namespace protean::research
