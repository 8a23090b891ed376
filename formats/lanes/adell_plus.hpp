// What the host and the device side of adell-plus share: the options and the choice of the layout. Private to formats/.
#pragma once
#include <algorithm>
#include <memory>
#include <utility>

#include "formats/engines/lanes/lanes.hpp"
#include "formats/engines/tuning/option_sweep.hpp"
#include "operators/tuning.hpp"

namespace protean::formats {

// The options of the loop over the slots of a lane.
constexpr int unrolls[] = {1, 2, 4};
// Number of the option if products are not measured. On a GPU one slot a turn leaves room for the most threads.
constexpr int fixed_unroll(Space space) { return space == Space::device ? 0 : 2; }
constexpr int sweep_rounds = 3;  // that count
constexpr ParamDoc unroll_param = {
    .name = "unroll",
    .doc = "slots per turn of the loop; auto: the fastest in the first products",
    .default_value = "auto",
    .choices = "auto|1|2|4"};
constexpr ParamDoc adell_plus_kernel_params[] = {unroll_param};

// The number of the option that a user asked for, or -1.
inline int asked_unroll(const FormatParams& params) {
  if (params.word("unroll") == "auto") return -1;
  return static_cast<int>(std::find(unrolls, unrolls + 3, params.integer("unroll")) - unrolls);
}
// Deterministic mode has one option. So has a matrix whose user asked for one.
template <class T>
OptionSweep unroll_sweep(const BuildRequest<T>& request) {
  const int asked = asked_unroll(request.params);
  if (asked >= 0) return {1, 0, asked};
  return {request.context->deterministic() ? 1 : 3, sweep_rounds, fixed_unroll(request.context->space())};
}

struct LaneBlocking {
  const char* name;
  int R, C;
};
constexpr LaneBlocking blockings[] = {{"1x1", 1, 1}, {"1x2", 1, 2}, {"2x1", 2, 1}};

// What was chosen. trials: OptionSweep, or what measures for one.
template <class T, class Trials>
Tuning adell_plus_tuning(const AssembledMatrix<T>& A, const LaneRule& rule, const Trials& trials) {
  const auto by = [&](std::string_view option, std::string_view otherwise) {
    return A.params().word(option) == "auto" ? otherwise : std::string_view("asked");
  };
  const LaneBlocking* const blocking =
      std::find_if(std::begin(blockings), std::end(blockings),
                   [&](auto& one) { return one.R == rule.R && one.C == rule.C; });
  Tuning tuning;
  tuning.choices = {{"blocking", blocking->name, by("blocking", "bytes")},
                    {"columns", rule.coded ? "delta16" : "raw", by("columns", "bytes")}};
  // The product of deterministic mode on a host has no such loop.
  const bool deterministic = A.context()->deterministic();
  if (!deterministic || A.context()->space() == Space::device)
    tuning.choices.push_back(
        {"unroll", std::to_string(unrolls[trials.best()]), by("unroll", deterministic ? "fixed" : "time")});
  tuning.settled = trials.done(), tuning.measurements = trials.measurements();
  return tuning;
}

// The layout with the fewest bytes among the layouts that the parameters allow and admit() takes. At most two plans
// exist at a time.
//   make(rule)         std::shared_ptr<Plan>: a plan with this rule
//   count(R)           the blocks of a pattern; a layout that cannot win for their number is not planned
//   uncode(plan)       the same plan with raw columns
//   admit(plan)        its Admission
template <class Make, class Count, class Uncode, class Admit>
auto cheapest_lanes(const SparsityPattern& pattern, const FormatParams& params, std::size_t value_bytes,
                    const Make& make, const Count& count, const Uncode& uncode, const Admit& admit) {
  const std::string &asked = params.word("blocking"), &columns = params.word("columns");
  decltype(make(LaneRule())) best;
  Admission found;
  for (const LaneBlocking& one : blockings) {
    if (asked != "auto" && asked != one.name) continue;
    const LaneRule rule{LaneMapping::scan,
                        static_cast<int>(params.integer("W")),
                        mean_and_a_tenth(pattern),
                        columns != "raw",
                        one.R,
                        one.C};
    if (rule.block() > 1 && pattern.cols > most_block_columns) {
      if (asked == "auto") continue;
      found = Admission::refuse("blocking " + asked + " takes at most " + std::to_string(most_block_columns) +
                                " columns, and this matrix has " + std::to_string(pattern.cols) +
                                "; set blocking to 1x1 or auto");
      break;
    }
    // Each block has its values and a column, which is a difference at best.
    if (best && found.ok && rule.block() > 1 &&
        static_cast<std::size_t>(count(one.R)) * (2 * value_bytes + (rule.coded ? 2 : 4)) >= found.bytes)
      continue;
    auto plan = make(rule);
    if (columns == "auto" && !coding_pays(plan->rule, plan->sizes)) uncode(*plan);
    Admission admission = admit(*plan);
    if (best && (found.ok ? !admission.ok || admission.bytes >= found.bytes : !admission.ok)) continue;
    best = std::move(plan), found = std::move(admission);
  }
  return std::pair(std::move(best), std::move(found));
}

}  // namespace protean::formats
