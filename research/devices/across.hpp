// Times of products on one device from those on another, in the manner of Guo and Wang (Accurate cross-architecture
// performance modeling for sparse matrix-vector multiplication (SpMV) on GPUs, Concurrency and Computation: Practice
// and Experience 27(13), 2015, doi:10.1002/cpe.3217): a matrix is measured on a reference device only. What its kernels
// take on a target device follows from how benchmark matrices, which were measured on both, relate there.
//
// The survey and the abstract at hand do not give the form of the relation. Ours, for each format:
//
//   seconds on target = fixed + slope * seconds on reference, fitted so that relative errors are the least,
//
// kept within the smallest and the largest ratio that a benchmark matrix had. A line alone would be far off for the
// smallest matrices, whose time is the time of a launch, and for matrices that fit into the cache of one of the
// devices.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operators/policy/cost_model.hpp"

namespace protean::research {

struct DeviceRelation {
  double fixed = 0, slope = 1;
  double least_ratio = 0, most_ratio = 0;  // of target / reference
  int matrices = 0;                        // that it was fitted to

  double operator()(double reference_seconds) const;
};
// From pairs of seconds, on the reference and on the target. Empty for fewer than three pairs, or if one is not above
// 0.
std::optional<DeviceRelation> relate(const std::vector<std::pair<double, double>>& seconds);

class AcrossDevices {
 public:
  // From the matrices of `space` that both tables have, format by format. A kernel of a format (csr/cusparse) counts as
  // a separate format. Throws BadArgument if no format has three matrices in both.
  AcrossDevices(const MachineTable& reference, const MachineTable& target, Space space);
  // Without a benchmark on the target: all times by the ratio of the memory bandwidths, target over reference. Throws
  // BadArgument for a ratio that is not above 0.
  explicit AcrossDevices(double bandwidth_ratio);

  // Nothing for a format without a relation.
  std::optional<double> product_seconds(std::string_view format, double on_reference) const;
  std::optional<double> convert_seconds(std::string_view format, double on_reference) const;
  const DeviceRelation* relation(std::string_view format) const;  // of products; null: there is none
  std::vector<std::string> formats() const;

  // The table that the target would have measured, of the matrices and formats of `measured` on the reference whose
  // relation is known: a machine file with which selectors choose for the target.
  MachineTable predicted(const MachineTable& measured, Space space) const;

 private:
  struct Relations {
    std::optional<DeviceRelation> product, conversion;
  };
  const Relations* find(std::string_view format) const;
  std::map<std::string, Relations, std::less<>> by_format_;
  double ratio_ = 0;  // above 0: of bandwidths
};

// The matrices of `table` that `known` does not have: to judge predictions by matrices that they have not seen.
MachineTable others_than(const MachineTable& known, const MachineTable& table, Space space);

// How far predicted products are off, |predicted - measured| / measured, over the matrices of both tables.
struct PredictionError {
  std::string format;
  int matrices = 0;
  double mean = 0, median = 0, largest = 0;
};
PredictionError prediction_error(const MachineTable& predicted, const MachineTable& measured, Space space,
                                 std::string_view format);

// What choosing by a table costs: the geometric mean, over the matrices of both, of the measured time of the format
// that has the least time in `by`, over the least measured time. 1: the best is always chosen.
struct ChoiceLoss {
  int matrices = 0;
  double mean = 1, largest = 1;
};
ChoiceLoss choice_loss(const MachineTable& by, const MachineTable& measured, Space space,
                       const std::vector<std::string>& formats);

}  // namespace protean::research
