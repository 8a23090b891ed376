#include "preconditioners/subdomains/device_subdomain_rows.hpp"

#include <bit>
#include <limits>
#include <type_traits>
#include <utility>

#include "core/simulated_device.hpp"

namespace protean::detail {
namespace {

constexpr std::int64_t whole_words(std::int64_t entries) { return (entries + 3) / 4 * 4; }

// The sizes whose rows alone have room in shared memory, and for which the numbers of rows are 16 bits.
SubdomainSizes sizes_of(std::int64_t n, const std::vector<std::int64_t>& wanted, std::int64_t value,
                        std::int64_t shared) {
  SubdomainSizes sizes;
  std::int64_t next = 0;
  for (const std::int64_t size : wanted) {
    const std::int64_t rows = std::min(size, n);
    SubdomainNeeds needs;
    needs.add({rows, 0, 0, 1}, value);
    if (!needs.have_room(shared, false) || rows >= OrderedRows<std::int32_t>::none) continue;
    const int k = sizes.count++;
    sizes.size[k] = static_cast<std::int32_t>(size), sizes.whole_warps &= size % 32 == 0;
    sizes.subdomains[k] = (n + size - 1) / size, sizes.first[k] = next;
    next += 2 * sizes.subdomains[k];
  }
  return sizes;
}

template <class Pointer>
InspectedRows<Pointer> rows_of(const SparsityPattern& pattern, const Pointer* ptr) {
  return {static_cast<std::int32_t>(pattern.rows), ptr, pattern.col};
}

// The passes on a simulated device, whose memory is open.
template <class T>
SubdomainInspection inspect(const CsrMatrix<T>& csr, const SubdomainSizes& sizes, bool symmetric,
                            std::uint64_t* counts) {
  SubdomainInspection all;
  RowsFound found;
  csr.pattern.row_ptr.visit([&](const auto* ptr) {
    const auto rows = rows_of(csr.pattern, ptr);
    for (int k = 0; k < sizes.count; ++k) std::fill_n(counts + sizes.first[k], 2 * sizes.subdomains[k], 0);
    for (std::int32_t i = 0; i < rows.n; ++i) {
      std::fill_n(found.lower, SubdomainSizes::most, 0), std::fill_n(found.upper, SubdomainSizes::most, 0);
      found.largest = 0;
      rows.inspect(i, csr.values, symmetric, borders_of(sizes, i, rows.n), 0, 1, found);
      found.least_row = std::min(found.least_row, found.largest);
      for (int k = 0; k < sizes.count; ++k) {
        std::uint64_t* const own = counts + sizes.first[k] + 2 * (i / sizes.size[k]);
        own[0] += static_cast<std::uint64_t>(found.lower[k]),
            own[1] += static_cast<std::uint64_t>(found.upper[k]);
      }
    }
  });
  all.trouble = found.trouble, all.above = static_cast<std::uint64_t>(found.above);
  all.least_row = std::bit_cast<std::uint64_t>(found.least_row);
  all.difference = std::bit_cast<std::uint64_t>(found.difference);
  for (int k = 0; k < sizes.count; ++k)
    for (std::int64_t s = 0; s < sizes.subdomains[k]; ++s) {
      const auto* const own = counts + sizes.first[k] + 2 * s;
      const auto lower = static_cast<std::int64_t>(own[0]), upper = static_cast<std::int64_t>(own[1]);
      all.entries[k] += lower + upper, all.most[k] = std::max(all.most[k], lower + upper);
      all.needs[k].add({std::min<std::int64_t>(sizes.size[k], csr.rows() - s * sizes.size[k]),
                        whole_words(lower), whole_words(upper), 1},
                       sizeof(T));
    }
  return all;
}

// The levels of the rows of one subdomain, which are loaded; returns how many.
template <class Pointer>
std::int32_t find_levels(const OrderedRows<Pointer>& one) {
  std::int32_t round = 0;
  bool mirrored = true;
  for (std::int32_t i = 0; i < one.rows && mirrored; ++i) mirrored = one.is_mirrored(i, 0, 1);
  if (mirrored) {
    std::uint16_t* const ready = one.next;
    std::int32_t end = 0;
    for (std::int32_t i = 0; i < one.rows; ++i)
      if (one.waiting[i] == 0) ready[end++] = static_cast<std::uint16_t>(i);
    for (std::int32_t begin = 0; begin < end; ++round) {
      std::int32_t found = 0;
      for (std::int32_t k = begin; k < end; ++k) one.release(ready[k], round, ready + end, &found, 0, 1);
      begin = std::exchange(end, end + found);
    }
    return round;
  }
  for (bool again = true; again; ++round) {
    again = false;
    for (std::int32_t i = 0; i < one.rows; ++i) one.look(i);
    for (std::int32_t i = 0; i < one.rows; ++i) again |= one.settle(i, round);
  }
  return round;
}

// Places of the rows of one subdomain, and its lengths of L and U.
template <class Pointer>
void put_places(const OrderedRows<Pointer>& one, std::int64_t s, std::int32_t levels,
                const SubdomainTargets& to) {
  std::int32_t* const level = to.levels + one.begin + s;
  std::fill_n(level, levels + 1, 0);
  for (std::int32_t i = 0; i < one.rows; ++i) ++level[one.level[i] + 1];
  for (std::int32_t l = 0; l < levels; ++l) level[l + 1] += level[l];
  std::vector<std::int32_t> next(level, level + levels), at(static_cast<std::size_t>(one.rows));
  for (std::int32_t i = 0; i < one.rows; ++i) {
    const std::int32_t place = next[one.level[i]]++;
    at[place] = i, to.row[one.begin + i] = one.begin + i;
    to.place[one.begin + i] = static_cast<std::uint16_t>(place);
  }
  std::int32_t *const lower = to.lower_ptr + one.begin + s, *const upper = to.upper_ptr + one.begin + s;
  lower[0] = upper[0] = 0;
  for (std::int32_t p = 0; p < one.rows; ++p)
    lower[p + 1] = lower[p] + one.lower[at[p]], upper[p + 1] = upper[p] + one.upper[at[p]];
  to.first[s] = one.begin, to.level_first[s] = levels + 1;
  to.lower_first[s] = whole_words(lower[one.rows]), to.upper_first[s] = whole_words(upper[one.rows]);
}

SubdomainsOrdered order(const SparsityPattern& pattern, std::int32_t size, std::int64_t entries,
                        std::int64_t value, const SubdomainTargets& to) {
  SubdomainsOrdered all;
  const std::int64_t count = (pattern.rows + size - 1) / size;
  pattern.row_ptr.visit([&](const auto* ptr) {
    OrderedRows<std::remove_cvref_t<decltype(*ptr)>> one;
    one.matrix = rows_of(pattern, ptr);
    const auto most = static_cast<std::size_t>(std::min<std::int64_t>(size, pattern.rows));
    std::vector<std::int32_t> start(most), waiting(most);
    std::vector<std::uint16_t> lower(most), upper(most), next(most), level(most),
        col(static_cast<std::size_t>(entries));
    one.start = start.data(), one.waiting = waiting.data(), one.lower = lower.data(),
    one.upper = upper.data();
    one.next = next.data(), one.level = level.data(), one.col = col.data();
    for (std::int64_t s = 0; s < count; ++s) {
      one.begin = static_cast<std::int32_t>(s * size);
      one.rows = std::min(size, one.matrix.n - one.begin);
      for (std::int32_t i = 0; i < one.rows; ++i) one.clear(i);
      std::int32_t used = 0;
      for (std::int32_t i = 0; i < one.rows; ++i) {
        const RowWithin row = one.within(i);
        one.load(i, row, used, 0, 1);
        used += one.lower[i] + one.upper[i];
      }
      const std::int32_t round = find_levels(one);
      put_places(one, s, round, to);
      all.levels = std::max<std::int64_t>(all.levels, round);
      all.needs.add({one.rows, to.lower_first[s], to.upper_first[s], round}, value);
    }
  });
  to.first[count] = pattern.rows;
  for (const auto& [first, sum] :
       {std::pair(to.level_first, &all.level), std::pair(to.lower_first, &all.lower),
        std::pair(to.upper_first, &all.upper)}) {
    for (std::int64_t s = 0; s < count; ++s) *sum += std::exchange(first[s], *sum);
    first[count] = *sum;
  }
  return all;
}

void fill(const SparsityPattern& pattern, std::int32_t size, const SubdomainTargets& to) {
  const std::int64_t count = (pattern.rows + size - 1) / size;
  std::fill_n(to.lower_col, to.lower_first[count], 0), std::fill_n(to.upper_col, to.upper_first[count], 0);
  pattern.row_ptr.visit([&](const auto* ptr) {
    const auto matrix = rows_of(pattern, ptr);
    for (std::int64_t s = 0; s < count; ++s) {
      const auto begin = static_cast<std::int32_t>(to.first[s]),
                 end = static_cast<std::int32_t>(to.first[s + 1]);
      const std::uint16_t* const place = to.place + begin;
      std::copy_n(to.levels + begin + s, to.level_first[s + 1] - to.level_first[s],
                  to.level + to.level_first[s]);
      for (std::int32_t i = begin; i < end; ++i) {
        const RowWithin row = matrix.within(i, begin, end);
        const std::int64_t k = s + begin + place[i - begin];
        fill_places(matrix.columns, row.lower, row.lower_end, begin, place,
                    to.lower_col + to.lower_first[s] + to.lower_ptr[k], 0, 1);
        fill_places(matrix.columns, row.upper, row.upper_end, begin, place,
                    to.upper_col + to.upper_first[s] + to.upper_ptr[k], 0, 1);
      }
    }
  });
}

}  // namespace

SubdomainLaunch subdomain_launch(const KnownSubdomains& known, const SubdomainNeeds& needs,
                                 std::int64_t shared) {
  SubdomainLaunch launch;
  std::copy_n(needs.columns, 3, launch.shared_columns), launch.shared_factors = needs.factors;
  launch.most_rows = known.most_rows;
  // Of the larger triangle, whose rows the fewer lanes would make wait.
  const auto entries = static_cast<double>(std::max(known.lower, known.upper));
  while (launch.lower_lanes < 8 && entries > 4.0 * launch.lower_lanes * static_cast<double>(known.places))
    launch.lower_lanes *= 2;
  launch.factor_lanes = launch.lower_lanes < 4 ? 2 * launch.lower_lanes : 32;
  while (launch.most_columns > 1 && launch.shared_columns[launch.most_columns / 2] > shared)
    launch.most_columns /= 2;
  return launch;
}

template <class T>
std::optional<SubdomainsThere> subdomains_on_device(const ContextPtr& device, const CsrMatrix<T>& csr,
                                                    const std::vector<std::int64_t>& wanted,
                                                    const FactorTask& task, std::int64_t shared) {
  const std::int64_t n = csr.rows();
  const SubdomainSizes sizes = sizes_of(n, wanted, sizeof(T), shared);
  if (n == 0 || sizes.count == 0) return std::nullopt;
  const bool simulated = device->simulated() != nullptr;
  const DeviceWork open(*device);
  SubdomainInspection seen;
  {
    const int last = sizes.count - 1;
    Buffer<std::uint64_t> counts(device, sizes.first[last] + 2 * sizes.subdomains[last]);
    if (simulated) seen = inspect(csr, sizes, task.symmetric, counts.data());
#if defined(PROTEAN_HAVE_CUDA)
    if (!simulated) seen = device::inspect_subdomains(*device, csr, sizes, task.symmetric, counts.data());
#endif
  }
  if (seen.trouble & (rows_not_finite | rows_not_ascending)) return std::nullopt;
  // What these numbers do not show to be symmetric the host looks at: entries without a mirrored one may be rounding.
  if (task.symmetric && ((seen.trouble & rows_not_mirrored) != 0 || seen.above != 0 ||
                         std::bit_cast<double>(seen.difference) >
                             symmetry_tolerance<T> * std::bit_cast<double>(seen.least_row)))
    return std::nullopt;
  for (int k = 0; k < sizes.count; ++k) {
    const std::int32_t size = sizes.size[k];
    const bool two = size != wanted.back();
    const std::int64_t count = sizes.subdomains[k], rows = std::min<std::int64_t>(size, n);
    if (!seen.needs[k].have_room(shared, two)) continue;
    if (shared_for_order(rows, seen.most[k]) > shared) return std::nullopt;
    SubdomainsThere made;
    SubdomainArrays<std::uint16_t>& arrays = made.arrays;
    for (auto* const first : {&arrays.first, &arrays.level_first, &arrays.lower_first, &arrays.upper_first})
      *first = Buffer<std::int64_t>(device, count + 1);
    arrays.row = Buffer<std::int32_t>(device, n), arrays.place = Buffer<std::uint16_t>(device, n);
    arrays.lower_ptr = Buffer<std::int32_t>(device, n + count);
    arrays.upper_ptr = Buffer<std::int32_t>(device, n + count);
    Buffer<std::int32_t> levels(device, n + count);
    SubdomainTargets to;
    to.first = arrays.first.data(), to.level_first = arrays.level_first.data();
    to.lower_first = arrays.lower_first.data(), to.upper_first = arrays.upper_first.data();
    to.row = arrays.row.data(), to.place = arrays.place.data(), to.levels = levels.data();
    to.lower_ptr = arrays.lower_ptr.data(), to.upper_ptr = arrays.upper_ptr.data();
    SubdomainsOrdered found;
    if (simulated) found = order(csr.pattern, size, seen.most[k], sizeof(T), to);
#if defined(PROTEAN_HAVE_CUDA)
    if (!simulated) found = device::order_subdomains(*device, csr.pattern, size, seen.most[k], sizeof(T), to);
#endif
    if (!found.needs.have_room(shared, two)) continue;
    arrays.level = Buffer<std::int32_t>(device, found.level);
    arrays.lower_col = Buffer<std::uint16_t>(device, found.lower);
    arrays.upper_col = Buffer<std::uint16_t>(device, found.upper);
    to.level = arrays.level.data();
    to.lower_col = arrays.lower_col.data(), to.upper_col = arrays.upper_col.data();
    if (simulated) fill(csr.pattern, size, to);
#if defined(PROTEAN_HAVE_CUDA)
    if (!simulated) device::fill_subdomains(*device, csr.pattern, size, to);
#endif
    KnownSubdomains& known = made.known;
    known.count = count, known.size = size, known.entries = seen.entries[k], known.levels = found.levels;
    known.most_rows = rows, known.places = n, known.lower = found.lower, known.upper = found.upper;
    known.launch = subdomain_launch(known, found.needs, shared);
    return made;
  }
  return std::nullopt;
}

template std::optional<SubdomainsThere> subdomains_on_device<float>(const ContextPtr&,
                                                                    const CsrMatrix<float>&,
                                                                    const std::vector<std::int64_t>&,
                                                                    const FactorTask&, std::int64_t);
template std::optional<SubdomainsThere> subdomains_on_device<double>(const ContextPtr&,
                                                                     const CsrMatrix<double>&,
                                                                     const std::vector<std::int64_t>&,
                                                                     const FactorTask&, std::int64_t);

}  // namespace protean::detail
