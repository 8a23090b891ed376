// Dense vectors: Vector owns its memory, VectorView does not.
#pragma once
#include <cstdint>
#include <type_traits>
#include <utility>

#include <protean/core/buffer.hpp>
#include <protean/core/export.hpp>

namespace PROTEAN_EXPORT protean {

// `size` values at `data` in memory of `space`. It owns nothing, is passed by value, and is valid as long as
// the memory exists. A view of T converts to one of const T.
template <class T>
struct VectorView {
  T* data = nullptr;
  std::int64_t size = 0;
  Space space = Space::host;

  operator VectorView<const T>() const noexcept requires(!std::is_const_v<T>) { return {data, size, space}; }
  // For views of host memory only.
  T& operator[](std::int64_t i) const noexcept { return data[i]; }
};

// Owns `size` values in the space of the context. They are not initialised.
template <class T>
class Vector {
 public:
  Vector() noexcept = default;
  Vector(ContextPtr context, std::int64_t size) : buffer_(std::move(context), size) {}

  std::int64_t size() const noexcept { return buffer_.size(); }
  Space space() const noexcept { return buffer_.context() ? buffer_.context()->space() : Space::host; }
  const ContextPtr& context() const noexcept { return buffer_.context(); }
  T* data() noexcept { return buffer_.data(); }
  const T* data() const noexcept { return buffer_.data(); }
  VectorView<T> view() noexcept { return {data(), size(), space()}; }
  VectorView<const T> view() const noexcept { return {data(), size(), space()}; }
  operator VectorView<T>() noexcept { return view(); }
  operator VectorView<const T>() const noexcept { return view(); }
  // For vectors in host memory only.
  T& operator[](std::int64_t i) noexcept { return buffer_[i]; }
  const T& operator[](std::int64_t i) const noexcept { return buffer_[i]; }

 private:
  Buffer<T> buffer_;
};

}  // namespace protean
