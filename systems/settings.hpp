// What a solve is to do, and what it did. Each entrance (the command, C++, C, Fortran, Python, PETSc) translates its
// own settings to these, and the defaults below are the defaults of all (docs/entrances.md).
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <protean/core/context.hpp>
#include <protean/core/export.hpp>
#include <protean/formats/choice_record.hpp>
#include <protean/operators/format_params.hpp>
#include <protean/operators/policy/switch_policy.hpp>
#include <protean/operators/policy/switch_records.hpp>
#include <protean/preconditioners/preconditioner_options.hpp>
#include <protean/solvers/decision_records.hpp>
#include <protean/solvers/schedule.hpp>
#include <protean/solvers/solve_report.hpp>
#include <protean/solvers/solver_options.hpp>
#include <protean/systems/types.hpp>

namespace PROTEAN_EXPORT protean {

struct MachineTable;  // operators/policy/cost_model.hpp

// How a system is distributed over several GPUs that reach each other's memory (docs/distributed.md).
struct Distribution {
  // A context of a device of its own for each part, which nothing else uses while the system lives. Fewer than two: the
  // system is not distributed. A device that gets no rows takes no part.
  std::vector<ContextPtr> contexts = {};
  // Which part has which rows: "rows", neighbouring rows with about equally many entries, or "graph", METIS' partition
  // of the pattern of A + A^T.
  std::string partition = "rows";
  // The part of each row, from 0, in place of `partition`.
  std::vector<std::int32_t> part_of_row = {};
};

// The settings of a solve. Methods, preconditioners, formats and orders have the names of their catalogues. A key of a
// problem file has the same name, words and meaning as the member here.
struct SolveSettings {
  // One of solvers(), or "auto": cg for a symmetric matrix with a positive diagonal, minres for another symmetric
  // matrix, bicgstab for a matrix or a preconditioner that is not symmetric, gmres for a saddle point that the
  // preconditioner can solve, fgmres for a preconditioner that is variable(). If the method cannot solve the system,
  // auto goes on with another one from the x that is there. SolveResult::method_reason says why, method_changes what it
  // did. Or a type with its options, Gmres{.restart = 50}; `solver` then has the options of StoppingRule only.
  Selection<SolverOptions> method = "auto";
  SolverOptions solver =
      {};  // tolerances, limits, options of the method; for auto: of each method it may take
  // One of preconditioners(). "auto" begins with jacobi and changes to another one in the middle of a solve, or between
  // the solves of a kept system, if that pays. It is fields for a saddle point and for cells with a pressure
  // (docs/fields.md). If the diagonal has a zero, or a negative entry with cg or minres, it is none for another matrix,
  // with the reason. Or a type with its
  // options, Amg{.unknowns = 3}, in place of `preconditioning`.
  Selection<PreconditionerOptions> preconditioner = "auto";
  PreconditionerOptions preconditioning = {};  // `refresh`: when a kept system sets it up again
  // A format's name, or "auto": begin with csr and let the policy change the format, or choose the format with the
  // smallest predicted time of conversion and solve before the solve (choose_format()). `policy` says which of the two.
  std::string format = "auto";
  FormatParams parameters = {};  // of the format named
  std::string kernel = {};       // empty: the default kernel
  // The order of rows and columns in the solve: "none", "auto" (choose_order()) or one of orderings(). b, x, observer,
  // residuals and preconditioner keep the caller's order.
  std::string order = "none";
  // Whether a policy (AutoSwitcher) may change the format and the order of the rows during the solve if that pays:
  // - "auto": it may, with policy_options; it begins in the format that is named, or in csr.
  // - "none": nothing changes.
  // - "by-format": auto for format auto, and none for a named format. It is also none with `expected_iterations`, with
  //   a schedule, in deterministic mode, and for matrices of fewer than least_entries_to_convert entries.
  std::string policy = "by-format";
  // Whether the policy may change the storage of the values, too: "double", it may not; "auto", it may change to a
  // format whose parameter `values` is float if that pays, and goes back for good if it does not. On the host, for one
  // right-hand side, with a method that has reliable updates (cg), not in deterministic mode (docs/precision.md).
  std::string precision = "double";
  const MachineTable* machine =
      nullptr;  // of `policy` and of format auto, which must outlive the system; null: built in
  PolicyOptions policy_options = {};
  // Points at which the format or the order changes (FormatSchedule). Orders have the names of `order`: "none" is the
  // caller's numbering, also in a solve that began in another one. A schedule excludes a policy.
  std::vector<SchedulePoint> schedule = {};
  ContextPtr context = nullptr;       // null: Context::host(); needed for arrays of a device
  SolveObserver* observer = nullptr;  // called in each iteration
  Distribution distribution = {};     // over several devices; `context` then stays empty
  // Expected number of iterations of a solve, for the policy and for the choice of format and order "auto". 0: not
  // known. A choice before the solve then assumes as many as earlier solves of the system needed, or assumed_iterations
  // if there were none.
  std::int64_t expected_iterations = 0;
  // The selector behind `format` auto: a name of selector_words(). A choice before the solve takes its first format. A
  // policy considers csr and its first policy_candidates, and decides among these by measured times.
  std::string selector = std::string(default_selector);
  // The parts of a composition (make_composition()). If there are any, they take the place of `preconditioner`.
  std::vector<PreconditionerPart> parts = {};
  Composition combine = Composition::additive;
  // Whether arrays are checked before use: row pointers and columns of a new matrix, and that all values are finite.
  // The check reads all arrays once, which takes about as long as a few products. Without it a wrong column makes a
  // product access memory outside its vectors.
  bool check_arrays = true;
  // Whether the policy builds formats in another thread next to the solve. Empty: it does if a processor is idle.
  std::optional<bool> overlapped = {};
  // Functions of the caller. on_stage is called when a stage begins ("checking the matrix", "converting the matrix"
  // ...). on_note is called at each change of format by the policy, and for each PreconditionerChange
  // and MethodChange, with a line of text for the user. on_event is called at each event of a schedule.
  std::function<void(std::string_view)> on_stage = {};
  std::function<void(const std::string&)> on_note = {};
  std::function<void(const ScheduleEvent&)> on_event = {};
};

// Throws BadArgument for unknown names (the message has the nearest one), options out of range, and options that
// exclude each other. Throws NotAvailable for what is not in this build.
void check(const SolveSettings& settings);

// What preconditioner `auto` did in the middle of a solve.
struct PreconditionerChange {
  enum class Action : unsigned char {
    changed,     // the method goes on from its x with `to`
    taken_back,  // the residual fell more slowly with `from`, or the method failed: it goes on with `to` again
    refused  // `to` could not be set up, or is too slow, and `from` stays: the iterations have not been touched
  } action = Action::changed;
  std::int64_t iteration = 0;
  double seconds = 0, relative_residual = 0;          // of the solve at that time
  std::string from, to;                               // names of preconditioners
  std::string reason;                                 // for a person
  double setup_seconds = 0, application_seconds = 0;  // of `to`, measured; an application is one M^-1 r
  // Seconds that the solve has gained by the candidate: the time in which the preconditioner before it would have come
  // as far, by its rate, less the time of the candidate and of its setup. Negative: lost. 0 if it was refused.
  double gained_seconds = 0;
  std::int64_t columns = 1;  // right-hand sides that were being solved
};
// "changed", "taken back", "refused"
std::string_view to_string(PreconditionerChange::Action action) noexcept;

// What method `auto` did in the middle of a solve.
struct MethodChange {
  enum class Action : unsigned char {
    changed,  // the solve goes on with `to` from its x, or from x = 0 if b - A x had become larger than b
    refused   // there was no memory for `to`
  } action = Action::changed;
  std::int64_t iteration = 0;
  double seconds = 0, relative_residual = 0;  // of the solve at that time, by b - A x
  std::string from, to;                       // names of methods
  std::int64_t restart = 0;                   // of `to`, if that is gmres
  std::string reason;                         // for a person
  std::int64_t columns = 1;                   // right-hand sides that go on with `to`, or would have
};
// "changed", "refused"
std::string_view to_string(MethodChange::Action action) noexcept;

// One part of a system that is distributed over several devices.
struct PartRecord {
  std::int64_t device = 0;  // of Distribution::contexts
  std::int64_t rows = 0, nonzeros = 0;
  std::int64_t boundary_rows = 0;               // rows with entries in columns of other parts
  std::int64_t ghosts = 0;                      // entries of x that a product needs from other parts
  std::int64_t neighbours = 0, sent = 0;        // messages of a product, and the entries of x that they hold
  std::string format, kernel, boundary_format;  // of the interior and the boundary block; empty: no boundary
  std::size_t bytes = 0, preconditioner_bytes = 0;
  std::int64_t products = 0;  // with its rows, since the system was set up
};

// What a solve did, besides its report. With several right-hand sides, residuals of events and changes belong to the
// column that has furthest to go, and products of candidates multiply all columns.
struct SolveOutcome {
  // The method at the end of the solve, and why method "auto" took it; what "auto" did in the middle of the solve.
  std::string method, method_reason;
  std::vector<MethodChange> method_changes;
  std::string format, kernel, order;  // at the end of the solve
  // Why format "auto" took its format, for example csr because of several vectors, and which formats were refused.
  std::string format_reason;
  ChoiceRecord choice;  // the parts of format_reason
  // How values are stored at the end of the solve: "double", "dictionary", "float (exact)" or "float
  // (rounded)", and why.
  std::string values, values_reason;
  bool policy = false;       // whether a policy decided during the solve
  std::string order_reason;  // why order "auto" took its order
  // The preconditioner of the solve: "none", its name, or the one that "auto" chose, and why.
  std::string preconditioner, preconditioner_reason;
  std::string storage_reason;  // why `storage` auto of the preconditioner took double; empty if it did not
  std::vector<PreconditionerChange> preconditioner_changes;  // by "auto", in the middle of the solve
  std::vector<SwitchRecord> switches;                        // changes of format in this solve
  std::vector<FailedSwitch> failed_switches;
  std::vector<DecisionRecord> decisions;  // decisions of the policy
  std::vector<CandidateRecord>
      candidates;  // of the policy; empty if no solve of the system has lasted until it looked
  std::vector<ScheduleEvent> events;  // events of the schedule
  std::string partition;              // "rows", "graph" or "given" if the system is distributed
  std::vector<PartRecord> parts;      // the parts with rows; empty if it is not distributed
  double order_seconds = 0;           // finding the order before the solve, and P A P^T
  double convert_seconds = 0;         // making the first format
  // Setup of the preconditioner. If it was set up again in the middle of the solve, report.seconds has that time, too.
  // report.seconds also has the setups of preconditioner_changes, which are not in setup_seconds.
  double setup_seconds = 0;
  double check_seconds = 0;  // checking the arrays
};

struct SolveResult : SolveOutcome {
  SolveReport report;
  bool converged() const noexcept { return report.converged(); }
};

struct MultiSolveResult : SolveOutcome {
  MultiSolveReport report;
  bool converged() const noexcept { return report.converged(); }
};

}  // namespace protean
