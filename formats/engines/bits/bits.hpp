// Numbers in as few bits as they need: the codec of formats with coded columns or rows (bro-ell, bro-csr, bro-coo and
// their sums). This file has the fields and the symbols, for host and device alike. Private to formats/.
//
// A stream is a sequence of fields. Field i has the bits of its number, the highest first, in width_i bits. Fields
// follow each other without gaps, and the end is filled with 0 up to a whole symbol of 32 bits. A field may go on in
// the next symbol. Some lanes have a stream each, and field i has the same width in all streams, so that GPU lanes and
// SIMD lanes decode in step. Their symbols are interleaved:
//
//   lane  widths 3 1 1 1 1     symbols of 4 lanes           0     1     2     3    <- lane
//   0     001 1 0 0 0 ...                symbol 0  at    0  [    |     |     |     ]
//   1     010 1 1 1 1 ...                symbol 1  at    4  [    |     |     |     ]   symbol j of lane l at 4 j + l
//   2     100 0 0 0 0 ...
//   3     000 0 0 0 0 ...
//
// The contract of a codec:
//   - the widths follow from the numbers alone (bits_of), so admit() predicts the symbols (symbols_of) and the exact
//     bytes;
//   - what FieldWriter writes, FieldReader and field_at() read back, for every number and width from 0 to 32;
//   - neither touches a symbol beyond the last one of its lane.
//
// Columns of a row are coded as differences: the first column + 1, then column k - column k - 1. All of them are at
// least 1, so that 0 can stand for padding. Rows of coordinates are differences too, and 0 is a number like others
// there.
#pragma once
#include <cstdint>

#include "core/host_device.hpp"

namespace protean::formats {

constexpr int symbol_bits = 32;

// The bits that a number needs: 0 for 0. The greatest number of a set needs the same number of bits as the bitwise or
// of the set.
PROTEAN_HOST_DEVICE constexpr int bits_of(std::uint32_t number) {
  int bits = 0;
  for (int step = 16; step > 0; step /= 2)
    if (number >> step) bits += step, number >>= step;
  return bits + static_cast<int>(number);
}

// The symbols that hold that many bits.
PROTEAN_HOST_DEVICE constexpr std::int64_t symbols_of(std::int64_t bits) {
  return (bits + symbol_bits - 1) / symbol_bits;
}

// Difference k of the ascending columns of a row.
PROTEAN_HOST_DEVICE inline std::uint32_t column_step(const std::int32_t* col, std::int64_t k) {
  return static_cast<std::uint32_t>(k == 0 ? col[0] + 1 : col[k] - col[k - 1]);
}

// Writes the stream of one lane, whose first symbol lies at `symbols`. finish() writes the last symbol.
class FieldWriter {
 public:
  PROTEAN_HOST_DEVICE FieldWriter(std::uint32_t* symbols, std::int64_t lanes)
      : next_(symbols), lanes_(lanes) {}
  // number < 2^width, width <= 32.
  PROTEAN_HOST_DEVICE void put(std::uint32_t number, int width) {
    if (width == 0) return;
    room_ -= width;  // of the 64 bits, whose upper half is written first
    waiting_ |= std::uint64_t{number} << room_;
    if (room_ <= symbol_bits) {
      *next_ = static_cast<std::uint32_t>(waiting_ >> symbol_bits);
      next_ += lanes_, waiting_ <<= symbol_bits, room_ += symbol_bits;
    }
  }
  PROTEAN_HOST_DEVICE void finish() {
    if (room_ < 64) *next_ = static_cast<std::uint32_t>(waiting_ >> symbol_bits);
  }

 private:
  std::uint32_t* next_;
  std::int64_t lanes_;
  std::uint64_t waiting_ = 0;
  int room_ = 64;
};

// Reads the stream of one lane from its first field.
class FieldReader {
 public:
  PROTEAN_HOST_DEVICE FieldReader(const std::uint32_t* symbols, std::int64_t lanes)
      : next_(symbols), lanes_(lanes) {}
  // width <= 32. Reads a symbol when it needs one of its bits.
  PROTEAN_HOST_DEVICE std::uint32_t take(int width) {
    if (have_ < width) {
      waiting_ |= std::uint64_t{*next_} << (symbol_bits - have_);
      next_ += lanes_, have_ += symbol_bits;
    }
    // Two shifts: one of 64 bits is not defined.
    const auto number = static_cast<std::uint32_t>((waiting_ >> 1) >> (63 - width));
    waiting_ <<= width, have_ -= width;
    return number;
  }

 private:
  const std::uint32_t* next_;
  std::int64_t lanes_;
  std::uint64_t waiting_ = 0;  // the bits that have been read, from the top
  int have_ = 0;
};

// The field of `width` bits that begins at this bit of a lane's stream, wherever that is.
PROTEAN_HOST_DEVICE inline std::uint32_t field_at(const std::uint32_t* symbols, std::int64_t lanes,
                                                  std::int64_t bit, int width) {
  if (width == 0) return 0;
  const std::int64_t j = bit / symbol_bits;
  const int skip = static_cast<int>(bit % symbol_bits);
  std::uint64_t both = std::uint64_t{symbols[j * lanes]} << symbol_bits;
  if (skip + width > symbol_bits) both |= symbols[(j + 1) * lanes];
  return static_cast<std::uint32_t>((both << skip) >> (64 - width));
}

}  // namespace protean::formats
