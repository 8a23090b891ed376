// Many steps of conjugate gradients in one kernel. Each block keeps its rows of the matrix and its part of
// all vectors in shared memory; what goes through the second cache is, for each row, the pair {z, p} that
// other blocks need for their products, and the sums. Private to solvers/.
//
// A step has two meetings of all blocks:
//
//   p := z + beta p, of rows of other blocks where it is read, from their pairs;  q := A p;  p . q
//   -- meeting: p . q
//   alpha = r.z / p.q;  r := r - alpha q;  z := M^-1 r;  pairs := {z, p};  r . r, r . z
//   -- meeting: r . r, r . z; x := x + alpha p while the others are awaited
//   beta = r.z / old r.z; the judge's tests, by every block on the same numbers
//
// A fence costs as much as a reading of the second cache, and a step would need four of them one after the
// other. So no reader relies on the order of two writes: each number that blocks exchange says itself whether
// it is there. Absent is a NaN that no result can be; readers look again until it is gone. In a meeting a
// block writes its sums and reads those of all. Every block adds them in the same order, so all have the same
// bits, and so in every run.
//
// Places are used in turn, and made absent again by their writer when all have read them, which it knows from
// a later meeting: who gives its part of a sum has read what that depends on. A fence beside each meeting,
// off the path that the others wait for, makes sure that this is seen before the place is used again:
//   pairs   two sets. Those of step k are read in the product of step k + 1, made absent after its p . q has
//           been met, and written again in step k + 2.
//   sums    four sets. Those of meeting m are made absent after meeting m + 1 and written in meeting m + 4.
#pragma once
#include <cstdint>
#include <cuda/atomic>

#include "core/device/judge.cuh"
#include "core/device/kernel_tools.cuh"
#include "operators/row_arrays.hpp"

namespace protean::detail {

// Views of RowArrays by kind:
//   int row(p), int width(p)       the row at position p; how many entries it has, holes among them
//   RowEntry get(p, k)             one of them
//   std::int64_t before(p)         slots of the positions before p, with padding
template <class T>
struct RowEntry {
  int col;  // -1: a hole
  T value;
};

template <class T>
struct CsrView {
  RowArrays<T> a;
  __device__ std::int64_t before(int p) const { return a.row_ptr32 ? a.row_ptr32[p] : a.row_ptr64[p]; }
  __device__ int row(int p) const { return p; }
  __device__ int width(int p) const { return static_cast<int>(before(p + 1) - before(p)); }
  __device__ RowEntry<T> get(int p, int k) const {
    const std::int64_t at = before(p) + k;
    return {__ldg(a.col + at), __ldg(a.values + at)};
  }
};

template <class T>
struct SliceView {
  RowArrays<T> a;
  __device__ int row(int p) const { return a.perm ? __ldg(a.perm + p) : p; }
  __device__ int slots(int p) const {
    if (!a.slice_ptr) return static_cast<int>(a.longest);
    const int slice = p >> a.shift;
    return static_cast<int>((__ldg(a.slice_ptr + slice + 1) - __ldg(a.slice_ptr + slice)) >> a.shift);
  }
  __device__ std::int64_t base(int p) const {
    return a.slice_ptr ? __ldg(a.slice_ptr + (p >> a.shift)) + (p & ((1 << a.shift) - 1)) : p;
  }
  // Without padding, which repeats the last column.
  __device__ int width(int p) const {
    const int count = slots(p);
    if (count == 0) return 0;
    const std::int64_t at = base(p);
    const int last = __ldg(a.col + at + (count - 1) * a.stride);
    int low = 0, high = count - 1;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (__ldg(a.col + at + middle * a.stride) < last)
        low = middle + 1;
      else
        high = middle;
    }
    return low + 1;
  }
  __device__ std::int64_t before(int p) const {
    if (!a.slice_ptr) return p * a.longest;
    const int last = p == 0 ? 0 : (p - 1) >> a.shift;
    return __ldg(a.slice_ptr + last) + (p == 0 ? 0 : std::int64_t{p - (last << a.shift)} * slots(p - 1));
  }
  __device__ RowEntry<T> get(int p, int k) const {
    const std::int64_t at = base(p) + k * a.stride;
    return {__ldg(a.col + at), __ldg(a.values + at)};
  }
};

template <class T>
struct DiagonalView {
  RowArrays<T> a;
  __device__ int row(int p) const { return p; }
  __device__ int width(int p) const {
    const std::int64_t h = p / a.height;
    return static_cast<int>(a.ptr[h + 1] - a.ptr[h]);
  }
  __device__ std::int64_t before(int p) const {
    const std::int64_t h = p == 0 ? 0 : (p - 1) / a.height;
    return a.ptr[h] * a.height + (p == 0 ? 0 : (p - h * a.height) * width(p - 1));
  }
  __device__ RowEntry<T> get(int p, int k) const {
    const std::int64_t h = p / a.height, i = p - h * a.height, d = a.ptr[h] + k;
    if (!(a.entries[d * a.bit_bytes + i / 8] >> (i % 8) & 1)) return {-1, T(0)};
    return {static_cast<int>(p + a.off[d]), a.values[d * a.height + i]};
  }
};

// How the rows lie in shared memory. Block b has positions first[b] .. first[b + 1] - 1. `lanes` neighbouring
// threads share a row; the rows of a warp are a chunk, whose slot j of all lanes is contiguous.
struct ResidentShape {
  static constexpr int most_threads = 512;
  int blocks = 1, threads = most_threads, lanes = 1;
  int positions = 0, slots = 0, chunks = 0;  // of the block with the most
  bool diagonal = false, permuted = false;

  std::size_t bytes(std::size_t value_bytes) const {
    return value_bytes * (static_cast<std::size_t>(slots) + static_cast<std::size_t>(positions) * vectors()) +
           sizeof(int) * (static_cast<std::size_t>(slots) + (permuted ? positions : 0) + chunks + 1);
  }
  __host__ __device__ int vectors() const { return diagonal ? 5 : 4; }  // x, r, p, q and the diagonal
};

// What a shape has to hold, over all blocks.
struct ResidentNeeds {
  unsigned long long positions, slots, widest;  // widest: slots of a lane in one chunk
};

// The slots of a lane in a chunk. By whole warps.
template <class Rows>
__device__ inline int chunk_width(const Rows& a, int first, int last, int lanes, int chunk) {
  const int p = first + chunk * (32 / lanes) + static_cast<int>(threadIdx.x) % 32 / lanes;
  int width = p < last ? (a.width(p) + lanes - 1) / lanes : 0;
#pragma unroll
  for (int step = 16; step > 0; step /= 2) width = max(width, __shfl_xor_sync(0xffffffffu, width, step));
  return width;
}

// Cuts the positions into parts of the same bytes in shared memory, and says what is needed. A block each.
// place_of: where rows are permuted, receives the position of each.
template <class Rows>
__global__ void plan_resident(Rows a, int rows, int lanes, int slot_bytes, int row_bytes, int* first,
                              int* place_of, ResidentNeeds* needs) {
  __shared__ int bounds[2];
  __shared__ unsigned long long widths;
  if (threadIdx.x < 2) {
    const auto cost = [&](int p) { return a.before(p) * slot_bytes + std::int64_t{p} * row_bytes; };
    const std::int64_t number = blockIdx.x + threadIdx.x, goal = cost(rows) * number / gridDim.x;
    int low = 0, high = rows;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (cost(middle) < goal)
        low = middle + 1;
      else
        high = middle;
    }
    bounds[threadIdx.x] = low;
    first[number] = low;
    widths = 0;
  }
  __syncthreads();
  const int rows_a_chunk = 32 / lanes, positions = bounds[1] - bounds[0];
  if (place_of)
    for (int i = threadIdx.x; i < positions; i += blockDim.x) place_of[a.row(bounds[0] + i)] = bounds[0] + i;
  for (int c = threadIdx.x / 32; c * rows_a_chunk < positions; c += blockDim.x / 32) {
    const auto width = static_cast<unsigned long long>(chunk_width(a, bounds[0], bounds[1], lanes, c));
    if (threadIdx.x % 32 != 0) continue;
    atomicAdd(&widths, width);
    atomicMax(&needs->widest, width);
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  atomicMax(&needs->positions, static_cast<unsigned long long>(positions));
  atomicMax(&needs->slots, 32 * widths);
}

// A pair as the blocks exchange it, in one access; the halves may come at different times.
template <class T>
struct alignas(2 * sizeof(T)) ResidentPair {
  T z, p;
};

template <class T>
struct ResidentTask {
  ResidentShape shape;
  const int *first, *place_of;  // place_of: null where rows are not permuted
  T *x, *r, *p;                 // in and out, as CgState says
  const T* d;                   // null: no preconditioner
  T* scalars;                   // of CgState
  int phase;                    // the pair of scalars that r and p belong to
  int rows;
  int steps;               // most of them in this launch, up to Judgement::most_steps
  ResidentPair<T>* pairs;  // two sets of one for each position
  // Of sums, all absent; those of the next launch are made so in this one.
  ResidentPair<T>*places, *next_places;
  device::Judgement *judgement, *copy;
};

// A number that no sum, z or p is: one that is not a number is written as another NaN.
__device__ inline double absent(double) { return __longlong_as_double(-1); }
__device__ inline float absent(float) { return __int_as_float(-1); }
__device__ inline bool is_absent(double v) { return __double_as_longlong(v) == -1; }
__device__ inline bool is_absent(float v) { return __float_as_int(v) == -1; }
template <class T>
__device__ inline T present(T v) {
  return v == v ? v : T(__int_as_float(0x7fc00000));
}

// Each half is written and read at once, seen by all blocks, and no order is kept with anything else.
__device__ inline void put(ResidentPair<double>* place, double z, double p) {
  asm volatile("st.relaxed.gpu.global.v2.f64 [%0], {%1, %2};" ::"l"(place), "d"(z), "d"(p) : "memory");
}
__device__ inline void put(ResidentPair<float>* place, float z, float p) {
  asm volatile("st.relaxed.gpu.global.v2.f32 [%0], {%1, %2};" ::"l"(place), "f"(z), "f"(p) : "memory");
}
__device__ inline ResidentPair<double> look(const ResidentPair<double>* place) {
  ResidentPair<double> pair;
  asm volatile("ld.relaxed.gpu.global.v2.f64 {%0, %1}, [%2];"
               : "=d"(pair.z), "=d"(pair.p)
               : "l"(place)
               : "memory");
  return pair;
}
__device__ inline ResidentPair<float> look(const ResidentPair<float>* place) {
  ResidentPair<float> pair;
  asm volatile("ld.relaxed.gpu.global.v2.f32 {%0, %1}, [%2];"
               : "=f"(pair.z), "=f"(pair.p)
               : "l"(place)
               : "memory");
  return pair;
}
template <class T>
__device__ inline bool is_absent(const ResidentPair<T>& pair) {
  return is_absent(pair.z) || is_absent(pair.p);
}
template <class T>
__device__ inline void put_absent(ResidentPair<T>* place) {
  put(place, absent(T()), absent(T()));
}

// The meetings of a launch. All threads of all blocks take part in each.
template <class T>
class Meetings {
 public:
  static constexpr int sets = 4, most_blocks = 256;
  // A place for each block in each set, a cache line apart: lines that many wait for are slow.
  static constexpr int stride = 128 / sizeof(ResidentPair<T>);
  __host__ __device__ static int places(int blocks) { return sets * blocks * stride; }
  struct Room {
    ResidentPair<T> of_warps[ResidentShape::most_threads / 32], of_blocks;
  };
  // room: in shared memory.
  __device__ Meetings(ResidentPair<T>* places, Room& room) : places_(places), room_(room) {}

  // a, b := their sums over all threads of the grid, in every thread. meanwhile() is done between giving and
  // taking. fenced: what any block has written before is seen by all after.
  template <class Meanwhile>
  __device__ void operator()(T& a, T& b, Meanwhile meanwhile, bool fenced = false) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const int blocks = gridDim.x;
    a = device::sum_lanes(a), b = device::sum_lanes(b);
    if (lane == 0) room_.of_warps[warp] = {a, b};
    __syncthreads();
    ResidentPair<T>* const set = places_ + turn_ * blocks * stride;
    if (threadIdx.x == 0) {
      const ResidentPair<T> given = sum_of_warps(warps);
      if (blocks > 1) {
        if (fenced) fence();
        put(set + blockIdx.x * stride, present(given.z), present(given.p));
      } else {
        room_.of_blocks = given;
      }
    }
    meanwhile();
    if (blocks > 1) {
      if (warp == 0) {
        const ResidentPair<T> taken = take(set, blocks, lane);
        if (fenced) fence();
        if (lane == 0) room_.of_blocks = taken;
      } else if (warp == warps - 1 && lane == 0) {
        fence();  // what was made absent before this meeting is so before the next
      }
    }
    __syncthreads();
    a = room_.of_blocks.z, b = room_.of_blocks.p;
    if (threadIdx.x == 0 && blocks > 1)
      put_absent(places_ + ((turn_ + sets - 1) % sets * blocks + blockIdx.x) * stride);
    turn_ = (turn_ + 1) % sets;
  }

 private:
  __device__ static void fence() {
    cuda::atomic_thread_fence(cuda::memory_order_acq_rel, cuda::thread_scope_device);
  }

  // A tree, into part[0].
  template <int count, class Parts>
  __device__ static void add_up(Parts& part) {
    if constexpr (count > 1) {
#pragma unroll
      for (int k = 0; k < count / 2; ++k)
        part[k].z += part[k + count / 2].z, part[k].p += part[k + count / 2].p;
      add_up<count / 2>(part);
    }
  }

  __device__ ResidentPair<T> sum_of_warps(int warps) const {
    constexpr int most = ResidentShape::most_threads / 32;
    ResidentPair<T> part[most];
#pragma unroll
    for (int k = 0; k < most; ++k) {
      part[k] = {T(0), T(0)};
      if (k < warps) part[k] = room_.of_warps[k];
    }
    add_up<most>(part);
    return part[0];
  }

  // By one warp: the sums of all blocks' numbers, in all lanes.
  __device__ static ResidentPair<T> take(const ResidentPair<T>* set, int blocks, int lane) {
    constexpr int most = most_blocks / 32;
    ResidentPair<T> part[most];
#pragma unroll
    for (int k = 0; k < most; ++k) {
      part[k] = {T(0), T(0)};
      if (lane + 32 * k < blocks) part[k] = {absent(T()), absent(T())};
    }
    for (bool all = false; !all;) {
      all = true;
#pragma unroll
      for (int k = 0; k < most; ++k)
        if (is_absent(part[k])) part[k] = look(set + (lane + 32 * k) * stride);
#pragma unroll
      for (int k = 0; k < most; ++k) all = all && !is_absent(part[k]);
    }
    add_up<most>(part);
    __syncwarp();
    return {device::sum_lanes(part[0].z), device::sum_lanes(part[0].p)};
  }

  ResidentPair<T>* places_;
  Room& room_;
  int turn_ = 0;
};

// x + a y, rounded once.
__device__ inline double multiply_add(double a, double y, double x) { return __fma_rn(a, y, x); }
__device__ inline float multiply_add(float a, float y, float x) { return __fmaf_rn(a, y, x); }
__device__ inline double product(double a, double b) { return __dmul_rn(a, b); }
__device__ inline float product(float a, float b) { return __fmul_rn(a, b); }

template <class T, class Rows>
__global__ void __launch_bounds__(ResidentShape::most_threads)
    resident_cg(const Rows a, const ResidentTask<T> task) {
  using Pair = ResidentPair<T>;
  const ResidentShape& shape = task.shape;
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32, warps = blockDim.x / 32;
  const double goal = task.judgement->goal, limit = task.judgement->limit;
  long long left = task.judgement->left;
  if (task.judgement->ended) {
    if (blockIdx.x == 0 && thread == 0) task.copy->ended = 1, task.copy->steps = 0, task.copy->left = left;
    return;
  }

  extern __shared__ __align__(16) unsigned char shared[];
  T* const values = reinterpret_cast<T*>(shared);
  T* const x = values + shape.slots;
  T* const r = x + shape.positions;
  T* const p = r + shape.positions;
  T* const q = p + shape.positions;
  T* const d = q + shape.positions;
  int* const cols = reinterpret_cast<int*>(x + shape.positions * shape.vectors());
  int* const begin = cols + shape.slots;  // of the chunks
  int* const row_of = begin + shape.chunks + 1;
  __shared__ double history[device::Judgement::most_steps];

  const int first = task.first[blockIdx.x], last = task.first[blockIdx.x + 1], positions = last - first;
  const int lanes = shape.lanes, rows_a_chunk = 32 / lanes;
  const int chunks = (positions + rows_a_chunk - 1) / rows_a_chunk;
  // Of this block's rows, in both sets.
  const auto pairs = [&](int set) { return task.pairs + first + (set ? task.rows : 0); };
  const auto row = [&](int i) { return shape.permuted ? row_of[i] : first + i; };

  for (int c = warp; c < chunks; c += warps) {
    const int width = chunk_width(a, first, last, lanes, c);
    if (lane == 0) begin[c + 1] = 32 * width;
  }
  for (int i = thread; i < positions; i += blockDim.x) {
    const int its_row = a.row(first + i);
    if (shape.permuted) row_of[i] = its_row;
    x[i] = task.x[its_row], r[i] = task.r[its_row], p[i] = task.p[its_row];
    if (task.d) d[i] = task.d[its_row];
    put(pairs(0) + i, present(p[i]), T(0)), put_absent(pairs(1) + i);
  }
  if (thread < Meetings<T>::sets)
    put_absent(task.next_places + (thread * gridDim.x + blockIdx.x) * Meetings<T>::stride);
  __syncthreads();
  if (warp == 0) {
    int sum = 0;
    for (int c = 0; c < chunks; c += 32) {
      int width = c + lane < chunks ? begin[c + lane + 1] : 0;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const int other = __shfl_up_sync(0xffffffffu, width, step);
        if (lane >= step) width += other;
      }
      if (c + lane < chunks) begin[c + lane + 1] = sum + width;
      sum += __shfl_sync(0xffffffffu, width, 31);
    }
    if (lane == 0) begin[0] = 0;
  }
  __syncthreads();
  for (int c = warp; c < chunks; c += warps) {
    const int its_p = first + c * rows_a_chunk + lane / lanes;
    const int width = its_p < last ? a.width(its_p) : 0;
    for (int at = begin[c] + lane, k = lane % lanes; at < begin[c + 1]; at += 32, k += lanes) {
      const RowEntry<T> entry = k < width ? a.get(its_p, k) : RowEntry<T>{-1, T(0)};
      const int place = entry.col >= 0 && task.place_of ? task.place_of[entry.col] : entry.col;
      // Those of this block are counted from -2 downwards.
      cols[at] = place >= first && place < last ? first - place - 2 : place;
      values[at] = entry.value;
    }
  }

  T* const now = task.scalars + 1 + 2 * task.phase;
  T rr = now[0], rz = now[1], old_rr = rr, old_rz = rz, pq = 0, beta = 0;
  __shared__ typename Meetings<T>::Room meeting_room;
  Meetings<T> meet(task.places, meeting_room);
  T nothing[2] = {};
  meet(
      nothing[0], nothing[1], [] {}, true);

  bool ended = false;
  int step = 0;
  do {
    const ResidentPair<T>* const others = task.pairs + (step % 2 ? task.rows : 0);
    if (step > 0) {
      // p := z + beta p
      for (int i = thread; i < positions; i += blockDim.x)
        p[i] = multiply_add(beta, p[i], task.d ? product(d[i], r[i]) : r[i]);
      __syncthreads();
    }
    // q := A p, p . q
    T p_q = 0, unused = 0;
    for (int c = warp; c < chunks; c += warps) {
      T sum = 0;
      const int end = begin[c + 1];
      constexpr int batch = 8;  // pairs on their way at a time
      for (int at = begin[c] + lane; at < end; at += 32 * batch) {
        int col[batch];
        Pair pair[batch];
#pragma unroll
        for (int u = 0; u < batch; ++u) col[u] = at + 32 * u < end ? cols[at + 32 * u] : -1;
#pragma unroll
        for (int u = 0; u < batch; ++u) {
          pair[u] = {T(0), T(0)};
          if (col[u] >= 0) pair[u] = look(others + col[u]);
        }
#pragma unroll
        for (int u = 0; u < batch; ++u)
          while (is_absent(pair[u])) pair[u] = look(others + col[u]);
#pragma unroll
        for (int u = 0; u < batch; ++u) {
          const T p_j = col[u] < -1 ? p[-2 - col[u]] : multiply_add(beta, pair[u].p, pair[u].z);
          if (col[u] != -1) sum += values[at + 32 * u] * p_j;
        }
      }
      for (int other = lanes / 2; other > 0; other /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, other);
      const int i = c * rows_a_chunk + lane / lanes;
      if (lane % lanes == 0 && i < positions) q[i] = sum, p_q += p[i] * sum;
    }
    meet(p_q, unused, [] {});
    pq = p_q;
    // alpha = r.z / p.q;  r := r - alpha q;  r . r, r . z
    const T alpha = pq > T(0) ? rz / pq : T(0);
    T r_r = 0, r_z = 0;
    for (int i = thread; i < positions; i += blockDim.x) {
      const T r_i = r[i] - alpha * q[i], square = r_i * r_i;
      const T z_i = task.d ? product(d[i], r_i) : r_i;
      put(pairs((step + 1) % 2) + i, present(z_i), present(p[i]));
      r[i] = r_i;
      r_r += square, r_z += task.d ? d[i] * square : square;
    }
    meet(r_r, r_z, [&] {
      for (int i = thread; i < positions; i += blockDim.x) {
        put_absent(pairs(step % 2) + i);
        x[i] += alpha * p[i];
      }
    });
    old_rr = rr, old_rz = rz;
    rr = r_r, rz = r_z;
    // beta = r.z / old r.z
    beta = old_rz > T(0) ? rz / old_rz : T(0);
    // The tests of Judge.
    const double squared = static_cast<double>(rr), residual = sqrt(squared);
    --left;
    ended = !isfinite(squared) || squared < 0 || residual <= goal || residual > limit || left <= 0 ||
            !isfinite(pq) || !(pq > T(0)) || !isfinite(rz) || !(rz > T(0));
    if (blockIdx.x == 0 && thread == 0) history[step] = squared;
    ++step;
  } while (!ended && step < task.steps);

  __syncthreads();
  for (int i = thread; i < positions; i += blockDim.x) {
    const int its_row = row(i);
    task.x[its_row] = x[i], task.r[its_row] = r[i];
    task.p[its_row] = multiply_add(beta, p[i], task.d ? product(d[i], r[i]) : r[i]);
  }
  if (blockIdx.x != 0) return;
  for (int k = thread; k < step; k += blockDim.x) task.copy->residual_squared[k] = history[k];
  if (thread != 0) return;
  T* const end = task.scalars + 1 + 2 * ((task.phase + step) % 2);
  T* const before = task.scalars + 1 + 2 * ((task.phase + step + 1) % 2);
  task.scalars[0] = pq, end[0] = rr, end[1] = rz, before[0] = old_rr, before[1] = old_rz;
  task.judgement->ended = ended, task.judgement->left = left;
  task.copy->ended = ended, task.copy->steps = step, task.copy->left = left;
  task.copy->guards[0][0] = static_cast<double>(pq), task.copy->guards[1][0] = static_cast<double>(rz);
}

}  // namespace protean::detail
