// The rules of the formats with coded differences, which their host and device code share, and their parameters.
// Private to this folder.
#pragma once
#include "formats/engines/bits/bro.hpp"
#include "formats/hybrid/rules.hpp"

namespace protean::formats {

BroShape bro_ell_shape(const SumCounter& counter, const FormatParams& params);
BroShape bro_csr_shape(const SumCounter& counter, const FormatParams& params);
BroShape bro_coo_shape(const SumCounter& counter, const FormatParams& params);
BroShape bro_hyb_shape(const SumCounter& counter, const FormatParams& params);
BroShape bro_hybr_shape(const SumCounter& counter, const FormatParams& params);

constexpr ParamDoc bro_height_param{.name = "h",
                                    .doc = "rows of a slice; they share the widths of the fields",
                                    .default_value = "32",
                                    .smallest = 1,
                                    .largest = 4096};
constexpr ParamDoc bro_lanes_param{.name = "W",
                                   .doc = "lanes of an interval of coordinates",
                                   .default_value = "32",
                                   .smallest = 1,
                                   .largest = 32};
constexpr ParamDoc bro_depth_param{.name = "q",
                                   .doc = "coordinates of a lane in an interval",
                                   .default_value = "32",
                                   .smallest = 1,
                                   .largest = most_bro_interval / 32};
constexpr ParamDoc bro_slots_param{
    .name = "K",
    .doc = "entries of each row in the slices; -1 takes the one-third rule of hyb",
    .default_value = "-1",
    .smallest = -1,
    .largest = 2147483647};
constexpr ParamDoc bro_break_even_param{
    .name = "break_even",
    .doc = "the rule also stops growing K when fewer rows than this are longer",
    .default_value = "0",
    .smallest = 0,
    .largest = 2147483647};

}  // namespace protean::formats
