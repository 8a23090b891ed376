#include "formats/survey.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <span>

#include "core/background.hpp"
#include "core/buffer.hpp"
#include "core/transfer.hpp"
#include "formats/catalogue.hpp"
#include "formats/engines/rows/rows.hpp"
#include "operators/kernel_loading.hpp"
#include "operators/narrow_values.hpp"

namespace protean {
namespace {

// The first row of a sampled block is a multiple of `alignment`, so of slice heights and block sizes. Its
// number of rows is a multiple of `grain`.
constexpr std::int64_t alignment = 192, grain = 96;

constexpr std::int64_t sampled_entries = 3072;
constexpr int sampled_blocks = 4;

struct Owner {
  Buffer<std::int32_t> row_ptr, col;
};

using Block = std::pair<std::int64_t, std::int64_t>;  // first row, end

// Ascending and disjoint blocks of rows; none if the whole pattern is not much larger than the sample.
std::vector<Block> choose_blocks(const SparsityPattern& pattern, std::int64_t entries, int blocks) {
  if (blocks < 1 || entries < 1) throw BadArgument("a sample needs at least one block and one entry");
  // Fewer blocks if rows are long.
  blocks = static_cast<int>(
      std::clamp<std::int64_t>(entries * pattern.rows / (grain * std::max<std::int64_t>(pattern.nonzeros, 1)),
                               std::min(blocks, 3), blocks));
  if (pattern.nonzeros <= 2 * entries || pattern.rows <= 2 * alignment * blocks) return {};
  const std::int64_t per_row = std::max<std::int64_t>(1, pattern.nonzeros / pattern.rows);
  const std::int64_t height = std::max<std::int64_t>(1, entries / (per_row * blocks * grain)) * grain;
  std::vector<Block> chosen;
  // Each block is in the middle of its part: the first and the last rows often belong to a boundary.
  for (int b = 0; b < blocks; ++b) {
    const std::int64_t row =
        std::max<std::int64_t>(0, (2 * b + 1) * pattern.rows / (2 * blocks) - height / 2);
    const std::int64_t begin = row / alignment * alignment;
    chosen.push_back({begin, std::min(begin + height, pattern.rows)});
  }
  for (std::size_t i = 1; i < chosen.size(); ++i)
    chosen[i].first = std::max(chosen[i].first, chosen[i - 1].second);
  std::erase_if(chosen, [](const Block& block) { return block.first >= block.second; });
  return chosen;
}

std::int64_t longest_of(const SparsityPattern& pattern) {
  std::int64_t longest = 0;
  for (std::int64_t i = 0; i < pattern.rows; ++i) longest = std::max(longest, pattern.row_length(i));
  return longest;
}

// Adds the block that contains this row, without rows that other blocks have.
void add_block(std::vector<Block>& blocks, std::int64_t row, std::int64_t rows) {
  const std::int64_t begin = row / grain * grain;
  blocks.push_back({begin, std::min(begin + grain, rows)});
  std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) { return a.first < b.first; });
  for (std::size_t i = 1; i < blocks.size(); ++i)
    blocks[i].first = std::max(blocks[i].first, blocks[i - 1].second);
  std::erase_if(blocks, [](const Block& block) { return block.first >= block.second; });
}

// Why formats that give each row to one thread are refused: because of one very long row. Nothing if they are
// not. On a device all wait for its thread; the two thresholds there are estimates. On a host its thread has other
// rows, too, so only a row that is much of the whole work is too long: sell-packed and bcsr were up to 1.5 times as
// fast as csr on matrices whose longest row is 100 to 1,000 times as long as the mean (docs/results/choice.md).
std::optional<std::string> refusal_of_whole_rows(const SparsityPattern& pattern, std::int64_t longest,
                                                 Space space) {
  constexpr std::int64_t share_on_host = 16;
  if (pattern.rows == 0) return {};
  const double mean = static_cast<double>(pattern.nonzeros) / static_cast<double>(pattern.rows);
  if (longest <= 1000 || static_cast<double>(longest) <= 50 * mean) return {};
  if (space == Space::host && longest <= pattern.nonzeros / share_on_host) return {};
  return fmt::format(
      "the longest row has {} entries, the mean is {:.1f}; take a format that shares a row between threads, "
      "such as csr",
      longest, mean);
}

// The rows of the blocks as one pattern, each block shifted along its diagonal. row_of(i) returns the columns
// of row i. Nothing if 32-bit indices are not enough.
template <class Row>
std::optional<SparsityPattern> move_together(const ContextPtr& context, const std::vector<Block>& blocks,
                                             const Row& row_of) {
  std::int64_t rows = 0, nonzeros = 0;
  std::int64_t lowest = 0, highest = 0;  // of shifted columns
  bool first = true;
  for (const auto& [begin, end] : blocks) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto row = row_of(i);
      if (row.empty()) continue;
      const std::int64_t shift = rows - begin;
      if (first) lowest = row.front() + shift, highest = row.back() + shift, first = false;
      lowest = std::min(lowest, row.front() + shift), highest = std::max(highest, row.back() + shift);
      nonzeros += std::ssize(row);
    }
    rows += end - begin;
  }
  // The first column is aligned, too, so that blocks of columns stay blocks.
  lowest = (lowest - (lowest < 0 ? alignment - 1 : 0)) / alignment * alignment;
  const std::int64_t cols = highest - lowest + 1;
  if (cols >= std::int64_t{1} << 31 || nonzeros >= std::int64_t{1} << 31) return {};

  auto owner = std::make_shared<Owner>(
      Owner{Buffer<std::int32_t>(context, rows + 1), Buffer<std::int32_t>(context, nonzeros)});
  std::int64_t row = 0, at = 0;
  owner->row_ptr.data()[0] = 0;
  for (const auto& [begin, end] : blocks) {
    const std::int64_t shift = row - begin - lowest;
    for (std::int64_t i = begin; i < end; ++i) {
      for (const std::int32_t col : row_of(i))
        owner->col.data()[at++] = static_cast<std::int32_t>(col + shift);
      owner->row_ptr.data()[++row] = static_cast<std::int32_t>(at);
    }
  }
  SparsityPattern pattern;
  pattern.rows = rows, pattern.cols = cols, pattern.nonzeros = nonzeros;
  pattern.row_ptr.p32 = owner->row_ptr.data(), pattern.col = owner->col.data();
  pattern.owner = std::move(owner);
  return pattern;
}

double csr_bytes(const SparsityPattern& p, std::size_t value_bytes) {
  return static_cast<double>(p.bytes()) + static_cast<double>(p.nonzeros) * static_cast<double>(value_bytes);
}

// A pattern in the memory of a context, from which rows are taken. Of one in device memory only these rows are copied.
class Source {
 public:
  Source(const Context& context, const SparsityPattern& pattern) : context_(context), pattern_(pattern) {}

  const SparsityPattern& pattern() const noexcept { return pattern_; }  // its sizes, in any space

  // The rows of these blocks, or the whole pattern if there are none or their columns need more than 32 bits.
  PatternSample take(const ContextPtr& host, const std::vector<Block>& blocks) const {
    std::optional<SparsityPattern> together;
    if (!blocks.empty())
      together = pattern_.space == Space::host ? here(host, blocks) : fetched(host, blocks);
    if (!together) return {whole(host), 1};
    PatternSample sample;
    sample.pattern = std::move(*together);
    sample.share = static_cast<double>(sample.pattern.nonzeros) / static_cast<double>(pattern_.nonzeros);
    return sample;
  }

  std::int64_t longest_row() const { return formats::longest_row(context_, pattern_); }
  std::int64_t row_of_length(std::int64_t entries) const {
    return formats::row_of_length(context_, pattern_, entries);
  }

 private:
  SparsityPattern whole(const ContextPtr& host) const {
    return pattern_.space == Space::host ? pattern_ : detail::download_pattern(host, context_, pattern_);
  }
  std::optional<SparsityPattern> here(const ContextPtr& host, const std::vector<Block>& blocks) const {
    return move_together(host, blocks, [&](std::int64_t i) { return pattern_.row(i); });
  }
  // Few rows, in one copy that uses no pinned memory, which would take milliseconds to make and hold up the solve.
  std::optional<SparsityPattern> fetched(const ContextPtr& host, const std::vector<Block>& blocks) const {
    detail::checkpoint();
    std::vector<std::int32_t> rows;
    for (const auto& [begin, end] : blocks)
      for (std::int64_t i = begin; i < end; ++i) rows.push_back(static_cast<std::int32_t>(i));
    detail::RowsRead read;
    detail::read_rows(context_, pattern_, rows, read);
    return move_together(host, blocks, [&](std::int64_t i) {
      std::size_t before = 0, b = 0;
      for (; i >= blocks[b].second; ++b)
        before += static_cast<std::size_t>(blocks[b].second - blocks[b].first);
      const std::size_t row = before + static_cast<std::size_t>(i - blocks[b].first);
      return std::span<const std::int32_t>(read.columns.data() + read.begin[row],
                                           static_cast<std::size_t>(read.begin[row + 1] - read.begin[row]));
    });
  }

  const Context& context_;
  const SparsityPattern& pattern_;
};

// The samples of one matrix that are given to admit().
struct Samples {
  PatternSample rows;
  // One block of `rows`, for formats whose admit() takes long: admit() of the block formats takes ten times as long as
  // any other, since it tries all block shapes. Empty: use `rows`.
  std::optional<PatternSample> one_block = {};
  // `rows` and the longest row, if that is longer_by times as long as the longest of `rows`.
  std::optional<PatternSample> with_longest = {};
  double longer_by = 1;
  double bytes = 0;  // of the whole matrix in csr
  // Of a format that keeps one half and the diagonal of a symmetric matrix whose diagonal has no gaps. Set if the
  // matrix is known to be symmetric. Entries and rows are known, so no sample is needed.
  std::optional<std::size_t> half_bytes = {};
  // Set if formats that give each row to one thread are refused: the reason.
  std::optional<std::string> whole_rows_refused = {};
};

// Asks the admit() of formats about the samples of one matrix.
class Survey {
 public:
  Survey(ContextPtr one, const Samples& samples, Space space, detail::ValueBytes value_bytes)
      : one_(std::move(one)), samples_(samples), space_(space), value_bytes_(value_bytes) {}

  // The bytes returned are scaled to the whole matrix.
  Admission ask(const FormatEntry& entry) const {
    if (entry.traits.admits_slowly && samples_.one_block) return ask_about(entry, *samples_.one_block);
    if (entry.traits.needs_alike_rows && samples_.one_block) {
      // If neighbouring rows share too few diagonals, rows far apart share even fewer.
      Admission admission = ask_about(entry, *samples_.one_block);
      if (!admission.ok) return admission;
    }
    Admission own = ask_about(entry, samples_.rows);
    if (own.ok && entry.traits.grows_with_longest && samples_.with_longest) {
      Admission more = ask_about(entry, *samples_.with_longest);
      // Do the bytes grow with the longest row (all rows are padded), or only by one slice?
      if (!more.ok ||
          static_cast<double>(more.bytes) > 0.9 * samples_.longer_by * static_cast<double>(own.bytes))
        return more;
    }
    return own;
  }

  // Bytes that the values take less than in the precision of the vectors, as far as the format stores them in float;
  // make_matrix() decides in the same way. `admission` comes from ask().
  std::size_t saved(const FormatEntry& entry, const Admission& admission) const {
    return static_cast<std::size_t>(admission.stored_values) *
           (value_bytes_.of_vectors - stored_bytes(entry));
  }

  // The target with its values in float. Nothing if the format with its first kernel has none, or has them already.
  std::optional<SwitchTarget> in_float(SwitchTarget target, const Admission& admission) const {
    const FormatEntry& entry = *target.spec.entry;
    if (!value_bytes_.offer_floats || !target.spec.kernel.empty() || !admission.ok || !may_be_narrow(entry) ||
        stored_bytes(entry) != value_bytes_.of_vectors)
      return {};
    target.spec.params.set(std::string(values_param.name), "float");
    target.saved_bytes = sizeof(float) * static_cast<std::size_t>(admission.stored_values);
    target.bytes = admission.bytes - std::min(admission.bytes, target.saved_bytes);
    target.rounds = !value_bytes_.exact_in_float;
    target.admitted = value_bytes_.why_no_floats.empty(), target.why = value_bytes_.why_no_floats;
    return target;
  }

  // Seconds that one thread needs for admit() of the whole matrix, after ask() about this format. Of two runs the
  // shorter one counts: in the first, code and tables may not be in the cache. ask() was one, if it took these rows.
  double plan_seconds(const FormatEntry& entry) const {
    double least = asked_seconds_ > 0 ? asked_seconds_ : timed(entry);
    least = std::min(least, timed(entry));
    return least / samples_.rows.share;
  }

 private:
  std::size_t stored_bytes(const FormatEntry& entry) const {
    return value_bytes_.exact_in_float && !entry.traits.uses_source && may_be_narrow(entry)
               ? sizeof(float)
               : value_bytes_.of_vectors;
  }
  // Whether the first kernel has values in float.
  bool may_be_narrow(const FormatEntry& entry) const {
    const std::span<const Kernel> kernels = kernels_in(entry, space_);
    return !kernels.empty() && detail::has_float_values(kernels.front());
  }
  double timed(const FormatEntry& entry, Admission* result = nullptr) const {
    const auto begin = std::chrono::steady_clock::now();
    Admission admission = admit(entry, *one_, samples_.rows.pattern, {}, stored_bytes(entry));
    const auto taken = std::chrono::steady_clock::now() - begin;
    if (result) *result = std::move(admission);
    return std::chrono::duration<double>(taken).count();
  }
  Admission ask_about(const FormatEntry& entry, const PatternSample& sample) const {
    Admission admission;
    asked_seconds_ = 0;
    if (&sample == &samples_.rows)
      asked_seconds_ = timed(entry, &admission);
    else
      admission = admit(entry, *one_, sample.pattern, {}, stored_bytes(entry));
    const double scale = samples_.bytes / csr_bytes(sample.pattern, value_bytes_.of_vectors);
    admission.bytes = static_cast<std::size_t>(std::llround(static_cast<double>(admission.bytes) * scale));
    admission.stored_values = std::llround(static_cast<double>(admission.stored_values) * scale);
    return admission;
  }

  ContextPtr one_;
  const Samples& samples_;
  Space space_;
  detail::ValueBytes value_bytes_;
  mutable double asked_seconds_ = 0;  // of the last question about samples_.rows; 0: it was about other rows
};

std::vector<SwitchTarget> ask_all(const ContextPtr& one, const Samples& samples, Space space,
                                  bool deterministic, detail::ValueBytes value_bytes, const CostModel* model,
                                  std::span<const std::string_view> named = {}) {
  const Survey survey(one, samples, space, value_bytes);
  std::vector<SwitchTarget> surveyed;
  for (const FormatEntry* entry : catalogue()) {
    detail::checkpoint();  // a solve that has ended does not wait for its survey
    // The machine table has no times of presets; they are chosen by name.
    if (!entry->traits.exact_values || entry->preset || entry->traits.chosen_by_name) continue;
    if (model && entry->id != "csr" && !model->may_be_fastest(entry->id)) continue;
    if (!named.empty() && std::find(named.begin(), named.end(), entry->id) == named.end()) continue;
    // The rows of a sample lie apart from their diagonal, which these formats store apart; they are chosen by name.
    const bool sampled = samples.rows.share < 1, symmetric_only = entry->traits.symmetric_only;
    if (symmetric_only ? !samples.half_bytes : entry->traits.square_only && sampled) continue;
    const auto kernels = kernels_in(*entry, space);
    const auto usable = [&](const Kernel& kernel) {
      return kernel.unavailable.empty() && (!deterministic || has_deterministic_mode(*entry, kernel, space));
    };
    if (std::none_of(kernels.begin(), kernels.end(), usable)) continue;
    const bool shares_rows = entry->traits.shares_rows;
    const Admission admission = !shares_rows && samples.whole_rows_refused
                                    ? Admission::refuse(*samples.whole_rows_refused)
                                : symmetric_only && sampled ? Admission::accept(*samples.half_bytes, 0)
                                                            : survey.ask(*entry);
    SwitchTarget format;
    format.spec.entry = entry;
    format.admitted = admission.ok;
    const std::size_t saved = admission.ok ? survey.saved(*entry, admission) : 0;
    if (admission.ok)
      format.bytes = admission.bytes, format.saved_bytes = saved;
    else if (!shares_rows && samples.whole_rows_refused)
      format.why = *samples.whole_rows_refused;
    else
      format.why = samples.rows.share < 1 ? fmt::format("in a sample of {:.1f} % of the entries: {}",
                                                        100 * samples.rows.share, admission.reason)
                                          : admission.reason;
    // The time of compressing depends on the columns more than the time of other conversions, and admit() does nearly
    // all of it.
    if (admission.ok && entry->traits.admission_converts && space == Space::host)
      format.plan_seconds = survey.plan_seconds(*entry);
    for (const Kernel& kernel : kernels) {
      if (!usable(kernel)) continue;
      format.spec.kernel = &kernel == &kernels.front() ? std::string_view() : kernel.name;
      if (!detail::surveyed(format.spec, space, model)) continue;
      if (saved > 0 && !detail::has_float_values(kernel))
        format.bytes = admission.bytes + saved, format.saved_bytes = 0;
      format.several_bandwidth = several_bandwidth(*entry, format.spec.kernel, space);
      format.one_pass = format.several_bandwidth > 0;
      surveyed.push_back(format);
      if (std::optional<SwitchTarget> narrow = survey.in_float(format, admission))
        surveyed.push_back(*std::move(narrow));
    }
  }
  return surveyed;
}

}  // namespace

bool detail::surveyed(const FormatSpec& spec, Space space, const CostModel* model) {
  if (space == Space::host || spec.kernel.empty()) return true;
  return model && spec.entry->id != "csr" && model->knows(spec.name());
}

PatternSample sample_rows(const ContextPtr& context, const SparsityPattern& pattern, std::int64_t entries,
                          int blocks) {
  if (pattern.space != context->space())
    throw WrongSpace(fmt::format("a pattern in {} memory cannot be sampled with a context in {} memory",
                                 to_string(pattern.space), to_string(context->space())));
  const ContextPtr host = context->space() == Space::host ? context : Context::host(1);
  return Source(*context, pattern).take(host, choose_blocks(pattern, entries, blocks));
}

namespace {

std::vector<SwitchTarget> survey(const Source& source, Space space, bool deterministic,
                                 detail::ValueBytes value_bytes, bool symmetric, const CostModel* model,
                                 std::span<const std::string_view> named = {}) {
  const SparsityPattern& pattern = source.pattern();
  // One thread: for such small samples, waking others would cost more than it saves.
  const ContextPtr one = Context::host(1);
  std::vector<Block> blocks = choose_blocks(pattern, sampled_entries, sampled_blocks);
  Samples samples{source.take(one, blocks)};
  samples.bytes = csr_bytes(pattern, value_bytes.of_vectors);
  if (symmetric) {
    const auto rows = static_cast<std::size_t>(pattern.rows),
               nonzeros = static_cast<std::size_t>(pattern.nonzeros);
    samples.half_bytes = (nonzeros - std::min(rows, nonzeros)) / 2 * (value_bytes.of_vectors + 4) +
                         (rows + 1) * pattern.row_ptr.width() + rows * value_bytes.of_vectors;
  }
  const std::int64_t longest = source.longest_row();
  samples.whole_rows_refused = refusal_of_whole_rows(pattern, longest, space);
  if (!blocks.empty()) {
    const Block& first = blocks.front();
    const std::int64_t rows = std::min(grain, first.second - first.first);
    if (samples.rows.share < 1) {
      // The first rows of the sample, which a device need not send again.
      samples.one_block = Source(*one, samples.rows.pattern).take(one, {{0, rows}});
      samples.one_block->share *= samples.rows.share;
    } else {
      samples.one_block = source.take(one, {{first.first, first.first + rows}});
    }
    const std::int64_t sampled = longest_of(samples.rows.pattern);
    if (!samples.whole_rows_refused && longest > sampled) {
      samples.longer_by =
          static_cast<double>(longest) / static_cast<double>(std::max<std::int64_t>(sampled, 1));
      add_block(blocks, source.row_of_length(longest), pattern.rows);
      samples.with_longest = source.take(one, blocks);
    }
  }
  return ask_all(one, samples, space, deterministic, value_bytes, model, named);
}

}  // namespace

std::vector<SwitchTarget> survey_named(const SparsityPattern& pattern,
                                       std::span<const std::string_view> named, Space space,
                                       bool deterministic, detail::ValueBytes value_bytes, bool symmetric) {
  if (pattern.space != Space::host)
    throw WrongSpace("a pattern in device memory cannot be sampled; give the pattern in host memory");
  if (named.empty()) return {};
  return survey(Source(*Context::host(1), pattern), space, deterministic, value_bytes, symmetric, nullptr,
                named);
}

std::vector<SwitchTarget> survey_formats(const SparsityPattern& pattern, Space space, bool deterministic,
                                         std::size_t value_bytes, bool symmetric, const CostModel* model) {
  return survey_on_host(pattern, space, deterministic, value_bytes, symmetric, model);
}

std::vector<SwitchTarget> survey_on_host(const SparsityPattern& pattern, Space space, bool deterministic,
                                         detail::ValueBytes value_bytes, bool symmetric,
                                         const CostModel* model) {
  if (pattern.space != Space::host)
    throw WrongSpace("a pattern in device memory cannot be sampled; give the pattern in host memory");
  return survey(Source(*Context::host(1), pattern), space, deterministic, value_bytes, symmetric, model);
}

std::vector<SwitchTarget> survey_formats(const Context& context, const SparsityPattern& pattern,
                                         bool deterministic, detail::ValueBytes value_bytes, bool symmetric,
                                         const CostModel* model) {
  if (pattern.space != context.space())
    throw WrongSpace(fmt::format("a pattern in {} memory cannot be sampled with a context in {} memory",
                                 to_string(pattern.space), to_string(context.space())));
  detail::count_survey(context);
  return survey(Source(context, pattern), context.space(), deterministic, value_bytes, symmetric, model);
}

template <class T>
std::vector<SwitchTarget> survey_formats(const ElementOperator<T>& elements, const CostModel* model) {
  const ContextPtr one = Context::host(1);
  constexpr int parts = 3;
  const std::int64_t rows = elements.rows();
  std::vector<Block> blocks{{0, rows}};
  if (rows > 2 * parts * alignment) {
    blocks.clear();
    for (int b = 0; b < parts; ++b) {
      const std::int64_t begin = (2 * b + 1) * rows / (2 * parts) / alignment * alignment;
      blocks.push_back({begin, begin + alignment});
    }
  }
  const SparsityPattern apart = elements.pattern_of_rows(blocks);
  const auto row_of = [&](std::int64_t i) {
    std::int64_t before = 0;
    for (const auto& [begin, end] : blocks) {
      if (i < end) return apart.row(before + i - begin);
      before += end - begin;
    }
    return std::span<const std::int32_t>();
  };
  PatternSample sample;
  if (auto together = move_together(one, blocks, row_of))
    sample.pattern = std::move(*together);
  else
    sample.pattern = apart;
  sample.share = static_cast<double>(apart.rows) / static_cast<double>(std::max<std::int64_t>(rows, 1));
  Samples samples{std::move(sample)};
  const SparsityPattern& pattern = samples.rows.pattern;
  samples.bytes = csr_bytes(pattern, sizeof(T)) * (samples.rows.share > 0 ? 1 / samples.rows.share : 1);
  samples.whole_rows_refused =
      refusal_of_whole_rows(pattern, formats::longest_row(*one, pattern), elements.context()->space());
  return ask_all(one, samples, elements.context()->space(), false, sizeof(T), model);
}
template std::vector<SwitchTarget> survey_formats<float>(const ElementOperator<float>&, const CostModel*);
template std::vector<SwitchTarget> survey_formats<double>(const ElementOperator<double>&, const CostModel*);

template <class T>
std::vector<SwitchTarget> survey_formats(const Matrix<T>& A, const CostModel& model,
                                         const SparsityPattern& on_host, bool with_floats) {
  if (A.elements()) return survey_formats(*A.elements(), &model);
  const Context& context = *A.context();
  const bool on_a_host = context.space() == Space::host, deterministic = context.deterministic();
  detail::ValueBytes values(sizeof(T));
  if constexpr (sizeof(T) == 8) {
    values.exact_in_float = detail::exact_in_float(context, A.ordered_source());
    values.offer_floats = with_floats && on_a_host && !A.begun_in_float();
    if (values.offer_floats)
      values.why_no_floats = detail::beyond_float(context, A.ordered_source()).value_or(std::string());
  }
  if (!on_a_host && on_host.nonzeros > 0)
    return survey_on_host(on_host, context.space(), deterministic, values, false, &model);
  return survey_formats(context, A.ordered_source().pattern, deterministic, values, false, &model);
}
template std::vector<SwitchTarget> survey_formats<float>(const Matrix<float>&, const CostModel&,
                                                         const SparsityPattern&, bool);
template std::vector<SwitchTarget> survey_formats<double>(const Matrix<double>&, const CostModel&,
                                                          const SparsityPattern&, bool);

}  // namespace protean
