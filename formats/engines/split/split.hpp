// A matrix whose product a GPU and a host compute at the same time: the first rows lie on the GPU, the others on the
// host, each part in its own format.
//
//     GPU   | A_0 |     y_0 = A_0 x        x, y in device memory
//    host   | A_1 |     y_1 = A_1 x'       x': the entries of x that A_1 reads, copied to the host; y_1 is copied back
//
// A product is queued as
//   1. next to the context's stream: the entries of x that the host's rows read, to memory of the host
//   2. on the context's stream: the GPU's rows
//   3. by the calling thread, when 1 is done: the host's rows
//   4. next to it: y_1 to device memory; the context's stream waits for it and writes it into y
// The calling thread waits once a product, for 1. engines/split/split_balance.hpp says where the rows are cut; the cut
// moves while products are measured. What a GPU and a simulated device do differently is a SplitLink. Private to
// formats/.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "formats/engines/split/split_balance.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

// Copies between a device and the host, and the clocks of both parts of a product. Belongs to one matrix. Functions are
// called in the order begin, fetch or gather, device_done, wait_for_x, send, end; the functions of the host's part only
// if it has rows.
class SplitLink {
 public:
  virtual ~SplitLink() = default;
  // Memory of the host for x' and y_1, of at least that many bytes. Nothing is under way in the memory of before.
  // Throws OutOfMemory.
  virtual void make_room(std::size_t x_bytes, std::size_t y_bytes) = 0;
  virtual void* x() noexcept = 0;
  virtual void* y() noexcept = 0;

  // The product begins when all work that was queued before is done. measured: times() will be asked for.
  virtual void begin(bool measured) = 0;
  // Copies bytes of device memory to x().
  virtual void fetch(const void* from, std::size_t bytes) = 0;
  // Copies the `count` values of from[columns[i]] to packed[i] and on to x(). All except x() is device memory.
  virtual void gather(const void* from, std::size_t value_bytes, const std::int32_t* columns,
                      std::int64_t count, void* packed) = 0;
  // The GPU's rows have been queued.
  virtual void device_done() = 0;
  // Returns when x() is complete.
  virtual void wait_for_x() = 0;
  // Copies y() to device memory. Later work of the context waits for it.
  virtual void send(void* to, std::size_t bytes) = 0;
  // Everything has been queued.
  virtual void end() = 0;
  // The times of the product before, if it was measured; waits for its end. Each is returned once.
  virtual std::optional<SplitTimes> times() = 0;
  // Calls build(), which converts matrices, within a step of a solver.
  virtual void rebuild(const std::function<void()>& build) = 0;
};

// How long a copy between device and host takes: latency + bytes / bandwidth.
struct SplitLinkSpeed {
  double latency_seconds = 0, bytes_per_second = 0;
};

// A device.
struct SplitTools {
  std::unique_ptr<SplitLink> (*link)(const ContextPtr& context);
  // The same in each call of a process.
  SplitLinkSpeed (*speed)(const Context& context);
};

Admission admit_split(const SplitTools& tools, const Context& context, const SparsityPattern& pattern,
                      const FormatParams& params, std::size_t value_bytes);
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_split(const SplitTools& tools, const BuildRequest<T>& request);

// Speeds of the parts in csr: products by the built-in machine table, copies by the link.
struct SplitForecast {
  SplitSpeed device, host;
};
SplitForecast split_forecast(const SplitLinkSpeed& link, const SparsityPattern& pattern,
                             std::size_t value_bytes);

// The host's part of a pattern that is cut before row `border`, in host memory. Its columns are numbered by their
// places in x': the places from `first` on, or, if that is at most three quarters of them, only the ones with entries.
struct SplitRows {
  std::int64_t border = 0, first_entry = 0;
  SparsityPattern pattern;
  std::int64_t first = 0;             // column
  std::vector<std::int32_t> columns;  // with entries, ascending; empty: all from `first` on
};
// The border so that the rows before it have nearly `wanted` entries. With 0 < wanted < all entries no part is empty,
// if there are two rows with entries.
std::int64_t split_border(const Context& device, const SparsityPattern& pattern, std::int64_t wanted);
SplitRows split_rows(const ContextPtr& host, const Context& device, const SparsityPattern& pattern,
                     std::int64_t border);

}  // namespace protean::formats
