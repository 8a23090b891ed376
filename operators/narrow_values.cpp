#include "operators/narrow_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "core/error.hpp"
#include "core/parallel.hpp"
#include "operators/values_word.hpp"

namespace protean::detail {
namespace {

constexpr double least_normal = 0x1p-126;  // of float

bool is_exact(double value) noexcept {
  return static_cast<double>(static_cast<float>(value)) == value &&
         (value == 0 || (std::fabs(value) >= least_normal && std::isfinite(value)));
}
bool is_beyond(double value) noexcept {
  if (value == 0 || !std::isfinite(value)) return false;
  const double rounded = std::fabs(static_cast<double>(static_cast<float>(value)));
  return rounded < least_normal || std::isinf(rounded);
}

// The first entry that the test finds; nonzeros() if there is none. anywhere: any entry that it finds.
template <class Test>
std::int64_t find(const Context& context, const CsrMatrix<double>& csr, bool anywhere, Test test) {
  const std::int64_t size = csr.nonzeros();
  std::atomic<std::int64_t> first{size};
  parallel(useful_parts(context, size, 65536), [&](int part, int parts) {
    constexpr std::int64_t block = 2048;
    const Range range = even_range(size, part, parts);
    for (std::int64_t at = range.begin; at < range.end; at += block) {
      const std::int64_t known = first.load(std::memory_order_relaxed);
      if (known < (anywhere ? size : at)) return;
      const std::int64_t end = std::min(at + block, range.end);
      bool found = false;
      for (std::int64_t k = at; k < end; ++k) found |= test(csr.values[k]);
      if (!found) continue;
      std::int64_t here = at;
      while (!test(csr.values[here])) ++here;
      for (std::int64_t least = known; here < least && !first.compare_exchange_weak(least, here);) continue;
      return;
    }
  });
  return first.load(std::memory_order_relaxed);
}

}  // namespace

bool has_float_values(const Kernel& kernel) noexcept {
  return std::any_of(kernel.params.begin(), kernel.params.end(),
                     [](const ParamDoc& doc) { return doc.name == values_param.name; });
}

std::string_view values_word(const FormatParams& params) {
  if (!params.has(values_param.name)) return {};
  const std::string& word = params.word(values_param.name);
  return word == "auto" || word == "double" || word == "float" ? std::string_view(word) : std::string_view();
}

bool exact_in_float(const Context& context, const CsrMatrix<double>& csr) {
  return find(context, csr, true, [](double value) { return !is_exact(value); }) == csr.nonzeros();
}

std::optional<std::string> beyond_float(const Context& context, const CsrMatrix<double>& csr) {
  const std::int64_t k = find(context, csr, false, is_beyond);
  if (k == csr.nonzeros()) return std::nullopt;
  const double value = csr.values[k];
  return fmt::format(
      "the entry in row {}, column {} is {}, which float cannot hold ({}; counted from 0); take values: double",
      row_of_entry(csr.pattern.row_ptr, csr.rows(), k), csr.pattern.col[k], value,
      std::fabs(value) > 1 ? "its largest number is 3.4e38"
                           : "its smallest number with all digits is 1.2e-38");
}

std::size_t stored_value_bytes(const FormatParams& params, std::size_t value_bytes) {
  return values_word(params) == "float" ? sizeof(float) : value_bytes;
}

bool stores_floats(const FormatEntry& entry, const FormatParams& params, const Context& context,
                   const CsrMatrix<double>& csr) {
  const std::string_view word = values_word(params);
  if (word.empty() || word == "double") return false;  // no kernel of a device has it
  // Format csr computes with the arrays that it is given; values in float would be a copy of its own.
  if (word == "auto") return !entry.traits.uses_source && exact_in_float(context, csr);
  if (const auto why = beyond_float(context, csr)) throw FormatRefused(entry.id, *why);
  return true;
}
bool stores_floats(const FormatEntry& entry, const FormatParams& params, const Context&,
                   const CsrMatrix<float>&) {
  if (values_word(params) == "double")
    throw BadArgument(fmt::format(
        "values of format {} is double, but the matrix and its vectors are in float; give them in "
        "double, or leave values at auto",
        entry.id));
  return false;
}

FormatParams as_admitted(const FormatEntry& entry, std::string_view kernel, Space space,
                         FormatParams params) {
  if (space == Space::host && !params.has(values_param.name) &&
      has_float_values(find_kernel(entry, kernel, space)))
    params.set(std::string(values_param.name), "double");
  return params;
}

std::string no_values_param(const FormatEntry& entry, const Kernel* kernel) {
  return fmt::format(
      "format {}{} stores values in the precision of the vectors and has no parameter values; "
      "{} and presets of these have it on the host, with kernel native; on a GPU it is not built yet",
      entry.id, kernel ? fmt::format(" (kernel {})", kernel->name) : std::string(),
      entry.float_formats.empty() ? "formats of the catalogue" : entry.float_formats);
}

}  // namespace protean::detail
