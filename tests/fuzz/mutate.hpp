// Pieces of mutators.
#pragma once
#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <string_view>

#include "fuzz/target.hpp"

namespace protean::fuzz {

using Random = std::minstd_rand;

inline std::size_t below(Random& random, std::size_t count) { return count == 0 ? 0 : random() % count; }

// Writes the text back, cut to `most`; returns its size.
inline std::size_t put(std::string_view text, std::uint8_t* data, std::size_t most) {
  const std::size_t size = std::min(text.size(), most);
  if (size > 0) std::memcpy(data, text.data(), size);
  return size;
}

// Random bytes, or, in one of two calls, a word put at a random place, also instead of what stands there.
inline std::size_t mutate_words(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed,
                                std::span<const std::string_view> words) {
  Random random(seed);
  if (below(random, 2) == 0) return LLVMFuzzerMutate(data, size, most);
  std::string text(reinterpret_cast<const char*>(data), size);
  const std::size_t at = below(random, text.size() + 1);
  const std::size_t replaced =
      below(random, 2) == 0 ? 0 : below(random, std::min<std::size_t>(16, text.size() - at) + 1);
  text.replace(at, replaced, words[below(random, words.size())]);
  return put(text, data, most);
}

// Changes the bytes of a string in place.
inline void mutate_string(std::string& text, std::size_t most) {
  const std::size_t size = std::min(text.size(), most);
  text.resize(std::max<std::size_t>(most, 1));
  text.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(text.data()), size, text.size()));
}

}  // namespace protean::fuzz
