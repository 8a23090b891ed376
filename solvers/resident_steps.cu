// Steps of cg in one kernel that does many of them (resident_cg.cuh): whether the kernel can be used, how rows are
// distributed over its blocks, and its launches. The first launch does 16 steps, each later one twice as many as the
// one before, up to 128. So the host gets results often enough to stop a solve. Two launches are queued while the host
// reports the steps of a third.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>

#include "core/device/copy.hpp"
#include "core/error.hpp"
#include "solvers/judged_steps.cuh"
#include "solvers/resident_cg.cuh"

namespace protean::detail {
namespace {

constexpr int first_steps = 16, most_steps = 128;  // even, so that all launches begin in the same phase
static_assert(most_steps <= Judgement::most_steps);
// Slots of a lane. With more than many_slots a row gets more lanes; with more than most_slots all other warps
// would wait for one, and the kernel is refused.
constexpr unsigned long long many_slots = 32, most_slots = 512;

// Calls f with the view of the rows' kind.
template <class T, class F>
void with_view(const RowArrays<T>& rows, F&& f) {
  switch (rows.kind) {
    case RowArrays<T>::Kind::csr:
      return f(CsrView<T>{rows});
    case RowArrays<T>::Kind::slices:
      return f(SliceView<T>{rows});
    case RowArrays<T>::Kind::diagonals:
      return f(DiagonalView<T>{rows});
    case RowArrays<T>::Kind::none:
      return;
  }
}

std::string kilobytes(double bytes) { return std::to_string(static_cast<std::int64_t>(bytes * 1e-3)); }

int attribute(cudaDeviceAttr which, int ordinal) {
  int value = 0;
  PROTEAN_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, ordinal));
  return value;
}

template <class T>
class ResidentSteps final : public JudgedSteps<T> {
 public:
  ResidentSteps(Method<T>& method, HasCgState<T>& cg, const ContextPtr& context)
      : JudgedSteps<T>(method, context), cg_(cg) {}

  std::string_view name() const noexcept override { return "resident"; }

  // True if the kernel can be used; else why_not() gives the reason. Makes a new plan unless the arrays are the ones of
  // the present plan.
  bool fits(const System<T>& system, const HasRowArrays<T>& rows) {
    Subject subject{system.A.serial(), system.A.revision().pattern, rows.row_arrays(), system.d.size > 0};
    subject.rows.values = nullptr;  // a plan depends on where entries are, not on their values
    if (subject == planned_ && subject.rows.version != 0) return why_not_.empty();
    planned_ = {};
    why_not_ = plan(system, rows.row_arrays());
    planned_ = subject;
    return why_not_.empty();
  }
  const std::string& why_not() const noexcept { return why_not_; }

  void attach(const System<T>& system, const HasRowArrays<T>& rows) {
    JudgedSteps<T>::attach(system);
    rows_ = &rows;
  }

  Verdict first(const IterationControl& control) override {
    constexpr int count = 5;
    const T* const there = cg_.cg_state().scalars;
    T here[count];
    protean::copy<T>(*context_, VectorView<const T>{there, count, Space::device}, {here, count});
    return read_elsewhere(control, method_.signals(),
                          [&](const T* place, int, int) { return here[place - there]; });
  }

 private:
  using JudgedSteps<T>::method_, JudgedSteps<T>::context_, JudgedSteps<T>::state, JudgedSteps<T>::stream,
      JudgedSteps<T>::system_;

  // What a plan depends on: every array of the rows except the values, and the version of their contents.
  struct Subject {
    std::uint64_t A = 0, pattern = 0;
    RowArrays<T> rows;
    bool diagonal = false;
    bool operator==(const Subject&) const = default;
  };

  // Chooses the shape. Returns the reason if no shape fits.
  std::string plan(const System<T>& system, const RowArrays<T>& a) {
    const int processors = std::min(state().processors, GridReductions<T>::most_blocks);
    if (!attribute(cudaDevAttrCooperativeLaunch, state().ordinal))
      return "this GPU cannot launch a kernel whose blocks wait for each other";
    std::size_t capacity = 0;
    with_view(a, [&](auto view) {
      cudaFuncAttributes kernel;
      PROTEAN_CUDA_CHECK(cudaFuncGetAttributes(&kernel, resident_cg<T, decltype(view)>));
      const int optin = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, state().ordinal);
      capacity = static_cast<std::size_t>(optin) - kernel.sharedSizeBytes;
      PROTEAN_CUDA_CHECK(cudaFuncSetAttribute(resident_cg<T, decltype(view)>,
                                              cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              static_cast<int>(capacity)));
    });
    ResidentShape shape;
    shape.diagonal = system.d.size > 0, shape.permuted = a.perm != nullptr;
    const int slot_bytes = static_cast<int>(sizeof(T) + sizeof(int));
    const int row_bytes = static_cast<int>(sizeof(T)) * shape.vectors() + (shape.permuted ? 4 : 0);
    const double bytes = static_cast<double>(a.stored) * slot_bytes + static_cast<double>(a.rows) * row_bytes;
    const double available = static_cast<double>(capacity) * processors;
    const auto too_large = [&](double needed) {
      return "matrix and vectors need " + kilobytes(needed) + " kB of shared memory, this GPU has " +
             kilobytes(available);
    };
    if (a.kind == RowArrays<T>::Kind::csr && bytes > available) return too_large(bytes);

    // A row gets more lanes if there are fewer rows than threads, as long as each lane has four slots or more.
    const double mean = static_cast<double>(a.stored) / static_cast<double>(a.rows);
    while (shape.lanes < 32 && mean >= 8 * shape.lanes &&
           a.rows * shape.lanes * 2 <= std::int64_t{processors} * ResidentShape::most_threads)
      shape.lanes *= 2;
    shape.blocks = static_cast<int>(std::clamp<std::int64_t>(
        std::max<std::int64_t>(
            (a.rows * shape.lanes + 127) / 128,
            static_cast<std::int64_t>(std::min(bytes, available) / (0.9 * static_cast<double>(capacity))) +
                1),
        1, processors));
    place_of_ = Buffer<int>(context_, shape.permuted ? a.rows : 0);
    for (;;) {
      first_ = Buffer<int>(context_, shape.blocks + 1);
      const ResidentNeeds needs = measure(a, shape, slot_bytes, row_bytes);
      if (needs.widest > many_slots && shape.lanes < 32) {
        shape.lanes *= 2;
        continue;
      }
      if (needs.widest > most_slots)
        return "a row has some " + std::to_string(needs.widest * 32) + " entries, too many for one warp";
      const double filled = static_cast<double>(needs.slots) * slot_bytes;
      if (filled < 1e9) {
        shape.positions = static_cast<int>(needs.positions), shape.slots = static_cast<int>(needs.slots);
        shape.chunks = (shape.positions + 32 / shape.lanes - 1) / (32 / shape.lanes);
        if (shape.bytes(sizeof(T)) <= capacity) break;
      }
      if (shape.blocks == processors)
        return too_large((filled + static_cast<double>(needs.positions) * row_bytes) * processors);
      shape.blocks = processors;
    }
    shape.threads =
        std::clamp((shape.positions * shape.lanes + 63) / 64 * 64, 128, ResidentShape::most_threads);
    shape_ = shape;
    pairs_ = Buffer<ResidentPair<T>>(context_, pair_sets * a.rows);
    sums_ = Buffer<ResidentPair<T>>(context_, std::int64_t{2} * GridReductions<T>::slots(shape.blocks));
    return {};
  }

  ResidentNeeds measure(const RowArrays<T>& a, const ResidentShape& shape, int slot_bytes, int row_bytes) {
    if (needs_.empty()) needs_ = Buffer<ResidentNeeds>(context_, 1);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(needs_.data(), 0, needs_.bytes(), stream()));
    with_view(a, [&](auto view) {
      plan_resident<<<static_cast<unsigned>(shape.blocks), device::block_size, 0, stream()>>>(
          view, static_cast<int>(a.rows), shape.lanes, slot_bytes, row_bytes, first_.data(), place_of_.data(),
          needs_.data());
    });
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    ResidentNeeds needs;
    device::copy_out(*context_, &needs, needs_.data(), sizeof needs);
    return needs;
  }

  void start(const IterationControl& control, std::int64_t left) override {
    this->set_limits(control, left);
    // Marks all sums absent.
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(sums_.data(), 0xff, sums_.bytes(), stream()));
    steps_ = first_steps;
    const bool more = left > steps_;
    launch();
    if (more) launch();
  }
  void go_ahead() override { launch(); }

  void launch() {
    const CgState<T> cg = cg_.cg_state();
    ResidentTask<T> task{};
    task.shape = shape_, task.first = first_.data(), task.place_of = place_of_.data();
    task.rows = static_cast<int>(system_->x.size);
    task.x = system_->x.data, task.r = cg.r.data, task.p = cg.p.data;
    task.d = system_->d.size > 0 ? system_->d.data : nullptr;
    task.scalars = cg.scalars, task.phase = static_cast<int>(method_.phase());
    task.steps = steps_, task.pairs = pairs_.data();
    ResidentPair<T>* const halves[2] = {sums_.data(), sums_.data() + sums_.size() / 2};
    task.sums = halves[half_], task.next_sums = halves[1 - half_];
    task.judgement = this->judgement_, task.copy = this->next_copy();
    cudaLaunchAttribute together{};
    together.id = cudaLaunchAttributeCooperative;
    together.val.cooperative = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(shape_.blocks));
    config.blockDim = dim3(static_cast<unsigned>(shape_.threads + ResidentShape::communicator));
    config.dynamicSmemBytes = shape_.bytes(sizeof(T));
    config.stream = stream();
    config.attrs = &together, config.numAttrs = 1;
    with_view(rows_->row_arrays(), [&](auto view) {
      PROTEAN_CUDA_CHECK(cudaLaunchKernelEx(&config, resident_cg<T, decltype(view)>, view, task));
    });
    half_ = 1 - half_, steps_ = std::min(2 * steps_, most_steps);
    this->expect_copy();
  }

  HasCgState<T>& cg_;
  const HasRowArrays<T>* rows_ = nullptr;  // of the present solve
  Subject planned_;
  std::string why_not_;
  ResidentShape shape_;
  Buffer<int> first_, place_of_;
  Buffer<ResidentNeeds> needs_;
  Buffer<ResidentPair<T>> pairs_;
  Buffer<ResidentPair<T>> sums_;
  int half_ = 0;             // which half of sums_ the next launch uses
  int steps_ = first_steps;  // of the next launch
};

}  // namespace

template <class T>
Steps<T>* resident_steps_for(Workspace<T>& workspace, const System<T>& system, std::string& why_not) {
  auto* const cg = dynamic_cast<HasCgState<T>*>(workspace.method.get());
  const Ability<HasRowArrays<T>> rows = system.A.abilities().row_arrays;
  if (!cg) {
    why_not = "only cg has such steps";
  } else if (system.general_preconditioner()) {
    why_not = "preconditioner " + std::string(system.M->name()) + " is not a diagonal";
  } else if (!rows || rows->row_arrays().kind == RowArrays<T>::Kind::none) {
    why_not = "operator " + std::string(system.A.name()) + " does not show its rows";
  } else if (system.x.size == 0) {
    why_not = "there are no rows";
  } else if (system.x.size > std::numeric_limits<int>::max() / 2) {
    why_not = "there are too many rows";
  }
  if (!why_not.empty()) return nullptr;
  if (!workspace.resident_steps)
    workspace.resident_steps =
        std::make_unique<ResidentSteps<T>>(*workspace.method, *cg, workspace.layout.context);
  // Only the line above makes them.
  auto& steps = static_cast<ResidentSteps<T>&>(*workspace.resident_steps);
  if (!steps.fits(system, *rows)) {
    why_not = steps.why_not();
    return nullptr;
  }
  steps.attach(system, *rows);
  return &steps;
}
#define PROTEAN_INSTANTIATE(T) \
  template Steps<T>* resident_steps_for<T>(Workspace<T>&, const System<T>&, std::string&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
