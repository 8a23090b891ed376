// Selectors that are formulas or fixed rules: lengths of rows and numbers of blocks go in, seconds or a verdict come
// out.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "core/context.hpp"
#include "formats/catalogue.hpp"
#include "formats/selectors/entries.hpp"
#include "formats/selectors/trained.hpp"
#include "formats/survey.hpp"

namespace protean {
namespace {

using selectors_detail::Candidate;

constexpr double index_bytes = 4;

// longer[k]: entries of all rows from their k-th on (from 0), up to the longest row: what a width of k leaves over.
std::vector<double> entries_beyond(const SparsityPattern& pattern) {
  std::int64_t longest = 0;
  for (std::int64_t i = 0; i < pattern.rows; ++i) longest = std::max(longest, pattern.row_length(i));
  std::vector<double> rows(static_cast<std::size_t>(longest) + 2,
                           0);  // of exactly k entries, then of more than k
  for (std::int64_t i = 0; i < pattern.rows; ++i) rows[static_cast<std::size_t>(pattern.row_length(i))] += 1;
  std::vector<double> beyond(static_cast<std::size_t>(longest) + 1, 0);
  double longer = 0;
  for (std::int64_t k = longest - 1; k >= 0; --k) {
    longer += rows[static_cast<std::size_t>(k + 1)];
    beyond[static_cast<std::size_t>(k)] = beyond[static_cast<std::size_t>(k + 1)] + longer;
  }
  return beyond;
}

// The width of hyb with the smallest cost; cost(K, entries of the rest).
template <class Cost>
std::pair<std::int64_t, double> best_width(const std::vector<double>& beyond, const Cost& cost) {
  std::pair<std::int64_t, double> best{0, std::numeric_limits<double>::infinity()};
  for (std::size_t k = 0; k < beyond.size(); ++k)
    if (const double c = cost(static_cast<double>(k), beyond[k]); c < best.second)
      best = {static_cast<std::int64_t>(k), c};
  return best;
}

constexpr std::array<std::string_view, 3> of_lengths = {"ell", "coo", "hyb"};

// Seconds of csr, ell, coo and hyb from the lengths of the rows.
class LengthModel : public FormatSelector {
 public:
  std::span<const std::string_view> formats() const noexcept override { return of_lengths; }
  std::vector<SelectedFormat> rank(const SelectorQuestion& question) const override {
    const std::vector<double> beyond = entries_beyond(question.pattern());
    const auto longest = static_cast<double>(beyond.size() - 1);
    std::vector<SelectedFormat> result;
    for (const Candidate& candidate : selectors_detail::candidates(question, of_lengths)) {
      SelectedFormat format{.entry = candidate.entry};
      if (candidate.entry->id == "hyb") {
        const auto [K, seconds] =
            best_width(beyond, [&](double width, double rest) { return hybrid(question, width, rest); });
        format.score = seconds;
        format.parameters.set("K", K);
        format.reason =
            fmt::format("{:.3g} s by the formula, with {} entries of each row in ELLPACK", seconds, K);
      } else {
        format.score = plain(question, candidate.entry->id, longest);
        format.reason = fmt::format("{:.3g} s by the formula", format.score);
      }
      format.product_seconds = format.score;
      result.push_back(std::move(format));
    }
    selectors_detail::sort_by_score(result);
    return result;
  }

 protected:
  virtual double plain(const SelectorQuestion& question, std::string_view format, double longest) const = 0;
  virtual double hybrid(const SelectorQuestion& question, double width, double rest) const = 0;
};

// t = a entries + b rows for each format; ell counts its padding; a and b fitted to measured products.
class GuoWang final : public LengthModel {
 public:
  std::string_view name() const noexcept override { return "guo-wang"; }
  std::string_view source() const noexcept override {
    return "Guo, Wang, Chen, IEEE TPDS 25(5), 2014: seconds linear in the length of the rows of a strip, for "
           "csr, ell, coo and hyb. A strip is all rows here, since a processor has no full load of threads "
           "to fill, and the factors are fitted to measured matrices instead of strips of one length";
  }
  bool host_only() const noexcept override { return true; }

 protected:
  double plain(const SelectorQuestion& question, std::string_view format, double longest) const override {
    const auto rows = static_cast<double>(question.pattern().rows),
               entries = static_cast<double>(question.pattern().nonzeros);
    const LinearCost& cost = question.trained().linear.at(std::string(format));
    return cost.entry_seconds * (format == "ell" ? rows * longest : entries) + cost.row_seconds * rows;
  }
  double hybrid(const SelectorQuestion& question, double width, double rest) const override {
    const auto rows = static_cast<double>(question.pattern().rows);
    const LinearCost &ell = question.trained().linear.at("ell"), &coo = question.trained().linear.at("coo");
    return (ell.entry_seconds * width + ell.row_seconds) * rows + coo.entry_seconds * rest;
  }
};

// Bytes over bandwidth, from the distribution of the row lengths.
class LiPmf final : public LengthModel {
 public:
  std::string_view name() const noexcept override { return "li-pmf"; }
  std::string_view source() const noexcept override {
    return "K. Li, W. Yang, K. Li, IEEE TPDS 26(1), 2015: bytes of csr, ell, coo and hyb from the "
           "distribution of the row lengths. The formulas are our reading; the steps of a GPU's warps, the "
           "other bound of the model, are left out. The bandwidth is that of csr by the cost model";
  }

 protected:
  double plain(const SelectorQuestion& question, std::string_view format, double longest) const override {
    const double v = value(question), rows = static_cast<double>(question.pattern().rows),
                 entries = static_cast<double>(question.pattern().nonzeros);
    const double bytes = format == "ell"   ? rows * longest * (v + index_bytes)
                         : format == "coo" ? entries * (v + 2 * index_bytes)
                                           : entries * (v + index_bytes) + index_bytes * rows;
    return bytes * seconds_per_byte(question);
  }
  double hybrid(const SelectorQuestion& question, double width, double rest) const override {
    const double v = value(question), rows = static_cast<double>(question.pattern().rows);
    return (rows * width * (v + index_bytes) + rest * (v + 2 * index_bytes)) * seconds_per_byte(question);
  }

 private:
  static double value(const SelectorQuestion& question) {
    return static_cast<double>(question.options().value_bytes);
  }
  // 1 if the cost model knows nothing: the order is the same.
  static double seconds_per_byte(const SelectorQuestion& question) {
    const double seconds = question.csr_seconds();
    return seconds > 0 ? seconds / question.csr_bytes() : 1;
  }
};

// Block sizes by a model: the blocks of a matrix, counted in a sample, times the time of one.
class Choi final : public FormatSelector {
 public:
  std::string_view name() const noexcept override { return "choi"; }
  std::string_view source() const noexcept override {
    return "Choi, Singh, Vuduc, PPoPP 2010: blocks of each size, counted in a sample of the rows, times the "
           "time of a block. Their time of a block comes from a benchmark of dense blocks on a GPU; here it "
           "is its bytes over the bandwidth of csr by the cost model. For csr and bcsr";
  }
  std::span<const std::string_view> formats() const noexcept override { return known; }
  std::vector<SelectedFormat> rank(const SelectorQuestion& question) const override {
    const double seconds = question.csr_seconds();
    const double per_byte = seconds > 0 ? seconds / question.csr_bytes() : 1;
    std::vector<SelectedFormat> result;
    for (const Candidate& candidate : selectors_detail::candidates(question, known)) {
      SelectedFormat format{.entry = candidate.entry};
      double bytes = candidate.bytes;
      if (candidate.entry->id == "bcsr") {
        const ContextPtr one = Context::host(1);
        const PatternSample sample = sample_rows(one, question.pattern());
        const auto value_bytes = question.options().value_bytes;
        const double whole = question.csr_bytes() / (static_cast<double>(sample.pattern.bytes()) +
                                                     static_cast<double>(sample.pattern.nonzeros) *
                                                         static_cast<double>(value_bytes));
        for (const std::int64_t R : {1, 2, 3, 4})
          for (const std::int64_t C : {1, 2, 3, 4}) {
            if (R * C == 1) continue;
            FormatParams shape;
            shape.set("rows", R), shape.set("cols", C);
            const Admission admission = admit(*candidate.entry, *one, sample.pattern, shape, value_bytes);
            const double here = whole * static_cast<double>(admission.bytes);
            if (!admission.ok || here >= bytes) continue;
            bytes = here, format.parameters = shape;
          }
        const auto& chosen = format.parameters;
        format.reason = chosen.all().empty()
                            ? "blocks of the size that needs the fewest bytes"
                            : fmt::format("blocks of {} x {}", chosen.word("rows"), chosen.word("cols"));
      } else {
        format.reason = "no size of blocks is expected to be faster";
      }
      format.score = format.product_seconds = bytes * per_byte;
      result.push_back(std::move(format));
    }
    selectors_detail::sort_by_score(result);
    return result;
  }

 private:
  static constexpr std::array<std::string_view, 1> known = {"bcsr"};
};

// Tests of structure, one after another.
class AbuSufah final : public FormatSelector {
 public:
  std::string_view name() const noexcept override { return "abu-sufah"; }
  std::string_view source() const noexcept override {
    return "Abu-Sufah, Abdel-Karim, ISC 2013: a heuristic over the structure of the matrix. The survey of "
           "Filippone et al. gives no rule; the order of the tests (diagonals, blocks, rows of like length, "
           "else hyb) is our reading, and a test is passed where the format needs fewer bytes than csr";
  }
  std::span<const std::string_view> formats() const noexcept override { return known; }
  std::vector<SelectedFormat> rank(const SelectorQuestion& question) const override {
    const std::vector<Candidate> found = selectors_detail::candidates(question, known);
    const double csr = question.csr_bytes();
    std::vector<SelectedFormat> result;
    for (const std::string_view id : {"dia", "bcsr", "ell", "hyb", "csr"})
      for (const Candidate& candidate : found)
        if (candidate.entry->id == id) {
          const bool passed = id == "hyb" || (id != "csr" && candidate.bytes < csr);
          // The tests passed, in their order; then csr; then the others.
          const double score = static_cast<double>(result.size()) + (passed ? 0 : id == "csr" ? 10 : 20);
          result.push_back({.entry = candidate.entry,
                            .score = score,
                            .reason = id == "csr" ? std::string("what is left when no test is passed")
                                                  : fmt::format("{} its test: {:.0f} % of the bytes of csr",
                                                                passed ? "passes" : "fails",
                                                                100 * candidate.bytes / csr)});
        }
    selectors_detail::sort_by_score(result);
    return result;
  }

 private:
  static constexpr std::array<std::string_view, 4> known = {"dia", "bcsr", "ell", "hyb"};
};

// csr with the parameters of the fixed rule.
class RegulyGiles final : public FormatSelector {
 public:
  std::string_view name() const noexcept override { return "reguly-giles"; }
  std::string_view source() const noexcept override {
    return "Reguly, Giles, InPar 2012, section 5.4: csr with a group of threads for each row, whose size "
           "follows from the mean length. Format csr-reguly-giles-tuned has their tuner. On a host both are "
           "the kernel of csr";
  }
  std::span<const std::string_view> formats() const noexcept override { return known; }
  std::vector<SelectedFormat> rank(const SelectorQuestion& question) const override {
    const bool device = question.options().space == Space::device;
    const double seconds = question.csr_seconds();
    SelectedFormat csr{
        .entry = &find_format("csr"),
        .score = 1,
        .product_seconds = seconds,
        .reason = device ? "csr with its own rule of threads" : "on a host the rule changes nothing"};
    if (!device) return {csr};
    SelectedFormat grouped{
        .entry = &find_format(known[0]), .score = 0, .reason = "the fixed rule of groups of threads"};
    return {grouped, csr};
  }

 private:
  static constexpr std::array<std::string_view, 1> known = {"csr-reguly-giles"};
};

}  // namespace

namespace selector_entries {

const FormatSelector& guo_wang() {
  static const GuoWang selector;
  return selector;
}
const FormatSelector& li_pmf() {
  static const LiPmf selector;
  return selector;
}
const FormatSelector& choi() {
  static const Choi selector;
  return selector;
}
const FormatSelector& abu_sufah() {
  static const AbuSufah selector;
  return selector;
}
const FormatSelector& reguly_giles() {
  static const RegulyGiles selector;
  return selector;
}

}  // namespace selector_entries

}  // namespace protean
