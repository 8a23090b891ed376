#include "formats/selectors/selector.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "core/context.hpp"
#include "core/error.hpp"
#include "core/transfer.hpp"
#include "core/vector.hpp"
#include "formats/catalogue.hpp"
#include "formats/selectors/entries.hpp"
#include "formats/selectors/trained.hpp"
#include "formats/survey.hpp"

namespace protean {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// One conversion and three products, of which the shortest counts, with values and x of one.
template <class T>
std::optional<FormatTimes> measured(const SparsityPattern& pattern, const FormatEntry& entry) {
  const ContextPtr context = Context::host();
  const std::vector<T> values(static_cast<std::size_t>(pattern.nonzeros), T(1));
  CsrMatrix<T> csr;
  csr.pattern = pattern, csr.values = values.data();
  try {
    FormatTimes times;
    auto begin = std::chrono::steady_clock::now();
    const auto A = make_matrix(entry, csr, context);
    times.convert_seconds = seconds_since(begin);
    Vector<T> x(context, pattern.cols), y(context, pattern.rows);
    std::fill_n(x.data(), pattern.cols, T(1));
    for (int run = 0; run < 3; ++run) {
      begin = std::chrono::steady_clock::now();
      A->apply(x, y);
      const double taken = seconds_since(begin);
      times.product_seconds = run == 0 ? taken : std::min(times.product_seconds, taken);
    }
    return times;
  } catch (const FormatRefused&) { return {}; } catch (const OutOfMemory&) {
    return {};
  }
}

}  // namespace

SelectorQuestion::SelectorQuestion(const SparsityPattern& pattern, const CostModel& model,
                                   const ChoiceOptions& options, FormatTimer timer,
                                   const TrainedModels* trained)
    : context_(Context::host(1)),
      pattern_(pattern),
      model_(model),
      options_(options),
      timer_(std::move(timer)),
      trained_(trained) {}

SelectorQuestion::SelectorQuestion(ContextPtr context, const SparsityPattern& pattern,
                                   const SparsityPattern* on_host, const CostModel& model,
                                   const ChoiceOptions& options)
    : context_(std::move(context)),
      pattern_(pattern),
      on_host_(on_host),
      model_(model),
      options_(options),
      trained_(nullptr) {}

const SparsityPattern& SelectorQuestion::pattern() const {
  if (pattern_.space == Space::host) return pattern_;
  if (on_host_) return *on_host_;
  if (!copied_) copied_ = detail::download_pattern(Context::host(), *context_, pattern_);
  return *copied_;
}

const TrainedModels& SelectorQuestion::trained() const { return trained_ ? *trained_ : builtin_trained(); }

double SelectorQuestion::csr_bytes() const noexcept {
  return static_cast<double>(pattern_.bytes()) +
         static_cast<double>(pattern_.nonzeros) * static_cast<double>(options_.value_bytes);
}

double SelectorQuestion::csr_seconds() const {
  if (pattern_.nonzeros == 0) return 0;
  CostQuery query{pattern_.rows, pattern_.nonzeros, static_cast<std::size_t>(csr_bytes())};
  query.row_changes = row_changes(*context_, pattern_);
  const CostPrediction cost = model_.absolute(query, "csr", query.csr_bytes);
  return cost.known ? cost.product_seconds : 0;
}

const PatternFeatures& SelectorQuestion::features() const {
  if (!features_) features_ = features_of(pattern());
  return *features_;
}

std::optional<FormatTimes> SelectorQuestion::time(const FormatEntry& entry) const {
  if (timer_) return timer_(entry);
  return options_.value_bytes == sizeof(float) ? measured<float>(pattern(), entry)
                                               : measured<double>(pattern(), entry);
}

std::span<const FormatSelector* const> selectors() noexcept {
  static const FormatSelector* const all[] = {&selector_entries::model(),
                                              &selector_entries::clspmv(),
                                              &selector_entries::smat(),
                                              &selector_entries::sedaghati(),
                                              &selector_entries::oracle_forest(),
                                              &selector_entries::forest_times(),
                                              &selector_entries::zhao(),
                                              &selector_entries::guo_wang(),
                                              &selector_entries::li_pmf(),
                                              &selector_entries::choi(),
                                              &selector_entries::abu_sufah(),
                                              &selector_entries::reguly_giles(),
                                              &selector_entries::kubota_takahashi()};
  return all;
}

std::vector<std::string_view> selector_names() {
  std::vector<std::string_view> names;
  for (const FormatSelector* selector : selectors()) names.push_back(selector->name());
  return names;
}

const FormatSelector& find_selector(std::string_view name) {
  for (const FormatSelector* selector : selectors())
    if (selector->name() == name) return *selector;
  const std::vector<std::string_view> names = selector_names();
  throw BadArgument(fmt::format("there is no selector '{}'; the selectors are {}.{}", name,
                                fmt::join(names, ", "), detail::did_you_mean(name, names)));
}

const FormatSelector& find_selector(std::string_view name, Space space) {
  const FormatSelector& selector = find_selector(name);
  if (space == Space::host || !selector.host_only()) return selector;
  std::vector<std::string_view> others;
  for (const FormatSelector* other : selectors())
    if (!other->host_only()) others.push_back(other->name());
  throw NotAvailable(fmt::format("selector {} has numbers of a host only; on a device there are {}", name,
                                 fmt::join(others, ", ")));
}

namespace selectors_detail {

std::vector<Candidate> candidates(const SelectorQuestion& question, std::span<const std::string_view> known) {
  const ChoiceOptions& options = question.options();
  std::vector<Candidate> result{{&find_format("csr"), question.csr_bytes()}};
  for (const SwitchTarget& format :
       survey_named(question.pattern(), known, options.space, options.deterministic,
                    {options.value_bytes, options.exact_in_float}, options.symmetric))
    if (format.admitted && format.spec.kernel.empty() && format.spec.entry->id != "csr")
      result.push_back({format.spec.entry, static_cast<double>(format.bytes)});
  return result;
}

void sort_by_score(std::vector<SelectedFormat>& formats) {
  std::stable_sort(formats.begin(), formats.end(), [](const SelectedFormat& a, const SelectedFormat& b) {
    if (a.score != b.score) return a.score < b.score;
    return a.entry->id == "csr" && b.entry->id != "csr";
  });
}

}  // namespace selectors_detail

}  // namespace protean
