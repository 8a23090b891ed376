// protean-research: descriptions of formats and kernels generated from them, and times across devices.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <exception>
#include <string>
#include <vector>

#include "apps/machine/machine_file.hpp"
#include "core/blas1.hpp"
#include "core/context.hpp"
#include "core/error.hpp"
#include "core/io/atomic_file.hpp"
#include "core/io/matrix_market.hpp"
#include "core/vector.hpp"
#include "formats/catalogue.hpp"
#include "operators/measured_params.hpp"
#include "research/describe/tune.hpp"
#include "research/devices/across.hpp"

namespace protean::research {
namespace {

struct DescribeArguments {
  std::string description, matrix, space = "host";
  std::vector<std::string> sizes;
  Strategy strategy;
  bool single = false;
  int threads = 0;
};

Space space_of(const std::string& word) {
  if (word == "host") return Space::host;
  if (word == "device") return Space::device;
  throw BadArgument(fmt::format("--space '{:.50}': there are host and device", word));
}
ContextPtr context_of(const DescribeArguments& arguments) {
  if (space_of(arguments.space) == Space::host) return Context::host(arguments.threads);
  if (Context::device_count() == 0)
    throw NotAvailable("--space device needs a GPU and a build with CUDA; --space host does not");
  return Context::device();
}
Description described(const DescribeArguments& arguments) {
  Sizes sizes;
  for (const std::string& text : arguments.sizes) {
    const std::size_t equals = text.find('=');
    std::int64_t value = 0;
    if (equals == std::string::npos || !CLI::detail::lexical_cast(text.substr(equals + 1), value))
      throw BadArgument(fmt::format("--size '{:.50}' is not NAME=NUMBER", text));
    sizes.emplace_back(text.substr(0, equals), value);
  }
  const std::string& name = arguments.description;
  return with_sizes(parse_description(description_text(name), name), sizes);
}

void print_source(const DescribeArguments& arguments) {
  const Description d = described(arguments);
  const Target target = space_of(arguments.space) == Space::host ? Target::host : Target::cuda;
  fmt::print("{}", generated_source(d, plan(d), arguments.strategy, target, arguments.single));
}

// The product of csr by the library, beside which generated ones are shown.
double csr_seconds(const CsrMatrix<double>& matrix, const ContextPtr& context, Vector<double>& x,
                   Vector<double>& y) {
  const auto csr = make_matrix(find_format("csr"),
                               context->space() == Space::host ? matrix : upload(context, matrix), context);
  return detail::clock_of(*context)([&] { csr->apply(x.view(), y.view()); });
}

void run_description(const DescribeArguments& arguments) {
  const Description d = described(arguments);
  const ContextPtr host = Context::host(arguments.threads), context = context_of(arguments);
  const CsrMatrix<double> matrix = read_matrix(host, arguments.matrix);
  Vector<double> x(context, matrix.cols()), y(context, matrix.rows()), z(context, matrix.rows());
  fill(*context, 1.0, x.view());
  const double csr = csr_seconds(matrix, context, x, z);
  const GeneratedMatrix<double> made(d, matrix, context, arguments.strategy);
  const double seconds = detail::clock_of(*context)([&] { made.apply(x.view(), y.view()); });
  std::vector<double> ours(static_cast<std::size_t>(matrix.rows())), theirs = ours;
  copy<double>(*context, y.view(), {ours.data(), matrix.rows()});
  copy<double>(*context, z.view(), {theirs.data(), matrix.rows()});
  double difference = 0, largest = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    difference = std::max(difference, std::abs(ours[i] - theirs[i]));
    largest = std::max(largest, std::abs(theirs[i]));
  }
  fmt::print(
      "{}: {} bytes, {:.3e} s a product, {:.2f} of that of csr; largest difference from csr {:.1e} of "
      "{:.1e}\n",
      d.name, made.bytes(), seconds, seconds / csr, difference, largest);
}

void tune_description(const DescribeArguments& arguments) {
  const Description d = described(arguments);
  const ContextPtr host = Context::host(arguments.threads), context = context_of(arguments);
  const Target target = context->space() == Space::host ? Target::host : Target::cuda;
  const CsrMatrix<double> matrix = read_matrix(host, arguments.matrix);
  Vector<double> x(context, matrix.cols()), y(context, matrix.rows());
  fill(*context, 1.0, x.view());
  const double csr = csr_seconds(matrix, context, x, y);
  const CandidateClock clock = clock_for(d, matrix, context);
  const Tuned tuned = tune(candidates(d, target), clock);
  for (std::size_t i = 0; i < tuned.tried.size(); ++i) {
    const Tried& one = tuned.tried[i];
    if (one.refused.empty())
      fmt::print("{} {:<60} {:.3e} s, {:.2f} of csr\n", tuned.best == i ? "*" : " ",
                 one.candidate.text(target), one.seconds, one.seconds / csr);
    else
      fmt::print("  {:<60} refused: {:.200}\n", one.candidate.text(target), one.refused);
  }
  if (!tuned.best) throw FormatRefused(d.name, "no way to compile it holds this matrix");
}

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

void add_kernel_options(CLI::App& command, DescribeArguments& arguments) {
  command.add_option("description", arguments.description, "a name of `protean-research list`, or a file")
      ->required();
  command.add_option("--space", arguments.space, "host: C++; device: CUDA C++")->capture_default_str();
  command.add_option("--size", arguments.sizes, "NAME=NUMBER: a size of the description");
  command.add_option("--threads", arguments.threads, "of a host; 0: all");
}
void add_strategy(CLI::App& command, Strategy& strategy) {
  command.add_flag("--turned", strategy.turned, "tables column after column");
  command.add_option("--unroll", strategy.unroll, "iterations of the innermost loop at once")
      ->capture_default_str();
  command.add_option("--lanes", strategy.lanes, "threads of a GPU that share a row")->capture_default_str();
  command.add_option("--block", strategy.threads, "threads of a block of a GPU")->capture_default_str();
  command.add_option("--chunk", strategy.chunk, "iterations of a shared loop for a thread of a GPU")
      ->capture_default_str();
}

int run(int argc, char** argv) {
  CLI::App app(
      "Systems of the literature beside the library: formats from descriptions, times across devices.",
      "protean-research");
  app.require_subcommand(1);
  app.add_subcommand("list", "the descriptions that are built in")->callback([] {
    for (const std::string& name : built_in_descriptions()) fmt::print("{}\n", name);
  });
  DescribeArguments source, once, tuned;
  CLI::App* command = app.add_subcommand("source", "print the kernels that are generated from a description");
  add_kernel_options(*command, source), add_strategy(*command, source.strategy);
  command->add_flag("--single", source.single, "values in single precision");
  command->callback([&] { print_source(source); });
  command = app.add_subcommand("run", "compile them, multiply a matrix, and compare with csr");
  add_kernel_options(*command, once), add_strategy(*command, once.strategy);
  command->add_option("--matrix", once.matrix, "a file")->required();
  command->callback([&] { run_description(once); });
  command = app.add_subcommand("tune", "try all sizes and strategies with a matrix; * marks the fastest");
  add_kernel_options(*command, tuned);
  command->add_option("--matrix", tuned.matrix, "a file")->required();
  command->callback([&] { tune_description(tuned); });
  AcrossArguments devices;
  command = app.add_subcommand("across", "predict times on a target device from those on a reference");
  command
      ->add_option("--reference", devices.reference, "machine file of the reference, with benchmark matrices")
      ->required();
  command->add_option("--target", devices.target, "machine file of the target, with the same matrices")
      ->required();
  command
      ->add_option("--measured", devices.measured, "machine file of the reference, whose times are predicted")
      ->required();
  command->add_option("--check", devices.check, "machine file of the target to compare with");
  command->add_option("--output", devices.output,
                      "machine file to write: what the target is predicted to take");
  command->add_option("--formats", devices.formats, "of the tables that are printed")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--space", devices.space, "host or device")->capture_default_str();
  command->callback([&] { across(devices); });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "protean-research: error: {}\n", error.what());
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace protean::research

int main(int argc, char** argv) { return protean::research::run(argc, argv); }
