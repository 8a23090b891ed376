// Many steps of conjugate gradients in one kernel. Each block keeps its rows of the matrix and its part of
// all vectors in shared memory. Through the L2 cache go only the numbers that blocks exchange: for each row
// the pair {z, p}, which other blocks need for their products, and the sums. Private to solvers/.
//
// A step has two reductions over all blocks:
//
//   p := z + beta p, of rows of other blocks where it is read, from their pairs;  q := A p;  p . q
//   -- reduction 1: p . q
//   alpha = r.z / p.q;  r := r - alpha q;  z := M^-1 r;  pairs := {z, p};  r . r, r . z
//   -- reduction 2: r . r, r . z;  x := x + alpha p while the block waits for the others
//   beta = r.z / old r.z;  the judge's tests, by every block on the same numbers
//
// A fence costs as much as an access to the L2 cache, and acquire and release on the critical path would cost
// four of them a step. So blocks exchange numbers by relaxed accesses, and each number shows by itself whether
// it has arrived: the mark "absent" is a NaN that no result can be. A reader repeats its load until the mark is
// gone. In a reduction a block writes its sums and reads the sums of all blocks. Every block adds them in the same
// order, so all have the same bits, in every run.
//
// A slot (of a pair or of a sum) is used again after some steps, so its writer must mark it absent in between.
// Two orders are needed: the mark is written after all blocks have read the old number, and no block reads the
// old number after the mark. Both follow from causality order in the memory model of PTX (PTX ISA, "Memory
// Consistency Model": release and acquire patterns, base causality order, axioms Coherence and Causality).
//
// The last warp of a block, the communicator, has no rows. In step k it does in program order
//     reduction 1:  writes the block's sum, reads the sums of all blocks
//     reduction 2:  writes the block's sums, reads the sums of all blocks
//     F(k):         fence.acq_rel.gpu, while the other warps compute the product of step k + 1
// F(k) and the writes of step k + 1 are a release pattern; the reads of step k + 1 and F(k + 1) are an acquire
// pattern. The barriers of the block (bar.sync) join its other threads to the communicator. Therefore:
//
//   (*) What any thread did before reduction 2 of step k ended happens before what the communicator of any
//       block does after F(k + 1), and before what any thread does after reduction 1 of step k + 2 began.
//
//   pairs   5 sets. Step k reads set k mod 5 in its product. The set is marked absent during reduction 2 of
//           step k + 2, after reduction 1 of that step began (*). It is written again in step k + 4 and read in
//           the product of step k + 5, after reduction 1 of step k + 4 began (*).
//   sums    8 sets, two a step. The communicator reads the sums of step k before F(k) and marks them absent after
//           F(k + 1) (*). It uses them again in step k + 4, after F(k + 3) (*). The reduction before the first
//           step counts as one of step -1; its fences are on the critical path.
//
// A slot has one writer thread, so its writes are ordered by program order.
#pragma once
#include <cstdint>
#include <cuda/atomic>

#include "core/device/judge.cuh"
#include "core/device/kernel_tools.cuh"
#include "solvers/resident_rows.cuh"

namespace protean::detail {

// A pair as the blocks exchange it, in one vector access. The two halves may arrive at different times.
template <class T>
struct alignas(2 * sizeof(T)) ResidentPair {
  T z, p;
};

constexpr int pair_sets = 5;

template <class T>
struct ResidentTask {
  ResidentShape shape;
  const int *first, *place_of;  // place_of: null if rows are not permuted
  T *x, *r, *p;                 // in and out, as described at CgState
  const T* d;                   // null: no preconditioner
  T* scalars;                   // of CgState
  int phase;                    // which pair of scalars r and p belong to
  int rows;
  int steps;               // at most this many in this launch; up to Judgement::most_steps
  ResidentPair<T>* pairs;  // pair_sets sets of one for each position
  // Slots of the sums, all absent. This launch marks the slots of the next launch absent.
  ResidentPair<T>*sums, *next_sums;
  device::Judgement *judgement, *copy;
};

// The mark is one NaN. present() replaces any NaN among the results by another one.
__device__ inline double absent(double) { return __longlong_as_double(-1); }
__device__ inline float absent(float) { return __int_as_float(-1); }
__device__ inline bool is_absent(double v) { return __double_as_longlong(v) == -1; }
__device__ inline bool is_absent(float v) { return __float_as_int(v) == -1; }
template <class T>
__device__ inline T present(T v) {
  return v == v ? v : T(__int_as_float(0x7fc00000));
}

// Relaxed accesses of device scope. Each half is written and read in one piece, and the access has no order
// with accesses to other addresses.
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
__device__ inline void mark_absent(ResidentPair<T>* place) {
  put(place, absent(T()), absent(T()));
}

// The reductions of a launch. All threads of all blocks take part in each of them.
template <class T>
class GridReductions {
 public:
  static constexpr int sets = 8, most_blocks = 256;
  // Each block has a slot in each set. Slots are a cache line apart, because a line that several blocks write
  // while others poll it is slow.
  static constexpr int stride = 128 / sizeof(ResidentPair<T>);
  __host__ __device__ static int slots(int blocks) { return sets * blocks * stride; }
  struct Shared {
    ResidentPair<T> of_warps[ResidentShape::most_threads / 32], of_blocks;
  };
  // slots: all absent. shared: in shared memory. The last warp is the communicator.
  __device__ GridReductions(ResidentPair<T>* slots, Shared& shared)
      : slots_(slots), shared_(shared), workers_(static_cast<int>(blockDim.x) / 32 - 1) {}

  // a, b := their sums over all threads of the grid except communicators, in every thread. overlapped() runs in the
  // other warps while the communicator waits. fenced: what any block has written before is visible to all blocks
  // afterwards; the fences are on the critical path.
  template <class Overlapped>
  __device__ void operator()(T& a, T& b, Overlapped overlapped, bool fenced = false) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (warp < workers_) {
      a = device::sum_lanes(a), b = device::sum_lanes(b);
      if (lane == 0) shared_.of_warps[warp] = {a, b};
    }
    __syncthreads();
    if (warp < workers_) {
      overlapped();
    } else {
      ResidentPair<T> sums = sum_of_warps();
      if (gridDim.x > 1) {
        ResidentPair<T>* const set = set_of(number_);
        if (fenced) fence();
        if (lane == 0) put(set + blockIdx.x * stride, present(sums.z), present(sums.p));
        sums = take(set, lane);
        if (fenced) fence();
      }
      if (lane == 0) shared_.of_blocks = sums;
    }
    __syncthreads();
    a = shared_.of_blocks.z, b = shared_.of_blocks.p;
    ++number_;
  }

  // Called by all threads before the product of the next step: F(k), and the marks of the step before.
  __device__ void end_step() {
    if (threadIdx.x / 32 < workers_ || gridDim.x == 1) return;
    fence();
    __syncwarp();
    if (threadIdx.x % 32 == 0)
      for (const unsigned old : {number_ - 4, number_ - 3}) mark_absent(set_of(old) + blockIdx.x * stride);
  }

 private:
  __device__ static void fence() {
    cuda::atomic_thread_fence(cuda::memory_order_acq_rel, cuda::thread_scope_device);
  }
  __device__ ResidentPair<T>* set_of(unsigned number) const {
    return slots_ + number % sets * gridDim.x * stride;
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

  __device__ ResidentPair<T> sum_of_warps() const {
    constexpr int most = ResidentShape::most_threads / 32;
    ResidentPair<T> part[most];
#pragma unroll
    for (int k = 0; k < most; ++k) {
      part[k] = {T(0), T(0)};
      if (k < workers_) part[k] = shared_.of_warps[k];
    }
    add_up<most>(part);
    return part[0];
  }

  // By one warp: the sums of all blocks' numbers, in all lanes.
  __device__ static ResidentPair<T> take(const ResidentPair<T>* set, int lane) {
    constexpr int most = most_blocks / 32;
    const int blocks = gridDim.x;
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

  ResidentPair<T>* slots_;
  Shared& shared_;
  const int workers_;    // warps that have rows
  unsigned number_ = 1;  // of the next reduction; step k has the numbers 2 k + 2 and 2 k + 3
};

// x + a y, rounded once.
__device__ inline double multiply_add(double a, double y, double x) { return __fma_rn(a, y, x); }
__device__ inline float multiply_add(float a, float y, float x) { return __fmaf_rn(a, y, x); }
__device__ inline double product(double a, double b) { return __dmul_rn(a, b); }
__device__ inline float product(float a, float b) { return __fmul_rn(a, b); }

// The rows of a block in shared memory, and the part of each thread in the pieces of a step. The communicator has no
// rows: its threads pass through all of them.
template <class T, class Rows>
struct ResidentBlock {
  using Pair = ResidentPair<T>;

  __device__ ResidentBlock(const Rows& rows, const ResidentTask<T>& its_task, unsigned char* shared)
      : a(rows), task(its_task), values(reinterpret_cast<T*>(shared)) {
    const ResidentShape& shape = task.shape;
    x = values + shape.slots;
    r = x + shape.positions, p = r + shape.positions, q = p + shape.positions, d = q + shape.positions;
    cols = reinterpret_cast<int*>(x + shape.positions * shape.vectors());
    begin = cols + shape.slots, row_of = begin + shape.chunks + 1;
    first = task.first[blockIdx.x], last = task.first[blockIdx.x + 1], positions = last - first;
    lanes = shape.lanes, rows_a_chunk = 32 / lanes, chunks = (positions + rows_a_chunk - 1) / rows_a_chunk;
  }

  // Of this block's rows.
  __device__ Pair* pairs(int set) const {
    return task.pairs + first + std::int64_t{set % pair_sets} * task.rows;
  }

  __device__ void load() {
    for (int i = thread; has_rows && i < positions; i += threads) {
      const int its_row = a.row(first + i);
      if (task.shape.permuted) row_of[i] = its_row;
      x[i] = task.x[its_row], r[i] = task.r[its_row], p[i] = task.p[its_row];
      if (task.d) d[i] = task.d[its_row];
      put(pairs(0) + i, present(p[i]), T(0));
      for (int set = 1; set < pair_sets; ++set) mark_absent(pairs(set) + i);
    }
    using Reductions = GridReductions<T>;
    if (thread < Reductions::sets)
      mark_absent(task.next_sums + (thread * gridDim.x + blockIdx.x) * Reductions::stride);
    place_chunks();
    load_entries();
  }

  // p := z + beta p
  __device__ void next_direction(T beta) {
    for (int i = thread; has_rows && i < positions; i += threads)
      p[i] = multiply_add(beta, p[i], task.d ? product(d[i], r[i]) : r[i]);
  }

  // q := A p. Returns the thread's part of p . q.
  __device__ T multiply(int step, T beta) {
    const Pair* const others = task.pairs + std::int64_t{step % pair_sets} * task.rows;
    T p_q = 0;
    for (int c = warp; has_rows && c < chunks; c += warps) {
      T sum = 0;
      const int end = begin[c + 1];
      constexpr int batch = 8;  // pairs that are loaded at the same time
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
    return p_q;
  }

  // r := r - alpha q, and the pairs of the next step. Adds the thread's parts of r . r and r . z.
  __device__ void update_residual(int step, T alpha, T& r_r, T& r_z) {
    for (int i = thread; has_rows && i < positions; i += threads) {
      const T r_i = r[i] - alpha * q[i], square = r_i * r_i;
      const T z_i = task.d ? product(d[i], r_i) : r_i;
      put(pairs(step + 1) + i, present(z_i), present(p[i]));
      r[i] = r_i;
      r_r += square, r_z += task.d ? d[i] * square : square;
    }
  }

  // x := x + alpha p, and the marks of the pairs of two steps before. Not by the communicator.
  __device__ void update_solution(int step, T alpha) {
    for (int i = thread; i < positions; i += threads) {
      if (step > 1) mark_absent(pairs(step - 2) + i);
      x[i] += alpha * p[i];
    }
  }

  __device__ void store(T beta) const {
    for (int i = thread; has_rows && i < positions; i += threads) {
      const int its_row = task.shape.permuted ? row_of[i] : first + i;
      task.x[its_row] = x[i], task.r[its_row] = r[i];
      task.p[its_row] = multiply_add(beta, p[i], task.d ? product(d[i], r[i]) : r[i]);
    }
  }

 private:
  // begin[c] := the first slot of chunk c.
  __device__ void place_chunks() {
    for (int c = warp; has_rows && c < chunks; c += warps) {
      const int width = chunk_width(a, first, last, lanes, c);
      if (lane == 0) begin[c + 1] = 32 * width;
    }
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
  }

  __device__ void load_entries() {
    for (int c = warp; has_rows && c < chunks; c += warps) {
      const int its_p = first + c * rows_a_chunk + lane / lanes;
      const int width = its_p < last ? a.width(its_p) : 0;
      for (int at = begin[c] + lane, k = lane % lanes; at < begin[c + 1]; at += 32, k += lanes) {
        const RowEntry<T> entry = k < width ? a.get(its_p, k) : RowEntry<T>{-1, T(0)};
        const int place = entry.col >= 0 && task.place_of ? task.place_of[entry.col] : entry.col;
        // Columns of this block are stored as -2, -3, ...: their p is in shared memory.
        cols[at] = place >= first && place < last ? first - place - 2 : place;
        values[at] = entry.value;
      }
    }
  }

  const Rows& a;
  const ResidentTask<T>& task;
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int threads = static_cast<int>(blockDim.x) - ResidentShape::communicator, warps = threads / 32;
  const bool has_rows = thread < threads;
  T *values, *x, *r, *p, *q, *d;
  int *cols, *begin, *row_of;  // begin: of the chunks
  int first, last, positions, lanes, rows_a_chunk, chunks;
};

// The numbers of a step, the same in every thread of every block.
template <class T>
struct ResidentScalars {
  T rr, rz, old_rr, old_rz, pq, beta;

  // now: r . r and r . z of CgState.
  __device__ explicit ResidentScalars(const T* now)
      : rr(now[0]), rz(now[1]), old_rr(rr), old_rz(rz), pq(0), beta(0) {}
  __device__ T alpha() const { return pq > T(0) ? rz / pq : T(0); }
  __device__ void next(T r_r, T r_z) {
    old_rr = rr, old_rz = rz, rr = r_r, rz = r_z;
    beta = old_rz > T(0) ? rz / old_rz : T(0);
  }
  // The tests of Judge.
  __device__ bool ends(double goal, double limit, long long left) const {
    const double squared = static_cast<double>(rr), residual = sqrt(squared);
    return !isfinite(squared) || squared < 0 || residual <= goal || residual > limit || left <= 0 ||
           !isfinite(pq) || !(pq > T(0)) || !isfinite(rz) || !(rz > T(0));
  }
};

// By one thread: what a launch of `steps` steps leaves for the host and the next launch.
template <class T>
__device__ void report_steps(const ResidentTask<T>& task, const ResidentScalars<T>& s, int steps, bool ended,
                             long long left) {
  T* const end = task.scalars + 1 + 2 * ((task.phase + steps) % 2);
  T* const before = task.scalars + 1 + 2 * ((task.phase + steps + 1) % 2);
  task.scalars[0] = s.pq, end[0] = s.rr, end[1] = s.rz, before[0] = s.old_rr, before[1] = s.old_rz;
  task.judgement->ended = ended, task.judgement->left = left;
  task.copy->ended = ended, task.copy->steps = steps, task.copy->left = left;
  task.copy->guards[0][0] = static_cast<double>(s.pq), task.copy->guards[1][0] = static_cast<double>(s.rz);
}

template <class T, class Rows>
__global__ void __launch_bounds__(ResidentShape::most_threads + ResidentShape::communicator)
    resident_cg(const Rows a, const ResidentTask<T> task) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ double history[device::Judgement::most_steps];
  __shared__ typename GridReductions<T>::Shared shared_sums;
  const bool first_thread = blockIdx.x == 0 && threadIdx.x == 0;
  const double goal = task.judgement->goal, limit = task.judgement->limit;
  long long left = task.judgement->left;
  if (task.judgement->ended) {
    if (first_thread) task.copy->ended = 1, task.copy->steps = 0, task.copy->left = left;
    return;
  }
  ResidentBlock<T, Rows> block(a, task, shared);
  block.load();
  ResidentScalars<T> s(task.scalars + 1 + 2 * task.phase);
  GridReductions<T> reduce(task.sums, shared_sums);
  // All pairs and marks that were written above are visible to all blocks after this reduction.
  T unused[2] = {};
  reduce(
      unused[0], unused[1], [] {}, true);

  bool ended = false;
  int step = 0;
  do {
    if (step > 0) {
      block.next_direction(s.beta);
      __syncthreads();
      reduce.end_step();
    }
    T p_q = block.multiply(step, s.beta), nothing = 0;
    reduce(p_q, nothing, [] {});
    s.pq = p_q;
    const T alpha = s.alpha();
    T r_r = 0, r_z = 0;
    block.update_residual(step, alpha, r_r, r_z);
    reduce(r_r, r_z, [&] { block.update_solution(step, alpha); });
    s.next(r_r, r_z);
    ended = s.ends(goal, limit, --left);
    if (first_thread) history[step] = static_cast<double>(s.rr);
    ++step;
  } while (!ended && step < task.steps);

  __syncthreads();
  block.store(s.beta);
  if (blockIdx.x != 0) return;
  for (int k = threadIdx.x; k < step; k += blockDim.x) task.copy->residual_squared[k] = history[k];
  if (first_thread) report_steps(task, s, step, ended, left);
}

}  // namespace protean::detail
