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
// The planner has the policies of the paper. Its offline stage measures each format on dense matrices of many sizes;
// here the times come from the machine table (operators/policy/cost_model.hpp), measured on matrices of applications.
// BCSR has the order of its units (bcsr with order = units).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <span>

#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "formats/composed/planners.hpp"
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

// The category of a part, by its rule: the formats among which the fastest is taken.
std::span<const std::string_view> category_of(const PartOfSum& part) {
  static constexpr std::string_view diagonal[] = {"dia", "bdia"}, block[] = {"bsellpack", "bell", "bcsr"},
                                    slots[] = {"ell"}, slices[] = {"sell"},
                                    rest[] = {"csr", "coo", "ell", "sell"};
  if (part.take == "diagonals") return diagonal;
  if (part.take == "blocks") return block;
  if (part.take == "rest") return rest;
  return part.take_parameters.has("slice") ? std::span<const std::string_view>(slices) : slots;
}
// clSpMV's order of the values of BCSR.
FormatParams parameters_of(std::string_view format, const FormatParams& shape) {
  FormatParams all = shape;
  if (format == "bcsr") all.set("order", "units");
  return all;
}

// The numbers of clSpMV's policies under the present settings: the rows and the mean length of the matrix. A number is
// the GFLOPS of a format on a matrix of this size without padding or fill.
class Settings {
 public:
  Settings(const SparsityPattern& pattern, std::size_t value_bytes, const PartSeconds& seconds)
      : pattern_(pattern), v_(static_cast<double>(value_bytes)), seconds_(seconds) {}

  double csr() const { return of("csr", v_ + 4, 4 * rows()); }
  double coo() const { return of("coo", v_ + 8, 0); }
  double ell() const { return of("ell", v_ + 4, 0); }
  double sell() const { return of("sell", v_ + 4, rows() / 4); }
  double flat() const { return std::max({csr(), coo(), ell(), sell()}); }
  double diagonal() const { return std::max(of("dia", v_ + 1.0 / 8, 0), of("bdia", v_ + 1.0 / 8, 0)); }
  double block(std::int64_t R, std::int64_t C) const {
    const auto area = static_cast<double>(R * C);
    const double bytes = v_ + (4 + std::ceil(area / 8)) / area;
    return std::max({of("bell", bytes, 0), of("bsellpack", bytes, 8 * rows() / static_cast<double>(32 * R)),
                     of("bcsr", bytes, 8 * rows() / static_cast<double>(R))});
  }

 private:
  double rows() const { return static_cast<double>(pattern_.rows); }
  double of(std::string_view format, double bytes_an_entry, double others) const {
    const auto entries = static_cast<double>(pattern_.nonzeros);
    const double seconds =
        seconds_(format, pattern_, static_cast<std::size_t>(bytes_an_entry * entries + others));
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
        const FormatParams params = parameters_of(format, shape);
        const Admission admission = admit(entry, context, its, params, value_bytes);
        if (!admission.ok) continue;
        const double its_seconds = seconds(format, its, admission.bytes);
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
                                   std::size_t value_bytes, const CutTools& tools,
                                   const PartSeconds& seconds) {
  const Settings g(pattern, value_bytes, seconds);
  double least = -1;
  ComposedPlan best;
  const auto consider = [&](std::vector<PartOfSum> parts) {
    ComposedPlan plan = plan_of_parts(std::move(parts), context, pattern, value_bytes, tools);
    const double its = choose_formats(plan, context, pattern, value_bytes, seconds);
    if (its < 0 || (least >= 0 && its >= least)) return false;
    least = its, best = std::move(plan);
    return true;
  };
  const PartOfSum rest{.format = "csr"};
  // The flat formats alone. Where nothing is known, as of a matrix without entries, it is csr.
  if (pattern.nonzeros == 0 || !consider({rest}))
    return plan_of_parts({rest}, context, pattern, value_bytes, tools);

  const double flat = g.flat(), of_rows = std::max(g.csr(), g.coo()), of_slots = std::max(g.ell(), g.sell());
  std::vector<std::vector<PartOfSum>> diagonals{{}};
  if (const std::int64_t percent = dense_percent(flat, g.diagonal()); percent < 100) {
    diagonals.push_back({diagonals_above(percent, 1)});
    diagonals.push_back({diagonals_above(percent, 4), diagonals_above(percent, 1)});
  }
  struct Size {
    const char *rows, *cols;
    std::int64_t R, C;
  };
  static constexpr Size sizes[] = {{"1", "4", 1, 4}, {"2", "4", 2, 4}, {"4", "4", 4, 4}, {"8", "4", 8, 4},
                                   {"1", "8", 1, 8}, {"2", "8", 2, 8}, {"4", "8", 4, 8}, {"8", "8", 8, 8}};
  std::vector<PartOfSum> blocks{{}};
  for (const Size& size : sizes) {
    const std::int64_t percent = dense_percent(flat, g.block(size.R, size.C));
    if (percent >= 100) continue;
    const FormatParams shape{{"rows", size.rows}, {"cols", size.cols}};
    PartOfSum part{.format = "bcsr", .take = "blocks", .take_parameters = shape, .parameters = shape};
    part.take_parameters.set("min_fill",
                             std::min<std::int64_t>(100, percent + 1));  // at least so many are filled
    blocks.push_back(std::move(part));
  }
  std::vector<std::vector<PartOfSum>> before{{}};  // what comes before the flat part
  for (const auto& some : diagonals)
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      if (some.empty() && b == 0) continue;
      std::vector<PartOfSum> parts = some;
      if (b > 0) {
        const bool first = g.block(std::stoll(blocks[b].parameters.word("rows")),
                                   std::stoll(blocks[b].parameters.word("cols"))) > g.diagonal();
        parts.insert(first ? parts.begin() : parts.end(), blocks[b]);
      }
      before.push_back(parts);
      parts.push_back(rest);
      consider(std::move(parts));
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
      consider(std::move(parts));
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
  // Merge: without each part in turn, as long as that is faster.
  for (bool merged = true; merged;) {
    merged = false;
    for (std::size_t i = 0; i + 1 < best.parts.size() && !merged; ++i) {
      std::vector<PartOfSum> parts = best.parts;
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
      merged = consider(std::move(parts));
    }
  }
  return best;
}

namespace {

// Times of the machine table, by which format: auto chooses, too. The table has layouts; sell and bell are
// sell-c-sigma and bsellpack with other parameters.
ComposedPlan plan_by_table(const Context& context, const SparsityPattern& pattern, std::size_t value_bytes,
                           const CutTools& tools, const CostModel& model) {
  const PartSeconds seconds = [&](std::string_view format, const SparsityPattern& part, std::size_t bytes) {
    CostQuery query{.rows = part.rows,
                    .nonzeros = part.nonzeros,
                    .csr_bytes = part.bytes() + static_cast<std::size_t>(part.nonzeros) * 8};
    query.row_changes = row_changes(part);
    const std::string_view layout = format == "sell"   ? "sell-c-sigma"
                                    : format == "bell" ? "bsellpack"
                                                       : format;
    const std::size_t in_double =
        value_bytes == 8 ? bytes : bytes + static_cast<std::size_t>(part.nonzeros) * 4;
    const CostPrediction found = model.absolute(query, layout, in_double);
    return found.known ? found.product_seconds : -1.0;
  };
  return plan_cocktail_by_time(context, pattern, value_bytes, tools, seconds);
}

}  // namespace

ComposedPlan plan_cocktail(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                           std::size_t value_bytes, const CutTools& tools) {
  if (params.word("plan") == "bytes") return plan_by_bytes(context, pattern, params, value_bytes, tools);
  return plan_by_table(context, pattern, value_bytes, tools, CostModel(builtin_machine(), context.space()));
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
