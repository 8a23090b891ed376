// The values of a matrix with vectors of T: in T, or in float although T is double (BuildRequest::float_values), in
// memory of the context. Private to formats/.
#pragma once
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "core/buffer.hpp"
#include "operators/layout.hpp"

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

}  // namespace protean::formats
