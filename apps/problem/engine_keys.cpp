#include "apps/problem/engine_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>

#include "apps/problem/devices.hpp"
#include "core/error.hpp"
#include "core/option_checks.hpp"
#include "core/words.hpp"

namespace protean::apps {
namespace {

constexpr int largest_number = 1023;

void read_list(const Node& node, const std::string& path, DevicesSpec& devices) {
  if (node.items.empty() || std::ssize(node.items) > most_devices)
    fail(node.place, fmt::format("{} has {} numbers; give 1 to {}, or leave the key out", path,
                                 node.items.size(), most_devices));
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const Node& item = node.items[i];
    const auto number =
        static_cast<int>(read_integer(item, fmt::format("{}[{}]", path, i), 0, largest_number));
    if (std::find(devices.numbers.begin(), devices.numbers.end(), number) != devices.numbers.end())
      fail(item.place, fmt::format("{} has GPU {} twice; name each once", path, number));
    devices.numbers.push_back(number);
  }
}

}  // namespace

void read_devices(const KeySection& section, OperatorSpec& op) {
  const Node* const node = section.find("devices");
  if (!node) return;
  DevicesSpec& devices = op.devices;
  devices.place = node->place;
  const std::string path = section.path_of("devices");
  if (op.space == Space::host)
    fail(node->place, fmt::format("{} is for operator.space: device, and the space is host; leave it out, or "
                                  "take operator.space: device (threads of the host: operator.threads)",
                                  path));
  if (node->kind == Node::Kind::list) return read_list(*node, path, devices);
  if (node->kind != Node::Kind::scalar)
    fail(node->place,
         fmt::format("{} must be a whole number from 1 to {}, all, or a list of numbers of GPUs, "
                     "such as [0, 1]",
                     path, most_devices));
  const auto count = read_integer_or_word(*node, path, "all", 1, most_devices);
  devices.all = !count;
  if (count) devices.numbers.resize(static_cast<std::size_t>(*count));
  std::iota(devices.numbers.begin(), devices.numbers.end(), 0);
}

void read_engine(const KeySection& top, const Place& place, const std::filesystem::path& folder,
                 Problem& problem) {
  EngineSpec& engine = problem.engine;
  engine.name = top.word("engine");
  engine.place = engine.partition_place = place;
  const Node* const options = top.find("petsc_options");
  if (options) {
    engine.options = top.text("petsc_options", ""), engine.place = options->place;
    if (!engine.options.starts_with('-'))
      fail(options->place,
           fmt::format("petsc_options is '{}'; it must be options of PETSc's, such as '-ksp_view "
                       "-pc_type hypre'",
                       excerpt(engine.options)));
  }
  const Node* const partition = top.find("partition");
  engine.partition_given = partition != nullptr;
  if (partition) {
    engine.partition_place = engine.place = partition->place;
    if (partition->kind == Node::Kind::map) {
      const KeySection section(*partition, "partition", "partition");
      const Node* const file = section.find("file");
      if (!file) fail(partition->place, "partition needs one of the keys: file");
      engine.partition = "file", engine.partition_file = file_below(folder, *file, section.path_of("file"));
    } else {
      engine.partition = read_text(*partition, "partition");
      constexpr std::array<std::string_view, 2> words = {"rows", "graph"};
      if (std::find(words.begin(), words.end(), engine.partition) == words.end())
        fail(partition->place,
             fmt::format("partition is '{}'; it must be rows, graph or {{file: F}}.{}",
                         excerpt(engine.partition), detail::did_you_mean(engine.partition, words)));
    }
  }
  if (const Node* const node = top.find("engine")) engine.place = node->place;
  if (engine.name == "protean" && options)
    fail(engine.place, "petsc_options are for engine: petsc; the engine is protean");
  const std::optional<Place>& devices = problem.op.devices.place;
  if (engine.name == "auto" && (options || (partition && !devices))) engine.name = "petsc";
  if (engine.name == "petsc" && devices)
    fail(*devices,
         "operator.devices is for engine: protean; the engine is petsc, whose formats are on the host");
  if (problem.op.devices.numbers.size() > 1) require_served_by_devices(problem);
}

void fail_at_setting(const Problem& problem, const detail::Unserved& unserved, const Place& otherwise) {
  const Place given =
      unserved.setting == "schedule" ? problem.schedule.place : problem.place_of(unserved.setting);
  fail(given.file ? given : otherwise, unserved.text);
}

void require_served_by_devices(const Problem& problem) {
  const Place& place = *problem.op.devices.place;
  if (problem.matrix.fem && !problem.matrix.fem->assembled)
    fail(place,
         "operator.devices: several devices need the assembled matrix; take "
         "matrix.generate.storage: assembled, or one device");
  if (problem.rhs.columns > 1)
    fail(problem.rhs.place,
         "several devices take one right-hand side; solve them one after another, or on one device");
  if (problem.output.fields)
    fail(problem.output.fields.place,
         "output.fields is for one device, whose preconditioner finds fields; leave it out");
  if (problem.settings.kernel == to_string(VectorKernels::kokkos))
    fail(problem.place_of("kernel"), "kernel kokkos is not served over several devices; take native");
  if (const auto unserved = detail::unserved_by_parts(problem.settings, "device"))
    fail_at_setting(problem, *unserved, place);
}

void require_one_device(const Problem& problem, std::string_view what) {
  const DevicesSpec& devices = problem.op.devices;
  if (devices.place && devices.numbers != std::vector<int>{0})
    fail(*devices.place,
         fmt::format("{} takes GPU 0 alone, and operator.devices asks for others; leave the key "
                     "out (--set operator.devices=1)",
                     what));
}

void require_partition_in_use(const Problem& problem) {
  const EngineSpec& engine = problem.engine;
  if (engine.name != "petsc" && engine.partition_given && !problem.op.devices.place)
    fail(engine.partition_place,
         "partition shares rows out among devices or ranks, and this solve has one of each; give "
         "operator.devices, start the command by mpirun, or leave partition out");
}

std::vector<int> devices_of(const Problem& problem) {
  const DevicesSpec& devices = problem.op.devices;
  const int count = device_source().count();
  if (!devices.place || (devices.all && count == 0)) return {0};
  if (devices.all) {
    std::vector<int> all(static_cast<std::size_t>(std::min(count, most_devices)));
    std::iota(all.begin(), all.end(), 0);
    if (all.size() > 1) require_served_by_devices(problem);
    return all;
  }
  for (const int number : devices.numbers)
    if (count > 0 && number >= count) {
      const Place& at = *devices.place;
      throw NotAvailable(
          BadFile(at.file ? *at.file : "problem", at.line, at.column,
                  fmt::format("operator.devices: there is no GPU {}; this machine has {}", number,
                              count == 1 ? std::string("one, number 0; take operator.devices: 1, or all")
                                         : fmt::format("{}, numbers 0 to {}; take some of these, or all",
                                                       count, count - 1)))
              .what());
    }
  return devices.numbers;
}

}  // namespace protean::apps
