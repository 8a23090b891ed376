// .pbin files. The mutator gives changed sections and headers the right checksums, which it computes from the
// description in core/io/pbin.hpp.
#include "core/io/pbin.hpp"

#include <array>
#include <bit>
#include <cstring>

#include "fuzz/memory_file.hpp"
#include "fuzz/mutate.hpp"
#include "fuzz/read.hpp"

namespace protean::fuzz {
namespace {

void run(Bytes input) {
  static MemoryFile file;
  file.fill(input);
  const std::uint32_t choice = choice_of(input);
  const bool allow_not_finite = (choice & 1) != 0;
  const auto matrix =
      read_or_refuse([&] { return read_pbin(one_thread(), file.path(), true, allow_not_finite); });
  if (matrix) require_valid(*matrix, allow_not_finite);
  // Without a look at the arrays there must be a matrix of the same sizes, or an error.
  if ((choice & 2) == 0) return;
  const auto unread = read_or_refuse([&] { return read_pbin(one_thread(), file.path(), false); });
  if (matrix && (!unread || unread->nonzeros() != matrix->nonzeros()))
    broken("a file that is right is refused without a look at its arrays");
}

constexpr std::uint64_t K = 0x9e3779b97f4a7c15u, L = 0xbf58476d1ce4e5b9u;
constexpr std::size_t header_bytes = 128;

// Of less than 1 MiB: one block.
std::uint64_t checksum(const std::uint8_t* data, std::size_t bytes) {
  std::uint64_t sum = bytes;
  if (bytes > 0) {
    std::array<std::uint64_t, 4> lanes = {K, 2 * K, 3 * K, 4 * K};
    for (std::size_t at = 0, word = 0; at < bytes; at += 8, ++word) {
      std::uint64_t w = 0;
      std::memcpy(&w, data + at, std::min<std::size_t>(8, bytes - at));
      lanes[word % 4] = std::rotl((lanes[word % 4] ^ w) * K, 29);
    }
    std::uint64_t block = bytes;
    for (const std::uint64_t lane : lanes) block = std::rotl(block ^ lane, 27) * L;
    sum = std::rotl(sum ^ block, 27) * L;
  }
  return sum ^ (sum >> 32);
}

template <class N>
N read_at(const std::uint8_t* data, std::size_t at) {
  N value;
  std::memcpy(&value, data + at, sizeof value);
  return value;
}
void write_at(std::uint8_t* data, std::size_t at, std::uint64_t value) {
  std::memcpy(data + at, &value, sizeof value);
}

// Sizes, offsets, checksums as a writer would give them, each left as it is in one of eight calls.
void repair(std::uint8_t* data, std::size_t size, Random& random) {
  if (size < header_bytes) return;
  const auto now_and_then = [&] { return below(random, 8) != 0; };
  const auto rows = read_at<std::uint64_t>(data, 24), entries = read_at<std::uint64_t>(data, 40);
  const auto pointer = read_at<std::uint32_t>(data, 16);
  const std::array<std::uint64_t, 3> bytes = {(rows + 1) * pointer, entries * 4, entries * 8};
  std::uint64_t end = header_bytes;
  for (std::size_t s = 0; s < 3; ++s) {
    if (now_and_then()) write_at(data, 48 + 8 * s, end);
    if (end <= size && bytes[s] <= size - end && now_and_then())
      write_at(data, 80 + 8 * s, checksum(data + end, bytes[s]));
    end += (bytes[s] + 63) / 64 * 64;
  }
  if (now_and_then()) write_at(data, 72, end);
  if (now_and_then()) write_at(data, 120, checksum(data, 120));
}

std::size_t mutate(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  Random random(seed);
  if (size < header_bytes || below(random, 3) == 0) {
    size = LLVMFuzzerMutate(data, size, most);
  } else if (below(random, 2) == 0) {
    // One number of the header.
    constexpr std::array<std::size_t, 7> places = {12, 16, 20, 24, 32, 40, 72};
    constexpr std::array<std::uint64_t, 12> numbers = {
        0,        1, 2, 3, 7, 0xffffffff, 0x7fffffff, 0x80000000, ~std::uint64_t{0}, std::uint64_t{1} << 61,
        1u << 20, 4};
    const std::uint64_t number = numbers[below(random, numbers.size())];
    const std::size_t at = places[below(random, places.size())];
    std::memcpy(data + at, &number, at < 24 ? 4 : 8);
  } else {
    // A word of the sections.
    const std::size_t words = (size - header_bytes) / 4;
    if (words > 0) {
      constexpr std::array<std::uint32_t, 8> numbers = {0,          1,          2,          0xffffffff,
                                                        0x7fffffff, 0x80000000, 0x7ff00000, 5};
      const std::uint32_t number = numbers[below(random, numbers.size())];
      std::memcpy(data + header_bytes + 4 * below(random, words), &number, 4);
    }
  }
  repair(data, size, random);
  return size;
}

}  // namespace

extern const Target pbin{"pbin", run, mutate};

}  // namespace protean::fuzz
