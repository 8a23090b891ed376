#include "research/describe/convert.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/error.hpp"

namespace protean::research {
namespace {

using Kind = Expression::Kind;

constexpr std::int64_t largest_index = std::numeric_limits<std::int32_t>::max();
// Of values: which entry of the matrix lies there.
constexpr std::int64_t no_entry = -2, not_stored = -1;

class Converter {
 public:
  Converter(const Description& d, const std::vector<Nest>& nests, const CsrMatrix<double>& matrix,
            bool turned)
      : d_(d), nests_(nests), matrix_(matrix), pattern_(matrix.pattern), turned_(turned) {
    result_.numbers.assign(d.variables.size(), 0);
    result_.extents.resize(d.arrays.size());
    result_.index.resize(d.arrays.size());
    result_.values.resize(d.arrays.size());
    entry_at_.resize(d.arrays.size());
    set(rows_v, pattern_.rows), set(cols_v, pattern_.cols), set(nonzeros_v, pattern_.nonzeros);
    std::int64_t longest = 0;
    for (std::int64_t i = 0; i < pattern_.rows; ++i) longest = std::max(longest, pattern_.row_length(i));
    set(longest_v, longest);
    for (std::size_t v = 0; v < d.variables.size(); ++v)
      if (d.variables[v].kind == Variable::Kind::size) set(static_cast<int>(v), d.variables[v].value);
  }

  Converted run() {
    order_rows();
    for (const auto& [is_array, number] : d_.steps)
      if (is_array)
        make_array(number);
      else
        set(number, of(variable(number).definition));
    visits_.assign(static_cast<std::size_t>(pattern_.nonzeros), 0);
    for (const bool checking : {false, true}) {
      checking_ = checking;
      for (const Nest& nest : nests_) run_nest(nest);
    }
    for (std::int64_t i = 0; i < pattern_.rows; ++i)
      for (std::int64_t e = pattern_.row_ptr[i]; e < pattern_.row_ptr[i + 1]; ++e)
        if (visits_[static_cast<std::size_t>(e)] == 0)
          fail(d_.loops.back().line,
               fmt::format("no point of the loops multiplies the entry in row {}, column {}", i,
                           pattern_.col[e]));
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(int line, const std::string& message) const {
    throw BadFile(d_.file, line, 0, message);
  }
  const Variable& variable(std::int64_t v) const { return d_.variables[static_cast<std::size_t>(v)]; }
  const Array& array(std::int64_t a) const { return d_.arrays[static_cast<std::size_t>(a)]; }
  void set(int v, std::int64_t value) { result_.numbers[static_cast<std::size_t>(v)] = value; }
  std::int64_t get(std::int64_t v) const { return result_.numbers[static_cast<std::size_t>(v)]; }

  void order_rows() {
    position_.resize(static_cast<std::size_t>(pattern_.rows));
    std::iota(position_.begin(), position_.end(), 0);
    if (!d_.ordered) return;
    std::int64_t window =
        d_.window.kind == Kind::number && d_.window.value == 0 ? pattern_.rows : of(d_.window);
    window = std::max<std::int64_t>(1, window);
    for (std::int64_t begin = 0; begin < pattern_.rows; begin += window)
      std::stable_sort(
          position_.begin() + begin, position_.begin() + std::min(begin + window, pattern_.rows),
          [&](std::int64_t a, std::int64_t b) { return pattern_.row_length(a) > pattern_.row_length(b); });
  }

  // ---- expressions

  std::int64_t row_at(std::int64_t p, int line) const {
    if (p < 0 || p >= pattern_.rows)
      fail(line, fmt::format("position {} is asked for; there are {}", p, pattern_.rows));
    return position_[static_cast<std::size_t>(p)];
  }
  std::int64_t place(int a, const std::vector<Expression>& indices, std::size_t first, std::size_t count,
                     int line) {
    const std::vector<std::int64_t>& extents = result_.extents[static_cast<std::size_t>(a)];
    std::int64_t at[2] = {0, 0};
    for (std::size_t i = 0; i < count; ++i) {
      at[i] = of(indices[first + i]);
      if (at[i] < 0 || at[i] >= extents[i])
        fail(line,
             fmt::format("{} is read or stored at {}; {}", array(a).name, at[i],
                         extents[i] == 0 ? "it is empty" : fmt::format("it ends at {}", extents[i] - 1)));
    }
    return place_in(extents, at[0], at[1], turned_);
  }
  std::int64_t combined(Kind kind, std::int64_t a, std::int64_t b, int line) const {
    std::int64_t result = 0;
    const bool too_large = kind == Kind::plus    ? __builtin_add_overflow(a, b, &result)
                           : kind == Kind::minus ? __builtin_sub_overflow(a, b, &result)
                                                 : __builtin_mul_overflow(a, b, &result);
    if (too_large) fail(line, "a number is beyond 2^63");
    return result;
  }
  std::int64_t quotient(const Expression& e, bool rest) {
    const std::int64_t a = of(e.parts[0]), b = of(e.parts[1]);
    if (b == 0) fail(e.line, "a number is divided by 0");
    if (b == -1) return rest ? 0 : combined(Kind::minus, 0, a, e.line);
    return rest ? a % b : a / b;
  }
  std::int64_t over_range(const Expression& e) {
    const std::int64_t from = of(e.parts[0]), to = of(e.parts[1]);
    std::int64_t result = 0;
    for (std::int64_t i = from; i < to; ++i) {
      set(static_cast<int>(e.value), i);
      const std::int64_t one = of(e.parts[2]);
      result = e.kind == Kind::sum_of ? combined(Kind::plus, result, one, e.line)
               : i == from            ? one
                                      : std::max(result, one);
    }
    return result;
  }
  std::int64_t of(const Expression& e) {
    switch (e.kind) {
      case Kind::number:
        return e.value;
      case Kind::variable:
        return get(e.value);
      case Kind::element: {
        const auto a = static_cast<int>(e.value);
        if (array(a).kind == Array::Kind::values) fail(e.line, "an array of values is no index");
        return result_.index[static_cast<std::size_t>(a)]
                            [static_cast<std::size_t>(place(a, e.parts, 0, e.parts.size(), e.line))];
      }
      case Kind::plus:
      case Kind::minus:
      case Kind::times: {
        const std::int64_t a = of(e.parts[0]);
        return combined(e.kind, a, of(e.parts[1]), e.line);
      }
      case Kind::over:
        return quotient(e, false);
      case Kind::rest:
        return quotient(e, true);
      case Kind::least:
        return std::min(of(e.parts[0]), of(e.parts[1]));
      case Kind::most:
        return std::max(of(e.parts[0]), of(e.parts[1]));
      case Kind::ceil: {
        const std::int64_t a = of(e.parts[0]), b = of(e.parts[1]);
        if (b <= 0 || a < 0) fail(e.line, "ceil(a, b) takes an a of at least 0 and a b above 0");
        return a / b + (a % b != 0);
      }
      case Kind::length:
        return pattern_.row_length(row_at(of(e.parts[0]), e.line));
      case Kind::row_at:
        return row_at(of(e.parts[0]), e.line);
      case Kind::find: {
        const std::vector<std::int32_t>& scan = result_.index[static_cast<std::size_t>(e.value)];
        const auto found = std::upper_bound(scan.begin(), scan.end(), of(e.parts[0]));
        if (found == scan.begin() || found == scan.end())
          fail(e.line, fmt::format("find() looks for a number that {} does not reach", array(e.value).name));
        return found - scan.begin() - 1;
      }
      case Kind::count:
        return static_cast<std::int64_t>(result_.index[static_cast<std::size_t>(e.value)].size());
      case Kind::most_of:
      case Kind::sum_of:
        return over_range(e);
    }
    return 0;
  }

  // ---- arrays

  std::int32_t narrow(std::int64_t value, int line) const {
    if (value < -largest_index - 1 || value > largest_index)
      fail(line, fmt::format("the index {} needs more than 32 bits", value));
    return static_cast<std::int32_t>(value);
  }
  std::int64_t size_of(const Expression& e, const Array& a) {
    const std::int64_t size = of(e);
    if (size < 0 || size > largest_index)
      fail(a.line,
           fmt::format("array {} would have {} elements; it may have 0 to {}", a.name, size, largest_index));
    return size;
  }
  void make_array(int number) {
    const Array& a = array(number);
    const auto at = static_cast<std::size_t>(number);
    std::int64_t elements = 1;
    for (const Expression& e : a.extents) {
      result_.extents[at].push_back(size_of(e, a));
      elements *= result_.extents[at].back();
    }
    if (elements > largest_index)
      fail(a.line,
           fmt::format("array {} would have {} elements; it may have {}", a.name, elements, largest_index));
    std::vector<std::int32_t>& index = result_.index[at];
    switch (a.kind) {
      case Array::Kind::values:
        result_.values[at].assign(static_cast<std::size_t>(elements), 0.0);
        entry_at_[at].assign(static_cast<std::size_t>(elements), not_stored);
        break;
      case Array::Kind::stored:
        index.assign(static_cast<std::size_t>(elements), 0);
        break;
      case Array::Kind::computed:
      case Array::Kind::scan:
        define(a, index);
        result_.extents[at] = {static_cast<std::int64_t>(index.size())};
        break;
      case Array::Kind::list:
        make_list(a, at);
        break;
      case Array::Kind::list_start:
        break;  // with its list
    }
  }
  void define(const Array& a, std::vector<std::int32_t>& index) {
    const std::int64_t size = size_of(a.extents[0], a);
    std::int64_t sum = 0;  // each part and each sum has 32 bits
    for (std::int64_t i = 0; i < size; ++i) {
      set(a.variable, i);
      const std::int64_t value = of(a.definition);
      index.push_back(narrow(a.kind == Array::Kind::scan ? sum : value, a.line));
      if (a.kind != Array::Kind::scan) continue;
      if (value < 0) fail(a.line, "scan adds a negative number");
      sum += narrow(value, a.line);
    }
    if (a.kind == Array::Kind::scan) index.push_back(narrow(sum, a.line));
  }
  // The distinct numbers of all entries, or of the entries of each group, ascending.
  void make_list(const Array& a, std::size_t at) {
    std::int64_t groups = 1;
    if (a.start >= 0) groups = size_of(array(a.start).extents[0], array(a.start));
    std::vector<std::pair<std::int64_t, std::int64_t>> all;
    for (std::int64_t i = 0; i < pattern_.rows; ++i)
      for (const std::int32_t j : pattern_.row(i)) {
        set(row_v, i), set(column_v, j);
        const std::int64_t group = a.start >= 0 ? of(a.group) : 0;
        if (group < 0 || group >= groups)
          fail(a.line, fmt::format("the entry in row {}, column {} is of group {}; there are {}", i, j, group,
                                   groups));
        all.emplace_back(group, of(a.definition));
      }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    std::vector<std::int32_t>& list = result_.index[at];
    for (const auto& [group, value] : all) list.push_back(narrow(value, a.line));
    result_.extents[at] = {static_cast<std::int64_t>(list.size())};
    if (a.start < 0) return;
    std::vector<std::int32_t>& start = result_.index[static_cast<std::size_t>(a.start)];
    start.assign(static_cast<std::size_t>(groups) + 1, 0);
    for (const auto& [group, value] : all) ++start[static_cast<std::size_t>(group) + 1];
    std::partial_sum(start.begin(), start.end(), start.begin());
    result_.extents[static_cast<std::size_t>(a.start)] = {groups + 1};
  }

  // ---- loops

  void run_nest(const Nest& nest) {
    nest_ = &nest;
    iteration_ = 0;
    if (checking_) {
      written_.assign(static_cast<std::size_t>(pattern_.rows), 0);
      writer_.assign(static_cast<std::size_t>(pattern_.rows), -1);
      std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
      for (int i = 0; i < nest.parallel; ++i) {
        const Statement& s = *nest.path[static_cast<std::size_t>(nest.loops[static_cast<std::size_t>(i)])];
        ranges.emplace_back(of(s.parts[0]), of(s.parts[1]));
      }
      result_.ranges.push_back(std::move(ranges));
    }
    step(0);
    if (checking_)
      result_.writes_each_row_once.push_back(
          std::all_of(written_.begin(), written_.end(), [](int count) { return count == 1; }) &&
          !nest.shared);
  }
  bool holds(const Statement& s) {
    const std::int64_t a = of(s.parts[0]), b = of(s.parts[1]);
    switch (s.relation) {
      case Relation::less:
        return a < b;
      case Relation::at_most:
        return a <= b;
      case Relation::more:
        return a > b;
      case Relation::at_least:
        return a >= b;
      case Relation::equal:
        return a == b;
      case Relation::other:
        return a != b;
    }
    return false;
  }
  void step(std::size_t at) {
    const Statement& s = *nest_->path[at];
    switch (s.kind) {
      case Statement::Kind::loop: {
        const std::int64_t from = of(s.parts[0]), to = of(s.parts[1]);
        for (std::int64_t i = from; i < to; ++i) {
          set(s.variable, i);
          entry_ = not_stored;
          if (s.loop != Statement::Loop::plain) ++iteration_;
          step(at + 1);
          // If a condition ends the iteration before the base, nothing is written.
          if (checking_ && static_cast<int>(at) == nest_->base && conditions_hold(nest_->base + 1)) write(0);
        }
        return;
      }
      case Statement::Kind::let:
        set(s.variable, of(variable(s.variable).definition));
        break;
      case Statement::Kind::where:
        if (!holds(s)) return;
        break;
      case Statement::Kind::entry_of:
        take_of(s);
        break;
      case Statement::Kind::entry_at:
        take_at(s);
        break;
      case Statement::Kind::store:
        if (!checking_) store(s);
        break;
      case Statement::Kind::product:
        if (checking_) check_product(s);
        return;
    }
    step(at + 1);
  }
  // The conditions and lets between base and the first loop behind it. What is not repeated at the end ends with them.
  bool conditions_hold(int place) {
    for (; nest_->path[static_cast<std::size_t>(place)]->kind != Statement::Kind::loop; ++place) {
      const Statement& s = *nest_->path[static_cast<std::size_t>(place)];
      if (s.kind == Statement::Kind::product) return true;
      if (s.kind == Statement::Kind::let) set(s.variable, of(variable(s.variable).definition));
      if (s.kind == Statement::Kind::where && !holds(s)) return false;
    }
    return true;
  }
  // The rows that the end of an iteration of base writes, as kernels do.
  void write(std::size_t at) {
    if (at < nest_->flush.size()) {
      const Statement& s = *nest_->path[static_cast<std::size_t>(nest_->flush[at])];
      if (s.kind == Statement::Kind::where) return holds(s) ? write(at + 1) : void();
      if (s.kind == Statement::Kind::let) {
        set(s.variable, of(variable(s.variable).definition));
        return write(at + 1);
      }
      for (std::int64_t i = of(s.parts[0]); i < of(s.parts[1]); ++i) {
        set(s.variable, i);
        write(at + 1);
      }
      return;
    }
    const Statement& product = *nest_->path.back();
    const std::int64_t row = of(product.parts[0]);
    if (row < 0 || row >= pattern_.rows)
      fail(product.line,
           fmt::format("y[{}] is written; y has {} rows. A `where` that needs only the loops of y's "
                       "index keeps it inside",
                       row, pattern_.rows));
    const auto r = static_cast<std::size_t>(row);
    if (!nest_->shared && writer_[r] >= 0 && writer_[r] != iteration_)
      fail(
          nest_->path[0]->line,
          fmt::format(
              "two iterations of the parallel loop write y[{}]; write `shared` in place of `parallel`", row));
    writer_[r] = iteration_;
    written_[r] = std::min(written_[r] + 1, 2);
  }

  void take_of(const Statement& s) {
    const std::int64_t k = of(s.parts[0]), row = row_at(of(s.parts[1]), s.line),
                       length = pattern_.row_length(row);
    if (k < 0) fail(s.line, fmt::format("entry {} of a row is asked for; they count from 0", k));
    set(row_v, row);
    entry_ = k < length ? pattern_.row_ptr[row] + k : no_entry;
    // Padding has the column of the last entry, so that it reads no x that the row does not read.
    set(column_v, length == 0 ? 0 : pattern_.col[pattern_.row_ptr[row] + std::min(k, length - 1)]);
  }
  void take_at(const Statement& s) {
    const std::int64_t row = of(s.parts[0]), column = of(s.parts[1]);
    if (row < 0 || row >= pattern_.rows || column < 0 || column >= pattern_.cols)
      fail(s.line, fmt::format("the entry at {}, {} is asked for; the matrix has {} x {}", row, column,
                               pattern_.rows, pattern_.cols));
    set(row_v, row), set(column_v, column);
    const auto all = pattern_.row(row);
    const auto found = std::lower_bound(all.begin(), all.end(), column);
    entry_ =
        found != all.end() && *found == column ? pattern_.row_ptr[row] + (found - all.begin()) : no_entry;
  }
  void store(const Statement& s) {
    if (entry_ == not_stored) fail(s.line, "store stands before `entry`, which says what is stored");
    const auto a = static_cast<std::size_t>(s.array);
    const auto at = static_cast<std::size_t>(place(s.array, s.parts, 0, s.parts.size() - 1, s.line));
    if (array(s.array).kind == Array::Kind::stored) {
      result_.index[a][at] = narrow(of(s.parts.back()), s.line);
      return;
    }
    if (entry_at_[a][at] != not_stored && entry_at_[a][at] != entry_)
      fail(s.line, fmt::format("{} holds two entries in one place", array(s.array).name));
    entry_at_[a][at] = entry_;
    result_.values[a][at] = entry_ == no_entry ? 0.0 : matrix_.values[entry_];
  }
  void check_product(const Statement& s) {
    const std::int64_t row = of(s.parts.front()), column = of(s.parts.back());
    const auto at = static_cast<std::size_t>(place(s.array, s.parts, 1, s.parts.size() - 2, s.line));
    if (column < 0 || column >= pattern_.cols)
      fail(s.line, fmt::format("x[{}] is read; x has {} entries", column, pattern_.cols));
    const std::int64_t entry = entry_at_[static_cast<std::size_t>(s.array)][at];
    if (entry == not_stored)
      fail(s.line, fmt::format("{} is read where nothing was stored", array(s.array).name));
    if (entry == no_entry) return;
    if (row < 0 || row >= pattern_.rows || entry < pattern_.row_ptr[row] ||
        entry >= pattern_.row_ptr[row + 1] || pattern_.col[entry] != column)
      fail(s.line,
           fmt::format(
               "the entry in column {} is multiplied as y[{}] += a x[{}], which is not where the matrix "
               "has it",
               pattern_.col[entry], row, column));
    if (visits_[static_cast<std::size_t>(entry)]++ > 0)
      fail(s.line, fmt::format("the entry in row {}, column {} is multiplied twice", row, column));
  }

  const Description& d_;
  const std::vector<Nest>& nests_;
  const CsrMatrix<double>& matrix_;
  const SparsityPattern& pattern_;
  const bool turned_;
  Converted result_;
  std::vector<std::int64_t> position_;  // the row at each position
  std::vector<std::vector<std::int64_t>> entry_at_;
  std::vector<char> visits_;
  const Nest* nest_ = nullptr;
  bool checking_ = false;
  std::int64_t entry_ = not_stored, iteration_ = 0;
  std::vector<int> written_;
  std::vector<std::int64_t> writer_;
};

}  // namespace

std::size_t Converted::bytes() const noexcept {
  std::size_t sum = 0;
  for (const auto& one : index) sum += one.size() * sizeof(std::int32_t);
  for (const auto& one : values) sum += one.size() * sizeof(double);
  return sum;
}

Converted convert(const Description& d, const std::vector<Nest>& nests, const CsrMatrix<double>& matrix,
                  bool turned) {
  return Converter(d, nests, matrix, turned).run();
}

}  // namespace protean::research
