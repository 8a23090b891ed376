// Memory of a context, uninitialised, freed by its destructor.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <protean/core/context.hpp>

namespace protean {

namespace detail {
// Aligned to 64 bytes; large blocks to 2 MiB and offered to the kernel as huge pages, which is worth up
// to 1.5x on a matrix-vector product. Each thread of the context touches its own even part first. Throws
// OutOfMemory.
void* allocate(const Context& context, std::size_t bytes);
void deallocate(const Context& context, void* data, std::size_t bytes) noexcept;
}  // namespace detail

// Bytes all host buffers of this process hold at present, and the most they ever held.
std::size_t allocated_bytes() noexcept;
// Bytes that buffers of this context hold, for one of a device; the host's for one of the host.
std::size_t allocated_bytes(const Context& context);
std::size_t peak_allocated_bytes() noexcept;

// `size` items of a trivial type. Movable, not copyable. The context lives at least as long as the buffer.
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() noexcept = default;
  Buffer(ContextPtr context, std::int64_t size) : context_(std::move(context)), size_(size) {
    if (size > 0) data_ = static_cast<T*>(detail::allocate(*context_, bytes()));
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

  // Host buffers only.
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
