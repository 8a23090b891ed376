// Test data in host or device memory, so that one test body serves both.
#pragma once
#include <string>
#include <vector>

#include "core/blas1.hpp"
#include "core/csr.hpp"
#include "support/battery.hpp"

namespace protean::test {

// The context of tests in a space. Null for device memory when this machine or build has no device.
inline ContextPtr test_context(Space space) {
  if (space == Space::host) return test_context();
  static const ContextPtr device = Context::device_count() > 0 ? Context::device() : nullptr;
  return device;
}

inline constexpr const char* no_device = "no device: this machine has no GPU";

// A copy of a host vector in the context's space; fetch() brings it back.
template <class T>
class Placed {
 public:
  Placed(const ContextPtr& context, const std::vector<T>& host)
      : context_(context), vector_(context, static_cast<std::int64_t>(host.size())) {
    copy<T>(*context, {host.data(), vector_.size()}, vector_.view());
  }
  VectorView<T> view() noexcept { return vector_.view(); }
  VectorView<const T> read() const noexcept { return vector_.view(); }
  T* data() noexcept { return vector_.data(); }
  std::vector<T> fetch() const {
    std::vector<T> host(static_cast<std::size_t>(vector_.size()));
    copy<T>(*context_, vector_.view(), {host.data(), vector_.size()});
    return host;
  }

 private:
  ContextPtr context_;
  Vector<T> vector_;
};

// The matrix in the context's space, and back.
template <class T>
CsrMatrix<T> placed(const ContextPtr& context, const CsrMatrix<T>& matrix) {
  return context->space() == Space::host ? matrix : upload(context, matrix);
}
template <class T>
CsrMatrix<T> fetched(const ContextPtr& context, const CsrMatrix<T>& matrix) {
  return context->space() == Space::host ? matrix : download(test_context(), *context, matrix);
}

}  // namespace protean::test
