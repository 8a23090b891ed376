#include "apps/compare/rounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "apps/command/interrupt.hpp"
#include "apps/problem/system.hpp"
#include "core/blas1.hpp"
#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "operators/narrow_values.hpp"
#include "solvers/options.hpp"

namespace protean::apps {
namespace {

constexpr std::size_t most_rounds = 3;
// Seconds after which a variant is measured no more, and seconds for its products in a round.
constexpr double long_enough = 4, for_products = 0.5;
// A round takes up to that many times as long as the one before.
constexpr double uncertain = 1.2;

// Keeps at most 400 points of a history, enough for a picture: when it is full, every second point is
// dropped.
class Recorder final : public SolveObserver {
 public:
  explicit Recorder(std::function<void(const IterationInfo&)> show) : show_(std::move(show)) {}
  bool on_iteration(const IterationInfo& info) override {
    last_ = {info.seconds, info.relative_residual};
    if (info.iteration % every_ == 0) {
      if (points_.size() == most) {
        std::size_t kept = 0;
        for (std::size_t i = 0; i < points_.size(); i += 2) points_[kept++] = points_[i];
        points_.resize(kept);
        every_ *= 2;
      }
      if (info.iteration % every_ == 0) points_.push_back(last_);
    }
    show_(info);
    return !InterruptGuard::asked();
  }
  std::vector<HistoryPoint> take() {
    if (!points_.empty() && points_.back().seconds != last_.seconds) points_.push_back(last_);
    return std::move(points_);
  }

 private:
  static constexpr std::size_t most = 400;
  std::function<void(const IterationInfo&)> show_;
  std::vector<HistoryPoint> points_;
  HistoryPoint last_;
  std::int64_t every_ = 1;
};

// For products in several rounds the spread is taken over all of them.
Timing pooled(const std::vector<Timing>& rounds) {
  std::vector<double> all;
  int runs = 0;
  for (const Timing& round : rounds)
    all.insert(all.end(), {round.lower, round.median, round.upper}), runs += round.runs;
  Timing timing = timing_of(all);
  timing.runs = runs;
  return timing;
}

double last_round(const VariantRun& run) {
  return run.converts.back() + run.setups.back() + run.solves.back();
}
double all_rounds(const VariantRun& run) {
  const auto sum = [](const std::vector<double>& all) {
    return std::accumulate(all.begin(), all.end(), 0.0);
  };
  return sum(run.converts) + sum(run.setups) + sum(run.solves);
}

bool is_csr(const Variant& variant) { return variant.format == "csr" && variant.kernel == "native"; }

void end(Variant& variant, const char* status, std::string why) {
  variant.status = status, variant.why = std::move(why);
}

}  // namespace

Rounds::Rounds(const Problem& problem, Progress& progress, const Clock& clock, double budget)
    : problem_(problem), progress_(progress), clock_(clock), budget_(budget) {}

double Rounds::left() const {
  return budget_ > 0 ? budget_ - clock_.total() : std::numeric_limits<double>::infinity();
}

void Rounds::operator()(std::vector<VariantRun>& runs) {
  if (budget_ > 0)
    products_within(runs), solves_within(runs);
  else
    measure_all(runs);
  repeat(runs);
}

void Rounds::measure_all(std::vector<VariantRun>& runs) {
  const double begun = clock_.total();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::string now = fmt::format("{} of {}: {}", i + 1, runs.size(), runs[i].variant->name(true));
    if (i > 0)
      now += fmt::format(", about {} left", duration((clock_.total() - begun) / static_cast<double>(i) *
                                                     static_cast<double>(runs.size() - i)));
    attempt(runs[i], [&] {
      stage(now + ", converting");
      if (!admitted(runs[i])) return;
      const Matrix A = convert(runs[i]);
      stage(now + ", products");
      product(runs[i], *A, for_products);
      const auto M = setup(runs[i], *A);
      solve(runs[i], *A, M.get(), left());
    });
  }
}

void Rounds::products_within(std::vector<VariantRun>& runs) {
  const double until = clock_.total() + std::max(left(), 0.0) / 2;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Variant& variant = *runs[i].variant;
    const double seconds = (until - clock_.total()) / static_cast<double>(runs.size() - i);
    if (seconds <= 0) {
      variant.not_run = "budget";
      end(variant, "failed", fmt::format("the budget of {} was spent before it", duration(budget_)));
      continue;
    }
    attempt(runs[i], [&] {
      stage(fmt::format("{} of {}: {}, converting", i + 1, runs.size(), variant.name(true)));
      if (!admitted(runs[i])) return;
      const Matrix A = convert(runs[i]);
      product(runs[i], *A, std::min(seconds / 2, for_products));
    });
  }
}

void Rounds::solves_within(std::vector<VariantRun>& runs) {
  std::vector<VariantRun*> order;
  for (VariantRun& run : runs)
    if (run.variant->status.empty()) order.push_back(&run);
  // Of a solve that has ended, which is also the expectation for solves in other formats; null: no solve has ended.
  const Variant* known = nullptr;
  double products = 1;
  const auto expected = [&](const Variant& v) { return v.convert.median + products * v.product.median; };
  for (std::size_t i = 0; i < order.size(); ++i) {
    std::sort(order.begin() + static_cast<std::ptrdiff_t>(i), order.end(),
              [&](const VariantRun* a, const VariantRun* b) {
                if (!known && is_csr(*a->variant) != is_csr(*b->variant)) return is_csr(*a->variant);
                return expected(*a->variant) < expected(*b->variant);
              });
    VariantRun& run = *order[i];
    Variant& variant = *run.variant;
    const double needed = known ? variant.convert.median + known->setup.median + known->solve.median : 0;
    if (left() <= needed) {
      variant.not_run = "budget";
      end(variant, "failed",
          known
              ? fmt::format("its solve was left out: it takes about {}, and {} of the budget of {} are left",
                            duration(needed), duration(std::max(left(), 0.0)), duration(budget_))
              : fmt::format("its solve was left out: the budget of {} was spent before it",
                            duration(budget_)));
      continue;
    }
    attempt(run, [&] {
      stage(fmt::format("solve {} of {}: {}", i + 1, order.size(), variant.name(true)));
      run.converts.clear();
      const Matrix A = convert(run);
      const auto M = setup(run, *A);
      solve(run, *A, M.get(), left());
    });
    if (!known && variant.status == "converged") {
      known = &variant;
      products = static_cast<double>(variant.iterations) * products_of(problem_.settings.method);
    }
  }
}

void Rounds::repeat(std::vector<VariantRun>& runs) {
  for (std::size_t round = 2; round <= most_rounds; ++round)
    for (VariantRun& run : runs) {
      if ((interrupted_ = interrupted_ || InterruptGuard::asked())) return;
      if (!run.variant->ran() || run.solves.size() + 1 != round || all_rounds(run) > long_enough ||
          left() < uncertain * last_round(run))
        continue;
      stage(fmt::format("round {} of {}: {}", round, most_rounds, run.variant->name(true)));
      try {
        again(run);
      } catch (const Error& error) {
        notes_.push_back(fmt::format("round {} of {} failed, and the one before counts: {}", round,
                                     run.variant->name(true), error.what()));
      }
    }
}

// Measurements count only if the round comes to its end.
void Rounds::again(VariantRun& run) {
  VariantRun next = run;
  Variant variant = *run.variant;
  next.variant = &variant;
  const Matrix A = convert(next);
  product(next, *A, for_products / 2);
  const auto M = setup(next, *A);
  if (!solve(next, *A, M.get(), left()) || !variant.ran()) return;
  next.variant = run.variant;
  *run.variant = std::move(variant), run = std::move(next);
}

void Rounds::attempt(VariantRun& run, const std::function<void()>& work) {
  Variant& variant = *run.variant;
  if (InterruptGuard::asked()) {
    interrupted_ = true, variant.not_run = "interrupted";
    return end(variant, "failed", "the comparison was interrupted before it");
  }
  try {
    work();
  } catch (const FormatRefused& error) {
    end(variant, "refused", error.what());
  } catch (const NotAvailable& error) {
    end(variant, "refused", error.what());
  } catch (const OutOfMemory& error) {
    end(variant, "refused", error.what());
  } catch (const BadArgument& error) { end(variant, "refused", error.what()); } catch (const Error& error) {
    end(variant, "failed", error.what());
  }
}

bool Rounds::admitted(VariantRun& run) const {
  Variant& variant = *run.variant;
  const FormatEntry& entry = *run.entry;
  const SpaceSystem& place = *run.place;
  variant.parameters = resolve_params(
      entry, problem_.settings.format == entry.id ? problem_.settings.parameters : FormatParams{},
      &find_kernel(entry, variant.kernel, place.context->space()));
  std::size_t value_bytes = sizeof(double);
  try {
    value_bytes = detail::stored_value_bytes(
        detail::value_storage(entry, variant.kernel, variant.parameters, *place.context, place.csr),
        value_bytes);
  } catch (const FormatRefused& refused) {
    end(variant, "refused", refused.reason());
    return false;
  }
  const Admission admission =
      admit(entry, *place.context, place.csr.pattern, variant.parameters, value_bytes);
  variant.predicted_bytes = admission.bytes, variant.stored_values = admission.stored_values;
  if (!admission.ok) end(variant, "refused", admission.reason);
  return admission.ok;
}

// Each one allocates new memory, because the user pays for the first access to new memory, too.
Rounds::Matrix Rounds::convert(VariantRun& run) const {
  Variant& variant = *run.variant;
  Clock clock;
  Matrix A = make_matrix(*run.entry, run.place->csr, run.place->context, variant.parameters, variant.kernel);
  run.place->context->synchronize();
  run.converts.push_back(clock.lap());
  variant.convert = timing_of(run.converts);
  variant.matrix_bytes = A->bytes();
  return A;
}

void Rounds::product(VariantRun& run, const AssembledMatrix<double>& A, double seconds) const {
  const SpaceSystem& place = *run.place;
  Vector<double> y(place.context, place.csr.rows());
  run.products.push_back(measure(*place.context, [&] { A.apply(place.b, y); }, {.seconds = seconds}));
  run.variant->product = pooled(run.products);
}

// The first setup may initialise a library. A user pays for that once, not in every solve.
std::unique_ptr<Preconditioner<double>> Rounds::setup(VariantRun& run,
                                                      const AssembledMatrix<double>& A) const {
  constexpr double soon_again = 0.5;  // seconds
  std::unique_ptr<Preconditioner<double>> M;
  Clock clock;
  for (bool first = run.setups.empty(), more = true; more; first = false) {
    M.reset();
    (void)clock.lap();
    M = make_preconditioner(problem_.settings, A);
    if (M) M->ensure(A);
    A.context()->synchronize();
    const double seconds = clock.lap();
    more = first && seconds < std::min(soon_again, left() / 4);
    if (!more) run.setups.push_back(seconds);
  }
  run.variant->setup = timing_of(run.setups);
  return M;
}

bool Rounds::solve(VariantRun& run, const AssembledMatrix<double>& A, Preconditioner<double>* M,
                   double seconds) {
  const SpaceSystem& place = *run.place;
  Variant& variant = *run.variant;
  SolverOptions options = problem_.settings.solver;
  // Of a comparison of host and device.
  if (place.context->space() == Space::host)
    for (const Option<SolverOptions>& option : solver_options())
      if (option.on_device) option.set(options, option.default_value());
  options.stopping.max_seconds = std::min(options.stopping.max_seconds, std::max(seconds, 0.05));
  const auto solver = make_solver<double>(problem_.settings.method, options);
  Vector<double> x(place.context, place.x0.size());
  Recorder recorder([&](const IterationInfo& info) {
    if (progress_.shown()) progress_.iteration(info, options.stopping);
  });
  copy<double>(*place.context, place.x0, x);
  place.context->synchronize();
  const SolveReport report = solver->solve(A, place.b, x, M, &recorder);
  if (report.reason == StopReason::interrupted) {
    interrupted_ = true;
    variant.not_run = "interrupted";
    end(variant, "failed", "the comparison was interrupted in its solve");
    return false;
  }
  if (report.reason == StopReason::time_limit &&
      options.stopping.max_seconds < problem_.settings.solver.stopping.max_seconds) {
    // Its time is not the time of a solve, so it is not compared with others.
    variant.not_run = "budget";
    end(variant, "failed",
        fmt::format("the budget of {} ended its solve at iteration {}, relative residual {:.1e}",
                    duration(budget_), report.iterations, report.true_relative));
    return true;
  }
  const bool fastest =
      run.solves.empty() || report.seconds < *std::min_element(run.solves.begin(), run.solves.end());
  run.solves.push_back(report.seconds);
  if (fastest) variant.history = recorder.take();
  variant.solve = timing_of(run.solves);
  variant.iterations = report.iterations, variant.steps = report.steps;
  variant.true_relative = report.true_relative;
  end(variant, report.converged() ? "converged" : "not-converged",
      report.converged() ? std::string()
                         : fmt::format("{}{}{}", to_string(report.reason), report.detail.empty() ? "" : ": ",
                                       report.detail));
  return true;
}

}  // namespace protean::apps
