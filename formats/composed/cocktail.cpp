// COCKTAIL: dense diagonals, dense blocks and the rest of a matrix, each in the format of its kind with the shortest
// predicted time.
//
//        | 1 2 . 9 |     dia(57%)   off = 0, values = 1 4 5 8            (plan = bytes)
//    A = | 3 4 . . |     coo(43%)   row = 0 0 1, col = 1 3 0, values = 2 9 3
//        | . . 5 . |
//        | . . . 8 |     The 2 x 2 block of 1 2 3 4 has lost two entries to the diagonal, so it is no dense block any
//                        more.
//
// Arrays: as in the parts; each part has all rows and columns. A part without entries is not stored, so the result
//   may be one format.
// Bytes: the sum over the parts. A conversion also takes a byte for each entry, and one part at a time in CSR.
// Parameters:
//   plan       time: the plan with the shortest predicted time. bytes, which is ours: the plan with the fewest bytes:
//              diagonals filled to more than v / (v + 4), for values of v bytes; b x b blocks filled to 75 % or more,
//              where b is the one of 4, 3 and 2 for which the part has the most entries.
//   min_share  for bytes: percent of all entries that diagonals or blocks must have to become a part.
//   diagonals  no: nothing is stored in dia or bdia.
//   blocks     no: nothing is stored in bcsr, bell or bsellpack. Looking for blocks takes most of the time of a plan.
// Wins: when a matrix has diagonals or blocks, and other entries. The other entries are stored in csr, coo, ell or
//   sell.
// Refuses: deterministic mode on a host, because rows are not summed in the order of their columns.
// Source: B.-Y. Su, K. Keutzer, clSpMV: a cross-platform OpenCL SpMV framework on GPUs, ICS 2012,
//   doi:10.1145/2304576.2304624: the nine formats, the order diagonals, blocks, flat, and sums of them.
//
// The planner has the policies of the paper (cocktail_plan.cpp): it counts diagonals, blocks and rows, and cuts the
// matrix once, when the plan is known. The paper's offline stage measures each format on dense matrices of many sizes.
// Here this is done for diagonals and blocks on a host (cocktail_rates.hpp). The times of flat formats come from the
// machine table (operators/policy/cost_model.hpp), measured on matrices of applications: dense matrices would not show
// that rows of different lengths cost csr more than sell. On a GPU bcsr uses order = units.
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
#include "formats/engines/blocks/blocks_host.hpp"
#include "formats/entries.hpp"
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

// A sum must promise to save this part of the time: predictions err by about as much, and a plan that is chosen among
// many is likely to be one whose errors favour it.
constexpr double sum_margin = 0.15;

// Flat formats: times of the machine table, by which format: auto chooses, too. It has layouts; sell is sell-c-sigma
// with other parameters. On a host, diagonals and blocks take the time of csr with rows of equal length, at the rates
// of the offline stage. A GPU has no such rates: there the table has their times, and bell is bsellpack.
PartSeconds seconds_by_table(Space space, std::size_t value_bytes, const CostModel& model) {
  return [=](std::string_view format, const FormatParams& params, const PartSizes& part,
             const Admission& size) {
    const auto in_table = [&](std::string_view layout, std::int64_t entries, double changes,
                              std::size_t bytes) {
      const std::size_t pointer = part.entries < std::int64_t{1} << 31 ? 4 : 8;
      const CostQuery query{.rows = part.rows,
                            .nonzeros = entries,
                            .csr_bytes = pointer * static_cast<std::size_t>(part.rows + 1) +
                                         static_cast<std::size_t>(entries) * 12,
                            .row_changes = changes};
      const CostPrediction found = model.absolute(query, layout, bytes == 0 ? query.csr_bytes : bytes);
      return found.known ? found.product_seconds : -1.0;
    };
    const bool blocks = format == "bcsr" || format == "bell" || format == "bsellpack";
    if (space == Space::host && (blocks || format == "dia" || format == "bdia")) {
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
        std::max(part.entries, format == "coo" ? std::min(part.rows, 5 * part.entries) : part.rows);
    const auto more =
        static_cast<double>(entries) / static_cast<double>(std::max<std::int64_t>(part.entries, 1));
    const std::size_t bytes = size.bytes + (8 - value_bytes) * static_cast<std::size_t>(size.stored_values);
    return in_table(layout, entries, part.row_changes,
                    static_cast<std::size_t>(more * static_cast<double>(bytes)));
  };
}

}  // namespace

ComposedPlan plan_cocktail(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                           std::size_t value_bytes, const CutTools& tools) {
  if (params.word("plan") == "bytes") return plan_by_bytes(context, pattern, params, value_bytes, tools);
  const CostModel model(context.space());
  const CocktailOptions options{.diagonals = params.word("diagonals") == "yes",
                                .blocks = params.word("blocks") == "yes",
                                .margin = sum_margin};
  PredictedPlan plan = predict_cocktail(context, pattern, value_bytes, tools,
                                        seconds_by_table(context.space(), value_bytes, model), options);
  std::vector<PartOfSum> parts;
  for (PredictedPart& one : plan.parts) parts.push_back(std::move(one.part));
  return plan_of_parts(std::move(parts), context, pattern, value_bytes, tools);
}

namespace {

constexpr ParamDoc params[] = {
    {.name = "plan",
     .doc = "measure by which the parts are chosen: the predicted time of a product, or bytes",
     .default_value = "time",
     .choices = "time|bytes"},
    {.name = "min_share",
     .doc = "for bytes: percent of all entries that diagonals or blocks must have to become a part",
     .default_value = "10",
     .smallest = 0,
     .largest = 100},
    {.name = "diagonals",
     .doc = "whether diagonals are looked for",
     .default_value = "yes",
     .choices = "yes|no"},
    {.name = "blocks",
     .doc = "whether blocks are looked for, which takes most of the time of a plan",
     .default_value = "yes",
     .choices = "yes|no"}};
constexpr Kernel kernels[] = {composed_kernel};

}  // namespace

constinit const FormatEntry entries::cocktail{
    .family = "composed",
    .id = "cocktail",
    .title = "Dense diagonals, dense blocks and the rest, each in its own format",
    .source = "Su, Keutzer, clSpMV, ICS 2012",
    .traits = {.chosen_by_name = true, .shares_rows = true, .admits_slowly = true},
    .params = params,
    .kernels = kernels,
    .admit = admit_composed<plan_cocktail>,
    .device = &device_code::cocktail};

}  // namespace protean::formats
