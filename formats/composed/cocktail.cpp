// COCKTAIL: dense diagonals, dense blocks and the rest of a matrix, each in the format of its kind that takes the
// fewest bytes.
//
//        | 1 2 . 9 |     dia(57%)   off = 0, values = 1 4 5 8
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
// The planner is a simple rule by bytes. That of the paper compares measured speeds of each format on the machine.
#include <fmt/format.h>

#include <initializer_list>
#include <limits>

#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "formats/composed/planners.hpp"
#include "formats/host_support.hpp"

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

ComposedPlan plan_cocktail(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
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

namespace {

constexpr ParamDoc params[] = {
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
