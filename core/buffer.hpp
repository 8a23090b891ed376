// Memory in the space of a context. A Buffer owns it; the values are not initialised.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <protean/core/context.hpp>
#include <protean/core/export.hpp>

namespace PROTEAN_EXPORT protean {

namespace detail {
// Aligned to 64 bytes; large blocks to 2 MiB, with huge pages if the system grants them, which makes a matrix-vector
// product up to 1.5 times faster. Each thread of the context writes its part first, so that the part lies in memory
// near that thread. Throws OutOfMemory.
void* allocate(const Context& context, std::size_t bytes);
void deallocate(const Context& context, void* data, std::size_t bytes) noexcept;
// Bytes of `size` items. Throws BadArgument for a negative size, OutOfMemory if no address space has that many bytes.
std::size_t bytes_of(std::int64_t size, std::size_t item_bytes);
}  // namespace detail

// Bytes that all host buffers of this process hold now, and the largest number so far.
std::size_t allocated_bytes() noexcept;
std::size_t peak_allocated_bytes() noexcept;
// Bytes that the buffers of a device context hold now; of a host context: allocated_bytes().
std::size_t allocated_bytes(const Context& context);

// `size` items of a trivial type. Movable, not copyable. Keeps its context alive.
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() noexcept = default;
  Buffer(ContextPtr context, std::int64_t size) : context_(std::move(context)), size_(size) {
    if (size != 0) data_ = static_cast<T*>(detail::allocate(*context_, detail::bytes_of(size, sizeof(T))));
  }
  Buffer(Buffer&& other) noexcept
      : context_(std::move(other.context_)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(context_, other.context_), std::swap(data_, other.data_), std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer() {
    if (data_) detail::deallocate(*context_, data_, bytes());
  }

  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  std::int64_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  std::size_t bytes() const noexcept { return static_cast<std::size_t>(size_) * sizeof(T); }
  const ContextPtr& context() const noexcept { return context_; }

  // For buffers in host memory only.
  T& operator[](std::int64_t i) noexcept { return data_[i]; }
  const T& operator[](std::int64_t i) const noexcept { return data_[i]; }
  T* begin() noexcept { return data_; }
  T* end() noexcept { return data_ + size_; }
  const T* begin() const noexcept { return data_; }
  const T* end() const noexcept { return data_ + size_; }

 private:
  ContextPtr context_;
  T* data_ = nullptr;
  std::int64_t size_ = 0;
};

}  // namespace protean
