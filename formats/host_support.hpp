// What the host code of several formats has in common. Private to formats/.
#pragma once
#include <cstdint>
#include <vector>

#include "core/blas1.hpp"
#include "core/parallel.hpp"
#include "operators/assembled_matrix.hpp"
#include "operators/layout.hpp"

namespace protean::formats {

// A kernel compiled from a class template Format<T> with a constructor from BuildRequest<T>.
template <template <class> class Format>
constexpr Kernel native_host_kernel() {
  return {"native",
          true,
          false,
          {},
          [](const BuildRequest<double>& r) -> std::unique_ptr<AssembledMatrix<double>> {
            return std::make_unique<Format<double>>(r);
          },
          [](const BuildRequest<float>& r) -> std::unique_ptr<AssembledMatrix<float>> {
            return std::make_unique<Format<float>>(r);
          }};
}

// y := alpha * sum + beta * y without reading y when beta is 0.
template <class T>
inline void store(T alpha, T sum, T beta, T& y) {
  y = beta == T(0) ? alpha * sum : alpha * sum + beta * y;
}

// Partial sums of parts, added in order: deterministic for a fixed number of parts. Each on its own cache
// line.
template <class T>
class PartialSums {
 public:
  explicit PartialSums(int parts) : sums_(static_cast<std::size_t>(parts)) {}
  T& operator[](int part) { return sums_[part].value; }
  T total() const {
    T sum = 0;
    for (const auto& s : sums_) sum += s.value;
    return sum;
  }

 private:
  struct alignas(64) Line {
    T value = 0;
  };
  std::vector<Line> sums_;
};

}  // namespace protean::formats
