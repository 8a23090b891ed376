#include "apps/compare/combinations.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "apps/command/files.hpp"
#include "apps/command/interrupt.hpp"
#include "apps/command/lists.hpp"
#include "apps/machine/machine_file.hpp"
#include "apps/problem/settings.hpp"
#include "apps/problem/system.hpp"
#include "core/background.hpp"
#include "core/blas1.hpp"
#include "core/error.hpp"
#include "core/statistics.hpp"
#include "formats/choose.hpp"
#include "preconditioners/options.hpp"
#include "systems/system_matrix.hpp"
#include "systems/system_solver.hpp"

namespace protean::apps {
namespace {

constexpr std::size_t rounds_at_most = 3;
// Seconds after which a combination is measured no more.
constexpr double enough_seconds = 4;

class Watch final : public SolveObserver {
 public:
  Watch(Progress& progress, const StoppingRule& rule) : progress_(progress), rule_(rule) {}
  bool on_iteration(const IterationInfo& info) override {
    progress_.iteration(info, rule_);
    return !InterruptGuard::asked();
  }

 private:
  Progress& progress_;
  const StoppingRule& rule_;
};

// The seconds of the rounds of a combination.
struct RoundTimes {
  std::vector<double> convert, setup, solve, total;
};

class CombinationComparer {
 public:
  CombinationComparer(Problem problem, const CombinationChoice& choice, int threads, Progress& progress,
                      double seconds)
      : choice_(choice), progress_(progress), seconds_(seconds) {
    result_.problem = std::move(problem);
    if (threads > 0) result_.problem.op.threads = threads;
  }

  Combinations operator()() {
    Problem& problem = result_.problem;
    require_comparable();
    CommandFiles files;
    files.reads(problem);
    files.require_inputs();
    host_ = Context::host(problem.op.threads, {.deterministic = problem.op.deterministic});
    result_.threads = host_->threads();
    progress_.stage(problem.matrix.file ? "reading the matrix" : "making the matrix");
    system_ = make_system(host_, problem);
    result_.rows = system_.csr.rows(), result_.nonzeros = system_.csr.nonzeros();
    read_preconditioner_files(host_, problem, result_.rows);
    result_.read_seconds = clock_.total();
    std::vector<Space> spaces = choice_.spaces;
    if (spaces.empty()) spaces.push_back(problem.op.space);
    for (const Space space : spaces) compare_in(space);
    progress_.clear();
    find_best();
    return std::move(result_);
  }

 private:
  void require_comparable() {
    Problem& problem = result_.problem;
    if (!problem.settings.parts.empty())
      throw BadArgument(
          "--preconditioners compares single preconditioners: remove preconditioner.parts from the problem");
    if (problem.settings.policy == "auto" || !problem.settings.schedule.empty())
      result_.notes.emplace_back("`schedule` is not followed; format auto changes by its own rule");
    problem.schedule = {};
    const OutputSpec& output = problem.output;
    if (output.any())
      result_.notes.emplace_back(
          "`output` is not written: `protean solve` writes those files. A comparison has --report and --csv");
    problem.output = {};
  }

  void compare_in(Space space) {
    space_ = space;
    context_ = host_;
    if (space == Space::device) context_ = device_context({.deterministic = host_->deterministic()});
    csr_ = space == Space::device ? upload(context_, system_.csr) : system_.csr;
    b_ = Vector<double>(context_, system_.b.size()), x_ = Vector<double>(context_, system_.b.size());
    copy<double>(*context_, system_.b, b_);
    const std::size_t first = result_.all.size();
    add("auto", "auto");
    for (const std::string& name : choice_.preconditioners)
      if (name != "auto") add(name, "auto");
    measure(first);
    const std::size_t second = result_.all.size();
    const double limit = worth_formats * best_total();
    std::vector<std::string> worth;
    for (std::size_t i = first; i < second; ++i)
      if (const Combination& one = result_.all[i]; one.status == "converged" && one.total.median <= limit)
        worth.push_back(one.preconditioner);
    for (const std::string& format : formats())
      for (const std::string& name : worth) add(name, format);
    if (worth.size() < second - first && result_.all.size() > second)
      result_.notes.push_back(fmt::format(
          "formats are compared on the {} for {} of {} preconditioners: the ones that take at most {:g} "
          "times as long as the best one with format auto",
          to_string(space), worth.size(), second - first, worth_formats));
    measure(second);
    repeat(first);
  }

  void add(std::string preconditioner, std::string format) {
    Combination one;
    one.is_default = preconditioner == "auto" && format == "auto";
    one.preconditioner = std::move(preconditioner), one.format = std::move(format), one.space = space_;
    result_.all.push_back(std::move(one));
    rounds_.emplace_back();
  }

  // Named, or the best by prediction.
  std::vector<std::string> formats() {
    if (!choice_.formats.empty()) return choice_.formats;
    std::vector<std::string> names;
    const ChosenMachine machine = choose_machine({});
    ChoiceOptions question = choice_options(result_.problem, space_);
    question.symmetric = !first_asymmetry(*host_, system_.csr.pattern, system_.csr.values);
    question.machine = machine.table();
    for (const FormatEntry* entry : shortlist(
             rank_formats(system_.csr.pattern, machine.model(space_), question), {},
             [](const FormatEntry&) { return true; }, most_formats))
      names.emplace_back(entry->id);
    return names;
  }

  double left() const {
    return seconds_ > 0 ? seconds_ - clock_.total() : std::numeric_limits<double>::infinity();
  }
  double best_total() const {
    double best = std::numeric_limits<double>::infinity();
    for (const Combination& one : result_.all)
      if (one.space == space_ && one.status == "converged") best = std::min(best, one.total.median);
    return best;
  }

  void measure(std::size_t first) {
    for (std::size_t i = first; i < result_.all.size(); ++i) {
      Combination& one = result_.all[i];
      progress_.stage(fmt::format("{} of {}: {}", i + 1, result_.all.size(), one.name(true)));
      if (InterruptGuard::asked()) {
        result_.interrupted = true;
        leave_out(one, "interrupted", "the comparison was interrupted before it");
      } else if (left() <= 0) {
        result_.out_of_time = true;
        leave_out(one, "budget", fmt::format("the budget of {} was spent before it", duration(seconds_)));
      } else {
        attempt(i);
      }
    }
  }

  // The first round may have initialised a library, which a user pays for once.
  void repeat(std::size_t first) {
    for (std::size_t round = 2; round <= rounds_at_most; ++round)
      for (std::size_t i = first; i < result_.all.size(); ++i) {
        Combination& one = result_.all[i];
        const std::vector<double>& totals = rounds_[i].total;
        if (!one.ran() || !one.not_run.empty() || totals.size() + 1 != round ||
            std::accumulate(totals.begin(), totals.end(), 0.0) > enough_seconds ||
            left() < 1.5 * totals.back())
          continue;
        if ((result_.interrupted = result_.interrupted || InterruptGuard::asked())) return;
        progress_.stage(fmt::format("round {} of {}: {}", round, rounds_at_most, one.name(true)));
        attempt(i, true);
      }
  }

  static void leave_out(Combination& one, const char* not_run, std::string why) {
    one.not_run = not_run, one.status = "failed", one.why = std::move(why);
  }

  // A later round that does not come to its end changes nothing.
  void attempt(std::size_t i, bool again = false) {
    Combination one = result_.all[i];
    RoundTimes rounds = rounds_[i];
    try {
      solve(one, rounds);
    } catch (const FormatRefused& error) {
      one.status = "refused", one.why = error.what();
    } catch (const NotAvailable& error) {
      one.status = "refused", one.why = error.what();
    } catch (const OutOfMemory& error) {
      one.status = "refused", one.why = error.what();
    } catch (const BadArgument& error) {
      one.status = "refused", one.why = error.what();
    } catch (const Error& error) { one.status = "failed", one.why = error.what(); }
    if (again && (!one.ran() || !one.not_run.empty())) {
      if (one.not_run != "interrupted")
        result_.notes.push_back(
            fmt::format("a later round of {} did not come to its end, and the ones before "
                        "count: {}",
                        one.name(true), one.why));
      return;
    }
    result_.all[i] = std::move(one), rounds_[i] = std::move(rounds);
  }

  void solve(Combination& one, RoundTimes& rounds) {
    const Problem& problem = result_.problem;
    const ChosenMachine machine = choose_machine(problem.schedule.machine.path);
    SolveSettings settings = settings_of(problem, context_, machine.table());
    settings.preconditioner = one.preconditioner, settings.format = one.format;
    settings.preconditioning = preconditioner_options_read_by(one.preconditioner, settings.preconditioning);
    if (one.format != problem.settings.format) settings.parameters = {}, settings.kernel = {};
    const double asked = settings.solver.stopping.max_seconds;
    const double slow = std::max(slow_factor * best_total(), 1.0);
    settings.solver.stopping.max_seconds = std::min({asked, slow, std::max(left(), 0.05)});
    const StoppingRule rule = settings.solver.stopping;
    const detail::StopQuestion question(&InterruptGuard::asked);
    copy<double>(*context_, system_.x0, x_);
    context_->synchronize();

    Clock clock;
    SystemMatrix<double> matrix(context_, csr_, false);
    matrix.set_format(settings.format, settings.parameters, settings.kernel);
    matrix.set_order(settings.order);
    SystemSolver<double> solver(std::move(settings));
    Watch watch(progress_, rule);
    const SolveResult result = solver.solve(matrix, b_, x_, &watch);
    context_->synchronize();
    const double total = clock.lap();

    one.method = result.method, one.last_preconditioner = result.preconditioner;
    one.last_format = result.format;
    one.changes.clear();
    for (const PreconditionerChange& change : result.preconditioner_changes)
      if (change.action != PreconditionerChange::Action::refused)
        one.changes.push_back(fmt::format("{} at iteration {}", change.to, change.iteration));
    for (const SwitchRecord& change : result.switches)
      one.changes.push_back(fmt::format("{} at iteration {}", change.to, change.iteration));
    one.iterations = result.report.iterations, one.true_relative = result.report.true_relative;
    const SolveReport& report = result.report;
    one.status = report.converged() ? "converged" : "not-converged";
    one.why = report.converged() ? std::string()
                                 : fmt::format("{}{}{}", to_string(report.reason),
                                               report.detail.empty() ? "" : ": ", report.detail);
    if (report.reason == StopReason::interrupted) {
      result_.interrupted = true;
      return leave_out(one, "interrupted", "the comparison was interrupted in its solve");
    }
    if (report.reason == StopReason::time_limit && rule.max_seconds < asked) {
      if (rule.max_seconds < slow) {
        result_.out_of_time = true;
        return leave_out(one, "budget",
                         fmt::format("the budget of {} ended its solve at iteration {}", duration(seconds_),
                                     report.iterations));
      }
      return leave_out(
          one, "slow",
          fmt::format("its solve was ended after {} at iteration {}, relative residual {:.1e}: "
                      "the best takes {}",
                      duration(slow), report.iterations, report.true_relative, duration(best_total())));
    }
    rounds.convert.push_back(result.order_seconds + result.convert_seconds);
    rounds.setup.push_back(result.setup_seconds), rounds.solve.push_back(report.seconds);
    rounds.total.push_back(total);
    one.convert = timing_of(rounds.convert), one.setup = timing_of(rounds.setup);
    one.solve = timing_of(rounds.solve), one.total = timing_of(rounds.total);
  }

  void find_best() {
    for (std::size_t i = 0; i < result_.all.size(); ++i)
      if (result_.all[i].status == "converged" &&
          (result_.best < 0 ||
           result_.all[i].total.median < result_.all[static_cast<std::size_t>(result_.best)].total.median))
        result_.best = static_cast<int>(i);
  }

  const CombinationChoice& choice_;
  Progress& progress_;
  const double seconds_;
  Clock clock_;
  Combinations result_;
  std::vector<RoundTimes> rounds_;  // of result_.all
  ProblemSystem system_;
  ContextPtr host_, context_;  // context_: of the space that is compared now
  Space space_ = Space::host;
  CsrMatrix<double> csr_;
  Vector<double> b_, x_;
};

}  // namespace

std::string Combination::name(bool with_space) const {
  return fmt::format("{}, {}{}", preconditioner, format,
                     with_space && space == Space::device ? ", device" : "");
}

std::vector<std::string> preconditioners_named(const std::string& list) {
  std::vector<std::string> names;
  std::vector<std::string_view> known;
  for (const PreconditionerEntry& entry : preconditioners()) known.push_back(entry.id);
  if (list == "all") {
    for (const PreconditionerEntry& entry : preconditioners())
      if (entry.unavailable.empty()) names.emplace_back(entry.id);
    return names;
  }
  for (const std::string& word : words(list)) {
    if (std::find(known.begin(), known.end(), word) == known.end())
      throw BadArgument(
          fmt::format("--preconditioners: there is no preconditioner '{}'; there are {}, or all.{}", word,
                      fmt::join(known, ", "), detail::did_you_mean(word, known)));
    if (std::find(names.begin(), names.end(), word) == names.end()) names.push_back(word);
  }
  if (names.empty())
    throw BadArgument(
        fmt::format("--preconditioners names no preconditioner; give {} separated by commas, "
                    "or all",
                    fmt::join(known, ", ")));
  return names;
}

Combinations compare_combinations(Problem problem, const CombinationChoice& choice, int threads,
                                  Progress& progress, double seconds) {
  return CombinationComparer(std::move(problem), choice, threads, progress, seconds)();
}

}  // namespace protean::apps
