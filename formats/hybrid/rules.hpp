// The rules of the formats that are sums of parts, which their host and device code share, and parameters that several
// have. Private to this folder.
#pragma once
#include <algorithm>

#include "formats/engines/sum/sum.hpp"

namespace protean::formats {

SumCut hyb_cut(const SumCounter& counter, const FormatParams& params);
SumCut hec_cut(const SumCounter& counter, const FormatParams& params);
SumCut csr_ell_maringanti_cut(const SumCounter& counter, const FormatParams& params);
SumCut csr_ell_matam_cut(const SumCounter& counter, const FormatParams& params);
SumCut shec_cut(const SumCounter& counter, const FormatParams& params);
SumCut hdc_cut(const SumCounter& counter, const FormatParams& params);
SumCut ell_dia_cut(const SumCounter& counter, const FormatParams& params);

inline std::int64_t longest_of(const std::vector<LengthClass>& classes) {
  std::int64_t longest = 0;
  for (const LengthClass& one : classes) longest = std::max(longest, one.longest);
  return longest;
}

constexpr ParamDoc max_fill_param{.name = "max_fill",
                                  .doc = "the format refuses more stored values per entry than this",
                                  .default_value = "4",
                                  .smallest = 1,
                                  .largest = 1'000'000};
constexpr ParamDoc fill_param{
    .name = "fill",
    .doc =
        "a diagonal is stored if more than this percentage is filled; 0: the percentage above which it "
        "takes fewer bytes",
    .default_value = "0",
    .smallest = 0,
    .largest = 99};

}  // namespace protean::formats
