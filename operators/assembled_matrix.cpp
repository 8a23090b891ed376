#include "operators/assembled_matrix.hpp"
#include "operators/kernel_loading.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <limits>
#include <utility>
#include <vector>

#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "core/memory.hpp"
#include "core/simulated_device.hpp"
#include "core/words.hpp"
#include "operators/kernel_admission.hpp"
#include "operators/measured_params.hpp"
#include "operators/narrow_values.hpp"
#include "operators/value_table.hpp"
#include "operators/values_word.hpp"
#if defined(PROTEAN_HAVE_CUDA)
#include "core/device/copy.hpp"
#endif

namespace protean {
namespace {

// Bytes. Reading the system's files for the memory left takes longer than building a smaller matrix.
constexpr std::size_t small_matrix = std::size_t{1} << 20;

bool parse_integer(std::string_view text, std::int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

void check_param(const FormatEntry& entry, const ParamDoc& doc, std::string_view value) {
  if (!doc.choices.empty()) {
    const auto words = split(doc.choices, '|');
    if (words.back() == "...") return;  // examples: the format reads the text itself
    for (std::string_view word : words)
      if (word == value) return;
    throw BadArgument(fmt::format("parameter {} of format {} is '{}'; it must be one of {}.{}", doc.name,
                                  entry.id, value, fmt::join(words, ", "),
                                  detail::did_you_mean(value, words)));
  }
  std::int64_t number = 0;
  if (!parse_integer(value, number))
    throw BadArgument(
        fmt::format("parameter {} of format {} is '{}'; it must be an integer", doc.name, entry.id, value));
  if (number < doc.smallest || number > doc.largest)
    throw BadArgument(fmt::format("parameter {} of format {} is {}; it must be from {} to {}", doc.name,
                                  entry.id, number, doc.smallest, doc.largest));
}

void require_deterministic(const FormatEntry& entry, const Kernel& kernel, Space space) {
  if (has_deterministic_mode(entry, kernel, space)) return;
  std::vector<std::string_view> others;
  for (const Kernel& other : kernels_in(entry, space))
    if (other.unavailable.empty() && has_deterministic_mode(entry, other, space))
      others.push_back(other.name);
  throw FormatRefused(
      entry.id,
      fmt::format(
          "kernel {} {}, which deterministic mode forbids; use {}, or switch deterministic mode off",
          kernel.name,
          space == Space::host ? "adds the entries of a row in its own order" : "adds in no fixed order",
          others.empty() ? std::string("another format")
                         : fmt::format("kernel {}", fmt::join(others, " or "))));
}

// The name of a kernel that has this parameter; empty when none has.
std::string_view owner_of_param(const FormatEntry& entry, std::string_view name) {
  for (const Space space : {Space::host, Space::device})
    for (const Kernel& kernel : kernels_in(entry, space))
      for (const ParamDoc& doc : kernel.params)
        if (doc.name == name) return kernel.name;
  return {};
}

bool is_param(std::span<const ParamDoc> params, std::string_view name) {
  return std::any_of(params.begin(), params.end(), [&](const ParamDoc& doc) { return doc.name == name; });
}

// The complete parameters, including the ones that a preset chooses for this matrix, as far as the format or this
// kernel has them.
FormatParams params_for(const FormatEntry& entry, const Kernel& kernel, const Context& context,
                        const SparsityPattern& pattern, FormatParams complete) {
  if (detail::any_measured(complete))
    complete = detail::without_measured(settable_params(entry, &kernel), std::move(complete));
  if (!entry.preset || !entry.preset->choose) return complete;
  const auto used = [&](std::string_view name) {
    return is_param(kernel.params, name) || is_param(entry.base_params, name);
  };
  if (std::any_of(entry.preset->chosen.begin(), entry.preset->chosen.end(), used)) {
    const detail::DeviceScope scope(context);
    entry.preset->choose(context, pattern, complete);
  }
  return complete;
}

// For the parameters of params_for().
Admission admission_of(const FormatEntry& entry, const Kernel& kernel, const Context& context,
                       const SparsityPattern& pattern, const FormatParams& params, std::size_t value_bytes) {
  const detail::DeviceScope scope(context);
  const Admit of_format = context.space() == Space::device ? entry.device->admit : entry.admit;
  const Admit rule = kernel.admit ? kernel.admit : of_format;
  return rule(context, pattern, params, value_bytes);
}

}  // namespace

Admission admit(const FormatEntry& entry, const Context& context, const SparsityPattern& pattern,
                const FormatParams& params, std::size_t value_bytes) {
  if (context.space() == Space::host)
    if (std::string why = detail::why_not_on_host(entry); !why.empty())
      return Admission::refuse(std::move(why));
  const Kernel& kernel = find_kernel(entry, {}, context.space());
  return admission_of(entry, kernel, context, pattern,
                      params_for(entry, kernel, context, pattern, resolve_params(entry, params)),
                      detail::stored_value_bytes(params, value_bytes));
}

Admission detail::admit_kernel(const FormatEntry& entry, const Context& context,
                               const SparsityPattern& pattern, const FormatParams& params,
                               std::size_t value_bytes, std::string_view name) {
  const Kernel& kernel = find_kernel(entry, name, context.space());
  if (entry.traits.square_only && pattern.rows != pattern.cols)
    return Admission::refuse(fmt::format("the matrix is {} x {}; this format holds square matrices only",
                                         pattern.rows, pattern.cols));
  return admission_of(entry, kernel, context, pattern,
                      params_for(entry, kernel, context, pattern, resolve_params(entry, params, &kernel)),
                      detail::stored_value_bytes(params, value_bytes));
}

std::string detail::why_not_on_host(const FormatEntry& entry) {
  if (!entry.kernels.empty() || !entry.admit) return {};
  return entry.admit(*Context::host(1), SparsityPattern(), FormatParams(), sizeof(double)).reason;
}

std::int64_t FormatParams::integer(std::string_view name) const {
  std::int64_t value = 0;
  const std::string& text = word(name);
  if (!parse_integer(text, value))
    throw BadArgument(fmt::format("parameter {} is '{}', not an integer", name, text));
  return value;
}

const std::string& FormatParams::word(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) throw BadArgument(fmt::format("there is no parameter {}", name));
  return found->second;
}

namespace {

const FixedParam* fixed_param(const FormatEntry& entry, std::string_view name) {
  if (!entry.preset) return nullptr;
  for (const FixedParam& one : entry.preset->fixed)
    if (one.name == name) return &one;
  return nullptr;
}

// Throws when `name` is not one of the parameters, or is a fixed one with another value.
void check_name(const FormatEntry& entry, std::span<const ParamDoc> docs, const Kernel* kernel,
                const std::string& name, const std::string& value) {
  if (const FixedParam* const fixed = fixed_param(entry, name)) {
    if (value == fixed->value) return;
    throw BadArgument(fmt::format("parameter {} of format {} is always {}; format {} takes other values",
                                  name, entry.id, fixed->value, entry.base));
  }
  std::vector<std::string_view> names;
  for (const ParamDoc& doc : docs) names.push_back(doc.name);
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  if (name == values_param.name) throw BadArgument(detail::no_values_param(entry, kernel));
  if (const std::string_view owner = owner_of_param(entry, name); kernel && !owner.empty())
    throw BadArgument(fmt::format("parameter {} of format {} belongs to kernel {}; the kernel is {}", name,
                                  entry.id, owner, kernel->name));
  throw BadArgument(
      fmt::format("format {} has no parameter '{}'; it has {}.{}", entry.id, name,
                  names.empty() ? std::string("none") : fmt::format("{}", fmt::join(names, ", ")),
                  detail::did_you_mean(name, names)));
}

}  // namespace

std::vector<ParamDoc> settable_params(const FormatEntry& entry, const Kernel* kernel) {
  std::vector<ParamDoc> docs(entry.params.begin(), entry.params.end());
  const auto add = [&](const Kernel& one) {
    for (const ParamDoc& doc : one.params) {
      const bool chosen = entry.preset && std::find(entry.preset->chosen.begin(), entry.preset->chosen.end(),
                                                    doc.name) != entry.preset->chosen.end();
      if (!chosen && !fixed_param(entry, doc.name) && !is_param(docs, doc.name)) docs.push_back(doc);
    }
  };
  if (kernel) {
    add(*kernel);
    return docs;
  }
  for (const Space space : {Space::host, Space::device})
    for (const Kernel& one : kernels_in(entry, space)) add(one);
  return docs;
}

FormatParams resolve_params(const FormatEntry& entry, const FormatParams& given, const Kernel* kernel) {
  const std::vector<ParamDoc> docs = settable_params(entry, kernel);
  for (const auto& [name, value] : given.all()) check_name(entry, docs, kernel, name, value);
  FormatParams complete;
  for (const ParamDoc& doc : docs) {
    const std::string value = given.has(doc.name) ? given.word(doc.name) : std::string(doc.default_value);
    check_param(entry, doc, value);
    if (kernel || is_param(entry.params, doc.name)) complete.set(std::string(doc.name), value);
  }
  if (entry.preset)
    for (const FixedParam& one : entry.preset->fixed)
      if ((kernel && is_param(kernel->params, one.name)) || is_param(entry.base_params, one.name))
        complete.set(std::string(one.name), std::string(one.value));
  return complete;
}

std::span<const Kernel> kernels_in(const FormatEntry& entry, Space space) noexcept {
  if (space == Space::host) return entry.kernels;
  return entry.device ? entry.device->kernels : std::span<const Kernel>();
}

bool has_deterministic_mode(const FormatEntry& entry, const Kernel& kernel, Space space) noexcept {
  return space == Space::host ? kernel.ordered : entry.traits.deterministic && kernel.deterministic;
}

const Kernel& find_kernel(const FormatEntry& entry, std::string_view name, Space space) {
  const std::span<const Kernel> kernels = kernels_in(entry, space);
  if (kernels.empty() && space == Space::host)
    if (const std::string why = detail::why_not_on_host(entry); !why.empty())
      throw NotAvailable(fmt::format("format {} has no kernel for host memory: {}", entry.id, why));
  if (kernels.empty())
    throw NotAvailable(
        fmt::format("format {} has no kernel for {} memory in this build", entry.id, to_string(space)));
  if (name.empty()) return kernels.front();
  std::vector<std::string_view> names;
  for (const Kernel& kernel : kernels) {
    if (kernel.name == name && kernel.unavailable.empty()) return kernel;
    if (kernel.name == name)
      throw NotAvailable(fmt::format("kernel {} of format {} is not in this build: {}", kernel.name, entry.id,
                                     kernel.unavailable));
    names.push_back(kernel.name);
  }
  for (const Kernel& kernel : kernels_in(entry, space == Space::host ? Space::device : Space::host))
    if (kernel.name == name)
      throw NotAvailable(fmt::format("kernel {} of format {} does not run in {} memory; there are {}", name,
                                     entry.id, to_string(space), fmt::join(names, ", ")));
  throw BadArgument(fmt::format("format {} has no kernel '{}'; it has {}.{}", entry.id, name,
                                fmt::join(names, ", "), detail::did_you_mean(name, names)));
}

// Everything except the pattern.
template <class T>
void AssembledMatrix<T>::check_values(const CsrMatrix<T>& csr) const {
  if (csr.rows() != this->rows() || csr.cols() != this->cols() || csr.nonzeros() != nonzeros_)
    throw ShapeMismatch(
        fmt::format("new values for a {} x {} matrix of {} entries are given by a {} x {} matrix of {}; the "
                    "pattern must be the same (build a new matrix otherwise)",
                    this->rows(), this->cols(), nonzeros_, csr.rows(), csr.cols(), csr.nonzeros()));
  if (csr.pattern.space != this->context()->space())
    throw WrongSpace(
        fmt::format("new values lie in {} memory, the matrix in {} memory; upload() or download() them",
                    to_string(csr.pattern.space), to_string(this->context()->space())));
  if (nonzeros_ > 0 && !csr.values) throw BadArgument("the new values are a null pointer");
  detail::require_device_memory(*this->context(), csr.values, "the new values");
  detail::accept_values(csr);
}

template <class T>
void AssembledMatrix<T>::require_same_pattern(const CsrMatrix<T>& csr) const {
  check_values(csr);
  if (!entry_.traits.uses_source) return pattern_.require(*this->context(), csr.pattern);
  const SparsityPattern used = arrays_in_use().pattern;
  if (!detail::same_arrays(used, csr.pattern))
    PatternMark(*this->context(), used).require(*this->context(), csr.pattern);
}

template <class T>
void AssembledMatrix<T>::update_values(const CsrMatrix<T>& csr) {
  require_same_pattern(csr);
  take_values(csr);
}

template <class T>
void AssembledMatrix<T>::update_values(const CsrMatrix<T>& csr, SamePattern) {
  check_values(csr);
  take_values(csr);
}

template <class T>
void AssembledMatrix<T>::take_values(const CsrMatrix<T>& csr) {
  take_values_in(csr, storage_for(csr));
}

template <class T>
void AssembledMatrix<T>::take_values_in(const CsrMatrix<T>& csr, detail::ValueStorage storage) {
  const detail::DeviceScope scope(*this->context());
  transposed_.reset(), transposed_bytes_ = 0;
  auto* const coded = dynamic_cast<detail::HasValueTable*>(this);
  const auto exchange = [&]() noexcept {
    std::swap(float_values_, storage.floats);
    if (coded) coded->table_.swap(storage.table);
  };
  exchange();
  try {
    do_update_values(csr);
  } catch (...) {
    exchange();
    throw;
  }
  note_rounding(csr);
  ++revision_.values;
}

template <class T>
detail::ValueStorage AssembledMatrix<T>::storage_for(const CsrMatrix<T>& csr) const {
  if (in_full_) return {};
  try {
    return detail::value_storage(entry_, kernel_, params_, *this->context(), csr);
  } catch (const FormatRefused& error) { throw BadMatrix(error.reason()); }
}

template <class T>
void AssembledMatrix<T>::note_rounding(const CsrMatrix<T>& csr) {
  rounds_values_ = false;
  if constexpr (sizeof(T) == 8)
    rounds_values_ = float_values_ && detail::values_word(params_) == "float" &&
                     !detail::exact_in_float(*this->context(), csr);
}

template <class T>
void AssembledMatrix<T>::store_in_full(const CsrMatrix<T>& csr) {
  check_values(csr);
  if (float_values_) take_values_in(csr, {});
  in_full_ = true;
}

template <class T>
bool AssembledMatrix<T>::has_value_table() const noexcept {
  const auto* const coded = dynamic_cast<const detail::HasValueTable*>(this);
  return coded && coded->value_table();
}

template <class T>
std::string_view AssembledMatrix<T>::stored_values() const noexcept {
  if (sizeof(T) == 4) return "float";
  if (has_value_table()) return "dictionary";
  return !float_values_ ? "double" : rounds_values_ ? "float (rounded)" : "float (exact)";
}

template <class T>
std::string_view AssembledMatrix<T>::no_transposed_product() const noexcept {
  if (is_own_transpose() || entry_.transposed) return {};
  return "its format names none in which to keep the transpose (FormatEntry::transposed); use a format of the "
         "catalogue";
}

// A^T with the present values. It stays until there are new ones, which nobody sets while products are computed.
template <class T>
const AssembledMatrix<T>& AssembledMatrix<T>::transposed() const {
  const std::lock_guard lock(transposed_mutex_);
  if (transposed_) return *transposed_;
  const ContextPtr& context = this->context();
  const detail::SimulatedDevice* const simulated =
      context->space() == Space::device ? context->simulated() : nullptr;
  const FormatEntry& format = simulated ? simulated->format(entry_.transposed->id) : *entry_.transposed;
  CsrMatrix<T> rows = own_transpose();
  const bool shared = rows.pattern.row_ptr.p32 || rows.pattern.row_ptr.p64;
  if (!shared) rows = transpose(context, to_csr());
  transposed_ = make_matrix(format, rows, context);
  transposed_bytes_ = transposed_->bytes() - (shared ? std::min(transposed_->bytes(), rows.bytes()) : 0);
  return *transposed_;
}

template <class T>
void AssembledMatrix<T>::prepare_transposed() const {
  if (!is_own_transpose()) (void)transposed();
}

template <class T>
std::size_t AssembledMatrix<T>::transposed_bytes() const noexcept {
  const std::lock_guard lock(transposed_mutex_);
  return transposed_bytes_;
}

template <class T>
void AssembledMatrix<T>::do_apply_transposed(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const {
  if (is_own_transpose()) return this->do_apply(alpha, x, beta, y);
  transposed().do_apply(alpha, x, beta, y);
}

std::size_t available_bytes([[maybe_unused]] const Context& context) {
#if defined(PROTEAN_HAVE_CUDA)
  if (context.space() == Space::device && !context.simulated()) return device::free_bytes(context);
#endif
  return available_memory();
}

template <class T>
std::unique_ptr<AssembledMatrix<T>> make_matrix(const FormatEntry& entry, const CsrMatrix<T>& csr,
                                                const ContextPtr& context, const FormatParams& params,
                                                std::string_view kernel_name, std::size_t most_bytes) {
  if (context->space() == Space::host)
    if (const std::string why = detail::why_not_on_host(entry); !why.empty())
      throw FormatRefused(entry.id, why);
  const Kernel& kernel = find_kernel(entry, kernel_name, context->space());
  const FormatParams asked = resolve_params(entry, params, &kernel);
  const detail::DeviceScope scope(*context);
  detail::require_arrays(csr);
  check_arrays(csr);
  if (context->space() == Space::device && entry.device->simulated != (context->simulated() != nullptr))
    throw NotAvailable(fmt::format("format {} has kernels for {} devices only", entry.id,
                                   entry.device->simulated ? "simulated" : "real"));
  if (context->deterministic()) require_deterministic(entry, kernel, context->space());
  if (entry.traits.square_only && csr.rows() != csr.cols())
    throw FormatRefused(entry.id, fmt::format("the matrix is {} x {}; this format holds square matrices only",
                                              csr.rows(), csr.cols()));
  if (csr.pattern.space != context->space())
    throw WrongSpace(
        fmt::format("the matrix lies in {} memory, its format {} is to lie in {} memory; upload() or "
                    "download() it first",
                    to_string(csr.pattern.space), entry.id, to_string(context->space())));
  if (context->space() == Space::host && (!entry.traits.unsorted_rows || context->deterministic()) &&
      !is_sorted(*context, csr.pattern))
    throw BadMatrix(fmt::format(
        "columns do not ascend in all rows, as {} asks for; sorted_copy() sorts{}",
        context->deterministic() ? "deterministic mode" : fmt::format("format {}", entry.id),
        context->deterministic() ? "" : ", and format csr computes with rows in any order on the host"));
  detail::require_device_memory(*context, csr.pattern.row_ptr.p32, "the matrix' row_ptr");
  detail::require_device_memory(*context, csr.pattern.row_ptr.p64, "the matrix' row_ptr");
  detail::require_device_memory(*context, csr.pattern.col, "the matrix' col");
  detail::require_device_memory(*context, csr.values, "the matrix' values");
  if (detail::any_measured(asked) && context->deterministic() && context->space() == Space::device)
    throw FormatRefused(
        entry.id,
        "a parameter is `measured`: time would choose the order of the sums, which deterministic mode "
        "forbids on a device; give the parameter a value");
  if (detail::any_measured(asked))
    return make_matrix(entry, csr, context,
                       detail::measured_params(entry, kernel.name, csr, context, asked, most_bytes,
                                               detail::clock_of(*context)),
                       kernel.name, most_bytes);
  const FormatParams complete = params_for(entry, kernel, *context, csr.pattern, asked);
  const detail::ValueStorage storage = detail::value_storage(entry, kernel.name, complete, *context, csr);
  const Admission admission = admission_of(entry, kernel, *context, csr.pattern, complete,
                                           detail::stored_value_bytes(storage, sizeof(T)));
  if (!admission.ok) throw FormatRefused(entry.id, admission.reason, admission.bytes);
  // The arrays that it shares with its source are allocated already.
  const std::size_t shared =
      entry.traits.uses_source
          ? std::min(admission.bytes, storage.floats || storage.table ? csr.pattern.bytes() : csr.bytes())
          : 0;
  const std::size_t needed = admission.bytes - shared;
  const std::size_t most = most_bytes > 0          ? most_bytes
                           : needed < small_matrix ? unlimited_memory
                                                   : available_bytes(*context);
  if (needed > most)
    throw OutOfMemory(fmt::format("format {} needs {} for this matrix; {} {}", entry.id, human_bytes(needed),
                                  human_bytes(most), most_bytes > 0 ? "may be used for it" : "are free"),
                      needed);
  const BuildRequest<T> request{csr,       complete, context,        entry,        kernel.name,
                                admission, asked,    storage.floats, storage.table};
  std::unique_ptr<AssembledMatrix<T>> made;
  if constexpr (sizeof(T) == 8)
    made = kernel.make_f64(request);
  else
    made = kernel.make_f32(request);
  detail::kernels_are_loaded(*context, entry, sizeof(T));
  return made;
}

#define PROTEAN_INSTANTIATE(T)                                                                         \
  template class AssembledMatrix<T>;                                                                   \
  template std::unique_ptr<AssembledMatrix<T>> make_matrix<T>(const FormatEntry&, const CsrMatrix<T>&, \
                                                              const ContextPtr&, const FormatParams&,  \
                                                              std::string_view, std::size_t);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean
