// Selectors that a trained tree or forest of trees answers: the classes are formats, and the fastest product was the
// label. None of them counts conversions. tools/train_selectors.py trains them.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "formats/selectors/entries.hpp"
#include "formats/selectors/trained.hpp"

namespace protean {
namespace {

using selectors_detail::Candidate;

// Probabilities of the candidates; 0 for a format that is not a class of the model.
std::vector<SelectedFormat> by_probability(const SelectorQuestion& question, std::string_view name,
                                           std::span<const std::string_view> known) {
  const Classifier& classifier = question.trained().classifier(name);
  const std::vector<double> probabilities = classifier.ensemble(question.features());
  std::vector<SelectedFormat> result;
  for (const Candidate& candidate : selectors_detail::candidates(question, known)) {
    const auto found = std::find(classifier.classes.begin(), classifier.classes.end(), candidate.entry->id);
    const double confidence =
        found == classifier.classes.end()
            ? 0
            : probabilities[static_cast<std::size_t>(found - classifier.classes.begin())];
    result.push_back(
        {.entry = candidate.entry,
         .score = 1 - confidence,
         .uncertainty = 1 - confidence,
         .reason = fmt::format("the trained model gives it a confidence of {:.0f} %", 100 * confidence)});
  }
  selectors_detail::sort_by_score(result);
  return result;
}

class ClassifyingSelector final : public FormatSelector {
 public:
  ClassifyingSelector(std::string_view name, std::string_view source,
                      std::span<const std::string_view> formats)
      : name_(name), source_(source), formats_(formats) {}
  std::string_view name() const noexcept override { return name_; }
  std::string_view source() const noexcept override { return source_; }
  std::span<const std::string_view> formats() const noexcept override { return formats_; }
  bool host_only() const noexcept override { return true; }
  std::vector<SelectedFormat> rank(const SelectorQuestion& question) const override {
    return by_probability(question, name_, formats_);
  }

 private:
  std::string_view name_, source_;
  std::span<const std::string_view> formats_;
};

// SMAT: groups of rules, dia, ell, csr, coo in this order. The first whose confidence reaches the threshold is taken.
// Without one all candidates are executed and measured, and the fastest product is taken.
class Smat final : public FormatSelector {
 public:
  std::string_view name() const noexcept override { return "smat"; }
  std::string_view source() const noexcept override {
    return "Li, Tan, Chen, Sun, PLDI 2013: trained rules with confidence, and measured products where none "
           "is confident. The threshold of the confidence is our reading, and a tree of scikit-learn takes "
           "the place of C5.0";
  }
  std::span<const std::string_view> formats() const noexcept override { return known; }
  bool host_only() const noexcept override { return true; }
  bool measures() const noexcept override { return true; }
  std::vector<SelectedFormat> rank(const SelectorQuestion& question) const override {
    std::vector<SelectedFormat> ranked = by_probability(question, name(), known);
    for (const std::string_view id : {"dia", "ell", "csr", "coo"}) {
      const auto group =
          std::find_if(ranked.begin(), ranked.end(), [&](const auto& f) { return f.entry->id == id; });
      if (group == ranked.end() || 1 - group->uncertainty < threshold) continue;
      group->reason =
          fmt::format("the first group of rules with a confidence of at least {:.0f} % ({:.0f} %)",
                      100 * threshold, 100 * (1 - group->uncertainty));
      std::rotate(ranked.begin(), group, group + 1);
      return ranked;
    }
    if (question.pattern().nonzeros == 0) return ranked;
    std::vector<SelectedFormat> timed;
    for (SelectedFormat& format : ranked) {
      const auto times = question.time(*format.entry);
      if (!times && format.entry->id != "csr") continue;
      if (times) {
        format.score = format.product_seconds = times->product_seconds;
        format.convert_seconds = times->convert_seconds;
        format.reason = fmt::format("no group of rules is confident; measured, a product takes {:.3g} s",
                                    times->product_seconds);
      }
      timed.push_back(std::move(format));
    }
    selectors_detail::sort_by_score(timed);
    return timed;
  }

 private:
  static constexpr double threshold = 0.85;
  static constexpr std::array<std::string_view, 3> known = {"dia", "ell", "coo"};
};

constexpr std::array<std::string_view, 3> of_sedaghati = {"ell", "coo", "hyb"};
constexpr std::array<std::string_view, 5> of_oracle = {"coo", "dia", "ell", "hyb", "hdc"};

}  // namespace

namespace selector_entries {

const FormatSelector& smat() {
  static const Smat selector;
  return selector;
}
const FormatSelector& sedaghati() {
  static const ClassifyingSelector selector(
      "sedaghati",
      "Sedaghati, Mu, Pouchet, Parthasarathy, Sadayappan, ICS 2015: a tree over lengths of rows and runs of "
      "neighbouring columns, for csr, ell, coo and hyb. The list of features is our reading",
      of_sedaghati);
  return selector;
}
const FormatSelector& oracle_forest() {
  static const ClassifyingSelector selector("oracle-forest",
                                            "in the manner of Stylianou and Weiland's Morpheus-Oracle, 2023: "
                                            "a random forest over ten features, for csr, coo, dia, ell, hyb "
                                            "and hdc",
                                            of_oracle);
  return selector;
}

}  // namespace selector_entries

}  // namespace protean
