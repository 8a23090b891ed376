#include "operators/measured_params.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <vector>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "core/vector.hpp"
#include "core/words.hpp"

namespace protean::detail {
namespace {

constexpr std::string_view word = "measured";
// bccoo-plus: 4 shapes, 6 numbers of slices, 4 tiles.
constexpr std::size_t most_combinations = 96;

struct Tried {
  std::string name;
  std::vector<std::string_view> values;
};

}  // namespace

bool any_measured(const FormatParams& params) {
  return std::any_of(params.all().begin(), params.all().end(),
                     [](const auto& one) { return one.second == word; });
}

FormatParams without_measured(std::span<const ParamDoc> docs, FormatParams params) {
  for (const ParamDoc& doc : docs)
    if (params.has(doc.name) && params.word(doc.name) == word)
      params.set(std::string(doc.name), std::string(doc.default_value));
  return params;
}

ProductClock clock_of(const Context& context) {
  return [&context](const std::function<void()>& product) {
    double least = std::numeric_limits<double>::max();
    constexpr int not_counted = 2, counted = 5;  // the first ones load the kernel and warm the caches
    for (int run = 0; run < not_counted + counted; ++run) {
      context.synchronize();
      const auto before = std::chrono::steady_clock::now();
      product();
      context.synchronize();
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - before;
      if (run >= not_counted) least = std::min(least, seconds.count());
    }
    return least;
  };
}

template <class T>
FormatParams measured_params(const FormatEntry& entry, std::string_view kernel, const CsrMatrix<T>& csr,
                             const ContextPtr& context, const FormatParams& params, std::size_t most_bytes,
                             const ProductClock& clock) {
  const Kernel& its = find_kernel(entry, kernel, context->space());
  std::vector<Tried> tried;
  std::size_t combinations = 1;
  for (const ParamDoc& doc : settable_params(entry, &its)) {
    if (!params.has(doc.name) || params.word(doc.name) != word) continue;
    Tried one{std::string(doc.name), {}};
    for (const std::string_view value : split(doc.choices, '|'))
      if (value != word && value != "auto" && value != "...") one.values.push_back(value);
    combinations *= one.values.size();
    tried.push_back(std::move(one));
  }
  if (combinations > most_combinations)
    throw BadArgument(
        fmt::format("{} combinations of parameters of format {} would be measured; at most {} are: "
                    "give one of them a value",
                    combinations, entry.id, most_combinations));
  Vector<T> x(context, csr.cols()), y(context, csr.rows());
  fill(*context, T(1), x.view());
  FormatParams best;
  double least = std::numeric_limits<double>::max();
  std::string reason;
  for (std::size_t i = 0; i < combinations; ++i) {
    FormatParams candidate = params;
    std::size_t left = i;
    for (const Tried& one : tried) {
      candidate.set(one.name, std::string(one.values[left % one.values.size()]));
      left /= one.values.size();
    }
    try {
      const auto matrix = make_matrix(entry, csr, context, candidate, its.name, most_bytes);
      const double seconds = clock([&] { matrix->apply(x.view(), y.view()); });
      if (seconds < least) least = seconds, best = std::move(candidate);
    } catch (const FormatRefused& refusal) { reason = refusal.reason(); } catch (const OutOfMemory& error) {
      reason = error.what();
    }
  }
  if (least == std::numeric_limits<double>::max())
    throw FormatRefused(entry.id, fmt::format("no value of the measured parameters is accepted: {}", reason));
  return best;
}

#define PROTEAN_INSTANTIATE(T)                                                                        \
  template FormatParams measured_params<T>(const FormatEntry&, std::string_view, const CsrMatrix<T>&, \
                                           const ContextPtr&, const FormatParams&, std::size_t,       \
                                           const ProductClock&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
