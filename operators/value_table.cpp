#include "operators/value_table.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <mutex>
#include <vector>

#include "core/device_checks.hpp"
#include "core/parallel.hpp"
#include "core/simulated_device.hpp"
#include "core/transfer.hpp"
#if defined(PROTEAN_HAVE_CUDA)
#include "core/device/distinct_values.hpp"
#endif

namespace protean::detail {
namespace {

#if defined(PROTEAN_HAVE_CUDA)
bool on_device(const Context& context, const CsrMatrix<double>& csr) {
  return csr.pattern.space == Space::device && !context.simulated();
}
#endif

// copy_bytes(), also with a context of a host.
void copy_between(const Context& context, void* to, Space to_space, const void* from, Space from_space,
                  std::size_t bytes) {
  if (bytes == 0) return;
  if (context.space() != Space::host) return copy_bytes(context, to, to_space, from, from_space, bytes);
  const DeviceWork work(context);
  std::memcpy(to, from, bytes);
}

// Up to ValueTable::most different words with a number each, counted from 0 in the order of arrival; word 0 is there
// from the beginning. Open addressing.
class Words {
 public:
  static constexpr int none = -1;

  // The number of a word, none if it is not there.
  int find(std::uint64_t word) const noexcept { return number_[slot_of(word)]; }
  // Adds a word. False if there are `most` others.
  bool add(std::uint64_t word, int most) noexcept {
    const std::size_t slot = slot_of(word);
    if (number_[slot] != none) return true;
    if (size_ == most) return false;
    words_[static_cast<std::size_t>(size_)] = word;
    number_[slot] = static_cast<std::int16_t>(size_++);
    return true;
  }

  Words() noexcept {
    number_.fill(none);
    add(0, 1);
  }
  int size() const noexcept { return size_; }
  const std::uint64_t* begin() const noexcept { return words_.data(); }
  const std::uint64_t* end() const noexcept { return words_.data() + size_; }

 private:
  static constexpr std::size_t slots = 1024;  // so that most words are found at once
  // The slot of a word, or the one that is free for it.
  std::size_t slot_of(std::uint64_t word) const noexcept {
    std::size_t slot = word * 0x9e3779b97f4a7c15u >> 54;
    while (number_[slot] != none && words_[static_cast<std::size_t>(number_[slot])] != word)
      slot = (slot + 1) % slots;
    return slot;
  }

  std::array<std::int16_t, slots> number_;
  std::array<std::uint64_t, ValueTable::most> words_;
  int size_ = 0;
};

// All words of an array; empty if there are too many.
std::vector<std::uint64_t> distinct_words(const Context& context, const CsrMatrix<double>& csr, int most) {
  const DeviceWork work(context);
  Words all;
  std::mutex mutex;
  std::atomic<bool> too_many = false;
  parallel(useful_parts(context, csr.nonzeros(), 65536), [&](int part, int parts) {
    constexpr std::int64_t block = 4096;
    const Range range = even_range(csr.nonzeros(), part, parts);
    Words own;
    std::uint64_t last = 0;
    for (std::int64_t at = range.begin; at < range.end; at += block) {
      if (too_many.load(std::memory_order_relaxed)) return;
      for (std::int64_t k = at, end = std::min(at + block, range.end); k < end; ++k) {
        const auto word = std::bit_cast<std::uint64_t>(csr.values[k]);
        if (word == last) continue;
        if (!own.add(last = word, most)) return too_many.store(true, std::memory_order_relaxed);
      }
    }
    const std::lock_guard lock(mutex);
    for (const std::uint64_t word : own)
      if (!all.add(word, most)) return too_many.store(true, std::memory_order_relaxed);
  });
  if (too_many) return {};
  return {all.begin(), all.end()};
}

}  // namespace

ValueTable::ValueTable(const std::uint64_t* bits, int size) : size_(size) {
  std::transform(bits, bits + size, values_.begin(),
                 [](std::uint64_t word) { return std::bit_cast<double>(word); });
}

std::shared_ptr<const ValueTable> ValueTable::of(const Context& context, const CsrMatrix<double>& csr,
                                                 int most_values) {
  const DeviceScope scope(context);
  std::vector<std::uint64_t> words = [&] {
#if defined(PROTEAN_HAVE_CUDA)
    if (on_device(context, csr))
      return device::distinct_words(context, csr.nonzeros(), csr.values, most_values);
#endif
    return distinct_words(context, csr, most_values);
  }();
  if (words.empty()) return nullptr;
  std::sort(words.begin(), words.end());
  return std::shared_ptr<const ValueTable>(new ValueTable(words.data(), static_cast<int>(words.size())));
}

void ValueTable::copy_to(const Context& context, double* to) const {
  copy_between(context, to, context.space(), values(), Space::host, bytes);
}

void ValueTable::encode(const Context& context, const CsrMatrix<double>& csr,
                        [[maybe_unused]] const double* table, std::uint8_t* places) const {
  const DeviceScope scope(context);
#if defined(PROTEAN_HAVE_CUDA)
  if (on_device(context, csr))
    return device::encode_values(context, csr.nonzeros(), csr.values, table, size_, places);
#endif
  const DeviceWork work(context);
  Words words;  // in ascending order, so a number is a place
  for (int place = 0; place < size_; ++place)
    words.add(std::bit_cast<std::uint64_t>(values_[static_cast<std::size_t>(place)]), most);
  parallel(useful_parts(context, csr.nonzeros(), 65536), [&](int part, int parts) {
    const Range range = even_range(csr.nonzeros(), part, parts);
    for (std::int64_t k = range.begin; k < range.end; ++k)
      places[k] = static_cast<std::uint8_t>(words.find(std::bit_cast<std::uint64_t>(csr.values[k])));
  });
}

std::int64_t distinct_values(const Context& context, const CsrMatrix<double>& csr) {
  std::vector<std::uint64_t> words(static_cast<std::size_t>(csr.nonzeros()) + 1);  // the last is 0.0
  copy_between(context, words.data(), Space::host, csr.values, csr.pattern.space, 8 * (words.size() - 1));
  std::sort(words.begin(), words.end());
  return std::unique(words.begin(), words.end()) - words.begin();
}

}  // namespace protean::detail
