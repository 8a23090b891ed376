// The bands of transposed jagged diagonals on the host.
#include "formats/engines/jags/jags_of_columns.hpp"

namespace protean::formats {
namespace {

struct Band {
  std::vector<std::int32_t> col;      // with entries in the band, most entries first, stable
  std::vector<std::int64_t> columns;  // of more than k entries
};

// `count` is 0 for all columns before and after.
Band band_of(const SparsityPattern& pattern, std::int64_t begin, std::int64_t end,
             std::vector<std::int32_t>& count) {
  std::vector<std::int32_t> used;
  for (std::int64_t k = pattern.row_ptr[begin]; k < pattern.row_ptr[end]; ++k)
    if (count[static_cast<std::size_t>(pattern.col[k])]++ == 0) used.push_back(pattern.col[k]);
  std::sort(used.begin(), used.end());
  Band band;
  std::vector<std::int64_t> next;  // place of the next column with that many entries
  for (const std::int32_t col : used) {
    const auto entries = static_cast<std::size_t>(count[static_cast<std::size_t>(col)]);
    if (next.size() <= entries) next.resize(entries + 1);
    ++next[entries];
  }
  std::int64_t before = 0;
  band.columns.resize(next.empty() ? 0 : next.size() - 1);
  for (std::size_t entries = next.size(); entries-- > 1;) {
    before += std::exchange(next[entries], before);
    band.columns[entries - 1] = before;
  }
  band.col.resize(used.size());
  for (const std::int32_t col : used) {
    std::int32_t& entries = count[static_cast<std::size_t>(col)];
    band.col[static_cast<std::size_t>(next[static_cast<std::size_t>(entries)]++)] = col;
    entries = 0;
  }
  return band;
}

}  // namespace

ColumnJagPlan plan_column_jags(const Context& context, const SparsityPattern& pattern, std::int64_t height) {
  ColumnJagPlan plan;
  plan.sizes = bands_of(pattern.rows, height);
  std::vector<Band> bands(static_cast<std::size_t>(plan.sizes.bands));
  const int parts =
      static_cast<int>(std::min<std::int64_t>(useful_parts(context, pattern.nonzeros), plan.sizes.bands));
  parallel(std::max(1, parts), [&](int part, int all) {
    std::vector<std::int32_t> count(static_cast<std::size_t>(pattern.cols));
    const Range mine = even_range(plan.sizes.bands, part, all);
    for (std::int64_t b = mine.begin; b < mine.end; ++b)
      bands[static_cast<std::size_t>(b)] =
          band_of(pattern, std::min(pattern.rows, b * plan.sizes.height),
                  std::min(pattern.rows, (b + 1) * plan.sizes.height), count);
  });
  plan.band_col = plan.band_jag = plan.jag_ptr = {0};
  for (const Band& band : bands) {
    plan.col_perm.insert(plan.col_perm.end(), band.col.begin(), band.col.end());
    for (const std::int64_t columns : band.columns) plan.jag_ptr.push_back(plan.jag_ptr.back() + columns);
    plan.band_col.push_back(static_cast<std::int64_t>(plan.col_perm.size()));
    plan.band_jag.push_back(static_cast<std::int64_t>(plan.jag_ptr.size()) - 1);
  }
  plan.sizes.positions = plan.band_col.back(), plan.sizes.jags = plan.band_jag.back();
  return plan;
}

}  // namespace protean::formats
