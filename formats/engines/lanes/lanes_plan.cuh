// The layout of lanes.hpp on a device: where lanes and units begin, what fills them, admission. Private to formats/.
#pragma once
#include "formats/engines/lanes/lanes.hpp"
#include "formats/engines/view/expand.cuh"
#include "formats/engines/view/row_view.cuh"

namespace protean::formats {

struct SectionRange {
  std::int64_t begin, end;
};
__device__ inline SectionRange rows_of_section(std::int64_t s, std::int64_t rows) {
  return {s * lane_section, min(rows, (s + 1) * lane_section)};
}

// units[s] := the units of section s.
static __global__ void count_units(DevicePattern a, LaneRule rule, std::int64_t sections,
                                   std::int64_t* units) {
  const std::int64_t s = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (s >= sections) return;
  const auto [begin, end] = rows_of_section(s, a.rows);
  const auto length = [&](std::int64_t r) { return a.length(r); };
  if (rule.mapping == LaneMapping::greedy) {
    units[s] = map_greedily(
        rule, begin, end, length, [](std::int64_t, std::int64_t, std::int64_t, std::int64_t) {},
        [](std::int64_t, std::int64_t) {});
  } else if (rule.mapping == LaneMapping::whole) {
    units[s] = cut_whole(rule, begin, end, length, [](std::int64_t, std::int64_t) {});
  }
}

// The mapping `scan`: lanes[r] := the lanes of row r; then the first lane of row r among all rows.
static __global__ void count_lanes(DevicePattern a, LaneRule rule, std::int64_t* lanes) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r < a.rows) lanes[r] = lanes_of_row(rule, a.length(r));
}
static __global__ void scanned_units(std::int64_t rows, std::int64_t L, const std::int64_t* before,
                                     std::int64_t sections, std::int64_t* units) {
  const std::int64_t s = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (s >= sections) return;
  const auto [begin, end] = rows_of_section(s, rows);
  units[s] = divide_up(before[end] - before[begin], L);
}
// slots[u] := the slots of unit u, which is 0 before.
static __global__ void scatter_lanes(DevicePattern a, LaneRule rule, const std::int64_t* before,
                                     const std::int64_t* first_unit, unsigned long long* slots,
                                     std::int32_t* lane_row) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r >= a.rows) return;
  const std::int64_t s = r / lane_section, count = before[r + 1] - before[r];
  const auto [begin, end] = rows_of_section(s, a.rows);
  const std::int64_t lane = first_unit[s] * rule.L + before[r] - before[begin];
  const std::int64_t last = r + 1 == end ? first_unit[s + 1] * rule.L : lane + count;
  for (std::int64_t at = lane; at < last; ++at)
    lane_row[at] = static_cast<std::int32_t>(at < lane + count ? r : -1 - r);
  const auto wanted = static_cast<unsigned long long>(divide_up(a.length(r), count) * rule.L);
  for (std::int64_t u = lane / rule.L; u <= (lane + count - 1) / rule.L; ++u) atomicMax(slots + u, wanted);
}

static __global__ void greedy_lanes(DevicePattern a, LaneRule rule, std::int64_t sections,
                                    const std::int64_t* first_unit, std::int64_t* slots,
                                    std::int32_t* lane_row) {
  const std::int64_t s = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (s >= sections) return;
  const auto [begin, end] = rows_of_section(s, a.rows);
  const std::int64_t unit = first_unit[s];
  map_greedily(
      rule, begin, end, [&](std::int64_t r) { return a.length(r); },
      [&](std::int64_t u, std::int64_t lane, std::int64_t count, std::int64_t row) {
        for (std::int64_t l = lane; l < lane + count; ++l)
          lane_row[(unit + u) * rule.L + l] = static_cast<std::int32_t>(row);
      },
      [&](std::int64_t u, std::int64_t width) { slots[unit + u] = width * rule.L; });
}

static __global__ void first_rows(DevicePattern a, LaneRule rule, std::int64_t sections,
                                  const std::int64_t* first_unit, std::int32_t* first_row) {
  const std::int64_t s = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (s >= sections) return;
  const auto [begin, end] = rows_of_section(s, a.rows);
  const std::int64_t unit = first_unit[s];
  cut_whole(
      rule, begin, end, [&](std::int64_t r) { return a.length(r); },
      [&](std::int64_t u, std::int64_t row) { first_row[unit + u] = static_cast<std::int32_t>(row); });
}
static __global__ void whole_lanes(DevicePattern a, LaneRule rule, std::int64_t units,
                                   const std::int32_t* first_row, std::int64_t* slots,
                                   std::int32_t* lane_row) {
  const std::int64_t u = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (u >= units) return;
  slots[u] = rule.L * share_lanes(
                          rule, first_row[u], u + 1 < units ? first_row[u + 1] : a.rows,
                          [&](std::int64_t r) { return a.length(r); },
                          [&](std::int64_t lane, std::int64_t count, std::int64_t row) {
                            for (std::int64_t l = lane; l < lane + count; ++l)
                              lane_row[u * rule.L + l] = static_cast<std::int32_t>(row);
                          });
}

// The columns of all slots, and which lanes have entries. One thread a row.
template <class T>
__global__ void lane_fill(MappedLanes<T> a, DeviceRows<T> from, std::int32_t* entries, std::int32_t* col,
                          T* values) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r >= a.rows) return;
  const std::int64_t begin = from.row_ptr[r];
  lay_out_row(
      a, r, from.row_ptr,
      [&](std::int64_t lane, std::int64_t count) {
        if (entries) entries[lane] = static_cast<std::int32_t>(min(count, std::int64_t{1}));
      },
      [&](std::int64_t place, std::int64_t k, std::int64_t last) {
        if (col) col[place] = last < begin ? 0 : from.col[last];
        if (values) values[place] = k < 0 ? T(0) : from.values[k];
      });
}
// The same for blocks, with their keys. One thread a block row.
template <class T>
__global__ void lane_fill_blocks(MappedLanes<T> a, DeviceRows<T> from, std::int64_t block_rows,
                                 const std::int64_t* block_ptr, const std::int32_t* key,
                                 std::int32_t* entries, std::int32_t* col, T* values) {
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p >= block_rows) return;
  const std::int64_t begin = block_ptr[p];
  BlockValues<T, DeviceRowPointers> of_row(from.values, from.row_ptr, a.rows, a.R, p);
  lay_out_row(
      a, p, block_ptr,
      [&](std::int64_t lane, std::int64_t count) {
        entries[lane] = static_cast<std::int32_t>(min(count, std::int64_t{1}));
      },
      [&](std::int64_t place, std::int64_t k, std::int64_t last) {
        of_row.write(a, place, k < 0 ? 0 : key[k] & 3, values);
        if (col) col[place] = last < begin ? 0 : key[last];
      });
}
// counts[p] := the blocks of block row p.
static __global__ void count_row_blocks(DevicePattern a, int R, std::int64_t block_rows,
                                        std::int64_t* counts) {
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p >= block_rows) return;
  std::int64_t count = 0;
  for_blocks(a.row_ptr, a.col, a.rows, R, p, [&](std::int32_t) { ++count; });
  counts[p] = count;
}
static __global__ void write_keys(DevicePattern a, int R, std::int64_t block_rows,
                                  const std::int64_t* block_ptr, std::int32_t* key) {
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p >= block_rows) return;
  std::int64_t to = block_ptr[p];
  for_blocks(a.row_ptr, a.col, a.rows, R, p, [&](std::int32_t one) { key[to++] = one; });
}
// What count_row_blocks() finds, as pointers. Their last number is the number of all blocks.
inline std::unique_ptr<device::Scratch<std::int64_t>> block_pointers(const Context& context,
                                                                     const SparsityPattern& pattern, int R) {
  const std::int64_t rows = divide_up(pattern.rows, R);
  auto pointers = std::make_unique<device::Scratch<std::int64_t>>(context, rows + 1);
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(pointers->data() + rows, 0, 8, device::stream(context)));
  if (rows == 0) return pointers;
  count_row_blocks<<<blocks_of(rows), device::block_size, 0, device::stream(context)>>>(
      device_pattern(pattern), R, rows, pointers->data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  device::exclusive_scan(context, pointers->data(), rows + 1);
  return pointers;
}
static __global__ void mark_empty_lanes(std::int64_t lanes, const std::int32_t* entries,
                                        std::int32_t* lane_row) {
  const std::int64_t lane = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (lane < lanes && entries[lane] == 0) lane_row[lane] = empty_lane(lane_row[lane]);
}

// places[u] := the differences of unit u, or 0; raw[u] := its columns, or 0. One thread a unit.
static __global__ void codable_units(std::int64_t units, std::int64_t L, const std::int64_t* unit_ptr,
                                     const std::int32_t* col, std::int64_t* places, std::int64_t* raw) {
  const std::int64_t u = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (u >= units) return;
  const std::int64_t begin = unit_ptr[u], end = unit_ptr[u + 1];
  bool narrow = true;
  for (std::int64_t place = begin + L; place < end; ++place)
    narrow = narrow && col[place] - col[place - L] < 65536;
  places[u] = narrow && begin < end ? end - begin - L : 0;
  raw[u] = narrow ? 0 : end - begin;
}
static __global__ void code_units(std::int64_t units, std::int64_t L, const std::int64_t* unit_ptr,
                                  const std::int32_t* all, const std::int64_t* places,
                                  const std::int64_t* raw, std::int64_t* code_ptr, std::int32_t* first,
                                  std::uint16_t* delta, std::int32_t* col) {
  const std::int64_t lane = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x, u = lane / L, l = lane % L;
  if (u >= units) return;
  const std::int64_t begin = unit_ptr[u], end = unit_ptr[u + 1];
  const bool narrow = raw[u + 1] == raw[u];
  if (l == 0) code_ptr[u] = narrow ? places[u] : -1 - raw[u];
  first[lane] = begin < end ? all[begin + l] : 0;
  if (narrow) {
    for (std::int64_t place = begin + L + l, to = places[u] + l; place < end; place += L, to += L)
      delta[to] = static_cast<std::uint16_t>(all[place] - all[place - L]);
  } else {
    for (std::int64_t place = begin + l, to = raw[u] + l; place < end; place += L, to += L)
      col[to] = all[place];
  }
}
static __global__ void count_continued(std::int64_t units, std::int64_t L, const std::int32_t* lane_row,
                                       unsigned long long* count) {
  const std::int64_t u = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (u > 0 && u < units && lane_row[u * L - 1] == lane_row[u * L]) atomicAdd(count, 1ull);
}

// What admit() finds. Its arrays are kept until the matrix is made.
struct LanePlanOnDevice {
  template <class N>
  using Kept = std::unique_ptr<device::Scratch<N>>;
  LaneRule rule;
  LaneSizes sizes;
  std::int64_t continued = 0;  // units that begin with a row of the unit before
  Kept<std::int64_t> unit_ptr, places, raw;
  Kept<std::int32_t> lane_row, col;
  // The pattern of blocks, only if slots are blocks.
  Kept<std::int64_t> block_ptr;
  Kept<std::int32_t> key;
  std::int64_t blocks = 0;

  LanePlanOnDevice(const Context& context, const SparsityPattern& matrix, const LaneRule& from) : rule(from) {
    const cudaStream_t queue = device::stream(context);
    constexpr int threads = device::block_size;
    if (rule.block() > 1) find_blocks(context, matrix);
    const SparsityPattern pattern = mapped(matrix);
    if (rule.block() > 1) rule.desired = mean_and_a_tenth(pattern);
    const DevicePattern a = device_pattern(pattern);
    const std::int64_t sections = section_count(pattern.rows), rows = pattern.rows;
    const device::Scratch<std::int64_t> first_unit(context, sections + 1),
        before(context, rule.mapping == LaneMapping::scan ? rows + 1 : 0);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(first_unit.data(), 0, first_unit.bytes(), queue));
    if (sections > 0) {
      if (rule.mapping == LaneMapping::scan) {
        PROTEAN_CUDA_CHECK(cudaMemsetAsync(before.data() + rows, 0, 8, queue));
        count_lanes<<<blocks_of(rows), threads, 0, queue>>>(a, rule, before.data());
        PROTEAN_CUDA_CHECK(cudaGetLastError());
        device::exclusive_scan(context, before.data(), rows + 1);
        scanned_units<<<blocks_of(sections), threads, 0, queue>>>(rows, rule.L, before.data(), sections,
                                                                  first_unit.data());
      } else {
        count_units<<<blocks_of(sections, 32), 32, 0, queue>>>(a, rule, sections, first_unit.data());
      }
      PROTEAN_CUDA_CHECK(cudaGetLastError());
      device::exclusive_scan(context, first_unit.data(), sections + 1);
      sizes.units = read_back(context, first_unit.data() + sections);
    }
    make(context, unit_ptr, sizes.units + 1), make(context, lane_row, sizes.units * rule.L);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(unit_ptr->data(), 0, unit_ptr->bytes(), queue));
    make(context, col, 0), make(context, places, 0), make(context, raw, 0);
    if (sizes.units == 0) return;
    if (rule.mapping == LaneMapping::scan) {
      scatter_lanes<<<blocks_of(rows), threads, 0, queue>>>(
          a, rule, before.data(), first_unit.data(), reinterpret_cast<unsigned long long*>(unit_ptr->data()),
          lane_row->data());
    } else if (rule.mapping == LaneMapping::greedy) {
      greedy_lanes<<<blocks_of(sections, 32), 32, 0, queue>>>(a, rule, sections, first_unit.data(),
                                                              unit_ptr->data(), lane_row->data());
    } else {
      const device::Scratch<std::int32_t> first_row(context, sizes.units);
      first_rows<<<blocks_of(sections, 32), 32, 0, queue>>>(a, rule, sections, first_unit.data(),
                                                            first_row.data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
      whole_lanes<<<blocks_of(sizes.units, 32), 32, 0, queue>>>(a, rule, sizes.units, first_row.data(),
                                                                unit_ptr->data(), lane_row->data());
    }
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::exclusive_scan(context, unit_ptr->data(), sizes.units + 1);
    const device::Scratch<unsigned long long> count(context, 1);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(count.data(), 0, 8, queue));
    count_continued<<<blocks_of(sizes.units), threads, 0, queue>>>(sizes.units, rule.L, lane_row->data(),
                                                                   count.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    continued = static_cast<std::int64_t>(read_back(context, count.data()));
    sizes.slots = read_back(context, unit_ptr->data() + sizes.units);
    if (rule.coded) code(context, pattern);
  }

  // Without columns and values.
  template <class T>
  MappedLanes<T> view(std::int64_t rows) const {
    MappedLanes<T> view{};
    view.unit_ptr = unit_ptr->data(), view.lane_row = lane_row->data();
    view.rows = rows, view.units = sizes.units, view.L = rule.L;
    view.R = rule.R, view.C = rule.C;
    return view;
  }
  // The pattern whose rows have the lanes: the pattern of the matrix, or of its blocks.
  SparsityPattern mapped(const SparsityPattern& matrix) const {
    if (rule.block() == 1) return matrix;
    SparsityPattern pattern;
    pattern.rows = divide_up(matrix.rows, rule.R), pattern.cols = matrix.cols, pattern.nonzeros = blocks;
    pattern.row_ptr.p64 = block_ptr->data(), pattern.col = key->data(), pattern.space = matrix.space;
    return pattern;
  }

 private:
  void find_blocks(const Context& context, const SparsityPattern& matrix) {
    const std::int64_t rows = divide_up(matrix.rows, rule.R);
    block_ptr = block_pointers(context, matrix, rule.R);
    blocks = read_back(context, block_ptr->data() + rows);
    make(context, key, blocks);
    if (rows == 0) return;
    write_keys<<<blocks_of(rows), device::block_size, 0, device::stream(context)>>>(
        device_pattern(matrix), rule.R, rows, block_ptr->data(), key->data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
  template <class N>
  static void make(const Context& context, Kept<N>& to, std::int64_t size) {
    to = std::make_unique<device::Scratch<N>>(context, size);
  }
  void code(const Context& context, const SparsityPattern& pattern) {
    const cudaStream_t queue = device::stream(context);
    make(context, col, sizes.slots);
    make(context, places, sizes.units + 1), make(context, raw, sizes.units + 1);
    const DeviceRows<float> from{
        pattern.rows, {pattern.row_ptr.p32, pattern.row_ptr.p64}, pattern.col, nullptr};
    lane_fill<float><<<blocks_of(pattern.rows), device::block_size, 0, queue>>>(
        view<float>(pattern.rows), from, nullptr, col->data(), nullptr);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(places->data() + sizes.units, 0, 8, queue));
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(raw->data() + sizes.units, 0, 8, queue));
    codable_units<<<blocks_of(sizes.units), device::block_size, 0, queue>>>(
        sizes.units, rule.L, unit_ptr->data(), col->data(), places->data(), raw->data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::exclusive_scan(context, places->data(), sizes.units + 1);
    device::exclusive_scan(context, raw->data(), sizes.units + 1);
    sizes.delta_slots = read_back(context, places->data() + sizes.units);
    sizes.raw_slots = read_back(context, raw->data() + sizes.units);
  }
};

// A device keeps one number more for each unit and row of a block if rows go on in the next unit.
inline Admission admit_lane_sizes(const LanePlanOnDevice& plan, const SparsityPattern& pattern,
                                  const FormatParams& params, std::size_t value_bytes) {
  Admission admission = admit_lanes(plan.rule, plan.sizes, pattern, params, value_bytes);
  if (plan.continued > 0)
    admission.bytes += static_cast<std::size_t>(plan.sizes.units * plan.rule.R) * value_bytes;
  return admission;
}
inline Admission admit_lane_plan(std::shared_ptr<const LanePlanOnDevice> plan, const SparsityPattern& pattern,
                                 const FormatParams& params, std::size_t value_bytes) {
  Admission admission = admit_lane_sizes(*plan, pattern, params, value_bytes);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}
template <LaneRule (*rule_of)(const SparsityPattern&, const FormatParams&)>
Admission admit_lanes_on_device(const Context& context, const SparsityPattern& pattern,
                                const FormatParams& params, std::size_t value_bytes) {
  return admit_lane_plan(std::make_shared<LanePlanOnDevice>(context, pattern, rule_of(pattern, params)),
                         pattern, params, value_bytes);
}

}  // namespace protean::formats
