// COCKTAIL: dense diagonals, dense blocks and the rest of a matrix, each in the format of its kind for which the least
// time is predicted.
//
//        | 1 2 . 9 |     dia(57%)   off = 0, values = 1 4 5 8            (plan = bytes)
//    A = | 3 4 . . |     coo(43%)   row = 0 0 1, col = 1 3 0, values = 2 9 3
//        | . . 5 . |
//        | . . . 8 |     The 2 x 2 block of 1 2 3 4 has lost two entries to the diagonal, so it is no dense block any
//                        more.
//
// Arrays: those of the parts; each part has all rows and columns. A part without entries is not stored, so the result
// may be
//   one format.
// Bytes: the sum of those of the parts. A conversion takes a byte for each entry besides, and one part in CSR at a
// time.
// Parameters:
//   plan       time: the plan of the least predicted time. bytes: ours, by fewest bytes; the others are for it.
//   min_share  percent of all entries that diagonals or blocks must have to become a part.
//   diagonals  yes: a first part of the diagonals that are filled to more than v / (v + 4), for values of v bytes, in
//              dia or bdia. no: none.
//   blocks     yes: a part of b x b blocks that are filled to 75 % or more, in bcsr, bell or bsellpack; b is that one
//              of 4, 3 and 2 for which the part has the most entries. no: none.
// Wins: where a matrix has diagonals or blocks and something else. The rest is in csr, coo, ell or sell.
// Refuses: deterministic mode on a host, because rows are not summed in the order of their columns.
// Source: B.-Y. Su, K. Keutzer, clSpMV: a cross-platform OpenCL SpMV framework on GPUs, ICS 2012,
//   doi:10.1145/2304576.2304624: the nine formats, the order diagonals, blocks, flat, and sums of them.
//
// The planner has the policies of the paper. Its offline stage measures each format on dense matrices of many sizes.
// Here that is so for diagonals and blocks on a host (cocktail_rates.hpp). The times of flat formats come from the
// machine table (operators/policy/cost_model.hpp), measured on matrices of applications: dense matrices would not tell
// that rows of different lengths cost csr more than sell. On a GPU bcsr has the order of its units (order = units).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <span>

#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "formats/composed/cocktail_rates.hpp"
#include "formats/composed/planners.hpp"
#include "formats/engines/blocks_host.hpp"
#include "formats/host_support.hpp"
#include "operators/policy/cost_model.hpp"

namespace protean::formats {
namespace {

// The format of these that takes the fewest bytes for a part, the first among equals. One of them admits it.
std::string smallest(std::initializer_list<const char*> formats, const FormatParams& params,
                     const Context& context, const SparsityPattern& pattern, std::size_t value_bytes) {
  std::string best = *formats.begin();
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (const char* id : formats) {
    const FormatEntry& entry = find_format(id);
    if (kernels_in(entry, context.space()).empty()) continue;
    const Admission admission = admit(entry, context, pattern, params, value_bytes);
    if (admission.ok && admission.bytes < least) least = admission.bytes, best = id;
  }
  return best;
}

}  // namespace

namespace {

ComposedPlan plan_by_bytes(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                           std::size_t value_bytes, const CutTools& tools) {
  const FormatParams share{{"min_share", params.word("min_share")}};
  const PartOfSum rest{.format = "csr"};
  std::vector<PartOfSum> first;
  if (params.word("diagonals") == "yes")
    first.push_back({.format = "dia", .take = "diagonals", .take_parameters = share});
  const auto plan_with = [&](std::vector<PartOfSum> parts) {
    parts.push_back(rest);
    return plan_of_parts(std::move(parts), context, pattern, value_bytes, tools);
  };
  ComposedPlan plan = plan_with(first);
  std::int64_t most = 0;
  if (params.word("blocks") == "yes" && plan.cut->entries.back() > 0)
    for (const char* size : {"4", "3", "2"}) {
      const FormatParams shape{{"rows", size}, {"cols", size}};
      PartOfSum blocks{.format = "bcsr", .take = "blocks", .take_parameters = share, .parameters = shape};
      blocks.take_parameters.set("rows", std::string(size)),
          blocks.take_parameters.set("cols", std::string(size));
      std::vector<PartOfSum> parts = first;
      parts.push_back(std::move(blocks));
      ComposedPlan tried = plan_with(std::move(parts));
      if (tried.cut->entries[first.size()] > most)
        most = tried.cut->entries[first.size()], plan = std::move(tried);
    }
  for (std::size_t i = 0; i < plan.parts.size(); ++i) {
    PartOfSum& part = plan.parts[i];
    if (plan.cut->entries[i] == 0) continue;
    plan.cut->with_pattern(context, pattern, static_cast<int>(i), [&](const SparsityPattern& its) {
      const auto choose = [&](std::initializer_list<const char*> formats) {
        part.format = smallest(formats, part.parameters, context, its, value_bytes);
      };
      if (part.take == "diagonals")
        choose({"dia", "bdia"});
      else if (part.take == "blocks")
        choose({"bcsr", "bell", "bsellpack"});
      else
        choose({"csr", "coo", "ell", "sell"});
    });
  }
  return plan;
}

}  // namespace

namespace {

constexpr std::string_view diagonal_formats[] = {"dia", "bdia"},
                           block_formats[] = {"bsellpack", "bell", "bcsr"},
                           flat_formats[] = {"csr", "coo", "ell", "sell"}, slot_formats[] = {"ell"},
                           slice_formats[] = {"sell"};

bool is_among(std::span<const std::string_view> formats, std::string_view format) {
  return std::find(formats.begin(), formats.end(), format) != formats.end();
}

// The category of a part, by its format and its rule: the formats among which the fastest is taken.
std::span<const std::string_view> category_of(const PartOfSum& part) {
  if (is_among(diagonal_formats, part.format)) return diagonal_formats;
  if (is_among(block_formats, part.format)) return block_formats;
  if (part.take == "rest") return flat_formats;
  return part.take_parameters.has("slice") ? std::span<const std::string_view>(slice_formats) : slot_formats;
}
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
  Settings(const SparsityPattern& pattern, std::size_t value_bytes, const PartSeconds& seconds)
      : pattern_(pattern), v_(static_cast<double>(value_bytes)), seconds_(seconds) {}

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
  double rows() const { return static_cast<double>(pattern_.rows); }
  double of(std::string_view format, const FormatParams& params, double bytes_an_entry, double others) const {
    const auto entries = static_cast<double>(pattern_.nonzeros);
    const double seconds = seconds_(
        format, params, pattern_,
        Admission::accept(static_cast<std::size_t>(bytes_an_entry * entries + others), pattern_.nonzeros));
    return seconds > 0 ? 2e-9 * entries / seconds : 0;
  }
  const SparsityPattern& pattern_;
  double v_;
  const PartSeconds& seconds_;
};

// The percent of a diagonal or block above which it is dense: g_f / g. 100 where none is.
std::int64_t dense_percent(double flat, double category) {
  return category > flat ? static_cast<std::int64_t>(std::ceil(100 * flat / category)) : 100;
}

PartOfSum diagonals_above(std::int64_t percent, std::int64_t min_band) {
  PartOfSum part{.format = "dia", .take = "diagonals"};
  part.take_parameters.set("min_fill", std::max<std::int64_t>(1, percent));
  part.take_parameters.set("min_band", min_band);
  return part;
}

// The size of blocks that bcsr takes by itself; on a device it is left to bcsr, so nothing is known of its rate.
FormatParams usual_shape(const Context& context, const SparsityPattern& pattern, std::size_t value_bytes) {
  if (context.space() == Space::device) return {};
  const FormatParams usual =
      resolve_params(find_format("bcsr"), {}, &find_kernel(find_format("bcsr"), {}, Space::host));
  const BlockShape shape = choose_shape(context, pattern, bcsr_spec(usual), value_bytes);
  return {{"rows", std::to_string(shape.R)}, {"cols", std::to_string(shape.C)}};
}

}  // namespace

double choose_formats(ComposedPlan& plan, const Context& context, const SparsityPattern& pattern,
                      std::size_t value_bytes, const PartSeconds& seconds) {
  double all = 0;
  for (std::size_t i = 0; i < plan.parts.size(); ++i) {
    PartOfSum& part = plan.parts[i];
    if (plan.cut->entries[i] == 0 && (part.take != "rest" || pattern.nonzeros > 0)) continue;
    double least = -1;
    FormatParams shape = part.parameters, found;
    plan.cut->with_pattern(context, pattern, static_cast<int>(i), [&](const SparsityPattern& its) {
      for (const std::string_view format : category_of(part)) {
        const FormatEntry& entry = find_format(format);
        if (kernels_in(entry, context.space()).empty()) continue;
        const FormatParams params = parameters_of(format, shape, context.space());
        const Admission admission = admit(entry, context, its, params, value_bytes);
        if (!admission.ok) continue;
        const double its_seconds = seconds(format, params, its, admission);
        if (its_seconds >= 0 && (least < 0 || its_seconds < least))
          least = its_seconds, part.format = std::string(format), found = params;
      }
    });
    if (least < 0) return -1;
    part.parameters = std::move(found);
    all += least;
  }
  return all;
}

// clSpMV's online stage (section 3.3). Its policies are greedy; where one of them names several cases, all are planned,
// and the plan of the least predicted time is taken.
//   diagonals  dense above n_d g_f / g_d: none; DIA or BDIA alone; thick bands (4 diagonals) as BDIA and the others as
//              DIA
//   blocks     dense above n_b g_f / g_b, of eight sizes: none; one of SBELL, BELL and BCSR alone
//   flat       CSR or COO where the faster of them is faster than ELL and SELL; else ELL up to the largest width for
//              which (z + e) / g_ELL < e / m_c, or SELL in each slice, and the rest in CSR or COO
//   merge      a part goes to the others where that is faster
// Categories come in the order of their GFLOPS: flat formats take what is left, so diagonals and blocks change places.
// The rule for CSR against COO, u max_i nnz(i) / g_CSR < n / g_COO, is g_COO < g_CSR here: our CSR divides the entries
// evenly among its u groups, whatever the rows are.
ComposedPlan plan_cocktail_by_time(const Context& context, const SparsityPattern& pattern,
                                   std::size_t value_bytes, const CutTools& tools, const PartSeconds& seconds,
                                   double margin) {
  const Settings g(pattern, value_bytes, seconds);
  double least = -1;
  ComposedPlan best;
  FormatParams dense_shape;  // of the plan with the most entries in dense blocks
  std::int64_t most_dense = 0;
  bool last_has_blocks = false;
  // The predicted seconds of a plan; below 0: unknown. Keeps the best one.
  const auto time_of = [&](std::vector<PartOfSum> parts) {
    ComposedPlan plan = plan_of_parts(std::move(parts), context, pattern, value_bytes, tools);
    last_has_blocks = false;
    for (std::size_t i = 0; i < plan.parts.size(); ++i) {
      if (plan.parts[i].take != "blocks" || plan.cut->entries[i] == 0) continue;
      last_has_blocks = true;
      if (plan.cut->entries[i] > most_dense)
        most_dense = plan.cut->entries[i], dense_shape = plan.parts[i].parameters;
    }
    double its = choose_formats(plan, context, pattern, value_bytes, seconds);
    const auto stored = std::count_if(plan.cut->entries.begin(), plan.cut->entries.end(),
                                      [](std::int64_t entries) { return entries > 0; });
    if (stored > 1) its *= 1 + margin;
    if (its >= 0 && (least < 0 || its < least)) least = its, best = std::move(plan);
    return its;
  };
  const PartOfSum rest{.format = "csr"};
  // The flat formats alone. Where nothing is known, as of a matrix without entries, it is csr.
  if (pattern.nonzeros == 0 || time_of({rest}) < 0)
    return plan_of_parts({rest}, context, pattern, value_bytes, tools);

  const double flat = g.flat(), of_rows = std::max(g.csr(), g.coo()), of_slots = std::max(g.ell(), g.sell());
  std::vector<std::vector<PartOfSum>> diagonals;
  if (const std::int64_t percent = dense_percent(flat, g.diagonal()); percent < 100) {
    diagonals.push_back({diagonals_above(percent, 1)});
    diagonals.push_back({diagonals_above(percent, 4), diagonals_above(percent, 1)});
  }
  static constexpr std::pair<const char*, const char*> sizes[] = {
      {"1", "4"}, {"2", "4"}, {"4", "4"}, {"8", "4"}, {"1", "8"}, {"2", "8"}, {"4", "8"}, {"8", "8"}};
  // With blocks alone; the two sizes of the least time are tried beside diagonals.
  std::vector<std::pair<double, PartOfSum>> blocks;
  for (const auto& [rows, cols] : sizes) {
    const FormatParams shape{{"rows", rows}, {"cols", cols}};
    const std::int64_t percent = dense_percent(flat, g.block(shape));
    if (percent >= 100) continue;
    PartOfSum part{.format = "bcsr", .take = "blocks", .take_parameters = shape, .parameters = shape};
    part.take_parameters.set("min_fill",
                             std::min<std::int64_t>(100, percent + 1));  // at least so many are filled
    const double its = time_of({part, rest});
    if (its >= 0 && last_has_blocks) blocks.emplace_back(its, std::move(part));
  }
  std::stable_sort(blocks.begin(), blocks.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& some : diagonals) {
    std::vector<PartOfSum> alone = some;
    alone.push_back(rest);
    time_of(alone);
    for (std::size_t b = 0; b < std::min<std::size_t>(blocks.size(), 2); ++b) {
      const PartOfSum& part = blocks[b].second;
      std::vector<PartOfSum> parts = some;
      parts.insert(g.block(part.parameters) > g.diagonal() ? parts.begin() : parts.end(), part);
      parts.push_back(rest);
      time_of(std::move(parts));
    }
  }

  // ELL and SELL of what is left, before CSR or COO.
  if (of_slots >= of_rows) {
    std::vector<PartOfSum> first(best.parts.begin(), best.parts.end() - 1);
    std::int64_t width = 0;
    if (best.cut->entries.back() > 0)
      best.cut->with_pattern(
          context, pattern, static_cast<int>(best.parts.size()) - 1, [&](const SparsityPattern& its) {
            const auto counter = tools.counter(context, its, value_bytes);
            const std::int64_t most = 4 * (its.nonzeros / std::max<std::int64_t>(1, its.rows) + 1);
            const std::vector<std::int64_t> lengths = counter->lengths(most);
            for (std::int64_t w = 1; w <= most && w <= its.cols; ++w) {
              const auto covered = static_cast<double>(entries_within(lengths, its.rows, w));
              if (static_cast<double>(w * its.rows) / g.ell() < covered / of_rows) width = w;
            }
          });
    const auto with = [&](PartOfSum part) {
      if (first.size() + 2 > most_parts) return;
      std::vector<PartOfSum> parts = first;
      parts.push_back(std::move(part)), parts.push_back(rest);
      time_of(std::move(parts));
    };
    if (width > 0) {
      PartOfSum part{.format = "ell", .take = "width"};
      part.take_parameters.set("entries", width);
      with(std::move(part));
    }
    if (g.sell() > of_rows) {
      PartOfSum part{.format = "sell", .take = "width"};
      part.take_parameters.set(
          "min_fill",
          std::min<std::int64_t>(99, static_cast<std::int64_t>(std::ceil(100 * of_rows / g.sell()))));
      part.take_parameters.set("slice", std::int64_t{32});
      with(std::move(part));
    }
  }
  // The whole matrix in one format of the other categories. Blocks have the size of fewest bytes, or the one of the
  // paper's that the dense blocks have.
  time_of({PartOfSum{.format = "dia"}});
  time_of({PartOfSum{.format = "bcsr", .parameters = usual_shape(context, pattern, value_bytes)}});
  if (2 * most_dense > pattern.nonzeros) time_of({PartOfSum{.format = "bcsr", .parameters = dense_shape}});
  // Merge: without each part in turn, as long as that is faster.
  for (bool merged = true; merged;) {
    merged = false;
    for (std::size_t i = 0; i + 1 < best.parts.size() && !merged; ++i) {
      std::vector<PartOfSum> parts = best.parts;
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
      const double before = least;
      time_of(std::move(parts));
      merged = least < before;
    }
  }
  return best;
}

namespace {

// A sum must promise to save this part of the time: predictions err by about as much, and a plan that is chosen among
// many is one of those that err in its favour.
constexpr double sum_margin = 0.15;

// Flat formats: times of the machine table, by which format: auto chooses, too. It has layouts; sell is sell-c-sigma
// with other parameters. On a host, diagonals and blocks take the time of csr with rows of equal length, at the rates
// of the offline stage. A GPU has no such rates: there the table has their times, and bell is bsellpack.
ComposedPlan plan_by_table(const Context& context, const SparsityPattern& pattern, std::size_t value_bytes,
                           const CutTools& tools, const CostModel& model) {
  const PartSeconds seconds = [&](std::string_view format, const FormatParams& params,
                                  const SparsityPattern& part, const Admission& size) {
    const auto in_table = [&](std::string_view layout, std::int64_t entries, double changes,
                              std::size_t bytes) {
      const CostQuery query{.rows = part.rows,
                            .nonzeros = entries,
                            .csr_bytes = part.row_ptr.width() * static_cast<std::size_t>(part.rows + 1) +
                                         static_cast<std::size_t>(entries) * 12,
                            .row_changes = changes};
      const CostPrediction found = model.absolute(query, layout, bytes == 0 ? query.csr_bytes : bytes);
      return found.known ? found.product_seconds : -1.0;
    };
    const bool blocks = is_among(block_formats, format);
    if (context.space() == Space::host && (blocks || is_among(diagonal_formats, format))) {
      const std::int64_t stored = std::max<std::int64_t>(size.stored_values, 1);
      const double rate =
          cocktail_rate(builtin_host(), value_bytes, format, blocks ? params.integer("rows") : 1,
                        blocks ? params.integer("cols") : 1, static_cast<double>(part.rows),
                        static_cast<double>(stored) / static_cast<double>(part.rows));
      const double as_csr = in_table("csr", stored, 0, 0);
      return rate > 0 && as_csr > 0 ? as_csr / rate : -1.0;
    }
    const std::string_view layout = format == "sell"   ? "sell-c-sigma"
                                    : format == "bell" ? "bsellpack"
                                                       : format;
    // No matrix of the table has fewer entries than rows. A row without entries costs about as much as one with an
    // entry, since the processor cannot foresee which it is; an entry of coo among such rows took five times as long as
    // others (luxembourg_osm).
    const std::int64_t entries =
        std::max(part.nonzeros, format == "coo" ? std::min(part.rows, 5 * part.nonzeros) : part.rows);
    const auto more =
        static_cast<double>(entries) / static_cast<double>(std::max<std::int64_t>(part.nonzeros, 1));
    const std::size_t bytes = size.bytes + (8 - value_bytes) * static_cast<std::size_t>(size.stored_values);
    return in_table(layout, entries, row_changes(part),
                    static_cast<std::size_t>(more * static_cast<double>(bytes)));
  };
  return plan_cocktail_by_time(context, pattern, value_bytes, tools, seconds, sum_margin);
}

}  // namespace

ComposedPlan plan_cocktail(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                           std::size_t value_bytes, const CutTools& tools) {
  if (params.word("plan") == "bytes") return plan_by_bytes(context, pattern, params, value_bytes, tools);
  return plan_by_table(context, pattern, value_bytes, tools, CostModel(context.space()));
}

namespace {

constexpr ParamDoc params[] = {
    {.name = "plan",
     .doc = "what the parts are chosen by: the predicted time of a product, or bytes; the other parameters "
            "are for bytes",
     .default_value = "time",
     .choices = "time|bytes"},
    {.name = "min_share",
     .doc = "percent of all entries that diagonals or blocks must have to become a part",
     .default_value = "10",
     .smallest = 0,
     .largest = 100},
    {.name = "diagonals", .doc = "a part of dense diagonals", .default_value = "yes", .choices = "yes|no"},
    {.name = "blocks",
     .doc = "a part of dense blocks of 4 x 4, 3 x 3 or 2 x 2",
     .default_value = "yes",
     .choices = "yes|no"}};
constexpr Kernel kernels[] = {composed_kernel};

}  // namespace

namespace device_code {
extern const DeviceCode cocktail;  // cocktail.cu
}

extern const FormatEntry cocktail;
constinit const FormatEntry cocktail{
    .family = "composed",
    .id = "cocktail",
    .title = "Dense diagonals, dense blocks and the rest, each in a format of its own",
    .source = "Su, Keutzer, clSpMV, ICS 2012",
    .traits = {.chosen_by_name = true, .shares_rows = true, .admits_slowly = true},
    .params = params,
    .kernels = kernels,
    .admit = admit_composed<plan_cocktail>,
    .device = &device_code::cocktail};

}  // namespace protean::formats
