#include "formats/choose.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "core/locality.hpp"
#include "core/ordering.hpp"
#include "core/statistics.hpp"
#include "core/transfer.hpp"
#include "core/vector.hpp"
#include "core/watch.hpp"
#include "formats/catalogue.hpp"
#include "formats/selectors/model.hpp"
#include "formats/selectors/selector.hpp"
#include "formats/survey.hpp"
#include "formats/trials.hpp"
#include "operators/kernel_loading.hpp"
#include "operators/narrow_values.hpp"

namespace protean {
namespace {

// Whether it matters that values are symmetric to the bit: a format that asks for it may be the fastest.
bool asks_for_symmetry(const SparsityPattern& pattern, const CostModel& model) {
  if (pattern.rows != pattern.cols || pattern.nonzeros < least_entries_to_convert) return false;
  const auto entries = catalogue();
  return std::any_of(entries.begin(), entries.end(), [&](const FormatEntry* entry) {
    return entry->traits.symmetric_only && model.may_be_fastest(entry->id);
  });
}

// The formats of the selector, the best first. Those before csr are expected to be faster than csr.
std::vector<SelectedFormat> ranked_by(const SelectorQuestion& question) {
  const FormatSelector& selector = find_selector(question.options().selector, question.options().space);
  if (const std::int64_t entries = question.given().nonzeros; entries < least_entries_to_convert)
    return {{.entry = &find_format("csr"),
             .reason = fmt::format("{} nonzeros are too few to be worth a conversion", entries)}};
  return selector.rank(question);
}

FormatChoice chosen_by(const SelectorQuestion& question) {
  SelectedFormat best = std::move(ranked_by(question).front());
  return {best.entry->id, std::move(best.reason), std::move(best.parameters)};
}

// The number of formats that are tried if the matrix refuses them: each plan costs the time of some products.
constexpr int most_tried = 3;

bool by_default_selector(const ChoiceOptions& options) {
  return options.selector.empty() || options.selector == default_selector;
}

// Measures products with a vector of ones.
template <class T>
class ProductTimer {
 public:
  ProductTimer(const ContextPtr& context, const CsrMatrix<T>& csr)
      : context_(context), x_(context, csr.cols()), y_(context, csr.rows()) {
    fill<T>(*context, T(1), x_.view());
  }
  // One product to warm up, and the shorter of two runs of several.
  double operator()(const LinearOperator<T>& A) {
    constexpr int runs = 2, each = (Trials::products_of_a_try - 1) / runs;
    A.apply(x_, y_);
    double shortest = INFINITY;
    for (int run = 0; run < runs; ++run) {
      context_->synchronize();
      const auto begin = Clock::now();
      for (int k = 0; k < each; ++k) A.apply(x_, y_);
      context_->synchronize();
      shortest = std::min(shortest, std::chrono::duration<double>(Clock::now() - begin).count() / each);
    }
    return shortest;
  }

 private:
  using Clock = std::chrono::steady_clock;
  ContextPtr context_;
  Vector<T> x_, y_;
};

// The fastest of the formats that Trials names, built and measured; nothing if it names none.
template <class T>
std::optional<ChosenMatrix<T>> try_formats(const CsrMatrix<T>& csr, const ContextPtr& context,
                                           const ChoiceOptions& options,
                                           const std::vector<SelectedFormat>& ranked) {
  const auto plain = std::find_if(ranked.begin(), ranked.end(),
                                  [](const SelectedFormat& format) { return format.entry->id == "csr"; });
  if (plain == ranked.end() || !(plain->product_seconds > 0)) return {};
  std::vector<Trials::Prospect> prospects;  // of csr nothing is expected
  for (const SelectedFormat& format : ranked)
    prospects.push_back(format.entry->id == "csr"
                            ? Trials::Prospect()
                            : Trials::Prospect{format.product_seconds / plain->product_seconds,
                                               format.convert_seconds / plain->product_seconds,
                                               format.uncertainty});
  Trials trials(std::move(prospects), options.products());
  if (!trials.next()) return {};

  ChosenMatrix<T> result{.matrix = make_matrix(find_format("csr"), csr, context), .reason = {}};
  result.choice.wanted = ranked.front().entry->id, result.choice.taken = "csr";
  std::string account;
  ProductTimer<T> seconds(context, csr);
  const double product = seconds(*result.matrix);
  if (!(product > 0)) return {};
  while (const auto which = trials.next()) {
    const SelectedFormat& format = ranked[*which];
    const std::string_view id = format.entry->id;
    account += fmt::format("{}{} ", account.empty() ? "" : ", ", id);
    try {
      const auto begin = std::chrono::steady_clock::now();
      auto made = make_matrix(*format.entry, csr, context, format.parameters);
      context->synchronize();
      const double conversion =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / product;
      const double own = seconds(*made) / product;
      account += fmt::format("{:.0f} %", 100 * own);
      trials.tried(*which, own, conversion);
      if (trials.best() == which) result.matrix = std::move(made), result.choice.taken = id;
    } catch (const FormatRefused& error) {
      account += "refused";
      trials.refused(*which);
      if (id == result.choice.wanted) result.choice.refused = error.what();
    } catch (const OutOfMemory& error) {
      account += "out of memory";
      if (id == result.choice.wanted) result.choice.refused = error.what();
      break;
    }
  }
  result.reason =
      fmt::format("{}: the fastest of those tried for {} iterations; products measured, csr 100 %, {}",
                  result.choice.taken, options.expected_iterations, account);
  return result;
}

template <class T>
ChosenMatrix<T> plain(const CsrMatrix<T>& csr, const ContextPtr& context, std::string reason) {
  return {make_matrix(find_format("csr"), csr, context), std::move(reason), {"csr", "", "csr"}};
}

// csr instead of a format.
template <class T>
ChosenMatrix<T> plain_for(const CsrMatrix<T>& csr, const ContextPtr& context, std::string_view wanted,
                          std::string_view why, std::string reason) {
  ChosenMatrix<T> result = plain(csr, context, std::move(reason));
  result.choice.wanted = wanted, result.choice.refused = why;
  return result;
}

// Whether a pass for several vectors may take less time than one in csr: the values alone are this share of the bytes
// of csr, so it must read more than this share of the bytes a second.
template <class T>
bool gains_with_several(const FormatEntry& entry, Space space) {
  constexpr double least_bytes = sizeof(T) / (sizeof(T) + 4.0);
  return several_bandwidth(entry, {}, space) > least_bytes;
}

// The first format before csr that the whole matrix admits, else csr.
template <class T>
ChosenMatrix<T> first_admitted(const CsrMatrix<T>& csr, const ContextPtr& context,
                               std::vector<SelectedFormat> ranked, bool several_columns) {
  if (several_columns) {
    const std::string_view first = ranked.front().entry->id;
    std::erase_if(ranked, [&](const SelectedFormat& format) {
      return format.entry->id != "csr" && !gains_with_several<T>(*format.entry, context->space());
    });
    if (first != "csr" && (ranked.empty() || ranked.front().entry->id == "csr"))
      return plain(
          csr, context,
          fmt::format(
              "csr, whose products with several vectors take less time than products of {}, which would "
              "be taken for one right-hand side",
              first));
  }
  const std::string_view wanted = ranked.front().entry->id;
  if (wanted == "csr") return plain(csr, context, ranked.front().reason);
  ChosenMatrix<T> result;
  result.choice.wanted = wanted;
  int tried = 0;
  for (const SelectedFormat& format : ranked) {
    const std::string_view id = format.entry->id;
    if (id == "csr" || tried++ == most_tried) break;
    try {
      const bool loads = detail::needs_loading(*context, *format.entry, sizeof(T));
      result.matrix = make_matrix(*format.entry, csr, context, format.parameters);
      if (loads) detail::count_loading();
      result.choice.taken = id;
      result.reason = id == wanted
                          ? format.reason
                          : fmt::format("{} instead of {}, which a sample of the rows promised: {}; {}", id,
                                        wanted, result.choice.refused, format.reason);
      break;
    } catch (const FormatRefused& error) {
      if (result.choice.refused.empty()) result.choice.refused = error.what();
    } catch (const OutOfMemory& error) {
      if (id != wanted) break;  // the report names the format that was wanted, and why it was refused
      return plain_for(csr, context, wanted, error.what(),
                       fmt::format("csr instead of {}: {}", wanted, error.what()));
    }
  }
  if (!result.matrix)
    return plain_for(csr, context, wanted, result.choice.refused,
                     fmt::format("csr instead of {}, which a sample of the rows promised: {}", wanted,
                                 result.choice.refused));
  return result;
}

std::vector<ConsideredFormat> considered(const std::vector<SelectedFormat>& ranked) {
  std::vector<ConsideredFormat> all;
  for (const SelectedFormat& format : ranked)
    all.push_back({std::string(format.entry->id), format.parameters, format.product_seconds,
                   format.convert_seconds, format.uncertainty, format.reason});
  return all;
}

}  // namespace

template <class T>
ChosenMatrix<T> make_chosen_matrix(const CsrMatrix<T>& csr, const ContextPtr& context, ChoiceOptions options,
                                   const CsrMatrix<T>* on_host, bool several_columns) {
  (void)find_selector(options.selector, context->space());
  if (csr.pattern.space != context->space()) return plain(csr, context, {});  // refused there with a message
  options.space = context->space(), options.deterministic = context->deterministic();
  options.value_bytes = sizeof(T);
  const bool here = options.space == Space::host;
  if (here) check_arrays(csr);
  const bool may_try = by_default_selector(options) && options.expected_iterations > 0 &&
                       options.products() >= products_worth_trials && !options.deterministic &&
                       !several_columns;
  CostModel model = model_of(options.machine, options.space);
  if (may_try) model = model.with_rare_formats();
  if (by_default_selector(options))
    if (std::string why = too_few_for_a_look(*context, csr.pattern, model, options); !why.empty())
      return plain(csr, context, std::move(why));
  if (!is_sorted(*context, csr.pattern))
    return plain(csr, context,
                 "csr, the only format for rows whose columns do not ascend (sorted_copy() sorts)");
  if (!options.symmetric && asks_for_symmetry(csr.pattern, model)) {
    const ContextPtr host = here ? context : Context::host();
    const CsrMatrix<T> seen = here ? csr : on_host ? *on_host : download(host, *context, csr);
    options.symmetric = !first_asymmetry(*host, seen.pattern, seen.values);
  }
  if constexpr (sizeof(T) == 8) options.exact_in_float = detail::exact_in_float(*context, csr);
  const std::vector<SelectedFormat> ranked = ranked_by(
      SelectorQuestion(context, csr.pattern, on_host ? &on_host->pattern : nullptr, model, options));
  // Which format is the fastest differs between two measurements, and sums have other rounding in each.
  std::optional<ChosenMatrix<T>> result;
  if (may_try) result = try_formats(csr, context, options, ranked);
  if (!result) result = first_admitted(csr, context, ranked, several_columns);
  result->choice.selector =
      by_default_selector(options) ? default_selector : std::string_view(options.selector);
  result->choice.ranking = considered(ranked);
  return *std::move(result);
}

std::vector<RankedFormat> rank_formats(const SparsityPattern& pattern, const CostModel& model,
                                       const ChoiceOptions& options) {
  return rank_by_cost(*Context::host(1), pattern, model, options, false);
}

std::vector<std::string_view> selector_words() { return selector_names(); }
void require_selector(std::string_view word) { (void)find_selector(word); }

FormatChoice choose_format(const SparsityPattern& pattern, const CostModel& model,
                           const ChoiceOptions& options) {
  return chosen_by(SelectorQuestion(pattern, model, options));
}

FormatChoice choose_format(const ContextPtr& context, const SparsityPattern& pattern, const CostModel& model,
                           const ChoiceOptions& options) {
  return chosen_by(SelectorQuestion(context, pattern, nullptr, model, options));
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
  return make_chosen_matrix(csr, context, choice).matrix;
}

template ChosenMatrix<float> make_chosen_matrix<float>(const CsrMatrix<float>&, const ContextPtr&,
                                                       ChoiceOptions, const CsrMatrix<float>*, bool);
template ChosenMatrix<double> make_chosen_matrix<double>(const CsrMatrix<double>&, const ContextPtr&,
                                                         ChoiceOptions, const CsrMatrix<double>*, bool);
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
  const std::string lines = detail::lines_text(forecast);
  const double products = options.products(), saved = products * (1 - forecast.product_ratio);
  if (saved <= order_products)
    return {"none",
            fmt::format(
                "{}: {:.0f} products would save the time of {:.0f}, and an order takes the time of {:.0f}",
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
                                  fmt::join(words, ", "), detail::did_you_mean(word, words)));
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
        "the matrix is {} x {}; an order ({}) applies to rows and columns, so the matrix must be square; "
        "take none",
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
