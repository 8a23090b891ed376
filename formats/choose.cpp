#include "formats/choose.hpp"

#include <fmt/format.h>

namespace protean {

FormatChoice choose_format(const Statistics& s) {
  if (s.nonzeros < 1000)
    return {"csr", fmt::format("{} nonzeros are too few to be worth a conversion", s.nonzeros)};
  if (s.longest > 1000 && static_cast<double>(s.longest) > 50 * s.mean)
    return {"csr", fmt::format(
                       "the longest row has {} entries where the mean is {:.1f}; csr cuts it between threads",
                       s.longest, s.mean)};
  return {"sell-packed",
          fmt::format("rows of {:.1f} entries on average, {} at most: column indices pack well", s.mean,
                      s.longest)};
}

}  // namespace protean
