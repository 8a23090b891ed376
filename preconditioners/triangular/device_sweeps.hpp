// z := (I + U)^-1 D (I + L)^-1 r of sweeps.hpp on a device. Private to preconditioners/.
//
// Three ways to compute it:
//   stages     one kernel a stage, for up to most_stage_launches stages. Rows of a stage do not wait for each other.
//   flow       one kernel for all rows of a triangle, for more stages. A row waits until the results that it needs
//              are there, without barriers between stages: Liu, Li, Hogg, Duff and Vinter, Euro-Par 2016,
//              doi:10.1007/978-3-319-43659-3_45.
//   iteration  Jacobi sweeps: jacobi_sweeps() of sweeps.hpp.
// and the solves of cuSPARSE. Each row is summed by a fixed number of lanes in a fixed order, so two runs have the same
// bits. None waits for the host, and all arrays keep their addresses when the values change, so recorded work stays
// right.
//
// The rows of stages and flow are stored stage after stage, so that neighbouring lanes read neighbouring memory. Memory
// of each triangle: a value and 4 bytes for each entry, 12 bytes a row (iteration: 8). D: a value a row. flow: one
// vector of n and up to 8 bytes for each row and stage; iteration: two vectors.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/buffer.hpp"
#include "core/transfer.hpp"
#include "core/vector.hpp"
#include "preconditioners/preconditioner.hpp"
#include "preconditioners/triangular/sweeps.hpp"

namespace protean::detail {

// Copies to.size() values from host memory.
template <class U>
void send(const Context& device, Buffer<U>& to, const U* from) {
  copy_bytes(device, to.data(), Space::device, from, Space::host, to.bytes());
}

// From this number of stages on, one launch for each would take longer than one kernel whose rows wait for each other.
inline constexpr std::int64_t most_stage_launches = 32;

// L or U as kernels read it: place k holds row row[k] (row null: row k), whose entries are ptr[k] .. ptr[k + 1].
// `lanes` neighbouring threads of a warp share a row.
template <class T>
struct TriangleView {
  std::int64_t rows = 0;
  const std::int64_t* ptr = nullptr;
  const std::int32_t *row = nullptr, *col = nullptr;
  const T* values = nullptr;
  int lanes = 1;
};

// The arrays of L or U in device memory.
template <class T>
class Triangle {
 public:
  Triangle(const ContextPtr& device, const SweepPattern& pattern, bool upper, bool in_stages);
  // Copies the values of this triangle to their old places.
  void set_values(const SweepPattern& pattern, const SweepValues<T>& values);
  TriangleView<T> view() const noexcept {
    return {rows_, ptr_.data(), row_.data(), col_.data(), values_.data(), lanes_};
  }
  // Where each stage begins, count + 1 places; empty without stages.
  const std::vector<std::int64_t>& first() const noexcept { return first_; }
  std::int64_t stages() const noexcept { return static_cast<std::int64_t>(first_.size()) - 1; }
  std::size_t bytes() const noexcept {
    return ptr_.bytes() + row_.bytes() + col_.bytes() + values_.bytes() +
           first_.size() * sizeof(std::int64_t);
  }

 private:
  // The places in the pattern of the entries of the row at place k.
  Range row_at(const SweepPattern& pattern, std::int64_t k) const noexcept;

  ContextPtr device_;
  bool upper_, in_stages_;
  std::int64_t rows_;
  int lanes_ = 1;
  Buffer<std::int64_t> ptr_;
  Buffer<std::int32_t> row_, col_;
  Buffer<T> values_;
  std::vector<std::int64_t> first_;
};

template <class T>
class DeviceSweep {
 public:
  virtual ~DeviceSweep() = default;
  // New values of the pattern that this was made for. Must be called before the first solve.
  virtual void set_values(const SweepPattern& pattern, const SweepValues<T>& values) = 0;
  // z := M^-1 r, queued on the context's stream. The two do not overlap.
  virtual void solve(VectorView<const T> r, VectorView<T> z) const = 0;
  // Whether solve() can be recorded into a CUDA graph.
  virtual bool recordable() const noexcept { return true; }
  // Recording::heeds_stop of solve().
  virtual bool heeds_stop() const noexcept { return true; }
  virtual std::size_t bytes() const noexcept = 0;
};

// stages or flow, as the number of stages says.
template <class T>
std::unique_ptr<DeviceSweep<T>> make_levels(const ContextPtr& device, const SweepPattern& pattern);
template <class T>
std::unique_ptr<DeviceSweep<T>> make_iteration(const ContextPtr& device, const SweepPattern& pattern,
                                               std::int64_t sweeps);

}  // namespace protean::detail

// Defined in device_sweeps.cu. CUDA builds only.
namespace protean::device {

// z_i := (d ? d_i : 1) rhs_i - sum_j t_ij z_j for the rows at places begin .. end of t; rhs may be z.
template <class T>
void sweep_stage(const Context& context, const detail::TriangleView<T>& t, std::int64_t begin,
                 std::int64_t end, const T* rhs, const T* d, T* z);

// The work of a warp in flow: places first[k] .. first[k + 1], rows of one stage.
struct FlowTasks {
  std::int64_t count = 0;
  const std::int64_t* first = nullptr;
};
// Words in device memory that the kernels of flow share, 0 at the beginning.
struct FlowState {
  unsigned forward, backward;  // blocks that have taken a ticket
  unsigned run;                // whether the forward solve has run, and so the backward one must
};
// Sets n values to the mark of a result that is not there yet.
template <class T>
void mark(const Context& context, T* values, std::int64_t n);
// z := (I + U)^-1 D (I + L)^-1 r. w is marked before and after.
template <class T>
void flow(const Context& context, const detail::TriangleView<T>& lower, const FlowTasks& lower_tasks,
          const detail::TriangleView<T>& upper, const FlowTasks& upper_tasks, const T* r, const T* d, T* w,
          T* z, FlowState* state);

// to := scale .* (rhs - t from); scale null: ones.
template <class T>
void sweep_pass(const Context& context, const detail::TriangleView<T>& t, const T* rhs, const T* from,
                const T* scale, T* to);

// cuSPARSE's solves of both triangles. Throws NotAvailable for more entries than it counts in 32 bits.
template <class T>
std::unique_ptr<detail::DeviceSweep<T>> make_cusparse_sweep(const ContextPtr& device,
                                                            const detail::SweepPattern& pattern);
// Seconds of one solve: the shortest of some. Waits for the device.
template <class T>
double seconds_of(const ContextPtr& device, const detail::DeviceSweep<T>& sweep, std::int64_t n);

}  // namespace protean::device
