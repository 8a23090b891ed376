#include "life/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace protean::test::life {
namespace {

double norm(const std::vector<long double>& v) {
  long double sum = 0;
  for (const long double value : v) sum += value * value;
  return static_cast<double>(std::sqrt(sum));
}

// ||b - A x||, and a bound on what rounding in T can make of it.
struct TrueResidual {
  double norm = 0, rounding = 0;
};

template <class T>
TrueResidual true_residual(const Numbers<T>& numbers, const std::vector<T>& b, const std::vector<T>& x) {
  const std::size_t n = b.size();
  std::vector<long double> r(b.begin(), b.end()), bounds(n);
  std::vector<int> terms(n);
  for (std::size_t i = 0; i < n; ++i) bounds[i] = std::abs(r[i]);
  for (const Triplet<T>& a : numbers.terms) {
    const long double one = static_cast<long double>(a.value) * x[a.col];
    r[a.row] -= one, bounds[a.row] += std::abs(one), ++terms[a.row];
  }
  // Wilkinson's bound for each row (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM 2002,
  // section 3.1), then the bound of the sum of squares.
  constexpr long double eps = std::numeric_limits<T>::epsilon();
  for (std::size_t i = 0; i < n; ++i) bounds[i] *= 2 * (terms[i] + 2) * eps;
  TrueResidual result{norm(r), norm(bounds)};
  result.rounding += static_cast<double>(eps) * static_cast<double>(n + 2) * result.norm;
  return result;
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// Numbers of two reports by name.
std::string report_difference(const SolveReport& a, const SolveReport& b) {
  const std::tuple<const char*, double, double> numbers[] = {
      {"the iterations", static_cast<double>(a.iterations), static_cast<double>(b.iterations)},
      {"the restarts", static_cast<double>(a.restarts), static_cast<double>(b.restarts)},
      {"||b||", a.rhs_norm, b.rhs_norm},
      {"the initial residual", a.initial_residual, b.initial_residual},
      {"the recurrence residual", a.recurrence_residual, b.recurrence_residual},
      {"the true residual", a.true_residual, b.true_residual},
      {"the relative recurrence residual", a.recurrence_relative, b.recurrence_relative},
      {"the relative true residual", a.true_relative, b.true_relative}};
  for (const auto& [name, one, other] : numbers)
    if (!same(one, other)) return fmt::format("{}: {} and {} with fresh objects", name, one, other);
  if (a.steps != b.steps)
    return fmt::format("the steps ran as '{}' and '{}' with fresh objects", a.steps, b.steps);
  if (a.detail != b.detail)
    return fmt::format("the detail is '{}' and '{}' with fresh objects", a.detail, b.detail);
  return {};
}

std::string seen_difference(const std::vector<IterationInfo>& a, const std::vector<IterationInfo>& b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (a[i].iteration != b[i].iteration || a[i].restarts != b[i].restarts ||
        !same(a[i].residual, b[i].residual) || !same(a[i].relative_residual, b[i].relative_residual))
      return fmt::format(
          "call {} of the observer: iteration {}, residual {}, restarts {}; {}, {}, {} with fresh objects", i,
          a[i].iteration, a[i].residual, a[i].restarts, b[i].iteration, b[i].residual, b[i].restarts);
  if (a.size() != b.size())
    return fmt::format("the observer was called {} times and {} times with fresh objects", a.size(),
                       b.size());
  return {};
}

template <class T>
std::string vector_difference(const std::vector<T>& a, const std::vector<T>& b, const char* name) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(&a[i], &b[i], sizeof(T)) != 0)
      return fmt::format("{}[{}]: {} and {} with fresh objects", name, i, a[i], b[i]);
  return {};
}

bool limited(StopReason reason) { return reason == StopReason::max_iterations; }

// Iterations that rounding may cost or save. Recurrences of BiCGStab and restarts of GMRES are sensitive.
double slack(std::string_view method, std::int64_t a, std::int64_t b) {
  const auto more = static_cast<double>(std::max(a, b));
  return method == "cg" ? 3 + 0.1 * more : 10 + 0.5 * more;
}

template <class T>
std::string answer_difference(const Outcome<T>& kept, const Outcome<T>& fresh, const Solved<T>& solved) {
  const auto values = numbers<T>(solved.system, solved.generation);
  if (!std::isfinite(kept.report.true_residual) || !std::isfinite(fresh.report.true_residual)) return {};
  std::vector<long double> between(kept.x.begin(), kept.x.end());
  for (std::size_t i = 0; i < between.size(); ++i) between[i] -= fresh.x[i];
  const double most =
      (true_residual(*values, solved.b, kept.x).norm + true_residual(*values, solved.b, fresh.x).norm) /
      values->margin;
  if (norm(between) > most)
    return fmt::format("x is {} away from that of fresh objects; the residuals allow {}", norm(between),
                       most);
  return {};
}

double goal_of(const StoppingRule& rule, const SolveReport& report) {
  const double baseline = rule.baseline == Baseline::rhs ? report.rhs_norm : report.initial_residual;
  return std::max(rule.relative_tolerance * baseline, rule.absolute_tolerance);
}

// Rounding alone decides whether a solve whose residual stays just above its goal stagnates there.
bool at_the_goal(const SolveReport& report, const StoppingRule& rule) {
  return report.converged() ||
         (report.reason == StopReason::stagnation && report.true_residual <= 4 * goal_of(rule, report));
}

template <class T>
std::string rounding_difference(Owed owed, const Outcome<T>& kept, const Outcome<T>& fresh,
                                const Solved<T>& solved) {
  const SystemInfo& system = systems()[solved.system];
  const SolveReport &a = kept.report, &b = fresh.report;
  const std::string_view method = solved.method;
  // What a method does with a system it is not for depends on rounding; so does a breakdown of BiCGStab.
  const bool suited =
      numbers<T>(solved.system, solved.generation)->margin > 0 && (method != "cg" || system.symmetric);
  const bool both = a.converged() && b.converged();
  if (!suited) return {};
  if (owed == Owed::answer) return answer_difference(kept, fresh, solved);
  if (!both && at_the_goal(a, solved.rule) && at_the_goal(b, solved.rule)) return {};
  if (!both && a.reason != b.reason && !limited(a.reason) && !limited(b.reason) && method == "cg")
    return fmt::format("it ended by {} and by {} with fresh objects", to_string(a.reason),
                       to_string(b.reason));
  const auto apart = static_cast<double>(std::abs(a.iterations - b.iterations));
  if ((both || method == "cg") && apart > slack(method, a.iterations, b.iterations))
    return fmt::format("{} iterations ({}) and {} with fresh objects ({})", a.iterations, to_string(a.reason),
                       b.iterations, to_string(b.reason));
  return answer_difference(kept, fresh, solved);
}

}  // namespace

Owed owed(const OperatorSpec& before, const SolvePlan& plan, int threads) {
  const bool of_elements = before.kind == Kind::elements || before.kind == Kind::adaptive_elements;
  const bool adaptive = before.kind == Kind::adaptive || before.kind == Kind::adaptive_elements;
  const bool by_time = adaptive && (plan.change == Change::beside || plan.change == Change::automatic);
  // Chebyshev's interval follows from products, in the format that the operator had when it was set up.
  if (adaptive && plan.preconditioning == Preconditioning::chebyshev) return Owed::rounding;
  const bool atomic = of_elements && before.scatter == ElementScatter::atomic;
  if (atomic && (threads > 1 || on_gpu(before.place))) return Owed::rounding;
  switch (before.place) {
    case Place::ordered:
      return Owed::bits;
    case Place::host:
    case Place::one_thread:
    case Place::simulated:
      return by_time ? Owed::rounding : Owed::bits;
    case Place::device:
      return Owed::rounding;
    case Place::ordered_device: {
      const bool foreseen = (plan.event == Event::none || plan.exact) && plan.throw_at_product == 0 &&
                            plan.change != Change::cancelled && plan.change != Change::left;
      return by_time || !foreseen ? Owed::rounding : Owed::bits;
    }
  }
  return Owed::rounding;
}

template <class T>
std::string lie(const Outcome<T>& outcome, const Solved<T>& solved) {
  const SolveReport& report = outcome.report;
  if (!outcome.thrown.empty() || report.reason == StopReason::zero_right_hand_side) return {};
  // Values that came with iteration 0 are later than the residual which ended the solve there.
  if (outcome.event_happened && report.iterations == 0) return {};
  const auto values = numbers<T>(solved.system, solved.generation);
  if (!std::isfinite(report.true_residual))
    return report.converged() ? "it converged with a residual that is not finite" : std::string();
  const TrueResidual truth = true_residual(*values, solved.b, outcome.x);
  if (!(std::abs(truth.norm - report.true_residual) <= truth.rounding))
    return fmt::format("||b - A x|| is {} +- {}, the report says {} ({})", truth.norm, truth.rounding,
                       report.true_residual, to_string(report.reason));
  if (!report.converged()) return {};
  const double goal = goal_of(solved.rule, report);
  if (!(truth.norm <= goal + truth.rounding))
    return fmt::format("it converged ({}) with ||b - A x|| = {}, above {}", to_string(report.reason),
                       truth.norm, goal);
  return {};
}

template <class T>
std::string difference(Owed owed, const Outcome<T>& kept, const Outcome<T>& fresh, const Solved<T>& solved) {
  if (kept.thrown != fresh.thrown) {
    // Whether an iteration or a product is reached at all may hang on rounding.
    if (owed != Owed::bits && (kept.thrown.empty() || fresh.thrown.empty())) return {};
    return fmt::format("thrown was '{}' and '{}' with fresh objects", kept.thrown, fresh.thrown);
  }
  if (owed != Owed::bits)
    return kept.thrown.empty() ? rounding_difference(owed, kept, fresh, solved) : std::string();
  if (std::string text = seen_difference(kept.seen, fresh.seen); !text.empty()) return text;
  if (!kept.thrown.empty()) return {};
  if (kept.report.reason != fresh.report.reason)
    return fmt::format("it ended by {} and by {} with fresh objects", to_string(kept.report.reason),
                       to_string(fresh.report.reason));
  if (std::string text = report_difference(kept.report, fresh.report); !text.empty()) return text;
  return vector_difference(kept.x, fresh.x, "x");
}

template <class T>
std::string difference(Owed owed, const Product<T>& product, const std::vector<T>& kept,
                       const std::vector<T>& fresh, const Numbers<T>& numbers) {
  if (owed == Owed::bits)
    if (std::string text = vector_difference(kept, fresh, "y"); !text.empty()) return text;
  const std::size_t n = kept.size();
  std::vector<long double> sum(n), bounds(n);
  std::vector<int> terms(n);
  for (std::size_t i = 0; i < n && product.beta != T(0); ++i)
    sum[i] = static_cast<long double>(product.beta) * product.y0[i], bounds[i] = std::abs(sum[i]);
  for (const Triplet<T>& a : numbers.terms) {
    const long double one = static_cast<long double>(product.alpha) * a.value * product.x[a.col];
    sum[a.row] += one, bounds[a.row] += std::abs(one), ++terms[a.row];
  }
  for (std::size_t i = 0; i < n; ++i) {
    const long double most = 2 * (terms[i] + 2) * static_cast<long double>(std::numeric_limits<T>::epsilon());
    if (std::isfinite(bounds[i]) && !(std::abs(kept[i] - sum[i]) <= most * bounds[i]))
      return fmt::format("row {} of the product is {} instead of {}", i, kept[i],
                         static_cast<double>(sum[i]));
  }
  return {};
}

#define LIFE_INSTANTIATE(T)                                                                              \
  template std::string lie(const Outcome<T>&, const Solved<T>&);                                         \
  template std::string difference(Owed, const Outcome<T>&, const Outcome<T>&, const Solved<T>&);         \
  template std::string difference(Owed, const Product<T>&, const std::vector<T>&, const std::vector<T>&, \
                                  const Numbers<T>&);
LIFE_INSTANTIATE(float)
LIFE_INSTANTIATE(double)

}  // namespace protean::test::life
