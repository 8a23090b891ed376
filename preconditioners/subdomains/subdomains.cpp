#include "preconditioners/subdomains/subdomains.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "core/parallel.hpp"
#include "core/partition.hpp"

namespace protean::detail {
namespace {

// The own rows of all subdomains, one after another.
struct Groups {
  std::vector<std::int64_t> first = {0};
  std::vector<std::int32_t> row;
  std::int64_t count() const noexcept { return static_cast<std::int64_t>(first.size()) - 1; }
  std::span<const std::int32_t> of(std::int64_t s) const {
    return std::span(row).subspan(static_cast<std::size_t>(first[s]),
                                  static_cast<std::size_t>(first[s + 1] - first[s]));
  }
};

Groups in_order(std::int64_t n, std::int64_t size) {
  Groups made;
  made.row.resize(static_cast<std::size_t>(n));
  std::iota(made.row.begin(), made.row.end(), 0);
  for (std::int64_t end = 0; end < n;) made.first.push_back(end = std::min(n, end + size));
  return made;
}

// By METIS, in the order of their first rows, so that neighbouring subdomains have neighbouring memory.
Groups by_metis(const Context& host, const SparsityPattern& A, std::int64_t size) {
  const std::int64_t n = A.rows, parts = (n + size - 1) / size;
  const std::vector<std::int32_t> part = metis_parts(host, A, parts, "take partition: order");
  std::vector<std::int32_t> number(static_cast<std::size_t>(parts), -1);
  Groups made;
  std::vector<std::int64_t> rows;
  for (const std::int32_t p : part) {
    if (number[p] < 0) number[p] = static_cast<std::int32_t>(rows.size()), rows.push_back(0);
    ++rows[number[p]];
  }
  for (const std::int64_t one : rows) made.first.push_back(made.first.back() + one);
  std::vector<std::int64_t> next(made.first.begin(), made.first.end() - 1);
  made.row.resize(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) made.row[next[number[part[i]]]++] = static_cast<std::int32_t>(i);
  return made;
}

// One subdomain while it is made.
struct Local {
  std::vector<std::int32_t> row, place, lower_ptr, upper_ptr, lower, upper, level;
};

// Makes one after another with arrays that are used again.
class Maker {
 public:
  Maker(const SparsityPattern& A, std::int64_t overlap)
      : A_(A), overlap_(overlap), local_of_(static_cast<std::size_t>(A.rows), 0) {}

  Local operator()(std::span<const std::int32_t> own) {
    Local made;
    find_rows(own, made);
    find_levels(made);
    const auto m = static_cast<std::int32_t>(rows_.size());
    made.lower_ptr.assign(rows_.size() + 1, 0), made.upper_ptr.assign(rows_.size() + 1, 0);
    for (std::int32_t p = 0; p < m; ++p) {
      const std::int32_t i = at_[p];
      for_local(i, [&](std::int32_t j) {
        if (j != i) (j < i ? made.lower : made.upper).push_back(made.place[j]);
      });
      std::sort(made.lower.begin() + made.lower_ptr[p], made.lower.end());
      std::sort(made.upper.begin() + made.upper_ptr[p], made.upper.end());
      made.lower_ptr[p + 1] = static_cast<std::int32_t>(made.lower.size());
      made.upper_ptr[p + 1] = static_cast<std::int32_t>(made.upper.size());
    }
    return made;
  }

 private:
  // The rows ascending in rows_, with the mark of the halo in made.row.
  void find_rows(std::span<const std::int32_t> own, Local& made) {
    rows_.assign(own.begin(), own.end());
    if (overlap_ > 0) {
      for (const std::int32_t i : own)
        for (const std::int32_t j : A_.row(i)) rows_.push_back(j);
      std::sort(rows_.begin(), rows_.end());
      rows_.erase(std::unique(rows_.begin(), rows_.end()), rows_.end());
    }
    for (std::size_t k = 0; k < rows_.size(); ++k) local_of_[rows_[k]] = static_cast<std::int32_t>(k);
    made.row.resize(rows_.size());
    std::transform(rows_.begin(), rows_.end(), made.row.begin(), [](std::int32_t i) { return ~i; });
    for (const std::int32_t i : own) made.row[local_of_[i]] = i;
  }

  // visit(the number of the row in this subdomain) for the columns of row i of it, ascending.
  template <class Visit>
  void for_local(std::int32_t i, Visit visit) const {
    for (const std::int32_t j : A_.row(rows_[i])) {
      const auto local = static_cast<std::size_t>(local_of_[j]);  // perhaps left over from another subdomain
      if (local < rows_.size() && rows_[local] == j) visit(static_cast<std::int32_t>(local));
    }
  }

  void find_levels(Local& made) {
    const auto m = static_cast<std::int32_t>(rows_.size());
    level_.assign(rows_.size(), 0);
    std::int32_t levels = m > 0 ? 1 : 0;
    for (std::int32_t i = 0; i < m; ++i) {
      for_local(i, [&](std::int32_t j) {
        if (j < i) level_[i] = std::max(level_[i], level_[j] + 1);
      });
      for_local(i, [&](std::int32_t j) {
        if (j > i) level_[j] = std::max(level_[j], level_[i] + 1);
      });
      levels = std::max(levels, level_[i] + 1);
    }
    made.level.assign(static_cast<std::size_t>(levels) + 1, 0);
    for (const std::int32_t level : level_) ++made.level[level + 1];
    std::partial_sum(made.level.begin(), made.level.end(), made.level.begin());
    std::vector<std::int32_t> next(made.level.begin(), made.level.end() - 1);
    made.place.resize(rows_.size()), at_.resize(rows_.size());
    for (std::int32_t i = 0; i < m; ++i) {
      made.place[i] = next[level_[i]]++;
      at_[made.place[i]] = i;
    }
  }

  const SparsityPattern& A_;
  std::int64_t overlap_;
  std::vector<std::int32_t> local_of_, rows_, level_, at_;
};

constexpr std::int64_t whole_words(std::int64_t entries) { return (entries + 3) / 4 * 4; }

}  // namespace

std::int64_t subdomain_size_on_host(std::int64_t n) noexcept {
  constexpr std::int64_t smallest = 1024, subdomains = 64;
  return std::max(smallest, (n + subdomains - 1) / subdomains);
}

Subdomains make_subdomains(const ContextPtr& host, const SparsityPattern& A, std::int64_t size,
                           SubdomainPartition partition, std::int64_t overlap) {
  const Groups groups =
      partition == SubdomainPartition::order ? in_order(A.rows, size) : by_metis(*host, A, size);
  const std::int64_t count = groups.count();
  std::vector<Local> locals(static_cast<std::size_t>(count));
  const int parts = useful_parts(*host, A.nonzeros);
  parallel(parts, [&](int part, int of) {
    const Range mine = even_range(count, part, of);
    Maker make(A, overlap);
    for (std::int64_t s = mine.begin; s < mine.end; ++s) checkpoint(), locals[s] = make(groups.of(s));
  });
  Subdomains made;
  made.n = A.rows, made.count = count, made.size = size;
  made.first = Buffer<std::int64_t>(host, count + 1),
  made.level_first = Buffer<std::int64_t>(host, count + 1);
  made.lower.first = Buffer<std::int64_t>(host, count + 1);
  made.upper.first = Buffer<std::int64_t>(host, count + 1);
  made.first[0] = made.level_first[0] = made.lower.first[0] = made.upper.first[0] = 0;
  for (std::int64_t s = 0; s < count; ++s) {
    const Local& one = locals[s];
    const std::int64_t rows = std::ssize(one.row), lower = std::ssize(one.lower),
                       upper = std::ssize(one.upper);
    made.first[s + 1] = made.first[s] + rows;
    made.level_first[s + 1] = made.level_first[s] + std::ssize(one.level);
    made.lower.first[s + 1] = made.lower.first[s] + whole_words(lower);
    made.upper.first[s + 1] = made.upper.first[s] + whole_words(upper);
    made.entries += lower + upper;
    made.most_rows = std::max(made.most_rows, rows);
    made.most_levels = std::max(made.most_levels, std::ssize(one.level) - 1);
  }
  const std::int64_t places = made.first[count];
  made.row = Buffer<std::int32_t>(host, places), made.place = Buffer<std::int32_t>(host, places);
  made.level = Buffer<std::int32_t>(host, made.level_first[count]);
  for (SubdomainTriangle* const triangle : {&made.lower, &made.upper}) {
    triangle->ptr = Buffer<std::int32_t>(host, places + count);
    triangle->col = Buffer<std::int32_t>(host, triangle->first[count]);
  }
  parallel(parts, [&](int part, int of) {
    const Range mine = even_range(count, part, of);
    for (std::int64_t s = mine.begin; s < mine.end; ++s) {
      const Local one = std::exchange(locals[s], {});
      std::copy(one.row.begin(), one.row.end(), made.row.data() + made.first[s]);
      std::copy(one.place.begin(), one.place.end(), made.place.data() + made.first[s]);
      std::copy(one.level.begin(), one.level.end(), made.level.data() + made.level_first[s]);
      const auto put = [&](const std::vector<std::int32_t>& ptr, const std::vector<std::int32_t>& col,
                           SubdomainTriangle& to) {
        std::copy(ptr.begin(), ptr.end(), to.ptr.data() + made.first[s] + s);
        std::int32_t* const begin = to.col.data() + to.first[s];
        std::fill(std::copy(col.begin(), col.end(), begin), to.col.data() + to.first[s + 1], 0);
      };
      put(one.lower_ptr, one.lower, made.lower), put(one.upper_ptr, one.upper, made.upper);
    }
  });
  return made;
}

}  // namespace protean::detail
