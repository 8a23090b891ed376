// DDD-NAIVE, naive direct dense diagonals: whole diagonals, each as long as it is in the matrix, so nothing outside of
// the matrix is stored.
//
//        | 1 . 2 . |     off     = -3 -2 0 2
//    A = | . 3 . . |     dia_ptr = 0 1 3 7 9                        (. is a stored 0)
//        | . . . . |     values  = 4 | . 5 | 1 3 . 6 | 2 .
//        | 4 5 . 6 |     entries = 8 . | 8 . | 11 . | 1 . .
//
// Arrays:
//   off      [diagonals] int32: column - row of every diagonal with an entry, ascending.
//   dia_ptr  [diagonals + 1] int64: values before each diagonal.
//   values   [dia_ptr[diagonals]]: a(r, r + off[d]) lies at dia_ptr[d] + r - max(0, -off[d]), for all rows that have
//            this column; 0 if there is no entry.
//   entries  [values / 8 (rounded down) + 2 diagonals] uint8: bit r % 8 of byte dia_ptr[d] / 8 + 2 d + r / 8 - max(0,
//            -off[d]) / 8 is 1 if row r has an entry on diagonal d. It distinguishes stored zeros from fill.
//            Products do not read it, except in deterministic mode.
// Bytes: v values + 12 diagonals + 8 + floor(values / 8) + 2 diagonals, with v bytes a value.
// Parameters:
//   max_fill  the most stored values per entry.
// Wins: compared with dia, when diagonals lie far from the main diagonal: their corners outside of the matrix are not
//   stored.
// Refuses: when values > max_fill nonzeros.
// Source: L. Yuan, Y. Zhang, X. Sun, T. Wang, Optimizing sparse matrix vector multiplication using diagonal storage
//   matrix format, HPCC 2010. S. Filippone, V. Cardellini, D. Barbieri, A. Fanfarillo, ACM TOMS 43(4), 2017,
//   doi:10.1145/3017994, name it without details, so the arrays are our reading of its name.
//
// A NaN or infinity in x also reaches rows whose diagonal has no entry there, because 0 times it is NaN. In
// deterministic mode it reaches only rows with an entry there.
#include "formats/engines/diagonals/diagonals.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

template <class T>
class DddNaive final : public LineMatrix<T, DddNaive<T>> {
 public:
  explicit DddNaive(const BuildRequest<T>& request)
      : DddNaive(request, plan_of<SegmentPlan>(request.admission)) {}

  std::size_t bytes() const noexcept override { return this->array_bytes() + off_.bytes() + ptr_.bytes(); }
  std::vector<LayoutArray> layout() const override {
    return {layout_array("off", off_), layout_array("dia_ptr", ptr_), layout_array("values", this->values_),
            layout_array("entries", this->entries_)};
  }
  SegmentView<T> row_view() const noexcept {
    SegmentView<T> view{};
    view.values = this->values_.data(), view.entries = this->entries_.data();
    view.rows = this->rows(), view.cols = this->cols();
    view.height = this->rows(), view.hacks = 1;
    view.segments = off_.size(), view.off = off_.data(), view.ptr = ptr_.data();
    return view;
  }

 private:
  DddNaive(const BuildRequest<T>& request, const SegmentPlan& plan)
      : LineMatrix<T, DddNaive<T>>(request, plan.values(), plan.bit_bytes()),
        off_(request.context, plan.count()),
        ptr_(request.context, plan.count() + 1) {
    std::copy(plan.off.begin(), plan.off.end(), off_.begin());
    std::copy(plan.ptr.begin(), plan.ptr.end(), ptr_.begin());
    this->set_borders(1, 0, [](std::int64_t) { return 0; });
    this->fill(request.csr);
  }
  Buffer<std::int32_t> off_;
  Buffer<std::int64_t> ptr_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan = std::make_shared<SegmentPlan>();
  plan->off = find_diagonals(context, pattern, pattern.rows).off;
  for (const std::int32_t off : plan->off)
    plan->ptr.push_back(plan->ptr.back() + true_length(off, pattern.rows, pattern.cols));
  Admission admission = admit_segments(plan->values(), plan->count(), 4, 0, pattern, params, value_bytes);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

constexpr ParamDoc params[] = {{.name = "max_fill",
                                .doc = "the format refuses more stored values per entry than this",
                                .default_value = "4",
                                .smallest = 1,
                                .largest = 1'000'000}};
constexpr Kernel kernels[] = {native_host_kernel<DddNaive>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::ddd_naive{.family = "diagonal",
                                               .id = "ddd-naive",
                                               .title = "Direct dense diagonals of their true length",
                                               .source = "Yuan, Zhang, Sun, Wang, HPCC 2010",
                                               .traits = {.needs_alike_rows = true},
                                               .params = params,
                                               .kernels = kernels,
                                               .admit = admit,
                                               .device = &device_code::ddd_naive};

}  // namespace protean::formats
