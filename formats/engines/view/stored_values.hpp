// The values of a matrix with vectors of T: in T, or in float although T is double (BuildRequest::float_values), or as
// places in a table of doubles (BuildRequest::table), in memory of the context. Private to formats/.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "core/buffer.hpp"
#include "formats/engines/view/table_values.hpp"
#include "operators/layout.hpp"
#include "operators/value_table.hpp"

namespace protean::formats {

template <class T>
class StoredValues {
 public:
  StoredValues() = default;
  // Not initialised.
  StoredValues(const ContextPtr& context, std::int64_t size, bool floats)
      : context_(context), floats_(floats) {
    if (floats)
      narrow_ = Buffer<float>(context, size);
    else
      own_ = Buffer<T>(context, size);
  }

  bool floats() const noexcept { return floats_; }
  std::int64_t size() const noexcept { return floats_ ? narrow_.size() : own_.size(); }
  std::size_t bytes() const noexcept { return floats_ ? narrow_.bytes() : own_.bytes(); }

  // f(values), with a pointer to T or float: what computes with them is written once as a template over the pointer.
  template <class F>
  decltype(auto) visit(F&& f) const {
    if constexpr (!std::is_same_v<T, float>)
      if (floats_) return f(narrow_.data());
    return f(own_.data());
  }
  template <class F>
  decltype(auto) visit(F&& f) {
    if constexpr (!std::is_same_v<T, float>)
      if (floats_) return f(narrow_.data());
    return f(own_.data());
  }
  // The same for all values anew: write(values) fills them. If they are to be stored in the other precision, the new
  // memory takes the place of the old one at the end, so that an exception leaves the old values.
  template <class Write>
  void rewrite(bool floats, Write&& write) {
    if (floats == floats_) return (void)visit(std::forward<Write>(write));
    StoredValues other(context_, size(), floats);
    other.visit(std::forward<Write>(write));
    *this = std::move(other);
  }

  LayoutArray layout(std::string name) const {
    return visit([&](const auto* values) { return layout_array(std::move(name), values, size()); });
  }

 private:
  ContextPtr context_;
  Buffer<T> own_;
  Buffer<float> narrow_;
  bool floats_ = false;
};

// The same, which may also be places in a table.
template <class T>
class StoredOrTable {
 public:
  StoredOrTable() = default;
  // Not initialised: assign() follows.
  StoredOrTable(const ContextPtr& context, std::int64_t size, bool floats,
                const std::shared_ptr<const detail::ValueTable>& table)
      : context_(context), values_(context, table ? 0 : size, floats && !table) {
    if (!table) return;
    places_ = Buffer<std::uint8_t>(context, size);
    table_ = Buffer<double>(context, detail::ValueTable::most);
    has_table_ = true;
  }

  std::int64_t size() const noexcept { return has_table_ ? places_.size() : values_.size(); }
  std::size_t bytes() const noexcept { return values_.bytes() + places_.bytes() + table_.bytes(); }

  // f(values), with a pointer to T or float, or with TableValues.
  template <class F>
  decltype(auto) visit(F&& f) const {
    if constexpr (std::is_same_v<T, double>)
      if (has_table_) return f(TableValues{places_.data(), table_.data(), table_size_});
    return values_.visit(std::forward<F>(f));
  }

  // All values anew, as BuildRequest or AssembledMatrix says how. write(from, to) fills the array `to` from the values
  // of the matrix in the order of CSR: T to T or float; or bytes, their places, to bytes. If it throws OutOfMemory, the
  // old values are there.
  template <class Write>
  void assign(const CsrMatrix<T>& csr, bool floats, const std::shared_ptr<const detail::ValueTable>& table,
              Write&& write) {
    if constexpr (std::is_same_v<T, double>)
      if (table) return assign_places(csr, table, write);
    const auto plain = [&](auto* to) { write(csr.values, to); };
    if (!has_table_) return values_.rewrite(floats, plain);
    StoredOrTable other(context_, size(), floats, nullptr);
    other.values_.visit(plain);
    *this = std::move(other);
  }

  LayoutArray layout(std::string name) const {
    return has_table_ ? layout_array(std::move(name), places_) : values_.layout(std::move(name));
  }
  LayoutArray layout_of_table(std::string name) const { return layout_array(std::move(name), table_); }

 private:
  template <class Write>
  void assign_places(const CsrMatrix<T>& csr, const std::shared_ptr<const detail::ValueTable>& table,
                     Write&& write) {
    Buffer<std::uint8_t> in_order(context_, csr.nonzeros());
    if (!has_table_) {
      StoredOrTable other(context_, size(), false, table);
      other.write_places(csr, *table, in_order.data(), write);
      *this = std::move(other);
    } else {
      write_places(csr, *table, in_order.data(), write);
    }
  }
  template <class Write>
  void write_places(const CsrMatrix<T>& csr, const detail::ValueTable& table, std::uint8_t* in_order,
                    Write&& write) {
    table.copy_to(*context_, table_.data());
    table_size_ = table.size();
    table.encode(*context_, csr, table_.data(), in_order);
    write(static_cast<const std::uint8_t*>(in_order), places_.data());
  }

  ContextPtr context_;
  StoredValues<T> values_;
  Buffer<std::uint8_t> places_;
  Buffer<double> table_;  // the values of the table
  int table_size_ = 0;
  bool has_table_ = false;
};

}  // namespace protean::formats
