#include "core/statistics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

#include "core/parallel.hpp"

namespace protean {
namespace {

// Rows are taken in blocks of this many. It is a multiple of 2, 3 and 4, so that no block of a blocked format
// is cut. Sums of doubles are made for each block, so that they do not depend on the number of threads.
constexpr std::int64_t block_rows = 4096 / 12 * 12;

// The sums over a block of rows.
struct Counts {
  std::int64_t longest = 0, shortest = std::numeric_limits<std::int64_t>::max(), empty = 0;
  std::int64_t lower_bandwidth = 0, upper_bandwidth = 0;
  std::int64_t on_diagonal = 0, below = 0, above = 0, above_without_mirror = 0;
  std::int64_t neighbours = 0, compared_rows = 0;
  std::array<std::int64_t, 3> blocks{};
  unsigned __int128 squares = 0;  // of row lengths
  double similarity = 0;

  void add(const Counts& other) {
    longest = std::max(longest, other.longest), shortest = std::min(shortest, other.shortest),
    empty += other.empty;
    lower_bandwidth = std::max(lower_bandwidth, other.lower_bandwidth);
    upper_bandwidth = std::max(upper_bandwidth, other.upper_bandwidth);
    on_diagonal += other.on_diagonal, below += other.below, above += other.above;
    above_without_mirror += other.above_without_mirror, neighbours += other.neighbours;
    compared_rows += other.compared_rows, squares += other.squares, similarity += other.similarity;
    for (std::size_t i = 0; i < 3; ++i) blocks[i] += other.blocks[i];
  }
};

// Finds the mirrors of entries above the diagonal, for ascending rows. The mirrors in one row are then needed
// in the order of its columns, so the current place in each row replaces a search. 4 bytes for each row.
class Mirrors {
 public:
  // first: the row that is asked about first; any if it is not known.
  explicit Mirrors(const SparsityPattern& pattern, std::int64_t first = -1)
      : p_(pattern), next_(static_cast<std::size_t>(pattern.rows), first == 0 ? 0 : unset) {}

  // The place in row c of its entry in column r; -1 when it has none.
  std::int64_t find(std::int64_t r, std::int32_t c) {
    const auto row = p_.row(c);
    std::uint32_t& at = next_[static_cast<std::size_t>(c)];
    if (at == unset)
      at = static_cast<std::uint32_t>(std::lower_bound(row.begin(), row.end(), r) - row.begin());
    while (at < row.size() && row[at] < r) ++at;
    return at < row.size() && row[at] == r ? std::int64_t{at} : -1;
  }

 private:
  static constexpr std::uint32_t unset = std::numeric_limits<std::uint32_t>::max();
  const SparsityPattern& p_;
  std::vector<std::uint32_t> next_;
};

// The number of entries of `row` that have an entry of `next` at column distance 0 or 1.
std::int64_t with_neighbour(std::span<const std::int32_t> row, std::span<const std::int32_t> next) {
  std::int64_t count = 0;
  auto other = next.begin();
  for (const std::int64_t c : row) {
    while (other != next.end() && *other < c - 1) ++other;
    if (other == next.end()) break;
    if (*other <= c + 1) ++count;
  }
  return count;
}

// Counts aligned size x size blocks that hold an entry. It stores for each column of blocks the last row of
// blocks with an entry. Without a branch, because whether a block is new cannot be predicted.
template <int size>
class BlockCount {
 public:
  explicit BlockCount(std::int64_t cols) : last_(static_cast<std::size_t>(cols / size + 1), -1) {}
  void row(std::int64_t r, std::span<const std::int32_t> cols) {
    const auto own = static_cast<std::int32_t>(r / size);
    for (const std::int32_t c : cols) {
      std::int32_t& last = last_[static_cast<std::size_t>(c / size)];
      count_ += last != own;
      last = own;
    }
  }
  std::int64_t take() noexcept { return std::exchange(count_, 0); }

 private:
  std::vector<std::int32_t> last_;
  std::int64_t count_ = 0;
};

// What a thread stores between rows. Its rows ascend.
struct ThreadWorkspace {
  explicit ThreadWorkspace(const SparsityPattern& p)
      : two(p.cols), three(p.cols), four(p.cols), mirrors(p), square(p.rows == p.cols) {}
  BlockCount<2> two;
  BlockCount<3> three;
  BlockCount<4> four;
  Mirrors mirrors;
  bool square;
};

class Pass {
 public:
  Pass(const SparsityPattern& pattern, std::vector<unsigned char>& diagonals)
      : p_(pattern), diagonals_(diagonals) {}

  Counts rows(std::int64_t begin, std::int64_t end, ThreadWorkspace& workspace) const {
    Counts counts;
    for (std::int64_t r = begin; r < end; ++r) row(r, counts, workspace);
    counts.blocks = {workspace.two.take(), workspace.three.take(), workspace.four.take()};
    return counts;
  }

 private:
  void row(std::int64_t r, Counts& counts, ThreadWorkspace& workspace) const {
    const auto cols = p_.row(r);
    const auto length = static_cast<std::int64_t>(cols.size());
    counts.longest = std::max(counts.longest, length), counts.shortest = std::min(counts.shortest, length);
    counts.squares += static_cast<unsigned __int128>(length) * static_cast<unsigned __int128>(length);
    if (length == 0) {
      ++counts.empty;
      return;
    }
    counts.lower_bandwidth = std::max(counts.lower_bandwidth, r - cols.front());
    counts.upper_bandwidth = std::max(counts.upper_bandwidth, cols.back() - r);
    workspace.two.row(r, cols), workspace.three.row(r, cols), workspace.four.row(r, cols);
    for (std::size_t k = 0; k < cols.size(); ++k) {
      const std::int64_t c = cols[k];
      mark(c - r + p_.rows - 1);
      if (k > 0 && cols[k - 1] + 1 == c) counts.neighbours += 2;  // each is a neighbour of the other
      if (c < r) {
        ++counts.below;
      } else if (c == r) {
        ++counts.on_diagonal;
      } else {
        ++counts.above;
        if (workspace.square && workspace.mirrors.find(r, cols[k]) < 0) ++counts.above_without_mirror;
      }
    }
    if (r + 1 < p_.rows) {
      ++counts.compared_rows;
      counts.similarity +=
          static_cast<double>(with_neighbour(cols, p_.row(r + 1))) / static_cast<double>(length);
    }
  }

  // Several threads may mark the same diagonal. It is read first because most are marked already.
  void mark(std::int64_t diagonal) const {
    std::atomic_ref<unsigned char> flag(diagonals_[static_cast<std::size_t>(diagonal)]);
    if (!flag.load(std::memory_order_relaxed)) flag.store(1, std::memory_order_relaxed);
  }

  const SparsityPattern& p_;
  std::vector<unsigned char>& diagonals_;
};

double ratio(double a, double b) { return b > 0 ? a / b : 0; }

}  // namespace

Statistics statistics(const Context& context, const SparsityPattern& pattern) {
  const SparsityPattern& p = pattern;
  const bool square = p.rows == p.cols;
  std::vector<unsigned char> diagonals(p.nonzeros > 0 ? static_cast<std::size_t>(p.rows + p.cols - 1) : 0);
  const Pass pass(p, diagonals);
  const std::int64_t blocks = (p.rows + block_rows - 1) / block_rows;
  std::vector<Counts> parts(static_cast<std::size_t>(blocks));
  std::atomic<std::int64_t> next{0};
  // Each thread takes the next block when it is free: equal shares of rows with very different lengths would
  // not be equal work.
  parallel(useful_parts(context, p.nonzeros + p.rows), [&](int, int) {
    ThreadWorkspace workspace(p);
    for (std::int64_t b = next.fetch_add(1); b < blocks; b = next.fetch_add(1))
      parts[b] = pass.rows(b * block_rows, std::min(p.rows, (b + 1) * block_rows), workspace);
  });
  Counts all;
  for (const Counts& part : parts) all.add(part);

  Statistics s;
  s.rows = p.rows, s.cols = p.cols, s.nonzeros = p.nonzeros;
  s.longest = all.longest, s.shortest = p.rows > 0 ? all.shortest : 0, s.empty_rows = all.empty;
  const auto rows = static_cast<double>(p.rows), entries = static_cast<double>(p.nonzeros);
  s.mean = ratio(entries, rows);
  // n sum(l^2) - sum(l)^2 without rounding; both terms are below 2^126.
  const auto sum = static_cast<unsigned __int128>(p.nonzeros);
  const unsigned __int128 spread = static_cast<unsigned __int128>(p.rows) * all.squares - sum * sum;
  s.deviation = p.rows > 0 ? std::sqrt(static_cast<double>(spread)) / rows : 0;
  s.diagonals = std::count(diagonals.begin(), diagonals.end(), 1);
  s.lower_bandwidth = all.lower_bandwidth, s.upper_bandwidth = all.upper_bandwidth;
  for (int size = 2; size <= 4; ++size) {
    s.block_fill[size - 2].blocks = all.blocks[size - 2];
    s.block_fill[size - 2].fill =
        ratio(static_cast<double>(size * size) * static_cast<double>(all.blocks[size - 2]), entries);
  }
  // Every entry above has its mirror below, and there are no others below.
  s.structurally_symmetric = square && all.above_without_mirror == 0 && all.above == all.below;
  s.full_diagonal = all.on_diagonal == std::min(p.rows, p.cols);
  s.features.memory_footprint_mib = (entries * 12 + (rows + 1) * 4) / 1048576;
  s.features.mean_row_length = s.mean;
  s.features.skew = ratio(static_cast<double>(s.longest) - s.mean, s.mean);
  s.features.cross_row_similarity = ratio(all.similarity, static_cast<double>(all.compared_rows));
  s.features.neighbours = ratio(static_cast<double>(all.neighbours), entries);
  return s;
}

void StreamedFeatures::begin(std::int64_t rows, std::int64_t cols, std::int64_t nonzeros) {
  rows_ = rows, cols_ = cols, nonzeros_ = nonzeros;
  sums_ = {}, last_row_.clear();
}

void StreamedFeatures::take(const RowStretch& stretch) {
  const std::int64_t base = stretch.row_ptr[0];
  const auto row = [&](std::int64_t i) -> std::span<const std::int32_t> {
    const std::int64_t begin = stretch.row_ptr[i] - base;
    return {stretch.col + begin, static_cast<std::size_t>(stretch.row_ptr[i + 1] - base - begin)};
  };
  const auto compare = [](Sums& sums, std::span<const std::int32_t> one, std::span<const std::int32_t> next) {
    if (one.empty()) return;
    ++sums.compared;
    sums.similarity += static_cast<double>(with_neighbour(one, next)) / static_cast<double>(one.size());
  };
  const double mean = this->mean();
  const int workers = useful_parts(*context_, stretch.entries());
  std::vector<Sums> parts(static_cast<std::size_t>(workers));
  parallel(workers, [&](int part, int count) {
    Sums sums;
    const Range range = even_range(stretch.rows, part, count);
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const auto cols = row(i);
      const auto length = static_cast<double>(cols.size());
      sums.longest = std::max(sums.longest, static_cast<std::int64_t>(cols.size()));
      sums.squares += (length - mean) * (length - mean);
      if (cols.empty()) continue;
      ++sums.filled;
      sums.span += static_cast<double>(cols.back() - cols.front()) + 1;
      for (std::size_t k = 1; k < cols.size(); ++k) sums.neighbours += cols[k - 1] + 1 == cols[k] ? 2 : 0;
      if (i + 1 < stretch.rows) compare(sums, cols, row(i + 1));
    }
    parts[static_cast<std::size_t>(part)] = sums;
  });
  if (stretch.rows > 0) {
    compare(sums_, last_row_, row(0));
    const auto last = row(stretch.rows - 1);
    last_row_.assign(last.begin(), last.end());
  }
  for (const Sums& part : parts) {
    sums_.longest = std::max(sums_.longest, part.longest);
    sums_.neighbours += part.neighbours, sums_.compared += part.compared, sums_.filled += part.filled;
    sums_.squares += part.squares, sums_.similarity += part.similarity, sums_.span += part.span;
  }
}

double StreamedFeatures::mean() const {
  return ratio(static_cast<double>(nonzeros_), static_cast<double>(rows_));
}
double StreamedFeatures::deviation() const {
  return std::sqrt(ratio(sums_.squares, static_cast<double>(rows_)));
}
double StreamedFeatures::span() const {
  return ratio(sums_.span, static_cast<double>(sums_.filled) * static_cast<double>(cols_));
}
Features StreamedFeatures::features() const {
  Features f;
  f.memory_footprint_mib =
      (static_cast<double>(nonzeros_) * 12 + (static_cast<double>(rows_) + 1) * 4) / 1048576;
  f.mean_row_length = mean();
  f.skew = ratio(static_cast<double>(sums_.longest) - mean(), mean());
  f.cross_row_similarity = ratio(sums_.similarity, static_cast<double>(sums_.compared));
  f.neighbours = ratio(static_cast<double>(sums_.neighbours), static_cast<double>(nonzeros_));
  return f;
}

template <class T>
std::optional<AsymmetricEntry> first_asymmetry(const Context& context, const SparsityPattern& p,
                                               const T* values) {
  if (p.rows != p.cols)
    throw BadArgument(fmt::format("a {} x {} matrix has no symmetry; it must be square", p.rows, p.cols));
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  struct Found {
    std::optional<AsymmetricEntry> entry;
    std::int64_t above = 0, below = 0;
  };
  const int workers = useful_parts(context, p.nonzeros);
  const auto borders = balanced_row_borders(p, workers);
  std::vector<Found> parts(static_cast<std::size_t>(workers));
  parallel(workers, [&](int part, int) {
    const auto i = static_cast<std::size_t>(part);
    Found mine;
    Mirrors mirrors(p, borders[i]);
    for (std::int64_t r = borders[i]; r < borders[i + 1] && !mine.entry; ++r)
      for (std::int64_t k = p.row_ptr[r]; k < p.row_ptr[r + 1] && !mine.entry; ++k) {
        const std::int32_t c = p.col[k];
        mine.below += c<r, mine.above += c> r;
        if (c <= r) continue;
        const std::int64_t found = mirrors.find(r, c);
        if (found < 0)
          mine.entry = {r, c, true};
        else if (values &&
                 std::bit_cast<Bits>(values[k]) != std::bit_cast<Bits>(values[p.row_ptr[c] + found]))
          mine.entry = {r, c, false};
      }
    parts[i] = mine;
  });
  std::int64_t above = 0, below = 0;
  for (const Found& part : parts) {
    if (part.entry) return part.entry;
    above += part.above, below += part.below;
  }
  if (above == below) return {};
  // Every entry above the diagonal has a mirror, so one below it has none.
  for (std::int64_t r = 0; r < p.rows; ++r)
    for (const std::int32_t c : p.row(r)) {
      if (c >= r) break;
      const auto mirror = p.row(c);
      if (!std::binary_search(mirror.begin(), mirror.end(), static_cast<std::int32_t>(r)))
        return AsymmetricEntry{r, c, true};
    }
  return {};
}
template std::optional<AsymmetricEntry> first_asymmetry(const Context&, const SparsityPattern&, const float*);
template std::optional<AsymmetricEntry> first_asymmetry(const Context&, const SparsityPattern&,
                                                        const double*);

namespace {

// max_k |a_ik| of each row.
template <class T>
std::vector<double> sizes_of_rows(const CsrMatrix<T>& matrix, const std::vector<std::int64_t>& borders,
                                  int workers) {
  const SparsityPattern& p = matrix.pattern;
  std::vector<double> size(static_cast<std::size_t>(p.rows));
  parallel(workers, [&](int part, int) {
    for (std::int64_t r = borders[part]; r < borders[part + 1]; ++r) {
      T most = 0;
      for (std::int64_t k = p.row_ptr[r]; k < p.row_ptr[r + 1]; ++k)
        most = std::max(most, std::abs(matrix.values[k]));
      size[static_cast<std::size_t>(r)] = static_cast<double>(most);
    }
  });
  return size;
}

// What asymmetry() finds in the entries on one side of the diagonal.
struct Unequal {
  double most = 0;
  std::int64_t entries = 0, mirrored = 0, below = 0;

  // a_ij and a_ji in rows of these sizes
  void compare(double one, double other, double size, double size_of_other) {
    if (one == other) return;
    // Written so that NaN counts as different; 0 / 0 does not occur.
    const double part = std::abs(one - other) / std::min(size, size_of_other);
    if (!(part <= most)) most = std::isnan(part) ? std::numeric_limits<double>::infinity() : part;
  }
  void add(const Unequal& other) {
    most = std::max(most, other.most);
    entries += other.entries, mirrored += other.mirrored, below += other.below;
  }
};

// Whether each entry above the diagonal has the value of its mirrored one, and each one below it has a mirrored one.
template <class T>
bool equals_mirrors(const CsrMatrix<T>& matrix, const std::vector<std::int64_t>& borders, int workers) {
  const SparsityPattern& p = matrix.pattern;
  std::vector<std::int64_t> more_above(static_cast<std::size_t>(workers));
  std::atomic<bool> differs{false};
  parallel(workers, [&](int part, int) {
    Mirrors mirrors(p, borders[part]);
    std::int64_t more = 0;
    for (std::int64_t r = borders[part]; r < borders[part + 1]; ++r) {
      const std::int64_t end = p.row_ptr[r + 1];
      std::int64_t k = p.row_ptr[r];
      for (; k < end && p.col[k] < r; ++k) --more;
      for (; k < end; ++k) {
        const std::int32_t c = p.col[k];
        const std::int64_t found = mirrors.find(r, c);
        if (c < r || found < 0 || !(matrix.values[k] == matrix.values[p.row_ptr[c] + found]))
          return differs.store(true, std::memory_order_relaxed);
        more += c != r;
      }
      if (differs.load(std::memory_order_relaxed)) return;
    }
    more_above[static_cast<std::size_t>(part)] = more;
  });
  return !differs && std::accumulate(more_above.begin(), more_above.end(), std::int64_t{0}) == 0;
}

// Compares the entries above the diagonal with their mirrored ones (below: those below it that have none, with 0).
template <class T>
Unequal compare_with_mirrors(const CsrMatrix<T>& matrix, const std::vector<std::int64_t>& borders,
                             int workers, const std::vector<double>& size, bool below) {
  const SparsityPattern& p = matrix.pattern;
  std::vector<Unequal> parts(static_cast<std::size_t>(workers));
  parallel(workers, [&](int part, int) {
    Unequal mine;
    Mirrors mirrors(p, borders[part]);
    for (std::int64_t r = borders[part]; r < borders[part + 1]; ++r)
      for (std::int64_t k = p.row_ptr[r]; k < p.row_ptr[r + 1]; ++k) {
        const std::int32_t c = p.col[k];
        mine.below += c < r;
        if (below ? c > r : c < r) continue;
        const std::int64_t found = mirrors.find(r, c);
        mine.entries += c != r, mine.mirrored += c != r && found >= 0;
        if (below && found >= 0) continue;
        const T mirrored = found < 0 ? T(0) : matrix.values[p.row_ptr[c] + found];
        mine.compare(static_cast<double>(matrix.values[k]), static_cast<double>(mirrored),
                     size[static_cast<std::size_t>(r)], size[static_cast<std::size_t>(c)]);
      }
    parts[static_cast<std::size_t>(part)] = mine;
  });
  Unequal all;
  for (const Unequal& part : parts) all.add(part);
  return all;
}

}  // namespace

template <class T>
double asymmetry(const Context& context, const CsrMatrix<T>& matrix) {
  const SparsityPattern& p = matrix.pattern;
  if (p.rows != p.cols) return std::numeric_limits<double>::infinity();
  const int workers = useful_parts(context, p.nonzeros);
  const auto borders = balanced_row_borders(p, workers);
  if (equals_mirrors(matrix, borders, workers)) return 0;
  const std::vector<double> size = sizes_of_rows(matrix, borders, workers);
  const Unequal above = compare_with_mirrors(matrix, borders, workers, size, false);
  if (above.mirrored == above.below) return above.most;
  return std::max(above.most, compare_with_mirrors(matrix, borders, workers, size, true).most);
}
template double asymmetry(const Context&, const CsrMatrix<float>&);
template double asymmetry(const Context&, const CsrMatrix<double>&);

namespace {

// The vectors that null_vectors() tries, a bit each.
enum NullVectorBit : unsigned { every_unknown = 1, not_positive = 2, one_of_two = 4, one_of_three = 16 };

// The vectors in which unknown i is 1.
unsigned vectors_of(std::int64_t i, bool positive_diagonal) {
  return every_unknown | (positive_diagonal ? 0u : not_positive) | one_of_two << (i % 2) |
         one_of_three << (i % 3);
}

}  // namespace

template <class T>
NullVectors null_vectors(const Context& context, const CsrMatrix<T>& matrix) {
  const SparsityPattern& p = matrix.pattern;
  if (p.rows != p.cols || p.rows == 0) return {};
  std::vector<T> diagonal(static_cast<std::size_t>(p.rows));
  extract_diagonal(context, matrix, diagonal.data());
  const auto positive = std::count_if(diagonal.begin(), diagonal.end(), [](T a) { return a > T(0); });
  // A vector of a single unknown would be an empty column.
  unsigned candidates = every_unknown;
  if (positive > 0 && positive < p.rows) candidates |= not_positive;
  if (p.rows % 2 == 0 && p.rows > 2) candidates |= 3 * one_of_two;
  if (p.rows % 3 == 0 && p.rows > 3) candidates |= 7 * one_of_three;
  constexpr int bits = 7;
  const int workers = useful_parts(context, p.nonzeros);
  const auto borders = balanced_row_borders(p, workers);
  std::vector<unsigned> parts(static_cast<std::size_t>(workers), candidates);
  parallel(workers, [&](int part, int) {
    unsigned left = candidates;
    for (std::int64_t r = borders[part]; r < borders[part + 1] && left != 0; ++r) {
      double sums[bits] = {}, sizes[bits] = {};
      const std::int64_t begin = p.row_ptr[r], end = p.row_ptr[r + 1];
      for (std::int64_t k = begin; k < end; ++k) {
        const std::int64_t c = p.col[k];
        const auto a = static_cast<double>(matrix.values[k]);
        for (unsigned in = vectors_of(c, diagonal[static_cast<std::size_t>(c)] > T(0)) & left; in != 0;
             in &= in - 1) {
          const int bit = std::countr_zero(in);
          sums[bit] += a, sizes[bit] += std::abs(a);
        }
      }
      const double rounding =
          static_cast<double>(end - begin) * static_cast<double>(std::numeric_limits<T>::epsilon());
      for (int bit = 0; bit < bits; ++bit)
        if (!(std::abs(sums[bit]) <= rounding * sizes[bit])) left &= ~(1u << bit);
    }
    parts[static_cast<std::size_t>(part)] = left;
  });
  for (const unsigned left : parts) candidates &= left;
  return {.all = (candidates & every_unknown) != 0,
          .without_positive_diagonal = (candidates & not_positive) != 0,
          .fields = (candidates & 3 * one_of_two) != 0     ? 2
                    : (candidates & 7 * one_of_three) != 0 ? 3
                                                           : 0};
}
template NullVectors null_vectors(const Context&, const CsrMatrix<float>&);
template NullVectors null_vectors(const Context&, const CsrMatrix<double>&);

std::vector<std::string> in_words(const NullVectors& vectors) {
  std::vector<std::string> words;
  if (vectors.all) words.emplace_back("all unknowns");
  if (vectors.without_positive_diagonal)
    words.emplace_back(
        "the unknowns whose diagonal entry is not positive (in a Stokes problem: the pressure)");
  if (vectors.fields > 0)
    words.push_back(fmt::format("every {} unknown (in elasticity: a displacement of the whole body)",
                                vectors.fields == 2 ? "second" : "third"));
  return words;
}

}  // namespace protean
