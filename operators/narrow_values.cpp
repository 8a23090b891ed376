#include "operators/narrow_values.hpp"

#include <fmt/format.h>
#include <hwy/targets.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "core/float_range.hpp"
#include "core/parallel.hpp"
#include "core/simulated_device.hpp"
#include "core/transfer.hpp"
#include "operators/value_table.hpp"
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

// A look-up takes time, and saves bytes. On a host eight values at a time come from two registers of AVX-512 if there
// are at most 16 (sell_packed_kernel.cpp): on a Xeon of that kind products of stencils from a million entries on took
// 0.66 to 0.77 times as long as with float, of 50,000 entries in the cache 1.06 to 1.09 times. Look-ups in memory took
// 1.6 to 1.72 times as long as float.
constexpr DictionaryRule on_host_with_avx512{16, 1 << 20};
// Not measured yet. {256, 1 << 16} would be: whenever there is a table and the product is longer than its launch.
constexpr DictionaryRule on_gpu{0, 0};

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

DictionaryRule dictionary_rule(const Context& context) {
  if (context.space() == Space::device) return on_gpu;
#if HWY_ARCH_X86
  if (hwy::SupportedTargets() & HWY_AVX3) return on_host_with_avx512;
#endif
  return {};
}

bool has_dictionary(const Kernel& kernel) noexcept {
  return std::any_of(kernel.params.begin(), kernel.params.end(), [](const ParamDoc& doc) {
    return doc.name == table_param.name && doc.choices == table_param.choices;
  });
}

std::string_view values_word(const FormatParams& params) {
  if (!params.has(values_param.name)) return {};
  const std::string& word = params.word(values_param.name);
  for (const std::string_view known : {"auto", "double", "float", "dictionary"})
    if (word == known) return known;
  return {};
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
  const std::string_view word = values_word(params);
  return word == "float" ? sizeof(float) : word == "dictionary" ? 1 : value_bytes;
}
std::size_t stored_value_bytes(const ValueStorage& storage, std::size_t value_bytes) {
  return storage.table ? 1 : storage.floats ? sizeof(float) : value_bytes;
}
std::size_t value_array_bytes(std::int64_t stored, std::size_t value_bytes) {
  return static_cast<std::size_t>(stored) * value_bytes + (value_bytes == 1 ? ValueTable::bytes : 0);
}

ValueStorage value_storage(const FormatEntry& entry, std::string_view kernel, const FormatParams& params,
                           const Context& context, const CsrMatrix<double>& csr) {
  const std::string_view word = values_word(params);
  if (word.empty() || word == "double") return {};
  if (word == "dictionary") {
    auto table = ValueTable::of(context, csr);
    if (!table)
      throw FormatRefused(
          entry.id,
          fmt::format("the matrix has {} distinct values, with the zero of padding, and a dictionary "
                      "has room for {}; take values: auto",
                      distinct_values(context, csr), ValueTable::most));
    return {.floats = false, .table = std::move(table)};
  }
  // Format csr computes with the arrays that it is given; other values would be a copy of its own.
  if (word == "auto" && entry.traits.uses_source) return {};
  if (word == "auto") {
    const DictionaryRule rule = dictionary_rule(context);
    if (rule.most_values > 0 && csr.nonzeros() >= rule.least_entries &&
        has_dictionary(find_kernel(entry, kernel, context.space())))
      if (auto table = ValueTable::of(context, csr, rule.most_values))
        return {.floats = false, .table = std::move(table)};
    return {.floats = exact_in_float(context, csr), .table = {}};
  }
  if (const auto why = beyond_float(context, csr)) throw FormatRefused(entry.id, *why);
  return {.floats = true, .table = {}};
}
ValueStorage value_storage(const FormatEntry& entry, std::string_view, const FormatParams& params,
                           const Context&, const CsrMatrix<float>&) {
  if (const std::string_view word = values_word(params); word == "double" || word == "dictionary")
    throw BadArgument(
        fmt::format("values of format {} is {}, but the matrix and its vectors are in float; give them in "
                    "double, or leave values at auto",
                    entry.id, word));
  return {};
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
