// Arrays in the memory of a GPU: arrays of other libraries, used in place, and our own results.
//
// The library that made an array may still be computing it on its own stream. If that stream is known, ours waits for
// it before the array is read, and it waits for ours afterwards, without the host. If it is not known, the host waits.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common.hpp"
#include "core/buffer.hpp"
#include "core/error.hpp"
#include "core/multi_vector.hpp"

namespace protean::python {

// A GPU, with the context in which all matrices on it compute. A thread that uses the context has the mutex.
class Gpu {
 public:
  // The one with this number, which lives as long as the process. With the GIL. Throws as Context::device().
  static const std::shared_ptr<Gpu>& get(int ordinal);

  int ordinal() const { return ordinal_; }
  const ContextPtr& context() const { return context_; }
  std::recursive_mutex& mutex() { return mutex_; }
  // Lets go of an object whose arrays may still be read by queued work: now, or when the thread that uses the context
  // is done. In any thread, with or without the GIL.
  void let_go(std::shared_ptr<void> object);
  // Lets go of what other threads have left. With the mutex.
  void clear();

 private:
  explicit Gpu(int ordinal) : ordinal_(ordinal), context_(Context::device(ordinal)) {}

  int ordinal_;
  ContextPtr context_;
  std::recursive_mutex mutex_;
  std::mutex left_mutex_;
  std::vector<std::shared_ptr<void>> left_;
};

enum class Entry : unsigned char { float32, float64, int32, int64 };
const char* to_string(Entry entry) noexcept;
template <class T>
constexpr Entry entry_of = sizeof(T) == 8 ? Entry::float64 : Entry::float32;

// Immutable except for its values. One or two dimensions; strides count entries.
class DeviceArray {
 public:
  using Sizes = std::vector<std::int64_t>;

  // An array of another library. ordinal -1: the GPU is asked for. `stream`: on which it was made, if that is known;
  // strides empty: rows one after another. `what` is for messages: "b".
  DeviceArray(const std::string& what, std::uintptr_t data, Sizes shape, Sizes strides,
              const std::string& entries, int ordinal, std::optional<std::uintptr_t> stream, nb::object kept);
  // The same by object.__dlpack__(), which makes our stream wait for the data.
  static std::shared_ptr<DeviceArray> of_dlpack(const std::string& what, nb::object object);
  // One of our own; not initialised. `by_columns`: one column after another.
  static std::shared_ptr<DeviceArray> make(int ordinal, Sizes shape, Entry entry, bool by_columns);
  ~DeviceArray();
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  void* data() const { return data_; }
  Entry entry() const { return entry_; }
  const Sizes& shape() const { return shape_; }
  const Sizes& strides() const { return strides_; }
  int ordinal() const { return ordinal_; }
  const std::optional<std::uintptr_t>& stream() const { return stream_; }
  const std::string& what() const { return what_; }
  std::int64_t size() const;
  std::size_t entry_bytes() const { return entry_ == Entry::float32 || entry_ == Entry::int32 ? 4 : 8; }
  // Whether all entries lie side by side, in either order of memory.
  bool dense() const;

  // Copies between it and an array of the host of the same type, shape and order of memory. The host waits.
  void download(void* to) const;
  void upload(const void* from);
  // Of float32 or float64.
  void fill_zero();
  // The protocol for consumers: a capsule "dltensor". What we hand out is complete, so no stream has to wait.
  static nb::object dlpack(const std::shared_ptr<DeviceArray>& array);
  // Another library may read or write it from now on.
  void handed_out() { handed_out_ = true; }

 private:
  DeviceArray() = default;
  void check_layout();

  std::string what_;
  void* data_ = nullptr;
  Entry entry_ = Entry::float64;
  Sizes shape_, strides_;
  int ordinal_ = 0;
  std::optional<std::uintptr_t> stream_;
  std::shared_ptr<Gpu> gpu_;  // of our own arrays
  Buffer<unsigned char> buffer_;
  std::shared_ptr<void> kept_;  // of arrays of others
  bool handed_out_ = false;
};

// Throws BadArgument or ShapeMismatch unless it has entries of T, lies on this GPU, and has one dimension (or one
// column), with the entries side by side.
template <class T>
VectorView<T> vector_of(const DeviceArray& array, const Gpu& gpu);
// The same for two dimensions, in either order of memory.
template <class T>
MultiVectorView<T> columns_of(const DeviceArray& array, const Gpu& gpu);
// Copies the entries of an array to another one of the same type, shape and order of memory on the same GPU.
void copy_on_device(const DeviceArray& from, const DeviceArray& to);
void require_on(const DeviceArray& array, const Gpu& gpu);

// While this exists, a call works with arrays of other libraries: our stream waits for theirs at the beginning, and
// theirs for ours at the end. With the mutex of the GPU.
class Joined {
 public:
  Joined(Gpu& gpu, std::initializer_list<const DeviceArray*> arrays);
  // Waits if done() was not called, since work that was queued may still use the arrays.
  ~Joined();
  Joined(const Joined&) = delete;
  Joined& operator=(const Joined&) = delete;

  // All work has been queued.
  void done();
  // In the middle of the work: the arrays can be read by the caller between these two.
  void pause();
  void resume();

 private:
  Gpu& gpu_;
  std::vector<const DeviceArray*> arrays_;
  bool done_ = false;
};

}  // namespace protean::python
