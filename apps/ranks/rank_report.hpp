// What each rank did, in the report of rank 0.
#pragma once
#include <petscksp.h>

#include <string>
#include <vector>

#include "apps/ranks/agree.hpp"
#include "apps/ranks/elements.hpp"
#include "apps/report/json.hpp"
#include "apps/solve/solve.hpp"

namespace protean::apps::ranks {

// A rank's part as JSON, and what its policy knew as text.
struct RankRecord {
  Json json;
  std::string explanation;
};

// The records of all ranks on rank 0, empty elsewhere. json: rows, nonzeros, blocks and what a product sends; on rank 0
// also the engine. products: seconds. Collective.
std::vector<RankRecord> gather_records(const Ranks& ranks, Json json, const std::string& explanation,
                                       double products, const SolveRecord& record);
// The same of engine petsc.
std::vector<RankRecord> gather_records(const Ranks& ranks, Mat A, KSP ksp, const SolveRecord& record,
                                       const OwnElements& elements);

// The sums of all ranks in the record of rank 0: entries, bytes, products, the format.
void complete(SolveRecord& record, const std::vector<RankRecord>& all);
// The report of the command, with `engine` and `ranks`.
Json report_of(const SolveRecord& record, const std::vector<RankRecord>& all, const std::string& partition);
// Lines below the summary: a line for each rank, and the imbalance.
std::string table_of(const std::vector<RankRecord>& all);
// The text of --explain, rank by rank.
std::string explanations_of(const std::vector<RankRecord>& all);

}  // namespace protean::apps::ranks
