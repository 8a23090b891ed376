#include "apps/solve/parts_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/words.hpp"

namespace protean::apps {
namespace {

double imbalance(const std::vector<PartRecord>& parts) {
  std::int64_t most = 0, all = 0;
  for (const PartRecord& one : parts) most = std::max(most, one.nonzeros), all += one.nonzeros;
  return all > 0 ? static_cast<double>(most) * static_cast<double>(parts.size()) / static_cast<double>(all)
                 : 1;
}

int number_of(const SolveRecord& record, const PartRecord& part) {
  return record.device_numbers[static_cast<std::size_t>(part.device)];
}

}  // namespace

void keep_parts(SolveRecord& record, const SolveResult& result) {
  record.format = result.format, record.kernel = result.kernel, record.format_reason = result.format_reason;
  record.parameters = record.problem.settings.parameters;
  record.partition = record.problem.engine.partition, record.by_device = result.parts;
  record.matrix_bytes = record.preconditioner_bytes = 0, record.products = 0;
  for (const PartRecord& part : result.parts) {
    record.matrix_bytes += part.bytes, record.preconditioner_bytes += part.preconditioner_bytes;
    record.products = std::max(record.products, part.products);
  }
}

std::string gpus_text(const SolveRecord& record) {
  return record.by_device.empty() ? "the GPU" : fmt::format("{} GPUs", record.by_device.size());
}

Json devices_json(const SolveRecord& record) {
  if (record.by_device.empty()) return nullptr;
  Json json = {{"count", record.device_numbers.size()},
               {"partition", record.partition},
               {"imbalance", {{"nonzeros", imbalance(record.by_device)}}},
               {"seconds", {{"partition", record.seconds.partition}}},
               {"by_device", Json::array()}};
  for (const PartRecord& part : record.by_device)
    json["by_device"].push_back(
        {{"device", number_of(record, part)},
         {"rows", part.rows},
         {"nonzeros", part.nonzeros},
         {"boundary_rows", part.boundary_rows},
         {"ghosts", part.ghosts},
         {"sent_by_a_product",
          {{"bytes", part.sent * static_cast<std::int64_t>(sizeof(double))}, {"messages", part.neighbours}}},
         {"format", part.format},
         {"kernel", part.kernel},
         {"boundary_format", part.boundary_format},
         {"memory", {{"matrix_bytes", part.bytes}, {"preconditioner_bytes", part.preconditioner_bytes}}}});
  return json;
}

std::string devices_text(const SolveRecord& record) {
  if (record.by_device.empty()) return {};
  std::string text = fmt::format("  {:>8} {:>11} {:>13} {:>10} {:>12}  {}\n", "device", "rows", "nonzeros",
                                 "ghosts", "sent bytes", "formats");
  for (const PartRecord& part : record.by_device)
    text += fmt::format("  {:>8} {:>11} {:>13} {:>10} {:>12}  {}{}\n", number_of(record, part),
                        grouped(part.rows), grouped(part.nonzeros), grouped(part.ghosts),
                        grouped(part.sent * static_cast<std::int64_t>(sizeof(double))), part.format,
                        part.boundary_format.empty() ? "" : "; " + part.boundary_format);
  return text + fmt::format("  partition {}; entries, largest over mean: {:.2f}; sent: by one product\n\n",
                            record.partition, imbalance(record.by_device));
}

}  // namespace protean::apps
