#include "operators/narrow_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "core/float_range.hpp"
#include "core/parallel.hpp"
#include "core/simulated_device.hpp"
#include "core/transfer.hpp"
#include "operators/values_word.hpp"
#if defined(PROTEAN_HAVE_CUDA)
#include "core/device/check_matrix.hpp"
#endif

namespace protean::detail {
namespace {

#if defined(PROTEAN_HAVE_CUDA)
bool on_device(const Context& context, const CsrMatrix<double>& csr) {
  return csr.pattern.space == Space::device && !context.simulated();
}
#endif

// The first entry that the test finds; nonzeros() if there is none. anywhere: any entry that it finds.
template <class Test>
std::int64_t find(const Context& context, const CsrMatrix<double>& csr, bool anywhere, Test test) {
  const DeviceWork work(context);
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
#if defined(PROTEAN_HAVE_CUDA)
  const DeviceScope scope(context);
  if (on_device(context, csr)) return device::all_exact_in_float(context, csr.nonzeros(), csr.values);
#endif
  return find(context, csr, true, [](double value) { return !is_exact_in_float(value); }) == csr.nonzeros();
}

std::optional<std::string> beyond_float(const Context& context, const CsrMatrix<double>& csr) {
  const DeviceScope scope(context);
  const SparsityPattern& p = csr.pattern;
  const std::int64_t k = [&] {
#if defined(PROTEAN_HAVE_CUDA)
    if (on_device(context, csr)) return device::first_beyond_float(context, p.nonzeros, csr.values);
#endif
    return find(context, csr, false, is_beyond_float);
  }();
  if (k == p.nonzeros) return std::nullopt;
  const auto read = [&]<class Number>(const Number* from) {
    Number number{};
    if (p.space == Space::host) return *from;
    copy_bytes(context, &number, Space::host, from, p.space, sizeof number);
    return number;
  };
  const double value = read(csr.values + k);
  return fmt::format(
      "the entry in row {}, column {} is {}, which float cannot hold ({}; counted from 0); take values: double",
      row_of_entry(context, p, k), read(p.col + k), value,
      std::fabs(value) > 1 ? "its largest number is 3.4e38"
                           : "its smallest number with all digits is 1.2e-38");
}

std::size_t stored_value_bytes(const FormatParams& params, std::size_t value_bytes) {
  return values_word(params) == "float" ? sizeof(float) : value_bytes;
}

bool stores_floats(const FormatEntry& entry, const FormatParams& params, const Context& context,
                   const CsrMatrix<double>& csr) {
  const std::string_view word = values_word(params);
  if (word.empty() || word == "double") return false;
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
  if (!params.has(values_param.name) && has_float_values(find_kernel(entry, kernel, space)))
    params.set(std::string(values_param.name), "double");
  return params;
}

std::string no_values_param(const FormatEntry& entry, const Kernel* kernel) {
  return fmt::format(
      "format {}{} stores values in the precision of the vectors and has no parameter values; {} and presets of "
      "these have it, with kernel native; on a GPU csr does not",
      entry.id, kernel ? fmt::format(" (kernel {})", kernel->name) : std::string(),
      entry.float_formats.empty() ? "formats of the catalogue" : entry.float_formats);
}

}  // namespace protean::detail
