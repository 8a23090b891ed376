// The command for times across devices.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/machine/machine_file.hpp"
#include "core/io/atomic_file.hpp"
#include "research/commands.hpp"
#include "research/devices/across.hpp"

namespace protean::research {
namespace {

struct AcrossArguments {
  std::string reference, target, measured, check, output, space = "device";
  std::vector<std::string> formats{"csr", "ell", "coo", "hyb"};
};

void print_errors(std::string_view by, const MachineTable& predicted, const MachineTable& measured,
                  Space space, const std::vector<std::string>& formats) {
  for (const std::string& format : formats) {
    const PredictionError error = prediction_error(predicted, measured, space, format);
    fmt::print("| {} | {} | {} | {:.1f} | {:.1f} | {:.1f} |\n", by, format, error.matrices, 100 * error.mean,
               100 * error.median, 100 * error.largest);
  }
}

void across(const AcrossArguments& arguments) {
  const Space space = space_of(arguments.space);
  const apps::TunedMachine reference = apps::read_machine(arguments.reference),
                           target = apps::read_machine(arguments.target),
                           measured = apps::read_machine(arguments.measured);
  const AcrossDevices model(reference, target, space);
  const MachineTable predicted = model.predicted(measured, space);
  if (!arguments.output.empty()) {
    apps::TunedMachine file;
    static_cast<MachineTable&>(file) = predicted;
    file.roofs = target.roofs;
    AtomicFile to(arguments.output);
    const std::string text = apps::machine_text(file);
    to.write(text.data(), text.size());
    to.commit();
  }
  fmt::print("| format | matrices | fixed, us | slope | ratio from | to |\n|---|---|---|---|---|---|\n");
  for (const std::string& format : arguments.formats)
    if (const DeviceRelation* r = model.relation(format))
      fmt::print("| {} | {} | {:.2f} | {:.3f} | {:.2f} | {:.2f} |\n", format, r->matrices, 1e6 * r->fixed,
                 r->slope, r->least_ratio, r->most_ratio);
  if (arguments.check.empty()) return;
  const MachineTable real = others_than(reference, apps::read_machine(arguments.check), space);
  fmt::print(
      "\n| predicted by | format | matrices | mean error, % | median | largest "
      "|\n|---|---|---|---|---|---|\n");
  print_errors("benchmark matrices", predicted, real, space, arguments.formats);
  const apps::MeasuredRoof *from = apps::roof_of(reference, space), *to = apps::roof_of(target, space);
  if (from && to)
    print_errors("bandwidth", AcrossDevices(to->memory / from->memory).predicted(measured, space), real,
                 space, arguments.formats);
  print_errors("the same time", measured, real, space, arguments.formats);
  fmt::print("\n| chosen by | matrices | time over the best, mean | largest |\n|---|---|---|---|\n");
  const auto loss = [&](std::string_view by, const MachineTable& table,
                        const std::vector<std::string>& formats) {
    const ChoiceLoss its = choice_loss(table, real, space, formats);
    fmt::print("| {} | {} | {:.3f} | {:.2f} |\n", by, its.matrices, its.mean, its.largest);
  };
  loss("benchmark matrices", predicted, arguments.formats);
  loss("times of the reference", measured, arguments.formats);
}

}  // namespace

apps::Action add_across(CLI::App& command) {
  const auto devices = std::make_shared<AcrossArguments>();
  command
      .add_option("--reference", devices->reference, "Machine file of the reference, with benchmark matrices")
      ->required();
  command.add_option("--target", devices->target, "Machine file of the target, with the same matrices")
      ->required();
  command
      .add_option("--measured", devices->measured, "Machine file of the reference, whose times are predicted")
      ->required();
  command.add_option("--check", devices->check, "Machine file of the target to compare with");
  command.add_option("--output", devices->output,
                     "Machine file to write: what the target is predicted to take");
  command.add_option("--formats", devices->formats, "Formats in the tables that are printed")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--space", devices->space, "host or device")->capture_default_str();
  return [devices] { return across(*devices), static_cast<int>(apps::done); };
}

}  // namespace protean::research
