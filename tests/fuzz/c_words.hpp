// Numbers, names and texts for calls of protean.h, read from the bytes of an input.
#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "fuzz/target.hpp"
#include "interfaces/c/protean.h"

namespace protean::fuzz {

// What the next bytes mean; zeros behind the end.
class Reader {
 public:
  explicit Reader(Bytes bytes) : bytes_(bytes) {}
  bool ended() const { return at_ >= bytes_.size(); }
  unsigned byte() { return ended() ? 0 : static_cast<unsigned char>(bytes_[at_++]); }
  unsigned below(unsigned count) { return byte() % count; }
  bool rarely() { return byte() >= 240; }

 private:
  Bytes bytes_;
  std::size_t at_ = 0;
};

inline constexpr std::int64_t most_rows = 12;

inline std::int64_t nonsense(Reader& in) {
  constexpr std::array<std::int64_t, 14> numbers = {-1,
                                                    0,
                                                    1,
                                                    2,
                                                    7,
                                                    std::numeric_limits<std::int32_t>::max(),
                                                    std::int64_t{1} << 31,
                                                    std::numeric_limits<std::int64_t>::max(),
                                                    std::numeric_limits<std::int64_t>::min(),
                                                    std::int64_t{1} << 40,
                                                    std::int64_t{1} << 61,
                                                    -(std::int64_t{1} << 33),
                                                    std::numeric_limits<std::int32_t>::min(),
                                                    1000000};
  return numbers[in.below(numbers.size())];
}
inline double nonsense_number(Reader& in) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr std::array<double, 14> numbers = {0,     1,    -1,  2,   0.5,      1e-8,    3,
                                              1e300, -inf, inf, NAN, 4.9e-324, 1.7e308, 2147483648.0};
  return numbers[in.below(numbers.size())];
}
inline double value(Reader& in) {
  const unsigned b = in.byte();
  if (b >= 252) return nonsense_number(in);
  return (static_cast<double>(b) - 100) / 8;
}

// All names of a kind, which are constants: asked for once.
inline const std::vector<const char*>& names_of(protean_kind kind) {
  static std::map<protean_kind, std::vector<const char*>> known;
  std::vector<const char*>& names = known[kind];
  if (names.empty())
    while (const char* const one = protean_name(kind, static_cast<std::int64_t>(names.size())))
      names.push_back(one);
  return names;
}

// A name that the library knows, or none, or another text.
inline const char* name(Reader& in, protean_kind kind) {
  static const std::string long_text(300, 'x');
  const unsigned b = in.byte();
  if (b >= 250) return nullptr;
  if (b >= 245)
    return b == 245   ? ""
           : b == 246 ? "auto"
           : b == 247 ? "\n=,%s{}"
           : b == 248 ? long_text.c_str()
                      : "element";
  const std::vector<const char*>& names = names_of(kind);
  return names[(b + 7 * in.byte()) % names.size()];
}
inline const char* parameters(Reader& in) {
  constexpr std::array<const char*, 18> texts = {
      nullptr,       nullptr,        nullptr,         "",
      "C=8,sigma=1", "C=4",          "rows=2,cols=2", "max_fill=1000000",
      "T=measured",  "C=0",          "C=-1",          "C=99999999999999999999",
      "=",           "a=b",          "rows",          ",,",
      "parts=csr",   "tile=1,work=1"};
  return texts[in.below(texts.size())];
}
inline const char* kernel(Reader& in) {
  constexpr std::array<const char*, 6> texts = {nullptr, nullptr, nullptr, "native", "naive", "mkl"};
  return texts[in.below(texts.size())];
}

}  // namespace protean::fuzz
