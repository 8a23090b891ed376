#include "apps/compare/compare.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "apps/command/clock.hpp"
#include "apps/command/files.hpp"
#include "apps/command/interrupt.hpp"
#include "apps/command/lists.hpp"
#include "apps/compare/combinations.hpp"
#include "apps/compare/compare_report.hpp"
#include "apps/compare/rounds.hpp"
#include "apps/compare/selection.hpp"
#include "apps/machine/machine_file.hpp"
#include "apps/problem/engine_keys.hpp"
#include "apps/problem/input.hpp"
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
#include "preconditioners/fields/fields.hpp"
#include "solvers/options.hpp"
#include "systems/method_choice.hpp"

namespace protean::apps {
namespace {

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
    if (problem.settings.order != "none")
      fail(problem.place_of("order"),
           "protean compare takes the matrix as it is; write it in another order with `protean convert "
           "--order`, or remove the key (--set matrix.order=none)");
    const ProblemSystem system = make_system(host, problem);
    result_.rows = system.csr.rows(), result_.nonzeros = system.csr.nonzeros();
    read_preconditioner_files(host, problem, result_.rows);
    result_.read_seconds = clock_.total();
    resolve_method(*host, system.csr);
    symmetric_ = !first_asymmetry(*host, system.csr.pattern, system.csr.values);
    const ChosenMachine machine = choose_machine({});
    for (const Space space : spaces)
      if (const MeasuredRoof* const roof = machine.roof(space)) result_.roofs[space == Space::device] = *roof;
    const FormatChoice choice =
        choose_format(system.csr.pattern, machine.model(spaces.front()), question(spaces.front(), machine));
    result_.automatic_reason = choice.reason;
    ask(system.csr.pattern, spaces.front());
    for (const Space space : spaces) entries_in(space) = entries_for(system.csr.pattern, space, choice.id);
    note_formats_left_out(spaces);
    std::vector<SpaceSystem> places;
    for (const Space space : spaces) {
      places.push_back(put(system, host, space));
      stage("measuring the copy bandwidth");
      result_.copy_bandwidth[space == Space::device] = copy_bandwidth(places.back().context);
      if (space == Space::device) result_.lines_of_x = count_lines(system.csr.pattern);
      list_variants(space);
    }
    measure(spaces, places);
    note_presets_left_out();
    note_kernels_not_in_build();
    judge(result_, choice.id);
    judge_selectors(spaces.front());
    progress_.clear();
    return std::move(result_);
  }

 private:
  // What method and preconditioner `auto` are in a solve of this matrix.
  void resolve_method(const Context& host, const CsrMatrix<double>& csr) {
    SolveSettings& settings = result_.problem.settings;
    const bool automatic = settings.method == "auto", open = preconditioner_type(settings) == "auto";
    if (!automatic && !open) return;
    detail::MethodTraits traits = detail::method_traits(host, csr);
    if (const bool positive = traits.not_positive == 0;
        (!positive || !traits.symmetric) && settings.parts.empty()) {
      const detail::FieldsUse use = detail::auto_use_of_fields(
          host, csr, {traits.symmetric, positive}, preconditioner_type(settings), settings.preconditioning);
      traits.constraint = use == detail::FieldsUse::schur, traits.cells = use == detail::FieldsUse::pressure;
    }
    if (automatic)
      settings.method = detail::choose_method(
                            traits,
                            detail::preconditioner_traits(settings.preconditioner, settings.preconditioning,
                                                          settings.parts, settings.combine),
                            detail::basis_of(host, csr.rows(), sizeof(double), settings.solver.restart, 1))
                            .method;
    settings.solver = options_read_by(settings.method, settings.solver);
    if (open && traits.not_positive > 0 &&
        make_solver<double>(settings.method)->needs_symmetric_preconditioner())
      settings.preconditioner = "none";
  }

  // The choices of the selectors, which are compared, too.
  void ask(const SparsityPattern& pattern, Space space) {
    if (selection_.selectors.empty()) return;
    stage("asking the selectors");
    const ChosenMachine machine = choose_machine({});
    result_.selectors =
        ask_selectors(selection_.selectors, pattern, machine.model(space), question(space, machine));
  }

  // The question behind format auto. The machine must outlive it.
  ChoiceOptions question(Space space, const ChosenMachine& machine) const {
    ChoiceOptions options = choice_options(result_.problem, space);
    options.symmetric = symmetric_, options.machine = machine.table();
    return options;
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

  // A listed variant to which this preset is equal in this space; null if there is none.
  Variant* find_same(const FormatEntry& preset, const Kernel& kernel, Space space) {
    if (!preset.preset || !result_.problem.settings.parameters.all().empty()) return nullptr;
    const auto same =
        std::find_if(result_.variants.begin(), result_.variants.end(), [&](const Variant& other) {
          return other.space == space && other.kernel == kernel.name &&
                 detail::same_computation(find_format(other.format), preset, kernel);
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

  // The named formats, or the shortlist of this matrix with the format of the problem and the choice of `auto`.
  std::vector<const FormatEntry*> entries_for(const SparsityPattern& pattern, Space space,
                                              std::string_view automatic) const {
    if (!selection_.shortlisted) return selection_.entries;
    const Problem& problem = result_.problem;
    std::vector<const FormatEntry*> always{&find_format(automatic)};
    for (const SelectorVerdict& verdict : result_.selectors)
      if (space == (selection_.spaces.empty() ? problem.op.space : selection_.spaces.front()) &&
          !verdict.format.empty())
        always.push_back(&find_format(verdict.format));
    if (problem.settings.format != "auto") always.push_back(&find_format(problem.settings.format));
    const ChosenMachine machine = choose_machine({});
    const auto ranked = rank_formats(pattern, machine.model(space), question(space, machine));
    return shortlist(ranked, always, [&](const FormatEntry& entry) {
      const auto kernels = kernels_in(entry, space);
      return std::any_of(kernels.begin(), kernels.end(), [&](const Kernel& k) { return wanted(k); });
    });
  }

  void note_formats_left_out(const std::vector<Space>& spaces) {
    for (const Space space : spaces)
      if (entries_in(space).size() < catalogue().size() && selection_.shortlisted)
        result_.notes.push_back(
            fmt::format("{} of {} formats are compared on the {}: the ones that `format: auto` considers for "
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
    if (problem.settings.policy == "auto" || !problem.settings.schedule.empty())
      result_.notes.emplace_back(
          "`schedule` is not followed: each format is kept for its whole solve. `protean solve` changes "
          "formats");
    const OutputSpec& output = problem.output;
    if (output.any())
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

  void list_variants(Space space) {
    for (const FormatEntry* entry : entries_in(space)) {
      if (space == Space::host && entry->kernels.empty() && wanted({.name = "native"}))
        result_.variants.push_back(not_on_a_host(*entry));
      for (const Kernel& kernel : kernels_in(*entry, space)) {
        if (!wanted(kernel)) continue;
        if (Variant* const same = find_same(*entry, kernel, space)) {
          same->stands_for.push_back(std::string(entry->id));
          continue;
        }
        Variant variant;
        variant.format = entry->id, variant.kernel = kernel.name, variant.space = space;
        variant.deterministic = entry->traits.deterministic && kernel.deterministic;
        if (!kernel.unavailable.empty()) {
          variant.status = "refused", variant.why = kernel.unavailable;
          variant.not_in_build = selection_.kernels.empty();
        }
        result_.variants.push_back(std::move(variant));
      }
    }
  }

  void measure(const std::vector<Space>& spaces, const std::vector<SpaceSystem>& places) {
    std::vector<VariantRun> runs;
    for (Variant& variant : result_.variants) {
      if (!variant.status.empty()) continue;
      const auto place = std::find(spaces.begin(), spaces.end(), variant.space) - spaces.begin();
      runs.push_back({&variant, &find_format(variant.format), &places[static_cast<std::size_t>(place)]});
    }
    Rounds rounds(result_.problem, progress_, clock_, seconds_);
    rounds(runs);
    result_.interrupted = rounds.interrupted();
    result_.notes.insert(result_.notes.end(), rounds.notes().begin(), rounds.notes().end());
    result_.out_of_time = std::any_of(result_.variants.begin(), result_.variants.end(),
                                      [](const Variant& variant) { return variant.not_run == "budget"; });
    const auto cut = std::count_if(result_.variants.begin(), result_.variants.end(),
                                   [](const Variant& variant) { return variant.not_run == "budget"; });
    if (cut > 0)
      result_.notes.push_back(
          fmt::format("the budget of {} has left out the solves of {} of {} formats; a larger one "
                      "(--budget), or fewer formats (--formats), would compare them, too",
                      duration(seconds_), cut, runs.size()));
  }

  const CompareArguments& arguments_;
  const Selection& selection_;
  Progress& progress_;
  double seconds_;
  Clock clock_;
  Comparison result_;
  bool symmetric_ = false;                      // to the bit
  std::vector<const FormatEntry*> entries_[2];  // to compare on the host and on the device
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

// What is done with the problems of a suite, one by one, and written at the end.
class Comparisons {
 public:
  virtual ~Comparisons() = default;
  // Compares, and returns the table. seconds: a budget; 0: no limit.
  virtual std::string add(Problem problem, Progress& progress, double seconds) = 0;
  // Of all systems; empty if there is nothing to say.
  virtual std::string summary() const { return {}; }
  virtual std::string json(const std::vector<std::string>& broken, bool suite) const = 0;
  virtual std::string csv() const = 0;
  virtual std::string html() const = 0;
};

class FormatComparisons final : public Comparisons {
 public:
  explicit FormatComparisons(const CompareArguments& arguments)
      : arguments_(arguments), selection_(selection_of(arguments)) {}
  std::string add(Problem problem, Progress& progress, double seconds) override {
    done_.push_back(Comparer(arguments_, selection_, std::move(problem), progress, seconds)());
    return compare_table(done_.back());
  }
  std::string summary() const override {
    return selection_.selectors.empty() ? std::string() : summary_table(selector_summaries(done_));
  }
  std::string json(const std::vector<std::string>& broken, bool suite) const override {
    return compare_json(done_, broken, suite);
  }
  std::string csv() const override { return compare_csv(done_); }
  std::string html() const override { return compare_html(done_); }

 private:
  const CompareArguments& arguments_;
  const Selection selection_;
  std::vector<Comparison> done_;
};

class CombinationComparisons final : public Comparisons {
 public:
  explicit CombinationComparisons(const CompareArguments& arguments) : arguments_(arguments) {
    const auto refuse = [](const char* option, const char* why) {
      throw BadArgument(fmt::format("{} does not go with --preconditioners: {}", option, why));
    };
    if (!arguments.html.empty()) refuse("--html", "take --report or --csv");
    if (!arguments.selectors.empty()) refuse("--selectors", "selectors choose formats alone");
    if (arguments.kernels != "all") refuse("--kernels", "each format has its default kernel there");
    choice_.preconditioners = preconditioners_named(arguments.preconditioners);
    if (!arguments.formats.empty())
      for (const FormatEntry* entry : formats_named(arguments.formats))
        choice_.formats.emplace_back(entry->id);
    choice_.spaces = spaces(arguments.spaces);
  }
  std::string add(Problem problem, Progress& progress, double seconds) override {
    done_.push_back(compare_combinations(std::move(problem), choice_, arguments_.threads, progress, seconds));
    return combinations_table(done_.back());
  }
  std::string json(const std::vector<std::string>& broken, bool suite) const override {
    return combinations_json(done_, broken, suite);
  }
  std::string csv() const override { return combinations_csv(done_); }
  std::string html() const override { return {}; }  // refused above

 private:
  const CompareArguments& arguments_;
  CombinationChoice choice_;
  std::vector<Combinations> done_;
};

std::unique_ptr<Comparisons> comparisons_for(const CompareArguments& arguments) {
  if (arguments.preconditioners.empty()) return std::make_unique<FormatComparisons>(arguments);
  return std::make_unique<CombinationComparisons>(arguments);
}

}  // namespace

std::string Variant::name(bool with_space) const {
  std::string text = format;
  if (kernel != "native") text += " " + kernel;
  if (with_space && space == Space::device) text += " device";
  return text;
}

int compare(const CompareArguments& arguments) {
  const std::unique_ptr<Comparisons> done = comparisons_for(arguments);
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
      require_one_device(*problems.back().problem, "protean compare");
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
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const double left = arguments.budget > 0 ? std::max(arguments.budget - clock.total(), 1e-3) /
                                                   static_cast<double>(problems.size() - i)
                                             : 0;
    if (InterruptGuard::asked()) break;
    if (!problems[i].problem) continue;
    std::string table;
    try {
      table = done->add(std::move(*problems[i].problem), progress, left);
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
    if (!arguments.quiet) print_beside(taken, table);
  }
  progress.clear();
  if (const std::string summary = done->summary(); !arguments.quiet && suite.several && !summary.empty())
    print_beside(taken, summary);
  OutputWriter writer;
  const auto write = [&](const char* name, const std::string& path, const auto& text) {
    writer.write(
        name, path, [&] { write_file(path, text()); }, true);
  };
  write("--report", arguments.report, [&] { return done->json(broken, suite.several); });
  write("--csv", arguments.csv, [&] { return done->csv(); });
  write("--html", arguments.html, [&] { return done->html(); });
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
