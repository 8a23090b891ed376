#include "apps/ranks/rank_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "apps/report/progress.hpp"
#include "apps/solve/explain.hpp"
#include "apps/solve/report.hpp"
#include "interfaces/petsc/block.hpp"
#include "interfaces/petsc/guard.hpp"
#include "interfaces/petsc/mat_types.hpp"

namespace protean::apps::ranks {
namespace {

using protean_types::must;
using protean_types::object;

// What a product sends to other ranks. Of an assembled matrix: entries of x that they have columns for.
struct Traffic {
  std::int64_t numbers = 0, messages = 0;
};

// From what each rank receives: a number of entries from each other one.
Traffic sent(const Ranks& ranks, const std::vector<int>& received) {
  std::vector<int> sends(received.size());
  MPI_Alltoall(received.data(), 1, MPI_INT, sends.data(), 1, MPI_INT, ranks.comm());
  Traffic all;
  for (const int numbers : sends) all.numbers += numbers, all.messages += numbers > 0 ? 1 : 0;
  return all;
}

// How many of these columns each rank owns. ranges: of the columns, from all ranks.
std::vector<int> owners_of(const PetscInt* columns, PetscInt count, const PetscInt* ranges,
                           const Ranks& ranks) {
  std::vector<int> owned(static_cast<std::size_t>(ranks.count()), 0);
  for (PetscInt k = 0; k < count; ++k) {
    const auto owner =
        static_cast<int>(std::upper_bound(ranges, ranges + ranks.count() + 1, columns[k]) - ranges) - 1;
    if (owner != ranks.rank()) ++owned[static_cast<std::size_t>(owner)];
  }
  return owned;
}

Json block_json(const protean_types::BlockState& s, std::string_view role) {
  Json json = {{"block", role},
               {"rows", s.rows},
               {"nonzeros", s.nonzeros},
               {"format", s.format},
               {"kernel", s.kernel},
               {"bytes", s.bytes},
               {"products", s.products},
               {"seconds", {{"convert", s.making_seconds}, {"products", s.product_seconds}}}};
  if (!s.chosen.empty()) json["reason"] = s.chosen;
  json["switches"] = Json::array();
  for (const SwitchRecord& change : s.changes) json["switches"].push_back(switch_json(change));
  json["failed_switches"] = Json::array();
  for (const FailedSwitch& failed : s.failures) json["failed_switches"].push_back(failed_switch_json(failed));
  return json;
}

struct Blocks {
  std::vector<std::pair<protean_types::Role, Mat>> each;
  const PetscInt* ghosts = nullptr;  // columns of the off-diagonal block
  PetscInt ghost_count = 0;
};
Blocks blocks_of(Mat A) {
  using protean_types::Role;
  Blocks found;
  PetscBool seq = PETSC_FALSE;
  must(PetscObjectTypeCompare(object(A), protean_types::seq_type, &seq));
  if (seq) {
    found.each.emplace_back(Role::whole, A);
    return found;
  }
  Mat diagonal = nullptr, other = nullptr;
  must(MatMPIAIJGetSeqAIJ(A, &diagonal, &other, &found.ghosts));
  must(MatGetSize(other, nullptr, &found.ghost_count));
  found.each = {{Role::diagonal, diagonal}, {Role::off_diagonal, other}};
  return found;
}

}  // namespace

std::vector<RankRecord> gather_records(const Ranks& ranks, Json json, const std::string& explanation,
                                       double products, const SolveRecord& record) {
  json["rank"] = ranks.rank();
  json["seconds"] = {{"read", record.seconds.read},       {"partition", record.seconds.order},
                     {"convert", record.seconds.convert}, {"setup", record.seconds.setup},
                     {"solve", record.seconds.solve},     {"products", products}};
  json["memory"] = {{"peak_bytes", record.peak_bytes}};
  char host[MPI_MAX_PROCESSOR_NAME] = "";
  int length = 0;
  MPI_Get_processor_name(host, &length);
  json["host"] = host;
  const std::vector<std::string> texts =
      ranks.gather(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  const std::vector<std::string> explanations = ranks.gather(explanation);
  std::vector<RankRecord> all;
  for (std::size_t k = 0; k < texts.size(); ++k) all.push_back({Json::parse(texts[k]), explanations[k]});
  return all;
}

std::vector<RankRecord> gather_records(const Ranks& ranks, Mat A, KSP ksp, const SolveRecord& record,
                                       const OwnElements& elements) {
  PetscInt first = 0, end = 0;
  must(MatGetOwnershipRange(A, &first, &end));
  const PetscInt* ranges = nullptr;
  must(MatGetOwnershipRanges(A, &ranges));
  Json json = {{"rows", end - first}};
  std::string explanation;
  Traffic traffic;
  double products = 0;
  std::int64_t nonzeros = 0;
  if (elements.op || record.elements > 0) {
    const auto own = static_cast<PetscInt>(elements.unknowns.size());
    const std::vector<int> received = owners_of(elements.unknowns.data(), own, ranges, ranks);
    traffic = sent(ranks, received);
    // What has been received goes back as contributions.
    for (const int numbers : received) traffic.numbers += numbers, traffic.messages += numbers > 0 ? 1 : 0;
    json["elements"] = elements.elements;
    if (elements.op) {
      nonzeros = elements.op->entries(), products = elements.seconds;
      json["blocks"].push_back({{"block", "element matrices"},
                                {"rows", own},
                                {"nonzeros", nonzeros},
                                {"format", elements.op->name()},
                                {"kernel", "native"},
                                {"bytes", elements.op->bytes()},
                                {"products", elements.op->products()},
                                {"switches", Json::array()},
                                {"failed_switches", Json::array()}});
    }
  } else {
    const Blocks blocks = blocks_of(A);
    traffic = sent(ranks, owners_of(blocks.ghosts, blocks.ghost_count, ranges, ranks));
    for (const auto& [role, matrix] : blocks.each) {
      protean_types::Block* const block = protean_types::found_block(matrix);
      if (!block) continue;
      const protean_types::BlockState state = block->state();
      json["blocks"].push_back(block_json(state, name_of(role)));
      nonzeros += state.nonzeros, products += state.product_seconds;
      if (state.policy)
        explanation += fmt::format("\n  rank {}, {} of {} rows, {} entries: ends in {}\n", ranks.rank(),
                                   name_of(role), state.rows, state.nonzeros, state.format) +
                       explain_text({true, "built in", state.candidates, state.decisions, {}});
    }
  }
  if (!json.contains("blocks")) json["blocks"] = Json::array();
  json["nonzeros"] = nonzeros;
  json["sent_by_a_product"] = {{"bytes", traffic.numbers * static_cast<std::int64_t>(sizeof(double))},
                               {"messages", traffic.messages}};
  if (ranks.first()) {
    KSPType method = nullptr;
    PCType M = nullptr;
    PC pc = nullptr;
    must(KSPGetType(ksp, &method)), must(KSPGetPC(ksp, &pc)), must(PCGetType(pc, &M));
    char version[128] = "";
    must(PetscGetVersion(version, sizeof version));
    PetscBool shell = PETSC_FALSE;
    const char* ours = nullptr;
    must(PetscObjectTypeCompare(object(pc), PCSHELL, &shell));
    if (shell) must(PCShellGetName(pc, &ours));
    json["engine"] = {
        {"name", "petsc"}, {"version", version}, {"ksp_type", method}, {"pc_type", ours ? ours : M}};
  }
  return gather_records(ranks, std::move(json), explanation, products, record);
}

void complete(SolveRecord& record, const std::vector<RankRecord>& all) {
  std::set<std::string> formats;
  record.nonzeros = 0, record.products = 0, record.matrix_bytes = 0, record.peak_bytes = 0;
  for (const RankRecord& one : all) {
    record.nonzeros += one.json["nonzeros"].get<std::int64_t>();
    record.peak_bytes += one.json["memory"]["peak_bytes"].get<std::size_t>();
    for (const Json& block : one.json["blocks"]) {
      record.matrix_bytes += block["bytes"].get<std::size_t>();
      if (block["block"] == name_of(protean_types::Role::off_diagonal)) continue;
      record.products = std::max(record.products, block["products"].get<std::int64_t>());
      if (block["nonzeros"] != 0) formats.insert(block["format"].get<std::string>());
    }
  }
  record.format = formats.size() == 1 ? *formats.begin() : "by rank";
  record.kernel = record.problem.settings.kernel.empty() ? "native" : record.problem.settings.kernel;
}

namespace {

// The largest over the mean of all ranks; 1: all have the same.
template <class F>
double imbalance(const std::vector<RankRecord>& all, F&& number_of) {
  double sum = 0, largest = 0;
  for (const RankRecord& one : all) {
    const double value = number_of(one.json);
    sum += value, largest = std::max(largest, value);
  }
  return sum > 0 ? largest * static_cast<double>(all.size()) / sum : 1;
}
double entries_of(const Json& rank) { return rank["nonzeros"].get<double>(); }
double products_of(const Json& rank) { return rank["seconds"]["products"].get<double>(); }

}  // namespace

Json report_of(const SolveRecord& record, const std::vector<RankRecord>& all, const std::string& partition) {
  Json json = report_object(record);
  json["engine"] = all[0].json["engine"];
  Json ranks = {
      {"count", all.size()},
      {"partition", partition},
      {"imbalance", {{"nonzeros", imbalance(all, entries_of)}, {"products", imbalance(all, products_of)}}}};
  std::int64_t bytes = 0, messages = 0;
  for (const RankRecord& one : all) {
    bytes += one.json["sent_by_a_product"]["bytes"].get<std::int64_t>();
    messages += one.json["sent_by_a_product"]["messages"].get<std::int64_t>();
    Json rank = one.json;
    rank.erase("engine");
    ranks["by_rank"].push_back(std::move(rank));
  }
  ranks["sent_by_a_product"] = {{"bytes", bytes}, {"messages", messages}};
  json["ranks"] = std::move(ranks);
  return json;
}

std::string table_of(const std::vector<RankRecord>& all) {
  std::string text =
      fmt::format("  {:>5} {:>11} {:>13} {:>10} {:>10} {:>10} {:>12} {:>8}  {}\n", "rank", "rows", "nonzeros",
                  "convert", "solve", "products", "sent bytes", "messages", "formats");
  for (const RankRecord& one : all) {
    std::string formats;
    for (const Json& block : one.json["blocks"]) {
      if (block["nonzeros"] == 0) continue;
      std::string changes;
      for (const Json& change : block["switches"]) changes += change["from"].get<std::string>() + " -> ";
      formats += (formats.empty() ? "" : "; ") + changes + block["format"].get<std::string>();
    }
    const Json &seconds = one.json["seconds"], &traffic = one.json["sent_by_a_product"];
    text += fmt::format(
        "  {:>5} {:>11} {:>13} {:>10} {:>10} {:>10} {:>12} {:>8}  {}\n", one.json["rank"].get<int>(),
        grouped(one.json["rows"].get<std::int64_t>()), grouped(one.json["nonzeros"].get<std::int64_t>()),
        duration(seconds["convert"].get<double>()), duration(seconds["solve"].get<double>()),
        duration(seconds["products"].get<double>()), grouped(traffic["bytes"].get<std::int64_t>()),
        traffic["messages"].get<std::int64_t>(), formats.empty() ? "no entries" : formats);
  }
  return text +
         fmt::format("  largest over mean: entries {:.2f}, time of products {:.2f}; sent: by one product\n\n",
                     imbalance(all, entries_of), imbalance(all, products_of));
}

std::string explanations_of(const std::vector<RankRecord>& all) {
  std::string text;
  for (const RankRecord& one : all) text += one.explanation;
  return text;
}

}  // namespace protean::apps::ranks
