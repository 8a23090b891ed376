// The commands for descriptions of formats.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "core/blas1.hpp"
#include "core/context.hpp"
#include "core/error.hpp"
#include "core/io/matrix_market.hpp"
#include "core/vector.hpp"
#include "formats/catalogue.hpp"
#include "operators/measured_params.hpp"
#include "research/commands.hpp"
#include "research/describe/tune.hpp"

namespace protean::research {
namespace {

struct DescribeArguments {
  std::string description, matrix, space = "host";
  std::vector<std::string> sizes;
  Strategy strategy;
  bool single = false;
  int threads = 0;
};

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

// The product of csr by the library, next to which generated ones are shown.
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

void add_kernel_options(CLI::App& command, DescribeArguments& arguments) {
  command.add_option("description", arguments.description, "A name of `protean-research list`, or a file")
      ->required();
  command.add_option("--space", arguments.space, "host: C++; device: CUDA C++")->capture_default_str();
  command.add_option("--size", arguments.sizes, "NAME=NUMBER: a size of the description");
  command.add_option("--threads", arguments.threads, "Threads of a host (0: all)");
}
void add_strategy(CLI::App& command, Strategy& strategy) {
  command.add_flag("--turned", strategy.turned, "Store tables column after column");
  command.add_option("--unroll", strategy.unroll, "Iterations of the innermost loop at once")
      ->capture_default_str();
  command.add_option("--lanes", strategy.lanes, "Threads of a GPU that share a row")->capture_default_str();
  command.add_option("--block", strategy.threads, "Threads of a block of a GPU")->capture_default_str();
  command.add_option("--chunk", strategy.chunk, "Iterations of a shared loop for a thread of a GPU")
      ->capture_default_str();
}

}  // namespace

apps::Action add_list(CLI::App&) {
  return [] {
    for (const std::string& name : built_in_descriptions()) fmt::print("{}\n", name);
    return static_cast<int>(apps::done);
  };
}

apps::Action add_source(CLI::App& command) {
  const auto arguments = std::make_shared<DescribeArguments>();
  add_kernel_options(command, *arguments), add_strategy(command, arguments->strategy);
  command.add_flag("--single", arguments->single, "Values in single precision");
  return [arguments] { return print_source(*arguments), static_cast<int>(apps::done); };
}

apps::Action add_run(CLI::App& command) {
  const auto arguments = std::make_shared<DescribeArguments>();
  add_kernel_options(command, *arguments), add_strategy(command, arguments->strategy);
  command.add_option("--matrix", arguments->matrix, "A matrix file")->required();
  return [arguments] { return run_description(*arguments), static_cast<int>(apps::done); };
}

apps::Action add_tune(CLI::App& command) {
  const auto arguments = std::make_shared<DescribeArguments>();
  add_kernel_options(command, *arguments);
  command.add_option("--matrix", arguments->matrix, "A matrix file")->required();
  command.footer("* marks the fastest.");
  return [arguments] { return tune_description(*arguments), static_cast<int>(apps::done); };
}

}  // namespace protean::research
