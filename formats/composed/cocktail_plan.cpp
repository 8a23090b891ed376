// clSpMV's online stage (Su and Keutzer, ICS 2012, section 3.3): the plan of a cocktail from counts of the pattern
// (engines/composed/tally.hpp). Nothing is cut before the plan is known.
//
// The policies are greedy; if one of them names several cases, all are predicted, and the plan with the shortest
// predicted time is taken.
//   diagonals  dense above n_d g_f / g_d: none; DIA or BDIA alone; thick bands (4 diagonals) as BDIA and the others as
//              DIA
//   blocks     dense above n_b g_f / g_b, of eight sizes: none; one of SBELL, BELL and BCSR alone
//   flat       CSR or COO if the faster of them is faster than ELL and SELL; else ELL up to the largest width for which
//              (z + e) / g_ELL < e / m_c, or SELL in each slice, and the rest in CSR or COO
//   csr, coo   CSR if u max_i nnz(i) / g_CSR < n / g_COO, for the entries nnz(i) of u workers
//   merge      a part goes to the others if that is faster
// Categories come in the order of their GFLOPS: flat formats take what is left, so diagonals and blocks change places.
// The whole matrix in diagonals or in blocks of one size is a plan, too: the histogram of all blocks is for it.
#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <utility>

#include "formats/catalogue.hpp"
#include "formats/composed/planners.hpp"
#include "formats/engines/blocks/blocks_host.hpp"
#include "formats/engines/composed/tally.hpp"
#include "formats/engines/diagonals/diagonal_view.hpp"
#include "formats/engines/diagonals/diagonals.hpp"
#include "formats/engines/slices/slice_view.hpp"
#include "formats/host_support.hpp"

namespace protean::formats {
namespace {

constexpr std::string_view diagonal_formats[] = {"dia", "bdia"},
                           block_formats[] = {"bsellpack", "bell", "bcsr"},
                           flat_formats[] = {"csr", "coo", "ell", "sell"}, slot_formats[] = {"ell"},
                           slice_formats[] = {"sell"};
constexpr std::int64_t thick = 4;  // diagonals of a thick band
using Offsets = std::vector<std::int32_t>;

// clSpMV's order of the values of BCSR lets the lanes of a GPU load neighbouring values. On a host the values of a
// block lie together, so that its kernel loads whole vectors.
FormatParams parameters_of(std::string_view format, const FormatParams& shape, Space space) {
  FormatParams all = shape;
  if (format == "bcsr" && space == Space::device) all.set("order", "units");
  return all;
}

// The numbers of clSpMV's policies under the present settings: the rows and the mean length of the matrix. A number is
// the GFLOPS of a format on a matrix of this size without padding or fill.
class Settings {
 public:
  Settings(const PartSizes& matrix, std::size_t value_bytes, const PartSeconds& seconds)
      : matrix_(matrix), v_(static_cast<double>(value_bytes)), seconds_(seconds) {}

  double csr() const { return of("csr", {}, v_ + 4, 4 * rows()); }
  double coo() const { return of("coo", {}, v_ + 8, 0); }
  double ell() const { return of("ell", {}, v_ + 4, 0); }
  double sell() const { return of("sell", {}, v_ + 4, rows() / 4); }
  double flat() const { return std::max({csr(), coo(), ell(), sell()}); }
  double diagonal() const {
    return std::max(of("dia", {}, v_ + 1.0 / 8, 0), of("bdia", {}, v_ + 1.0 / 8, 0));
  }
  // Blocks of the size that the parameters say.
  double block(const FormatParams& shape) const {
    const auto R = static_cast<double>(shape.integer("rows")),
               area = R * static_cast<double>(shape.integer("cols"));
    const double bytes = v_ + (4 + std::ceil(area / 8)) / area;
    return std::max({of("bell", shape, bytes, 0), of("bsellpack", shape, bytes, 8 * rows() / (32 * R)),
                     of("bcsr", shape, bytes, 8 * rows() / R)});
  }

 private:
  double rows() const { return static_cast<double>(matrix_.rows); }
  double of(std::string_view format, const FormatParams& params, double bytes_an_entry, double others) const {
    const auto entries = static_cast<double>(matrix_.entries);
    const double seconds = seconds_(
        format, params, matrix_,
        Admission::accept(static_cast<std::size_t>(bytes_an_entry * entries + others), matrix_.entries));
    return seconds > 0 ? 2e-9 * entries / seconds : 0;
  }
  const PartSizes& matrix_;
  double v_;
  const PartSeconds& seconds_;
};

// The percent of a diagonal or block above which it is dense: g_f / g. 100 if none is.
std::int64_t dense_percent(double flat, double category) {
  return category > flat ? static_cast<std::int64_t>(std::ceil(100 * flat / category)) : 100;
}

FormatParams shape_params(const BlockShape& shape) {
  return {{"rows", std::to_string(shape.R)}, {"cols", std::to_string(shape.C)}};
}

// Divides ascending offsets in two: offsets in bands of at least `thick` neighbours, and the others.
std::pair<Offsets, Offsets> thick_and_thin(const Offsets& offsets) {
  std::pair<Offsets, Offsets> two;
  for (auto first = offsets.begin(); first != offsets.end();) {
    auto end = first + 1;
    while (end != offsets.end() && *end == end[-1] + 1) ++end;
    auto& side = end - first >= thick ? two.first : two.second;
    side.insert(side.end(), first, end);
    first = end;
  }
  return two;
}

class Planner {
 public:
  Planner(const Context& context, const SparsityPattern& pattern, std::size_t value_bytes, const Tally& tally,
          const PartSeconds& seconds, const CocktailOptions& options)
      : space_(context.space()),
        pattern_(pattern),
        v_(value_bytes),
        tally_(tally),
        seconds_(seconds),
        options_(options),
        rows_(tally.rows()),
        whole_(rows_->sums(tally_slice)),
        matrix_(sizes_of(whole_)),
        g_(matrix_, value_bytes, seconds) {}

  PredictedPlan plan(const Context& context) {
    candidates_.push_back({.left = rows_});
    // If nothing is known, as of a matrix without entries, it is csr.
    if (pattern_.nonzeros == 0 || consider(candidates_.front()) < 0) {
      PredictedPlan csr;
      csr.parts.push_back({.part = {.format = "csr"}, .entries = pattern_.nonzeros});
      return csr;
    }
    flat_ = g_.flat();
    if (options_.diagonals) look_at_diagonals();
    if (options_.blocks) look_at_blocks(context);
    if (options_.diagonals && options_.blocks) look_at_both();
    if (std::max(g_.ell(), g_.sell()) >= std::max(g_.csr(), g_.coo())) look_at_slots();
    return std::move(best_);
  }

 private:
  // A part with the format of its category for which the least time is predicted; seconds are below 0 if none is
  // admitted or known.
  template <class SizeOf>
  PredictedPart cheapest(PartOfSum part, std::span<const std::string_view> formats, const PartSizes& sizes,
                         SizeOf size_of) const {
    PredictedPart found{.part = std::move(part), .entries = sizes.entries, .seconds = -1};
    const FormatParams shape = found.part.parameters;
    for (const std::string_view format : formats) {
      const FormatEntry& entry = find_format(format);
      if (kernels_in(entry, space_).empty()) continue;
      const FormatParams params = parameters_of(format, shape, space_);
      const Admission size =
          size_of(format, resolve_params(entry, params, &find_kernel(entry, {}, space_)), pattern_of(sizes));
      if (!size.ok) continue;
      const double its = seconds_(format, params, sizes, size);
      if (its < 0 || (found.seconds >= 0 && its >= found.seconds)) continue;
      found.seconds = its, found.bytes = size.bytes;
      found.part.format = std::string(format), found.part.parameters = params;
    }
    return found;
  }

  PartSizes sizes_of(const LengthSums& rows) const {
    return {pattern_.rows, pattern_.cols, rows.entries,
            rows.rows < 2 ? -1.0 : static_cast<double>(rows.changes) / static_cast<double>(rows.rows - 1)};
  }
  // Sizes as the admission of a format asks for them; there are no arrays.
  static SparsityPattern pattern_of(const PartSizes& sizes) {
    SparsityPattern pattern;
    pattern.rows = sizes.rows, pattern.cols = sizes.cols, pattern.nonzeros = sizes.entries;
    return pattern;
  }

  // In flat formats, by the lengths of the rows. CSR waits for its most loaded worker.
  PredictedPart flat_part(PartOfSum part, std::span<const std::string_view> formats,
                          const Lengths& lengths) const {
    const std::int64_t height = space_ == Space::host ? 8 : 32;  // of slices of sell
    const LengthSums rows = lengths.sums(height);
    const PartSizes sizes = sizes_of(rows);
    const auto size_of = [&](std::string_view format, const FormatParams& params,
                             const SparsityPattern& its) {
      const auto entries = static_cast<std::size_t>(rows.entries);
      if (format == "coo") return Admission::accept(entries * (v_ + 8), rows.entries);
      if (format == "csr") {
        const std::size_t pointer = rows.entries < std::int64_t{1} << 31 ? 4 : 8;
        return Admission::accept(entries * (v_ + 4) + pointer * static_cast<std::size_t>(rows.rows + 1),
                                 rows.entries);
      }
      const SliceRule rule = format == "ell"         ? ell_rule(its, params)
                             : space_ == Space::host ? sell_c_sigma_rule_on_host(its, params)
                                                     : sell_c_sigma_rule_on_device(its, params);
      const std::int64_t slices = rule.blocks(rows.rows);
      const SliceCounts counts{.slots = format == "ell"
                                            ? (slices > 0 ? rule.height(rows.rows) * rows.longest : 0)
                                            : rows.slots + (slices * rule.C - rows.rows) * rows.last,
                               .slices = slices,
                               .absent = rows.rows - rows.filled};
      return admit_slots(rule, counts, its, params, v_);
    };
    const double imbalance = tally_.imbalance(rows);
    // A part of slots has no choice between CSR and COO.
    PredictedPart found = cheapest(part, formats, sizes, size_of);
    if (found.part.format == "csr" && found.seconds >= 0) {
      std::vector<std::string_view> others(formats.begin(), formats.end());
      std::erase(others, "csr");
      found.seconds *= imbalance;
      PredictedPart other = cheapest(std::move(part), others, sizes, size_of);
      if (other.seconds >= 0 && other.seconds < found.seconds) return other;
    }
    return found;
  }
  PredictedPart diagonal_part(PartOfSum part, const Offsets& offsets, const PartSizes& sizes) const {
    Bands bands;
    bands.add(offsets.data(), offsets.data() + offsets.size());
    return cheapest(std::move(part), diagonal_formats, sizes,
                    [&](std::string_view format, const FormatParams& params, const SparsityPattern& its) {
                      const auto count = std::ssize(offsets);
                      return format == "dia"
                                 ? admit_diagonals(count, its.rows, dia_ptr_bytes, its, params, v_)
                                 : admit_bands(count, bands.count(), its, params, v_);
                    });
  }
  PredictedPart block_part(PartOfSum part, const BlockShape& shape, const Lengths& blocks,
                           const PartSizes& sizes) const {
    part.parameters = shape_params(shape);
    const LengthSums sums = blocks.sums(tally_slice);
    return cheapest(std::move(part), block_formats, sizes,
                    [&](std::string_view format, const FormatParams& params, const SparsityPattern& its) {
                      const BlockRule rule =
                          format == "bcsr" ? bcsr_spec(params).rule : bsellpack_spec(params).rule;
                      const std::int64_t slots = format == "bcsr"   ? sums.entries
                                                 : format == "bell" ? sums.rows * sums.longest
                                                                    : sums.slots;
                      return admit_blocks(rule, shape, slots, its, params, v_);
                    });
  }

  // Parts of diagonals and blocks, and the rows of what they leave.
  struct Candidate {
    std::vector<PredictedPart> parts = {};
    std::shared_ptr<const Lengths> left;
    int diagonals = 0;      // 0: none, 1: all dense ones in one part, 2: thick bands and the others
    std::int64_t size = 0;  // of blocks: its number; 0: none
    double seconds = -1;    // with the rest in one flat format
  };

  // Predicts the parts with the rest in one flat format; keeps the best plan. Below 0: unknown.
  double consider(Candidate& candidate) {
    const double before = best_.seconds;
    candidate.seconds = take(candidate.parts, flat_part({.format = "csr"}, flat_formats, *candidate.left));
    if (best_.seconds != before) diagonals_ = candidate.diagonals, size_ = candidate.size;
    return candidate.seconds;
  }
  double take(std::vector<PredictedPart> parts, PredictedPart rest) {
    PredictedPlan plan{.parts = std::move(parts)};
    if (rest.entries == 0 && !plan.parts.empty()) rest = {.part = {.format = "csr"}};  // it is not stored
    plan.parts.push_back(std::move(rest));
    double all = 0;
    int stored = 0;
    for (const PredictedPart& part : plan.parts) {
      if (part.seconds < 0) return -1;
      all += part.seconds, stored += part.entries > 0;
    }
    plan.seconds = stored > 1 ? all * (1 + options_.margin) : all;
    const double its = plan.seconds;
    if (best_.seconds < 0 || its < best_.seconds) best_ = std::move(plan);
    return its;
  }

  // The parts of dense diagonals, one or two. Their entries are few enough to be counted from the tally.
  std::vector<PredictedPart> parts_of_diagonals(const DiagonalTally& tally, const Offsets& offsets,
                                                bool in_two) const {
    std::vector<PredictedPart> parts;
    const auto add = [&](const Offsets& some, std::int64_t min_band) {
      if (some.empty()) return;
      PartOfSum part{.format = "dia", .take = "diagonals"};
      part.take_parameters.set("min_fill", percent_), part.take_parameters.set("min_band", min_band);
      parts.push_back(
          diagonal_part(std::move(part), some, {pattern_.rows, pattern_.cols, tally.entries(some)}));
    };
    if (!in_two) {
      add(offsets, 1);
      return parts;
    }
    const auto [bands, others] = thick_and_thin(offsets);
    if (bands.empty() || others.empty()) return parts;  // as in one part
    add(bands, thick), add(others, 1);
    return parts;
  }
  void look_at_diagonals() {
    diagonal_tally_ = tally_.diagonals();
    percent_ = std::max<std::int64_t>(1, dense_percent(flat_, g_.diagonal()));
    if (percent_ < 100) dense_ = diagonal_tally_->above(percent_);
    if (!dense_.empty()) {
      const std::shared_ptr<const Lengths> left = tally_.rows_without(dense_);
      for (const int way : {1, 2}) {
        Candidate its{
            .parts = parts_of_diagonals(*diagonal_tally_, dense_, way == 2), .left = left, .diagonals = way};
        if (its.parts.empty()) continue;
        consider(its);
        candidates_.push_back(std::move(its));
      }
    }
    // The whole matrix.
    if (const Offsets all = diagonal_tally_->above(0); !all.empty())
      take({}, diagonal_part({.format = "dia"}, all, matrix_));
  }

  PredictedPart dense_blocks(const BlockShape& shape, std::int64_t min_fill, const BlockTally& found) const {
    PartOfSum part{.format = "bcsr", .take = "blocks", .take_parameters = shape_params(shape)};
    part.take_parameters.set("min_fill", min_fill);
    return block_part(std::move(part), shape, *found.dense,
                      {pattern_.rows, pattern_.cols, found.dense_entries});
  }
  void look_at_blocks(const Context& context) {
    std::vector<BlockShape> sizes = {{1, 4}, {2, 4}, {4, 4}, {8, 4}, {1, 8}, {2, 8}, {4, 8}, {8, 8}};
    const std::size_t of_paper = sizes.size();
    sizes.push_back({2, 2}), sizes.push_back({3, 3});
    // The size of fewest bytes among more, by a sample.
    if (space_ == Space::host) {
      const FormatEntry& bcsr = find_format("bcsr");
      const BlockShape usual = choose_shape(
          context, pattern_, bcsr_spec(resolve_params(bcsr, {}, &find_kernel(bcsr, {}, space_))), v_);
      if (std::none_of(sizes.begin(), sizes.end(),
                       [&](const BlockShape& size) { return size.R == usual.R && size.C == usual.C; }))
        sizes.push_back(usual);
    }
    std::vector<std::pair<double, Candidate>> found;
    std::vector<PredictedPart> whole;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const BlockShape& shape = sizes[i];
      std::int64_t min_fill = 101;  // no block is
      if (i < of_paper)
        if (const std::int64_t percent = dense_percent(flat_, g_.block(shape_params(shape))); percent < 100)
          min_fill = std::min<std::int64_t>(100, percent + 1);
      if (!tally_.may_have_blocks(shape, min_fill)) continue;
      BlockTally its = tally_.blocks({.shape = shape, .min_fill = min_fill});
      whole.push_back(block_part({.format = "bcsr"}, shape, *its.all, matrix_));
      if (its.dense_entries == 0) continue;
      Candidate candidate{.parts = {dense_blocks(shape, min_fill, its)},
                          .left = std::move(its.left),
                          .size = static_cast<std::int64_t>(i) + 1};
      const double seconds = consider(candidate);
      if (seconds < 0) continue;
      found.emplace_back(seconds, std::move(candidate));
      std::stable_sort(found.begin(), found.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
      if (found.size() > 2) found.pop_back();
    }
    for (PredictedPart& part : whole) take({}, std::move(part));
    for (auto& [seconds, candidate] : found) candidates_.push_back(std::move(candidate));
    sizes_ = std::move(sizes);
  }

  // The two sizes of blocks that are the fastest alone, next to diagonals, if both gain alone.
  void look_at_both() {
    const auto gains = [&](const Candidate& its) {
      return its.seconds >= 0 && its.seconds < candidates_.front().seconds;
    };
    if (std::none_of(candidates_.begin(), candidates_.end(),
                     [&](const Candidate& its) { return its.diagonals != 0 && gains(its); }))
      return;
    std::vector<Candidate> both;
    for (const Candidate& blocks : candidates_) {
      if (blocks.size == 0 || !gains(blocks)) continue;
      const BlockShape& shape = sizes_[static_cast<std::size_t>(blocks.size - 1)];
      const std::int64_t min_fill = blocks.parts.front().part.take_parameters.integer("min_fill");
      const bool blocks_first = g_.block(shape_params(shape)) > g_.diagonal();
      BlockPass pass{.shape = shape, .min_fill = min_fill};
      Offsets offsets = dense_;
      std::unique_ptr<DiagonalTally> of_rest;
      if (blocks_first) {
        pass.diagonals = true;
        of_rest = tally_.blocks(pass).diagonals;
        pass.diagonals = false;
        offsets = of_rest->above(percent_);
        if (offsets.empty()) continue;
        pass.after = offsets;
      } else {
        pass.before = offsets;
      }
      BlockTally its = tally_.blocks(pass);
      if (its.dense_entries == 0) continue;
      const std::shared_ptr<const Lengths> left = std::move(its.left);
      for (const int way : {1, 2}) {
        Candidate candidate{
            .parts = parts_of_diagonals(blocks_first ? *of_rest : *diagonal_tally_, offsets, way == 2),
            .left = left,
            .diagonals = way,
            .size = blocks.size};
        if (candidate.parts.empty()) continue;
        candidate.parts.insert(blocks_first ? candidate.parts.begin() : candidate.parts.end(),
                               dense_blocks(shape, min_fill, its));
        consider(candidate);
        both.push_back(std::move(candidate));
      }
    }
    for (Candidate& candidate : both) candidates_.push_back(std::move(candidate));
  }

  // ELL or SELL of what is left before CSR or COO: next to the best parts, and next to each of them alone (merge).
  void look_at_slots() {
    const double of_rows = std::max(g_.csr(), g_.coo());
    const int diagonals = diagonals_;
    const std::int64_t size = size_;
    for (const Candidate& candidate : candidates_) {
      if ((candidate.diagonals != 0 && candidate.diagonals != diagonals) ||
          (candidate.size != 0 && candidate.size != size) || candidate.parts.size() + 2 > most_parts)
        continue;
      const LengthSums left = candidate.left->sums(tally_slice);
      if (left.entries == 0) continue;
      const auto with = [&](PartOfSum part, std::span<const std::string_view> formats,
                            const Lengths::Two& two) {
        std::vector<PredictedPart> parts = candidate.parts;
        parts.push_back(flat_part(std::move(part), formats, *two.taken));
        if (parts.back().entries > 0)
          take(std::move(parts), flat_part({.format = "csr"}, flat_formats, *two.left));
      };
      if (const std::int64_t width = widest(*candidate.left, left, of_rows); width > 0) {
        PartOfSum part{.format = "ell", .take = "width"};
        part.take_parameters.set("entries", width);
        with(std::move(part), slot_formats, candidate.left->by_width(width));
      }
      if (g_.sell() <= of_rows) continue;
      const auto percent =
          std::min<std::int64_t>(99, static_cast<std::int64_t>(std::ceil(100 * of_rows / g_.sell())));
      PartOfSum part{.format = "sell", .take = "width"};
      part.take_parameters.set("min_fill", percent), part.take_parameters.set("slice", tally_slice);
      with(std::move(part), slice_formats, candidate.left->by_slices(percent));
    }
  }
  // The largest w with (z(w) + e(w)) / g_ELL < e(w) / m_c.
  std::int64_t widest(const Lengths& left, const LengthSums& rows, double of_rows) const {
    const std::int64_t most = 4 * (rows.entries / std::max<std::int64_t>(1, rows.rows) + 1);
    const std::vector<std::int64_t> lengths = left.histogram(most);
    std::int64_t width = 0;
    for (std::int64_t w = 1; w <= most && w <= pattern_.cols; ++w) {
      const auto covered = static_cast<double>(entries_within(lengths, rows.rows, w));
      if (static_cast<double>(w * rows.rows) / g_.ell() < covered / of_rows) width = w;
    }
    return width;
  }

  const Space space_;
  const SparsityPattern& pattern_;
  const std::size_t v_;
  const Tally& tally_;
  const PartSeconds& seconds_;
  const CocktailOptions& options_;
  const std::shared_ptr<const Lengths> rows_;
  const LengthSums whole_;
  const PartSizes matrix_;
  const Settings g_;
  double flat_ = 0;
  std::int64_t percent_ = 100;  // above which a diagonal is dense
  Offsets dense_;
  std::unique_ptr<DiagonalTally> diagonal_tally_;
  std::vector<BlockShape> sizes_;
  std::vector<Candidate> candidates_;
  PredictedPlan best_;
  int diagonals_ = 0;  // of the best candidate
  std::int64_t size_ = 0;
};

}  // namespace

PredictedPlan predict_cocktail(const Context& context, const SparsityPattern& pattern,
                               std::size_t value_bytes, const CutTools& tools, const PartSeconds& seconds,
                               const CocktailOptions& options) {
  const std::unique_ptr<Tally> tally = tools.tally(context, pattern);
  return Planner(context, pattern, value_bytes, *tally, seconds, options).plan(context);
}

}  // namespace protean::formats
