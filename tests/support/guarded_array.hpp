// Arrays between protected pages. A read or a write past the end of one (or before its beginning) ends the
// program with a message that gives the array, the distance and the test's case.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

#include "support/fault_message.hpp"

namespace protean::test {

// Which end of the array lies at the border of its pages: an access beyond that end is found from the first
// byte on. Beyond the other end it is found when it leaves the page.
enum class Border { end, begin };

class GuardedMemory {
 public:
  // `bytes` bytes; `name` is used in the message.
  GuardedMemory(std::string name, std::size_t bytes, Border border);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  void* data() const noexcept { return data_; }
  // From now on a write is found as well.
  void forbid_writes();

 private:
  static void explain(const void* self, const char* address, char* text, std::size_t room);
  std::string name_;
  std::size_t bytes_, mapped_;
  char *begin_, *data_;
  FaultMessage message_;
};

// The case that a message names, such as "hdi, 2 threads, matrix 17". At most 500 characters.
void set_guarded_case(const std::string& text);

// A copy of `values`; of a const T it may not be written.
template <class T>
class GuardedArray {
 public:
  GuardedArray(std::string name, std::span<const std::remove_const_t<T>> values, Border border)
      : memory_(std::move(name), values.size_bytes(), border), size_(values.size()) {
    if (size_ > 0) std::memcpy(memory_.data(), values.data(), values.size_bytes());
    if constexpr (std::is_const_v<T>) memory_.forbid_writes();
  }
  T* data() const noexcept { return static_cast<T*>(memory_.data()); }
  std::int64_t size() const noexcept { return static_cast<std::int64_t>(size_); }
  std::span<T> span() const noexcept { return {data(), size_}; }

 private:
  GuardedMemory memory_;
  std::size_t size_;
};

}  // namespace protean::test
