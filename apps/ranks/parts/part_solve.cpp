#include "apps/ranks/parts/part_solve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "apps/command/clock.hpp"
#include "apps/command/interrupt.hpp"
#include "apps/problem/engine_keys.hpp"
#include "apps/ranks/asking.hpp"
#include "core/background.hpp"
#include "core/blas1.hpp"
#include "interfaces/petsc/block.hpp"
#include "interfaces/petsc/guard.hpp"
#include "solvers/diagnosis.hpp"

namespace protean::apps::ranks {
namespace {

using protean_types::must;

// Shows each iteration, and ends the solve on all ranks if one of them got a signal.
class Watch final : public SolveObserver {
 public:
  Watch(MPI_Comm comm, const std::function<void(const IterationInfo&)>& told)
      : asking_(comm, std::numeric_limits<double>::infinity()), told_(told) {}
  bool on_iteration(const IterationInfo& info) override {
    told_(info);
    return asking_(info.iteration, info.seconds) == StopReason::running;
  }
  int signal_code() const noexcept { return asking_.signal_code(); }

 private:
  Asking asking_;
  const std::function<void(const IterationInfo&)>& told_;
};

}  // namespace

void require_served_on_ranks(const Problem& p) {
  const Place& place = p.engine.place;
  if (!p.engine.options.empty()) fail(place, "petsc_options are for engine: petsc; the engine is protean");
  if (p.op.space == Space::device)
    fail(
        place,
        "engine protean on several ranks computes on hosts; leave operator.space: device out, or take one rank "
        "with operator.devices, which distributes the system over the GPUs of one machine");
  if (p.matrix.fem && !p.matrix.fem->assembled)
    fail(
        p.matrix.place,
        "engine protean on several ranks needs the assembled matrix; take matrix.generate.storage: assembled, "
        "or engine: petsc");
  if (p.rhs.columns > 1)
    fail(p.rhs.place,
         "engine protean on several ranks takes one right-hand side; solve them one after another, or on one "
         "rank");
  if (const auto unserved = detail::unserved_by_parts(p.settings, "rank"))
    fail_at_setting(p, *unserved, place);
}

void PartSolve::convert(Mat A, std::vector<PetscInt> numbers, const Problem& problem) {
  settings_ = problem.settings;
  RowArrays own;
  std::vector<PetscInt> ranges;
  ranks_.each([&] {
    host_ = Context::host(std::max(problem.op.threads, 1), {.deterministic = problem.op.deterministic});
    own = rows_of(A);
    const PetscInt* begin = nullptr;
    must(MatGetOwnershipRanges(A, &begin));
    ranges.assign(begin, begin + ranks_.count() + 1);
  });
  ranks_.all([&] { link_ = std::make_unique<RankLink>(ranks_.comm(), std::move(numbers)); });
  blocks_ = blocks_of(ranks_, *link_, host_, own, ranges);
  std::unique_ptr<RankExchange> exchange;
  ranks_.all([&] { exchange = std::make_unique<RankExchange>(link_->comm(), blocks_->halo); });
  ranks_.each([&] {
    part_ = std::make_unique<detail::PartSystem<double>>(
        host_, blocks_->halo, blocks_->interior, blocks_->boundary, std::move(exchange),
        [this](const detail::PartHalo& of_level) {
          return std::make_unique<RankExchange>(link_->comm(), of_level);
        },
        settings_);
  });
}

StopReason PartSolve::set_up() {
  const Clock since;
  const double limit = settings_.solver.stopping.max_seconds;
  int why[2] = {0, 0};  // the time is over; a signal
  const auto work = [&] {
    const detail::JoinedWork joined(*host_, *link_);
    try {
      part_->set_up(settings_.method.name(), settings_);
    } catch (const BadMatrix& error) {
      if (link_->first_row() == 0) throw;
      throw BadMatrix(
          fmt::format("{} (rows and columns count from those of this rank, whose row 0 is row {} of "
                      "the matrix)",
                      error.what(), part_->A().rows() > 0 ? link_->number_of(0) : 0));
    }
  };
  // Ranks wait for each other in it, so none can be ended alone.
  if (detail::setup_communicates(detail::preconditioner_of_parts(settings_))) {
    ranks_.all(work);
    return StopReason::running;
  }
  ranks_.each([&] {
    try {
      const detail::EndableWork endable(*host_, [&] {
        why[0] = since.total() >= limit, why[1] = InterruptGuard::asked();
        return why[0] + why[1] > 0;
      });
      work();
    } catch (const detail::WorkEnded&) {}
  });
  ranks_.all([&] { MPI_Allreduce(MPI_IN_PLACE, why, 2, MPI_INT, MPI_MAX, ranks_.comm()); });
  return why[1] != 0 ? StopReason::interrupted : why[0] != 0 ? StopReason::time_limit : StopReason::running;
}

// The residual of the guess, which stays as it is.
SolveReport PartSolve::ended_report(std::span<const double> b, std::span<const double> x, StopReason ended) {
  const std::int64_t rows = part_->A().rows();
  Vector<double> r(host_, rows), number(host_, 1);
  const auto norm_of_r = [&] { return detail::norm<double>(*host_, r, number); };
  SolveReport report;
  report.steps = "host", report.reason = ended, report.detail = "the setup of the preconditioner was ended";
  copy<double>(*host_, VectorView<const double>{b.data(), rows}, r);
  report.rhs_norm = norm_of_r();
  part_->A().apply(-1.0, VectorView<const double>{x.data(), rows}, 1.0, r);
  report.initial_residual = report.true_residual = report.recurrence_residual = norm_of_r();
  const double baseline =
      settings_.solver.stopping.baseline == Baseline::rhs ? report.rhs_norm : report.initial_residual;
  report.true_relative = report.recurrence_relative = baseline > 0 ? report.true_residual / baseline : 0;
  return report;
}

SolveReport PartSolve::solve(std::span<const double> b, std::span<double> x, double rest, StopReason ended,
                             const std::function<void(const IterationInfo&)>& told, int& signal_code) {
  const detail::JoinedWork joined(*host_, *link_);
  signal_code = 0;
  if (ended != StopReason::running) {
    if (ended == StopReason::interrupted && InterruptGuard::asked())
      signal_code = InterruptGuard::exit_code();
    MPI_Allreduce(MPI_IN_PLACE, &signal_code, 1, MPI_INT, MPI_MAX, ranks_.comm());
    return ended_report(b, x, ended);
  }
  if (std::isfinite(rest)) {
    settings_.solver.stopping.max_seconds = rest;
    part_->drop_solver();
    part_->set_up(settings_.method.name(), settings_);
  }
  Watch watch(link_->comm(), told);
  SolveReport report = part_->solve(b, x, &watch);
  if (report.reason == StopReason::interrupted) signal_code = watch.signal_code();
  return report;
}

Json PartSolve::json() const {
  const PartRecord record = part_->record(ranks_.rank());
  Json json = {{"rows", record.rows}, {"nonzeros", record.nonzeros}, {"blocks", Json::array()}};
  const auto add = [&](protean_types::Role role, const AssembledMatrix<double>& block) {
    json["blocks"].push_back(
        {{"block", protean_types::name_of(role)},
         {"rows", block.rows()},
         {"nonzeros", role == protean_types::Role::diagonal ? blocks_->halo.interior_entries
                                                            : blocks_->halo.boundary_entries},
         {"format", block.name()},
         {"kernel", block.kernel()},
         {"bytes", block.bytes()},
         {"products", block.products()},
         {"switches", Json::array()},
         {"failed_switches", Json::array()}});
  };
  add(protean_types::Role::diagonal, part_->A().interior());
  if (const auto* const boundary = part_->A().boundary()) add(protean_types::Role::off_diagonal, *boundary);
  std::int64_t messages = 0;
  for (const detail::HaloNeighbour& to : blocks_->halo.neighbours) messages += to.send.empty() ? 0 : 1;
  json["sent_by_a_product"] = {{"bytes", record.sent * static_cast<std::int64_t>(sizeof(double))},
                               {"messages", messages}};
  return json;
}

}  // namespace protean::apps::ranks
