// The steps of device_levels_inl.hpp on a simulated device, and the choice between it and a GPU.
#include "preconditioners/multigrid/device/device_levels.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <utility>

#include "core/simulated_device.hpp"
#include "preconditioners/multigrid/device/device_levels_inl.hpp"

namespace protean::detail {
namespace {

// One after another. fixed_sum() computes the sums, so they have the bits of a host.
struct SimulatedWork {
  ContextPtr context;
  static std::int64_t memory_of_group(int) { return 384; }

  template <class F>
  void each(std::int64_t n, const F& f) const {
    const DeviceWork work(*context);
    for (std::int64_t i = 0; i < n; ++i) f(i);
  }
  template <class F>
  void rows(std::int64_t n, int, const F& f) const {
    const DeviceWork work(*context);
    for (std::int64_t i = 0; i < n; ++i) f(i, levels::Lanes<1>());
  }
  template <class F>
  void rows_with_memory(std::int64_t n, int, std::int64_t bytes, const F& f) const {
    Buffer<double> memory(context, (bytes + 7) / 8);
    const DeviceWork work(*context);
    for (std::int64_t i = 0; i < n; ++i)
      f(i, levels::Lanes<1>(), reinterpret_cast<std::byte*>(memory.data()));
  }
  template <class F>
  void tables(std::int64_t n, int, std::int64_t size, const F& f) const {
    Buffer<std::int32_t> table(context, size);
    fill(table.data(), size, -1);
    const DeviceWork work(*context);
    for (std::int64_t i = 0; i < n; ++i) f(i, levels::Lanes<1>(), table.data());
  }
  template <class F>
  void sum(std::int64_t n, double* result, const F& f) const {
    sum_rows(n, 1, result, [&](std::int64_t i, const levels::Lanes<1>&) { return f(i); });
  }
  template <class F>
  void sum_rows(std::int64_t n, int, double* result, const F& f) const {
    constexpr std::int64_t chunk = 4096;
    const DeviceWork work(*context);
    double all = 0;
    for (std::int64_t begin = 0; begin < n; begin += chunk) {
      double sum = 0;
      for (std::int64_t i = begin; i < std::min(n, begin + chunk); ++i) sum += f(i, levels::Lanes<1>());
      all += sum;
    }
    *result = all;
  }
  template <class F>
  void largest(std::int64_t n, levels::Count* result, const F& f) const {
    const DeviceWork work(*context);
    for (std::int64_t i = 0; i < n; ++i) levels::raise_to(result, levels::bits_of(f(i)));
  }
  template <class F>
  void fold(std::int64_t n, std::int64_t steps, const F& f) const {
    const DeviceWork work(*context);
    levels::Pivot pivot = levels::Pivot::none();
    for (std::int64_t step = 0; step < steps; ++step) {
      levels::Pivot best = levels::Pivot::none();
      for (std::int64_t e = 0; e < n; ++e) best.take(f(step, e, pivot));
      pivot = best;
    }
  }
  template <class Number>
  void scan(Number* data, std::int64_t n) const {
    const DeviceWork work(*context);
    if (n > 0) data[n - 1] = 0;
    std::exclusive_scan(data, data + n, data, Number(0));
  }
  template <class Key>
  void sort(Key* keys, std::int32_t* items, std::int64_t n, int) const {
    const DeviceWork work(*context);
    std::vector<std::pair<Key, std::int32_t>> pairs(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < pairs.size(); ++i) pairs[i] = {keys[i], items[i]};
    std::stable_sort(pairs.begin(), pairs.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::size_t i = 0; i < pairs.size(); ++i) keys[i] = pairs[i].first, items[i] = pairs[i].second;
  }
  template <class Number>
  void fill(Number* data, std::int64_t n, int byte) const {
    const DeviceWork work(*context);
    if (n > 0) std::memset(static_cast<void*>(data), byte, static_cast<std::size_t>(n) * sizeof(Number));
  }
};

}  // namespace

std::size_t DeviceStructure::bytes(Shared shared) const noexcept {
  return strong.bytes() + (near.rows > 0 ? near.bytes() : 0) + aggregate.bytes() + coarse.bytes() +
         tentative.bytes() + AP.bytes() + transposition.bytes() + (format_of_P == "csr" ? 0 : P.bytes()) +
         (format_of_R == "csr" ? 0 : R.bytes()) +
         (shared.coarse_matrix && format == "csr" ? 0 : coarse_pattern.bytes());
}

template <class T>
std::unique_ptr<LevelWork<T>> level_work(const ContextPtr& context) {
#if defined(PROTEAN_HAVE_CUDA)
  if (!context->simulated()) return device::level_work<T>(context);
#endif
  return std::make_unique<levels::LevelWorkOn<T, SimulatedWork>>(context);
}
template <class T>
std::unique_ptr<SparseWork<T>> sparse_work(const ContextPtr& context) {
  return level_work<T>(context);
}
template std::unique_ptr<SparseWork<float>> sparse_work<float>(const ContextPtr&);
template std::unique_ptr<SparseWork<double>> sparse_work<double>(const ContextPtr&);
template std::unique_ptr<LevelWork<float>> level_work<float>(const ContextPtr&);
template std::unique_ptr<LevelWork<double>> level_work<double>(const ContextPtr&);

}  // namespace protean::detail
