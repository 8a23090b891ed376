// SparseX (CSX): a stream of units; a unit is a run of entries along a line, a small block, or a list of column
// differences of a row.
//
//        | 1 . 2 . |     row 0: new row, 2 entries, column 0, difference 2              128 2 0 2
//    A = | . 3 . . |     row 1: new row, 1 entry, column 1                              128 1 1
//        | . . . . |     row 3: new row after 1 skipped, 3 entries, column 0, 1, 2      192 3 1 0 1 2
//        | 4 5 . 6 |     values = 1 2 3 4 5 6     in the order of the units
//
// Arrays:
//   A part is part_rows successive rows.
//   stream      [bytes] uint8: the units of each part in the order of their first entries, one after another:
//                 kind, + 128 if the first entry lies in a later row than the unit before, + 64 if rows are skipped
//                 number of entries, 1 to 255; for a block the number of its columns
//                 number of rows that are skipped, if there are any
//                 column of the first entry, minus the column of the unit before in the same row
//                 kinds 0, 1, 2: differences of columns from entry to entry, of 1, 2, 4 bytes
//                 kinds 3, 4, 5, 6: a step d. Entry k lies k d to the right, down, down and right, down and left
//                 kinds 10, 11, 12, 14, 16: a block of 2, 3, 4, 6, 8 rows, row by row
//               Numbers have seven bits per byte, the lowest first; the highest bit is 1 if more follow.
//   part_begin  [parts + 1] int64: the first byte of each part.
//   part_value  [parts + 1] int64: the first value of each part.
//   values      [nnz]: in the order of the units.
// Bytes: v nnz + bytes of the stream + 16 (parts + 1), with v bytes a value.
// Parameters:
//   part_rows  rows of a part. Units do not cross its borders; threads compute whole parts.
//   min_run    the fewest entries of a run that makes a unit.
// Wins: on a host with many threads, for matrices that are larger than the caches and whose entries lie on diagonals or
//   in blocks: the stream needs 0.1 to 2 bytes per entry. The conversion takes as long as many products.
// Refuses: on a GPU when a part has more than 65,536 entries. Never on a host.
// Source: A. Elafrou, V. Karakasis, T. Gkountouvas, K. Kourtis, G. Goumas, N. Koziris, SparseX: a library for
//   high-performance sparse matrix-vector multiplication on multicore platforms, ACM TOMS 44 (2018),
//   doi:10.1145/3134442; K. Kourtis, V. Karakasis, G. Goumas, N. Koziris, CSX: an extended compression format for SpMV
//   on shared memory systems, PPoPP 2011, doi:10.1145/1941553.1941587.
//
// At most four kinds are looked for: the kinds that save most in up to eight parts. Each kind takes its runs in all
// parts from the entries that the kinds before it have left. The paper chooses in the same way, separately for the rows
// of each thread, and generates code; here a product is a switch over the kinds. The bytes of a unit are our reading.
// In deterministic mode only runs within a row are looked for, and no unit has columns on both sides of another's, so
// that a product adds the entries of a row in ascending columns. The authors propose no version for a GPU; here a warp
// computes a part.
#include "formats/compressed/sparsex.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <tuple>

#include "formats/engines/view/entry_view.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

// The arrays of the writer.
struct Workspace {
  std::vector<std::uint64_t> keys;
  std::vector<std::uint8_t> row, kind, size;
  std::vector<std::int32_t> step;

  SparsexWriter writer(const std::int32_t* col, std::int64_t entries, int rows, int min_run, bool in_order) {
    const auto n = static_cast<std::size_t>(entries);
    if (keys.size() < n) keys.resize(n), row.resize(n), kind.resize(n), size.resize(n), step.resize(n);
    return {col,         entries,    rows,        min_run,     in_order,
            keys.data(), row.data(), kind.data(), size.data(), step.data()};
  }
};

struct SparsexPlan {
  std::int64_t part_rows = 0;
  std::vector<std::vector<std::uint8_t>> streams;  // of successive parts, for each part of the parallel loop
  std::vector<std::int64_t> part_begin;
};

int part_size(std::int64_t rows, std::int64_t part_rows, std::int64_t part) {
  return static_cast<int>(std::min(rows - part * part_rows, part_rows));
}

SparsexPicks choose_kinds(const SparsityPattern& pattern, std::int64_t part_rows, int min_run,
                          bool in_order) {
  const std::int64_t parts = sparsex_parts(pattern.rows, part_rows), count = std::min(parts, sparsex_samples);
  std::vector<SparsexSample> samples;
  for (std::int64_t s = 0; s < count && !in_order; ++s) {
    const std::int64_t part = s * parts / count, first = part * part_rows;
    const int rows = part_size(pattern.rows, part_rows, part);
    const std::int64_t begin = pattern.row_ptr[first], end = pattern.row_ptr[first + rows];
    if (end - begin > sparsex_most_sampled) continue;
    SparsexSample sample;
    for (int r = 0; r <= rows; ++r) sample.row_ptr.push_back(pattern.row_ptr[first + r] - begin);
    sample.col.assign(pattern.col + begin, pattern.col + end);
    samples.push_back(std::move(sample));
  }
  return pick_sparsex_kinds(samples, min_run, in_order);
}

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan = std::make_shared<SparsexPlan>();
  const int min_run = static_cast<int>(params.integer("min_run"));
  const bool in_order = context.deterministic();
  const std::int64_t part_rows = plan->part_rows = params.integer("part_rows");
  const std::int64_t parts = sparsex_parts(pattern.rows, part_rows);
  const SparsexPicks picks = choose_kinds(pattern, part_rows, min_run, in_order);
  plan->part_begin.assign(static_cast<std::size_t>(parts) + 1, 0);
  const auto borders =
      balanced_row_borders(pattern, useful_parts(context, pattern.nonzeros + pattern.rows), part_rows);
  plan->streams.resize(borders.size() - 1);
  parallel(static_cast<int>(borders.size()) - 1, [&](int share, int) {
    Workspace workspace;
    std::vector<std::uint8_t>& stream = plan->streams[static_cast<std::size_t>(share)];
    for (std::int64_t first = borders[share]; first < borders[share + 1]; first += part_rows) {
      const std::int64_t part = first / part_rows, begin = pattern.row_ptr[first];
      const int rows = part_size(pattern.rows, part_rows, part);
      const std::int64_t entries = pattern.row_ptr[first + rows] - begin;
      SparsexWriter writer = workspace.writer(pattern.col + begin, entries, rows, min_run, in_order);
      writer.begin(pattern.row_ptr, first);
      for (int i = 0; i < picks.count; ++i) writer.find(picks.kind[i], true);
      // A unit has at most two bytes and two numbers of five, a third one if rows are skipped, and 4 bytes per entry.
      const std::size_t before = stream.size();
      stream.resize(before + static_cast<std::size_t>(entries) * 17);
      const std::int64_t bytes = writer.write(stream.data() + before);
      stream.resize(before + static_cast<std::size_t>(bytes));
      plan->part_begin[static_cast<std::size_t>(part) + 1] = bytes;
    }
  });
  for (std::size_t p = 1; p < plan->part_begin.size(); ++p) plan->part_begin[p] += plan->part_begin[p - 1];
  Admission admission = admit_sparsex(plan->part_begin.back(), parts, pattern.nonzeros, value_bytes);
  keep_plan(admission, std::move(plan));
  return admission;
}

// The entries, a part a block of rows in the sense of entry_view.hpp.
template <class T>
struct SparsexView : SparsexArrays<T> {
  int blocks() const { return static_cast<int>(this->parts); }
  Range rows(int part) const {
    const std::int64_t first = this->first_row(part);
    return {first, first + this->rows_of(part)};
  }
  // Calls f(row, col, place) in the order of the units.
  template <class F>
  void for_units(int part, F&& f) const {
    SparsexReader reader(this->stream + this->part_begin[part]);
    const std::int64_t top = this->first_row(part);
    for (std::int64_t place = this->part_value[part]; place < this->part_value[part + 1];) {
      const SparsexUnit u = reader.next();
      std::int64_t col = u.col;
      for (int k = 0, n = u.entries(); k < n; ++k) {
        if (u.is_delta() && k > 0) col += u.delta(k);
        f(static_cast<std::int32_t>(top + (u.is_delta() ? u.row : u.row_of(k))),
          static_cast<std::int32_t>(u.is_delta() ? col : u.col_of(k)), place++);
      }
    }
  }
  // In the order of rows and columns.
  template <class F>
  void for_entries(int part, F&& f) const {
    std::vector<std::tuple<std::int32_t, std::int32_t, std::int64_t>> all;
    for_units(part, [&](std::int32_t row, std::int32_t col, std::int64_t place) {
      all.emplace_back(row, col, place);
    });
    std::sort(all.begin(), all.end());
    for (const auto& [row, col, place] : all) f(row, col, place);
  }
};

template <class Delta, class T>
T delta_sum(const SparsexUnit& u, const T* v, const T* x) {
  T sum = v[0] * x[0];
  for (int k = 1; k < u.size; ++k) {
    Delta delta;
    std::memcpy(&delta, u.deltas + static_cast<std::size_t>(k - 1) * sizeof delta, sizeof delta);
    if constexpr (std::endian::native != std::endian::little) delta = static_cast<Delta>(u.delta(k));
    x += delta;
    sum += v[k] * *x;
  }
  return sum;
}

// y += alpha (a unit) x. x and y: of the unit's first entry.
template <class T>
void add_unit(const SparsexUnit& u, const T* v, T alpha, const T* x, T* y) {
  const std::int64_t d = u.step;
  switch (u.kind) {
    case unit::delta8:
      *y += alpha * delta_sum<std::uint8_t>(u, v, x);
      return;
    case unit::delta16:
      *y += alpha * delta_sum<std::uint16_t>(u, v, x);
      return;
    case unit::delta32:
      *y += alpha * delta_sum<std::uint32_t>(u, v, x);
      return;
    case unit::horizontal: {
      T sum = 0;
      for (int k = 0; k < u.size; ++k) sum += v[k] * x[k * d];
      *y += alpha * sum;
      return;
    }
    case unit::vertical: {
      const T scaled = alpha * *x;
      for (int k = 0; k < u.size; ++k) y[k * d] += v[k] * scaled;
      return;
    }
    case unit::diagonal:
      if (d == 1)
        for (int k = 0; k < u.size; ++k) y[k] += alpha * v[k] * x[k];
      else
        for (int k = 0; k < u.size; ++k) y[k * d] += alpha * v[k] * x[k * d];
      return;
    case unit::antidiagonal:
      for (int k = 0; k < u.size; ++k) y[k * d] += alpha * v[k] * x[-k * d];
      return;
    default:
      for (int r = 0; r < u.block_rows(); ++r) {
        T sum = 0;
        for (int c = 0; c < u.size; ++c) sum += v[r * u.size + c] * x[c];
        y[r] += alpha * sum;
      }
  }
}

template <class T>
class Sparsex final : public AssembledMatrix<T>, public HasLayout {
 public:
  explicit Sparsex(const BuildRequest<T>& request)
      : AssembledMatrix<T>(request), part_rows_(plan_of<SparsexPlan>(request.admission).part_rows) {
    const SparsexPlan& plan = plan_of<SparsexPlan>(request.admission);
    const ContextPtr& context = request.context;
    const auto parts = static_cast<std::int64_t>(plan.part_begin.size()) - 1;
    stream_ = Buffer<std::uint8_t>(context, plan.part_begin.back());
    part_begin_ = Buffer<std::int64_t>(context, parts + 1);
    part_value_ = Buffer<std::int64_t>(context, parts + 1);
    values_ = Buffer<T>(context, request.csr.nonzeros());
    std::copy(plan.part_begin.begin(), plan.part_begin.end(), part_begin_.begin());
    std::uint8_t* to = stream_.data();
    for (const auto& stream : plan.streams) to = std::copy(stream.begin(), stream.end(), to);
    for (std::int64_t p = 0; p <= parts; ++p)
      part_value_[p] = request.csr.pattern.row_ptr[std::min(p * part_rows_, this->rows())];
    const int shares = useful_parts(*context, this->nonzeros() + this->rows());
    for (int share = 0; share <= shares; ++share)
      borders_.push_back(
          std::lower_bound(part_value_.begin(), part_value_.end() - 1, this->nonzeros() / shares * share) -
          part_value_.begin());
    borders_.front() = 0, borders_.back() = parts;
    do_update_values(request.csr);
  }

  CsrMatrix<T> to_csr() const override {
    return csr_from_entries<T>(this->context(), this->rows(), this->cols(), this->nonzeros(), view());
  }
  std::size_t bytes() const noexcept override {
    return stream_.bytes() + part_begin_.bytes() + part_value_.bytes() + values_.bytes();
  }
  std::vector<LayoutArray> layout() const override {
    return {layout_array("stream", stream_), layout_array("part_begin", part_begin_),
            layout_array("part_value", part_value_), layout_array("values", values_)};
  }
  void diagonal(VectorView<T> d) const override {
    diagonal_from_entries(*this->context(), view(), this->nonzeros(), d);
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    update_from_entries(*this->context(), view(), csr, values_.data());
  }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const bool ordered = this->context()->deterministic();
    parallel(static_cast<int>(borders_.size()) - 1, [&](int share, int) {
      for (std::int64_t part = borders_[share]; part < borders_[share + 1]; ++part)
        if (ordered)
          multiply_ordered(static_cast<int>(part), alpha, x.data, beta, y.data);
        else
          multiply(static_cast<int>(part), alpha, x.data, beta, y.data);
    });
  }

 private:
  SparsexView<T> view() const {
    return {{values_.data(), stream_.data(), part_begin_.data(), part_value_.data(), this->rows(), part_rows_,
             part_begin_.size() - 1}};
  }
  void multiply(int part, T alpha, const T* x, T beta, T* y) const {
    const SparsexView<T> a = view();
    const Range rows = a.rows(part);
    for (std::int64_t r = rows.begin; r < rows.end; ++r) y[r] = beta == T(0) ? T(0) : beta * y[r];
    SparsexReader reader(a.stream + a.part_begin[part]);
    for (std::int64_t place = a.part_value[part]; place < a.part_value[part + 1];) {
      const SparsexUnit u = reader.next();
      add_unit(u, a.values + place, alpha, x + u.col, y + rows.begin + u.row);
      place += u.entries();
    }
  }
  // The arithmetic of engines/view/ordered-inl.hpp. The entries of the stream are in the order of rows and columns.
  void multiply_ordered(int part, T alpha, const T* x, T beta, T* y) const {
    const SparsexView<T> a = view();
    const Range rows = a.rows(part);
    std::int64_t row = rows.begin;
    T sum = 0;
    const auto finish_to = [&](std::int64_t next) {
      for (; row < next; ++row, sum = 0) {
        const T scaled = alpha * sum;
        y[row] = beta == T(0) ? scaled : std::fma(beta, y[row], scaled);
      }
    };
    a.for_units(part, [&](std::int32_t r, std::int32_t col, std::int64_t place) {
      finish_to(r);
      sum = std::fma(a.values[place], x[col], sum);
    });
    finish_to(rows.end);
  }

  std::int64_t part_rows_;
  Buffer<std::uint8_t> stream_;
  Buffer<std::int64_t> part_begin_, part_value_;
  Buffer<T> values_;
  std::vector<std::int64_t> borders_;  // parts of each share of a product
};

}  // namespace

SparsexPicks pick_sparsex_kinds(std::vector<SparsexSample>& samples, int min_run, bool in_order) {
  SparsexPicks picks;
  std::vector<Workspace> workspaces(samples.size());
  std::vector<SparsexWriter> writers;
  std::int64_t entries = 0;
  for (std::size_t s = 0; s < samples.size() && !in_order; ++s) {
    writers.push_back(workspaces[s].writer(samples[s].col.data(), std::ssize(samples[s].col),
                                           static_cast<int>(samples[s].row_ptr.size()) - 1, min_run, false));
    writers.back().begin(samples[s].row_ptr.data(), 0);
    entries += std::ssize(samples[s].col);
  }
  bool has_horizontal = false;
  while (picks.count < sparsex_most_picks && !writers.empty()) {
    int best = 0;
    std::int64_t most = entries / 50;  // less is not worth another search in all parts
    for (const int kind : unit::tried) {
      std::int64_t saved = 0;
      for (SparsexWriter& writer : writers) saved += writer.find(kind, false);
      if (saved > most) most = saved, best = kind;
    }
    if (best == 0) break;
    for (SparsexWriter& writer : writers) writer.find(best, true);
    picks.kind[picks.count++] = best;
    has_horizontal = has_horizontal || best == unit::horizontal;
  }
  if (!has_horizontal && picks.count < sparsex_most_picks) picks.kind[picks.count++] = unit::horizontal;
  return picks;
}

Admission admit_sparsex(std::int64_t stream_bytes, std::int64_t parts, std::int64_t nonzeros,
                        std::size_t value_bytes) {
  return Admission::accept(static_cast<std::size_t>(stream_bytes) + 16 * static_cast<std::size_t>(parts + 1) +
                               static_cast<std::size_t>(nonzeros) * value_bytes,
                           nonzeros);
}

namespace {
constexpr ParamDoc params[] = {
    {.name = "part_rows",
     .doc = "rows of a part; units do not cross its borders, and threads compute whole parts",
     .default_value = "128",
     .smallest = 1,
     .largest = sparsex_most_rows},
    {.name = "min_run",
     .doc = "the fewest entries of a run that makes a unit",
     .default_value = "4",
     .smallest = 2,
     .largest = 255}};
constexpr Kernel kernels[] = {native_host_kernel<Sparsex>(Sums::ordered)};
}  // namespace

constinit const FormatEntry entries::sparsex{
    .family = "compressed",
    .id = "sparsex",
    .title = "Runs along rows, columns, diagonals and blocks, in bytes",
    .source = "Elafrou et al., ACM TOMS 44, 2018",
    .traits = {.admits_slowly = true, .admission_converts = true},
    .params = params,
    .kernels = kernels,
    .admit = admit,
    .device = &device_code::sparsex};

}  // namespace protean::formats
