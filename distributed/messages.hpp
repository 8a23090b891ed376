// Arrays in messages between parts (Communicator::exchanged()). Private.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "core/communicator.hpp"

namespace protean::detail {

// Appends the number of elements and the elements.
template <class V>
void write(PartMessage& message, std::span<const V> elements) {
  static_assert(std::is_trivially_copyable_v<V>);
  const auto count = static_cast<std::int64_t>(elements.size());
  const std::size_t before = message.size();
  message.resize(before + sizeof count + elements.size_bytes());
  std::memcpy(message.data() + before, &count, sizeof count);
  if (count > 0) std::memcpy(message.data() + before + sizeof count, elements.data(), elements.size_bytes());
}
template <class V>
void write(PartMessage& message, const std::vector<V>& elements) {
  write(message, std::span<const V>(elements));
}

class MessageReader {
 public:
  explicit MessageReader(const PartMessage& message) : message_(message) {}
  // The next array, which was written with elements of this type.
  template <class V>
  std::vector<V> read() {
    std::int64_t count = 0;
    take(&count, sizeof count);
    std::vector<V> elements(static_cast<std::size_t>(count));
    take(elements.data(), elements.size() * sizeof(V));
    return elements;
  }

 private:
  void take(void* to, std::size_t bytes) {
    if (message_.size() - at_ < bytes) throw std::logic_error("a message between parts is too short");
    if (bytes > 0) std::memcpy(to, message_.data() + at_, bytes);
    at_ += bytes;
  }
  const PartMessage& message_;
  std::size_t at_ = 0;
};

}  // namespace protean::detail
