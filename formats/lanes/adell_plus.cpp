// AdELL+: AdELL whose lanes are found by one prefix sum, with 16-bit differences of columns where they save memory.
//
//        | 1 . 2 . |     W = 2: 1 entry a lane; columns are kept
//    A = | . 3 . . |     unit_ptr = 0 2 4 6 8
//        | . . . . |     lane_row = 0 0 | 1 -3 | 3 3 | 3 -4
//        | 4 5 . 6 |     col      = 0 2 | 1 0  | 0 1 | 3 3      values = 1 2 | 3 . | 4 5 | 6 .
//
// Arrays: those of adell, or those of coadell where columns are coded.
// Bytes: those of adell or of coadell.
// Parameters:
//   W         lanes of a warp.
//   index     raw: keeps columns; delta16: codes them; auto: whichever has fewer bytes.
//   max_fill  the most slots an entry.
// Wins: as adell and coadell; the conversion is cheaper, because no row waits for the rows before it.
// Refuses: when slots > max_fill nonzeros.
// Source: M. Maggioni, T. Berger-Wolf, Optimization techniques for sparse matrix-vector multiplication on GPUs, J. Parallel
//   Distrib. Comput. 93-94, 2016, 66-86, doi:10.1016/j.jpdc.2016.03.011. The paper also joins entries to blocks of 1 x 2 and
//   2 x 1, unrolls loops and tunes all this while a solve runs; this has its heuristic and its codes, chosen by their bytes.
//   Low confidence.
#include "formats/engines/lanes.hpp"

namespace protean::formats {

LaneRule adell_plus_rule(const SparsityPattern& pattern, const FormatParams& params) {
  return {LaneMapping::scan, static_cast<int>(params.integer("W")), mean_and_a_tenth(pattern),
          params.word("index") != "raw"};
}

namespace {

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan = std::make_shared<LanePlanOnHost>(
      plan_lanes_on_host(context, pattern, adell_plus_rule(pattern, params)));
  if (params.word("index") == "auto" && !coding_pays(plan->rule, plan->sizes)) {
    plan->rule.coded = false;
    plan->col = {}, plan->code_ptr = {};
  }
  Admission admission = admit_lanes(plan->rule, plan->sizes, pattern, params, value_bytes);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

constexpr ParamDoc params[] = {lane_width_param,
                               {.name = "index",
                                .doc = "columns as they are, as 16-bit differences, or what has fewer bytes",
                                .default_value = "auto",
                                .choices = "auto|raw|delta16"},
                               lane_fill_param};

constexpr Kernel kernels[] = {native_host_kernel<LaneMatrix>(Sums::ordered)};

}  // namespace

namespace device_code {
extern const DeviceCode adell_plus;
}

extern const FormatEntry adell_plus;
constinit const FormatEntry adell_plus{.family = "lanes",
                                       .id = "adell-plus",
                                       .title = "AdELL by a prefix sum, columns coded where it saves memory",
                                       .source = "Maggioni, Berger-Wolf, JPDC 93-94, 2016",
                                       .traits = {.shares_rows = true, .admission_converts = true},
                                       .params = params,
                                       .kernels = kernels,
                                       .admit = admit,
                                       .device = PROTEAN_DEVICE_CODE(adell_plus)};

}  // namespace protean::formats
