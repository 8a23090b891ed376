#include "research/devices/across.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.hpp"

namespace protean::research {
namespace {

const MeasuredMatrix* find_matrix(const MachineTable& table, const MeasuredMatrix& like, Space space) {
  for (const MeasuredMatrix& one : table.matrices)
    if (one.space == space && one.matrix == like.matrix && one.rows == like.rows &&
        one.nonzeros == like.nonzeros)
      return &one;
  return nullptr;
}
const MeasuredFormat* find_format(const MeasuredMatrix& matrix, std::string_view format) {
  for (const MeasuredFormat& one : matrix.formats)
    if (one.format == format) return &one;
  return nullptr;
}

// f(matrix of a, the same matrix of b)
template <class F>
void for_common(const MachineTable& a, const MachineTable& b, Space space, F&& f) {
  for (const MeasuredMatrix& one : a.matrices)
    if (one.space == space)
      if (const MeasuredMatrix* other = find_matrix(b, one, space)) f(one, *other);
}

}  // namespace

double DeviceRelation::operator()(double reference_seconds) const {
  return std::clamp(fixed + slope * reference_seconds, least_ratio * reference_seconds,
                    most_ratio * reference_seconds);
}

std::optional<DeviceRelation> relate(const std::vector<std::pair<double, double>>& seconds) {
  if (seconds.size() < 3) return {};
  // Least squares of (fixed + slope r - t) / t.
  double ones = 0, r1 = 0, r2 = 0, t1 = 0, rt = 0;
  DeviceRelation result;
  result.least_ratio = std::numeric_limits<double>::infinity();
  for (const auto& [r, t] : seconds) {
    if (!(r > 0) || !(t > 0) || !std::isfinite(r) || !std::isfinite(t)) return {};
    const double inverse = 1 / t, relative = r / t;
    ones += inverse * inverse, r1 += inverse * relative, r2 += relative * relative, t1 += inverse,
        rt += relative;
    result.least_ratio = std::min(result.least_ratio, t / r);
    result.most_ratio = std::max(result.most_ratio, t / r);
  }
  const double determinant = ones * r2 - r1 * r1;
  // Matrices that all take the same time determine a ratio only.
  if (determinant > 1e-12 * ones * r2)
    result.fixed = (t1 * r2 - rt * r1) / determinant, result.slope = (ones * rt - r1 * t1) / determinant;
  else
    result.slope = rt / r2;
  result.matrices = static_cast<int>(seconds.size());
  return result;
}

AcrossDevices::AcrossDevices(const MachineTable& reference, const MachineTable& target, Space space) {
  struct Pairs {
    std::vector<std::pair<double, double>> product, conversion;
  };
  std::map<std::string, Pairs> pairs;
  for_common(reference, target, space,
             [&](const MeasuredMatrix& on_reference, const MeasuredMatrix& on_target) {
               for (const MeasuredFormat& one : on_reference.formats)
                 if (const MeasuredFormat* other = find_format(on_target, one.format)) {
                   Pairs& its = pairs[one.format];
                   its.product.emplace_back(one.product_seconds, other->product_seconds);
                   its.conversion.emplace_back(one.convert_seconds, other->convert_seconds);
                 }
             });
  for (const auto& [format, its] : pairs)
    if (Relations relations{relate(its.product), relate(its.conversion)}; relations.product)
      by_format_.emplace(format, relations);
  if (by_format_.empty())
    throw BadArgument(fmt::format(
        "the two tables have no format with times of three common matrices in {} memory; tune both devices "
        "with the same matrices",
        to_string(space)));
}

AcrossDevices::AcrossDevices(double bandwidth_ratio) : ratio_(bandwidth_ratio) {
  if (!(bandwidth_ratio > 0) || !std::isfinite(bandwidth_ratio))
    throw BadArgument(fmt::format("the ratio of the bandwidths is {}; it must be above 0", bandwidth_ratio));
}

const AcrossDevices::Relations* AcrossDevices::find(std::string_view format) const {
  const auto found = by_format_.find(format);
  return found == by_format_.end() ? nullptr : &found->second;
}
const DeviceRelation* AcrossDevices::relation(std::string_view format) const {
  const Relations* its = find(format);
  return its ? &*its->product : nullptr;
}
std::optional<double> AcrossDevices::product_seconds(std::string_view format, double on_reference) const {
  if (ratio_ > 0) return on_reference / ratio_;
  const Relations* its = find(format);
  return its ? std::optional((*its->product)(on_reference)) : std::nullopt;
}
std::optional<double> AcrossDevices::convert_seconds(std::string_view format, double on_reference) const {
  if (ratio_ > 0) return on_reference / ratio_;
  const Relations* its = find(format);
  return its && its->conversion ? std::optional((*its->conversion)(on_reference)) : std::nullopt;
}
std::vector<std::string> AcrossDevices::formats() const {
  std::vector<std::string> names;
  for (const auto& [format, relations] : by_format_) names.push_back(format);
  return names;
}

MachineTable AcrossDevices::predicted(const MachineTable& measured, Space space) const {
  MachineTable table;
  table.machine = fmt::format("predicted from {}", measured.machine);
  for (const MeasuredMatrix& matrix : measured.matrices) {
    if (matrix.space != space) continue;
    MeasuredMatrix there = matrix;
    there.formats.clear();
    for (const MeasuredFormat& format : matrix.formats) {
      const auto product = product_seconds(format.format, format.product_seconds),
                 conversion = convert_seconds(format.format, format.convert_seconds);
      if (product && conversion)
        there.formats.push_back({format.format, format.bytes, *product, *conversion});
    }
    // Predictions of the cost model are relative to csr.
    if (find_format(there, "csr")) table.matrices.push_back(std::move(there));
  }
  return table;
}

MachineTable others_than(const MachineTable& known, const MachineTable& table, Space space) {
  MachineTable others;
  others.machine = table.machine;
  for (const MeasuredMatrix& one : table.matrices)
    if (one.space == space && !find_matrix(known, one, space)) others.matrices.push_back(one);
  return others;
}

PredictionError prediction_error(const MachineTable& predicted, const MachineTable& measured, Space space,
                                 std::string_view format) {
  std::vector<double> errors;
  for_common(predicted, measured, space, [&](const MeasuredMatrix& one, const MeasuredMatrix& other) {
    const MeasuredFormat *a = find_format(one, format), *b = find_format(other, format);
    if (a && b && b->product_seconds > 0)
      errors.push_back(std::abs(a->product_seconds - b->product_seconds) / b->product_seconds);
  });
  PredictionError result{std::string(format), static_cast<int>(errors.size())};
  if (errors.empty()) return result;
  std::sort(errors.begin(), errors.end());
  for (const double error : errors) result.mean += error / static_cast<double>(errors.size());
  result.median = errors[errors.size() / 2], result.largest = errors.back();
  return result;
}

ChoiceLoss choice_loss(const MachineTable& by, const MachineTable& measured, Space space,
                       const std::vector<std::string>& formats) {
  ChoiceLoss loss;
  double logarithms = 0;
  for_common(by, measured, space, [&](const MeasuredMatrix& one, const MeasuredMatrix& other) {
    double best = std::numeric_limits<double>::infinity(), least = best, taken = 0;
    for (const std::string& format : formats) {
      const MeasuredFormat *predicted = find_format(one, format), *real = find_format(other, format);
      if (!predicted || !real) continue;
      best = std::min(best, real->product_seconds);
      if (predicted->product_seconds < least)
        least = predicted->product_seconds, taken = real->product_seconds;
    }
    if (!(taken > 0)) return;
    ++loss.matrices;
    logarithms += std::log(taken / best);
    loss.largest = std::max(loss.largest, taken / best);
  });
  if (loss.matrices > 0) loss.mean = std::exp(logarithms / loss.matrices);
  return loss;
}

}  // namespace protean::research
