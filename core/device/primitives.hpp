// Scans and sorts of arrays in device memory, for conversions between formats. Private; CUDA builds only. All
// are queued on the context's stream and return at once; the same input gives the same output. Throw
// DeviceError, OutOfMemory.
#pragma once
#include <cstdint>

#include "core/buffer.hpp"

namespace protean::device {

// Device memory for the duration of a function, uninitialised, for code that knows only a Context.
template <class T>
class Scratch {
 public:
  Scratch(const Context& context, std::int64_t size) : context_(context), size_(size) {
    if (size > 0) data_ = static_cast<T*>(detail::allocate(context, bytes()));
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    if (data_) detail::deallocate(context_, data_, bytes());
  }
  T* data() const noexcept { return data_; }
  std::int64_t size() const noexcept { return size_; }
  std::size_t bytes() const noexcept { return static_cast<std::size_t>(size_) * sizeof(T); }

 private:
  const Context& context_;
  T* data_ = nullptr;
  std::int64_t size_ = 0;
};

// data[i] := data[0] + ... + data[i-1]. To convert n lengths into n + 1 pointers give size n + 1. The last item
// needs no value.
void exclusive_scan(const Context& context, std::int32_t* data, std::int64_t size);
void exclusive_scan(const Context& context, std::int64_t* data, std::int64_t size);

// Sorts pairs by the lowest `bits` bits of their keys, ascending and stable. All higher bits must be 0.
void sort_pairs(const Context& context, std::uint32_t* keys, std::int32_t* items, std::int64_t size,
                int bits);
void sort_pairs(const Context& context, std::uint64_t* keys, std::int32_t* items, std::int64_t size,
                int bits);
void sort_pairs(const Context& context, std::uint64_t* keys, std::int64_t* items, std::int64_t size,
                int bits);

}  // namespace protean::device
