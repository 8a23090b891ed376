// Values that are looked up in a table (operators/value_table.hpp): what stands for a pointer to them. Private to
// formats/.
#pragma once
#include <cstdint>

#include "core/host_device.hpp"

namespace protean::formats {

struct TableValues {
  const std::uint8_t* place;
  const double* table;  // [ValueTable::most]
  int size;             // how many of these there are

  PROTEAN_HOST_DEVICE double operator*() const { return table[*place]; }
  PROTEAN_HOST_DEVICE double operator[](std::int64_t k) const { return table[place[k]]; }
  PROTEAN_HOST_DEVICE TableValues& operator+=(std::int64_t k) { return place += k, *this; }
  friend PROTEAN_HOST_DEVICE TableValues operator+(TableValues values, std::int64_t k) { return values += k; }
  friend PROTEAN_HOST_DEVICE TableValues operator-(TableValues values, std::int64_t k) {
    return values += -k;
  }
};

// Where the stored numbers themselves lie, for a prefetch.
template <class V>
PROTEAN_HOST_DEVICE const V* stored_at(const V* values) {
  return values;
}
PROTEAN_HOST_DEVICE inline const std::uint8_t* stored_at(const TableValues& values) { return values.place; }

// What stands for a pointer to values that are stored as V: places are bytes.
template <class V>
struct Stored {
  using Pointer = const V*;
};
template <>
struct Stored<std::uint8_t> {
  using Pointer = TableValues;
};
template <class V>
using ValuesPointer = typename Stored<V>::Pointer;

}  // namespace protean::formats
