#include "preconditioners/factors/device/device_factors.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "core/parallel.hpp"
#include "core/simulated_device.hpp"

namespace protean::detail {
namespace {

#if defined(PROTEAN_HAVE_CUDA)
// Whether rows wait for each other in one kernel. There a row has done most of its work when the last row that it needs
// is done; a kernel for each stage begins all of it only then, but its rows wait for nothing. If stages are large, that
// is as fast.
bool in_one_kernel(std::int64_t rows, std::int64_t stages) {
  constexpr std::int64_t few_stages = 8, rows_of_large_stage = 2048;
  return stages >= few_stages && rows < rows_of_large_stage * stages;
}
#endif

// Lanes of which each has about two entries of a row of this mean length.
int lanes_for_mean(std::int64_t entries, std::int64_t rows) {
  int lanes = 1;
  while (lanes < 32 && 2 * lanes * rows < entries) lanes *= 2;
  return lanes;
}

}  // namespace

template <class T>
DeviceFactors<T>::DeviceFactors(const ContextPtr& device, const SweepPattern& pattern, bool factors)
    : device_(device),
      rows_(pattern.n),
      by_place_(pattern.coloured),
      first_(pattern.forward.first()),
      row_(device, pattern.n),
      place_(device, factors ? pattern.n : 0),
      col_(device, pattern.col.size()),
      lower_(device, pattern.n + 1),
      upper_(device, pattern.n + 1),
      values_(device, pattern.col.size()),
      d_(device, pattern.n) {
  const ContextPtr& host = pattern.lower_ptr.context();
  const Buffer<std::int32_t>& order = pattern.forward.order();
  Buffer<std::int64_t> lower(host, rows_ + 1), upper(host, rows_ + 1);
  lower[0] = 0;
  for (std::int64_t k = 0; k < rows_; ++k) lower[k + 1] = lower[k] + pattern.lower(order[k]).size();
  upper[0] = lower[rows_];
  for (std::int64_t k = 0; k < rows_; ++k) upper[k + 1] = upper[k] + pattern.upper(order[k]).size();
  std::vector<std::int64_t> lower_first, upper_first;
  for (const std::int64_t k : first_)
    lower_first.push_back(lower[k]), upper_first.push_back(upper[k] - upper[0]);
  find_lanes(lower_first, upper_first);
  Buffer<std::int32_t> col(host, col_.size());
  const int parts = useful_parts(*host, col_.size());
  protean::parallel(parts, [&](int part, int of) {
    const Range places = even_range(rows_, part, of);
    for (std::int64_t k = places.begin; k < places.end; ++k) {
      copy_row(pattern.col.data(), pattern.lower(order[k]), false, col.data() + lower[k]);
      copy_row(pattern.col.data(), pattern.upper(order[k]), true, col.data() + upper[k]);
    }
  });
  send(*device, row_, order.data()), send(*device, col_, col.data());
  send(*device, lower_, lower.data()), send(*device, upper_, upper.data());
  if (!factors) return;
  Buffer<std::int32_t> place(host, rows_);
  for (std::int64_t k = 0; k < rows_; ++k) place[order[k]] = static_cast<std::int32_t>(k);
  Buffer<std::int32_t> key(host, by_place_ ? col.size() : 0), mirror(host, lower[rows_]);
  if (by_place_)
    for (std::int64_t p = 0; p < col.size(); ++p) key[p] = place[col[p]];
  const std::int32_t* const keys = by_place_ ? key.data() : col.data();
  protean::parallel(parts, [&](int part, int of) {
    const Range places = even_range(rows_, part, of);
    for (std::int64_t k = places.begin; k < places.end; ++k)
      for (std::int64_t p = lower[k]; p < lower[k + 1]; ++p) {
        const std::int64_t other = place[col[p]];
        const std::int64_t at = find_key(keys, upper[other], upper[other + 1],
                                         by_place_ ? static_cast<std::int32_t>(k) : order[k]);
        mirror[p] = at < 0 ? -1 : static_cast<std::int32_t>(at - upper[other]);
      }
  });
  key_ = Buffer<std::int32_t>(device, key.size()), mirror_ = Buffer<std::int32_t>(device, mirror.size());
  diagonal_ = Buffer<T>(device, rows_), status_ = Buffer<FactorStatus>(device, 1);
  send(*device, place_, place.data()), send(*device, key_, key.data());
  send(*device, mirror_, mirror.data());
}

template <class T>
DeviceFactors<T>::DeviceFactors(const ContextPtr& device, ColouredRows rows)
    : device_(device),
      rows_(rows.rows),
      by_place_(true),
      first_(std::move(rows.first)),
      row_(std::move(rows.row)),
      place_(std::move(rows.place)),
      col_(std::move(rows.col)),
      key_(std::move(rows.key)),
      mirror_(std::move(rows.mirror)),
      lower_(std::move(rows.lower)),
      upper_(std::move(rows.upper)),
      values_(device, col_.size()),
      d_(device, rows_),
      diagonal_(device, rows_),
      status_(device, 1) {
  find_lanes(rows.lower_first, rows.upper_first);
}

template <class T>
void DeviceFactors<T>::find_lanes(const std::vector<std::int64_t>& lower_first,
                                  const std::vector<std::int64_t>& upper_first) {
  for (std::size_t s = 0; s + 1 < first_.size(); ++s) {
    const std::int64_t rows = first_[s + 1] - first_[s];
    lower_lanes_.push_back(lanes_for_mean(lower_first[s + 1] - lower_first[s], rows));
    upper_lanes_.push_back(lanes_for_mean(upper_first[s + 1] - upper_first[s], rows));
  }
  with_upper_ = upper_first.back() > 0;
  factor_lanes_ = std::max(4, lanes_for_mean(col_.size(), std::max<std::int64_t>(rows_, 1)));
}

template <class T>
void DeviceFactors<T>::set_values(const SweepPattern& pattern, const SweepValues<T>& values) {
  Buffer<T> ordered(pattern.lower_ptr.context(), values_.size());
  T* next = ordered.data();
  const Buffer<std::int32_t>& order = pattern.forward.order();
  for (std::int64_t k = 0; k < rows_; ++k)
    next = copy_row(values.entries.data(), pattern.lower(order[k]), false, next);
  for (std::int64_t k = 0; k < rows_; ++k)
    next = copy_row(values.entries.data(), pattern.upper(order[k]), true, next);
  send(*device_, values_, ordered.data()), send(*device_, d_, values.d.data());
}

template <class T>
FactorView<T> DeviceFactors<T>::view(bool next) const noexcept {
  return {.rows = rows_,
          .row = row_.data(),
          .place = place_.data(),
          .lower = lower_.data(),
          .upper = upper_.data(),
          .col = col_.data(),
          .key = by_place_ ? key_.data() : col_.data(),
          .mirror = mirror_.data(),
          .values = const_cast<T*>(next ? next_values_.data() : values_.data()),
          .d = const_cast<T*>(next ? next_d_.data() : d_.data()),
          .diagonal = const_cast<T*>(diagonal_.data()),
          .by_place = by_place_};
}

template <class T>
void DeviceFactors<T>::make_room() {
  if (next_d_.empty()) next_values_ = Buffer<T>(device_, values_.size()), next_d_ = Buffer<T>(device_, rows_);
}

template <class T>
FactorStatus DeviceFactors<T>::relax(const CsrMatrix<T>& csr, bool one_for_zero, T w, T scale) {
  FactorStatus status{.bad_row = static_cast<std::int32_t>(rows_)};
  if (rows_ == 0) return status;
  make_room();
  const Context& context = *device_;
  const FactorView<T> f = view(true);
  const FactorRules rules{false, one_for_zero};
  if (context.simulated()) {
    const DeviceWork work(context);
    std::fill_n(f.diagonal, rows_, T(0));
    double largest = 0;
    for (std::int64_t k = 0; k < rows_; ++k)
      status.trouble |= csr.pattern.row_ptr.visit(
          [&](const auto* ptr) { return f.load_row(ptr, csr.pattern.col, csr.values, k, 0, 1, largest); });
    for (std::int64_t k = 0; k < rows_; ++k) status.trouble |= f.relax_row(rules, k, w, scale, 0, 1);
    return status;
  }
#if defined(PROTEAN_HAVE_CUDA)
  send(context, status_, &status);
  device::load_entries<T>(context, f, factor_lanes_, csr, status_.data());
  device::relax_entries<T>(context, f, factor_lanes_, rules, w, scale, status_.data());
  copy_bytes(context, &status, Space::host, status_.data(), Space::device, sizeof status);
#endif
  return status;
}

template <class T>
FactorStatus DeviceFactors<T>::factor(const CsrMatrix<T>& csr, const FactorRules& rules, T shift) {
  FactorStatus status{.bad_row = static_cast<std::int32_t>(rows_)};
  if (rows_ == 0) return status;
  make_room();
  const Context& context = *device_;
  const FactorView<T> f = view(true);
  const T smallest_part = 64 * std::numeric_limits<T>::epsilon();
  if (context.simulated()) {
    const DeviceWork work(context);
    std::fill_n(f.diagonal, rows_, T(0)), std::fill_n(f.values, values_.size(), T(0));
    double least = std::numeric_limits<double>::infinity(), difference = 0;
    for (std::int64_t k = 0; k < rows_; ++k) {
      double largest = 0;
      status.trouble |= csr.pattern.row_ptr.visit(
          [&](const auto* ptr) { return f.load_row(ptr, csr.pattern.col, csr.values, k, 0, 1, largest); });
      least = std::min(least, largest);
    }
    if (rules.symmetric)
      for (std::int64_t k = 0; k < rows_; ++k)
        difference = std::max(difference, f.difference_of_row(k, 0, 1));
    for (std::int64_t k = 0; k < rows_; ++k) {
      bool good = true;
      RowInPlace<T> own(f, k);
      status.trouble |= f.factor_row(
          rules, k, shift, smallest_part, 0, 1, own, [] {}, good);
      if (!good) status.bad_row = std::min(status.bad_row, f.row[k]);
    }
    for (std::int64_t k = 0; k < rows_; ++k) status.trouble |= f.finish_row(rules, k, 0, 1);
    status.least_row = std::bit_cast<unsigned long long>(least);
    status.largest_difference = std::bit_cast<unsigned long long>(difference);
    return status;
  }
#if defined(PROTEAN_HAVE_CUDA)
  send(context, status_, &status);
  FactorStatus* const there = status_.data();
  device::load_entries<T>(context, f, factor_lanes_, csr, there);
  if (rules.symmetric) device::compare_mirrored<T>(context, f, factor_lanes_, there);
  if (in_one_kernel(rows_, stages())) {
    Buffer<std::int32_t> done(device_, rows_ + 1);
    device::factor_all<T>(context, f, factor_lanes_, col_.size(), rules, shift, smallest_part, done.data(),
                          there);
  } else {
    for (std::size_t s = 0; s + 1 < first_.size(); ++s)
      device::factor_stage<T>(context, f, factor_lanes_, col_.size(), rules, first_[s], first_[s + 1], shift,
                              smallest_part, there);
  }
  device::finish_factors<T>(context, f, factor_lanes_, rules, there);
  copy_bytes(context, &status, Space::host, there, Space::device, sizeof status);
#endif
  return status;
}

template <class T>
void DeviceFactors<T>::keep() {
  if (next_d_.empty()) return;
  // To the place of the old ones, so that recorded work stays right.
  copy_bytes(*device_, values_.data(), Space::device, next_values_.data(), Space::device, values_.bytes());
  copy_bytes(*device_, d_.data(), Space::device, next_d_.data(), Space::device, d_.bytes());
  drop();
}

template <class T>
void DeviceFactors<T>::solve(VectorView<const T> r, VectorView<T> z) const {
  const Context& context = *device_;
  const FactorView<T> f = view();
  const DeviceWork work(context, {r.data, z.data});
  if (work.ended() || rows_ == 0) return;
  const auto pass = [&](bool up, std::size_t first_stage, std::size_t end_stage, const T* before,
                        const T* after, const T* rhs, const T* from) {
    const std::int64_t begin = first_[first_stage], end = first_[end_stage];
    const std::int64_t* const ptr = up ? f.lower : f.upper;
    const int lanes = (up ? lower_lanes_ : upper_lanes_)[end_stage - 1];
#if defined(PROTEAN_HAVE_CUDA)
    if (!context.simulated())
      return device::coloured_pass<T>(context, f, ptr, lanes, begin, end, before, after, rhs, from, z.data);
#endif
    (void)lanes;
    for (std::int64_t k = begin; k < end; ++k) {
      const std::int64_t i = f.row[k];
      T sum = before ? before[i] * rhs[i] : rhs[i];
      for (std::int64_t p = ptr[k]; p < ptr[k + 1]; ++p) sum -= f.values[p] * from[f.col[p]];
      z.data[i] = after ? after[i] * sum : sum;
    }
  };
  const std::size_t colours = first_.size() - 1;
  // On the way up to the last colour, which is multiplied by D at once.
  const std::size_t begun = std::min<std::size_t>(colours, 2);
  pass(true, 0, begun, nullptr, colours <= 2 ? f.d : nullptr, r.data, r.data);
  for (std::size_t s = begun; s < colours; ++s)
    pass(true, s, s + 1, nullptr, s + 1 == colours ? f.d : nullptr, r.data, z.data);
  // On the way down. Two colours have been multiplied by D together.
  const T* const before = colours > 2 ? f.d : nullptr;
  if (with_upper_)
    for (std::size_t s = colours - 1; s-- > 0;) pass(false, s, s + 1, before, nullptr, z.data, z.data);
  else if (colours > 2)
    pass(false, 0, colours - 1, before, nullptr, z.data, z.data);
}

template <class T>
std::size_t DeviceFactors<T>::bytes() const noexcept {
  return row_.bytes() + place_.bytes() + col_.bytes() + key_.bytes() + mirror_.bytes() + lower_.bytes() +
         upper_.bytes() + values_.bytes() + d_.bytes() + diagonal_.bytes() + next_values_.bytes() +
         next_d_.bytes() + status_.bytes() + first_.size() * sizeof(std::int64_t);
}

template class DeviceFactors<float>;
template class DeviceFactors<double>;

}  // namespace protean::detail
