#include "apps/solve/solve.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
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
#include "apps/solve/history.hpp"
#include "apps/solve/report.hpp"
#include "core/blas1.hpp"
#include "core/io/atomic_file.hpp"
#include "core/io/input_file.hpp"
#include "core/io/vector_file.hpp"
#include "core/permutation.hpp"
#include "core/statistics.hpp"
#include "formats/catalogue.hpp"
#include "formats/survey.hpp"
#include "operators/multi_product.hpp"
#include "operators/ordered_operator.hpp"
#include "solvers/auto_switcher.hpp"
#include "solvers/multi_solver.hpp"

namespace protean::apps {
namespace {

// Writes x to output.solution while the solve runs, every so many seconds.
class Checkpoint {
 public:
  Checkpoint(const Context& context, const Vector<double>& x, const std::string& path, double seconds)
      : context_(context), x_(x), path_(path), seconds_(seconds), next_(seconds) {}

  bool due(const IterationInfo& info) const noexcept { return seconds_ > 0 && info.seconds >= next_; }
  // An error is a warning: the solve is worth more than a file.
  void iteration(const IterationInfo& info, Progress& progress) {
    if (!due(info)) return;
    try {
      // Iterations that a GPU has computed ahead may be in it.
      Vector<double> copied(Context::host(1), x_.size());
      copy<double>(context_, x_, copied);
      write_vector(path_, copied,
                   fmt::format("x of A x = b near iteration {} of a solve that goes on", info.iteration));
    } catch (const Error& error) {
      progress.clear();
      fmt::print(stderr, "protean: warning: no checkpoint at iteration {}: {}\n", info.iteration,
                 error.what());
    }
    next_ = info.seconds + seconds_;
  }

 private:
  const Context& context_;
  const Vector<double>& x_;
  const std::string& path_;
  double seconds_, next_;
};

class Observer final : public SolveObserver {
 public:
  Observer(Progress& progress, const StoppingRule& rule, HistoryFile* history, Checkpoint checkpoint)
      : progress_(progress), rule_(rule), history_(history), checkpoint_(checkpoint) {}
  bool on_iteration(const IterationInfo& info) override {
    if (history_) history_->add(info);
    progress_.iteration(info, rule_);
    checkpoint_.iteration(info, progress_);
    return !InterruptGuard::asked();
  }
  bool reads_solution(const IterationInfo& info) const noexcept override { return checkpoint_.due(info); }

 private:
  Progress& progress_;
  const StoppingRule& rule_;
  HistoryFile* history_;
  Checkpoint checkpoint_;
};

ChoiceOptions choice_options(const Problem& problem) {
  ChoiceOptions options;
  options.space = problem.op.space;
  options.expected_iterations = problem.op.expected_iterations;
  options.products_per_iteration = static_cast<double>(find_solver(problem.solver.method).products);
  options.deterministic = problem.op.deterministic;
  return options;
}

const FormatEntry& pick_format(const CsrMatrix<double>& csr, const Problem& problem, std::string& reason) {
  const OperatorSpec& op = problem.op;
  if (problem.schedule.automatic && op.format == "auto") {
    reason = "csr, from which the policy changes when that pays";
    return find_format("csr");
  }
  if (op.format != "auto") return find_format(op.format);
  if (!op.kernel.empty() && op.kernel != "native") {
    reason = fmt::format("csr, the plainest format, since kernel {} was asked for", op.kernel);
    return find_format("csr");
  }
  ChoiceOptions options = choice_options(problem);
  options.symmetric = !first_asymmetry(*Context::host(op.threads), csr.pattern, csr.values);
  const FormatChoice choice =
      choose_format(csr.pattern, CostModel(choose_machine({}).table, op.space), options);
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
  std::string text = result.advice;
  if (csr.pattern.row_ptr.p32 == nullptr && csr.pattern.row_ptr.p64 == nullptr)
    return text;  // element matrices
  // The solve itself sees entries only that are not small beside the norm.
  if (find_solver(record.problem.solver.method).symmetric && result.reason != StopReason::interrupted &&
      !text.starts_with("The matrix is not symmetric")) {
    const double difference = asymmetry(context, csr);
    if (difference > 1e-12)
      text += fmt::format(
          " The matrix is not symmetric ({}); {} needs a symmetric one: take method gmres, bicgstab or idr, "
          "with preconditioner ilu0.",
          std::isinf(difference) ? std::string("its pattern is not")
                                 : fmt::format("entries differ by up to {:.1e} of the largest", difference),
          record.problem.solver.method);
  }
  return text;
}

// A small residual says nothing of the part of x in the null space of A.
std::string note_on_null_space(const Context& context, const CsrMatrix<double>& csr, const Problem& problem) {
  if (csr.pattern.row_ptr.p32 == nullptr && csr.pattern.row_ptr.p64 == nullptr)
    return {};  // element matrices
  NullVectors vectors = null_vectors(context, csr);
  const bool given = problem.solver.options.null_space == "constant";
  const bool constant = vectors.all && !given;
  if (given) vectors.all = false;
  if (!vectors.any()) return {};
  return fmt::format(
      "The matrix is singular: A v = 0 for v = 1 at {}, and 0 elsewhere. x is one of many solutions: any "
      "multiple of v may be "
      "added. {}",
      fmt::join(in_words(vectors), ", or at "),
      constant ? "The one of smallest norm: solver.null_space: constant, with method cg, fcg or minres."
               : "A program gets the one of smallest norm by Solver::set_null_space(), with method cg, fcg "
                 "or minres.");
}

// The policy of this solve with its inputs: the machine table and the candidates.
struct PolicyRun {
  ChosenMachine machine;
  std::vector<SwitchTarget> targets;  // in the order in which the solve began
  AutoSwitcher<double> switcher;

  PolicyRun(const Problem& problem, AdaptiveOperator<double>& A, const SparsityPattern& pattern,
            SolveObserver& observer, Progress& progress)
      : machine(choose_machine(problem.schedule.machine.path)),
        switcher(
            A, CostModel(machine.table, A.context()->space()),
            [this, &A, &pattern] {
              auto found = survey_formats(A, CostModel(machine.table, A.context()->space()), pattern);
              if (targets.empty()) targets = found;
              return found;
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
    AutoSwitchOptions result =
        switch_options(context, problem.solver.options.stopping, problem.schedule.policy);
    result.policy.overlapped = problem.schedule.overlapped.value_or(result.policy.overlapped);
    return result;
  }
};

// A line for the terminal.
std::string describe(const ScheduleEvent& event, const AdaptiveOperator<double>& A) {
  if (event.action != ScheduleEvent::Action::switched)
    return fmt::format("{} {}: {}", event.to, to_string(event.action), event.reason);
  return switch_text(A.history().back());
}

// The ending of the name says what is written. A device or a pipe gets text.
void require_solution_name(const FilePath& solution) {
  const io_detail::FileKind kind = io_detail::kind_of(solution.path);
  const bool file = kind == io_detail::FileKind::missing || kind == io_detail::FileKind::ordinary;
  if (!solution || solution.path == AtomicFile::standard_output || !file ||
      is_vector_file_name(solution.path))
    return;
  fail(solution.place, fmt::format("output.solution '{}': the name must end in {}, which says what to write",
                                   solution.given, vector_file_endings()));
}

// Throws NotAvailable for an order that is not in this build.
void require_orders(const Problem& problem) {
  const auto require = [](const std::string& order, const Place& place, const std::string& key) {
    if (order.empty()) return;
    try {
      protean::require_order(order);
    } catch (const NotAvailable& error) {
      const std::string file = place.file ? *place.file : "problem";
      throw NotAvailable(
          BadFile(file, place.line, place.column, fmt::format("{}: {}", key, error.what())).what());
    }
  };
  require(problem.matrix.order, problem.matrix.order_place, "matrix.order");
  const ScheduleSpec& schedule = problem.schedule;
  for (std::size_t i = 0; i < schedule.points.size(); ++i)
    require(schedule.points[i].to.order, schedule.places[i], fmt::format("schedule[{}].order", i));
}

// Reads the problem, applies the options of the command line, and checks all files before anything large is
// read.
Problem checked_problem(const SolveArguments& arguments) {
  Problem problem = read_problem(arguments.problem, arguments.settings, arguments.options);
  if (!arguments.report.empty()) problem.output.report = {arguments.report, arguments.report, {}};
  if (arguments.threads > 0) problem.op.threads = arguments.threads;
  if (arguments.explain && !problem.schedule.automatic)
    throw BadArgument(
        "--explain describes the decisions of schedule: {policy: auto}; add --set schedule.policy=auto");
  require_orders(problem);
  CommandFiles files;
  files.reads(problem);
  files.writes("output.solution", problem.output.solution.path, problem.output.solution.place);
  files.writes("output.history", problem.output.history.path, problem.output.history.place);
  files.writes(arguments.report.empty() ? "output.report" : "--report", problem.output.report.path,
               problem.output.report.place);
  if (arguments.json) files.writes("--json", std::string(AtomicFile::standard_output));
  files.require_inputs();
  files.require_outputs();
  require_solution_name(problem.output.solution);
  if (arguments.checkpoint > 0 &&
      (!problem.output.solution || problem.output.solution.path == AtomicFile::standard_output))
    throw BadArgument(
        "--checkpoint keeps the solution in a file: name it with --solution x.mtx or output.solution");
  return problem;
}

// One solve in stages. Each stage measures its time and fills its part of the record.
class SolveRun {
 public:
  explicit SolveRun(const SolveArguments& arguments)
      : arguments_(arguments),
        record_(record_of(checked_problem(arguments))),
        progress_(!arguments.quiet, monitor_of(arguments.monitor)) {}

  const SolveRecord& operator()() {
    try {
      run();
    } catch (...) {
      remove_old_report(problem_.output.report.path);
      throw;
    }
    write_files();
    return record_;
  }

 private:
  void run() {
    make_contexts();
    make_data();
    put_in_order();
    if (context_ != host_) copy_to_device();
    make_operator();
    set_up();
    run_solver();
    if (context_ != host_) copy_to_host();
    progress_.clear();
    judge();
  }

  static SolveRecord record_of(Problem problem) {
    SolveRecord record;
    record.problem = std::move(problem);
    return record;
  }

  void make_contexts() {
    const OperatorSpec& op = problem_.op;
    const bool on_device = op.space == Space::device;
    const auto kernels =
        op.kernel == to_string(VectorKernels::kokkos) ? VectorKernels::kokkos : VectorKernels::native;
    host_ = Context::host(op.threads, {.vector_kernels = on_device ? VectorKernels::native : kernels,
                                       .deterministic = op.deterministic});
    context_ =
        on_device ? device_context({.vector_kernels = kernels, .deterministic = op.deterministic}) : host_;
    record_.threads = host_->threads();
    record_.vector_kernels = context_->vector_kernels();
    record_.seconds.start = clock_.lap();
  }

  void make_data() {
    progress_.stage(problem_.matrix.file ? "reading the matrix" : "making the matrix");
    system_ = make_system(host_, problem_, context_, true);
    if (system_.columns > 1) require_for_columns();
    record_.rows = system_.csr.rows(), record_.nonzeros = system_.csr.nonzeros();
    if (system_.elements) {
      record_.rows = system_.elements->rows(), record_.nonzeros = system_.elements->entries();
      record_.elements = system_.elements->elements();
    }
    source_ = system_.csr;
    record_.seconds.read = clock_.lap();
  }

  // What is for one right-hand side is refused where there are several.
  void require_for_columns() const {
    const Place& place = problem_.rhs.vector.file ? problem_.rhs.vector.file.place : problem_.rhs.place;
    const auto refuse = [&](const std::string& what) {
      fail(place, fmt::format("there are {} right-hand sides, and {}", system_.columns, what));
    };
    const auto known = multi_methods();
    if (std::find(known.begin(), known.end(), problem_.solver.method) == known.end())
      refuse(fmt::format("method {} takes one; take one of {}, or solve them one after another",
                         problem_.solver.method, fmt::join(known, ", ")));
    if (problem_.schedule.automatic || !problem_.schedule.points.empty())
      refuse("a schedule is for one; leave it out");
    if (problem_.matrix.order != "none") refuse("an order of the rows is for one; take matrix.order: none");
    if (problem_.output.history) refuse("output.history is for one; the report has an entry for each");
    if (arguments_.checkpoint > 0) refuse("--checkpoint is for one");
  }

  // The matrix of the solve in another order. b, x and the matrix of the system stay in the order of the user.
  void put_in_order() {
    const std::string& asked = problem_.matrix.order;
    if (asked == "none") return;
    progress_.stage("ordering the matrix");
    OrderedMatrix<double> found = protean::put_in_order(asked, system_.csr, host_, choice_options(problem_));
    record_.order = found.order, record_.order_reason = found.reason;
    if (found.ordered) {
      ordered_ = std::move(found.ordered), source_ = ordered_->matrix();
      permutation_ = ordered_->permutation();
      if (context_ != host_)
        permutation_ = Permutation(context_, {permutation_.order().begin(), permutation_.order().end()});
    }
    record_.seconds.order = clock_.lap();
  }

  // In host memory, in the order of the solve.
  const CsrMatrix<double>& csr() const { return ordered_ ? ordered_->matrix() : system_.csr; }

  void copy_to_device() {
    progress_.stage("copying to the GPU");
    if (!system_.elements) source_ = upload(context_, csr());
    system_.b = moved(context_, *context_, std::move(system_.b));
    system_.x0 = moved(context_, *context_, std::move(system_.x0));
    record_.seconds.upload = clock_.lap();
  }

  // A fixed operator, or with a schedule one that changes its format.
  void make_operator() {
    progress_.stage("converting the matrix");
    const bool changes = problem_.schedule.automatic || !problem_.schedule.points.empty();
    if (system_.elements) {
      record_.format = system_.elements->name(), record_.kernel = "native";
      record_.matrix_bytes = system_.elements->bytes();
      if (changes)
        keep(std::make_unique<AdaptiveOperator<double>>(std::move(system_.elements)));
      else
        A_ = std::move(system_.elements);
    } else {
      auto matrix = convert();
      if (changes)
        keep(std::make_unique<AdaptiveOperator<double>>(source_, std::move(matrix)));
      else
        A_ = std::move(matrix);
    }
    if (ordered_) A_ = std::make_unique<OrderedOperator<double>>(permutation_, std::move(A_));
    record_.seconds.convert = clock_.lap();
  }

  void keep(std::unique_ptr<AdaptiveOperator<double>> changing) {
    adaptive_ = changing.get();
    A_ = std::move(changing);
  }

  std::unique_ptr<AssembledMatrix<double>> convert() {
    const FormatEntry& entry = pick_format(csr(), problem_, record_.format_reason);
    auto matrix = make_matrix(entry, source_, context_, problem_.op.parameters, problem_.op.kernel);
    if (const std::string why = column_by_column<double>(*matrix);
        system_.columns > 1 && problem_.op.format == "auto" && problem_.op.kernel.empty() && !why.empty()) {
      matrix.reset();
      matrix = make_matrix(find_format("csr"), source_, context_);
      record_.format_reason = fmt::format("csr, which takes several right-hand sides in one pass: {}", why);
    }
    context_->synchronize();
    record_.format = matrix->entry().id, record_.kernel = matrix->kernel(),
    record_.parameters = matrix->params();
    record_.kernel_note = kernel_note(matrix->entry(), context_->space(), matrix->kernel());
    record_.matrix_bytes = matrix->bytes();
    if (const auto* composed = dynamic_cast<const HasParts*>(matrix.get()))
      record_.parts = composed->part_shares();
    return matrix;
  }

  void set_up() {
    progress_.stage("setting up");
    M_ = make_preconditioner(problem_.preconditioner, *A_);
    if (M_) {
      M_->ensure(*A_);
      record_.preconditioner = M_->figures(), record_.preconditioner_bytes = M_->bytes();
    }
    context_->synchronize();
    if (system_.columns > 1)
      multi_solver_ = std::make_unique<MultiSolver<double>>(problem_.solver.method, problem_.solver.options);
    else
      solver_ = make_solver<double>(problem_.solver.method, problem_.solver.options);
    record_.seconds.setup = clock_.lap();
  }

  // The observer of the solve: the policy or the schedule, which call ours, or ours alone.
  SolveObserver* watch() {
    if (problem_.output.history) history_.emplace(problem_.output.history.path);
    constexpr double minute = 60;
    observer_.emplace(
        progress_, problem_.solver.options.stopping, history_ ? &*history_ : nullptr,
        Checkpoint(*context_, system_.x0, problem_.output.solution.path, minute * arguments_.checkpoint));
    if (!adaptive_) return &*observer_;
    if (problem_.schedule.automatic) {
      policy_.emplace(problem_, *adaptive_, csr().pattern, *observer_, progress_);
      return &policy_->switcher;
    }
    schedule_.emplace(*adaptive_, problem_.schedule.points, &*observer_, [this](const ScheduleEvent& event) {
      progress_.note(fmt::format("it {}: {}", event.iteration, describe(event, *adaptive_)));
    });
    return &*schedule_;
  }

  // Several right-hand sides at once.
  void run_multi_solver() {
    class Watch final : public MultiSolveObserver {
     public:
      Watch(Progress& progress, const StoppingRule& rule) : progress_(progress), rule_(rule) {}
      bool on_iteration(const MultiIterationInfo& info) override {
        // The column that is farthest from its end.
        const auto& relative = info.relative_residuals;
        const auto worst = std::max_element(relative.begin(), relative.end()) - relative.begin();
        const auto at = static_cast<std::size_t>(worst);
        progress_.iteration({.iteration = info.iteration,
                             .residual = info.residuals[at],
                             .relative_residual = relative[at],
                             .seconds = info.seconds},
                            rule_);
        return !InterruptGuard::asked();
      }

     private:
      Progress& progress_;
      const StoppingRule& rule_;
    } watch(progress_, problem_.solver.options.stopping);
    guard_.emplace();
    const std::int64_t rows = record_.rows, k = system_.columns;
    const Space space = context_->space();
    record_.columns = multi_solver_->solve(
        *A_, MultiVectorView<const double>{system_.b.data(), rows, k, rows, VectorLayout::columns, space},
        {system_.x0.data(), rows, k, rows, VectorLayout::columns, space}, M_.get(), &watch);
    const auto& columns = record_.columns.columns;
    const auto failed =
        std::find_if(columns.begin(), columns.end(), [](const SolveReport& one) { return !one.converged(); });
    record_.result = failed != columns.end()
                         ? *failed
                         : *std::max_element(columns.begin(), columns.end(),
                                             [](auto& a, auto& b) { return a.iterations < b.iterations; });
    record_.result.seconds = record_.columns.seconds;
    record_.seconds.solve = clock_.lap();
  }

  void run_solver() {
    if (multi_solver_) return run_multi_solver();
    SolveObserver* const watching = watch();
    guard_.emplace();
    record_.result = solver_->solve(*A_, system_.b, system_.x0, M_.get(), watching);
    if (policy_) policy_->switcher.finish();
    if (schedule_) {
      schedule_->finish();
      record_.decisions = schedule_->events();
    }
    if (adaptive_) {
      record_.switches.assign(adaptive_->history().begin(), adaptive_->history().end());
      record_.failed_switches.assign(adaptive_->failures().begin(), adaptive_->failures().end());
    }
    record_.seconds.solve = clock_.lap();
    if (policy_) record_.policy = policy_->explanation();
  }

  void copy_to_host() {
    system_.x0 = moved(host_, *context_, std::move(system_.x0));
    record_.seconds.download = clock_.lap();
  }

  void judge() {
    const auto* const in_order = dynamic_cast<const OrderedOperator<double>*>(A_.get());
    record_.products = (in_order ? in_order->inner() : *A_).products();
    const LinearOperator<double>& last = adaptive_  ? adaptive_->running()
                                         : in_order ? in_order->inner()
                                                    : *A_;
    if (const auto* tuned = dynamic_cast<const HasTuning*>(&last)) record_.tuning = tuned->tuning();
    record_.advice = advise(*host_, system_.csr, record_);
    if (record_.result.iterations > 0 && record_.result.reason != StopReason::interrupted)
      record_.note = note_on_null_space(*host_, system_.csr, problem_);
    if (problem_.rhs.from_solution)
      for (std::int64_t j = 0; j < system_.columns; ++j) {
        const auto column = [&](const Vector<double>& of) {
          return VectorView<const double>{of.data() + j * record_.rows, record_.rows, Space::host};
        };
        record_.column_errors.push_back(relative_error(column(system_.x0), column(system_.exact)));
        record_.error = std::max(record_.error.value_or(0), record_.column_errors.back());
      }
    (void)clock_.lap();
  }

  // Each file is written, whatever becomes of the others; the report says which could not be.
  void write_files() {
    const OutputSpec& output = problem_.output;
    const SolveReport& result = record_.result;
    OutputWriter writer;
    writer.write("output.solution", output.solution.path, [&] {
      write_solution(output.solution.path,
                     fmt::format("x of A x = b, {}, true relative residual {:.3e}",
                                 result.converged() ? "converged" : "not converged", result.true_relative));
    });
    writer.write("output.history", history_ ? output.history.path : std::string(),
                 [&] { history_->finish(); });
    record_.seconds.write = clock_.lap();
    record_.peak_bytes = peak_memory();
    record_.peak_buffer_bytes = peak_allocated_bytes();
    record_.seconds.total = clock_.total();
    record_.not_written = writer.failures();
    writer.write(
        arguments_.report.empty() ? "output.report" : "--report", output.report.path,
        [&] { write_file(output.report.path, report_json(record_)); }, true);
    record_.not_written = writer.failures();
    const std::string standard_output = "standard output";
    if (arguments_.json) writer.write("--json", standard_output, [&] { print(report_json(record_)); });
    writer.write("the summary", standard_output, [&] { print_summary(); });
    writer.require_all(fmt::format(" (the solve had ended: {} after {} iterations)", to_string(result.reason),
                                   result.iterations));
  }

  void write_solution(const std::string& path, const std::string& comment) const {
    if (system_.columns == 1) return write_vector(path, system_.x0, comment);
    write_vectors(
        path,
        {system_.x0.data(), record_.rows, system_.columns, record_.rows, VectorLayout::columns, Space::host},
        comment);
  }

  void print_summary() {
    const SolveReport& result = record_.result;
    const bool shown = !arguments_.quiet && !arguments_.json;
    if (!shown && !result.converged())
      fmt::print(stderr, "protean: not converged: {}{}{}. {}\n", to_string(result.reason),
                 result.detail.empty() ? "" : ", ", result.detail, record_.advice);
    if (arguments_.quiet) return;
    std::string text = shown ? summary(record_) : std::string();
    if (arguments_.explain) {
      (void)adaptive_->wait_prepared();  // a build that is still running would disturb the times
      record_.policy.real = adaptive_->elements()
                                ? measure_candidates(*adaptive_->elements(), context_, policy_->targets)
                                : measure_candidates(source_, context_, policy_->targets);
      text += explain_text(record_.policy);
    }
    const OutputSpec& output = problem_.output;
    bool taken = arguments_.json;
    for (const FilePath* file : {&output.solution, &output.report, &output.history})
      taken = taken || file->path == AtomicFile::standard_output;
    print_beside(taken, text);
  }

  Clock clock_;
  const SolveArguments& arguments_;
  SolveRecord record_;
  const Problem& problem_ = record_.problem;
  Progress progress_;
  ContextPtr host_, context_;
  LinearSystem system_;       // x0 becomes the solution
  CsrMatrix<double> source_;  // the matrix in the memory of the context; empty with element matrices
  std::optional<PermutedMatrix<double>> ordered_;  // on the host; empty where the order is the user's
  Permutation permutation_;                        // in the context of the solve
  std::unique_ptr<LinearOperator<double>> A_;
  AdaptiveOperator<double>* adaptive_ = nullptr;  // A_, where there is a schedule
  std::unique_ptr<Preconditioner<double>> M_;
  std::unique_ptr<Solver<double>> solver_;
  std::unique_ptr<MultiSolver<double>> multi_solver_;  // instead, for several right-hand sides
  std::optional<HistoryFile> history_;
  std::optional<Observer> observer_;
  std::optional<PolicyRun> policy_;
  std::optional<FormatSchedule<double>> schedule_;
  std::optional<InterruptGuard> guard_;
};

}  // namespace

int solve(const SolveArguments& arguments) {
  SolveRun run(arguments);
  const SolveReport& result = run().result;
  if (result.reason == StopReason::interrupted) return InterruptGuard::exit_code();
  return result.converged() ? 0 : 1;
}

}  // namespace protean::apps
