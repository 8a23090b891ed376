// Selector "clspmv": an offline benchmark, interpolated for the matrix at hand.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>

#include "formats/selectors/entries.hpp"

namespace protean {
namespace {

using selectors_detail::Candidate;

double squared(double x) { return x * x; }

class ClSpmv final : public FormatSelector {
 public:
  std::string_view name() const noexcept override { return "clspmv"; }
  std::string_view source() const noexcept override {
    return "Su, Keutzer, ICS 2012, sections 3.2 and 3.3: rates of a format measured offline, interpolated in "
           "rows and entries of a row; the best alone of their nine formats (policies 3, 5, 6, 9, 10). Their "
           "cut of a matrix into parts is format cocktail. The points are the matrices of the machine table, "
           "which lie on no grid, so the interpolation is by inverse squared distance instead of bilinear";
  }
  std::span<const std::string_view> formats() const noexcept override { return known; }
  std::vector<SelectedFormat> rank(const SelectorQuestion& question) const override {
    std::vector<SelectedFormat> measured, others;
    for (const Candidate& candidate : selectors_detail::candidates(question, known)) {
      const double rate = rate_of(question, candidate.entry->id);
      SelectedFormat format{.entry = candidate.entry};
      if (rate > 0) {
        format.score = format.product_seconds = candidate.bytes / rate;
        format.reason =
            fmt::format("{:.2f} GB/s by the benchmark for {:.3g} bytes", rate * 1e-9, candidate.bytes);
      } else {
        format.reason = "the benchmark has no rate of it";
      }
      (rate > 0 ? measured : others).push_back(std::move(format));
    }
    selectors_detail::sort_by_score(measured);
    const double last = measured.empty() ? 0 : measured.back().score;
    for (SelectedFormat& format : others) {
      format.score = last;
      measured.push_back(std::move(format));
    }
    return measured;
  }

 private:
  static constexpr std::array<std::string_view, 7> known = {"ell", "sell-c-sigma", "dia",      "bdia",
                                                            "coo", "bcsr",         "bsellpack"};

  // Bytes a second; 0 if the table has no matrix in this format.
  static double rate_of(const SelectorQuestion& question, std::string_view format) {
    const SparsityPattern& pattern = question.pattern();
    if (pattern.rows == 0 || pattern.nonzeros == 0) return 0;
    const double rows = std::log2(static_cast<double>(pattern.rows)),
                 length = std::log2(static_cast<double>(pattern.nonzeros)) - rows;
    double sum = 0, weights = 0;
    for (const MeasuredMatrix& matrix : question.machine().matrices) {
      if (matrix.space != question.options().space) continue;
      for (const MeasuredFormat& measured : matrix.formats) {
        if (measured.format != format || !(measured.product_seconds > 0)) continue;
        const double at = std::log2(static_cast<double>(matrix.rows));
        const double far =
            squared(rows - at) + squared(length - (std::log2(static_cast<double>(matrix.nonzeros)) - at));
        const double weight = 1 / (far + 1e-6);
        sum += weight * static_cast<double>(measured.bytes) / measured.product_seconds;
        weights += weight;
      }
    }
    return weights > 0 ? sum / weights : 0;
  }
};

}  // namespace

namespace selector_entries {
const FormatSelector& clspmv() {
  static const ClSpmv selector;
  return selector;
}
}  // namespace selector_entries

}  // namespace protean
