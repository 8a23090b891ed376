// Sums of parts on a device: admission, conversion. sum.hpp describes the arrays, sum_counts.cuh has the counts of the
// pattern, sum.cuh the products. Padding of ell has column -1, so there is no list of rows without entries.
#include "formats/engines/runs/coo_segments.cuh"
#include "formats/engines/runs/row_runs.cuh"
#include "formats/engines/sum/sum.cuh"
#include "formats/engines/sum/sum.hpp"
#include "formats/engines/sum/sum_counts.cuh"
#include "formats/engines/view/row_view.cuh"

namespace protean::formats {
namespace {

// The classes of a cut by length: class i has the rows up to longest[i].
struct LengthBounds {
  std::int64_t longest[most_sum_parts];
  int count;
};
__global__ void part_keys(DevicePattern a, LengthBounds bounds, std::uint32_t* keys, std::int32_t* rows) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r >= a.rows) return;
  const std::int64_t length = a.length(r);
  int i = 0;
  while (i + 1 < bounds.count && bounds.longest[i] < length) ++i;
  keys[r] = static_cast<std::uint32_t>(i), rows[r] = static_cast<std::int32_t>(r);
}
void list_parts(const Context& context, const SparsityPattern& pattern, const SumCut& cut,
                std::int32_t* list) {
  LengthBounds bounds{};
  for (const PartSize& part : cut.parts) bounds.longest[bounds.count++] = part.longest;
  const device::Scratch<std::uint32_t> keys(context, pattern.rows);
  part_keys<<<blocks_of(pattern.rows), threads, 0, device::stream(context)>>>(device_pattern(pattern), bounds,
                                                                              keys.data(), list);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  device::sort_pairs(context, keys.data(), list, pattern.rows, 6);
}

// lengths[p] := entries after the first `skip` of the row at position p; lengths[rows] := 0. `list` may be null.
template <class P>
__global__ void part_lengths(DevicePattern a, const std::int32_t* list, std::int64_t rows, std::int64_t skip,
                             P* lengths) {
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p > rows) return;
  const std::int64_t length = p < rows ? a.length(list ? list[p] : p) : 0;
  lengths[p] = static_cast<P>(length > skip ? length - skip : 0);
}
// Row pointers of part i, a tail or the rest. `list` is where its positions begin in the list, or null.
template <class P>
void point(const Context& context, const SparsityPattern& pattern, const SumCut& cut, std::size_t i,
           const std::int32_t* list, const std::int32_t* off, P* row_ptr) {
  const std::int64_t rows = cut.parts[i].rows;
  const cudaStream_t queue = device::stream(context);
  if (cut.by == SumCut::By::diagonal && !cut.offsets.empty() && rows > 0) {
    count_rest<<<device::blocks_for(context.device_state(), rows * 32), threads, 0, queue>>>(
        device_pattern(pattern), off, static_cast<std::int64_t>(cut.offsets.size()), row_ptr,
        static_cast<unsigned long long*>(nullptr));
  } else {
    const std::int64_t skip = cut.by == SumCut::By::width && cut.parts.size() > 1 ? cut.width : 0;
    part_lengths<<<blocks_of(rows + 1), threads, 0, queue>>>(device_pattern(pattern), list, rows, skip,
                                                             row_ptr);
  }
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  device::exclusive_scan(context, row_ptr, rows + 1);
}

bool is_fused(const SumCut& cut) { return cut.fused && cut.parts.size() == 2; }
// The part that has the tables of row_runs.cuh, which divide its entries evenly; -1 if there is none. Coordinates have
// them only if `coo_in_runs`; else a product reads their rows (coo_segments.cuh).
int part_in_runs(const SumCut& cut, bool coo_in_runs) {
  for (std::size_t i = 0; i < cut.parts.size(); ++i)
    if ((cut.parts[i].kind == PartKind::coo && coo_in_runs) ||
        (cut.parts[i].kind == PartKind::csr && cut.parts[i].lanes == 0 && !is_fused(cut)))
      return static_cast<int>(i);
  return -1;
}
SparsityPattern pattern_of_part(const SparsityPattern& whole, const PartSize& part, const std::int32_t* p32,
                                const std::int64_t* p64) {
  SparsityPattern pattern;
  pattern.rows = part.rows, pattern.cols = whole.cols, pattern.nonzeros = part.entries;
  pattern.row_ptr.p32 = p32, pattern.row_ptr.p64 = p64, pattern.space = Space::device;
  return pattern;
}

struct DeviceSumPlan {
  SumCut cut;
  bool coo_in_runs = false;
  RunCounts counts{};
};

// The place of part i's positions in the list.
std::int64_t first_position(const SumCut& cut, std::size_t i) {
  std::int64_t first = 0;
  for (std::size_t j = 0; j < i && cut.by == SumCut::By::length; ++j) first += cut.parts[j].rows;
  return first;
}

// Calls f with a null pointer of the type of the pattern's row pointers.
template <class F>
auto with_width(const SparsityPattern& pattern, F&& f) {
  return pattern.row_ptr.p32 ? f(static_cast<std::int32_t*>(nullptr))
                             : f(static_cast<std::int64_t*>(nullptr));
}

// The pattern's row pointers of part i alone, for the length of f(pattern, list).
template <class F>
void with_part(const Context& context, const SparsityPattern& pattern, const SumCut& cut, std::size_t i,
               F&& f) {
  with_width(pattern, [&]<class P>(P*) {
    const device::Scratch<std::int32_t> list(
        context, cut.by == SumCut::By::length && cut.parts.size() > 1 ? pattern.rows : 0);
    const device::Scratch<std::int32_t> off(context, static_cast<std::int64_t>(cut.offsets.size()));
    const device::Scratch<P> row_ptr(context, cut.parts[i].rows + 1);
    if (off.size() > 0) device::copy_in(context, off.data(), cut.offsets.data(), off.bytes());
    const std::int32_t* its = nullptr;
    if (list.size() > 0)
      list_parts(context, pattern, cut, list.data()), its = list.data() + first_position(cut, i);
    point(context, pattern, cut, i, its, off.data(), row_ptr.data());
    if constexpr (sizeof(P) == 4)
      f(pattern_of_part(pattern, cut.parts[i], row_ptr.data(), nullptr));
    else
      f(pattern_of_part(pattern, cut.parts[i], nullptr, row_ptr.data()));
  });
}

// Values, and the columns of what is not a diagonal unless only values change. A warp a row of the source.
template <class T>
struct SumTarget {
  SumCut::By by;
  std::int64_t width, diagonals;
  T* values;
  std::int32_t* col;  // null when only values change
};
template <class T>
__global__ void fill_parts(SumView<T> view, SumTarget<T> to, DevicePattern from, const T* values) {
  const std::int64_t p = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (p >= view.rows) return;  // the whole warp
  const std::int64_t row = view.row(p), begin = from.row_ptr[row], end = from.row_ptr[row + 1];
  // Entry k of the source is entry i of the row at position q of a part whose row begins at `first`.
  const auto write = [&](const SumPart& part, std::int64_t q, std::int64_t first, std::int64_t i,
                         std::int64_t k) {
    const std::int64_t at = part.kind == PartKind::ell ? i * part.rows + q : first + i;
    to.values[part.values + at] = values[k];
    if (to.col) to.col[part.col + at] = from.col[k];
  };
  const auto first_entry = [&](const SumPart& part, std::int64_t q) {
    return part.kind == PartKind::csr   ? view.ptr[part.ptr + q]
           : part.kind == PartKind::coo ? SumView<T>::first_from(view.coo_row, part.entries, q)
                                        : std::int64_t{0};
  };
  const SumPart& last = view.part[view.parts - 1];
  if (to.by == SumCut::By::length) {
    const SumPart& part = view.part[view.part_of(p)];
    const std::int64_t q = p - part.first, first = first_entry(part, q);
    for (std::int64_t k = begin + lane; k < end; k += 32) write(part, q, first, k - begin, k);
  } else if (to.by == SumCut::By::width) {
    const std::int64_t slots = view.parts > 1 ? to.width : last.kind == PartKind::ell ? end - begin : 0;
    const std::int64_t middle = end - begin < slots ? end : begin + slots;
    for (std::int64_t k = begin + lane; k < middle; k += 32) write(view.part[0], p, 0, k - begin, k);
    if (middle == end) return;  // the whole warp
    const std::int64_t first = first_entry(last, p);
    for (std::int64_t k = middle + lane; k < end; k += 32) write(last, p, first, k - middle, k);
  } else {
    const std::int64_t first = first_entry(last, p);
    std::int64_t before = 0;
    for (std::int64_t batch = begin; batch < end; batch += 32) {
      const std::int64_t k = batch + lane;
      const bool there = k < end;
      const std::int64_t d = there ? diagonal_of(view.off, to.diagonals, from.col[k] - row) : -1;
      const unsigned others = __ballot_sync(0xffffffffu, there && d < 0);
      if (d >= 0)
        to.values[d * view.rows + row] = values[k];
      else if (there)
        write(last, p, first, before + __popc(others & ((1u << lane) - 1)), k);
      before += __popc(others);
    }
  }
}
// The bits of eight rows of a diagonal.
__global__ void mark_entries(DevicePattern a, const std::int32_t* off, std::int64_t diagonals,
                             std::uint8_t* bits) {
  const std::int64_t bytes = (a.rows + 7) / 8, i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= diagonals * bytes) return;
  const std::int64_t d = i / bytes, first = i % bytes * 8;
  unsigned found = 0;
  for (int j = 0; j < 8 && first + j < a.rows; ++j) {
    const std::int64_t row = first + j, begin = a.row_ptr[row], count = a.row_ptr[row + 1] - begin,
                       col = row + off[d];
    const std::int64_t at = first_not_below(a.col + begin, count, col);
    if (at < count && a.col[begin + at] == col) found |= 1u << j;
  }
  bits[i] = static_cast<std::uint8_t>(found);
}

template <class T>
class SumOnDevice final : public RowViewOnDevice<T, SumOnDevice<T>>, public HasApplyDot<T> {
 public:
  explicit SumOnDevice(const BuildRequest<T>& request)
      : SumOnDevice(request, plan_of<DeviceSumPlan>(request.admission)) {}

  std::size_t bytes() const noexcept override {
    return values_.bytes() + col_.bytes() + ptr32_.bytes() + ptr64_.bytes() + list_.bytes() +
           coo_row_.bytes() + off_.bytes() + bits_.bytes() + carry_row_.bytes() + carry_value_.bytes() +
           (in_runs_ >= 0 ? runs_.bytes() : 0);
  }
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    multiply(T(1), x.data, T(0), y.data);
    dot<T>(*this->context(), x, y, result);
  }
  SumView<T> row_view() const {
    SumView<T> view{};
    std::copy(parts_.begin(), parts_.end(), view.part);
    view.parts = static_cast<int>(parts_.size()), view.by_length = cut_.by == SumCut::By::length;
    view.rows = this->rows(), view.values = values_.data(), view.col = col_.data();
    view.ptr = {ptr64_.empty() ? ptr32_.data() : nullptr, ptr64_.data()};
    view.list = list_.empty() ? nullptr : list_.data(), view.coo_row = coo_row_.data(),
    view.off = off_.data();
    view.bits = bits_.data();
    return view;
  }
  T* mutable_values() { return values_.data(); }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override { fill(csr, false); }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    multiply(alpha, x.data, beta, y.data);
  }

 private:
  SumOnDevice(const BuildRequest<T>& request, const DeviceSumPlan& plan)
      : RowViewOnDevice<T, SumOnDevice<T>>(request),
        cut_(plan.cut),
        parts_(place_parts(cut_)),
        in_runs_(part_in_runs(cut_, plan.coo_in_runs)) {
    const ContextPtr& context = request.context;
    const SparsityPattern& pattern = request.csr.pattern;
    const cudaStream_t queue = device::stream(*context);
    std::int64_t values = 0, cols = 0, pointers = 0, coordinates = 0;
    for (const SumPart& part : parts_) {
      values += part.stored;
      if (part.kind != PartKind::dia) cols += part.stored;
      if (part.kind == PartKind::csr) pointers += part.rows + 1;
      if (part.kind == PartKind::coo) coordinates += part.stored;
    }
    const bool has_diagonals = parts_[0].kind == PartKind::dia;
    const std::int64_t diagonals = has_diagonals ? parts_[0].width : 0;
    values_ = Buffer<T>(context, values), col_ = Buffer<std::int32_t>(context, cols);
    if (pattern.row_ptr.p32)
      ptr32_ = Buffer<std::int32_t>(context, pointers);
    else
      ptr64_ = Buffer<std::int64_t>(context, pointers);
    coo_row_ = Buffer<std::int32_t>(context, coordinates), off_ = Buffer<std::int32_t>(context, diagonals);
    bits_ = Buffer<std::uint8_t>(context, diagonals * ((pattern.rows + 7) / 8));
    if (coordinates > 0 && in_runs_ < 0) {
      carry_row_ = Buffer<std::int32_t>(context, segments_of(coordinates));
      carry_value_ = Buffer<T>(context, segments_of(coordinates));
    }
    if (diagonals > 0) {
      device::copy_in(*context, off_.data(), cut_.offsets.data(), off_.bytes());
      if (!bits_.empty())
        mark_entries<<<blocks_of(bits_.size()), threads, 0, queue>>>(device_pattern(pattern), off_.data(),
                                                                     diagonals, bits_.data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
    }
    if (cut_.by == SumCut::By::length && parts_.size() > 1 && pattern.rows > 0) {
      list_ = Buffer<std::int32_t>(context, pattern.rows);
      list_parts(*context, pattern, cut_, list_.data());
    }
    for (std::size_t i = 0; i < parts_.size(); ++i)
      if (parts_[i].kind == PartKind::csr) {
        if (pattern.row_ptr.p32)
          point(*context, pattern, cut_, i, list_of(i), off_.data(), ptr32_.data() + parts_[i].ptr);
        else
          point(*context, pattern, cut_, i, list_of(i), off_.data(), ptr64_.data() + parts_[i].ptr);
      }
    for (std::size_t i = 0; i < parts_.size(); ++i)
      if (parts_[i].kind == PartKind::coo && parts_[i].entries > 0)
        with_part(*context, pattern, cut_, i, [&](const SparsityPattern& its) {
          its.row_ptr.visit(
              [&](auto* row_ptr) { expand(*context, row_ptr, its.rows, its.nonzeros, coo_row_.data()); });
        });
    if (in_runs_ >= 0) make_runs(pattern, plan.counts);
    if (!col_.empty()) PROTEAN_CUDA_CHECK(cudaMemsetAsync(col_.data(), 0xff, col_.bytes(), queue));
    if (!values_.empty()) PROTEAN_CUDA_CHECK(cudaMemsetAsync(values_.data(), 0, values_.bytes(), queue));
    fill(request.csr, true);
  }

  const std::int32_t* list_of(std::size_t i) const {
    return list_.empty() ? nullptr : list_.data() + parts_[i].first;
  }

  void make_runs(const SparsityPattern& pattern, const RunCounts& counts) {
    const auto i = static_cast<std::size_t>(in_runs_);
    const PartSize& part = cut_.parts[i];
    const auto make = [&](const SparsityPattern& its) {
      runs_ = RowRuns<T>(this->context(), its, counts, list_of(i));
    };
    if (part.kind == PartKind::coo)
      with_part(*this->context(), pattern, cut_, i, make);
    else
      make(pattern_of_part(pattern, part, ptr64_.empty() ? ptr32_.data() + parts_[i].ptr : nullptr,
                           ptr64_.empty() ? nullptr : ptr64_.data() + parts_[i].ptr));
  }

  void fill(const CsrMatrix<T>& csr, bool structure) {
    if (csr.rows() == 0) return;
    const SumTarget<T> to{cut_.by, cut_.width, off_.size(), values_.data(),
                          structure ? col_.data() : nullptr};
    fill_parts<<<blocks_of(csr.rows() * 32), threads, 0, device::stream(*this->context())>>>(
        row_view(), to, device_pattern(csr.pattern), csr.values);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  // The slots of part i and the diagonals, when either is there.
  SumSlots<T> slots(const SumPart* ell, const SumPart* dia) const {
    SumSlots<T> a{};
    a.rows = this->rows(), a.cols = this->cols();
    if (ell) {
      a.rows = ell->rows, a.width = ell->width;
      a.col = col_.data() + ell->col, a.values = values_.data() + ell->values;
      a.list = list_.empty() ? nullptr : list_.data() + ell->first;
    }
    if (dia) a.diagonals = dia->width, a.off = off_.data(), a.diagonal_values = values_.data() + dia->values;
    return a;
  }
  // Calls f with the rows of a csr part.
  template <class F>
  void with_rows(const SumPart& part, F&& f) const {
    if (ptr64_.empty())
      f(CsrArrays<T, std::int32_t>{part.rows, ptr32_.data() + part.ptr, col_.data() + part.col,
                                   values_.data() + part.values});
    else
      f(CsrArrays<T, std::int64_t>{part.rows, ptr64_.data() + part.ptr, col_.data() + part.col,
                                   values_.data() + part.values});
  }

  void multiply(T alpha, const T* x, T beta, T* y) const {
    const Context& context = *this->context();
    const bool by_length = cut_.by == SumCut::By::length;
    if (parts_[0].kind == PartKind::dia) {
      const SumPart* rest = parts_.size() > 1 ? &parts_[1] : nullptr;
      if (rest && rest->kind == PartKind::csr)
        with_rows(*rest, [&](const auto& rows) {
          multiply_fused(context, slots(nullptr, &parts_[0]), rows, alpha, x, beta, y);
        });
      else
        multiply_slots(context, slots(rest, &parts_[0]), alpha, x, beta, y);
      return;
    }
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const SumPart& part = parts_[i];
      const T keep = by_length || i == 0 ? beta : T(1);
      if (static_cast<int>(i) == in_runs_) {
        RunView<T> runs = runs_.view(col_.data() + part.col, values_.data() + part.values);
        if (by_length && !list_.empty()) runs.used = list_of(i);
        if (!by_length && i > 0) runs.rows = 0;  // rows without entries here have been written
        multiply_runs(context, runs, alpha, x, keep, y);
      } else if (part.kind == PartKind::coo) {
        if (part.entries == 0) {
          scale(context, part.rows, keep, y);
          continue;
        }
        // A product overwrites the workspace before it reads it.
        const EntrySegments<T, CooIndex> tail{part.rows,
                                              part.entries,
                                              {coo_row_.data(), col_.data() + part.col},
                                              values_.data() + part.values,
                                              const_cast<std::int32_t*>(carry_row_.data()),
                                              const_cast<T*>(carry_value_.data()),
                                              i > 0};
        multiply_segments(context, tail, alpha, x, keep, y);
      } else if (part.kind == PartKind::ell) {
        multiply_slots(context, slots(&part, nullptr), alpha, x, keep, y);
      } else {
        with_rows(part, [&](const auto& rows) {
          multiply_packed(context, rows, list_of(i), cut_.parts[i].lanes, alpha, x, keep, y);
        });
      }
    }
  }

  SumCut cut_;
  std::vector<SumPart> parts_;
  int in_runs_;
  Buffer<T> values_;
  Buffer<std::int32_t> col_, ptr32_;
  Buffer<std::int64_t> ptr64_;
  Buffer<std::int32_t> list_, coo_row_, off_, carry_row_;
  Buffer<T> carry_value_;
  Buffer<std::uint8_t> bits_;
  RowRuns<T> runs_;
};

}  // namespace

std::unique_ptr<SumCounter> device_sum_counter(const Context& context, const SparsityPattern& pattern,
                                               std::size_t value_bytes) {
  return std::make_unique<DeviceCounter>(context, pattern, value_bytes);
}

Admission admit_sum_on_device(SumRule rule, bool coo_in_runs, const Context& context,
                              const SparsityPattern& pattern, const FormatParams& params,
                              std::size_t value_bytes) {
  auto plan = std::make_shared<DeviceSumPlan>();
  plan->coo_in_runs = coo_in_runs;
  plan->cut = rule(DeviceCounter(context, pattern, value_bytes), params);
  leave_out_empty_parts(plan->cut);
  Admission admission = admission_of(plan->cut, pattern, params, value_bytes, true);
  if (!admission.ok) return admission;
  for (const PartSize& part : plan->cut.parts)
    if (part.kind == PartKind::coo && !coo_in_runs)
      admission.bytes += static_cast<std::size_t>(segments_of(part.entries)) * (value_bytes + 4);
  if (const int part = part_in_runs(plan->cut, coo_in_runs); part >= 0) {
    with_part(context, pattern, plan->cut, static_cast<std::size_t>(part), [&](const SparsityPattern& its) {
      plan->counts = run_counts(context, its);
      admission.bytes += run_bytes(its.rows, its.nonzeros, plan->counts, value_bytes);
    });
  }
  keep_plan(admission, std::move(plan));
  return admission;
}

template <class T>
std::unique_ptr<AssembledMatrix<T>> make_sum_on_device(const BuildRequest<T>& request) {
  return std::make_unique<SumOnDevice<T>>(request);
}
template std::unique_ptr<AssembledMatrix<double>> make_sum_on_device<double>(const BuildRequest<double>&);
template std::unique_ptr<AssembledMatrix<float>> make_sum_on_device<float>(const BuildRequest<float>&);

}  // namespace protean::formats
