#include "formats/choose.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/locality.hpp"
#include "core/ordering.hpp"
#include "core/transfer.hpp"
#include "core/watch.hpp"
#include "formats/catalogue.hpp"
#include "formats/survey.hpp"

namespace protean {
namespace {

constexpr std::int64_t least_entries = 1000;
constexpr double least_saving = 0.03;

double expected_products(const ChoiceOptions& options) {
  const auto iterations =
      static_cast<double>(options.expected_iterations > 0 ? options.expected_iterations : assumed_iterations);
  return iterations * options.products_per_iteration;
}

template <class T>
std::string_view chosen_format(const CsrMatrix<T>& csr, const ContextPtr& context, ChoiceOptions choice) {
  if (csr.pattern.space != context->space()) return "csr";  // make_matrix() refuses it with a message
  choice.space = context->space(), choice.deterministic = context->deterministic();
  const CostModel model(builtin_machine(), choice.space);
  if (choice.space == Space::device)
    return choose_format(detail::download_pattern(Context::host(), *context, csr.pattern), model, choice).id;
  check_arrays(csr);
  if (!is_sorted(*context, csr.pattern)) return "csr";
  return choose_format(csr.pattern, model, choice).id;
}

}  // namespace

std::vector<RankedFormat> rank_formats(const SparsityPattern& pattern, const CostModel& model,
                                       const ChoiceOptions& options) {
  const double products = expected_products(options);
  const auto surveyed =
      survey_formats(pattern, options.space, options.deterministic, sizeof(double), options.symmetric);
  CostQuery query{pattern.rows, pattern.nonzeros,
                  pattern.bytes() + static_cast<std::size_t>(pattern.nonzeros) * sizeof(double)};
  query.row_changes = row_changes(pattern);
  for (const SwitchTarget& format : surveyed)
    if (format.spec.name() == "sell-packed") query.packed_bytes = format.bytes;

  std::vector<RankedFormat> ranked;
  // Of a matrix without entries nothing can be predicted.
  const auto predict = [&](const FormatEntry& entry, std::size_t bytes) {
    return pattern.nonzeros > 0 ? model.absolute(query, entry.id, bytes) : CostPrediction{};
  };
  const CostPrediction csr = predict(find_format("csr"), query.csr_bytes);
  ranked.push_back({&find_format("csr"), csr, products * csr.product_seconds});
  for (const SwitchTarget& format : surveyed) {
    if (!format.admitted || !format.spec.kernel.empty() || format.spec.entry->id == "csr") continue;
    const CostPrediction cost = predict(*format.spec.entry, format.bytes);
    ranked.push_back(
        {format.spec.entry, cost, cost.known ? cost.convert_seconds + products * cost.product_seconds : 0});
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const RankedFormat& a, const RankedFormat& b) {
    return a.cost.known != b.cost.known ? a.cost.known : a.total_seconds < b.total_seconds;
  });
  return ranked;
}

FormatChoice choose_format(const SparsityPattern& pattern, const CostModel& model,
                           const ChoiceOptions& options) {
  if (pattern.nonzeros < least_entries)
    return {"csr", fmt::format("{} nonzeros are too few to be worth a conversion", pattern.nonzeros)};
  const std::vector<RankedFormat> ranked = rank_formats(pattern, model, options);
  const auto is_csr = [](const RankedFormat& format) { return format.entry->id == "csr"; };
  const RankedFormat& csr = *std::find_if(ranked.begin(), ranked.end(), is_csr);
  if (!csr.cost.known) return {"csr", "the machine table has no measurement in this space"};
  const double stay = csr.total_seconds;
  const auto best = std::find_if_not(ranked.begin(), ranked.end(), is_csr);

  const bool known = options.expected_iterations > 0;
  const std::string over = fmt::format(
      "{} iterations{}", known ? options.expected_iterations : assumed_iterations, known ? "" : " (assumed)");
  if (best == ranked.end() || !best->cost.known || best->total_seconds >= stay * (1 - least_saving))
    return {"csr", fmt::format("no other format is expected to save anything over {}", over)};
  return {
      best->entry->id,
      fmt::format(
          "a product is expected to take {:.0f} % of one in csr, and the conversion {:.1f} products of csr; "
          "over {} that saves {:.0f} %",
          100 * best->cost.product_seconds / csr.cost.product_seconds,
          best->cost.convert_seconds / csr.cost.product_seconds, over,
          100 * (1 - best->total_seconds / stay))};
}

template <class T>
std::unique_ptr<AssembledMatrix<T>> make_matrix(std::string_view format, const CsrMatrix<T>& csr,
                                                const ContextPtr& context, const FormatParams& params,
                                                std::string_view kernel, const ChoiceOptions& choice) {
  if (format != "auto") return make_matrix(find_format(format), csr, context, params, kernel);
  if (!params.all().empty())
    throw BadArgument("parameters belong to one format; name it instead of auto, or leave them out");
  if (!kernel.empty() && kernel != "native")
    throw BadArgument(fmt::format(
        "kernel {} belongs to one format; name it instead of auto, or leave the kernel out", kernel));
  const std::string_view id = chosen_format(csr, context, choice);
  const auto made = [&](std::string_view one) { return make_matrix(find_format(one), csr, context); };
  if (id == "csr") return made(id);
  try {
    return made(id);
  } catch (const FormatRefused&) {
  } catch (const OutOfMemory&) {}
  return made("csr");
}

template std::unique_ptr<AssembledMatrix<float>> make_matrix<float>(std::string_view, const CsrMatrix<float>&,
                                                                    const ContextPtr&, const FormatParams&,
                                                                    std::string_view, const ChoiceOptions&);
template std::unique_ptr<AssembledMatrix<double>> make_matrix<double>(std::string_view,
                                                                      const CsrMatrix<double>&,
                                                                      const ContextPtr&, const FormatParams&,
                                                                      std::string_view, const ChoiceOptions&);

OrderChoice choose_order(const SparsityPattern& pattern, const ChoiceOptions& options,
                         std::size_t value_bytes) {
  if (static_cast<std::size_t>(pattern.rows) * value_bytes <= cached_bytes_of_x)
    return {"none", fmt::format("x of {} rows stays in the caches in any order", pattern.rows)};
  const OrderForecast forecast = forecast_order(pattern, value_bytes);
  const std::string lines = lines_text(forecast);
  const double products = expected_products(options), saved = products * (1 - forecast.product_ratio);
  if (saved <= order_products)
    return {
        "none",
        fmt::format("{}: {:.0f} products would save the time of {:.0f}, and an order takes that of {:.0f}",
                    lines, products, saved, order_products)};
  return {"rcm", fmt::format("{}: a product is expected to take {:.0f} % of the time", lines,
                             100 * forecast.product_ratio)};
}

std::vector<std::string_view> order_words(bool with_auto) {
  std::vector<std::string_view> words{"none"};
  if (with_auto) words.push_back("auto");
  for (const OrderingEntry& entry : orderings()) words.push_back(entry.id);
  return words;
}

void require_order(std::string_view word, bool with_auto) {
  const std::vector<std::string_view> words = order_words(with_auto);
  if (std::find(words.begin(), words.end(), word) == words.end())
    throw BadArgument(fmt::format("there is no order '{}'{}; there are {}.{}", word,
                                  word == "auto" ? " here, where it must be named" : "",
                                  fmt::join(words, ", "), did_you_mean(word, words)));
  for (const OrderingEntry& entry : orderings())
    if (entry.id == word && !entry.unavailable.empty())
      throw NotAvailable(fmt::format("order {}: {}", word, entry.unavailable));
}

template <class T>
OrderedMatrix<T> put_in_order(std::string_view order, const CsrMatrix<T>& csr, const ContextPtr& context,
                              const ChoiceOptions& choice) {
  require_order(order);
  OrderedMatrix<T> result;
  if (order == "none") return result;
  if (csr.rows() != csr.cols())
    throw ShapeMismatch(fmt::format(
        "the matrix is {} x {}; an order ({}) is that of rows and columns, so it must be square; take none",
        csr.rows(), csr.cols(), order));
  if (csr.pattern.space != context->space())
    throw WrongSpace(fmt::format("the matrix lies in {} memory, its context in {} memory",
                                 to_string(csr.pattern.space), to_string(context->space())));
  check_arrays(csr);
  const bool on_host = context->space() == Space::host;
  const ContextPtr host = on_host ? context : Context::host();
  SparsityPattern pattern;  // in host memory
  if (order == "auto") {
    pattern = on_host ? csr.pattern : detail::download_pattern(host, *context, csr.pattern);
    ChoiceOptions options = choice;
    options.space = context->space(), options.deterministic = context->deterministic();
    const OrderChoice chosen = choose_order(pattern, options, sizeof(T));
    result.reason = chosen.reason, order = chosen.id;
    if (order == "none") return result;
  }
  result.ordered.emplace(
      host, csr, find_order(order, context, csr.pattern, pattern.col ? &pattern : nullptr).permutation);
  result.order = order;
  return result;
}

template OrderedMatrix<float> put_in_order<float>(std::string_view, const CsrMatrix<float>&,
                                                  const ContextPtr&, const ChoiceOptions&);
template OrderedMatrix<double> put_in_order<double>(std::string_view, const CsrMatrix<double>&,
                                                    const ContextPtr&, const ChoiceOptions&);

}  // namespace protean
