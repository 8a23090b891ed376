// DDD-SPLIT, split direct dense diagonals: diagonals cut into segments where they are interrupted.
//
//        | 1 . 2 . |     block = 4, gap = 1
//    A = | . 3 . . |     block_ptr = 0 5
//        | . . . . |     off       = -3 -2 0 0 2
//        | 4 5 . 6 |     first     =  3  3 0 3 0
//                        seg_ptr   = 0 1 2 4 5 6
//                        values    = 4 | 5 | 1 3 | 6 | 2
//
// Arrays:
//   block_ptr  [blocks + 1] int64: segments before each block of rows; blocks = ceil(rows / block). A segment ends at
//              the end of its block, so that a thread finds the segments of its row in the list of its block.
//   off        [segments] int32: column - row; ascending within a block.
//   first      [segments] int32: the first row of each segment, which is an entry; ascending within a block and offset.
//   seg_ptr    [segments + 1] int64: values before each segment. The last value of a segment is an entry.
//   values     [seg_ptr[segments]]: a(r, r + off[s]) lies at seg_ptr[s] + r - first[s]; 0 if there is no entry.
//   entries    [values / 8 (rounded down) + 2 segments] uint8: bit i % 8 of byte seg_ptr[s] / 8 + 2 s + i / 8 - i' / 8
//              is 1 if row i of the block has an entry; i' is the segment's first row in the block. It distinguishes
//              stored zeros from fill. Products do not read it, except in deterministic mode.
// Bytes: v values + 16 segments + 8 + 8 (blocks + 1) + floor(values / 8) + 2 segments, with v bytes a value.
// Parameters:
//   block     rows in a block.
//   gap       number of zeros that end a segment. 1 stores no fill. A segment takes 18 bytes, so short gaps are cheaper
//             as fill.
//   max_fill  the most stored values per entry.
// Wins: when diagonals are broken: dia would fill their gaps, and hdi the gaps within a hack.
// Refuses: when values > max_fill nonzeros, which can only be with gap > max_fill.
// Source: L. Yuan, Y. Zhang, X. Sun, T. Wang, Optimizing sparse matrix vector multiplication using diagonal storage
//   matrix format, HPCC 2010. S. Filippone, V. Cardellini, D. Barbieri, A. Fanfarillo, ACM TOMS 43(4), 2017,
//   doi:10.1145/3017994, name it without details, so the arrays are our reading of its name.
//
// A NaN or infinity in x also reaches rows of a segment without an entry there. In deterministic mode, and with gap =
// 1, it reaches only rows with an entry there.
#include "formats/engines/diagonals/diagonals.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

template <class T>
class DddSplit final : public LineMatrix<T, DddSplit<T>> {
 public:
  explicit DddSplit(const BuildRequest<T>& request)
      : DddSplit(request, plan_of<SegmentPlan>(request.admission)) {}

  std::size_t bytes() const noexcept override {
    return this->array_bytes() + block_ptr_.bytes() + off_.bytes() + first_.bytes() + ptr_.bytes();
  }
  std::vector<LayoutArray> layout() const override {
    return {layout_array("block_ptr", block_ptr_), layout_array("off", off_),
            layout_array("first", first_),         layout_array("seg_ptr", ptr_),
            layout_array("values", this->values_), layout_array("entries", this->entries_)};
  }
  SegmentView<T> row_view() const noexcept {
    SegmentView<T> view{};
    view.values = this->values_.data(), view.entries = this->entries_.data();
    view.rows = this->rows(), view.cols = this->cols();
    view.height = block_, view.hacks = block_ptr_.size() - 1;
    view.segments = off_.size(), view.hack_ptr = block_ptr_.data();
    view.off = off_.data(), view.first_row = first_.data(), view.ptr = ptr_.data();
    return view;
  }

 private:
  DddSplit(const BuildRequest<T>& request, const SegmentPlan& plan)
      : LineMatrix<T, DddSplit<T>>(request, plan.values(), plan.bit_bytes()),
        block_(request.params.integer("block")),
        block_ptr_(request.context, static_cast<std::int64_t>(plan.hack_ptr.size())),
        off_(request.context, plan.count()),
        first_(request.context, plan.count()),
        ptr_(request.context, plan.count() + 1) {
    std::copy(plan.hack_ptr.begin(), plan.hack_ptr.end(), block_ptr_.begin());
    copy_array(*request.context, plan.off.data(), plan.count(), off_.data());
    copy_array(*request.context, plan.first.data(), plan.count(), first_.data());
    copy_array(*request.context, plan.ptr.data(), plan.count() + 1, ptr_.data());
    this->set_borders(block_ptr_.size() - 1, block_, [&](std::int64_t h) { return ptr_[block_ptr_[h]]; });
    this->fill(request.csr);
  }
  std::int64_t block_;
  Buffer<std::int64_t> block_ptr_;
  Buffer<std::int32_t> off_, first_;
  Buffer<std::int64_t> ptr_;
};

SegmentPlan cut_diagonals(const Context& context, const SparsityPattern& pattern, std::int64_t block,
                          std::int64_t gap) {
  const Diagonals where = find_diagonals_of_hacks(context, pattern, block);
  const std::int64_t hacks = hack_count(pattern.rows, block), bit_bytes = (block + 7) / 8;
  struct Found {
    std::vector<std::int32_t> off, first;
    std::vector<std::int64_t> length;
  };
  std::vector<Found> found(static_cast<std::size_t>(hacks));
  for_hacks(context, pattern, where, [&](std::int64_t h, const std::uint8_t* bits) {
    Found& mine = found[static_cast<std::size_t>(h)];
    for (std::int64_t d = where.ptr[h]; d < where.ptr[h + 1]; ++d, bits += bit_bytes)
      for_runs(bits, std::min(block, pattern.rows - h * block), gap,
               [&](std::int64_t first, std::int64_t end) {
                 mine.off.push_back(where.off[d]);
                 mine.first.push_back(static_cast<std::int32_t>(h * block + first));
                 mine.length.push_back(end - first);
               });
  });
  SegmentPlan plan;
  plan.hack_ptr.push_back(0);
  for (const Found& mine : found) {
    plan.off.insert(plan.off.end(), mine.off.begin(), mine.off.end());
    plan.first.insert(plan.first.end(), mine.first.begin(), mine.first.end());
    for (const std::int64_t length : mine.length) plan.ptr.push_back(plan.ptr.back() + length);
    plan.hack_ptr.push_back(plan.count());
  }
  return plan;
}

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan = std::make_shared<SegmentPlan>(
      cut_diagonals(context, pattern, params.integer("block"), params.integer("gap")));
  Admission admission = admit_segments(plan->values(), plan->count(), 8, 8 * plan->hack_ptr.size(), pattern,
                                       params, value_bytes);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

constexpr ParamDoc params[] = {
    {.name = "block", .doc = "rows in a block", .default_value = "128", .smallest = 1, .largest = 1024},
    {.name = "gap",
     .doc = "number of zeros that end a segment",
     .default_value = "4",
     .smallest = 1,
     .largest = 32},
    {.name = "max_fill",
     .doc = "the format refuses more stored values per entry than this",
     .default_value = "4",
     .smallest = 1,
     .largest = 1'000'000}};
constexpr Kernel kernels[] = {native_host_kernel<DddSplit>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::ddd_split{.family = "diagonal",
                                               .id = "ddd-split",
                                               .title = "Split direct dense diagonals",
                                               .source = "Yuan, Zhang, Sun, Wang, HPCC 2010",
                                               .traits = {.needs_alike_rows = true},
                                               .params = params,
                                               .kernels = kernels,
                                               .admit = admit,
                                               .device = &device_code::ddd_split};

}  // namespace protean::formats
