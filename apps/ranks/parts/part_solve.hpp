// Engine protean on several ranks: our own method, with the rows of this rank as its part of the system.
#pragma once
#include <petscmat.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "apps/problem/problem_file.hpp"
#include "apps/ranks/agree.hpp"
#include "apps/ranks/parts/link.hpp"
#include "apps/ranks/parts/rows.hpp"
#include "apps/report/json.hpp"
#include "systems/part_system.hpp"

namespace protean::apps::ranks {

// Throws BadFile or BadArgument for what engine protean does not serve over ranks, with what to take instead.
void require_served_on_ranks(const Problem& problem);

class PartSolve {
 public:
  explicit PartSolve(const Ranks& ranks) : ranks_(ranks) {}
  PartSolve(const PartSolve&) = delete;
  PartSolve& operator=(const PartSolve&) = delete;

  // The rows of A in the format of the problem, whose method and preconditioner are not `auto`. numbers: the caller's
  // number of each row. A may go afterwards. Collective; errors are agreed on (Ranks::each()).
  void convert(Mat A, std::vector<PetscInt> numbers, const Problem& problem);
  // Setup of the preconditioner. `running`, or why it was ended on all ranks: a signal, or the time. Collective.
  StopReason set_up();
  // Solves with x as the guess. rest: of the time. ended: as set_up() returned it, and x stays as it is unless it is
  // `running`. signal_code: the exit code of a signal, or 0. Collective; call it in Ranks::all().
  SolveReport solve(std::span<const double> b, std::span<double> x, double rest, StopReason ended,
                    const std::function<void(const IterationInfo&)>& told, int& signal_code);

  // What the report has of this rank: rows, nonzeros, blocks, what a product sends.
  Json json() const;
  double product_seconds() const { return part_->A().product_seconds(); }
  const Preconditioner<double>* preconditioner() const { return part_->preconditioner(); }
  std::int64_t products() const { return part_->A().products(); }

 private:
  SolveReport ended_report(std::span<const double> b, std::span<const double> x, StopReason ended);

  const Ranks& ranks_;
  SolveSettings settings_;
  ContextPtr host_;
  std::unique_ptr<RankLink> link_;
  std::unique_ptr<RankBlocks> blocks_;
  std::unique_ptr<detail::PartSystem<double>> part_;
};

}  // namespace protean::apps::ranks
