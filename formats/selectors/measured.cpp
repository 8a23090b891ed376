// Selector "kubota-takahashi": features and memory leave some formats over, and these are measured.
#include <fmt/format.h>

#include <array>

#include "formats/selectors/entries.hpp"

namespace protean {
namespace {

using selectors_detail::Candidate;

class KubotaTakahashi final : public FormatSelector {
 public:
  std::string_view name() const noexcept override { return "kubota-takahashi"; }
  std::string_view source() const noexcept override {
    return "Kubota, Takahashi, ICCSA 2011: automatic choice among storage schemes. The survey of Filippone "
           "et al. says no more; our reading: csr, ell, hyb, jad and dia, those of more than twice the bytes "
           "of csr left out, one conversion and three products of each of the others, and the smallest "
           "conversion + products for the expected iterations";
  }
  std::span<const std::string_view> formats() const noexcept override { return known; }
  bool host_only() const noexcept override { return true; }
  bool measures() const noexcept override { return true; }
  std::vector<SelectedFormat> rank(const SelectorQuestion& question) const override {
    const double products = question.products();
    std::vector<SelectedFormat> result;
    for (const Candidate& candidate : selectors_detail::candidates(question, known)) {
      const bool csr = candidate.entry->id == "csr";
      if (!csr && candidate.bytes > most_bytes * question.csr_bytes()) continue;
      SelectedFormat format{.entry = candidate.entry};
      if (question.pattern().nonzeros == 0) {
        format.reason = "not measured: there are no entries";
      } else if (const auto times = question.time(*candidate.entry)) {
        format.product_seconds = times->product_seconds;
        format.convert_seconds = csr ? 0 : times->convert_seconds;
        format.score = format.convert_seconds + products * format.product_seconds;
        format.reason = fmt::format("measured: a product takes {:.3g} s, the conversion {:.3g} s",
                                    format.product_seconds, format.convert_seconds);
      } else if (csr) {
        format.reason = "not measured";
      } else {
        continue;
      }
      result.push_back(std::move(format));
    }
    selectors_detail::sort_by_score(result);
    return result;
  }

 private:
  static constexpr double most_bytes = 2;
  static constexpr std::array<std::string_view, 4> known = {"ell", "hyb", "jad", "dia"};
};

}  // namespace

namespace selector_entries {
const FormatSelector& kubota_takahashi() {
  static const KubotaTakahashi selector;
  return selector;
}
}  // namespace selector_entries

}  // namespace protean
