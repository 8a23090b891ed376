#include "support/symmetric.hpp"

#include <algorithm>

namespace protean::test {

template <class T>
CsrMatrix<T> symmetric_of(const CsrMatrix<T>& a) {
  std::vector<Triplet<T>> triplets;
  for (std::int64_t r = 0; r < a.rows(); ++r)
    for (std::int64_t k = a.pattern.row_ptr[r]; k < a.pattern.row_ptr[r + 1]; ++k) {
      const auto row = static_cast<std::int32_t>(r);
      triplets.push_back({row, a.pattern.col[k], a.values[k]});
      if (row != a.pattern.col[k]) triplets.push_back({a.pattern.col[k], row, a.values[k]});
    }
  const std::int64_t n = std::max(a.rows(), a.cols());
  return csr_from_triplets<T>(test_context(), n, n, triplets);
}
template CsrMatrix<float> symmetric_of(const CsrMatrix<float>&);
template CsrMatrix<double> symmetric_of(const CsrMatrix<double>&);

const std::vector<BatteryMatrix>& symmetric_battery() {
  static const std::vector<BatteryMatrix> list = [] {
    std::vector<BatteryMatrix> all = battery();
    for (const char* name : {"t8", "row_1x100", "antidiagonal_40", "dense_17x17", "band_asymmetric_67",
                             "blocks_3x3_60", "empty_rows_50", "one_full_row_300", "last_row_full_70",
                             "power_law_500", "random_257", "explicit_zeros_20"})
      all.push_back({std::string(name) + "_symmetric", "mirrored entries lost, or added twice",
                     symmetric_of(battery_matrix(name))});
    const CsrMatrix<double> a = symmetric_of(t8());
    CsrBuilder<double> wide(test_context(), a.rows(), a.cols(), a.nonzeros(), true);
    for (std::int64_t r = 0; r <= a.rows(); ++r) wide.set_row_ptr(r, a.pattern.row_ptr[r]);
    std::copy(a.pattern.col, a.pattern.col + a.nonzeros(), wide.col());
    std::copy(a.values, a.values + a.nonzeros(), wide.values());
    all.push_back({"wide_row_pointers_t8_symmetric", "64-bit row pointers", wide.freeze()});
    return all;
  }();
  return list;
}

}  // namespace protean::test
