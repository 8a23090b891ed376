// Matrices with given features: the artificial matrices of Mpakos et al., "Feature-based SpMV Performance
// Analysis on Contemporary Devices" (IPDPS 2023), section III-B and listing 1, written from their
// description.
//
// Rows are made in runs. The random numbers of a run depend on the seed and its first row alone, so the
// matrix is the same for any number of threads. Within a run
//   - a row takes columns of the row before it with probability p (then it is a similar row). The rest of the
//     row are clusters: a random column of its window, then further columns to its right, each with
//     probability q;
//   - p and q are not the features themselves: two random rows have near columns by chance, a row cannot be
//     copied completely into a shorter one, and a cluster ends at the end of its row. So p and q are found by
//     trials: a sample of the runs is made with other p and q until it has the features, or does not come
//     nearer to them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

#include "core/generate/row_fill.hpp"

namespace protean::generate_detail {
namespace {

// A stream of random numbers: mix(seed, stream, 0), mix(seed, stream, 1), ...
class Stream {
 public:
  Stream(std::uint64_t seed, std::uint64_t stream) : seed_(mix(seed, stream, 0x5eed)) {}
  std::uint64_t bits() noexcept { return mix(seed_ + 0x9e3779b97f4a7c15u * counter_++); }
  double uniform() noexcept { return generate_detail::uniform(bits()); }
  // Box and Muller 1958; one of the pair.
  double normal() noexcept {
    const double r = std::sqrt(-2 * std::log1p(-uniform()));
    return r * std::cos(6.283185307179586 * uniform());
  }
  // Marsaglia and Tsang, ACM TOMS 26(3), 2000.
  double gamma(double shape) noexcept {
    if (shape < 1) return gamma(shape + 1) * std::pow(1 - uniform(), 1 / shape);
    const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
    for (;;) {
      const double x = normal(), v = 1 + c * x;
      if (v <= 0) continue;
      const double cube = v * v * v;
      if (std::log(1 - uniform()) < 0.5 * x * x + d - d * cube + d * std::log(cube)) return d * cube;
    }
  }

 private:
  std::uint64_t seed_, counter_ = 0;
};

struct Shape {
  std::int64_t rows, cols, run;  // run: number of rows that depend on one another
  double mean, deviation, skew, similarity, neighbours, window;
  bool gamma, diagonal;
  std::uint64_t seed;

  std::int64_t runs() const noexcept { return (rows + run - 1) / run; }
};

Shape shape_of(const GeneratorParams& p) {
  Shape s{};
  s.rows = static_cast<std::int64_t>(p.at("n"));
  s.cols = p.at("cols") > 0 ? static_cast<std::int64_t>(p.at("cols")) : s.rows;
  s.mean = p.at("mean"), s.deviation = p.at("deviation"), s.skew = p.at("skew");
  s.similarity = p.at("similarity"), s.neighbours = p.at("neighbours");
  s.gamma = p.at("distribution") > 0, s.diagonal = p.at("placement") > 0;
  s.seed = static_cast<std::uint64_t>(p.at("seed"));
  // At least 100 runs, so that all threads have work. At least 64 rows in a run, so that its first row, which
  // has no row before it, does not matter.
  s.run = std::clamp<std::int64_t>(s.rows / 100, 64, 4096);
  // The span of k even draws in a window of W is W (k - 1) / (k + 1) on average; a cluster is one draw.
  const double draws = std::max(2.0, s.mean * (1 - s.neighbours / 2));
  s.window = p.at("bandwidth") * static_cast<double>(s.cols) * (draws + 1) / (draws - 1);
  return s;
}

void refuse_impossible(const Shape& s) {
  const double cols = static_cast<double>(s.cols);
  if (s.mean > cols)
    throw BadArgument(fmt::format("artificial: mean is {}; a row has {} columns", s.mean, s.cols));
  if (s.skew > 0 && s.mean * (1 + s.skew) > cols + 0.5)
    throw BadArgument(fmt::format(
        "artificial: the longest row would have mean (1 + skew) = {:.0f} entries; a row has {} columns: "
        "ask for less skew or more columns",
        s.mean * (1 + s.skew), s.cols));
}

// The lengths of all rows. They are drawn at random, the long rows come first. Then single entries are added
// or removed until the mean is exact.
std::vector<std::int32_t> lengths_of(const Context& context, const Shape& s) {
  const double longest = s.skew > 0 ? s.mean * (1 + s.skew) : 0;
  // The part longest exp(-decay row / rows) of each length is fixed; the rest is drawn at random.
  double decay = 0, mean = s.mean, deviation = s.deviation;
  if (s.skew > 0) {
    decay = longest / s.mean;
    if (s.deviation > 0) decay = std::max(decay, longest * longest / (2 * s.deviation * s.deviation));
    decay = std::max(decay, 2.0);
    const double part = longest / decay;
    mean = std::max(0.0, s.mean - part);
    deviation = std::sqrt(std::max(0.0, s.deviation * s.deviation - part * part * (decay / 2 - 1)));
  }
  const auto most = static_cast<std::int32_t>(s.skew > 0 ? std::llround(longest)
                                                         : std::min<std::int64_t>(s.cols, 2147483647));
  std::vector<std::int32_t> lengths(static_cast<std::size_t>(s.rows));
  parallel(context, [&](int part, int parts) {
    const Range range = even_range(s.rows, part, parts);
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      Stream random(s.seed ^ 0x1e57, static_cast<std::uint64_t>(i));
      double length = mean;
      if (deviation > 0 && mean > 0) {
        const double ratio = mean / deviation;
        length =
            s.gamma ? random.gamma(ratio * ratio) * deviation / ratio : mean + deviation * random.normal();
      }
      if (s.skew > 0)
        length += longest * std::exp(-decay * static_cast<double>(i) / static_cast<double>(s.rows));
      // Rounded up or down at random, so that a mean below 1 is possible too.
      const double rounded = std::floor(std::max(length, 0.0) + random.uniform());
      lengths[static_cast<std::size_t>(i)] =
          static_cast<std::int32_t>(std::min(rounded, static_cast<double>(most)));
    }
  });
  const bool fixed_first = s.skew > 0 && s.rows > 1;
  if (fixed_first) lengths[0] = most;
  std::int64_t missing = std::llround(s.mean * static_cast<double>(s.rows)) -
                         std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  const std::int64_t first = fixed_first ? 1 : 0, others = s.rows - first;
  // Adds or removes one entry in rows that are spread evenly over the rows that allow it, until all are done.
  for (int pass = 0; pass < 100 && missing != 0 && others > 0; ++pass) {
    const std::int64_t wanted = std::min(std::abs(missing), others);
    const std::int32_t one = missing > 0 ? 1 : -1;
    std::int64_t place = others * pass / 100;
    for (std::int64_t i = 0; i < others && missing != 0; ++i) {
      place += wanted;
      if (place < others) continue;
      std::int32_t& length = lengths[static_cast<std::size_t>(first + i)];
      if (length + one < 0 || length + one > most) continue;  // the next row that can
      place -= others;
      length += one, missing -= one;
    }
  }
  return lengths;
}

// Makes the columns of one run of rows, row by row. It has a mark for each column, so each thread has one
// object.
class RunFiller {
 public:
  RunFiller(const Shape& s, const std::vector<std::int32_t>& lengths)
      : s_(s), lengths_(lengths), mark_(static_cast<std::size_t>(s.cols), -1) {}

  // Calls row(i, columns) for each row of the run, columns ascending.
  template <class Row>
  void operator()(std::int64_t run, double copy, double cluster, const Row& row) {
    Stream random(s_.seed, static_cast<std::uint64_t>(run));
    const std::int64_t end = std::min((run + 1) * s_.run, s_.rows);
    before_.clear();
    // Similar rows are spread evenly, not drawn one by one, so that short runs have the same share of them.
    double turn = random.uniform();
    for (std::int64_t i = run * s_.run; i < end; ++i) {
      turn += copy;
      const bool similar = turn >= 1;
      turn -= similar ? 1 : 0;
      fill(i, similar, cluster, random);
      row(i, now_);
      std::swap(before_, now_);
    }
  }

 private:
  void fill(std::int64_t i, bool similar, double cluster, Stream& random) {
    const std::int64_t length = lengths_[static_cast<std::size_t>(i)];
    now_.clear();
    const std::int64_t window =
        std::clamp<std::int64_t>(std::llround(s_.window), std::min(length, s_.cols), s_.cols);
    const std::int64_t middle =
        s_.diagonal ? static_cast<std::int64_t>((static_cast<double>(i) + 0.5) /
                                                static_cast<double>(s_.rows) * static_cast<double>(s_.cols))
                    : s_.cols / 2;
    const std::int64_t left = std::clamp<std::int64_t>(middle - window / 2, 0, s_.cols - window);
    ++stamp_;
    if (similar)
      for (const std::int32_t col : before_) {
        if (static_cast<std::int64_t>(now_.size()) == length) break;
        // The window has moved by about a column. A column that is outside now is moved by the width of the
        // window, so that it comes in at the other side.
        std::int64_t place = col;
        if (place < left) place += window;
        if (place >= left + window) place -= window;
        if (place >= left && place < left + window) take(place);
      }
    int failures = 0;
    while (static_cast<std::int64_t>(now_.size()) < length) {
      std::int64_t place = left + static_cast<std::int64_t>(random.uniform() * static_cast<double>(window));
      if (!take(place)) {
        // The window is nearly full: take the next free column.
        if (++failures < 20) continue;
        do place = place + 1 < left + window ? place + 1 : left;
        while (!take(place));
      }
      failures = 0;
      while (static_cast<std::int64_t>(now_.size()) < length && random.uniform() < cluster &&
             ++place < left + window && take(place)) {}
    }
    std::sort(now_.begin(), now_.end());
  }

  bool take(std::int64_t col) {
    std::int64_t& mark = mark_[static_cast<std::size_t>(col)];
    if (mark == stamp_) return false;
    mark = stamp_;
    now_.push_back(static_cast<std::int32_t>(col));
    return true;
  }

  const Shape& s_;
  const std::vector<std::int32_t>& lengths_;
  std::vector<std::int64_t> mark_;
  std::int64_t stamp_ = 0;
  std::vector<std::int32_t> before_, now_;
};

// The two features of section III-A of the paper, for rows that are added one by one with a weight.
class Measured {
 public:
  void add(double weight, const std::vector<std::int32_t>& row, const std::vector<std::int32_t>* before) {
    for (std::size_t k = 0; k + 1 < row.size(); ++k) neighbours_ += row[k] + 1 == row[k + 1] ? 2 * weight : 0;
    entries_ += weight * static_cast<double>(row.size());
    if (!before || before->empty()) return;
    std::int64_t near = 0;
    auto other = row.begin();
    for (const std::int32_t col : *before) {
      while (other != row.end() && *other < col - 1) ++other;
      if (other == row.end()) break;
      near += *other <= col + 1;
    }
    similar_ += weight * static_cast<double>(near) / static_cast<double>(before->size());
    rows_ += weight;
  }
  void add(const Measured& other) {
    similar_ += other.similar_, rows_ += other.rows_;
    neighbours_ += other.neighbours_, entries_ += other.entries_;
  }
  double similarity() const noexcept { return rows_ > 0 ? similar_ / rows_ : 0; }
  double neighbours() const noexcept { return entries_ > 0 ? neighbours_ / entries_ : 0; }

 private:
  double similar_ = 0, rows_ = 0, neighbours_ = 0, entries_ = 0;
};

struct Probabilities {
  double copy, cluster;
};

// The sample of the runs: the first one, which has the long rows, and some of the others, which stand for all
// others.
Measured measure(const Context& context, const Shape& s, const std::vector<std::int32_t>& lengths,
                 const Probabilities& p_and_q) {
  constexpr std::int64_t rows = 20000;
  const std::int64_t runs = s.runs(), others = std::min(runs - 1, std::max<std::int64_t>(8, rows / s.run));
  std::vector<Measured> of_run(static_cast<std::size_t>(others) + 1);
  parallel(context, [&](int part, int parts) {
    RunFiller filler(s, lengths);
    std::vector<std::int32_t> before;
    for (std::int64_t k = part; k <= others; k += parts) {
      const std::int64_t run = k == 0 ? 0 : 1 + (2 * k - 1) * (runs - 1) / (2 * others);
      const double weight = k == 0 ? 1 : static_cast<double>(runs - 1) / static_cast<double>(others);
      bool first = true;
      filler(run, p_and_q.copy, p_and_q.cluster, [&](std::int64_t, const std::vector<std::int32_t>& row) {
        of_run[static_cast<std::size_t>(k)].add(weight, row, first ? nullptr : &before);
        before = row, first = false;
      });
    }
  });
  Measured all;
  for (const Measured& one : of_run) all.add(one);
  return all;
}

// Finds the probability (p or q) for a feature by the secant method: the feature grows with its probability.
// It changes with the other probability too, so the slope is kept within a factor of 4 of its theoretical
// value.
class ProbabilitySearch {
 public:
  ProbabilitySearch(double& probability, double wanted, double slope, double most)
      : probability_(probability), wanted_(wanted), expected_slope_(slope), slope_(slope), most_(most) {}
  // The relative difference between the feature reached and the feature wanted.
  double miss(double got) const noexcept { return std::fabs(got - wanted_) / std::max(wanted_, 0.01); }
  // False when the probability cannot be changed any further.
  bool step(double got) {
    if (last_probability_ >= 0 && probability_ != last_probability_) {
      const double slope = (got - last_got_) / (probability_ - last_probability_);
      slope_ = std::clamp(slope, expected_slope_ / 4, expected_slope_ * 4);
    }
    last_probability_ = probability_, last_got_ = got;
    probability_ = std::clamp(probability_ + (wanted_ - got) / slope_, 0.0, most_);
    return probability_ != last_probability_;
  }

 private:
  double& probability_;
  double wanted_, expected_slope_, slope_, most_, last_probability_ = -1, last_got_ = 0;
};

Probabilities find_probabilities(const Context& context, const Shape& s,
                                 const std::vector<std::int32_t>& lengths) {
  constexpr double good = 0.005;
  constexpr int most_tries = 16;
  Probabilities p_and_q{std::min(s.similarity, 1.0), std::min(s.neighbours / 2, 0.999)}, best = p_and_q;
  ProbabilitySearch copy(p_and_q.copy, s.similarity, 1, 1), cluster(p_and_q.cluster, s.neighbours, 2, 0.9999);
  double best_miss = std::numeric_limits<double>::infinity();
  for (int i = 0; i < most_tries && best_miss > good; ++i) {
    const Measured got = measure(context, s, lengths, p_and_q);
    const double miss = std::max(copy.miss(got.similarity()), cluster.miss(got.neighbours()));
    if (miss < best_miss) best_miss = miss, best = p_and_q;
    const bool moved = copy.step(got.similarity());
    if (!cluster.step(got.neighbours()) && !moved) break;
  }
  return best;
}

}  // namespace

CsrMatrix<double> artificial(const RowTarget& target, const GeneratorParams& params) {
  const ContextPtr& context = target.context;
  const Shape s = shape_of(params);
  refuse_impossible(s);
  const auto threads = static_cast<std::size_t>(context->threads());
  const std::size_t entries = static_cast<std::size_t>(s.mean * static_cast<double>(s.rows));
  detail::require_memory((target.rows ? 0 : entries * 12 + static_cast<std::size_t>(s.rows) * 8) +
                             static_cast<std::size_t>(s.rows) * 4 +
                             static_cast<std::size_t>(s.cols) * 8 * threads,
                         fmt::format("artificial: a matrix of {} rows and {} entries a row", s.rows, s.mean));
  const std::vector<std::int32_t> lengths = lengths_of(*context, s);
  const std::int64_t nonzeros = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  const Probabilities p_and_q = find_probabilities(*context, s, lengths);
  std::vector<std::unique_ptr<RunFiller>> fillers(threads);
  // Makes the rows of the runs first .. end - 1. Row i begins at place(i) of col and values.
  const auto fill_runs = [&](std::int64_t first, std::int64_t end, const auto& place, std::int32_t* col,
                             double* values) {
    parallel(*context, [&](int part, int parts) {
      std::unique_ptr<RunFiller>& filler = fillers[static_cast<std::size_t>(part)];
      if (!filler) filler = std::make_unique<RunFiller>(s, lengths);
      const Range range = even_range(end - first, part, parts);
      for (std::int64_t run = first + range.begin; run < first + range.end; ++run)
        (*filler)(run, p_and_q.copy, p_and_q.cluster,
                  [&](std::int64_t i, const std::vector<std::int32_t>& row) {
                    const std::int64_t at = place(i);
                    std::copy(row.begin(), row.end(), col + at);
                    for (std::size_t k = 0; k < row.size(); ++k)
                      values[at + static_cast<std::int64_t>(k)] =
                          uniform(mix(s.seed, static_cast<std::uint64_t>(i), k));
                  });
    });
  };
  if (target.rows) {
    hand_over(
        target, s.rows, s.cols, nonzeros,
        [&](std::int64_t first, std::vector<std::int64_t>& row_ptr) {
          // Only whole runs, since the rows of a run depend on each other.
          std::int64_t row = first;
          do {
            const std::int64_t end = std::min(row + s.run, s.rows);
            for (; row < end; ++row)
              row_ptr.push_back(row_ptr.back() + lengths[static_cast<std::size_t>(row)]);
          } while (row < s.rows && row_ptr.back() - row_ptr.front() < target.entries);
          return row;
        },
        [&](std::int64_t first, std::int64_t end, const std::vector<std::int64_t>& row_ptr, std::int32_t* col,
            double* values) {
          fill_runs(
              first / s.run, (end + s.run - 1) / s.run,
              [&](std::int64_t i) { return row_ptr[static_cast<std::size_t>(i - first)] - row_ptr.front(); },
              col, values);
        });
    return {};
  }
  CsrBuilder<double> builder(context, s.rows, s.cols, nonzeros);
  for (std::int64_t i = 0; i < s.rows; ++i)
    builder.set_row_ptr(i + 1, builder.row_ptr(i) + lengths[static_cast<std::size_t>(i)]);
  fill_runs(
      0, s.runs(), [&](std::int64_t i) { return builder.row_ptr(i); }, builder.col(), builder.values());
  return builder.freeze();
}

}  // namespace protean::generate_detail
