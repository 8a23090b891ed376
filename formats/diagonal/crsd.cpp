// CRSD, compressed row segments with diagonal patterns: each segment of rows stores the diagonals that are well filled
// in it; neighbouring segments with the same diagonals share one description; the other entries are stored as triples.
//
//        | 1 . 2 . |    rows = 2, scatter = 60
//    A = | . 3 . . |    pattern_seg = 0 2, pattern_band = 0 1, pattern_dia = 0 2    one pattern, of segments 0 and 1
//        | . . 4 . |    band_off = 0, band_ptr = 0 1                                with diagonal 0
//        | . 5 . 6 |    values      = 1 3 | 4 6 || 2 5
//                       entries     =  3  |  3
//                       scatter_ptr = 0 1 2,  scatter_row = 0 3,  scatter_col = 2 1
//
// Arrays:
//   pattern_seg   [patterns + 1] int64: the first segment of each pattern; segments = ceil(rows of the matrix / rows).
//   pattern_band  [patterns + 1] int64: bands before each pattern.
//   pattern_dia   [patterns + 1] int64: diagonals stored before each pattern; one counts for each segment that has it.
//   band_off      [bands] int32: column - row of the first diagonal of a band, a group of neighbouring diagonals;
//                 ascending within a pattern. A band with one diagonal is a non-adjacent group in the words of the
//                 paper.
//   band_ptr      [bands + 1] int64: diagonals before each band; each counts once for its pattern.
//   values        [rows diagonals + scattered]: the value of row i of segment s on its diagonal d lies at ((pattern_dia
//                 + (s - pattern_seg) D + d) rows + i, with D diagonals in its pattern; 0 if there is no entry, no such
//                 column or, in the last segment, no such row. Then the scattered entries.
//   entries       [ceil(rows / 8) diagonals] uint8: bit i % 8 of byte i / 8 of a diagonal is 1 if its value i is an
//                 entry. It distinguishes stored zeros from fill. Products do not read it, except in deterministic
//                 mode.
//   scatter_ptr   [segments + 1] int64: scattered entries before each segment.
//   scatter_row, scatter_col  [scattered] int32: by rows, then columns.
// Bytes: diagonals (v rows + ceil(rows / 8)) + (v + 8) scattered + 24 (patterns + 1) + 4 bands + 8 (bands + 1) + 8
//   (segments + 1), with v bytes a value.
// Parameters:
//   rows      rows in a segment.
//   scatter   percent of the rows of a segment: a diagonal with entries in fewer rows is not stored as a diagonal.
//   max_fill  the most stored values per entry.
// Wins: for stencils with irregular borders or a few further entries: these entries do not cause whole diagonals, and
//   offsets take no memory.
// Refuses: when values > max_fill nonzeros, which can only be with scatter < 100 / max_fill.
// Source: X. Sun, Y. Zhang, T. Wang, X. Zhang, L. Yuan, L. Rao, Optimizing SpMV for diagonal sparse matrices on GPU,
//   ICPP 2011. The authors generate code for each pattern; our own code reads a table. The split into patterns and
//   scattered entries is our reading.
//
// A NaN or infinity in x also reaches rows whose diagonal has no entry there, because 0 times it is NaN. In
// deterministic mode it reaches only rows with an entry there.
#include "formats/diagonal/crsd.hpp"
#include "formats/engines/diagonals/diagonals.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

struct CrsdPlan {
  Diagonals kept;  // of all segments
  Bands bands;
  std::vector<std::int64_t> pattern_seg, pattern_band{0}, scatter_ptr;

  CrsdCounts counts() const {
    return {static_cast<std::int64_t>(scatter_ptr.size()) - 1,
            static_cast<std::int64_t>(pattern_seg.size()) - 1, bands.count(), kept.count(),
            scatter_ptr.back()};
  }
};

template <class T>
class Crsd final : public LineMatrix<T, Crsd<T>> {
 public:
  explicit Crsd(const BuildRequest<T>& request) : Crsd(request, plan_of<CrsdPlan>(request.admission)) {}

  std::size_t bytes() const noexcept override {
    return this->array_bytes() + pattern_seg_.bytes() + pattern_band_.bytes() + pattern_dia_.bytes() +
           band_off_.bytes() + band_ptr_.bytes() + scatter_ptr_.bytes() + scatter_row_.bytes() +
           scatter_col_.bytes();
  }
  std::vector<LayoutArray> layout() const override {
    return {layout_array("pattern_seg", pattern_seg_), layout_array("pattern_band", pattern_band_),
            layout_array("pattern_dia", pattern_dia_), layout_array("band_off", band_off_),
            layout_array("band_ptr", band_ptr_),       layout_array("values", this->values_),
            layout_array("entries", this->entries_),   layout_array("scatter_ptr", scatter_ptr_),
            layout_array("scatter_row", scatter_row_), layout_array("scatter_col", scatter_col_)};
  }
  BandView<T> row_view() const noexcept {
    BandView<T> view{};
    view.values = this->values_.data(), view.entries = this->entries_.data();
    view.rows = this->rows(), view.cols = this->cols();
    view.height = height_, view.hacks = scatter_ptr_.size() - 1, view.bit_bytes = (height_ + 7) / 8;
    view.band_off = band_off_.data(), view.band_ptr = band_ptr_.data();
    view.pattern_hack = pattern_seg_.data(), view.pattern_band = pattern_band_.data();
    view.pattern_line = pattern_dia_.data();
    view.bands = band_off_.size(), view.patterns = pattern_seg_.size() - 1;
    view.scatter_ptr = scatter_ptr_.data();
    view.scatter_row = scatter_row_.data(), view.scatter_col = scatter_col_.data();
    view.scatter_values = this->values_.size() - scatter_col_.size();
    return view;
  }

 private:
  Crsd(const BuildRequest<T>& request, const CrsdPlan& plan)
      : LineMatrix<T, Crsd<T>>(request, plan.counts().stored(plan.kept.height),
                               (plan.kept.height + 7) / 8 * plan.kept.count()),
        height_(plan.kept.height),
        pattern_seg_(copied(request.context, plan.pattern_seg)),
        pattern_band_(copied(request.context, plan.pattern_band)),
        pattern_dia_(request.context, pattern_seg_.size()),
        band_off_(copied(request.context, plan.bands.off)),
        band_ptr_(copied(request.context, plan.bands.ptr)),
        scatter_ptr_(copied(request.context, plan.scatter_ptr)),
        scatter_row_(request.context, plan.scatter_ptr.back()),
        scatter_col_(request.context, plan.scatter_ptr.back()) {
    for (std::int64_t p = 0; p < pattern_seg_.size(); ++p) pattern_dia_[p] = plan.kept.ptr[pattern_seg_[p]];
    const std::int64_t segments = scatter_ptr_.size() - 1;
    this->apart_ = plan.scatter_ptr.back() > 0;
    if (segments > 1)
      this->set_borders(segments, height_,
                        [&](std::int64_t h) { return plan.kept.ptr[h] * height_ + scatter_ptr_[h]; });
    else
      this->borders_ = {0, this->rows()};  // a segment is not cut: its scattered entries are written in order
    std::vector<std::int64_t> next(plan.scatter_ptr.begin(), plan.scatter_ptr.end());
    const std::int64_t first = this->values_.size() - scatter_col_.size();
    this->fill(request.csr, [&](std::int64_t k, std::int64_t r) {
      const std::int64_t to = next[static_cast<std::size_t>(r / height_)]++;
      scatter_row_[to] = static_cast<std::int32_t>(r), scatter_col_[to] = request.csr.pattern.col[k];
      this->values_[first + to] = request.csr.values[k];
    });
  }
  template <class N>
  static Buffer<N> copied(const ContextPtr& context, const std::vector<N>& from) {
    Buffer<N> to(context, static_cast<std::int64_t>(from.size()));
    copy_array(*context, from.data(), to.size(), to.data());
    return to;
  }

  std::int64_t height_;
  Buffer<std::int64_t> pattern_seg_, pattern_band_, pattern_dia_;
  Buffer<std::int32_t> band_off_;
  Buffer<std::int64_t> band_ptr_, scatter_ptr_;
  Buffer<std::int32_t> scatter_row_, scatter_col_;
};

CrsdPlan split_into_patterns(const Context& context, const SparsityPattern& pattern, std::int64_t height,
                             std::int64_t percent) {
  const Diagonals where = find_diagonals_of_hacks(context, pattern, height);
  const std::int64_t segments = hack_count(pattern.rows, height), bit_bytes = (height + 7) / 8;
  // Member by member: if an allocation fails, GCC 12 frees the members of an aggregate's initialiser twice.
  CrsdPlan plan;
  plan.kept.height = height;
  plan.kept.ptr.resize(static_cast<std::size_t>(segments) + 1);
  plan.scatter_ptr.resize(static_cast<std::size_t>(segments) + 1);
  std::vector<char> keep(where.off.size());
  for_hacks(context, pattern, where, [&](std::int64_t h, const std::uint8_t* bits) {
    const std::int64_t tall = std::min(height, pattern.rows - h * height);
    std::int64_t kept = 0, apart = 0;
    for (std::int64_t d = where.ptr[h]; d < where.ptr[h + 1]; ++d, bits += bit_bytes) {
      const std::int64_t count = count_bits(bits, bit_bytes);
      keep[static_cast<std::size_t>(d)] = well_filled(count, tall, percent);
      if (keep[static_cast<std::size_t>(d)])
        ++kept;
      else
        apart += count;
    }
    plan.kept.ptr[h + 1] = kept, plan.scatter_ptr[h + 1] = apart;
  });
  for (std::int64_t h = 0; h < segments; ++h)
    plan.kept.ptr[h + 1] += plan.kept.ptr[h], plan.scatter_ptr[h + 1] += plan.scatter_ptr[h];
  for (std::size_t d = 0; d < keep.size(); ++d)
    if (keep[d]) plan.kept.off.push_back(where.off[d]);
  const std::int32_t* const off = plan.kept.off.data();
  for (std::int64_t h = 0; h < segments; ++h) {
    const std::int32_t *first = off + plan.kept.ptr[h], *last = off + plan.kept.ptr[h + 1];
    if (h > 0 && std::equal(first, last, off + plan.kept.ptr[h - 1], first)) continue;
    plan.pattern_seg.push_back(h);
    plan.bands.add(first, last);
    plan.pattern_band.push_back(plan.bands.count());
  }
  plan.pattern_seg.push_back(segments);
  return plan;
}

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan = std::make_shared<CrsdPlan>(
      split_into_patterns(context, pattern, params.integer("rows"), params.integer("scatter")));
  Admission admission = admit_crsd(plan->counts(), pattern, params, value_bytes);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

constexpr ParamDoc params[] = {
    {.name = "rows", .doc = "rows in a segment", .default_value = "128", .smallest = 1, .largest = 1024},
    {.name = "scatter",
     .doc =
         "a diagonal with entries in fewer than this percentage of a segment's rows is stored as scattered "
         "entries",
     .default_value = "50",
     .smallest = 1,
     .largest = 100},
    {.name = "max_fill",
     .doc = "the format refuses more stored values per entry than this",
     .default_value = "4",
     .smallest = 1,
     .largest = 1'000'000}};
constexpr Kernel kernels[] = {native_host_kernel<Crsd>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::crsd{.family = "diagonal",
                                          .id = "crsd",
                                          .title = "Compressed row segments with diagonal patterns",
                                          .source = "Sun, Zhang, Wang, Zhang, Yuan, Rao, ICPP 2011",
                                          .traits = {.needs_alike_rows = true},
                                          .params = params,
                                          .kernels = kernels,
                                          .admit = admit,
                                          .device = &device_code::crsd};

}  // namespace protean::formats
