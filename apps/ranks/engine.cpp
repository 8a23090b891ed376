#include "apps/ranks/engine.hpp"

#include <fmt/format.h>
#include <petscksp.h>

#include <algorithm>
#include <optional>

#include "apps/command/clock.hpp"
#include "apps/command/interrupt.hpp"
#include "apps/ranks/agree.hpp"
#include "apps/ranks/automatic.hpp"
#include "apps/ranks/block_preconditioner.hpp"
#include "apps/ranks/distribute.hpp"
#include "apps/ranks/elements.hpp"
#include "apps/ranks/krylov.hpp"
#include "apps/ranks/partition.hpp"
#include "apps/ranks/parts/part_solve.hpp"
#include "apps/ranks/rank_report.hpp"
#include "apps/report/json.hpp"
#include "apps/report/output.hpp"
#include "apps/report/progress.hpp"
#include "apps/solve/history.hpp"
#include "apps/solve/report.hpp"
#include "core/background.hpp"
#include "core/buffer.hpp"
#include "core/io/atomic_file.hpp"
#include "interfaces/petsc/block.hpp"
#include "interfaces/petsc/guard.hpp"
#include "interfaces/petsc/mat_types.hpp"
#include "interfaces/petsc/protean_petsc.h"

namespace protean::apps::ranks {
namespace {

using protean_types::must;

Vec vector_of(const Ranks& ranks, std::span<const double> part, std::int64_t all) {
  Vec v = nullptr;
  must(VecCreate(ranks.comm(), &v));
  must(VecSetSizes(v, static_cast<PetscInt>(part.size()), static_cast<PetscInt>(all)));
  must(VecSetType(v, VECSTANDARD));
  double* data = nullptr;
  must(VecGetArrayWrite(v, &data));
  std::copy(part.begin(), part.end(), data);
  must(VecRestoreArrayWrite(v, &data));
  return v;
}

// PETSc's own type: b = A x is computed with it, so that it does not depend on a format.
Mat matrix_of(const Ranks& ranks, OwnRows& own) {
  Mat A = nullptr;
  const auto rows = static_cast<PetscInt>(own.rows), all = static_cast<PetscInt>(own.all_rows);
  must(MatCreate(ranks.comm(), &A));
  must(MatSetSizes(A, rows, rows, all, all));
  must(MatSetType(A, MATAIJ));
  must(MatSeqAIJSetPreallocationCSR(A, own.row_ptr.data(), own.col.data(), own.values.data()));
  must(MatMPIAIJSetPreallocationCSR(A, own.row_ptr.data(), own.col.data(), own.values.data()));
  own.row_ptr = {}, own.col = {}, own.values = {};
  return A;
}

// One solve in stages, as SolveRun has them on one rank.
class RankRun {
 public:
  RankRun(const Ranks& ranks, const SolveArguments& arguments)
      : ranks_(ranks),
        arguments_(arguments),
        progress_(ranks.first() && !arguments.quiet, monitor_of(arguments.monitor)) {}

  ~RankRun() {
    KSPDestroy(&ksp_), MatDestroy(&A_);
    for (Vec* const each : {&b_, &x_, &exact_, &before_}) VecDestroy(each);
  }
  RankRun(const RankRun&) = delete;
  RankRun& operator=(const RankRun&) = delete;

  int operator()() {
    check();
    try {
      read();
      move();
      convert();
      set_up();
      run();
    } catch (...) {
      if (ranks_.first()) remove_old_report(problem().output.report.path);
      throw;
    }
    progress_.clear();
    finish();
    return record_.result.converged() ? 0 : signal_code_ != 0 ? signal_code_ : 1;
  }

 private:
  const Problem& problem() const { return record_.problem; }
  bool own() const { return problem().engine.name == "protean"; }
  bool on_elements() const { return problem().matrix.fem && !problem().matrix.fem->assembled; }

  // Each rank reads the problem and sees its files; they are the same.
  void check() {
    ranks_.each([&] {
      if (ranks_.count() > 1 && arguments_.problem == "/dev/stdin")
        throw BadArgument(
            "a problem for several ranks is a file, which each of them reads; the standard input goes to "
            "one");
      record_.problem = checked_problem(arguments_);
      const Problem& p = problem();
      if (p.output.fields)
        fail(p.output.fields.place,
             "output.fields is for one rank, whose preconditioner finds fields; leave it out");
      if (arguments_.checkpoint > 0)
        throw BadArgument(own() ? "--checkpoint has no counterpart in engine protean on several ranks"
                                : "--checkpoint has no counterpart in engine petsc");
      own() ? require_served_on_ranks(p) : require_counterparts(p);
    });
    ranks_.require_same(problem_json(problem()).dump(-1, ' ', false, Json::error_handler_t::replace),
                        "the problem");
    policy_ = !own() && policy_decides(problem());
    record_.threads = std::max(problem().op.threads, 1);
    record_.seconds.start = clock_.lap();
  }

  void read() {
    progress_.stage(problem().matrix.file ? "reading the matrix" : "making the matrix");
    std::int64_t first = 0, size = 0;
    if (problem().matrix.fem) {
      elements_ = make_elements(ranks_, problem());
      ranks_.all([&] {
        A_ = on_elements() ? element_matrix(ranks_, elements_) : assembled_matrix(ranks_, elements_);
        if (!on_elements()) elements_.op.reset();
      });
      record_.rows = elements_.rows;
      if (on_elements()) record_.elements = elements_.all_elements;
    } else {
      OwnRows own = read_rows(ranks_, problem().matrix);
      record_.rows = own.all_rows;
      ranks_.all([&] { A_ = matrix_of(ranks_, own); });
    }
    ranks_.all([&] {
      PetscInt begin = 0, end = 0;
      must(MatGetOwnershipRange(A_, &begin, &end));
      first = begin, size = end - begin;
    });
    const Problem& p = problem();
    const std::vector<double> given = read_part(ranks_, p.rhs.vector, first, size, record_.rows,
                                                p.rhs.from_solution ? "rhs.solution.file" : "rhs.file");
    const std::vector<double> guess =
        read_part(ranks_, p.initial_guess, first, size, record_.rows, "initial_guess.file");
    ranks_.all([&] {
      b_ = vector_of(ranks_, given, record_.rows);
      x_ = vector_of(ranks_, guess, record_.rows);
      if (p.rhs.from_solution) {
        must(VecDuplicate(b_, &exact_));
        must(MatMult(A_, b_, exact_));
        std::swap(b_, exact_);
      } else if (p.matrix.scale != 1) {
        must(VecScale(b_, p.matrix.scale));
      }
      must(VecDuplicate(x_, &before_));
    });
    record_.seconds.read = clock_.lap();
  }

  void move() {
    if (on_elements()) return;
    ranks_.all([&] { moved_.move(ranks_, problem().engine, A_, {&b_, &x_, &exact_}); });
    if (moved_.any()) record_.seconds.order = clock_.lap();
  }

  // Engine protean has rows of its own from here on.
  void convert_own() {
    ranks_.all([&] { chosen_ = without_auto(problem(), A_, record_); });
    std::vector<PetscInt> numbers;
    ranks_.each([&] { numbers = moved_.numbers(A_); });
    part_.emplace(ranks_);
    part_->convert(A_, std::move(numbers), chosen_);
    ranks_.all([&] { must(MatDestroy(&A_)); });
    if (problem().settings.format == "auto")
      record_.format_reason = "over several ranks format auto is csr with engine protean";
    record_.seconds.convert = clock_.lap();
  }

  void convert() {
    progress_.stage("converting");
    if (own()) return convert_own();
    ranks_.all([&] {
      must(PetscOptionsInsertString(nullptr, options_of(problem(), policy_).c_str()));
      if (on_elements()) return;
      must(MatConvert(A_, protean_types::root_type, MAT_INPLACE_MATRIX, &A_));
      must(MatSetFromOptions(A_));
    });
    // No rank waits for a message while one fails.
    if (!on_elements()) ranks_.each([&] { must(protean_types::convert_blocks(A_)); });
    record_.seconds.convert = clock_.lap();
  }

  // A row whose diagonal entry is missing or zero is an error with the preconditioners that divide by it; PETSc would
  // put 1 in its place.
  void check_diagonal() {
    const Problem& p = chosen_;
    if (preconditioner_type(p.settings) == "none" ||
        p.settings.preconditioning.zero_diagonal == ZeroDiagonal::one)
      return;
    Vec d = nullptr;
    ranks_.all([&] { must(VecDuplicate(b_, &d)), must(MatGetDiagonal(A_, d)); });
    ranks_.each([&] {
      const double* data = nullptr;
      PetscInt first = 0, end = 0;
      must(VecGetOwnershipRange(d, &first, &end)), must(VecGetArrayRead(d, &data));
      for (PetscInt i = 0; i < end - first; ++i)
        if (data[i] == 0)
          throw BadMatrix(fmt::format(
              "row {} (counted from 0) has no diagonal entry, or it is 0; preconditioner {} divides by "
              "it. preconditioner.zero_diagonal: one uses 1 in its place (jacobi)",
              first + i, preconditioner_type(p.settings)));
      must(VecRestoreArrayRead(d, &data));
    });
    ranks_.all([&] { must(VecDestroy(&d)); });
  }

  void set_up_own() {
    guard_.emplace();
    ended_ = part_->set_up();
    if (const Preconditioner<double>* const M = part_->preconditioner()) {
      record_.preconditioner_storage = M->storage(), record_.storage_reason = M->storage_reason();
      record_.preconditioner_bytes = M->bytes();
      const std::string_view type = M->name();
      if (type != "jacobi" && !detail::setup_communicates(type)) note_of_blocks(type);
    }
    record_.seconds.setup = clock_.lap();
  }

  void note_of_blocks(std::string_view type) {
    if (ranks_.count() > 1)
      note_ = fmt::format(
          "Preconditioner {} is made of the rows of each rank, which do not see the rows of other ranks: more "
          "ranks need more iterations.",
          type);
  }

  void set_up() {
    progress_.stage("setting up");
    if (own()) return set_up_own();
    ranks_.all([&] { chosen_ = without_auto(problem(), A_, record_); });
    check_diagonal();
    ranks_.all([&] {
      must(KSPCreate(ranks_.comm(), &ksp_));
      must(KSPSetOperators(ksp_, A_, A_));
      configure(ksp_, chosen_);
      if (policy_) must(KSPProteanWatch(ksp_));
    });
    set_up_blocks();
    ranks_.all([&] {
      if (ended_ != StopReason::running) return;
      must(KSPSetUp(ksp_)), must(KSPSetUpOnBlocks(ksp_));
    });
    record_.seconds.setup = clock_.lap();
  }

  // Our own preconditioners, unless petsc_options name another one. Each rank can be ended; then all are.
  void set_up_blocks() {
    PC pc = nullptr;
    PetscBool ours = PETSC_FALSE;
    ranks_.all([&] {
      must(KSPGetPC(ksp_, &pc));
      must(PetscObjectTypeCompare(protean_types::object(pc), PCSHELL, &ours));
    });
    if (!ours || !BlockPreconditioner::has(preconditioner_type(chosen_.settings))) return;
    guard_.emplace();
    const Clock since;
    const double limit = problem().settings.solver.stopping.max_seconds;
    int why[2] = {0, 0};  // the time is over; a signal
    ranks_.each([&] {
      const ContextPtr host = Context::host(record_.threads);
      try {
        const detail::EndableWork endable(*host, [&] {
          why[0] = since.total() >= limit, why[1] = InterruptGuard::asked();
          return why[0] + why[1] > 0;
        });
        block_.set_up(A_, chosen_.settings, host);
      } catch (const detail::WorkEnded&) {}
    });
    ranks_.all([&] {
      MPI_Allreduce(MPI_IN_PLACE, why, 2, MPI_INT, MPI_MAX, ranks_.comm());
      block_.attach(pc);
    });
    ended_ = why[1] != 0   ? StopReason::interrupted
             : why[0] != 0 ? StopReason::time_limit
                           : StopReason::running;
    note_of_blocks(preconditioner_type(chosen_.settings));
  }

  void run() {
    if (ranks_.first() && problem().output.history) history_.emplace(problem().output.history.path);
    // The setup of the preconditioner counts.
    StoppingRule rule = problem().settings.solver.stopping;
    rule.max_seconds = std::max(rule.max_seconds - record_.seconds.setup, 0.0);
    const auto told = [&](const IterationInfo& info) {
      if (history_) history_->add(info);
      progress_.iteration(info, rule);
    };
    const auto told_of_petsc = [&](const KrylovIteration& now) {
      told({.iteration = now.iteration,
            .residual = now.residual,
            .relative_residual = now.relative_residual,
            .seconds = now.seconds});
    };
    if (!guard_) guard_.emplace();
    ranks_.all([&] {
      record_.result =
          own() ? solve_own(told, rule) : solve(ksp_, A_, b_, x_, rule, told_of_petsc, ended_, signal_code_);
    });
    record_.advice = record_.result.advice;
    ranks_.each([&] {
      const std::string unused = own() ? std::string() : note_on_unused(problem());
      record_.note = note_ + (note_.empty() || unused.empty() ? "" : " ") + unused;
    });
    record_.seconds.solve = clock_.lap();
    ranks_.all([&] {
      if (exact_) {
        double norm = 0, difference = 0;
        must(VecNorm(exact_, NORM_2, &norm));
        must(VecAXPY(exact_, -1, x_)), must(VecNorm(exact_, NORM_2, &difference));
        record_.error = difference / (norm > 0 ? norm : 1);
      }
      if (moved_.any())
        moved_.back(x_, before_);
      else
        must(VecCopy(x_, before_));
    });
  }

  SolveReport solve_own(const std::function<void(const IterationInfo&)>& told, const StoppingRule& rule) {
    const double* b = nullptr;
    double* x = nullptr;
    PetscInt rows = 0;
    must(VecGetLocalSize(x_, &rows)), must(VecGetArrayRead(b_, &b)), must(VecGetArray(x_, &x));
    const auto size = static_cast<std::size_t>(rows);
    SolveReport report = part_->solve({b, size}, {x, size}, rule.max_seconds, ended_, told, signal_code_);
    must(VecRestoreArray(x_, &x)), must(VecRestoreArrayRead(b_, &b));
    return report;
  }

  std::vector<RankRecord> gather_own() {
    Json json = part_->json();
    if (ranks_.first()) json["engine"] = {{"name", "protean"}};
    return gather_records(ranks_, std::move(json), {}, part_->product_seconds(), record_);
  }

  // Files and summary, as on one rank.
  void finish() {
    const OutputSpec& output = problem().output;
    const SolveReport& result = record_.result;
    OutputWriter writer;
    if (output.solution) {
      std::string why;
      try {
        const double* data = nullptr;
        PetscInt size = 0;
        must(VecGetLocalSize(before_, &size)), must(VecGetArrayRead(before_, &data));
        write_parts(ranks_, output.solution.path, {data, static_cast<std::size_t>(size)}, record_.rows,
                    fmt::format("x of A x = b, {}, true relative residual {:.3e}",
                                result.converged() ? "converged" : "not converged", result.true_relative));
        must(VecRestoreArrayRead(before_, &data));
      } catch (const Error& error) { why = error.what(); }
      if (!why.empty())
        writer.write("output.solution", output.solution.path, [&] { throw BadArgument(why); });
    }
    writer.write("output.history", history_ ? output.history.path : std::string(),
                 [&] { history_->finish(); });
    record_.seconds.write = clock_.lap();
    record_.peak_bytes = peak_memory();
    record_.peak_buffer_bytes = peak_allocated_bytes();
    std::vector<RankRecord> all;
    ranks_.all([&] { all = own() ? gather_own() : gather_records(ranks_, A_, ksp_, record_, elements_); });
    record_.seconds.total = clock_.total();
    if (ranks_.first()) {
      complete(record_, all);
      record_.not_written = writer.failures();
      const std::string json = text(report_of(record_, all, problem().engine.partition));
      writer.write(
          arguments_.report.empty() ? "output.report" : "--report", output.report.path,
          [&] { write_file(output.report.path, json); }, true);
      record_.not_written = writer.failures();
      if (arguments_.json) writer.write("--json", "standard output", [&] { print(json); });
      writer.write("the summary", "standard output", [&] { print_summary(all); });
    }
    ranks_.each([&] {
      writer.require_all(fmt::format(" (the solve had ended: {} after {} iterations)",
                                     to_string(result.reason), result.iterations));
    });
  }

  void print_summary(const std::vector<RankRecord>& all) {
    const SolveReport& result = record_.result;
    const bool shown = !arguments_.quiet && !arguments_.json;
    if (!shown && !result.converged())
      fmt::print(stderr, "protean: not converged: {}{}{}. {}\n", to_string(result.reason),
                 result.detail.empty() ? "" : ", ", result.detail, record_.advice);
    if (arguments_.quiet) return;
    std::string out = shown ? summary(record_) + table_of(all) : std::string();
    if (arguments_.explain) out += explanations_of(all);
    const OutputSpec& output = problem().output;
    bool taken = arguments_.json;
    for (const auto& [name, file] : output.files())
      taken = taken || file->path == AtomicFile::standard_output;
    print_beside(taken, out);
  }

  const Ranks& ranks_;
  const SolveArguments& arguments_;
  Clock clock_;
  SolveRecord record_;
  Problem chosen_;  // the problem, with method and preconditioner instead of `auto`
  Progress progress_;
  bool policy_ = false;
  OwnElements elements_;
  Mat A_ = nullptr;
  Vec b_ = nullptr, x_ = nullptr, exact_ = nullptr, before_ = nullptr;  // before_: x on its first owners
  Moved moved_;
  BlockPreconditioner block_;
  std::optional<PartSolve> part_;           // of engine protean
  StopReason ended_ = StopReason::running;  // of the setup
  std::string note_;
  KSP ksp_ = nullptr;
  std::optional<HistoryFile> history_;
  std::optional<InterruptGuard> guard_;
  int signal_code_ = 0;
};

}  // namespace

int solve(const SolveArguments& arguments) {
  const Ranks ranks(PETSC_COMM_WORLD);
  RankRun run(ranks, arguments);
  return run();
}

}  // namespace protean::apps::ranks
