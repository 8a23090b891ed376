#include "apps/compare/compare.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "apps/command/clock.hpp"
#include "apps/command/files.hpp"
#include "apps/command/interrupt.hpp"
#include "apps/command/lists.hpp"
#include "apps/compare/compare_report.hpp"
#include "apps/machine/machine_file.hpp"
#include "apps/problem/suite.hpp"
#include "apps/problem/system.hpp"
#include "apps/report/output.hpp"
#include "apps/report/progress.hpp"
#include "core/blas1.hpp"
#include "core/io/atomic_file.hpp"
#include "core/statistics.hpp"
#include "formats/catalogue.hpp"
#include "formats/choose.hpp"
#include "operators/kernel_admission.hpp"
#include "solvers/options.hpp"
#include "systems/method_choice.hpp"

namespace protean::apps {
namespace {

// The formats, kernels and spaces to compare; formats in the order of the catalogue.
struct Selection {
  std::vector<const FormatEntry*> entries;
  bool shortlisted = false;                    // of the entries, only those on the shortlist of a matrix
  std::set<std::string, std::less<>> kernels;  // empty: all
  std::vector<Space> spaces;
  std::vector<const FormatSelector*> selectors;
};

Selection select(const CompareArguments& arguments) {
  Selection selection;
  selection.shortlisted = arguments.formats.empty();
  selection.entries = formats_named(selection.shortlisted ? "all" : arguments.formats);
  std::set<std::string_view> known;
  for (const FormatEntry* entry : catalogue())
    for (const Space space : {Space::host, Space::device})
      for (const Kernel& kernel : kernels_in(*entry, space)) known.insert(kernel.name);
  const std::vector<std::string_view> names(known.begin(), known.end());
  if (arguments.kernels != "all")
    for (const std::string& kernel : words(arguments.kernels)) {
      if (!known.count(kernel))
        throw BadArgument(fmt::format("--kernels: there is no kernel '{}'; the kernels are {}.{}", kernel,
                                      fmt::join(names, ", "), did_you_mean(kernel, names)));
      selection.kernels.insert(kernel);
    }
  if (arguments.kernels != "all" && selection.kernels.empty())
    throw BadArgument(fmt::format("--kernels names no kernel; give {} separated by commas, or all",
                                  fmt::join(names, ", ")));
  selection.spaces = spaces(arguments.spaces);
  if (!arguments.selectors.empty()) selection.selectors = selectors_named(arguments.selectors);
  return selection;
}

// Keeps at most 400 points of a history, enough for a picture: when it is full, every second point is
// dropped.
class Recorder final : public SolveObserver {
 public:
  explicit Recorder(std::function<void(const IterationInfo&)> show) : show_(std::move(show)) {}
  bool on_iteration(const IterationInfo& info) override {
    last_ = {info.seconds, info.relative_residual};
    if (info.iteration % every_ == 0) {
      if (points_.size() == most) {
        std::size_t kept = 0;
        for (std::size_t i = 0; i < points_.size(); i += 2) points_[kept++] = points_[i];
        points_.resize(kept);
        every_ *= 2;
      }
      if (info.iteration % every_ == 0) points_.push_back(last_);
    }
    show_(info);
    return !InterruptGuard::asked();
  }
  std::vector<HistoryPoint> take() {
    if (!points_.empty() && points_.back().seconds != last_.seconds) points_.push_back(last_);
    return std::move(points_);
  }

 private:
  static constexpr std::size_t most = 400;
  std::function<void(const IterationInfo&)> show_;
  std::vector<HistoryPoint> points_;
  HistoryPoint last_;
  std::int64_t every_ = 1;
};

// The system in the memory of one space.
struct SpaceSystem {
  ContextPtr context;
  CsrMatrix<double> csr;
  Vector<double> b, x0;
};

class Comparer {
 public:
  Comparer(const CompareArguments& arguments, const Selection& selection, Problem problem, Progress& progress,
           double seconds)
      : arguments_(arguments), selection_(selection), progress_(progress), seconds_(seconds) {
    result_.problem = std::move(problem);
  }

  Comparison operator()() {
    Problem& problem = result_.problem;
    if (arguments_.threads > 0) problem.op.threads = arguments_.threads;
    CommandFiles files;
    files.reads(problem);
    files.require_inputs();
    const ContextPtr host = Context::host(problem.op.threads, {.deterministic = problem.op.deterministic});
    std::vector<Space> spaces = selection_.spaces;
    if (spaces.empty()) spaces.push_back(problem.op.space);
    result_.threads = host->threads();
    require_kernels(spaces);
    note_keys_not_followed();
    stage(problem.matrix.file ? "reading the matrix" : "making the matrix");
    if (problem.matrix.order != "none")
      fail(problem.matrix.order_place,
           "protean compare takes the matrix as it is; write it in another order with `protean convert "
           "--order`, or "
           "remove the key (--set matrix.order=none)");
    const ProblemSystem system = make_system(host, problem);
    result_.rows = system.csr.rows(), result_.nonzeros = system.csr.nonzeros();
    read_near_null_space(host, problem.preconditioner, result_.rows);
    result_.read_seconds = clock_.total();
    resolve_method(*host, system.csr);
    symmetric_ = !first_asymmetry(*host, system.csr.pattern, system.csr.values);
    const ChosenMachine machine = choose_machine({});
    for (const Space space : spaces)
      if (const MeasuredRoof* const roof = machine.roof(space)) result_.roofs[space == Space::device] = *roof;
    const FormatChoice choice = choose_format(system.csr.pattern, machine.model(spaces.front()),
                                              {.space = spaces.front(), .symmetric = symmetric_});
    result_.automatic_reason = choice.reason;
    ask(system.csr.pattern, spaces.front());

    for (const Space space : spaces) entries_in(space) = entries_for(system.csr.pattern, space, choice.id);
    note_formats_left_out(spaces);
    std::size_t left = 0;
    for (const Space space : spaces)
      for (const FormatEntry* entry : entries_in(space))
        left += static_cast<std::size_t>(std::count_if(
            kernels_in(*entry, space).begin(), kernels_in(*entry, space).end(),
            [&](const Kernel& kernel) { return wanted(kernel) && kernel.unavailable.empty(); }));
    count_ = left;
    std::vector<SpaceSystem> places;
    for (const Space space : spaces) {
      places.push_back(put(system, host, space));
      const SpaceSystem& place = places.back();
      stage("measuring the copy bandwidth");
      result_.copy_bandwidth[space == Space::device] = copy_bandwidth(place.context);
      if (space == Space::device) result_.lines_of_x = count_lines(system.csr.pattern);
      for (const FormatEntry* entry : entries_in(space)) {
        if (space == Space::host && entry->kernels.empty() && wanted({.name = "native"}))
          result_.variants.push_back(not_on_a_host(*entry));
        for (const Kernel& kernel : kernels_in(*entry, space)) {
          if (!wanted(kernel)) continue;
          if (Variant* const same = find_same(*entry, kernel, space)) {
            same->stands_for.push_back(std::string(entry->id));
            if (kernel.unavailable.empty()) --left;
            continue;
          }
          Variant variant;
          variant.format = entry->id, variant.kernel = kernel.name, variant.space = space;
          variant.deterministic = entry->traits.deterministic && kernel.deterministic;
          if (!kernel.unavailable.empty()) {
            variant.status = "refused", variant.why = kernel.unavailable;
            variant.not_in_build = selection_.kernels.empty();
          } else {
            run(variant, *entry, place, left);
            --left;
          }
          result_.variants.push_back(std::move(variant));
        }
      }
    }
    spend_the_rest(spaces, places);
    note_presets_left_out();
    note_kernels_not_in_build();
    find_best(choice.id);
    judge_selectors(spaces.front());
    progress_.clear();
    return std::move(result_);
  }

 private:
  // What method and preconditioner `auto` are in a solve of this matrix.
  void resolve_method(const Context& host, const CsrMatrix<double>& csr) {
    Problem& problem = result_.problem;
    const bool automatic = problem.solver.method == "auto";
    if (!automatic && problem.preconditioner.type != "auto") return;
    const detail::MethodTraits traits = detail::method_traits(host, csr);
    const PreconditionerSpec& M = problem.preconditioner;
    if (automatic)
      problem.solver.method =
          detail::choose_method(traits, false, detail::unsymmetric_preconditioner(M.type, M.parts, M.combine))
              .method;
    problem.solver.options = options_read_by(problem.solver.method, problem.solver.options);
    if (M.type == "auto" && traits.not_positive > 0 &&
        make_solver<double>(problem.solver.method)->needs_symmetric_preconditioner())
      problem.preconditioner.type = "none";
  }

  // The choices of the selectors, which are compared, too.
  void ask(const SparsityPattern& pattern, Space space) {
    if (selection_.selectors.empty()) return;
    stage("asking the selectors");
    const Problem& problem = result_.problem;
    const ChosenMachine machine = choose_machine({});
    const ChoiceOptions options{
        .space = space,
        .expected_iterations = problem.op.expected_iterations,
        .products_per_iteration = static_cast<double>(find_solver(problem.solver.method).products),
        .deterministic = problem.op.deterministic,
        .symmetric = symmetric_,
        .machine = machine.table()};
    result_.selectors = ask_selectors(selection_.selectors, pattern, machine.model(space), options);
  }

  // What the choices cost by the times of the comparison.
  void judge_selectors(Space space) {
    const std::vector<Variant>& variants = result_.variants;
    const auto runs = [&](std::string_view format) -> const Variant* {
      for (const Variant& variant : variants)
        if (variant.space == space && variant.kernel == "native" && variant.status == "converged" &&
            (variant.format == format || std::find(variant.stands_for.begin(), variant.stands_for.end(),
                                                   format) != variant.stands_for.end()))
          return &variant;
      return nullptr;
    };
    const Variant *best = nullptr, *const csr = runs("csr");
    for (const Variant& variant : variants)
      if (variant.space == space && variant.kernel == "native" && variant.status == "converged" &&
          (!best || variant.total() < best->total()))
        best = &variant;
    for (SelectorVerdict& verdict : result_.selectors) {
      if (verdict.format.empty()) continue;
      if (csr) verdict.look_products = verdict.look_seconds / csr->product.median;
      const Variant* const chosen = runs(verdict.format);
      if (chosen) {
        verdict.to_best = chosen->total() / best->total();
        if (csr) verdict.to_csr = chosen->total() / csr->total();
      } else {
        verdict.why = "no solve in this format has converged here";
      }
    }
  }

  // A variant that is listed already and is what this preset is in this space; null when there is none.
  Variant* find_same(const FormatEntry& preset, const Kernel& kernel, Space space) {
    if (!preset.preset || !result_.problem.op.parameters.all().empty()) return nullptr;
    const auto same =
        std::find_if(result_.variants.begin(), result_.variants.end(), [&](const Variant& other) {
          return other.space == space && other.kernel == kernel.name &&
                 same_computation(find_format(other.format), preset, kernel);
        });
    return same == result_.variants.end() ? nullptr : &*same;
  }

  void note_presets_left_out() {
    for (const Variant& variant : result_.variants)
      if (!variant.stands_for.empty())
        result_.notes.push_back(fmt::format(
            "{} {} on the {} stands for {}: the same arrays, kernel and parameters there", variant.format,
            variant.kernel, to_string(variant.space), fmt::join(variant.stands_for, ", ")));
  }

  void note_kernels_not_in_build() {
    std::map<std::pair<std::string, std::string>, int> formats;  // of a kernel and a reason
    for (const Variant& variant : result_.variants)
      if (variant.not_in_build) ++formats[{variant.kernel, variant.why}];
    for (const auto& [kernel, count] : formats)
      result_.notes.push_back(fmt::format("kernel {} of {} {} is not compared: {}", kernel.first, count,
                                          count == 1 ? "format" : "formats", kernel.second));
  }

  bool wanted(const Kernel& kernel) const {
    return selection_.kernels.empty() || selection_.kernels.count(kernel.name) > 0;
  }

  void stage(const std::string& text) { progress_.stage(text); }

  std::vector<const FormatEntry*>& entries_in(Space space) { return entries_[space == Space::device]; }

  // Those that were named, or the shortlist of this matrix with the format of the problem and that of `auto`.
  std::vector<const FormatEntry*> entries_for(const SparsityPattern& pattern, Space space,
                                              std::string_view automatic) const {
    if (!selection_.shortlisted) return selection_.entries;
    const Problem& problem = result_.problem;
    std::vector<const FormatEntry*> always{&find_format(automatic)};
    for (const SelectorVerdict& verdict : result_.selectors)
      if (space == (selection_.spaces.empty() ? problem.op.space : selection_.spaces.front()) &&
          !verdict.format.empty())
        always.push_back(&find_format(verdict.format));
    if (problem.op.format != "auto") always.push_back(&find_format(problem.op.format));
    const auto ranked = rank_formats(
        pattern, choose_machine({}).model(space),
        {.space = space,
         .expected_iterations = problem.op.expected_iterations,
         .products_per_iteration = static_cast<double>(find_solver(problem.solver.method).products),
         .deterministic = problem.op.deterministic,
         .symmetric = symmetric_});
    return shortlist(ranked, always, [&](const FormatEntry& entry) {
      const auto kernels = kernels_in(entry, space);
      return std::any_of(kernels.begin(), kernels.end(), [&](const Kernel& k) { return wanted(k); });
    });
  }

  void note_formats_left_out(const std::vector<Space>& spaces) {
    for (const Space space : spaces)
      if (entries_in(space).size() < catalogue().size() && selection_.shortlisted)
        result_.notes.push_back(
            fmt::format("{} of {} formats are compared on the {}: those that `format: auto` considers for "
                        "this matrix. --formats all compares all",
                        entries_in(space).size(), catalogue().size(), to_string(space)));
  }

  static Variant not_on_a_host(const FormatEntry& entry) {
    Variant variant;
    variant.format = entry.id, variant.kernel = "native", variant.space = Space::host;
    variant.deterministic = entry.traits.deterministic;
    variant.status = "refused", variant.why = detail::why_not_on_host(entry);
    return variant;
  }

  void require_kernels(const std::vector<Space>& spaces) const {
    for (const Space space : spaces)
      for (const FormatEntry* entry : selection_.entries)
        for (const Kernel& kernel : kernels_in(*entry, space))
          if (wanted(kernel)) return;
    if (selection_.entries.size() == 1)
      if (const FormatEntry* const entry = selection_.entries.front();
          spaces.front() == Space::host && entry->kernels.empty())
        throw BadArgument(fmt::format("--formats {}: format {} has no kernel on the host: {}",
                                      arguments_.formats, entry->id, detail::why_not_on_host(*entry)));
    throw BadArgument(fmt::format(
        "no format of --formats {} has a kernel of --kernels {} on the {}; `protean formats` lists both",
        selection_.shortlisted ? "all" : arguments_.formats, arguments_.kernels, to_string(spaces.front())));
  }

  // Notes the keys of the problem that `protean solve` follows and a comparison does not.
  void note_keys_not_followed() {
    const Problem& problem = result_.problem;
    if (problem.schedule.automatic || !problem.schedule.points.empty())
      result_.notes.emplace_back(
          "`schedule` is not followed: each format is kept for its whole solve. `protean solve` changes "
          "formats");
    const OutputSpec& output = problem.output;
    if (output.solution || output.report || output.history)
      result_.notes.emplace_back(
          "`output` is not written: `protean solve` writes those files. A comparison has --report, --csv and "
          "--html");
  }

  static SpaceSystem put(const ProblemSystem& system, const ContextPtr& host, Space space) {
    SpaceSystem place{host, system.csr, {}, {}};
    if (space == Space::device) {
      place.context = device_context({.deterministic = host->deterministic()});
      place.csr = upload(place.context, system.csr);
    }
    place.b = Vector<double>(place.context, system.b.size());
    place.x0 = Vector<double>(place.context, system.x0.size());
    copy<double>(*place.context, system.b, place.b);
    copy<double>(*place.context, system.x0, place.x0);
    return place;
  }

  // The seconds that this variant may take: an equal share of the time left for all.
  double share(std::size_t left) const {
    if (seconds_ <= 0) return std::numeric_limits<double>::infinity();
    return std::max(0.0, (seconds_ - clock_.total()) / static_cast<double>(std::max<std::size_t>(left, 1)));
  }

  // Solves that their share of the budget has cut get the time that the other formats have left, in equal shares, as
  // long as the shares grow.
  void spend_the_rest(const std::vector<Space>& spaces, const std::vector<SpaceSystem>& places) {
    constexpr double worth_it = 1.3;  // times the share before
    for (bool again = true; again;) {
      again = false;
      std::vector<Variant*> cut;
      for (Variant& variant : result_.variants)
        if (variant.not_run == "budget") cut.push_back(&variant);
      for (std::size_t i = 0; i < cut.size(); ++i) {
        const double seconds = share(cut.size() - i);
        if (InterruptGuard::asked() || seconds <= worth_it * given_[cut[i]->name(true)]) continue;
        const auto place = std::find(spaces.begin(), spaces.end(), cut[i]->space) - spaces.begin();
        Variant variant;
        variant.format = cut[i]->format, variant.kernel = cut[i]->kernel, variant.space = cut[i]->space;
        variant.deterministic = cut[i]->deterministic, variant.stands_for = cut[i]->stands_for;
        run(variant, find_format(variant.format), places[static_cast<std::size_t>(place)], cut.size() - i);
        *cut[i] = std::move(variant);
        again = true;
      }
    }
    result_.out_of_time = std::any_of(result_.variants.begin(), result_.variants.end(),
                                      [](const Variant& variant) { return variant.not_run == "budget"; });
  }

  void run(Variant& variant, const FormatEntry& entry, const SpaceSystem& place, std::size_t left) {
    const auto end = [&](const char* status, std::string why) {
      variant.status = status, variant.why = std::move(why);
    };
    if (InterruptGuard::asked()) {
      result_.interrupted = true;
      variant.not_run = "interrupted";
      return end("failed", "the comparison was interrupted before it");
    }
    const double seconds = share(left);
    if (seconds <= 0) {
      variant.not_run = "budget";
      return end("failed", fmt::format("the budget of {} was spent before it", duration(seconds_)));
    }
    given_[variant.name(true)] = seconds;
    const std::size_t done = count_ - left;
    std::string now = fmt::format("{} of {}: {}", done + 1, count_, variant.name(true));
    if (done > 0)
      now += fmt::format(", about {} left", duration((clock_.total() - result_.read_seconds) /
                                                     static_cast<double>(done) * static_cast<double>(left)));
    try {
      measure_variant(variant, entry, place, seconds, now);
    } catch (const FormatRefused& error) { end("refused", error.what()); } catch (const NotAvailable& error) {
      end("refused", error.what());
    } catch (const OutOfMemory& error) { end("refused", error.what()); } catch (const BadArgument& error) {
      end("refused", error.what());
    } catch (const Error& error) { end("failed", error.what()); }
  }

  // Fills in all that is measured of a variant, in at most about `seconds`. `now` describes it on the terminal.
  void measure_variant(Variant& variant, const FormatEntry& entry, const SpaceSystem& place, double seconds,
                       const std::string& now) {
    const Problem& problem = result_.problem;
    stage(now + ", converting");
    variant.parameters =
        resolve_params(entry, problem.op.format == entry.id ? problem.op.parameters : FormatParams{},
                       &find_kernel(entry, variant.kernel, place.context->space()));
    const Admission admission =
        admit(entry, *place.context, place.csr.pattern, variant.parameters, sizeof(double));
    variant.predicted_bytes = admission.bytes, variant.stored_values = admission.stored_values;
    if (!admission.ok) {
      variant.status = "refused", variant.why = admission.reason;
      return;
    }
    const auto A = measure_conversion(variant, entry, place, seconds);

    stage(now + ", products");
    Vector<double> y(place.context, place.csr.rows());
    variant.product =
        measure(*place.context, [&] { A->apply(place.b, y); }, {.seconds = std::min(seconds / 4, 0.5)});
    const auto M = measure_setup(variant, *A, seconds);
    measure_solve(variant, *A, M.get(), place, seconds);
  }

  // Three conversions, or one if it takes long. Each one allocates new memory, because the user pays for the
  // first access to new memory too.
  static std::unique_ptr<AssembledMatrix<double>> measure_conversion(Variant& variant,
                                                                     const FormatEntry& entry,
                                                                     const SpaceSystem& place,
                                                                     double seconds) {
    std::unique_ptr<AssembledMatrix<double>> A;
    std::vector<double> builds;
    Clock clock;
    do {
      A.reset();
      (void)clock.lap();
      A = make_matrix(entry, place.csr, place.context, variant.parameters, variant.kernel);
      place.context->synchronize();
      builds.push_back(clock.lap());
    } while (builds.size() < 3 && clock.total() < std::min(seconds / 8, 2.0) && !InterruptGuard::asked());
    variant.convert = timing_of(builds);
    variant.matrix_bytes = A->bytes();
    return A;
  }

  // The first setup may initialise a library. A user pays for that once, not in every solve.
  std::unique_ptr<Preconditioner<double>> measure_setup(Variant& variant, const AssembledMatrix<double>& A,
                                                        double seconds) const {
    const PreconditionerSpec& spec = result_.problem.preconditioner;
    std::unique_ptr<Preconditioner<double>> M;
    std::vector<double> setups;
    Clock clock;
    do {
      M.reset();
      (void)clock.lap();
      M = make_preconditioner(spec, A);
      if (M) M->ensure(A);
      A.context()->synchronize();
      setups.push_back(clock.lap());
    } while (setups.size() < 3 && setups.front() < seconds / 16);
    variant.setup = timing_of(setups).median;
    return M;
  }

  // Three solves, or fewer if they take long. The history is that of the fastest.
  void measure_solve(Variant& variant, const AssembledMatrix<double>& A, Preconditioner<double>* M,
                     const SpaceSystem& place, double seconds) {
    SolverOptions options = result_.problem.solver.options;
    // Of a comparison of host and device.
    if (place.context->space() == Space::host)
      for (const Option<SolverOptions>& option : solver_options())
        if (option.on_device) option.set(options, option.default_value());
    options.stopping.max_seconds = std::min(options.stopping.max_seconds, std::max(seconds * 0.75, 0.05));
    const auto solver = make_solver<double>(result_.problem.solver.method, options);
    std::vector<double> solves;
    SolveReport report;
    Vector<double> x(place.context, place.x0.size());
    const Clock clock;
    do {
      Recorder recorder([&](const IterationInfo& info) {
        if (progress_.shown()) progress_.iteration(info, options.stopping);
      });
      copy<double>(*place.context, place.x0, x);
      place.context->synchronize();
      report = solver->solve(A, place.b, x, M, &recorder);
      if (report.reason == StopReason::interrupted) {
        result_.interrupted = true;
        variant.status = "failed", variant.not_run = "interrupted";
        variant.why = "the comparison was interrupted in its solve";
        return;
      }
      const bool fastest = solves.empty() || report.seconds < *std::min_element(solves.begin(), solves.end());
      solves.push_back(report.seconds);
      if (fastest) variant.history = recorder.take();
    } while (solves.size() < 3 && clock.total() < std::min(seconds / 3, 2.0));
    variant.solve = timing_of(solves);
    variant.iterations = report.iterations, variant.steps = report.steps;
    variant.true_relative = report.true_relative;
    if (report.reason == StopReason::time_limit &&
        options.stopping.max_seconds < result_.problem.solver.options.stopping.max_seconds) {
      // Its times are not those of a solve, so they are not compared with others.
      variant.status = "failed", variant.not_run = "budget";
      variant.why = fmt::format(
          "its share of the budget, {}, ended its solve at iteration {}, relative residual {:.1e}",
          duration(seconds), report.iterations, report.true_relative);
      return;
    }
    variant.status = report.converged() ? "converged" : "not-converged";
    if (!report.converged())
      variant.why =
          fmt::format("{}{}{}", to_string(report.reason), report.detail.empty() ? "" : ": ", report.detail);
  }

  void find_best(std::string_view automatic) {
    std::vector<Variant>& variants = result_.variants;
    for (std::size_t i = 0; i < variants.size(); ++i) {
      Variant& variant = variants[i];
      const auto reference = std::find_if(variants.begin(), variants.end(), [&](const Variant& other) {
        return other.format == "csr" && other.kernel == "native" && other.space == variant.space;
      });
      if (variant.ran() && reference != variants.end() && reference->ran())
        variant.break_even = break_even(variant, *reference);
      if (variant.status == "converged" &&
          (result_.best < 0 || variant.total() < variants[static_cast<std::size_t>(result_.best)].total()))
        result_.best = static_cast<int>(i);
      if (variant.format == automatic && variant.kernel == "native" && result_.automatic < 0)
        result_.automatic = static_cast<int>(i);
    }
  }

  const CompareArguments& arguments_;
  const Selection& selection_;
  Progress& progress_;
  double seconds_;
  Clock clock_;
  Comparison result_;
  bool symmetric_ = false;                      // to the bit
  std::vector<const FormatEntry*> entries_[2];  // to compare on the host and on the device
  std::size_t count_ = 0;
  std::map<std::string, double> given_;  // seconds of its share of the budget, for each variant that was run
};

// One problem of a suite, or the only problem. All are read before any of them runs.
struct SuiteEntry {
  std::string file;
  std::optional<Problem> problem;  // empty: the file cannot be read or is not valid
};

// Checked before hours are spent on results that cannot be kept.
void require_outputs(const CompareArguments& arguments, const Suite& suite,
                     const std::vector<SuiteEntry>& problems) {
  CommandFiles files;
  if (suite.several) files.reads("the suite", arguments.problem);
  for (const SuiteEntry& entry : problems) {
    if (entry.problem)
      files.reads(*entry.problem);
    else
      files.reads("the problem file", entry.file);
  }
  files.writes("--report", arguments.report);
  files.writes("--csv", arguments.csv);
  files.writes("--html", arguments.html);
  files.require_outputs();
}

}  // namespace

std::string Variant::name(bool with_space) const {
  std::string text = format;
  if (kernel != "native") text += " " + kernel;
  if (with_space && space == Space::device) text += " device";
  return text;
}

std::optional<double> break_even(const Variant& variant, const Variant& reference) {
  const double more = (variant.convert.median + variant.setup) - (reference.convert.median + reference.setup);
  const double gain = reference.per_iteration() - variant.per_iteration();
  if (more <= 0 && gain >= 0) return 0;
  if (gain <= 0) return {};
  return std::max(0.0, more / gain);
}

int compare(const CompareArguments& arguments) {
  const Selection selection = select(arguments);
  const Suite suite = read_suite(arguments.problem, arguments.settings);
  std::vector<SuiteEntry> problems;
  std::vector<std::string> broken;
  const auto report_broken = [&](const std::string& file, const Error& error) {
    const std::string what = error.what();
    broken.push_back(what.starts_with(file) ? what : fmt::format("{}: {}", file, what));
    fmt::print(stderr, "protean: error: {}\n", broken.back());
  };
  for (const SuiteProblem& entry : suite.problems) {
    problems.push_back({entry.file, {}});
    try {
      problems.back().problem =
          suite.several || is_matrix_file(entry.file)
              ? read_problem(entry.file, entry.settings, arguments.options)
              : parse_problem(suite.text, entry.file, entry.settings, arguments.options);
    } catch (const Error& error) {
      if (!suite.several) throw;
      report_broken(entry.file, error);
    }
  }
  require_outputs(arguments, suite, problems);
  bool taken = false;
  for (const std::string* file : {&arguments.report, &arguments.csv, &arguments.html})
    taken = taken || *file == AtomicFile::standard_output;
  Progress progress(!arguments.quiet);
  const InterruptGuard guard;
  const Clock clock;
  std::vector<Comparison> done;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const double left = arguments.budget > 0 ? std::max(arguments.budget - clock.total(), 1e-3) /
                                                   static_cast<double>(problems.size() - i)
                                             : 0;
    if (InterruptGuard::asked()) break;
    if (!problems[i].problem) continue;
    try {
      done.push_back(Comparer(arguments, selection, std::move(*problems[i].problem), progress, left)());
    } catch (const Error& error) {
      progress.clear();
      if (!suite.several) {
        for (const std::string* file : {&arguments.report, &arguments.csv, &arguments.html})
          remove_old_report(*file);
        throw;
      }
      report_broken(problems[i].file, error);
      continue;
    }
    if (!arguments.quiet) print_beside(taken, compare_table(done.back()));
  }
  progress.clear();
  if (!arguments.quiet && suite.several && !selection.selectors.empty())
    print_beside(taken, summary_table(selector_summaries(done)));
  OutputWriter writer;
  const auto write = [&](const char* name, const std::string& path,
                         const std::function<std::string()>& text) {
    writer.write(
        name, path, [&] { write_file(path, text()); }, true);
  };
  write("--report", arguments.report, [&] { return compare_json(done, broken, suite.several); });
  write("--csv", arguments.csv, [&] { return compare_csv(done); });
  write("--html", arguments.html, [&] { return compare_html(done); });
  writer.require_all();
  if (!broken.empty()) {
    fmt::print(stderr, "protean: {} of {} problems of the suite could not be compared:\n", broken.size(),
               problems.size());
    for (const std::string& line : broken) fmt::print(stderr, "  {}\n", line);
  }
  if (InterruptGuard::asked()) return InterruptGuard::exit_code();
  return broken.empty() ? 0 : 1;
}

}  // namespace protean::apps
