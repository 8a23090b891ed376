#include "apps/solve/solve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "apps/command/build_info.hpp"
#include "apps/command/clock.hpp"
#include "apps/command/files.hpp"
#include "apps/command/interrupt.hpp"
#include "apps/command/launch.hpp"
#include "apps/machine/machine_file.hpp"
#include "apps/problem/engine_keys.hpp"
#include "apps/problem/settings.hpp"
#include "apps/problem/system.hpp"
#include "apps/report/output.hpp"
#include "apps/report/progress.hpp"
#include "apps/solve/notes.hpp"
#include "apps/solve/parts_report.hpp"
#include "apps/solve/report.hpp"
#include "apps/solve/solve_observer.hpp"
#include "core/background.hpp"
#include "core/io/atomic_file.hpp"
#include "core/io/input_file.hpp"
#include "core/io/vector_file.hpp"
#include "core/processors.hpp"
#include "distributed/partition.hpp"
#include "formats/catalogue.hpp"
#include "operators/known_symmetry.hpp"
#include "solvers/multi_solver.hpp"
#include "systems/linear_system.hpp"
#include "systems/system_matrix.hpp"
#include "systems/system_solver.hpp"

namespace protean::apps {
namespace {

std::string_view kernel_note(const FormatEntry& entry, Space space, std::string_view name) {
  for (const Kernel& kernel : kernels_in(entry, space))
    if (kernel.name == name) return kernel.note;
  return {};
}

// A line for the terminal.
std::string describe(const ScheduleEvent& event, const Matrix<double>& A) {
  if (event.action != ScheduleEvent::Action::switched)
    return fmt::format("{} {}: {}", event.to, to_string(event.action), event.reason);
  return switch_text(A.history().back());
}

// Format auto without a policy.
bool chosen_before(const Problem& problem) {
  const SolveSettings& settings = problem.settings;
  return settings.format == "auto" && (settings.kernel.empty() || settings.kernel == "native") &&
         settings.schedule.empty() && !(problem.matrix.fem && !problem.matrix.fem->assembled);
}

// One solve in stages. Each stage measures its time and fills its part of the record.
class SolveRun {
 public:
  explicit SolveRun(const SolveArguments& arguments)
      : arguments_(arguments),
        record_(record_of(own_problem(arguments))),
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
    make_solver();
    set_up();
    run_solver();
    if (context_ != host_) copy_to_host();
    progress_.clear();
    judge();
  }

  // If another engine is asked for, its program reads the problem again.
  static Problem own_problem(const SolveArguments& arguments) {
    Problem problem = checked_problem(arguments);
    require_partition_in_use(problem);
    if (problem.engine.name != "petsc") return problem;
    if (!arguments.problem.starts_with("/dev/") && !arguments.problem.starts_with("/proc/"))
      throw OtherProgram();
    throw BadArgument("engine petsc is another program, which reads the problem again; give it as a file");
  }

  static SolveRecord record_of(Problem problem) {
    SolveRecord record;
    record.problem = std::move(problem);
    return record;
  }

  void make_contexts() {
    Contexts made = apps::make_contexts(problem_);
    host_ = std::move(made.host), context_ = std::move(made.solve);
    devices_ = std::move(made.devices), record_.device_numbers = std::move(made.numbers);
    if (!devices_.empty()) {
      if (arguments_.checkpoint > 0)
        throw BadArgument(fmt::format("--checkpoint is for one device, and the solve has {}; leave it out",
                                      devices_.size()));
      context_ = host_;  // the vectors of the caller
    }
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
    read_preconditioner_files(host_, record_.problem, record_.rows);
    record_.seconds.read = clock_.lap();
  }

  // What is for one right-hand side is refused if there are several.
  void require_for_columns() const {
    const Place& place = problem_.rhs.vector.file ? problem_.rhs.vector.file.place : problem_.rhs.place;
    const auto refuse = [&](const std::string& what) {
      fail(place, fmt::format("there are {} right-hand sides, and {}", system_.columns, what));
    };
    if (problem_.output.history) refuse("output.history is for one; the report has an entry for each");
    if (arguments_.checkpoint > 0) refuse("--checkpoint is for one");
    if (!devices_.empty()) refuse("several devices take one; solve them one after another, or on one device");
  }

  // The settings of the solve, whose stages and notes are shown.
  SolveSettings heard_settings(const ContextPtr& context) {
    SolveSettings settings = settings_of(problem_, context, machine_.table());
    settings.on_stage = [this](std::string_view what) {
      // From here on the first Ctrl-C is a request, which setup and iterations look at.
      if (what == "setting up" && !guard_) guard_.emplace();
      if (what != "solving") progress_.stage(std::string(what));
    };
    settings.on_note = [this](const std::string& text) { progress_.note(text); };
    return settings;
  }

  // A system whose rows are shared out among the devices.
  void make_parts() {
    machine_ = choose_machine(problem_.schedule.machine.path);
    record_.table = machine_.from;
    SolveSettings settings = heard_settings(nullptr);
    const EngineSpec& engine = problem_.engine;
    settings.distribution.contexts = devices_;
    if (engine.partition_file)
      settings.distribution.part_of_row =
          detail::read_partition(engine.partition_file.path, record_.rows, static_cast<int>(devices_.size()));
    else
      settings.distribution.partition = engine.partition;
    progress_.stage("sharing out the rows");
    parts_.emplace(system_.csr, std::move(settings));
    record_.seconds.partition = clock_.lap();
  }

  // The matrix in the memory of the solve, and the solver.
  void make_solver() {
    if (!devices_.empty()) return make_parts();
    if (system_.elements) {
      matrix_.emplace(std::move(system_.elements));
    } else {
      if (context_ != host_) progress_.stage("copying to the GPU");
      matrix_.emplace(context_, system_.csr, false);
      matrix_->set_format(problem_.settings.format, problem_.settings.parameters, problem_.settings.kernel);
      matrix_->set_order(problem_.settings.order);
    }
    if (context_ != host_) {
      system_.b = moved(context_, *context_, std::move(system_.b));
      system_.x0 = moved(context_, *context_, std::move(system_.x0));
      record_.seconds.upload = clock_.lap();
    }
    machine_ = choose_machine(problem_.schedule.machine.path);
    record_.table = machine_.from;
    SolveSettings settings = heard_settings(context_);
    settings.on_event = [this](const ScheduleEvent& event) {
      progress_.note(fmt::format("it {}: {}", event.iteration, describe(event, *matrix_->adaptive())));
    };
    solver_.emplace(std::move(settings));
    (void)clock_.lap();
  }

  void set_up() {
    if (parts_) parts_->set_up(), (void)clock_.lap();
    if (parts_) return;
    const detail::StopQuestion question(&InterruptGuard::asked);
    solver_->set_up(*matrix_, system_.columns);
    record_.format_reason = matrix_->format_reason(), record_.choice = matrix_->choice();
    if (problem_.settings.order != "none")
      record_.order = matrix_->order(), record_.order_reason = matrix_->order_reason();
    record_.matrix_bytes = matrix_->bytes();
    if (const AssembledMatrix<double>* const matrix = matrix_->assembled()) {
      record_.format = matrix->entry().id, record_.kernel = matrix->kernel();
      record_.parameters = matrix->params();
      record_.kernel_note = kernel_note(matrix->entry(), context_->space(), matrix->kernel());
      if (const Ability<HasParts> composed = matrix->abilities().parts)
        record_.parts = composed->part_shares();
    } else {
      record_.format = matrix_->format(), record_.kernel = "native";
    }
    keep_preconditioner();
    (void)clock_.lap();
  }

  void keep_preconditioner() {
    const Preconditioner<double>* const M = solver_->preconditioner();
    if (!M) return;
    record_.preconditioner = M->figures(), record_.preconditioner_bytes = M->bytes();
    record_.preconditioner_storage = M->storage(), record_.storage_reason = M->storage_reason();
  }

  // The observer of the solve.
  SolveObserver* watch() {
    if (problem_.output.history) history_.emplace(problem_.output.history.path);
    constexpr double minute = 60;
    observer_.emplace(
        progress_, problem_.settings.solver.stopping, history_ ? &*history_ : nullptr,
        Checkpoint(*context_, system_.x0, problem_.output.solution.path, minute * arguments_.checkpoint));
    return &*observer_;
  }

  // The report of the solve itself is kept by others.
  void keep(SolveOutcome& result) {
    record_.seconds.order = result.order_seconds, record_.seconds.convert = result.convert_seconds;
    record_.seconds.setup = result.setup_seconds;
    record_.method = result.method, record_.method_reason = result.method_reason;
    record_.values = result.values, record_.values_reason = result.values_reason;
    if (solver_) keep_preconditioner();  // type auto may have changed
    record_.storage_reason = result.storage_reason;
    record_.method_changes = std::move(result.method_changes);
    record_.preconditioner_changes = std::move(result.preconditioner_changes);
    if (!result.preconditioner_reason.empty())
      record_.chosen_preconditioner = result.preconditioner,
      record_.preconditioner_reason = result.preconditioner_reason;
    record_.decisions = std::move(result.events);
    record_.switches = std::move(result.switches);
    record_.failed_switches = std::move(result.failed_switches);
    if (result.policy)
      record_.policy = {true, machine_.from, std::move(result.candidates), std::move(result.decisions), {}};
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
    } watch(progress_, problem_.settings.solver.stopping);
    const detail::StopQuestion question(&InterruptGuard::asked);
    const std::int64_t rows = record_.rows, k = system_.columns;
    const Space space = context_->space();
    MultiSolveResult result = solver_->multi_solve(
        *matrix_,
        MultiVectorView<const double>{system_.b.data(), rows, k, rows, VectorLayout::columns, space},
        MultiVectorView<double>{system_.x0.data(), rows, k, rows, VectorLayout::columns, space}, &watch);
    keep(result);
    record_.columns = std::move(result.report);
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
    if (system_.columns > 1) return run_multi_solver();
    SolveObserver* const watching = watch();
    const detail::StopQuestion question(&InterruptGuard::asked);
    SolveResult result = parts_ ? parts_->solve(system_.b, system_.x0, watching)
                                : solver_->solve(*matrix_, system_.b, system_.x0, watching);
    keep(result);
    if (parts_) keep_parts(record_, result);
    record_.result = std::move(result.report);
    record_.seconds.solve = clock_.lap();
  }

  void copy_to_host() {
    system_.x0 = moved(host_, *context_, std::move(system_.x0));
    system_.b = moved(host_, *context_, std::move(system_.b));
    record_.seconds.download = clock_.lap();
  }

  // What products may have changed.
  void keep_matrix() {
    record_.products = matrix_->products();
    if (const Ability<HasTuning> tuned = matrix_->A().abilities().tuning) record_.tuning = tuned->tuning();
    // They may have moved rows from part to part.
    if (const Ability<HasParts> composed = matrix_->A().abilities().parts;
        composed && record_.switches.empty())
      record_.parts = composed->part_shares();
  }

  void judge() {
    if (matrix_) keep_matrix();
    record_.advice = advice_for(*host_, system_.csr, record_.method, record_.result);
    const StopReason reason = record_.result.reason;
    if (record_.result.iterations > 0 && reason != StopReason::interrupted &&
        reason != StopReason::inconsistent)
      record_.note =
          note_on_null_space(*host_, system_.csr, problem_.settings.solver.null_space == "constant",
                             matrix_ ? detail::known_symmetry(matrix_->A()) : std::nullopt,
                             column(system_.b, 0), problem_.settings.solver.stopping.relative_tolerance);
    add_note(record_.note, note_on_columns_unseen_rows());
    if (problem_.op.space == Space::host)
      add_note(record_.note, note_on_threads(record_.threads, detail::usable_processors()));
    if (problem_.rhs.from_solution)
      for (std::int64_t j = 0; j < system_.columns; ++j) {
        record_.column_errors.push_back(relative_error(column(system_.x0, j), column(system_.exact, j)));
        record_.error = std::max(record_.error.value_or(0), record_.column_errors.back());
      }
    (void)clock_.lap();
  }

  VectorView<const double> column(const Vector<double>& of, std::int64_t j) const {
    return {of.data() + j * record_.rows, record_.rows, Space::host};
  }

  // Of the first column that has such rows.
  std::string note_on_columns_unseen_rows() const {
    std::string note;
    for (std::int64_t j = 0; j < system_.columns && note.empty(); ++j) {
      const SolveReport& result =
          system_.columns == 1 ? record_.result : record_.columns.columns[static_cast<std::size_t>(j)];
      note = note_on_unseen_rows(*host_, system_.csr, column(system_.b, j), column(system_.x0, j),
                                 problem_.settings.solver, result);
      if (!note.empty() && system_.columns > 1) note = fmt::format("Right-hand side {}: {}", j, note);
    }
    return note;
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
    writer.write("output.fields", output.fields.path, [&] { write_fields(output.fields.path); });
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

  // Of type auto that has found no fields, all rows are one.
  void write_fields(const std::string& path) const {
    const Preconditioner<double>* const M = solver_ ? solver_->preconditioner() : nullptr;
    const std::vector<std::int32_t> labels = M ? M->labels() : std::vector<std::int32_t>();
    Vector<double> numbers(host_, record_.rows);
    std::fill_n(numbers.data(), record_.rows, 0.0);
    std::copy(labels.begin(), labels.end(), numbers.data());
    write_vector(
        path, numbers,
        labels.empty() ? std::string("no fields were found") : "the field of each row: " + M->description());
  }

  // The ranking behind a choice before the solve, as it was made then.
  std::string explain_choice() {
    const ChoiceRecord& choice = record_.choice;
    record_.policy = {false,
                      machine_.from,
                      candidates_of(choice),
                      {},
                      measure_candidates(matrix_->source(), context_, targets_of(choice), system_.columns),
                      choice,
                      record_.format_reason,
                      choice.selector,
                      system_.columns};
    return explain_text(record_.policy);
  }

  void print_summary() {
    const SolveReport& result = record_.result;
    const bool shown = !arguments_.quiet && !arguments_.json;
    if (!shown && !result.converged())
      fmt::print(stderr, "protean: not converged: {}{}{}. {}\n", to_string(result.reason),
                 result.detail.empty() ? "" : ", ", result.detail, record_.advice);
    if (arguments_.quiet) return;
    std::string text = shown ? summary(record_) : std::string();
    if (arguments_.explain) text += explain_names(problem_);
    if (arguments_.explain && matrix_ && !record_.policy.decides && chosen_before(problem_)) {
      text += explain_choice();
    } else if (arguments_.explain && record_.policy.decides) {
      record_.policy.selector = problem_.settings.selector, record_.policy.columns = system_.columns;
      Matrix<double>& adaptive = *matrix_->adaptive();
      (void)adaptive.wait_prepared();  // a build that is still running would disturb the times
      record_.policy.real =
          adaptive.elements()
              ? measure_candidates(*adaptive.elements(), context_, matrix_->surveyed(), system_.columns)
              : measure_candidates(matrix_->source(), context_, matrix_->surveyed(), system_.columns);
      text += explain_text(record_.policy);
    }
    if (arguments_.explain) text += explain_method(record_.method_reason, record_.method_changes);
    if (arguments_.explain && !record_.preconditioner_storage.empty())
      text += explain_storage(
          record_.chosen_preconditioner.empty() ? std::string(preconditioner_type(problem_.settings))
                                                : record_.chosen_preconditioner,
          record_.preconditioner_bytes, record_.preconditioner_storage, record_.storage_reason);
    if (arguments_.explain)
      text += explain_preconditioner(preconditioner_type(problem_.settings) != "auto",
                                     record_.preconditioner_reason, record_.preconditioner_changes);
    const OutputSpec& output = problem_.output;
    bool taken = arguments_.json;
    for (const auto& [name, file] : output.files())
      taken = taken || file->path == AtomicFile::standard_output;
    print_beside(taken, text);
  }

  Clock clock_;
  const SolveArguments& arguments_;
  SolveRecord record_;
  const Problem& problem_ = record_.problem;
  Progress progress_;
  ContextPtr host_, context_;
  std::vector<ContextPtr> devices_;  // of several devices
  ProblemSystem system_;             // x0 becomes the solution
  ChosenMachine machine_;
  std::optional<SystemMatrix<double>> matrix_;
  std::optional<SystemSolver<double>> solver_;
  std::optional<LinearSystem<double>> parts_;  // over several devices, in place of the two above
  std::optional<HistoryFile> history_;
  std::optional<Observer> observer_;
  std::optional<InterruptGuard> guard_;
};

}  // namespace

bool policy_decides(const Problem& problem) {
  const SolveSettings& settings = problem.settings;
  if (settings.policy != "by-format") return settings.policy == "auto";
  return chosen_before(problem) && settings.expected_iterations == 0 && !problem.op.deterministic;
}

int solve(const SolveArguments& arguments) {
  SolveRun run(arguments);
  const SolveReport& result = run().result;
  if (result.reason == StopReason::interrupted) return InterruptGuard::exit_code();
  return result.converged() ? 0 : 1;
}

}  // namespace protean::apps
