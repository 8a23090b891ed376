#include "preconditioners/factors/colours.hpp"

#include <optional>
#include <span>
#include <vector>

#include "core/statistics.hpp"

namespace protean::detail {

template <class T>
Colours colour(const ContextPtr& host, const CsrMatrix<T>& csr) {
  const std::int64_t n = csr.rows();
  std::optional<CsrMatrix<T>> mirrored;
  if (first_asymmetry<T>(*host, csr.pattern, nullptr)) mirrored = transpose(host, csr);
  Colours colours{Buffer<std::int32_t>(host, n), 0};
  std::vector<std::int64_t> taken_by(1, -1);  // the last row that may not have this colour
  for (std::int64_t i = 0; i < n; ++i) {
    const auto take = [&](std::span<const std::int32_t> coupled) {
      for (const std::int32_t j : coupled)
        if (j < i) taken_by[colours.of[j]] = i;
    };
    take(csr.pattern.row(i));
    if (mirrored) take(mirrored->pattern.row(i));
    std::int32_t own = 0;
    while (own < colours.count && taken_by[own] == i) ++own;
    colours.of[i] = own;
    if (own == colours.count) ++colours.count, taken_by.push_back(-1);
  }
  return colours;
}

template Colours colour<float>(const ContextPtr&, const CsrMatrix<float>&);
template Colours colour<double>(const ContextPtr&, const CsrMatrix<double>&);

}  // namespace protean::detail
