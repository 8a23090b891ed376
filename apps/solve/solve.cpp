#include "apps/solve/solve.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "apps/command/build_info.hpp"
#include "apps/command/clock.hpp"
#include "apps/command/files.hpp"
#include "apps/command/interrupt.hpp"
#include "apps/machine/machine_file.hpp"
#include "apps/problem/system.hpp"
#include "apps/report/output.hpp"
#include "apps/report/progress.hpp"
#include "apps/solve/report.hpp"
#include "core/io/atomic_file.hpp"
#include "core/io/matrix_market.hpp"
#include "core/statistics.hpp"
#include "formats/catalogue.hpp"
#include "formats/survey.hpp"
#include "solvers/auto_switcher.hpp"

namespace protean::apps {
namespace {

class Observer final : public SolveObserver {
 public:
  Observer(Progress& progress, const StoppingRule& rule, bool keep_history)
      : progress_(progress), rule_(rule), keep_history_(keep_history) {}
  bool on_iteration(const IterationInfo& info) override {
    if (keep_history_) history_.push_back(info);
    progress_.iteration(info, rule_);
    return !InterruptGuard::asked();
  }
  const std::vector<IterationInfo>& history() const noexcept { return history_; }

 private:
  Progress& progress_;
  const StoppingRule& rule_;
  bool keep_history_;
  std::vector<IterationInfo> history_;
};

const FormatEntry& pick_format(const CsrMatrix<double>& csr, const Problem& problem, std::string& reason) {
  const OperatorSpec& op = problem.op;
  if (problem.schedule.automatic && op.format == "auto") {
    reason = "csr, from which the policy changes when that pays";
    return find_format("csr");
  }
  if (op.format != "auto") return find_format(op.format);
  if (op.kernel != "native") {
    reason = fmt::format("csr, the plainest format, since kernel {} was asked for", op.kernel);
    return find_format("csr");
  }
  const FormatChoice choice =
      choose_format(csr.pattern, CostModel(choose_machine({}).table, op.space),
                    {.space = op.space,
                     .expected_iterations = op.expected_iterations,
                     .products_per_iteration = problem.solver.method == "bicgstab" ? 2.0 : 1.0,
                     .deterministic = op.deterministic});
  reason = choice.reason;
  return find_format(choice.id);
}

std::string_view kernel_note(const FormatEntry& entry, Space space, std::string_view name) {
  for (const Kernel& kernel : kernels_in(entry, space))
    if (kernel.name == name) return kernel.note;
  return {};
}

std::string advise(const Context& context, const CsrMatrix<double>& csr, const SolveRecord& record) {
  const SolveReport& result = record.result;
  if (result.converged()) return {};
  std::string text(protean::advice(result.reason));
  if (csr.pattern.row_ptr.p32 == nullptr && csr.pattern.row_ptr.p64 == nullptr)
    return text;  // element matrices
  if (record.problem.solver.method == "cg" && result.reason != StopReason::interrupted) {
    const double difference = asymmetry(context, csr);
    if (difference > 1e-12)
      text += fmt::format(
          " The matrix is not symmetric ({}); cg needs a symmetric one: use method gmres or bicgstab.",
          std::isinf(difference) ? std::string("its pattern is not")
                                 : fmt::format("entries differ by up to {:.1e} of the largest", difference));
  }
  return text;
}

// The part by which a build on another processor slows the iterations: both share caches and memory.
constexpr double beside_spare_processor = 0.1;

// The policy of this solve with its inputs: the machine table and the candidates.
struct PolicyRun {
  ChosenMachine machine;
  std::vector<SwitchTarget> targets;
  AutoSwitcher<double> switcher;

  PolicyRun(const Problem& problem, AdaptiveOperator<double>& A, const SparsityPattern& pattern,
            SolveObserver& observer, Progress& progress)
      : machine(choose_machine(problem.schedule.machine.path)),
        switcher(
            A, CostModel(machine.table, A.context()->space()),
            [this, &A, &pattern, space = A.context()->space(), deterministic = problem.op.deterministic] {
              targets = A.elements() ? survey_formats(*A.elements())
                                     : survey_formats(pattern, space, deterministic);
              return targets;
            },
            options(problem, *A.context()), &observer) {
    switcher.on_switch = [&progress](const std::string& text) { progress.note(text); };
  }
  PolicyRun(const PolicyRun&) = delete;
  PolicyRun& operator=(const PolicyRun&) = delete;

  Explanation explanation() const {
    return {
        machine.from, switcher.candidates(), {switcher.decisions().begin(), switcher.decisions().end()}, {}};
  }

 private:
  static AutoSwitchOptions options(const Problem& problem, const Context& context) {
    AutoSwitchOptions result;
    result.policy = problem.schedule.policy;
    // A build that overlaps the solve needs a processor of its own. On a GPU both share the memory bandwidth,
    // and a build takes only the time of a few products, so the solve waits for it.
    result.policy.overlapped = problem.schedule.overlapped.value_or(context.space() == Space::host &&
                                                                    context.threads() < machine_info().cores);
    if (context.space() == Space::host && context.threads() < machine_info().cores) {
      // One thread builds alone. If the solve waited, all threads would build.
      result.policy.overlap_stretch = context.threads();
      result.policy.overlap_slowdown = beside_spare_processor;
    }
    const StoppingRule& rule = problem.solver.options.stopping;
    result.goal = rule.relative_tolerance, result.absolute_goal = rule.absolute_tolerance;
    result.max_iterations = rule.max_iterations;
    return result;
  }
};

// A line for the terminal.
std::string describe(const ScheduleEvent& event, const AdaptiveOperator<double>& A) {
  if (event.action != ScheduleEvent::Action::switched)
    return fmt::format("{} {}: {}", event.to, to_string(event.action), event.reason);
  return switch_text(A.history().back());
}

}  // namespace

int solve(const SolveArguments& arguments) {
  Clock clock;
  SolveRecord record;
  Problem& problem = record.problem;
  problem = read_problem(arguments.problem, arguments.settings);
  if (!arguments.report.empty()) problem.output.report = {arguments.report, arguments.report, {}};
  if (arguments.threads > 0) problem.op.threads = arguments.threads;
  if (arguments.explain && !problem.schedule.automatic)
    throw BadArgument(
        "--explain describes the decisions of schedule: {policy: auto}; add --set schedule.policy=auto");
  CommandFiles files;
  files.reads(problem);
  files.writes("output.solution", problem.output.solution.path, problem.output.solution.place);
  files.writes("output.history", problem.output.history.path, problem.output.history.place);
  files.writes(arguments.report.empty() ? "output.report" : "--report", problem.output.report.path,
               problem.output.report.place);
  files.require_inputs();
  files.require_outputs();

  Progress progress(!arguments.quiet);
  const bool on_device = problem.op.space == Space::device;
  const auto kernels =
      problem.op.kernel == to_string(VectorKernels::kokkos) ? VectorKernels::kokkos : VectorKernels::native;
  const ContextPtr host =
      Context::host(problem.op.threads, {.vector_kernels = on_device ? VectorKernels::native : kernels,
                                         .deterministic = problem.op.deterministic});
  const ContextPtr context =
      on_device ? device_context({.vector_kernels = kernels, .deterministic = problem.op.deterministic})
                : host;
  record.threads = host->threads();
  record.seconds.start = clock.lap();

  progress.stage(problem.matrix.file ? "reading the matrix" : "making the matrix");
  LinearSystem system = make_system(host, problem, context);
  const CsrMatrix<double>& csr = system.csr;
  record.rows = csr.rows(), record.nonzeros = csr.nonzeros();
  if (system.elements) {
    record.rows = system.elements->rows(), record.nonzeros = system.elements->entries();
    record.elements = system.elements->elements();
  }
  record.seconds.read = clock.lap();

  CsrMatrix<double> source = csr;
  if (context != host) {
    progress.stage("copying to the GPU");
    if (!system.elements) source = upload(context, csr);
    system.b = moved(context, *context, std::move(system.b));
    system.x0 = moved(context, *context, std::move(system.x0));
    record.seconds.upload = clock.lap();
  }

  const Vector<double>& b = system.b;
  Vector<double>& x = system.x0;

  progress.stage("converting the matrix");
  std::unique_ptr<LinearOperator<double>> A;
  AdaptiveOperator<double>* adaptive = nullptr;  // A, where there is a schedule
  if (system.elements) {
    record.format = system.elements->name(), record.kernel = "native";
    record.matrix_bytes = system.elements->bytes();
    if (problem.schedule.points.empty() && !problem.schedule.automatic) {
      A = std::move(system.elements);
    } else {
      auto changing = std::make_unique<AdaptiveOperator<double>>(std::move(system.elements));
      adaptive = changing.get();
      A = std::move(changing);
    }
  } else {
    const FormatEntry& entry = pick_format(csr, problem, record.format_reason);
    auto matrix = make_matrix(entry, source, context, problem.op.parameters, problem.op.kernel);
    context->synchronize();
    record.format = entry.id, record.kernel = matrix->kernel(), record.parameters = matrix->params();
    record.kernel_note = kernel_note(entry, context->space(), matrix->kernel());
    record.matrix_bytes = matrix->bytes();
    if (problem.schedule.points.empty() && !problem.schedule.automatic) {
      A = std::move(matrix);
    } else {
      auto changing = std::make_unique<AdaptiveOperator<double>>(source, std::move(matrix));
      adaptive = changing.get();
      A = std::move(changing);
    }
  }
  record.vector_kernels = context->vector_kernels();
  record.seconds.convert = clock.lap();

  progress.stage("setting up");
  const auto M = make_preconditioner<double>(problem.preconditioner.type, *A, problem.preconditioner.options);
  if (M) M->ensure(*A);
  context->synchronize();
  const auto solver = make_solver<double>(problem.solver.method, problem.solver.options);
  record.seconds.setup = clock.lap();

  Observer observer(progress, problem.solver.options.stopping, static_cast<bool>(problem.output.history));
  std::optional<PolicyRun> policy;
  std::optional<FormatSchedule<double>> schedule;
  if (adaptive && problem.schedule.automatic)
    policy.emplace(problem, *adaptive, csr.pattern, observer, progress);
  else if (adaptive)
    schedule.emplace(*adaptive, problem.schedule.points, &observer, [&](const ScheduleEvent& event) {
      progress.note(fmt::format("it {}: {}", event.iteration, describe(event, *adaptive)));
    });
  const InterruptGuard guard;
  SolveObserver* const watching = policy     ? static_cast<SolveObserver*>(&policy->switcher)
                                  : schedule ? static_cast<SolveObserver*>(&*schedule)
                                             : &observer;
  record.result = solver->solve(*A, b, x, M.get(), watching);
  if (policy) policy->switcher.finish();
  if (schedule) {
    schedule->finish();
    record.decisions = schedule->events();
  }
  if (adaptive) {
    record.switches.assign(adaptive->history().begin(), adaptive->history().end());
    record.failed_switches.assign(adaptive->failures().begin(), adaptive->failures().end());
  }
  record.seconds.solve = clock.lap();
  if (policy) record.policy = policy->explanation();
  if (context != host) {
    x = moved(host, *context, std::move(x));
    record.seconds.download = clock.lap();
  }
  progress.clear();

  record.products = A->products();
  record.advice = advise(*host, csr, record);
  if (problem.rhs.from_solution) record.error = relative_error(x, system.exact);
  (void)clock.lap();
  if (problem.output.solution)
    write_vector_market(
        problem.output.solution.path, x,
        fmt::format("x of A x = b, {}, true relative residual {:.3e}",
                    record.result.converged() ? "converged" : "not converged", record.result.true_relative));
  if (problem.output.history) write_file(problem.output.history.path, history_csv(observer.history()));
  record.seconds.write = clock.lap();
  record.peak_bytes = peak_memory();
  record.peak_buffer_bytes = peak_allocated_bytes();
  record.seconds.total = clock.total();
  if (problem.output.report) write_file(problem.output.report.path, report_json(record));
  if (!arguments.quiet) {
    std::string text = summary(record);
    if (arguments.explain) {
      (void)adaptive->wait_prepared();  // a build that is still running would disturb the times
      record.policy.real = adaptive->elements()
                               ? measure_candidates(*adaptive->elements(), context, policy->targets)
                               : measure_candidates(source, context, policy->targets);
      text += explain_text(record.policy);
    }
    print(text);
  }
  return record.result.converged() ? 0 : 1;
}

}  // namespace protean::apps
