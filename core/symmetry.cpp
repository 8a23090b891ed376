#include "core/symmetry.hpp"

#include <algorithm>
#include <vector>

#include "core/parallel.hpp"
#include "core/simulated_device.hpp"
#include "core/statistics.hpp"
#if defined(PROTEAN_HAVE_CUDA)
#include "core/device/symmetry.hpp"
#endif

namespace protean::detail {

template <class T>
SymmetryFacts symmetry_facts(const Context& context, const CsrMatrix<T>& csr) {
#if defined(PROTEAN_HAVE_CUDA)
  if (csr.pattern.space == Space::device && !context.simulated()) return device::symmetry_facts(context, csr);
#endif
  const DeviceWork work(context);
  SymmetryFacts facts;
  facts.asymmetry = protean::asymmetry(context, csr);
  const SparsityPattern& p = csr.pattern;
  const int workers = useful_parts(context, p.rows);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(workers));
  parallel(workers, [&](int part, int parts) {
    const Range rows = even_range(p.rows, part, parts);
    std::int64_t count = 0;
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      const auto row = p.row(r);
      const auto at = std::lower_bound(row.begin(), row.end(), static_cast<std::int32_t>(r));
      const bool positive =
          at != row.end() && *at == r && csr.values[p.row_ptr[r] + (at - row.begin())] > T(0);
      count += positive ? 0 : 1;
    }
    counts[static_cast<std::size_t>(part)] = count;
  });
  for (const std::int64_t count : counts) facts.not_positive += count;
  return facts;
}
template SymmetryFacts symmetry_facts<float>(const Context&, const CsrMatrix<float>&);
template SymmetryFacts symmetry_facts<double>(const Context&, const CsrMatrix<double>&);

}  // namespace protean::detail
