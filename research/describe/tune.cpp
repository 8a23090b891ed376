#include "research/describe/tune.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "core/vector.hpp"
#include "operators/measured_params.hpp"

namespace protean::research {
namespace {

std::vector<Sizes> all_sizes(const Description& d) {
  std::vector<Sizes> all{{}};
  for (const Variable& v : d.variables) {
    if (v.kind != Variable::Kind::size) continue;
    std::vector<Sizes> longer;
    for (const Sizes& sizes : all)
      for (const std::int64_t choice : v.choices) {
        longer.push_back(sizes);
        longer.back().emplace_back(v.name, choice);
      }
    all = std::move(longer);
  }
  return all;
}

}  // namespace

std::string Candidate::text(Target target) const {
  std::string text;
  for (const auto& [name, value] : sizes) text += fmt::format("{}={} ", name, value);
  return text + strategy.text(target);
}

std::vector<Candidate> candidates(const Description& d, Target target) {
  const std::vector<Nest> nests = plan(d);
  const bool tables = std::any_of(d.arrays.begin(), d.arrays.end(),
                                  [](const Array&a) { return a.extents.size() > 1; }),
             splits = std::any_of(nests.begin(), nests.end(), [](const Nest&n) { return n.split >= 0; }),
             loops = std::any_of(nests.begin(), nests.end(), [](const Nest&n) { return n.innermost >= 0; }),
             shared = std::any_of(nests.begin(), nests.end(), [](const Nest&n) { return n.shared; });
  const bool gpu = target == Target::cuda;
  const std::vector<int> one{1}, unrolls = loops ? std::vector{1, 4} : one,
                                 lanes = gpu && splits ? std::vector{1, 4, 8, 32} : one,
                                 threads = gpu ? std::vector{128, 256} : std::vector{256},
                                 chunks = gpu && shared ? std::vector{1, 8, 32} : one;
  std::vector<Candidate> all;
  for (const Sizes& sizes : all_sizes(d))
    for (const bool turned : {false, true}) {
      if (turned && !tables) continue;
      for (const int u : unrolls)
        for (const int l : lanes)
          for (const int t : threads)
            for (const int c : chunks) all.push_back({sizes, {turned, u, l, t, c}});
    }
  return all;
}

Tuned tune(const std::vector<Candidate>& candidates, const CandidateClock& clock) {
  Tuned result;
  for (const Candidate& candidate : candidates) {
    Tried tried{candidate, 0, {}};
    try {
      tried.seconds = clock(candidate);
    } catch (const NotAvailable&) { throw; } catch (const Error& error) {
      tried.refused = error.what();
    }
    if (tried.refused.empty() && (!result.best || tried.seconds < result.tried[*result.best].seconds))
      result.best = result.tried.size();
    result.tried.push_back(std::move(tried));
  }
  return result;
}

CandidateClock clock_for(const Description& description, const CsrMatrix<double>& matrix,
                         const ContextPtr& context) {
  return [&description, &matrix, context](const Candidate& candidate) {
    const GeneratedMatrix<double> made(with_sizes(description, candidate.sizes), matrix, context,
                                       candidate.strategy);
    Vector<double> x(context, matrix.cols()), y(context, matrix.rows());
    fill(*context, 1.0, x.view());
    return detail::clock_of(*context)([&] { made.apply(x.view(), y.view()); });
  };
}

}  // namespace protean::research
