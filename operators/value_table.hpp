// The dictionary of a matrix with few distinct values (values: dictionary). Private to the library.
//
// A matrix that has it stores for each value one byte, the place of the value in a table of doubles, instead of 4 or 8
// bytes. A product looks the value up and goes on as with values in double, so all its bits are the same, also in
// deterministic mode. What has to agree:
//   table     values that differ in a bit are different: -0.0 and 0.0, and NaNs with their payloads, stay what they
//             are. The table ascends by the bits, read as an unsigned number, so it does not depend on the order of the
//             entries or on threads. Place 0 is 0.0 in each table, since padding is 0.0; so there is room for 255 other
//             values.
//   make      make_matrix() makes the table before it asks admit(), for one byte a value (value_storage()), and gives
//             it to the format in BuildRequest::table. The format writes places instead of values: it converts an array
//             of bytes in the order of CSR (encode()) as it would convert the values.
//   update    AssembledMatrix makes the table of the new values. If they do not fit, values: auto goes on with float or
//             double, and values: dictionary is refused with the old values in place. StoredValues::assign() changes
//             nothing before it has all memory.
//   kernels   are templates over what stands for the pointer to the values: a pointer, or TableValues
//             (formats/engines/view/table_values.hpp). On a host eight values are looked up at once; a table of up to
//             16 values lies in two registers of AVX-512. On a device the table has 2 KiB and is read through the
//             first-level cache.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/context.hpp"
#include "core/csr.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::detail {

class ValueTable {
 public:
  static constexpr int most = 256;
  // Of a table in memory: it always has room for `most` values.
  static constexpr std::size_t bytes = most * sizeof(double);

  // The table of a matrix in the context's space. Null if it has more than most_values <= most distinct values, 0.0
  // among them. Parallel; reads the values once, and stops soon after one too many. Waits for a device.
  static std::shared_ptr<const ValueTable> of(const Context& context, const CsrMatrix<double>& csr,
                                              int most_values = most);

  // How many, with 0.0.
  int size() const noexcept { return size_; }
  // [most]: the values, then zeros.
  const double* values() const noexcept { return values_.data(); }

  // to[0 .. most - 1] := values(), in the context's space. Queued on a device.
  void copy_to(const Context& context, double* to) const;
  // places[k] := the place of csr.values[k] in the table, for a matrix that of() was called with, in the context's
  // space. table: values() in that space. Queued on a device.
  void encode(const Context& context, const CsrMatrix<double>& csr, const double* table,
              std::uint8_t* places) const;

 private:
  explicit ValueTable(const std::uint64_t* bits, int size);

  std::array<double, most> values_{};
  int size_ = 1;
};

// The ability of a matrix whose values may be places in a table. AssembledMatrix exchanges the table before it calls
// do_update_values(), and puts the old one back if that throws.
class HasValueTable {
 public:
  // Null while values are stored in another way.
  const std::shared_ptr<const ValueTable>& value_table() const noexcept { return table_; }

 protected:
  explicit HasValueTable(std::shared_ptr<const ValueTable> table) noexcept : table_(std::move(table)) {}
  virtual ~HasValueTable() = default;

 private:
  template <class T>
  friend class protean::AssembledMatrix;
  std::shared_ptr<const ValueTable> table_;
};

// How many distinct values a matrix has, with 0.0. Sorts a copy of the values: for a message. Waits for a device.
std::int64_t distinct_values(const Context& context, const CsrMatrix<double>& csr);

}  // namespace protean::detail
