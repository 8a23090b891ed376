#include "preconditioners/triangular/device_sweeps.hpp"

#include <algorithm>

#include "core/simulated_device.hpp"

namespace protean::detail {
namespace {

// The smallest power of two that is not less than the mean number of entries of a row, at most a warp: lanes that wait
// for their results at the same time wait once.
int lanes_for(std::int64_t entries, std::int64_t rows) {
  int lanes = 1;
  while (lanes < 32 && lanes * rows < entries) lanes *= 2;
  return lanes;
}

// On a simulated device, whose memory is open: the same row after row.
template <class T>
void sum_rows(const TriangleView<T>& t, std::int64_t begin, std::int64_t end, const T* rhs, const T* d,
              T* z) {
  for (std::int64_t k = begin; k < end; ++k) {
    const std::int64_t i = t.row ? t.row[k] : k;
    T sum = d ? d[i] * rhs[i] : rhs[i];
    for (std::int64_t p = t.ptr[k]; p < t.ptr[k + 1]; ++p) sum -= t.values[p] * z[t.col[p]];
    z[i] = sum;
  }
}

}  // namespace

template <class T>
Range Triangle<T>::row_at(const SweepPattern& pattern, std::int64_t k) const noexcept {
  const std::int64_t i = in_stages_ ? (upper_ ? pattern.backward : pattern.forward).order()[k] : k;
  return upper_ ? pattern.upper(i) : pattern.lower(i);
}

template <class T>
Triangle<T>::Triangle(const ContextPtr& device, const SweepPattern& pattern, bool upper, bool in_stages)
    : device_(device), upper_(upper), in_stages_(in_stages), rows_(pattern.n), ptr_(device, pattern.n + 1) {
  const ContextPtr& host = pattern.lower_ptr.context();
  Buffer<std::int64_t> ptr(host, rows_ + 1);
  ptr[0] = 0;
  for (std::int64_t k = 0; k < rows_; ++k) ptr[k + 1] = ptr[k] + row_at(pattern, k).size();
  const std::int64_t entries = ptr[rows_];
  lanes_ = lanes_for(entries, rows_);
  Buffer<std::int32_t> col(host, entries);
  for (std::int64_t k = 0; k < rows_; ++k)
    copy_row(pattern.col.data(), row_at(pattern, k), upper_, col.data() + ptr[k]);
  col_ = Buffer<std::int32_t>(device, entries), values_ = Buffer<T>(device, entries);
  send(*device, ptr_, ptr.data()), send(*device, col_, col.data());
  if (!in_stages) return;
  const Stages& stages = upper ? pattern.backward : pattern.forward;
  first_ = stages.first();
  row_ = Buffer<std::int32_t>(device, rows_);
  send(*device, row_, stages.order().data());
}

template <class T>
void Triangle<T>::set_values(const SweepPattern& pattern, const SweepValues<T>& values) {
  Buffer<T> ordered(pattern.lower_ptr.context(), values_.size());
  T* next = ordered.data();
  for (std::int64_t k = 0; k < rows_; ++k)
    next = copy_row(values.entries.data(), row_at(pattern, k), upper_, next);
  send(*device_, values_, ordered.data());
}

namespace {

template <class T>
class Levels final : public DeviceSweep<T> {
 public:
  Levels(const ContextPtr& device, const SweepPattern& pattern)
      : context_(device),
        lower_(device, pattern, false, true),
        upper_(device, pattern, true, true),
        d_(device, pattern.n),
        flow_(std::max(lower_.stages(), upper_.stages()) > most_stage_launches) {
    if (!flow_) return;
    lower_tasks_ = tasks_of(lower_), upper_tasks_ = tasks_of(upper_);
    w_ = Buffer<T>(device, pattern.n);
    state_ = Buffer<device::FlowState>(device, 1);
    const device::FlowState zero{};
    send(*device, state_, &zero);
#if defined(PROTEAN_HAVE_CUDA)
    if (!device->simulated()) device::mark<T>(*device, w_.data(), pattern.n);
#endif
  }

  void set_values(const SweepPattern& pattern, const SweepValues<T>& values) override {
    lower_.set_values(pattern, values), upper_.set_values(pattern, values);
    send(*context_, d_, values.d.data());
  }

  void solve(VectorView<const T> r, VectorView<T> z) const override {
    const Context& context = *context_;
    const TriangleView<T> lower = lower_.view(), upper = upper_.view();
    T* const w = const_cast<T*>(w_.data());
    if (context.simulated()) {
      const DeviceWork work(context, {r.data, z.data});
      if (work.ended()) return;
      if (flow_) {
        simulate_flow(lower, lower_tasks_, r.data, nullptr, w);
        std::copy_n(w, lower.rows, z.data);
        simulate_flow(upper, upper_tasks_, z.data, d_.data(), z.data);
      } else {
        simulate_stages(lower_, r.data, nullptr, z.data);
        simulate_stages(upper_, z.data, d_.data(), z.data);
      }
      return;
    }
#if defined(PROTEAN_HAVE_CUDA)
    if (flow_) {
      const auto tasks = [](const Buffer<std::int64_t>& first) {
        return device::FlowTasks{first.size() - 1, first.data()};
      };
      device::flow<T>(context, lower, tasks(lower_tasks_), upper, tasks(upper_tasks_), r.data, d_.data(), w,
                      z.data, const_cast<device::FlowState*>(state_.data()));
      return;
    }
    const auto stage_after_stage = [&](const Triangle<T>& triangle, const T* rhs, const T* d) {
      for (std::size_t s = 0; s + 1 < triangle.first().size(); ++s)
        device::sweep_stage<T>(context, triangle.view(), triangle.first()[s], triangle.first()[s + 1], rhs, d,
                               z.data);
    };
    stage_after_stage(lower_, r.data, nullptr), stage_after_stage(upper_, z.data, d_.data());
#endif
  }

  std::size_t bytes() const noexcept override {
    return lower_.bytes() + upper_.bytes() + d_.bytes() + w_.bytes() + lower_tasks_.bytes() +
           upper_tasks_.bytes() + state_.bytes();
  }

 private:
  // The places of each stage cut into pieces for one warp. No row of a warp waits for another one of the same warp, so
  // that a warp that waits never keeps back what it waits for.
  Buffer<std::int64_t> tasks_of(const Triangle<T>& triangle) const {
    const std::int64_t rows = 32 / triangle.view().lanes;
    std::vector<std::int64_t> first;
    for (std::size_t s = 0; s + 1 < triangle.first().size(); ++s)
      for (std::int64_t k = triangle.first()[s]; k < triangle.first()[s + 1]; k += rows) first.push_back(k);
    first.push_back(triangle.view().rows);
    Buffer<std::int64_t> tasks(context_, static_cast<std::int64_t>(first.size()));
    send(*context_, tasks, first.data());
    return tasks;
  }
  static void simulate_flow(const TriangleView<T>& t, const Buffer<std::int64_t>& tasks, const T* rhs,
                            const T* d, T* z) {
    for (std::int64_t k = 0; k + 1 < tasks.size(); ++k)
      sum_rows<T>(t, tasks.data()[k], tasks.data()[k + 1], rhs, d, z);
  }
  static void simulate_stages(const Triangle<T>& triangle, const T* rhs, const T* d, T* z) {
    for (std::size_t s = 0; s + 1 < triangle.first().size(); ++s)
      sum_rows<T>(triangle.view(), triangle.first()[s], triangle.first()[s + 1], rhs, d, z);
  }

  ContextPtr context_;
  Triangle<T> lower_, upper_;
  Buffer<T> d_;
  bool flow_;
  Buffer<std::int64_t> lower_tasks_, upper_tasks_;
  Buffer<T> w_;
  Buffer<device::FlowState> state_;
};

template <class T>
class Iteration final : public DeviceSweep<T> {
 public:
  Iteration(const ContextPtr& device, const SweepPattern& pattern, std::int64_t sweeps)
      : context_(device),
        sweeps_(sweeps),
        lower_(device, pattern, false, false),
        upper_(device, pattern, true, false),
        d_(device, pattern.n),
        work_a_(device, pattern.n),
        work_b_(device, sweeps > 1 ? pattern.n : 0) {}

  void set_values(const SweepPattern& pattern, const SweepValues<T>& values) override {
    lower_.set_values(pattern, values), upper_.set_values(pattern, values);
    send(*context_, d_, values.d.data());
  }

  void solve(VectorView<const T> r, VectorView<T> z) const override {
    const Context& context = *context_;
    const TriangleView<T> lower = lower_.view(), upper = upper_.view();
    T *const a = const_cast<T*>(work_a_.data()), *const b = const_cast<T*>(work_b_.data());
    if (context.simulated()) {
      const DeviceWork work(context, {r.data, z.data});
      if (work.ended()) return;
      jacobi_passes<T>(sweeps_, r.data, d_.data(), z.data, a, b,
                       [&](bool up, const T* rhs, const T* from, const T* scale, T* to) {
                         const TriangleView<T>& t = up ? upper : lower;
                         for (std::int64_t i = 0; i < t.rows; ++i) {
                           T sum = rhs[i];
                           for (std::int64_t p = t.ptr[i]; p < t.ptr[i + 1]; ++p)
                             sum -= t.values[p] * from[t.col[p]];
                           to[i] = scale ? scale[i] * sum : sum;
                         }
                       });
      return;
    }
#if defined(PROTEAN_HAVE_CUDA)
    jacobi_passes<T>(sweeps_, r.data, d_.data(), z.data, a, b,
                     [&](bool up, const T* rhs, const T* from, const T* scale, T* to) {
                       device::sweep_pass<T>(context, up ? upper : lower, rhs, from, scale, to);
                     });
#endif
  }

  std::size_t bytes() const noexcept override {
    return lower_.bytes() + upper_.bytes() + d_.bytes() + work_a_.bytes() + work_b_.bytes();
  }

 private:
  ContextPtr context_;
  std::int64_t sweeps_;
  Triangle<T> lower_, upper_;
  Buffer<T> d_, work_a_, work_b_;
};

}  // namespace

template <class T>
std::unique_ptr<DeviceSweep<T>> make_levels(const ContextPtr& device, const SweepPattern& pattern) {
  return std::make_unique<Levels<T>>(device, pattern);
}
template <class T>
std::unique_ptr<DeviceSweep<T>> make_iteration(const ContextPtr& device, const SweepPattern& pattern,
                                               std::int64_t sweeps) {
  return std::make_unique<Iteration<T>>(device, pattern, sweeps);
}

#define PROTEAN_INSTANTIATE(T)                                                                       \
  template class Triangle<T>;                                                                        \
  template std::unique_ptr<DeviceSweep<T>> make_levels<T>(const ContextPtr&, const SweepPattern&);   \
  template std::unique_ptr<DeviceSweep<T>> make_iteration<T>(const ContextPtr&, const SweepPattern&, \
                                                             std::int64_t);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
