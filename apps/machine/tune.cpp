#include "apps/machine/tune.hpp"

#include <fmt/format.h>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <optional>
#include <random>

#include "apps/command/build_info.hpp"
#include "apps/command/clock.hpp"
#include "apps/command/files.hpp"
#include "apps/command/interrupt.hpp"
#include "apps/command/lists.hpp"
#include "apps/machine/machine_file.hpp"
#include "apps/machine/measure.hpp"
#include "apps/machine/shared_table.hpp"
#include "apps/report/output.hpp"
#include "apps/report/progress.hpp"
#include "core/blas1.hpp"
#include "core/io/atomic_file.hpp"
#include "core/io/input_file.hpp"
#include "core/io/matrix_market.hpp"
#include "core/ordering.hpp"
#include "core/permutation.hpp"
#include "formats/catalogue.hpp"
#include "formats/choose.hpp"
#include "operators/narrow_values.hpp"

namespace protean::apps {
namespace {

constexpr double least_product_seconds = 0.01, most_product_seconds = 0.3;
// A conversion is repeated this often and the second shortest time is used, because other work may disturb
// some.
constexpr int conversions = 5;
// The part of the time of a format that is used for products; the rest is for conversions.
constexpr double product_share = 0.4;

// The order that the policy considers (AutoSwitchOptions::order).
constexpr std::string_view tuned_order = "rcm";

struct FormatAndKernel {
  const FormatEntry* entry;
  std::string_view kernel;
  std::string name;  // as in the table
};

// `named`: only these; empty: all.
std::vector<FormatAndKernel> formats_and_kernels(Space space, const std::vector<const FormatEntry*>& named) {
  std::vector<FormatAndKernel> result;
  // Presets compute as their base does.
  for (const FormatEntry* entry : layouts()) {
    if (!named.empty() && std::find(named.begin(), named.end(), entry) == named.end()) continue;
    const auto kernels = kernels_in(*entry, space);
    for (const Kernel& kernel : kernels)
      // One that a GPU and the host share measures itself in each solve.
      if (kernel.unavailable.empty() && entry->traits.exact_values && !entry->kernels.empty())
        result.push_back({entry, kernel.name,
                          &kernel == &kernels.front() ? std::string(entry->id)
                                                      : fmt::format("{}/{}", entry->id, kernel.name)});
  }
  return result;
}

// The layouts of --formats. A preset has no row in a table.
std::vector<const FormatEntry*> layouts_named(const std::string& list) {
  if (list.empty() || list == "all") return {};
  std::vector<const FormatEntry*> named = formats_named(list);
  const auto all = layouts();
  for (const FormatEntry* entry : named)
    if (std::find(all.begin(), all.end(), entry) == all.end())
      throw BadArgument(fmt::format(
          "--formats: {} is a preset, which computes as its base does; a table has layouts only", entry->id));
  return named;
}

// The same in each run and on each machine.
std::vector<std::int32_t> random_order(std::int64_t rows) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(1);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  return order;
}

// The name of a file without folder and endings.
std::string name_of(const std::string& file) {
  const std::string name = std::filesystem::path(file).filename().string();
  return name.substr(0, name.find('.'));
}

std::string bar(double part, int width) {
  const int full = static_cast<int>(std::clamp(part, 0.0, 1.0) * width);
  return fmt::format("[{:#<{}}{:-<{}}]", "", full, "", width - full);
}

class Tuner {
 public:
  explicit Tuner(const TuneArguments& arguments)
      : arguments_(arguments), progress_(!arguments.quiet), host_(Context::host(arguments.threads)) {
    if (!(arguments.budget > 0))
      throw BadArgument(fmt::format("--budget is {}; it must be above 0 seconds", arguments.budget));
    named_ = layouts_named(arguments.formats);
    for (const std::string& file : arguments.matrices) cases_.push_back({name_of(file), {}, {}, file});
    const bool gpu = Context::device_count() > 0;
    std::vector<Space> asked = spaces(arguments.spaces);
    if (asked.empty()) {
      asked.push_back(Space::host);
      if (gpu) asked.push_back(Space::device);
    }
    for (const Space space : asked) contexts_.push_back(space == Space::host ? host_ : Context::device());
    table_.machine =
        fmt::format("{}, {} threads{}", machine_info().cpu, host_->threads(), gpu ? ", and a GPU" : "");
    table_.origin = origin_here(host_->threads());
  }

  int operator()() {
    resume();
    CommandFiles files;  // the output is also the only input: an existing table is extended
    files.writes("-o", arguments_.output);
    for (const std::string& file : arguments_.matrices) files.reads("--matrices", file);
    files.require_inputs();
    files.require_outputs();
    measure_roofs();
    std::size_t left = 0;
    for (const ContextPtr& context : contexts_)
      for (const TuneCase& one : cases_)
        if (!done(one.name, context->space())) left += measurements_of(one.name, context->space()).size() + 1;
    announce(left);
    const InterruptGuard guard;
    measurements_left_ = left, measurements_ = left;
    for (const TuneCase& one : cases_)
      for (const ContextPtr& context : contexts_)
        if (!done(one.name, context->space()) && !stopped()) measure_matrix(one, context);
    progress_.clear();
    finish();
    return InterruptGuard::asked() ? InterruptGuard::exit_code() : 0;
  }

 private:
  void resume() {
    // A table that is there, but cannot be read now, is an error: it would be written over.
    const io_detail::FileKind kind = io_detail::kind_of(arguments_.output);
    if (kind != io_detail::FileKind::ordinary && kind != io_detail::FileKind::unreachable) return;
    if (io_detail::first_bytes(arguments_.output, 1).empty()) return;
    TunedMachine before = read_machine(arguments_.output);
    if (before.machine != table_.machine)
      throw BadFile(
          arguments_.output, 0, 0,
          fmt::format("this is the table of another machine ('{}'; this one is '{}'); give another name "
                      "with -o, or remove it",
                      before.machine, table_.machine));
    table_.matrices = std::move(before.matrices), table_.roofs = std::move(before.roofs);
  }

  const MeasuredMatrix* find(const std::string& matrix, Space space) const {
    for (const MeasuredMatrix& measured : table_.matrices)
      if (measured.matrix == matrix && measured.space == space) return &measured;
    return nullptr;
  }
  // With --formats each run measures again.
  bool done(const std::string& matrix, Space space) const { return named_.empty() && find(matrix, space); }

  // The formats to be measured. The times of a new matrix need the times of csr next to them.
  std::vector<FormatAndKernel> measurements_of(const std::string& matrix, Space space) const {
    std::vector<const FormatEntry*> which = named_;
    const FormatEntry* const csr = &find_format("csr");
    if (!which.empty() && !find(matrix, space) && std::find(which.begin(), which.end(), csr) == which.end())
      which.insert(which.begin(), csr);
    return formats_and_kernels(space, which);
  }

  // The ones that the table lacks. They cost seconds, and are not part of the budget.
  void measure_roofs() {
    const std::size_t before = table_.roofs.size();
    for (const ContextPtr& context : contexts_) {
      if (roof_of(table_, context->space())) continue;
      progress_.stage(fmt::format("bandwidths of the {}", to_string(context->space())));
      table_.roofs.push_back(measure_roof(context));
    }
    progress_.clear();
    if (table_.roofs.size() > before) write_file(arguments_.output, machine_text(table_));
  }
  bool stopped() const { return InterruptGuard::asked() || clock_.total() > arguments_.budget; }

  void announce(std::size_t left) const {
    if (arguments_.quiet) return;
    if (left == 0) return print(fmt::format("{}: everything has been measured\n", arguments_.output));
    // Each measurement may take an equal part of the budget, and stops earlier when its result is accurate.
    const double useful = static_cast<double>(left) * most_product_seconds / product_share;
    print(fmt::format(
        "{}: {} measurements on {}{}, {}; Ctrl-C keeps what is done\n", arguments_.output, left,
        table_.machine,
        table_.matrices.empty()
            ? ""
            : fmt::format(" ({} matrices have been measured before)", table_.matrices.size()),
        useful < arguments_.budget
            ? fmt::format("about {} of the {} allowed", duration(useful), duration(arguments_.budget))
            : fmt::format("about {}, which the budget allows", duration(arguments_.budget))));
  }

  void measure_matrix(const TuneCase& one, const ContextPtr& context) {
    const CsrMatrix<double> csr =
        one.file.empty() ? generate(host_, one.kind, one.params) : read_matrix(host_, one.file);
    const CsrMatrix<double> source = context == host_ ? csr : upload(context, csr);
    MeasuredMatrix matrix{one.name, context->space(),        csr.rows(), csr.nonzeros(),
                          {},       row_changes(csr.pattern)};
    for (const FormatAndKernel& variant : measurements_of(one.name, context->space())) {
      if (stopped()) break;
      const double left = arguments_.budget - clock_.total();
      const double seconds = left / static_cast<double>(std::max<std::size_t>(measurements_left_, 1));
      progress_.stage(fmt::format("{} {} on the {}: {}, {} left", bar(share_done(), 24), one.name,
                                  to_string(context->space()), variant.name, duration(left)));
      if (auto measured = measure_format(variant, source, context, seconds))
        matrix.formats.push_back(*measured);
      --measurements_left_;
    }
    if (csr.rows() != csr.cols() || !named_.empty()) {
      --measurements_left_;
    } else if (!stopped()) {
      progress_.stage(fmt::format("{} {} on the {}: order {}", bar(share_done(), 24), one.name,
                                  to_string(context->space()), tuned_order));
      if (auto measured = measure_order(csr, context)) matrix.formats.push_back(*std::move(measured));
      --measurements_left_;
    }
    // A matrix with only some of the formats would be taken for a complete one.
    if (stopped()) return;
    keep(std::move(matrix));
    write_file(arguments_.output, machine_text(table_));
  }

  // A new matrix, or new times of some formats of one that the table has.
  void keep(MeasuredMatrix matrix) {
    const auto same = [&](const MeasuredMatrix& other) {
      return other.matrix == matrix.matrix && other.space == matrix.space;
    };
    const auto there = std::find_if(table_.matrices.begin(), table_.matrices.end(), same);
    if (there == table_.matrices.end()) return table_.matrices.push_back(std::move(matrix));
    if (there->rows != matrix.rows || there->nonzeros != matrix.nonzeros)
      throw BadFile(
          arguments_.output, 0, 0,
          fmt::format("matrix {} has {} rows and {} entries there, and {} and {} now; remove it from "
                      "the table, or give another name with -o",
                      matrix.matrix, there->rows, there->nonzeros, matrix.rows, matrix.nonzeros));
    for (MeasuredFormat& format : matrix.formats) {
      const auto old =
          std::find_if(there->formats.begin(), there->formats.end(),
                       [&](const MeasuredFormat& other) { return other.format == format.format; });
      if (old == there->formats.end())
        there->formats.push_back(std::move(format));
      else
        *old = std::move(format);
    }
  }

  double share_done() const {
    return measurements_ == 0
               ? 1
               : 1 - static_cast<double>(measurements_left_) / static_cast<double>(measurements_);
  }

  // Empty when the format refuses the matrix or does not fit into memory.
  std::optional<MeasuredFormat> measure_format(const FormatAndKernel& variant,
                                               const CsrMatrix<double>& source, const ContextPtr& context,
                                               double seconds) const {
    std::vector<double> converts;
    std::unique_ptr<AssembledMatrix<double>> A;
    try {
      for (int i = 0; i < conversions; ++i) {
        A.reset();
#if defined(__GLIBC__)
        malloc_trim(0);  // a solve converts once, into memory it has not used before
#endif
        Clock clock;
        // The table is of values in double; predictions count the bytes of others.
        A = make_matrix(*variant.entry, source, context,
                        detail::as_admitted(*variant.entry, variant.kernel, context->space(), {}),
                        variant.kernel);
        context->synchronize();
        converts.push_back(clock.lap());
        double spent = 0;
        for (const double c : converts) spent += c;
        if (spent > seconds * (1 - product_share)) break;
      }
    } catch (const FormatRefused&) { return {}; } catch (const OutOfMemory&) {
      return {};
    }
    Vector<double> x(context, source.cols()), y(context, source.rows());
    fill<double>(*context, 1.0, x);
    const double time = std::clamp(seconds * product_share, least_product_seconds, most_product_seconds);
    const Timing timing = measure(*context, [&] { A->apply(x, y); }, {.seconds = time});
    std::sort(converts.begin(), converts.end());
    return MeasuredFormat{variant.name, A->bytes(), timing.median,
                          converts[std::min<std::size_t>(1, converts.size() - 1)]};
  }

  // The cost of the order of a matrix in a random numbering, next to its product in csr. On a device it is found there,
  // or on the host if find_order() hands it over, and the device permutes the matrix. Empty if the memory does not
  // suffice.
  std::optional<MeasuredFormat> measure_order(const CsrMatrix<double>& csr, const ContextPtr& context) const {
    try {
      const PermutedMatrix<double> shuffled(host_, csr, Permutation(context, random_order(csr.rows())));
      const CsrMatrix<double>& source = shuffled.matrix();
      const auto A = make_matrix(find_format("csr"), source, context);
      Vector<double> x(context, source.cols()), y(context, source.rows());
      fill<double>(*context, 1.0, x);
      const Timing product = measure(*context, [&] { A->apply(x, y); }, {.seconds = least_product_seconds});
      std::vector<double> seconds;
      for (int i = 0; i < conversions; ++i) {
        Clock clock;
        (void)put_in_order(tuned_order, source, context);
        context->synchronize();
        seconds.push_back(clock.lap());
      }
      std::sort(seconds.begin(), seconds.end());
      return MeasuredFormat{fmt::format("order-{}", tuned_order), A->bytes(), product.median, seconds[1]};
    } catch (const OutOfMemory&) { return {}; }
  }

  void finish() const {
    if (arguments_.quiet) return;
    const std::size_t all = cases_.size() * contexts_.size();
    const std::size_t there = table_.matrices.size();
    print(fmt::format("{}: {} of {} matrices measured in {}{}\n", arguments_.output, there, all,
                      duration(clock_.total()), there < all ? "; the same command continues from here" : ""));
  }

  const TuneArguments& arguments_;
  std::vector<TuneCase> cases_ = tune_cases();
  std::vector<const FormatEntry*> named_;  // of --formats
  Progress progress_;
  ContextPtr host_;
  std::vector<ContextPtr> contexts_;
  TunedMachine table_;
  Clock clock_;
  std::size_t measurements_left_ = 0, measurements_ = 0;
};

}  // namespace

std::vector<TuneCase> tune_cases() {
  std::vector<TuneCase> cases;
  // Matrices that fit into the second level cache up to those that need main memory; rows of 5 to 80 entries.
  const double small[] = {120, 20, 12, 8, 10000, 10000, 20000, 12000};
  const double middle[] = {350, 45, 28, 16, 80000, 60000, 200000, 80000};
  const double large[] = {1000, 100, 64, 28, 400000, 300000, 1000000, 400000};
  for (const auto* size : {small, middle, large}) {
    const auto add = [&](const char* kind, double n, GeneratorParams more = {}, const char* note = "") {
      more["n"] = n;
      cases.push_back({fmt::format("{}{}-{:.0f}", kind, note, n), kind, std::move(more)});
    };
    add("poisson-2d", size[0]);
    add("poisson-3d", size[1]);
    add("poisson-3d", size[2], {{"points", 27}}, "-27");
    add("elasticity-3d", size[3]);
    add("random-spd", size[4]);
    add("graph-laplacian", size[5], {{"degree", 12}, {"exponent", 3.5}});
    add("banded", size[6], {{"lower", 6}, {"upper", 6}});
    // Like a matrix of an unstructured mesh: a few adjacent entries, within a band.
    add("artificial", size[7],
        {{"mean", 24}, {"deviation", 8}, {"bandwidth", 0.05}, {"neighbours", 1}, {"similarity", 0.7}});
  }
  return cases;
}

int tune(const TuneArguments& arguments) {
  if (!arguments.exported.empty() && !arguments.imported.empty())
    throw BadArgument(
        "--export and --import are given; a table is either written for others or taken from them");
  std::string done;
  if (!arguments.exported.empty()) done = export_table(arguments.output, arguments.exported);
  if (!arguments.imported.empty()) done = import_table(arguments.imported, arguments.output);
  if (done.empty()) return Tuner(arguments)();
  if (!arguments.quiet) print(done);
  return 0;
}

}  // namespace protean::apps
